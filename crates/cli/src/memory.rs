//! How much memory a recording may make us take.

use pmuscope_console::exit::bad_input;
use pmuscope_machine::Machine;
use pmuscope_perfdata::reader::{DEFAULT_MEMORY, limit_memory};
use pmuscope_profile::available_threads;

/// Overrides what follows from the machine.
const VARIABLE: &str = "PMUSCOPE_MEMORY";

/// Bytes for each CPU that reads: each has its own tables.
const BYTES_OF_CPU: usize = 128 << 20;

/// Sets the limit: as the environment says, else a quarter of what this process could take, at most 1 GiB, or 128 MiB for
/// each CPU where that is more.
///
/// # Errors
/// If the environment does not have a size.
pub(crate) fn limit() -> anyhow::Result<()> {
    let bytes = match std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
        Some(text) => text.to_str().and_then(bytes).ok_or_else(|| {
            let message = format!("reading {VARIABLE} failed: it is no size. Try: {VARIABLE}=2G");
            bad_input(message)
        })?,
        None => {
            let quarter = Machine::host().spare_bytes().map(|spare| spare / 4);
            let quarter = quarter.and_then(|bytes| usize::try_from(bytes).ok());
            let most = DEFAULT_MEMORY.max(available_threads() * BYTES_OF_CPU);
            quarter.map_or(DEFAULT_MEMORY, |bytes| bytes.min(most))
        }
    };
    limit_memory(bytes);
    Ok(())
}

/// `2G`, `512M`, `65536K`, or bytes.
fn bytes(text: &str) -> Option<usize> {
    let (number, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: usize = number.parse().ok()?;
    number.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!((bytes("2G"), bytes("512m")), (Some(2 << 30), Some(512 << 20)));
        assert_eq!((bytes("64K"), bytes("4096")), (Some(64 << 10), Some(4096)));
        for text in ["", "G", "-1", "1T", "0", "1.5G", "99999999999G"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
