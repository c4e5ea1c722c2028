//! Plans against an oracle that tries everything, and a list of the size of a real processor's.

use std::time::Instant;

use pmuscope_events::Catalog as _;
use pmuscope_events::lists::{Identity, Listed, Lists};
use pmuscope_events::schedule::{
    Constraint, Counter, EventPlan, Extra, PlannedGroup, RefusedBecause, Request, Shape, Slot,
    Trial, plan, prove,
};
use proptest::prelude::*;

use crate::fixtures;

/// The oracle: the rules in as few words as possible, and every way tried.
mod oracle {
    use super::{Constraint, Shape};

    fn places(shape: &Shape, needs: &Constraint, others_alone: bool) -> Vec<(bool, u8)> {
        let smt = shape.smt;
        let count = if smt { shape.general_smt.unwrap_or(shape.general) } else { shape.general };
        let mask = if smt { needs.general_smt.unwrap_or(needs.general) } else { needs.general };
        let general = (0..32).filter(|&bit| u32::from(bit) < count && mask >> bit & 1 == 1);
        let fixed = (0..32).filter(|&bit| shape.fixed & needs.fixed & 1 << bit != 0);
        let general = general.filter(|_| !others_alone).map(|bit| (false, bit));
        general.chain(fixed.map(|bit| (true, bit))).collect()
    }

    /// Whether `members` can be counted at once.
    pub(super) fn fits(shape: &Shape, members: &[&Constraint]) -> bool {
        let alone = members.iter().filter(|needs| needs.alone).count();
        let all: Vec<&Constraint> = shape.taken.iter().chain(members.iter().copied()).collect();
        let choices: Vec<Vec<(bool, u8)>> =
            all.iter().map(|needs| places(shape, needs, alone == 1 && !needs.alone)).collect();
        alone <= 1 && counters(&choices, &mut Vec::new()) && registers(members, &mut Vec::new())
    }

    fn counters(choices: &[Vec<(bool, u8)>], used: &mut Vec<(bool, u8)>) -> bool {
        let Some((first, rest)) = choices.split_first() else { return true };
        first.iter().any(|&place| {
            if used.contains(&place) {
                return false;
            }
            used.push(place);
            let found = counters(rest, used);
            used.pop();
            found
        })
    }

    fn registers(members: &[&Constraint], held: &mut Vec<(u32, u64)>) -> bool {
        let Some((first, rest)) = members.split_first() else { return true };
        let Some(extra) = &first.extra else { return registers(rest, held) };
        extra.registers.iter().any(|&register| {
            if held.iter().any(|&(r, value)| r == register && value != extra.value) {
                return false;
            }
            held.push((register, extra.value));
            let found = registers(rest, held);
            held.pop();
            found
        })
    }

    /// References that fit beside `event`, earlier ones first.
    pub(super) fn kept(shape: &Shape, references: &[Constraint], event: &Constraint) -> Vec<usize> {
        let mut kept: Vec<usize> = Vec::new();
        for index in 0..references.len() {
            let all = kept.iter().chain([&index]).map(|&i| &references[i]).chain([event]);
            if fits(shape, &all.collect::<Vec<_>>()) {
                kept.push(index);
            }
        }
        kept
    }

