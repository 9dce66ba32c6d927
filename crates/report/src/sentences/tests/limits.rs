//! What limits now: each configuration and step in few words, alike in the table, the headline and the JSON.

use std::collections::BTreeMap;

use model::resource::Detail;
use model::result::{Configuration, Operation, RESULT_FORMAT, StepVerdict, TreatmentResult};
use model::run::{OperationUnit, WorkloadTraits};
use model::{Change, Host, SettingPath};

use super::*;
use crate::recorded;
use crate::sentences::{closest, limit_words, use_words};
use crate::tables;

fn bottleneck(resource: Resource, finding: usize) -> Verdict {
    let limit = Limit::One { resource, close_above: Vec::new() };
    Verdict::Bottleneck { limit, finding: Some(finding), proved: false }
}

fn flushes() -> Resource {
    Resource::of_process(ResourceClass::Disk, "metadir").with(Detail::Flushes)
}

fn one_core() -> Resource {
    Resource::of_process(ResourceClass::SingleThread, "metadir")
}

fn next(resource: Resource, metric: &str, instance: &str, share: f64) -> Option<Closest> {
    Some(Closest { metric: metric.into(), instance: instance.into(), share, resource: Some(resource) })
}

fn step(name: &str, busy_s: f64, verdict: Verdict, used: Option<f64>, next: Option<Closest>) -> StepVerdict {
    StepVerdict { operation: Operation::Named(name.into()), busy_s, verdict, used, next }
}

/// A synchronization with two sizes of a commit: staging waits for flushes with the small one, and computes with the large one.
fn document() -> ResultDocument {
    let of = |about: Resource, step: &str, trials: &[&str], used: f64, state| Finding {
        step: Some(Operation::Named(step.into())),
        trials: trials.iter().map(|id| id.to_string()).collect(),
        used: vec![used; trials.len()],
        of_trials: 2,
        ..found(
            FindingKind::Limits,
            Some(about),
            Claim::Service(ServiceClaim {
                process: "metadir".into(),
                threads: 4.0,
                at_work: 1.0,
                used_cpus: 0.97,
                accept_queue: None,
                host_cpu_share: None,
                between_pauses: false,
                state,
            }),
        )
    };
    let busy =
        ServiceState::SingleThread { busiest_thread_cpus: 0.97, ready_threads: 0.01, lock_threads: None };
    let waits = ServiceState::Files { threads: 0.92, flushes: true, limit: None, serial_flushes: None };
    let findings = vec![
        of(flushes(), "staging", &["a"], 0.92, waits),
        of(one_core(), "staging", &["b"], 0.94, busy.clone()),
        of(one_core(), "synchronization", &["a", "b"], 0.97, busy),
    ];
    let writes = || next(Resource::disk("vda").with(Detail::Writes), "disk.utilization_share", "vda", 0.41);
    let thread = next(one_core(), "process.busiest_thread_cpus", "metadir", 0.25);
    let configuration =
        |label: &str, id: &str, commit: Option<u64>, rates: [f64; 2], staging: StepVerdict| {
            let change = |commit| Change {
                factor: SettingPath("workload.commit_objects".into()),
                level: Level::Count(commit),
            };
            let medians = ["staging.rate_per_s", "synchronization.rate_per_s"].map(String::from);
            let steps =
                vec![staging, step("synchronization", 2.0, bottleneck(one_core(), 2), Some(0.97), writes())];
            let longest = steps[0].clone();
            Configuration {
                treatment: TreatmentResult {
                    label: label.into(),
                    changes: commit.into_iter().map(change).collect(),
                    levels: vec![change(commit.unwrap_or(10))],
                    is_side: false,
                },
                trials: vec![id.into()],
                medians: BTreeMap::from_iter(medians.into_iter().zip(rates)),
                verdict: Some(longest.verdict),
                used: longest.used,
                next: longest.next,
                steps,
                ..Configuration::default()
            }
        };
    let waiting = step("staging", 8.0, bottleneck(flushes(), 0), Some(0.92), thread);
    let computing = step("staging", 3.0, bottleneck(one_core(), 1), Some(0.94), writes());
    let baseline = configuration("baseline", "a", None, [2660.0, 9100.0], waiting);
    let other = configuration("workload.commit_objects=10000", "b", Some(10_000), [332e3, 9000.0], computing);
    ResultDocument {
        format: RESULT_FORMAT.into(),
        run: "runs/a".into(),
        experiment: "commit".into(),
        workload: "sync".into(),
        origin: Default::default(),
        traits: WorkloadTraits { unit: OperationUnit::Object, ..WorkloadTraits::default() },
        load: String::new(),
        host: Host::default(),
        trials: Vec::new(),
        verdict: bottleneck(flushes(), 0),
        configurations: vec![baseline, other],
        comparison: Vec::new(),
        differences: Vec::new(),
        curves: Vec::new(),
        published: Vec::new(),
        limit: None,
        sensitivity: Vec::new(),
        request_steps: Vec::new(),
        beside: Vec::new(),
        published_changes: Vec::new(),
        published_times: Vec::new(),
        thresholds: Vec::new(),
        findings,
        proof: None,
        doubts: Vec::new(),
        gate: None,
        unfinished: None,
        goal: None,
    }
}

