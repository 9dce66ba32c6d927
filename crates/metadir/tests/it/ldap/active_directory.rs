//! Tests with a domain controller of Active Directory: Samba.

use ldap::message::{Attribute as Sent, List, Value};
use ldap::session::Trust;
use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::store::ObjectError;
use testkit::Samba;
use testkit::samba::{ADMINISTRATOR_DN, ADMINISTRATOR_PASSWORD, Certificates, DOMAIN_DN};

use super::*;
use crate::certificates::made;
use crate::steps::{Did, run, try_run};

// Indexes of the agents, which are sorted by name.
const DIRECTORY: usize = 0;
const STAFF: usize = 1;

/// The domain controller; `None` if the test is recorded as skipped.
fn samba() -> Option<&'static Samba> {
    Samba::of_process(|address| {
        let made = made(address);
        Certificates { authority: made.authority, certificate: made.certificate, key: made.key }
    })
}

fn connect(samba: &Samba, name: &str, password: &str) -> Result<Session, ldap::session::SessionError> {
    let server: Server = samba.tls_url().parse().unwrap();
    let options = Options { trust: Trust::File(samba.ca_file()), ..Options::default() };
    let mut session = Session::connect(&server, &options)?;
    session.bind(name, password.as_bytes())?;
    Ok(session)
}

fn administrator(samba: &Samba) -> Session {
    connect(samba, ADMINISTRATOR_DN, ADMINISTRATOR_PASSWORD).unwrap()
}

fn add(session: &mut Session, dn: &str, attributes: &[(&str, &[&str])]) {
    let values: Vec<Vec<Value<'_>>> = attributes
        .iter()
        .map(|(_, values)| values.iter().map(|value| Value(value.as_bytes())).collect())
        .collect();
    let listed: Vec<Sent<'_>> = attributes
        .iter()
        .zip(&values)
        .map(|((name, _), values)| Sent { name, values: List::from(values) })
        .collect();
    session.add(dn, &listed).unwrap();
}

/// A part of the domain for one test.
fn unit(samba: &Samba, name: &str) -> String {
    let dn = format!("OU={name},{DOMAIN_DN}");
    add(&mut administrator(samba), &dn, &[("objectClass", &["organizationalUnit"])]);
    dn
}

/// A staff file and the part of the domain that follows it.
struct Firm {
    samba: &'static Samba,
    scratch: Scratch,
    name: &'static str,
    unit: String,
    directory: Metadirectory,
}

const CONFIG: &str = include_str!("active_directory.toml");
const HANDBOOK: &str = include_str!("../../../../../docs/handbook/metadirectory.md");

impl Firm {
    fn new(name: &'static str) -> Option<Firm> {
        let samba = samba()?;
        let (scratch, unit) = (scratch(), unit(samba, name));
        let directory = opened(&config_of(samba, &scratch, &unit));
        Some(Firm { samba, scratch, name, unit, directory })
    }

    /// Writes the staff file. Logins are unique in the domain: each begins with the name of the test.
    fn staff(&self, rows: &[&str]) {
        let mut text = "kind,number,given,surname,login,department,manager,members,status\n".to_string();
        for row in rows {
            let mut cells: Vec<String> = row.split(',').map(String::from).collect();
            cells[4] = self.login(&cells[4]);
            text += &format!("{}\n", cells.join(","));
        }
        self.scratch.file("staff.csv", text);
    }

