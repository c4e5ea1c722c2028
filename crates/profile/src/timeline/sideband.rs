//! What records besides samples tell, as of the last one that was taken.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use pmuscope_abi::AttrFlags;
use pmuscope_perfdata::reader::{Entry, Event, Metadata, Mmap, Record};
use pmuscope_symbols::{BuildId, KernelIdentity};
use rustc_hash::FxHashMap;

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
    /// Build ID of the kernel, from its mapping.
    pub(crate) kernel_build_id: Option<BuildId>,
    /// Files that runtimes mapped to tell where they describe their code, with the process.
    pub(crate) jit_dumps: BTreeSet<(i32, PathBuf)>,
    /// When processes started, nanoseconds of the recording's clock; of those that started meanwhile.
    pub(crate) starts: FxHashMap<i32, u64>,
}

impl Sideband {
    /// From now on, code that processes generate is told apart by time, if all `events` have times of the clock that jitdumps
    /// have.
    pub(crate) fn read_code(&mut self, events: &[Event], metadata: &Metadata) {
        /// `CLOCK_MONOTONIC`.
        const MONOTONIC: i32 = 1;
        let is_monotonic = |event: &Event| {
            event.attr.flags.contains(AttrFlags::USE_CLOCKID) && event.attr.clockid == MONOTONIC
        };
        if events.iter().all(is_monotonic) {
            self.modules.read_code(metadata);
        }
    }

    /// What a record besides samples changes, and the loss it may tell of.
    pub(crate) fn take_entry(&mut self, entry: &Entry<'_>) {
        self.loss.take(entry);
        self.take(&entry.record);
        if let (Record::Fork(task), Some(time)) = (&entry.record, entry.time)
            && task.pid != task.parent_pid
            && !task.synthesised
            && self.starts.len() < MOST_STARTS
        {
            self.starts.insert(task.pid, time);
        }
    }

