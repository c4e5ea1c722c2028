//! Formulas of counters: parsed once, evaluated for each function, with their derivatives.
//!
//! ```text
//!  sum    := product (("+" | "-") product)*      "+" and "-" between spaces
//!  product := value (("*" | "/") value)*
//!  value  := number | event | "total(" event ")" | "min(" sum "," sum ")" | "(" sum ")" | "-" value
//!          | "above(" sum "," sum "," sum "," sum ")"            the third where the first is above the second
//!  event  := a letter, then letters, digits and . _ : -     or anything between double quotes
//! ```

use std::fmt;
use std::iter::Peekable;
use std::str::CharIndices;

use thiserror::Error;

/// Parentheses in each other, at most.
const DEEPEST: usize = 50;

/// Why text is no formula. Positions count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormulaError {
    /// Something that cannot stand there.
    #[error("\"{found}\" at {at}: expected {expected}")]
    Unexpected {
        /// What stands there.
        found: String,
        /// Where.
        at: usize,
        /// What could.
        expected: &'static str,
    },
    /// The text ends too early.
    #[error("it ends where {0} is expected")]
    Ends(&'static str),
    /// A function that does not exist.
    #[error("unknown function \"{name}\" at {at}: functions are total, min, max and above")]
    Function {
        /// Its name.
        name: String,
        /// Where.
        at: usize,
    },
    /// A number that cannot be read.
    #[error("\"{text}\" at {at} is not a number")]
    Number {
        /// As it stands there.
        text: String,
        /// Where.
        at: usize,
    },
    /// Too many parentheses in each other.
    #[error("more than {DEEPEST} nested parentheses")]
    Deep,
}

/// What a formula needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Variable {
    /// The event, as written.
    pub event: String,
    /// Whether its sum over all functions is meant.
    pub total: bool,
}

/// A formula.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    text: String,
    root: FormulaNode,
    variables: Vec<Variable>,
}

