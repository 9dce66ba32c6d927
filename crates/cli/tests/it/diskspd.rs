//! `plimsoll disk --diskspd`: diskspd's command line in, its report out, read as scripts read it.

use std::collections::BTreeMap;

use crate::program::{Place, run};

/// A row of a table: what is before the first `|`, and the other cells.
type Row = (String, Vec<String>);

/// The tables of a report by the line above them, rows between and below the borders.
fn tables(report: &str) -> BTreeMap<String, Vec<Row>> {
    let mut tables: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut title = String::new();
    for line in report.lines() {
        if line.trim().is_empty() || line.starts_with("----") {
            continue;
        }
        // `total:` has its first cell in the same place.
        let line = line.replacen("total:", "total |", 1);
        match line.split_once('|') {
            None => title = line,
            Some((first, rest)) => {
                let cells = rest.split('|').map(|cell| cell.trim().to_string()).collect();
                tables.entry(title.clone()).or_default().push((first.trim().into(), cells));
            }
        }
    }
    tables
}

fn number(cell: &str) -> f64 {
    cell.trim_end_matches('%').parse().unwrap_or_else(|_| panic!("`{cell}` is not a number"))
}

#[test]
fn a_command_line_of_diskspd_gives_its_report() {
    let place = Place::new("diskspd");
    let flags = ["-b4K", "-d1", "-W0", "-o4", "-t2", "-r", "-w30", "-Sh", "-L", "-c16M", "f.dat"];
    let done = run(&place, &[&["disk", "--quiet", "--run-dir", "r", "--diskspd"][..], &flags].concat());
    assert!(done.measured(), "{}", done.err);
    let tables = tables(&done.out);
    let kept = std::fs::read_to_string(place.path("r/result.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&kept).unwrap();
    let operations = document["trials"][0]["operations"].as_array().unwrap();
    let completed = |name: &str| {
        let operation = operations.iter().find(|operation| operation["name"] == name).unwrap();
        operation["completed"].as_f64().unwrap() - operation["failed"].as_f64().unwrap()
    };
    // Each thread's operations are those of the record, and the total is their sum.
    for (title, part) in [("Read IO", "read"), ("Write IO", "write")] {
        let rows = &tables[title];
        let heads = ["bytes", "I/Os", "MiB/s", "I/O per s", "AvgLat", "LatStdDev", "file"];
        assert_eq!(rows[0], ("thread".into(), heads.map(String::from).to_vec()));
        let [_, first, second, total] = rows.as_slice() else { panic!("{title}: {rows:?}") };
        for (thread, row) in [first, second].into_iter().enumerate() {
            assert_eq!(row.0, thread.to_string());
            assert_eq!(number(&row.1[1]), completed(&format!("thread{thread}:{part}")), "{title}: {row:?}");
            assert_eq!(number(&row.1[0]), number(&row.1[1]) * 4096.0);
            assert_eq!(row.1[6], "f.dat (16MiB)");
        }
        assert_eq!(total.0, "total");
        for column in [0, 1] {
            assert_eq!(number(&total.1[column]), number(&first.1[column]) + number(&second.1[column]));
        }
    }
    for column in [0, 1] {
        let total = |title: &str| number(&tables[title][3].1[column]);
        assert_eq!(total("Total IO"), total("Read IO") + total("Write IO"));
    }
    let latencies = &tables["Total latency distribution:"];
    let names: Vec<&str> = latencies.iter().map(|row| row.0.as_str()).collect();
    let expected = [
        "%-ile", "min", "25th", "50th", "75th", "90th", "95th", "99th", "3-nines", "4-nines", "5-nines",
        "6-nines", "7-nines", "8-nines", "9-nines", "max",
    ];
    assert_eq!(names, expected);
    for column in 0..3 {
        let values: Vec<f64> = latencies[1..].iter().map(|row| number(&row.1[column])).collect();
        assert!(values.is_sorted(), "{values:?}");
    }
    let cpus = tables.values().find(|rows| rows[0].0 == "CPU").unwrap();
    assert_eq!(cpus.last().unwrap().0, "avg.");
    for row in &cpus[1..] {
        let [used, user, kernel, idle] = [0, 1, 2, 3].map(|at| number(&row.1[at]));
        assert!((used - user - kernel).abs() < 0.02 && used + idle < 100.1, "{row:?}");
    }
    insta::assert_snapshot!(masked(&done.out));
}

/// The report with `#` for what another run or host would not have, each field as wide as it is.
fn masked(report: &str) -> String {
    let mask = |cell: &str| {
        let is_text = cell.contains(|letter: char| letter.is_ascii_alphabetic());
        if is_text { cell.into() } else { cell.replace(|letter: char| letter != '%', "#") }
    };
    let (profile, results) = report.split_once("System information:").unwrap();
    let mut lines = vec![format!("{profile}System information:")];
    for line in results.lines().skip(1) {
        let is_later_cpu = line.contains("%|") && !line.starts_with("   0|") && !line.starts_with("avg.");
        if is_later_cpu {
            continue;
        }
        lines.push(match (line.strip_prefix("total:"), line.split_once('|'), line.split_once(':')) {
            (Some(cells), ..) => {
                format!("total:{}", cells.split('|').map(mask).collect::<Vec<_>>().join("|"))
            }
            (_, Some((first, cells)), _) => {
                format!("{first}|{}", cells.split('|').map(mask).collect::<Vec<_>>().join("|"))
            }
            (.., Some((name, _))) if line.contains('\t') => format!("{name}: #"),
            _ => line.into(),
        });
    }
    lines.join("\n")
}

#[test]
fn each_file_has_rows_of_its_own() {
    let place = Place::new("diskspd-files");
    let flags = ["-b64K", "-d1", "-W0", "-F2", "-r", "-L", "-c8M", "a.dat", "b.dat"];
    let done = run(&place, &[&["disk", "--quiet", "--diskspd"][..], &flags].concat());
    assert!(done.measured(), "{}", done.err);
    let tables = tables(&done.out);
    let rows: Vec<(&str, &str)> =
        tables["Total IO"][1..5].iter().map(|row| (row.0.as_str(), row.1[6].as_str())).collect();
    let expected =
        [("0", "a.dat (8MiB)"), ("0", "b.dat (8MiB)"), ("1", "a.dat (8MiB)"), ("1", "b.dat (8MiB)")];
    assert_eq!(rows, expected);
    assert!(tables["Total IO"][1..5].iter().all(|row| number(&row.1[1]) > 0.0), "{}", done.out);
    for title in ["Latency distribution: a.dat", "Latency distribution: b.dat", "Total latency distribution:"]
    {
        assert!(tables.contains_key(title), "{title}\n{}", done.out);
    }
    // Files that -c makes are kept.
    assert_eq!(std::fs::metadata(place.path("a.dat")).unwrap().len(), 8 << 20);
}

#[test]
fn a_profile_is_printed_without_a_run() {
    let place = Place::new("diskspd-profile");
    let done = run(&place, &["disk", "--diskspd", "-Rp", "-b8K", "-t4", "-w100", "new.dat"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("\t\tperforming write test\n\t\tblock size: 8KiB\n"), "{}", done.out);
    assert!(!place.path("new.dat").exists() && !place.path("runs").exists());
}

#[test]
fn a_foreign_file_is_not_written_over() {
    let place = Place::new("diskspd-foreign");
    std::fs::write(place.path("precious.db"), vec![7u8; 1 << 20]).unwrap();
    let flags = ["--diskspd", "-w100", "-b4K", "-d1", "-W0", "-t2", "precious.db"];
    let refused = run(&place, &[&["disk"][..], &flags].concat());
    assert_eq!(refused.code, 2);
    let hint = "use --overwrite precious.db in front of --diskspd";
    assert_eq!(refused.err.matches(hint).count(), 1, "{}", refused.err);
    assert_eq!(std::fs::read(place.path("precious.db")).unwrap(), vec![7u8; 1 << 20]);
    let named = run(&place, &[&["disk", "--quiet", "--overwrite", "precious.db"][..], &flags].concat());
    assert!(named.measured(), "{}", named.err);
    assert_ne!(std::fs::read(place.path("precious.db")).unwrap(), vec![7u8; 1 << 20]);
}
