//! What a thread has used so far, and where it ran last.

use crate::process::{TASK_BYTES, gone};
use crate::{Machine, MachineError};

/// What a thread has used since it began, and where it ran last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadRun {
    /// The CPU it runs on, or ran on last.
    pub cpu: u32,
    /// It runs, or could run if there were a CPU for it.
    pub runnable: bool,
    /// It ended, and only waits for whoever started it to take notice.
    pub ended: bool,
    /// Nanoseconds on a CPU, as of the last tick or switch; `None` on kernels without `CONFIG_SCHED_INFO`.
    pub on_cpu_ns: Option<u64>,
    /// Clock ticks (`sysconf(_SC_CLK_TCK)`) in user space.
    pub user_ticks: u64,
    /// Clock ticks in the kernel.
    pub system_ticks: u64,
    /// Page faults without I/O; hint faults of NUMA balancing are among them.
    pub minor_faults: u64,
}

/// What the scheduler counted of a thread since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSwitches {
    /// Times it gave up its CPU, since it had to wait.
    pub voluntary: u64,
    /// Times its CPU was taken from it.
    pub involuntary: u64,
    /// Nanoseconds on a CPU; `None` on kernels without `CONFIG_SCHED_INFO`.
    pub on_cpu_ns: Option<u64>,
    /// Nanoseconds that it could run and waited for a CPU; `None` as above.
    pub queued_ns: Option<u64>,
}

impl Machine {
    /// How a thread came to CPUs and left them: `/proc/PID/task/TID/{status,schedstat}`. The times of a thread
    /// that runs are those of its last tick or switch.
    ///
    /// # Errors
    /// [`MachineError::Gone`] if the thread ended.
    pub fn thread_switches(&self, pid: u32, tid: u32) -> Result<ThreadSwitches, MachineError> {
        let folder = format!("proc/{pid}/task/{tid}");
        let file = format!("{folder}/status");
        let status = self.bytes(&file, TASK_BYTES).map_err(|error| gone(error, pid))?;
        let status = String::from_utf8_lossy(&status);
        let field = |name: &'static str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|rest| rest.trim().parse().ok());
            value.ok_or_else(|| MachineError::malformed(&self.path(&file), name, &status))
        };
        // Time on a CPU, time waiting for one, times put on one (`proc_pid_schedstat` in fs/proc/base.c).
        let times = self.text_if_any(format!("{folder}/schedstat")).unwrap_or_default();
        let mut times = times.split(' ').map(|time| time.parse().ok());
        Ok(ThreadSwitches {
            voluntary: field("voluntary_ctxt_switches:")?,
            involuntary: field("nonvoluntary_ctxt_switches:")?,
            on_cpu_ns: times.next().flatten(),
            queued_ns: times.next().flatten(),
        })
    }

    /// What a thread has used and where it runs: `/proc/PID/task/TID/{stat,schedstat}`.
    ///
    /// # Errors
    /// [`MachineError::Gone`] if the thread ended.
    pub fn thread_run(&self, pid: u32, tid: u32) -> Result<ThreadRun, MachineError> {
        let folder = format!("proc/{pid}/task/{tid}");
        let file = format!("{folder}/stat");
        let stat = self.bytes(&file, TASK_BYTES).map_err(|error| gone(error, pid))?;
        let mut run = parse(&stat).ok_or_else(|| {
            let found = String::from_utf8_lossy(&stat);
            MachineError::malformed(&self.path(&file), "the fields of proc_pid_stat(5)", &found)
        })?;
        // Time on a CPU, time waiting for one, times put on one (`proc_pid_schedstat` in fs/proc/base.c).
        let times = self.text_if_any(format!("{folder}/schedstat"));
        run.on_cpu_ns = times.and_then(|times| times.split(' ').next()?.parse().ok());
        Ok(run)
    }
}

/// Fields 3 (state), 10 (minflt), 14 (utime), 15 (stime) and 39 (processor) of `stat`.
fn parse(stat: &[u8]) -> Option<ThreadRun> {
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // The first of these is field 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let state = *fields.first()?;
    Some(ThreadRun {
        cpu: number(39)?.try_into().ok()?,
        runnable: state == "R",
        ended: ["Z", "X"].contains(&state),
        on_cpu_ns: None,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        minor_faults: number(10)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_the_kernels() {
        let stat =
            b"42 (a) R 1 (b) R 17 42 42 0 -1 4194304 100 2 3 4 55 66 7 8 20 0 1 0 98765 1000 50 \
                     18446744073709551615 1 2 3 4 5 6 7 8 9 10 11 12 13 6 0 0 0 0 0";
        let expected = ThreadRun {
            cpu: 6,
            runnable: true,
            ended: false,
            on_cpu_ns: None,
            user_ticks: 55,
            system_ticks: 66,
            minor_faults: 100,
        };
        assert_eq!(parse(stat), Some(expected));
        let zombie = stat.map(|byte| if byte == b'R' { b'Z' } else { byte });
        let ended = parse(&zombie).unwrap();
        assert!(ended.ended && !ended.runnable);
        assert_eq!(parse(b"42 (cat) S 17 42"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn a_thread_that_waits_is_counted_as_giving_way() {
        let machine = Machine::host();
        let pid = std::process::id();
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let before = machine.thread_switches(pid, tid).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = machine.thread_switches(pid, tid).unwrap();
        assert!(after.voluntary > before.voluntary && after.involuntary >= before.involuntary);
        assert_eq!(after.on_cpu_ns.is_some(), after.queued_ns.is_some());
        assert!(machine.thread_switches(u32::MAX >> 1, 1).unwrap_err().is_gone());
    }

    #[test]
    fn this_thread_runs_on_a_cpu_of_this_machine() {
        let machine = Machine::host();
        let pid = std::process::id();
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        // The kernel adds up a thread's time at ticks and when it gives way, not when it is asked.
        std::thread::yield_now();
        let run = machine.thread_run(pid, tid).unwrap();
        assert!(run.runnable && run.cpu < crate::CpuSet::MAX);
        assert!(machine.online_cpus().unwrap().contains(run.cpu));
        // Brought up to date at ticks and switches.
        while machine.thread_run(pid, tid).unwrap().on_cpu_ns == Some(0) {
            std::hint::spin_loop();
        }
        assert!(machine.thread_run(u32::MAX >> 1, 1).unwrap_err().is_gone());
    }
}
