//! Labels of hosts: what a host is, in the words of those who run it.

use std::collections::BTreeMap;

/// Labels of a host at most: they are for groups of hosts, not for each.
const MOST: usize = 32;
/// Letters of a name or value at most.
const LONGEST: usize = 100;

/// What cannot be a label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// A name or a value.
    #[error(
        "label {0}: names and values have 1 to {LONGEST} letters, digits, and - _ . / : only. Try: team=payments"
    )]
    Text(String),
    /// It has no value.
    #[error("label {0}: no value. Try: NAME=VALUE, such as team=payments")]
    NoValue(String),
    /// Their number.
    #[error("{0} labels: a host has {MOST} at most")]
    TooMany(usize),
}

/// Names and values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// These, if they can be labels.
    ///
    /// # Errors
    /// [`LabelError`] for the first that cannot.
    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, LabelError> {
        for (name, value) in &labels {
            if !is_plain(name) || !is_plain(value) {
                return Err(LabelError::Text(format!("{name}={value}")));
            }
        }
        if labels.len() > MOST {
            return Err(LabelError::TooMany(labels.len()));
        }
        Ok(Self(labels))
    }

    /// One of a command line, `team=payments`.
    ///
    /// # Errors
    /// [`LabelError`].
    pub fn parse(text: &str) -> Result<(String, String), LabelError> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| LabelError::NoValue(text.to_owned()))?;
        if !is_plain(name) || !is_plain(value) {
            return Err(LabelError::Text(text.to_owned()));
        }
        Ok((name.to_owned(), value.to_owned()))
    }

    /// As the column `labels` has them; `None` without any.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let all: String = self.0.iter().map(|(name, value)| format!("{name}={value};")).collect();
        (!all.is_empty()).then(|| format!(";{all}"))
    }
}

/// Nothing that would have to be escaped in a text or in SQL.
fn is_plain(text: &str) -> bool {
    let fits = |letter: char| letter.is_alphanumeric() || "-_./:".contains(letter);
    (1..=LONGEST).contains(&text.chars().count()) && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_their_text_and_nothing_else_is() {
        let pairs = [("team", "payments"), ("region", "eu")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let labels = Labels::new(pairs.into()).unwrap();
        assert_eq!(labels.text().as_deref(), Some(";region=eu;team=payments;"));
        assert_eq!(Labels::default().text(), None);
        assert_eq!(Labels::parse("team=payments"), Ok(("team".into(), "payments".into())));
        for wrong in ["team", "=a", "team=", "team=a;b=c", "team=a=b", "te am=a", "a=\n"] {
            let error = Labels::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("Try: "), "{wrong}: {error}");
        }
        let many = (0..33).map(|number| (number.to_string(), "a".to_owned())).collect();
        assert_eq!(Labels::new(many), Err(LabelError::TooMany(33)));
        let long = [("a".repeat(101), "a".to_owned())];
        assert!(matches!(Labels::new(long.into()), Err(LabelError::Text(_))));
    }
}
