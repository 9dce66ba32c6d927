//! A mistake is reported in the words it was made in: flags on the command line, keys and lines in a file.

use std::fmt::Write as _;

use crate::program::{Place, run};

/// Command lines that are refused before anything is touched.
const REFUSED: &[&[&str]] = &[
    &["disk", "f.bin", "--stride", "8KiB", "--fsync-every", "4"],
    &["disk", "f.bin", "--sequential", "--align", "8KiB"],
    &["disk", "f.bin", "--block-size", "1000B"],
    &["disk", "there.bin", "--write"],
    &["disk", "there.bin", "--size", "1GiB"],
    &["disk", "there.bin", "--verify"],
    &["disk", "f.bin", "--overwrite", "other file"],
    &["disk", "f.bin", "--rate", "10/s", "--concurrency", "4"],
    &["disk", "f.bin", "--concurrency", "4", "--arrivals", "poisson"],
    &["disk", "f.bin", "--rate", "10/s", "--think", "1s"],
    &["disk", "f.bin", "--duration", "until-done"],
    &["disk", "f.bin", "--limit", "throughput > 1/s"],
    &["disk", "f.bin", "--limit-max", "16"],
    &["disk", "f.bin", "--limit", "response.p99 <= 20ms", "--steps", "1,2"],
    &["disk", "f.bin", "--limit", "response.p99 <= 20ms", "--goal", "failed < 1%"],
    &["disk", "--fio", "job.fio"],
    &["disk", "--size", "1MiB", "--sqlio", "-kR"],
    &["disk", "--random", "--diskspd", "-r", "there.bin"],
    &["disk", "--diskspd", "-w100", "-t2", "there.bin"],
    &["disk", "--diskspd", "-w130", "-Sm", "-a0", "C:\\test.dat", "new.bin"],
    &["disk", "-b4K", "-o8", "-t2", "there.bin"],
    &["copy", "there.bin", "other.bin"],
    &["copy", "generate:1MiB", "new.bin", "--block-size", "1000B"],
    &["copy", "generate:1MiB", "new.bin", "--block-size", "64MiB", "--outstanding", "1024"],
    &["exec", "--until-port", "1", "--until-line", "x", "--", "true"],
    &["null", "--service", "20s"],
    &["generate"],
    &["generate", "people", "--count", "0"],
    &["generate", "people", "--attributes", "47"],
    &["generate", "people", "--changes", "60%", "--leavers", "50%"],
    &["generate", "people", "--changes", "0.02"],
    &["generate", "people", "--groups", "3"],
    &["generate", "people", "--groups-output", "groups.csv"],
    &["generate", "people", "--groups", "3", "-o", "one.csv", "--groups-output", "one.csv"],
    &["generate", "people", "--base", "dc=example"],
    &["generate", "people", "--format", "ldif", "--base", "example.com"],
    &["generate", "people", "--format", "csv", "--dialect", "sqlite"],
    &["generate", "people", "--json"],
];

#[test]
fn a_mistake_in_flags_is_reported_in_flags() {
    let place = Place::new("words");
    for name in ["there.bin", "other.bin"] {
        std::fs::write(place.path(name), [7; 1 << 16]).unwrap();
    }
    std::fs::write(place.path("job.fio"), "[job]\nfilename=there.bin\nsize=32k\nrw=write\ndirect=1\n")
        .unwrap();
    let mut reported = String::new();
    for arguments in REFUSED {
        let done = run(&place, arguments);
        assert_eq!(done.code, 2, "{arguments:?}: {}{}", done.out, done.err);
        assert!(!done.err.contains(" = \""), "{arguments:?} is reported in keys of a file: {}", done.err);
        let _ = writeln!(reported, "$ plimsoll {}\n{}", arguments.join(" "), done.err);
    }
    assert!(!place.path("runs").exists(), "nothing was run");
    insta::assert_snapshot!(reported);
}

#[test]
fn a_mistake_in_a_file_is_reported_with_its_line() {
    let place = Place::new("lines");
    std::fs::write(place.path("there.bin"), [7; 1 << 16]).unwrap();
    let text = r#"name = "lines"

[workload.disk]
files = "there.bin"
read_percent = "50%"
block_size = "1000B"
fsync_every = 4

[load]
open = "10/s"
think = "1s"
"#;
    std::fs::write(place.path("wrong.toml"), text).unwrap();
    let load = run(&place, &["check", "wrong.toml"]);
    std::fs::write(place.path("wrong.toml"), text.replace("think = \"1s\"\n", "")).unwrap();
    let workload = run(&place, &["run", "wrong.toml"]);
    std::fs::write(place.path("wrong.toml"), text.replace("think = \"1s\"\n", "").replace("1000B", "4KiB"))
        .unwrap();
    let check = run(&place, &["check", "wrong.toml"]);
    assert_eq!([load.code, workload.code, check.code], [2; 3]);
    insta::assert_snapshot!(format!("{}\n---\n{}\n---\n{}", load.err, workload.err, check.err));
}
