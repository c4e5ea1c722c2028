//! Targets in programs with debug information, against what the programs say of themselves, and gdb.

use std::path::Path;
use std::process::Command;

use pmuscope_symbols::definitions::ValueType;
use pmuscope_watch::target::Access;

use crate::programs::{Running, compile};

const OBJECTS: (&str, &str) = ("objects.c", include_str!("sources/objects.c"));
const OTHER: (&str, &str) = ("other.c", include_str!("sources/other.c"));

fn objects(dir: &Path, arguments: &[&str]) -> Option<Running> {
    let mut first = vec!["-c"];
    first.extend(arguments);
    compile("cc", dir, OTHER, "other.o", &first)?;
    let mut all = vec!["-g", "-pthread", "other.o"];
    all.extend(arguments);
    compile("cc", dir, OBJECTS, "objects", &all).map(|path| Running::start(&path))
}

/// Every object that the program prints is found where it is, with its size.
fn agrees(running: &Running, how: &[&str]) {
    let mut compared = 0;
    for (name, address) in &running.places {
        if name.starts_with("sizeof ") || ["bump", "list", "hidden"].contains(&name.as_str()) {
            continue;
        }
        let found = running.found(name);
        assert_eq!(found.address, *address, "{name} {how:?} {found:?}");
        assert_eq!(
            found.len,
            running.address(&format!("sizeof {name}")),
            "{name} {how:?} {found:?}"
        );
        assert_eq!(found.access, Access::Write);
        compared += 1;
    }
    assert!(compared >= 29, "{compared} {:?}", running.places);
}

#[test]
fn objects_are_where_the_program_says() {
    for arguments in [
        &["-g", "-O0", "-gdwarf-5", "-fPIE", "-pie"][..],
        &["-g", "-O2", "-gdwarf-4", "-fno-pie", "-no-pie"],
        &["-g", "-O2", "-gdwarf-5", "-fdebug-types-section"],
        &["-g", "-O1", "-gdwarf-4", "-fdebug-types-section", "-static"],
        &["-g", "-O2", "-gdwarf-2", "-gstrict-dwarf"],
        &["-g", "-O2", "-gdwarf-3"],
        &["-g", "-O2", "-flto"],
        &["-g", "-O2", "-gz"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let Some(running) = objects(dir.path(), arguments) else { return };
        agrees(&running, arguments);
    }
}

#[test]
fn a_separate_debug_file_tells_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = objects(dir.path(), &["-g"]) else { return };
    let tool = |arguments: &[&str]| {
        Command::new("objcopy")
            .current_dir(dir.path())
            .args(arguments)
            .status()
            .is_ok_and(|s| s.success())
    };
    let made = tool(&["--only-keep-debug", "objects", "objects.debug"])
        && tool(&["--strip-all", "--add-gnu-debuglink=objects.debug", "objects", "stripped"]);
    if !made {
        println!("skipped: no objcopy");
        return;
    }
    drop(running);
    std::fs::remove_file(dir.path().join("objects")).unwrap();
    let running = Running::start(&dir.path().join("stripped"));
    agrees(&running, &["stripped"]);
}

#[test]
fn what_dwz_moved_to_another_file_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = objects(dir.path(), &["-g", "-gdwarf-4"]) else { return };
    drop(running);
    let at = |name: &str| dir.path().join(name);
    std::fs::copy(at("objects"), at("again")).unwrap();
    let mut dwz = Command::new("dwz");
    match dwz.current_dir(dir.path()).args(["-m", "shared.debug", "objects", "again"]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("dwz: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("skipped: no dwz ({error})");
            return;
        }
    }
    assert!(at("shared.debug").exists(), "nothing was moved");
    agrees(&Running::start(&at("objects")), &["dwz"]);
}

