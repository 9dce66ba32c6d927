//! An entry of `watch` that names an exporter: `[NAME=]URL [OPTION...]`.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model::experiment::{watched_host, watched_url};
use model::problem::near_word;
use model::{Nanos, SECOND, quantity};

/// The time limit of a scrape without the option `timeout`, that of Prometheus.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The limits of the options `every` and `timeout`.
const EVERY_MIN: Nanos = 100 * model::MILLISECOND;
const EVERY_MAX: Nanos = 600 * SECOND;
const TIMEOUT_MAX: Nanos = 600 * SECOND;

const OPTIONS: [&str; 7] = ["user", "token", "ca", "insecure", "timeout", "every", "password"];
const EXAMPLE: &str = "write [NAME=]http://HOST:PORT/metrics, then options such as user=NAME, token=TEXT, ca=FILE, insecure, \
     timeout=10s, every=1s, and password=TEXT as the last one";

/// An exporter, and how it is scraped.
pub(super) struct Exporter {
    /// The host that its counters are shown with.
    pub(super) host: String,
    /// The URL without user and password.
    pub(super) url: String,
    /// The value of the header field `Authorization`.
    pub(super) authorization: Option<String>,
    pub(super) ca: Option<PathBuf>,
    /// Whether any certificate is accepted, and a password may be sent without TLS.
    pub(super) insecure: bool,
    pub(super) timeout: Duration,
    /// The shortest time from one scrape to the next.
    pub(super) every: Nanos,
}

impl Exporter {
    /// Parses an entry. Placeholders of secrets may not be replaced yet.
    ///
    /// # Errors
    /// The problem without secrets, and what to write.
    pub(super) fn parse(entry: &str) -> Result<Exporter, (String, String)> {
        let wrong = |what: &str| (what.to_string(), EXAMPLE.to_string());
        let host = watched_host(entry).unwrap_or_default();
        if host.is_empty() || host.len() > 255 || host.contains(['{', '}', '/', ',', '"', '$']) {
            return Err(wrong("an exporter is watched by its URL, with a host"));
        }
        let text = watched_url(entry).unwrap_or_default();
        let (url, mut rest) = text.split_at(word_bytes(text));
        let (scheme, after) = url.split_once("://").unwrap_or_default();
        let end = after.find(['/', '?', '#']).filter(|_| !after.contains("${"));
        let (authority, path) = after.split_at(end.unwrap_or_else(|| authority_bytes(after)));
        let (userinfo, address) = authority.rsplit_once('@').map_or((None, authority), |(a, b)| (Some(a), b));
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
        let is_clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if address.is_empty() || !is_clean(address) || !is_clean(&path) {
            return Err(wrong("the URL of an exporter has a host, and only visible ASCII characters"));
        }
        let mut exporter = Exporter {
            host: host.to_string(),
            url: format!("{scheme}://{address}{path}"),
            authorization: None,
            ca: None,
            insecure: false,
            timeout: TIMEOUT,
            every: SECOND,
        };
        let (mut user, mut password, mut token) = (None, None, None);
        if let Some(info) = userinfo {
            let (name, secret) = info.split_once(':').unwrap_or((info, ""));
            (user, password) = (Some(decoded(name)), Some(decoded(secret)));
        }
        while !rest.trim_start().is_empty() {
            rest = rest.trim_start();
            if let Some(text) = rest.strip_prefix("password=") {
                password = Some(text.to_string());
                break;
            }
            let (word, after) = rest.split_at(word_bytes(rest));
            rest = after;
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let duration = |most: Nanos, least: Nanos| {
                let parsed =
                    quantity::parse_duration(value).ok().filter(|time| (least..=most).contains(time));
                parsed.ok_or_else(|| {
                    let range = (quantity::duration(least), quantity::duration(most));
                    wrong(&format!("`{name}` of an exporter is a time from {} to {}", range.0, range.1))
                })
            };
            match name {
                "user" => user = Some(value.to_string()),
                "token" => token = Some(value.to_string()),
                "ca" => exporter.ca = Some(value.into()),
                "insecure" if value.is_empty() => exporter.insecure = true,
                "timeout" => {
                    exporter.timeout = Duration::from_nanos(duration(TIMEOUT_MAX, model::MILLISECOND)?)
                }
                "every" => exporter.every = duration(EVERY_MAX, EVERY_MIN)?,
                _ => {
                    // The word may be a part of a secret.
                    let near = near_word(name, OPTIONS)
                        .map_or(String::new(), |near| format!(": did you mean `{near}`?"));
                    return Err(wrong(&format!("an option of an exporter is not known{near}")));
                }
            }
        }
        exporter.authorization = match (token, user, password) {
            (None, None, None) => None,
            (Some(token), None, None) => Some(format!("Bearer {token}")),
            (None, Some(user), password) => {
                let both = format!("{user}:{}", password.unwrap_or_default());
                Some(format!("Basic {}", BASE64_STANDARD.encode(both)))
            }
            (None, None, Some(_)) => return Err(wrong("an exporter has a password and no user")),
            (Some(_), ..) => return Err(wrong("an exporter has a token, and a user or password")),
        };
        let is_sent_open = scheme == "http" && !exporter.insecure && !is_loopback(address);
        if exporter.authorization.is_some() && is_sent_open {
            let what = format!("the password or token of {host} would be sent without TLS");
            return Err((what, "write https://, or add the option insecure".into()));
        }
        Ok(exporter)
    }
}

