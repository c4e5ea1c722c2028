//! Advice on layouts, of simulated threads that use the fields of a structure of a compiled program: with the advised
//! layout the simulation has to have no false sharing left.

use std::path::Path;
use std::process::Command;

use pmuscope_profile::sharing::{AdvisedObject, Arrangement, SharedLines, SharingAdvice};
use pmuscope_symbols::Sources;
use pmuscope_symbols::definitions::Definitions;

use crate::sharing::{random_pmu, read_all};
use pmuscope_testkit::sharing_file::{Access, Does, Memory, PID, Program, Simulation};

/// Lines that each thread uses alone, far from the structure.
const IDLE: usize = 500;

/// How the fields of a structure are used.
#[derive(Debug, Clone, Copy)]
enum Use {
    Nothing,
    /// By one thread.
    Private(usize),
    /// Written by one thread, read by all others.
    Published(usize),
    /// A counter of all.
    Counter,
    ReadOnly,
    /// An array with an element for each thread.
    Slots,
}

/// A field: its C type, its array length if it is one, its use and how often it is used.
#[derive(Debug, Clone, Copy)]
struct Field {
    kind: &'static str,
    length: Option<usize>,
    of: Use,
    weight: f64,
}

fn random_fields(random: &mut fastrand::Rng, threads: usize) -> Vec<Field> {
    let field = |random: &mut fastrand::Rng| {
        let kind = ["long", "int", "short", "char", "double"][random.usize(..5)];
        let of = match random.u8(..8) {
            0 | 1 => Use::Private(random.usize(..threads)),
            2 => Use::Published(random.usize(..threads)),
            3 => Use::Counter,
            4 => Use::ReadOnly,
            5 => Use::Slots,
            _ => Use::Nothing,
        };
        let length = match of {
            Use::Slots => Some(threads),
            Use::Nothing => random.bool().then(|| random.usize(1..24)),
            _ => None,
        };
        Field { kind, length, of, weight: 0.1 + random.f64() }
    };
    (0..random.usize(3..=12)).map(|_| field(random)).collect()
}

fn source(fields: &[Field]) -> String {
    let field = |(at, field): (usize, &Field)| {
        let length = field.length.map_or(String::new(), |length| format!("[{length}]"));
        format!("    {} f{at}{length};\n", field.kind)
    };
    let fields: String = fields.iter().enumerate().map(field).collect();
    format!(
        "struct object {{\n{fields}}};\nstruct object object __attribute__((aligned(64)));\n\
         int main(void) {{ return *(volatile char *)&object; }}\n"
    )
}

/// The program's accesses, with offsets from the beginning of the structure.
fn accesses(fields: &[Field], offsets: &[(u64, u64)], threads: usize) -> Vec<(Access, u64)> {
    let mut all = Vec::new();
    for (field, &(offset, stride)) in fields.iter().zip(offsets) {
        let mut push = |thread, offset, does, share: f64| {
            let access = Access { thread, line: 0, offset: 0, does, weight: field.weight * share };
            all.push((access, offset));
        };
        for thread in 0..threads {
            match field.of {
                Use::Private(of) if of != thread => {}
                Use::Private(_) => {
                    push(thread, offset, Does::Load, 0.5);
                    push(thread, offset, Does::Store, 0.5);
                }
                Use::Published(of) => {
                    push(thread, offset, if of == thread { Does::Store } else { Does::Load }, 0.5);
                }
                Use::Counter => push(thread, offset, Does::Add, 0.5),
                Use::ReadOnly => push(thread, offset, Does::Load, 0.5),
                Use::Slots => {
                    let own = offset + stride * thread as u64;
                    push(thread, own, Does::Load, 0.5);
                    push(thread, own, Does::Store, 0.5);
                }
                Use::Nothing => {}
            }
        }
    }
    all
}

