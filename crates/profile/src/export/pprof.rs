//! pprof's profile.proto, gzip: what `go tool pprof` and what is made after it read.
//!
//! ```text
//!  sample ──► location … ──► line … ──► function       values: samples, units of the event
//!    │            └──► mapping (module, build id)      per event
//!    └──► label: command, pid, tid, cpu
//! ```
//!
//! A location is a place in a module; where functions were inlined it has a line for each, the
//! innermost first. Addresses are offsets in the module's file, and a mapping starts at the offset
//! it was mapped from: tools that disassemble find the code without knowing where it was loaded.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::aggregate::{FrameId, FunctionId, SampleCell, StackId, TaskId};
use crate::timeline::modules::ModuleKind;

use super::gzip::GzipWriter;
use super::protobuf::Message;
use super::{ExportedEvent, Source};
use crate::profile::Options;

/// Field numbers of a profile in profile.proto.
mod profile {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const MAPPING: u64 = 3;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const STRING: u64 = 6;
    pub(super) const TIME_NANOS: u64 = 9;
    pub(super) const DURATION_NANOS: u64 = 10;
    pub(super) const PERIOD_TYPE: u64 = 11;
    pub(super) const PERIOD: u64 = 12;
    pub(super) const COMMENT: u64 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u64 = 14;
}

/// Length of the name of a thread in the kernel, without the zero at its end.
const LONGEST_COMMAND: usize = 15;
/// A mapping is made of pages.
const PAGE: u64 = 4096;

/// Writes all events of the source.
///
/// # Errors
/// Those of `out`.
pub fn write(source: &Source<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut out = GzipWriter::new(out);
    Writer::new(source).write(&mut out)?;
    out.finish().map(drop)
}

/// Everything once, by number.
struct Writer<'a> {
    source: &'a Source<'a>,
    strings: Strings,
    mappings: Mappings,
    functions: FxHashMap<FunctionId, u64>,
    /// Locations of frames that nothing is inlined into, by frame; 0 where there is none yet.
    plain: Vec<u64>,
    /// Locations of those inlined somewhere and the one that holds them, the innermost first.
    inlined: FxHashMap<Vec<FrameId>, u64>,
    locations: u64,
    /// Tables that samples point to, in the order they were met.
    tables: Message,
}

/// Texts by number; 0 is the empty one.
#[derive(Default)]
struct Strings {
    list: Vec<Box<str>>,
    known: FxHashMap<Box<str>, u64>,
}

impl Strings {
    fn id(&mut self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&id) = self.known.get(text) {
            return id;
        }
        self.list.push(text.into());
        let id = self.list.len() as u64;
        self.known.insert(text.into(), id);
        id
    }
}

impl<'a> Writer<'a> {
    fn new(source: &'a Source<'a>) -> Self {
        Self {
            source,
            strings: Strings::default(),
            mappings: Mappings::new(source),
            functions: FxHashMap::default(),
            plain: vec![0; source.counts.frames.len()],
            inlined: FxHashMap::default(),
            locations: 0,
            tables: Message::default(),
        }
    }

    fn write(mut self, out: &mut dyn Write) -> io::Result<()> {
        self.write_types(out)?;
        for cells in self.samples().chunk_by(|(_, a), (_, b)| key(a) == key(b)) {
            let sample = self.sample(cells);
            let mut one = Message::default();
            out.write_all(&one.message(profile::SAMPLE, &sample).take())?;
        }
        let mut last = Message::default();
        for mapping in self.mappings.messages(self.source, &mut self.strings) {
            last.message(profile::MAPPING, &mapping);
        }
        self.add_about(&mut last);
        out.write_all(&self.tables.take())?;
        last.bytes(profile::STRING, b"");
        for text in &self.strings.list {
            last.bytes(profile::STRING, text.as_bytes());
        }
        out.write_all(&last.take())
    }

