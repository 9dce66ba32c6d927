//! Accounts with passwords, from the first to the last day of a person.

use super::*;

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
fn an_account_that_was_made_meanwhile_is_adopted_with_its_password() {
    let Some(firm) = Firm::new("adopt") else { return };
    let mut firm = firm.with(|text| text.replace("delta = \"usn\"", "delta = \"usn\"\nexisting = \"adopt\""));
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let ada = format!("CN=Ada L,{}", firm.unit);
    add_user(
        &firm,
        &ada,
        &[("employeeID", "1"), ("sAMAccountName", "adopt-a"), ("info", "kept")],
        "By-hand-1",
    );
    let group = "group,s,,,science,,,1|2,active";
    let did = firm.send(&["person,1,Ada,L,ada,S,2,,active", "person,2,Alan,T,alan,S,,,active", group]);
    assert_eq!(did, [("export-add", 3)]);
    assert!(firm.can_sign_in("ada", "By-hand-1"));
    firm.confirm(StepKind::DeltaImport);
    assert_eq!(
        firm.entries(&["info", "manager"])[..2],
        ["CN=Ada L info=kept manager=CN=Alan T", "CN=Alan T info= manager="]
    );
}