#[derive(Debug, Clone, PartialEq)]
enum FormulaNode {
    Number(f64),
    Variable(usize),
    Of(Operator, Box<FormulaNode>, Box<FormulaNode>),
    /// The third where the first is above the second, else the fourth.
    Above(Box<[FormulaNode; 4]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
}

/// A value and how fast it changes with one variable.
#[derive(Debug, Clone, Copy)]
struct Dual {
    value: f64,
    slope: f64,
}

impl Operator {
    fn apply(self, a: Dual, b: Dual) -> Dual {
        match self {
            Self::Add => Dual { value: a.value + b.value, slope: a.slope + b.slope },
            Self::Subtract => Dual { value: a.value - b.value, slope: a.slope - b.slope },
            Self::Multiply => {
                Dual { value: a.value * b.value, slope: a.slope * b.value + a.value * b.slope }
            }
            Self::Divide => {
                let value = a.value / b.value;
                Dual { value, slope: (a.slope - value * b.slope) / b.value }
            }
            Self::Min if a.value <= b.value => a,
            Self::Max if a.value >= b.value => a,
            Self::Min | Self::Max => b,
        }
    }
}

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    /// What does not fit, and where.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        let text = text.trim();
        let mut parser =
            Parser { text, chars: text.char_indices().peekable(), variables: Vec::new(), depth: 0 };
        let root = parser.sum()?;
        parser.spaces();
        match parser.chars.peek() {
            None => Ok(Self { text: text.to_owned(), root, variables: parser.variables }),
            Some(_) => Err(parser.unexpected("an operator with spaces around it, or the end")),
        }
    }

    /// What it needs to know, each once.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Its value where the variables, in their order, have these; `None` where it has none, as after a
    /// division by 0.
    #[must_use]
    pub fn value(&self, variables: &[f64]) -> Option<f64> {
        let value = eval(&self.root, variables, usize::MAX).value;
        value.is_finite().then_some(value)
    }

    /// How fast the value changes with each variable.
    #[must_use]
    pub fn slopes(&self, variables: &[f64]) -> Vec<f64> {
        (0..self.variables.len()).map(|by| eval(&self.root, variables, by).slope).collect()
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn eval(node: &FormulaNode, variables: &[f64], by: usize) -> Dual {
    match node {
        FormulaNode::Number(value) => Dual { value: *value, slope: 0.0 },
        FormulaNode::Variable(at) => Dual {
            value: variables.get(*at).copied().unwrap_or(f64::NAN),
            slope: f64::from(u8::from(*at == by)),
        },
        FormulaNode::Of(operator, a, b) => {
            operator.apply(eval(a, variables, by), eval(b, variables, by))
        }
        FormulaNode::Above(parts) => {
            let [a, b, above, else_] = &**parts;
            let is_above = eval(a, variables, by).value > eval(b, variables, by).value;
            eval(if is_above { above } else { else_ }, variables, by)
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    variables: Vec<Variable>,
    depth: usize,
}

impl Parser<'_> {
    fn spaces(&mut self) {
        while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        self.spaces();
        self.chars.peek().map(|&(_, c)| c)
    }

    fn at(&mut self) -> usize {
        let byte = self.chars.peek().map_or(self.text.len(), |&(at, _)| at);
        self.text[..byte].chars().count() + 1
    }

    fn unexpected(&mut self, expected: &'static str) -> FormulaError {
        match self.peek() {
            None => FormulaError::Ends(expected),
            Some(found) => {
                FormulaError::Unexpected { found: found.to_string(), at: self.at(), expected }
            }
        }
    }

    fn take(&mut self, wanted: char, expected: &'static str) -> Result<(), FormulaError> {
        if self.peek() == Some(wanted) {
            self.chars.next();
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    fn sum(&mut self) -> Result<FormulaNode, FormulaError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(FormulaError::Deep);
        }
        let mut node = self.product()?;
        while let Some(operator) = match self.peek() {
            Some('+') => Some(Operator::Add),
            Some('-') => Some(Operator::Subtract),
            _ => None,
        } {
            self.chars.next();
            node = FormulaNode::Of(operator, Box::new(node), Box::new(self.product()?));
        }
        self.depth -= 1;
        Ok(node)
    }

    fn product(&mut self) -> Result<FormulaNode, FormulaError> {
        let mut node = self.value()?;
        while let Some(operator) = match self.peek() {
            Some('*') => Some(Operator::Multiply),
            Some('/') => Some(Operator::Divide),
            _ => None,
        } {
            self.chars.next();
            node = FormulaNode::Of(operator, Box::new(node), Box::new(self.value()?));
        }
        Ok(node)
    }

    fn value(&mut self) -> Result<FormulaNode, FormulaError> {
        const VALUE: &str = "a number, an event or (";
        match self.peek() {
            Some('(') => {
                self.chars.next();
                let node = self.sum()?;
                self.take(')', ")")?;
                Ok(node)
            }
            Some('-') => {
                self.chars.next();
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(FormulaError::Deep);
                }
                let node = self.value()?;
                self.depth -= 1;
                Ok(FormulaNode::Of(
                    Operator::Subtract,
                    Box::new(FormulaNode::Number(0.0)),
                    Box::new(node),
                ))
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() || c == '"' || c == '_' => self.named(),
            _ => Err(self.unexpected(VALUE)),
        }
    }

    fn number(&mut self) -> Result<FormulaNode, FormulaError> {
        let at = self.at();
        let mut text = String::new();
        while let Some((_, c)) = self.chars.next_if(|(_, c)| c.is_ascii_digit() || *c == '.') {
            text.push(c);
        }
        match text.parse() {
            Ok(number) => Ok(FormulaNode::Number(number)),
            Err(_) => Err(FormulaError::Number { text, at }),
        }
    }

    fn name(&mut self) -> Result<String, FormulaError> {
        let mut name = String::new();
        if self.peek() == Some('"') {
            self.chars.next();
            loop {
                match self.chars.next() {
                    None => return Err(FormulaError::Ends("\"")),
                    Some((_, '"')) => return Ok(name),
                    Some((_, c)) => name.push(c),
                }
            }
        }
        let mut ahead = self.chars.clone();
        while let Some((_, c)) = ahead.next() {
            let next = ahead.peek().is_some_and(|(_, c)| c.is_alphanumeric());
            if !(c.is_alphanumeric() || c == '_' || ".:-".contains(c) && next && !name.is_empty()) {
                break;
            }
            name.push(c);
            self.chars.next();
        }
        if name.is_empty() {
            return Err(self.unexpected("an event"));
        }
        Ok(name)
    }

    fn named(&mut self) -> Result<FormulaNode, FormulaError> {
        let (quoted, at) = (self.peek() == Some('"'), self.at());
        let name = self.name()?;
        if quoted || self.peek() != Some('(') {
            return Ok(self.variable(name, false));
        }
        self.chars.next();
        let operator = match &name[..] {
            "total" => {
                self.spaces();
                let name = self.name()?;
                self.take(')', ") after one event")?;
                return Ok(self.variable(name, true));
            }
            "above" => return self.above(),
            "min" => Operator::Min,
            "max" => Operator::Max,
            _ => return Err(FormulaError::Function { name, at }),
        };
        let first = self.sum()?;
        self.take(',', ",")?;
        let second = self.sum()?;
        self.take(')', ")")?;
        Ok(FormulaNode::Of(operator, Box::new(first), Box::new(second)))
    }

    /// Behind the opening parenthesis.
    fn above(&mut self) -> Result<FormulaNode, FormulaError> {
        let a = self.sum()?;
        self.take(',', ",")?;
        let b = self.sum()?;
        self.take(',', ",")?;
        let above = self.sum()?;
        self.take(',', ",")?;
        let else_ = self.sum()?;
        self.take(')', ")")?;
        Ok(FormulaNode::Above(Box::new([a, b, above, else_])))
    }

    fn variable(&mut self, event: String, total: bool) -> FormulaNode {
        let variable = Variable { event, total };
        let known = self.variables.iter().position(|other| *other == variable);
        FormulaNode::Variable(known.unwrap_or_else(|| {
            self.variables.push(variable);
            self.variables.len() - 1
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str, variables: &[f64]) -> Option<f64> {
        Formula::parse(text).unwrap().value(variables)
    }

    #[test]
    fn operators_bind_as_in_arithmetic() {
        assert_eq!(value("1 + 2 * 3 - 8 / 4 / 2", &[]), Some(6.0));
        assert_eq!(value("-(1 - 4) * min(2, max(7, 1))", &[]), Some(6.0));
        assert_eq!(value("1000 * branch-misses / instructions", &[3.0, 100.0]), Some(30.0));
        assert_eq!(value("a - b-c", &[5.0, 2.0]), Some(3.0));
        assert_eq!(value("\"cpu/event=0x3c/\" / total(x)", &[1.0, 4.0]), Some(0.25));
        assert_eq!(value("a / b", &[1.0, 0.0]), None, "no value, not 0");
        assert_eq!(value("a / b", &[0.0, 0.0]), None);
        assert_eq!(value("1 + above(a, 1.8, 10, b)", &[2.0, 20.0]), Some(11.0));
        assert_eq!(value("1 + above(a, 1.8, 10, b)", &[1.8, 20.0]), Some(21.0));
    }

    #[test]
    fn variables_are_there_once_and_totals_are_others() {
        let formula = Formula::parse("a.b / total(a.b) + a.b").unwrap();
        let variable = |total| Variable { event: "a.b".into(), total };
        assert_eq!(formula.variables(), [variable(false), variable(true)]);
    }

    #[test]
    fn errors_say_what_and_where() {
        let error = |text: &str| Formula::parse(text).unwrap_err().to_string();
        assert_eq!(error("cycles /"), "it ends where a number, an event or ( is expected");
        assert_eq!(error("1 + )"), "\")\" at 5: expected a number, an event or (");
        assert_eq!(error("(a"), "it ends where ) is expected");
        assert_eq!(
            error("a b"),
            "\"b\" at 3: expected an operator with spaces around it, or the end"
        );
        assert_eq!(
            error("2 * sum(a)"),
            "unknown function \"sum\" at 5: functions are total, min, max and above"
        );
        assert_eq!(error("1.2.3"), "\"1.2.3\" at 1 is not a number");
        assert_eq!(error(&"(".repeat(99)), "more than 50 nested parentheses");
        assert_eq!(error(&"-".repeat(99)), "more than 50 nested parentheses");
    }

    #[test]
    fn slopes_are_those_of_small_changes() {
        let formula = Formula::parse("100 * max(a, 1) / (b + total(b) * 2) - min(a, b)").unwrap();
        let at = [3.0, 5.0, 7.0];
        let value = formula.value(&at).unwrap();
        for (by, slope) in formula.slopes(&at).into_iter().enumerate() {
            let mut near = at;
            near[by] += 1e-6;
            let seen = (formula.value(&near).unwrap() - value) / 1e-6;
            assert!((slope - seen).abs() < 1e-4, "{by}: {slope} {seen}");
        }
    }

    proptest! {
        #[test]
        fn no_text_can_harm(text in "[-+*/(), a-c0-9.\"\\PC]{0,60}") {
            if let Ok(formula) = Formula::parse(&text) {
                let values = vec![1.5; formula.variables().len()];
                prop_assert!(formula.value(&values).is_none_or(f64::is_finite));
                // What was read can be read again.
                prop_assert_eq!(Formula::parse(&formula.to_string()), Ok(formula));
            }
        }
    }
}
