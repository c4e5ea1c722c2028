//! Names of the stacks that allocate, and which of their frames is the allocation site.

use std::sync::Arc;

use pmuscope_perfdata::reader::Metadata;
use pmuscope_symbols::{KernelIdentity, Symbol};
use rustc_hash::FxHashMap;

use crate::address_spaces::{AddressSpaces, ModuleOffset};
use crate::hits::Site;
use crate::names::naming::Resolve;
use crate::timeline::areas::lossy;

/// A call stack that allocates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationStack {
    /// The allocation site: the innermost frame that is not of an allocator or a standard library.
    pub site: Site,
    /// All frames, the innermost first.
    pub frames: Vec<Site>,
}

/// Functions that allocate for whoever calls them.
const ALLOCATORS: [&str; 24] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_memalign",
    "__libc_malloc_impl",
    "_mid_memalign",
    "strdup",
    "strndup",
    "__strdup",
    "__strndup",
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "g_malloc",
    "g_malloc0",
];

/// How names in standard libraries begin.
const LIBRARIES: [&str; 13] = [
    "std::",
    "core::",
    "alloc::",
    "hashbrown::",
    "__gnu_cxx::",
    "__rustc::",
    "__rust_",
    "__rdl_",
    "__rg_",
    "__rustc_",
    "_ZSt",
    "__cxxabiv1::",
    "operator new",
];

/// Files of standard libraries and allocators: how their names begin.
const FILES: [&str; 10] = [
    "libc.so",
    "libc-",
    "libc.musl",
    "ld-musl",
    "ld-linux",
    "libstdc++.so",
    "libc++.so",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
];

/// Names stacks, each frame once.
pub(crate) fn name_stacks(
    spaces: &AddressSpaces,
    stacks: &[Vec<ModuleOffset>],
    (metadata, running): (&Metadata, &KernelIdentity),
    resolve: &mut Resolve<'_>,
) -> Vec<AllocationStack> {
    let all = stacks.iter().flatten().copied();
    let symbols = spaces.symbols(all, metadata, running, resolve);
    stacks.iter().map(|frames| named(spaces, frames, &symbols)).collect()
}

fn named(
    spaces: &AddressSpaces,
    places: &[ModuleOffset],
    symbols: &FxHashMap<ModuleOffset, Symbol>,
) -> AllocationStack {
    let mut frames = Vec::new();
    for place in places {
        let module = lossy(spaces.module(place.module).path);
        push_frames(&mut frames, symbols.get(place), &module, place.address);
    }
    let own = frames.iter().find(|frame| !is_of_library(frame));
    let unknown = || Site::new(None, Arc::from(""), 0);
    let site = own.or(frames.last()).cloned().unwrap_or_else(unknown);
    AllocationStack { site, frames }
}

/// Functions that are inlined at a place, the innermost first, and the one that has the place.
fn push_frames(frames: &mut Vec<Site>, symbol: Option<&Symbol>, module: &Arc<str>, address: u64) {
    let Some(symbol) = symbol else {
        frames.push(Site::new(None, Arc::clone(module), address));
        return;
    };
    let function = |name: &Arc<str>, line, inlined_into| Site {
        function: Some(Arc::clone(name)),
        inlined_into,
        line,
        called_from: None,
        module: Arc::clone(module),
        address: None,
    };
    let inlined = symbol.inlined.iter().rev();
    frames
        .extend(inlined.map(|frame| {
            function(&frame.name, frame.line.clone(), Some(Arc::clone(&symbol.name)))
        }));
    frames.push(function(&symbol.name, symbol.line.clone(), None));
}

/// Whether a frame is of an allocator or of a standard library: not where the program decides to allocate.
fn is_of_library(frame: &Site) -> bool {
    let file = frame.module.rsplit('/').next().unwrap_or_default();
    if FILES.iter().any(|name| file.starts_with(name)) {
        return true;
    }
    frame.function.as_deref().is_some_and(is_library_function)
}

fn is_library_function(name: &str) -> bool {
    let is_of = |name: &str| LIBRARIES.iter().any(|library| name.starts_with(library));
    if let Some(inner) = name.strip_prefix('<') {
        // Rust: `<alloc::vec::Vec<T>>::push`, `<T as alloc::…::SpecFromElem>::from_elem`.
        let traits = ["as alloc::", "as core::alloc::", "as std::"];
        return is_of(inner) || traits.iter().any(|implemented| name.contains(implemented));
    }
    // C++: templates may have their type before the name, as in `void std::vector<int>::push_back`.
    let plain = name.split(['<', '(']).next().unwrap_or(name);
    let plain = if name.starts_with("operator new") { name } else { plain };
    let plain = if plain.ends_with(' ') || is_of(plain) {
        plain
    } else {
        plain.rsplit(' ').next().unwrap_or(plain)
    };
    ALLOCATORS.contains(&plain) || is_of(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_standard_libraries_are_no_sites() {
        for name in [
            "malloc",
            "operator new",
            "operator new[]",
            "operator new(unsigned long)",
            "std::vector<int, std::allocator<int> >::push_back",
            "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>",
            "__gnu_cxx::new_allocator<int>::allocate",
            "alloc::vec::Vec<T>::with_capacity",
            "<alloc::vec::Vec<T>>::push",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            "__rustc::__rust_alloc",
            "__rdl_alloc",
            "std::sys::alloc::unix::aligned_malloc",
        ] {
            assert!(is_library_function(name), "{name}");
        }
        for name in [
            "main",
            "my_malloc",
            "app::Queue::new",
            "<app::Queue as app::Store>::open",
            "void app::fill<std::vector<int> >",
            "stdx::make",
            "allocate_all",
        ] {
            assert!(!is_library_function(name), "{name}");
        }
    }

    #[test]
    fn a_library_is_known_by_its_file() {
        let of = |module: &str| {
            let site = Site::new(None, module.into(), 0x10);
            is_of_library(&site)
        };
        assert!(of("/usr/lib/x86_64-linux-gnu/libc.so.6") && of("/lib/ld-musl-x86_64.so.1"));
        assert!(!of("/opt/app/libcore.so") && !of("/opt/app/server"));
    }
}
