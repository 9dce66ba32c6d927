//! The workload against real servers on loopback: slapd, and one of our own that can be wrong in every way.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use engine::workload::{Done, Outcome, Workload, WorkloadKind as _};
use ldap::ResultCode;
use ldap::message::{
    self, Attribute, Frame, LdapResult, List, Message, NOTICE_OF_DISCONNECTION, Operation, Value,
};
use model::{Level, Settings};
use testkit::slapd::{ROOT_DN, ROOT_PASSWORD, SUFFIX, SlapdOptions, TlsFiles, organization};
use testkit::{Authority, Bearer, Scratch, SelfSigned, Slapd};

use super::LDAP;
use super::settings::SETTINGS;
use crate::network::addresses::Addresses;
use crate::testing::{drive, settings_of};

/// A server of a thread per connection. What it answers follows the base of a search, or the name of a bind. It lives until
/// the test's process ends.
fn peer() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ldap://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
    url
}

fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
    // Answers that are held back.
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        while let Ok(Frame::Whole(length)) = message::frame(&input, 1 << 20) {
            let bytes: Vec<u8> = input.drain(..length).collect();
            let message = Message::decode(&bytes).unwrap();
            if !answer(&mut stream, &message, &mut held) {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(bytes) => input.extend_from_slice(&buffer[..bytes]),
        }
    }
}

fn encoded(id: u32, operation: Operation<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message::new(id, operation).encode(&mut bytes);
    bytes
}

fn result(number: u32, diagnostic: &str) -> LdapResult<'_> {
    LdapResult { code: ResultCode::from_number(number), diagnostic, ..LdapResult::SUCCESS }
}

fn entry(id: u32, bytes: usize) -> Vec<u8> {
    let value = vec![b'x'; bytes];
    let values = [Value(&value)];
    let attributes = [Attribute { name: "cn", values: List::from(&values) }];
    encoded(id, Operation::SearchResultEntry { dn: "cn=a", attributes: List::from(&attributes) })
}

