//! `pmuscope lab run`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input, failure};
use pmuscope_console::say;
use pmuscope_lab::{
    Acceleration, AccelerationChoice, Arch, Cell, DEFAULT_KERNEL, Distance, Kernels, Lab, Options,
    Outcome, Topology, emulator,
};
use pmuscope_machine::user_cache;

use super::matrix::{self, MatrixArgs};
use super::{output, refused};
use crate::commands::choice::one_of;
use crate::commands::duration;
use crate::commands::record::size::with_unit;
use crate::signals::Stop;

/// Flags of `pmuscope lab run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope lab run --nodes 4 --cpus 8 -- doctor
  pmuscope lab run --kernel 6.12 -- record -a -- workload
  pmuscope lab run --arch aarch64 --icount 1 -- record -e cycles,instructions -- CMD
  pmuscope lab run --kernel 6.1 --kernel 6.12 --set kernel.numa_balancing=0,1 -r 3 -- bench capture
  pmuscope lab run --set kernel.numa_balancing=0 --file ./app -- record -- ./app

The command runs in a folder of the same name as this one, with the files of --file at the same paths.
Files that it creates there come back to this folder. Kernels are fetched once, by apt, and kept in
~/.cache/pmuscope.")]
pub(crate) struct Args {
    /// Boot this kernel: host, version, Debian package or file
    ///
    /// host is the running kernel; 6.1, 6.12 or 6.1.0-53 are versions. Several make several guests.
    #[arg(long, value_name = "KERNEL", default_value = DEFAULT_KERNEL)]
    kernel: Vec<String>,
    /// Emulate x86_64 or aarch64 [default: this machine's]
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Set a kernel setting; several values make several guests
    ///
    /// A sysctl, or a path below /sys or /proc; repeatable.
    #[arg(long, value_name = "NAME=LIST", value_parser = setting, help_heading = "Guest")]
    set: Vec<(String, Vec<String>)>,
    /// Append WORD to the kernel command line; repeatable
    #[arg(long, value_name = "WORD", help_heading = "Guest")]
    append: Vec<String>,
    /// Copy a program with its libraries, a file or folder; repeatable
    #[arg(long, value_name = "PATH", help_heading = "Guest")]
    file: Vec<PathBuf>,
    /// Run this pmuscope in the guest [default: this one]
    ///
    /// For another architecture, the static one next to it.
    #[arg(long, value_name = "FILE", help_heading = "Guest")]
    program: Option<PathBuf>,
    /// Put files that the command makes into DIR [default: this folder]
    ///
    /// Of several guests nowhere, unless it is given.
    #[arg(long, value_name = "DIR", help_heading = "Guest")]
    dir: Option<PathBuf>,
    /// Stop the command after DURATION (a plain number: seconds)
    #[arg(long, value_name = "DURATION", value_parser = duration::whole_seconds, default_value = "600s", help_heading = "Guest")]
    timeout: u64,
    /// Stop a guest that does not boot within DURATION
    ///
    /// [default: 60s; emulated 120s and 4s per CPU]
    #[arg(long, value_name = "DURATION", value_parser = duration::whole_seconds, help_heading = "Guest")]
    boot_timeout: Option<u64>,
    /// Reserve SIZE for results, a power of two
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = mebibytes, help_heading = "Guest")]
    results: u64,
    #[command(flatten)]
    matrix: MatrixArgs,
    /// Print nothing about the guest
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
    /// Command and arguments, without "pmuscope"
    #[arg(last = true, required = true, value_name = "ARGS")]
    command: Vec<String>,
}

/// The guest's machine.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Machine")]
struct MachineArgs {
    /// Give the guest N CPUs [default: one per node and thread]
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Give it N NUMA nodes with CPUs and memory
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: u32,
    /// Add N NUMA nodes without CPUs
    #[arg(long, value_name = "N", default_value_t = 0)]
    memory_nodes: u32,
    /// Give it SIZE of memory in all [default: as needed]
    #[arg(short, long, value_name = "SIZE", value_parser = mebibytes)]
    memory: Option<u64>,
    /// Set the distance of all nodes, or two: 30, or 0,2=30
    ///
    /// Repeatable [default: 20].
    #[arg(long, value_name = "[A,B=]N")]
    distance: Vec<Distance>,
    /// Give it N sockets [default: one per node]
    #[arg(long, value_name = "N")]
    sockets: Option<u32>,
    /// Give each core N hardware threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Number CPUs round-robin over the nodes
    #[arg(long)]
    interleave: bool,
    /// Describe latency and bandwidth of nodes in firmware (HMAT)
    #[arg(long)]
    hmat: bool,
    /// Take 2^N ns of guest time per instruction
    ///
    /// Exact counts; one CPU at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=10))]
    icount: Option<u8>,
    /// Run with hardware virtualization (kvm) or an emulator (tcg)
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of(ACCELERATIONS))]
    accel: AccelerationChoice,
}

