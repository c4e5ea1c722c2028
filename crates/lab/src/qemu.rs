//! One guest as a process: its command line, its life, its last words.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::channel::{GuestState, Receiver};
use crate::{Acceleration, Arch, LabError, sys};

/// How often a guest is looked at.
const TICK: Duration = Duration::from_millis(10);
/// How long a guest may take to end a command that took too long, and to hand over what there is.
const GRACE: Duration = Duration::from_secs(30);
/// How long a guest that has handed over its results may take to power off.
const FAREWELL: Duration = Duration::from_secs(3);
/// How many of its last lines are shown of a guest that failed.
const LAST_LINES: usize = 12;
/// Of a console, as much as these lines take.
const LAST_BYTES: u64 = 16 << 10;

/// Kernel parameters of emulated guests: no self-tests of cryptography, which take a second.
const EMULATED: &str = "cryptomgr.notests ";

/// What an emulated PC's kernel would wait for or find out in vain, and does not have to:
/// - ten ticks of a timer, where a busy host may not give the emulator the time for them: a panic;
/// - the speed of delay loops, a fifth of a second for each CPU, all others spinning meanwhile;
/// - whether the CPUs' time stamp counters agree. They are one counter; where the kernel does not believe
///   it, every reading of the clock is an access to a device that all CPUs queue for.
const EMULATED_PC: &str = "no_timer_check lpj=10000000 tsc=reliable ";

/// QEMU's emulated CPU calls itself AMD's and lacks what AMD's tell their threads by (TOPOEXT): kernels
/// would see cores only. As one of Intel's it tells them in leaf 0xb, which it has.
const EMULATED_WITH_SMT: &str = "max,vendor=GenuineIntel,family=6,model=85,stepping=7";

/// Up to so many CPUs are emulated by a thread each; more take turns in one. With 64 threads of QEMU 7.2
/// some boots did not end: in one whose registers were read, all CPUs were trapped for good in code that
/// the kernel had patched meanwhile, as if QEMU went on with its translation of the code before.
const MOST_THREADS: u32 = 16;

/// Threads that emulate a guest's CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpuThreads {
    /// One for each CPU, up to [`MOST_THREADS`].
    Each,
    /// One for all of them.
    One,
}

/// What QEMU is to run.
#[derive(Debug)]
pub(crate) struct QemuPlan<'a> {
    pub arch: Arch,
    pub acceleration: Acceleration,
    /// Instructions take 2^n ns of the guest's clock.
    pub icount: Option<u8>,
    pub cpus: u32,
    /// Hardware threads per core.
    pub threads: u32,
    /// Those of QEMU, for emulated CPUs.
    pub cpu_threads: CpuThreads,
    /// Flags of the topology.
    pub topology: Vec<String>,
    pub hmat: bool,
    pub kernel: &'a Path,
    pub initrd: &'a Path,
    pub region: &'a Path,
    pub region_bytes: u64,
    pub console: &'a Path,
    /// Further words of the kernel's command line.
    pub words: &'a [String],
}

impl QemuPlan<'_> {
    /// QEMU's arguments.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = ["-nodefaults", "-no-user-config", "-display", "none"]
            .into_iter()
            .chain(["-no-reboot"])
            .map(OsString::from)
            .collect();
        let mut add = |flag: &str, value: OsString| arguments.extend([flag.into(), value]);
        add("-machine", self.machine().into());
        add("-accel", self.accel().into());
        add("-cpu", self.cpu().into());
        if let Some(shift) = self.icount {
            add("-icount", format!("shift={shift},sleep=off").into());
        }
        add("-kernel", self.kernel.into());
        add("-initrd", self.initrd.into());
        add("-append", self.command_line().into());
        add("-serial", joined("file:", self.console, ""));
        let region = format!(",size={},share=on", self.region_bytes);
        add("-object", joined("memory-backend-file,id=results,mem-path=", self.region, &region));
        add("-device", "ivshmem-plain,memdev=results".into());
        arguments.extend(self.topology.iter().map(OsString::from));
        arguments
    }

    fn machine(&self) -> String {
        let name = match self.arch {
            Arch::X86_64 => "q35",
            Arch::Aarch64 => "virt,gic-version=3",
        };
        format!("{name}{}", if self.hmat { ",hmat=on" } else { "" })
    }

    fn accel(&self) -> &'static str {
        match (self.acceleration, self.icount) {
            (Acceleration::Kvm, _) => "kvm",
            // One clock for all CPUs, so they take turns.
            (Acceleration::Tcg, Some(_)) => "tcg,thread=single",
            (Acceleration::Tcg, None) => match self.cpu_threads {
                CpuThreads::Each if self.cpus <= MOST_THREADS => "tcg,thread=multi",
                _ => "tcg,thread=single",
            },
        }
    }

    fn cpu(&self) -> &'static str {
        match (self.acceleration, self.arch) {
            (Acceleration::Kvm, _) => "host",
            (Acceleration::Tcg, Arch::X86_64) if self.threads > 1 => EMULATED_WITH_SMT,
            (Acceleration::Tcg, Arch::X86_64) => "max",
            // Pointer authentication as the architecture has it is most of the time of emulated code.
            (Acceleration::Tcg, Arch::Aarch64) => "max,pauth-impdef=on",
        }
    }

    /// What the kernel is told. What is behind the two dashes is for its first process.
    fn command_line(&self) -> String {
        let console = self.arch.console();
        let acceleration = self.acceleration.name();
        let words: String = self.words.iter().map(|word| format!("{word} ")).collect();
        let emulated = match (self.acceleration, self.arch) {
            (Acceleration::Tcg, Arch::X86_64) => format!("{EMULATED}{EMULATED_PC}"),
            (Acceleration::Tcg, Arch::Aarch64) => EMULATED.to_owned(),
            (Acceleration::Kvm, _) => String::new(),
        };
        format!(
            "console={console} panic=-1 quiet random.trust_cpu=on pmuscope.acceleration={acceleration} \
             {emulated}{words}-- lab guest"
        )
    }
}

