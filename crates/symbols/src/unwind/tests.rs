//! Tables of real files, whole and damaged.

use std::path::Path;
use std::sync::Arc;

use object::read::{Object as _, ObjectSection as _};
use proptest::prelude::*;

use super::frames::{Frames, TableKind};
use super::table::ElfTable;
use super::*;
use crate::image::Image;
use crate::{Options, Sources};

fn arch() -> Option<Arch> {
    Arch::of_this_program()
}

fn table(image: Image) -> Option<ElfTable> {
    ElfTable::new(image, None, &Locator::new(&Sources::default()), arch()?)
}

/// Places of this program's code.
fn places(image: &Image, step: usize) -> Vec<u64> {
    let elf = image.elf().unwrap();
    let text = elf.section_by_name(".text").unwrap();
    let (start, size) = text.file_range().unwrap();
    (start..start + size).step_by(step).collect()
}

/// The linker's table and our own of the same section find the same.
#[test]
fn both_ways_to_an_entry_are_one() {
    let Some(arch) = arch() else { return eprintln!("skipped: no unwinding on this machine") };
    let image = Image::open(Path::new("/proc/self/exe")).unwrap();
    let (segments, places) = (image.segments(), places(&image, 997));
    let image = Arc::new(image);
    let frames = Frames::of(&image, TableKind::Exceptions, arch).unwrap();
    let own = Frames::of(&image, TableKind::Exceptions, arch).unwrap().with_own_index(arch);
    let mut scratch = UnwindScratch::default();
    let mut found = 0;
    for place in places {
        let address = segments.address(place).unwrap();
        let rule = frames.rule(address, arch, &mut scratch);
        assert_eq!(own.rule(address, arch, &mut scratch), rule, "{address:#x}");
        found += usize::from(matches!(rule, Some(Ok(_))));
    }
    assert!(found > 100, "{found}");
}

/// Nothing returns to what fills up to a function, unless the function's address was put on the stack.
#[test]
fn the_address_before_a_function_ends_a_stack_and_no_call_does() {
    if arch().is_none() {
        return eprintln!("skipped: no unwinding on this machine");
    }
    let image = Image::open(Path::new("/proc/self/exe")).unwrap();
    let starts = places(&image, 16);
    let table = table(image).unwrap();
    let mut scratch = UnwindScratch::default();
    let mut rule = |place: u64| table.rule(place, &mut scratch);
    let outermost = Rule::outermost();
    let (mut ends, mut others) = (0, 0);
    for start in starts.into_iter().skip(1).take(4000) {
        let before = rule(start - 1);
        ends += usize::from(before.as_ref() == Ok(&outermost));
        others += usize::from(before.is_ok_and(|rule| rule != outermost));
    }
    assert!(ends > 50 && others > 50, "{ends} {others}");
}

#[test]
fn what_has_no_tables_says_why() {
    let Some(arch) = arch() else { return eprintln!("skipped: no unwinding on this machine") };
    let symbolizer = Symbolizer::new(Options { inlined: false });
    let unwinder = symbolizer.unwinder();
    let mut scratch = UnwindScratch::default();
    let mut gap = |module: Module<'_>, same_kernel| {
        unwinder.table(&module, arch, same_kernel).rule(0x1000, &mut scratch).unwrap_err()
    };
    let file = |path| Module::file(Path::new(path), None);
    assert_eq!(gap(file("/no/such/file"), true), Gap::FileMissing);
    assert_eq!(gap(file("/etc/passwd"), true), Gap::NotElf);
    assert_eq!(gap(file("/etc"), true), Gap::Unreadable);
    assert_eq!(gap(Module::Vdso, false), Gap::OtherKernel);
    assert_eq!(gap(Module::Jit { pid: 1, origin: None }, true), Gap::Generated);
    let id = crate::BuildId::new(&[7; 20]).unwrap();
    let other = Module::file(Path::new("/proc/self/exe"), Some(&id));
    assert_eq!(gap(other, true), Gap::FileMissing);
    // Far behind the end of the file.
    let table = unwinder.table(&file("/proc/self/exe"), arch, true);
    assert_eq!(table.rule(u64::MAX - 3, &mut scratch), Err(Gap::NoInformation));
}

#[test]
fn the_vdso_is_at_hand() {
    let Some(arch) = arch() else { return eprintln!("skipped: no unwinding on this machine") };
    let image = match file::vdso() {
        Ok(image) => image,
        Err(why) => return eprintln!("skipped: no vdso: {why:?}"),
    };
    let symbolizer = Symbolizer::new(Options { inlined: false });
    let table = symbolizer.unwinder().table(&Module::Vdso, arch, true);
    let mut scratch = UnwindScratch::default();
    let rules = places(&image, 16).into_iter().filter(|&at| table.rule(at, &mut scratch).is_ok());
    assert!(rules.count() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// This program with bytes of its tables changed: any answer will do.
    #[test]
    fn damaged_tables_do_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..60),
        header in any::<bool>(),
    ) {
        let whole = Image::open(Path::new("/proc/self/exe")).unwrap();
        let places = places(&whole, 20011);
        let name = if header { ".eh_frame_hdr" } else { ".eh_frame" };
        let elf = whole.elf().unwrap();
        let (start, size) = elf.section_by_name(name).unwrap().file_range().unwrap();
        let mut bytes = whole.bytes().to_vec();
        // Near the front, where the header and the common entries are.
        let size = size.min(4096) as usize;
        for (at, value) in changes {
            bytes[start as usize + at.index(size)] = value;
        }
        if let Some(table) = table(Image::in_memory(Path::new("x"), bytes)) {
            let mut scratch = UnwindScratch::default();
            for place in places {
                let _ = table.rule(place, &mut scratch);
            }
        }
    }
}
