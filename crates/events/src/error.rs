//! Why a text is not an event, where in the text, and what to type instead.

use std::fmt;

use pmuscope_machine::MachineError;

use crate::branch::BranchFilterError;

/// Characters of the user's text that a message repeats at most.
const SHOWN: usize = 60;

/// Why the text of `-e` cannot be used.
#[derive(Debug, thiserror::Error)]
pub struct EventError {
    /// The whole text.
    pub text: String,
    /// Byte offset of the piece that is wrong.
    pub at: usize,
    /// Its length in bytes; 0 where something is missing.
    pub len: usize,
    /// What is wrong with it.
    #[source]
    pub reason: Box<Reason>,
}

impl EventError {
    pub(crate) fn new(text: &str, fault: Fault) -> Self {
        Self { text: text.to_owned(), at: fault.at, len: fault.len, reason: fault.reason }
    }

    /// The piece of the text that is wrong; empty where something is missing.
    #[must_use]
    pub fn piece(&self) -> &str {
        self.text.get(self.at..self.at + self.len).unwrap_or("")
    }

    /// Whether the text is right, but this machine or the rights of the user do not allow it.
    #[must_use]
    pub fn is_of_machine(&self) -> bool {
        match &*self.reason {
            Reason::NoCpuPmu
            | Reason::NoSuchUnit { .. }
            | Reason::Listed { .. }
            | Reason::NotImplemented { .. }
            | Reason::OfOtherCpus { .. } => true,
            Reason::Tracepoint { error, .. } => !matches!(error, MachineError::NoTracepoint { .. }),
            _ => false,
        }
    }

    /// Which character of the text, counted from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.text.get(..self.at).map_or(1, |before| before.chars().count() + 1)
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event '{}'", ShownText(&self.text))?;
        if self.piece() != self.text {
            write!(f, ", character {}", self.column())?;
            if self.len > 0 {
                write!(f, ", '{}'", ShownText(self.piece()))?;
            }
        }
        write!(f, ": {}", self.reason)
    }
}

/// The user's text as it may go to a terminal: short, and without control characters.
struct ShownText<'a>(&'a str);

