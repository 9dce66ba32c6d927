//! Errors of objects, pending exports, and the trail of changes.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::{
    AuditFilter, AuditedChange, KnownError, Metadirectory, PendingChange, UndoError, UndoOptions, Undone,
};
use plimsoll_metadir::object::{AgentId, Change, CsId};
use plimsoll_metadir::preview::Difference;
use plimsoll_metadir::stage::StepError;
use plimsoll_metadir::store::{Failure, FailureKind, NameKind, Write};

use crate::lifecycle::{ACCOUNTS, Company, HR, export, import};
use crate::place::{Place, over_both_stores};
use crate::steps::{run, try_run};
use crate::store::object;

over_both_stores! {
    every_failing_object_is_kept_until_it_succeeds,
    discovery_errors_are_kept_until_a_complete_import,
    what_waits_is_listed_with_its_values,
    a_stopped_step_keeps_its_counters,
    every_accepted_change_is_in_the_trail,
    a_run_is_taken_back_and_held_until_the_source_is_right,
    an_undo_is_released_or_undone,
    what_changed_since_is_a_conflict,
    what_was_deleted_is_made_again,
    secrets_are_not_in_the_trail,
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
    let step = |kind| Step { agent: HR, kind };
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

/// Carries out a run of the given steps; its number.
pub(crate) fn run_of(directory: &mut Metadirectory, steps: &[(usize, StepKind)]) -> u64 {
    let number = directory.begin_run().unwrap();
    for (agent, kind) in steps {
        directory.run_recorded("test", Step { agent: *agent, kind: *kind }, &mut |_| true).unwrap();
    }
    directory.end_run().unwrap();
    number
}

const DAY: [(usize, StepKind); 3] =
    [(HR, StepKind::FullImport), (HR, StepKind::DeltaSynchronization), (ACCOUNTS, StepKind::Export)];
const CONFIRM: [(usize, StepKind); 2] =
    [(ACCOUNTS, StepKind::FullImport), (ACCOUNTS, StepKind::DeltaSynchronization)];

fn audited(directory: &mut Metadirectory, filter: AuditFilter<'_>) -> Vec<AuditedChange> {
    let mut all = Vec::new();
    let mut each = |change| {
        all.push(change);
        true
    };
    directory.audit(filter, &mut each).unwrap();
    all
}

pub(crate) fn undo(directory: &mut Metadirectory, run: u64) -> Undone {
    directory.begin_run().unwrap();
    let options = UndoOptions { imports: true, skips_conflicts: false };
    directory.undo(run, None, options, &mut |_| true).unwrap()
}

fn every_accepted_change_is_in_the_trail(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = company.open();
    let first = run_of(&mut directory, &DAY);
    run_of(&mut directory, &CONFIRM);
    company.staff(&[(1, "Ada", "left"), (2, "Alan", "active")]);
    let second = run_of(&mut directory, &DAY);
    let all = audited(&mut directory, AuditFilter::default());
    let shown: Vec<(u64, Change, &str)> =
        all.iter().map(|of| (of.run, of.change, of.object.as_str())).collect();
    assert_eq!(
        shown,
        [(first, Change::Add, "Ada"), (first, Change::Add, "Alan"), (second, Change::Update, "Ada")]
    );
    let status = all[2].attributes.iter().find(|of| of.name == "status").unwrap();
    assert_eq!((&status.old, &status.new), (&Some(vec![b"on".to_vec()]), &vec![b"disabled".to_vec()]));
    assert!(all[0].attributes.iter().all(|of| of.old == Some(Vec::new()) && !of.is_secret));
    let ada = AuditFilter { object: Some("Ada"), ..AuditFilter::default() };
    assert_eq!(audited(&mut directory, ada).len(), 2);
    let of_second = AuditFilter { run: Some(second), agent: Some(ACCOUNTS), ..AuditFilter::default() };
    assert_eq!(audited(&mut directory, of_second).len(), 1);
    let later = AuditFilter { since_unix_s: all[2].at_unix_s + 1, ..AuditFilter::default() };
    assert_eq!(audited(&mut directory, later), []);
    drop(directory);
    // What is too old is deleted at the end of a run.
    let mut config = company.config();
    config.audit_keep_s = Some(0);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let mut directory = Metadirectory::open(config).unwrap();
    directory.end_run().unwrap();
    assert_eq!(audited(&mut directory, AuditFilter::default()), []);
}

fn a_run_is_taken_back_and_held_until_the_source_is_right(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active"), (3, "Grace", "active")]);
    let mut directory = company.open();
    run_of(&mut directory, &DAY);
    run_of(&mut directory, &CONFIRM);
    let before = company.accounts();
    // Ada left and Edsger came, by mistake.
    let wrong = [(1, "Ada", "left"), (2, "Alan", "active"), (3, "Grace", "active"), (4, "Edsger", "active")];
    company.staff(&wrong);
    let wrong_run = run_of(&mut directory, &DAY);
    let after = company.accounts();
    assert_ne!(before, after);
    drop(directory);
    // A preview shows the inverse and changes nothing.
    let changes = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&changes);
    let mut preview = Metadirectory::preview(
        company.config(),
        Box::new(move |change: Difference| into.lock().unwrap().push(change.to_string())),
    )
    .unwrap();
    assert_eq!(preview.preview_undo(wrong_run, None, true, &mut |_| true).unwrap().conflicts, []);
    drop(preview);
    let exported: Vec<String> =
        changes.lock().unwrap().iter().filter(|of| of.starts_with("export")).cloned().collect();
    assert!(exported[0].starts_with("export accounts: delete Edsger"), "{exported:?}");
    assert!(exported[1].contains("status: disabled -> on"), "{exported:?}");
    assert_eq!((exported.len(), company.accounts()), (2, after.clone()));
    let mut directory = company.open();
    let undone = undo(&mut directory, wrong_run);
    assert_eq!(company.accounts(), before);
    let step = undone.steps.last().unwrap();
    assert_eq!((step.step.as_str(), step.run.as_str()), ("undo", format!("undo {wrong_run}").as_str()));
    let counters = [("export-delete".to_string(), 1), ("export-update".to_string(), 1)];
    assert_eq!(step.counters, counters);
    // The same again does nothing.
    assert_eq!(undo(&mut directory, wrong_run).steps.last().unwrap().counters, []);
    // The rules would send it again: it is held, whatever is synchronized.
    for kind in
        [StepKind::DeltaSynchronization, StepKind::FullSynchronization, StepKind::DeltaSynchronization]
    {
        run_of(&mut directory, &CONFIRM);
        company.staff(&wrong);
        run(&mut directory, HR, StepKind::FullImport);
        run(&mut directory, HR, kind);
        run(&mut directory, ACCOUNTS, kind);
        let held = try_run(&mut directory, ACCOUNTS, StepKind::Export).unwrap();
        assert_eq!(held.outcome(), "completed-warnings", "{held:?}");
        assert_eq!(company.accounts(), before);
    }
    let held = pending(&mut directory, None);
    assert!(held.iter().any(|of| of.held == [("the object".to_string(), wrong_run)]), "{held:?}");
    // Other changes are sent meanwhile.
    let right =
        [(1, "Ada", "left"), (2, "Alan M", "active"), (3, "Grace", "active"), (4, "Edsger", "active")];
    company.staff(&right);
    run_of(&mut directory, &DAY);
    assert!(company.accounts().iter().any(|of| of.contains("name=Alan M")), "{:?}", company.accounts());
    assert!(!company.accounts().iter().any(|of| of.contains("Edsger")));
    // The source is corrected, so the hold is over; later Edsger really comes.
    company.staff(&right[..3]);
    run_of(&mut directory, &DAY);
    run_of(&mut directory, &DAY);
    company.staff(&right);
    run_of(&mut directory, &DAY);
    assert!(company.accounts().iter().any(|of| of.contains("Edsger")), "{:?}", company.accounts());
}

