//! Event lists of vendors in every form, and the index that is kept of them, with its checksum right:
//! chance would never find it.

#![no_main]

use std::hint::black_box;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pmuscope_events::inventory::inventory;
use pmuscope_events::lists::{Lists, fuzzing, read};
use pmuscope_events::{Catalog, parse};
use pmuscope_fuzz::catalogue::Fixed;
use pmuscope_machine::{MachineError, Pmu};

static MACHINE: LazyLock<Fixed> = LazyLock::new(Fixed::new);

/// A machine with lists.
struct Listing(Lists);

impl Catalog for Listing {
    fn pmus(&self) -> &[Pmu] {
        MACHINE.pmus()
    }

    fn tracepoint_id(&self, system: &str, name: &str) -> Result<u64, MachineError> {
        MACHINE.tracepoint_id(system, name)
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, MachineError> {
        MACHINE.tracepoints()
    }

    fn lists(&self) -> Option<&Lists> {
        Some(&self.0)
    }
}

fuzz_target!(|bytes: &[u8]| {
    fuzzing::index(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        fuzzing::mapfile_matches(text);
    }
    let Ok(list) = read(bytes) else { return };
    let mut lists = Lists::default();
    lists.extend(list.events.iter().cloned());
    let machine = Listing(lists);
    for event in list.events.iter().take(64) {
        match parse(&event.name, &machine) {
            Ok(groups) => assert!(!groups.is_empty()),
            Err(error) => {
                black_box(error.to_string());
            }
        }
        black_box(event.constraint.to_string());
    }
    black_box(inventory(&machine, &|name| name.len() % 2 == 0));
});