/// A flag's value with a path in it: QEMU wants commas of paths twice. Names of serial lines are
/// whole, but a comma there is not in our folders.
fn joined(before: &str, path: &Path, after: &str) -> OsString {
    let mut value = OsString::from(before);
    value.push(path.to_string_lossy().replace(',', ",,"));
    value.push(after);
    value
}

/// Until when a guest may do what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub boot: Duration,
    pub command: Duration,
}

/// A running guest. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Guest<'a> {
    child: Child,
    region: &'a Receiver,
    console: PathBuf,
    complaints: PathBuf,
    started: Instant,
    /// When its first process was seen.
    booted: Option<Duration>,
    /// Bytes of what the command complained of that were passed on.
    heard: u64,
}

impl<'a> Guest<'a> {
    pub(crate) fn start(
        emulator: &Path,
        plan: &QemuPlan<'_>,
        region: &'a Receiver,
        complaints: &Path,
    ) -> Result<Self, LabError> {
        let said = File::create(complaints).map_err(LabError::file("write", complaints))?;
        let mut command = Command::new(emulator);
        command.args(plan.arguments()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        sys::die_with_parent(&mut command);
        let started = Instant::now();
        let child = command.spawn().map_err(|source| LabError::Start {
            program: emulator.display().to_string(),
            source,
        })?;
        Ok(Self {
            child,
            region,
            console: plan.console.to_owned(),
            complaints: complaints.to_owned(),
            started,
            booted: None,
            heard: 0,
        })
    }

    /// Waits until the guest is in `goal`, or ends, or takes too long. A command that does is asked to end, for its
    /// results up to then. `said` gets what the command complains of, line by line.
    pub(crate) fn wait(
        &mut self,
        goal: GuestState,
        patience: Patience,
        stop: &mut dyn FnMut() -> bool,
        said: &mut dyn FnMut(&[u8]),
    ) -> Result<(), LabError> {
        let mut asked: Option<Duration> = None;
        let seconds = |d: Duration| d.as_secs_f64().ceil() as u64;
        loop {
            let state = self.region.state();
            let time = self.started.elapsed();
            if state >= GuestState::Started {
                self.booted.get_or_insert(time);
            }
            if state >= goal {
                return Ok(());
            }
            self.hear(said);
            if let Some(status) = self.ended()? {
                return Err(self.end_without_results(status));
            }
            match self.booted {
                None if time > patience.boot => return Err(self.not_booted(seconds(patience.boot))),
                Some(booted) if time - booted > patience.command => {
                    let since = *asked.get_or_insert_with(|| {
                        // Where it cannot be asked it does not answer.
                        let _ = self.region.ask_for_end();
                        time
                    });
                    if time - since > GRACE {
                        let seconds = seconds(patience.command);
                        return Err(LabError::TimedOut { seconds, console: self.last_lines() });
                    }
                }
                _ => {}
            }
            if stop() {
                return Err(LabError::Interrupted);
            }
            std::thread::sleep(TICK);
        }
    }

    /// Passes on whole lines that were not passed on yet. Where some were missed, all else comes with the results.
    fn hear(&mut self, said: &mut dyn FnMut(&[u8])) {
        let Some((before, last)) = self.region.said() else { return };
        let Some(new) = self.heard.checked_sub(before).and_then(|at| last.get(at as usize..))
        else {
            return;
        };
        let lines = new.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if lines > 0 {
            said(&new[..lines]);
            self.heard += lines as u64;
        }
    }

    /// Bytes of what the command complained of that were passed on.
    pub(crate) fn heard(&self) -> u64 {
        self.heard
    }

    /// Seconds from its start to its first process.
    pub(crate) fn booted_s(&self) -> Option<f64> {
        self.booted.map(|time| time.as_secs_f64())
    }

    /// Lets it power off, but not for long: its results are here.
    pub(crate) fn end(mut self) {
        let clock = Instant::now();
        while clock.elapsed() < FAREWELL && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(TICK);
        }
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, LabError> {
        let failed = |source| LabError::Start { program: "QEMU".to_owned(), source };
        // Between the last reading of its state and its end it may have come to the goal.
        match self.child.try_wait().map_err(failed)? {
            Some(status) if self.region.state() < GuestState::Done => Ok(Some(status)),
            _ => Ok(None),
        }
    }

    fn end_without_results(&self, status: ExitStatus) -> LabError {
        let why = match (status.success(), self.booted) {
            (false, _) => format!("QEMU: {status}"),
            (true, None) => "it powered off before its first process ran".to_owned(),
            (true, Some(_)) => "it powered off".to_owned(),
        };
        LabError::Ended { why, console: self.last_lines() }
    }

    fn not_booted(&self, seconds: u64) -> LabError {
        let console = self.last_lines();
        let hint = if console.trim().is_empty() {
            "; its console is silent. Try: --append loglevel=7, which shows how far its kernel gets"
        } else if console.contains("Initramfs unpacking failed") {
            "; its memory seems to be too small. Try: --memory 2G"
        } else {
            ". Try: a longer --boot-timeout"
        };
        LabError::NotBooted { seconds, hint: hint.to_owned(), console }
    }

    /// What QEMU complained of, and the last lines of the console, as harmless text.
    pub(crate) fn last_lines(&self) -> String {
        let mut lines = Vec::new();
        for path in [&self.complaints, &self.console] {
            let text = end_of(path).unwrap_or_default();
            let own: Vec<String> =
                text.lines().map(harmless).filter(|line| !line.is_empty()).collect();
            // What follows a panic is where in the kernel it was found out.
            let panic = own.iter().position(|line| line.contains("Kernel panic"));
            let own = &own[..panic.map_or(own.len(), |at| at + 1)];
            lines.extend(own[own.len().saturating_sub(LAST_LINES)..].iter().cloned());
        }
        lines.iter().map(|line| format!("  {line}\n")).collect()
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        // Ended already, as a rule; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LAST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A guest may print anything.
fn harmless(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).take(200).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan<'a>(arch: Arch, acceleration: Acceleration, path: &'a Path) -> QemuPlan<'a> {
        QemuPlan {
            arch,
            acceleration,
            icount: None,
            cpus: 1,
            threads: 1,
            cpu_threads: CpuThreads::Each,
            topology: vec!["-m".into(), "512M".into()],
            hmat: false,
            kernel: path,
            initrd: path,
            region: path,
            region_bytes: 1 << 20,
            console: path,
            words: &[],
        }
    }

