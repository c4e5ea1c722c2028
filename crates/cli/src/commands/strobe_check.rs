//! `pmuscope doctor --strobe-check`: how exact windows are on this machine.

use std::fmt::Write as _;

use pmuscope_console::exit::{Exit, not_possible};
use pmuscope_console::say;
use pmuscope_counters::Host;
use pmuscope_events::{MachineCatalog, parse};
use pmuscope_machine::Machine;
use pmuscope_perfdata::strobe::Reason;
use pmuscope_recorder::{
    CpuCheck, Disturb, Disturbance, INSTEAD_OF_WINDOWS, Left, StrobeCheck, StrobeOptions,
    StrobeTrial, strobe_check,
};

use super::record::print::kind_of_windows;
use super::record::strobe::without_pmu;
use crate::signals::Stop;
use crate::terminal;

/// What makes the windows.
const EVENT: &str = "cycles:u";

/// Values of `--disturb`.
pub(super) const DISTURBANCES: [(&str, &str, Disturb); 3] = [
    ("period", "Another event sets a period", Disturb::Period),
    ("throttle", "The kernel suspends sampling", Disturb::Throttle),
    ("hotplug", "The last CPU goes offline and comes back", Disturb::Hotplug),
];

/// Measures for `seconds` and prints what came of it; with `disturb` also what is seen and repaired.
pub(super) fn run(seconds: f64, disturb: &[Disturb]) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    let catalog = MachineCatalog::new(&machine).map_err(not_possible)?;
    let groups = parse(EVENT, &catalog)
        .map_err(|error| not_possible(without_pmu("--strobe-check", &error)))?;
    let Some(event) = groups.first().and_then(|group| group.events.first()) else {
        return Err(not_possible(format!("--strobe-check: no {EVENT}. {INSTEAD_OF_WINDOWS}")));
    };
    // A signal must not end us while a setting of the machine is changed.
    let stop = Stop::new()?;
    let trial = StrobeTrial { seconds, disturb, stop: &|| stop.asked() };
    let check = strobe_check(&Host, &machine, event, &StrobeOptions::default(), &trial)
        .map_err(not_possible)?;
    // Standard output may be closed.
    for left in check.disturbances.iter().filter_map(|it| it.left.as_ref()) {
        say!("warning: {}", how_to_put_right(left));
    }
    let text = text(&check);
    terminal::print(&text)?;
    Ok(if holds(&check) { Exit::Done } else { Exit::Incomplete })
}

/// Offsets stayed as they were, and what was disturbed was seen and put right.
fn holds(check: &StrobeCheck) -> bool {
    !check.interrupted
        && check.cpus.iter().all(|cpu| cpu.windows > 0 && cpu.wrong_offset == 0)
        && check.disturbances.iter().all(|it| it.left.is_none())
        && check.disturbances.iter().all(|it| it.refused.is_some() || is_repaired(it))
}

/// What to type where we could not.
fn how_to_put_right(left: &Left) -> String {
    let Left { path, before, why } = left;
    let path = path.display();
    format!(
        "{path} could not be restored: {why}. It was {before}. Try: echo {before} | sudo tee {path}"
    )
}

fn is_repaired(disturbance: &Disturbance) -> bool {
    disturbance.seen_as.is_some() && disturbance.right_afterwards > 0
}

fn text(check: &StrobeCheck) -> String {
    let strobe = &check.strobe;
    let mut out = format!(
        "{}; counts come in steps of {}; all CPUs busy\n\n",
        kind_of_windows(strobe),
        strobe.granule
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
        let _ = writeln!(out, "{}", disturbed(disturbance, check.interrupted));
    }
    let verdict = match (holds(check), check.interrupted) {
        (true, _) => "the method holds here",
        (false, true) => "interrupted, so there is no verdict",
        (false, false) => "the method does not hold here",
    };
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

fn disturbed(disturbance: &Disturbance, interrupted: bool) -> String {
    let Disturbance { what, cpu, refused, left, seen_as, right_afterwards } = disturbance;
    if let Some(why) = refused {
        return format!("{what}, CPU {cpu}: not tried: {why}");
    }
    if let Some(Left { path, why, .. }) = left {
        return format!("{what}, CPU {cpu}: {} could not be restored: {why}", path.display());
    }
    if interrupted && !is_repaired(disturbance) {
        return format!("{what}, CPU {cpu}: cut short and restored");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(left: Option<Left>, interrupted: bool) -> StrobeCheck {
        let cpus = vec![CpuCheck { windows: 100, ..CpuCheck::default() }];
        let disturbance = Disturbance {
            what: "a lower limit of the sampling rate",
            cpu: 0,
            refused: None,
            left,
            seen_as: Some(Reason::Throttled),
            right_afterwards: 100,
        };
        let strobe = pmuscope_perfdata::strobe::StrobeInfo::default();
        StrobeCheck { strobe, cpus, disturbances: vec![disturbance], interrupted }
    }

    #[test]
    fn a_setting_that_stays_changed_is_no_success() {
        assert!(holds(&check(None, false)));
        let path = "/proc/sys/kernel/perf_event_max_sample_rate".into();
        let left = Left { path, before: "100000".into(), why: "Permission denied".into() };
        let to_type = how_to_put_right(&left);
        assert!(
            to_type.ends_with(
                "Try: echo 100000 | sudo tee /proc/sys/kernel/perf_event_max_sample_rate"
            ),
            "{to_type}"
        );
        let check = check(Some(left), false);
        assert!(!holds(&check));
        let text = text(&check);
        assert!(text.contains("could not be restored: Permission denied"), "{text}");
        assert!(text.contains("does not hold") && !text.contains("not tried"), "{text}");
    }

    #[test]
    fn an_interrupted_check_has_no_verdict() {
        let mut check = check(None, true);
        check.disturbances[0].seen_as = None;
        assert!(!holds(&check));
        let text = text(&check);
        assert!(text.contains("cut short and restored"), "{text}");
        assert!(text.contains("no verdict") && !text.contains("holds here"), "{text}");
    }
}
