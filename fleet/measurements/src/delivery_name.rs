//! Names of what is delivered.

use std::fmt;

use pmuscope_dataset::file_name;

/// The name of the files of a delivery: `web-1-8f3a90c2-00000000012345678901`. Names rise with time, and differ even if the
/// wall clock is set back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryName(String);

impl DeliveryName {
    /// What a host recorded until `end_ns` of its monotonic clock.
    #[must_use]
    pub fn new(host: &str, boot: Option<&str>, end_ns: u64) -> Self {
        let boot = boot.map_or("-", |id| id.split('-').next().unwrap_or("-"));
        Self(format!("{}-{boot}-{end_ns:020}", file_name(host)))
    }

    /// The same of something that is recorded beside bins.
    #[must_use]
    pub fn of(self, what: &str) -> Self {
        Self(format!("{}-{what}", self.0))
    }

    /// The id of the delivery.
    #[must_use]
    pub fn batch(&self) -> i64 {
        let mut first = [0; 8];
        first.copy_from_slice(&blake3::hash(self.0.as_bytes()).as_bytes()[..8]);
        i64::from_be_bytes(first)
    }
}

impl fmt::Display for DeliveryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_rise_with_time_and_have_ids_of_their_own() {
        let at = |ns| DeliveryName::new("web/1", Some("8f3a90c2-d41b"), ns);
        assert_eq!(at(7).to_string(), "web_1-8f3a90c2-00000000000000000007");
        assert!(at(9).to_string() < at(10).to_string());
        assert_eq!(at(7).batch(), at(7).batch());
        assert_ne!(at(7).batch(), at(8).batch());
        assert_ne!(at(7).batch(), at(7).of("off-cpu").batch());
    }
}
