//! Fields of the scheduler's tracepoints, as they stand in the raw data of their samples.
//!
//! A recording describes its tracepoints, as fields move between kernels. Where it does not, they are where 64-bit
//! kernels have them: after eight bytes that all tracepoints have.

use pmuscope_perfdata::reader::{Endian, TraceField, TraceValue, Tracepoint};

/// `common_flags` of a tracepoint: a hardware or software interrupt, or an NMI (`TRACE_FLAG_*` of
/// include/linux/trace_events.h).
const IN_INTERRUPT: i64 = 0x08 | 0x10 | 0x40;
/// Flag in `prev_state` of a thread that could run on (`TASK_REPORT_MAX`, Linux 4.14 and later).
const COULD_RUN_ON: i64 = 0x100;
/// The same of a thread that has ended (`EXIT_DEAD`, `EXIT_ZOMBIE`).
const ENDED: i64 = 0x10 | 0x20;
/// Text of the format for that flag.
const PREEMPTED_MARK: &str = "? \"+\"";

/// A field that is a number: its name, first byte, and number of bytes.
type NumberField = (&'static str, usize, usize);
const FLAGS: NumberField = ("common_flags", 2, 1);
/// Of `sched_waking` and `sched_wakeup`.
const WAKEE: NumberField = ("pid", 24, 4);
const PREVIOUS: NumberField = ("prev_pid", 24, 4);
const PREVIOUS_STATE: NumberField = ("prev_state", 32, 8);
const NEXT: NumberField = ("next_pid", 56, 4);

/// A wakeup: the thread that is woken, and whether an interrupt wakes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waking {
    pub(super) wakee: i32,
    pub(super) in_interrupt: bool,
}

/// A switch: the thread that leaves, whether it could run on or has ended, and the thread that comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SchedSwitch {
    /// Samples have -1 for a thread that is ending.
    pub(super) previous: i32,
    pub(super) preempted: bool,
    pub(super) ended: bool,
    pub(super) next: i32,
}

/// Where the fields of a tracepoint stand.
#[derive(Debug, Clone)]
pub(super) struct SchedFields {
    endian: Endian,
    flags: TraceField,
    wakee: TraceField,
    previous: TraceField,
    previous_state: TraceField,
    next: TraceField,
    could_run_on: i64,
}

impl SchedFields {
    /// As `tracepoint` describes them, or where 64-bit kernels have them.
    pub(super) fn new(tracepoint: Option<&Tracepoint>, endian: Endian) -> Self {
        let field = |(name, offset, size): NumberField| {
            let described = tracepoint.and_then(|tracepoint| tracepoint.field(name)).cloned();
            let signed = name != FLAGS.0;
            let name = name.to_owned();
            described.unwrap_or(TraceField { name, offset, size, signed, ..TraceField::default() })
        };
        Self {
            endian,
            flags: field(FLAGS),
            wakee: field(WAKEE),
            previous: field(PREVIOUS),
            previous_state: field(PREVIOUS_STATE),
            next: field(NEXT),
            could_run_on: tracepoint.and_then(could_run_on).unwrap_or(COULD_RUN_ON),
        }
    }

    fn number(&self, field: &TraceField, raw: &[u8]) -> Option<i64> {
        match field.value(raw, self.endian)? {
            TraceValue::Number(number) => Some(number),
            TraceValue::Text(_) | TraceValue::Bytes(_) => None,
        }
    }

    fn thread(&self, field: &TraceField, raw: &[u8]) -> Option<i32> {
        i32::try_from(self.number(field, raw)?).ok()
    }

    /// The fields of `sched_waking` or `sched_wakeup`.
    pub(super) fn waking(&self, raw: &[u8]) -> Option<Waking> {
        let in_interrupt = self.number(&self.flags, raw)? & IN_INTERRUPT != 0;
        Some(Waking { wakee: self.thread(&self.wakee, raw)?, in_interrupt })
    }

    /// The fields of `sched_switch`. A thread that yields its CPU is in state 0, without the flag.
    pub(super) fn switch(&self, raw: &[u8]) -> Option<SchedSwitch> {
        let state = self.number(&self.previous_state, raw)?;
        let preempted = state == 0 || state & self.could_run_on != 0;
        let (previous, next) = (self.thread(&self.previous, raw)?, self.thread(&self.next, raw)?);
        Some(SchedSwitch { previous, preempted, ended: state & ENDED != 0, next })
    }
}

/// The flag that a kernel before Linux 4.14 has for threads that could run on, a power of two: `REC->prev_state & 1024 ? "+"`.
/// Later ones have an expression there, whose value is [`COULD_RUN_ON`].
fn could_run_on(tracepoint: &Tracepoint) -> Option<i64> {
    let before = tracepoint.print.split_once(PREEMPTED_MARK)?.0;
    let number = before.rsplit_once('&')?.1.trim();
    match number.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waking_names_who_is_woken_and_whether_an_interrupt_did() {
        let little = SchedFields::new(None, Endian::Little);
        let big = SchedFields::new(None, Endian::Big);
        let waking = |in_interrupt| Some(Waking { wakee: 4711, in_interrupt });
        let mut raw = vec![0; 36];
        raw[2] = 0x01; // interrupts off, which a thread can do too
        raw[24..28].copy_from_slice(&4711_i32.to_le_bytes());
        assert_eq!(little.waking(&raw), waking(false));
        raw[2] = 0x09;
        assert_eq!(little.waking(&raw), waking(true));
        raw[24..28].copy_from_slice(&4711_i32.to_be_bytes());
        assert_eq!(big.waking(&raw), waking(true));
        assert_eq!(big.waking(&raw[..27]), None);
    }

    #[test]
    fn a_switch_has_the_state_and_the_next_thread() {
        let mut raw = vec![0; 64];
        raw[24..28].copy_from_slice(&11_i32.to_le_bytes());
        raw[56..60].copy_from_slice(&12_i32.to_le_bytes());
        let fields = SchedFields::new(None, Endian::Little);
        let states =
            [(0_i64, true, false), (0x100, true, false), (1, false, false), (0x80, false, false)];
        for (state, preempted, ended) in states.into_iter().chain([(0x10, false, true)]) {
            raw[32..40].copy_from_slice(&state.to_le_bytes());
            let switch = SchedSwitch { previous: 11, preempted, ended, next: 12 };
            assert_eq!(fields.switch(&raw), Some(switch), "{state:#x}");
        }
        assert_eq!(fields.switch(&raw[..59]), None);
    }

    #[test]
    fn fields_are_where_the_recording_says() {
        // A 32-bit kernel before 4.14.
        let field = |name: &str, offset| TraceField {
            name: name.into(),
            offset,
            size: 4,
            signed: true,
            ..TraceField::default()
        };
        let tracepoint = Tracepoint {
            fields: vec![field("prev_state", 32), field("next_pid", 52)],
            print: "\"%s\", REC->prev_state & (1024-1) ? \"S\" : \"R\", REC->prev_state & 1024 ? \"+\" : \"\"".into(),
            ..Tracepoint::default()
        };
        let fields = SchedFields::new(Some(&tracepoint), Endian::Little);
        let mut raw = vec![0; 60];
        raw[52..56].copy_from_slice(&9_i32.to_le_bytes());
        for (state, preempted) in [(0_i32, true), (1024, true), (0x100, false)] {
            raw[32..36].copy_from_slice(&state.to_le_bytes());
            let switch = fields.switch(&raw).unwrap();
            assert_eq!((switch.preempted, switch.next), (preempted, 9), "{state}");
        }
    }
}
