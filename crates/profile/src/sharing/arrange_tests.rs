use pmuscope_symbols::definitions::{ArrayLayout, LayoutField};
use proptest::prelude::*;

use super::*;

const LINE: u64 = 64;

fn member(name: &str, offset: u64, bytes: u64, align: u64) -> LayoutField {
    LayoutField {
        name: name.into(),
        role: FieldRole::Member,
        offset,
        bytes,
        align,
        bits: None,
        type_name: "long".into(),
        array: None,
    }
}

fn layout(fields: Vec<LayoutField>) -> TypeLayout {
    let align = fields.iter().map(|field| field.align).max().unwrap_or(1);
    let end = fields.iter().map(|field| field.offset + field.bytes).max().unwrap_or(0);
    TypeLayout {
        name: "struct queue".into(),
        bytes: end.next_multiple_of(align),
        align,
        kind: LayoutKind::Record,
        is_packed: false,
        has_virtual_bases: false,
        is_ordered_by_compiler: false,
        fields,
    }
}

/// Members of these sizes, as a compiler places them.
fn of_sizes(sizes: &[(u64, u64)]) -> TypeLayout {
    let mut end = 0_u64;
    let place = |(at, &(bytes, align)): (usize, &(u64, u64))| {
        let offset = end.next_multiple_of(align);
        end = offset + bytes;
        member(&format!("f{at}"), offset, bytes, align)
    };
    layout(sizes.iter().enumerate().map(place).collect())
}

/// Offset, thread, cost of contended loads, writes.
fn used(uses: &[(u64, u32, u64, u64)]) -> Vec<FieldUse> {
    let one = |&(offset, thread, cost, writes): &(u64, u32, u64, u64)| FieldUse {
        instance: 0,
        offset,
        thread,
        line: offset / LINE,
        accesses: cost + writes,
        cost,
        writes,
    };
    uses.iter().map(one).collect()
}

fn arranged(layout: &TypeLayout, uses: &[FieldUse]) -> Option<Arrangement> {
    arrange(layout, uses, LINE, std::slice::from_ref(&(0..layout.bytes)))
}

/// `name@offset` of each, a bar in front of what begins a line.
fn shown(layout: &TypeLayout, found: &Arrangement) -> String {
    let one = |field: &PlacedField| {
        let bar = if field.begins_line { "| " } else { "" };
        format!("{bar}{}@{}", layout.fields[field.field].name, field.offset)
    };
    let fields: Vec<String> = found.fields.iter().map(one).collect();
    format!("{}, {} bytes", fields.join(" "), found.bytes)
}

#[test]
fn words_of_two_threads_get_two_lines_and_what_is_not_used_fills_them() {
    let layout = of_sizes(&[(8, 8), (8, 8), (8, 8), (8, 8)]);
    let uses = used(&[(0, 1, 50, 90), (8, 2, 60, 80), (24, 1, 9, 9)]);
    assert_eq!(cost_now(&uses), 119);
    let found = arranged(&layout, &uses).unwrap();
    assert_eq!(shown(&layout, &found), "f0@0 f3@8 | f1@64 f2@72, 128 bytes");
    assert_eq!((found.align, found.remaining_cost), (64, 0));
    let who = |at: usize| (found.fields[at].writers.clone(), found.fields[at].readers.clone());
    assert_eq!((who(0), who(3)), ((vec![1], vec![]), (vec![], vec![])));
}

#[test]
fn what_is_only_read_is_moved_away_from_what_is_written() {
    let layout = of_sizes(&[(8, 8), (4, 4), (4, 4), (8, 8)]);
    // A counter of all, a setting that all read, a word that one writes for others.
    let uses = used(&[
        (0, 1, 50, 50),
        (0, 2, 50, 50),
        (8, 1, 30, 0),
        (8, 2, 30, 0),
        (16, 2, 0, 40),
        (16, 3, 40, 0),
    ]);
    let found = arranged(&layout, &uses).unwrap();
    assert_eq!(shown(&layout, &found), "f0@0 | f1@64 f2@68 | f3@128, 192 bytes");
    assert_eq!(found.fields[3].readers, [3]);
}

