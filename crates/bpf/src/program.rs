//! Programs that the kernel has verified.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::assembler::Assembler;
use crate::error::BpfError;
use crate::sys;

/// Functions such as `bpf_probe_read_user` are for programs of licenses that go with the GPL.
const LICENSE: &[u8] = b"Dual MIT/GPL\0";
/// Lines of the verifier's log that are told.
const TOLD: usize = 6;

/// A program for events of perf (`BPF_PROG_TYPE_PERF_EVENT`): it runs at each overflow, its context is
/// `struct bpf_perf_event_data`. Returns 0: no sample is written; else one is.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Program {
    /// Hands the instructions to the kernel.
    ///
    /// # Errors
    /// [`BpfError::Refused`] with what the verifier said, [`BpfError::Call`] where rights are missing.
    pub fn load(code: Assembler) -> Result<Self, BpfError> {
        let code = code.finish();
        match sys::load_program(&code, LICENSE, None) {
            Ok(fd) => Ok(Self(fd)),
            Err(source) => {
                let first = BpfError::Call { call: "bpf(BPF_PROG_LOAD)", source };
                if first.is_permission() && first.source_error().raw_os_error() == Some(libc::EPERM)
                {
                    return Err(first);
                }
                // Once more, to hear why.
                let mut log = vec![0; 1 << 20];
                match sys::load_program(&code, LICENSE, Some(&mut log)) {
                    Ok(fd) => Ok(Self(fd)),
                    Err(source) => Err(BpfError::Refused { source, said: last_lines(&log) }),
                }
            }
        }
    }
}

fn last_lines(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log.split(|byte| *byte == 0).next().unwrap_or_default());
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TOLD)..].join("; ")
}