    /// When process `pid` started, in wall-clock time; `None` if it ran before the recording, or the recorder says not what
    /// its clock is.
    pub(crate) fn started(&self, pid: i32, metadata: &Metadata) -> Option<SystemTime> {
        let info = metadata.info.as_ref().filter(|info| info.started_clock_ns > 0)?;
        let since = self.starts.get(&pid)?.saturating_sub(info.started_clock_ns);
        let start = info.started_unix_ns.checked_add(since)?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(start))
    }

    /// What a record besides samples changes.
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        match record {
            _ if is_of_other_namespaces(record) => self.tasks.on_other_namespaces(),
            Record::Mmap(mmap) => {
                if let Some(text) = kernel_text(mmap) {
                    self.kernel_text.get_or_insert(text);
                    let build_id = mmap.build_id.and_then(|id| BuildId::new(id).ok());
                    self.kernel_build_id = self.kernel_build_id.take().or(build_id);
                }
                if is_jit_dump(mmap.path) {
                    let dump = (mmap.pid, PathBuf::from(OsStr::from_bytes(mmap.path)));
                    if self.jit_dumps.len() < MOST_JIT_DUMPS && !self.jit_dumps.contains(&dump) {
                        let incarnation = self.tasks.incarnation(dump.0);
                        self.modules.add_dump(dump.0, incarnation, &dump.1);
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
            .and_then(|entry| BuildId::new(&entry.id).ok())
            .or_else(|| self.kernel_build_id.clone());
        let told = info.map(|info| info.machine.kernel.clone()).filter(|kernel| !kernel.is_empty());
        KernelIdentity {
            release: metadata.os_release.clone().or(told),
            build_id,
            boot_id: info.and_then(|info| info.machine.boot_id.clone()),
            text: self.kernel_text.into(),
        }
    }
}

/// Whether a record of task id 0 cannot be of the idle task. Files of perf have its name.
fn is_of_other_namespaces(record: &Record<'_>) -> bool {
    match record {
        Record::Mmap(mmap) => !mmap.kernel && mmap.pid == 0 && mmap.tid == 0,
        Record::Comm(comm) => comm.tid == 0 && !comm.name.starts_with(b"swapper"),
        Record::Fork(task) | Record::Exit(task) => task.tid == 0,
        _ => false,
    }
}

/// A machine has few processes that write one.
const MOST_JIT_DUMPS: usize = 10_000;
/// Processes whose start is kept, 16 bytes each.
const MOST_STARTS: usize = 1 << 18;

fn is_jit_dump(path: &[u8]) -> bool {
    // The end first: to look for the start of a name goes over all of it.
    path.ends_with(b".dump")
        && path.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.starts_with(b"jit-"))
}

/// Address of the kernel's text by a mapping of its image: perf puts it into the offset, and names the symbol behind the name
/// of the mapping. `perf inject` leaves both out, where it gives mappings build IDs: the mapping begins there, too.
fn kernel_text(mmap: &Mmap<'_>) -> Option<u64> {
    if !mmap.kernel {
        return None;
    }
    let address = match mmap.path.strip_prefix(b"[kernel.kallsyms]")? {
        [] if mmap.offset == 0 => mmap.start,
        [b'_', ..] => mmap.offset,
        _ => return None,
    };
    (address != 0).then_some(address)
}

fn is_kernel_image(path: &[u8]) -> bool {
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    path.starts_with(b"[kernel.kallsyms]") || file.starts_with(b"vmlinux")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::reader::{Comm, TaskRecord};

    #[test]
    fn id_zero_of_a_container_is_all_tasks_outside() {
        let comm = |name| Record::Comm(Comm { pid: 0, tid: 0, name, exec: true });
        let mut sideband = Sideband::default();
        let name = |sideband: &Sideband| {
            String::from_utf8(sideband.tasks.shown(sideband.tasks.comm(0)).to_vec()).unwrap()
        };
        sideband.take(&comm(b"swapper/3"));
        assert!(!sideband.tasks.has_other_namespaces());
        assert_eq!(name(&sideband), "swapper/3");
        sideband.take(&comm(b"cc1"));
        assert!(sideband.tasks.has_other_namespaces());
        assert_eq!(name(&sideband), "[other PID namespaces]");
        // What one of them does is not done by all.
        let task = TaskRecord { pid: 0, parent_pid: 0, tid: 0, parent_tid: 0, synthesised: false };
        let epoch = sideband.tasks.epoch();
        for record in [Record::Exit(task), Record::Fork(task), comm(b"as")] {
            sideband.take(&record);
            assert_eq!(name(&sideband), "[other PID namespaces]");
        }
        assert_eq!(sideband.tasks.epoch(), epoch);
    }

    #[test]
    fn the_kernels_text_is_where_its_mapping_says_or_begins() {
        let text = |path: &'static [u8], start, offset| {
            kernel_text(&Mmap { kernel: true, path, start, offset, ..Mmap::default() })
        };
        assert_eq!(text(b"[kernel.kallsyms]_stext", 0x1000, 0x2000), Some(0x2000));
        assert_eq!(text(b"[kernel.kallsyms]_text", 0x1000, 0), None);
        assert_eq!(text(b"[kernel.kallsyms]", 0x1000, 0), Some(0x1000));
        assert_eq!(text(b"[kernel.kallsyms]", 0, 0), None);
        assert_eq!(text(b"[ext4]", 0x1000, 0), None);
    }

    /// `perf inject` drops the table of build IDs.
    #[test]
    fn the_kernels_build_id_may_be_that_of_its_mapping() {
        let mut sideband = Sideband::default();
        let path = b"[kernel.kallsyms]_text";
        let mmap = Mmap { kernel: true, path, offset: 0x1000, ..Mmap::default() };
        sideband.take(&Record::Mmap(Mmap { build_id: Some(&[7; 20]), ..mmap }));
        let identity = sideband.kernel_identity(&Metadata::default());
        assert_eq!(identity.build_id, BuildId::new(&[7; 20]).ok());
        assert_eq!(identity.text.get(), Some(0x1000));
    }
}
