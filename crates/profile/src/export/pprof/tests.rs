use std::io::Read as _;

use flate2::read::GzDecoder;
use proptest::prelude::*;

use super::super::sample::{self, arbitrary};
use super::mappings::{Mappings, program};
use super::*;
use crate::aggregate::SampleCell;

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

/// Numbers without a field, as packed ones are.
fn numbers(mut bytes: &[u8]) -> Vec<u64> {
    std::iter::from_fn(|| (!bytes.is_empty()).then(|| varint(&mut bytes))).collect()
}

/// Contents of the fields of a message that have this number.
fn of_field(message: &[u8], number: u64) -> Vec<Vec<u8>> {
    let of = fields(message).into_iter().filter(|(field, _)| *field == number);
    of.map(|(_, contents)| contents).collect()
}

/// A number in a message; 0 where it is absent.
fn number(message: &[u8], field: u64) -> u64 {
    of_field(message, field)
        .first()
        .map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()))
}

/// A sample: functions from the innermost to the outermost, `?` for those without a name, by location; values; and
/// what its labels stand for.
type ReadSample = (Vec<Vec<String>>, Vec<u64>, Vec<(String, String)>);

/// Samples as a reader of pprof finds them.
fn read_samples(profile: &[u8]) -> Vec<ReadSample> {
    let texts = of_field(profile, profile::STRING);
    let text = |id: u64| String::from_utf8(texts[id as usize].clone()).unwrap();
    let names: std::collections::HashMap<u64, String> = of_field(profile, profile::FUNCTION)
        .iter()
        .map(|function| (number(function, 1), text(number(function, 2))))
        .collect();
    let locations: std::collections::HashMap<u64, Vec<String>> =
        of_field(profile, profile::LOCATION)
            .iter()
            .map(|location| {
                let lines = of_field(location, 4);
                let lines = lines.iter().map(|line| names[&number(line, 1)].clone());
                (number(location, 1), lines.collect())
            })
            .collect();
    let label = |label: &Vec<u8>| {
        let value = match number(label, 2) {
            0 => number(label, 3).to_string(),
            id => text(id),
        };
        (text(number(label, 1)), value)
    };
    let list = |sample: &[u8], field| {
        of_field(sample, field).first().map(|packed| numbers(packed)).unwrap_or_default()
    };
    let sample = |sample: &Vec<u8>| {
        let stack =
            list(sample, sample_field::LOCATION).iter().map(|id| locations[id].clone()).collect();
        let labels = of_field(sample, sample_field::LABEL).iter().map(label).collect();
        (stack, list(sample, sample_field::VALUE), labels)
    };
    of_field(profile, profile::SAMPLE).iter().map(sample).collect()
}

/// The same, one by one from the counts.
fn expected_samples(made: &sample::Made) -> Vec<ReadSample> {
    let counts = &made.counts;
    let mut keys: Vec<_> =
        counts.cells.iter().map(|cell| (cell.stack, cell.task, cell.cpu)).collect();
    keys.sort_unstable();
    keys.dedup();
    let sample = |(stack, task, cpu)| {
        let mut locations = vec![Vec::new()];
        let mut is_whole = true;
        for frame in counts.stacks.frames(stack) {
            if is_whole {
                locations.push(Vec::new());
            }
            is_whole = !counts.frames[frame as usize].inlined;
            let name = counts.function_of(frame).map(str::to_owned);
            locations.last_mut().unwrap().extend(name);
        }
        locations.remove(0);
        let values = made.events().iter().flat_map(|event| {
            let mut cells = counts.of_event(event.index).iter();
            let cell = cells.find(|cell| (cell.stack, cell.task, cell.cpu) == (stack, task, cpu));
            let units = cell.and_then(|cell| event.units(cell)).unwrap_or(0);
            [cell.map_or(0, |cell| cell.samples), units]
        });
        let task = &counts.tasks[task as usize];
        let mut labels = vec![("command".to_owned(), task.command.to_string())];
        let numbers = [("pid", task.pid), ("tid", task.tid), ("cpu", cpu.map(|cpu| cpu as i32))];
        for (name, number) in numbers {
            labels.extend(number.map(|number| (name.to_owned(), number.to_string())));
        }
        (locations, values.collect(), labels)
    };
    keys.into_iter().map(sample).collect()
}

proptest! {
    #[test]
    fn samples_are_read_as_they_were_counted(made in arbitrary()) {
        let read = read_samples(&exported(&made.source()));
        prop_assert_eq!(read, expected_samples(&made));
    }
}

#[test]
fn blocks_hold_every_cell_once_and_keep_samples_of_several_events_together() {
    let cell =
        |event, stack| SampleCell { event, stack, task: 0, cpu: None, samples: 1, weight: 1 };
    let mut made = sample::made();
    // One event has cells where the other has none.
    let first = (0..30_000).map(|stack| cell(0, stack));
    made.counts.cells = first.chain((5_000..90_000).map(|stack| cell(1, stack))).collect();
    let source = made.source();
    let keys = |samples: SampleRange<'_>| {
        let mut keys = Vec::new();
        samples.for_each(|key, cells| keys.push((key, cells.iter().flatten().count())));
        keys
    };
    let blocks = SampleRange::new(&source).blocks();
    assert!(blocks.len() > 10);
    let by_block: Vec<_> = blocks.into_iter().map(keys).collect();
    assert!(by_block.iter().all(|block| block.len() < 10_000));
    let all = keys(SampleRange::new(&source));
    assert_eq!(by_block.concat(), all);
    assert_eq!(all.len(), 90_000);
    assert_eq!(all.iter().map(|(_, cells)| cells).sum::<usize>(), 115_000);
}
