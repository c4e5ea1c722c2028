//! Tables: rows of Rust types, their schema and their order.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::column::ColumnValue;

/// Name, meaning and type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name.
    pub name: &'static str,
    /// What it holds, with its unit.
    pub about: &'static str,
    /// Its type in Arrow and whether values may be missing.
    pub field: Field,
}

/// A row of a table.
pub trait TableRow: Sized {
    /// Name of the table, as folders and SQL have it.
    const NAME: &'static str;
    /// What a row stands for.
    const ABOUT: &'static str;
    /// Columns that a file is sorted by, so that readers skip what they do not look for.
    const SORTED_BY: &'static [&'static str];

    /// The columns, in order.
    fn columns() -> Vec<ColumnInfo>;

    /// The values of these rows, one array per column.
    fn arrays(rows: &[Self]) -> Vec<ArrayRef>;

    /// Puts rows in the order of [`TableRow::SORTED_BY`].
    fn sort(rows: &mut [Self]);

    /// The schema of its files.
    #[must_use]
    fn schema() -> SchemaRef {
        let fields: Vec<Field> = Self::columns().into_iter().map(|column| column.field).collect();
        Arc::new(Schema::new(fields))
    }

    /// These rows as a batch.
    ///
    /// # Errors
    /// None for columns of this crate; the type is Arrow's.
    fn batch(rows: &[Self]) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Self::schema(), Self::arrays(rows))
    }
}

/// The column `name` of a type.
pub(crate) fn column<C: ColumnValue>(name: &'static str, about: &'static str) -> ColumnInfo {
    ColumnInfo { name, about, field: Field::new(name, C::data_type(), C::NULLABLE) }
}

/// A struct of a row, its documentation, and its columns, from one list.
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $name:ident = $table:literal, sorted by $($key:ident),+;
        $($(#[doc = $meaning:literal])+ $field:ident: $type:ty,)+
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name {
            $($(#[doc = $meaning])+ pub $field: $type,)+
        }

        impl $crate::table::TableRow for $name {
            const NAME: &'static str = $table;
            const ABOUT: &'static str = concat!($($about),+);
            const SORTED_BY: &'static [&'static str] = &[$(stringify!($key)),+];

            fn columns() -> Vec<$crate::table::ColumnInfo> {
                vec![$($crate::table::column::<$type>(stringify!($field), concat!($($meaning),+))),+]
            }

            fn arrays(rows: &[Self]) -> Vec<arrow::array::ArrayRef> {
                vec![$(<$type as $crate::column::ColumnValue>::array(rows.iter().map(|row| &row.$field))),+]
            }

            fn sort(rows: &mut [Self]) {
                rows.sort_by(|a, b| ($(&a.$key),+,).cmp(&($(&b.$key),+,)));
            }
        }
    };
}
pub(crate) use table;
