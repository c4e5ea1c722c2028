//! `pmuscope doctor --strobe-check`: how exact windows are on this machine.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;
use pmuscope_counters::Host;
use pmuscope_events::{MachineCatalog, parse};
use pmuscope_machine::{Machine, MachineError};
use pmuscope_perfdata::strobe::Reason;
use pmuscope_recorder::{
    CpuCheck, Disturb, Disturbance, INSTEAD_OF_WINDOWS, StrobeCheck, StrobeOptions, strobe_check,
};

use super::record::strobe::without_pmu;
use crate::exit::{Exit, failure};

/// What makes the windows.
const EVENT: &str = "cycles:u";

/// What `--disturb` does.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum What {
    /// Somebody else sets a period
    Period,
    /// The kernel suspends sampling
    Throttle,
    /// The last CPU goes offline and comes back
    Hotplug,
}

impl What {
    fn meaning(self) -> Disturb {
        match self {
            Self::Period => Disturb::Period,
            Self::Throttle => Disturb::Throttle,
            Self::Hotplug => Disturb::Hotplug,
        }
    }
}

/// Measures for `seconds` and prints what came of it; with `disturb` also what is seen and repaired.
pub(super) fn run(seconds: f64, disturb: &[What]) -> anyhow::Result<Exit> {
    let disturb: Vec<Disturb> = disturb.iter().map(|what| what.meaning()).collect();
    let machine = Machine::host();
    let refused = |why: String| failure(Exit::NotPossible, why);
    let catalog =
        MachineCatalog::new(&machine).map_err(|e: MachineError| refused(e.to_string()))?;
    let groups =
        parse(EVENT, &catalog).map_err(|error| refused(without_pmu("--strobe-check", &error)))?;
    let Some(event) = groups.first().and_then(|group| group.events.first()) else {
        return Err(refused(format!("--strobe-check: no {EVENT}. {INSTEAD_OF_WINDOWS}")));
    };
    let check = strobe_check(&Host, &machine, event, &StrobeOptions::default(), seconds, &disturb)
        .map_err(|error| refused(error.to_string()))?;
    let text = text(&check);
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(if holds(&check) { Exit::Done } else { Exit::Incomplete })
}

/// Offsets stayed as they were, and what was disturbed was seen and put right.
fn holds(check: &StrobeCheck) -> bool {
    check.cpus.iter().all(|cpu| cpu.windows > 0 && cpu.wrong_offset == 0)
        && check.disturbances.iter().all(|it| it.refused.is_some() || is_repaired(it))
}

fn is_repaired(disturbance: &Disturbance) -> bool {
    disturbance.seen_as.is_some() && disturbance.right_afterwards > 0
}

fn text(check: &StrobeCheck) -> String {
    let strobe = &check.strobe;
    let mut out = format!(
        "windows of {} {}, one in {}; counts come in steps of {}; all CPUs busy\n\n",
        strobe.window, strobe.event, strobe.period, strobe.granule
    );
    let _ = writeln!(
        out,
        "{:>4} {:>9} {:>9} {:>9} {:>8}   {:<34} {:>7} {:>9}",
        "CPU",
        "windows",
        "switched",
        "offset",
        "drift",
        "length less the offset: min 5 50 95 max",
        "epochs",
        "tries"
    );
    for cpu in &check.cpus {
        line(&mut out, check, cpu);
    }
    for disturbance in &check.disturbances {
        let _ = writeln!(out, "{}", disturbed(disturbance));
    }
    let verdict =
        if holds(check) { "the method holds here" } else { "the method does not hold here" };
    let _ = writeln!(
        out,
        "\n{verdict}: offsets are checked in every sample, lengths are the PMU's delay"
    );
    out
}

fn line(out: &mut String, check: &StrobeCheck, cpu: &CpuCheck) {
    let at = |percent| cpu.percentile(percent).map_or("-".into(), |length| length.to_string());
    let lengths = [0, 5, 50, 95, 100].map(at).join("  ");
    let health = check.strobe.cpus.iter().find(|health| health.cpu == cpu.cpu);
    let tries = health.map_or("-".into(), |health| {
        format!("{}+{}", health.accepted_tries, health.rejected_tries)
    });
    let epochs = check.strobe.epochs.iter().filter(|epoch| epoch.cpu == cpu.cpu).count();
    let _ = writeln!(
        out,
        "{:>4} {:>9} {:>9} {:>9} {:>8}   {:<39} {:>7} {:>9}",
        cpu.cpu, cpu.windows, cpu.switched, cpu.wrong_offset, cpu.drift, lengths, epochs, tries
    );
}

fn disturbed(disturbance: &Disturbance) -> String {
    let Disturbance { what, cpu, refused, seen_as, right_afterwards } = disturbance;
    if let Some(why) = refused {
        return format!("{what}, CPU {cpu}: not tried: {why}");
    }
    let seen = match seen_as {
        None => "not seen",
        Some(Reason::Throttled) => "seen by throttle records",
        Some(Reason::OffsetChanged) => "seen by the offset",
        Some(Reason::LengthChanged) => "seen by lengths",
        Some(Reason::NoSamples) => "seen by silence",
        Some(Reason::Hotplug) => "seen by its absence",
        Some(Reason::Start | Reason::Dither | Reason::Other) => "seen",
    };
    format!("{what}, CPU {cpu}: {seen}; {right_afterwards} right windows afterwards")
}
