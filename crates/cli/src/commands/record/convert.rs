//! From flags as typed to validated options: all that can be refused without asking the kernel.

use pmuscope_abi::{BranchSampleType, SampleType};
use pmuscope_console::exit::{bad_input, not_possible};
use pmuscope_console::replace::replace;
use pmuscope_console::say::is_verbose;
use pmuscope_events::{KnownCpu, parse_branch_filter};
use pmuscope_machine::{CpuSet, FileKind, Machine, Target};
use pmuscope_recorder::allocations::Allocations;
use pmuscope_recorder::{
    Affinity, CallGraph, Extras, Readers, RecordOptions, RingChoice, Sampling, Switch,
};
use pmuscope_report::number;

use super::alloc;
use super::events::{self, set_rate};
use super::flags::Args;
use super::off_cpu::{self, CallGraphOf};
use super::{call_graph::call_graph, control, size, strobe};
use crate::commands::duration;
use crate::commands::report::ViewRequest;

/// Samples per second and CPU where nothing is said.
const DEFAULT_HZ: u64 = 1000;
/// No sample takes less than a microsecond.
const FASTEST_HZ: u64 = 1_000_000;

/// Asynchronous writes of a reader at a time: each holds a buffer, and more do not make a disk faster.
const MOST_WRITES: u32 = 1024;

/// What to do.
pub(super) struct RecordPlan {
    pub(super) options: RecordOptions,
    /// Events of `--alloc`, which are there until this is dropped.
    pub(super) allocations: Option<Allocations>,
    /// Sentences for the user before recording starts.
    pub(super) notices: Vec<String>,
    /// Of which accesses samples are (`--sharing`), sentences.
    pub(super) population: Vec<String>,
    pub(super) as_cpu: Option<&'static KnownCpu>,
    pub(super) show_attributes: bool,
    pub(super) dry_run: bool,
    pub(super) quiet: bool,
    /// The page is opened afterwards, and served at the address.
    pub(super) shown: ViewRequest,
}

