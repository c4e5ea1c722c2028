//! The words of the cache lines that an object is in: what is watched to see who shares a line.
//!
//! ```text
//!  target `queue` ─► its address and size ─► the lines that it touches ─► each byte's label ─► runs of one label
//!  byte of the object                 queue + the field there, by its type      queue.head
//!  byte of an object without a type   words of 4 bytes                          queue+0x8
//!  other bytes of the file's data     the variable there, with its field        counter
//!  other memory (heap, stack)         no label: words of 4 bytes
//!  padding                            left out
//! ```
//! Without a type threads may use different bytes of one word: such words are as short as most variables, and marked.

use pmuscope_machine::Machine;
use pmuscope_symbols::Sources;
use pmuscope_symbols::definitions::{FieldAt, ValueType};

use super::memory::Process;
use super::modules::{MappedFile, Modules, OpenedFile};
use super::pieces::{of_word, split};
use super::{ResolveError, Watchpoint, of_target};
use crate::slots::Kind;
use crate::target::{Access, Target, TargetLocation};

/// Cache lines of one object.
const MOST_LINES: u64 = 4;
/// Elements of an array that are watched one by one where they have a byte each; more are watched in words of 8.
const MOST_BYTES: usize = 16;
/// Bytes of a word that no type describes.
const UNTYPED: u64 = 4;
/// Bytes of a word of text.
const TEXT: u64 = 8;

/// A word of a cache line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineWord {
    /// The variable with its field, as the target was typed; `None` where none is known. Foreign text.
    pub name: Option<String>,
    /// Its first byte.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Whether it is one variable, by its type or the length that was typed: of other words threads may use different
    /// bytes.
    pub is_typed: bool,
}

impl LineWord {
    /// The two parts of a word of several bytes, of which the first is the longest that hardware can watch.
    #[must_use]
    pub fn halves(&self) -> Vec<Self> {
        let length = self.bytes.next_power_of_two() / 2;
        if length == 0 || self.bytes < 2 {
            return vec![self.clone()];
        }
        let name = self.name.as_ref().map(|name| at_offset(name, length));
        let second = Self {
            name,
            address: self.address + length,
            bytes: self.bytes - length,
            is_typed: self.is_typed,
        };
        vec![Self { bytes: length, ..self.clone() }, second]
    }
}

/// `stats+0x8` of `stats`; `stats+0xc` of `stats+0x8` and 4 more.
fn at_offset(name: &str, more: u64) -> String {
    let split = name.rsplit_once("+0x");
    let known = split.and_then(|(name, at)| Some((name, u64::from_str_radix(at, 16).ok()?)));
    let (name, at) = known.unwrap_or((name, 0));
    format!("{name}+{:#x}", at + more)
}

/// The words of the cache lines (of `line_bytes` bytes, a power of two) that `target` is in, in process `pid`.
///
/// # Errors
/// As [`super::resolve`]; also of code, of the kernel's memory, and of an object in more than 4 lines.
pub fn line_words(
    machine: &Machine,
    pid: u32,
    target: &Target,
    line_bytes: u64,
) -> Result<Vec<LineWord>, ResolveError> {
    let process = Process::open(machine, pid)?;
    let modules = Modules::of(&process, &Sources::default());
    let found = of_target(machine, &process, &modules, target)?;
    let text = || target.text.clone();
    if found.in_kernel || found.kind == Kind::Instruction {
        return Err(ResolveError::NoLine { target: text() });
    }
    let first = found.address & !(line_bytes - 1);
    let end = (found.address + found.len).next_multiple_of(line_bytes);
    let lines = (end - first) / line_bytes;
    if lines > MOST_LINES {
        let (bytes, first) = (found.len, found.address);
        return Err(ResolveError::ManyLines { target: text(), bytes, lines, first });
    }
    let labels = labels(&modules, target, &found, first..end);
    Ok(words(first, &labels))
}

/// What a byte belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Label {
    /// Of a variable: its name with the field, and the first byte of the field.
    Named(String, u64),
    /// Of a variable of no known type: its name and first byte.
    Untyped(String, u64),
    Nameless,
    /// Nothing is there.
    Nothing,
}

