use super::*;
use crate::testing::{self, texts};

fn log(text: &str, options: &Options) -> Result<Box<dyn CounterLog>, Fault> {
    testing::log("sar", text.as_bytes(), options)
}

pub(super) fn samples(log: &mut dyn CounterLog) -> Vec<String> {
    let time =
        |ns: i64| jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap().strftime("%d %T").to_string();
    testing::samples(log, time)
}

const DAY: &str = "Linux 5.4.0 (db1) \t10/13/2020 \t_x86_64_\t(2 CPU)\n\n\
11:50:01 PM     CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
12:00:01 AM     all      2.00      0.00      1.00      3.00      0.00     94.00\n\
12:10:01 AM     all      4.00      0.00      1.00      3.00      0.00     92.00\n\
Average:        all      3.00      0.00      1.00      3.00      0.00     93.00\n\n\
11:50:01 PM       DEV       tps     rkB/s  avgqu-sz     await     %util\n\
12:00:01 AM       sda      1.00      8.00      0.50      4.00      5.00\n\
12:00:01 AM    dev8-16      2.00      8.00      0.50      x         5.00\n\
12:10:01 AM       sda      3.00      8.00      0.50      4.00      5.00\n\
Average:          sda      2.00      8.00      0.50      4.00      5.00\n\n\
12:20:01 AM  LINUX RESTART\t(2 CPU)\n\n\
12:30:01 AM    proc/s   cswch/s\n\
12:40:01 AM      1.00     70.00\n";

#[test]
fn tables_are_joined_over_midnight_and_a_restart_is_a_gap() {
    let mut found = log(DAY, &Options::default()).unwrap();
    assert_eq!(found.columns().0[0].host, "db1");
    assert_eq!(found.clock(), (Some(DateOrder::MonthFirst), None));
    assert_eq!(
        samples(&mut *found),
        [
            "13 23:50:01..14 00:00:01 -u %user(all)=2 -u %nice(all)=0 -u %system(all)=1 -u %iowait(all)=3 -u %steal(all)=0 \
             -u %idle(all)=94 -d tps(sda)=1 -d rkB/s(sda)=8 -d aqu-sz(sda)=0.5 -d await(sda)=4 -d %util(sda)=5 \
             -d tps(dev8-16)=2 -d rkB/s(dev8-16)=8 -d aqu-sz(dev8-16)=0.5 -d %util(dev8-16)=5",
            "14 00:00:01..14 00:10:01 -u %user(all)=4 -u %nice(all)=0 -u %system(all)=1 -u %iowait(all)=3 -u %steal(all)=0 \
             -u %idle(all)=92 -d tps(sda)=3 -d rkB/s(sda)=8 -d aqu-sz(sda)=0.5 -d await(sda)=4 -d %util(sda)=5",
            "14 00:30:01..14 00:40:01 -w proc/s=1 -w cswch/s=70",
        ]
    );
    assert_eq!(found.columns().0[8].written, "-d avgqu-sz(sda)");
    assert_eq!(
        texts(&found.notes()),
        [
            "line 10: a disk has its numbers (dev8-0) instead of a name",
            "line 10: a value is no number and was left out"
        ]
    );
}

#[test]
fn a_live_log_is_returned_time_after_time() {
    let mut text = "Linux 5.4.0 (db1) \t2020-10-12 \t_x86_64_\t(2 CPU)\n".to_string();
    for second in 0..4 {
        text += &format!(
            "\n23:59:5{} CPU %usr %nice %sys %iowait %steal %irq %soft %guest %gnice %idle\n23:59:5{} all 1,50 0 0 0 0 0 0 0 0 98,50\n",
            second,
            second + 1
        );
        text += &format!("\n23:59:5{second} tps rkB/s DEV\n23:59:5{} {second} 1.00 my disk\n", second + 1);
    }
    let source: Source = Box::new(std::io::Cursor::new(text.clone().into_bytes()));
    let mut direct = SarLog { lines: Lines::new(source), tables: Tables::default(), is_at_end: false };
    let mut sample = Sample::default();
    assert!(direct.next(&mut sample).unwrap());
    assert!(!direct.is_at_end);
    let mut found = log(&text, &Options { utc_offset_s: -3600, ..Options::default() }).unwrap();
    let found = samples(&mut *found);
    assert_eq!(found.len(), 4);
    assert_eq!(
        found[3],
        "12 22:59:53..12 22:59:54 -u ALL %usr(all)=1.5 -u ALL %nice(all)=0 -u ALL %sys(all)=0 -u %iowait(all)=0 \
         -u %steal(all)=0 -u ALL %irq(all)=0 -u ALL %soft(all)=0 -u ALL %guest(all)=0 -u ALL %gnice(all)=0 \
         -u %idle(all)=98.5 -d tps(my disk)=3 -d rkB/s(my disk)=1"
    );
}

