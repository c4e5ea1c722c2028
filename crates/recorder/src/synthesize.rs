//! Records that describe what existed before the recording: the kernel's text, its modules, and the
//! threads and executable mappings of running processes.
//!
//! They carry time 0 and id 0, as perf's own do, so that readers put them before everything else. The
//! file's rounds begin only when all of them are written.

use std::os::unix::ffi::OsStrExt as _;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_machine::{Machine, Mapping};
use pmuscope_symbols::Inode;
use rustc_hash::FxHashMap;

use crate::mapped::{FindBuildId, MappedFile};

/// Bytes of records to collect before they are written.
const CHUNK: usize = 256 << 10;
/// `PROT_READ`, `PROT_WRITE`, `PROT_EXEC` and `MAP_PRIVATE`, `MAP_SHARED` as mmap2 records have them.
const PROT: [u32; 3] = [1, 2, 4];
const MAP_SHARED: u32 = 1;
const MAP_PRIVATE: u32 = 2;

/// Whose state to describe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Processes {
    /// The kernel alone.
    None,
    /// Every process.
    All,
    /// These.
    These(Vec<u32>),
}

/// Writes the description through `append`, in pieces of whole records.
pub(crate) fn synthesize(
    machine: &Machine,
    processes: &Processes,
    data_mappings: bool,
    find_build_id: Option<FindBuildId<'_>>,
    append: &mut dyn FnMut(&[u8]),
) {
    let mut writer = RecordWriter {
        machine,
        data_mappings,
        find_build_id,
        build_ids: FxHashMap::default(),
        out: Vec::with_capacity(CHUNK + (8 << 10)),
        append,
    };
    writer.kernel();
    let pids = match processes {
        Processes::None => Vec::new(),
        // Unreadable /proc leaves names unresolved; the recording itself is sound.
        Processes::All => machine.processes().unwrap_or_default(),
        Processes::These(pids) => pids.clone(),
    };
    for pid in pids {
        writer.process(pid);
    }
    RecordBuilder::new(&mut writer.out, kind::FINISHED_INIT, 0).finish();
    writer.flush();
}

struct RecordWriter<'a> {
    machine: &'a Machine,
    data_mappings: bool,
    find_build_id: Option<FindBuildId<'a>>,
    /// By device and inode: a library is looked up once, not once per process.
    build_ids: FxHashMap<(u32, u32, u64), Option<Vec<u8>>>,
    out: Vec<u8>,
    append: &'a mut dyn FnMut(&[u8]),
}

