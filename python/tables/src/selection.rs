//! Parts of a table: rows in any order, columns, sums of groups.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Schema};
use arrow_select::interleave::interleave_record_batch;
use rustc_hash::FxHashMap;

use crate::dictionary::text_of;
use crate::error::TableError;
use crate::table::ArrowTable;

/// Columns that hold parts of a whole.
const ADDITIVE: [&str; 9] = [
    "samples",
    "weight",
    "share",
    "period",
    "lost",
    "throttled",
    "suspended_s",
    "before_samples",
    "after_samples",
];
/// Those of them that are counted in units of the event.
const IN_EVENTS: [&str; 3] = ["weight", "share", "period"];

impl ArrowTable {
    /// Position of a column.
    ///
    /// # Errors
    /// It is not there.
    pub fn position(&self, name: &str) -> Result<usize, TableError> {
        let schema = self.schema();
        schema.fields().iter().position(|field| field.name() == name).ok_or_else(|| {
            let known = schema.fields().iter().map(|field| field.name().clone()).collect();
            TableError::NoSuchColumn { column: name.to_owned(), known }
        })
    }

    /// Rows from `start` on, `rows` at most. Columns are shared.
    #[must_use]
    pub fn slice(&self, start: usize, rows: usize) -> Self {
        let (mut skip, mut left) = (start, rows);
        let mut batches = Vec::new();
        for batch in self.batches() {
            let skipped = skip.min(batch.num_rows());
            let taken = left.min(batch.num_rows() - skipped);
            (skip, left) = (skip - skipped, left - taken);
            if taken > 0 {
                batches.push(batch.slice(skipped, taken));
            }
        }
        Self::new(self.schema(), batches)
    }

    /// Some columns, in the order given. They are shared.
    ///
    /// # Errors
    /// One is not there.
    pub fn select(&self, names: &[String]) -> Result<Self, TableError> {
        let at: Vec<usize> =
            names.iter().map(|name| self.position(name)).collect::<Result<_, _>>()?;
        let schema = Arc::new(self.schema().project(&at)?);
        let batches = self.batches().iter().map(|batch| batch.project(&at));
        Ok(Self::new(schema, batches.collect::<Result<_, _>>()?))
    }

    /// Rows by their numbers, in the order given.
    ///
    /// # Errors
    /// One is not there.
    pub fn take(&self, rows: &[usize]) -> Result<Self, TableError> {
        let all = self.rows();
        if let Some(&row) = rows.iter().find(|&&row| row >= all) {
            return Err(TableError::NoSuchRow { row, rows: all });
        }
        if rows.is_empty() {
            return Ok(self.slice(0, 0));
        }
        let mut ends = Vec::with_capacity(self.batches().len());
        let mut end = 0;
        for batch in self.batches() {
            end += batch.num_rows();
            ends.push(end);
        }
        let place = |&row: &usize| {
            let batch = ends.partition_point(|&end| end <= row);
            (batch, row - batch.checked_sub(1).map_or(0, |before| ends[before]))
        };
        let places: Vec<(usize, usize)> = rows.iter().map(place).collect();
        let batches: Vec<&RecordBatch> = self.batches().iter().collect();
        let batch = interleave_record_batch(&batches, &places)?;
        Ok(Self::new(self.schema(), vec![batch]))
    }

