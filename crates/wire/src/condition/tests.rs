use super::*;
use crate::capture::{Capture, Packet};

/// The operations of the capture of a directory.
fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    let bytes = include_bytes!("../../fixtures/ldap.pcap");
    let mut settings = crate::Settings::default();
    settings.ports.set(18600, crate::Protocol::Ldap);
    crate::Analysis::of(&bytes[..], "ldap.pcap", settings, |operation, _| all.push(operation.clone()))
        .unwrap();
    all
}

fn begin_ns() -> u64 {
    let mut capture = Capture::open(&include_bytes!("../../fixtures/ldap.pcap")[..]).unwrap();
    let first: Option<Packet<'_>> = capture.packet().unwrap();
    first.unwrap().time_ns.unwrap()
}

#[test]
fn conditions_select_operations() {
    let (operations, begin_ns) = (operations(), begin_ns());
    for (text, expected) in [
        ("kind = search", 10),
        ("kind = SEARCH and filter contains '(uid=user.1999'", 6),
        ("filter contains \"(mail=\"", 1),
        ("shape = \"(&(objectclass=?)(uid=?*))\"", 1),
        ("code = noSuchObject or code = invalidCredentials", 3),
        ("code != 0 and not code = compareTrue", 5),
        ("code = 49", 1),
        ("code contains exceeded", 2),
        ("code >= 48 and code < 50", 1),
        ("name contains 'cn=admin' and kind = bind", 9),
        ("name = \"(anonymous)\" && kind = bind", 3),
        ("entries >= 3", 3),
        ("entries > 1KiB", 0),
        ("kind = unbind", 13),
        ("base = 'ou=none,dc=example,dc=com'", 1),
        ("connection = 1", 3),
        ("server contains ':18600' and client contains 127.0.0.1 and kind = add", 1),
        ("protocol = http", 0),
        ("method = get or status = 200 or path contains x", 0),
        ("time >= 0s", 30),
        ("first > 0ns", 9),
        ("at < 1h and !(kind = unbind)", 30),
        ("bytes = 0 and kind != unbind", 0),
        // An operation without a result has no code, whatever it is compared with.
        ("kind = unbind and (code = 0 or code != 0)", 0),
    ] {
        let condition = match Condition::parse(text) {
            Ok(condition) => condition,
            // A count has no unit.
            Err(mistakes) if text.contains("KiB") => {
                assert_eq!(mistakes[0].column, 11);
                continue;
            }
            Err(mistakes) => panic!("{text}: {mistakes:?}"),
        };
        let found = operations.iter().filter(|operation| condition.is_met(operation, begin_ns)).count();
        assert_eq!(found, expected, "{text}");
        assert_eq!(condition.to_string(), text);
    }
}

#[test]
fn all_mistakes_are_reported_with_their_column() {
    let shown = |text: &str| match Condition::parse(text) {
        Ok(_) => format!("{text}\n  no mistake"),
        Err(mistakes) => {
            let all: Vec<String> = mistakes.iter().map(|mistake| format!("\n  {mistake}")).collect();
            format!("{text}{}", all.concat())
        }
    };
    let texts = [
        "",
        "filtr contains \"x\" and time > 1 and code = sucess",
        "time",
        "time >",
        "time > 1s and",
        "time > 1s kind = bind",
        "(time > 1s",
        "time > 1s)",
        "not",
        "filter contains \"x",
        "filter > x",
        "time contains 1s",
        "code > success",
        "bytes > 4MB and entries > many",
        "kind = bind ; kind = search",
        "\"x\" = kind",
        "kürzel = bind and kind ~ x",
    ];
    insta::assert_snapshot!(texts.map(shown).join("\n"));
}

#[test]
fn nesting_is_limited() {
    let text = |depth: usize| format!("{}time > 1s{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Condition::parse(&text(63)).is_ok());
    assert!(Condition::parse(&text(64)).is_err());
    assert!(Condition::parse(&"not ".repeat(100_000)).is_err());
}

#[test]
fn a_password_in_a_filter_cannot_be_searched_for() {
    for condition in ["filter contains secret", "filter contains 'userPassword=s'"] {
        let condition = Condition::parse(condition).unwrap();
        assert!(!operations().iter().any(|operation| condition.is_met(operation, 0)));
    }
}
