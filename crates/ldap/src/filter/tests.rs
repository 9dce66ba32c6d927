use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

#[test]
fn filters_are_read_and_written() {
    for (text, written) in [
        // The examples of RFC 4515, section 4, and of RFC 4526.
        ("(cn=Babs Jensen)", "(cn=Babs Jensen)"),
        ("(!(cn=Tim Howes))", "(!(cn=Tim Howes))"),
        (
            "(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))",
            "(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))",
        ),
        ("(o=univ*of*mich*)", "(o=univ*of*mich*)"),
        ("(seeAlso=)", "(seeAlso=)"),
        ("(cn:caseExactMatch:=Fred Flintstone)", "(cn:caseExactMatch:=Fred Flintstone)"),
        ("(cn:=Betty Rubble)", "(cn:=Betty Rubble)"),
        ("(sn:dn:2.4.6.8.10:=Barney Rubble)", "(sn:dn:2.4.6.8.10:=Barney Rubble)"),
        ("(o:dn:=Ace Industry)", "(o:dn:=Ace Industry)"),
        ("(:1.2.3:=Wilma Flintstone)", "(:1.2.3:=Wilma Flintstone)"),
        ("(:DN:2.4.6.8.10:=Dino)", "(:dn:2.4.6.8.10:=Dino)"),
        (
            r"(o=Parens R Us \28for all your parenthetical needs\29)",
            r"(o=Parens R Us \28for all your parenthetical needs\29)",
        ),
        (r"(cn=*\2A*)", r"(cn=*\2A*)"),
        (r"(filename=C:\5cMyFile)", r"(filename=C:\5CMyFile)"),
        (r"(bin=\00\00\00\04)", r"(bin=\00\00\00\04)"),
        (r"(sn=Lu\c4\8di\c4\87)", "(sn=Lučić)"),
        (r"(1.3.6.1.4.1.1466.0=\04\02\48\69)", r"(1.3.6.1.4.1.1466.0=\04\02Hi)"),
        ("(&)", "(&)"),
        ("(|)", "(|)"),
        ("(cn=*)", "(cn=*)"),
        ("(cn=*a)", "(cn=*a)"),
        ("(cn>=a)", "(cn>=a)"),
        ("(cn<=a)", "(cn<=a)"),
        ("(cn~=a)", "(cn~=a)"),
        ("(cn;lang-de=a=b>c)", "(cn;lang-de=a=b>c)"),
        ("uid=ann", "(uid=ann)"),
        (" ( & (a=1)\n  (b=2) ) ", "(&(a=1)(b=2))"),
        ("(cn=a )", "(cn=a )"),
    ] {
        let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(filter.to_string(), written, "{text}");
        assert_eq!(Filter::parse(written).unwrap(), filter);
    }
}

#[test]
fn what_is_no_filter_is_reported() {
    let deep = format!("{}(a=b){}", "(!".repeat(64), ")".repeat(64));
    for (text, at, what) in [
        ("", 0, "a filter is missing"),
        ("(", 1, "`=` is missing here"),
        ("()", 1, "`=` is missing here"),
        ("(cn)", 1, "`=` is missing here"),
        ("(=a)", 1, "this is not a name of an attribute"),
        ("(c n=a)", 1, "this is not a name of an attribute"),
        ("(cn=a", 5, "`)` is missing here"),
        ("(cn=a))", 6, "the filter ends before this"),
        ("(a=1)(b=2)", 5, "the filter ends before this"),
        ("(!a=b)", 2, "`(` is missing here"),
        ("(!(a=b)(c=d))", 7, "`)` is missing here"),
        ("(&(a=b)c)", 7, "`)` is missing here"),
        ("(cn=a(b)", 5, "`(` is not allowed in a value"),
        ("(cn=a**b)", 4, "there are two asterisks in a row"),
        ("(cn=**)", 4, "there are two asterisks in a row"),
        ("(cn>=a*)", 6, "`*` means nothing here"),
        ("(cn:=a*)", 6, "`*` means nothing here"),
        (r"(cn=\2)", 4, "two hexadecimal digits are missing after this backslash"),
        (r"(cn=\()", 4, "two hexadecimal digits are missing after this backslash"),
        ("(cn=\0)", 4, "a zero byte is not allowed in a value"),
        ("(:=a)", 1, "an attribute or a matching rule is missing here"),
        ("(:dn:=a)", 1, "an attribute or a matching rule is missing here"),
        ("(a::=b)", 1, "an attribute or a matching rule is missing here"),
        ("(a:b:c:=d)", 1, "there are too many colons here"),
        (deep.as_str(), 128, "the filter is nested too deep"),
    ] {
        let error = Filter::parse(text).unwrap_err();
        assert_eq!((error.at, error.what), (at, what), "{text}");
    }
    let deepest = format!("{}(a=b){}", "(!".repeat(63), ")".repeat(63));
    assert_eq!(Filter::parse(&deepest).unwrap().to_string(), deepest);
}

