//! What was found, with names, line by line.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use pmuscope_perfdata::reader::Metadata;
use pmuscope_stats::{Interval, Shares};
use pmuscope_symbols::definitions::PartLayout;
use pmuscope_symbols::{DataObject, KernelIdentity, Module, Symbolizer};
use rustc_hash::{FxHashMap, FxHashSet};

use super::advice::{LineUses, PartQuery, advise, queries};
use super::by_code::{self, LineCode, TypeModules};
use super::detail::{AccessKey, LineDetails, LineMemory, NO_CPU, PAGE};
use super::diff::per_second;
use super::key::{LineSpace, is_of_kernel};
use super::pairs::{CodeUse, LinePair, pairs};
use super::sums::{AccessSums, ClassSums};
use super::verdict::{LineVerdict, WordUse, judge};
use super::{
    LineMapping, LineOffset, LinePage, LineRow, MOST_WITH_FIELDS, Options, Ranked, SharedLine,
    SharedLines, resolve,
};
use crate::count::group::TaskKey;
use crate::hits::{Site, Thread};
use crate::names::naming::{look_up, objects};
use crate::timeline::areas::{Areas, lossy};
use crate::timeline::blocks::MOST;
use crate::timeline::modules::ModuleKind;
use crate::timeline::sideband::Sideband;
use crate::timeline::tasks::ModuleAddress;

/// What names come from.
pub(super) struct LineNaming<'a> {
    pub(super) state: &'a Sideband,
    pub(super) metadata: &'a Metadata,
    pub(super) running: &'a KernelIdentity,
    pub(super) symbolizer: &'a mut Symbolizer,
    pub(super) areas: &'a Areas,
}

pub(super) fn lines(
    ranked: &Ranked,
    found: LineDetails,
    mut naming: LineNaming<'_>,
    &Options { line_bytes, physical, .. }: &Options,
) -> SharedLines {
    let (sites, of_place) = naming.sites(&found.places.list);
    let (threads, of_task) = naming.threads(&found);
    let intervals = intervals(ranked, &found);
    let seconds = ranked.times.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
    let blocks = ranked.clock.len();
    let of_blocks = |blocks: Option<&[f64]>, sums: &AccessSums| {
        per_second(blocks.unwrap_or_default(), seconds, sums.contended())
    };
    let cell = |(key, sums): (AccessKey, ClassSums)| {
        (AccessKey { task: of_task[key.task as usize], ..key }, sums)
    };
    let mut cells: Vec<(AccessKey, ClassSums)> = found.cells.into_iter().map(cell).collect();
    cells.sort_unstable_by_key(|(key, _)| *key);
    let mut lines: Vec<SharedLine> = Vec::with_capacity(ranked.keys.len());
    let mut uses: Vec<WordUses> = Vec::with_capacity(ranked.keys.len());
    let mut mappings = mappings(&found.mappings);
    let mut pages = naming.pages(&found.pages);
    let mut codes: Vec<LineCode> = Vec::new();
    let mut rest = &cells[..];
    for (number, key) in ranked.keys.iter().enumerate() {
        let of_line = rest.partition_point(|(key, _)| key.line as usize == number);
        let (cells, further) = rest.split_at(of_line);
        rest = further;
        let Some(memory) = found.memory[number] else { continue };
        let (mut line, of_line) = of_cells(cells, &of_place);
        uses.push(of_line);
        if codes.len() < MOST_WITH_FIELDS {
            codes.push(by_code::of_cells(cells));
        }
        line.address = memory.address & !u64::from(line_bytes - 1);
        line.pid = matches!(key.space, LineSpace::Process(_)).then_some(memory.pid);
        line.in_kernel = match key.space {
            LineSpace::Physical => is_of_kernel(memory.address),
            space => space == LineSpace::Kernel,
        };
        line.physical = (key.space == LineSpace::Physical).then_some(key.first);
        line.mappings = mappings.remove(&(number as u32)).unwrap_or_default();
        line.page = pages.remove(&(number as u32)).unwrap_or_default();
        line.interval = intervals.get(number).copied().flatten();
        let series = found.series.chunks(MOST as usize).nth(number);
        line.cost_per_s = series.and_then(|all| of_blocks(all.get(..blocks), &line.sums));
        for offset in &mut line.offsets {
            let latencies = found.latencies.get(&(number as u32, offset.offset as u16));
            offset.contended_p90 = latencies.and_then(|all| ninety_percent(all));
        }
        lines.push(line);
    }
    let memory: Vec<LineMemory> = found.memory.iter().flatten().copied().collect();
    let firsts = naming.objects(&memory, &mut lines);
    let (by_code, modules) = naming.by_code(&found.places.list, &mut lines, &codes);
    let mut of_words = Vec::with_capacity(lines.len());
    for (line, uses) in lines.iter_mut().zip(&uses) {
        let words;
        (line.verdict, line.pairs, words) = judged(line, uses);
        of_words.push(words);
    }
    let parts = naming.parts((&firsts, &modules), queries(&lines, &of_words, MOST_WITH_FIELDS));
    let has_cost = ranked.memory.sums.cost > 0;
    advise(&mut lines, &of_words, &parts, (line_bytes, has_cost));
    let (memory, further_lines) = (ranked.memory, ranked.further);
    let cost_per_s = of_blocks(found.totals.get(..blocks), &memory.sums);
    SharedLines {
        lines,
        further_lines,
        memory,
        by_code,
        heap: None,
        sites,
        threads,
        line_bytes,
        physical,
        seconds,
        cost_per_s,
    }
}

