//! The same names of functions as stock perf, for nearly all samples of real work on the whole machine.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;

use crate::harness::{Outcome, Scratch, need_perf, need_perf_that_reads, skip_unless};
use crate::recording::{need_root_clock, rate};

/// Templates, closures and exceptions of C++, long names all of them.
const SOURCE: &str = r#"
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>
int main() {
    std::map<std::string, std::vector<int>> map;
    std::regex pattern("a+b*(c|d)+");
    std::vector<std::function<int(int)>> functions;
    for (int i = 0; i < 10; i++) functions.push_back([i](int x) { return x * i; });
    long found = 0;
    for (int i = 0; i < 10000; i++) {
        std::ostringstream out;
        out << "xxaabbccdd" << i;
        map[out.str()].push_back(i);
        found += std::regex_search(out.str(), pattern) + functions[i % 10](i);
    }
    std::vector<std::pair<std::string, int>> all;
    for (auto &entry : map) all.push_back({entry.first, entry.second[0]});
    std::sort(all.begin(), all.end(), [](auto &a, auto &b) { return a.second < b.second; });
    std::cout << found << all.size() << "\n";
}
"#;

/// Many processes of many kinds; what is not installed is left out.
const WORK: &str = "
    g++ -O1 -std=c++17 -o program a.cc && ./program &
    python3 -c 'import json, re
text = json.dumps([{\"a\": i, \"b\": str(i) * 3} for i in range(60000)])
print(len(json.loads(text)), len(re.findall(r\"[0-9]+\", text)))' &
    ls -lR /usr/lib /usr/share 2>/dev/null | head -n 60000 | tee list | xz -T2 | git hash-object --stdin
    git init -q repository && cp list repository && git -C repository add list
    sort list | uniq -c | sort -n | tail -n 1
    wait";

/// Name and module of a sample.
type Named = (String, String);

/// Samples by thread, time and address, from lines as
/// `12143/12143 13334.385105966:      7f1219d5cf38 main (/bin/a)`.
fn by_place(text: &str) -> HashMap<String, Named> {
    let split = |line: &str| {
        let (place, rest) = line.split_once(": ")?;
        let (address, rest) = rest.trim_start().split_once(' ')?;
        let (name, module) = rest.strip_suffix(')')?.rsplit_once(" (")?;
        Some((format!("{} {address}", place.trim()), (name.to_owned(), module.to_owned())))
    };
    text.lines().filter_map(split).collect()
}

/// Why perf and we give a sample different names, as docs/symbols.md explains it.
fn class(theirs: &str, ours: &str) -> &'static str {
    let parts = [".warm", ".cold", ".part", ".isra", ".constprop", ".lto_priv", ".llvm"];
    let plain = |name: &str| name.replace(['(', ')', ' '], "");
    match (theirs, ours) {
        (_, ours) if ours.ends_with("@plt") => "stub",
        (_, "[unknown]") => "no name by us",
        ("[unknown]", _) => "no name by perf",
        (theirs, ours) if theirs.split('@').next() == ours.split('@').next() => "version",
        (theirs, ours)
            if ours
                .strip_prefix(theirs)
                .is_some_and(|rest| parts.iter().any(|part| rest.starts_with(part))) =>
        {
            "part of a function"
        }
        (theirs, ours) if plain(theirs) == plain(ours) || ours.starts_with("_Z") => "C++",
        (theirs, _) if theirs.contains(" thunk to ") => "C++",
        _ => "folded function, or another",
    }
}

#[track_caller]
fn script(mut command: Command, file: &Path) -> HashMap<String, Named> {
    command.args(["-F", "pid,tid,time,ip,sym,dso", "-i"]).arg(file).env("HOME", "/nonexistent");
    let outcome = Outcome::of(&mut command);
    outcome.exits(0);
    by_place(&outcome.stdout)
}

#[test]
fn names_are_those_of_perf_for_99_samples_of_100() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    std::fs::write(scratch.path("a.cc"), SOURCE).unwrap();
    skip_unless!(need_perf_that_reads(&scratch.path("a.cc")));
    let hz = rate(2000);
    let args = ["record", "-a", "-e", "cpu-clock", "-F", &hz, "-o", "x.data", "--", "sh", "-c"];
    scratch.pmuscope([&args[..], &[WORK]].concat()).exits(0);
    let file = scratch.path("x.data");

    let mut perf = pmuscope_testkit::perf();
    perf.args(["script", "-f", "--ns", "--no-inline"]);
    let mut pmuscope = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    pmuscope.args(["script", "--ns", "--no-symbol-cache"]);
    let (theirs, ours) = (script(perf, &file), script(pmuscope, &file));

    let (mut compared, mut equal, mut gone) = (0_u32, 0_u32, 0_u32);
    let mut classes: BTreeMap<&str, (u32, &str, &str)> = BTreeMap::new();
    for (place, (ours, module)) in &ours {
        // A thread that has just ended has the id -1; its process is told in another way.
        let Some((theirs, _)) = theirs.get(place) else { continue };
        // A program of another test may have been removed between perf's look at it and ours.
        if module.starts_with('/') && !Path::new(module).exists() {
            gone += 1;
            continue;
        }
        compared += 1;
        if ours == theirs {
            equal += 1;
            continue;
        }
        classes.entry(class(theirs, ours)).or_insert((0, theirs, ours)).0 += 1;
        eprintln!("{module}: perf {theirs}, pmuscope {ours}");
    }
    let share = |count: u32| f64::from(count) * 100.0 / f64::from(compared);
    eprintln!("{compared} samples, of them {:.2} % with perf's name", share(equal));
    eprintln!("{gone} samples of files that are gone were not compared");
    for (class, (count, theirs, ours)) in &classes {
        eprintln!("{:.3} % {class}: {theirs} is {ours}", share(*count));
    }
    assert!(compared > 1000 && f64::from(compared + gone) > 0.98 * ours.len() as f64, "{compared}");
    assert!(share(equal) >= 99.0, "{:.2} %: {classes:?}", share(equal));
}
