//! `--alloc`: which files have the allocator of what is recorded.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pmuscope_console::exit::{bad_input, not_possible};
use pmuscope_machine::{Machine, Target};
use pmuscope_recorder::allocations::{Allocations, AllocatorFiles};

/// Said of a target that runs before it is recorded.
pub(super) const BEGINS_LATER: &str = "allocations before the recording are not known: heap objects that exist already stay without a name";

/// Defines the events; `named` are the values of the flag.
pub(super) fn define(
    named: &[OsString],
    target: &Target,
    command: &[OsString],
    machine: &Machine,
) -> anyhow::Result<Allocations> {
    if !rustix::process::geteuid().is_root() {
        return Err(not_possible(
            "--alloc: uprobes need root. Try: sudo pmuscope record --alloc ...",
        ));
    }
    let mut files = AllocatorFiles::default();
    for path in named.iter().filter(|path| !path.is_empty()).map(Path::new) {
        if !path.is_file() {
            let text = format!("--alloc={}: there is no such file. Try: --alloc", path.display());
            return Err(bad_input(text));
        }
        files.add(path);
    }
    match target {
        Target::Processes(tasks) | Target::Threads(tasks) => {
            for task in tasks {
                files.add_process(machine, *task).map_err(bad_input)?;
            }
        }
        _ => {
            if let Some(program) = command.first().and_then(|name| in_path(name)) {
                files.add_program(&program);
            }
            // Of programs that it starts, or that run already.
            files.add_libraries();
        }
    }
    Allocations::define(machine, files).map_err(|error| match error.is_machine() {
        true => not_possible(error),
        false => bad_input(error),
    })
}

/// Where execvp(3) finds a program.
fn in_path(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder: PathBuf| folder.join(Path::new(name)))
        .find(|file| file.is_file())
}
