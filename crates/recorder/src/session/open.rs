//! From options to a session: all events open, none enabled.

use std::sync::OnceLock;

use pmuscope_counters::spawn::HeldChild;
use pmuscope_counters::{EventRequest, Kernel, OpenOptions, RingSize, SamplingSet, Scope};
use pmuscope_machine::{Machine, OwnCgroup, Target, Topology};

use super::scope::{scope, tasks};
use super::sourcing::{self, Sourced};
use super::strobing::Strobing;
use super::threads::open_without_a_gap;
use super::{Session, Signals, budget, rate};
use crate::attributes::{self, KernelFeatures};
use crate::error::RecorderError;
use crate::keep::Keeper;
use crate::options::{RecordOptions, RingChoice};
use crate::sampling_cost::{self, Effort, SamplingCost};
use crate::source::Source;

/// Data area of a ring where the budget allows it: at 25 kHz and 48 bytes 1.7 s of samples, so that
/// the time limit, not the watermark, decides when to drain; fewer, larger drains cost less per sample
/// (docs/benchmarks.md). On large machines half of it: rings are memory that cannot be swapped out.
const RING_BYTES: u64 = 2 << 20;
const RING_BYTES_LARGE_MACHINE: u64 = 1 << 20;
const LARGE_MACHINE_CPUS: usize = 64;
/// At 50 thousand switches per second on a CPU, each with its stack and a waking (600 bytes together), a ring of
/// 8 MiB holds a quarter of a second.
const AMPLE: u64 = 4;

/// What the running kernel can do.
///
/// # Errors
/// It is too old, or does not tell its version.
pub(super) fn features(machine: &Machine) -> Result<KernelFeatures, RecorderError> {
    let version = machine.kernel()?;
    let features = KernelFeatures::new(version.version);
    if !features.is_supported() {
        return Err(RecorderError::OldKernel(version.release));
    }
    Ok(features)
}

/// What is opened, and where.
pub(super) struct Opening<'a> {
    pub(super) options: &'a RecordOptions,
    pub(super) kernel: &'a dyn Kernel,
    pub(super) machine: &'a Machine,
    pub(super) topology: &'a Topology,
    pub(super) features: KernelFeatures,
    pub(super) signals: Signals<'a>,
    pub(super) source: Option<&'a dyn Source>,
}

impl<'a> Opening<'a> {
    /// Opens the events of a target that exists; a command is held as `child`, in `cgroup` if it has one.
    pub(super) fn open(
        self,
        child: Option<&HeldChild>,
        cgroup: Option<&OwnCgroup>,
    ) -> Result<Session<'a>, RecorderError> {
        let Self { options, kernel, machine, topology, features, signals, source } = self;
        let scope = scope(options, machine, topology, child, cgroup)?;
        let features = if options.strobe.is_some() { features.without_loss() } else { features };
        let strobing = Strobing::plan(options, kernel, machine, topology, features, child)?;
        let mut requests = match &strobing {
            Some(strobing) => strobing.requests.clone(),
            None => attributes::requests(options, features)?,
        };
        let cost = sampling_cost(options, kernel, machine, topology, &requests)?;
        rate::check(&requests, |request, effort| match cost {
            Some(cost) => Ok(Some(cost)),
            None => sampling_cost::measure(kernel, machine, topology, request, effort),
        })?;
        let budget = match options.budget {
            None => None,
            Some(target) => {
                let (cpus, inherits) = (topology.online.len(), scope.inherits());
                Some(budget::BudgetPlan::new(target, cost, cpus, inherits, &mut requests)?)
            }
        };
        let ring_size = ring_size(options.ring_size, topology);
        let open = |scope: &Scope| {
            let (requests, options) = (requests.clone(), OpenOptions { ring_size });
            Ok(SamplingSet::open(kernel, machine, topology, scope, requests, options)?)
        };
        let (set, all_threads) = match &options.target {
            Target::Processes(pids) if scope.inherits() => {
                open_without_a_gap(machine, pids, |tids| {
                    open(&tasks(options, topology, tids.to_vec()))
                })?
            }
            _ => (open(&scope)?, true),
        };
        let all_threads = all_threads
            && match source {
                Some(source) => sourcing::observe(source, options, machine, topology, &set)?,
                None => true,
            };
        let source = source.map(|source| Sourced::new(source, set.requests()));
        let phases = strobing
            .map(|strobing| strobing.into_strobe(&set, scope, cgroup, options.clockid))
            .transpose()?;
        let keeps = options.keep_files && options.build_ids && !options.overwrite;
        Ok(Session {
            keeper: keeps.then(|| Keeper::new(&options.target)).flatten(),
            options,
            kernel,
            machine,
            topology,
            features,
            signals,
            set,
            all_threads,
            cost,
            budget,
            phases,
            source,
            enabled: OnceLock::new(),
        })
    }
}

fn ring_size(choice: RingChoice, topology: &Topology) -> RingSize {
    let is_large = topology.online.len() > LARGE_MACHINE_CPUS;
    let useful = if is_large { RING_BYTES_LARGE_MACHINE } else { RING_BYTES };
    match choice {
        RingChoice::Auto => RingSize::AtMost(useful),
        RingChoice::Ample => RingSize::AtMost(AMPLE * useful),
        RingChoice::Bytes(bytes) => RingSize::Exactly(bytes),
    }
}

/// Measures what a sample costs, if that is asked for or the budget needs it.
fn sampling_cost(
    options: &RecordOptions,
    kernel: &dyn Kernel,
    machine: &Machine,
    topology: &Topology,
    requests: &[EventRequest],
) -> Result<Option<SamplingCost>, RecorderError> {
    if options.budget.is_none() && !options.sampling_cost {
        return Ok(None);
    }
    match requests.iter().find(|request| request.attr.sample > 0) {
        Some(request) => sampling_cost::measure(kernel, machine, topology, request, Effort::EXACT),
        None => Ok(None),
    }
}