#[test]
fn types_tell_how_to_read_values() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = objects(dir.path(), &["-g"]) else { return };
    let is = |target: &str, value: ValueType, name: &str| {
        let found = running.found(target);
        assert_eq!((found.value, found.type_name.as_deref()), (value, Some(name)), "{target}");
    };
    is("counter", ValueType::Signed, "int");
    is("objects.c:hidden", ValueType::Signed, "long int");
    is("byte_of_many", ValueType::Unsigned, "const volatile unsigned char");
    is("atomic_count", ValueType::Unsigned, "_Atomic long unsigned int");
    is("first.weight", ValueType::Float, "double");
    is("first.flag", ValueType::Bool, "_Bool");
    is("first.text[0]", ValueType::Char, "char");
    is("first.text", ValueType::Other, "char [12]");
    is("first.corners[1]", ValueType::Other, "point [2]");
    is("head", ValueType::Pointer, "struct node *");
    is("handle", ValueType::Pointer, "struct node ** volatile");
    is("anything", ValueType::Pointer, "void *");
    is("first", ValueType::Other, "struct node");
    let colors = [(-1, "RED"), (0, "GREEN"), (200, "BLUE")];
    let colors = colors.map(|(value, name)| (value, name.to_owned())).to_vec();
    is("first.color", ValueType::Enum(colors), "enum color");
    let counter = running.found("counter");
    let (file, line) = counter.declared.unwrap();
    let source = OBJECTS.1.lines().position(|line| line.starts_with("int counter")).unwrap();
    assert!(file.ends_with("objects.c") && line as usize == source + 1, "{file}:{line}");
}

#[test]
fn pointers_are_followed_as_they_are_now() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = objects(dir.path(), &["-g"]) else { return };
    let found = running.found("head->next->color:rw");
    let (at, pointer) = (running.address("head"), running.address("*head"));
    assert_eq!((found.followed[0].at, found.followed[0].pointer), (at, pointer));
    assert_eq!(found.followed.len(), 2);
    assert!(found.notes[0].contains("was followed through pointers once"), "{:?}", found.notes);
    let error = running.error("null[3]");
    assert!(error.contains("on the path is now 0x0, a null pointer"), "{error}");
}

#[test]
fn names_of_several_files_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = objects(dir.path(), &["-g"]) else { return };
    let error = running.error("hidden");
    assert!(error.contains("Try: objects.c:hidden or other.c:hidden"), "{error}");
    assert_eq!(running.found("objects.c:hidden").address, running.address("hidden"));
    assert_eq!(running.found("other.c:hidden").address, running.address("list"));
    assert_eq!(running.found("'other.c'::hidden:rw").address, running.address("list"));
    // Neither file nor variable: a field and an access.
    let field = running.found("s.c:rw");
    assert_eq!((field.address, field.access), (running.address("s.c"), Access::ReadWrite));
    assert_eq!(running.found("bump::calls").address, running.address("calls"));
}

const THREAD_LOCAL: &str = r#"
#include <stdio.h>
static __thread char small = 1;
struct pair { long first, second; };
__thread struct pair pair __attribute__((aligned(64)));
static __thread long last = 5;
int main(void) {
    pair.first = small + last;
    printf("small %p\npair %p\npair.second %p\nlast %p\n", (void *)&small, (void *)&pair, (void *)&pair.second,
           (void *)&last);
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
"#;

#[test]
fn thread_local_variables_are_found_in_the_thread_that_is_named() {
    for how in [&["-g", "-O1", "-pie", "-fPIE"][..], &["-g", "-no-pie"], &["-g", "-static"]] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile("cc", dir.path(), ("own.c", THREAD_LOCAL), "own", how);
        let Some(running) = program.map(|path| Running::start(&path)) else { return };
        for (name, bytes) in [("small", 1), ("pair", 16), ("pair.second", 8), ("last", 8)] {
            let found = running.found(&format!("{name}@{}", running.pid()));
            assert_eq!(
                (found.address, found.len),
                (running.address(name), bytes),
                "{name} {how:?}"
            );
        }
    }
}

