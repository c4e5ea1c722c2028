//! The names that mean something on this machine.

use crate::catalog::{Catalog, core_pmus};
use crate::names::{self, Generic};

/// What kind of name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// Counted by the CPU, the same name on every machine.
    Hardware,
    /// Counted by the kernel.
    Software,
    /// A cache of the CPU, the same name on every machine.
    Cache,
    /// Named by the kernel for one unit: `unit/event/`.
    Unit,
    /// Named by an event list.
    Listed,
}

/// A name that [`crate::parse`] takes here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The name.
    pub name: String,
    /// Another name for the same.
    pub synonym: Option<&'static str>,
    /// Its kind.
    pub kind: NameKind,
}

/// All names but those of tracepoints (ask [`Catalog::tracepoints`]). Names of the CPU only where its
/// counters show; whether it counts a particular one, only opening it tells.
pub fn list_known(catalog: &dyn Catalog) -> impl Iterator<Item = Known> {
    let has_cpu = !core_pmus(catalog).is_empty();
    let plain = |name: String, kind| Known { name, synonym: None, kind };
    let of_cpu = move |known: &Known| has_cpu || known.kind == NameKind::Software;
    let hardware = names::HARDWARE.iter().map(|generic| of_table(generic, NameKind::Hardware));
    let software = names::SOFTWARE.iter().map(|generic| of_table(generic, NameKind::Software));
    let cache = names::cache_names().map(move |name| plain(name, NameKind::Cache));
    let generic = hardware.chain(software).chain(cache).filter(of_cpu);
    let units = catalog.pmus().iter().flat_map(move |pmu| {
        let name_of = move |event| format!("{}/{event}/", pmu.name);
        pmu.events.keys().map(move |event| plain(name_of(event), NameKind::Unit))
    });
    let listed = catalog.lists().into_iter().flat_map(|lists| lists.iter());
    let mut last: Option<&str> = None;
    // Each name once, however many units have it.
    let listed = listed.filter(move |one| last.replace(&one.name) != Some(&one.name));
    generic.chain(units).chain(listed.map(move |one| plain(one.name.clone(), NameKind::Listed)))
}

fn of_table(generic: &Generic, kind: NameKind) -> Known {
    Known { name: generic.name.to_owned(), synonym: generic.synonym, kind }
}
