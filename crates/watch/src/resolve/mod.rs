//! From what users typed to addresses in a process.
//!
//! ```text
//!  Target ─► modules: what the process has mapped, and how far from its file's addresses
//!            (/proc/PID/maps, program headers; files as the process sees them)
//!         ─► definitions: the object's place and type, in the program first, then in each library
//!         ─► memory: pointers on the way, as they are now (/proc/PID/mem)
//!         ─► pieces: aligned, of 1, 2, 4 or 8 bytes
//!         ─► words: all of the cache line that it is in, for who shares the line
//! ```
//!
//! What depends on the moment is in the [`Watchpoint`]: which pointers were followed, and notes for
//! people.

mod error;
mod kernel;
mod memory;
mod modules;
mod names;
mod pieces;
mod words;

use pmuscope_machine::Machine;
use pmuscope_symbols::Sources;
use pmuscope_symbols::definitions::ValueType;

pub use error::ResolveError;
pub use pieces::Piece;
pub use words::{Attention, LineWord, line_words, of_words};

use crate::slots::Kind;
use crate::target::{Access, Target, TargetLocation};
use memory::Process;
use modules::Modules;

/// Bytes that a bare address stands for; as perf and gdb have it.
const BARE: u64 = 4;

/// A target with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Watchpoint {
    /// As typed, without length and access.
    pub name: String,
    /// First address.
    pub address: u64,
    /// Bytes; of an instruction, what the kernel wants there.
    pub len: u64,
    /// What kind of slot it takes.
    pub kind: Kind,
    /// What stops a thread; as the hardware of this machine can tell.
    pub access: Access,
    /// One slot each: aligned pieces of an object, or each place that has the line's code.
    pub pieces: Vec<Piece>,
    /// How to read the bytes.
    pub value: ValueType,
    /// The type as its language writes it, where debug information tells.
    pub type_name: Option<String>,
    /// The file that defines it; `None`: an address, or the kernel.
    pub module: Option<String>,
    /// File and line that declare the variable.
    pub declared: Option<(String, u32)>,
    /// Pointers that were followed on the way, in order.
    pub followed: Vec<Followed>,
    /// Whether it lies in the kernel.
    pub in_kernel: bool,
    /// What one should know to read the result; a sentence each.
    pub notes: Vec<String>,
    /// Whether it is a word of which threads may use different bytes, as no type says what is there.
    pub is_untyped: bool,
    /// Whether it is watched in short turns only ([`Attention::Brief`]).
    pub is_brief: bool,
}

/// A pointer that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// Where it is.
    pub at: u64,
    /// What it held.
    pub pointer: u64,
}

/// Addresses of `targets` in process `pid`, one answer for each, in their order. Pointers are
/// followed as they are at this moment.
///
/// # Errors
/// Of the first target that has none; the error names it, and says what to type.
pub fn resolve(
    machine: &Machine,
    pid: u32,
    targets: &[Target],
) -> Result<Vec<Watchpoint>, ResolveError> {
    resolve_with(machine, pid, targets, &Sources::default())
}

/// [`resolve`], with debug information from `sources`.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_with(
    machine: &Machine,
    pid: u32,
    targets: &[Target],
    sources: &Sources,
) -> Result<Vec<Watchpoint>, ResolveError> {
    let process = Process::open(machine, pid)?;
    let modules = Modules::of(&process, sources);
    targets.iter().map(|target| of_target(machine, &process, &modules, target)).collect()
}

fn of_target(
    machine: &Machine,
    process: &Process<'_>,
    modules: &Modules<'_>,
    target: &Target,
) -> Result<Watchpoint, ResolveError> {
    match &target.place {
        _ if target.is_kernel() => kernel::one(machine, target),
        TargetLocation::Address(address) => at_address(process, target, *address),
        _ => names::one(process, modules, target).or_else(|error| {
            let otherwise = target
                .otherwise()
                .ok_or(())
                .and_then(|other| names::one(process, modules, &other).map_err(drop));
            otherwise.map_err(|()| error)
        }),
    }
}

/// Addresses of `targets` in the kernel, whatever runs.
///
/// # Errors
/// If one of them is not in the kernel; else as [`resolve`].
pub fn resolve_kernel(
    machine: &Machine,
    targets: &[Target],
) -> Result<Vec<Watchpoint>, ResolveError> {
    targets.iter().map(|target| kernel::one(machine, target)).collect()
}

fn at_address(
    process: &Process<'_>,
    target: &Target,
    address: u64,
) -> Result<Watchpoint, ResolveError> {
    let access = target.access.unwrap_or(Access::Write);
    let mapping = process.mapping_of(address).ok_or_else(|| ResolveError::NotMapped {
        target: target.text.clone(),
        pid: process.pid(),
        address,
    })?;
    let module = mapping.path.starts_with(b"/");
    let module = module.then(|| String::from_utf8_lossy(&mapping.path).into_owned());
    let place = pieces::Object {
        target,
        address,
        len: target.len.unwrap_or(BARE),
        of_type: target.len.is_none(),
    };
    let mut found = match access {
        Access::Execute if !mapping.executable => {
            return Err(ResolveError::NotCode { target: target.text.clone(), address });
        }
        Access::Execute => pieces::code(target, &[address])?,
        access => pieces::data(&place, access)?,
    };
    found.module = module;
    if target.len.is_none() && access != Access::Execute {
        found.notes.push(format!("{BARE} bytes at {address:#x} by default; add /8 for more"));
    }
    Ok(found)
}
