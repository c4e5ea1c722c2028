//! What can be done about a line: sentences, with what they gain at most, and new layouts.

use pmuscope_profile::sharing::{
    AdvisedObject, LineAdvice, NodePlacement, SharedLine, SharingAdvice,
};

use super::words::{self, contended_word};
use super::{SharingView, listing};
use crate::escape;
use crate::number::{agree, count, percent};

/// Variables and words that a sentence names.
const MOST_NAMED: usize = 4;

/// What to do about a line.
#[derive(Debug)]
pub(super) enum Advised<'a> {
    /// About its memory.
    Layout(&'a LineAdvice),
    /// About its threads.
    Node(NodePlacement),
}

/// All advice on a line.
pub(super) fn of_line<'a>(view: &SharingView<'a>, line: &'a SharedLine) -> Vec<Advised<'a>> {
    let mut all: Vec<Advised<'a>> = line.advice.iter().map(Advised::Layout).collect();
    let is_judged = line.verdict.false_share.is_some() && line.threads.len() > 1;
    let node = is_judged.then(|| line.placement(|cpu| view.nodes.get(&cpu).copied())).flatten();
    all.extend(node.map(Advised::Node));
    all
}

/// Whether advice says what false sharing costs.
pub(super) fn is_of_false_sharing(one: &Advised<'_>) -> bool {
    let Advised::Layout(one) = one else { return false };
    !matches!(one.advice, SharingAdvice::Copies(_) | SharingAdvice::Batch(_))
}

impl Advised<'_> {
    /// Its name in JSON.
    pub(super) fn word(&self) -> &'static str {
        let Self::Layout(one) = self else { return "place_on_node" };
        match one.advice {
            SharingAdvice::Rearrange { .. } => "rearrange",
            SharingAdvice::PadElements { .. } => "pad_elements",
            SharingAdvice::Separate(_) => "separate",
            SharingAdvice::Copies(_) => "copies",
            SharingAdvice::Batch(_) => "batch",
            SharingAdvice::AsLine(_) => "as_line",
            _ => "other",
        }
    }

    /// What it gains at most; `None` of what says that elsewhere.
    pub(super) fn cost(&self) -> Option<u64> {
        match self {
            Self::Node(node) => Some(node.cost),
            Self::Layout(one) if matches!(one.advice, SharingAdvice::AsLine(_)) => None,
            Self::Layout(one) => Some(one.cost),
        }
    }

    /// The same as a share of what all contended loads cost.
    pub(super) fn share(&self, view: &SharingView<'_>) -> Option<f64> {
        let all = &view.found.memory.sums;
        let all = if all.cost > 0 { all.cost } else { all.contended() };
        Some(self.cost()? as f64 / all.max(1) as f64)
    }

    /// A sentence.
    pub(super) fn text(&self, view: &SharingView<'_>, line: &SharedLine) -> String {
        let what = match self {
            Self::Node(node) => on_node(view, node),
            Self::Layout(one) => layout_text(view, line, &one.advice),
        };
        let Some(share) = self.share(view) else { return what };
        let (word, share) = (contended_word(view.found), percent(share, 1));
        let of = match view.found.memory.sums.cost {
            0 => format!("{share} of all {word} loads"),
            _ => format!("{share} of the latency of all {word} loads"),
        };
        format!("{what}. Upper bound of the gain: {of}")
    }

    /// The new layout, line by line; `None` of other advice.
    pub(super) fn listing(&self, view: &SharingView<'_>) -> Option<String> {
        let Self::Layout(LineAdvice {
            advice: SharingAdvice::Rearrange { object, arrangement },
            ..
        }) = self
        else {
            return None;
        };
        Some(listing::text(view.found, object, arrangement))
    }
}

fn layout_text(view: &SharingView<'_>, line: &SharedLine, advice: &SharingAdvice) -> String {
    let bytes = view.found.line_bytes;
    match advice {
        SharingAdvice::Rearrange { object, .. } if object.layout.is_ordered_by_compiler => format!(
            "Put fields of {} that different threads use into structs with #[repr(align({bytes}))], one for each cache \
             line below",
            of_type(object)
        ),
        SharingAdvice::Rearrange { object, .. } => format!(
            "Move fields of {} so that different threads use different cache lines, as below",
            of_type(object)
        ),
        SharingAdvice::PadElements { object, stride } => {
            let size = object.repeated.and_then(|(old, length)| {
                let length = length?;
                let (old, new) = (old.checked_mul(length)?, stride.checked_mul(length)?);
                Some(format!(": {} bytes become {}", count(old), count(new)))
            });
            let how = match object.layout.is_ordered_by_compiler {
                true => format!("#[repr(align({bytes}))]"),
                false => format!("alignas({bytes})"),
            };
            let size = size.unwrap_or_default();
            format!("Give each element of {} its own cache line, {how}{size}", of_type(object))
        }
        SharingAdvice::Separate(names) => format!(
            "Give each of these variables its own cache line, alignas({bytes}): {}",
            named(names.iter().map(|name| escape(name).into_owned()).collect())
        ),
        SharingAdvice::Copies(offsets) => format!(
            "If {} only {}: keep a copy for each thread or CPU, each in its own cache line, and combine them when they \
             are read",
            words_at(line, offsets),
            agree(offsets.len() as u64, "counts or collects", "count or collect"),
        ),
        SharingAdvice::Batch(offsets) => format!(
            "Write {} less often: collect changes in the thread that writes, and write them once",
            words_at(line, offsets)
        ),
        SharingAdvice::AsLine(number) => {
            let of = view.found.lines.get(*number as usize).map(words::address);
            let of = of.map_or_else(String::new, |address| format!(" {address}"));
            format!("The layout for cache line{of} has this line, too")
        }
        _ => String::new(),
    }
}

/// `counters.slots[] (struct slot)`.
fn of_type(object: &AdvisedObject) -> String {
    let name = format!("{}{}", object.variable, object.path);
    // Memory without a variable goes by its type.
    if name == object.layout.name {
        return escape(&name).into_owned();
    }
    format!("{} ({})", escape(&name), escape(&object.layout.name))
}

fn words_at(line: &SharedLine, offsets: &[u32]) -> String {
    let name = |word: &u32| {
        let mut all = line.offsets.iter().filter(|one| one.word == *word);
        let data = all.find_map(words::data);
        data.map_or_else(|| format!("+{word}"), |data| escape(&data).into_owned())
    };
    named(offsets.iter().map(name).collect())
}

fn named(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let mut names = names;
    names.truncate(MOST_NAMED);
    let more = if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() };
    format!("{}{more}", names.join(", "))
}

fn on_node(view: &SharingView<'_>, node: &NodePlacement) -> String {
    format!(
        "Run its threads on one NUMA node: node {} has {} of the accesses, and {} of the {} loads come from another node",
        node.node,
        percent(node.share, 0),
        percent(node.remote_share, 0),
        contended_word(view.found)
    )
}
