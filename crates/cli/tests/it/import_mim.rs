//! From a configuration export of MIM to runs.

use std::path::Path;

use crate::program::{Place, run};

#[test]
fn a_converted_export_synchronizes() {
    let place = Place::new("import-mim");
    let export = Path::new(env!("CARGO_MANIFEST_DIR")).join("../connectors/fixtures/mim");
    let export = export.to_str().unwrap();
    let missing = run(&place, &["metadir", "import-mim", "nowhere"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.starts_with("error: nowhere cannot be read: "), "{}", missing.err);

    let imported = run(&place, &["metadir", "import-mim", export]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    for expected in ["declared import flows                   9   9", "not converted: 9", "to review: 9"] {
        assert!(imported.out.contains(expected), "{expected}: {}", imported.out);
    }
    let notes = std::fs::read_to_string(place.path("metadirectory.toml.notes.txt")).unwrap();
    assert!(notes.contains("  -> write it as an expression of First, Last\n"), "{notes}");
    assert!(run(&place, &["metadir", "check", "metadirectory.toml"]).out.contains("is valid"));
    // What is there is not replaced.
    let again = run(&place, &["metadir", "import-mim", export]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("metadirectory.toml exists already; nothing was written"), "{}", again.err);

    // The systems of its agents are text files here: a filter, a join, an expression and a constant as in the export.
    let staff = "EmployeeID,First,Last,Department,Level,Nick\n\
        1,Ada,Byron,Mathematics,1,\n2,Grace,Hopper,Navy,3,\n3,Any,Test,Mathematics,1,\nX4,No,Department,,2,\n";
    std::fs::write(place.path("hr.csv"), staff).unwrap();
    std::fs::write(place.path("phone-book.csv"), "Number,Name,Company,Rank,Phone\n1,A. Byron,,,555|556\n")
        .unwrap();
    for arguments in [
        &["phone-book", "full-import"][..],
        &["hr-full-import-sync"],
        &["phone-book full-synchronization"],
        &["phone-book-export"],
    ] {
        let done = run(&place, &[&["metadir", "run"], arguments].concat());
        assert_eq!(done.code, 0, "{arguments:?}: {}{}", done.out, done.err);
    }
    let book = std::fs::read_to_string(place.path("phone-book.csv")).unwrap();
    let mut lines: Vec<&str> = book.lines().collect();
    lines[1..].sort_unstable();
    assert_eq!(
        lines,
        [
            "Number,Name,Company,Rank,Phone",
            "1,Ada Byron,\"Example \"\"GmbH\"\"\",first,555|556",
            "2,Grace Hopper,\"Example \"\"GmbH\"\"\",level 3,",
        ]
    );
    let json = run(&place, &["metadir", "import-mim", export, "-o", "other.toml", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(document["format"], "plimsoll.mim-import/1");
    assert_eq!(
        document["counts"][2],
        serde_json::json!({ "what": "declared export flows", "converted": 9, "all": 10 })
    );
    assert_eq!(document["notes"].as_array().unwrap().len(), 18);
}
