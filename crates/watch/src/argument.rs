//! Objects that have no name: on the heap or a stack, known by a call that gets their address.
//!
//! ```text
//!  $1+0x28/8:rw@queue_push     8 bytes, 0x28 behind where the first argument points, at the next call
//!   │   │   │ │      └ a function, or its file and line at its beginning
//!   │   │   │ └ access, as of other targets
//!   │   │   └ bytes          arguments are those that are passed in registers, 1 to 6
//!   └ which argument
//! ```
//! A program in the kernel reads the argument at the call, of whichever thread comes first; from then on the address
//! is watched as any other. What happens between the call and the arming (milliseconds) is not seen, nor does
//! anything tell when the object is gone and its memory is another's.

use std::time::Duration;

use pmuscope_counters::Kernel;
use pmuscope_machine::{Machine, MachineError};
use pmuscope_perfdata::watch::{Access, ValueKind};

use crate::points::{Opened, Point, PointScope};
use crate::program::{IS_SUPPORTED, Memory, ProgramPoint, load};
use crate::resolve::Watchpoint;
use crate::session::WatchError;
use crate::target::{Target, TargetError};

/// Arguments in registers, by both architectures' conventions (arm64 has eight).
pub const ARGUMENTS: u8 = 6;
/// How often one readings whether the call has come.
const LOOK: Duration = Duration::from_millis(2);

/// An object behind an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentTarget {
    /// As typed.
    pub text: String,
    /// Which argument, from 1.
    pub argument: u8,
    /// Bytes behind where it points.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// For what.
    pub access: Option<Access>,
    /// The call.
    pub call: Target,
}

/// A call that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The thread that made it.
    pub tid: u32,
    /// The argument.
    pub value: u64,
}

impl ArgumentTarget {
    /// Reads a target that begins with `$`; `None` for others.
    ///
    /// # Errors
    /// [`TargetError`], what is wrong and what to type.
    pub fn parse(text: &str) -> Option<Result<Self, TargetError>> {
        text.trim().strip_prefix('$').map(|rest| Self::read(text.trim(), rest))
    }

    fn read(text: &str, rest: &str) -> Result<Self, TargetError> {
        let wrong = |why| TargetError::Argument { text: text.to_owned(), why };
        let (object, call) = rest.split_once('@').ok_or(wrong("the call is missing"))?;
        let call = Target::parse(call)?;
        if call.access.is_some_and(|access| access != Access::Execute) {
            return Err(wrong("a call is executed, not read or written"));
        }
        let (object, access) = match object.split_once(':') {
            Some((object, letters)) => {
                let access = Access::of_letters(letters).filter(|it| *it != Access::Execute);
                (object, Some(access.ok_or(wrong("the access must be r, w or rw"))?))
            }
            None => (object, None),
        };
        let (place, bytes) =
            object.split_once('/').ok_or(wrong("the number of bytes is missing"))?;
        let (argument, offset) = place.split_once('+').unwrap_or((place, "0"));
        let argument = argument.parse().ok().filter(|number| (1..=ARGUMENTS).contains(number));
        Ok(Self {
            text: text.to_owned(),
            argument: argument.ok_or(wrong("arguments are 1 to 6"))?,
            offset: number(offset).ok_or(wrong("the offset is not a number"))?,
            bytes: number(bytes).filter(|n| *n > 0).ok_or(wrong("the length is not a number"))?,
            access,
            call,
        })
    }

    /// The object of a call, as a target by address.
    ///
    /// # Errors
    /// [`TargetError`] if that is no address.
    pub fn at(&self, call: Call) -> Result<Target, TargetError> {
        let access = self.access.unwrap_or(Access::Write).letters();
        let address = call.value.wrapping_add(self.offset);
        Target::parse(&format!("{address:#x}/{}:{access}", self.bytes))
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Waits until a thread of the processes, or one that they start, makes the call; `None` if it is `over` before.
/// `call` is watched for execution.
///
/// # Errors
/// [`WatchError`].
pub fn next_call(
    kernel: &dyn Kernel,
    machine: &Machine,
    pids: &[u32],
    call: &Watchpoint,
    argument: u8,
    begin: impl FnOnce(),
    mut over: impl FnMut() -> bool,
) -> Result<Option<Call>, WatchError> {
    if !IS_SUPPORTED {
        return Err(WatchError::Architecture);
    }
    let points: Vec<Point> = call.pieces.iter().map(|piece| point(piece.address)).collect();
    let memory = Memory::new(points.len())?;
    let numbers: Vec<usize> = (0..points.len()).collect();
    let programs = numbers
        .iter()
        .map(|&number| load(&memory, &watched(number, points[number].address, argument)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut opened = Opened::none(&points, &numbers);
    for &pid in pids {
        for tid in machine.threads(pid).map_err(|error| gone(&error))? {
            opened.add(kernel, &points, &programs, PointScope::Thread(tid))?;
        }
    }
    opened.arm(kernel)?;
    begin();
    let mut found = None;
    loop {
        memory.ring().drain(|record| {
            let half = |at: usize| Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
            let word = |at: usize| Some(u64::from_ne_bytes(*record.get(at..)?.first_chunk()?));
            let call = half(16).zip(word(32)).map(|(tid, value)| Call { tid, value });
            found = found.or(call);
        });
        if found.is_some() || over() {
            return Ok(found);
        }
        std::thread::sleep(LOOK);
    }
}

fn gone(error: &MachineError) -> WatchError {
    WatchError::Gone(error.to_string())
}

fn point(address: u64) -> Point {
    let access = Access::Execute;
    Point {
        target: 0,
        address,
        bytes: 0,
        access,
        in_kernel: false,
        is_shared: false,
        is_brief: false,
    }
}

fn watched(number: usize, address: u64, argument: u8) -> ProgramPoint {
    ProgramPoint {
        point: number as u32,
        address,
        bytes: None,
        argument: Some(argument),
        in_kernel: false,
        is_shared: false,
        kind: ValueKind::Pointer,
        when: None,
        when_changed: false,
        records: true,
        depth: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ArgumentTarget, String> {
        let parsed = ArgumentTarget::parse(text).expect("a target behind an argument");
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn an_object_is_said_by_argument_offset_and_length() {
        let target = parse("$2+0x28/8:rw@queue.c:118").unwrap();
        assert_eq!((target.argument, target.offset, target.bytes), (2, 0x28, 8));
        assert_eq!(
            (target.access, target.call.name.as_str()),
            (Some(Access::ReadWrite), "queue.c:118")
        );
        let call = Call { tid: 1, value: 0x1000 };
        assert_eq!(target.at(call).unwrap().text, "0x1028/8:rw");
        assert_eq!(parse("$1/4@push").unwrap().at(call).unwrap().text, "0x1000/4:w");
        assert_eq!(ArgumentTarget::parse("counter"), None);
    }

    #[test]
    fn what_is_missing_is_told() {
        for (text, why) in [
            ("$1/8", "the call is missing"),
            ("$1@push", "the number of bytes is missing"),
            ("$7/8@push", "arguments are 1 to 6"),
            ("$1+x/8@push", "the offset is not a number"),
            ("$1/8:x@push", "the access must be r, w or rw"),
            ("$1/8@push:w", "a call is executed"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why) && error.contains("Try: $1+0x28/8@queue_push"), "{error}");
        }
    }
}
