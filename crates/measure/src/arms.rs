//! Commands that are compared in one file: their names, and how a command is written as one word.
//!
//! A command in one word (`--vs 'CMD ARG'`) is split as a POSIX shell splits it (XCU 2.2, 2.6.5): at
//! blanks, with '…', "…" and \ to quote. No shell runs. What only a shell could do (pipes, redirections,
//! variables, patterns) is refused where it is not quoted, instead of given to the program as text.

use std::ffi::OsString;

use crate::run_file::{Arm, Labels};

/// The label of runs and series of a file with several arms.
pub const ARM: &str = "arm";

/// Name of an arm by its place: A, B, … Z, AA, AB, …
#[must_use]
pub fn name(place: usize) -> String {
    let letter = char::from(b'A' + (place % 26) as u8).to_string();
    match place / 26 {
        0 => letter,
        more => name(more - 1) + &letter,
    }
}

/// The label of an arm's runs and figures; empty where there is one command only.
#[must_use]
pub fn labels(place: usize, arms: usize) -> Labels {
    let label = || (ARM.to_owned(), name(place));
    (arms > 1).then(label).into_iter().collect()
}

/// What commands are called in a run file: one is not called anything.
#[must_use]
pub fn named(commands: &[Vec<OsString>]) -> Vec<Arm> {
    if commands.len() < 2 {
        return Vec::new();
    }
    let words = |command: &Vec<OsString>| {
        command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    };
    let arm = |(place, command)| Arm { name: name(place), command: words(command) };
    commands.iter().enumerate().map(arm).collect()
}

/// Why a text is not a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WordsError {
    /// There is no word in it.
    #[error("it is empty")]
    Empty,
    /// A quote is never closed.
    #[error("unclosed quote {0}")]
    Open(char),
    /// A backslash with nothing after it.
    #[error("it ends with \\, which quotes the next character")]
    Backslash,
    /// Something that only a shell does.
    #[error(
        "{0:?} is shell syntax, and no shell runs. Try: sh -c '…' as the command, or single quotes \
         around it"
    )]
    Shell(char),
    /// A variable before the program.
    #[error("{0} sets a variable, which is shell syntax, and no shell runs. Try: env {0} …")]
    Variable(String),
}

/// Splits a command at blanks, as a shell does, with its quotes.
///
/// # Errors
/// If it has no word, a quote is open, or a shell would do more than split it.
pub fn split(text: &str) -> Result<Vec<OsString>, WordsError> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.trim().chars();
    while let Some(letter) = letters.next() {
        let at_start = word.is_none();
        match letter {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next().ok_or(WordsError::Open('\''))? {
                        '\'' => break,
                        other => word.push(other),
                    }
                }
            }
            '"' => double_quoted(&mut letters, word.get_or_insert_default())?,
            '\\' => match letters.next().ok_or(WordsError::Backslash)? {
                // A line that goes on.
                '\n' => {}
                other => word.get_or_insert_default().push(other),
            },
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '*' | '?' | '[' | '\n' => {
                return Err(WordsError::Shell(letter));
            }
            '~' | '#' if at_start => return Err(WordsError::Shell(letter)),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    match words.first() {
        None => Err(WordsError::Empty),
        Some(first) if is_assignment(first) => Err(WordsError::Variable(first.clone())),
        Some(_) => Ok(words.into_iter().map(OsString::from).collect()),
    }
}

/// A placeholder of commands, `{NAME}`, and the values that replace it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Without braces.
    pub name: String,
    /// One or more, all different.
    pub values: Vec<String>,
}

/// Why a text is not a parameter, or of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// It is not `NAME=VALUE,…`.
    #[error(
        "not NAME=VALUE,VALUE with a name of letters, digits, _ and -. Try: --parameter threads=1,2,4"
    )]
    Form,
    /// One value is there twice.
    #[error("the value {0:?} is there twice")]
    Twice(String),
    /// There is another of that name.
    #[error("there are two parameters of the name {0}")]
    SameName(String),
    /// No command has the placeholder.
    #[error("no command has {{{0}}}, so all runs would be alike. Try: -- CMD {{{0}}}")]
    Unused(String),
}

