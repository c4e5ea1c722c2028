//! Metrics: names and units of formulas, from a text that users can extend.

mod codes;
mod formula;
mod needs;

use std::collections::HashMap;

use thiserror::Error;

pub use codes::name_of_code;
pub use formula::{Formula, FormulaError, Variable};
pub use needs::{Need, NeededEvent};

/// The metrics that come with the program.
const BUILTIN: &str = include_str!("../../data/metrics.txt");

/// A metric of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Head of its column.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// What it tells, in words; may be empty.
    pub about: String,
    /// The group it is listed in.
    pub group: String,
    /// Ways to compute it: the first one counts whose events were all counted.
    pub formulas: Vec<Formula>,
}

/// Why a text is no list of metrics.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {why}")]
pub struct MetricsError {
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: Wrong,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Wrong {
    /// It is neither a group, nor an alias, nor a metric.
    #[error("expected NAME [unit] = FORMULA, [group], or alias NAME = EVENT, EVENT")]
    Form,
    /// A metric without a group above it.
    #[error("{0} belongs to no group. Try: a line such as [mine] above it")]
    NoGroup(String),
    /// A formula that cannot be read.
    #[error("formula of {name}: {why}")]
    Formula {
        /// The metric.
        name: String,
        /// Why.
        why: FormulaError,
    },
}

/// A list of metrics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// In the order of their first lines.
    pub list: Vec<Metric>,
    /// Names that other names stand for.
    aliases: HashMap<String, String>,
}

impl Metrics {
    /// The metrics that come with the program.
    #[must_use]
    pub fn builtin() -> Self {
        let mut metrics = Self::default();
        // A test reads it.
        let _ = metrics.add(BUILTIN);
        metrics
    }

    /// Reads more of them. What they name anew replaces what had that name before.
    ///
    /// # Errors
    /// The first line that is none; nothing is changed then.
    pub fn add(&mut self, text: &str) -> Result<(), MetricsError> {
        let mut new = Self::default();
        let mut group = None;
        for (line, number) in text.lines().zip(1..) {
            let wrong = |why| MetricsError { line: number, why };
            new.line(line, &mut group).map_err(wrong)?;
        }
        self.list.retain(|old| !new.list.iter().any(|one| one.name == old.name));
        self.list.append(&mut new.list);
        self.aliases.extend(new.aliases);
        Ok(())
    }

