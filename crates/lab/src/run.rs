//! A command in a guest, from its kernel to its results.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pmuscope_machine::Machine;

use crate::acceleration::{self, Kvm, Question};
use crate::channel::{GuestState, Receiver};
use crate::initramfs::Content;
use crate::job::{Answer, Job};
use crate::kernel::GuestKernel;
use crate::qemu::{CpuThreads, Guest, Patience, QemuPlan};
use crate::scratch::Scratch;
use crate::{Acceleration, AccelerationChoice, Arch, LabError, Topology, program};

/// A guest with KVM that has not booted by then does not.
const PROBE: Duration = Duration::from_secs(10);
/// QEMU's own memory beside the guest's, MiB.
const OVERHEAD_MIB: u64 = 128;
/// Where the command runs if the folder of the host is one that guests have of their own.
const OTHER_FOLDER: &str = "/work";

/// What to run, and in which guest.
#[derive(Debug, Clone)]
pub struct Options {
    /// Kind of guest.
    pub arch: Arch,
    /// Its kernel.
    pub kernel: GuestKernel,
    /// Nodes, CPUs, memory.
    pub topology: Topology,
    /// An instruction takes 2^n ns of the guest's clock: exact counts, one CPU at a time.
    pub icount: Option<u8>,
    /// What runs its instructions.
    pub acceleration: AccelerationChoice,
    /// Kernel settings by name of sysctl or path, written before the command runs.
    pub settings: Vec<(String, String)>,
    /// Further words of the kernel's command line.
    pub kernel_words: Vec<String>,
    /// Further files, programs with the libraries they need, at the same paths.
    pub files: Vec<PathBuf>,
    /// This program for the guest; `None`: this one, or the static one beside it.
    pub program: Option<PathBuf>,
    /// Arguments of this program.
    pub arguments: Vec<String>,
    /// Environment of the command.
    pub environment: Vec<(String, String)>,
    /// Folder of the host; the command runs in one of the same name.
    pub folder: PathBuf,
    /// How long the guest may take to boot; `None`: what suits its acceleration and size.
    pub boot_timeout: Option<Duration>,
    /// How long the command may take.
    pub timeout: Duration,
    /// Memory for results, MiB; a power of two.
    pub results_mib: u64,
}

/// A file that the command made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produced {
    /// Relative to the folder of the command.
    pub path: PathBuf,
    /// Permissions.
    pub mode: u32,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// How a command in a guest went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Exit status as a shell has it.
    pub exit: i32,
    /// It took longer than it may, and was ended: what there is is what it had made until then.
    pub timed_out: bool,
    /// Bytes of standard error that were passed on while it ran.
    pub heard: usize,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained of.
    pub stderr: Vec<u8>,
    /// Files that are new or changed in its folder.
    pub files: Vec<Produced>,
    /// Release of the kernel.
    pub kernel: String,
    /// The kernel's command line.
    pub command_line: String,
    /// What ran its instructions.
    pub acceleration: Acceleration,
    /// Why it was emulated, if not because it was asked for.
    pub why_emulated: Option<String>,
    /// How often QEMU was started: twice where an emulated guest had stopped while it booted.
    pub starts: u32,
    /// Seconds from QEMU's last start to the guest's first process.
    pub boot_s: Option<f64>,
    /// Seconds of the guest's clock that the command took.
    pub command_s: f64,
    /// Seconds from QEMU's first start to the results.
    pub wall_s: f64,
}

/// The place where guests run.
#[derive(Debug, Default)]
pub struct Lab {
    /// Where what is learnt of this machine is kept; `None`: nowhere.
    pub cache: Option<PathBuf>,
}

impl Lab {
    /// This user's.
    pub fn of_user() -> Self {
        Self { cache: pmuscope_machine::user_cache().map(|cache| cache.join("lab")) }
    }

    /// Boots a guest, runs the command, and takes its results. `stop` is asked a hundred times a second; `said` gets
    /// lines that the command writes to standard error as it does.
    ///
    /// # Errors
    /// If the guest cannot be made, does not boot, or hands over no results. The command's own status
    /// is no error.
    pub fn run(
        &self,
        options: &Options,
        stop: &mut dyn FnMut() -> bool,
        said: &mut dyn FnMut(&[u8]),
    ) -> Result<Outcome, LabError> {
        let emulator = program::emulator(options.arch)?;
        let topology = options.topology.flags(options.arch)?;
        enough_memory(options.topology.memory_mib())?;
        let job = options.job()?;
        let program = PathBuf::from(&job.command[0]);
        let content =
            Content { arch: options.arch, program: &program, files: &options.files, job: &job };
        let scratch = Scratch::new().map_err(LabError::file("make", Path::new("/dev/shm")))?;
        let initrd = scratch.path("initrd");
        // While the kernel unpacks it, memory holds it twice.
        let quarter = options.topology.memory_mib() << 20 >> 2;
        let archive = content.pack(if options.kernel.unpacks_zstd { quarter } else { u64::MAX })?;
        std::fs::write(&initrd, archive).map_err(LabError::file("write", &initrd))?;
        let bench = GuestRun { options, emulator: &emulator, scratch: &scratch, initrd: &initrd };
        let question = Question {
            wanted: options.acceleration,
            arch: options.arch,
            icount: options.icount.is_some(),
            cache: self.cache.as_deref(),
            emulator: &emulator,
        };
        let (acceleration, why_emulated) =
            question.answer(&mut OfThisMachine { bench: &bench, stop: &mut *stop })?;
        let outcome = bench.command(acceleration, &topology, stop, said)?;
        Ok(Outcome { why_emulated, ..outcome })
    }
}

