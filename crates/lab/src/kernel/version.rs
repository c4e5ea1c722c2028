//! Releases of kernels: which is meant, which is newer.

use std::cmp::Ordering;

/// Whether `release` is what `wanted` means: itself, or a beginning that ends where a part ends. `6.1`
/// is `6.1.0-53-cloud-amd64` and not `6.12.117+deb12-cloud-amd64`.
pub(super) fn is_meant(release: &str, wanted: &str) -> bool {
    let wanted = wanted.strip_prefix("linux-image-").unwrap_or(wanted);
    let wanted = wanted.strip_suffix("-unsigned").unwrap_or(wanted);
    match release.strip_prefix(wanted) {
        Some(rest) => rest.is_empty() || rest.starts_with(['.', '-', '+', '~']),
        None => false,
    }
}

/// Older before newer: numbers by value, everything else as text.
pub(super) fn order(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let (x, y) = (digits(a), digits(b));
        if x > 0 && y > 0 {
            // More digits than any number has compare as text.
            let number = |s: &str| s.parse::<u64>().unwrap_or(u64::MAX);
            match number(&a[..x]).cmp(&number(&b[..y])) {
                Ordering::Equal => (a, b) = (&a[x..], &b[y..]),
                other => return other,
            }
            continue;
        }
        match (a.chars().next(), b.chars().next()) {
            (Some(c), Some(d)) if c == d => (a, b) = (&a[c.len_utf8()..], &b[d.len_utf8()..]),
            (c, d) => return c.cmp(&d),
        }
    }
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_mean_whole_parts() {
        let release = "6.1.0-53-cloud-amd64";
        for wanted in ["6.1", "6.1.0-53", release, "linux-image-6.1.0-53-cloud-amd64-unsigned"] {
            assert!(is_meant(release, wanted), "{wanted}");
        }
        assert!(!is_meant("6.12.117+deb12-cloud-amd64", "6.1"));
        assert!(is_meant("6.12.117+deb12-cloud-amd64", "6.12.117"));
        assert!(!is_meant(release, "6.1.0-5"));
    }

    #[test]
    fn numbers_count_by_value() {
        let mut releases = ["6.1.0-53", "6.12.9", "6.1.0-9", "6.12.117", "6.1.0-53-cloud"];
        releases.sort_by(|a, b| order(a, b));
        assert_eq!(releases, ["6.1.0-9", "6.1.0-53", "6.1.0-53-cloud", "6.12.9", "6.12.117"]);
    }
}
