//! What can go wrong with guests.

use std::io;
use std::path::{Path, PathBuf};

use crate::Arch;

/// What can go wrong with guests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// No such guests.
    #[error("no guests for {name}. Try: x86_64 or aarch64")]
    Arch {
        /// What was asked for.
        name: String,
    },
    /// What guests run was called outside of one.
    #[error("this command runs only as the first process of a guest. Try: pmuscope lab run --help")]
    NotAGuest,
    /// QEMU is not installed.
    #[error("cannot find {program}. Try: sudo apt-get install --no-install-recommends {package}", program = arch.emulator(), package = arch.emulator_package())]
    NoEmulator {
        /// For which guests.
        arch: Arch,
    },
    /// There is no program to run in guests of this kind.
    #[error(
        "{arch} guests need a static pmuscope for {arch}, and none was found: {looked}. Try: make \
         guest-{arch}, or --program FILE"
    )]
    NoProgram {
        /// For which guests.
        arch: Arch,
        /// Where it was looked for.
        looked: String,
    },
    /// A program that guests cannot run.
    #[error("{arch} guests cannot run {path}: {why}", path = path.display())]
    Program {
        /// For which guests.
        arch: Arch,
        /// The program.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A file could not be read or written.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    File {
        /// What was tried: "read", "write".
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A kernel that is not there.
    #[error("no kernel {name} for {arch} guests: {why}")]
    NoKernel {
        /// As asked for.
        name: String,
        /// For which guests.
        arch: Arch,
        /// Why not, and what to type.
        why: String,
    },
    /// A kernel that guests cannot boot.
    #[error("{arch} guests cannot boot {path}: {why}", path = path.display())]
    Kernel {
        /// For which guests.
        arch: Arch,
        /// The kernel.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// There is nowhere to keep kernels.
    #[error(
        "no folder for kernels: none of PMUSCOPE_CACHE, XDG_CACHE_HOME and HOME is set. Try: \
         PMUSCOPE_CACHE=/var/tmp/pmuscope, or --kernel FILE"
    )]
    NoCache,
    /// Kernels cannot be kept where they are to be.
    #[error(
        "cannot store kernels in {path}: {source}. Try: PMUSCOPE_CACHE=/var/tmp/pmuscope, or \
         --kernel FILE",
        path = path.display()
    )]
    Cache {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A topology that cannot be.
    #[error("{0}")]
    Topology(String),
    /// The machine has less memory than the guest is to have.
    #[error(
        "not enough memory: the guest needs {needed} MiB, and this machine has {available} MiB \
         available. Try: a smaller --memory, or end other programs (see ps aux --sort=-rss)"
    )]
    Memory {
        /// MiB asked for.
        needed: u64,
        /// MiB available.
        available: u64,
    },
    /// KVM was asked for.
    #[error("--accel kvm: {0}. Try: --accel tcg, which emulates")]
    NoKvm(String),
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Which.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The guest's first process did not come up.
    #[error("the guest did not boot within {seconds} s{hint}. Its last lines:\n{console}")]
    NotBooted {
        /// How long it had.
        seconds: u64,
        /// What it may be, from a semicolon on, or empty.
        hint: String,
        /// The last lines of its console.
        console: String,
    },
    /// The command did not end.
    #[error(
        "the command did not end within {seconds} s in the guest, which was stopped. \
         Try: --timeout {more}. The guest's last lines:\n{console}", more = seconds * 2
    )]
    TimedOut {
        /// How long it had.
        seconds: u64,
        /// The last lines of its console.
        console: String,
    },
    /// QEMU ended, or the guest did, before there were results.
    #[error("the guest ended without results ({why}). Its last lines:\n{console}")]
    Ended {
        /// What is known of why.
        why: String,
        /// What QEMU said, and the last lines of the console.
        console: String,
    },
    /// The guest could not do what it was told.
    #[error("the guest failed: {0}")]
    Refused(String),
    /// The user did not want to wait any longer.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// For `map_err` where the folder of kernels is written to.
    pub(crate) fn cache(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Cache { path, source }
    }

    /// For `map_err` on files.
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }
}
