//! What events are called: as typed where that tells them apart.

use crate::syntax::{EventSyntax, TextPiece};

/// How the events of one text are called.
pub(crate) struct Naming<'e, 't> {
    pub(crate) event: &'e EventSyntax<'t>,
    pub(crate) own: Option<TextPiece<'t>>,
    /// Letters that the braces add.
    pub(crate) added: String,
}

impl Naming<'_, '_> {
    /// As typed, with the letters of the braces.
    pub(crate) fn as_typed(&self) -> String {
        let typed = self.event.whole.text;
        let colon = if self.own.is_some() || self.event.terms.is_some() { "" } else { ":" };
        if self.added.is_empty() {
            typed.to_owned()
        } else {
            format!("{typed}{colon}{}", self.added)
        }
    }

    /// One of several names, with all letters.
    pub(crate) fn behind(&self, name: &str) -> String {
        let letters = self.letters();
        if letters.is_empty() { name.to_owned() } else { format!("{name}:{letters}") }
    }

    /// One of several units that count `what`.
    pub(crate) fn of_unit(&self, unit: &str, what: &str) -> String {
        format!("{unit}/{what}/{}", self.letters())
    }

    fn letters(&self) -> String {
        format!("{}{}", self.own.map_or("", |own| own.text), self.added)
    }
}