/// Answers one request. Returns whether the connection goes on.
fn answer(stream: &mut TcpStream, request: &Message<'_>, held: &mut Vec<Vec<u8>>) -> bool {
    let id = request.id;
    let what = match &request.operation {
        Operation::SearchRequest(search) => search.base,
        Operation::BindRequest { name, .. } => {
            let number = if *name == "cn=refused" { 49 } else { 0 };
            let result = result(number, "who are you");
            let bound = Operation::BindResponse { result, server_credentials: None };
            return stream.write_all(&encoded(id, bound)).is_ok();
        }
        _ => return true,
    };
    let done = encoded(id, Operation::SearchResultDone(LdapResult::SUCCESS));
    let bytes = match what {
        "o=ok" => [entry(id, 5), done].concat(),
        "o=none" => done,
        "o=refused" => encoded(id, Operation::SearchResultDone(result(32, "no such thing"))),
        "o=many" => [entry(id, 5), entry(id, 5), entry(id, 5), done].concat(),
        "o=large" => [entry(id, 300_000), entry(id, 100_000), done].concat(),
        "o=reference" => {
            let urls = ["ldap://other"];
            let reference = Operation::SearchResultReference(List::from(&urls));
            [encoded(id, reference), done].concat()
        }
        "o=slow" => {
            for byte in [entry(id, 5), done].concat() {
                if stream.write_all(&[byte]).is_err() {
                    return false;
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            return true;
        }
        "o=reverse" => {
            held.push([entry(id, 5), done].concat());
            if held.len() < 4 {
                return true;
            }
            held.drain(..).rev().flatten().collect()
        }
        "o=unknown" => [encoded(77, Operation::SearchResultDone(LdapResult::SUCCESS)), done].concat(),
        "o=ahead" => [encoded(id + 64, Operation::SearchResultDone(LdapResult::SUCCESS)), done].concat(),
        "o=entry" => [entry(77, 5), entry(77, 5), done].concat(),
        "o=twice" => [&done[..], &done].concat(),
        "o=behind" => [&done[..], b"GARBAGE"].concat(),
        "o=late" => {
            std::thread::sleep(Duration::from_millis(60));
            [entry(id, 5), done].concat()
        }
        "o=other" => encoded(id, Operation::ModifyResponse(LdapResult::SUCCESS)),
        "o=garbage" => b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        "o=endless" => {
            [&[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff][..], &done[2..7], &[0x65, 0x84, 0x7f, 0xff, 0xff, 0xf0]]
                .concat()
        }
        "o=silent" => return true,
        "o=half" => {
            let _ = stream.write_all(&done[..done.len() - 3]);
            return false;
        }
        "o=notice" | "o=notice-only" | "o=answer-and-notice" | "o=notification" => {
            let oid = if what == "o=notification" { "1.2.3.4" } else { NOTICE_OF_DISCONNECTION };
            let notice =
                Operation::ExtendedResponse { result: result(52, "going down"), oid: Some(oid), value: None };
            let answer = if matches!(what, "o=notice" | "o=notice-only") { Vec::new() } else { done };
            let sent = match what {
                "o=notification" => [encoded(0, notice), answer].concat(),
                _ => [answer, encoded(0, notice)].concat(),
            };
            return stream.write_all(&sent).is_ok() && what != "o=notice";
        }
        _ => return false,
    };
    stream.write_all(&bytes).is_ok()
}

/// Settings as written; the elements of a list are separated by `|`.
fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = settings_of(SETTINGS, pairs);
    for (name, text) in pairs.iter().filter(|(_, text)| text.contains('|') && !text.starts_with('(')) {
        settings.set(name, Level::List(text.split('|').map(|text| Level::Text(text.into())).collect()));
    }
    settings
}

fn configured(pairs: &[(&str, &str)]) -> Box<dyn Workload> {
    let mut workload = LDAP.configure(&settings(pairs)).unwrap();
    workload.prepare(1, &mut |_| true).unwrap();
    workload
}

/// Drives some operations, and returns the words of the failures.
fn driven(pairs: &[(&str, &str)], in_flight: u32, operations: usize) -> (Box<dyn Workload>, Vec<String>) {
    let workload = configured(pairs);
    let done = drive(&*workload, in_flight, operations).unwrap();
    assert_eq!(done.len(), operations);
    let mut words = failures(&*workload, &done);
    words.dedup();
    (workload, words)
}

fn fact(workload: &dyn Workload, name: &str) -> u64 {
    match workload.facts().get(name) {
        Some(Level::Count(count)) => *count,
        None => 0,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn responses_are_read_however_they_come() {
    let url = peer();
    for (base, in_flight, entries) in [
        ("o=ok", 1, 1),
        ("o=ok", 5, 1),
        ("o=none", 2, 0),
        ("o=many", 3, 3),
        ("o=large", 2, 2),
        ("o=slow", 2, 1),
        // Where else entries may be is none.
        ("o=reference", 1, 0),
        ("o=notification", 2, 0),
    ] {
        for depth in ["1", "8"] {
            let pairs = [("url", url.as_str()), ("base", base), ("depth", depth)];
            let (workload, failures) = driven(&pairs, in_flight, 40);
            assert_eq!(failures, Vec::<String>::new(), "{base}");
            let (least, most) = ("search.entries_min", "search.entries_max");
            assert_eq!((fact(&*workload, least), fact(&*workload, most)), (entries, entries), "{base}");
            assert_eq!(fact(&*workload, "results.success"), 40);
            assert_eq!(fact(&*workload, "search.references"), if base == "o=reference" { 40 } else { 0 });
            assert_eq!(fact(&*workload, "search.succeeded"), 40);
            assert_eq!(
                fact(&*workload, "search.without_entries"),
                if entries == 0 { 40 } else { 0 },
                "{base}"
            );
            assert_eq!(fact(&*workload, "responses.unexpected"), 0);
            let connections = if depth == "1" { u64::from(in_flight) } else { 1 };
            assert_eq!(fact(&*workload, "connections.opened"), connections);
        }
    }
}

#[test]
fn responses_in_another_order_belong_to_their_requests() {
    let pairs = [("url", peer()), ("base", "o=reverse".into()), ("depth", "4".into())];
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (workload, failures) = driven(&pairs, 4, 40);
    assert_eq!(failures, Vec::<String>::new());
    assert_eq!(fact(&*workload, "responses.unexpected"), 0);
}

#[test]
fn each_way_to_fail_has_its_words_and_the_load_goes_on() {
    let url = peer();
    let short = ("timeout", "50ms");
    for (base, more, expected) in [
        ("o=refused", ("scope", "sub"), "noSuchObject (32): no such thing"),
        ("o=ok", ("expect_result", "noSuchObject"), ""),
        ("o=refused", ("expect_result", "32"), ""),
        ("o=other", ("scope", "sub"), "malformed: a response of another kind than the request"),
        ("o=garbage", ("scope", "sub"), "malformed: not an LDAP message"),
        ("o=endless", ("scope", "sub"), "malformed: a result of more than 1 MiB"),
        ("o=half", ("scope", "sub"), "closed early, in the middle of a response"),
        ("o=close", ("scope", "sub"), "the server closed the connection"),
        ("o=notice", ("scope", "sub"), "the server disconnected: unavailable (52)"),
        ("o=silent", short, "timeout, before the result"),
    ] {
        let (_, failures) = driven(&[("url", &url), ("base", base), more], 3, 9);
        let expected: Vec<&str> = if expected.is_empty() { vec![] } else { vec![expected] };
        assert_eq!(failures, expected, "{base}");
    }
}

/// The words of each operation that failed.
fn failures(workload: &dyn Workload, done: &[Done]) -> Vec<String> {
    done.iter()
        .filter_map(|done| match done.outcome {
            Outcome::Failed(code) => Some(workload.describe_failure(code)),
            Outcome::Well => None,
        })
        .collect()
}

#[test]
fn a_response_that_no_request_asked_for_is_a_failure() {
    let url = peer();
    let words = "unsolicited: the server sent a response to no request in flight";
    // The operations that went well: the last response of all has no operation after it.
    for (base, well, unexpected) in
        [("o=unknown", 0, 20), ("o=ahead", 0, 20), ("o=entry", 0, 40), ("o=twice", 1, 20)]
    {
        for depth in ["1", "4"] {
            let pairs = [("url", url.as_str()), ("base", base), ("depth", depth)];
            let workload = configured(&pairs);
            let done = drive(&*workload, 4, 20).unwrap();
            let failed = |done: &&Done| done.outcome != Outcome::Well;
            let found = done.iter().filter(|done| !failed(done)).count();
            assert!(
                if base == "o=twice" { (1..=4).contains(&found) } else { found == well },
                "{base} {found}"
            );
            let Outcome::Failed(code) = done.iter().find(failed).unwrap().outcome else { panic!() };
            assert_eq!(workload.describe_failure(code), words, "{base}");
            assert!(
                (unexpected - 4..=unexpected).contains(&fact(&*workload, "responses.unexpected")),
                "{base}"
            );
        }
    }
    // Bytes that are no response end the connection, and the next operation fails for them.
    let workload = configured(&[("url", url.as_str()), ("base", "o=behind")]);
    let done = drive(&*workload, 2, 20).unwrap();
    let failed = failures(&*workload, &done);
    assert!((17..20).contains(&failed.len()), "{failed:?}");
    assert!(failed.iter().all(|words| words == "malformed: not an LDAP message"), "{failed:?}");
    // It was asked for, and comes after its timeout.
    let pairs = [("url", url.as_str()), ("base", "o=late"), ("timeout", "20ms"), ("depth", "2")];
    let workload = configured(&pairs);
    let done = drive(&*workload, 2, 12).unwrap();
    let words = failures(&*workload, &done);
    assert!(words.iter().all(|words| words == "timeout, before the result"), "{words:?}");
    assert_eq!(fact(&*workload, "responses.unexpected"), 0);
    assert!(fact(&*workload, "responses.late") > 0);
}

#[test]
fn a_notice_of_disconnection_ends_the_connection_whether_or_not_the_server_closes_it() {
    let url = peer();
    // Its own operation has failed; one that was answered before it has not.
    for (base, expected) in
        [("o=notice-only", &["the server disconnected: unavailable (52)"][..]), ("o=answer-and-notice", &[])]
    {
        let (workload, failures) = driven(&[("url", &url), ("base", base)], 1, 9);
        assert_eq!(failures, expected, "{base}");
        // One connection for each operation.
        assert!((8..=9).contains(&fact(&*workload, "connections.disconnect_notices")), "{base}");
        assert_eq!(fact(&*workload, "connections.opened"), 9, "{base}");
    }
}

#[test]
fn connections_are_opened_to_all_addresses_of_a_name_in_turn() {
    let addresses: Vec<std::net::SocketAddr> =
        (0..2).map(|_| peer().strip_prefix("ldap://").unwrap().parse().unwrap()).collect();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let base = ("base", "o=ok");
    let load = |used: Vec<std::net::SocketAddr>| {
        let settings = settings(&[("url", "ldap://multi.test"), base]);
        let plan = super::settings::LdapPlan::read(&settings, "", &engine::inputs::Inputs::host()).unwrap();
        let addresses = Addresses { used, are_spread: true, ..Addresses::default() };
        super::LdapLoad {
            target: super::Target { addresses, ..Default::default() },
            ..super::LdapLoad::new(plan)
        }
    };
    let workload = load(addresses.clone());
    let done = drive(&workload, 4, 40).unwrap();
    assert!(done.iter().all(|done| done.outcome == Outcome::Well));
    let of =
        |name: &str, address: &std::net::SocketAddr| fact(&workload, &format!("address.{name}.{address}"));
    for address in &addresses {
        assert_eq!((of("connections", address), of("failed", address)), (2, 0));
        assert!(of("requests", address) > 0);
    }
    assert_eq!(addresses.iter().map(|address| of("requests", address)).sum::<u64>(), 40);
    // One that is gone by then is not replaced by another.
    let error = drive(&load(vec![addresses[0], gone]), 2, 4).unwrap_err();
    assert!(error.what.ends_with("connect: connection refused"), "{}", error.what);
}

#[test]
fn connections_that_cannot_be_prepared_end_the_load_before_it_begins() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // It accepts, and answers nothing.
    let mute = format!("ldap://{}", listener.local_addr().unwrap());
    let url = peer();
    let refused = [("bind_dn", "cn=refused"), ("password", "x")];
    for (url, more, expected) in [
        (
            &url,
            &refused[..],
            "connection 1 of 2 was not opened: bind of a new connection: invalidCredentials (49)",
        ),
        (
            &mute,
            &[("bind_dn", "cn=a"), ("password", "x"), ("timeout", "50ms")],
            "connection 1 of 2 was not opened: timeout, before the connection was bound",
        ),
    ] {
        let pairs: Vec<(&str, &str)> =
            [("url", url.as_str()), ("base", "o=ok")].into_iter().chain(more.iter().copied()).collect();
        let error = drive(&*configured(&pairs), 2, 5).unwrap_err();
        assert_eq!(error.what, expected);
    }
    let mut workload = LDAP.configure(&settings_of(SETTINGS, &[("url", "ldap://127.0.0.1:1")])).unwrap();
    let error = workload.prepare(1, &mut |_| true).unwrap_err();
    assert!(error.what.starts_with("nothing accepts a connection at 127.0.0.1:1"), "{}", error.what);
}

/// People `user.0` to `user.9` with passwords `pw0` to `pw9`.
fn people() -> String {
    let person = |number: u32| {
        format!(
            "dn: uid=user.{number},ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\nuid: user.{number}\ncn: User {number}\nsn: n\nuserPassword: pw{number}\n\n"
        )
    };
    organization(&["people"]) + &(0..10).map(person).collect::<String>()
}

#[test]
fn every_operation_does_at_a_real_server_what_it_says() {
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif: people(), ..SlapdOptions::default() }) else {
        return;
    };
    let folder = Scratch::new();
    let ldif = folder.file(
        "new.ldif",
        format!("dn: cn=two\\, ${{number}},{SUFFIX}\nobjectClass: person\ncn: two, ${{number}}\nsn: n\n"),
    );
    let users = folder.file("users.csv", "name,word\nuser.3,pw3\nuser.4,pw4\n");
    let (url, data) = (slapd.url(), format!("users={}", users.display()));
    let person = format!("uid=user.${{sequence(0, 9)}},ou=people,{SUFFIX}");
    let base = ("base", SUFFIX);
    let cases: [(&str, &[(&str, &str)]); 10] = [
        ("search", &[base, ("filter", "(uid=user.${random(0, 9)})"), ("attributes", "cn")]),
        ("search", &[base, ("filter", "(|(uid=${users.name})(sn=none))"), ("data", &data)]),
        ("modify", &[("dn", &person), ("change", "replace description: d ${number}")]),
        (
            "add",
            &[
                ("dn", &format!("cn=one ${{number}},{SUFFIX}")),
                ("attribute", "objectClass: person|cn: one ${number}|sn: n"),
            ],
        ),
        ("add", &[("ldif", ldif.to_str().unwrap())]),
        ("delete", &[("dn", &format!("cn=one ${{number}},{SUFFIX}"))]),
        ("compare", &[("dn", &person), ("attribute", "sn: n")]),
        ("bind", &[("dn", &person), ("dn_password", "pw${sequence(0, 9)}")]),
        (
            "bind",
            &[
                ("dn", &format!("uid=${{users.name}},ou=people,{SUFFIX}")),
                ("dn_password", "${users.word}"),
                ("data", &data),
            ],
        ),
        (
            "login",
            &[("dn", &person), ("dn_password", "pw${sequence(0, 9)}"), ("base", &person), ("scope", "base")],
        ),
    ];
    for (operation, more) in cases {
        for (url, identity) in [(&url, true), (&slapd.local_url(), false)] {
            // Only once: an entry cannot be added again.
            if !identity && ["add", "delete"].contains(&operation) {
                continue;
            }
            let identity: &[(&str, &str)] = match (identity, operation) {
                (_, "bind" | "login") => &[],
                (true, _) => &[("bind_dn", ROOT_DN), ("password", ROOT_PASSWORD)],
                // It is root's process, so that it may not write.
                (false, "modify") => continue,
                (false, _) => &[("bind_method", "external")],
            };
            let mut pairs = vec![("operation", operation), ("url", url.as_str())];
            pairs.extend_from_slice(identity);
            pairs.extend_from_slice(more);
            let (workload, failures) = driven(&pairs, 3, 20);
            assert_eq!(failures, Vec::<String>::new(), "{pairs:?}");
            let expected = if operation == "compare" { "results.compareTrue" } else { "results.success" };
            assert_eq!(fact(&*workload, expected), 20, "{pairs:?}");
            if ["search", "login"].contains(&operation) {
                let one = (fact(&*workload, "search.entries_min"), fact(&*workload, "search.entries_max"));
                assert_eq!(one, (1, 1), "{pairs:?}");
            }
            let opened = if operation == "login" { 20 } else { 3 };
            assert_eq!(fact(&*workload, "connections.opened"), opened, "{pairs:?}");
        }
    }
    let all = slapd.export();
    let count = |text: &str| all.matches(text).count();
    assert_eq!((count("description: d "), count("cn: one "), count("cn: two, ")), (10, 0, 20), "{all}");
}

