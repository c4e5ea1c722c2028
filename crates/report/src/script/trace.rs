//! What a tracepoint says, as one line: its `print fmt`, which is a format of printf(3) with expressions of
//! C, or `name=value` for each field where that has what only the kernel can do.
//!
//! ```text
//!  "comm=%s state=%s", REC->comm, REC->state & 3 ? __print_flags(REC->state, "|", { 1, "S" }) : "R"
//! ```
//! Expressions are computed while they are read, both sides of a choice included: a tree of them would
//! have to be kept for each event, and few recordings have enough samples for that to pay.

use std::fmt::Write as _;

use pmuscope_perfdata::reader::{Endian, TraceValue, Tracepoint};

/// Expressions within one another at most: a recording can have any.
const MOST_DEPTH: u32 = 100;
/// Widest field of a format, characters.
const MOST_WIDTH: usize = 1000;

/// The line of a sample with these raw data.
pub(super) fn line(tracepoint: &Tracepoint, raw: &[u8], endian: Endian) -> String {
    let at = Position { tracepoint, raw, endian, rest: &tracepoint.print, depth: 0 };
    at.print().unwrap_or_else(|| fields(tracepoint, raw, endian))
}

/// `name=value` for each field that not all tracepoints have.
fn fields(tracepoint: &Tracepoint, raw: &[u8], endian: Endian) -> String {
    let mut out = String::new();
    for field in tracepoint.fields.iter().filter(|field| !field.is_common()) {
        let space = if out.is_empty() { "" } else { " " };
        // Writing to a String does not fail.
        let _ = write!(out, "{space}{}=", field.name);
        match field.value(raw, endian) {
            None => out.push('-'),
            Some(TraceValue::Number(number)) if field.kind.contains('*') => {
                let _ = write!(out, "{number:#x}");
            }
            Some(TraceValue::Number(number)) if field.signed => {
                let _ = write!(out, "{number}");
            }
            Some(TraceValue::Number(number)) => {
                let _ = write!(out, "{}", number.cast_unsigned());
            }
            Some(TraceValue::Text(text)) => out.push_str(&String::from_utf8_lossy(text)),
            Some(TraceValue::Bytes(bytes)) => bytes.iter().for_each(|byte| {
                let _ = write!(out, "{byte:02x}");
            }),
        }
    }
    out
}

#[derive(Debug, Clone, PartialEq)]
enum FormatValue {
    Number(i64),
    Text(String),
}

impl FormatValue {
    fn number(self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Text(_) => None,
        }
    }
}

/// What a cast makes of a number; `None` where it keeps all 64 bits.
type Cut = Option<fn(i64) -> i64>;

/// A place in a `print fmt`, with what its expressions are about.
#[derive(Clone, Copy)]
struct Position<'a> {
    tracepoint: &'a Tracepoint,
    raw: &'a [u8],
    endian: Endian,
    rest: &'a str,
    depth: u32,
}