impl std::str::FromStr for Parameter {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        let (name, values) = text.split_once('=').ok_or(ParameterError::Form)?;
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        if name.is_empty() || !name.chars().all(is_of_name) || values.is_empty() {
            return Err(ParameterError::Form);
        }
        let values: Vec<String> = values.split(',').map(str::to_owned).collect();
        let is_twice = |(at, value): &(usize, &String)| values[..*at].contains(value);
        if let Some((_, value)) = values.iter().enumerate().find(is_twice) {
            return Err(ParameterError::Twice(value.clone()));
        }
        Ok(Self { name: name.to_owned(), values })
    }
}

/// A command whose placeholders are replaced by values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArmCommand {
    /// Its words.
    pub command: Vec<OsString>,
    /// Names and values that were chosen for it.
    pub values: Vec<(String, String)>,
}

impl ArmCommand {
    /// A command without parameters.
    #[must_use]
    pub fn new(command: Vec<OsString>) -> Self {
        Self { command, values: Vec::new() }
    }

    /// `text` with its placeholders replaced as in the command.
    #[must_use]
    pub fn replace(&self, text: &str) -> String {
        self.values
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&placeholder(name), value))
    }
}

fn placeholder(name: &str) -> String {
    format!("{{{name}}}")
}

/// Each command with each combination of the values of the parameters that occur in it; the last parameter changes
/// first.
///
/// # Errors
/// If a parameter occurs in no command, or two have one name.
pub fn expand(
    commands: Vec<Vec<OsString>>,
    parameters: &[Parameter],
) -> Result<Vec<ArmCommand>, ParameterError> {
    for (at, parameter) in parameters.iter().enumerate() {
        if parameters[..at].iter().any(|other| other.name == parameter.name) {
            return Err(ParameterError::SameName(parameter.name.clone()));
        }
        if !commands.iter().any(|command| has_placeholder(command, &parameter.name)) {
            return Err(ParameterError::Unused(parameter.name.clone()));
        }
    }
    let arms = commands.into_iter().flat_map(|command| {
        let own = parameters.iter().filter(|parameter| has_placeholder(&command, &parameter.name));
        let combinations = own.fold(vec![Vec::new()], |combinations, parameter| {
            let with = |values: &Vec<(String, String)>, value: &String| {
                let more = (parameter.name.clone(), value.clone());
                values.iter().cloned().chain([more]).collect::<Vec<_>>()
            };
            let all = combinations.iter();
            all.flat_map(|one| parameter.values.iter().map(|value| with(one, value))).collect()
        });
        combinations.into_iter().map(move |values| {
            let arm = ArmCommand { command: Vec::new(), values };
            let words = command.iter().map(|word| match word.to_str() {
                Some(text) => OsString::from(arm.replace(text)),
                None => word.clone(),
            });
            ArmCommand { command: words.collect(), ..arm.clone() }
        })
    });
    Ok(arms.collect())
}

fn has_placeholder(command: &[OsString], name: &str) -> bool {
    let placeholder = placeholder(name);
    command.iter().any(|word| word.to_str().is_some_and(|text| text.contains(&placeholder)))
}

/// Up to the closing quote; only `$`, `` ` ``, `"`, `\` and a line's end are quoted by \ there.
fn double_quoted(letters: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), WordsError> {
    loop {
        match letters.next().ok_or(WordsError::Open('"'))? {
            '"' => return Ok(()),
            '\\' => match letters.next().ok_or(WordsError::Open('"'))? {
                '\n' => {}
                quoted @ ('$' | '`' | '"' | '\\') => word.push(quoted),
                other => word.extend(['\\', other]),
            },
            expanded @ ('$' | '`') => return Err(WordsError::Shell(expanded)),
            other => word.push(other),
        }
    }
}

/// `NAME=VALUE`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty()
            && name.chars().all(is_name)
            && !name.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// A command as it can be typed: words that a shell would change are quoted.