    fn login(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Imports the staff and exports the changes; returns what the export did.
    fn send(&mut self, rows: &[&str]) -> Did {
        self.staff(rows);
        run(&mut self.directory, STAFF, StepKind::FullImport);
        run(&mut self.directory, STAFF, StepKind::DeltaSynchronization);
        run(&mut self.directory, DIRECTORY, StepKind::Export)
    }

    /// Confirms what was sent, and checks that nothing is left to do.
    fn confirm(&mut self, import: StepKind) {
        let confirmed = run(&mut self.directory, DIRECTORY, import);
        assert!(count(&confirmed, "exported-change-not-reimported") == 0, "{confirmed:?}");
        for kind in [StepKind::DeltaSynchronization, StepKind::FullSynchronization] {
            run(&mut self.directory, DIRECTORY, kind);
            assert_eq!(run(&mut self.directory, DIRECTORY, StepKind::Export), []);
        }
        let again = run(&mut self.directory, DIRECTORY, StepKind::FullImport);
        assert!(again.iter().all(|(what, _)| *what == "stage-no-change"), "{again:?}");
    }

    /// The last password that was delivered for an account.
    fn password(&self, name: &str) -> String {
        let text = self.scratch.text("passwords.jsonl");
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let is_of =
            |line: &serde_json::Value| line["object"].as_str().unwrap().starts_with(&format!("CN={name},"));
        lines.filter(is_of).next_back().unwrap()["value"].as_str().unwrap().to_string()
    }

    /// The users and groups of the unit, each with these attributes.
    fn entries(&self, wanted: &[&str]) -> Vec<String> {
        let mut session = administrator(self.samba);
        let filter = ldap::Filter::parse("(|(objectClass=user)(objectClass=group))").unwrap();
        let request = ldap::message::SearchRequest {
            attributes: List::from(wanted),
            ..ldap::message::SearchRequest::subtree(&self.unit, &filter)
        };
        let mut search = session.search(request, Some(1000)).unwrap();
        let mut all = Vec::new();
        while let Some(found) = search.next().unwrap() {
            let ldap::session::SearchItem::Entry { dn, attributes, .. } = found else { continue };
            let name = |dn: &str| dn.replace(&format!(",{}", self.unit), "");
            let mut line = name(dn);
            for attribute in wanted {
                let values = attributes.iter().filter(|found| found.name.eq_ignore_ascii_case(attribute));
                let mut values: Vec<String> = values
                    .flat_map(|found| found.values)
                    .map(|value| name(&String::from_utf8_lossy(value.0)))
                    .collect();
                values.sort();
                line += &format!(" {attribute}={}", values.join("|"));
            }
            all.push(line);
        }
        all.sort();
        all
    }

    /// Runs another configuration, made from this one.
    fn with(self, change: impl FnOnce(&str) -> String) -> Firm {
        let text = change(&self.text());
        drop(self.directory);
        Firm { directory: opened(&text), ..self }
    }

    fn text(&self) -> String {
        config_of(self.samba, &self.scratch, &self.unit)
    }

    /// The number of members of a group that the metaverse has from the directory.
    fn seen(&mut self, group: &str) -> usize {
        let dn = format!("CN={},{}", self.login(group), self.unit);
        let shown = self.directory.show(DIRECTORY, &dn).unwrap().unwrap().metaverse.unwrap();
        let seen = shown.attributes.iter().find(|attribute| attribute.name == "seen");
        seen.map_or(0, |attribute| attribute.values.len())
    }

    /// Sends changes that fail for one object; returns the reason.
    fn failure(&mut self, rows: &[&str]) -> String {
        self.staff(rows);
        run(&mut self.directory, STAFF, StepKind::FullImport);
        run(&mut self.directory, STAFF, StepKind::DeltaSynchronization);
        let result = try_run(&mut self.directory, DIRECTORY, StepKind::Export).unwrap();
        let [failure] = result.failures.as_slice() else { panic!("{result:?}") };
        failure.text.clone()
    }

    fn can_sign_in(&self, login: &str, password: &str) -> bool {
        connect(self.samba, &format!("{}@ad.example.com", self.login(login)), password).is_ok()
    }
}

/// The configuration of the handbook for this part of the domain, and the rest of a metadirectory.
fn config_of(samba: &Samba, scratch: &Scratch, unit: &str) -> String {
    let place = |name: &str| scratch.join(name).display().to_string();
    let section = HANDBOOK.split("\n### Active Directory\n").nth(1).unwrap();
    let mut directory = section.split("```").nth(1).unwrap().to_string();
    for (shown, here) in [
        ("ldaps://dc1.ad.example.com".to_string(), samba.tls_url()),
        ("ca.pem".into(), samba.ca_file().display().to_string()),
        ("CN=metadir,OU=services,DC=ad,DC=example,DC=com".into(), ADMINISTRATOR_DN.into()),
        ("directory.password".into(), samba.password_file().display().to_string()),
        (format!("OU=people,{DOMAIN_DN}"), unit.to_string()),
        ("passwords.jsonl".into(), place("passwords.jsonl")),
        // What the directory shows of a group.
        ("mv = \"name\" }]".into(), "mv = \"name\" }]\nflow = { seen = \"member\" }".into()),
    ] {
        assert!(directory.contains(&shown), "{shown}");
        directory = directory.replace(&shown, &here);
    }
    CONFIG
        .replace("@STORE@", &place("store.db"))
        .replace("@STAFF@", &place("staff.csv"))
        .replace("@DIRECTORY@", &directory)
}

fn opened(text: &str) -> Metadirectory {
    Metadirectory::open(connectors::parse(text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))).unwrap()
}