    /// Values of a sample: for each event its samples, and units of the event where they are known.
    fn write_types(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut types = Message::default();
        let alone = self.source.events.len() == 1;
        let mut default = 0;
        for event in &self.source.events {
            let count = if alone { "samples".into() } else { format!("{} samples", event.name) };
            let count = value_type(&mut self.strings, &count, "count");
            types.message(profile::SAMPLE_TYPE, &count);
            if has_units(event) {
                let units = value_type(&mut self.strings, &event.name, unit(event));
                types.message(profile::SAMPLE_TYPE, &units);
                default = if default == 0 { self.strings.id(&event.name) } else { default };
            }
        }
        if self.source.events.is_empty() {
            // Readers want one, of nothing too.
            types.message(profile::SAMPLE_TYPE, &value_type(&mut self.strings, "samples", "count"));
        }
        types.number(profile::DEFAULT_SAMPLE_TYPE, default);
        out.write_all(&types.take())
    }

    /// Cells of all events in the order of stacks, tasks and CPUs, each with the number of its event here.
    fn samples(&self) -> Vec<(usize, &'a SampleCell)> {
        let cells = |(at, event): (usize, &ExportedEvent)| {
            self.source.counts.of_event(event.index).iter().map(move |cell| (at, cell))
        };
        let mut samples: Vec<_> = self.source.events.iter().enumerate().flat_map(cells).collect();
        // Those of one event are in order already.
        samples.sort_by_key(|(_, cell)| key(cell));
        samples
    }

    /// Of cells of one stack, task and CPU.
    fn sample(&mut self, cells: &[(usize, &SampleCell)]) -> Message {
        let Some((stack, task, cpu)) = cells.first().map(|(_, cell)| key(cell)) else {
            return Message::default();
        };
        let mut values = Vec::new();
        for (at, event) in self.source.events.iter().enumerate() {
            let cell = cells.iter().find(|(of, _)| *of == at).map(|(_, cell)| *cell);
            values.push(cell.map_or(0, |cell| cell.samples));
            if has_units(event) {
                values.push(cell.and_then(|cell| event.units(cell)).unwrap_or(0));
            }
        }
        let mut sample = Message::default();
        let locations = self.locations_of(stack);
        sample.packed(1, locations).packed(2, values.into_iter().map(within));
        let task = &self.source.counts.tasks[task as usize];
        let mut command = Message::default();
        command.number(1, self.strings.id("command")).number(2, self.strings.id(&task.command));
        sample.message(3, &command);
        let numbers = [
            ("pid", task.pid.map(i64::from)),
            ("tid", task.tid.map(i64::from)),
            ("cpu", cpu.map(i64::from)),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                let mut label = Message::default();
                label.number(1, self.strings.id(name)).signed(3, number);
                sample.message(3, &label);
            }
        }
        sample
    }

    /// Numbers of a stack's locations, the innermost first.
    fn locations_of(&mut self, stack: StackId) -> Vec<u64> {
        let counts = self.source.counts;
        let mut locations = Vec::new();
        let mut place = Vec::new();
        for frame in counts.stacks.frames(stack) {
            place.push(frame);
            if !counts.frames[frame as usize].inlined {
                locations.push(self.location(&place));
                place.clear();
            }
        }
        if !place.is_empty() {
            locations.push(self.location(&place));
        }
        locations
    }

    /// The location of frames: one, or those inlined there and the one that holds them.
    fn location(&mut self, frames: &[FrameId]) -> u64 {
        let known = match frames {
            [frame] => Some(self.plain[*frame as usize]).filter(|&id| id > 0),
            _ => self.inlined.get(frames).copied(),
        };
        known.unwrap_or_else(|| self.new_location(frames))
    }

    fn new_location(&mut self, frames: &[FrameId]) -> u64 {
        self.locations += 1;
        let id = self.locations;
        match frames {
            [frame] => self.plain[*frame as usize] = id,
            _ => drop(self.inlined.insert(frames.to_vec(), id)),
        }
        let counts = self.source.counts;
        let mut location = Message::default();
        location.number(1, id);
        if let Some(holder) = frames.last().map(|&frame| &counts.frames[frame as usize]) {
            location.number(2, self.mappings.id(holder.module));
            location.number(3, holder.address.unwrap_or(0));
        }
        for &frame in frames {
            let frame = &counts.frames[frame as usize];
            let Some(function) = frame.function else { continue };
            let number = frame.line.as_ref().and_then(|line| line.number).unwrap_or(0);
            let file = frame.line.as_ref().map(|line| &*line.file);
            let mut line = Message::default();
            line.number(1, self.function(function, file)).number(2, number.into());
            location.message(4, &line);
        }
        self.tables.message(profile::LOCATION, &location);
        id
    }

    fn function(&mut self, function: FunctionId, file: Option<&str>) -> u64 {
        if let Some(&id) = self.functions.get(&function) {
            return id;
        }
        let next = self.functions.len() as u64 + 1;
        self.functions.insert(function, next);
        let name = self.strings.id(&self.source.counts.functions[function as usize].name);
        let mut message = Message::default();
        message.number(1, next).number(2, name).number(3, name);
        message.number(4, self.strings.id(file.unwrap_or_default()));
        self.tables.message(profile::FUNCTION, &message);
        next
    }

    fn add_about(&mut self, last: &mut Message) {
        let about = &self.source.about;
        last.number(profile::TIME_NANOS, about.started_unix_ns.unwrap_or(0));
        let duration = about.duration_s.unwrap_or(0.0).max(0.0) * 1e9;
        last.number(profile::DURATION_NANOS, duration as u64);
        if let Some(event) = self.source.events.first() {
            let period = value_type(&mut self.strings, &event.name, unit(event));
            last.message(profile::PERIOD_TYPE, &period);
            last.number(profile::PERIOD, within(event.period.unwrap_or(0)));
        }
        let command = about.command.join(" ");
        let comments: Vec<u64> = std::iter::once(&command)
            .chain(&about.notes)
            .filter(|text| !text.is_empty())
            .map(|text| self.strings.id(text))
            .collect();
        last.packed(profile::COMMENT, comments);
    }
}

