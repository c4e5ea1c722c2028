//! Everything that one run of the mix tells: windows of each function, what the recording takes.

use std::path::Path;

use pmuscope_measure::child::Outcome;
use pmuscope_measure::{Labels, Origin, RunFile};
use pmuscope_workloads::MixFacts;
use pmuscope_workloads::function_mix::FUNCTIONS;
use serde_json::Value;

use super::arms::{FUNCTION, FunctionsArm};
use crate::capture::metric as of_recorder;
use crate::recording::{facts_path, read_facts, read_recording, recording_path};

/// Names of metrics that only this benchmark writes.
pub mod metric {
    /// Windows of a function that count.
    pub const KEPT: &str = "kept";
    /// Windows that end in a function.
    pub const WINDOWS: &str = "windows";
    /// Share of all windows that end in a function, in percent: what a plain profile shows.
    pub const SAMPLED: &str = "%samples";
    /// Share of cycles, in percent.
    pub const CYCLES: &str = "%CY";
    /// Share of instructions, in percent.
    pub const INSTRUCTIONS: &str = "%I";
    /// Cycles per instruction.
    pub const CPI: &str = "CPI";
    /// Repetition of the mix per second of the wall clock.
    pub const ROUNDS: &str = "rounds_per_second";
    /// CPU seconds of the analysis of a recording.
    pub const ANALYSIS: &str = "analysis_cpu";
}

/// What a run has told of one function.
#[derive(Debug, Clone, Default)]
pub(super) struct OfFunction {
    pub(super) windows: f64,
    pub(super) kept: f64,
    /// Name, unit, value, half of its interval.
    pub(super) metrics: Vec<(String, String, f64, Option<f64>)>,
}

/// What `pmuscope metrics --json` says of the functions of the mix, in their order.
///
/// # Errors
/// If it is no such object.
pub(super) fn functions(json: &str) -> Result<Vec<OfFunction>, String> {
    let json: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let (Some(rows), Some(columns)) = (json["rows"].as_array(), json["columns"].as_array()) else {
        return Err("the analysis has no rows".to_owned());
    };
    let unit = |name: &str| {
        let is_it = |column: &&Value| column["name"] == name && !column["formula"].is_null();
        columns.iter().find(is_it).map(|column| column["unit"].as_str().unwrap_or("").to_owned())
    };
    let of = |name: &str| {
        let mut all = OfFunction::default();
        // A program may be there in several files; the mix is in one.
        let is_it = |row: &&Value| {
            row["function"].as_str().is_some_and(|f| f.rsplit("::").next() == Some(name))
        };
        let Some(row) = rows.iter().find(is_it) else { return all };
        all.windows = row["windows"].as_f64().unwrap_or(0.0);
        all.kept = row["kept"].as_f64().unwrap_or(0.0);
        for cell in row["metrics"].as_array().into_iter().flatten() {
            let name = cell["name"].as_str().unwrap_or("");
            let (Some(unit), Some(value)) = (unit(name), cell["value"].as_f64()) else { continue };
            let half = cell["low"]
                .as_f64()
                .zip(cell["high"].as_f64())
                .map(|(low, high)| (value - low).max(high - value));
            all.metrics.push((name.to_owned(), unit, value, half));
        }
        all
    };
    Ok(FUNCTIONS.iter().map(|function| of(function.name)).collect())
}

/// Adds the figures of functions to the file: of all that the run was of. Shares are of the mix, not of
/// the process, whose start is not in it.
pub(super) fn add_functions(
    file: &mut RunFile,
    run: usize,
    arm: &FunctionsArm,
    all: &[OfFunction],
) {
    let windows: f64 = all.iter().map(|of| of.windows).sum();
    let sum = |name: &str| -> f64 {
        all.iter().flat_map(|of| &of.metrics).filter(|m| m.0 == name).map(|m| m.2).sum()
    };
    let (cycles, instructions) = (sum(metric::CYCLES), sum(metric::INSTRUCTIONS));
    for (function, of) in FUNCTIONS.iter().zip(all) {
        if arm.only.is_some_and(|only| only != function.name) {
            continue;
        }
        let labels = of_function(arm, function.name);
        file.add(run, &labels, metric::WINDOWS, ("", Origin::Recording), Ok(of.windows));
        file.add(run, &labels, metric::KEPT, ("", Origin::Recording), Ok(of.kept));
        for (name, unit, value, half) in &of.metrics {
            let whole = match name.as_str() {
                metric::CYCLES => cycles,
                metric::INSTRUCTIONS => instructions,
                _ => 100.0,
            };
            // Alone, a function's share is all of it.
            if arm.only.is_some() && name.starts_with("%") && whole != 100.0 {
                continue;
            }
            let factor = 100.0 / whole;
            let estimate = (value * factor, half.map(|half| half * factor));
            file.add_estimate(run, &labels, name, (unit, Origin::Derived), Ok(estimate));
        }
        if arm.only.is_none() && windows > 0.0 {
            let share = of.windows / windows;
            let half = 196.0 * (share * (1.0 - share) / windows).sqrt();
            let kind = ("%", Origin::Recording);
            let estimate = (100.0 * share, (share > 0.0).then_some(half));
            file.add_estimate(run, &labels, metric::SAMPLED, kind, Ok(estimate));
        }
    }
}

