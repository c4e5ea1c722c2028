//! How many rows are shown.

use std::str::FromStr;

/// A number of rows.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    /// All of them.
    All,
    /// This number at most.
    Rows(usize),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        text.parse().map(Self::Rows).map_err(|_| "use a number of rows or \"all\"".into())
    }
}

impl Limit {
    /// Rows to show; `default` where no limit is given.
    pub fn rows(limit: Option<Self>, default: Option<usize>) -> Option<usize> {
        match limit {
            Some(Self::All) => None,
            Some(Self::Rows(rows)) => Some(rows),
            None => default,
        }
    }
}
