//! A scenario file, and after a zero byte the body of every response.

use std::path::Path;

use workloads::http::scenario::{After, Response, Scenario, Session};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (file, body) = text.split_once('\0').unwrap_or((text, ""));
    let mut find_secret = |_: model::Placeholder<'_>| Ok("S3CRET".to_string());
    let scenario = match Scenario::parse(file, "s.toml", Path::new("/nonexistent"), &mut find_secret) {
        Ok(scenario) => scenario,
        Err(problems) => return assert!(!problems.is_empty(), "refused without a reason"),
    };
    assert!(!format!("{scenario:?}").contains("S3CRET"));
    let mut session = Session::new(&scenario, 1, 0);
    let cookie = body.as_bytes().get(..100).unwrap_or(body.as_bytes());
    let fields: &[(&str, &[u8])] = &[("Set-Cookie", cookie), ("Location", cookie)];
    for number in 0..4 {
        let mut step = 0;
        for status in [200, 302, 307, 200, 200, 404, 200, 200] {
            let Ok(planned) = session.next(&scenario, number, step, 0) else { break };
            assert!(planned.head.ends_with(b"\r\n\r\n"));
            let ends = planned.head.windows(2).filter(|two| two == b"\r\n").count();
            assert_eq!(planned.fields().count() + 2, ends, "each line of the head is one field");
            let response = Response {
                status,
                fields,
                body: body.as_bytes(),
                body_bytes: body.len() as u64,
                ..Response::default()
            };
            match session.took(&scenario, &response).after {
                After::Redirect => {}
                After::Then(engine::workload::Then::Next(_)) => step += 1,
                After::Then(_) => break,
            }
        }
    }
}
