//! What goes with a change, and what known and fitted costs come to.

use pmuscope_measure::Estimated;
use pmuscope_measure::compare::{Bearing, ComparedCause, Contribution, Explanation, How};

use super::scale::Scale;
use super::{p_text, signed, verdict_words};
use crate::number;
use crate::runs::value;
use crate::section::{Body, Section};
use crate::sheet::{Field, Sheet};

/// Metrics shown at most; JSON has all.
const MOST: usize = 25;

/// What goes with a change, and what costs come to.
pub(super) fn section<'a>(explanation: &'a Explanation, names: &[String]) -> Section<'a> {
    let section = Section::new("", "What changed along with it")
        .about(head(explanation, names))
        .with(Body::Gap);
    if !explanation.changed {
        let why = match explanation.p_adjusted {
            Some(p) => format!("p = {}", p_text(p)),
            None => "too few runs for a test".to_owned(),
        };
        return section.line(Some(format!("Inconclusive ({why}): nothing to explain.")));
    }
    let none = explanation.causes.is_empty().then(|| "No other metric changed with it.".to_owned());
    let more = explanation.causes.len().saturating_sub(MOST) as u64;
    let more =
        (more > 0).then(|| format!("{} more changed: --json lists all", number::count(more)));
    let section = section
        .sheet(causes(explanation, names))
        .line(none)
        .line(more)
        .with(Body::Gap)
        .sheet(parts(explanation));
    let why = |part: &Contribution| Some(format!("{}: at this cost {}.", part.metric, part.why?));
    let section = explanation.parts.iter().fold(section, |all, part| all.line(why(part)));
    section.with(Body::Gap).line(Some(REMINDER.to_owned()))
}

/// What numbers cannot say.
const REMINDER: &str = "Metrics of one group cannot be separated. Correlation is not causation: change one thing and measure \
    again. needs: cost of each event if it alone caused the change. power: exponent with which the change would have \
    to grow; beyond 3 it explains a part at most. at most: the part it explains if each event costs the same in both.";

fn head(explanation: &Explanation, names: &[String]) -> String {
    let labels: String =
        explanation.labels.iter().map(|(key, label)| format!(" {key}={label}")).collect();
    let per = explanation.per.as_ref().map_or(String::new(), |per| format!("/{per}"));
    let scale = Scale::of_explanation(explanation);
    let unit = &scale.unit;
    let show = |e: &Option<Estimated>| e.map_or("-".to_owned(), |e| value(&scale.apply(&e), unit));
    let difference = explanation.difference.as_ref();
    let parts = [
        Some(format!("{} to {}", show(&explanation.means[0]), show(&explanation.means[1]))),
        (!unit.is_empty()).then(|| format!(" {unit}")),
        difference.map(|of| format!(", {}", signed(&scale.apply(of), unit))),
        explanation.ratio.as_ref().map(|ratio| format!(", ratio {}", value(ratio, ""))),
    ];
    format!(
        "{}{per}{labels}, {} vs {}: {}",
        explanation.metric,
        names[explanation.other],
        names[explanation.base],
        parts.into_iter().flatten().collect::<String>()
    )
}

fn causes<'a>(explanation: &'a Explanation, names: &[String]) -> Sheet<'a> {
    let factor = Scale::of_explanation(explanation).factor;
    let mean = |side: usize| move |cause: &ComparedCause| cause.means[side];
    let fields = vec![
        Field::count("group", |cause: &ComparedCause| cause.group as u64).optional(4),
        Field::text("metric", |cause: &ComparedCause| Some(&*cause.metric)),
        Field::number("before", mean(0)).head(names[explanation.base].clone()).optional(6),
        Field::number("after", mean(1)).head(names[explanation.other].clone()).optional(6),
        Field::figure("ratio", |cause: &ComparedCause| Some(value(&cause.ratio?, ""))),
        Field::figure("p", |cause: &ComparedCause| cause.p_adjusted.map(p_text)).optional(5),
        Field::text("verdict", |cause: &ComparedCause| Some(verdict_words(cause.verdict)))
            .head("")
            .rigid(),
        Field::figure("r", |cause: &ComparedCause| cause.correlation.map(|r| number::fixed(r, 2)))
            .optional(7),
        Field::number("needs", move |cause: &ComparedCause| Some(cause.needs * factor)).optional(3),
        Field::figure("power", |cause: &ComparedCause| {
            cause.power.map(|power| number::significant(power, 2))
        })
        .optional(2),
        Field::figure("at most", |cause: &ComparedCause| {
            cause.at_most.map(|share| number::percent(share.min(1.0), 0))
        }),
        Field::text("bearing", |cause: &ComparedCause| {
            Some(match cause.bearing {
                Bearing::Enough => "could explain it",
                Bearing::Part => "explains a part at most",
                Bearing::Against => "opposite direction",
            })
        })
        .head("")
        .rigid(),
    ];
    let shown: Vec<_> = explanation.causes.iter().take(MOST).collect();
    let number = shown.len();
    Sheet::new(fields, shown, number)
}

/// What carries the change; the last row is what is left.
fn parts<'a>(explanation: &Explanation) -> Sheet<'a> {
    type Part<'a> = Option<&'a Contribution>;
    let rows: Vec<Part<'_>> = explanation.parts.iter().map(Some).chain([None]).collect();
    let rest = explanation.rest;
    let left = rest.zip(explanation.difference).map(|(rest, all)| rest.value / all.value);
    let scale = Scale::of_explanation(explanation);
    let scale = &scale;
    let scaled = move |of: &Estimated| value(&scale.apply(of), &scale.unit);
    let amount = move |part: &Part<'_>| {
        let amount = part.map_or(rest, |part| Some(part.amount))?;
        Some(signed(&scale.apply(&amount), &scale.unit))
    };
    let fields = vec![
        Field::text("explained by", |part: &Part<'_>| {
            Some(part.map_or("unexplained".to_owned(), |part| part.metric.clone()))
        }),
        Field::text("how", |part: &Part<'_>| {
            Some(match (*part)?.how {
                How::Known => "known cost",
                How::Fitted => "fitted cost",
            })
        })
        .head("")
        .missing_as("")
        .rigid(),
        Field::figure("change", |part: &Part<'_>| Some(signed(&(*part)?.change, "")))
            .missing_as(""),
        Field::figure("each", move |part: &Part<'_>| Some(scaled(&(*part)?.cost))).missing_as(""),
        Field::figure("amount", amount),
        Field::figure("share", move |part: &Part<'_>| {
            part.map_or(left, |part| Some(part.share)).map(|share| number::percent(share, 0))
        }),
    ];
    Sheet::new(fields, &rows, rows.len()).into_owned()
}
