//! The arms of `bench capture`, as data: which recorder, with which flags.

use pmuscope_machine::Topology;

use crate::error::BenchError;
pub use crate::recording::Recorder;
use crate::runner::{self, BASE, NamedArm};

/// One way to run the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureArm {
    /// Name in tables and on the command line.
    pub name: &'static str,
    /// Who records.
    pub recorder: Recorder,
    /// Flags beyond what all arms of the recorder share.
    pub flags: &'static [&'static str],
    /// When it runs without being asked for.
    pub when: When,
}

impl NamedArm for CaptureArm {
    fn name(&self) -> &str {
        self.name
    }
}

/// When an arm runs without being asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// Where groups of CPUs with one L3 are neither single CPUs nor whole nodes.
    DistinctL3,
    /// Only by name.
    Asked,
}

const fn arm(
    name: &'static str,
    recorder: Recorder,
    flags: &'static [&'static str],
    when: When,
) -> CaptureArm {
    CaptureArm { name, recorder, flags, when }
}

use Recorder::{Nothing, Perf, Pmuscope};
use When::{Always, Asked, DistinctL3};

/// What the published measurements of `perf record` had switched off: build ids, and the cache of
/// them (`-N -B`). `-T -R` make samples as wide as theirs.
const LEAN: [&str; 4] = ["-N", "-B", "-T", "-R"];

macro_rules! lean {
    ($($flag:literal),*) => { &[LEAN[0], LEAN[1], LEAN[2], LEAN[3], $($flag),*] };
}

/// All arms, in the order of tables.
pub const ARMS: &[CaptureArm] = &[
    arm(BASE, Nothing, &[], Always),
    arm("SERIAL-SYS", Pmuscope, &["--readers", "serial", "--affinity", "sys"], Always),
    arm("SERIAL-NODE", Pmuscope, &["--readers", "serial", "--affinity", "node"], Always),
    arm("SERIAL-CPU", Pmuscope, &["--readers", "serial", "--affinity", "cpu"], Always),
    arm("AIO1-SYS", Pmuscope, &["--readers", "serial", "--affinity", "sys", "--aio=1"], Always),
    arm("AIO1-NODE", Pmuscope, &["--readers", "serial", "--affinity", "node", "--aio=1"], Always),
    arm("AIO1-CPU", Pmuscope, &["--readers", "serial", "--affinity", "cpu", "--aio=1"], Always),
    arm("READERS-NODE", Pmuscope, &["--readers", "node", "--affinity", "node"], Always),
    arm("READERS-L3", Pmuscope, &["--readers", "l3", "--affinity", "node"], DistinctL3),
    arm("READERS-CPU", Pmuscope, &["--readers", "cpu", "--affinity", "cpu"], Always),
    arm("DEFAULT", Pmuscope, &[], Always),
    arm("DEFAULT-AIO", Pmuscope, &["--aio"], Asked),
    arm("DEFAULT-Z", Pmuscope, &["-z"], Asked),
    arm("PERF-DEFAULT", Perf, &[], Always),
    arm("PERF-SERIAL-SYS", Perf, lean![], Always),
    arm("PERF-SERIAL-NODE", Perf, lean!["--affinity=node"], Always),
    arm("PERF-SERIAL-CPU", Perf, lean!["--affinity=cpu"], Always),
    arm("PERF-AIO1-SYS", Perf, lean!["--aio=1"], Always),
    arm("PERF-AIO1-NODE", Perf, lean!["--aio=1", "--affinity=node"], Always),
    arm("PERF-AIO1-CPU", Perf, lean!["--aio=1", "--affinity=cpu"], Always),
    arm("PERF-THREADS-NODE", Perf, lean!["--threads=numa"], Always),
    arm("PERF-THREADS-CPU", Perf, lean!["--threads=cpu"], Always),
    arm("PERF-Z", Perf, lean!["-z"], Asked),
];

/// The arms to run: those named, with the base always among them, or all that say something on
/// this machine. A name may end in `*`.
///
/// # Errors
/// For a name that matches no arm.
pub fn choose(asked: &[String], topology: &Topology) -> Result<Vec<CaptureArm>, BenchError> {
    runner::choose(asked, ARMS, |arm| match arm.when {
        Always => true,
        DistinctL3 => has_distinct_l3(topology),
        Asked => false,
    })
}

fn has_distinct_l3(topology: &Topology) -> bool {
    let groups = topology.l3_groups().len();
    groups > topology.node_groups().len() && groups < topology.online.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_machine::Machine;

    fn names(asked: &[&str]) -> Vec<&'static str> {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        let topology = Machine::host().topology().unwrap();
        choose(&asked, &topology).unwrap().iter().map(|arm| arm.name).collect()
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<&str> = ARMS.iter().map(|arm| arm.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ARMS.len());
    }

    #[test]
    fn the_base_is_always_there() {
        assert_eq!(names(&["default"]), ["BASE", "DEFAULT"]);
        assert_eq!(names(&["AIO1-*", "BASE"]), ["BASE", "AIO1-SYS", "AIO1-NODE", "AIO1-CPU"]);
        assert!(names(&[]).contains(&"PERF-THREADS-CPU") && !names(&[]).contains(&"PERF-Z"));
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let topology = Machine::host().topology().unwrap();
        let error = choose(&["SERIAL".to_owned()], &topology).unwrap_err().to_string();
        assert!(error.starts_with("unknown arm SERIAL. Try: BASE, SERIAL-SYS"), "{error}");
    }
}