pub(super) fn convert(args: Args, machine: &Machine) -> anyhow::Result<RecordPlan> {
    check_as(&args).map_err(bad_input)?;
    let target = match args.own_cgroup {
        true => Target::CommandInCgroup,
        // Attributes of another CPU need none: those of a command are shown.
        false if args.as_cpu.is_some() => {
            args.target.asked("record", &args.command)?.unwrap_or(Target::Command)
        }
        false => args.target.target("record", &args.command)?,
    };
    let (asked, population) = match args.sharing {
        true => events::of_memory(machine, args.as_cpu)?,
        false => (events::asked(&args.event, machine)?, Vec::new()),
    };
    let strobed = strobe::strobed(&args, &asked, &target, machine)?;
    let (strobe, target, mut groups, mut notices) = match strobed {
        Some(it) => (Some(it.options), it.target, it.groups, it.notices),
        None => {
            let (groups, notices) = events::or_default(asked, &target, machine)?;
            (None, target, groups, notices)
        }
    };
    let call_graph = call_graph(args.call_chains, args.call_graph.as_deref()).map_err(bad_input)?;
    let mut of_all = Vec::new();
    if args.off_cpu {
        let per_thread = args.per_thread;
        let waits = off_cpu::events(&target, CallGraphOf(call_graph), per_thread, machine)?;
        groups.push(waits.switches);
        of_all.extend(waits.wakings);
        notices.extend(waits.missing);
    }
    let allocations = match args.alloc.as_slice() {
        [] => None,
        files => Some(alloc::define(files, &target, &args.command, machine)?),
    };
    if let Some(allocations) = &allocations {
        // The CPU's branch records are none of uprobes.
        let own_call_graph = !matches!(call_graph, CallGraph::None | CallGraph::Lbr);
        groups.extend(allocations.groups(own_call_graph));
        let begins_with_it = matches!(target, Target::Command | Target::CommandInCgroup);
        let begins_later = !begins_with_it || args.delay.is_some();
        notices.extend(begins_later.then(|| alloc::BEGINS_LATER.to_owned()));
    }
    if args.strict && !notices.is_empty() {
        return Err(not_possible(format!("--strict: {}", notices.join(". "))));
    }
    let page = rustix::param::page_size() as u64;
    let ring_size = match &args.mmap_pages {
        // A switch that is lost leaves the time of its thread unknown, an allocation its object without a name.
        None if args.off_cpu || !args.alloc.is_empty() => RingChoice::Ample,
        None => RingChoice::Auto,
        Some(text) => {
            let bytes = size::ring(text, page).map_err(bad_input)?;
            if let Some(total) = machine.memory_bytes().filter(|total| bytes > *total) {
                return Err(bad_input(format!(
                    "-m {text}: one ring buffer would be larger than this machine's memory, which is {}. \
                     Try: -m 4M",
                    number::bytes(total)
                )));
            }
            RingChoice::Bytes(bytes)
        }
    };
    let max_size = args
        .max_size
        .as_deref()
        .map(|text| size::bytes("--max-size", text))
        .transpose()
        .map_err(bad_input)?;
    if let Some(level @ (..=0 | 23..)) = args.compression_level {
        return Err(bad_input(format!(
            "-z={level}: zstd's levels are from 1 (fast) to 22 (small). Try: -z"
        )));
    }
    if args.aio == Some(0) {
        return Err(bad_input("--aio=0: at least one write is in flight. Try: --aio"));
    }
    if let Some(many) = args.aio.filter(|many| *many > MOST_WRITES) {
        let text = format!("--aio={many}: at most {MOST_WRITES} writes are in flight. Try: --aio");
        return Err(bad_input(text));
    }
    if args.output.as_os_str() == "-" {
        let text = "-o -: a recording is written at several places of its file, so it cannot be a stream. Try: \
                    -o FILE";
        return Err(bad_input(text));
    }
    let sampling =
        sampling(args.count.as_deref(), args.freq.as_deref(), machine).map_err(bad_input)?;
    if args.count.is_some() || args.freq.is_some() {
        set_rate(&mut groups, sampling);
    }
    let extras = extras(&args).map_err(bad_input)?;
    let readers = args.threads.as_deref().unwrap_or(&args.readers);
    let options = RecordOptions {
        target,
        inherit: !args.no_inherit,
        groups,
        of_all,
        strobe,
        sampling,
        call_graph,
        extras,
        clockid: clock(args.clockid.as_deref()).map_err(bad_input)?,
        ring_size,
        readers: parse_readers(readers).map_err(bad_input)?,
        affinity: parse_affinity(&args.affinity).map_err(bad_input)?,
        aio: args.aio,
        compression: args.compression_level,
        output: args.output,
        replace: replace(FileKind::Recording),
        max_size,
        overwrite: args.overwrite,
        switch: switch(args.switch_output.as_deref()).map_err(bad_input)?,
        max_files: args.switch_max_files,
        control: args.control.as_deref().map(control::open).transpose().map_err(bad_input)?,
        owner: invoking_user(),
        delay_ms: args.delay,
        budget: budget(args.budget).map_err(bad_input)?,
        sampling_cost: args.sampling_cost,
        per_thread: args.per_thread,
        build_ids: !args.no_buildid,
        keep_files: !args.no_buildid_cache,
        own_command_line: pmuscope_console::invocation::command_line(),
        command: args.command,
    };
    // The recording itself says it too.
    let reduced = pmuscope_recorder::reduced(&options, machine).ok().flatten();
    if let Some(reduced) = reduced.filter(|_| args.strict) {
        return Err(not_possible(format!("--strict: {reduced}")));
    }
    Ok(RecordPlan {
        options,
        allocations,
        notices,
        population,
        as_cpu: args.as_cpu,
        show_attributes: is_verbose(),
        dry_run: args.dry_run,
        quiet: args.quiet,
        shown: ViewRequest { open: args.open, serve: args.serve },
    })
}

/// Refuses `--as` where something would be recorded, or where it says nothing.
fn check_as(args: &Args) -> Result<(), String> {
    match args.as_cpu {
        Some(cpu) if !args.dry_run || !args.sharing => Err(format!(
            "--as {name} only shows what --sharing would open on that CPU; nothing is recorded. Try: pmuscope record \
             --sharing --dry-run --as {name}",
            name = cpu.name
        )),
        _ => Ok(()),
    }
}

