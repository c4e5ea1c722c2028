//! Which part of a dataset a command is about: the flags that all questions have, and what an answer covers.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::builder::{OsStringValueParser, TypedValueParser};
use pmuscope_console::exit::bad_input;
use pmuscope_dataset::{
    COUNTS_EVENT, DatasetLocation, LOCALITY_EVENT, Labels, Timestamp, WINDOWS_EVENT,
};
use pmuscope_query::{
    ChosenEvent, ColumnFilter, Coverage, Engine, Fleet, Selection, ShareBy, UnreadableFiles,
    choose_event, values,
};
use pmuscope_report::{FleetCounted, FleetHead, Note, escape};
use pmuscope_text::number;

/// Names that a message lists.
const NAMES: usize = 5;
/// Names that are compared with one that was asked for.
const KNOWN: u64 = 10_000;

/// Where a dataset lies, from a command line.
pub(crate) fn location() -> impl TypedValueParser<Value = DatasetLocation> {
    OsStringValueParser::new().try_map(|text| DatasetLocation::parse(&text))
}

/// Which part of a dataset.
#[derive(Debug, clap::Args)]
pub(crate) struct SelectArgs {
    /// The dataset: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "DATASET", value_parser = location())]
    pub(crate) dataset: DatasetLocation,
    /// Only this service; several times for several
    #[arg(long, value_name = "NAME", value_parser = filled::<String>, help_heading = FILTERS)]
    service: Vec<String>,
    /// Only this version
    #[arg(long, value_name = "VERSION", value_parser = filled::<String>, help_heading = FILTERS)]
    version: Vec<String>,
    /// Only this host
    #[arg(long, value_name = "NAME", value_parser = filled::<String>, help_heading = FILTERS)]
    host: Vec<String>,
    /// Only this unit of systemd
    #[arg(long, value_name = "UNIT", value_parser = filled::<String>, help_heading = FILTERS)]
    unit: Vec<String>,
    /// Only this container
    #[arg(long, value_name = "ID", value_parser = filled::<String>, help_heading = FILTERS)]
    container: Vec<String>,
    /// Only this Kubernetes pod
    #[arg(long, value_name = "UID", value_parser = filled::<String>, help_heading = FILTERS)]
    pod: Vec<String>,
    /// Only hosts with this label; several times for several that a host must all have
    #[arg(long, value_name = "NAME=VALUE", value_parser = Labels::parse, help_heading = FILTERS)]
    label: Vec<(String, String)>,
    /// From this time on: 2026-11-25T12:00:00Z, or 2h for two hours ago
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = FILTERS)]
    since: Option<Timestamp>,
    /// Before this time
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = FILTERS)]
    until: Option<Timestamp>,
    /// Event [default: the one that was recorded longest]
    #[arg(short, long, value_name = "EVENT", value_parser = filled::<String>, help_heading = FILTERS)]
    event: Option<String>,
}

const FILTERS: &str = "Filters";

/// A name or another text that is not empty, which a variable of a shell may be.
pub(crate) fn filled<T: for<'a> From<&'a str>>(text: &str) -> Result<T, String> {
    if text.is_empty() {
        Err("it is empty. Try: a name, or no such flag".to_owned())
    } else {
        Ok(text.into())
    }
}

impl SelectArgs {
    /// Columns with the values that were asked for.
    fn columns(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let all = [
            ("service", &self.service),
            ("version", &self.version),
            ("host", &self.host),
            ("unit", &self.unit),
            ("container", &self.container),
            ("pod", &self.pod),
        ];
        let given = all.into_iter().filter(|(_, values)| !values.is_empty());
        given.map(|(column, values)| (column, &**values))
    }

    /// The selection, without an event that nobody named.
    pub(crate) fn selection(&self) -> Selection {
        let filter =
            |(column, values): (&str, &[String])| ColumnFilter::new(column, values.to_vec());
        Selection {
            event: self.event.clone(),
            weight_unit: None,
            conditions: self.columns().filter_map(filter).collect(),
            labels: self.label.clone(),
            since: self.since,
            until: self.until,
        }
    }

