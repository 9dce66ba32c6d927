//! Tests of request framing (request smuggling).

use crate::common::{Running, SCIM};

/// A request that is hidden in the body of the previous one.
const HIDDEN: &str = "DELETE /scim/v2/Groups/1 HTTP/1.1\r\nHost: HOST\r\n\r\n";

/// Sends a request with these headers followed by a second one; returns the statuses of all responses.
fn statuses(service: &Running, headers: &[u8], body: &str) -> Vec<u16> {
    let host = service.address.to_string();
    let mut bytes = format!("POST /scim/v2/Users HTTP/1.1\r\nHost: {host}\r\n{SCIM}\r\n").into_bytes();
    bytes.extend(headers);
    bytes.extend(b"\r\n\r\n");
    bytes.extend(body.replace("HOST", &host).into_bytes());
    let mut peer = service.connect();
    peer.write(&bytes);
    let mut statuses = Vec::new();
    while let Some(answer) = peer.answer() {
        statuses.push(answer.status);
    }
    statuses
}

#[test]
fn a_length_that_others_read_differently_ends_the_connection() {
    let service = Running::new();
    for headers in [
        "Content-Length: +2",
        "Content-Length: -2",
        "Content-Length: 0x2",
        "Content-Length: 2,3",
        "Content-Length: 2 3",
        "Content-Length: ",
        "Content-Length: 99999999999999999999999999",
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 2\r\nContent-Length: +2",
    ] {
        assert_eq!(statuses(&service, headers.as_bytes(), &format!("{{}}{HIDDEN}")), [400], "{headers}");
    }
}

#[test]
fn a_transfer_encoding_that_others_read_differently_ends_the_connection() {
    let service = Running::new();
    let body = format!("2\r\n{{}}\r\n0\r\n\r\n{HIDDEN}");
    for headers in [
        b"Transfer-Encoding: chunked\xff".as_slice(),
        b"Transfer-Encoding: \xa0chunked",
        b"Transfer-Encoding: \xffchunked\r\nContent-Length: 2",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\xff",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 2",
        b"Transfer-Encoding: chunked\r\nContent-Length: +2",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: identity\r\nContent-Length: 2",
        b"Transfer-Encoding : chunked\r\nContent-Length: 2",
        b"Transfer-Encoding: chunked",
    ] {
        let statuses = statuses(&service, headers, &body);
        let headers = String::from_utf8_lossy(headers);
        assert!(matches!(statuses[..], [400 | 411 | 501]), "{headers}: {statuses:?}");
    }
}

#[test]
fn requests_that_follow_each_other_are_answered_in_order() {
    let service = Running::new();
    let host = service.address;
    let mut peer = service.connect();
    let create = |name: &str| {
        let body = format!("{{\"userName\":\"{name}\"}}");
        let length = body.len();
        format!(
            "POST /scim/v2/Users HTTP/1.1\r\nHost: {host}\r\n{SCIM}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let list = format!("GET /scim/v2/Users HTTP/1.1\r\nHost: {host}\r\n\r\n");
    peer.write(format!("{}{}{list}", create("ada"), create("alan")).as_bytes());
    let statuses: Vec<u16> = (0..3).map(|_| peer.answer().unwrap().status).collect();
    assert_eq!(statuses, [201, 201, 200]);
}

#[test]
fn a_url_that_is_wrong_is_refused() {
    let service = Running::new();
    for path in ["/Groups/%+1", "/Groups/%", "/Groups/%zz", "/Groups/%ff", "/Users?filter=%+5"] {
        assert_eq!(service.send("GET", path, &[], "").status, 400, "{path}");
    }
    assert_eq!(service.send("GET", "Users", &[], "").status, 404);
}
