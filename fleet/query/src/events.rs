//! Which event a question is about, where nobody says it.

use pmuscope_dataset::MEASURED_EVENTS;

use crate::engine::{Engine, QueryError};
use crate::selection::{Selection, files};

/// How the names of events begin that are time off the CPU.
const OFF_CPU: &str = "off-cpu:";

/// The event of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChosenEvent {
    /// Its name; missing where nothing was recorded.
    pub event: Option<String>,
    /// What weights count: `us`, `thousand`, `one` or `sample`.
    pub weight_unit: Option<String>,
    /// Other events of the selection.
    pub others: Vec<String>,
    /// Samples of the event that count something else, and are left out.
    pub left_out: i64,
}

impl ChosenEvent {
    /// Whether weights are microseconds of CPU time.
    #[must_use]
    pub fn is_cpu_time(&self) -> bool {
        self.is_time() && !self.is_off_cpu()
    }

    /// Whether weights are microseconds, of CPU time or of time off the CPU.
    #[must_use]
    pub fn is_time(&self) -> bool {
        self.weight_unit.as_deref() == Some("us")
    }

    /// Whether it is about time off the CPU.
    #[must_use]
    pub fn is_off_cpu(&self) -> bool {
        self.event.as_deref().is_some_and(|event| event.starts_with(OFF_CPU))
    }
}

/// Narrows a selection to one event, where it names none the one that was recorded longest (time off the CPU only if there
/// is nothing else), and to one unit, and makes the engine show it.
///
/// # Errors
/// Those of the engine.
pub fn choose_event(engine: &Engine, selection: &mut Selection) -> Result<ChosenEvent, QueryError> {
    engine.select(selection, None)?;
    let recorded = "SELECT event, sum(recorded_us) AS recorded_us, sum(samples) AS samples FROM intervals \
                    GROUP BY event ORDER BY recorded_us DESC, samples DESC, event";
    let mut events = engine.rows(recorded)?.texts("event")?;
    // They have no samples.
    events.retain(|event| !MEASURED_EVENTS.contains(&&**event));
    events.sort_by_key(|event| event.starts_with(OFF_CPU));
    let mut events = events.into_iter();
    let mut chosen = ChosenEvent::default();
    if selection.event.is_none() {
        selection.event = events.next();
        chosen.others = events.collect();
        engine.select(selection, None)?;
    }
    chosen.event.clone_from(&selection.event);
    let units = "SELECT weight_unit, sum(samples) AS samples FROM services GROUP BY weight_unit \
                 ORDER BY samples DESC, weight_unit";
    let units = engine.rows(units)?;
    let (names, samples) = (units.texts("weight_unit")?, units.numbers("samples")?);
    chosen.left_out = samples.iter().skip(1).sum();
    chosen.weight_unit = names.into_iter().next();
    selection.weight_unit.clone_from(&chosen.weight_unit);
    engine.select(selection, None)?;
    Ok(chosen)
}

/// Values of a column, all of the dataset, those with most samples first: for messages that say what there is.
///
/// # Errors
/// Those of the engine.
pub fn values(engine: &Engine, column: &str, limit: u64) -> Result<Vec<String>, QueryError> {
    let table = files("samples");
    let sql = format!(
        "SELECT {column}, sum(samples) AS samples FROM {table} WHERE {column} IS NOT NULL GROUP BY {column} \
         ORDER BY samples DESC, {column} LIMIT {limit}"
    );
    engine.rows(&sql)?.texts(column)
}
