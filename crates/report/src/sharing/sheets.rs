//! The tables of shared lines: their fields, for all forms.

use pmuscope_perfdata::reader::AccessClass;
use pmuscope_profile::hits::Thread;
use pmuscope_profile::sharing::{
    AccessSums, LineMapping, LineOffset, LinePair, LineRow, SharedLine,
};
use serde_json::json;

use super::words::{self, contended_word};
use super::{SharingView, heap};
use crate::number::significant;
use crate::sheet::{Field, NAME, Sheet, SheetForm};
use crate::watch::{place, verdict, verdict_word};

/// A row per line.
pub(super) fn lines<'a>(view: SharingView<'a>, lines: &'a [SharedLine], all: usize) -> Sheet<'a> {
    let mut fields = vec![
        Field::share("share", move |row: &SharedLine| (view.share(row), row.interval)),
        Field::address("address", |row: &SharedLine| Some(row.address)).head("line"),
        Field::address("physical", |row: &SharedLine| row.physical).only_if_measured().optional(6),
        Field::count("processes", |row: &SharedLine| processes(row))
            .only_if_measured()
            .optional(4)
            .for_people(),
        Field::text("object", move |row: &SharedLine| Some(words::object(view.found, row)))
            .wanted(NAME)
            .for_people(),
        Field::text("verdict", |row: &SharedLine| Some(verdict(row.verdict.verdict)))
            .rigid()
            .for_people(),
    ];
    fields.extend(line_facts());
    fields.extend(sums(view, |row: &SharedLine| &row.sums));
    fields.push(
        Field::count("threads", |row: &SharedLine| row.threads.len() as u64)
            .optional(5)
            .for_people(),
    );
    Sheet::new(fields, lines, all)
}

/// Processes that have a line, of lines by physical address.
fn processes(row: &SharedLine) -> Option<u64> {
    let mut pids: Vec<i32> = row.mappings.iter().filter_map(|one| one.pid).collect();
    pids.dedup();
    row.physical.map(|_| pids.len() as u64)
}

/// What programs get of a line in other fields.
fn line_facts<'a>() -> Vec<Field<'a, SharedLine>> {
    let estimate = |row: &SharedLine| Some((row.verdict.false_share?, row.verdict.interval));
    vec![
        Field::text("verdict", |row: &SharedLine| Some(verdict_word(row.verdict.verdict)))
            .for_programs(),
        Field::estimate("false_share", estimate).for_programs(),
        Field::count("false_cost", |row: &SharedLine| row.verdict.false_cost).for_programs(),
        Field::flag("sees_writes", |row: &SharedLine| row.verdict.sees_writes).for_programs(),
        Field::id("pid", |row: &SharedLine| row.pid).for_programs(),
        Field::json("mappings", |row: &SharedLine| {
            let mapping = |one: &LineMapping| json!({"pid": one.pid, "address": format!("{:#x}", one.address)});
            row.mappings.iter().map(mapping).collect()
        }),
        Field::json("page_nodes", |row: &SharedLine| {
            let node =
                |(node, accesses): &(Option<u32>, u64)| json!({"node": node, "accesses": accesses});
            row.page.nodes.iter().map(node).collect()
        }),
        Field::count("physical_pages", |row: &SharedLine| {
            Some(u64::from(row.page.places)).filter(|&places| places > 0)
        })
        .for_programs(),
        Field::flag("in_kernel", |row: &SharedLine| row.in_kernel).for_programs(),
        Field::text("module", |row: &'a SharedLine| Some(&*row.module)).for_programs(),
    ]
}

/// What accesses came to.
pub(super) fn sums<'a, R: 'a>(
    view: SharingView<'a>,
    of: impl Fn(&'a R) -> &'a AccessSums + Copy + 'a,
) -> Vec<Field<'a, R>> {
    use AccessClass as Class;
    let contended = contended_word(view.found);
    let class = move |key: &'static str, class: AccessClass| {
        Field::count(key, move |row: &'a R| of(row).of_class(class)).for_programs()
    };
    // Recordings of loads only have none, and SPE does not say where stores go.
    let all = &view.found.memory.sums;
    let has_stores = all.stores() > 0;
    let says_hits = all.of_class(Class::StoreL1Hit) + all.of_class(Class::StoreL1Miss) > 0;
    let store = move |key: &'static str, class: AccessClass| {
        let get = move |row: &'a R| says_hits.then(|| of(row).of_class(class));
        Field::count(key, get).for_programs()
    };
    vec![
        Field::count("contended", move |row| of(row).contended()).head(contended),
        Field::count("remote", move |row| of(row).remote()).optional(3).for_people(),
        Field::number("contended_cycles", move |row| of(row).contended_mean()).head("cycles"),
        Field::count("contended_weighted", move |row| of(row).contended_with_weight).for_programs(),
        Field::count("cost", move |row| of(row).cost).for_programs(),
        Field::count("loads", move |row| of(row).loads()).optional(4),
        Field::count("stores", move |row| has_stores.then(|| of(row).stores())),
        Field::count("locked", move |row| of(row).locked).for_programs(),
        class("local_hitm", Class::LoadLocalHitm),
        class("remote_hitm", Class::LoadRemoteHitm),
        class("local_peer", Class::LoadLocalPeer),
        class("remote_peer", Class::LoadRemotePeer),
        class("load_l1", Class::LoadL1),
        class("load_fill_buffer", Class::LoadFillBuffer),
        class("load_l2", Class::LoadL2),
        class("load_l3", Class::LoadL3),
        class("load_remote_cache", Class::LoadRemoteCache),
        class("load_local_memory", Class::LoadLocalMemory),
        class("load_remote_memory", Class::LoadRemoteMemory),
        store("store_l1_hit", Class::StoreL1Hit),
        store("store_l1_miss", Class::StoreL1Miss),
        Field::number("other_cycles", move |row| of(row).other_mean()).for_programs(),
    ]
}

