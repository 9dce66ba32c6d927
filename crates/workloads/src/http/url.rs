//! URLs of requests, of the setting `url` and of scenarios: origins, references relative to a base, and
//! percent-encoding.

use std::fmt;

use crate::template::percent::encode_invalid;

/// Scheme, host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Whether the scheme is https.
    pub is_tls: bool,
    /// The host in lower case: a name, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Origin {
    /// The value of the header field Host, and of the pseudo-header `:authority`.
    pub fn authority(&self) -> String {
        format!("{self:#}")
    }

    /// The host without the brackets of an IPv6 address, as certificates have it.
    pub(super) fn host_name(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }

    /// `HOST:PORT`, also with the default port of the scheme: the address to connect to.
    pub(super) fn host_and_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn default_port(&self) -> u16 {
        if self.is_tls { 443 } else { 80 }
    }
}

/// The alternate form (`{:#}`) is without the scheme.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            f.write_str(if self.is_tls { "https://" } else { "http://" })?;
        }
        f.write_str(&self.host)?;
        match self.port == self.default_port() {
            true => Ok(()),
            false => write!(f, ":{}", self.port),
        }
    }
}

/// An absolute URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) origin: Origin,
    /// Path and query, from the first slash. Contains visible ASCII characters only.
    pub(super) target: String,
}

/// Why a text is not a URL: the error without secrets, and the advice.
pub(super) type UrlError = (&'static str, &'static str);

const EXAMPLE: &str = "such as \"http://127.0.0.1:8080/\"";

impl Url {
    /// Parses an absolute URL. Characters that a URL cannot contain are percent-encoded.
    pub(super) fn parse(text: &str) -> Result<Url, UrlError> {
        let (origin, rest) = split(text)?;
        let origin = parse_origin(origin)?;
        let mut target = String::new();
        push_target(&mut target, rest);
        Ok(Url { origin, target })
    }

    /// Resolves a reference relative to this URL (RFC 3986 section 5.2); the fragment is dropped.
    pub(super) fn join(&self, reference: &str) -> Result<Url, UrlError> {
        let reference = reference.trim();
        let reference = reference.split('#').next().unwrap_or(reference);
        if has_scheme(reference) {
            return Url::parse(reference);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Url::parse(&format!("{}://{rest}", if self.origin.is_tls { "https" } else { "http" }));
        }
        let (path, query) = self.target.split_at(self.target.find('?').unwrap_or(self.target.len()));
        let merged = match reference.chars().next() {
            None => format!("{path}{query}"),
            Some('/') => reference.to_string(),
            Some('?') => format!("{path}{reference}"),
            Some(_) => format!("{}{reference}", &path[..path.rfind('/').map_or(0, |at| at + 1)]),
        };
        let (path, query) = merged.split_at(merged.find('?').unwrap_or(merged.len()));
        let mut target = String::new();
        push_target(&mut target, &format!("{}{query}", without_dots(path)));
        Ok(Url { origin: self.origin.clone(), target })
    }
}

/// Whether a text begins with a scheme and a colon.
pub(super) fn has_scheme(text: &str) -> bool {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(text.len());
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text[end..].starts_with(':')
}

/// Splits an absolute URL into `SCHEME://AUTHORITY` and the rest without the fragment.
pub(super) fn split(text: &str) -> Result<(&str, &str), UrlError> {
    let Some(at) = text.find("://") else {
        return Err(("the URL has no scheme", "write \"http://HOST:PORT/PATH\""));
    };
    let text = text.split('#').next().unwrap_or(text);
    let end = text.get(at + 3..).unwrap_or("").find(['/', '?']).map_or(text.len(), |end| at + 3 + end);
    Ok(text.split_at(end))
}

