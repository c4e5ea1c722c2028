//! Counts and names to shares.

use std::sync::Arc;

use pmuscope_abi::{AttrFlags, event_type, software};
use pmuscope_perfdata::reader::{Event, FileState, Metadata, ReadError, Reader, Tally};
use pmuscope_symbols::{BuildId, KernelIdentity};
use rustc_hash::FxHashMap;

use crate::aggregate::{AddsTo, Aggregate, Cell, FunctionId};
use crate::collect::{Collected, State};
use crate::filter::Filter;
use crate::modules::UNKNOWN;
use crate::naming::{Named, Resolve, name};
use crate::profile::{
    EventProfile, Filtered, FunctionName, FunctionShare, ModuleShare, ModuleSummary, Options,
    Profile,
};
use crate::table::{Interned, mix};
use crate::unwinding::{Account, StackSummary};

impl Collected {
    /// Gives every distinct address a name by `resolve` and adds up. `reader` is the one that was
    /// read to its end, `running` the kernel this program runs on.
    ///
    /// # Errors
    /// If samples are counted only now, and the operating system fails to read.
    pub fn profile(
        self,
        reader: &Reader,
        running: &KernelIdentity,
        options: Options,
        resolve: &mut Resolve<'_>,
    ) -> Result<Profile, ReadError> {
        let file = FileFacts {
            metadata: reader.metadata().clone(),
            state: reader.state(),
            tally: reader.tally().clone(),
            stack_copy: reader.events().iter().filter_map(Event::stack_copy).max(),
        };
        let events = reader.events().iter().map(EventFacts::from).collect();
        self.build(events, file, running, options, resolve)
    }

    pub(crate) fn build(
        mut self,
        mut events: Vec<EventFacts>,
        file: FileFacts,
        running: &KernelIdentity,
        options: Options,
        resolve: &mut Resolve<'_>,
    ) -> Result<Profile, ReadError> {
        let FileFacts { metadata, state, tally, stack_copy } = file;
        let kernel = self.state.kernel_identity(&metadata).compare(running);
        let mut named = name(&mut self, &metadata, kernel, resolve);
        let mut aggregate = self.aggregate(&mut named, options.detail)?;
        let left_out: u64 = self.counts().iter().map(|counts| counts.left_out).sum();
        let stacks = self.stacks(stack_copy);
        let filter = &self.filter;
        let left_out = left_out + filter.keep_named(&mut aggregate);
        for (index, facts) in (0_u32..).zip(&mut events) {
            facts.has_period &= aggregate.adds_up(index);
        }
        let info = metadata.info.as_ref();
        let loss = &self.state.loss;
        let number = events.iter().filter(|event| !event.counts_nothing).count();
        let lost = loss.total(info, filter);
        let by_cpu = self.by_cpu();
        let mut rows = Rows::new(&aggregate);
        let events = events
            .into_iter()
            .enumerate()
            .map(|(index, facts)| {
                let counts_nothing = facts.counts_nothing;
                let mut event = rows.event(index as u32, facts, options);
                event.lost = loss.of_event(index, number, info, filter);
                event.lost_at_most = event.lost.unwrap_or(lost.count);
                // Of what was left out by its name it is not known where it ran.
                if !filter.is_by_name() {
                    event.by_cpu = by_cpu.get(index).cloned().unwrap_or_default();
                }
                (counts_nothing, event)
            })
            .filter(|(counts_nothing, event)| !counts_nothing || event.samples > 0)
            .filter(|(_, event)| filter.passes_event(event.index as usize))
            .map(|(_, event)| event)
            .collect();
        let (functions, commands) = (rows.functions, rows.commands);
        let filtered = Filtered { filter: filter.clone(), left_out };
        let seconds = self.clock.origin().zip(self.clock.span()).map(|(origin, span)| {
            filter.duration(origin, origin.saturating_add(span)) as f64 / 1e9
        });
        let told = info.map(|info| info.duration_s).filter(|&seconds| seconds > 0.0);
        Ok(Profile {
            events,
            modules: self.module_summaries(&named),
            commands,
            duration_s: told.filter(|_| filter.times.is_empty()).or(seconds),
            lost,
            throttled: loss.throttled(info, filter),
            losses: loss.by_cpu(info, filter, &self.clock, &by_cpu),
            mappings_left_out: self.state.tasks.spaces.left_out(),
            filtered: (*filter != Filter::default()).then_some(filtered),
            stacks,
            functions,
            aggregate,
            metadata,
            state,
            tally,
            kernel,
        })
    }

