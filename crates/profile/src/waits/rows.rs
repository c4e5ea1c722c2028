//! Rows of waits: where threads wait, in which function of the program, who they are; and who wakes them.

use std::cmp::Reverse;
use std::sync::Arc;

use pmuscope_stats::{MIN_BLOCKS, Shares};
use rustc_hash::FxHashMap;

use super::counter::{OfCell, QUEUED, sum};
use super::{OffCpuKind, WaitBy, WaitKey, WaitPlace, WaitRow, WaitSums, Waits, Waker};
use crate::aggregate::LongPhases;
use crate::aggregate::{AddsTo, CodeFrame, SampleCell, StackId, Stacks};
use crate::profile::Profile;
use crate::timeline::modules::ModuleKind;

/// What the kernel's functions are called that a thread goes through whatever it waits for, or whoever takes
/// its CPU: those in kernel/sched/ that give up the CPU, with what callers of theirs return through, and the
/// ways to wait that many have in common (completions, bits, queues), whose callers tell more.
const OF_SCHEDULER: [&str; 12] = [
    "__schedule",
    "__schedule_loop",
    "schedule",
    "schedule_idle",
    "schedule_preempt_disabled",
    "schedule_rtlock",
    "io_schedule",
    "io_schedule_timeout",
    "preempt_schedule",
    "preempt_schedule_common",
    "preempt_schedule_irq",
    "__traceiter_sched_switch",
];
/// The same, with whatever follows.
const OF_SCHEDULER_BY_BEGINNING: [&str; 12] = [
    "schedule_timeout",
    "schedule_hrtimeout",
    "__perf_event_task_sched_out",
    "poll_schedule_timeout",
    "wait_for_completion",
    "wait_for_common",
    "__wait_for_common",
    "bit_wait",
    "__wait_on_bit",
    "out_of_line_wait_on_bit",
    "wait_woken",
    "folio_wait_bit",
];
/// What leads from whoever wakes to the scheduler.
const OF_WAKING: [&str; 21] = [
    "try_to_wake_up",
    "wake_up_process",
    "wake_up_state",
    "wake_up_q",
    "default_wake_function",
    "autoremove_wake_function",
    "woken_wake_function",
    "ep_autoremove_wake_function",
    "ep_poll_callback",
    "pollwake",
    "complete",
    "complete_all",
    "complete_with_flags",
    "swake_up_locked",
    "swake_up_one",
    "rcuwait_wake_up",
    "__traceiter_sched_waking",
    "perf_trace_sched_wakeup_template",
    "signal_wake_up_state",
    "kick_pool",
    "__queue_work",
];
const OF_WAKING_BY_BEGINNING: [&str; 1] = ["__wake_up"];

/// Name, process and thread; `None` for an interrupt.
type WakerTask = Option<(Arc<str>, Option<i32>, Option<i32>)>;
/// Waits and nanoseconds that they ended, by who woke, and in which function.
type Wakers = FxHashMap<(WakerTask, Option<Arc<str>>), (u64, u64)>;

/// A row in the making.
#[derive(Default)]
struct Making {
    kinds: Vec<OffCpuKind>,
    sums: WaitSums,
    wakers: Wakers,
}

impl Waits {
    /// Rows by `by`, the longest time off the CPU first. The first `intervals` of them get an interval where
    /// there are enough blocks of time.
    #[must_use]
    pub fn rows(&self, by: &[WaitBy], intervals: usize) -> Vec<WaitRow> {
        let mut making: FxHashMap<Vec<WaitKey>, Making> = FxHashMap::default();
        for (cell, of) in self.cells() {
            let Some(kind) = kind_of(cell).filter(|_| of.sums.waits > 0) else { continue };
            let row = making.entry(self.keys(cell, kind, by)).or_default();
            if !row.kinds.contains(&kind) {
                row.kinds.push(kind);
            }
            row.sums.add_all(&of.sums);
            for (&(waker, in_interrupt), &(waits, ns)) in &of.wakers {
                let Some(waker) = self.cell(waker) else { continue };
                let sums = row.wakers.entry(self.waker(waker, in_interrupt)).or_default();
                *sums = sum(*sums, (waits, ns));
            }
        }
        let wall = self.wall.total_ns().max(1) as f64;
        let row = |(keys, making): (Vec<WaitKey>, Making)| WaitRow {
            keys,
            kind: if let [kind] = making.kinds[..] { Some(kind) } else { None },
            share: making.sums.ns as f64 / wall,
            interval: None,
            wakers: wakers(making.wakers),
            sums: making.sums,
        };
        let mut rows: Vec<WaitRow> = making.into_iter().map(row).collect();
        rows.sort_by(|a, b| {
            (b.sums.ns, b.sums.waits)
                .cmp(&(a.sums.ns, a.sums.waits))
                .then_with(|| a.keys.cmp(&b.keys))
        });
        self.add_intervals(&mut rows, by, intervals);
        rows
    }

