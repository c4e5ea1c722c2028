//! What tests of several crates share. A dev-dependency only: no program contains it.
//!
//! - [`corpus`]: recordings that other tools made on other machines.
//! - [`simulator`], [`hit_file`], [`wait_file`], [`sharing_file`]: recordings of counter windows, watchpoints, context
//!   switches and memory accesses of simulated programs, whose truth is known.
//! - [`plain_file`], [`distinct_stacks`]: recordings made record by record, and one with hardly any two stacks alike.
//! - [`need`]: whether this machine has what a test takes. Each probe asks the kernel or the system directly,
//!   never through the code under test: a recorder that fails must fail its tests, not skip them.

// Tests fail by panicking; so does what they are built from.
#![allow(clippy::unwrap_used, clippy::panic)]

pub mod corpus;
pub mod distinct_stacks;
pub mod hit_file;
pub mod need;
pub mod plain_file;
pub mod sharing_file;
pub mod simulator;
mod sys;
pub mod wait_file;

use std::process::Command;

/// `perf ARGUMENTS…`, again where its recorder aborted. Where another recording on the machine asks the kernel for build ids
/// in mappings, those of perf's own recording have the mark of such a mapping, too, and perf 6.1 dies of that at its end.
/// Tests record side by side.
const PERF: &str = "for try in 1 2 3 4 5 6 7 8 9 10; do
    perf \"$@\"
    status=$?
    [ $status = 134 ] && [ \"$1\" = record ] || break
done
exit $status";

/// Stock perf. As root it mounts tracefs where nobody has, and leaves it: here it does so in a mount namespace
/// of its own, so that no other test finds a machine that perf has prepared.
#[must_use]
pub fn perf() -> Command {
    let mut command = Command::new("sh");
    if need::root().is_none() && need::mount_namespaces().is_none() {
        command = Command::new("unshare");
        command.args(["--mount", "sh"]);
    }
    command.args(["-c", PERF, "perf"]);
    command
}

/// Returns from a test whose machine lacks something, and prints what.
///
/// ```
/// use pmuscope_testkit::{need, skip_unless};
///
/// fn needs_root() {
///     skip_unless!(need::root());
///     // ...
/// }
/// needs_root();
/// ```
#[macro_export]
macro_rules! skip_unless {
    ($need:expr) => {
        if let Some(reason) = $need {
            eprintln!("skipped: {reason}");
            return;
        }
    };
}
