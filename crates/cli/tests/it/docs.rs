//! What the documents promise: commands that parse, files that are there, tables that are true.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::Scratch;

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Documents by their path below the root, with their text.
fn documents() -> Vec<(String, String)> {
    let mut paths: Vec<String> =
        ["README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md", "RELEASING.md"]
            .map(String::from)
            .into();
    for folder in ["docs", "docs/internals"] {
        for entry in fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                paths.push(format!("{folder}/{}", entry.file_name().to_str().unwrap()));
            }
        }
    }
    paths.sort();
    let text = |path: &String| fs::read_to_string(root().join(path)).unwrap();
    paths.iter().map(|path| (path.clone(), text(path))).collect()
}

/// Lines of code blocks, and inline code, in the order of the text.
fn code(markdown: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            found.push(line.trim().to_owned());
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

/// The arguments of a `pmuscope` command line up to the command it runs, a comment, a pipe, or what
/// is left out (`…`); `None` for other lines.
fn arguments(line: &str) -> Option<Vec<&str>> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let line = line.split("  ").next()?; // help explains its examples in a second column
    let ends =
        |word: &&str| !["--", "#", "|", ">", ";", "&&"].contains(word) && !word.contains('…');
    Some(words(line.strip_prefix("pmuscope ")?).into_iter().take_while(ends).collect())
}

/// At blanks outside of quotes; quotes round a whole word are taken off.
fn words(line: &str) -> Vec<&str> {
    let mut quote = None;
    let is_end = |letter: char| {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            _ => {}
        }
        quote.is_none() && letter.is_whitespace()
    };
    line.split(is_end)
        .filter(|word| !word.is_empty())
        .map(|word| {
            let inner = |quote: char| word.strip_prefix(quote)?.strip_suffix(quote);
            inner('"').or_else(|| inner('\'')).unwrap_or(word)
        })
        .collect()
}

/// clap looks at flags and values from left to right: with `--help` at the end, all of them were
/// good when the help is shown. False for what is no command line, or a command of
/// pmuscope-fleet: its own tests check those.
#[track_caller]
fn parses(place: &str, line: &str) -> bool {
    let Some(mut words) = arguments(line) else { return false };
    if words.first() == Some(&"fleet") && words.len() > 1 {
        return false;
    }
    // Whatever an example says, it runs nothing.
    if words.first() == Some(&"record") && !words.contains(&"--dry-run") {
        words.insert(1, "--dry-run");
    }
    words.push("--help");
    let outcome = Scratch::new().pmuscope(&words);
    assert_eq!(outcome.code(), 0, "{place}: {line}\n{outcome}");
    true
}

#[test]
fn a_wrong_flag_does_not_hide_behind_help() {
    Scratch::new().pmuscope(["record", "--no-such-flag", "--help"]).exits(2);
    Scratch::new().pmuscope(["record", "--aio=many", "--help"]).exits(2);
    assert_eq!(arguments("$ pmuscope record -a -- CMD -z"), Some(vec!["record", "-a"]));
    assert_eq!(arguments("pmuscope report   # all"), Some(vec!["report"]));
    assert_eq!(arguments("pmuscope: lost 0"), None);
    let quoted = arguments("pmuscope stat --vs \"sh -c 'a | b'\" --vs './b 5' -r 2 -- ./a");
    assert_eq!(quoted, Some(vec!["stat", "--vs", "sh -c 'a | b'", "--vs", "./b 5", "-r", "2"]));
}

#[test]
fn every_command_line_in_the_documents_parses() {
    let mut checked = 0;
    for (place, text) in documents() {
        checked += code(&text).iter().filter(|line| parses(&place, line)).count();
    }
    assert!(checked > 10, "{checked} command lines found");
}

#[test]
fn every_example_in_the_help_parses() {
    let mut checked = 0;
    let commands = [
        "doctor", "record", "report", "script", "bench", "compare", "workload", "stat", "sweep",
        "top",
    ];
    for command in commands
        .into_iter()
        .chain(["lab run", "lab kernels", "list", "events import", "numa show", "numa advise"])
        .chain(["numa simulate"])
        .chain(["lab run", "lab kernels", "list", "events import", "numa show"])
        .chain(["numa simulate", "numa balance", "numa restore"])
    {
        let help = Scratch::new().pmuscope(command.split(' ').chain(["--help"]));
        // Sentences above name commands too, and lines may begin with them.
        let examples = help.stdout.split_once("Examples:").map_or("", |(_, examples)| examples);
        checked += examples.lines().filter(|line| parses(command, line.trim())).count();
    }
    assert!(checked > 5, "{checked} examples found");
}