#[test]
fn what_is_wrong_is_noted_and_the_rest_is_read() {
    let text = "Linux 5.4.0 (db1) \t04/05/2020 \t_x86_64_\t(2 CPU)\n\
10:00:00 AM IST  kbmemfree   kbavail\n\
10:10:00 AM IST          1         2\n\
10:20:00 AM IST          1\n\
hello world\n\
10:30:00 AM IST       2.5G         2\n\
10:40:00 AM   foo/s   bar/s\n\
10:50:00 AM    1.00    2.00\n\
10:50:00 AM   titles unknown\n\
10:51:00 AM   1 2\n\
10:55:00 AM  COM a comment\n";
    let mut found = log(text, &Options::default()).unwrap();
    assert_eq!(
        samples(&mut *found),
        [
            "05 10:00:00..05 10:10:00 -r kbmemfree=1 -r kbavail=2",
            "05 10:20:00..05 10:30:00 -r kbavail=2",
            "05 10:40:00..05 10:50:00 foo/s=1 bar/s=2",
        ]
    );
    assert_eq!(
        texts(&found.notes()),
        [
            "line 1: day and month of a date may be exchanged: the month was taken as the first",
            "line 4: a row has other values than its table has titles and was left out",
            "line 5: a line is no row of a table and was left out",
            "line 6: a value is no number and was left out",
            "line 7: the option of a table is not known",
            "line 9: a line is no row of a table: what follows it was left out",
            "line 10: a row is in no table and was left out",
        ]
    );
}

#[test]
fn what_is_no_log_is_refused_with_the_reason() {
    for (text, expected) in [
        ("Linux 5.4.0 (db1) \t10/12/2020\n\n10:00:00\n", "the format is not known"),
        ("Linux 5.4.0 (db1) \t10/12/2020\n\n10:00:00 UID PID %usr CPU Command\n", "the format is not known"),
        ("Linux 5.4.0 (db1) \t10/12/2020\n\n10:00:00 LINUX RESTART\t(2 CPU)\n", "the file has no sample"),
        (
            "Linux 5.4.0 (db1) \t99/99/2020\n\n10:00:00 LINUX RESTART\t(2 CPU)\n",
            "line 1: the date of the first line",
        ),
    ] {
        let Err(fault) = log(text, &Options::default()) else { panic!("{text}") };
        assert!(fault.to_string().starts_with(expected), "{fault}");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_comes_after_the_head_nothing_fails(
        rows in proptest::collection::vec("[0-2][0-9]:[0-5][0-9]:00 ([AP]M )?[-0-9. a-d%/]{0,20}( CPU %user %idle| DEV tps)?|[ -~]{0,30}", 0..30)
    ) {
        let head = DAY.lines().take(4).collect::<Vec<_>>().join("\n");
        if let Ok(mut log) = log(&format!("{head}\n{}", rows.join("\n")), &Options::default()) {
            let mut sample = Sample::default();
            let mut before = i64::MIN;
            while log.next(&mut sample).unwrap_or(false) {
                proptest::prop_assert!(sample.begin_unix_ns >= before && sample.end_unix_ns >= sample.begin_unix_ns);
                before = sample.end_unix_ns;
            }
        }
    }
}
