//! Functions that a runtime compiled, as listed in `/tmp/perf-PID.map`.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::RangeMap;
use crate::symbol::InternedNames;

/// More bytes of a map than this are not read: some 10 million functions.
const LARGEST: u64 = 1 << 30;
/// A longer line is cut.
const LONGEST_LINE: u64 = 64 << 10;

/// Functions by address. Where two overlap the later one counts: a runtime reuses memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerfMap {
    functions: RangeMap<Arc<str>>,
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
        Self::read_with(path, &mut InternedNames::default())
    }

    fn read_with(path: &Path, names: &mut InternedNames) -> std::io::Result<Self> {
        Self::of_file(open_no_link(path)?, names)
    }

    /// The map in an open file.
    pub(crate) fn of_file(file: File, names: &mut InternedNames) -> std::io::Result<Self> {
        let mut map = Self::default();
        each_function(file, |start, size, name| {
            // A function without a size has at least its first byte.
            map.functions.insert(start, start.saturating_add(size.max(1)), names.intern(name));
        })?;
        Ok(map)
    }

    /// Name of the function at `address`.
    #[must_use]
    pub fn get(&self, address: u64) -> Option<&Arc<str>> {
        self.functions.get(address)
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
}

/// Hands out start, size and name of the functions in a map, in its order.
pub(crate) fn each_function(
    file: File,
    mut take: impl FnMut(u64, u64, &str),
) -> std::io::Result<()> {
    let mut reader = BufReader::new(file.take(LARGEST));
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if let Some((start, size, name)) = parse(&line) {
            take(start, size, &name);
        }
    }
}

/// Opens a regular file that is no link: anyone may write to `/tmp`.
pub(crate) fn open_no_link(path: &Path) -> std::io::Result<File> {
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    // One that takes its place now is no link either, and no pipe that lets a reader wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("it is not a regular file")),
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
}
