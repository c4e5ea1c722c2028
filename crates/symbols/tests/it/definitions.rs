//! What files define by name, also those made to harm. What is found in running programs is held against
//! what they say of themselves in the crate `watch`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use pmuscope_symbols::Sources;
use pmuscope_symbols::definitions::{DefinitionError, Definitions, NameKind, Step, ValueType};
use proptest::prelude::*;

const SOURCE: &str = "
struct inner { char tag; struct { short low, high; }; };
union either { long number; struct inner inner; };
enum color { RED, GREEN = 7 };
struct node { struct node *next; enum color color; union either table[3]; unsigned bit : 3; };
struct node first, *head = &first;
static int hidden = 3;
__thread int own;
static int unused;
const int constant = 4;
int grid[2][3];
int push(int by) { static long calls; return (int)(calls += by + hidden + constant + own); }
int main(void) { return push(grid[1][2]) + (int)first.bit; }
";

/// Compiles the program; `None`, with the reason printed, where there is no compiler.
fn compile(dir: &Path, arguments: &[&str]) -> Option<PathBuf> {
    let source = dir.join("nodes.c");
    std::fs::write(&source, SOURCE).unwrap();
    let program = dir.join("nodes");
    let output = Command::new("cc").args(arguments).arg("-o").arg(&program).arg(&source).output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("skipped: no C compiler ({error})");
            None
        }
    }
}

fn open(path: &Path) -> Definitions {
    Definitions::open(&Sources::default(), path, None).unwrap()
}

/// Address of a symbol, by nm(1).
fn by_nm(program: &Path, name: &str) -> Option<u64> {
    let output = Command::new("nm").arg(program).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.ends_with(&format!(" {name}")))?;
    u64::from_str_radix(line.split(' ').next()?, 16).ok()
}

#[test]
fn ways_to_objects_are_told_as_steps() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), &["-g", "-O1"]) else { return };
    let definitions = open(&program);
    let ask = |text: &str| definitions.data(None, &text.parse().unwrap()).unwrap();
    let high = ask("head->table[2].inner.high");
    // next 8, color 4 and 4 of padding, two unions of 8, tag 1 and 1 of padding, low 2.
    assert_eq!(high.steps, [Step::Dereference, Step::Add(8 + 8 + 16 + 4)]);
    assert_eq!((high.bytes, high.value), (2, ValueType::Signed));
    assert_eq!(high.variable, "head");
    let color = ask("first.color");
    let names = [(0, "RED".to_owned()), (7, "GREEN".to_owned())].to_vec();
    assert_eq!((color.steps, color.value), (vec![Step::Add(8)], ValueType::Enum(names)));
    match by_nm(&program, "grid") {
        Some(address) => assert_eq!(ask("grid[1]").base, address),
        None => eprintln!("skipped: no nm"),
    }
    assert_eq!(ask("grid[1]").bytes, 12);
    assert_eq!(ask("push::calls").bytes, 8);
    assert_eq!(definitions.kind("push"), Some(NameKind::Code));
    assert_eq!(definitions.kind("grid"), Some(NameKind::Data));
    assert_eq!(definitions.kind("nothing"), None);
}

#[test]
fn what_the_compiler_removed_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), &["-g", "-O2"]) else { return };
    let definitions = open(&program);
    let error = |text: &str| definitions.data(None, &text.parse().unwrap()).unwrap_err();
    // Never written to, so that its value is in the instructions.
    assert!(
        matches!(
            error("hidden"),
            DefinitionError::Constant { .. } | DefinitionError::OptimizedOut { .. }
        ),
        "{}",
        error("hidden")
    );
    assert!(matches!(error("own"), DefinitionError::ThreadLocal { .. }));
    assert!(matches!(error("first.bit"), DefinitionError::BitField { bits: 3, .. }));
    assert!(error("by").to_string().contains("by is a local variable of push"), "{}", error("by"));
    let unused = error("unused").to_string();
    assert!(unused.contains("unused was optimized out: it has no address"), "{unused}");
}

#[test]
fn split_debug_information_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), &["-g", "-gsplit-dwarf"]) else { return };
    let definitions = open(&program);
    let whole = definitions.data(None, &"first".parse().unwrap()).unwrap();
    assert_eq!(whole.type_name, None);
    let error = definitions.data(None, &"first.color".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains(".dwo, and split files are not read"), "{error}");
}