/// Values of `--accel`.
const ACCELERATIONS: [(&str, &str, AccelerationChoice); 3] = [
    ("auto", "", AccelerationChoice::Best),
    ("kvm", "", AccelerationChoice::Only(Acceleration::Kvm)),
    ("tcg", "", AccelerationChoice::Only(Acceleration::Tcg)),
];

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let stop = Stop::new()?;
    let quiet = args.quiet;
    let folder = args.folder()?;
    let matrix = args.kernel.len() > 1 || args.matrix.is_asked();
    let (args, cells) = args.cells()?;
    let [Cell { options, .. }] = cells.as_slice() else {
        return matrix::run(&args, &cells, folder, stop);
    };
    if matrix {
        return matrix::run(&args, &cells, folder, stop);
    }
    let outcome = Lab::of_user()
        .run(options, &mut || stop.asked(), &mut output::pass_on_line)
        .map_err(|error| refused(&error))?;
    output::pass_on(&outcome)?;
    output::write(&outcome.files, folder.as_deref().unwrap_or(Path::new(".")))?;
    if !quiet {
        say!("{}", about(&outcome, options));
    }
    if outcome.timed_out {
        let seconds = options.timeout.as_secs();
        let text = format!(
            "the command did not end within {seconds} s in the guest and was stopped; its output so far is kept. \
             Try: --timeout {}",
            2 * seconds
        );
        return Err(failure(Exit::Target(125), text));
    }
    // A status of a process has eight bits.
    Ok(Exit::Target(outcome.exit as u8))
}

impl Args {
    /// Where files go: `--dir`, or what `-o` was for before.
    fn folder(&self) -> anyhow::Result<Option<PathBuf>> {
        if self.dir.is_some() {
            return Ok(self.dir.clone());
        }
        let old = self.matrix.output.results()?.other;
        if let Some(folder) = &old {
            say!("note: -o {0} is now --dir {0}", folder.display());
        }
        Ok(old)
    }

    /// The guests to run.
    fn cells(self) -> anyhow::Result<(MatrixArgs, Vec<Cell>)> {
        let arch = match self.arch {
            Some(arch) => arch,
            None => Arch::host().map_err(|error| refused(&error))?,
        };
        // Before a kernel is downloaded that nothing could run.
        emulator(arch).map_err(|error| refused(&error))?;
        let kernels = Kernels::host(user_cache().as_deref());
        let mut notice = |text: &str| say!("note: {text}");
        let folder = std::env::current_dir().context("cannot read the current folder")?;
        let files: std::io::Result<Vec<PathBuf>> =
            self.file.iter().map(std::path::absolute).collect();
        let files = files.context("--file")?;
        if !self.results.is_power_of_two() {
            return Err(bad_input("--results: a power of two, such as 64M or 1G"));
        }
        let options = |kernel, settings| Options {
            arch,
            kernel,
            topology: self.machine.topology(),
            icount: self.machine.icount,
            acceleration: self.machine.accel,
            settings,
            kernel_words: self.append.clone(),
            files: files.clone(),
            program: self.program.clone(),
            arguments: self.command.clone(),
            environment: environment(),
            folder: folder.clone(),
            boot_timeout: self.boot_timeout.map(Duration::from_secs),
            timeout: Duration::from_secs(self.timeout),
            results_mib: self.results,
        };
        let mut cells = Vec::new();
        for name in &self.kernel {
            let kernel = kernels.find(name, arch, &mut notice).map_err(|error| refused(&error))?;
            for settings in matrix::choices(&self.set) {
                let options = options(kernel.clone(), settings);
                cells.push(Cell { name: matrix::name(&options, &self.set), options });
            }
        }
        Ok((self.matrix, cells))
    }
}

impl MachineArgs {
    fn topology(&self) -> Topology {
        Topology {
            cpus: self.cpus.unwrap_or(self.nodes.saturating_mul(self.threads)),
            nodes: self.nodes,
            memory_nodes: self.memory_nodes,
            memory_mib: self.memory,
            sockets: self.sockets,
            threads: self.threads,
            interleaved: self.interleave,
            distances: self.distance.clone(),
            hmat: self.hmat,
        }
    }
}

/// What programs expect to find.
fn environment() -> Vec<(String, String)> {
    [("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"), ("HOME", "/root")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// `guest of Linux 6.1.0-53-cloud-amd64, x86_64, 8 CPUs, 4 nodes, 1024 MiB, emulated (…): booted in
/// 5.1 s, 9.3 s in all; pmuscope.data (12 KiB)`.
fn about(outcome: &Outcome, options: &Options) -> String {
    let seconds = pmuscope_report::number::duration;
    let speed = match (outcome.acceleration, &outcome.why_emulated) {
        (Acceleration::Kvm, _) => "with KVM".to_owned(),
        (Acceleration::Tcg, Some(why)) => {
            format!("emulated ({why}): its times are not those of real hardware")
        }
        (Acceleration::Tcg, None) => {
            "emulated: its times are not those of real hardware".to_owned()
        }
    };
    let boot = outcome.boot_s.map_or("-".to_owned(), seconds);
    let again =
        if outcome.starts > 1 { " at the second start, as the first did not boot" } else { "" };
    let files = output::names(&outcome.files);
    let files = if files.is_empty() { files } else { format!("; {files}") };
    format!(
        "guest of Linux {}, {}, {}, {speed}. Booted in {boot}{again}, {} in all{files}",
        pmuscope_report::escape(&outcome.kernel),
        options.arch,
        options.topology.describe(),
        seconds(outcome.wall_s),
    )
}

fn setting(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, values) = text.split_once('=').ok_or("use NAME=VALUE")?;
    Ok((name.to_owned(), values.split(',').map(str::to_owned).collect()))
}

/// `512M`, `2G`.
fn mebibytes(text: &str) -> Result<u64, String> {
    let mib = with_unit(text).filter(|bytes| bytes % (1 << 20) == 0).map(|bytes| bytes >> 20);
    mib.filter(|mib| (1..=1 << 20).contains(mib)).ok_or("use a size such as 512M or 2G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!((mebibytes("512M"), mebibytes("2G")), (Ok(512), Ok(2048)));
        for wrong in ["512", "M", "0M", "-1G", "99999999999999999999M", "2000000G"] {
            assert!(mebibytes(wrong).is_err(), "{wrong}");
        }
    }
}
