//! What `pmuscope record` says, all of it on stderr: stdout belongs to the command.

use std::fmt::Write as _;

use pmuscope_abi::event_type;
use pmuscope_console::say::is_verbose;
use pmuscope_events::{KnownCpu, describe};
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::strobe::{CpuHealth, StrobeInfo};
use pmuscope_recorder::{EndReason, Preview, RecordOptions, SIDEBAND, Summary};
use pmuscope_report::{length_text, number, too_short_text};

/// Each attribute and reader, in perf's words; with `--sharing`, of which accesses samples are.
pub(super) fn preview(
    preview: &Preview,
    population: &[String],
    as_cpu: Option<&KnownCpu>,
) -> String {
    let mut out = String::new();
    if let Some(cpu) = as_cpu {
        let _ = writeln!(
            out,
            "note: as on {} ({}): its events, and types as one such machine numbers them; all other fields are those of \
             this kernel",
            cpu.name, cpu.title
        );
    }
    for request in &preview.requests {
        let group =
            request.leader.map_or_else(String::new, |leader| format!(", member of group {leader}"));
        let cpus = request.cpus.as_ref().map_or_else(String::new, |cpus| format!(", CPUs {cpus}"));
        let _ = writeln!(out, "{}{group}{cpus}:", name(&request.name));
        for (name, value) in describe(&request.attr) {
            let _ = writeln!(out, "  {name:<30} {value}");
        }
        if request.max_precise {
            let _ = writeln!(out, "  {:<30} 3, or the highest that opens", "precise_ip");
        }
    }
    // Ring buffers are of this machine's CPUs.
    for (number, rings) in preview.readers.iter().enumerate().filter(|_| as_cpu.is_none()) {
        let _ = writeln!(out, "reader {number}: rings of CPUs {rings}");
    }
    if !population.is_empty() {
        let _ = writeln!(out, "samples are of:");
        population.iter().for_each(|sentence| out.push_str(&format!("  {sentence}\n")));
    }
    out
}

/// What an event is for, where its name does not say that.
fn name(event: &str) -> String {
    match event {
        SIDEBAND => format!("sideband events: mmap, comm, fork, exit ({SIDEBAND})"),
        _ => event.to_owned(),
    }
}

/// What samples cost in the kernel and what the budget made of it, where that was asked for.
fn sampling_cost(info: &RecordingInfo) -> String {
    let mut out = String::new();
    if let Some(us) = info.cost.sampling_us {
        let interval = info
            .cost
            .sampling_us_interval
            .map_or_else(String::new, |(low, high)| format!(" ({low:.2} to {high:.2})"));
        let pairs = info.cost.sampling_pairs.unwrap_or(0);
        let _ = writeln!(
            out,
            "note: a sample costs {us:.2} µs{interval} in the kernel, by {pairs} pairs of loops"
        );
    }
    if let Some(budget) = &info.budget {
        let achieved = budget
            .achieved_share
            .map_or_else(|| "-".to_owned(), |share| format!("{:.2}%", share * 100.0));
        let how = if budget.adapted_while_running { "at the end" } else { "fixed at the start" };
        let _ = writeln!(
            out,
            "note: budget {:.2}% of the machine, used {achieved}; periods {:.1} times what was \
             asked for at first, {:.1} times {how}",
            budget.target_share * 100.0,
            budget.first_factor,
            budget.last_factor,
        );
    }
    out
}

/// `windows of 300 cycles:u, 1 in 1,000,003`: as recorded, which need not be as asked for.
pub(in crate::commands) fn kind_of_windows(strobe: &StrobeInfo) -> String {
    let lengths = strobe.lengths();
    let length = lengths.map_or(strobe.window, |one| one.median);
    let length = length_text(length, lengths.and_then(|one| one.varied()));
    let period = number::count(strobe.period);
    format!("windows of {length} {}, {} in {period}", strobe.event, strobe.burst.max(1))
}

/// Phases of a recording with windows.
fn windows(info: &RecordingInfo) -> String {
    let Some(strobe) = &info.strobe else { return String::new() };
    let sum = |count: fn(&CpuHealth) -> u64| strobe.cpus.iter().map(count).sum::<u64>();
    let mut out = format!(
        "note: {}: {} epochs on {}, {} tries not accepted",
        kind_of_windows(strobe),
        number::count(strobe.epochs.len() as u64),
        number::counted(strobe.cpus.len() - strobe.missing().len(), "CPU"),
        number::count(sum(|cpu| cpu.rejected_tries)),
    );
    let left_out = sum(|cpu| cpu.left_out);
    if left_out > 0 {
        let _ = write!(
            out,
            ", of which {} {} left out",
            number::counted(left_out, "sample"),
            number::agree(left_out, "is", "are")
        );
    }
    if strobe.groups.len() > 1 {
        let _ = write!(out, "; {} groups of counters are multiplexed", strobe.groups.len());
    }
    if let Some(calls) = strobe.lengths().and_then(|lengths| lengths.calls) {
        let _ = write!(out, "\nwarning: {}", too_short_text(strobe.window, calls));
    }
    out + "\n"
}

