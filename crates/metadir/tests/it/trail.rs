//! Errors of objects, pending exports, and the trail of changes.

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::{KnownError, Metadirectory, PendingChange};
use plimsoll_metadir::object::Change;

use crate::lifecycle::{ACCOUNTS, Company, HR, export, import};
use crate::place::{Place, over_both_stores};
use crate::steps::{run, try_run};

over_both_stores! {
    every_failing_object_is_kept_until_it_succeeds,
    discovery_errors_are_kept_until_a_complete_import,
    what_waits_is_listed_with_its_values,
    a_stopped_step_keeps_its_counters,
}

fn errors(directory: &mut Metadirectory, agent: Option<usize>) -> Vec<KnownError> {
    let mut all = Vec::new();
    let mut each = |known| {
        all.push(known);
        true
    };
    directory.errors(agent, &mut each).unwrap();
    assert_eq!(directory.count_errors(agent).unwrap(), all.len() as u64);
    all
}

pub(crate) fn pending(directory: &mut Metadirectory, key: Option<&str>) -> Vec<PendingChange> {
    let mut all = Vec::new();
    let mut each = |change| {
        all.push(change);
        true
    };
    assert!(directory.pending(ACCOUNTS, key, &mut each).unwrap());
    all
}

fn every_failing_object_is_kept_until_it_succeeds(place: Place) {
    let company = Company::new(place);
    // Everybody has the name of the first person.
    let same: Vec<(u32, &str, &str)> = (1..=130).map(|id| (id, "Ada", "active")).collect();
    company.staff(&same);
    let mut directory = company.open();
    run(&mut directory, HR, StepKind::FullImport);
    for times in 1..=3 {
        let result = try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap();
        assert_eq!(result.statistics.of("flow-failure"), 129);
        // What is displayed is limited, what is kept is not.
        assert_eq!(result.failures.len(), 100);
        let all = errors(&mut directory, Some(HR));
        assert_eq!(all.len(), 129);
        for known in &all {
            assert_eq!((known.times.count, known.agent.as_str()), (times, "hr"));
            assert_eq!(
                (&*known.error.kind, known.times.step.as_str()),
                ("flow-failure", "hr delta-synchronization")
            );
            assert!(known.times.run > 0 && known.times.first_unix_s <= known.times.last_unix_s);
            assert!(known.times.first_unix_s > 0 && known.error.text.contains("is taken by"), "{known:?}");
        }
        let groups = directory.error_groups(None).unwrap();
        assert_eq!(groups.iter().map(|group| group.objects).collect::<Vec<_>>(), [129]);
    }
    drop(directory);
    let mut directory = company.open();
    assert_eq!(errors(&mut directory, None).len(), 129);
    assert_eq!(errors(&mut directory, Some(ACCOUNTS)).len(), 0);
    // Another error begins anew, and a success ends it.
    let names: Vec<String> = (1..=130).map(|id| format!("Ada {id}")).collect();
    let own: Vec<(u32, &str, &str)> =
        (1..=130).zip(&names).map(|(id, name)| (id, name.as_str(), "active")).collect();
    company.staff(&own);
    run(&mut directory, HR, StepKind::FullImport);
    run(&mut directory, HR, StepKind::DeltaSynchronization);
    assert_eq!(errors(&mut directory, None), []);
    assert!(directory.error_groups(None).unwrap().is_empty());
}

fn discovery_errors_are_kept_until_a_complete_import(place: Place) {
    let company = Company::new(place);
    company.staff(&[
        (1, "Ada", "active"),
        (1, "Alan", "active"),
        (2, "Grace", "active"),
        (2, "Edsger", "active"),
    ]);
    let mut directory = company.open();
    for times in 1..=2 {
        let result = try_run(&mut directory, HR, StepKind::FullImport).unwrap();
        assert_eq!(result.outcome(), "completed-discovery-errors");
        let all = errors(&mut directory, None);
        let lines: Vec<(&str, &str, u64)> =
            all.iter().map(|of| (of.error.object.as_str(), &*of.error.kind, of.times.count)).collect();
        assert_eq!(lines, [("line 3", "duplicate-object", times), ("line 5", "duplicate-object", times)]);
    }
    company.staff(&[(1, "Ada", "active"), (2, "Grace", "active"), (2, "Edsger", "active")]);
    try_run(&mut directory, HR, StepKind::FullImport).unwrap();
    assert_eq!(errors(&mut directory, Some(HR)).len(), 1);
    company.staff(&[(1, "Ada", "active"), (2, "Grace", "active")]);
    run(&mut directory, HR, StepKind::FullImport);
    assert_eq!(errors(&mut directory, None), []);
}

