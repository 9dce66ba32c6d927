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
fn a_fio_job_file_runs_and_what_is_unsupported_is_reported() {
    let place = Place::new("fio");
    let job = "[global]\nioengine=libaio\ndirect=1\nruntime=1\ntime_based\n[job]\nfilename=f.bin\nsize=8m\nrw=randread\nbs=4k\niodepth=4\n";
    std::fs::write(place.path("good.fio"), job).unwrap();
    let done = run(&place, &["disk", "--fio", "good.fio", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    std::fs::write(place.path("bad.fio"), "[job]\nfilename=f.bin\nsize=8m\nrw=sideways\nzonemode=zoned\n")
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

#[test]
fn a_dry_run_shows_the_steps_as_experiments_and_runs_nothing() {
    let place = Place::new("fio-dry-run");
    let text = "[a]\nrw=read:12k\nfilename=f.bin\nsize=1m\nruntime=1\n[b]\nstonewall\nrw=randread\nfilename=f.bin\nsize=1m\n";
    std::fs::write(place.path("jobs.fio"), text).unwrap();
    let shown = run(&place, &["disk", "--fio", "jobs.fio", "--dry-run", "--duration", "2s"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    for part in [
        "# step 1 of 2",
        "passes = \"same\"",
        "# step 2 of 2",
        "distribution = \"shuffle\"",
        "measure = \"2s\"",
    ] {
        assert!(shown.out.contains(part), "{part} is missing in\n{}", shown.out);
    }
    // A note about the time holds only where the job file sets it.
    assert!(!shown.err.contains("30s"), "{}", shown.err);
    assert!(!place.path("f.bin").exists() && !place.path("runs").exists());
    // What is shown is an experiment file.
    let (_, second) = shown.out.split_once("# step 2 of 2\n").unwrap();
    std::fs::write(place.path("second.toml"), second).unwrap();
    assert_eq!(run(&place, &["check", "second.toml"]).code, 0);
    std::fs::write(place.path("absent.fio"), "[a]\nfilename=absent/f.bin\nsize=1m\n").unwrap();
    let absent = run(&place, &["disk", "--fio", "absent.fio", "--dry-run"]);
    assert_eq!(absent.code, 2);
    assert!(absent.out.contains("absent/f.bin") && absent.err.contains("does not exist"), "{}", absent.err);
}

#[test]
fn a_load_without_io_is_never_a_disk() {
    let place = Place::new("fio-null");
    let text = "[a]\nioengine=null\nrw=randread\nnorandommap\nsize=100g\nbs=4k\nnumber_ios=5000\n";
    std::fs::write(place.path("jobs.fio"), text).unwrap();
    let done = run(&place, &["disk", "--fio", "jobs.fio", "--quiet", "--run-dir", "r"]);
    assert!(done.measured(), "{}", done.err);
    assert!(done.err.contains("the cost of the load generator, not of a disk"), "{}", done.err);
    let document = result(&place, "r");
    assert_eq!(completed(&document, "read"), 5000);
    let doubts = document["trials"][0]["doubts"].as_array().unwrap();
    let is_doubted =
        |doubt: &Value| doubt["text"].as_str().is_some_and(|text| text.contains("no I/O was issued"));
    assert!(doubts.iter().any(is_doubted), "{doubts:?}");
    assert!(!place.path("a.0.0").exists(), "100 GiB are not made");
}

#[test]
fn blocks_that_hold_other_bytes_than_expected_are_failures() {
    let place = Place::new("fio-expect");
    // As fio's sg_verify-fail: 20 blocks are written, and 21 compared.
    let text = "[global]\nioengine=sg\nfilename=/dev/sg0\nbs=512\nrw=write\nbuffer_pattern=0x01\nstonewall\n\
                [precon]\nnumber_ios=20\n[good]\nsg_write_mode=verify_bytchk_01\nnumber_ios=20\n\
                [bad]\nsg_write_mode=verify_bytchk_01\nnumber_ios=21\n";
    std::fs::write(place.path("jobs.fio"), text).unwrap();
    std::fs::write(place.path("f.bin"), vec![0_u8; 1 << 20]).unwrap();
    let refused = run(&place, &["disk", "--fio", "jobs.fio", "--dry-run"]);
    assert!(refused.code == 2 && refused.err.contains("name the block device"), "{}", refused.err);
    let flags = ["--overwrite", "f.bin", "--page-cache", "--quiet", "--run-dir", "r", "--", "f.bin"];
    let done = run(&place, &[&["disk", "--fio", "jobs.fio"][..], &flags].concat());
    assert_eq!(done.code, 1, "{}", done.err);
    let written = std::fs::read(place.path("f.bin")).unwrap();
    assert!(
        written[..20 * 512].iter().all(|byte| *byte == 1)
            && written[20 * 512..].iter().all(|byte| *byte == 0)
    );
    let failed =
        |folder: &str| result(&place, folder)["trials"][0]["operations"][0]["failed"].as_u64().unwrap();
    assert_eq!((failed("r/step-2"), failed("r/step-3")), (0, 1));
    let doubts = result(&place, "r/step-3")["trials"][0]["doubts"].to_string();
    assert!(doubts.contains("offset 10240") && doubts.contains("other bytes than `expect` says"), "{doubts}");
}

#[test]
fn jobs_with_a_flow_issue_operations_in_proportion() {
    let place = Place::new("fio-flow");
    let text = "[global]\nfilename=f.bin\nsize=4m\nruntime=1\ntime_based\nioengine=libaio\niodepth=4\n\
                [one]\nrw=write\nflow=1\n[eight]\nrw=randread\nnorandommap\nflow=8\n";
    std::fs::write(place.path("jobs.fio"), text).unwrap();
    let done = run(&place, &["disk", "--fio", "jobs.fio", "--quiet", "--run-dir", "r"]);
    assert!(done.measured(), "{}", done.err);
    let document = result(&place, "r");
    let (one, eight) = (completed(&document, "one:write"), completed(&document, "eight:read"));
    // Those in flight at the borders of the measured time are not counted, and a starved thread counts its own late.
    let tolerance = (8 * 8).max(8 * one / 5);
    assert!(one > 20 && eight.abs_diff(8 * one) <= tolerance, "{one} and {eight}");
}

#[test]
fn zones_discards_and_files_without_data() {
    let place = Place::new("fio-zones");
    let text = "[global]\nfilename=f.bin\nsize=1m\nstonewall\n\
                [zones]\nrw=randwrite\nzonemode=zbd\nzonesize=64k\nmax_open_zones=2\nbs=4k\nio_size=2400k\n\
                [trims]\nrw=trimwrite\nbs=4k,4k,16k\nnumber_ios=100\n\
                [space]\nioengine=falloc\nrw=randwrite\nbs=64k\nnumber_ios=10\n\
                [end]\nioengine=ftruncate\nrw=write\nbs=4k\nnumber_ios=3\n";
    std::fs::write(place.path("jobs.fio"), text).unwrap();
    let done = run(&place, &["disk", "--fio", "jobs.fio", "--quiet", "--run-dir", "r"]);
    assert!(done.measured(), "{}", done.err);
    assert_eq!(completed(&result(&place, "r/step-1"), "write"), 600);
    // Each loop over the file begins T0 w0, and then one discard stands before four writes.
    let trims = result(&place, "r/step-2");
    let (trimmed, written) = (completed(&trims, "trim"), completed(&trims, "write"));
    assert!(trimmed + written == 200 && (40..=42).contains(&trimmed), "{trimmed} and {written}");
    assert_eq!(completed(&result(&place, "r/step-3"), "write"), 10);
    assert_eq!(
        std::fs::metadata(place.path("f.bin")).unwrap().len(),
        8192,
        "it ends where the third write would be"
    );
}
