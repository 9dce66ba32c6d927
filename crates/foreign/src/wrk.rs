//! The text that wrk and wrk2 print, one or many runs in a file, between lines of a shell.
//!
//! wrk is a closed loop. wrk2 is an open loop with a rate, which only its command line says; its latencies are from the time when
//! a request was due, without the first 10 s. wrk 3.1 to 4.0 corrects latencies for omitted requests; the text has no version.

use model::figure::CORRECTED;
use model::{LatencySummary, Level, Process, Profile, Secret, SecretParts, Shape};

use crate::checked::RESPONSE_NS_MAX;
use crate::input::Lines;
use crate::load::{Runs, Whole, of_percentiles};
use crate::number::{count, milliseconds};
use crate::{Content, Fault, Format, LoadRun, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "wrk",
    about: "wrk and wrk2 text: requests, errors, bytes and latencies of each run in the file",
    recognize: |head| {
        head.lines().any(|line| begin(line).is_some()) && head.lines().any(|line| threads(line).is_some())
    },
    open,
};

/// The most rows of a distribution.
const ROWS_MAX: usize = 10_000;

/// The URL, if a run begins with a line.
fn begin(line: &str) -> Option<&str> {
    let line = line.trim();
    let timed = line.strip_prefix("Running ").and_then(|rest| rest.split_once(" test @ "));
    // wrk 1 made a number of requests.
    let (_, url) =
        timed.or_else(|| line.strip_prefix("Making ").and_then(|rest| rest.split_once(" requests to ")))?;
    url.contains("://").then(|| url.trim())
}

/// Threads and connections: `2 threads and 10 connections`.
fn threads(line: &str) -> Option<(u64, u64)> {
    let (threads, rest) = line.trim().split_once(" threads and ")?;
    Some((threads.parse().ok()?, rest.strip_suffix(" connections")?.parse().ok()?))
}

/// The rate of a command line of wrk2, such as `$ wrk -t2 -R 2k http://...`.
fn rate_of_command(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| matches!(word.rsplit('/').next(), Some("wrk" | "wrk2")))?;
    let mut words = words.into_iter().skip(at + 1);
    let rate = loop {
        let word = words.next()?;
        match word.strip_prefix("--rate").or_else(|| word.strip_prefix("-R")) {
            Some("") => break words.next()?,
            Some(rate) => break rate.trim_start_matches('='),
            None => {}
        }
    };
    let end = rate.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(rate.len());
    let factor = match &rate[end..] {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        _ => return None,
    };
    rate[..end].parse::<u32>().ok().filter(|rate| *rate > 0).map(|rate| f64::from(rate) * factor)
}

/// Bytes of `606.33MB`; units are powers of 1,024.
fn bytes(text: &str) -> Option<f64> {
    let text = text.trim().strip_suffix('B')?;
    let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
    let power = match &text[end..] {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    text[..end].parse::<f64>().ok().map(|amount| amount * 1024_f64.powi(power))
}

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let mut lines = Lines::new(from);
    let (mut runs, mut written) = (Runs::default(), None::<Written>);
    let mut rate = None;
    while let Some(line) = lines.next()? {
        if let Some(url) = begin(line.text) {
            if let Some(before) = written.take() {
                runs.add(before.line, before.finished())?;
            }
            written = Some(Written {
                line: line.number,
                url: url.to_string(),
                set_rate: rate.take(),
                ..Written::default()
            });
        } else if let Some(written) = &mut written {
            written.read(line.text);
        }
        rate = rate_of_command(line.text).or(rate);
    }
    if let Some(last) = written {
        runs.add(last.line, last.finished())?;
    }
    runs.finish("wrk")
}

/// What was read of a run.
#[derive(Default)]
struct Written {
    line: u64,
    url: String,
    threads: Option<(u64, u64)>,
    is_wrk2: bool,
    set_rate: Option<f64>,
    mean_ms: Option<f64>,
    max_ms: Option<f64>,
    percentiles: Vec<(f64, f64)>,
    /// Milliseconds, the share up to them, and the number up to them.
    spectrum: Vec<(f64, f64, u64)>,
    is_in_spectrum: bool,
    /// Latencies from the time when a request was sent.
    is_uncorrected: bool,
    requests: Option<u64>,
    seconds: Option<f64>,
    elapsed: String,
    bytes: Option<f64>,
    socket_errors: Vec<(String, u64)>,
    bad_status: u64,
    rate_per_s: Option<f64>,
}