fn count(did: &Did, what: &str) -> u64 {
    did.iter().find(|(of, _)| *of == what).map_or(0, |(_, count)| *count)
}

#[test]
fn people_have_accounts_with_passwords_from_their_first_to_their_last_day() {
    let Some(mut firm) = Firm::new("life") else { return };
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let group = "group,s,,,science,,,1|2,active";
    let ada = "person,1,Ada,Lovelace,ada,Science,,,active";
    let did = firm.send(&[ada, "person,2,Alan,Turing,alan,Science,1,,active", group]);
    assert_eq!(did, [("export-add", 3)]);
    firm.confirm(StepKind::DeltaImport);
    let password = firm.password("Ada Lovelace");
    assert!(firm.can_sign_in("ada", &password) && !firm.can_sign_in("ada", "Wrong-42-password"));
    let wanted = ["mail", "manager", "member", "userAccountControl", "userPrincipalName"];
    assert_eq!(
        firm.entries(&wanted),
        [
            "CN=Ada Lovelace mail=life-ada@example.com manager= member= userAccountControl=512 \
             userPrincipalName=life-ada@ad.example.com",
            "CN=Alan Turing mail=life-alan@example.com manager=CN=Ada Lovelace member= userAccountControl=512 \
             userPrincipalName=life-alan@ad.example.com",
            "CN=life-science mail= manager= member=CN=Ada Lovelace|CN=Alan Turing userAccountControl= \
             userPrincipalName=",
        ]
    );

    // A new surname: the server renames the references itself, and the group is not shown as changed.
    let wanted = ["department", "manager", "member", "userAccountControl"];
    let alan = "person,2,Alan,Turing,alan,Art,1,,active";
    let byron = "person,1,Ada,Byron,ada,Science,,,active";
    assert_eq!(count(&firm.send(&[byron, alan, group]), "export-rename"), 1);
    let is_renamed = [
        "CN=Ada Byron department=Science manager= member= userAccountControl=512",
        "CN=Alan Turing department=Art manager=CN=Ada Byron member= userAccountControl=512",
        "CN=life-science department= manager= member=CN=Ada Byron|CN=Alan Turing userAccountControl=",
    ];
    assert_eq!(firm.entries(&wanted), is_renamed);
    firm.confirm(StepKind::DeltaImport);
    assert_eq!(firm.seen("science"), 2);

    // A manager who takes the place of another one, which is the attribute's only value.
    let grace = "person,3,Grace,Hopper,grace,Science,,,active";
    firm.send(&[byron, "person,2,Alan,Turing,alan,Art,3,,active", grace, group]);
    assert!(firm.entries(&["manager"]).contains(&"CN=Alan Turing manager=CN=Grace Hopper".to_string()));
    firm.confirm(StepKind::DeltaImport);
    firm.send(&[byron, alan, group]);
    firm.confirm(StepKind::DeltaImport);

    // She leaves, and comes back to her account and her password.
    let left = byron.replace("active", "left");
    assert_eq!(firm.send(&[&left, alan, group]), [("export-update", 3)]);
    assert!(!firm.can_sign_in("ada", &password));
    let has_left = [
        "CN=Ada Byron department=Science manager= member= userAccountControl=514",
        "CN=Alan Turing department=Art manager= member= userAccountControl=512",
        "CN=Grace Hopper department=Science manager= member= userAccountControl=514",
        "CN=life-science department= manager= member=CN=Alan Turing userAccountControl=",
    ];
    assert_eq!(firm.entries(&wanted), has_left);
    firm.confirm(StepKind::DeltaImport);
    assert_eq!(firm.send(&[byron, alan, group]), [("export-update", 3)]);
    assert!(firm.can_sign_in("ada", &password));
    firm.confirm(StepKind::DeltaImport);
    assert_eq!(firm.seen("science"), 2);

    // An administrator deletes an account: its deletion is imported, and a new account is made with a new password.
    administrator(firm.samba).delete(&format!("CN=Ada Byron,{}", firm.unit)).unwrap();
    assert_eq!(run(&mut firm.directory, DIRECTORY, StepKind::DeltaImport), [("stage-delete", 1)]);
    run(&mut firm.directory, DIRECTORY, StepKind::DeltaSynchronization);
    assert_eq!(count(&run(&mut firm.directory, DIRECTORY, StepKind::Export), "export-add"), 1);
    assert!(!firm.can_sign_in("ada", &password) && firm.can_sign_in("ada", &firm.password("Ada Byron")));
    // A full import shows that the server removed the references to the deleted one.
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    run(&mut firm.directory, DIRECTORY, StepKind::DeltaSynchronization);
    run(&mut firm.directory, DIRECTORY, StepKind::Export);
    firm.confirm(StepKind::DeltaImport);
    assert_eq!(firm.entries(&wanted)[..2], is_renamed[..2]);
    assert_eq!(firm.seen("science"), 2);

    // The group is not needed any more.
    assert_eq!(firm.send(&[byron, alan]), [("export-delete", 1)]);
    firm.confirm(StepKind::DeltaImport);
    assert_eq!(firm.entries(&[]), ["CN=Ada Byron", "CN=Alan Turing", "CN=Grace Hopper"]);
}

