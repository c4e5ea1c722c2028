//! The same for spreadsheets and scripts: a line for each instruction.

use pmuscope_stats::{Interval, LEVEL};

use super::json::{AnnotateReport, AnnotatedEvent, Instruction};
use crate::sheet::{Field, Separator, Sheet, delimited_by};

impl AnnotateReport<'_> {
    /// Instructions by event; where they are not to be had, the addresses that have samples. Addresses are those
    /// of the file's symbol table and those that samples count by; shares are of the whole event, 0 to 1.
    #[must_use]
    pub(super) fn delimited(&self, separator: Separator) -> String {
        delimited(&self.events, separator)
    }
}

fn delimited(events: &[AnnotatedEvent<'_>], separator: Separator) -> String {
    let share = |one: &Instruction<'_>| {
        let numbers = &one.numbers;
        let bounds = numbers.share_low.zip(numbers.share_high);
        (numbers.share, bounds.map(|(low, high)| Interval { low, high, level: LEVEL }))
    };
    let fields = || {
        vec![
            Field::share("share", share),
            Field::count("samples", |one: &Instruction<'_>| one.numbers.samples),
            Field::text("address", |one: &Instruction<'_>| one.address.as_deref()),
            Field::text("sampled_address", |one: &Instruction<'_>| Some(&*one.sampled_address)),
            Field::text("file", |one: &Instruction<'_>| one.file),
            Field::count("line", |one: &Instruction<'_>| one.line.map(u64::from)),
            Field::text("instruction", |one: &Instruction<'_>| one.text),
        ]
    };
    let mut sheets = Vec::new();
    for event in events {
        sheets.push((event.name, Sheet::new(fields(), &event.instructions, 0)));
    }
    delimited_by("event", &sheets, separator)
}

#[cfg(test)]
mod tests {
    use super::super::json::Numbers;
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
        let event = AnnotatedEvent {
            name: "cycles",
            own: numbers(4, None),
            lines: Vec::new(),
            instructions: vec![listed, unlisted],
        };
        insta::assert_snapshot!(delimited(&[event], Separator::Comma), @r#"
        event,share,share_low,share_high,samples,address,sampled_address,file,line,instruction
        cycles,0.5,0.375,0.625,4,0x401020,0x1020,/src/a.c,12,"mov %rax,%rbx"
        cycles,0,,,0,,0x1fff,,,
        "#);
    }
}