impl LineNaming<'_> {
    /// By line: which nodes had its memory.
    fn pages(&self, found: &FxHashMap<(u32, u64), u64>) -> FxHashMap<u32, LinePage> {
        let mut all: FxHashMap<u32, LinePage> = FxHashMap::default();
        for (&(line, page), &accesses) in found {
            let node = self.metadata.memory_nodes.node_of(page * PAGE);
            let LinePage { nodes, places } = all.entry(line).or_default();
            *places += 1;
            match nodes.iter_mut().find(|one| one.0 == node) {
                Some(one) => one.1 += accesses,
                None => nodes.push((node, accesses)),
            }
        }
        let sort = |page: &mut LinePage| {
            page.nodes
                .sort_unstable_by_key(|&(node, accesses)| (std::cmp::Reverse(accesses), node));
        };
        all.values_mut().for_each(sort);
        all
    }
}

/// By line: where processes have it, in order.
fn mappings(found: &FxHashSet<(u32, Option<i32>, u64)>) -> FxHashMap<u32, Vec<LineMapping>> {
    let mut all: FxHashMap<u32, Vec<LineMapping>> = FxHashMap::default();
    for &(line, pid, address) in found {
        all.entry(line).or_default().push(LineMapping { pid, address });
    }
    all.values_mut().for_each(|mappings| mappings.sort_unstable());
    all
}

/// Accesses by offset, code and thread.
type WordUses = BTreeMap<(u32, u32, u32), AccessSums>;

/// Of the lines that have their cost by time.
fn intervals(ranked: &Ranked, found: &LineDetails) -> Vec<Option<Interval>> {
    let blocks = ranked.clock.len();
    let totals = found.totals.get(..blocks).unwrap_or_default();
    let Some(shares) = Shares::new(totals) else { return Vec::new() };
    let of_line = |line: &[f64]| shares.share(&line[..blocks])?.interval;
    found.series.chunks(MOST as usize).map(of_line).collect()
}

/// What nine in ten do not exceed: the smallest value with that many up to it.
fn ninety_percent(latencies: &[u32]) -> Option<u64> {
    let mut latencies = latencies.to_vec();
    let at = (latencies.len() * 9).div_ceil(10).checked_sub(1)?;
    (latencies.len() >= 10).then(|| u64::from(*latencies.select_nth_unstable(at).1))
}