/// Everything that can be asked.
fn ask(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let Ok(definitions) = Definitions::open(&Sources::default(), file.path(), None) else { return };
    for text in
        ["head->table[2].inner.high", "**head", "grid[1][2]", "push::calls", "hidden", "fist"]
    {
        if let Ok(place) = definitions.data(None, &text.parse().unwrap()) {
            assert!(place.steps.len() < 10, "{place:?}");
        }
    }
    let _ =
        (definitions.functions("push"), definitions.line("nodes.c", 12), definitions.segments());
    for name in ["node", "inner", "either"] {
        if let Some(layout) = definitions.type_layout(name) {
            assert!(layout.fields.iter().all(|field| field.align > 0), "{layout:?}");
        }
    }
    if let Ok(first) = definitions.data(None, &"first".parse().unwrap()) {
        let parts = [vec![0], vec![16, 24], vec![u64::MAX, 0]];
        let _ = definitions.part_layouts("first", first.base, &parts);
    }
}

fn program() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), &["-g", "-O1", "-no-pie"]);
        program.map_or_else(Vec::new, |path| std::fs::read(path).unwrap())
    })
}

/// Where debug information lies in the program.
fn debug_information() -> std::ops::Range<usize> {
    let name = b"GNU C17";
    let bytes = program();
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap_or(0);
    at.saturating_sub(4000)..(at + 2000).min(bytes.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Any answer will do; it has to come.
    #[test]
    fn damaged_debug_information_does_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = program().to_vec();
        if !bytes.is_empty() {
            let range = debug_information();
            for (at, value) in changes {
                bytes[range.start + at.index(range.len())] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            ask(&bytes);
        }
    }
}

/// Debug information by hand, in which types are defined by themselves.
fn circles() -> String {
    let mut text = String::from(
        r#"
        .section .debug_abbrev,"",@progbits
        .byte 1,0x11,1, 3,8, 0,0
        .byte 2,0x16,0, 3,8, 0x49,0x13, 0,0
        .byte 3,0x34,0, 3,8, 0x49,0x13, 2,0x18, 0,0
        .byte 4,0x13,1, 3,8, 0x0b,0x0b, 0,0
        .byte 5,0x0d,0, 0x49,0x13, 0x38,0x0b, 0,0
        .byte 6,1,1, 0x49,0x13, 0,0
        .byte 7,0x21,0, 0x37,0x0b, 0,0
        .byte 0
        .section .debug_info,"",@progbits
unit:   .long end - begin
begin:  .value 4
        .long 0
        .byte 8
        .byte 1
        .string "circles.c"
first:  .byte 2
        .string "first"
        .long second - unit
second: .byte 2
        .string "second"
        .long first - unit
array:  .byte 6
        .long array - unit
        .byte 7, 2, 0
"#,
    );
    // Each structure holds the next one twice, without a name: together more than can be searched.
    for at in 0..40 {
        let next = (at + 1) % 40;
        text += &format!(
            "s{at}: .byte 4\n .string \"s{at}\"\n .byte 8\n .byte 5\n .long s{next} - unit\n .byte 0\n \
             .byte 5\n .long s{next} - unit\n .byte 4, 0\n"
        );
    }
    for (name, kind) in [("looped", "first"), ("endless", "array"), ("nested", "s0")] {
        text += &format!(
            " .byte 3\n .string \"{name}\"\n .long {kind} - unit\n .byte 9, 3\n .quad {name}\n"
        );
    }
    text + " .byte 0\nend:\n .data\n .globl looped, endless, nested\nlooped: .quad 1\n\
            endless: .quad 2\nnested: .quad 3\n .text\n .globl main\nmain: ret\n\
            .section .note.GNU-stack,\"\",@progbits\n"
}

#[test]
fn types_that_are_defined_by_themselves_end_in_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("circles.s"), circles()).unwrap();
    let mut compiler = Command::new("cc");
    let compiler = compiler.current_dir(dir.path()).args(["-no-pie", "-o", "circles", "circles.s"]);
    match compiler.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("skipped: no C compiler ({error})");
            return;
        }
    }
    let definitions = open(&dir.path().join("circles"));
    let error =
        |text: &str| definitions.data(None, &text.parse().unwrap()).unwrap_err().to_string();
    assert_eq!(
        error("looped"),
        "the debug information of looped is damaged: a type defined by itself"
    );
    assert_eq!(
        error("endless"),
        "the debug information of endless is damaged: endlessly nested arrays"
    );
    assert_eq!(
        error("nested.x"),
        "the debug information of nested is damaged: a structure that contains itself"
    );
    let index = format!("endless{}", "[1]".repeat(500));
    assert!(error(&index).contains("endless"), "{}", error(&index));
}

