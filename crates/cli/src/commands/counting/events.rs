//! The events of `-e`: those that the machine has, and why it does not have the others.

use pmuscope_console::exit::bad_input;
use pmuscope_events::{Catalog, Event, EventError, Group, parse};
use pmuscope_machine::{Machine, Pmu};

use crate::commands::event_lists::{EventListArgs, catalog};
use crate::commands::record::events::with_list;

/// What is counted where nothing is said, as far as the machine has it: perf's own choice.
const SOFTWARE: &str = "task-clock,context-switches,cpu-migrations,page-faults";
const HARDWARE: &str = "cycles,instructions,branches,branch-misses";

/// The events of `texts`; where there is none perf's own choice, as far as the machine has it.
pub(in crate::commands) fn by_default(
    texts: &[String],
    machine: &Machine,
) -> anyhow::Result<Asked> {
    let catalog = catalog(machine, &EventListArgs::default())?;
    let mut asked = Asked::default();
    texts.iter().try_for_each(|text| asked.add(text, &catalog))?;
    if texts.is_empty() {
        asked.add(SOFTWARE, &catalog)?;
        if catalog.pmus().iter().any(Pmu::is_core) {
            asked.add(HARDWARE, &catalog)?;
        }
    }
    Ok(asked)
}

/// Events that the machine does not have: as typed, and why, with what to type.
pub(in crate::commands) type Absent = Vec<(String, String)>;

/// What to count, and what cannot be.
#[derive(Debug, Default)]
pub(in crate::commands) struct Asked {
    /// What the machine has.
    pub(in crate::commands) groups: Vec<Group>,
    /// What it does not have.
    pub(in crate::commands) absent: Absent,
}

impl Asked {
    /// Adds the events of `text`. What is not an event at all is an error; what this machine does not
    /// have is remembered, and the others count.
    pub(in crate::commands) fn add(
        &mut self,
        text: &str,
        catalog: &dyn Catalog,
    ) -> anyhow::Result<()> {
        match parse(text, catalog) {
            Ok(groups) => self.add_groups(groups),
            Err(error) if error.is_of_machine() => {
                for piece in pieces(text) {
                    match parse(piece, catalog) {
                        Ok(groups) => self.add_groups(groups),
                        Err(error) if error.is_of_machine() => {
                            self.absent.push((piece.to_owned(), reason(&error)));
                        }
                        Err(error) => return Err(bad_input(with_list(&error))),
                    }
                }
            }
            Err(error) => return Err(bad_input(with_list(&error))),
        }
        Ok(())
    }

    /// An event that is counted already is not counted twice, but in groups, each of which is of a moment of its
    /// own. No two that are counted have one name.
    pub(in crate::commands) fn add_groups(&mut self, groups: Vec<Group>) {
        for mut group in groups {
            if let [event] = &group.events[..]
                && self.events().any(|known| is_same(known, event))
            {
                continue;
            }
            for at in 0..group.events.len() {
                let (before, event) = (&group.events[..at], &group.events[at]);
                let known: Vec<&Event> = self.events().chain(before).collect();
                group.events[at].name = free_name(event, &known);
            }
            self.groups.push(group);
        }
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.groups.iter().flat_map(|group| &group.events)
    }
}

/// Whether they count the same, and were asked for by one name.
fn is_same(one: &Event, other: &Event) -> bool {
    let is_named_alike = one.name == other.name || one.typed == other.typed;
    one.attr == other.attr && one.pmu == other.pmu && is_named_alike
}

/// Its name; where that is taken, with its unit or a number behind it.
fn free_name(event: &Event, known: &[&Event]) -> String {
    let is_free = |name: &String| known.iter().all(|known| known.name != *name);
    let of_unit = std::iter::once(format!("{} [{}]", event.name, event.pmu))
        .filter(|_| known.iter().all(|known| known.name != event.name || known.pmu != event.pmu));
    let numbered = (2_usize..).map(|number| format!("{} [{number}]", event.name));
    let names = std::iter::once(event.name.clone()).chain(of_unit).chain(numbered);
    // Numbers do not end before the names do.
    names.into_iter().find(is_free).unwrap_or_else(|| event.name.clone())
}

/// The error without what it was about, which is told beside it.
fn reason(error: &EventError) -> String {
    let text = error.to_string();
    match text.split_once("': ") {
        Some((_, reason)) => reason.to_owned(),
        None => text,
    }
}

/// The pieces between commas that are neither in braces nor between slashes.
fn pieces(text: &str) -> Vec<&str> {
    let (mut braces, mut slashes, mut from) = (0_i32, 0_u32, 0);
    let mut pieces = Vec::new();
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => braces += 1,
            '}' => braces -= 1,
            // The length of a breakpoint stands behind a single one.
            '/' if !text[from..].trim_start_matches('{').starts_with("mem:") => slashes += 1,
            ',' if braces == 0 && slashes % 2 == 0 => {
                pieces.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[from..]);
    pieces.into_iter().map(str::trim).filter(|piece| !piece.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_that_are_counted_have_one_name() {
        let machine = Machine::host();
        let catalog = pmuscope_events::MachineCatalog::new(&machine).unwrap();
        let mut asked = Asked::default();
        let texts =
            ["page-faults", "page-faults", "{page-faults,cs}", "{cs,cs}", "minor-faults/name=cs/"];
        texts.iter().for_each(|text| asked.add(text, &catalog).unwrap());
        let names: Vec<&str> = asked.events().map(|event| &*event.name).collect();
        assert_eq!(names, ["page-faults", "page-faults [2]", "cs", "cs [2]", "cs [3]", "cs [4]"]);
        let copy = |pmu: &str| {
            let mut groups = parse("page-faults/name=reads/", &catalog).unwrap();
            groups[0].events[0].pmu = pmu.into();
            groups
        };
        let mut asked = Asked::default();
        ["imc_0", "imc_1", "imc_1"].into_iter().for_each(|pmu| asked.add_groups(copy(pmu)));
        let names: Vec<&str> = asked.events().map(|event| &*event.name).collect();
        assert_eq!(names, ["reads", "reads [imc_1]"]);
    }

    #[test]
    fn commas_in_braces_and_between_slashes_do_not_part() {
        assert_eq!(
            pieces("a,{b,c}:S,cpu/event=1,umask=2/u,d"),
            ["a", "{b,c}:S", "cpu/event=1,umask=2/u", "d"]
        );
        assert_eq!(pieces("mem:0x10/8:w,cycles"), ["mem:0x10/8:w", "cycles"]);
        assert_eq!(pieces(" a , ,"), ["a"]);
    }
}
