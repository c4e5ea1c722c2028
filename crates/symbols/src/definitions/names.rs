//! How names are compared, and which are similar to one that does not exist.

use std::collections::BinaryHeap;

/// What is shown of many.
const MOST: usize = 5;
/// Below this two names have nothing in common, of 1.
const NEAR: f64 = 0.6;
/// Longer names are not compared by how they are spelt, bytes.
const LONGEST: usize = 256;

/// Names that are like one that was asked for; takes any number of candidates.
pub(super) struct Nearest<'a> {
    asked: &'a str,
    /// The last part of what was asked.
    last: &'a str,
    /// The worst on top: per mille of likeness, and the name.
    best: BinaryHeap<(std::cmp::Reverse<u32>, String)>,
}

impl<'a> Nearest<'a> {
    pub(super) fn new(asked: &'a str) -> Self {
        Self { asked, last: last_part(asked), best: BinaryHeap::new() }
    }

    pub(super) fn offer(&mut self, name: &str) {
        let most = name.len().max(self.asked.len());
        if name.is_empty() || most > LONGEST || name == self.asked {
            return;
        }
        let last = last_part(name);
        // As many edits as letters too many are needed at least.
        let apart = last.len().abs_diff(self.last.len()) as f64;
        if apart > (1.0 - NEAR) * last.len().max(self.last.len()) as f64 {
            return;
        }
        let alike = |a: &str, b: &str| strsim::normalized_damerau_levenshtein(a, b);
        let similar = alike(last, self.last).max(alike(name, self.asked));
        if similar < NEAR {
            return;
        }
        let rank = std::cmp::Reverse((similar * 1000.0) as u32);
        if self.best.iter().any(|(_, known)| known == name) {
            return;
        }
        self.best.push((rank, name.to_owned()));
        if self.best.len() > MOST {
            self.best.pop();
        }
    }

    /// The best first.
    pub(super) fn names(self) -> Vec<String> {
        self.best.into_sorted_vec().into_iter().map(|(_, name)| name).collect()
    }
}

/// The name without its scopes.
fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// The first few of `names`, each once, in order; how many more there are, if any.
pub(super) fn few(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names
}

/// Whether `path` is the file that a user calls `asked`: it ends with the same components.
pub(super) fn is_file(path: &str, asked: &str) -> bool {
    let asked = asked.trim_start_matches("./");
    let before = path.strip_suffix(asked);
    before
        .is_some_and(|before| before.is_empty() || before.ends_with('/') || asked.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first_and_what_is_far_not_at_all() {
        let mut nearest = Nearest::new("countr");
        for name in
            ["counter", "ns::counter", "counters", "total", "count", "x", "country", "counte"]
        {
            nearest.offer(name);
        }
        let names = nearest.names();
        assert_eq!(names[0], "counter");
        assert_eq!(names.len(), MOST);
        assert!(!names.iter().any(|name| name == "total" || name == "x"), "{names:?}");
    }

    #[test]
    fn files_are_known_by_their_last_components() {
        assert!(is_file("/src/a/b.c", "b.c"));
        assert!(is_file("/src/a/b.c", "a/b.c"));
        assert!(is_file("b.c", "./b.c"));
        assert!(is_file("/src/b.c", "/src/b.c"));
        assert!(!is_file("/src/ab.c", "b.c"));
        assert!(!is_file("/src/b.c", "c/b.c"));
    }

    #[test]
    fn long_lists_are_cut_and_say_so() {
        let names = (0..9).map(|at| format!("n{at}")).collect();
        assert_eq!(few(names), ["n0", "n1", "n2", "n3", "n4", "4 more"]);
    }
}
