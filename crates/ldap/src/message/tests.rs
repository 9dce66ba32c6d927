use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::controls::{PagedResults, SyncDone, SyncEntryState, SyncInfo, SyncRequest, SyncState, Uuid};

fn encoded(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

/// Bytes from hexadecimal digits with blanks between.
fn hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[test]
fn messages_are_the_bytes_that_others_send() {
    let values = [Value(b"Ann")];
    let attribute = Attribute { name: "cn", values: List::from(&values) };
    let changes = [Change { operation: ModifyOperation::Replace, attribute }];
    let cases = [
        (Operation::simple_bind("", b""), "30 0c 02 01 01 60 07 02 01 03 04 00 80 00"),
        (
            Operation::simple_bind("cn=a", b"pw"),
            "30 12 02 01 01 60 0d 02 01 03 04 04 63 6e 3d 61 80 02 70 77",
        ),
        (Operation::UnbindRequest, "30 05 02 01 01 42 00"),
        (
            Operation::ExtendedRequest { oid: WHO_AM_I, value: None },
            "30 1e 02 01 01 77 19 80 17 31 2e 33 2e 36 2e 31 2e 34 2e 31 2e 34 32 30 33 2e 31 2e 31 31 2e 33",
        ),
        (Operation::DelRequest { dn: "dc=a" }, "30 09 02 01 01 4a 04 64 63 3d 61"),
        (Operation::AbandonRequest { id: 5 }, "30 06 02 01 01 50 01 05"),
        (
            Operation::ModifyRequest { dn: "dc=a", changes: List::from(&changes) },
            "30 1f 02 01 01 66 1a 04 04 64 63 3d 61 30 12 30 10 0a 01 02 30 0b 04 02 63 6e 31 05 04 03 41 6e 6e",
        ),
        (
            Operation::ModifyDnRequest {
                dn: "cn=a",
                new_rdn: "cn=b",
                delete_old_rdn: true,
                new_superior: Some("dc=c"),
            },
            "30 1a 02 01 01 6c 15 04 04 63 6e 3d 61 04 04 63 6e 3d 62 01 01 ff 80 04 64 63 3d 63",
        ),
        (
            Operation::CompareRequest { dn: "dc=a", attribute: "dc", value: Value(b"a") },
            "30 14 02 01 01 6e 0f 04 04 64 63 3d 61 30 07 04 02 64 63 04 01 61",
        ),
        (
            Operation::SearchResultDone(LdapResult {
                code: ResultCode::NoSuchObject,
                matched_dn: "dc=a",
                ..LdapResult::SUCCESS
            }),
            "30 10 02 01 01 65 0b 0a 01 20 04 04 64 63 3d 61 04 00",
        ),
    ];
    for (operation, bytes) in cases {
        let message = Message::new(1, operation);
        assert_eq!(encoded(&message), hex(bytes), "{message:?}");
        assert_eq!(Message::decode(&hex(bytes)), Ok(message));
    }
}

#[test]
fn a_search_is_the_bytes_that_ldapsearch_sends() {
    // ldapsearch 2.5.13 -b dc=a -z 1000 -E '!pr=100/noprompt' '(&(uid=ann)(cn=a*b))' cn +
    let filter = Filter::parse("(&(uid=ann)(cn=a*b))").unwrap();
    let search = SearchRequest {
        size_limit: 1000,
        attributes: List::from(&["cn", "+"]),
        ..SearchRequest::subtree("dc=a", &filter)
    };
    let value = hex("30 05 02 01 64 04 00");
    let controls = [Control { oid: crate::controls::PAGED_RESULTS, critical: true, value: Some(&value) }];
    let message =
        Message { id: 2, operation: Operation::SearchRequest(search), controls: List::from(&controls) };
    let bytes =
        hex("30 68 02 01 02 63 3b 04 04 64 63 3d 61 0a 01 02 0a 01 00 02 02 03 e8 02 01 00 01 01 00 \
         a0 1a a3 0a 04 03 75 69 64 04 03 61 6e 6e a4 0c 04 02 63 6e 30 06 80 01 61 82 01 62 \
         30 07 04 02 63 6e 04 01 2b \
         a0 26 30 24 04 16 31 2e 32 2e 38 34 30 2e 31 31 33 35 35 36 2e 31 2e 34 2e 33 31 39 01 01 ff \
         04 07 30 05 02 01 64 04 00");
    assert_eq!(encoded(&message), bytes);
    assert_eq!(Message::decode(&bytes), Ok(message));
    assert_eq!(
        PagedResults::decode(message.control(crate::controls::PAGED_RESULTS).unwrap().unwrap()),
        Ok(PagedResults { size: 100, cookie: b"" })
    );
}

#[test]
fn what_is_added_to_the_protocol_later_is_passed_over() {
    // A result with an unknown element at its end and lengths of four bytes, as Active Directory writes them.
    let bytes =
        hex("30 84 00 00 00 17 02 01 07 65 84 00 00 00 0e 0a 01 00 04 00 04 02 6f 6b 9f 03 00 85 00 00");
    assert!(Message::decode(&bytes).is_err(), "a tag of several bytes");
    let bytes = hex("30 84 00 00 00 16 02 01 07 65 84 00 00 00 0d 0a 01 00 04 00 04 02 6f 6b 85 02 00 00");
    let message = Message::decode(&bytes).unwrap();
    assert_eq!(
        message,
        Message::new(7, Operation::SearchResultDone(LdapResult { diagnostic: "ok", ..LdapResult::SUCCESS }))
    );
}

#[test]
fn words_for_people_do_not_make_a_result_unreadable() {
    let bytes = hex("30 0f 02 01 01 61 0a 0a 01 31 04 00 04 03 61 ff 62");
    let message = Message::decode(&bytes).unwrap();
    let result = message.operation.result().unwrap();
    assert_eq!((result.code, result.diagnostic), (ResultCode::InvalidCredentials, "a"));
}

#[test]
fn what_is_no_message_is_an_error() {
    for (bytes, what) in [
        ("30 03 02 01 01", "an element is longer than what holds it"),
        ("30 05 02 01 01 42 00 00", "bytes follow the message"),
        ("30 05 02 01 ff 42 00", "a number is out of its range"),
        ("30 09 02 05 00 80 00 00 00 42 00", "a message identifier is out of its range"),
        ("30 05 04 01 01 42 00", "there is an element of another kind"),
        ("30 05 02 01 01 5e 00", "an operation of an unknown kind"),
        ("30 0c 02 01 01 60 07 02 01 03 04 00 85 00", "a bind of an unknown kind"),
        ("30 0c 02 01 01 61 07 0a 01 00 04 00 04 05", "an element is longer than what holds it"),
        ("30 0f 02 01 01 64 0a 04 00 30 06 30 04 04 02 63 6e", "an element is missing"),
    ] {
        assert_eq!(Message::decode(&hex(bytes)), Err(BerError(what)), "{bytes}");
    }
}

#[test]
fn a_message_is_cut_from_what_came() {
    let whole = encoded(&Message::new(1, Operation::DelRequest { dn: &"x".repeat(200) }));
    for length in 0..whole.len() {
        assert_eq!(frame(&whole[..length], 300), Ok(Frame::More), "{length}");
    }
    assert_eq!(frame(&[&whole[..], b"0"].concat(), 300), Ok(Frame::Whole(whole.len())));
    assert_eq!(frame(&whole[..5], 200), Err(BerError("a message is longer than allowed")));
    assert!(frame(b"HTTP/1.1 400 Bad Request", 1000).is_err());
    assert!(frame(&[0x30, 0x80], 1000).is_err());
    assert_eq!(
        frame(&[0x30, 0x88, 255, 255, 255, 255, 255, 255, 255, 255], 1000),
        Err(BerError("a message is longer than allowed"))
    );
}

#[test]
fn nothing_that_is_shown_for_debugging_holds_a_secret() {
    let values = [Value(b"hunter2")];
    let attributes = [Attribute { name: "userPassword", values: List::from(&values) }];
    let changes = [Change { operation: ModifyOperation::Add, attribute: attributes[0] }];
    let controls = [Control { oid: "1.2", critical: false, value: Some(b"hunter2") }];
    for operation in [
        Operation::simple_bind("cn=a", b"hunter2"),
        Operation::external_bind(b"hunter2"),
        Operation::AddRequest { dn: "cn=a", attributes: List::from(&attributes) },
        Operation::ModifyRequest { dn: "cn=a", changes: List::from(&changes) },
        Operation::CompareRequest { dn: "cn=a", attribute: "userPassword", value: values[0] },
        Operation::SearchResultEntry { dn: "cn=a", attributes: List::from(&attributes) },
    ] {
        let message = Message { id: 1, operation, controls: List::from(&controls) };
        let bytes = encoded(&message);
        for shown in [format!("{message:?}"), format!("{:?}", Message::decode(&bytes))] {
            assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
        }
    }
}

/// The parts of an arbitrary message.
#[derive(Clone, Debug)]
struct Parts {
    kind: usize,
    id: u32,
    number: u32,
    flag: bool,
    words: (String, String),
    bytes: Option<Vec<u8>>,
    values: Vec<(String, Vec<Vec<u8>>)>,
    filter: Filter,
    controls: Vec<(String, bool, Option<Vec<u8>>)>,
}

const KINDS: usize = 22;

fn parts() -> impl Strategy<Value = Parts> {
    let bytes = || vec(any::<u8>(), 0..150);
    let control = ("[0-2](\\.[0-9]{1,3}){1,4}", any::<bool>(), option::of(bytes()));
    (
        (0..KINDS, 0..=ID_MAX, any::<u32>(), any::<bool>()),
        (".{0,20}", ".{0,60}"),
        option::of(bytes()),
        vec(("[a-z]{1,9}", vec(bytes(), 0..4)), 0..5),
        crate::filter::tests::filter(),
        vec(control, 0..3),
    )
        .prop_map(|((kind, id, number, flag), words, bytes, values, filter, controls)| Parts {
            kind,
            id,
            number,
            flag,
            words,
            bytes,
            values,
            filter,
            controls,
        })
}

/// Calls `look` with the message of these parts.
fn with_message<T>(parts: &Parts, look: impl FnOnce(&Message<'_>) -> T) -> T {
    let Parts { kind, id, number, flag, words: (one, other), bytes, values, filter, controls } = parts;
    let values: Vec<(&str, Vec<Value<'_>>)> = values
        .iter()
        .map(|(name, values)| (name.as_str(), values.iter().map(|value| Value(value)).collect()))
        .collect();
    let attributes: Vec<Attribute<'_>> =
        values.iter().map(|(name, values)| Attribute { name, values: List::from(values) }).collect();
    let operations =
        [ModifyOperation::Add, ModifyOperation::Delete, ModifyOperation::Replace, ModifyOperation::Increment];
    let changes: Vec<Change<'_>> = attributes
        .iter()
        .enumerate()
        .map(|(at, attribute)| Change { operation: operations[at % 4], attribute: *attribute })
        .collect();
    let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let controls: Vec<Control<'_>> = controls
        .iter()
        .map(|(oid, critical, value)| Control { oid, critical: *critical, value: value.as_deref() })
        .collect();
    let result = LdapResult {
        code: ResultCode::from_number(*number),
        matched_dn: one,
        diagnostic: other,
        referrals: List::from(&names),
    };
    let dn = one.as_str();
    let optional = flag.then_some(other.as_str());
    let value = bytes.as_deref();
    let some = value.unwrap_or_default();
    let operation = match kind {
        0 => Operation::BindRequest {
            version: *number,
            name: dn,
            authentication: Authentication::Simple(some),
        },
        1 => Operation::BindRequest {
            version: 3,
            name: dn,
            authentication: Authentication::Sasl { mechanism: other, credentials: value },
        },
        2 => Operation::BindResponse { result, server_credentials: value },
        3 => Operation::UnbindRequest,
        4 => Operation::SearchRequest(SearchRequest {
            base: dn,
            scope: [Scope::Base, Scope::OneLevel, Scope::Subtree, Scope::Subordinates][names.len() % 4],
            deref_aliases: [
                DerefAliases::Never,
                DerefAliases::InSearching,
                DerefAliases::FindingBase,
                DerefAliases::Always,
            ][some.len() % 4],
            size_limit: *number,
            time_limit_s: *id,
            types_only: *flag,
            filter: FilterBytes::from(filter),
            attributes: List::from(&names),
        }),
        5 => Operation::SearchResultEntry { dn, attributes: List::from(&attributes) },
        6 => Operation::SearchResultReference(List::from(&names)),
        7 => Operation::SearchResultDone(result),
        8 => Operation::ModifyRequest { dn, changes: List::from(&changes) },
        9 => Operation::ModifyResponse(result),
        10 => Operation::AddRequest { dn, attributes: List::from(&attributes) },
        11 => Operation::AddResponse(result),
        12 => Operation::DelRequest { dn },
        13 => Operation::DelResponse(result),
        14 => {
            Operation::ModifyDnRequest { dn, new_rdn: other, delete_old_rdn: *flag, new_superior: optional }
        }
        15 => Operation::ModifyDnResponse(result),
        16 => Operation::CompareRequest { dn, attribute: other, value: Value(some) },
        17 => Operation::CompareResponse(result),
        18 => Operation::AbandonRequest { id: *id },
        19 => Operation::ExtendedRequest { oid: dn, value },
        20 => Operation::ExtendedResponse { result, oid: optional, value },
        _ => Operation::IntermediateResponse { oid: optional, value },
    };
    look(&Message { id: *id, operation, controls: List::from(&controls) })
}

fn uuid() -> impl Strategy<Value = Uuid> {
    any::<[u8; 16]>().prop_map(Uuid)
}

proptest! {
    #[test]
    fn an_encoded_message_is_decoded_again(parts in parts()) {
        with_message(&parts, |message| {
            let bytes = encoded(message);
            prop_assert_eq!(frame(&bytes, usize::MAX), Ok(Frame::Whole(bytes.len())));
            let decoded = Message::decode(&bytes).unwrap();
            prop_assert_eq!(&decoded, message);
            prop_assert_eq!(&encoded(&decoded), &bytes);
            let summary = scan(&bytes, usize::MAX).unwrap().unwrap();
            prop_assert_eq!(summary.length, bytes.len());
            // From any first part, the same or nothing.
            for cut in 0..bytes.len() {
                let part = scan(&bytes[..cut], usize::MAX).unwrap();
                prop_assert!(part.is_none_or(|part| part == summary), "{} of {}", cut, bytes.len());
            }
            let result = decoded.operation.result();
            prop_assert_eq!((summary.id, summary.is_last), (message.id, result.is_some()));
            prop_assert_eq!(summary.code, result.map(|result| result.code));
            prop_assert_eq!(decoded.operation.name(), message.operation.name());
            Ok(())
        })?;
    }

    #[test]
    fn a_damaged_message_is_decoded_or_refused(parts in parts(), places in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut in any::<prop::sample::Index>()) {
        with_message(&parts, |message| {
            let mut bytes = encoded(message);
            for (place, byte) in &places {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            // A decoded message is valid: it can be iterated, shown and encoded again.
            for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
                let _ = frame(bytes, 1000);
                if let Ok(decoded) = Message::decode(bytes) {
                    let shown = format!("{decoded:?}");
                    prop_assert!(!shown.is_empty());
                    let again = encoded(&decoded);
                    prop_assert_eq!(&Message::decode(&again).unwrap(), &decoded);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..60)) {
        let _ = (frame(&bytes, 1000), scan(&bytes, 1000), Message::decode(&bytes));
        let _ = (PagedResults::decode(&bytes), SyncRequest::decode(&bytes), SyncState::decode(&bytes));
        let _ = (SyncDone::decode(&bytes), SyncInfo::decode(&bytes).map(|info| format!("{info:?}")));
    }

    #[test]
    fn values_of_controls_are_read_back(
        size in 0..=ID_MAX, cookie in option::of(vec(any::<u8>(), 0..20)), one: bool, other: bool, uuids in vec(uuid(), 1..20), state in 0usize..4
    ) {
        let mut out = Vec::new();
        let cookie = cookie.as_deref();
        let paged = PagedResults { size, cookie: cookie.unwrap_or_default() };
        paged.encode(&mut out);
        prop_assert_eq!(PagedResults::decode(&out), Ok(paged));

        out.clear();
        let request = SyncRequest { persist: one, cookie, reload_hint: other };
        request.encode(&mut out);
        prop_assert_eq!(SyncRequest::decode(&out), Ok(request));

        out.clear();
        let states = [SyncEntryState::Present, SyncEntryState::Add, SyncEntryState::Modify, SyncEntryState::Delete];
        let state = SyncState { state: states[state], uuid: uuids[0], cookie };
        state.encode(&mut out);
        prop_assert_eq!(SyncState::decode(&out), Ok(state));

        out.clear();
        let done = SyncDone { cookie, refresh_deletes: one };
        done.encode(&mut out);
        prop_assert_eq!(SyncDone::decode(&out), Ok(done));

        for info in [
            SyncInfo::NewCookie(cookie.unwrap_or_default()),
            SyncInfo::RefreshDelete { cookie, done: one },
            SyncInfo::RefreshPresent { cookie, done: one },
            SyncInfo::IdSet { cookie, refresh_deletes: other, uuids: List::from(&uuids) },
        ] {
            out.clear();
            info.encode(&mut out);
            prop_assert_eq!(SyncInfo::decode(&out), Ok(info));
        }
    }
}

#[test]
fn the_shape_of_a_filter_has_no_values() {
    for (filter, expected) in [
        ("(uid=user.1)", "(uid=?)"),
        ("(CN=*)", "(cn=*)"),
        ("(cn=a*b*c)", "(cn=?*?*?)"),
        ("(cn=*b)", "(cn=*?)"),
        (
            "(&(objectClass=person)(|(uid=a)(uid=b)(uid=c)(mail=x))(!(a>=1)))",
            "(&(objectclass=?)(|(uid=?)...(mail=?))(!(a>=?)))",
        ),
        ("(|(uid=a)(uid=b))", "(|(uid=?)...)"),
        ("(&(a<=1)(b~=2))", "(&(a<=?)(b~=?))"),
        ("(cn:dn:2.5.13.5:=x)", "(cn:dn:2.5.13.5:=?)"),
        ("(&)", "(&)"),
    ] {
        let filter = Filter::parse(filter).unwrap();
        let bytes =
            encoded(&Message::new(7, Operation::SearchRequest(SearchRequest::subtree("dc=a", &filter))));
        let summary = request(&bytes);
        assert_eq!((summary.name, decode_filter(summary.filter).unwrap()), (&b"dc=a"[..], filter));
        let mut shape = String::new();
        write_shape(summary.filter, &mut shape).unwrap();
        assert_eq!(shape, expected);
    }
}

#[test]
fn a_request_is_summarized_from_the_bytes_that_were_captured() {
    let bind = encoded(&Message::new(1, Operation::simple_bind("cn=a", b"pw")));
    assert_eq!(request(&bind), RequestSummary { name: b"cn=a", ..RequestSummary::default() });
    let sasl = encoded(&Message::new(1, Operation::external_bind(b"")));
    assert_eq!(request(&sasl).mechanism, b"EXTERNAL");
    let abandon = encoded(&Message::new(3, Operation::AbandonRequest { id: 2 }));
    assert_eq!(request(&abandon).abandoned, Some(2));
    let start_tls = encoded(&Message::new(3, Operation::ExtendedRequest { oid: START_TLS, value: None }));
    assert_eq!(request(&start_tls).oid, START_TLS.as_bytes());
    for end in 0..bind.len() {
        let name = request(&bind[..end]).name;
        assert!(name.is_empty() || name == b"cn=a", "{end}");
    }
}
