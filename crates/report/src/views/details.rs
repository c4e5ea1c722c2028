//! What samples carry besides an address, a table each: branches, accesses to memory, addresses of data.

mod accessors;

use std::borrow::Cow;

use pmuscope_profile::views::{
    AccessRow, Accesses, BranchEnd, BranchRow, Branches, DataAddresses, DataRow,
};

use self::accessors::{accessor_fields, class_fields, class_word, hitm_text};
use crate::document::{Document, RecordingView};
use crate::number::{count, counted};
use crate::recording::RowLimits;
use crate::sheet::{Field, Sheet};

/// What has no name.
pub(super) const UNKNOWN: &str = "[unknown]";

/// A sheet of the largest rows, as far as `limits` allow; `rows` are in order of `share`.
fn sheet<'a, R>(
    fields: Vec<Field<'a, R>>,
    rows: &'a [R],
    limits: RowLimits,
    share: impl Fn(&R) -> f64,
) -> Sheet<'a> {
    let large = rows.iter().take_while(|row| share(row) >= limits.share).count();
    let shown = limits.rows.map_or(large, |most| most.min(large));
    Sheet::new(fields, &rows[..shown], rows.len()).limited_by(limits)
}

fn share_of(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// Branches from function to function.
#[must_use]
pub fn branches<'a>(found: &'a Branches, view: RecordingView<'a>) -> Document<'a> {
    let all = found.branches;
    let share = move |row: &BranchRow| share_of(row.sums.branches, all);
    let fields = vec![
        Field::share("share", move |row: &BranchRow| (share(row), row.interval)),
        Field::count("branches", |row: &BranchRow| row.sums.branches).optional(3),
        Field::part("miss_share", |row: &BranchRow| row.sums.miss_share())
            .head("mispredicted")
            .optional(2)
            .for_people(),
        Field::count("predicted", |row: &BranchRow| row.sums.predicted).for_programs(),
        Field::count("mispredicted", |row: &BranchRow| row.sums.mispredicted).for_programs(),
        Field::count("in_transaction", |row: &BranchRow| row.sums.in_transaction).for_programs(),
        Field::count("aborted", |row: &BranchRow| row.sums.aborted).for_programs(),
        Field::number("cycles_mean", |row: &BranchRow| row.sums.mean_cycles())
            .head("cycles")
            .optional(4),
        Field::count("cycles_of", |row: &BranchRow| row.sums.with_cycles).for_programs(),
    ];
    let ends =
        end_fields(|row| &row.from, ["from", "from.function", "from.module", "from.address"])
            .into_iter()
            .chain(end_fields(|row| &row.to, ["to", "to.function", "to.module", "to.address"]));
    let nothing = match (found.branches, found.with_calls) {
        (1.., _) => None,
        (0, 1..) => Some(
            "no branches: the branch stacks hold call stacks (--call-graph lbr). Try: pmuscope report --call-tree; \
             for branches: pmuscope record -b",
        ),
        (0, 0) => Some(
            "no branch stacks were recorded. Try: pmuscope record -b, on a CPU that supports them",
        ),
    };
    let branches = match all {
        1 => "1 branch".to_owned(),
        several => format!("{} branches", count(several)),
    };
    Document {
        schema: "pmuscope/branches/1",
        title: "Branches",
        view,
        line: format!("{branches} of {}", counted(found.with_stack, "sample")),
        sums: vec![
            ("samples", found.samples.kept),
            ("samples_with_branches", found.with_stack),
            ("samples_with_call_stacks", found.with_calls),
            ("branches", all),
        ],
        sheet: sheet(fields.into_iter().chain(ends).collect(), &found.rows, view.limits, share),
        nothing,
    }
}

/// `name [module]` for people; function, module and address for programs.
fn end_fields<'a>(
    end: impl Fn(&'a BranchRow) -> &'a BranchEnd + Copy + 'a,
    [both, function, module, address]: [&'static str; 4],
) -> [Field<'a, BranchRow>; 4] {
    [
        Field::text(both, move |row| Some(end_text(end(row)))).wanted(24).for_people(),
        Field::text(function, move |row| end(row).function.as_deref()).for_programs(),
        Field::text(module, move |row| Some(&*end(row).module)).for_programs(),
        Field::address(address, move |row| end(row).address).for_programs(),
    ]
}

fn end_text(end: &BranchEnd) -> String {
    let name = match (&end.function, end.address) {
        (Some(function), _) => function.to_string(),
        (None, Some(address)) => format!("{address:#x}"),
        (None, None) if &*end.module == UNKNOWN => return UNKNOWN.into(),
        (None, None) => UNKNOWN.into(),
    };
    let module = end.module.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&end.module);
    format!("{name} [{}]", module.trim_matches(['[', ']']))
}

/// Accesses by where their data came from.
#[must_use]
pub fn accesses<'a>(found: &'a Accesses, view: RecordingView<'a>) -> Document<'a> {
    let all = found.with_source;
    let share = move |row: &AccessRow| share_of(row.samples, all);
    let word = |word: Option<&'static str>| word.map(Cow::Borrowed);
    let mut fields = vec![
        Field::share("share", move |row: &AccessRow| (share(row), row.interval)),
        Field::count("samples", |row: &AccessRow| row.samples),
        Field::number("weight_mean", |row: &AccessRow| row.weights.mean())
            .head("mean weight")
            .optional(3),
        Field::count("weight_max", |row: &AccessRow| row.weights.largest())
            .head("max weight")
            .optional(6),
        Field::count("weight_of", |row: &AccessRow| row.weights.of).for_programs(),
        Field::text("mem", level_text).rigid().for_people(),
        Field::text("level", move |row: &AccessRow| word(row.kind.level)).for_programs(),
        Field::flag("hit", |row: &AccessRow| row.kind.hit).for_programs(),
        Field::flag("remote", |row: &AccessRow| row.kind.remote).for_programs(),
        Field::text("snoop", move |row: &AccessRow| word(row.kind.snoop)).rigid().optional(5),
        Field::text("hitm_text", |row: &AccessRow| Some(hitm_text(row.kind.class, row.kind.hitm)))
            .head("HITM")
            .rigid()
            .for_people(),
        Field::flag("hitm", |row: &AccessRow| row.kind.hitm).for_programs(),
        Field::text("class", |row: &AccessRow| row.kind.class.map(class_word)).for_programs(),
        Field::text("tlb_text", tlb_text).head("TLB").rigid().optional(4).for_people(),
        Field::text("tlb", move |row: &AccessRow| word(row.kind.tlb)).for_programs(),
        Field::flag("tlb_hit", |row: &AccessRow| row.kind.tlb_hit).for_programs(),
        Field::flag("locked", |row: &AccessRow| row.kind.locked).optional(7),
        Field::text("operation", move |row: &AccessRow| word(row.kind.operation)).rigid(),
    ];
    fields.extend(accessor_fields(found.by, |row: &AccessRow| &row.accessor));
    Document {
        schema: "pmuscope/memory/1",
        title: "Memory accesses",
        view,
        line: format!("{} sampled accesses to memory", count(all)),
        sums: vec![("samples", found.samples.kept), ("samples_with_source", all)],
        sheet: sheet(fields, &found.rows, view.limits, share),
        nothing: (all == 0).then_some(
            "no data sources were recorded. Try: pmuscope record -d with a load or store event",
        ),
    }
}

/// `L3 hit`, `remote RAM hit`.
fn level_text(row: &AccessRow) -> Option<String> {
    let level = row.kind.level?;
    // Older encodings have both in the name of the level.
    let remote = if row.kind.remote && !level.starts_with("Remote") { "remote " } else { "" };
    let says_so = level.ends_with("hit") || level.ends_with("miss");
    let hit = if says_so { "" } else { hit_text(row.kind.hit) };
    Some(format!("{remote}{level}{hit}"))
}

fn tlb_text(row: &AccessRow) -> Option<String> {
    row.kind.tlb.map(|tlb| format!("{tlb}{}", hit_text(row.kind.tlb_hit)))
}

fn hit_text(hit: Option<bool>) -> &'static str {
    match hit {
        Some(true) => " hit",
        Some(false) => " miss",
        None => "",
    }
}