fn an_undo_is_released_or_undone(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = company.open();
    run_of(&mut directory, &DAY);
    run_of(&mut directory, &CONFIRM);
    let before = company.accounts();
    company.staff(&[(1, "Ada", "left"), (2, "Alan", "active"), (3, "Edsger", "active")]);
    let wrong = run_of(&mut directory, &DAY);
    let after = company.accounts();
    undo(&mut directory, wrong);
    let undone = directory.history(1).unwrap()[0].number;
    assert_eq!(company.accounts(), before);
    // Undone: everything is as the run left it, and nothing is held.
    undo(&mut directory, undone);
    assert_eq!(company.accounts(), after);
    run_of(&mut directory, &CONFIRM);
    run(&mut directory, HR, StepKind::FullSynchronization);
    run(&mut directory, ACCOUNTS, StepKind::FullSynchronization);
    assert!(run(&mut directory, ACCOUNTS, StepKind::Export).is_empty());
    assert_eq!(company.accounts(), after);
    // Undone once more, and released.
    undo(&mut directory, wrong);
    assert_eq!(company.accounts(), before);
    run_of(&mut directory, &CONFIRM);
    run(&mut directory, HR, StepKind::FullSynchronization);
    assert_eq!(try_run(&mut directory, ACCOUNTS, StepKind::Export).unwrap().outcome(), "completed-warnings");
    assert_eq!(company.accounts(), before);
    assert!(directory.release_undo(wrong).unwrap() > 0);
    run(&mut directory, ACCOUNTS, StepKind::Export);
    assert_eq!(company.accounts(), after);
}

