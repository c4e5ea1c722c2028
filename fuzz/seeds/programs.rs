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
/// Unwind information of one function of 64 bytes right in front of it: the return address lies on top of the stack.
const EH_FRAME: [u8; 48] = [
    20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0,
    0, // CIE
    16, 0, 0, 0, 28, 0, 0, 0, 0xa0, 0xff, 0xff, 0xff, 64, 0, 0, 0, 0, 0, 0, 0, // FDE
    0, 0, 0, 0, // end
];
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
    for (name, flags) in [
        ("sysv", &["-O1", "-s", "-rdynamic", "-Wl,--hash-style=sysv,--build-id"][..]),
        ("gnu", &["-O1", "-s", "-rdynamic", "-Wl,--hash-style=gnu", "-no-pie"]),
        ("library", &["-O1", "-s", "-shared", "-fPIC"]),
    ] {
        if let Some(bytes) = compiled(&folder, name, flags)? {
            seeds.add("sectionless", name, &bytes)?;
        }
    }
    split(seeds, &folder)?;
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

/// The program `name`; `None`, with the reason printed, if it cannot be made.
fn compiled(folder: &Path, name: &str, flags: &[&str]) -> Result<Option<Vec<u8>>> {
    let mut compiler = Command::new("cc");
    let compiler = compiler.current_dir(folder).args(flags).args(["-o", name, "a.c"]);
    if compiler.status().is_ok_and(|status| status.success()) {
        return Ok(Some(fs::read(folder.join(name))?));
    }
    println!("no seed {name} of a program: cc {flags:?} fails");
    Ok(None)
}

/// Programs with skeletons, and the files that have the units, in the forms of both versions of DWARF.
fn split(seeds: &Seeds, folder: &Path) -> Result {
    for version in ["4", "5"] {
        let debug = format!("-gdwarf-{version}");
        let object = ["-c", "-O1", "-gsplit-dwarf", &debug];
        if compiled(folder, "unit.o", &object)?.is_none() {
            continue;
        }
        let mut linker = Command::new("cc");
        let linker = linker.current_dir(folder).args(["-o", "split", "unit.o"]);
        if !linker.status().is_ok_and(|status| status.success()) {
            continue;
        }
        let program = fs::read(folder.join("split"))?;
        let front = [&(program.len() as u16).to_le_bytes()[..], &program].concat();
        let unit = fs::read(folder.join("unit.dwo"))?;
        seeds.add("split", &format!("unit{version}"), &[&[0], &front[..], &unit].concat())?;
        let mut package = Command::new("dwp");
        let package = package.current_dir(folder).args(["-o", "split.dwp", "unit.dwo"]);
        if package.status().is_ok_and(|status| status.success()) {
            let package = fs::read(folder.join("split.dwp"))?;
            seeds.add(
                "split",
                &format!("package{version}"),
                &[&[1], &front[..], &package].concat(),
            )?;
        }
    }
    Ok(())
}

/// What is known of a program, as a cache file and as a bundle.
fn answers(seeds: &Seeds, name: &str, path: &Path) -> Result {
    let cache = std::env::temp_dir().join(format!("seeds-cache-{}", std::process::id()));
    let sources =
        Sources { cache: Some(cache.clone()), threads: NonZeroUsize::new(1), ..Sources::default() };
    let mut symbolizer = Symbolizer::with_sources(Options { inlined: true }, sources);
    let build_id = read_build_id(path)?;
    let module = Module::file(path, build_id.as_ref());
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

/// A function with a line, which is moved, and another that takes its first place later; both say how they are left.
fn jit_dump() -> Vec<u8> {
    let mut out: Vec<u8> = JIT_WORDS.into_iter().flat_map(u32::to_le_bytes).collect();
    let words =
        |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut record = |kind: u32, time: u64, body: Vec<u8>| {
        out.extend(kind.to_le_bytes());
        out.extend((body.len() as u32 + 16).to_le_bytes());
        out.extend(time.to_le_bytes());
        out.extend(body);
    };
    let load = |name: &[u8]| [&words(&[0, 0x10, 0x10, 0x40, 1])[..], name, &[0x90; 0x40]].concat();
    let frames = [&words(&[EH_FRAME.len() as u64, 0, 0])[..], &EH_FRAME].concat();
    record(2, 5, [words(&[0x10, 1, 0x10, 5]), b"a.js\0".to_vec()].concat());
    record(4, 5, frames.clone());
    record(0, 5, load(b"first\0"));
    record(1, 10, words(&[0, 0x10, 0x10, 0x80, 0x40, 1]));
    record(4, 15, frames);
    record(0, 15, load(b"second\0"));
    out
}
