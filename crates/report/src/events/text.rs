//! The same for people: a table for each kind, reasons below it.

use pmuscope_events::inventory::{Offer, OfferGroup};

use super::sheet::{EventRow, Reasons, needs, sheet};
use super::{Here, ListView};
use crate::escape;
use crate::number::{agree, count, counted};
use crate::style::{Paint, Style, wrap};
use crate::table::{Column, Table};

const GROUPS: [(OfferGroup, &str); 7] = [
    (OfferGroup::Hardware, "Hardware events"),
    (OfferGroup::Software, "Software events"),
    (OfferGroup::Cache, "Hardware cache events"),
    (OfferGroup::Unit, "Kernel PMU events"),
    (OfferGroup::List, "Events of lists"),
    (OfferGroup::Tracepoint, "Tracepoint events"),
    (OfferGroup::Syntax, "Events without a name"),
];

/// One line for each event.
pub(super) fn list_text(view: &ListView<'_>, style: &Style) -> String {
    let mut out = head(view, style);
    let of = |group: OfferGroup| view.rows.iter().filter(move |(offer, _)| offer.group == group);
    let reasons = Reasons::of(GROUPS.iter().flat_map(|(group, _)| of(*group)));
    for (group, title) in GROUPS {
        let rows: Vec<&EventRow> = of(group).collect();
        if !rows.is_empty() {
            out.push('\n');
            out.push_str(&style.paint(Paint::Bold, title));
            out.push('\n');
            out.push_str(&sheet(rows, &reasons).text(style));
        }
    }
    if !reasons.all.is_empty() {
        out.push('\n');
    }
    for (number, reason) in (1..).zip(&reasons.all) {
        let mark = format!("[{number}] ");
        let text = format!("{mark}{}", escape(reason));
        out.push_str(&style.text(&wrap(&text, style.width, mark.len())));
        out.push('\n');
    }
    notes(view, style, &mut out);
    out
}

/// Everything that is known of each event.
pub(super) fn details_text(view: &ListView<'_>, style: &Style) -> String {
    let mut out = head(view, style);
    for (offer, here) in &view.rows {
        out.push('\n');
        let synonym = offer.synonym.map_or_else(String::new, |name| format!(", {name}"));
        let name = format!("{}{synonym}", escape(&offer.name));
        out.push_str(&style.paint(Paint::Bold, &style.text(&name)));
        out.push('\n');
        let mut table = Table::new(["", ""].map(Column::text)).indent(2);
        for (what, value) in details(offer, here) {
            let width = style.width.map(|width| width.saturating_sub(INDENT).max(20));
            for (at, line) in wrap(&escape(&value), width, 0).lines().enumerate() {
                table.row([if at == 0 { what } else { "" }.to_owned(), line.to_owned()]);
            }
        }
        out.push_str(&table.render(style));
    }
    notes(view, style, &mut out);
    out
}

/// Columns before the values of details: the indent, the longest label, the gap.
const INDENT: usize = 2 + 12 + 2;

fn details(offer: &Offer, here: &Here) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut push = |what, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            found.push((what, value));
        }
    };
    push(
        "here",
        Some(match here {
            Here::Yes => "countable".to_owned(),
            Here::No(why) => format!("not countable: {why}"),
            Here::NotTried => "-".to_owned(),
        }),
    );
    push("PMU", (!offer.units.is_empty()).then(|| offer.units.join(", ")));
    push("encoding", offer.encoding.clone());
    push("needs", Some(needs(offer)));
    push(
        "unit",
        offer.unit.as_ref().map(|unit| match offer.scale {
            Some(scale) => format!("{unit}, {scale:e} each"),
            None => unit.clone(),
        }),
    );
    push("period", offer.period.map(|period| format!("{} events (recommended)", count(period))));
    push("errata", offer.errata.clone());
    push("description", offer.long.clone().or_else(|| offer.brief.clone()));
    found
}

fn head(view: &ListView<'_>, style: &Style) -> String {
    let events = view.events();
    let verb = agree(events, "matches", "match");
    let matching = match view.pattern {
        Some(pattern) => format!(" {verb} {}", escape(pattern)),
        None => String::new(),
    };
    let mut parts = vec![format!("{}{matching}", counted(events, "event"))];
    if view.refused() > 0 {
        parts.push(format!("{} not countable here", count(view.refused() as u64)));
    }
    parts.push(match &view.lists {
        Some((path, events)) => {
            format!("event lists: {} ({} events for this CPU)", escape(path), count(*events as u64))
        }
        None => "no event lists (Try: pmuscope events import)".to_owned(),
    });
    format!("{}\n", wrap(&style.text(&parts.join(" · ")), style.width, 2))
}

