//! What changes the reading of a profile: what happened, why it matters, what to type.

use pmuscope_perfdata::info::{EventInfo, RecordingInfo, UnsampledCount};
use pmuscope_perfdata::reader::{Tally, memory_limit, order_limit};
use pmuscope_profile::{
    EventProfile, FileState, FunctionTable, LongPhases, LostSource, Profile, SymbolState,
    is_software_clock,
};
use pmuscope_stats::{MIN_BLOCKS, MIN_PHASES};

use crate::number::{agree, bytes, count, counted, duration, percent};

use super::other_data::other_data_note;
use super::{stacks, symbols};

/// Loss beyond this share may change any conclusion.
const MUCH_LOST: f64 = 0.05;
/// Samples without a function beyond this share are worth a sentence.
const MUCH_UNNAMED: f64 = 0.005;

/// A sentence about a profile. Holds no foreign text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// May change the conclusion, not only the details.
    pub warning: bool,
    /// The sentence.
    pub text: String,
}

impl Note {
    /// One that changes only details.
    pub(crate) fn plain(text: String) -> Self {
        Self { warning: false, text }
    }
}

/// Where a profile comes from: advice for one is of no use to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// From a file, which can be asked further and recorded anew.
    Recorded,
    /// From what runs now, of which there is no file.
    Live,
    /// From a file that is looked around in with keys.
    Browsed,
}

impl Taken {
    fn either<'a>(self, recorded: &'a str, live: &'a str) -> &'a str {
        match self {
            Self::Recorded | Self::Browsed => recorded,
            Self::Live => live,
        }
    }

    /// The same where a key has what a flag has.
    fn by_key<'a>(self, recorded: &'a str, live: &'a str, browsed: &'a str) -> &'a str {
        match self {
            Self::Browsed => browsed,
            taken => taken.either(recorded, live),
        }
    }
}

/// All that is to be said of a recording, the gravest first.
#[must_use]
pub fn notes(profile: &Profile) -> Vec<Note> {
    notes_on(profile, Taken::Recorded)
}

/// The same where keys are typed, not commands; with how many stacks are complete, which is in the head of a report.
#[must_use]
pub fn browser_notes(profile: &Profile) -> Vec<Note> {
    let mut notes = notes_on(profile, Taken::Browsed);
    let line = profile.stacks.as_ref().and_then(|found| stacks::line(profile, found));
    let at = notes.iter().filter(|note| note.warning).count();
    notes.splice(at..at, line.map(Note::plain));
    notes
}

/// All that is to be said, the gravest first.
pub(crate) fn notes_on(profile: &Profile, taken: Taken) -> Vec<Note> {
    let warnings = [
        cut_off(profile),
        stopped(profile),
        unwritten(profile),
        missing(profile),
        loss(profile, taken),
        unsampled(profile),
        stacks::chains_note(profile),
        without_callers(profile),
    ];
    let rest = [
        throttled(profile),
        timer_floor(profile),
        order_note(&profile.tally),
        strays(profile),
        others(profile),
        other_data(profile),
        stacks::note(profile),
        stacks::cut_chains_note(profile),
        waits(profile, taken),
        other_namespaces(profile),
        unnamed(profile, taken),
        stale_map(profile),
        unproven(profile, taken),
        unmapped(profile, taken),
        overloads(profile),
        intervals(profile, taken),
    ];
    let note = |warning| move |text| Note { warning, text };
    warnings
        .into_iter()
        .flatten()
        .map(note(true))
        .chain(rest.into_iter().flatten().map(note(false)))
        .collect()
}

/// What is to be said of the file, whatever is counted of it.
pub(crate) fn notes_on_file(profile: &Profile) -> Vec<Note> {
    let warnings = [cut_off(profile), stopped(profile), unwritten(profile)];
    let warnings = warnings.into_iter().flatten().map(|text| Note { warning: true, text });
    let rest = [order_note(&profile.tally), strays(profile), other_namespaces(profile)];
    warnings.chain(rest.into_iter().flatten().map(|text| Note { warning: false, text })).collect()
}

