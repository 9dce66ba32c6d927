//! The expositions of one exporter, one after another: rates by the differences of two of them.

use foreign::SeriesParser;

use super::http::{End, visible};
use super::mapping::{Mapping, Seen};

/// Series from which those are forgotten that the exporter does not have any more.
const SERIES_KEPT: usize = 16_384;

/// The series of an exporter in the last two expositions.
#[derive(Default)]
pub(super) struct Expositions {
    parser: SeriesParser,
    pub(super) mapping: Mapping,
    /// How many series are mapped.
    mapped: usize,
    now: Vec<Seen>,
    before: Vec<Seen>,
    /// Series in the last exposition.
    pub(super) series: usize,
}

impl Expositions {
    /// Reads an exposition that was made at this time, nanoseconds on the run's clock. After an error it counts as not made.
    ///
    /// # Errors
    /// Why it is not used: nothing of a damaged exposition is.
    pub(super) fn take(&mut self, text: &[u8], end: End, at_ns: i64) -> Result<(), String> {
        let last = text.trim_ascii_end();
        let is_whole = match end {
            End::Line => text.ends_with(b"\n"),
            End::Mark => last == b"# EOF" || last.ends_with(b"\n# EOF"),
        };
        if text.is_empty() {
            return Err("its answer is empty".into());
        }
        if !is_whole {
            return Err("its answer was truncated, or is not in the format of metrics".into());
        }
        if self.parser.series().len() > SERIES_KEPT.max(2 * self.series) {
            (self.parser, self.mapped, self.now) = (SeriesParser::new(), 0, Vec::new());
        }
        let mut next = std::mem::take(&mut self.before);
        next.clear();
        let mut count = 0;
        let wrong = self.parser.read(text, |point| {
            if next.len() <= point.series {
                next.resize(point.series + 1, Seen::NOT);
            }
            count += usize::from(next[point.series].value.is_nan());
            next[point.series] = Seen { value: point.value, at_ns: point.unix_ns.unwrap_or(at_ns) };
        });
        let wrong =
            wrong.map(|fault| visible(&format!("its answer is not in the format of metrics: {fault}")));
        let wrong = wrong.or_else(|| (count == 0).then(|| "its answer has no metric".to_string()));
        if let Some(why) = wrong {
            // The next exposition is compared with the last good one.
            self.before = next;
            return Err(why);
        }
        self.series = count;
        self.before = std::mem::replace(&mut self.now, next);
        if self.mapped != self.parser.series().len() {
            self.mapping.map(self.parser.series());
            self.mapped = self.parser.series().len();
        }
        Ok(())
    }

