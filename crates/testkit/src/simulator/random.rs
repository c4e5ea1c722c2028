//! Random times and counts of simulated programs.

use super::{PhaseLength, Phases};

/// Random numbers of the distributions that a program's times and counts have.
pub(super) struct Random(pub(super) fastrand::Rng);

impl Random {
    /// A standard normal variate.
    pub(super) fn normal(&mut self) -> f64 {
        let (a, b) = (self.0.f64().max(1e-300), self.0.f64());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// An exponential variate.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.0.f64()).ln()
    }

    /// A gamma variate of an integer shape.
    pub(super) fn length(&mut self, mean: f64, shape: u32) -> f64 {
        (0..shape).map(|_| self.exponential(mean / f64::from(shape))).sum::<f64>().max(1.0)
    }

    /// Cycles of one phase.
    pub(super) fn phase(&mut self, phases: &Phases) -> f64 {
        let relative = match phases.length {
            PhaseLength::Exponential => self.exponential(1.0),
            PhaseLength::Jittered => (1.0 + 0.1 * self.normal()).max(0.01),
            PhaseLength::Periodic => 1.0,
            PhaseLength::Lognormal => (0.8 * self.normal() - 0.32).exp(),
        };
        phases.mean * relative
    }

    /// Rest of the phase at a random moment, cycles: long phases are met more often.
    pub(super) fn rest_of_phase(&mut self, phases: &Phases) -> f64 {
        match phases.length {
            PhaseLength::Exponential => self.phase(phases),
            PhaseLength::Jittered | PhaseLength::Periodic => phases.mean * self.0.f64(),
            PhaseLength::Lognormal => {
                phases.mean * (0.8 * (self.normal() + 0.8) - 0.32).exp() * self.0.f64()
            }
        }
    }

    /// Events that come in clusters of a geometric size with that mean.
    pub(super) fn clustered(&mut self, mean: f64, cluster: f64) -> f64 {
        if cluster <= 1.0 {
            return self.poisson(mean);
        }
        let scale = -1.0 / (1.0 - 1.0 / cluster).ln();
        let clusters = self.poisson(mean / cluster);
        if clusters > 50.0 {
            let spread = (clusters * cluster * (cluster - 1.0)).sqrt();
            return (clusters * cluster + spread * self.normal()).round().max(clusters);
        }
        (0..clusters as u32).map(|_| self.exponential(scale).ceil().max(1.0)).sum()
    }

    /// A Poisson variate; rounded normal where the mean is large.
    pub(super) fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 50.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let (limit, mut product, mut n) = ((-mean).exp(), self.0.f64(), 0.0);
        while product > limit {
            product *= self.0.f64();
            n += 1.0;
        }
        n
    }
}