#[test]
fn what_has_no_false_sharing_keeps_its_order() {
    let layout = of_sizes(&[(8, 8), (8, 8)]);
    assert_eq!(arranged(&layout, &used(&[(0, 1, 50, 50), (0, 2, 50, 50)])), None);
    assert_eq!(arranged(&layout, &used(&[(0, 1, 50, 50), (8, 1, 50, 50)])), None);
    assert_eq!(arranged(&layout, &[]), None);
    let uses = used(&[(0, 1, 50, 90), (8, 2, 60, 80)]);
    assert!(arranged(&layout, &uses).is_some());
    for change in [
        |layout: &mut TypeLayout| layout.is_packed = true,
        |layout: &mut TypeLayout| layout.has_virtual_bases = true,
        |layout: &mut TypeLayout| layout.kind = LayoutKind::Union,
        |layout: &mut TypeLayout| layout.fields.clear(),
    ] {
        let mut layout = layout.clone();
        change(&mut layout);
        assert_eq!(arranged(&layout, &uses), None);
    }
}

#[test]
fn bases_stay_in_front_and_open_arrays_last() {
    let mut layout = of_sizes(&[(16, 8), (8, 8), (8, 8), (8, 8), (0, 8)]);
    layout.fields[0].role = FieldRole::Base;
    layout.fields[4].array = Some(ArrayLayout { stride: 8, length: None, element: "long".into() });
    let uses = used(&[(16, 1, 50, 90), (24, 2, 60, 80)]);
    let found = arranged(&layout, &uses).unwrap();
    assert_eq!(shown(&layout, &found), "f0@0 f1@16 | f2@64 f3@72 f4@80, 128 bytes");
    // A base class that is used, too.
    let uses = used(&[(8, 1, 50, 90), (16, 2, 60, 80), (32, 2, 60, 80)]);
    let found = arranged(&layout, &uses).unwrap();
    assert_eq!(shown(&layout, &found), "f0@0 | f1@64 f2@72 f3@80 f4@88, 128 bytes");
}

#[test]
fn bit_fields_of_a_word_stay_together() {
    let mut layout = of_sizes(&[(8, 8), (4, 4), (4, 4), (4, 4), (4, 4)]);
    layout.fields[2].bits = Some((96, 3));
    layout.fields[3].bits = Some((99, 29));
    layout.fields[3].offset = 12;
    let uses = used(&[(0, 1, 50, 90), (12, 2, 60, 80)]);
    let found = arranged(&layout, &uses).unwrap();
    assert_eq!(shown(&layout, &found), "f0@0 f1@8 | f2@64 f3@64 f4@68, 128 bytes");
}

#[test]
fn elements_of_an_array_in_a_structure_get_lines_of_their_own() {
    let mut layout = of_sizes(&[(8, 8), (32, 8), (8, 8)]);
    layout.fields[1].array =
        Some(ArrayLayout { stride: 8, length: Some(4), element: "long".into() });
    let uses =
        used(&[(0, 1, 5, 9), (0, 2, 5, 9), (8, 1, 50, 90), (16, 2, 60, 80), (24, 3, 60, 80)]);
    let found = arranged(&layout, &uses).unwrap();
    assert_eq!(shown(&layout, &found), "f0@0 f2@8 | f1@64, 320 bytes");
    assert_eq!((found.fields[2].element_stride, found.fields[2].bytes), (Some(64), 256));
    assert_eq!(found.remaining_cost, 0);
}

