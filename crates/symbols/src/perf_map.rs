//! Functions that a runtime compiled, as it tells them in `/tmp/perf-PID.map`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::symbol::Names;
use crate::{State, Symbol, Symbolizer};

/// More bytes of a map than this are not read: some 10 million functions.
const LARGEST: u64 = 1 << 30;
/// A longer line is cut.
const LONGEST_LINE: u64 = 64 << 10;

/// Functions by address. Where two overlap the later one counts: a runtime reuses memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerfMap {
    /// First address to one past the last, and name; without overlaps.
    functions: BTreeMap<u64, (u64, Arc<str>)>,
}

impl PerfMap {
    /// Where a runtime of process `pid` writes its map.
    #[must_use]
    pub fn path(pid: i32) -> PathBuf {
        PathBuf::from(format!("/tmp/perf-{pid}.map"))
    }

    /// Reads the map at `path`. Lines are `START SIZE NAME`, the numbers hexadecimal; others are
    /// passed over.
    ///
    /// # Errors
    /// Those of opening and reading; a link or a device is refused, as anyone may write to `/tmp`.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        Self::read_with(path, &mut Names::default())
    }

    fn read_with(path: &Path, names: &mut Names) -> std::io::Result<Self> {
        if !std::fs::symlink_metadata(path)?.is_file() {
            return Err(std::io::Error::other("it is not a regular file"));
        }
        let mut reader = BufReader::new(std::fs::File::open(path)?.take(LARGEST));
        let mut map = Self::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                return Ok(map);
            }
            if let Some((start, size, name)) = parse(&line) {
                map.insert(start, size, names.intern(&name));
            }
        }
    }

    /// Name of the function at `address`.
    #[must_use]
    pub fn get(&self, address: u64) -> Option<&Arc<str>> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }

    /// Number of pieces of functions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Puts a function over what was there; each older one is cut or removed once, so that a map of
    /// n lines takes O(n log n).
    fn insert(&mut self, start: u64, size: u64, name: Arc<str>) {
        let Some(end) = start.checked_add(size.max(1)) else { return };
        if let Some((&before, (before_end, before_name))) =
            self.functions.range_mut(..start).next_back()
            && *before_end > start
        {
            let (old_end, name) = (*before_end, Arc::clone(before_name));
            *before_end = start;
            debug_assert!(before < start);
            if old_end > end {
                self.functions.insert(end, (old_end, name));
            }
        }
        while let Some((&inside, &(inside_end, _))) = self.functions.range(start..end).next() {
            let old = self.functions.remove(&inside);
            if let Some((_, name)) = old.filter(|_| inside_end > end) {
                self.functions.insert(end, (inside_end, name));
            }
        }
        self.functions.insert(start, (end, name));
    }
}

fn parse(line: &[u8]) -> Option<(u64, u64, String)> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.trim_end_matches(['\n', '\r']).splitn(3, ' ');
    let mut number = || {
        let field = fields.next()?;
        u64::from_str_radix(field.strip_prefix("0x").unwrap_or(field), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = fields.next()?.trim();
    (!name.is_empty()).then(|| (start, size, name.to_owned()))
}

impl Symbolizer {
    pub(crate) fn jit(
        &mut self,
        pid: i32,
        addresses: &[u64],
    ) -> Result<Vec<Option<Symbol>>, State> {
        let path = PerfMap::path(pid);
        let map =
            PerfMap::read_with(&path, &mut self.names).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => State::NoPerfMap,
                _ => State::Unreadable(error.to_string()),
            })?;
        let symbol = |name: &Arc<str>| Symbol {
            name: Arc::clone(name),
            line: None,
            inlined: Box::default(),
        };
        Ok(addresses.iter().map(|&address| map.get(address).map(symbol)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_none_are_passed_over_and_names_keep_their_spaces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf-1.map");
        std::fs::write(
            &path,
            "7f00 10 LazyCompile:~f a.js:1\n\nzz 1 x\n7f20 \n0x7f30 8 g\r\n40 2 \n",
        )
        .unwrap();
        let map = PerfMap::read(&path).unwrap();
        assert_eq!(map.len(), 2);
        assert_eq!(map.get(0x7f0f).map(|name| &**name), Some("LazyCompile:~f a.js:1"));
        assert_eq!(map.get(0x7f10), None);
        assert_eq!(map.get(0x7f37).map(|name| &**name), Some("g"));

        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(PerfMap::read(&link).is_err());
    }

    /// Against a table with one entry per address.
    #[test]
    fn the_later_function_counts() {
        let mut rng = 12345_u64;
        let mut next = |below: u64| {
            rng =
                rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (rng >> 33) % below
        };
        for _ in 0..200 {
            let mut map = PerfMap::default();
            let mut table = vec![None; 80];
            for number in 0..30 {
                let (start, size) = (next(60), next(20));
                map.insert(start, size, number.to_string().into());
                table[start as usize..(start + size.max(1)) as usize].fill(Some(number));
            }
            for (address, expected) in table.iter().enumerate() {
                let found = map.get(address as u64).map(|name| name.parse::<i32>().unwrap());
                assert_eq!(found, *expected);
            }
        }
    }
}
