//! Layouts of types against what their compilers say: each program prints sizes, offsets and alignments of its types.

use std::path::Path;
use std::process::Command;

use pmuscope_symbols::Sources;
use pmuscope_symbols::definitions::{Definitions, FieldRole, LayoutField, LayoutKind, TypeLayout};

const C: &str = r#"
#include <stddef.h>
#include <stdio.h>
#include <string.h>
typedef float vector __attribute__((vector_size(16)));
typedef int wide __attribute__((aligned(32)));
enum color { RED, GREEN };
struct slot { long next; char tag; };
struct plain {
    char a; short b; int c; long d; char e[3]; double f; long double g; __int128 h; _Complex double i;
    vector j; enum color k; void *l; int (*m)(void); _Bool n; struct slot o; struct slot p[3]; const volatile short q;
    struct { char x; int y; }; union { long z; char text[12]; }; int grid[2][3]; wide r; char data[];
};
struct asked { char a; char b __attribute__((aligned(16))); int c; } __attribute__((aligned(64)));
struct __attribute__((packed)) dense { char a; int b; long c; char d; struct slot e; };
#pragma pack(push, 2)
struct halves { char a; int b; long c; };
#pragma pack(pop)
struct holder { char a; struct dense b; struct halves c; struct asked d; };
struct flags { unsigned a : 3; unsigned b : 13; unsigned : 0; unsigned c : 1; long d : 40; char e; _Bool f : 1; };
union either { char a; long b; int c[5]; };
struct plain plain; struct asked asked; struct dense dense; struct halves halves; struct holder holder;
struct flags flags; union either either;
static void bit(const char *name) {
    unsigned char *byte = (unsigned char *)&flags;
    int first = -1, count = 0;
    for (int at = 0; at < 8 * (int)sizeof flags; at++)
        if (byte[at / 8] >> at % 8 & 1) { if (first < 0) first = at; count++; }
    printf("bits|struct flags|%s|%d|%d|0\n", name, first, count);
    memset(&flags, 0, sizeof flags);
}
#define T(t) printf("type|" #t "|-|0|%zu|%zu\n", sizeof(t), _Alignof(t))
#define F(t, f) printf("field|" #t "|" #f "|%zu|%zu|%zu\n", offsetof(t, f), sizeof ((t *)0)->f, __alignof__(((t *)0)->f))
int main(void) {
    memset(&flags, 0, sizeof flags);
    T(struct plain); T(struct slot); T(struct asked); T(struct dense); T(struct halves); T(struct holder); T(struct flags);
    T(union either);
    F(struct plain, a); F(struct plain, b); F(struct plain, c); F(struct plain, d); F(struct plain, e);
    F(struct plain, f); F(struct plain, g); F(struct plain, h); F(struct plain, i); F(struct plain, j);
    F(struct plain, k); F(struct plain, l); F(struct plain, m); F(struct plain, n); F(struct plain, o);
    F(struct plain, p); F(struct plain, q); F(struct plain, grid); F(struct plain, r);
    F(struct asked, a); F(struct asked, b); F(struct asked, c);
    F(struct dense, a); F(struct dense, b); F(struct dense, c); F(struct dense, d); F(struct dense, e);
    F(struct halves, a); F(struct halves, b); F(struct halves, c);
    F(struct holder, b); F(struct holder, c); F(struct holder, d);
    F(struct flags, e); F(union either, b); F(union either, c);
    flags.a = 7; bit("a"); flags.b = 0x1fff; bit("b"); flags.c = 1; bit("c"); flags.d = -1; bit("d"); flags.f = 1; bit("f");
    return plain.c + asked.a + dense.b + halves.b + holder.a + either.b;
}
"#;

