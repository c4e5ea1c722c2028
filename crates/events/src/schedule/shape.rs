//! What a unit has, and what an event needs of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A counter of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// One that takes any event, up to constraints.
    General(u8),
    /// One that counts a single event: instructions, cycles, reference cycles.
    Fixed(u8),
    /// The kernel counts; there is always room.
    Software,
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::General(number) => write!(f, "{number}"),
            Self::Fixed(number) => write!(f, "F{number}"),
            Self::Software => f.write_str("-"),
        }
    }
}

/// A register beside the counter that an event needs, as Intel's offcore response registers (0x1a6 and
/// 0x1a7) or the threshold of load latency (0x3f6). It holds one value, so events that want different
/// ones cannot be counted at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extra {
    /// Registers of which any one will do: the kernel takes the other offcore register by itself.
    pub registers: Vec<u32>,
    /// What it must hold.
    pub value: u64,
}

/// What an event needs to be counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Constraint {
    /// General counters that it can use: bit n is counter n. All bits: whatever there is.
    pub general: u32,
    /// The same where the core's threads share its counters (SMT on); `None`: no difference.
    pub general_smt: Option<u32>,
    /// Fixed counters that it can use instead.
    pub fixed: u32,
    /// Nothing else may be counted on general counters at the same time.
    pub alone: bool,
    /// A register that it needs besides.
    pub extra: Option<Extra>,
}

impl Constraint {
    /// Any general counter, and nothing else.
    #[must_use]
    pub fn any() -> Self {
        Self { general: u32::MAX, general_smt: None, fixed: 0, alone: false, extra: None }
    }

    /// The same, or the fixed counter `number` (below 32).
    #[must_use]
    pub fn or_fixed(self, number: u8) -> Self {
        let bit = 1_u32.checked_shl(number.into()).unwrap_or(0);
        Self { fixed: self.fixed | bit, ..self }
    }
}

/// What is special about it, in words: "counters 0-3", "fixed 1", "alone", "register 0x1a6 or 0x1a7";
/// empty where any counter will do.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if self.fixed != 0 {
            words.push(format!("fixed {}", ranges(self.fixed)));
        }
        match (self.general, self.general_smt) {
            (u32::MAX, None) | (0, _) => {}
            (general, None) => words.push(format!("counters {}", ranges(general))),
            (general, Some(shared)) => {
                let (general, shared) = (ranges(general), ranges(shared));
                words.push(format!("counters {general}, with SMT {shared}"));
            }
        }
        if self.fixed != 0 && self.general == u32::MAX {
            words.push("or any counter".to_owned());
        }
        if self.alone {
            words.push("alone".to_owned());
        }
        if let Some(extra) = &self.extra {
            let registers: Vec<String> =
                extra.registers.iter().map(|register| format!("{register:#x}")).collect();
            words.push(format!("register {}", registers.join(" or ")));
        }
        f.write_str(&words.join(" · "))
    }
}

/// "0-3", "1,3".
fn ranges(mask: u32) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for bit in (0..u32::BITS).filter(|bit| mask >> bit & 1 == 1) {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => parts.push((bit, bit)),
        }
    }
    let text = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

impl Default for Constraint {
    fn default() -> Self {
        Self::any()
    }
}

/// An event as the scheduler sees it: where it counts and what it needs there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Index of its unit among the shapes.
    pub unit: usize,
    /// What it needs.
    pub constraint: Constraint,
}

/// The counters of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The unit's name.
    pub unit: String,
    /// How many general counters a group may take: what the processor says, or what a trial found
    /// ([`Shape::by_trial`]). At most 32.
    pub general: u32,
    /// The same with SMT on, where threads of a core share the counters.
    pub general_smt: Option<u32>,
    /// Whether SMT is on.
    pub smt: bool,
    /// Fixed counters: bit n is counter n.
    pub fixed: u32,
    /// Events that others count all the time. The kernel's NMI watchdog is one: it counts cycles, on
    /// their fixed counter where there is one.
    pub taken: Vec<Constraint>,
    /// The kernel counts, and there is no limit but this, the most events in one run.
    pub software: Option<usize>,
}

impl Shape {
    /// A unit of so many general counters, and nothing special.
    #[must_use]
    pub fn new(unit: &str, general: u32) -> Self {
        Self {
            unit: unit.to_owned(),
            general,
            general_smt: None,
            smt: false,
            fixed: 0,
            taken: Vec::new(),
            software: None,
        }
    }

    /// Events that the kernel counts; in one run at most so many (at least 1), as each costs time.
    #[must_use]
    pub fn software(unit: &str, at_most: usize) -> Self {
        Self { software: Some(at_most.max(1)), ..Self::new(unit, 0) }
    }

    /// A unit whose number of counters is not known: `fits` says whether so many copies of an event
    /// that takes any general counter and no fixed one (branch misses) are all counted at the same
    /// time; asked for 1, 2, … up to `most`.
    ///
    /// What is counted by others, the NMI watchdog included, is then left out already: add no
    /// [`Shape::taken`].
    pub fn by_trial(unit: &str, most: u32, mut fits: impl FnMut(u32) -> bool) -> Self {
        let fitting = (1..=most.min(32)).take_while(|&copies| fits(copies)).count();
        Self::new(unit, fitting as u32)
    }

    /// With the fixed counter `number` (below 32) if there is one to be had: `fits` says whether its
    /// event is counted beside [`Shape::general`] copies of one that has none.
    #[must_use]
    pub fn fixed_by_trial(mut self, number: u8, fits: bool) -> Self {
        self.fixed |= u32::from(fits).checked_shl(number.into()).unwrap_or(0);
        self
    }

    /// With the NMI watchdog, which counts cycles: on the fixed counter `cycles`, if there is one.
    #[must_use]
    pub fn with_watchdog(mut self, cycles: Option<u8>) -> Self {
        let any = Constraint::any();
        self.taken.push(match cycles {
            Some(number) => any.or_fixed(number),
            None => any,
        });
        self
    }

    /// General counters there are now.
    #[must_use]
    pub fn general_now(&self) -> u32 {
        let shared = self.general_smt.filter(|_| self.smt);
        shared.unwrap_or(self.general).min(u32::BITS)
    }

    /// All counters as bits: general ones from 0, fixed ones from 32.
    pub(super) fn counters(&self) -> u64 {
        let general = 1_u64.checked_shl(self.general_now()).map_or(u64::MAX, |bit| bit - 1);
        general & GENERAL | u64::from(self.fixed) << FIRST_FIXED
    }

    /// Those that `needs` can use.
    pub(super) fn usable(&self, needs: &Constraint) -> u64 {
        let shared = needs.general_smt.filter(|_| self.smt);
        let general = u64::from(shared.unwrap_or(needs.general));
        (general | u64::from(needs.fixed) << FIRST_FIXED) & self.counters()
    }
}

/// Bits of general counters.
pub(super) const GENERAL: u64 = u32::MAX as u64;
/// Bit of the first fixed counter.
const FIRST_FIXED: u32 = 32;

/// The counter of a bit.
pub(super) fn counter(bit: u32) -> Counter {
    let bit = bit as u8;
    let first = FIRST_FIXED as u8;
    if bit < first { Counter::General(bit) } else { Counter::Fixed(bit - first) }
}
