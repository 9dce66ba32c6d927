//! Absolute links of a page to the target, which must lead to the proxy instead.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame};
use hyper::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, HeaderMap};

use crate::Origin;
use crate::tee::Tee;

/// Types of bodies that contain links.
const TYPES: [&str; 6] = ["html", "xml", "css", "javascript", "ecmascript", "json"];

/// How the slashes of a link are written: as they are, and in JSON and scripts.
const SLASHES: [&[u8]; 2] = [b"//", b"\\/\\/"];

/// Whether a response with these header fields contains links.
pub(crate) fn may_have_links(fields: &HeaderMap) -> bool {
    let kind = fields.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().to_ascii_lowercase();
    // A part of a body, and a compressed one, stay what they are.
    TYPES.iter().any(|part| kind.contains(part))
        && !fields.contains_key(CONTENT_ENCODING)
        && !fields.contains_key(CONTENT_RANGE)
}

/// Replaces the target in the links of a text that comes in pieces.
struct Rewriter {
    /// How links name the target, from the slashes: with its port, and without if that is the one of the scheme.
    names: Vec<(&'static [u8], Vec<u8>)>,
    scheme: &'static [u8],
    own: Vec<u8>,
    /// The end of the text so far, if a link may begin there, and the byte before it.
    held: Vec<u8>,
    before: Option<u8>,
}

/// What a text begins with.
enum Found {
    /// The target in a link: the slashes, and the length with its name.
    Link(&'static [u8], usize),
    /// Perhaps such a link: the text ends too early.
    Perhaps,
    Other,
}

/// Whether a host or a port goes on with this byte.
fn goes_on(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-_:".contains(&byte)
}

impl Rewriter {
    fn new(own: &Origin, target: &Origin) -> Rewriter {
        let authorities = [format!("{}:{}", target.host, target.port), target.authority()];
        let names = SLASHES.into_iter().flat_map(|slashes| {
            authorities.iter().map(move |authority| (slashes, [slashes, authority.as_bytes()].concat()))
        });
        Rewriter {
            names: names.collect(),
            scheme: if target.is_tls { b"https:" } else { b"http:" },
            own: own.authority().into_bytes(),
            held: Vec::new(),
            before: None,
        }
    }

    /// What a text begins with, from the slashes.
    fn find(&self, text: &[u8], ends: bool) -> Found {
        let mut found = Found::Other;
        for (slashes, name) in &self.names {
            let common = name.len().min(text.len());
            if !name[..common].eq_ignore_ascii_case(&text[..common]) {
                continue;
            }
            match text.get(name.len()) {
                Some(byte) if goes_on(*byte) => {}
                None if !ends => found = Found::Perhaps,
                None if common < name.len() => {}
                _ => return Found::Link(slashes, name.len()),
            }
        }
        found
    }

