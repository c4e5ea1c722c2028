//! Hits of a counter, by the values that it had at the first and the last hit.

use pmuscope_perfdata::watch::{ValueKind, WatchTarget};

use super::History;

/// Hits with a value before that a counter is known by.
const LEAST_PAIRS: u64 = 30;

/// Hits from the first to the last counted one, those in pauses too, if each of these added 1 as each counted
/// one did. `pairs` are records with a value before, `plus_one` those that added 1. `None` where one did not,
/// where several processes have a counter each, or where values are not those after the access.
pub(super) fn steps(
    target: &WatchTarget,
    history: &History,
    pairs: u64,
    plus_one: u64,
    hits: u64,
) -> Option<u64> {
    let is_number = matches!(target.value, ValueKind::Unsigned | ValueKind::Signed);
    let (first, last) = (history.iter().next()?, history.iter().last()?);
    let all_rise = history.iter().zip(history.iter().skip(1)).all(|(one, next)| {
        (one.point, one.pid) == (next.point, next.pid)
            && one.new.zip(next.new).is_some_and(|(one, next)| one < next)
    });
    let is_counter = is_number && all_rise && pairs >= LEAST_PAIRS && pairs == plus_one;
    let steps = last.new?.checked_sub(first.new?)?.checked_add(1)?;
    (is_counter && steps >= hits).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::super::HitRecord;
    use super::*;

    fn history(values: &[u64]) -> History {
        let one = |(number, &value): (u64, &u64)| HitRecord {
            number,
            time_ns: number,
            point: 0,
            pid: 1,
            cpu: None,
            thread: 0,
            site: 0,
            old: None,
            new: Some(value),
            sequence: 0,
            stands_for: 1,
        };
        let first = (0..).zip(values).map(one).collect();
        History { first, between: Vec::new(), last: Vec::new(), left_out: 0 }
    }

    #[test]
    fn a_counter_has_the_steps_between_its_ends() {
        let target = WatchTarget::default();
        let all = |values: &[u64], pairs, plus_one| {
            steps(&target, &history(values), pairs, plus_one, values.len() as u64)
        };
        assert_eq!(all(&[1, 2, 3, 4000], 2996, 2996), Some(4000));
        // One write that did something else, a counter that was set back, too few to know it by.
        assert_eq!(all(&[1, 2, 3, 4000], 2996, 2995), None);
        assert_eq!(all(&[1, 4000, 2, 5000], 2996, 2996), None);
        assert_eq!(all(&[1, 2, 3, 4000], 29, 29), None);
        let float = WatchTarget { value: ValueKind::Float, ..WatchTarget::default() };
        assert_eq!(steps(&float, &history(&[1, 4000]), 2996, 2996, 2), None);
    }
}
