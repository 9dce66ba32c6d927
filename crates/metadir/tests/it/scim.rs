//! Tests with people in a staff file and in a SCIM service.

mod names;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_metadir::agent::{ChangedValues, ExportedObject, Names};
use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::hologram::Attribute;
use plimsoll_metadir::metadirectory::{Metadirectory, StepResult};
use plimsoll_metadir::object::Change;
use plimsoll_metadir::stage::StepError;
use plimsoll_metadir::store::ObjectError;
use scim::{InjectedFault, Options, Request, Server, Watch};
use serde_json::{Value, json};
use testkit::Scratch;

use crate::steps::{Did, run, try_run};

// Indexes of the agents, which are sorted by name.
pub(crate) const HR: usize = 0;
pub(crate) const SERVICE: usize = 1;

const TOKEN: &str = "not-to-be-reported-7f3a";
const DEPARTMENT: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const WORK: &str = "emails[type eq \\\"work\\\"].value";

const HEAD: &str = "id,login,given,sn,mail,title,department,status\n";
pub(crate) const STAFF: &str = "1,ada,Ada,Byron,ada@plim.example,Countess,Engines,active\n\
                     2,alan,Alan,Turing,alan@plim.example,,Machines,active\n\
                     3,grace,Grace,Hopper,grace@plim.example,Admiral,Compilers,active\n\
                     4,edsger,Edsger,\"Dijk\"\"stra\\\",edsger@plim.example,,Paths,left\n\
                     5,zoë/?,Zoë,Ünal,zoe@plim.example,,,active\n";

pub(crate) struct Office {
    scratch: Scratch,
    server: Option<Server>,
    url: String,
    /// Additional settings of the agent.
    settings: &'static str,
}

impl Office {
    pub(crate) fn new(settings: &'static str) -> Office {
        Office::watched(settings, None)
    }

    fn watched(settings: &'static str, watch: Option<Watch>) -> Office {
        let scratch = Scratch::new();
        let server = Server::start(Options {
            token: Some(TOKEN.into()),
            page_max: 3,
            watch,
            ..Options::new(scratch.join("scim.db"))
        })
        .unwrap();
        let url = server.url();
        scratch.secret("token", format!("{TOKEN}\n"));
        scratch.file("hr.csv", format!("{HEAD}{STAFF}"));
        Office { scratch, server: Some(server), url, settings }
    }

    fn config(&self) -> String {
        let at = |file: &str| self.scratch.join(file).display().to_string();
        format!(
            r#"
[store]
sqlite = "{store}"
durability = "off"
commit_objects = 4

[metaverse.person]
attributes = {{ login = "text", given = "text", sn = "text", mail = "text", title = "text", department = "text", active = "boolean" }}
deleted_with = "hr"

[agents.hr]
type = "delimited"
path = "{hr}"
anchor = "id"

[agents.service]
type = "scim"
url = "{url}"
token_file = "{token}"
attributes = ["name.givenName", "name.familyName", "{WORK}", "title", "active", "{DEPARTMENT}:department"]
page_size = 2
{settings}

[[inbound]]
agent = "hr"
to = "person"
project = true
flow = {{ login = "login", given = "given", sn = "sn", mail = "mail", title = "title", department = "department", active = {{ expression = "cs.status == 'active'" }} }}

[[outbound]]
agent = "service"
from = "person"
dn = "mv.login"
deprovision = "delete"
[outbound.flow]
userName = "login"
"name.givenName" = "given"
"name.familyName" = "sn"
"{WORK}" = "mail"
title = "title"
active = "active"
"{DEPARTMENT}:department" = "department"
"#,
            store = at("store.db"),
            hr = at("hr.csv"),
            token = at("token"),
            url = self.url,
            settings = self.settings,
        )
    }

    pub(crate) fn open(&self) -> Metadirectory {
        Metadirectory::open(connectors::parse(&self.config()).unwrap()).unwrap()
    }

    pub(crate) fn staff(&self, lines: &str) {
        fs::write(self.scratch.join("hr.csv"), format!("{HEAD}{lines}")).unwrap();
    }

    /// Queries or changes the service outside the metadirectory.
    fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        ask(&self.url, method, path, body)
    }

    /// All users of the service, sorted by name.
    pub(crate) fn users(&self) -> Vec<Value> {
        let mut users = Vec::new();
        loop {
            let page = self.ask("GET", &format!("/Users?startIndex={}", users.len() + 1), Value::Null);
            users.extend(page["Resources"].as_array().unwrap().iter().cloned());
            if users.len() as u64 == page["totalResults"] {
                users.sort_by_key(|user| user["userName"].to_string());
                return users;
            }
        }
    }

    fn user(&self, name: &str) -> Value {
        self.users().into_iter().find(|user| user["userName"] == name).unwrap()
    }
}