/// Stack, task, CPU.
type SampleKey = (StackId, TaskId, Option<u32>);

fn key(cell: &SampleCell) -> SampleKey {
    (cell.stack, cell.task, cell.cpu)
}

fn has_units(event: &ExportedEvent) -> bool {
    event.by_period || event.period.is_some()
}

fn unit(event: &ExportedEvent) -> &'static str {
    if event.is_clock() { "nanoseconds" } else { "count" }
}

/// The format's numbers have a sign; only a damaged recording has larger ones.
fn within(value: u64) -> u64 {
    value.min(i64::MAX.cast_unsigned())
}

fn value_type(strings: &mut Strings, name: &str, unit: &str) -> Message {
    let mut message = Message::default();
    message.number(1, strings.id(name)).number(2, strings.id(unit));
    message
}

/// Modules that were hit, the program first: pprof takes its name from the first mapping.
struct Mappings {
    /// In the order of their numbers, which start at 1.
    modules: Vec<u32>,
    ids: FxHashMap<u32, u64>,
}

impl Mappings {
    fn new(source: &Source<'_>) -> Self {
        let mut modules: Vec<u32> = source.counts.frames.iter().map(|frame| frame.module).collect();
        modules.sort_unstable();
        modules.dedup();
        if let Some(program) = program(source) {
            modules.sort_by_key(|&module| module != program);
        }
        let ids = modules.iter().zip(1..).map(|(&module, id)| (module, id)).collect();
        Self { modules, ids }
    }

    fn id(&self, module: u32) -> u64 {
        self.ids.get(&module).copied().unwrap_or(0)
    }

