//! Sizes as perf writes them.

/// Bytes of "512K", "4M", "1G", "65536B"; `None` for a plain number, which the caller interprets.
pub(in crate::commands) fn with_unit(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let factor: u64 = match unit {
        "B" | "b" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Bytes of a size with a unit, or a plain number of bytes.
pub(in crate::commands) fn bytes(flag: &str, text: &str) -> Result<u64, String> {
    with_unit(text).or_else(|| text.parse().ok()).filter(|bytes| *bytes > 0).ok_or_else(|| {
        format!("{flag} {text}: not a size. Try: a number with B, K, M or G, as in 64M")
    })
}

/// Bytes of a ring: a plain number counts pages, and everything is rounded up to a power of two, both
/// as perf does it.
pub(super) fn ring(text: &str, page: u64) -> Result<u64, String> {
    let error =
        || format!("-m {text}: not a ring size. Try: a number of pages, or a size such as 512K");
    let bytes = match with_unit(text) {
        Some(bytes) => bytes,
        None => {
            text.parse::<u64>().ok().and_then(|pages| pages.checked_mul(page)).ok_or_else(error)?
        }
    };
    if bytes == 0 || bytes > 1 << 40 {
        return Err(error());
    }
    Ok(bytes.max(page).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_units_round_up_to_powers_of_two() {
        assert_eq!(ring("128", 4096), Ok(512 << 10));
        assert_eq!(ring("3", 4096), Ok(16 << 10));
        assert_eq!(ring("500K", 4096), Ok(512 << 10));
        assert_eq!(ring("1B", 4096), Ok(4096));
        for wrong in ["", "K", "-1", "1.5M", "0", "99999999999G", "x"] {
            assert!(ring(wrong, 4096).unwrap_err().starts_with("-m "), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_bytes_without_a_unit() {
        assert_eq!(bytes("--max-size", "64M"), Ok(64 << 20));
        assert_eq!(bytes("--max-size", "1000"), Ok(1000));
        assert!(bytes("--max-size", "ü").is_err());
    }
}
