//! See, decide, act, judge, keep or undo: again and again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::budget::Budget;
use super::decide::{Action, Decision, Knowledge, decide};
use super::left_alone::LeftAlone;
use super::log::{LogEvent, LogLine};
use super::owed::Owed;
use super::ping_pong::PingPong;
use super::summary::{BalanceError, BalanceSummary, Ended, ProcessSummary};
use super::trial::{self, Aim, Fate};
use super::view::View;
use super::world::{Goal, TimeBlock, World};

/// How to go about it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Length of a block.
    pub block: Duration,
    /// Blocks before a change, and after it, that are compared.
    pub blocks: usize,
    /// Bytes per second that may be moved.
    pub budget: u64,
    /// Bytes that move as a whole: a huge page.
    pub unit: u64,
    /// Decide once, and change nothing.
    pub dry_run: bool,
    /// End after so many decisions in a row that change nothing; 0: go on.
    pub settled: u64,
    /// Decisions over which pages must not go back and forth.
    pub windows: u64,
}

/// Places processes until something ends it. Every process is unpinned in the end, also after an error. Pages of
/// changes that were kept stay where they are; those of the others have gone back.
///
/// # Errors
/// [`BalanceError`]; a process that cannot be moved is not one, but logged and left alone.
pub fn run<W: World>(
    world: &mut W,
    options: &Options,
    log: &mut dyn FnMut(LogLine),
) -> Result<BalanceSummary, BalanceError<W::Error>> {
    let budget = Budget::new(options.budget, options.unit)?;
    let mut session = Session {
        options,
        budget,
        log,
        recent: VecDeque::new(),
        ping_pong: PingPong::new(options.windows),
        alone: LeftAlone::default(),
        pins: BTreeMap::new(),
        round: 0,
        kept: 0,
        undone: 0,
        processes: Vec::new(),
        plan: Decision::default(),
        world,
    };
    let judge = session.world.judge();
    let judges_speed = judge.is_speed();
    session.tell(LogEvent::Began { judge, judges_speed, budget: options.budget });
    let ended = session.go_on();
    session.let_go();
    let ended = ended.map_err(BalanceError::World)?;
    session.tell(LogEvent::Over { why: ended });
    Ok(session.sum_up(ended))
}

struct Session<'a, W: World> {
    world: &'a mut W,
    options: &'a Options,
    budget: Budget,
    log: &'a mut dyn FnMut(LogLine),
    /// The last blocks, oldest first.
    recent: VecDeque<TimeBlock>,
    ping_pong: PingPong,
    alone: LeftAlone,
    pins: BTreeMap<u32, Vec<u32>>,
    round: u64,
    kept: u64,
    undone: u64,
    processes: Vec<ProcessSummary>,
    plan: Decision,
}

/// How many bytes are to move.
#[derive(Debug, Clone, Copy)]
enum Amount {
    /// All that is not where it is to be: so much by what was seen, and the process may have more by now.
    About(u64),
    /// No more than this, rounded up to what moves as a whole.
    AtMost(u64),
}

impl Amount {
    fn bytes(self) -> u64 {
        match self {
            Self::About(bytes) | Self::AtMost(bytes) => bytes,
        }
    }

    fn is_over(self, left: u64) -> bool {
        matches!(self, Self::AtMost(_)) && left == 0
    }
}

/// What was done to a process.
#[derive(Debug, Default)]
struct ProcessActions {
    /// Its pins before; `None` inside: it had none.
    pinned: Option<Option<Vec<u32>>>,
    moved: BTreeMap<(u32, u32), u64>,
    aim: Option<Aim>,
}

