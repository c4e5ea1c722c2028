//! Flags whose value is one of several words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// One of these words, each with its help (where it needs one) and what it stands for.
pub(super) fn one_of<T: Clone + Send + Sync + 'static>(
    words: impl IntoIterator<Item = (&'static str, &'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let words: Vec<_> = words.into_iter().collect();
    let known: Vec<PossibleValue> = words
        .iter()
        .map(|&(word, help, _)| match help {
            "" => PossibleValue::new(word),
            help => PossibleValue::new(word).help(help),
        })
        .collect();
    PossibleValuesParser::new(known).try_map(move |typed| {
        let found = words.iter().find(|(word, ..)| *word == typed);
        found.map(|(.., value)| value.clone()).ok_or("it is none of the known words")
    })
}