/// The file, or how many and the last of them.
fn files(summary: &Summary) -> String {
    let last = summary.paths.last().map(|path| path.display().to_string()).unwrap_or_default();
    match summary.paths.len() {
        0 | 1 => last,
        count => format!("{count} files, the last {last}"),
    }
}

/// What was recorded: one line at the end, `2,020 samples, 0 lost, 0.05% overhead → a.data (188 KiB)`. What is missing,
/// and what was asked for by flags, stands before it, details with `-v`.
pub(super) fn summary(summary: &Summary, options: &RecordOptions) -> String {
    let info = &summary.info;
    let mut out = String::new();
    let (dash, cost) = (|| "-".to_owned(), &info.cost);
    if is_verbose() {
        let _ = writeln!(
            out,
            "  {}, {:.2} s; overhead {} µs/sample, {} B/sample; start-up {:.3} s, close {:.3} s of CPU",
            info.scope,
            info.duration_s,
            cost.us_per_sample.map_or_else(dash, |us| format!("{us:.3}")),
            cost.bytes_per_sample.map_or_else(dash, |bytes| format!("{bytes:.1}")),
            cost.startup_s,
            cost.close_s,
        );
    }
    out.push_str(&windows(info));
    out.push_str(&sampling_cost(info));
    // Errors are among the sentences about what is missing.
    if matches!(summary.ended, EndReason::TargetGone | EndReason::MaxSize(_)) {
        let _ = writeln!(out, "note: ended because {}", summary.ended);
    }
    for notice in &summary.notices {
        let notice = if is_verbose() { notice.clone() } else { notice.in_short() };
        let _ = writeln!(out, "warning: {notice}");
    }
    if info.samples() == 0 {
        let _ = writeln!(out, "warning: no samples: {}", why_none(info.duration_s, options));
    }
    let lost = info
        .lost()
        .map_or_else(|| "loss unknown".to_owned(), |lost| format!("{} lost", number::count(lost)));
    let overhead = cost.machine_share.map_or_else(
        || "overhead unknown".to_owned(),
        |share| format!("{:.2}% overhead", share * 100.0),
    );
    let _ = writeln!(
        out,
        "{}, {lost}, {overhead} → {} ({})",
        number::counted(info.samples(), "sample"),
        files(summary),
        number::bytes(cost.bytes),
    );
    out
}

/// Why there are no samples, and what to type.
fn why_none(duration_s: f64, options: &RecordOptions) -> String {
    if options.delay_ms == Some(-1) {
        return "sampling was never enabled (-D -1). Try: --control, or without -D".to_owned();
    }
    if let Some(delay) = options.delay_ms.filter(|ms| *ms as f64 / 1e3 >= duration_s) {
        return format!("the target ended within the {delay} ms of -D. Try: a shorter -D");
    }
    let events = || options.groups.iter().flat_map(|group| &group.events);
    let rare = [event_type::TRACEPOINT, event_type::BREAKPOINT];
    match events().find(|event| !rare.contains(&event.attr.event_type)) {
        Some(event) => format!(
            "within {duration_s:.2} s the target used too little CPU time for a sample of {}. Try: -F max for short \
             programs, --off-cpu for where it waits",
            event.name
        ),
        None => {
            let names: Vec<&str> = events().map(|event| &*event.name).collect();
            let names = names.join(", ");
            format!("{names} did not occur within {duration_s:.2} s. Try: pmuscope stat -e {names}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::strobe::Epoch;

    fn told(strobe: StrobeInfo, offsets: &[&[u64]]) -> String {
        let epoch = |offsets: &&[u64]| Epoch {
            window: strobe.window,
            offsets: offsets.to_vec(),
            ..Epoch::default()
        };
        let epochs = offsets.iter().map(epoch).collect();
        let event = "cycles:u".to_owned();
        let strobe = StrobeInfo { event, epochs, period: 992_721, ..strobe };
        windows(&RecordingInfo { strobe: Some(strobe), ..RecordingInfo::default() })
    }

    #[test]
    fn windows_are_told_as_recorded() {
        let asked = |window| StrobeInfo { window, tolerance: 2, ..StrobeInfo::default() };
        let text = told(asked(20), &[&[88], &[88]]);
        assert!(text.contains("windows of 88 cycles:u, 1 in 992,721: 2 epochs"), "{text}");
        assert!(text.contains("\nwarning: 20 requested; the calls alone take 88: "), "{text}");
        let text = told(StrobeInfo { burst: 3, ..asked(300) }, &[&[300, 600, 900]]);
        assert!(text.contains("windows of 300 cycles:u, 3 in 992,721: "), "{text}");
        assert!(!text.contains("requested"), "{text}");
        let jitter = StrobeInfo { jitter: 100, tolerance: 100, ..asked(300) };
        let text = told(jitter, &[&[332], &[378]]);
        assert!(text.contains("windows of 332 to 378 cycles:u, "), "{text}");
    }
}
