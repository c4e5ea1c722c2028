//! Why addresses have no name and why stacks are cut, and what to do about it.

use pmuscope_profile::{CutReason, Doubt, MissingSplit, ModuleKind, ModuleSummary, SymbolState};

use super::symbols::short;
use crate::number::count;

/// The largest copy of a stack that the kernel makes, bytes: a record has less than 64 KiB.
const LARGEST_COPY: u32 = 65_528;

/// Whether addresses of a module have names, and if not, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SymbolAdvice {
    /// Machine-readable name.
    pub(crate) key: &'static str,
    /// The state in a few words.
    pub(crate) words: &'static str,
    /// `None` where nothing is missing or nothing helps. Holds foreign text.
    pub(crate) advice: Option<String>,
}

impl SymbolAdvice {
    /// Of a module in this state, among all that the recording has.
    pub(crate) fn of(
        state: &SymbolState,
        module: &ModuleSummary,
        modules: &[ModuleSummary],
    ) -> Self {
        Self::new(state, module.kind, Runtime::of(module, modules))
    }

    /// Of a file, whatever else is known.
    pub(crate) fn of_file(state: &SymbolState) -> Self {
        Self::new(state, ModuleKind::File, None)
    }

    fn new(state: &SymbolState, kind: ModuleKind, runtime: Option<&Runtime>) -> Self {
        let (key, words, advice) = row(state, kind, runtime);
        Self { key, words, advice }
    }
}

/// Name, words and advice of a state.
fn row(
    state: &SymbolState,
    kind: ModuleKind,
    runtime: Option<&Runtime>,
) -> (&'static str, &'static str, Option<String>) {
    let with = |advice: &str| Some(advice.to_owned());
    match state {
        SymbolState::Found => ("found", "found", None),
        SymbolState::NoSymbols if kind != ModuleKind::File => {
            ("stripped", "stripped", runtime.and_then(|runtime| runtime.late).map(str::to_owned))
        }
        SymbolState::NoSymbols => (
            "stripped",
            "stripped",
            with("install its debug package, or build it with symbols (no -s, no strip)"),
        ),
        SymbolState::DebugFileDiffers(path) => (
            "debug_file_differs",
            "other debug file",
            Some(format!(
                "{} is of another build: install the debug package of the version that ran",
                path.display()
            )),
        ),
        SymbolState::FileMissing => (
            "file_missing",
            "file missing",
            with(
                "report on the machine that recorded, before the file is replaced or removed; if it moved: --symfs DIR",
            ),
        ),
        SymbolState::FileReplaced => (
            "file_replaced",
            "file replaced",
            with(
                "it was replaced or removed while it ran, as updates do: restart the program and record again",
            ),
        ),
        SymbolState::FileChanged => (
            "file_changed",
            "file changed",
            with(
                "the file changed after the recording and has no build ID: record again, or name the folder of \
                 the old files with --symfs DIR",
            ),
        ),
        SymbolState::Unproven(doubt) => (
            "unproven",
            "found, unproven",
            with(match doubt {
                Doubt::OtherHost => {
                    "recorded on another host, and without build ID: names are those of this machine's file, which \
                     may be another build"
                }
                _ => {
                    "no build ID, and overlayfs hides the inode: the file may have been replaced since the recording"
                }
            }),
        ),
        SymbolState::SplitMissing(missing) => {
            ("split_missing", "found, no .dwo", Some(find_split(missing)))
        }
        SymbolState::NotAllowed => {
            ("not_allowed", "not readable", with("report as root, or as a user who may read it"))
        }
        SymbolState::Unreadable(why) => ("unreadable", "file unreadable", Some(why.clone())),
        SymbolState::NotElf => (
            "not_elf",
            "not an ELF file",
            with(
                "it is neither a program nor a library: if a runtime generates code in it, have the runtime write \
                 /tmp/perf-PID.map or jit-PID.dump",
            ),
        ),
        SymbolState::BuildIdDiffers { recorded, file } => {
            let recorded = recorded.to_string();
            let file = file.as_ref().map_or("none".into(), ToString::to_string);
            (
                "build_id_differs",
                "another build",
                Some(format!(
                    "recorded {}, the file now is {}: record again, or restore that build",
                    short(&recorded),
                    short(&file)
                )),
            )
        }
        SymbolState::KernelHidden => (
            "kernel_hidden",
            "addresses hidden",
            with("sudo sysctl kernel.kptr_restrict=0, or report as root"),
        ),
        SymbolState::OtherKernel => (
            "other_kernel",
            "another kernel",
            with("report on the machine and kernel that recorded"),
        ),
        SymbolState::OtherBoot => (
            "other_boot",
            "another boot",
            with("kernel addresses change at boot: report before rebooting"),
        ),
        SymbolState::NoPerfMap => ("no_perf_map", "no perf map", Some(describe_code(runtime))),
        SymbolState::StalePerfMap(path) => (
            "stale_perf_map",
            "stale perf map",
            Some(format!(
                "{} is older than the process, so it is of another one and was not used: {}",
                path.display(),
                describe_code(runtime)
            )),
        ),
        SymbolState::NotMapped => ("not_mapped", "-", None),
        _ => ("unknown", "-", None),
    }
}

