//! A simulated recording with a file that its program's functions have their names from.

use std::process::Command;

use crate::harness::Scratch;
use pmuscope_testkit::simulator::{Function, Run, write};

/// Where each function ends, from where the first one begins in the file.
const FUNCTION: u64 = 0x1_0000;
/// Linkers put code behind the first page.
const FIRST: u64 = 0x1000;

/// Functions that differ in what they need.
pub(crate) fn program() -> Vec<Function> {
    vec![
        Function::plain("division", 60_000.0, 0.2),
        Function { branch_misses: 0.03, ..Function::plain("branches", 20_000.0, 0.9) },
        Function { cache_misses: 0.4, weight: 0.3, ..Function::plain("chase", 12_000.0, 0.28) },
        Function { calls: Some((0, 0.5)), ..Function::plain("caller", 30_000.0, 2.0) },
        Function { weight: 20.0, ..Function::plain("leaf", 150.0, 3.0) },
    ]
}

/// Writes `pmuscope.data` and, below `root`, its program; why not, where no compiler is there.
pub(crate) fn record(scratch: &Scratch, run: &Run) -> Option<String> {
    write(run, &scratch.path("pmuscope.data"));
    let mut code = String::from(".text\n");
    for (at, function) in run.functions.iter().enumerate() {
        let size = if at == 0 { FUNCTION - FIRST } else { FUNCTION };
        let name = function.name;
        code += &format!(".type {name},@function\n{name}: .skip {size}\n.size {name},{size}\n");
    }
    let source = scratch.path("simulated.s");
    std::fs::write(&source, code).unwrap();
    let folder = scratch.path("root/bin");
    std::fs::create_dir_all(&folder).unwrap();
    let linked = Command::new("cc")
        .args(["-nostdlib", "-static", "-no-pie", "-Wl,-Ttext=0x401000,-e,0,--build-id=none", "-o"])
        .arg(folder.join("simulated"))
        .arg(&source)
        .output();
    match linked {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("cc: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Some(format!("no C compiler: {error}")),
    }
}
