//! Lists of names and values, and CPU lists that fit a line.

use pmuscope_machine::CpuSet;

use crate::{Paint, Style, wrap};

/// Column in which values start.
const VALUES_AT: usize = 20;
/// Longest CPU list that is shown in full.
const LONGEST_LIST: usize = 40;

/// A titled list of names with values.
pub(crate) struct FactList<'a> {
    style: &'a Style,
    text: String,
}

impl<'a> FactList<'a> {
    pub(crate) fn new(title: &str, style: &'a Style) -> Self {
        Self { style, text: format!("{}\n", style.paint(Paint::Bold, title)) }
    }

    /// One name with its value, which is broken at spaces where the terminal ends.
    pub(crate) fn line(&mut self, name: &str, value: &str) {
        let value = wrap(&self.style.text(value), self.style.width, VALUES_AT);
        let room = VALUES_AT - 3;
        self.text.push_str(&format!("  {name:<room$} {value}\n"));
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// The parts that are there, with dots between.
pub(crate) fn join<const N: usize>(parts: [Option<String>; N]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" · ")
}

/// A CPU list short enough for a line: in full, or as a series, or its beginning.
pub(crate) fn cpus(set: &CpuSet) -> String {
    let full = set.to_string();
    if full.len() <= LONGEST_LIST {
        return if full.is_empty() { "-".to_owned() } else { full };
    }
    let members: Vec<u32> = set.iter().collect();
    let count = members.len();
    if let [first, second, .., last] = members[..] {
        let stride = second - first;
        if members.windows(2).all(|pair| pair[1] - pair[0] == stride) {
            return format!("{first},{second},…,{last} ({count} CPUs)");
        }
    }
    let cut = full[..LONGEST_LIST].rfind(',').unwrap_or(LONGEST_LIST);
    format!("{},… ({count} CPUs)", &full[..cut])
}

/// The first few of a long list of groups.
pub(crate) fn groups(groups: &[CpuSet]) -> String {
    const SHOWN: usize = 4;
    let mut parts: Vec<String> = groups.iter().take(SHOWN).map(cpus).collect();
    if groups.len() > SHOWN {
        parts.push(format!("… {} more", groups.len() - SHOWN));
    }
    parts.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cpu_lists_become_short() {
        let list = |text: &str| cpus(&text.parse().unwrap());
        assert_eq!(list(""), "-");
        assert_eq!(list("0-63,128-191"), "0-63,128-191");
        let interleaved: CpuSet = (0..128).map(|i| i * 4 + 1).collect();
        assert_eq!(cpus(&interleaved), "1,5,…,509 (128 CPUs)");
        let ragged: CpuSet = (0..64).map(|i| i * i).collect();
        assert_eq!(cpus(&ragged), "0-1,4,9,16,25,36,49,64,81,100,121,144,… (64 CPUs)");
    }

    #[test]
    fn only_the_first_groups_are_listed() {
        let all: Vec<CpuSet> = (0..6).map(|i| CpuSet::from_iter([i])).collect();
        assert_eq!(groups(&all), "0 | 1 | 2 | 3 | … 2 more");
        assert_eq!(groups(&all[..1]), "0");
    }
}