/// Which file with split debug information is missing, where it was looked for, and what to do.
fn find_split(missing: &MissingSplit) -> String {
    let others = if missing.has_others { " (and others)" } else { "" };
    let reason = match (&missing.refused, &missing.tried[..]) {
        (Some((path, why)), _) => format!("{} was not used: {why}{others}", path.display()),
        (None, []) => format!("its debug information names no .dwo file{others}"),
        (None, paths) => {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            format!("split debug information is missing: no {}{others}", paths.join(", "))
        }
    };
    format!(
        "{reason}; without it inlined functions have no names: build again, and keep .dwo files or package them (dwp)"
    )
}

/// How a runtime is made to describe the code that it generates.
fn describe_code(runtime: Option<&Runtime>) -> String {
    let what = "have the runtime write /tmp/perf-PID.map or jit-PID.dump";
    match runtime {
        Some(runtime) => format!("{what}: {}", runtime.advice),
        None => {
            let all: Vec<&str> = RUNTIMES[..3].iter().map(|runtime| runtime.advice).collect();
            format!("{what}: {}", all.join(", "))
        }
    }
}

/// A runtime that generates code.
#[derive(Debug)]
struct Runtime {
    /// How the names of its programs and libraries begin.
    files: &'static [&'static str],
    /// Command for a description of its code.
    advice: &'static str,
    /// Why a description may lack code of a process that runs, and what to do.
    late: Option<&'static str>,
}

/// V8 writes a jitdump in whole blocks of a buffer, and a perf map line by line.
const NODE_IS_LATE: &str = "a jitdump of Node has the code compiled last only after the process has ended: record until \
                            then, or use node --perf-basic-prof";

/// The most frequent ones first.
const RUNTIMES: [Runtime; 5] = [
    Runtime {
        files: &["node", "libnode"],
        advice: "node --perf-basic-prof",
        late: Some(NODE_IS_LATE),
    },
    Runtime {
        files: &["python", "libpython"],
        advice: "python -X perf_jit (CPython 3.13 or later; 3.12: -X perf)",
        late: None,
    },
    Runtime {
        files: &["libjvm", "java"],
        advice: "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit",
        late: None,
    },
    Runtime {
        files: &["libcoreclr", "libclrjit"],
        advice: "DOTNET_PerfMapEnabled=1 dotnet",
        late: None,
    },
    Runtime { files: &["beam"], advice: "erl +JPperf true", late: None },
];

impl Runtime {
    /// The runtime whose files the process of this module has mapped.
    fn of(module: &ModuleSummary, modules: &[ModuleSummary]) -> Option<&'static Self> {
        let ModuleKind::Jit { pid } = module.kind else { return None };
        let is_of_process = |file: &&ModuleSummary| {
            let mapped = file.mapped.as_ref().filter(|_| file.kind == ModuleKind::File);
            mapped.is_some_and(|mapped| mapped.processes.contains(&pid))
        };
        modules.iter().filter(is_of_process).find_map(|file| Self::of_file(file.short_name()))
    }

    fn of_file(name: &str) -> Option<&'static Self> {
        let is_named = |start: &&str| {
            let rest = name.strip_prefix(*start);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphabetic() || c == '_'))
        };
        RUNTIMES.iter().find(|runtime| runtime.files.iter().any(is_named))
    }
}