    /// Samples of each event by CPU.
    fn by_cpu(&self) -> Vec<Vec<u64>> {
        let mut sums: Vec<Vec<u64>> = Vec::new();
        for (event, counts) in self.counts().iter().flat_map(|one| one.by_cpu.iter().enumerate()) {
            sums.resize(sums.len().max(event + 1), Vec::new());
            let sums = &mut sums[event];
            sums.resize(sums.len().max(counts.len()), 0);
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        sums
    }

    /// `None` if no stacks were to be unwound.
    fn stacks(&self, copy_size: Option<u32>) -> Option<StackSummary> {
        let mut walked =
            self.counts().iter().filter_map(|counts| counts.walked.as_ref()).peekable();
        walked.peek()?;
        let mut account = Account::default();
        walked.for_each(|walked| account.add(&walked.account));
        Some(StackSummary::new(&account, copy_size))
    }

    fn module_summaries(&self, named: &Named) -> Vec<ModuleSummary> {
        let modules = self.state.modules.list();
        modules
            .iter()
            .zip(&named.states)
            .zip(&named.build_ids)
            .map(|((module, state), build_id)| ModuleSummary {
                kind: module.kind,
                path: String::from_utf8_lossy(&module.path).into_owned(),
                build_id: build_id.clone(),
                symbols: state.clone(),
            })
            .collect()
    }
}

impl State {
    /// Which kernel recorded, as far as the recording says.
    pub(crate) fn kernel_identity(&self, metadata: &Metadata) -> KernelIdentity {
        let info = metadata.info.as_ref();
        let build_id = metadata
            .build_ids
            .iter()
            .find(|entry| entry.kernel && is_kernel_image(&entry.path))
            .and_then(|entry| BuildId::new(&entry.id).ok());
        let told = info.map(|info| info.machine.kernel.clone()).filter(|kernel| !kernel.is_empty());
        KernelIdentity {
            release: metadata.os_release.clone().or(told),
            build_id,
            boot_id: info.and_then(|info| info.machine.boot_id.clone()),
            text: self.kernel_text,
        }
    }
}

fn is_kernel_image(path: &[u8]) -> bool {
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    path.starts_with(b"[kernel.kallsyms]") || file.starts_with(b"vmlinux")
}

/// What the file says about itself.
#[derive(Debug, Clone)]
pub(crate) struct FileFacts {
    pub(crate) metadata: Metadata,
    pub(crate) state: FileState,
    pub(crate) tally: Tally,
    /// Bytes of the stack that samples were to carry.
    pub(crate) stack_copy: Option<u32>,
}

/// What the file says about an event.
#[derive(Debug, Clone)]
pub(crate) struct EventFacts {
    pub(crate) name: String,
    pub(crate) has_period: bool,
    pub(crate) frequency: Option<u64>,
    pub(crate) fixed_period: Option<u64>,
    /// Only there to carry records about processes.
    pub(crate) counts_nothing: bool,
}

impl From<&pmuscope_perfdata::reader::Event> for EventFacts {
    fn from(event: &pmuscope_perfdata::reader::Event) -> Self {
        let by_frequency = event.attr.flags.contains(AttrFlags::FREQ);
        let sample = (event.attr.sample > 0).then_some(event.attr.sample);
        Self {
            name: event.name.clone(),
            has_period: event.has_period(),
            frequency: sample.filter(|_| by_frequency),
            fixed_period: sample.filter(|_| !by_frequency),
            counts_nothing: event.attr.event_type == event_type::SOFTWARE
                && event.attr.config == software::DUMMY,
        }
    }
}

/// What makes a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowKey {
    command: u32,
    module: u32,
    function: Option<u32>,
}

/// What a row adds up to.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    samples: u64,
    weight: u64,
}

impl RowKey {
    fn hash(&self) -> u64 {
        let place = u64::from(self.command) << 32 | u64::from(self.module);
        mix(place, self.function.map_or(0, |function| 1 + u64::from(function)))
    }
}

