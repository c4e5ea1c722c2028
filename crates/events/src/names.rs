//! The names that mean the same on every machine: hardware, software and cache events.
//!
//! The names are those of `perf-list(1)`, the numbers those of `include/uapi/linux/perf_event.h`.

use pmuscope_abi::{hardware as hw, software as sw};

/// A name, its synonym, and its `attr.config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generic {
    /// The name to show.
    pub name: &'static str,
    /// Another name for the same.
    pub synonym: Option<&'static str>,
    /// `attr.config`.
    pub config: u64,
}

const fn generic(name: &'static str, synonym: Option<&'static str>, config: u64) -> Generic {
    Generic { name, synonym, config }
}

/// Events of [`pmuscope_abi::event_type::HARDWARE`].
pub const HARDWARE: [Generic; 10] = [
    generic("cycles", Some("cpu-cycles"), hw::CPU_CYCLES),
    generic("instructions", None, hw::INSTRUCTIONS),
    generic("cache-references", None, hw::CACHE_REFERENCES),
    generic("cache-misses", None, hw::CACHE_MISSES),
    generic("branches", Some("branch-instructions"), hw::BRANCH_INSTRUCTIONS),
    generic("branch-misses", None, hw::BRANCH_MISSES),
    generic("bus-cycles", None, hw::BUS_CYCLES),
    generic("stalled-cycles-frontend", Some("idle-cycles-frontend"), hw::STALLED_CYCLES_FRONTEND),
    generic("stalled-cycles-backend", Some("idle-cycles-backend"), hw::STALLED_CYCLES_BACKEND),
    generic("ref-cycles", None, hw::REF_CPU_CYCLES),
];

/// Events of [`pmuscope_abi::event_type::SOFTWARE`].
pub const SOFTWARE: [Generic; 12] = [
    generic("cpu-clock", None, sw::CPU_CLOCK),
    generic("task-clock", None, sw::TASK_CLOCK),
    generic("page-faults", Some("faults"), sw::PAGE_FAULTS),
    generic("context-switches", Some("cs"), sw::CONTEXT_SWITCHES),
    generic("cpu-migrations", Some("migrations"), sw::CPU_MIGRATIONS),
    generic("minor-faults", None, sw::PAGE_FAULTS_MIN),
    generic("major-faults", None, sw::PAGE_FAULTS_MAJ),
    generic("alignment-faults", None, sw::ALIGNMENT_FAULTS),
    generic("emulation-faults", None, sw::EMULATION_FAULTS),
    generic("dummy", None, sw::DUMMY),
    generic("bpf-output", None, sw::BPF_OUTPUT),
    generic("cgroup-switches", None, sw::CGROUP_SWITCHES),
];

/// A cache of [`pmuscope_abi::event_type::HW_CACHE`]. All names are accepted in any case, the first is
/// shown.
struct CacheNames {
    names: &'static [&'static str],
    /// Indices into [`OPERATIONS`]: what CPUs count at all.
    operations: &'static [usize],
}

/// In the order of `PERF_COUNT_HW_CACHE_*`.
const CACHES: [CacheNames; 7] = [
    CacheNames { names: &["L1-dcache", "l1-d", "l1d", "L1-data"], operations: &[0, 1, 2] },
    CacheNames { names: &["L1-icache", "l1-i", "l1i", "L1-instruction"], operations: &[0, 2] },
    CacheNames { names: &["LLC", "L2"], operations: &[0, 1, 2] },
    CacheNames { names: &["dTLB", "d-tlb", "Data-TLB"], operations: &[0, 1, 2] },
    CacheNames { names: &["iTLB", "i-tlb", "Instruction-TLB"], operations: &[0] },
    CacheNames { names: &["branch", "branches", "bpu", "btb", "bpc"], operations: &[0] },
    CacheNames { names: &["node"], operations: &[0, 1, 2] },
];

/// In the order of `PERF_COUNT_HW_CACHE_OP_*`: the name in `X-load-misses`, in `X-loads`, and others.
const OPERATIONS: [&[&str]; 3] = [
    &["load", "loads", "read"],
    &["store", "stores", "write"],
    &["prefetch", "prefetches", "speculative-read", "speculative-load"],
];

/// In the order of `PERF_COUNT_HW_CACHE_RESULT_*`.
const RESULTS: [&[&str]; 2] = [&["refs", "Reference", "ops", "access"], &["misses", "miss"]];

/// A cache that no CPU counts this way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchOperation {
    /// The cache.
    pub cache: &'static str,
    /// What it has.
    pub operations: Vec<&'static str>,
}

/// `attr.config` of a hardware event.
#[must_use]
pub fn hardware(name: &str) -> Option<u64> {
    find(&HARDWARE, name)
}

/// `attr.config` of a software event.
#[must_use]
pub fn software(name: &str) -> Option<u64> {
    find(&SOFTWARE, name)
}

