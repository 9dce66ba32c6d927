//! The address of a server and its transport security.

use std::fmt;
use std::str::FromStr;

use super::SessionError;

/// The transport security of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    None,
    /// TLS after an unencrypted request (`ldap://`, StartTLS).
    StartTls,
    /// TLS from the start (`ldaps://`).
    Tls,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its host name or address.
    pub host: String,
    /// Its port; by default 389, or 636 with TLS from the start.
    pub port: u16,
    /// The transport security.
    pub security: Security,
}

impl Server {
    /// The same server with StartTLS, if its URL was `ldap://`.
    #[must_use]
    pub fn with_start_tls(mut self) -> Self {
        if self.security == Security::None {
            self.security = Security::StartTls;
        }
        self
    }
}

impl FromStr for Server {
    type Err = SessionError;

    /// Parses `ldap://host:port` or `ldaps://host:port`. An IPv6 address must be in brackets.
    fn from_str(url: &str) -> Result<Self, SessionError> {
        let wrong = || SessionError::Url(url.rsplit_once('@').map_or(url, |(_, after)| after).to_string());
        let (scheme, rest) = url.trim().split_once("://").ok_or_else(wrong)?;
        let (security, default) = match scheme.to_ascii_lowercase().as_str() {
            "ldap" => (Security::None, 389),
            "ldaps" => (Security::Tls, 636),
            _ => return Err(wrong()),
        };
        let place = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(wrong)?;
                (host, if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or_else(wrong)?) })
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        let port = port.map(str::parse).transpose().map_err(|_| wrong())?.unwrap_or(default);
        // A path would be a search base, an `@` would separate a password: neither belongs to a server.
        if host.is_empty() || port == 0 || host.contains(['/', '@', '?', ' ', '[']) {
            return Err(wrong());
        }
        Ok(Server { host: host.to_string(), port, security })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.security == Security::Tls { "ldaps" } else { "ldap" };
        if self.host.contains(':') {
            write!(out, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written() {
        for (url, written) in [
            ("ldap://a", "ldap://a:389"),
            ("LDAPS://a.b/", "ldaps://a.b:636"),
            ("ldap://127.0.0.1:3890", "ldap://127.0.0.1:3890"),
            ("ldap://[::1]", "ldap://[::1]:389"),
            ("ldaps://[::1]:1/", "ldaps://[::1]:1"),
        ] {
            let server: Server = url.parse().unwrap();
            assert_eq!(server.to_string(), written);
            assert_eq!(written.parse::<Server>().unwrap(), server);
        }
        for url in [
            "",
            "a:389",
            "http://a",
            "ldap://",
            "ldap://:389",
            "ldap://a:",
            "ldap://a:0",
            "ldap://a:65536",
            "ldap://a/dc=b",
            "ldap://me:secret@a",
            "ldap://[::1",
            "ldap://[::1]1",
            "ldapi://%2frun%2fldapi",
        ] {
            assert!(url.parse::<Server>().is_err(), "{url}");
        }
        let server: Server = "ldap://a".parse().unwrap();
        assert_eq!(server.with_start_tls().security, Security::StartTls);
    }
}
