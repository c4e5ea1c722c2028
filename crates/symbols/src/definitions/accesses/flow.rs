//! What registers hold at each instruction of a function: what debug information says of variables there, and what
//! follows from instructions on all ways to it.
//!
//! ```text
//!  q in rdi (location list)      mov rax,[rdi+8]   rax: object of what queue.head points to
//!                                lea rdx,[rax+16]  rdx: that object + 16
//!                                call f            rax, rdx and others: nothing
//! ```

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::super::units::Die;
use super::UnknownAccess;
use super::facts::{Base, Fact, RegisterFacts, ValueFacts};
use super::fields::{FieldResolver, ObjectPart};
use super::functions::{DebugFunction, FrameBase, VariablePlace};
use super::instruction::{Address, Instruction, RegisterValue, Successor};
use super::statics::Statics;

/// Instructions are gone over this many times at most, on average.
const MOST_VISITS: usize = 20;
/// Places of variables at instructions.
const MOST_PLACES: usize = 1 << 21;
/// Variables in memory that accesses to the stack are compared with, in all.
const MOST_COMPARED: usize = 1 << 26;

/// What an architecture's calls and frames are like.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallConvention {
    pub(super) stack: u8,
    /// What compilers use as a second pointer to the stack.
    pub(super) frame: u8,
    /// The stack pointer at the first instruction, from the caller's before the call, bytes.
    pub(super) at_entry: i64,
}

/// A variable in memory: where, and its type.
struct InMemory {
    range: Range<u64>,
    /// From the frame's base, or from where a register points.
    base: Option<u8>,
    offset: i64,
    kind: Die,
}

/// A function with what is known at each of its instructions.
pub(super) struct Flow<'f, 'u, 'a> {
    fields: &'f FieldResolver<'f, 'u, 'a>,
    statics: &'f Statics,
    function: &'f DebugFunction,
    instructions: &'f [Instruction],
    machine: CallConvention,
    /// Exceptions may enter it anywhere.
    has_handlers: bool,
    /// By instruction: what variables say of registers.
    learned: Vec<Vec<(u8, Fact)>>,
    memory: Vec<InMemory>,
    compared: Cell<usize>,
    /// Before an instruction that others jump to.
    states: FxHashMap<usize, RegisterFacts>,
    /// At jumps whose targets are not known: any instruction may be one.
    anywhere: Option<RegisterFacts>,
}

impl<'f, 'u, 'a> Flow<'f, 'u, 'a> {
    /// Follows the function through; `instructions` are all of its own, in order of addresses.
    pub(super) fn of(
        fields: &'f FieldResolver<'f, 'u, 'a>,
        statics: &'f Statics,
        function: &'f DebugFunction,
        (instructions, machine): (&'f [Instruction], CallConvention),
        has_handlers: bool,
    ) -> Self {
        let mut flow = Self {
            fields,
            statics,
            function,
            instructions,
            machine,
            has_handlers,
            learned: vec![Vec::new(); instructions.len()],
            memory: Vec::new(),
            compared: Cell::new(0),
            states: FxHashMap::default(),
            anywhere: None,
        };
        flow.variables();
        flow.follow();
        flow
    }

    fn at(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, |one| one.address).ok()
    }

    /// Spreads what debug information says of variables over instructions.
    fn variables(&mut self) {
        let mut left = MOST_PLACES;
        for variable in &self.function.variables {
            let target = self.fields.target(variable.kind);
            let whole = self.fields.whole(variable.kind);
            for (range, place) in &variable.places {
                let object =
                    |to: Option<Die>, offset| to.map(|to| Fact::exact(Base::Object(to), offset));
                let mut learned = Vec::new();
                match place {
                    VariablePlace::Register(register) => {
                        learned.push((*register, object(target, 0)));
                    }
                    VariablePlace::Value(register, more) => {
                        learned.push((*register, object(target, more.wrapping_neg())));
                    }
                    VariablePlace::Pieces(pieces) => {
                        for (offset, register) in pieces {
                            let target = self.fields.target_at(variable.kind, *offset);
                            learned.push((*register, object(target, 0)));
                        }
                    }
                    VariablePlace::Memory(register, offset) => {
                        // What the stack or the frame is accessed by has many variables.
                        if ![self.machine.stack, self.machine.frame].contains(register) {
                            learned.push((*register, object(whole, offset.wrapping_neg())));
                        }
                        self.in_memory(range, Some(*register), *offset, variable.kind);
                    }
                    VariablePlace::Frame(offset) => {
                        let (base, more) = match self.function.frame_base {
                            FrameBase::Cfa => (None, 0),
                            FrameBase::Register(register, more) => (Some(register), more),
                            FrameBase::Unknown => continue,
                        };
                        let offset = offset.wrapping_add(more);
                        self.in_memory(range, base, offset, variable.kind);
                    }
                }
                let first = self.instructions.partition_point(|one| one.address < range.start);
                let end = self.instructions.partition_point(|one| one.address < range.end);
                for (register, fact) in learned {
                    let Some(fact) = fact else { continue };
                    let Some(rest) = left.checked_sub(end.saturating_sub(first)) else { return };
                    left = rest;
                    for one in self.learned.get_mut(first..end).unwrap_or_default() {
                        one.push((register, fact));
                    }
                }
            }
        }
    }

