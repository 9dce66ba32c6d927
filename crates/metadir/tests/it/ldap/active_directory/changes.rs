//! Changes that Active Directory answers in its own way: members, names, logins, repeated requests.

use plimsoll_metadir::agent::{ChangedValues, ExportedObject};
use plimsoll_metadir::hologram::Hologram;
use plimsoll_metadir::object::Change;

use super::*;

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

#[test]
fn the_only_value_of_an_attribute_is_replaced_beside_one_that_is_gone() {
    let Some(samba) = samba() else { return };
    let (unit, mut session) = (unit(samba, "single"), administrator(samba));
    let dn = |name: &str| format!("CN={name},{unit}");
    let ada = dn("Ada");
    let manager: (&str, &[&str]) = ("manager", &[&ada]);
    for (name, others) in [("Ada", &[][..]), ("Grace", &[]), ("Alan", &[manager])] {
        let class: (&str, &[&str]) = ("objectClass", &["user"]);
        add(&mut session, &dn(name), &[&[class], others].concat());
    }
    let keys = format!(
        "type = \"ldap\"\nurl = \"{}\"\nca_file = \"{}\"\nbind_dn = \"{ADMINISTRATOR_DN}\"\npassword_file = \"{}\"\n\
         base = \"{unit}\"\nattributes = \"cn\"\nanchor = \"objectGUID\"\nreferences = [\"manager\", \"secretary\"]\n",
        samba.tls_url(),
        samba.ca_file().display(),
        samba.password_file().display()
    );
    let mut open = open(&keys);
    let changed = |name: &str, added: &[&str], removed: &[&str]| ChangedValues {
        attribute: open.names.attribute(name).unwrap(),
        added: added.iter().map(|name| dn(name).into_bytes()).collect(),
        removed: removed.iter().map(|name| dn(name).into_bytes()).collect(),
    };
    let change = ExportedObject {
        change: Change::Update,
        anchor: None,
        dn: dn("Alan"),
        new_dn: None,
        image: Hologram::default(),
        attributes: Vec::new(),
        changed_values: vec![
            changed("secretary", &[], &["Nobody"]),
            changed("manager", &["Grace"], &["Ada"]),
        ],
        adopts: true,
        written: Vec::new(),
    };
    assert_eq!(open.agent.export(&[change]).unwrap(), [Ok(())]);
    let (all, _) = open.full();
    assert_eq!(open.texts(named(&all, "CN=Alan"), "manager"), [dn("Grace")]);
}
