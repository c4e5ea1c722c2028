//! What is too expensive to be recorded all the time: for some seconds of each period, at a moment drawn at random, so that
//! the hosts of a fleet cover time evenly.
//!
//! ```text
//!  period 1                        period 2
//!  ├────────────▒▒▒───────────────┼──▒▒▒─────────────────────────┼
//!               └ a process: it records, writes rows into a folder, and ends; they go into the spool with the bin
//! ```

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::config::OffCpuConfig;

/// Runs a measurement again and again, one at a time.
#[derive(Debug)]
pub(crate) struct MeasurementSchedule {
    every: Duration,
    length: Duration,
    /// When the next period begins.
    period: Instant,
    /// When the next measurement begins.
    next: Instant,
    running: Option<Child>,
    /// Why one could not begin.
    failed: Option<io::Error>,
}

/// How a measurement ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MeasurementEnd {
    /// Well.
    Done {
        /// What it says of itself.
        text: String,
        /// Its largest memory, bytes, if it says that.
        peak_rss_bytes: Option<i64>,
    },
    /// It failed; why.
    Failed(String),
}

impl MeasurementSchedule {
    /// The first measurement begins now, or at any moment of the first period.
    pub(crate) fn new(config: &OffCpuConfig, at_once: bool) -> Self {
        let (every, length) =
            (Duration::from_secs(config.every_seconds), Duration::from_secs(config.seconds));
        let now = Instant::now();
        let mut schedule =
            Self { every, length, period: now, next: now, running: None, failed: None };
        if !at_once {
            schedule.draw(fastrand::f64());
        }
        schedule.period += every;
        schedule
    }

    /// A moment of the period, `part` of what it can be later than its begin.
    fn draw(&mut self, part: f64) {
        self.next = self.period + self.every.saturating_sub(self.length).mul_f64(part);
    }

    /// Begins a measurement if one is due, unless the last one still runs.
    pub(crate) fn poll(&mut self, command: &dyn Fn() -> Command) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        // Periods that nobody polled in are left out.
        while self.next <= now {
            self.draw(fastrand::f64());
            self.period += self.every;
        }
        if self.running.is_some() {
            return;
        }
        let mut command = command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => self.running = Some(child),
            Err(error) => self.failed = Some(error),
        }
    }

    /// A measurement that has ended; with `wait`, the one that is running.
    pub(crate) fn ended(&mut self, wait: bool) -> Option<MeasurementEnd> {
        if let Some(error) = self.failed.take() {
            return Some(MeasurementEnd::Failed(error.to_string()));
        }
        let has_ended = match self.running.as_mut()?.try_wait() {
            Ok(None) => wait,
            Ok(Some(_)) | Err(_) => true,
        };
        let child = has_ended.then(|| self.running.take()).flatten()?;
        Some(match child.wait_with_output() {
            Ok(output) if output.status.success() => done(&text(&output.stdout)),
            Ok(output) if output.stderr.is_empty() => {
                MeasurementEnd::Failed(output.status.to_string())
            }
            Ok(output) => MeasurementEnd::Failed(text(&output.stderr)),
            Err(error) => MeasurementEnd::Failed(error.to_string()),
        })
    }
}

/// A line about it, and one with its memory.
fn done(text: &str) -> MeasurementEnd {
    let mut lines = text.lines();
    let text = lines.next().unwrap_or_default().to_owned();
    MeasurementEnd::Done { text, peak_rss_bytes: lines.next().and_then(|line| line.parse().ok()) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

impl Drop for MeasurementSchedule {
    fn drop(&mut self) {
        if let Some(child) = &mut self.running {
            // It may have ended meanwhile.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> MeasurementSchedule {
        MeasurementSchedule::new(
            &OffCpuConfig { seconds: 1, every_seconds: 3600, max_mib: 1 },
            true,
        )
    }

    fn shell(script: &'static str) -> impl Fn() -> Command {
        move || {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        }
    }

    #[test]
    fn what_a_measurement_says_is_told_once() {
        let mut schedule = schedule();
        schedule.poll(&shell("echo 5 waits; echo 4096"));
        let done = MeasurementEnd::Done { text: "5 waits".into(), peak_rss_bytes: Some(4096) };
        assert_eq!(schedule.ended(true), Some(done));
        assert_eq!(schedule.ended(true), None);
        // The next one is in the next period.
        schedule.poll(&shell("echo 6 waits"));
        assert_eq!(schedule.ended(true), None);
    }

    #[test]
    fn a_measurement_that_fails_says_why() {
        let of = |command: &dyn Fn() -> Command| {
            let mut schedule = schedule();
            schedule.poll(command);
            schedule.ended(true)
        };
        assert_eq!(of(&shell("echo no >&2; false")), Some(MeasurementEnd::Failed("no".into())));
        assert_eq!(of(&shell("exit 3")), Some(MeasurementEnd::Failed("exit status: 3".into())));
        let missing = of(&|| Command::new("/nonexistent/program"));
        assert!(
            matches!(missing, Some(MeasurementEnd::Failed(why)) if why.contains("No such file"))
        );
    }

    #[test]
    fn moments_cover_all_of_a_period_but_its_end() {
        let mut schedule = schedule();
        let begin = schedule.period;
        schedule.draw(0.0);
        assert_eq!(schedule.next, begin);
        schedule.draw(1.0);
        assert_eq!(schedule.next - begin, Duration::from_secs(3599));
    }

    #[test]
    fn periods_that_were_missed_are_not_made_up_for() {
        let mut schedule = schedule();
        let begin = Instant::now();
        schedule.every = Duration::from_nanos(1);
        schedule.length = Duration::ZERO;
        schedule.poll(&shell("echo 5 waits"));
        assert!(schedule.next > begin && schedule.running.is_some());
    }

    #[test]
    fn a_measurement_ends_with_its_schedule() {
        let mut schedule = schedule();
        schedule.poll(&shell("exec sleep 60"));
        let pid = schedule.running.as_ref().unwrap().id();
        assert!(schedule.ended(false).is_none());
        drop(schedule);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
