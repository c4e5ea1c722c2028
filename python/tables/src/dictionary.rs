//! Text that repeats: each value once, rows have its number.

use std::sync::Arc;

use arrow_array::builder::Int32Builder;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow_schema::{ArrowError, DataType};
use rustc_hash::FxHashMap;

/// Numbers are signed: pandas takes no others.
pub(crate) fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Values, each once, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    numbers: FxHashMap<Arc<str>, i32>,
    values: Vec<Arc<str>>,
}

impl Dictionary {
    /// The number of `text`.
    pub(crate) fn number(&mut self, text: &str) -> i32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let (number, text) = (self.values.len() as i32, Arc::<str>::from(text));
        self.numbers.insert(Arc::clone(&text), number);
        self.values.push(text);
        number
    }

    /// All values, to be shared by columns.
    pub(crate) fn values(&self) -> ArrayRef {
        Arc::new(StringArray::from_iter_values(self.values.iter()))
    }
}

/// A column of numbers of `values`.
pub(crate) fn column(keys: Int32Array, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(values))?))
}

/// The text in a row of a column of texts; `None` of other columns, and where it is missing.
#[must_use]
pub fn text_of(column: &ArrayRef, row: usize) -> Option<&str> {
    let dictionary = column.as_dictionary_opt::<Int32Type>()?;
    let values = dictionary.values().as_string_opt::<i32>()?;
    Some(values.value(dictionary.key(row)?))
}

/// A column of texts.
pub(crate) fn texts<'a>(
    texts: impl Iterator<Item = Option<&'a str>>,
) -> Result<ArrayRef, ArrowError> {
    let mut dictionary = Dictionary::default();
    let mut keys = Int32Builder::new();
    for text in texts {
        keys.append_option(text.map(|text| dictionary.number(text)));
    }
    column(keys.finish(), &dictionary.values())
}
