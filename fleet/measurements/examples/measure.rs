//! Makes one measurement and prints its summary: for machines on which the whole program is not there, such as emulated
//! ones.
//!
//! ```text
//! cargo run -p pmuscope-measurements --example measure -- locality 5 out
//! ```

#![allow(clippy::print_stdout)] // a program

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use pmuscope_dataset::Labels;
use pmuscope_measurements::{
    CountsConfig, LocalityConfig, Measurement, MeasurementContext, OffCpuConfig, WindowsConfig,
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, seconds, into] = &words[..] else {
        eprintln!("usage: measure off_cpu|windows|counts|locality SECONDS FOLDER");
        return ExitCode::from(2);
    };
    let Some(measurement) = seconds.parse().ok().and_then(|seconds| of(name, seconds)) else {
        eprintln!("error: {name} for {seconds} s is no measurement. Try: measure counts 5 out");
        return ExitCode::from(2);
    };
    let context = MeasurementContext {
        host: None,
        version: None,
        labels: Labels::default(),
        bin: Duration::from_secs(300),
    };
    match measurement.measure(&context, Path::new(into)) {
        Ok(summary) => {
            println!("{name}: {summary:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn of(name: &str, seconds: u64) -> Option<Measurement> {
    Some(match name {
        "off_cpu" => Measurement::OffCpu(OffCpuConfig { seconds, ..OffCpuConfig::default() }),
        "windows" => Measurement::Windows(WindowsConfig { seconds, ..WindowsConfig::default() }),
        "counts" => Measurement::Counts(CountsConfig { seconds, ..CountsConfig::default() }),
        "locality" => {
            Measurement::Locality(LocalityConfig { seconds, ..LocalityConfig::default() })
        }
        _ => return None,
    })
}
