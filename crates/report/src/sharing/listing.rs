//! A new layout of a structure as its source would have it, with offsets, sizes and who uses each field.
//!
//! ```text
//!  struct counters {                 /* 24 bytes, 1 cache line; now 128 bytes, 2 cache lines */
//!      alignas(64) long int total;   /*   0   8  written by 3 threads */
//!
//!      /* --- cache line 1 --- */
//!      alignas(64) int limit;        /*  64   4  read by 3 threads */
//!  };
//! ```

use pmuscope_profile::sharing::{
    AdvisedObject, Arrangement, FieldRole, LayoutField, PlacedField, SharedLines,
};

use crate::escape;
use crate::number::{count, counted};

/// Comments begin here, unless a declaration is longer.
const LONGEST_DECLARATION: usize = 48;
/// Threads that are named.
const MOST_THREADS: usize = 2;
/// Fields in a row without sampled accesses that are all shown.
const MOST_IDLE: usize = 6;

/// The layout, line by line.
pub(super) fn text(found: &SharedLines, object: &AdvisedObject, new: &Arrangement) -> String {
    let line_bytes = u64::from(found.line_bytes);
    let layout = &object.layout;
    let size = |bytes: u64| {
        let lines = counted(bytes.div_ceil(line_bytes), "cache line");
        format!("{} bytes, {lines}", count(bytes))
    };
    let mut rows: Vec<(String, String)> = Vec::new();
    let head = format!("{} {{", escape(&layout.name));
    rows.push((head, format!("was {}; new {}", size(layout.bytes), size(new.bytes))));
    let digits = count(new.bytes).len();
    let mut line = 0;
    for (at, placed) in new.fields.iter().enumerate() {
        let Some(field) = layout.fields.get(placed.field) else { continue };
        let Some(hidden) = idle(&new.fields, at) else { continue };
        let now = placed.offset / line_bytes;
        if now != line {
            line = now;
            rows.push((String::new(), String::new()));
            rows.push((format!("    /* --- cache line {line} --- */"), String::new()));
        }
        if hidden > 0 {
            let fields = counted(hidden as u64, "more field");
            rows.push((format!("    /* {fields} without sampled accesses */"), String::new()));
            continue;
        }
        let is_aligned = placed.begins_line || (at == 0 && field.role == FieldRole::Member);
        let align = match is_aligned && !layout.is_ordered_by_compiler {
            true => format!("alignas({line_bytes}) "),
            false => String::new(),
        };
        let declaration = match layout.is_ordered_by_compiler {
            true => format!("    {}: {},", escape(&field.name), escape(&field.type_name)),
            false => format!("    {align}{};", declared(field, placed, line_bytes)),
        };
        let (offset, bytes) = (count(placed.offset), count(placed.bytes));
        let used = used(found, field, placed);
        let used = if used.is_empty() { used } else { format!("  {used}") };
        rows.push((declaration, format!("{offset:>digits$} {bytes:>digits$}{used}")));
    }
    rows.push((if layout.is_ordered_by_compiler { "}" } else { "};" }.to_owned(), String::new()));
    aligned(&rows)
}

/// Of a long row of fields without accesses: 0 for those that are shown, the number of the others for the first of them,
/// `None` for the rest.
pub(super) fn idle(fields: &[PlacedField], at: usize) -> Option<usize> {
    let is_idle = |field: &PlacedField| field.writers.is_empty() && field.readers.is_empty();
    let breaks = |field: &PlacedField| !is_idle(field) || field.begins_line;
    if !is_idle(&fields[at]) {
        return Some(0);
    }
    let before = fields[..=at].iter().rev().take_while(|one| is_idle(one));
    // The one that begins a line is the first of its row.
    let mut number = 0;
    for field in before {
        number += 1;
        if field.begins_line {
            break;
        }
    }
    let after = fields[at + 1..].iter().take_while(|one| !breaks(one)).count();
    let all = number + after;
    match number {
        _ if all <= MOST_IDLE => Some(0),
        1..MOST_IDLE => Some(0),
        MOST_IDLE => Some(all - MOST_IDLE + 1),
        _ => None,
    }
}

/// A field as C and C++ write it.
pub(super) fn declared(field: &LayoutField, placed: &PlacedField, line_bytes: u64) -> String {
    let (kind, name) = (escape(&field.type_name), escape(&field.name));
    if field.role == FieldRole::Base {
        return format!("/* base class */ {name}");
    }
    let bits = field.bits.map_or_else(String::new, |(_, width)| format!(":{width}"));
    let (of, lengths) = match kind.rsplit_once(" [") {
        Some((of, lengths)) => (of, format!("[{lengths}")),
        None => (&*kind, String::new()),
    };
    let space = if of.ends_with(['*', '&']) || name.is_empty() { "" } else { " " };
    match placed.element_stride {
        Some(_) => format!("struct {{ alignas({line_bytes}) {of}{space}value; }} {name}{lengths}"),
        None => format!("{of}{space}{name}{bits}{lengths}"),
    }
}

fn used(found: &SharedLines, field: &LayoutField, placed: &PlacedField) -> String {
    if !placed.is_measured {
        return "not in a sampled line".to_owned();
    }
    let threads = |verb: &str, of: &[u32]| match of {
        [] => None,
        of if of.len() > MOST_THREADS => {
            Some(format!("{verb} {}", counted(of.len() as u64, "thread")))
        }
        of => {
            let thread = |at: &u32| found.threads.get(*at as usize);
            let name = |one: &pmuscope_profile::hits::Thread| {
                format!("{} {}", one.tid, escape(&one.command))
            };
            let names: Vec<String> = of.iter().filter_map(thread).map(name).collect();
            Some(format!("{verb} {}", names.join(", ")))
        }
    };
    let table = (field.role == FieldRole::VirtualTable).then(|| "virtual functions".to_owned());
    let parts =
        [table, threads("written by", &placed.writers), threads("read by", &placed.readers)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Declarations, and their comments in a column.
fn aligned(rows: &[(String, String)]) -> String {
    let width = |text: &str| text.chars().count();
    let longest = rows.iter().filter(|row| !row.1.is_empty()).map(|row| width(&row.0)).max();
    let column = longest.unwrap_or(0).min(LONGEST_DECLARATION);
    let row = |(declaration, comment): &(String, String)| match &**comment {
        "" => declaration.clone(),
        comment => {
            let room = column.saturating_sub(width(declaration));
            format!("{declaration}{}  /* {comment} */", " ".repeat(room))
        }
    };
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}
