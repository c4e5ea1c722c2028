//! What examples about synthetic fleets have in common: chance, sizes of fleets, and how often intervals hold the truth.

use pmuscope_stats::Interval;

/// 2025-11-25, midnight UTC.
pub(crate) const BEGINS: i64 = 1_764_028_800_000_000;
/// Length of a bin, microseconds.
pub(crate) const BIN_US: i64 = 300_000_000;
/// The most hosts that fleets of a class have; they have more than those of the class before.
pub(crate) const CLASSES: [u64; 5] = [5, 10, 30, 100, 200];

/// Random numbers: splitmix64 (Steele, Lea and Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Nearly normal: the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// A factor whose logarithm has this standard deviation.
    pub(crate) fn factor(&mut self, deviation: f64) -> f64 {
        (deviation * self.normal()).exp()
    }

    /// Hosts of a fleet, 3 to 200: small fleets as often as large ones.
    pub(crate) fn hosts(&mut self) -> u64 {
        (3.0 * (self.unit() * (201.0_f64 / 3.0).ln()).exp()) as u64
    }
}

/// How many fleets a command line asks for.
pub(crate) fn fleets_asked() -> u64 {
    std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000)
}

/// The class of fleets with so many hosts.
pub(crate) fn class(hosts: u64) -> Option<usize> {
    CLASSES.iter().position(|most| hosts <= *most)
}

/// The hosts of a class in words: `11-30`.
pub(crate) fn class_name(class: usize) -> String {
    let from = class.checked_sub(1).map_or(3, |before| CLASSES[before] + 1);
    format!("{from}-{}", CLASSES[class])
}

/// A number of cases, and how many of them are as asked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) cases: u64,
    pub(crate) hits: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, is_hit: bool) {
        self.cases += 1;
        self.hits += u64::from(is_hit);
    }

    /// The cases of both.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self { cases: self.cases + other.cases, hits: self.hits + other.hits }
    }

    /// Counts an interval, if there is one, and whether it holds the truth.
    pub(crate) fn add_interval(&mut self, interval: Option<Interval>, truth: f64) {
        if let Some(interval) = interval {
            self.add(interval.contains(truth));
        }
    }
}

/// `94.6% of 5,000`.
impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cases, hits } = *self;
        let text = match cases {
            0 => "-".to_owned(),
            _ => format!("{:.1}% of {cases}", 100.0 * hits as f64 / cases as f64),
        };
        f.pad(&text)
    }
}
