//! Users that send requests and take responses.

use engine::workload::Then;
use model::SECOND;
use testkit::Scratch;

use super::{parse, parse_in};
use crate::http::scenario::{After, Failure, Outcome, Planned, Response, Scenario, Session, Unplanned};

/// The head and the body of a request as text.
fn sent(planned: Planned<'_>) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let agent = concat!("User-Agent: plimsoll/", env!("CARGO_PKG_VERSION"), "\r\n");
    (text(planned.head).replace(agent, "").replace("Accept: */*\r\n", ""), text(planned.body))
}

fn next(session: &mut Session, scenario: &Scenario, number: u64, step: u32) -> (String, String) {
    sent(session.next(scenario, number, step, 0).unwrap())
}

fn ok<'a>(body: &'a str, fields: &'a [(&'a str, &'a [u8])]) -> Response<'a> {
    Response {
        status: 200,
        fields,
        body: body.as_bytes(),
        body_bytes: body.len() as u64,
        ..Response::default()
    }
}

const SUCCESS: Outcome = Outcome { failure: None, after: After::Then(Then::End) };

#[test]
fn a_user_logs_in_with_what_the_page_gave_it() {
    let folder = Scratch::new();
    folder.file("users.csv", "name,password\nann,a&b\nbob,x\n");
    let scenario = parse_in(
        folder.path(),
        r#"
base = "http://shop.example:8080"
think = "1s"

[data.users]
file = "users.csv"

[[transaction]]
name = "buy"

[[transaction.request]]
name = "form"
url = "/login"
extract.token = { xpath = "//input[@name='token']/@value" }

[[transaction.request]]
name = "login"
method = "POST"
url = "/login?n=${number}"
header = ["Content-Type: application/x-www-form-urlencoded", "X-User: ${users.name}"]
body = "user=${users.name}&password=${url(users.password)}&token=${token}"
check = [{ contains = "Hello ${users.name}" }, { header = "X-Kind", equals = "html" }]
"#,
    )
    .unwrap();
    assert_eq!(scenario.operations(), ["buy:form", "buy:login", "buy"]);
    let mut session = Session::new(&scenario, 7, 3);
    assert_eq!(
        next(&mut session, &scenario, 0, 0),
        ("GET /login HTTP/1.1\r\nHost: shop.example:8080\r\n\r\n".into(), String::new())
    );
    let page = "<form><input name='token' value='t-1'/></form>";
    let fields: &[(&str, &[u8])] = &[("Set-Cookie", b"sid=1; Path=/")];
    let outcome = session.took(&scenario, &ok(page, fields));
    assert_eq!(outcome, Outcome { failure: None, after: After::Then(Then::Next(1_000_000_000)) });
    let (head, body) = next(&mut session, &scenario, 0, 1);
    assert_eq!(
        head,
        "POST /login?n=0 HTTP/1.1\r\nHost: shop.example:8080\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         X-User: ann\r\nContent-Length: 33\r\nCookie: sid=1\r\n\r\n"
    );
    assert_eq!(body, "user=ann&password=a%26b&token=t-1".to_string());
    // The length is that of the body.
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}{body}");
}