/// How often to sample: `-c`, `-F`, or the default as far as the kernel allows it.
pub(in crate::commands) fn sampling(
    count: Option<&str>,
    freq: Option<&str>,
    machine: &Machine,
) -> Result<Sampling, String> {
    if let Some(text) = count {
        let count = text.parse().ok().filter(|count| (1..1 << 63).contains(count));
        return count.map(Sampling::Period).ok_or_else(|| {
            format!(
                "-c {text}: not a period, which is a number of events per sample. Try: -c 1000000"
            )
        });
    }
    let limit = machine.limits().perf_event_max_sample_rate;
    let hz = match freq {
        None => DEFAULT_HZ.min(limit.unwrap_or(DEFAULT_HZ)),
        Some("max") => limit.ok_or("-F max: kernel.perf_event_max_sample_rate cannot be read")?,
        Some(text) => text.parse().ok().filter(|hz| *hz > 0).ok_or_else(|| {
            format!("-F {text}: not a frequency, which is a number of samples per second. Try: -F 1000, or -F max")
        })?,
    };
    match limit {
        Some(limit) if hz > FASTEST_HZ => Err(format!(
            "-F {hz}: a sample takes about a microsecond, so no CPU takes more than {FASTEST_HZ} per second. \
             kernel.perf_event_max_sample_rate is {limit}. Try: -F max"
        )),
        Some(limit) if hz > limit => Err(format!(
            "-F {hz} is above kernel.perf_event_max_sample_rate, which is {limit}. \
             Try: -F max, or sudo sysctl kernel.perf_event_max_sample_rate={hz}"
        )),
        _ => Ok(Sampling::Frequency(hz)),
    }
}

fn extras(args: &Args) -> Result<Extras, String> {
    let mut fields = SampleType::empty();
    fields.set(SampleType::ADDR | SampleType::DATA_SRC, args.data || args.sharing);
    fields.set(SampleType::PHYS_ADDR, args.phys_data);
    fields.set(SampleType::WEIGHT, args.weight || args.sharing);
    fields.set(SampleType::PERIOD, args.period);
    let branches = match &args.branch_filter {
        Some(text) => Some(parse_branch_filter(text).map_err(|error| error.to_string())?),
        None => args.branch_any.then_some(BranchSampleType::ANY),
    };
    let data_mappings = args.data || args.sharing;
    Ok(Extras { fields, branches, data_mappings, user_callchains: args.user_callchains })
}

/// `CLOCK_*` by perf's names and ours.
fn clock(name: Option<&str>) -> Result<i32, String> {
    let Some(name) = name else { return Ok(1) };
    let plain = name.to_ascii_lowercase();
    Ok(match plain.trim_start_matches("clock_") {
        "realtime" | "real" | "0" => 0,
        "monotonic" | "mono" | "1" => 1,
        "monotonic_raw" | "raw" | "4" => 4,
        "boottime" | "boot" | "7" => 7,
        "tai" | "11" => 11,
        _ => {
            return Err(format!(
                "-k {name}: not a clock. Try: monotonic, monotonic_raw, boottime, realtime or tai"
            ));
        }
    })
}

/// `--budget`: per cent to a share.
fn budget(percent: Option<f64>) -> Result<Option<f64>, String> {
    match percent {
        None => Ok(None),
        Some(percent) if percent > 0.0 && percent <= 50.0 => Ok(Some(percent / 100.0)),
        Some(percent) => Err(format!(
            "--budget {percent}: not a percentage above 0 and up to 50. Try: --budget 1"
        )),
    }
}

/// `--switch-output`: a signal, a size or a time.
fn switch(text: Option<&str>) -> Result<Option<Switch>, String> {
    let Some(text) = text else { return Ok(None) };
    if text == "signal" {
        return Ok(Some(Switch::Signal));
    }
    if let Some(time) = duration::with_unit(text) {
        return Ok(Some(Switch::Time(time)));
    }
    size::with_unit(text).filter(|bytes| *bytes > 0).map(|bytes| Some(Switch::Bytes(bytes))).ok_or_else(
        || format!("--switch-output={text}: not known. Try: signal, a size such as 100M, or a time such as 30s"),
    )
}

fn parse_affinity(text: &str) -> Result<Affinity, String> {
    Ok(match text {
        "auto" => Affinity::Auto,
        "sys" => Affinity::Sys,
        "node" => Affinity::Node,
        "cpu" => Affinity::Cpu,
        _ => return Err(format!("--affinity {text}: not known. Try: auto, sys, node or cpu")),
    })
}

/// perf's names for reader threads are accepted too (`numa` for `node`).
fn parse_readers(text: &str) -> Result<Readers, String> {
    Ok(match text {
        "auto" => Readers::Auto,
        "serial" => Readers::Serial,
        "cpu" => Readers::Cpu,
        "core" => Readers::Core,
        "l3" => Readers::L3,
        "die" => Readers::Die,
        "package" => Readers::Package,
        "node" | "numa" => Readers::Node,
        pairs => Readers::Explicit(parse_pairs(pairs)?),
    })
}