    fn in_memory(&mut self, range: &Range<u64>, base: Option<u8>, offset: i64, kind: Die) {
        if self.memory.len() < MOST_PLACES {
            self.memory.push(InMemory { range: range.clone(), base, offset, kind });
        }
    }

    /// Instructions that are not only reached from the one before.
    fn leaders(&self) -> BTreeSet<usize> {
        let mut leaders = BTreeSet::new();
        for (number, one) in self.instructions.iter().enumerate() {
            match one.next {
                Successor::Following | Successor::Call => {
                    // The next part of the function is somewhere else.
                    let next = self.instructions.get(number + 1);
                    if next.is_some_and(|next| next.address != one.end()) {
                        leaders.insert(number + 1);
                    }
                }
                Successor::Jump(to) | Successor::Branch(to) => {
                    leaders.extend(self.at(to));
                    leaders.insert(number + 1);
                }
                Successor::Anywhere | Successor::Nowhere => {
                    leaders.insert(number + 1);
                }
            }
        }
        leaders.remove(&self.instructions.len());
        leaders.insert(0);
        leaders
    }

    /// Goes over all instructions until nothing changes.
    fn follow(&mut self) {
        let leaders = self.leaders();
        let mut entered: BTreeSet<usize> = BTreeSet::new();
        for (number, one) in self.instructions.iter().enumerate() {
            match one.next {
                Successor::Jump(to) => entered.extend(self.at(to)),
                Successor::Branch(to) => {
                    entered.extend(self.at(to).into_iter().chain([number + 1]));
                }
                Successor::Following | Successor::Call => {
                    entered.insert(number + 1);
                }
                Successor::Anywhere | Successor::Nowhere => {}
            }
        }
        // The beginning, handlers of exceptions, and what tables of jumps lead to.
        let mut tables: Vec<usize> = Vec::new();
        let entry = self.function.ranges.first().and_then(|range| self.at(range.start));
        let mut waiting: BTreeSet<usize> = BTreeSet::new();
        for &leader in &leaders {
            let is_entry = Some(leader) == entry;
            if !is_entry && !entered.contains(&leader) && !self.has_handlers {
                tables.push(leader);
            } else if is_entry || !entered.contains(&leader) {
                self.states.insert(leader, self.beginning(is_entry));
                waiting.insert(leader);
            }
        }
        let mut left = self.instructions.len().saturating_mul(MOST_VISITS);
        while let Some(leader) = waiting.pop_first() {
            let Some(mut state) = self.states.get(&leader).cloned() else { continue };
            for number in leader..self.instructions.len() {
                left = match left.checked_sub(1) {
                    Some(left) => left,
                    None => return self.give_up(),
                };
                if number > leader && leaders.contains(&number) {
                    break;
                }
                self.arrive(number, &mut state);
                let one = &self.instructions[number];
                let jumps_anywhere = one.next == Successor::Anywhere;
                let before = jumps_anywhere.then(|| state.clone());
                self.step(one, &mut state);
                if let Some(before) = before {
                    let changed = match &mut self.anywhere {
                        Some(known) => known.meet(&before),
                        None => {
                            self.anywhere = Some(before);
                            true
                        }
                    };
                    if changed {
                        waiting.extend(self.states.keys().copied());
                    }
                }
                let (target, follows) = match one.next {
                    Successor::Following | Successor::Call => (None, true),
                    Successor::Jump(to) => (self.at(to), false),
                    Successor::Branch(to) => (self.at(to), true),
                    Successor::Anywhere | Successor::Nowhere => (None, false),
                };
                let next = Some(number + 1).filter(|next| follows && leaders.contains(next));
                let of_tables = tables.iter().copied().filter(|_| jumps_anywhere);
                for to in target.into_iter().chain(next).chain(of_tables) {
                    let changed = match self.states.get_mut(&to) {
                        Some(known) => known.meet(&state),
                        None => {
                            self.states.insert(to, state.clone());
                            true
                        }
                    };
                    if changed {
                        waiting.insert(to);
                    }
                }
                if !follows {
                    break;
                }
            }
        }
    }

