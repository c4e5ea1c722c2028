//! Names of C++20 that the library does not read: constraints, modules, and lambdas with template parameters.
//!
//! Each is rewritten to an older form, and the readable name is mended afterwards. The rewritten name has to number its types
//! and names as the original does, since `S_`, `S0_`, … (substitutions) refer to them by number:
//!
//! ```text
//!  I Tk N3app5SmallE i E          I J L_ZN3app14Small$concept$EE i E E       an argument pack with the concept's name
//!  I i Q <expression> E           I i X cl 10$requires$ <expression> E E E   an argument that is a call
//!  N4shop W4shop W4cart 4pick …   N4shop 22pick$at$shop$dot$cart …           and later references two less
//!  Ul Ty T_ E                     Ul T_ E
//! ```
//!
//! Source: Itanium C++ ABI, chapter 5 (external names), and names by GCC 16.

use std::borrow::Cow;

use cpp_demangle::{DemangleOptions, Symbol};

const CONCEPT: &str = "$concept$";
const REQUIRES: &str = "$requires$";
const AT: &str = "$at$";
const DOT: &str = "$dot$";
const COLON: &str = "$colon$";
/// Tries of where a constraint ends.
const MOST_TRIES: usize = 64;
/// Tokens that may be in a name: each is looked at several times, and lists are as deep in the program's stack as in the name.
const MOST_TOKENS: usize = 1024;

/// A part of a mangled name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'a> {
    /// `3foo`.
    Name(Cow<'a, str>),
    /// `S_` is 0, `S0_` is 1.
    Back(u32),
    /// Any other part: one character, or a code of several (`St`, `T0_`).
    Other(&'a str),
}

/// The readable form of a mangled name of C++20; `None` if it is none, or cannot be read.
pub(super) fn demangle(raw: &str, options: &DemangleOptions) -> Option<String> {
    if let Some(module) = raw.strip_prefix("_ZGI") {
        let tokens = tokens(module)?;
        let (name, rest) = module_name(&tokens)?;
        return rest.is_empty().then(|| format!("initializer for module {name}"));
    }
    let tokens = with_concepts_in_packs(&without_modules(tokens(raw)?)?)?;
    let (tokens, parameters) = without_lambda_parameters(&tokens)?;
    let mut tries = MOST_TRIES;
    let name = without_requirements(&tokens, options, &mut tries)?;
    let name = without_marks(&name)?;
    Some(with_lambda_parameters(&name, &parameters))
}

/// A literal operator as people write it; the library writes `operator_km::operator ""`.
pub(super) fn literal_operators(name: &str) -> Option<String> {
    const AS_WRITTEN: &str = "::operator \"\"";
    let at = name.find(AS_WRITTEN)?;
    let start = name[..at].rfind("operator")?;
    let suffix = &name[start + "operator".len()..at];
    let (before, after) = (&name[..start], &name[at + AS_WRITTEN.len()..]);
    Some(format!("{before}operator\"\" {suffix}{after}"))
}

/// The parts of a mangled name; `None` if it cannot be one.
fn tokens(raw: &str) -> Option<Vec<Token<'_>>> {
    let mut found: Vec<Token<'_>> = Vec::new();
    let mut rest = raw;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '1'..='9' if is_source_name(&found, rest) => {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                let length: usize = rest[..digits].parse().ok()?;
                let name = rest.get(digits..digits.checked_add(length)?)?;
                found.push(Token::Name(name.into()));
                rest = &rest[digits + length..];
                continue;
            }
            'S' | 'T' => prefix_of_reference(rest),
            _ => first.len_utf8(),
        };
        let (part, behind) = rest.split_at(length);
        found.push(back(part).map_or(Token::Other(part), Token::Back));
        rest = behind;
        if found.len() > MOST_TOKENS {
            return None;
        }
    }
    Some(found)
}