/// Operators of two sides, the weakest first.
const OPERATORS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl<'a> Position<'a> {
    fn print(mut self) -> Option<String> {
        let format = self.literal()?;
        let mut arguments = Vec::new();
        while self.take(",") {
            arguments.push(self.expression()?);
        }
        self.rest.trim().is_empty().then(|| printf(&format, arguments))?
    }

    /// Goes past `token`, if that is next.
    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        let Some(after) = rest.strip_prefix(token) else { return false };
        self.rest = after;
        true
    }

    fn word(&mut self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            return None;
        }
        self.rest = after;
        Some(word)
    }

    /// Text in quotes, and what follows it in further ones.
    fn literal(&mut self) -> Option<String> {
        if !self.take("\"") {
            return None;
        }
        let mut out = String::new();
        loop {
            let mut chars = self.rest.chars();
            let next = chars.next()?;
            self.rest = chars.as_str();
            match next {
                '"' if self.take("\"") => {}
                '"' => return Some(out),
                '\\' => {
                    let escaped = chars.next()?;
                    self.rest = chars.as_str();
                    out.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        other => other,
                    });
                }
                other => out.push(other),
            }
        }
    }

    fn expression(&mut self) -> Option<FormatValue> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return None;
        }
        let condition = self.binary(0)?;
        let found = if self.take("?") {
            let yes = self.expression()?;
            if !self.take(":") {
                return None;
            }
            let no = self.expression()?;
            if condition.number()? != 0 { yes } else { no }
        } else {
            condition
        };
        self.depth -= 1;
        Some(found)
    }

    fn binary(&mut self, level: usize) -> Option<FormatValue> {
        let Some(operators) = OPERATORS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.operator(operators) {
            let right = self.binary(level + 1)?;
            left = FormatValue::Number(compute(operator, left.number()?, right.number()?)?);
        }
        Some(left)
    }

    /// One of `operators`, unless it is the start of a longer one.
    fn operator(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        let rest = self.rest.trim_start();
        let longest = OPERATORS.iter().flat_map(|level| level.iter());
        let longest = longest.filter(|one| rest.starts_with(**one)).max_by_key(|one| one.len())?;
        let found = operators.iter().find(|one| *one == longest)?;
        self.rest = &rest[found.len()..];
        Some(found)
    }

    fn unary(&mut self) -> Option<FormatValue> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return None;
        }
        let found = if self.take("!") {
            FormatValue::Number((self.unary()?.number()? == 0).into())
        } else if self.take("~") {
            FormatValue::Number(!self.unary()?.number()?)
        } else if self.take("-") {
            FormatValue::Number(self.unary()?.number()?.wrapping_neg())
        } else if let Some(width) = self.cast() {
            let operand = self.unary()?;
            match (operand, width) {
                (FormatValue::Number(number), Some(cut)) => FormatValue::Number(cut(number)),
                (operand, _) => operand,
            }
        } else {
            self.operand()?
        };
        self.depth -= 1;
        Some(found)
    }

    /// `(type)`, and what it makes of a number; `None` if no cast comes next.
    fn cast(&mut self) -> Option<Cut> {
        const WORDS: [&str; 10] = [
            "unsigned", "signed", "long", "int", "short", "char", "void", "const", "size_t", "bool",
        ];
        let inner = self.rest.trim_start().strip_prefix('(')?;
        let (name, after) = inner.split_once(')')?;
        let is_type =
            |word: &str| WORDS.contains(&word) || word.ends_with("_t") || sized(word).is_some();
        let mut words =
            name.split(|c: char| c.is_whitespace() || c == '*').filter(|w| !w.is_empty());
        let first = words.next()?;
        if !is_type(first) && !["enum", "struct"].contains(&first) {
            return None;
        }
        self.rest = after;
        let cut: Cut = match name.trim() {
            "char" | "signed char" => Some(|number| (number as i8).into()),
            "unsigned char" | "bool" => Some(|number| (number as u8).into()),
            "short" => Some(|number| (number as i16).into()),
            "unsigned short" => Some(|number| (number as u16).into()),
            "int" => Some(|number| (number as i32).into()),
            "unsigned int" | "unsigned" | "dev_t" | "gfp_t" | "fmode_t" => {
                Some(|number| (number as u32).into())
            }
            name => sized(name).flatten(),
        };
        Some(cut)
    }

    fn operand(&mut self) -> Option<FormatValue> {
        if self.take("(") {
            let found = self.expression()?;
            return self.take(")").then_some(found);
        }
        if self.rest.trim_start().starts_with('"') {
            return self.literal().map(FormatValue::Text);
        }
        let word = self.word()?;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return number(word).map(FormatValue::Number);
        }
        if word == "REC" {
            if !self.take("->") {
                return None;
            }
            let name = self.word()?;
            return self.field(name);
        }
        if !self.take("(") {
            return None;
        }
        let found = match word {
            "__get_str" | "__get_rel_str" => {
                let name = self.word()?;
                self.field(name)?
            }
            "__print_symbolic" => {
                let value = self.expression()?.number()?;
                let known = self.names()?.into_iter().find(|(one, _)| *one == value);
                FormatValue::Text(known.map_or_else(|| format!("{value:#x}"), |(_, name)| name))
            }
            "__print_flags" => {
                let value = self.expression()?.number()?;
                if !self.take(",") {
                    return None;
                }
                let delimiter = self.literal()?;
                let names = self.names()?;
                FormatValue::Text(flags(value, &delimiter, &names))
            }
            _ => return None,
        };
        self.take(")").then_some(found)
    }

    fn field(&self, name: &str) -> Option<FormatValue> {
        Some(match self.tracepoint.field(name)?.value(self.raw, self.endian)? {
            TraceValue::Number(number) => FormatValue::Number(number),
            TraceValue::Text(text) => FormatValue::Text(String::from_utf8_lossy(text).into_owned()),
            TraceValue::Bytes(_) => return None,
        })
    }

    /// `, { value, "name" }…`
    fn names(&mut self) -> Option<Vec<(i64, String)>> {
        let mut names = Vec::new();
        while self.take(",") {
            if !self.take("{") {
                return None;
            }
            let value = self.expression()?.number()?;
            if !self.take(",") {
                return None;
            }
            names.push((value, self.literal()?));
            if !self.take("}") {
                return None;
            }
        }
        Some(names)
    }
}

