//! Notices about a recording in parts, so that the caller can leave out the cause.

/// What a reader of a recording should see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What is so, without a full stop.
    pub what: String,
    /// Why, as sentences without the last full stop.
    pub cause: Option<&'static str>,
    /// What to type.
    pub advice: Option<&'static str>,
}

impl Notice {
    /// Without the cause, where there is advice: that is what a reader needs first.
    #[must_use]
    pub fn in_short(&self) -> Self {
        let cause = self.cause.filter(|_| self.advice.is_none());
        Self { cause, ..self.clone() }
    }
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        self.cause.map_or(Ok(()), |cause| write!(f, ". {cause}"))?;
        self.advice.map_or(Ok(()), |advice| write!(f, ". Try: {advice}"))
    }
}

impl From<String> for Notice {
    fn from(what: String) -> Self {
        Self { what, cause: None, advice: None }
    }
}

#[cfg(test)]
mod tests {
    use super::Notice;

    #[test]
    fn the_cause_gives_way_to_advice() {
        let both = Notice { what: "A".into(), cause: Some("As B"), advice: Some("-c") };
        assert_eq!(both.to_string(), "A. As B. Try: -c");
        assert_eq!(both.in_short().to_string(), "A. Try: -c");
        let why = Notice { advice: None, ..both };
        assert_eq!(why.in_short().to_string(), "A. As B");
        assert_eq!(Notice::from("A. B".to_owned()).in_short().to_string(), "A. B");
    }
}
