//! Checks the head of a request before its body is read: who sends it, and from where.
//!
//! Every web page in a browser on this host can reach a service on the loopback interface. A page cannot set
//! `Content-Type: application/scim+json`, hide its `Origin`, or use another `Host` than the name that it came
//! from.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN, TRANSFER_ENCODING};
use hyper::http::HeaderValue;
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Method, Uri};
use subtle::ConstantTimeEq as _;

use super::service::Refusal;
use super::{Options, StartError};

/// The rules of one service.
pub(super) struct Guard {
    token: Option<String>,
    /// Names and addresses by which clients may address the service.
    hosts: Vec<String>,
}

impl Guard {
    pub(super) fn new(options: &Options) -> Result<Guard, StartError> {
        let token = options.token.clone();
        let is_usable =
            |token: &String| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !token.as_ref().is_none_or(is_usable) {
            return Err(StartError::UnusableToken);
        }
        let listen = options.listen.rsplit_once(':').map_or(&*options.listen, |(host, _)| host);
        let hosts = options.hosts.iter().map(String::as_str).chain([listen]);
        Ok(Guard { token, hosts: hosts.map(|host| bare(host).to_string()).collect() })
    }

    /// Checks the head of a request. `local` is the address of this host that the client connected to.
    pub(super) fn check(&self, head: &Parts, local: IpAddr) -> Result<(), Refusal> {
        if head.headers.contains_key(TRANSFER_ENCODING) {
            return Err(Refusal::plain(411, "a request states its Content-Length"));
        }
        let host = self.host(head, local)?;
        if let Some(origin) = only(head, &ORIGIN).map_err(|()| foreign())?
            && !is_same(origin, &host)
        {
            return Err(foreign());
        }
        self.token(head)
    }

    /// Checks that a body is JSON, which a form of a web page cannot send.
    pub(super) fn check_content_type(&self, head: &Parts) -> Result<(), Refusal> {
        let has_body = matches!(head.method, Method::POST | Method::PUT | Method::PATCH);
        if has_body && !only(head, &CONTENT_TYPE).is_ok_and(|kind| kind.is_some_and(is_json)) {
            return Err(Refusal::plain(415, "Content-Type is not application/scim+json or application/json"));
        }
        Ok(())
    }

    /// The host in the request, which must be this one. Any other name may belong to a web page that resolves
    /// it to this host (DNS rebinding).
    fn host(&self, head: &Parts, local: IpAddr) -> Result<Authority, Refusal> {
        let host = only(head, &HOST).ok().flatten().and_then(|value| authority(value.to_str().ok()?));
        let host = host.ok_or_else(|| Refusal::plain(400, "the request has no Host, or several"))?;
        // The URL may also contain a host.
        for named in head.uri.authority().into_iter().chain([&host]) {
            if !self.is_ours(bare(named.host()), local) {
                return Err(Refusal::plain(
                    421,
                    "Host is not this service: use its address, localhost, or a name that it was started with",
                ));
            }
        }
        Ok(host)
    }

    fn is_ours(&self, host: &str, local: IpAddr) -> bool {
        let local = local.to_canonical();
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
            || match host.parse::<IpAddr>() {
                Ok(address) => address.to_canonical() == local,
                Err(_) => local.is_loopback() && host.eq_ignore_ascii_case("localhost"),
            }
    }

    fn token(&self, head: &Parts) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let shown = only(head, &AUTHORIZATION).ok().flatten().and_then(|value| {
            let (scheme, shown) = value.as_bytes().split_at_checked("Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then_some(shown)
        });
        // A comparison in constant time; otherwise the token could be guessed character by character.
        if shown.is_some_and(|shown| shown.ct_eq(token.as_bytes()).into()) {
            Ok(())
        } else {
            Err(Refusal::plain(401, "the token is missing or wrong"))
        }
    }
}

fn foreign() -> Refusal {
    Refusal::plain(403, "the request comes from a web page of another origin")
}

