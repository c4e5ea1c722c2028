//! Whether one group can be counted at once.

use super::shape::{Constraint, Extra, GENERAL, Shape};

/// Ways to give out registers that are tried: more than real units have. Beyond, the answer is no.
const MOST_TRIES: u32 = 10_000;

/// A counter (as a bit) for each of `members`, beside what others count all the time; `None` if there
/// is no way.
pub(super) fn assign(shape: &Shape, members: &[&Constraint]) -> Option<Vec<u32>> {
    let usable = usable(shape, members)?;
    let extras = members.iter().filter_map(|member| member.extra.as_ref());
    if !registers_suffice(&extras.collect::<Vec<_>>()) {
        return None;
    }
    let mut owners = Owners::default();
    for item in 0..usable.len() {
        owners.place(item, &usable, &mut 0).then_some(())?;
    }
    let mut found = vec![0; usable.len()];
    for (bit, owner) in owners.0.iter().enumerate() {
        if let Some(item) = owner {
            found[*item] = bit as u32;
        }
    }
    Some(found.split_off(shape.taken.len()))
}

/// What each event can use, those of others first, given who is in the group: beside an event that is
/// taken alone only fixed counters are left. `None` where two want to be alone.
fn usable(shape: &Shape, members: &[&Constraint]) -> Option<Vec<u64>> {
    let alone = members.iter().filter(|member| member.alone).count();
    if alone > 1 {
        return None;
    }
    let all = shape.taken.iter().chain(members.iter().copied());
    let left = |needs: &Constraint| if alone == 1 && !needs.alone { !GENERAL } else { u64::MAX };
    Some(all.map(|needs| shape.usable(needs) & left(needs)).collect())
}

/// Who has each counter, while a matching grows (Kuhn's algorithm: whoever is in the way moves on if
/// there is a place).
struct Owners([Option<usize>; 64]);

impl Default for Owners {
    fn default() -> Self {
        Self([None; 64])
    }
}

impl Owners {
    /// Finds a counter for `item`; `seen` are counters that were asked already.
    fn place(&mut self, item: usize, usable: &[u64], seen: &mut u64) -> bool {
        loop {
            let left = usable[item] & !*seen;
            if left == 0 {
                return false;
            }
            // Fixed counters first: general ones are wanted by more.
            let bit = 63 - left.leading_zeros();
            *seen |= 1 << bit;
            let place = bit as usize;
            let free = match self.0[place] {
                Some(owner) => self.place(owner, usable, seen),
                None => true,
            };
            if free {
                self.0[place] = Some(item);
                return true;
            }
        }
    }
}

/// Whether each of `wanted` can have a register that holds its value.
pub(super) fn registers_suffice(wanted: &[&Extra]) -> bool {
    let mut distinct: Vec<&Extra> = wanted.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    // Those with the least choice first: fewer ways to try.
    distinct.sort_by_key(|extra| extra.registers.len());
    give(&distinct, &mut Vec::new(), &mut { MOST_TRIES })
}

/// Gives registers to `wanted` beside those `held` as (register, value).
fn give(wanted: &[&Extra], held: &mut Vec<(u32, u64)>, tries: &mut u32) -> bool {
    let Some((first, rest)) = wanted.split_first() else { return true };
    *tries = tries.saturating_sub(1);
    if *tries == 0 {
        return false;
    }
    let value_in = |register: u32, held: &[(u32, u64)]| {
        held.iter().find(|(taken, _)| *taken == register).map(|&(_, value)| value)
    };
    if first.registers.iter().any(|&register| value_in(register, held) == Some(first.value)) {
        return give(rest, held, tries);
    }
    for &register in &first.registers {
        if value_in(register, held).is_none() {
            held.push((register, first.value));
            if give(rest, held, tries) {
                return true;
            }
            held.pop();
        }
    }
    false
}
