//! `pmuscope numa balance`, `restore` and `simulate`.

use std::path::Path;

use crate::harness::Scratch;
use crate::json::is_documented;

#[test]
fn the_simulated_table_is_the_documents() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let text = std::fs::read_to_string(root.join("docs/placement-policies.md")).unwrap();
    let told = text.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let outcome = Scratch::new().pmuscope(["numa", "simulate"]);
    outcome.exits(0);
    assert_eq!(outcome.stdout, told, "docs/placement-policies.md");
}

#[test]
fn fields_of_simulations_are_documented() {
    let outcome = Scratch::new().pmuscope(["numa", "simulate", "--runs", "1", "--json"]);
    is_documented("numa-simulate", &outcome.exits(0).stdout);
}
