//! Tests of the order in which an export sends dependent changes while it prepares the next batch.

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::stage::StepError;

use crate::place::{Place, over_both_stores};
use crate::references::{Company, DIRECTORY, STAFF, day, nothing_is_left};
use crate::steps::run;

over_both_stores! {
    whoever_is_referred_to_is_there_before_and_each_is_sent_once,
    what_is_under_way_when_it_is_interrupted_is_kept,
}

/// People who each have the next one as boss. The directory refuses a missing boss.
fn chain(place: Place, people: usize) -> Company {
    let company = Company::new(place);
    let boss = |id: usize| if id < people { (id + 1).to_string() } else { String::new() };
    let mut rows: Vec<String> =
        (1..=people).map(|id| format!("person,{id},N{id},Lab,{},", boss(id))).collect();
    rows.push("unit,u,Lab,,,".into());
    company.write(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    company
}

fn whoever_is_referred_to_is_there_before_and_each_is_sent_once(place: Place) {
    let company = chain(place, 20);
    let mut directory = company.open();
    day(&mut directory);
    let asked = company.directory.asked();
    assert!(asked.iter().all(|asked| asked.starts_with("add ")), "{asked:?}");
    assert_eq!(
        (asked.len(), asked.iter().filter(|asked| asked.contains(" boss=")).count()),
        (21, 19),
        "{asked:?}"
    );
    nothing_is_left(&mut directory);
}

fn what_is_under_way_when_it_is_interrupted_is_kept(place: Place) {
    let company = chain(place, 20);
    let mut directory = company.open();
    run(&mut directory, STAFF, StepKind::FullImport);
    run(&mut directory, STAFF, StepKind::DeltaSynchronization);
    let step = Step { agent: DIRECTORY, kind: StepKind::Export };
    let mut batches = 0;
    let stopped = directory.run(step, &mut |_| {
        batches += 1;
        batches < 3
    });
    assert!(matches!(stopped, Err(StepError::Interrupted)), "{stopped:?}");
    let before = company.directory.asked();
    assert!(!before.is_empty() && before.len() < 21, "{before:?}");
    // Nothing is sent a second time.
    run(&mut directory, DIRECTORY, StepKind::Export);
    let after = company.directory.asked();
    assert_eq!(before.len() + after.len(), 21, "{before:?} {after:?}");
    day(&mut directory);
    nothing_is_left(&mut directory);
}
