//! A report for people.

use std::fmt;

use pmuscope_text::number;
use pmuscope_text::{Cell, Column, Style, Table};

use crate::report::{EventRow, Figure, How, RegionReport, Report};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", head(self))?;
        writeln!(f, "{}\n", cost(self))?;
        f.write_str(&table(self).render(&Style::PLAIN))?;
        let notes = notes(self);
        if !notes.is_empty() {
            f.write_str("\n")?;
        }
        notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

fn head(report: &Report) -> String {
    let entries: u64 = report.regions.iter().map(|region| region.entries).sum();
    format!(
        "{} in {}, {}",
        number::counted(report.regions.len(), "region"),
        number::counted(report.threads, "thread"),
        if entries == 1 {
            "1 entry".to_owned()
        } else {
            format!("{} entries", number::count(entries))
        }
    )
}

fn cost(report: &Report) -> String {
    let time = report.overhead.as_ref().and_then(|overhead| overhead.seconds);
    let time = time.map_or_else(
        || "overhead per entry not measured".to_owned(),
        |time| {
            let micro =
                Figure { value: time.value * 1e6, half: time.half.map(|h| h * 1e6), ..time };
            format!("overhead {} µs per entry (empty region)", figure(&micro))
        },
    );
    let emulated = if report.emulated { " · emulated" } else { "" };
    format!("{} · {time}{emulated}", how(&report.how))
}

fn how(how: &How) -> String {
    let reason = how.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    let instruction = how.instruction.unwrap_or("unknown instruction");
    match (how.in_user_space, how.by_call) {
        (0, 0) => "nothing read".to_owned(),
        (0, _) => format!("read by read(2){reason}"),
        (_, 0) => format!("read in user space ({instruction})"),
        (user, call) => format!(
            "read in user space ({instruction}) {} times, by read(2) {}{reason}",
            number::count(user),
            number::count(call)
        ),
    }
}

fn table(report: &Report) -> Table {
    let units = report.regions.first().map_or(&[][..], |region| &region.units);
    let mut columns = vec![
        Column::text("region"),
        Column::number("entries"),
        Column::number("measured"),
        Column::text("event"),
        Column::number("total"),
        Column::number("/entry (95% CI)"),
        Column::number("overhead/entry"),
    ];
    columns
        .extend(units.iter().map(|unit| Column::number(format!("/{} (95% CI)", name(&unit.name)))));
    let mut table = Table::new(columns);
    for region in &report.regions {
        for (index, row) in region.rows.iter().enumerate() {
            table.row(cells(region, (index == 0).then_some(region), row));
        }
        for refused in &report.refused {
            let empty = ["", "", ""].map(Cell::new);
            let event = Cell::new(name(&refused.event));
            let dashes = std::iter::repeat_n(Cell::new("-"), 3 + units.len());
            table.row(empty.into_iter().chain([event]).chain(dashes));
        }
    }
    table
}

/// A row; what belongs to the whole region stands in its first one.
fn cells(region: &RegionReport, first: Option<&RegionReport>, row: &EventRow) -> Vec<Cell> {
    let unit = if row.unit.is_empty() { String::new() } else { format!(" {}", name(&row.unit)) };
    let mut cells = vec![
        Cell::new(first.map_or(String::new(), |region| name(&region.name))),
        Cell::new(first.map_or(String::new(), |region| number::count(region.entries))),
        match first {
            Some(_) => Cell::measured(region.measured, share),
            None => Cell::new(""),
        },
        Cell::new(format!("{}{unit}", name(&row.event))),
        Cell::measured(row.total, number::amount),
        Cell::measured(row.per_entry, |value| figure(&value)),
        Cell::measured(row.own, |own| format!("~{}", number::significant(own, 2))),
    ];
    cells.extend(row.per_unit.iter().map(|per| Cell::measured(*per, |value| figure(&value))));
    cells
}

/// All is told from nearly all.
fn share(share: f64) -> String {
    if share == 1.0 { "100%".to_owned() } else { number::percent(share.min(0.999), 1) }
}

fn figure(figure: &Figure) -> String {
    match figure.half {
        // Each time the same.
        Some(0.0) => number::exact(figure.value, 9),
        Some(half) => number::interval(figure.value, half),
        None => number::significant(figure.value, 3),
    }
}