#[test]
fn operations_of_a_file_are_mixed_by_their_weights() {
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif: people(), ..SlapdOptions::default() }) else {
        return;
    };
    let folder = Scratch::new();
    let word = folder.file("word", "pw3\n");
    fs::set_permissions(&word, fs::Permissions::from_mode(0o600)).unwrap();
    let file = folder.file(
        "mix.toml",
        format!(
            "# Searches and binds.\n[[operation]]\nweight = 6\nbase = \"{SUFFIX}\"\nfilter = \"(uid=user.${{random(0, 9)}})\"\nattributes = [\"cn\", \"sn\"]\n\n\
             [[operation]]\nname = \"by-name\"\nbase = \"{SUFFIX}\"\nfilter = \"(cn=User 1)\"\n\n\
             [[operation]]\noperation = \"bind\"\ndn = \"uid=user.${{sequence(0, 9)}},ou=people,{SUFFIX}\"\ndn_password = \"pw${{sequence(0, 9)}}\"\n\n\
             [[operation]]\noperation = \"login\"\ndn = \"uid=user.3,ou=people,{SUFFIX}\"\ndn_password = \"${{file:{}}}\"\nbase = \"uid=user.3,ou=people,{SUFFIX}\"\n\n\
             [[operation]]\noperation = \"compare\"\ndn = \"uid=user.3,ou=people,{SUFFIX}\"\nattribute = \"sn: n\"\n",
            word.display()
        ),
    );
    let pairs =
        [("operation", "mixed"), ("url", &slapd.url()), ("from", file.to_str().unwrap()), ("depth", "2")];
    let workload = configured(&pairs);
    assert_eq!(
        workload.operations(),
        ["search", "by-name", "bind", "login", "compare", "connect", "tls", "connection_bind", "first_entry"]
    );
    let done = drive(&*workload, 8, 1000).unwrap();
    let failed: Vec<String> = done
        .iter()
        .filter_map(|done| match done.outcome {
            Outcome::Well => None,
            Outcome::Failed(code) => Some(workload.describe_failure(code)),
        })
        .collect();
    assert_eq!(failed, Vec::<String>::new());
    let counts: Vec<usize> =
        (0..5).map(|kind| done.iter().filter(|done| done.kind == kind).count()).collect();
    // 600, and 100 of each other; by chance three times the standard deviation.
    assert!((550..650).contains(&counts[0]), "{counts:?}");
    assert!(counts[1..].iter().all(|count| (70..131).contains(count)), "{counts:?}");
    assert_eq!(fact(&*workload, "search.entries_min"), 1);
    let [(name, text)] = &workload.documents()[..] else { panic!() };
    assert_eq!(*name, "operations.toml");
    assert!(
        text.contains("dn_password = \"***\"") && text.contains("${file:") && !text.contains("pw$"),
        "{text}"
    );
}