const CXX: &str = r#"
#include <cstddef>
#include <cstdio>
namespace site {
struct nothing {};
struct base { virtual ~base(); long first; char tag; };
base::~base() {}
struct other { int x; };
struct hits : base, other, nothing {
    char next; alignas(32) int by_thread[4]; bool done; static int shared; int hits::*member; void (hits::*call)();
    int &reference; [[no_unique_address]] nothing empty;
    hits(int &of) : reference(of) {}
};
int hits::shared;
template <class T> struct pair { T a; char b; };
struct shares : virtual other { int y; };
int number;
hits all(number);
pair<double> pairs;
shares shared;
}
using site::hits;
#define T(t) printf("type|" #t "|-|0|%zu|%zu\n", sizeof(t), alignof(t))
#define F(t, f) printf("field|" #t "|" #f "|%zu|%zu|%zu\n", offsetof(t, f), sizeof ((t *)nullptr)->f, __alignof__(((t *)nullptr)->f))
#define B(t, b) printf("base|" #t "|" #b "|%zu|0|%zu\n", (size_t)((char *)(b *)&site::all - (char *)&site::all), alignof(b))
int main() {
    T(site::hits); T(site::base); T(site::pair<double>); T(site::shares); T(site::nothing);
    B(site::hits, site::base); B(site::hits, site::other);
    F(site::hits, next); F(site::hits, by_thread); F(site::hits, done); F(site::hits, member); F(site::hits, call);
    F(site::base, first); F(site::base, tag); F(site::pair<double>, a); F(site::pair<double>, b);
    return site::all.next + site::pairs.b + site::shared.y + site::hits::shared;
}
"#;

const RUST: &str = r#"
use std::mem::{align_of, offset_of, size_of};
use std::sync::atomic::{AtomicU64, Ordering};
pub mod site {
    pub enum Either { One(u8), Two(u64) }
    pub struct Free { pub a: u8, pub b: u64, pub c: u128, pub d: Option<u32>, pub e: (u8, u16), pub f: [u16; 3], pub g: Either }
    #[repr(C, align(64))]
    pub struct Line { pub a: u8, pub free: Free, pub count: super::AtomicU64 }
    #[repr(C, packed)]
    pub struct Dense { pub a: u8, pub b: u32 }
}
use site::*;
static LINE: Line = Line {
    a: 1,
    free: Free { a: 1, b: 2, c: 3, d: None, e: (1, 2), f: [1, 2, 3], g: Either::One(1) },
    count: AtomicU64::new(0),
};
static DENSE: Dense = Dense { a: 1, b: 1 };
fn of<T, U>(_: impl Fn(&T) -> &U) -> (usize, usize) { (size_of::<U>(), align_of::<U>()) }
macro_rules! show {
    ($of:ident, $($field:ident),*) => {
        println!("type|site::{}|-|0|{}|{}", stringify!($of), size_of::<$of>(), align_of::<$of>());
        $(let (bytes, align) = of(|one: &$of| &one.$field);
        println!("field|site::{}|{}|{}|{bytes}|{align}", stringify!($of), stringify!($field), offset_of!($of, $field));)*
    };
}
fn main() {
    show!(Free, a, b, c, d, e, f, g);
    show!(Line, a, free, count);
    show!(Either,);
    println!("type|site::Dense|-|0|{}|{}", size_of::<Dense>(), align_of::<Dense>());
    println!("field|site::Dense|b|{}|4|1", offset_of!(Dense, b));
    LINE.count.fetch_add(u64::from({ DENSE.b }) + u64::from(LINE.free.a), Ordering::Relaxed);
    if let Either::Two(number) = std::hint::black_box(&LINE).free.g { println!("none|{number}") }
}
"#;

/// Compiles and runs a program; what it prints. `None`, with the reason printed, where there is no compiler.
fn compiled(compiler: &str, arguments: &[&str], source: &Path, program: &Path) -> Option<String> {
    let built = Command::new(compiler).args(arguments).arg("-o").arg(program).arg(source).output();
    match built {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => {
            eprintln!("skipped: no {compiler} ({error})");
            return None;
        }
    }
    Some(String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap())
}

fn field<'a>(layout: &'a TypeLayout, name: &str) -> &'a LayoutField {
    let found = layout.fields.iter().find(|field| field.name == name);
    found.unwrap_or_else(|| panic!("{name}: {layout:?}"))
}