    /// The same in words.
    pub(crate) fn words(&self) -> String {
        let filter = |(name, values): (&str, &[String])| format!("{name} {}", values.join(", "));
        let label = |(name, value): &(String, String)| format!("label {name}={value}");
        let labels = self.label.iter().map(label);
        self.columns().map(filter).chain(labels).collect::<Vec<_>>().join("; ")
    }

    /// Opens the dataset and chooses the event.
    pub(crate) fn open(&self) -> anyhow::Result<OpenedDataset> {
        self.open_with(self.selection())
    }

    /// Opens the dataset for a question about one event only.
    pub(crate) fn open_for(&self, event: &str) -> anyhow::Result<OpenedDataset> {
        if let Some(asked) = &self.event {
            return Err(bad_input(format!("-e {asked}: this question is about {event} only")));
        }
        self.open_with(Selection { event: Some(event.to_owned()), ..self.selection() })
    }

    fn open_with(&self, mut selection: Selection) -> anyhow::Result<OpenedDataset> {
        let engine = Engine::open(&self.dataset)?;
        engine.keep_sums(&selection)?;
        let chosen = choose_event(&engine, &mut selection)?;
        Ok(OpenedDataset { engine, selection, chosen })
    }

    /// Refuses filters by what runs of benchmarks do not have.
    pub(crate) fn refuse_for_runs(&self) -> anyhow::Result<()> {
        let is_of_tasks = |column: &str| ["unit", "container", "pod"].contains(&column);
        match self.columns().find(|(column, _)| is_of_tasks(column)) {
            Some((column, _)) => {
                Err(bad_input(format!("--{column}: runs have no {column}. Try: --service")))
            }
            None => Ok(()),
        }
    }

    /// What values of runs are narrowed to, if to anything.
    pub(crate) fn event(&self) -> Option<&str> {
        self.event.as_deref()
    }

    /// That nothing was selected, with what there is.
    pub(crate) fn nothing(&self, opened: &OpenedDataset) -> anyhow::Result<anyhow::Error> {
        let dataset = &self.dataset;
        let event: Vec<String> = self.event.iter().cloned().collect();
        let asked =
            self.columns().chain([("event", &event[..])].into_iter().filter(|_| !event.is_empty()));
        let mut has_filter = !self.label.is_empty();
        for (column, given) in asked {
            has_filter = true;
            let known = values(&opened.engine, column, KNOWN)?;
            let Some(unknown) = given.iter().find(|one| !known.contains(one)) else { continue };
            let some = &known[..known.len().min(NAMES)];
            let there = match some {
                [] => format!("no sample has a {column}"),
                some => format!("those with most samples are {}", some.join(", ")),
            };
            let text = format!("{dataset} has no {column} {unknown}: {there}");
            return Ok(bad_input(format!("{text}. Try: another --{column}")));
        }
        Ok(bad_input(match has_filter {
            false => format!(
                "{dataset} has no samples in this time. Try: pmuscope fleet hosts {dataset}"
            ),
            true => format!(
                "{dataset} has no samples with all of these filters in this time. Try: fewer of them"
            ),
        }))
    }
}

/// A dataset with a selection.
pub(crate) struct OpenedDataset {
    pub(crate) engine: Engine,
    pub(crate) selection: Selection,
    pub(crate) chosen: ChosenEvent,
}

impl OpenedDataset {
    /// What an answer covers.
    pub(crate) fn head(&self, args: &SelectArgs, coverage: &Coverage, samples: i64) -> FleetHead {
        let mut notes = Vec::new();
        if !self.chosen.others.is_empty() {
            let text =
                format!("other events were recorded, too: -e {}", self.chosen.others.join(", -e "));
            notes.push(Note { warning: false, text });
        }
        if self.chosen.left_out > 0 {
            let left_out = number::counted(self.chosen.left_out.unsigned_abs(), "sample");
            let text = format!("{left_out} of this event count something else and are left out");
            notes.push(Note { warning: true, text });
        }
        if let Some(first) = coverage.twice.first() {
            let more = match coverage.twice.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let text = format!(
                "more time was recorded of {}{more} than there is, so samples count twice: two agents of one host or name, \
                 or a clock that was set back. Try: pmuscope fleet hosts",
                escape(first)
            );
            notes.push(Note { warning: true, text });
        }
        notes.extend(unreadable(&self.engine, &self.selection));
        FleetHead {
            dataset: args.dataset.to_string(),
            selection: args.words(),
            event: self.chosen.event.clone().unwrap_or_default(),
            from: coverage.span_us.map(|(from, _)| shown_time(from)),
            until: coverage.span_us.map(|(_, until)| shown_time(until)),
            hosts: coverage.hosts.len() as u64,
            recorded: coverage.share(),
            samples: samples.unsigned_abs(),
            lost: coverage.lost(),
            notes,
            no_ci: false,
            counted: self.counted(),
        }
    }

