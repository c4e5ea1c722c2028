//! Formats of tracepoints, as in TRACING_DATA: names for events, and fields of their samples.
//!
//! [`crate::writer::TracingData`] shows the layout. A format is the text of `events/SYSTEM/NAME/format`:
//!
//! ```text
//!  name: sched_switch
//!  ID: 47
//!  format:
//!      field:char prev_comm[16]; offset:8; size:16; signed:1;
//!
//!  print fmt: "prev_comm=%s …", REC->prev_comm, …
//! ```

use super::bytes::{Endian, Fields, until_zero};

/// What the data start with.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Kernels have a few thousand tracepoints.
const MOST_FORMATS: usize = 1 << 16;

/// A tracepoint as the recording describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tracepoint {
    /// `config` of its events.
    pub id: u64,
    /// The subsystem. Foreign text.
    pub system: String,
    /// Its name in the subsystem. Foreign text.
    pub name: String,
    /// The fields of its samples, those that all tracepoints have among them.
    pub fields: Vec<TraceField>,
    /// How a line of trace is printed: a format string and expressions of C. Foreign text.
    pub print: String,
}

/// A field in the raw data of a tracepoint's sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceField {
    /// Its name. Foreign text.
    pub name: String,
    /// Its type in C, without a name and the length of an array. Foreign text.
    pub kind: String,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// It is a number with a sign.
    pub signed: bool,
    /// It is an array, of bytes or others.
    pub array: bool,
    /// It holds where the data really are, and their length.
    pub dynamic: bool,
    /// Where they are counts from the end of the field, not from the start of the data.
    pub relative: bool,
}

impl TraceField {
    /// Whether all tracepoints have it.
    #[must_use]
    pub fn is_common(&self) -> bool {
        self.name.starts_with("common_")
    }

    /// What a sample's raw data have for the field; `None` if they are too short.
    #[must_use]
    pub fn value<'a>(&self, raw: &'a [u8], endian: Endian) -> Option<TraceValue<'a>> {
        let end = self.offset.checked_add(self.size)?;
        let own = raw.get(self.offset..end)?;
        let is_text = self.kind.contains("char") && !self.kind.contains("unsigned");
        let bytes = if self.dynamic {
            let word = Fields::new(own, endian).u32()?;
            let base = if self.relative { end } else { 0 };
            let start = base.checked_add((word & 0xffff) as usize)?;
            raw.get(start..start.checked_add((word >> 16) as usize)?)?
        } else if self.array {
            own
        } else {
            let mut fields = Fields::new(own, endian);
            let unsigned = match self.size {
                1 => u64::from(own[0]),
                2 => fields.u16()?.into(),
                4 => fields.u32()?.into(),
                8 => fields.u64()?,
                _ => return None,
            };
            let unused = 64 - 8 * self.size as u32;
            let number = (unsigned << unused).cast_signed();
            let number = if self.signed { number >> unused } else { unsigned.cast_signed() };
            return Some(TraceValue::Number(number));
        };
        Some(if is_text { TraceValue::Text(until_zero(bytes)) } else { TraceValue::Bytes(bytes) })
    }
}

/// What a field of a tracepoint's sample holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceValue<'a> {
    /// A number: 64 bits, with a sign if the field has one.
    Number(i64),
    /// A text, without the zero at its end. Foreign text.
    Text(&'a [u8]),
    /// An array of anything else.
    Bytes(&'a [u8]),
}

impl Tracepoint {
    /// The field with that name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&TraceField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The tracepoints that `bytes` describe; what cannot be read ends the list.
pub(super) fn tracepoints(bytes: &[u8]) -> Vec<Tracepoint> {
    let mut found = Vec::new();
    let _ = read(bytes, &mut found);
    found
}

fn read(bytes: &[u8], found: &mut Vec<Tracepoint>) -> Option<()> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let version = until_zero(rest);
    let rest = rest.get(version.len() + 1..)?;
    let (&[order, _long], rest) = rest.split_first_chunk()?;
    let endian = if order == 0 { Endian::Little } else { Endian::Big };
    let mut fields = Fields::new(rest, endian);
    fields.u32()?; // bytes of a page
    for title in [&b"header_page\0"[..], b"header_event\0"] {
        if fields.take(title.len())? != title {
            return None;
        }
        sized(&mut fields)?;
    }
    for _ in 0..fields.u32()? {
        sized(&mut fields)?;
    }
    for _ in 0..fields.u32()? {
        let system = until_zero(fields.rest());
        fields.take(system.len() + 1)?;
        let system = String::from_utf8_lossy(system);
        for _ in 0..fields.u32()? {
            let text = String::from_utf8_lossy(sized(&mut fields)?);
            if found.len() >= MOST_FORMATS {
                return None;
            }
            found.extend(format(&system, &text));
        }
    }
    Some(())
}

/// `u64 size, bytes`
fn sized<'a>(fields: &mut Fields<'a>) -> Option<&'a [u8]> {
    let size = usize::try_from(fields.u64()?).ok()?;
    fields.take(size)
}

