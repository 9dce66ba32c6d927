//! Tests of records with missing or impossible data: the claim is weaker and has a doubt, or names the
//! missing data; it is never confident and wrong.

use std::collections::BTreeMap;

use model::result::{ProofAnswer, ResultDocument};
use model::verdict::InconclusiveReason;
use model::{
    DesignKind, DoubtKind, Ending, Experiment, Level, Missing, PROOF_SHARE, RunRecord, Settable, Shape,
    SourceState, SourceStatus, Study, Treatment, Verdict,
};

use super::read::{limit, unclear};
use crate::result;
use crate::simulate::{Simulated, carry_out, experiment, level, single, vary};

/// Eight users of a device that is the limit.
fn disk() -> Simulated {
    Simulated::closed_disk(8, 1.0, 0.2)
}

/// One run of it whose record `spoil` changes.
fn spoiled(spoil: impl FnOnce(&mut RunRecord)) -> ResultDocument {
    let mut study = single(&disk());
    spoil(&mut study.runs[0]);
    result(&study)
}

fn has(document: &ResultDocument, kind: DoubtKind, text: &str) -> bool {
    let trials = document.trials.iter().flat_map(|trial| &trial.doubts);
    trials.chain(&document.doubts).any(|doubt| doubt.kind == kind && doubt.text.contains(text))
}

#[test]
fn the_sound_record_is_judged() {
    let document = spoiled(|_| {});
    assert_eq!(limit(&document), "disk vda", "{document:?}");
    assert!(document.trials[0].doubts.is_empty(), "{:?}", document.trials[0].doubts);
}

#[test]
fn sources_that_could_not_be_read_are_what_is_missing() {
    let document = spoiled(|record| {
        record.readings = Default::default();
        let state = SourceState::Unavailable("permission denied".into());
        record.run.sources = vec![SourceStatus { source: "disk".into(), state }];
    });
    let disk = Missing::Source("disk".into());
    assert_eq!(unclear(&document).1, [disk, Missing::CpuUse, Missing::DeviceQueue]);
    assert!(has(&document, DoubtKind::MissingSource, "permission denied"));
}

#[test]
fn a_run_that_was_cut_short_is_not_judged() {
    let cut = |record: &mut RunRecord| {
        record.intervals.truncate(5);
        record.run.ending = Ending::Running;
    };
    let document = spoiled(cut);
    assert_eq!(unclear(&document), (&InconclusiveReason::NothingCompleted, &[Missing::CompletedTrial][..]));
    assert!(
        has(&document, DoubtKind::CutShort, "the run was killed: 5.00 s were measured"),
        "{:?}",
        document.trials
    );

    // Of two runs, the intact one is judged.
    let mut study = carry_out(experiment(Vec::new(), DesignKind::OneFactorAtATime, 2), |_| disk());
    cut(&mut study.runs[1]);
    let document = result(&study);
    assert_eq!(limit(&document), "disk vda");
    assert!(has(&document, DoubtKind::CutShort, "killed"));
}

#[test]
fn a_run_without_its_operations_is_not_judged() {
    let document = spoiled(|record| {
        record.intervals.clear();
        record.histograms.clear();
    });
    assert_eq!(unclear(&document), (&InconclusiveReason::NothingRecorded, &[Missing::Intervals][..]));
}

#[test]
fn readings_that_cannot_be_are_not_used_and_reported() {
    for (metric, value, verdict_stays) in [
        ("cpu.busy_share", 5e15, true),
        ("cpu.busy_share", -0.2, true),
        ("cpu.busy_share", f64::INFINITY, true),
        ("pressure.memory_some_share", 7.0, true),
        ("disk.queue_length", f64::NEG_INFINITY, false),
    ] {
        let document = spoiled(|record| {
            let at = record.readings.columns.iter().position(|column| column.metric.name == metric).unwrap();
            if metric == "disk.queue_length" {
                record.readings.columns[at].metric.kind = model::MetricKind::Mean;
            }
            record.readings.values[at].fill(value);
        });
        assert!(
            has(&document, DoubtKind::Damaged, &format!("counters have impossible values: {metric}")),
            "{metric} {value}"
        );
        match verdict_stays {
            true => assert_eq!(limit(&document), "disk vda", "{metric} {value}"),
            false => assert_eq!(unclear(&document).1, [Missing::DeviceQueue], "{metric} {value}"),
        }
    }
}

