//! How much clients may take.

use std::time::Duration;

/// Bounds of everything that a client can make large, many or slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at once, each with one descriptor.
    pub connections: usize,
    /// Bytes of the request line and headers.
    pub head_bytes: usize,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Bytes of all bodies that were announced and all answers in memory together. More bodies are refused.
    pub memory_bytes: usize,
    /// From the connection to the end of its head.
    pub head_time: Duration,
    /// From the end of the head to the end of the body.
    pub body_time: Duration,
    /// Without a byte that the client took of the answer.
    pub write_time: Duration,
    /// Threads that make answers.
    pub workers: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            head_bytes: 16 << 10,
            body_bytes: 8 << 20,
            memory_bytes: 64 << 20,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            write_time: Duration::from_secs(30),
            workers: 3,
        }
    }
}
