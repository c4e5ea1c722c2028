//! Command lines: of a recording, and of its analysis.

use std::ffi::OsString;
use std::path::Path;

use pmuscope_workloads::function_mix;

use super::Options;
use super::arms::{FunctionsArm, Windows};
use crate::recording::{facts_flag, recording_path};

/// Metrics that are compared, where their events were counted.
pub(super) const METRICS: [&str; 7] = ["CPI", "BM/KI", "CM/KI", "%CM", "PF/KI", "%CY", "%I"];

/// What is needed to put command lines together.
pub(super) struct Tools<'a> {
    pub(super) options: &'a Options,
    pub(super) folder: &'a Path,
    /// What is counted beside cycles, as far as the machine has it.
    pub(super) counters: &'a [&'static str],
}

impl Tools<'_> {
    /// `recorder flags -- workload`: the workload for so many seconds.
    pub(super) fn record(&self, arm: &FunctionsArm, seconds: f64, seed: u64) -> Vec<OsString> {
        let mut argv = self.recorder(arm);
        argv.extend(self.workload(arm, seconds, seed));
        argv
    }

    fn recorder(&self, arm: &FunctionsArm) -> Vec<OsString> {
        let Options { program, perf, .. } = self.options;
        let Some(program) = arm.recorder.program(program, perf.as_deref()) else {
            return Vec::new();
        };
        let mut argv: Vec<OsString> = vec![program.into(), "record".into(), "-q".into()];
        let counters = self.counters.join(",");
        match arm.windows {
            Windows::Strobe(window) => {
                let period = self.options.period;
                let user: Vec<String> = self.counters.iter().map(|e| format!("{e}:u")).collect();
                argv.push(format!("--strobe={window},period={period}").into());
                argv.extend(["-e".into(), user.join(",").into()]);
            }
            Windows::BackToBack(period) => {
                // A counter that threads inherit cannot be read as a group before Linux 6.12.
                let group = format!("{{cycles/period={period}/,{counters}}}:uS");
                argv.extend(["-i".into(), "-e".into(), group.into()]);
            }
            Windows::None => {}
        }
        argv.extend(["-o".into(), recording_path(self.folder).into(), "--".into()]);
        argv
    }

    fn workload(&self, arm: &FunctionsArm, seconds: f64, seed: u64) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec![self.options.program.clone().into()];
        argv.extend(["workload", function_mix::NAME].map(OsString::from));
        argv.push(facts_flag(self.folder));
        let mut add = |flag: &str, value: String| argv.extend([flag.into(), value.into()]);
        if let Some(function) = arm.only {
            add("--only", function.to_owned());
        }
        add("--seconds", seconds.to_string());
        add("--seed", seed.to_string());
        add("--memory", self.options.memory_mib.to_string());
        add("--length", self.options.length.to_string());
        argv
    }

    /// What reads the recording.
    pub(super) fn analyse(&self) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec![self.options.program.clone().into(), "metrics".into()];
        argv.extend(["--json", "--metrics"].map(OsString::from));
        argv.push(METRICS.join(",").into());
        argv.push("-i".into());
        argv.push(recording_path(self.folder).into());
        argv
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::arms;
    use crate::functions::tests::options;

    fn line(name: &str) -> String {
        let options = options();
        let counters = ["instructions", "page-faults"];
        let tools = Tools { options: &options, folder: Path::new("/tmp/x"), counters: &counters };
        let all =
            arms::all(1_000_003, &[300]).into_iter().chain([FunctionsArm::pure("nops", 1_000_003)]);
        let arm = all.into_iter().find(|arm| arm.name == name).unwrap();
        let words = tools.record(&arm, 0.5, 7);
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn command_lines_are_what_a_user_would_type() {
        let mix = "/bin/pmuscope workload function-mix --json=/tmp/x/facts.json --seconds 0.5 --seed 7 \
                   --memory 64 --length 1";
        let file = "-o /tmp/x/recording.data --";
        assert_eq!(line("BASE"), mix);
        assert_eq!(
            line("STROBE-300"),
            format!(
                "/bin/pmuscope record -q --strobe=300,period=1000003 -e instructions:u,page-faults:u \
                 {file} {mix}"
            )
        );
        let group =
            |period| format!("-i -e {{cycles/period={period}/,instructions,page-faults}}:uS");
        assert_eq!(
            line("PERF-1000"),
            format!("/usr/bin/perf record -q {} {file} {mix}", group("1000"))
        );
        let pure = mix.replace("--seconds", "--only nops --seconds");
        assert_eq!(
            line("PURE"),
            format!("/bin/pmuscope record -q {} {file} {pure}", group("1000003"))
        );
    }
}