impl Options {
    fn job(&self) -> Result<Job, LabError> {
        let program = match &self.program {
            Some(path) => std::path::absolute(path).map_err(LabError::file("find", path))?,
            None => program::for_guests(self.arch)?,
        };
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| LabError::Program {
                arch: self.arch,
                path: path.to_owned(),
                why: "its path is not UTF-8".to_owned(),
            })
        };
        let command = std::iter::once(text(&program)?).chain(self.arguments.iter().cloned());
        Ok(Job {
            command: command.collect(),
            folder: text(&guest_folder(&self.folder))?,
            settings: self.settings.clone(),
            environment: self.environment.clone(),
        })
    }

    /// How long the first of two starts may take; `None`: there is one only. QEMU 7.2 with a thread for each CPU loses
    /// some guests while their kernels patch themselves: one of 130 boots of six CPUs on two busy ones, and two
    /// of 40 boots of sixteen; the others had taken up to 40 s. In CI a second start was lost like the first, so
    /// the second start emulates all CPUs in one thread ([`CpuThreads::One`]).
    fn first_patience(&self, acceleration: Acceleration) -> Option<Duration> {
        let loses = acceleration == Acceleration::Tcg && self.boot_timeout.is_none();
        loses.then(|| self.boot_patience(acceleration) / 2)
    }

    /// Emulated CPUs start one after the other, and firmware takes its time for each.
    fn boot_patience(&self, acceleration: Acceleration) -> Duration {
        self.boot_timeout.unwrap_or(match acceleration {
            Acceleration::Kvm => Duration::from_secs(60),
            Acceleration::Tcg => Duration::from_secs(120 + 4 * u64::from(self.topology.cpus)),
        })
    }
}

/// The same folder as on the host, except where guests have file systems of their own.
fn guest_folder(folder: &Path) -> PathBuf {
    let own = ["/dev", "/proc", "/sys", "/run"];
    let is_own = folder.parent().is_none() || own.iter().any(|own| folder.starts_with(own));
    if is_own { PathBuf::from(OTHER_FOLDER) } else { folder.to_owned() }
}

fn enough_memory(needed: u64) -> Result<(), LabError> {
    let available = Machine::host().available_bytes().map_or(u64::MAX, |bytes| bytes >> 20);
    let needed_mib = needed + OVERHEAD_MIB;
    if available >= needed_mib {
        return Ok(());
    }
    Err(LabError::Memory { needed, available: available.saturating_sub(OVERHEAD_MIB) })
}

/// One guest in the making.
struct GuestRun<'a> {
    options: &'a Options,
    emulator: &'a Path,
    scratch: &'a Scratch,
    initrd: &'a Path,
}

