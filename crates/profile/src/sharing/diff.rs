//! Two sides of recordings: what each line's object costs before and after, with the interval of the change.
//!
//! What is compared is the latency of contended loads per second of recording: it has a unit that both sides share, and
//! each side's interval is over its blocks of time (or, of several recordings on a side, over the recordings). Lines go
//! by their variables, as addresses differ from run to run; memory without a name goes together.

use std::sync::Arc;

use pmuscope_stats::{
    Estimate, Interval, LEVEL, LongRun, difference_of_estimates, difference_of_means, holm, mean,
    normal_quantile, p_of_zero, welch_test,
};

use super::{SharedLine, SharedLines};
use crate::hits::SharingVerdict;

/// With fewer contended loads blocks of time say too little.
const LEAST: u64 = 30;

/// What contended loads cost on two sides.
#[derive(Debug, Clone, PartialEq)]
pub struct SharingDiff {
    /// All lines.
    pub total: SharingChange,
    /// By object, the largest changes first.
    pub rows: Vec<SharingChange>,
    /// Costs are latencies; else numbers of contended loads.
    pub has_cost: bool,
}

/// A row of two sides.
#[derive(Debug, Clone, PartialEq)]
pub struct SharingChange {
    /// The variables, or the memory, of the lines. Foreign text.
    pub object: Arc<str>,
    /// Cost per second before and after.
    pub sides: [Estimate; 2],
    /// After minus before.
    pub change: Estimate,
    /// p-value of the change, adjusted for all rows (Holm); `None` without an interval.
    pub p: Option<f64>,
    /// Verdict of the most expensive line on each side; `None` where there is no line.
    pub verdicts: [Option<SharingVerdict>; 2],
    /// Sampled contended loads of each side.
    pub contended: [u64; 2],
}

/// What one recording has of a row.
#[derive(Debug, Clone, Copy)]
struct ObjectSide {
    cost: Estimate,
    contended: u64,
    verdict: Option<SharingVerdict>,
    /// Cost of a contended load.
    each: f64,
    seconds: f64,
}

/// Cost per second from the costs of blocks of time, `contended` samples in all.
pub(super) fn per_second(blocks: &[f64], seconds: f64, contended: u64) -> Option<Estimate> {
    let sum: f64 = blocks.iter().sum();
    if seconds <= 0.0 {
        return None;
    }
    let mean = sum / blocks.len().max(1) as f64;
    let by_time = || LongRun::of(blocks.iter().map(|block| (block - mean, 1.0)))?.half_width();
    let value = sum / seconds;
    let interval = match contended {
        few @ ..LEAST => Some(of_few(few, if few > 0 { value / few as f64 } else { 0.0 })),
        _ => by_time().map(|half| {
            let half = half / seconds;
            Interval { low: (value - half).max(0.0), high: value + half, level: LEVEL }
        }),
    };
    Some(Estimate { value, interval, n: contended as usize })
}

/// The score interval of a Poisson mean (Rao 1948): of `number` independent loads that each stand for `each`.
fn of_few(number: u64, each: f64) -> Interval {
    let z = normal_quantile(0.5 + LEVEL / 2.0);
    let center = number as f64 + z * z / 2.0;
    let half = z * (number as f64 + z * z / 4.0).sqrt();
    let low = if number == 0 { 0.0 } else { center - half };
    Interval { low: low * each, high: (center + half) * each, level: LEVEL }
}

