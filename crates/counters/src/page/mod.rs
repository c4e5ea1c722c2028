//! A count without a system call, from the page that the kernel keeps for each mapped event.
//!
//! ```text
//!  lock ──► enabled, running, index, offset, width ──► counter (index - 1) ──► lock again: the same?
//!   odd, or changed: once more                         count = offset + counter, its top bit a sign
//! ```
//!
//! The kernel writes the page when it puts the event on a counter or takes it off, and at overflow: always
//! on the CPU that runs the thread. So anything that happened between the two readings of the lock,
//! including a migration to another CPU, changed it. The layout is that of `struct perf_event_mmap_page`
//! (`include/uapi/linux/perf_event.h`), where a comment gives the steps.

mod sys;

use std::sync::atomic::{Ordering, compiler_fence};

use pmuscope_abi::mmap_page as at;

pub use self::sys::EventPage;
pub(super) use self::sys::INSTRUCTION;

/// A page that changes more often while it is read is not waited for.
const TRIES: usize = 100;

/// What is read from: the page and the counters behind it, or what a test puts in their place.
pub(super) trait PageSource {
    /// The word at this offset.
    fn word(&self, offset: usize) -> u32;
    /// The double word at this offset.
    fn double(&self, offset: usize) -> u64;
    /// A hardware counter, as the instruction has it.
    fn counter(&self, number: u32) -> u64;
    /// The counter of ticks that the fields for time refer to.
    fn ticks(&self) -> u64;
}

impl PageSource for EventPage {
    #[inline]
    fn word(&self, offset: usize) -> u32 {
        self.word(offset)
    }

    #[inline]
    fn double(&self, offset: usize) -> u64 {
        self.double(offset)
    }

    #[inline]
    fn counter(&self, number: u32) -> u64 {
        sys::counter(number)
    }

    #[inline]
    fn ticks(&self) -> u64 {
        sys::ticks()
    }
}

/// What the page and the counter say at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageReading {
    /// The count; only differences mean something where it was negative.
    pub(super) count: u64,
    /// Nanoseconds enabled and not on a counter until the last write. While the event is on its counter
    /// there are no more of them.
    pub(super) missed_ns: u64,
    /// Nanoseconds enabled until now; `None` where the page has no time.
    pub(super) enabled_ns: Option<u64>,
}

/// Reads count and times; `None` where the event is on no counter that may be read, or the page does not
/// hold still.
#[inline]
pub(super) fn read_page(source: &impl PageSource) -> Option<PageReading> {
    for _ in 0..TRIES {
        let before = source.word(at::LOCK);
        compiler_fence(Ordering::SeqCst);
        if before % 2 == 1 {
            continue;
        }
        let seen = look_once(source);
        compiler_fence(Ordering::SeqCst);
        if source.word(at::LOCK) == before {
            return seen;
        }
    }
    None
}

#[inline]
fn look_once(source: &impl PageSource) -> Option<PageReading> {
    let capabilities = source.double(at::CAPABILITIES);
    let index = source.word(at::INDEX);
    if capabilities & at::CAN_READ_COUNTER == 0 || index == 0 {
        return None;
    }
    let enabled = source.double(at::TIME_ENABLED);
    let missed_ns = enabled.saturating_sub(source.double(at::TIME_RUNNING));
    let enabled_ns = (capabilities & at::CAN_READ_TIME != 0)
        .then(|| Some(enabled.wrapping_add(since_write(source, capabilities)?)))
        .flatten();
    let width = source.word(at::COUNTER_WIDTH) & 0xffff;
    let counter = extend(source.counter(index - 1), width)?;
    let count = source.double(at::OFFSET).wrapping_add(counter);
    Some(PageReading { count, missed_ns, enabled_ns })
}

/// The lowest `width` bits as a signed number: the kernel starts counters below zero, so that they overflow
/// in time. `None` for a width that no counter has.
#[inline]
fn extend(counter: u64, width: u32) -> Option<u64> {
    let unused = 64_u32.checked_sub(width).filter(|_| width > 0)?;
    Some(((counter << unused) as i64 >> unused) as u64)
}

