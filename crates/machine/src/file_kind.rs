//! Kinds of files that pmuscope writes, known by their content: a file of another kind is never replaced unless
//! the user asks for that.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::atomic_file::is_stream;

/// Bytes at the start of a file, and at its end, that show its kind.
const LOOKED_AT: u64 = 64 << 10;
/// First line of text files, before the version of the program.
const TEXT_MARK: &str = "# written by pmuscope ";
/// Comment in the header of gzip files.
const GZIP_COMMENT: &str = "pmuscope";

/// A kind of file that pmuscope writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A recording, as perf's: `PERFILE2`.
    Recording,
    /// Results of repeated runs: JSON of the schema `pmuscope/runs`.
    RunFile,
    /// Other JSON with a schema of ours.
    Json,
    /// `stat -j`: a JSON object per figure.
    CounterLines,
    /// `numa balance --log`: a JSON object per event.
    BalanceLog,
    /// A page, by its generator.
    Page,
    /// A picture: SVG.
    Picture,
    /// Comma- or tab-separated values: the first line has the same columns.
    Table,
    /// A line per call stack, with a number at its end.
    Stacks,
    /// pprof and Firefox Profiler: gzip with our comment.
    Compressed,
    /// Parquet, by its writer.
    Parquet,
    /// Text for people, by its first line ([`text_mark`]).
    Text,
}

/// What an output may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// A file of this kind, or an empty one.
    Own(FileKind),
    /// Any file: our own caches, and what the user allowed by `--force`.
    Anything,
}

/// The first line of text files.
#[must_use]
pub fn text_mark() -> String {
    format!("{TEXT_MARK}{}\n", env!("CARGO_PKG_VERSION"))
}

/// Why a file stays.
#[derive(Debug, thiserror::Error)]
#[error("the file exists and {why}. Try: another name, or --force to replace it")]
struct Stays {
    why: String,
}

impl FileKind {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recording => "a recording",
            Self::RunFile => "a pmuscope run file",
            Self::Json => "pmuscope JSON",
            Self::CounterLines => "JSON lines of counts",
            Self::BalanceLog => "a log of numa balance",
            Self::Page => "a pmuscope page",
            Self::Picture => "a pmuscope image",
            Self::Table => "a table with the same columns",
            Self::Stacks => "folded stacks",
            Self::Compressed => "a pmuscope profile",
            Self::Parquet => "a pmuscope Parquet file",
            Self::Text => "pmuscope text",
        }
    }

    /// Whether content that starts and ends so can be of this kind. Tables are known only by comparison
    /// ([`FileKind::is_replaced_by`]).
    fn may_be(self, head: &[u8], tail: &[u8]) -> bool {
        let has =
            |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|at| at == word.as_bytes());
        let first = first_line(head);
        match self {
            Self::Recording => head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP"),
            Self::RunFile => schema(head) == Some(b"runs"),
            Self::Json => schema(head).is_some_and(|name| name != b"runs"),
            Self::CounterLines => {
                first.starts_with(b"{")
                    && ["\"counter-value\"", "\"event\""].iter().all(|key| has(first, key))
            }
            Self::BalanceLog => first.starts_with(b"{\"t\":") && has(first, "\"event\":"),
            Self::Page => {
                let doctype = b"<!doctype html>";
                head.get(..doctype.len()).is_some_and(|start| start.eq_ignore_ascii_case(doctype))
                    && has(head, "<meta name=\"generator\" content=\"pmuscope ")
            }
            Self::Picture => {
                head.starts_with(b"<svg ")
                    && ["class=\"flame-part ", "class=\"growth\""]
                        .iter()
                        .any(|mark| has(first, mark))
            }
            Self::Table => !first.is_empty(),
            Self::Stacks => is_stack(first),
            Self::Compressed => gzip_comment(head) == Some(GZIP_COMMENT.as_bytes()),
            Self::Parquet => head.starts_with(b"PAR1") && has(tail, "pmuscope "),
            Self::Text => head.starts_with(TEXT_MARK.as_bytes()),
        }
    }

    /// Whether what begins with `new` is of the same kind as what begins with `old`, where both may be of this
    /// one.
    fn is_replaced_by(self, old: &[u8], new: &[u8]) -> bool {
        match self {
            Self::Json => schema(old) == schema(new),
            Self::Table => first_line(old) == first_line(new),
            _ => true,
        }
    }

    /// Whether an output of this kind may replace what is at `path`: nothing, an empty file, or a file of the
    /// same kind. Devices and pipes are not replaced, so they pass.
    ///
    /// # Errors
    /// If another file is there, or one that cannot be read: it says which kind was expected.
    pub fn check(self, path: &Path) -> io::Result<()> {
        match ends(path)? {
            Some((head, tail)) if !self.may_be(&head, &tail) => {
                Err(stays(format!("is not {}", self.name())))
            }
            _ => Ok(()),
        }
    }

    /// As [`FileKind::check`], where the new content is at `new` already.
    ///
    /// # Errors
    /// As [`FileKind::check`].
    pub(crate) fn check_against(self, path: &Path, new: &Path) -> io::Result<()> {
        self.check(path)?;
        match (ends(path)?, ends(new)?) {
            (Some((old, _)), Some((new, _))) if !self.is_replaced_by(&old, &new) => {
                let same =
                    if self == Self::Json { "JSON with the same schema" } else { self.name() };
                Err(stays(format!("is not {same}")))
            }
            _ => Ok(()),
        }
    }
}

