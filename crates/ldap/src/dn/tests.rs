use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn dn(text: &str) -> Dn {
    Dn::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn names_are_read_and_written() {
    for (text, written) in [
        ("", ""),
        ("  ", ""),
        // The examples of RFC 4514, section 4.
        ("UID=jsmith,DC=example,DC=net", "UID=jsmith,DC=example,DC=net"),
        ("OU=Sales+CN=J.  Smith,DC=example,DC=net", "OU=Sales+CN=J.  Smith,DC=example,DC=net"),
        (r#"CN=James \"Jim\" Smith\, III,DC=example"#, r#"CN=James \"Jim\" Smith\, III,DC=example"#),
        (r"CN=Before\0dAfter,DC=example", r"CN=Before\0DAfter,DC=example"),
        ("1.3.6.1.4.1.1466.0=#04024869", "1.3.6.1.4.1.1466.0=#04024869"),
        (r"CN=Lu\C4\8Di\C4\87", "CN=Lučić"),
        ("cn = a b , dc= c ", "cn=a b,dc=c"),
        (r"cn=\ a\ ,dc=\20", r"cn=\ a\ ,dc=\ "),
        (r"cn=\#a#b", r"cn=\#a#b"),
        (r"cn=a\=b=c", r"cn=a\=b\=c"),
        (r"cn=\+\,\;\<\>\\", r"cn=\+\,\;\<\>\\"),
        ("cn=,dc=a", "cn=,dc=a"),
        (r"cn=\ff\00", r"cn=\FF\00"),
        (r"cn=a\ \ ", r"cn=a \ "),
    ] {
        assert_eq!(dn(text).to_string(), written, "{text}");
        assert_eq!(dn(written), dn(text), "{text}");
    }
}

#[test]
fn what_is_no_name_is_reported() {
    for (text, at, what) in [
        ("a", 1, "`=` is missing here"),
        ("=a", 0, "an attribute is missing here"),
        ("cn=a,", 5, "an attribute is missing here"),
        ("cn=a,,dc=b", 5, "an attribute is missing here"),
        ("cn=a+", 5, "an attribute is missing here"),
        ("cn=Smith, John,dc=b", 14, "`=` is missing here"),
        (r"cn=a\", 4, "nothing that can be escaped follows this backslash"),
        (r"cn=a\x", 4, "nothing that can be escaped follows this backslash"),
        ("cn=a;dc=b", 4, "this character must be escaped"),
        ("cn=\"a\"", 3, "this character must be escaped"),
        ("cn=#", 4, "`#` is followed by pairs of hexadecimal digits"),
        ("cn=#0", 4, "`#` is followed by pairs of hexadecimal digits"),
        ("cn=#00x", 6, "`#` is followed by pairs of hexadecimal digits"),
        ("-cn=a", 0, "an attribute is missing here"),
    ] {
        let error = Dn::parse(text).unwrap_err();
        assert_eq!((error.at, error.what), (at, what), "{text}");
    }
    assert_eq!(Rdn::parse("cn=a,dc=b").unwrap_err().what, "this is more than one relative name");
}

#[test]
fn names_of_one_entry_are_the_same() {
    for (one, other, same) in [
        ("cn=Ann,dc=a", "CN=ann , DC = A", true),
        ("cn=a  b", "cn= A B ", true),
        ("cn=a b", "cn=ab", false),
        ("cn=a+sn=b,dc=c", "SN=B+CN=a,dc=c", true),
        ("cn=a+sn=b", "cn=a,sn=b", false),
        ("2.5.4.3=a,0.9.2342.19200300.100.1.25=b", "cn=A,dc=B", true),
        ("cn=ÆØ", "cn=æø", true),
        (r"cn=a\,b", r"cn=a\2cb", true),
        (r"cn=a\=b", r"cn=a=b", true),
        (r"cn=\ff", r"cn=\FF", true),
        ("cn=#0401AA", "cn=#0401aa", true),
        ("cn=#040161", "cn=#040162", false),
        ("dc=a", "dc=a,dc=b", false),
        ("", "", true),
    ] {
        let (one, other) = (dn(one), dn(other));
        assert_eq!(one.same(&other), same, "{one} {other}");
        assert_eq!(one.normalized() == other.normalized(), same, "{one} {other}");
        assert_eq!(one.key() == other.key(), same, "{one} {other}");
    }
}

#[test]
fn names_are_taken_apart_and_put_together() {
    let name = dn("cn=a,ou=b,dc=c");
    assert_eq!(name.parent(), Some(dn("ou=b,dc=c")));
    assert_eq!(name.rdn(), Some(&Rdn::new("cn", "a")));
    assert_eq!((Dn::ROOT.parent(), Dn::ROOT.rdn(), Dn::ROOT.is_root()), (None, None, true));
    assert_eq!(dn("dc=c").parent(), Some(Dn::ROOT));
    assert_eq!(dn("dc=c").child(Rdn::new("cn", "x, y")).to_string(), r"cn=x\, y,dc=c");
    assert_eq!(name.renamed(Rdn::new("cn", "z"), None), dn("cn=z,ou=b,dc=c"));
    assert_eq!(name.renamed(Rdn::new("cn", "z"), Some(&dn("dc=d"))), dn("cn=z,dc=d"));
    assert_eq!(Dn::ROOT.renamed(Rdn::new("cn", "z"), None), Dn::ROOT);
    assert_eq!(name.moved(&dn("OU=B,dc=c"), &dn("ou=x")), Some(dn("cn=a,ou=x")));
    assert_eq!(name.moved(&name, &dn("cn=b")), Some(dn("cn=b")));
    assert_eq!(name.moved(&dn("ou=x,dc=c"), &dn("ou=y")), None);
    for (above, within) in
        [("dc=C", true), ("", true), ("cn=a,ou=b,dc=c", true), ("x=y,cn=a,ou=b,dc=c", false), ("dc=d", false)]
    {
        assert_eq!(name.is_within(&dn(above)), within, "{above}");
    }
}

#[test]
fn keys_put_an_entry_before_all_below_it_and_with_them_alone() {
    let order =
        ["", "dc=a", "cn=x,dc=a", "cn=y,cn=x,dc=a", "cn=x!,dc=a", r"cn=x\,,dc=a", "dc=ab", "cn=x,dc=ab"];
    let mut sorted: Vec<Dn> = order.iter().rev().map(|text| dn(text)).collect();
    sorted.sort_by_key(Dn::key);
    let written: Vec<String> = sorted.iter().map(ToString::to_string).collect();
    assert_eq!(written, order);
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        vec(any::<u8>(), 0..12).prop_map(Value::Bytes),
        "[ #+,;<>=\\\\\"a-cÆ]{0,12}".prop_map(|text| Value::Bytes(text.into_bytes())),
        vec(any::<u8>(), 1..6).prop_map(Value::Ber),
    ]
}

fn name() -> impl Strategy<Value = Dn> {
    let part = ("[a-zA-Z][a-zA-Z0-9-]{0,4}|[0-2](\\.[0-9]{1,3}){1,4}", value())
        .prop_map(|(attribute, value)| Part { attribute, value });
    vec(vec(part, 1..4).prop_map(|parts| Rdn { parts }), 0..5).prop_map(Dn::new)
}

proptest! {
    #[test]
    fn a_written_name_is_read_back(name in name()) {
        let written = name.to_string();
        prop_assert_eq!(&Dn::parse(&written).unwrap(), &name);
        prop_assert!(!written.contains(|character: char| character.is_control()));
        let normalized = Dn::parse(&name.normalized()).unwrap();
        prop_assert!(normalized.same(&name));
        prop_assert_eq!(normalized.normalized(), name.normalized());
    }

    #[test]
    fn keys_tell_what_is_within(one in name(), other in name()) {
        prop_assert_eq!(one.key().starts_with(&other.key()), one.is_within(&other));
        let below = other.child(Rdn::new("cn", "x"));
        prop_assert!(below.key().starts_with(&other.key()) && below.is_within(&other));
    }

    #[test]
    fn any_text_is_read_or_refused_with_words(text in ".{0,40}|[cn=,+#a0\\\\ \";]{0,40}") {
        match Dn::parse(&text) {
            Ok(name) => prop_assert_eq!(Dn::parse(&name.to_string()).unwrap(), name),
            Err(error) => prop_assert!(error.at <= text.len() && !error.what.is_empty()),
        }
    }
}