fn labels(
    modules: &Modules<'_>,
    target: &Target,
    found: &Watchpoint,
    range: std::ops::Range<u64>,
) -> Vec<Label> {
    let addresses: Vec<u64> = range.collect();
    let mut labels =
        in_file(modules, &addresses).unwrap_or_else(|| vec![Label::Nameless; addresses.len()]);
    let of_object = found.address..found.address + found.len;
    let object = object(target, found);
    let offsets: Vec<u64> = (0..found.len).collect();
    let fields = fields(modules, target, found, &offsets);
    for (label, &address) in labels.iter_mut().zip(&addresses) {
        let field = address.checked_sub(of_object.start).and_then(|at| fields.get(at as usize));
        if let Some(Some(field)) = field {
            *label = of_field(&found.name, of_object.start, field);
        } else if let Some(object) = &object
            && of_object.contains(&address)
            && !matches!(label, Label::Named(..))
        {
            label.clone_from(object);
        }
    }
    labels
}

/// The label of bytes of the object whose field is not known; `None`: the label that they have without the object. An address with a
/// length that hardware can watch is a variable.
fn object(target: &Target, found: &Watchpoint) -> Option<Label> {
    let name = || found.name.clone();
    match (&target.place, target.len) {
        (TargetLocation::Address(_), Some(1 | 2 | 4 | 8)) => {
            Some(Label::Named(name(), found.address))
        }
        (TargetLocation::Address(_), _) => None,
        _ if found.type_name.is_some() && found.value != ValueType::Other => {
            Some(Label::Named(name(), found.address))
        }
        _ => Some(Label::Untyped(name(), found.address)),
    }
}

/// The fields of the object that was typed.
fn fields(
    modules: &Modules<'_>,
    target: &Target,
    found: &Watchpoint,
    offsets: &[u64],
) -> Vec<Option<FieldAt>> {
    let TargetLocation::Named { file, expression, offset: 0, .. } = &target.place else {
        return Vec::new();
    };
    let is_it = |module: &&MappedFile| {
        found.module.as_deref().is_some_and(|path| module.path().to_string_lossy() == path)
    };
    let opened = modules.iter().find(is_it).and_then(|module| modules.open(module).ok());
    let parts =
        |opened: &OpenedFile| opened.definitions.parts(file.as_deref(), expression, offsets);
    opened.map(parts).unwrap_or_default()
}

/// What a file's variables are at addresses; `None` if they are not in the data of one.
fn in_file(modules: &Modules<'_>, addresses: &[u64]) -> Option<Vec<Label>> {
    let first = *addresses.first()?;
    let module = modules.iter().filter(|module| module.start() <= first);
    let module = module.max_by_key(|module| module.start())?;
    let opened = modules.open(module).ok()?;
    let own: Vec<u64> = addresses.iter().map(|at| at.wrapping_sub(opened.bias)).collect();
    let segments = opened.definitions.segments();
    let holds = |at: u64| {
        segments.iter().any(|one| at.checked_sub(one.address).is_some_and(|into| into < one.size))
    };
    if !holds(own[0]) {
        return None;
    }
    let found = opened.definitions.objects(&own).into_iter().zip(addresses);
    let label = |(object, &address): (Option<pmuscope_symbols::DataObject>, &u64)| {
        let Some(object) = object else { return Label::Nothing };
        let start = address - object.offset;
        match &object.field {
            Some(field) => of_field(&object.name, start, field),
            None => Label::Untyped(object.name.to_string(), start),
        }
    };
    Some(found.map(label).collect())
}

fn of_field(object: &str, start: u64, field: &FieldAt) -> Label {
    match field.is_padding {
        true => Label::Nothing,
        false => Label::Named(part_name(object, &field.path), start + field.offset),
    }
}

