//! Weights of samples, added up: latencies in cycles, as a rule.

/// What samples weighed, as far as they tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weights {
    /// Samples with a weight.
    pub of: u64,
    sum: u64,
    largest: u64,
}

impl Weights {
    /// That of one sample.
    #[must_use]
    pub fn one(weight: Option<u64>) -> Self {
        let sum = weight.unwrap_or(0);
        Self { of: weight.is_some().into(), sum, largest: sum }
    }

    /// The mean; `None` where none was recorded.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.of > 0).then(|| self.sum as f64 / self.of as f64)
    }

    /// The largest; `None` where none was recorded.
    #[must_use]
    pub fn largest(&self) -> Option<u64> {
        (self.of > 0).then_some(self.largest)
    }

    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.of += other.of;
        self.sum = self.sum.saturating_add(other.sum);
        self.largest = self.largest.max(other.largest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_without_a_weight_weigh_nothing_and_are_not_counted() {
        let mut weights = Weights::one(None);
        assert_eq!((weights.of, weights.mean(), weights.largest()), (0, None, None));
        for weight in [Some(10), None, Some(30)] {
            weights.add(&Weights::one(weight));
        }
        assert_eq!((weights.of, weights.mean(), weights.largest()), (2, Some(20.0), Some(30)));
        weights.add(&Weights::one(Some(u64::MAX)));
        assert_eq!(weights.largest(), Some(u64::MAX));
    }
}
