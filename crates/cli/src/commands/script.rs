//! `pmuscope script`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use pmuscope_abi::event_type;
use pmuscope_abi::record::kind;
use pmuscope_console::say;
use pmuscope_perfdata::reader::{FileState, Metadata, RawEntry, Record, RecordingFile, Tally};
use pmuscope_profile::{
    AddressSpaces, Facts, Filter, ModuleOffset, StackWalker, Symbol, Unwinding, available_threads,
};
use pmuscope_report::number::{agree, counted};

use pmuscope_report::script::{
    Field, Fields, Form, RecordClass, ScriptOptions, ScriptWriter, dump_entry, dump_event,
    dump_head,
};
use pmuscope_report::{escape, order_note};
use pmuscope_symbols::Symbolizer;

use crate::commands::empty;
use crate::commands::filter::FilterArgs;
use crate::commands::input::InputArgs;
use crate::commands::progress::Shown;
use crate::commands::symbols::SymbolArgs;
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::{Format, Formats, Output, OutputArgs};

/// Flags of `pmuscope script`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope script                               every sample of ./pmuscope.data
  pmuscope script -F comm,tid,time,ip,sym       these fields only
  pmuscope script -F +addr --time 12.5,13       one field more, half a second
  pmuscope script --show-task-events --comm sh  comm, fork and exit events as well
  pmuscope script --json | jq -c 'select(.tid == 4711)'
  pmuscope script -o samples.csv                into a file; .txt, .json and .parquet as well
  pmuscope script -D | less                     every record, byte by byte")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Show these fields, by perf's names; +FIELD and -FIELD edit the default
    ///
    /// [default: comm,tid,cpu,time,period,event,ip,sym,dso]
    #[arg(short = 'F', long, value_name = "LIST", allow_hyphen_values = true)]
    fields: Option<Fields>,
    #[command(flatten)]
    output: OutputArgs<ScriptFormats>,
    /// Print time stamps in nanoseconds
    #[arg(long)]
    ns: bool,
    /// Hide callers
    #[arg(short = 'G', long)]
    hide_call_graph: bool,
    /// Print every record as stored: offset, size, kind, bytes
    #[arg(short = 'D', long, conflicts_with_all = ["json", "csv", "format", "fields", "ns", "hide_call_graph"])]
    dump: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    show: ShowArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Records that are shown beside samples.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Other records")]
struct ShowArgs {
    /// Show all records
    #[arg(long)]
    show_all: bool,
    /// Show mmap events
    #[arg(long)]
    show_mmap_events: bool,
    /// Show comm, fork and exit events
    #[arg(long)]
    show_task_events: bool,
    /// Show context switches
    #[arg(long)]
    show_switch_events: bool,
    /// Show lost records and throttling
    #[arg(long)]
    show_lost_events: bool,
    /// Show namespaces
    #[arg(long)]
    show_namespace_events: bool,
    /// Show cgroups
    #[arg(long)]
    show_cgroup_events: bool,
    /// Show BPF programs and kernel symbols loaded
    #[arg(long)]
    show_bpf_events: bool,
    /// Show changes to kernel code
    #[arg(long)]
    show_text_poke_events: bool,
    /// Show hardware trace records
    #[arg(long)]
    show_aux_events: bool,
}

impl ShowArgs {
    fn classes(&self) -> Vec<RecordClass> {
        let all = [
            (self.show_mmap_events, RecordClass::Mmap),
            (self.show_task_events, RecordClass::Task),
            (self.show_switch_events, RecordClass::Switch),
            (self.show_lost_events, RecordClass::Lost),
            (self.show_namespace_events, RecordClass::Namespace),
            (self.show_cgroup_events, RecordClass::Cgroup),
            (self.show_bpf_events, RecordClass::Bpf),
            (self.show_text_poke_events, RecordClass::TextPoke),
            (self.show_aux_events, RecordClass::Aux),
            (false, RecordClass::Other),
        ];
        all.iter().filter(|(shown, _)| *shown || self.show_all).map(|(_, class)| *class).collect()
    }
}

