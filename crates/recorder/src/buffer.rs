//! Buffers that lie on the node whose data pass through them.

use pmuscope_machine::place;

use crate::error::RecorderError;
use crate::sys::PageMemory;

/// A buffer on a node.
#[derive(Debug)]
pub(crate) struct Buffer {
    memory: PageMemory,
    used: usize,
    node: Option<u32>,
}

impl Buffer {
    /// A buffer of at least `bytes` bytes whose pages will lie on `node`; `None` leaves it to the
    /// kernel (a machine of one node).
    ///
    /// # Errors
    /// [`RecorderError::Bind`] if the node refuses, [`RecorderError::System`] without memory.
    pub(crate) fn on_node(bytes: usize, node: Option<u32>) -> Result<Self, RecorderError> {
        let mut memory =
            PageMemory::new(bytes).map_err(RecorderError::system("mmap of a buffer"))?;
        if let Some(node) = node {
            place::bind_to_node(&mut memory, node).map_err(|source| RecorderError::Bind {
                kib: bytes / 1024,
                node,
                source,
            })?;
        }
        Ok(Self { memory, used: 0, node })
    }

    /// The node it was made for.
    pub(crate) fn node(&self) -> Option<u32> {
        self.node
    }

    /// Replaces the content; the pieces fit.
    pub(crate) fn fill(&mut self, pieces: &[&[u8]]) {
        self.used = 0;
        for piece in pieces {
            self.memory[self.used..self.used + piece.len()].copy_from_slice(piece);
            self.used += piece.len();
        }
    }

    /// The content.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_on_the_node_that_was_asked_for() {
        let machine = pmuscope_machine::Machine::host();
        let node = machine.topology().unwrap().nodes.last().unwrap().id;
        let mut buffer = match Buffer::on_node(64 << 10, Some(node)) {
            Ok(buffer) => buffer,
            Err(error) => {
                eprintln!("skipped: this kernel or sandbox does not bind memory: {error}");
                return;
            }
        };
        buffer.fill(&[&[1; 30_000], &[2; 30_000]]);
        assert_eq!(buffer.bytes().len(), 60_000);
        let nodes = place::node_of_pages(buffer.bytes()).unwrap();
        assert!(nodes.iter().flatten().all(|found| *found == node), "{nodes:?}");
        assert!(nodes.iter().flatten().count() >= 14);
    }
}
