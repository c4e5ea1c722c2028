//! Breakpoints of a set of points: one descriptor for each existing thread, which those that it starts
//! inherit; or one for each CPU.
//!
//! An event of a task on all CPUs is what the kernel accounts for in constant time, and children inherit it
//! with its program, however many CPUs there are. It has no ring of its own, which is why hits go through
//! the program's.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use pmuscope_abi::{Attr, AttrFlags, OpenFlags, ReadFormat, SampleType, breakpoint, event_type};
use pmuscope_bpf::Program;
use pmuscope_counters::{Kernel, errno_name, open_refusal};
use pmuscope_perfdata::watch::Access;
use rustix::io::Errno;

use crate::slots::Kind;

/// What one slot is to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Number of the target that it is part of.
    pub target: usize,
    /// First byte.
    pub address: u64,
    /// 1, 2, 4 or 8; ignored for instructions, which have what the architecture asks for.
    pub bytes: u8,
    /// Accesses.
    pub access: Access,
    /// An address of the kernel's.
    pub in_kernel: bool,
    /// Memory that processes share.
    pub is_shared: bool,
    /// Watched in short turns only, to see whether it is hit at all.
    pub is_brief: bool,
}

impl Point {
    /// Which slots it takes.
    #[must_use]
    pub fn kind(&self) -> Kind {
        if self.access == Access::Execute { Kind::Instruction } else { Kind::Data }
    }

    /// Its length as the kernel takes it.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self.access {
            Access::Execute => breakpoint::INSTRUCTION,
            _ => u64::from(self.bytes),
        }
    }

    /// The attribute of its events: off, each hit counts. x86 has no watch on loads alone.
    #[must_use]
    pub fn attr(&self) -> Attr {
        let bp_type = match self.access {
            Access::Read if cfg!(target_arch = "x86_64") => breakpoint::READ_WRITE,
            Access::Read => breakpoint::READ,
            Access::Write => breakpoint::WRITE,
            Access::ReadWrite => breakpoint::READ_WRITE,
            Access::Execute => breakpoint::EXECUTE,
        };
        Attr {
            event_type: event_type::BREAKPOINT,
            bp_type,
            config1: self.address,
            config2: self.length(),
            sample: 1,
            flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_HV,
            read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
            ..Attr::default()
        }
    }

    /// The attribute as a file lists it, with the fields that its samples have there.
    #[must_use]
    pub fn file_attr(&self, clockid: i32) -> Attr {
        let sample_type = SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::ADDR
            | SampleType::CPU
            | SampleType::PERIOD
            | SampleType::CALLCHAIN
            | SampleType::RAW;
        let mut attr = self.attr();
        attr.flags |= AttrFlags::SAMPLE_ID_ALL | AttrFlags::USE_CLOCKID;
        Attr { sample_type, read_format: ReadFormat::empty(), clockid, ..attr }
    }
}

/// Whose accesses are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointScope {
    /// A thread, and what it starts from then on.
    Thread(u32),
    /// A CPU, whoever runs there.
    Cpu(u32),
}

