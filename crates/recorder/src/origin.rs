//! Scheme, host and port of a server.

use std::fmt;

use hyper::Uri;

/// A server that is reached over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whether the scheme is https.
    pub is_tls: bool,
    /// The host in lower case: a name, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Origin {
    /// Parses `http://HOST[:PORT]` or `https://HOST[:PORT]`, with nothing behind it but a slash.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Origin, String> {
        // A user name can be followed by a password.
        if text.contains('@') {
            return Err("a target has no user name: the client sends its credentials itself".into());
        }
        let (origin, rest) =
            Origin::split(text).ok_or_else(|| format!("`{text}` is not http://HOST[:PORT] or https://"))?;
        match rest {
            "" | "/" => Ok(origin),
            _ => Err(format!("`{text}` has a path: name only the server, such as {origin}")),
        }
    }

    /// The origin that an absolute URL begins with, and the rest of the URL.
    pub(crate) fn split(text: &str) -> Option<(Origin, &str)> {
        let begin = text.find("://")? + 3;
        let after = text.get(begin..)?;
        let end = begin + after.find(['/', '?', '#']).unwrap_or(after.len());
        let (origin, rest) = text.split_at(end);
        let uri: Uri = origin.parse().ok()?;
        let is_tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty() && !origin.contains('@'))?;
        let port = match uri.port() {
            Some(port) => Some(port.as_u16()).filter(|port| *port > 0)?,
            // A port that is no number.
            None if uri.authority()?.as_str() != host => return None,
            None if is_tls => 443,
            None => 80,
        };
        Some((Origin { is_tls, host: host.to_ascii_lowercase(), port }, rest))
    }

    /// The value of the field `Host`: without the port if it is that of the scheme.
    pub fn authority(&self) -> String {
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => self.host.clone(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }

    /// The host without the brackets of an IPv6 address.
    pub(crate) fn name(&self) -> &str {
        bare(&self.host)
    }
}

/// A host without the brackets of an IPv6 address.
pub(crate) fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        for (text, expected) in [
            ("http://127.0.0.1:8080", Ok("http://127.0.0.1:8080")),
            ("HTTP://Shop.Example/", Ok("http://shop.example")),
            ("https://shop.example:443", Ok("https://shop.example")),
            ("https://[::1]:8443/", Ok("https://[::1]:8443")),
            (
                "http://shop/path",
                Err("`http://shop/path` has a path: name only the server, such as http://shop"),
            ),
            ("shop:80", Err("`shop:80` is not http://HOST[:PORT] or https://")),
            ("ftp://shop", Err("`ftp://shop` is not http://HOST[:PORT] or https://")),
            ("http://shop:0", Err("`http://shop:0` is not http://HOST[:PORT] or https://")),
            ("http://shop:99999", Err("`http://shop:99999` is not http://HOST[:PORT] or https://")),
            ("http://", Err("`http://` is not http://HOST[:PORT] or https://")),
            ("http://me:pw@shop", Err("a target has no user name: the client sends its credentials itself")),
        ] {
            let found = Origin::parse(text).map(|origin| origin.to_string());
            assert_eq!(found, expected.map(String::from).map_err(String::from), "{text}");
        }
    }
}
