//! Merged trees against sums over stacks.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::sample;

/// Command, functions from the outermost, samples.
type Stack = (String, Vec<String>, u64);

fn stack(command: &str, functions: &str, samples: u64) -> Stack {
    (command.into(), functions.split_whitespace().map(str::to_owned).collect(), samples)
}

fn sides(recordings: &[Vec<Vec<Stack>>; 2]) -> FlameSides {
    let made = recordings
        .each_ref()
        .map(|side| side.iter().map(|stacks| sample::of_stacks(stacks)).collect::<Vec<_>>());
    let [before, after] = made.each_ref().map(|side| {
        side.iter().map(|made| (made.source(), Some(made.events[0].clone()))).collect::<Vec<_>>()
    });
    FlameSides::new([&before, &after])
}

/// Every box has every weight.
const ALL: FlameLimits = FlameLimits { share: 0.0, boxes: 0 };

fn described(flame: &Flame) -> String {
    let line = |one: &crate::flame::FlameBox| {
        let indent = "  ".repeat(one.depth as usize);
        let figures = one.figures.as_deref().unwrap_or_default();
        format!("{indent}{} {} | {figures}\n", one.name, one.color)
    };
    flame.boxes.iter().map(line).collect()
}

#[test]
fn each_side_is_as_wide_as_its_own_samples() {
    let before = vec![stack("db", "main parse", 60), stack("db", "main hash", 40)];
    let after = vec![stack("db", "main check", 50), stack("db", "main parse", 150)];
    let sides = sides(&[vec![before], vec![after]]);
    insta::assert_snapshot!(described(&sides.flame(FlameSide::After, ALL)), @r"
    all #d4d2ce | before 100.00% (100 samples), after 100.00% (200 samples), change 0.00 points
      db #d4d2ce | before 100.00% (100 samples), after 100.00% (200 samples), change 0.00 points
        main #d4d2ce | before 100.00% (100 samples), after 100.00% (200 samples), change 0.00 points
          parse #ee9645 | before 60.00% (60 samples), after 75.00% (150 samples), change +15.00 points
          check #dd7420 | before 0.00% (0 samples), after 25.00% (50 samples), change +25.00 points
    ");
    insta::assert_snapshot!(described(&sides.flame(FlameSide::Before, ALL)), @r"
    all #d4d2ce | before 100.00% (100 samples), after 100.00% (200 samples), change 0.00 points
      db #d4d2ce | before 100.00% (100 samples), after 100.00% (200 samples), change 0.00 points
        main #d4d2ce | before 100.00% (100 samples), after 100.00% (200 samples), change 0.00 points
          parse #ee9645 | before 60.00% (60 samples), after 75.00% (150 samples), change +15.00 points
          hash #5288dd | before 40.00% (40 samples), after 0.00% (0 samples), change -40.00 points
    ");
}

#[test]
fn recordings_of_a_side_count_alike_however_long_they_are() {
    let short = vec![stack("db", "parse", 1), stack("db", "hash", 1)];
    let long = vec![stack("db", "parse", 900), stack("db", "hash", 100)];
    let sides = sides(&[vec![short.clone(), long], vec![short]]);
    let flame = sides.flame(FlameSide::Before, ALL);
    let parse = flame.boxes.iter().find(|one| one.name == "parse").unwrap();
    assert_eq!(
        parse.figures.as_deref(),
        Some("before 70.00% (901 samples), after 50.00% (1 sample), change -20.00 points")
    );
}

#[test]
fn a_side_without_samples_has_no_picture_and_the_other_is_all_new() {
    let sides = sides(&[vec![vec![]], vec![vec![stack("db", "main", 5)]]]);
    assert!(sides.flame(FlameSide::Before, ALL).is_empty());
    let after = sides.flame(FlameSide::After, ALL);
    let figures = after.boxes[0].figures.as_deref().unwrap();
    assert_eq!(
        figures,
        "before 0.00% (0 samples), after 100.00% (5 samples), change +100.00 points"
    );
}

fn arbitrary_side() -> impl Strategy<Value = Vec<Vec<Stack>>> {
    let functions = proptest::collection::vec("[fgh]", 0..5);
    let stack = ("[ab]", functions, 1_u64..50);
    proptest::collection::vec(proptest::collection::vec(stack, 0..8), 1..4)
}

/// Shares and samples of everything that a stack begins with.
fn brute(side: &[Vec<Stack>]) -> BTreeMap<Vec<String>, (f64, u64)> {
    let mut sums: BTreeMap<Vec<String>, (f64, u64)> = BTreeMap::new();
    for recording in side {
        let total: u64 = recording.iter().map(|(_, _, samples)| samples).sum();
        for (command, functions, samples) in recording {
            let path: Vec<String> = [command].into_iter().chain(functions).cloned().collect();
            for end in 0..=path.len() {
                let sum = sums.entry(path[..end].to_vec()).or_default();
                sum.0 += *samples as f64 / total as f64 / side.len() as f64;
                sum.1 += samples;
            }
        }
    }
    sums
}

/// Where each box stands, by the names above it.
fn boxes(flame: &Flame) -> BTreeMap<Vec<String>, (f64, u64)> {
    let mut found = BTreeMap::new();
    for one in flame.boxes.iter().filter(|one| one.weight > 0) {
        let above = |other: &&crate::flame::FlameBox| {
            other.depth <= one.depth
                && other.start <= one.start
                && other.start + other.weight >= one.start + one.weight
        };
        let mut path: Vec<_> = flame.boxes.iter().filter(above).collect();
        path.sort_by_key(|other| other.depth);
        let path: Vec<String> = path.iter().skip(1).map(|other| other.name.clone()).collect();
        assert_eq!(path.len(), one.depth as usize, "{path:?} at {one:?}");
        let share = one.weight as f64 / WHOLE as f64;
        assert!(found.insert(path, (share, one.samples)).is_none(), "two of {one:?}");
    }
    found
}

proptest! {
    #[test]
    fn boxes_are_sums_over_stacks(before in arbitrary_side(), after in arbitrary_side()) {
        let recordings = [before, after];
        let sides = sides(&recordings);
        let sums = recordings.each_ref().map(|side| brute(side));
        for (at, side) in [FlameSide::Before, FlameSide::After].into_iter().enumerate() {
            let flame = sides.flame(side, ALL);
            let found = boxes(&flame);
            prop_assert!(found.keys().eq(sums[at].keys()), "{found:?} {sums:?}");
            for (path, (share, samples)) in &found {
                let (expected, number) = sums[at][path];
                prop_assert!((share - expected).abs() < 1e-9, "{path:?}: {share} {expected}");
                prop_assert_eq!(*samples, number);
                let other = |at: usize| sums[at].get(path).map_or(0.0, |sum| sum.0);
                let color = tint::change((other(1) - other(0)) * 100.0);
                let name = path.last().map_or("all", String::as_str);
                let is_it = |one: &&crate::flame::FlameBox| {
                    one.name == name && (one.weight as f64 / WHOLE as f64 - share).abs() < 1e-12
                };
                prop_assert!(flame.boxes.iter().filter(is_it).any(|one| one.color == color));
            }
        }
    }
}
