//! What is known of the value of a register: several facts, all true.

use super::super::units::Die;
use super::instruction::REGISTERS;

/// Facts that are kept of one register: as many names as a value usually has.
const MOST_FACTS: usize = 4;

/// What a value counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Base {
    /// The address of an object of this type.
    Object(Die),
    /// The stack pointer of the caller before the call.
    Frame,
    /// Addresses of the file.
    Address,
    /// Zero.
    Number,
    /// The difference of two addresses: what it is added to says nothing of the sum.
    Difference,
}

/// The value is `base + offset + k × step` for some integer `k`; a step of 0: no `k`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Fact {
    pub(super) base: Base,
    pub(super) offset: i64,
    pub(super) step: u64,
}

impl Fact {
    pub(super) fn exact(base: Base, offset: i64) -> Self {
        Self { base, offset, step: 0 }
    }

    fn is_pointer(&self) -> bool {
        !matches!(self.base, Base::Number)
    }

    /// The same value less precisely, as `other` is one too; `None`: they have nothing in common.
    fn or(self, other: Self) -> Option<Self> {
        if self.base != other.base || self.base == Base::Difference {
            return (self == other).then_some(self);
        }
        let apart = self.offset.abs_diff(other.offset);
        let step = common(common(self.step, other.step), apart);
        // The stack is as deep on all ways to an instruction.
        let fits = self.base != Base::Frame || step == 0;
        fits.then_some(Self { step, ..self })
    }

    fn plus(self, constant: i64) -> Self {
        Self { offset: self.offset.wrapping_add(constant), ..self }
    }

    /// `None` where that has no meaning.
    fn times(self, by: u64) -> Option<Self> {
        let offset = self.offset.checked_mul(i64::try_from(by).ok()?)?;
        Some(Self { offset, step: self.step.checked_mul(by)?, ..self })
    }
}

