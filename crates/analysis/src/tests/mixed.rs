//! Tests of mixed operations, such as reads and writes.

use model::cost::{CostKind, CostOwner};
use model::run::Origin;
use model::{Level, Operation, Shape, SizeGoal, Study};

use crate::result;
use crate::simulate::{Simulated, single};
use crate::sizing::sizing;

/// 700 reads of 1 ms, 300 writes of 4 ms and 15 flushes of 8 ms per second. The device receives other
/// numbers: 10 % of the reads are merged, and each write causes two.
fn study() -> Study {
    let of = |operation, rate: f64, response_ms: f64| {
        let mut run = Simulated::of(Shape::closed(4), rate, response_ms);
        run.operation = operation;
        run
    };
    let read = of("read", 700.0, 1.0)
        .counter("disk.queue_length", "vda", &[2.0])
        .counter("disk.transfers_per_s", "vda", &[1230.0])
        .counter("disk.reads_per_s", "vda", &[630.0])
        .counter("disk.read_s", "vda", &[0.001])
        .counter("disk.writes_per_s", "vda", &[600.0])
        .counter("disk.write_s", "vda", &[0.0015])
        .counter("disk.flushes_per_s", "vda", &[15.0])
        .counter("disk.flush_s", "vda", &[0.006]);
    let mut study = single(&read);
    let record = &mut study.runs[0];
    for other in [of("write", 300.0, 4.0), of("fsync", 15.0, 8.0)] {
        let mut other = other.run(record.run.trial.clone());
        record.intervals.append(&mut other.intervals);
        record.histograms.append(&mut other.histograms);
    }
    record.intervals.sort_by(|a, b| a.begin_s.total_cmp(&b.begin_s));
    record.run.operations = ["read", "write", "fsync"].map(String::from).to_vec();
    study
}

/// What another tool printed: percentiles of reads and of writes over the whole run, and perhaps those of both.
#[test]
fn percentiles_of_both_are_those_that_the_tool_computed() {
    let mut study = study();
    let record = &mut study.runs[0];
    record.run.origin = Origin::Imported;
    record.histograms.clear();
    let end_s = record.intervals.iter().map(|interval| interval.end_s).fold(0.0, f64::max);
    record.intervals.retain(|interval| interval.end_s == end_s);
    let of_all = |study: &Study| {
        let document = result(study);
        let operations = &document.trials[0].operations;
        (
            operations.iter().find(|one| one.name == Operation::All).unwrap().response_ms,
            operations[0].response_ms,
        )
    };
    // From the percentiles of the parts alone, nobody can know them; means can be added up.
    let (all, read) = of_all(&study);
    assert!(all.p50.is_nan() && all.p99.is_nan() && all.mean > read.mean, "{all:?}");
    assert!(read.p50.is_finite() && read.p50 < read.p99, "{read:?}");
    study.runs[0].run.facts.insert("imported.ms.all.p50".into(), Level::Number(1.25));
    let (all, _) = of_all(&study);
    assert!(all.p50 == 1.25 && all.p99.is_nan(), "{all:?}");
}

#[test]
fn each_operation_of_a_mix_has_its_own_cost_of_the_device() {
    let document = result(&study());
    let costs = &document.configurations[0].costs;
    let each = |name: &str, kind: CostKind| {
        let cost = costs.iter().find(|cost| cost.operation.is(name)).unwrap();
        let device = CostOwner::Device("vda".into());
        cost.parts.iter().find(|part| (part.kind, &part.of) == (kind, &device)).map(|part| part.each.value)
    };
    let near = |value: Option<f64>, expected: f64| (value.unwrap() / expected - 1.0).abs() < 1e-6;
    for (name, kind, expected) in [
        ("read", CostKind::Reads, 0.9),
        ("read", CostKind::AtDevice, 0.0009),
        ("write", CostKind::Writes, 2.0),
        ("write", CostKind::AtDevice, 0.003),
        ("fsync", CostKind::Flushes, 1.0),
        ("fsync", CostKind::AtDevice, 0.006),
    ] {
        assert!(near(each(name, kind), expected), "{name} {kind:?}: {:?}", each(name, kind));
    }
    assert_eq!(each("read", CostKind::Writes), None);
    assert_eq!(each("write", CostKind::Flushes), None);
    let time = |name: &str| costs.iter().find(|cost| cost.operation.is(name)).unwrap().time_s.value;
    assert!((time("write") / 0.004 - 1.0).abs() < 0.05, "{}", time("write"));
    assert!(costs.iter().any(|cost| cost.operation == Operation::All));
}

#[test]
fn the_price_list_has_each_operation_at_its_share_of_the_load() {
    let study = study();
    let document = result(&study);
    let sized = sizing(&study, &document, &SizeGoal::parse("500/s", &[]).unwrap(), None);
    let row = |name: &str, kind| {
        sized
            .answer
            .as_ref()
            .unwrap()
            .price_list
            .iter()
            .find(|row| row.operation.is(name) && row.kind == kind)
            .unwrap()
    };
    // 350 of 500 are reads, and 90 % of these reach the device.
    let reads = row("read", CostKind::Reads).for_load_per_s.value;
    assert!((reads / 315.0 - 1.0).abs() < 0.01, "{reads}");
    let writes = row("write", CostKind::Writes).for_load_per_s.value;
    assert!((writes / 300.0 - 1.0).abs() < 0.01, "{writes}");
}
