//! What a run file measured: a name that hosts have in common, and whether they did the same.

use std::path::Path;
use std::sync::Arc;

use pmuscope_measure::RunFile;

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Benchmark {
    /// `bench NAME`, or the program without its folder: arguments are nobody's business, as they can hold secrets.
    pub(super) name: Arc<str>,
    /// Hash of the command lines, else of the parameters.
    pub(super) command_id: i64,
}

impl Benchmark {
    /// Of a run file.
    pub(super) fn of(file: &RunFile) -> Self {
        let program = commands(file).into_iter().find_map(<[String]>::first);
        let name = match (own_benchmark(file), program) {
            (Some(name), _) => format!("bench {name}"),
            (None, Some(program)) => stem(program),
            // Processes or CPUs that were only observed.
            (None, None) => own_words(file).next().unwrap_or("-").to_owned(),
        };
        Self { name: name.into(), command_id: command_id(file) }
    }
}

/// The commands that ran: those that were compared, or what follows `--`. None of a benchmark of our own.
fn commands(file: &RunFile) -> Vec<&[String]> {
    if !file.arms.is_empty() {
        return file.arms.iter().map(|arm| &*arm.command).collect();
    }
    let end = file.command.iter().position(|word| word == "--");
    let words = end.and_then(|end| file.command.get(end + 1..)).unwrap_or_default();
    if words.is_empty() { Vec::new() } else { vec![words] }
}

/// Names of commands of ours, and whatever else is no flag.
fn own_words(file: &RunFile) -> impl Iterator<Item = &str> {
    let own = file.command.iter().skip(1).take_while(|word| *word != "--");
    own.map(String::as_str).filter(|word| !word.starts_with('-'))
}

/// The benchmark of ours that ran.
fn own_benchmark(file: &RunFile) -> Option<&str> {
    let mut words = own_words(file);
    (words.next()? == "bench").then(|| words.next())?
}

fn stem(program: &str) -> String {
    let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| program.to_owned())
}

fn command_id(file: &RunFile) -> i64 {
    let mut hasher = blake3::Hasher::new();
    let mut push = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    };
    let commands = commands(file);
    for command in &commands {
        push(&command.len().to_string());
        command.iter().for_each(|word| push(word));
    }
    if commands.is_empty() {
        file.parameters.iter().for_each(|(name, value)| {
            push(name);
            push(value);
        });
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    i64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use pmuscope_measure::{Arm, Program};

    use super::*;

    fn file(command: &str) -> RunFile {
        let tool = Program { name: "pmuscope".into(), version: "1".into() };
        RunFile::new(tool, command.split(' ').map(str::to_owned).collect(), UNIX_EPOCH)
    }

    #[test]
    fn the_name_is_that_of_the_program_or_of_the_benchmark() {
        let name = |command: &str| Benchmark::of(&file(command)).name.to_string();
        assert_eq!(name("pmuscope stat -r 5 -- /usr/bin/gzip -kf --secret=x data"), "gzip");
        assert_eq!(name("/opt/pmuscope bench memory --json=a.json"), "bench memory");
        assert_eq!(name("pmuscope bench capture -- ./load 5"), "bench capture");
        assert_eq!(name("pmuscope stat -a --timeout 5"), "stat");
        assert_eq!((name("pmuscope"), name("pmuscope stat --")), ("-".into(), "stat".into()));
        let arm = |name: &str| Arm { name: name.into(), command: vec![format!("./{name}")] };
        let arms = vec![arm("old"), arm("new")];
        assert_eq!(&*Benchmark::of(&RunFile { arms, ..file("pmuscope stat -- ./x") }).name, "old");
    }

    #[test]
    fn what_did_the_same_has_one_id_wherever_it_was_written() {
        let id = |command: &str| Benchmark::of(&file(command)).command_id;
        let gzip = id("pmuscope stat -r 5 --json=a.json -- gzip -9 data");
        assert_eq!(gzip, id("pmuscope stat -r 9 --json=b.json -- gzip -9 data"));
        assert_ne!(gzip, id("pmuscope stat -r 5 --json=a.json -- gzip -1 data"));
        let memory = |kib: &str| {
            let parameters = [("size".to_owned(), kib.to_owned())].into();
            Benchmark::of(&RunFile { parameters, ..file("pmuscope bench memory") }).command_id
        };
        assert_eq!(memory("4"), memory("4"));
        assert_ne!(memory("4"), memory("8"));
    }
}