/// Overloads are counted together, by their name.
fn overloads(profile: &Profile) -> Option<String> {
    let merged = profile.aggregate.functions.iter().filter(|function| function.overloads > 0);
    let (names, functions) =
        merged.fold((0, 0), |(names, all), one| (names + 1, all + u64::from(one.overloads)));
    (names > 0).then(|| {
        format!(
            "{} {} {} overloads that differ in their parameters: --signatures separates them.",
            counted(names, "function name"),
            if names == 1 { "combines" } else { "combine" },
            count(functions)
        )
    })
}

fn cut_off(profile: &Profile) -> Option<String> {
    match profile.state {
        FileState::Closed => None,
        FileState::NotClosed => Some(
            "the recording is incomplete: its recorder was killed or is still running. Overhead and losses are \
             those it last reported."
                .into(),
        ),
        FileState::Truncated { has, should } if profile.state.is_corrupt() => Some(format!(
            "corrupt: the header says that the file has {} bytes; it has {}. All records that can be read are in this \
             report.",
            count(should),
            count(has)
        )),
        FileState::Truncated { has, should } => Some(format!(
            "the file is truncated: it has {} of {} bytes. Samples after the cut are missing; copy it again.",
            count(has),
            count(should)
        )),
    }
}

/// The file is whole; the recording is not.
fn unwritten(profile: &Profile) -> Option<String> {
    let info = profile.info()?;
    let unwritten = info.unwritten?;
    let why =
        info.ended_by.as_deref().map_or(String::new(), |why| format!(": {}", crate::escape(why)));
    Some(format!(
        "the recording stopped early{why}. {} that {} taken, and all later ones, are missing.",
        counted(unwritten, "sample"),
        agree(unwritten, "was", "were")
    ))
}

fn stopped(profile: &Profile) -> Option<String> {
    let stopped = profile.tally.stopped.as_ref()?;
    Some(format!(
        "reading stopped at byte {}: {}. Later records are not in this report.",
        count(stopped.offset),
        crate::escape(&stopped.reason.to_string())
    ))
}

/// The recorder counts what it writes: a reader must find as much.
fn missing(profile: &Profile) -> Option<String> {
    let info = profile.info().filter(|info| info.complete && !profile.sampled.is_empty())?;
    // As they stand in the file: one with counts of a group stands for several events.
    let (wrote, read) = (info.samples(), profile.sampled.iter().sum());
    (wrote != read && profile.tally.stopped.is_none()).then(|| {
        format!(
            "the recorder wrote {}, but {} {} read: the file was changed, or one of the two is wrong.",
            counted(wrote, "sample"),
            count(read),
            agree(read, "was", "were")
        )
    })
}

/// Loss matters when it is large, or when it is larger than what separates the first two functions.
fn loss(profile: &Profile, taken: Taken) -> Option<String> {
    let lost = profile.lost;
    let samples = match profile.filtered {
        None if !profile.sampled.is_empty() => profile.sampled.iter().sum(),
        _ => profile.samples(),
    };
    if lost.count == 0 || samples == 0 {
        return None;
    }
    let share = lost.count as f64 / (lost.count as f64 + samples as f64);
    let gap = profile.events.iter().filter_map(|event| match &event.functions[..] {
        [first, second, ..] => Some(first.share - second.share),
        _ => None,
    });
    let gap = gap.fold(f64::INFINITY, f64::min);
    let at_least = if lost.source == LostSource::Records { "at least " } else { "" };
    let reason = if share > MUCH_LOST {
        "Results can be off by as much".into()
    } else if share > gap {
        format!("The first two functions differ by less ({})", percent(gap, 2))
    } else {
        return None;
    };
    let advice = taken.either(
        "Record with a lower frequency (-F) or larger buffers (-m)",
        "Lower the frequency (-F)",
    );
    let share = percent(share, 2);
    Some(format!("{at_least}{share} of all records were lost. {reason}. {advice}."))
}

