//! A plan of watchpoints: whether they fit, where not, who may hold the slots, what to leave out.

use std::fmt::Write as _;

use pmuscope_watch::plan::{FreeSlots, Hold, Holder, Plan, ThreadOrCpu, WatchpointRequest};
use pmuscope_watch::slots::{Kind, Slots};

use crate::escape::escape;
use crate::number;
use crate::style::{Style, wrap, wrap_lines};
use crate::table::{Cell, Column, Table};

/// Kind and version of the JSON result: a [`Plan`] in an envelope.
pub const WATCH_PLAN_SCHEMA: &str = "pmuscope/watch-plan/1";

/// Threads, CPUs and holders that are listed.
const MOST: usize = 20;

/// Verdict, where something is missing, who may have it, what to do.
#[must_use]
pub fn watch_plan_text(plan: &Plan, style: &Style) -> String {
    let wanted: Vec<String> = plan.wanted.iter().map(wanted_text).collect();
    let slots: u64 = plan.wanted.iter().map(|one| u64::from(one.slots)).sum();
    let mut out = format!(
        "{}: {}\n{} per CPU · {} checked · {} · {}\n",
        number::counted(plan.wanted.len(), "watchpoint"),
        wanted.join(", "),
        slots_text(plan.slots),
        places_text(plan),
        if plan.fits {
            format!("{slots} needed: fits")
        } else {
            let free = free_text(plan.least_free);
            format!("{slots} needed, {free} free on the fullest: does not fit")
        },
        bound_text(plan),
    );
    out = wrap_lines(&out, style.width, 2);
    if !plan.lacking.is_empty() {
        out.push('\n');
        out += &lacking(plan, style);
    }
    if !plan.holders.is_empty() {
        out += "\nprocesses that may hold debug registers\n";
        out += &holders(&plan.holders, style);
    }
    if !plan.all_holders {
        out += "\nSome processes could not be inspected. Try: sudo pmuscope …\n";
    }
    if let Some(advice) = advice(plan) {
        let _ = write!(out, "\n{}\n", wrap(&advice, style.width, 0));
    }
    style.text(&out).into_owned()
}

/// Why a watch cannot begin, in a sentence, and what to do; `None` if all fits.
#[must_use]
pub fn watch_plan_refusal(plan: &Plan) -> Option<String> {
    let room = plan.lacking.first()?;
    let others = match plan.lacking.len() - 1 {
        0 => String::new(),
        others => format!(" (and {} more)", number::count(others as u64)),
    };
    let holders: Vec<String> = plan.holders.iter().take(3).map(holder_text).collect();
    let held = if holders.is_empty() {
        String::new()
    } else {
        format!("; the others may be held by {}", holders.join(", "))
    };
    let wanted: Vec<String> = plan.wanted.iter().map(wanted_text).collect();
    let advice = advice(plan).unwrap_or_default();
    let verb = if wanted.len() == 1 { "does" } else { "do" };
    Some(format!(
        "{} {verb} not fit: {}{others} has {} free of {}{held}. {advice}",
        wanted.join(", "),
        place_text(&room.place),
        free_text(room.free),
        slots_text(plan.slots),
    ))
}

/// What to leave out, or whom to end.
fn advice(plan: &Plan) -> Option<String> {
    if plan.fits {
        return None;
    }
    let names: Vec<String> = plan.drop.iter().map(|name| escape(name).into_owned()).collect();
    let end = if plan.holders.is_empty() {
        ""
    } else {
        ", or end the processes that hold debug registers"
    };
    Some(if plan.drop.len() == plan.wanted.len() {
        format!("None fits. Try: fewer or shorter watchpoints{end}")
    } else {
        format!("Try: without {}{end}", names.join(", "))
    })
}

fn wanted_text(one: &WatchpointRequest) -> String {
    let kind = match one.kind {
        Kind::Data => "",
        Kind::Instruction => " for an instruction",
    };
    format!("{} ({}{kind})", escape(&one.name), number::counted(one.slots, "debug register"))
}

/// `4 slots for any kind`.
fn slots_text(slots: Slots) -> String {
    match slots {
        Slots::Mixed(slots) => format!("{} of any kind", number::counted(slots, "debug register")),
        Slots::Separate { data, instruction } => {
            format!(
                "{} for data and {instruction} for instructions",
                number::counted(data, "debug register")
            )
        }
    }
}

fn free_text(slots: Slots) -> String {
    match slots {
        Slots::Mixed(slots) => slots.to_string(),
        Slots::Separate { data, instruction } => format!("{data} and {instruction}"),
    }
}

