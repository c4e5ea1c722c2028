//! What is too expensive to be measured all the time: for some seconds of each period, at a moment drawn at random, so that
//! the hosts of a fleet cover time evenly.
//!
//! ```text
//!  period 1                        period 2
//!  ├────────────▒▒▒───────────────┼──▒▒▒─────────────────────────┼     waits, each 10 minutes
//!  ├──▒─────────┼───────────▒┼────────────▒┼──▒────────┼               counts, each 5 minutes
//!               └ a process: it measures, writes rows into a folder, and ends; they go into the spool with the bin
//! ```
//! One measurement runs at a time, so that none measures another: one that is due meanwhile begins after it.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pmuscope_measurements::{Measurement, MeasurementSummary};

/// Runs measurements again and again, one at a time.
#[derive(Debug)]
pub(crate) struct MeasurementSchedules {
    all: Vec<MeasurementSchedule>,
}

/// When one of them is due.
#[derive(Debug)]
struct MeasurementSchedule {
    name: &'static str,
    every: Duration,
    length: Duration,
    /// When the next period begins.
    period: Instant,
    /// When the next measurement begins.
    next: Instant,
    state: MeasurementState,
}

#[derive(Debug)]
enum MeasurementState {
    /// Until it is due.
    Idle,
    Running(Child),
    /// It has ended, or could not begin.
    Ended(Result<std::process::Output, io::Error>),
}

/// How a measurement ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndedMeasurement {
    /// Which.
    pub(crate) name: &'static str,
    /// What it says of itself, or why it failed.
    pub(crate) result: Result<MeasurementSummary, String>,
}

impl MeasurementSchedules {
    /// The first measurements begin now, or at any moment of their first periods.
    pub(crate) fn new(measurements: &[Measurement], at_once: bool) -> Self {
        let new = |one: &Measurement| {
            let times = one.times();
            let every = Duration::from_secs(times.every_seconds);
            let length = Duration::from_secs(times.seconds);
            MeasurementSchedule::new(one.name(), every, length, at_once)
        };
        Self { all: measurements.iter().map(new).collect() }
    }

    /// Begins the measurement that has been due longest, if one is and none runs.
    pub(crate) fn poll(&mut self, command: &dyn Fn(&str) -> Command) {
        self.all.iter_mut().for_each(MeasurementSchedule::look);
        if self.running().is_none() {
            self.begin_due(command);
        }
    }

    /// Runs those that are due, one after another, until none is.
    pub(crate) fn finish(&mut self, command: &dyn Fn(&str) -> Command) {
        loop {
            if let Some(running) = self.running() {
                running.wait();
            } else if !self.begin_due(command) {
                return;
            }
        }
    }

    fn running(&mut self) -> Option<&mut MeasurementSchedule> {
        self.all.iter_mut().find(|one| matches!(one.state, MeasurementState::Running(_)))
    }

    /// Whether one was due.
    fn begin_due(&mut self, command: &dyn Fn(&str) -> Command) -> bool {
        let now = Instant::now();
        let is_due = |one: &&mut MeasurementSchedule| {
            matches!(one.state, MeasurementState::Idle) && one.next <= now
        };
        let due = self.all.iter_mut().filter(is_due).min_by_key(|one| one.next);
        due.map(|due| due.begin(now, command)).is_some()
    }

    /// Measurements that have ended since the last call.
    pub(crate) fn ended(&mut self) -> Vec<EndedMeasurement> {
        self.all.iter_mut().filter_map(MeasurementSchedule::ended).collect()
    }
}

