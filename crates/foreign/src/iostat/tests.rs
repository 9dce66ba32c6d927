use super::*;
use crate::testing::{self, seconds, texts};

fn log(text: &str) -> Result<Box<dyn CounterLog>, Fault> {
    testing::log("iostat", text.as_bytes(), &Options::default())
}

fn samples(log: &mut dyn CounterLog) -> Vec<String> {
    testing::samples(log, seconds)
}

fn report(time: &str, value: u32) -> String {
    format!(
        "{time}avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           \
         {value},49   39.91    1.67    0.94    0.00   56.00\n\n\
         Device            r/s     rkB/s  r_await   aqu-sz  %util\n\
         sda              {value}.90    222.14    12.58    0.10   0.46\n\
         dm-0             0.01      0.29     60.92    x   0.00\n\n"
    )
}

const BANNER: &str = "Linux 5.4.0 (db1) \t13/09/20 \t_x86_64_\t(2 CPU)\n\n";

#[test]
fn reports_with_times_are_samples_and_the_first_is_left_out() {
    let text = format!(
        "{BANNER}{}{}{}",
        report("13/09/20 12:26:40\n", 1),
        report("13/09/20 12:26:41\n", 2),
        report("13/09/20 12:26:42\n", 3)
    );
    let mut found = log(&text).unwrap();
    assert_eq!(found.columns().0[0].host, "db1");
    let found_samples = samples(&mut *found);
    assert_eq!(found_samples.len(), 2);
    assert_eq!(
        found_samples[1],
        "1600000001..1600000002 %user=3.49 %nice=39.91 %system=1.67 %iowait=0.94 %steal=0 %idle=56 r/s(sda)=3.9 rkB/s(sda)=222.14 \
         r_await(sda)=12.58 aqu-sz(sda)=0.1 %util(sda)=0.46 r/s(dm-0)=0.01 rkB/s(dm-0)=0.29 r_await(dm-0)=60.92 %util(dm-0)=0"
    );
    assert_eq!(found.clock(), (Some(DateOrder::DayFirst), None));
    assert_eq!(
        texts(&found.notes()),
        ["line 9: a value is no number and was left out (3 times, first here)"]
    );
}

#[test]
fn times_have_many_forms() {
    for times in [
        ["2020-09-13T14:26:40+0200", "2020-09-13T14:26:41+0200"],
        ["09/13/2020 12:26:40 PM", "09/13/2020 12:26:41 PM"],
        ["2020-09-13 12:26:40", "2020-09-13 12:26:41"],
        ["Time: 12:26:40 PM", "Time: 12:26:41 PM"],
        ["1600000000", "1600000001"],
    ] {
        let text = format!(
            "{BANNER}{}{}",
            report(&format!("{}\n", times[0]), 1),
            report(&format!("{}\n", times[1]), 2)
        );
        let found = samples(&mut *log(&text).unwrap());
        assert!(found.len() == 1 && found[0].starts_with("1600000000..1600000001 "), "{times:?} {found:?}");
    }
}

#[test]
fn reports_without_times_end_where_a_table_is_repeated() {
    let table = |name: &str, value: u32| {
        format!(
            "Device:  rrqm/s  avgqu-sz\nsda {value} 2\n\n     w/s  %util {name}\n 1.0 5.0 my disk\n\n",
            name = name
        )
    };
    let text =
        format!("# iostat -x 10\n{BANNER}{}{}{}", table("Device", 1), table("Device", 2), table("Device", 3));
    let mut found = log(&text).unwrap();
    assert_eq!(
        samples(&mut *found),
        [
            "0..10 rrqm/s(sda)=2 aqu-sz(sda)=2 w/s(my disk)=1 %util(my disk)=5",
            "10..20 rrqm/s(sda)=3 aqu-sz(sda)=2 w/s(my disk)=1 %util(my disk)=5",
        ]
    );
    assert_eq!(found.columns().0[1].written, "avgqu-sz(sda)");
    assert_eq!(
        texts(&found.notes()),
        ["line 10: reports have no time: the first is at 1970 (2 times, first here)"]
    );
}

#[test]
fn what_is_no_log_is_refused_with_the_reason() {
    let Err(fault) = log(&format!("{BANNER}{}", report("", 1))) else { panic!() };
    assert_eq!(fault.what, "the file has no report after the first, which has averages since the boot");
    let Err(fault) = log(BANNER) else { panic!() };
    assert_eq!(fault.what, "the format is not known");
}

#[test]
fn zones_are_seconds_east_of_utc() {
    assert_eq!(zone("2020-06-01T12:53:20+0230"), Some(("2020-06-01T12:53:20", 9_000)));
    assert_eq!(zone("2020-06-01T12:53:20-0100"), Some(("2020-06-01T12:53:20", -3_600)));
    assert_eq!(zone("2020-06-01T12:53:20Z"), Some(("2020-06-01T12:53:20", 0)));
    assert_eq!(zone("06/01/20 12:53:20"), None);
    assert_eq!(zone("12-2020"), None);
    assert_eq!(zone("é+12"), None);
}

proptest::proptest! {
    #[test]
    fn whatever_comes_after_the_head_nothing_fails(
        rows in proptest::collection::vec("Device r/s %util|avg-cpu: %user|r/s Device|sd[ab] [0-9.]{1,3} [0-9]|[0-9/]{8} [0-9]{2}:10:00|[ -~é]{0,20}|1 2", 0..40)
    ) {
        if let Ok(mut log) = log(&format!("{BANNER}avg-cpu: %user\n 1.0\n{}", rows.join("\n"))) {
            let mut sample = Sample::default();
            while log.next(&mut sample).unwrap() {
                proptest::prop_assert!(sample.end_unix_ns >= sample.begin_unix_ns);
            }
        }
    }
}