    /// Every place of every task with what was counted there: the finest that there is.
    pub fn places(&self) -> impl Iterator<Item = WaitPlace<'_>> {
        self.cells().filter(|(_, of)| of.sums.waits > 0).filter_map(|(cell, of)| {
            let kind = kind_of(cell)?;
            Some(WaitPlace {
                task: cell.task,
                kind,
                wait: self.wait(cell.stack, kind),
                function: self.function(cell.stack),
                sums: &of.sums,
            })
        })
    }

    /// The cells of the profile that own ones count for.
    fn cells(&self) -> impl Iterator<Item = (&SampleCell, &OfCell)> {
        let cells = &self.profile.aggregate.cells;
        let cell = |(of, &at): (_, &u32)| Some((cells.get(at as usize)?, of));
        self.of_cells.iter().zip(&self.cell_of).filter_map(cell)
    }

    fn cell(&self, own: u32) -> Option<&SampleCell> {
        let at = *self.cell_of.get(own as usize)?;
        self.profile.aggregate.cells.get(at as usize)
    }

    fn keys(&self, cell: &SampleCell, kind: OffCpuKind, by: &[WaitBy]) -> Vec<WaitKey> {
        let task = &self.profile.aggregate.tasks[cell.task as usize];
        let number = |id: Option<i32>| id.map_or(WaitKey::None, |id| WaitKey::Number(id.into()));
        let key = |by: &WaitBy| match by {
            WaitBy::Wait => self.wait(cell.stack, kind),
            WaitBy::Function => self.function(cell.stack),
            WaitBy::Command => WaitKey::Name(Arc::clone(&task.command)),
            WaitBy::Process => number(task.pid),
            WaitBy::Thread => number(task.tid),
        };
        by.iter().map(key).collect()
    }

    fn frames(&self, stack: StackId) -> impl Iterator<Item = &CodeFrame> {
        let counts = &self.profile.aggregate;
        counts.stacks.frames(stack).map(|frame| &counts.frames[frame as usize])
    }

    fn is_of_kernel(&self, frame: &CodeFrame) -> bool {
        let kind = self.profile.modules.get(frame.module as usize).map(|module| module.kind);
        matches!(kind, Some(ModuleKind::Kernel | ModuleKind::KernelLoaded))
    }

    fn name(&self, frame: &CodeFrame) -> Option<&Arc<str>> {
        Some(&self.profile.aggregate.functions[frame.function? as usize].name)
    }

    /// The function that waits: the innermost that is not the scheduler's, of the kernel; where it has none,
    /// of the program.
    fn wait(&self, stack: StackId, kind: OffCpuKind) -> WaitKey {
        if matches!(kind, OffCpuKind::Preempted | OffCpuKind::New) {
            return WaitKey::State(kind);
        }
        let is_scheduler =
            |frame: &&CodeFrame| self.name(frame).is_some_and(|name| is_scheduler(name));
        let found = self.frames(stack).find(|frame| !is_scheduler(frame));
        match found.filter(|frame| !self.is_nowhere(frame)) {
            Some(frame) => self.frame_key(frame),
            None if kind == OffCpuKind::Unknown => WaitKey::State(kind),
            None => WaitKey::NoStack,
        }
    }

    /// What stands for a switch without a stack.
    fn is_nowhere(&self, frame: &CodeFrame) -> bool {
        frame.module == 0 && frame.function.is_none() && frame.address.unwrap_or(0) == 0
    }

    fn function(&self, stack: StackId) -> WaitKey {
        let is = |frame: &&CodeFrame| !self.is_of_kernel(frame) && !self.is_nowhere(frame);
        self.frames(stack).find(is).map_or(WaitKey::None, |frame| self.frame_key(frame))
    }

    fn frame_key(&self, frame: &CodeFrame) -> WaitKey {
        match self.name(frame) {
            Some(name) => WaitKey::Function(Arc::clone(name), frame.module),
            None => WaitKey::Unnamed(frame.module),
        }
    }

    /// Who woke: task, or an interrupt; and the function.
    fn waker(&self, cell: &SampleCell, in_interrupt: bool) -> (WakerTask, Option<Arc<str>>) {
        let task = &self.profile.aggregate.tasks[cell.task as usize];
        let who = (Arc::clone(&task.command), task.pid, task.tid);
        let is_waking = |frame: &&CodeFrame| {
            let name = self.name(frame).map(|name| without_suffix(name));
            name.is_some_and(|name| {
                OF_WAKING.contains(&name)
                    || OF_WAKING_BY_BEGINNING.iter().any(|start| name.starts_with(start))
            })
        };
        let of_program = self
            .frames(cell.stack)
            .find(|frame| !self.is_of_kernel(frame))
            .filter(|_| !in_interrupt);
        let of_kernel = || self.frames(cell.stack).find(|frame| !is_waking(frame));
        let function = of_program.and_then(|frame| self.name(frame));
        let function = function.or_else(|| of_kernel().and_then(|frame| self.name(frame)));
        ((!in_interrupt).then_some(who), function.cloned())
    }

    /// Shares of all threads' time vary from block to block.
    fn add_intervals(&self, rows: &mut [WaitRow], by: &[WaitBy], most: usize) {
        let counts = &self.profile.aggregate;
        let most = most.min(rows.len());
        let wanted: FxHashMap<&[WaitKey], usize> =
            rows[..most].iter().zip(0..).map(|(row, at)| (&row.keys[..], at)).collect();
        let series = counts.row_series(most, true, |cell| {
            // Time on a run queue is part of the wait.
            let queued = (cell.event as usize == QUEUED).then_some(OffCpuKind::Blocked);
            let Some(kind) = kind_of(cell).or(queued) else { return AddsTo::Nothing };
            let row = wanted.get(&self.keys(cell, kind, by)[..]);
            row.map_or(AddsTo::Total, |&row| AddsTo::Row(row))
        });
        let blocks = series.totals.len();
        let mut wall: Vec<f64> = self.wall_by_block.iter().map(|&ns| ns as f64).collect();
        wall.resize(blocks, 0.0);
        if wall.iter().filter(|&&ns| ns > 0.0).count() < MIN_BLOCKS {
            return;
        }
        let Some(shares) = Shares::new(&wall) else { return };
        let shares = series.rows.chunks_exact(blocks).map(|row| shares.share(row)).collect();
        for (row, share) in rows.iter_mut().zip(LongPhases::judge(shares)) {
            row.interval = share.and_then(|share| share.interval);
        }
    }
}

