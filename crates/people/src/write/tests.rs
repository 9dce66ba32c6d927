use super::*;

/// Values that no person has; every value must be written correctly.
const HOSTILE: [&str; 10] =
    ["plain", "", "a,b", "say \"hi\"", "O'Brien", "back\\slash", "tab\there", "two\nlines", "\r", "\\."];

#[test]
fn csv_quotes_where_it_must() {
    for (value, field) in HOSTILE.iter().zip([
        "plain",
        "",
        "\"a,b\"",
        "\"say \"\"hi\"\"\"",
        "O'Brien",
        "back\\slash",
        "tab\there",
        "\"two\nlines\"",
        "\"\r\"",
        "\\.",
    ]) {
        let mut out = Vec::new();
        csv::row([*value, "x"].into_iter(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("{field},x\n"));
    }
}

#[test]
fn sql_escapes_in_both_dialects() {
    for (value, (copied, quoted)) in HOSTILE.iter().zip([
        ("plain", "'plain'"),
        ("\\N", "NULL"),
        ("a,b", "'a,b'"),
        ("say \"hi\"", "'say \"hi\"'"),
        ("O'Brien", "'O''Brien'"),
        ("back\\\\slash", "'back\\slash'"),
        ("tab\\there", "'tab\there'"),
        ("two\\nlines", "'two\nlines'"),
        ("\\r", "'\r'"),
        ("\\\\.", "'\\.'"),
    ]) {
        for (dialect, expected) in
            [(Dialect::Postgres, format!("{copied}\tx\n")), (Dialect::Sqlite, format!("({quoted},'x')"))]
        {
            let mut out = Vec::new();
            sql::Rows::new(dialect, sql::MEMBERS).row([*value, "x"].into_iter(), &mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(text.ends_with(&expected), "{text:?} for {value:?}");
        }
    }
}
