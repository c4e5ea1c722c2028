//! Why there is nothing to watch. Each says what was typed and what to type instead.

use std::path::PathBuf;

use pmuscope_machine::MachineError;
use pmuscope_symbols::definitions::DefinitionError;

/// Why a target has no address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The process ended.
    #[error("cannot watch process {pid}: it has ended. Try: pgrep NAME to find a running one")]
    Gone {
        /// Its id.
        pid: u32,
    },
    /// The process is another user's, or protected.
    #[error(
        "cannot watch process {pid}: no permission to read {what}. Try: sudo pmuscope watch -p {pid} …"
    )]
    Denied {
        /// Its id.
        pid: u32,
        /// What may not be read.
        what: String,
    },
    /// A kernel thread, or a process that is about to end.
    #[error("cannot watch process {pid}: it has no user memory (a kernel thread, or it has ended)")]
    NoMemory {
        /// Its id.
        pid: u32,
    },
    /// Something about the process cannot be told.
    #[error("cannot watch process {pid}: {source}")]
    Machine {
        /// Its id.
        pid: u32,
        /// What the kernel said.
        source: MachineError,
    },
    /// The program cannot be opened, so nothing in it has a name.
    #[error("cannot watch {target}: cannot read {}: {why}", path.display())]
    File {
        /// As typed.
        target: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// No module of the process has it.
    #[error("cannot watch {target}: {source} ({looked_in})")]
    Definition {
        /// As typed.
        target: String,
        /// What the first module said.
        source: Box<DefinitionError>,
        /// Where it was looked for.
        looked_in: String,
    },
    /// Several modules have it.
    #[error("cannot watch {target}: several libraries define it. Try: {}", choices.join(", "))]
    Ambiguous {
        /// As typed.
        target: String,
        /// What to type for each.
        choices: Vec<String>,
    },
    /// The process has no such module.
    #[error(
        "cannot watch {target}: process {pid} has no module {module}{near}. Try: grep r-x /proc/{pid}/maps"
    )]
    NoModule {
        /// As typed.
        target: String,
        /// The process.
        pid: u32,
        /// As typed.
        module: String,
        /// Modules with names like it; begins with `. Near is `.
        near: String,
    },
    /// Nothing is there.
    #[error(
        "cannot watch {target}: nothing is mapped at {address:#x} in process {pid}. Try: cat /proc/{pid}/maps"
    )]
    NotMapped {
        /// As typed.
        target: String,
        /// The process.
        pid: u32,
        /// The address.
        address: u64,
    },
    /// A pointer on the way leads nowhere.
    #[error(
        "cannot watch {target}: the pointer at {at:#x} on the path is now {value:#x}, {why}. Try: \
         again once it is set, or watch the pointer: {at:#x}/8"
    )]
    BadPointer {
        /// As typed.
        target: String,
        /// Where the pointer is.
        at: u64,
        /// What it holds.
        value: u64,
        /// Why it cannot be followed.
        why: &'static str,
    },
    /// Hardware watches aligned places only.
    #[error("cannot watch {target}: {len} bytes at {address:#x} are not aligned. Try: {}", alternatives.join(", or "))]
    Unaligned {
        /// As typed.
        target: String,
        /// The address.
        address: u64,
        /// Bytes that were asked for.
        len: u64,
        /// What is aligned and holds it, or a part of it.
        alternatives: Vec<String>,
    },
    /// The size of the object is not known.
    #[error("cannot watch {target}: its size is unknown. Try: {name}/8")]
    NoSize {
        /// As typed.
        target: String,
        /// Without length and access.
        name: String,
    },
    /// A thread-local variable of that thread cannot be found.
    #[error("cannot watch {target}: {why}. Try: ls /proc/PID/task, for the threads of a process")]
    Thread {
        /// As typed.
        target: String,
        /// Why not.
        why: String,
    },
    /// Cache lines are of data in a process.
    #[error(
        "cannot watch the cache line of {target}: it is not data of a process. Try: a variable or 0xADDRESS"
    )]
    NoLine {
        /// As typed.
        target: String,
    },
    /// Too many lines for the few debug registers.
    #[error(
        "cannot watch the cache lines of {target}: its {bytes} bytes are in {lines} of them. Try: a field, an \
         element, or {first:#x}/8"
    )]
    ManyLines {
        /// As typed.
        target: String,
        /// Its size.
        bytes: u64,
        /// Cache lines that it is in.
        lines: u64,
        /// Its address.
        first: u64,
    },
    /// More than anybody has slots for.
    #[error(
        "cannot watch {target}: its {bytes} bytes would take {slots} debug registers. Try: a \
         field, an element, or {name}+0/8"
    )]
    TooLarge {
        /// As typed.
        target: String,
        /// Without length and access.
        name: String,
        /// Its size.
        bytes: u64,
        /// What it would take.
        slots: u64,
    },
    /// Code is not written to.
    #[error(
        "cannot watch {target}: {name} is a function, which is executed, not read or written. Try: {name}:x"
    )]
    Function {
        /// As typed.
        target: String,
        /// Without length and access.
        name: String,
    },
    /// Data are not executed.
    #[error(
        "cannot watch {target}: {name} is a variable, which is not executed. Try: {name}:w or {name}:rw"
    )]
    Variable {
        /// As typed.
        target: String,
        /// Without length and access.
        name: String,
    },
    /// Nothing executes what is there.
    #[error("cannot watch {target}: no code at {address:#x}. Try: :w or :rw at the end")]
    NotCode {
        /// As typed.
        target: String,
        /// The address.
        address: u64,
    },
    /// The kernel does not show its addresses.
    #[error(
        "cannot watch {target}: the kernel hides its addresses (kernel.kptr_restrict). Try: sudo pmuscope watch …, or sudo sysctl kernel.kptr_restrict=0"
    )]
    KernelHidden {
        /// As typed.
        target: String,
    },
    /// The kernel has it, but nothing can be watched there.
    #[error("cannot watch {target}: {why}")]
    Kernel {
        /// As typed.
        target: String,
        /// Why not, and what to do.
        why: String,
    },
}

impl ResolveError {
    /// Of what the machine said about process `pid`.
    pub(super) fn of_machine(pid: u32, what: &str, source: MachineError) -> Self {
        if source.is_gone() {
            Self::Gone { pid }
        } else if source.is_denied() {
            Self::Denied { pid, what: what.to_owned() }
        } else {
            Self::Machine { pid, source }
        }
    }
}
