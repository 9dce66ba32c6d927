//! `plimsoll metadir search` and `show`, and commands that read while a run holds the store.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::metadir::{staff, staff_and_phones};
use crate::program::{Place, command, run};

fn json(place: &Place, arguments: &[&str]) -> Value {
    let done = run(place, arguments);
    assert_eq!(done.code, 0, "{}", done.err);
    serde_json::from_str(&done.out).unwrap()
}

#[test]
fn objects_are_found_and_shown() {
    let place = Place::new("metadir-search");
    staff_and_phones(&place);
    let path = place.path("metadirectory.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let key = "[metaverse.person]\n";
    assert!(text.contains(key));
    std::fs::write(&path, text.replace(key, &format!("{key}search = [\"mail\"]\n"))).unwrap();
    std::fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    assert_eq!(run(&place, &["metadir", "run", "full"]).code, 0);
    let found = json(&place, &["metadir", "search", "mail=U2@*", "--json"]);
    assert_eq!((&found["indexed"], &found["found"][0]["place"]), (&Value::Bool(true), &"metaverse".into()));
    assert_eq!(found["found"][0]["values"]["mail"][0], "u2@example.com");
    let number = found["found"][0]["number"].as_i64().unwrap();
    let indexed = run(&place, &["metadir", "search", "mail=u2@*", "--most", "1"]);
    let read = run(&place, &["metadir", "search", "city=*sl*", "--metaverse", "--most", "2"]);
    let in_space = run(&place, &["metadir", "search", "anchor=E00002", "--agent", "staff"]);
    let shown = run(&place, &["metadir", "show", "phones", "E00002"]);
    let hide = |text: &str| {
        let hidden = text.replace(&format!("mv:{number}"), "mv:N");
        let line = |line: &str| match line.split_once(" since ") {
            Some((before, _)) => format!("{before} since ..."),
            None => {
                line.split_once(" UTC  run ").map_or(line.into(), |(_, run)| format!("... UTC  run {run}"))
            }
        };
        hidden.lines().map(line).collect::<Vec<_>>().join("\n")
    };
    let texts = [&indexed.out, &in_space.out, &shown.out].map(|text| hide(text));
    insta::assert_snapshot!(texts.join("\n---\n"));
    assert!(read.out.contains("the first 2 objects") && read.out.contains("makes an index"), "{}", read.out);
    let by_number = json(&place, &["metadir", "show", &format!("mv:{number}"), "--json"]);
    assert_eq!(by_number, json(&place, &["metadir", "show", "staff", "E00002", "--json"]));
    for (arguments, why) in [
        (&["metadir", "search", "nothing"][..], "is no condition"),
        (&["metadir", "search", "userPassword=x"], "secret"),
        (&["metadir", "show", "staff", "nobody"], "there is no object"),
        (&["metadir", "show", "nobody"], "mv:NUMBER"),
    ] {
        let wrong = run(&place, arguments);
        assert!(wrong.code == 2 && wrong.err.contains(why), "{arguments:?} {} {}", wrong.code, wrong.err);
    }
}

#[test]
fn status_answers_during_a_run() {
    let place = Place::new("metadir-status");
    // A server that accepts and never answers.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let config = format!(
        "[store]\nsqlite = \"s.db\"\n[metaverse.person]\nattributes = {{ id = \"text\" }}\n[agents.slow]\n\
         type = \"ldap\"\nurl = \"ldap://127.0.0.1:{port}\"\nbase = \"dc=a\"\nanchor = \"uid\"\nattributes = [\"cn\"]\n\
         timeout_s = 3600\n[[inbound]]\nagent = \"slow\"\nto = \"person\"\nproject = true\nflow = {{ id = \"uid\" }}\n\
         [runs.night]\nsteps = [\"slow full-import\"]\n"
    );
    std::fs::write(place.path("metadirectory.toml"), config).unwrap();
    assert_eq!(json(&place, &["metadir", "status", "--json"])["running"], Value::Null);
    let mut child = command(&place, &["metadir", "run", "night"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let running = loop {
        let status = json(&place, &["metadir", "status", "--json"]);
        if status["running"]["step"] == "full-import" {
            break status["running"].clone();
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{status}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!((&running["run"], &running["agent"]), (&"night".into(), &"slow".into()));
    assert_eq!(running["process"].as_u64(), Some(child.id().into()));
    let text = run(&place, &["metadir", "status"]).out;
    assert!(text.contains("running: night: slow full-import, 0 objects, since "), "{text}");
    for reading in [&["metadir", "history"][..], &["metadir", "due"], &["metadir", "search", "id=*"]] {
        let done = run(&place, reading);
        assert_eq!(done.code, 0, "{reading:?}: {}", done.err);
    }
    // A second run is refused, with the process that holds the store.
    let second = run(&place, &["metadir", "run", "night"]);
    assert!(second.code == 1 && second.err.contains("another process uses"), "{}", second.err);
    // The last activity of a killed process does not count as a run.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(json(&place, &["metadir", "status", "--json"])["running"], Value::Null);
}
