//! `pmuscope fleet compact` and `pmuscope fleet retain`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Days, NaiveDate};
use pmuscope_compaction::{Compaction, Day, Merged};
use pmuscope_console::exit::bad_input;
use pmuscope_console::say;
use pmuscope_dataset::DatasetLocation;
use pmuscope_text::number;

use crate::select::location;

/// Flags of `pmuscope fleet compact`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet compact profiles                    past days, to bins of an hour
  pmuscope fleet compact profiles --older-than 7 --bin 300

Sums of hosts, services and stacks stay the same. Readers and agents may go on meanwhile.")]
pub(crate) struct CompactArgs {
    /// Folder of the dataset
    #[arg(value_name = "DATASET", value_parser = location())]
    dataset: DatasetLocation,
    /// Merge days that ended this many days ago: longer than an agent's spool can hold a file
    #[arg(long, value_name = "DAYS", default_value = "3", value_parser = clap::value_parser!(u64).range(1..=36_500))]
    older_than: u64,
    /// Seconds of a bin afterwards
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    bin: u64,
}

/// Flags of `pmuscope fleet retain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet retain profiles --days 400          remove what is older
  pmuscope fleet retain profiles --days 400 --dry-run")]
pub(crate) struct RetainArgs {
    /// Folder of the dataset
    #[arg(value_name = "DATASET", value_parser = location())]
    dataset: DatasetLocation,
    /// Keep this many days, and today
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36_500))]
    days: u64,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// The day, UTC, that was this many days ago.
fn ago(days: u64) -> NaiveDate {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = DateTime::from_timestamp(now.as_secs() as i64, 0).unwrap_or_default();
    now.date_naive().checked_sub_days(Days::new(days)).unwrap_or(NaiveDate::MIN)
}

/// The folder of a dataset: files of days are exchanged in one step there, which object stores do not do.
fn folder(location: &DatasetLocation) -> anyhow::Result<&Path> {
    match location {
        DatasetLocation::Folder(path) => Ok(path),
        DatasetLocation::S3(_) => Err(bad_input(format!(
            "{location} is an object store: only folders can be compacted. Try: rules for old objects in the store itself, \
             or a folder that all hosts share"
        ))),
    }
}

pub(crate) fn compact(args: &CompactArgs) -> anyhow::Result<()> {
    let compaction = Compaction::open(folder(&args.dataset)?)?;
    let before = ago(args.older_than);
    let mut all = Merged::default();
    for day in compaction.days()?.iter().filter(|Day(day)| *day < before) {
        let merged = compaction.merge(day, args.bin as i64 * 1_000_000)?;
        if merged.files > 0 {
            say!("{}: {}", day.0, words(&merged));
        }
        all += merged;
    }
    if all.files == 0 {
        say!("nothing to merge: no files of days before {before} that are not merged");
    }
    Ok(())
}

fn words(merged: &Merged) -> String {
    format!(
        "{} ({}) merged into {} ({})",
        number::counted(merged.files as u64, "file"),
        number::bytes(merged.bytes),
        number::counted(merged.files_after as u64, "file"),
        number::bytes(merged.bytes_after),
    )
}

pub(crate) fn retain(args: &RetainArgs) -> anyhow::Result<()> {
    let compaction = Compaction::open(folder(&args.dataset)?)?;
    let before = ago(args.days);
    let days: Vec<Day> = compaction.days()?.into_iter().filter(|Day(day)| *day < before).collect();
    for day in &days {
        if args.dry_run {
            say!("{}: would be removed", day.0);
            continue;
        }
        let removed = compaction.remove(day)?;
        let files = number::counted(removed.files as u64, "file");
        say!("{}: removed {files} ({})", day.0, number::bytes(removed.bytes));
    }
    if days.is_empty() {
        say!("nothing to remove: no days before {before}");
    }
    Ok(())
}
