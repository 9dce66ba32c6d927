//! The cookie jar of one virtual user (RFC 6265), without a list of public suffixes.

use super::date::cookie_date;
use crate::http::url::Origin;

/// Most cookies of one user; then the oldest is dropped.
const COOKIES_MAX: usize = 100;

/// The longest name and value together; longer cookies are ignored, as browsers do.
const COOKIE_BYTES_MAX: usize = 4096;

/// A cookie.
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    domain: String,
    /// Whether it is sent to `domain` only, not to hosts below it.
    is_host_only: bool,
    path: String,
    is_secure: bool,
    /// Seconds since 1970; none for a cookie of the session.
    expires_s: Option<i64>,
}

/// The cookies of one user, the oldest first.
#[derive(Default)]
pub(super) struct Jar(Vec<Cookie>);

impl Jar {
    /// Removes all cookies.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Stores the cookie of a field Set-Cookie. An invalid one, or one of another host, is ignored (section 5.3).
    pub(super) fn store(&mut self, field: &[u8], origin: &Origin, target: &str, now_s: i64) {
        let Some(cookie) = parse(field, origin, target, now_s) else { return };
        let is_same = |other: &Cookie| {
            other.name == cookie.name && other.domain == cookie.domain && other.path == cookie.path
        };
        let known = self.0.iter().position(is_same);
        if cookie.expires_s.is_some_and(|expires_s| expires_s <= now_s) {
            known.map(|at| self.0.remove(at));
            return;
        }
        match known {
            // The time of creation stays.
            Some(at) => self.0[at] = cookie,
            None => {
                if self.0.len() >= COOKIES_MAX {
                    self.0.remove(0);
                }
                self.0.push(cookie);
            }
        }
    }

    /// Appends the value of the field Cookie for a request; returns whether there is one (section 5.4).
    pub(super) fn write(&self, origin: &Origin, target: &str, now_s: i64, out: &mut Vec<u8>) -> bool {
        let path = target.split('?').next().unwrap_or(target);
        let is_sent = |cookie: &&Cookie| {
            (origin.host == cookie.domain || (!cookie.is_host_only && is_below(&origin.host, &cookie.domain)))
                && path_matches(path, &cookie.path)
                && (!cookie.is_secure || origin.is_tls)
                && cookie.expires_s.is_none_or(|expires_s| expires_s > now_s)
        };
        let mut written = false;
        // Longer paths come first; the jar is small, and nothing is allocated.
        let mut length = self.0.iter().filter(is_sent).map(|cookie| cookie.path.len()).max();
        while let Some(of_length) = length {
            for cookie in self.0.iter().filter(|cookie| cookie.path.len() == of_length).filter(is_sent) {
                if written {
                    out.extend(b"; ");
                }
                out.extend(&cookie.name);
                out.push(b'=');
                out.extend(&cookie.value);
                written = true;
            }
            let shorter = self.0.iter().filter(is_sent).map(|cookie| cookie.path.len());
            length = shorter.filter(|length| *length < of_length).max();
        }
        written
    }
}

/// The value of a cookie in a field Set-Cookie, if it has this name.
pub(super) fn value_in<'a>(field: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let pair = field.split(|byte| *byte == b';').next()?;
    let at = pair.iter().position(|byte| *byte == b'=')?;
    (pair[..at].trim_ascii() == name.as_bytes()).then(|| pair[at + 1..].trim_ascii())
}

/// Parses a field Set-Cookie (section 5.2); none if it is ignored.
fn parse(field: &[u8], origin: &Origin, target: &str, now_s: i64) -> Option<Cookie> {
    if field.iter().any(|byte| *byte < b' ' && *byte != b'\t' || *byte == 0x7f) {
        return None;
    }
    let mut parts = field.split(|byte| *byte == b';');
    let pair = parts.next()?;
    let at = pair.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii());
    if name.is_empty() || name.len() + value.len() > COOKIE_BYTES_MAX {
        return None;
    }
    let mut cookie = Cookie {
        name: name.to_vec(),
        value: value.to_vec(),
        domain: origin.host.clone(),
        is_host_only: true,
        path: default_path(target),
        is_secure: false,
        expires_s: None,
    };
    let mut max_age = None;
    for attribute in parts {
        let at = attribute.iter().position(|byte| *byte == b'=');
        let (name, value) = attribute.split_at(at.unwrap_or(attribute.len()));
        let name = String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase();
        let value = String::from_utf8_lossy(value.strip_prefix(b"=").unwrap_or(value).trim_ascii());
        match name.as_str() {
            "expires" => cookie.expires_s = cookie_date(&value).or(cookie.expires_s),
            "max-age" => max_age = age(&value).or(max_age),
            "domain" => {
                let domain = value.strip_prefix('.').unwrap_or(&value).to_ascii_lowercase();
                if domain.is_empty() {
                    continue;
                }
                if domain != origin.host && !is_below(&origin.host, &domain) {
                    return None;
                }
                // A host that is an address has nothing below it.
                cookie.is_host_only = !domain.contains('.') || is_address(&domain);
                cookie.domain = domain;
            }
            "path" if value.starts_with('/') => cookie.path = value.into_owned(),
            "path" => cookie.path = default_path(target),
            "secure" => cookie.is_secure = true,
            _ => {}
        }
    }
    // Max-Age has precedence over Expires.
    if let Some(age_s) = max_age {
        cookie.expires_s = Some(if age_s <= 0 { i64::MIN } else { now_s.saturating_add(age_s) });
    }
    Some(cookie)
}

