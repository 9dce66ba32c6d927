//! A configuration that changes while the store is filled.

use std::fs;

use plimsoll_metadir::config::{Config, StepKind};
use plimsoll_metadir::metadirectory::{ConfigurationChange, Metadirectory};
use plimsoll_metadir::stage::StepError;

use crate::place::{Place, over_both_stores};
use crate::steps::{Did, run, table, try_run};

over_both_stores! {
    a_changed_flow_waits_for_a_full_synchronization,
    values_are_kept_where_the_agent_does_not_recall_them,
    a_new_join_rule_finds_what_is_there,
    an_agent_that_is_gone_stops_everything_until_it_is_removed,
    removing_an_agent_continues_after_an_interrupt,
    an_agent_that_comes_back_needs_full_synchronizations,
    a_renamed_agent_keeps_its_objects,
    a_renamed_type_keeps_its_objects,
    a_renamed_attribute_sends_nothing,
    a_changed_anchor_identifies_the_same_objects,
    an_anchor_that_does_not_identify_is_refused,
    what_was_provisioned_stays_where_its_rules_are_gone,
    a_pending_value_without_a_flow_is_not_sent,
    a_type_without_rules_ends,
    a_preview_of_changed_rules_changes_nothing,
}

const CONFIG: &str = r#"
[metaverse.person]
attributes = { id = "text", name = "text", mail = "text", phone = "text" }
deleted_with = "hr"

[agents.accounts]
type = "delimited"
path = "FOLDER/accounts.csv"
anchor = "login"

[agents.hr]
type = "delimited"
path = "FOLDER/hr.csv"
anchor = "id"

[agents.phones]
type = "delimited"
path = "FOLDER/phones.csv"
anchor = "line"

[[inbound]]
agent = "hr"
to = "person"
join = [{ cs = "id", mv = "id" }]
project = true
flow = { id = "id", name = "name", mail = "mail" }

[[inbound]]
agent = "accounts"
to = "person"
join = [{ cs = "login", mv = "id" }]

[[inbound]]
agent = "phones"
to = "person"
join = [{ cs = "owner", mv = "id" }]
flow = { phone = "line" }

[[outbound]]
agent = "accounts"
from = "person"
dn = "mv.id"
deprovision = "delete"
flow = { login = "id", name = "name", mail = "mail", phone = "phone" }

[safety]
import = { least_share = 0.0 }
synchronization = { deletes = 100, delete_share = 1.0 }
export = { deletes = 100, delete_share = 1.0 }
"#;

const PHONES: &str = r#"
[agents.phones]
type = "delimited"
path = "FOLDER/phones.csv"
anchor = "line"
"#;

const PHONES_RULES: &str = r#"
[[inbound]]
agent = "phones"
to = "person"
join = [{ cs = "owner", mv = "id" }]
flow = { phone = "line" }
"#;

/// Two people with accounts and phones, synchronized and confirmed.
struct Firm {
    place: Place,
    config: String,
}

const ADA: &str = "login=p1 mail=ada@plim.example name=Ada phone=+41";
const ALAN: &str = "login=p2 mail=alan@plim.example name=Alan";
const ACCOUNTS: &str = "accounts";

