//! Lists that were read, kept in the user's cache.
//!
//! ```text
//! pmuscope/events-index/2 CHECKSUM\n     the version: another one is another format
//! {"stamps":[…],"contents":{…}}\n        what was read when, and where its events are
//! [{"n":"L2_RQSTS.MISS",…},…]\n          a block for each file
//! ```
//!
//! Of it only the second line and the blocks of files for this CPU are taken apart. Nothing in it is
//! believed beyond what a list itself may say.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pmuscope_machine::{AtomicFile, Replace};
use serde::{Deserialize, Serialize};

use super::Listed;
use super::folder::{Contents, Stamp};

const SCHEMA: &str = "pmuscope/events-index/2";
/// A larger index is neither written nor read, bytes.
const LARGEST: u64 = 256 << 20;

#[derive(Serialize, Deserialize)]
struct IndexHead<S, C> {
    stamps: S,
    contents: C,
}

/// The text of an index, of which blocks are taken apart when they are asked for.
#[derive(Debug)]
pub(super) struct Stored {
    bytes: Vec<u8>,
    /// Where the blocks begin.
    blocks: usize,
}

impl Stored {
    /// The events of a block; none if it is damaged.
    pub(super) fn events(&self, (at, length): (usize, usize)) -> Vec<Listed> {
        let block = self
            .blocks
            .checked_add(at)
            .and_then(|start| self.bytes.get(start..start.checked_add(length)?));
        block.and_then(|block| serde_json::from_slice(block).ok()).unwrap_or_default()
    }
}

/// The file for the lists at `path`.
pub(super) fn place(cache: &Path, path: &Path) -> PathBuf {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let hash = crc32fast::hash(whole.as_os_str().as_encoded_bytes());
    let name = whole.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    cache.join(format!("lists-{name}-{hash:08x}.events"))
}

/// What is kept there, if it is of these very files.
pub(super) fn open(kept: &Path, stamps: &[Stamp]) -> Option<(Contents, Stored)> {
    let folder = fs::metadata(kept.parent()?).ok()?;
    // Whoever else may write here could give events other encodings.
    if folder.uid() != rustix::process::geteuid().as_raw() || folder.mode() & 0o022 != 0 {
        return None;
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(kept).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return None;
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    (&file).take(LARGEST).read_to_end(&mut bytes).ok()?;
    parse(bytes, stamps)
}

/// The same for the bytes of an index.
pub(super) fn parse(bytes: Vec<u8>, stamps: &[Stamp]) -> Option<(Contents, Stored)> {
    let first = bytes.iter().position(|&byte| byte == b'\n')?;
    let expected = format!("{SCHEMA} {:08x}", crc32fast::hash(&bytes[first + 1..]));
    if bytes[..first] != *expected.as_bytes() {
        return None;
    }
    let length = bytes[first + 1..].iter().position(|&byte| byte == b'\n')?;
    let blocks = first + 1 + length + 1;
    let head: IndexHead<Vec<Stamp>, Contents> =
        serde_json::from_slice(&bytes[first + 1..blocks - 1]).ok()?;
    (head.stamps == stamps).then_some((head.contents, Stored { bytes, blocks }))
}

/// Keeps what was read; notes in `contents` where the events of each file are.
pub(super) fn store(kept: &Path, stamps: &[Stamp], contents: &mut Contents) -> Option<()> {
    let bytes = encode(stamps, contents)?;
    if bytes.len() as u64 > LARGEST {
        return None;
    }
    let folder = kept.parent()?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
    let mut file = AtomicFile::create(kept, 0o600, Replace::Anything).ok()?;
    file.write_all(&bytes).ok()?;
    file.finish().ok()
}

fn encode(stamps: &[Stamp], contents: &mut Contents) -> Option<Vec<u8>> {
    let mut blocks = Vec::new();
    for file in &mut contents.files {
        let at = blocks.len();
        serde_json::to_writer(&mut blocks, &file.events).ok()?;
        file.block = (at, blocks.len() - at);
        blocks.push(b'\n');
    }
    let mut rest = serde_json::to_vec(&IndexHead { stamps, contents: &*contents }).ok()?;
    rest.push(b'\n');
    rest.extend(blocks);
    Some(with_checksum(&rest))
}

/// An index with its first line.
pub(super) fn with_checksum(rest: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{SCHEMA} {:08x}\n", crc32fast::hash(rest)).into_bytes();
    bytes.extend(rest);
    bytes
}