impl MeasurementSchedule {
    fn new(name: &'static str, every: Duration, length: Duration, at_once: bool) -> Self {
        let now = Instant::now();
        let mut schedule =
            Self { name, every, length, period: now, next: now, state: MeasurementState::Idle };
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

    fn begin(&mut self, now: Instant, command: &dyn Fn(&str) -> Command) {
        // Periods that nobody polled in are left out.
        while self.next <= now {
            self.draw(fastrand::f64());
            self.period += self.every;
        }
        let mut command = command(self.name);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.state = match command.spawn() {
            Ok(child) => MeasurementState::Running(child),
            Err(error) => MeasurementState::Ended(Err(error)),
        };
    }

    /// Notes that it has ended.
    fn look(&mut self) {
        let MeasurementState::Running(child) = &mut self.state else { return };
        if !matches!(child.try_wait(), Ok(None)) {
            self.wait();
        }
    }

    /// Waits until it has ended.
    fn wait(&mut self) {
        self.state = match std::mem::replace(&mut self.state, MeasurementState::Idle) {
            MeasurementState::Running(child) => MeasurementState::Ended(child.wait_with_output()),
            other => other,
        };
    }

    fn ended(&mut self) -> Option<EndedMeasurement> {
        self.look();
        let output = match std::mem::replace(&mut self.state, MeasurementState::Idle) {
            MeasurementState::Ended(output) => output,
            other => {
                self.state = other;
                return None;
            }
        };
        let result = match output {
            Ok(output) if output.status.success() => serde_json::from_slice(&output.stdout)
                .map_err(|error| format!("its summary cannot be read: {error}")),
            Ok(output) if output.stderr.is_empty() => Err(output.status.to_string()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        };
        Some(EndedMeasurement { name: self.name, result })
    }
}

impl Drop for MeasurementSchedule {
    fn drop(&mut self) {
        if let MeasurementState::Running(child) = &mut self.state {
            // It may have ended meanwhile.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use pmuscope_measurements::{CountsConfig, OffCpuConfig};

    use super::*;

    fn waits() -> Measurement {
        Measurement::OffCpu(OffCpuConfig { seconds: 1, every_seconds: 3600, max_mib: 1 })
    }

    fn schedules() -> MeasurementSchedules {
        MeasurementSchedules::new(&[waits()], true)
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// What a measurement prints that says this.
    fn saying(text: &str) -> Command {
        let summary = MeasurementSummary { text: text.into(), ..MeasurementSummary::default() };
        shell(&format!("echo '{}'", serde_json::to_string(&summary).unwrap()))
    }

    #[test]
    fn what_a_measurement_says_is_reported_once() {
        let mut schedules = schedules();
        schedules.finish(&|_| saying("5 waits"));
        let [done] = &schedules.ended()[..] else { panic!("one has ended") };
        assert_eq!(done.name, "off_cpu");
        assert_eq!(done.result.as_ref().unwrap().text, "5 waits");
        assert_eq!(schedules.ended(), []);
        // The next one is in the next period.
        schedules.finish(&|_| saying("6 waits"));
        assert_eq!(schedules.ended(), []);
    }

    #[test]
    fn a_measurement_that_fails_says_why() {
        let of = |command: &dyn Fn(&str) -> Command| {
            let mut schedules = schedules();
            schedules.finish(command);
            schedules.ended().swap_remove(0).result.unwrap_err()
        };
        assert_eq!(of(&|_| shell("echo no >&2; false")), "no");
        assert_eq!(of(&|_| shell("exit 3")), "exit status: 3");
        assert!(of(&|_| shell("echo no summary")).contains("summary cannot be read"));
        assert!(of(&|_| Command::new("/nonexistent/program")).contains("No such file"));
    }

    #[test]
    fn moments_cover_all_of_a_period_but_its_end() {
        let mut schedules = schedules();
        let schedule = &mut schedules.all[0];
        let begin = schedule.period;
        schedule.draw(0.0);
        assert_eq!(schedule.next, begin);
        schedule.draw(1.0);
        assert_eq!(schedule.next - begin, Duration::from_secs(3599));
    }

    #[test]
    fn periods_that_were_missed_are_not_made_up_for() {
        let mut schedules = schedules();
        let begin = Instant::now();
        schedules.all[0].every = Duration::from_nanos(1);
        schedules.all[0].length = Duration::ZERO;
        schedules.poll(&|_| saying("5 waits"));
        assert!(schedules.all[0].next > begin);
        assert!(matches!(schedules.all[0].state, MeasurementState::Running(_)));
    }

    /// Two that are due at once: the second begins when the first has ended.
    #[test]
    fn measurements_run_one_at_a_time() {
        let counts = CountsConfig { seconds: 1, every_seconds: 3600, ..CountsConfig::default() };
        let mut schedules =
            MeasurementSchedules::new(&[waits(), Measurement::Counts(counts)], true);
        let begun = RefCell::new(Vec::new());
        let command = |name: &str| {
            begun.borrow_mut().push(name.to_owned());
            shell("read line; echo '{}'")
        };
        // The first one may have ended already, as its input is empty; nobody has looked yet.
        schedules.poll(&command);
        assert_eq!(*begun.borrow(), ["off_cpu"]);
        assert!(matches!(schedules.all[1].state, MeasurementState::Idle));
        schedules.finish(&command);
        assert_eq!(*begun.borrow(), ["off_cpu", "counts"]);
        assert_eq!(schedules.ended().len(), 2);
    }

    #[test]
    fn a_measurement_ends_with_its_schedule() {
        let mut schedules = schedules();
        schedules.poll(&|_| shell("exec sleep 60"));
        let MeasurementState::Running(child) = &schedules.all[0].state else { panic!("it runs") };
        let pid = child.id();
        assert_eq!(schedules.ended(), []);
        drop(schedules);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
