//! Figures out of what a program prints.

use regex::{Regex, RegexBuilder};

/// Bounds what a pattern may cost to compile.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// A figure to look for: the last match counts, its first group is the number.
#[derive(Debug, Clone)]
pub struct Extract {
    /// Name of the metric.
    pub metric: String,
    /// Its unit; empty where unknown.
    pub unit: String,
    pattern: Regex,
}

/// Why a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// Not a regular expression.
    #[error("{0}")]
    Pattern(#[from] regex::Error),
    /// No group to take the number from.
    #[error("{0:?} has no group. Try: parentheses around the number, as in 'Time = ([0-9.]+)'")]
    NoGroup(String),
    /// `NAME=REGEX` without name or `=`.
    #[error("{0:?}: expected NAME=REGEX, as in 'mops=Mop/s total += ([0-9.]+)'")]
    NoName(String),
}

impl Extract {
    /// Looks for `pattern`; `^` and `$` match at lines.
    ///
    /// # Errors
    /// If the pattern is not a regular expression with a group.
    pub fn new(metric: &str, unit: &str, pattern: &str) -> Result<Self, ExtractError> {
        let compiled =
            RegexBuilder::new(pattern).multi_line(true).size_limit(MAX_COMPILED_BYTES).build()?;
        if compiled.captures_len() < 2 {
            return Err(ExtractError::NoGroup(pattern.to_owned()));
        }
        Ok(Self { metric: metric.to_owned(), unit: unit.to_owned(), pattern: compiled })
    }

    /// `NAME=REGEX`.
    ///
    /// # Errors
    /// As [`Extract::new`], or without a name.
    pub fn named(text: &str) -> Result<Self, ExtractError> {
        match text.split_once('=') {
            Some((name, pattern)) if !name.trim().is_empty() => Self::new(name.trim(), "", pattern),
            _ => Err(ExtractError::NoName(text.to_owned())),
        }
    }

    /// The number in `output`, or why there is none.
    ///
    /// # Errors
    /// A sentence for the `why` of a value.
    pub fn find(&self, output: &str) -> Result<f64, String> {
        let found = self.pattern.captures_iter(output).last();
        let group = found.as_ref().and_then(|captures| captures.get(1));
        let text =
            group.ok_or_else(|| format!("no output matches {}", self.pattern))?.as_str().trim();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(format!("{:?}, matched by {}, is not a number", cut(text), self.pattern)),
        }
    }
}

/// A number has fewer characters.
fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NPB: &str = " BT Benchmark Completed.\n Time in seconds =                    10.87\n \
                       Mop/s total     =                 64608.74\n";

    #[test]
    fn finds_what_the_nas_benchmarks_print() {
        let time = Extract::new("time", "s", r"Time in seconds += +([0-9.]+)").unwrap();
        assert_eq!(time.find(NPB), Ok(10.87));
        let mops = Extract::named("mops=Mop/s total +=(.*)$").unwrap();
        assert_eq!((mops.metric.as_str(), mops.find(NPB)), ("mops", Ok(64608.74)));
    }

    #[test]
    fn the_last_match_counts() {
        let steps = Extract::named("n=step ([0-9]+)").unwrap();
        assert_eq!(steps.find("step 1\nstep 2\n"), Ok(2.0));
    }

    #[test]
    fn says_why_there_is_no_number() {
        let time = Extract::named("t=time (\\S+)").unwrap();
        assert!(time.find("nothing").unwrap_err().contains("no output matches time"));
        assert!(time.find("time soon").unwrap_err().contains("\"soon\""));
        assert!(time.find("time inf").is_err());
    }

    #[test]
    fn useless_patterns_are_refused() {
        assert!(Extract::named("t=time").unwrap_err().to_string().contains("parentheses"));
        assert!(Extract::named("=(x)").unwrap_err().to_string().contains("NAME=REGEX"));
        assert!(matches!(Extract::named("t=(x"), Err(ExtractError::Pattern(_))));
        assert!(Extract::named("t=(a{9999}){9999}").is_err());
    }
}