#[test]
fn fields_of_lines_without_samples_are_left_alone() {
    let layout = of_sizes(&[(8, 8), (8, 8), (48, 8), (8, 8)]);
    let uses = used(&[(0, 1, 50, 90), (8, 2, 60, 80)]);
    let found = arrange(&layout, &uses, LINE, std::slice::from_ref(&(0..64))).unwrap();
    assert_eq!(shown(&layout, &found), "f0@0 | f1@64 f2@72 | f3@128, 192 bytes");
    let measured: Vec<bool> = found.fields.iter().map(|field| field.is_measured).collect();
    assert_eq!(measured, [true, true, true, false]);
}

/// Elements of different threads: in each, its thread writes the first field and others the second.
#[test]
fn elements_count_by_the_part_that_threads_have_in_them() {
    let layout = of_sizes(&[(8, 8), (8, 8), (112, 8)]);
    let mut uses = Vec::new();
    for (instance, (own, other)) in [(1, 2), (2, 3), (3, 1)].into_iter().enumerate() {
        for one in used(&[(0, own, 100, 100), (8, other, 50, 50)]) {
            uses.push(FieldUse { instance: instance as u64, line: 2 * instance as u64, ..one });
        }
    }
    let found = arranged(&layout, &uses).unwrap();
    assert_eq!(shown(&layout, &found), "f0@0 | f1@64 f2@72, 192 bytes");
    assert_eq!(found.fields[0].writers, [1, 2, 3]);
}

#[test]
fn hostile_layouts_end() {
    let most = u64::MAX;
    let uses = used(&[(0, 1, 50, 90), (8, 2, 60, 80)]);
    for (offset, bytes, align) in [(most, most, 1), (0, most, 8), (8, 8, most), (0, 0, 0)] {
        let mut layout = of_sizes(&[(8, 8), (8, 8)]);
        layout.fields.push(member("x", offset, bytes, align));
        let _ = arranged(&layout, &uses);
        layout.fields[2].array =
            Some(ArrayLayout { stride: most, length: Some(1), element: "x".into() });
        let _ = arranged(&layout, &uses);
    }
}

/// False sharing, by definition: quadratic.
fn cost_of(fields: &[(u64, u64)], uses: &[FieldUse]) -> u64 {
    let line = |one: &FieldUse| {
        let (_, new) = fields.iter().find(|(old, _)| *old == one.offset).unwrap();
        new / LINE
    };
    let other = |one: &&FieldUse, of: &FieldUse| one.thread != of.thread && one.writes > 0;
    let is_false = |of: &&FieldUse| {
        let mut same = uses.iter().filter(|one| one.offset == of.offset);
        let mut near = uses.iter().filter(|one| one.offset != of.offset && line(one) == line(of));
        !same.any(|one| other(&one, of)) && near.any(|one| other(&one, of))
    };
    uses.iter().filter(is_false).map(|one| one.cost).sum()
}

/// Whether a line has fields that are used in different ways.
fn is_mixed(fields: &[(u64, u64)], classes: &[(u64, FieldClass)]) -> bool {
    let class = |old: u64| &classes.iter().find(|(offset, _)| *offset == old).unwrap().1;
    let used = |old: u64| *class(old) != FieldClass::Untouched;
    fields.iter().any(|&(a, new)| {
        let mut others = fields.iter().filter(|(_, other)| other / LINE == new / LINE);
        others.any(|&(b, _)| used(a) && used(b) && class(a) != class(b))
    })
}

fn permutations(of: usize) -> Vec<Vec<usize>> {
    let Some(rest) = of.checked_sub(1) else { return vec![Vec::new()] };
    let with = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, rest);
        order
    };
    permutations(rest).iter().flat_map(|order| (0..of).map(|at| with(order, at))).collect()
}

