//! What users type to say what to watch.
//!
//! ```text
//!  target = [ "mem:" ] place [ "/" bytes ] [ ":" access ]
//!  access = "r" | "w" | "rw" | "x"
//!  bytes  = 1, 2, 4 or 8; more are watched in pieces
//!  place  = [ module "!" ] ( address | object | file ":" line )
//!  object = [ file ":" ] expression [ "+" offset ] [ "@" thread ]
//! ```
//!
//! | typed | watched |
//! |---|---|
//! | `counter` | writes to the variable, all its bytes |
//! | `server.stat_numcommands:rw` | a field, whoever touches it |
//! | `queue.c:head->next` | of several `head` that of `queue.c`, and from it a field behind a pointer |
//! | `libssl.so.3!ns::Class::total` | a variable of a library |
//! | `table+0x28/4` | 4 bytes within a symbol, where there is no debug information |
//! | `0x55d0c8a0/8:rw`, `*0x55d0c8a0/8`, `mem:0x55d0c8a0/8:rw` | an address |
//! | `queue.c:118`, `push`, `push+4`, `*0x401130:x` | execution |
//! | `per_thread@4712` | a thread-local variable of the program, of that thread |
//! | `kernel!jiffies/8`, `[kernel]!vfs_read` | the kernel |
//!
//! Without an access, data are watched for writes (who changes this?), functions and lines for
//! execution. Which of the two a name is, the program's symbols say ([`crate::resolve`]).
//! `file.c:w` is the variable `w` of `file.c`, as there is nothing else to watch in a file; if no file is
//! called so, the field `c` of a variable `file`.

use std::fmt;
use std::str::FromStr;

use pmuscope_symbols::definitions::{Expression, ExpressionError};

/// No object is that large, bytes: a petabyte.
const LARGEST: u64 = 1 << 50;

pub use pmuscope_perfdata::watch::Access;

/// Whose names are meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Module {
    /// The program's and its libraries': whichever has it, the program first.
    Any,
    /// A file that the program has mapped: its path, its name, or the beginning of that up to a dot or hyphen.
    Named(String),
    /// The kernel and its modules.
    Kernel,
}

/// Where something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetLocation {
    /// At an address of the process, or of the kernel.
    Address(u64),
    /// At a line of a source file.
    Line {
        /// Whose line.
        module: Module,
        /// The file, with as many of its folders as make clear which.
        file: String,
        /// From 1.
        line: u32,
    },
    /// Where names lead to.
    Named {
        /// Whose names.
        module: Module,
        /// The source file that defines the first name, if that was said.
        file: Option<String>,
        /// The way to the object.
        expression: Expression,
        /// Bytes behind its beginning.
        offset: u64,
        /// Of a thread-local variable: the thread.
        thread: Option<u32>,
    },
}

/// What to watch, as typed; [`crate::resolve`] turns it into addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As typed.
    pub text: String,
    /// As typed, without length and access.
    pub name: String,
    /// Where.
    pub place: TargetLocation,
    /// For what; `None`: writes for data, execution for code.
    pub access: Option<Access>,
    /// How many bytes; `None`: as many as the type has.
    pub len: Option<u64>,
}

