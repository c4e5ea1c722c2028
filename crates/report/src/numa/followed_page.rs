//! Processes followed over time as a page: heat maps of nodes over time, locality, processes.

use std::fmt::Write as _;

use pmuscope_numa::timeline::Observation;

use super::followed::Followed;
use super::{FOLLOWED_SCHEMA, MIB};
use crate::Note;
use crate::html::{Cells, Fact, Grid, PageFrame, Summary, contents, filter};
use crate::markup::{text, written};
use crate::number::{duration, fixed, percent, significant};

/// More columns than a screen has points to tell apart: neighbours share one.
const MOST_COLUMNS: usize = 600;

/// The page; `commit` is what the program was built from.
#[must_use]
pub(super) fn followed_page(followed: &Followed<'_>, commit: &str) -> String {
    let columns = columns(followed.looks);
    let column_s = followed.seconds / columns.len().max(1) as f64;
    let bytes: Vec<Vec<u64>> = rows(followed, &columns, |look, node| {
        look.bytes().get(node).map_or(0, |bytes| bytes.round() as u64 / 1024)
    });
    let threads = rows(followed, &columns, |look, node| {
        look.threads().get(node).map_or(0, |&threads| u64::from(threads))
    });
    let parts = [
        ("memory", "Memory by node"),
        ("threads", "Threads by node"),
        ("looks", "Looks"),
        ("processes", "Processes"),
    ];
    PageFrame { schema: FOLLOWED_SCHEMA, commit }.page(
        &summary(followed, &followed.command),
        &written(|out| {
            out.push_str(&contents(parts.map(|(id, name)| (id.to_owned(), name))).0);
            push_map(out, followed, parts[0], ("KiB", &bytes), column_s);
            push_map(out, followed, parts[1], ("threads", &threads), column_s);
            push_looks(out, followed);
            push_processes(out, followed);
        }),
    )
}

fn summary(followed: &Followed<'_>, command: &str) -> Summary {
    let locality = |look: Option<&Observation>| {
        look.and_then(|look| look.locality).map_or("-".to_owned(), |share| fixed(share.value, 2))
    };
    let counted = |value: Option<u64>| value.map_or("-".to_owned(), crate::number::count);
    let [of_one_cpu, each] = followed.cost();
    let nodes = crate::number::count(followed.nodes.len() as u64);
    let emulated = followed.emulator.map_or(String::new(), |name| {
        format!("emulated ({name}): the others are as near as the own")
    });
    let counters = followed.counters.unwrap_or_default();
    let local = counters
        .local_share()
        .map_or(String::new(), |share| format!("{} of them local", percent(share, 0)));
    Summary {
        title: "numa show".to_owned(),
        facts: vec![
            Fact::new("Followed", followed.who(), "memory that they may write to".to_owned()),
            Fact::new("Duration", duration(followed.seconds), followed.how_often()),
            Fact::new("Cost", format!("{of_one_cpu} of a CPU"), each),
            Fact::new("Nodes", nodes, emulated).which_warns(followed.emulator.is_some()),
            Fact::new("Locality at first", locality(followed.looks.first()), String::new()),
            Fact::new("Locality at last", locality(followed.looks.last()), left(followed)),
            Fact::new("Hint faults", counted(counters.hint_faults), local),
            Fact::new(
                "Pages migrated",
                counted(counters.pages_migrated),
                "by the kernel's balancing, on the whole machine".to_owned(),
            ),
        ],
        notes: followed.notes().into_iter().map(|text| Note { text, warning: false }).collect(),
        command: command.to_owned(),
    }
}

/// Whose locality the last look has, where some processes had ended by then.
fn left(followed: &Followed<'_>) -> String {
    let all = followed.processes().len();
    let left = followed.looks.last().map_or(0, |look| look.processes.len());
    if left < all {
        format!("of the {left} of {all} processes that were left")
    } else {
        String::new()
    }
}

/// Looks of each column.
fn columns(looks: &[Observation]) -> Vec<&[Observation]> {
    looks.chunks(looks.len().div_ceil(MOST_COLUMNS).max(1)).collect()
}