/// A line without what its memory is; `cells` are in order.
fn of_cells(cells: &[(AccessKey, ClassSums)], of_place: &[u32]) -> (SharedLine, WordUses) {
    let mut line = SharedLine {
        address: 0,
        pid: None,
        physical: None,
        mappings: Vec::new(),
        page: LinePage::default(),
        in_kernel: false,
        module: Arc::from(""),
        sums: AccessSums::default(),
        interval: None,
        cost_per_s: None,
        verdict: judge(&[]),
        offsets: Vec::new(),
        rows: Vec::new(),
        pairs: Vec::new(),
        threads: Vec::new(),
        cpus: Vec::new(),
        heap_objects: Vec::new(),
        advice: Vec::new(),
    };
    let mut threads: BTreeMap<u32, AccessSums> = BTreeMap::new();
    let mut cpus: BTreeMap<u32, AccessSums> = BTreeMap::new();
    let mut rows: BTreeMap<(u32, u32), LineRow> = BTreeMap::new();
    let mut uses = WordUses::new();
    for (key, sums) in cells {
        let (offset, site) = (u32::from(key.offset), of_place[key.place as usize]);
        let mut of_cell = AccessSums::default();
        of_cell.add_class((key.class, key.marks), sums);
        let sums = &of_cell;
        line.sums.add(sums);
        threads.entry(key.task).or_default().add(sums);
        cpus.entry(key.cpu).or_default().add(sums);
        uses.entry((offset, site, key.task)).or_default().add(sums);
        let row = rows.entry((offset, site)).or_insert_with(|| LineRow {
            offset,
            site,
            sums: AccessSums::default(),
            threads: Vec::new(),
            cpus: Vec::new(),
        });
        row.sums.add(sums);
        row.threads.push(key.task);
        row.cpus.extend(Some(key.cpu).filter(|&cpu| cpu != NO_CPU));
        match line.offsets.last_mut().filter(|last| last.offset == offset) {
            Some(last) => last.sums.add(sums),
            None => {
                line.offsets.push(LineOffset {
                    offset,
                    object: None,
                    type_name: None,
                    field: None,
                    within: None,
                    heap_object: None,
                    word: offset,
                    sums: *sums,
                    contended_p90: None,
                });
            }
        }
    }
    let known = |(cpu, sums)| (Some(cpu).filter(|&cpu| cpu != NO_CPU), sums);
    line.cpus = cpus.into_iter().map(known).collect();
    line.threads = threads.into_iter().collect();
    let accesses = |sums: &AccessSums| sums.loads() + sums.stores();
    line.threads.sort_by_key(|(thread, sums)| (std::cmp::Reverse(accesses(sums)), *thread));
    line.rows = rows.into_values().collect();
    for row in &mut line.rows {
        for list in [&mut row.threads, &mut row.cpus] {
            list.sort_unstable();
            list.dedup();
        }
    }
    let rank = |sums: &AccessSums| (sums.cost, sums.contended(), accesses(sums));
    line.rows.sort_by_key(|row| (row.offset, std::cmp::Reverse(rank(&row.sums)), row.site));
    (line, uses)
}

/// The verdict on a line, and who writes what others wait for, once its words are known.
fn judged(line: &SharedLine, uses: &WordUses) -> (LineVerdict, Vec<LinePair>, LineUses) {
    let word = |offset: u32| {
        let found = line.offsets.iter().find(|one| one.offset == offset);
        found.map_or(offset, |one| one.word)
    };
    let mut of_words: BTreeMap<(u32, u32), (WordUse, u64)> = BTreeMap::new();
    let mut of_code: BTreeMap<(u32, u32, u32), CodeUse> = BTreeMap::new();
    for (&(offset, site, thread), sums) in uses {
        let word = word(offset);
        let (contended, cost, writes) = (sums.contended(), sums.cost, sums.writes());
        let (one, accesses) = of_words.entry((word, thread)).or_default();
        *accesses += sums.loads() + sums.stores();
        let (all, of_cost) = (one.contended + contended, one.cost.saturating_add(cost));
        *one = WordUse { word, thread, contended: all, cost: of_cost, writes: one.writes + writes };
        let one = of_code.entry((word, site, thread)).or_default();
        let (all, of_cost) = (one.contended + contended, one.cost.saturating_add(cost));
        let writes = one.writes + writes;
        *one = CodeUse { word, site, thread, contended: all, cost: of_cost, writes };
    }
    let words: LineUses = of_words.into_values().collect();
    let verdict = judge(&words.iter().map(|one| one.0).collect::<Vec<_>>());
    (verdict, pairs(&of_code.into_values().collect::<Vec<_>>()), words)
}

