use super::*;
use crate::testing::{self, seconds, texts};

fn log(text: &str) -> Result<Box<dyn CounterLog>, Fault> {
    testing::log("vmstat", text.as_bytes(), &Options::default())
}

fn samples(log: &mut dyn CounterLog) -> Vec<String> {
    testing::samples(log, seconds)
}

const TIMED: &str = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n\
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n \
 2  0      0    100     20     30    0    0  3066  5887 1081 3318 50 14 35  1  0 2020-09-13 12:26:40\n \
 1  0      0    101     20     30    0    0     1     2    3    4  5  6  7  8  0 2020-09-13 12:26:41\n \
 1  0      0    101     20     30    0    0     1     2    3    4  5  6  7  8  0 2020-09-13 12:26:41\n\
 Terminated\n \
 1  0      0    101\n";

#[test]
fn lines_with_times_are_samples_and_the_first_has_no_rates() {
    let mut found = log(TIMED).unwrap();
    assert_eq!(
        samples(&mut *found),
        [
            "1600000000..1600000000 r=2 b=0 swpd=0 free=100 buff=20 cache=30",
            "1600000000..1600000001 r=1 b=0 swpd=0 free=101 buff=20 cache=30 si=0 so=0 bi=1 bo=2 in=3 cs=4 us=5 sy=6 id=7 wa=8 st=0",
        ]
    );
    assert_eq!(found.clock(), (Some(DateOrder::MonthFirst), Some(0)));
    assert_eq!(
        texts(&found.notes()),
        [
            "line 5: a sample is not later than the one before and was left out",
            "line 6: a line has no values and was left out",
            "line 7: a line has other values than there are titles and was left out",
        ]
    );
}

#[test]
fn lines_without_times_are_an_interval_apart() {
    let text = "$ vmstat -w 5 3\nprocs ----memory---\n r  b swpd free inact gu\n 1 0 0 7 8 1\n 1 0 0 x 8 2\n\
        procs ----memory---\n r  b swpd free inact gu\n 1 0 0 7 8 3\n";
    let mut found = log(text).unwrap();
    assert_eq!(
        samples(&mut *found),
        [
            "0..0 r=1 b=0 swpd=0 free=7 inact=8",
            "0..5 r=1 b=0 swpd=0 inact=8 gu=2",
            "5..10 r=1 b=0 swpd=0 free=7 inact=8 gu=3"
        ]
    );
    assert_eq!(
        texts(&found.notes()),
        [
            "line 4: lines have no time: the first is at 1970 (3 times, first here)",
            "line 5: a value is no number and was left out",
        ]
    );
}

#[test]
fn what_is_no_log_is_refused_with_the_reason() {
    for (text, expected) in [
        (" r  b swpd free buff\n", "the file has no sample"),
        ("disk- ------------reads------------\n", "the format is not known"),
    ] {
        let Err(fault) = log(text) else { panic!("{text}") };
        assert_eq!(fault.what, expected);
    }
}

proptest::proptest! {
    #[test]
    fn whatever_comes_after_the_head_nothing_fails(rows in proptest::collection::vec("( [0-9]{1,3}){17} 20[0-9]{2}-0[1-9]-1[0-9] 1[0-9]:00:00|[-0-9/: r]{0,40}", 0..20)) {
        let head = TIMED.lines().take(2).collect::<Vec<_>>().join("\n");
        if let Ok(mut log) = log(&format!("{head}\n{}", rows.join("\n"))) {
            let mut sample = Sample::default();
            while log.next(&mut sample).unwrap() {
                proptest::prop_assert!(sample.end_unix_ns >= sample.begin_unix_ns);
            }
        }
    }
}
