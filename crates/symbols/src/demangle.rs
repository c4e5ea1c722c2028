//! Names as programmers write them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::symbol::Names;

/// Longer names are not demangled: templates can blow them up without end.
const LONGEST: usize = 64 << 10;

/// Demangles, each name once.
#[derive(Debug, Default)]
pub(crate) struct Demangler {
    known: FxHashMap<Box<str>, Arc<str>>,
    names: Names,
}

impl Demangler {
    /// The readable form of `raw`; itself if it is not mangled.
    pub(crate) fn name(&mut self, raw: &[u8]) -> Arc<str> {
        let raw = String::from_utf8_lossy(raw);
        if !is_mangled(&raw) {
            return self.names.intern(&raw);
        }
        if let Some(name) = self.known.get(&*raw) {
            return Arc::clone(name);
        }
        let name = self.names.intern(demangle(&raw).as_deref().unwrap_or(&raw));
        self.known.insert(raw.into(), Arc::clone(&name));
        name
    }

    /// A path or another text that is no symbol.
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        self.names.intern(text)
    }
}

fn is_mangled(raw: &str) -> bool {
    // `_Z` is C++ and older Rust, `_R` is Rust.
    raw.len() <= LONGEST && (raw.starts_with("_Z") || raw.starts_with("_R"))
}

fn demangle(raw: &str) -> Option<String> {
    // Rust's older form is C++'s with a hash at its end, so Rust comes first. `#` leaves the hash out.
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        return Some(format!("{name:#}"));
    }
    let symbol = cpp_demangle::Symbol::new(raw).ok()?;
    // As perf(1) shows them: parameters and return types make names of templates unreadable.
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let mut name = symbol.demangle_with_options(&options).ok()?;
    // What link-time optimisation adds only keeps local names apart.
    if let Some(end) = name.find(" [clone .llvm]") {
        name.truncate(end);
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_language_are_readable_and_each_is_there_once() {
        let mut demangler = Demangler::default();
        let mut name = |raw: &str| demangler.name(raw.as_bytes());
        assert_eq!(&*name("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(&*name("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(
            &*name("_ZNKSt6vectorIiSaIiEE4sizeEv"),
            "std::vector<int, std::allocator<int> >::size"
        );
        assert_eq!(&*name("_Z3foov.llvm.123"), "foo");
        assert_eq!(&*name("main"), "main");
        assert_eq!(&*name("_Z"), "_Z");
        let (first, second) = (name("_Z3foov"), name("_Z3foov"));
        assert_eq!(&*first, "foo");
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(&*Demangler::default().name(b"a\xffb"), "a\u{fffd}b");
    }
}
