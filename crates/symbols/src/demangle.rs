//! Names as programmers write them.

use std::sync::Arc;

use cpp_demangle::DemangleOptions;
use rustc_hash::FxHashMap;

use crate::runtimes;
use crate::symbol::InternedNames;

mod cxx20;

/// Longer names are not demangled: templates can blow them up without end.
const LONGEST: usize = 64 << 10;
/// More names of one function are not compared: linkers fold thousands of equal functions into one.
const MOST_ALIASES: usize = 4096;

/// Demangles, each name once.
#[derive(Debug, Default)]
pub(crate) struct Demangler {
    known: FxHashMap<Box<str>, FunctionName>,
    names: InternedNames,
}

/// A function's readable name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionName {
    pub(crate) name: Arc<str>,
    /// With its parameters, if the raw name has them.
    pub(crate) signature: Option<Arc<str>>,
}

impl Demangler {
    /// The readable form of `raw`; itself if it is not mangled.
    pub(crate) fn name(&mut self, raw: &[u8]) -> Arc<str> {
        self.function(raw).name
    }

    /// The readable form of a function's name, without parameters and with them.
    pub(crate) fn function(&mut self, raw: &[u8]) -> FunctionName {
        let raw = String::from_utf8_lossy(raw);
        if !is_mangled(&raw) {
            let name = readable(&raw).map_or(raw, Into::into);
            return FunctionName { name: self.names.intern(&name), signature: None };
        }
        if let Some(known) = self.known.get(&*raw) {
            return known.clone();
        }
        let name = self.names.intern(readable(&raw).as_deref().unwrap_or(&raw));
        let signature = with_parameters(&raw).map(|text| self.names.intern(&text));
        let found = FunctionName { name, signature };
        self.known.insert(raw.into(), found.clone());
        found
    }

    /// Of several names of one function that which perf(1) shows, by how they read: the fewest
    /// underscores in front, then the longest, then the first.
    pub(crate) fn best(&mut self, raw: &[&[u8]]) -> FunctionName {
        if let [raw] = raw {
            return self.function(raw);
        }
        let mut best: Option<(std::cmp::Reverse<usize>, usize, &[u8])> = None;
        for bytes in raw.iter().take(MOST_ALIASES) {
            let raw = String::from_utf8_lossy(bytes);
            let name = readable(&raw).unwrap_or_else(|| raw.into_owned());
            let underscores = name.bytes().take_while(|&byte| byte == b'_').count();
            let rank = (std::cmp::Reverse(underscores), name.len());
            if best.as_ref().is_none_or(|(few, length, _)| rank > (*few, *length)) {
                best = Some((rank.0, rank.1, bytes));
            }
        }
        self.function(best.map_or(&[], |(_, _, raw)| raw))
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
        return runtimes::readable(raw).filter(|_| raw.len() <= LONGEST);
    }
    // Rust's older form is C++'s with a hash at its end, so Rust comes first. `#` leaves the hash out.
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        return Some(format!("{name:#}"));
    }
    // As perf(1) shows them: parameters and return types make names of templates unreadable.
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut name = cplusplus(raw, &options)?;
    // What link-time optimisation adds only keeps local names apart.
    if let Some(end) = name.find(" [clone .llvm]") {
        name.truncate(end);
    }
    Some(as_binutils(&name))
}

/// The name with its parameters, as c++filt(1) shows it; `None` if it has none.
fn with_parameters(raw: &str) -> Option<String> {
    if !is_mangled(raw) || rustc_demangle::try_demangle(raw).is_ok() {
        return None;
    }
    let mut name = cplusplus(raw, &DemangleOptions::new().no_return_type())?;
    if let Some(end) = name.find(" [clone .llvm]") {
        name.truncate(end);
    }
    // The names of tables and the like have none.
    (name.contains('(') && !name.starts_with('{')).then(|| with_suffixes(&name.replace(", >", ">")))
}

fn cplusplus(raw: &str, options: &DemangleOptions) -> Option<String> {
    if let Ok(symbol) = cpp_demangle::Symbol::new(raw) {
        let name = symbol.demangle_with_options(options).ok()?;
        return Some(cxx20::literal_operators(&name).unwrap_or(name));
    }
    if let Some(name) = cxx20::demangle(raw, options) {
        return Some(name);
    }
    let (rewritten, scoped) = scopes_as_casts(raw)?;
    let symbol = cpp_demangle::Symbol::new(rewritten).ok()?;
    let name = symbol.demangle_with_options(options).ok()?;
    Some(if scoped { casts_as_scopes(&name) } else { name })
}