/// Why a text is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The place is neither an address nor an expression.
    #[error("cannot parse target {text:?}: {why}. {TRY}")]
    Expression {
        /// As typed.
        text: String,
        /// What is wrong.
        why: ExpressionError,
    },
    /// An address of more than 64 bits, or with other digits.
    #[error("cannot parse target {text:?}: {address:?} is not an address. Try: 0x55d0c8a0/8:rw")]
    Address {
        /// As typed.
        text: String,
        /// What should be one.
        address: String,
    },
    /// The number of bytes is none.
    #[error(
        "cannot parse target {text:?}: {len:?} is not a number of bytes. Try: /1, /2, /4 or /8 at \
         the end"
    )]
    Length {
        /// As typed.
        text: String,
        /// What should be one.
        len: String,
    },
    /// The access is none.
    #[error(
        "cannot parse target {text:?}: {access:?} is not an access. Try: :r, :w, :rw or :x at the \
         end"
    )]
    Access {
        /// As typed.
        text: String,
        /// What should be one.
        access: String,
    },
    /// An object behind an argument is not said whole.
    #[error("cannot parse target {text:?}: {why}. Try: $1+0x28/8@queue_push")]
    Argument {
        /// As typed.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A line of source code is executed, nothing else.
    #[error(
        "cannot watch {text:?}: a line of source code is executed, not read or written. Try: {place}:x"
    )]
    Line {
        /// As typed.
        text: String,
        /// File and line.
        place: String,
    },
    /// An instruction has no length to choose.
    #[error(
        "cannot watch {text:?}: execution is watched at one instruction, whatever its length. Try: \
         without the /bytes"
    )]
    LengthOfCode {
        /// As typed.
        text: String,
    },
    /// Nothing was typed.
    #[error("the target is empty. {TRY}")]
    Empty,
}

const TRY: &str = "Try: counter, table[3].next->count:rw, file.c:118 or 0x55d0c8a0/8:rw";

impl Target {
    /// Reads a target.
    ///
    /// # Errors
    /// If it is none; the error says what is wrong and what to type.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        text.parse()
    }

    /// What else the text can mean: `s.c:w`, the variable `w` of `s.c`, is also writes to the field `c` of `s`; `main.stats`,
    /// a field of `main`, is also the variable `stats` of Go's package `main`.
    #[must_use]
    pub fn otherwise(&self) -> Option<Self> {
        self.as_field().or_else(|| self.of_package())
    }

    fn of_package(&self) -> Option<Self> {
        let mut found = self.clone();
        let TargetLocation::Named { expression, .. } = &mut found.place else { return None };
        *expression = expression.of_package()?;
        Some(found)
    }

    fn as_field(&self) -> Option<Self> {
        let TargetLocation::Named { module, file: Some(file), expression, offset: 0, thread: None } =
            &self.place
        else {
            return None;
        };
        let access = Access::of_letters(&expression.name()).filter(|_| expression.is_name())?;
        let object = file.parse().ok().filter(|_| self.access.is_none())?;
        let place = TargetLocation::Named {
            module: module.clone(),
            file: None,
            expression: object,
            offset: 0,
            thread: None,
        };
        let (text, name) = (self.text.clone(), file.clone());
        Some(Self { text, name, place, access: Some(access), len: self.len })
    }

    /// Whether it is in the kernel, whichever process runs.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        match &self.place {
            TargetLocation::Address(address) => is_kernel_address(*address),
            TargetLocation::Line { module, .. } | TargetLocation::Named { module, .. } => {
                *module == Module::Kernel
            }
        }
    }
}

/// The upper half of the address space is the kernel's, on x86-64 and on arm64.
pub(crate) fn is_kernel_address(address: u64) -> bool {
    address >= 1 << 63
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let typed = text.trim();
        let text = || typed.to_owned();
        if typed.is_empty() {
            return Err(TargetError::Empty);
        }
        let (is_mem, rest) = match typed.strip_prefix("mem:") {
            Some(rest) => (true, rest),
            None => (false, typed),
        };
        let (rest, access) = cut_access(rest, is_mem);
        let access = access
            .map(|letters| {
                let access = letters.to_owned();
                Access::of_letters(letters)
                    .ok_or_else(|| TargetError::Access { text: text(), access })
            })
            .transpose()?;
        let (rest, len) = cut_length(rest);
        let len = len
            .map(|digits| {
                let len = digits.parse().ok().filter(|len| (1..=LARGEST).contains(len));
                len.ok_or_else(|| TargetError::Length { text: text(), len: digits.to_owned() })
            })
            .transpose()?;
        let place = place(typed, rest, is_mem)?;
        if let TargetLocation::Line { file, line, .. } = &place
            && access.is_some_and(|access| access != Access::Execute)
        {
            return Err(TargetError::Line { text: text(), place: format!("{file}:{line}") });
        }
        let is_code =
            access == Some(Access::Execute) || matches!(place, TargetLocation::Line { .. });
        if is_code && len.is_some() && !is_mem {
            return Err(TargetError::LengthOfCode { text: text() });
        }
        let len = len.filter(|_| !is_code);
        Ok(Self { text: text(), name: rest.to_owned(), place, access, len })
    }
}

