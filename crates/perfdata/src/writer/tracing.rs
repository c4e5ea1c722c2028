//! Formats of tracepoints, without which stock perf rejects a file with tracepoints.
//!
//! The layout is that of trace.dat files up to version 6 (`trace-cmd.dat(5)`), as the feature section
//! TRACING_DATA has it:
//!
//! ```text
//!  17 08 44 "tracing" "0.6\0" │ byte order │ bytes of a long │ u32 bytes of a page
//!  "header_page\0"  u64 size, text │ "header_event\0" u64 size, text
//!  u32 formats of ftrace itself: u64 size, text each
//!  u32 systems: name\0, u32 events: u64 size, text each
//!  u32 size, kallsyms │ u32 size, printk formats │ u64 size, names of tasks
//! ```
//!
//! The last three only make some fields prettier, and are empty here.

use std::collections::BTreeMap;

const MAGIC: [u8; 3] = [0x17, 0x08, 0x44];
const VERSION: &[u8] = b"0.6\0";

/// What a reader needs to decode the fields of tracepoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracingData {
    /// Bytes of a page of memory.
    pub page_bytes: u32,
    /// `events/header_page` of tracefs.
    pub header_page: Vec<u8>,
    /// `events/header_event` of tracefs.
    pub header_event: Vec<u8>,
    /// System and `events/SYSTEM/NAME/format` of each tracepoint.
    pub formats: Vec<(String, Vec<u8>)>,
}

impl TracingData {
    /// The payload of the feature section.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(b"tracing");
        out.extend_from_slice(VERSION);
        out.push(u8::from(cfg!(target_endian = "big")));
        out.push(size_of::<usize>() as u8); // a long is as wide as a pointer on Linux
        put_u32(&mut out, self.page_bytes);
        out.extend_from_slice(b"header_page\0");
        put_sized(&mut out, &self.header_page);
        out.extend_from_slice(b"header_event\0");
        put_sized(&mut out, &self.header_event);
        put_u32(&mut out, 0);
        let systems = self.by_system();
        put_u32(&mut out, systems.len() as u32);
        for (system, formats) in systems {
            out.extend_from_slice(system.as_bytes());
            out.push(0);
            put_u32(&mut out, formats.len() as u32);
            formats.into_iter().for_each(|format| put_sized(&mut out, format));
        }
        put_u32(&mut out, 0);
        put_u32(&mut out, 0);
        out.extend_from_slice(&0_u64.to_ne_bytes());
        out
    }

    fn by_system(&self) -> BTreeMap<&str, Vec<&[u8]>> {
        let mut systems: BTreeMap<&str, Vec<&[u8]>> = BTreeMap::new();
        for (system, format) in &self.formats {
            systems.entry(system).or_default().push(format);
        }
        systems
    }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_ne_bytes());
}

fn put_sized(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u64).to_ne_bytes());
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_come_once_with_all_their_formats() {
        let format = |system: &str, text: &str| (system.to_owned(), text.as_bytes().to_vec());
        let data = TracingData {
            page_bytes: 4096,
            header_page: b"page".to_vec(),
            header_event: b"event!".to_vec(),
            formats: vec![format("sched", "A"), format("irq", "BB"), format("sched", "CCC")],
        };
        let bytes = data.to_bytes();
        let text = String::from_utf8_lossy(&bytes).replace(char::is_control, ".");
        let (head, tail) = text.split_at(text.find("header_page").unwrap());
        assert!(head.contains("tracing0.6."), "{head}");
        let expected =
            "header_page.........pageheader_event.........event!........irq.............BB";
        assert!(tail.contains(expected) || cfg!(target_endian = "big"), "{tail}");
        assert_eq!(tail.matches("sched").count(), 1);
        assert!(tail.find("A").unwrap() < tail.find("CCC").unwrap());
        assert!(bytes.ends_with(&[0; 16]));
    }
}
