//! From watchpoints with addresses to what is opened: points, and turns where not all of them fit.

use pmuscope_machine::{Machine, Mapping};
use pmuscope_perfdata::watch::{ValueKind, WatchTarget};
use pmuscope_symbols::definitions::ValueType;

use crate::points::Point;
use crate::resolve::Watchpoint;
use crate::slots::{Kind, Slots};

/// What a recording says of the watchpoints.
#[must_use]
pub fn targets(watchpoints: &[Watchpoint]) -> Vec<WatchTarget> {
    watchpoints.iter().map(target_of).collect()
}

fn target_of(watchpoint: &Watchpoint) -> WatchTarget {
    let names = match &watchpoint.value {
        ValueType::Enum(names) => names.clone(),
        _ => Vec::new(),
    };
    WatchTarget {
        name: watchpoint.name.clone(),
        type_name: watchpoint.type_name.clone().unwrap_or_default(),
        value: kind_of(&watchpoint.value),
        names,
        declared: watchpoint.declared.clone(),
        address: watchpoint.address,
        bytes: watchpoint.len,
        access: watchpoint.access,
        in_kernel: watchpoint.in_kernel,
        notes: watchpoint.notes.clone(),
        is_untyped: watchpoint.is_untyped,
    }
}

fn kind_of(value: &ValueType) -> ValueKind {
    match value {
        ValueType::Unsigned => ValueKind::Unsigned,
        ValueType::Signed => ValueKind::Signed,
        ValueType::Float => ValueKind::Float,
        ValueType::Bool => ValueKind::Bool,
        ValueType::Char => ValueKind::Char,
        ValueType::Pointer => ValueKind::Pointer,
        ValueType::Enum(_) => ValueKind::Enumeration,
        _ => ValueKind::Other,
    }
}

/// A point for each piece of each watchpoint. `pid` is the process whose addresses they are, if they are
/// one's: memory that it shares with others has one past for all.
#[must_use]
pub fn points(machine: &Machine, pid: Option<u32>, watchpoints: &[Watchpoint]) -> Vec<Point> {
    // Without the list, memory counts as the process' own.
    let mappings = pid.and_then(|pid| machine.mappings(pid).ok()).unwrap_or_default();
    let numbered = watchpoints.iter().enumerate();
    numbered
        .flat_map(|(target, watchpoint)| {
            watchpoint.pieces.iter().map(move |it| (target, watchpoint, it))
        })
        .map(|(target, watchpoint, piece)| Point {
            target,
            address: piece.address,
            bytes: piece.len as u8,
            access: watchpoint.access,
            in_kernel: watchpoint.in_kernel,
            is_shared: is_shared(&mappings, piece.address),
            is_brief: watchpoint.is_brief,
        })
        .collect()
}

fn is_shared(mappings: &[Mapping], address: u64) -> bool {
    let after = mappings.partition_point(|mapping| mapping.start <= address);
    let holds = after.checked_sub(1).and_then(|at| mappings.get(at));
    holds.is_some_and(|mapping| mapping.shared && address < mapping.end)
}

/// Points that are enabled at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// Their numbers.
    pub points: Vec<usize>,
    /// Ends as soon as it shows whether they are hit.
    pub is_brief: bool,
}

/// Sets of points that fit together, in the order of the points. One set: all fit. `None`: some point
/// fits nowhere. `together` neighbors are kept in one set where a set can hold as many. Brief turns come one by one
/// between the others, which come again for that:
///
/// ```text
///  turns      A    brief 1   B    brief 2   A    brief 3
///  points     0-3  8-11      4-7  12-15     0-3  16-19
/// ```
#[must_use]
pub fn turns(points: &[Point], slots: Slots, together: usize) -> Option<Vec<Turn>> {
    let of = |is_brief: bool| {
        let numbers = (0..points.len()).filter(|&number| points[number].is_brief == is_brief);
        let sets = sets(points, &numbers.collect::<Vec<_>>(), slots, together)?;
        Some(sets.into_iter().map(move |points| Turn { points, is_brief }).collect::<Vec<_>>())
    };
    let (long, brief) = (of(false)?, of(true)?);
    if long.is_empty() || brief.is_empty() {
        return Some([long, brief].concat());
    }
    let both = |at: usize| [long[at % long.len()].clone(), brief[at % brief.len()].clone()];
    Some((0..long.len().max(brief.len())).flat_map(both).collect())
}

