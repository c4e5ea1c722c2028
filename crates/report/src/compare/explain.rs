//! What goes with a change, and what known and fitted costs come to.

use std::fmt::Write as _;

use pmuscope_measure::Estimated;
use pmuscope_measure::compare::{Bearing, ComparedCause, Explanation, How};

use super::scale::Scale;
use super::{p_text, signed, verdict_words};
use crate::escape::escape;
use crate::number;
use crate::runs::value;
use crate::style::{Style, wrap};
use crate::table::{Cell, Column, Table};

/// Figures shown at most; JSON has all.
const MOST: usize = 25;

pub(super) fn text(explanation: &Explanation, names: &[String], style: &Style) -> String {
    let mut out = head(explanation, names);
    if !explanation.changed {
        let why = match explanation.p_adjusted {
            Some(p) => format!("p = {}", p_text(p)),
            None => "too few runs for a test".to_owned(),
        };
        let _ = writeln!(out, "Cannot tell whether it changed ({why}): nothing to explain.");
        return out;
    }
    out += "\n";
    if explanation.causes.is_empty() {
        out += "No other figure changed with it.\n";
    } else {
        out += &causes(explanation, names).render(style);
        if explanation.causes.len() > MOST {
            let left = explanation.causes.len() - MOST;
            let _ =
                writeln!(out, "{} more that changed: --json, --html", number::count(left as u64));
        }
    }
    out += "\n";
    out += &parts(explanation).render(style);
    for part in explanation.parts.iter().filter_map(|part| Some((part, part.why?))) {
        let _ = writeln!(out, "{}: at this cost {}.", escape(&part.0.metric), part.1);
    }
    out += "\n";
    out += &wrap(REMINDER, style.width, 0);
    out.push('\n');
    out
}

/// What numbers cannot say.
const REMINDER: &str = "Figures of one group cannot be told apart. What changes together need not be cause \
    and effect: change one thing and measure again. needs: what each would cost if it alone made the \
    change. power: the change would have to grow with this power of it; beyond 3 it carries a part at \
    most. at most: what it carries if each costs the same in both.";

fn head(explanation: &Explanation, names: &[String]) -> String {
    let labels: Vec<String> =
        explanation.labels.iter().map(|(k, v)| format!(" {}={}", escape(k), escape(v))).collect();
    let per = explanation.per.as_ref().map_or(String::new(), |per| format!("/{}", escape(per)));
    let metric = escape(&explanation.metric);
    let mut out = format!(
        "{metric}{per}{}, {} to {}: ",
        labels.join(""),
        names[explanation.base],
        names[explanation.other]
    );
    let scale = Scale::of_explanation(explanation);
    let unit = &scale.unit;
    let show = |e: &Option<Estimated>| e.map_or("-".to_owned(), |e| value(&scale.apply(&e), unit));
    let [before, after] = &explanation.means;
    let _ = write!(out, "{} to {}", show(before), show(after));
    if !unit.is_empty() {
        let _ = write!(out, " {}", escape(unit));
    }
    if let Some(difference) = &explanation.difference {
        let _ = write!(out, ", {}", signed(&scale.apply(difference), unit));
    }
    if let Some(ratio) = &explanation.ratio {
        let _ = write!(out, ", ratio {}", value(ratio, ""));
    }
    out.push('\n');
    out
}

fn causes(explanation: &Explanation, names: &[String]) -> Table {
    let mut table = Table::new([
        Column::number("group"),
        Column::text("figure"),
        Column::number(&names[explanation.base]),
        Column::number(&names[explanation.other]),
        Column::number("ratio"),
        Column::number("p"),
        Column::text(""),
        Column::number("r"),
        Column::number("needs"),
        Column::number("power"),
        Column::number("at most"),
        Column::text(""),
    ]);
    let scale = Scale::of_explanation(explanation);
    for cause in explanation.causes.iter().take(MOST) {
        table.row(line(cause, &scale));
    }
    table
}

fn line(cause: &ComparedCause, scale: &Scale) -> Vec<Cell> {
    let mean = |mean: Option<f64>| Cell::measured(mean, |mean| number::significant(mean, 3));
    vec![
        Cell::new(cause.group.to_string()),
        Cell::new(escape(&cause.metric)),
        mean(cause.means[0]),
        mean(cause.means[1]),
        Cell::measured(cause.ratio, |ratio| value(&ratio, "")),
        Cell::measured(cause.p_adjusted, p_text),
        Cell::new(verdict_words(cause.verdict)),
        Cell::measured(cause.correlation, |r| number::fixed(r, 2)),
        Cell::new(number::significant(cause.needs * scale.factor, 3)),
        Cell::measured(cause.power, |power| number::significant(power, 2)),
        Cell::measured(cause.at_most, |share| number::percent(share.min(1.0), 0)),
        Cell::new(match cause.bearing {
            Bearing::Enough => "could carry it",
            Bearing::Part => "a part at most",
            Bearing::Against => "the other way",
        }),
    ]
}

fn parts(explanation: &Explanation) -> Table {
    let mut table = Table::new([
        Column::text("carried by"),
        Column::text(""),
        Column::number("change"),
        Column::number("each"),
        Column::number("comes to"),
        Column::number("share"),
    ]);
    let scale = Scale::of_explanation(explanation);
    let unit = &scale.unit;
    for part in &explanation.parts {
        table.row([
            Cell::new(escape(&part.metric)),
            Cell::new(match part.how {
                How::Known => "known cost",
                How::Fitted => "fitted cost",
            }),
            Cell::new(signed(&part.change, "")),
            Cell::new(value(&scale.apply(&part.cost), unit)),
            Cell::new(signed(&scale.apply(&part.amount), unit)),
            Cell::new(number::percent(part.share, 0)),
        ]);
    }
    let share = explanation.rest.zip(explanation.difference).map(|(r, d)| r.value / d.value);
    table.row([
        Cell::new("not explained"),
        Cell::default(),
        Cell::default(),
        Cell::default(),
        Cell::measured(explanation.rest, |rest| signed(&scale.apply(&rest), unit)),
        Cell::measured(share, |share| number::percent(share, 0)),
    ]);
    table
}
