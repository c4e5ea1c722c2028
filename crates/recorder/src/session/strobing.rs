//! Windows in a recording: what is planned before events are opened, and what the main thread does
//! while readers work ([`crate::strobe`]).

use std::cell::{RefCell, RefMut};
use std::path::PathBuf;

use pmuscope_counters::spawn::HeldChild;
use pmuscope_counters::{EventRequest, Kernel, SamplingSet, Scope};
use pmuscope_machine::{Machine, OwnCgroup, Topology};
use pmuscope_perfdata::strobe::{EpochUpdate, StrobeInfo};

use super::Session;
use super::sourcing::Sourced;
use crate::attributes::{self, KernelFeatures};
use crate::control::ControlState;
use crate::error::RecorderError;
use crate::options::RecordOptions;
use crate::strobe::{Strobe, StrobePlan};

/// A strobed recording before its events are open.
pub(super) struct Strobing {
    pub(super) requests: Vec<EventRequest>,
    plan: StrobePlan,
    info: StrobeInfo,
}

impl Strobing {
    /// `None` for a recording without windows.
    pub(super) fn plan(
        options: &RecordOptions,
        kernel: &dyn Kernel,
        machine: &Machine,
        topology: &Topology,
        features: KernelFeatures,
        child: Option<&HeldChild>,
    ) -> Result<Option<Self>, RecorderError> {
        let Some(strobe) = &options.strobe else { return Ok(None) };
        let events: Vec<_> = options.events().cloned().collect();
        let plan = StrobePlan::new(strobe, &events, kernel, machine, topology)?;
        let (requests, groups) = attributes::strobed(options, features, strobe, &plan)?;
        let name = events.first().map_or("", |event| &event.name);
        let info = plan.info(strobe, name, child.map(HeldChild::pid), groups);
        Ok(Some(Self { requests, plan, info }))
    }

    /// The phases to be set; `cgroup` is the one made for the command.
    pub(super) fn into_strobe(
        self,
        set: &SamplingSet,
        scope: Scope,
        cgroup: Option<&OwnCgroup>,
        clockid: i32,
    ) -> Result<Phases, RecorderError> {
        let mut below = None;
        let directory = match (cgroup, &scope) {
            (Some(cgroup), _) => Some(cgroup.directory().to_owned()),
            (None, Scope::Cgroup { directory, .. }) => {
                // Cgroups that have others below may not have members of their own.
                let cgroup = below.insert(cgroup_below(directory)?);
                Some(cgroup.directory().to_owned())
            }
            (None, _) => None,
        };
        let strobe = Strobe::new(self.plan, self.info, scope, directory, set, clockid);
        Ok(Phases { strobe: RefCell::new(strobe), _cgroup: below })
    }
}

/// A cgroup for our helper below another one, which counts it too.
fn cgroup_below(directory: &std::os::fd::OwnedFd) -> Result<OwnCgroup, RecorderError> {
    use std::os::fd::AsRawFd as _;
    let link = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let path = std::fs::read_link(link).map_err(RecorderError::system("readlink"))?;
    OwnCgroup::below(&path).map_err(|(path, source)| RecorderError::OwnCgroup { path, source })
}

/// The phases of a recording, and the cgroup that their helper is in.
#[derive(Debug)]
pub(super) struct Phases {
    strobe: RefCell<Strobe>,
    /// Goes after the helper.
    _cgroup: Option<OwnCgroup>,
}

impl Session<'_> {
    /// Only the main thread sets phases, and never while it does so already.
    pub(super) fn strobe(&self) -> Option<RefMut<'_, Strobe>> {
        Some(self.phases.as_ref()?.strobe.borrow_mut())
    }

    /// Looks at the phases of all CPUs, and leaves in the stream what became known.
    pub(super) fn look_after_strobe(&self, shared: &ControlState<'_>) {
        if let Some(mut strobe) = self.strobe() {
            let update = strobe.update(self.kernel, &self.set, self.machine.online_cpus().as_ref());
            if !update.opened.is_empty() {
                shared.add_ids(update.opened.iter().map(|id| (id.id, id.event as usize)));
            }
            drop(strobe);
            leave(shared, &update);
        }
    }

    /// Ids of an event's descriptors, those that were opened later too.
    pub(super) fn ids(&self, event: usize) -> Vec<u64> {
        let mut ids = self.set.ids(event);
        let sourced = self.source.iter().flat_map(Sourced::ids);
        ids.extend(sourced.filter(|(_, of)| *of == event).map(|(id, _)| id));
        ids.extend(self.strobe().iter().flat_map(|strobe| strobe.reopened_ids(event)));
        ids
    }
}

fn leave(shared: &ControlState<'_>, update: &EpochUpdate) {
    let mut record = Vec::new();
    update.append_record(&mut record);
    if !record.is_empty() {
        shared.output().append(&record);
    }
}
