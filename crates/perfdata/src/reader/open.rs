//! Opens what can hold a recording: a file, a stream, a directory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::about::About;
use super::bytes::{Endian, Fields};
use super::error::ReadError;
use super::header::{self, FileLayout, FileState};
use super::order::Order;
use super::progress::{Counted, Progress, Stage};
use super::scan::Seekable;
use super::source::Source;
use super::stream::Stream;
use super::{Reader, STDIN, Tally, metadata};

/// Name of the file in a directory that is a recording by itself; others continue it.
const FRONT: &str = "data";
/// What the names of those others start with.
const PART: &[u8] = b"data.";

/// Opens `path`. Of a stream nothing but its header is read.
pub(super) fn open(path: &Path, all: bool) -> Result<Reader, ReadError> {
    let opening = Opening { path, all };
    if path.as_os_str() == STDIN {
        // `-i - < FILE` is a file, with all that can be read from one.
        let stdin = io::stdin();
        return match stdin.as_fd().try_clone_to_owned().map(File::from) {
            Ok(file) if file.metadata().is_ok_and(|metadata| metadata.is_file()) => {
                opening.file(file)
            }
            _ => opening.stream(Box::new(stdin)),
        };
    }
    let file = File::open(path).map_err(opening.io("open"))?;
    let kind = file.metadata().map_err(opening.io("open"))?.file_type();
    if kind.is_dir() {
        opening.directory()
    } else if kind.is_file() {
        opening.file(file)
    } else {
        opening.stream(Box::new(file))
    }
}

/// What is opened, and how.
#[derive(Clone, Copy)]
struct Opening<'a> {
    path: &'a Path,
    all: bool,
}

impl Opening<'_> {
    fn io(&self, what: &'static str) -> impl FnOnce(io::Error) -> ReadError + use<> {
        let path = self.path.to_path_buf();
        move |source| ReadError::Io { path, what, source }
    }

    fn file(&self, file: File) -> Result<Reader, ReadError> {
        let header = header::read(&file, self.path)?;
        let Some(mut layout) = header.layout else { return self.stream(Box::new(file)) };
        let about = self.about(&file, &mut layout, header.endian)?;
        let seekable = Seekable {
            file: file.try_clone().map_err(self.io("open"))?,
            start: layout.data.offset,
            end: layout.data.offset + layout.data.size,
        };
        let progress = Arc::new(Progress::default());
        progress.begin(Stage::Records, layout.data.size);
        let stream = self.data(file, &layout, header.endian, &progress)?;
        let mut reader = self.reader(header.endian, layout.state, about, Source::one(stream));
        reader.progress = progress;
        reader.seekable = Some(seekable);
        Ok(reader)
    }

    fn about(
        &self,
        file: &File,
        layout: &mut FileLayout,
        endian: Endian,
    ) -> Result<About, ReadError> {
        let (metadata, names) = metadata::read(file, self.path, layout, endian)?;
        Ok(About::of_file(metadata, names, std::mem::take(&mut layout.events)))
    }

    fn data(
        &self,
        mut file: File,
        layout: &FileLayout,
        endian: Endian,
        progress: &Arc<Progress>,
    ) -> Result<Stream, ReadError> {
        file.seek(SeekFrom::Start(layout.data.offset)).map_err(self.io("read"))?;
        let (input, progress) = (file.take(layout.data.size), Arc::clone(progress));
        let input = Box::new(Counted { input, progress });
        Ok(Stream::new(input, layout.data.offset, endian))
    }

    fn stream(&self, mut input: Box<dyn Read + Send>) -> Result<Reader, ReadError> {
        let mut front = [0; header::STREAM_SIZE as usize];
        let read = read_up_to(&mut input, &mut front).map_err(self.io("read"))?;
        let magic = &front[..read.min(8)];
        let Some(endian) = header::endian_of(magic) else {
            return Err(ReadError::magic(self.path, magic));
        };
        let size = Fields::new(&front[8..read.max(8)], endian).u64().unwrap_or(0);
        if size != header::STREAM_SIZE {
            let problem = format!("{size}; a stream has 16, and a file cannot be read from a pipe");
            let path = self.path.to_path_buf();
            return Err(ReadError::Header { path, field: "size", problem });
        }
        let source = Source::one(Stream::new(input, header::STREAM_SIZE, endian));
        let mut reader = self.reader(endian, FileState::Closed, About::new(), source);
        reader.is_stream = true;
        Ok(reader)
    }

    /// `data` is a file like any other; `data.0`, `data.1`, … are records without a header.
    fn directory(&self) -> Result<Reader, ReadError> {
        let path = self.path.join(FRONT);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ReadError::Directory(self.path.to_path_buf()));
            }
            Err(source) => return Err(ReadError::Io { path, what: "open", source }),
        };
        let front = Opening { path: &path, ..*self };
        let header = header::read(&file, &path)?;
        let Some(mut layout) = header.layout else { return front.stream(Box::new(file)) };
        let about = front.about(&file, &mut layout, header.endian)?;
        // The size of all parts together is not known; nobody is told of the first alone.
        let unseen = Arc::default();
        let front = front.data(file, &layout, header.endian, &unseen)?;
        let mut streams = vec![(front, Some(path.clone()))];
        for path in self.parts()? {
            let file = File::open(&path).map_err(Opening { path: &path, ..*self }.io("open"))?;
            streams.push((Stream::one_of_many(Box::new(file), header.endian), Some(path)));
        }
        Ok(self.reader(header.endian, layout.state, about, Source::many(streams)))
    }

    /// The files that continue `data`, in the order of their names.
    fn parts(&self) -> Result<Vec<PathBuf>, ReadError> {
        let mut names: Vec<OsString> = Vec::new();
        for entry in fs::read_dir(self.path).map_err(self.io("list"))? {
            let entry = entry.map_err(self.io("list"))?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && entry.file_name().as_bytes().starts_with(PART) {
                names.push(entry.file_name());
            }
        }
        names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        Ok(names.iter().map(|name| self.path.join(name)).collect())
    }

    fn reader(&self, endian: Endian, state: FileState, about: About, source: Source) -> Reader {
        Reader {
            path: self.path.to_path_buf(),
            endian,
            state,
            is_stream: false,
            all: self.all,
            about,
            seekable: None,
            source,
            order: Order::default(),
            tally: Tally::default(),
            progress: Arc::default(),
            done: false,
        }
    }
}

/// Fills `buffer` as far as the input goes.
fn read_up_to(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
