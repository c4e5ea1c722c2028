//! Contended loads of all lines together, by function, field, object, thread or NUMA node.

use std::collections::BTreeMap;

use pmuscope_profile::hits::Site;
use pmuscope_profile::sharing::{AccessSums, LineOffset, LineRow, SharedLine};

use super::{SharingView, heap, sheets, words};
use crate::sheet::{Field, NAME, Sheet};

/// What rows are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SharingBy {
    /// Cache lines, and those with the highest cost by offset.
    #[default]
    Line,
    /// Functions that access them.
    Function,
    /// Variables and their fields.
    Field,
    /// Variables, and objects on the heap by allocation site.
    Object,
    /// Threads.
    Thread,
    /// NUMA nodes of the CPUs that access them.
    Node,
}

impl SharingBy {
    /// Its name in JSON.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Function => "function",
            Self::Field => "field",
            Self::Object => "object",
            Self::Thread => "thread",
            Self::Node => "node",
        }
    }
}

/// A function, field, object, thread or NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharingGroup {
    name: String,
    /// Of a function or a variable.
    module: Option<String>,
    sums: AccessSums,
    lines: u64,
}

/// Groups of accesses to the lines that are shown, those whose contended loads cost most first.
pub(super) fn groups(view: &SharingView<'_>) -> Vec<SharingGroup> {
    let mut groups: BTreeMap<(String, Option<String>), (AccessSums, u64)> = BTreeMap::new();
    for line in view.shown().0 {
        let mut of_line: BTreeMap<(String, Option<String>), AccessSums> = BTreeMap::new();
        let mut add = |key, sums: &AccessSums| of_line.entry(key).or_default().add(sums);
        match view.by {
            SharingBy::Line => {}
            SharingBy::Function => {
                line.rows.iter().for_each(|row| add(function(view, row), &row.sums));
            }
            SharingBy::Field => {
                line.offsets.iter().for_each(|offset| add(field(line, offset), &offset.sums));
            }
            SharingBy::Object => {
                line.offsets
                    .iter()
                    .for_each(|offset| add(object(view, line, offset), &offset.sums));
            }
            SharingBy::Thread => {
                line.threads.iter().for_each(|(at, sums)| add((thread(view, *at), None), sums));
            }
            SharingBy::Node => {
                line.cpus.iter().for_each(|(cpu, sums)| add((node(view, *cpu), None), sums));
            }
        }
        for (key, sums) in of_line {
            let group = groups.entry(key).or_default();
            group.0.add(&sums);
            group.1 += 1;
        }
    }
    let group = |((name, module), (sums, lines))| SharingGroup { name, module, sums, lines };
    let mut groups: Vec<SharingGroup> = groups.into_iter().map(group).collect();
    let rank =
        |group: &SharingGroup| (group.sums.cost, group.sums.contended(), group.sums.stores());
    groups.sort_by_key(|group| std::cmp::Reverse(rank(group)));
    groups
}

fn function(view: &SharingView<'_>, row: &LineRow) -> (String, Option<String>) {
    let site = view.found.sites.get(row.site as usize);
    let of = |site: &Site| match (&site.function, site.address) {
        (Some(function), _) => function.to_string(),
        (None, Some(address)) => format!("{address:#x}"),
        (None, None) => "[unknown]".to_owned(),
    };
    (site.map_or_else(|| "[unknown]".to_owned(), of), site.map(|site| site.module.to_string()))
}

fn field(line: &SharedLine, offset: &LineOffset) -> (String, Option<String>) {
    let name = words::data(offset);
    let nameless = || format!("{:#x}+{}", line.address, offset.word);
    (name.unwrap_or_else(nameless), Some(line.module.to_string()))
}

/// A variable; a heap object's site; else what memory it is.
fn object(
    view: &SharingView<'_>,
    line: &SharedLine,
    offset: &LineOffset,
) -> (String, Option<String>) {
    let site = || heap::site(view.found, line, offset);
    let memory = || words::memory(line);
    let name = offset.object.as_deref().map(str::to_owned);
    (name.or_else(site).unwrap_or_else(memory), Some(line.module.to_string()))
}

fn thread(view: &SharingView<'_>, at: u32) -> String {
    let thread = view.found.threads.get(at as usize);
    thread.map_or_else(String::new, |one| format!("{} {}", one.tid, one.command))
}

fn node(view: &SharingView<'_>, cpu: Option<u32>) -> String {
    let node = cpu.and_then(|cpu| view.nodes.get(&cpu));
    node.map_or_else(|| "[unknown]".to_owned(), u32::to_string)
}

/// The table of groups.
pub(super) fn sheet<'a>(
    view: SharingView<'a>,
    groups: &'a [SharingGroup],
    most: Option<usize>,
) -> Sheet<'a> {
    let all = &view.found.memory.sums;
    let share = move |row: &SharingGroup| match all.cost {
        0 => row.sums.contended() as f64 / all.contended().max(1) as f64,
        cost => row.sums.cost as f64 / cost as f64,
    };
    let mut fields = vec![Field::part("share", move |row: &SharingGroup| Some(share(row)))];
    fields.extend(sheets::sums(view, |row: &SharingGroup| &row.sums));
    fields.extend([
        Field::count("lines", |row: &SharingGroup| row.lines).optional(6),
        Field::text("module", |row: &'a SharingGroup| row.module.as_deref())
            .head("DSO")
            .shown_if_known(|row: &SharingGroup| row.module.as_deref().map(words::short_module))
            .optional(7)
            .only_if_measured(),
        Field::text("name", |row: &'a SharingGroup| Some(&*row.name))
            .head(view.by.word())
            .wanted(NAME),
    ]);
    let shown = most.map_or(groups.len(), |most| most.min(groups.len()));
    Sheet::new(fields, &groups[..shown], groups.len())
}