fn notes(report: &Report) -> Vec<String> {
    let refused = report.refused.iter();
    let mut notes: Vec<String> = refused
        .map(|one| format!("{} is not counted: {}", name(&one.event), name(&one.why)))
        .collect();
    for region in &report.regions {
        let left_out = region.partly + region.unmeasured;
        if left_out > 0 {
            notes.push(format!(
                "{}: {} of {} entries {} left out: {} {} counted only part of the time, {} not at \
                 all",
                name(&region.name),
                number::count(left_out),
                number::count(left_out + region.entries),
                number::agree(left_out, "is", "are"),
                number::count(region.partly),
                number::agree(region.partly, "was", "were"),
                number::count(region.unmeasured)
            ));
        }
    }
    notes.extend(report.troubles.iter().map(|why| format!("not counted: {}", name(why))));
    notes
}

/// The program's own words, without what could drive a terminal.
fn name(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Overhead, SCHEMA, UnitReport};
    use crate::set::Refused;

    fn row(event: &str, unit: &str, total: f64, half: f64) -> EventRow {
        let per_entry = Figure { value: total / 1000.0, half: Some(half), n: 1000 };
        let per_row = Figure { value: total / 50_000.0, half: Some(half / 50.0), n: 1000 };
        EventRow {
            event: event.into(),
            unit: unit.into(),
            origin: "software",
            total: Some(total),
            per_entry: Some(per_entry),
            own: Some(31.2),
            per_unit: vec![Some(per_row)],
        }
    }

    fn sample() -> Report {
        let parse = RegionReport {
            name: "parse\u{1b}[2J".into(),
            entries: 1000,
            partly: 2,
            unmeasured: 0,
            inner: 0,
            measured: Some(0.998),
            units: vec![UnitReport { name: "row".into(), amount: Some(50_000.0) }],
            rows: vec![
                row("task-clock", "ns", 1_234_567.0, 12.0),
                row("page-faults", "", 20.0, 0.004),
            ],
        };
        let nothing = EventRow {
            total: None,
            per_entry: None,
            own: None,
            per_unit: vec![None],
            ..row("x", "", 1.0, 1.0)
        };
        let never = RegionReport {
            name: "never".into(),
            entries: 0,
            partly: 0,
            measured: None,
            units: vec![UnitReport { name: "row".into(), amount: None }],
            rows: vec![nothing],
            ..parse.clone()
        };
        let time = Figure { value: 1.25e-6, half: Some(0.03e-6), n: 31 };
        Report {
            schema: SCHEMA,
            threads: 2,
            emulated: false,
            how: How {
                in_user_space: 0,
                by_call: 2000,
                instruction: Some("rdpmc"),
                why: Some("page-faults is counted by the kernel".into()),
            },
            overhead: Some(Overhead { seconds: Some(time), inside: vec![], around: vec![] }),
            regions: vec![parse, never],
            refused: vec![Refused { event: "cycles".into(), why: "there is no PMU".into() }],
            troubles: vec!["somebody else has the counters".into()],
        }
    }

    #[test]
    fn a_row_for_each_event_and_below_what_is_missing() {
        insta::assert_snapshot!(sample().to_string(), @r"
        2 regions in 2 threads, 1,000 entries
        read by read(2) (page-faults is counted by the kernel) · overhead 1.25 ± 0.03 µs per entry (empty region)

        region     entries  measured  event              total  /entry (95% CI)  overhead/entry      /row (95% CI)
        parse?[2J    1,000     99.8%  task-clock ns  1,234,567       1,235 ± 12             ~31       24.69 ± 0.24
                                      page-faults           20    0.020 ± 0.004             ~31  0.00040 ± 0.00008
                                      cycles                 -                -               -                  -
        never            0         -  x                      -                -               -                  -
                                      cycles                 -                -               -                  -

        cycles is not counted: there is no PMU
        parse?[2J: 2 of 1,002 entries are left out: 2 were counted only part of the time, 0 not at all
        not counted: somebody else has the counters
        ");
    }

    #[test]
    fn what_is_always_the_same_has_all_its_digits() {
        let exact = Figure { value: 20_123.0, half: Some(0.0), n: 400 };
        assert_eq!(figure(&exact), "20,123");
        assert_eq!(figure(&Figure { value: 2.040_1, ..exact }), "2.0401");
        assert_eq!(figure(&Figure { half: None, ..exact }), "20,100");
    }

    #[test]
    fn both_ways_to_read_are_told() {
        let mut how_read = sample().how;
        how_read.why = None;
        how_read.in_user_space = 1234;
        assert_eq!(how(&how_read), "read in user space (rdpmc) 1,234 times, by read(2) 2,000");
        how_read.by_call = 0;
        assert_eq!(how(&how_read), "read in user space (rdpmc)");
    }
}