impl LineNaming<'_> {
    /// Functions and lines of places, and the number of each place's.
    fn sites(&mut self, places: &[ModuleAddress]) -> (Vec<Site>, Vec<u32>) {
        let kernel = self.state.kernel_identity(self.metadata).compare(self.running);
        for (pid, path) in &self.state.jit_dumps {
            self.symbolizer.add_jit_dump(*pid, path.clone());
        }
        let addresses = self.by_module(places.iter().copied());
        let resolve = &mut resolve(self.symbolizer);
        let found = look_up(self.state, &addresses, self.metadata, kernel, resolve);
        let site = |place: &ModuleAddress| {
            let (symbols, module) = &found[place.module as usize];
            let at = addresses[place.module as usize].binary_search(&place.address);
            let symbol = at.ok().and_then(|at| symbols[at].as_deref());
            Site::new(symbol, module.path.as_str().into(), place.address)
        };
        Site::numbered(&places.iter().map(site).collect::<Vec<_>>())
    }

    /// Addresses of all modules, each once and in order.
    pub(super) fn by_module(&self, places: impl Iterator<Item = ModuleAddress>) -> Vec<Vec<u64>> {
        let mut addresses = vec![Vec::new(); self.state.modules.list().len()];
        places.for_each(|place| addresses[place.module as usize].push(place.address));
        for addresses in &mut addresses {
            addresses.sort_unstable();
            addresses.dedup();
        }
        addresses
    }

    /// Threads in order, and the number of each task's: a thread that changed its name is one, by one of its names.
    fn threads(&self, found: &LineDetails) -> (Vec<Thread>, Vec<u32>) {
        let id = |task: &TaskKey| (task.pid.unwrap_or(-1), task.tid.unwrap_or(-1));
        let mut names: BTreeMap<(i32, i32), Arc<str>> = BTreeMap::new();
        for task in &found.tasks.list {
            let name = lossy(&self.state.tasks.shown(task.comm));
            let known = names.entry(id(task)).or_insert_with(|| Arc::clone(&name));
            *known = Arc::clone((&*known).max(&name));
        }
        let numbers: BTreeMap<(i32, i32), u32> = names.keys().copied().zip(0..).collect();
        let thread = |((pid, tid), command)| Thread { pid, tid, command };
        let of_task = found.tasks.list.iter().map(|task| numbers[&id(task)]).collect();
        (names.into_iter().map(thread).collect(), of_task)
    }

    /// Names the memory of lines and the variables at their offsets. Where the first bytes of lines are in files.
    fn objects(
        &mut self,
        memory: &[LineMemory],
        lines: &mut [SharedLine],
    ) -> Vec<Option<ModuleAddress>> {
        // By module: where the data of its file end.
        let mut ends: FxHashMap<u32, Option<u64>> = FxHashMap::default();
        let mut firsts: Vec<Option<ModuleAddress>> = Vec::with_capacity(lines.len());
        for (memory, line) in memory.iter().zip(&mut *lines) {
            let modules = self.state.modules.list();
            let path = |place: ModuleAddress| &modules[place.module as usize].path;
            let within = memory.address - line.address;
            let past_end = memory.spot.past_end.filter(|past| {
                let end = ends.entry(past.module).or_insert_with(|| {
                    self.symbolizer.data_end(Path::new(OsStr::from_bytes(path(*past))))
                });
                *end > Some(past.address)
            });
            let place = past_end.unwrap_or(memory.spot.place);
            let is_memory = matches!(modules[place.module as usize].kind, ModuleKind::Jit { .. });
            let area = self.areas.get(memory.pid, memory.address).filter(|_| is_memory);
            line.module = area.unwrap_or_else(|| lossy(path(place)));
            let first = place.address.checked_sub(within).filter(|_| !is_memory);
            firsts.push(first.map(|address| ModuleAddress { address, ..place }));
        }
        let (near, far) = lines.split_at_mut(lines.len().min(MOST_WITH_FIELDS));
        let (firsts_near, firsts_far) = firsts.split_at(near.len());
        self.name_offsets(firsts_near, near, |module, addresses| {
            self.symbolizer.data_objects(module, addresses)
        });
        self.name_offsets(firsts_far, far, |module, addresses| {
            let names = self.symbolizer.objects(module, addresses).into_iter();
            let object = |name| DataObject { name, offset: 0, field: None };
            names.map(|name| name.map(object)).collect()
        });
        // These have no place in their variables.
        far.iter_mut().flat_map(|line| &mut line.offsets).for_each(|offset| offset.within = None);
        firsts
    }

    /// Layouts of the parts of variables that advice is asked for; `firsts` are the places of the lines' first bytes.
    fn parts(
        &self,
        (firsts, modules): (&[Option<ModuleAddress>], &TypeModules),
        queries: Vec<PartQuery>,
    ) -> Vec<(PartQuery, Option<PartLayout>)> {
        let (types, queries): (Vec<PartQuery>, Vec<PartQuery>) =
            queries.into_iter().partition(|query| query.is_type);
        let mut all = self.parts_of_types(modules, types);
        let mut groups: Vec<Vec<Vec<u64>>> = vec![Vec::new(); self.state.modules.list().len()];
        let mut places = Vec::with_capacity(queries.len());
        for query in &queries {
            let first = firsts.get(query.line).copied().flatten();
            places.push(first.map(|first| {
                let group = &mut groups[first.module as usize];
                let offsets = query.offsets.iter().map(|offset| first.address + u64::from(*offset));
                group.push(offsets.collect());
                (first.module as usize, group.len() - 1)
            }));
        }
        let kernel = self.state.kernel_identity(self.metadata).compare(self.running);
        let find =
            |module: &Module<'_>, groups: &[Vec<u64>]| self.symbolizer.part_layouts(module, groups);
        let found = objects(self.state, &groups, self.metadata, kernel, find);
        let layout = |place: Option<(usize, usize)>| {
            let (module, at) = place?;
            found[module].get(at)?.clone()
        };
        all.extend(queries.into_iter().zip(places).map(|(query, place)| (query, layout(place))));
        all
    }

    /// The same of objects without variables, by their types.
    fn parts_of_types(
        &self,
        modules: &TypeModules,
        queries: Vec<PartQuery>,
    ) -> Vec<(PartQuery, Option<PartLayout>)> {
        let mut groups: Vec<Vec<(Arc<str>, Vec<u64>)>> =
            vec![Vec::new(); self.state.modules.list().len()];
        let mut places = Vec::with_capacity(queries.len());
        for query in &queries {
            let module = modules.get(&(query.line, Arc::clone(&query.variable)));
            places.push(module.map(|&module| {
                let group = &mut groups[module as usize];
                group.push((Arc::clone(&query.variable), query.within.clone()));
                (module as usize, group.len() - 1)
            }));
        }
        let kernel = self.state.kernel_identity(self.metadata).compare(self.running);
        let found = objects(self.state, &groups, self.metadata, kernel, |module, groups| {
            self.symbolizer.type_part_layouts(module, groups)
        });
        let layout = |place: Option<(usize, usize)>| {
            let (module, at) = place?;
            found[module].get(at)?.clone()
        };
        queries.into_iter().zip(places).map(|(query, place)| (query, layout(place))).collect()
    }

    /// Names what is at the offsets of lines; `firsts` are the places of their first bytes.
    fn name_offsets(
        &self,
        firsts: &[Option<ModuleAddress>],
        lines: &mut [SharedLine],
        find: impl Fn(&Module<'_>, &[u64]) -> Vec<Option<DataObject>>,
    ) {
        let at = |first: &Option<ModuleAddress>, offset: u32| {
            first.map(|one| ModuleAddress { address: one.address + u64::from(offset), ..one })
        };
        let each = firsts.iter().zip(&*lines).flat_map(|(first, line)| {
            line.offsets.iter().filter_map(move |offset| at(first, offset.offset))
        });
        let addresses = self.by_module(each);
        let kernel = self.state.kernel_identity(self.metadata).compare(self.running);
        let found = objects(self.state, &addresses, self.metadata, kernel, find);
        for (first, line) in firsts.iter().zip(lines) {
            for offset in &mut line.offsets {
                let Some(place) = at(first, offset.offset) else { continue };
                let module = place.module as usize;
                let number = addresses[module].binary_search(&place.address);
                let object = number.ok().and_then(|at| found[module][at].as_ref());
                let Some(DataObject { name, offset: into, field }) = object else { continue };
                offset.object = Some(Arc::clone(name));
                offset.within = Some(*into);
                let Some(field) = field.as_ref().filter(|field| !field.is_padding) else {
                    continue;
                };
                offset.field = Some(&*field.path).filter(|path| !path.is_empty()).map(Arc::from);
                // One that begins in the line before has all of its bytes here in one word.
                let before = into.saturating_sub(field.offset).min(u64::from(offset.offset));
                offset.word = offset.offset - before as u32;
            }
        }
    }
}
