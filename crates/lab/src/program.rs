//! Where programs are: QEMU, and this program for guests.

use std::path::{Path, PathBuf};

use crate::{Arch, LabError};

/// QEMU for these guests.
///
/// # Errors
/// If it is not installed; the error names the package.
pub fn emulator(arch: Arch) -> Result<PathBuf, LabError> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(arch.emulator()))
        .find(|path| path.is_file())
        .ok_or(LabError::NoEmulator { arch })
}

/// This program for guests of `arch`: itself where they are of the same kind, else a static one beside
/// it, as an installation or cargo puts it.
pub(crate) fn for_guests(arch: Arch) -> Result<PathBuf, LabError> {
    let this =
        std::env::current_exe().map_err(LabError::file("find", Path::new("/proc/self/exe")))?;
    if arch == Arch::host()? {
        return Ok(this);
    }
    let places = places(&this, arch);
    let found = places.iter().find(|path| path.is_file());
    found.cloned().ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        LabError::NoProgram { arch, looked: format!("looked for {}", looked.join(", ")) }
    })
}

/// `…/bin/pmuscope-aarch64`, and for `target/release/pmuscope`
/// `target/aarch64-unknown-linux-musl/release/pmuscope`.
fn places(this: &Path, arch: Arch) -> Vec<PathBuf> {
    let folder = this.parent().unwrap_or(Path::new("/"));
    let target = folder.parent().unwrap_or(folder);
    vec![
        folder.join(format!("pmuscope-{arch}")),
        target.join(arch.static_target()).join("release/pmuscope"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_of_the_same_kind_run_this_program() {
        let arch = Arch::host().unwrap();
        assert_eq!(for_guests(arch).unwrap(), std::env::current_exe().unwrap());
    }

    #[test]
    fn others_are_looked_for_where_cargo_and_packages_put_them() {
        let places = places(Path::new("/src/target/debug/pmuscope"), Arch::Aarch64);
        let expected = [
            "/src/target/debug/pmuscope-aarch64",
            "/src/target/aarch64-unknown-linux-musl/release/pmuscope",
        ];
        assert_eq!(places, expected.map(PathBuf::from));
    }
}
