//! Which hits are written down: conditions on the values, decided in the kernel.
//!
//! ```text
//!  condition = all { "||" all }            new  the value at the hit
//!  all       = comparison { "&&" … }       old  the value of the hit before
//!  comparison = value op value             step new - old
//!  op = == != < <= > >=  &                 number: 10, -3, 0x1f, 'c', or a name of an enumeration
//! ```
//! A comparison with `old` or `step` is false where no hit was before.

use pmuscope_perfdata::watch::ValueKind;
use thiserror::Error;

/// A condition: any of several, each all of several comparisons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// As typed.
    pub text: String,
    /// Any of these, each: all of these.
    pub any: Vec<Vec<Comparison>>,
}

/// Two values and how they are to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// On the left.
    pub left: ConditionValue,
    /// How.
    pub operator: Operator,
    /// On the right.
    pub right: ConditionValue,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionValue {
    /// What was read at the hit.
    New,
    /// What was read at the hit before.
    Old,
    /// The difference of the two.
    Step,
    /// A number, in two's complement.
    Number(i64),
    /// A name of the target's enumeration.
    Name(String),
}

/// How values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names tell all
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// They have a bit in common.
    AnyBit,
}

/// What is wrong with a condition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// Something else was expected.
    #[error(
        "condition '{text}': found '{found}', expected {expected}. Try: --when 'new > 10', --when \
         'old != 0 && new == 0'"
    )]
    Syntax {
        /// As typed.
        text: String,
        /// What stands there.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// Not a name of the enumeration.
    #[error(
        "--when: '{name}' is not new, old, step, a number or an enumerator of the type of {target}"
    )]
    NoName {
        /// The name.
        name: String,
        /// The target.
        target: String,
    },
    /// The target never has such a value.
    #[error(
        "--when: the condition is never true: {target} has {bytes} bytes and cannot be {number}"
    )]
    TooWide {
        /// The number, as typed or as the type has it.
        number: i64,
        /// The target.
        target: String,
        /// Its length.
        bytes: u8,
    },
    /// There is no value at an instruction.
    #[error(
        "{target} is watched for execution, which has no value. Try: without --when and \
         --when-changed"
    )]
    Execution {
        /// The target.
        target: String,
    },
    /// The kernel's machine has no floating point.
    #[error(
        "--when: {target} is a floating-point number, which BPF programs cannot compare. Try: \
         without --when; the report has all values"
    )]
    Float {
        /// The target.
        target: String,
    },
}

const OPERATORS: [(&str, Operator); 8] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("&", Operator::AnyBit),
    ("=", Operator::Equal),
];

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// [`ConditionError::Syntax`].
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let any = text
            .split("||")
            .map(|all| all.split("&&").map(|one| comparison(text, one.trim())).collect())
            .collect::<Result<_, _>>()?;
        Ok(Self { text: text.into(), any })
    }

    /// Whether the value of the hit before matters.
    #[must_use]
    pub fn needs_old(&self) -> bool {
        self.any.iter().flatten().any(Comparison::needs_old)
    }

    /// The same with names replaced by their numbers, and numbers as `target`, `bytes` long, has them.
    ///
    /// # Errors
    /// [`ConditionError`], but for syntax.
    pub fn for_target(
        &self,
        target: &str,
        kind: ValueKind,
        bytes: u8,
        names: &[(i64, String)],
    ) -> Result<Self, ConditionError> {
        if kind == ValueKind::Float {
            return Err(ConditionError::Float { target: target.into() });
        }
        let number = |value: &ConditionValue| match value {
            ConditionValue::Name(name) => match names.iter().find(|(_, known)| known == name) {
                Some((number, _)) => Ok(ConditionValue::Number(*number)),
                None => {
                    Err(ConditionError::NoName { name: name.clone(), target: target.to_owned() })
                }
            },
            other => Ok(other.clone()),
        };
        let mut condition = self.clone();
        for comparison in condition.any.iter_mut().flatten() {
            let has_step = [&comparison.left, &comparison.right].contains(&&ConditionValue::Step);
            for side in [&mut comparison.left, &mut comparison.right] {
                *side = number(side)?;
                if let ConditionValue::Number(number) = side
                    && !has_step
                {
                    let target = || target.to_owned();
                    let too_wide =
                        || ConditionError::TooWide { number: *number, target: target(), bytes };
                    *number = as_wide(*number, bytes, is_signed(kind)).ok_or_else(too_wide)?;
                }
            }
        }
        Ok(condition)
    }
}

impl Comparison {
    /// Whether the value of the hit before matters.
    #[must_use]
    pub fn needs_old(&self) -> bool {
        [&self.left, &self.right]
            .iter()
            .any(|value| matches!(value, ConditionValue::Old | ConditionValue::Step))
    }
}

/// Whether values of this kind are compared with their sign.
pub(crate) fn is_signed(kind: ValueKind) -> bool {
    matches!(kind, ValueKind::Signed | ValueKind::Char | ValueKind::Enumeration)
}

