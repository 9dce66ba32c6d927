//! Tests that the write-back cache of a copy is found with its rates, capacity and drain, and only where there is one.

use model::claim::ChangeCause;
use model::drain::{DrainEnd, DrainFacts, DrainHeld, DrainLevel};
use model::result::ResultDocument;
use model::{
    BytesGoal, CachePlace, Claim, CopyResult, DesignKind, Level, Phase, PhaseSpan, SettingPath, Study,
    Treatment, Variation, WriteCache,
};

use crate::random::Random;
use crate::result;
use crate::simulate::{Simulated, carry_out, experiment, single};
use crate::sizing::copy_time;

fn text(text: &str) -> Level {
    Level::Text(text.into())
}

/// A copy of generated data to vda with a rate in MB/s in each second, 3 % of noise around it, and the device's writes.
fn copied(cache: &str, rates: &[f64], written: &[f64]) -> Simulated {
    let mut run = Simulated::closed_disk(4, 1.0, 0.0);
    (run.workload, run.operation, run.bytes) = ("copy", "copy", 1_000_000);
    run.facts.clear();
    let mut random = Random::new(3);
    run.rates = rates.iter().map(|rate| rate * (1.0 + 0.03 * (random.unit() - 0.5))).collect();
    let written: Vec<f64> = written.iter().map(|rate| rate * 1e6).collect();
    run.fact("cache", text(cache))
        .fact("source.device", text("generated"))
        .fact("destination.device", text("vda"))
        .counter("disk.write_bytes_per_s", "vda", &written)
}

const PAGE_CACHE: &str = "page-cache, without what was cached of the source before";

fn two(fast: (usize, f64), slow: (usize, f64)) -> Vec<f64> {
    [vec![fast.1; fast.0], vec![slow.1; slow.0]].concat()
}

fn drain(held: Option<(u64, u64)>) -> DrainFacts {
    DrainFacts {
        end: DrainEnd::Rest,
        devices: vec!["vda".into()],
        before: Some(DrainLevel { unwritten_bytes: 1e8, written_bytes_per_s: 0.0 }),
        held: held.map(|(most_bytes, left_bytes)| DrainHeld { most_bytes, left_bytes }),
    }
}

/// Adds a cool-down of so many seconds, with these writes of the device in MB/s and this dirty memory in MB.
fn cool_down(study: &mut Study, writes: &[f64], dirty: &[f64]) {
    let record = &mut study.runs[0];
    let begin_s = record.run.phases[0].end_s;
    let end_s = begin_s + writes.len() as f64;
    record.run.phases.push(PhaseSpan { phase: Phase::CoolDown, begin_s, end_s });
    let table = &mut record.readings;
    for (at, written) in writes.iter().enumerate() {
        table.begin_s.push(begin_s + at as f64);
        table.end_s.push(begin_s + at as f64 + 1.0);
        for (column, values) in table.columns.iter().zip(&mut table.values) {
            values.push(match column.metric.name.as_ref() {
                "disk.write_bytes_per_s" => written * 1e6,
                "memory.dirty_bytes" => dirty[at] * 1e6,
                _ => *values.last().unwrap(),
            });
        }
    }
}

fn copy_of(document: &ResultDocument) -> &CopyResult {
    document.trials[0].copy.as_ref().unwrap()
}

fn claimed(document: &ResultDocument) -> Option<WriteCache> {
    document.findings.iter().find_map(|finding| match finding.claim {
        Claim::WriteCache { cache, .. } => Some(cache),
        _ => None,
    })
}

fn near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 0.03
}

/// 8 s at 500 MB/s, 20 s at 50 MB/s, which the device writes from the first second on: 3.6 GB stay in memory.
fn page_cache() -> Simulated {
    copied(PAGE_CACHE, &two((8, 500.0), (20, 50.0)), &[50.0])
}

#[test]
fn the_page_cache_has_both_rates_its_capacity_and_its_drain() {
    let run = page_cache().drain(&drain(Some((3_600_000_000, 3_500_000_000))));
    let mut study = single(&run);
    // The kernel waits 5 s, then 70 s of writes; the last two samples show the rest.
    let writes = [vec![0.0; 5], vec![50.0; 70], vec![0.0; 2]].concat();
    cool_down(&mut study, &writes, &vec![0.0; writes.len()]);
    let document = result(&study);
    let cache = claimed(&document).unwrap();
    assert_eq!((cache.place, cache.full_at_s), (CachePlace::PageCache, Some(9.0)));
    assert!(near(cache.into_bytes_per_s, 5e8) && near(cache.accepted_bytes.value, 4e9), "{cache:?}");
    assert!(cache.accepted_bytes.low < 4e9 && cache.accepted_bytes.high > 4e9, "{cache:?}");
    let past = cache.past_bytes_per_s.unwrap();
    assert!(past.low < 5e7 && 5e7 < past.high && past.high < 5.2e7, "{past:?}");
    assert_eq!(cache.capacity_bytes.value, 3.6e9);
    let drain = copy_of(&document).drain.unwrap();
    assert_eq!((drain.begin_s, drain.end_s, drain.writing_s), (29.0, 106.0, 70.0));
    assert!(near(drain.bytes, 3.5e9) && near(drain.bytes_per_s.unwrap(), 5e7), "{drain:?}");
    assert!(document.trials[0].doubts.iter().all(|doubt| doubt.kind != model::DoubtKind::Unsteady));
}

