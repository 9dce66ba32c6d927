//! Scenarios that are written and read back.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{parse, parse_in, read};
use crate::http::scenario::{
    AtEnd, BodyFile, CheckFile, Condition, DataFile, Expected, ExtractionFile, OnFailure, Options, Order,
    Place, Query, RequestFile, ScenarioFile, Sizes, Statuses, Text, Think, TransactionFile, escape,
};

fn text() -> impl Strategy<Value = Text> {
    "(\\$\\{|\\}|\"|'|\\\\|\n|\t|[a-z:/ ]|\\PC|\u{0}){0,8}".prop_map(Text::new)
}

fn name() -> impl Strategy<Value = Text> {
    "[a-zA-Z0-9_-]{1,8}".prop_map(Text::new)
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![(1_u64..100_000).prop_map(|ms| ms * 1_000_000), 1_u64..1 << 40]
}

fn statuses() -> impl Strategy<Value = Statuses> {
    proptest::collection::vec((200_u16..=999, 0_u16..100), 1..3).prop_map(|ranges| {
        let ranges: Vec<String> =
            ranges.iter().map(|(low, more)| format!("{low}..{}", (low + more).min(999))).collect();
        Statuses::parse(&ranges.join(",")).unwrap()
    })
}

fn options() -> impl Strategy<Value = Options> {
    let think = prop_oneof![
        time().prop_map(Think::Constant),
        (time(), time()).prop_map(|(a, b)| Think::Uniform(a.min(b), a.max(b))),
        time().prop_map(Think::Exponential),
    ];
    let option = |strategy| proptest::option::of(strategy);
    (
        proptest::collection::vec(text(), 0..3),
        option(time()),
        proptest::option::of(statuses()),
        proptest::option::of(0_u32..20),
        proptest::option::of(think),
        proptest::option::of(any::<bool>()),
    )
        .prop_map(|(header, timeout, expect_status, follow_redirects, think, cookies)| Options {
            header,
            timeout,
            expect_status,
            follow_redirects,
            think,
            cookies,
        })
}

fn query() -> impl Strategy<Value = Query> {
    prop_oneof![
        text().prop_map(Query::Regex),
        text().prop_map(Query::XPath),
        text().prop_map(Query::JsonPath),
        (text(), proptest::option::of(text())).prop_map(|(name, regex)| Query::Header(name, regex)),
        (text(), proptest::option::of(text())).prop_map(|(name, regex)| Query::Cookie(name, regex)),
    ]
}

fn check() -> impl Strategy<Value = CheckFile> {
    let expected = prop_oneof![
        Just(Expected::Anything),
        text().prop_map(Expected::Equals),
        text().prop_map(Expected::Contains),
        text().prop_map(Expected::Matches),
    ];
    let condition = prop_oneof![
        statuses().prop_map(Condition::Status),
        (0_u64..1 << 40, 0_u64..1 << 40).prop_map(|(a, b)| Condition::Size(Sizes(a.min(b)..=a.max(b)))),
        (0_u64..1 << 40).prop_map(|low| Condition::Size(Sizes(low..=u64::MAX))),
        text().prop_map(Condition::Contains),
        (query(), expected).prop_map(|(query, expected)| Condition::Value(query, expected)),
    ];
    (text(), condition, any::<bool>()).prop_map(|(name, condition, is_absent)| CheckFile {
        name: name.text,
        condition,
        is_absent,
        place: Place::default(),
    })
}

fn request() -> impl Strategy<Value = RequestFile> {
    let body = prop_oneof![
        Just(BodyFile::Empty),
        text().prop_map(BodyFile::Text),
        text().prop_map(BodyFile::Base64),
        (text(), any::<bool>()).prop_map(|(path, is_template)| BodyFile::File { path, is_template }),
    ];
    (
        proptest::option::of(name()),
        prop_oneof![Just("GET"), Just("POST"), Just("M-SEARCH")],
        text(),
        options(),
        body,
        proptest::option::of(time()),
        proptest::collection::vec(check(), 0..3),
        proptest::collection::btree_map("[a-c]{4}", query(), 0..3),
    )
        .prop_map(|(name, method, url, options, body, max_time, checks, extractions)| RequestFile {
            name: name.unwrap_or_default(),
            method: method.into(),
            url,
            options,
            body,
            max_time,
            checks,
            extractions: extractions
                .into_iter()
                .map(|(name, query)| ExtractionFile { variable: Text::new(name), query })
                .collect(),
            place: Place::default(),
        })
}

