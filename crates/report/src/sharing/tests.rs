use pmuscope_profile::sharing::{ArrayLayout, FieldRole, LayoutField, PlacedField};

use super::listing::{declared, idle};
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

fn placed(writers: &[u32], begins_line: bool) -> PlacedField {
    PlacedField {
        field: 0,
        offset: 0,
        bytes: 8,
        begins_line,
        element_stride: None,
        writers: writers.to_vec(),
        readers: Vec::new(),
        is_measured: true,
    }
}

#[test]
fn long_rows_of_fields_that_are_not_used_are_cut() {
    let row = |idle_ones: usize, breaks: Option<usize>| {
        let mut fields = vec![placed(&[1], false)];
        fields.extend((0..idle_ones).map(|at| placed(&[], breaks == Some(at))));
        fields.push(placed(&[2], true));
        (0..fields.len()).map(|at| idle(&fields, at)).collect::<Vec<_>>()
    };
    assert_eq!(row(6, None), [Some(0); 8]);
    let cut = row(9, None);
    assert_eq!(cut[..6], [Some(0); 6]);
    assert_eq!(cut[6..], [Some(4), None, None, None, Some(0)]);
    // Two rows of five.
    assert_eq!(row(10, Some(5)), [Some(0); 12]);
}

#[test]
fn fields_are_declared_as_in_c() {
    let field = |kind: &str, name: &str, role, bits| LayoutField {
        name: name.into(),
        role,
        offset: 0,
        bytes: 8,
        align: 8,
        bits,
        type_name: kind.into(),
        array: Some(ArrayLayout { stride: 8, length: Some(1), element: "x".into() }),
    };
    let member = |kind: &str, name: &str, bits| {
        declared(&field(kind, name, FieldRole::Member, bits), &placed(&[], false), 64)
    };
    assert_eq!(member("long int", "total", None), "long int total");
    assert_eq!(member("char *", "name", None), "char *name");
    assert_eq!(member("int [2][3]", "grid", None), "int grid[2][3]");
    assert_eq!(member("unsigned int", "flag", Some((3, 2))), "unsigned int flag:2");
    assert_eq!(member("union {…}", "", None), "union {…}");
    let base = field("base", "base", FieldRole::Base, None);
    assert_eq!(declared(&base, &placed(&[], false), 64), "/* base class */ base");
    let slots = field("long int [8]", "slots", FieldRole::Member, None);
    let apart = PlacedField { element_stride: Some(64), ..placed(&[], false) };
    let expected = "struct { alignas(64) long int value; } slots[8]";
    assert_eq!(declared(&slots, &apart, 64), expected);
}
