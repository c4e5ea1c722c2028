//! Where slots of the pipeline went: the table of `pmuscope sweep --topdown`.

use pmuscope_events::metrics::Metrics;
use pmuscope_measure::RunFile;
use pmuscope_measure::topdown::{Breakdown, SlotShare, breakdown};

use crate::compare::push_notes;
use crate::counts::counts_text;
use crate::escape::escape;
use crate::number;
use crate::sheet::{Field, Sheet};
use crate::style::{Style, wrap_lines};

/// What `pmuscope sweep` prints: shares of slots where those were counted, then the events.
pub fn sweep_text(file: &RunFile, metrics: &Metrics, style: &Style) -> String {
    let counts = counts_text(file, metrics, style);
    match breakdown(file) {
        Some(seen) => format!("{}\n{counts}", topdown_text(&seen, style)),
        None => counts,
    }
}

/// The tree of categories with their shares, and what is wrong with them.
fn topdown_text(seen: &Breakdown, style: &Style) -> String {
    let mark = if seen.emulated { " (emu)" } else { "" };
    let mut out = format!("pipeline slots{mark}, method for {}\n\n", escape(&seen.about));
    out = wrap_lines(&out, style.width, 2);
    let indent = |share: &SlotShare| if share.level == 1 { "" } else { "  " };
    let fields = vec![
        Field::figure("share (95% CI)", |share: &SlotShare| Some(percent(&share.share?))),
        Field::count("n", |share: &SlotShare| share.share.map_or(0, |share| share.n as u64))
            .optional(1),
        Field::text("category", move |share: &SlotShare| {
            Some(format!("{}{}", indent(share), share.name))
        })
        .rigid(),
        Field::text("slots that", |share: &SlotShare| Some(&*share.about)).sentence(),
    ];
    out += &Sheet::new(fields, &seen.shares, seen.shares.len()).text(style);
    push_notes(&mut out, &notes(seen), style);
    style.text(&out).into_owned()
}

/// In percent, with its interval.
fn percent(share: &pmuscope_measure::Estimated) -> String {
    match share.interval {
        Some(of) => number::percent_estimate(share.value, of.low, of.high),
        None => number::percent(share.value, 2),
    }
}

fn notes(seen: &Breakdown) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((sum, off)) = seen.sum.zip(seen.is_off_by()) {
        notes.push(format!(
            "The four level-1 categories add up to {}, not 100%: shares are off by up to {}, because runs differ. Try \
             a quieter machine, or more rounds (-r).",
            percent(&sum),
            number::percent(off.abs(), 1)
        ));
    }
    for name in seen.impossible() {
        notes.push(format!(
            "{name} is below 0: it is a difference of counts from different runs. Try more rounds (-r), or a program \
             that does the same work in each run."
        ));
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for SlotShare { name, why, .. } in &seen.shares {
        let Some(why) = why.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    notes.extend(reasons.iter().map(|(why, names)| {
        let all = if why.contains("not more than") { ". Try: --topdown=all" } else { "" };
        escape(&format!("Not counted: {}: {why}{all}.", names.join(", "))).into_owned()
    }));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_measure::{Estimated, Limits};

    fn share(name: &str, value: Option<f64>, why: Option<&str>) -> SlotShare {
        let limits = |v: f64| Limits { low: v - 0.004, high: v + 0.004, level: 0.95 };
        let estimate = |value| Estimated { value, interval: Some(limits(value)), n: 5, why: None };
        SlotShare {
            name: name.into(),
            about: "waited".into(),
            level: if name.contains('.') { 2 } else { 1 },
            share: value.map(estimate),
            why: why.map(str::to_owned),
        }
    }

    #[test]
    fn a_tree_with_what_is_wrong_and_what_was_not_looked_at() {
        let small = Some("frontend is not more than 15 %");
        let shares = vec![
            share("backend", Some(0.61), None),
            share("backend.memory", Some(0.634), None),
            share("backend.core", Some(-0.024), None),
            share("frontend", Some(0.1), None),
            share("frontend.latency", None, small),
            share("frontend.bandwidth", None, small),
        ];
        let limits = Limits { low: 0.69, high: 0.73, level: 0.95 };
        let sum = Some(Estimated { value: 0.71, interval: Some(limits), n: 5, why: None });
        let seen = Breakdown { about: "some CPU".into(), shares, sum, emulated: true };
        assert_eq!(seen.weighty(), ["backend"]);
        crate::widths::fits("topdown", |style| topdown_text(&seen, style));
        insta::assert_snapshot!(topdown_text(&seen, &Style::PLAIN), @r"
        pipeline slots (emu), method for some CPU

        share (95% CI)  n  category              slots that
           61.0 ± 0.4%  5  backend               waited
           63.4 ± 0.4%  5    backend.memory      waited
           -2.4 ± 0.4%  5    backend.core        waited
           10.0 ± 0.4%  5  frontend              waited
                     -  0    frontend.latency    waited
                     -  0    frontend.bandwidth  waited

        The four level-1 categories add up to 71.0 ± 2.0%, not 100%: shares are off by up to 29.0%, because runs differ. Try a quieter machine, or more rounds (-r).

        backend.core is below 0: it is a difference of counts from different runs. Try more rounds (-r), or a program that does the same work in each run.

        Not counted: frontend.latency, frontend.bandwidth: frontend is not more than 15 %. Try: --topdown=all.
        ");
    }
}
