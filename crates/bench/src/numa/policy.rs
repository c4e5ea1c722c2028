//! What places threads and memory in a run: a binding, the kernel with some settings, or a program beside.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pmuscope_machine::NumaBalancing;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};

use super::fit::Binding;

/// A way to place threads and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Bound as well as can be: the upper bound.
    Best,
    /// Bound as badly as can be: the lower bound.
    Worst,
    /// Threads free, pages from all nodes in turn.
    Interleave,
    /// The same by the nodes' weights.
    WeightedInterleave,
    /// Free, the kernel as it is set.
    AsIs,
    /// Free, the kernel's balancing off.
    Off,
    /// Free, the kernel's balancing on.
    On,
    /// The same with scans as often as the kernel allows.
    OnFast,
    /// Free, balancing off, and `numad` beside.
    Numad,
    /// Free, balancing off, and `pmuscope numa balance` beside.
    Balance,
}

impl Policy {
    /// All, in the order of columns.
    pub const ALL: [Self; 10] = [
        Self::Best,
        Self::Worst,
        Self::Interleave,
        Self::WeightedInterleave,
        Self::AsIs,
        Self::Off,
        Self::On,
        Self::OnFast,
        Self::Numad,
        Self::Balance,
    ];
    /// Their names.
    pub const NAMES: [&str; 10] = [
        "best",
        "worst",
        "interleave",
        "weighted-interleave",
        "as-is",
        "off",
        "on",
        "on-fast",
        "numad",
        "balance",
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().position(|&policy| policy == self).map_or("", |at| Self::NAMES[at])
    }

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|&own| own == name).map(|at| Self::ALL[at])
    }

    /// How threads and memory are bound.
    #[must_use]
    pub fn binding(self) -> Binding {
        match self {
            Self::Best => Binding::Best,
            Self::Worst => Binding::Worst,
            Self::Interleave => Binding::Interleave,
            Self::WeightedInterleave => Binding::WeightedInterleave,
            _ => Binding::Free,
        }
    }

    /// Whether everything stays where it was put: nothing can converge.
    #[must_use]
    pub fn is_bound(self) -> bool {
        self.binding() != Binding::Free
    }

    /// What the kernel's balancing is set to for a run; nothing where it is left as it is. Bound memory is not moved
    /// by it, but would be scanned.
    #[must_use]
    pub fn balancing(self) -> NumaBalancing {
        let mode = |mode| NumaBalancing { mode: Some(mode), ..NumaBalancing::default() };
        match self {
            Self::AsIs => NumaBalancing::default(),
            Self::On => mode(1),
            // Scans every 100 ms, from the start: ten times as often as the kernel does unasked.
            Self::OnFast => NumaBalancing {
                scan_delay_ms: Some(100),
                scan_period_min_ms: Some(100),
                scan_period_max_ms: Some(1000),
                ..mode(1)
            },
            _ => mode(0),
        }
    }

    /// Whether a program runs beside.
    #[must_use]
    pub fn has_companion(self) -> bool {
        matches!(self, Self::Numad | Self::Balance)
    }

    /// The program beside, with how it is ended. Our own looks at as many pages as
    /// whoever watches the run.
    #[must_use]
    pub fn companion(self, own: &Path, pids: &[u32], pages: u64) -> Option<Companion> {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        match self {
            Self::Numad => Some(Companion {
                // Every second, of these processes only; -S 0 leaves out those it finds itself.
                start: words(
                    "numad",
                    ["-i", "1:2", "-S", "0"],
                    pids.iter().flat_map(|pid| ["-p", pid]),
                ),
                end: Some(words("numad", ["-i", "0"], [])),
                tells: false,
            }),
            Self::Balance => {
                let pids = pids.join(",");
                let program = own.to_string_lossy();
                let pages = pages.to_string();
                // Decided and done within seconds: a test may take ten.
                let flags = ["numa", "balance", "-I", "250", "--blocks", "3", "--budget", "256M"];
                let more = ["--log", "/proc/self/fd/1", "--pages", &*pages, "-p", &pids];
                Some(Companion { start: words(&program, flags, more), end: None, tells: true })
            }
            _ => None,
        }
    }
}

fn words<'a, const N: usize>(
    program: &str,
    flags: [&str; N],
    more: impl IntoIterator<Item = &'a str>,
) -> Vec<OsString> {
    [program]
        .into_iter()
        .chain(flags)
        .map(OsString::from)
        .chain(more.into_iter().map(OsString::from))
        .collect()
}

/// A program that places what another one does, while that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    start: Vec<OsString>,
    /// What ends it, where a signal does not.
    end: Option<Vec<OsString>>,
    /// It prints something once it has begun.
    tells: bool,
}

