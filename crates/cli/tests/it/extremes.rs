//! Numbers at the ends of what can be written, in files of other tools and in records: a result, or a reason.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{Finished, Place, run};

/// What a number is replaced by.
const EXTREMES: [&str; 10] = [
    "1e308",
    "12345678901234567890123456",
    "-1",
    "0",
    "1e-320",
    "9223372036854775808",
    "18446744073709551616",
    "NaN",
    "inf",
    "",
];

/// How many numbers of each file are replaced: more with `EXTREMES=1000`, all in the tests of the importers.
fn count() -> usize {
    std::env::var("EXTREMES").ok().and_then(|count| count.parse().ok()).unwrap_or(2)
}

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../foreign/fixtures");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|of| of != "md" && of != "bin" && of != "blg"));
    paths
}

/// The spans of the numbers in a text.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, sign) in text.char_indices() {
        let is_part = sign.is_ascii_digit() || (sign == '.' && found.last().is_some_and(|of| of.end == at));
        match found.last_mut() {
            Some(last) if is_part && last.end == at => last.end = at + 1,
            _ if is_part => found.push(at..at + 1),
            _ => {}
        }
    }
    found
}

/// Checks that a command ended with a result or a reason.
fn ended(done: &Finished, what: &str) {
    let is_panic = done.code == 101 || done.code < 0 || done.err.contains("panicked");
    assert!(!is_panic, "{what}: {}\n{}", done.code, done.err);
    assert!(done.code != 2 || done.err.contains("error: "), "{what}: refused without a reason\n{}", done.err);
    let is_odd = |word: &str| matches!(word.trim_matches(['(', ')', ',']), "inf" | "-inf" | "NaN");
    assert!(!done.out.split_whitespace().any(is_odd), "{what}:\n{}", done.out);
}

/// Checks that no figure of a result is absurd.
fn check(value: &Value, what: &str) {
    match value {
        // Limits of counters and sizes are within.
        Value::Number(number) => assert!(number.as_f64().unwrap().abs() < 1e22, "{what}: {number}"),
        Value::Array(all) => all.iter().for_each(|value| check(value, what)),
        Value::Object(all) => all.values().for_each(|value| check(value, what)),
        _ => {}
    }
}

/// What reads the record `r` afterwards.
const LATER: [&[&str]; 9] = [
    &["show", "r", "--verbose"],
    &["explain", "r"],
    &["report", "r"],
    &["report", "r", "--output", "r.html"],
    &["audit", "r"],
    &["size", "r", "--for", "1000/s"],
    &["compare", "r", "r"],
    &["export", "r", "--format", "csv"],
    &["export", "r", "--format", "openmetrics"],
];

#[test]
fn files_with_extreme_numbers_are_imported_or_refused() {
    let place = Place::new("extremes");
    let (mut imported, mut refused) = (0, 0);
    for (file, path) in fixtures().iter().enumerate() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let spans = numbers(&text);
        let most = count().min(spans.len());
        for at in 0..most {
            // Numbers from all of the file, and another extreme for each.
            let span = &spans[(at * spans.len() / most + file) % spans.len()];
            let extreme = EXTREMES[(file + at * 3) % EXTREMES.len()];
            let changed = format!("{}{extreme}{}", &text[..span.start], &text[span.end..]);
            std::fs::write(place.path(&name), changed).unwrap();
            let what = format!("{name}: {:?} at byte {} became {extreme:?}", &text[span.clone()], span.start);
            ended(&run(&place, &["audit", &name]), &what);
            let _ = std::fs::remove_dir_all(place.path("r"));
            let done = run(&place, &["import", &name, "--run-dir", "r"]);
            ended(&done, &what);
            if !place.path("r/result.json").exists() {
                refused += 1;
                continue;
            }
            imported += 1;
            let result = std::fs::read_to_string(place.path("r/result.json")).unwrap();
            check(&serde_json::from_str(&result).unwrap(), &what);
            // Each command is long compared with an import.
            for later in LATER.iter().skip((file + at) % LATER.len()).take(if count() > 2 { 9 } else { 1 }) {
                ended(&run(&place, later), &format!("{later:?}: {what}"));
            }
        }
    }
    assert!(imported > 20 && refused > 5, "{imported} imported, {refused} refused");
}

