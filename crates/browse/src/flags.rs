//! The recording as commands are asked for it.

use std::ops::RangeInclusive;

use pmuscope_profile::aggregate::Timeline;

use crate::command::CommandLine;
use crate::step::{FilterStep, common_span, time_flag};

/// The file, and the flags it was opened with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingFlags {
    /// As it was named.
    pub file: String,
    /// Filters that all commands take: names of flags without dashes, and their values, such as `tid` and `7`.
    pub filters: Vec<(&'static str, String)>,
    /// Times that were read, in nanoseconds of the recording's clock; empty for all of them.
    pub times: Vec<RangeInclusive<u64>>,
    /// Filters by DSO and function, in the same form: only `report` takes them.
    pub by_name: Vec<(&'static str, String)>,
    /// What else only `report` takes: `--no-inline`.
    pub of_report: Vec<String>,
    /// Where symbols come from.
    pub symbols: Vec<String>,
}

/// A view that a command prints.
pub(crate) struct Printed {
    pub(crate) key: char,
    pub(crate) title: &'static str,
    words: &'static [&'static str],
    /// Filters by DSO and function have no effect on it.
    is_unnamed: bool,
}

const fn printed(
    key: char,
    title: &'static str,
    words: &'static [&'static str],
    is_unnamed: bool,
) -> Printed {
    Printed { key, title, words, is_unnamed }
}

/// All of them, in the order of the menu.
pub(crate) const PRINTED: [Printed; 9] = [
    printed('w', "waits off the CPU", &["report", "--by", "wait,function"], true),
    printed('m', "metrics of functions", &["metrics"], true),
    printed('h', "hits of watchpoints", &["watch", "--limit", "all"], true),
    printed('s', "shared cache lines", &["sharing"], true),
    printed('b', "branches", &["report", "--by", "branch"], true),
    printed('y', "memory levels of accesses", &["report", "--by", "mem"], true),
    printed('f', "fields accessed", &["report", "--by", "field"], true),
    printed('l', "samples one by one", &["script"], true),
    printed('i', "DSOs and their symbols", &["report", "--modules"], false),
];

impl Printed {
    /// The command, with the steps that it takes; and how many steps it does not take.
    pub(crate) fn command(
        &self,
        origin: &RecordingFlags,
        steps: &[FilterStep],
        time: &Timeline,
    ) -> (CommandLine, usize) {
        let takes = |step: &FilterStep| !self.is_unnamed || !step.is_by_name();
        // Hits of watchpoints are shown as they were recorded.
        let takes_filters = self.words[0] != "watch";
        let taken: Vec<FilterStep> =
            steps.iter().filter(|step| takes_filters && takes(step)).cloned().collect();
        let mut line =
            CommandLine::new(self.words).with(["-i", &*origin.file]).with(&origin.symbols);
        if !self.is_unnamed {
            line = line.with(&origin.of_report);
        }
        if takes_filters {
            line = line.with_flags(&origin.flags(!self.is_unnamed, &taken, time));
        }
        let left_out = steps.len() - taken.len();
        (line, left_out)
    }
}

impl RecordingFlags {
    /// The code of a function in what the steps leave. Instructions are of all code, so that inlined functions are never
    /// left out.
    pub(crate) fn annotate(&self, steps: &[FilterStep], time: &Timeline) -> CommandLine {
        CommandLine::new(&["report", "-i", &self.file])
            .with(&self.symbols)
            .with_flags(&self.flags(true, steps, time))
    }

    /// Filters that the recording was opened with, as a reader sees them.
    pub(crate) fn labels(&self) -> Vec<String> {
        let asked = self.filters.iter().chain(&self.by_name);
        asked.map(|(name, value)| format!("--{name} {value}")).collect()
    }

    /// `report` of what the steps leave.
    pub(crate) fn report(&self, steps: &[FilterStep], time: &Timeline) -> CommandLine {
        CommandLine::new(&["report", "-i", &self.file])
            .with(&self.symbols)
            .with(&self.of_report)
            .with_flags(&self.flags(true, steps, time))
    }

    /// Filters that the recording was opened with, and steps, as one flag for each that takes a list.
    fn flags(
        &self,
        by_name: bool,
        steps: &[FilterStep],
        time: &Timeline,
    ) -> Vec<(&'static str, String)> {
        let by_name = if by_name { &self.by_name[..] } else { &[] };
        let mut flags = [&self.filters[..], by_name].concat();
        for flag in steps.iter().filter_map(FilterStep::flag) {
            // A stack has many functions. But a sample has one thread: its step is of a row that the flag before it left,
            // and a list would keep the others of that flag too.
            if !["symbol-filter", "focus"].contains(&flag.0) {
                flags.retain(|(name, _)| *name != flag.0);
            }
            if !flags.contains(&flag) {
                flags.push(flag);
            }
        }
        if let Some(blocks) = common_span(steps) {
            flags.retain(|(name, _)| *name != "time");
            flags.push(("time", time_flag(time, &blocks, &self.times)));
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_get_the_filters_that_they_take() {
        let origin = RecordingFlags {
            file: "x.data".into(),
            filters: vec![("cpu", "1".into()), ("tid", "7,8".into())],
            by_name: vec![("focus", "parse".into())],
            symbols: vec!["--symfs".into(), "/mnt".into()],
            ..RecordingFlags::default()
        };
        let time = Timeline::default();
        let steps = [FilterStep::Thread(7), FilterStep::Through("main".into())];
        assert_eq!(
            origin.report(&steps, &time).shell(),
            "pmuscope report -i x.data --symfs /mnt --cpu 1 --focus parse --tid 7 --focus '=main'"
        );
        let of = |title: &str| {
            let view = PRINTED.iter().find(|one| one.title == title).unwrap();
            let (line, left_out) = view.command(&origin, &steps, &time);
            (line.shell(), left_out)
        };
        let waits = "pmuscope report --by wait,function -i x.data --symfs /mnt --cpu 1 --tid 7";
        assert_eq!(of("waits off the CPU"), (waits.into(), 1));
        let hits = "pmuscope watch --limit all -i x.data --symfs /mnt";
        assert_eq!(of("hits of watchpoints"), (hits.into(), 2));
    }
}