impl Written {
    fn read(&mut self, line: &str) {
        let text = line.trim();
        let words: Vec<&str> = text.split_whitespace().take(12).collect();
        let percent = |word: &str| word.strip_suffix('%')?.parse::<f64>().ok();
        match words.as_slice() {
            ["Thread", "calibration:", ..] => self.is_wrk2 = true,
            ["Latency", "Distribution", rest @ ..] => {
                self.is_wrk2 |= rest.first() == Some(&"(HdrHistogram");
                self.is_uncorrected = rest.contains(&"Uncorrected");
                self.is_in_spectrum = false;
            }
            ["Detailed", "Percentile", "spectrum:"] => self.is_in_spectrum = !self.is_uncorrected,
            ["Latency", mean, _, max, ..] => {
                self.mean_ms = milliseconds(mean);
                self.max_ms = milliseconds(max);
            }
            [share, time] if percent(share).is_some() => {
                if let (Some(share), Some(ms), false) =
                    (percent(share), milliseconds(time), self.is_uncorrected)
                    && self.percentiles.len() < ROWS_MAX
                {
                    self.percentiles.push((share, ms));
                }
            }
            [value, share, total, ..] if self.is_in_spectrum && self.spectrum.len() < ROWS_MAX => {
                match (value.parse::<f64>(), share.parse(), total.parse()) {
                    (Ok(value), Ok(share), Ok(total)) if value.is_finite() && value >= 0.0 => {
                        self.spectrum.push((value, share, total));
                    }
                    _ => self.is_in_spectrum = *value == "Value",
                }
            }
            [count, "requests", "in", time, read, "read"] => {
                self.requests = count.parse().ok();
                self.elapsed = time.trim_end_matches(',').to_string();
                self.seconds = milliseconds(time.trim_end_matches(',')).map(|ms| ms / 1000.0);
                self.bytes = bytes(read);
            }
            ["Socket", "errors:", rest @ ..] => {
                for pair in rest.chunks_exact(2) {
                    if let Ok(count @ 1..) = pair[1].trim_end_matches(',').parse() {
                        self.socket_errors.push((pair[0].to_string(), count));
                    }
                }
            }
            ["Non-2xx", "or", "3xx", "responses:", count] => self.bad_status = count.parse().unwrap_or(0),
            ["Requests/sec:", rate] => {
                self.rate_per_s = rate.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
            }
            _ => self.threads = self.threads.or_else(|| threads(text)),
        }
    }

