//! Tests with a domain controller of Active Directory: Samba.

mod accounts;
mod changes;
mod imports;

use ldap::message::{Attribute as Sent, List, Value};
use ldap::session::Trust;
use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::store::ObjectError;
use testkit::Samba;
use testkit::samba::{ADMINISTRATOR_DN, ADMINISTRATOR_PASSWORD, DOMAIN_DN};

use super::*;
use crate::steps::{Did, run, try_run};

// Indexes of the agents, which are sorted by name.
const DIRECTORY: usize = 0;
const STAFF: usize = 1;

/// The domain controller; `None` if the test is recorded as skipped.
fn samba() -> Option<&'static Samba> {
    Samba::of_process()
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

/// Adds an enabled account with a password.
fn add_user(firm: &Firm, dn: &str, attributes: &[(&str, &str)], password: &str) {
    let password: Vec<u8> = format!("\"{password}\"").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let password = [Value(&password)];
    let fixed = [("objectClass", "user"), ("userAccountControl", "512")];
    let texts: Vec<(&str, [Value<'_>; 1])> =
        fixed.iter().chain(attributes).map(|(name, text)| (*name, [Value(text.as_bytes())])).collect();
    let mut listed: Vec<Sent<'_>> =
        texts.iter().map(|(name, values)| Sent { name, values: List::from(values) }).collect();
    listed.push(Sent { name: "unicodePwd", values: List::from(&password) });
    administrator(firm.samba).add(dn, &listed).unwrap();
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

const CONFIG: &str = include_str!("config.toml");
const HANDBOOK: &str = include_str!("../../../../../../docs/handbook/metadirectory.md");

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
        let mut lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let is_of =
            |line: &serde_json::Value| line["object"].as_str().unwrap().starts_with(&format!("CN={name},"));
        lines.rfind(is_of).unwrap()["value"].as_str().unwrap().to_string()
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