/// What a type of the kernel's with its width in the name makes of a number; `None` if it is not one.
fn sized(name: &str) -> Option<Cut> {
    Some(match name.trim_start_matches("__").trim_end_matches("_t") {
        "u8" | "uint8" => Some(|number| (number as u8).into()),
        "s8" | "int8" => Some(|number| (number as i8).into()),
        "u16" | "uint16" | "le16" | "be16" => Some(|number| (number as u16).into()),
        "s16" | "int16" => Some(|number| (number as i16).into()),
        "u32" | "uint32" | "le32" | "be32" => Some(|number| (number as u32).into()),
        "s32" | "int32" => Some(|number| (number as i32).into()),
        "u64" | "uint64" | "s64" | "int64" | "le64" | "be64" => None,
        _ => return None,
    })
}

fn number(word: &str) -> Option<i64> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let found = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    found.ok().map(u64::cast_signed)
}

fn compute(operator: &str, left: i64, right: i64) -> Option<i64> {
    let shift = || u32::try_from(right).ok().filter(|bits| *bits < 64);
    Some(match operator {
        "||" => (left != 0 || right != 0).into(),
        "&&" => (left != 0 && right != 0).into(),
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "==" => (left == right).into(),
        "!=" => (left != right).into(),
        "<=" => (left <= right).into(),
        ">=" => (left >= right).into(),
        "<" => (left < right).into(),
        ">" => (left > right).into(),
        "<<" => left << shift()?,
        // Of the types that are shifted in practice none has a sign.
        ">>" => (left.cast_unsigned() >> shift()?).cast_signed(),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right)?,
        "%" => left.checked_rem(right)?,
        _ => return None,
    })
}

/// The names of all flags that are set, and what no name is known for.
fn flags(value: i64, delimiter: &str, names: &[(i64, String)]) -> String {
    let mut left = value;
    let mut found: Vec<String> = Vec::new();
    for (mask, name) in names {
        if *mask == 0 && value == 0 {
            return name.clone();
        }
        if *mask != 0 && left & mask == *mask {
            found.push(name.clone());
            left &= !mask;
        }
    }
    if left != 0 {
        found.push(format!("{left:#x}"));
    }
    found.join(delimiter)
}

/// `format` with its arguments; `None` if they do not fit.
fn printf(format: &str, arguments: Vec<FormatValue>) -> Option<String> {
    let mut arguments = arguments.into_iter();
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let flags_end = rest.find(|c| !"-+ 0#".contains(c))?;
        let flags = &rest[..flags_end];
        rest = &rest[flags_end..];
        let width = match rest.strip_prefix('*') {
            Some(after) => {
                rest = after;
                usize::try_from(arguments.next()?.number()?).ok()?
            }
            None => digits(&mut rest).unwrap_or(0),
        };
        let precision = match rest.strip_prefix('.') {
            Some(after) => {
                rest = after;
                match rest.strip_prefix('*') {
                    Some(after) => {
                        rest = after;
                        Some(usize::try_from(arguments.next()?.number()?).ok()?)
                    }
                    None => Some(digits(&mut rest).unwrap_or(0)),
                }
            }
            None => None,
        };
        let long = rest.starts_with(['l', 'z', 'q', 'j', 't', 'L']);
        rest = rest.trim_start_matches(['l', 'h', 'z', 'q', 'j', 't', 'L']);
        let mut chars = rest.chars();
        let conversion = chars.next()?;
        rest = chars.as_str();
        let text = converted(conversion, flags, precision, long, arguments.next()?, &mut rest)?;
        pad(&mut out, &text, flags, width.min(MOST_WIDTH));
    }
    out.push_str(rest);
    // A line is one line.
    Some(out.trim_end_matches('\n').to_owned())
}

fn digits(rest: &mut &str) -> Option<usize> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, after) = rest.split_at(end);
    *rest = after;
    number.parse().ok()
}

fn converted(
    conversion: char,
    flags: &str,
    precision: Option<usize>,
    long: bool,
    value: FormatValue,
    rest: &mut &str,
) -> Option<String> {
    let cut = |number: i64| if long { number } else { i64::from(number as u32) };
    let unsigned = |value: FormatValue| Some(cut(value.number()?).cast_unsigned());
    let prefix = if flags.contains('#') { "0x" } else { "" };
    Some(match conversion {
        'd' | 'i' => {
            let number = value.number()?;
            let number = if long { number } else { i64::from(number as i32) };
            let plus = if flags.contains('+') && number >= 0 { "+" } else { "" };
            format!("{plus}{number}")
        }
        'u' => unsigned(value)?.to_string(),
        'x' => format!("{prefix}{:x}", unsigned(value)?),
        'X' => format!("{prefix}{:X}", unsigned(value)?),
        'o' => format!("{:o}", unsigned(value)?),
        'c' => char::from(value.number()? as u8).to_string(),
        'p' => {
            // `%pS`, `%ps`: addresses of functions. Others print what a pointer points to.
            match rest.chars().next().filter(char::is_ascii_alphanumeric) {
                None => {}
                Some('S' | 's' | 'F' | 'f' | 'B' | 'x' | 'K') => *rest = &rest[1..],
                Some(_) => return None,
            }
            format!("{:#x}", value.number()?)
        }
        's' => {
            let text = match value {
                FormatValue::Text(text) => text,
                FormatValue::Number(address) => format!("{address:#x}"),
            };
            match precision {
                Some(most) => text.chars().take(most).collect(),
                None => text,
            }
        }
        _ => return None,
    })
}

