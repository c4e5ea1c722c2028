//! Samples as columns of a Parquet file, for data frames and SQL.
//!
//! One row per sample, one column per field; what was not recorded is null. Numbers are numbers (addresses
//! and time stamps 64 bits without sign), what has parts is JSON text, and a call chain is a list:
//!
//! ```text
//!  optional binary comm (String)          │ optional int64 time (unsigned)  │ optional int64 ip …
//!  optional group callchain (List) { repeated group list { required int64 element } }
//!  optional group callchain_sym (List) { repeated group list { optional binary element (String) } }
//! ```
//! Samples wait in memory until names are known, and are then written as a row group. The format is that of
//! <https://parquet.apache.org/docs/file-format/>.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::parser::parse_message_type;
use pmuscope_profile::{ModuleOffset, Symbol};

use super::draft::source_line;
use super::value::ScriptValue;
use super::{Field, Fields, Names, SCRIPT_SCHEMA, SampleView, rows};

/// Where a file goes.
type Out<'a> = &'a mut (dyn Write + Send);

/// Writes samples.
pub struct ParquetWriter<'a> {
    fields: Vec<Field>,
    columns: Vec<ParquetColumn>,
    chains: Option<Chains>,
    rows: usize,
    bytes: usize,
    file: SerializedFileWriter<Out<'a>>,
}

impl std::fmt::Debug for ParquetWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetWriter")
            .field("fields", &self.fields)
            .field("rows", &self.rows)
            .finish()
    }
}

/// Values of a field, and for each row whether there is one.
#[derive(Debug)]
struct ParquetColumn {
    is_there: Vec<i16>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Int32(Vec<i32>),
    Unsigned(Vec<i64>),
    Text(Vec<ByteArray>),
    /// Names that are not known yet: of the function, or of the source line.
    Function(Vec<ModuleOffset>),
    Line(Vec<ModuleOffset>),
}

/// Call chains of all rows, one behind the other.
#[derive(Debug, Default)]
struct Chains {
    addresses: Vec<i64>,
    /// Places of the same, where functions are shown.
    spots: Option<Vec<ModuleOffset>>,
    /// For each row its number of entries; `None` where no chain was recorded.
    lengths: Vec<Option<usize>>,
}

impl Values {
    fn of(field: Field) -> Self {
        use Field as F;
        match field {
            F::Pid | F::Tid | F::Cpu | F::Misc => Self::Int32(Vec::new()),
            F::Time
            | F::Period
            | F::Id
            | F::StreamId
            | F::Addr
            | F::Weight
            | F::InsLat
            | F::RetireLat
            | F::Ip
            | F::Transaction
            | F::PhysAddr
            | F::Cgroup
            | F::DataPageSize
            | F::CodePageSize => Self::Unsigned(Vec::new()),
            F::Sym => Self::Function(Vec::new()),
            F::Srcline => Self::Line(Vec::new()),
            F::Comm
            | F::Event
            | F::Trace
            | F::Read
            | F::DataSrc
            | F::Dso
            | F::Iregs
            | F::Uregs
            | F::Ustack
            | F::Brstack
            | F::Brstacksym
            | F::Raw => Self::Text(Vec::new()),
        }
    }

    fn schema(&self, name: &str) -> String {
        match self {
            Self::Int32(_) => format!("OPTIONAL INT32 {name};"),
            Self::Unsigned(_) => format!("OPTIONAL INT64 {name} (INTEGER(64,false));"),
            Self::Text(_) | Self::Function(_) | Self::Line(_) => {
                format!("OPTIONAL BYTE_ARRAY {name} (UTF8);")
            }
        }
    }

    /// Takes a value; whether there is one. Returns the bytes it takes, about.
    fn push(&mut self, value: &ScriptValue<'_>) -> Option<usize> {
        match (self, value) {
            (_, ScriptValue::None) => None,
            // Signs and widths are those of perf's fields.
            (Self::Int32(values), ScriptValue::Number(number)) => {
                values.push(*number as i32);
                Some(4)
            }
            (Self::Int32(values), ScriptValue::Signed(number)) => {
                values.push(*number as i32);
                Some(4)
            }
            (
                Self::Unsigned(values),
                ScriptValue::Number(number) | ScriptValue::Address(number),
            ) => {
                values.push(number.cast_signed());
                Some(8)
            }
            (Self::Text(values), value) => {
                let text = match value {
                    ScriptValue::Text(text) => String::from_utf8_lossy(text).into_owned(),
                    ScriptValue::Word(word) => word.clone(),
                    other => {
                        let mut text = String::new();
                        other.json(&mut text);
                        text
                    }
                };
                let bytes = text.len() + size_of::<ByteArray>();
                values.push(text.into_bytes().into());
                Some(bytes)
            }
            _ => None,
        }
    }
}