/// Labels of a figure of one function.
pub(super) fn of_function(arm: &FunctionsArm, function: &str) -> Labels {
    let mut labels = arm.labels();
    labels.insert(FUNCTION.to_owned(), function.to_owned());
    labels
}

/// What a run of `arm` left in `folder`: what was called.
///
/// # Errors
/// If the workload left nothing that can be read.
pub(super) fn mix(folder: &Path) -> Result<(MixFacts, f64), String> {
    let facts = read_facts(&facts_path(folder))?;
    let missing = || "the workload does not report its calls".to_owned();
    facts.mix.map(|mix| (mix, facts.time_s)).ok_or_else(missing)
}

/// Adds what the recording takes.
///
/// # Errors
/// If it cannot be read.
pub(super) fn add_recording(
    file: &mut RunFile,
    run: usize,
    (arm, labels): (&FunctionsArm, &Labels),
    folder: &Path,
    analysis: Option<&Outcome>,
) -> Result<(), String> {
    let recording = read_recording(arm.recorder, &recording_path(folder))?;
    let counts = recording.counts?;
    let missing = "the recording does not report it";
    let count = |n: Option<u64>| n.map(|n| n as f64).ok_or(missing.to_owned());
    let mut add =
        |metric, unit, origin, value| file.add(run, labels, metric, (unit, origin), value);
    add(of_recorder::SAMPLES, "", Origin::Recording, Ok(counts.samples as f64));
    add(of_recorder::LOST, "", Origin::Recording, count(counts.lost));
    add(of_recorder::THROTTLED, "", Origin::Recording, Ok(counts.throttled as f64));
    add(of_recorder::FILE_SIZE, "B", Origin::Kernel, Ok(recording.file_size as f64));
    if let Some(analysis) = analysis {
        let cpu_s = analysis.usage.user_s + analysis.usage.system_s;
        add(metric::ANALYSIS, "s", Origin::Kernel, Ok(cpu_s));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::arms;
    use pmuscope_measure::Program;
    use std::time::UNIX_EPOCH;

    const JSON: &str = r#"{
        "columns": [{"name": "CPI", "unit": "cycles/instruction", "formula": "x"},
                    {"name": "%CY", "unit": "%", "formula": "x"},
                    {"name": "BM/KI", "unit": "", "formula": null}],
        "rows": [
          {"function": "pmuscope_workloads::function_mix::functions::nops", "windows": 80, "kept": 60,
           "metrics": [{"name": "CPI", "value": 0.25, "low": 0.24, "high": 0.27, "windows": 60},
                       {"name": "%CY", "value": 20.0, "low": 19.0, "high": 21.0, "windows": 60},
                       {"name": "BM/KI", "value": null, "low": null, "high": null, "windows": 0}]},
          {"function": "pmuscope_workloads::function_mix::functions::serialise", "windows": 120,
           "kept": 9, "metrics": [{"name": "%CY", "value": 60.0, "low": null, "high": null}]},
          {"function": "main", "windows": 50, "kept": 50,
           "metrics": [{"name": "%CY", "value": 20.0, "low": null, "high": null}]}]}"#;

    #[test]
    fn shares_are_of_the_mix_and_what_was_not_counted_is_not_there() {
        let all = functions(JSON).unwrap();
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        let arm =
            arms::all(1_000_000, &[300]).into_iter().find(|a| a.name == "STROBE-300").unwrap();
        add_functions(&mut file, 0, &arm, &all);
        let value = |function: &str, metric: &str| {
            let is_it = |s: &&pmuscope_measure::Series| {
                s.labels[FUNCTION] == function && s.metric == metric
            };
            file.series.iter().find(is_it).map(|s| (s.values[0].value.unwrap(), s.values[0].half))
        };
        assert_eq!(value("nops", "%CY"), Some((25.0, Some(1.25))));
        assert_eq!(value("serialise", "%CY"), Some((75.0, None)));
        assert_eq!(value("nops", "%samples").unwrap().0, 40.0);
        let (cpi, half) = value("nops", "CPI").unwrap();
        assert!(cpi == 0.25 && (half.unwrap() - 0.02).abs() < 1e-12);
        assert_eq!(value("nops", "BM/KI"), None);
        assert_eq!(
            (value("fp_division", "kept"), value("fp_division", "CPI")),
            (Some((0.0, None)), None)
        );
    }

    #[test]
    fn other_text_is_an_error() {
        assert_eq!(functions("{}").err().unwrap(), "the analysis has no rows");
        assert!(functions("pmuscope: no").is_err());
    }
}
