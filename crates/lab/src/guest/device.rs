//! The memory that is shared with the host: QEMU's device `ivshmem-plain`, mapped through sysfs, which
//! needs no driver.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::channel::Sender;
use crate::sys::SharedRegion;

/// PCI vendor and device (docs/specs/ivshmem-spec of QEMU).
const VENDOR: &str = "0x1af4";
const DEVICE: &str = "0x1110";

pub(super) fn open() -> Result<Sender, String> {
    let folder = find(Path::new("/sys/bus/pci/devices"))
        .ok_or("no memory is shared with the host: the kernel found no PCI device 1af4:1110")?;
    let failed = |what: &str, error: std::io::Error| {
        format!("cannot {what} the memory shared with the host, {}: {error}", folder.display())
    };
    // Firmware does it on a PC, nobody elsewhere.
    std::fs::write(folder.join("enable"), "1").map_err(|error| failed("enable", error))?;
    // Combining writes is many times faster; on Arm, plain device memory is slower still.
    let combined = folder.join("resource2_wc");
    let path = if combined.exists() { combined } else { folder.join("resource2") };
    let file = File::options().read(true).write(true).open(&path);
    let file = file.map_err(|error| failed("open", error))?;
    let length = file.metadata().map_err(|error| failed("measure", error))?.len();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let region = SharedRegion::map(&file, length).map_err(|error| failed("map", error))?;
    Ok(Sender::new(region))
}

fn find(devices: &Path) -> Option<PathBuf> {
    let is = |folder: &Path, file: &str, value: &str| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|text| text.trim() == value)
    };
    let folders = std::fs::read_dir(devices).ok()?.flatten().map(|entry| entry.path());
    let mut found = folders.filter(|f| is(f, "vendor", VENDOR) && is(f, "device", DEVICE));
    found.next()
}
