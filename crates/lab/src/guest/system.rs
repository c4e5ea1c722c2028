//! File systems that programs expect.

use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

/// Type, place, whether the guest is of use without.
const SYSTEMS: [(&str, &str, bool); 8] = [
    ("proc", "/proc", true),
    ("sysfs", "/sys", true),
    ("devtmpfs", "/dev", true),
    ("tmpfs", "/dev/shm", false),
    ("cgroup2", "/sys/fs/cgroup", false),
    ("tracefs", "/sys/kernel/tracing", false),
    ("debugfs", "/sys/kernel/debug", false),
    ("securityfs", "/sys/kernel/security", false),
];

/// Mounts all of them. What a kernel does not have is left out unless nothing goes without.
pub(super) fn mount_all() -> Result<(), String> {
    for (kind, place, needed) in SYSTEMS {
        // Those in sysfs are there if the kernel has what belongs there.
        let _ = std::fs::create_dir_all(place);
        match mount(kind, Path::new(place), kind, MountFlags::empty(), None) {
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) if needed => {
                return Err(format!("cannot mount {kind} on {place}: {error}"));
            }
            Err(_) => {}
        }
    }
    // An unnamed machine makes some programs wait for a name service.
    let _ = rustix::system::sethostname(b"lab");
    Ok(())
}
