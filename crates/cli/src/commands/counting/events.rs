//! The events of `-e`: those that the machine has, and why it does not have the others.

use pmuscope_events::{Catalog, EventError, Group, parse};
use pmuscope_machine::{Machine, Pmu};

use crate::commands::event_lists::{EventListArgs, catalog};
use crate::exit::{Exit, failure};

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
                        Err(error) => return Err(failure(Exit::BadInput, error.to_string())),
                    }
                }
            }
            Err(error) => return Err(failure(Exit::BadInput, error.to_string())),
        }
        Ok(())
    }

    /// An event that is counted already is not counted twice.
    pub(in crate::commands) fn add_groups(&mut self, groups: Vec<Group>) {
        for group in groups {
            let known = |name: &str| {
                self.groups.iter().flat_map(|group| &group.events).any(|event| event.name == name)
            };
            if group.events.len() > 1 || !known(&group.events[0].name) {
                self.groups.push(group);
            }
        }
    }
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
    fn commas_in_braces_and_between_slashes_do_not_part() {
        assert_eq!(
            pieces("a,{b,c}:S,cpu/event=1,umask=2/u,d"),
            ["a", "{b,c}:S", "cpu/event=1,umask=2/u", "d"]
        );
        assert_eq!(pieces("mem:0x10/8:w,cycles"), ["mem:0x10/8:w", "cycles"]);
        assert_eq!(pieces(" a , ,"), ["a"]);
    }
}
