//! A hit: a thread of ours writes a word of ours, again and again.
//!
//! ```text
//!  nothing   no breakpoint            the loop itself
//!  count     a breakpoint that counts the exception, and the way through perf's events
//!  program   a program in the kernel  and a counter of its own
//!  record    one record for each hit  and a record in a ring
//!  stack     with the call chain      and the stack walked
//! ```
//! In a virtual machine under load SIGTRAP was seen to arrive which nobody had sent, with a hit that was not
//! counted. Here that is caught and said; a program that is watched would be ended by it.
//!
//! Records are taken out of the ring between pieces of the run, while the clock stands still. A run in which
//! a hit was not counted, or has no record, is worth nothing and says so.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use pmuscope_abi::record::{Records, kind};
use pmuscope_abi::{Attr, AttrFlags, SampleType, breakpoint};
use pmuscope_bpf::{Assembler, BpfError, Map, Program, Register};
use pmuscope_counters::{EventRequest, Kernel, OpenOptions, RingSize, SamplingSet, Scope};
use pmuscope_machine::{Machine, Topology};
use pmuscope_measure::{Labels, Planned};
use pmuscope_watch::kernel::untouched;
use pmuscope_watch::slots::Kind;
use signal_hook::SigId;
use signal_hook::consts::SIGTRAP;

use super::{BENCHMARK, BreakpointOutcome, check_slots, open_own};
use crate::error::BenchError;
use crate::runner::{Bench, Benchmark, labels};

/// Label: what is done with a hit.
pub const ARM: &str = pmuscope_measure::arms::ARM;
/// Unit of work.
pub const HIT: &str = "hit";
/// Parameter: hits of a run.
pub const HITS: &str = "hits";
/// Value of [`BENCHMARK`].
pub const NAME: &str = "hit";

/// Hits between two readings of the ring.
const PIECE: u64 = 256;
/// Bytes of the ring: a piece of records of the longest call chain fits in.
const RING: u64 = 1 << 20;

/// What is written.
static WORD: AtomicU64 = AtomicU64::new(0);

/// What is done with a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HitAction {
    /// There is no breakpoint.
    Nothing,
    /// It is counted.
    Count,
    /// A program in the kernel counts it, and writes nothing down.
    Program,
    /// A record of place, thread, time and address.
    Record,
    /// With the call chain.
    Stack,
}

impl HitAction {
    /// All, as they are shown.
    pub const ALL: [Self; 5] =
        [Self::Nothing, Self::Count, Self::Program, Self::Record, Self::Stack];

    /// As in the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Count => "count",
            Self::Program => "program",
            Self::Record => "record",
            Self::Stack => "stack",
        }
    }
}

/// Where hits are made and counted.
pub struct HitBench<'a> {
    kernel: &'a dyn Kernel,
    machine: &'a Machine,
    topology: Topology,
    hits: u64,
    /// Why there is no program where there is none.
    counter: Result<CountingProgram, BpfError>,
    trapped: Trapped,
}

/// A program that adds 1 to a word, and the word.
struct CountingProgram {
    program: Program,
    word: Map,
}

impl CountingProgram {
    fn load() -> Result<Self, BpfError> {
        let word = Map::array(size_of::<u64>(), 1)?;
        let mut code = Assembler::new();
        code.map_value(Register::R1, word.as_fd(), 0)
            .mov(Register::R2, 1)
            .atomic_add(Register::R1, 0, Register::R2)
            // No sample.
            .mov(Register::R0, 0)
            .exit();
        Ok(Self { program: Program::load(code)?, word })
    }

    /// What was counted since it was asked last.
    fn take(&self) -> Result<u64, BpfError> {
        let (first, mut count) = ([0; 4], [0; 8]);
        self.word.get(&first, &mut count)?;
        self.word.set(&first, &[0; 8])?;
        Ok(u64::from_ne_bytes(count))
    }
}

/// What is said of a SIGTRAP.
const STRAY: &str = "SIGTRAP arrived instead of a hit, although no process sent it: it would have \
    killed a watched program";

/// Whether SIGTRAP arrived, which does not end the program as long as this is there.
struct Trapped {
    flag: Arc<AtomicBool>,
    handler: SigId,
}