    fn text(plan: &QemuPlan<'_>) -> String {
        let words: Vec<_> =
            plan.arguments().into_iter().map(|w| w.into_string().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn the_command_line_says_what_accelerates() {
        let path = Path::new("/a,b");
        let x86 = text(&plan(Arch::X86_64, Acceleration::Tcg, path));
        for part in [
            "-machine q35 -accel tcg,thread=multi -cpu max",
            "console=ttyS0",
            "pmuscope.acceleration=tcg cryptomgr.notests no_timer_check lpj=10000000 tsc=reliable -- lab guest",
            "mem-path=/a,,b,size=1048576,share=on",
            "-m 512M",
        ] {
            assert!(x86.contains(part), "{part} in {x86}");
        }
        let arm = QemuPlan { icount: Some(1), ..plan(Arch::Aarch64, Acceleration::Tcg, path) };
        let arm = text(&arm);
        assert!(
            arm.contains("-accel tcg,thread=single") && arm.contains("-icount shift=1"),
            "{arm}"
        );
        let second = QemuPlan {
            cpu_threads: CpuThreads::One,
            ..plan(Arch::X86_64, Acceleration::Tcg, path)
        };
        assert!(text(&second).contains("-accel tcg,thread=single"));
        let kvm = text(&plan(Arch::X86_64, Acceleration::Kvm, path));
        assert!(kvm.contains("-accel kvm -cpu host") && !kvm.contains("tsc="), "{kvm}");
    }

    #[test]
    fn what_a_guest_prints_is_made_harmless() {
        assert_eq!(harmless("\x1b[31mred\x07\r"), "[31mred");
        assert_eq!(harmless(&"x".repeat(1000)).len(), 200);
    }
}
