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
    /// The same samples in other forms.
    pub(crate) forms: &'a [FlameForm<'a>],
    /// Reason for a missing form, a sentence.
    pub(crate) missing: Option<&'a str>,
}

/// Another form of a flame graph, which the script of the page draws when it is asked for.
pub(crate) struct FlameForm<'a> {
    /// Its word in addresses of the page.
    pub(crate) way: &'static str,
    /// Label and tooltip of its button.
    pub(crate) button: (&'static str, &'static str),
    /// What stands where.
    pub(crate) shape: String,
    /// The boxes.
    pub(crate) flame: &'a Flame,
}

/// A flame graph, with a switch to its other forms where there are some.
pub(crate) fn flame(flame: &Flame, part: &FlamePart<'_>) -> Markup {
    let (at, name) = part.of;
    let switch = (!part.forms.is_empty()).then(|| ways(part.forms).into_string());
    html! {
        section class="flame-part" id={ "flame-" (at) } {
            (flame_head(part.shape, part.forms))
            (graph(flame, name, part.legend, &switch.unwrap_or_default()))
            @for form in part.forms {
                @if let Some(note) = form.flame.note() {
                    p class="dim" data-way=(form.way) hidden { (note) }
                }
                script type="application/json" class="flame-data" data-form=(form.way) {
                    (json(&FlameData::new(form.flame)))
                }
            }
            @if let Some(why) = part.missing { p class="dim" { (why) } }
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
            (flame_head(shape, &[]))
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

/// What stands where in each form.
fn flame_head(shape: &str, forms: &[FlameForm<'_>]) -> Markup {
    html! {
        h2 { "Flame graph" }
        p class="dim" {
            span data-way="callees" { (shape) ". " }
            @for form in forms { span data-way=(form.way) hidden { (form.shape) ". " } }
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

/// The switch between the forms.
fn ways(forms: &[FlameForm<'_>]) -> Markup {
    html! {
        span class="ways" role="group" aria-label="Form of the flame graph" {
            button type="button" data-way="callees" aria-pressed="true" title="From callers to callees (top-down)" {
                "Callees"
            }
            @for form in forms {
                button type="button" data-way=(form.way) aria-pressed="false" title=(form.button.1) { (form.button.0) }
            }
        }
    }
}