/// Makes rows of cells.
struct Rows<'a> {
    aggregate: &'a Aggregate,
    functions: Vec<FunctionName>,
    function_ids: FxHashMap<(FunctionId, Option<FunctionId>), u32>,
    commands: Vec<String>,
    /// By task.
    command_ids: Vec<u32>,
}

impl<'a> Rows<'a> {
    fn new(aggregate: &'a Aggregate) -> Self {
        let mut commands: Vec<String> = Vec::new();
        let command_ids = aggregate
            .tasks
            .iter()
            .map(|task| {
                // Tasks are in the order of their names.
                if commands.last().is_none_or(|last| **last != *task.command) {
                    commands.push(task.command.to_string());
                }
                commands.len() as u32 - 1
            })
            .collect();
        let (functions, function_ids) = (Vec::new(), FxHashMap::default());
        Self { aggregate, functions, function_ids, commands, command_ids }
    }

    fn event(&mut self, index: u32, facts: EventFacts, options: Options) -> EventProfile {
        let aggregate = self.aggregate;
        let mut keys: Interned<RowKey> = Interned::default();
        let mut sums: Vec<Sums> = Vec::new();
        // The row of each cell.
        let mut row_of_cell: Vec<u32> = Vec::new();
        for cell in aggregate.of_event(index) {
            let key = self.key(cell);
            let row = keys.intern(key.hash(), key);
            sums.resize(keys.list.len(), Sums::default());
            let sum = &mut sums[row as usize];
            sum.samples += cell.samples;
            sum.weight = sum.weight.saturating_add(cell.weight);
            row_of_cell.push(row);
        }
        let Sums { samples, weight } = sums.iter().fold(Sums::default(), |all, row| Sums {
            samples: all.samples + row.samples,
            weight: all.weight.saturating_add(row.weight),
        });
        let by_period = facts.has_period && weight > 0;
        let total = if by_period { weight } else { samples };
        let (mut functions, order) = self.shares(&keys.list, &sums, total, by_period);
        drop((keys, sums));
        let most = order.len().min(options.intervals.rows());
        let mut rows = row_of_cell.into_iter();
        let mut largest: Vec<Option<u32>> = vec![None; order.len()];
        for (&row, at) in order[..most].iter().zip(0..) {
            largest[row as usize] = Some(at);
        }
        let row_of = |cell: &Cell| {
            // One row for each cell of the event, in their order.
            let row = (cell.event == index).then(|| rows.next()).flatten()?;
            Some(largest[row as usize])
        };
        let filled = match &mut functions[..most] {
            _ if order.is_empty() => 0,
            largest => add_intervals(aggregate, largest, by_period, row_of),
        };
        let period = if facts.has_period {
            Some(weight)
        } else {
            facts.fixed_period.map(|period| period.saturating_mul(samples))
        };
        EventProfile {
            index,
            name: facts.name,
            samples,
            period,
            frequency: facts.frequency,
            fixed_period: facts.fixed_period,
            by_period,
            lost: None,
            lost_at_most: 0,
            by_cpu: Vec::new(),
            blocks: filled,
            modules: modules(&functions),
            functions,
        }
    }

    /// The row that a cell belongs to.
    fn key(&mut self, cell: &Cell) -> RowKey {
        let (aggregate, command) = (self.aggregate, self.command_ids[cell.task as usize]);
        let frame = |id: u32| &aggregate.frames[id as usize];
        let mut frames = aggregate.stacks.frames(cell.stack).map(frame);
        // A cell is of one place at least.
        let Some(leaf) = frames.next() else {
            return RowKey { command, module: UNKNOWN, function: None };
        };
        let module = leaf.module;
        let Some(inner) = leaf.function else { return RowKey { command, module, function: None } };
        let outer = if leaf.inlined {
            frames.find(|frame| !frame.inlined).and_then(|frame| frame.function)
        } else {
            None
        };
        let (functions, names) = (&mut self.functions, &aggregate.functions);
        let function = *self.function_ids.entry((inner, outer)).or_insert_with(|| {
            let name = |id: FunctionId| Arc::clone(&names[id as usize].name);
            functions.push(FunctionName { name: name(inner), inlined_into: outer.map(name) });
            functions.len() as u32 - 1
        });
        RowKey { command, module, function: Some(function) }
    }