fn what_changed_since_is_a_conflict(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = company.open();
    run_of(&mut directory, &DAY);
    run_of(&mut directory, &CONFIRM);
    company.staff(&[(1, "Ada", "left"), (2, "Alan", "left")]);
    let wrong_run = run_of(&mut directory, &DAY);
    // Somebody else changed Ada since.
    let text = std::fs::read_to_string(company.path("accounts.csv")).unwrap();
    company.write("accounts.csv", &text.replace("Ada,1,Ada,disabled", "Ada,1,Ada,retired"));
    let changed = company.accounts();
    assert!(changed[0].contains("status=retired"), "{changed:?}");
    directory.begin_run().unwrap();
    let mut options = UndoOptions { imports: true, skips_conflicts: false };
    let refused = directory.undo(wrong_run, None, options, &mut |_| true).unwrap_err();
    let UndoError::Conflicts(conflicts) = &refused else { panic!("{refused}") };
    assert_eq!((conflicts.len(), conflicts[0].attribute.as_deref()), (1, Some("status")));
    assert!(conflicts[0].object == "Ada" && conflicts[0].why.contains("retired"), "{conflicts:?}");
    assert_eq!(company.accounts(), changed);
    options.skips_conflicts = true;
    let undone = directory.undo(wrong_run, Some(ACCOUNTS), options, &mut |_| true).unwrap();
    assert_eq!(undone.conflicts, *conflicts);
    let accounts = company.accounts();
    assert!(accounts[0].contains("status=retired") && accounts[1].contains("status=on"), "{accounts:?}");
    let nothing = directory.undo(999, None, options, &mut |_| true).unwrap_err();
    assert!(nothing.to_string().starts_with("run 999 exported nothing, or"), "{nothing}");
    // More deletions than [safety] allows are refused before anything is staged.
    let people: Vec<String> = (10..20).map(|id| format!("P{id}")).collect();
    let all: Vec<(u32, &str, &str)> =
        (10..20).zip(&people).map(|(id, name)| (id, name.as_str(), "active")).collect();
    let mut staff = vec![(1, "Ada", "left"), (2, "Alan", "left")];
    staff.extend(all);
    company.staff(&staff);
    let many = run_of(&mut directory, &DAY);
    let before = company.accounts();
    let refused = directory.undo(many, None, options, &mut |_| true).unwrap_err();
    assert!(matches!(refused, UndoError::Step(StepError::Threshold(_))), "{refused}");
    assert_eq!(company.accounts(), before);
    assert!(pending(&mut directory, None).iter().all(|of| of.difference.change != Change::Delete));
    drop(directory);
    let mut config = company.config();
    config.safety.export_deletes.count = 10;
    let mut directory = Metadirectory::open(config).unwrap();
    directory.undo(many, None, options, &mut |_| true).unwrap();
    assert_eq!(company.accounts(), accounts);
}

