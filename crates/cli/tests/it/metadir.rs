//! The metadirectory as its administrator meets it.

use std::fmt::Write as _;

use crate::program::{Place, run};

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

#[test]
fn from_a_template_to_a_phone_book() {
    let place = Place::new("metadir");
    let made = run(&place, &["metadir", "init"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let checked = run(&place, &["metadir", "check"]);
    assert_eq!(checked.out, "metadirectory.toml is well: agents phones, staff; runs full\n");
    // The source is not there: nothing goes on after that.
    let missing = run(&place, &["metadir", "run", "full"]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.contains("staff full-import: reading staff.csv"), "{}", missing.err);
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
     agent   objects  connectors  disconnectors  filtered  to synchronize  to send or confirm  failures
     phones       30          30              0         0               0                   0         0
     staff        30          30              0         0               0                   0         0
    30 in the metaverse
    ");
    let history = run(&place, &["metadir", "history", "--json", "--most", "2"]);
    let history: serde_json::Value = serde_json::from_str(&history.out).unwrap();
    assert_eq!(history["steps"][1]["counters"]["confirmed"], 30);
    // One step by itself, and what is no run.
    let step = run(&place, &["metadir", "run", "staff", "full-import", "--json"]);
    let step: serde_json::Value = serde_json::from_str(&step.out).unwrap();
    assert_eq!(step["steps"][0]["counters"]["stage-no-change"], 30);
    let wrong = run(&place, &["metadir", "run", "staff", "ful-import"]);
    assert_eq!((wrong.code, wrong.err.contains("did you mean `full-import`")), (2, true), "{}", wrong.err);
}

/// A preview tells what a run does afterwards, and changes nothing.
#[test]
fn a_preview_changes_nothing_and_tells_what_the_run_then_does() {
    let place = Place::new("metadir-preview");
    run(&place, &["metadir", "init"]);
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
    assert_eq!(history.out, "nothing was run yet\nnext: plimsoll metadir run RUN\n");
    let preview = |place: &Place| {
        let preview = run(place, &["metadir", "preview", "full", "--json"]);
        let preview: serde_json::Value = serde_json::from_str(&preview.out).unwrap();
        preview
    };
    let foretold = preview(&place);
    let done = run(&place, &["metadir", "run", "full", "--json"]);
    let done: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    for step in 0..3 {
        assert_eq!(foretold["steps"][step]["counters"], done["steps"][step]["counters"]);
    }
    // One moves, one goes, one comes.
    let mut text = staff(2, |at| if at == 0 { "Bergen" } else { "Oslo" });
    text.push_str("E00009,u9,Nina,Sur9,u9@example.com,Clerk,D1,Oslo\n");
    std::fs::write(place.path("staff.csv"), text).unwrap();
    let second = run(&place, &["metadir", "preview", "full"]);
    let changes = second.out.lines().filter(|line| !line.contains(" in 0.")).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(changes);
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
fn mistakes_are_told_at_once_with_their_lines() {
    let place = Place::new("metadir-mistakes");
    run(&place, &["metadir", "init"]);
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
