//! Unwind rules as stored in a bundle.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rule::{Cfa, Code, Recover};
use super::{Gap, Rule};

/// Rules of places in a module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredRules(Arc<BTreeMap<u64, Result<Arc<Rule>, Gap>>>);

impl StoredRules {
    pub(super) fn get(&self, place: u64) -> Result<Rule, Gap> {
        match self.0.get(&place) {
            Some(Ok(rule)) => Ok(Rule::clone(rule)),
            Some(Err(gap)) => Err(*gap),
            None => Err(Gap::NoInformation),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let rules = self.0.iter();
        rules_to_bytes(rules.map(|(&place, rule)| (place, rule.as_deref().map_err(|gap| *gap))))
    }

    /// Number of places.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

const GAPS: [Gap; 8] = [
    Gap::NoInformation,
    Gap::Damaged,
    Gap::FileMissing,
    Gap::Unreadable,
    Gap::OtherKernel,
    Gap::Generated,
    Gap::NotElf,
    Gap::Go,
];
/// Numbers of rules and gaps: below this a gap.
const FIRST_RULE: u64 = GAPS.len() as u64;

/// Each distinct rule once, then places with the number of theirs.
pub(crate) fn rules_to_bytes<'a>(
    places: impl Iterator<Item = (u64, Result<&'a Rule, Gap>)>,
) -> Vec<u8> {
    let mut rules: Vec<&Rule> = Vec::new();
    let mut numbers: std::collections::HashMap<&Rule, u64> = std::collections::HashMap::new();
    let mut list = Vec::new();
    for (place, rule) in places {
        let number = match rule {
            Err(gap) => GAPS.iter().position(|one| *one == gap).unwrap_or(0) as u64,
            Ok(rule) => *numbers.entry(rule).or_insert_with(|| {
                rules.push(rule);
                FIRST_RULE + rules.len() as u64 - 1
            }),
        };
        list.push((place, number));
    }
    let mut out = Vec::new();
    push(&mut out, rules.len() as u64);
    for rule in rules {
        push_rule(&mut out, rule);
    }
    push(&mut out, list.len() as u64);
    for (place, number) in list {
        push(&mut out, place);
        push(&mut out, number);
    }
    out
}

/// `None` if the bytes are damaged.
pub(crate) fn rules_from_bytes(mut bytes: &[u8]) -> Option<StoredRules> {
    let mut rules = Vec::new();
    for _ in 0..take(&mut bytes)? {
        rules.push(Arc::new(take_rule(&mut bytes)?));
    }
    let mut places = BTreeMap::new();
    for _ in 0..take(&mut bytes)? {
        let (place, number) = (take(&mut bytes)?, take(&mut bytes)?);
        let rule = match number.checked_sub(FIRST_RULE) {
            Some(rule) => Ok(Arc::clone(rules.get(usize::try_from(rule).ok()?)?)),
            None => Err(*GAPS.get(usize::try_from(number).ok()?)?),
        };
        places.insert(place, rule);
    }
    bytes.is_empty().then(|| StoredRules(Arc::new(places)))
}

fn push_rule(out: &mut Vec<u8>, rule: &Rule) {
    out.push(rule.signal_frame.into());
    match &rule.cfa {
        Cfa::Register(number, offset) => {
            out.push(0);
            push(out, (*number).into());
            push(out, *offset as u64);
        }
        Cfa::Expression(code) => {
            out.push(1);
            push_code(out, code);
        }
    }
    push_recover(out, &rule.return_address);
    push(out, rule.registers.len() as u64);
    for (number, recover) in &rule.registers {
        push(out, (*number).into());
        push_recover(out, recover);
    }
}

fn take_rule(bytes: &mut &[u8]) -> Option<Rule> {
    let signal_frame = take_byte(bytes)? != 0;
    let cfa = match take_byte(bytes)? {
        0 => Cfa::Register(take(bytes)?.try_into().ok()?, take(bytes)? as i64),
        1 => Cfa::Expression(take_code(bytes)?),
        _ => return None,
    };
    let return_address = take_recover(bytes)?;
    let mut registers = Vec::new();
    for _ in 0..take(bytes)? {
        registers.push((take(bytes)?.try_into().ok()?, take_recover(bytes)?));
    }
    Some(Rule { cfa, return_address, registers: registers.into(), signal_frame })
}

fn push_recover(out: &mut Vec<u8>, recover: &Recover) {
    let mut with = |kind: u8, value: Option<u64>| {
        out.push(kind);
        value.into_iter().for_each(|value| push(out, value));
    };
    match recover {
        Recover::Undefined => with(0, None),
        Recover::At(offset) => with(1, Some(*offset as u64)),
        Recover::Frame(offset) => with(2, Some(*offset as u64)),
        Recover::Register(number) => with(3, Some((*number).into())),
        Recover::AtExpression(code) => {
            with(4, None);
            push_code(out, code);
        }
        Recover::Expression(code) => {
            with(5, None);
            push_code(out, code);
        }
    }
}

fn take_recover(bytes: &mut &[u8]) -> Option<Recover> {
    Some(match take_byte(bytes)? {
        0 => Recover::Undefined,
        1 => Recover::At(take(bytes)? as i64),
        2 => Recover::Frame(take(bytes)? as i64),
        3 => Recover::Register(take(bytes)?.try_into().ok()?),
        4 => Recover::AtExpression(take_code(bytes)?),
        5 => Recover::Expression(take_code(bytes)?),
        _ => return None,
    })
}

fn push_code(out: &mut Vec<u8>, code: &Code) {
    push(out, code.0.len() as u64);
    out.extend(&code.0);
}

fn take_code(bytes: &mut &[u8]) -> Option<Code> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (code, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(Code(code.into()))
}

/// Bundles are compressed, so numbers need not be short.
fn push(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (byte, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code() -> impl Strategy<Value = Code> {
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| Code(bytes.into()))
    }

    fn recover() -> impl Strategy<Value = Recover> {
        prop_oneof![
            Just(Recover::Undefined),
            any::<i64>().prop_map(Recover::At),
            any::<i64>().prop_map(Recover::Frame),
            any::<u16>().prop_map(Recover::Register),
            code().prop_map(Recover::AtExpression),
            code().prop_map(Recover::Expression),
        ]
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let cfa = prop_oneof![
            (any::<u16>(), any::<i64>()).prop_map(|(number, offset)| Cfa::Register(number, offset)),
            code().prop_map(Cfa::Expression),
        ];
        let registers = proptest::collection::vec((any::<u16>(), recover()), 0..4);
        (cfa, recover(), registers, any::<bool>()).prop_map(
            |(cfa, return_address, registers, signal_frame)| Rule {
                cfa,
                return_address,
                registers: registers.into(),
                signal_frame,
            },
        )
    }

    fn gap() -> impl Strategy<Value = Gap> {
        (0..GAPS.len()).prop_map(|number| GAPS[number])
    }

    proptest! {
        #[test]
        fn rules_come_back(
            places in proptest::collection::btree_map(any::<u64>(), proptest::result::maybe_ok(rule(), gap()), 0..20),
        ) {
            let all = places.iter().map(|(&place, rule)| (place, rule.as_ref().map_err(|gap| *gap)));
            let stored = rules_from_bytes(&rules_to_bytes(all)).unwrap();
            prop_assert_eq!(stored.len(), places.len());
            for (&place, rule) in &places {
                prop_assert_eq!(&stored.get(place), rule);
            }
            prop_assert_eq!(StoredRules::default().get(7), Err(Gap::NoInformation));
        }

        #[test]
        fn no_bytes_can_harm(bytes in proptest::collection::vec(0_u8..7, 0..200)) {
            let _ = rules_from_bytes(&bytes);
        }
    }
}