/// Counts of an event without samples.
fn unsampled(profile: &Profile) -> Option<String> {
    // What was sampled and could not be written is told as that.
    let info = profile.info().filter(|info| info.unwritten.is_none())?;
    let found = info.events.iter().filter_map(|event| Some((event, event.unsampled()?)));
    let (event, most) = found.max_by(|a, b| a.1.share().total_cmp(&b.1.share()))?;
    Some(match event.is_clock() {
        true => unsampled_time(&most, info.is_of_cpus()),
        false => unsampled_counts(event, &most, info),
    })
}

fn unsampled_time(most: &UnsampledCount, is_of_cpus: bool) -> String {
    let share = percent(most.share(), 1);
    let (counted, sampled) = most.seconds();
    match is_of_cpus {
        true => format!(
            "{share} of CPU time has no samples: tickless idle, or a hypervisor ran something else ({sampled:.3} of \
             {counted:.3} s sampled)."
        ),
        false => format!(
            "{share} of the time has no samples ({sampled:.3} of {counted:.3} s sampled): a per-task timer misses \
             tasks shorter than its period. Try: record --own-cgroup -- CMD, or record -a."
        ),
    }
}

fn unsampled_counts(event: &EventInfo, most: &UnsampledCount, info: &RecordingInfo) -> String {
    let why = match (&info.machine.emulator, info.is_of_cpus()) {
        (Some(_), _) => {
            "an emulated PMU reports an overflow late, so that several periods are one sample. Raise the period (-c), or \
             record on hardware."
        }
        (None, true) => {
            "a PMU that reports overflows late, or a hypervisor that holds them back. Raise the period (-c)."
        }
        (None, false) => {
            "counts per task have no sample in tasks shorter than the period. Try: record --own-cgroup -- CMD, or \
             record -a."
        }
    };
    format!(
        "{} of {} has no samples ({} of {} samples that are due): {why}",
        percent(most.share(), 1),
        crate::escape(&event.name),
        count(most.sampled),
        count(most.due)
    )
}

fn throttled(profile: &Profile) -> Option<String> {
    (profile.throttled > 0).then(|| {
        format!(
            "the kernel throttled sampling {}: the busiest moments are under-represented. Lower the frequency (-F), \
             or raise kernel.perf_event_max_sample_rate.",
            counted(profile.throttled, "time")
        )
    })
}

/// Shortest period of the kernel's timers, nanoseconds (`perf_swevent_start_hrtimer` in kernel/events/core.c).
const TIMER_FLOOR_NS: u64 = 10_000;

/// Timers with a shorter period than the kernel has: pmuscope refuses them, others record them.
fn timer_floor(profile: &Profile) -> Option<String> {
    let timers = profile.events.iter().filter(|event| event.is_software_clock());
    let periods = timers.filter_map(|event| {
        let of_frequency = event.frequency.map(|frequency| 1_000_000_000 / frequency.max(1));
        Some((&event.name, event.fixed_period.or(of_frequency)?))
    });
    let (name, period) = periods.min_by_key(|&(_, period)| period)?;
    (period < TIMER_FLOOR_NS).then(|| {
        format!(
            "{} was recorded with a period of {} ns, but the kernel's timer has 10,000 ns at least: each sample stands for \
             more time than it says. Shares are right.",
            crate::escape(name),
            count(period)
        )
    })
}

/// What waited for older records took all the memory that it may have: what that changed.
#[must_use]
pub fn order_note(tally: &Tally) -> Option<String> {
    let (late, limit) = (tally.late, order_limit() as u64);
    let late = match late {
        0 => "none of them came too late".into(),
        late => format!("{} came too late to be put in order", count(late)),
    };
    (tally.early > 0).then(|| {
        format!(
            "records were ordered within {} of memory, because the file does not mark flush points: {late}. For more \
             memory: PMUSCOPE_MEMORY={}G.",
            bytes(limit),
            (4 * limit).div_ceil(1 << 30)
        )
    })
}