impl Trapped {
    fn catch() -> Result<Self, BenchError> {
        let flag = Arc::new(AtomicBool::new(false));
        let handler = signal_hook::flag::register(SIGTRAP, Arc::clone(&flag));
        let handler =
            handler.map_err(|source| BenchError::Call { what: "catch SIGTRAP of", source })?;
        Ok(Self { flag, handler })
    }

    /// Whether it arrived since it was asked last.
    fn take(&self) -> bool {
        self.flag.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Trapped {
    fn drop(&mut self) {
        signal_hook::low_level::unregister(self.handler);
    }
}

/// Writes the word; seconds.
#[inline(never)]
fn write(times: u64) -> f64 {
    let started = Instant::now();
    for value in 0..times {
        WORD.store(value, Ordering::Relaxed);
    }
    started.elapsed().as_secs_f64()
}

fn attr() -> Attr {
    Attr {
        bp_type: breakpoint::WRITE,
        config1: WORD.as_ptr().addr() as u64,
        config2: size_of::<u64>() as u64,
        ..untouched(Kind::Data)
    }
}

impl<'a> HitBench<'a> {
    /// Hits in each run.
    ///
    /// # Errors
    /// If the CPUs of the machine cannot be read.
    pub fn new(
        kernel: &'a dyn Kernel,
        machine: &'a Machine,
        hits: u64,
    ) -> Result<Self, BenchError> {
        let (topology, trapped) = (machine.topology()?, Trapped::catch()?);
        Ok(Self { kernel, machine, topology, hits, counter: CountingProgram::load(), trapped })
    }

    /// All that can be done here, and why the rest cannot.
    fn ways(&self) -> (Vec<HitAction>, Option<String>) {
        let why = self.counter.as_ref().err().map(ToString::to_string);
        let can = |way: &HitAction| *way != HitAction::Program || why.is_none();
        (HitAction::ALL.into_iter().filter(can).collect(), why)
    }

    fn hit(&self, way: HitAction) -> Result<BreakpointOutcome, BenchError> {
        match way {
            HitAction::Nothing => Ok(BreakpointOutcome::new(self.hits, self.pieces(|| {}))),
            HitAction::Count => self.count(),
            HitAction::Program => self.program(),
            HitAction::Record => self.record(SampleType::empty()),
            HitAction::Stack => self.record(SampleType::CALLCHAIN),
        }
    }

    /// Makes all hits, with `between` after each piece; seconds without it.
    fn pieces(&self, mut between: impl FnMut()) -> f64 {
        let mut seconds = 0.0;
        let mut left = self.hits;
        while left > 0 {
            let piece = left.min(PIECE);
            seconds += write(piece);
            between();
            left -= piece;
        }
        seconds
    }

    fn count(&self) -> Result<BreakpointOutcome, BenchError> {
        let event = open_own(self.kernel, &attr(), || "a breakpoint".to_owned())?;
        let seconds = self.pieces(|| {});
        let counted = self.read(event.as_fd())?;
        Ok(self.counted("breakpoint", counted, seconds))
    }

    /// A run with its number of hits, as `who` counted them.
    fn counted(&self, who: &str, counted: u64, seconds: f64) -> BreakpointOutcome {
        let why = (counted != self.hits)
            .then(|| format!("the {who} counted {counted} of {} hits", self.hits));
        BreakpointOutcome { why, ..BreakpointOutcome::new(self.hits, seconds) }
    }

    fn program(&self) -> Result<BreakpointOutcome, BenchError> {
        // Without a program there is no such arm.
        let Ok(counter) = &self.counter else { return Ok(BreakpointOutcome::default()) };
        let attr = Attr { sample: 1, ..attr() };
        let event = open_own(self.kernel, &attr, || "a breakpoint".to_owned())?;
        let call = |source| BenchError::Call { what: "attach a BPF program to", source };
        self.kernel.attach(event.as_fd(), counter.program.as_fd()).map_err(call)?;
        counter.take()?;
        let seconds = self.pieces(|| {});
        Ok(self.counted("program", counter.take()?, seconds))
    }

    fn read(&self, event: BorrowedFd<'_>) -> Result<u64, BenchError> {
        let mut words = [0; 1];
        let call = |source| BenchError::Call { what: "read", source };
        self.kernel.read(event, &mut words).map_err(call)?;
        Ok(words[0])
    }

    fn record(&self, besides: SampleType) -> Result<BreakpointOutcome, BenchError> {
        let (records, bytes, seconds) = self.records(besides)?;
        let why = (records != self.hits)
            .then(|| format!("{records} of {} hits have a record in the ring buffer", self.hits));
        let record_bytes = (records > 0).then(|| bytes as f64 / records as f64);
        Ok(BreakpointOutcome { done: self.hits, seconds, record_bytes, why, notice: None })
    }

    /// Records of hits, their bytes, and seconds.
    fn records(&self, besides: SampleType) -> Result<(u64, u64, f64), BenchError> {
        let fields = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::ADDR;
        let mut attr = Attr { sample: 1, sample_type: fields | besides, ..attr() };
        attr.flags.insert(AttrFlags::DISABLED | AttrFlags::WATERMARK);
        let request = EventRequest {
            name: "a breakpoint".to_owned(),
            attr,
            leader: None,
            cpus: None,
            any_task: false,
            max_precise: false,
        };
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let scope = Scope::Threads(vec![me]);
        let how = OpenOptions { ring_size: RingSize::AtMost(RING) };
        let kernel = self.kernel;
        let mut set =
            SamplingSet::open(kernel, self.machine, &self.topology, &scope, vec![request], how)?;
        let mut rings = set.take_rings();
        set.enable(kernel, |_| {})?;
        let (mut records, mut bytes) = (0, 0);
        let seconds = self.pieces(|| {
            for ring in &mut rings {
                let pending = ring.pending();
                // A record may lie across the seam.
                let whole = [pending.first, pending.second].concat();
                for (header, _) in Records::new(&whole).filter(|(h, _)| h.kind == kind::SAMPLE) {
                    records += 1;
                    bytes += u64::from(header.size);
                }
                let end = pending.end();
                ring.release(end);
            }
        });
        set.disable(kernel)?;
        Ok((records, bytes, seconds))
    }
}

impl Benchmark for HitBench<'_> {
    type Arm = HitAction;

    fn parameters(&self) -> Labels {
        labels([(BENCHMARK, NAME.to_owned()), (HITS, self.hits.to_string())])
    }

    fn arms(&mut self, bench: &mut Bench<'_>) -> Result<Vec<HitAction>, BenchError> {
        check_slots(self.kernel, 1, bench.file)?;
        let (ways, why) = self.ways();
        bench.file.notices.extend(why.map(|why| format!("cannot run BPF programs at hits: {why}")));
        Ok(ways)
    }

    fn labels(&self, arm: &HitAction) -> Labels {
        labels([(ARM, arm.name().to_owned())])
    }

    fn run(
        &mut self,
        arm: &HitAction,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let started = SystemTime::now();
        let mut outcome = self.hit(*arm)?;
        outcome.notice = self.trapped.take().then(|| STRAY.to_owned());
        outcome.add(bench, (planned, started), self.labels(arm), HIT);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_counters::Host;
    use pmuscope_counters::fake::FakeKernel;

    #[test]
    fn every_hit_is_counted_and_has_its_record() {
        let machine = Machine::host();
        let bench = HitBench::new(&Host, &machine, 1000).unwrap();
        let (ways, why) = bench.ways();
        if let Some(why) = why {
            println!("skipped: BPF programs at hits: {why}");
        }
        for way in ways {
            let outcome = bench.hit(way).unwrap();
            assert_eq!(outcome.done, 1000, "{way:?}");
            assert!(outcome.why.is_none() || bench.trapped.take(), "{way:?}: {:?}", outcome.why);
            let is_recorded = matches!(way, HitAction::Record | HitAction::Stack);
            assert_eq!(outcome.record_bytes.is_some(), is_recorded, "{way:?}");
        }
    }

    #[test]
    fn a_stray_trap_does_not_end_the_program_and_is_told_once() {
        let trapped = Trapped::catch().unwrap();
        assert!(!trapped.take());
        signal_hook::low_level::raise(SIGTRAP).unwrap();
        assert_eq!((trapped.take(), trapped.take()), (true, false));
    }

    #[test]
    fn a_run_in_which_hits_are_missing_says_so() {
        let machine = Machine::host();
        let kernel = FakeKernel::default();
        kernel.answer_reads(&[999]);
        let bench = HitBench::new(&kernel, &machine, 1000).unwrap();
        let why = |way| bench.hit(way).unwrap().why.unwrap();
        assert_eq!(why(HitAction::Count), "the breakpoint counted 999 of 1000 hits");
        assert_eq!(why(HitAction::Record), "0 of 1000 hits have a record in the ring buffer");
    }
}