impl Chains {
    fn schema(&self) -> String {
        let list = |name: &str, element: &str| {
            format!("OPTIONAL GROUP {name} (LIST) {{ REPEATED GROUP list {{ {element} }} }}")
        };
        let mut text = list("callchain", "REQUIRED INT64 element (INTEGER(64,false));");
        if self.spots.is_some() {
            text.push_str(&list("callchain_sym", "OPTIONAL BYTE_ARRAY element (UTF8);"));
        }
        text
    }

    fn push(&mut self, view: &SampleView<'_>) {
        self.lengths.push((!view.chain.is_empty()).then_some(view.chain.len()));
        self.addresses.extend(view.chain.iter().map(|step| step.address.cast_signed()));
        if let Some(spots) = &mut self.spots {
            spots.extend(view.chain.iter().map(|step| step.spot));
        }
    }

    /// Definition and repetition levels; `there` says of each entry whether it has a value that can be
    /// missing.
    fn levels(&self, there: impl Fn(usize) -> i16) -> (Vec<i16>, Vec<i16>) {
        let (mut defined, mut repeated, mut at) = (Vec::new(), Vec::new(), 0);
        for length in &self.lengths {
            let Some(length) = *length else {
                defined.push(0);
                repeated.push(0);
                continue;
            };
            for entry in 0..length {
                defined.push(there(at + entry));
                repeated.push(i16::from(entry > 0));
            }
            at += length;
        }
        (defined, repeated)
    }
}

impl<'a> ParquetWriter<'a> {
    /// Begins a file of `fields`; `recording` is its name.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(fields: &Fields, recording: &str, out: Out<'a>) -> io::Result<Self> {
        let chains = fields
            .has(Field::Ip)
            .then(|| Chains { spots: fields.has(Field::Sym).then(Vec::new), ..Chains::default() });
        let fields: Vec<Field> = fields.iter().collect();
        let columns: Vec<ParquetColumn> = fields
            .iter()
            .map(|&field| ParquetColumn { is_there: Vec::new(), values: Values::of(field) })
            .collect();
        let mut schema = String::from("message samples { ");
        for (field, column) in fields.iter().zip(&columns) {
            schema.push_str(&column.values.schema(field.name()));
        }
        schema.push_str(&chains.as_ref().map(Chains::schema).unwrap_or_default());
        schema.push_str(" }");
        let schema = parse_message_type(&schema).map_err(failed)?;
        let told = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("pmuscope ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(vec![
                told("schema", SCRIPT_SCHEMA),
                told("recording", recording),
                told("unit of time", "nanoseconds of the recording's clock"),
            ]))
            .build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        Ok(Self { fields, columns, chains, rows: 0, bytes: 0, file: file.map_err(failed)? })
    }

    /// Takes a sample.
    pub fn sample(&mut self, view: &SampleView<'_>) {
        for (field, column) in self.fields.iter().zip(&mut self.columns) {
            let bytes = match (&mut column.values, view.place) {
                (Values::Function(spots) | Values::Line(spots), place) => place.map(|place| {
                    spots.push(place.spot);
                    size_of::<ModuleOffset>()
                }),
                (values, _) => values.push(&rows::value(view, *field)),
            };
            column.is_there.push(i16::from(bytes.is_some()));
            self.bytes += bytes.unwrap_or(0);
        }
        if let Some(chains) = &mut self.chains {
            chains.push(view);
            self.bytes += view.chain.len() * (8 + size_of::<ModuleOffset>());
        }
        self.rows += 1;
    }

    /// Places whose names [`ParquetWriter::write`] wants, with repetitions.
    pub fn spots(&self) -> impl Iterator<Item = ModuleOffset> + '_ {
        let of_columns = self.columns.iter().flat_map(|column| match &column.values {
            Values::Function(spots) | Values::Line(spots) => &spots[..],
            _ => &[],
        });
        let of_chains = self.chains.as_ref().and_then(|chains| chains.spots.as_ref());
        of_columns.chain(of_chains.into_iter().flatten()).copied()
    }

    /// Bytes of memory that wait to be written, about.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.bytes
    }

    /// Writes what was taken as a row group.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write(&mut self, names: &Names) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group().map_err(failed)?;
        let symbol = |spot: &ModuleOffset| names.get(spot).and_then(Option::as_ref);
        for ParquetColumn { is_there, values } in &mut self.columns {
            match values {
                Values::Int32(values) => flat::<Int32Type>(next(&mut group)?, values, is_there),
                Values::Unsigned(values) => flat::<Int64Type>(next(&mut group)?, values, is_there),
                Values::Text(values) => flat::<ByteArrayType>(next(&mut group)?, values, is_there),
                Values::Function(spots) => {
                    let name = |spot: &ModuleOffset| Some(symbol(spot)?.name.as_bytes().into());
                    named(next(&mut group)?, spots, is_there, name)
                }
                Values::Line(spots) => named(next(&mut group)?, spots, is_there, |spot| {
                    Some(source_line(symbol(spot)?)?.into_bytes().into())
                }),
            }?;
            is_there.clear();
        }
        if let Some(chains) = &mut self.chains {
            let (defined, repeated) = chains.levels(|_| 2);
            nested::<Int64Type>(next(&mut group)?, &chains.addresses, &defined, &repeated)?;
            if let Some(spots) = &chains.spots {
                let found: Vec<Option<&Symbol>> = spots.iter().map(symbol).collect();
                let (defined, repeated) = chains.levels(|at| 2 + i16::from(found[at].is_some()));
                let texts: Vec<ByteArray> =
                    found.iter().flatten().map(|symbol| symbol.name.as_bytes().into()).collect();
                nested::<ByteArrayType>(next(&mut group)?, &texts, &defined, &repeated)?;
            }
            *chains =
                Chains { spots: chains.spots.as_ref().map(|_| Vec::new()), ..Chains::default() };
        }
        group.close().map_err(failed)?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(self) -> io::Result<()> {
        self.file.close().map(|_| ()).map_err(failed)
    }
}

