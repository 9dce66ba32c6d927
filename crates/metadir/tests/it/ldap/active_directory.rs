//! Tests with a domain controller of Active Directory: Samba.

use ldap::message::{Attribute as Sent, List, Value};
use ldap::session::Trust;
use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::Metadirectory;
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

/// The connection as administrator with TLS.
fn connection(samba: &Samba) -> String {
    format!(
        "type = \"ldap\"\nurl = \"{}\"\nca_file = \"{}\"\nbind_dn = \"{ADMINISTRATOR_DN}\"\npassword_file = \"{}\"\n",
        samba.tls_url(),
        samba.ca_file().display(),
        samba.password_file().display()
    )
}

/// A staff file and the part of the domain that follows it.
struct Firm {
    samba: &'static Samba,
    scratch: Scratch,
    unit: String,
    directory: Metadirectory,
}

const CONFIG: &str = include_str!("active_directory.toml");

impl Firm {
    fn new(name: &str) -> Option<Firm> {
        let samba = samba()?;
        let (scratch, unit) = (scratch(), unit(samba, name));
        let directory = opened(&config_of(samba, &scratch, &unit));
        Some(Firm { samba, scratch, unit, directory })
    }

    fn staff(&self, rows: &[&str]) {
        let header = "kind,number,given,surname,login,department,manager,members,status";
        self.scratch.file("staff.csv", format!("{header}\n{}\n", rows.join("\n")));
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
        lines.filter(is_of).last().unwrap()["value"].as_str().unwrap().to_string()
    }

    fn can_sign_in(&self, login: &str, password: &str) -> bool {
        connect(self.samba, &format!("{login}@ad.example.com"), password).is_ok()
    }
}

fn config_of(samba: &Samba, scratch: &Scratch, unit: &str) -> String {
    let settings = [
        ("STORE", scratch.join("store.db").display().to_string()),
        ("STAFF", scratch.join("staff.csv").display().to_string()),
        ("PASSWORDS", scratch.join("passwords.jsonl").display().to_string()),
        ("CONNECTION", connection(samba)),
        ("UNIT", unit.to_string()),
    ];
    settings
        .into_iter()
        .fold(CONFIG.to_string(), |text, (name, value)| text.replace(&format!("@{name}@"), &value))
}

fn opened(text: &str) -> Metadirectory {
    Metadirectory::open(connectors::parse(text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))).unwrap()
}

fn count(did: &Did, what: &str) -> u64 {
    did.iter().find(|(of, _)| *of == what).map_or(0, |(_, count)| *count)
}

#[test]
fn people_get_accounts_with_passwords() {
    let Some(mut firm) = Firm::new("people") else { return };
    run(&mut firm.directory, DIRECTORY, StepKind::FullImport);
    let did = firm.send(&[
        "person,1,Ada,Lovelace,ada,Science,,,active",
        "person,2,Alan,Turing,alan,Science,1,,active",
        "group,s,science,,,,,1|2,active",
    ]);
    println!("{did:?}");
    firm.confirm(StepKind::DeltaImport);
    let password = firm.password("Ada Lovelace");
    assert!(firm.can_sign_in("ada", &password));
    assert!(!firm.can_sign_in("ada", "wrong"));
}
