//! Modules: what is mapped, each once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use pmuscope_perfdata::reader::{Metadata, Mmap, is_compiled_code, memory_limit};
use pmuscope_symbols::{
    BuildId, CodeCopy, CodeOrigin, FileOrigin, GeneratedCode, Inode, Module, ModuleFile,
    RecordingOrigin,
};
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
/// Stands for the path of memory without a file and without code.
const DATA: &[u8] = b"[memory]";
/// The name of the kernel's own image.
pub(crate) const KERNEL: &[u8] = b"[kernel.kallsyms]";
/// Code that uprobes call (Linux 6.18), and the 15 bytes of its name that records of mappings have.
const UPROBES: &[u8] = b"[uprobes-trampoline]";
const UPROBES_CUT: &[u8] = b"[uprobes-trampo";

/// A module as the records tell it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ModuleKey {
    pub(crate) kind: ModuleKind,
    /// Path, or a name in brackets.
    pub(crate) path: Vec<u8>,
    pub(crate) build_id: Option<Vec<u8>>,
    /// Of a file without a build ID: two of one path are two modules.
    pub(crate) inode: Option<Inode>,
    /// Of generated code: a process that executed another program describes that from then on, and an id may be used again.
    pub(crate) incarnation: u32,
}

impl ModuleKey {
    /// Code that a process generates, in this incarnation.
    pub(crate) fn generated(pid: i32, incarnation: u32) -> Self {
        let path = format!("perf-{pid}.map").into_bytes();
        let kind = ModuleKind::Jit { pid };
        Self { kind, path, build_id: None, inode: None, incarnation }
    }

    /// Memory of a process without a file that holds no code.
    fn data(pid: i32, incarnation: u32) -> Self {
        Self { path: DATA.to_vec(), ..Self::generated(pid, incarnation) }
    }

    /// Whether it is memory without a file that holds no code: a return address is not in it.
    pub(crate) fn is_data(&self) -> bool {
        matches!(self.kind, ModuleKind::Jit { .. }) && self.path == DATA
    }

    /// A mapping of a process.
    pub(crate) fn user(mmap: &Mmap<'_>, incarnation: u32) -> Self {
        let kind = match user_kind(mmap.pid, mmap.path) {
            ModuleKind::File if is_shared_code(mmap) => ModuleKind::Jit { pid: mmap.pid },
            kind => kind,
        };
        if let ModuleKind::Jit { pid } = kind {
            // A record that does not say how memory is protected is of code.
            if !mmap.executable && mmap.protection.is_some() {
                return Self::data(pid, incarnation);
            }
            let build_id = mmap.build_id.map(<[u8]>::to_vec);
            return Self { build_id, ..Self::generated(pid, incarnation) };
        }
        let path = if mmap.path == UPROBES_CUT { UPROBES } else { mmap.path }.to_vec();
        let is_file = kind == ModuleKind::File && mmap.build_id.is_none();
        let inode = mmap.inode.filter(|inode| is_file && inode.number != 0).map(|inode| Inode {
            major: inode.major,
            minor: inode.minor,
            number: inode.number,
        });
        let build_id = mmap.build_id.map(<[u8]>::to_vec);
        Self { kind, path, build_id, inode, incarnation: 0 }
    }

    /// A mapping of the kernel.
    pub(crate) fn kernel(path: &[u8], build_id: Option<&[u8]>) -> Self {
        let path = if path.is_empty() || path.starts_with(KERNEL) || path.starts_with(b"[guest") {
            KERNEL.to_vec()
        } else {
            kernel_module_name(path)
        };
        let build_id = build_id.map(<[u8]>::to_vec);
        Self { kind: ModuleKind::Kernel, path, build_id, inode: None, incarnation: 0 }
    }

    fn named(kind: ModuleKind, name: &[u8]) -> Self {
        Self { kind, path: name.to_vec(), build_id: None, inode: None, incarnation: 0 }
    }

    /// Whether it is code that the kernel mapped into a process and that has no symbols: its name says what it is.
    pub(crate) fn is_special_mapping(&self, number: ModuleId) -> bool {
        self.kind == ModuleKind::Other && number > CUT && self.path.starts_with(b"[")
    }

    /// The module as the symbolizer wants it; `None` where symbols cannot come from anywhere.
    pub(crate) fn source<'a>(
        &'a self,
        build_id: Option<&'a BuildId>,
        mapped: Option<&'a FileOrigin>,
    ) -> Option<Module<'a>> {
        self.kind.source(Path::new(OsStr::from_bytes(&self.path)), build_id, mapped)
    }
}

impl ModuleKind {
    /// [`ModuleKey::source`] of a module with this path.
    pub(crate) fn source<'a>(
        self,
        path: &'a Path,
        build_id: Option<&'a BuildId>,
        mapped: Option<&'a FileOrigin>,
    ) -> Option<Module<'a>> {
        match self {
            Self::File => Some(Module::File(ModuleFile { path, build_id, mapped })),
            Self::Kernel => Some(Module::Kernel),
            Self::Vdso => Some(Module::Vdso),
            Self::Jit { pid } => Some(Module::Jit { pid, origin: None }),
            Self::KernelLoaded | Self::Other => None,
        }
    }
}