/// What GCC's older ABI writes for `Type<T>::member` in an expression, `sr TYPE NAME`, as
/// `static_cast<Type<T>>(member)`, `sc TYPE NAME`: the library knows only the newer form, in which a type
/// counts differently among those that are referred to later. `None` if there is none; true if no other
/// cast is in the name.
fn scopes_as_casts(raw: &str) -> Option<(String, bool)> {
    let mut out = raw.as_bytes().to_vec();
    let (mut at, mut changed, mut other) = (2, false, false);
    while at < out.len() {
        match (out[at], out.get(at + 1), out.get(at + 2)) {
            // `3foo`: three characters of a name. Numbers in literals are followed by E.
            (b'1'..=b'9', ..) => {
                let digits = out[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let length: usize = raw[at..at + digits].parse().ok()?;
                let is_name = out.get(at + digits).is_some_and(|&byte| {
                    byte == b'_' || byte >= 0x80 || (byte.is_ascii_alphabetic() && byte != b'E')
                });
                let in_reference = matches!(out[at - 1], b'S' | b'T' | b'_');
                at += digits + if is_name && !in_reference { length } else { 0 };
            }
            (b's', Some(b'r'), Some(b'N' | b'S' | b'0'..=b'9')) => {
                out[at + 1] = b'c';
                changed = true;
                at += 2;
            }
            (b's', Some(b'c'), _) => {
                other = true;
                at += 2;
            }
            _ => at += 1,
        }
    }
    changed.then(|| String::from_utf8(out).ok().map(|out| (out, !other)))?
}

/// `static_cast<Type>(member)` to `Type::member`.
fn casts_as_scopes(name: &str) -> String {
    const CAST: &str = "static_cast<";
    let (mut out, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(at) = rest.find(CAST) {
        out.push_str(&rest[..at]);
        let after = &rest[at + CAST.len()..];
        let Some((kind, member, next)) = cast_parts(after) else {
            out.push_str(CAST);
            rest = after;
            continue;
        };
        out.push_str(&casts_as_scopes(kind));
        out.push_str("::");
        out.push_str(member);
        rest = next;
    }
    out.push_str(rest);
    out
}

/// `Type>(member) …`: the type, the member, and what follows.
fn cast_parts(text: &str) -> Option<(&str, &str, &str)> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if depth == 0 => {
                let inner = text[at + 1..].strip_prefix('(')?;
                let end = inner.find(')')?;
                return Some((text[..at].trim_end(), &inner[..end], &inner[end + 1..]));
            }
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
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
    with_suffixes(&name)
}

/// A name with suffixes at its literals.
fn with_suffixes(name: &str) -> String {
    if !name.contains("long)") && !name.contains("int)") {
        return name.to_owned();
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
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
        assert_eq!(&*name("LW;alpha(J)J"), "W.alpha(long)");
        assert_eq!(&*name("camlW.$2b$25$2b_298"), "W.+%+_298");
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
    fn scopes_in_expressions_of_old_compilers_are_read() {
        let both = |raw: &str| (readable(raw).unwrap(), with_parameters(raw).unwrap());
        let (name, signature) = both(
            "_ZSt10__fill_n_aIPimiEN9__gnu_cxx11__enable_ifIXsrSt11__is_scalarIT1_E7__valueET_E6__typeET_T0_RKT1_",
        );
        assert_eq!(name, "std::__fill_n_a<int*, unsigned long, int>");
        assert_eq!(signature, format!("{name}(int*, unsigned long, int const&)"));
        let (name, signature) = both(
            "_Z10multiple_pILj1ElilEN10if_nonpolyIT1_bXsr15poly_int_traitsIS1_E7is_polyEE4typeE\
                  RK12poly_int_podIXT_ET0_ES1_PS6_IXT_ET2_E",
        );
        assert_eq!(name, "multiple_p<1u, long, int, long>");
        assert!(
            signature.starts_with("multiple_p<1u, long, int, long>(poly_int_pod<"),
            "{signature}"
        );
        // In a parameter it shows.
        let (_, signature) = both("_Z1fIiEvP1AIXsrSt3isaIT_E5valueEE");
        assert!(signature.contains("std::isa<int>::value"), "{signature}");
        assert_eq!(readable("_Z2srv"), Some("sr".into()));
        assert_eq!(readable("_Zsr"), None);
    }

    #[test]
    fn signatures_have_parameters_where_there_are_any() {
        let signature = |raw: &str| with_parameters(raw);
        assert_eq!(signature("_Z3fooil").as_deref(), Some("foo(int, long)"));
        let size = "std::vector<int, std::allocator<int> >::size() const";
        assert_eq!(signature("_ZNKSt6vectorIiSaIiEE4sizeEv").as_deref(), Some(size));
        assert_eq!(signature("_ZN1AILj2EE1fEv").as_deref(), Some("A<2u>::f()"));
        assert_eq!(signature("_ZN4core3fmt5write17h0123456789abcdefE"), None);
        assert_eq!((signature("main"), signature("_ZTV1A")), (None, None));
    }

    #[test]
    fn of_several_names_the_one_perf_shows_is_taken() {
        let mut demangler = Demangler::default();
        let mut best = |raw: &[&str]| {
            let raw: Vec<&[u8]> = raw.iter().map(|name| name.as_bytes()).collect();
            demangler.best(&raw).name.to_string()
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