    /// Shares and the numbers of their rows, the largest first; equal ones by their names, so that the
    /// order never depends on chance.
    fn shares(
        &self,
        keys: &[RowKey],
        sums: &[Sums],
        total: u64,
        by_period: bool,
    ) -> (Vec<FunctionShare>, Vec<u32>) {
        let ranks = ranks(&self.functions);
        let name = |key: &RowKey| key.function.map(|at| ranks[at as usize]);
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| {
            let (sum, other) = (sums[a as usize], sums[b as usize]);
            let (key, than) = (keys[a as usize], keys[b as usize]);
            let weight = |sum: Sums| if by_period { sum.weight } else { sum.samples };
            (weight(other), other.samples)
                .cmp(&(weight(sum), sum.samples))
                .then_with(|| name(&key).cmp(&name(&than)))
                .then_with(|| (key.command, key.module).cmp(&(than.command, than.module)))
        });
        let share = |&row: &u32| {
            let (RowKey { command, module, function }, sum) =
                (keys[row as usize], sums[row as usize]);
            let weight = if by_period { sum.weight } else { sum.samples };
            FunctionShare {
                command,
                module: module as usize,
                function,
                samples: sum.samples,
                weight,
                share: if total > 0 { weight as f64 / total as f64 } else { 0.0 },
                interval: None,
            }
        };
        (order.iter().map(share).collect(), order)
    }
}

/// The rank of each name; equal ones have the same. Rows are many more, and numbers compare faster.
fn ranks(names: &[FunctionName]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..names.len() as u32).collect();
    let by_name = |a: &u32, b: &u32| names[*a as usize].cmp(&names[*b as usize]);
    let (first, second) = order.split_at_mut(names.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| first.sort_unstable_by(by_name));
        second.sort_unstable_by(by_name);
    });
    // Two runs that are in order, which this sort makes use of.
    order.sort_by(by_name);
    let mut ranks = vec![0; names.len()];
    let mut rank = 0;
    for (at, &name) in order.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &names[order[before] as usize]);
        rank += u32::from(before.is_some_and(|before| *before != names[name as usize]));
        ranks[name as usize] = rank;
    }
    ranks
}

/// Gives `rows` their intervals; tells how many blocks have samples. `row_of` tells of a cell whether
/// it is of the event, and which of the rows it is in.
fn add_intervals(
    aggregate: &Aggregate,
    rows: &mut [FunctionShare],
    by_period: bool,
    mut row_of: impl FnMut(&Cell) -> Option<Option<u32>>,
) -> usize {
    let series = aggregate.row_series(rows.len(), by_period, |cell| match row_of(cell) {
        None => AddsTo::Nothing,
        Some(None) => AddsTo::Total,
        Some(Some(row)) => AddsTo::Row(row as usize),
    });
    for (row, interval) in rows.iter_mut().zip(series.intervals()) {
        row.interval = interval;
    }
    series.filled()
}