/// The last look of each column, node by node.
fn rows(
    followed: &Followed<'_>,
    columns: &[&[Observation]],
    value: impl Fn(&Observation, usize) -> u64,
) -> Vec<Vec<u64>> {
    let row =
        |node| columns.iter().filter_map(|column| Some(value(column.last()?, node))).collect();
    (0..followed.nodes.len()).map(row).collect()
}

fn push_map(
    out: &mut String,
    followed: &Followed<'_>,
    (id, title): (&str, &str),
    (unit, values): (&str, &[Vec<u64>]),
    column_s: f64,
) {
    let most = values.iter().flatten().copied().max().unwrap_or(0);
    // Writing to a String does not fail, here and below.
    let _ = writeln!(
        out,
        "<section class=\"heat-part\" id=\"{id}\">\n<h2>{title}</h2>\n<p class=\"dim\">The strongest shade: {} {unit}.</p>",
        crate::number::count(most)
    );
    let told = format!("{title} over time; the table below has the numbers");
    let grid = Grid {
        row: "node",
        rows: followed.nodes.iter().map(u32::to_string).collect(),
        column_s,
        most,
        cells: Cells { unit, values },
        marks: None,
        legend: "",
        told: &told,
    };
    out.push_str(&grid.html().0);
    out.push_str("</section>\n");
}

fn push_looks(out: &mut String, followed: &Followed<'_>) {
    out.push_str(
        "<section class=\"table-part\" id=\"looks\">\n<h2>Looks</h2>\n<details><summary>All of them</summary>\
         <div class=\"wide\"><table class=\"sortable\"><thead><tr>\
         <th scope=\"col\" class=\"num\" aria-sort=\"ascending\">time s</th>\
         <th scope=\"col\" class=\"num\">locality</th><th scope=\"col\" class=\"num\">± 95 %</th>",
    );
    for node in followed.nodes {
        let _ = write!(
            out,
            "<th scope=\"col\" class=\"num\">threads on {node}</th><th scope=\"col\" class=\"num\">MiB on {node}</th>"
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for look in followed.looks {
        let _ = write!(out, "<tr>{}", number(Some(look.at_s), 2));
        out.push_str(&number(look.locality.map(|share| share.value), 3));
        out.push_str(&number(look.locality.map(|share| share.half), 3));
        for (threads, bytes) in look.threads().iter().zip(look.bytes()) {
            out.push_str(&number(Some(f64::from(*threads)), 0));
            out.push_str(&number(Some(bytes / MIB), 1));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div></details>\n</section>\n");
}

fn push_processes(out: &mut String, followed: &Followed<'_>) {
    let _ = write!(
        out,
        "<section class=\"table-part\" id=\"processes\">\n<h2>Processes</h2>\n{}<div class=\"wide\"><table class=\"sortable\"><thead><tr>\
         <th scope=\"col\" class=\"num\">process</th><th scope=\"col\">command</th>\
         <th scope=\"col\" class=\"num\">MiB</th><th scope=\"col\" class=\"num\">locality, first</th>\
         <th scope=\"col\" class=\"num\">last</th></tr></thead>\n<tbody>\n",
        filter().0
    );
    for (first, last) in followed.processes() {
        let bytes = last.bytes.iter().sum::<f64>() / MIB;
        let _ = writeln!(
            out,
            "<tr><td class=\"num\">{}</td><td>{}</td><td class=\"num\" data-v=\"{bytes}\">{}</td>{}{}</tr>",
            last.pid,
            text(&last.name),
            significant(bytes, 3),
            number(first.locality.map(|share| share.value), 2),
            number(last.locality.map(|share| share.value), 2),
        );
    }
    out.push_str("</tbody></table></div>\n</section>\n");
}

fn number(value: Option<f64>, decimals: usize) -> String {
    match value {
        Some(value) => {
            format!("<td class=\"num\" data-v=\"{value}\">{}</td>", fixed(value, decimals))
        }
        None => "<td class=\"num\" data-v=\"-1\">-</td>".to_owned(),
    }
}