fn places_text(plan: &Plan) -> String {
    let is_cpu = matches!(plan.lacking.first(), Some(FreeSlots { place: ThreadOrCpu::Cpu(_), .. }));
    match (plan.lacking.is_empty(), is_cpu) {
        (true, _) => number::counted(plan.places, "target"),
        (false, true) => number::counted(plan.places, "CPU"),
        (false, false) => number::counted(plan.places, "thread"),
    }
}

fn bound_text(plan: &Plan) -> String {
    match &plan.bound[..] {
        [] => "none bound to a CPU".to_owned(),
        [one] => format!("{} of CPU {} bound to it", free_text(one.slots), one.cpu),
        all => format!("some bound to {}", number::counted(all.len(), "CPU")),
    }
}

fn place_text(place: &ThreadOrCpu) -> String {
    match place {
        ThreadOrCpu::Cpu(cpu) => format!("CPU {cpu}"),
        ThreadOrCpu::Thread { tid, name: None } => format!("thread {tid}"),
        ThreadOrCpu::Thread { tid, name: Some(name) } => format!("thread {tid} ({})", escape(name)),
    }
}

fn lacking(plan: &Plan, style: &Style) -> String {
    let of_kinds = matches!(plan.slots, Slots::Separate { .. });
    let mut columns = vec![Column::text("where")];
    if of_kinds {
        columns.extend(["free for data", "for instructions"].map(Column::number));
    } else {
        columns.push(Column::number("free debug registers"));
    }
    let mut table = Table::new(columns);
    for room in plan.lacking.iter().take(MOST) {
        let mut cells = vec![Cell::new(place_text(&room.place))];
        cells.push(Cell::new(room.free.of(Kind::Data).to_string()));
        if of_kinds {
            cells.push(Cell::new(room.free.of(Kind::Instruction).to_string()));
        }
        table.row(cells);
    }
    table.render(style) + &rest(plan.lacking.len())
}

fn holders(holders: &[Holder], style: &Style) -> String {
    let columns = [
        Column::number("process"),
        Column::text("name").shrink(),
        Column::text("how").shrink_end(),
    ];
    let mut table = Table::new(columns);
    for holder in holders.iter().take(MOST) {
        table.row([
            Cell::new(holder.pid.to_string()),
            Cell::new(escape(&holder.name)),
            Cell::new(how_text(&holder.how)),
        ]);
    }
    table.render(style) + &rest(holders.len())
}

fn how_text(how: &Hold) -> String {
    match how {
        Hold::Traces { pid } => {
            format!("traces process {pid}; its watchpoints use debug registers")
        }
        Hold::Events { descriptors } => {
            format!("has {} open, of any kind", number::counted(*descriptors as u64, "perf event"))
        }
    }
}

fn holder_text(holder: &Holder) -> String {
    format!("{} (process {})", escape(&holder.name), holder.pid)
}

