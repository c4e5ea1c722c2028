//! Programs and what describes their code.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;

use pmuscope_symbols::{
    Bundle, KernelIdentity, Module, Options, Sources, Symbolizer, read_build_id,
};

use crate::{Result, Seeds};

/// What begins a dump, then a function with a line, and one that is moved.
const JIT_WORDS: [u32; 10] = [0x4a69_5444, 1, 40, 62, 0, 7, 0, 0, 0, 0];
const SOURCE: &str = "static inline int in(int x) { return x * 3 / 2; }\n\
    int outer(int x) { return in(x) + in(x + 1); }\nint main(int c, char **v) { return outer(c); }\n";
/// Variables of most kinds.
const OBJECTS: &str = "struct inner { char tag; struct { short low, high; }; };\n\
    union either { long number; struct inner inner; };\nenum color { RED, GREEN = 7 };\n\
    struct node { struct node *next; enum color color; union either table[3]; unsigned bit : 3; };\n\
    struct node first, *head = &first, **handle = &head;\nstatic volatile int hidden = 3;\n\
    __thread int own;\nint grid[2][3];\n\
    int push(int by) { static long calls; return (int)(calls += by + hidden + own); }\n\
    int main(void) { return push(grid[1][2]) + (int)first.bit; }\n";

/// Adds inputs for all targets that read programs or names of their functions.
pub(crate) fn add(seeds: &Seeds) -> Result {
    seeds.add("jit_dump", "dump", &jit_dump())?;
    let folder = std::env::temp_dir().join(format!("seeds-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("a.c"), SOURCE)?;
    for (name, flags) in [
        ("plain", &["-O1"][..]),
        ("debug", &["-O1", "-g"]),
        ("dwarf4", &["-O1", "-gdwarf-4", "-no-pie"]),
        ("packed", &["-O1", "-g", "-gz"]),
        ("stripped", &["-O1", "-s", "-Wl,--build-id"]),
        ("object", &["-c", "-O1", "-g"]),
    ] {
        let path = folder.join(name);
        let mut compiler = Command::new("cc");
        let compiler = compiler.args(flags).arg("-o").arg(&path).arg(folder.join("a.c"));
        if compiler.status().is_ok_and(|status| status.success()) {
            let bytes = fs::read(&path)?;
            seeds.add("elf", name, &bytes)?;
            seeds.add("dwarf", name, &bytes)?;
            seeds.add("unwind", name, &[&stack()[..], &bytes].concat())?;
            answers(seeds, name, &path)?;
        } else {
            println!("no seed {name} of a program: cc {flags:?} fails");
        }
    }
    fs::write(folder.join("a.c"), OBJECTS)?;
    for (name, flags) in [
        ("objects", &["-O1", "-g"][..]),
        ("objects4", &["-O2", "-gdwarf-4", "-no-pie", "-fdebug-types-section"]),
    ] {
        let path = folder.join(name);
        let mut compiler = Command::new("cc");
        let compiler = compiler.args(flags).arg("-o").arg(&path).arg(folder.join("a.c"));
        if compiler.status().is_ok_and(|status| status.success()) {
            seeds.add("definitions", name, &fs::read(&path)?)?;
        } else {
            println!("no seed {name} of a program: cc {flags:?} fails");
        }
    }
    answers(seeds, "own", &std::env::current_exe()?)?;
    fs::remove_dir_all(folder)?;
    Ok(())
}

/// What is known of a program, as a cache file and as a bundle.
fn answers(seeds: &Seeds, name: &str, path: &Path) -> Result {
    let cache = std::env::temp_dir().join(format!("seeds-cache-{}", std::process::id()));
    let sources =
        Sources { cache: Some(cache.clone()), threads: NonZeroUsize::new(1), ..Sources::default() };
    let mut symbolizer = Symbolizer::with_sources(Options { inlined: true }, sources);
    let build_id = read_build_id(path)?;
    let module = Module::File { path, build_id: build_id.as_ref() };
    let addresses: Vec<u64> = (0x1000..0x1400).step_by(8).collect();
    let found = symbolizer.resolve(&module, &addresses);
    for entry in fs::read_dir(&cache)? {
        // The target adds magic and checksum.
        seeds.add("symbol_cache", name, &fs::read(entry?.path())?[12..])?;
    }
    fs::remove_dir_all(cache)?;

    let mut bundle = Bundle::new(KernelIdentity::default());
    bundle.add(&module, &addresses, &found)?;
    let mut whole = Vec::new();
    bundle.append(&mut whole)?;
    let frame = &whole[..whole.len() - 20];
    let contents = zstd::stream::decode_all(frame)?;
    seeds.add("bundle", name, &[&[0], &contents[..]].concat())?;
    seeds.add("bundle", &format!("{name}-frame"), &[&[1], frame].concat())
}

/// Choices and a stack as the target takes them, with addresses of a small program's code on it.
fn stack() -> Vec<u8> {
    let words: Vec<u8> = (0..64_u64).flat_map(|at| (0x1000 + 0x18 * at).to_le_bytes()).collect();
    [&[0][..], &(words.len() as u16).to_le_bytes(), &words].concat()
}

fn jit_dump() -> Vec<u8> {
    let mut out: Vec<u8> = JIT_WORDS.into_iter().flat_map(u32::to_le_bytes).collect();
    let words =
        |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut record = |kind: u32, body: Vec<u8>| {
        out.extend(kind.to_le_bytes());
        out.extend((body.len() as u32 + 16).to_le_bytes());
        out.extend([0; 8]);
        out.extend(body);
    };
    record(2, [words(&[0x10, 1, 0x10, 5]), b"a.js\0".to_vec()].concat());
    record(0, [words(&[0, 0x10, 0x10, 0x40, 1]), b"first\0".to_vec(), vec![0x90; 0x40]].concat());
    record(1, words(&[0, 0x10, 0x10, 0x80, 0x40, 1]));
    out
}
