//! `metadir check`: what is wrong with a configuration and with the files that it names.

use crate::metadir::{staff, staff_and_phones};
use crate::program::{Place, run};

#[test]
fn files_are_looked_at() {
    let place = Place::new("metadir-check-files");
    staff_and_phones(&place);
    let check = || {
        let checked = run(&place, &["metadir", "check"]);
        assert_eq!(checked.code, 0, "{}", checked.err);
        checked.err
    };
    // The phone book is a target, which an export creates.
    let missing = check();
    assert!(missing.contains("warning: there is no file staff.csv\n --> metadirectory.toml:"), "{missing}");
    assert_eq!(missing.matches("warning").count(), 1, "{missing}");
    std::fs::write(place.path("staff.csv"), staff(3, |_| "Oslo").replacen(",sn,", ",surname,", 1)).unwrap();
    let renamed = check();
    assert!(renamed.contains("warning: staff.csv has no column `sn`"), "{renamed}");
    assert!(renamed.contains("its columns are employeeNumber, uid, givenName, surname, mail"), "{renamed}");
    std::fs::write(
        place.path("staff.csv"),
        staff(3, |_| "Oslo").replacen("employeeNumber", "Employeenumber", 1),
    )
    .unwrap();
    let anchor = check();
    assert!(anchor.contains("has no column `employeeNumber`"), "{anchor}");
    assert!(anchor.contains("| anchor = \"employeeNumber\""), "{anchor}");
    assert!(anchor.contains("did you mean `Employeenumber`?"), "{anchor}");
    std::fs::write(place.path("staff.csv"), staff(3, |_| "Oslo")).unwrap();
    assert_eq!(check(), "");
}

#[test]
fn a_configuration_in_another_encoding_is_named() {
    let place = Place::new("metadir-check-encoding");
    staff_and_phones(&place);
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let utf16 = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes);
    let latin = [text.as_bytes(), b"# K\xf8benhavn\n"].concat();
    for (bytes, expected) in [
        (utf16.collect(), "error: metadirectory.toml is in UTF-16, not in UTF-8".to_string()),
        (
            latin,
            format!(
                "error: metadirectory.toml:{} has a character that is not in UTF-8",
                text.lines().count() + 1
            ),
        ),
    ] {
        std::fs::write(place.path("metadirectory.toml"), bytes).unwrap();
        let checked = run(&place, &["metadir", "check"]);
        assert_eq!(checked.code, 2);
        assert!(checked.err.starts_with(&expected) && checked.err.contains("iconv"), "{}", checked.err);
    }
}

#[test]
fn lines_of_messages_fit_a_terminal() {
    let place = Place::new("metadir-check-width");
    assert_eq!(run(&place, &["metadir", "init"]).code, 0);
    let path = place.path("metadirectory.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let wrong = text
        .replace("mobile = \"text\" }", "mobile = \"number!\" }")
        .replace("base =", "bse =")
        .replace("durability = \"full\"", "encryption = \"full\"")
        .replace("url = \"ldap://127.0.0.1", "url = \"ldap://ldap.example.com");
    std::fs::write(&path, wrong).unwrap();
    let checked = run(&place, &["metadir", "check", "metadirectory.toml"]);
    assert_eq!(checked.code, 2);
    insta::assert_snapshot!(checked.err);
    assert!(checked.err.lines().all(|line| line.chars().count() <= 120), "{}", checked.err);
}
