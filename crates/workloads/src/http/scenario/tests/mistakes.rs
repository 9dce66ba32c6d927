//! Mistakes of scenario files: each at its line, all at once.

use testkit::Scratch;

use super::{parse, parse_in};
use crate::http::scenario::Scenario;

fn shown(result: Result<Scenario, model::Problems>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn mistakes_of_form() {
    insta::assert_snapshot!(shown(parse(
        r#"bse = "http://a"
timeout = "10"
follow_redirects = 99
think = "3s..1s"
cookies = "yes"
expect_status = "OK"

[variables]
number = "1"
"a b" = "x"
region = 5

[data.users]
order = "shuffled"

[data.hosts]
file = "h.csv"
order = "random"
at_end = "stop"

[[transaction]]
weight = 0
on_failure = "ignore"

[[transaction.request]]
method = "get"
header = [3]
body = "x"
body_file = "y"
check = [{ status = "200", size = "1B" }, { absent = true }, { regex = "x", equals = "y", contains = "z" }, { status = "x" }, { statsu = "200" }]
extract.user = { header = "x" }
extract.v = { xpath = "//a", regex = "b" }
"#,
    )));
}

#[test]
fn mistakes_of_meaning() {
    let folder = Scratch::new();
    folder.file("users.csv", "name,mail\nann,a@b\n");
    folder.file("broken.csv", "a,b\n1\n");
    folder.file("raw.bin", [0xff_u8, 0xfe]);
    insta::assert_snapshot!(shown(parse_in(
        folder.path(),
        r#"base = "http://a/app"
header = ["Connection: close", "no colon", "a b: c", "Cookie: a=b", "X: ${env:MISSING}"]

[variables]
region = "${users.name}"
users = "x"

[data.users]
file = "users.csv"
[data.broken]
file = "broken.csv"

[[transaction]]
name = "shop.buy"

[[transaction.request]]
url = "login"
body = """
<user>
  <name>${users.nam}</name>
  <id>${broken.a}</id>
  <x>${nubmer}</x>
</user>"""

[[transaction.request]]
name = "b"
url = "http://${number}/"
body_file = "missing.xml"
check = [{ regex = "(" }, { xpath = "//a[" }, { json_path = "a" }, { contains = "${later}" }]

[[transaction.request]]
name = "b"
url = "ftp://a/"
body_file = "raw.bin"
body_template = true
header = "Accept-Encoding: gzip"
extract.later = { json_path = "$.x" }
think = "1s"

[[transaction]]
name = "empty"

[[transaction]]
name = "empty"
request = [{ url = "http://me:pw@a/", body_base64 = "***" }]
"#,
    )));
}

#[test]
fn a_relative_url_needs_a_base() {
    insta::assert_snapshot!(shown(parse(
        "[[transaction]]\nname = \"t\"\n[[transaction.request]]\nurl = \"/x\"\n"
    )));
    insta::assert_snapshot!(shown(parse("")));
    insta::assert_snapshot!(shown(parse("[[transaction]\nname = \"t\"\n")));
}

#[test]
fn no_mistake_shows_a_secret() {
    for line in [
        "header = [\"Authorization: Bearer S3CRET\", \"no colon\"]",
        "header = [\"Authorization Bearer S3CRET\"]",
        "url = \"http://me:S3CRET@a/\"",
        "url = \"http:///x?token=S3CRET\"",
        "url = \"x?password=S3CRET\"",
        "body = \"password=S3CRET&x=${unknown}\"",
        "check = [{ regex = \"token=S3CRET(\" }]",
        "check = [{ contains = \"password=S3CRET\", equals = \"${x}\" }]",
    ] {
        let url = if line.starts_with("url") { "" } else { "url = \"http://a/\"\n" };
        let text = format!("[[transaction]]\nname = \"t\"\n[[transaction.request]]\n{url}{line}\n");
        let problems = parse(&text).err().unwrap_or_else(|| panic!("no mistake in {line}"));
        for shown in [problems.to_string(), format!("{problems:?}")] {
            assert!(!shown.contains("S3CRET"), "{shown}");
        }
    }
    // Nor do the descriptions of failures and the debug output of a scenario.
    let text = "[[transaction]]\nname = \"t\"\n[[transaction.request]]\nurl = \"http://a/?token=${env:SECRET}\"\n\
                header = \"Authorization: Bearer ${env:SECRET}\"\nbody = \"x${env:SECRET}\"\ncheck = [{ contains = \"password=S3CRET\" }]\n";
    let scenario = parse(text).unwrap();
    let failures: Vec<String> = (0..20).map(|code| scenario.describe_failure(code)).collect();
    assert!(!failures.concat().contains("S3CRET"), "{failures:?}");
    let mut session = crate::http::scenario::Session::new(&scenario, 1, 0);
    let planned = session.next(&scenario, 0, 0, 0).unwrap();
    let shown = format!("{planned:?} {scenario:?}");
    // As text and as numbers.
    assert!(!shown.contains("S3CRET") && !shown.contains("83, 51, 67"), "{shown}");
}
