//! Tests of requests from web pages in a browser on this host.

use crate::common::{Running, SCIM, path_of};

const ADA: &str = "{\"userName\":\"ada\"}";

#[test]
fn a_write_without_the_type_of_scim_is_refused() {
    let service = Running::new();
    for headers in [
        &[][..],
        &["Content-Type: text/plain"],
        &["Content-Type: application/x-www-form-urlencoded"],
        &["Content-Type: multipart/form-data; boundary=x"],
        &["Content-Type: text/plain; application/json"],
        &["Content-Type: application/jsonx"],
        &["Content-Type: application/json", "Content-Type: text/plain"],
    ] {
        assert_eq!(service.send("POST", "/Users", headers, ADA).status, 415, "{headers:?}");
    }
    let id = service.user("alan");
    for method in ["PUT", "PATCH"] {
        let answer = service.send(method, &path_of(&id), &["Content-Type: text/plain"], ADA);
        assert_eq!(answer.status, 415, "{method}");
    }
    assert_eq!(
        service.send("POST", "/Bulk", &["Content-Type: text/plain"], "{\"Operations\":[]}").status,
        415
    );
    for (name, kind) in [
        ("a", "Content-Type: application/json"),
        ("b", "content-type: Application/SCIM+JSON; charset=utf-8"),
        ("c", "Content-Type: application/json;charset=UTF-8"),
    ] {
        let body = ADA.replace("ada", name);
        assert_eq!(service.send("POST", "/Users", &[kind], &body).status, 201, "{kind}");
    }
}

#[test]
fn a_page_of_another_origin_changes_and_reads_nothing() {
    let service = Running::new();
    let id = service.user("ada");
    let port = service.address.port();
    let other = port.wrapping_add(1).max(1);
    for origin in [
        "Origin: http://evil.example".to_string(),
        format!("Origin: http://evil.example:{port}"),
        format!("Origin: http://127.0.0.1:{other}"),
        "Origin: http://127.0.0.1".into(),
        format!("Origin: http://127.0.0.1:{port}.evil.example"),
        format!("Origin: http://evil@127.0.0.1:{port}"),
        format!("Origin: file://127.0.0.1:{port}"),
        "Origin: null".into(),
        "Origin: ".into(),
    ] {
        for (method, path, body) in [
            ("POST", "/Users".to_string(), ADA),
            ("DELETE", path_of(&id), ""),
            ("GET", "/Users".into(), ""),
            ("OPTIONS", "/Users".into(), ""),
        ] {
            let answer = service.send(method, &path, &[SCIM, &origin], body);
            assert_eq!(answer.status, 403, "{method} {origin}");
            assert!(!answer.headers.iter().any(|(name, _)| name.starts_with("access-control")));
        }
    }
    let own = format!("Origin: http://127.0.0.1:{port}");
    assert_eq!(service.send("GET", "/Users", &[&own, &own], "").status, 403);
    assert_eq!(service.send("DELETE", &path_of(&id), &[&own], "").status, 204);
}

#[test]
fn a_name_that_was_made_to_point_here_is_refused() {
    let service = Running::new();
    let port = service.address.port();
    for host in [
        format!("Host: evil.example:{port}"),
        "Host: evil.example".into(),
        format!("Host: 127.0.0.1.evil.example:{port}"),
        format!("Host: localhost.evil.example:{port}"),
        format!("Host: 10.1.2.3:{port}"),
        "Host: ".into(),
        "Host: a b".into(),
    ] {
        let status = service.send("GET", "/Users", &[&host], "").status;
        assert!(matches!(status, 421 | 400), "{host}: {status}");
    }
    for host in
        [format!("Host: 127.0.0.1:{port}"), format!("Host: LOCALHOST:{port}"), "Host: localhost".into()]
    {
        assert_eq!(service.send("GET", "/Users", &[&host], "").status, 200, "{host}");
    }
    for head in [
        "GET /scim/v2/Users HTTP/1.1\r\n\r\n".to_string(),
        "GET /scim/v2/Users HTTP/1.0\r\n\r\n".into(),
        "GET /scim/v2/Users HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n".into(),
        "GET http://evil.example/scim/v2/Users HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
        format!("GET http://127.0.0.1:{port}/scim/v2/Users HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
    ] {
        let mut peer = service.connect();
        peer.write(head.as_bytes());
        let status = peer.answer().unwrap().status;
        assert!(matches!(status, 421 | 400), "{head}: {status}");
    }
}
