//! Events by service: those of the cgroup that each service has, for some seconds.
//!
//! ```text
//!  /proc/PID/cgroup ─► cgroups of services ─► the busiest, so that descriptors have a bound
//!                                               │ one thread each: stat -G, all until the same moment
//!                                               ▼
//!  events: of software, all the time      count, enabled, running by CPU ─► sums by service ─► rows
//!          of hardware, those of one metric, another one each time
//! ```
//! A descriptor of a cgroup is enabled only while a task of the cgroup is on its CPU (`perf_cgroup_event_time` in the
//! kernel's `kernel/events/core.c`), so the time that it was enabled is the CPU time of the cgroup.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmuscope_abi::AttrFlags;
use pmuscope_counters::Host;
use pmuscope_dataset::{COUNTS_EVENT, CountRow, ImportOrigin, Rows, TaskIdentity, Timestamp};
use pmuscope_events::metrics::Metrics;
use pmuscope_events::{Event, Group, MachineCatalog, parse};
use pmuscope_machine::{Machine, Target};
use pmuscope_measure::counting::{
    CommandOutput, Counted, Counting, OpenFailure, Options, RepeatedCount, Signal,
};
use pmuscope_recorder::Deadline;
use pmuscope_text::number;

use crate::config::CountsConfig;
use crate::error::MeasurementError;
use crate::hardware::metric_sets;
use crate::measurement::{MeasurementText, Scene};
use crate::span::{MeasuredSpan, MeasuredWhat, now_ns};

/// Events of software, which take no counter.
const SOFTWARE: &str = "{page-faults,context-switches,cpu-migrations}";
/// The hardware event that is counted with those of each metric.
const LEADER: &str = "cycles:u";
/// The groups of metrics whose events are counted.
const METRICS: [&str; 4] = ["basic", "branches", "caches", "tlb"];
/// Descriptors at most: each is a system call, and an interrupt of its CPU.
const MOST_DESCRIPTORS: usize = 1 << 16;
/// How long CPU time is compared, where there are more cgroups than are counted.
const COMPARE: Duration = Duration::from_secs(1);

/// Counts, and writes the sums of services.
pub(crate) fn measure(
    config: &CountsConfig,
    scene: &Scene<'_>,
) -> Result<MeasurementText, MeasurementError> {
    let mut services = scene.services();
    services.read_new();
    let cgroups = services.cgroups();
    if cgroups.is_empty() {
        let why = "no process is in the cgroup (v2) of a service".to_owned();
        return Err(MeasurementError::Nothing(why));
    }
    let groups = groups(config, &scene.machine)?;
    let cpus = scene.machine.online_cpus().map_or(1, |cpus| cpus.len().max(1));
    let events: usize = groups.iter().map(|group| group.events.len()).sum();
    let room = (MOST_DESCRIPTORS / (events.max(1) * cpus)).clamp(1, config.max_cgroups);
    let all = cgroups.len();
    let chosen = busiest(cgroups, room, &|path| scene.machine.cgroup_cpu_us(path));
    let began = Instant::now();
    let counted = count_all(config.seconds, &chosen, &groups, &scene.machine)?;
    let span = MeasuredSpan::until_now(began.elapsed());
    let mut notes = counted.notes.iter().cloned().collect::<Vec<_>>();
    let left_out = all - chosen.len();
    if left_out > 0 {
        let count = number::counted(left_out as u64, "cgroup");
        notes.push(format!("{count} left out: counts.max_cgroups, or descriptors"));
    }
    let what =
        MeasuredWhat { event: COUNTS_EVENT, samples: counted.cgroups, lost: left_out as u64 };
    write(scene, &counted, &span, &what, cpus)?;
    let text = format!(
        "{} of {} counted in {}",
        number::counted(events as u64, "event"),
        number::counted(counted.cgroups, "cgroup"),
        number::duration(began.elapsed().as_secs_f64()),
    );
    Ok(MeasurementText { text, notes })
}