impl Firm {
    fn new(place: Place) -> Firm {
        let folder = place.scratch.path().display().to_string();
        let store = format!("[store]\n{}\ndurability = \"off\"\ncommit_objects = 1\n", place.keys());
        let firm = Firm { config: store + &CONFIG.replace("FOLDER", &folder), place };
        firm.write("accounts.csv", "login,name,mail,phone\n");
        firm.write(
            "hr.csv",
            "id,number,name,mail\np1,901,Ada,ada@plim.example\np2,902,Alan,alan@plim.example\n",
        );
        firm.write("phones.csv", "line,owner,mail\n+41,p1,x@plim.example\n+42,,Alan@plim.example\n");
        let mut directory = firm.open();
        for agent in ["hr", "phones", ACCOUNTS] {
            firm.run(&mut directory, agent, StepKind::FullImport);
        }
        for agent in ["hr", "phones"] {
            firm.run(&mut directory, agent, StepKind::DeltaSynchronization);
        }
        firm.export(&mut directory);
        assert_eq!(firm.accounts(), [ADA, ALAN]);
        drop(directory);
        firm
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.place.scratch.join(file), text).unwrap();
    }

    /// Changes the configuration.
    fn edit(&mut self, from: &str, to: &str) {
        let folder = self.place.scratch.path().display().to_string();
        let from = from.replace("FOLDER", &folder);
        assert!(self.config.contains(&from), "{from}");
        self.config = self.config.replace(&from, &to.replace("FOLDER", &folder));
    }

    fn config(&self) -> Config {
        connectors::parse(&self.config).unwrap_or_else(|wrong| panic!("{wrong:?}"))
    }

    fn open(&self) -> Metadirectory {
        Metadirectory::open(self.config()).unwrap()
    }

    fn at(&self, agent: &str) -> usize {
        self.config().agents.iter().position(|known| known.name == agent).unwrap()
    }

    fn run(&self, directory: &mut Metadirectory, agent: &str, kind: StepKind) -> Did {
        run(directory, self.at(agent), kind)
    }

    fn full(&self, directory: &mut Metadirectory) -> Did {
        let agents = self.config().agents;
        let each = (0..agents.len()).flat_map(|at| run(directory, at, StepKind::FullSynchronization));
        each.filter(|(what, _)| *what != "connector-no-flow").collect()
    }

    fn refused(&self, directory: &mut Metadirectory, agent: &str, kind: StepKind) -> String {
        match try_run(directory, self.at(agent), kind) {
            Err(StepError::RulesChanged(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    fn export(&self, directory: &mut Metadirectory) -> Did {
        let did = self.run(directory, ACCOUNTS, StepKind::Export);
        self.run(directory, ACCOUNTS, StepKind::FullImport);
        self.run(directory, ACCOUNTS, StepKind::DeltaSynchronization);
        did
    }

    fn accounts(&self) -> Vec<String> {
        table(&self.place.scratch.join("accounts.csv"))
    }
}

fn a_changed_flow_waits_for_a_full_synchronization(place: Place) {
    let mut firm = Firm::new(place);
    firm.edit("flow = { phone = \"line\" }", "");
    let mut directory = firm.open();
    let changes = directory.configuration_changes().unwrap();
    let [ConfigurationChange::Rules { agent, what }] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(agent, "phones");
    assert_eq!(
        what.as_slice(),
        ["`phone` of person does not come from phones any more: its values are removed"]
    );
    let why = firm.refused(&mut directory, "phones", StepKind::DeltaSynchronization);
    assert!(why.ends_with("run `phones full-synchronization` first"), "{why}");
    // Nothing half-changed leaves the house.
    let why = firm.refused(&mut directory, ACCOUNTS, StepKind::Export);
    assert!(why.contains("the rules of phones changed"), "{why}");
    // Another agent's rules are as they were.
    firm.run(&mut directory, "hr", StepKind::DeltaSynchronization);
    firm.run(&mut directory, "phones", StepKind::FullSynchronization);
    assert_eq!(directory.configuration_changes().unwrap(), []);
    assert_eq!(firm.export(&mut directory), [("export-update", 1)]);
    assert_eq!(firm.accounts(), [ADA.replace(" phone=+41", "").as_str(), ALAN]);
    firm.run(&mut directory, "phones", StepKind::DeltaSynchronization);
}

fn values_are_kept_where_the_agent_does_not_recall_them(place: Place) {
    let mut firm = Firm::new(place);
    firm.edit("anchor = \"line\"", "anchor = \"line\"\nrecall = false");
    // The object leaves.
    firm.write("phones.csv", "line,owner,mail\n+42,,Alan@plim.example\n");
    let mut directory = firm.open();
    firm.run(&mut directory, "phones", StepKind::FullImport);
    firm.run(&mut directory, "phones", StepKind::DeltaSynchronization);
    firm.run(&mut directory, "hr", StepKind::FullSynchronization);
    assert_eq!(firm.export(&mut directory), []);
    assert_eq!(firm.accounts(), [ADA, ALAN]);
    // Another object gives another value.
    firm.write("phones.csv", "line,owner,mail\n+43,p1,\n+42,,Alan@plim.example\n");
    firm.run(&mut directory, "phones", StepKind::FullImport);
    firm.run(&mut directory, "phones", StepKind::DeltaSynchronization);
    assert_eq!(firm.export(&mut directory), [("export-update", 1)]);
    assert_eq!(firm.accounts()[0], ADA.replace("+41", "+43"));
    // A connected object that loses its value is no recall.
    drop(directory);
    firm.edit("flow = { phone = \"line\" }", "flow = { phone = \"mail\" }");
    let mut directory = firm.open();
    firm.full(&mut directory);
    assert_eq!(firm.export(&mut directory), [("export-update", 1)]);
    assert_eq!(firm.accounts()[0], ADA.replace(" phone=+41", ""));
}

fn a_new_join_rule_finds_what_is_there(place: Place) {
    let mut firm = Firm::new(place);
    let joined = "join = [{ cs = \"owner\", mv = \"id\" }";
    firm.edit(joined, &format!("{joined}, {{ cs = \"mail\", mv = \"mail\", ignore_case = true }}"));
    let mut directory = firm.open();
    firm.refused(&mut directory, "phones", StepKind::DeltaSynchronization);
    let did = firm.run(&mut directory, "phones", StepKind::FullSynchronization);
    assert!(did.contains(&("disconnector-joined", 1)), "{did:?}");
    firm.export(&mut directory);
    let alan = "login=p2 mail=alan@plim.example name=Alan phone=+42";
    assert_eq!(firm.accounts(), [ADA, alan]);
    drop(directory);
    // The rule goes and comes back; the mail changed meanwhile, and the old key finds nobody.
    firm.edit(", { cs = \"mail\", mv = \"mail\", ignore_case = true }", "");
    firm.write(
        "hr.csv",
        "id,number,name,mail\np1,901,Ada,ada@plim.example\np2,902,Alan,turing@plim.example\n",
    );
    let mut directory = firm.open();
    firm.run(&mut directory, "hr", StepKind::FullImport);
    firm.run(&mut directory, "hr", StepKind::FullSynchronization);
    drop(directory);
    firm.edit(joined, &format!("{joined}, {{ cs = \"mail\", mv = \"mail\", ignore_case = true }}"));
    firm.write("phones.csv", "line,owner,mail\n+41,p1,\n+44,,ALAN@plim.example\n+45,,Turing@plim.example\n");
    let mut directory = firm.open();
    firm.run(&mut directory, "phones", StepKind::FullImport);
    let did = firm.run(&mut directory, "phones", StepKind::FullSynchronization);
    assert!(did.contains(&("disconnector-remains", 1)), "{did:?}");
    firm.export(&mut directory);
    assert_eq!(firm.accounts()[1], alan.replace("+42", "+45").replace("alan@", "turing@"));
}

fn an_agent_that_is_gone_stops_everything_until_it_is_removed(place: Place) {
    let mut firm = Firm::new(place);
    for part in [PHONES, PHONES_RULES] {
        firm.edit(part, "");
    }
    firm.edit(", phone = \"phone\"", "");
    let mut directory = firm.open();
    let changes = directory.configuration_changes().unwrap();
    let gone = ConfigurationChange::AgentGone { agent: "phones".into(), objects: 2 };
    assert!(changes.contains(&gone), "{changes:?}");
    for (agent, kind) in [
        ("hr", StepKind::DeltaSynchronization),
        ("hr", StepKind::FullSynchronization),
        (ACCOUNTS, StepKind::Export),
    ] {
        let why = firm.refused(&mut directory, agent, kind);
        assert!(
            why.contains("the store has 2 objects of agent phones, which is not in the configuration"),
            "{why}"
        );
    }
    let why = directory.remove_agent("hr", false, &mut |_| true).unwrap_err().to_string();
    assert_eq!(why, "hr is in the configuration: remove [agents.hr] and its rules first");
    let why = directory.remove_agent("nobody", false, &mut |_| true).unwrap_err().to_string();
    assert_eq!(why, "the store has no agent nobody");
    let record = directory.remove_agent("phones", false, &mut |_| true).unwrap();
    assert!(record.counters.contains(&("removed-objects".into(), 2)), "{record:?}");
    firm.full(&mut directory);
    assert_eq!(directory.configuration_changes().unwrap(), []);
    // The flow to the accounts is gone: the values there stay.
    assert_eq!(firm.export(&mut directory), []);
    assert_eq!(firm.accounts(), [ADA, ALAN]);
    assert_eq!(directory.status().unwrap().0.len(), 2);
}

fn removing_an_agent_continues_after_an_interrupt(place: Place) {
    for keeps in [true, false] {
        let mut firm = Firm::new(place.another());
        firm.write("phones.csv", "line,owner,mail\n+41,p1,\n+42,p2,\n+43,,\n");
        let mut directory = firm.open();
        firm.run(&mut directory, "phones", StepKind::FullImport);
        firm.run(&mut directory, "phones", StepKind::FullSynchronization);
        firm.export(&mut directory);
        drop(directory);
        for part in [PHONES, PHONES_RULES] {
            firm.edit(part, "");
        }
        for interrupts in [1, 2] {
            let mut left = interrupts;
            let mut go_on = |_| {
                left -= 1;
                left > 0
            };
            match firm.open().remove_agent("phones", keeps, &mut go_on) {
                Err(StepError::Interrupted) => {}
                other => panic!("{other:?}"),
            }
            firm.refused(&mut firm.open(), "hr", StepKind::DeltaSynchronization);
        }
        let mut directory = firm.open();
        directory.remove_agent("phones", keeps, &mut |_| true).unwrap();
        firm.full(&mut directory);
        firm.export(&mut directory);
        let phones = firm.accounts().iter().filter(|line| line.contains("phone=")).count();
        assert_eq!(phones, if keeps { 2 } else { 0 });
    }
}

fn an_agent_that_comes_back_needs_full_synchronizations(place: Place) {
    let mut firm = Firm::new(place);
    let before = firm.config.clone();
    for part in [PHONES, PHONES_RULES] {
        firm.edit(part, "");
    }
    firm.edit(", phone = \"phone\"", "");
    firm.open().remove_agent("phones", false, &mut |_| true).unwrap();
    firm.config = before;
    firm.write("phones.csv", "line,owner,mail\n");
    let mut directory = firm.open();
    // The rules are as at the last full synchronization, but not all objects were synchronized with them.
    let why = firm.refused(&mut directory, "hr", StepKind::DeltaSynchronization);
    assert!(
        why.contains("some objects were synchronized with other rules than those of hr meanwhile"),
        "{why}"
    );
    firm.run(&mut directory, "phones", StepKind::FullImport);
    firm.full(&mut directory);
    firm.export(&mut directory);
    assert_eq!(firm.accounts(), [ADA.replace(" phone=+41", "").as_str(), ALAN]);
}

fn a_renamed_agent_keeps_its_objects(place: Place) {
    let mut firm = Firm::new(place);
    firm.edit("[agents.phones]", "[agents.telephones]");
    firm.edit("agent = \"phones\"", "agent = \"telephones\"");
    firm.refused(&mut firm.open(), "telephones", StepKind::DeltaSynchronization);
    let rename = |from, to| Metadirectory::rename_agent(&firm.config(), from, to);
    assert_eq!(
        rename("phones", "nobody").unwrap_err().to_string(),
        "the configuration has no agent nobody: rename phones there first"
    );
    assert_eq!(
        rename("hr", "telephones").unwrap_err().to_string(),
        "agent hr is in the configuration: rename it there first"
    );
    assert_eq!(rename("fax", "telephones").unwrap_err().to_string(), "the store has no agent fax");
    rename("phones", "telephones").unwrap();
    let mut directory = firm.open();
    assert_eq!(directory.configuration_changes().unwrap(), []);
    assert_eq!(firm.run(&mut directory, "telephones", StepKind::FullImport), [("stage-no-change", 2)]);
    firm.run(&mut directory, "telephones", StepKind::DeltaSynchronization);
    assert_eq!(firm.export(&mut directory), []);
}

fn a_renamed_type_keeps_its_objects(place: Place) {
    let mut firm = Firm::new(place);
    firm.edit("metaverse.person", "metaverse.human");
    firm.edit("\"person\"", "\"human\"");
    Metadirectory::rename_type(&firm.config(), "person", "human").unwrap();
    let mut directory = firm.open();
    assert_eq!(firm.full(&mut directory), [("disconnector-remains", 1)]);
    assert_eq!(firm.export(&mut directory), []);
    // Its join keys have another name, and are built.
    firm.write("phones.csv", "line,owner,mail\n+41,p1,\n+42,p2,\n");
    firm.run(&mut directory, "phones", StepKind::FullImport);
    let did = firm.run(&mut directory, "phones", StepKind::DeltaSynchronization);
    assert!(did.contains(&("disconnector-joined", 1)), "{did:?}");
    drop(directory);
    let why = Metadirectory::rename_type(&firm.config(), "person", "human").unwrap_err().to_string();
    assert_eq!(why, "the store has no type person");
}

fn a_renamed_attribute_sends_nothing(place: Place) {
    let mut firm = Firm::new(place);
    firm.edit("phone = \"text\"", "extension = \"text\"");
    firm.edit("flow = { phone = \"line\" }", "flow = { extension = \"line\" }");
    firm.edit("phone = \"phone\"", "phone = \"extension\"");
    let mut directory = firm.open();
    firm.run(&mut directory, "hr", StepKind::FullSynchronization);
    // The new attribute has no values yet.
    firm.refused(&mut directory, ACCOUNTS, StepKind::Export);
    firm.run(&mut directory, "phones", StepKind::FullSynchronization);
    firm.run(&mut directory, ACCOUNTS, StepKind::FullSynchronization);
    assert_eq!(firm.export(&mut directory), []);
    assert_eq!(firm.accounts(), [ADA, ALAN]);
}

fn a_changed_anchor_identifies_the_same_objects(place: Place) {
    let mut firm = Firm::new(place);
    firm.edit("path = \"FOLDER/hr.csv\"\nanchor = \"id\"", "path = \"FOLDER/hr.csv\"\nanchor = \"number\"");
    let mut directory = firm.open();
    assert_eq!(
        directory.configuration_changes().unwrap(),
        [ConfigurationChange::Anchor { agent: "hr".into(), before: "id".into(), now: "number".into() }]
    );
    assert_eq!(firm.run(&mut directory, "hr", StepKind::FullImport), [("stage-no-change", 2)]);
    assert_eq!(directory.configuration_changes().unwrap(), []);
    // The old anchor is an attribute like others now.
    firm.write("hr.csv", "id,number,name,mail\np1,902,Ada,ada@plim.example\np2,901,Alan,alan@plim.example\n");
    let did = firm.run(&mut directory, "hr", StepKind::FullImport);
    assert_eq!(did, [("stage-update", 2)]);
}

fn an_anchor_that_does_not_identify_is_refused(place: Place) {
    let mut firm = Firm::new(place);
    let hr = "path = \"FOLDER/hr.csv\"\nanchor = \"id\"";
    firm.write("hr.csv", "id,number,name,mail\np1,901,Ada,ada@plim.example\np2,901,Alan,alan@plim.example\n");
    let mut directory = firm.open();
    firm.run(&mut directory, "hr", StepKind::FullImport);
    drop(directory);
    firm.edit(hr, "path = \"FOLDER/hr.csv\"\nanchor = \"number\"");
    let why = firm.refused(&mut firm.open(), "hr", StepKind::FullImport);
    assert!(why.contains("the anchor of hr is now `number` instead of `id`, but two objects"), "{why}");
    firm.edit("anchor = \"number\"", "anchor = \"id\"");
    firm.write("hr.csv", "id,number,name,mail\np1,901,Ada,ada@plim.example\np2,,Alan,alan@plim.example\n");
    let mut directory = firm.open();
    firm.run(&mut directory, "hr", StepKind::FullImport);
    drop(directory);
    firm.edit(hr, "path = \"FOLDER/hr.csv\"\nanchor = \"number\"");
    let why = firm.refused(&mut firm.open(), "hr", StepKind::FullImport);
    assert!(why.contains("the store does not know its value for all objects"), "{why}");
    // With the old anchor everything is as before.
    firm.edit("anchor = \"number\"", "anchor = \"id\"");
    let mut directory = firm.open();
    assert_eq!(firm.run(&mut directory, "hr", StepKind::FullImport), [("stage-no-change", 2)]);
}

fn what_was_provisioned_stays_where_its_rules_are_gone(place: Place) {
    let mut firm = Firm::new(place);
    let begin = firm.config.find("[[outbound]]").unwrap();
    let end = firm.config.find("[safety]").unwrap();
    let rules = firm.config[begin..end].to_string();
    firm.edit(&rules, "");
    firm.edit(
        "[[inbound]]\nagent = \"accounts\"\nto = \"person\"\njoin = [{ cs = \"login\", mv = \"id\" }]\n",
        "",
    );
    let mut directory = firm.open();
    firm.full(&mut directory);
    let accounts = directory.status().unwrap().0[firm.at(ACCOUNTS)].1;
    assert_eq!((accounts.connectors, accounts.disconnectors), (0, 2));
    assert_eq!(firm.export(&mut directory), []);
    assert_eq!(firm.accounts(), [ADA, ALAN]);
}

fn a_pending_value_without_a_flow_is_not_sent(place: Place) {
    let mut firm = Firm::new(place);
    firm.write("hr.csv", "id,number,name,mail\np1,901,Ada L,a@plim.example\np2,902,Alan,alan@plim.example\n");
    let mut directory = firm.open();
    firm.run(&mut directory, "hr", StepKind::FullImport);
    firm.run(&mut directory, "hr", StepKind::DeltaSynchronization);
    drop(directory);
    firm.edit("mail = \"mail\", phone = \"phone\"", "phone = \"phone\"");
    let mut directory = firm.open();
    firm.refused(&mut directory, ACCOUNTS, StepKind::Export);
    firm.full(&mut directory);
    assert_eq!(firm.export(&mut directory), [("export-update", 1)]);
    assert_eq!(firm.accounts()[0], ADA.replace("name=Ada", "name=Ada L"));
}

fn a_type_without_rules_ends(place: Place) {
    let mut firm = Firm::new(place);
    // Under another name without `rename`, it is another type: everybody is made again and joined to their accounts.
    firm.edit("metaverse.person", "metaverse.human");
    firm.edit("\"person\"", "\"human\"");
    let mut directory = firm.open();
    for _ in 0..2 {
        for at in 0..3 {
            try_run(&mut directory, at, StepKind::FullSynchronization).unwrap();
        }
    }
    assert_eq!(directory.status().unwrap().1, 2);
    assert_eq!(firm.export(&mut directory), []);
    assert_eq!(firm.accounts(), [ADA, ALAN]);
}

fn a_preview_of_changed_rules_changes_nothing(place: Place) {
    let mut firm = Firm::new(place);
    firm.edit("flow = { phone = \"line\" }", "");
    let mut preview = Metadirectory::preview(firm.config(), Box::new(|_| {})).unwrap();
    let at = firm.at("phones");
    let did = run(&mut preview, at, StepKind::FullSynchronization);
    assert!(did.contains(&("connector-flow", 1)), "{did:?}");
    assert_eq!(run(&mut preview, firm.at(ACCOUNTS), StepKind::Export), [("export-update", 1)]);
    drop(preview);
    firm.refused(&mut firm.open(), "phones", StepKind::DeltaSynchronization);
    assert_eq!(firm.accounts(), [ADA, ALAN]);
}
