//! Several guests with the same command: kernels times settings, each as often as asked for.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::{Format, Formats, OutputArgs};
use pmuscope_console::say;
use pmuscope_lab::{Cell, Lab, Observer, Options, Outcome, matrix};
use pmuscope_machine::Machine;
use pmuscope_measure::{Extract, MeasureError, Plan, RunFile, metric};
use pmuscope_report::{guests_text, number};

use super::output;
use crate::commands::bench::runs::{PreflightCpus, RunOutput, begin, keep};
use crate::commands::doctor;
use crate::signals::Stop;

/// Forms of the results of guests.
#[derive(Debug, Clone)]
pub(super) struct LabFormats;

impl Formats for LabFormats {
    const ALL: &[Format] = &[Format::Text, Format::Json, Format::Html];
    const SCHEMA: &str = "pmuscope/runs/1";
    const OTHER: Option<&str> = Some("or a folder (see --dir)");
}

/// Flags of several guests.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Several guests")]
pub(super) struct MatrixArgs {
    /// Run each guest N times, in random order; a CI needs 6
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    repeat: usize,
    /// Take the command's own time, in seconds, from its output
    ///
    /// The first group of the last match.
    #[arg(long, value_name = "REGEX")]
    time_from: Option<String>,
    /// Add a metric from the command's output; repeatable
    #[arg(long, value_name = "NAME=REGEX")]
    metric_from: Vec<String>,
    /// Seed the random order of guests
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    pub(super) output: OutputArgs<LabFormats>,
}

impl MatrixArgs {
    /// Whether results of more than one guest, or figures, were asked for.
    pub(super) fn is_asked(&self) -> bool {
        self.repeat != 1
            || self.time_from.is_some()
            || !self.metric_from.is_empty()
            || self.asks_for_results()
    }

    /// Whether a result was asked for, and not only a folder by the old `-o DIR`.
    fn asks_for_results(&self) -> bool {
        let is_folder = self.output.results().is_ok_and(|results| results.other.is_some());
        self.output.is_asked() && !is_folder
    }

    fn extracts(&self) -> anyhow::Result<Vec<Extract>> {
        let time = self.time_from.iter();
        let time = time.map(|p| Extract::new(metric::TIME, "s", p).context("--time-from"));
        let others = self.metric_from.iter().map(|t| Extract::named(t).context("--metric-from"));
        time.chain(others).collect()
    }
}

/// Every choice of one value per setting, the last setting changing fastest.
pub(super) fn choices(settings: &[(String, Vec<String>)]) -> Vec<Vec<(String, String)>> {
    let mut all: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for (name, values) in settings {
        all = all
            .iter()
            .flat_map(|chosen| {
                values.iter().map(move |value| {
                    let mut chosen = chosen.clone();
                    chosen.push((name.clone(), value.clone()));
                    chosen
                })
            })
            .collect();
    }
    all
}

/// `6.12 kernel.numa_balancing=1`: settings with one value tell nothing apart.
pub(super) fn name(options: &Options, settings: &[(String, Vec<String>)]) -> String {
    let differs = |name: &String| settings.iter().any(|(n, values)| n == name && values.len() > 1);
    let mut text = options.kernel.name.clone();
    for (name, value) in options.settings.iter().filter(|(name, _)| differs(name)) {
        text += &format!(" {name}={value}");
    }
    text
}

pub(super) fn run(
    args: &MatrixArgs,
    cells: &[Cell],
    folder: Option<PathBuf>,
    stop: Stop,
) -> anyhow::Result<Exit> {
    if args.repeat == 0 {
        return Err(bad_input("-r 0: at least one round is needed"));
    }
    for (i, cell) in cells.iter().enumerate() {
        if cells[..i].iter().any(|other| other.name == cell.name) {
            let text =
                format!("{} is given twice. Try: -r 2, which runs each guest twice", cell.name);
            return Err(bad_input(text));
        }
    }
    let extracts = args.extracts()?;
    let output = RunOutput::of(&args.output)?;
    output.check()?;
    let mut file = begin(&Machine::host(), &doctor::facts()?, PreflightCpus::Not)?;
    let mut watch = GuestProgress { stop, path: output.path().map(PathBuf::from), folder };
    let seed = args.seed.unwrap_or_else(Plan::random_seed);
    say!("{}; Ctrl-C keeps what is done", number::counted(cells.len() * args.repeat, "guest"));
    matrix(&Lab::of_user(), cells, (args.repeat, seed), &extracts, &mut file, &mut watch)?;
    let interrupted = watch.stop.asked();
    output.finish(file, interrupted, true, guests_text)
}

/// Progress goes to stderr, a line per guest; results to the file after each.
struct GuestProgress {
    stop: Stop,
    path: Option<PathBuf>,
    folder: Option<PathBuf>,
}

impl Observer for GuestProgress {
    fn stop(&mut self) -> bool {
        self.stop.asked()
    }

    fn done(
        &mut self,
        (done, of): (usize, usize),
        cell: &str,
        result: Result<f64, &str>,
        left_s: f64,
    ) {
        let result = match result {
            Ok(seconds) => number::duration(seconds),
            Err(why) => format!("FAILED, {}", in_a_line(why)),
        };
        let left = format!(" · about {} left", number::duration(left_s));
        let left = if done < of { left } else { String::new() };
        say!("{done}/{of} {cell}: {result}{left}");
    }

    fn outcome(&mut self, cell: &str, round: usize, outcome: &Outcome) -> std::io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let folder = folder.join(folder_name(cell)).join(round.to_string());
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("stdout"), &outcome.stdout)?;
        std::fs::write(folder.join("stderr"), &outcome.stderr)?;
        output::write(&outcome.files, &folder).map_err(std::io::Error::other)
    }

    fn keep(&mut self, file: &RunFile) -> Result<(), MeasureError> {
        keep(file, self.path.as_deref().map(Path::new))
    }
}

/// An error without the lines of a console that may end it: the results have them.
fn in_a_line(why: &str) -> &str {
    let line = why.lines().next().unwrap_or("");
    let label = |(_, last): &(&str, &str)| last.ends_with("last lines:");
    line.rsplit_once(". ").filter(label).map_or(line, |(before, _)| before)
}

/// Names of cells have blanks, those of kernels slashes.
fn folder_name(cell: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._=-".contains(c) { c } else { '_' };
    cell.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_meets_every_other() {
        let settings: Vec<(String, Vec<String>)> = [("a", vec!["0", "1"]), ("b", vec!["x", "y"])]
            .map(|(n, v)| (n.to_owned(), v.into_iter().map(str::to_owned).collect()))
            .into();
        let all = choices(&settings);
        let text: Vec<String> = all
            .iter()
            .map(|c| c.iter().map(|(n, v)| format!("{n}{v}")).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(text, ["a0 bx", "a0 by", "a1 bx", "a1 by"]);
        assert_eq!(choices(&[]), [vec![]]);
    }

    #[test]
    fn progress_of_a_failure_is_one_line() {
        let why = "it took too long. Try: --timeout 9. The guest's last lines:\n  [1.0] panic\n";
        assert_eq!(in_a_line(why), "it took too long. Try: --timeout 9");
        assert_eq!(in_a_line("in the guest: no such setting"), "in the guest: no such setting");
    }

    #[test]
    fn cells_become_folders() {
        assert_eq!(folder_name("/boot/vmlinuz a=1"), "_boot_vmlinuz_a=1");
    }
}
