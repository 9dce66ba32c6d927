//! Values that are sent and never read: what a configuration may say.

use std::path::Path;

use plimsoll_metadir::config::{Delivery, HIDDEN, Source, WriteOnlySource, without_secrets};
use plimsoll_metadir::password::Password;

const EXAMPLE: &str = r#"
[store]
sqlite = "s"
[metaverse.person]
attributes = { id = "text", pin = "text", code = "text" }
[agents.dir]
type = "ldap"
url = "ldaps://dc.plim.example"
base = "dc=plim,dc=example"
anchor = "objectGUID"
[agents.hr]
type = "delimited"
path = "hr.csv"
anchor = "id"
[[inbound]]
agent = "hr"
to = "person"
project = true
flow = { id = "id", pin = { constant = "geheim", secret = true }, code = { expression = "cs.id" } }
[[outbound]]
agent = "dir"
from = "person"
dn = "mv.id"
deprovision = { disable = { description = "left" } }
flow = { info = "pin", sn = "id" }
initial = { title = { expression = "mv.info2 + mv.id" } }
[outbound.write_only]
unicodePwd = { generate = { length = 16, classes = ["lower", "upper", "symbols"], look_alikes = true, file = "p" }, on_return = true }
other = { value_env = "X" }
third = "code"
"#;

fn example() -> String {
    EXAMPLE.replace("mv.info2 + ", "")
}

#[test]
fn write_only_values_are_read() {
    let mut config = connectors::parse(&example()).unwrap();
    config.relative_to(Path::new("/etc/metadir"));
    let [other, third, password] = config.outbound[0].write_only.as_slice() else { panic!() };
    let WriteOnlySource::Generated(generator) = &password.from else { panic!() };
    assert_eq!((generator.length, generator.classes.len(), password.on_return), (16, 3, true));
    assert_eq!(generator.classes[0].len(), 26);
    assert_eq!(generator.delivery, Delivery::File("/etc/metadir/p".into()));
    assert!(matches!(&other.from, WriteOnlySource::Secret(Password::Environment(name)) if name == "X"));
    assert!(matches!(&third.from, WriteOnlySource::Flow(Source::Direct(name)) if name == "code"));
    assert_eq!(config.agents[0].write_only, ["other", "third", "unicodePwd"]);
    // What a secret flows into, and what a write-only value comes from, is secret too.
    for name in ["pin", "INFO", "code", "other", "unicodepwd", "userPassword"] {
        assert!(config.secrets.hides(name), "{name}");
    }
    for name in ["id", "sn", "title", "description"] {
        assert!(!config.secrets.hides(name), "{name}");
    }
    assert_eq!(HIDDEN, "(hidden)");
}

#[test]
fn a_type_that_nobody_projects_is_a_warning() {
    let projected = connectors::parse(&example()).unwrap();
    assert!(!format!("{:?}", projected.warnings).contains("projects"), "{:?}", projected.warnings);
    let config = connectors::parse(&example().replace("project = true\n", "")).unwrap();
    assert!(config.warnings[0].what.contains("no [[inbound]] projects a `person`"), "{:?}", config.warnings);
}

#[test]
fn secret_constants_are_hidden_in_a_displayed_configuration() {
    let shown = without_secrets(&example());
    assert!(!shown.contains("geheim") && shown.contains("constant = \"******\""), "{shown}");
    let spread = "[outbound.flow.pin]\nconstant = \"geheim\"\nsecret = true\n[outbound.flow.unicodePwd]\nconstant = [\"geheim\"]\n";
    let shown = without_secrets(spread);
    assert!(!shown.contains("geheim") && shown.len() == spread.len(), "{shown}");
}

#[test]
fn what_is_wrong_with_write_only_values_is_reported() {
    let example = example();
    for (from, to, what) in [
        (
            "ldaps://dc.plim.example",
            "ldap://dc.plim.example",
            "`unicodePwd` would go to ldap://dc.plim.example:389 without TLS",
        ),
        (
            "ldaps://dc.plim.example",
            "ldap://127.0.0.1",
            "`unicodePwd` would go to ldap://127.0.0.1:389 without TLS",
        ),
        (
            "{ value_env = \"X\" }",
            "{ constant = \"geheim\" }",
            "a constant would be a password in the configuration",
        ),
        ("{ value_env = \"X\" }", "{ value_env = \"X\", from = \"id\" }", "needs one of"),
        (
            "{ value_env = \"X\" }",
            "{ generate = { length = 4, file = \"p\" } }",
            "`length` is a number from 8 to 128",
        ),
        (
            "{ value_env = \"X\" }",
            "{ generate = { classes = [\"greek\"], file = \"p\" } }",
            "no class of characters \"greek\"",
        ),
        ("{ value_env = \"X\" }", "{ generate = {} }", "generated passwords are delivered nowhere"),
        (
            "{ value_env = \"X\" }",
            "{ generate = { file = \"p\", command = [\"c\"] } }",
            "delivered by `file` or by `command`",
        ),
        ("{ value_env = \"X\" }", "{ generate = { command = [] } }", "`command` names no program"),
        ("third = \"code\"", "third = \"cod\"", "has no attribute `cod`"),
        ("third = \"code\"", "sn = \"code\"", "`sn` is in `write_only` and in `flow`"),
        (
            "third = \"code\"",
            "description = \"code\"",
            "`description` is in `write_only` and in `deprovision`",
        ),
        ("third = \"code\"", "objectGUID = \"code\"", "`objectGUID` identifies objects"),
        (
            "dn = \"mv.id\"",
            "dn = { candidates = [\"mv.id + string(n)\"] }",
            "only the last of several candidates may use the counter `n`",
        ),
        ("dn = \"mv.id\"", "dn = { candidates = [\"mv.id\", \"mv.nix\"] }", "has no attribute `nix`"),
        (
            "dn = \"mv.id\"",
            "dn = \"mv.id\"\nwhen = \"mv.code\"",
            "`when` cannot work: it is a text, neither true nor false",
        ),
        (
            "dn = \"mv.id\"",
            "dn = \"mv.id\"\nwhen = \"'yes'\"",
            "`when` cannot work: it is a text, neither true nor false",
        ),
        ("sn = \"id\" }", "sn = \"id\", SN = \"code\" }", "are one attribute of a directory"),
        ("dn = \"mv.id\"", "dn = { candidates = [] }", "`dn` has no `candidates`"),
        (
            "sn = \"id\" }",
            "sn = { candidates = [\"mv.id\"] } }",
            "`candidates` are for flows into the metaverse",
        ),
        (
            "[[outbound]]",
            "[[inbound]]\nagent = \"dir\"\nto = \"person\"\nflow = { code = \"third\" }\n[[outbound]]",
            "`code` reads `third`, which is in `write_only`",
        ),
    ] {
        assert!(example.contains(from), "{from}");
        let mistakes = connectors::parse(&example.replacen(from, to, 1)).unwrap_err();
        assert!(mistakes.iter().any(|mistake| mistake.what.contains(what)), "{what}: {mistakes:?}");
        assert!(!format!("{mistakes:?}").contains("geheim"));
    }
}
