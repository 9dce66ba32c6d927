//! Tests that a proof finds the known elasticities of systems and draws the right conclusion.

use std::collections::BTreeMap;

use model::result::{Direction, ProofAnswer, ProofRow, ResultDocument};
use model::verdict::{JointEvidence, Limit};
use model::{
    DesignKind, Experiment, HostResource, Level, PROOF_SHARE, Resource, ResourceClass, Settable, Shape,
    Study, Treatment, Verdict,
};

use super::read::limit;
use crate::result;
use crate::simulate::{Noise, Simulated, carry_out, experiment, level, vary};

const CPU: &str = "host.cpu_quota";
const DISK: &str = "host.disk.io_limit";
const MEMORY: &str = "host.memory";
const USERS: u32 = 16;

fn proving(seed: u64) -> Experiment {
    let swept = vary("load.closed", Some(USERS.into()), &[4, 8]);
    Experiment { prove: true, seed, ..experiment(vec![swept], DesignKind::OneFactorAtATime, 1) }
}

/// A factor and its possible levels: a lower one, and a higher one if there is more.
fn settable(factor: &str, in_force: f64, has_more: bool) -> (String, Settable) {
    let level = |amount: f64| match factor {
        DISK => Level::Rate(amount),
        MEMORY => Level::Bytes(amount as u64),
        _ => Level::Number(amount),
    };
    let how = Settable::Yes {
        in_force: level(in_force),
        reduced: Some(level(in_force * PROOF_SHARE)),
        raised: has_more.then(|| level(in_force / PROOF_SHARE)),
    };
    (factor.into(), how)
}

/// Throughput of a closed system of two queues and a pool of `slots` that each operation holds for `hold_s`:
/// exact mean value analysis of the queues, bounded by the pool.
fn throughput(users: u32, cpu_s: f64, disk_s: f64, slots: f64, hold_s: f64) -> f64 {
    let (mut cpu, mut disk, mut rate) = (0.0, 0.0, 0.0);
    for n in 1..=users {
        let (at_cpu, at_disk) = (cpu_s * (1.0 + cpu), disk_s * (1.0 + disk));
        rate = f64::from(n) / (at_cpu + at_disk + hold_s);
        (cpu, disk) = (rate * at_cpu, rate * at_disk);
    }
    if hold_s > 0.0 { rate.min(slots / hold_s) } else { rate }
}

/// Executes the experiment and its proof on such a system, with noise.
fn proved(seed: u64, cpu_s: f64, disk_s: f64, slots: f64, hold_s: f64, quiet: bool) -> ResultDocument {
    let mut noise = Noise::new(seed, 60);
    let study = carry_out(proving(seed), |treatment| {
        let left = |factor: &str, in_force: f64| level(treatment, factor, in_force) / in_force;
        let users = level(treatment, "load.closed", USERS.into()) as u32;
        let rate = throughput(users, cpu_s / left(CPU, 2.0), disk_s / left(DISK, 1000.0), slots, hold_s);
        // The noise of one pair, without other noise.
        let noise = if quiet { 1.0 + 0.02 * (noise.next() - 1.0) } else { noise.next() };
        let response_ms = f64::from(users) / rate * 1e3;
        let mut run = Simulated::of(Shape::closed(users.into()), rate * noise, response_ms).http();
        run.rates.truncate(2);
        run.in_flight = users.into();
        run.settable = BTreeMap::from([
            settable(CPU, 2.0, false),
            settable(DISK, 1000.0, false),
            (MEMORY.to_string(), Settable::No("there is no limit".into())),
        ]);
        run
    });
    result(&study)
}

