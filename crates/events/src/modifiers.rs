//! The letters behind an event or a group.
//!
//! As in perf: naming any of `u`, `k`, `h` excludes the modes not named; a group's letters add to those
//! of its members.

use pmuscope_abi::AttrFlags;

use crate::error::{Fault, Reason};
use crate::event::{Event, Origin};
use crate::syntax::TextPiece;

/// Highest value of `precise_ip`.
const MAX_PRECISE: u8 = 3;
/// Letters that change what one event counts, and so belong to its name.
const IN_NAME: &str = "ukhGHIpP";

/// What the letters ask for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Modifiers {
    letters: String,
    pub(crate) leader_sampling: bool,
    pub(crate) weak: bool,
    pinned: bool,
    exclusive: bool,
}

impl Modifiers {
    /// Reads the letters; with `member`, letters for a whole group are refused.
    pub(crate) fn parse(piece: Option<TextPiece<'_>>, member: bool) -> Result<Self, Fault> {
        let mut found = Self::default();
        let Some(piece) = piece else { return Ok(found) };
        if piece.text.is_empty() {
            return Err(piece.fault(Reason::Missing { what: "a modifier" }));
        }
        for (offset, letter) in piece.text.char_indices() {
            let of_group = match letter {
                'S' => &mut found.leader_sampling,
                'W' => &mut found.weak,
                'D' => &mut found.pinned,
                'e' => &mut found.exclusive,
                c if IN_NAME.contains(c) => {
                    found.letters.push(c);
                    if found.precise() > MAX_PRECISE {
                        return Err(piece.fault(Reason::TooPrecise));
                    }
                    continue;
                }
                'b' => {
                    let why = "b (counting in BPF) is not supported. Try: without it";
                    return Err(piece.fault_at(offset, Reason::NotHere { why }));
                }
                letter => return Err(piece.fault_at(offset, Reason::BadModifier { letter })),
            };
            *of_group = true;
            if member && letter != 'S' {
                return Err(piece.fault_at(offset, Reason::GroupModifier { letter }));
            }
        }
        Ok(found)
    }

    /// Whether `text` could be modifiers, known or not.
    pub(crate) fn looks_like(text: &str) -> bool {
        !text.is_empty() && text.len() <= 12 && text.chars().all(|c| "ukhIGHpPSDWebRX".contains(c))
    }

    /// These and those of the group around.
    pub(crate) fn with(&self, group: &Self) -> Self {
        let mut both = self.clone();
        both.letters.push_str(&group.added_to(self));
        both
    }

    /// The letters that a group adds to the name of a member that has `own`.
    pub(crate) fn added_to(&self, own: &Self) -> String {
        self.letters.chars().filter(|&c| c == 'p' || !own.has(c)).collect()
    }

    fn has(&self, letter: char) -> bool {
        self.letters.contains(letter)
    }

    fn precise(&self) -> u8 {
        self.letters.bytes().filter(|&c| c == b'p').count().min(usize::from(u8::MAX)) as u8
    }

    /// Sets modes, guests and precision of one event.
    pub(crate) fn apply(&self, event: &mut Event, at: TextPiece<'_>) -> Result<(), Fault> {
        if self.precise() > MAX_PRECISE {
            return Err(at.fault(Reason::TooPrecise));
        }
        let flags = &mut event.attr.flags;
        if ['u', 'k', 'h'].into_iter().any(|mode| self.has(mode)) {
            flags.set(AttrFlags::EXCLUDE_USER, !self.has('u'));
            flags.set(AttrFlags::EXCLUDE_KERNEL, !self.has('k'));
            flags.set(AttrFlags::EXCLUDE_HV, !self.has('h'));
        }
        flags.set(AttrFlags::EXCLUDE_IDLE, self.has('I'));
        let (host, guest) = (self.has('H'), self.has('G'));
        let host_only = if event.origin == Origin::Pmu { host && !guest } else { !guest };
        flags.set(AttrFlags::EXCLUDE_GUEST, host_only);
        flags.set(AttrFlags::EXCLUDE_HOST, guest && !host);
        event.attr.precise_ip = self.precise();
        event.max_precise = self.has('P');
        Ok(())
    }

    /// Sets what only a leader may have.
    pub(crate) fn apply_to_leader(&self, event: &mut Event) {
        event.attr.flags.set(AttrFlags::PINNED, self.pinned);
        event.attr.flags.set(AttrFlags::EXCLUSIVE, self.exclusive);
    }
}
