//! What records besides samples tell, as of the last one that was taken.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use pmuscope_perfdata::reader::{Entry, Metadata, Record};
use pmuscope_symbols::{BuildId, KernelIdentity};

use super::loss::StreamLoss;
use super::modules::Modules;
use super::tasks::Tasks;

/// What records besides samples tell.
#[derive(Debug, Default)]
pub(crate) struct Sideband {
    pub(crate) tasks: Tasks,
    pub(crate) modules: Modules,
    pub(crate) loss: StreamLoss,
    /// Where the kernel's text lay: the address of `_text` or `_stext`.
    pub(crate) kernel_text: Option<u64>,
    /// Files that runtimes mapped to tell where they describe their code, with the process.
    pub(crate) jit_dumps: BTreeSet<(i32, PathBuf)>,
}

impl Sideband {
    /// What a record besides samples changes, and the loss it may tell of.
    pub(crate) fn take_entry(&mut self, entry: &Entry<'_>) {
        self.loss.take(entry);
        self.take(&entry.record);
    }

    /// What a record besides samples changes.
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Mmap(mmap) => {
                if mmap.kernel && mmap.path.starts_with(b"[kernel.kallsyms]_") && mmap.offset != 0 {
                    self.kernel_text.get_or_insert(mmap.offset);
                }
                if is_jit_dump(mmap.path) {
                    let dump = (mmap.pid, PathBuf::from(OsStr::from_bytes(mmap.path)));
                    if self.jit_dumps.len() < MOST_JIT_DUMPS {
                        self.jit_dumps.insert(dump);
                    }
                }
                self.tasks.on_mmap(mmap, &mut self.modules);
            }
            Record::Comm(comm) => self.tasks.on_comm(comm),
            Record::Fork(task) => self.tasks.on_fork(task),
            Record::Exit(task) => self.tasks.on_exit(task),
            Record::Ksymbol(function) => self.tasks.on_ksymbol(function),
            _ => {}
        }
    }

    /// Mappings and names that there was no memory for.
    pub(crate) fn left_out(&self) -> u64 {
        let Self { tasks, modules, .. } = self;
        tasks.spaces.left_out() + tasks.names_left_out() + modules.left_out()
    }

    /// Which kernel recorded, as far as the recording says.
    pub(crate) fn kernel_identity(&self, metadata: &Metadata) -> KernelIdentity {
        let info = metadata.info.as_ref();
        let build_id = metadata
            .build_ids
            .iter()
            .find(|entry| entry.kernel && is_kernel_image(&entry.path))
            .and_then(|entry| BuildId::new(&entry.id).ok());
        let told = info.map(|info| info.machine.kernel.clone()).filter(|kernel| !kernel.is_empty());
        KernelIdentity {
            release: metadata.os_release.clone().or(told),
            build_id,
            boot_id: info.and_then(|info| info.machine.boot_id.clone()),
            text: self.kernel_text.into(),
        }
    }
}

/// A machine has few processes that write one.
const MOST_JIT_DUMPS: usize = 10_000;

fn is_jit_dump(path: &[u8]) -> bool {
    // The end first: to look for the start of a name goes over all of it.
    path.ends_with(b".dump")
        && path.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.starts_with(b"jit-"))
}

fn is_kernel_image(path: &[u8]) -> bool {
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    path.starts_with(b"[kernel.kallsyms]") || file.starts_with(b"vmlinux")
}
