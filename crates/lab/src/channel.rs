//! How results leave a guest: a header, what they are, and a mark behind it, in memory that guest and
//! host share (`ivshmem-plain`). They are whole, or an error; there is no third.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`] |
//! | 8 | 8 | version of the form |
//! | 16 | 8 | how far the guest is ([`GuestState`]) |
//! | 24 | 8 | length of the content |
//! | 32 | 8 | CRC-32 of the content |
//! | 40 | 8 | not 0: the host asks for the command to be ended, and for what there is by then |
//! | 48 | 8 | progress: odd while it is written, and another number after each time |
//! | 56 | 8 | progress: bytes that the command had complained of before these |
//! | 64 | 8 | progress: how many these are |
//! | 72 | up to 4024 | progress: the last of what it complained of |
//! | 4096 | length | content, filled up to 8 bytes |
//! | then | 8 | [`END`] + length |
//!
//! All numbers are little-endian. The state is written last.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::sys::SharedRegion;

const MAGIC: u64 = u64::from_le_bytes(*b"PMULAB\r\n");
const END: u64 = u64::from_le_bytes(*b"PMUDONE\n");
/// Raised whenever guest and host would not understand each other.
pub(crate) const VERSION: u64 = 1;
const CONTENT: usize = 4096;
/// What is around the content.
const AROUND: usize = CONTENT + 16;

const AT_VERSION: usize = 8;
const AT_STATE: usize = 16;
const AT_LENGTH: usize = 24;
const AT_CHECKSUM: usize = 32;
const AT_END: usize = 40;
const AT_SEQUENCE: usize = 48;
const AT_OFFSET: usize = 56;
const AT_SAID: usize = 64;
const SAID: usize = 72;
/// Bytes of progress that fit.
pub(crate) const MOST_SAID: usize = CONTENT - SAID;

/// How far a guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub(crate) enum GuestState {
    /// Its first process is not there yet.
    Boots = 0,
    /// Its first process sets it up.
    Started = 1,
    /// The command runs.
    Runs = 2,
    /// The results are here.
    Done = 3,
}

/// What is wrong with results.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error("cannot read it: {0}")]
    Read(#[from] io::Error),
    #[error(
        "it has version {0}, but this program reads {VERSION}: the guest ran another version of \
         pmuscope"
    )]
    Version(u64),
    #[error("{0}")]
    Damaged(&'static str),
}

/// The guest's end.
#[derive(Debug)]
pub(crate) struct Sender(SharedRegion);

impl Sender {
    pub(crate) fn new(region: SharedRegion) -> Self {
        let sender = Self(region);
        sender.number(AT_VERSION, VERSION);
        sender.number(0, MAGIC);
        sender
    }

    /// Bytes of content that fit.
    pub(crate) fn room(&self) -> usize {
        self.0.len().saturating_sub(AROUND)
    }

    /// Says how far the guest is.
    pub(crate) fn is(&self, state: GuestState) {
        self.number(AT_STATE, state as u64);
    }

    /// Hands over the results, at most [`Self::room`] bytes.
    pub(crate) fn send(&self, content: &[u8]) {
        self.0.store(CONTENT, content);
        let length = content.len() as u64;
        self.number(CONTENT + content.len().next_multiple_of(8), END.wrapping_add(length));
        self.number(AT_LENGTH, length);
        self.number(AT_CHECKSUM, crc32fast::hash(content).into());
        self.is(GuestState::Done);
    }

    /// Whether the host asks for the command to be ended.
    pub(crate) fn is_to_end(&self) -> bool {
        self.0.load(AT_END) != 0
    }

    /// The last of what the command complained of, at most [`MOST_SAID`] bytes, with how much there was before.
    pub(crate) fn says(&self, before: u64, last: &[u8]) {
        let sequence = self.0.load(AT_SEQUENCE);
        self.number(AT_SEQUENCE, sequence.wrapping_add(1));
        self.number(AT_OFFSET, before);
        self.number(AT_SAID, last.len() as u64);
        self.0.store(SAID, last);
        self.number(AT_SEQUENCE, sequence.wrapping_add(2));
    }

    fn number(&self, offset: usize, value: u64) {
        self.0.store(offset, &value.to_le_bytes());
    }
}

