//! Whether a module has symbols, and what to do where it has none.

use pmuscope_profile::{ModuleKind, ModuleShare, ModuleSummary, SymbolState};

/// Part of a file's samples without a function from which on it counts as stripped: some code has no name
/// in any file (stubs, pieces of assembler).
const STRIPPED: f64 = 0.1;

/// What counts for a module's samples. A stripped file still names what it exports, and a server may export
/// half of itself: the other half is missing all the same.
pub(crate) fn effective(module: &ModuleSummary, row: &ModuleShare) -> SymbolState {
    let most = if module.kind == ModuleKind::File { STRIPPED } else { 0.5 };
    match &module.symbols {
        SymbolState::Found if unnamed(row) > most => SymbolState::NoSymbols,
        state => state.clone(),
    }
}

/// The part of a module's samples that have no function.
pub(crate) fn unnamed(row: &ModuleShare) -> f64 {
    1.0 - row.named as f64 / row.samples.max(1) as f64
}

/// Machine-readable name of a state.
pub(crate) fn key(state: &SymbolState) -> &'static str {
    match state {
        SymbolState::Found => "found",
        SymbolState::NoSymbols => "stripped",
        SymbolState::DebugFileDiffers(_) => "debug_file_differs",
        SymbolState::FileMissing => "file_missing",
        SymbolState::FileReplaced => "file_replaced",
        SymbolState::NotAllowed => "not_allowed",
        SymbolState::Unreadable(_) => "unreadable",
        SymbolState::BuildIdDiffers { .. } => "build_id_differs",
        SymbolState::KernelHidden => "kernel_hidden",
        SymbolState::OtherKernel => "other_kernel",
        SymbolState::OtherBoot => "other_boot",
        SymbolState::NoPerfMap => "no_perf_map",
        SymbolState::NotMapped => "not_mapped",
        _ => "unknown",
    }
}

/// The state in a few words.
pub(crate) fn words(state: &SymbolState) -> &'static str {
    match state {
        SymbolState::Found => "found",
        SymbolState::NoSymbols => "stripped",
        SymbolState::DebugFileDiffers(_) => "other debug file",
        SymbolState::FileMissing => "file missing",
        SymbolState::FileReplaced => "file replaced",
        SymbolState::NotAllowed => "not readable",
        SymbolState::Unreadable(_) => "file unreadable",
        SymbolState::BuildIdDiffers { .. } => "another build",
        SymbolState::KernelHidden => "addresses hidden",
        SymbolState::OtherKernel => "another kernel",
        SymbolState::OtherBoot => "another boot",
        SymbolState::NoPerfMap => "no perf map",
        _ => "-",
    }
}

/// What to do about it; `None` where nothing is missing or nothing helps. Holds foreign text.
pub(crate) fn advice(state: &SymbolState, kind: ModuleKind) -> Option<String> {
    Some(match state {
        SymbolState::NoSymbols if kind != ModuleKind::File => return None,
        SymbolState::NoSymbols => {
            "install its debug package, or build it with symbols (no -s, no strip)".into()
        }
        SymbolState::DebugFileDiffers(path) => format!(
            "{} is of another build: install the debug package of the version that ran",
            path.display()
        ),
        SymbolState::FileMissing => {
            "report on the machine that recorded, before the file is replaced or removed; if it moved: --symfs DIR"
                .into()
        }
        SymbolState::FileReplaced => {
            "it was replaced while it ran, as updates do: restart the program and record again".into()
        }
        SymbolState::NotAllowed => "report as root, or as a user who may read it".into(),
        SymbolState::Unreadable(why) => why.clone(),
        SymbolState::BuildIdDiffers { recorded, file } => {
            let recorded = recorded.to_string();
            let file = file.as_ref().map_or("none".into(), ToString::to_string);
            format!(
                "recorded {}, the file now is {}: record again, or restore that build",
                short(&recorded),
                short(&file)
            )
        }
        SymbolState::KernelHidden => "sudo sysctl kernel.kptr_restrict=0, or report as root".into(),
        SymbolState::OtherKernel => "report on the machine and kernel that recorded".into(),
        SymbolState::OtherBoot => "kernel addresses change at boot: report before rebooting".into(),
        SymbolState::NoPerfMap => {
            "have the runtime write /tmp/perf-PID.map or jit-PID.dump: node --perf-basic-prof, \
             python -X perf, java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"
                .into()
        }
        _ => return None,
    })
}

/// The first 12 digits of a build id, enough to distinguish builds at a glance.
pub(crate) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
