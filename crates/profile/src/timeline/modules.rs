//! Modules: what is mapped, each once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pmuscope_perfdata::reader::{is_compiled_code, memory_limit};
use pmuscope_symbols::{BuildId, Module};
use rustc_hash::FxHashMap;

/// What a module is, hence where its symbols come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModuleKind {
    /// A file.
    File,
    /// The kernel or one of its modules.
    Kernel,
    /// Functions the kernel loaded at run time and told by name.
    KernelLoaded,
    /// The kernel's page of functions for programs.
    Vdso,
    /// Code in memory without a file, of this process.
    Jit {
        /// The process.
        pid: i32,
    },
    /// Anything else: guests, the hypervisor, devices, addresses where nothing is mapped.
    Other,
}

/// Index of a module.
pub(crate) type ModuleId = u32;

/// The module of addresses where nothing is mapped.
pub(crate) const UNKNOWN: ModuleId = 0;
/// The kernel's own image.
pub(crate) const KERNEL_IMAGE: ModuleId = 1;
/// Functions the kernel loaded and told by name.
pub(crate) const KERNEL_LOADED: ModuleId = 2;
/// The hypervisor.
pub(crate) const HYPERVISOR: ModuleId = 3;
/// Guests.
pub(crate) const GUEST: ModuleId = 4;
/// Stands for the callers that a stack was cut off from.
pub(crate) const CUT: ModuleId = 5;
/// The name of the kernel's own image.
pub(crate) const KERNEL: &[u8] = b"[kernel.kallsyms]";

/// A module as the records tell it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ModuleKey {
    pub(crate) kind: ModuleKind,
    /// Path, or a name in brackets.
    pub(crate) path: Vec<u8>,
    pub(crate) build_id: Option<Vec<u8>>,
}

impl ModuleKey {
    /// A mapping of a process.
    pub(crate) fn user(pid: i32, path: &[u8], build_id: Option<&[u8]>) -> Self {
        let kind = user_kind(pid, path);
        let path = match kind {
            ModuleKind::Jit { pid } => format!("perf-{pid}.map").into_bytes(),
            _ => path.to_vec(),
        };
        Self { kind, path, build_id: build_id.map(<[u8]>::to_vec) }
    }

    /// A mapping of the kernel.
    pub(crate) fn kernel(path: &[u8], build_id: Option<&[u8]>) -> Self {
        let path = if path.is_empty() || path.starts_with(KERNEL) || path.starts_with(b"[guest") {
            KERNEL.to_vec()
        } else {
            kernel_module_name(path)
        };
        Self { kind: ModuleKind::Kernel, path, build_id: build_id.map(<[u8]>::to_vec) }
    }

    fn named(kind: ModuleKind, name: &[u8]) -> Self {
        Self { kind, path: name.to_vec(), build_id: None }
    }

    /// The module as the symbolizer wants it; `None` where symbols cannot come from anywhere.
    pub(crate) fn source<'a>(&'a self, build_id: Option<&'a BuildId>) -> Option<Module<'a>> {
        self.kind.source(Path::new(OsStr::from_bytes(&self.path)), build_id)
    }
}

impl ModuleKind {
    /// [`ModuleKey::source`] of a module with this path.
    pub(crate) fn source<'a>(
        self,
        path: &'a Path,
        build_id: Option<&'a BuildId>,
    ) -> Option<Module<'a>> {
        match self {
            Self::File => Some(Module::File { path, build_id }),
            Self::Kernel => Some(Module::Kernel),
            Self::Vdso => Some(Module::Vdso),
            Self::Jit { pid } => Some(Module::Jit { pid }),
            Self::KernelLoaded | Self::Other => None,
        }
    }
}

/// Names the kernel gives to memory without a file follow `mm/mmap.c` and `kernel/events/core.c`.
fn user_kind(pid: i32, path: &[u8]) -> ModuleKind {
    // Whole programs run from a memfd too; this one is the name that .NET gives its compiled code.
    const IN_MEMORY: [&[u8]; 5] =
        [b"//anon", b"/memfd:doublemapper", b"/dev/zero", b"/anon_hugepage", b"/SYSV"];
    let in_memory = path.is_empty()
        || is_compiled_code(path)
        || [&b"[heap]"[..], b"[stack]"].contains(&path)
        || path.starts_with(b"[anon:")
        || IN_MEMORY.iter().any(|name| path.starts_with(name));
    if in_memory {
        ModuleKind::Jit { pid }
    } else if path == b"[vdso]" {
        ModuleKind::Vdso
    } else if path.starts_with(b"/") {
        ModuleKind::File
    } else {
        ModuleKind::Other
    }
}

/// `/lib/modules/…/ext4.ko.xz` and `[ext4]` are both `[ext4]`.
fn kernel_module_name(path: &[u8]) -> Vec<u8> {
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let Some(end) = file.windows(3).position(|part| part == b".ko") else { return file.to_vec() };
    let mut name = vec![b'['];
    name.extend(file[..end].iter().map(|&byte| if byte == b'-' { b'_' } else { byte }));
    name.push(b']');
    name
}

