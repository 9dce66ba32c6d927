//! Imports: joins, large groups, names that were changed outside, deleted objects.

use super::*;

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
fn an_account_that_does_not_see_deletions_makes_no_delta_import() {
    let Some(firm) = Firm::new("reader") else { return };
    // An account without special rights.
    let name = format!("CN=reader,{}", firm.unit);
    add_user(&firm, &name, &[("sAMAccountName", "reader")], "Reader-of-tests-1");
    let file = firm.scratch.secret("reader", "Reader-of-tests-1").display().to_string();
    let of_administrator = firm.samba.password_file().display().to_string();
    let mut firm = firm.with(|text| {
        text.replace(ADMINISTRATOR_DN, "reader@ad.example.com").replace(&of_administrator, &file)
    });
    let other = format!("CN=Other,{}", firm.unit);
    add(
        &mut administrator(firm.samba),
        &other,
        &[("objectClass", &["user"]), ("sAMAccountName", &["reader-other"])],
    );
    assert_eq!(run(&mut firm.directory, DIRECTORY, StepKind::FullImport), [("stage-add", 2)]);
    administrator(firm.samba).delete(&other).unwrap();
    let refused = try_run(&mut firm.directory, DIRECTORY, StepKind::DeltaImport).unwrap_err().to_string();
    let expected = "this account does not see CN=Deleted Objects,DC=ad,DC=example,DC=com, so that a delta import would \
                    miss deletions: give it the rights to list that container and to read its properties";
    assert!(refused.contains(expected), "{refused}");
    let did = run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    assert_eq!(did, [("stage-delete", 1), ("stage-no-change", 1)]);
}
