//! What a recording holds that is no sample, and what reads it.

use pmuscope_perfdata::reader::OtherData;

use crate::number::bytes;

/// What a file holds instead of samples, what reads it, and how to get samples. `file` is its name, which may be
/// foreign.
#[must_use]
pub fn other_data_text(holds: OtherData, file: &str) -> String {
    let file = crate::escape(file);
    match holds {
        OtherData::Counts => format!(
            "{file} holds counts of perf stat record, which pmuscope does not read, and no samples. Try: pmuscope stat \
             -- CMD to count again; for samples: pmuscope record -- CMD"
        ),
        OtherData::Trace(size) => format!(
            "{file} holds a hardware trace ({} of AUX data), which pmuscope does not decode, and no samples. Try: \
             perf inject --itrace=i1000us -i {file} -o samples.data, then pmuscope report samples.data",
            bytes(size)
        ),
    }
}

/// The same of a file that has samples, too.
pub(super) fn other_data_note(holds: OtherData) -> String {
    match holds {
        OtherData::Counts => {
            "the counts of perf stat record in this file are not shown: pmuscope stat counts again."
                .into()
        }
        OtherData::Trace(size) => format!(
            "the hardware trace in this file ({} of AUX data) is not decoded, so its events have no samples here: \
             perf inject --itrace=i1000us makes samples of it.",
            bytes(size)
        ),
    }
}