    fn messages(&self, source: &Source<'_>, strings: &mut Strings) -> Vec<Message> {
        let mut ranges: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
        for frame in &source.counts.frames {
            let Some(address) = frame.address else { continue };
            let range = ranges.entry(frame.module).or_insert((address, address));
            *range = (range.0.min(address), range.1.max(address));
        }
        let message = |&module: &u32| {
            let (low, high) = ranges.get(&module).copied().unwrap_or((0, 0));
            let start = low / PAGE * PAGE;
            let summary = source.modules.get(module as usize);
            let path = summary.map_or(super::UNKNOWN, |module| module.path.as_str());
            let build_id = summary.and_then(|module| module.build_id.as_ref());
            let build_id = build_id.map_or_else(String::new, ToString::to_string);
            let mut message = Message::default();
            message
                .number(1, self.id(module))
                .number(2, start)
                .number(3, (high / PAGE).saturating_add(1).saturating_mul(PAGE))
                .number(4, start)
                .number(5, strings.id(path))
                .number(6, strings.id(&build_id));
            // Names, files, lines and inlined functions: what could be found is in the locations.
            for has in 7..=10 {
                message.number(has, 1);
            }
            message
        };
        self.modules.iter().map(message).collect()
    }
}

/// The file that the commands are named after, else the one with the most samples.
fn program(source: &Source<'_>) -> Option<u32> {
    let event = source.events.first()?;
    let is_file = |module: &u32| {
        source.modules.get(*module as usize).is_some_and(|module| module.kind == ModuleKind::File)
    };
    let files: Vec<u32> = source
        .functions(event, Options::COUNTS)
        .modules
        .into_iter()
        .map(|share| share.module as u32)
        .filter(is_file)
        .collect();
    let is_command = |module: &&u32| {
        let name = source.module_name(**module);
        let name = name.get(..LONGEST_COMMAND.min(name.len())).unwrap_or(name);
        source.counts.tasks.iter().any(|task| &*task.command == name)
    };
    files.iter().find(is_command).or(files.first()).copied()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::super::sample;
    use super::*;

    fn exported(source: &Source<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        write(source, &mut out).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(&out[..]).read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// Numbers of the fields of the profile with their contents, as wire format has them.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let contents = if tag & 7 == VARINT_KIND {
                varint(&mut bytes).to_le_bytes().to_vec()
            } else {
                let length = varint(&mut bytes) as usize;
                let (contents, rest) = bytes.split_at(length);
                bytes = rest;
                contents.to_vec()
            };
            found.push((tag >> 3, contents));
        }
        found
    }

    const VARINT_KIND: u64 = 0;

    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    #[test]
    fn samples_keep_their_values_and_the_first_text_is_empty() {
        let made = sample::made();
        let all = fields(&exported(&made.source()));
        let of = |number: u64| all.iter().filter(move |(field, _)| *field == number);
        let texts: Vec<&[u8]> = of(profile::STRING).map(|(_, text)| &text[..]).collect();
        assert!(texts[0].is_empty() && texts.contains(&&b"memcpy;x"[..]));
        assert_eq!(of(profile::SAMPLE_TYPE).count(), 4);
        let mut samples = 0;
        for (_, sample) in of(profile::SAMPLE) {
            let values = fields(sample).into_iter().find(|(field, _)| *field == 2).unwrap().1;
            let mut values = &values[..];
            let list: Vec<u64> =
                std::iter::from_fn(|| (!values.is_empty()).then(|| varint(&mut values))).collect();
            assert_eq!(list.len(), 4);
            assert_eq!(list[1], list[0] * 1_000_000);
            samples += list[0];
        }
        assert_eq!(samples, 120);
        // What was inlined has no location of its own.
        let inlined = of(profile::LOCATION).filter(|(_, location)| {
            fields(location).iter().filter(|(field, _)| *field == 4).count() == 2
        });
        assert_eq!(inlined.count(), 1);
    }

    #[test]
    fn the_program_is_the_first_mapping() {
        let made = sample::made();
        assert_eq!(program(&made.source()), Some(1));
        let mappings = Mappings::new(&made.source());
        assert_eq!(mappings.modules, [1, 2, 3]);
    }
}
