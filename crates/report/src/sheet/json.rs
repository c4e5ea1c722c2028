//! The rows for programs: an object per row.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Entry, Kind, Sheet, Value};
use crate::recording::{Count, NO_INTERVAL};

/// A key with a dot is a field of an object.
impl Serialize for Sheet<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.for_programs();
        let row = |row| Object { sheet: self, row, fields: &fields, prefix: "" };
        serializer.collect_seq(self.rows.iter().map(|entries| row(entries)))
    }
}

/// Fields whose keys start with `prefix`.
struct Object<'a> {
    sheet: &'a Sheet<'a>,
    row: &'a [Entry<'a>],
    fields: &'a [usize],
    prefix: &'a str,
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut rest = self.fields;
        while let Some((&at, after)) = rest.split_first() {
            let heading = &self.sheet.headings[at];
            let key = &heading.key[self.prefix.len()..];
            let Some((object, _)) = key.split_once('.') else {
                push(&mut map, key, heading.kind, &self.row[at].value)?;
                rest = after;
                continue;
            };
            let prefix = &heading.key[..self.prefix.len() + object.len() + 1];
            let is_in = |&&at: &&usize| self.sheet.headings[at].key.starts_with(prefix);
            let (fields, others) = rest.split_at(rest.iter().take_while(is_in).count());
            map.serialize_entry(object, &Object { fields, prefix, ..*self })?;
            rest = others;
        }
        map.end()
    }
}

fn push<M: SerializeMap>(
    map: &mut M,
    key: &str,
    kind: Kind,
    value: &Value<'_>,
) -> Result<(), M::Error> {
    match value {
        Value::Missing => map.serialize_entry(key, &None::<u64>),
        Value::Text(text) => map.serialize_entry(key, &**text),
        Value::Flag(is) => map.serialize_entry(key, is),
        Value::Id(id) => map.serialize_entry(key, id),
        Value::Count(value) => map.serialize_entry(key, &Count(*value)),
        Value::Address(address) => map.serialize_entry(key, &format!("{address:#x}")),
        Value::Number(value, _) => map.serialize_entry(key, value),
        Value::Share(share, interval) => {
            map.serialize_entry(key, share)?;
            if kind != Kind::Share {
                return Ok(());
            }
            map.serialize_entry(&format!("{key}_low"), &interval.map(|of| of.low))?;
            map.serialize_entry(&format!("{key}_high"), &interval.map(|of| of.high))?;
            match interval {
                Some(_) => Ok(()),
                None => map.serialize_entry("why", NO_INTERVAL),
            }
        }
    }
}
