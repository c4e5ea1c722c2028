//! What to type.

use std::fmt;

use crate::Facts;

/// What changes a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// A kernel setting. In a container it belongs to the host.
    Sysctl {
        /// Its name: `kernel.perf_event_paranoid`.
        name: &'static str,
        /// The value that is enough.
        value: i64,
        /// Whether it is to be typed on the host of a container.
        on_host: bool,
    },
    /// A command, or what to set where there is none.
    Text(String),
}

impl Fix {
    pub(crate) fn sysctl(facts: &Facts, name: &'static str, value: i64) -> Self {
        Self::Sysctl { name, value, on_host: facts.virtualization.is_contained() }
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Of two fixes of one cause the one that is enough for both. For the settings used here a lower
    /// value allows more.
    pub(crate) fn stronger(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (&first, &second) {
            (
                Some(Self::Sysctl { name: a, value: low, .. }),
                Some(Self::Sysctl { name: b, value: high, .. }),
            ) if a == b && high < low => second,
            (None, _) => second,
            _ => first,
        }
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl { name, value, on_host } => {
                let place = if *on_host { "on the host: " } else { "" };
                write!(f, "{place}sudo sysctl {name}={value}")
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}