    fn finished(mut self) -> Result<LoadRun, &'static str> {
        let completed = self.requests.ok_or("number of requests")?;
        let printed_s = self.seconds.filter(|seconds| *seconds > 0.0).ok_or("duration")?;
        let mut run = LoadRun {
            tool: "wrk",
            line: self.line,
            workload: "http",
            seconds: printed_s,
            ..LoadRun::default()
        };
        // The rate has more digits than a duration in minutes.
        let by_rate = self.rate_per_s.filter(|rate| *rate > 0.0).map(|rate| completed as f64 / rate);
        if let Some(seconds) = by_rate.filter(|seconds| (seconds - printed_s).abs() < 0.05 * printed_s) {
            run.seconds = seconds;
        }
        if self.is_wrk2 {
            run.tool = "wrk2";
            let achieved = self.rate_per_s.filter(|rate| *rate > 0.0);
            run.shape = self
                .set_rate
                .or(achieved)
                .map(|rate| Shape::Open { rate_per_s: Profile::Constant(rate), arrivals: Process::Constant });
            if self.set_rate.is_none() && achieved.is_some() {
                run.notes.push("wrk2 does not print the rate that was set: it is the achieved one".into());
            }
            run.notes.push("latencies of wrk2 do not include its first 10 s".into());
        } else if let Some((_, connections)) = self.threads {
            run.shape = Some(Shape::closed(connections));
            run.facts.insert(CORRECTED.into(), Level::Flag(true));
            let added =
                "wrk adds latencies of requests that it would have sent during long ones (stats_correct)";
            run.notes.push(added.into());
        }
        run.set("url", Level::Secret(Secret::new(&self.url, SecretParts::Url)));
        if let Some((threads, connections)) = self.threads {
            run.set("threads", Level::Count(threads));
            run.set("connections", Level::Count(connections));
        }
        if !self.socket_errors.is_empty() {
            for (kind, count) in &self.socket_errors {
                run.facts.insert(format!("wrk.socket_errors.{kind}"), Level::Count(*count));
            }
            run.notes.push("socket errors are not among the requests: see wrk.socket_errors".into());
        }
        if completed > 0 {
            run.notes.push("bytes are rounded, with headers and failed responses".into());
        }
        if let Some(histogram) = self.histogram() {
            run.histograms.insert("request".into(), histogram);
            run.notes.push("the histogram is from the percentile spectrum: values are upper ends".into());
        }
        run.state("count", completed.to_string());
        run.state("elapsed", std::mem::take(&mut self.elapsed));
        if let Some(rate) = self.rate_per_s {
            run.state("rate", format!("{rate:.2}/s"));
        }
        let times = self.times();
        run.add_whole(
            "request",
            Whole {
                completed,
                failed: self.bad_status.min(completed),
                bytes: count(self.bytes.unwrap_or(0.0)).ok_or("number of bytes that can be")?,
                times,
                concurrency: f64::NAN,
            },
        );
        Ok(run)
    }

    fn times(&self) -> LatencySummary {
        // 100 % of wrk2 is its maximum.
        let mut times = of_percentiles(self.percentiles.iter().copied());
        if let Some(max) = self.max_ms {
            times.max = max;
        }
        if let Some(mean) = self.mean_ms {
            times.mean = mean;
        }
        let at_95 = self.spectrum.iter().find(|(_, share, _)| *share >= 0.95 - 1e-9);
        if let (true, Some((ms, ..))) = (times.p95.is_nan(), at_95) {
            times.p95 = *ms;
        }
        times
    }

    fn histogram(&self) -> Option<hdrhistogram::Histogram<u64>> {
        let mut histogram = model::study::new_histogram();
        let mut before = 0;
        for (ms, _, total) in &self.spectrum {
            let operations = total.checked_sub(before)?;
            before = *total;
            if operations > 0 {
                // A day is longer than any request.
                let ns = count(ms * 1e6).filter(|ns| *ns <= RESPONSE_NS_MAX)?.max(1);
                histogram.record_n(ns, operations).ok()?;
            }
        }
        (!histogram.is_empty()).then_some(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str) -> Result<Vec<LoadRun>, Fault> {
        crate::testing::runs("wrk", text.as_bytes(), &Options::default())
    }

    const WRK: &str = "Running 30s test @ http://127.0.0.1:8080/index.html?key=abc\n  12 threads and 400 connections\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   635.91us    0.89ms  12.92ms   93.69%\n    \
        Req/Sec    56.20k     8.07k   62.00k    86.54%\n  Latency Distribution\n     50%  250.00us\n     75%  491.00us\n     \
        90%  700.00us\n     99%    5.80ms\n  22464657 requests in 30.00s, 17.76GB read\n  \
        Socket errors: connect 0, read 3, write 0, timeout 14\n  Non-2xx or 3xx responses: 57\n\
        Requests/sec: 748868.53\nTransfer/sec:    606.33MB\n";

    const WRK2: &str = "Running 30s test @ http://127.0.0.1:80/\n  2 threads and 100 connections\n  \
        Thread calibration: mean lat.: 9.747ms, rate sampling interval: 21ms\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     6.46ms    1.93ms  12.34ms   67.66%\n    \
        Req/Sec     1.05k     1.12k    2.50k    64.84%\n  Latency Distribution (HdrHistogram - Recorded Latency)\n \
        50.000%    6.67ms\n 99.900%   12.01ms\n100.000%   12.34ms\n\n  Detailed Percentile spectrum:\n       \
        Value   Percentile   TotalCount 1/(1-Percentile)\n\n       0.921     0.000000            1         1.00\n       \
        6.671     0.500000        19961         2.00\n      10.000     0.950000        37900        20.00\n      \
        12.343     1.000000        39900          inf\n#[Mean    =        6.462, StdDeviation   =        1.935]\n\
        ----------------------------------------------------------\n\n  \
        Latency Distribution (HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))\n \
        50.000%    1.00ms\n\n  Detailed Percentile spectrum:\n       Value   Percentile   TotalCount 1/(1-Percentile)\n\n       \
        0.100     0.950000            1         1.00\n----------------------------------------------------------\n  \
        60018 requests in 30.00s, 19.81MB read\nRequests/sec:   2000.28\nTransfer/sec:    676.18KB\n";

    #[test]
    fn runs_of_wrk_have_their_figures() {
        let plain = "$ wrk -c2\nRunning 2m test @ http://127.0.0.1/\n  1 threads and 2 connections\n  Thread Stats   Avg      \
            Stdev     Max   +/- Stdev\n    Latency     1.50s    8.12ms   1.10m    90.91%\n    Req/Sec    43.30      8.33    \
            60.00     80.00%\n  5200 requests in 2.00m, 3.05MB read\nRequests/sec:     43.34\nTransfer/sec:     25.95KB\n";
        let found = runs(&format!("{WRK}pause\r\n{plain}")).unwrap();
        assert_eq!(found.len(), 2);
        let first = &found[0];
        assert_eq!((first.tool, first.workload, first.line), ("wrk", "http", 1));
        assert_eq!(first.shape, Some(Shape::closed(400)));
        assert_eq!(first.settings["workload.threads"], Level::Count(12));
        assert_eq!(first.settings["workload.connections"], Level::Count(400));
        let url = first.settings["workload.url"].to_string();
        assert!(url.starts_with("http://127.0.0.1:8080/index.html") && !url.contains("abc"), "{url}");
        let of = &first.intervals[0];
        assert_eq!((of.completed, of.failed), (22_464_657, 57));
        assert!((of.bytes as f64 / 17.76 / f64::from(1 << 30) - 1.0).abs() < 1e-6);
        let times = of.response;
        assert_eq!((times.p50, times.p90, times.p99, times.max), (0.25, 0.7, 5.8, 12.92));
        assert!((times.mean - 0.63591).abs() < 1e-9);
        assert!(times.p95.is_nan() && times.min.is_nan() && of.concurrency.is_nan());
        assert_eq!(first.facts["wrk.socket_errors.timeout"], Level::Count(14));
        let second = &found[1];
        assert!((second.seconds - 5200.0 / 43.34).abs() < 1e-9);
        assert_eq!((second.intervals[0].response.mean, second.intervals[0].response.max), (1500.0, 66_000.0));
        assert!(second.intervals[0].response.p50.is_nan());
        assert!(!second.facts.keys().any(|name| name.starts_with("wrk.")));
    }

    #[test]
    fn runs_of_wrk2_are_open_loops() {
        for (command, rate, has_note) in [
            ("", 2000.28, true),
            ("$ ./wrk -t2 -c100 -d30s -R2100 --latency http://127.0.0.1:80/\n", 2100.0, false),
            ("$ wrk2 --rate 2k http://127.0.0.1:80/\n", 2000.0, false),
        ] {
            let found = runs(&format!("{command}{WRK2}")).unwrap().remove(0);
            assert_eq!(found.tool, "wrk2");
            let shape = Shape::Open { rate_per_s: Profile::Constant(rate), arrivals: Process::Constant };
            assert_eq!(found.shape, Some(shape));
            assert_eq!(found.notes.iter().any(|note| note.contains("achieved")), has_note);
            let times = found.intervals[0].response;
            assert_eq!((times.p50, times.p95, times.p999, times.max), (6.67, 10.0, 12.01, 12.34));
            assert_eq!(found.histograms["request"].len(), 39_900);
        }
    }

    #[test]
    fn a_run_that_was_cut_is_left_out_and_named() {
        let cut = WRK.split("  22464657").next().unwrap();
        let found = runs(&format!("{WRK}{cut}")).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].notes.iter().any(|note| note.contains("line 16: the run that begins here has no")));
        assert_eq!(
            runs(cut).unwrap_err().to_string(),
            "line 1: the run that begins here has no number of requests"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(Running 1s test @ http://a/\n)?(  1 threads and 2 connections\n)?([a-zA-Z0-9%:./ -]{0,60}\n){0,12}") {
            let _ = open(Box::new(std::io::Cursor::new(text.into_bytes())), &Options::default());
        }

        #[test]
        fn no_number_is_a_panic(number in "[0-9]{0,25}(\\.[0-9]{0,3})?(us|ms|s|k|MB|B)?", at in 0_usize..60) {
            let mut words: Vec<&str> = WRK2.split(' ').collect();
            let at = at % words.len();
            words[at] = &number;
            let _ = open(Box::new(std::io::Cursor::new(words.join(" ").into_bytes())), &Options::default());
        }
    }
}
