//! Tests against a simulated server that does what the servers of the integration tests do not: it returns values in
//! ranges, as Active Directory does, and sends what no server should.

use metadir::password::Password;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use ldap::controls::{
    PAGED_RESULTS, PagedResults, SHOW_DELETED, SYNC_DONE, SYNC_REQUEST, SYNC_STATE, SyncDone, SyncEntryState,
    SyncState, Uuid,
};
use ldap::message::{self, Attribute as Sent, Frame, LdapResult, List, Operation, Value};
use ldap::{Control, Message, ResultCode};
use proptest::prelude::*;

use super::entry::range;
use super::*;
use metadir::agent::{Imported, ImportedObject};
use metadir::config::AgentConfig;
use metadir::index_key::IndexKey;
use std::any::Any;

/// A search request.
#[derive(Debug)]
struct Asked {
    base: String,
    filter: String,
    attributes: Vec<String>,
    shows_deleted: bool,
    page: Vec<u8>,
}

/// The UUID of the entry in a content synchronization, and its cookie.
const UUID: [u8; 16] = [7; 16];
const COOKIE: &[u8] = b"rid=000,csn=20261122113603.109265Z#000000#000#000000";

/// A name and attributes with their values.
type Entry = (&'static str, Vec<(&'static str, Vec<Vec<u8>>)>);

/// A search result: entries with their attributes, the result, and where the next page begins.
struct Found {
    entries: Vec<Entry>,
    code: ResultCode,
    page: &'static [u8],
}

fn found(entries: Vec<Entry>) -> Found {
    Found { entries, code: ResultCode::Success, page: b"" }
}

fn values(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Simulates a server; returns its URL.
fn play(answer: impl Fn(&Asked) -> Found + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ldap://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = answer.clone();
            std::thread::spawn(move || serve(stream.unwrap(), &*answer));
        }
    });
    url
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&Asked) -> Found) {
    let (mut input, mut out, mut piece) = (Vec::new(), Vec::new(), [0; 4096]);
    loop {
        while let Ok(Frame::Whole(length)) = message::frame(&input, 1 << 20) {
            let message = Message::decode(&input[..length]).unwrap();
            out.clear();
            respond(&message, answer, &mut out);
            input.drain(..length);
            // The client may have disconnected.
            let _ = stream.write_all(&out);
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => input.extend_from_slice(&piece[..count]),
        }
    }
}

fn respond(message: &Message<'_>, answer: &dyn Fn(&Asked) -> Found, out: &mut Vec<u8>) {
    let Operation::SearchRequest(request) = message.operation else { return };
    let paged = message.control(PAGED_RESULTS).flatten().map(|value| PagedResults::decode(value).unwrap());
    let is_synchronization = message.control(SYNC_REQUEST).is_some();
    let asked = Asked {
        base: request.base.into(),
        filter: request.filter.to_filter().to_string(),
        attributes: request.attributes.iter().map(String::from).collect(),
        shows_deleted: message.control(SHOW_DELETED).is_some(),
        page: paged.map(|paged| paged.cookie.to_vec()).unwrap_or_default(),
    };
    let found = answer(&asked);
    for (dn, attributes) in &found.entries {
        let values: Vec<Vec<Value<'_>>> =
            attributes.iter().map(|(_, values)| values.iter().map(|value| Value(value)).collect()).collect();
        let attributes: Vec<Sent<'_>> = attributes
            .iter()
            .zip(&values)
            .map(|((name, _), values)| Sent { name, values: List::from(values) })
            .collect();
        let operation = Operation::SearchResultEntry { dn, attributes: List::from(&attributes) };
        let mut state = Vec::new();
        SyncState { state: SyncEntryState::Add, uuid: Uuid(UUID), cookie: None }.encode(&mut state);
        let controls = [Control { oid: SYNC_STATE, critical: false, value: Some(&state) }];
        let controls = List::from(&controls[..usize::from(is_synchronization)]);
        Message { id: message.id, operation, controls }.encode(out);
    }
    let (mut page, mut done) = (Vec::new(), Vec::new());
    PagedResults { size: 0, cookie: found.page }.encode(&mut page);
    SyncDone { cookie: Some(COOKIE), refresh_deletes: false }.encode(&mut done);
    let controls = [
        Control { oid: PAGED_RESULTS, critical: false, value: Some(&page) },
        Control { oid: SYNC_DONE, critical: false, value: Some(&done) },
    ];
    let result = LdapResult { code: found.code, ..LdapResult::SUCCESS };
    let operation = Operation::SearchResultDone(result);
    let from = usize::from(is_synchronization);
    let controls = List::from(&controls[from..from + usize::from(paged.is_some() || is_synchronization)]);
    Message { id: message.id, operation, controls }.encode(out);
}

