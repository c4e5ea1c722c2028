//! Names as programmers write them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::symbol::Names;

/// Longer names are not demangled: templates can blow them up without end.
const LONGEST: usize = 64 << 10;
/// More names of one function are not compared: linkers fold thousands of equal functions into one.
const MOST_ALIASES: usize = 4096;

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
        let name = self.names.intern(readable(&raw).as_deref().unwrap_or(&raw));
        self.known.insert(raw.into(), Arc::clone(&name));
        name
    }

    /// Of several names of one function that which perf(1) shows, by how they read: the fewest
    /// underscores in front, then the longest, then the first.
    pub(crate) fn best(&mut self, raw: &[&[u8]]) -> Arc<str> {
        if let [raw] = raw {
            return self.name(raw);
        }
        let mut best: Option<(std::cmp::Reverse<usize>, usize, String)> = None;
        for raw in raw.iter().take(MOST_ALIASES) {
            let raw = String::from_utf8_lossy(raw);
            let name = readable(&raw).unwrap_or_else(|| raw.into_owned());
            let underscores = name.bytes().take_while(|&byte| byte == b'_').count();
            let rank = (std::cmp::Reverse(underscores), name.len());
            if best.as_ref().is_none_or(|(few, length, _)| rank > (*few, *length)) {
                best = Some((rank.0, rank.1, name));
            }
        }
        self.names.intern(best.as_ref().map_or("", |(_, _, name)| name))
    }

    /// A path or another text that is no symbol.
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        self.names.intern(text)
    }
}

/// The readable form of a symbol's raw name; the name itself if it is not mangled.
#[must_use]
pub fn demangle(raw: &str) -> Arc<str> {
    readable(raw).map_or_else(|| raw.into(), Into::into)
}

fn is_mangled(raw: &str) -> bool {
    // `_Z` is C++ and older Rust, `_R` is Rust.
    raw.len() <= LONGEST && (raw.starts_with("_Z") || raw.starts_with("_R"))
}

/// `None` if it is not mangled.
fn readable(raw: &str) -> Option<String> {
    if !is_mangled(raw) {
        return None;
    }
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
    Some(as_binutils(&name))
}

/// Types of literals with the suffix that says the same.
const SUFFIXES: [(&str, &str); 5] = [
    ("(unsigned int)", "u"),
    ("(unsigned long)", "ul"),
    ("(unsigned long long)", "ull"),
    ("(long)", "l"),
    ("(long long)", "ll"),
];

/// A name as the library of binutils writes it, which is what perf(1), gdb and nm(1) show: literals with
/// suffixes, nothing for an empty list of parameters, and methods of local classes without `const` as
/// all others.
fn as_binutils(name: &str) -> String {
    let mut name = name.replace(", >", ">");
    // The target type of a conversion may end so; that is part of its name.
    if name.ends_with(" const") && !name.contains("operator ") {
        name.truncate(name.len() - " const".len());
    }
    if !name.contains("long)") && !name.contains("int)") {
        return name;
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = &*name;
    while let Some(at) = rest.find('(') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        rest = match literal(from) {
            Some((value, suffix, rest)) => {
                out.push_str(value);
                out.push_str(suffix);
                rest
            }
            None => {
                out.push('(');
                &from[1..]
            }
        };
    }
    out.push_str(rest);
    out
}

/// `(unsigned int)2, …`: the value, its suffix, and what follows.
fn literal(text: &str) -> Option<(&str, &'static str, &str)> {
    let (kind, suffix) = SUFFIXES.iter().find(|(kind, _)| text.starts_with(kind))?;
    let value = &text[kind.len()..];
    let digits = value.strip_prefix('-').unwrap_or(value);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (value, rest) = value.split_at(value.len() - digits.len() + end);
    (end > 0).then_some((value, suffix, rest))
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
    fn names_of_cplusplus_read_as_in_binutils() {
        let name = |raw: &str| readable(raw).unwrap();
        // c++filt -p
        assert_eq!(name("_ZN1AILj2ELm4096ELl5ELi7ELb1EE1fEv"), "A<2u, 4096ul, 5l, 7, true>::f");
        assert_eq!(name("_ZN1AILln5ELy1ELx2EE1fEv"), "A<-5l, 1ull, 2ll>::f");
        assert_eq!(name("_ZN1AI1BJEE1fEv"), "A<B>::f");
        assert_eq!(name("_ZN1AI1BIiJEEJEE1fEv"), "A<B<int>>::f");
        assert_eq!(name("_ZZN1A1fEvENK3$_0clEv"), "A::f()::$_0::operator()");
        assert_eq!(name("_ZN1AcvKiEv"), "A::operator int const");
        assert_eq!(name("_ZN1AIFvjEE1fEv"), "A<void (unsigned int)>::f");
    }

    #[test]
    fn of_several_names_the_one_perf_shows_is_taken() {
        let mut demangler = Demangler::default();
        let mut best = |raw: &[&str]| {
            let raw: Vec<&[u8]> = raw.iter().map(|name| name.as_bytes()).collect();
            demangler.best(&raw).to_string()
        };
        assert_eq!(best(&["__libc_malloc", "malloc"]), "malloc");
        assert_eq!(best(&["open", "open64"]), "open64");
        assert_eq!(best(&["one", "two"]), "one");
        // By how they read, not by how they are written.
        assert_eq!(best(&["_ZN1a1b1c1dE", "a_longer_one"]), "a_longer_one");
        assert_eq!(best(&["_ZN4long4name1fEv", "_name"]), "long::name::f");
        assert_eq!(best(&[]), "");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(&*Demangler::default().name(b"a\xffb"), "a\u{fffd}b");
    }
}