/// `queue.head`, `queue->head` of `*queue`, `(*queue)[1]`, `own.hits@4712` of `own@4712`.
fn part_name(object: &str, path: &str) -> String {
    if let Some((variable, thread)) = object.rsplit_once('@') {
        return format!("{}@{thread}", part_name(variable, path));
    }
    let is_plain = |text: &str| !text.contains(['*', '&', '(']);
    match object.strip_prefix('*').filter(|pointer| is_plain(pointer)) {
        Some(pointer) if path.starts_with('.') => format!("{pointer}->{}", &path[1..]),
        Some(_) if path.starts_with('[') => format!("({object}){path}"),
        _ => format!("{object}{path}"),
    }
}

/// Runs of one label.
fn words(first: u64, labels: &[Label]) -> Vec<LineWord> {
    let mut words: Vec<LineWord> = Vec::new();
    let mut last = &Label::Nothing;
    for (label, address) in labels.iter().zip(first..) {
        let goes_on = match label {
            Label::Nothing => {
                last = label;
                continue;
            }
            Label::Nameless | Label::Untyped(..) => {
                last == label && !address.is_multiple_of(UNTYPED)
            }
            Label::Named(..) => last == label,
        };
        match words.last_mut().filter(|_| goes_on) {
            Some(word) => word.bytes += 1,
            None => {
                let name = match label {
                    Label::Named(name, _) => Some(name.clone()),
                    Label::Untyped(name, start) if *start == address => Some(name.clone()),
                    Label::Untyped(name, start) => Some(at_offset(name, address - start)),
                    Label::Nameless | Label::Nothing => None,
                };
                let is_typed = matches!(label, Label::Named(..));
                words.push(LineWord { name, address, bytes: 1, is_typed });
            }
        }
        last = label;
    }
    without_text(&words)
}

/// Long runs of elements of a byte each (text, as a rule) in words of 8.
fn without_text(words: &[LineWord]) -> Vec<LineWord> {
    let array = |word: &LineWord| {
        let name = word.name.as_deref().filter(|_| word.bytes == 1)?;
        Some(name.strip_suffix(']')?.rsplit_once('[')?.0.to_owned())
    };
    let mut joined: Vec<LineWord> = Vec::new();
    let alike = |one: &LineWord, other: &LineWord| {
        array(one).is_some_and(|name| array(other).as_ref() == Some(&name))
    };
    for run in words.chunk_by(alike) {
        if run.len() <= MOST_BYTES {
            joined.extend_from_slice(run);
            continue;
        }
        for part in run.chunk_by(|_, next| !next.address.is_multiple_of(TEXT)) {
            let LineWord { name, address, .. } = part[0].clone(); // parts are not empty
            joined.push(LineWord { name, address, bytes: part.len() as u64, is_typed: false });
        }
    }
    joined
}

/// How long words are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attention {
    /// As long as the limit of the slowdown allows.
    Full,
    /// Now and then, as long as it takes to see whether a word is accessed.
    Brief,
}