#[test]
fn mistakes_in_a_file_of_operations_have_their_lines() {
    let folder = Scratch::new();
    for (text, expected) in [
        ("", "there is no operation"),
        ("[[operation]\n", ":1: "),
        ("a = 1\n[[operation]]\nbase = \"o=a\"\n", ":1: unknown key `a`"),
        ("[[operation]]\nbase = \"o=a\"\n\nfiltr = \"(a=b)\"\n", ":4: unknown key `filtr` in an operation"),
        ("[[operation]]\nbase = \"o=a\"\nweight = 0\n", ":3: `weight` is not a number from 1 to 1000000"),
        ("[[operation]]\nbase = \"o=a\"\nname = \"a b\"\n", ":3: `name` is not the name of an operation"),
        ("[[operation]]\nbase = \"o=a\"\nsize_limit = -1\n", ":3: `size_limit`: "),
        ("[[operation]]\n[[operation]]\noperation = \"delete\"\n", ":2: the operation delete needs `dn`"),
        ("[[operation]]\n[[operation]]\n", ":2: the name `search` is taken"),
        ("[[operation]]\nname = \"tls\"\n", ":1: the name `tls` is taken"),
        ("[[operation]]\noperation = \"mixed\"\n", ":1: an operation of a file cannot be mixed"),
        ("[[operation]]\nbase = \"nothing\"\n", ":1: `base`: `nothing` is not a distinguished name"),
        (
            "[[operation]]\noperation = \"bind\"\ndn = \"o=a\"\ndn_password = \"${env:NO_SUCH_VARIABLE_HERE}\"\n",
            ":4: the environment variable NO_SUCH_VARIABLE_HERE is not set",
        ),
    ] {
        let file = folder.file("mix.toml", text);
        let pairs = [("operation", "mixed"), ("url", "ldap://a"), ("from", file.to_str().unwrap())];
        let problems = LDAP.configure(&settings(&pairs)).err().unwrap();
        let what = &problems.0[0].what;
        assert!(what.starts_with(file.to_str().unwrap()) && what.contains(expected), "{text}: {what}");
    }
}

