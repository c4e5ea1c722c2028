//! Names that compilers and runtimes of Java and OCaml write.
//!
//! Sources: The Java Virtual Machine Specification, section 4.3 (descriptors), and OCaml's `asmcomp/compilenv.ml` and
//! `emitaux.ml`: `caml`, the module, `__` or a dot for a dot, and `$xx` for a byte that assemblers do not take.

/// The readable form of such a name; `None` of any other.
///
/// ```text
///  Ljava/lang/String;indexOf(II)I    java.lang.String.indexOf(int, int)
///  camlStdlib__List__map_198         Stdlib.List.map_198
/// ```
pub(crate) fn readable(raw: &str) -> Option<String> {
    java(raw).or_else(|| ocaml(raw))
}

/// A method: its class, name, and descriptor. What it returns does not distinguish methods.
fn java(raw: &str) -> Option<String> {
    let (class, rest) = raw.strip_prefix('L')?.split_once(';')?;
    let (method, rest) = rest.split_once('(')?;
    let (mut parameters, returned) = rest.split_once(')')?;
    if class.is_empty() || method.is_empty() {
        return None;
    }
    let mut names = Vec::new();
    while !parameters.is_empty() {
        names.push(java_type(&mut parameters)?);
    }
    let mut returned = returned;
    let is_whole = returned == "V" || java_type(&mut returned).is_some() && returned.is_empty();
    is_whole.then(|| format!("{}.{method}({})", class.replace('/', "."), names.join(", ")))
}

/// Takes a type off the front.
fn java_type(text: &mut &str) -> Option<String> {
    let element = text.trim_start_matches('[');
    let dimensions = text.len() - element.len();
    let mut all = element.chars();
    let simple = match all.next()? {
        'B' => "byte",
        'C' => "char",
        'D' => "double",
        'F' => "float",
        'I' => "int",
        'J' => "long",
        'S' => "short",
        'Z' => "boolean",
        'L' => {
            let (class, rest) = all.as_str().split_once(';')?;
            *text = rest;
            return Some(class.replace('/', ".") + &"[]".repeat(dimensions));
        }
        _ => return None,
    };
    *text = all.as_str();
    Some(simple.to_owned() + &"[]".repeat(dimensions))
}

fn ocaml(raw: &str) -> Option<String> {
    let mut rest = raw.strip_prefix("caml")?;
    if !rest.starts_with(|first: char| first.is_ascii_uppercase()) {
        return None;
    }
    let mut out = Vec::with_capacity(rest.len());
    while let Some(first) = rest.chars().next() {
        let escaped = rest.strip_prefix('$').and_then(|rest| rest.get(..2));
        let escaped = escaped.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let taken = if let Some(byte) = byte {
            out.push(byte);
            3
        } else if rest.starts_with("__") {
            out.push(b'.');
            2
        } else {
            out.extend(first.encode_utf8(&mut [0; 4]).as_bytes());
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn methods_of_java_have_classes_and_types_of_parameters() {
        let name = |raw: &str| readable(raw).unwrap();
        assert_eq!(name("LW;alpha(J)J"), "W.alpha(long)");
        assert_eq!(name("Ljava/lang/String;hashCode()I"), "java.lang.String.hashCode()");
        assert_eq!(
            name("Ljava/util/Arrays;equals([[BLjava/lang/Object;[La/B;ZCDFIS)V"),
            "java.util.Arrays.equals(byte[][], java.lang.Object, a.B[], boolean, char, double, float, int, short)"
        );
        assert_eq!(name("La;<init>()V"), "a.<init>()");
    }

    #[test]
    fn functions_of_ocaml_have_modules_and_operators() {
        let name = |raw: &str| readable(raw).unwrap();
        assert_eq!(name("camlW.$2b$25$2b_298"), "W.+%+_298");
        assert_eq!(name("camlStdlib__List__map_198"), "Stdlib.List.map_198");
        assert_eq!(name("camlA__$zz_1$"), "A.$zz_1$");
        assert_eq!(name("camlA$c3$a9_$+f"), "Aé_$+f");
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for raw in [
            "",
            "L",
            "main",
            "Lock",
            "L;a()V",
            "LA;()V",
            "LA;b(V)V",
            "LA;b(J)",
            "LA;b(J)JJ",
            "LA;b(",
            "LA;b(Lx)V",
            "LA;b([)V",
            "caml_main",
            "caml",
            "camlé",
        ] {
            assert_eq!(readable(raw), None, "{raw}");
        }
    }
}