impl fmt::Display for ShownText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().take(SHOWN) {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        if self.0.chars().nth(SHOWN).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// What is wrong with a piece of the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Something has to stand here.
    #[error("{what} is missing")]
    Missing {
        /// With its article.
        what: &'static str,
    },
    /// A character that cannot stand here.
    #[error("unexpected {found:?}; expected {expected} or the end")]
    Unexpected {
        /// The character.
        found: char,
        /// What can stand here.
        expected: &'static str,
    },
    /// An opening or closing character without its partner.
    #[error("{}", unbalanced(*.missing))]
    Unbalanced {
        /// The partner.
        missing: char,
    },
    /// Braces in braces.
    #[error("a group cannot contain a group. Try: one after the other, {{a,b}},{{c,d}}")]
    NestedGroup,
    /// No event has this name.
    #[error("unknown event{}", did_you_mean(.nearest))]
    UnknownEvent {
        /// The nearest names.
        nearest: Vec<String>,
    },
    /// A name that perf knows but the kernel does not count.
    #[error("{why}")]
    NotCounted {
        /// The whole reason, with what to type.
        why: &'static str,
    },
    /// A CPU event on a machine that shows no unit for it.
    #[error(
        "it needs a hardware PMU, which this machine lacks (typical in VMs). Try: cpu-clock, or a \
         VM with a virtual PMU"
    )]
    NoCpuPmu,
    /// An event of a list whose unit is not here.
    #[error("it counts on {unit}, which this machine lacks. It has: {}", .present.join(", "))]
    NoSuchUnit {
        /// The unit, without its number.
        unit: String,
        /// All units.
        present: Vec<String>,
    },
    /// Lists have several events of this name for the same unit.
    #[error("several events in the lists have this name. Try: {}", .choices.join(", "))]
    Ambiguous {
        /// How each is written.
        choices: Vec<String>,
    },
    /// An event of a list that this kernel cannot express.
    #[error("this kernel cannot count it as listed ({encoding}): {why}")]
    Listed {
        /// The encoding of the list.
        encoding: String,
        /// The reason.
        why: String,
    },
    /// A common event of Arm's architecture that the unit does not have.
    #[error(
        "{pmu} does not implement it: neither the PMU (PMCEID) nor the kernel lists event \
         {code:#x}, so its count stays 0. Try: pmuscope list {pmu}"
    )]
    NotImplemented {
        /// The unit.
        pmu: String,
        /// The code.
        code: u64,
    },
    /// An event that only lists for other CPUs have.
    #[error("it is listed for {made_for}, but this CPU is {identity}. Try: pmuscope list")]
    OfOtherCpus {
        /// What the list is for.
        made_for: String,
        /// The CPU here.
        identity: String,
    },
    /// No unit has this name.
    #[error(
        "this machine has no PMU of this name or number{} It has: {}",
        and_then(.nearest), .present.join(", ")
    )]
    UnknownPmu {
        /// The nearest names.
        nearest: Vec<String>,
        /// All names.
        present: Vec<String>,
    },
    /// A unit has no such term.
    #[error("{pmu} has no such term or event{} {}", and_then(.nearest), its_terms(.known))]
    UnknownTerm {
        /// The unit, or what else has the terms.
        pmu: String,
        /// The nearest terms and events.
        nearest: Vec<String>,
        /// Its terms.
        known: Vec<String>,
    },
    /// A term that needs a unit.
    #[error(
        "events called by name have no such term{} Their terms: {known}. To set fields of a PMU, \
         name the PMU: cpu/event=0x3c,umask=0/", and_then(.nearest)
    )]
    NotGeneric {
        /// The nearest terms.
        nearest: Vec<String>,
        /// Terms that any event takes.
        known: String,
    },
    /// A number with more bits than there is room for.
    #[error("{term} is at most {max:#x} ({bits}-bit field)")]
    TooLarge {
        /// The term.
        term: String,
        /// How many bits the unit has for it.
        bits: u32,
        /// The largest value.
        max: u64,
    },
    /// A value of the wrong kind.
    #[error("the value must be {expected}")]
    BadValue {
        /// With its article.
        expected: &'static str,
    },
    /// A term without its value.
    #[error("it needs a value, as in {name}={example}")]
    NeedsValue {
        /// The term.
        name: String,
        /// What a value looks like.
        example: &'static str,
    },
    /// An event of sysfs that leaves terms open.
    #[error(
        "this event needs a value for {}: {pmu}/{event},{}=…/",
        .open.join(", "), .open.join("=…,")
    )]
    OpenTerms {
        /// The unit.
        pmu: String,
        /// The event.
        event: String,
        /// Terms to be given.
        open: Vec<String>,
    },
    /// The kernel describes a term in a way this version cannot read.
    #[error(
        "the kernel describes {pmu}/{term} as {found:?}, which pmuscope cannot parse. Try: config=…"
    )]
    UnreadableFormat {
        /// The unit.
        pmu: String,
        /// The term.
        term: String,
        /// What sysfs says.
        found: String,
    },
    /// Two terms that exclude each other.
    #[error("{first} and {second} exclude each other. Try: only one of them")]
    Conflict {
        /// One term.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A term of perf that has no meaning here.
    #[error("{why}")]
    NotHere {
        /// The whole reason, with what to type.
        why: &'static str,
    },
    /// A letter that is no modifier.
    #[error(
        "{letter:?} is not a modifier. Modifiers: u user, k kernel, h hypervisor, I not idle, H \
         host, G guests, p to ppp precise, P as precise as possible, S sample the leader only, D \
         pinned, e exclusive, W weak group"
    )]
    BadModifier {
        /// The letter.
        letter: char,
    },
    /// Modifiers twice, or before the terms.
    #[error("modifiers come once and last: cycles:uk, cycles/period=1000003/uk")]
    ModifierPlace,
    /// More `p` than there are levels.
    #[error("the highest precision is ppp (3); P takes the highest that the machine supports")]
    TooPrecise,
    /// A modifier of the group at one of its members.
    #[error("{letter:?} applies to the whole group. Try: {{…}}:{letter}")]
    GroupModifier {
        /// The letter.
        letter: char,
    },
    /// A cache is not read, written or prefetched this way.
    #[error("no CPU counts this; {cache} has {}", .operations.join(", "))]
    NoCacheOperation {
        /// The cache.
        cache: &'static str,
        /// What it has.
        operations: Vec<&'static str>,
    },
    /// A word that is no branch filter.
    #[error("{0}")]
    BranchFilter(BranchFilterError),
    /// A length that no debug register has.
    #[error("a breakpoint watches 1 to 8 bytes (x86: 1, 2, 4 or 8)")]
    BreakpointLength,
    /// Tracepoints cannot be read, or this one does not exist.
    #[error("{error}{}", did_you_mean(.nearest))]
    Tracepoint {
        /// What the machine says.
        error: MachineError,
        /// The nearest names.
        nearest: Vec<String>,
    },
    /// A pattern that nothing matches.
    #[error("no tracepoint of this kernel matches the pattern")]
    NoMatch,
    /// Members of a group that never run on the same unit.
    #[error("no PMU has all events of this group: {}", .pmus.join(", "))]
    NoCommonPmu {
        /// The units involved.
        pmus: Vec<String>,
    },
}

fn unbalanced(missing: char) -> String {
    let shell = ". Try: quotes around the argument, as the shell expands braces";
    match missing {
        '{' => format!("no '{{' opens it{shell}"),
        '}' => format!("no '}}' closes it{shell}"),
        '\'' => "no second ' closes the quoted text".to_owned(),
        other => format!("no second {other:?} closes the terms"),
    }
}

fn did_you_mean(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => format!(". Did you mean {one}?"),
        [head @ .., last] => format!(". Did you mean {} or {last}?", head.join(", ")),
    }
}

/// The same where another sentence follows.
pub(crate) fn and_then(names: &[String]) -> String {
    if names.is_empty() { ".".to_owned() } else { did_you_mean(names) }
}

fn its_terms(known: &[String]) -> String {
    if known.is_empty() {
        "It has no terms, but config= always works".to_owned()
    } else {
        format!("Its terms: {}", known.join(", "))
    }
}

/// A reason and its place, before the whole text is known.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) reason: Box<Reason>,
}

impl Fault {
    pub(crate) fn new(at: usize, len: usize, reason: Reason) -> Self {
        Self { at, len, reason: Box::new(reason) }
    }
}