#[test]
fn tls_protects_connections_from_the_start_or_after_a_request() {
    let folder = Scratch::new();
    let authority = Authority::new(&folder, "authority");
    let (certificate, key) = authority.sign(&folder, "server", &["127.0.0.1"], Bearer::Server);
    let tls = Some(TlsFiles { authority: authority.file.clone(), certificate, key });
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif: people(), tls, ..SlapdOptions::default() }) else {
        return;
    };
    let ca = authority.file.display().to_string();
    let search = [("base", SUFFIX), ("filter", "(uid=user.1)"), ("ca", ca.as_str()), ("depth", "4")];
    for (url, start_tls) in [(slapd.tls_url(), "false"), (slapd.url(), "true")] {
        let pairs: Vec<(&str, &str)> =
            [("url", url.as_str()), ("start_tls", start_tls)].into_iter().chain(search).collect();
        let (workload, failures) = driven(&pairs, 8, 50);
        assert_eq!(failures, Vec::<String>::new(), "{url}");
        assert_eq!((fact(&*workload, "tls.handshakes"), fact(&*workload, "search.entries_min")), (2, 1));
    }
}

#[test]
fn a_certificate_that_is_itself_trusted_is_accepted_and_any_other_only_without_verification() {
    let folder = Scratch::new();
    let (certificate, key) = SelfSigned::LOOPBACK.make(&folder, "own");
    let (other, _) = SelfSigned::LOOPBACK.make(&folder, "other");
    let tls = Some(TlsFiles { authority: certificate.clone(), certificate: certificate.clone(), key });
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif: people(), tls, ..SlapdOptions::default() }) else {
        return;
    };
    let url = slapd.tls_url();
    let (ca, other) = (certificate.display().to_string(), other.display().to_string());
    // Without a base, the load asks the server for one in a session of its own.
    let search = [("url", url.as_str()), ("filter", "(uid=user.1)")];
    for (setting, is_insecure) in [(("ca", ca.as_str()), false), (("insecure", "true"), true)] {
        let (workload, failures) = driven(&[search[0], search[1], setting], 2, 10);
        assert_eq!(failures, Vec::<String>::new());
        assert_eq!(workload.facts().contains_key("tls.insecure"), is_insecure);
    }
    let pairs = [search[0], search[1], ("ca", other.as_str())];
    let error = LDAP.configure(&settings(&pairs)).unwrap().prepare(1, &mut |_| true).unwrap_err();
    assert!(error.what.ends_with("signed by no authority that is trusted"), "{}", error.what);
}

