//! `pmuscope bundle`: a recording with the symbols it needs, for another machine.

use std::io::{self, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::wrote_with;
use pmuscope_console::replace::replace;
use pmuscope_machine::{AtomicFile, FileKind};
use pmuscope_perfdata::reader::{FileState, RecordingFile};
use pmuscope_profile::{Collected, GroupBy, Options, Unwinding, available_threads};
use pmuscope_report::number::{bytes, counted};
use pmuscope_symbols::Bundle;

use crate::commands::input::InputArgs;
use crate::commands::symbols::SymbolArgs;

/// Size of the header of a seekable perf.data file, which is its second word; a stream has 16 there.
const FILE_HEADER: u64 = 104;

/// Flags of `pmuscope bundle`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bundle                          pack ./pmuscope.data and its symbols into ./pmuscope.data.bundle
  pmuscope report -i pmuscope.data.bundle  read it on another machine, without the programs")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Write the bundle to FILE [default: RECORDING.bundle]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    symbols: SymbolArgs,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let input = args.input.path()?;
    if args.output.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(bad_input("-o -: a bundle is a file. Try: -o FILE"));
    }
    let output = args.output.clone().unwrap_or_else(|| {
        let mut name = input.clone().into_os_string();
        name.push(".bundle");
        name.into()
    });
    if input.is_dir() {
        let text = "only a recording in one file can be bundled, not a folder";
        return Err(bad_input(format!("{}: {text}", input.display())));
    }
    let recording = args.symbols.open(&input)?;
    check(&recording)?;
    let bundle = symbols(&recording, &args.symbols)?;
    let size = write(&recording, &output, &bundle)
        .with_context(|| format!("cannot write {}", output.display()))?;
    let before = recording.file().and_then(|file| file.metadata().ok());
    let before = before.map_or(0, |metadata| metadata.len());
    let (modules, addresses) = bundle.size();
    let symbols = bytes(size.saturating_sub(before));
    let (addresses, modules) = (counted(addresses, "address"), counted(modules, "DSO"));
    wrote_with(&output, &format!(", of which {symbols} symbols of {addresses} in {modules}"));
    Ok(Exit::Done)
}

/// Only what has an end that readers do not look beyond can have something behind it.
fn check(recording: &RecordingFile) -> anyhow::Result<()> {
    let input = recording.path();
    let refuse = |why: &str| Err(bad_input(format!("{}: {why}", input.display())));
    if recording.file().is_none() {
        return refuse("only a recording in one file can be bundled, not a stream");
    }
    if matches!(recording.file().map(Bundle::of_file), Some(Ok(Some(_)))) {
        return refuse("it is a bundle already");
    }
    let mut header = [0; 16];
    let read = recording.file().map(|file| file.read_exact_at(&mut header, 0));
    let size = header.last_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    if matches!(read, Some(Ok(())))
        && [size, size.swap_bytes()].contains(&16)
        && size != FILE_HEADER
    {
        return refuse(
            "it is a stream (of perf record -o -), which cannot be bundled: record to a file",
        );
    }
    Ok(())
}

/// All that a report of the recording asks for.
fn symbols(recording: &RecordingFile, args: &SymbolArgs) -> anyhow::Result<Bundle> {
    let (input, mut reader) = (recording.path(), recording.reader()?);
    // Callers want names as well.
    let apart = GroupBy { chains: true, ..GroupBy::default() };
    let mut symbolizer = args.symbolizer(true, recording)?;
    let running = symbolizer.running_kernel();
    let unwinder = symbolizer.unwinder();
    let unwinding = Unwinding { unwinder: &unwinder, running: &running };
    let collected = Collected::read(&mut reader, apart, available_threads(), Some(unwinding))?;
    if reader.state() != FileState::Closed {
        let input = input.display();
        let why = "the recording was cut off, so nothing can be added to it. Try: pmuscope report";
        return Err(bad_input(format!("{input}: {why} -i {input}")));
    }
    let mut bundle = Bundle::new(running.clone());
    collected.each_rules(|module, rules| bundle.add_rules(module, rules.into_iter()))?;
    let mut failed = Ok(());
    for (pid, dump) in collected.jit_dumps() {
        symbolizer.add_jit_dump(*pid, dump.clone());
    }
    collected.profile(&reader, &running, Options::COUNTS, &mut |requests| {
        let found = symbolizer.resolve_all(requests);
        for (request, found) in requests.iter().zip(&found) {
            if let Err(error) = bundle.add(&request.module, request.addresses, found) {
                failed = Err(error);
            }
        }
        found
    })?;
    failed?;
    Ok(bundle)
}

/// Writes the recording and its symbols; bytes written.
fn write(recording: &RecordingFile, output: &Path, bundle: &Bundle) -> anyhow::Result<u64> {
    // As private as the recording itself.
    let mut out = AtomicFile::create(output, 0o600, replace(FileKind::Recording))?;
    let file = out.file();
    if let Some(mut input) = recording.file() {
        input.rewind()?;
        io::copy(&mut input, file)?;
    }
    bundle.append(file)?;
    let size = file.metadata()?.len();
    out.finish()?;
    Ok(size)
}
