//! What places threads and memory in a run: a binding, the kernel with some settings, or a program beside.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pmuscope_machine::child::wait;
use pmuscope_machine::{Machine, NumaBalancing};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

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

    /// Names, with commas.
    pub(super) fn list(policies: &[Self]) -> String {
        policies.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(",")
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
                pid_file: Some("/run/numad.pid"),
                tells: false,
            }),
            Self::Balance => {
                let pids = pids.join(",");
                let program = own.to_string_lossy();
                let pages = pages.to_string();
                // Decided and done within seconds: a test may take ten.
                let flags = ["numa", "balance", "-I", "250", "--blocks", "3", "--budget", "256M"];
                let more = ["--log", "/proc/self/fd/1", "--pages", &*pages, "-p", &pids];
                Some(Companion {
                    start: words(&program, flags, more),
                    end: None,
                    pid_file: None,
                    tells: true,
                })
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
    /// It works in a process that is no child of the one started: its number is there.
    pid_file: Option<&'static str>,
    /// It prints something once it has begun.
    tells: bool,
}

/// One that runs; ended when dropped.
#[derive(Debug)]
pub struct Running {
    /// `None` once it was waited for.
    child: Option<Child>,
    end: Option<Vec<OsString>>,
    pid_file: Option<&'static str>,
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
        Ok(Running { child: Some(child), end: self.end, pid_file: self.pid_file, complaints, told })
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
    /// Whether it has begun, if it prints something then, or has ended.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn has_begun(&mut self) -> io::Result<bool> {
        let Some(told) = &self.told else { return Ok(true) };
        Ok(told.metadata()?.len() > 0 || self.has_ended()?)
    }

    /// Without waiting for it: its CPU time is known to the one who does.
    fn has_ended(&self) -> io::Result<bool> {
        let Some(child) = &self.child else { return Ok(true) };
        let pid = Pid::from_raw(child.id().cast_signed());
        let pid = pid.ok_or_else(|| io::Error::other("child without process id"))?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(pid), options)?.is_some())
    }

    /// Ends it, and waits until it has. Returns its CPU seconds, or why they are not known.
    ///
    /// # Errors
    /// What the kernel says; or that it ended by itself with an error before, and its last words.
    pub fn end(mut self) -> io::Result<Result<f64, String>> {
        let by_itself = self.end.is_none() && self.has_ended()?;
        let daemon = self.pid_file.map(daemon_cpu_s);
        if !by_itself {
            self.stop();
        }
        let Some(child) = self.child.take() else { return Ok(daemon.unwrap_or(Ok(0.0))) };
        let (status, usage) = wait(child, || false)?;
        // 1: the processes ended before it was done with them.
        if by_itself && !matches!(status.code(), Some(0 | 1)) {
            return Err(io::Error::other(format!("it ended with {status}{}", self.last_words())));
        }
        Ok(daemon.unwrap_or(Ok(usage.user_s + usage.system_s)))
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
        let pid = self.child.as_ref().and_then(|child| Pid::from_raw(child.id().cast_signed()));
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// CPU seconds so far of a daemon, which is not a child of the one that started it, by the file with its number.
fn daemon_cpu_s(pid_file: &str) -> Result<f64, String> {
    let text = std::fs::read_to_string(pid_file).map_err(|error| format!("{pid_file}: {error}"))?;
    let pid: u32 = text.trim().parse().map_err(|_| format!("{pid_file} has no process id"))?;
    let machine = Machine::host();
    let threads = machine.threads(pid).map_err(|error| error.to_string())?;
    let run = |tid: u32| machine.thread_run(pid, tid).ok()?.on_cpu_ns;
    let ran: Option<u64> = threads.into_iter().map(run).sum();
    ran.map(|ns| ns as f64 / 1e9).ok_or_else(|| "this kernel has no schedstat".to_owned())
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.stop();
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
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
            pid_file: None,
            tells: true,
        };
        companion(["sh", "-c", "sleep 60"]).start().unwrap().end().unwrap().unwrap();
        let failed =
            companion(["sh", "-c", "echo more >&2; echo why >&2; exit 3"]).start().unwrap();
        while !failed.has_ended().unwrap() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(failed.end().unwrap_err().to_string(), "it ended with exit status: 3 (why)");
        assert!(companion(["/nonexistent", "", ""]).start().is_err());
    }

    #[test]
    fn the_cpu_time_of_a_companion_is_known_however_it_ends() {
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done";
        let run = |script: String| {
            let start = vec!["sh".into(), "-c".into(), script.into()];
            let mut running =
                Companion { start, end: None, pid_file: None, tells: true }.start().unwrap();
            while !running.has_begun().unwrap() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            running.end().unwrap().unwrap()
        };
        assert!(run(busy.to_owned()) > 0.0, "it ended by itself");
        assert!(run(format!("{busy}; exec sleep 60")) > 0.0, "it was ended");
        let own = std::env::temp_dir().join(format!("pmuscope-daemon-{}", std::process::id()));
        std::fs::write(&own, std::process::id().to_string()).unwrap();
        let own_s = daemon_cpu_s(&own.to_string_lossy());
        std::fs::remove_file(&own).unwrap();
        assert!(own_s.unwrap() > 0.0);
        assert!(daemon_cpu_s("/nonexistent/pid").unwrap_err().contains("/nonexistent/pid"));
    }

    #[test]
    fn a_companion_has_begun_once_it_says_something_or_ends() {
        let said = |script: &str| {
            let start = ["sh", "-c", script].map(OsString::from).into();
            Companion { start, end: None, pid_file: None, tells: true }.start().unwrap()
        };
        let mut asked = said("kill -STOP $$; echo began; sleep 60");
        assert!(!asked.has_begun().unwrap());
        let pid = Pid::from_raw(asked.child.as_ref().unwrap().id().cast_signed()).unwrap();
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
