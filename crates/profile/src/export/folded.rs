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
use std::fmt::Write as _;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::aggregate::{FrameId, StackId};
use crate::pool::in_parallel;
use crate::timeline::modules::ModuleKind;
use crate::views::{StackBranch, StackTree, Sums};

use super::{ExportedEvent, Source, UNKNOWN, clean};

/// The command that has function names in Java's form.
const JAVA: &str = "java";
/// Bytes that are written at once, about.
const AT_ONCE: usize = 64 << 10;

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
    let mut text = String::new();
    each_line(source, event, options, |line, weight| {
        text.push_str(line);
        // Texts take everything.
        let _ = writeln!(text, " {weight}");
        if text.len() >= AT_ONCE {
            out.write_all(text.as_bytes())?;
            text.clear();
        }
        Ok(())
    })?;
    out.write_all(text.as_bytes())
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
        for (source, event) in sampled {
            each_line(source, event, options, |line, weight| {
                if let Some(sums) = sums.get_mut(line) {
                    sums[at] = sums[at].saturating_add(weight);
                } else {
                    sums.entry(line.to_owned()).or_default()[at] = weight;
                }
                Ok(())
            })?;
        }
    }
    sums.iter().try_for_each(|(line, [before, after])| writeln!(out, "{line} {before} {after}"))
}

/// Hands out stacks with their weights, in the order of their bytes.
///
/// Frames of one name are one branch of a [`StackTree`], which is walked in the order of names. A name ends where another
/// goes on, so what is below a function has its place by the semicolon:
///
/// ```text
///  a;f      a;f!x      a;f;g          the own line of f, then f!x, then what f calls
/// ```
fn each_line(
    source: &Source<'_>,
    event: &ExportedEvent,
    options: Options,
    mut take: impl FnMut(&str, u64) -> io::Result<()>,
) -> io::Result<()> {
    let commands = by_command(source, event);
    let names = LineNames::new(source, false, options);
    let of_java = commands.contains_key(JAVA).then(|| LineNames::new(source, true, options));
    let names_of = |command: &str| of_java.as_ref().filter(|_| command == JAVA).unwrap_or(&names);
    let trees: BTreeMap<String, StackTree<'_>> = in_parallel(commands, |(command, own)| {
        let tree = StackTree::new(&source.counts.stacks, &names_of(&command).keys, own);
        (command, tree)
    })
    .into_iter()
    .collect();
    let mut order: Vec<(&str, bool)> =
        trees.keys().flat_map(|name| [(&**name, false), (&**name, true)]).collect();
    order.sort_unstable_by(|a, b| ending(*a).cmp(ending(*b)));
    for (command, is_below) in order {
        let tree = &trees[command];
        if is_below {
            names_of(command).each_line_below(tree, command, &mut take)?;
            continue;
        }
        let Sums { samples, weight } = tree.own(&tree.root());
        if samples > 0 {
            take(command, weight)?;
        }
    }
    Ok(())
}

/// What was counted by what commands are called in lines.
fn by_command(
    source: &Source<'_>,
    event: &ExportedEvent,
) -> BTreeMap<String, Vec<(StackId, Sums)>> {
    let tasks = &source.counts.tasks;
    let names: Vec<String> = tasks.iter().map(|task| command_name(&task.command)).collect();
    let mut found: BTreeMap<String, Vec<(StackId, Sums)>> = BTreeMap::new();
    for cell in source.counts.of_event(event.index) {
        let own = (cell.stack, Sums { samples: cell.samples, weight: event.value(cell) });
        let name = &names[cell.task as usize];
        match found.get_mut(name) {
            Some(all) => all.push(own),
            None => drop(found.insert(name.clone(), vec![own])),
        }
    }
    found
}

/// A name as it stands in a line, with the semicolon where there is more behind it.
fn ending((name, is_below): (&str, bool)) -> impl Iterator<Item = u8> {
    name.bytes().chain(is_below.then_some(b';'))
}

/// Names of frames as lines have them, each once.
struct LineNames {
    /// By frame.
    keys: Vec<u32>,
    /// By key.
    names: Vec<Box<str>>,
    /// The place of each name among all, alone and with what is behind it.
    ranks: Vec<[u32; 2]>,
}

/// What comes next in a walk; `prefix` is the length of the line before it.
enum LineStep {
    Line { key: u32, prefix: usize, weight: u64 },
    Below { prefix: usize, branch: StackBranch },
}

impl LineNames {
    fn new(source: &Source<'_>, is_java: bool, options: Options) -> Self {
        let mut known: FxHashMap<Box<str>, u32> = FxHashMap::default();
        let mut names: Vec<Box<str>> = Vec::new();
        let key = |frame: usize| {
            let name: Box<str> = frame_name(source, frame as FrameId, is_java, options).into();
            *known.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() as u32 - 1
            })
        };
        let keys = (0..source.counts.frames.len()).map(key).collect();
        let mut order: Vec<(usize, bool)> =
            (0..names.len()).flat_map(|at| [(at, false), (at, true)]).collect();
        order.sort_unstable_by(|&(a, a_below), &(b, b_below)| {
            ending((&names[a], a_below)).cmp(ending((&names[b], b_below)))
        });
        let mut ranks = vec![[0; 2]; names.len()];
        for ((at, is_below), rank) in order.into_iter().zip(0..) {
            ranks[at][usize::from(is_below)] = rank;
        }
        Self { keys, names, ranks }
    }

    /// Hands out the lines of all that a command calls.
    fn each_line_below(
        &self,
        tree: &StackTree<'_>,
        command: &str,
        take: &mut impl FnMut(&str, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut line = command.to_owned();
        let mut open = Vec::new();
        self.open(tree, &tree.root(), line.len(), &mut open);
        while let Some(step) = open.pop() {
            match step {
                LineStep::Line { key, prefix, weight } => {
                    self.go_on(&mut line, prefix, key);
                    take(&line, weight)?;
                }
                LineStep::Below { prefix, branch } => {
                    self.go_on(&mut line, prefix, branch.key);
                    self.open(tree, &branch, line.len(), &mut open);
                }
            }
        }
        Ok(())
    }

    fn go_on(&self, line: &mut String, prefix: usize, key: u32) {
        line.truncate(prefix);
        line.push(';');
        line.push_str(&self.names[key as usize]);
    }

    /// Puts what a branch calls into `open`, the first last.
    fn open(
        &self,
        tree: &StackTree<'_>,
        branch: &StackBranch,
        prefix: usize,
        open: &mut Vec<LineStep>,
    ) {
        let from = open.len();
        for branch in tree.callees(branch) {
            let (key, own) = (branch.key, tree.own(&branch));
            if own.samples > 0 {
                open.push(LineStep::Line { key, prefix, weight: own.weight });
            }
            if own != branch.total {
                open.push(LineStep::Below { prefix, branch });
            }
        }
        open[from..].sort_unstable_by_key(|step| {
            std::cmp::Reverse(match step {
                LineStep::Line { key, .. } => self.ranks[*key as usize][0],
                LineStep::Below { branch, .. } => self.ranks[branch.key as usize][1],
            })
        });
    }
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
