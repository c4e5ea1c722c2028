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
/// `target/aarch64-unknown-linux-musl/release/pmuscope`. Other profiles take that of the profile
/// `guest` first, which is built for tests.
fn places(this: &Path, arch: Arch) -> Vec<PathBuf> {
    let folder = this.parent().unwrap_or(Path::new("/"));
    let target = folder.parent().unwrap_or(folder);
    let is_release = folder.file_name().is_some_and(|name| name == "release");
    let profiles = if is_release { ["release", "guest"] } else { ["guest", "release"] };
    let of_cargo =
        profiles.map(|profile| target.join(arch.static_target()).join(profile).join("pmuscope"));
    std::iter::once(folder.join(format!("pmuscope-{arch}"))).chain(of_cargo).collect()
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
        for (profile, first, second) in
            [("debug", "guest", "release"), ("release", "release", "guest")]
        {
            let this = format!("/src/target/{profile}/pmuscope");
            let expected = [
                format!("/src/target/{profile}/pmuscope-aarch64"),
                format!("/src/target/aarch64-unknown-linux-musl/{first}/pmuscope"),
                format!("/src/target/aarch64-unknown-linux-musl/{second}/pmuscope"),
            ];
            assert_eq!(places(Path::new(&this), Arch::Aarch64), expected.map(PathBuf::from));
        }
    }
}
