//! A file of another tool: a byte with the options, then the file.

use foreign::{Content, CounterLog as _, DateOrder, LoadRun, Options, Sample};
use model::LatencySummary;

/// Samples that are read of a log.
const SAMPLES: usize = 2000;

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let date_order = match first & 3 {
        1 => Some(DateOrder::DayFirst),
        2 => Some(DateOrder::MonthFirst),
        _ => None,
    };
    let options = Options { utc_offset_s: i64::from(first >> 2) * 600, date_order };
    let Ok((_, content)) = foreign::open(Box::new(std::io::Cursor::new(bytes.to_vec())), &options) else {
        return;
    };
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
                runs.iter().for_each(|(_, run)| check(run));
            }
            drop(log);
        }
        Content::Figures(results) => {
            for figure in results.iter().flat_map(|of| &of.figures) {
                assert!(figure.value.is_finite() && figure.span.high.is_finite());
            }
        }
        Content::Load(runs) => {
            assert!(!runs.is_empty());
            runs.iter().for_each(|run| check(run));
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
                assert!(sample.values.iter().all(|value| value.is_nan() || value.abs() <= 1e21));
            }
            log.notes();
        }
    }
}

fn check(run: &LoadRun) {
    let is_sound = |value: f64| value.is_finite() && (0.0..1.5e18).contains(&value);
    assert!(is_sound(run.seconds));
    for interval in &run.intervals {
        assert!(interval.failed <= interval.completed);
        assert!(is_sound(interval.begin_s) && is_sound(interval.end_s - interval.begin_s));
        assert!(is_sound(interval.completed as f64) && is_sound(interval.bytes as f64));
        let LatencySummary { min, mean, p50, p90, p95, p99, p999, max, .. } = interval.response;
        let times = [min, mean, p50, p90, p95, p99, p999, max];
        assert!(times.iter().all(|ms| ms.is_nan() || (0.0..=86_400_000.0).contains(ms)), "{times:?}");
    }
}