/// Whether a mapping of a file is memory that a runtime writes code to, by another mapping of it: loaders map programs
/// and libraries privately, and changes of private mappings do not show in others.
fn is_shared_code(mmap: &Mmap<'_>) -> bool {
    /// `MAP_SHARED`.
    const SHARED: u32 = 1;
    let is_shared = mmap.protection.is_some_and(|(_, flags)| flags & SHARED != 0);
    mmap.executable && is_shared && mmap.build_id.is_none()
}

/// Names the kernel gives to memory without a file follow `mm/mmap.c` and `kernel/events/core.c`.
fn user_kind(pid: i32, path: &[u8]) -> ModuleKind {
    // Whole programs run from a memfd too; this one is the name that .NET gives its compiled code.
    // Most are files, whose second byte none of these names has.
    if let [b'/', second, ..] = path
        && !b"/mdaS".contains(second)
        && !is_compiled_code(path)
    {
        return ModuleKind::File;
    }
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

/// Origins of all files of a recording.
#[derive(Debug, Default)]
pub(crate) struct RecordedFiles {
    origin: Arc<RecordingOrigin>,
    /// Names of the copies that the recorder made of files without a build ID.
    copies: FxHashMap<Inode, String>,
    /// Copies of descriptions of generated code, by process.
    code: FxHashMap<i32, Vec<CodeCopy>>,
}

impl RecordedFiles {
    pub(crate) fn new(metadata: &Metadata) -> Self {
        let info = metadata.info.as_ref();
        let machine = info.map(|info| &info.machine);
        let told = machine.map(|machine| &machine.hostname[..]).filter(|name| !name.is_empty());
        let hostname = metadata.hostname.as_deref().or(told);
        let boot_id = machine.and_then(|machine| machine.boot_id.as_deref());
        let origin = RecordingOrigin::new(hostname, boot_id, metadata.recorded_until);
        let kept = || info.into_iter().flat_map(|info| &info.kept_files);
        let copies = kept().filter(|file| file.pid.is_none()).map(|file| {
            let inode = Inode { major: file.major, minor: file.minor, number: file.inode };
            (inode, file.copy.clone())
        });
        let mut code: FxHashMap<i32, Vec<CodeCopy>> = FxHashMap::default();
        for (pid, file) in kept().filter_map(|file| Some((file.pid?, file))) {
            let copy = CodeCopy { path: file.path.clone().into(), copy: file.copy.clone() };
            code.entry(pid).or_default().push(copy);
        }
        Self { origin: origin.into(), copies: copies.collect(), code }
    }

    /// Origin of the code of process `pid`, which started at that time.
    pub(crate) fn code_of(&self, pid: i32, started: Option<SystemTime>) -> CodeOrigin {
        let copies = self.code.get(&pid).cloned().unwrap_or_default();
        CodeOrigin { started, copies, recording: Arc::clone(&self.origin) }
    }
}

/// Processes that are kept of those that mapped a file: the last ones, which are the most likely to still run.
const MOST_PROCESSES: usize = 4;

/// All modules of a recording.
#[derive(Debug)]
pub(crate) struct Modules {
    list: Vec<ModuleKey>,
    /// Processes that mapped each, and what is added to their addresses.
    processes: Vec<Vec<(i32, u64)>>,
    ids: FxHashMap<ModuleKey, ModuleId>,
    /// Code that processes generated, by time, where that is [asked for](Modules::read_code).
    code: FxHashMap<ModuleId, GeneratedCode>,
    reads_code: bool,
    /// Copies of dumps that the recorder kept, by process and path.
    kept_dumps: FxHashMap<(i32, PathBuf), PathBuf>,
    /// The present, where records are read in order; nanoseconds.
    pub(crate) now: u64,
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
            processes: Vec::new(),
            ids: FxHashMap::default(),
            code: FxHashMap::default(),
            reads_code: false,
            kept_dumps: FxHashMap::default(),
            now: 0,
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
        self.processes.push(Vec::new());
        self.ids.insert(key, id);
        id
    }

    /// The number of a module, if it is known.
    pub(crate) fn known(&self, key: &ModuleKey) -> Option<ModuleId> {
        self.ids.get(key).copied()
    }

    /// Notes that a process mapped a file, `bias` being what is added to an address to have the offset in the file.
    pub(crate) fn mapped_by(&mut self, module: ModuleId, pid: i32, bias: u64) {
        let processes = &mut self.processes[module as usize];
        if module == UNKNOWN || processes.last() == Some(&(pid, bias)) {
            return;
        }
        processes.retain(|&(known, _)| known != pid);
        if processes.len() == MOST_PROCESSES {
            processes.remove(0);
        }
        processes.push((pid, bias));
    }

    /// Processes that mapped a module, the last one first, and what is added to their addresses.
    pub(crate) fn processes(&self, module: ModuleId) -> impl Iterator<Item = (i32, u64)> {
        self.processes[module as usize].iter().rev().copied()
    }

    /// From now on, dumps of generated code are read where processes map them, for names by time; those that the recorder
    /// kept from their copies.
    pub(crate) fn read_code(&mut self, metadata: &Metadata) {
        self.reads_code = true;
        for (pid, copies) in RecordedFiles::new(metadata).code {
            let kept =
                copies.into_iter().filter_map(|one| Some(((pid, one.path.clone()), one.file()?)));
            self.kept_dumps.extend(kept);
        }
    }

    /// Process `pid`, in this incarnation, mapped the dump at `path`. One that cannot be read is left to those who give names.
    pub(crate) fn add_dump(&mut self, pid: i32, incarnation: u32, path: &Path) {
        if !self.reads_code {
            return;
        }
        // At the path may be the dump of another container.
        let kept = self.kept_dumps.get(&(pid, path.to_owned()));
        let path = kept.map_or(path, PathBuf::as_path).to_owned();
        let module = self.intern(ModuleKey::generated(pid, incarnation));
        let code = self.code.entry(module).or_default();
        if code.read_more(&path).is_err() && code.is_empty() {
            self.code.remove(&module);
        }
    }

    /// Whether code of any process is known by time.
    #[inline]
    pub(crate) fn has_code(&self) -> bool {
        !self.code.is_empty()
    }

    /// Code of a module by time.
    pub(crate) fn code(&self, module: ModuleId) -> Option<&GeneratedCode> {
        self.code.get(&module)
    }

    /// A module of `others`, by its number here.
    pub(crate) fn adopt(&mut self, others: &Self, module: ModuleId) -> ModuleId {
        let own = self.intern(others.list[module as usize].clone());
        let processes = &others.processes[module as usize];
        processes.iter().for_each(|&(pid, bias)| self.mapped_by(own, pid, bias));
        own
    }

    /// What `files` says of a module; `None` if it is no file.
    pub(crate) fn mapped(&self, module: ModuleId, files: &RecordedFiles) -> Option<FileOrigin> {
        let key = self.list.get(module as usize).filter(|key| key.kind == ModuleKind::File)?;
        Some(FileOrigin {
            inode: key.inode,
            processes: self.processes(module).map(|(pid, _)| pid).collect(),
            copy: key.inode.and_then(|inode| files.copies.get(&inode).cloned()),
            recording: Arc::clone(&files.origin),
        })
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

    fn mapping(path: &str) -> Mmap<'_> {
        Mmap { pid: 7, path: path.as_bytes(), executable: true, ..Mmap::default() }
    }

    #[test]
    fn code_in_shared_memory_is_generated_whatever_its_name() {
        let kind = |path, flags, build_id| {
            let protection = Some((5, flags));
            ModuleKey::user(&Mmap { protection, build_id, ..mapping(path) }, 0).kind
        };
        for path in ["/memfd:any (deleted)", "/dev/shm/code", "/tmp/unlinked (deleted)"] {
            assert_eq!(kind(path, 1, None), ModuleKind::Jit { pid: 7 }, "{path}");
            assert_eq!(kind(path, 2, None), ModuleKind::File, "{path}");
        }
        assert_eq!(kind("/usr/bin/xz", 1, Some(&[7; 20])), ModuleKind::File);
    }

    #[test]
    fn files_of_one_path_are_modules_by_inode() {
        let mut modules = Modules::default();
        let inode = |number| {
            let inode = pmuscope_perfdata::reader::Inode { number, ..Default::default() };
            ModuleKey::user(&Mmap { inode: Some(inode), ..mapping("/app") }, 0)
        };
        let (one, other) = (modules.intern(inode(1)), modules.intern(inode(2)));
        assert_ne!(one, other);
        for pid in [1, 2, 3, 2, 4, 5] {
            modules.mapped_by(one, pid, 0);
        }
        let mapped = modules.mapped(one, &RecordedFiles::default()).unwrap();
        assert_eq!((mapped.inode.unwrap().number, mapped.processes), (1, vec![5, 4, 2, 3]));
        assert!(modules.mapped(other, &RecordedFiles::default()).unwrap().processes.is_empty());
        assert_eq!(modules.mapped(KERNEL_IMAGE, &RecordedFiles::default()), None);
    }

    #[test]
    fn names_decide_the_kind() {
        let kind = |path: &str| ModuleKey::user(&mapping(path), 0).kind;
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
        let uprobes = ModuleKey::user(&mapping("[uprobes-trampo"), 0);
        assert_eq!(uprobes.path, b"[uprobes-trampoline]");
        assert!(uprobes.is_special_mapping(CUT + 1) && !uprobes.is_special_mapping(UNKNOWN));
        assert!(!ModuleKey::user(&mapping("anon_inode:[perf_event]"), 0).is_special_mapping(9));
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
        let module = |number: u32| ModuleKey::user(&mapping(&format!("/{number:1000}")), 0);
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