#[test]
fn an_import_is_refused_with_the_figure_that_cannot_be() {
    let place = Place::new("refused-figures");
    let fixture = |name: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../foreign/fixtures").join(name))
            .unwrap()
    };
    let fio = fixture("fio.json");
    let mut longest = String::new();
    for line in fio.lines() {
        let has_time = line.contains("\"runtime\" : ") || line.contains("\"job_runtime\" : ");
        longest += match line.split_once(" : ").filter(|_| has_time) {
            Some((name, rest)) => format!("{name} : 1e308{}\n", if rest.ends_with(',') { "," } else { "" }),
            None => format!("{line}\n"),
        }
        .as_str();
    }
    let seconds = "in 99999999999999999999999999.00s,";
    for (name, text, reason) in [
        ("a.json", longest, "the run time is not possible: 1e305 s"),
        ("a.txt", fixture("wrk.txt").replace("in 30.00s,", seconds), "the run time is not possible: "),
        ("b.txt", fixture("wrk.txt").replace("17.76GB", "1e30GB"), "no number of bytes that can be"),
        ("c.txt", fixture("wrk.txt").replace("5.80ms", "9e99h"), "the p99 response time is not possible"),
    ] {
        std::fs::write(place.path(name), &text).unwrap();
        for arguments in [vec!["import", name, "--run-dir", "r"], vec!["audit", name]] {
            let done = run(&place, &arguments);
            ended(&done, name);
            let is_refused = done.code == 2 && done.err.contains(reason);
            // Digits with a unit that the tool does not write are none.
            assert!(is_refused || name > "b", "{arguments:?}: {} {}", done.code, done.err);
        }
        assert!(name > "b" || !place.path("r").exists());
        let _ = std::fs::remove_dir_all(place.path("r"));
    }
}

/// The readings of the only trial of the record `r`, by the title of the column.
fn readings(place: &Place, title: &str) -> Vec<String> {
    let text = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/readings.csv")).unwrap();
    let mut rows = text.lines().map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
    let titles = rows.next().unwrap();
    let at = titles.iter().position(|of| of.starts_with(title)).unwrap_or_else(|| panic!("{titles:?}"));
    rows.map(|row| row[at].clone()).collect()
}

#[test]
fn counters_that_wrap_or_begin_again_have_no_rate_there() {
    let place = Place::new("wrapped");
    let mut text = String::new();
    for second in 0..9_u64 {
        // 32 bits, and a restart after 6 s.
        let wraps = (4_294_967_296 - 50_000_000 + second * 10_000_000) % 4_294_967_296;
        let restarts = if second < 6 { 1_000_000 + second * 1000 } else { (second - 6) * 1000 };
        text += &format!(
            "# TYPE node_network_receive_bytes_total counter\nnode_network_receive_bytes_total{{device=\"eth0\"}} {wraps}\n\
             # TYPE node_disk_read_bytes_total counter\nnode_disk_read_bytes_total{{device=\"sda\"}} {restarts}\n\
             # TYPE node_time_seconds gauge\nnode_time_seconds {}\n# EOF\n",
            1_600_000_000 + second
        );
    }
    std::fs::write(place.path("e.txt"), text).unwrap();
    let done = run(&place, &["import", "e.txt", "--run-dir", "r"]);
    assert_eq!(done.code, 0, "{}", done.err);
    for (file, rate) in [("network.received_bytes_per_s", 1e7), ("disk.read_bytes_per_s", 1e3)] {
        let values: Vec<f64> = readings(&place, file).iter().filter_map(|cell| cell.parse().ok()).collect();
        assert!(values.len() >= 6, "{file}: {values:?}");
        assert!(values.iter().all(|value| (value - rate).abs() < 1e-3 * rate), "{file}: {values:?}");
    }
}