    /// The fewest groups for events that leave room for the same references: all partitions.
    pub(super) fn fewest(
        shape: &Shape,
        references: &[&Constraint],
        events: &[&Constraint],
    ) -> usize {
        fn go<'e>(
            shape: &Shape,
            references: &[&'e Constraint],
            rest: &[&'e Constraint],
            groups: &mut Vec<Vec<&'e Constraint>>,
            best: &mut usize,
        ) {
            if groups.len() >= *best {
                return;
            }
            let Some((first, rest)) = rest.split_first() else {
                *best = groups.len();
                return;
            };
            for group in 0..=groups.len() {
                if group == groups.len() {
                    groups.push(Vec::new());
                }
                groups[group].push(first);
                let all: Vec<&Constraint> =
                    references.iter().chain(&groups[group]).copied().collect();
                if fits(shape, &all) {
                    go(shape, references, rest, groups, best);
                }
                groups[group].pop();
                groups.retain(|members| !members.is_empty());
            }
        }
        let mut best = events.len() + 1;
        go(shape, references, events, &mut Vec::new(), &mut best);
        best
    }
}

fn constraint() -> impl Strategy<Value = Constraint> {
    let mask = prop_oneof![3 => Just(u32::MAX), 4 => 0_u32..64];
    let registers = prop_oneof![
        Just(vec![1, 2]),
        Just(vec![1]),
        Just(vec![3]),
        proptest::collection::vec(1_u32..4, 1..3)
    ];
    let extra = (registers, 0_u64..4).prop_map(|(registers, value)| Extra { registers, value });
    (
        mask,
        prop::option::weighted(0.3, 0_u32..16),
        prop_oneof![4 => Just(0), 1 => 0_u32..8],
        prop::bool::weighted(0.08),
        prop::option::weighted(0.35, extra),
    )
        .prop_map(|(general, general_smt, fixed, alone, extra)| Constraint {
            general,
            general_smt,
            fixed,
            alone,
            extra,
        })
}

fn shape() -> impl Strategy<Value = Shape> {
    (1_u32..5, prop::option::of(1_u32..4), any::<bool>(), 0_u32..8, prop::option::of(0_u8..4))
        .prop_map(|(general, general_smt, smt, fixed, watchdog)| {
            let shape = Shape { general_smt, smt, fixed, ..Shape::new("cpu", general) };
            match watchdog {
                Some(3) => shape.with_watchdog(None),
                Some(number) => shape.with_watchdog(Some(number)),
                None => shape,
            }
        })
}

fn on(unit: usize, constraints: &[Constraint]) -> Vec<Request> {
    let request = |constraint: &Constraint| Request { unit, constraint: constraint.clone() };
    constraints.iter().map(request).collect()
}

/// Every event is in one run or refused; every group is possible, by the oracle and by its own counters.
#[track_caller]
fn check(shapes: &[Shape], references: &[Request], events: &[Request], plan: &EventPlan) {
    let mut seen: Vec<usize> = plan.refused.iter().map(|refused| refused.index).collect();
    for run in &plan.runs {
        let units: Vec<usize> = run.groups.iter().map(|group| group.unit).collect();
        assert!(units.windows(2).all(|pair| pair[0] < pair[1]), "{units:?}");
        for group in &run.groups {
            check_group(&shapes[group.unit], references, events, group);
            seen.extend(group.events.iter().map(|slot| slot.index));
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..events.len()).collect::<Vec<_>>());
}

#[track_caller]
fn check_group(shape: &Shape, references: &[Request], events: &[Request], group: &PlannedGroup) {
    let requests = |slots: &[Slot], of: &[Request]| {
        let here = slots.iter().map(|slot| (of[slot.index].clone(), slot.counter));
        here.collect::<Vec<_>>()
    };
    let members =
        [requests(&group.references, references), requests(&group.events, events)].concat();
    assert!(!members.is_empty());
    assert!(members.iter().all(|(request, _)| request.unit == group.unit));
    if shape.software.is_some() {
        return;
    }
    let needs: Vec<&Constraint> = members.iter().map(|(request, _)| &request.constraint).collect();
    assert!(oracle::fits(shape, &needs), "impossible: {group:?}");
    let mut counters: Vec<Counter> = members.iter().map(|&(_, counter)| counter).collect();
    counters.sort_unstable();
    counters.dedup();
    assert_eq!(counters.len(), members.len(), "a counter twice: {group:?}");
    let alone = needs.iter().any(|needs| needs.alone);
    for (request, counter) in &members {
        let needs = &request.constraint;
        let general = needs.general_smt.filter(|_| shape.smt).unwrap_or(needs.general);
        match *counter {
            Counter::General(number) => {
                assert!(u32::from(number) < shape.general_now() && general >> number & 1 == 1);
                assert!(!alone || needs.alone, "not alone: {group:?}");
            }
            Counter::Fixed(number) => assert!(needs.fixed & shape.fixed & 1 << number != 0),
            Counter::Software => panic!("{group:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// As few runs as any partition of the events has.
    #[test]
    fn no_way_has_fewer_runs(
        shape in shape(),
        references in proptest::collection::vec(constraint(), 0..3),
        events in proptest::collection::vec(constraint(), 0..8),
    ) {
        let (references_on, events_on) = (on(0, &references), on(0, &events));
        let found = plan(std::slice::from_ref(&shape), &references_on, &events_on);
        check(std::slice::from_ref(&shape), &references_on, &events_on, &found);
        let refused: Vec<usize> =
            (0..events.len()).filter(|&i| !oracle::fits(&shape, &[&events[i]])).collect();
        prop_assert_eq!(found.refused.iter().map(|r| r.index).collect::<Vec<_>>(), refused.clone());
        let mut classes: Vec<(Vec<usize>, Vec<&Constraint>)> = Vec::new();
        for (index, event) in events.iter().enumerate() {
            if refused.contains(&index) {
                continue;
            }
            let kept = oracle::kept(&shape, &references, event);
            match classes.iter_mut().find(|(other, _)| *other == kept) {
                Some((_, members)) => members.push(event),
                None => classes.push((kept, vec![event])),
            }
        }
        let fewest: usize = classes
            .iter()
            .map(|(kept, members)| {
                let here: Vec<&Constraint> = kept.iter().map(|&i| &references[i]).collect();
                oracle::fewest(&shape, &here, members)
            })
            .sum();
        prop_assert_eq!(found.runs.len(), fewest);
        prop_assert!(found.least <= fewest);
    }

    /// Several units: a run has one group of each, and there are as many runs as the longest needs.
    #[test]
    fn units_are_counted_in_the_same_runs(
        shapes in proptest::collection::vec(shape(), 1..4),
        references in proptest::collection::vec((0_usize..3, constraint()), 0..4),
        events in proptest::collection::vec((0_usize..4, constraint()), 0..14),
    ) {
        let mut shapes = shapes;
        shapes.push(Shape::software("software", 3));
        let request = |(unit, constraint)| Request { unit, constraint };
        let references: Vec<Request> = references.into_iter().map(request).collect();
        let events: Vec<Request> = events.into_iter().map(request).collect();
        let found = plan(&shapes, &references, &events);
        check(&shapes, &references, &events, &found);
        let alone: Vec<usize> = (0..shapes.len()).map(|unit| {
            let here: Vec<Request> = events.iter().filter(|e| e.unit == unit).cloned().collect();
            plan(&shapes, &references, &here).runs.len()
        }).collect();
        prop_assert_eq!(found.runs.len(), alone.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(plan(&shapes, &references, &events), found);
    }

    /// A kernel that places fewer events than matching would: what it leaves off is counted elsewhere,
    /// and nothing is lost.
    #[test]
    fn groups_that_the_kernel_refuses_are_split(
        shape in shape(),
        references in proptest::collection::vec(constraint(), 0..3),
        events in proptest::collection::vec(constraint(), 0..12),
        at_most in 1_usize..4,
        never in prop::option::of(0_usize..12),
    ) {
        let shapes = [shape];
        let (references, events) = (on(0, &references), on(0, &events));
        let planned = plan(&shapes, &references, &events);
        let before: Vec<usize> = planned.refused.iter().map(|refused| refused.index).collect();
        let mut counted: Vec<PlannedGroup> = Vec::new();
        let proven = prove(&shapes, &references, &events, planned, |group| {
            if group.events.iter().any(|slot| Some(slot.index) == never) {
                return Trial::Refused("EINVAL".to_owned());
            }
            if group.events.len() + group.references.len() > at_most {
                return Trial::NotAtOnce;
            }
            counted.push(group.clone());
            Trial::Counted
        });
        check(&shapes, &references, &events, &proven);
        for group in proven.runs.iter().flat_map(|run| &run.groups) {
            prop_assert!(group.events.is_empty() || counted.contains(group));
        }
        for refused in &proven.refused {
            let by_trial = refused.why == RefusedBecause::Trial("EINVAL".to_owned());
            prop_assert!(before.contains(&refused.index) || by_trial && Some(refused.index) == never);
        }
    }
}

fn counters(mask: u32) -> Constraint {
    Constraint { general: mask, ..Constraint::any() }
}

fn with(registers: &[u32], value: u64, general: u32) -> Constraint {
    Constraint { extra: Some(Extra { registers: registers.to_vec(), value }), ..counters(general) }
}

/// 300 events with the kinds of constraints that Haswell's list has.
fn like_haswell() -> Vec<Constraint> {
    let smt = |mask, with| Constraint { general_smt: Some(with), ..counters(mask) };
    let mut events = Vec::new();
    for number in 0..300_u64 {
        events.push(match number % 30 {
            0..=15 => smt(0xff, 0xf),
            16..=18 => counters(1 << 2),
            19 => counters(1 << 1),
            20 => counters(1 << 3),
            21 => smt(0x3, 0x3),
            22 if number < 240 => {
                let threshold = 4 << (number / 30);
                Constraint { alone: true, ..with(&[0x3f6], threshold, 1 << 3) }
            }
            23 if number == 23 => Constraint { fixed: 1 << 2, ..counters(0) },
            _ => with(&[0x1a6, 0x1a7], 0x10000 + number, u32::MAX),
        });
    }
    events
}

fn haswell(smt: bool, watchdog: bool) -> Shape {
    let shape = Shape { general_smt: Some(4), smt, fixed: 0b111, ..Shape::new("cpu", 8) };
    if watchdog { shape.with_watchdog(Some(1)) } else { shape }
}

#[test]
fn a_list_of_a_real_size_is_within_a_tenth_of_what_is_possible() {
    let references = on(0, &[Constraint::any().or_fixed(1), Constraint::any().or_fixed(0)]);
    let events = on(0, &like_haswell());
    for (smt, watchdog) in [(false, false), (false, true), (true, false), (true, true)] {
        let shapes = [haswell(smt, watchdog)];
        let start = Instant::now();
        let found = plan(&shapes, &references, &events);
        let taken = start.elapsed();
        check(&shapes, &references, &events, &found);
        assert!(found.refused.is_empty(), "{:?}", found.refused);
        println!(
            "{} events, SMT {smt}, watchdog {watchdog}: {} runs, at least {}, in {taken:?}",
            events.len(),
            found.runs.len(),
            found.least,
        );
        assert!(found.runs.len() * 10 <= found.least * 11, "{} {}", found.runs.len(), found.least);
    }
}

/// Intel's own list of Haswell servers, where the user has it: `PMUSCOPE_EVENTS` names a folder with `mapfile.csv`.
#[test]
fn a_vendors_whole_list_is_within_a_tenth_of_what_is_possible() {
    let Some(folder) = std::env::var_os("PMUSCOPE_EVENTS").filter(|folder| !folder.is_empty())
    else {
        eprintln!("skipped: PMUSCOPE_EVENTS names no event lists");
        return;
    };
    let (vendor, stepping) = ("GenuineIntel".to_owned(), Some(2));
    let haswell_server = Identity::X86 { vendor, family: 6, model: 0x3f, stepping };
    let lists = Lists::load(folder.as_ref(), Some(&haswell_server), None).unwrap();
    let machine = fixtures::haswell().with_lists(lists.clone());
    let unit = machine.pmus().iter().find(|pmu| pmu.is_core()).unwrap();
    let listed: Vec<&Listed> = lists.iter().filter(|one| one.is_of(unit)).collect();
    let (countable, others): (Vec<&Listed>, Vec<&Listed>) =
        listed.iter().copied().partition(|one| one.countable_on(unit).is_ok());
    let needs = |one: &&Listed| fixtures::event(&one.name, &machine).needs();
    let needs: Vec<Constraint> = countable.iter().map(needs).collect();
    assert!(needs.len() > 200, "{} events for the core in {}", needs.len(), folder.display());
    let references = on(0, &[Constraint::any().or_fixed(1), Constraint::any().or_fixed(0)]);
    for (smt, watchdog) in [(false, false), (true, false), (true, true)] {
        let shapes = [haswell(smt, watchdog)];
        let events = on(0, &needs);
        let start = Instant::now();
        let found = plan(&shapes, &references, &events);
        let taken = start.elapsed();
        check(&shapes, &references, &events, &found);
        println!(
            "{} events of the list, {} for sampling only; SMT {smt}, watchdog {watchdog}: {} runs, at least \
             {}, {} refused, in {taken:?}",
            listed.len(),
            others.len(),
            found.runs.len(),
            found.least,
            found.refused.len(),
        );
        assert!(found.runs.len() * 10 <= found.least * 11, "{} {}", found.runs.len(), found.least);
    }
}

#[test]
fn what_cannot_be_counted_is_refused_with_the_reason() {
    let why = |shape: &Shape, needs: Constraint| {
        let found = plan(std::slice::from_ref(shape), &[], &on(0, &[needs]));
        assert!(found.runs.is_empty());
        found.refused[0].why.to_string()
    };
    assert_eq!(
        why(&haswell(true, false), counters(0x30)),
        "it counts only on general counters 4, 5, but cpu has general counters 0 to 3 with SMT on \
         and fixed counters 0, 1, 2"
    );
    assert_eq!(
        why(&Shape::new("uncore_cbox_0", 2), Constraint { fixed: 1, ..counters(0) }),
        "it counts only on fixed counter 0, but uncore_cbox_0 has general counters 0 to 1"
    );
    assert_eq!(
        why(&Shape::new("cpu", 1).with_watchdog(None), Constraint::any()),
        "other users hold counters of cpu permanently (the NMI watchdog?) and leave none that it \
         can use"
    );
    let nowhere = plan(&[], &[], &on(3, &[Constraint::any()]));
    assert_eq!(nowhere.refused[0].why, RefusedBecause::NoUnit);
}

#[test]
fn the_watchdog_takes_a_counter_from_the_references() {
    let references = on(0, &[Constraint::any().or_fixed(1), Constraint::any().or_fixed(0)]);
    let events = on(0, &vec![Constraint::any(); 8]);
    let runs = |shape| plan(&[shape], &references, &events).runs.len();
    // Without: 4 and 4. With: the watchdog or cycles is on a general one.
    assert_eq!(runs(haswell(true, false)), 2);
    assert_eq!(runs(haswell(true, true)), 3);
}

#[test]
fn references_go_on_where_a_unit_is_done() {
    let shapes = [Shape::new("cpu", 2), Shape::new("uncore_imc_0", 1)];
    let references = on(0, &[Constraint::any()]);
    let events = [on(0, &[Constraint::any()]), on(1, &vec![Constraint::any(); 3])].concat();
    let found = plan(&shapes, &references, &events);
    check(&shapes, &references, &events, &found);
    assert_eq!(found.runs.len(), 3);
    assert!(found.runs.iter().all(|run| run.groups[0].references.len() == 1));
    assert!(found.runs[2].groups[0].events.is_empty());
}

#[test]
fn the_number_of_counters_is_found_by_trial() {
    assert_eq!(Shape::by_trial("cpu", 32, |copies| copies <= 6).general, 6);
    assert_eq!(Shape::by_trial("cpu", 4, |_| true).general, 4);
    assert_eq!(Shape::by_trial("cpu", 4, |_| false).general, 0);
    // The watchdog has the fixed counter of cycles: they would need a seventh.
    let shape = Shape::by_trial("cpu", 32, |copies| copies <= 6);
    assert_eq!(shape.fixed_by_trial(0, true).fixed_by_trial(1, false).fixed, 1);
}