/// One that runs; ended when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    end: Option<Vec<OsString>>,
    complaints: File,
    /// What it prints, if it does once it has begun.
    told: Option<File>,
}

impl Companion {
    /// Starts it. What it complains of is kept, for the case that it fails.
    ///
    /// # Errors
    /// If it is not there or cannot be started.
    pub fn start(self) -> io::Result<Running> {
        // No pipe: it would stop, were it full.
        let file = |name| Ok::<_, io::Error>(File::from(memfd_create(name, MemfdFlags::CLOEXEC)?));
        let complaints = file("complaints")?;
        let told = self.tells.then(|| file("told")).transpose()?;
        let mut command = quiet(&self.start);
        if let Some(told) = &told {
            command.stdout(told.try_clone()?);
        }
        let child = command.stderr(complaints.try_clone()?).spawn()?;
        Ok(Running { child, end: self.end, complaints, told })
    }

    /// Its program.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        PathBuf::from(&self.start[0])
    }
}

fn quiet(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Running {
    /// Whether it has begun, as far as it tells that, or has ended.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn has_begun(&mut self) -> io::Result<bool> {
        let Some(told) = &self.told else { return Ok(true) };
        Ok(told.metadata()?.len() > 0 || self.child.try_wait()?.is_some())
    }

    /// Ends it, and waits until it has.
    ///
    /// # Errors
    /// What the kernel says; or that it ended by itself with an error before, and its last words.
    pub fn end(mut self) -> io::Result<()> {
        if self.end.is_none()
            && let Some(status) = self.child.try_wait()?
        {
            // 1: the processes ended before it was done with them.
            if matches!(status.code(), Some(0 | 1)) {
                return Ok(());
            }
            return Err(io::Error::other(format!("it ended with {status}{}", self.last_words())));
        }
        self.stop();
        self.child.wait().map(drop)
    }

    fn last_words(&mut self) -> String {
        let mut all = Vec::new();
        // What cannot be read is not told.
        let _ = self.complaints.rewind().and_then(|()| self.complaints.read_to_end(&mut all));
        let all = String::from_utf8_lossy(&all);
        all.trim_end().lines().next_back().map_or_else(String::new, |last| format!(" ({last})"))
    }

    fn stop(&mut self) {
        // What has ended already needs no more.
        if let Some(words) = &self.end {
            let _ = quiet(words).status();
        }
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_their_names() {
        for policy in Policy::ALL {
            assert_eq!(Policy::named(policy.name()), Some(policy));
        }
        assert_eq!(Policy::named("bind"), None);
        assert!(Policy::Best.is_bound() && !Policy::On.is_bound());
        assert_eq!(Policy::AsIs.balancing(), NumaBalancing::default());
        assert_eq!(Policy::Balance.balancing().mode, Some(0));
    }

    #[test]
    fn a_companion_is_told_which_processes() {
        let own = Path::new("/bin/pmuscope");
        let balance = Policy::Balance.companion(own, &[7, 9], 100).unwrap();
        assert_eq!(balance.start[..3], ["/bin/pmuscope", "numa", "balance"]);
        assert!(balance.start.ends_with(&["--pages", "100", "-p", "7,9"].map(OsString::from)));
        let numad = Policy::Numad.companion(own, &[7, 9], 100).unwrap();
        assert_eq!(numad.start[5..], ["-p", "7", "-p", "9"]);
        for policy in Policy::ALL {
            assert_eq!(policy.companion(own, &[7], 100).is_some(), policy.has_companion());
        }
    }

    #[test]
    fn a_companion_ends_when_it_is_to() {
        let companion = |words: [&str; 3]| Companion {
            start: words.map(OsString::from).into(),
            end: None,
            tells: true,
        };
        companion(["sh", "-c", "sleep 60"]).start().unwrap().end().unwrap();
        let mut failed =
            companion(["sh", "-c", "echo more >&2; echo why >&2; exit 3"]).start().unwrap();
        failed.child.wait().unwrap();
        assert_eq!(failed.end().unwrap_err().to_string(), "it ended with exit status: 3 (why)");
        assert!(companion(["/nonexistent", "", ""]).start().is_err());
    }

    #[test]
    fn a_companion_has_begun_once_it_says_something_or_ends() {
        let said = |script: &str| {
            let start = ["sh", "-c", script].map(OsString::from).into();
            Companion { start, end: None, tells: true }.start().unwrap()
        };
        let mut asked = said("kill -STOP $$; echo began; sleep 60");
        assert!(!asked.has_begun().unwrap());
        let pid = Pid::from_raw(asked.child.id().cast_signed()).unwrap();
        let goes_on = || kill_process(pid, Signal::CONT).unwrap();
        while !asked.has_begun().unwrap() {
            goes_on();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut fails = said("exit 3");
        while !fails.has_begun().unwrap() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(fails.end().is_err());
    }
}
