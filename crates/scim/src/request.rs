//! The path and the query of a request.

use hyper::Uri;
use hyper::http::request::Parts;

use super::service::Refusal;

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET`, `POST`, ...
    pub method: String,
    /// The parts of the path after the base.
    pub path: Vec<String>,
    /// The query parameters.
    pub query: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    pub(super) if_match: Option<String>,
}

impl Request {
    /// A request from its head, without its body.
    pub(super) fn read(head: &Parts) -> Result<Request, Refusal> {
        let (path, query) = target(&head.uri)
            .ok_or_else(|| Refusal::plain(400, "the URL has an escape that is wrong, or is not UTF-8"))?;
        let if_match = head.headers.get(hyper::header::IF_MATCH);
        Ok(Request {
            method: head.method.as_str().into(),
            path,
            query,
            body: Vec::new(),
            // A value that is not text matches no version.
            if_match: if_match.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
        })
    }
}

type Target = (Vec<String>, Vec<(String, String)>);

fn target(uri: &Uri) -> Option<Target> {
    let path = uri.path();
    let path = match path.strip_prefix("/scim/v2") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => path,
    };
    let parts = path.split('/').filter(|part| !part.is_empty()).map(|part| unescaped(part, false));
    let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((unescaped(name, true)?, unescaped(value, true)?))
    });
    Some((parts.collect::<Option<_>>()?, pairs.collect::<Option<_>>()?))
}

/// Decodes percent escapes; none if the result is not UTF-8, or a `%` is not followed by two hexadecimal
/// digits.
fn unescaped(text: &str, is_query: bool) -> Option<String> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let value = digit(bytes.get(at + 1)?)? * 16 + digit(bytes.get(at + 2)?)?;
                plain.push(u8::try_from(value).ok()?);
                at += 2;
            }
            b'+' if is_query => plain.push(b' '),
            byte => plain.push(*byte),
        }
        at += 1;
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_its_parts_without_escapes() {
        let read = |text: &str| target(&text.parse().unwrap());
        let (path, query) = read("/scim/v2/Groups/a%2Fb?filter=userName+eq%20%22%C3%A9%22&count=1").unwrap();
        assert_eq!(path, ["Groups", "a/b"]);
        assert_eq!(query, [("filter".into(), "userName eq \"é\"".into()), ("count".into(), "1".into())]);
        assert_eq!(read("/scim/v2Users").unwrap().0, ["scim", "v2Users"]);
        for wrong in ["/%", "/%4", "/%+1", "/%g0", "/%ff", "/?a=%"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
