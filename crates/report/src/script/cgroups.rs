//! Paths of cgroups, by the ids that samples have.

use std::sync::Arc;

use pmuscope_perfdata::reader::Cgroup;
use rustc_hash::FxHashMap;

/// A recording can have any number of records, with a path of 4 KiB each.
const MOST: usize = 16 << 10;

/// Paths that records have told so far; clones share them. Foreign text.
#[derive(Debug, Clone, Default)]
pub(super) struct Cgroups {
    paths: FxHashMap<u64, Arc<[u8]>>,
}

impl Cgroups {
    pub(super) fn take(&mut self, cgroup: &Cgroup<'_>) {
        if self.paths.len() < MOST || self.paths.contains_key(&cgroup.id) {
            self.paths.insert(cgroup.id, cgroup.path.into());
        }
    }

    pub(super) fn path(&self, id: u64) -> Option<&[u8]> {
        self.paths.get(&id).map(|path| &**path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_path_counts_and_memory_is_bounded() {
        let mut cgroups = Cgroups::default();
        for (id, path) in [(7, &b"/old"[..]), (8, b"/b"), (7, b"/new")] {
            cgroups.take(&Cgroup { id, path });
        }
        assert_eq!((cgroups.path(7), cgroups.path(9)), (Some(&b"/new"[..]), None));
        (0..2 * MOST as u64).for_each(|id| cgroups.take(&Cgroup { id, path: b"/" }));
        assert_eq!((cgroups.paths.len(), cgroups.path(7)), (MOST, Some(&b"/"[..])));
    }
}
