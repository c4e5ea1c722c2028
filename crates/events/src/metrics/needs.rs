//! From metrics to the events that have to be counted for them on a machine.

use super::{Metric, Metrics};
use crate::catalog::Catalog;
use crate::error::EventError;
use crate::event::Event;
use crate::resolve::parse_known;

/// What has to be counted for a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// The metric.
    pub metric: String,
    /// Its formulas, of which one is enough: the first whose events the machine counts.
    pub ways: Vec<Vec<NeededEvent>>,
}

/// An event of a formula.
#[derive(Debug, Clone, PartialEq)]
pub struct NeededEvent {
    /// The name that stands for it ([`Metrics::canonical`]).
    pub name: String,
    /// All its names, the formula's own first.
    pub names: Vec<String>,
    /// What these names are on this machine, in user mode; whether its PMU counts any of it is for the
    /// kernel to say.
    pub events: Vec<Event>,
}

impl Metrics {
    /// What has to be counted for a metric on the machine that `catalog` knows.
    ///
    /// # Errors
    /// A machine without a PMU; names that it does not know are no error, they have no events.
    pub fn need(&self, metric: &Metric, catalog: &dyn Catalog) -> Result<Need, EventError> {
        let mut ways = Vec::new();
        for formula in &metric.formulas {
            let mut way: Vec<NeededEvent> = Vec::new();
            for variable in formula.variables() {
                let name = self.canonical(&variable.event);
                if way.iter().all(|known| known.name != name) {
                    way.push(self.counted(name, &variable.event, catalog)?);
                }
            }
            ways.push(way);
        }
        Ok(Need { metric: metric.name.clone(), ways })
    }

    fn counted(
        &self,
        name: String,
        written: &str,
        catalog: &dyn Catalog,
    ) -> Result<NeededEvent, EventError> {
        let mut others: Vec<&str> = self
            .aliases
            .iter()
            .filter(|(_, of)| **of == name)
            .map(|(other, _)| &other[..])
            .collect();
        others.sort_unstable();
        let mut names = vec![written.to_owned()];
        for other in std::iter::once(&name[..]).chain(others) {
            if !names.iter().any(|known| known.eq_ignore_ascii_case(other)) {
                names.push(other.to_owned());
            }
        }
        let mut events: Vec<Event> = Vec::new();
        for known in &names {
            match parse_known(&format!("{known}:u"), catalog) {
                Ok(groups) => events.extend(groups.into_iter().flat_map(|group| group.events)),
                Err(error) if error.is_of_machine() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(NeededEvent { name, names, events })
    }

    /// Up to three metrics and groups that `typed` may have meant, nearest first.
    #[must_use]
    pub fn nearest(&self, typed: &str) -> Vec<String> {
        let names = self.list.iter().map(|one| &one.name[..]).chain(self.groups());
        crate::suggest::nearest(typed, names)
    }
}
