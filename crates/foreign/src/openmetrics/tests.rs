use super::*;
use crate::testing::{self, seconds};

fn log(text: &str) -> Result<Box<dyn CounterLog>, Fault> {
    testing::log("openmetrics", text.as_bytes(), &Options::default())
}

fn samples(log: &mut dyn CounterLog) -> Vec<String> {
    testing::samples(log, seconds)
}

#[test]
fn snapshots_end_where_a_series_is_repeated_or_at_their_end() {
    for (end, times) in [("", ""), ("# EOF\n", "")] {
        let one = |time: u32, value: f64| {
            format!(
                "# HELP node_load1 1m load\n# TYPE node_load1 gauge\nnode_load1 {value}\n\
                 # TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total{{mode=\"idle\",cpu=\"0\"}} {}\n\
                 # TYPE node_time_seconds gauge\nnode_time_seconds {time}{times}\n{end}",
                10.0 * value
            )
        };
        let mut found = log(&[one(1_600_000_000, 0.5), one(1_600_000_010, 0.75)].concat()).unwrap();
        assert_eq!(
            samples(&mut *found),
            [
                "1600000000..1600000000 node_load1=0.5 node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"}=5 node_time_seconds=1600000000",
                "1600000000..1600000010 node_load1=0.75 node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"}=7.5 node_time_seconds=1600000010",
            ]
        );
        assert_eq!(found.notes(), []);
        assert_eq!((found.is_cumulative(0), found.is_cumulative(1)), (false, true));
        assert_eq!(found.columns().0[1].written, "node_cpu_seconds_total{mode=\"idle\",cpu=\"0\"}");
    }
}

/// The host and the path of each column.
fn columns(log: &dyn CounterLog) -> Vec<String> {
    log.columns().0.iter().map(|column| format!("{} {}", column.host, column.path)).collect()
}

#[test]
fn the_host_is_that_which_the_exporter_names() {
    for (name, found) in [
        ("node_uname_info{nodename=\"db1\",machine=\"x86_64\"}", "db1"),
        ("windows_cs_hostname{domain=\"\",fqdn=\"WEB1\",hostname=\"WEB1\"}", "WEB1"),
        ("windows_os_hostname{domain=\"\",fqdn=\"WEB1\",hostname=\"WEB1\"}", "WEB1"),
        ("other_info{nodename=\"db1\"}", ""),
    ] {
        for time in ["", " 1600000000000"] {
            let text = format!("# TYPE a gauge\na 1{time}\n{name} 1{time}\nb 2{time}\n");
            let log = log(&text).unwrap();
            let columns = columns(&*log);
            assert!(columns[0] == format!("{found} a") && columns[2] == format!("{found} b"), "{columns:?}");
        }
    }
}

#[test]
fn hosts_in_turn_and_those_of_a_prometheus_server_have_their_own_columns() {
    let one = |host: &str, time: u32| {
        format!(
            "# TYPE a gauge\na {time}\nnode_time_seconds {time}\nnode_uname_info{{nodename=\"{host}\"}} 1\n"
        )
    };
    let text = [one("db1", 1), one("web1", 2), one("db1", 5), one("web1", 4), one("db1", 9)].concat();
    let mut found = log(&text).unwrap();
    // The second snapshot of web1 is by its clock earlier than that of db1 before it.
    let rows: Vec<String> = samples(&mut *found)
        .iter()
        .map(|row| row.split(' ').take(2).collect::<Vec<&str>>().join(" "))
        .collect();
    assert_eq!(rows, ["1..1 a=1", "1..2 a=2", "2..4 a=4", "4..5 a=5", "5..9 a=9"]);
    assert_eq!(columns(&*found)[..2], ["db1 a", "db1 node_time_seconds"]);
    assert!(columns(&*found).contains(&"web1 a".to_string()));
    let federated = "# TYPE a untyped\na{instance=\"db1:9100\",job=\"node\",of=\"x\"} 1 1600000000000\n\
                     a{instance=\"web1:9100\",job=\"node\"} 2 1600000000000\na{instance=\"x\"} 3 1600000000000\n";
    let found = log(federated).unwrap();
    assert_eq!(columns(&*found), ["db1:9100 a{of=\"x\"}", "web1:9100 a", " a{instance=\"x\"}"]);
}

#[test]
fn values_with_times_are_joined_in_either_order() {
    let expected = ["1600000000..1600000000 a{i=\"x\"}=1 b=3", "1600000000..1600000010 a{i=\"x\"}=2 b=4"];
    for text in [
        "a{i=\"x\"} 1 1600000000000\nb 3 1600000000000\na{i=\"x\"} 2 1600000010000\nb 4 1600000010000\n",
        "a{i=\"x\"} 1 1600000000000\na{i=\"x\"} 2 1600000010000\nb 3 1600000000000\nb 4 1600000010000\n",
        "# TYPE b gauge\na{i=\"x\"} 1 1600000000.0\na{i=\"x\"} 2 1600000010.0\nb 3 1600000000.0\nb 4 1600000010.0\n# EOF\n",
    ] {
        let mut found = log(text).unwrap();
        assert_eq!(samples(&mut *found), expected);
    }
}

#[test]
fn what_is_not_there_is_absent_and_what_is_wrong_is_noted() {
    let text = "# TYPE a gauge\na 1\nb{x=\"\"} +Inf\n\na 2\nc NaN\nwrong\n\na 3\nb{x=\"\"} 4\n";
    let mut found = log(text).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(samples(&mut *found), ["0..0 a=1", "0..1 a=2", "1..2 a=3 b{x=\"\"}=4"]);
    let notes: Vec<String> = found.notes().iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "line 5: a snapshot has no time: snapshots are 1 s apart, from 1970 on (3 times, first here)",
            "line 7: a line has no series: it was left out",
        ]
    );
}

#[test]
fn other_text_is_not_taken_for_series() {
    for text in ["total 12\nused 13\n", "# TYPE a gauge\n", "hello world\na{b=\"c\"} 1\n", "a{b=\"c\"\n"] {
        let Err(fault) = log(text) else { panic!("{text}") };
        assert_eq!(fault.what, "the format is not known", "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_comes_after_the_head_nothing_fails(
        rows in proptest::collection::vec("[a-c](\\{[a-b]=\"[x\\\\\"]{0,2}\"\\})? [-+0-9.eNaIf]{0,6}( [-0-9.]{0,14})?|# EOF|[ -~]{0,20}", 0..30)
    ) {
        let text = format!("# TYPE a gauge\na{{b=\"1\"}} 1\n{}{}", "\n".repeat(100), rows.join("\n"));
        let Ok(Content::Counters(mut log)) = open(Box::new(std::io::Cursor::new(text.into_bytes())), &Options::default()) else {
            return Ok(());
        };
        let mut sample = Sample::default();
        let mut before = i64::MIN;
        while log.next(&mut sample).unwrap() {
            proptest::prop_assert!(sample.begin_unix_ns >= before && sample.end_unix_ns >= sample.begin_unix_ns);
            before = sample.end_unix_ns;
        }
    }
}