impl RecordWriter<'_> {
    fn kernel(&mut self) {
        if let Some(text) = self.machine.kernel_text() {
            let name = format!("[kernel.kallsyms]{}", text.symbol);
            // The offset is the address of the reference symbol, from which readers learn by how much
            // this boot's kernel was moved.
            let len = text.end.saturating_sub(text.start);
            self.kernel_mapping(text.start, len, text.start, &name);
        }
        for module in self.machine.modules() {
            let name = match &module.path {
                Some(path) => path.to_string_lossy().into_owned(),
                None => format!("[{}]", module.name),
            };
            self.kernel_mapping(module.address, module.size, 0, &name);
        }
    }

    /// MMAP: pid, tid, start, length, offset, name, identification.
    fn kernel_mapping(&mut self, start: u64, len: u64, offset: u64, name: &str) {
        let record = RecordBuilder::new(&mut self.out, kind::MMAP, misc::KERNEL)
            .u32(u32::MAX)
            .u32(0)
            .u64(start)
            .u64(len)
            .u64(offset)
            .text(name);
        identification(record, u32::MAX, 0).finish();
        self.flush_if_large();
    }

    /// A process that ends meanwhile leaves what was found until then.
    fn process(&mut self, pid: u32) {
        let Ok(tids) = self.machine.threads(pid) else { return };
        for tid in tids {
            let Ok(task) = self.machine.task(pid, tid) else { continue };
            let parent = if tid == pid { task.ppid } else { pid };
            let fork = RecordBuilder::new(&mut self.out, kind::FORK, 0)
                .u32(pid)
                .u32(parent)
                .u32(tid)
                .u32(parent)
                .u64(0);
            identification(fork, pid, tid).finish();
            let comm = &task.comm[..task.comm.len().min(15)];
            let record =
                RecordBuilder::new(&mut self.out, kind::COMM, 0).u32(pid).u32(tid).name(comm);
            identification(record, pid, tid).finish();
        }
        let mappings = self.machine.mappings(pid).unwrap_or_default();
        let program = self.machine.root().join(format!("proc/{pid}/exe"));
        // Kernel threads have none.
        let program = std::fs::read_link(program).unwrap_or_default();
        for (at, mapping) in mappings.iter().enumerate() {
            let text = moved_text(&mappings, at, program.as_os_str().as_bytes());
            text.iter().for_each(|text| self.mapping(pid, text));
            if mapping.executable || self.data_mappings && mapping.readable {
                self.mapping(pid, mapping);
            }
        }
        self.flush_if_large();
    }

    /// MMAP2: pid, tid, start, length, offset, then device, inode and generation or a build id, then
    /// protection, flags, name, identification.
    fn mapping(&mut self, pid: u32, mapping: &Mapping) {
        let build_id = self.build_id(pid, mapping);
        let mut bits = misc::USER;
        if build_id.is_some() {
            bits |= misc::MMAP_BUILD_ID;
        }
        if !mapping.executable {
            bits |= misc::MMAP_DATA;
        }
        let record = RecordBuilder::new(&mut self.out, kind::MMAP2, bits)
            .u32(pid)
            .u32(pid)
            .u64(mapping.start)
            .u64(mapping.end - mapping.start)
            .u64(mapping.offset);
        let record = match &build_id {
            Some(id) => {
                let mut padded = [0_u8; 20];
                padded[..id.len()].copy_from_slice(id);
                record.u8(id.len() as u8).u8(0).u16(0).bytes(&padded)
            }
            None => record.u32(mapping.major).u32(mapping.minor).u64(mapping.inode).u64(0),
        };
        let rights = [mapping.readable, mapping.writable, mapping.executable];
        let protection = PROT.iter().zip(rights).map(|(bit, set)| if set { *bit } else { 0 }).sum();
        let shared = if mapping.shared { MAP_SHARED } else { MAP_PRIVATE };
        let record = record.u32(protection).u32(shared).name(name_of(mapping));
        identification(record, pid, pid).finish();
    }

    fn build_id(&mut self, pid: u32, mapping: &Mapping) -> Option<Vec<u8>> {
        let find = self.find_build_id?;
        if mapping.inode == 0 || !mapping.path.starts_with(b"/") {
            return None;
        }
        let key = (mapping.major, mapping.minor, mapping.inode);
        self.build_ids
            .entry(key)
            .or_insert_with(|| {
                let Mapping { major, minor, inode: number, .. } = *mapping;
                let inode = Inode { major, minor, number };
                let file = MappedFile { pid, inode, path: &mapping.path };
                find(file).filter(|id| (1..=20).contains(&id.len()))
            })
            .clone()
    }

    fn flush_if_large(&mut self) {
        if self.out.len() >= CHUNK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        (self.append)(&self.out);
        self.out.clear();
    }
}

/// The text of a process's own program as it was before memory without a file took its place (programs copy their text to
/// huge pages); the `at`th mapping is that memory.
///
/// ```text
///  before   r-- program 0    r-x program 0x1000    r-- program 0x5000
///  now      r-- program 0    r-x                   r-- program 0x5000
/// ```
/// `None` where the parts of the file around it are not as far from each other as in the file.
fn moved_text(mappings: &[Mapping], at: usize, program: &[u8]) -> Option<Mapping> {
    let is_memory = |mapping: &Mapping| mapping.inode == 0 && mapping.path.is_empty();
    let here = mappings.get(at).filter(|here| is_memory(here) && here.executable)?;
    let (before, after) = mappings.split_at(at);
    let before = before.iter().rev().find(|mapping| !is_memory(mapping))?;
    let after = after.iter().find(|mapping| !is_memory(mapping))?;
    let is_program = |mapping: &Mapping| mapping.path == program;
    let distance = |mapping: &Mapping| mapping.start.wrapping_sub(mapping.offset);
    let is_gap = is_program(before) && is_program(after) && distance(before) == distance(after);
    is_gap.then(|| Mapping {
        start: here.start,
        end: here.end,
        offset: here.start.wrapping_sub(distance(before)),
        readable: true,
        writable: false,
        executable: true,
        ..before.clone()
    })
}

