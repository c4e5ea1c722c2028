//! What pages are made of: links to their parts, filters, cells, a flame graph with its tools.

use crate::flame::{Flame, FlameData, Legend, svg};
use crate::markup::{Markup, PreEscaped, html, json, written};
use crate::number::{count, percent};

/// A field that filters the rows of the table below it; there once the script is.
pub(crate) fn filter() -> Markup {
    html! {
        div class="tools" hidden {
            input type="search" class="filter" placeholder="Filter rows" aria-label="Filter rows"; " "
            output class="shown" {}
        }
        "\n"
    }
}

/// Links to parts: their ids and names.
pub(crate) fn contents<'a>(parts: impl IntoIterator<Item = (String, &'a str)>) -> Markup {
    html! {
        nav aria-label="Parts" {
            @for (id, name) in parts {
                a href={ "#" (id) } { (name) }
            }
        }
        "\n"
    }
}

/// A share with a bar behind it.
pub(crate) fn share_cell(share: f64) -> Markup {
    html! {
        td class="bar num" data-v=(format!("{share:.6}")) style=(format!("--w:{:.2}%", share * 100.0)) {
            (percent(share, 2))
        }
    }
}

/// An exact number.
pub(crate) fn number_cell(value: u64) -> Markup {
    html! { td class="num" data-v=(value) { (count(value)) } }
}

/// A dot of this color.
pub(crate) fn dot(color: &str) -> Markup {
    html! { i style={ "background:" (color) } {} " " }
}

/// What colors stand for.
pub(crate) fn legend(legend: &Legend) -> Markup {
    html! {
        ul class="legend" {
            li { (legend.title) }
            @for (color, values) in &legend.steps {
                li { (dot(color)) (values) }
            }
        }
        "\n"
    }
}

/// What a flame graph shows, and how.
pub(crate) struct FlamePart<'a> {
    /// Number of its event, and what it is called.
    pub(crate) of: (usize, &'a str),
    /// What stands where.
    pub(crate) shape: &'a str,
    /// What colors stand for.
    pub(crate) legend: &'a Markup,
    /// The same samples from the sampled functions to their callers, where these were recorded.
    pub(crate) callers: Option<&'a Flame>,
}

/// A flame graph, with a switch to that of callers where there is one.
pub(crate) fn flame(flame: &Flame, part: &FlamePart<'_>) -> Markup {
    let (at, name) = part.of;
    let switch = part.callers.map(|_| directions().into_string()).unwrap_or_default();
    html! {
        section class="flame-part" id={ "flame-" (at) } {
            (flame_head(part.shape, part.callers.is_some()))
            (graph(flame, name, part.legend, &switch))
            @if let Some(callers) = part.callers {
                @if let Some(note) = callers.note() {
                    p class="dim" data-way="callers" hidden { (note) }
                }
                script type="application/json" class="callers-data" { (json(&FlameData::new(callers))) }
            }
        }
        "\n"
    }
}

/// The same with several graphs, of which one is shown: each with the word that chooses it. Without the script it is
/// the first.
pub(crate) fn flames(
    flames: &[(&'static str, &Flame)],
    (at, name): (usize, &str),
    shape: &str,
    legend: &Markup,
) -> Markup {
    html! {
        section id={ "flame-" (at) } {
            (flame_head(shape, false))
            fieldset class="switch" hidden {
                legend { "Width" }
                @for (number, (word, _)) in flames.iter().enumerate() {
                    label {
                        input type="radio" name={ "width-" (at) } value=(word) checked[number == 0] autocomplete="off";
                        " " (word)
                    }
                }
            }
            @for (number, (word, flame)) in flames.iter().enumerate() {
                div class="flame-part" data-width=(word) hidden[number > 0] {
                    (graph(flame, &format!("{name}, {word}"), legend, ""))
                }
            }
        }
        "\n"
    }
}

/// What stands where; `turns` where the graph can be turned around.
fn flame_head(shape: &str, turns: bool) -> Markup {
    html! {
        h2 { "Flame graph" }
        p class="dim" {
            span data-way="callees" { (shape) ". " }
            @if turns { span data-way="callers" hidden { (CALLERS) ". " } }
            "Click or press Enter to zoom in, Escape to zoom out; arrow keys move."
        }
    }
}

/// The picture with its tools, and a line of details of the box under the pointer.
fn graph(flame: &Flame, name: &str, legend: &Markup, switch: &str) -> Markup {
    html! {
        (PreEscaped(svg::tools("", switch)))
        (legend)
        div class="picture" { (written(|out| svg::graph_svg(out, flame, name))) }
        p class="detail mono" aria-live="polite" {}
        @if let Some(note) = flame.note() {
            p class="dim" data-way="callees" { (note) }
        }
    }
}

/// What stands where in the graph of callers.
const CALLERS: &str = "Sampled functions on top, their callers below, the command last; width is the share of samples in \
                       the function on top itself";

/// The switch between both graphs.
fn directions() -> Markup {
    html! {
        span class="ways" role="group" aria-label="Direction of the flame graph" {
            button type="button" data-way="callees" aria-pressed="true" title="From callers to callees (top-down)" {
                "Callees"
            }
            button type="button" data-way="callers" aria-pressed="false" title="From sampled functions to callers (bottom-up)" {
                "Callers"
            }
        }
    }
}
