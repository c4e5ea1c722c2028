//! Recordings that tests write record by record, of a program whose functions have names.

use std::fs;
use std::path::Path;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};

use crate::harness::Scratch;

/// Address of a function of [`program`], by its number; each takes this many bytes.
pub(crate) const FUNCTION: u64 = 0x100;
/// Address of the first one.
pub(crate) const FIRST: u64 = 0x40_1000;
/// The process that runs it.
pub(crate) const PID: u32 = 100;

/// An address in function `number`.
pub(crate) fn at(number: u64, offset: u64) -> u64 {
    FIRST + FUNCTION * number + offset
}

/// Puts a program with these functions below `root`, as `/bin/crafted`.
pub(crate) fn program(scratch: &Scratch, functions: &[&str]) {
    let mut code = String::from(".text\n");
    for name in functions {
        code += &format!(
            ".type {name},@function\n{name}: .skip {FUNCTION},0x90\n.size {name},{FUNCTION}\n"
        );
    }
    fs::write(scratch.path("crafted.s"), code).unwrap();
    fs::create_dir_all(scratch.path("root/bin")).unwrap();
    let link = ["-nostdlib", "-static", "-no-pie", "-Wl,-Ttext=0x401000,-e,0,--build-id=none"];
    let files = ["-o", "root/bin/crafted", "crafted.s"];
    scratch.run("cc", link.iter().chain(&files)).exits(0);
}

/// Appends the name and the mapping of the program; `trailer` is what follows each record that is not a
/// sample.
pub(crate) fn begin(data: &mut Vec<u8>, trailer: &[u64]) {
    let bytes: Vec<u8> = trailer.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let comm = RecordBuilder::new(data, kind::COMM, misc::COMM_EXEC).u32(PID).u32(PID);
    comm.name(b"crafted").bytes(&bytes).finish();
    let map = RecordBuilder::new(data, kind::MMAP, misc::USER).u32(PID).u32(PID);
    let map = map.u64(FIRST).u64(0x1000).u64(0x1000);
    map.name(b"/bin/crafted").bytes(&bytes).finish();
}

/// Appends a sample of these words, taken in the kernel or in the program.
pub(crate) fn sample(data: &mut Vec<u8>, in_kernel: bool, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mode = if in_kernel { misc::KERNEL } else { misc::USER };
    RecordBuilder::new(data, kind::SAMPLE, mode).bytes(&bytes).finish();
}

/// Writes a recording that was closed.
pub(crate) fn write(path: &Path, events: &[FileEvent], data: &[u8]) {
    write_with(path, events, data, &Features::default());
}

/// The same, with what its header says of it.
pub(crate) fn write_with(path: &Path, events: &[FileEvent], data: &[u8], features: &Features) {
    let mut file = front(events);
    let start = file.len() as u64;
    file.extend_from_slice(data);
    let end = closing(events, features, start, data.len() as u64);
    file.extend_from_slice(&end.tail);
    file[..end.header.len()].copy_from_slice(&end.header);
    fs::write(path, file).unwrap();
}