#[test]
fn a_clock_that_goes_back_an_hour_and_past_midnight_is_one_course() {
    let place = Place::new("summer");
    let mut text = "Linux 6.1.0 (web1) \t10/25/26 \t_x86_64_\t(2 CPU)\n\n\
        01:30:00 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
        .to_string();
    for time in [
        "01:40:00 AM",
        "01:50:00 AM",
        "02:00:00 AM",
        "02:10:00 AM",
        "01:20:00 AM",
        "11:50:00 PM",
        "12:00:00 AM",
        "12:10:00 AM",
    ] {
        text += &format!("{time}     all     10.00      0.00      5.00      1.00      0.00     84.00\n");
    }
    std::fs::write(place.path("s.txt"), text).unwrap();
    let done = run(&place, &["import", "s.txt", "--run-dir", "r"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("85,200 s"), "{}", done.out);
    assert!(done.err.contains("summer time"), "{}", done.err);
}

#[test]
fn a_log_in_german_with_commas_and_blanks_is_read() {
    let place = Place::new("german");
    let text = "\"(PDH-CSV 4.0) (Mitteleurop\u{e4}ische Zeit)(-60)\",\"\\\\SRV1\\Prozessor(_Total)\\Prozessorzeit (%)\",\"\\\\SRV1\\Arbeitsspeicher\\Verf\u{fc}gbare MB\"\n\
        \"10/25/2026 01:00:00.000\",\"12,5\",\"1024\"\n\"10/25/2026 01:00:01.000\",\"22,5\",\" \"\n\
        \"10/25/2026 01:00:02.000\",\"32,5\",\"990\"\n\"10/25/2026 01:00:03.000\",\"42,5\",\"980\"\n";
    std::fs::write(place.path("p.csv"), text).unwrap();
    let done = run(&place, &["import", "p.csv", "--run-dir", "r"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let found = readings(&place, "cpu.busy_share");
    assert_eq!(found, ["0.125", "0.225", "0.325", "0.425"], "{}", done.out);
    assert!(done.out.contains("32.5 %"), "{}", done.out);
}

#[test]
fn responses_longer_than_a_cap_of_other_tools_keep_their_percentiles() {
    let place = Place::new("long");
    // Others cut off at 17.1 s or 268 s.
    let mut text = "timeStamp,elapsed,label,success\n".to_string();
    for at in 0..100_u64 {
        text += &format!("{},{},slow,true\n", 1_600_000_000_000 + at * 1000, 10_000 + at * 5_000);
    }
    std::fs::write(place.path("a.jtl"), text).unwrap();
    let done = run(&place, &["import", "a.jtl", "--run-dir", "r"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let result: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("r/result.json")).unwrap()).unwrap();
    let mut found = Vec::new();
    distributions(&result, &mut found);
    let slowest: Vec<f64> = found.iter().map(|of| of[6]).collect();
    assert!(slowest.iter().any(|max| (max - 505_000.0).abs() < 600.0), "{found:?}");
    assert!(found.iter().any(|of| (of[1] - 255_000.0).abs() < 6_000.0), "{found:?}");
}

/// Minimum, percentiles and maximum of every distribution in a document, as far as all are there.
fn distributions(value: &Value, found: &mut Vec<Vec<f64>>) {
    match value {
        Value::Array(all) => all.iter().for_each(|value| distributions(value, found)),
        Value::Object(all) => {
            let names = ["min", "p50", "p90", "p95", "p99", "p999", "max"];
            let parts: Vec<f64> = names.iter().filter_map(|name| all.get(*name)?.as_f64()).collect();
            if parts.len() == names.len() {
                found.push(parts);
            }
            all.values().for_each(|value| distributions(value, found));
        }
        _ => {}
    }
}

#[test]
fn no_percentile_is_above_the_longest() {
    let place = Place::new("monotone");
    let done = run(
        &place,
        &[
            "disk",
            "f.bin",
            "--size",
            "4MiB",
            "--outstanding",
            "3",
            "--read-percent",
            "50",
            "--duration",
            "1s",
            "--warm-up",
            "0s",
            "--run-dir",
            "r",
            "-q",
        ],
    );
    assert!(done.measured(), "{}", done.err);
    let result: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("r/result.json")).unwrap()).unwrap();
    let mut found = Vec::new();
    distributions(&result, &mut found);
    assert!(found.len() >= 6, "{found:?}");
    assert!(found.iter().all(|of| of.is_sorted()), "{found:?}");
}