/// Prints each field of `queue` with its first byte and its size; of bit-fields, those of the bytes that they change.
const FIELDS: &str = r#"
#include <stddef.h>
#include <stdio.h>
#include <string.h>
struct slot { long next; char tag; unsigned a : 3; unsigned b : 13; };
struct queue {
    long head; int lock; struct slot slots[4]; struct { short low, high; };
    union { long number; char text[8]; } either; int grid[2][3]; char last;
};
struct queue queue;
static void bits(const char *path) {
    unsigned char *byte = (unsigned char *)&queue;
    size_t first = 0, end = sizeof queue;
    while (!byte[first]) first++;
    while (!byte[end - 1]) end--;
    printf("%s %zu %zu\n", path, first, end - first);
    memset(&queue, 0, sizeof queue);
}
#define PRINT(path, field) printf("%s %zu %zu\n", path, offsetof(struct queue, field), sizeof queue.field)
int main(void) {
    PRINT(".head", head); PRINT(".lock", lock); PRINT(".slots[0].next", slots[0].next);
    PRINT(".slots[2].next", slots[2].next); PRINT(".slots[3].tag", slots[3].tag); PRINT(".low", low);
    PRINT(".high", high); PRINT(".either", either); PRINT(".grid[0][2]", grid[0][2]);
    PRINT(".grid[1][0]", grid[1][0]); PRINT(".last", last);
    queue.slots[1].a = 7; bits(".slots[1].a");
    queue.slots[1].b = 0x1fff; bits(".slots[1].b");
    return 0;
}
"#;

#[test]
fn offsets_are_the_fields_that_the_compiler_put_there() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("fields.c"), dir.path().join("fields"));
    std::fs::write(&source, FIELDS).unwrap();
    for version in ["2", "4", "5"] {
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", &format!("-gdwarf-{version}"), "-gstrict-dwarf", "-o"]);
        match compiler.arg(&program).arg(&source).output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => return eprintln!("skipped: no C compiler ({error})"),
        }
        let said = Command::new(&program).output().unwrap();
        let expected = String::from_utf8(said.stdout).unwrap();
        assert_eq!(expected.lines().count(), 13);
        let definitions = open(&program);
        let base = definitions.data(None, &"queue".parse().unwrap()).unwrap();
        // By byte: the field that the compiler says is there.
        let mut of_byte: Vec<Vec<&str>> = vec![Vec::new(); base.bytes as usize];
        for line in expected.lines() {
            let [path, offset, bytes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!() };
            let (offset, bytes): (u64, u64) = (offset.parse().unwrap(), bytes.parse().unwrap());
            let each: Vec<u64> = (offset..offset + bytes).collect();
            of_byte[offset as usize..(offset + bytes) as usize]
                .iter_mut()
                .for_each(|all| all.push(path));
            for (at, field) in each.iter().zip(definitions.fields("queue", base.base, &each)) {
                let field = field.unwrap();
                // Bit-fields that share a byte have it together.
                let shared =
                    of_byte[*at as usize].len() > 1 || path.ends_with(".a") || path.ends_with(".b");
                if !shared || field.path == path {
                    let found = (&field.path[..], field.offset, field.bytes);
                    assert_eq!(found, (path, offset, bytes), "DWARF {version}");
                } else {
                    assert_eq!(field.path, ".slots[1].a/b", "DWARF {version}: {path}");
                }
            }
        }
        let of = |offset: u64| definitions.fields("queue", base.base, &[offset]).remove(0);
        assert!(of(12).unwrap().is_padding && of(12).unwrap().path.is_empty());
        assert_eq!(of(base.bytes), None);
        assert_eq!(definitions.fields("nothing", base.base, &[0]), [None]);
        // Another variable of the name would be at another address.
        assert_eq!(definitions.fields("queue", base.base + 8, &[0]), [None]);
    }
}

