//! What all processes did, from their records.

use pmuscope_machine::child::Usage;

use super::control::times::quantile;
use super::control::{Control, Thread};
use super::loops::Width;
use super::options::{BATCH, Options, Order};
use crate::error::WorkloadError;
use crate::facts::{LoadTimes, MemoryFacts, MemoryProcess, MemoryThread, WorkloadFacts};

/// Facts from a control file whose threads have all ended. `usage`: of each process, its start and end included.
pub(super) fn facts(
    control: &Control,
    options: &Options,
    usage: &[Usage],
    emulated: bool,
) -> Result<WorkloadFacts, WorkloadError> {
    let read = |error| WorkloadError::system("read the control file", error);
    let threads = control.threads().map_err(read)?;
    let times = control.times().map_err(read)?;
    let perturbations = control.perturbations().map_err(read)?;
    let start = threads.iter().filter_map(|thread| thread.start_ns).min().unwrap_or(0);
    let end = threads.iter().filter_map(|thread| thread.end_ns).max().unwrap_or(start);
    let time_s = seconds(end - start);
    let mut facts = WorkloadFacts::new(super::NAME, Some(options.tasks()), time_s, &total(usage));
    let by_thread: Vec<MemoryThread> =
        threads.iter().map(|thread| of_thread(thread, start, emulated)).collect();
    let bytes = threads.iter().map(|thread| thread.bytes).sum();
    facts.memory = Some(MemoryFacts {
        processes: options.processes,
        threads: options.threads,
        global_bytes: options.sizes.global,
        process_bytes: options.sizes.process,
        locked_bytes: options.sizes.locked,
        thread_bytes: options.sizes.thread,
        access: options.access.name().to_owned(),
        order: options.order.name().to_owned(),
        policy: policy(options),
        vector_bits: vector_bits(options),
        emulated,
        rounds: threads.iter().map(|thread| thread.rounds).sum(),
        bytes,
        gb_per_s: per_s(bytes, end - start, emulated),
        spread: spread(&by_thread),
        ns_per_load: ns_per_load(&threads, emulated),
        load_times: times.filter(|_| !emulated).and_then(|times| load_times(&times)),
        perturbations,
        by_process: by_process(&threads, options, usage),
        by_thread,
    });
    Ok(facts)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

/// What all processes used together; the peak is that of the largest.
fn total(usage: &[Usage]) -> Usage {
    usage.iter().fold(Usage::default(), |sum, one| Usage {
        user_s: sum.user_s + one.user_s,
        system_s: sum.system_s + one.system_s,
        max_rss_bytes: sum.max_rss_bytes.max(one.max_rss_bytes),
        minor_faults: sum.minor_faults + one.minor_faults,
        major_faults: sum.major_faults + one.major_faults,
    })
}

fn policy(options: &Options) -> String {
    if options.memory_nodes.is_empty() {
        return options.policy.to_string();
    }
    let nodes: Vec<String> = options.memory_nodes.iter().map(ToString::to_string).collect();
    format!("bind by task: {}", nodes.join(" "))
}

/// Bits of the vectors, where there are some.
fn vector_bits(options: &Options) -> Option<u64> {
    use super::options::Access;
    let is_swept = !matches!(options.order, Order::Random | Order::Chase);
    (is_swept && options.access != Access::Zero).then(|| Width::of_this_cpu().bits())
}

/// 10^9 bytes in a second; `None` of an emulator's seconds, and of none.
fn per_s(bytes: u64, ns: u64, emulated: bool) -> Option<f64> {
    (!emulated && ns > 0).then(|| bytes as f64 / ns as f64)
}

fn of_thread(thread: &Thread, first_start: u64, emulated: bool) -> MemoryThread {
    let start = thread.start_ns.unwrap_or(first_start);
    let end = thread.end_ns.unwrap_or(start);
    MemoryThread {
        process: thread.process,
        thread: thread.index,
        tid: thread.tid,
        cpu: thread.cpu,
        rounds: thread.rounds,
        bytes: thread.bytes,
        start_ns: start - first_start,
        end_ns: end - first_start,
        gb_per_s: per_s(thread.bytes, end - start, emulated),
        user_s: seconds(thread.user_ns),
        system_s: seconds(thread.system_ns),
        minor_faults: thread.minor_faults,
        major_faults: thread.major_faults,
    }
}

/// The fastest thread's speed less the slowest's, as a share of the fastest's; `None` for one thread.
fn spread(threads: &[MemoryThread]) -> Option<f64> {
    let speeds: Option<Vec<f64>> = threads.iter().map(|thread| thread.gb_per_s).collect();
    let speeds = speeds.filter(|speeds| speeds.len() > 1)?;
    let (least, most) = speeds.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), &speed| {
        (least.min(speed), most.max(speed))
    });
    (most > 0.0).then(|| (most - least) / most)
}

