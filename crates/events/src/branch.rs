//! Which branches a branch stack holds: `any,u`, `ind_call,k`, `any_call,save_type`.

use pmuscope_abi::BranchSampleType as B;

use crate::error::and_then;
use crate::suggest::nearest;

const WORDS: [(&str, B); 19] = [
    ("any", B::ANY),
    ("any_call", B::ANY_CALL),
    ("any_ret", B::ANY_RETURN),
    ("ind_call", B::IND_CALL),
    ("ind_jmp", B::IND_JUMP),
    ("call", B::CALL),
    ("cond", B::COND),
    ("abort_tx", B::ABORT_TX),
    ("in_tx", B::IN_TX),
    ("no_tx", B::NO_TX),
    ("stack", B::CALL_STACK),
    ("no_flags", B::NO_FLAGS),
    ("no_cycles", B::NO_CYCLES),
    ("save_type", B::TYPE_SAVE),
    ("hw_index", B::HW_INDEX),
    ("u", B::USER),
    ("k", B::KERNEL),
    ("hv", B::HV),
    // perf-record(1) has it as a synonym.
    ("type", B::TYPE_SAVE),
];

/// Whose branches; the kernel takes the event's own modes where none is named.
const MODES: B = B::USER.union(B::KERNEL).union(B::HV);
/// What is recorded beside the branches.
const DETAILS: B = B::NO_FLAGS.union(B::NO_CYCLES).union(B::TYPE_SAVE).union(B::HW_INDEX);

/// A word that is no branch filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{word}' is not a branch filter{} Filters: {}", and_then(.nearest), words())]
pub struct BranchFilterError {
    /// The word.
    pub word: String,
    /// The nearest filters.
    pub nearest: Vec<String>,
}

fn words() -> String {
    WORDS.map(|(word, _)| word).join(", ")
}

/// Reads words separated by commas (or `+`, as commas separate the terms of an event). Without a kind
/// of branch, any branch is meant.
///
/// # Errors
/// [`BranchFilterError`] for a word that is none.
pub fn parse_branch_filter(text: &str) -> Result<B, BranchFilterError> {
    let mut filter = B::empty();
    for word in text.split([',', '+']) {
        let Some(&(_, bits)) = WORDS.iter().find(|(known, _)| *known == word) else {
            let nearest = nearest(word, WORDS.map(|(known, _)| known));
            return Err(BranchFilterError { word: word.chars().take(40).collect(), nearest });
        };
        filter |= bits;
    }
    if filter.difference(MODES | DETAILS).is_empty() {
        filter |= B::ANY;
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_add_up_and_any_is_the_default_kind() {
        assert_eq!(parse_branch_filter("any,u"), Ok(B::ANY | B::USER));
        assert_eq!(parse_branch_filter("u"), Ok(B::ANY | B::USER));
        assert_eq!(parse_branch_filter("u+save_type"), Ok(B::ANY | B::USER | B::TYPE_SAVE));
        assert_eq!(parse_branch_filter("ind_call+k"), Ok(B::IND_CALL | B::KERNEL));
    }

    #[test]
    fn unknown_words_are_named() {
        insta::assert_snapshot!(parse_branch_filter("any_cal,u").unwrap_err(), @"'any_cal' is not a branch filter. Did you mean any_call? Filters: any, any_call, any_ret, ind_call, ind_jmp, call, cond, abort_tx, in_tx, no_tx, stack, no_flags, no_cycles, save_type, hw_index, u, k, hv, type");
    }
}
