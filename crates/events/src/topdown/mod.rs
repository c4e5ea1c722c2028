//! Top-down analysis: ways to tell where the slots of a core's pipeline go, and which of them a machine has
//! the events for.
//!
//! A method is a tree of categories of two levels, each with formulas of events and of other categories;
//! they come from a text (`data/topdown.txt`), which names their sources.

mod fit;

use crate::metrics::{Formula, Metrics};

pub use fit::{Fitted, Unfit, fit};

/// The methods that come with the program.
const BUILTIN: &str = include_str!("../../data/topdown.txt");
/// Slots in a cycle, as the PMU tells.
pub const SLOTS_PER_CYCLE: &str = "slots-per-cycle";
/// 1 where cores run two threads.
pub const SMT: &str = "smt";
/// What every run counts, and all else is divided by.
pub const CYCLES: &str = "cycles";

/// A way to tell where slots go.
#[derive(Debug, Clone, PartialEq)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// For which CPUs, in words.
    pub about: String,
    /// Events that are counted as one group, the first one as its leader.
    pub together: Vec<String>,
    /// Level 1 first, as the text has them.
    pub categories: Vec<Category>,
}

/// A share of all slots.
#[derive(Debug, Clone, PartialEq)]
pub struct Category {
    /// `backend`, `backend.memory`.
    pub name: String,
    /// What slots did or waited for, in words.
    pub about: String,
    /// Ways to compute it; the first one counts whose events are all there.
    pub formulas: Vec<Formula>,
}

impl Category {
    /// The category that it is a part of; `None` on level 1.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        Some(self.name.split_once('.')?.0)
    }
}

/// What a variable of a formula stands for.
#[derive(Debug, Clone, Copy)]
pub enum Meaning<'a> {
    /// The share of another category.
    Category(&'a Category),
    /// [`SLOTS_PER_CYCLE`], [`SMT`].
    Constant,
    /// A count.
    Event,
}

impl Method {
    /// What a variable stands for.
    #[must_use]
    pub fn meaning(&self, variable: &str) -> Meaning<'_> {
        match self.category(variable) {
            Some(category) => Meaning::Category(category),
            None if [SLOTS_PER_CYCLE, SMT].contains(&variable) => Meaning::Constant,
            None => Meaning::Event,
        }
    }

    /// The category of that name.
    #[must_use]
    pub fn category(&self, name: &str) -> Option<&Category> {
        self.categories.iter().find(|category| category.name == name)
    }

    /// Parts of a category.
    pub fn parts<'m>(&'m self, of: &'m str) -> impl Iterator<Item = &'m Category> {
        self.categories.iter().filter(move |category| category.parent() == Some(of))
    }

    /// Categories of level 1.
    pub fn level_1(&self) -> impl Iterator<Item = &Category> {
        self.categories.iter().filter(|category| category.parent().is_none())
    }
}

/// The methods that come with the program, in the order they are tried.
#[must_use]
pub fn methods() -> Vec<Method> {
    // A test reads all of it.
    read(BUILTIN).unwrap_or_default()
}

/// Reads methods; what is wrong otherwise, with the method that it is in.
fn read(text: &str) -> Result<Vec<Method>, String> {
    let mut methods: Vec<Method> = Vec::new();
    let mut formulas: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some(head) = line.strip_prefix("method ") else {
            match (line.strip_prefix("together "), methods.last_mut(), formulas.last_mut()) {
                (Some(list), Some(method), _) => {
                    method.together = list.split(',').map(|name| name.trim().to_owned()).collect();
                }
                (None, Some(_), Some(of_method)) => {
                    of_method.push_str(line);
                    of_method.push('\n');
                }
                // The head of the file.
                _ => {}
            }
            continue;
        };
        let (name, about) = head.split_once(" = ").ok_or_else(|| format!("{line}: no text"))?;
        let (name, about) = (name.to_owned(), about.to_owned());
        methods.push(Method { name, about, together: Vec::new(), categories: Vec::new() });
        formulas.push("[topdown]\n".to_owned());
    }
    for (method, text) in methods.iter_mut().zip(&formulas) {
        let mut metrics = Metrics::default();
        metrics.add(text).map_err(|error| format!("{}: {error}", method.name))?;
        let category = |metric: crate::metrics::Metric| Category {
            name: metric.name,
            about: metric.about,
            formulas: metric.formulas,
        };
        method.categories = metrics.list.into_iter().map(category).collect();
        method.categories.sort_by_key(|category| category.parent().is_some());
    }
    Ok(methods)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_methods_that_come_along_can_be_read_and_are_trees() {
        let methods = read(BUILTIN).unwrap();
        let names: Vec<&str> = methods.iter().map(|method| &method.name[..]).collect();
        assert_eq!(names, ["intel-slots", "intel-four", "arm-slots"]);
        for method in &methods {
            let level_1: Vec<&str> = method.level_1().map(|one| &one.name[..]).collect();
            assert_eq!(level_1, ["retiring", "bad-speculation", "frontend", "backend"]);
            assert!(method.categories.iter().all(|one| !one.about.is_empty()), "{}", method.name);
            for part in &method.categories {
                let Some(parent) = part.parent() else { continue };
                assert!(method.category(parent).is_some(), "{}", part.name);
                assert_eq!(method.parts(parent).count(), 2, "{parent} of {}", method.name);
            }
        }
    }

    #[test]
    fn variables_are_categories_constants_or_events() {
        let methods = read("method a = b\nx = y / smt # words\nx.z = x * 2").unwrap();
        let method = &methods[0];
        assert!(matches!(method.meaning("x"), Meaning::Category(one) if one.name == "x"));
        assert!(matches!(method.meaning("smt"), Meaning::Constant));
        assert!(matches!(method.meaning("y"), Meaning::Event));
        assert!(read("method a").is_err() && read("method a = b\nx = /").is_err());
    }
}
