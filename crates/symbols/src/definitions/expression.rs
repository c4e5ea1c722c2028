//! Expressions that name an object: `server.db[3].dict->ht_size[0]`, `*head`, `ns::Class::total`.
//!
//! ```text
//!  expression = "*" expression | "&" expression (in front of all) | object
//!  object     = ( name | "(" expression ")" ) { "." field | "->" field | "[" number "]" }
//!  name       = [ "::" ] part { "::" part }
//!  part       = identifier [ "<" … ">" ] | "(anonymous namespace)" | "{" … "}"
//! ```
//!
//! `.` and `->` mean the same, as in gdb: whether there is a pointer to be followed is known from the
//! type. `&x` is `x`: what is watched is always an address.

use std::fmt;
use std::str::FromStr;

/// Longer texts are no expression, bytes.
const LONGEST: usize = 4 << 10;
/// Stars and parentheses within each other.
const DEEPEST: usize = 64;
/// How C++ calls namespaces without a name.
const ANONYMOUS: &str = "(anonymous namespace)";

/// A name, and the path from it to an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expression {
    /// Scopes and the name, the name last; never empty.
    pub(crate) name: Vec<String>,
    pub(crate) operations: Vec<Operation>,
}

/// One step from an object to the next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Field(String),
    Index(i64),
    Dereference,
}

/// Why a string is not an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// Something else where a name, a field, a number or a bracket is expected.
    #[error("expected {expected} at {at:?}")]
    Expected {
        /// What, as a noun phrase.
        expected: &'static str,
        /// What is there instead; empty at the end.
        at: String,
    },
    /// There is text after the expression.
    #[error("unexpected {rest:?} at the end: an expression has names, ., ->, [number] and *")]
    Rest {
        /// What was not understood.
        rest: String,
    },
    /// An index that is a name or a sum.
    #[error("the index {0:?} is not a number: variables in brackets are not supported")]
    Index(String),
    /// Too long, or too many parentheses and stars.
    #[error("it is too long: at most {LONGEST} bytes and {DEEPEST} stars or parentheses")]
    Long,
}

impl Expression {
    /// A name without anything to follow.
    #[must_use]
    pub fn of_name(parts: &[&str]) -> Self {
        let name = parts.iter().map(|&part| part.to_owned()).collect();
        Self { name, operations: Vec::new() }
    }

    /// Whether it is nothing but a name.
    #[must_use]
    pub fn is_name(&self) -> bool {
        self.operations.is_empty()
    }

    /// A variable as a symbol table or debug information names it, Go's as well; `None` for any other text.
    pub(crate) fn of_variable(name: &str) -> Option<Self> {
        let found: Self = name.parse().ok()?;
        if found.is_name() { Some(found) } else { found.of_package().filter(Self::is_name) }
    }

    /// The same with a first field as a part of the name, as Go names the variables of a package: `main.stats`. `None` if
    /// there is no such field.
    #[must_use]
    pub fn of_package(&self) -> Option<Self> {
        let ([package], [Operation::Field(name), operations @ ..]) =
            (&self.name[..], &self.operations[..])
        else {
            return None;
        };
        Some(Self { name: vec![format!("{package}.{name}")], operations: operations.to_vec() })
    }

    /// The name that it starts from, scopes included.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.join("::")
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_object(f, &self.name(), &self.operations)
    }
}