impl<W: World> Session<'_, W> {
    fn tell(&mut self, event: LogEvent) {
        (self.log)(LogLine { t: self.world.now().as_secs_f64(), event });
    }

    fn go_on(&mut self) -> Result<Ended, W::Error> {
        let mut unchanged = 0;
        loop {
            if let Some(stop) = self.world.stop() {
                return Ok(stop.into());
            }
            self.watch()?;
            if self.recent.len() < self.options.blocks.max(1) {
                continue;
            }
            let Some(view) = View::mean_of(self.recent.iter().map(|seen| &seen.view)) else {
                continue;
            };
            self.round += 1;
            self.decide(&view);
            if self.options.dry_run {
                return Ok(Ended::DryRun);
            }
            if self.plan.acts() {
                unchanged = 0;
                self.try_out()?;
            } else if self.all_go_back_and_forth(&view) {
                return Ok(Ended::PingPong);
            } else {
                unchanged += 1;
                if unchanged == self.options.settled {
                    return Ok(Ended::Settled);
                }
            }
        }
    }

    /// A block more.
    fn watch(&mut self) -> Result<(), W::Error> {
        let seen = self.world.observe(self.options.block)?;
        for process in &seen.view.processes {
            if !self.processes.iter().any(|known| known.pid == process.pid) {
                let new = ProcessSummary { pid: process.pid, ..ProcessSummary::default() };
                self.processes.push(new);
            }
        }
        self.recent.push_back(seen);
        while self.recent.len() > self.options.blocks.max(1) {
            self.recent.pop_front();
        }
        let view = View::mean_of(self.recent.iter().map(|seen| &seen.view)).unwrap_or_default();
        let as_found = self.round == 0;
        for known in &mut self.processes {
            if let Some(locality) = view.process(known.pid).and_then(|process| process.locality()) {
                if as_found || known.before.is_none() {
                    known.before = Some(locality);
                }
                known.after = Some(locality);
            }
        }
        Ok(())
    }

    /// The plan, less what would be ping-pong.
    fn decide(&mut self, view: &View) {
        self.alone.release(self.round);
        let mut plan = self.plan_for(view);
        for process in &view.processes {
            let wanted = plan.moves(view, process.pid);
            let found = self.ping_pong.check(self.round, process.pid, process.memory(), &wanted);
            if let Some(found) = found.filter(|_| !wanted.is_empty()) {
                let why = found.to_string();
                self.tell(LogEvent::PingPong { pid: process.pid, why: why.clone() });
                self.alone.ping_pong(process.pid, &why);
                plan = self.plan_for(view);
            }
        }
        self.plan = plan;
        // A pin that is there already is nothing to do.
        let pins = &self.pins;
        self.plan.steps.retain(|step| match step {
            Action::Pin { pid, nodes, .. } => pins.get(pid) != Some(nodes),
            _ => true,
        });
        self.drop_what_cannot_be_judged();
        self.tell(LogEvent::Decided {
            round: self.round,
            locality: view.locality(),
            load: view.load(),
            plan: self.plan.clone(),
        });
    }

    /// No change is begun for which there is no time to make it, to judge it, and to undo it.
    fn drop_what_cannot_be_judged(&mut self) {
        let needed = self.length_of(&self.plan);
        let Some(left) = self.world.left().filter(|&left| left < needed) else { return };
        if self.options.dry_run || !self.plan.acts() {
            return;
        }
        let reason = format!(
            "not enough time: making, judging and undoing a change takes {:.1} s, and {:.1} s are \
             left",
            needed.as_secs_f64(),
            left.as_secs_f64()
        );
        for step in &mut self.plan.steps {
            if !matches!(step, Action::Leave { .. }) {
                *step = Action::Leave { pid: step.pid(), reason: reason.clone() };
            }
        }
        self.plan.steps.dedup();
        for outlook in &mut self.plan.outlook {
            outlook.after = outlook.before;
        }
    }

    /// How long it takes to carry out a plan, to judge it, and to undo it.
    fn length_of(&self, plan: &Decision) -> Duration {
        let moving = Duration::from_secs_f64(plan.bytes() as f64 / self.budget.long_run_rate());
        let blocks = u32::try_from(self.options.blocks.max(1)).unwrap_or(u32::MAX);
        // A block passes before the first that is judged.
        2 * moving + self.options.block.saturating_mul(blocks.saturating_add(1))
    }

    fn plan_for(&self, view: &View) -> Decision {
        let held = self.alone.reasons();
        decide(view, &Knowledge { budget: self.options.budget, unit: self.options.unit, held })
    }

    fn all_go_back_and_forth(&self, view: &View) -> bool {
        let mut processes = view.processes.iter();
        !view.processes.is_empty()
            && processes.all(|process| self.alone.goes_back_and_forth(process.pid))
    }

    /// Acts, looks, keeps what helped and undoes the rest.
    fn try_out(&mut self) -> Result<(), W::Error> {
        let mut steps = self.plan.steps.clone();
        // Threads first: they go at once, pages take their time.
        steps.sort_by_key(|step| !matches!(step, Action::Pin { .. }));
        let before: Vec<TimeBlock> = self.recent.drain(..).collect();
        let mut done: BTreeMap<u32, ProcessActions> = BTreeMap::new();
        for step in &steps {
            self.carry_out(step, &mut done);
        }
        done.retain(|_, done| done.pinned.is_some() || !done.moved.is_empty());
        let is_judged = match self.watch_after() {
            Ok(is_judged) => is_judged,
            Err(error) => {
                self.undo_all(done, "observation failed");
                return Err(error);
            }
        };
        if !is_judged {
            // Nothing was seen that speaks for it.
            self.undo_all(done, "it ended before it could be judged");
            return Ok(());
        }
        let after: Vec<TimeBlock> = self.recent.iter().cloned().collect();
        let acted: BTreeMap<u32, Aim> =
            done.iter().filter_map(|(pid, done)| Some((*pid, done.aim?))).collect();
        let judge = self.world.judge();
        let (fates, compared) = trial::judge(judge, &acted, &before, &after);
        for event in compared {
            self.tell(event);
        }
        let mut undone = BTreeMap::new();
        for (pid, done) in done {
            match fates.get(&pid) {
                Some(Fate::Keep(why)) => {
                    self.kept += 1;
                    self.alone.gained(pid);
                    self.tell(LogEvent::Kept { pid, why: why.clone() });
                }
                Some(Fate::Undo(why)) => {
                    undone.insert(pid, (done, why.clone()));
                }
                None => {}
            }
        }
        if !undone.is_empty() {
            for (pid, (done, why)) in undone {
                self.undo(pid, done, &why);
            }
            self.recent.clear();
        }
        Ok(())
    }

    /// Blocks after a change; false if it is time to end before there are enough.
    fn watch_after(&mut self) -> Result<bool, W::Error> {
        // The block in which the last pages moved and threads found their places is neither before nor after.
        if self.world.stop().is_none() {
            self.world.observe(self.options.block)?;
        }
        while self.recent.len() < self.options.blocks.max(1) {
            if self.world.stop().is_some() {
                return Ok(false);
            }
            self.watch()?;
        }
        Ok(true)
    }

    fn carry_out(&mut self, step: &Action, done: &mut BTreeMap<u32, ProcessActions>) {
        if self.world.stop().is_some() || self.alone.is_for_good(step.pid()) {
            return;
        }
        let own = done.entry(step.pid()).or_default();
        match step {
            Action::Leave { .. } => {}
            Action::Pin { pid, nodes, hold, .. } => {
                own.aim.get_or_insert(if *hold { Aim::Hold } else { Aim::Better });
                let before = self.pins.get(pid).cloned();
                if self.pin(*pid, nodes) {
                    own.pinned.get_or_insert(before);
                }
            }
            Action::Move { pid, from, to, bytes, .. } => {
                own.aim.get_or_insert(Aim::Better);
                let goal = Goal::To { from: *from, to: *to };
                self.move_pages(*pid, goal, Amount::About(*bytes), &mut own.moved);
            }
            Action::Interleave { pid, nodes, bytes, .. } => {
                own.aim = Some(Aim::Even);
                let goal = Goal::Interleave { nodes: nodes.clone() };
                self.move_pages(*pid, goal, Amount::About(*bytes), &mut own.moved);
            }
        }
    }

    fn refuse(&mut self, pid: u32, error: &W::Error) {
        let why = error.to_string();
        if !W::is_gone(error) {
            self.tell(LogEvent::Refused { pid, why: why.clone() });
        }
        self.alone.refuse(pid, why);
    }

    fn pin(&mut self, pid: u32, nodes: &[u32]) -> bool {
        match self.world.pin(pid, nodes) {
            Ok(threads) => {
                self.pins.insert(pid, nodes.to_vec());
                self.tell(LogEvent::Pinned { pid, nodes: nodes.to_vec(), threads });
                true
            }
            Err(error) => {
                self.refuse(pid, &error);
                false
            }
        }
    }

    /// In slices, within the budget. Returns the bytes that moved.
    fn move_pages(
        &mut self,
        pid: u32,
        mut goal: Goal,
        amount: Amount,
        moved: &mut BTreeMap<(u32, u32), u64>,
    ) -> u64 {
        let unit = self.options.unit;
        let mut left = amount.bytes().next_multiple_of(unit);
        let (mut cursor, mut all) = (0, 0);
        while !amount.is_over(left) && self.goes_on(amount, Duration::ZERO) {
            let granted = self.budget.take(self.world.now(), left, unit);
            if granted == 0 {
                let pause = self.budget.wait_for(left, unit);
                if !self.goes_on(amount, pause) {
                    break;
                }
                continue;
            }
            let slice = self.world.move_slice(pid, &goal, &mut cursor, granted);
            let bytes = slice.as_ref().map_or(granted, super::world::Slice::bytes);
            self.budget.moved(self.world.now(), granted.saturating_sub(bytes));
            let slice = match slice {
                Ok(slice) => slice,
                Err(error) => {
                    self.refuse(pid, &error);
                    break;
                }
            };
            for &((from, to), bytes) in &slice.moved {
                *moved.entry((from, to)).or_default() += bytes;
                self.ping_pong.record(self.round, pid, (from, to), bytes);
                if let Goal::Back { owed, .. } = &mut goal {
                    owed.pay(to, bytes);
                }
                self.tell(LogEvent::Moved { pid, from, to, bytes });
            }
            if slice.refused > 0 {
                self.tell(LogEvent::Stayed { pid, bytes: slice.refused });
            }
            if let Some(known) = self.known(pid) {
                known.moved += bytes;
                known.stayed += slice.refused;
            }
            all += bytes;
            left = left.saturating_sub(bytes);
            if slice.done {
                break;
            }
        }
        all
    }

    /// Waits so long; whether pages may be moved then. What is undone goes on after it is time to end.
    fn goes_on(&mut self, amount: Amount, length: Duration) -> bool {
        if matches!(amount, Amount::AtMost(_)) {
            return self.world.wait_for_undo(length);
        }
        if !length.is_zero() {
            self.world.wait(length);
        }
        self.world.stop().is_none()
    }

    fn known(&mut self, pid: u32) -> Option<&mut ProcessSummary> {
        self.processes.iter_mut().find(|known| known.pid == pid)
    }

    fn undo_all(&mut self, done: BTreeMap<u32, ProcessActions>, why: &str) {
        for (pid, done) in done {
            self.undo(pid, done, why);
        }
    }

    /// Threads may go where they could, pages go back to the nodes where they were, within the budget; also when it
    /// is time to end, unless somebody asks for that twice.
    fn undo(&mut self, pid: u32, done: ProcessActions, why: &str) {
        self.undone += 1;
        let bytes = done.moved.values().sum();
        self.tell(LogEvent::Undone { pid, why: why.to_owned(), bytes });
        match done.pinned {
            Some(Some(nodes)) => {
                self.pin(pid, &nodes);
            }
            Some(None) => self.unpin(pid),
            None => {}
        }
        let mut back: BTreeMap<u32, Owed> = BTreeMap::new();
        for ((from, to), bytes) in done.moved {
            back.entry(to).or_default().add(from, bytes);
        }
        for (from, owed) in back {
            let bytes = owed.bytes();
            let goal = Goal::Back { from, owed };
            let back = self.move_pages(pid, goal, Amount::AtMost(bytes), &mut BTreeMap::new());
            if let Some(known) = self.known(pid) {
                known.not_back += bytes.saturating_sub(back);
            }
        }
        self.ping_pong.forget(pid);
        self.alone.pause(pid, self.round, why);
    }

    fn unpin(&mut self, pid: u32) {
        self.pins.remove(&pid);
        match self.world.unpin(pid) {
            Ok(()) => self.tell(LogEvent::Unpinned { pid }),
            Err(error) => self.refuse(pid, &error),
        }
    }

    fn let_go(&mut self) {
        for known in &mut self.processes {
            known.nodes = self.pins.get(&known.pid).cloned();
        }
        for pid in self.pins.keys().copied().collect::<Vec<_>>() {
            self.unpin(pid);
        }
    }

    fn sum_up(mut self, ended: Ended) -> BalanceSummary {
        let held = self.alone.reasons();
        for known in &mut self.processes {
            let planned = self.plan.steps.iter().find_map(|step| match step {
                Action::Leave { pid, reason } if *pid == known.pid => Some(reason),
                _ => None,
            });
            known.reason = held.get(&known.pid).or(planned).cloned();
        }
        BalanceSummary {
            judge: self.world.judge(),
            ended,
            seconds: self.world.now().as_secs_f64(),
            rounds: self.round,
            kept: self.kept,
            undone: self.undone,
            processes: self.processes,
            plan: self.plan,
        }
    }
}