/// Whether digits begin a name. In literals (`Li12E`), bounds (`A10_`) and numbers of lambdas (`E1_`) they do not.
fn is_source_name(before: &[Token<'_>], rest: &str) -> bool {
    let next = rest.bytes().find(|byte| !byte.is_ascii_digit());
    let is_bound = matches!(before.last(), Some(Token::Other("A" | "E" | "_")));
    match next {
        Some(b'_') => !is_bound,
        Some(b'E') | None => false,
        Some(_) => true,
    }
}

/// Bytes of `S_`, `S1Z_`, `St`, `T_`, `T0_`, at the start of `rest`; 1 where it is something else.
fn prefix_of_reference(rest: &str) -> usize {
    let number = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    let digits = rest.bytes().skip(1).take_while(number).count();
    match rest.as_bytes() {
        bytes if bytes.get(1 + digits) == Some(&b'_') => 2 + digits,
        [b'S', b'a'..=b'z', ..] => 2,
        _ => 1,
    }
}

/// The number of `S_` and the like.
fn back(part: &str) -> Option<u32> {
    let number = part.strip_prefix('S')?.strip_suffix('_')?;
    match number {
        "" => Some(0),
        _ => u32::from_str_radix(number, 36).ok()?.checked_add(1),
    }
}

fn text(tokens: &[Token<'_>]) -> String {
    let mut out = String::new();
    for token in tokens {
        match token {
            Token::Name(name) => out.push_str(&format!("{}{name}", name.len())),
            Token::Back(0) => out.push_str("S_"),
            Token::Back(number) => out.push_str(&format!("S{}_", base36(number - 1))),
            Token::Other(other) => out.push_str(other),
        }
    }
    out
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0').to_ascii_uppercase());
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// Tokens that begin with these, of which each is a whole [`Token::Other`].
fn after<'t, 'a>(tokens: &'t [Token<'a>], front: &[&str]) -> Option<&'t [Token<'a>]> {
    let (head, rest) = tokens.split_at_checked(front.len())?;
    let is_it =
        |(token, text): (&Token<'_>, &&str)| matches!(token, Token::Other(other) if other == text);
    head.iter().zip(front).all(is_it).then_some(rest)
}

/// The name of a module, `W4shopWP4cart`, and what follows.
fn module_name<'t, 'a>(from: &'t [Token<'a>]) -> Option<(String, &'t [Token<'a>])> {
    let (mut name, mut rest) = (String::new(), from);
    while let Some(behind) = after(rest, &["W"]) {
        let (separator, behind) = match after(behind, &["P"]) {
            Some(behind) => (":", behind),
            None if name.is_empty() => ("", behind),
            None => (".", behind),
        };
        let [Token::Name(part), behind @ ..] = behind else { return None };
        name.push_str(separator);
        name.push_str(part);
        rest = behind;
    }
    (!name.is_empty()).then_some((name, rest))
}

/// Makes modules part of the names in them. Only of names that begin with namespaces and one module: of these is known what
/// later references count. `None` where it is not.
fn without_modules(tokens: Vec<Token<'_>>) -> Option<Vec<Token<'_>>> {
    let is_module = |token: &Token<'_>| *token == Token::Other("W");
    let Some(at) = tokens.iter().position(is_module) else { return Some(tokens) };
    let is_scope = |token: &Token<'_>| match token {
        Token::Name(_) => true,
        Token::Other(other) => ["_", "Z", "N", "K", "V", "R", "O"].contains(other),
        Token::Back(_) => false,
    };
    let scopes = tokens[..at].iter().filter(|token| matches!(token, Token::Name(_))).count();
    let (_, rest) = module_name(&tokens[at..])?;
    if !tokens[..at].iter().all(is_scope) || rest.iter().any(is_module) {
        return None;
    }
    // Each part of the module's name counts.
    let of_module = &tokens[at..tokens.len() - rest.len()];
    let ends = (1..=of_module.len()).filter(|&end| matches!(of_module[end - 1], Token::Name(_)));
    let modules: Vec<String> =
        ends.filter_map(|end| Some(module_name(&of_module[..end])?.0)).collect();
    let (first, parts) = (u32::try_from(scopes).ok()?, u32::try_from(modules.len()).ok()?);
    let mut out = tokens[..at].to_vec();
    let mut module = modules.last();
    for token in rest {
        match (token, module.take()) {
            (Token::Name(name), Some(module)) => {
                let module = module.replace('.', DOT).replace(':', COLON);
                out.push(Token::Name(format!("{name}{AT}{module}").into()));
            }
            (_, Some(_)) => return None,
            (&Token::Back(number), None) if number >= first + parts => {
                out.push(Token::Back(number - parts));
            }
            (&Token::Back(number), None) if number >= first => {
                module = modules.get((number - first) as usize);
            }
            (token, None) => out.push(token.clone()),
        }
    }
    Some(out)
}