#[test]
fn a_password_or_a_login_that_is_refused_costs_one_object() {
    let Some(firm) = Firm::new("refused") else { return };
    firm.scratch.secret("initial", "weak");
    let generate = format!(
        "generate = {{ length = 20, file = \"{}\" }}",
        firm.scratch.join("passwords.jsonl").display()
    );
    let file = format!("value_file = \"{}\"", firm.scratch.join("initial").display());
    let mut firm = firm.with(|text| text.replace(&generate, &file));
    let ada = "person,1,Ada,L,ada,S,,,active";
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let why = firm.failure(&[ada]);
    assert!(why.contains("addRequest of CN=Ada L") && why.contains("0000052D"), "{why}");
    assert!(
        why.ends_with("send one that is longer, has more classes of characters, or was not used before"),
        "{why}"
    );
    firm.scratch.secret("initial", "Much-better-42");
    assert_eq!(run(&mut firm.directory, DIRECTORY, StepKind::Export), [("export-add", 1)]);
    assert!(firm.can_sign_in("ada", "Much-better-42"));
    firm.confirm(StepKind::DeltaImport);

    // The login of an account elsewhere in the domain, of a new object and of an existing one.
    let other = unit(firm.samba, "refused-other");
    let login = firm.login("alan");
    let attributes = [("objectClass", &["user"][..]), ("sAMAccountName", &[login.as_str()])];
    add(&mut administrator(firm.samba), &format!("CN=Other,{other}"), &attributes);
    let why = firm.failure(&[ada, "person,2,Alan,T,alan,S,,,active"]);
    assert!(why.contains("another entry has a value that must be unique, such as `sAMAccountName`"), "{why}");
    let why = firm.failure(&["person,1,Ada,L,alan,S,,,active"]);
    assert!(why.contains("samAccountName 'refused-alan' already in use"), "{why}");
    assert!(
        why.ends_with("another entry has a value that must be unique: change it in one of them"),
        "{why}"
    );
}