fn sets(
    points: &[Point],
    numbers: &[usize],
    slots: Slots,
    together: usize,
) -> Option<Vec<Vec<usize>>> {
    let mut turns: Vec<Vec<usize>> = Vec::new();
    for group in numbers.chunks(together.max(1)) {
        if fits(points, group, slots) {
            add(&mut turns, points, group, slots);
            continue;
        }
        for number in group {
            if slots.of(points[*number].kind()) == 0 {
                return None;
            }
            add(&mut turns, points, &[*number], slots);
        }
    }
    Some(turns)
}

fn add(turns: &mut Vec<Vec<usize>>, points: &[Point], group: &[usize], slots: Slots) {
    let with = |turn: &Vec<usize>| fits(points, &[turn, group].concat(), slots);
    match turns.last_mut().filter(|turn| with(turn)) {
        Some(turn) => turn.extend_from_slice(group),
        None => turns.push(group.to_vec()),
    }
}

/// Whether points have slots at the same time.
fn fits(points: &[Point], numbers: &[usize], slots: Slots) -> bool {
    let of =
        |kind: Kind| numbers.iter().filter(|&&point| points[point].kind() == kind).count() as u32;
    match slots {
        Slots::Mixed(slots) => of(Kind::Data) + of(Kind::Instruction) <= slots,
        Slots::Separate { data, instruction } => {
            of(Kind::Data) <= data && of(Kind::Instruction) <= instruction
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Access;

    fn point(access: Access) -> Point {
        Point {
            target: 0,
            address: 0,
            bytes: 8,
            access,
            in_kernel: false,
            is_shared: false,
            is_brief: false,
        }
    }

    fn turn(points: &[usize], is_brief: bool) -> Turn {
        Turn { points: points.to_vec(), is_brief }
    }

    #[test]
    fn brief_turns_come_between_the_others() {
        let long = point(Access::Write);
        let brief = Point { is_brief: true, ..long.clone() };
        let points = [vec![brief.clone(); 6], vec![long.clone(); 4]].concat();
        let (a, b) = (turn(&[6, 7], false), turn(&[8, 9], false));
        let [x, y, z] = [[0, 1], [2, 3], [4, 5]].map(|points| turn(&points, true));
        let found = turns(&points, Slots::Mixed(2), 1).unwrap();
        assert_eq!(found, [a.clone(), x.clone(), b, y.clone(), a, z.clone()]);
        assert_eq!(turns(&points[..6], Slots::Mixed(2), 1).unwrap(), [x, y, z]);
        let one = turns(&[brief, long], Slots::Mixed(4), 1).unwrap();
        assert_eq!(one, [turn(&[1], false), turn(&[0], true)]);
    }

    #[test]
    fn points_that_do_not_fit_take_turns() {
        let words = vec![point(Access::Write); 8];
        let four = turns(&words, Slots::Mixed(4), 1).unwrap();
        assert_eq!(four, [turn(&[0, 1, 2, 3], false), turn(&[4, 5, 6, 7], false)]);
        assert_eq!(turns(&words[..4], Slots::Mixed(4), 1).unwrap().len(), 1);
        assert_eq!(turns(&words, Slots::Mixed(0), 1), None);
    }

    #[test]
    fn pairs_stay_together_where_a_turn_has_room_for_one() {
        let words = vec![point(Access::Write); 6];
        let three = turns(&words, Slots::Mixed(3), 2).unwrap();
        assert_eq!(three, [[0, 1], [2, 3], [4, 5]].map(|points| turn(&points, false)));
        assert_eq!(turns(&words, Slots::Mixed(4), 2).unwrap().len(), 2);
        let one: Vec<Turn> = (0..6).map(|number| turn(&[number], false)).collect();
        assert_eq!(turns(&words, Slots::Mixed(1), 2).unwrap(), one);
        assert_eq!(turns(&words, Slots::Mixed(0), 2), None);
    }

    #[test]
    fn instructions_have_slots_of_their_own_where_there_are_such() {
        let mixed = [Access::Write, Access::Execute, Access::Write, Access::Execute].map(point);
        assert_eq!(turns(&mixed, Slots::Mixed(2), 1).unwrap().len(), 2);
        let separate = Slots::Separate { data: 2, instruction: 2 };
        assert_eq!(turns(&mixed, separate, 1).unwrap().len(), 1);
    }
}
