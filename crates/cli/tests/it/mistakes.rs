//! All mistakes of a file or a command line at once, contradictions among settings included.

use crate::program::{Place, run};

/// What was refused, each mistake in its order, and nothing was changed.
fn mistakes(place: &Place, arguments: &[&str]) -> Vec<String> {
    let refused = run(place, arguments);
    assert_eq!(refused.code, 2, "{arguments:?}: {}{}", refused.out, refused.err);
    assert!(!place.path("runs").exists(), "nothing was changed");
    refused.err.lines().filter_map(|line| line.strip_prefix("error: ")).map(String::from).collect()
}

#[test]
fn a_file_is_reported_its_contradictions_beside_its_other_mistakes() {
    let place = Place::new("mistakes-file");
    let experiment = r#"
naem = "x"
[workload.http]
url = "ftp://localhost/"
threads = 2
connections = 1
[load]
measure = "xs"
[vary]
"workload.threads" = { levels = [] }
"#;
    std::fs::write(place.path("e.toml"), experiment).unwrap();
    assert_eq!(
        mistakes(&place, &["check", "e.toml", "--set", "seed=x"]),
        [
            "--set seed=x: `x` is not a whole number from 0 to 9223372036854775807",
            "unknown key `naem` in the experiment",
            "the scheme of the URL is not http or https: `ftp://localhost/`",
            "1 connections cannot be shared by 2 threads",
            "`xs` is not a duration, such as \"30s\", or \"until-done\"",
            "`workload.threads` has no levels",
        ]
    );
    // What follows from a mistake is not one more.
    let written = experiment.replace("url", "ulr").replace("connections = 1", "connections = \"b\"");
    std::fs::write(place.path("e.toml"), written).unwrap();
    let found = mistakes(&place, &["run", "e.toml"]);
    assert_eq!(found.len(), 5, "{found:?}");
    assert_eq!(
        found[1..3],
        ["unknown key `ulr` in [workload.http]", "`b` is not a whole number from 1 to 65536"]
    );
}

#[test]
fn flags_are_reported_their_contradictions_beside_other_mistakes() {
    let place = Place::new("mistakes-flags");
    assert_eq!(
        mistakes(&place, &["http", "ftp://localhost/", "--duration", "xs", "--replicates", "0"]),
        [
            "--duration: `xs` is not a duration, such as \"30s\", or \"until-done\"",
            "--replicates 0: `0` is not a whole number from 1 to 1000",
            "the scheme of the URL is not http or https: `ftp://localhost/`",
        ]
    );
    let disk = ["disk", "f.bin", "--block-size", "1000B", "--threads", "4"];
    let depth = "--threads of 4 and --outstanding of 8 are 32 operations in flight, but --concurrency sets 2";
    let block = "direct I/O works in multiples of 512 bytes, and --block-size of 1000B is none";
    let found = mistakes(&place, &[&disk[..], &["--concurrency", "2", "--outstanding", "8"]].concat());
    assert_eq!(found, [block, depth]);
    let share = "--threads of 4 cannot share the 2 operations in flight that --steps sets";
    assert_eq!(mistakes(&place, &[&disk[..], &["--steps", "1,2"]].concat()), [block, share]);
}

#[test]
fn flags_of_other_tools_and_missing_units_say_what_to_write() {
    let place = Place::new("mistakes-foreign");
    for (line, expected) in [
        (
            "disk f.bin --bs 4k --iodepth=8",
            "error: `--bs` is a flag of fio\n  write --block-size 4k\n\n\
             error: `--iodepth` is a flag of fio\n  write --outstanding 8\n",
        ),
        ("exec --runs 5 -- true", "error: `--runs` is a flag of hyperfine\n  write --repeat 5\n"),
        (
            "exec --nonsense -- true",
            "error: `--nonsense` is not a flag of `exec`\n  list its flags: plimsoll exec --help\n",
        ),
        (
            "disk f.bin --duration 5 --block-size 4",
            "error: --block-size: `4` has no unit: write 4B or 4KiB\n\n\
             error: --duration: `5` has no unit: write 5s\n\n2 mistakes, nothing was run\n",
        ),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let refused = run(&place, &arguments);
        assert_eq!((refused.code, refused.err.as_str()), (2, expected), "{line}");
    }
    // The command that times commands is known to `init` by its own name.
    assert_eq!(run(&place, &["init", "exec"]).code, 0);
    assert_eq!(run(&place, &["check", "experiment.toml"]).code, 0);
}
