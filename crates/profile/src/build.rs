//! Counts and names to a profile.

use pmuscope_perfdata::reader::{FileState, ReadError, Reader};
use pmuscope_symbols::KernelIdentity;

use crate::count::collect::{Collected, has_period};
use crate::count::unwinding::{StackSummary, UnwindStats};
use crate::facts::{EventFacts, FileFacts};
use crate::filter::Filter;
use crate::names::naming::{Resolve, name};
use crate::profile::{Filtered, Options, Profile};
use crate::views::function_rows::Rows;
use crate::waits::holds_waits;

impl Collected {
    /// Gives every distinct address a name by `resolve` and adds up. `reader` is the one that was
    /// read to its end, `running` the kernel this program runs on.
    ///
    /// # Errors
    /// If samples are counted only now, and the operating system fails to read.
    pub fn profile(
        mut self,
        reader: &Reader,
        running: &KernelIdentity,
        options: Options,
        resolve: &mut Resolve<'_>,
    ) -> Result<Profile, ReadError> {
        let tells_waits = holds_waits(reader.events());
        let file = FileFacts { tells_waits, ..FileFacts::of(reader) };
        let facts = |(event, has_period)| EventFacts { has_period, ..EventFacts::from(event) };
        let events = reader.events().iter().zip(has_period(reader)).map(facts).collect();
        self.answer(events, file, running, options, resolve)
    }