fn what_was_deleted_is_made_again(place: Place) {
    let company = Company::new(place).with(
        "deprovision = { disable = { status = \"disabled\", room = \"\", note = \"left\" } }",
        "deprovision = \"delete\"",
    );
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active"), (3, "Grace", "active")]);
    let mut directory = company.open();
    run_of(&mut directory, &DAY);
    run_of(&mut directory, &CONFIRM);
    let before = company.accounts();
    company.staff(&[(1, "Ada", "left"), (2, "Alan", "active"), (3, "Grace", "left")]);
    let wrong_run = run_of(&mut directory, &DAY);
    assert_eq!(company.accounts().len(), 1);
    undo(&mut directory, wrong_run);
    assert_eq!(company.accounts(), before);
    // Also after the deletion was imported and synchronized, from nothing but the trail.
    run_of(&mut directory, &CONFIRM);
    run(&mut directory, HR, StepKind::FullSynchronization);
    assert_eq!(company.accounts(), before);
    directory.release_undo(wrong_run).unwrap();
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active"), (3, "Grace", "active")]);
    run_of(&mut directory, &DAY);
    run_of(&mut directory, &CONFIRM);
    company.staff(&[(2, "Alan", "active")]);
    let wrong_run = run_of(&mut directory, &DAY);
    run_of(&mut directory, &CONFIRM);
    assert_eq!(company.accounts().len(), 1, "{:?}", company.accounts());
    assert_eq!(directory.status().unwrap().0[ACCOUNTS].1.objects, 1);
    undo(&mut directory, wrong_run);
    assert_eq!(company.accounts(), before);
}

fn secrets_are_not_in_the_trail(place: Place) {
    let company = Company::new(place)
        .with("room = { constant = \"new\" } }", "password = { constant = \"hunter2\" } }")
        .with(
            "deprovision = { disable = { status = \"disabled\", room = \"\", note = \"left\" } }",
            "deprovision = \"delete\"",
        );
    company.write("accounts.csv", "login,number,name,status,password\n");
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = company.open();
    run_of(&mut directory, &DAY);
    run_of(&mut directory, &CONFIRM);
    assert!(company.accounts()[0].contains("password=hunter2"));
    company.staff(&[(2, "Alan", "active")]);
    let deleted = run_of(&mut directory, &DAY);
    let all = audited(&mut directory, AuditFilter::default());
    assert_eq!(all.len(), 3);
    for of in all.iter().flat_map(|change| &change.attributes) {
        assert_eq!(of.is_secret, of.name == "password", "{of:?}");
        assert!(!of.is_secret || of.old.is_none() && of.new.is_empty(), "{of:?}");
    }
    // An account is made again without its password, and only if that is accepted.
    directory.begin_run().unwrap();
    let mut options = UndoOptions { imports: true, skips_conflicts: false };
    let refused = directory.undo(deleted, None, options, &mut |_| true).unwrap_err();
    assert!(matches!(&refused, UndoError::Conflicts(all) if all[0].attribute.as_deref() == Some("password")));
    assert_eq!(company.accounts().len(), 1);
    options.skips_conflicts = true;
    directory.undo(deleted, None, options, &mut |_| true).unwrap();
    assert_eq!(company.accounts()[0], "login=Ada name=Ada number=1 status=on");
}

/// Prints how long a page of the errors of 100,000 objects takes: `cargo test --release ... -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn a_page_of_many_errors() {
    let company = Company::new(Place::sqlite());
    drop(company.open());
    let mut store = company.place.open();
    let agent = AgentId(store.name(NameKind::Agent, "hr").unwrap());
    let write = |at: i64| {
        let id = CsId(1_000 + at);
        let why = Some(Failure::new(FailureKind::Flow, format!("the name \"Ada {at}\" is taken")));
        [Write::NewCs(object(id.0, agent)), Write::Failure { id, why }]
    };
    for begin in (0..100_000).step_by(10_000) {
        let writes: Vec<Write> = (begin..begin + 10_000).flat_map(write).collect();
        store.write(&writes).unwrap();
        store.commit().unwrap();
    }
    drop(store);
    let mut directory = company.open();
    let begin = Instant::now();
    let (count, mut shown) = (directory.count_errors(None).unwrap(), 0);
    let mut each = |_| {
        shown += 1;
        shown < 100
    };
    directory.errors(None, &mut each).unwrap();
    let page_ms = begin.elapsed().as_millis();
    let begin = Instant::now();
    let groups = directory.error_groups(None).unwrap();
    assert_eq!((count, shown, groups.len(), groups[0].objects), (100_000, 100, 1, 100_000));
    println!("a page of {count} errors: {page_ms} ms; in groups: {} ms", begin.elapsed().as_millis());
}