fn config(url: &str, settings: &str) -> AgentConfig {
    let text = format!(
        "[store]\nsqlite = \"x\"\n[metaverse.person]\nattributes = {{ a = \"text\" }}\n[agents.d]\ntype = \"ldap\"\nurl = \"{url}\"\n{settings}"
    );
    crate::parse(&text).unwrap().agents.remove(0)
}

/// The agent of a configuration, with the names of its attributes and possibly others.
fn agent(config: &AgentConfig, others: &[&str]) -> (Ldap, Names) {
    let system: &dyn Any = config.system.as_ref();
    let settings = system.downcast_ref::<Settings>().unwrap();
    let mut names = Names::default();
    for (number, name) in config.anchor.iter().map(String::as_str).chain(others.iter().copied()).enumerate() {
        names.insert(name, Attribute(number as u32 + 1));
    }
    (Ldap::new(settings, &objects(config), &names), names)
}

fn objects(config: &AgentConfig) -> Objects<'_> {
    Objects { anchor: &config.anchor, references: &config.references, write_only: &[] }
}

fn read(import: &mut dyn Import) -> Result<Vec<Imported>, AgentError> {
    let mut all = Vec::new();
    loop {
        let mut batch = Vec::new();
        import.read(2, &mut batch)?;
        assert!(batch.len() <= 2);
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend(batch);
    }
}

fn object(imported: &Imported) -> &ImportedObject {
    match imported {
        Imported::Object(object) => object,
        other => panic!("{other:?}"),
    }
}

const GUIDS: [[u8; 16]; 3] = [[0xff; 16], [0; 16], [7; 16]];

fn hash(guid: [u8; 16]) -> IndexKey {
    IndexKey::of_parts(std::iter::once(&guid[..]))
}