#[test]
fn everything_wrong_is_reported_at_once() {
    let whats = |pairs: &[(&str, &str)]| -> Vec<String> {
        let problems = LDAP.configure(&settings_of(SETTINGS, pairs)).err().unwrap();
        problems.0.into_iter().map(|problem| problem.what).collect()
    };
    assert_eq!(
        whats(&[
            ("url", "http://a"),
            ("password", "x"),
            ("base", "nothing"),
            ("filter", "(uid=${random(1)})"),
            ("dn", "cn=a"),
            ("expect_result", "noSuchThing"),
            ("timeout", "0s"),
            ("connections", "1"),
            ("threads", "2"),
            ("client_key", "k"),
        ]),
        [
            "`http://a` is not a URL of a server: write ldap://host:389, ldaps://host:636 or ldapi://%2Fpath%2Fof%2Fsocket",
            "the name of who has the password is missing",
            "`dn` is of modify, add, delete, compare, bind, login, and the operation is search",
            "`base`: `nothing` is not a distinguished name: `=` is missing here",
            "`filter`: ${random(1)}: random needs the smallest and the largest integer",
            "`noSuchThing` is not a result code",
            "the timeout must be greater than 0",
            "1 connections cannot be shared by 2 threads",
            "the client key has no certificate",
        ]
    );
    let url = ("url", "ldap://a");
    for (pairs, expected) in [
        (&[("operation", "modify")][..], "the operation modify needs `dn`"),
        (&[("operation", "modify"), ("dn", "cn=a")], "the operation modify needs `change`"),
        (
            &[("operation", "modify"), ("dn", "cn=a"), ("change", "set a: b")],
            "`change`: `set a: b` is not a change",
        ),
        (
            &[("operation", "add"), ("dn", "cn=a"), ("attribute", "a")],
            "`attribute`: `a` is not an attribute with a value",
        ),
        (&[("operation", "bind"), ("dn", "cn=a")], "the operation bind needs `dn_password`"),
        (
            &[("base", "o=a"), ("filter", "(uid=${number}")],
            "`filter`: `(uid=…` is not a filter: after `(uid=…`: `)` is missing here",
        ),
        (&[("base", "o=a"), ("bind_dn", "cn=a")], "the password of `bind_dn` is missing"),
        (&[("base", "o=${nubmer}")], "`base`: ${nubmer}: unknown name `nubmer` in a template"),
        (&[("base", "o=${env:HOME}")], "`base`: ${env:HOME}: a secret is allowed in passwords only"),
        (
            &[("operation", "add"), ("ldif", "/nonexistent")],
            "`ldif`: /nonexistent: No such file or directory (os error 2)",
        ),
        (
            &[("operation", "login"), ("dn", "cn=a"), ("dn_password", "x"), ("depth", "2")],
            "a connection takes one login at a time",
        ),
    ] {
        let pairs: Vec<(&str, &str)> = std::iter::once(url).chain(pairs.iter().copied()).collect();
        assert_eq!(whats(&pairs), [expected]);
    }
}