/// What samples are written as.
#[derive(Debug, Clone)]
struct ScriptFormats;

impl Formats for ScriptFormats {
    const ALL: &[Format] =
        &[Format::Text, Format::Json, Format::JsonLines, Format::Csv, Format::Parquet];
    const SCHEMA: &str = "a line per sample, pmuscope/script/1";
    const JSON: Format = Format::JsonLines;
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let path = args.input.path()?;
    let (format, output) = match (args.dump, args.output.file()) {
        // The recording as it stands is text, whatever its file is called.
        (true, file) => (Format::Text, Output::to(file)),
        (false, _) => args.output.form().map(|form| (form.format, form.output))?,
    };
    let mut exit = Exit::Done;
    output.produce(format.kind(), |out| {
        let ended =
            if args.dump { dump(&path, &args, out) } else { list(&path, &args, format, out) };
        exit = ended?;
        Ok(())
    })?;
    Ok(exit)
}

fn list(
    path: &Path,
    args: &Args,
    format: Format,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    let recording = args.symbols.open(path)?;
    let mut reader = recording.reader_of_all()?;
    let filter = args.filter.filter(&recording, reader.events(), reader.metadata())?;
    let form = match format {
        Format::Text => Form::Text,
        Format::Json | Format::JsonLines => Form::Json,
        Format::Parquet if cfg!(not(feature = "parquet")) => return Err(without_parquet()),
        Format::Parquet => Form::Parquet,
        _ => Form::Csv,
    };
    let mut fields = args.fields.clone().unwrap_or_default();
    if reader.events().iter().any(|event| event.attr.event_type == event_type::TRACEPOINT) {
        fields = fields.with_trace();
    }
    if fields.has(Field::Tod) && reader.metadata().clock.is_none() {
        return Err(without_clock_data(path));
    }
    let options = ScriptOptions { form, fields, nanoseconds: args.ns };
    let symbolizer = args.symbols.symbolizer(options.fields.want_symbols(), &recording)?;
    let (of_stacks, running) =
        (args.symbols.symbolizer(false, &recording)?, symbolizer.running_kernel());
    let unwinder = of_stacks.unwinder();
    let walker = StackWalker::new(Unwinding { unwinder: &unwinder, running: &running });
    let writer = ScriptWriter {
        options,
        filter,
        classes: args.show.classes(),
        walker: (!args.hide_call_graph).then_some(walker),
        names: Box::new(names(symbolizer)),
        workers: available_threads(),
    };
    let _shown = Shown::beside_output(reader.progress(), path);
    writer.write(&mut reader, &path.to_string_lossy(), out)?;
    Ok(end(path, reader.state(), reader.tally()))
}

/// Looks up the symbols of places, with the descriptions of code made at run time that were mapped until then.
fn names(
    mut symbolizer: Symbolizer,
) -> impl FnMut(&AddressSpaces, &Metadata, &[ModuleOffset]) -> Vec<Option<Symbol>> {
    let running = symbolizer.running_kernel();
    let mut jit_dumps = BTreeSet::new();
    move |spaces, metadata, places| {
        for (pid, path) in spaces.jit_dumps() {
            if jit_dumps.insert((*pid, path.clone())) {
                symbolizer.add_jit_dump(*pid, path.clone());
            }
        }
        spaces.resolve(places, metadata, &running, &mut |requests| symbolizer.resolve_all(requests))
    }
}

fn without_clock_data(path: &Path) -> anyhow::Error {
    let path = path.display().to_string();
    bad_input(format!(
        "tod: {} has no clock data, so its time stamps have no time of day. Try: perf record -k CLOCK_MONOTONIC, or \
         pmuscope record",
        escape(&path)
    ))
}

fn without_parquet() -> anyhow::Error {
    pmuscope_console::exit::not_possible(
        "this pmuscope was built without Parquet. Write a table of values: -o FILE.csv; or build it with: \
         cargo build --release --features parquet",
    )
}

