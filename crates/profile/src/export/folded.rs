//! Folded stacks: a line for each distinct stack, from the command to the innermost function, and
//! its weight. What flame graph programs read.
//!
//! ```text
//!  xz;main;lzma_code;[liblzma.so.5.4.1] 6014
//! ```
//!
//! Names are made as `inferno-collapse-perf` makes them of `perf script`, so that graphs of old and
//! new recordings compare: blanks of a command become `_`, a semicolon in a name becomes a colon,
//! the parameters of a function are cut off, and a function without a name is called by its module.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::aggregate::{FrameId, StackId};
use crate::timeline::modules::ModuleKind;

use super::{ExportedEvent, Source, UNKNOWN, clean};

/// What names hold beyond the function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Functions of the kernel end in `_[k]`.
    pub mark_kernel: bool,
}

/// Writes one event, lines in the order of their bytes.
///
/// # Errors
/// Those of `out`.
pub fn write(
    source: &Source<'_>,
    event: &ExportedEvent,
    options: Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    lines(source, event, options).try_for_each(|(line, weight)| writeln!(out, "{line} {weight}"))
}

/// Writes one event of two sides, as `difffolded.pl` does: each stack with its weight before and after, 0 where a
/// side does not have it. A side's weights are sums over its recordings.
///
/// # Errors
/// Those of `out`.
pub fn write_sides(
    sides: [&[(Source<'_>, Option<ExportedEvent>)]; 2],
    options: Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut sums: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (at, side) in sides.into_iter().enumerate() {
        let sampled = side.iter().filter_map(|(source, event)| Some((source, event.as_ref()?)));
        for (line, weight) in sampled.flat_map(|(source, event)| lines(source, event, options)) {
            let sum = &mut sums.entry(line).or_default()[at];
            *sum = sum.saturating_add(weight);
        }
    }
    sums.iter().try_for_each(|(line, [before, after])| writeln!(out, "{line} {before} {after}"))
}

/// Stacks with their weights, in the order of their bytes.
fn lines(
    source: &Source<'_>,
    event: &ExportedEvent,
    options: Options,
) -> impl Iterator<Item = (String, u64)> {
    let mut names: FxHashMap<(FrameId, bool), Box<str>> = FxHashMap::default();
    let mut lines: Vec<(String, u64)> = Vec::new();
    for ((command, stack), weight) in by_command(source, event) {
        let mut frames: Vec<FrameId> = source.counts.stacks.frames(stack).collect();
        frames.reverse();
        let mut line = command_name(&command);
        let is_java = &*command == "java";
        for frame in frames {
            let name = names
                .entry((frame, is_java))
                .or_insert_with(|| frame_name(source, frame, is_java, options).into());
            line.push(';');
            line.push_str(name);
        }
        lines.push((line, weight));
    }
    lines.sort_unstable();
    // Different frames can have one name: addresses, lines, or parameters differ.
    lines.dedup_by(|(next, more), (line, weight)| {
        let is_same = next == line;
        if is_same {
            *weight = weight.saturating_add(*more);
        }
        is_same
    });
    lines.into_iter()
}

fn by_command(source: &Source<'_>, event: &ExportedEvent) -> FxHashMap<(Arc<str>, StackId), u64> {
    let mut sums: FxHashMap<(Arc<str>, StackId), u64> = FxHashMap::default();
    for cell in source.counts.of_event(event.index) {
        let command = source.counts.tasks[cell.task as usize].command.clone();
        let sum = sums.entry((command, cell.stack)).or_default();
        *sum = sum.saturating_add(event.value(cell));
    }
    sums
}

fn command_name(command: &str) -> String {
    clean(command).replace(' ', "_").replace(';', ":")
}

fn frame_name(source: &Source<'_>, frame: FrameId, is_java: bool, options: Options) -> String {
    let frame = &source.counts.frames[frame as usize];
    let module = source.module_name(frame.module);
    let mut name = match frame.function {
        Some(function) => {
            let name = clean(&source.counts.functions[function as usize].name).replace(';', ":");
            let name = without_parameters(&name);
            if is_java { java(name).to_owned() } else { name.to_owned() }
        }
        None if module == UNKNOWN => UNKNOWN.to_owned(),
        None => format!("[{}]", clean(module).replace(';', ":")),
    };
    let in_kernel = source
        .modules
        .get(frame.module as usize)
        .is_some_and(|module| matches!(module.kind, ModuleKind::Kernel | ModuleKind::KernelLoaded));
    if options.mark_kernel && in_kernel {
        name.push_str("_[k]");
    }
    name
}

/// Cuts the parameters: from the first parenthesis on that is in no bracket, unless it belongs to the
/// name, of an anonymous namespace in C++ or of a receiver in Go (`http.(*Client).Do`).
fn without_parameters(name: &str) -> &str {
    let mut depth = 0_i64;
    for (at, c) in name.char_indices() {
        match c {
            '(' if depth == 0 && !is_of_name(&name[..at], &name[at..]) => return &name[..at],
            '(' | '<' | '{' | '[' => depth += 1,
            ')' | '>' | '}' | ']' => depth -= 1,
            _ => {}
        }
    }
    name
}

fn is_of_name(before: &str, rest: &str) -> bool {
    before.ends_with('.') || rest.starts_with("(anonymous namespace)")
}

/// `Ljava/util/Map` is `java/util/Map`.
fn java(name: &str) -> &str {
    name.strip_prefix('L').filter(|rest| rest.contains('/')).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use inferno::collapse::Collapse as _;

    use super::super::sample;
    use super::*;

    fn folded(made: &sample::Made, options: Options) -> String {
        let mut out = Vec::new();
        write(&made.source(), &made.events()[0], options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_for_each_stack_in_order() {
        let made = sample::made();
        insta::assert_snapshot!(folded(&made, Options::default()), @r#"
        <b>"evil":;[=1,"x".so] 20
        my_app;main 10
        my_app;main;memcpy:x 35
        my_app;main;memcpy:x;copy_page 25
        my_app;main;recurse;recurse 30
        "#);
        let marked = folded(&made, Options { mark_kernel: true });
        assert!(marked.contains("copy_page_[k] "), "{marked}");
    }

    #[test]
    fn two_sides_have_two_weights_each() {
        let made = sample::made();
        let mut other = sample::made();
        other.counts.cells.retain(|cell| cell.samples != 30 && cell.samples != 15);
        let side = |made: &'_ sample::Made| Some(made.events()[0].clone());
        let before = [(made.source(), side(&made)), (made.source(), side(&made))];
        let after = [(other.source(), side(&other)), (other.source(), None)];
        let mut out = Vec::new();
        write_sides([&before, &after], Options::default(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        <b>"evil":;[=1,"x".so] 40 20
        my_app;main 20 10
        my_app;main;memcpy:x 70 35
        my_app;main;memcpy:x;copy_page 50 25
        my_app;main;recurse;recurse 60 0
        "#);
    }

    /// The counts as `perf script` would print their samples.
    fn as_script(made: &sample::Made) -> String {
        let mut script = String::new();
        let counts = &made.counts;
        for cell in counts.of_event(0) {
            let task = &counts.tasks[cell.task as usize];
            script += &format!("{} {} 1.000000: {} cpu-clock:\n", task.command, 7, cell.samples);
            for frame in counts.stacks.frames(cell.stack) {
                let frame = &counts.frames[frame as usize];
                let name = frame.function.map(|id| &*counts.functions[id as usize].name);
                let symbol = name.map_or("[unknown]".into(), |name| format!("{name}+0x10"));
                let module = &made.modules[frame.module as usize].path;
                script += &format!("\t{:x} {symbol} ({module})\n", frame.address.unwrap());
            }
            script.push('\n');
        }
        script
    }

    #[test]
    fn lines_are_what_inferno_makes_of_perf_script() {
        let mut made = sample::made();
        // inferno takes a blank in a path for the end of the name.
        made.modules[1].path = "/usr/bin/app".into();
        let names = [
            "f(int, char)",
            "a;b",
            "std::map<int (*)(char), x>::find(int)",
            "x::(anonymous namespace)::f(int)",
            "{lambda(int)#2}::operator()",
            "net/http.(*Client).Do",
            "<T as core::ops::Deref>::deref",
            "x::operator<<(int)",
            "Ljava/util/Map;.get(I)V",
            "core::ptr::drop_in_place<[u8]>",
        ];
        for (at, name) in names.iter().enumerate() {
            let at = at % made.counts.functions.len();
            made.counts.functions[at].name = (*name).into();
            for command in ["my app", "java", "a/b"] {
                made.counts.tasks[0].command = command.into();
                made.counts.tasks[1].command = "other".into();
                let mut options = inferno::collapse::perf::Options::default();
                options.nthreads = 1;
                let mut theirs = Vec::new();
                inferno::collapse::perf::Folder::from(options)
                    .collapse(as_script(&made).as_bytes(), &mut theirs)
                    .unwrap();
                let theirs = String::from_utf8(theirs).unwrap();
                assert_eq!(folded(&made, Options::default()), theirs, "{name}");
            }
        }
    }

    #[test]
    fn names_lose_their_parameters_but_nothing_else() {
        for (name, cut) in [
            ("main", "main"),
            ("f(int)", "f"),
            ("f(int)::{lambda()#1}", "f"),
            ("g<f(int)>::h", "g<f(int)>::h"),
            ("{lambda(int)#2}::operator()", "{lambda(int)#2}::operator"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("net/http.(*Client).Do", "net/http.(*Client).Do"),
            ("(", ""),
            ("", ""),
        ] {
            assert_eq!(without_parameters(name), cut);
        }
        assert_eq!(java("Ljava/util/Map"), "java/util/Map");
        assert_eq!(java("Loop"), "Loop");
    }
}