/// A header that must not be repeated.
fn only<'a>(head: &'a Parts, name: &HeaderName) -> Result<Option<&'a HeaderValue>, ()> {
    let mut values = head.headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() { Err(()) } else { Ok(value) }
}

fn authority(text: &str) -> Option<Authority> {
    text.parse().ok().filter(|_| !text.contains('@'))
}

/// An IPv6 address without brackets.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Whether an origin is this service, possibly behind a TLS proxy.
fn is_same(origin: &HeaderValue, host: &Authority) -> bool {
    let origin = origin.to_str().ok().filter(|text| !text.contains('@'));
    let Some(origin) = origin.and_then(|text| text.parse::<Uri>().ok()) else { return false };
    let port = match origin.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return false,
    };
    origin.authority().is_some_and(|origin| {
        origin.host().eq_ignore_ascii_case(host.host())
            && origin.port_u16().unwrap_or(port) == host.port_u16().unwrap_or(port)
    })
}

fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    ["application/scim+json", "application/json"].iter().any(|known| known.eq_ignore_ascii_case(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status with which a service at `listen` rejects a request with these headers; 0 if it accepts it.
    fn refused(listen: &str, local: &str, headers: &[(&str, &str)]) -> u16 {
        let options =
            Options { listen: listen.into(), hosts: vec!["id.plim.example".into()], ..Options::new("") };
        let guard = Guard::new(&options).unwrap();
        let mut request = hyper::Request::builder().uri("/Users");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        guard.check(&head, local.parse().unwrap()).map_or_else(|refusal| refusal.status, |()| 0)
    }

    #[test]
    fn a_service_answers_to_its_address_and_its_names() {
        for (listen, local, host, status) in [
            ("127.0.0.1:80", "127.0.0.1", "127.0.0.1", 0),
            ("127.0.0.1:80", "127.0.0.1", "127.0.0.1:4711", 0),
            ("127.0.0.1:80", "127.0.0.1", "localhost", 0),
            ("127.0.0.1:80", "127.0.0.1", "id.plim.example", 0),
            ("127.0.0.1:80", "127.0.0.1", "ID.plim.example:443", 0),
            ("127.0.0.1:80", "127.0.0.1", "x.plim.example", 421),
            ("127.0.0.1:80", "127.0.0.1", "127.0.0.2", 421),
            ("[::1]:80", "::1", "[::1]:80", 0),
            ("[::1]:80", "::1", "localhost:80", 0),
            ("[::]:80", "::ffff:10.0.0.1", "10.0.0.1:80", 0),
            ("0.0.0.0:80", "10.0.0.1", "10.0.0.1:80", 0),
            ("0.0.0.0:80", "10.0.0.1", "10.0.0.2:80", 421),
            ("0.0.0.0:80", "10.0.0.1", "localhost", 421),
            ("scim.plim.example:80", "10.0.0.1", "scim.plim.example:80", 0),
            ("127.0.0.1:80", "127.0.0.1", "user@127.0.0.1", 400),
        ] {
            assert_eq!(refused(listen, local, &[("host", host)]), status, "{listen} {host}");
        }
    }

    #[test]
    fn an_origin_is_the_same_with_tls_before_the_service() {
        for (host, origin, status) in [
            ("id.plim.example", "https://id.plim.example", 0),
            ("id.plim.example:8443", "https://id.plim.example:8443", 0),
            ("id.plim.example", "http://id.plim.example:80", 0),
            ("id.plim.example", "https://id.plim.example:8443", 403),
            ("id.plim.example", "ftp://id.plim.example", 403),
            ("id.plim.example", "id.plim.example", 403),
        ] {
            let headers = [("host", host), ("origin", origin)];
            assert_eq!(refused("127.0.0.1:80", "127.0.0.1", &headers), status, "{host} {origin}");
        }
    }

    #[test]
    fn a_token_that_no_header_can_carry_is_refused() {
        for token in ["", " ", "a b", "a\n", "é"] {
            let options = Options { token: Some(token.into()), ..Options::new("") };
            assert!(matches!(Guard::new(&options), Err(StartError::UnusableToken)), "{token:?}");
        }
    }
}