/// Parses `SCHEME://HOST[:PORT]`.
pub(super) fn parse_origin(text: &str) -> Result<Origin, UrlError> {
    let (scheme, authority) = text.split_once("://").unwrap_or(("", text));
    let is_tls = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return Err(("the scheme of the URL is not http or https", EXAMPLE)),
    };
    if authority.contains('@') {
        return Err((
            "the URL contains a user name",
            "send it as a header: \"Authorization: Basic ${env:CREDENTIALS}\"",
        ));
    }
    let wrong = ("the URL has no valid host and port", EXAMPLE);
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of an IPv6 address are inside brackets.
        Some((host, port)) if !port.contains(']') => {
            let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            (host, port.parse().ok().filter(|port| is_number && *port > 0).ok_or(wrong)?)
        }
        _ => (authority, if is_tls { 443 } else { 80 }),
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_valid = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
        }
    };
    if !is_valid {
        return Err(wrong);
    }
    Ok(Origin { is_tls, host: host.to_ascii_lowercase(), port })
}

/// Appends path and query, with a slash in front.
fn push_target(out: &mut String, rest: &str) {
    if !rest.starts_with('/') {
        out.push('/');
    }
    let mut bytes = Vec::new();
    encode_invalid(rest.as_bytes(), &mut bytes);
    // Percent-encoded text is ASCII.
    out.push_str(&String::from_utf8_lossy(&bytes));
}

/// Removes the segments `.` and `..` of a path (RFC 3986 section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').collect();
    let last = segments.len() - 1;
    for (at, segment) in segments.iter().enumerate() {
        match *segment {
            "." | ".." => {
                if *segment == ".." && kept.len() > 1 {
                    kept.pop();
                }
                if at == last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    kept.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved() {
        // The examples of RFC 3986 section 5.4, without those of other schemes.
        let base = Url::parse("http://a/b/c/d;p?q").unwrap();
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("https://b:444/x y", "https://b:444/x%20y"),
        ] {
            let url = base.join(reference).unwrap();
            assert_eq!(format!("{}{}", url.origin, url.target), expected, "{reference}");
        }
    }

    #[test]
    fn origin_and_target_are_read() {
        for (text, origin, connected, target) in [
            ("http://a:8080/x/y?z#f", "http://a:8080", "a:8080", "/x/y?z"),
            ("HTTP://A", "http://a", "a:80", "/"),
            ("http://a?q=1", "http://a", "a:80", "/?q=1"),
            ("http://[::1]:81/", "http://[::1]:81", "[::1]:81", "/"),
            ("http://[::1]/", "http://[::1]", "[::1]:80", "/"),
            ("https://a/x", "https://a", "a:443", "/x"),
            ("https://a:80/x", "https://a:80", "a:80", "/x"),
        ] {
            let url = Url::parse(text).unwrap();
            let shown = (url.origin.to_string(), url.origin.host_and_port(), url.target);
            assert_eq!(shown, (origin.into(), connected.into(), target.into()), "{text}");
        }
        assert_eq!(Url::parse("http://[::1]:81/").unwrap().origin.host_name(), "::1");
    }

    #[test]
    fn invalid_urls_are_refused() {
        let wrong = "the URL has no valid host and port";
        for (text, what) in [
            ("", "the URL has no scheme"),
            ("a", "the URL has no scheme"),
            ("ftp://a/", "the scheme of the URL is not http or https"),
            ("http://", wrong),
            ("http:///x", wrong),
            ("http://a:0/", wrong),
            ("http://a:+8/", wrong),
            ("http://a b/", wrong),
            ("http://::1/", wrong),
            ("http://[::1/", wrong),
        ] {
            assert_eq!(Url::parse(text).unwrap_err().0, what, "{text}");
        }
        assert_eq!(Url::parse("http://me:pw@a/").unwrap_err().0, "the URL contains a user name");
        let url = Url::parse("HTTPS://[::1]?a=ü#x").unwrap();
        assert_eq!((url.origin.to_string().as_str(), url.target.as_str()), ("https://[::1]", "/?a=%C3%BC"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(//|\\.\\.|[/?#:.@]|[a-z]|\\PC){0,12}") {
            let base = Url::parse("http://a/b/c?d").unwrap();
            for url in [Url::parse(&text), base.join(&text)].into_iter().flatten() {
                proptest::prop_assert!(url.target.starts_with('/') && url.target.bytes().all(|b| b.is_ascii_graphic()));
            }
        }
    }
}
