//! Shell patterns over names: `*`, `?`, `[a-z]`, `[!a-z]`.

/// Whether `text` has a character that makes it a pattern.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether the whole of `name` matches `pattern`. Time is the product of the lengths at worst.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where to go on if the current attempt fails: one character more for the last star.
    let mut retry = None;
    loop {
        let stepped = match pattern.get(p) {
            None if n == name.len() => return true,
            Some('*') => {
                retry = Some((p + 1, n + 1));
                p += 1;
                continue;
            }
            Some(_) => name.get(n).and_then(|&c| one(pattern.get(p..).unwrap_or(&[]), c)),
            None => None,
        };
        match (stepped, retry) {
            (Some(used), _) => (p, n) = (p + used, n + 1),
            (None, Some((at, from))) if from <= name.len() => {
                (p, n) = (at, from);
                retry = Some((at, from + 1));
            }
            (None, _) => return false,
        }
    }
}

/// How many characters of `pattern` match `c`, if they do. A bracket without its partner is itself.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['[', rest @ ..] => {
            let negated = rest.first() == Some(&'!');
            let skip = usize::from(negated);
            // A bracket right at the start is a member of the set.
            let Some(close) = rest.iter().skip(skip + 1).position(|&x| x == ']') else {
                return (c == '[').then_some(1);
            };
            let end = skip + 1 + close;
            let inside = in_set(rest.get(skip..end).unwrap_or(&[]), c);
            (inside != negated).then_some(end + 2)
        }
        [literal, ..] => (*literal == c).then_some(1),
        [] => None,
    }
}

fn in_set(set: &[char], c: char) -> bool {
    match set {
        [low, '-', high, rest @ ..] => (*low..=*high).contains(&c) || in_set(rest, c),
        [one, rest @ ..] => *one == c || in_set(rest, c),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("sched_*", "sched_switch", "xsched_switch"),
            ("*", "", "\0never"),
            ("*imc*", "uncore_imc_0", "uncore_cha_0"),
            ("a*b*c", "aXbXbc", "aXbXb"),
            ("sys_enter_[rw]*", "sys_enter_write", "sys_enter_open"),
            ("a[!0-9]", "ax", "a1"),
            ("a[]x]", "a]", "ay"),
            ("a[", "a[", "a"),
            ("??", "ab", "abc"),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes}");
            if pattern != "*" {
                assert!(!matches(pattern, no), "{pattern} {no}");
            }
        }
    }

    /// The definition, in exponential time.
    fn slow(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], _) => name.is_empty(),
            (['*', rest @ ..], _) => (0..=name.len()).any(|skip| slow(rest, &name[skip..])),
            (['?', rest @ ..], [_, tail @ ..]) => slow(rest, tail),
            ([a, rest @ ..], [b, tail @ ..]) => a == b && slow(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn as_defined(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            let p: Vec<char> = pattern.chars().collect();
            let n: Vec<char> = name.chars().collect();
            prop_assert_eq!(matches(&pattern, &name), slow(&p, &n));
        }

        #[test]
        fn never_panics(pattern in ".{0,20}", name in ".{0,20}") {
            matches(&pattern, &name);
        }
    }
}