#[test]
fn without_known_files_the_memory_of_the_host_shows_it() {
    let dirty: Vec<f64> = (1..=28).map(|s| 1e8 + 3.6e9 * f64::from(s.min(8)) / 8.0).collect();
    let run = page_cache().counter("memory.dirty_bytes", "", &dirty).drain(&drain(None));
    let mut study = single(&run);
    cool_down(&mut study, &[50.0, 50.0, 50.0, 0.0, 0.0], &[3700.0, 3650.0, 110.0, 105.0, 100.0]);
    let document = result(&study);
    let cache = claimed(&document).unwrap();
    assert_eq!((cache.place, cache.capacity_bytes.value), (CachePlace::PageCache, 3.6e9));
    assert_eq!(copy_of(&document).drain.unwrap().length_s(), 3.0);
}

#[test]
fn a_copy_that_ends_before_the_cache_is_full_gives_lower_bounds() {
    let run = copied(PAGE_CACHE, &[500.0; 12], &[50.0]).drain(&drain(Some((5_400_000_000, 5_400_000_000))));
    let document = result(&single(&run));
    let cache = claimed(&document).unwrap();
    assert_eq!((cache.full_at_s, cache.past_bytes_per_s), (None, None));
    assert_eq!((cache.accepted_bytes.value, cache.capacity_bytes.value), (copy_of(&document).bytes, 5.4e9));
    // Data that is written as it is copied is in no cache.
    let direct = copied("direct", &[500.0; 12], &[500.0]).drain(&drain(Some((0, 0))));
    let document = result(&single(&direct));
    assert_eq!((copy_of(&document).cache, claimed(&document)), (None, None));
    assert_eq!(copy_of(&document).drain.unwrap().length_s(), 0.0);
}

#[test]
fn a_cache_below_the_operating_system_is_inferred_from_the_rate_of_the_device() {
    let rates = two((8, 500.0), (20, 50.0));
    let found = |run: &Simulated| {
        let document = result(&single(run));
        (claimed(&document).map(|cache| cache.place), document)
    };
    let run = copied("direct", &rates, &rates);
    let (place, document) = found(&run);
    assert_eq!(place, Some(CachePlace::BelowSystem));
    // 4 GB were accepted, of which 0.4 GB may have been drained meanwhile.
    let capacity = claimed(&document).unwrap().capacity_bytes;
    assert!(near(capacity.value, 3.6e9) && capacity.low < 3.6e9 && capacity.high > 4e9, "{capacity:?}");

    let cause = |document: &ResultDocument| {
        document.findings.iter().find_map(|finding| match finding.claim {
            Claim::RateChanged { cause, .. } => Some(cause),
            _ => None,
        })
    };
    // Not where the device did something else, where the threads of the load were the limit, or where reads became slower.
    let elsewhere = copied("direct", &rates, &[50.0]);
    let mut busy = run.clone();
    busy.generator = (0.9, 0.02);
    let read = |reads: &[f64], writes: &[f64]| {
        run.clone().fact("source.device", text("sdb")).counter("disk.read_s", "sdb", reads).counter(
            "disk.write_s",
            "vda",
            writes,
        )
    };
    let slower = two((8, 1e-3), (20, 2e-2));
    for (what, run, expected) in [
        ("another rate of the device", &elsewhere, None),
        ("a busy generator", &busy, None),
        ("slower reads", &read(&slower, &[1e-3]), None),
        ("slower writes", &read(&[1e-3], &slower), Some(CachePlace::BelowSystem)),
    ] {
        let (place, document) = found(run);
        assert_eq!(place, expected, "{what}");
        if expected.is_none() {
            assert_eq!(cause(&document), Some(ChangeCause::NotShown), "{what}");
            // Both rates are known all the same.
            assert_eq!(copy_of(&document).cache.unwrap().place, CachePlace::NotShown, "{what}");
        }
    }
}

#[test]
fn a_share_has_no_device_to_follow() {
    let rates = two((8, 500.0), (20, 50.0));
    let share = copied("direct", &rates, &[0.0])
        .fact("destination.device", text("none"))
        .fact("destination.medium", text("network"))
        .fact("destination.mount", text("nfs4 (nas1:/export at /mnt/nfs)"));
    let document = result(&single(&share));
    assert_eq!(claimed(&document).unwrap().place, CachePlace::BelowSystem);
    let doubts = &document.trials[0].doubts;
    let doubt = doubts.iter().find(|doubt| doubt.kind == model::DoubtKind::NotTheDevice).unwrap();
    assert!(doubt.text.starts_with("the destination is on nfs4 (nas1:/export at /mnt/nfs)"), "{doubt:?}");
}