impl Replace {
    /// Whether a file that will begin with `new` may be written to `path`: as [`Replace::check`], before there is more
    /// of the content.
    ///
    /// # Errors
    /// As [`FileKind::check`].
    pub fn check_beginning(self, path: &Path, new: &str) -> io::Result<()> {
        let Self::Own(kind) = self else { return Ok(()) };
        kind.check(path)?;
        match ends(path)? {
            Some((old, _)) if !kind.is_replaced_by(&old, new.as_bytes()) => {
                Err(stays(format!("is not {}", kind.name())))
            }
            _ => Ok(()),
        }
    }

    /// Whether a file may be written to `path`.
    ///
    /// # Errors
    /// As [`FileKind::check`].
    pub fn check(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Own(kind) => kind.check(path),
            Self::Anything => Ok(()),
        }
    }
}

fn stays(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, Stays { why })
}

/// First and last bytes of a file; `None` if there is none, it is empty, or something else than a file.
fn ends(path: &Path) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > 0 && !is_stream(path) => {}
        _ => return Ok(None),
    }
    let read = |from: SeekFrom| {
        let mut file = File::open(path)?;
        file.seek(from)?;
        let mut bytes = Vec::new();
        file.take(LOOKED_AT).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    let both = || {
        let head = read(SeekFrom::Start(0))?;
        let length = std::fs::metadata(path)?.len();
        let tail = read(SeekFrom::Start(length.saturating_sub(LOOKED_AT)))?;
        Ok::<_, io::Error>((head, tail))
    };
    both().map(Some).map_err(|error| stays(format!("its kind cannot be determined: {error}")))
}

fn first_line(head: &[u8]) -> &[u8] {
    head.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

/// `report` of `{"schema": "pmuscope/report/1"`.
fn schema(head: &[u8]) -> Option<&[u8]> {
    let mut rest = head;
    for part in ["{", "\"schema\"", ":", "\"pmuscope/"] {
        rest = rest.trim_ascii_start().strip_prefix(part.as_bytes())?;
    }
    rest.split(|byte| matches!(byte, b'/' | b'"')).next()
}

/// `comm;caller;function 12`.
fn is_stack(line: &[u8]) -> bool {
    let mut words = line.rsplitn(2, |byte| *byte == b' ');
    let number = words.next().unwrap_or_default();
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    is_number && words.next().is_some_and(|stack| stack.contains(&b';'))
}

/// The comment of a gzip header without other fields (RFC 1952).
fn gzip_comment(head: &[u8]) -> Option<&[u8]> {
    const COMMENT_ONLY: u8 = 0x10;
    let rest = head.strip_prefix(&[0x1f, 0x8b, 8, COMMENT_ONLY])?.get(6..)?;
    rest.split(|byte| *byte == 0).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_known_by_its_content_and_no_script_is_of_one() {
        let page =
            "<!doctype html>\n<html><head>\n<meta name=\"generator\" content=\"pmuscope 0.1.0\">";
        let cases: [(FileKind, &[u8]); 12] = [
            (FileKind::Recording, b"PERFILE2\x68\0\0\0"),
            (FileKind::RunFile, b"{\n  \"schema\": \"pmuscope/runs/1\""),
            (FileKind::Json, b"{\"schema\":\"pmuscope/report/1\","),
            (FileKind::CounterLines, b"{\"counter-value\":\"1\",\"event\":\"cycles\"}\n"),
            (FileKind::BalanceLog, b"{\"t\":0.0,\"event\":\"began\"}\n"),
            (FileKind::Page, page.as_bytes()),
            (FileKind::Picture, b"<svg xmlns=\"x\" class=\"flame-part alone\">\n"),
            (FileKind::Table, b"event,share\n"),
            (FileKind::Stacks, b"sh;main;f 12\n"),
            (FileKind::Compressed, b"\x1f\x8b\x08\x10\0\0\0\0\0\xffpmuscope\0..."),
            (FileKind::Parquet, b"PAR1...pmuscope 0.1.0...PAR1"),
            (FileKind::Text, b"# written by pmuscope 0.1.0\n"),
        ];
        let foreign: [&[u8]; 5] = [
            b"#!/bin/sh\nexec \"$@\"\n",
            b"\x7fELF\x02\x01",
            b"{\"schema\": \"other/1\"}",
            b"<!doctype html>\n<html>",
            b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
        ];
        for (kind, content) in cases {
            for (other, theirs) in cases {
                let expected = kind == other || kind == FileKind::Table;
                assert_eq!(kind.may_be(theirs, theirs), expected, "{kind:?} {other:?}");
            }
            for theirs in foreign.into_iter().filter(|_| kind != FileKind::Table) {
                assert!(
                    !kind.may_be(theirs, theirs),
                    "{kind:?} {}",
                    String::from_utf8_lossy(theirs)
                );
            }
            assert!(kind.is_replaced_by(content, content));
        }
        assert!(text_mark().starts_with(TEXT_MARK));
        assert!(!FileKind::Table.is_replaced_by(b"a,b\n1,2\n", b"a,c\n"));
        assert!(!FileKind::Json.is_replaced_by(
            b"{\"schema\":\"pmuscope/diff/1\"",
            b"{\"schema\":\"pmuscope/report/1\""
        ));
    }

    #[test]
    fn nothing_an_empty_file_and_a_device_may_be_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let check = |path: &Path| FileKind::RunFile.check(path).map_err(|error| error.to_string());
        assert_eq!(check(&path), Ok(()));
        std::fs::write(&path, "").unwrap();
        assert_eq!((check(&path), check(Path::new("/dev/null"))), (Ok(()), Ok(())));
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        let refused = check(&path).unwrap_err();
        assert!(
            refused.contains("is not a pmuscope run file. Try: another name, or --force"),
            "{refused}"
        );
        assert!(Replace::Anything.check(&path).is_ok());
    }
}
