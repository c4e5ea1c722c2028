//! `system:name`, with patterns in either.

use std::cell::OnceCell;

use pmuscope_machine::MachineError;

use crate::catalog::Catalog;
use crate::error::{Fault, Reason};
use crate::glob;
use crate::suggest::nearest;
use crate::syntax::TextPiece;

/// The tracepoints of a catalog; the list is read at most once, as it has thousands of files.
pub(crate) struct Tracepoints<'c> {
    catalog: &'c dyn Catalog,
    all: OnceCell<Vec<(String, String)>>,
    /// Whether what may have been meant is looked for.
    offers: bool,
}

/// One tracepoint: `system:name` and its `attr.config`.
pub(crate) struct Tracepoint {
    pub(crate) name: String,
    pub(crate) id: u64,
}

impl<'c> Tracepoints<'c> {
    pub(crate) fn new(catalog: &'c dyn Catalog, offers: bool) -> Self {
        Self { catalog, all: OnceCell::new(), offers }
    }

    /// The tracepoints that `system` and `name` mean, at least one.
    pub(crate) fn find(
        &self,
        system: TextPiece<'_>,
        name: TextPiece<'_>,
    ) -> Result<Vec<Tracepoint>, Fault> {
        if !glob::is_pattern(system.text) && !glob::is_pattern(name.text) {
            return self.one(system.text, name.text).map(|one| vec![one]).map_err(|error| {
                let nearest = match error {
                    MachineError::NoTracepoint { .. } if self.offers => {
                        self.nearest(system.text, name.text)
                    }
                    _ => Vec::new(),
                };
                both(system, name).fault(Reason::Tracepoint { error, nearest })
            });
        }
        let fault = |error| both(system, name).fault(Reason::Tracepoint { error, nearest: vec![] });
        let all = self.all().map_err(fault)?;
        let is_meant = |(s, n): &&(String, String)| {
            glob::matches(system.text, s) && glob::matches(name.text, n)
        };
        let found: Result<Vec<_>, _> =
            all.iter().filter(is_meant).map(|(s, n)| self.one(s, n)).collect();
        let found = found.map_err(fault)?;
        if found.is_empty() {
            return Err(both(system, name).fault(Reason::NoMatch));
        }
        Ok(found)
    }

    /// Whether any tracepoint is of this system; no if that cannot be told.
    pub(crate) fn has_system(&self, system: &str) -> bool {
        self.all().is_ok_and(|all| all.iter().any(|(s, _)| s == system))
    }

    fn one(&self, system: &str, name: &str) -> Result<Tracepoint, MachineError> {
        let id = self.catalog.tracepoint_id(system, name)?;
        Ok(Tracepoint { name: format!("{system}:{name}"), id })
    }

    fn nearest(&self, system: &str, name: &str) -> Vec<String> {
        let Ok(all) = self.all() else { return Vec::new() };
        nearest(&format!("{system}:{name}"), all.iter().map(|(s, n)| format!("{s}:{n}")))
    }

    fn all(&self) -> Result<&[(String, String)], MachineError> {
        if let Some(all) = self.all.get() {
            return Ok(all);
        }
        let all = self.catalog.tracepoints()?;
        Ok(self.all.get_or_init(|| all))
    }
}

/// From the system to the end of the name; they stand next to each other around a colon.
fn both<'t>(system: TextPiece<'t>, name: TextPiece<'t>) -> Span {
    Span { at: system.at, len: name.at + name.text.len() - system.at }
}

struct Span {
    at: usize,
    len: usize,
}

impl Span {
    fn fault(&self, reason: Reason) -> Fault {
        Fault::new(self.at, self.len, reason)
    }
}
