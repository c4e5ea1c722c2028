//! Symbols of builds, and the rows that they make.

use std::path::Path;
use std::sync::Arc;

use pmuscope_dataset::FrameRow;
use pmuscope_symbols::{BuildId, Line, Module, Request, State, Symbol, Symbolizer};
use rustc_hash::FxHashMap;

use crate::ModuleOutcome;
use crate::missing::{Offsets, UnnamedBuild};

/// Paths of a build at which its file is looked for: containers have many for one file.
const PATHS: usize = 8;
/// Lengths of build ids, bytes: of xxHash, of MD5 and UUIDs, of SHA-1.
const LENGTHS: [usize; 3] = [8, 16, 20];

/// A place in code that is the same on all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodePlace<'a> {
    pub(crate) build_id: &'a str,
    /// In the file, bytes.
    pub(crate) offset: u64,
}

/// What was found for some builds.
#[derive(Debug, Default)]
pub(crate) struct BuildNames {
    /// Symbols by build id and offset; builds without any are not there.
    found: FxHashMap<String, FxHashMap<u64, Arc<Symbol>>>,
    outcomes: Vec<ModuleOutcome>,
}

impl BuildNames {
    /// Looks up these offsets, one build after another.
    pub(crate) fn look_up(
        builds: &[UnnamedBuild],
        offsets: &Offsets,
        symbolizer: &mut Symbolizer,
    ) -> Self {
        let mut names = Self::default();
        for build in builds {
            let id = build_id(&build.build_id);
            match id.filter(|_| !build.is_too_large()) {
                Some(id) => names.look_up_build(build, &id, offsets, symbolizer),
                None if build.is_too_large() => {
                    names.refuse(build, "more addresses than any program has");
                }
                None => {
                    names.refuse(build, "its build ID is not hexadecimal or has a wrong length");
                }
            }
        }
        names
    }

    fn look_up_build(
        &mut self,
        build: &UnnamedBuild,
        id: &BuildId,
        offsets: &Offsets,
        symbolizer: &mut Symbolizer,
    ) {
        let of_build = offsets.get(&build.build_id);
        let of_module = |path: &str| of_build.and_then(|of_build| of_build.get(path));
        let requests: Vec<Request<'_>> = build
            .modules
            .iter()
            .enumerate()
            .map(|(at, module)| {
                // The first paths stand for the others.
                let path = Path::new(&build.modules[at % PATHS.min(build.modules.len())].path);
                let addresses = of_module(&module.path).map_or(&[][..], Vec::as_slice);
                Request { module: Module::file(path, Some(id)), addresses }
            })
            .collect();
        let answers = symbolizer.resolve_all_from(&requests);
        let mut found = FxHashMap::default();
        for ((module, request), answer) in build.modules.iter().zip(&requests).zip(answers) {
            let symbols = request.addresses.iter().zip(answer.resolved.symbols);
            let named: Vec<(u64, Arc<Symbol>)> =
                symbols.filter_map(|(&at, symbol)| Some((at, symbol?))).collect();
            self.outcomes.push(ModuleOutcome {
                build_id: build.build_id.clone(),
                module: module.path.clone(),
                addresses: request.addresses.len() as u64,
                named: named.len() as u64,
                state: answer.resolved.state,
                file: answer.file,
            });
            found.extend(named);
        }
        if !found.is_empty() {
            self.found.insert(build.build_id.clone(), found);
        }
    }

    /// Notes that a build was not looked up.
    fn refuse(&mut self, build: &UnnamedBuild, why: &str) {
        self.outcomes.extend(build.modules.iter().map(|module| ModuleOutcome {
            build_id: build.build_id.clone(),
            module: module.path.clone(),
            addresses: module.addresses,
            named: 0,
            state: State::Unreadable(why.to_owned()),
            file: None,
        }));
    }

    /// What came of each module.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &ModuleOutcome> {
        self.outcomes.iter()
    }

    /// Whether any has names.
    pub(crate) fn has_any(&self) -> bool {
        !self.found.is_empty()
    }

    /// The ids of builds that have names.
    pub(crate) fn builds_with_names(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self.found.keys().map(String::as_str).collect();
        ids.sort_unstable();
        ids
    }

    /// The symbol of a place.
    pub(crate) fn get(&self, place: CodePlace<'_>) -> Option<&Symbol> {
        self.found.get(place.build_id)?.get(&place.offset).map(|symbol| &**symbol)
    }
}

/// A build id from the dataset, which leaves out zeros at its end as perf's records do: they are part of the names of
/// debug files.
fn build_id(text: &str) -> Option<BuildId> {
    let digits = text.as_bytes();
    if !digits.iter().all(u8::is_ascii_hexdigit) || !digits.len().is_multiple_of(2) {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let mut bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect::<Option<_>>()?;
    if bytes.is_empty() {
        return None;
    }
    let length = LENGTHS.into_iter().find(|&length| length >= bytes.len())?;
    bytes.resize(length, 0);
    BuildId::new(&bytes).ok()
}

/// The rows of a place with this symbol, as an import with symbols makes them: the function that holds the code, then
/// those that were inlined there. `unnamed` is its row without one.
pub(crate) fn frames<'a>(
    symbol: &'a Symbol,
    unnamed: &'a FrameRow,
) -> impl Iterator<Item = FrameRow> {
    let inlined = symbol.inlined.iter().map(|frame| (&frame.name, &frame.line));
    let functions = [(&symbol.name, &symbol.line)].into_iter().chain(inlined);
    (0..).zip(functions).map(|(inline_depth, (name, line)): (i64, (&Arc<str>, &Option<Line>))| {
        FrameRow {
            inline_depth,
            function: Some(Arc::clone(name)),
            file: line.as_ref().map(|line| Arc::clone(&line.file)),
            line: line.as_ref().and_then(|line| line.number).map(i64::from),
            ..unnamed.clone()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_the_end_of_a_build_id_come_back() {
        let id = |text: &str| build_id(text).map(|id| id.to_string());
        let sha1 = "ab".repeat(20);
        assert_eq!(id(&sha1), Some(sha1.clone()));
        assert_eq!(id(&sha1[..38]), Some(format!("{}00", &sha1[..38])));
        assert_eq!(id(&sha1[..36]), Some(format!("{}0000", &sha1[..36])));
        assert_eq!(id(&"cd".repeat(15)), Some(format!("{}00", "cd".repeat(15))));
        assert_eq!(id("0123456789abcdef"), Some("0123456789abcdef".into()));
        let long = "ab".repeat(21);
        for wrong in ["", "abc", "+1", "xy", "äbä", &long] {
            assert_eq!(id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn inlined_functions_are_rows_of_their_own_with_their_lines() {
        let line = |number| Some(Line { file: "a.c".into(), number: Some(number) });
        let inner = pmuscope_symbols::Frame::named("inner".into(), line(7));
        let symbol =
            Symbol { line: line(3), inlined: vec![inner].into(), ..Symbol::named("outer".into()) };
        let unnamed = FrameRow { stack_id: 5, depth: 2, address: Some(16), ..FrameRow::default() };
        let rows: Vec<FrameRow> = frames(&symbol, &unnamed).collect();
        let short = |row: &FrameRow| (row.inline_depth, row.function.clone().unwrap(), row.line);
        assert_eq!(
            rows.iter().map(short).collect::<Vec<_>>(),
            [(0, "outer".into(), Some(3)), (1, "inner".into(), Some(7))]
        );
        assert!(rows.iter().all(|row| (row.stack_id, row.depth, row.address) == (5, 2, Some(16))));
    }
}
