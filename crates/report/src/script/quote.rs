//! Foreign text for where it goes.

use crate::escape;

/// Appends a JSON string that is harmless when printed, too.
pub(super) fn json(out: &mut String, text: &str) {
    // Strings cannot fail to serialise.
    out.push_str(&serde_json::to_string(&escape(text)).unwrap_or_default());
}

/// Appends a field of CSV (RFC 4180): in quotes where it needs them.
pub(super) fn csv(out: &mut String, text: &str) {
    let text = escape(text);
    // A spreadsheet takes what starts so for a formula.
    let formula = text.starts_with(['=', '+', '-', '@']);
    if !formula && !text.contains([',', '"', '\n']) {
        return out.push_str(&text);
    }
    out.push('"');
    if formula {
        out.push('\'');
    }
    out.push_str(&text.replace('"', "\"\""));
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::csv;

    #[test]
    fn commas_quotes_and_formulas_are_quoted() {
        let quoted = |text: &str| {
            let mut out = String::new();
            csv(&mut out, text);
            out
        };
        assert_eq!(quoted("std::vec<T>"), "std::vec<T>");
        assert_eq!(quoted("f(a, b)"), "\"f(a, b)\"");
        assert_eq!(quoted("say \"x\",y"), "\"say \"\"x\"\",y\"");
        assert_eq!(quoted("=1+1"), "\"'=1+1\"");
        assert_eq!(quoted("a\nb"), "a\\nb");
    }
}
