//! Every command in a terminal of 80 columns: no line is longer. Formats that programs read are excepted.

use std::process::{Command, Stdio};

use crate::metadir::{staff, staff_and_phones};
use crate::program::{Place, command};

/// What a terminal of 80 columns shows of a command line: all that is written, progress included.
fn shown(place: &Place, line: &str) -> Vec<String> {
    let program = command(place, &[]);
    let mut terminal = Command::new("script");
    terminal
        .args(["-qec", &format!("stty cols 80 rows 24; exec {}", line.replacen("plimsoll", "$PLIMSOLL", 1))])
        .arg("/dev/null")
        .current_dir(place.path("."))
        .env("PLIMSOLL", env!("CARGO_BIN_EXE_plimsoll"))
        .env("TERM", "xterm")
        .stdin(Stdio::null());
    program.get_envs().for_each(|(name, value)| {
        value.map(|value| terminal.env(name, value));
    });
    let output = terminal.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // A line that is redrawn begins with a return and ends before the next one.
    text.split('\n')
        .flat_map(|line| line.split('\r'))
        .map(|line| line.replace("\u{1b}[2K", "").replace("\u{1b}[K", ""))
        .filter(|line| !line.is_empty())
        .collect()
}

/// Checks each of these, in order, in the same place.
fn check(place: &Place, lines: &[&str]) {
    let mut wide = Vec::new();
    for line in lines {
        let shown = shown(place, line);
        assert!(!shown.is_empty(), "`{line}` shows nothing");
        assert!(!shown.iter().any(|line| line.contains("panicked")), "`{line}`: {shown:#?}");
        let longer = shown.iter().filter(|line| line.chars().count() > 80);
        wide.extend(longer.map(|longer| format!("{line}\n    {longer}")));
    }
    assert!(wide.is_empty(), "longer than 80 columns:\n{}", wide.join("\n"));
}

#[test]
fn measuring_commands_fit_into_80_columns() {
    let place = Place::new("width");
    std::fs::write(place.path("data.txt"), "a line of text\n".repeat(1000)).unwrap();
    check(
        &place,
        &[
            "plimsoll disk test.bin --size 16MiB --duration 1s --warm-up 0s --vary outstanding=1,4,16 --replicates 2",
            "plimsoll explain last",
            "plimsoll size last --for 100/s",
            "plimsoll size last --for '1000000/s with response.p95 <= 1us'",
            "plimsoll disk test.bin --size 16MiB --rate 200/s --duration 1s --warm-up 0s --goal 'response.p99 <= 1us'",
            "plimsoll show last -v",
            "plimsoll copy generate:16MiB copy.bin",
            "plimsoll explain last",
            "plimsoll exec 'gzip -c data.txt' 'true' 'sh -c \"exit 0; echo a long command line\"' --repeat 5",
            "plimsoll explain last",
            "plimsoll exec --repeat 3 -- false",
            "plimsoll compare last last",
            "plimsoll runs",
            "plimsoll null --duration 1s --warm-up 0s",
        ],
    );
}

#[test]
fn other_commands_and_mistakes_fit_into_80_columns() {
    let place = Place::new("width-others");
    check(
        &place,
        &[
            "plimsoll",
            "plimsoll --help",
            "plimsoll disk --help",
            "plimsoll http --help",
            "plimsoll copy --help",
            "plimsoll exec --help",
            "plimsoll sync --help",
            "plimsoll metadir --help",
            "plimsoll watch --list",
            "plimsoll watch --list nothing-of-that-name-is-counted-anywhere-on-this-machine",
            "plimsoll runs",
            "plimsoll restore",
            "plimsoll restore --dry-run",
            "plimsoll init disk",
            "plimsoll check experiment.toml",
            "plimsoll init nothing",
            "plimsoll disk --iodepth 3 --rwmixread 70 test.bin",
            "plimsoll disk test.bin --duration 5",
            "plimsoll disk test.bin --vary foo=1,2",
            "plimsoll disk test.bin --write-through --align 4KiB --sequential --stride 1KiB",
            "plimsoll disk a-folder-that-does-not-exist/and-a-file-with-a-long-name-in-it.bin",
            "plimsoll http ftp://nothing.invalid/",
            "plimsoll run nothing.toml",
            "plimsoll show nothing",
            "plimsoll metadir run full",
        ],
    );
}

#[test]
fn the_metadirectory_fits_into_80_columns() {
    let place = Place::new("width-metadir");
    staff_and_phones(&place);
    check(&place, &["plimsoll metadir check", "plimsoll metadir run full", "plimsoll metadir history"]);
    std::fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    check(
        &place,
        &[
            "plimsoll metadir preview full",
            "plimsoll metadir run full",
            "plimsoll metadir status",
            "plimsoll metadir history",
            "plimsoll metadir run nothing",
            "plimsoll metadir preview full --object E00001",
        ],
    );
}