/// All modules of a recording.
#[derive(Debug)]
pub(crate) struct Modules {
    list: Vec<ModuleKey>,
    ids: FxHashMap<ModuleKey, ModuleId>,
    /// Bytes held, and at most; and how often there was no room for another.
    held: usize,
    most: usize,
    left_out: u64,
}

/// Bytes of a module in addition to its path: its key twice, and what is shown of it.
const MODULE_COST: usize = 2 * size_of::<ModuleKey>() + 256;

impl Default for Modules {
    fn default() -> Self {
        let mut modules = Self {
            list: Vec::new(),
            ids: FxHashMap::default(),
            held: 0,
            most: memory_limit() / 8,
            left_out: 0,
        };
        // In the order of their numbers.
        for (kind, name) in [
            (ModuleKind::Other, &b"[unknown]"[..]),
            (ModuleKind::Kernel, KERNEL),
            (ModuleKind::KernelLoaded, b"[bpf]"),
            (ModuleKind::Other, b"[hypervisor]"),
            (ModuleKind::Other, b"[guest]"),
            (ModuleKind::Other, b"[cut]"),
        ] {
            modules.intern(ModuleKey::named(kind, name));
        }
        modules
    }
}

impl Modules {
    /// The number of a module; where memory is at its limit, new ones are the unknown one.
    pub(crate) fn intern(&mut self, key: ModuleKey) -> ModuleId {
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        // Paths are kept here, as they are known here, and as they are shown.
        let cost = MODULE_COST + 3 * key.path.len();
        if self.held + cost > self.most {
            self.left_out += 1;
            return UNKNOWN;
        }
        self.held += cost;
        // Each takes a record, of which no file has 2^32.
        let id = self.list.len() as ModuleId;
        self.list.push(key.clone());
        self.ids.insert(key, id);
        id
    }

    /// Mappings of modules that were not kept.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(crate) fn list(&self) -> &[ModuleKey] {
        &self.list
    }

    /// Whether addresses within a module can have names.
    pub(crate) fn has_addresses(&self, module: ModuleId) -> bool {
        self.list[module as usize].kind != ModuleKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide_the_kind() {
        let kind = |path: &str| ModuleKey::user(7, path.as_bytes(), None).kind;
        assert_eq!(kind("/usr/bin/xz"), ModuleKind::File);
        assert_eq!(kind("/tmp/x (deleted)"), ModuleKind::File);
        assert_eq!(kind("/memfd:runc (deleted)"), ModuleKind::File);
        for memory in
            ["", "//anon", "/memfd:doublemapper (deleted)", "[heap]", "[anon:v8]", "/dev/zero"]
        {
            assert_eq!(kind(memory), ModuleKind::Jit { pid: 7 }, "{memory}");
        }
        assert_eq!(kind("[vdso]"), ModuleKind::Vdso);
        assert_eq!(kind("[vsyscall]"), ModuleKind::Other);
        assert_eq!(kind("anon_inode:[perf_event]"), ModuleKind::Other);
    }

    #[test]
    fn the_first_modules_are_those_that_are_always_there() {
        let modules = Modules::default();
        let path = |module: ModuleId| &modules.list()[module as usize].path[..];
        assert_eq!((path(UNKNOWN), path(KERNEL_IMAGE)), (&b"[unknown]"[..], KERNEL));
        assert_eq!((path(KERNEL_LOADED), path(HYPERVISOR)), (&b"[bpf]"[..], &b"[hypervisor]"[..]));
        assert_eq!((path(GUEST), path(CUT)), (&b"[guest]"[..], &b"[cut]"[..]));
    }

    #[test]
    fn paths_take_bounded_memory() {
        let mut modules = Modules { most: 1 << 20, ..Modules::default() };
        let module = |number: u32| ModuleKey::user(7, format!("/{number:1000}").as_bytes(), None);
        let ids: Vec<ModuleId> = (0..2000).map(|number| modules.intern(module(number))).collect();
        let kept = ids.iter().filter(|&&id| id != UNKNOWN).count();
        assert!((200..1000).contains(&kept), "{kept}");
        assert_eq!((modules.left_out(), modules.intern(module(0))), (2000 - kept as u64, ids[0]));
    }

    #[test]
    fn kernel_modules_have_one_name() {
        let name =
            |path: &str| String::from_utf8(ModuleKey::kernel(path.as_bytes(), None).path).unwrap();
        assert_eq!(name("[kernel.kallsyms]_text"), "[kernel.kallsyms]");
        assert_eq!(name("[kernel.kallsyms]_stext"), "[kernel.kallsyms]");
        assert_eq!(name("/lib/modules/6.1/kernel/fs/snd-pcm.ko.xz"), "[snd_pcm]");
        assert_eq!(name("[snd_pcm]"), "[snd_pcm]");
    }
}