/// A number as so many bytes have it, extended again; `None` if they do not, with or without a sign.
fn as_wide(number: i64, bytes: u8, is_signed: bool) -> Option<i64> {
    let unused =
        64_u32.checked_sub(8 * u32::from(bytes)).filter(|&unused| unused > 0 && unused < 64);
    let Some(unused) = unused else { return Some(number) };
    let (signed, unsigned) =
        (number << unused >> unused, ((number as u64) << unused >> unused) as i64);
    let fits = number == signed || number == unsigned;
    fits.then_some(if is_signed { signed } else { unsigned })
}

fn comparison(text: &str, one: &str) -> Result<Comparison, ConditionError> {
    let syntax = |found: &str, expected| ConditionError::Syntax {
        text: text.into(),
        found: found.into(),
        expected,
    };
    // The first place where an operator stands, and the longest one there.
    let found = one.char_indices().find_map(|(at, _)| {
        let rest = &one[at..];
        OPERATORS.iter().find(|(spelled, _)| rest.starts_with(spelled)).map(|found| (at, *found))
    });
    let Some((at, (spelled, operator))) = found else {
        return Err(syntax(one, "a comparison (==, !=, <, <=, >, >=, &)"));
    };
    let side = |part: &str| {
        let part = part.trim();
        value(part).ok_or_else(|| syntax(part, "new, old, step, a number or a name"))
    };
    Ok(Comparison { left: side(&one[..at])?, operator, right: side(&one[at + spelled.len()..])? })
}

fn value(part: &str) -> Option<ConditionValue> {
    match part {
        "new" => return Some(ConditionValue::New),
        "old" => return Some(ConditionValue::Old),
        "step" => return Some(ConditionValue::Step),
        _ => {}
    }
    if let Some(number) = number(part) {
        return Some(ConditionValue::Number(number));
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let begins = part.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    (begins && part.chars().all(is_word)).then(|| ConditionValue::Name(part.into()))
}

/// Numbers of either sign and up to 64 bits, hexadecimal ones, characters.
fn number(part: &str) -> Option<i64> {
    if let Some(character) = part.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        let mut characters = character.chars();
        return characters
            .next()
            .filter(|_| characters.next().is_none())
            .map(|c| i64::from(u32::from(c)));
    }
    let (negative, digits) = match part.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, part),
    };
    let magnitude = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    let number = magnitude as i64;
    Some(if negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_joined_by_and_before_or() {
        let condition = Condition::parse("new > 10 && old != 0x1f || step == -1").unwrap();
        let shape: Vec<usize> = condition.any.iter().map(Vec::len).collect();
        assert_eq!(shape, [2, 1]);
        let Comparison { left, operator, right } = &condition.any[0][1];
        assert_eq!(
            (left, *operator, right),
            (&ConditionValue::Old, Operator::NotEqual, &ConditionValue::Number(31))
        );
        assert!(condition.needs_old());
        assert_eq!(condition.any[1][0].right, ConditionValue::Number(-1));
        assert!(!Condition::parse("new<='c'").unwrap().needs_old());
    }

    #[test]
    fn what_is_no_condition_is_told() {
        let error = |text| Condition::parse(text).unwrap_err().to_string();
        assert!(error("new").contains("found 'new', expected a comparison"));
        assert!(error("new > 1x").contains("found '1x', expected new, old, step"));
        assert!(error("new > 1 &&").contains("found '', expected a comparison"));
    }

    #[test]
    fn numbers_are_as_wide_as_the_target() {
        let number = |text: &str, kind, bytes| {
            let condition = Condition::parse(text).unwrap().for_target("x", kind, bytes, &[]);
            condition.map(|condition| condition.any[0][0].right.clone())
        };
        let all_ones = ConditionValue::Number(0xffff_ffff);
        assert_eq!(number("new == -1", ValueKind::Unsigned, 4).unwrap(), all_ones);
        assert_eq!(
            number("new == 0xffffffff", ValueKind::Signed, 4).unwrap(),
            ConditionValue::Number(-1)
        );
        assert_eq!(
            number("new == -1", ValueKind::Unsigned, 8).unwrap(),
            ConditionValue::Number(-1)
        );
        assert_eq!(
            number("step == 300", ValueKind::Unsigned, 1).unwrap(),
            ConditionValue::Number(300)
        );
        let error = number("new > 300", ValueKind::Unsigned, 1).unwrap_err().to_string();
        assert!(error.contains("x has 1 bytes and cannot be 300"), "{error}");
    }

    #[test]
    fn names_are_those_of_the_type() {
        let condition = Condition::parse("new == READY").unwrap();
        let names = [(3, "READY".to_owned())];
        let known = condition.for_target("state", ValueKind::Enumeration, 4, &names).unwrap();
        assert_eq!(known.any[0][0].right, ConditionValue::Number(3));
        let error = condition.for_target("state", ValueKind::Unsigned, 4, &[]).unwrap_err();
        assert!(error.to_string().contains("'READY' is not new, old, step"), "{error}");
        let error = condition.for_target("ratio", ValueKind::Float, 8, &[]).unwrap_err();
        assert!(error.to_string().contains("floating-point"), "{error}");
    }
}
