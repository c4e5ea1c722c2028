//! A folder as `perf record --threads` writes it: the input is `data` behind its length, `data.0`
//! behind its length, and `data.1`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{folder, recording, take_part};
use pmuscope_perfdata::reader::Reader;
use pmuscope_profile::GroupBy;

fuzz_target!(|bytes: &[u8]| {
    let path = folder().join("directory");
    std::fs::create_dir_all(&path).expect("a folder");
    let mut rest = bytes;
    let parts =
        [("data", take_part(&mut rest)), ("data.0", take_part(&mut rest)), ("data.1", rest)];
    for (name, bytes) in parts {
        std::fs::write(path.join(name), bytes).expect("space for a file");
    }
    recording::read(Reader::open_all(&path));
    if let Ok(profile) = recording::profile_in_order(&path, GroupBy::default()) {
        recording::adds_up(&profile);
    }
});
