//! The dictionary as messages of OTLP.

use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, ProfilesDictionary, Stack,
};

use super::{number, value};
use crate::dictionary::{self, Dictionary, Extent};

/// Name of the attribute of a mapping, by the semantic conventions.
const BUILD_ID: &str = "process.executable.build_id.gnu";

pub(super) fn of(mut dictionary: Dictionary<'_>) -> ProfilesDictionary {
    let (mapping_table, attribute_table) = mappings(&mut dictionary);
    let function = |function: &dictionary::FunctionEntry| Function {
        name_strindex: number(function.name),
        filename_strindex: number(function.file),
        ..Function::default()
    };
    let line = |line: &dictionary::LineEntry| Line {
        function_index: number(line.function),
        line: line.number,
        column: 0,
    };
    let location = |location: &dictionary::LocationEntry| Location {
        mapping_index: number(location.mapping),
        address: location.address,
        lines: location.lines.iter().map(line).collect(),
        attribute_indices: Vec::new(),
    };
    let stack = |locations: &Vec<_>| Stack {
        location_indices: locations.iter().copied().map(number).collect(),
    };
    ProfilesDictionary {
        mapping_table,
        location_table: dictionary.locations.iter().map(location).collect(),
        function_table: dictionary.functions.iter().map(function).collect(),
        link_table: vec![Link::default()],
        string_table: dictionary.texts.iter().map(|text| text.to_string()).collect(),
        attribute_table,
        stack_table: dictionary.stacks.iter().map(stack).collect(),
    }
}

/// Mappings, and their attributes: build ids, each once.
fn mappings(dictionary: &mut Dictionary<'_>) -> (Vec<Mapping>, Vec<KeyValueAndUnit>) {
    let mut build_ids = dictionary::table();
    let extents = dictionary.extents();
    let mapping = |(mapping, extent): (&dictionary::MappingEntry, &Extent)| Mapping {
        memory_limit: extent.limit,
        filename_strindex: number(mapping.module),
        attribute_indices: match build_ids.insert_full(mapping.build_id).0 {
            0 => Vec::new(),
            index => vec![number(index)],
        },
        ..Mapping::default()
    };
    let mappings = std::iter::zip(&dictionary.mappings, &extents).map(mapping).collect();
    let attribute = |build_id: usize| KeyValueAndUnit {
        key_strindex: number(dictionary.text(BUILD_ID)),
        value: Some(value(&dictionary.texts[build_id])),
        unit_strindex: 0,
    };
    let attributes = build_ids.into_iter().skip(1).map(attribute);
    (mappings, std::iter::once(KeyValueAndUnit::default()).chain(attributes).collect())
}