#[test]
fn each_step_has_a_row_and_the_headline_says_where_the_limit_moved() {
    let document = document();
    insta::assert_snapshot!(tables::limits(&document).unwrap().lines(100).join("\n"));
    let headline = headline(&document);
    insta::assert_snapshot!("headline", headline.limits.join("\n"));
    assert_eq!(headline.said, [0]);
    let json: serde_json::Value = serde_json::from_str(&crate::json(&document)).unwrap();
    let step = &json["configurations"][1]["steps"][0];
    assert_eq!(step["operation"], "staging");
    assert_eq!(step["next"]["text"], "vda writes at 41 %");
    assert_eq!(step["verdict"]["resource"], "single thread of metadir");
    assert!(json["findings"][0]["text"].as_str().unwrap().starts_with("Staging: The disk limited metadir"));
    let page = crate::markdown(&document);
    assert!(page.contains("| flushes of metadir |"), "{page}");
}

#[test]
fn one_configuration_has_a_row_for_each_step() {
    let mut document = document();
    document.configurations.truncate(1);
    insta::assert_snapshot!(tables::limits(&document).unwrap().lines(100).join("\n"));
    let limits = headline(&document).limits;
    assert_eq!(limits[1..], ["Synchronization limited by CPU of metadir (one core)."], "{limits:?}");
    // Without steps there is nothing to list.
    document.configurations[0].steps.clear();
    assert_eq!(tables::limits(&document), None);
    let limits = headline(&document).limits;
    assert_eq!(limits.len(), 1);
    assert!(limits[0].ends_with(" Next limit: CPU of metadir (one core) at 25 %."), "{limits:?}");
}

#[test]
fn resources_in_the_words_of_the_field() {
    use ResourceClass::{Cpu, CpuQuota, Disk, Downstream, IoLimit, Lock, Memory, WorkerPool};
    let address =
        Resource { class: Downstream, of: Some(Owner::Address("db:5432".into())), host: None, detail: None };
    let setting = Resource {
        class: IoLimit,
        of: Some(Owner::Setting("host.disk.io_limit".into())),
        host: None,
        detail: None,
    };
    for (resource, words) in [
        (Resource::of_host(Cpu), "CPU"),
        (Resource::of_process(Cpu, "slapd"), "CPU of slapd"),
        (Resource::of_process(CpuQuota, "slapd"), "CPU quota of slapd"),
        (one_core(), "CPU of metadir (one core)"),
        (Resource::of_host(Memory), "memory"),
        (Resource::disk("vda"), "disk vda"),
        (Resource::disk("sda").on("db1"), "disk sda of db1"),
        (Resource::disk("sda").with(Detail::Writes).on("db1"), "sda writes of db1"),
        (Resource::of_host(Cpu).on("db1"), "CPU of db1"),
        (Resource::of_host(Memory).on("db1"), "memory of db1"),
        (Resource::disk("vda").with(Detail::Flushes), "vda flushes"),
        (flushes(), "flushes of metadir"),
        (Resource::of_process(Disk, "slapd").with(Detail::Transfers), "reads and writes of slapd"),
        (Resource::of_process(Lock, "slapd"), "lock of slapd"),
        (Resource::of_process(WorkerPool, "slapd"), "worker pool of slapd"),
        (address, "answers of db:5432"),
        (setting, "I/O limit of host.disk.io_limit"),
    ] {
        assert_eq!(limit_words(&bottleneck(resource.clone(), 0), &recorded::run("disk").document), words);
        let used =
            Closest { metric: "m".into(), instance: String::new(), share: 0.5, resource: Some(resource) };
        assert_eq!(closest(&used), format!("{words} at 50 %"));
    }
}

#[test]
fn use_is_said_in_the_words_of_the_claim() {
    let stage = |stage| service(ServiceState::Pipeline { stage, busy_share: 0.97, cpu_share: 0.9 });
    for (claim, words) in [
        // Running, or ready to run and waiting for a CPU.
        (stage(Stage::Cpu), "97 % of time"),
        (stage(Stage::Flushes), "97 % of time"),
        (
            service(ServiceState::SingleThread {
                busiest_thread_cpus: 0.97,
                ready_threads: 0.01,
                lock_threads: None,
            }),
            "0.97 of a CPU",
        ),
        (
            service(ServiceState::Throttled { quota_cpus: 1.5, throttled_share: 0.97 }),
            "throttled 97 % of periods",
        ),
        (
            service(ServiceState::AllThreadsAtWork { most: ThreadState::Asleep, threads: 4.0 }),
            "no thread idle",
        ),
        (Claim::Device(device(31.0, None)), "97 % of time"),
        (Claim::CpusUsed { process: "slapd".into(), used_cpus: 3.9, allowed_cpus: 4.0 }, "97 % of the CPUs"),
        (Claim::IoLimitReached(reached("disk.writes_per_s", 500.0, 485.0)), "97 % of the limit"),
    ] {
        assert_eq!(use_words(&claim, 0.97), words);
    }
}
