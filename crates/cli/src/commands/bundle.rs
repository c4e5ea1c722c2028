//! `pmuscope bundle`: a recording with the symbols it needs, for another machine.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pmuscope_machine::{AtomicFile, FileKind};
use pmuscope_perfdata::reader::{FileState, Reader};
use pmuscope_profile::{Collected, GroupBy, Intervals, Options, Unwinding, available_threads};
use pmuscope_report::number::count;
use pmuscope_symbols::Bundle;

use crate::commands::input::InputArgs;
use crate::commands::symbols::SymbolArgs;
use crate::exit::{Exit, failure};
use crate::replace::replace;

/// Size of the header of a seekable perf.data file, which is its second word; a stream has 16 there.
const FILE_HEADER: u64 = 104;

/// Flags of `pmuscope bundle`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bundle                         ./pmuscope.data with its symbols to ./pmuscope.data.bundle
  pmuscope report -i pmuscope.data.bundle on another machine, without the programs that ran")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Where to write to [default: the name of the recording with .bundle behind it]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    symbols: SymbolArgs,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let input = args.input.path()?;
    if args.output.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(failure(Exit::BadInput, "-o -: a bundle is a file. Try: -o FILE"));
    }
    let output = args.output.clone().unwrap_or_else(|| {
        let mut name = input.clone().into_os_string();
        name.push(".bundle");
        name.into()
    });
    check(&input)?;
    let bundle = symbols(&input, &args.symbols)?;
    let size = write(&input, &output, &bundle)
        .with_context(|| format!("cannot write {}", output.display()))?;
    let recording = fs::metadata(&input).map_or(0, |metadata| metadata.len());
    let (modules, addresses) = bundle.size();
    writeln!(
        io::stdout(),
        "{}: {} bytes, {} of them symbols of {} addresses in {} modules",
        output.display(),
        count(size),
        count(size.saturating_sub(recording)),
        count(addresses as u64),
        count(modules as u64),
    )
    .context("cannot write to standard output")?;
    Ok(Exit::Done)
}

/// Only what has an end that readers do not look beyond can have something behind it.
fn check(input: &Path) -> anyhow::Result<()> {
    let refuse = |why: &str| Err(failure(Exit::BadInput, format!("{}: {why}", input.display())));
    let metadata =
        fs::metadata(input).with_context(|| format!("cannot open {}", input.display()))?;
    if !metadata.is_file() {
        return refuse("only a recording in one file can be bundled, not a folder or a stream");
    }
    if matches!(Bundle::of(input), Ok(Some(_))) {
        return refuse("it is a bundle already");
    }
    let mut header = [0; 16];
    let read = File::open(input).and_then(|mut file| file.read_exact(&mut header));
    let size = header.last_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    if read.is_ok() && [size, size.swap_bytes()].contains(&16) && size != FILE_HEADER {
        return refuse(
            "it is a stream (of perf record -o -), which cannot be bundled: record to a file",
        );
    }
    Ok(())
}

/// All that a report of the recording asks for.
fn symbols(input: &Path, args: &SymbolArgs) -> anyhow::Result<Bundle> {
    let mut reader = Reader::open(input)?;
    // Callers want names as well.
    let apart = GroupBy { chains: true, ..GroupBy::default() };
    let mut symbolizer = args.symbolizer(true, input)?;
    let running = symbolizer.running_kernel();
    let unwinder = symbolizer.unwinder();
    let unwinding = Unwinding { unwinder: &unwinder, running: &running };
    let collected = Collected::read(&mut reader, apart, available_threads(), Some(unwinding))?;
    if reader.state() != FileState::Closed {
        let input = input.display();
        let why =
            "the recording was cut off, so that nothing can be put behind it. Try: pmuscope report";
        return Err(failure(Exit::BadInput, format!("{input}: {why} -i {input}")));
    }
    let mut bundle = Bundle::new(running.clone());
    collected.each_rules(|module, rules| bundle.add_rules(module, rules.into_iter()))?;
    let mut failed = Ok(());
    for (pid, dump) in collected.jit_dumps() {
        symbolizer.add_jit_dump(*pid, dump.clone());
    }
    let options = Options { rows: Some(0), intervals: Intervals::None, ..Options::default() };
    collected.profile(&reader, &running, options, &mut |requests| {
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
fn write(input: &Path, output: &Path, bundle: &Bundle) -> anyhow::Result<u64> {
    // As private as the recording itself.
    let mut out = AtomicFile::create(output, 0o600, replace(FileKind::Recording))?;
    let file = out.file();
    io::copy(&mut File::open(input)?, file)?;
    bundle.append(file)?;
    let size = file.metadata()?.len();
    out.finish()?;
    Ok(size)
}
