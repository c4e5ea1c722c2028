//! Who may ask for what.
//!
//! ```text
//!  token wrong ─► 404, whatever else is right or wrong
//!  Host no loopback name ─► 403          a page reached us by a name that it made point here
//!  Origin: none, or our own address      goes on
//!          the viewer's                  goes on with its headers, for the viewer's paths
//!          any other, also "null" ─► 403
//! ```

use crate::address::is_loopback_host;
use crate::answer::Reply;
use crate::head::RequestHead;
use crate::token::Token;
use crate::{ClientRequest, Method, Routes};

/// How long a browser keeps the answer to a preflight, seconds.
const PREFLIGHT_SECONDS: u32 = 600;

/// What the gate knows.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) token: Token,
    /// The one foreign origin, as browsers send it.
    pub(crate) viewer: Option<&'static str>,
}

/// A request that may go on.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// Without its body.
    pub(crate) request: ClientRequest,
    /// Headers that let the viewer read the answer.
    pub(crate) cross_origin: String,
    /// Only the head of the answer is sent.
    pub(crate) is_head: bool,
}

/// A request that is answered at once.
#[derive(Debug)]
pub(crate) struct EarlyReply {
    pub(crate) answer: Reply,
    pub(crate) cross_origin: String,
    /// The client knows the token.
    pub(crate) knows_token: bool,
}

impl EarlyReply {
    fn new(answer: Reply, knows_token: bool) -> Self {
        Self { answer, cross_origin: String::new(), knows_token }
    }
}

impl Gate {
    /// Whether a request goes on.
    ///
    /// # Errors
    /// What is answered instead.
    pub(crate) fn check(
        &self,
        head: &RequestHead,
        routes: &dyn Routes,
    ) -> Result<Admitted, EarlyReply> {
        let path = head.path.strip_prefix('/').unwrap_or_default();
        let (shown, path) = path.split_at(path.find('/').unwrap_or(path.len()));
        if !self.token.is(shown.as_bytes()) {
            return Err(EarlyReply::new(Reply::not_found(), false));
        }
        let refuse = |status, text| Err(EarlyReply::new(Reply::text(status, text), true));
        let Some(host) = head.host.as_deref().filter(|host| is_loopback_host(host)) else {
            return refuse(403, "use the address 127.0.0.1 or localhost");
        };
        let is_viewer = head.origin.is_some() && head.origin.as_deref() == self.viewer;
        let own = || format!("http://{host}");
        let is_own = head.origin.as_ref().is_none_or(|origin| *origin == own());
        if !(is_own || is_viewer && routes.is_for_viewer(path)) {
            return refuse(403, "requests of other sites are refused");
        }
        let cross_origin = match self.viewer.filter(|_| is_viewer) {
            Some(viewer) => format!("Access-Control-Allow-Origin: {viewer}\r\n"),
            None => String::new(),
        };
        let method = match &*head.method {
            "GET" | "HEAD" => Method::Get,
            "POST" => Method::Post,
            "OPTIONS" if is_viewer => return Err(preflight(head, cross_origin)),
            _ => return refuse(405, "only GET, HEAD and POST"),
        };
        let base = format!("http://{host}/{shown}");
        let request = ClientRequest { method, path: path.to_owned(), base, body: Vec::new() };
        Ok(Admitted { request, cross_origin, is_head: head.method == "HEAD" })
    }
}

/// The answer to a browser that asks what the viewer may do.
fn preflight(head: &RequestHead, mut cross_origin: String) -> EarlyReply {
    cross_origin.push_str("Access-Control-Allow-Methods: GET, POST\r\n");
    cross_origin.push_str("Access-Control-Allow-Headers: Content-Type\r\n");
    cross_origin.push_str(&format!("Access-Control-Max-Age: {PREFLIGHT_SECONDS}\r\n"));
    if head.asks_private_network {
        cross_origin.push_str("Access-Control-Allow-Private-Network: true\r\n");
    }
    let answer = Reply { status: 204, ..Reply::new("text/plain", Vec::new()) };
    EarlyReply { answer, cross_origin, knows_token: true }
}