fn modules(rows: &[FunctionShare]) -> Vec<ModuleShare> {
    let mut by_module: FxHashMap<usize, ModuleShare> = FxHashMap::default();
    for row in rows {
        let none = ModuleShare { module: row.module, samples: 0, named: 0, share: 0.0 };
        let module = by_module.entry(row.module).or_insert(none);
        module.samples += row.samples;
        module.named += if row.function.is_some() { row.samples } else { 0 };
        module.share += row.share;
    }
    let mut modules: Vec<ModuleShare> = by_module.into_values().collect();
    modules.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.module.cmp(&b.module)));
    modules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::InOrder;
    use crate::counter::Apart;
    use pmuscope_perfdata::reader::{Comm, CpuMode, FileBuildId, Mmap, Record, Sample};
    use pmuscope_symbols::State;
    use pmuscope_symbols::{Frame, Module, Resolved, Symbol};
    use proptest::prelude::*;

    fn facts(has_period: bool) -> EventFacts {
        let fixed_period = (!has_period).then_some(1_000_000);
        EventFacts {
            name: "cycles".into(),
            has_period,
            frequency: None,
            fixed_period,
            counts_nothing: false,
        }
    }

    fn no_file() -> FileFacts {
        FileFacts {
            metadata: Metadata::default(),
            state: FileState::Closed,
            tally: Tally::default(),
            stack_copy: None,
        }
    }

    fn sample(pid: i32, ip: u64, time: u64, period: u64) -> Record<'static> {
        Record::Sample(Sample {
            event: 0,
            mode: CpuMode::User,
            ip: Some(ip),
            pid: Some(pid),
            tid: Some(pid),
            time: Some(time),
            cpu: Some(0),
            period: Some(period),
            ..Sample::default()
        })
    }

    /// Two commands that map the same file at 0x1000, which has a function for every 16 bytes.
    fn two_commands(has_period: bool) -> InOrder<'static> {
        let mut collected = InOrder::new(&[has_period], Apart::default());
        for (pid, name) in [(1, &b"one"[..]), (2, b"two")] {
            collected.take(&Record::Comm(Comm { pid, tid: pid, name, exec: true }));
            collected.take(&Record::Mmap(Mmap {
                pid,
                tid: pid,
                start: 0x1000,
                length: 0x1000,
                offset: 0,
                path: b"/bin/program",
                executable: true,
                ..Mmap::default()
            }));
        }
        collected
    }

    fn by_sixteen(_: &Module<'_>, addresses: &[u64]) -> Resolved {
        let symbol = |address: &u64| {
            let name = format!("f{}", address / 16).into();
            let frame = Frame { name: "inner".into(), line: None };
            let inlined = if address % 2 == 1 { vec![frame].into() } else { Box::default() };
            (*address < 0x800).then(|| Symbol { name, line: None, inlined }.into())
        };
        Resolved { symbols: addresses.iter().map(symbol).collect(), state: State::Found }
    }

    fn build(collected: InOrder<'_>, has_period: bool) -> Profile {
        let events = vec![facts(has_period)];
        let running = KernelIdentity::default();
        let collected = collected.finish();
        let file = no_file();
        let profile =
            collected.build(events, file, &running, Options::default(), &mut |requests| {
                requests.iter().map(|one| by_sixteen(&one.module, one.addresses)).collect()
            });
        profile.unwrap()
    }

    fn rows(profile: &Profile) -> Vec<String> {
        profile.events[0]
            .functions
            .iter()
            .map(|row| {
                format!(
                    "{} {} {} {:?} {}",
                    row.samples,
                    profile.command_of(row),
                    profile.name_of(row),
                    profile.inlined_into(row),
                    profile.modules[row.module].short_name(),
                )
            })
            .collect()
    }

    #[test]
    fn rows_are_functions_of_commands_and_what_has_no_name_stays() {
        let mut collected = two_commands(false);
        for (pid, ip) in [
            (1, 0x1010),
            (1, 0x1012),
            (1, 0x101e), // f1
            (2, 0x1010),
            (2, 0x1011), // f1, and inner within it
            (2, 0x1900),
            (2, 0x1902), // no function
            (1, 0x5000), // nothing mapped
        ] {
            collected.take(&sample(pid, ip, 0, 1));
        }
        assert_eq!(
            rows(&build(collected, false)),
            [
                "3 one f1 None program",
                "2 two [unknown] None program",
                "1 one [unknown] None [unknown]",
                "1 two f1 None program",
                "1 two inner Some(\"f1\") program",
            ]
        );
    }

    #[test]
    fn shares_follow_the_period_where_samples_have_one() {
        let run = |has_period| {
            let mut collected = two_commands(has_period);
            collected.take(&sample(1, 0x1000, 5, 300));
            collected.take(&sample(1, 0x1010, 6, 100));
            let profile = build(collected, has_period);
            let event = &profile.events[0];
            (event.functions[0].share, event.period, event.by_period)
        };
        assert_eq!(run(true), (0.75, Some(400), true));
        assert_eq!(run(false), (0.5, Some(2_000_000), false));
    }

    /// Only a damaged recording has such periods.
    #[test]
    fn periods_that_have_no_sum_are_not_used() {
        // In cells of their own, and in one.
        for places in [[0x1000, 0x1010, 0x1020], [0x1000; 3]] {
            let mut collected = two_commands(true);
            for (time, place) in (5..).zip(places) {
                collected.take(&sample(1, place, time, u64::MAX / 2));
            }
            let profile = build(collected, true);
            let event = &profile.events[0];
            assert_eq!((event.by_period, event.samples, event.period), (false, 3, None));
            let weights = profile.aggregate.cells.iter().map(|cell| cell.weight);
            assert_eq!(weights.sum::<u64>(), 3);
        }
    }

    /// The kernel could not read the id at one of the mappings.
    #[test]
    fn a_file_mapped_with_and_without_its_build_id_is_one_module() {
        let mut collected = InOrder::new(&[false], Apart::default());
        for (pid, build_id) in [(1, Some(&[7; 20][..])), (2, None), (3, Some(&[8; 20]))] {
            collected.take(&Record::Comm(Comm { pid, tid: pid, name: b"one", exec: true }));
            let (start, length, executable) = (0x1000, 0x1000, true);
            let mapping = Mmap { pid, tid: pid, start, length, build_id, ..Mmap::default() };
            collected.take(&Record::Mmap(Mmap { path: b"/bin/program", executable, ..mapping }));
            collected.take(&sample(pid, 0x1020, 5, 1));
        }
        let of_path = FileBuildId { kernel: false, path: b"/bin/program".into(), id: vec![7; 20] };
        let mut file = no_file();
        file.metadata.build_ids.push(of_path);
        let running = KernelIdentity::default();
        let profile = collected.finish().build(
            vec![facts(false)],
            file,
            &running,
            Options::default(),
            &mut |requests| {
                requests.iter().map(|one| by_sixteen(&one.module, one.addresses)).collect()
            },
        );
        let profile = profile.unwrap();
        // The third process ran another build of the same path.
        assert_eq!(rows(&profile), ["2 one f2 None program", "1 one f2 None program"]);
    }

    #[test]
    fn a_long_recording_has_intervals_and_a_short_one_none() {
        let run = |step: u64| {
            let mut collected = two_commands(false);
            for at in 0..1000 {
                collected.take(&sample(1, 0x1000 + 16 * (at % 3), at * step, 1));
            }
            let profile = build(collected, false);
            let event = &profile.events[0];
            (event.functions[0].interval, event.functions[0].share, event.blocks)
        };
        let (interval, share, blocks) = run(1_000_000);
        let interval = interval.unwrap();
        assert!(blocks > 60 && interval.low <= share && share <= interval.high);
        assert!(interval.half_width() < 0.02, "{interval:?}");
        let (interval, _, blocks) = run(10_000); // 10 ms
        assert_eq!((interval, blocks), (None, 10));
    }

    #[test]
    fn a_kernel_of_another_machine_gets_no_names() {
        let mut collected = two_commands(false);
        let Record::Sample(user) = sample(1, 0xffff_ffff_8100_0000, 0, 1) else { return };
        collected.take(&Record::Sample(Sample { mode: CpuMode::Kernel, ..user }));
        let profile = build(collected, false);
        let row = &profile.events[0].functions[0];
        assert_eq!(profile.function_of(row), None);
        let module = &profile.modules[row.module];
        assert_eq!((&*module.path, &module.symbols), ("[kernel.kallsyms]", &State::OtherKernel));
    }

    proptest! {
        /// Nothing sampled gets lost on the way, whatever is mapped and whatever has a name.
        #[test]
        fn shares_add_up_to_one(
            samples in proptest::collection::vec(
                (1_i32..4, 0x800_u64..0x2400, 0_u64..1 << 36, 0_u64..1000), 1..200),
            has_period in any::<bool>(),
        ) {
            let mut collected = two_commands(has_period);
            for &(pid, ip, time, period) in &samples {
                collected.take(&sample(pid, ip, time, period));
            }
            let profile = build(collected, has_period);
            let event = &profile.events[0];
            let shares: f64 = event.functions.iter().map(|row| row.share).sum();
            prop_assert!((shares - 1.0).abs() < 1e-9, "{}", shares);
            let modules: f64 = event.modules.iter().map(|module| module.share).sum();
            prop_assert!((modules - 1.0).abs() < 1e-9, "{}", modules);
            let counted: u64 = event.functions.iter().map(|row| row.samples).sum();
            prop_assert_eq!(counted, samples.len() as u64);
            prop_assert!(event.functions.is_sorted_by(|a, b| a.share >= b.share));
        }
    }
}