    /// Rows with the same values in the columns `by` as one: these values, the number of rows, and sums of `columns`, or of all
    /// columns that hold parts of a whole. The largest comes first, by the first sum.
    ///
    /// # Errors
    /// A column is not there, or its sum means nothing.
    pub fn sums(&self, by: &[String], columns: Option<&[String]>) -> Result<Self, TableError> {
        let keys = self.columns(by)?;
        let schema = self.schema();
        let is_additive = |name: &String| ADDITIVE.contains(&name.as_str()) && !by.contains(name);
        let known: Vec<String> =
            schema.fields().iter().map(|field| field.name().clone()).filter(is_additive).collect();
        let summed: Vec<String> = columns.map_or(known.clone(), <[String]>::to_vec);
        for column in &summed {
            self.position(column)?;
            if !known.contains(column) {
                return Err(TableError::NotAdditive { column: column.clone(), known });
            }
        }
        self.check_events(by, &summed)?;
        let values = self.columns(&summed)?;
        let by_number: Vec<bool> = keys.iter().map(|key| share_texts(key)).collect();
        let mut groups = RowGroups::default();
        let mut row = 0;
        for batch in 0..self.batches().len() {
            for inside in 0..self.batches()[batch].num_rows() {
                let cell = |(key, by_number): (&Vec<ArrayRef>, &bool)| {
                    cell_key(&key[batch], inside, *by_number)
                };
                let key = keys.iter().zip(&by_number).map(cell).collect();
                groups.add(key, row, values.iter().map(|value| number(&value[batch], inside)));
                row += 1;
            }
        }
        groups.sort();
        let firsts: Vec<usize> = groups.list.iter().map(|group| group.first).collect();
        let named = self.select(by)?.take(&firsts)?;
        let mut fields: Vec<_> = named.schema().fields().iter().cloned().collect();
        let mut arrays: Vec<ArrayRef> = match named.batches() {
            [batch] => batch.columns().to_vec(),
            _ => {
                fields.iter().map(|field| arrow_array::new_empty_array(field.data_type())).collect()
            }
        };
        for (at, name) in summed.iter().enumerate() {
            let field = Arc::clone(&schema.fields()[self.position(name)?]);
            let sums = groups.list.iter().map(|group| group.sums[at]);
            let (array, field): (ArrayRef, _) = match field.data_type() {
                DataType::Float64 => (
                    Arc::new(sums.map(|sum| sum.map(ColumnSum::float)).collect::<Float64Array>()),
                    field,
                ),
                _ => {
                    let field = field.as_ref().clone().with_data_type(DataType::UInt64);
                    let sums = sums.map(|sum| sum.map(ColumnSum::whole));
                    (Arc::new(sums.collect::<UInt64Array>()), Arc::new(field))
                }
            };
            fields.push(field);
            arrays.push(array);
        }
        let rows: UInt64Array = groups.list.iter().map(|group| Some(group.rows)).collect();
        fields.push(Arc::new(crate::table::field("rows", DataType::UInt64, "")));
        arrays.push(Arc::new(rows));
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        Ok(Self::new(schema, vec![batch]))
    }

    /// Shares and weights of several events do not add up.
    fn check_events(&self, by: &[String], summed: &[String]) -> Result<(), TableError> {
        const EVENT: &str = "event";
        let found = summed.iter().find(|name| IN_EVENTS.contains(&name.as_str()));
        let Some(column) = found.filter(|_| !by.iter().any(|name| name == EVENT)) else {
            return Ok(());
        };
        let Ok(at) = self.position(EVENT) else { return Ok(()) };
        let mut events: Vec<&str> = Vec::new();
        for batch in self.batches() {
            for name in texts_of(batch.column(at)) {
                if !events.contains(&name) {
                    events.push(name);
                }
            }
        }
        if events.len() < 2 {
            return Ok(());
        }
        let (column, event) = (column.clone(), events[0].to_owned());
        Err(TableError::SeveralEvents { column, event, by: by.to_vec() })
    }

    /// The arrays of each of some columns, batch by batch.
    fn columns(&self, names: &[String]) -> Result<Vec<Vec<ArrayRef>>, TableError> {
        let column = |name: &String| {
            let at = self.position(name)?;
            Ok(self.batches().iter().map(|batch| Arc::clone(batch.column(at))).collect())
        };
        names.iter().map(column).collect()
    }
}

/// A value that rows are grouped by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum GroupValue {
    Missing,
    Number(u64),
    Text(Arc<str>),
    List(Vec<GroupValue>),
}

/// Whether all batches have the same texts, so that a text's number stands for it.
fn share_texts(batches: &[ArrayRef]) -> bool {
    let texts = |batch: &ArrayRef| {
        let values = Arc::clone(batch.as_dictionary_opt::<Int32Type>()?.values());
        Some(values.to_data())
    };
    let Some(first) = batches.first().and_then(texts) else { return false };
    batches[1..].iter().all(|batch| texts(batch).is_some_and(|other| first.ptr_eq(&other)))
}