/// What is counted: each group at the same time.
fn groups(config: &CountsConfig, machine: &Machine) -> Result<Vec<Group>, MeasurementError> {
    let catalog = MachineCatalog::new(machine)?;
    if let Some(events) = &config.events {
        return Ok(parse(events, &catalog)?);
    }
    let mut groups = parse(SOFTWARE, &catalog)?;
    // Without a PMU there is no such event; hybrid CPUs have one of each kind of core, which no group has together.
    let leaders = parse(LEADER, &catalog).unwrap_or_default();
    let leaders: Vec<Event> = leaders.into_iter().flat_map(|group| group.events).collect();
    if let [leader] = &leaders[..] {
        let mut sets = metric_sets(&Host, &catalog, leader, 1, &METRICS)?;
        if !sets.is_empty() {
            let set = sets.swap_remove(fastrand::usize(..sets.len()));
            groups.push(of_hardware(leader, set));
        }
    }
    Ok(groups)
}

/// A group of hardware events, which counts in user mode and in the kernel.
fn of_hardware(leader: &Event, set: Vec<Event>) -> Group {
    let mut events = vec![leader.clone()];
    events.extend(set);
    for event in &mut events {
        event.attr.flags.remove(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
    }
    Group { name: None, events, leader_sampling: false, weak: true, braces: true }
}

/// The cgroups that use the CPUs most, at most `room`; all of them where there is room.
fn busiest(
    cgroups: BTreeMap<Arc<str>, TaskIdentity>,
    room: usize,
    cpu_us: &dyn Fn(&str) -> Option<u64>,
) -> BTreeMap<Arc<str>, TaskIdentity> {
    if cgroups.len() <= room {
        return cgroups;
    }
    let before: Vec<Option<u64>> = cgroups.keys().map(|path| cpu_us(path)).collect();
    std::thread::sleep(COMPARE);
    let used = cgroups.keys().zip(before).map(|(path, before)| {
        let used = cpu_us(path).zip(before).map_or(0, |(now, then)| now.saturating_sub(then));
        (std::cmp::Reverse(used), Arc::clone(path))
    });
    let most: BTreeSet<_> = used.collect();
    let chosen: BTreeSet<Arc<str>> = most.into_iter().take(room).map(|(_, path)| path).collect();
    cgroups.into_iter().filter(|(path, _)| chosen.contains(path)).collect()
}

/// Sums of a service, and what is to be said.
#[derive(Debug, Default)]
struct ServiceCounts {
    /// By service, set of events, event.
    sums: BTreeMap<(usize, Arc<str>, Arc<str>), CountSum>,
    /// Each once; what a sum is of is an index.
    identities: Vec<TaskIdentity>,
    /// Cgroups that could be counted.
    cgroups: u64,
    notes: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CountSum {
    cgroups: u64,
    count: u64,
    running_ns: u64,
    enabled_ns: u64,
}

/// Counts all cgroups at the same time.
fn count_all(
    seconds: u64,
    cgroups: &BTreeMap<Arc<str>, TaskIdentity>,
    groups: &[Group],
    machine: &Machine,
) -> Result<ServiceCounts, MeasurementError> {
    let deadline = Deadline::new(None, Some(Duration::from_secs(seconds)));
    let deadline =
        deadline.map_err(|source| MeasurementError::Io { path: "timerfd".into(), source })?;
    let count = &|path: &Arc<str>| count_one(path, groups, machine, Signal(deadline.as_fd()));
    let results: Vec<_> = std::thread::scope(|threads| {
        let running: Vec<_> =
            cgroups.keys().map(|path| threads.spawn(move || count(path))).collect();
        let failed = |_| Err("counting failed".to_owned());
        running.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
    });
    let mut all = ServiceCounts::default();
    for (result, identity) in results.into_iter().zip(cgroups.values()) {
        match result {
            Ok(counted) => all.add(identity, &counted),
            Err(why) => _ = all.notes.insert(why),
        }
    }
    match (all.cgroups, all.notes.first()) {
        (0, Some(why)) => Err(MeasurementError::Nothing(why.clone())),
        _ => Ok(all),
    }
}

/// What one cgroup had.
struct CountedCgroup {
    events: Vec<Counting>,
    counted: Counted,
    refused: Vec<OpenFailure>,
}

fn count_one(
    path: &Arc<str>,
    groups: &[Group],
    machine: &Machine,
    stop: Signal<'_>,
) -> Result<CountedCgroup, String> {
    let options = Options {
        target: Target::Cgroup { path: path.to_string(), cpus: None },
        inherit: true,
        groups: groups.to_vec(),
        pinned: false,
        command: Vec::new(),
        output: CommandOutput::Inherited,
        delay: None,
        timeout: None,
        interval: None,
        intervals: None,
    };
    let said = |error: pmuscope_measure::MeasureError| format!("{path}: {error}");
    let counter = RepeatedCount::new(&Host, machine, &options).map_err(said)?;
    let (counted, refused) = counter.count(stop, &mut |_, _| {}).map_err(said)?;
    Ok(CountedCgroup { events: counter.events().to_vec(), counted, refused })
}

impl ServiceCounts {
    fn add(&mut self, identity: &TaskIdentity, cgroup: &CountedCgroup) {
        self.cgroups += 1;
        let CountedCgroup { events, counted, refused } = cgroup;
        for OpenFailure { event, why } in refused {
            let name = events.get(*event).map_or("-", Counting::name);
            self.notes.insert(format!("{name} is not counted: {why}"));
        }
        let service = self.index(identity);
        let names = names(events, refused);
        let mut sums: BTreeMap<usize, CountSum> = BTreeMap::new();
        for reading in &counted.last {
            let Some(value) = reading.value else { continue };
            let sum = sums.entry(reading.event).or_default();
            sum.count = sum.count.saturating_add(value.value);
            sum.running_ns += value.running_ns.unwrap_or(0);
            sum.enabled_ns += value.enabled_ns.unwrap_or(0);
        }
        for (event, sum) in sums {
            // Nothing of the cgroup ran.
            let Some((set, name)) = names.get(&event).filter(|_| sum.enabled_ns > 0) else {
                continue;
            };
            let key = (service, Arc::clone(set), Arc::clone(name));
            let all = self.sums.entry(key).or_default();
            all.cgroups += 1;
            all.count = all.count.saturating_add(sum.count);
            all.running_ns += sum.running_ns;
            all.enabled_ns += sum.enabled_ns;
        }
    }

    fn index(&mut self, identity: &TaskIdentity) -> usize {
        let known = self.identities.iter().position(|one| one == identity);
        known.unwrap_or_else(|| {
            self.identities.push(identity.clone());
            self.identities.len() - 1
        })
    }
}

/// The set of each event that is counted, and its name, as metrics have them.
fn names(events: &[Counting], refused: &[OpenFailure]) -> BTreeMap<usize, (Arc<str>, Arc<str>)> {
    let metrics = Metrics::builtin();
    let is_counted = |event: usize| refused.iter().all(|refusal| refusal.event != event);
    let name = |one: &Counting| metrics.canonical(one.name());
    let mut sets: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (_, one) in events.iter().enumerate().filter(|(event, _)| is_counted(*event)) {
        sets.entry(one.group).or_default().insert(name(one));
    }
    let joined: BTreeMap<usize, Arc<str>> = sets
        .into_iter()
        .map(|(group, names)| (group, names.into_iter().collect::<Vec<_>>().join(",").into()))
        .collect();
    let of = |(event, one): (usize, &Counting)| {
        let set = joined.get(&one.group)?;
        Some((event, (Arc::clone(set), Arc::from(name(one)))))
    };
    events.iter().enumerate().filter_map(of).collect()
}

fn write(
    scene: &Scene<'_>,
    counted: &ServiceCounts,
    span: &MeasuredSpan,
    what: &MeasuredWhat,
    cpus: usize,
) -> Result<(), MeasurementError> {
    let (name, origin) = scene.origin("counts", &scene.machine.kernel()?.hostname, now_ns());
    let boot = scene.machine.boot_id();
    let counts = rows(counted, span, &origin, boot.as_deref());
    let intervals = span.intervals(what, &origin, boot.as_deref(), Some(cpus));
    scene.write(Rows { counts, intervals, ..Rows::default() }, &name)
}

fn rows(
    counted: &ServiceCounts,
    span: &MeasuredSpan,
    origin: &ImportOrigin,
    boot: Option<&str>,
) -> Vec<CountRow> {
    let (start, bin_us): (Timestamp, i64) = span.bins((origin.bin.as_micros() as i64).max(1));
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let row = |((service, set, event), sum): (&(usize, Arc<str>, Arc<str>), &CountSum)| {
        let TaskIdentity { service, version, unit, container, pod } =
            counted.identities[*service].clone();
        CountRow {
            start,
            bin_us,
            host: origin.host.clone().unwrap_or_default(),
            boot: boot.map(Arc::from),
            service,
            version,
            unit,
            container,
            pod,
            event_set: Arc::clone(set),
            event: Arc::clone(event),
            cgroups: signed(sum.cgroups),
            count: signed(sum.count),
            cpu_us: signed(sum.running_ns / 1000),
            all_cpu_us: signed(sum.enabled_ns / 1000),
            batch: origin.batch,
        }
    };
    counted.sums.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use pmuscope_counters::{Reading, Value};

    use super::*;

    fn identity(service: &str) -> TaskIdentity {
        TaskIdentity::of_service(service.into())
    }

    /// Two events of a group on two CPUs, one that was refused, and a cgroup in which nothing ran.
    #[test]
    fn counts_of_cpus_and_cgroups_add_up_by_service() {
        let machine = Machine::host();
        let catalog = MachineCatalog::new(&machine).unwrap();
        let groups = parse("{page-faults,context-switches},cpu-migrations", &catalog).unwrap();
        let events: Vec<Counting> = (0..)
            .zip(groups)
            .flat_map(|(group, list)| {
                list.events.into_iter().map(move |event| Counting { event, group })
            })
            .collect();
        let reading = |event, cpu, value, running_ns| Reading {
            event,
            cpu: Some(cpu),
            tid: None,
            value: Some(Value {
                value,
                enabled_ns: Some(2 * running_ns),
                running_ns: Some(running_ns),
                id: None,
                lost: None,
            }),
        };
        let cgroup = |last: Vec<Reading>| CountedCgroup {
            events: events.clone(),
            counted: Counted { last, ..Counted::begun(SystemTime::now()) },
            refused: vec![OpenFailure { event: 2, why: "no".into() }],
        };
        let mut all = ServiceCounts::default();
        let ran = vec![reading(0, 0, 5, 1000), reading(0, 1, 7, 2000), reading(1, 0, 1, 1000)];
        all.add(&identity("web"), &cgroup(ran.clone()));
        all.add(&identity("web"), &cgroup(ran));
        all.add(&identity("web"), &cgroup(vec![reading(0, 0, 0, 0), reading(2, 0, 9, 1000)]));
        let set = "context-switches,page-faults";
        let sum = |event: &str| all.sums[&(0, Arc::from(set), Arc::from(event))];
        assert_eq!(
            sum("page-faults"),
            CountSum { cgroups: 2, count: 24, running_ns: 6000, enabled_ns: 12_000 }
        );
        assert_eq!((sum("context-switches").count, all.sums.len(), all.cgroups), (2, 2, 3));
        let notes: Vec<&String> = all.notes.iter().collect();
        assert_eq!(notes, ["cpu-migrations is not counted: no"]);
    }

    #[test]
    fn the_busiest_cgroups_are_chosen_where_there_is_not_room_for_all() {
        let all: BTreeMap<Arc<str>, TaskIdentity> =
            ["/a", "/b", "/c"].map(|path| (path.into(), identity(path))).into();
        let same = busiest(all.clone(), 3, &|_| panic!("nothing has to be compared"));
        assert_eq!(same, all);
        let calls = std::cell::Cell::new(0);
        // From the first to the second reading /a uses 5, /b nothing, /c 9; /b has used most before.
        let used = |path: &str| {
            let later = calls.get() >= 3;
            calls.set(calls.get() + 1);
            Some(match (path, later) {
                ("/a", false) => 10,
                ("/a", true) => 15,
                ("/b", _) => 1000,
                (_, false) => 0,
                (_, true) => 9,
            })
        };
        let chosen = busiest(all, 2, &used);
        assert_eq!(chosen.keys().map(|path| &**path).collect::<Vec<_>>(), ["/a", "/c"]);
    }
}
