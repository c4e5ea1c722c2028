//! Why events could not be opened. Each variant names the call, the event, the CPU and the errno.

use std::io;

use crate::limits::ResourceNeed;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountersError {
    /// `perf_event_open` refused.
    #[error("cannot open {event} {place}: {}. {hint}", open_refusal(.source))]
    Open {
        /// The event's name as asked for.
        event: String,
        /// "on CPU 3", "for thread 4711 on CPU 3".
        place: String,
        /// The errno.
        source: io::Error,
        /// The likely cause and what to type.
        hint: String,
    },
    /// Too many descriptors.
    #[error(
        "too many open files: {need}; the limit is {limit}. Try: ulimit -n {}, or fewer events \
         (-e), CPUs (-C) or threads", need.descriptors
    )]
    OpenFiles {
        /// What was to be opened.
        need: ResourceNeed,
        /// Hard limit of descriptors.
        limit: u64,
    },
    /// The ring could not be mapped.
    #[error(
        "cannot map {rings} ring buffers of {ring_kib} KiB: mmap: {}. {}",
        errno_name(.source),
        map_hint(.source, .budget, *.suggestion_kib, *.enough_kib)
    )]
    Map {
        /// How many rings.
        rings: usize,
        /// Data area of each, KiB.
        ring_kib: u64,
        /// The errno.
        source: io::Error,
        /// The memory budget as arithmetic.
        budget: String,
        /// A ring size that fits, KiB.
        suggestion_kib: u64,
        /// A value of the limit that would do.
        enough_kib: u64,
    },
    /// The ring size is not a power of two of pages.
    #[error("invalid ring buffer size, {0} bytes: -m takes a power of two of at least one page")]
    RingSize(u64),
    /// All observed threads ended, or all CPUs went offline, before their events were open; with the
    /// threads or CPUs and the reason.
    #[error("nothing left to observe: {0} before its events could be opened")]
    Vanished(String),
    /// An ioctl or a read failed that should not fail.
    #[error("{call} on {event} {place}: {}", errno_name(.source))]
    Call {
        /// The call.
        call: &'static str,
        /// The event's name.
        event: String,
        /// Where.
        place: String,
        /// The errno.
        source: io::Error,
    },
    /// The command could not be started.
    #[error("cannot start {command}: {}", errno_name(.source))]
    Spawn {
        /// The program.
        command: String,
        /// The errno of fork, pipe or exec.
        source: io::Error,
    },
}

/// Which limit it was, and what to type. Out of memory is no limit that a setting raises.
fn map_hint(error: &io::Error, budget: &str, suggestion_kib: u64, enough_kib: u64) -> String {
    if error.raw_os_error() == Some(libc::ENOMEM) {
        return format!("Not enough free memory. Try: -m {suggestion_kib}K");
    }
    format!(
        "{budget}. Try: -m {suggestion_kib}K, or sudo sysctl kernel.perf_event_mlock_kb={enough_kib}"
    )
}

/// The errno's symbolic name with its text ("EACCES (Permission denied)"), or the text alone.
#[must_use]
pub fn errno_name(error: &io::Error) -> String {
    let name = match error.raw_os_error() {
        Some(libc::EACCES) => "EACCES",
        Some(libc::EPERM) => "EPERM",
        Some(libc::ENOENT) => "ENOENT",
        Some(libc::ENODEV) => "ENODEV",
        Some(libc::EINVAL) => "EINVAL",
        Some(libc::EMFILE) => "EMFILE",
        Some(libc::ENFILE) => "ENFILE",
        Some(libc::EOPNOTSUPP) => "EOPNOTSUPP",
        Some(libc::ENOSYS) => "ENOSYS",
        Some(libc::ENOSPC) => "ENOSPC",
        Some(libc::ESRCH) => "ESRCH",
        Some(libc::EBUSY) => "EBUSY",
        Some(libc::E2BIG) => "E2BIG",
        Some(libc::ENOMEM) => "ENOMEM",
        Some(libc::EOVERFLOW) => "EOVERFLOW",
        Some(libc::EBADF) => "EBADF",
        Some(libc::ENOEXEC) => "ENOEXEC",
        Some(libc::ENOTDIR) => "ENOTDIR",
        Some(libc::EISDIR) => "EISDIR",
        Some(libc::EROFS) => "EROFS",
        Some(libc::EDQUOT) => "EDQUOT",
        Some(libc::EFBIG) => "EFBIG",
        Some(libc::EIO) => "EIO",
        _ => return error.to_string(),
    };
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("{name} ({text})")
}

/// What `perf_event_open` said, with the name of the call.
#[must_use]
pub fn open_refusal(error: &io::Error) -> String {
    format!("perf_event_open: {}", errno_name(error))
}

