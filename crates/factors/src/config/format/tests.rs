use super::*;
use proptest::prelude::*;

/// Format, text, key, old value, new value, new text.
type Case = (Format, &'static str, &'static str, &'static str, &'static str, &'static str);

/// The new text, which equals the old one except for one replaced part.
fn replaced(format: &Format, text: &str, key: &str, value: &str) -> Result<String, String> {
    let Replaced { text: changed, at, before, written } = replace(format, text, key, value)?;
    let mut expected = text.to_string();
    assert_eq!(&text[at..at + before.len()], before);
    expected.replace_range(at..at + before.len(), &written);
    assert_eq!(changed, expected);
    Ok(changed)
}

#[test]
fn only_the_value_changes() {
    let cases: &[Case] = &[
        (Format::Ini, "a=1\n[s]\nb = 2 ; two\n", "s.b", "2", "30", "a=1\n[s]\nb = 30 ; two\n"),
        (Format::Ini, "[a.b]\nc: x#y\r\nd=\n", "a.b.c", "x#y", "z", "[a.b]\nc: z\r\nd=\n"),
        (Format::Ini, "[s]\nd=\n", "s.d", "", "1", "[s]\nd=1\n"),
        (Format::Ini, "p = \"a;b\" # why", "p", "a;b", "c d", "p = \"c d\" # why"),
        (Format::Properties, "# k=0\nk.a : 1\n", "k.a", "1", "2", "# k=0\nk.a : 2\n"),
        (Format::Properties, "k \\\n   v\nl=1\n", "l", "1", "2", "k \\\n   v\nl=2\n"),
        (Format::Properties, "k=a,\\\n  b\nl=1\n", "k", "a,b", "c\\d", "k=c\\\\d\nl=1\n"),
        (Format::Properties, "a\\:b=\\u0041\n", "a:b", "A", " x", "a\\:b=\\ x\n"),
        (
            Format::Toml,
            "[a]\nb = { c = 8, d = 'x' } # e\n",
            "a.b.c",
            "8",
            "9",
            "[a]\nb = { c = 9, d = 'x' } # e\n",
        ),
        (Format::Toml, "a.b = 'x'\n", "a.b", "x", "y's", "a.b = \"y's\"\n"),
        (Format::Toml, "[[t]]\nn=1\n[[t]]\nn=2\n", "t.1.n", "2", "3", "[[t]]\nn=1\n[[t]]\nn=3\n"),
        (Format::Toml, "\"a.b\".c = true\n", "a.b.c", "true", "no", "\"a.b\".c = \"no\"\n"),
        (Format::Yaml, "a:\n  b: 8 # c\n  d: x\n", "a.b", "8", "16", "a:\n  b: 16 # c\n  d: x\n"),
        (Format::Yaml, "a:\r\n  b: x\r\n  c: 1\r\n", "a.c", "1", "2", "a:\r\n  b: x\r\n  c: 2\r\n"),
        (
            Format::Yaml,
            "l:\n- n: ä\n  p: 'x'\n- n: b\n",
            "l.0.p",
            "x",
            "it's",
            "l:\n- n: ä\n  p: 'it''s'\n- n: b\n",
        ),
        (Format::Yaml, "a: {b: 1, c: \"d\"}\n", "a.b", "1", "x, y", "a: {b: \"x, y\", c: \"d\"}\n"),
        (Format::Yaml, "a: 1\n", "a", "1", "b: c", "a: \"b: c\"\n"),
        (Format::Yaml, "a: 1\n---\nb: 2\n", "b", "2", "3", "a: 1\n---\nb: 3\n"),
        (Format::Yaml, "a.b: 1\na: {b: 2}\n", "a.b", "1", "3", "a.b: 3\na: {b: 2}\n"),
        (
            Format::Json,
            "{\"a\": [1, {\"b\": 2}],\n\t\"c\": \"x\"}",
            "a.1.b",
            "2",
            "2.5",
            "{\"a\": [1, {\"b\": 2.5}],\n\t\"c\": \"x\"}",
        ),
        (Format::Json, "{\"c\": \"x\\/\\ud83d\\ude00\"}", "c", "x/\u{1f600}", "1", "{\"c\": \"1\"}"),
        (Format::Json, "{\"c\": null}", "c", "null", "a b", "{\"c\": \"a b\"}"),
    ];
    for (format, text, key, old, new, expected) in cases {
        assert_eq!(read(format, text, key).as_deref(), Ok(*old), "{text}");
        assert_eq!(replaced(format, text, key, new).as_deref(), Ok(*expected), "{text}");
        assert_eq!(read(format, expected, key).as_deref(), Ok(*new), "{expected}");
    }
    let Ok(pattern) = Format::pattern(r"^threads\s+(\d+)") else { panic!("an expression") };
    let text = "# threads 4\nthreads 8\n";
    assert_eq!(replaced(&pattern, text, "", "16").as_deref(), Ok("# threads 4\nthreads 16\n"));
    assert!(replace(&pattern, text, "", "many").unwrap_err().contains("no longer match"));
}

#[test]
fn what_cannot_be_replaced_is_reported() {
    for (format, text, key, expected) in [
        (Format::Ini, "[s]\na=1\na=2\n", "s.a", "has `s.a` 2 times"),
        (Format::Ini, "[s]\na=1\n", "a", "has no `a`"),
        (Format::Toml, "a = { b = 1 }\n", "a", "holds others"),
        (Format::Toml, "a = '''x'''\n", "a", "several lines"),
        (Format::Toml, "a = \n", "a", "is not TOML"),
        (Format::Yaml, "a: |\n  b\n", "a", "several lines"),
        (Format::Yaml, "a: b\n  c\n", "a", "several lines"),
        (Format::Yaml, "a: &x 1\nb: *x\n", "b", "is an alias"),
        (Format::Yaml, "a:\nb: 1\n", "a", "has no value"),
        (Format::Yaml, "a: [1\n", "a", "is not YAML"),
        (Format::Yaml, "a: [1]\n", "a", "holds others"),
        (Format::Json, "{\"a\": 1", "a", "is not JSON"),
        (Format::Json, "{\"a\": {}}", "a.b", "has no `a.b`"),
    ] {
        let found = replace(&format, text, key, "1").unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
    }
    assert!(replace(&Format::Ini, "a=1\n", "a", "b\nc=2").is_err());
    assert!(in_yaml(&"[".repeat(100_000), "a").is_err());
}

/// Files with a key `a.k`, with any value and surrounding text.
fn files(value: u32, noise: &str) -> Vec<(Format, String)> {
    vec![
        (Format::Ini, format!("; {noise}\n[a]\nk = {value}   # {noise}\nother = {noise}\n")),
        (Format::Properties, format!("! {noise}\na.k={value}\nother={noise}\n")),
        (Format::Toml, format!("# {noise}\n[a]\nk = {value} # {noise}\nother = 1\n")),
        (Format::Yaml, format!("# {noise}\na:\n  k: {value} # {noise}\n  other: 1\n")),
        (Format::Json, format!("{{\"x\": {},\n  \"a\": {{\"k\": {value}, \"other\": 1}}}}\n", quoted(noise))),
    ]
}

proptest! {
    #[test]
    fn another_value_and_back_gives_the_same_bytes(old: u32, new: u32, noise in "[a-zäöü ]{0,20}") {
        for (format, text) in files(old, &noise) {
            let changed = replaced(&format, &text, "a.k", &new.to_string()).unwrap();
            prop_assert_eq!(read(&format, &changed, "a.k").unwrap(), new.to_string());
            prop_assert_eq!(replaced(&format, &changed, "a.k", &old.to_string()).unwrap(), text);
        }
    }

    #[test]
    fn whatever_is_written_is_read_back_and_nothing_else_changes(value in "\\PC{1,12}", old: u32) {
        for (format, text) in files(old, "noise") {
            let Ok(changed) = replaced(&format, &text, "a.k", &value) else { continue };
            prop_assert_eq!(read(&format, &changed, "a.k").unwrap(), value.clone());
            let at = text.find(&old.to_string()).unwrap();
            prop_assert_eq!(&changed[..at], &text[..at]);
            let rest = &text[at + old.to_string().len()..];
            prop_assert!(changed.ends_with(rest));
        }
    }

    #[test]
    fn no_text_panics(text in "([\\[\\]{}:=,.\"'\\\\#;|>&* \n\r\tak1ä-]|\\PC){0,60}", key in "[ak.1]{1,5}") {
        for (_, format) in NAMES {
            let _ = replace(&format, &text, &key, "v");
        }
    }
}