#[test]
fn what_has_no_place_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = objects(dir.path(), &["-g", "-O0"]) else { return };
    let refused = |target: &str, why: &str| {
        let error = running.error(target);
        assert!(error.contains(why), "{target}: {error}");
    };
    refused("own", "own is thread-local: each thread has its own copy. Try: own@TID");
    refused("own@1", "has no thread 1. Try: ls /proc/PID/task");
    refused(&format!("counter@{}", running.pid()), "counter is not thread-local");
    refused(
        "first.state",
        "first.state is a bit-field of 5 bits, and hardware watches whole bytes. Try: the \
         enclosing object, first",
    );
    refused("first.colour", "first (struct node) has no field colour. Similar: color");
    refused("first.zzz", "first (struct node) has no field zzz. Similar: call, color");
    refused("counter.x", "counter (int) is not a structure: it has no fields");
    refused("counter[1]", "counter (int) is neither an array nor a pointer");
    refused("*counter", "counter (int) is not a pointer");
    refused("grid[4][0]", "grid (int [4][5]) has 4 elements, counted from 0: [4] is out of range");
    refused("grid[0][5]", "[5] is out of range");
    refused("grid.x", "grid (int [4][5]) is an array: add an index, such as [0]");
    refused("thread", "thread is a local variable of main: it is on the stack");
    refused("cuonter", "no variable or function cuonter. Similar: counter");
    refused("bump:w", "bump is a function, which is executed");
    refused("counter:x", "counter is a variable, which is not executed");
}

#[test]
fn unaligned_objects_of_packed_structures_are_watched_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = objects(dir.path(), &["-g"]) else { return };
    let found = running.found("packed.value");
    assert_eq!(found.len, 8);
    assert!(found.pieces.len() >= 2, "{:?}", found.pieces);
    assert!(found.notes.iter().any(|note| note.contains("is not aligned")), "{:?}", found.notes);
    let whole = running.found("first");
    assert_eq!(whole.pieces.iter().map(|piece| piece.len).sum::<u64>(), whole.len);
}

const NAMES: (&str, &str) = ("names.cc", include_str!("sources/names.cc"));
const STATICS: (&str, &str) = ("statics.rs", include_str!("sources/statics.rs"));

fn all_agree(running: &Running, least: usize, how: &[&str]) {
    let objects = running.places.iter().filter(|(name, _)| !name.starts_with("sizeof "));
    let mut compared = 0;
    for (name, address) in objects {
        let found = running.found(name);
        assert_eq!(found.address, *address, "{name} {how:?} {found:?}");
        assert_eq!(
            found.len,
            running.address(&format!("sizeof {name}")),
            "{name} {how:?} {found:?}"
        );
        compared += 1;
    }
    assert!(compared >= least, "{compared}");
}

#[test]
fn names_of_cplusplus_are_found() {
    for arguments in
        [&["-std=c++17", "-g", "-gdwarf-5"][..], &["-std=c++17", "-g", "-O1", "-gdwarf-4"]]
    {
        let dir = tempfile::tempdir().unwrap();
        let Some(path) = compile("c++", dir.path(), NAMES, "names", arguments) else { return };
        let running = Running::start(&path);
        all_agree(&running, 21, arguments);
        let is = |target: &str, value: ValueType| {
            assert_eq!(running.found(target).value, value, "{target}");
        };
        // Structures of one number are read as that.
        is("atomic", ValueType::Signed);
        is("wide", ValueType::Unsigned);
        is("flag", ValueType::Bool);
        is("mode", ValueType::Enum(vec![(0, "Off".into()), (1, "On".into())]));
        is("secret", ValueType::Signed);
        let error = running.error("left.tag");
        assert!(error.contains("virtual base classes"), "{error}");
        assert_eq!(running.found("_ZN5outer5countE").address, running.address("outer::count"));
    }
}

#[test]
fn names_of_rust_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["-g", "--edition", "2024"];
    let Some(path) = compile("rustc", dir.path(), STATICS, "statics", &arguments) else { return };
    let running = Running::start(&path);
    all_agree(&running, 8, &arguments);
    assert_eq!(running.found("statics::COUNT").value, ValueType::Unsigned);
    assert_eq!(running.found("FLAG").len, 1);
    let error = running.error("BOXED.x");
    assert!(error.contains("a Rust enum: its fields depend on its value"), "{error}");
    let main = running.found("statics::main");
    assert_eq!(main.access, Access::Execute);
}