    /// Without an end to it, only what variables say counts.
    fn give_up(&mut self) {
        self.states.clear();
        self.anywhere = Some(RegisterFacts::default());
    }

    fn beginning(&self, is_entry: bool) -> RegisterFacts {
        let mut state = RegisterFacts::default();
        if is_entry {
            let stack = Fact::exact(Base::Frame, self.machine.at_entry);
            state.set(self.machine.stack, ValueFacts::one(stack));
        }
        state
    }

    /// What holds before an instruction, from what held after the one before.
    fn arrive(&self, number: usize, state: &mut RegisterFacts) {
        if let Some(anywhere) = &self.anywhere {
            state.meet(anywhere);
        }
        for (register, fact) in self.learned.get(number).into_iter().flatten() {
            state.learn(*register, *fact);
        }
    }

    fn step(&self, one: &Instruction, state: &mut RegisterFacts) {
        let new: Vec<(u8, ValueFacts)> =
            one.sets.iter().map(|(to, source)| (*to, self.value(one, *source, state))).collect();
        for (register, facts) in new {
            state.set(register, facts);
        }
    }

    fn value(&self, one: &Instruction, source: RegisterValue, state: &RegisterFacts) -> ValueFacts {
        match source {
            RegisterValue::Unknown => ValueFacts::default(),
            RegisterValue::Constant(value) => ValueFacts::constant(value),
            RegisterValue::Register(from) => state.get(from).clone(),
            RegisterValue::Either(a, b) => state.get(a).or(state.get(b)),
            RegisterValue::Address(address) => sum(&address, state),
            RegisterValue::LowAddress(address) => sum(&address, state).low(),
            RegisterValue::Difference(a, b) => state.get(a).less(state.get(b)),
            RegisterValue::Multiple(of, by) => state.get(of).times(by),
            RegisterValue::LowMultiple(of, by) => state.get(of).times(by).low(),
            RegisterValue::Low(of) => state.get(of).low(),
            RegisterValue::Load(address) => self.loaded(one, &address, state),
        }
    }

    /// What a pointer that is loaded points to.
    fn loaded(&self, one: &Instruction, address: &Address, state: &RegisterFacts) -> ValueFacts {
        let found = self.part_at(one, address, Some(8), state);
        let target =
            found.ok().filter(|(part, _)| part.bytes == 8).and_then(|(part, _)| part.target);
        let fact = target.map(|target| ValueFacts::one(Fact::exact(Base::Object(target), 0)));
        fact.unwrap_or_default()
    }

    /// What registers hold before the instruction, and what it accesses by them.
    pub(super) fn part_of(
        &self,
        number: usize,
        address: &Address,
        bytes: Option<u64>,
    ) -> NamedPart {
        let mut state = RegisterFacts::default();
        let from = (0..=number).rev().find(|at| self.states.contains_key(at));
        if let Some(from) = from {
            state.clone_from(&self.states[&from]);
            for before in from..number {
                let one = &self.instructions[before];
                self.arrive(before, &mut state);
                self.step(one, &mut state);
                if !matches!(
                    one.next,
                    Successor::Following | Successor::Call | Successor::Branch(_)
                ) {
                    // Nothing is known to lead here.
                    state = RegisterFacts::default();
                }
            }
        }
        self.arrive(number, &mut state);
        self.part_at(&self.instructions[number], address, bytes, &state)
    }

