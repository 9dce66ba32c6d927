//! HAR files as tools write them.

use serde_json::{Value, json};

use super::*;
use crate::http::scenario::tests::{parse, read as read_file};

fn entry(number: i64, method: &str, url: &str) -> Value {
    json!({
        "startedDateTime": format!("2026-03-01T12:00:{number:02}.000+01:00"),
        "time": 100.5,
        "request": { "method": method, "url": url, "httpVersion": "h2", "headers": [], "queryString": [], "cookies": [] },
        "response": { "status": 200, "headers": [], "content": { "size": 0, "mimeType": "text/html", "text": "" } },
        "timings": { "send": -1, "wait": 100, "receive": 0 }
    })
}

fn har(entries: Vec<Value>) -> String {
    json!({ "log": { "version": "1.2", "creator": { "name": "x", "version": "1" }, "entries": entries } })
        .to_string()
}

/// The scenario and the notes of a recording. The written file is valid, and is read back.
fn imported(text: &str, options: &RecordingOptions) -> (String, String) {
    let import = read(text, options).unwrap();
    let written = import.file.write();
    assert_eq!(read_file(&written), import.file, "{written}");
    let mut find_secret = |_: model::Placeholder<'_>| Ok("secret".to_string());
    let parsed =
        crate::http::scenario::Scenario::parse(&written, "s", std::path::Path::new("/"), &mut find_secret);
    if let Err(problems) = parsed {
        panic!("{problems}\n{written}");
    }
    let notes: Vec<String> =
        import.notes.iter().map(|note| format!("{}: {}; {}", note.number, note.what, note.help)).collect();
    (written, notes.join("\n"))
}

#[test]
fn a_journey_becomes_a_scenario() {
    let mut page = entry(0, "GET", "https://shop.example/");
    page["response"]["status"] = json!(302);
    page["response"]["redirectURL"] = json!("/start#top");
    page["request"]["headers"] = json!([
        { "name": ":authority", "value": "shop.example" },
        { "name": "user-agent", "value": "Mozilla/5.0" },
        { "name": "cookie", "value": "sid=S3CRET" },
        { "name": "accept-encoding", "value": "gzip, br" }
    ]);
    let mut start = entry(1, "GET", "https://shop.example/start");
    start["response"]["content"]["text"] =
        json!("<form><input name=\"csrf\" value=\"tok-12345-abc\"></form>\n<a href=\"/item/1\">");
    let mut login = entry(6, "POST", "https://shop.example/login?next=%2Fhome");
    login["request"]["headers"] = json!([
        { "name": "user-agent", "value": "Mozilla/5.0" },
        { "name": "Content-Type", "value": "application/x-www-form-urlencoded" },
        { "name": "Content-Length", "value": "60" }
    ]);
    login["request"]["postData"] = json!({
        "mimeType": "application/x-www-form-urlencoded",
        "text": "csrf=tok-12345-abc&user=ann&password=S3CRET"
    });
    login["response"]["content"]["text"] = json!(
        r#"{"session": {"access-id": "9f8e7d6c5b4a"}, "items": [{"id": "item0001"}, {"id": "item0002"}]}"#
    );
    let mut item = entry(7, "GET", "https://shop.example/api/9f8e7d6c5b4a/items/item0002");
    item["request"]["headers"] = json!([
        { "name": "user-agent", "value": "Mozilla/5.0" },
        { "name": "Authorization", "value": "Bearer 9f8e7d6c5b4a" },
        { "name": "X-Api-Key", "value": "S3CRET" }
    ]);
    let third = entry(2, "GET", "https://ads.example/pixel");
    // Chrome writes entries in the order in which they ended.
    let (written, notes) =
        imported(&har(vec![login, page, third, start, item]), &RecordingOptions::default());
    assert!(!written.contains("S3CRET") && !notes.contains("S3CRET"), "{written}{notes}");
    insta::assert_snapshot!(format!("{written}\n---\n{notes}"));
}