/// As C writes it: stars stand in front, and bind weaker than what stands behind.
fn write_object(f: &mut fmt::Formatter<'_>, name: &str, operations: &[Operation]) -> fmt::Result {
    let mut text = name.to_owned();
    for (index, operation) in operations.iter().enumerate() {
        let starred = index > 0 && operations[index - 1] == Operation::Dereference;
        text = match operation {
            Operation::Dereference => format!("*{text}"),
            _ if starred => match operation {
                Operation::Field(field) => format!("({text}).{field}"),
                Operation::Index(number) => format!("({text})[{number}]"),
                Operation::Dereference => text,
            },
            Operation::Field(field) => format!("{text}.{field}"),
            Operation::Index(number) => format!("{text}[{number}]"),
        };
    }
    f.write_str(&text)
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        if text.len() > LONGEST {
            return Err(ExpressionError::Long);
        }
        let mut parser = Parser { rest: text.trim() };
        parser.eat("&");
        let found = parser.unary(0)?;
        match parser.rest.is_empty() {
            true => Ok(found),
            false => Err(ExpressionError::Rest { rest: parser.rest.to_owned() }),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest.strip_prefix(token);
        self.rest = found.unwrap_or(self.rest).trim_start();
        found.is_some()
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T, ExpressionError> {
        Err(ExpressionError::Expected { expected, at: self.rest.to_owned() })
    }

    fn unary(&mut self, depth: usize) -> Result<Expression, ExpressionError> {
        if depth == DEEPEST {
            return Err(ExpressionError::Long);
        }
        if self.eat("*") {
            let mut found = self.unary(depth + 1)?;
            found.operations.push(Operation::Dereference);
            return Ok(found);
        }
        let mut found = if !self.rest.starts_with(ANONYMOUS) && self.eat("(") {
            let inner = self.unary(depth + 1)?;
            if !self.eat(")") {
                return self.expected("a closing parenthesis");
            }
            inner
        } else {
            Expression { name: self.name()?, operations: Vec::new() }
        };
        loop {
            if self.eat("->") || self.eat(".") {
                let field = self.word();
                if field.is_empty() {
                    return self.expected("a field name");
                }
                found.operations.push(Operation::Field(field.to_owned()));
            } else if self.eat("[") {
                found.operations.push(Operation::Index(self.index()?));
            } else {
                return Ok(found);
            }
        }
    }

    fn index(&mut self) -> Result<i64, ExpressionError> {
        let Some((inside, rest)) = self.rest.split_once(']') else {
            return self.expected("a closing bracket");
        };
        let text = inside.trim();
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let number = match digits.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        let plain = digits.starts_with(|first: char| first.is_ascii_digit());
        let number = number.ok().filter(|_| plain);
        let number = number.ok_or_else(|| ExpressionError::Index(text.to_owned()))?;
        self.rest = rest.trim_start();
        Ok(sign * number)
    }

    fn name(&mut self) -> Result<Vec<String>, ExpressionError> {
        self.eat("::");
        let mut parts = Vec::new();
        loop {
            let part = self.part()?;
            parts.push(part);
            if !self.eat("::") {
                return Ok(parts);
            }
        }
    }

    fn part(&mut self) -> Result<String, ExpressionError> {
        if self.eat(ANONYMOUS) {
            return Ok(ANONYMOUS.to_owned());
        }
        let whole = self.rest;
        if whole.starts_with('{') {
            self.rest = balanced(whole, '{', '}').ok_or_else(|| missing("}", whole))?;
        } else {
            if whole.starts_with(|first: char| first.is_ascii_digit()) || self.word().is_empty() {
                self.rest = whole;
                return self.expected("a name");
            }
            if self.rest.starts_with('<') {
                self.rest = balanced(self.rest, '<', '>').ok_or_else(|| missing(">", whole))?;
            }
        }
        let part = whole[..whole.len() - self.rest.len()].trim_end();
        self.rest = self.rest.trim_start();
        Ok(part.to_owned())
    }

    /// Letters, digits, `_` and `$`; digits may come first, as in Rust's tuples.
    fn word(&mut self) -> &'a str {
        let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let end = self.rest.find(|c: char| !inside(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }
}

fn missing(expected: &'static str, at: &str) -> ExpressionError {
    ExpressionError::Expected { expected, at: at.to_owned() }
}

/// What follows the bracket that closes the first of `text`.
fn balanced(text: &str, open: char, close: char) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(&text[at + c.len_utf8()..]);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Expression {
        text.parse().unwrap()
    }

    #[test]
    fn variables_of_go_have_their_package_in_the_name() {
        let name = |text: &str| Expression::of_variable(text).map(|found| found.name());
        assert_eq!(name("main.stats").as_deref(), Some("main.stats"));
        assert_eq!(name("ns::stats").as_deref(), Some("ns::stats"));
        assert_eq!([name("main.stats.hits"), name("*stats")], [None, None]);
        let field = "main.stats.hits[1]".parse::<Expression>().unwrap().of_package().unwrap();
        assert_eq!(
            (field.name(), field.to_string()),
            ("main.stats".into(), "main.stats.hits[1]".into())
        );
        assert_eq!("stats".parse::<Expression>().unwrap().of_package(), None);
    }

    #[test]
    fn ways_through_objects_are_read_as_c_reads_them() {
        let field = |name: &str| Operation::Field(name.into());
        let found = read("a::b.c[3]->d");
        assert_eq!(found.name, ["a", "b"]);
        assert_eq!(found.operations, [field("c"), Operation::Index(3), field("d")]);
        assert_eq!(read("*p.x").operations, [field("x"), Operation::Dereference]);
        assert_eq!(read("(*p).x").operations, [Operation::Dereference, field("x")]);
        assert_eq!(read("**p").operations, [Operation::Dereference, Operation::Dereference]);
        assert_eq!(read("&x"), read("x"));
        assert_eq!(read("p[-0x10]").operations, [Operation::Index(-16)]);
        assert_eq!(read("pair.0").operations, [field("0")]);
        assert_eq!(read(" a . b [ 1 ] -> c ").to_string(), "a.b[1].c");
    }

    #[test]
    fn names_may_have_templates_and_scopes_without_a_name() {
        assert_eq!(
            read("Pool<std::pair<int, long> >::total").name,
            ["Pool<std::pair<int, long> >", "total"]
        );
        assert_eq!(read("(anonymous namespace)::x").name, [ANONYMOUS, "x"]);
        assert_eq!(read("krate::{impl#0}::f::N").name, ["krate", "{impl#0}", "f", "N"]);
        assert_eq!(read("::x").name, ["x"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<Expression>().unwrap_err().to_string();
        assert_eq!(
            error("a[i]"),
            "the index \"i\" is not a number: variables in brackets are not supported"
        );
        assert_eq!(error("a."), "expected a field name at \"\"");
        assert_eq!(error("a[1"), "expected a closing bracket at \"1\"");
        assert_eq!(error("(*a"), "expected a closing parenthesis at \"\"");
        assert_eq!(error(""), "expected a name at \"\"");
        assert_eq!(error("3x"), "expected a name at \"3x\"");
        assert_eq!(
            error("a + b"),
            "unexpected \"+ b\" at the end: an expression has names, ., ->, [number] and *"
        );
        assert_eq!("*".repeat(100).parse::<Expression>(), Err(ExpressionError::Long));
        assert_eq!("a".repeat(5000).parse::<Expression>(), Err(ExpressionError::Long));
    }

    proptest! {
        /// What is printed reads back as the same.
        #[test]
        fn printed_expressions_read_back(
            operations in proptest::collection::vec(prop_oneof![
                "[a-z_][a-z0-9_]{0,5}".prop_map(Operation::Field),
                (-50_i64..5000).prop_map(Operation::Index),
                Just(Operation::Dereference),
            ], 0..12),
            name in proptest::collection::vec("[a-z_][a-zA-Z0-9_]{0,8}", 1..4),
        ) {
            let expression = Expression { name, operations };
            prop_assert_eq!(read(&expression.to_string()), expression);
        }

        #[test]
        fn no_text_panics(text in "[a-z0-9_.:<>{}()*&\\[\\]\\- é]{0,40}") {
            let _ = text.parse::<Expression>();
        }
    }
}
