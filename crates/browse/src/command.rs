//! The command that prints what is seen, for scripts and mail.

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

    /// With flags that have a value each; names are without dashes.
    pub(crate) fn with_flags(self, flags: &[(&str, String)]) -> Self {
        self.with(flags.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]))
    }

    /// As a shell takes it.
    #[must_use]
    pub fn shell(&self) -> String {
        let words = self.arguments.iter().map(|word| quoted(word));
        std::iter::once("pmuscope".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }
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
}