#[test]
fn a_counter_that_was_reset_in_the_middle_is_used_for_the_rest() {
    let document = spoiled(|record| {
        for values in &mut record.readings.values {
            values[7] = f64::NAN;
            values[8] = -1e9;
        }
        for column in record.readings.columns.iter_mut() {
            column.metric.kind = model::MetricKind::Rate;
        }
    });
    assert_eq!(limit(&document), "disk vda", "{:?}", document.verdict);
    assert!(has(&document, DoubtKind::Damaged, "counters have impossible values"));
    let busy = document.trials[0].resources.iter().find(|used| used.metric == "cpu.busy_share").unwrap();
    assert!((busy.mean - 0.14).abs() < 1e-12, "{busy:?}");
}

#[test]
fn lost_intervals_do_not_lower_the_rate() {
    let whole = spoiled(|_| {}).trials[0].whole().unwrap().rate_per_s;
    let document = spoiled(|record| drop(record.intervals.drain(5..12)));
    let found = document.trials[0].whole().unwrap().rate_per_s;
    assert!((found / whole - 1.0).abs() < 1e-9, "{found} {whole}");
    assert!(
        has(&document, DoubtKind::Damaged, "7.00 s of 20.0 s have no intervals"),
        "{:?}",
        document.trials[0].doubts
    );
    assert!(has(&document, DoubtKind::CutShort, "13.0 s were measured of the 20.0 s requested"));
}

#[test]
fn a_clock_that_jumps_is_doubted() {
    let shift = |record: &mut RunRecord, from: usize, by_s: f64| {
        for interval in &mut record.intervals[from..] {
            interval.begin_s += by_s;
            interval.end_s += by_s;
        }
    };
    let long = spoiled(|record| {
        shift(record, 10, 3600.0);
        record.intervals[9].end_s += 3600.0;
    });
    assert!(
        has(&long, DoubtKind::Clock, "an interval took 3,600 s instead of 1.00 s"),
        "{:?}",
        long.trials[0].doubts
    );
    let back = spoiled(|record| shift(record, 10, -4.0));
    assert!(
        has(&back, DoubtKind::Clock, "the clock went backwards by 4.00 s"),
        "{:?}",
        back.trials[0].doubts
    );
    let ahead = spoiled(|record| shift(record, 10, 3600.0));
    assert!(
        has(&ahead, DoubtKind::Damaged, "3,600 s of 3,620 s have no intervals"),
        "{:?}",
        ahead.trials[0].doubts
    );
}

#[test]
fn operations_that_fail_say_nothing() {
    for (share, expected, lacks) in [
        (1.0, InconclusiveReason::AllFailed, Missing::Success),
        (0.4, InconclusiveReason::TooManyFailed, Missing::FewerFailures),
    ] {
        let run = Simulated { failed_share: share, ..disk() };
        let document = result(&single(&run));
        assert_eq!(unclear(&document), (&expected, &[lacks][..]));
        assert!(has(&document, DoubtKind::Failures, "operations failed"));
    }
}

#[test]
fn one_pair_of_runs_gives_no_interval() {
    let swept = vary("workload.outstanding", Some(8), &[4]);
    let study = carry_out(experiment(vec![swept], DesignKind::OneFactorAtATime, 1), |treatment| {
        Simulated::closed_disk(level(treatment, "workload.outstanding", 8.0) as u32, 1.0, 0.2)
    });
    let document = result(&study);
    assert!(has(&document, DoubtKind::Replication, "one pair of trials"));
    let answered = document.comparison.iter().filter(|row| row.low.is_some() || row.high.is_some());
    assert_eq!(answered.count(), 0);
    assert!(
        document.comparison.iter().all(|row| row.answer == model::result::Answer::CantTell),
        "{:?}",
        document.comparison
    );
}