/// Takes `:access` from the end. Behind a bare file name it is a variable of that file.
fn cut_access(text: &str, is_mem: bool) -> (&str, Option<&str>) {
    let Some((before, last)) = text.rsplit_once(':') else { return (text, None) };
    let letters = !last.is_empty() && last.bytes().all(|byte| b"rwx".contains(&byte));
    let variable_of_file = is_file(before.rsplit('!').next().unwrap_or(before));
    if before.ends_with(':') || (variable_of_file && !is_mem) {
        return (text, None);
    }
    // What follows an address can be nothing else, right or wrong.
    let of_address = is_mem || before.trim_start_matches('*').starts_with("0x");
    if letters || of_address { (before, Some(last)) } else { (text, None) }
}

/// Takes `/bytes` from the end. A path has slashes too, but never a number behind the last.
fn cut_length(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once('/') {
        Some((before, last))
            if !last.is_empty()
                && !before.is_empty()
                && (last.bytes().all(|byte| byte.is_ascii_alphanumeric()))
                && (last.starts_with(|c: char| c.is_ascii_digit())
                    || before.trim_start_matches('*').starts_with("0x")) =>
        {
            (before, Some(last))
        }
        Some((before, "")) if before.trim_start_matches('*').starts_with("0x") => {
            (before, Some(""))
        }
        _ => (text, None),
    }
}

/// Whether a text names a source file: it has a folder, or ends as sources do.
fn is_file(text: &str) -> bool {
    const ENDINGS: [&str; 20] = [
        "c", "h", "cc", "cpp", "cxx", "c++", "C", "hh", "hpp", "hxx", "inl", "rs", "go", "f",
        "f90", "F90", "s", "S", "m", "zig",
    ];
    let name = text.rsplit('/').next().unwrap_or(text);
    let ends = name
        .rsplit_once('.')
        .is_some_and(|(stem, ending)| !stem.is_empty() && ENDINGS.contains(&ending));
    let plain = |c: char| c.is_alphanumeric() || "._-+/~@ ".contains(c);
    // A number behind the last slash is a length.
    let is_path = text.contains('/') && !name.starts_with(|first: char| first.is_ascii_digit());
    !name.is_empty() && text.chars().all(plain) && (ends || is_path)
}

fn place(typed: &str, text: &str, is_mem: bool) -> Result<TargetLocation, TargetError> {
    let bare = text.strip_prefix('*').map_or(text, str::trim_start);
    if is_mem || bare.starts_with(|first: char| first.is_ascii_digit()) {
        return address(bare).map(TargetLocation::Address).ok_or_else(|| TargetError::Address {
            text: typed.to_owned(),
            address: bare.to_owned(),
        });
    }
    let (module, rest) = module(text);
    if let Some((file, line)) = rest.rsplit_once(':')
        && let Ok(line @ 1..) = line.parse()
        && !file.ends_with(':')
    {
        let file = file.trim_matches('\'').to_owned();
        return Ok(TargetLocation::Line { module, file, line });
    }
    let (file, rest) = file(rest);
    let (rest, thread) = thread(rest);
    let (object, offset) = offset(rest);
    let expression =
        object.parse().map_err(|why| TargetError::Expression { text: typed.to_owned(), why })?;
    Ok(TargetLocation::Named { module, file, expression, offset, thread })
}

