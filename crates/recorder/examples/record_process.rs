//! Records a process for a second.
//!
//! ```text
//! cargo run -p pmuscope-recorder --example record_process -- PID
//! ```

use std::error::Error;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use pmuscope_counters::Host;
use pmuscope_events::{MachineCatalog, parse};
use pmuscope_machine::{Machine, Target};
use pmuscope_recorder::{Deadline, RecordOptions, Signals, Summary, record};

/// Samples what the process runs in user mode, a thousand times a second and CPU, into `file`.
///
/// # Errors
/// The process is not there or not ours, or the kernel allows no such events.
pub(crate) fn run(process: u32, file: &Path) -> Result<Summary, Box<dyn Error>> {
    let machine = Machine::host();
    // perf's syntax; cpu-clock works on machines that show no counters of their CPU.
    let events = parse("cpu-clock:u", &MachineCatalog::new(&machine)?)?;
    let target = Target::Processes(vec![process]);
    let options = RecordOptions::new(target, events, file.to_owned());
    // It ends with the process, or when this is readable.
    let deadline = Deadline::new(None, Some(Duration::from_secs(1)))?;
    let signals = Signals { stop: deadline.as_fd(), switch: None };
    Ok(record(&options, &Host, &machine, signals)?)
}

#[allow(dead_code)] // a test takes this file as a module
#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let process = std::env::args().nth(1).ok_or("which process? Try: record_process PID")?;
    let summary = run(process.parse()?, "perf.data".as_ref())?;
    // None where the kernel (before Linux 6.0) does not count what it drops.
    let lost = summary.info.lost().map_or(String::from("unknown"), |lost| lost.to_string());
    println!("{} samples, lost {lost}, in perf.data", summary.info.samples());
    Ok(())
}
