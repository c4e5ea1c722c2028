//! The same for programs: the result of `pmuscope/sharing/1`.

use pmuscope_profile::sharing::{
    AdvisedObject, Arrangement, PlacedField, SharedLine, SharingAdvice,
};
use serde::Serialize;

use super::advice::{self, Advised};
use super::groups::{groups, sheet};
use super::heap::AllocationsOut;
use super::{SharingBy, SharingView, heap, sheets, words};
use crate::recording::Head;
use crate::sheet::{Sheet, SheetObject};

/// Shared lines of a recording.
#[derive(Debug, Serialize)]
pub(super) struct SharingReport<'a> {
    recording: Head<'a>,
    line_bytes: u32,
    physical: bool,
    seconds: f64,
    population: Option<String>,
    samples: u64,
    accesses: u64,
    accesses_without_address: u64,
    accesses_without_physical: Option<u64>,
    contended_without_physical: Option<u64>,
    loads: u64,
    stores: u64,
    contended: u64,
    cost: u64,
    contended_cycles: Option<f64>,
    other_cycles: Option<f64>,
    fields_by_code: FieldsByCodeOut,
    allocations: Option<AllocationsOut>,
    by: &'static str,
    groups: Option<serde_json::Value>,
    lines: Vec<LineOut<'a>>,
    lines_left_out: usize,
    nothing: Option<String>,
}

#[derive(Debug, Serialize)]
struct FieldsByCodeOut {
    named: u64,
    disagreeing: u64,
    unknown: u64,
}

#[derive(Debug, Serialize)]
struct LineOut<'a> {
    #[serde(flatten)]
    line: SheetObject<'a>,
    offsets: Sheet<'a>,
    rows: Sheet<'a>,
    pairs: Sheet<'a>,
    threads: Sheet<'a>,
    heap_objects: Sheet<'a>,
    advice: Vec<AdviceOut<'a>>,
}

/// What can be done.
#[derive(Debug, Serialize)]
struct AdviceOut<'a> {
    kind: &'static str,
    text: String,
    cost: Option<u64>,
    share: Option<f64>,
    node: Option<u32>,
    words: &'a [u32],
    variables: Vec<&'a str>,
    object: Option<String>,
    r#type: Option<&'a str>,
    bytes: Option<u64>,
    new_bytes: Option<u64>,
    elements: Option<u64>,
    fields: Vec<FieldOut<'a>>,
}

/// A field of a new layout.
#[derive(Debug, Serialize)]
struct FieldOut<'a> {
    name: &'a str,
    r#type: &'a str,
    offset: u64,
    new_offset: u64,
    bytes: u64,
    new_bytes: u64,
    align: u64,
    first_bit: Option<u64>,
    bits: Option<u64>,
    begins_line: bool,
    is_measured: bool,
    writers: Vec<serde_json::Value>,
    readers: Vec<serde_json::Value>,
}

impl<'a> AdviceOut<'a> {
    fn new(view: &SharingView<'a>, line: &SharedLine, one: &Advised<'a>) -> Self {
        let mut out = Self {
            kind: one.word(),
            text: one.text(view, line),
            cost: one.cost(),
            share: one.share(view),
            node: None,
            words: &[],
            variables: Vec::new(),
            object: None,
            r#type: None,
            bytes: None,
            new_bytes: None,
            elements: None,
            fields: Vec::new(),
        };
        match one {
            Advised::Node(node) => out.node = Some(node.node),
            Advised::Layout(one) => match &one.advice {
                SharingAdvice::Rearrange { object, arrangement } => {
                    out.of_object(object, arrangement.bytes);
                    out.fields = fields(view, object, arrangement);
                }
                SharingAdvice::PadElements { object, stride } => out.of_object(object, *stride),
                SharingAdvice::Separate(names) => {
                    out.variables = names.iter().map(|name| &**name).collect();
                }
                SharingAdvice::Copies(words) | SharingAdvice::Batch(words) => out.words = words,
                _ => {}
            },
        }
        out
    }

    fn of_object(&mut self, object: &'a AdvisedObject, new_bytes: u64) {
        self.object = Some(format!("{}{}", object.variable, object.path));
        self.r#type = Some(&object.layout.name);
        self.bytes = Some(object.layout.bytes);
        self.new_bytes = Some(new_bytes);
        self.elements = object.repeated.and_then(|(_, length)| length);
    }
}

fn fields<'a>(
    view: &SharingView<'a>,
    object: &'a AdvisedObject,
    new: &'a Arrangement,
) -> Vec<FieldOut<'a>> {
    let thread = |at: &u32| view.found.threads.get(*at as usize).map(sheets::thread_json);
    let threads = |of: &[u32]| of.iter().filter_map(thread).collect();
    let field = |placed: &'a PlacedField| {
        let field = object.layout.fields.get(placed.field)?;
        Some(FieldOut {
            name: &field.name,
            r#type: &field.type_name,
            offset: field.offset,
            new_offset: placed.offset,
            bytes: field.bytes,
            new_bytes: placed.bytes,
            align: field.align,
            first_bit: field.bits.map(|(first, _)| first),
            bits: field.bits.map(|(_, width)| width),
            begins_line: placed.begins_line,
            is_measured: placed.is_measured,
            writers: threads(&placed.writers),
            readers: threads(&placed.readers),
        })
    };
    new.fields.iter().filter_map(field).collect()
}

impl<'a> SharingReport<'a> {
    pub(super) fn new(view: &SharingView<'a>) -> Self {
        let (found, memory) = (view.found, &view.found.memory);
        let (shown, all) = view.shown();
        let line = |line: &'a SharedLine| LineOut {
            line: SheetObject(sheets::lines(*view, std::slice::from_ref(line), 1)),
            offsets: sheets::offsets(*view, line),
            rows: sheets::rows(view, line),
            pairs: sheets::pairs(*view, line, usize::MAX),
            threads: sheets::threads(*view, line),
            heap_objects: heap::objects(*view, line),
            advice: advice::of_line(view, line)
                .iter()
                .map(|one| AdviceOut::new(view, line, one))
                .collect(),
        };
        Self {
            recording: Head::new(view.view.profile, view.view.file),
            line_bytes: found.line_bytes,
            physical: found.physical,
            seconds: found.seconds,
            population: words::population(view),
            samples: memory.samples,
            accesses: memory.accesses,
            accesses_without_address: memory.without_address,
            accesses_without_physical: found.physical.then_some(memory.without_physical),
            contended_without_physical: found.physical.then_some(memory.contended_without_physical),
            loads: memory.sums.loads(),
            stores: memory.sums.stores(),
            contended: memory.sums.contended(),
            cost: memory.sums.cost,
            contended_cycles: memory.sums.contended_mean(),
            other_cycles: memory.sums.other_mean(),
            fields_by_code: FieldsByCodeOut {
                named: found.by_code.named,
                disagreeing: found.by_code.disagreeing,
                unknown: found.by_code.unknown,
            },
            allocations: AllocationsOut::new(found),
            by: view.by.word(),
            groups: (view.by != SharingBy::Line).then(|| {
                let groups = groups(view);
                let sheet = sheet(*view, &groups, view.view.limits.rows);
                serde_json::to_value(sheet).unwrap_or_default()
            }),
            lines: shown.iter().map(line).collect(),
            lines_left_out: all - shown.len(),
            nothing: view.nothing(),
        }
    }
}