#[test]
fn the_server_counts_the_same_operations() {
    let database = "moduleload back_monitor\ndatabase monitor\n".to_string();
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif: people(), database, ..SlapdOptions::default() })
    else {
        return;
    };
    let url = slapd.url();
    let search =
        [("operation", "search"), ("url", url.as_str()), ("base", SUFFIX), ("filter", "(cn=User 1)")];
    let (workload, failures) = driven(&search, 3, 500);
    assert_eq!(failures, Vec::<String>::new());
    assert_eq!((fact(&*workload, "client.search"), fact(&*workload, "server.search")), (500, 500));

    // Without a base, it is that of the server.
    let (workload, failures) =
        driven(&[("url", url.as_str()), ("filter", "(cn=User 1)"), ("operation", "search")], 2, 20);
    assert_eq!(failures, Vec::<String>::new());
    assert_eq!(fact(&*workload, "search.entries"), 20);
    assert_eq!(workload.facts().get("search.base"), Some(&Level::Text(SUFFIX.into())));

    // What another client does is in the server's count only.
    let workload = configured(&search);
    driven(&search, 3, 70);
    drive(&*workload, 3, 30).unwrap();
    assert_eq!(fact(&*workload, "client.search"), 30);
    // With the reading of the counts by either, of which the server may count the last one only after its response.
    let counted = fact(&*workload, "server.search");
    assert!((101..=102).contains(&counted), "{counted}");

    let dn = format!("uid=user.3,ou=people,{SUFFIX}");
    let login = [
        ("operation", "login"),
        ("url", url.as_str()),
        ("base", SUFFIX),
        ("dn", &dn),
        ("dn_password", "pw3"),
    ];
    let (workload, _) = driven(&login, 2, 40);
    for name in ["client.bind", "server.bind", "client.search", "server.search"] {
        assert_eq!(fact(&*workload, name), 40, "{name}");
    }
}
