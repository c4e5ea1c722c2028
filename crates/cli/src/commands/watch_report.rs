//! The answer of `pmuscope watch`, of a recording that was just made or of one that was kept.

use std::path::{Path, PathBuf};

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::invocation::Invocation;
use pmuscope_console::limit::Limit;
use pmuscope_console::output::{Form, Format, needs_a_file, of_form};
use pmuscope_perfdata::reader::FileState;
use pmuscope_profile::hits::{Hits, HitsError, Options};
use pmuscope_report::{WatchLimits, WatchView};

use super::symbols::SymbolArgs;
use super::windows::WithDumps;

/// `--json`, `--csv` and `--html`, as every command has them; `-o` is the command's own.
#[derive(Debug, Clone, Default)]
struct AnswerForms {
    asked: Vec<(Format, Option<PathBuf>)>,
}

/// Flags of forms, with their help.
const ANSWER_FLAGS: [(&str, Format, &str); 3] = [
    ("json", Format::Json, "Print JSON, or write it to FILE (pmuscope/watch/1)"),
    ("csv", Format::Csv, "Print CSV, or write it to FILE"),
    ("html", Format::Html, "Write a self-contained HTML page to FILE"),
];

impl clap::Args for AnswerForms {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(ANSWER_FLAGS.map(|(name, _, help)| of_form(name, help.to_owned())))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for AnswerForms {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let given = |name: &str| matches.try_contains_id(name).unwrap_or(false);
        let asked = ANSWER_FLAGS.into_iter().filter(|(name, ..)| given(name));
        let asked = asked
            .map(|(name, format, _)| (format, matches.get_one::<PathBuf>(name).cloned()))
            .collect();
        Ok(Self { asked })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// How the answer is shown.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Answer")]
pub(crate) struct ReportArgs {
    /// Write the answer to FILE
    #[arg(long, value_name = "FILE", hide = true)]
    report: Option<PathBuf>,
    #[command(flatten)]
    forms: AnswerForms,
    /// Show at most N call sites, or "all" [default: 20]
    ///
    /// 100 in HTML, all in other forms.
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    /// Show N hits one by one, first and last [default: 5]
    ///
    /// 20 in HTML and JSON.
    #[arg(long, value_name = "N")]
    history: Option<usize>,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Forms of the answer.
const FORMATS: [Format; 5] = [Format::Text, Format::Json, Format::Csv, Format::Tsv, Format::Html];

/// Whether `-o FILE` is an answer; else it is the recording.
fn is_answer(file: &Path) -> bool {
    Format::is_named_by(file, &FORMATS)
}

/// The file of `-o` that keeps the recording, if there is one.
///
/// # Errors
/// If there are several.
pub(crate) fn recording(files: &[PathBuf]) -> anyhow::Result<Option<&Path>> {
    let mut recordings = files.iter().filter(|file| !is_answer(file));
    let first = recordings.next();
    if let (Some(one), Some(two)) = (first, recordings.next()) {
        return Err(bad_input(format!(
            "-o {} and -o {}: one recording is made. An answer ends in .html, .json, .csv, .tsv or .txt. Try: -o \
             w.data -o w.html",
            one.display(),
            two.display()
        )));
    }
    Ok(first.map(PathBuf::as_path))
}

impl ReportArgs {
    /// What answers will be, asked before anything is recorded; `files` are those of `-o`.
    ///
    /// # Errors
    /// If the name of a file does not say, or a file cannot be written.
    pub(crate) fn check(&self, files: &[PathBuf]) -> anyhow::Result<()> {
        self.forms(files)?.iter().try_for_each(Form::check)
    }

    /// The answers that were asked for; text on standard output where none was.
    fn forms(&self, files: &[PathBuf]) -> anyhow::Result<Vec<Form>> {
        let mut forms = Vec::new();
        let answers = files.iter().filter(|file| is_answer(file));
        for file in answers.chain(&self.report) {
            forms.push(Form::new(Format::choose(None, Some(file), &FORMATS)?, Some(file)));
        }
        for (format, file) in &self.forms.asked {
            if *format == Format::Html && file.is_none() {
                return Err(needs_a_file());
            }
            forms.push(Form::new(*format, file.as_deref()));
        }
        if forms.is_empty() {
            forms.push(Form::new(Format::Text, None));
        }
        Ok(forms)
    }

    fn limits(&self, format: Format) -> WatchLimits {
        let defaults = match format {
            Format::Text => WatchLimits::TEXT,
            Format::Html => WatchLimits::PAGE,
            _ => WatchLimits::ALL,
        };
        let rows = Limit::rows(self.limit, Some(defaults.rows)).unwrap_or(usize::MAX);
        let history = self.history.unwrap_or(defaults.history);
        WatchLimits { rows, history, ..defaults }
    }
}

/// Reads the recording at `path` and shows its hits. `kept`: it will still be there afterwards, so the answer
/// names it. `files` are those of `-o`. `exit` is how all before ended; the status is that, or that something is
/// missing.
///
/// # Errors
/// If the recording cannot be read, is none of watchpoints, or the answer cannot be written.
pub(crate) fn tell(
    (path, kept): (&Path, bool),
    args: &ReportArgs,
    files: &[PathBuf],
    begun: Invocation,
    exit: Exit,
) -> anyhow::Result<Exit> {
    let forms = args.forms(files)?;
    let hits = read(path, args)?;
    let is_whole = hits.state == FileState::Closed && hits.tally.stopped.is_none();
    let exit = if is_whole { exit } else { exit.with_missing() };
    let file = kept.then(|| path.to_string_lossy());
    for form in forms {
        let form = Form { invocation: begun, ..form };
        let view = WatchView::new(&hits, file.as_deref(), args.limits(form.format));
        form.show(&view, &exit)?;
    }
    Ok(exit)
}

fn read(path: &Path, args: &ReportArgs) -> anyhow::Result<Hits> {
    let recording = args.symbols.open(path)?;
    let mut symbolizer = args.symbols.symbolizer(true, &recording)?;
    let running = symbolizer.running_kernel();
    let mut options = Options::default();
    options.ends = args.history.unwrap_or(options.ends).max(1);
    let names = &mut WithDumps(&mut symbolizer);
    let mut hits =
        Hits::read(&recording, &options, &running, names).map_err(|error| match error {
            HitsError::Read(error) => error.into(),
            other => bad_input(other),
        })?;
    hits.name_pointers(&symbolizer);
    Ok(hits)
}