#[test]
fn an_escaped_value_cannot_change_a_filter() {
    let mut text = "(uid=".to_string();
    escape_value(&mut text, b"*)(|(uid=*\0\xff");
    text.push(')');
    assert_eq!(Filter::parse(&text), Ok(Filter::equal("uid", *b"*)(|(uid=*\0\xff")));
}

fn attribute() -> impl Strategy<Value = String> {
    "[a-zA-Z][a-zA-Z0-9-]{0,5}(;[a-z]{1,3})?|[0-2](\\.[0-9]{1,3}){1,4}"
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 1..10), "[*()\\\\ =a-cÆ]{1,10}".prop_map(String::into_bytes)]
}

pub(crate) fn filter() -> impl Strategy<Value = Filter> {
    let assertion = || {
        (attribute(), prop_oneof![Just(Vec::new()), value()])
            .prop_map(|(attribute, value)| Assertion { attribute, value })
    };
    let substrings = (attribute(), option::of(value()), vec(value(), 0..3), option::of(value()))
        .prop_filter("a part", |(_, initial, any, last)| {
            initial.is_some() || last.is_some() || !any.is_empty()
        })
        .prop_map(|(attribute, initial, any, last)| Substrings { attribute, initial, any, last });
    let rule = || attribute().prop_filter("no rule", |name| !name.eq_ignore_ascii_case("dn"));
    let extensible = (option::of(attribute()), any::<bool>(), option::of(rule()), value())
        .prop_filter("named", |(attribute, _, rule, _)| attribute.is_some() || rule.is_some())
        .prop_map(|(attribute, dn_attributes, rule, value)| Extensible {
            attribute,
            dn_attributes,
            rule,
            value,
        });
    let leaf = prop_oneof![
        assertion().prop_map(Filter::Equal),
        assertion().prop_map(Filter::GreaterOrEqual),
        assertion().prop_map(Filter::LessOrEqual),
        assertion().prop_map(Filter::Approximate),
        attribute().prop_map(Filter::Present),
        substrings.prop_map(Filter::Substrings),
        extensible.prop_map(Filter::Extensible),
    ];
    leaf.prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Filter::And),
            vec(inner.clone(), 0..4).prop_map(Filter::Or),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    })
}

proptest! {
    #[test]
    fn a_written_filter_is_read_back(filter in filter()) {
        let written = filter.to_string();
        prop_assert_eq!(Filter::parse(&written).unwrap(), filter);
    }

    #[test]
    fn any_text_is_read_or_refused_with_words(text in ".{0,40}|[()&|!=*a:<>~\\\\0 ]{0,40}") {
        match Filter::parse(&text) {
            Ok(filter) => prop_assert_eq!(Filter::parse(&filter.to_string()).unwrap(), filter),
            Err(error) => prop_assert!(error.at <= text.len() && !error.what.is_empty()),
        }
    }
}