/// What an errno of `perf_event_open` most likely means, and what to type. `paranoid` is
/// `kernel.perf_event_paranoid`, where it could be read.
pub(crate) fn open_hint(error: &io::Error, question: &OpenQuestion<'_>) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => permission_hint(question),
        Some(libc::ENOENT | libc::ENODEV) if question.hardware => {
            "This machine has no such counter (a virtual machine without a PMU, or an event that \
             the PMU lacks). Try: pmuscope doctor, or -e cpu-clock"
                .into()
        }
        // Every kernel has software events; a cgroup has what perf needs of it once a controller is enabled.
        Some(libc::ENOENT) if question.in_cgroup && !question.tracepoint => {
            "No controller is enabled for cgroups, so their events cannot be counted. Try: \
             echo +pids | sudo tee /sys/fs/cgroup/cgroup.subtree_control"
                .into()
        }
        Some(libc::ENOENT) => "The kernel does not know this event. Try: pmuscope doctor".into(),
        Some(libc::ENOSPC) => {
            "All debug registers of this CPU or thread are in use. Try: fewer mem: events".into()
        }
        Some(libc::ESRCH) => "The thread has ended".into(),
        Some(libc::EINVAL) => {
            "The kernel or the PMU rejects this combination of settings. Try: --dry-run, which \
             shows the attribute, or -v, which shows the kernel's last error"
                .into()
        }
        Some(libc::EOPNOTSUPP) if !question.hardware => {
            "Software events have no branch records and no precise addresses. Try: without -b, -j, \
             --call-graph lbr or :p"
                .into()
        }
        Some(libc::EOPNOTSUPP) => {
            "The PMU does not support this (sampling, precise addresses or branch stacks). Try: \
             without -b, -d or :p, or -e cpu-clock"
                .into()
        }
        Some(libc::EBUSY) => {
            "Another process holds the PMU exclusively. Try: sudo sysctl kernel.nmi_watchdog=0"
                .into()
        }
        Some(libc::E2BIG) => {
            "The group reads more than the kernel allows. Try: a smaller group".into()
        }
        Some(libc::ENOSYS) => "This kernel is built without perf events".into(),
        _ => "Try: pmuscope doctor".into(),
    }
}

/// What was asked of the kernel, as far as an explanation needs it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OpenQuestion<'a> {
    pub(crate) event: &'a str,
    pub(crate) hardware: bool,
    /// Of what runs in a cgroup.
    pub(crate) in_cgroup: bool,
    pub(crate) any_task: bool,
    pub(crate) with_kernel: bool,
    pub(crate) tracepoint: bool,
    /// Of a thread that belongs to another user.
    pub(crate) foreign: bool,
    pub(crate) paranoid: Option<i32>,
}

/// The levels of `kernel.perf_event_paranoid`: above -1 no raw tracepoints, above 0 no CPU-wide
/// events, above 1 no kernel samples, above 2 (Debian) nothing (`Documentation/admin-guide/perf-security.rst`).
fn permission_hint(question: &OpenQuestion<'_>) -> String {
    if question.foreign {
        return "The process belongs to another user. Try: sudo pmuscope …".into();
    }
    let Some(level) = question.paranoid else {
        return "CAP_PERFMON is missing. Try: sudo pmuscope …, or pmuscope doctor".into();
    };
    let needed = match question {
        OpenQuestion { tracepoint: true, .. } => -1,
        OpenQuestion { any_task: true, .. } => 0,
        OpenQuestion { with_kernel: true, .. } => 1,
        _ => 2,
    };
    if level <= needed {
        return format!(
            "perf_event_paranoid is {level}, which allows it, so the cause is a container's \
             seccomp profile, a security module, or a process of another user. Try: sudo pmuscope …"
        );
    }
    // What has modifiers already would need others, and who asked for the kernel does not want the user.
    let is_plain = !question.event.contains([':', '/']);
    let or = if needed == 1 && is_plain {
        format!(", or -e {}:u", question.event)
    } else {
        String::new()
    };
    format!(
        "perf_event_paranoid is {level} and pmuscope has no CAP_PERFMON. \
         Try: sudo sysctl kernel.perf_event_paranoid={needed}{or}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(errno: i32, question: OpenQuestion<'_>) -> String {
        open_hint(&io::Error::from_raw_os_error(errno), &question)
    }

    #[test]
    fn the_level_that_would_do_is_named() {
        let question = OpenQuestion {
            event: "cycles",
            any_task: true,
            paranoid: Some(2),
            ..Default::default()
        };
        assert!(hint(libc::EACCES, question).contains("perf_event_paranoid=0"));
        let question = OpenQuestion { any_task: false, with_kernel: true, ..question };
        let text = hint(libc::EACCES, question);
        assert!(text.contains("perf_event_paranoid=1, or -e cycles:u"), "{text}");
        let question = OpenQuestion { paranoid: Some(-1), ..question };
        assert!(hint(libc::EACCES, question).contains("which allows it"));
        let question = OpenQuestion { foreign: true, ..question };
        assert_eq!(
            hint(libc::EACCES, question),
            "The process belongs to another user. Try: sudo pmuscope …"
        );
    }

    #[test]
    fn what_only_a_pmu_has_is_not_looked_for_in_software() {
        let software = OpenQuestion::default();
        assert!(hint(libc::EOPNOTSUPP, software).contains("Software events have no"));
        let hardware = OpenQuestion { hardware: true, ..software };
        assert!(hint(libc::EOPNOTSUPP, hardware).contains("-e cpu-clock"));
        let in_cgroup = OpenQuestion { in_cgroup: true, ..software };
        assert!(hint(libc::ENOENT, in_cgroup).contains("cgroup.subtree_control"));
        assert!(hint(libc::ENOENT, software).contains("does not know this event"));
    }

    #[test]
    fn an_errno_has_its_name_and_no_number() {
        assert_eq!(
            errno_name(&io::Error::from_raw_os_error(libc::EACCES)),
            "EACCES (Permission denied)"
        );
    }
}
