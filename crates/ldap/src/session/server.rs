//! The address of a server and its transport security.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::str::FromStr;

use super::SessionError;
use crate::text::hex_byte;

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
    /// The path of a local socket (`ldapi://`), which replaces host and port.
    pub socket: Option<PathBuf>,
}

impl Server {
    /// The same server with StartTLS, if its URL was `ldap://`.
    #[must_use]
    pub fn with_start_tls(mut self) -> Self {
        if self.security == Security::None && self.socket.is_none() {
            self.security = Security::StartTls;
        }
        self
    }
}

impl FromStr for Server {
    type Err = SessionError;

    /// Parses `ldap://host:port`, `ldaps://host:port`, or `ldapi://` with the percent-encoded path of a local socket. An IPv6
    /// address must be in brackets.
    fn from_str(url: &str) -> Result<Self, SessionError> {
        let wrong = || SessionError::Url(url.rsplit_once('@').map_or(url, |(_, after)| after).to_string());
        let (scheme, rest) = url.trim().split_once("://").ok_or_else(wrong)?;
        let (security, default) = match scheme.to_ascii_lowercase().as_str() {
            "ldap" => (Security::None, 389),
            "ldaps" => (Security::Tls, 636),
            "ldapi" => {
                let path = decoded(rest.strip_suffix('/').unwrap_or(rest)).ok_or_else(wrong)?;
                let socket = Some(PathBuf::from(OsString::from_vec(path)));
                return Ok(Server { host: String::new(), port: 0, security: Security::None, socket });
            }
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
        Ok(Server { host: host.to_string(), port, security, socket: None })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.socket {
            out.write_str("ldapi://")?;
            for byte in path.as_os_str().as_bytes() {
                match byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
                    true => write!(out, "{}", char::from(*byte))?,
                    false => write!(out, "%{byte:02x}")?,
                }
            }
            return Ok(());
        }
        let scheme = if self.security == Security::Tls { "ldaps" } else { "ldap" };
        if self.host.contains(':') {
            write!(out, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

/// The bytes of an absolute path that is percent-encoded.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match first {
            b'%' => {
                bytes.push(hex_byte(after)?);
                &after[2..]
            }
            b'/' | b'?' => return None,
            byte => {
                bytes.push(*byte);
                after
            }
        };
    }
    (bytes.first() == Some(&b'/') && !bytes.contains(&0)).then_some(bytes)
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
            ("ldapi://%2Frun%2Fldapi/", "ldapi://%2frun%2fldapi"),
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
            "ldapi://",
            "ldapi://run",
            "ldapi://%2frun/x",
            "ldapi://%2frun%2",
            "ldapi://%2frun%00",
        ] {
            assert!(url.parse::<Server>().is_err(), "{url}");
        }
        let server: Server = "ldap://a".parse().unwrap();
        assert_eq!(server.with_start_tls().security, Security::StartTls);
    }
}