/// More distinct stacks than there is room for.
fn without_callers(profile: &Profile) -> Option<String> {
    let (samples, limit) = (profile.without_callers, memory_limit() as u64);
    (samples > 0).then(|| {
        format!(
            "{} {} for the function alone, without callers: the recording has more distinct stacks than fit into {} of \
             memory. For all of them: PMUSCOPE_MEMORY={}G.",
            counted(samples, "sample"),
            agree(samples, "counts", "count"),
            bytes(limit),
            (4 * limit).div_ceil(1 << 30)
        )
    })
}

/// Records that came too late for another reason.
fn late_otherwise(tally: &Tally) -> u64 {
    if tally.early > 0 { 0 } else { tally.late }
}

/// What the reader could not place.
fn strays(profile: &Profile) -> Option<String> {
    let tally = &profile.tally;
    let mut parts = Vec::new();
    let mut part = |number: u64, what: &str, [one, several]: [&str; 2], how: &str| {
        if number > 0 {
            let verb = agree(number, one, several);
            parts.push(format!("{} {verb} {how}", counted(number, what)));
        }
    };
    let be = ["is", "are"];
    let unknown = tally.of_unknown_kind();
    part(tally.samples_of_no_event, "sample", ["belongs", "belong"], "to no event in the file");
    part(tally.malformed, "record", be, "too short");
    part(late_otherwise(tally), "record", ["came"; 2], "too late to be put in order");
    part(unknown, "record", be, "of an unknown type");
    part(
        profile.mappings_left_out,
        "item",
        ["was", "were"],
        "left out for lack of memory (mappings or names; for more: PMUSCOPE_MEMORY=4G)",
    );
    (!parts.is_empty()).then(|| format!("not in this report: {}.", parts.join(", ")))
}

/// A recorder in a container gets samples of the whole machine, and one id for all tasks outside.
fn other_namespaces(profile: &Profile) -> Option<String> {
    profile.has_other_pid_namespaces.then(|| {
        "process 0 stands for all tasks of other PID namespaces and for the idle task: the recorder ran in a container, \
         where the kernel gives these tasks no ids. Their programs have no names here. Record on the host, or in a \
         container with the host's PID namespace."
            .into()
    })
}

/// Windows are of those that were asked for; samples are of all, as they were taken.
fn others(profile: &Profile) -> Option<String> {
    let strobe = profile.metadata.info.as_ref()?.strobe.as_ref()?;
    let (what, flag, ids) = match (&strobe.only_processes[..], &strobe.only_threads[..]) {
        ([], []) => return None,
        (pids, []) => ("process", "--pid", pids),
        (_, tids) => ("thread", "--tid", tids),
    };
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    let (ids, listed) = (ids.join(", "), ids.join(","));
    Some(format!(
        "{what} {ids} was requested, but events cover all tasks: {flag} {listed} leaves out the others."
    ))
}

/// Without samples that is all there is, which an error says.
fn other_data(profile: &Profile) -> Option<String> {
    profile.tally.other_data().filter(|_| profile.samples_read() > 0).map(other_data_note)
}

fn waits(profile: &Profile, taken: Taken) -> Option<String> {
    let shows = taken.by_key("see --by wait", "see --by wait", "v w shows that");
    profile.tells_waits.then(|| format!("the recording also shows where threads wait: {shows}."))
}

fn unnamed(profile: &Profile, taken: Taken) -> Option<String> {
    let (share, modules) = largest(profile, |state| {
        use SymbolState as State;
        !matches!(
            state,
            State::Found | State::Unproven(_) | State::SplitMissing(_) | State::NotMapped
        )
    })?;
    let advice = taken.by_key(
        "--modules shows why and what to do",
        "pmuscope record -a -- sleep 2, then pmuscope report --modules, shows why and what to do",
        "i shows why and what to do",
    );
    let (share, modules) = (percent(share, 1), counted(modules, "DSO"));
    Some(format!("{share} of the samples have no function name, in {modules}: {advice}."))
}

fn stale_map(profile: &Profile) -> Option<String> {
    let stale = profile.modules.iter().find_map(|module| match &module.symbols {
        SymbolState::StalePerfMap(path) => Some(path.to_string_lossy()),
        _ => None,
    })?;
    Some(format!(
        "{} was not used: it is older than the process, so another process of the same id wrote it.",
        crate::escape(&stale)
    ))
}

