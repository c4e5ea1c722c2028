//! What a recording would open, without opening it.

use pmuscope_counters::EventRequest;
use pmuscope_machine::Machine;

use crate::attributes::{self, KernelFeatures, LEFT_TO_FIRST};
use crate::error::RecorderError;
use crate::options::RecordOptions;
use crate::plan::plan;
use crate::strobe::StrobePlan;

/// The requests and readers of a recording.
#[derive(Debug)]
pub struct Preview {
    /// The requests, in the order of the file.
    pub requests: Vec<EventRequest>,
    /// CPUs of the rings, for each reader.
    pub readers: Vec<String>,
}

/// What this kernel cannot do of what is asked for; the recording does without it, and says so.
///
/// # Errors
/// The kernel's version cannot be read.
pub fn reduced(
    options: &RecordOptions,
    machine: &Machine,
) -> Result<Option<&'static str>, RecorderError> {
    let features = KernelFeatures::new(machine.kernel()?.version);
    Ok(attributes::is_left_to_first(options, features).then_some(LEFT_TO_FIRST))
}

/// Works out what [`record`](crate::record) would open for a target that exists; a command is not started.
///
/// # Errors
/// As [`record`](crate::record), for what can be known without opening anything.
pub fn preview(options: &RecordOptions, machine: &Machine) -> Result<Preview, RecorderError> {
    let topology = machine.topology()?;
    let features = KernelFeatures::new(machine.kernel()?.version);
    let requests = match &options.strobe {
        Some(strobe) => {
            let events: Vec<_> = options.events().cloned().collect();
            let plan = StrobePlan::preview(strobe, &events)?;
            attributes::strobed(options, features.without_loss(), strobe, &plan)?.0
        }
        None => attributes::requests(options, features)?,
    };
    let cpus = options.target.cpus(&topology.online);
    let ring_cpus: Vec<Option<u32>> = cpus.iter().map(Some).collect();
    let plans = plan(&options.readers, &ring_cpus, &topology)?;
    Ok(Preview { requests, readers: plans.iter().map(|plan| plan.cpus.to_string()).collect() })
}
