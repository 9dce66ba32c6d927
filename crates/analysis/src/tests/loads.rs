//! Tests of sweeps over a load, limits that differ between configurations, a starved load generator, and a
//! copy within a device.

use model::claim::{LoadSweep, Starvation};
use model::result::ResultDocument;
use model::{Claim, DesignKind, Detector, FindingKind, Level, Verdict};

use super::attribution::copy;
use super::read::{about, found, limit, rests_on, shown};
use super::services::service;
use crate::result;
use crate::simulate::{Simulated, carry_out, experiment, level, single, vary};

/// A sweep over operations in flight, each with its throughput; the first one is the baseline.
fn swept(points: &[(u64, f64)]) -> ResultDocument {
    let levels: Vec<u64> = points[1..].iter().map(|(depth, _)| *depth).collect();
    let axis = vary("workload.outstanding", Some(points[0].0), &levels);
    result(&carry_out(experiment(vec![axis], DesignKind::OneFactorAtATime, 1), |treatment| {
        let depth = level(treatment, "workload.outstanding", points[0].0 as f64);
        let (_, rate) = points.iter().find(|(at, _)| *at as f64 == depth).unwrap();
        let mut run = Simulated::closed_disk(1, 1.0, 0.0);
        (run.in_flight, run.response_ms) = (depth, depth / rate * 1e3);
        run.times(rate / 1e3)
    }))
}

fn sweep(document: &ResultDocument) -> &LoadSweep {
    match found(document, Detector::Load).map(|finding| (&finding.kind, &finding.claim)) {
        Some((FindingKind::Observation, Claim::LoadSweep(sweep))) => sweep,
        other => panic!("{other:?}"),
    }
}

/// The load with nearly the highest throughput, and the load with the highest one.
fn knee_and_peak(points: &[(u64, f64)]) -> (Option<String>, String) {
    let document = swept(points);
    let sweep = sweep(&document);
    (sweep.knee.as_ref().map(|knee| knee.label.clone()), sweep.peak.label.clone())
}

