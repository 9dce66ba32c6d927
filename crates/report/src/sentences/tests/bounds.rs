//! What is only a lower bound is marked wherever it is shown, and what is not known is no number.

use model::result::{GoalLine, GoalResult, TrialResult};
use model::{Due, LatencySummary, Operation, ResultDocument, Statistics};

use super::{load, sweep};
use crate::recorded;
use crate::sentences::{finding, headline};
use crate::tables;

/// Every statistic but the shortest is a bound.
fn all_bounds() -> Statistics {
    let mut bounds = Statistics::NONE;
    LatencySummary::PARTS.into_iter().skip(1).for_each(|part| bounds.add(part));
    bounds
}

/// A stored result in which some operations never ended.
fn censored(name: &str) -> ResultDocument {
    let mut document = recorded::run(name).document;
    for trial in &mut document.trials {
        for of in trial.operations.iter_mut().chain(&mut trial.derived) {
            of.due = Some(Due { ended: of.completed, failed: of.failed, censored: 100, ..Due::default() });
            of.censored = 100;
            (of.response_ms.at_least, of.service_ms.at_least) = (all_bounds(), all_bounds());
        }
    }
    document
}

fn only(document: &mut ResultDocument) -> &mut TrialResult {
    &mut document.trials[0]
}

#[test]
fn answers_mark_bounds() {
    for (run, expected) in [
        ("http", "mean >= 2.13 ms, p90 >= 3.01 ms"),
        ("exec", "The first launch took 1.56 ms; 19 later launches took >= 1.06 ms in the median."),
    ] {
        let answer = headline(&censored(run)).answer.unwrap();
        assert!(answer.contains(expected), "{answer}");
    }
}

#[test]
fn one_share_of_failures_is_said() {
    let mut document = recorded::run("http").document;
    let whole = &mut only(&mut document).operations[0];
    let judged = whole.completed + 600;
    whole.due = Some(Due { ended: judged, failed: 600, ..Due::default() });
    let share = crate::text::percent(600.0 / judged as f64);
    let answer = headline(&document).answer.unwrap();
    assert!(answer.ends_with(&format!(" {share} of the operations failed.")), "{answer}");
    // The table counts what ended in the measured time, and says what failed after it.
    let table = tables::amounts(&document.trials[0], &document.traits);
    let row = |name: &str| {
        let row = table.rows.iter().find(|row| row[0].text() == name).unwrap();
        row[1].text()
    };
    assert_eq!((row("failed"), row("failed later")), ("0".to_string(), "600".to_string()));
    // Those that never ended may have failed, too.
    document.trials[0].operations[0].censored = 50;
    let answer = headline(&document).answer.unwrap();
    assert!(answer.contains(" At least "), "{answer}");
}

#[test]
fn tables_mark_bounds() {
    let document = censored("dependencies");
    let derived = TrialResult {
        derived: document.trials[0]
            .operations
            .clone()
            .into_iter()
            .map(|of| model::result::OperationResult { name: Operation::Named("buy".into()), ..of })
            .collect(),
        ..document.trials[0].clone()
    };
    let table = tables::derived(&derived).unwrap();
    let shown: Vec<String> = table.rows[0].iter().map(crate::table::Cell::text).collect();
    assert!(
        !shown[2].starts_with(">=") && shown[3..].iter().all(|text| text.starts_with(">= ")),
        "{shown:?}"
    );
    // Each side of a comparison has its own.
    let mut document = recorded::part("distributions", 2, 2).document;
    let label = document.configurations[1].treatment.label.clone();
    document.configurations[1].at_least.insert("response_ms.p99".into());
    let table = tables::pair(&document, &label);
    let row = table.rows.iter().find(|row| row[0].text() == "p99").unwrap();
    assert!(!row[2].text().starts_with(">=") && row[3].text().starts_with(">= "), "{row:?}");
}

#[test]
fn a_sweep_says_that_the_system_stopped_answering() {
    let model::Claim::LoadSweep(mut of) = sweep(None) else { panic!() };
    let mut stopped = load("128", 0.0, f64::NAN, f64::NAN);
    stopped.bytes_per_s = 0.0;
    of.stopped = Some(stopped.clone());
    let said = |of: &model::claim::LoadSweep| {
        finding(&super::found(model::FindingKind::Observation, None, model::Claim::LoadSweep(of.clone())))
    };
    let text = said(&of);
    assert!(
        text.starts_with("The system stopped answering at queue depth 128: 0/s, no response times."),
        "{text}"
    );
    (stopped.mean_ms, stopped.p99_ms, stopped.at_least) = (31_000.0, 33_000.0, all_bounds());
    of.stopped = Some(stopped);
    let text = said(&of);
    assert!(text.contains("mean >= 31.0 s, p99 >= 33.0 s."), "{text}");
    assert!(text.contains(" Throughput still grew below it: "), "{text}");
    // Most was answered, and some never.
    of.stopped = Some(model::claim::LoadPoint { at_least: all_bounds(), ..load("128", 70_000.0, 50.0, 1.8) });
    let text = said(&of);
    assert!(text.starts_with("Operations never ended at queue depth 128: 70.0 k/s"), "{text}");
}

#[test]
fn undecided_conditions_are_not_counted_as_missed() {
    let line = |met: bool, undecided: bool| GoalLine {
        goal: "failed < 5%".into(),
        trial: "001-baseline.r1".into(),
        value: Some(0.0),
        operation: None,
        met,
        is_bound: undecided,
        undecided,
    };
    let judged = |lines: &[(bool, bool)]| {
        let goals = lines.iter().map(|(met, undecided)| line(*met, *undecided)).collect();
        tables::not_met(&GoalResult { met: false, stated: true, goals })
    };
    let (met, missed, open) = ((true, false), (false, false), (false, true));
    assert_eq!(judged(&[met, missed, met]), "1 of 3 conditions");
    assert_eq!(judged(&[missed, open, open, open, met, met]), "1 of 6 conditions, and 3 are undecided");
    assert_eq!(judged(&[missed, open]), "1 of 2 conditions, and 1 is undecided");
    assert_eq!(judged(&[met, open]), "1 of 2 conditions");
}

#[test]
fn what_nothing_was_observed_of_is_a_dash() {
    let mut document = recorded::run("http").document;
    let whole = &mut only(&mut document).operations[0];
    (whole.response_ms, whole.service_ms) = (LatencySummary::ABSENT, LatencySummary::ABSENT);
    let table = tables::trials(&document);
    assert_eq!((table.rows[0][2].text(), table.rows[0][3].text()), ("-".to_string(), "-".to_string()));
    assert!(crate::csv(&document).lines().nth(1).unwrap().contains(",,,,,,,,"));
}
