//! Why there is nothing to show: a filter leaves nothing, or the file holds no samples; and what there would be.

use std::collections::BTreeMap;
use std::path::Path;

use pmuscope_console::say;
use pmuscope_perfdata::reader::{RecordingFile, Tally};
use pmuscope_profile::Counting;
use pmuscope_profile::{
    Collected, Filter, Filtered, GroupBy, Options, Profile, TasksBy, available_threads,
    sample_times,
};
use pmuscope_report::number::{count, counted};
use pmuscope_report::{escape, other_data_text};
use pmuscope_symbols::KernelIdentity;

/// Values that are listed, the ones with the most samples first.
const MOST: usize = 8;

/// Says on standard error why there are no samples, where a filter left none or the file holds something else;
/// whether that is so.
pub(super) fn explain(profile: &Profile, recording: &RecordingFile) -> anyhow::Result<bool> {
    let path = recording.path();
    if profile.samples_read() == 0 && holds_something_else(&profile.tally, path) {
        return Ok(true);
    }
    let Some(filtered) = profile.filtered.as_ref().filter(|_| profile.samples() == 0) else {
        return Ok(false);
    };
    let file = path.display().to_string();
    say!(
        "warning: {}: the filter excludes all of {}",
        escape(&file),
        counted(filtered.left_out, "sample")
    );
    // A stream is gone.
    if !recording.is_stream() && filtered.left_out > 0 {
        let all = read(recording, Filter::default())?;
        for (name, value) in &filtered.filter.asked {
            let line = one(filtered, name, &all, recording)?;
            say!("  --{name} {}: {line}", escape(value));
        }
    }
    Ok(true)
}

/// Says on standard error what a file without samples holds instead; whether it does.
pub(super) fn holds_something_else(tally: &Tally, path: &Path) -> bool {
    let holds = tally.other_data();
    if let Some(holds) = holds {
        say!("warning: {}", other_data_text(holds, &path.to_string_lossy()));
    }
    holds.is_some()
}

/// What one flag alone leaves, or what there is where that is nothing.
fn one(
    filtered: &Filtered,
    name: &'static str,
    all: &Profile,
    recording: &RecordingFile,
) -> anyhow::Result<String> {
    let filter = &filtered.filter;
    let mut alone = Filter { asked: vec![(name, String::new())], ..Filter::default() };
    match name {
        "pid" => alone.pids.clone_from(&filter.pids),
        "tid" => alone.tids.clone_from(&filter.tids),
        "comm" => alone.comms.clone_from(&filter.comms),
        "cpu" | "node" => alone.cpus.clone_from(&filter.cpus),
        "time" => alone.times.clone_from(&filter.times),
        "event" => alone.events.clone_from(&filter.events),
        _ => {
            return Ok("pmuscope report --by function --limit all lists the functions".into());
        }
    }
    let left = read(recording, alone)?.samples();
    if left > 0 {
        return Ok(format!("alone leaves {}", counted(left, "sample")));
    }
    Ok(match name {
        "time" => match sample_times(recording)? {
            Some((first, last)) => {
                let seconds =
                    |time: u64| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
                format!("the samples are of {} to {}", seconds(first), seconds(last))
            }
            None => "the samples have no time stamp".into(),
        },
        "event" => "the event has no samples".into(),
        _ => there_is(name, all),
    })
}

/// Values of a dimension with their samples.
fn there_is(name: &str, all: &Profile) -> String {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    let counts = &all.aggregate;
    for cell in &counts.cells {
        let task = &counts.tasks[cell.task as usize];
        let named = |id: Option<i32>| id.map(|id| format!("{id} {}", escape(&task.command)));
        let value = match name {
            "pid" => task.pid.map(|pid| pid.to_string()),
            "tid" => named(task.tid),
            "comm" => Some(escape(&task.command).into_owned()),
            _ => cell.cpu.map(|cpu| cpu.to_string()),
        };
        if let Some(value) = value {
            *found.entry(value).or_default() += cell.samples;
        }
    }
    if found.is_empty() {
        return "the samples do not have it".into();
    }
    let mut found: Vec<(String, u64)> = found.into_iter().collect();
    found.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    let more = found.len().saturating_sub(MOST);
    let mut listed: Vec<String> = found
        .into_iter()
        .take(MOST)
        .map(|(value, samples)| format!("{value} ({})", count(samples)))
        .collect();
    if more > 0 {
        listed.push(format!("{} more", count(more as u64)));
    }
    format!("found: {}", listed.join(", "))
}

/// Who has samples, on which CPU.
fn read(recording: &RecordingFile, filter: Filter) -> anyhow::Result<Profile> {
    let mut reader = recording.reader()?;
    let apart = GroupBy { chains: false, tasks: TasksBy::Thread, cpus: true };
    let collected = Collected::read(
        &mut reader,
        Counting { apart, filter, ..Counting::default() },
        available_threads(),
        None,
    )?;
    let options = Options::COUNTS;
    // Nobody asks for names of functions.
    Ok(collected.profile(&reader, &KernelIdentity::default(), options, &mut |_| Vec::new())?)
}
