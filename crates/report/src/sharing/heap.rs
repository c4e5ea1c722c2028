//! Heap objects in cache lines: where they were allocated.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pmuscope_profile::heap::AllocationStack;
use pmuscope_profile::hits::{SharingVerdict, Site};
use pmuscope_profile::sharing::{LineHeapObject, LineOffset, SharedLine, SharedLines};
use serde::Serialize;
use serde_json::json;

use super::SharingView;
use crate::number::{agree, count, counted};
use crate::section::Section;
use crate::sheet::{Field, NAME, Sheet};
use crate::watch::place;

/// What is known of allocations, for programs.
#[derive(Debug, Serialize)]
pub(super) struct AllocationsOut {
    recorded: u64,
    unpaired: u64,
    left_out: u64,
    lost: u64,
    named: u64,
    unnamed: u64,
}

impl AllocationsOut {
    /// `None` where they were not recorded.
    pub(super) fn new(found: &SharedLines) -> Option<Self> {
        let heap = found.heap.as_ref()?;
        let counts = heap.counts;
        Some(Self {
            recorded: counts.allocations,
            unpaired: counts.unpaired,
            left_out: counts.left_out,
            lost: counts.lost,
            named: named(found),
            unnamed: heap.unnamed,
        })
    }
}

/// Accesses to objects that are known.
fn named(found: &SharedLines) -> u64 {
    found.lines.iter().flat_map(|line| &line.heap_objects).map(|object| object.accesses).sum()
}

/// How much of the lines' memory is of known objects, and what is missing.
pub(super) fn summary(found: &SharedLines) -> Option<String> {
    let heap = found.heap.as_ref()?;
    let (counts, named) = (heap.counts, named(found));
    let mut text = format!(
        "heap object known for {} of {} in these lines; {} recorded",
        count(named),
        counted(named + heap.unnamed, "access"),
        counted(counts.allocations, "allocation"),
    );
    if counts.lost > 0 {
        let lost = counted(counts.lost, "record");
        text.push_str(&format!(
            ", {lost} of allocations lost: some objects have no name, and those allocated before may have been freed. Try: \
             a larger buffer (record -m)"
        ));
    }
    if counts.unpaired > 0 {
        let unpaired = counted(counts.unpaired, "allocation");
        text.push_str(&format!("; {unpaired} of unknown size"));
    }
    if counts.left_out > 0 {
        let verb = agree(counts.left_out, "was", "were");
        let objects = counted(counts.left_out, "object");
        text.push_str(&format!("; {objects} {verb} not kept, for there were too many"));
    }
    Some(text)
}

fn stack_of<'a>(found: &'a SharedLines, object: &LineHeapObject) -> Option<&'a AllocationStack> {
    found.heap.as_ref()?.stacks.get(object.stack as usize)
}

fn site_of<'a>(found: &'a SharedLines, object: &LineHeapObject) -> Option<&'a Site> {
    stack_of(found, object).map(|stack| &stack.site)
}

/// How many of these objects can have been there at the same time: those that do not overlap.
fn at_once<'a>(objects: impl Iterator<Item = &'a LineHeapObject>) -> u64 {
    let mut ranges: Vec<(u64, u64)> =
        objects.map(|one| (one.address.saturating_add(one.size.max(1)), one.address)).collect();
    ranges.sort_unstable();
    let (mut number, mut end) = (0, 0);
    for (last, first) in ranges {
        if number == 0 || first >= end {
            (number, end) = (number + 1, last);
        }
    }
    number
}

/// Objects of a line from one site and of one size, those with the most accesses first.
fn kinds<'a>(
    found: &'a SharedLines,
    line: &'a SharedLine,
) -> Vec<(Option<&'a Site>, u64, Vec<&'a LineHeapObject>)> {
    let mut kinds: BTreeMap<(Option<&Site>, u64), Vec<&LineHeapObject>> = BTreeMap::new();
    for object in &line.heap_objects {
        kinds.entry((site_of(found, object), object.size)).or_default().push(object);
    }
    let mut kinds: Vec<_> =
        kinds.into_iter().map(|((site, size), objects)| (site, size, objects)).collect();
    let accesses =
        |objects: &[&LineHeapObject]| objects.iter().map(|one| one.accesses).sum::<u64>();
    kinds.sort_by_key(|kind| std::cmp::Reverse(accesses(&kind.2)));
    kinds
}

/// Names of the objects in a line: `2 × new_counter pool.c:12 (24 B)`.
pub(super) fn names(found: &SharedLines, line: &SharedLine) -> Vec<String> {
    let name = |(site, size, objects): (Option<&Site>, u64, Vec<&LineHeapObject>)| {
        let objects = at_once(objects.into_iter());
        let times = if objects > 1 { format!("{} × ", count(objects)) } else { String::new() };
        format!("{times}{} ({} B)", place(site), count(size))
    };
    kinds(found, line).into_iter().map(name).collect()
}

/// The object at an offset.
pub(super) fn at<'a>(line: &'a SharedLine, offset: &LineOffset) -> Option<&'a LineHeapObject> {
    line.heap_objects.get(offset.heap_object? as usize)
}

/// Its allocation site.
pub(super) fn site(found: &SharedLines, line: &SharedLine, offset: &LineOffset) -> Option<String> {
    at(line, offset).map(|object| place(site_of(found, object)))
}

