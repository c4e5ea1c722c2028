//! Messages of pprof's `profile.proto`, as far as profiles of a fleet have them. Numbers of texts, functions, mappings and
//! locations are those of the profile's tables; 0 is none.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PprofMessage {
    /// What the values of all samples are.
    #[prost(message, repeated, tag = "1")]
    pub(crate) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) sample: Vec<PprofSample>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) mapping: Vec<PprofMapping>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) location: Vec<PprofLocation>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) function: Vec<PprofFunction>,
    /// The first one is empty.
    #[prost(string, repeated, tag = "6")]
    pub(crate) string_table: Vec<String>,
    /// Since 1970, UTC.
    #[prost(int64, tag = "9")]
    pub(crate) time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub(crate) duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub(crate) period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub(crate) period: i64,
    /// Text: the type that is shown first.
    #[prost(int64, tag = "14")]
    pub(crate) default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ValueType {
    /// Text.
    #[prost(int64, tag = "1")]
    pub(crate) r#type: i64,
    /// Text.
    #[prost(int64, tag = "2")]
    pub(crate) unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PprofSample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) location_id: Vec<u64>,
    /// One per sample type.
    #[prost(int64, repeated, tag = "2")]
    pub(crate) value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PprofMapping {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) memory_limit: u64,
    /// Text.
    #[prost(int64, tag = "5")]
    pub(crate) filename: i64,
    /// Text: hexadecimal.
    #[prost(int64, tag = "6")]
    pub(crate) build_id: i64,
    /// These say whether there are no more names to look for.
    #[prost(bool, tag = "7")]
    pub(crate) has_functions: bool,
    #[prost(bool, tag = "8")]
    pub(crate) has_filenames: bool,
    #[prost(bool, tag = "9")]
    pub(crate) has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    pub(crate) has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PprofLocation {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) address: u64,
    /// The innermost function first.
    #[prost(message, repeated, tag = "4")]
    pub(crate) line: Vec<PprofLine>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PprofLine {
    #[prost(uint64, tag = "1")]
    pub(crate) function_id: u64,
    #[prost(int64, tag = "2")]
    pub(crate) line: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PprofFunction {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    /// Text.
    #[prost(int64, tag = "2")]
    pub(crate) name: i64,
    /// Text.
    #[prost(int64, tag = "3")]
    pub(crate) system_name: i64,
    /// Text.
    #[prost(int64, tag = "4")]
    pub(crate) filename: i64,
}