#[test]
fn odd_recordings_are_read() {
    let mut no_method = entry(0, "", "http://a/1");
    no_method["request"]["postData"] = json!({ "text": "x${y}$$z" });
    no_method["request"].as_object_mut().unwrap().remove("method");
    no_method["request"]["httpVersion"] = json!("od:");
    let blocked = {
        let mut blocked = entry(1, "GET", "http://a/blocked");
        blocked["response"]["status"] = json!(0);
        blocked
    };
    let mut multipart = entry(2, "POST", "http://a/upload");
    multipart["request"]["postData"] = json!({
        "mimeType": "multipart/form-data; boundary=----b0undary",
        "params": [
            { "name": "title", "value": "a \"b\"" },
            { "name": "password", "value": "S3CRET" },
            { "name": "file", "fileName": "x.txt", "contentType": "text/plain", "value": "line" },
            { "name": "other", "fileName": "y.bin", "contentType": "application/octet-stream" }
        ]
    });
    let mut form = entry(3, "POST", "http://a/form");
    form["request"]["postData"] = json!({ "mimeType": "application/x-www-form-urlencoded", "params": [{ "name": "a b", "value": "c&d" }] });
    let mut firefox = entry(4, "GET", "http://a/get");
    firefox["request"]["postData"] = json!({ "mimeType": "", "params": [], "text": "" });
    let mut missing = entry(5, "GET", "http://a/missing");
    missing["response"]["status"] = json!(404);
    let mut base64 = entry(6, "GET", "http://a/base64");
    // {"id":"b64-000001"}
    base64["response"]["content"] = json!({ "text": "eyJpZCI6ImI2NC0wMDAwMDEifQ==", "encoding": "base64" });
    let used = entry(7, "GET", "http://a/use?id=b64-000001");
    let (written, notes) = imported(
        &har(vec![
            no_method,
            blocked,
            multipart,
            form,
            firefox,
            missing,
            base64,
            used,
            entry(8, "GET", "data:text/plain,x"),
            entry(8, "GET", "wss://a/socket"),
            entry(8, "CONNECT", "http://a/"),
            json!({}),
            json!(3),
        ]),
        &RecordingOptions { think_scale: 0.0, ..RecordingOptions::default() },
    );
    assert!(!written.contains("S3CRET"), "{written}");
    insta::assert_snapshot!(format!("{written}\n---\n{notes}"));
}

#[test]
fn what_is_no_recording_is_refused() {
    for (text, what) in [
        ("", "the file is not JSON: EOF while parsing a value at line 1 column 0"),
        ("<html>", "the file is not JSON: expected value at line 1 column 1"),
        ("{}", "the file is JSON, but not a HAR file"),
        ("{\"log\": {\"entries\": 3}}", "the file is JSON, but not a HAR file"),
        ("{\"log\": {\"entries\": []}}", "the recording contains no request that can be repeated"),
    ] {
        assert_eq!(read(text, &RecordingOptions::default()).unwrap_err().what, what, "{text}");
    }
}

#[test]
fn third_parties_are_kept_if_asked() {
    let text = har(vec![
        entry(0, "GET", "http://www.a.example/"),
        entry(1, "GET", "http://api.a.example/"),
        entry(2, "GET", "http://b.example/"),
    ]);
    let (written, notes) = imported(&text, &RecordingOptions::default());
    assert!(
        written.contains("api.a.example")
            && !written.contains("b.example/")
            && notes.contains("b.example is another site")
    );
    let (written, _) =
        imported(&text, &RecordingOptions { third_party: true, ..RecordingOptions::default() });
    assert!(written.contains("http://b.example/"), "{written}");
}

#[test]
fn one_of_many_links_is_not_extracted() {
    let mut list = entry(0, "GET", "http://a/");
    list["response"]["content"]["text"] =
        json!("<a href=\"/item/item0001\">x</a>\n<a href=\"/item/item0002\">x</a>\n");
    let text = har(vec![list, entry(1, "GET", "http://a/item/item0001")]);
    let (written, notes) = imported(&text, &RecordingOptions::default());
    assert!(written.contains("url = \"/item/item0001\"") && !written.contains("extract"), "{written}");
    assert_eq!(
        notes,
        "2: `id` comes from the response of entry 1, where its place is ambiguous; add an extraction to that request, and use its variable here"
    );
}

#[test]
fn a_redirect_to_another_server_can_be_followed() {
    let mut first = entry(0, "GET", "http://a.example/");
    first["response"]["status"] = json!(301);
    first["response"]["redirectURL"] = json!("https://a.example/");
    let (written, _) =
        imported(&har(vec![first, entry(1, "GET", "https://a.example/")]), &RecordingOptions::default());
    assert!(written.contains("servers = [\"https://a.example\"]"), "{written}");
}

#[test]
fn a_secret_after_other_letters_is_replaced() {
    let mut recorded = entry(0, "POST", "http://a/");
    recorded["request"]["postData"] = json!({ "mimeType": "text/plain", "text": "ነtoken:%" });
    let (written, _) = imported(&har(vec![recorded]), &RecordingOptions::default());
    assert!(written.contains("body = \"ነtoken:${env:HAR_TOKEN}\""), "{written}");
}

