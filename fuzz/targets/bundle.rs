//! What stands behind the recording in a bundle, with the frame and its checksum right: chance would
//! never find these. Inputs that begin with an odd byte are the frame itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, symbols};
use pmuscope_symbols::Bundle;

fuzz_target!(|bytes: &[u8]| {
    let Some((&form, bytes)) = bytes.split_first() else { return };
    let frame = match form & 1 {
        0 => zstd::bulk::compress(bytes, 1).expect("memory"),
        _ => bytes.to_vec(),
    };
    let mut whole = frame.clone();
    whole.extend((frame.len() as u64).to_le_bytes());
    whole.extend(crc32fast::hash(&frame).to_le_bytes());
    whole.extend(b"pmbundl\x01");
    let path = file("bundle", &whole);
    let Ok(Some(bundle)) = Bundle::of(&path) else { return };
    let mut symbolizer = symbols::symbolizer(false);
    symbolizer.use_bundle(bundle);
    let _ = symbolizer.running_kernel();
    symbols::ask_file(&mut symbolizer, &path, None);
});
