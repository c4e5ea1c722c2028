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
        })
        .collect()
}

fn is_shared(mappings: &[Mapping], address: u64) -> bool {
    let after = mappings.partition_point(|mapping| mapping.start <= address);
    let holds = after.checked_sub(1).and_then(|at| mappings.get(at));
    holds.is_some_and(|mapping| mapping.shared && address < mapping.end)
}

/// Sets of points that fit together, in the order of the points. One set: all fit. `None`: some point
/// fits nowhere.
#[must_use]
pub fn turns(points: &[Point], slots: Slots) -> Option<Vec<Vec<usize>>> {
    let mut turns: Vec<Vec<usize>> = Vec::new();
    for (number, point) in points.iter().enumerate() {
        if slots.of(point.kind()) == 0 {
            return None;
        }
        let fits = |turn: &Vec<usize>| fits(points, turn, number, slots);
        match turns.last_mut().filter(|turn| fits(turn)) {
            Some(turn) => turn.push(number),
            None => turns.push(vec![number]),
        }
    }
    Some(turns)
}

fn fits(points: &[Point], turn: &[usize], number: usize, slots: Slots) -> bool {
    let of = |kind: Kind| {
        let all = turn.iter().chain([&number]);
        all.filter(|&&point| points[point].kind() == kind).count() as u32
    };
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
        Point { target: 0, address: 0, bytes: 8, access, in_kernel: false, is_shared: false }
    }

    #[test]
    fn points_that_do_not_fit_take_turns() {
        let words = vec![point(Access::Write); 8];
        let four = turns(&words, Slots::Mixed(4)).unwrap();
        assert_eq!(four, [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(turns(&words[..4], Slots::Mixed(4)).unwrap().len(), 1);
        assert_eq!(turns(&words, Slots::Mixed(0)), None);
    }

    #[test]
    fn instructions_have_slots_of_their_own_where_there_are_such() {
        let mixed = [Access::Write, Access::Execute, Access::Write, Access::Execute].map(point);
        assert_eq!(turns(&mixed, Slots::Mixed(2)).unwrap().len(), 2);
        let separate = Slots::Separate { data: 2, instruction: 2 };
        assert_eq!(turns(&mixed, separate).unwrap().len(), 1);
    }
}
