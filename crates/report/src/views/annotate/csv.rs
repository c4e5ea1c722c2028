//! The same as a table of comma-separated values: a line for each instruction.

use super::super::csv::{Lines, number, text};
use super::json::{AnnotateReport, Event};

/// Names of the columns. Addresses are those of the file's symbol table and those that samples count by;
/// shares are of the whole event, 0 to 1.
const COLUMNS: [&str; 10] = [
    "event",
    "share",
    "share_low",
    "share_high",
    "samples",
    "address",
    "sampled_address",
    "file",
    "line",
    "instruction",
];

impl AnnotateReport<'_> {
    /// Instructions by event; where they are not to be had, the addresses that have samples.
    #[must_use]
    pub fn csv(&self) -> String {
        csv(&self.events)
    }
}

fn csv(events: &[Event<'_>]) -> String {
    let mut lines = Lines::new(&COLUMNS.map(str::to_owned));
    for event in events {
        for one in &event.instructions {
            lines.push(&[
                text(event.name),
                one.numbers.share.to_string(),
                number(one.numbers.share_low),
                number(one.numbers.share_high),
                one.numbers.samples.to_string(),
                one.address.clone().unwrap_or_default(),
                one.sampled_address.clone(),
                text(one.file.unwrap_or_default()),
                number(one.line),
                text(one.text.unwrap_or_default()),
            ]);
        }
    }
    lines.finish()
}

#[cfg(test)]
mod tests {
    use super::super::json::{Instruction, Numbers};
    use super::*;

    #[test]
    fn instructions_have_a_line_each() {
        let numbers = |samples: u64, low| Numbers {
            samples,
            share: samples as f64 / 8.0,
            share_low: low,
            share_high: low.map(|low| low + 0.25),
        };
        let listed = Instruction {
            address: Some("0x401020".into()),
            sampled_address: "0x1020".into(),
            text: Some("mov %rax,%rbx"),
            file: Some("/src/a.c"),
            line: Some(12),
            numbers: numbers(4, Some(0.375)),
        };
        let unlisted = Instruction {
            address: None,
            sampled_address: "0x1fff".into(),
            text: None,
            file: None,
            line: None,
            numbers: numbers(0, None),
        };
        let event = Event {
            name: "cycles",
            own: numbers(4, None),
            lines: Vec::new(),
            instructions: vec![listed, unlisted],
        };
        insta::assert_snapshot!(csv(&[event]), @r#"
        event,share,share_low,share_high,samples,address,sampled_address,file,line,instruction
        cycles,0.5,0.375,0.625,4,0x401020,0x1020,/src/a.c,12,"mov %rax,%rbx"
        cycles,0,,,0,,0x1fff,,,
        "#);
    }
}
