//! Recordings that are compressed, or come through a pipe in the form of a file: put into a temporary file, which is gone
//! when the program ends.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::bytes::Fields;
use super::error::ReadError;
use super::header;
use super::open::Input;

/// More of a recording is not put into a temporary file, bytes.
const LARGEST: u64 = 64 << 30;
/// Length of the magic and the header size, bytes.
const FRONT: usize = 16;
/// Memory that the xz decoder may take, KiB: its largest preset takes 65 MiB.
const XZ_MEMORY: u32 = 128 << 10;

/// A form of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
    Xz,
}

impl Packing {
    /// By the magic at the front.
    fn of(front: &[u8]) -> Option<Self> {
        match front {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            _ => None,
        }
    }

    /// How to unpack it by hand.
    fn command(self) -> &'static str {
        match self {
            Self::Gzip => "gzip -d",
            Self::Zstd => "zstd -d",
            Self::Xz => "xz -d",
        }
    }

    fn unpack(self, packed: impl Read) -> io::Result<File> {
        match self {
            Self::Gzip => spool(flate2::read::MultiGzDecoder::new(packed)),
            Self::Zstd => spool(zstd::stream::read::Decoder::new(packed)?),
            Self::Xz => spool(lzma_rust2::XzReader::new_mem_limit(packed, true, XZ_MEMORY)),
        }
    }
}

/// `file`, or what is in it where it is compressed.
pub(super) fn unpacked(file: File, path: &Path) -> Result<File, ReadError> {
    let mut front = [0; FRONT];
    let read = file.read_at(&mut front, 0).unwrap_or(0);
    match Packing::of(&front[..read]) {
        None => Ok(file),
        Some(packing) => packing.unpack(&file).map_err(error(path, Some(packing))),
    }
}

/// A stream of records; or a file, where a file comes through a pipe.
pub(super) fn stream(mut input: Box<dyn Read + Send>, path: &Path) -> Result<Input, ReadError> {
    let mut front = Vec::new();
    let read = input.by_ref().take(FRONT as u64).read_to_end(&mut front);
    read.map_err(|source| ReadError::Io { path: path.to_owned(), what: "read", source })?;
    let packing = Packing::of(&front);
    let is_file = is_file(&front);
    let input = io::Cursor::new(front).chain(input);
    let spooled = match packing {
        Some(packing) => packing.unpack(input),
        None if is_file => spool(input),
        None => return Ok(Input::Stream(Mutex::new(Some(Box::new(input))))),
    };
    Ok(Input::File(Arc::new(spooled.map_err(error(path, packing))?)))
}

/// Whether it begins as a file does, whose header is larger than that of a stream.
fn is_file(front: &[u8]) -> bool {
    let Some((magic, size)) = front.split_at_checked(8) else { return false };
    let size = header::endian_of(magic).and_then(|endian| Fields::new(size, endian).u64());
    size.is_some_and(|size| size > header::STREAM_SIZE)
}

/// All of `input`, as a file.
fn spool(input: impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    let size = io::copy(&mut input.take(LARGEST + 1), &mut file)?;
    if size > LARGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    file.flush()?;
    file.rewind()?;
    Ok(file)
}

fn error(path: &Path, packing: Option<Packing>) -> impl FnOnce(io::Error) -> ReadError {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::UnexpectedEof if packing.is_some() => ReadError::CutOff(path),
        _ => ReadError::Spool {
            path,
            what: if packing.is_some() { "unpacked" } else { "read from a pipe" },
            instead: packing.map_or("save it to a file first", Packing::command),
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn contents(mut file: File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn packed(bytes: &[u8]) -> [Vec<u8>; 2] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        [gzip.finish().unwrap(), zstd::encode_all(bytes, 1).unwrap()]
    }

    #[test]
    fn what_is_compressed_is_unpacked_and_what_is_not_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let plain = b"PERFILE2 and more".repeat(1000);
        let [gzip, zstd] = packed(&plain);
        for bytes in [&plain, &gzip, &zstd] {
            std::fs::write(&path, bytes).unwrap();
            let found = unpacked(File::open(&path).unwrap(), &path).unwrap();
            assert!(contents(found) == plain);
        }
        for packed in [&gzip, &zstd] {
            let error = |bytes: &[u8]| {
                std::fs::write(&path, bytes).unwrap();
                unpacked(File::open(&path).unwrap(), &path).unwrap_err().to_string()
            };
            for end in [packed.len() / 2, packed.len() - 1] {
                let cut = error(&packed[..end]);
                assert!(cut.contains("is cut off") && cut.contains("copy it again"), "{cut}");
            }
        }
        let mut damaged = gzip.clone();
        damaged[gzip.len() - 8] ^= 1; // its checksum
        std::fs::write(&path, &damaged).unwrap();
        let error = unpacked(File::open(&path).unwrap(), &path).unwrap_err().to_string();
        assert!(error.contains("cannot be unpacked") && error.contains("gzip -d"), "{error}");
    }

    #[test]
    fn a_file_through_a_pipe_is_a_file_and_a_stream_is_none() {
        let header = |size: u64| [&b"PERFILE2"[..], &size.to_le_bytes(), &[7; 100]].concat();
        let found = |bytes: Vec<u8>| stream(Box::new(io::Cursor::new(bytes)), Path::new("-"));
        let Ok(Input::File(file)) = found(header(104)) else { panic!("a file") };
        assert_eq!(contents(file.try_clone().unwrap()), header(104));
        let Ok(Input::File(file)) = found(packed(&header(104))[1].clone()) else {
            panic!("packed")
        };
        assert_eq!(contents(file.try_clone().unwrap()), header(104));
        for bytes in [header(16), b"other".to_vec(), Vec::new()] {
            let Ok(Input::Stream(input)) = found(bytes.clone()) else { panic!("{bytes:?}") };
            let mut read = Vec::new();
            input.into_inner().unwrap().unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, bytes);
        }
    }
}