/// The greatest common divisor; of 0 and a number that.
pub(super) fn common(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// What is known of a value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ValueFacts(Vec<Fact>);

impl ValueFacts {
    pub(super) fn one(fact: Fact) -> Self {
        Self(vec![fact])
    }

    pub(super) fn constant(value: i64) -> Self {
        Self::one(Fact::exact(Base::Number, value))
    }

    pub(super) fn all(&self) -> &[Fact] {
        &self.0
    }

    /// Adds one that debug information has: exact, so better than what was known.
    pub(super) fn learn(&mut self, fact: Fact) {
        match self.0.iter_mut().find(|known| known.base == fact.base) {
            Some(known) => *known = fact,
            None => {
                self.0.truncate(MOST_FACTS - 1);
                self.0.insert(0, fact);
            }
        }
    }

    /// What holds whichever of the two the value is.
    pub(super) fn or(&self, other: &Self) -> Self {
        let both = |fact: &Fact| other.0.iter().find_map(|other| fact.or(*other));
        Self(self.0.iter().filter_map(both).collect())
    }

    pub(super) fn plus(&self, constant: i64) -> Self {
        Self(self.0.iter().map(|fact| fact.plus(constant)).collect())
    }

    /// The number that it is, `k × step + offset`; of what nothing is known any number.
    fn number(&self) -> Option<Fact> {
        let number = |fact: &&Fact| fact.base == Base::Number;
        match self.0.iter().find(number) {
            Some(fact) => Some(*fact),
            None if self.0.is_empty() => Some(Fact { base: Base::Number, offset: 0, step: 1 }),
            None => None,
        }
    }

    pub(super) fn times(&self, by: u64) -> Self {
        let product = self.number().and_then(|number| number.times(by));
        Self(product.into_iter().collect())
    }

    pub(super) fn sum(&self, other: &Self) -> Self {
        let (own, others) = (self.number(), other.number());
        let pointers = |facts: &Self| facts.0.iter().any(Fact::is_pointer);
        let (of, number) = match (pointers(self), pointers(other), own, others) {
            (_, false, _, Some(number)) => (self, number),
            (false, true, Some(number), _) => (other, number),
            _ => return Self::default(),
        };
        let add = |fact: &Fact| {
            let fact = fact.plus(number.offset);
            Fact { step: common(fact.step, number.step), ..fact }
        };
        Self(of.0.iter().map(add).collect())
    }

    fn only_number(&self) -> Option<Fact> {
        self.0.first().copied().filter(|fact| fact.base == Base::Number)
    }

    /// `self` less `other`.
    pub(super) fn less(&self, other: &Self) -> Self {
        match (self.only_number(), other.only_number()) {
            (Some(own), Some(others)) => Self::one(Fact {
                base: Base::Number,
                offset: own.offset.wrapping_sub(others.offset),
                step: common(own.step, others.step),
            }),
            (_, Some(others)) if others.step == 0 => self.plus(others.offset.wrapping_neg()),
            _ if self.0.is_empty() && other.0.is_empty() => Self::default(),
            _ => Self::one(Fact::exact(Base::Difference, 0)),
        }
    }

    /// The low 32 bits, as a number with a sign or without: what it is a multiple of besides a power of two may be lost.
    pub(super) fn low(&self) -> Self {
        let Some(number) = self.number() else { return Self::default() };
        if number.step == 0 {
            // Whether a larger one is negative then is another question.
            let is_same = (0..=i64::from(i32::MAX)).contains(&number.offset);
            return if is_same { Self::one(number) } else { Self::default() };
        }
        let step = common(number.step, 1 << 32);
        let offset = number.offset & i64::from(u32::MAX);
        if step <= 1 { Self::default() } else { Self::one(Fact { offset, step, ..number }) }
    }
}

/// What is known of all registers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RegisterFacts([ValueFacts; REGISTERS]);

impl RegisterFacts {
    pub(super) fn get(&self, register: u8) -> &ValueFacts {
        const NOTHING: &ValueFacts = &ValueFacts(Vec::new());
        self.0.get(usize::from(register)).unwrap_or(NOTHING)
    }

    pub(super) fn set(&mut self, register: u8, facts: ValueFacts) {
        if let Some(known) = self.0.get_mut(usize::from(register)) {
            *known = facts;
        }
    }

    pub(super) fn learn(&mut self, register: u8, fact: Fact) {
        if let Some(known) = self.0.get_mut(usize::from(register)) {
            known.learn(fact);
        }
    }

    /// What holds in both cases; whether that is less than before.
    pub(super) fn meet(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            if !own.0.is_empty() && own != other {
                let both = own.or(other);
                changed |= both != *own;
                *own = both;
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(offset: i64, step: u64) -> ValueFacts {
        ValueFacts::one(Fact { base: Base::Number, offset, step })
    }

    fn frame(offset: i64) -> ValueFacts {
        ValueFacts::one(Fact::exact(Base::Frame, offset))
    }

    #[test]
    fn an_index_times_a_size_is_a_multiple_of_it() {
        let index = ValueFacts::default();
        assert_eq!(index.times(3).times(8), number(0, 24));
        assert_eq!(number(2, 3).times(8), number(16, 24));
        // The low half of a multiple of 24 is one of 8.
        assert_eq!(index.times(24).low(), number(0, 8));
        assert_eq!(ValueFacts::constant(5).low(), ValueFacts::constant(5));
        assert_eq!(index.low(), ValueFacts::default());
        assert_eq!(number(i64::MAX, 1).times(2), ValueFacts::default());
    }

    #[test]
    fn sums_of_pointers_and_numbers_are_pointers() {
        assert_eq!(frame(-8).sum(&ValueFacts::constant(24)), frame(16));
        let indexed = ValueFacts::one(Fact { base: Base::Frame, offset: -8, step: 24 });
        assert_eq!(frame(-8).sum(&ValueFacts::default().times(24)), indexed);
        assert_eq!(ValueFacts::default().times(24).sum(&frame(-8)), indexed);
        assert_eq!(frame(1).sum(&frame(2)), ValueFacts::default());
        let difference = frame(1).less(&frame(2));
        assert_eq!(frame(1).sum(&difference), ValueFacts::default());
        assert_eq!(frame(9).less(&ValueFacts::constant(4)), frame(5));
    }

    #[test]
    fn of_two_ways_only_what_both_have_is_left() {
        let object = |offset| Fact::exact(Base::Address, offset);
        let (a, b) = (ValueFacts::one(object(0)), ValueFacts::one(object(48)));
        assert_eq!(a.or(&b).all(), [Fact { step: 48, ..object(0) }]);
        assert_eq!(
            a.or(&b).or(&ValueFacts::one(object(72))).all(),
            [Fact { step: 24, ..object(0) }]
        );
        assert_eq!(a.or(&frame(0)), ValueFacts::default());
        assert_eq!(frame(0).or(&frame(8)), ValueFacts::default());
        let mut known = RegisterFacts::default();
        known.set(3, a);
        assert!(known.meet(&RegisterFacts::default()));
        assert_eq!(known, RegisterFacts::default());
        assert!(!known.meet(&RegisterFacts::default()));
    }
}
