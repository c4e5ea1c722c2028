//! What packagers get: an installation that can be taken away again, packages with the same bytes however
//! they were made, licenses that allow it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::docs::root;
use crate::harness::{Outcome, Scratch, need_program, skip_unless};

/// A script of the repository.
fn script(name: &str) -> Command {
    let mut command = Command::new(root().join("scripts").join(name));
    // Where cargo may be asked it has all it needs here.
    command.env("CARGO_NET_OFFLINE", "true").env("SOURCE_DATE_EPOCH", "1750000000");
    command
}

/// `scripts/install` into a folder that stands for the root.
fn install(root: &Path, prefix: &str) -> Command {
    let mut command = script("install");
    command.env("DESTDIR", root).env("PREFIX", prefix);
    command
}

/// Everything below a folder, folders with a slash at the end.
fn listed(folder: &Path) -> BTreeSet<String> {
    fn walk(folder: &Path, base: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(base).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(name + "/");
                walk(&path, base, found);
            } else {
                found.insert(name);
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(folder, folder, &mut found);
    found
}

/// Files in place of the libraries: building them is not what is tested here.
fn libraries(scratch: &Scratch) -> PathBuf {
    let folder = scratch.path("libraries");
    fs::create_dir(&folder).unwrap();
    for name in ["libpmuscope_c.so", "libpmuscope_c.a"] {
        fs::write(folder.join(name), name).unwrap();
    }
    folder
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_pmuscope");

#[test]
fn what_is_installed_runs_and_is_removed_without_a_trace() {
    let scratch = Scratch::new();
    let (there, libraries) = (scratch.path("root"), libraries(&scratch));
    // A folder that was there before, with a file of somebody else's.
    fs::create_dir_all(there.join("opt/bin")).unwrap();
    fs::write(there.join("opt/bin/other"), "").unwrap();
    let before = listed(&there);
    let mut command = install(&there, "/opt");
    command.arg(PROGRAM).arg("--libraries").arg(&libraries).args(["--tool", PROGRAM]);
    Outcome::of(&mut command).exits(0).prints_nothing().is_silent();
    let installed = listed(&there);
    for file in [
        "opt/bin/pmuscope",
        "opt/share/man/man1/pmuscope.1",
        "opt/share/man/man1/pmuscope-record.1",
        "opt/share/bash-completion/completions/pmuscope",
        "opt/share/zsh/site-functions/_pmuscope",
        "opt/share/fish/vendor_completions.d/pmuscope.fish",
        "opt/share/doc/pmuscope/README.md",
        "opt/share/doc/pmuscope/LICENSE-MIT",
        "opt/share/doc/pmuscope/docs/recording.md",
        "opt/share/doc/pmuscope/docs/internals/recording.md",
        "opt/include/pmuscope_region.h",
        "opt/lib/libpmuscope_c.so",
        "opt/share/pmuscope/python/pmuscope_region.py",
    ] {
        assert!(installed.contains(file), "{file} in {installed:#?}");
    }
    let mode = |file: &str| there.join(file).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("opt/bin/pmuscope"), 0o755);
    assert_eq!(mode("opt/share/man/man1/pmuscope.1"), 0o644);
    let program = there.join("opt/bin/pmuscope");
    scratch.run(program.to_str().unwrap(), ["-V"]).exits(0).prints(env!("CARGO_PKG_VERSION"));

    // The other program brings the unit of its agent, which names the program where it is.
    let mut command = install(&there, "/opt");
    Outcome::of(command.arg(PROGRAM).args(["--fleet", "/bin/true"])).exits(0);
    let unit = fs::read_to_string(there.join("opt/lib/systemd/system/pmuscope-agent.service"));
    assert!(unit.unwrap().contains("\nExecStart=/opt/bin/pmuscope-fleet agent "));
    assert_eq!(mode("opt/bin/pmuscope-fleet"), 0o755);
    let mut command = install(&there, "/opt");
    let missing = Outcome::of(command.arg(PROGRAM).args(["--fleet", "/nowhere/pmuscope-fleet"]));
    missing.exits(2).complains("Try: make fleet");

    // Once more, without the library: what is no longer part of it goes.
    Outcome::of(install(&there, "/opt").arg(PROGRAM)).exits(0);
    let again = listed(&there);
    assert!(!again.contains("opt/lib/") && !again.contains("opt/include/"), "{again:#?}");
    assert!(again.contains("opt/bin/pmuscope"), "{again:#?}");

    Outcome::of(install(&there, "/opt").arg("--remove")).exits(0).prints_nothing();
    assert_eq!(listed(&there), before);
    let nothing = Outcome::of(install(&there, "/opt").arg("--remove"));
    nothing.exits(2).complains("opt/share/doc/pmuscope/installed is not there");
    Outcome::of(install(&there, "opt").arg(PROGRAM)).exits(2).complains("must begin with /");
    Outcome::of(install(&there, "/opt").arg("/nowhere/pmuscope")).exits(2).complains("make build");
}

/// What others put into a folder that was made for pmuscope stays, and is said.
#[test]
fn files_of_others_stay() {
    let scratch = Scratch::new();
    let there = scratch.path("root");
    Outcome::of(install(&there, "/usr").arg(PROGRAM)).exits(0);
    let other = there.join("usr/share/doc/pmuscope/notes");
    fs::write(&other, "").unwrap();
    let left = Outcome::of(install(&there, "/usr").arg("--remove"));
    left.exits(0).prints("usr/share/doc/pmuscope/ has files of others");
    assert!(other.exists());
    assert!(!there.join("usr/bin").exists());
}

/// Why packages cannot be made here; `None` if they can.
fn need_packing() -> Option<String> {
    ["xz", "tar", "python3", "strip", "dpkg-deb", "readelf"]
        .iter()
        .find_map(|program| need_program(program, "--version"))
}

/// A small program in place of what was built for a release, and of its library.
fn build(scratch: &Scratch, name: &str) -> PathBuf {
    let folder = scratch.path(name);
    fs::create_dir(&folder).unwrap();
    for file in ["pmuscope", "libpmuscope_c.so"] {
        fs::copy("/bin/true", folder.join(file)).unwrap();
    }
    fs::write(folder.join("nothing.c"), "").unwrap();
    // An archive without members: strip(1) looks at what it is given.
    fs::write(folder.join("libpmuscope_c.a"), "!<arch>\n").unwrap();
    folder
}

#[test]
fn packages_have_the_same_bytes_whenever_they_are_made() {
    skip_unless!(need_packing());
    let scratch = Scratch::new();
    let target = "x86_64-unknown-linux-musl";
    let made = |name: &str| {
        let (build, out) = (build(&scratch, name), scratch.path(&format!("out-{name}")));
        fs::create_dir(&out).unwrap();
        let mut tar = script("package");
        tar.args(["tar", target]).arg(&build).arg(PROGRAM).arg(&out);
        Outcome::of(&mut tar).exits(0);
        Outcome::of(script("package").arg("deb").arg(&build).arg(PROGRAM).arg(&out)).exits(0);
        Outcome::of(script("package").arg("sums").arg(&out)).exits(0);
        out
    };
    let (first, second) = (made("first"), made("second"));
    let version = env!("CARGO_PKG_VERSION");
    let names = [
        format!("pmuscope-{version}-x86_64-linux.tar.xz"),
        format!("pmuscope_{version}_amd64.deb"),
        "SHA256SUMS".to_owned(),
    ];
    assert_eq!(listed(&first), names.iter().cloned().collect());
    for name in &names {
        let [a, b] = [&first, &second].map(|folder| fs::read(folder.join(name)).unwrap());
        assert!(a == b, "{name} differs");
    }
    let mut check = Command::new("sha256sum");
    Outcome::of(check.args(["--check", "SHA256SUMS"]).current_dir(&first)).exits(0);

    let mut list = Command::new("tar");
    let list = Outcome::of(list.arg("-tf").arg(first.join(&names[0])));
    list.exits(0).prints("-linux/bin/pmuscope\n").prints("/share/doc/pmuscope/THIRD-PARTY\n");
    assert!(!list.stdout.contains("doc/pmuscope/installed"), "{list}");

    let mut control = Command::new("dpkg-deb");
    let control = Outcome::of(control.arg("--info").arg(first.join(&names[1])));
    control.exits(0).prints(&format!("Version: {version}\n")).prints("Depends: libc6 (>= 2.");
    let mut contents = Command::new("dpkg-deb");
    let contents = Outcome::of(contents.arg("--contents").arg(first.join(&names[1])));
    contents.exits(0).prints("root/root").prints("./usr/share/man/man1/pmuscope-record.1.gz\n");
    contents.prints("./usr/lib/x86_64-linux-gnu/libpmuscope_c.so\n");
}

/// A library of which no package is known would leave a dependency out.
#[test]
fn a_package_with_an_unknown_library_is_not_made() {
    skip_unless!(need_packing());
    skip_unless!(need_program("cc", "--version"));
    let scratch = Scratch::new();
    let folder = build(&scratch, "build");
    let (source, needed) = (folder.join("nothing.c"), folder.join("libneeded.so"));
    let mut library = Command::new("cc");
    library.args(["-shared", "-Wl,-soname,libneeded.so.7", "-o"]).arg(&needed).arg(&source);
    Outcome::of(&mut library).exits(0);
    let mut library = Command::new("cc");
    library.args(["-shared", "-Wl,--no-as-needed", "-o"]).arg(folder.join("libpmuscope_c.so"));
    Outcome::of(library.arg(&source).arg(&needed)).exits(0);
    let mut command = script("package");
    command.arg("deb").arg(&folder).arg(PROGRAM).arg(scratch.path(""));
    let refused = Outcome::of(&mut command);
    assert_ne!(refused.code(), 0, "{refused}");
    refused.complains("which package of Debian has libneeded.so.7?");
}

/// The check of licenses must see one that is not allowed, in the program as in what tests it.
#[test]
fn licenses_that_are_not_allowed_are_found() {
    skip_unless!(need_program("python3", "--version"));
    let scratch = Scratch::new();
    let crates = |program: &str, test: &str| {
        let package = |name: &str, license: &str| serde_json::json!({"id": name, "name": name, "version": "1.0.0", "license": license});
        let uses = |name: &str, kind: Option<&str>| serde_json::json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        serde_json::json!({
            "packages": [package("pmuscope", "MIT"), package("inside", program), package("beside", test)],
            "resolve": {"nodes": [
                {"id": "pmuscope", "deps": [uses("inside", None), uses("beside", Some("dev"))]},
                {"id": "inside", "deps": []},
                {"id": "beside", "deps": []},
            ]},
        })
    };
    let check = |program: &str, test: &str| {
        fs::write(scratch.path("metadata"), crates(program, test).to_string()).unwrap();
        Outcome::of(script("licenses").arg("--metadata").arg(scratch.path("metadata")))
    };
    check("(MIT OR GPL-3.0) AND Unicode-3.0", "CDDL-1.0")
        .exits(0)
        .prints("2 crates in the program, 1");
    check("MIT/Apache-2.0", "Apache-2.0 WITH LLVM-exception OR GPL-2.0").exits(0);
    check("CDDL-1.0", "MIT")
        .exits(1)
        .prints("inside 1.0.0 is in the program; its license is CDDL-1.0");
    check("MIT AND GPL-2.0", "MIT").exits(1).prints("inside");
    check("MIT", "GPL-3.0 WITH Classpath-exception-2.0")
        .exits(1)
        .prints("beside 1.0.0 builds or tests");
    check("", "MIT").exits(1).prints("its license is not told");
}
