//! Why a name does not resolve to an address.

use std::fmt;

/// Names that are near, of variables and functions together.
const MOST_NEAR: usize = 5;

/// Why an expression does not resolve to an address. Each message is one sentence about the
/// program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// Nothing has this name.
    #[error("no variable {name}{}", like(near))]
    NoVariable {
        /// As asked.
        name: String,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// No function has this name.
    #[error("no function {name}{}", like(near))]
    NoFunction {
        /// As asked.
        name: String,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// Neither a variable nor a function has this name.
    #[error("no variable or function {name}{}", like(near))]
    Nothing {
        /// As asked.
        name: String,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// Several variables have this name.
    #[error("several variables are called {name}. Try: {}", list(choices))]
    Ambiguous {
        /// As asked.
        name: String,
        /// What to type for each.
        choices: Vec<String>,
    },
    /// The compiler removed it.
    #[error("{name} was optimized out: it has no address")]
    OptimizedOut {
        /// As asked.
        name: String,
    },
    /// The compiler made a constant of it.
    #[error("the compiler made {name} a constant: it has no address")]
    Constant {
        /// As asked.
        name: String,
    },
    /// It is in registers, or at several addresses.
    #[error("{name} has no fixed address: the compiler keeps it {how}")]
    NoOnePlace {
        /// As asked.
        name: String,
        /// Where the compiler keeps it.
        how: &'static str,
    },
    /// Each thread has its own.
    #[error(
        "{name} is thread-local: each thread has its own copy. Try: {name}@TID, of one thread of the program"
    )]
    ThreadLocal {
        /// As asked.
        name: String,
    },
    /// A variable of a function's activation.
    #[error(
        "{name} is a local variable of {function}: it is on the stack, at a different address in \
         each call"
    )]
    Local {
        /// As asked.
        name: String,
        /// The function that has it.
        function: String,
    },
    /// It is declared here, but defined in another module.
    #[error("{name} is only declared here: another module defines it")]
    Declared {
        /// As asked.
        name: String,
    },
    /// The object has no such field.
    #[error("{object} ({type_name}) has no field {field}{}", like(near))]
    NoField {
        /// The object.
        object: String,
        /// Its type.
        type_name: String,
        /// As asked.
        field: String,
        /// Fields that are like it, or else those that it has.
        near: Vec<String>,
    },
    /// A part of an object that is not a structure.
    #[error("{object} ({type_name}) is {what}")]
    Not {
        /// The object.
        object: String,
        /// Its type.
        type_name: String,
        /// What cannot be done with it.
        what: &'static str,
    },
    /// An index past the end.
    #[error(
        "{object} ({type_name}) has {count} elements, counted from 0: [{index}] is out of range"
    )]
    Index {
        /// The array.
        object: String,
        /// Its type.
        type_name: String,
        /// Its length.
        count: u64,
        /// As asked.
        index: i64,
    },
    /// Fields of less than a byte.
    #[error(
        "{object} is a bit-field of {bits} bits, and hardware watches whole bytes. Try: the \
         enclosing object, {within}"
    )]
    BitField {
        /// As asked.
        object: String,
        /// Its size.
        bits: u64,
        /// The object that has it.
        within: String,
    },
    /// The type is known by name only.
    #[error("{object} ({type_name}) has a type without field definitions in the debug information")]
    Incomplete {
        /// The object.
        object: String,
        /// Its type.
        type_name: String,
    },
    /// There is a symbol, but no type information for it.
    #[error("{name} has a symbol but no type: {why}. {advice}")]
    NoType {
        /// As asked.
        name: String,
        /// Why its type is not known.
        why: String,
        /// What to do.
        advice: &'static str,
    },
    /// No line of the file has code.
    #[error("{}", no_line(file, *line, near))]
    NoLine {
        /// As asked.
        file: String,
        /// As asked.
        line: u32,
        /// Source files with like names; empty if the file is there and has no code from the line on.
        near: Vec<String>,
    },
    /// There is no line information.
    #[error("no line information for {file}: {why}")]
    NoLines {
        /// As asked.
        file: String,
        /// Why not.
        why: String,
    },
    /// Debug information contradicts itself.
    #[error("the debug information of {name} is damaged: {what}")]
    Damaged {
        /// As asked.
        name: String,
        /// What is wrong with it.
        what: String,
    },
}

impl DefinitionError {
    /// Whether another module may have what this one lacks.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        matches!(
            self,
            Self::NoVariable { .. }
                | Self::NoFunction { .. }
                | Self::Nothing { .. }
                | Self::Declared { .. }
                | Self::NoLine { .. }
                | Self::NoLines { .. }
        )
    }

    /// The error if there is neither this variable nor, by `function`, a function of the name.
    #[must_use]
    pub fn or_function(self, function: Self) -> Self {
        match (self, function) {
            (Self::NoVariable { name, mut near }, Self::NoFunction { near: functions, .. }) => {
                let left = MOST_NEAR.saturating_sub(near.len());
                near.extend(functions.into_iter().take(left));
                Self::Nothing { name, near }
            }
            (variable, _) => variable,
        }
    }

    /// Whether it has not even a similar name to offer.
    #[must_use]
    pub fn says_nothing(&self) -> bool {
        match self {
            Self::NoVariable { near, .. }
            | Self::NoFunction { near, .. }
            | Self::Nothing { near, .. } => near.is_empty(),
            Self::NoLines { .. } => true,
            _ => false,
        }
    }
}

fn like(names: &[String]) -> impl fmt::Display {
    match names {
        [] => String::new(),
        names => format!(". Similar: {}", list(names)),
    }
}

/// `a`, `a or b`, `a, b or c`.
fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn no_line(file: &str, line: u32, near: &[String]) -> String {
    match near {
        [] => format!("{file} has no code at line {line} or after it"),
        near => format!("no code comes from a file {file}. Similar: {}", list(near)),
    }
}