/// Writes a column and empties it.
fn flat<T: DataType>(
    column: SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    is_there: &[i16],
) -> io::Result<()> {
    write::<T>(column, values, is_there, None)?;
    values.clear();
    Ok(())
}

/// Writes a column of names and empties it: of what `name` knows, of all rows that have a place.
fn named(
    column: SerializedColumnWriter<'_>,
    spots: &mut Vec<ModuleOffset>,
    is_there: &[i16],
    name: impl Fn(&ModuleOffset) -> Option<ByteArray>,
) -> io::Result<()> {
    let mut places = spots.iter();
    let mut texts = Vec::with_capacity(spots.len());
    let mut level = |&is_there: &i16| {
        let text = (is_there > 0).then(|| places.next()).flatten().and_then(&name);
        let is_known = text.is_some();
        texts.extend(text);
        i16::from(is_known)
    };
    let levels: Vec<i16> = is_there.iter().map(&mut level).collect();
    write::<ByteArrayType>(column, &texts, &levels, None)?;
    spots.clear();
    Ok(())
}

fn nested<T: DataType>(
    column: SerializedColumnWriter<'_>,
    values: &[T::T],
    defined: &[i16],
    repeated: &[i16],
) -> io::Result<()> {
    write::<T>(column, values, defined, Some(repeated))
}

fn write<T: DataType>(
    mut column: SerializedColumnWriter<'_>,
    values: &[T::T],
    defined: &[i16],
    repeated: Option<&[i16]>,
) -> io::Result<()> {
    let written = column.typed::<T>().write_batch(values, Some(defined), repeated);
    written.and_then(|_| column.close()).map_err(failed)
}

fn next<'g, W: Write + Send>(
    group: &'g mut SerializedRowGroupWriter<'_, W>,
) -> io::Result<SerializedColumnWriter<'g>> {
    // The schema was made of the same fields.
    let none = || ParquetError::General("fewer columns than fields".into());
    group.next_column().and_then(|column| column.ok_or_else(none)).map_err(failed)
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