/// The program with each access where `place` puts it.
fn program(like: &Program, all: &[(Access, u64)], place: impl Fn(u64) -> u64) -> Program {
    let at = |&(access, offset): &(Access, u64)| {
        let new = place(offset);
        Access { line: (new / 64) as usize, offset: new % 64, ..access }
    };
    let idle = (0..like.threads).map(|thread| Access {
        thread,
        line: IDLE + thread,
        offset: 0,
        does: Does::Load,
        weight: 0.5,
    });
    Program { accesses: all.iter().map(at).chain(idle).collect(), ..like.clone() }
}

/// Contended loads of words that no other thread writes.
fn false_loads(program: &Program, simulation: &Simulation) -> u64 {
    let accesses = &program.accesses;
    let is_false = |&load: &usize| {
        let of = accesses[load];
        let same = |one: &&Access| (one.line, one.offset) == (of.line, of.offset);
        let mut writers = accesses.iter().filter(same).filter(|one| one.does != Does::Load);
        !writers.any(|one| one.thread != of.thread && one.weight > 0.0)
    };
    let pairs = simulation.truth.iter().flat_map(|truth| &truth.pairs);
    pairs.filter(|((load, _), _)| is_false(load)).map(|(_, loads)| loads).sum()
}

/// Where an offset comes to be.
fn moved(object: &AdvisedObject, arrangement: &Arrangement, offset: u64) -> u64 {
    let of = |field: usize| &object.layout.fields[field];
    let has =
        |field: usize| (of(field).offset..of(field).offset + of(field).bytes).contains(&offset);
    let placed = arrangement.fields.iter().find(|placed| has(placed.field)).unwrap();
    let within = offset - of(placed.field).offset;
    match (placed.element_stride, &of(placed.field).array) {
        (Some(new), Some(array)) => {
            placed.offset + within / array.stride * new + within % array.stride
        }
        _ => placed.offset + within,
    }
}

/// The mappings of a program's data, where `object` is its first line.
fn memory(path: &Path, definitions: &Definitions) -> (Memory, Vec<(u64, u64)>) {
    let place = definitions.data(None, &"object".parse().unwrap()).unwrap();
    let layout = definitions.type_layout("object").unwrap();
    let offsets = layout
        .fields
        .iter()
        .map(|field| (field.offset, field.array.as_ref().map_or(0, |array| array.stride)))
        .collect();
    let part = definitions.segments().into_iter().find(|part| {
        !part.executable && (part.address..part.address + part.size).contains(&place.base)
    });
    let part = part.unwrap();
    let (start, end) = (part.address & !0xfff, (part.address + part.size).next_multiple_of(0x1000));
    let name = path.to_str().unwrap().to_owned();
    let mappings = vec![(start, end - start, part.offset & !0xfff, 99, name)];
    (Memory { pid: PID, first: place.base, mappings, code: None }, offsets)
}

/// What came of random programs.
#[derive(Debug, Default)]
struct Tally {
    programs: u64,
    /// Those with false sharing (200 loads or more), and those of them with advice that removes 98% of it.
    shared: u64,
    removed: u64,
    /// Programs with advice, and those that have no more contended loads due to false sharing than before, or due to
    /// neighbors at all.
    advised: u64,
    held: u64,
    /// Bounds of the gain, and those that hold what was gained, within 3 standard errors.
    bounds: u64,
    bounded: u64,
}

fn advice(found: &SharedLines) -> Vec<(&SharingAdvice, u64)> {
    found.lines.iter().flat_map(|line| &line.advice).map(|one| (&one.advice, one.cost)).collect()
}