/// Why perf's name `name` is no event of the kernel, if it is such a name.
pub(crate) fn not_counted(name: &str) -> Option<&'static str> {
    match name {
        "duration_time" | "user_time" | "system_time" => {
            Some("not a kernel event: perf measures this itself. Try: task-clock")
        }
        _ => None,
    }
}

fn find(table: &[Generic], name: &str) -> Option<u64> {
    let is_it = |generic: &&Generic| generic.name == name || generic.synonym == Some(name);
    table.iter().find(is_it).map(|generic| generic.config)
}

/// `attr.config` of a cache event, `None` if the name is none: a cache, then an operation (read if it
/// is left out) and a result (access if it is left out).
///
/// # Errors
/// [`NoSuchOperation`] for a well-formed name that means nothing, as `iTLB-stores`.
#[must_use]
pub fn cache(name: &str) -> Option<Result<u64, NoSuchOperation>> {
    CACHES.iter().enumerate().find_map(|(number, cache)| {
        let (operation, result) =
            cache.names.iter().find_map(|known| access(strip_word(name, known)?))?;
        if cache.operations.contains(&operation) {
            return Some(Ok((number | operation << 8 | result << 16) as u64));
        }
        let operations = cache.operations.iter().map(|&o| OPERATIONS[o][1]).collect();
        Some(Err(NoSuchOperation { cache: cache.names[0], operations }))
    })
}

/// Operation and result from what follows the cache.
fn access(rest: &str) -> Option<(usize, usize)> {
    if rest.is_empty() {
        return Some((0, 0));
    }
    if let Some(result) = whole(&RESULTS, rest) {
        return Some((0, result));
    }
    OPERATIONS.iter().enumerate().find_map(|(operation, words)| {
        words.iter().find_map(|word| {
            let rest = strip_word(rest, word)?;
            let result = if rest.is_empty() { Some(0) } else { whole(&RESULTS, rest) };
            Some((operation, result?))
        })
    })
}

/// Index of the entry that has `text` among its words.
fn whole(table: &[&[&str]], text: &str) -> Option<usize> {
    table.iter().position(|words| words.iter().any(|word| word.eq_ignore_ascii_case(text)))
}

/// What follows `word` and a dash; empty if nothing does.
fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    let rest = text.get(word.len()..)?;
    if !head.eq_ignore_ascii_case(word) {
        return None;
    }
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('-').filter(|r| !r.is_empty()) }
}

/// The names of all cache events, in the form that is shown: `L1-dcache-loads`,
/// `L1-dcache-load-misses`, …
pub fn cache_names() -> impl Iterator<Item = String> {
    CACHES.iter().flat_map(|cache| {
        cache.operations.iter().flat_map(|&operation| {
            let words = OPERATIONS[operation];
            [
                format!("{}-{}", cache.names[0], words[1]),
                format!("{}-{}-misses", cache.names[0], words[0]),
            ]
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str) -> Option<u64> {
        cache(name).and_then(Result::ok)
    }

    #[test]
    fn cache_names_follow_the_grammar() {
        for (name, expected) in [
            ("L1-dcache-load-misses", 0x1_0000),
            ("L1-dcache-loads", 0),
            ("L1-dcache-misses", 0x1_0000),
            ("l1d-write-miss", 0x1_0100),
            ("L1-icache-prefetches", 0x201),
            ("LLC-loads", 2),
            ("LLC", 2),
            ("LLC-speculative-read-misses", 0x1_0202),
            ("llc-prefetch-refs", 0x202),
            ("dTLB-store-misses", 0x1_0103),
            ("iTLB-load-misses", 0x1_0004),
            ("branch-loads", 5),
            ("branch-load-misses", 0x1_0005),
            ("node-stores", 0x106),
        ] {
            assert_eq!(config(name), Some(expected), "{name}");
        }
        for name in
            ["", "-", "LLC-", "LLC-loads-", "LLC-loads-misses-misses", "LLCx", "L3-loads", "LLC-ä"]
        {
            assert_eq!(cache(name), None, "{name}");
        }
    }

    #[test]
    fn what_no_cpu_counts_is_told_apart_from_no_name() {
        let error = cache("iTLB-stores").unwrap().unwrap_err();
        assert_eq!(error, NoSuchOperation { cache: "iTLB", operations: vec!["loads"] });
    }

    #[test]
    fn every_listed_cache_name_is_found_and_unlike_the_others() {
        let mut seen: Vec<u64> = cache_names().map(|name| config(&name).unwrap()).collect();
        assert_eq!(seen.len(), 2 * (3 + 2 + 3 + 3 + 1 + 1 + 3));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 32);
    }

    #[test]
    fn synonyms() {
        assert_eq!(hardware("cpu-cycles"), hardware("cycles"));
        assert_eq!(software("cs"), Some(3));
        assert_eq!(hardware("cs"), None);
    }
}