fn pad(out: &mut String, text: &str, flags: &str, width: usize) {
    let missing = width.saturating_sub(text.chars().count());
    if flags.contains('-') {
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', missing));
    } else if flags.contains('0') {
        let front = ["-0x", "0x", "-", "+"].iter().find(|front| text.starts_with(**front));
        let (front, digits) = text.split_at(front.map_or(0, |front| front.len()));
        out.push_str(front);
        out.extend(std::iter::repeat_n('0', missing));
        out.push_str(digits);
    } else {
        out.extend(std::iter::repeat_n(' ', missing));
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::reader::TraceField;

    fn tracepoint(print: &str) -> Tracepoint {
        let field = |name: &str, kind: &str, offset, size, array| TraceField {
            name: name.into(),
            kind: kind.into(),
            offset,
            size,
            signed: true,
            array,
            ..TraceField::default()
        };
        let path = TraceField { dynamic: true, ..field("path", "__data_loc char", 24, 4, true) };
        Tracepoint {
            print: print.into(),
            fields: vec![
                field("common_pid", "int", 0, 4, false),
                field("state", "long", 8, 8, false),
                field("comm", "char", 16, 8, true),
                path,
                field("prio", "int", 28, 4, false),
            ],
            ..Tracepoint::default()
        }
    }

    /// State 0x102, name `sh`, path `/a`, priority -5.
    fn raw() -> Vec<u8> {
        let mut raw = vec![0; 36];
        raw[8..16].copy_from_slice(&0x102_i64.to_le_bytes());
        raw[16..19].copy_from_slice(b"sh\0");
        raw[24..28].copy_from_slice(&(3 << 16 | 32_u32).to_le_bytes());
        raw[28..32].copy_from_slice(&(-5_i32).to_le_bytes());
        raw[32..35].copy_from_slice(b"/a\0");
        raw
    }

    fn printed(print: &str) -> String {
        line(&tracepoint(print), &raw(), Endian::Little)
    }

    #[test]
    fn formats_are_printed_as_the_kernel_prints_them() {
        let switch = "\"comm=%s prio=%d state=%s%s ==> %s\", REC->comm, REC->prio, \
            (REC->state & (((0x0001 | 0x0002) + 1) - 1)) ? __print_flags(REC->state & 3, \"|\", \
            { 0x1, \"S\" }, { 0x2, \"D\" }) : \"R\", REC->state & 0x100 ? \"+\" : \"\", __get_str(path)";
        assert_eq!(printed(switch), "comm=sh prio=-5 state=D+ ==> /a");
        let symbolic = "\"%s|%s\", __print_symbolic(REC->prio + 5, { 0, \"ZERO\" }, { 1, \"ONE\" }), \
            __print_symbolic(REC->state, { 1, \"ONE\" })";
        assert_eq!(printed(symbolic), "ZERO|0x102");
        let numbers = "\"%08x %5d|%-5d|%#lx %u %llu %c %%\", REC->state, 7, 7, REC->state, REC->prio, \
            (unsigned long long)REC->prio, 65";
        assert_eq!(
            printed(numbers),
            "00000102     7|7    |0x102 4294967291 18446744073709551611 A %"
        );
        let casts = "\"%d,%d %s\", ((unsigned int) ((REC->state) >> 4)), ((u8)REC->state) == 2 && !0, \
            __print_flags(REC->state, \"\", { 2, \"a\" })";
        assert_eq!(printed(casts), "16,1 a0x100");
    }

    #[test]
    fn what_only_the_kernel_can_do_is_replaced_by_all_fields() {
        let expected = "state=258 comm=sh path=/a prio=-5";
        for print in [
            "",
            "\"%pI4\", REC->state",
            "\"%s\", __print_hex(REC->comm, 2)",
            "\"%d\"",
            "\"%d\", REC->none",
            "\"%d\", 1 / 0",
            "\"%d\", 1 << 64",
            "\"%d",
        ] {
            assert_eq!(printed(print), expected, "{print}");
        }
        let deep = format!("\"%d\", {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        assert_eq!(printed(&deep), expected);
        let short = line(&tracepoint("\"%d\", REC->prio"), &raw()[..20], Endian::Little);
        assert_eq!(short, "state=258 comm=- path=- prio=-");
    }
}
