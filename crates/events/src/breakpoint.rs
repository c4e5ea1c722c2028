//! `mem:addr[/len][:rwx]`.

use pmuscope_abi::breakpoint::{EXECUTE, INSTRUCTION, READ, WRITE};
use pmuscope_abi::{Attr, event_type};

use crate::error::{Fault, Reason};
use crate::syntax::TextPiece;
use crate::terms::number;

/// Bytes watched where no length is given: what a debugger's watchpoint on an `int` covers.
const DATA_LENGTH: u64 = 4;
const ADDRESS: &str = "a numeric address (mem:0x1234); names are not resolved here";
const NOT_NULL: &str = "the address of a variable; nothing is mapped at 0. Try: pmuscope watch \
    NAME -- COMMAND, or nm PROGRAM for addresses";

/// The widest that the ABI can express.
const MAX_LENGTH: u64 = 8;

/// Reads and writes are watched unless `access` says otherwise.
pub(crate) fn attr(
    addr: TextPiece<'_>,
    len: Option<TextPiece<'_>>,
    access: Option<TextPiece<'_>>,
) -> Result<Attr, Fault> {
    if addr.text.is_empty() {
        return Err(addr.fault(Reason::Missing { what: "an address (mem:0x1234)" }));
    }
    let mut bp_type = 0;
    for letter in access.map_or("rw", |access| access.text).chars() {
        bp_type |= match letter {
            'r' => READ,
            'w' => WRITE,
            _ => EXECUTE,
        };
    }
    let address = number(addr).map_err(|_| addr.fault(Reason::BadValue { expected: ADDRESS }))?;
    if address == 0 {
        return Err(addr.fault(Reason::BadValue { expected: NOT_NULL }));
    }
    let default = if bp_type == EXECUTE { INSTRUCTION } else { DATA_LENGTH };
    let bp_len = match len {
        None => default,
        Some(len) => number(len)
            .ok()
            .filter(|bytes| (1..=MAX_LENGTH).contains(bytes))
            .ok_or_else(|| len.fault(Reason::BreakpointLength))?,
    };
    Ok(Attr {
        event_type: event_type::BREAKPOINT,
        bp_type,
        config1: address,
        config2: bp_len,
        ..Attr::default()
    })
}