/// What the text of a format says; `None` if it names no tracepoint.
fn format(system: &str, text: &str) -> Option<Tracepoint> {
    let mut found = Tracepoint { system: system.to_owned(), ..Tracepoint::default() };
    let mut id = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("name:") {
            name.trim().clone_into(&mut found.name);
        } else if let Some(number) = line.strip_prefix("ID:") {
            id = number.trim().parse().ok();
        } else if let Some(print) = line.strip_prefix("print fmt:") {
            print.trim().clone_into(&mut found.print);
        } else if let Some(described) = line.trim_start().strip_prefix("field:") {
            found.fields.extend(field(described));
        }
    }
    found.id = id?;
    (!found.name.is_empty()).then_some(found)
}

/// `TYPE NAME;\toffset:N;\tsize:N;\tsigned:N;`
fn field(text: &str) -> Option<TraceField> {
    let mut parts = text.split(';');
    let declared = parts.next()?.trim();
    let mut found = TraceField::default();
    for part in parts {
        let Some((key, value)) = part.trim().split_once(':') else { continue };
        match key {
            "offset" => found.offset = value.parse().ok()?,
            "size" => found.size = value.parse().ok()?,
            "signed" => found.signed = value == "1",
            _ => {}
        }
    }
    found.relative = declared.starts_with("__rel_loc");
    found.dynamic = found.relative || declared.starts_with("__data_loc");
    found.array = found.dynamic || declared.contains('[');
    // `char name[16]`, `__data_loc char[] name`
    let plain = match declared.rfind('[') {
        Some(at) if declared.ends_with(']') => &declared[..at],
        _ => declared,
    };
    let at = plain
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + plain[at..].chars().next().map_or(1, char::len_utf8));
    plain[at..].clone_into(&mut found.name);
    plain[..at].trim().trim_end_matches("[]").clone_into(&mut found.kind);
    (!found.name.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::TracingData;
    use proptest::prelude::*;

    const SWITCH: &str = "name: sched_switch\nID: 47\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:__data_loc char[] path;\toffset:40;\tsize:4;\tsigned:1;\n\
        \tfield:const char * name;\toffset:48;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"prev_comm=%s\", REC->prev_comm\n";

    fn data() -> Vec<u8> {
        let formats = vec![
            ("sched".to_owned(), SWITCH.as_bytes().to_vec()),
            ("irq".to_owned(), b"name: softirq_raise\nID: 9\n".to_vec()),
            ("irq".to_owned(), b"no format".to_vec()),
        ];
        let header_page = b"page".to_vec();
        let header_event = b"event".to_vec();
        TracingData { page_bytes: 4096, header_page, header_event, formats }.to_bytes()
    }

    #[test]
    fn formats_that_are_written_are_read() {
        let found = tracepoints(&data());
        let names: Vec<_> = found.iter().map(|one| (one.id, &*one.system, &*one.name)).collect();
        assert_eq!(names, [(9, "irq", "softirq_raise"), (47, "sched", "sched_switch")]);
        let field = |name: &str| found[1].fields.iter().find(|field| field.name == name).unwrap();
        assert!(field("common_type").is_common() && !field("common_type").array);
        let comm = field("prev_comm");
        assert_eq!((comm.offset, comm.size, &*comm.kind, comm.array), (8, 16, "char", true));
        assert!(field("prev_state").signed);
        assert!(field("path").dynamic && field("path").kind.contains("char"));
        assert_eq!(field("name").kind, "const char *");
        assert_eq!(found[1].print, "\"prev_comm=%s\", REC->prev_comm");
    }

    #[test]
    fn values_are_what_the_raw_data_hold() {
        let found = tracepoints(&data());
        let mut raw = vec![0; 60];
        raw[8..15].copy_from_slice(b"sh\0junk");
        raw[32..40].copy_from_slice(&(-2_i64).to_le_bytes());
        raw[40..44].copy_from_slice(&(4 << 16 | 56_u32).to_le_bytes());
        raw[56..60].copy_from_slice(b"a/b\0");
        let value = |name, raw| found[1].field(name).unwrap().value(raw, Endian::Little);
        assert_eq!(value("prev_comm", &raw), Some(TraceValue::Text(b"sh")));
        assert_eq!(value("prev_state", &raw), Some(TraceValue::Number(-2)));
        assert_eq!(value("path", &raw), Some(TraceValue::Text(b"a/b")));
        assert_eq!(value("path", &raw[..59]), None);
        let relative = field("__rel_loc char[] x;\toffset:8;\tsize:4;\tsigned:1;").unwrap();
        raw[8..12].copy_from_slice(&(3 << 16 | 44_u32).to_le_bytes());
        assert_eq!(relative.value(&raw, Endian::Little), Some(TraceValue::Text(b"a/b")));
    }

    #[test]
    fn data_that_are_cut_or_foreign_give_what_stands_before() {
        let bytes = data();
        for end in 0..bytes.len() {
            assert!(tracepoints(&bytes[..end]).len() <= 2);
        }
        assert_eq!(tracepoints(b"trace"), []);
    }

    proptest! {
        #[test]
        fn no_bytes_can_harm(at in 0_usize..600, byte in any::<u8>(), text in ".{0,200}") {
            let mut bytes = data();
            if let Some(one) = bytes.get_mut(at) {
                *one = byte;
            }
            tracepoints(&bytes);
            format("x", &text);
            field(&text);
        }
    }
}