#[test]
fn the_knee_of_a_sweep_is_the_smallest_load_with_nearly_all_throughput() {
    let points = [(1, 100.0), (2, 190.0), (4, 200.0), (8, 150.0)];
    assert_eq!(knee_and_peak(&points), (Some("2".into()), "4".into()));
    insta::assert_snapshot!(shown(sweep(&swept(&points))), @r#"{"below_knee":{"bytes_per_s":410000.0,"label":"1","mean_ms":9.97,"p99_ms":42.0,"rate_per_s":100.0},"factor":"workload.outstanding","first":{"bytes_per_s":410000.0,"label":"1","mean_ms":9.97,"p99_ms":42.0,"rate_per_s":100.0},"knee":{"bytes_per_s":778000.0,"label":"2","mean_ms":10.5,"p99_ms":44.2,"rate_per_s":190.0},"last":{"bytes_per_s":614000.0,"label":"8","mean_ms":53.1,"p99_ms":224.0,"rate_per_s":150.0},"peak":{"bytes_per_s":819000.0,"label":"4","mean_ms":19.9,"p99_ms":84.0,"rate_per_s":200.0},"series":""}"#);
    // 90 % of the highest throughput counts as nearly all; less does not.
    let points = [(1, 100.0), (2, 179.0), (4, 199.0), (8, 200.0)];
    assert_eq!(knee_and_peak(&points), (Some("4".into()), "8".into()));
}

#[test]
fn throughput_that_still_grows_has_no_knee() {
    let points = [(1, 100.0), (2, 190.0), (4, 350.0)];
    assert_eq!(knee_and_peak(&points), (None, "4".into()));
    // A factor that is not a load has no sweep over load.
    let axis = vec![vary("host.cpus", Some(1), &[2])];
    let study =
        carry_out(experiment(axis, DesignKind::OneFactorAtATime, 1), |_| Simulated::closed_disk(8, 1.0, 0.0));
    assert_eq!(found(&result(&study), Detector::Load), None);
}

/// One CPU is too few; with two every thread is at work.
#[test]
fn each_configuration_has_its_own_limit() {
    let axis = vec![vary("host.cpus", Some(1), &[2])];
    let study = carry_out(experiment(axis, DesignKind::OneFactorAtATime, 2), |treatment| {
        let cpus = level(treatment, "host.cpus", 1.0);
        let mut run = match cpus > 1.0 {
            false => service(
                16.0,
                159.0,
                &[
                    ("process.busy_cpus", 0.82),
                    ("process.run_queue_length", 15.3),
                    ("process.running_threads", 16.0),
                    ("process.accept_queue_connections", 15.6),
                ],
            ),
            true => service(
                8.0,
                391.0,
                &[("process.timer_wait_threads", 8.0), ("process.accept_queue_connections", 24.0)],
            ),
        };
        run.in_force.insert("host.cpus".into(), Level::Count(cpus as u64));
        run
    });
    let document = result(&study);
    let limits: Vec<(&str, String)> = document
        .configurations
        .iter()
        .map(|one| {
            let resource = one.verdict.as_ref().and_then(Verdict::resource);
            (one.treatment.label.as_str(), resource.map(ToString::to_string).unwrap_or_default())
        })
        .collect();
    assert_eq!(limits, [("baseline", "cpu of svc".into()), ("host.cpus=2", "worker pool of svc".into())]);
    // The limit of the experiment is that of its baseline.
    assert_eq!(limit(&document), "cpu of svc");
    // Each one is based on a finding about its own trials.
    for (configuration, resource) in document.configurations.iter().zip(["cpu of svc", "worker pool of svc"])
    {
        let finding = about(&document, resource).unwrap();
        assert_eq!((&finding.trials, finding.of_trials), (&configuration.trials, 4));
    }
}

#[test]
fn a_starved_generator_is_the_limit() {
    let driven = |ran: f64, waited: f64| {
        let run = Simulated::closed_disk(32, 0.0163, 0.003);
        Simulated { generator: (ran, waited), ..run }
    };
    let throttled = |share: f64| driven(0.2, 0.01).counter("process.throttled_share", "self", &[share]);
    for (run, expected) in [
        (throttled(0.6), Some(Starvation::CpuQuota(0.6))),
        (throttled(0.4), None),
        // A quarter of the time, and half of the time that it wanted to run.
        (driven(0.094, 0.37), Some(Starvation::OtherProcesses(0.37))),
        (driven(0.2, 0.26), Some(Starvation::OtherProcesses(0.26))),
        (driven(0.3, 0.26), None),
        (driven(0.1, 0.24), None),
    ] {
        let document = result(&single(&run));
        match expected {
            None => assert_eq!(limit(&document), "disk vda", "{:?}", run.generator),
            Some(expected) => {
                assert!(matches!(document.verdict, Verdict::GeneratorBound { .. }), "{:?}", document.verdict);
                let Claim::Generator { starved_by, .. } = &rests_on(&document).claim else { panic!() };
                assert_eq!(shown(starved_by), shown(&Some(expected)));
            }
        }
    }
}

/// A copy within a device transfers each byte twice, which is not caused by others.
#[test]
fn a_copy_within_a_device_does_not_share_it() {
    let text = |text: &str| Level::Text(text.into());
    let copied = |source: &str, read_share: f64| {
        let mut run = copy();
        run.rates = vec![200.0; 20];
        let written = run.rates[0] * run.bytes as f64;
        let run = run
            .fact("cache", text("direct"))
            .fact("source.device", text(source))
            .fact("destination.device", text("vda2"))
            .counter("disk.read_bytes_per_s", "vda", &[read_share * written])
            .counter("disk.write_bytes_per_s", "vda", &[written]);
        result(&single(&run))
    };
    let shared = |document: &ResultDocument| {
        document.findings.iter().find_map(|finding| match finding.claim {
            Claim::DeviceShared { factor } => Some((factor * 100.0).round() / 100.0),
            _ => None,
        })
    };
    assert_eq!(shared(&copied("vda1", 1.0)), None);
    assert_eq!(shared(&copied("sdb1", 0.0)), None);
    // Another process reads from it.
    assert_eq!(shared(&copied("sdb1", 1.0)), Some(2.0));
    assert_eq!(shared(&copied("vda1", 2.0)), Some(1.5));
    // It is the limit like a device that is not shared.
    assert_eq!(limit(&copied("vda1", 1.0)), "disk vda");
}
