//! Commands that read answer while another process runs steps.

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::stage::StepError;
use plimsoll_metadir::store::StoreError;

use crate::lifecycle::{Company, HR};
use crate::place::{Place, over_both_stores};
use crate::steps::run;

over_both_stores! {
    a_reader_sees_whole_commits_during_a_run,
    there_is_one_writer,
}

const PEOPLE: u32 = 90;
const COMMIT: u64 = 3;

fn company(place: Place) -> Company {
    let company = Company::new(place);
    let names: Vec<String> = (0..PEOPLE).map(|at| format!("P{at:03}")).collect();
    let people: Vec<(u32, &str, &str)> =
        names.iter().enumerate().map(|(at, name)| (at as u32 + 100, name.as_str(), "active")).collect();
    company.staff(&people);
    company
}

fn reader(company: &Company) -> Metadirectory {
    Metadirectory::read(connectors::parse(&company.config).unwrap()).unwrap()
}

fn a_reader_sees_whole_commits_during_a_run(place: Place) {
    let company = company(place);
    // A store that does not exist is made.
    assert_eq!(reader(&company).status().unwrap().1, 0);
    let mut directory = company.open();
    run(&mut directory, HR, StepKind::FullImport);
    let before = &mut reader(&company);
    assert_eq!(before.activity().unwrap().map(|activity| activity.step), Some(String::new()));
    let mut seen = Vec::new();
    let step = Step { agent: HR, kind: StepKind::FullSynchronization };
    let record = directory
        .run_recorded("all", step, &mut |_| {
            let mut during = reader(&company);
            let (spaces, objects) = during.status().unwrap();
            let (hr, accounts) = (spaces[HR].1, spaces[0].1);
            // Each person is a metaverse object with a connector and an account, all in one commit.
            assert_eq!((hr.connectors, accounts.objects), (objects, objects), "{hr:?} {accounts:?}");
            assert_eq!(hr.pending_imports[0], u64::from(PEOPLE) - objects);
            assert!(objects % COMMIT == 0, "{objects}");
            let activity = during.activity().unwrap().unwrap();
            assert_eq!((activity.run.as_str(), activity.agent.as_str()), ("all", "hr"));
            assert_eq!(
                (activity.step.as_str(), activity.process),
                ("full-synchronization", std::process::id())
            );
            seen.push(objects);
            true
        })
        .unwrap();
    assert_eq!(record.outcome, "success");
    assert!(seen.len() > 10 && seen.last() > seen.first(), "{seen:?}");
    // An open reader keeps its state.
    assert_eq!(before.status().unwrap().1, 0);
    assert_eq!(reader(&company).status().unwrap().1, u64::from(PEOPLE));
    assert_eq!(reader(&company).history(10).unwrap().len(), 1);
    drop(directory);
    // The last activity of the process is not current any more.
    assert_eq!(reader(&company).activity().unwrap(), None);
    assert_eq!(reader(&company).show(HR, "100").unwrap().unwrap().connectors.len(), 2);
}

fn there_is_one_writer(place: Place) {
    let company = company(place);
    let mut directory = company.open();
    let second = Metadirectory::open(connectors::parse(&company.config).unwrap());
    assert!(matches!(second, Err(StepError::Store(StoreError::Busy | StoreError::Server { .. }))));
    run(&mut directory, HR, StepKind::FullImport);
    let reader = reader(&company);
    drop(directory);
    // A reader excludes nobody.
    let mut directory = company.open();
    run(&mut directory, HR, StepKind::FullSynchronization);
    drop(reader);
}