    /// The part that an access is within, and the static variable's entry if it is one's.
    fn part_at(
        &self,
        one: &Instruction,
        address: &Address,
        bytes: Option<u64>,
        state: &RegisterFacts,
    ) -> NamedPart {
        let bytes = bytes.unwrap_or(1);
        let facts = sum(address, state);
        let mut parts: Vec<(ObjectPart, Option<Die>)> = Vec::new();
        let mut why = UnknownAccess::NoType;
        let mut take = |answer: NamedPart| match answer {
            Ok(found) => parts.push(found),
            Err(reason) => why = why.max(reason),
        };
        for fact in facts.all() {
            match fact.base {
                Base::Object(kind) => {
                    let part = self.fields.part(kind, fact.offset, fact.step, bytes);
                    take(part.map(|part| (part, None)));
                }
                Base::Frame => self.on_stack(one.address, fact, bytes, state, &mut take),
                Base::Address | Base::Number => {
                    let is_address = fact.base == Base::Address || self.statics.are_fixed();
                    if let Some(found) = self.statics.find(fact.offset, fact.step, self.fields)
                        && is_address
                    {
                        let part = found.and_then(|(kind, offset, die)| {
                            let part = self.fields.part(kind, offset, fact.step, bytes)?;
                            Ok((part, Some(die)))
                        });
                        take(part);
                    }
                }
                Base::Difference => {}
            }
        }
        self.agreed(parts).unwrap_or(Err(why))
    }

    /// Variables in the frame where the fact says.
    fn on_stack(
        &self,
        address: u64,
        fact: &Fact,
        bytes: u64,
        state: &RegisterFacts,
        take: &mut impl FnMut(NamedPart),
    ) {
        let compared = self.compared.get().saturating_add(self.memory.len());
        self.compared.set(compared);
        if compared > MOST_COMPARED {
            return;
        }
        for variable in self.memory.iter().filter(|one| one.range.contains(&address)) {
            let base = match variable.base {
                None => Some(0),
                Some(register) => {
                    let facts = state.get(register).all().iter();
                    let mut frame = facts.filter(|fact| fact.base == Base::Frame && fact.step == 0);
                    frame.next().map(|fact| fact.offset)
                }
            };
            let Some(base) = base else { continue };
            let start = base.wrapping_add(variable.offset);
            let offset = fact.offset.wrapping_sub(start);
            let size = self.fields.size(variable.kind).unwrap_or(0);
            let is_end = offset == size as i64 && fact.step != 0;
            if is_end && self.fields.has_elements(variable.kind) {
                // A loop may count down to the end of this variable.
                take(Err(UnknownAccess::Index));
                return;
            }
            if offset >= 0 && (offset as u64) < size {
                let part = self.fields.part(variable.kind, offset, fact.step, bytes);
                take(part.map(|part| (part, None)));
            }
        }
    }

    /// The one of several that says most, if all others say the same; `None`: there is none.
    fn agreed(&self, mut parts: Vec<(ObjectPart, Option<Die>)>) -> Option<NamedPart> {
        if parts.iter().any(|(part, _)| part.has_fields) {
            parts.retain(|(part, _)| part.has_fields);
        }
        let size = |part: &ObjectPart| self.fields.size(part.owner).unwrap_or(0);
        parts.sort_by_key(|(part, of)| (std::cmp::Reverse((of.is_some(), size(part))), part.owner));
        let mut parts = parts.into_iter();
        let best = parts.next()?;
        let agree = parts.all(|(part, _)| {
            let is_all_of_it =
                || best.0.kind.and_then(|kind| self.fields.whole(kind)) == Some(part.owner);
            best.0.bytes == part.bytes
                && match (part.path.is_empty(), best.0.path.is_empty()) {
                    (true, true) => true,
                    (true, false) => is_all_of_it(),
                    _ => best.0.path.ends_with(&part.path),
                }
        });
        Some(if agree { Ok(best) } else { Err(UnknownAccess::Ambiguous) })
    }
}

/// A part, and the static variable that it is of.
pub(super) type NamedPart = Result<(ObjectPart, Option<Die>), UnknownAccess>;

/// What is known of an address.
fn sum(address: &Address, state: &RegisterFacts) -> ValueFacts {
    let start = if address.is_absolute {
        ValueFacts::one(Fact::exact(Base::Address, address.displacement))
    } else {
        ValueFacts::constant(address.displacement)
    };
    let index = address.index.map(|(register, scale)| {
        let index = state.get(register);
        let index = if address.is_index_narrow { index.low() } else { index.clone() };
        if scale == 1 { index } else { index.times(scale) }
    });
    let base = address.base.map(|register| state.get(register).clone());
    match (base, index) {
        (None, None) => start,
        (Some(base), None) => base.sum(&start),
        (None, Some(index)) => start.sum(&index),
        (Some(base), Some(index)) => base.sum(&index).sum(&start),
    }
}
