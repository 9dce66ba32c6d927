//! The metadirectory as its administrator meets it.

use std::fmt::Write as _;
use std::io::BufRead as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{Place, command, run};

pub(crate) fn staff(people: usize, city: impl Fn(usize) -> &'static str) -> String {
    let mut text = "employeeNumber,uid,givenName,sn,mail,title,department,l\n".to_string();
    for at in 0..people {
        let _ = writeln!(
            text,
            "E{at:05},u{at},Given{at},Sur{at},u{at}@example.com,Clerk,D{},{}",
            at % 7,
            city(at)
        );
    }
    text
}

/// The phone book in an order of its own.
pub(crate) fn phone_book(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.path("phones.csv")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    lines.sort();
    lines
}

/// A metadirectory of a staff file and of a phone book that follows it.
pub(crate) fn staff_and_phones(place: &Place) {
    let text = include_str!("staff_and_phones.toml");
    std::fs::write(place.path("metadirectory.toml"), text).unwrap();
}

#[test]
fn from_a_staff_file_to_a_phone_book() {
    let place = Place::new("metadir");
    staff_and_phones(&place);
    let checked = run(&place, &["metadir", "check"]);
    assert_eq!(checked.out, "metadirectory.toml is valid, 1 warning: agents phones, staff; runs full\n");
    // The source is missing: the run ends.
    let missing = run(&place, &["metadir", "run", "full"]);
    assert_eq!(missing.code, 1);
    assert!(
        missing.err.contains("staff full-import: reading staff.csv: it does not exist"),
        "{}",
        missing.err
    );
    let history = run(&place, &["metadir", "history"]).out;
    let (began, step) = history.split_once("  ").unwrap();
    assert!(began.ends_with(" UTC") && began.len() == "2026-11-22 08:30 UTC".len(), "{history}");
    assert!(step.starts_with("run 1  full: staff full-import: stopped-connectivity in "), "{history}");
    assert!(!step.contains("nothing to do"), "{history}");
    std::fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    let done = run(&place, &["metadir", "run", "full"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let did: Vec<&str> = done.out.lines().map(|line| line.split(" in ").next().unwrap_or_default()).collect();
    assert_eq!(
        did,
        [
            "staff full-import: success",
            "staff delta-synchronization: success",
            "phones export: success",
            "phones full-import: success",
            "phones delta-synchronization: success",
        ]
    );
    assert_eq!(phone_book(&place).len(), 31);
    let status = run(&place, &["metadir", "status"]);
    insta::assert_snapshot!(status.out, @r"
     agent   objects  connectors  disconnectors  deprovisioned  filtered           to  pending  failures
                                                                          synchronize  exports
     phones       30          30              0              0         0            0        0         0
     staff        30          30              0              0         0            0        0         0
    30 in the metaverse
    ");
    let history = run(&place, &["metadir", "history", "--json", "--most", "2"]);
    let history: serde_json::Value = serde_json::from_str(&history.out).unwrap();
    assert_eq!(history["steps"][1]["counters"]["confirmed"], 30);
    // One step by itself, and what is no run.
    let step = run(&place, &["metadir", "run", "staff", "full-import", "--json"]);
    let step: serde_json::Value = serde_json::from_str(&step.out).unwrap();
    assert_eq!(step["steps"][0]["counters"]["stage-no-change"], 30);
    let half = run(&place, &["metadir", "run", "staff"]);
    assert!(half.err.contains("it is an agent: add one of its steps"), "{}", half.err);
    let wrong = run(&place, &["metadir", "run", "staff", "ful-import"]);
    assert_eq!((wrong.code, wrong.err.contains("did you mean `full-import`")), (2, true), "{}", wrong.err);
}

/// The steps of a run with how they ended.
fn outcomes(done: &crate::program::Finished) -> Vec<String> {
    let lines = done.out.lines().filter(|line| !line.starts_with(' '));
    lines.map(|line| line.split(" in ").next().unwrap_or_default().to_string()).collect()
}

/// A step that had something to complain of ends a run that says so, and no other.
#[test]
fn a_run_goes_on_after_errors_unless_it_says_otherwise() {
    let place = Place::new("metadir-stop-after");
    let text = include_str!("staff_and_phones.toml");
    let (head, runs) = text.split_once("[runs]\nfull = ").unwrap();
    let careful = format!(
        "{head}[runs]\nfull = {runs}\n[runs.careful]\nsteps = {runs}stop_after = [\"completed-discovery-errors\"]\n"
    );
    std::fs::write(place.path("metadirectory.toml"), &careful).unwrap();
    let mut staff = staff(30, |_| "Oslo");
    staff.push_str("E00030,one field too few\n");
    std::fs::write(place.path("staff.csv"), staff).unwrap();
    let stopped = run(&place, &["metadir", "run", "careful"]);
    assert_eq!((stopped.code, outcomes(&stopped).len()), (1, 1), "{}", stopped.out);
    assert_eq!(outcomes(&stopped), ["staff full-import: completed-discovery-errors"]);
    assert!(
        stopped.err.contains(
            "careful stops after staff full-import: completed-discovery-errors is in its `stop_after`; 4 more steps were not executed"
        ),
        "{}",
        stopped.err
    );
    assert!(!place.path("phones.csv").exists());
    let went_on = run(&place, &["metadir", "run", "full"]);
    assert_eq!((went_on.code, outcomes(&went_on).len()), (1, 5), "{}", went_on.out);
    assert_eq!(phone_book(&place).len(), 31);
    let wrong = careful.replace("completed-discovery-errors", "completed-discovery-error");
    std::fs::write(place.path("metadirectory.toml"), wrong).unwrap();
    let checked = run(&place, &["metadir", "check"]);
    assert_eq!(checked.code, 2);
    assert!(checked.err.contains("there is no outcome \"completed-discovery-error\""), "{}", checked.err);
}

/// What `init` writes works at once, where there is no server too.
#[test]
fn what_init_writes_works_at_once() {
    let place = Place::new("metadir-init");
    let made = run(&place, &["metadir", "init", "--target", "ldif", "--people", "50"]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert_eq!(
        made.out,
        "wrote metadirectory.toml, staff.csv, phones.db\nnext: plimsoll metadir preview full\n      plimsoll metadir run full\n"
    );
    let checked = run(&place, &["metadir", "check"]);
    assert_eq!(
        checked.out,
        "metadirectory.toml is valid: agents directory, phones, staff; runs full, rules\n"
    );
    // Of many changes some of each sort are shown: what comes last is what is sent.
    let predicted = run(&place, &["metadir", "preview", "full"]);
    assert_eq!(predicted.code, 0, "{}", predicted.err);
    let reported: Vec<&str> = predicted.out.lines().filter(|line| line.contains("48 more")).collect();
    let sorts = ["import staff: add", "import phones: add", "metaverse person: add", "export directory: add"];
    let then = ["metaverse person: update", "export directory: update"];
    let expected: Vec<String> = sorts.iter().chain(&then).map(|sort| format!("{sort}, 48 more")).collect();
    assert_eq!(reported, expected);
    assert!(
        predicted
            .out
            .ends_with("\n300 changes; --output FILE writes all of them; nothing was changed or sent\n"),
        "{}",
        predicted.out
    );
    assert!(!place.path("directory.ldif").exists());
    let done = run(&place, &["metadir", "run", "full"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert_eq!(outcomes(&done).len(), 7);
    let entries = || std::fs::read_to_string(place.path("directory.ldif")).unwrap();
    assert_eq!(entries().lines().filter(|line| line.starts_with("dn:")).count(), 50);
    assert_eq!(entries().lines().filter(|line| line.starts_with("telephoneNumber:")).count(), 50);
    // The next day.
    std::fs::remove_file(place.path("staff.csv")).unwrap();
    let day =
        ["generate", "people", "--count", "50", "--attributes", "8", "--day", "1", "--output", "staff.csv"];
    assert_eq!(run(&place, &day).code, 0);
    let before = entries();
    let done = run(&place, &["metadir", "run", "full"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert_ne!(entries(), before);
    // What is there is left as it is.
    let again = run(&place, &["metadir", "init", "--target", "ldif"]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("metadirectory.toml exists already"), "{}", again.err);
    std::fs::remove_file(place.path("metadirectory.toml")).unwrap();
    let again = run(&place, &["metadir", "init", "--target", "ldif"]);
    assert!(again.err.contains("staff.csv exists already") && !place.path("metadirectory.toml").exists());
}

/// The example as it is written, against a real directory that is started as its head says.
#[test]
fn what_init_writes_fills_a_directory() {
    if testkit::lacks(testkit::Need::Program("slapd")) {
        return;
    }
    let place = Place::new("metadir-init-ldap");
    let made = run(&place, &["metadir", "init"]);
    assert_eq!(made.code, 0, "{}", made.err);
    // A port of this test alone: on that of the example somebody may have a directory.
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let text = text.replace("127.0.0.1:3389", &format!("127.0.0.1:{port}"));
    std::fs::write(place.path("metadirectory.toml"), text).unwrap();
    // A preview needs no server.
    assert_eq!(run(&place, &["metadir", "preview", "full"]).code, 0);
    let without = run(&place, &["metadir", "run", "full"]);
    assert_eq!(without.code, 1);
    assert!(without.err.contains("directory export"), "{}", without.err);
    let mut server = std::process::Command::new("sh")
        .args([place.path("directory.sh").to_str().unwrap(), &port.to_string()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
        && begin.elapsed() < Duration::from_secs(60)
    {
        assert!(matches!(server.try_wait(), Ok(None)), "directory.sh ended");
        std::thread::sleep(Duration::from_millis(50));
    }
    let done = run(&place, &["metadir", "run", "full"]);
    let again = run(&place, &["metadir", "run", "full", "--json"]);
    let status = run(&place, &["metadir", "status", "--json"]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert_eq!(again.code, 0, "{}{}", again.out, again.err);
    let again: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(again["steps"][4]["outcome"], "completed-no-objects", "nothing is sent twice");
    assert_eq!(again["steps"][5]["counters"]["stage-no-change"], 200);
    let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    let directory = &status["connector_spaces"][0];
    assert_eq!((&directory["agent"], &directory["connectors"]), (&"directory".into(), &200.into()));
    assert_eq!((&directory["pending_exports"], &directory["failures"]), (&0.into(), &0.into()));
}

/// A service that is reported to end does so, and what it kept is there again.
#[test]
fn a_scim_service_is_filled_and_keeps_what_it_has() {
    let place = Place::new("metadir-scim");
    let start = || {
        let arguments = ["metadir", "scim-server", "--listen", "127.0.0.1:0", "--durability", "off"];
        let mut child = command(&place, &arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, line.trim().strip_prefix("listening on ").unwrap().to_string())
    };
    let end = |mut child: std::process::Child| {
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    };
    let (child, url) = start();
    let text = include_str!("staff_and_phones.toml").replace(
        "type = \"delimited\"\npath = \"phones.csv\"\nanchor = \"number\"",
        &format!("type = \"scim\"\nurl = \"{url}\"\nattributes = [\"externalId\", \"displayName\"]"),
    );
    let flows = "number = \"employeeId\"\nname = \"displayName\"\nmail = \"mail\"\ndepartment = \"department\"\ncity = \"city\"";
    assert!(text.contains(flows));
    let text = text.replace(flows, "externalId = \"employeeId\"\ndisplayName = \"displayName\"");
    std::fs::write(place.path("metadirectory.toml"), &text).unwrap();
    std::fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    let done = run(&place, &["metadir", "run", "full"]);
    end(child);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let (child, again) = start();
    std::fs::write(place.path("metadirectory.toml"), text.replace(&url, &again)).unwrap();
    let seen = run(&place, &["metadir", "run", "phones", "full-import", "--json"]);
    end(child);
    let seen: serde_json::Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!(seen["steps"][0]["counters"]["stage-no-change"], 30);
}

/// Beyond this host there is no service without a token, and a token that others may read is none.
#[test]
fn a_scim_service_beyond_this_host_needs_a_token_that_only_its_owner_reads() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new("metadir-scim-token");
    let server = ["metadir", "scim-server", "--listen", "0.0.0.0:0"];
    let refused = run(&place, &server);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert!(refused.err.contains("so a token is required\n"), "{}", refused.err);
    assert!(
        refused.err.contains("name it with --token-file; or listen only on this host"),
        "{}",
        refused.err
    );
    assert!(!place.path("scim.db").exists());
    std::fs::write(place.path("token"), "not-to-be-shown\n").unwrap();
    std::fs::set_permissions(place.path("token"), PermissionsExt::from_mode(0o644)).unwrap();
    let refused = run(&place, &[&server[..], &["--token-file", "token"]].concat());
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("`chmod 600 token`") && !refused.err.contains("not-to-be"),
        "{}",
        refused.err
    );
    let empty = command(&place, &[&server[..], &["--token-env", "SCIM_TOKEN"]].concat())
        .env("SCIM_TOKEN", " ")
        .output()
        .unwrap();
    let reported = String::from_utf8(empty.stderr).unwrap();
    assert!(empty.status.code() == Some(1) && reported.contains("the token is empty"), "{reported}");
    // With one that nobody else can read it starts.
    std::fs::set_permissions(place.path("token"), PermissionsExt::from_mode(0o600)).unwrap();
    let arguments = [&server[..], &["--token-file", "token", "--allow-host", "id.plim.example"]].concat();
    let mut child = command(&place, &arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.split([':', '/']).nth(4).unwrap().parse().unwrap();
    let status = |host: &str, token: &str| {
        use std::io::Write as _;
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head =
            format!("GET /scim/v2/Users HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = String::new();
        std::io::BufReader::new(stream).read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap().to_string()
    };
    let statuses = [
        status("id.plim.example", "not-to-be-shown"),
        status("id.plim.example", "not-to-be-show"),
        status("evil.example", "not-to-be-shown"),
    ];
    let mode = std::fs::metadata(place.path("scim.db")).unwrap().permissions().mode() & 0o777;
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!((statuses.map(|status| status.parse().unwrap_or(0)), mode), ([200, 401, 421], 0o600));
}

/// A preview shows what a run does afterwards, and changes nothing.
#[test]
fn a_preview_changes_nothing_and_shows_what_the_run_then_does() {
    let place = Place::new("metadir-preview");
    staff_and_phones(&place);
    std::fs::write(place.path("staff.csv"), staff(3, |_| "Oslo")).unwrap();
    let first = run(&place, &["metadir", "preview", "full", "--output", "changes.txt"]);
    assert_eq!(first.code, 0, "{}", first.err);
    assert!(
        first.out.ends_with("9 changes, all in changes.txt; nothing was changed or sent\n"),
        "{}",
        first.out
    );
    assert!(!place.path("phones.csv").exists());
    let history = run(&place, &["metadir", "history"]);
    assert_eq!(history.out, "no step was executed yet\nnext: plimsoll metadir run RUN\n");
    let preview = |place: &Place| {
        let preview = run(place, &["metadir", "preview", "full", "--json"]);
        let preview: serde_json::Value = serde_json::from_str(&preview.out).unwrap();
        preview
    };
    let predicted = preview(&place);
    let done = run(&place, &["metadir", "run", "full", "--json"]);
    let done: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    for step in 0..3 {
        assert_eq!(predicted["steps"][step]["counters"], done["steps"][step]["counters"]);
    }
    // One moves, one goes, one comes.
    let mut text = staff(2, |at| if at == 0 { "Bergen" } else { "Oslo" });
    text.push_str("E00009,u9,Nina,Sur9,u9@example.com,Clerk,D1,Oslo\n");
    std::fs::write(place.path("staff.csv"), text).unwrap();
    let second = run(&place, &["metadir", "preview", "full"]);
    let changes = second.out.lines().filter(|line| !line.contains(" in ")).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(changes);
    let export = run(&place, &["metadir", "preview", "phones", "export"]);
    assert!(
        export.out.ends_with("nothing to do\n0 changes; nothing was changed or sent\n"),
        "{}",
        export.out
    );
    // Why one of them becomes what it becomes, once it is staged.
    run(&place, &["metadir", "run", "staff", "full-import"]);
    let moved = run(&place, &["metadir", "preview", "staff", "--object", "E00000"]);
    let come = run(&place, &["metadir", "preview", "staff", "--object", "E00009"]);
    insta::assert_snapshot!(format!("{}---\n{}", moved.out, come.out));
    let unknown = run(&place, &["metadir", "preview", "staff", "--object", "E77777"]);
    assert_eq!(unknown.code, 2, "{}", unknown.out);
    assert!(unknown.err.contains("has no object \"E77777\""), "{}", unknown.err);
    // A run that is stopped by a threshold is stopped in the preview, too.
    std::fs::write(place.path("staff.csv"), staff(1, |_| "Oslo")).unwrap();
    let stopped = run(&place, &["metadir", "preview", "full"]);
    assert_eq!(stopped.code, 1);
    assert!(stopped.err.contains("least_share"), "{}", stopped.err);
    assert_eq!(phone_book(&place).len(), 4);
}

#[test]
fn more_deletions_than_the_limit_are_listed_and_allowed_once() {
    let place = Place::new("metadir-allow-deletes");
    staff_and_phones(&place);
    std::fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    assert_eq!(run(&place, &["metadir", "run", "full"]).code, 0);
    // Eight of thirty leave; a tenth may.
    std::fs::write(place.path("staff.csv"), staff(22, |_| "Oslo")).unwrap();
    let stopped = run(&place, &["metadir", "run", "full"]);
    assert_eq!(stopped.code, 1, "{}", stopped.out);
    let expected = "8 objects would be disconnected from the metaverse, more than the 3 that safety.synchronization allows; \
        `plimsoll metadir preview` with --allow-deletes 8 lists them, and `run` with it carries it out once";
    assert!(stopped.err.contains(expected), "{}", stopped.err);
    let allowed = ["metadir", "preview", "full", "--allow-deletes", "8"];
    let preview = run(&place, &allowed);
    assert!(preview.out.contains("export phones: delete"), "{}{}", preview.out, preview.err);
    assert_eq!(phone_book(&place).len(), 31);
    let few = run(&place, &["metadir", "run", "full", "--allow-deletes", "7"]);
    assert!(few.err.contains("more than the 7 that"), "{}", few.err);
    let done = run(&place, &["metadir", "run", "full", "--allow-deletes", "8"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert_eq!(phone_book(&place).len(), 23);
}

#[test]
fn mistakes_are_reported_at_once_with_their_lines() {
    let place = Place::new("metadir-mistakes");
    staff_and_phones(&place);
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let text = text
        .replace("anchor = \"number\"", "anker = \"number\"")
        .replace("cs.givenName + ' ' +", "cv.givenName + ' ' +")
        .replace("\"phones export\"", "\"phone export\"");
    std::fs::write(place.path("metadirectory.toml"), text).unwrap();
    let checked = run(&place, &["metadir", "check"]);
    assert_eq!(checked.code, 2);
    insta::assert_snapshot!(checked.err);
}

#[test]
fn what_is_most_likely_not_meant_is_reported_and_keeps_nothing_from_being_done() {
    let place = Place::new("metadir-warning");
    staff_and_phones(&place);
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let text = text.replace("when = \"has(mv.displayName)\"\n", "");
    std::fs::write(place.path("metadirectory.toml"), text).unwrap();
    std::fs::write(place.path("staff.csv"), staff(1, |_| "Oslo")).unwrap();
    let checked = run(&place, &["metadir", "check"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert_eq!(checked.out, "metadirectory.toml is valid, 1 warning: agents phones, staff; runs full\n");
    insta::assert_snapshot!(checked.err);
}

/// A refused person, what waits, what was sent, and the way back, as an administrator sees them.
#[test]
fn errors_pending_exports_and_the_trail_are_listed() {
    let place = Place::new("metadir-trail");
    staff_and_phones(&place);
    std::fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    let done = run(&place, &["metadir", "run", "full"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert!(run(&place, &["metadir", "errors"]).out.contains("no errors"));
    assert!(run(&place, &["metadir", "pending", "phones"]).out.contains("nothing waits to be sent"));
    let all = run(&place, &["metadir", "audit", "--json"]);
    let lines: Vec<serde_json::Value> =
        all.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 30);
    assert!(
        lines.iter().all(|line| line["run"] == 1 && line["agent"] == "phones" && line["change"] == "add")
    );
    // A line twice: an error with its place, in text, as CSV and as JSON.
    let text = staff(30, |at| if at == 3 { "Bergen" } else { "Oslo" });
    let last = text.lines().last().unwrap().to_string();
    std::fs::write(place.path("staff.csv"), format!("{text}{last}\n")).unwrap();
    let done = run(&place, &["metadir", "run", "full", "--json"]);
    let done: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(done["steps"][0]["errors"][0]["kind"], "duplicate-object", "{done}");
    assert_eq!(done["steps"][0]["number"], 2);
    let errors = run(&place, &["metadir", "errors"]);
    assert!(errors.out.starts_with("1 x staff duplicate-object: "), "{}", errors.out);
    let all = run(&place, &["metadir", "errors", "staff", "--all"]).out;
    assert!(all.contains("staff line 32") && all.contains(", 1 time\n"), "{all}");
    let csv = run(&place, &["metadir", "errors", "--csv"]).out;
    let [head, line] = csv.lines().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(head, "agent,object,kind,attribute,text,first,last,count");
    assert!(line.starts_with("staff,line 32,duplicate-object,,"), "{line}");
    let json = run(&place, &["metadir", "errors", "--all", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["errors"][0]["object"], &json["more"]), (&"line 32".into(), &0.into()));
    // One person moved: only that is in the trail of the run, and it is taken back.
    std::fs::write(place.path("staff.csv"), &text).unwrap();
    assert_eq!(run(&place, &["metadir", "run", "full"]).code, 0);
    let history: serde_json::Value =
        serde_json::from_str(&run(&place, &["metadir", "history", "--json"]).out).unwrap();
    let moved =
        history["steps"].as_array().unwrap().iter().find(|step| step["counters"]["export-update"] == 1);
    let number = moved.unwrap()["number"].to_string();
    let of_run = run(&place, &["metadir", "audit", "--run", &number]).out;
    assert!(of_run.contains("export phones: update ") && of_run.contains("Oslo -> Bergen"), "{of_run}");
    let preview = run(&place, &["metadir", "undo", &number]);
    assert!(
        preview.out.contains("Bergen -> Oslo") && preview.out.contains("1 change, 0 conflicts"),
        "{}",
        preview.out
    );
    let done = run(&place, &["metadir", "undo", &number, "phones", "--apply", "--json"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let done: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(done["steps"][1]["counters"]["export-update"], 1, "{done}");
    assert!(!phone_book(&place).iter().any(|row| row.contains("Bergen")));
    for step in [["phones", "full-import"], ["phones", "delta-synchronization"]] {
        assert_eq!(run(&place, &["metadir", "run", step[0], step[1]]).code, 0);
    }
    let waiting = run(&place, &["metadir", "pending", "phones"]).out;
    assert!(
        waiting.contains("Oslo -> Bergen") && waiting.contains(&format!("release-undo {number}")),
        "{waiting}"
    );
    let left = run(&place, &["metadir", "run", "full"]).out;
    assert!(
        left.ends_with(
            "phones: changes of 1 object are left to be sent; next: plimsoll metadir pending phones\n"
        ),
        "{left}"
    );
    let preview = run(&place, &["metadir", "preview", "phones", "export"]).out;
    assert!(preview.contains("pending exports of phones from earlier runs: 1 object;"), "{preview}");
    let released = run(&place, &["metadir", "release-undo", &number]).out;
    assert!(released.starts_with("1 change is no longer held"), "{released}");
    assert_eq!(run(&place, &["metadir", "run", "phones", "export"]).code, 0);
    assert!(phone_book(&place).iter().any(|row| row.contains("Bergen")));
    // Mistakes say what to do.
    let wrong = run(&place, &["metadir", "undo", "99"]);
    assert!(wrong.err.contains("run 99 exported nothing"), "{}", wrong.err);
    assert!(run(&place, &["metadir", "audit", "--since", "soon"]).err.contains("2026-11-25"));
    assert!(run(&place, &["metadir", "audit", "--since", "2990-01-01"]).out.contains("no accepted change"));
    assert!(run(&place, &["metadir", "pending", "phones", "--object", "x"]).err.contains("has no object"));
}