impl Tally {
    fn add(&mut self, random: &mut fastrand::Rng, dir: &Path) -> Option<()> {
        let threads = random.usize(2..=5);
        let fields = random_fields(random, threads);
        let (code, path) = (dir.join("x.c"), dir.join(format!("x{}", self.programs)));
        std::fs::write(&code, source(&fields)).unwrap();
        match Command::new("cc").args(["-g", "-no-pie", "-o"]).arg(&path).arg(&code).output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => {
                eprintln!("skipped: no C compiler ({error})");
                return None;
            }
        }
        let definitions = Definitions::open(&Sources::default(), &path, None).unwrap();
        let (memory, offsets) = memory(&path, &definitions);
        let all = accesses(&fields, &offsets, threads);
        let like = Program {
            pmu: random_pmu(random),
            threads,
            cpus_per_node: random.usize(1..=threads),
            accesses: Vec::new(),
            steps: 100_000,
            period: random.u64(8..30),
            seed: random.u64(..),
            timed: true,
        };
        let before = program(&like, &all, |offset| offset);
        let simulation = before.run();
        let recording = dir.join("x.data");
        simulation.write_in(&before, &recording, &memory);
        let found = read_all(&recording);
        let was = false_loads(&before, &simulation);
        self.programs += 1;
        self.shared += u64::from(was >= 200);
        let arranged = advice(&found).into_iter().find_map(|(advice, cost)| match advice {
            SharingAdvice::Rearrange { object, arrangement } => {
                Some((object.clone(), Some(arrangement.clone()), 0, cost))
            }
            SharingAdvice::PadElements { object, stride } => {
                Some((object.clone(), None, *stride, cost))
            }
            _ => None,
        });
        let Some((object, arrangement, stride, cost)) = arranged else {
            if was >= 200 {
                eprintln!("no advice for {was} loads of {fields:?}");
            }
            return Some(());
        };
        // Of an array in the structure: its elements move apart, all else stays, from the next line on.
        let place = |offset: u64| match &arrangement {
            Some(arrangement) => moved(&object, arrangement, offset),
            None => {
                let name = object.path.trim_start_matches('.').trim_end_matches("[]");
                let at: usize = name[1..].parse().unwrap();
                let (start, old) = offsets[at];
                let end = start + old * threads as u64;
                match offset {
                    at if (start..end).contains(&at) => {
                        64 * 200 + (at - start) / old * stride + (at - start) % old
                    }
                    at => at,
                }
            }
        };
        let after = program(&like, &all, place);
        let new = after.run();
        let is = false_loads(&after, &new);
        let near = |one: &Simulation| one.truth.iter().map(|truth| truth.by_neighbors).sum::<u64>();
        self.advised += 1;
        let holds = is <= was && near(&new) <= near(&simulation);
        self.held += u64::from(holds);
        let removes = is as f64 <= 0.02 * was as f64;
        self.removed += u64::from(was >= 200 && removes);
        if !holds || !removes {
            eprintln!(
                "{was} to {is}, neighbors {} to {}: {fields:?} {arrangement:?}",
                near(&simulation),
                near(&new)
            );
        }
        if was >= 200 && found.memory.sums.cost > 0 {
            let bound = cost as f64 / found.memory.sums.cost as f64;
            let lost = (was - is.min(was)) as f64;
            let contended: u64 = simulation.truth.iter().map(|truth| truth.contended).sum();
            let samples = lost / contended as f64 * found.memory.sums.contended() as f64;
            let gained = lost / contended as f64;
            self.bounds += 1;
            let room = 1.0 - 3.0 / samples.max(1.0).sqrt();
            // The gain is known in loads, the bound in cycles: a load from the own node takes 40% of one from another.
            self.bounded += u64::from(bound >= gained * room * 0.4);
        }
        Some(())
    }
}

#[test]
fn advised_layouts_have_no_false_sharing_left() {
    let dir = tempfile::tempdir().unwrap();
    let (mut random, mut tally) = (fastrand::Rng::with_seed(11), Tally::default());
    for _ in 0..60 {
        if tally.add(&mut random, dir.path()).is_none() {
            return;
        }
    }
    eprintln!("{tally:?}");
    assert!(tally.shared >= 30, "{tally:?}");
    assert!(tally.removed * 100 >= tally.shared * 95, "{tally:?}");
    assert_eq!(tally.held, tally.advised, "{tally:?}");
    assert_eq!(tally.bounded, tally.bounds, "{tally:?}");
}