#[test]
fn the_elasticities_are_those_of_the_queues() {
    for (cpu_s, disk_s) in [(0.008, 0.002), (0.002, 0.008), (0.008, 0.007), (0.010, 0.010)] {
        let truth = |cpu: f64, disk: f64| {
            let at = |cpu: f64, disk: f64| throughput(USERS, cpu_s / cpu, disk_s / disk, 1.0, 0.0);
            (at(cpu, disk) / at(1.0, 1.0)).ln() / PROOF_SHARE.ln()
        };
        let document = proved(7, cpu_s, disk_s, 1.0, 0.0, true);
        let proof = document.proof.unwrap();
        for (row, truth) in proof.rows.iter().zip([truth(PROOF_SHARE, 1.0), truth(1.0, PROOF_SHARE)]) {
            let found = row.elasticity.unwrap();
            assert!((found.value - truth).abs() < 0.02, "{} {found:?} {truth}", row.factor);
        }
        assert_eq!(proof.not_varied.len(), 1);
    }
}

#[test]
fn what_throughput_follows_is_confirmed_and_named() {
    let document = proved(3, 0.010, 0.002, 1.0, 0.0, false);
    let answers: Vec<ProofAnswer> =
        document.proof.as_ref().unwrap().rows.iter().map(|row| row.answer).collect();
    assert_eq!(answers[0], ProofAnswer::Confirmed, "{:?}", document.proof);
    assert_eq!((limit(&document).as_str(), proved_limit(&document)), ("cpu", &lone("cpu", &[])));
    let row = row(&document, CPU, Direction::Reduced).unwrap();
    assert!((row.throughput_ratio.unwrap() - 0.72).abs() < 0.005, "{row:?}");
    assert!((0.9..1.0).contains(&row.elasticity.unwrap().value), "{row:?}");
}

#[test]
fn two_limits_at_a_corner_are_mixed() {
    // Equal deterministic limits: each reduction has its full effect.
    let study = carry_out(proving(5), |treatment| {
        let left = |factor: &str, in_force: f64| level(treatment, factor, in_force) / in_force;
        let rate = 100.0 * left(CPU, 2.0).min(left(DISK, 1000.0));
        let mut run = Simulated::of(Shape::closed(16), rate, 160.0).http();
        run.settable = [(CPU, 2.0), (DISK, 1000.0)].map(|(factor, of)| settable(factor, of, false)).into();
        run
    });
    let resources = vec![HostResource::Cpu, HostResource::Disk];
    let expected = Limit::Together { resources, sign: JointEvidence::EachFollowed };
    assert_eq!(proved_limit(&result(&study)), &expected);
}

/// A pool is the limit: no changed resource is, in any of many noisy experiments.
#[test]
fn nothing_is_confirmed_that_does_not_limit() {
    let (mut wrong, mut rejected, rounds) = (0, 0, 30);
    for seed in 0..rounds {
        let document = proved(seed, 0.001, 0.001, 8.0, 0.040, false);
        let proof = document.proof.unwrap();
        wrong += proof.rows.iter().filter(|row| row.answer == ProofAnswer::Confirmed).count();
        rejected += proof.rows.iter().filter(|row| row.answer == ProofAnswer::Rejected).count();
        assert!(!matches!(document.verdict, Verdict::Bottleneck { .. }), "{:?}", document.verdict);
    }
    assert_eq!(wrong, 0);
    assert!(rejected >= rounds as usize, "at least half are rejected: {rejected} of {}", 2 * rounds);
}

/// The proof has pairs of its own, so that the baseline has more trials than the swept levels have partners.
#[test]
fn medians_beside_a_proof_are_those_of_the_pairs() {
    let swept = vary("load.closed", Some(USERS.into()), &[4]);
    let proving = Experiment { prove: true, ..experiment(vec![swept], DesignKind::OneFactorAtATime, 2) };
    let mut trials = 0;
    let study = carry_out(proving, |treatment| {
        trials += 1;
        let users = level(treatment, "load.closed", USERS.into()) as u32;
        // After the sweep, the system becomes four times as fast.
        let rate = if trials <= 5 { 25.0 } else { 100.0 } * level(treatment, CPU, 2.0);
        let response_ms = f64::from(users) / rate * 1e3;
        let mut run = Simulated::of(Shape::closed(users.into()), rate, response_ms).http();
        run.settable = [settable(CPU, 2.0, false)].into();
        run
    });
    let document = result(&study);
    let rows = document.comparison.iter().filter(|row| row.configuration == "load.closed=4");
    let response = rows.clone().find(|row| row.metric.contains("response")).unwrap();
    assert_eq!(response.pairs, 2);
    assert!((response.ratio - 0.25).abs() < 0.05, "{response:?}");
    for row in rows.filter(|row| row.pairs == 2) {
        assert!((row.treatment / row.baseline / row.ratio - 1.0).abs() < 0.01, "{row:?}");
    }
    assert!(trials > 9, "{trials}");
}

