//! A request as HTTP/2 sends it, made from its text in HTTP/1.1: there is one writer of requests.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Uri};

use crate::http::response::FIELDS_MAX;

/// Field names that belong to a connection of HTTP/1.1, and Host, whose value is `:authority` (RFC 9113 section 8.2.2).
const DROPPED: [&str; 8] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "te",
    "http2-settings",
];

/// A request and its body.
#[derive(Clone, Debug)]
pub(super) struct Http2Request {
    pub(super) head: Request<()>,
    pub(super) body: Bytes,
}

impl Http2Request {
    /// Converts a request of HTTP/1.1. None if it has a target, a host or a field that cannot be sent.
    pub(super) fn convert(text: &[u8], is_tls: bool) -> Option<Http2Request> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut fields);
        let httparse::Status::Complete(head_bytes) = parsed.parse(text).ok()? else { return None };
        let mut headers = HeaderMap::with_capacity(parsed.headers.len());
        let mut host = None;
        for field in parsed.headers.iter() {
            match DROPPED.iter().position(|dropped| field.name.eq_ignore_ascii_case(dropped)) {
                Some(0) => host = Some(field.value),
                Some(_) => {}
                None => {
                    let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
                    headers.append(name, HeaderValue::from_bytes(field.value).ok()?);
                }
            }
        }
        let mut parts = Parts::default();
        parts.scheme = Some(if is_tls { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(Authority::try_from(host?).ok()?);
        parts.path_and_query = Some(path_and_query(parsed.path?)?);
        let mut head = Request::new(());
        *head.method_mut() = Method::from_bytes(parsed.method?.as_bytes()).ok()?;
        *head.uri_mut() = Uri::from_parts(parts).ok()?;
        *head.headers_mut() = headers;
        Some(Http2Request { head, body: Bytes::copy_from_slice(text.get(head_bytes..)?) })
    }
}

/// A target. Characters that are not those of a URL are percent-encoded, as browsers do.
fn path_and_query(target: &str) -> Option<PathAndQuery> {
    PathAndQuery::try_from(target).ok().or_else(|| {
        let mut encoded = String::with_capacity(target.len() + 8);
        for byte in target.bytes() {
            match byte {
                b'<' | b'>' | b'`' | b'"' | b'\\' | b'^' | b'{' | b'|' | b'}' | 0x7f.. => {
                    encoded.push_str(&format!("%{byte:02X}"));
                }
                _ => encoded.push(char::from(byte)),
            }
        }
        PathAndQuery::try_from(encoded).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_http1_becomes_one_of_http2() {
        let text = "POST /a<b>?q=\u{e9} HTTP/1.1\r\nHost: a:81\r\nX-One: 1\r\nCONNECTION: close\r\nAccept: */*\r\n\
                    Keep-Alive: 3\r\nx-one:  2 \r\nContent-Length: 3\r\n\r\nb\r\n";
        let request = Http2Request::convert(text.as_bytes(), true).unwrap();
        assert_eq!(request.head.method(), "POST");
        assert_eq!(request.head.uri().to_string(), "https://a:81/a%3Cb%3E?q=%C3%A9");
        let fields: Vec<(&str, &[u8])> =
            request.head.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let expected: [(&str, &[u8]); 4] =
            [("x-one", b"1"), ("x-one", b"2"), ("accept", b"*/*"), ("content-length", b"3")];
        assert_eq!(fields, expected);
        assert_eq!(&request.body[..], b"b\r\n");
        for text in
            ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a"]
        {
            assert!(Http2Request::convert(text.as_bytes(), false).is_none(), "{text:?}");
        }
    }
}