#[test]
fn a_request_without_templates_is_the_same_memory() {
    let scenario = parse(
        "base = \"http://a\"\n[[transaction]]\nname = \"t\"\n[[transaction.request]]\nmethod = \"PUT\"\nurl = \"/x\"\nbody = \"b\"\n",
    )
    .unwrap();
    let (mut one, mut two) = (Session::new(&scenario, 1, 0), Session::new(&scenario, 2, 1));
    let first = one.next(&scenario, 0, 0, 0).unwrap();
    let second = two.next(&scenario, 1, 0, 0).unwrap();
    assert_eq!((first.head.as_ptr(), first.body.as_ptr()), (second.head.as_ptr(), second.body.as_ptr()));
    assert_eq!(sent(first).0, "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    let fields: Vec<(&[u8], &[u8])> = first.fields().collect();
    assert_eq!(fields[0], (b"Host".as_slice(), b"a".as_slice()));
    assert_eq!(fields.last(), Some(&(b"Content-Length".as_slice(), b"1".as_slice())));
    // A cookie changes the head of this user only.
    let cookie: &[(&str, &[u8])] = &[("set-cookie", b"k=v")];
    assert_eq!(one.took(&scenario, &ok("", cookie)), SUCCESS);
    assert!(next(&mut one, &scenario, 2, 0).0.ends_with("Content-Length: 1\r\nCookie: k=v\r\n\r\n"));
    assert!(!next(&mut two, &scenario, 3, 0).0.contains("Cookie"));
    one.reset(&scenario, 9);
    assert!(!next(&mut one, &scenario, 4, 0).0.contains("Cookie"));
}

#[test]
fn a_request_can_be_planned_again() {
    let scenario = parse(
        "base = \"http://a\"\n[[transaction]]\nname = \"t\"\n[[transaction.request]]\nurl = \"/${uuid}/${random(1, 1000000)}\"\n",
    )
    .unwrap();
    let mut session = Session::new(&scenario, 1, 0);
    let first = next(&mut session, &scenario, 5, 0);
    assert_eq!(next(&mut session, &scenario, 5, 0), first);
    assert_ne!(next(&mut session, &scenario, 6, 0), first);
    assert_ne!(next(&mut Session::new(&scenario, 2, 0), &scenario, 5, 0), first);
    assert_eq!(next(&mut Session::new(&scenario, 1, 0), &scenario, 5, 0), first);
}

#[test]
fn transactions_are_chosen_by_weight() {
    let transaction = |name: &str, weight: u32| {
        format!(
            "[[transaction]]\nname = \"{name}\"\nweight = {weight}\n[[transaction.request]]\nurl = \"http://a/{name}\"\n"
        )
    };
    let scenario = parse(&(transaction("x", 1) + &transaction("y", 3) + &transaction("z", 6))).unwrap();
    let mut session = Session::new(&scenario, 11, 0);
    let mut counts = [0_i32; 3];
    for number in 0..10_000 {
        counts[usize::from(session.next(&scenario, number, 0, 0).unwrap().operation)] += 1;
    }
    // Five standard deviations of a binomial with n = 10,000.
    for (count, expected) in counts.into_iter().zip([1000_i32, 3000, 6000]) {
        assert!(count.abs_diff(expected) < 250, "{counts:?}");
    }
}

#[test]
fn the_think_time_is_the_mean_of_a_transaction() {
    let text = |think: &str| {
        format!(
            "[[transaction]]\nname = \"a\"\nweight = 3\n[[transaction.request]]\nname = \"x\"\nurl = \"http://h/\"\n{think}
             [[transaction.request]]\nname = \"y\"\nurl = \"http://h/\"\n
             [[transaction]]\nname = \"b\"\n[[transaction.request]]\nurl = \"http://h/\"\n"
        )
    };
    for (think, mean) in [("", 0), ("think = \"4s\"\n", 3 * SECOND), ("think = \"2s..6s\"\n", 3 * SECOND)] {
        assert_eq!(parse(&text(think)).unwrap().think(), mean, "{think}");
    }
}

#[test]
fn the_data_ends() {
    let folder = Scratch::new();
    folder.file("d.csv", "host,v\n127.0.0.1,a\n[::1],b\n");
    let scenario = parse_in(
        folder.path(),
        "[data.d]\nfile = \"d.csv\"\nat_end = \"stop\"\n[[transaction]]\nname = \"t\"\n[[transaction.request]]\n\
         url = \"http://${d.host}:81/${d.v}\"\n",
    )
    .unwrap();
    let origins: Vec<String> = scenario.origins().iter().map(ToString::to_string).collect();
    assert_eq!(origins, ["http://127.0.0.1:81", "http://[::1]:81"]);
    let mut session = Session::new(&scenario, 1, 0);
    assert_eq!(next(&mut session, &scenario, 1, 0).0, "GET /b HTTP/1.1\r\nHost: [::1]:81\r\n\r\n");
    assert_eq!(session.next(&scenario, 0, 0, 0).unwrap().origin, 0);
    assert_eq!(session.next(&scenario, 2, 0, 0).unwrap_err(), Unplanned::DataEnded);
    let unique = "[data.d]\nfile = \"d.csv\"\norder = \"unique\"\n[[transaction]]\nname = \"t\"\n[[transaction.request]]\nurl = \"http://a/${d.v}\"\n";
    assert_eq!(parse_in(folder.path(), unique).unwrap().users_max(), Some(2));
}

/// A transaction of one request with these lines, at its first response.
fn judged(lines: &str, response: &Response<'_>) -> (Outcome, String) {
    let scenario = parse(&format!(
        "[[transaction]]\nname = \"t\"\n[[transaction.request]]\nurl = \"http://a/x/y\"\n{lines}\n"
    ))
    .unwrap_or_else(|problems| panic!("{problems}"));
    let mut session = Session::new(&scenario, 1, 0);
    session.next(&scenario, 0, 0, 0).unwrap();
    let outcome = session.took(&scenario, response);
    let words = match outcome.failure {
        Some(Failure::Check(code)) => scenario.describe_failure(code),
        Some(Failure::Status(status)) => format!("status {status}"),
        None => String::new(),
    };
    (outcome, words)
}

#[test]
fn checks_decide() {
    let json = r#"{"n": 3, "name": "Ann"}"#;
    let fields: &[(&str, &[u8])] = &[("Content-Type", b"application/json"), ("Set-Cookie", b"sid=42")];
    for (lines, body, expected) in [
        ("", "", ""),
        ("check = [{ status = \"200\" }, { size = \"1B..100B\" }]", json, ""),
        ("check = [{ size = \"..10B\" }]", json, "t: check size ..10B"),
        ("check = [{ contains = \"Ann\" }]", json, ""),
        ("check = [{ contains = \"Bob\" }]", json, "t: check contains `Bob`"),
        ("check = [{ contains = \"Bob\", absent = true }]", json, ""),
        ("check = [{ contains = \"Ann\", absent = true }]", json, "t: check absent: contains `Ann`"),
        ("check = [{ name = \"greets\", contains = \"Bob\" }]", json, "t: check `greets`"),
        (
            "check = [{ json_path = \"$.name\", equals = \"Ann\" }, { json_path = \"$.n\", matches = \"^[0-9]$\" }]",
            json,
            "",
        ),
        ("check = [{ json_path = \"$.x\" }]", json, "t: check json_path `$.x`"),
        (
            "check = [{ json_path = \"$.name\", equals = \"An\" }]",
            json,
            "t: check json_path `$.name` equals `An`",
        ),
        ("check = [{ xpath = \"count(//a)\", equals = \"2\" }]", "<x><a/><a/></x>", ""),
        ("check = [{ xpath = \"//a\" }]", "no XML", "t: check xpath `//a`"),
        (
            "check = [{ header = \"content-type\", contains = \"json\" }, { cookie = \"sid\", equals = \"42\" }]",
            json,
            "",
        ),
        ("check = [{ regex = \"name\\\": \\\"(.*?)\\\"\", equals = \"Ann\" }]", json, ""),
        ("max_time = \"1ms\"", json, "t: the response took longer than `max_time`"),
        ("expect_status = \"404\"", json, "status 200"),
        (
            "extract.token = { json_path = \"$.token\" }",
            json,
            "t: no value for the variable `token` (json_path `$.token`)",
        ),
        (
            "check = [{ contains = \"Ann\" }]\nextract.a = { json_path = \"$.n\" }\nextract.b = { header = \"etag\" }",
            json,
            "t: no value for the variable `b` (header `etag`)",
        ),
    ] {
        let response = Response { time: 2_000_000, ..ok(body, fields) };
        assert_eq!(judged(lines, &response).1, expected, "{lines}");
    }
    // The rest of a truncated body is not known.
    let truncated = Response { is_truncated: true, ..ok(json, fields) };
    assert_eq!(judged("check = [{ contains = \"Ann\" }]", &truncated).1, "");
    assert_ne!(judged("check = [{ contains = \"Bob\", absent = true }]", &truncated).1, "");
}

#[test]
fn redirects_are_followed() {
    let scenario = parse(
        r#"
servers = "http://c:81"
follow_redirects = 2
header = ["Authorization: Bearer ${env:SECRET}", "Content-Type: text/plain"]

[[transaction]]
name = "t"

[[transaction.request]]
name = "a"
method = "POST"
url = "http://a/x/y"
body = "b"

[[transaction.request]]
name = "b"
url = "https://b/"
"#,
    )
    .unwrap();
    let credentials = "Authorization: Bearer S3CRET\r\n";
    let redirect = |status: u16, location: &'static str| {
        let mut session = Session::new(&scenario, 1, 0);
        session.next(&scenario, 0, 0, 0).unwrap();
        let fields: &[(&str, &[u8])] = &[("Location", location.as_bytes()), ("Set-Cookie", b"k=v; Path=/")];
        let outcome = session.took(&scenario, &Response { status, fields, ..Response::default() });
        (session, outcome)
    };
    for (status, location, expected) in [
        (302, "z", format!("GET /x/z HTTP/1.1\r\nHost: a\r\n{credentials}Cookie: k=v\r\n\r\n")),
        (303, "/z", format!("GET /z HTTP/1.1\r\nHost: a\r\n{credentials}Cookie: k=v\r\n\r\n")),
        (
            307,
            "/z",
            format!(
                "POST /z HTTP/1.1\r\nHost: a\r\n{credentials}Content-Type: text/plain\r\nContent-Length: 1\r\nCookie: k=v\r\n\r\n"
            ),
        ),
        (302, "//c:81/z", "GET /z HTTP/1.1\r\nHost: c:81\r\n\r\n".to_string()),
        (
            308,
            "https://b/z",
            "POST /z HTTP/1.1\r\nHost: b\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\n"
                .to_string(),
        ),
    ] {
        let (mut session, outcome) = redirect(status, location);
        assert_eq!(outcome, Outcome { failure: None, after: After::Redirect }, "{status} {location}");
        assert_eq!(next(&mut session, &scenario, 0, 0).0, expected);
        let outcome = session.took(&scenario, &ok("", &[]));
        assert_eq!(outcome, Outcome { failure: None, after: After::Then(Then::Next(0)) });
        assert!(next(&mut session, &scenario, 0, 1).0.starts_with("GET / HTTP/1.1\r\nHost: b\r\n"));
    }
    let (_, outcome) = redirect(302, "http://evil/");
    let Some(Failure::Check(code)) = outcome.failure else { panic!("{outcome:?}") };
    assert_eq!(
        scenario.describe_failure(code),
        "t:a: a redirect to a server that no URL and no entry of `servers` names"
    );
    assert_eq!(outcome.after, After::Then(Then::EndOf(2)));
    let (mut session, _) = redirect(302, "/1");
    let again: &[(&str, &[u8])] = &[("Location", b"/2")];
    let response = Response { status: 302, fields: again, ..Response::default() };
    session.next(&scenario, 0, 0, 0).unwrap();
    assert_eq!(session.took(&scenario, &response).after, After::Redirect);
    session.next(&scenario, 0, 0, 0).unwrap();
    let Some(Failure::Check(code)) = session.took(&scenario, &response).failure else { panic!() };
    assert_eq!(scenario.describe_failure(code), "t:a: more redirects than `follow_redirects`");
}