/// The least false sharing of all orders with all ways to begin lines, and the fewest lines that have it without mixing
/// fields of different use.
fn by_force(
    layout: &TypeLayout,
    uses: &[FieldUse],
    classes: &[(u64, FieldClass)],
) -> (u64, Option<u64>) {
    let mut best: Option<(u64, Option<u64>)> = None;
    for order in permutations(layout.fields.len()) {
        for breaks in 0..1_u32 << (order.len() - 1) {
            let mut end = 0_u64;
            let mut fields = Vec::new();
            for (number, &at) in order.iter().enumerate() {
                let field = &layout.fields[at];
                let is_break = number > 0 && breaks >> (number - 1) & 1 == 1;
                let start = end.next_multiple_of(if is_break { LINE } else { field.align });
                fields.push((field.offset, start));
                end = start + field.bytes;
            }
            let lines = end.div_ceil(LINE);
            let cost = cost_of(&fields, uses);
            if best.is_some_and(|(least, _)| cost > least) {
                continue;
            }
            let lines = Some(lines).filter(|_| !is_mixed(&fields, classes));
            best = Some(match best {
                Some((least, known)) if least == cost => {
                    (cost, [known, lines].into_iter().flatten().min())
                }
                _ => (cost, lines),
            });
        }
    }
    best.unwrap()
}

/// Field, thread, cost of contended loads, writes.
type AnyUse = (usize, u32, u64, u64);

fn any_case() -> impl Strategy<Value = (Vec<u64>, Vec<AnyUse>)> {
    let sizes = prop::collection::vec(prop::sample::select(vec![1_u64, 2, 4, 8, 16, 32]), 2..7);
    let uses = prop::collection::vec((0..6_usize, 1..4_u32, 0..3_u64, 0..3_u64), 1..10);
    (sizes, uses)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// No order has less false sharing, or as little in two lines less without mixing fields of different use.
    #[test]
    fn no_order_is_better((sizes, uses) in any_case()) {
        let sizes: Vec<(u64, u64)> = sizes.into_iter().map(|bytes| (bytes, bytes.min(8))).collect();
        let layout = of_sizes(&sizes);
        let mut all: BTreeMap<(u64, u32), (u64, u64)> = BTreeMap::new();
        for (field, thread, cost, writes) in uses {
            let sums = all.entry((layout.fields[field % sizes.len()].offset, thread)).or_default();
            *sums = (sums.0 + 100 * cost, sums.1 + 100 * writes);
        }
        let uses = all.into_iter().filter(|(_, (cost, writes))| cost + writes > 0);
        let uses: Vec<_> = uses.map(|((offset, thread), (cost, writes))| (offset, thread, cost, writes)).collect();
        let uses = used(&uses);
        let mut all = units(&layout).unwrap();
        let by_unit = of_units(&all, &uses);
        classify(&mut all, &by_unit, std::slice::from_ref(&(0..layout.bytes)));
        let classes: Vec<_> = all.iter().map(|unit| (unit.offset, unit.class.clone())).collect();
        let (least, lines) = by_force(&layout, &uses, &classes);
        match arranged(&layout, &uses) {
            None => prop_assert!(cost_now(&uses) <= least, "{least}"),
            Some(found) => {
                let fields: Vec<(u64, u64)> = found.fields.iter()
                    .map(|field| (layout.fields[field.field].offset, field.offset)).collect();
                prop_assert_eq!((found.remaining_cost, cost_of(&fields, &uses)), (least, least));
                prop_assert!(!is_mixed(&fields, &classes), "{:?} {:?}", found, classes);
                // Fields without accesses fill gaps as they come, which may take a line more than the best filling.
                let few = lines.is_none_or(|lines| found.bytes / LINE <= lines + 1);
                prop_assert!(few, "{:?} lines: {:?} {:?}", lines, found, classes);
                // A layout that a compiler makes: in order, aligned, without overlap.
                let mut end = 0;
                for placed in &found.fields {
                    let field = &layout.fields[placed.field];
                    prop_assert!(placed.offset >= end && placed.offset.is_multiple_of(field.align));
                    end = placed.offset + field.bytes;
                }
                prop_assert!(end <= found.bytes && found.fields.len() == layout.fields.len());
            }
        }
    }
}