/// What to type about stacks that are cut; `None` where nothing helps. `copy` is the size of the stack copies, bytes.
pub(super) fn advice_on_cut(reason: CutReason, copy: Option<u32>) -> Option<String> {
    let advice = match reason {
        CutReason::CopyTooShort => return Some(larger_copy(copy)),
        CutReason::NoInformation => {
            "Compile with -fasynchronous-unwind-tables, or install the debug file of the module."
        }
        CutReason::Go => {
            "Record with --call-graph fp: Go keeps frame pointers. Or build without -ldflags=-w, which leaves out \
             .debug_frame."
        }
        CutReason::FileMissing | CutReason::Unreadable => {
            "Read the recording where the files are, use --symfs DIR, or make a bundle there: pmuscope bundle."
        }
        CutReason::NotElf | CutReason::Generated => {
            "Have the runtime describe how its code is left (python -X perf_jit, CPython 3.13), or keep frame \
             pointers (Java: -XX:+PreserveFramePointer, node: --interpreted-frames-native-stack) and record with \
             --call-graph fp."
        }
        CutReason::OtherKernel => {
            "Make a bundle on the machine that recorded, before it reboots: pmuscope bundle."
        }
        CutReason::ThirtyTwoBit | CutReason::OtherMachine => "Record with --call-graph fp.",
        CutReason::ChainLimit => {
            "Raise the limit and record again: sudo sysctl kernel.perf_event_max_stack=1024."
        }
        CutReason::NotRecorded => {
            "perf inject drops user callchains that are recorded later (--call-graph fp,defer): report the original \
             recording."
        }
        CutReason::ReturnProbe => {
            "A return probe (uretprobe) replaces the return address of the function that it is on. Record without the \
             probe, or with --call-graph fp, for which Linux 6.11 and later know the address."
        }
        // What is damaged or not mapped stays so, and other limits cannot be raised.
        _ => return None,
    };
    Some(advice.into())
}