#[test]
fn a_failure_ends_a_transaction_or_not() {
    let text = |line: &str| {
        format!(
            "base = \"http://a\"\n[[transaction]]\nname = \"t\"\n{line}\n[[transaction.request]]\nname = \"a\"\nurl = \"/\"\n\
             extract.id = {{ regex = \"id=(\\\\d+)\" }}\n[[transaction.request]]\nname = \"b\"\nurl = \"/${{id}}\"\n"
        )
    };
    for (line, then) in [("", Then::EndOf(2)), ("on_failure = \"continue\"", Then::Next(0))] {
        let scenario = parse(&text(line)).unwrap();
        let mut session = Session::new(&scenario, 1, 0);
        session.next(&scenario, 0, 0, 0).unwrap();
        let outcome = session.took(&scenario, &ok("nothing", &[]));
        assert_eq!(outcome.after, After::Then(then));
        // A broken connection is a failure too.
        session.next(&scenario, 0, 0, 0).unwrap();
        assert_eq!(session.failed(&scenario), then);
    }
    // Another user does not have the value of the one before.
    let scenario = parse(&text("on_failure = \"continue\"")).unwrap();
    let mut session = Session::new(&scenario, 1, 0);
    session.next(&scenario, 0, 0, 0).unwrap();
    session.took(&scenario, &ok("id=7", &[]));
    assert_eq!(session.next(&scenario, 0, 1, 0).unwrap().target, "/7");
    session.reset(&scenario, 1);
    assert!(session.next(&scenario, 0, 1, 0).is_err());
    // The request without its value is not sent, and the value of an earlier operation is not used.
    let scenario = parse(&text("on_failure = \"continue\"")).unwrap();
    let mut session = Session::new(&scenario, 1, 0);
    for (number, body, target) in [(0, "id=7", Some("/7")), (1, "nothing", None)] {
        session.next(&scenario, number, 0, 0).unwrap();
        session.took(&scenario, &ok(body, &[]));
        match session.next(&scenario, number, 1, 0) {
            Ok(planned) => assert_eq!(Some(planned.target), target),
            Err(Unplanned::Failed { operation, code, then }) => {
                assert_eq!((target, operation, then), (None, 1, Then::EndOf(2)));
                assert_eq!(scenario.describe_failure(code), "t:b: a variable has no value yet");
            }
            Err(Unplanned::DataEnded) => panic!("there is no data"),
        }
    }
}