    /// Takes a piece of the text, the last one if it `ends`. Returns what can be passed on.
    fn rewrite(&mut self, piece: &[u8], ends: bool) -> Vec<u8> {
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(piece);
        let mut out = Vec::with_capacity(held.len() + self.own.len());
        // Up to the first it is in `out`, and from the second it is held.
        let (mut copied, mut passed) = (0, held.len());
        let mut at = 0;
        while at < held.len() {
            if !matches!(held[at], b'/' | b'\\') {
                at += 1;
                continue;
            }
            let before = &held[copied..at];
            let has_scheme = before.ends_with(self.scheme);
            let begin = if has_scheme { at - self.scheme.len() } else { at };
            // Without a scheme, it is that of the page.
            let last = before.last().copied().or(if copied == 0 { self.before } else { Some(b'/') });
            let is_begin = has_scheme || last.is_none_or(|last| b"\"'(=, \t\r\n".contains(&last));
            match self.find(&held[at..], ends) {
                Found::Link(slashes, bytes) if is_begin => {
                    out.extend_from_slice(&held[copied..begin]);
                    out.extend_from_slice(if has_scheme { b"http:" } else { b"" });
                    out.extend_from_slice(slashes);
                    out.extend_from_slice(&self.own);
                    at += bytes;
                    copied = at;
                }
                Found::Perhaps if is_begin => {
                    passed = begin;
                    break;
                }
                _ => at += 1,
            }
        }
        if !ends && passed == held.len() {
            let begins = (1..=self.scheme.len()).rev().map(|length| &self.scheme[..length]);
            let begun = begins.into_iter().find(|begin| held[copied..].ends_with(begin));
            passed -= begun.map_or(0, <[u8]>::len);
        }
        out.extend_from_slice(&held[copied..passed]);
        self.before = out.last().copied().or(self.before);
        held.drain(..passed);
        self.held = held;
        out
    }
}

/// The body of a response whose links lead to the proxy.
pub(crate) struct Links {
    body: Tee,
    rewriter: Rewriter,
    /// What comes behind the rewritten text: trailers.
    trailers: Option<Frame<Bytes>>,
    has_ended: bool,
}

impl Links {
    pub(crate) fn new(body: Tee, own: &Origin, target: &Origin) -> Links {
        let has_ended = body.is_end_stream();
        Links { body, rewriter: Rewriter::new(own, target), trailers: None, has_ended }
    }
}

impl Body for Links {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let links = &mut *self;
        while !links.has_ended {
            let rewritten = match ready!(Pin::new(&mut links.body).poll_frame(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        links.has_ended = links.body.is_end_stream();
                        links.rewriter.rewrite(&data, links.has_ended)
                    }
                    Err(trailers) => {
                        links.trailers = Some(trailers);
                        continue;
                    }
                },
                None => {
                    links.has_ended = true;
                    links.rewriter.rewrite(b"", true)
                }
            };
            if !rewritten.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(rewritten.into()))));
            }
        }
        Poll::Ready(links.trailers.take().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended && self.trailers.is_none()
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::parse(text).unwrap()
    }

    /// The text in pieces of this size.
    fn rewritten(target: &str, text: &str, size: usize) -> String {
        let mut rewriter = Rewriter::new(&origin("http://127.0.0.1:8888"), &origin(target));
        let mut out = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            out.extend(rewriter.rewrite(piece, false));
        }
        out.extend(rewriter.rewrite(b"", true));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn links_to_the_target_lead_to_the_proxy() {
        let secure = "https://shop.example";
        for (target, text, expected) in [
            (secure, "<a href=\"https://shop.example/a\">", "<a href=\"http://127.0.0.1:8888/a\">"),
            (secure, "<a href='https://SHOP.example:443'>", "<a href='http://127.0.0.1:8888'>"),
            (secure, "url(//shop.example/x.png)", "url(//127.0.0.1:8888/x.png)"),
            (secure, r#"{"next":"https:\/\/shop.example\/b"}"#, r#"{"next":"http:\/\/127.0.0.1:8888\/b"}"#),
            (secure, "https://shop.example", "http://127.0.0.1:8888"),
            (
                secure,
                "https://shop.example/ https://shop.example/",
                "http://127.0.0.1:8888/ http://127.0.0.1:8888/",
            ),
            (
                "http://10.0.0.1:8080",
                "http://10.0.0.1:8080/a http://10.0.0.1/b",
                "http://127.0.0.1:8888/a http://10.0.0.1/b",
            ),
        ] {
            for size in [1, 2, 7, 1000] {
                assert_eq!(rewritten(target, text, size), expected, "{size}");
            }
        }
        for other in [
            "https://shop.example.org/",
            "http://shop.example/",
            "https://my.shop.example/",
            "https://shop.example:8443/",
            "wss://shop.example/",
            "see /a//shop.example/",
            "https://shop.exampl",
            "/",
            "",
        ] {
            for size in [1, 3, 1000] {
                assert_eq!(rewritten(secure, other, size), other, "{size}");
            }
        }
    }

    #[test]
    fn only_texts_have_links() {
        for (fields, expected) in [
            (vec![("content-type", "text/html; charset=utf-8")], true),
            (vec![("content-type", "application/xhtml+xml")], true),
            (vec![("content-type", "application/json")], true),
            (vec![("content-type", "image/png")], false),
            (vec![("content-type", "text/html"), ("content-encoding", "gzip")], false),
            (vec![("content-type", "text/html"), ("content-range", "bytes 0-9/100")], false),
            (vec![], false),
        ] {
            let pairs = fields.iter();
            let map: HeaderMap = pairs
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            assert_eq!(may_have_links(&map), expected, "{fields:?}");
        }
    }
}