/// With the recorded runs, the proof continues in the same way.
#[test]
fn an_interrupted_proof_goes_on() {
    let whole = carry_out(proving(11), |treatment| {
        let users = level(treatment, "load.closed", USERS.into()) as u32;
        let rate = 50.0 * level(treatment, CPU, 2.0);
        let mut run = Simulated::of(Shape::closed(users.into()), rate, 160.0).http();
        run.settable = [settable(CPU, 2.0, true)].into();
        run
    });
    let design = crate::design(&proving(11));
    for kept in 0..whole.runs.len() {
        let mut study = whole.clone();
        study.runs.truncate(kept);
        let model::design::Next::Trial(next) = design.next(&study) else { panic!("{kept}") };
        assert_eq!(next.trial, whole.runs[kept].run.trial);
    }
}

/// Executes the proof of a system whose quota of half a CPU and whose I/O limit can be increased, with 2 %
/// noise between trials. `rate` gives its throughput from the shares of CPU and disk.
fn given(seed: u64, rate: impl Fn(f64, f64) -> f64) -> Study {
    given_with_noise(seed, 0.02, rate)
}

fn given_with_noise(seed: u64, noise: f64, rate: impl Fn(f64, f64) -> f64) -> Study {
    let mut random = crate::random::Random::new(seed);
    carry_out(proving(seed), |treatment| {
        let left = |factor: &str, in_force: f64| level(treatment, factor, in_force) / in_force;
        let users = level(treatment, "load.closed", USERS.into());
        let rate = rate(left(CPU, 0.5), left(DISK, 1000.0)) * (users / f64::from(USERS)).min(1.0);
        let rate = rate * (1.0 + noise * random.normal());
        let mut run = Simulated::of(Shape::closed(users as u64), rate, users / rate * 1e3).http();
        run.settable = [(CPU, 0.5), (DISK, 1000.0)].map(|(factor, of)| settable(factor, of, true)).into();
        run
    })
}

fn row<'a>(document: &'a ResultDocument, factor: &str, direction: Direction) -> Option<&'a ProofRow> {
    document.proof.as_ref()?.rows.iter().find(|row| row.factor == factor && row.direction == direction)
}

fn answer(document: &ResultDocument, factor: &str, direction: Direction) -> Option<ProofAnswer> {
    row(document, factor, direction).map(|row| row.answer)
}

/// The limit in the proof.
fn proved_limit(document: &ResultDocument) -> &Limit {
    match &document.verdict {
        Verdict::Bottleneck { limit, proved: true, .. } => limit,
        other => panic!("{other:?}"),
    }
}

/// A host resource that is the limit, with those that are close to it.
fn lone(resource: &str, close_above: &[HostResource]) -> Limit {
    let classes = [ResourceClass::Cpu, ResourceClass::Memory, ResourceClass::Disk];
    let class = classes.into_iter().find(|class| class.words() == resource).unwrap();
    Limit::One { resource: Resource::of_host(class), close_above: close_above.to_vec() }
}