fn file() -> impl Strategy<Value = ScenarioFile> {
    let at_end = proptest::option::of(prop_oneof![Just(AtEnd::Repeat), Just(AtEnd::Stop)]);
    let data = (text(), prop_oneof![Just(Order::Sequential), Just(Order::Unique)], at_end)
        .prop_map(|(file, order, at_end)| DataFile { file, order, at_end, place: Place::default() });
    let on_failure = prop_oneof![Just(OnFailure::End), Just(OnFailure::Continue)];
    let transaction = (name(), 1_u32..1000, on_failure, proptest::collection::vec(request(), 1..3)).prop_map(
        |(name, weight, on_failure, requests)| TransactionFile { name, weight, on_failure, requests },
    );
    let variables = proptest::collection::btree_map("v[a-z]{1,3}", text(), 0..3);
    (
        (proptest::option::of(text()), proptest::collection::vec(text(), 0..3)),
        options(),
        variables,
        proptest::collection::btree_map("d[a-z]{1,3}", data, 0..2),
        proptest::collection::vec(transaction, 1..3),
    )
        .prop_map(|((base, servers), options, variables, data, transactions)| ScenarioFile {
            base,
            servers,
            options,
            variables,
            data,
            transactions,
        })
}

const DOCUMENTATION: &str = include_str!("../../../../../../docs/formats/scenario.md");

#[test]
fn the_example_of_the_documentation_is_valid() {
    let (_, rest) = DOCUMENTATION.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let folder = testkit::Scratch::new();
    folder.file("users.csv", "name\nann\n");
    let scenario = parse_in(folder.path(), example).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(scenario.operations(), ["browse", "order:form", "order:submit", "order"]);
}

#[test]
fn every_key_is_documented() {
    for key in crate::http::scenario::read::keys() {
        let is_documented = ["`", "` ", "[", "."].iter().any(|before| {
            [format!("{before}{key}`"), format!("{before}{key} = ")]
                .iter()
                .any(|shown| DOCUMENTATION.contains(shown))
        });
        assert!(is_documented, "{key}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn what_is_written_is_read_back(file in file()) {
        let written = file.write();
        prop_assert_eq!(read(&written), file, "{}", written);
    }

    #[test]
    fn a_secret_is_not_recorded(before in "(\\PC){0,4}", after in "( \\PC){0,4}") {
        let file = ScenarioFile {
            base: Some(Text::new("http://me:S3CRET@a")),
            options: Options {
                header: vec![Text::new(format!("Authorization: {before}S3CRET{after}"))],
                ..Options::default()
            },
            variables: BTreeMap::from([("api_key".to_string(), Text::new("S3CRET"))]),
            transactions: vec![TransactionFile {
                requests: vec![RequestFile {
                    url: Text::new("/x?access_token=S3CRET"),
                    body: BodyFile::Text(Text::new("password=S3CRET&x=1")),
                    ..RequestFile::default()
                }],
                ..TransactionFile::default()
            }],
            ..ScenarioFile::default()
        };
        let recorded = file.write_without_secrets();
        prop_assert!(!recorded.contains("S3CRET"), "{}", recorded);
        prop_assert!(!format!("{file:?}").contains("S3CRET"), "{:?}", file);
    }

    #[test]
    fn an_escaped_body_is_sent_as_it_was(text in "(\\$|\\{|\\}|\"|\\\\|\r|\n|\\PC){0,16}") {
        let file = ScenarioFile {
            transactions: vec![TransactionFile {
                name: Text::new("t"),
                weight: 1,
                requests: vec![RequestFile {
                    method: "POST".into(),
                    url: Text::new("http://a/"),
                    body: BodyFile::Text(Text::new(escape(&text))),
                    ..RequestFile::default()
                }],
                ..TransactionFile::default()
            }],
            ..ScenarioFile::default()
        };
        let scenario = parse(&file.write()).unwrap();
        let mut session = crate::http::scenario::Session::new(&scenario, 1, 0);
        prop_assert_eq!(session.next(&scenario, 0, 0, 0).unwrap().body, text.as_bytes());
    }
}