/// Nanoseconds since the kernel wrote the page.
#[inline]
fn since_write(source: &impl PageSource, capabilities: u64) -> Option<u64> {
    let mut ticks = source.ticks();
    if capabilities & at::SHORT_TIME != 0 {
        let (cycles, mask) = (source.double(at::TIME_CYCLES), source.double(at::TIME_MASK));
        ticks = cycles.wrapping_add(ticks.wrapping_sub(cycles) & mask);
    }
    // The shift is the upper half of the word that begins with the width.
    let shift = source.word(at::COUNTER_WIDTH) >> 16;
    let delta = scale(ticks, source.word(at::TIME_MULT), shift)?;
    Some(source.double(at::TIME_OFFSET).wrapping_add(delta))
}

/// `ticks * mult >> shift` without the bits that 64 would lose; `None` for a shift that no kernel has.
#[inline]
fn scale(ticks: u64, mult: u32, shift: u32) -> Option<u64> {
    let whole = ticks.checked_shr(shift)?;
    let rest = ticks & ((1_u64 << shift) - 1);
    let mult = u64::from(mult);
    // The rest is below 2^shift, and shifts of kernels are at most 32.
    Some(whole.wrapping_mul(mult).wrapping_add(rest.wrapping_mul(mult) >> shift))
}