    /// What an answer about the event is made of.
    fn counted(&self) -> FleetCounted {
        match self.chosen.event.as_deref() {
            _ if self.chosen.is_off_cpu() => FleetCounted::Waits,
            Some(WINDOWS_EVENT) => FleetCounted::Windows,
            Some(COUNTS_EVENT) => FleetCounted::Cgroups,
            Some(LOCALITY_EVENT) => FleetCounted::Processes,
            _ => FleetCounted::Samples,
        }
    }

    pub(crate) fn head_of(&self, args: &SelectArgs, fleet: &Fleet) -> FleetHead {
        self.head(args, &fleet.coverage, fleet.samples)
    }
}

/// That there are files which cannot be read: those of other tables, as the answer is there.
pub(crate) fn unreadable(engine: &Engine, selection: &Selection) -> Option<Note> {
    let UnreadableFiles { first, count } = engine.unreadable_files(selection);
    let first = first?;
    let first = escape(&first.to_string_lossy()).into_owned();
    let (files, them) = match count {
        1 => (first, "it"),
        _ => (format!("{count} files, such as {first}"), "them"),
    };
    let text = format!(
        "cannot read {files}: not needed here, but other questions fail. Try: move {them} away"
    );
    Some(Note { warning: true, text })
}

/// Says that no row has an interval, where rows are by host.
pub(crate) fn note_rows_by_host(head: &mut FleetHead, by: &[ShareBy]) {
    if by.contains(&ShareBy::Host) {
        head.no_ci = true;
        let text = "no CI: a row is of one host, and hosts are what varies".to_owned();
        head.notes.push(Note { warning: false, text });
    }
}

/// Says which hosts are emulated, by emulator, and what of them is therefore the emulator's.
pub(crate) fn note_emulated(head: &mut FleetHead, emulated: &BTreeMap<String, usize>, what: &str) {
    head.notes.extend(emulated.iter().map(|(emulator, &hosts)| {
        let hosts = number::counted(hosts as u64, "host");
        let text = format!("{hosts} emulated by {}: {what} are the emulator's", escape(emulator));
        Note { warning: true, text }
    }));
}

/// Microseconds since 1970 as a date and time of UTC.
pub(crate) fn shown_time(us: i64) -> String {
    let time = chrono::DateTime::from_timestamp_micros(us).unwrap_or_default();
    time.format("%Y-%m-%d %H:%M:%S").to_string()
}

/// A time as RFC 3339 has it, or a length of time before now.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    let seconds = |unit: char| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        _ => None,
    };
    let ago = text.char_indices().last().and_then(|(at, unit)| {
        let number: i64 = text[..at].parse().ok().filter(|number| *number >= 0)?;
        number.checked_mul(seconds(unit)?)?.checked_mul(1_000_000)
    });
    if let Some(ago) = ago {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        return Ok(Timestamp(now.as_micros() as i64 - ago));
    }
    let time = chrono::DateTime::parse_from_rfc3339(text);
    let time = time.map_err(|error| format!("{error}. Try: 2026-11-25T12:00:00Z, or 2h"))?;
    Ok(Timestamp(time.timestamp_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_or_before_now() {
        assert_eq!(time("1970-01-01T01:00:01+01:00"), Ok(Timestamp(1_000_000)));
        let (hour, day) = (time("1h").unwrap(), time("1d").unwrap());
        let apart = hour.0 - day.0 - 23 * 3_600_000_000;
        assert!(apart.abs() < 60_000_000, "{apart} µs");
        for wrong in ["", "h", "yesterday", "-1h", "9999999999999999d"] {
            assert!(time(wrong).unwrap_err().contains("Try: "), "{wrong}");
        }
    }
}
