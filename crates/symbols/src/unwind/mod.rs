//! Unwinding: from the registers and the stack of a thread to its callers, by the tables that compilers
//! leave in `.eh_frame` and `.debug_frame`.
//!
//! ```text
//!  Unwinder ──► UnwindTable, one per module ──► Rule, per place in it ──► step: registers of the caller
//!               sections of the file             where the caller's
//!               or what a bundle has of it       registers are
//! ```
//!
//! A rule depends only on the module and the address in it, never on the process: code that unwinds
//! many stacks caches the rules of the addresses it met. Nothing is guessed: if tables do not say how
//! to continue, unwinding ends with the reason ([`Gap`], [`Lost`]).

mod codec;
mod expression;
mod frames;
pub(crate) mod generated;
mod regs;
mod rule;
mod step;
mod table;
#[cfg(test)]
mod tests;
mod trampolines;

use crate::jit::{self, CodeProcess};
use crate::locate::Locator;
use crate::{Bundle, Module, State, Symbolizer, file};

pub(crate) use codec::{StoredRules, rules_from_bytes, rules_to_bytes};
pub use frames::UnwindScratch;
pub use regs::{Arch, Registers};
pub use rule::Rule;
pub use step::{Caller, Lost, StackCopy};
use table::ElfTable;
pub(crate) use trampolines::Trampolines;

/// Why there is no rule for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Gap {
    /// The module has no information about the address.
    NoInformation,
    /// What it says is damaged, or more than is understood here.
    Damaged,
    /// The module's file is missing, or was replaced by another build.
    FileMissing,
    /// The file is there and cannot be read.
    Unreadable,
    /// The kernel's page of functions for programs, of another kernel than the running one.
    OtherKernel,
    /// Code generated at run time: no file describes it.
    Generated,
    /// The file is no ELF file, or one for another processor.
    NotElf,
    /// Code of a Go program without `.debug_frame`; Go writes no `.eh_frame`, and keeps frame pointers.
    Go,
}

/// Generated code that is left in a known way.
#[derive(Debug)]
enum Generated {
    Trampolines(Trampolines),
    /// What a bundle was given.
    Stored(StoredRules),
}

/// Finds tables.
#[derive(Debug)]
pub struct Unwinder<'a> {
    locator: Locator<'a>,
    bundle: Option<&'a Bundle>,
}

/// What is known about the addresses of a module.
#[derive(Debug)]
pub struct UnwindTable(RuleSource);

#[derive(Debug)]
enum RuleSource {
    Elf(Box<ElfTable>),
    /// What a bundle was given.
    Stored(StoredRules),
    /// Generated code, some of which is known.
    Generated(Generated),
    None(Gap),
}

impl Symbolizer {
    /// Finds tables where symbols are found: in files, or in the bundle if that has some.
    #[must_use]
    pub fn unwinder(&self) -> Unwinder<'_> {
        let bundle = self.bundle.as_ref().filter(|bundle| bundle.has_rules());
        Unwinder { locator: Locator::new(&self.sources), bundle }
    }
}

impl Unwinder<'_> {
    /// The table of `module`, for a program of machine `arch`. `same_kernel` says whether the running
    /// kernel is the one of the recording.
    #[must_use]
    pub fn table(&self, module: &Module<'_>, arch: Arch, same_kernel: bool) -> UnwindTable {
        if let Module::Jit { pid, origin } = *module {
            return UnwindTable(self.generated(
                module,
                CodeProcess { pid, origin, told: &[] },
                arch,
            ));
        }
        if let Some(bundle) = self.bundle {
            let rules = bundle.rules(module);
            return UnwindTable(
                rules.map_or(RuleSource::None(Gap::FileMissing), RuleSource::Stored),
            );
        }
        let image = match *module {
            Module::File(file) => self.locator.file(file),
            Module::Vdso if !same_kernel => Err(State::OtherKernel),
            Module::Vdso => file::vdso(),
            Module::Kernel | Module::Jit { .. } => {
                return UnwindTable(RuleSource::None(Gap::Generated));
            }
        };
        let id = match module {
            Module::File(file) => file.build_id,
            _ => None,
        };
        UnwindTable(match image.map(|image| ElfTable::new(image, id, &self.locator, arch)) {
            Ok(Some(table)) => RuleSource::Elf(Box::new(table)),
            Ok(None) | Err(State::NotElf) => RuleSource::None(Gap::NotElf),
            Err(State::OtherKernel) => RuleSource::None(Gap::OtherKernel),
            Err(
                State::FileMissing
                | State::FileReplaced
                | State::FileChanged
                | State::BuildIdDiffers { .. },
            ) => RuleSource::None(Gap::FileMissing),
            Err(_) => RuleSource::None(Gap::Unreadable),
        })
    }

    fn generated(&self, module: &Module<'_>, process: CodeProcess<'_>, arch: Arch) -> RuleSource {
        let known = match (self.bundle, arch) {
            (Some(bundle), _) => bundle.rules(module).map(Generated::Stored),
            (None, Arch::X86_64) => {
                let found = jit::trampolines(self.locator.sources(), process);
                (!found.is_empty()).then_some(Generated::Trampolines(found))
            }
            // Trampolines keep a frame pointer there.
            (None, Arch::Aarch64) => None,
        };
        known.map_or(RuleSource::None(Gap::Generated), RuleSource::Generated)
    }
}

impl UnwindTable {
    /// A table that returns `gap` for every address.
    #[must_use]
    pub fn without(gap: Gap) -> Self {
        Self(RuleSource::None(gap))
    }

    /// The unwind rule at an address, as [`Module`] counts it: a return address is looked up one
    /// byte earlier, within the call.
    ///
    /// # Errors
    /// Why there is no rule.
    pub fn rule(&self, place: u64, scratch: &mut UnwindScratch) -> Result<Rule, Gap> {
        match &self.0 {
            RuleSource::Elf(table) => table.rule(place, scratch),
            RuleSource::Stored(rules) => rules.get(place),
            RuleSource::Generated(Generated::Trampolines(known)) => {
                known.rule(place).ok_or(Gap::Generated)
            }
            RuleSource::Generated(Generated::Stored(rules)) => {
                rules.get(place).map_err(|_| Gap::Generated)
            }
            RuleSource::None(gap) => Err(*gap),
        }
    }
}
