//! Terms that any event takes: `period=`, `freq=`, `name=`, `call-graph=`, …

use crate::branch::parse_branch_filter;
use crate::error::{Fault, Reason};
use crate::event::{CallGraph, Event, Sampling};
use crate::syntax::{Term, TextPiece};

/// Terms of [`apply`], as they are offered in messages.
pub(crate) const NAMES: [&str; 12] = [
    "name",
    "period",
    "freq",
    "time",
    "call-graph",
    "stack-size",
    "max-stack",
    "branch_type",
    "inherit",
    "no-inherit",
    "alt-period",
    "alt-period-jitter",
];

/// The kernel's limit for a copy of the user stack, in bytes.
const MAX_STACK_SIZE: u64 = 65_528;

/// Stores `term` in `event`; false if it is none of these terms.
pub(crate) fn apply(event: &mut Event, term: &Term<'_>) -> Result<bool, Fault> {
    match term.name.text {
        "name" => event.name = value(term, "my-event")?.text.to_owned(),
        "period" => sample(event, term, Sampling::Period(at_least_1(term, "1000003")?))?,
        "freq" => sample(event, term, Sampling::Frequency(at_least_1(term, "1000")?))?,
        "alt-period" => event.alternate_period = Some(at_least_1(term, "300")?),
        "alt-period-jitter" => event.alternate_jitter = Some(number(value(term, "1")?)?),
        "time" => event.time = Some(flag(term)?),
        "inherit" => event.inherit = Some(flag(term)?),
        "no-inherit" => event.inherit = Some(!flag(term)?),
        "call-graph" => event.call_graph = Some(call_graph(value(term, "fp")?)?),
        "stack-size" => event.stack_size = Some(stack_size(value(term, "8192")?)?),
        "max-stack" => {
            let depth = value(term, "127")?;
            event.max_stack = Some(number(depth)?.try_into().map_err(|_| {
                depth.fault(Reason::BadValue { expected: "a number of frames up to 65535" })
            })?);
        }
        "branch_type" => {
            let filter = value(term, "any+u")?;
            let filter = parse_branch_filter(filter.text)
                .map_err(|error| filter.fault(Reason::BranchFilter(error)))?;
            event.branch_type = Some(filter);
        }
        _ => return elsewhere(term),
    }
    Ok(true)
}

/// perf's terms for what is decided for a whole recording here.
fn elsewhere(term: &Term<'_>) -> Result<bool, Fault> {
    let why = match term.name.text {
        "overwrite" | "no-overwrite" => {
            "overwrite mode applies to the whole recording. Try: --overwrite"
        }
        "percore" => {
            "summing over the threads of a core applies to all events. Try: stat -a --per-core"
        }
        "nr" => "stopping after a number of samples is not supported. Try: without it",
        "aux-output" | "aux-sample-size" | "aux-action" => {
            "AUX area tracing (Intel PT, Arm CoreSight) is not supported. Try: without it"
        }
        _ => return Ok(false),
    };
    Err(term.name.fault(Reason::NotHere { why }))
}

/// The value of a term that must have one.
pub(crate) fn value<'t>(term: &Term<'t>, example: &'static str) -> Result<TextPiece<'t>, Fault> {
    let name = || term.name.text.to_owned();
    term.value.ok_or_else(|| term.name.fault(Reason::NeedsValue { name: name(), example }))
}

/// Decimal, or hexadecimal after `0x`.
pub(crate) fn number(piece: TextPiece<'_>) -> Result<u64, Fault> {
    let text = piece.text;
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    parse(hex.unwrap_or(text), if hex.is_some() { 16 } else { 10 }).ok_or_else(|| {
        piece.fault(Reason::BadValue { expected: "a number below 2^64 (123 or 0x7b)" })
    })
}

/// Digits only: the standard library also takes a sign.
pub(crate) fn parse(digits: &str, radix: u32) -> Option<u64> {
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, radix).ok() }
}

fn at_least_1(term: &Term<'_>, example: &'static str) -> Result<u64, Fault> {
    let piece = value(term, example)?;
    match number(piece)? {
        0 => Err(piece.fault(Reason::BadValue { expected: "a number of at least 1" })),
        n => Ok(n),
    }
}

fn flag(term: &Term<'_>) -> Result<bool, Fault> {
    let Some(value) = term.value else { return Ok(true) };
    match value.text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(value.fault(Reason::BadValue { expected: "0 or 1" })),
    }
}

fn sample(event: &mut Event, term: &Term<'_>, sampling: Sampling) -> Result<(), Fault> {
    let differs = |old| std::mem::discriminant(&old) != std::mem::discriminant(&sampling);
    if event.sampling.is_some_and(differs) {
        return Err(term.name.fault(Reason::Conflict { first: "period=", second: "freq=" }));
    }
    event.sampling = Some(sampling);
    Ok(())
}

fn call_graph(value: TextPiece<'_>) -> Result<CallGraph, Fault> {
    Ok(match value.text {
        "no" => CallGraph::None,
        "fp" => CallGraph::FramePointer,
        "dwarf" => CallGraph::Dwarf,
        "lbr" => CallGraph::Lbr,
        _ => return Err(value.fault(Reason::BadValue { expected: "fp, dwarf, lbr or no" })),
    })
}

fn stack_size(value: TextPiece<'_>) -> Result<u32, Fault> {
    let bytes = number(value)?;
    let expected = "a number of bytes from 8 to 65528, a multiple of 8";
    if !(8..=MAX_STACK_SIZE).contains(&bytes) || bytes % 8 != 0 {
        return Err(value.fault(Reason::BadValue { expected }));
    }
    u32::try_from(bytes).map_err(|_| value.fault(Reason::BadValue { expected }))
}
