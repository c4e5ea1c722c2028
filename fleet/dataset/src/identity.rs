//! Which stacks are the same stack on any host and at any time.
//!
//! ```text
//!  frame in a file with a build id     build id, offset in the file        the same on all hosts
//!  anything else that has a name       module, function                    kernel, code made at run time
//!  no name either                      module, address
//! ```
//! Offsets do not depend on what symbols are there, so a stack keeps its number when they come later. The kernel's
//! addresses differ from boot to boot; its functions' names do not.

/// A place in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeIdentity<'a> {
    /// In a file that is known by its build id.
    Offset { build_id: &'a [u8], offset: u64 },
    /// A function of a module without one.
    Function { module: &'a str, function: &'a str },
    /// An address of which nothing else is known.
    Address { module: &'a str, address: u64 },
}

/// Makes the number of a stack from its frames, the innermost first.
#[derive(Debug, Default)]
pub(crate) struct StackHasher(blake3::Hasher);

impl StackHasher {
    /// Adds the caller of what was added before.
    pub(crate) fn push(&mut self, place: CodeIdentity<'_>) {
        let mut text = |tag: u8, text: &[u8]| {
            self.0.update(&[tag]).update(&(text.len() as u64).to_le_bytes()).update(text);
        };
        match place {
            CodeIdentity::Offset { build_id, offset } => {
                text(1, build_id);
                self.0.update(&offset.to_le_bytes());
            }
            CodeIdentity::Function { module, function } => {
                text(2, module.as_bytes());
                text(3, function.as_bytes());
            }
            CodeIdentity::Address { module, address } => {
                text(4, module.as_bytes());
                self.0.update(&address.to_le_bytes());
            }
        }
    }

    /// The number, and 128 bits in hexadecimal by which collisions of numbers are seen.
    pub(crate) fn finish(&self) -> (i64, String) {
        let hash = self.0.finalize();
        let bytes = hash.as_bytes();
        let mut first = [0; 8];
        first.copy_from_slice(&bytes[..8]);
        (i64::from_be_bytes(first), hash.to_hex()[..32].to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(places: &[CodeIdentity<'_>]) -> (i64, String) {
        let mut hasher = StackHasher::default();
        places.iter().for_each(|&place| hasher.push(place));
        hasher.finish()
    }

    #[test]
    fn stacks_differ_if_any_frame_does_and_where_texts_end() {
        let offset = |offset| CodeIdentity::Offset { build_id: &[1, 2, 3], offset };
        let function = |module, function| CodeIdentity::Function { module, function };
        let all = [
            id(&[]),
            id(&[offset(16)]),
            id(&[offset(17)]),
            id(&[offset(16), offset(17)]),
            id(&[offset(17), offset(16)]),
            id(&[CodeIdentity::Offset { build_id: &[1, 2], offset: 16 }]),
            id(&[function("ab", "c")]),
            id(&[function("a", "bc")]),
            id(&[CodeIdentity::Address { module: "a", address: 16 }]),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        let (number, digest) = &all[3];
        assert_eq!(id(&[offset(16), offset(17)]), (*number, digest.clone()));
        assert!(digest.starts_with(&format!("{number:016x}")), "{digest} {number:x}");
    }
}
