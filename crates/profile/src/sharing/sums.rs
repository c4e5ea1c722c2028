//! What accesses came to, added up.

use pmuscope_perfdata::reader::{AccessClass, DataSource};

/// Sampled accesses to memory, by class, with what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccessSums {
    /// Samples of each class, in the order of [`AccessClass::ALL`].
    by_class: [u64; AccessClass::ALL.len()],
    /// Those of locked instructions, which read and write.
    pub locked: u64,
    /// Loads that waited for the data of an earlier store.
    pub blocked_by_data: u64,
    /// Loads that waited because of an address conflict.
    pub blocked_by_address: u64,
    /// Loads that say how long they took.
    pub with_weight: u64,
    /// What these took together, in the unit of the weight, mostly cycles.
    pub weight: u64,
    /// Contended loads ([`AccessClass::is_contended`]) that say how long they took.
    pub contended_with_weight: u64,
    /// What these took together.
    pub contended_weight: u64,
    /// The same, each times its period: an estimate for all loads that could have been sampled.
    pub cost: u64,
    /// The part of it of loads that found their line in a cache of another node.
    pub remote_cost: u64,
}

/// One sampled access.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryAccess {
    pub(super) class: AccessClass,
    pub(super) source: DataSource,
    /// How long it took; `None` where that is not recorded, and of 0: events without it write that.
    pub(super) weight: Option<u64>,
    pub(super) period: u64,
    /// Physical address of the data; `None` where that is not recorded.
    pub(super) physical: Option<u64>,
}

/// What accesses of one class and with the same marks came to: 24 bytes, as there may be millions of such sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClassSums {
    samples: u32,
    with_weight: u32,
    weight: u64,
    cost: u64,
}

impl ClassSums {
    pub(super) fn add(&mut self, other: &Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.with_weight = self.with_weight.saturating_add(other.with_weight);
        self.weight = self.weight.saturating_add(other.weight);
        self.cost = self.cost.saturating_add(other.cost);
    }
}

/// Bits of [`MemoryAccess::marks`].
const LOCKED: u8 = 1;
const BLOCKED_BY_DATA: u8 = 2;
const BLOCKED_BY_ADDRESS: u8 = 4;
/// The address of the code is not that of the very instruction.
pub(super) const INEXACT: u8 = 8;

impl MemoryAccess {
    /// What else is counted of it.
    pub(super) fn marks(&self) -> u8 {
        let bit = |bit: u8, is: bool| if is { bit } else { 0 };
        bit(LOCKED, self.source.locked() == Some(true))
            | bit(BLOCKED_BY_DATA, self.source.is_blocked_by_data())
            | bit(BLOCKED_BY_ADDRESS, self.source.is_blocked_by_address())
    }

    /// See [`AccessSums::cost`].
    pub(super) fn cost(&self) -> u64 {
        self.sums().cost
    }

    pub(super) fn sums(&self) -> ClassSums {
        match self.weight.filter(|_| !self.class.is_store()) {
            None => ClassSums { samples: 1, ..ClassSums::default() },
            Some(weight) => {
                let cost = weight.saturating_mul(self.period);
                let cost = if self.class.is_contended() { cost } else { 0 };
                ClassSums { samples: 1, with_weight: 1, weight, cost }
            }
        }
    }
}

impl AccessSums {
    pub(super) fn of(access: &MemoryAccess) -> Self {
        let mut sums = Self::default();
        sums.add_class((access.class, access.marks()), &access.sums());
        sums
    }

    /// Adds accesses of one class and with the same marks.
    pub(super) fn add_class(&mut self, (class, marks): (AccessClass, u8), more: &ClassSums) {
        let ClassSums { samples, with_weight, weight, cost } = *more;
        let (samples, with_weight) = (u64::from(samples), u64::from(with_weight));
        self.by_class[class as usize] += samples;
        let marked = |bit: u8| if marks & bit == 0 { 0 } else { samples };
        self.locked += marked(LOCKED);
        self.blocked_by_data += marked(BLOCKED_BY_DATA);
        self.blocked_by_address += marked(BLOCKED_BY_ADDRESS);
        self.with_weight += with_weight;
        self.weight = self.weight.saturating_add(weight);
        if class.is_contended() {
            self.contended_with_weight += with_weight;
            self.contended_weight = self.contended_weight.saturating_add(weight);
            self.cost = self.cost.saturating_add(cost);
        }
        if matches!(class, AccessClass::LoadRemoteHitm | AccessClass::LoadRemotePeer) {
            self.remote_cost = self.remote_cost.saturating_add(cost);
        }
    }

    /// Contended loads that found their line in a cache of another node.
    #[must_use]
    pub fn remote(&self) -> u64 {
        self.of_class(AccessClass::LoadRemoteHitm) + self.of_class(AccessClass::LoadRemotePeer)
    }

    /// Loads: all, contended ones and those of them from another node; what the latter two cost.
    #[cfg(test)]
    pub(super) fn made(
        [loads, contended, remote]: [u64; 3],
        [cost, remote_cost]: [u64; 2],
    ) -> Self {
        let mut sums = Self { cost, remote_cost, ..Self::default() };
        sums.by_class[AccessClass::LoadL1 as usize] = loads - contended;
        sums.by_class[AccessClass::LoadLocalHitm as usize] = contended - remote;
        sums.by_class[AccessClass::LoadRemoteHitm as usize] = remote;
        sums
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.by_class.iter_mut().zip(other.by_class).for_each(|(sum, one)| *sum += one);
        self.locked += other.locked;
        self.blocked_by_data += other.blocked_by_data;
        self.blocked_by_address += other.blocked_by_address;
        self.with_weight += other.with_weight;
        self.weight = self.weight.saturating_add(other.weight);
        self.contended_with_weight += other.contended_with_weight;
        self.contended_weight = self.contended_weight.saturating_add(other.contended_weight);
        self.cost = self.cost.saturating_add(other.cost);
        self.remote_cost = self.remote_cost.saturating_add(other.remote_cost);
    }

    /// Samples of a class.
    #[must_use]
    pub fn of_class(&self, class: AccessClass) -> u64 {
        self.by_class[class as usize]
    }

    fn sum(&self, passes: impl Fn(AccessClass) -> bool) -> u64 {
        let of = AccessClass::ALL.into_iter().filter(|class| passes(*class));
        of.map(|class| self.of_class(class)).sum()
    }

    /// All loads.
    #[must_use]
    pub fn loads(&self) -> u64 {
        self.sum(|class| !class.is_store())
    }

    /// All stores.
    #[must_use]
    pub fn stores(&self) -> u64 {
        self.sum(AccessClass::is_store)
    }

    /// Loads of lines that other cores had in their caches, modified (HITM) or, on Arm, in any state.
    #[must_use]
    pub fn contended(&self) -> u64 {
        self.sum(AccessClass::is_contended)
    }

    /// Accesses that wrote: stores, and locked instructions, which PMUs report as loads.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.stores() + self.locked.min(self.loads())
    }

    /// Mean latency of contended loads; `None` where none says.
    #[must_use]
    pub fn contended_mean(&self) -> Option<f64> {
        let of = self.contended_with_weight;
        (of > 0).then(|| self.contended_weight as f64 / of as f64)
    }

    /// Mean latency of all other loads; `None` where none says.
    #[must_use]
    pub fn other_mean(&self) -> Option<f64> {
        let of = self.with_weight - self.contended_with_weight;
        (of > 0).then(|| (self.weight - self.contended_weight) as f64 / of as f64)
    }
}