fn rest(number: usize) -> String {
    match number.saturating_sub(MOST) {
        0 => String::new(),
        more => format!("and {} more\n", number::count(more as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_watch::plan::Bound;

    fn wanted(name: &str, kind: Kind, slots: u32) -> WatchpointRequest {
        WatchpointRequest { name: name.to_owned(), kind, slots }
    }

    fn full() -> Plan {
        let holder = |pid, name: &str, how| Holder { pid, name: name.to_owned(), how };
        let thread = |tid, name: Option<&str>| FreeSlots {
            place: ThreadOrCpu::Thread { tid, name: name.map(str::to_owned) },
            free: Slots::Mixed(1),
        };
        Plan {
            fits: false,
            wanted: vec![wanted("hits", Kind::Data, 1), wanted("cache.head", Kind::Data, 2)],
            slots: Slots::Mixed(4),
            places: 12,
            least_free: Slots::Mixed(1),
            lacking: vec![thread(8, Some("ser\u{1b}ver")), thread(9, None)],
            bound: vec![Bound { cpu: 1, slots: Slots::Mixed(2) }],
            holders: vec![
                holder(70, "gdb", Hold::Traces { pid: 8 }),
                holder(12, "perf", Hold::Events { descriptors: 2 }),
            ],
            all_holders: false,
            drop: vec!["cache.head".to_owned()],
        }
    }

    #[test]
    fn what_does_not_fit_is_reported_with_holders_and_advice() {
        crate::widths::fits("watch_plan", |style| watch_plan_text(&full(), style));
        insta::assert_snapshot!(watch_plan_text(&full(), &Style::PLAIN), @r"
        2 watchpoints: hits (1 debug register), cache.head (2 debug registers)
        4 debug registers of any kind per CPU · 12 threads checked · 3 needed, 1 free on the fullest: does not fit · 2 of CPU 1 bound to it

        where                  free debug registers
        thread 8 (ser\x1bver)                     1
        thread 9                                  1

        processes that may hold debug registers
        process  name  how
             70  gdb   traces process 8; its watchpoints use debug registers
             12  perf  has 2 perf events open, of any kind

        Some processes could not be inspected. Try: sudo pmuscope …

        Try: without cache.head, or end the processes that hold debug registers
        ");
        insta::assert_snapshot!(watch_plan_refusal(&full()).unwrap(), @r"hits (1 debug register), cache.head (2 debug registers) do not fit: thread 8 (ser\x1bver) (and 1 more) has 1 free of 4 debug registers of any kind; the others may be held by gdb (process 70), perf (process 12). Try: without cache.head, or end the processes that hold debug registers");
    }

    #[test]
    fn kinds_with_slots_of_their_own_have_a_column_each() {
        let free = Slots::Separate { data: 1, instruction: 6 };
        let plan = Plan {
            wanted: vec![wanted("x", Kind::Data, 2), wanted("a.c:7", Kind::Instruction, 1)],
            slots: Slots::Separate { data: 4, instruction: 6 },
            places: 2,
            least_free: free,
            lacking: vec![FreeSlots { place: ThreadOrCpu::Cpu(3), free }],
            bound: Vec::new(),
            holders: Vec::new(),
            all_holders: true,
            drop: vec!["x".to_owned()],
            fits: false,
        };
        crate::widths::fits("watch_plan-2", |style| watch_plan_text(&plan, style));
        insta::assert_snapshot!(watch_plan_text(&plan, &Style::PLAIN), @r"
        2 watchpoints: x (2 debug registers), a.c:7 (1 debug register for an instruction)
        4 debug registers for data and 6 for instructions per CPU · 2 CPUs checked · 3 needed, 1 and 6 free on the fullest: does not fit · none bound to a CPU

        where  free for data  for instructions
        CPU 3              1                 6

        Try: without x
        ");
    }

    #[test]
    fn what_fits_says_so_and_nothing_more() {
        let plan = Plan {
            fits: true,
            lacking: Vec::new(),
            bound: Vec::new(),
            holders: Vec::new(),
            all_holders: true,
            drop: Vec::new(),
            least_free: Slots::Mixed(4),
            ..full()
        };
        crate::widths::fits("watch_plan-3", |style| watch_plan_text(&plan, style));
        insta::assert_snapshot!(watch_plan_text(&plan, &Style::PLAIN), @r"
        2 watchpoints: hits (1 debug register), cache.head (2 debug registers)
        4 debug registers of any kind per CPU · 12 targets checked · 3 needed: fits · none bound to a CPU
        ");
        assert_eq!(watch_plan_refusal(&plan), None);
    }

    /// Names of all fields, with those they are in.
    fn fields(path: &str, value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => {
                for (name, value) in map {
                    let dot = if path.is_empty() { "" } else { "." };
                    fields(&format!("{path}{dot}{name}"), value, found);
                }
            }
            serde_json::Value::Array(list) => {
                list.iter().for_each(|value| fields(&format!("{path}[]"), value, found));
            }
            _ => found.push(path.to_owned()),
        }
    }

    #[test]
    fn every_field_is_documented() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
        let text = std::fs::read_to_string(document).unwrap();
        let section = text.split("\n## ").find(|part| part.starts_with(WATCH_PLAN_SCHEMA)).unwrap();
        let separate = Slots::Separate { data: 1, instruction: 6 };
        let mut other = full();
        other.slots = separate;
        other.least_free = separate;
        other.lacking = vec![FreeSlots { place: ThreadOrCpu::Cpu(3), free: separate }];
        other.bound = vec![Bound { cpu: 1, slots: separate }];
        for plan in [full(), other] {
            let mut found = Vec::new();
            fields("", &serde_json::to_value(&plan).unwrap(), &mut found);
            assert!(found.len() > 10, "{found:?}");
            for field in found {
                // `.kind` stands for `wanted[].kind` behind another of the same list.
                let short = field.rsplit_once('.').map(|(_, last)| format!("`.{last}`"));
                let is_there = section.contains(&format!("`{field}`"))
                    || short.is_some_and(|short| section.contains(&short));
                assert!(is_there, "docs/json.md does not document {field}");
            }
        }
    }
}