/// Holds each line that a program prints against what is read.
fn agrees(definitions: &Definitions, said: &str) -> usize {
    let mut checked = 0;
    for line in said.lines() {
        let [what, of, name, offset, bytes, align] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let number = |text: &str| text.parse::<u64>().unwrap();
        let layout = definitions.type_layout(of).unwrap_or_else(|| panic!("{of}"));
        match what {
            "type" => {
                assert_eq!((layout.bytes, layout.align), (number(bytes), number(align)), "{line}");
            }
            "bits" => {
                let bits = Some((number(offset), number(bytes)));
                assert_eq!(field(&layout, name).bits, bits, "{line}");
            }
            "field" => {
                let found = field(&layout, name);
                let expected = (number(offset), number(bytes), number(align));
                assert_eq!((found.offset, found.bytes, found.align), expected, "{line}");
            }
            "base" => {
                let found = field(&layout, name.rsplit("::").next().unwrap());
                assert_eq!(found.role, FieldRole::Base);
                assert_eq!((found.offset, found.align), (number(offset), number(align)), "{line}");
            }
            _ => panic!("{line}"),
        }
        checked += 1;
    }
    checked
}

fn open(program: &Path) -> Definitions {
    Definitions::open(&Sources::default(), program, None).unwrap()
}

#[test]
fn layouts_of_c_are_the_compilers() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("x.c"), dir.path().join("x"));
    std::fs::write(&source, C).unwrap();
    for version in ["4", "5"] {
        let debug = format!("-gdwarf-{version}");
        let Some(said) = compiled("cc", &["-w", "-O1", &debug], &source, &program) else { return };
        let definitions = open(&program);
        assert_eq!(agrees(&definitions, &said), 49, "{said}");
        let layout = |name: &str| definitions.type_layout(name).unwrap();
        for (name, is_packed) in [
            ("dense", true),
            ("halves", true),
            ("plain", false),
            ("asked", false),
            ("flags", false),
        ] {
            assert_eq!(layout(name).is_packed, is_packed, "{name} {:?}", layout(name));
        }
        let plain = layout("plain");
        assert_eq!((plain.kind, plain.is_ordered_by_compiler), (LayoutKind::Record, false));
        assert_eq!(layout("either").kind, LayoutKind::Union);
        let array = |name: &str| {
            let array = field(&plain, name).array.clone().unwrap();
            (array.stride, array.length, array.element)
        };
        assert_eq!(array("p"), (16, Some(3), "struct slot".into()));
        assert_eq!(array("grid"), (4, Some(6), "int".into()));
        // At the end, without a size.
        let last = plain.fields.last().unwrap();
        assert_eq!((&*last.name, last.bytes, last.offset), ("data", 0, plain.bytes - 28));
        let nameless = plain.fields.iter().filter(|one| one.name.is_empty()).count();
        assert_eq!(nameless, 2, "{plain:?}");
    }
    assert!(open(&program).type_layout("struct nothing").is_none());
}

#[test]
fn layouts_of_classes_are_the_compilers() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("x.cc"), dir.path().join("x"));
    std::fs::write(&source, CXX).unwrap();
    let arguments = ["-w", "-g", "-O1", "-std=c++20"];
    let Some(said) = compiled("c++", &arguments, &source, &program) else { return };
    let definitions = open(&program);
    assert_eq!(agrees(&definitions, &said), 16, "{said}");
    let hits = definitions.type_layout("site::hits").unwrap();
    let base = field(&hits, "base");
    // The derived class begins in the padding of its base.
    assert_eq!((base.bytes, field(&hits, "nothing").bytes), (20, 0), "{hits:?}");
    assert!(!hits.is_packed && !hits.has_virtual_bases);
    assert!(!hits.fields.iter().any(|one| one.name == "shared"));
    let roles: Vec<FieldRole> = definitions
        .type_layout("site::base")
        .unwrap()
        .fields
        .iter()
        .map(|field| field.role)
        .collect();
    assert_eq!(roles, [FieldRole::VirtualTable, FieldRole::Member, FieldRole::Member]);
    assert!(definitions.type_layout("site::shares").unwrap().has_virtual_bases);
}

