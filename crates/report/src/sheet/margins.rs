//! Columns that say how far a share can be off.

use std::borrow::Cow;

use pmuscope_stats::Interval;

use super::{Field, FieldKind, Value};

impl<'a, R> Field<'a, R> {
    /// How far a share can be off, 0 to 1; for people only.
    pub(crate) fn margin(
        head: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Option<f64> + 'a,
    ) -> Self {
        let value = move |row: &'a R| get(row).map_or(Value::Missing, Value::Margin);
        Self::new(head, FieldKind::Number, value).for_people()
    }

    /// The interval of a share, or of a difference of two; for people only.
    pub(crate) fn limits(
        head: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Option<(f64, Interval)> + 'a,
    ) -> Self {
        let value = move |row: &'a R| match get(row) {
            Some((share, of)) => Value::Limits(share, of),
            None => Value::Missing,
        };
        Self::new(head, FieldKind::Number, value).for_people()
    }
}