/// `0x…` or decimal.
fn address(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Takes `module!` from the front.
fn module(text: &str) -> (Module, &str) {
    match text.split_once('!') {
        Some(("kernel" | "[kernel]" | "[kernel.kallsyms]" | "vmlinux", rest)) => {
            (Module::Kernel, rest)
        }
        Some((name, rest)) if !name.is_empty() => (Module::Named(name.to_owned()), rest),
        _ => (Module::Any, text),
    }
}

/// Takes `file:` from the front, or gdb's `'file'::`.
fn file(text: &str) -> (Option<String>, &str) {
    if let Some(quoted) = text.strip_prefix('\'')
        && let Some((file, rest)) = quoted.split_once("'::")
    {
        return (Some(file.to_owned()), rest);
    }
    // The first colon that is no part of a double one.
    let bytes = text.as_bytes();
    let single = (0..bytes.len()).find(|&at| {
        let colon = |at: usize| bytes.get(at) == Some(&b':');
        colon(at) && !colon(at + 1) && (at == 0 || !colon(at - 1))
    });
    match single {
        Some(at) if is_file(&text[..at]) => (Some(text[..at].to_owned()), &text[at + 1..]),
        _ => (None, text),
    }
}

/// Takes `@thread` from the end.
fn thread(text: &str) -> (&str, Option<u32>) {
    match text.rsplit_once('@').and_then(|(object, thread)| Some((object, thread.parse().ok()?))) {
        Some((object, thread)) => (object, Some(thread)),
        None => (text, None),
    }
}

/// Takes `+offset` from the end.
fn offset(text: &str) -> (&str, u64) {
    match text.rsplit_once('+').and_then(|(object, offset)| Some((object, address(offset.trim())?)))
    {
        Some((object, offset)) => (object, offset),
        None => (text, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Target {
        Target::parse(text).unwrap()
    }

    fn named(text: &str) -> (Module, Option<String>, String, u64) {
        match read(text).place {
            TargetLocation::Named { module, file, expression, offset, thread: None } => {
                (module, file, expression.to_string(), offset)
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    fn line(text: &str) -> (Module, String, u32) {
        match read(text).place {
            TargetLocation::Line { module, file, line } => (module, file, line),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn addresses_are_read_as_perf_and_gdb_write_them() {
        for text in
            ["0x55d0c8a0/8:rw", "*0x55d0c8a0/8:rw", "mem:0x55d0c8a0/8:rw", "1439746208/8:wr"]
        {
            let target = read(text);
            assert_eq!(target.place, TargetLocation::Address(0x55d0_c8a0), "{text}");
            assert_eq!((target.len, target.access), (Some(8), Some(Access::ReadWrite)), "{text}");
        }
        let bare = read("0x10");
        assert_eq!((bare.place, bare.len, bare.access), (TargetLocation::Address(16), None, None));
        assert_eq!(read("mem:0x10/4:x").len, None);
        assert!(read("0xffffffff81000000").is_kernel());
    }

    #[test]
    fn a_thread_may_follow_a_name() {
        let place = |text: &str| match read(text).place {
            TargetLocation::Named { expression, offset, thread, .. } => {
                (expression.to_string(), offset, thread)
            }
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(place("own.hits@4712/8:rw"), ("own.hits".into(), 0, Some(4712)));
        assert_eq!(place("own+8@4712/4"), ("own".into(), 8, Some(4712)));
        assert_eq!(place("own"), ("own".into(), 0, None));
    }

    #[test]
    fn names_may_have_a_module_a_file_and_an_offset() {
        let any = Module::Any;
        assert_eq!(named("counter"), (any.clone(), None, "counter".into(), 0));
        assert_eq!(named("a::b[2]->c:rw"), (any.clone(), None, "a::b[2].c".into(), 0));
        assert_eq!(named("table+0x28/4"), (any.clone(), None, "table".into(), 0x28));
        assert_eq!(
            named("q.c:head->next"),
            (any.clone(), Some("q.c".into()), "head.next".into(), 0)
        );
        assert_eq!(named("src/q:head"), (any.clone(), Some("src/q".into()), "head".into(), 0));
        assert_eq!(named("'q.c'::head:w"), (any.clone(), Some("q.c".into()), "head".into(), 0));
        assert_eq!(named("&x"), (any, None, "x".into(), 0));
        let libc = Module::Named("libc.so.6".into());
        assert_eq!(named("libc.so.6!environ"), (libc, None, "environ".into(), 0));
        assert_eq!(named("[kernel]!jiffies/8"), (Module::Kernel, None, "jiffies".into(), 0));
        assert!(read("kernel!vfs_read:x").is_kernel());
        let path = Module::Named("/usr/lib/libc.so.6".into());
        assert_eq!(named("/usr/lib/libc.so.6!x"), (path, None, "x".into(), 0));
    }

    #[test]
    fn the_end_is_an_access_or_a_variable_of_a_file() {
        assert_eq!(read("x:r").access, Some(Access::Read));
        assert_eq!(read("s.x:w").access, Some(Access::Write));
        assert_eq!(read("f:x").access, Some(Access::Execute));
        assert_eq!(named("file.c:x"), (Module::Any, Some("file.c".into()), "x".into(), 0));
        assert_eq!(read("file.c:x").access, None);
        assert_eq!(read("file.c:x:rw").access, Some(Access::ReadWrite));
        assert_eq!(read("s.c").access, None);
        let field = read("s.c:rw").otherwise().unwrap();
        assert_eq!((field.name.as_str(), field.access), ("s.c", Some(Access::ReadWrite)));
        assert_eq!(read("s.c:head").otherwise(), None);
        // No file of C: the variable of a package.
        let written = read("s.d:w").otherwise().unwrap();
        assert_eq!((written.name.as_str(), written.access), ("s.d", Some(Access::Write)));
        let package = read("main.stats.hits:rw").otherwise().unwrap();
        let TargetLocation::Named { expression, .. } = &package.place else { panic!() };
        assert_eq!(
            (expression.name(), expression.to_string()),
            ("main.stats".into(), "main.stats.hits".into())
        );
        assert_eq!(read("stats").otherwise(), None);
        assert_eq!(named("ns::w"), (Module::Any, None, "ns::w".into(), 0));
    }

    #[test]
    fn lines_imply_execution() {
        assert_eq!(line("file.c:118"), (Module::Any, "file.c".into(), 118));
        assert_eq!(line("a/b.rs:7:x"), (Module::Any, "a/b.rs".into(), 7));
        assert_eq!(line("libx.so!q.c:7"), (Module::Named("libx.so".into()), "q.c".into(), 7));
        assert_eq!(read("file.c:118").access, None);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_type() {
        let error = |text: &str| Target::parse(text).unwrap_err().to_string();
        assert_eq!(error(""), format!("the target is empty. {TRY}"));
        assert_eq!(
            error("0x10:rwx"),
            "cannot parse target \"0x10:rwx\": \"rwx\" is not an access. Try: :r, :w, :rw or :x at \
             the end"
        );
        assert_eq!(
            error("0x1g"),
            "cannot parse target \"0x1g\": \"0x1g\" is not an address. Try: 0x55d0c8a0/8:rw"
        );
        assert!(error("x/0").contains("\"0\" is not a number of bytes"));
        assert!(error("0x10/").contains("\"\" is not a number of bytes"));
        assert!(error("x/8k").contains("\"8k\" is not a number of bytes"));
        assert!(error("a[i]").contains("the index \"i\" is not a number"));
        assert_eq!(
            error("file.c:12:w"),
            "cannot watch \"file.c:12:w\": a line of source code is executed, not read or written. Try: file.c:12:x"
        );
        assert!(error("f/4:x").contains("Try: without the /bytes"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9x_.:/+!<>{}()*&'\\[\\]\\- é]{0,40}") {
            let _ = Target::parse(&text);
        }

        #[test]
        fn every_address_length_and_access_reads_back(
            address in any::<u64>(),
            len in prop_oneof![Just(1_u64), Just(2), Just(4), Just(8), 9_u64..100_000],
            access in prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::ReadWrite)],
        ) {
            let found = read(&format!("mem:{address:#x}/{len}:{access}"));
            prop_assert_eq!(found.place, TargetLocation::Address(address));
            prop_assert_eq!((found.len, found.access), (Some(len), Some(access)));
        }
    }
}