/// Max-Age in seconds: digits, perhaps with a minus sign.
fn age(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(if text.starts_with('-') { -1 } else { digits.parse().unwrap_or(i64::MAX) })
}

fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

/// Whether a host is below a domain of at least two labels (section 5.1.3).
fn is_below(host: &str, domain: &str) -> bool {
    !is_address(host)
        && domain.contains('.')
        && host.strip_suffix(domain).is_some_and(|front| front.ends_with('.'))
}

/// The path of a cookie without one (section 5.1.4).
fn default_path(target: &str) -> String {
    let path = target.split('?').next().unwrap_or(target);
    match path.rfind('/') {
        None | Some(0) => "/".into(),
        Some(at) => path[..at].into(),
    }
}

fn path_matches(path: &str, of_cookie: &str) -> bool {
    path.strip_prefix(of_cookie)
        .is_some_and(|rest| rest.is_empty() || of_cookie.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::url::Url;

    /// The field Cookie at a URL after fields were received at another one.
    fn sent(from: &str, fields: &[&str], to: &str, later_s: i64) -> String {
        let (from, to) = (Url::parse(from).unwrap(), Url::parse(to).unwrap());
        let mut jar = Jar::default();
        for field in fields {
            jar.store(field.as_bytes(), &from.origin, &from.target, 1000);
        }
        let mut out = Vec::new();
        jar.write(&to.origin, &to.target, 1000 + later_s, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cookies_go_where_they_belong() {
        for (from, fields, to, later_s, expected) in [
            ("http://a.example/x/y", &["k=v"][..], "http://a.example/x/z?q", 0, "k=v"),
            ("http://a.example/x/y", &["k=v"], "http://a.example/xx", 0, ""),
            ("http://a.example/x/y", &["k=v; Path=/"], "http://a.example/", 0, "k=v"),
            ("http://a.example/x/y", &["k=v; path=foo"], "http://a.example/x", 0, "k=v"),
            ("http://a.example/", &["k=v"], "http://b.a.example/", 0, ""),
            ("http://a.example/", &["k=v; Domain=.A.example"], "http://b.a.example/", 0, "k=v"),
            ("http://a.example/", &["k=v; Domain=b.a.example"], "http://b.a.example/", 0, ""),
            ("http://a.example/", &["k=v; Domain=example"], "http://b.example/", 0, ""),
            ("http://bad-a.example/", &["k=v; Domain=a.example"], "http://a.example/", 0, ""),
            ("http://127.0.0.1/", &["k=v; Domain=0.0.1"], "http://127.0.0.1/", 0, ""),
            ("http://127.0.0.1/", &["k=v; Domain=127.0.0.1"], "http://127.0.0.1:81/", 0, "k=v"),
            ("http://localhost/", &["k=v; Domain=localhost"], "http://localhost/", 0, "k=v"),
            ("https://a.example/", &["k=v; Secure"], "http://a.example/", 0, ""),
            ("https://a.example/", &["k=v; secure; HttpOnly"], "https://a.example/", 0, "k=v"),
            ("http://a.example/", &["k=v; Max-Age=10"], "http://a.example/", 9, "k=v"),
            ("http://a.example/", &["k=v; Max-Age=10"], "http://a.example/", 10, ""),
            ("http://a.example/", &["k=v", "k=; Max-Age=0"], "http://a.example/", 0, ""),
            (
                "http://a.example/",
                &["k=v", "k=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"],
                "http://a.example/",
                0,
                "",
            ),
            (
                "http://a.example/",
                &["k=v; Max-Age=5; Expires=Thu, 01 Jan 1970 00:00:00 GMT"],
                "http://a.example/",
                0,
                "k=v",
            ),
            (
                "http://a.example/",
                &["a=1; Path=/", "b=2; Path=/x", "c=3; Path=/", "a=4; Path=/"],
                "http://a.example/x",
                0,
                "b=2; a=4; c=3",
            ),
            (
                "http://a.example/",
                &["", "novalue", "=v", "a=b=c", "x=\"q\""],
                "http://a.example/",
                0,
                "a=b=c; x=\"q\"",
            ),
            ("http://a.example/", &["k=v\r\nX: y"], "http://a.example/", 0, ""),
        ] {
            assert_eq!(sent(from, fields, to, later_s), expected, "{fields:?} from {from} to {to}");
        }
    }

    #[test]
    fn a_jar_does_not_grow_without_limit() {
        let url = Url::parse("http://a.example/").unwrap();
        let mut jar = Jar::default();
        for number in 0..1000 {
            jar.store(format!("k{number}=v").as_bytes(), &url.origin, &url.target, 0);
        }
        jar.store(&[&b"big="[..], &[b'x'; 5000]].concat(), &url.origin, &url.target, 0);
        assert_eq!(jar.0.len(), COOKIES_MAX);
        assert_eq!(jar.0[0].name, b"k900");
    }

    proptest::proptest! {
        #[test]
        fn no_field_panics(
            field in "(=|;|Domain|Max-Age|Expires|Path|/|\\.|[a-z0-9 ]|\\PC){0,16}",
            target in "/[a-z/?]{0,5}",
        ) {
            let url = Url::parse(&format!("http://a.example{target}")).unwrap();
            let mut jar = Jar::default();
            jar.store(field.as_bytes(), &url.origin, &url.target, 1);
            jar.write(&url.origin, &url.target, 1, &mut Vec::new());
        }
    }
}
