//! Tests of the resource limits of requests.

use serde_json::json;

use crate::common::{Running, SCIM, path_of};

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn a_filter_of_7000_terms_is_refused_and_the_service_goes_on() {
    let service = Running::new();
    service.user("ada");
    let filter = vec!["a+pr"; 7000].join("+or+");
    let answer = service.send("GET", &format!("/Users?filter={filter}"), &[], "");
    assert_eq!((answer.status, answer.scim_type().as_str()), (400, "invalidFilter"), "{}", answer.body);
    assert!(answer.body.len() < 1000, "the answer does not repeat the filter");
    assert!(service.is_alive());
}

#[test]
fn a_filter_of_many_terms_or_brackets_is_answered_up_to_the_limit() {
    let service = Running::new();
    service.user("ada");
    for (filter, status) in [
        (vec!["userName eq \"ada\""; 100].join(" or "), 200),
        (vec!["userName eq \"ada\""; 100].join(" and "), 200),
        (vec!["userName eq \"ada\""; 101].join(" and "), 400),
        (format!("{}userName pr{}", "(".repeat(20), ")".repeat(20)), 200),
        (format!("{}userName pr{}", "(".repeat(2000), ")".repeat(2000)), 400),
        (format!("{}userName pr{}", "not (".repeat(2000), ")".repeat(2000)), 400),
        (format!("{}userName pr{}", "emails[".repeat(2000), "]".repeat(2000)), 400),
    ] {
        let answer = service.send("GET", &format!("/Users?filter={}", escaped(&filter)), &[], "");
        assert_eq!(answer.status, status, "{}", &filter[..40]);
        match status {
            200 => assert_eq!(answer.json()["totalResults"], 1, "{}", &filter[..40]),
            _ => assert_eq!(answer.scim_type(), "invalidFilter"),
        }
    }
}

#[test]
fn the_path_of_a_patch_and_the_number_of_its_operations_are_limited() {
    let service = Running::new();
    let id = service.user("ada");
    let patch = |operations: serde_json::Value| {
        let body = json!({"Operations": operations}).to_string();
        service.send("PATCH", &path_of(&id), &[SCIM], &body)
    };
    let many = vec!["type eq \"work\""; 7000].join(" or ");
    let answer = patch(json!([{"op": "remove", "path": format!("emails[{many}]")}]));
    assert_eq!((answer.status, answer.scim_type().as_str()), (400, "invalidPath"));
    let answer = patch(json!([{"op": "add", "value": {format!("emails[{many}]"): "x"}}]));
    assert_eq!((answer.status, answer.scim_type().as_str()), (400, "invalidPath"));
    let operation = json!({"op": "replace", "path": "title", "value": "Countess"});
    assert_eq!(patch(vec![operation.clone(); 10_000].into()).status, 200);
    assert_eq!(patch(vec![operation; 10_001].into()).status, 413);
}

#[test]
fn json_that_is_nested_too_deep_is_refused() {
    let service = Running::new();
    for text in
        ["[".repeat(1 << 20), format!("{{\"userName\":{}1", "[".repeat(200_000)), "{\"a\":".repeat(5000)]
    {
        let answer = service.send("POST", "/Users", &[SCIM], &text);
        assert_eq!((answer.status, answer.scim_type().as_str()), (400, "invalidSyntax"));
    }
    assert!(service.is_alive());
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_sent() {
    let service = Running::new();
    let mut peer = service.connect();
    let host = service.address;
    peer.write(
        format!("POST /scim/v2/Users HTTP/1.1\r\nHost: {host}\r\n{SCIM}\r\nContent-Length: 16777217\r\n\r\n")
            .as_bytes(),
    );
    assert_eq!(peer.answer().unwrap().status, 413);
    assert!(service.is_alive());
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let service = Running::new();
    let long = format!("X: {}", "x".repeat(100_000));
    let many: Vec<String> = (0..101).map(|at| format!("X{at}: x")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for headers in [&[long.as_str()][..], &many] {
        let mut peer = service.connect();
        peer.begin("GET", "/Users", headers, "");
        assert_eq!(peer.answer().map(|answer| answer.status), Some(431));
        assert!(peer.is_closed());
    }
    let path = format!("/Groups/{}", "x".repeat(100_000));
    assert!(matches!(service.send("GET", &path, &[], "").status, 414 | 431));
    assert!(service.is_alive());
}