fn parse_pairs(text: &str) -> Result<Vec<(CpuSet, CpuSet)>, String> {
    let wrong = || {
        format!(
            "--readers {text}: not known. Try: auto, serial, cpu, core, l3, die, package, node, \
             or RINGS/CPUS:… as in 0-3/4:8-11/12"
        )
    };
    text.split(':')
        .map(|pair| {
            let (rings, cpus) = pair.split_once('/').ok_or_else(wrong)?;
            let parse = |list| CpuSet::parse(list).ok().filter(|set| !set.is_empty());
            Ok((parse(rings).ok_or_else(wrong)?, parse(cpus).ok_or_else(wrong)?))
        })
        .collect()
}

/// Under sudo the file belongs to whoever typed the command.
pub(crate) fn invoking_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let id = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    Some((id("SUDO_UID")?, id("SUDO_GID")?)).filter(|ids| *ids != (0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use pmuscope_events::Sampling as EventSampling;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
        /// Global, with us.
        #[arg(short, action = clap::ArgAction::Count)]
        verbose: u8,
    }

    fn args(words: &str) -> Args {
        Cli::parse_from(std::iter::once("record").chain(words.split_whitespace())).args
    }

    fn plan(words: &str) -> anyhow::Result<RecordPlan> {
        convert(args(words), &Machine::host())
    }

    fn error(words: &str) -> String {
        plan(words).err().unwrap().to_string()
    }

    #[test]
    fn the_command_line_of_the_2019_measurements_is_taken_as_it_stands() {
        let plan =
            plan("-v -N -B -T -R -F 25000 --affinity=cpu --aio=1 -a -e cpu-clock -- ./bt.B.x")
                .unwrap();
        let options = plan.options;
        assert_eq!(options.target, Target::System);
        assert_eq!((options.affinity, options.aio), (Affinity::Cpu, Some(1)));
        assert_eq!(options.sampling, Sampling::Frequency(25_000));
        assert_eq!(options.command, ["./bt.B.x"]);
        assert!(!options.build_ids);
    }

    #[test]
    fn flags_of_the_command_are_the_commands() {
        let options = plan("-e cpu-clock xz -T0 -z").unwrap().options;
        assert_eq!(options.command, ["xz", "-T0", "-z"]);
        assert_eq!(options.compression, None);
    }

    #[test]
    fn contradictions_and_typos_say_what_to_type() {
        assert!(error("-e cpu-clock").contains("Try: pmuscope record -- COMMAND"));
        assert!(error("-a -p 1").contains("Try: one"));
        assert!(error("-a -z=23").contains("from 1 (fast) to 22"));
        assert!(error("-a --readers cpus").contains("0-3/4:8-11/12"));
        assert!(error("-a --affinity socket").contains("auto, sys, node or cpu"));
        assert!(error("-a -k sundial").contains("monotonic"));
        assert!(error("-a -F 999999").contains("Try: -F max, or sudo sysctl"));
        let absurd = error("-a -F 999999999999");
        assert!(absurd.ends_with("Try: -F max") && !absurd.contains("sysctl"), "{absurd}");
    }

    #[test]
    fn perfs_words_for_threads_are_readers() {
        assert_eq!(plan("-a --threads=numa").unwrap().options.readers, Readers::Node);
        assert_eq!(plan("-a --threads").unwrap().options.readers, Readers::Cpu);
        let pairs = plan("-a --readers 0-3/4:8/9").unwrap().options.readers;
        assert_eq!(pairs.to_string(), "0-3/4:8/9");
    }

    #[test]
    fn a_rate_that_is_asked_for_is_that_of_tracepoints_too() {
        let rate = |words: &str| plan(words).unwrap().options.groups[0].events[0].sampling;
        assert_eq!(rate("-a -e mem:0x1000:w"), None);
        assert_eq!(rate("-a -c 10 -e mem:0x1000:w"), Some(EventSampling::Period(10)));
        assert_eq!(rate("-a -F 99 -e mem:0x1000:w"), Some(EventSampling::Frequency(99)));
        let own = "-a -c 10 -e cpu-clock/period=7/";
        assert_eq!(rate(own), Some(EventSampling::Period(7)));
    }

    #[test]
    fn call_graphs_reach_the_options() {
        let options = plan("-a --call-graph dwarf,4096").unwrap().options;
        assert_eq!(options.call_graph, CallGraph::Dwarf { stack_bytes: 4096 });
    }
}
