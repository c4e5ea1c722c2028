//! What pages are made of: links to their parts, filters, cells, a flame graph with its tools.

use crate::flame::{Flame, Legend, svg};
use crate::markup::{Markup, PreEscaped, html, written};
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

/// A flame graph: `at` is the number of its event, `shape` says what stands where.
pub(crate) fn flame(
    flame: &Flame,
    (at, name): (usize, &str),
    shape: &str,
    legend: &Markup,
) -> Markup {
    html! {
        section class="flame-part" id={ "flame-" (at) } {
            (flame_head(shape))
            (graph(flame, name, legend))
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
            (flame_head(shape))
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
                    (graph(flame, &format!("{name}, {word}"), legend))
                }
            }
        }
        "\n"
    }
}

fn flame_head(shape: &str) -> Markup {
    html! {
        h2 { "Flame graph" }
        p class="dim" { (shape) ". Click or press Enter to zoom in, Escape to zoom out; arrow keys move." }
    }
}

/// The picture with its tools, and what is said of the box under the pointer.
fn graph(flame: &Flame, name: &str, legend: &Markup) -> Markup {
    html! {
        (PreEscaped(svg::tools("")))
        (legend)
        div class="picture" { (written(|out| svg::graph_svg(out, flame, name))) }
        p class="detail mono" aria-live="polite" {}
        @if let Some(note) = flame.note() {
            p class="dim" { (note) }
        }
    }
}
