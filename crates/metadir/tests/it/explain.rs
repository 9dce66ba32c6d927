//! Explanations of objects: what the engine did, rule by rule.

use std::fs;

use plimsoll_metadir::config::{Config, StepKind};
use plimsoll_metadir::metadirectory::{Link, Metadirectory};

use crate::lifecycle::{ACCOUNTS, Company, HR, export, import};
use crate::place::{Place, over_both_stores};
use crate::steps::{run, try_run};

over_both_stores! {
    a_trace_shows_losers_and_what_is_kept,
    a_failure_is_explained,
    several_connectors_and_deprovisioned_ones_are_explained,
    secrets_are_hidden_in_an_explanation,
    references_are_shown_by_the_names_of_their_targets,
}

fn preview(config: &str) -> Metadirectory {
    let config = Config::parse(config).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    Metadirectory::preview(config, Box::new(|_| {})).unwrap()
}

fn explain(config: &str, agent: usize, key: &str) -> String {
    preview(config).explain(agent, key).unwrap().unwrap().text
}

fn a_trace_shows_losers_and_what_is_kept(place: Place) {
    let company = Company::new(place)
        .with("name = \"name\"\nmail", "name = { from = \"name\", precedence = 1 }\nmail")
        .with("mv = \"id\" }]\n\n[[outbound]]", "mv = \"id\" }]\nflow = { name = { from = \"name\", precedence = 2 }, card = \"login\" }\n\n[[outbound]]");
    company.staff(&[(1, "Ada", "active")]);
    company.write("accounts.csv", "login,number,name,status,room,note\nx,1,Old,,,\n");
    let mut directory = company.open();
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    import(&mut directory, StepKind::DeltaSynchronization);
    drop(directory);
    let of_person = explain(&company.config, HR, "1");
    let of_account = explain(&company.config, ACCOUNTS, "x");
    insta::assert_snapshot!("losers", format!("{of_person}---\n{of_account}"));
}

fn a_failure_is_explained(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active"), (2, "Ada", "active")]);
    let mut directory = company.open();
    run(&mut directory, HR, StepKind::FullImport);
    let reported = try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap();
    assert_eq!(reported.failures.len(), 1);
    drop(directory);
    let explained = preview(&company.config).explain(HR, "2").unwrap().unwrap();
    assert!(explained.failure.as_ref().is_some_and(|why| why.contains("is taken by")), "{explained:?}");
    insta::assert_snapshot!("failure", explained.text);
}

fn several_connectors_and_deprovisioned_ones_are_explained(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = company.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    let accounts = fs::read_to_string(company.path("accounts.csv")).unwrap();
    company.write("accounts.csv", &(accounts + "second,1,,,,\n"));
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    try_run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization).unwrap();
    drop(directory);
    let mut texts = vec![explain(&company.config, ACCOUNTS, "second")];
    let several = company.with(
        "mv = \"id\" }]\n\n[[outbound]]",
        "mv = \"id\" }]\nmultiple_connectors = true\nflow = { card = \"login\" }\n\n[[outbound]]",
    );
    texts.push(explain(&several.config, ACCOUNTS, "second"));
    let one = several.with("multiple_connectors = true\n", "");
    one.staff(&[(1, "Ada", "left"), (2, "Alan", "active")]);
    let mut directory = one.open();
    run(&mut directory, HR, StepKind::FullImport);
    drop(directory);
    texts.push(explain(&one.config, HR, "1"));
    let mut directory = one.open();
    try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap();
    try_run(&mut directory, ACCOUNTS, StepKind::Export).unwrap();
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    drop(directory);
    texts.push(explain(&one.config, ACCOUNTS, "Ada"));
    one.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = one.open();
    run(&mut directory, HR, StepKind::FullImport);
    directory.link(ACCOUNTS, "Alan", Link::Disconnect).unwrap();
    drop(directory);
    for (agent, key) in [(HR, "1"), (HR, "2"), (ACCOUNTS, "Alan")] {
        texts.push(explain(&one.config, agent, key));
    }
    insta::assert_snapshot!("connectors", texts.join("---\n"));
}

fn secrets_are_hidden_in_an_explanation(place: Place) {
    let company = Company::new(place)
        .with("status = { constant = \"on\" } }", "status = { constant = \"Top5ecret\" }, password = { constant = \"Top5ecret\" }, note = { expression = \"'is Top5ecret'\" } }")
        .with("dn = \"mv.name\"", "dn = \"mv.name + ' Top5ecret'\"")
        .with("flow]\nid", "flow]\ncard = \"password\"\nid");
    company.write("hr.csv", "id,name,mail,born,status,password\n1,Ada,,,active,Own5ecret\n");
    company.write("accounts.csv", "login,number,name,status,room,note,password\n");
    let mut directory = company.open();
    run(&mut directory, HR, StepKind::FullImport);
    drop(directory);
    let text = explain(&company.config, HR, "1");
    assert!(!text.contains("5ecret"), "{text}");
    assert!(text.contains("password: (hidden) (constant (hidden))"), "{text}");
    assert!(text.contains("card: (hidden) from hr (password)"), "{text}");
}

fn references_are_shown_by_the_names_of_their_targets(place: Place) {
    let at = |file: &str| place.scratch.join(file).display().to_string();
    let config = format!(
        r#"
[store]
{store}
[metaverse.person]
attributes = {{ id = "text", name = "text", boss = "reference" }}
[agents.book]
type = "delimited"
path = "{book}"
anchor = "key"
references = ["boss"]
[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "id"
references = ["manager"]
[[inbound]]
agent = "staff"
to = "person"
join = [{{ cs = "id", mv = "id" }}]
project = true
flow = {{ id = "id", name = "name", boss = "manager" }}
[[outbound]]
agent = "book"
from = "person"
dn = "mv.id"
deprovision = "delete"
flow = {{ key = "id", name = "name", boss = "boss" }}
"#,
        store = place.keys(),
        book = at("book.csv"),
        staff = at("staff.csv"),
    );
    fs::write(at("book.csv"), "key,name,boss\n").unwrap();
    fs::write(at("staff.csv"), "id,name,manager\n1,\"Ada \"\"A\"\" L\",\n2,Alan,1\n3,Bob,9\n").unwrap();
    let mut directory = Metadirectory::open(Config::parse(&config).unwrap()).unwrap();
    run(&mut directory, 1, StepKind::FullImport);
    run(&mut directory, 1, StepKind::DeltaSynchronization);
    drop(directory);
    let texts = ["1", "2", "3"].map(|key| explain(&config, 1, key));
    insta::assert_snapshot!("references", texts.join("---\n"));
}
