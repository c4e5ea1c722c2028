//! The kernel's own functions.
//!
//! `/proc/kallsyms` has the addresses of this boot: with address randomisation those of a recording
//! mean something only within the boot it was made in.

use blazesym::MaybeDefault;
use blazesym::symbolize::Input;
use blazesym::symbolize::source::{Kernel, Source};
use pmuscope_machine::Machine;

use crate::elf::symbol;
use crate::{BuildId, State, Symbol, Symbolizer};

/// Which kernel a recording was made with, as far as it says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelIdentity {
    /// As `uname -r`.
    pub release: Option<String>,
    /// Build id of the kernel image.
    pub build_id: Option<BuildId>,
    /// Random id of the boot.
    pub boot_id: Option<String>,
    /// Address of the symbol `_stext`, or `_text`.
    pub text: Option<u64>,
}

/// What the kernel of a recording is to the running one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelMatch {
    /// The same image at the same addresses.
    Same,
    /// The same image, at other or unknown addresses.
    OtherBoot,
    /// Another image.
    Other,
    /// The same image as far as one can see, but the running kernel hides its addresses.
    Hidden,
}

impl KernelMatch {
    /// The state of symbols that follows; `None` if they can be had.
    #[must_use]
    pub fn state(self) -> Option<State> {
        match self {
            Self::Same => None,
            Self::OtherBoot => Some(State::OtherBoot),
            Self::Other => Some(State::OtherKernel),
            Self::Hidden => Some(State::KernelHidden),
        }
    }

    /// Whether the vdso is that of the recording.
    #[must_use]
    pub fn same_image(self) -> bool {
        self != Self::Other
    }
}

impl KernelIdentity {
    /// The running kernel.
    #[must_use]
    pub fn of_running(machine: &Machine) -> Self {
        Self {
            release: machine.kernel().ok().map(|kernel| kernel.release),
            build_id: machine.kernel_build_id().and_then(|id| BuildId::new(&id).ok()),
            boot_id: machine.boot_id(),
            text: machine.kernel_text().map(|text| text.start),
        }
    }

    /// What this, recorded, kernel is to the running one.
    #[must_use]
    pub fn compare(&self, running: &Self) -> KernelMatch {
        let build = both(&self.build_id, &running.build_id, BuildId::same_build);
        let release = both(&self.release, &running.release, |a, b| a == b);
        let boot = both(&self.boot_id, &running.boot_id, |a, b| a == b);
        if boot != Some(true) && (build == Some(false) || release == Some(false)) {
            return KernelMatch::Other;
        }
        if boot.or(build).or(release).is_none() {
            return KernelMatch::Other; // nothing says that it is this one
        }
        let text = both(&self.text, &running.text, |a, b| a == b);
        match (boot, text) {
            (_, _) if running.text.is_none() => KernelMatch::Hidden,
            (Some(true), _) | (_, Some(true)) => KernelMatch::Same,
            _ => KernelMatch::OtherBoot,
        }
    }
}

/// Whether both are equal; `None` if one is not known.
fn both<T>(a: &Option<T>, b: &Option<T>, equal: impl Fn(&T, &T) -> bool) -> Option<bool> {
    Some(equal(a.as_ref()?, b.as_ref()?))
}

impl Symbolizer {
    /// Symbols of the running kernel and its modules.
    pub(crate) fn kernel(&mut self, addresses: &[u64]) -> Result<Vec<Option<Symbol>>, State> {
        let kernel = Kernel { vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() };
        let found = self
            .blaze
            .symbolize(&Source::Kernel(kernel), Input::AbsAddr(addresses))
            .map_err(|error| State::Unreadable(error.to_string()))?;
        let symbols: Vec<Option<Symbol>> =
            found.into_iter().map(|one| symbol(one, &mut self.names)).collect();
        if !symbols.is_empty() && symbols.iter().all(Option::is_none) {
            return Err(State::KernelHidden);
        }
        Ok(symbols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(release: &str, build: u8, boot: &str, text: u64) -> KernelIdentity {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        KernelIdentity {
            release: known(release),
            build_id: (build != 0).then(|| BuildId::new(&[build]).unwrap()),
            boot_id: known(boot),
            text: (text != 0).then_some(text),
        }
    }

    #[test]
    fn addresses_are_believed_only_within_their_boot() {
        let running = identity("6.1", 7, "b", 100);
        let against = |recorded: KernelIdentity| recorded.compare(&running);
        assert_eq!(against(identity("6.1", 7, "b", 100)), KernelMatch::Same);
        // perf's files know no boot, but where the kernel lay.
        assert_eq!(against(identity("6.1", 7, "", 100)), KernelMatch::Same);
        assert_eq!(against(identity("6.1", 0, "", 100)), KernelMatch::Same);
        assert_eq!(against(identity("6.1", 7, "", 200)), KernelMatch::OtherBoot);
        assert_eq!(against(identity("6.1", 7, "", 0)), KernelMatch::OtherBoot);
        assert_eq!(against(identity("6.1", 7, "a", 200)), KernelMatch::OtherBoot);
        // Rebooted without randomisation: another boot, the same addresses.
        assert_eq!(against(identity("6.1", 7, "a", 100)), KernelMatch::Same);
        assert_eq!(against(identity("6.1", 8, "", 100)), KernelMatch::Other);
        assert_eq!(against(identity("5.10", 0, "", 100)), KernelMatch::Other);
        assert_eq!(against(identity("", 0, "", 100)), KernelMatch::Other);
        assert_eq!(
            identity("6.1", 7, "b", 100).compare(&identity("6.1", 7, "b", 0)),
            KernelMatch::Hidden
        );
    }

    #[test]
    fn functions_of_the_running_kernel_are_found_where_it_shows_them() {
        let machine = Machine::host();
        let Some(text) = machine.kernel_text() else {
            eprintln!("skipped: this kernel hides its addresses");
            return;
        };
        let mut symbolizer = Symbolizer::new(crate::Options { inlined: false });
        let found = symbolizer.resolve(&crate::Module::Kernel, &[text.start + 1]);
        assert_eq!(found.state, State::Found);
        assert!(found.symbols[0].is_some());
        let identity = KernelIdentity::of_running(&machine);
        assert_eq!(identity.compare(&identity), KernelMatch::Same);
    }
}
