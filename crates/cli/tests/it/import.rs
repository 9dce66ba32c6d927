//! `plimsoll import`: files of other tools, as their users have them.

use std::fs;

use crate::{Place, run};

/// One run of SQLIO.
fn sqlio(block_kib: u64, rate_per_s: f64) -> String {
    format!(
        "sqlio v1.5.SG\r\nusing system counter for latency timings, 2143535 counts per second\r\n\
         parameter file used: param.txt\r\n\tfile d:\\test.dat with 1 thread (0) using mask 0x0 (0)\r\n\
         1 thread writing for 120 secs to file d:\\test.dat\r\n\tusing {block_kib}KB random IOs\r\n\
         \tbuffering set to use hardware disk cache (but not file cache)\r\n\
         using specified size: 20000 MB for file: d:\\test.dat\r\ninitialization done\r\nCUMULATIVE DATA:\r\n\
         throughput metrics:\r\nIOs/sec:   {rate_per_s:.2}\r\nMBs/sec:     1.76\r\nlatency metrics:\r\n\
         Min_Latency(ms): 0\r\nAvg_Latency(ms): 4\r\nMax_Latency(ms): 111\r\n"
    )
}

/// A log of the server, whose disk always has a write.
fn server() -> String {
    let mut text = String::from(
        "\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\",\"\\\\DB1\\Processor(_Total)\\% Processor Time\",\
         \"\\\\DB1\\PhysicalDisk(0 C:)\\Disk Writes/sec\",\"\\\\DB1\\PhysicalDisk(0 C:)\\Avg. Disk sec/Write\",\
         \"\\\\DB1\\PhysicalDisk(0 C:)\\Avg. Disk Queue Length\",\"\\\\DB1\\Memory\\Available MBytes\"\r\n",
    );
    for at in 0..60 {
        let (minute, second) = (at * 5 / 60, at * 5 % 60);
        let values =
            if at == 0 { "\" \",\" \",\" \",\" \"" } else { "\"12.5\",\"225.8\",\"0.0044\",\"0.98\"" };
        text.push_str(&format!("\"11/26/2014 12:{minute:02}:{second:02}.000\",{values},\"3000\"\r\n"));
    }
    text
}

#[test]
fn runs_of_sqlio_with_the_counters_of_their_server_have_a_curve_and_a_limit() {
    let place = Place::new("import");
    fs::write(place.path("sqlio.txt"), format!("{}pause\r\n{}", sqlio(8, 225.8), sqlio(64, 192.85))).unwrap();
    fs::write(place.path("server.csv"), server()).unwrap();
    let alone = run(&place, &["import", "sqlio.txt", "--run-dir", "alone"]);
    assert_eq!(alone.code, 0, "{} {}", alone.out, alone.err);
    for expected in
        ["by block size", "226", "Another tool measured, and no counters", "plimsoll import RESULT COUNTERS"]
    {
        assert!(alone.out.contains(expected), "{expected}: {}", alone.out);
    }
    // What no other tool counts is not there, rather than zero.
    assert!(!alone.out.contains("1970") && !alone.out.contains("--prove"), "{}", alone.out);
    let json = run(&place, &["show", "alone", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let operation = &document["trials"][0]["operations"][0];
    assert_eq!(document["origin"], "imported");
    assert!(operation["offered"].is_null() && operation["response_ms"]["p99"].is_null(), "{operation}");
    assert_eq!(operation["response_ms"]["mean"], 4.0);

    let both = ["import", "sqlio.txt", "server.csv", "--run-dir", "both"];
    let refused = run(&place, &both);
    assert_eq!(refused.code, 2, "{}", refused.out);
    assert!(refused.err.contains("add --begin TIME"), "{}", refused.err);
    assert!(!place.path("both").exists());
    let joined = run(&place, &[&both[..], &["--begin", "2014-11-26T11:00:00Z"]].concat());
    assert_eq!(joined.code, 0, "{} {}", joined.out, joined.err);
    for expected in ["latency of 0 C:", "Latency-bound", "Not confirmed by experiment: another tool"] {
        assert!(joined.out.contains(expected), "{expected}: {}", joined.out);
    }
    for command in [
        &["explain", "both"][..],
        &["report", "both"],
        &["export", "both", "--format", "csv"],
        &["compare", "alone:baseline", "both:baseline"],
    ] {
        let done = run(&place, command);
        assert_eq!(done.code, 0, "{command:?} {} {}", done.out, done.err);
    }
}

#[test]
fn a_log_of_counters_is_a_record_and_what_is_wrong_has_its_line() {
    let place = Place::new("import-log");
    let log = format!("{}\"11/26/2014 12:30:00.000\",\"x\",\"1\",\"1\",\"1\",\"1\"\r\n", server());
    fs::write(place.path("server.csv"), log).unwrap();
    let done = run(&place, &["import", "server.csv", "--run-dir", "r"]);
    assert_eq!(done.code, 0, "{} {}", done.out, done.err);
    assert!(done.out.contains("CPU busy") && done.out.contains("2014-11-26 11:00 UTC"), "{}", done.out);
    assert!(done.err.contains("server.csv: line 62: a value is no number"), "{}", done.err);
    for (name, text, expected) in [
        ("none.txt", "hello\n", "error: none.txt: the format is not known"),
        ("empty.txt", "", "error: empty.txt: the file is empty"),
        ("cut.txt", "sqlio v1.5.SG\r\n", "error: cut.txt:1: the run that begins here has no IOs/sec"),
    ] {
        fs::write(place.path(name), text).unwrap();
        let done = run(&place, &["import", name, "--run-dir", "x"]);
        assert_eq!(done.code, 2, "{}", done.err);
        assert!(done.err.contains(expected), "{}", done.err);
        assert!(!place.path("x").exists());
    }
    let all = run(&place, &["import", "none.txt", "absent.txt"]);
    assert!(all.err.contains("2 mistakes, nothing was imported"), "{}", all.err);
    assert!(run(&place, &["import", "--formats"]).out.contains("perfmon-csv"));
}