fn ns_per_load(threads: &[Thread], emulated: bool) -> Option<f64> {
    let loads: u64 = threads.iter().map(|thread| thread.loads).sum();
    let ns: u64 = threads
        .iter()
        .filter_map(|thread| Some(thread.end_ns?.saturating_sub(thread.start_ns?)))
        .sum();
    (!emulated && loads > 0).then(|| ns as f64 / loads as f64)
}

fn load_times(counts: &[u64]) -> Option<LoadTimes> {
    let at = |share: f64| quantile(counts, share).map(|ns| ns / BATCH as f64);
    Some(LoadTimes {
        batch: BATCH,
        batches: counts.iter().sum(),
        p50_ns: at(0.5)?,
        p90_ns: at(0.9)?,
        p99_ns: at(0.99)?,
        p999_ns: at(0.999)?,
        max_ns: at(1.0)?,
    })
}

fn by_process(threads: &[Thread], options: &Options, usage: &[Usage]) -> Vec<MemoryProcess> {
    let of = |(process, (threads, usage)): (usize, (&[Thread], &Usage))| {
        let reduce = threads.first().filter(|_| options.reduce);
        MemoryProcess {
            process,
            pid: threads.first().map_or(0, |thread| thread.pid),
            user_s: usage.user_s,
            system_s: usage.system_s,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            reduce_bytes: reduce.map(|thread| thread.reduce_bytes),
            reduce_s: reduce.map(|thread| seconds(thread.reduce_ns)),
        }
    };
    threads.chunks(options.threads).zip(usage).enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(gb_per_s: Option<f64>) -> MemoryThread {
        MemoryThread { gb_per_s, ..of_thread(&Thread::default(), 0, true) }
    }

    #[test]
    fn spread_is_a_share_of_the_fastest() {
        let of = |speeds: &[f64]| {
            spread(&speeds.iter().map(|&speed| thread(Some(speed))).collect::<Vec<_>>())
        };
        assert_eq!(of(&[8.0, 10.0, 9.0]), Some(0.2));
        assert_eq!(of(&[8.0]), None);
        assert_eq!(spread(&[thread(None), thread(None)]), None);
    }

    #[test]
    fn speed_is_bytes_by_nanoseconds_and_an_emulator_has_none() {
        let one = Thread {
            start_ns: Some(1_000),
            end_ns: Some(2_000),
            bytes: 12_000,
            loads: 10,
            ..Thread::default()
        };
        let facts = of_thread(&one, 500, false);
        assert_eq!((facts.start_ns, facts.end_ns, facts.gb_per_s), (500, 1_500, Some(12.0)));
        assert_eq!(of_thread(&one, 500, true).gb_per_s, None);
        assert_eq!(ns_per_load(&[one, one], false), Some(100.0));
        assert_eq!(ns_per_load(&[one], true), None);
        assert_eq!(ns_per_load(&[Thread::default()], false), None);
    }
}