    /// The same of any events; counts are used up, what is known of tasks and modules stays.
    pub(crate) fn answer(
        &mut self,
        mut events: Vec<EventFacts>,
        file: FileFacts,
        running: &KernelIdentity,
        options: Options,
        resolve: &mut Resolve<'_>,
    ) -> Result<Profile, ReadError> {
        let FileFacts { metadata, state, tally, stack_copy, tells_waits } = file;
        let kernel = self.state.kernel_identity(&metadata).compare(running);
        let mut named = name(self, &metadata, kernel, resolve);
        let (mut aggregate, samples) = self.aggregate(&mut named, options.detail)?;
        let left_out: u64 = self.counts().iter().map(|counts| counts.left_out).sum();
        let stacks = self.stacks(stack_copy);
        let filter = &self.filter;
        let left_out = left_out + filter.keep_named(&mut aggregate, &named.modules);
        let sampled = self.sampled();
        for (index, facts) in (0_u32..).zip(&mut events) {
            facts.has_period &= aggregate.adds_up(index);
            // It is only read with samples of others, whatever rate it was given.
            if sampled.get(index as usize) == Some(&0) && !aggregate.of_event(index).is_empty() {
                (facts.frequency, facts.fixed_period) = (None, None);
            }
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
        let names = rows.into_names();
        let filtered = Filtered { filter: filter.clone(), left_out };
        let seconds = self.clock.origin().zip(self.clock.span()).map(|(origin, span)| {
            filter.duration(origin, origin.saturating_add(span)) as f64 / 1e9
        });
        let told = info.map(|info| info.duration_s).filter(|&seconds| seconds > 0.0);
        // The last note of a file without an end is older than its last samples.
        let is_closed = matches!(state, FileState::Closed);
        let told = told.map(|told| if is_closed { told } else { told.max(seconds.unwrap_or(0.0)) });
        Ok(Profile {
            events,
            modules: named.modules,
            duration_s: told.filter(|_| filter.times.is_empty()).or(seconds),
            lost,
            throttled: loss.throttled(info, filter),
            losses: loss.by_cpu(info, filter, &self.clock, &self.kept_by_cpu(&by_cpu)),
            mappings_left_out: self.state.left_out(),
            has_other_pid_namespaces: self.state.tasks.has_other_namespaces(),
            without_callers: self.counts().iter().map(|counts| counts.without_callers).sum(),
            filtered: (*filter != Filter::default()).then_some(filtered),
            sampled,
            stacks,
            names,
            by_chain: aggregate.by_chain(),
            aggregate,
            samples,
            metadata,
            state,
            tally,
            kernel,
            tells_waits,
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

    /// Samples of each event as they stand in the recording.
    fn sampled(&self) -> Vec<u64> {
        let mut sums: Vec<u64> = Vec::new();
        for counts in self.counts() {
            sums.resize(sums.len().max(counts.sampled.len()), 0);
            sums.iter_mut().zip(&counts.sampled).for_each(|(sum, samples)| *sum += samples);
        }
        sums
    }

    /// Samples that were kept, by CPU: one that stands for several events counts once. `by_cpu` are those
    /// that each event has.
    fn kept_by_cpu(&self, by_cpu: &[Vec<u64>]) -> Vec<Vec<u64>> {
        let kept: Vec<_> =
            self.counts().iter().filter_map(|counts| counts.kept_by_cpu.clone()).collect();
        if kept.is_empty() { by_cpu.to_vec() } else { kept }
    }

    /// `None` if no stacks were to be unwound.
    fn stacks(&self, copy_size: Option<u32>) -> Option<StackSummary> {
        let mut walked =
            self.counts().iter().filter_map(|counts| counts.walked.as_ref()).peekable();
        walked.peek()?;
        let mut account = UnwindStats::default();
        walked.for_each(|walked| account.add(&walked.account));
        Some(StackSummary::new(&account, copy_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::counter::Counter;
    use crate::count::group::GroupBy;
    use crate::profile::{EventProfile, HiddenRows};
    use crate::timeline::visit::InOrder;
    use pmuscope_perfdata::reader::{
        Comm, CpuMode, FileBuildId, Metadata, Mmap, Record, Sample, Tally,
    };
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
            tells_waits: false,
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
    fn two_commands(has_period: bool) -> InOrder<Counter<'static>> {
        let mut collected = InOrder::new(&[has_period], GroupBy::default());
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
            let frame = Frame::named("inner".into(), None);
            let inlined = if address % 2 == 1 { vec![frame].into() } else { Box::default() };
            (*address < 0x800).then(|| Symbol { inlined, ..Symbol::named(name) }.into())
        };
        Resolved { symbols: addresses.iter().map(symbol).collect(), state: State::Found }
    }

    fn build(collected: InOrder<Counter<'_>>, has_period: bool) -> Profile {
        build_with(collected, has_period, Options::default())
    }

    fn build_with(collected: InOrder<Counter<'_>>, has_period: bool, options: Options) -> Profile {
        let events = vec![facts(has_period)];
        let running = KernelIdentity::default();
        let mut collected = collected.finish();
        let file = no_file();
        let profile = collected.answer(events, file, &running, options, &mut |requests| {
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
        let mut collected = InOrder::new(&[false], GroupBy::default());
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
        let profile = collected.finish().answer(
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

        /// The largest rows are the first of all, and what is hidden is the rest.
        #[test]
        fn fewer_rows_are_the_first_of_all(
            samples in proptest::collection::vec((1_i32..3, 0x1000_u64..0x1900, 1_u64..4), 1..80),
            has_period in any::<bool>(), most in 0_usize..40,
        ) {
            let run = |rows| {
                let mut collected = two_commands(has_period);
                for (&(pid, ip, period), time) in samples.iter().zip(0..) {
                    collected.take(&sample(pid, ip, time << 24, period));
                }
                build_with(collected, has_period, Options { rows, ..Options::default() })
            };
            let (all, some) = (run(None), run(Some(most)));
            let (event, fewer) = (&all.events[0], &some.events[0]);
            let shown = most.max(2).min(event.functions.len());
            prop_assert_eq!(&rows(&all)[..shown], &rows(&some)[..]);
            let number = |event: &EventProfile, row: usize| {
                let row = event.functions[row];
                (row.samples, row.weight, row.share, row.interval)
            };
            for row in 0..shown {
                prop_assert_eq!(number(event, row), number(fewer, row));
            }
            let rest = &event.functions[shown..];
            prop_assert_eq!(fewer.hidden.rows, rest.len());
            prop_assert_eq!(fewer.hidden.samples, rest.iter().map(|row| row.samples).sum::<u64>());
            let share: f64 = rest.iter().map(|row| row.share).sum();
            prop_assert!((fewer.hidden.share - share).abs() < 1e-9);
            prop_assert_eq!(event.hidden, HiddenRows::default());
            let shares = |event: &EventProfile| -> Vec<(usize, u64, u64, f64)> {
                let rows = event.modules.iter();
                rows.map(|row| (row.module, row.samples, row.named, row.share)).collect()
            };
            prop_assert_eq!(shares(event), shares(fewer));
        }
    }
}
