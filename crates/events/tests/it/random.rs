//! Text from nowhere.

use pmuscope_events::{list_known, parse, parse_branch_filter};
use proptest::prelude::*;

use crate::fixtures::{hybrid, intel, vm};

/// Pieces that the grammar is made of, in any order.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("cycles"),
        Just("cpu"),
        Just("mem:"),
        Just("0x10"),
        Just("/"),
        Just(","),
        Just(":"),
        Just("{"),
        Just("}"),
        Just("="),
        Just("'"),
        Just("u"),
        Just("ppp"),
        Just("S"),
        Just("event"),
        Just("r1a"),
        Just("sched"),
        Just("*"),
        Just("["),
        Just("?"),
        Just(" "),
        Just("é"),
        Just("\n"),
        Just("99999999999999999999"),
        Just("name"),
        Just("uncore_imc"),
        Just("LLC-"),
        Just("loads"),
        Just("period"),
        Just("1"),
        Just("sched_switch"),
        Just("+"),
        Just("-"),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn check(text: &str) -> Result<(), TestCaseError> {
    for machine in [vm(), intel(), hybrid()] {
        match parse(text, &machine) {
            Ok(groups) => {
                prop_assert!(!groups.is_empty());
                for group in groups {
                    prop_assert!(!group.events.is_empty());
                    prop_assert!(group.events.iter().all(|event| !event.name.is_empty()));
                }
            }
            Err(error) => {
                prop_assert!(error.at + error.len <= text.len());
                let message = error.to_string();
                prop_assert!(!message.contains('\n') && !message.contains('\u{1b}'), "{}", message);
                prop_assert!(message.len() < 4000);
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_gives_events_or_an_error(text in any::<String>()) {
        check(&text)?;
        let _ = parse_branch_filter(&text);
    }

    #[test]
    fn any_mix_of_pieces_gives_events_or_an_error(text in soup()) {
        check(&text)?;
    }

    /// A list means what its members mean one by one.
    #[test]
    fn lists_are_the_sum_of_their_members(picks in proptest::collection::vec(any::<prop::sample::Index>(), 1..6)) {
        let machine = intel();
        let known: Vec<String> = list_known(&machine).map(|known| known.name).collect();
        let texts: Vec<&String> = picks.iter().map(|pick| pick.get(&known)).collect();
        let joined: Vec<String> = texts.iter().map(ToString::to_string).collect();
        let together = parse(&joined.join(","), &machine).unwrap();
        let apart: Vec<_> = texts.iter().flat_map(|text| parse(text, &machine).unwrap()).collect();
        prop_assert_eq!(together, apart);
    }
}