fn notes(view: &ListView<'_>, style: &Style, out: &mut String) {
    for note in &view.notes {
        let text = format!("note: {}", escape(note));
        out.push('\n');
        out.push_str(&style.text(&wrap(&text, style.width, 6)));
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report as _;
    use crate::sheet::Separator;
    use pmuscope_events::lists::Precision;
    use pmuscope_events::schedule::{Constraint, Extra};

    fn offer(name: &str, group: OfferGroup) -> Offer {
        Offer { units: vec!["cpu".into()], ..Offer::new(name, group) }
    }

    fn view() -> ListView<'static> {
        let cycles = Offer {
            synonym: Some("cpu-cycles"),
            encoding: Some("type=0,config=0x0".into()),
            ..offer("cycles", OfferGroup::Hardware)
        };
        let extra = Some(Extra { registers: vec![0x3f6], value: 4 });
        let constraint = Constraint { general: 0b1000, alone: true, extra, ..Constraint::any() };
        let latency = Offer {
            encoding: Some("event=0xcd,umask=0x1,ldlat=0x4".into()),
            brief: Some("Loads above 4 cycles".into()),
            long: Some("Loads that took more than 4 cycles.".into()),
            constraint: Some(constraint),
            precision: Some(Precision::Must),
            period: Some(100_003),
            deprecated: true,
            ..offer("LATENCY", OfferGroup::List)
        };
        let shared =
            Constraint { general: 0xff, general_smt: Some(0xf), ..Constraint::any() }.or_fixed(0);
        let many = Offer {
            units: (0..4).map(|number| format!("box_{number}")).collect(),
            constraint: Some(shared),
            unit: Some("MiB".into()),
            scale: Some(6.25e-5),
            ..offer("READ\u{1b}", OfferGroup::List)
        };
        ListView {
            pattern: Some("c"),
            rows: vec![
                (cycles, Here::No("no right".into())),
                (latency, Here::No("needs a PEBS threshold".into())),
                (many, Here::Yes),
            ],
            lists: Some(("/lists".into(), 1234)),
            notes: vec!["tracepoints: no right".into()],
            details: false,
        }
    }

    #[test]
    fn a_table_for_each_kind_and_reasons_below() {
        crate::widths::fits("events-text", |style| view().text(style));
        insta::assert_snapshot!(view().text(&Style::PLAIN), @r"
        3 events match c · 2 not countable here · event lists: /lists (1,234 events for this CPU)

        Hardware events
          name                PMU  here    encoding
          cycles, cpu-cycles  cpu  no [1]  type=0,config=0x0

        Events of lists
          name      PMU               here    encoding                        needs                                                    description
          LATENCY   cpu               no [2]  event=0xcd,umask=0x1,ldlat=0x4  counters 3 · alone · register 0x3f6 · PEBS · deprecated  Loads above 4 cycles
          READ\x1b  box_0 and 3 more  yes                                     fixed 0 · counters 0-7, with SMT 0-3                     in MiB

        [1] no right
        [2] needs a PEBS threshold

        note: tracepoints: no right
        ");
    }

    #[test]
    fn events_are_rows_for_scripts() {
        insta::assert_snapshot!(view().delimited(Separator::Comma).unwrap(), @r#"
        name,synonym,kind,pmus,encoding,description,details,scale,unit,precise,period,filter,errata,deprecated,countable,why
        cycles,cpu-cycles,hardware,cpu,"type=0,config=0x0",,,,,,,,,false,false,no right
        LATENCY,,list,cpu,"event=0xcd,umask=0x1,ldlat=0x4",Loads above 4 cycles,Loads that took more than 4 cycles.,,,must,100003,,,true,false,needs a PEBS threshold
        READ\x1b,,list,box_0;box_1;box_2;box_3,,,,0.0000625,MiB,,,,,false,true,
        "#);
    }

    #[test]
    fn details_have_a_line_for_each_thing_known() {
        crate::widths::fits("events-text-2", |style| details_text(&view(), style));
        insta::assert_snapshot!(details_text(&view(), &Style::PLAIN), @r"
        3 events match c · 2 not countable here · event lists: /lists (1,234 events for this CPU)

        cycles, cpu-cycles
          here      not countable: no right
          PMU       cpu
          encoding  type=0,config=0x0

        LATENCY
          here         not countable: needs a PEBS threshold
          PMU          cpu
          encoding     event=0xcd,umask=0x1,ldlat=0x4
          needs        counters 3 · alone · register 0x3f6 · PEBS · deprecated
          period       100,003 events (recommended)
          description  Loads that took more than 4 cycles.

        READ\x1b
          here   countable
          PMU    box_0, box_1, box_2, box_3
          needs  fixed 0 · counters 0-7, with SMT 0-3
          unit   MiB, 6.25e-5 each

        note: tracepoints: no right
        ");
    }
}