fn what_waits_is_listed_with_its_values(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = company.open();
    assert_eq!(directory.count_pending(ACCOUNTS).unwrap(), 0);
    import(&mut directory, StepKind::DeltaSynchronization);
    assert_eq!(directory.count_pending(ACCOUNTS).unwrap(), 2);
    let waiting = pending(&mut directory, None);
    assert!(waiting.iter().all(|of| of.difference.change == Change::Add && of.since_unix_s.is_some()));
    let name = &waiting[0].difference.attributes.iter().find(|(name, ..)| name == "name").unwrap();
    assert_eq!((name.1.as_slice(), name.2.as_slice()), (&[][..], &["Ada".to_string()][..]));
    export(&mut directory);
    assert_eq!((directory.count_pending(ACCOUNTS).unwrap(), pending(&mut directory, None)), (0, Vec::new()));
    // A leaver: the old values and the new ones.
    company.staff(&[(1, "Ada", "left"), (2, "Alan", "active")]);
    import(&mut directory, StepKind::DeltaSynchronization);
    let since = pending(&mut directory, Some("Ada"))[0].since_unix_s;
    import(&mut directory, StepKind::FullSynchronization);
    let waiting = pending(&mut directory, None);
    assert_eq!(
        (waiting.len(), waiting[0].since_unix_s, &waiting),
        (1, since, &pending(&mut directory, Some("Ada")))
    );
    let change = waiting[0].difference.to_string();
    assert!(change.starts_with("export accounts: update Ada"), "{change}");
    assert!(change.contains("status: on -> disabled") && change.contains("room: new -> nothing"), "{change}");
    assert_eq!(pending(&mut directory, Some("Alan")), []);
    let mut each = |_| true;
    assert!(!directory.pending(ACCOUNTS, Some("Nobody"), &mut each).unwrap());
}

fn a_stopped_step_keeps_its_counters(place: Place) {
    let company = Company::new(place);
    let people = |ids: std::ops::RangeInclusive<u32>| -> Vec<(u32, String)> {
        ids.map(|id| (id, format!("Ada {id}"))).collect()
    };
    let staff = |of: &[(u32, String)]| {
        company.staff(&of.iter().map(|(id, name)| (*id, name.as_str(), "active")).collect::<Vec<_>>());
    };
    staff(&people(1..=20));
    let mut directory = company.open();
    let step = |kind| plimsoll_metadir::config::Step { agent: HR, kind };
    let mut batches = 0;
    let mut stops = |_| {
        batches += 1;
        batches < 3
    };
    assert!(directory.run_recorded("r", step(StepKind::FullImport), &mut stops).is_err());
    let stopped = directory.history(1).unwrap().pop().unwrap();
    assert_eq!((stopped.outcome.as_str(), stopped.counters), ("stopped-user", vec![("stage-add".into(), 9)]));
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    // More leave than the threshold allows; what was done before the stop is counted.
    staff(&people(1..=10).into_iter().chain(people(21..=22)).collect::<Vec<_>>());
    run(&mut directory, HR, StepKind::FullImport);
    let kind = StepKind::DeltaSynchronization;
    assert!(directory.run_recorded("r", step(kind), &mut |_| true).is_err());
    let stopped = directory.history(1).unwrap().pop().unwrap();
    assert_eq!(stopped.outcome, "stopped-threshold");
    assert!(stopped.counters.contains(&("disconnector-projected".into(), 2)), "{stopped:?}");
    assert!(stopped.number > 0 && !stopped.user.is_empty());
}
