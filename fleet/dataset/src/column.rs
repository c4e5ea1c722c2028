//! Columns: which Rust type is which type of Arrow.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, TimeUnit};

/// Microseconds since 1970-01-01 UTC.
///
/// Not nanoseconds: ClickHouse and Spark read those in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

/// The time zone of [`Timestamp`] columns.
const UTC: &str = "UTC";

/// What a column can hold.
pub trait ColumnValue: Sized {
    /// Whether values may be missing.
    const NULLABLE: bool;

    /// Its type.
    fn data_type() -> DataType;

    /// A column of these values.
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a;
}

/// A column of a type, and one of which values may be missing.
macro_rules! columns {
    ($($type:ty, $data_type:expr, $array:ty, |$value:ident| $shown:expr;)*) => {$(
        impl ColumnValue for $type {
            const NULLABLE: bool = false;

            fn data_type() -> DataType {
                $data_type
            }

            fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
                Arc::new(with_zone(values.map(|$value| Some($shown)).collect::<$array>()))
            }
        }

        impl ColumnValue for Option<$type> {
            const NULLABLE: bool = true;

            fn data_type() -> DataType {
                $data_type
            }

            fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
                let shown = values.map(|value| value.as_ref().map(|$value| $shown));
                Arc::new(with_zone(shown.collect::<$array>()))
            }
        }
    )*};
}

columns! {
    Arc<str>, DataType::Utf8, StringArray, |value| &**value;
    i64, DataType::Int64, Int64Array, |value| *value;
    f64, DataType::Float64, Float64Array, |value| *value;
    bool, DataType::Boolean, BooleanArray, |value| *value;
    Timestamp, DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())), TimestampMicrosecondArray, |value| value.0;
}

/// Arrays that know a time zone get it; all others stay as they are.
fn with_zone<A: Zoned>(array: A) -> A {
    array.zoned()
}

trait Zoned: Sized {
    fn zoned(self) -> Self {
        self
    }
}

impl Zoned for StringArray {}
impl Zoned for Int64Array {}
impl Zoned for Float64Array {}
impl Zoned for BooleanArray {}
impl Zoned for TimestampMicrosecondArray {
    fn zoned(self) -> Self {
        self.with_timezone(UTC)
    }
}