#[test]
fn more_of_a_quota_that_binds_helps() {
    let at = |cpu: f64| throughput(USERS, 0.010 / cpu, 0.002, 1.0, 0.0);
    let study = given(3, |cpu, _| at(cpu));
    let document = result(&study);
    for (direction, share) in [(Direction::Reduced, PROOF_SHARE), (Direction::Raised, 1.0 / PROOF_SHARE)] {
        let row = row(&document, CPU, direction).unwrap();
        let truth = (at(share) / at(1.0)).ln() / share.ln();
        let found = row.elasticity.unwrap();
        assert!(found.low <= truth && truth <= found.high, "{direction:?} {found:?} {truth}");
        assert!((row.throughput_ratio.unwrap() / (at(share) / at(1.0)) - 1.0).abs() < 0.03);
        assert_eq!(row.answer, ProofAnswer::Confirmed);
    }
    assert_eq!(proved_limit(&document), &lone("cpu", &[]));
    let given = row(&document, CPU, Direction::Raised).unwrap();
    assert_eq!((given.level.as_str(), given.in_force.as_str()), ("0.7142857142857143", "0.5"));
    // The disk is not increased, because the reduction ruled it out.
    assert_eq!(answer(&document, DISK, Direction::Reduced), Some(ProofAnswer::Rejected));
    assert_eq!(answer(&document, DISK, Direction::Raised), None);
    let proof_trials = study.runs.iter().filter(|record| record.run.trial.replicate > 1);
    assert!(proof_trials.count() <= 24);
}

/// Two equal limits: each is needed, neither alone helps.
#[test]
fn a_corner_of_two_is_no_single_limit() {
    let document = result(&given(5, |cpu, disk| 100.0 * cpu.min(disk)));
    let resources = vec![HostResource::Cpu, HostResource::Disk];
    let expected = Limit::Together { resources, sign: JointEvidence::RaisingOneGainedNothing };
    assert_eq!(proved_limit(&document), &expected);
}

/// A second limit 12.5 % above the first: reducing either lowers throughput; with little noise, an increase
/// shows which is lower.
#[test]
fn giving_shows_which_of_two_limits_is_first() {
    let document = result(&given_with_noise(6, 0.005, |cpu, disk| (100.0 * cpu).min(112.0 * disk)));
    assert_eq!(answer(&document, DISK, Direction::Reduced), Some(ProofAnswer::Confirmed));
    assert_eq!(answer(&document, DISK, Direction::Raised), Some(ProofAnswer::Rejected));
    assert_eq!(answer(&document, CPU, Direction::Raised), Some(ProofAnswer::Contributing));
    assert_eq!(proved_limit(&document), &lone("cpu", &[HostResource::Disk]));
}

/// A pool is the limit and the CPU is slightly above it: reductions alone would name the CPU.
#[test]
fn what_is_close_above_a_limit_is_not_called_the_limit() {
    for seed in 0..20 {
        let document = result(&given(seed, |cpu, _| (100.0 * cpu).min(93.0)));
        assert_eq!(answer(&document, CPU, Direction::Reduced), Some(ProofAnswer::Confirmed));
        assert_eq!(answer(&document, CPU, Direction::Raised), Some(ProofAnswer::Rejected));
        let expected = Limit::CloseTo { resource: HostResource::Cpu, other: None };
        assert_eq!(proved_limit(&document), &expected);
    }
}

/// A service waits for flushes, and an I/O limit equals the disk's own write rate. A lower limit reduces
/// throughput, a higher one has little effect, because it makes flushes no shorter. The flushes were
/// observed, and remain as the limit.
#[test]
fn flushes_behind_a_limit_as_high_as_the_disk_are_named() {
    let waits = [("process.flush_wait_threads", 14.2), ("process.accept_queue_connections", 15.7)];
    for seed in 0..10 {
        let mut random = crate::random::Random::new(seed);
        let study = carry_out(proving(seed), |treatment| {
            let users = level(treatment, "load.closed", USERS.into());
            let disk = level(treatment, DISK, 1000.0) / 1000.0;
            let rate = (118.0 * disk).min(124.0) * (users / f64::from(USERS)).min(1.0);
            let rate = rate * (1.0 + 0.02 * random.normal());
            let mut run = super::services::service(16.0, rate, &waits)
                .counter("disk.queue_length", "vda", &[0.9])
                .counter("disk.flushes_per_s", "vda", &[rate])
                .counter("disk.flush_s", "vda", &[0.0075]);
            run.settable = [settable(DISK, 1000.0, true)].into();
            run
        });
        let document = result(&study);
        assert_eq!(answer(&document, DISK, Direction::Reduced), Some(ProofAnswer::Confirmed));
        assert_ne!(answer(&document, DISK, Direction::Raised), Some(ProofAnswer::Confirmed));
        assert_eq!(limit(&document), "disk of svc (flushes)");
        assert!(matches!(proved_limit(&document), Limit::One { .. }));
    }
}

