//! The kernel's own functions.
//!
//! `/proc/kallsyms` has the addresses of this boot: with address randomization those of a recording
//! mean something only within the boot it was made in.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pmuscope_machine::Machine;
use rustc_hash::FxHashMap;

use crate::demangle::Demangler;
use crate::dwarf::DebugInfo;
use crate::file::{DebugAddress, DebugWork, FromTables};
use crate::image::{Image, of_io};
use crate::kallsyms::Kallsyms;
use crate::locate::Locator;
use crate::table::SymbolTable;
use crate::{BuildId, Options, State, Symbol};

/// The kernel that a recording was made with, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelIdentity {
    /// As `uname -r`.
    pub release: Option<String>,
    /// Build id of the kernel image.
    pub build_id: Option<BuildId>,
    /// Random id of the boot.
    pub boot_id: Option<String>,
    /// Address of the symbol `_stext`, or `_text`.
    pub text: TextAddress,
}

/// Where a kernel's text starts. Of the running kernel it is found when it is first asked for: most recordings from
/// elsewhere are known to be from elsewhere without it.
#[derive(Clone, Default)]
pub struct TextAddress {
    machine: Option<Machine>,
    found: Arc<OnceLock<Option<u64>>>,
}

impl TextAddress {
    fn of_running(machine: &Machine) -> Self {
        Self { machine: Some(machine.clone()), found: Arc::default() }
    }

    /// Address range of the running kernel's text; `None` for another kernel, or if addresses are hidden.
    fn range(&self) -> Option<Range<u64>> {
        let text = self.machine.as_ref()?.kernel_text()?;
        Some(text.start..text.end)
    }

    /// The address; `None` if it is not known, or hidden.
    #[must_use]
    pub fn get(&self) -> Option<u64> {
        let find = || self.machine.as_ref()?.kernel_text_start();
        *self.found.get_or_init(find)
    }
}

impl From<Option<u64>> for TextAddress {
    fn from(address: Option<u64>) -> Self {
        Self { machine: None, found: Arc::new(OnceLock::from(address)) }
    }
}

impl PartialEq for TextAddress {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for TextAddress {}

impl std::fmt::Debug for TextAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.found.get().fmt(f)
    }
}

/// How the kernel of a recording compares with the running one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelMatch {
    /// The same image at the same addresses.
    Same,
    /// The same image at other addresses, which are known: a reboot, or `perf inject --aslr`, which writes made-up ones.
    Moved(KernelShift),
    /// The same image, at other or unknown addresses.
    OtherBoot,
    /// Another image.
    Other,
    /// The same image as far as is known, but the running kernel hides its addresses.
    Hidden,
}

/// Distance of the running kernel's image from the recorded one. Functions of the image move together; modules, which
/// lie elsewhere at each boot, do not move with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelShift {
    /// Bytes, modulo 2^64.
    by: u64,
    /// The first address of the running kernel's text, and one past the last.
    text: (u64, u64),
}

impl KernelShift {
    /// The running kernel's address for a recorded address; `None` outside the text.
    #[must_use]
    pub fn address(&self, recorded: u64) -> Option<u64> {
        let address = recorded.wrapping_add(self.by);
        (self.text.0..self.text.1).contains(&address).then_some(address)
    }
}

impl KernelMatch {
    /// The resulting state of symbols where addresses have to be those of the running kernel; `None` if they are available.
    #[must_use]
    pub fn state(self) -> Option<State> {
        match self {
            Self::Same => None,
            Self::Moved(_) | Self::OtherBoot => Some(State::OtherBoot),
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
            text: TextAddress::of_running(machine),
        }
    }

    /// Compares this, the recorded kernel, with the running one.
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
        let (Some(starts), recorded) = (running.text.get(), self.text.get()) else {
            return KernelMatch::Hidden;
        };
        match recorded {
            Some(started) if started == starts => KernelMatch::Same,
            Some(started) if build == Some(true) => match running.text.range() {
                Some(text) => KernelMatch::Moved(KernelShift {
                    by: starts.wrapping_sub(started),
                    text: (text.start, text.end),
                }),
                None => KernelMatch::OtherBoot,
            },
            _ if boot == Some(true) => KernelMatch::Same,
            _ => KernelMatch::OtherBoot,
        }
    }
}

/// Whether both are equal; `None` if one is not known.
fn both<T>(a: &Option<T>, b: &Option<T>, equal: impl Fn(&T, &T) -> bool) -> Option<bool> {
    Some(equal(a.as_ref()?, b.as_ref()?))
}

/// What `/proc/kallsyms` says, and the kernel's debug information if it is installed.
#[derive(Debug)]
pub(crate) struct FromKernel {
    pub(crate) found: FromTables,
    /// Where the kernel's own text lies; modules come and go behind it.
    pub(crate) image: Option<Range<u64>>,
}