#[must_use]
pub fn join(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%^".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.iter().map(quoted).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        let words = split(text).unwrap();
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn quotes_work_as_in_a_shell() {
        assert_eq!(words("xz -9  -k\tbig.tar"), ["xz", "-9", "-k", "big.tar"]);
        assert_eq!(words(r#"sh -c 'a | b > "c"' x"#), ["sh", "-c", r#"a | b > "c""#, "x"]);
        assert_eq!(words(r#"p "a b" c\ d 'e'"f"g "" ''"#), ["p", "a b", "c d", "efg", "", ""]);
        assert_eq!(words(r#"p "\$x \q \\ \"" \* \' a=b"#), ["p", r#"$x \q \ ""#, "*", "'", "a=b"]);
        assert_eq!(words("p a\\\nb d~e f#g"), ["p", "ab", "d~e", "f#g"]);
    }

    proptest! {
        /// Every combination is there once, and no placeholder is left.
        #[test]
        fn parameters_are_expanded_to_all_combinations(
            a in prop::collection::btree_set("[a-z0-9]{1,3}", 1..4),
            b in prop::collection::btree_set("[a-z0-9]{1,3}", 1..4),
        ) {
            let list = |name: &str, values: &std::collections::BTreeSet<String>| {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                format!("{name}={}", values.join(",")).parse::<Parameter>().unwrap()
            };
            let parameters = [list("a", &a), list("b-2", &b)];
            let commands = ["p {a} x{b-2}{a}", "q {b-2}", "r"].map(|text| split(text).unwrap());
            let arms = expand(commands.to_vec(), &parameters).unwrap();
            let found: Vec<String> = arms.iter().map(|arm| {
                join(&arm.command.iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>())
            }).collect();
            let mut expected = Vec::new();
            for one in &a {
                expected.extend(b.iter().map(|two| format!("p {one} x{two}{one}")));
            }
            expected.extend(b.iter().map(|two| format!("q {two}")));
            expected.push("r".to_owned());
            prop_assert_eq!(found, expected);
            let replaced: Vec<String> = arms.iter().map(|arm| arm.replace("{a}")).collect();
            prop_assert_eq!(Some(&replaced[0]), a.first());
            let of_none = "{a}".to_owned();
            prop_assert_eq!(replaced.last(), Some(&of_none));
        }
    }

    #[test]
    fn what_is_no_parameter_is_refused() {
        let refused = |text: &str| text.parse::<Parameter>().unwrap_err();
        for text in ["n", "=1", "n=", "a b=1", "n.x=1"] {
            assert_eq!(refused(text), ParameterError::Form, "{text}");
        }
        assert_eq!(refused("n=1,2,1"), ParameterError::Twice("1".to_owned()));
        // An empty value is one: the flag without its argument.
        assert_eq!("n=,-x".parse::<Parameter>().unwrap().values, ["", "-x"]);
        let parameter: Parameter = "n=1".parse().unwrap();
        let unused = expand(vec![split("true {m}").unwrap()], std::slice::from_ref(&parameter));
        assert_eq!(unused, Err(ParameterError::Unused("n".to_owned())));
        let twice = expand(vec![split("true {n}").unwrap()], &[parameter.clone(), parameter]);
        assert_eq!(twice, Err(ParameterError::SameName("n".to_owned())));
    }

    #[test]
    fn what_only_a_shell_does_is_refused() {
        for (text, letter) in [
            ("a | b", '|'),
            ("a && b", '&'),
            ("a; b", ';'),
            ("a >b", '>'),
            ("a $HOME", '$'),
            ("a \"$HOME\"", '$'),
            ("a `b`", '`'),
            ("ls *.c", '*'),
            ("a ~/b", '~'),
            ("a # b", '#'),
            ("a\nb", '\n'),
        ] {
            assert_eq!(split(text), Err(WordsError::Shell(letter)), "{text}");
        }
        assert_eq!(split("LANG=C ./a"), Err(WordsError::Variable("LANG=C".into())));
        assert_eq!(split(" \t"), Err(WordsError::Empty));
        assert_eq!(split("a 'b"), Err(WordsError::Open('\'')));
        assert_eq!(split("a \"b\\\""), Err(WordsError::Open('"')));
        assert_eq!(split("a \\"), Err(WordsError::Backslash));
        let text = split("a | b").unwrap_err().to_string();
        assert!(text.contains("Try: sh -c"), "{text}");
    }

    #[test]
    fn arms_have_letters() {
        assert_eq!([0, 1, 25, 26, 52].map(name), ["A", "B", "Z", "AA", "BA"]);
    }

    proptest! {
        #[test]
        fn what_is_joined_comes_apart_as_it_was(
            first in "[a-z./]{1,5}",
            mut rest in prop::collection::vec("[ -~]{0,6}", 0..5),
        ) {
            rest.insert(0, first);
            prop_assert_eq!(words(&join(&rest)), rest);
        }
    }
}