fn unproven(profile: &Profile, taken: Taken) -> Option<String> {
    let of_event = |event: &EventProfile| {
        let rows = event.modules.iter().filter(|row| {
            let state = symbols::effective(&profile.modules[row.module], row);
            matches!(state, SymbolState::Unproven(_))
        });
        rows.fold((0.0, 0), |(share, modules), row| (share + row.share, modules + 1))
    };
    let shares = profile.events.iter().map(of_event);
    let (share, modules) = shares.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let advice = taken.by_key(
        "--modules shows which and why",
        "names may be those of another build",
        "i shows which and why",
    );
    (share > MUCH_UNNAMED).then(|| {
        format!(
            "{} of the samples have names of {} that cannot be proven to be the recorded files: {advice}.",
            percent(share, 1),
            counted(modules, "file")
        )
    })
}

fn unmapped(profile: &Profile, taken: Taken) -> Option<String> {
    let (share, _) = largest(profile, |state| *state == SymbolState::NotMapped)?;
    let which = taken.either("recorded", "known");
    let share = percent(share, 1);
    Some(format!("{share} of the samples fall outside any {which} mapping: [unknown]."))
}

/// Share of what has no name in modules in such a state, and their number, for the event where that is the
/// largest share; `None` if it is not worth a sentence. Where samples differ in weight those without a name are
/// taken to weigh what the module's do on average.
fn largest(profile: &Profile, is: impl Fn(&SymbolState) -> bool) -> Option<(f64, usize)> {
    let of_event = |event: &EventProfile| {
        let shares: Vec<f64> = event
            .modules
            .iter()
            .filter(|row| is(&symbols::effective(&profile.modules[row.module], row)))
            .map(|row| row.share * symbols::unnamed(row))
            .collect();
        (shares.iter().sum::<f64>(), shares.len())
    };
    profile
        .events
        .iter()
        .map(of_event)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(share, _)| *share > MUCH_UNNAMED)
}

/// Why there are no intervals where the program's phases are too long for the recording.
pub(crate) fn long_phases_text(phases: &LongPhases) -> String {
    let seen = match phases.seen() {
        seen if seen < 2.0 => "fewer than 2".to_owned(),
        seen => format!("~{seen:.0}"),
    };
    let recorded = duration(phases.recorded);
    format!("no CI: {seen} phases of the program in {recorded}, {MIN_PHASES} needed")
}

fn intervals(profile: &Profile, taken: Taken) -> Option<String> {
    let long = profile.events.iter().filter_map(|event| event.long_phases);
    if let Some(phases) = long.reduce(LongPhases::longer) {
        return Some(long_phases_note(&phases, taken));
    }
    let without = profile
        .events
        .iter()
        .filter(|event| event.samples > 0 && event.blocks < MIN_BLOCKS)
        .min_by_key(|event| event.blocks)?;
    Some(few_blocks_note(without.blocks, &without.name, taken))
}

/// Why the rows of an event's table have no intervals; `None` where the largest have.
pub(crate) fn no_interval_note(table: &FunctionTable, event: &str) -> Option<String> {
    let taken = Taken::Recorded;
    match &table.long_phases {
        Some(phases) => Some(long_phases_note(phases, taken)),
        None if table.blocks < MIN_BLOCKS => Some(few_blocks_note(table.blocks, event, taken)),
        None => None,
    }
}

fn long_phases_note(phases: &LongPhases, taken: Taken) -> String {
    let record = taken.either("Record", "Use -d with");
    format!("{}. {record} {} or longer.", long_phases_text(phases), duration(phases.enough()))
}

fn few_blocks_note(blocks: usize, event: &str, taken: Taken) -> String {
    let clock = if is_software_clock(event) { "" } else { " or a shorter period (-c)" };
    let longer = taken.either("Record longer, or with", "Use a longer interval (-d), or");
    format!(
        "no CI: samples fall in {}, {MIN_BLOCKS} needed. {longer} a higher frequency (-F){clock}.",
        counted(blocks as u64, "time block")
    )
}
