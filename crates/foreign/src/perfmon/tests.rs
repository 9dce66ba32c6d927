use super::*;
use crate::testing::{self, texts};

fn log(bytes: &[u8], options: &Options) -> Result<Box<dyn CounterLog>, Fault> {
    testing::log("perfmon-csv", bytes, options)
}

/// All samples: their times in seconds since the first one, and their values.
fn samples(log: &mut dyn CounterLog) -> Vec<(f64, f64, Vec<f64>)> {
    let mut found = Vec::new();
    let mut sample = Sample::default();
    let mut first = None;
    while log.next(&mut sample).unwrap() {
        let first = *first.get_or_insert(sample.end_unix_ns);
        let seconds = |ns: i64| (ns - first) as f64 / 1e9;
        found.push((seconds(sample.begin_unix_ns), seconds(sample.end_unix_ns), sample.values.clone()));
    }
    found
}

const LOG: &str = "\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\",\"\\\\DB1\\Processor(_Total)\\% Processor Time\",\"\\\\DB1\\Memory\\Available MBytes\"\r\n\
\"11/26/2014 12:00:00.000\",\" \",\"812\"\r\n\
\"11/26/2014 12:00:15.000\",\"12.5\",\"811\"\r\n\
\"11/26/2014 12:00:30.000\",\"13.25\",\" \"\r\n";

#[test]
fn a_log_has_its_columns_times_and_gaps() {
    let mut log = log(LOG.as_bytes(), &Options::default()).unwrap();
    let (columns, _) = log.columns();
    assert_eq!(columns[0].host, "DB1");
    assert_eq!(columns[0].path, r"Processor(_Total)\% Processor Time");
    assert_eq!(columns[1].path, r"Memory\Available MBytes");
    assert_eq!(log.clock(), (Some(DateOrder::MonthFirst), Some(-3600)));
    let mut sample = Sample::default();
    assert!(log.next(&mut sample).unwrap());
    let utc: jiff::Timestamp = "2014-11-26T11:00:00Z".parse().unwrap();
    assert_eq!(i128::from(sample.end_unix_ns), utc.as_nanosecond());
    let rest = samples(&mut *log);
    assert_eq!(rest[0].2, [12.5, 811.0]);
    assert_eq!((rest[1].0, rest[1].1, rest[1].2[0]), (0.0, 15.0, 13.25));
    assert!(rest[1].2[1].is_nan());
    assert_eq!(log.notes(), []);
}

#[test]
fn other_countries_have_other_signs() {
    let german = "\"(PDH-CSV 4.0)\";\"\\\\DB1\\Prozessor(_Total)\\Prozessorzeit (%)\"\n26.11.2014 12:00:00;1,5\n26.11.2014 12:00:01;2,5\n";
    let mut found = log(german.as_bytes(), &Options::default()).unwrap();
    assert_eq!(found.columns().0[0].path, r"Processor(_Total)\% Processor Time");
    assert_eq!(found.columns().0[0].written, r"Prozessor(_Total)\Prozessorzeit (%)");
    assert_eq!(found.clock().0, Some(DateOrder::DayFirst));
    assert_eq!(samples(&mut *found), [(0.0, 0.0, vec![1.5]), (0.0, 1.0, vec![2.5])]);
    let quoted = "\"(PDH-CSV 4.0)\",\"\\\\DB1\\Prozessor(_Total)\\Prozessorzeit (%)\"\n\"26.11.2014 12:00:00\",\"1,5\"\n";
    let mut found = log(quoted.as_bytes(), &Options::default()).unwrap();
    assert_eq!(samples(&mut *found), [(0.0, 0.0, vec![1.5])]);
    let tabs: Vec<u8> = LOG
        .replace("\",\"", "\"\t\"")
        .replace("CSV", "TSV")
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let mut found = log(&[&[0xff, 0xfe][..], &tabs].concat(), &Options::default()).unwrap();
    assert_eq!(samples(&mut *found).len(), 3);
}

#[test]
fn what_is_wrong_is_noted_and_the_rest_is_read() {
    let text = format!(
        "{LOG}\"11/26/2014 12:00:45.000\",\"x\",\"1\"\n\"11/26/2014 12:00:40.000\",\"1\",\"1\"\nExiting, please wait...\n\
         \"yesterday\",\"1\",\"2\"\n\"11/26/2014 12:01:00.000\",\"7\"\n"
    );
    let mut log = log(text.as_bytes(), &Options::default()).unwrap();
    let found = samples(&mut *log);
    assert_eq!(found.len(), 5);
    assert!(found[3].2[0].is_nan());
    assert_eq!(
        texts(&log.notes()),
        [
            "line 5: a value is no number and was left out",
            "line 6: a row is not later than the one before and was left out",
            "line 8: a row has no time and was left out",
            "line 9: a row ends early: the values after it are absent",
        ]
    );
}

#[test]
fn logs_one_after_the_other_have_columns_of_their_own() {
    let other = LOG.replace("DB1", "DB2").replace("12:0", "13:0");
    let mut log = log(format!("{LOG}{other}").as_bytes(), &Options::default()).unwrap();
    let found = samples(&mut *log);
    assert_eq!(found.len(), 6);
    // A window never spans both.
    assert_eq!((found[3].0, found[3].1), (3600.0, 3600.0));
    assert_eq!(log.columns().0[0].host, "DB2");
}

#[test]
fn the_end_of_summer_time_is_bridged() {
    let row = |time: &str| format!("\"10/26/2014 {time}\",\"1\",\"2\"\n");
    let head = LOG.lines().next().unwrap();
    let text = format!("{head}\n{}{}{}", row("02:59:50.000"), row("02:00:00.000"), row("02:00:10.000"));
    let mut log = log(text.as_bytes(), &Options::default()).unwrap();
    let ends: Vec<f64> = samples(&mut *log).iter().map(|sample| sample.1).collect();
    assert_eq!(ends, [0.0, 10.0, 20.0]);
    assert!(log.notes()[0].what.contains("summer time"));
}

#[test]
fn what_is_no_log_is_refused_with_the_reason() {
    for (text, expected) in [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "the format is not known"),
        ("\"(PDH-CSV 4.0)\",\"x\"\n", "line 1: the first row has no path"),
    ] {
        let Err(fault) = log(text.as_bytes(), &Options::default()) else { panic!("{text}") };
        assert!(fault.to_string().starts_with(expected), "{fault}");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_comes_after_the_head_nothing_fails(rows in proptest::collection::vec("[-0-9/:., \"\t\\\\a]{0,40}", 0..20)) {
        let head = LOG.lines().next().unwrap();
        if let Ok(mut log) = log(format!("{head}\n{}", rows.join("\n")).as_bytes(), &Options::default()) {
            let mut sample = Sample::default();
            while log.next(&mut sample).unwrap_or(false) {
                proptest::prop_assert!(sample.end_unix_ns >= sample.begin_unix_ns);
            }
        }
    }
}
