//! The recording as commands are asked for it.

use pmuscope_profile::aggregate::Timeline;

use crate::command::CommandLine;
use crate::step::FilterStep;

/// The file, and the flags it was opened with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingFlags {
    /// As it was named.
    pub file: String,
    /// Filters that all commands take: `--tid 7`.
    pub filters: Vec<String>,
    /// Filters by DSO and function, and `--no-inline`: only `report` takes them.
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
        if takes_filters {
            line = line.with(&origin.filters);
        }
        if !self.is_unnamed {
            line = line.with(&origin.of_report);
        }
        let left_out = steps.len() - taken.len();
        (line.with_steps(&taken, time), left_out)
    }
}

impl RecordingFlags {
    /// `report` of what the steps leave.
    pub(crate) fn report(&self, steps: &[FilterStep], time: &Timeline) -> CommandLine {
        CommandLine::new(&["report", "-i", &self.file])
            .with(&self.symbols)
            .with(&self.filters)
            .with(&self.of_report)
            .with_steps(steps, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_get_the_filters_that_they_take() {
        let origin = RecordingFlags {
            file: "x.data".into(),
            filters: vec!["--cpu".into(), "1".into()],
            of_report: vec!["--focus".into(), "parse".into()],
            symbols: vec!["--symfs".into(), "/mnt".into()],
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
