//! A local HTTP server for one user: a secret address, bounded connections, answers from elsewhere.
//!
//! ```text
//!  accept ─► read head ─► gate ─► read body ─► Routes::answer ─► write ─► close
//!            ≤ 16 KiB     token   ≤ 8 MiB      worker threads    from memory or a file
//!            ≤ 10 s       host                 bounded queue     ≤ 30 s without progress
//!                         origin
//!  └────────────────── one thread, poll(2), ≤ 128 connections ─────────────────────────┘
//! ```
//!
//! - **Who may ask.** Only who knows the [`Token`], the first part of each path. Every other request gets the same 404.
//!   The name that the client used (`Host`) must be one of the loopback interface, against DNS rebinding; a page of
//!   another origin is refused, except one origin for the paths that [`Routes::is_for_viewer`] names.
//! - **What it costs.** One connection is one request. One thread does all reading and writing, so that a slow client
//!   waits for itself only. If the table of connections is full, the oldest that has not shown the token is closed.
//!   Bodies and answers in memory share a budget; files are read as clients take them.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod address;
mod answer;
mod connection;
mod event_loop;
mod gate;
mod head;
mod limits;
mod token;
mod workers;

pub use address::{AddressError, ListenAddress};
pub use answer::{Reply, ReplyBody};
pub use event_loop::{ServeError, Server};
pub use limits::ServerLimits;
pub use token::Token;

/// The method of a request that a route answers; `HEAD` is answered as `GET` without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Read.
    Get,
    /// Ask with a body.
    Post,
}

/// A request that passed the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRequest {
    /// What is asked.
    pub method: Method,
    /// The path after the token, from `/` on, as sent: percent signs are not decoded. Without the query.
    pub path: String,
    /// Where the client sees this server: `http://127.0.0.1:4000/TOKEN`, without a slash at the end. The port is the
    /// client's: after `ssh -L` it can differ from ours.
    pub base: String,
    /// The body, at most [`ServerLimits::body_bytes`].
    pub body: Vec<u8>,
}

/// What is served. Called on worker threads, several at once.
pub trait Routes: Send + Sync + 'static {
    /// Whether the viewer's origin ([`Server::allow_origin`]) may read the path.
    fn is_for_viewer(&self, path: &str) -> bool;

    /// The answer.
    fn answer(&self, request: &ClientRequest) -> Reply;
}