/// Symbols of the running kernel, of build `id`, and its modules; `addresses` ascend.
pub(crate) fn of_running(
    locator: &Locator<'_>,
    options: Options,
    id: Option<&BuildId>,
    addresses: &[u64],
) -> Result<FromKernel, State> {
    let kallsyms = Kallsyms::of_running().map_err(|error| of_io(&error))?;
    if !kallsyms.are_visible() {
        return Err(State::KernelHidden);
    }
    let mut demangler = Demangler::default();
    let mut names: FxHashMap<u32, Arc<str>> = FxHashMap::default();
    let symbol = |&address: &u64| {
        let (number, raw) = kallsyms.get(address)?;
        let name = names.entry(number).or_insert_with(|| demangler.name(raw));
        Some(Symbol::named(Arc::clone(name)))
    };
    let symbols = addresses.iter().map(symbol).collect();
    let mut found = FromTables { symbols, ..FromTables::default() };
    if let Some(id) = id.filter(|_| options.inlined) {
        let (debug, absent) = debug_info(locator, &kallsyms, id, addresses);
        (found.debug, found.absent) = (debug, absent);
    }
    Ok(FromKernel { found, image: kallsyms.image() })
}

/// The kernel's image as it was linked, if its debug package is installed, and how far address
/// randomisation moved it; and where the image is not, as in [`FromTables::absent`].
pub(crate) fn linked(
    locator: &Locator<'_>,
    kallsyms: &Kallsyms,
    id: &BuildId,
) -> (Option<(Image, u64)>, Vec<PathBuf>) {
    let release = Machine::host().kernel().map(|kernel| kernel.release).unwrap_or_default();
    let (image, absent) = locator.vmlinux(&release, id);
    let linked = image.and_then(|image| {
        let linked = SymbolTable::of_symtab(&image.elf().ok()?).address_of(b"_stext")?;
        let moved = kallsyms.address_of(b"_stext")?.wrapping_sub(linked);
        Some((image, moved))
    });
    (linked, absent)
}

/// Debug information of the kernel, if its package is installed: lines and inlined functions.
fn debug_info(
    locator: &Locator<'_>,
    kallsyms: &Kallsyms,
    id: &BuildId,
    addresses: &[u64],
) -> (Option<DebugWork>, Vec<PathBuf>) {
    let (linked, absent) = linked(locator, kallsyms, id);
    let work = linked.and_then(|(image, moved)| {
        let text = kallsyms.image()?;
        let addresses = (0_u32..)
            .zip(addresses)
            .filter(|(_, address)| text.contains(address))
            .map(|(index, address)| DebugAddress {
                index,
                address: address.wrapping_sub(moved),
                is_doubtful: false,
            })
            .collect();
        let info = DebugInfo::of(Arc::new(image), &locator.debug_dirs())?;
        Some(DebugWork { info: Arc::new(info), addresses })
    });
    (work, absent)
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
            text: (text != 0).then_some(text).into(),
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
    fn the_same_build_at_other_addresses_is_moved() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let kallsyms = "ffff000000000100 T _stext\nffff000000000200 T _etext\n";
        std::fs::write(root.path().join("proc/kallsyms"), kallsyms).unwrap();
        let machine = Machine::at(root.path());
        let text = TextAddress::of_running(&machine);
        let running = KernelIdentity { text, ..identity("6.1", 7, "b", 0) };
        let against = |recorded: KernelIdentity| recorded.compare(&running);
        // Lower and higher, after a reboot and within the boot (`perf inject --aslr`).
        for (boot, start) in [("a", 0xfff0_0000_0000_0100), ("b", 0xffff_ffff_0000_0000)] {
            let KernelMatch::Moved(shift) = against(identity("6.1", 7, boot, start)) else {
                panic!("{start:#x} is not moved");
            };
            assert_eq!(shift.address(start), Some(0xffff_0000_0000_0100));
            assert_eq!(shift.address(start + 0xff), Some(0xffff_0000_0000_01ff));
            assert_eq!((shift.address(start - 1), shift.address(start + 0x100)), (None, None));
        }
        let release_alone = against(identity("6.1", 0, "", 0xffff_ffff_0000_0000));
        assert_eq!(release_alone, KernelMatch::OtherBoot);
    }

    #[test]
    fn symbols_of_the_running_kernel_are_not_read_for_a_recording_of_another() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/sys/kernel/osrelease", "6.1.0\n");
        write("proc/sys/kernel/random/boot_id", "b\n");
        write("proc/kallsyms", "ffff000000000100 T _stext\nffff000000000200 T _etext\n");
        let running = KernelIdentity::of_running(&Machine::at(root.path()));
        let other = KernelIdentity { boot_id: Some("a".into()), ..identity("5.10", 7, "", 0) };
        assert_eq!(other.compare(&running), KernelMatch::Other);
        assert_eq!(KernelIdentity::default().compare(&running), KernelMatch::Other);
        assert_eq!(running.text.found.get(), None);
        let same = KernelIdentity { boot_id: running.boot_id.clone(), ..KernelIdentity::default() };
        assert!(same.boot_id.is_some());
        assert_eq!(same.compare(&running), KernelMatch::Same);
        assert_eq!(running.text.get(), Some(0xffff_0000_0000_0100));
    }

    #[test]
    fn functions_of_the_running_kernel_are_found_where_it_shows_them() {
        let machine = Machine::host();
        let Some(text) = machine.kernel_text() else {
            eprintln!("skipped: this kernel hides its addresses");
            return;
        };
        let mut symbolizer = crate::Symbolizer::new(crate::Options { inlined: false });
        let found = symbolizer.resolve(&crate::Module::Kernel, &[text.start + 1]);
        assert_eq!(found.state, State::Found);
        assert!(found.symbols[0].is_some());
        let identity = KernelIdentity::of_running(&machine);
        assert_eq!(identity.compare(&identity), KernelMatch::Same);
    }
}