impl SharingDiff {
    /// Compares recordings of two sides; neither is empty.
    #[must_use]
    pub fn new(before: &[SharedLines], after: &[SharedLines]) -> Self {
        let sides = [before, after];
        let has_cost = sides.iter().all(|side| side.iter().all(|one| one.memory.sums.cost > 0));
        let mut objects: Vec<Arc<str>> =
            sides.iter().copied().flatten().flat_map(|one| &one.lines).map(object).collect();
        objects.sort_unstable();
        objects.dedup();
        let rows = objects.iter().map(|object| {
            let of = |side: &[SharedLines]| -> Vec<ObjectSide> {
                side.iter().map(|one| of_object(one, object)).collect()
            };
            change(Arc::clone(object), &of(before), &of(after))
        });
        let mut rows: Vec<SharingChange> = rows.collect();
        let adjusted = holm(&rows.iter().map(|row| row.p).collect::<Vec<_>>());
        rows.iter_mut().zip(adjusted).for_each(|(row, p)| row.p = p);
        let size = |row: &SharingChange| row.change.value.abs();
        rows.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.object.cmp(&b.object)));
        let of = |side: &[SharedLines]| -> Vec<ObjectSide> { side.iter().map(of_all).collect() };
        let total = change("".into(), &of(before), &of(after));
        Self { total, rows, has_cost }
    }
}

/// The variables of a line, else what memory it is of.
fn object(line: &SharedLine) -> Arc<str> {
    let mut names: Vec<&str> =
        line.offsets.iter().filter_map(|offset| offset.object.as_deref()).collect();
    names.dedup();
    match names[..] {
        [] => Arc::clone(&line.module),
        _ => names.join(", ").into(),
    }
}

fn of_all(found: &SharedLines) -> ObjectSide {
    let contended = found.memory.sums.contended();
    let cost = found.cost_per_s.unwrap_or(Estimate { value: 0.0, interval: None, n: 0 });
    object_side(found, cost, contended, None)
}

fn of_object(found: &SharedLines, name: &str) -> ObjectSide {
    let lines: Vec<&SharedLine> =
        found.lines.iter().filter(|line| *object(line) == *name).collect();
    let contended = lines.iter().map(|line| line.sums.contended()).sum();
    let each = lines.iter().filter_map(|line| line.cost_per_s);
    let cost = each.reduce(sum).unwrap_or(Estimate { value: 0.0, interval: None, n: 0 });
    object_side(found, cost, contended, lines.first().map(|line| line.verdict.verdict))
}

fn object_side(
    found: &SharedLines,
    cost: Estimate,
    contended: u64,
    verdict: Option<SharingVerdict>,
) -> ObjectSide {
    let each = if contended > 0 { cost.value / contended as f64 } else { 0.0 };
    ObjectSide { cost, contended, verdict, each, seconds: found.seconds }
}

/// Of independent lines.
fn sum(a: Estimate, b: Estimate) -> Estimate {
    let negative = Estimate {
        value: -b.value,
        interval: b.interval.map(|of| Interval { low: -of.high, high: -of.low, ..of }),
        n: b.n,
    };
    let sum = difference_of_estimates(&negative, &a);
    Estimate { n: a.n + b.n, ..sum }
}