/// The host's end: a file that is the guest's memory.
#[derive(Debug)]
pub(crate) struct Receiver {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Receiver {
    /// Makes the file, of zeros that take no memory yet.
    pub(crate) fn create(path: &Path, bytes: u64) -> io::Result<Self> {
        let file =
            File::options().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        file.set_len(bytes)?;
        Ok(Self { path: path.to_owned(), file, bytes })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How far the guest is.
    pub(crate) fn state(&self) -> GuestState {
        let is = |n| if self.number(0).ok() == Some(MAGIC) { n } else { 0 };
        match self.number(AT_STATE).map_or(0, is) {
            1 => GuestState::Started,
            2 => GuestState::Runs,
            3 => GuestState::Done,
            _ => GuestState::Boots,
        }
    }

    /// Asks the guest to end its command, and for what there is by then.
    pub(crate) fn ask_for_end(&self) -> io::Result<()> {
        self.file.write_all_at(&1u64.to_le_bytes(), AT_END as u64)
    }

    /// The last of what the command complained of so far, with how many bytes there were before; `None` while it is
    /// being written.
    pub(crate) fn said(&self) -> Option<(u64, Vec<u8>)> {
        let sequence = self.number(AT_SEQUENCE).ok()?;
        let before = self.number(AT_OFFSET).ok()?;
        let length = usize::try_from(self.number(AT_SAID).ok()?).ok()?;
        let mut last = vec![0; length.min(MOST_SAID)];
        self.file.read_exact_at(&mut last, SAID as u64).ok()?;
        let is_whole = sequence.is_multiple_of(2) && self.number(AT_SEQUENCE).ok()? == sequence;
        is_whole.then_some((before, last))
    }

    /// The results.
    pub(crate) fn take(&self) -> Result<Vec<u8>, ChannelError> {
        if self.number(0)? != MAGIC {
            return Err(ChannelError::Damaged("nothing was written to it"));
        }
        match self.number(AT_VERSION)? {
            VERSION => {}
            other => return Err(ChannelError::Version(other)),
        }
        if self.state() != GuestState::Done {
            return Err(ChannelError::Damaged("the guest ended before it wrote them"));
        }
        let length = self.number(AT_LENGTH)?;
        if length > self.bytes.saturating_sub(AROUND as u64) {
            return Err(ChannelError::Damaged("they are larger than the shared memory"));
        }
        let end = CONTENT as u64 + length.next_multiple_of(8);
        if self.at(end)? != END.wrapping_add(length) {
            return Err(ChannelError::Damaged("their end marker is missing"));
        }
        // Checked against the size of the mapping above, which is memory of this machine.
        let mut content = vec![0; length as usize];
        self.file.read_exact_at(&mut content, CONTENT as u64)?;
        if u64::from(crc32fast::hash(&content)) != self.number(AT_CHECKSUM)? {
            return Err(ChannelError::Damaged("their checksum is wrong"));
        }
        Ok(content)
    }

    fn number(&self, offset: usize) -> io::Result<u64> {
        self.at(offset as u64)
    }

    fn at(&self, offset: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(folder: &Path) -> (Sender, Receiver) {
        let receiver = Receiver::create(&folder.join("region"), 64 << 10).unwrap();
        let file = File::options().read(true).write(true).open(receiver.path()).unwrap();
        assert_eq!(receiver.state(), GuestState::Boots);
        (Sender::new(SharedRegion::map(&file, 64 << 10).unwrap()), receiver)
    }

    #[test]
    fn results_of_any_length_arrive() {
        for length in [0, 1, 7, 8, 9, 4096, (64 << 10) - AROUND] {
            let folder = tempfile::tempdir().unwrap();
            let (sender, receiver) = pair(folder.path());
            let content: Vec<u8> = (0..length).map(|i| i as u8).collect();
            assert!(content.len() <= sender.room());
            sender.is(GuestState::Runs);
            assert_eq!(receiver.state(), GuestState::Runs);
            assert!(receiver.take().unwrap_err().to_string().contains("ended before"));
            sender.send(&content);
            assert_eq!(receiver.state(), GuestState::Done);
            assert_eq!(receiver.take().unwrap(), content);
        }
    }

    #[test]
    fn progress_and_the_wish_to_end_get_across() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, receiver) = pair(folder.path());
        assert_eq!((sender.is_to_end(), receiver.said()), (false, Some((0, Vec::new()))));
        sender.says(5, b"1/3: 2 s\n");
        assert_eq!(receiver.said(), Some((5, b"1/3: 2 s\n".to_vec())));
        sender.says(0, &[b'x'; MOST_SAID]);
        assert_eq!(receiver.said().unwrap().1.len(), MOST_SAID);
        receiver.ask_for_end().unwrap();
        assert!(sender.is_to_end());
        // While it is written it is not read.
        sender.number(AT_SEQUENCE, 7);
        assert_eq!(receiver.said(), None);
        sender.send(b"results");
        assert_eq!(receiver.take().unwrap(), b"results");
    }

    /// Every byte counts: whichever is damaged, there are no results.
    #[test]
    fn damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, receiver) = pair(folder.path());
        sender.send(b"results");
        let end = CONTENT + 16;
        for at in (0..AT_CHECKSUM + 8).chain(CONTENT..CONTENT + 7).chain(end - 8..end) {
            let mut byte = [0];
            receiver.file.read_exact_at(&mut byte, at as u64).unwrap();
            receiver.file.write_all_at(&[byte[0] ^ 0x40], at as u64).unwrap();
            assert!(receiver.take().is_err(), "byte {at}");
            receiver.file.write_all_at(&byte, at as u64).unwrap();
        }
        assert_eq!(receiver.take().unwrap(), b"results");
    }

    #[test]
    fn another_version_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, receiver) = pair(folder.path());
        sender.number(AT_VERSION, 2);
        assert!(receiver.take().unwrap_err().to_string().contains("version 2"));
    }
}