/// The length of the first word. A placeholder such as `${prompt:My token}` may contain blanks.
fn word_bytes(text: &str) -> usize {
    let mut at = 0;
    while let Some(next) = text[at..].find([' ', '$']) {
        at += next;
        match text[at..].strip_prefix("${").and_then(|inside| inside.find('}')) {
            Some(end) => at += end + 3,
            None if text[at..].starts_with(' ') => return at,
            None => at += 1,
        }
    }
    text.len()
}

/// The length of the authority. A placeholder in it may contain a slash.
fn authority_bytes(text: &str) -> usize {
    let from = text.rfind('}').map_or(0, |at| at + 1);
    text[from..].find(['/', '?', '#']).map_or(text.len(), |at| from + at)
}

fn is_loopback(address: &str) -> bool {
    let host = match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => address,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A part of a URL without its percent-encoding. What is no encoding stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_what_is_scraped_and_how() {
        let parse = |entry: &str| Exporter::parse(entry).map_err(|(what, _)| what).unwrap();
        let plain = parse("http://db1:9100/metrics");
        assert_eq!((plain.host.as_str(), plain.url.as_str()), ("db1:9100", "http://db1:9100/metrics"));
        assert_eq!((plain.timeout, plain.every, plain.authorization), (TIMEOUT, SECOND, None));
        let full = parse("db1=https://10.0.0.5?a=b#c ca=my.pem timeout=3s every=5s user=me password=a b=c ");
        assert_eq!((full.host.as_str(), full.url.as_str()), ("db1", "https://10.0.0.5/?a=b"));
        assert_eq!((full.timeout, full.every), (Duration::from_secs(3), 5 * SECOND));
        assert_eq!(full.ca, Some("my.pem".into()));
        // "me:a b=c ".
        assert_eq!(full.authorization.as_deref(), Some("Basic bWU6YSBiPWMg"));
        for (entry, authorization) in [
            ("http://me:p%40w@127.0.0.1/m", "Basic bWU6cEB3"),
            ("https://me:pw@db1", "Basic bWU6cHc="),
            ("https://db1 token=abc", "Bearer abc"),
            ("http://db1/m insecure token=abc", "Bearer abc"),
            ("http://[::1]:9100/m token=${prompt:My token}", "Bearer ${prompt:My token}"),
            ("https://me:${file:/a b/c}@db1:9100/m", "Basic bWU6JHtmaWxlOi9hIGIvY30="),
        ] {
            assert_eq!(parse(entry).authorization.as_deref(), Some(authorization), "{entry}");
        }
        assert_eq!(parse("https://me:${file:/a b/c}@db1:9100/m").url, "https://db1:9100/m");
    }

    #[test]
    fn what_is_wrong_is_said_without_secrets() {
        for (entry, expected) in [
            ("http://", "an exporter is watched by its URL, with a host"),
            ("http://db1/ä", "the URL of an exporter has a host, and only visible ASCII characters"),
            ("http://db1/m tokn=S3CRET", "an option of an exporter is not known: did you mean `token`?"),
            ("http://db1/m S3CRET", "an option of an exporter is not known"),
            ("http://db1/m timeout=1h", "`timeout` of an exporter is a time from 1ms to 10m"),
            ("http://db1/m every=1ms", "`every` of an exporter is a time from 100ms to 10m"),
            ("http://me:S3CRET@db1/m", "the password or token of db1 would be sent without TLS"),
            ("https://db1/m password=S3CRET", "an exporter has a password and no user"),
            ("https://me:S3CRET@db1/m token=S3CRET", "an exporter has a token, and a user or password"),
        ] {
            let (what, help) = Exporter::parse(entry).err().unwrap();
            assert_eq!(what, expected, "{entry}");
            assert!(!help.contains("S3CRET"));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_entry_is_a_panic(rest in "([a-z]{1,8}=)?https?://\\PC{0,40}( [a-z]{2,8}=\\PC{0,8}){0,3}") {
            let _ = Exporter::parse(&rest);
        }
    }
}
