//! What this machine is and allows, read from `/sys` and `/proc`; placement of threads and pages.
//!
//! [`Machine`] reads everything below one root folder, so that a test can hand it a fixture tree; a
//! function says which file it reads. What a kernel or a container does not show is `None` or an error
//! with its reason, never a made-up number. Only [`place`] and [`pages`] act on threads and their memory, and
//! [`NumaBalancing::set`] on the kernel's settings.

mod activity;
mod arm_cores;
mod atomic_file;
mod budget;
mod busy;
pub mod capabilities;
mod cgroup;
pub mod child;
mod common_events;
mod cpuset;
mod environment;
mod error;
mod facts;
mod file_kind;
mod folders;
mod image;
mod kernel;
mod limits;
mod maps;
mod memory;
mod numa;
mod observers;
pub mod pages;
pub mod place;
mod pmu;
mod policy;
pub mod probe;
mod process;
mod processor;
mod read;
mod running;
pub mod stdout;
mod sys;
mod target;
mod threads;
mod topology;
mod tracefs;
mod uprobe_events;
mod user_reads;
mod virtualization;

pub use activity::{Activity, CpuActivity, Sibling};
pub use arm_cores::{ArmCore, Midr};
pub use atomic_file::AtomicFile;
pub use budget::RingBudget;
pub use busy::CpuTimes;
pub use cgroup::OwnCgroup;
pub use cpuset::{CpuIter, CpuListError, CpuSet};
pub use environment::Environment;
pub use error::MachineError;
pub use facts::{Facts, PmuFacts, PmuUnits, Tracepoints};
pub use file_kind::{FileKind, Replace, text_mark};
pub use folders::{UserFolder, user_cache};
pub use image::{KernelModule, KernelText};
pub use kernel::Kernel;
pub use limits::{Limits, Rights, Rlimit};
pub use maps::Mapping;
pub use memory::MemoryBlocks;
pub use numa::{
    AccessClass, BalancingGuard, NodeFaults, NumaBalancing, NumaCounters, NumaFacts, NumaMapping,
    NumaNode, NumaSettings, NumaTask,
};
pub use observers::EventHolder;
pub use pmu::{Pmu, PmuEvent};
pub use policy::{MemoryPolicy, PolicyError};
pub use process::Task;
pub use processor::{Cache, Frequency, Governor, Processor, Smt};
pub use read::Machine;
pub use running::{ThreadRun, ThreadSwitches};
pub use target::Target;
pub use threads::ThreadRoom;
pub use topology::{Cpu, Node, Topology};
pub use tracefs::used_detached_tracefs;
pub use uprobe_events::{UprobeDefinition, UprobeError, UprobeEvents, UprobePlace};
pub use user_reads::NoUserReads;
pub use virtualization::{Sign, Virtualization};
