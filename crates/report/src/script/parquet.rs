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
//! A batch of samples is a row group. Workers encode and compress its columns in memory, which are then spliced into
//! the file. The format is that of <https://parquet.apache.org/docs/file-format/>.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::column::writer::{ColumnCloseResult, get_column_writer, get_typed_column_writer};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{SchemaDescriptor, TypePtr};
use rustc_hash::FxHashMap;

use super::batch::SampleBatch;
use super::value::ScriptValue;
use super::{Field, Fields, LineFormat, SCRIPT_SCHEMA, SampleView, rows};

/// How samples become columns.
pub(super) struct ColumnFormat<'a> {
    lines: &'a LineFormat,
    fields: Vec<Field>,
    /// Whether there are columns of call chains and of their functions.
    chains: bool,
    functions: bool,
    schema: TypePtr,
    columns: SchemaDescriptor,
    properties: WriterPropertiesPtr,
}

/// The columns of a batch, encoded. Empty if the batch has no samples.
#[derive(Default)]
pub(super) struct RowGroup {
    columns: Vec<(Vec<u8>, ColumnCloseResult)>,
}

/// Row groups on their way into a file.
pub(super) struct ParquetFile<'a> {
    file: SerializedFileWriter<&'a mut (dyn Write + Send)>,
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
}

/// Call chains of all rows, one after the other.
#[derive(Debug, Default)]
struct Chains {
    addresses: Vec<i64>,
    /// Functions of the same; `None` where no name is known.
    functions: Vec<Option<ByteArray>>,
    /// For each row its number of entries; `None` where no chain was recorded.
    lengths: Vec<Option<usize>>,
}

/// Text that was met in the batch before, by the numbers of its places and names.
#[derive(Default)]
struct SharedBytes {
    comms: FxHashMap<u32, ByteArray>,
    places: FxHashMap<u32, PlaceBytes>,
}

/// As [`super::place_text::PlaceParts`].
#[derive(Clone, Default)]
struct PlaceBytes {
    function: Option<ByteArray>,
    module: Option<ByteArray>,
    line: Option<ByteArray>,
}

impl SharedBytes {
    fn place(&mut self, view: &SampleView<'_>, number: u32) -> &PlaceBytes {
        self.places.entry(number).or_insert_with(|| {
            let parts = view.texts.place(number).and_then(|text| text.parts.as_ref());
            let Some(parts) = parts else { return PlaceBytes::default() };
            let bytes = |text: &Option<Arc<str>>| text.as_deref().map(ByteArray::from);
            PlaceBytes {
                function: bytes(&parts.function),
                module: bytes(&parts.module),
                line: bytes(&parts.line),
            }
        })
    }

    /// Text that samples share; `None` if the field is another one.
    fn of_field(&mut self, view: &SampleView<'_>, field: Field) -> Option<Option<ByteArray>> {
        if field == Field::Comm {
            let comm = self.comms.entry(view.comm).or_insert_with(|| {
                view.texts.comms.get(view.comm).map(|comm| (*comm.text).into()).unwrap_or_default()
            });
            return Some(Some(comm.clone()));
        }
        if !field.is_of_place() {
            return None;
        }
        let place = view.place.map(|number| self.place(view, number));
        Some(place.and_then(|place| match field {
            Field::Sym => place.function.clone(),
            Field::Dso => place.module.clone(),
            _ => place.line.clone(),
        }))
    }
}

impl Values {
    fn of(field: Field) -> Self {
        use Field as F;
        match field {
            F::Pid | F::Tid | F::Cpu | F::Misc => Self::Int32(Vec::new()),
            F::Tod
            | F::Time
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
            F::Sym
            | F::Srcline
            | F::Comm
            | F::Event
            | F::Trace
            | F::CgroupPath
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
            Self::Text(_) => {
                format!("OPTIONAL BYTE_ARRAY {name} (UTF8);")
            }
        }
    }

    /// Takes a value; whether there is one.
    fn push(&mut self, value: &ScriptValue<'_>) -> bool {
        match (self, value) {
            (_, ScriptValue::None) => return false,
            // Signs and widths are those of perf's fields.
            (Self::Int32(values), ScriptValue::Number(number)) => values.push(*number as i32),
            (Self::Int32(values), ScriptValue::Signed(number)) => values.push(*number as i32),
            (
                Self::Unsigned(values),
                ScriptValue::Number(number) | ScriptValue::Address(number),
            ) => values.push(number.cast_signed()),
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
                values.push(text.into_bytes().into());
            }
            _ => return false,
        }
        true
    }

    fn push_text(&mut self, text: ByteArray) {
        if let Self::Text(values) = self {
            values.push(text);
        }
    }
}

impl Chains {
    fn schema(functions: bool) -> String {
        let list = |name: &str, element: &str| {
            format!("OPTIONAL GROUP {name} (LIST) {{ REPEATED GROUP list {{ {element} }} }}")
        };
        let mut text = list("callchain", "REQUIRED INT64 element (INTEGER(64,false));");
        if functions {
            text.push_str(&list("callchain_sym", "OPTIONAL BYTE_ARRAY element (UTF8);"));
        }
        text
    }

