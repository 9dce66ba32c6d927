//! Header fields on their way through the proxy.

use hyper::HeaderMap;
use hyper::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_ORIGIN, CONNECTION, CONTENT_LOCATION, EXPECT, HOST, HeaderName,
    HeaderValue, LOCATION, ORIGIN, REFERER, SET_COOKIE, TE, TRANSFER_ENCODING, UPGRADE,
};

use crate::Origin;

/// Fields of a connection, besides those that `Connection` names (RFC 9110 section 7.6.1).
const OF_CONNECTION: [HeaderName; 4] = [CONNECTION, TE, TRANSFER_ENCODING, UPGRADE];

/// Such fields without a constant.
const OF_CONNECTION_TOO: [&str; 2] = ["keep-alive", "proxy-connection"];

/// Removes the fields of a connection.
fn remove_of_connection(fields: &mut HeaderMap) {
    let named: Vec<HeaderName> = fields
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_CONNECTION) {
        fields.remove(name);
    }
    for name in OF_CONNECTION_TOO {
        fields.remove(name);
    }
}

/// The fields of a request as the target gets them. `own` is the proxy as the client knows it.
pub(crate) fn request(fields: &mut HeaderMap, own: &Origin, target: &Origin) {
    remove_of_connection(fields);
    // hyper has sent "100 Continue" to the client when the target gets the body. A compressed response could not be
    // searched for values.
    fields.remove(EXPECT);
    fields.remove(ACCEPT_ENCODING);
    if let Ok(host) = HeaderValue::from_str(&target.authority()) {
        fields.insert(HOST, host);
    }
    for name in [ORIGIN, REFERER] {
        replace_origin(fields, &name, own, target);
    }
}

/// The fields of a response as the client gets them.
pub(crate) fn response(fields: &mut HeaderMap, own: &Origin, target: &Origin) {
    remove_of_connection(fields);
    for name in [LOCATION, CONTENT_LOCATION, ACCESS_CONTROL_ALLOW_ORIGIN] {
        replace_origin(fields, &name, target, own);
    }
    if !fields.contains_key(SET_COOKIE) {
        return;
    }
    let cookies: Vec<HeaderValue> = fields.get_all(SET_COOKIE).iter().cloned().collect();
    fields.remove(SET_COOKIE);
    for cookie in cookies {
        let rewritten = cookie.to_str().ok().map(|text| rewrite_cookie(text, target));
        let rewritten = rewritten.and_then(|text| HeaderValue::from_str(&text).ok());
        fields.append(SET_COOKIE, rewritten.unwrap_or(cookie));
    }
}

/// Replaces an origin at the begin of a URL.
fn replace_origin(fields: &mut HeaderMap, name: &HeaderName, from: &Origin, to: &Origin) {
    let Some(text) = fields.get(name).and_then(|value| value.to_str().ok()) else { return };
    // Without a scheme, it is that of the page.
    let with_scheme = match text.strip_prefix("//") {
        Some(rest) => format!("{}://{rest}", if from.is_tls { "https" } else { "http" }),
        None => text.to_string(),
    };
    if let Some((origin, rest)) = Origin::split(&with_scheme)
        && origin == *from
        && let Ok(value) = HeaderValue::from_str(&format!("{to}{rest}"))
    {
        fields.insert(name, value);
    }
}

/// A cookie of the target as one of the proxy: without a domain of the target; and without `Secure` where the target is
/// reached over TLS, because the proxy is not.
fn rewrite_cookie(text: &str, target: &Origin) -> String {
    let mut parts = text.split(';');
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (name.trim(), value.trim());
        let domain = value.strip_prefix('.').unwrap_or(value).to_ascii_lowercase();
        let is_of_target = target.host == domain || target.host.ends_with(&format!(".{domain}"));
        let is_dropped = name.eq_ignore_ascii_case("domain") && is_of_target
            || target.is_tls
                && (name.eq_ignore_ascii_case("secure")
                    // Without `Secure`, browsers refuse it.
                    || name.eq_ignore_ascii_case("samesite") && value.eq_ignore_ascii_case("none"));
        if !is_dropped {
            out.push(';');
            out += part;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::parse(text).unwrap()
    }

    fn fields(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect()
    }

    fn pairs(fields: &HeaderMap) -> Vec<(String, String)> {
        let text = |value: &HeaderValue| value.to_str().unwrap().to_string();
        let mut all: Vec<(String, String)> =
            fields.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        all.sort();
        all
    }

    #[test]
    fn a_request_is_that_of_a_client_of_the_target() {
        let mut sent = fields(&[
            ("host", "127.0.0.1:8888"),
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("accept-encoding", "gzip"),
            ("origin", "http://127.0.0.1:8888"),
            ("referer", "http://127.0.0.1:8888/a?b"),
            ("cookie", "sid=1"),
            ("content-length", "3"),
        ]);
        request(&mut sent, &origin("http://127.0.0.1:8888"), &origin("https://shop.example"));
        let expected = [
            ("content-length", "3"),
            ("cookie", "sid=1"),
            ("host", "shop.example"),
            ("origin", "https://shop.example"),
            ("referer", "https://shop.example/a?b"),
        ];
        assert_eq!(pairs(&sent), pairs(&fields(&expected)));
    }

    #[test]
    fn a_response_leads_back_to_the_proxy() {
        for (name, value, expected) in [
            ("location", "https://shop.example/next?a=b", "http://127.0.0.1:8888/next?a=b"),
            ("location", "https://SHOP.example:443/", "http://127.0.0.1:8888/"),
            ("location", "//shop.example/x", "http://127.0.0.1:8888/x"),
            ("location", "/next", "/next"),
            ("location", "https://shop.example.evil/x", "https://shop.example.evil/x"),
            ("location", "http://shop.example/x", "http://shop.example/x"),
            ("access-control-allow-origin", "*", "*"),
            ("set-cookie", "a=b; Domain=.shop.example; Path=/; Secure; SameSite=None", "a=b; Path=/"),
            ("set-cookie", "a=b; domain=example; HttpOnly", "a=b; HttpOnly"),
            (
                "set-cookie",
                "a=b; Domain=other.example; SameSite=Lax",
                "a=b; Domain=other.example; SameSite=Lax",
            ),
            ("set-cookie", "secure; Path=/", "secure; Path=/"),
        ] {
            let mut received = fields(&[(name, value), ("transfer-encoding", "chunked")]);
            response(&mut received, &origin("http://127.0.0.1:8888"), &origin("https://shop.example"));
            assert_eq!(pairs(&received), pairs(&fields(&[(name, expected)])), "{value}");
        }
    }
}
