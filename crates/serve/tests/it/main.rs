//! Clients of all kinds against a running server, by real sockets.

#![allow(clippy::unwrap_used, clippy::panic)]

mod gate;
mod harness;
mod load;