    fn push(&mut self, view: &SampleView<'_>, functions: Option<&mut SharedBytes>) {
        self.lengths.push((!view.chain.is_empty()).then_some(view.chain.len()));
        self.addresses.extend(view.chain.iter().map(|step| step.address.cast_signed()));
        if let Some(shared) = functions {
            let function = |step: &super::Step| shared.place(view, step.place).function.clone();
            self.functions.extend(view.chain.iter().map(function));
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

impl<'a> ColumnFormat<'a> {
    /// Columns of what `lines` would show; `recording` is the recording's name.
    pub(super) fn new(lines: &'a LineFormat, recording: &str) -> io::Result<Self> {
        let shown: &Fields = &lines.options.fields;
        let (chains, functions) = (shown.has(Field::Ip), shown.has(Field::Sym));
        let fields: Vec<Field> = shown.iter().collect();
        let mut schema = String::from("message samples { ");
        for &field in &fields {
            schema.push_str(&Values::of(field).schema(field.name()));
        }
        if chains {
            schema.push_str(&Chains::schema(functions));
        }
        schema.push_str(" }");
        let schema: TypePtr = Arc::new(parse_message_type(&schema).map_err(failed)?);
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
        let (columns, properties) =
            (SchemaDescriptor::new(Arc::clone(&schema)), Arc::new(properties));
        Ok(Self { lines, fields, chains, functions, schema, columns, properties })
    }

    /// Encodes a batch.
    pub(super) fn row_group(&self, batch: &SampleBatch) -> io::Result<RowGroup> {
        let column =
            |&field: &Field| ParquetColumn { is_there: Vec::new(), values: Values::of(field) };
        let mut columns: Vec<ParquetColumn> = self.fields.iter().map(column).collect();
        let (mut chains, mut shared) = (Chains::default(), SharedBytes::default());
        batch.each(self.lines.needs_details, |_, view| {
            for (&field, column) in self.fields.iter().zip(&mut columns) {
                let is_there = match shared.of_field(view, field) {
                    Some(text) => text.map(|text| column.values.push_text(text)).is_some(),
                    None => column.values.push(&rows::value(view, field)),
                };
                column.is_there.push(is_there.into());
            }
            if self.chains {
                chains.push(view, self.functions.then_some(&mut shared));
            }
        });
        if columns.first().is_none_or(|column| column.is_there.is_empty()) {
            return Ok(RowGroup::default());
        }
        let mut group = RowGroup::default();
        for ParquetColumn { is_there, values } in columns {
            match values {
                Values::Int32(values) => {
                    self.add::<Int32Type>(&mut group, &values, &is_there, None)
                }
                Values::Unsigned(values) => {
                    self.add::<Int64Type>(&mut group, &values, &is_there, None)
                }
                Values::Text(values) => {
                    self.add::<ByteArrayType>(&mut group, &values, &is_there, None)
                }
            }?;
        }
        if self.chains {
            let (defined, repeated) = chains.levels(|_| 2);
            self.add::<Int64Type>(&mut group, &chains.addresses, &defined, Some(&repeated))?;
        }
        if self.chains && self.functions {
            let is_named = |at: usize| 2 + i16::from(chains.functions[at].is_some());
            let (defined, repeated) = chains.levels(is_named);
            let names: Vec<ByteArray> = chains.functions.into_iter().flatten().collect();
            self.add::<ByteArrayType>(&mut group, &names, &defined, Some(&repeated))?;
        }
        Ok(group)
    }

    /// Encodes the next column of a row group.
    fn add<T: DataType>(
        &self,
        group: &mut RowGroup,
        values: &[T::T],
        defined: &[i16],
        repeated: Option<&[i16]>,
    ) -> io::Result<()> {
        let mut bytes = TrackedWrite::new(Vec::new());
        let column = self.columns.column(group.columns.len());
        let pages = Box::new(SerializedPageWriter::new(&mut bytes));
        let writer = get_column_writer(column, Arc::clone(&self.properties), pages);
        let mut writer = get_typed_column_writer::<T>(writer);
        writer.write_batch(values, Some(defined), repeated).map_err(failed)?;
        let close = writer.close().map_err(failed)?;
        group.columns.push((bytes.into_inner().map_err(failed)?, close));
        Ok(())
    }

    /// Begins a file of these columns.
    pub(super) fn file<'o>(&self, out: &'o mut (dyn Write + Send)) -> io::Result<ParquetFile<'o>> {
        let (schema, properties) = (Arc::clone(&self.schema), Arc::clone(&self.properties));
        let file = SerializedFileWriter::new(out, schema, properties).map_err(failed)?;
        Ok(ParquetFile { file })
    }
}

impl ParquetFile<'_> {
    /// Appends a row group.
    pub(super) fn append(&mut self, group: RowGroup) -> io::Result<()> {
        if group.columns.is_empty() {
            return Ok(());
        }
        let mut to = self.file.next_row_group().map_err(failed)?;
        for (bytes, close) in group.columns {
            to.append_column(&Bytes::from(bytes), close).map_err(failed)?;
        }
        to.close().map_err(failed)?;
        Ok(())
    }

    /// Ends the file.
    pub(super) fn finish(self) -> io::Result<()> {
        self.file.close().map(|_| ()).map_err(failed)
    }
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