#[test]
fn layouts_of_rust_are_the_compilers() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("x.rs"), dir.path().join("x"));
    std::fs::write(&source, RUST).unwrap();
    let compiler = std::env::var("RUSTC").unwrap_or("rustc".into());
    let arguments = ["--edition", "2024", "-g"];
    let Some(said) = compiled(&compiler, &arguments, &source, &program) else { return };
    let definitions = open(&program);
    assert_eq!(agrees(&definitions, &said), 15, "{said}");
    let layout = |name: &str| definitions.type_layout(name).unwrap();
    assert!(layout("site::Free").is_ordered_by_compiler && layout("site::Dense").is_packed);
    assert_eq!(layout("site::Either").kind, LayoutKind::Variants);
}

/// The variable that the tests of recordings have, in more depth.
const NESTED: &str = "
struct inner { int read, mostly; };
struct slot { long value; struct inner inner; char rest[48]; };
struct counters {
    char far[1000];
    struct { long spare, total; } line0;
    long of_thread[8];
    struct slot slots[4];
    struct { long writer; struct inner config; } line2;
    union { long a, b; } either;
} counters;
long grid[4][8];
int main(void) { counters.far[1] = 1; return counters.far[2] + grid[1][2]; }
";

#[test]
fn the_innermost_part_that_has_all_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("x.c"), dir.path().join("x"));
    std::fs::write(&source, NESTED).unwrap();
    if compiled("cc", &["-g", "-O1"], &source, &program).is_none() {
        return;
    }
    let definitions = open(&program);
    let place = |name: &str| definitions.data(None, &name.parse().unwrap()).unwrap();
    let counters = place("counters").base;
    let (line0, threads, slots, line2) = (1000, 1016, 1080, 1336);
    let ask = |offsets: &[u64]| {
        let found = definitions.part_layouts("counters", counters, &[offsets.to_vec()]).remove(0);
        found.map(|part| {
            let repeated = part.repeated.map(|array| (array.stride, array.length.unwrap()));
            (part.path, part.offset, repeated, part.has_several, part.layout.name)
        })
    };
    let whole = (String::new(), 0, None, false, "struct counters".to_owned());
    assert_eq!(ask(&[line0, threads]), Some(whole.clone()));
    let part = |path: &str, offset, repeated, several, name: &str| {
        Some((path.to_owned(), offset, repeated, several, name.to_owned()))
    };
    assert_eq!(ask(&[line0, line0 + 8]), part(".line0", line0, None, false, "struct {…}"));
    let eight = Some((8, 8));
    assert_eq!(
        ask(&[threads, threads + 8]),
        part(".of_thread[]", threads, eight, true, "long int")
    );
    let four = Some((64, 4));
    assert_eq!(
        ask(&[slots + 64, slots + 64 + 8]),
        part(".slots[]", slots, four, false, "struct slot")
    );
    assert_eq!(
        ask(&[slots + 64 + 8, slots + 64 + 12]),
        part(".slots[].inner", slots + 8, four, false, "struct inner")
    );
    assert_eq!(ask(&[slots, slots + 64]), part(".slots[]", slots, four, true, "struct slot"));
    let config = part(".line2.config", line2 + 8, None, false, "struct inner");
    assert_eq!(ask(&[line2 + 8, line2 + 12]), config);
    let union = part(".either", line2 + 16, None, false, "union {…}");
    assert_eq!(ask(&[line2 + 16, line2 + 20]), union);
    // One number: the structure that it is in.
    assert_eq!(ask(&[line0 + 8]), part(".line0", line0, None, false, "struct {…}"));
    assert_eq!(ask(&[0, 100_000]), None);
    assert_eq!(definitions.part_layouts("grid", place("grid").base, &[vec![0, 72]]).len(), 1);
    let grid = definitions.part_layouts("grid", place("grid").base, &[vec![0, 72]]).remove(0);
    assert_eq!(
        grid.map(|part| (part.path, part.repeated.unwrap().length)),
        Some(("[][]".into(), Some(32)))
    );
    assert_eq!(definitions.part_layouts("grid", 12, &[vec![0], vec![8]]), [None, None]);
}
