use super::super::tests::samples;
use super::*;
use crate::{Content, testing};

fn log(text: &str) -> Result<Box<dyn CounterLog>, Fault> {
    testing::log("sadf", text.as_bytes(), &Options::default())
}

const CSV: &str = "# hostname;interval;timestamp;CPU;%user;%idle\n\
db1;600;2020-10-12 00:10:01 UTC;-1;2.00;94.00\n\
db1;600;2020-10-12 00:20:01 UTC;-1;3.00;93.00\n\
# hostname;interval;timestamp;tps;rtps;wtps;bread/s;bwrtn/s\n\
db1;600;2020-10-12 00:10:01 UTC;5.00;1.00;4.00;0;0\n\
db1;-1;2020-10-12 00:25:00 UTC;LINUX-RESTART\t(4 CPU)\n\
# hostname;interval;timestamp;DEV;tps;await\n\
db1;10;2020-10-12 00:30:01 UTC;sda;5.00;1.5\n";

#[test]
fn tables_of_csv_are_joined() {
    let mut found = log(CSV).unwrap();
    assert_eq!(found.columns().0[0].host, "db1");
    assert_eq!(
        samples(&mut *found),
        [
            "12 00:00:01..12 00:10:01 -u %user(all)=2 -u %idle(all)=94 -b tps=5 -b rtps=1 -b wtps=4 -b bread/s=0 -b bwrtn/s=0",
            "12 00:10:01..12 00:20:01 -u %user(all)=3 -u %idle(all)=93",
            "12 00:29:51..12 00:30:01 -d tps(sda)=5 -d await(sda)=1.5",
        ]
    );
    assert_eq!(found.notes(), []);
}

#[test]
fn a_line_may_have_all_tables() {
    let text = "# hostname;interval;timestamp;CPU;%usr;%idle[...];proc/s;cswch/s;kbmemfree;kbavail\n\
db1;1;1602461401;-1;2;98;0;3;97;0.5;70;1000;2000\n\
db1;1;1602461402;-1;2;98;0.5;70;1000\n";
    let mut found = log(text).unwrap();
    assert_eq!(
        samples(&mut *found),
        [
            "12 00:10:00..12 00:10:01 -u ALL %usr(all)=2 -u %idle(all)=98 -u ALL %usr(0)=3 -u %idle(0)=97 -w proc/s=0.5 \
          -w cswch/s=70 -r kbmemfree=1000 -r kbavail=2000"
        ]
    );
    assert_eq!(found.notes()[0].line, 3);
    let Err(fault) = log(&text.replace("kbavail", "kbavail;IFACE;rxpck/s[...]")) else { panic!() };
    assert_eq!(fault.to_string(), "line 1: a line has several lists of instances without their ends");
}

const JSON: &str = r#"{"sysstat": {"hosts": [{
    "nodename": "db1", "file-date": "2020-10-12", "timezone": "UTC",
    "statistics": [
        {"timestamp": {"date": "2020-10-12", "time": "00:10:01", "utc": 1, "interval": 600},
         "cpu-load": [{"cpu": "all", "user": 2.5, "idle": 94}],
         "io": {"tps": 3, "io-reads": {"rtps": 1, "bread": 8}},
         "network": {"net-dev": [{"iface": "e\"}th0", "rxkB": 7, "ifutil-percent": 1}]}},
        {"timestamp": {"date": "2020-10-12", "time": "00:20:01", "tz": "UTC", "interval": 600},
         "cpu-load": [{"cpu": "0", "usr": 2.5}], "psi": {"psi-cpu": {"some_avg10": 0.5}}, "new-one": {"x": 1}},
        {"timestamp": {}, "queue": {"runq-sz": 1}}
    ],
    "restarts": [{"boot": {"date": "2020-10-12"}}]
}]}}
"#;

#[test]
fn json_is_read_object_after_object() {
    let mut found = log(JSON).unwrap();
    assert_eq!(found.columns().0[0].host, "db1");
    assert_eq!(
        samples(&mut *found),
        [
            "12 00:00:01..12 00:10:01 -u %idle(all)=94 -u %user(all)=2.5 -b bread/s=8 -b rtps=1 -b tps=3 \
             -n DEV %ifutil(e\"}th0)=1 -n DEV rxkB/s(e\"}th0)=7",
            "12 00:10:01..12 00:20:01 -u ALL %usr(0)=2.5 -q CPU %scpu-10=0.5",
        ]
    );
    assert_eq!(found.notes()[0].what, "a row has no time and was left out");
    let cut = &JSON[..JSON.find("\"new-one\"").unwrap()];
    let mut found = log(cut).unwrap();
    assert_eq!(samples(&mut *found).len(), 1);
    assert_eq!(found.notes()[0].what, "the file ends within an object: it is cut");
}

#[test]
fn local_times_are_noted() {
    let mut found = log(&CSV.replace(" UTC", " EST")).unwrap();
    assert_eq!(samples(&mut *found).len(), 3);
    assert_eq!(found.notes()[0].what, "times are local, and were taken as UTC (4 times, first here)");
}

proptest::proptest! {
    #[test]
    fn no_csv_is_a_panic(rows in proptest::collection::vec("(# hostname;interval;timestamp;)?[-a-zA-Z0-9;:./% ]{0,40}(;CPU;%user\\[...\\])?", 0..20)) {
        if let Ok(mut log) = log(&format!("{CSV}{}", rows.join("\n"))) {
            let mut sample = Sample::default();
            while log.next(&mut sample).unwrap_or(false) {}
        }
    }

    #[test]
    fn no_json_is_a_panic(at in 0_usize..900, text in "[]{}\\[:,\"a1\\\\]{0,12}") {
        let at = at.min(JSON.len());
        if let (Some(begin), Some(end)) = (JSON.get(..at), JSON.get(at..))
            // What is put in may look like the begin of another format.
            && let Ok((_, Content::Counters(mut log))) =
                crate::open(Box::new(std::io::Cursor::new(format!("{begin}{text}{end}"))), &Options::default())
        {
            let mut sample = Sample::default();
            while log.next(&mut sample).unwrap_or(false) {}
        }
    }
}