/// Makes each constrained template argument a pack of the concept's name and the argument. `None` where an argument is not
/// understood.
fn with_concepts_in_packs<'a>(tokens: &[Token<'a>]) -> Option<Vec<Token<'a>>> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut rest = tokens;
    while let Some((first, behind)) = rest.split_first() {
        let is_lambda = matches!(&out[..], [.., Token::Other("l" | "y")]);
        let Some(concept) = after(rest, &["T", "k"]).filter(|_| !is_lambda) else {
            out.push(first.clone());
            rest = behind;
            continue;
        };
        let (name, argument) = concept.split_at(concept_length(concept)?);
        let (argument, behind) = argument.split_at_checked(argument_length(argument)?)?;
        out.extend(["J", "L", "_", "Z"].map(Token::Other));
        let last = name.iter().rposition(|token| matches!(token, Token::Name(_)))?;
        for (at, token) in name.iter().enumerate() {
            out.push(match token {
                Token::Name(name) if at == last => Token::Name(format!("{name}{CONCEPT}").into()),
                token => token.clone(),
            });
        }
        out.push(Token::Other("E"));
        out.extend_from_slice(argument);
        out.push(Token::Other("E"));
        rest = behind;
    }
    Some(out)
}

/// Tokens of a concept's name: `3Num`, `St8integral`, `N3app5SmallE`. With arguments of its own it counts differently.
fn concept_length(tokens: &[Token<'_>]) -> Option<usize> {
    let length = match tokens {
        [Token::Name(_), ..] => 1,
        [Token::Other("St"), Token::Name(_), ..] => 2,
        [Token::Other("N"), inner @ ..] => {
            let end = inner.iter().position(|token| *token == Token::Other("E"))?;
            let is_scope = |token: &Token<'_>| matches!(token, Token::Name(_) | Token::Other("St"));
            inner[..end].iter().all(is_scope).then_some(end + 2)?
        }
        _ => return None,
    };
    (tokens.get(length) != Some(&Token::Other("I"))).then_some(length)
}

/// Tokens of a template argument; `None` of expressions and local types.
fn argument_length(tokens: &[Token<'_>]) -> Option<usize> {
    match tokens.first()? {
        Token::Other("J") => list_length(tokens),
        Token::Other("L") => {
            let value = 1 + type_length(&tokens[1..])?;
            let end = tokens.get(value..)?.iter().position(|token| *token == Token::Other("E"))?;
            Some(value + end + 1)
        }
        Token::Other("X") => None,
        _ => type_length(tokens),
    }
}

/// Tokens of `I…E` or `J…E`.
fn list_length(tokens: &[Token<'_>]) -> Option<usize> {
    let mut at = 1;
    while *tokens.get(at)? != Token::Other("E") {
        at += argument_length(&tokens[at..])?;
    }
    Some(at + 1)
}

fn type_length(tokens: &[Token<'_>]) -> Option<usize> {
    let is_list = |at: usize| tokens.get(at) == Some(&Token::Other("I"));
    let with_list = |at: usize| match is_list(at) {
        true => Some(at + list_length(&tokens[at..])?),
        false => Some(at),
    };
    match tokens.first()? {
        Token::Other("P" | "R" | "O" | "K" | "V") => Some(1 + type_length(&tokens[1..])?),
        Token::Other("N") => {
            let mut at = 1;
            while *tokens.get(at)? != Token::Other("E") {
                at = if is_list(at) { with_list(at)? } else { at + 1 };
            }
            Some(at + 1)
        }
        Token::Other("St") => with_list(2),
        Token::Name(_) | Token::Back(_) => with_list(1),
        Token::Other(other) if other.len() > 1 => with_list(1),
        Token::Other(other) => other.bytes().all(|byte| byte.is_ascii_lowercase()).then_some(1),
    }
}

/// A template parameter of a lambda: its declaration (`typename $T0`), and whether it is a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LambdaParameter {
    text: String,
    is_pack: bool,
}

/// Takes the template parameters of lambdas away. They come back in the readable name where all lambdas have the same; else
/// the list is empty. `None` where they are not understood.
fn without_lambda_parameters<'a>(
    tokens: &[Token<'a>],
) -> Option<(Vec<Token<'a>>, Vec<LambdaParameter>)> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut lists: Vec<Vec<LambdaParameter>> = Vec::new();
    let mut rest = tokens;
    while let Some((first, behind)) = rest.split_first() {
        let Some(mut behind) = after(rest, &["U", "l"]) else {
            out.push(first.clone());
            rest = behind;
            continue;
        };
        out.extend(["U", "l"].map(Token::Other));
        let mut list = Vec::new();
        while matches!(behind, [Token::Other("T"), ..]) {
            let (parameter, length) = lambda_parameter(behind, list.len())?;
            list.push(parameter);
            behind = behind.get(length..)?;
        }
        lists.push(list);
        rest = behind;
    }
    let same = lists.windows(2).all(|pair| pair[0] == pair[1]);
    let list = lists.into_iter().next().filter(|_| same).unwrap_or_default();
    Some((out, list))
}

/// The parameter that tokens begin with, the `number`th, and how many tokens it has. Names are those of c++filt(1).
fn lambda_parameter(tokens: &[Token<'_>], number: usize) -> Option<(LambdaParameter, usize)> {
    let plain = |text, length| Some((LambdaParameter { text, is_pack: false }, length));
    match tokens {
        [Token::Other("T"), Token::Other("y"), ..] => plain(format!("typename $T{number}"), 2),
        [Token::Other("T"), Token::Other("n"), Token::Other(kind), ..] => {
            const TYPES: [(&str, &str); 11] = [
                ("b", "bool"),
                ("c", "char"),
                ("a", "signed char"),
                ("h", "unsigned char"),
                ("s", "short"),
                ("t", "unsigned short"),
                ("i", "int"),
                ("j", "unsigned int"),
                ("l", "long"),
                ("m", "unsigned long"),
                ("x", "long long"),
            ];
            let (_, name) = TYPES.iter().find(|(letter, _)| letter == kind)?;
            plain(format!("{name} $N{number}"), 3)
        }
        [Token::Other("T"), Token::Other("t"), inner @ ..] => {
            let end = inner.iter().position(|token| *token == Token::Other("E"))?;
            let is_plain = inner[..end].chunks(2).all(|pair| after(pair, &["T", "y"]).is_some());
            let list = vec!["typename"; end / 2].join(", ");
            is_plain.then_some(())?;
            plain(format!("template<{list}> class $TT{number}"), end + 3)
        }
        [Token::Other("T"), Token::Other("p"), inner @ ..] => {
            let (of, length) = lambda_parameter(inner, number)?;
            let text = of.text.replacen(" $", "... $", 1);
            Some((LambdaParameter { text, is_pack: true }, 2 + length))
        }
        [Token::Other("T"), Token::Other("k"), inner @ ..] => {
            let length = concept_length(inner)?;
            let counts = matches!(inner, [Token::Other("N"), ..]);
            (!counts).then_some(())?;
            plain(format!("typename $T{number}"), 2 + length)
        }
        _ => None,
    }
}

/// The readable name without its requires-clauses. One ends the name or a template's arguments; where, is tried.
fn without_requirements(
    tokens: &[Token<'_>],
    options: &DemangleOptions,
    tries: &mut usize,
) -> Option<String> {
    *tries = tries.checked_sub(1)?;
    let Some(at) = tokens.iter().rposition(|token| *token == Token::Other("Q")) else {
        return Symbol::new(text(tokens)).ok()?.demangle_with_options(options).ok();
    };
    let (before, clause) = (&tokens[..at], &tokens[at + 1..]);
    // Behind a function there is nothing else, so nothing that refers to it.
    if let Some(name) = without_requirements(before, options, tries) {
        return Some(name);
    }
    let ends = (1..clause.len()).filter(|&end| clause[end] == Token::Other("E"));
    for end in ends {
        let (expression, behind) = clause.split_at(end);
        let call = ["X", "c", "l"].map(Token::Other).into_iter();
        let call = call.chain([Token::Name(REQUIRES.into())]).chain(expression.iter().cloned());
        let call = call.chain(["E", "E"].map(Token::Other));
        let as_argument: Vec<_> =
            before.iter().cloned().chain(call).chain(behind.iter().cloned()).collect();
        if let Some(name) = without_requirements(&as_argument, options, tries) {
            return Some(name);
        }
        // Of a function with something local to it: it is left out, if nothing refers to its parts.
        let is_referred_to = behind.iter().any(|token| matches!(token, Token::Back(_)));
        let left: Vec<_> = before.iter().chain(&behind[1..]).cloned().collect();
        if !is_referred_to && let Some(name) = without_requirements(&left, options, tries) {
            return Some(name);
        }
    }
    None
}

/// A readable name without the marks of the rewriting. `None` if one is at an unexpected place.
fn without_marks(name: &str) -> Option<String> {
    let mut name = name.replace(AT, "@").replace(DOT, ".").replace(COLON, ":");
    while let Some(at) = name.find(CONCEPT) {
        // `<app::Small$concept$, int>` and `(app::Small$concept$, int)`.
        let start = name[..at].rfind(['<', '(', ' ']).map_or(0, |before| before + 1);
        let end = at + CONCEPT.len();
        let end = end + name[end..].strip_prefix(", ").map(|_| 2)?;
        name.replace_range(start..end, "");
    }
    while let Some(at) = name.find(REQUIRES) {
        // `, ($requires$)(Num<int>)>`.
        let start = name[..at].rfind(", ")?;
        let call = at + name[at..].find('(')?;
        let mut depth = 0_usize;
        let close = name[call..].bytes().position(|byte| {
            depth = match byte {
                b'(' => depth + 1,
                b')' => depth.saturating_sub(1),
                _ => depth,
            };
            depth == 0
        })?;
        name.replace_range(start..=call + close, "");
    }
    (!name.contains('$') || name.contains("::$_")).then_some(name)
}

/// Puts the template parameters of lambdas into a readable name: `{lambda(auto:1)#1}` is
/// `{lambda<typename $T0>($T0)#1}`.
fn with_lambda_parameters(name: &str, parameters: &[LambdaParameter]) -> String {
    const LAMBDA: &str = "{lambda(";
    if parameters.is_empty() {
        return name.to_owned();
    }
    let list = parameters.iter().map(|one| &*one.text).collect::<Vec<_>>().join(", ");
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(LAMBDA) {
        let (before, lambda) = rest.split_at(at);
        out.push_str(before);
        let end = lambda.find(")#").unwrap_or(lambda.len());
        let mut inner = lambda[LAMBDA.len()..end].to_owned();
        for (at, parameter) in parameters.iter().enumerate().rev() {
            let short = parameter.text.split('$').next_back().unwrap_or_default();
            let pack = format!("auto:{}...", at + 1);
            if parameter.is_pack {
                inner = inner.replace(&pack, &format!("(${short})..."));
            }
            inner = inner.replace(&format!("auto:{}", at + 1), &format!("${short}"));
        }
        out.push_str(&format!("{{lambda<{list}>({inner}"));
        rest = &lambda[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn without_parameters(raw: &str) -> Option<String> {
        demangle(raw, &DemangleOptions::new().no_params().no_return_type())
    }

    fn with_parameters(raw: &str) -> Option<String> {
        demangle(raw, &DemangleOptions::new().no_return_type())
    }

    /// Names by GCC 16, without and with parameters. As c++filt 2.47 reads them where it does: it reads no constrained
    /// arguments (`Tk`), and some requires-clauses only with parameters.
    const NAMES: [(&str, &str, &str); 15] = [
        ("_Z4tailIiET_S0_Q3NumIS0_E", "tail<int>", "tail<int>(int)"),
        ("_Z5twiceIiQ3NumIT_EES0_S0_", "twice<int>", "twice<int>(int)"),
        (
            "_Z2f5IiiQaa8integralIT_E5SmallIT0_EES0_S0_S1_St6vectorIS1_SaIS1_EE",
            "f5<int, int>",
            "f5<int, int>(int, int, std::vector<int, std::allocator<int> >)",
        ),
        ("_ZNK3BoxIiE3getEvQ3NumIT_E", "Box<int>::get", "Box<int>::get() const"),
        (
            "_ZZN1SIiE1kEvQ5SmallIT_EENKUliE_clEi",
            "S<int>::k()::{lambda(int)#1}::operator() const",
            "S<int>::k()::{lambda(int)#1}::operator()(int) const",
        ),
        ("_Z6thriceITk3NumiET_S0_", "thrice<int>", "thrice<int>(int)"),
        ("_Z2f1ITkSt8integraliET_S0_", "f1<int>", "f1<int>(int)"),
        ("_Z2f2ITkN3app5SmallEiET_S1_S1_", "f2<int>", "f2<int>(int, int)"),
        (
            "_Z2f4ITkNSt6ranges5rangeESt6vectorIiSaIiEEEiRKT_S6_",
            "f4<std::vector<int, std::allocator<int> > >",
            "f4<std::vector<int, std::allocator<int> > >(std::vector<int, std::allocator<int> > const&, \
             std::vector<int, std::allocator<int> > const&)",
        ),
        ("_Z2f6ITkSt8integraliTkN3app5SmallEiEiT_T0_", "f6<int, int>", "f6<int, int>(int, int)"),
        ("_ZW4shopW4cart6globali", "global@shop.cart", "global@shop.cart(int)"),
        (
            "_ZN4shopW4shopW4cart4pickIiEET_S3_RKNS_S1_4ItemE",
            "shop::pick@shop.cart<int>",
            "shop::pick@shop.cart<int>(int, shop::Item@shop.cart const&)",
        ),
        (
            "_ZN4shopW4shopW4cart5totalERKNS_S1_4ItemES4_",
            "shop::total@shop.cart",
            "shop::total@shop.cart(shop::Item@shop.cart const&, shop::Item@shop.cart const&)",
        ),
        (
            "_ZZ5outeriENKUlTyT_E_clIiEEDaS_",
            "outer(int)::{lambda<typename $T0>($T0)#1}::operator()<int> const",
            "outer(int)::{lambda<typename $T0>($T0)#1}::operator()<int>(int) const",
        ),
        (
            "_ZZ5outeriENKUlTtTyETpTyRKT_IiEDpT0_E_clI3BoxJiiEEEDaS2_S4_",
            "outer(int)::{lambda<template<typename> class $TT0, typename... $T1>\
             ($TT0<int> const&, ($T1)...)#1}::operator()<Box, int, int> const",
            "outer(int)::{lambda<template<typename> class $TT0, typename... $T1>\
             ($TT0<int> const&, ($T1)...)#1}::operator()<Box, int, int>(Box<int> const&, int, int) const",
        ),
    ];

    #[test]
    fn names_of_cxx20_are_readable() {
        for (raw, plain, full) in NAMES {
            assert_eq!(without_parameters(raw).as_deref(), Some(plain), "{raw}");
            assert_eq!(with_parameters(raw).as_deref(), Some(full), "{raw}");
        }
        let module = without_parameters("_ZGIW4shopWP4cart");
        assert_eq!(module.as_deref(), Some("initializer for module shop:cart"));
    }

    #[test]
    fn names_that_were_cut_off_are_left_as_they_are() {
        for (raw, ..) in NAMES {
            for cut in 2..raw.len() {
                // What begins a type, and does not end it.
                for end in ["", "St", "TkSt", "Tk1ASt", "E"] {
                    with_parameters(&format!("{}{end}", &raw[..cut]));
                }
            }
        }
        assert_eq!(with_parameters("_Z1fITk1ASt"), None);
        assert_eq!(with_parameters("_Z1fITk1ALSt"), None);
    }

    #[test]
    fn deep_names_do_not_fill_the_stack() {
        let deep = |part: &str| format!("_Z1fITk1A{}", part.repeat(500));
        let all = move || ["aI", "P", "aJ", "Q", "UlTp"].map(|part| with_parameters(&deep(part)));
        let small = std::thread::Builder::new().stack_size(1 << 20).spawn(all).unwrap();
        assert_eq!(small.join().unwrap(), [const { None }; 5]);
        assert_eq!(with_parameters(&format!("_Z1fIUl{}", "Tp".repeat(400))), None);
    }

    #[test]
    fn what_would_count_differently_is_left_as_it_is() {
        // A concept with arguments, a module behind a template, two modules.
        assert_eq!(with_parameters("_Z2f3ITkN3app4PairEIiEiET_S1_St6vectorIS1_SaIS1_EES4_"), None);
        assert_eq!(with_parameters("_ZN1AIiEW1M1fEv"), None);
        assert_eq!(with_parameters("_ZW1M1fNW1N1AE"), None);
    }

    #[test]
    fn literal_operators_are_as_people_write_them() {
        let options = DemangleOptions::new();
        let of = |raw: &str| Symbol::new(raw).unwrap().demangle_with_options(&options).unwrap();
        let mended = |raw: &str| literal_operators(&of(raw));
        assert_eq!(mended("_Zli3_kme").as_deref(), Some("operator\"\" _km(long double)"));
        let in_scope = mended("_ZN4unitli2_sEPKcm");
        assert_eq!(in_scope.as_deref(), Some("unit::operator\"\" _s(char const*, unsigned long)"));
        assert_eq!(mended("_ZN1ApsEv"), None);
    }

    proptest! {
        #[test]
        fn no_name_can_harm(
            raw in "_Z[NIESTQWUJLXklynptcz0-9_ac]{0,40}",
            at in 0..NAMES.len(),
            cut in 0_usize..60,
        ) {
            without_parameters(&raw);
            let name = NAMES[at].0;
            let cut = cut.min(name.len());
            with_parameters(&name[..cut]);
            with_parameters(&format!("{}{}", &name[..cut], &raw[2..]));
        }

        #[test]
        fn numbers_of_references_come_back(number in 0_u32..100_000) {
            let one = text(&[Token::Back(number)]);
            prop_assert_eq!(tokens(&one).unwrap(), [Token::Back(number)]);
        }
    }
}