/// Variables and mappings by how often they were accessed.
#[must_use]
pub fn data<'a>(found: &'a DataAddresses, view: RecordingView<'a>) -> Document<'a> {
    let all = found.with_address;
    let share = move |row: &DataRow| share_of(row.sums.samples, all);
    let with = match all {
        1 => "1 data address".to_owned(),
        several => format!("{} data addresses", count(several)),
    };
    Document {
        schema: "pmuscope/data/1",
        title: "Data addresses",
        view,
        line: format!("{with} in {}", counted(found.samples.kept, "sample")),
        sums: vec![("samples", found.samples.kept), ("samples_with_address", all)],
        sheet: sheet(data_fields(found), &found.rows, view.limits, share),
        nothing: (all == 0).then_some(
            "no data addresses were recorded. Try: pmuscope record -d, with an event that has them: page-faults, or \
             precisely sampled loads and stores",
        ),
    }
}

fn data_fields(found: &DataAddresses) -> Vec<Field<'_, DataRow>> {
    let all = found.with_address;
    let share = move |row: &DataRow| (share_of(row.sums.samples, all), row.interval);
    let mut fields = vec![
        Field::share("share", share),
        Field::count("samples", |row: &DataRow| row.sums.samples),
        Field::number("weight_mean", |row: &DataRow| row.sums.weights.mean())
            .head("mean weight")
            .only_if_measured()
            .optional(4),
        Field::count("weight_max", |row: &DataRow| row.sums.weights.largest())
            .head("max weight")
            .only_if_measured()
            .optional(6),
        Field::count("weight_of", |row: &DataRow| row.sums.weights.of).for_programs(),
    ];
    fields.extend(class_fields(&found.classes, |row: &DataRow| {
        Some(&row.sums.classes).filter(|_| row.sums.with_source > 0)
    }));
    fields.extend([
        Field::count("remote", |row: &DataRow| row.sums.told(row.sums.remote))
            .only_if_measured()
            .optional(3),
        Field::count("hitm", |row: &DataRow| row.sums.told(row.sums.hitm)).for_programs(),
        Field::count("source_of", |row: &DataRow| row.sums.with_source).for_programs(),
    ]);
    fields.extend(accessor_fields(found.by.accessor, |row: &DataRow| &row.accessor));
    fields.push(
        Field::text("module", |row: &DataRow| Some(&*row.module))
            .head("DSO")
            .shown_as(|row: &DataRow| short(&row.module).into()),
    );
    let object = Field::text("object", |row: &DataRow| row.object.as_deref())
        .head("data")
        .missing_as(UNKNOWN);
    if found.by.field {
        fields.extend([
            object.shown_if_known(data_text),
            Field::text("field", |row: &DataRow| row.field.as_deref()).for_programs(),
            Field::count("offset", |row: &DataRow| row.offset).for_programs(),
        ]);
    } else {
        fields.push(object);
    }
    fields
}

/// `queue.head`, `counters+8`.
fn data_text(row: &DataRow) -> Option<String> {
    let object = row.object.as_deref()?;
    Some(match (&row.field, row.offset) {
        (Some(field), _) => format!("{object}{field}"),
        (None, Some(offset @ 1..)) => format!("{object}+{offset}"),
        (None, _) => object.to_owned(),
    })
}

/// A file without its folders. `//anon` is no path.
fn short(module: &str) -> &str {
    let is_path = module.starts_with('/') && !module.starts_with("//");
    let name = module.rsplit('/').find(|part| is_path && !part.is_empty());
    name.unwrap_or(module)
}

#[cfg(test)]
mod tests;
