//! User names that change hands in one export, with a SCIM service.

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::stage::StepError;

use super::{Office, SERVICE, bring, confirm};
use crate::steps::run;

/// How the agent may talk to the service.
const SETTINGS: [&str; 4] =
    ["connections = 1", "connections = 4\nupdate = \"put\"", "bulk = 10", "anchor = \"userName\""];

fn staff(office: &Office, persons: &[(u32, &str)]) {
    let rows: Vec<String> = persons
        .iter()
        .map(|(id, login)| format!("{id},{login},G{id},S{id},m{id}@plim.example,,,active\n"))
        .collect();
    office.staff(&rows.concat());
}

/// The names of the users, with what tells whose they are.
fn users(office: &Office) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_string();
    office.users().iter().map(|user| (text(&user["userName"]), text(&user["name"]["givenName"]))).collect()
}

fn expected(persons: &[(u32, &str)]) -> Vec<(String, String)> {
    let mut expected: Vec<_> =
        persons.iter().map(|(id, login)| ((*login).to_string(), format!("G{id}"))).collect();
    expected.sort();
    expected
}

/// A day whose export makes the service what the staff file says.
fn day(office: &Office, directory: &mut Metadirectory, persons: &[(u32, &str)]) {
    staff(office, persons);
    bring(directory);
    run(directory, SERVICE, StepKind::Export);
    assert_eq!(users(office), expected(persons));
    let did = confirm(directory);
    assert!(did.iter().all(|(what, _)| *what != "exported-change-not-reimported"), "{did:?}");
    bring(directory);
    assert_eq!(run(directory, SERVICE, StepKind::Export), []);
}

#[test]
fn a_new_user_takes_the_name_of_a_deleted_one() {
    for settings in SETTINGS {
        let office = Office::new(settings);
        let mut directory = office.open();
        day(&office, &mut directory, &[(1, "ada"), (2, "alan"), (3, "grace"), (4, "tim"), (5, "don")]);
        day(&office, &mut directory, &[(0, "grace"), (1, "ada"), (2, "alan"), (4, "tim"), (5, "don")]);
        day(&office, &mut directory, &[(0, "grace"), (2, "alan"), (4, "tim"), (5, "don"), (6, "ada")]);
    }
}

#[test]
fn users_exchange_their_names() {
    for settings in &SETTINGS[..3] {
        let office = Office::new(settings);
        let mut directory = office.open();
        day(&office, &mut directory, &[(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f")]);
        // A circle of two, one of three, and one who leaves with the name that a new one gets.
        day(&office, &mut directory, &[(1, "b"), (2, "a"), (3, "d"), (4, "e"), (5, "c"), (7, "f")]);
        // A chain in each direction.
        day(&office, &mut directory, &[(1, "z"), (2, "b"), (3, "a"), (4, "d"), (5, "e"), (7, "f"), (8, "c")]);
    }
}

#[test]
fn an_interrupted_exchange_is_finished_after_an_import() {
    let (before, after) = ([(1, "a"), (2, "b"), (3, "c")], [(1, "b"), (2, "c"), (3, "a")]);
    let mut commits = 1;
    loop {
        let office = Office::new("connections = 1");
        let mut directory = office.open();
        day(&office, &mut directory, &before);
        staff(&office, &after);
        bring(&mut directory);
        let mut count = 0;
        let ended = directory.run(Step { agent: SERVICE, kind: StepKind::Export }, &mut |_| {
            count += 1;
            count < commits
        });
        drop(directory);
        let mut directory = office.open();
        let names: Vec<String> = users(&office).into_iter().map(|(name, _)| name).collect();
        confirm(&mut directory);
        day(&office, &mut directory, &after);
        match ended {
            Err(StepError::Interrupted) => {
                let is_last = count == 4;
                assert!(
                    is_last || names.iter().any(|name| name.starts_with("plimsoll-temporary-")),
                    "{names:?}"
                );
            }
            ended => {
                assert!(ended.is_ok() && commits > 4, "{ended:?} {commits}");
                break;
            }
        }
        commits += 1;
    }
}
