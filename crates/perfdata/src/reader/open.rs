//! Opens a recording: a file, a stream or a directory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::about::FileFacts;
use super::bytes::{Endian, Fields};
use super::error::ReadError;
use super::header::{self, FileLayout, FileState};
use super::order::Order;
use super::progress::{CountingRead, Progress, Stage};
use super::rewrite::{CALLCHAIN_DEFERRED, DeferredChains};
use super::scan::Seekable;
use super::source::FileSource;
use super::stream::Stream;
use super::{RawReader, Reader, STDIN, Tally, metadata, spool};

/// Name of the file in a directory that is a recording by itself; others continue it.
const FRONT: &str = "data";
/// What the names of those others start with.
const PART: &[u8] = b"data.";

/// A recording that is open: a file, a directory of `perf record --threads`, or a stream.
///
/// Readers begin at its start, as often as one is asked for, and the file is opened once: what is at its path
/// may be another file by the second time. A stream can be read once.
#[derive(Debug)]
pub struct RecordingFile {
    path: PathBuf,
    input: Input,
}

pub(super) enum Input {
    File(Arc<File>),
    /// The files of a directory, and the part of each path that names them: the first has the header.
    Directory(Vec<(PathBuf, Arc<File>)>),
    /// Until it is read.
    Stream(Mutex<Option<Box<dyn Read + Send>>>),
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Directory(_) => "Directory",
            Self::Stream(_) => "Stream",
        })
    }
}

impl RecordingFile {
    /// Opens `path`; [`STDIN`] is standard input. Nothing is read yet.
    ///
    /// # Errors
    /// If it cannot be opened, or is a directory without a recording.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let input = if path.as_os_str() == STDIN { standard_input(path) } else { input(path) }?;
        Ok(Self { path: path.to_path_buf(), input })
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, where it is one. Readers do not use its position.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        match &self.input {
            Input::File(file) => Some(file),
            _ => None,
        }
    }

    /// Whether it can be read only once.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.input, Input::Stream(_))
    }

    /// As [`Reader::open`], from the beginning.
    ///
    /// # Errors
    /// If it cannot be read at all; see [`ReadError`].
    pub fn reader(&self) -> Result<Reader, ReadError> {
        self.with_deferred(self.begin(false)?.primed()?)
    }

    /// As [`Reader::open_all`], from the beginning.
    ///
    /// # Errors
    /// As [`RecordingFile::reader`].
    pub fn reader_of_all(&self) -> Result<Reader, ReadError> {
        self.with_deferred(self.begin(true)?.primed()?)
    }

    /// With the parts of callchains that come later, which a file is read for once more.
    fn with_deferred(&self, mut reader: Reader) -> Result<Reader, ReadError> {
        if self.is_stream() || !DeferredChains::are_of(reader.events()) {
            return Ok(reader);
        }
        let mut chains = DeferredChains::default();
        let mut raw = self.raw()?;
        let endian = raw.endian();
        while let Some(entry) = raw.next()? {
            if entry.kind == CALLCHAIN_DEFERRED {
                chains.take(entry.body, endian);
            }
        }
        reader.about.rewriting.deferred = Some(Arc::new(chains));
        Ok(reader)
    }

    /// As [`Reader::open_raw`], from the beginning.
    ///
    /// # Errors
    /// As [`RecordingFile::reader`].
    pub fn raw(&self) -> Result<RawReader, ReadError> {
        self.begin(true).map(RawReader::new)
    }

    /// Of a stream nothing but its header is read.
    fn begin(&self, all: bool) -> Result<Reader, ReadError> {
        let opening = OpenRequest { path: &self.path, all };
        match &self.input {
            Input::File(file) => opening.file(file),
            Input::Directory(files) => opening.directory(files),
            Input::Stream(input) => {
                let input = input.lock().unwrap_or_else(PoisonError::into_inner).take();
                opening.stream(input.ok_or_else(|| ReadError::Stream(self.path.clone()))?)
            }
        }
    }
}

/// `-i - < FILE` is a file, with all that can be read from one.
fn standard_input(path: &Path) -> Result<Input, ReadError> {
    let stdin = io::stdin();
    match stdin.as_fd().try_clone_to_owned().map(File::from) {
        Ok(file) if file.metadata().is_ok_and(|metadata| metadata.is_file()) => {
            Ok(Input::File(Arc::new(spool::unpacked(file, path)?)))
        }
        _ => spool::stream(Box::new(stdin), path),
    }
}

fn input(path: &Path) -> Result<Input, ReadError> {
    let open = |path: &Path| File::open(path).map_err(io_error(path, "open"));
    let file = open(path)?;
    let kind = file.metadata().map_err(io_error(path, "open"))?.file_type();
    if kind.is_file() {
        return Ok(Input::File(Arc::new(spool::unpacked(file, path)?)));
    }
    if !kind.is_dir() {
        return spool::stream(Box::new(file), path);
    }
    let front = path.join(FRONT);
    let first = match File::open(&front) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ReadError::Directory(path.to_path_buf()));
        }
        Err(source) => {
            return Err(ReadError::Io { path: path.to_path_buf(), what: "open", source });
        }
    };
    let mut files = vec![(front, Arc::new(first))];
    for path in parts(path)? {
        let file = Arc::new(open(&path)?);
        files.push((path, file));
    }
    Ok(Input::Directory(files))
}