#[test]
fn passwords_go_over_tls_only() {
    let Some(firm) = Firm::new("plain") else { return };
    let start_tls =
        |text: &str| text.replace("ldaps://", "ldap://").replace("ca_file", "start_tls = true\nca_file");
    let plain = start_tls(&firm.text()).replace("start_tls = true\n", "").replace("ca_file", "#");
    let mistakes = connectors::parse(&plain).err().unwrap();
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    assert!(mistakes[0].what.contains("without TLS, which Active Directory refuses"), "{mistakes:?}");
    assert_eq!(mistakes[0].help, "write ldaps:// or start_tls = true");
    // Without passwords for accounts too, the server accepts the password of the bind over TLS only.
    let mut firm = firm.with(|_| plain.replace("unicodePwd", "info"));
    let refused = try_run(&mut firm.directory, DIRECTORY, StepKind::FullImport).unwrap_err().to_string();
    assert!(refused.contains("strongerAuthRequired (8)"), "{refused}");
    assert!(refused.ends_with("use LDAPS or StartTLS before binding"), "{refused}");
    let mut firm = firm.with(start_tls);
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    firm.send(&["person,1,Ada,L,ada,S,,,active"]);
    assert!(firm.can_sign_in("ada", &firm.password("Ada L")));
    firm.confirm(StepKind::DeltaImport);
}

fn change_member(firm: &Firm, operation: ldap::ModifyOperation, member: &str) {
    let value = format!("CN={member},{}", firm.unit);
    let value = [Value(value.as_bytes())];
    let attribute = Sent { name: "member", values: List::from(&value) };
    let change = ldap::message::Change { operation, attribute };
    let group = format!("CN={},{}", firm.login("science"), firm.unit);
    administrator(firm.samba).modify(&group, &[change]).unwrap();
}

