//! Starting and stopping the events.

use std::time::Duration;

use super::Session;
use super::files::ClockReading;
use crate::error::RecorderError;
use crate::options::Sampling;

impl Session<'_> {
    /// Enables, each CPU at a phase of its own: events started together would sample all CPUs at the
    /// same moments, and in step with the timer tick.
    pub(super) fn enable(&self) -> Result<(), RecorderError> {
        self.start_sampling()?;
        self.enabled.get_or_init(|| ClockReading::now(self.options.clockid));
        Ok(())
    }

    fn start_sampling(&self) -> Result<(), RecorderError> {
        if let Some(mut strobe) = self.strobe() {
            return strobe.start(self.kernel, &self.set);
        }
        let period = self.longest_phase();
        self.set.enable(self.kernel, |cpu| {
            if cpu.is_some() {
                std::thread::sleep(period.mul_f64(fastrand::f64()));
            }
        })?;
        match &self.source {
            Some(sourced) => sourced.source.begin(),
            None => Ok(()),
        }
    }

    /// Stops all events.
    pub(super) fn disable(&self) -> Result<(), RecorderError> {
        if let Some(mut strobe) = self.strobe() {
            // Nothing reads the stream from here on: what became known is in the final metadata.
            let _ = strobe.end(self.kernel, &self.set);
        }
        if let Some(sourced) = &self.source {
            sourced.source.end();
        }
        Ok(self.set.disable(self.kernel)?)
    }

    /// The time between two samples where it is known, at most a millisecond: on hundreds of CPUs the
    /// waits add up.
    fn longest_phase(&self) -> Duration {
        let cpus = self.topology.online.len().max(1) as u32;
        let known = match self.options.sampling {
            Sampling::Frequency(hz) => Duration::from_nanos(1_000_000_000 / hz.max(1)),
            Sampling::Period(_) => Duration::from_micros(100),
        };
        known.min(Duration::from_millis(1)).min(Duration::from_millis(200) / cpus)
    }
}
