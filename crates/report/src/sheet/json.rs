//! The rows for programs: an object per row.

use pmuscope_stats::Interval;
use serde::ser::{Serialize, SerializeMap, SerializeSeq as _, Serializer};

use super::{FieldKind, Heading, Sheet, SheetCell, SheetForm, Value};
use crate::recording::Count;

/// A key with a dot is a field of an object.
impl Serialize for Sheet<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.columns(SheetForm::Json);
        let mut rows = serializer.serialize_seq(Some(self.rows))?;
        for row in self.entries() {
            let headings = &self.headings;
            rows.serialize_element(&Object { headings, row: &row, fields: &fields, prefix: "" })?;
        }
        rows.end()
    }
}

/// A table of one row, as an object instead of a list.
#[derive(Debug)]
pub(crate) struct SheetObject<'a>(pub(crate) Sheet<'a>);

impl Serialize for SheetObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(sheet) = self;
        let (fields, row) = (sheet.columns(SheetForm::Json), (sheet.row)(0));
        Object { headings: &sheet.headings, row: &row, fields: &fields, prefix: "" }
            .serialize(serializer)
    }
}

/// Fields whose keys start with `prefix`.
struct Object<'a> {
    headings: &'a [Heading],
    row: &'a [SheetCell<'a>],
    fields: &'a [usize],
    prefix: &'a str,
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut rest = self.fields.to_vec();
        while !rest.is_empty() {
            let at = rest.remove(0);
            let (heading, cell) = (&self.headings[at], &self.row[at]);
            let key = &heading.key[self.prefix.len()..];
            let Some((object, _)) = key.split_once('.') else {
                if !(heading.can_be_absent && cell.value == Value::Missing) {
                    push(&mut map, key, heading.kind, cell)?;
                }
                continue;
            };
            // All fields of the object, wherever they stand.
            let prefix = &heading.key[..self.prefix.len() + object.len() + 1];
            let is_in = |at: &usize| self.headings[*at].key.starts_with(prefix);
            let (within, others): (Vec<usize>, _) = rest.into_iter().partition(is_in);
            let fields = [&[at][..], &within].concat();
            map.serialize_entry(object, &Object { fields: &fields, prefix, ..*self })?;
            rest = others;
        }
        map.end()
    }
}

fn push<M: SerializeMap>(
    map: &mut M,
    key: &str,
    kind: FieldKind,
    entry: &SheetCell<'_>,
) -> Result<(), M::Error> {
    match &entry.value {
        Value::Missing => {
            map.serialize_entry(key, &None::<u64>)?;
            match kind {
                FieldKind::Estimate => push_bounds(map, key, None),
                _ => Ok(()),
            }
        }
        Value::Text(text) => map.serialize_entry(key, &**text),
        Value::Flag(is) => map.serialize_entry(key, is),
        Value::Id(id) => map.serialize_entry(key, id),
        Value::Count(value) => map.serialize_entry(key, &Count(*value)),
        Value::Address(address) => map.serialize_entry(key, &format!("{address:#x}")),
        Value::Lines(lines) => map.serialize_entry(key, lines),
        Value::Drawn(_) => Ok(()),
        Value::Json(value) => map.serialize_entry(key, value),
        Value::Number(value, _) | Value::Margin(value) | Value::Seconds(value) => {
            map.serialize_entry(key, value)
        }
        Value::Limits(_, of) => map.serialize_entry(key, &of.half_width()),
        Value::Share(share, interval) => {
            map.serialize_entry(key, share)?;
            if kind != FieldKind::Share {
                return Ok(());
            }
            push_bounds(map, key, *interval)?;
            match interval {
                Some(_) => Ok(()),
                None => map.serialize_entry("why", entry.why),
            }
        }
        Value::Estimate(value, interval) => {
            map.serialize_entry(key, value)?;
            push_bounds(map, key, *interval)
        }
    }
}

/// The one form of an interval: two fields after that of the value; of an object's `value`, beside it.
fn push_bounds<M: SerializeMap>(
    map: &mut M,
    key: &str,
    interval: Option<Interval>,
) -> Result<(), M::Error> {
    let prefix = if key == "value" { String::new() } else { format!("{key}_") };
    map.serialize_entry(&format!("{prefix}low"), &interval.map(|of| of.low))?;
    map.serialize_entry(&format!("{prefix}high"), &interval.map(|of| of.high))
}