/// The files that continue `data` in a directory, in the order of their names.
fn parts(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let mut names: Vec<OsString> = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_error(folder, "list"))? {
        let entry = entry.map_err(io_error(folder, "list"))?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && entry.file_name().as_bytes().starts_with(PART) {
            names.push(entry.file_name());
        }
    }
    names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    Ok(names.iter().map(|name| folder.join(name)).collect())
}

fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> ReadError + use<> {
    let path = path.to_path_buf();
    move |source| ReadError::Io { path, what, source }
}

/// Bytes of a file from a place on; readers of the same file do not disturb each other.
struct Positioned {
    file: Arc<File>,
    at: u64,
}

impl Positioned {
    fn new(file: &Arc<File>, at: u64) -> Self {
        Self { file: Arc::clone(file), at }
    }
}

impl Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// What is opened, and how.
#[derive(Clone, Copy)]
struct OpenRequest<'a> {
    path: &'a Path,
    all: bool,
}

impl OpenRequest<'_> {
    fn io(&self, what: &'static str) -> impl FnOnce(io::Error) -> ReadError + use<> {
        io_error(self.path, what)
    }

    fn file(&self, file: &Arc<File>) -> Result<Reader, ReadError> {
        let header = header::read(file, self.path)?;
        let Some(mut layout) = header.layout else {
            return self.stream(Box::new(Positioned::new(file, 0)));
        };
        let about = self.about(file, &mut layout, header.endian)?;
        let seekable = Seekable {
            file: Arc::clone(file),
            start: layout.data.offset,
            end: layout.data.offset + layout.data.size,
        };
        let progress = Arc::new(Progress::default());
        progress.begin(Stage::Records, layout.data.size);
        let stream = data(file, &layout, header.endian, &progress);
        let mut reader = self.reader(header.endian, layout.state, about, FileSource::one(stream));
        reader.progress = progress;
        reader.seekable = Some(seekable);
        Ok(reader)
    }

    fn about(
        &self,
        file: &File,
        layout: &mut FileLayout,
        endian: Endian,
    ) -> Result<FileFacts, ReadError> {
        let (mut metadata, names) = metadata::read(file, self.path, layout, endian)?;
        metadata.recorded_until = metadata.end_of(file);
        Ok(FileFacts::of_file(metadata, names, std::mem::take(&mut layout.events)))
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
            let problem =
                format!("{size}; a stream has 16, and a perf.data file cannot be read from a pipe");
            let path = self.path.to_path_buf();
            return Err(ReadError::Header { path, field: "size", problem });
        }
        let source = FileSource::one(Stream::new(input, header::STREAM_SIZE, endian));
        let mut reader = self.reader(endian, FileState::Closed, FileFacts::new(), source);
        reader.is_stream = true;
        Ok(reader)
    }

    /// `data` is a file like any other; `data.0`, `data.1`, … are records without a header.
    fn directory(&self, files: &[(PathBuf, Arc<File>)]) -> Result<Reader, ReadError> {
        let Some(((path, file), parts)) = files.split_first() else {
            return Err(ReadError::Directory(self.path.to_path_buf()));
        };
        let front = OpenRequest { path, ..*self };
        let header = header::read(file, path)?;
        let Some(mut layout) = header.layout else {
            return front.stream(Box::new(Positioned::new(file, 0)));
        };
        let about = front.about(file, &mut layout, header.endian)?;
        // The size of all parts together is not known; nobody is told of the first alone.
        let unseen = Arc::default();
        let mut streams = vec![(data(file, &layout, header.endian, &unseen), Some(path.clone()))];
        let part = |(path, file): &(PathBuf, Arc<File>)| {
            let input = Box::new(Positioned::new(file, 0));
            (Stream::one_of_many(input, header.endian), Some(path.clone()))
        };
        streams.extend(parts.iter().map(part));
        Ok(self.reader(header.endian, layout.state, about, FileSource::many(streams)))
    }

    fn reader(
        &self,
        endian: Endian,
        state: FileState,
        about: FileFacts,
        source: FileSource,
    ) -> Reader {
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
            rewritten: Vec::new(),
        }
    }
}

/// The records of a file with a header.
fn data(file: &Arc<File>, layout: &FileLayout, endian: Endian, progress: &Arc<Progress>) -> Stream {
    let input = Positioned::new(file, layout.data.offset).take(layout.data.size);
    let input = Box::new(CountingRead { input, progress: Arc::clone(progress) });
    Stream::new(input, layout.data.offset, endian)
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