/// What links to the headings of a document are called, as GitHub makes them: letters, digits, `-` and `_`
/// in lower case, blanks as `-`, a number at headings that were there before.
fn anchors(markdown: &str) -> BTreeSet<String> {
    let mut in_block = false;
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for line in markdown.lines() {
        in_block ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_block || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        let name: String = heading.trim().chars().filter(kept).collect();
        let name = name.to_lowercase().replace(' ', "-");
        let before = seen.entry(name.clone()).or_default();
        found.insert(if *before == 0 { name } else { format!("{name}-{before}") });
        *before += 1;
    }
    found
}

#[test]
fn anchors_are_those_of_github() {
    let text = "# A `b.c`, d\n\n```\n# no heading\n```\n## Same\n## Same\n#hash\n## 2 %: x_y-z\n";
    let expected = ["2--x_y-z", "a-bc-d", "same", "same-1"];
    assert_eq!(anchors(text), expected.map(String::from).into());
}

/// The text of a document without its code, in which brackets mean something else.
fn prose(markdown: &str) -> String {
    let outside = markdown.split("```").step_by(2);
    outside.flat_map(|text| text.split('`').step_by(2)).collect()
}

#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    let mut checked = 0;
    for (place, text) in documents() {
        for link in prose(&text).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = root().join(&place).parent().unwrap().to_owned();
            let path = if file.is_empty() { root().join(&place) } else { folder.join(file) };
            assert!(path.exists(), "{place}: {link}");
            if !anchor.is_empty() {
                let there = anchors(&fs::read_to_string(&path).unwrap());
                assert!(there.contains(anchor), "{place}: {link}: there are {there:?}");
            }
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked} links");
}

/// What nobody is led to nobody reads.
#[test]
fn the_index_leads_to_every_page() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("](docs/SUMMARY.md)"), "README.md has no link to the index");
    assert!(readme.lines().count() <= 150, "README.md is a front page: at most 150 lines");
    let index = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let documents = documents();
    let pages = documents.iter().map(|(path, _)| path);
    let pages: Vec<&String> =
        pages.filter(|path| path.starts_with("docs/") && path.ends_with(".md")).collect();
    assert!(pages.len() > 20, "{pages:?}");
    for path in pages {
        let link = format!("]({})", path.trim_start_matches("docs/"));
        let is_index = path == "docs/SUMMARY.md";
        assert!(is_index || index.contains(&link), "docs/SUMMARY.md has no link to {path}");
    }
}

#[test]
fn make_targets_are_there() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    for (place, text) in documents() {
        for line in code(&text) {
            let line = line.strip_prefix("sudo ").unwrap_or(&line);
            let Some(target) = line.strip_prefix("make ") else { continue };
            let target = target.split_whitespace().next().unwrap();
            let is_there = makefile.lines().any(|rule| {
                rule.split_once(':').is_some_and(|(names, _)| {
                    !names.starts_with('\t') && names.split(' ').any(|name| name == target)
                })
            });
            assert!(is_there, "{place}: make {target}");
        }
    }
}

/// docs/internals/recording.md says which tests check what: modules of the crate's tests, or functions.
#[test]
fn tests_named_as_evidence_exist() {
    let text = fs::read_to_string(root().join("docs/internals/recording.md")).unwrap();
    let rows = text.split("\n## How it was checked\n").nth(1).unwrap().lines();
    let mut checked = 0;
    for evidence in rows.filter_map(|row| row.trim_matches('|').split('|').nth(1)) {
        let names = names(evidence);
        let Some((krate, tests)) = names.split_first() else { continue };
        let mut files = Vec::new();
        rust_files(&root().join("crates").join(krate), &mut files);
        let code: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        let is_name =
            |name: &&String| name.chars().all(|c| c.is_ascii_lowercase() || "_:".contains(c));
        for test in tests.iter().filter(is_name) {
            let test = test.strip_suffix("::tests").unwrap_or(test).rsplit("::").next().unwrap();
            let is_file =
                files.iter().any(|file| file.file_stem().is_some_and(|stem| stem == test));
            let is_there = is_file || code.contains(&format!("fn {test}("));
            assert!(is_there, "docs/internals/recording.md: {krate}: {test}");
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} tests named");
}

/// Cells of the rows of DESIGN.md's tables.
fn design_rows() -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("DESIGN.md")).unwrap();
    text.lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// Names in backticks.
fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The crates of this workspace that a crate uses outside its tests.
fn dependencies(krate: &str) -> BTreeSet<String> {
    let manifest = root().join("crates").join(krate).join("Cargo.toml");
    let text = fs::read_to_string(manifest).unwrap();
    let section = text.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    section
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.strip_prefix("pmuscope-")?.split(['.', ' ', '=']).next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_use_only_what_design_allows_and_that_stands_above_them() {
    let crates: BTreeSet<String> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut above: BTreeMap<String, ()> = BTreeMap::new();
    for row in design_rows() {
        let [first, _, may_use] = row.as_slice() else { continue };
        let [krate] = names(first).try_into().unwrap_or_default();
        if !crates.contains(&krate) {
            continue;
        }
        let allowed = names(may_use);
        for name in &allowed {
            assert!(above.contains_key(name), "DESIGN.md: {krate} stands above {name}");
        }
        for used in dependencies(&krate) {
            assert!(allowed.contains(&used), "DESIGN.md does not let {krate} use {used}");
        }
        above.insert(krate, ());
    }
    let described: BTreeSet<String> = above.into_keys().collect();
    assert_eq!(described, crates, "crates in DESIGN.md and in the folder");
}

/// Folders of crates in these folders.
fn crates(folders: &[&str]) -> Vec<PathBuf> {
    let entries = folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect()
}

/// Names on the left in a section of a manifest.
fn manifest_names(text: &str, section: &str) -> Vec<String> {
    let lines = text.split(&format!("[{section}]\n")).nth(1).unwrap_or_default().lines();
    lines
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.split_once(" = ")?.0.split('.').next()?.to_owned()))
        .collect()
}

#[test]
fn every_dependency_has_its_reason_in_design() {
    let text = fs::read_to_string(root().join("DESIGN.md")).unwrap();
    let table = text.split("\n## Dependencies\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let described: BTreeMap<&str, &str> = rows.filter_map(|row| row.split_once("` | ")).collect();
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let foreign = |names: Vec<String>| -> BTreeSet<String> {
        names.into_iter().filter(|name| !name.starts_with("pmuscope-")).collect()
    };
    let used = foreign(manifest_names(&workspace, "workspace.dependencies"));
    assert!(used.len() > 20, "{used:?}");
    assert_eq!(described.keys().map(ToString::to_string).collect::<BTreeSet<_>>(), used);
    // A crate of tests says so, and only such a one; none is used past the workspace's list.
    let mut in_programs = BTreeSet::new();
    for path in crates(&["crates", "fleet", "python"]) {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let sections = ["dependencies", "target.'cfg(target_env = \"musl\")'.dependencies"];
        let names = sections.map(|section| manifest_names(&manifest, section)).concat();
        let names = foreign(names);
        let of_tests = foreign(manifest_names(&manifest, "dev-dependencies"));
        let past: Vec<_> = names.union(&of_tests).filter(|name| !used.contains(*name)).collect();
        assert!(past.is_empty(), "{past:?} are not in the workspace's list");
        in_programs.extend(names);
    }
    for (name, reason) in described {
        let of_tests = reason.starts_with("Tests: ");
        assert_eq!(of_tests, !in_programs.contains(name), "DESIGN.md: {name}: {reason}");
    }
}

/// All Rust files below a folder.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `make test-full` runs tests by this name, and they run nowhere else.
#[test]
fn tests_that_take_long_are_named_full() {
    let mut files = Vec::new();
    for krate in fs::read_dir(root().join("crates")).unwrap() {
        let tests = krate.unwrap().path().join("tests");
        if tests.is_dir() {
            rust_files(&tests, &mut files);
        }
    }
    let mut long = 0;
    for file in files.iter().filter(|file| !file.ends_with("it/docs.rs")) {
        let text = fs::read_to_string(file).unwrap();
        for test in text.split("#[test]\nfn ").skip(1) {
            let name = test.split('(').next().unwrap();
            let words = ["need_full()", "need::full()", "PMUSCOPE_FULL"];
            let asks = words.iter().any(|word| test.contains(word));
            assert_eq!(name.starts_with("full_"), asks, "{}: {name}", file.display());
            long += u32::from(asks);
        }
    }
    assert!(long > 20, "{long} tests that take long");
}

#[test]
fn unsafe_code_is_where_design_says() {
    let listed: BTreeSet<String> = design_rows()
        .iter()
        .flat_map(|row| names(&row[0]))
        .filter(|name| name.ends_with(".rs"))
        .collect();
    let mut files = Vec::new();
    for krate in fs::read_dir(root().join("crates")).unwrap() {
        rust_files(&krate.unwrap().path().join("src"), &mut files);
    }
    let markers = ["{", "fn", "impl", "extern"].map(|what| format!("unsafe {what}"));
    let found: BTreeSet<String> = files
        .iter()
        .filter(|path| {
            let text = fs::read_to_string(path).unwrap();
            markers.iter().any(|marker| text.contains(marker))
        })
        .map(|path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, found);
    assert!(listed.iter().all(|path| path.ends_with("/sys.rs")), "{listed:?}");
}