/// The same of C++ and Rust: a base class and a namespace, a tuple and a static in a module.
const CLASSES: &str = "
namespace site { struct base { long first; }; struct hits : base { int by_thread[4]; bool done; }; hits all; }
int main() { return (int)site::all.first + site::all.by_thread[1] + site::all.done; }
";
const STATICS: &str = "
use std::sync::atomic::{AtomicU16, AtomicU64};
pub mod site {
    use super::*;
    pub struct Hits { pub first: AtomicU64, pub by_thread: [(u32, AtomicU16); 3] }
    #[unsafe(no_mangle)]
    pub static ALL: Hits = Hits { first: AtomicU64::new(0), by_thread: [const { (7, AtomicU16::new(0)) }; 3] };
}
fn main() {
    std::hint::black_box(&site::ALL);
    println!(\"{} {}\", std::mem::offset_of!(site::Hits, by_thread), std::mem::offset_of!((u32, AtomicU16), 1));
}
";

#[test]
fn fields_of_classes_are_found_through_their_bases() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("x.cc"), dir.path().join("x"));
    std::fs::write(&source, CLASSES).unwrap();
    match Command::new("c++").args(["-g", "-O1", "-o"]).arg(&program).arg(&source).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => return eprintln!("skipped: no C++ compiler ({error})"),
    }
    let definitions = open(&program);
    let base = definitions.data(None, &"site::all".parse().unwrap()).unwrap().base;
    let found = definitions.fields("site::all", base, &[0, 12, 24]);
    let found: Vec<String> = found.into_iter().map(|field| field.unwrap().path).collect();
    assert_eq!(found, [".first", ".by_thread[1]", ".done"]);
}

#[test]
fn fields_of_rust() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("x.rs"), dir.path().join("x"));
    std::fs::write(&source, STATICS).unwrap();
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    compiler.args(["--edition", "2024", "-g", "-o"]).arg(&program).arg(&source);
    match compiler.output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => return eprintln!("skipped: no rustc ({error})"),
    }
    let said = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    let numbers: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let definitions = open(&program);
    let base = definitions.data(None, &"site::ALL".parse().unwrap()).unwrap().base;
    // The size of (u32, AtomicU16).
    let second = numbers[0] + 8 + numbers[1];
    let found = definitions.fields("site::ALL", base, &[second]).remove(0).unwrap();
    // The number of an atomic has no name of its own.
    assert_eq!((&*found.path, found.offset, found.bytes), (".by_thread[1].__1", second, 2));
}

/// What an expression leads to has fields as a variable has, also through a smart pointer.
#[test]
fn parts_of_what_pointers_lead_to() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("x.rs"), dir.path().join("x"));
    std::fs::write(&source, BOXED).unwrap();
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    compiler.args(["--edition", "2024", "-g", "-o"]).arg(&program).arg(&source);
    match compiler.output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => return eprintln!("skipped: no rustc ({error})"),
    }
    let definitions = open(&program);
    let path = |of: &str, offset: u64| {
        let found = definitions.parts(None, &of.parse().unwrap(), &[offset]).remove(0);
        found.map(|field| field.path)
    };
    assert_eq!(path("*BOXED", 0).as_deref(), Some(".head"));
    assert_eq!(path("*BOXED", 8).as_deref(), Some(".tail[0]"));
    assert_eq!(path("BOXED->tail", 2).as_deref(), Some("[1]"));
    assert_eq!(path("BOXED", 0).as_deref(), Some(""));
    assert_eq!(path("*BOXED", 16), None);
    assert_eq!(path("*NUMBER", 0), None);
    assert_eq!(path("NOTHING", 0), None);
}

const BOXED: &str = "
use std::sync::atomic::{AtomicPtr, AtomicU64};
#[repr(C)]
pub struct Queue { head: AtomicU64, tail: [u16; 2] }
#[unsafe(no_mangle)]
pub static BOXED: AtomicPtr<Queue> = AtomicPtr::new(std::ptr::null_mut());
#[unsafe(no_mangle)]
pub static NUMBER: AtomicU64 = AtomicU64::new(0);
fn main() { std::hint::black_box((&BOXED, &NUMBER)); }
";