#[test]
fn a_value_cannot_add_a_header_field() {
    let scenario = parse(
        "base = \"http://a\"\n[[transaction]]\nname = \"t\"\n[[transaction.request]]\nname = \"a\"\nurl = \"/\"\n\
         extract.v = { json_path = \"$.v\" }\n[[transaction.request]]\nname = \"b\"\nurl = \"/${v}\"\n\
         [[transaction.request]]\nname = \"c\"\nurl = \"/\"\nheader = \"X: ${v}\"\n[[transaction.request]]\nname = \"d\"\nurl = \"${v}\"\n",
    )
    .unwrap();
    let mut session = Session::new(&scenario, 1, 0);
    session.next(&scenario, 0, 0, 0).unwrap();
    session.took(&scenario, &ok(r#"{"v": "x\r\nHost: evil"}"#, &[]));
    assert_eq!(session.next(&scenario, 0, 1, 0).unwrap().target, "/x%0D%0AHost:%20evil");
    let Err(Unplanned::Failed { code, .. }) = session.next(&scenario, 0, 2, 0) else { panic!() };
    assert_eq!(
        scenario.describe_failure(code),
        "t:c: a value in a header field contains a control character"
    );
    // A whole URL goes to servers of the scenario only.
    for (value, target) in [("/p?q", Some("/p?q")), ("http://a/z", Some("/z")), ("http://evil/z", None)] {
        session.next(&scenario, 1, 0, 0).unwrap();
        session.took(&scenario, &ok(&format!(r#"{{"v": "{value}"}}"#), &[]));
        assert_eq!(session.next(&scenario, 1, 3, 0).ok().map(|planned| planned.target), target, "{value}");
    }
}