impl GuestRun<'_> {
    /// Boots the smallest guest with KVM up to its first process.
    fn probe(&self, stop: &mut dyn FnMut() -> bool) -> Result<(), LabError> {
        let region = self.region("probe", 1 << 20)?;
        let topology = Topology::default().flags(self.options.arch)?;
        let console = self.scratch.path("probe-console");
        let plan = self.plan(Acceleration::Kvm, topology, &region, &console);
        let complaints = self.scratch.path("probe-complaints");
        let mut guest = Guest::start(self.emulator, &plan, &region, &complaints)?;
        guest.wait(GuestState::Started, Patience { boot: PROBE, command: PROBE }, stop, &mut |_| {})
    }

    /// A guest that did not boot in the time that it usually takes gets a second start, and all of its time.
    fn command(
        &self,
        acceleration: Acceleration,
        topology: &[String],
        stop: &mut dyn FnMut() -> bool,
        said: &mut dyn FnMut(&[u8]),
    ) -> Result<Outcome, LabError> {
        let clock = Instant::now();
        if let Some(boot) = self.options.first_patience(acceleration) {
            match self.start(acceleration, topology.to_vec(), CpuThreads::Each, boot, stop, said) {
                Err(LabError::NotBooted { .. }) => {}
                outcome => return outcome,
            }
        }
        let boot = self.options.boot_patience(acceleration);
        let is_second = self.options.first_patience(acceleration).is_some();
        let threads = if is_second { CpuThreads::One } else { CpuThreads::Each };
        let outcome = self.start(acceleration, topology.to_vec(), threads, boot, stop, said)?;
        let starts = 1 + u32::from(is_second);
        Ok(Outcome { starts, wall_s: clock.elapsed().as_secs_f64(), ..outcome })
    }

    fn start(
        &self,
        acceleration: Acceleration,
        topology: Vec<String>,
        cpu_threads: CpuThreads,
        boot: Duration,
        stop: &mut dyn FnMut() -> bool,
        said: &mut dyn FnMut(&[u8]),
    ) -> Result<Outcome, LabError> {
        let bytes = self.options.results_mib << 20;
        let region = self.region("results", bytes)?;
        let console = self.scratch.path("console");
        let plan = self.plan(acceleration, topology, &region, &console);
        let plan = QemuPlan { cpu_threads, ..plan };
        let complaints = self.scratch.path("complaints");
        let clock = Instant::now();
        let mut guest = Guest::start(self.emulator, &plan, &region, &complaints)?;
        let patience = Patience { boot, command: self.options.timeout };
        guest.wait(GuestState::Done, patience, stop, said)?;
        let wall_s = clock.elapsed().as_secs_f64();
        let damaged = |why: String| LabError::Ended { why, console: guest.last_lines() };
        let content = region.take().map_err(|error| damaged(error.to_string()))?;
        let (answer, contents) = Answer::unpack(&content).map_err(damaged)?;
        let (boot_s, heard) = (guest.booted_s(), guest.heard());
        guest.end();
        if let Some(why) = answer.refused {
            return Err(LabError::Refused(why));
        }
        let mut files = answer.files.into_iter().zip(contents).map(|(piece, content)| Produced {
            path: PathBuf::from(piece.name),
            mode: piece.mode,
            content,
        });
        let mut printed = || files.next().map(|file| file.content).unwrap_or_default();
        Ok(Outcome {
            exit: answer.exit,
            timed_out: answer.was_ended,
            heard: usize::try_from(heard).unwrap_or(usize::MAX),
            stdout: printed(),
            stderr: printed(),
            files: files.collect(),
            kernel: answer.kernel,
            command_line: answer.command_line,
            acceleration,
            why_emulated: None,
            starts: 1,
            boot_s,
            command_s: answer.command_s,
            wall_s,
        })
    }

    fn region(&self, name: &str, bytes: u64) -> Result<Receiver, LabError> {
        let path = self.scratch.path(name);
        // Of an earlier start.
        let _ = std::fs::remove_file(&path);
        Receiver::create(&path, bytes).map_err(LabError::file("make", &path))
    }

    fn plan<'a>(
        &'a self,
        acceleration: Acceleration,
        topology: Vec<String>,
        region: &'a Receiver,
        console: &'a Path,
    ) -> QemuPlan<'a> {
        QemuPlan {
            arch: self.options.arch,
            acceleration,
            icount: self.options.icount.filter(|_| acceleration == Acceleration::Tcg),
            cpus: self.options.topology.cpus,
            threads: self.options.topology.threads,
            cpu_threads: CpuThreads::Each,
            topology,
            hmat: self.options.topology.needs_hmat(),
            kernel: &self.options.kernel.image,
            initrd: self.initrd,
            region: region.path(),
            region_bytes: region.bytes(),
            console,
            words: &self.options.kernel_words,
        }
    }
}

/// KVM as this machine has it.
struct OfThisMachine<'a> {
    bench: &'a GuestRun<'a>,
    stop: &'a mut dyn FnMut() -> bool,
}

impl Kvm for OfThisMachine<'_> {
    fn no_device(&self) -> Option<String> {
        acceleration::no_device()
    }

    fn boot(&mut self) -> Result<(), LabError> {
        self.bench.probe(self.stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_work_in_the_same_folder_unless_it_is_their_own() {
        for (host, guest) in [
            ("/home/me/x", "/home/me/x"),
            ("/", "/work"),
            ("/dev/shm/x", "/work"),
            ("/tmp", "/tmp"),
        ] {
            assert_eq!(guest_folder(Path::new(host)), Path::new(guest));
        }
    }

    #[test]
    fn more_memory_than_there_is_is_refused() {
        assert!(enough_memory(1).is_ok());
        let error = enough_memory(u64::MAX >> 30).unwrap_err().to_string();
        assert!(error.contains("Try: a smaller --memory"), "{error}");
    }
}
