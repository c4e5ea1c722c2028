//! Layout and drawing of counts made by hand.

use std::collections::BTreeMap;

use pmuscope_profile::views::{Direction, call_tree};

use super::*;
use crate::sample::{self, MadeSample};

fn flame(made: &MadeSample, limits: FlameLimits) -> Flame {
    Flame::new(&made.source(), &made.events[0], limits)
}

fn described(flame: &Flame) -> String {
    let line = |one: &FlameBox| {
        let (start, end) = (one.start, one.start + one.weight);
        format!("{}{} {start}..{end} own {}\n", "  ".repeat(one.depth as usize), one.name, one.own)
    };
    flame.boxes.iter().map(line).collect()
}

#[test]
fn boxes_lie_over_their_callers_the_widest_first() {
    let flame = flame(&sample::made(), FlameLimits::default());
    insta::assert_snapshot!(described(&flame), @r"
    all 0..120 own 0
      my app 0..100 own 0
      <b>evil</b> 100..120 own 0
        main 0..100 own 10
        [=1.so] 100..120 own 20
          memcpy<T> (inlined) 0..60 own 35
          recurse 60..90 own 0
            copy_page 0..25 own 25
            recurse 60..90 own 30
    ");
    assert_eq!(flame.note(), None);
}

fn callers(made: &MadeSample, limits: FlameLimits) -> Flame {
    Flame::callers(&made.source(), &made.events[0], limits)
}

#[test]
fn callers_lie_on_what_they_call() {
    let flame = callers(&sample::made(), FlameLimits::default());
    insta::assert_snapshot!(described(&flame), @r"
    all 0..120 own 0
      memcpy<T> 0..35 own 0
      recurse 35..65 own 0
      copy_page 65..90 own 0
      [=1.so] 90..110 own 0
      main 110..120 own 0
        main 0..35 own 0
        recurse 35..65 own 0
        memcpy<T> 65..90 own 0
        <b>evil</b> 90..110 own 0
        my app 110..120 own 0
          my app 0..35 own 0
          main 35..65 own 0
          main 65..90 own 0
            my app 35..65 own 0
            my app 65..90 own 0
    ");
    assert_eq!(flame.note(), None);
}

/// Weights of boxes that are functions, by their names from the root on.
fn weights(flame: &Flame) -> BTreeMap<Vec<String>, u64> {
    let mut found: Vec<(&FlameBox, Vec<String>)> = Vec::new();
    for one in flame.boxes.iter().filter(|one| one.depth > 0 && one.module.is_some()) {
        let below = |(other, _): &&(&FlameBox, Vec<String>)| {
            other.depth + 1 == one.depth
                && (other.start..other.start + other.weight).contains(&one.start)
        };
        let path = found.iter().find(below).map(|(_, path)| path.clone()).unwrap_or_default();
        found.push((one, [path, vec![one.name.clone()]].concat()));
    }
    found.into_iter().map(|(one, path)| (path, one.weight)).collect()
}

#[test]
fn callers_have_the_sums_of_the_call_tree() {
    for made in [sample::made(), sample::recursion(40)] {
        let tree = call_tree(&made.counts, 0, Direction::Callers, 0.0);
        let mut expected = BTreeMap::new();
        let mut open = vec![(0, Vec::new())];
        while let Some((at, path)) = open.pop() {
            for &child in &tree.nodes[at].children {
                let node = &tree.nodes[child];
                let place = node.place.as_ref().unwrap();
                let name = place.function.as_deref().map_or_else(
                    || nameless(made.source().module_name(place.module)),
                    str::to_owned,
                );
                let path = [path.clone(), vec![name]].concat();
                expected.insert(path.clone(), node.total.weight);
                open.push((child, path));
            }
        }
        assert_eq!(weights(&callers(&made, FlameLimits::default())), expected);
    }
}

#[test]
fn callers_that_are_too_narrow_are_not_looked_for() {
    let made = sample::made();
    let narrow = callers(&made, FlameLimits { share: 0.22, boxes: 100 });
    assert_eq!(narrow.note().unwrap(), "Not drawn: boxes narrower than 22% (3 and their callers).");
    let few = callers(&made, FlameLimits { share: 0.0, boxes: 4 });
    assert_eq!(few.boxes.len(), 4, "{}", described(&few));
    let deep = callers(&sample::recursion(2000), FlameLimits::default());
    assert_eq!(deep.deepest, DEEPEST);
    assert_eq!(deep.note().unwrap(), "Not drawn: boxes deeper than 500 (1 and their callers).");
}

fn time_order(made: &MadeSample, limits: FlameLimits) -> Flame {
    Flame::time_order(&made.source(), &made.events[0], limits).unwrap()
}

#[test]
fn in_time_order_each_thread_has_its_stacks_from_first_to_last() {
    let made = sample::phases();
    let flame = time_order(&made, FlameLimits::default());
    insta::assert_snapshot!(described(&flame), @r"
    all 0..9 own 0
      worker (thread 7) 0..6 own 0
      logger (thread 9) 6..9 own 0
        main 0..6 own 0
        main 6..9 own 0
          read 0..2 own 0
          parse 2..4 own 0
          read 4..5 own 0
    ");
    assert_eq!(flame.note(), None);
    // What is too narrow leaves a gap where it was.
    let narrow = time_order(&made, FlameLimits { share: 0.2, boxes: 100 });
    insta::assert_snapshot!(described(&narrow), @r"
    all 0..9 own 0
      worker (thread 7) 0..6 own 0
      logger (thread 9) 6..9 own 0
        main 0..6 own 0
        main 6..9 own 0
          read 0..2 own 0
          parse 2..4 own 0
    ");
    assert_eq!(narrow.note().unwrap(), "Not drawn: boxes narrower than 22% (1).");
    let few = time_order(&made, FlameLimits { share: 0.0, boxes: 4 });
    assert!((1..=5).contains(&few.boxes.len()), "{}", described(&few));
}

#[test]
fn without_time_stamps_there_is_no_time_order() {
    let mut made = sample::phases();
    made.counts.timeline = Default::default();
    let flame = Flame::time_order(&made.source(), &made.events[0], FlameLimits::default());
    assert_eq!(flame.unwrap_err(), "No time order: the samples have no time stamps.");
}

#[test]
fn numbers_for_a_script_are_all_boxes() {
    let few = FlameLimits { share: 0.2, boxes: 100 };
    scripted(&callers(&sample::made(), FlameLimits::default()));
    scripted(&time_order(&sample::made(), FlameLimits::default()));
    scripted(&time_order(&sample::made(), few));
    scripted(&time_order(&sample::phases(), few));
}

/// Draws a graph as the script does: where a box begins follows from those before it.
fn scripted(flame: &Flame) {
    let data = serde_json::to_value(FlameData::new(flame)).unwrap();
    let numbers: Vec<u64> =
        data["boxes"].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect();
    let mut next = [0; 10];
    let mut found: Vec<(u32, u64, u64, String)> = Vec::new();
    for one in numbers.chunks(4) {
        let (depth, weight) = (one[1] as usize, one[2]);
        let start = next[depth];
        next[depth] = start + weight;
        next[depth + 1] = start;
        if let Some(name) = data["names"][one[0] as usize][0].as_str() {
            found.push((depth as u32, start, weight, name.to_owned()));
        }
    }
    found.sort();
    let boxes = flame.boxes.iter();
    let boxes: Vec<_> =
        boxes.map(|one| (one.depth, one.start, one.weight, one.name.clone())).collect();
    assert_eq!(found, boxes);
}

#[test]
fn what_is_too_narrow_is_counted() {
    let made = sample::made();
    let narrow = flame(&made, FlameLimits { share: 0.22, boxes: 100 });
    assert_eq!(narrow.boxes.len(), 6);
    assert_eq!(narrow.note().unwrap(), "Not drawn: boxes narrower than 22% (2 and their callees).");
    let few = flame(&made, FlameLimits { share: 0.0, boxes: 4 });
    assert!(few.boxes.len() <= 4, "{}", described(&few));
    assert!(few.boxes.iter().all(|one| one.depth <= few.deepest));
}

#[test]
fn a_recursion_without_end_is_cut() {
    let made = sample::recursion(2000);
    let flame = flame(&made, FlameLimits::default());
    assert_eq!(flame.deepest, DEEPEST);
    assert_eq!(flame.note().unwrap(), "Not drawn: boxes deeper than 500 (1 and their callees).");
}

#[test]
fn nothing_is_a_picture_of_nothing() {
    let mut made = sample::made();
    made.counts.cells.clear();
    let flame = flame(&made, FlameLimits::default());
    assert!(flame.is_empty());
    assert_eq!(flame.note().unwrap(), "No samples.");
    assert!(flame_svg(&flame, "a", "b").ends_with("</svg>\n"));
}

#[test]
fn hostile_names_stay_text() {
    let made = sample::made();
    let flame = flame(&made, FlameLimits::default());
    let drawn = flame_svg(&flame, "</title><script>alert(1)</script>", "x]]>");
    assert!(!drawn.contains("<script>alert") && !drawn.contains("<b>"), "{drawn}");
    assert!(drawn.contains("&lt;b&gt;evil&lt;/b&gt;"));
    assert_eq!(drawn.matches("<script>").count(), 1);
    well_formed(&drawn);
}

/// Every tag is closed by its own, attributes are quoted, and no bare `&` is left.
#[track_caller]
fn well_formed(xml: &str) {
    let (before, after) = xml.split_once("<script><![CDATA[").unwrap();
    let after = after.split_once("]]></script>").unwrap().1;
    let mut open: Vec<String> = Vec::new();
    let all = format!("{before}{after}");
    for tag in all.split('<').skip(1) {
        let (tag, words) = tag.split_once('>').unwrap();
        for entity in words.split('&').skip(1) {
            let name = entity.split(';').next().unwrap();
            assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "&{entity}");
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap().to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_same_name_has_the_same_color_everywhere() {
    let made = sample::made();
    let first = flame(&made, FlameLimits::default());
    let other = sample::recursion(3);
    let second = flame(&other, FlameLimits::default());
    let color = |flame: &Flame| {
        let one = flame.boxes.iter().find(|one| one.name == "recurse").unwrap();
        one.color.clone()
    };
    assert_eq!(color(&first), color(&second));
    let text: Vec<&str> = first.boxes.iter().map(|one| &*one.color).collect();
    assert!(text.iter().all(|color| color.len() == 7 && color.starts_with('#')), "{text:?}");
}