/// A domain with a group of five members, of which two come at a time, a person, and an entry without an
/// anchor.
fn domain(invocation: &Mutex<u8>, asked: &Asked) -> Found {
    let guid = |at: usize| ("objectGUID", vec![GUIDS[at].to_vec()]);
    let group = "CN=Staff\\, all,DC=plim,DC=example";
    match (asked.base.as_str(), asked.filter.as_str()) {
        ("", _) => found(vec![(
            "",
            vec![
                ("highestCommittedUSN", values(&["1000"])),
                ("dsServiceName", values(&["CN=NTDS Settings,CN=DC1,DC=plim,DC=example"])),
                ("namingContexts", values(&["CN=Schema,DC=plim,DC=example", "DC=plim,DC=example"])),
            ],
        )]),
        ("CN=NTDS Settings,CN=DC1,DC=plim,DC=example", _) => {
            let id = *invocation.lock().unwrap();
            found(vec![("CN=NTDS Settings", vec![("invocationId", vec![vec![id; 16]])])])
        }
        ("CN=Staff\\, all,DC=plim,DC=example", _) => match asked.attributes.as_slice() {
            [wanted] if wanted == "member;range=2-*" => {
                found(vec![(group, vec![("member;range=2-3", values(&["CN=c", "CN=d"]))])])
            }
            [wanted] if wanted == "member;range=4-*" => {
                found(vec![(group, vec![("member;range=4-*", values(&["CN=e"]))])])
            }
            other => panic!("{other:?}"),
        },
        (_, "(objectClass=*)") if asked.page.is_empty() => Found {
            entries: vec![
                (
                    group,
                    vec![
                        guid(0),
                        ("cn", values(&["Staff, all"])),
                        ("member", vec![]),
                        ("member;range=0-1", values(&["CN=a", "CN=b"])),
                        ("unknownToUs", values(&["x"])),
                    ],
                ),
                ("CN=Strange,DC=plim,DC=example", vec![("cn", values(&["Strange"]))]),
            ],
            code: ResultCode::Success,
            page: b"second",
        },
        (_, "(objectClass=*)") => {
            assert_eq!(asked.page, b"second");
            found(vec![(
                "cn=Ada,ou=Hidden,DC=plim,DC=example",
                vec![guid(1), ("CN", values(&["Ada"])), ("userCertificate;binary", vec![vec![0x30, 0]])],
            )])
        }
        (_, "(&(objectClass=*)(uSNChanged>=1001))") => {
            assert!(!asked.shows_deleted);
            found(vec![("CN=Ada L,DC=plim,DC=example", vec![guid(1), ("cn", values(&["Ada L"]))])])
        }
        (_, "(&(|(objectClass=organizationalUnit)(objectClass=container))(uSNChanged>=1001))") => {
            assert_eq!(asked.attributes, ["replPropertyMetaData"]);
            found(Vec::new())
        }
        ("CN=Deleted Objects,DC=plim,DC=example", _) => {
            assert!(asked.shows_deleted);
            found(vec![("CN=Deleted Objects,DC=plim,DC=example", vec![guid(2)])])
        }
        ("DC=plim,DC=example", "(&(isDeleted=TRUE)(uSNChanged>=1001))") => {
            assert!(asked.shows_deleted);
            assert_eq!(asked.attributes, ["objectGUID"]);
            found(vec![("CN=Bob\\0ADEL:17,CN=Deleted Objects,DC=plim,DC=example", vec![guid(2)])])
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn active_directory_is_read_with_ranges_and_by_the_numbers_of_its_changes() {
    let invocation = Arc::new(Mutex::new(1));
    let now = invocation.clone();
    let url = play(move |asked| domain(&now, asked));
    let settings = "base = \"OU=all,DC=plim,DC=example\"\nanchor = \"objectGUID\"\ndelta = \"usn\"\n";
    let config = config(&url, settings);
    let (mut agent, names) = agent(&config, &["member", "cn", "userCertificate"]);
    assert!(agent.capabilities().delta_import);
    let mut import = agent.full_import().unwrap();
    let all = read(import.as_mut()).unwrap();
    let group = object(&all[0]);
    assert_eq!((group.anchor, group.dn.as_str()), (hash(GUIDS[0]), "CN=Staff\\, all,DC=plim,DC=example"));
    let of = |object: &ImportedObject, name: &str| -> Vec<String> {
        let values = object.image.get(names.attribute(name).unwrap());
        values.into_iter().flat_map(|v| v.iter()).map(|v| String::from_utf8_lossy(v).into_owned()).collect()
    };
    assert_eq!(of(group, "member"), ["CN=a", "CN=b", "CN=c", "CN=d", "CN=e"]);
    match &all[1] {
        Imported::Error(error) => {
            assert_eq!(
                (error.place.as_str(), error.kind),
                ("CN=Strange,DC=plim,DC=example", "missing-anchor")
            );
        }
        other => panic!("{other:?}"),
    }
    let ada = object(&all[2]);
    // Anchors are bytes; attribute names are case-insensitive.
    assert_eq!(
        (ada.anchor, of(ada, "cn"), of(ada, "objectGUID").len()),
        (hash(GUIDS[1]), vec!["Ada".into()], 1)
    );
    assert_eq!(ada.image.first(names.attribute("userCertificate").unwrap()), Some(&[0x30, 0][..]));
    assert_eq!((all.len(), import.is_complete()), (3, false));

    let watermark = import.watermark().unwrap();
    let mut import = agent.delta_import(&watermark).unwrap();
    let changed = read(import.as_mut()).unwrap();
    assert_eq!(object(&changed[0]).dn, "CN=Ada L,DC=plim,DC=example");
    assert_eq!(changed[1..], [Imported::Gone(hash(GUIDS[2]))]);
    assert_eq!(import.watermark(), Some(watermark.clone()));

    // Another server, or the same one after a restore, has other change numbers.
    *invocation.lock().unwrap() = 2;
    let refused = agent.delta_import(&watermark).err().unwrap().to_string();
    assert!(
        refused.contains("another server responds") && refused.contains("run a full-import"),
        "{refused}"
    );
}

#[test]
fn what_is_moved_where_objects_are_excluded_is_gone() {
    let invocation = Mutex::new(1);
    let url = play(move |asked| match asked.filter.as_str() {
        "(&(objectClass=*)(uSNChanged>=1001))" => found(vec![(
            "cn=Ada,ou=Hidden,DC=plim,DC=example",
            vec![("objectGUID", vec![GUIDS[1].to_vec()])],
        )]),
        _ => domain(&invocation, asked),
    });
    let settings = "base = \"DC=plim,DC=example\"\nexclude = \"OU=hidden,dc=plim,dc=example\"\nanchor = \"objectGUID\"\ndelta = \"usn\"\n";
    let config = config(&url, settings);
    let (mut agent, _) = agent(&config, &["member", "cn"]);
    let mut import = agent.full_import().unwrap();
    assert_eq!(read(import.as_mut()).unwrap().len(), 2);
    let mut import = agent.delta_import(&import.watermark().unwrap()).unwrap();
    let changed = read(import.as_mut()).unwrap();
    assert_eq!(changed, [Imported::Gone(hash(GUIDS[1])), Imported::Gone(hash(GUIDS[2]))]);
}

/// OpenLDAP does not report changes newer than its cookie, even if the cookie lags behind.
#[test]
fn what_a_synchronization_leaves_out_is_not_gone() {
    let entry = |uuid: &str| vec![("cn=a,dc=x", vec![("entryUUID", values(&[uuid]))])];
    let url = play(move |asked| match asked.filter.as_str() {
        "(objectClass=*)" => found(entry("07070707-0707-0707-0707-070707070707")),
        "(&(objectClass=*)(entryCSN>=20261122113603.109265Z#000000#000#000000)\
         (!(entryCSN=20261122113603.109265Z#000000#000#000000)))" => {
            found(entry("08080808-0808-0808-0808-080808080808"))
        }
        other => panic!("{other}"),
    });
    let settings = "base = \"dc=x\"\nanchor = \"entryUUID\"\ndelta = \"content-synchronization\"\n";
    let config = config(&url, settings);
    let (mut agent, _) = agent(&config, &[]);
    let mut import = agent.full_import().unwrap();
    let all = read(import.as_mut()).unwrap();
    let [Imported::Object(reported), Imported::Newer(left_out)] = all.as_slice() else { panic!("{all:?}") };
    assert_ne!(reported.anchor, left_out.anchor);
    // A delta import that reports the present objects may miss one for the same reason.
    let mut delta = agent.delta_import(&import.watermark().unwrap()).unwrap();
    let changed = read(delta.as_mut()).unwrap();
    assert!(delta.is_complete() && changed[1] == Imported::Newer(left_out.clone()), "{changed:?}");
}

#[test]
fn a_limit_of_the_server_is_an_error_and_no_end() {
    let url = play(|_| Found {
        entries: vec![("cn=a,dc=x", vec![("uid", values(&["a"]))])],
        code: ResultCode::SizeLimitExceeded,
        page: b"",
    });
    let config = config(&url, "base = \"dc=x\"\nanchor = \"uid\"\n");
    let (mut agent, _) = agent(&config, &[]);
    let mut import = agent.full_import().unwrap();
    let error = read(import.as_mut()).unwrap_err().to_string();
    assert!(error.contains("reading dc=x") && error.contains("after 1 entries"), "{error}");
    assert!(error.contains("sizeLimitExceeded (4)"), "{error}");
}

#[test]
fn a_watermark_holds_for_the_settings_it_was_made_with() {
    let url = play(|_| found(Vec::new()));
    let settings = "base = \"dc=x\"\nanchor = \"entryUUID\"\ndelta = \"content-synchronization\"\n";
    let of = |settings: &str| agent(&config(&url, settings), &[]).0;
    let watermark = Since::Cookie(b"here".to_vec()).write(&of(settings).directory);
    assert!(of(settings).delta_import(&watermark).is_ok());
    let narrower = format!("{settings}filter = \"(uid=*)\"\n");
    for (settings, watermark, words) in [
        (settings, watermark.replace(' ', "  "), "have changed since the last import"),
        (settings, format!("{watermark}x"), "damaged"),
        (settings, String::new(), "have changed since the last import"),
        (&narrower, watermark.clone(), "have changed since the last import"),
        (
            "base = \"dc=x\"\nanchor = \"entryUUID\"\ndelta = \"modifyTimestamp\"\n",
            watermark.clone(),
            "have changed since the last import",
        ),
        ("base = \"dc=x\"\nanchor = \"entryUUID\"\n", watermark.clone(), "no `delta`"),
    ] {
        let refused = of(settings).delta_import(&watermark).err().unwrap().to_string();
        assert!(refused.contains(words) && refused.contains("run a full-import"), "{refused}");
    }
}

#[test]
fn a_directory_that_does_not_tell_what_changed_is_reported() {
    for (delta, anchor, words) in [
        ("usn", "objectGUID", "has no highestCommittedUSN"),
        ("modifyTimestamp", "uid", "no entry has a readable"),
    ] {
        let url = play(|_| found(vec![("", vec![("vendorName", values(&["x"]))])]));
        let config = config(&url, &format!("base = \"dc=x\"\nanchor = \"{anchor}\"\ndelta = \"{delta}\"\n"));
        let error = agent(&config, &[]).0.full_import().err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_attributes_of_a_schema_are_known_but_for_its_own() {
    for (described, expected) in [
        ("( 2.5.4.3 NAME ( 'cn' 'commonName' ) DESC 'RFC4519: (common) name' SUP name )", Some("cn")),
        ("(2.5.4.4 NAME 'sn' DESC 'NAME USAGE' EQUALITY caseIgnoreMatch)", Some("sn")),
        ("( 1.3.6.1.1.16.4 NAME 'entryUUID' NO-USER-MODIFICATION USAGE directoryOperation )", None),
        ("( 1.2.3 NAME 'a' USAGE userApplications X-ORIGIN ( 'x' 'y' ) )", Some("a")),
        ("( 1.2.3 DESC 'without a name' )", None),
        ("( 1.2.3 NAME 'cut", None),
        ("", None),
    ] {
        assert_eq!(schema::user_attribute(described).as_deref(), expected, "{described}");
    }
}

#[test]
fn ranges_are_read() {
    for (description, expected) in [
        ("member;range=0-1499", Some(("member", Some(1500)))),
        ("member;Range=1500-*", Some(("member", None))),
        ("member", None),
        ("member;range=x", None),
        ("member;range=0-99999999999999999999", None),
        ("member;range=0-18446744073709551615", None),
    ] {
        assert_eq!(range(description), expected, "{description}");
    }
}

#[test]
fn values_that_never_end_are_no_object() {
    // Each range is followed by another one.
    let url = play(|asked| {
        let from = asked.attributes.iter().find_map(|wanted| wanted.strip_prefix("member;range="));
        let from: u64 = from.and_then(|from| from.strip_suffix("-*")?.parse().ok()).unwrap_or(0);
        let name: &'static str = format!("member;range={from}-{from}").leak();
        found(vec![("cn=a,dc=x", vec![("uid", values(&["a"])), (name, vec![vec![b'x'; 16 << 20]])])])
    });
    let settings = "base = \"dc=x\"\nanchor = \"uid\"\nattributes = \"member\"\n";
    let mut agent = agent(&config(&url, settings), &["member"]).0;
    let error = read(agent.full_import().unwrap().as_mut()).unwrap_err().to_string();
    assert!(error.contains("more than 256 MiB of values"), "{error}");

    let no_values = vec![Value(b""); super::entry::VALUES_MAX];
    let (agent, names) = super::tests::agent(&config(&url, settings), &["member"]);
    let attributes = [Sent { name: "member", values: List::from(&no_values) }];
    match Entries::new(&names).read(&agent.directory, "cn=a,dc=x", List::from(&attributes)) {
        super::entry::Entry::Done(Imported::Error(error)) => {
            assert!(error.text.contains("4000000 values"), "{error:?}");
        }
        _ => panic!("it is an object"),
    }
}

#[test]
fn a_password_is_read_from_its_place_and_never_reported() {
    let scratch = testkit::Scratch::new();
    let of = |text: &str| Password::File(scratch.secret("password", text)).read("password");
    assert_eq!(of("geheim\n").unwrap(), b"geheim");
    assert_eq!(of("geheim \r\n").unwrap(), b"geheim ");
    assert!(of("\n").unwrap_err().to_string().contains("there is none"));
    let missing = Password::File(scratch.join("missing")).read("password").unwrap_err().to_string();
    assert!(missing.contains("missing"), "{missing}");
    let unset =
        Password::Environment("PLIMSOLL_NO_SUCH_VARIABLE".into()).read("password").unwrap_err().to_string();
    assert_eq!(unset, "reading the password from $PLIMSOLL_NO_SUCH_VARIABLE: it is not set");
    assert!(!Password::Environment("PATH".into()).read("password").unwrap().is_empty());
}

#[test]
fn a_name_of_another_case_is_the_same_attribute() {
    let mut names = Names::default();
    names.insert("givenName", Attribute(1));
    let mut entries = Entries::new(&names);
    let config = config("ldap://localhost", "base = \"dc=x\"\nanchor = \"givenName\"\n");
    let directory = agent(&config, &[]).0.directory;
    let ada = [Value(b"Ada")];
    for (name, is_known) in [("givenName", true), ("GIVENNAME", true), ("givenName;lang-de", false)] {
        let attributes = [Sent { name, values: List::from(&ada) }];
        let entry::Entry::Done(read) = entries.read(&directory, "cn=a", List::from(&attributes)) else {
            panic!("{name}")
        };
        assert_eq!(matches!(read, Imported::Object(_)), is_known, "{name}");
    }
}

proptest! {
    #[test]
    fn whatever_a_server_or_a_store_says_is_read_or_refused(text in any::<String>(), near in "[('A-Z ;=*@0-9rangeNAMEUSAGE)-]{0,60}") {
        let config = config("ldap://localhost", "base = \"dc=x\"\nanchor = \"objectGUID\"\ndelta = \"usn\"\n");
        let directory = agent(&config, &[]).0.directory;
        let begin = Since::Usn { server: String::new(), usn: 0 }.write(&directory);
        let begin = begin.rsplit_once(' ').unwrap().0;
        for text in [&text, &near] {
            let _ = (schema::user_attribute(text), range(text), Since::parse(text, &directory));
            if let Ok(since) = Since::parse(&format!("{begin} {text}"), &directory) {
                prop_assert_eq!(Since::parse(&since.write(&directory), &directory).unwrap(), since);
            }
        }
    }
}

#[test]
fn a_password_of_active_directory_is_quoted_and_utf_16() {
    // The example of Microsoft's documentation, and a character outside the basic plane.
    assert_eq!(export::quoted_utf16(b"new"), b"\"\0n\0e\0w\0\"\0");
    assert_eq!(export::quoted_utf16("\u{1f511}".as_bytes()), [0x22, 0, 0x3d, 0xd8, 0x11, 0xdd, 0x22, 0]);
    let mut names = Names::default();
    names.insert("unicodePwd", Attribute(1));
    names.insert("cn", Attribute(2));
    let change = ExportedObject {
        change: metadir::object::Change::Add,
        anchor: None,
        dn: "cn=a".into(),
        new_dn: None,
        attributes: vec![(Attribute(1), vec![b"new".to_vec()]), (Attribute(2), vec![b"a".to_vec()])],
        changed_values: Vec::new(),
        adopts: false,
        written: Vec::new(),
        image: Hologram::default(),
    };
    let sent = export::with_quoted_passwords(std::slice::from_ref(&change), &names);
    assert_eq!(sent[0].attributes[0].1, [b"\"\0n\0e\0w\0\"\0".to_vec()]);
    assert_eq!(sent[0].attributes[1], change.attributes[1]);
}
