//! Raw codes that mean the same on every CPU of a kind, by which formulas know events that were asked for as `r0011`.
//!
//! Sources: Arm Architecture Reference Manual, "Common event numbers" of `PMUv3`, and the kernel's
//! `armv8_pmuv3_perf_map`; Intel SDM volume 3, "Architectural performance monitoring events"; AMD64 Architecture
//! Programmer's Manual, and the kernel's `amd_perfmon_event_map`.

const ARM: [(u64, &str); 8] = [
    (0x11, "cycles"),
    (0x08, "instructions"),
    (0x04, "cache-references"),
    (0x03, "cache-misses"),
    (0x21, "branches"),
    (0x10, "branch-misses"),
    (0x23, "stalled-cycles-frontend"),
    (0x24, "stalled-cycles-backend"),
];
const INTEL: [(u64, &str); 6] = [
    (0x003c, "cycles"),
    (0x00c0, "instructions"),
    (0x4f2e, "cache-references"),
    (0x412e, "cache-misses"),
    (0x00c4, "branches"),
    (0x00c5, "branch-misses"),
];
const AMD: [(u64, &str); 4] =
    [(0x0076, "cycles"), (0x00c0, "instructions"), (0x00c2, "branches"), (0x00c3, "branch-misses")];

/// The name of the event that a raw code counts, by the machine name of uname(1) and the model of the CPU as
/// recordings have them; `None` where it depends on more than these.
#[must_use]
pub fn name_of_code(arch: Option<&str>, cpu: Option<&str>, code: u64) -> Option<&'static str> {
    let is_of = |vendor: &str| cpu.is_some_and(|cpu| cpu.contains(vendor));
    let codes: &[(u64, &str)] = match arch? {
        "aarch64" | "arm64" => &ARM,
        "x86_64" | "i686" if is_of("Intel") => &INTEL,
        "x86_64" | "i686" if is_of("AMD") => &AMD,
        _ => return None,
    };
    codes.iter().find(|(of, _)| *of == code).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_the_name_that_its_kind_of_cpu_gives_it() {
        let (intel, amd) = (Some("Intel(R) Xeon(R) Processor"), Some("AMD EPYC 9654"));
        assert_eq!(name_of_code(Some("aarch64"), None, 0x11), Some("cycles"));
        assert_eq!(name_of_code(Some("aarch64"), None, 0x08), Some("instructions"));
        assert_eq!(name_of_code(Some("x86_64"), intel, 0x3c), Some("cycles"));
        assert_eq!(name_of_code(Some("x86_64"), amd, 0x76), Some("cycles"));
        // Another thing elsewhere, with a filter, or on a CPU that is not known.
        assert_eq!(name_of_code(Some("x86_64"), amd, 0x3c), None);
        assert_eq!(name_of_code(Some("x86_64"), intel, 0x0100_003c), None);
        assert_eq!(name_of_code(Some("x86_64"), None, 0x3c), None);
        assert_eq!(name_of_code(None, intel, 0x3c), None);
    }
}
