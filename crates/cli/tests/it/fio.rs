//! fio job files: jobs at the same time, steps, and what the record then holds.

use serde_json::Value;

use crate::program::{Place, run};

/// The result that a run left.
fn result(place: &Place, folder: &str) -> Value {
    let text = std::fs::read_to_string(place.path(folder).join("result.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What an operation of the only trial completed.
fn completed(document: &Value, operation: &str) -> u64 {
    let operations = document["trials"][0]["operations"].as_array().unwrap();
    let found = operations.iter().find(|found| found["name"] == operation);
    found.map_or(0, |found| found["completed"].as_u64().unwrap())
}

#[test]
fn a_fio_job_file_runs_and_what_is_unsupported_is_told() {
    let place = Place::new("fio");
    let job = "[global]\nioengine=libaio\ndirect=1\nruntime=1\ntime_based\n[job]\nfilename=f.bin\nsize=8m\nrw=randread\nbs=4k\niodepth=4\n";
    std::fs::write(place.path("good.fio"), job).unwrap();
    let done = run(&place, &["disk", "--fio", "good.fio", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    std::fs::write(place.path("bad.fio"), "[job]\nfilename=f.bin\nsize=8m\nrw=sideways\nzonemode=zbd\n")
        .unwrap();
    let refused = run(&place, &["disk", "--fio", "bad.fio"]);
    assert_eq!(refused.code, 2);
    for mistake in ["bad.fio:4", "bad.fio:5"] {
        assert!(refused.err.contains(mistake), "{mistake} is missing in\n{}", refused.err);
    }
}

#[test]
fn jobs_at_the_same_time_are_one_result_and_a_stonewall_begins_the_next() {
    let place = Place::new("fio-jobs");
    std::fs::write(place.path("common"), "ioengine=libaio\ndirect=0 # through the page cache\n").unwrap();
    let text = "[global]\ninclude common\nsize=4m\n\
                [writer]\nfilename=w.bin\nrw=write\nbs=16k\nnumber_ios=70\n\
                [reader a]\nfilename=r.bin\nrw=randread\nbs=4k\niodepth=4\nnumjobs=2\nio_size=2m\n\
                [last]\nstonewall\nfilename=r.bin\nrw=randrw\nbs=8k\nloops=1\nnumber_ios=30\n";
    std::fs::write(place.path("jobs.fio"), text).unwrap();
    let done = run(&place, &["disk", "--fio", "jobs.fio", "--quiet", "--run-dir", "r"]);
    assert!(done.measured(), "{}", done.err);
    assert!(done.err.contains("step 1 of 2: writer, reader a"), "{}", done.err);
    let first = result(&place, "r/step-1");
    assert_eq!(completed(&first, "writer:write"), 70);
    // Each of the two copies reads 2 MiB in blocks of 4 KiB.
    assert_eq!(completed(&first, "reader-a:read"), 2 * 512);
    let second = result(&place, "r/step-2");
    assert_eq!(completed(&second, "read") + completed(&second, "write"), 30);
    assert_eq!(std::fs::metadata(place.path("w.bin")).unwrap().len(), 4 << 20, "fio keeps its files");
}

#[test]
fn flags_beside_a_job_file_hold_for_every_job() {
    let place = Place::new("fio-flags");
    let text =
        "[global]\nfilename=${THE_FILE}\nsize=64m\nruntime=60\ntime_based\n[a]\nrw=read\n[b]\nrw=randread\n";
    std::fs::write(place.path("jobs.fio"), text).unwrap();
    let unset = run(&place, &["disk", "--fio", "jobs.fio"]);
    assert_eq!(unset.code, 2);
    assert!(unset.err.contains("jobs.fio:2") && unset.err.contains("THE_FILE is not set"), "{}", unset.err);
    let text = text.replace("${THE_FILE}", "f.bin");
    std::fs::write(place.path("jobs.fio"), text).unwrap();
    let flags =
        ["--duration", "300ms", "--size", "1MiB", "--block-size", "8KiB", "--quiet", "--run-dir", "r"];
    let done = run(&place, &[&["disk", "--fio", "jobs.fio"][..], &flags].concat());
    assert!(done.measured(), "{}", done.err);
    assert_eq!(std::fs::metadata(place.path("f.bin")).unwrap().len(), 1 << 20);
    assert!(!done.err.contains("30s"), "{}", done.err);
    let operations = &result(&place, "r")["trials"][0]["operations"];
    assert_eq!(operations[0]["name"], "a:read");
    let bytes =
        operations[0]["bytes_per_s"].as_f64().unwrap() / operations[0]["rate_per_s"].as_f64().unwrap();
    assert!((bytes - 8192.0).abs() < 1.0, "{bytes}");
    let refused = run(&place, &["disk", "--fio", "jobs.fio", "--rate", "5/s"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("each job has a load of its own"), "{}", refused.err);
}

#[test]
fn a_job_file_writes_no_file_that_is_not_named() {
    let place = Place::new("fio-foreign");
    std::fs::write(place.path("precious.db"), vec![7_u8; 1 << 20]).unwrap();
    for rw in ["write", "randtrim"] {
        let text = format!("[a]\nrw=read\nfilename=r.bin\nsize=1m\n[b]\nrw={rw}\nfilename=precious.db\n");
        std::fs::write(place.path("jobs.fio"), text).unwrap();
        let refused = run(&place, &["disk", "--fio", "jobs.fio", "--duration", "200ms"]);
        assert_eq!(refused.code, 2, "{rw}");
        assert!(refused.err.contains("job [b]") && refused.err.contains("--overwrite"), "{}", refused.err);
        assert_eq!(std::fs::read(place.path("precious.db")).unwrap(), vec![7_u8; 1 << 20]);
    }
    let overwrite = ["--overwrite", "precious.db", "--quiet", "--duration", "300ms"];
    let done = run(&place, &[&["disk", "--fio", "jobs.fio"][..], &overwrite].concat());
    assert!(done.measured(), "{}", done.err);
    let left = std::fs::read(place.path("precious.db")).unwrap();
    assert!(left.contains(&0) && left.len() == 1 << 20, "holes");
}