/// Two watchpoints for each part of each word: one that stops at writes, and one at reads (on x86, where there is none for
/// reads alone, at both). A variable that is not aligned is watched where its largest aligned part is: an access to all of
/// it counts once.
#[must_use]
pub fn of_words(words: &[LineWord], attention: Attention) -> Vec<Watchpoint> {
    let reads = if cfg!(target_arch = "x86_64") { Access::ReadWrite } else { Access::Read };
    let mut found = Vec::new();
    for word in words {
        let mut pieces = split(word.address, word.bytes);
        if word.bytes <= 8 && word.is_typed {
            pieces.sort_by_key(|piece| (std::cmp::Reverse(piece.len), piece.address));
            pieces.truncate(1);
        }
        let name = word.name.clone().unwrap_or_else(|| format!("{:#x}", word.address));
        for piece in pieces {
            for access in [Access::Write, reads] {
                found.push(Watchpoint {
                    is_untyped: !word.is_typed,
                    is_brief: attention == Attention::Brief,
                    ..of_word(name.clone(), piece, access)
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, start: u64) -> Label {
        Label::Named(name.to_owned(), start)
    }

    fn word(name: Option<&str>, address: u64, bytes: u64) -> LineWord {
        LineWord { name: name.map(str::to_owned), address, bytes, is_typed: name.is_some() }
    }

    fn untyped(name: &str, address: u64, bytes: u64) -> LineWord {
        LineWord { is_typed: false, ..word(Some(name), address, bytes) }
    }

    #[test]
    fn words_are_runs_of_one_label() {
        let labels = [
            vec![named("head", 0x40); 8],
            vec![Label::Nothing; 4],
            vec![named("tail", 0x4c); 4],
            vec![named("tail", 0x50); 1],
            vec![Label::Nameless; 15],
            vec![Label::Untyped("stats".to_owned(), 0x5c); 12],
        ];
        let expected = [
            word(Some("head"), 0x40, 8),
            word(Some("tail"), 0x4c, 4),
            word(Some("tail"), 0x50, 1),
            word(None, 0x51, 3),
            word(None, 0x54, 4),
            word(None, 0x58, 4),
            word(None, 0x5c, 4),
            untyped("stats+0x4", 0x60, 4),
            untyped("stats+0x8", 0x64, 4),
            untyped("stats+0xc", 0x68, 4),
        ];
        assert_eq!(words(0x40, &labels.concat()), expected);
    }

    #[test]
    fn few_bytes_of_an_array_are_watched_alone_many_in_words() {
        let bytes = |from: u64, number: u64| -> Vec<LineWord> {
            (0..number).map(|at| word(Some(&format!("name[{at}]")), from + at, 1)).collect()
        };
        assert_eq!(without_text(&bytes(0x40, 16)), bytes(0x40, 16));
        let joined = [
            untyped("name[0]", 0x44, 4),
            untyped("name[4]", 0x48, 8),
            untyped("name[12]", 0x50, 8),
        ];
        assert_eq!(without_text(&bytes(0x44, 20)), joined);
    }

    #[test]
    fn each_word_has_a_watchpoint_of_writes_and_one_of_reads() {
        let words = [word(Some("packed"), 0x41, 4), word(None, 0x48, 8)];
        let found = of_words(&words, Attention::Full);
        let seen: Vec<_> =
            found.iter().map(|one| (&*one.name, one.address, one.len, one.access)).collect();
        let reads = if cfg!(target_arch = "x86_64") { Access::ReadWrite } else { Access::Read };
        let expected = [
            ("packed", 0x42, 2, Access::Write),
            ("packed", 0x42, 2, reads),
            ("0x48", 0x48, 8, Access::Write),
            ("0x48", 0x48, 8, reads),
        ];
        assert_eq!(seen, expected);
        let long = [word(Some("long"), 0x40, 16)];
        let found = of_words(&long, Attention::Brief);
        assert!(found.len() == 4 && found.iter().all(|one| one.is_brief && !one.is_untyped));
        assert!(of_words(&[word(None, 0x48, 4)], Attention::Full).iter().all(|one| one.is_untyped));
    }

    #[test]
    fn halves_are_what_hardware_can_watch() {
        let halves = |word: LineWord| -> Vec<(String, u64, u64)> {
            let half = |one: LineWord| (one.name.unwrap_or_default(), one.address, one.bytes);
            word.halves().into_iter().map(half).collect()
        };
        let named = |name: &str, address, bytes| (name.to_owned(), address, bytes);
        let whole = halves(untyped("stats", 0x40, 4));
        assert_eq!(whole, [named("stats", 0x40, 2), named("stats+0x2", 0x42, 2)]);
        let later = halves(untyped("stats+0xc", 0x4c, 2));
        assert_eq!(later, [named("stats+0xc", 0x4c, 1), named("stats+0xd", 0x4d, 1)]);
        assert_eq!(halves(word(None, 0x40, 3)), [named("", 0x40, 2), named("", 0x42, 1)]);
        assert_eq!(halves(word(None, 0x40, 1)), [named("", 0x40, 1)]);
    }

    #[test]
    fn parts_are_named_as_in_c() {
        let name = |object, path| part_name(object, path);
        assert_eq!(name("queue", ".head"), "queue.head");
        assert_eq!(name("*queue", ".head"), "queue->head");
        assert_eq!(name("*queue", "[1].n"), "(*queue)[1].n");
        assert_eq!(name("**p", ".n"), "**p.n");
        assert_eq!(name("own@4712", ".hits"), "own.hits@4712");
    }
}
