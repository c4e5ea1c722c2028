//! The command line of a run.

use std::ffi::OsString;
use std::path::Path;

use super::Options;
use super::arms::CaptureArm;
use crate::recording::{facts_flag, recording_path};

/// What is needed to put command lines together.
pub(super) struct Tools<'a> {
    pub(super) options: &'a Options,
    pub(super) folder: &'a Path,
}

impl Tools<'_> {
    /// `recorder flags -- wrapper -- workload`. The wrapper waits for the workload alone, so that
    /// the recorder's own CPU time is what is left of the whole.
    pub(super) fn record(&self, arm: &CaptureArm, workload: &[OsString]) -> Vec<OsString> {
        let mut argv = self.recorder(arm);
        argv.push(self.options.program.clone().into());
        argv.extend(["workload", "command"].map(OsString::from));
        argv.push(facts_flag(self.folder));
        argv.push("--".into());
        argv.extend_from_slice(workload);
        argv
    }

    fn recorder(&self, arm: &CaptureArm) -> Vec<OsString> {
        let Options { program, perf, .. } = self.options;
        let Some(program) = arm.recorder.program(program, perf.as_deref()) else {
            return Vec::new();
        };
        let mut argv: Vec<OsString> = vec![program.into()];
        let rate = self.options.rate.to_string();
        let common = ["record", "-q", "-a", "-F", &rate, "-e", &self.options.event, "-o"];
        argv.extend(common.map(OsString::from));
        argv.push(recording_path(self.folder).into());
        argv.extend(arm.flags.iter().map(OsString::from));
        argv.push("--".into());
        argv
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::arms::ARMS;
    use crate::capture::tests::options;

    fn line(name: &str) -> String {
        let options = options();
        let tools = Tools { options: &options, folder: Path::new("/tmp/x") };
        let arm = ARMS.iter().find(|arm| arm.name == name).unwrap();
        let words = tools.record(arm, &["./bt.B.x".into()]);
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    const WRAPPED: &str = "/bin/pmuscope workload command --json=/tmp/x/facts.json -- ./bt.B.x";

    #[test]
    fn command_lines_are_those_of_the_published_table() {
        assert_eq!(line("BASE"), WRAPPED);
        assert_eq!(
            line("AIO1-NODE"),
            format!(
                "/bin/pmuscope record -q -a -F 25000 -e cycles -o /tmp/x/recording.data \
                 --readers serial --affinity node --aio=1 -- {WRAPPED}"
            )
        );
        assert_eq!(
            line("PERF-SERIAL-CPU"),
            format!(
                "/usr/bin/perf record -q -a -F 25000 -e cycles -o /tmp/x/recording.data \
                 -N -B -T -R --affinity=cpu -- {WRAPPED}"
            )
        );
    }
}
