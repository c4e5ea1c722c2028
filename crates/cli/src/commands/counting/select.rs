//! Events by pattern: `-e '^l2_rqsts|^dtlb'`.

use pmuscope_console::exit::{bad_input, not_possible};
use pmuscope_events::{Catalog, NameKind, list_known, parse};
use regex::RegexBuilder;

use super::Asked;

/// Bounds what a pattern may cost to compile.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// The events of a text: those of perf's syntax if it is that, otherwise all whose name has a match of the
/// regular expression, in any case of letters. Tracepoints are looked through only if the pattern has a
/// colon: there are thousands.
pub(in crate::commands) fn select(
    asked: &mut Asked,
    text: &str,
    catalog: &dyn Catalog,
) -> anyhow::Result<()> {
    let no_event = match parse(text, catalog) {
        Ok(groups) => {
            asked.add_groups(groups);
            return Ok(());
        }
        Err(error) if error.is_of_machine() => return asked.add(text, catalog),
        Err(error) => error,
    };
    let pattern = RegexBuilder::new(text)
        .case_insensitive(true)
        .size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| bad_input(format!("{no_event}; and as a regular expression: {error}")))?;
    let mut names: Vec<String> = list_known(catalog)
        // Both count nothing.
        .filter(|known| known.kind != NameKind::Software || !is_idle(&known.name))
        .map(|known| known.name)
        .filter(|name| pattern.is_match(name))
        .collect();
    if text.contains(':') {
        // Where tracepoints cannot be read, none can be counted either; the pattern then matches nothing.
        let tracepoints = catalog.tracepoints().unwrap_or_default();
        let named = tracepoints.into_iter().map(|(system, name)| format!("{system}:{name}"));
        names.extend(named.filter(|name| pattern.is_match(name)));
    }
    if names.is_empty() {
        let others = catalog.lists().map(|lists| lists.of_other_cpus()).unwrap_or_default();
        let mut others = others.into_iter().filter(|(event, _)| pattern.is_match(&event.name));
        if let Some((event, cpus)) = others.next() {
            let name = event.name;
            return Err(not_possible(format!(
                "-e {text}: no event of this machine has such a name; {name} is in a list for {cpus}. \
                     Try: pmuscope list"
            )));
        }
        return Err(bad_input(format!(
            "-e {text}: no event of this machine has such a name. Try: pmuscope list"
        )));
    }
    for name in names {
        asked.add(&name, catalog)?;
    }
    Ok(())
}

fn is_idle(name: &str) -> bool {
    matches!(name, "dummy" | "bpf-output")
}
