//! A name for an event that has none in its file.

use pmuscope_abi::{Attr, AttrFlags, event_type};

const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];
const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];
const CACHES: [&str; 7] =
    ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch-predictor", "node"];
const CACHE_OPS: [(&str, &str); 3] =
    [("loads", "load"), ("stores", "store"), ("prefetches", "prefetch")];

/// Name of what `attr` counts, in perf's vocabulary, with its modifiers.
pub(super) fn of(attr: &Attr) -> String {
    let low = (attr.config & 0xff) as usize;
    let table = match attr.event_type {
        event_type::HARDWARE => HARDWARE.get(low).map(|&name| name.to_owned()),
        event_type::SOFTWARE => {
            usize::try_from(attr.config).ok().and_then(|at| SOFTWARE.get(at)).map(|&n| n.to_owned())
        }
        event_type::TRACEPOINT => Some(format!("tracepoint:{}", attr.config)),
        event_type::HW_CACHE => cache(attr.config),
        event_type::RAW => Some(format!("r{:x}", attr.config)),
        event_type::BREAKPOINT => Some(format!("mem:{:#x}", attr.config1)),
        _ => None,
    };
    let name = table.unwrap_or_else(|| format!("pmu {}/{:#x}/", attr.event_type, attr.config));
    let modifiers = modifiers(attr);
    if modifiers.is_empty() { name } else { format!("{name}:{modifiers}") }
}

fn cache(config: u64) -> Option<String> {
    let byte = |shift: u32| (config >> shift & 0xff) as usize;
    let (cache, (plural, singular)) = (CACHES.get(byte(0))?, CACHE_OPS.get(byte(8))?);
    match byte(16) {
        0 => Some(format!("{cache}-{plural}")),
        1 => Some(format!("{cache}-{singular}-misses")),
        _ => None,
    }
}

fn modifiers(attr: &Attr) -> String {
    let off = |flag| attr.flags.contains(flag);
    let mut out = String::new();
    let (user, kernel) = (!off(AttrFlags::EXCLUDE_USER), !off(AttrFlags::EXCLUDE_KERNEL));
    if user != kernel {
        out.push(if user { 'u' } else { 'k' });
    }
    out.extend(std::iter::repeat_n('p', attr.precise_ip.into()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_perf_uses() {
        let name = |event_type, config, flags, precise_ip| {
            of(&Attr { event_type, config, flags, precise_ip, ..Attr::default() })
        };
        let none = AttrFlags::empty();
        assert_eq!(name(event_type::HARDWARE, 0, AttrFlags::EXCLUDE_KERNEL, 2), "cycles:upp");
        assert_eq!(name(event_type::SOFTWARE, 0, none, 0), "cpu-clock");
        assert_eq!(name(event_type::HW_CACHE, 0x1_0000, none, 0), "L1-dcache-load-misses");
        assert_eq!(name(event_type::HW_CACHE, 0x1_0100, none, 0), "L1-dcache-store-misses");
        assert_eq!(name(event_type::HW_CACHE, 0x0_0203, none, 0), "dTLB-prefetches");
        assert_eq!(name(event_type::RAW, 0x1c2, none, 0), "r1c2");
        assert_eq!(name(event_type::HARDWARE, 99, none, 0), "pmu 0/0x63/");
        assert_eq!(name(17, 5, none, 0), "pmu 17/0x5/");
    }
}