/// What can be done where objects of the heap share a line by accident.
pub(super) fn advice(view: &SharingView<'_>, line: &SharedLine) -> Option<String> {
    let is_false =
        matches!(line.verdict.verdict, SharingVerdict::FalseSharing | SharingVerdict::Both);
    let objects = at_once(line.heap_objects.iter());
    let bytes = view.found.line_bytes;
    (is_false && objects > 1).then(|| {
        let uncertain = match line.heap_objects.iter().all(|object| object.is_certain) {
            true => "",
            false => " Records were lost, so some may be other objects.",
        };
        format!(
            "{objects} objects of the heap share this line. If different threads use them, give each its own line: \
             aligned_alloc({bytes}, …), C++17's new of an alignas({bytes}) type, or #[repr(align({bytes}))].{uncertain}"
        )
    })
}

/// The table of objects; `None` where none is known.
pub(super) fn part<'a>(view: SharingView<'a>, line: &'a SharedLine) -> Option<Section<'a>> {
    (!line.heap_objects.is_empty())
        .then(|| Section::new("", "Heap objects in this line").sheet(objects(view, line)))
}

/// A row per object.
pub(super) fn objects<'a>(view: SharingView<'a>, line: &'a SharedLine) -> Sheet<'a> {
    let found = view.found;
    let site = move |row: &LineHeapObject| site_of(found, row);
    let source = move |row: &LineHeapObject| site(row)?.line.as_ref();
    let end = line.address + u64::from(found.line_bytes);
    // By physical address the line is elsewhere in each process.
    let bytes = move |row: &LineHeapObject| {
        let first = row.address.max(line.address);
        let last = (row.address + row.size.max(1)).min(end).checked_sub(1)?;
        (line.physical.is_none() && first <= last)
            .then(|| format!("{}-{}", first - line.address, last - line.address))
    };
    let number = move |row: &LineHeapObject| {
        line.heap_objects.iter().position(|one| std::ptr::eq(one, row)).map(|at| at as u64 + 1)
    };
    let fields = vec![
        Field::count("object", number).for_people(),
        Field::text("bytes", bytes)
            .head("bytes of the line")
            .rigid()
            .only_if_measured()
            .for_people(),
        Field::address("address", |row: &LineHeapObject| Some(row.address)).optional(6),
        Field::count("size", |row: &LineHeapObject| row.size),
        Field::count("accesses", |row: &LineHeapObject| row.accesses),
        Field::count("allocations", |row: &LineHeapObject| row.allocations).optional(5),
        Field::flag("certain", |row: &LineHeapObject| row.is_certain).for_programs(),
        Field::text("site", move |row: &LineHeapObject| Some(place(site(row))))
            .head("allocated by")
            .wanted(NAME)
            .for_people(),
        Field::text("function", move |row: &LineHeapObject| site(row)?.function.as_deref())
            .for_programs(),
        Field::text("file", move |row: &LineHeapObject| Some(&*source(row)?.file)).for_programs(),
        Field::count("line", move |row: &LineHeapObject| Some(u64::from(source(row)?.number?)))
            .for_programs(),
        Field::text("module", move |row: &LineHeapObject| Some(&*site(row)?.module)).for_programs(),
        Field::json("stack", move |row: &LineHeapObject| {
            let frames = stack_of(found, row).map_or(&[][..], |stack| &stack.frames);
            frames.iter().map(frame_json).collect()
        }),
    ];
    Sheet::new(fields, &line.heap_objects, line.heap_objects.len()).by_another_order()
}

fn frame_json(frame: &Site) -> serde_json::Value {
    let line = frame.line.as_ref();
    json!({
        "function": frame.function.as_deref(),
        "file": line.map(|line| &*line.file),
        "line": line.and_then(|line| line.number),
        "module": &*frame.module,
    })
}

/// The object at an offset, with the place in it: `2+8`.
pub(super) fn place_in(line: &SharedLine, offset: &LineOffset) -> Option<Cow<'static, str>> {
    let number = offset.heap_object?;
    let object = at(line, offset)?;
    let within = within(line, offset, object);
    Some(match within {
        Some(within) => format!("{}+{within}", number + 1).into(),
        None => (number + 1).to_string().into(),
    })
}

/// Bytes from the object's beginning; `None` of lines by physical address.
pub(super) fn within(
    line: &SharedLine,
    offset: &LineOffset,
    object: &LineHeapObject,
) -> Option<u64> {
    let address = line.address + u64::from(offset.offset);
    address.checked_sub(object.address).filter(|_| line.physical.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_overlap_were_not_there_at_the_same_time() {
        let object = |&(address, size): &(u64, u64)| LineHeapObject {
            address,
            size,
            stack: 0,
            accesses: 1,
            allocations: 1,
            is_certain: true,
        };
        let of = |all: &[(u64, u64)]| at_once(all.iter().map(object).collect::<Vec<_>>().iter());
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[(16, 24), (48, 24)]), 2);
        assert_eq!(of(&[(0, 64), (16, 24), (48, 24), (40, 8)]), 3);
        assert_eq!(of(&[(16, 24), (24, 24), (32, 24)]), 1);
        assert_eq!(of(&[(0, 0), (1, 0)]), 2);
    }
}