/// A row per offset and place in code.
pub(super) fn rows<'a>(view: &SharingView<'a>, line: &'a SharedLine) -> Sheet<'a> {
    let view = *view;
    let found = view.found;
    let offset = move |row: &LineRow| line.offsets.iter().find(|one| one.offset == row.offset);
    let most = line.rows.iter().map(|row| row.sums.contended()).max().unwrap_or(0).max(1);
    let mut fields = vec![
        Field::text("verdict", |_: &LineRow| Some(verdict_word(line.verdict.verdict)))
            .only_in(&[SheetForm::Delimited]),
        Field::count("offset", |row: &LineRow| u64::from(row.offset)),
        Field::text("data", move |row: &LineRow| words::data(offset(row)?))
            .optional(7)
            .only_if_measured()
            .for_people(),
        Field::text("in", move |row: &LineRow| heap::place_in(line, offset(row)?))
            .head("heap object")
            .rigid()
            .optional(6)
            .only_if_measured()
            .for_people(),
        Field::text("object", move |row: &LineRow| offset(row)?.object.as_deref()).for_programs(),
        Field::text("type", move |row: &LineRow| offset(row)?.type_name.as_deref()).for_programs(),
        Field::text("field", move |row: &LineRow| offset(row)?.field.as_deref()).for_programs(),
    ];
    let mut of_sums = sums(view, |row: &LineRow| &row.sums);
    // Where the line is hot.
    of_sums[0] = Field::count("contended", |row: &LineRow| row.sums.contended())
        .head(contended_word(found))
        .shaded(move |row: &LineRow| row.sums.contended() as f64 / most as f64);
    fields.extend(of_sums);
    fields.extend([
        Field::count("threads", |row: &LineRow| row.threads.len() as u64).optional(5).for_people(),
        Field::text("cpus", |row: &LineRow| Some(words::ranges(&row.cpus)))
            .head("CPUs")
            .rigid()
            .optional(6)
            .for_people(),
        Field::text("nodes", move |row: &LineRow| Some(words::ranges(&view.nodes(&row.cpus)?)))
            .rigid()
            .optional(8)
            .only_if_measured()
            .for_people(),
        Field::text("code", move |row: &LineRow| Some(place(found.sites.get(row.site as usize))))
            .wanted(NAME)
            .for_people(),
    ]);
    fields.extend(site_fields(view));
    fields.extend(heap_fields(view, line));
    Sheet::new(fields, &line.rows, line.rows.len()).by_another_order()
}

/// The object on the heap, for programs.
fn heap_fields<'a>(view: SharingView<'a>, line: &'a SharedLine) -> Vec<Field<'a, LineRow>> {
    let offset = move |row: &LineRow| line.offsets.iter().find(|one| one.offset == row.offset);
    let object = move |row: &LineRow| heap::at(line, offset(row)?);
    vec![
        Field::count("heap_object", move |row: &LineRow| offset(row)?.heap_object.map(u64::from))
            .for_programs(),
        Field::count("heap_offset", move |row: &LineRow| {
            heap::within(line, offset(row)?, object(row)?)
        })
        .for_programs(),
        Field::count("heap_size", move |row: &LineRow| object(row).map(|object| object.size))
            .for_programs(),
        Field::text("heap_site", move |row: &LineRow| heap::site(view.found, line, offset(row)?))
            .for_programs(),
    ]
}