/// Texts that occur in a column.
fn texts_of(column: &ArrayRef) -> Vec<&str> {
    let Some(dictionary) = column.as_dictionary_opt::<Int32Type>() else { return Vec::new() };
    let Some(values) = dictionary.values().as_string_opt::<i32>() else { return Vec::new() };
    let mut occurs = vec![false; values.len()];
    dictionary.keys().iter().flatten().for_each(|key| occurs[key as usize] = true);
    (0..values.len()).filter(|&at| occurs[at]).map(|at| values.value(at)).collect()
}

fn cell_key(column: &ArrayRef, row: usize, by_number: bool) -> GroupValue {
    if column.is_null(row) {
        return GroupValue::Missing;
    }
    match column.data_type() {
        DataType::Boolean => GroupValue::Number(column.as_boolean().value(row).into()),
        DataType::Int32 => {
            GroupValue::Number(i64::from(column.as_primitive::<Int32Type>().value(row)) as u64)
        }
        DataType::Int64 => GroupValue::Number(column.as_primitive::<Int64Type>().value(row) as u64),
        DataType::UInt32 => {
            GroupValue::Number(column.as_primitive::<UInt32Type>().value(row).into())
        }
        DataType::UInt64 => GroupValue::Number(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => {
            GroupValue::Number(column.as_primitive::<Float64Type>().value(row).to_bits())
        }
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            GroupValue::List((0..items.len()).map(|at| cell_key(&items, at, false)).collect())
        }
        _ if by_number => {
            let key = column.as_dictionary_opt::<Int32Type>().and_then(|column| column.key(row));
            key.map_or(GroupValue::Missing, |key| GroupValue::Number(key as u64))
        }
        _ => text_of(column, row).map_or(GroupValue::Missing, |text| GroupValue::Text(text.into())),
    }
}

/// A sum, of whole numbers or others.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ColumnSum {
    Whole(u64),
    Float(f64),
}

impl ColumnSum {
    fn add(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => Self::Whole(one.saturating_add(other)),
            (one, other) => Self::Float(one.float() + other.float()),
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Whole(sum) => sum as f64,
            Self::Float(sum) => sum,
        }
    }

    fn whole(self) -> u64 {
        match self {
            Self::Whole(sum) => sum,
            Self::Float(sum) => sum as u64,
        }
    }
}

fn number(column: &ArrayRef, row: usize) -> Option<ColumnSum> {
    if column.is_null(row) {
        return None;
    }
    Some(match column.data_type() {
        DataType::UInt32 => ColumnSum::Whole(column.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => ColumnSum::Whole(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => ColumnSum::Float(column.as_primitive::<Float64Type>().value(row)),
        _ => return None,
    })
}

/// Rows with the same values.
#[derive(Debug)]
struct RowGroup {
    /// Its first row.
    first: usize,
    rows: u64,
    /// What is missing in all rows has no sum.
    sums: Vec<Option<ColumnSum>>,
}

#[derive(Debug, Default)]
struct RowGroups {
    by_key: FxHashMap<Vec<GroupValue>, usize>,
    list: Vec<RowGroup>,
}

impl RowGroups {
    fn add(
        &mut self,
        key: Vec<GroupValue>,
        row: usize,
        values: impl Iterator<Item = Option<ColumnSum>>,
    ) {
        let next = self.list.len();
        let at = *self.by_key.entry(key).or_insert(next);
        if at == next {
            self.list.push(RowGroup { first: row, rows: 1, sums: values.collect() });
            return;
        }
        let group = &mut self.list[at];
        group.rows += 1;
        for (sum, value) in group.sums.iter_mut().zip(values) {
            *sum = match (*sum, value) {
                (Some(sum), Some(value)) => Some(sum.add(value)),
                (sum, value) => sum.or(value),
            };
        }
    }

    /// The largest first; equal ones in the order of the table.
    fn sort(&mut self) {
        let size = |group: &RowGroup| match group.sums.first() {
            Some(sum) => sum.map_or(f64::NEG_INFINITY, ColumnSum::float),
            None => group.rows as f64,
        };
        self.list.sort_by(|one, other| size(other).total_cmp(&size(one)));
    }
}
