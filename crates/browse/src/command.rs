//! The command that prints what is seen, for scripts and mail.

use pmuscope_profile::aggregate::Timeline;

use crate::step::FilterStep;

/// A command line without the program: `report -i perf.data --tid 7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Subcommand and arguments, as they are passed on.
    pub arguments: Vec<String>,
}

impl CommandLine {
    /// A subcommand with some arguments.
    pub(crate) fn new(words: &[&str]) -> Self {
        Self { arguments: words.iter().map(|&word| word.to_owned()).collect() }
    }

    /// With further arguments.
    pub(crate) fn with(mut self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments.extend(words.into_iter().map(Into::into));
        self
    }

    /// With the flags of steps. A flag that takes one value has the last one that was set; of spans of time that is their
    /// common part, which `spans` has.
    pub(crate) fn with_steps(self, steps: &[FilterStep], time: &Timeline) -> Self {
        let mut flags: Vec<(&'static str, String)> = Vec::new();
        for step in merged(steps) {
            flags.push(step.flag(time));
        }
        self.with(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]))
    }

    /// As a shell takes it.
    #[must_use]
    pub fn shell(&self) -> String {
        let words = self.arguments.iter().map(|word| quoted(word));
        std::iter::once("pmuscope".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// Steps with all spans of time as one.
fn merged(steps: &[FilterStep]) -> Vec<FilterStep> {
    let mut out: Vec<FilterStep> = Vec::new();
    for step in steps {
        if let FilterStep::Blocks(span) = step
            && let Some(FilterStep::Blocks(before)) =
                out.iter_mut().find(|step| matches!(step, FilterStep::Blocks(_)))
        {
            *before = before.start.max(span.start)..before.end.min(span.end);
            continue;
        }
        out.push(step.clone());
    }
    out
}

/// A word of a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:+%@".contains(c);
    if !word.is_empty() && word.chars().all(|c| is_plain(c) || c == '=') && !word.starts_with('=') {
        return word.to_owned();
    }
    if word.contains(char::is_control) {
        let escaped: String = word
            .chars()
            .map(|c| match c {
                '\'' => "\\'".to_owned(),
                '\\' => "\\\\".to_owned(),
                c if c.is_ascii_control() => format!("\\x{:02x}", c as u32),
                c if c.is_control() => format!("\\u{:04x}", c as u32),
                c => c.to_string(),
            })
            .collect();
        return format!("$'{escaped}'");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        for (word, expected) in [
            ("--tid", "--tid"),
            ("a b", "'a b'"),
            ("", "''"),
            ("=f", "'=f'"),
            ("it's", r"'it'\''s'"),
            ("f<int>", "'f<int>'"),
            ("[kernel.kallsyms]", "'[kernel.kallsyms]'"),
            ("a\nb", r"$'a\x0ab'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn spans_of_time_become_their_common_part() {
        let time = Timeline { start: 0, block_ns: 1_000_000_000, blocks: 10 };
        let steps = [FilterStep::Blocks(1..8), FilterStep::Thread(7), FilterStep::Blocks(3..9)];
        let line = CommandLine::new(&["report"]).with_steps(&steps, &time);
        assert_eq!(line.shell(), "pmuscope report --time 3.000000000,7.999999999 --tid 7");
    }
}