const _: () = assert!(at::TIME_SHIFT == at::COUNTER_WIDTH + 2);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    /// What the kernel keeps between two writes: where the event is, what it has counted.
    #[derive(Debug, Clone)]
    struct State {
        /// Counted so far.
        count: i64,
        /// Number of the counter; `None`: on none.
        counter: Option<u32>,
        /// Where the counter started when the event was put on it, below zero as a rule.
        start: i64,
        /// How far it has come since.
        advanced: u64,
        width: u32,
        enabled: u64,
        missed: u64,
    }

    impl State {
        fn double(&self, offset: usize) -> u64 {
            match offset {
                at::CAPABILITIES => at::CAN_READ_COUNTER,
                at::TIME_ENABLED => self.enabled,
                at::TIME_RUNNING => self.enabled - self.missed,
                at::OFFSET => (self.count - self.start) as u64,
                _ => 0,
            }
        }

        /// What is to be read.
        fn truth(&self) -> Option<PageReading> {
            self.counter?;
            let count = (self.count as u64).wrapping_add(self.advanced);
            Some(PageReading { count, missed_ns: self.missed, enabled_ns: None })
        }
    }

    /// A kernel that writes the page after so many of the reader's loads, again and again.
    struct Kernel {
        states: Vec<State>,
        every: usize,
        loads: Cell<usize>,
    }

    impl Kernel {
        /// Which state holds now, and whether the kernel is about to write the next.
        fn now(&self) -> (usize, bool) {
            let loads = self.loads.get();
            self.loads.set(loads + 1);
            let number = loads / self.every;
            let writing = loads % self.every == self.every - 1 && number + 1 < self.states.len();
            (number.min(self.states.len() - 1), writing)
        }

        fn state(&self) -> &State {
            &self.states[self.now().0]
        }
    }

    impl PageSource for Kernel {
        fn word(&self, offset: usize) -> u32 {
            if offset == at::LOCK {
                let (number, writing) = self.now();
                return 2 * number as u32 + u32::from(writing);
            }
            let state = self.state();
            match offset {
                at::INDEX => state.counter.map_or(0, |number| number + 1),
                at::COUNTER_WIDTH => state.width,
                _ => 0,
            }
        }

        fn double(&self, offset: usize) -> u64 {
            self.state().double(offset)
        }

        fn counter(&self, number: u32) -> u64 {
            let state = self.state();
            // Another event's counter, or one that was reset: anything.
            if state.counter != Some(number) {
                return 0xdead_beef_dead_beef;
            }
            let raw = (state.start as u64).wrapping_add(state.advanced);
            // The instruction shows nothing above the counter's width.
            if state.width == 64 { raw } else { raw & ((1 << state.width) - 1) }
        }

        fn ticks(&self) -> u64 {
            0
        }
    }

    fn states() -> impl Strategy<Value = Vec<State>> {
        let widths = prop::sample::select(vec![31_u32, 32, 40, 48, 63, 64]);
        let state = (
            any::<u32>(),
            prop::option::weighted(0.9, 0..32_u32),
            widths,
            0.0..1.0_f64,
            0..1_000_000_u64,
            0..1000_u64,
        );
        let state = state.prop_flat_map(|(count, counter, width, part, enabled, missed)| {
            // The kernel handles an overflow before half of the counter's range is used up.
            let half = 1_i64 << (width.min(62) - 1);
            let start = -((half as f64 * part) as i64);
            (0..half as u64).prop_map(move |advanced| State {
                count: i64::from(count),
                counter,
                start,
                advanced,
                width,
                enabled: enabled + missed,
                missed,
            })
        });
        prop::collection::vec(state, 1..6)
    }

    proptest! {
        /// However the kernel's writes fall between our loads, what comes out is what held at one moment.
        #[test]
        fn a_look_is_of_one_moment(states in states(), every in 1..20_usize, from in 0..40_usize) {
            let kernel = Kernel { states, every, loads: Cell::new(from) };
            let seen = read_page(&kernel);
            let truths: Vec<Option<PageReading>> = kernel.states.iter().map(State::truth).collect();
            prop_assert!(truths.contains(&seen), "{seen:?} is none of {truths:?}");
        }

        #[test]
        fn a_page_that_holds_still_is_read_at_once(states in states()) {
            let kernel = Kernel { states, every: usize::MAX, loads: Cell::new(0) };
            prop_assert_eq!(read_page(&kernel), kernel.states[0].truth());
            prop_assert!(kernel.loads.get() < 20);
        }

        #[test]
        fn narrow_counters_keep_their_sign(value in any::<i64>(), width in 1..=64_u32) {
            let value = value >> (64 - width);
            let raw = if width == 64 { value as u64 } else { value as u64 & ((1 << width) - 1) };
            prop_assert_eq!(extend(raw, width), Some(value as u64));
        }

        #[test]
        fn time_is_scaled_without_losing_bits(ticks: u64, mult: u32, shift in 0..=32_u32) {
            let exact = (u128::from(ticks) * u128::from(mult)) >> shift;
            prop_assert_eq!(scale(ticks, mult, shift), Some(exact as u64));
        }
    }

    #[test]
    fn a_page_that_never_holds_still_is_given_up() {
        struct Restless(Cell<u32>);
        impl PageSource for Restless {
            fn word(&self, offset: usize) -> u32 {
                self.0.set(self.0.get() + 2);
                if offset == at::LOCK { self.0.get() } else { 32 }
            }
            fn double(&self, _: usize) -> u64 {
                at::CAN_READ_COUNTER
            }
            fn counter(&self, _: u32) -> u64 {
                7
            }
            fn ticks(&self) -> u64 {
                0
            }
        }
        assert_eq!(read_page(&Restless(Cell::new(0))), None);
    }

    #[test]
    fn numbers_that_no_kernel_has_are_no_count() {
        assert_eq!((extend(1, 0), extend(1, 65)), (None, None));
        assert_eq!(scale(1, 1, 64), None);
    }

    /// A page as an x86 kernel writes it, with a counter of ticks of 32 bits that has wrapped.
    struct Timed;

    impl PageSource for Timed {
        fn word(&self, offset: usize) -> u32 {
            match offset {
                at::INDEX => 3,
                at::COUNTER_WIDTH => 48 | 10 << 16,
                at::TIME_MULT => 512,
                _ => 0,
            }
        }
        fn double(&self, offset: usize) -> u64 {
            match offset {
                at::CAPABILITIES => at::CAN_READ_COUNTER | at::CAN_READ_TIME | at::SHORT_TIME,
                at::TIME_ENABLED => 10_000,
                at::TIME_RUNNING => 9_000,
                // Half a nanosecond per tick: what the ticks were at the last write, taken off again.
                at::TIME_OFFSET => 0_u64.wrapping_sub(0xffff_ff00 / 2),
                at::TIME_CYCLES => 0xffff_ff00,
                at::TIME_MASK => 0xffff_ffff,
                at::OFFSET => 100,
                _ => 0,
            }
        }
        fn counter(&self, number: u32) -> u64 {
            assert_eq!(number, 2);
            5
        }
        fn ticks(&self) -> u64 {
            0x100
        }
    }

    #[test]
    fn time_goes_on_since_the_last_write() {
        let seen = read_page(&Timed).unwrap();
        // 512 ticks since, of half a nanosecond each.
        assert_eq!(seen, PageReading { count: 105, missed_ns: 1000, enabled_ns: Some(10_256) });
    }
}