proptest::proptest! {
    #[test]
    fn no_credential_is_carried_over(before in "(a@b|&|=|[a-z]|\\$|\\{| ){0,6}", after in "(@|&x=1|[?/;]|\\$\\{){0,4}") {
        let mut first = entry(0, "GET", "http://a/");
        first["response"]["content"]["text"] = json!("{\"id\": \"tok-12345-abc\"}");
        let mut second = entry(1, "POST", &format!("http://a/tok-12345-abc?x={before}&password=S3CRET{after}"));
        second["request"]["headers"] = json!([
            { "name": "Authorization", "value": format!("{before}S3CRET{after}") },
            { "name": "Cookie", "value": "sid=S3CRET" },
            { "name": "Referer", "value": format!("http://me:S3CRET@a/?token=S3CRET{after}") }
        ]);
        second["request"]["postData"] = json!({ "text": format!("id=tok-12345-abc&m={before}&password=S3CRET{after}") });
        let mut third = entry(2, "POST", "http://a/");
        third["request"]["postData"] = json!({
            "mimeType": "multipart/form-data; boundary=b",
            "params": [{ "name": "m", "value": before }, { "name": "user_password", "value": format!("S3CRET{after}") }]
        });
        let (written, notes) = imported(&har(vec![first, second, third]), &RecordingOptions::default());
        proptest::prop_assert!(!written.contains("S3CRET") && !notes.contains("S3CRET"), "{}", written);
    }

    #[test]
    fn every_body_is_sent_as_it_was_recorded(body in "([a-z]{0,3}|\\$|\\{|\\}|\r\n|\"|\\\\|\\PC){0,12}x") {
        let mut recorded = entry(0, "POST", "http://a/");
        recorded["request"]["postData"] = json!({ "mimeType": "text/plain", "text": body });
        let import = read(&har(vec![recorded]), &RecordingOptions::default()).unwrap();
        let scenario = parse(&import.file.write()).unwrap();
        let mut session = crate::http::scenario::Session::new(&scenario, 1, 0);
        proptest::prop_assert_eq!(session.next(&scenario, 0, 0, 0).unwrap().body, body.as_bytes());
    }

    #[test]
    fn odd_values_do_not_panic(
        url in "(http://a/|https://b|[?&=/%#]|token|[a-z0-9]{1,9}|\\PC){0,8}",
        value in "([a-z0-9]{1,9}|[=&%;: ]|\"|\n|\\PC){0,8}",
        status in 0_u16..1000,
    ) {
        let mut first = entry(0, "GET", &url);
        first["response"]["status"] = json!(status);
        first["response"]["content"]["text"] = json!(value);
        first["response"]["headers"] = json!([{ "name": "Set-Cookie", "value": value }, { "name": "Location", "value": value }]);
        let mut second = entry(1, "POST", &format!("http://a/{value}?x={value}"));
        second["request"]["headers"] = json!([{ "name": "X-Token", "value": value }, { "name": value, "value": url }]);
        second["request"]["postData"] = json!({ "text": value });
        imported(&har(vec![entry(0, "GET", "http://a/x"), first, second]), &RecordingOptions::default());
    }
}

#[test]
fn a_time_that_no_exchange_takes_changes_no_pause() {
    let of = |time: Value| {
        let (mut first, mut second) =
            (entry(0, "GET", "https://shop.example/a"), entry(5, "GET", "https://shop.example/b"));
        first["time"] = time;
        second["pageref"] = json!("next");
        imported(&har(vec![first, second]), &RecordingOptions::default())
    };
    let (plain, notes) = of(json!(0));
    assert!(!notes.contains("longer than a day"), "{notes}");
    for time in [json!(1e308), json!(9_223_372_036_854_775_808_u64), json!(1e9)] {
        let (written, notes) = of(time.clone());
        assert_eq!(written, plain, "{time}");
        assert!(notes.contains("1: its time is longer than a day: it counts as 0 ms"), "{notes}");
    }
    // Long before 1970, and without an end.
    let mut first = entry(0, "GET", "https://shop.example/a");
    first["time"] = json!(1e308);
    let mut second = entry(0, "GET", "https://shop.example/b");
    second["startedDateTime"] = json!("0001-01-01T00:00:00.000Z");
    imported(&har(vec![first, second]), &RecordingOptions::default());
}
