//! Guests in QEMU: a kernel, a topology, this program as the first process; results come back as files.
//!
//! A guest has no disk, no network, no shell: its root folder is an archive with this program in it
//! ([`initramfs`]), which the kernel starts first ([`guest`]). It runs one command of this program in a
//! folder of the same name as on the host, and hands back status, output and new files through memory
//! that it shares with the host ([`channel`]). The serial line is for the kernel's own words.

mod acceleration;
mod arch;
mod channel;
mod cpio;
mod elf;
mod error;
mod guest;
mod initramfs;
mod job;
mod kernel;
mod libraries;
mod matrix;
mod program;
mod qemu;
mod run;
mod scratch;
mod symbols;
mod sys;
mod topology;

pub use acceleration::{Acceleration, AccelerationChoice, kvm_boots};
pub use arch::Arch;
pub use error::LabError;
pub use guest::guest;
pub use kernel::{Cached, DEFAULT as DEFAULT_KERNEL, GuestKernel, HOST as HOST_KERNEL, Kernels};
pub use matrix::{CELL, Cell, MatrixError, Observer, matrix};
pub use program::emulator;
pub use run::{Lab, Options, Outcome, Produced};
pub use topology::{Distance, Topology};
