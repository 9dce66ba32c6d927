//! A configuration that changes while the store is filled, as its administrator meets it.

use crate::metadir::{phone_book, staff, staff_and_phones};
use crate::program::{Place, run};

/// A synchronized staff file and phone book.
fn filled(name: &str) -> Place {
    let place = Place::new(name);
    staff_and_phones(&place);
    std::fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    let done = run(&place, &["metadir", "run", "full"]);
    assert_eq!(done.code, 0, "{}", done.err);
    place
}

fn edit(place: &Place, from: &str, to: &str) {
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(place.path("metadirectory.toml"), text.replace(from, to)).unwrap();
}

#[test]
fn check_and_status_say_what_changed_rules_mean() {
    let place = filled("changed-rules");
    let valid = "metadirectory.toml is valid: agents phones, staff; runs full\n";
    assert_eq!(run(&place, &["metadir", "check"]).out, valid);
    edit(&place, "mail = \"mail\"\ntitle", "mail = \"uid\"\ntitle");
    let checked = run(&place, &["metadir", "check"]).out;
    let shown = checked.strip_prefix(valid).unwrap();
    insta::assert_snapshot!(shown, @r"
    the rules of staff changed since its last full synchronization:
      `mail` of person comes from `uid` of staff instead of `mail`
      next: plimsoll metadir run staff full-synchronization
    ");
    let status = run(&place, &["metadir", "status"]).out;
    assert!(status.ends_with(shown), "{status}");
    assert!(status.lines().all(|line| line.len() <= 100), "{status}");
    let status = run(&place, &["metadir", "status", "--json"]).out;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["configuration_changes"][0]["needs"], "full-synchronization");
    // A run says what is to be done, and does nothing.
    let done = run(&place, &["metadir", "run", "staff", "delta-synchronization"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("run `staff full-synchronization` first"), "{}", done.err);
    let before = phone_book(&place);
    assert_eq!(run(&place, &["metadir", "run", "phones", "export"]).code, 1);
    assert_eq!(phone_book(&place), before);
    let history = run(&place, &["metadir", "history", "--most", "1"]).out;
    assert!(history.contains("no-start-rules-changed"), "{history}");
    assert_eq!(run(&place, &["metadir", "run", "staff", "full-synchronization"]).code, 0);
    assert_eq!(run(&place, &["metadir", "check"]).out, valid);
    assert_eq!(run(&place, &["metadir", "run", "phones", "export"]).code, 0);
    assert_ne!(phone_book(&place), before);
}

#[test]
fn an_agent_is_renamed_and_removed() {
    let place = filled("agents-change");
    for (from, to) in
        [("[agents.phones]", "[agents.book]"), ("\"phones\"", "\"book\""), ("\"phones ", "\"book ")]
    {
        edit(&place, from, to);
    }
    let checked = run(&place, &["metadir", "check"]).out;
    assert!(checked.contains("if it was renamed: plimsoll metadir rename agent phones NAME"), "{checked}");
    let refused = run(&place, &["metadir", "run", "full"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("plimsoll metadir rename agent phones NAME"), "{}", refused.err);
    let wrong = run(&place, &["metadir", "rename", "agent", "phone", "book"]);
    assert_eq!((wrong.code, wrong.err.trim()), (1, "error: the store has no agent phone"));
    let renamed = run(&place, &["metadir", "rename", "agent", "phones", "book"]);
    assert_eq!(renamed.out, "agent phones of the store is book now\n", "{}", renamed.err);
    let before = phone_book(&place);
    let done = run(&place, &["metadir", "run", "full"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(phone_book(&place), before);
    // It is removed with its rules.
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let parts = text
        .split_inclusive("\n\n")
        .filter(|part| !part.contains("\"book\"") && !part.contains("agents.book"));
    let lines = parts.flat_map(|part| part.split_inclusive('\n')).filter(|line| !line.contains("\"book "));
    std::fs::write(place.path("metadirectory.toml"), lines.collect::<String>()).unwrap();
    let shown = run(&place, &["metadir", "remove-agent", "book"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.out.contains("30 removed-objects"), "{}", shown.out);
    assert!(shown.out.ends_with("nothing was changed; --apply does it\n"), "{}", shown.out);
    let done = run(&place, &["metadir", "remove-agent", "book", "--apply", "--json"]);
    let done: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(done["counters"]["removed-objects"], 30);
    assert_eq!(phone_book(&place), before);
    let again = run(&place, &["metadir", "remove-agent", "staff"]);
    assert!(again.err.contains("remove [agents.staff] and its rules first"), "{}", again.err);
}