/// If nothing can be reduced, an increase alone proves the limit: whole CPUs, one of two.
#[test]
fn one_cpu_of_two_is_given_the_other() {
    let one_cpu = |binds: bool| {
        let study = carry_out(proving(8), |treatment| {
            let cpus = level(treatment, "host.cpus", 1.0);
            let rate = if binds { 100.0 * cpus.powf(0.9) } else { 100.0 };
            let mut run = Simulated::of(Shape::closed(USERS.into()), rate, 160.0).http();
            let raised = Some(Level::Count(2));
            let yes = Settable::Yes { in_force: Level::Count(1), reduced: None, raised };
            run.settable = BTreeMap::from([("host.cpus".to_string(), yes)]);
            run
        });
        result(&study)
    };
    let document = one_cpu(true);
    let found = row(&document, "host.cpus", Direction::Raised).unwrap();
    assert!((found.elasticity.unwrap().value - 0.9).abs() < 0.02, "{found:?}");
    assert_eq!((found.in_force.as_str(), found.level.as_str()), ("1", "2"));
    assert!((found.throughput_ratio.unwrap() - 1.87).abs() < 0.005, "{found:?}");
    assert_eq!(proved_limit(&document), &lone("cpu", &[]));
    assert_eq!(document.proof.unwrap().residual, None);
    assert!(!matches!(one_cpu(false).verdict, Verdict::Bottleneck { .. }));
}

/// CPUs that others use cannot be added, and an increase that others used shows nothing.
#[test]
fn what_others_have_is_not_given() {
    let run_with = |busy: f64, busy_with_more: f64, locked: f64| {
        let study = carry_out(proving(9), |treatment| {
            let quota = level(treatment, CPU, 1.0);
            let had = if quota > 1.0 { busy_with_more } else { busy.min(quota) };
            let mut run = Simulated::of(Shape::closed(USERS.into()), 100.0 * had, 160.0)
                .http()
                .counter("process.threads", "service", &[5.0 + had + locked])
                .counter("process.busy_cpus", "service", &[had])
                .counter("process.run_queue_length", "service", &[5.0])
                .counter("process.running_threads", "service", &[5.0 + had])
                .counter("process.lock_wait_threads", "service", &[locked]);
            run.in_flight = 16.0;
            run.settable = [settable(CPU, 1.0, true)].into();
            run
        });
        let asked = study.runs.iter().filter(|record| match &record.run.trial.treatment {
            Treatment::Proof(change) => change.level.as_number() > Some(1.0),
            _ => false,
        });
        (asked.count(), result(&study))
    };
    let (asked, document) = run_with(0.6, 0.6, 0.0);
    assert_eq!(asked, 0);
    assert_eq!(answer(&document, CPU, Direction::Reduced), Some(ProofAnswer::Confirmed));
    let (asked, document) = run_with(1.0, 1.05, 0.0);
    assert_eq!(asked, 4);
    assert_eq!(row(&document, CPU, Direction::Raised).unwrap().rounds, 0);
    assert_eq!(limit(&document), "cpu of service");
    assert!(matches!(proved_limit(&document), Limit::One { .. }));
    let (_, document) = run_with(1.0, 1.4, 0.0);
    assert_eq!(answer(&document, CPU, Direction::Raised), Some(ProofAnswer::Confirmed));
    // Most of its threads wait for a lock, and sometimes for a CPU: it needs all the CPU time that it uses.
    let (asked, document) = run_with(0.6, 0.6, 9.0);
    assert_eq!((asked, answer(&document, CPU, Direction::Reduced)), (0, Some(ProofAnswer::Rejected)));
    let (_, document) = run_with(1.0, 1.05, 9.0);
    assert_eq!(answer(&document, CPU, Direction::Raised), Some(ProofAnswer::Rejected));
    let other = Some(Resource::of_process(ResourceClass::WorkerPool, "service"));
    assert_eq!(proved_limit(&document), &Limit::CloseTo { resource: HostResource::Cpu, other });
}