    /// The values of all columns; NaN where there is none.
    pub(super) fn values(&self, out: &mut Vec<f64>) {
        self.mapping.values(&self.now, &self.before, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(of: &Expositions) -> Vec<(String, f64)> {
        let mut values = Vec::new();
        of.values(&mut values);
        let named = of.mapping.columns().iter().zip(&values).filter(|(_, value)| value.is_finite());
        let mut named: Vec<(String, f64)> =
            named.map(|(column, value)| (column.title(), (value * 1e6).round() / 1e6)).collect();
        named.sort_by(|a, b| a.0.cmp(&b.0));
        named
    }

    const SECOND: i64 = 1_000_000_000;

    fn text(busy: f64, idle: f64, reads: u64, time_s: f64) -> String {
        format!(
            "# TYPE node_cpu_seconds_total counter\n\
             node_cpu_seconds_total{{cpu=\"0\",mode=\"idle\"}} {idle}\n\
             node_cpu_seconds_total{{cpu=\"0\",mode=\"iowait\"}} 0\n\
             node_cpu_seconds_total{{cpu=\"0\",mode=\"user\"}} {busy}\n\
             node_disk_reads_completed_total{{device=\"sda\"}} {reads}\n\
             node_disk_read_time_seconds_total{{device=\"sda\"}} {time_s}\n\
             node_disk_reads_completed_total{{device=\"dm-0\"}} {reads}\n\
             node_memory_MemTotal_bytes 4e+09\n\
             # TYPE app_requests counter\n\
             app_requests_total{{path=\"/a\"}} {reads}\n\
             app_queue 7\n"
        )
    }

    #[test]
    fn counters_are_rates_between_two_expositions() {
        let mut of = Expositions::default();
        of.take(text(10.0, 90.0, 100, 1.0).as_bytes(), End::Line, 0).unwrap();
        let first = [("app_queue", 7.0), ("memory.total_bytes", 4e9)];
        assert_eq!(values(&of), first.map(|(name, value)| (name.to_string(), value)));
        of.take(text(10.5, 91.5, 300, 1.4).as_bytes(), End::Line, 2 * SECOND).unwrap();
        let second = [
            ("app_queue", 7.0),
            ("app_requests_total{path=\"/a\"}", 100.0),
            ("cpu.busy_share", 0.25),
            ("cpu.busy_share{0}", 0.25),
            ("cpu.iowait_share", 0.0),
            ("cpu.iowait_share{0}", 0.0),
            ("cpu.user_share", 0.25),
            ("cpu.user_share{0}", 0.25),
            ("disk.read_s{sda}", 0.002),
            ("disk.reads_per_s{sda}", 100.0),
            ("memory.total_bytes", 4e9),
            ("node_disk_reads_completed_total{device=\"dm-0\"}", 100.0),
        ];
        assert_eq!(values(&of), second.map(|(name, value)| (name.to_string(), value)));
    }

    #[test]
    fn a_reset_and_an_error_are_gaps() {
        let mut of = Expositions::default();
        of.take(text(10.0, 90.0, 100, 1.0).as_bytes(), End::Line, 0).unwrap();
        // The exporter began anew: no rate, and none that is negative.
        of.take(text(0.0, 0.0, 0, 0.0).as_bytes(), End::Line, SECOND).unwrap();
        assert_eq!(values(&of).len(), 2, "{:?}", values(&of));
        of.take(text(0.5, 0.5, 50, 0.1).as_bytes(), End::Line, 2 * SECOND).unwrap();
        let reads = |of: &Expositions| {
            values(of).into_iter().find(|(name, _)| name == "disk.reads_per_s{sda}").map(|(_, value)| value)
        };
        assert_eq!(reads(&of), Some(50.0));
        const TRUNCATED: &str = "its answer was truncated, or is not in the format of metrics";
        // What cannot be read changes nothing: the next rate is over both seconds.
        let long = text(1.0, 1.0, 100, 0.2);
        for (damaged, end, why) in [
            ("", End::Line, "its answer is empty"),
            (&long[..long.len() - 1], End::Line, TRUNCATED),
            (long.as_str(), End::Mark, TRUNCATED),
            (
                "<html>\n<body>\n",
                End::Line,
                "its answer is not in the format of metrics: line 1: a line has no series (2 lines cannot be read)",
            ),
            ("# HELP a b\n", End::Line, "its answer has no metric"),
            (
                "a 1\nb 2 3 4 x\nc\n",
                End::Line,
                "its answer is not in the format of metrics: line 3: a line has no series (1 lines cannot be read)",
            ),
        ] {
            assert_eq!(of.take(damaged.as_bytes(), end, 3 * SECOND).unwrap_err(), why);
        }
        of.take(text(2.5, 1.5, 250, 0.5).as_bytes(), End::Line, 4 * SECOND).unwrap();
        assert_eq!(reads(&of), Some(100.0));
        // A series that is gone for one exposition has no rate after it.
        of.take(b"app_queue 7\n", End::Line, 5 * SECOND).unwrap();
        assert_eq!(values(&of), [("app_queue".to_string(), 7.0)]);
        of.take(text(3.0, 2.0, 300, 0.6).as_bytes(), End::Line, 6 * SECOND).unwrap();
        assert_eq!(reads(&of), None);
    }

    #[test]
    fn the_times_of_an_exporter_are_used_where_it_states_them() {
        let mut of = Expositions::default();
        let line = |value: u64, ms: u64| format!("# TYPE a counter\na_total {value} {ms}\n# EOF\n");
        of.take(line(10, 1_700_000_000_000).as_bytes(), End::Mark, 0).unwrap();
        // The same value again, from a cache.
        of.take(line(10, 1_700_000_000_000).as_bytes(), End::Mark, SECOND).unwrap();
        assert_eq!(values(&of), []);
        of.take(line(30, 1_700_000_004_000).as_bytes(), End::Mark, 2 * SECOND).unwrap();
        assert_eq!(values(&of), [("a_total".to_string(), 5.0)]);
    }

    #[test]
    fn series_without_end_use_bounded_memory() {
        let mut of = Expositions::default();
        for round in 0..60 {
            let text: String = (0..1000).map(|at| format!("a{{id=\"{}\"}} 1\n", 1000 * round + at)).collect();
            of.take(text.as_bytes(), End::Line, round * SECOND).unwrap();
        }
        assert!(of.parser.series().len() <= SERIES_KEPT + 1000);
        assert_eq!(of.mapping.columns().len(), 8192);
        assert!(of.mapping.left_out() > 0);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(texts in proptest::collection::vec(
            "((node_cpu_seconds_total|windows_cpu_time_total)\\{(cpu|core)=\"[0-9,]{0,3}\",mode=\"(idle|user|privileged)\"\\} [-0-9eE.]{1,5}( [0-9]{1,20})?\n|# TYPE [a-z_]{1,9} (counter|gauge)\n|\\PC{0,20}\n){0,12}(# EOF\n?)?",
            1..4,
        )) {
            let mut of = Expositions::default();
            for (text, at) in texts.iter().zip(0..) {
                let _ = of.take(text.as_bytes(), End::Line, at * SECOND);
                let _ = of.take(text.as_bytes(), End::Mark, at * SECOND + 1);
                values(&of).iter().for_each(|(_, value)| assert!(value.is_finite()));
            }
        }
    }
}
