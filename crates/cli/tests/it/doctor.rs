//! `pmuscope doctor` on the machine the tests run on.

use crate::harness::{Scratch, need_program, need_root, skip_unless};

#[test]
fn the_page_has_a_verdict_on_every_command() {
    let doctor = Scratch::new().pmuscope(["doctor"]);
    doctor.exits(0).is_silent();
    for title in ["Processor", "NUMA nodes", "Counters", "Limits", "Commands"] {
        assert!(doctor.stdout.lines().any(|line| line == title), "{title}\n{doctor}");
    }
    doctor.prints("record -- CMD").prints("bench capture").prints("report");
    assert!(!doctor.stdout.contains('\u{1b}'), "color without a terminal\n{doctor}");
}

#[test]
fn json_is_one_object_that_says_what_it_is() {
    let doctor = Scratch::new().pmuscope(["doctor", "--json"]);
    doctor.exits(0).is_silent();
    let value: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
    assert_eq!(value["schema"], "pmuscope/doctor/1");
    assert_eq!(value["tool"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(value["status"], 0);
    assert_eq!(value["command"][1], "doctor");
    assert!(value["started"].as_str().unwrap().parse::<u64>().is_ok());
    assert!(value["duration_s"].as_f64().is_some());
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    assert_eq!(value["machine"]["kernel"]["release"], release);
    let verdicts = value["verdicts"].as_array().unwrap();
    assert!(verdicts.iter().all(|verdict| verdict["outcome"].is_string()));
    assert!(verdicts.iter().any(|verdict| verdict["command"] == "record -a"));
}

#[test]
fn without_capabilities_it_still_tells() {
    skip_unless!(need_root());
    skip_unless!(need_program("setpriv", "--version"));
    let program = env!("CARGO_BIN_EXE_pmuscope");
    let doctor = Scratch::new().run("setpriv", ["--bounding-set=-all", program, "doctor"]);
    doctor.exits(0).is_silent();
    let powerless = ["without CAP_PERFMON", "of a user namespace"];
    assert!(powerless.iter().any(|words| doctor.stdout.contains(words)), "{doctor}");
}

#[test]
fn an_ascii_locale_gets_ascii() {
    let program = env!("CARGO_BIN_EXE_pmuscope");
    let doctor = Scratch::new().run("env", ["LC_ALL=C", program, "doctor"]);
    doctor.exits(0).is_silent();
    assert!(doctor.stdout.is_ascii(), "{doctor}");
}
