//! Which events are counted for metrics that are asked for by name, on this machine.

use std::collections::BTreeMap;

use pmuscope_counters::Kernel;
use pmuscope_events::Event;
use pmuscope_events::metrics::{Need, NeededEvent};

use super::fit;

/// What is counted for metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenEvents {
    /// Events of each metric, without the one that makes the windows; each set once.
    pub sets: Vec<Vec<Event>>,
    /// Metrics that cannot be had here.
    pub lacking: Vec<Lacking>,
}

/// A metric that cannot be had on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// Its name.
    pub metric: String,
    /// Why, as half of a sentence.
    pub why: String,
}

/// The events of the first formula of each metric whose events all exist, on the kind of core that has
/// `window`, and fit on its PMU beside the `edges` of windows.
#[must_use]
pub fn choose_events(
    kernel: &dyn Kernel,
    window: &Event,
    edges: usize,
    needs: &[Need],
) -> ChosenEvents {
    let mut known = BTreeMap::new();
    let mut chosen = ChosenEvents { sets: Vec::new(), lacking: Vec::new() };
    for need in needs {
        match events_of(kernel, window, edges, need, &mut known) {
            Ok(set) if set.is_empty() || chosen.sets.contains(&set) => {}
            Ok(set) => chosen.sets.push(set),
            Err(why) => chosen.lacking.push(Lacking { metric: need.metric.clone(), why }),
        }
    }
    chosen
}

/// The events of one metric; `known` has what exists of those asked for before, by name.
fn events_of(
    kernel: &dyn Kernel,
    window: &Event,
    edges: usize,
    need: &Need,
    known: &mut BTreeMap<String, Option<Event>>,
) -> Result<Vec<Event>, String> {
    let mut why = None;
    for way in &need.ways {
        let (mut set, mut absent) = (Vec::new(), None);
        for counted in way {
            let event = known
                .entry(counted.name.clone())
                .or_insert_with(|| existing(kernel, window, counted));
            match event {
                Some(event) if event.attr == window.attr || set.contains(event) => {}
                Some(event) => set.push(event.clone()),
                None => absent = absent.or(Some(counted)),
            }
        }
        let refused = match absent {
            Some(counted) => format!("this PMU does not count {}", counted.names.join(" or ")),
            None if fit::fits(kernel, window, edges, &set) => return Ok(set),
            None => format!(
                "its {} events do not fit on the PMU together with the {edges} that bound windows",
                set.len()
            ),
        };
        why.get_or_insert(refused);
    }
    Err(why.unwrap_or_else(|| "it has no formula".into()))
}

/// The first of an event's names that the PMU of `window` counts.
fn existing(kernel: &dyn Kernel, window: &Event, counted: &NeededEvent) -> Option<Event> {
    let is_elsewhere =
        |event: &Event| matches!((&event.cpus, &window.cpus), (Some(a), Some(b)) if a != b);
    let of_core = counted.events.iter().filter(|event| !is_elsewhere(event));
    let is_window = |event: &&Event| event.attr == window.attr;
    let mut all = of_core.clone().filter(is_window).chain(of_core);
    all.find(|event| fit::exists(kernel, event)).cloned()
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Pmu, event};
    use super::*;

    fn counted(name: &str, events: &[u64]) -> NeededEvent {
        let events = events.iter().map(|&config| event(name, config)).collect();
        NeededEvent {
            name: name.into(),
            names: vec![name.into(), format!("{name}_of_arm")],
            events,
        }
    }

    fn need(metric: &str, ways: &[&[NeededEvent]]) -> Need {
        let ways = ways.iter().map(|way| way.to_vec()).collect();
        Need { metric: metric.into(), ways }
    }

    fn configs(chosen: &ChosenEvents) -> Vec<Vec<u64>> {
        let of_set = |set: &Vec<Event>| set.iter().map(|event| event.attr.config).collect();
        chosen.sets.iter().map(of_set).collect()
    }

    #[test]
    fn the_first_formula_whose_events_exist_is_the_one() {
        let (cycles, instructions) = (counted("cycles", &[1]), counted("instructions", &[2]));
        let (stalls, slots) = (counted("stalls", &[5, 6]), counted("slots", &[7]));
        let needs = [
            need("CPI", &[&[cycles.clone(), instructions.clone()]]),
            need("IPC", &[&[instructions.clone(), cycles.clone()]]),
            need("%BE", &[&[slots, cycles.clone()], &[stalls, cycles]]),
        ];
        let pmu = Pmu::default().without(&[5, 7]);
        let chosen = choose_events(&pmu, &event("cycles", 1), 2, &needs);
        // The window's own event needs no further counter; 6 is another name of 5.
        assert_eq!(configs(&chosen), [[2], [6]]);
        assert_eq!(chosen.lacking, []);
    }

    #[test]
    fn what_cannot_be_had_is_named_with_its_reason() {
        let all: Vec<NeededEvent> = (2..6).map(|n| counted(&format!("e{n}"), &[n])).collect();
        let none = counted("slots", &[]);
        let needs = [need("WIDE", &[&all]), need("%RET", &[&[none]]), need("E", &[&all[..1]])];
        let chosen = choose_events(&Pmu::with_counters(4), &event("cycles", 1), 2, &needs);
        assert_eq!(configs(&chosen), [[2]]);
        let why: Vec<&str> = chosen.lacking.iter().map(|lacking| &lacking.why[..]).collect();
        let wide = "its 4 events do not fit on the PMU together with the 2 that bound windows";
        assert_eq!(why, [wide, "this PMU does not count slots or slots_of_arm"]);
    }
}
