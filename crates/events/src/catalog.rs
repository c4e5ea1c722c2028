//! What this crate asks of the machine.

use pmuscope_machine::{Machine, MachineError, Pmu};

use crate::lists::Lists;

/// What the machine has: units and tracepoints. [`MachineCatalog`] is the real one.
pub trait Catalog {
    /// The performance monitoring units, by name.
    fn pmus(&self) -> &[Pmu];

    /// The `attr.config` of a tracepoint.
    ///
    /// # Errors
    /// As [`Machine::tracepoint_id`]: no tracefs, no right to read it, or no such tracepoint.
    fn tracepoint_id(&self, system: &str, name: &str) -> Result<u64, MachineError>;

    /// All tracepoints as (system, name).
    ///
    /// # Errors
    /// As [`Machine::tracepoints`]: no tracefs, or no right to read it.
    fn tracepoints(&self) -> Result<Vec<(String, String)>, MachineError>;

    /// Event lists, where there are any.
    fn lists(&self) -> Option<&Lists> {
        None
    }
}

/// A machine whose units have been read once.
#[derive(Debug)]
pub struct MachineCatalog<'m> {
    machine: &'m Machine,
    pmus: Vec<Pmu>,
    lists: Option<Lists>,
}

impl<'m> MachineCatalog<'m> {
    /// Reads the units of `machine`; tracepoints are read when asked for.
    ///
    /// # Errors
    /// If the list of units cannot be read.
    pub fn new(machine: &'m Machine) -> Result<Self, MachineError> {
        Ok(Self { machine, pmus: machine.pmus()?, lists: None })
    }

    /// With the names of `lists`, which are looked at after the kernel's own.
    #[must_use]
    pub fn with_lists(self, lists: Lists) -> Self {
        Self { lists: Some(lists), ..self }
    }
}

impl Catalog for MachineCatalog<'_> {
    fn pmus(&self) -> &[Pmu] {
        &self.pmus
    }

    fn tracepoint_id(&self, system: &str, name: &str) -> Result<u64, MachineError> {
        self.machine.tracepoint_id(system, name)
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, MachineError> {
        self.machine.tracepoints()
    }

    fn lists(&self) -> Option<&Lists> {
        self.lists.as_ref()
    }
}

/// The units that count instructions and cycles of a core; more than one on a hybrid CPU.
pub(crate) fn core_pmus(catalog: &dyn Catalog) -> Vec<&Pmu> {
    catalog.pmus().iter().filter(|pmu| pmu.is_core()).collect()
}