fn larger_copy(copy: Option<u32>) -> String {
    match copy {
        Some(size) if size >= LARGEST_COPY => {
            "No larger copy is possible: compile with -fno-omit-frame-pointer and record with --call-graph fp.".into()
        }
        size => {
            let now = size.map_or(String::new(), |size| format!(" (now {})", count(size.into())));
            format!("Record with a larger copy{now}: --call-graph dwarf,{LARGEST_COPY}.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_symbols::BuildId;

    fn split(refused: Option<(&str, &str)>) -> MissingSplit {
        let refused = refused.map(|(path, why)| (path.into(), why.to_owned()));
        let tried = vec!["/build/a.dwo".into(), "/opt/a.dwo".into(), "/opt/x.dwp".into()];
        MissingSplit { tried, refused, has_others: true }
    }

    fn states() -> Vec<SymbolState> {
        use SymbolState as State;
        let recorded = BuildId::new(&[7; 20]).unwrap();
        vec![
            State::Found,
            State::Unproven(Doubt::OtherHost),
            State::Unproven(Doubt::Overlay),
            State::NoSymbols,
            State::DebugFileDiffers("/x".into()),
            State::FileMissing,
            State::FileReplaced,
            State::FileChanged,
            State::SplitMissing(split(None)),
            State::NotAllowed,
            State::Unreadable("no permission".into()),
            State::NotElf,
            State::BuildIdDiffers { recorded, file: None },
            State::KernelHidden,
            State::OtherKernel,
            State::OtherBoot,
            State::NoPerfMap,
            State::StalePerfMap("/tmp/perf-7.map".into()),
            State::NotMapped,
        ]
    }

    /// Every advice that is given, with what it is about.
    fn all_advice() -> Vec<(String, String)> {
        let kinds = [ModuleKind::File, ModuleKind::Jit { pid: 1 }, ModuleKind::Kernel];
        let runtimes = || RUNTIMES.iter().map(Some).chain([None]);
        let mut all = Vec::new();
        for state in states() {
            for (kind, runtime) in
                kinds.iter().flat_map(|kind| runtimes().map(move |one| (kind, one)))
            {
                let SymbolAdvice { key, advice, .. } = SymbolAdvice::new(&state, *kind, runtime);
                all.extend(advice.map(|advice| (key.to_owned(), advice)));
            }
        }
        for (reason, words) in CutReason::ALL {
            for copy in [None, Some(8192), Some(LARGEST_COPY)] {
                all.extend(advice_on_cut(reason, copy).map(|advice| (words.to_owned(), advice)));
            }
        }
        all
    }

    /// Flags of compilers, runtimes and perf; ours are those of the list that other programs depend on.
    #[test]
    fn every_advice_names_flags_that_exist() {
        const OTHERS: [&str; 15] = [
            "-s",
            "-X",
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:+DumpPerfMapAtExit",
            "-XX:+PreserveFramePointer",
            "--perf-basic-prof",
            "--interpreted-frames-native-stack",
            "-fasynchronous-unwind-tables",
            "-fno-omit-frame-pointer",
            "-ldflags=-w",
            "perf_jit",
            "+JPperf",
            "DOTNET_PerfMapEnabled=1",
            "kernel.kptr_restrict=0",
            "kernel.perf_event_max_stack=1024",
        ];
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/interface/flags.txt");
        let list = std::fs::read_to_string(list).unwrap();
        let ours: Vec<&str> =
            list.split_whitespace().filter(|word| word.starts_with('-')).collect();
        let mut checked = 0;
        for (cause, advice) in all_advice() {
            for word in advice.split_whitespace() {
                let word = word.trim_matches(|c: char| "().,:;".contains(c));
                if word.starts_with('-') && word.len() > 1 || word.contains("=") {
                    assert!(OTHERS.contains(&word) || ours.contains(&word), "{cause}: {word}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 20, "{checked}");
    }

    #[test]
    fn every_cause_has_a_name_and_words() {
        let keys: Vec<&str> = states()
            .iter()
            .map(|state| SymbolAdvice::new(state, ModuleKind::File, None).key)
            .collect();
        let mut distinct = keys.clone();
        distinct.dedup();
        assert_eq!(distinct.len(), keys.len() - 1, "but for two doubts: {keys:?}");
        assert!(!keys.contains(&"unknown"));
    }

    #[test]
    fn only_what_helps_is_advised() {
        let on = |reason| advice_on_cut(reason, None).unwrap_or_default();
        assert!(on(CutReason::Go).contains("--call-graph fp"));
        assert!(!on(CutReason::Go).contains("-fasynchronous-unwind-tables"));
        assert!(!on(CutReason::ReturnProbe).contains("-fasynchronous-unwind-tables"));
        assert_eq!(on(CutReason::Damaged), "");
    }

    #[test]
    fn missing_split_debug_information_is_named_with_what_to_do() {
        let on = |refused| {
            SymbolAdvice::of_file(&SymbolState::SplitMissing(split(refused))).advice.unwrap()
        };
        let what = "; without it inlined functions have no names: build again, and keep .dwo files or package \
             them (dwp)";
        let paths = "split debug information is missing: no /build/a.dwo, /opt/a.dwo, /opt/x.dwp (and others)";
        assert_eq!(on(None), format!("{paths}{what}"));
        let refused = "/opt/a.dwo was not used: it is of another build (and others)";
        assert_eq!(on(Some(("/opt/a.dwo", "it is of another build"))), format!("{refused}{what}"));
    }

    #[test]
    fn generated_code_that_its_description_lacks_has_the_runtimes_reason() {
        let on = |file| {
            let kind = ModuleKind::Jit { pid: 1 };
            SymbolAdvice::new(&SymbolState::NoSymbols, kind, Runtime::of_file(file)).advice
        };
        assert!(on("node").unwrap().contains("has ended: record until then"));
        assert_eq!((on("libjvm.so"), on("")), (None, None));
    }

    #[test]
    fn files_tell_the_runtime() {
        let advice = |name| Runtime::of_file(name).map_or("", |runtime| runtime.advice);
        assert!(
            ["node", "libnode.so.108"].map(advice).iter().all(|text| text.starts_with("node "))
        );
        assert!(["python3.13", "libpython3.13.so.1.0"].map(advice)[0].contains("perf_jit"));
        assert!(advice("libjvm.so").contains("DumpPerfMapAtExit"));
        assert!(advice("beam.smp").starts_with("erl"));
        assert_eq!(["nodes_tool", "javac_helper", "libc.so.6", ""].map(advice), [""; 4]);
    }
}