/// For each stack of a profile of waits the part of it that called the scheduler; itself where nothing did.
pub(super) fn outside_scheduler(profile: &Profile) -> Vec<StackId> {
    let counts = &profile.aggregate;
    let is_inside: Vec<bool> =
        counts.functions.iter().map(|function| is_scheduler(&function.name)).collect();
    let all = 0..counts.stacks.len() as StackId;
    all.map(|stack| {
        let up = std::iter::successors(Some(stack), |&stack| counts.stacks.parent(stack));
        let outside = |stack: &StackId| {
            let frame = counts.stacks.frame(*stack).map(|frame| &counts.frames[frame as usize]);
            let function = frame.and_then(|frame| frame.function);
            function.is_none_or(|function| !is_inside[function as usize])
        };
        up.into_iter().find(outside).filter(|&found| found != Stacks::ROOT).unwrap_or(stack)
    })
    .collect()
}

fn is_scheduler(name: &str) -> bool {
    let name = without_suffix(name);
    OF_SCHEDULER.contains(&name)
        || OF_SCHEDULER_BY_BEGINNING.iter().any(|start| name.starts_with(start))
}

fn kind_of(cell: &SampleCell) -> Option<OffCpuKind> {
    OffCpuKind::ALL.get(cell.event as usize).copied()
}

/// The compiler's clones of a function are the function: `futex_wait.isra.0`.
fn without_suffix(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// The one that ended most time first.
fn wakers(found: Wakers) -> Vec<Waker> {
    let waker = |((who, function), (waits, ns))| {
        let (command, task) = match who {
            Some((command, pid, tid)) => (Some(command), Option::zip(pid, tid)),
            None => (None, None),
        };
        Waker { command, task, function, waits, ns }
    };
    let mut wakers: Vec<Waker> = found.into_iter().map(waker).collect();
    wakers.sort_by(|a, b| {
        let key = |one: &Waker| {
            (Reverse((one.ns, one.waits)), one.command.clone(), one.task, one.function.clone())
        };
        key(a).cmp(&key(b))
    });
    wakers
}