const CPU: &str = "host.cpu_quota";

fn proving() -> Experiment {
    Experiment { prove: true, ..experiment(Vec::new(), DesignKind::OneFactorAtATime, 1) }
}

/// A closed load whose throughput follows no resource, with its proof; `spoil` changes its trials.
fn proved(settable: &[(&str, Settable)], mut spoil: impl FnMut(&Treatment, &mut Simulated)) -> Study {
    carry_out(proving(), |treatment| {
        let mut run = Simulated::of(Shape::closed(16), 100.0, 160.0).http();
        run.rates.truncate(5);
        run.in_flight = 16.0;
        run.settable = settable
            .iter()
            .map(|(factor, how)| (factor.to_string(), how.clone()))
            .collect::<BTreeMap<_, _>>();
        spoil(treatment, &mut run);
        run
    })
}

fn yes() -> Settable {
    Settable::Yes {
        in_force: Level::Number(2.0),
        reduced: Some(Level::Number(2.0 * PROOF_SHARE)),
        raised: None,
    }
}

fn is_cut(treatment: &Treatment) -> bool {
    matches!(treatment, Treatment::Proof(_))
}

#[test]
fn a_proof_whose_trials_all_fail_proves_nothing() {
    let study = proved(&[(CPU, yes())], |treatment, run| {
        if is_cut(treatment) {
            run.ending = Ending::Failed("the target does not start".into());
        }
    });
    let document = result(&study);
    assert!(!matches!(document.verdict, Verdict::Bottleneck { .. }), "{:?}", document.verdict);
    assert_eq!(document.proof.as_ref().unwrap().rows[0].rounds, 0);
    let text = "the proof of host.cpu_quota has only 0 rounds: 2 of 2 trials with the reduced resource \
    did not complete, the first with: the target does not start";
    assert!(has(&document, DoubtKind::Replication, text), "{:?}", document.doubts);
}

#[test]
fn operations_that_fail_with_less_of_a_resource_do_not_prove_it() {
    // 30 % fail: exactly the loss of throughput if it followed.
    for share in [0.3, 1.0] {
        let study = proved(&[(CPU, yes())], |treatment, run| {
            if is_cut(treatment) {
                run.failed_share = share;
            }
        });
        let document = result(&study);
        let row = &document.proof.as_ref().unwrap().rows[0];
        assert_eq!((row.answer, row.rounds), (ProofAnswer::Unclear, 0), "{share}");
        assert!(!matches!(document.verdict, Verdict::Bottleneck { .. }), "{:?}", document.verdict);
        assert!(
            has(&document, DoubtKind::Failures, "of the proof more than 1.0 % of the operations failed"),
            "{:?}",
            document.doubts
        );
    }
}

#[test]
fn a_proof_that_is_not_there_is_reported_with_the_reason() {
    let cases: [(&str, Study); 3] = [
        (
            "no resource could be reduced",
            proved(&[("host.memory", Settable::No("no limit".into()))], |_, _| {}),
        ),
        ("no resource could be reduced", proved(&[], |_, _| {})),
        ("the record ends before its first round", {
            let mut study = proved(&[(CPU, yes())], |_, _| {});
            study.runs.truncate(1);
            study
        }),
    ];
    for (why, study) in cases {
        let document = result(&study);
        assert!(
            has(&document, DoubtKind::Replication, &format!("the requested proof was not possible: {why}")),
            "{why}: {:?}",
            document.doubts
        );
    }
    let mut study = proved(&[(CPU, yes())], |_, _| {});
    study.runs.truncate(1);
    study.runs[0].run.ending = Ending::Running;
    let document = result(&study);
    assert!(
        has(&document, DoubtKind::Replication, "no trial of the baseline completed"),
        "{:?}",
        document.doubts
    );
    assert_eq!(unclear(&document), (&InconclusiveReason::NothingCompleted, &[Missing::CompletedTrial][..]));
}
