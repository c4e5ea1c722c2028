//! Where to listen: only on the loopback interface.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Where to listen. Port 0: any free one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(SocketAddr);

/// Why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Other machines could connect.
    #[error(
        "{0} is reachable from other machines, and what is served has no encryption and no users"
    )]
    NotLoopback(SocketAddr),
    /// It is no address.
    #[error("{0} is no address: expected PORT, 127.0.0.1:PORT or [::1]:PORT")]
    Unknown(String),
}

impl ListenAddress {
    /// The address.
    #[must_use]
    pub fn socket(&self) -> SocketAddr {
        self.0
    }
}

impl Default for ListenAddress {
    /// Any free port of 127.0.0.1.
    fn default() -> Self {
        Self((Ipv4Addr::LOCALHOST, 0).into())
    }
}

/// `PORT`, `:PORT`, `ADDRESS` or `ADDRESS:PORT`; `localhost` is 127.0.0.1.
impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        let localhost = IpAddr::from(Ipv4Addr::LOCALHOST);
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let named =
            text.strip_prefix("localhost").map(|rest| rest.strip_prefix(':').unwrap_or(rest));
        let port_only = named.or(text.strip_prefix(':')).unwrap_or(text);
        let found = if named == Some("") {
            SocketAddr::new(localhost, 0)
        } else if let Ok(port) = port_only.parse::<u16>() {
            SocketAddr::new(localhost, port)
        } else if let Ok(socket) = text.parse::<SocketAddr>() {
            socket
        } else if let Ok(ip) = bare.parse::<IpAddr>() {
            SocketAddr::new(ip, 0)
        } else {
            return Err(AddressError::Unknown(text.to_owned()));
        };
        if found.ip().is_loopback() {
            Ok(Self(found))
        } else {
            Err(AddressError::NotLoopback(found))
        }
    }
}

/// Whether `host`, a `Host` header, is a name or address of the loopback interface; any port.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((ip, port)) if is_port(port) => return ip == "::1",
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether what follows a bracket is nothing or a port.
fn is_port(after: &str) -> bool {
    after.is_empty()
        || after
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_loopback_interface_are_taken_and_no_others() {
        let parsed =
            |text: &str| text.parse::<ListenAddress>().map(|address| address.0.to_string());
        for (text, expected) in [
            ("8000", "127.0.0.1:8000"),
            (":8000", "127.0.0.1:8000"),
            ("localhost", "127.0.0.1:0"),
            ("localhost:8000", "127.0.0.1:8000"),
            ("127.0.0.2", "127.0.0.2:0"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("::1", "[::1]:0"),
            ("[::1]", "[::1]:0"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "192.168.1.2", "[::ffff:127.0.0.1]:1"]
        {
            assert!(matches!(parsed(text), Err(AddressError::NotLoopback(_))), "{text}");
        }
        for text in ["", "x", "localhost.example.com:1", "127.0.0.1:99999", "-1", "localhosts"] {
            assert!(matches!(parsed(text), Err(AddressError::Unknown(_))), "{text}");
        }
    }

    #[test]
    fn hosts_are_loopback_names_and_addresses_with_any_port() {
        for host in ["localhost", "LocalHost:1", "127.0.0.1:80", "127.1.2.3", "[::1]", "[::1]:80"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "0.0.0.0",
            "[::2]:1",
            "[::1].evil",
            "[::1",
            "127.1",
            "2130706433",
            "localhost:80:80",
            "localhost:x",
            "user@localhost",
            "127.0.0.1:80@evil.example",
            "localhost.",
        ] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
