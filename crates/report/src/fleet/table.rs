//! Rows of any query.

use serde::{Serialize, Serializer};

use crate::Style;
use crate::report::Report;
use crate::sheet::{Field, Separator, Sheet};

/// Kind and version of the result.
const SCHEMA: &str = "pmuscope/fleet-sql/1";

/// Values of a column; missing ones are `None`.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyValues {
    /// Texts, and whatever else has no form of its own. Foreign text.
    Texts(Vec<Option<String>>),
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Numbers.
    Numbers(Vec<Option<f64>>),
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct AnyColumn {
    /// Its name. Foreign text.
    pub name: String,
    /// Its values.
    pub values: AnyValues,
}

/// Rows whose columns nobody knows before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnyTable {
    /// The columns, all of one length.
    pub columns: Vec<AnyColumn>,
    /// Number of rows.
    pub rows: usize,
}

#[derive(Serialize)]
struct AnyJson<'a> {
    rows: AnyRows<'a>,
}

/// The rows, each with its columns in their order. They are made when they are written.
struct AnyRows<'a>(&'a AnyTable);

impl Serialize for AnyRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let indices: Vec<usize> = (0..self.0.rows).collect();
        self.0.sheet(&indices).serialize(serializer)
    }
}

impl AnyTable {
    fn sheet<'a>(&'a self, indices: &'a [usize]) -> Sheet<'a> {
        let field = |column: &'a AnyColumn| -> Field<'a, usize> {
            let name = column.name.clone();
            match &column.values {
                AnyValues::Texts(all) => Field::text(name, |at: &usize| all[*at].as_deref()),
                AnyValues::Whole(all) => Field::id(name, |at: &usize| all[*at]),
                AnyValues::Numbers(all) => Field::number(name, |at: &usize| all[*at]),
            }
        };
        Sheet::new(self.columns.iter().map(field).collect(), indices, self.rows).by_another_order()
    }
}

impl Report for AnyTable {
    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let indices: Vec<usize> = (0..self.rows).collect();
        self.sheet(&indices).text(style)
    }

    fn json(&self) -> impl Serialize {
        AnyJson { rows: AnyRows(self) }
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        let indices: Vec<usize> = (0..self.rows).collect();
        Some(self.sheet(&indices).delimited(separator))
    }
}