/// Names as mmap records have them: memory without a file is `//anon`.
fn name_of(mapping: &Mapping) -> &[u8] {
    if mapping.path.is_empty() { b"//anon" } else { &mapping.path[..mapping.path.len().min(4095)] }
}

/// The trailer of records that are no samples, for the fields all our events have: thread, time, CPU,
/// identifier.
fn identification(record: RecordBuilder<'_>, pid: u32, tid: u32) -> RecordBuilder<'_> {
    record.u32(pid).u32(tid).u64(0).u64(0).u64(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::record::Records;

    fn of_this_process(find: Option<FindBuildId<'_>>) -> Vec<u8> {
        let mut out = Vec::new();
        let me = Processes::These(vec![std::process::id()]);
        let mut append = |bytes: &[u8]| out.extend_from_slice(bytes);
        synthesize(&Machine::host(), &me, false, find, &mut append);
        out
    }

    #[test]
    fn memory_in_the_place_of_the_programs_text_follows_the_text() {
        let mapping = |start, offset, path: &str, executable| Mapping {
            start,
            end: start + 0x1000,
            offset,
            readable: true,
            writable: false,
            executable,
            shared: false,
            major: 8,
            minor: 1,
            inode: if path.is_empty() { 0 } else { 7 },
            path: path.into(),
        };
        let of = |offset_behind, path: &str| {
            let mappings = [
                mapping(0x1000, 0, "/bin/a", false),
                mapping(0x2000, 0, "", true),
                mapping(0x3000, 0, "", false),
                mapping(0x4000, offset_behind, path, false),
                mapping(0x5000, 0, "", true),
            ];
            let found = [0, 1, 2, 3, 4].map(|at| moved_text(&mappings, at, b"/bin/a"));
            found.map(|text| text.map(|text| (text.start, text.end, text.offset, text.inode)))
        };
        assert_eq!(
            of(0x3000, "/bin/a"),
            [None, Some((0x2000, 0x3000, 0x1000, 7)), None, None, None]
        );
        assert_eq!((of(0x4000, "/bin/a"), of(0x3000, "/bin/b")), ([None; 5], [None; 5]));
    }

    #[test]
    fn this_process_is_described_with_its_own_file() {
        let exe = std::env::current_exe().unwrap();
        let out = of_this_process(None);
        let names = |wanted| {
            Records::new(&out)
                .filter(move |(header, _)| header.kind == wanted)
                .map(|(_, r)| r.to_vec())
        };
        assert!(names(kind::COMM).count() >= 1);
        let has_exe = |record: &Vec<u8>| {
            record.windows(exe.as_os_str().len()).any(|w| w == exe.as_os_str().as_encoded_bytes())
        };
        assert!(names(kind::MMAP2).any(|record| has_exe(&record)));
        assert_eq!(Records::new(&out).last().unwrap().0.kind, kind::FINISHED_INIT);
        assert!(Records::new(&out).all(|(header, _)| header.size % 8 == 0));
    }

    #[test]
    fn a_file_is_asked_for_its_build_id_once() {
        let asked = std::cell::RefCell::new(Vec::new());
        let find = |file: MappedFile<'_>| {
            asked.borrow_mut().push(file.path.to_owned());
            Some(vec![7; 20])
        };
        let out = of_this_process(Some(&find));
        let mut asked = asked.into_inner();
        let count = asked.len();
        asked.sort();
        asked.dedup();
        assert!(count > 0 && asked.len() == count);
        let with_id = Records::new(&out).filter(|(header, _)| {
            header.kind == kind::MMAP2 && header.misc & misc::MMAP_BUILD_ID != 0
        });
        assert!(with_id.count() > 0);
    }
}