#[test]
fn members_that_came_or_went_since_the_import_are_no_error() {
    let Some(mut firm) = Firm::new("members") else { return };
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let people: Vec<String> = (1..=4).map(|n| format!("person,{n},P,{n},p{n},S,,,active")).collect();
    let with = |members: &str| {
        let group = format!("group,s,,,science,,,{members},active");
        people.iter().cloned().chain([group]).collect::<Vec<String>>()
    };
    let rows = |members: &str| -> Vec<String> { with(members) };
    let send = |firm: &mut Firm, members: &str| {
        let rows = rows(members);
        firm.send(&rows.iter().map(String::as_str).collect::<Vec<_>>())
    };
    send(&mut firm, "1|2|3");
    firm.confirm(StepKind::DeltaImport);
    change_member(&firm, ldap::ModifyOperation::Add, "P 4");
    change_member(&firm, ldap::ModifyOperation::Delete, "P 1");
    administrator(firm.samba).delete(&format!("CN=P 2,{}", firm.unit)).unwrap();
    // One is a member already, one is none any more, and one does not exist any more.
    assert_eq!(send(&mut firm, "3|4"), [("export-update", 1)]);
    assert!(firm.entries(&["member"]).contains(&"CN=members-science member=CN=P 3|CN=P 4".to_string()));
    // A member that does not exist cannot be added. The next import shows why.
    let rows = rows("2|3");
    let why = firm.failure(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(
        why.contains("`member` refers to CN=P 2,OU=members,") && why.contains("the next import shows"),
        "{why}"
    );
    run(&mut firm.directory, DIRECTORY, StepKind::DeltaImport);
    run(&mut firm.directory, DIRECTORY, StepKind::DeltaSynchronization);
    run(&mut firm.directory, DIRECTORY, StepKind::Export);
    firm.confirm(StepKind::DeltaImport);
    assert!(firm.entries(&["member"]).contains(&"CN=members-science member=CN=P 2|CN=P 3".to_string()));
}

#[test]
fn an_attribute_of_the_name_follows_the_name() {
    let Some(firm) = Firm::new("naming") else { return };
    let flow = "employeeID = \"id\"\ncn = { expression = \"mv.given + ' ' + mv.surname\" }";
    let mut firm = firm.with(|text| {
        text.replace("employeeID = \"id\"", flow).replace("\"objectClass\",", "\"objectClass\", \"cn\",")
    });
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    // Characters that are escaped in names; another name; another spelling of the same name.
    for (given, surname, name) in [
        ("Ada", "B=C +;<D>#", "CN=Ada B\\3DC \\+\\3B\\<D\\>\\# cn=Ada B=C +;<D>#"),
        ("Ada", "Lovelace", "CN=Ada Lovelace cn=Ada Lovelace"),
        ("ADA", "LoveLace", "CN=ADA LoveLace cn=ADA LoveLace"),
    ] {
        firm.send(&[&format!("person,1,{given},{surname},ada,S,,,active")]);
        assert_eq!(firm.entries(&["cn"]), [name]);
        firm.confirm(StepKind::DeltaImport);
    }
}

#[test]
fn existing_accounts_are_joined_by_the_schema_of_the_server() {
    let Some(firm) = Firm::new("joins") else { return };
    let mut session = administrator(firm.samba);
    for (name, login) in [("Old name", "JOINS-ADA"), ("Nobody", "joins-nobody")] {
        let attributes =
            [("objectClass", &["user"][..]), ("sAMAccountName", &[login]), ("description", &["old"])];
        add(&mut session, &format!("CN={name},{}", firm.unit), &attributes);
    }
    // All attributes of the schema are read.
    let all = |text: &str| {
        let (before, rest) = text.split_once("attributes = [\n").unwrap();
        format!("{before}{}", rest.split_once("]\n").unwrap().1)
    };
    let mut firm = firm.with(all);
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let did = firm.send(&["person,1,Ada,L,ada,S,,,active"]);
    assert_eq!(did, [("export-rename", 1)]);
    firm.confirm(StepKind::DeltaImport);
    assert_eq!(
        firm.entries(&["description", "sAMAccountName", "userAccountControl"]),
        [
            "CN=Ada L description=old sAMAccountName=joins-ada userAccountControl=512",
            "CN=Nobody description=old sAMAccountName=joins-nobody userAccountControl=546",
        ]
    );
}

#[test]
fn a_group_of_2000_accounts_is_read_page_by_page() {
    let Some(firm) = Firm::new("large") else { return };
    // Samba takes 25 ms for each password.
    let mut firm = firm.with(|text| {
        let without =
            text.lines().filter(|line| !line.contains("write_only") && !line.starts_with("unicodePwd"));
        let without =
            without.collect::<Vec<_>>().join("\n").replace("constant = \"512\"", "constant = \"514\"");
        without.replace("delta = \"usn\"", "delta = \"usn\"\npage_size = 150")
    });
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let members: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    let mut rows: Vec<String> = (0..2000).map(|n| format!("person,{n},P,{n},{n},S,,,active")).collect();
    rows.push(format!("group,s,,,science,,,{},active", members.join("|")));
    let did = firm.send(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(did, [("export-add", 2001)]);
    firm.confirm(StepKind::DeltaImport);
    assert_eq!(firm.seen("science"), 2000);
}

#[test]
fn what_refers_to_an_account_that_was_renamed_outside_is_imported_again() {
    let Some(mut firm) = Firm::new("outside") else { return };
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let people = ["person,1,Ada,L,ada,S,,,active", "person,2,Alan,T,alan,S,1,,active"];
    firm.send(&[people[0], people[1], "group,s,,,science,,,1|2,active"]);
    firm.confirm(StepKind::DeltaImport);
    let (now, below) = (format!("CN=Ada L,{}", firm.unit), format!("OU=below,{}", firm.unit));
    add(&mut administrator(firm.samba), &below, &[("objectClass", &["organizationalUnit"])]);
    // A new name, and a move.
    for (rdn, above) in [("CN=Ada X", None), ("CN=Ada L", Some(below.as_str()))] {
        administrator(firm.samba).rename(&now, rdn, above).unwrap();
        let did = run(&mut firm.directory, DIRECTORY, StepKind::DeltaImport);
        assert_eq!(did, [("stage-rename", 1), ("stage-update", 2)], "{rdn}");
        run(&mut firm.directory, DIRECTORY, StepKind::DeltaSynchronization);
        assert_eq!(firm.seen("science"), 2);
        // The rules name her as before.
        assert_eq!(count(&run(&mut firm.directory, DIRECTORY, StepKind::Export), "export-rename"), 1);
        firm.confirm(StepKind::DeltaImport);
        assert_eq!(firm.seen("science"), 2);
    }
    // The unit in which she is gets another name.
    administrator(firm.samba).rename(&now, "CN=Ada L", Some(&below)).unwrap();
    run(&mut firm.directory, DIRECTORY, StepKind::DeltaImport);
    administrator(firm.samba).rename(&below, "OU=above", None).unwrap();
    let did = run(&mut firm.directory, DIRECTORY, StepKind::DeltaImport);
    assert_eq!(did, [("stage-rename", 1), ("stage-update", 2)]);
    run(&mut firm.directory, DIRECTORY, StepKind::DeltaSynchronization);
    assert_eq!(firm.seen("science"), 2);
    assert_eq!(count(&run(&mut firm.directory, DIRECTORY, StepKind::Export), "export-rename"), 1);
    firm.confirm(StepKind::DeltaImport);
    // Other changes do not lead to the groups.
    let did = firm.send(&["person,1,Ada,L,ada,Art,,,active", people[1], "group,s,,,science,,,1|2,active"]);
    assert_eq!(did, [("export-update", 1)]);
    assert_eq!(
        run(&mut firm.directory, DIRECTORY, StepKind::DeltaImport),
        [("confirmed", 1), ("stage-update", 1)]
    );
}

#[test]
fn a_leaver_whose_account_is_deleted_leaves_the_login_to_somebody_else() {
    let Some(firm) = Firm::new("delete") else { return };
    let mut firm = firm.with(|text| {
        let disable = "{ disable = { userAccountControl = \"514\" }, delete_after = \"90d\" }";
        let text = text
            .replace(disable, "\"delete\"")
            .replace("\"userAccountControl\",\n", "\"userAccountControl\", \"pwdLastSet\",\n");
        // The first password has to be changed.
        text.replace(
            "[outbound.write_only]",
            "[outbound.initial]\npwdLastSet = { constant = \"0\" }\n[outbound.write_only]",
        )
    });
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    firm.send(&["person,1,Ada,L,ada,S,,,active", "person,2,Alan,T,alan,S,1,,active"]);
    let name = format!("CN=Ada L,{}", firm.unit);
    let refused = connect(firm.samba, &name, &firm.password("Ada L")).unwrap_err().to_string();
    assert!(refused.contains("data 773"), "{refused}");
    firm.confirm(StepKind::DeltaImport);

    let alan = "person,2,Alan,T,alan,S,,,active";
    let rows = ["person,1,Ada,L,ada,S,,,left", alan, "person,3,Ada,M,ada,S,2,,active"];
    // An export adds before it deletes. The next one finds the login unused.
    let why = firm.failure(&rows);
    assert!(why.starts_with("CN=Ada M,") && why.contains("such as `sAMAccountName`"), "{why}");
    assert_eq!(run(&mut firm.directory, DIRECTORY, StepKind::Export), [("export-add", 1)]);
    firm.confirm(StepKind::DeltaImport);
    assert_eq!(firm.entries(&["manager"]), ["CN=Ada M manager=CN=Alan T", "CN=Alan T manager="]);
}

#[test]
fn accounts_exchange_their_names_but_not_their_logins() {
    let Some(mut firm) = Firm::new("exchange") else { return };
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let group = "group,s,,,science,,,1,active";
    firm.send(&["person,1,Ada,L,ada,S,,,active", "person,2,Alan,T,alan,S,1,,active", group]);
    firm.confirm(StepKind::DeltaImport);
    let did = firm.send(&["person,1,Alan,T,ada,S,,,active", "person,2,Ada,L,alan,S,1,,active", group]);
    assert_eq!((count(&did, "export-rename"), count(&did, "export-temporary-name")), (2, 1), "{did:?}");
    assert_eq!(
        firm.entries(&["employeeID", "manager", "member"]),
        [
            "CN=Ada L employeeID=2 manager=CN=Alan T member=",
            "CN=Alan T employeeID=1 manager= member=",
            "CN=exchange-science employeeID= manager= member=CN=Alan T",
        ]
    );
    firm.confirm(StepKind::DeltaImport);
    firm.staff(&["person,1,Alan,T,alan,S,,,active", "person,2,Ada,L,ada,S,1,,active", group]);
    run(&mut firm.directory, STAFF, StepKind::FullImport);
    run(&mut firm.directory, STAFF, StepKind::DeltaSynchronization);
    let result = try_run(&mut firm.directory, DIRECTORY, StepKind::Export).unwrap();
    let is_explained = |failure: &ObjectError| failure.text.ends_with("change it in one of them");
    assert!(result.failures.len() == 2 && result.failures.iter().all(is_explained), "{result:?}");
}

#[test]
fn an_export_whose_answers_were_lost_is_repeated() {
    let Some(mut firm) = Firm::new("lost") else { return };
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let group = |members: &str| format!("group,s,,,science,,,{members},active");
    for (ada, alan, members, name) in [
        ("person,1,Ada,L,ada,S,,,active", "person,2,Alan,T,alan,S,1,,active", "1|2", "Ada L"),
        ("person,1,Ada,M,ada,Art,,,active", "person,2,Alan,T,alan,Art,1,,left", "1", "Ada M"),
    ] {
        firm.staff(&[ada, alan, &group(members)]);
        run(&mut firm.directory, STAFF, StepKind::FullImport);
        run(&mut firm.directory, STAFF, StepKind::DeltaSynchronization);
        let (text, store) = (firm.text(), firm.scratch.join("store.db"));
        drop(firm.directory);
        let before = std::fs::read(&store).unwrap();
        firm.directory = opened(&text);
        let first = run(&mut firm.directory, DIRECTORY, StepKind::Export);
        let entries = firm.entries(&["userAccountControl", "manager", "member"]);
        assert_eq!(
            entries.iter().filter(|entry| entry.starts_with(&format!("CN={name} "))).count(),
            1,
            "{entries:?}"
        );
        // The store loses what the export recorded.
        drop(firm.directory);
        std::fs::write(&store, before).unwrap();
        firm.directory = opened(&text);
        assert_eq!(run(&mut firm.directory, DIRECTORY, StepKind::Export), first);
        assert_eq!(firm.entries(&["userAccountControl", "manager", "member"]), entries);
        firm.confirm(StepKind::DeltaImport);
        // The last password that was delivered is valid.
        assert!(firm.can_sign_in("ada", &firm.password("Ada L")));
    }
}