    fn line(&mut self, line: &str, group: &mut Option<String>) -> Result<(), Wrong> {
        let (line, about) = line.split_once('#').unwrap_or((line, ""));
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            *group = Some(name.trim().to_owned());
            return Ok(());
        }
        let (head, text) = line.split_once(" = ").ok_or(Wrong::Form)?;
        if let Some(name) = head.strip_prefix("alias ") {
            for other in text.split(',') {
                self.aliases.insert(other.trim().to_lowercase(), name.trim().to_lowercase());
            }
            return Ok(());
        }
        let (name, unit) = match head.split_once('[') {
            Some((name, unit)) => {
                (name.trim(), unit.trim().strip_suffix(']').ok_or(Wrong::Form)?.trim())
            }
            None => (head.trim(), ""),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(Wrong::Form);
        }
        let formula =
            Formula::parse(text).map_err(|why| Wrong::Formula { name: name.to_owned(), why })?;
        if let Some(known) = self.list.iter_mut().find(|known| known.name == name) {
            known.formulas.push(formula);
            return Ok(());
        }
        let group = group.clone().ok_or_else(|| Wrong::NoGroup(name.to_owned()))?;
        self.list.push(Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            about: about.trim().to_owned(),
            group,
            formulas: vec![formula],
        });
        Ok(())
    }

    /// The name that stands for an event, however a recording calls it: without modifiers, in small
    /// letters, without its PMU, and by [aliases](self).
    #[must_use]
    pub fn canonical(&self, event: &str) -> String {
        let mut name = event.trim().to_lowercase();
        if let Some((pmu, rest)) = name.split_once('/') {
            let terms = rest.split('/').next().unwrap_or_default();
            let named = terms.split(',').find(|term| !term.is_empty() && !term.contains('='));
            // cycles/period=300/ is cycles, cpu/cycles/ too.
            name = named.unwrap_or(pmu).to_owned();
        } else if let Some((base, _)) = name.split_once(':') {
            name = base.to_owned();
        }
        self.aliases.get(&name).cloned().unwrap_or(name)
    }

    /// Those with these names or of these groups, in the order asked for, each once; `all` are all.
    ///
    /// # Errors
    /// A name that is neither.
    pub fn chosen<'a>(&self, names: &[&'a str]) -> Result<Vec<&Metric>, &'a str> {
        let mut chosen: Vec<&Metric> = Vec::new();
        for &name in names {
            let before = chosen.len();
            let is = |one: &&Metric| name == "all" || one.name == name || one.group == name;
            let mut known = false;
            for one in self.list.iter().filter(is) {
                known = true;
                if !chosen[..before].iter().any(|other| other.name == one.name) {
                    chosen.push(one);
                }
            }
            if !known {
                return Err(name);
            }
        }
        Ok(chosen)
    }

    /// Groups, in their order.
    #[must_use]
    pub fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for one in &self.list {
            if !groups.contains(&&one.group[..]) {
                groups.push(&one.group);
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_that_comes_along_can_be_read() {
        let mut metrics = Metrics::default();
        assert_eq!(metrics.add(BUILTIN), Ok(()));
        assert_eq!(metrics, Metrics::builtin());
        let basic: Vec<&str> =
            metrics.chosen(&["basic"]).unwrap().iter().map(|one| &one.name[..]).collect();
        let columns = ["CPI", "BM/KI", "CM/KI", "%CM", "%CY", "%I", "%BM", "%L1DA", "%L1DM"];
        assert_eq!(basic, columns);
        assert!(
            metrics
                .list
                .iter()
                .all(|one| !one.unit.is_empty() && !one.about.is_empty()
                    || one.name.starts_with('%'))
        );
    }

    #[test]
    fn a_users_list_adds_and_replaces() {
        let mut metrics = Metrics::builtin();
        let number = metrics.list.len();
        metrics.add("[mine]\nCPI = 2 * cycles / instructions\nX [/s] = a # what it is").unwrap();
        assert_eq!(metrics.list.len(), number + 1);
        let mine = metrics.chosen(&["mine", "CPI"]).unwrap();
        let shown: Vec<String> = mine.iter().map(|one| one.formulas[0].to_string()).collect();
        assert_eq!(shown, ["2 * cycles / instructions", "a"]);
        assert_eq!((&mine[1].unit[..], &mine[1].about[..]), ("/s", "what it is"));
        assert_eq!(metrics.chosen(&["CPI", "nonsense"]), Err("nonsense"));
        assert_eq!(metrics.chosen(&["all"]).unwrap().len(), number + 1);
        assert_eq!(metrics.groups().last(), Some(&"mine"));
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| Metrics::default().add(text).unwrap_err().to_string();
        assert_eq!(
            error("# x\n\nCPI = a"),
            "line 3: CPI belongs to no group. Try: a line such as [mine] above it"
        );
        assert_eq!(
            error("[a]\nCPI = a /"),
            "line 2: formula of CPI: it ends where a number, an event or ( is expected"
        );
        assert!(error("CPI").contains("expected NAME [unit] = FORMULA"));
    }

    #[test]
    fn events_are_known_however_they_were_written() {
        let metrics = Metrics::builtin();
        for (name, is) in [
            ("cycles:u", "cycles"),
            ("cycles/period=300/uS", "cycles"),
            ("cpu/cycles/u", "cycles"),
            ("cpu_core/inst_retired.any,period=3/", "instructions"),
            ("L1D_CACHE_REFILL", "cache-misses"),
            ("armv8_pmuv3_0/stall_backend/", "stalled-cycles-backend"),
            ("L1-dcache-loads", "l1-dcache-loads"),
        ] {
            assert_eq!(metrics.canonical(name), is, "{name}");
        }
    }
}