fn change(object: Arc<str>, before: &[ObjectSide], after: &[ObjectSide]) -> SharingChange {
    let contended = [before, after].map(|side| side.iter().map(|one| one.contended).sum());
    let verdicts = [before, after].map(|side| side.iter().find_map(|one| one.verdict));
    let values = |side: &[ObjectSide]| side.iter().map(|one| one.cost.value).collect::<Vec<f64>>();
    if before.len() > 1 && after.len() > 1 {
        let (before, after) = (values(before), values(after));
        let average = |values: &[f64]| Estimate {
            value: mean(values).unwrap_or(0.0),
            interval: None,
            n: values.len(),
        };
        let sides = [average(&before), average(&after)];
        let change = difference_of_means(&before, &after, LEVEL);
        let plain = Estimate { value: sides[1].value - sides[0].value, interval: None, n: 1 };
        let p = welch_test(&before, &after);
        return SharingChange {
            object,
            sides,
            change: change.unwrap_or(plain),
            p,
            verdicts,
            contended,
        };
    }
    let average = |side: &[ObjectSide], other: &[ObjectSide]| {
        let value = mean(&values(side)).unwrap_or(0.0);
        let one = side.first().filter(|_| side.len() == 1);
        let interval = one.and_then(|one| match one.contended {
            // None were seen: as few as would rarely be missed, each as expensive as on the other side.
            0 => {
                let each = other.iter().map(|one| one.each * one.seconds).fold(0.0, f64::max);
                (one.seconds > 0.0).then(|| of_few(0, each / one.seconds))
            }
            _ => one.cost.interval,
        });
        Estimate { value, interval, n: side.len() }
    };
    let sides = [average(before, after), average(after, before)];
    let change = difference_of_estimates(&sides[0], &sides[1]);
    let p = p_of_zero(&change, f64::INFINITY);
    SharingChange { object, sides, change, p, verdicts, contended }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_loads_have_a_wide_interval_and_none_an_upper_end() {
        let none = of_few(0, 10.0);
        assert_eq!(none.low, 0.0);
        assert!((none.high - 38.4).abs() < 0.1, "{none:?}");
        let ten = of_few(10, 1.0);
        // 5.43 to 18.4, as tables of the score interval have it.
        assert!((ten.low - 5.43).abs() < 0.01 && (ten.high - 18.40).abs() < 0.02, "{ten:?}");
    }

    #[test]
    fn cost_is_per_second_and_its_interval_over_time() {
        let blocks: Vec<f64> = (0..100).map(|at| if at % 2 == 0 { 90.0 } else { 110.0 }).collect();
        let found = per_second(&blocks, 2.0, 1000).unwrap();
        assert!((found.value - 5000.0).abs() < 1e-9);
        let interval = found.interval.unwrap();
        assert!(interval.contains(5000.0) && interval.half_width() < 200.0, "{interval:?}");
        assert_eq!(per_second(&blocks, 0.0, 1000), None);
        // Of few loads, blocks say little.
        let few = per_second(&[0.0, 50.0, 0.0, 50.0], 1.0, 2).unwrap();
        let interval = few.interval.unwrap();
        assert!(interval.low > 0.0 && interval.high > 300.0, "{interval:?}");
    }

    fn side(value: f64, half: f64, contended: u64) -> ObjectSide {
        let interval = Interval { low: value - half, high: value + half, level: LEVEL };
        let cost = Estimate { value, interval: Some(interval), n: contended as usize };
        let each = if contended > 0 { value / contended as f64 } else { 0.0 };
        ObjectSide { cost, contended, verdict: None, each, seconds: 1.0 }
    }

    #[test]
    fn a_line_that_is_gone_has_become_less() {
        let gone = Estimate { value: 0.0, interval: None, n: 0 };
        let gone = ObjectSide { cost: gone, contended: 0, verdict: None, each: 0.0, seconds: 1.0 };
        let row = change("x".into(), &[side(1000.0, 100.0, 500)], &[gone]);
        assert_eq!(row.change.value, -1000.0);
        let interval = row.change.interval.unwrap();
        assert!(interval.high < -890.0 && interval.low > -1110.0, "{interval:?}");
        assert!(row.p.unwrap() < 1e-6, "{row:?}");
        // A few loads that are gone may have been missed.
        let row = change("x".into(), &[side(6.0, 4.0, 3)], &[gone]);
        assert!(row.p.unwrap() > 0.05, "{row:?}");
    }

    #[test]
    fn several_recordings_are_compared_by_their_spread() {
        let sides = |values: [f64; 3]| values.map(|value| side(value, 1.0, 100));
        let row = change("x".into(), &sides([100.0, 110.0, 90.0]), &sides([50.0, 55.0, 45.0]));
        assert_eq!(
            (row.sides[0].value, row.sides[1].value, row.change.value),
            (100.0, 50.0, -50.0)
        );
        assert!(row.change.interval.unwrap().high < 0.0 && row.p.unwrap() < 0.05, "{row:?}");
        assert_eq!(row.contended, [300, 300]);
    }
}
