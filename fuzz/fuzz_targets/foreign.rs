//! A file of another tool: a byte with the options, then the file.
#![no_main]

use foreign::{Content, DateOrder, Options, Sample};
use libfuzzer_sys::fuzz_target;

/// Samples that are read of a log.
const SAMPLES: usize = 2000;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let date_order = match first & 3 {
        1 => Some(DateOrder::DayFirst),
        2 => Some(DateOrder::MonthFirst),
        _ => None,
    };
    let options = Options { utc_offset_s: i64::from(first >> 2) * 600, date_order };
    let Ok((_, content)) = foreign::open(Box::new(std::io::Cursor::new(bytes.to_vec())), &options) else { return };
    match content {
        Content::FioLog(log) => {
            for name in ["a_lat.1.log", "a_bw.1.log", "a_iops.log"] {
                let Ok((_, Content::FioLog(again))) =
                    foreign::open(Box::new(std::io::Cursor::new(bytes.to_vec())), &options)
                else {
                    return;
                };
                let mut runs = Vec::new();
                let _ = foreign::join_fio_logs(vec![(name.into(), *again)], &mut runs);
                assert!(runs.iter().all(|(_, run)| run.intervals.iter().all(|of| of.begin_s <= of.end_s)));
            }
            drop(log);
        }
        Content::Figures(_) => {}
        Content::Load(runs) => {
            assert!(!runs.is_empty());
            for run in runs {
                assert!(run.seconds.is_finite() && run.seconds >= 0.0);
                for interval in &run.intervals {
                    assert!(interval.failed <= interval.completed);
                    assert!(interval.begin_s <= interval.end_s);
                }
            }
        }
        Content::Counters(mut log) => {
            let mut sample = Sample::default();
            for _ in 0..SAMPLES {
                if !log.next(&mut sample).unwrap_or(false) {
                    break;
                }
                let (columns, _) = log.columns();
                assert!(sample.values.len() <= columns.len());
                assert!(sample.begin_unix_ns <= sample.end_unix_ns);
                assert!(sample.values.iter().all(|value| !value.is_infinite()));
            }
            log.notes();
        }
    }
});