/// Why points cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointError {
    /// The kernel refused one.
    #[error("cannot watch {address:#x} for {place}: {}. {advice}", open_refusal(source))]
    Open {
        /// The address.
        address: u64,
        /// For whom, in words.
        place: String,
        /// What the kernel said.
        source: io::Error,
        /// What to type.
        advice: &'static str,
    },
    /// A program could not be given to an event.
    #[error(
        "cannot run a BPF program at hits of {address:#x}: PERF_EVENT_IOC_SET_BPF: {}",
        errno_name(source)
    )]
    Attach {
        /// The address.
        address: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// An event could not be armed, disarmed or read.
    #[error("cannot {action} the breakpoint at {address:#x}: {}", errno_name(source))]
    Call {
        /// What was to be done.
        action: &'static str,
        /// The address.
        address: u64,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Open breakpoints.
#[derive(Debug)]
pub struct Opened {
    /// By point: its number, address and descriptors.
    points: Vec<(usize, u64, Vec<OwnedFd>)>,
}

impl Opened {
    /// None yet, of the points whose numbers are given.
    #[must_use]
    pub fn none(points: &[Point], numbers: &[usize]) -> Self {
        let chosen = numbers.iter().filter_map(|&number| Some((number, points.get(number)?)));
        Self { points: chosen.map(|(number, point)| (number, point.address, vec![])).collect() }
    }

    /// Opens each point for a place, off, with its program where there are programs. A thread that
    /// has ended meanwhile is passed over.
    ///
    /// # Errors
    /// [`PointError`].
    pub fn add(
        &mut self,
        kernel: &dyn Kernel,
        points: &[Point],
        programs: &[Program],
        place: PointScope,
    ) -> Result<(), PointError> {
        for (number, address, events) in &mut self.points {
            let Some(point) = points.get(*number) else { continue };
            let Some(event) = open(kernel, point, place)? else { continue };
            if let Some(program) = programs.get(*number) {
                kernel
                    .attach(event.as_fd(), program.as_fd())
                    .map_err(|source| PointError::Attach { address: *address, source })?;
            }
            events.push(event);
        }
        Ok(())
    }

    /// Arms all, for all threads.
    ///
    /// # Errors
    /// [`PointError::Call`].
    pub fn arm(&self, kernel: &dyn Kernel) -> Result<(), PointError> {
        self.each("arm", |event| kernel.enable_alone(event.as_fd()))
    }

    /// Disarms all.
    ///
    /// # Errors
    /// [`PointError::Call`].
    pub fn disarm(&self, kernel: &dyn Kernel) -> Result<(), PointError> {
        self.each("disarm", |event| kernel.disable_alone(event.as_fd()))
    }

    fn each(
        &self,
        action: &'static str,
        mut call: impl FnMut(&OwnedFd) -> io::Result<()>,
    ) -> Result<(), PointError> {
        for (_, address, events) in &self.points {
            for event in events {
                let error = |source| PointError::Call { action, address: *address, source };
                call(event).map_err(error)?;
            }
        }
        Ok(())
    }

    /// Hits as the kernel counted them, those of ended threads too: number of the point and count.
    ///
    /// # Errors
    /// [`PointError::Call`].
    pub fn counted(&self, kernel: &dyn Kernel) -> Result<Vec<(usize, u64)>, PointError> {
        let mut counts = Vec::with_capacity(self.points.len());
        for (number, address, events) in &self.points {
            let mut sum = 0_u64;
            for event in events {
                let mut words = [0; 3];
                let error = |source| PointError::Call { action: "read", address: *address, source };
                kernel.read(event.as_fd(), &mut words).map_err(error)?;
                sum += words[0];
            }
            counts.push((*number, sum));
        }
        Ok(counts)
    }
}

fn open(
    kernel: &dyn Kernel,
    point: &Point,
    place: PointScope,
) -> Result<Option<OwnedFd>, PointError> {
    let mut attr = point.attr();
    let (pid, cpu) = match place {
        PointScope::Thread(tid) => {
            attr.flags |= AttrFlags::INHERIT;
            (tid as i32, -1)
        }
        PointScope::Cpu(cpu) => (-1, cpu as i32),
    };
    // The address means something else in another program. Not before Linux 5.13.
    let mut until_exec = attr.clone();
    until_exec.flags.set(AttrFlags::REMOVE_ON_EXEC, pid > 0 && !point.in_kernel);
    let opened = match kernel.open(&until_exec, pid, cpu, None, OpenFlags::FD_CLOEXEC) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
            kernel.open(&attr, pid, cpu, None, OpenFlags::FD_CLOEXEC)
        }
        opened => opened,
    };
    match opened {
        Ok(event) => Ok(Some(event)),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
        Err(source) => {
            let place = match place {
                PointScope::Thread(tid) => format!("thread {tid}"),
                PointScope::Cpu(cpu) => format!("CPU {cpu}"),
            };
            let advice = advice(&source, point);
            Err(PointError::Open { address: point.address, place, source, advice })
        }
    }
}

fn advice(error: &io::Error, point: &Point) -> &'static str {
    let on_kernel_code = point.in_kernel && point.access == Access::Execute;
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => {
            "No debug register is free. Try: pmuscope watch plan, which shows what holds them"
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "It needs CAP_PERFMON or root; kernel addresses need CAP_SYS_ADMIN"
        }
        Some(Errno::INVAL) if on_kernel_code => {
            "The kernel allows no breakpoint on this kernel code: without kprobes it allows none, \
             otherwise none where kprobes are forbidden"
        }
        Some(Errno::INVAL) => {
            "The hardware cannot watch this combination of address, length and access"
        }
        Some(Errno::NODEV | Errno::OPNOTSUPP | Errno::NOENT) => "This machine has no breakpoints",
        Some(Errno::MFILE) => "Try: raise the limit of open files, ulimit -n 65536",
        _ => "Try: pmuscope doctor",
    }
}