/// Code, threads and CPUs for programs.
fn site_fields<'a>(view: SharingView<'a>) -> Vec<Field<'a, LineRow>> {
    let found = view.found;
    let site = move |row: &LineRow| found.sites.get(row.site as usize);
    let line = move |row: &LineRow| site(row)?.line.as_ref();
    let thread = move |at: &u32| found.threads.get(*at as usize).map(thread_json);
    vec![
        Field::text("function", move |row: &LineRow| site(row)?.function.as_deref()).for_programs(),
        Field::text("inlined_into", move |row: &LineRow| site(row)?.inlined_into.as_deref())
            .for_programs(),
        Field::text("module", move |row: &LineRow| Some(&*site(row)?.module)).for_programs(),
        Field::address("code_address", move |row: &LineRow| site(row)?.address).for_programs(),
        Field::text("file", move |row: &LineRow| Some(&*line(row)?.file)).for_programs(),
        Field::count("line", move |row: &LineRow| Some(u64::from(line(row)?.number?)))
            .column("source_line")
            .for_programs(),
        Field::json("threads", move |row: &LineRow| {
            row.threads.iter().filter_map(thread).collect()
        }),
        Field::json("cpus", |row: &LineRow| json!(row.cpus)),
        Field::json("nodes", move |row: &LineRow| json!(view.nodes(&row.cpus))),
    ]
}

pub(super) fn thread_json(thread: &Thread) -> serde_json::Value {
    json!({"pid": thread.pid, "tid": thread.tid, "command": &*thread.command})
}

/// A row per offset, for programs.
pub(super) fn offsets<'a>(view: SharingView<'a>, line: &'a SharedLine) -> Sheet<'a> {
    let mut fields = vec![
        Field::count("offset", |row: &LineOffset| u64::from(row.offset)),
        Field::text("object", |row: &'a LineOffset| row.object.as_deref()),
        Field::text("type", |row: &'a LineOffset| row.type_name.as_deref()),
        Field::text("field", |row: &'a LineOffset| row.field.as_deref()),
        Field::count("heap_object", |row: &LineOffset| row.heap_object.map(u64::from)),
        Field::count("word", |row: &LineOffset| u64::from(row.word)),
    ];
    fields.extend(sums(view, |row: &LineOffset| &row.sums));
    fields.push(Field::count("contended_cycles_p90", |row: &LineOffset| row.contended_p90));
    Sheet::new(fields, &line.offsets, line.offsets.len())
}

/// A row per pair of reader and writer.
pub(super) fn pairs<'a>(view: SharingView<'a>, line: &'a SharedLine, most: usize) -> Sheet<'a> {
    let found = view.found;
    let word = move |offset: u32| {
        let data = line.offsets.iter().find(|one| one.offset == offset).and_then(words::data);
        data.unwrap_or_else(|| format!("+{offset}"))
    };
    let code = move |site: u32| place(found.sites.get(site as usize));
    let site = move |site: u32| found.sites.get(site as usize);
    let largest = line.pairs.first().map_or(1.0, |pair| pair.contended.max(1.0));
    let fields = vec![
        Field::number("contended", |pair: &LinePair| Some(pair.contended))
            .head(contended_word(found))
            .shown_as(|pair| format!("~{}", significant(pair.contended, 3)).into())
            .shaded(move |pair| pair.contended / largest),
        Field::number("cost", |pair: &LinePair| Some(pair.cost)).for_programs(),
        Field::count("read_word", |pair: &LinePair| u64::from(pair.read_word)).for_programs(),
        Field::text("read", move |pair: &LinePair| Some(word(pair.read_word)))
            .head("load of")
            .for_people(),
        Field::text("reader", move |pair: &LinePair| Some(code(pair.reader)))
            .head("by")
            .wanted(NAME)
            .for_people(),
        Field::text("reader.function", move |pair: &LinePair| {
            site(pair.reader)?.function.as_deref()
        })
        .for_programs(),
        Field::count("written_word", |pair: &LinePair| u64::from(pair.written_word)).for_programs(),
        Field::text("written", move |pair: &LinePair| Some(word(pair.written_word)))
            .head("write of")
            .for_people(),
        Field::text("writer", move |pair: &LinePair| Some(code(pair.writer)))
            .head("by")
            .wanted(NAME)
            .for_people(),
        Field::text("writer.function", move |pair: &LinePair| {
            site(pair.writer)?.function.as_deref()
        })
        .for_programs(),
    ];
    let shown = &line.pairs[..line.pairs.len().min(most)];
    Sheet::new(fields, shown, line.pairs.len())
}

/// A row per thread, for programs.
pub(super) fn threads<'a>(view: SharingView<'a>, line: &'a SharedLine) -> Sheet<'a> {
    let thread = move |row: &(u32, AccessSums)| view.found.threads.get(row.0 as usize);
    let mut fields = vec![
        Field::id("pid", move |row: &(u32, AccessSums)| Some(thread(row)?.pid)),
        Field::id("tid", move |row: &(u32, AccessSums)| Some(thread(row)?.tid)),
        Field::text("command", move |row: &(u32, AccessSums)| Some(&*thread(row)?.command)),
    ];
    fields.extend(sums(view, |row: &(u32, AccessSums)| &row.1));
    Sheet::new(fields, &line.threads, line.threads.len())
}
