//! Layout and drawing of counts made by hand.

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

#[test]
fn what_is_too_narrow_is_counted() {
    let made = sample::made();
    let narrow = flame(&made, FlameLimits { share: 0.22, boxes: 100 });
    assert_eq!(narrow.boxes.len(), 6);
    assert_eq!(narrow.note().unwrap(), "Not drawn: boxes narrower than 22% (3).");
    let few = flame(&made, FlameLimits { share: 0.0, boxes: 4 });
    assert!(few.boxes.len() <= 4, "{}", described(&few));
    assert!(few.boxes.iter().all(|one| one.depth <= few.deepest));
}

#[test]
fn a_recursion_without_end_is_cut() {
    let made = sample::recursion(2000);
    let flame = flame(&made, FlameLimits::default());
    assert_eq!(flame.deepest, DEEPEST);
    assert_eq!(flame.note().unwrap(), "Not drawn: boxes deeper than 500 (1,501).");
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
fn the_same_name_has_the_same_colour_everywhere() {
    let made = sample::made();
    let first = flame(&made, FlameLimits::default());
    let other = sample::recursion(3);
    let second = flame(&other, FlameLimits::default());
    let colour = |flame: &Flame| {
        let one = flame.boxes.iter().find(|one| one.name == "recurse").unwrap();
        one.colour.clone()
    };
    assert_eq!(colour(&first), colour(&second));
    let text: Vec<&str> = first.boxes.iter().map(|one| &*one.colour).collect();
    assert!(text.iter().all(|colour| colour.len() == 7 && colour.starts_with('#')), "{text:?}");
}
