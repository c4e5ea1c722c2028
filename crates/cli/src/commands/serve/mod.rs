//! `pmuscope report --serve`: the page, viewers and their questions, over HTTP on this machine only.
//!
//! ```text
//!  browser ─► pmuscope-serve ─► Site ─► /                  links
//!             token, host,             /page.html          the page of -o x.html     made when it is first
//!             origin, limits           /profile.json       Firefox Profiler          asked for, then kept
//!                                      /profile.pb.gz      pprof                     as a file without name
//!                                      /symbolicate/v5 …   pmuscope_profile::code
//! ```

mod site;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::{Form, Format};
use pmuscope_console::say;
use pmuscope_serve::{AddressError, ListenAddress, Routes, Server};

use super::browser::{self, Redirect};
use crate::signals;

pub(super) use site::Site;
use site::VIEWER;

/// Where to listen, as the flag says it; empty: anywhere on this machine.
///
/// # Errors
/// If it is no address, or not of this machine alone.
pub(super) fn address(text: &str) -> anyhow::Result<ListenAddress> {
    match text {
        "" => Ok(ListenAddress::default()),
        text => text.parse().map_err(|error| bad_input(refusal(&error, text))),
    }
}

/// Serves until a signal ends it; `open`: shows the page in a browser too.
pub(super) fn run(address: ListenAddress, site: Site, open: bool) -> anyhow::Result<Exit> {
    let stop = signals::stop_pipe()?;
    let server = Server::bind(address).map_err(bad_input)?.allow_origin(VIEWER);
    let url = server.url();
    Form::new(Format::Text, None).print(&greeting(site.file(), &url, server.address()))?;
    let redirect = open.then(|| show(&url)).flatten();
    let routes: Arc<dyn Routes> = Arc::new(site);
    server.run(&routes, stop.as_fd())?;
    drop(redirect);
    Ok(Exit::Done)
}

/// Why an address is not served on, and what to type.
fn refusal(error: &AddressError, text: &str) -> String {
    match error {
        AddressError::NotLoopback(address) => {
            let port = if address.port() == 0 { 8000 } else { address.port() };
            let local = SocketAddr::from(([127, 0, 0, 1], port));
            format!(
                "--serve={text}: {error}. Try: pmuscope report --serve={port} here, and on the other machine: {}",
                forward(local)
            )
        }
        _ => format!("--serve={text}: {error}. Try: --serve, which takes a free port"),
    }
}

/// What is printed at the start.
fn greeting(file: &str, url: &str, address: SocketAddr) -> String {
    let file = pmuscope_report::escape(file);
    format!(
        "Serving {file} on this machine only; Ctrl-C ends it.\n\
         Open:  {url}\n\
         From another machine, run this there, then open the same address:\n\
         \x20 {}\n",
        forward(address)
    )
}

/// The command that brings the port to another machine.
fn forward(address: SocketAddr) -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let user = user.filter(|name| !name.is_empty()).map(|name| name + "@").unwrap_or_default();
    let (port, ip) = (address.port(), address.ip());
    let ip = match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    format!("ssh -N -L {port}:{ip}:{port} {user}{host}")
}

/// Opens the address; a browser that is not there ends nothing.
fn show(url: &str) -> Option<Redirect> {
    let shown = Redirect::to(&format!("{url}page.html")).map_err(|error| format!("{error:#}"));
    let opened = shown.and_then(|redirect| {
        browser::open(&Path::to_string_lossy(redirect.path()))?;
        Ok(redirect)
    });
    opened.map_err(|why| say!("warning: cannot open a browser: {why}. Try: the address above")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_other_machines_are_refused_with_what_to_type() {
        let refused = |text: &str| refusal(&text.parse::<ListenAddress>().unwrap_err(), text);
        let text = refused("0.0.0.0:9000");
        assert!(text.contains("reachable from other machines"), "{text}");
        assert!(
            text.contains("--serve=9000 here") && text.contains("ssh -N -L 9000:127.0.0.1:9000 "),
            "{text}"
        );
        assert!(refused("nowhere").contains("Try: --serve,"));
        let local = forward("[::1]:70".parse().unwrap());
        assert!(local.starts_with("ssh -N -L 70:[::1]:70 "), "{local}");
    }
}