/// An open load that a higher quota completes: throughput rose no further because no more was offered.
#[test]
fn a_load_carried_in_full_is_no_second_limit() {
    let study = carry_out(proving(13), |treatment| {
        let rate = (200.0 * level(treatment, CPU, 0.5)).min(104.0);
        let arrivals = model::Process::Poisson;
        let shape = Shape::Open { rate_per_s: model::Profile::Constant(104.0), arrivals };
        let mut run = Simulated::of(shape, rate, 160.0).http();
        run.offered_per_s = 104.0;
        run.settable = [settable(CPU, 0.5, true)].into();
        run
    });
    let document = result(&study);
    assert_eq!(answer(&document, CPU, Direction::Reduced), Some(ProofAnswer::Confirmed));
    assert_eq!(row(&document, CPU, Direction::Raised).unwrap().rounds, 0);
    assert_eq!(proved_limit(&document), &lone("cpu", &[]));
}

/// Whole CPUs are rounded: a reduction by half is not one by 30 %.
#[test]
fn whole_cpus_are_taken_by_their_number() {
    let study = carry_out(proving(10), |treatment| {
        let cpus = level(treatment, "host.cpus", 2.0);
        let mut run = Simulated::of(Shape::closed(USERS.into()), 100.0 * cpus.powf(0.4), 160.0).http();
        let reduced = Some(Level::Count(1));
        let yes = Settable::Yes { in_force: Level::Count(2), reduced, raised: None };
        run.settable = BTreeMap::from([("host.cpus".to_string(), yes)]);
        run
    });
    let document = result(&study);
    let found = row(&document, "host.cpus", Direction::Reduced).unwrap();
    assert!((found.elasticity.unwrap().value - 0.4).abs() < 0.02, "{found:?}");
    assert_eq!(found.answer, ProofAnswer::Contributing);
}

/// Memory fills as fast as it is read: if an increase does not help within a trial, this rules nothing out.
#[test]
fn memory_that_does_not_help_at_once_rules_nothing_out() {
    let study = carry_out(proving(12), |treatment| {
        let limit = level(treatment, MEMORY, 1000.0);
        let mut run = Simulated::of(Shape::closed(USERS.into()), limit.min(1000.0) / 10.0, 160.0).http();
        run.settable = [settable(MEMORY, 1000.0, true)].into();
        run
    });
    let document = result(&study);
    assert_eq!(answer(&document, MEMORY, Direction::Raised), Some(ProofAnswer::Unclear));
    assert_eq!(proved_limit(&document), &lone("memory", &[]));
}

/// Other CPUs do not help a thread that uses one CPU all the time, and removing them says nothing against it.
#[test]
fn a_single_thread_is_not_ruled_out_by_cpus_it_does_not_use() {
    let study = carry_out(proving(3), |treatment| {
        let users = level(treatment, "load.closed", USERS.into());
        let mut noise = Noise::new(u64::from(treatment.label().len() as u32), 60);
        let rate = 170.0 * (1.0 + 0.01 * (noise.next() - 1.0));
        let mut run = Simulated::of(Shape::closed(users as u64), rate, users / rate * 1e3).http();
        run.rates.truncate(2);
        run.in_flight = users;
        for (metric, value) in [
            ("process.threads", 17.0),
            ("process.busy_cpus", 0.97),
            ("process.busiest_thread_cpus", 0.96),
            ("process.running_threads", 1.0),
            ("process.lock_wait_threads", 15.0),
            ("process.same_lock_wait_threads", 4.0),
        ] {
            run.counters.push((metric, "svc", vec![value]));
        }
        run.settable = [settable(CPU, 2.0, false)].into();
        run
    });
    let document = result(&study);
    let proof = document.proof.as_ref().unwrap();
    assert_eq!(proof.rows[0].answer, ProofAnswer::Rejected, "{proof:?}");
    assert_eq!(limit(&document), "single thread of svc");
}
