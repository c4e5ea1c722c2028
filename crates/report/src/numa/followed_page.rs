//! Processes followed over time as a page: heat maps of nodes over time, locality, processes.

use pmuscope_numa::timeline::Observation;

use super::FOLLOWED_SCHEMA;
use super::followed::{Followed, observations, processes};
use crate::Note;
use crate::html::{Cells, Fact, Grid, PageFrame, Summary, contents};
use crate::markup::{Markup, html};
use crate::number::{self, duration, fixed, percent};
use crate::section::Section;
use crate::title;

/// More columns than a screen has points to tell apart: neighbors share one.
const MOST_COLUMNS: usize = 600;

/// The page; `commit` is what the program was built from.
#[must_use]
pub(super) fn followed_page(followed: &Followed<'_>, commit: &str) -> String {
    let columns = columns(followed.observations);
    let column_s = followed.seconds / columns.len().max(1) as f64;
    let bytes: Vec<Vec<u64>> = rows(followed, &columns, |observation, node| {
        observation.bytes().get(node).map_or(0, |bytes| bytes.round() as u64 / 1024)
    });
    let threads = rows(followed, &columns, |observation, node| {
        observation.threads().get(node).map_or(0, |&threads| u64::from(threads))
    });
    let maps = [
        map(followed, ("memory", "Memory by NUMA node"), ("KiB", &bytes), column_s),
        map(followed, ("threads", "Threads by NUMA node"), ("threads", &threads), column_s),
    ];
    let all: Vec<usize> = (0..followed.observations.len()).collect();
    let tables = [observations(followed, &all), processes(followed, usize::MAX)];
    let links = [("memory", "Memory by NUMA node"), ("threads", "Threads by NUMA node")];
    let links = links.map(|(id, name)| (id.to_owned(), name)).into_iter();
    let body = html! {
        (contents(links.chain(tables.iter().map(Section::link))))
        @for part in &maps { (part) }
        @for part in &tables { (part.html()) }
    };
    let summary = summary(followed, &followed.command);
    PageFrame { schema: FOLLOWED_SCHEMA, commit }.page(&summary, &body)
}

fn summary(followed: &Followed<'_>, command: &str) -> Summary {
    let locality = |observation: Option<&Observation>| {
        observation
            .and_then(|observation| observation.locality)
            .map_or("-".to_owned(), |share| fixed(share.value, 2))
    };
    let counted = |value: Option<u64>| value.map_or("-".to_owned(), crate::number::count);
    let [of_one_cpu, each] = followed.cost();
    let nodes = crate::number::count(followed.nodes.len() as u64);
    let emulated = followed.emulator.map_or(String::new(), |name| {
        format!("emulated ({name}): remote memory is as fast as local")
    });
    let counters = followed.counters.unwrap_or_default();
    let local = counters
        .local_share()
        .map_or(String::new(), |share| format!("{} local", percent(share, 0)));
    Summary {
        title: title::title(
            "memory placement",
            &title::short(&followed.who()),
            &[duration(followed.seconds), number::counted(followed.observations.len(), "snapshot")],
        ),
        facts: vec![
            Fact::new("Followed", followed.who(), "writable memory".to_owned()),
            Fact::new("Duration", duration(followed.seconds), followed.how_often()),
            Fact::new("Overhead", format!("{of_one_cpu} of one CPU"), each),
            Fact::new("Nodes", nodes, emulated).which_warns(followed.emulator.is_some()),
            Fact::new("Initial locality", locality(followed.observations.first()), String::new()),
            Fact::new("Final locality", locality(followed.observations.last()), left(followed)),
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

/// Whose locality the last observation has, where some processes had ended by then.
fn left(followed: &Followed<'_>) -> String {
    let all = followed.processes().len();
    let left = followed.observations.last().map_or(0, |observation| observation.processes.len());
    if left < all {
        format!("of the {left} of {all} processes that remained")
    } else {
        String::new()
    }
}

/// Looks of each column.
fn columns(observations: &[Observation]) -> Vec<&[Observation]> {
    observations.chunks(observations.len().div_ceil(MOST_COLUMNS).max(1)).collect()
}

/// The last observation of each column, node by node.
fn rows(
    followed: &Followed<'_>,
    columns: &[&[Observation]],
    value: impl Fn(&Observation, usize) -> u64,
) -> Vec<Vec<u64>> {
    let row =
        |node| columns.iter().filter_map(|column| Some(value(column.last()?, node))).collect();
    (0..followed.nodes.len()).map(row).collect()
}

fn map(
    followed: &Followed<'_>,
    (id, title): (&str, &str),
    (unit, values): (&str, &[Vec<u64>]),
    column_s: f64,
) -> Markup {
    let most = values.iter().flatten().copied().max().unwrap_or(0);
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
    html! {
        section class="heat-part" id=(id) {
            h2 { (title) }
            (grid.html())
        }
        "\n"
    }
}