fn dump(path: &Path, args: &Args, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let recording = RecordingFile::open(path)?;
    let mut reader = recording.raw()?;
    let mut print = |text: &mut String| -> io::Result<()> {
        out.write_all(text.as_bytes())?;
        text.clear();
        Ok(())
    };
    let mut text = dump_head(reader.metadata(), reader.endian());
    let (mut events, mut present, mut filter) = (Vec::new(), AddressSpaces::default(), None);
    loop {
        // In a stream they come one by one.
        for (number, event) in reader.events().iter().enumerate().skip(events.len()) {
            dump_event(&mut text, number, event);
            events.push(event.clone());
        }
        let metadata = filter.is_none().then(|| reader.metadata().clone());
        let Some(entry) = reader.next()? else { break };
        if let Some(metadata) = metadata.filter(|_| entry.kind < FIRST_OF_TOOLS) {
            filter = Some(args.filter.filter(&recording, &events, &metadata)?);
        }
        let shown = match &filter {
            Some(filter) if entry.kind < FIRST_OF_TOOLS => passes(&entry, filter, &mut present),
            // Those of tools only where nothing is left out.
            _ => args.filter.is_open(),
        };
        if shown {
            dump_entry(&mut text, &entry, &events);
        }
        print(&mut text).context("cannot write what is listed")?;
    }
    print(&mut text).context("cannot write what is listed")?;
    Ok(end(path, reader.state(), reader.tally()))
}

/// The name where there is no task.
const NO_COMM: Cow<'_, [u8]> = Cow::Borrowed(b"-");

/// The first kind of a tool's records.
const FIRST_OF_TOOLS: u32 = 64;

/// Whether a record of the kernel is shown.
fn passes(entry: &RawEntry<'_>, filter: &Filter, present: &mut AddressSpaces) -> bool {
    let (mut task, mut cpu, mut event) = (entry.maker.task, entry.maker.cpu, None);
    match &entry.record {
        Some(Record::Sample(sample)) => {
            (task, cpu, event) = (sample.pid.zip(sample.tid), sample.cpu, entry.event);
        }
        Some(record) => present.take(record),
        None => {}
    }
    let comm = task.map_or(NO_COMM, |(_, tid)| present.comm(tid));
    filter.passes(&Facts { task, comm: &comm, cpu, time: entry.time, event })
}

/// Says what is missing, if anything is.
fn end(path: &Path, state: FileState, tally: &Tally) -> Exit {
    let file = path.display().to_string();
    let file = escape(&file);
    if let Some(stopped) = &tally.stopped {
        let part = stopped.file.as_ref().map(|file| format!(" of {}", file.display()));
        let part = part.unwrap_or_default();
        say!(
            "warning: {file}: reading ended at offset {}{part}: {}",
            stopped.offset,
            stopped.reason
        );
    }
    let has_nothing =
        tally.kinds.get(kind::SAMPLE) == 0 && empty::holds_something_else(tally, path);
    let order = order_note(tally);
    let late = if order.is_some() { 0 } else { tally.late };
    let strange = [
        (tally.samples_of_no_event, "sample", ["belongs", "belong"], "to no event of the file"),
        (tally.malformed, "record", ["is", "are"], "too short"),
        (late, "record", ["came"; 2], "too late to be put in order"),
        (
            tally.of_unknown_kind(),
            "record",
            ["is", "are"],
            "of a kind that this version does not know",
        ),
    ];
    for (number, what, [one, several], how) in strange.into_iter().filter(|strange| strange.0 > 0) {
        let (what, verb) = (counted(number, what), agree(number, one, several));
        say!("warning: {file}: {what} {verb} {how}");
    }
    if let Some(note) = order {
        say!("note: {file}: {note}");
    }
    match state {
        FileState::Closed if tally.stopped.is_none() && !has_nothing => return Exit::Done,
        FileState::Closed => {}
        FileState::NotClosed => say!("warning: {file}: the recording was not closed"),
        FileState::Truncated { has, should } if state.is_corrupt() => {
            say!(
                "warning: {file}: corrupt: the header says that the file has {should} bytes; it has {has}"
            );
        }
        FileState::Truncated { has, should } => {
            say!("warning: {file}: {has} bytes are there of {should}; the rest is cut off");
        }
    }
    Exit::Incomplete
}