#[test]
fn a_short_or_gradual_early_drop_is_found_too() {
    let rates = |first: &[f64], rest: usize| [first, &vec![50.0; rest]].concat();
    for (what, rates, found) in [
        ("one second", rates(&[480.0], 14), true),
        ("a gradual drop", rates(&[204.0, 325.0, 84.0, 63.0, 57.0], 15), true),
        ("one second that is hardly faster", rates(&[70.0], 14), false),
        ("too short a copy", rates(&[480.0], 4), false),
        ("a steady copy", rates(&[], 20), false),
    ] {
        let document = result(&single(&copied("direct", &rates, &rates)));
        assert_eq!(copy_of(&document).cache.is_some(), found, "{what}");
    }
}

fn seconds(document: &ResultDocument, goal: &str) -> model::CopyTime {
    copy_time(document, &BytesGoal::parse(goal).unwrap()).configurations.remove(0)
}

#[test]
fn the_time_of_more_bytes_follows_from_both_rates() {
    let rates = two((8, 500.0), (20, 50.0));
    let document = result(&single(&copied("direct", &rates, &rates)));
    let time = seconds(&document, "10TB");
    // 4 GB in 8 s, the rest at 50 MB/s.
    assert!(near(time.seconds.value, 8.0 + (10e12 - 4e9) / 50e6), "{time:?}");
    assert!(time.seconds.low < time.seconds.value && time.seconds.value < time.seconds.high);
    assert!(time.extrapolated && !time.assumptions.is_empty());
    // What fits into the cache takes its rate, and is no extrapolation.
    let time = seconds(&document, "2GB");
    assert!(near(time.seconds.value, 4.0) && !time.extrapolated, "{time:?}");

    // The published 10 TB at 20 MB/s, in binary units: 524,288 s.
    let mut steady = copied("direct", &[20.0; 20], &[20.0]);
    steady.bytes = 1 << 20;
    let time = seconds(&result(&single(&steady)), "10TiB");
    assert!(near(time.seconds.value, 524_288.0), "{time:?}");
    assert!(time.warnings.iter().any(|note| matches!(note, model::copy_time::CopyNote::LargerCache { .. })));
    let none = copy_time(&result(&Study::default()), &BytesGoal::parse("1GB").unwrap());
    assert!(none.configurations.is_empty() && !none.refusal.is_empty());
}

/// The published parity layout, MB/s: 43.5 without a cache; with one of 100 MB, 225 into it and `past` past it.
fn parity(past: f64, replicates: u32) -> ResultDocument {
    let vary = Variation {
        factor: SettingPath("workload.cache".into()),
        baseline: Some(text("direct")),
        levels: vec![text("page-cache")],
        on: None,
        parameters: Default::default(),
        line: 0,
    };
    let mut plan = experiment(vec![vary], DesignKind::OneFactorAtATime, replicates);
    plan.workload.kind = "copy".into();
    let (with, without) = (two((4, 225.0), (40, past)), [43.5; 44]);
    let mut random = Random::new(5);
    let study = carry_out(plan, |treatment| {
        let mut run = match treatment {
            Treatment::Baseline => copied("direct", &without, &without),
            _ => copied(PAGE_CACHE, &with, &[past]).drain(&drain(Some((800_000_000, 0)))),
        };
        let is_baseline = *treatment == Treatment::Baseline;
        let cache = if is_baseline { "direct" } else { "page-cache" };
        run.asked.insert("workload.cache".into(), text(cache));
        run.times(1.0 + 0.02 * random.unit())
    });
    result(&study)
}

#[test]
fn a_cache_that_costs_more_than_none_is_reported_with_its_break_even() {
    let costs = |document: &ResultDocument| {
        document.findings.iter().find_map(|finding| match &finding.claim {
            claim @ Claim::CacheCosts { .. } => Some(claim.clone()),
            _ => None,
        })
    };
    let document = parity(26.1, 3);
    let Some(Claim::CacheCosts { configuration, without, ratio, break_even_bytes, .. }) = costs(&document)
    else {
        panic!("{:?}", document.findings)
    };
    assert_eq!((configuration.as_str(), without.as_str()), ("cache=page-cache", "cache=direct"));
    assert!(near(ratio.value, 26.1 / 43.5) && ratio.high < 1.0, "{ratio:?}");
    // 900 MB are accepted at 225 MB/s: 900 (1/26.1 - 1/225) / (1/26.1 - 1/43.5) MB.
    assert!(near(break_even_bytes, 1.989e9), "{break_even_bytes}");
    assert_eq!(costs(&parity(43.5, 3)), None, "the same rate");
    assert_eq!(costs(&parity(60.0, 3)), None, "a faster one");
    assert_eq!(costs(&parity(26.1, 1)), None, "one pair has no interval");
}
