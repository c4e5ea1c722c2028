use super::words::{population_of, ranges};

#[test]
fn numbers_in_a_row_are_ranges() {
    assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    assert_eq!((ranges(&[]), ranges(&[u32::MAX])), (String::new(), u32::MAX.to_string()));
}

#[test]
fn names_of_events_say_which_accesses_are_sampled() {
    let of = |names: &[&str]| population_of(names).unwrap_or_default();
    let of_intel = of(&["{cpu/mem-loads-aux/", "cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P"]);
    let expected = "samples are of loads of 30 cycles or longer (PEBS), and of stores by another event at its own rate";
    assert_eq!(of_intel, expected);
    assert_eq!(
        of(&["mem-loads"]),
        "samples are of loads above the latency limit of their event (PEBS)"
    );
    assert!(of(&["ibs_op//"]).contains("all operations (IBS)"));
    assert!(of(&["arm_spe_0"]).contains("all operations (SPE)"));
    assert_eq!(of(&["cycles"]), "");
}