/// The path of a user.
fn user(id: &str) -> String {
    format!("/{}/{id}", "Users")
}

fn ask(url: &str, method: &str, path: &str, body: Value) -> Value {
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("{url}{path}"))
        .header("Authorization", format!("Bearer {TOKEN}"));
    let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let mut answer = if text.is_empty() {
        agent.run(request.body(()).unwrap()).unwrap()
    } else {
        let request = request.header("Content-Type", "application/scim+json");
        agent.run(request.body(text).unwrap()).unwrap()
    };
    let text = answer.body_mut().read_to_string().unwrap();
    if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
}

/// Imports and synchronizes the staff file, so that its changes are pending.
fn bring(directory: &mut Metadirectory) {
    run(directory, HR, StepKind::FullImport);
    run(directory, HR, StepKind::DeltaSynchronization);
}

fn confirm(directory: &mut Metadirectory) -> Did {
    let did = run(directory, SERVICE, StepKind::FullImport);
    run(directory, SERVICE, StepKind::DeltaSynchronization);
    did
}

fn why(result: Result<StepResult, StepError>) -> String {
    match result {
        Err(StepError::Agent(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn people_are_made_confirmed_changed_and_deleted() {
    for settings in [
        "connections = 1",
        "anchor = \"userName\"\nconnections = 1",
        "connections = 4\nupdate = \"put\"",
        "connections = 2\nbulk = 3",
    ] {
        let office = Office::new(settings);
        let mut directory = office.open();
        bring(&mut directory);
        assert_eq!(run(&mut directory, SERVICE, StepKind::Export), [("export-add", 5)], "{settings}");
        let mut edsger = office.user("edsger");
        for own in ["id", "meta"] {
            edsger.as_object_mut().unwrap().remove(own).unwrap();
        }
        assert_eq!(
            edsger,
            json!({
                "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User", DEPARTMENT],
                "userName": "edsger",
                "name": {"givenName": "Edsger", "familyName": "Dijk\"stra\\"},
                "emails": [{"type": "work", "value": "edsger@plim.example"}],
                "active": false,
                (DEPARTMENT): {"department": "Paths"},
            })
        );
        assert_eq!(confirm(&mut directory), [("confirmed", 5), ("stage-update", 5)]);
        // An attribute without a flow is changed outside the metadirectory.
        let alan = office.user("alan");
        let home = json!({"Operations": [{"op": "add", "path": "emails", "value": [{"type": "home", "value": "a@h.example"}]}]});
        office.ask("PATCH", &user(alan["id"].as_str().unwrap()), home);
        // One person gets a new address and title, another loses theirs; one is added and one deleted.
        office.staff(
            &STAFF
                .replace("alan@plim.example,,", "turing@plim.example,Reader,")
                .replace("ada@plim.example,Countess", ",")
                .replace(
                    "3,grace,Grace,Hopper,grace@plim.example,Admiral,Compilers,active\n",
                    "6,tim,Tim,Lee,tim@plim.example,,Webs,active\n",
                ),
        );
        bring(&mut directory);
        assert_eq!(
            run(&mut directory, SERVICE, StepKind::Export),
            [("export-add", 1), ("export-delete", 1), ("export-update", 2)],
            "{settings}"
        );
        let names: Vec<Value> = office.users().iter().map(|user| user["userName"].clone()).collect();
        assert_eq!(names, ["ada", "alan", "edsger", "tim", "zoë/?"]);
        let (ada, alan) = (office.user("ada"), office.user("alan"));
        assert!(ada.get("emails").is_none() && ada.get("title").is_none(), "{ada}");
        assert_eq!(alan["title"], "Reader");
        let mut addresses = alan["emails"].as_array().unwrap().clone();
        addresses.sort_by_key(|address| address["type"].to_string());
        assert_eq!(
            Value::Array(addresses),
            json!([{"type": "home", "value": "a@h.example"}, {"type": "work", "value": "turing@plim.example"}])
        );
        let did = confirm(&mut directory);
        assert!(did.contains(&("confirmed", 3)) && did.contains(&("stage-delete", 1)), "{did:?}");
        // A second pass changes nothing, even after the store was closed.
        drop(directory);
        let mut directory = office.open();
        bring(&mut directory);
        assert_eq!(run(&mut directory, SERVICE, StepKind::Export), []);
        assert_eq!(confirm(&mut directory), [("stage-no-change", 5)]);
    }
}

#[test]
fn who_is_there_already_is_taken_over_with_what_else_they_have() {
    const ADOPTS: &str = "existing = \"adopt\"\n[[inbound]]\nagent = \"service\"\nto = \"person\"\njoin = [{ cs = \"userName\", mv = \"login\", ignore_case = true }]";
    const IN_BULK: &str = "bulk = 100\nexisting = \"adopt\"\n[[inbound]]\nagent = \"service\"\nto = \"person\"\njoin = [{ cs = \"userName\", mv = \"login\", ignore_case = true }]";
    for settings in [ADOPTS, IN_BULK] {
        let office = Office::new(settings);
        let ada = json!({
            "userName": "ADA", "nickName": "Countess of Lovelace", "title": "old",
            "emails": [{"type": "work", "value": "old@plim.example", "primary": true}, {"type": "home", "value": "a@h.example"}],
        });
        let id = office.ask("POST", "/Users", ada)["id"].clone();
        let mut directory = office.open();
        bring(&mut directory);
        assert_eq!(run(&mut directory, SERVICE, StepKind::Export), [("export-add", 5)]);
        assert_eq!(office.users().len(), 5);
        let ada = office.user("ada");
        assert_eq!(
            (&ada["id"], &ada["title"], &ada["nickName"]),
            (&id, &json!("Countess"), &json!("Countess of Lovelace"))
        );
        assert_eq!(
            ada["emails"],
            json!([{"type": "work", "value": "ada@plim.example", "primary": true}, {"type": "home", "value": "a@h.example"}])
        );
        assert_eq!(confirm(&mut directory), [("confirmed", 5), ("stage-update", 5)]);
    }
}

/// Without a join rule, or unless the configuration says so, nobody is taken over.
#[test]
fn who_is_there_already_stays_as_they_are() {
    for (settings, outcome) in [
        ("", "completed-export-errors"),
        ("bulk = 100\nexisting = \"adopt\"", "completed-export-errors"),
        ("existing = \"report\"", "completed-warnings"),
    ] {
        let office = Office::new(settings);
        office.ask("POST", "/Users", json!({ "userName": "ADA", "title": "old" }));
        let mut directory = office.open();
        bring(&mut directory);
        let result = try_run(&mut directory, SERVICE, StepKind::Export).unwrap();
        assert_eq!((result.statistics.of("export-add"), result.outcome()), (4, outcome), "{settings}");
        let [ObjectError { object: who, text: why, .. }] = result.failures.as_slice() else {
            panic!("{result:?}")
        };
        assert!(who == "ada" && why.contains("exists already and is not changed: its `"), "{why}");
        assert!(why.contains("no join rule of service says that it is the same"), "{why}");
        assert_eq!(office.user("ADA")["title"], "old");
    }
}

#[test]
fn a_refusal_costs_one_object_and_is_reported_in_the_words_of_the_service() {
    for settings in ["", "bulk = 10"] {
        let office = Office::new(settings);
        office.staff(&STAFF.replace("grace@plim.example", "no address"));
        let mut directory = office.open();
        bring(&mut directory);
        let result = try_run(&mut directory, SERVICE, StepKind::Export).unwrap();
        assert_eq!((result.statistics.of("export-add"), result.statistics.of("export-failure")), (4, 1));
        assert_eq!(result.outcome(), "completed-export-errors");
        let [ObjectError { object: who, text: why, .. }] = result.failures.as_slice() else {
            panic!("{result:?}")
        };
        assert_eq!(who, "grace");
        assert_eq!(why, "the service answers 400 invalidValue: emails.value is not an address");
        // The others are confirmed; she follows when her address is valid.
        assert_eq!(confirm(&mut directory), [("confirmed", 4), ("stage-update", 4)]);
        office.staff(STAFF);
        bring(&mut directory);
        assert_eq!(run(&mut directory, SERVICE, StepKind::Export), [("export-add", 1)]);
        assert_eq!(office.users().len(), 5);
    }
}

/// Injects a fault into the requests of a method, for a range of request numbers.
fn trouble(method: &'static str, numbers: std::ops::Range<u64>, trouble: InjectedFault) -> Option<Watch> {
    let count = AtomicU64::new(0);
    Some(Box::new(move |request: &Request| {
        let is_meant = request.method == method && numbers.contains(&count.fetch_add(1, Ordering::SeqCst));
        is_meant.then(|| trouble.clone())
    }))
}

#[test]
fn a_connection_that_breaks_ends_the_step_and_the_next_run_makes_nobody_twice() {
    for settings in ["connections = 1", "connections = 3", "bulk = 2"] {
        // The request is executed, but the response is lost.
        let office = Office::watched(settings, trouble("POST", 1..2, InjectedFault::ServeAndHangUp));
        let mut directory = office.open();
        bring(&mut directory);
        let why = why(try_run(&mut directory, SERVICE, StepKind::Export));
        assert!(why.starts_with(&format!("POST {}", office.url)), "{why}");
        let before = office.users();
        assert!((2..=5).contains(&before.len()), "{before:?}");
        run(&mut directory, SERVICE, StepKind::Export);
        let after = office.users();
        assert_eq!(after.len(), 5);
        let has = |user: &Value| after.iter().any(|other| other["id"] == user["id"]);
        assert!(before.iter().all(has), "{settings}");
        assert_eq!(confirm(&mut directory), [("confirmed", 5), ("stage-update", 5)]);
    }
}

#[test]
fn a_service_that_is_gone_is_reported_and_nothing_is_deleted() {
    let mut office = Office::new("timeout_s = 5");
    let mut directory = office.open();
    bring(&mut directory);
    run(&mut directory, SERVICE, StepKind::Export);
    confirm(&mut directory);
    drop(office.server.take());
    for kind in [StepKind::FullImport, StepKind::DeltaImport] {
        let why = why(try_run(&mut directory, SERVICE, kind));
        assert!(why.starts_with(&format!("GET {}", office.url)), "{why}");
    }
    office.staff(&STAFF.replace("Countess", "Lady"));
    bring(&mut directory);
    assert!(why(try_run(&mut directory, SERVICE, StepKind::Export)).contains("PATCH"));
    // The service is available again, and the export continues.
    let address = office.url.trim_start_matches("http://").split('/').next().unwrap().to_string();
    let options = Options {
        listen: address,
        token: Some(TOKEN.into()),
        ..Options::new(office.scratch.join("scim.db"))
    };
    office.server = Some(Server::start(options).unwrap());
    assert_eq!(run(&mut directory, SERVICE, StepKind::Export), [("export-update", 1)]);
    assert_eq!(office.user("ada")["title"], "Lady");
}

#[test]
fn a_wrong_token_is_reported_and_never_shown() {
    let office = Office::new("");
    let mut directory = office.open();
    office.scratch.secret("token", "another-secret-19c2");
    let reported = why(try_run(&mut directory, SERVICE, StepKind::FullImport));
    assert!(reported.contains("401") && reported.contains("the service rejects the token"), "{reported}");
    office.scratch.secret("token", "two\nlines");
    let unusable = why(try_run(&mut directory, SERVICE, StepKind::FullImport));
    assert!(unusable.contains("characters that no token has"), "{unusable}");
    fs::remove_file(office.scratch.join("token")).unwrap();
    let missing = why(try_run(&mut directory, SERVICE, StepKind::FullImport));
    assert!(missing.contains("reading the token from"), "{missing}");
    for secret in [TOKEN, "another-secret-19c2", "two"] {
        assert!(![&reported, &unusable, &missing].iter().any(|text| text.contains(secret)));
    }
}

#[test]
fn a_busy_service_is_waited_for_but_not_for_ever() {
    let busy = |seconds: &str| {
        InjectedFault::Answer(429, vec![("Retry-After".into(), seconds.into())], String::new())
    };
    for settings in ["", "bulk = 10"] {
        let office = Office::watched(settings, trouble("POST", 0..3, busy("0")));
        let mut directory = office.open();
        bring(&mut directory);
        assert_eq!(run(&mut directory, SERVICE, StepKind::Export), [("export-add", 5)]);
        assert_eq!(office.users().len(), 5);
    }
    let office = Office::watched("", trouble("POST", 0..1000, busy("86400")));
    let mut directory = office.open();
    bring(&mut directory);
    let why = why(try_run(&mut directory, SERVICE, StepKind::Export));
    assert!(why.contains("429") && why.contains("run it again later"), "{why}");
}

#[test]
fn what_somebody_else_did_meanwhile_is_no_obstacle() {
    let office = Office::new("");
    let mut directory = office.open();
    bring(&mut directory);
    run(&mut directory, SERVICE, StepKind::Export);
    confirm(&mut directory);
    // The user whose address is to change has none any more, and the user to be deleted does not exist.
    let id = |name: &str| office.user(name)["id"].as_str().unwrap().to_string();
    let none = json!({"Operations": [{"op": "remove", "path": "emails"}]});
    office.ask("PATCH", &user(&id("alan")), none);
    office.ask("DELETE", &user(&id("grace")), Value::Null);
    office.staff(
        &STAFF
            .replace("alan@plim.example", "turing@plim.example")
            .replace("3,grace,Grace,Hopper,grace@plim.example,Admiral,Compilers,active\n", ""),
    );
    bring(&mut directory);
    assert_eq!(run(&mut directory, SERVICE, StepKind::Export), [("export-delete", 1), ("export-update", 1)]);
    assert_eq!(office.user("alan")["emails"], json!([{"type": "work", "value": "turing@plim.example"}]));
    let did = confirm(&mut directory);
    assert!(did.contains(&("confirmed", 1)) && did.contains(&("stage-delete", 1)), "{did:?}");
}

/// A metadirectory with the service as its source.
fn reading(office: &Office, settings: &str) -> Metadirectory {
    let config = format!(
        "[store]\nsqlite = \"{}\"\ndurability = \"off\"\n\
         [metaverse.person]\nattributes = {{ login = \"text\" }}\n\
         [agents.service]\ntype = \"scim\"\nurl = \"{}\"\ntoken_file = \"{}\"\nattributes = [\"name.familyName\", \"active\"]\n{settings}\n\
         [[inbound]]\nagent = \"service\"\nto = \"person\"\nproject = true\nflow = {{ login = \"userName\" }}\n",
        office.scratch.join("reading.db").display(),
        office.url,
        office.scratch.join("token").display(),
    );
    Metadirectory::open(connectors::parse(&config).unwrap()).unwrap()
}

fn import(directory: &mut Metadirectory, kind: StepKind) -> Vec<(&'static str, u64)> {
    run(directory, 0, kind)
}

fn fill(office: &Office, count: usize) -> Vec<String> {
    let make = |at: usize| {
        let user = json!({"userName": format!("u{at}"), "name": {"familyName": format!("N{at}")}});
        office.ask("POST", "/Users", user)["id"].as_str().unwrap().to_string()
    };
    (0..count).map(make).collect()
}

#[test]
fn a_list_that_moves_while_it_is_read_loses_nobody() {
    // The actions before the fifth list request, then before each one.
    let act: Arc<std::sync::Mutex<Vec<(String, String)>>> = Arc::default();
    let (count, todo) = (Arc::new(AtomicU64::new(0)), act.clone());
    let counted = count.clone();
    let office = Office::watched(
        "",
        Some(Box::new(move |request: &Request| {
            let is_list = request.method == "GET" && request.query.iter().any(|(name, _)| name == "count");
            if is_list && counted.fetch_add(1, Ordering::SeqCst) >= 4 {
                let next = todo.lock().unwrap().pop();
                if let Some((url, path)) = next {
                    ask(&url, "DELETE", &path, Value::Null);
                }
            }
            None
        })),
    );
    let ids = fill(&office, 20);
    let path = |at: usize| (office.url.clone(), user(&ids[at]));
    let mut directory = reading(&office, "page_size = 2");
    // A resource that was read is deleted, which shifts the following ones into its page. None is missed.
    act.lock().unwrap().push(path(0));
    assert_eq!(import(&mut directory, StepKind::FullImport), [("stage-add", 20)]);
    assert!(act.lock().unwrap().is_empty());
    assert_eq!(import(&mut directory, StepKind::FullImport), [("stage-delete", 1), ("stage-no-change", 19)]);
    // If the list changes all the time, the step fails and deletes nothing: each pass loses a resource that
    // was read.
    count.store(0, Ordering::SeqCst);
    *act.lock().unwrap() = (1..8).rev().map(path).collect();
    let why = why(try_run(&mut directory, 0, StepKind::FullImport));
    assert!(why.contains("changed each of the 4 times"), "{why}");
    act.lock().unwrap().clear();
    let left = office.users().len() as u64;
    assert_eq!(
        import(&mut directory, StepKind::FullImport),
        [("stage-delete", 19 - left), ("stage-no-change", left)]
    );
}

#[test]
fn pages_that_do_not_fit_each_other_are_an_error() {
    // The same page for every request.
    let page =
        json!({"totalResults": 4, "Resources": [{"id": "a", "userName": "a"}, {"id": "b", "userName": "b"}]});
    let short = json!({"totalResults": 4, "Resources": []});
    for (answer, reported) in [
        (page.to_string(), "its pages do not fit each other"),
        (short.to_string(), "its pages do not fit each other"),
        ("{\"Resources\": []}".into(), "no totalResults"),
        ("<html>".into(), "is not JSON"),
        ("[".repeat(100_000), "is not JSON"),
    ] {
        let office =
            Office::watched("", trouble("GET", 0..1000, InjectedFault::Answer(200, Vec::new(), answer)));
        let mut directory = reading(&office, "");
        let why = why(try_run(&mut directory, 0, StepKind::FullImport));
        assert!(why.contains(reported), "{why}");
    }
}

/// A service that computes each page of a list from the start index and the count.
fn lists(make: impl Fn(u64, u64) -> Vec<Value> + Send + Sync + 'static) -> (Watch, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    let watch = move |request: &Request| {
        let number =
            |name: &str| -> Option<u64> { request.query.iter().find(|(is, _)| is == name)?.1.parse().ok() };
        let (start, count) = (number("startIndex")?, number("count")?);
        // An endless import ends here with another error than the expected one.
        if counted.fetch_add(1, Ordering::SeqCst) > 200 {
            return Some(InjectedFault::HangUp);
        }
        let page = json!({"totalResults": u64::MAX, "Resources": make(start, count)});
        Some(InjectedFault::Answer(200, Vec::new(), page.to_string()))
    };
    (Box::new(watch), asked)
}

#[test]
fn a_list_that_never_ends_is_given_up_and_nothing_is_deleted() {
    let of = |range: std::ops::Range<u64>, make: fn(u64) -> Value| range.map(make).collect::<Vec<_>>();
    type Make = Box<dyn Fn(u64, u64) -> Vec<Value> + Send + Sync>;
    let none = |number: u64| json!({"userName": format!("u{number}")});
    let same: Make = Box::new(move |_, _| of(0..2, none));
    let single: Make = Box::new(|_, _| vec![json!({"userName": "u"})]);
    let without: Make = Box::new(move |start, count| of(start..start + count, none));
    let with: Make = Box::new(move |start, count| {
        of((start - 1) % 5..(start - 1) % 5 + count, |number| json!({"id": format!("{}", number % 5)}))
    });
    for (make, most, reported) in [
        (same, 10, "begins with another resource than the page before it ended with"),
        (single, 10, "brings nothing new"),
        (without, 100, "more than 1000 resources without id"),
        (with, 20, "has Users/0 a second time"),
    ] {
        let (watch, asked) = lists(make);
        let office = Office::new("");
        fill(&office, 3);
        let mut directory = reading(&office, "page_size = 20");
        assert_eq!(import(&mut directory, StepKind::FullImport), [("stage-add", 3)]);
        drop(directory);
        let bad = Office::watched("", Some(watch));
        let store = |office: &Office| office.scratch.join("reading.db");
        fs::copy(store(&office), store(&bad)).unwrap();
        let mut directory = reading(&bad, "page_size = 20");
        let why = why(try_run(&mut directory, 0, StepKind::FullImport));
        assert!(why.contains(reported), "{why}");
        assert!(asked.load(Ordering::SeqCst) <= most, "{reported}: {asked:?}");
        // Known objects are kept.
        let (spaces, _) = directory.status().unwrap();
        let gauges = &spaces[0].1;
        assert!(gauges.objects >= 3 && gauges.pending_imports[2] == 0, "{gauges:?}");
    }
}

#[test]
fn resources_that_are_no_objects_are_reported_and_nothing_is_deleted() {
    let page = json!({"totalResults": 4, "Resources": [
        {"id": "a", "userName": "a"}, {"userName": "b"}, "c", {"id": "d", "userName": "d", "name": {"familyName": {"x": 1}}},
    ]});
    let answer = InjectedFault::Answer(200, Vec::new(), page.to_string());
    let office = Office::watched("", trouble("GET", 1..2, answer));
    fill(&office, 2);
    let mut directory = reading(&office, "page_size = 2");
    // Pages have two resources.
    assert_eq!(import(&mut directory, StepKind::FullImport), [("stage-add", 2)]);
    let result = try_run(&mut directory, 0, StepKind::FullImport).unwrap();
    let reported: Vec<(&str, &str)> =
        result.discovery_errors.iter().map(|error| (error.place.as_str(), error.kind)).collect();
    assert_eq!(
        reported,
        [
            ("number 2 of Users", "missing-anchor"),
            ("number 3 of Users", "parse-error"),
            ("Users/d", "invalid-attribute-value")
        ]
    );
    assert_eq!(result.statistics.of("stage-delete"), 0);
}

#[test]
fn a_delta_brings_what_is_new_and_what_changed() {
    let office = Office::new("");
    let ids = fill(&office, 10);
    let mut directory = reading(&office, "page_size = 3");
    assert_eq!(import(&mut directory, StepKind::FullImport), [("stage-add", 10)]);
    run(&mut directory, 0, StepKind::FullSynchronization);
    let change = json!({"Operations": [{"op": "replace", "path": "name.familyName", "value": "Other"}]});
    office.ask("PATCH", &user(&ids[7]), change);
    office.ask("POST", "/Users", json!({"userName": "new"}));
    // Recent changes are reported again.
    let did = import(&mut directory, StepKind::DeltaImport);
    assert!(did.contains(&("stage-add", 1)) && did.contains(&("stage-update", 1)), "{did:?}");
    let did = import(&mut directory, StepKind::DeltaImport);
    assert!(did.iter().all(|(what, _)| *what == "stage-no-change"), "{did:?}");
    // Only a full import shows deletions.
    office.ask("DELETE", &user(&ids[0]), Value::Null);
    let did = import(&mut directory, StepKind::DeltaImport);
    assert!(did.iter().all(|(what, _)| *what == "stage-no-change"), "{did:?}");
    let did = import(&mut directory, StepKind::FullImport);
    assert!(did.contains(&("stage-delete", 1)), "{did:?}");
}

#[test]
fn a_service_that_cannot_filter_has_no_delta() {
    let mut office = Office::new("");
    fill(&office, 2);
    let mut directory = reading(&office, "");
    import(&mut directory, StepKind::FullImport);
    drop(office.server.take());
    let server =
        Options { token: Some(TOKEN.into()), filters: false, ..Options::new(office.scratch.join("scim.db")) };
    let server = Server::start(server).unwrap();
    office.url = server.url();
    office.server = Some(server);
    drop(directory);
    let mut directory = reading(&office, "");
    let why = why(try_run(&mut directory, 0, StepKind::DeltaImport));
    assert!(why.contains("run a full-import"), "{why}");
}

#[test]
fn groups_are_found_by_their_anchor_and_made_once() {
    let office = Office::watched("", trouble("POST", 1..2, InjectedFault::ServeAndHangUp));
    let at = |file: &str| office.scratch.join(file).display().to_string();
    office.scratch.file("teams.csv", "key,name\nT1,Engines\nT2,Looms\nT3,Looms\n");
    let config = format!(
        r#"
[store]
sqlite = "{store}"
[metaverse.group]
attributes = {{ key = "text", name = "text" }}
[agents.service]
type = "scim"
url = "{url}"
token_file = "{token}"
resource = "Groups"
anchor = "externalId"
attributes = ["displayName"]
connections = 1
[agents.teams]
type = "delimited"
path = "{teams}"
anchor = "key"
[[inbound]]
agent = "teams"
to = "group"
project = true
flow = {{ key = "key", name = "name" }}
[[outbound]]
agent = "service"
from = "group"
dn = "mv.key"
flow = {{ externalId = "key", displayName = "name" }}
"#,
        store = at("groups.db"),
        url = office.url,
        token = at("token"),
        teams = at("teams.csv"),
    );
    const TEAMS: usize = 1;
    let mut directory = Metadirectory::open(connectors::parse(&config).unwrap()).unwrap();
    run(&mut directory, TEAMS, StepKind::FullImport);
    run(&mut directory, TEAMS, StepKind::DeltaSynchronization);
    why(try_run(&mut directory, 0, StepKind::Export));
    assert_eq!(run(&mut directory, 0, StepKind::Export), [("export-add", 3)]);
    let groups = office.ask("GET", "/Groups", Value::Null);
    assert_eq!(groups["totalResults"], 3, "{groups}");
    assert_eq!(run(&mut directory, 0, StepKind::FullImport), [("confirmed", 3), ("stage-update", 3)]);
    run(&mut directory, 0, StepKind::DeltaSynchronization);
    // A change needs no search, because the id is known.
    office.scratch.file("teams.csv", "key,name\nT1,Engines\nT2,Weaving\nT3,Looms\n");
    run(&mut directory, TEAMS, StepKind::FullImport);
    run(&mut directory, TEAMS, StepKind::DeltaSynchronization);
    let before = office.server.as_ref().unwrap().requests();
    assert_eq!(run(&mut directory, 0, StepKind::Export), [("export-update", 1)]);
    assert_eq!(office.server.as_ref().unwrap().requests() - before, 1);
}

#[test]
fn what_flows_where_the_agent_has_nothing_is_reported() {
    let office = Office::new("");
    let config = office.config().replace("\"title\", \"active\"", "\"active\"");
    let mut directory = Metadirectory::open(connectors::parse(&config).unwrap()).unwrap();
    bring(&mut directory);
    let result = try_run(&mut directory, SERVICE, StepKind::Export).unwrap();
    assert_eq!(result.statistics.of("export-failure"), 2, "{result:?}");
    assert!(result.failures[0].text.contains("is not in `attributes` of its agent"), "{result:?}");
}

#[test]
fn a_group_wins_and_loses_members_one_by_one() {
    for update in ["patch", "put"] {
        let office = Office::new("");
        let users = fill(&office, 3);
        let made = office.ask(
            "POST",
            "/Groups",
            json!({"displayName": "Looms", "members": [{"value": users[0]}, {"value": users[1]}]}),
        );
        let id = made["id"].as_str().unwrap();
        let config = office
            .config()
            .replace(
                "[agents.service]",
                &format!("[agents.service]\nresource = \"Groups\"\nupdate = \"{update}\""),
            )
            .replace("attributes = [\"name.givenName\"", "attributes = [\"members\", \"name.givenName\"");
        let config = connectors::parse(&config).unwrap();
        let service = &config.agents[SERVICE];
        let mut names = Names::default();
        for (number, name) in service.attributes().unwrap().iter().enumerate() {
            names.insert(name, Attribute(number as u32));
        }
        let attribute = |name| names.attribute(name).unwrap();
        let bytes = |at: usize| users[at].clone().into_bytes();
        let change = ExportedObject {
            change: Change::Update,
            anchor: None,
            dn: String::new(),
            new_dn: None,
            attributes: Vec::new(),
            adopts: true,
            written: Vec::new(),
            changed_values: vec![ChangedValues {
                attribute: attribute("members"),
                added: vec![bytes(2)],
                removed: vec![bytes(0)],
            }],
            image: [(attribute("id"), vec![id.as_bytes().to_vec()])].into_iter().collect(),
        };
        let mut agent = service.open(&names).unwrap();
        assert!(agent.takes_changed_values());
        // The change is idempotent.
        for _ in 0..2 {
            assert_eq!(agent.export(std::slice::from_ref(&change)).unwrap(), [Ok(())]);
            let group = office.ask("GET", &format!("/Groups/{id}"), Value::Null);
            assert_eq!(group["members"], json!([{"value": users[1]}, {"value": users[2]}]), "{update}");
        }
    }
}

#[test]
fn a_password_is_sent_to_a_service_once() {
    let posted = Arc::new(AtomicU64::new(0));
    let (count, passwords) = (posted.clone(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let sent = passwords.clone();
    let watch = move |request: &Request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if let Some(password) = body["password"].as_str() {
            count.fetch_add(1, Ordering::Relaxed);
            sent.lock().unwrap().push(password.to_string());
        }
        None
    };
    let office = Office::watched("", Some(Box::new(watch)));
    let file = office.scratch.join("passwords");
    let rule = format!(
        "[outbound.write_only]\npassword = {{ generate = {{ length = 32, classes = [\"lower\", \"symbols\"], file = \"{}\" }} }}\n",
        file.display()
    );
    let config = office.config() + &rule;
    let mut directory = Metadirectory::open(connectors::parse(&config).unwrap()).unwrap();
    bring(&mut directory);
    assert_eq!(run(&mut directory, SERVICE, StepKind::Export), [("export-add", 5)]);
    let text = fs::read_to_string(&file).unwrap();
    let mut delivered: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["value"].as_str().unwrap().to_string())
        .collect();
    let mut sent = passwords.lock().unwrap().clone();
    delivered.sort();
    sent.sort();
    assert_eq!((delivered, posted.load(Ordering::Relaxed)), (sent, 5));
    for kind in [StepKind::FullImport, StepKind::DeltaSynchronization, StepKind::FullSynchronization] {
        let did = run(&mut directory, SERVICE, kind);
        assert!(did.iter().all(|(what, _)| *what != "exported-change-not-reimported"), "{did:?}");
    }
    assert_eq!(run(&mut directory, SERVICE, StepKind::Export), []);
    assert_eq!(posted.load(Ordering::Relaxed), 5);
}
