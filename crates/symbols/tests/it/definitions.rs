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
    assert!(
        unused.contains("unused was optimised out: the compiler left no place for it in memory"),
        "{unused}"
    );
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