const LINES: (&str, &str) = (
    "lines.c",
    "#include <stdio.h>
static inline __attribute__((always_inline)) int twice(volatile int *p) {
    int one = *p; /* twice */
    return one + *p;
}

/* nothing here */
__attribute__((noinline)) int left(volatile int *p) { return twice(p); }
__attribute__((noinline)) int right(volatile int *p) {
    int sum = 0;
    for (int i = 0; i < *p; i++) /* loop */
        sum += twice(p); /* body */
    return sum;
}
int main(void) {
    volatile int x = 3;
    printf(\"left %p\\nright %p\\n\", (void *)left, (void *)right);
    puts(\"ready\");
    fflush(stdout);
    getchar();
    return left(&x) + right(&x);
}
",
);

/// Number of the line that says `what`.
fn line_of(what: &str) -> usize {
    LINES.1.lines().position(|line| line.contains(what)).unwrap() + 1
}

#[test]
fn lines_are_where_the_compiler_put_their_code() {
    for arguments in [&["-g", "-O2", "-gdwarf-5"][..], &["-g", "-O1", "-gdwarf-4"]] {
        let dir = tempfile::tempdir().unwrap();
        let Some(path) = compile("cc", dir.path(), LINES, "lines", arguments) else { return };
        let running = Running::start(&path);
        let at = |what: &str| running.found(&format!("lines.c:{}", line_of(what)));
        let within = |address: u64, function: &str| {
            let start = running.address(function);
            (start..start + 200).contains(&address)
        };
        // Inlined into both functions: each copy once.
        let twice = at("/* twice */");
        assert_eq!((twice.access, twice.pieces.len()), (Access::Execute, 2), "{twice:?}");
        let starts: Vec<u64> = twice.pieces.iter().map(|piece| piece.address).collect();
        assert!(starts.iter().any(|&start| within(start, "left")), "{starts:x?}");
        assert!(starts.iter().any(|&start| within(start, "right")), "{starts:x?}");
        assert!(twice.notes[0].contains("2 addresses have code of this line"), "{:?}", twice.notes);
        // Several places of one function are one.
        assert_eq!(at("/* loop */").pieces.len(), 1);
        assert!(within(at("/* body */").address, "right"));
        assert_eq!(at("int left").address, running.address("left"));
        // Without code, the next line that has some.
        let next = at("/* nothing here */");
        assert_eq!(next.address, running.address("left"));
        let (asked, there) = (line_of("/* nothing here */"), line_of("int left"));
        assert!(next.notes.contains(&format!(
            "line {asked} has no code; watching line {there}, the next line with code"
        )));
        let error = running.error("lines.c:4000");
        assert!(error.contains("lines.c has no code at line 4000 or after it"), "{error}");
        let error = running.error("line.c:3");
        assert!(error.contains("no code comes from a file line.c. Similar: lines.c"), "{error}");
    }
}

#[test]
fn gdb_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let Some(running) = objects(dir.path(), &["-g", "-O1"]) else { return };
    let targets = [
        "counter",
        "other",
        "first",
        "first.key",
        "first.number",
        "first.high",
        "first.named.inner",
        "first.corners[2][1].y",
        "first.corners[1]",
        "first.color",
        "first.text[3]",
        "head->next",
        "head->next->color",
        "(*handle)->next->corners[0][1].x",
        "**handle",
        "points[2].y",
        "*grid",
        "grid[3][4]",
        "atomic_count",
        "packed.tag",
        "'other.c'::hidden",
        "bump::calls",
        "opaque",
        "wide",
        "first.corners",
    ];
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-p", &running.pid().to_string()]);
    for target in targets {
        let object =
            if target.starts_with('\'') { target.to_owned() } else { format!("({target})") };
        gdb.args([
            "-ex",
            &format!("printf \"%s %lx %lu\\n\", \"{target}\", (long)&{object}, sizeof({object})"),
        ]);
    }
    let Ok(output) = gdb.output() else {
        println!("skipped: no gdb");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut compared = 0;
    for target in targets {
        let line = text.lines().find_map(|line| line.strip_prefix(target)?.strip_prefix(' '));
        let Some((address, size)) = line.and_then(|line| line.split_once(' ')) else { continue };
        let found = running.found(target);
        let address = u64::from_str_radix(address, 16).unwrap();
        assert_eq!((found.address, found.len), (address, size.parse().unwrap()), "{target}");
        compared += 1;
    }
    if compared == 0 {
        println!("skipped: gdb may not attach here: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert!(compared >= 20, "{compared} of {}: {text}", targets.len());
}

const LIBRARY: (&str, &str) = (
    "total.c",
    "struct pair { int low, high; };
struct pair shared_pair = {1, 2};
int both = 1;
static int within = 4;
struct pair *pair_of(void) { return &shared_pair; }
int *within_of(void) { return &within; }
",
);
const USER: (&str, &str) = (
    "user.c",
    "#include <stdio.h>
struct pair { int low, high; };
extern struct pair shared_pair;
extern struct pair *pair_of(void);
extern int *within_of(void);
extern int *other_of(void);
int main(void) {
    printf(\"shared_pair.high %p\\npair_of %p\\nwithin %p\\nother %p\\n\", (void *)&shared_pair.high,
           (void *)&pair_of()->high, (void *)within_of(), (void *)other_of());
    puts(\"ready\");
    fflush(stdout);
    getchar();
    return 0;
}
",
);

#[test]
fn variables_of_libraries_are_found_where_the_program_uses_them() {
    let other = (
        "other.c",
        "int both = 2;\nstatic int within = 5;\nint *other_of(void) { return &within; }\n",
    );
    // Without -fPIE the linker gives the program a copy of the library's variable.
    for arguments in [&["-fno-pie", "-no-pie"][..], &["-fPIE", "-pie"]] {
        let dir = tempfile::tempdir().unwrap();
        let library = ["-g", "-shared", "-fPIC"];
        let Some(_) = compile("cc", dir.path(), LIBRARY, "libtotal.so.1", &library) else { return };
        compile("cc", dir.path(), other, "libother.so", &library);
        let mut all = vec!["-g", "./libtotal.so.1", "./libother.so", "-Wl,-rpath,$ORIGIN"];
        all.extend(arguments);
        let path = compile("cc", dir.path(), USER, "user", &all).unwrap();
        let running = Running::start_in(&path, dir.path());
        let found = running.found("shared_pair.high");
        assert_eq!(found.address, running.address("shared_pair.high"), "{arguments:?} {found:?}");
        assert_eq!(found.address, running.address("pair_of"), "one variable, whoever asks");
        let error = running.error("within");
        assert!(
            error.contains("Try: libtotal.so.1!within, libother.so!within")
                || error.contains("Try: libother.so!within, libtotal.so.1!within"),
            "{error}"
        );
        assert_eq!(running.found("libtotal!within").address, running.address("within"));
        assert_eq!(running.found("libother.so!within:rw").address, running.address("other"));
        assert_eq!(running.found("total.c:within").address, running.address("within"));
        let error = running.error("libtotl!within");
        assert!(error.contains("has no module libtotl"), "{error}");
    }
}

#[test]
fn a_program_in_another_root_is_read_there() {
    let dir = tempfile::tempdir().unwrap();
    if compile("cc", dir.path(), OTHER, "other.o", &["-c", "-g"]).is_none() {
        return;
    }
    let arguments = ["-g", "-static", "-pthread", "other.o"];
    if compile("cc", dir.path(), OBJECTS, "objects", &arguments).is_none() {
        return;
    }
    let mut chroot = Command::new("chroot");
    chroot.arg(dir.path()).arg("/objects");
    let Some(running) = Running::of(&mut chroot) else {
        println!("skipped: chroot is not allowed here");
        return;
    };
    let found = running.found("head->next->color");
    assert_eq!(found.address, running.address("head->next->color"));
    assert!(found.module.is_some_and(|module| module.ends_with("/objects")));
}
