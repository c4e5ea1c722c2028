//! Where records come from: one file or stream, or the files of a directory as
//! `perf record --threads` writes it.
//!
//! Each of the files is in order of time, since each contains one ring buffer. So the file that is
//! furthest behind is read next, and what is not newer than that is complete:
//!
//! ```text
//!  data     ├──────────┤ 40                       always from the one furthest behind
//!  data.0   ├─────────────────┤ 65
//!  data.1   ├──────┤ 30   ◄── next                everything up to 30 may go out, sorted
//! ```

use std::io;
use std::path::{Path, PathBuf};

use super::stream::{RawRecord, Stream, StreamStep};

/// Records taken from one file before the next is chosen.
const TURN: u32 = 512;

/// Input of a reader.
#[derive(Debug)]
pub(super) struct FileSource {
    parts: Vec<FilePart>,
    current: usize,
    /// Records until the next file is chosen.
    left: u32,
}

/// A file.
#[derive(Debug)]
struct FilePart {
    stream: Stream,
    /// Its path, where there are many.
    file: Option<PathBuf>,
    /// Time of its last record.
    last: u64,
    done: bool,
}

impl FileSource {
    pub(super) fn one(stream: Stream) -> Self {
        Self::many(vec![(stream, None)])
    }

    pub(super) fn many(streams: Vec<(Stream, Option<PathBuf>)>) -> Self {
        let part = |(stream, file)| FilePart { stream, file, last: 0, done: false };
        Self { parts: streams.into_iter().map(part).collect(), current: 0, left: 0 }
    }

    /// Whether rounds say nothing, since they are those of one file of many.
    pub(super) fn is_many(&self) -> bool {
        self.parts.len() > 1
    }

    /// The next record of the current file.
    pub(super) fn next(&mut self) -> io::Result<StreamStep<'_>> {
        let Some(part) = self.parts.get_mut(self.current) else { return Ok(StreamStep::End) };
        Ok(match part.stream.next()? {
            StreamStep::Stopped(mut stopped) => {
                stopped.file.clone_from(&part.file);
                StreamStep::Stopped(stopped)
            }
            step => step,
        })
    }

    /// Steps over copies of the record that came last, a mark; returns how many.
    pub(super) fn skip_repeated(&mut self) -> u64 {
        self.parts.get_mut(self.current).map_or(0, |part| part.stream.skip_repeated())
    }

    /// The record that came last, and its file where there are many.
    pub(super) fn last(&self) -> (Option<RawRecord<'_>>, Option<&Path>) {
        let part = self.parts.get(self.current);
        (part.and_then(|part| part.stream.last()), part.and_then(|part| part.file.as_deref()))
    }

    /// Notes the time of the record that came last.
    pub(super) fn saw(&mut self, time: u64) {
        if let Some(part) = self.parts.get_mut(self.current) {
            part.last = part.last.max(time);
        }
    }

    /// Turns, now and then, to the file that is furthest behind; then tells up to which time all
    /// records have come.
    pub(super) fn turn(&mut self) -> Option<u64> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.left = TURN;
        let open = self.parts.iter().enumerate().filter(|(_, part)| !part.done);
        let (index, part) = open.min_by_key(|(_, part)| part.last)?;
        self.current = index;
        Some(part.last)
    }

    /// Notes the end of the current file and goes to the next; false if there is none.
    pub(super) fn end_part(&mut self) -> bool {
        if let Some(part) = self.parts.get_mut(self.current) {
            part.done = true;
        }
        self.left = 0;
        let next = self.parts.iter().position(|part| !part.done);
        self.current = next.unwrap_or(self.current);
        next.is_some()
    }
}
