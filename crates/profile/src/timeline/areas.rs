//! Names of memory without a file: `[heap]`, `[stack]`.

use std::sync::Arc;

use pmuscope_perfdata::reader::Record;
use pmuscope_symbols::RangeMap;
use rustc_hash::FxHashMap;

/// Foreign text; bytes that are no UTF-8 are replaced.
pub(crate) fn lossy(path: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(path).as_ref().into()
}

/// Names of memory without a file, by process: profiles of code keep none.
#[derive(Debug, Default)]
pub(crate) struct Areas(FxHashMap<i32, RangeMap<Arc<str>>>);

impl Areas {
    /// Takes the next record.
    pub(crate) fn see(&mut self, record: &Record<'_>) {
        match record {
            Record::Mmap(mmap) if !mmap.kernel && !mmap.path.is_empty() => {
                let name = lossy(mmap.path);
                let end = mmap.start.saturating_add(mmap.length);
                self.0.entry(mmap.pid).or_default().insert(mmap.start, end, name);
            }
            Record::Fork(task) if task.pid != task.parent_pid && !task.synthesised => {
                if let Some(areas) = self.0.get(&task.parent_pid).cloned() {
                    self.0.insert(task.pid, areas);
                }
            }
            Record::Comm(comm) if comm.exec => {
                self.0.remove(&comm.pid);
            }
            _ => {}
        }
    }

    /// The name of the memory at an address.
    pub(crate) fn get(&self, pid: i32, address: u64) -> Option<Arc<str>> {
        self.0.get(&pid)?.get(address).cloned()
    }
}

#[cfg(test)]
mod tests {
    use pmuscope_perfdata::reader::{Comm, Mmap, TaskRecord};

    use super::*;

    #[test]
    fn memory_has_the_name_it_was_mapped_with() {
        let mut areas = Areas::default();
        let mmap = |start, path| {
            Record::Mmap(Mmap { pid: 7, tid: 7, start, length: 0x1000, path, ..Mmap::default() })
        };
        areas.see(&mmap(0x1000, b"[heap]"));
        areas.see(&mmap(0x3000, b"[stack]"));
        let fork = TaskRecord { pid: 8, parent_pid: 7, tid: 8, parent_tid: 7, synthesised: false };
        areas.see(&Record::Fork(fork));
        areas.see(&Record::Comm(Comm { pid: 7, tid: 7, name: b"ls", exec: true }));
        let name = |pid, address| areas.get(pid, address);
        assert_eq!(name(8, 0x1fff).as_deref(), Some("[heap]"));
        assert_eq!(name(8, 0x3000).as_deref(), Some("[stack]"));
        assert_eq!((name(8, 0x2000), name(7, 0x1000), name(9, 0x1000)), (None, None, None));
    }
}
