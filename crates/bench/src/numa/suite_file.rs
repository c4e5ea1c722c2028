//! Suites of one's own, in a TOML file.
//!
//! ```toml
//! seconds = 30                # of bandwidth tests
//! limit = 60                  # of convergence tests
//!
//! [[test]]
//! name = "two-services"
//! kind = "convergence"        # or bandwidth
//! processes = 2
//! threads = 3
//! process = "512M"            # or thread, global, process-locked
//! access = "both"             # as pmuscope workload memory --access; so are order, first-touch, thp
//! ```

use pmuscope_workloads::memory::{Access, FirstTouch, Options, Order, Sizes, Thp};
use serde::Deserialize;

use super::suite::{Placed, Question, Suite, Test};

/// Tests, with the seconds of a bandwidth test and the most of a convergence test.
pub type Own = (Vec<Test>, (f64, f64));

/// Why a file is no suite.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// Not TOML, or with fields that are not known.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A test that cannot be.
    #[error("test {name}: {what}")]
    Test {
        /// Its name.
        name: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// No test.
    #[error("it has no [[test]]")]
    Empty,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seconds: Option<f64>,
    limit: Option<f64>,
    #[serde(default)]
    test: Vec<SuiteEntry>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindName {
    Convergence,
    Bandwidth,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PlacedName {
    Local,
    Remote,
    Cross,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SuiteEntry {
    name: String,
    kind: KindName,
    #[serde(default = "one")]
    processes: usize,
    #[serde(default = "one")]
    threads: usize,
    global: Option<String>,
    process: Option<String>,
    process_locked: Option<String>,
    thread: Option<String>,
    access: Option<Access>,
    order: Option<Order>,
    first_touch: Option<FirstTouch>,
    thp: Option<Thp>,
    placed: Option<PlacedName>,
    #[serde(default)]
    reduce: bool,
    phases: Option<u64>,
}

fn one() -> usize {
    1
}

/// Reads a suite. `bytes` reads a size with its unit.
///
/// # Errors
/// Names what is wrong.
pub fn own(
    text: &str,
    bytes: impl Fn(&str, &str) -> Result<u64, String>,
) -> Result<Own, SuiteError> {
    let file: File = toml::from_str(text)?;
    if file.test.is_empty() {
        return Err(SuiteError::Empty);
    }
    let (seconds, limit) = Suite::Standard.seconds();
    let mut tests: Vec<Test> = Vec::new();
    for entry in file.test {
        let name = entry.name.clone();
        let test =
            entry.test(&bytes).map_err(|what| SuiteError::Test { name: name.clone(), what })?;
        if tests.iter().any(|other| other.name == name) {
            let what = "there are two tests of this name, whose results could not be distinguished"
                .to_owned();
            return Err(SuiteError::Test { name, what });
        }
        tests.push(test);
    }
    Ok((tests, (file.seconds.unwrap_or(seconds), file.limit.unwrap_or(limit))))
}

impl SuiteEntry {
    fn test(self, bytes: &impl Fn(&str, &str) -> Result<u64, String>) -> Result<Test, String> {
        let size = |field: &str, text: &Option<String>| {
            text.as_deref().map_or(Ok(0), |text| bytes(field, text))
        };
        let defaults = Options::default();
        let options = Options {
            processes: self.processes,
            threads: self.threads,
            sizes: Sizes {
                global: size("global", &self.global)?,
                process: size("process", &self.process)?,
                locked: size("process-locked", &self.process_locked)?,
                thread: size("thread", &self.thread)?,
            },
            access: self.access.unwrap_or(defaults.access),
            order: self.order.unwrap_or(defaults.order),
            first_touch: self.first_touch.unwrap_or(FirstTouch::Node0),
            thp: self.thp.unwrap_or(defaults.thp),
            reduce: self.reduce,
            phases: self.phases.unwrap_or(1),
            ..defaults
        };
        options.check().map_err(|error| error.to_string())?;
        Ok(Test {
            name: self.name,
            kind: match self.kind {
                KindName::Convergence => Question::Convergence,
                KindName::Bandwidth => Question::Bandwidth,
            },
            placed: self.placed.map(|placed| match placed {
                PlacedName::Local => Placed::Local,
                PlacedName::Remote => Placed::Remote,
                PlacedName::Cross => Placed::Cross,
            }),
            options,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Own, SuiteError> {
        own(text, |field, text| {
            let mib = text.strip_suffix('M').and_then(|number| number.parse::<u64>().ok());
            mib.map(|mib| mib << 20).ok_or_else(|| format!("{field}: {text}"))
        })
    }

    #[test]
    fn a_suite_is_read() {
        let text = "limit = 5\n[[test]]\nname = \"a\"\nkind = \"convergence\"\nprocesses = 2\n\
                    threads = 3\nprocess = \"64M\"\naccess = \"both\"\nplaced = \"cross\"\n";
        let (tests, seconds) = read(text).unwrap();
        assert_eq!(seconds, (60.0, 5.0));
        let test = &tests[0];
        assert_eq!(
            (&test.name[..], test.kind, test.placed),
            ("a", Question::Convergence, Some(Placed::Cross))
        );
        assert_eq!((test.options.tasks(), test.options.sizes.process), (6, 64 << 20));
        assert_eq!(test.options.access, Access::Both);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        let test = |more: &str| format!("[[test]]\nname = \"a\"\nkind = \"bandwidth\"\n{more}");
        assert!(error("").contains("[[test]]"));
        assert!(error("speed = 3").contains("speed"));
        assert!(error(&test("color = 1")).contains("color"));
        assert!(error(&test("")).contains("test a: "), "{}", error(&test("")));
        assert!(error(&test("thread = \"1X\"")).contains("thread: 1X"));
        assert!(error(&test("thread = \"1M\"\naccess = \"eat\"")).contains("eat"));
        let twice = test("thread = \"1M\"\n").repeat(2);
        assert!(error(&twice).contains("two tests of this name"), "{}", error(&twice));
    }
}
