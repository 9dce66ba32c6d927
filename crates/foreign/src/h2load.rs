//! The text that h2load (nghttp2) prints, one or many runs in a file.

use model::{Level, Shape};

use crate::input::Lines;
use crate::lines::counted;
use crate::load::{Runs, Whole, of_percentiles};
use crate::number::milliseconds;
use crate::{Content, Fault, Format, LoadRun, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "h2load",
    about: "h2load text: requests, errors, bytes and times of each run in the file",
    recognize: |head| {
        let has_begin = head.lines().any(|line| line.starts_with("spawning thread #"));
        let has = |prefix: &str| head.lines().any(|line| line.starts_with(prefix));
        (has(BEGIN) && has_begin)
            || (has("finished in ") && has("status codes: ") && has("time for request: "))
    },
    open,
};

/// A run begins with this line.
const BEGIN: &str = "starting benchmark...";

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let mut lines = Lines::new(from);
    let (mut runs, mut written) = (Runs::default(), Written::default());
    while let Some(line) = lines.next()? {
        let is_begin = line.text.starts_with(BEGIN);
        // Output without its begin.
        let is_next = line.text.starts_with("finished in ") && written.seconds.is_some();
        if (is_begin || is_next) && written.line > 0 {
            let before = std::mem::take(&mut written);
            runs.add(before.line, before.finished())?;
        }
        written.read(line.text, line.number);
    }
    if written.line > 0 {
        runs.add(written.line, written.finished())?;
    }
    runs.finish("h2load")
}

/// What was read of a run.
#[derive(Default)]
struct Written {
    line: u64,
    threads: u64,
    clients: u64,
    protocol: String,
    /// The measured time of a test with a duration.
    main_s: Option<f64>,
    seconds: Option<f64>,
    /// Requests by their fate.
    requests: Vec<(String, u64)>,
    body_bytes: Option<u64>,
    columns: Vec<String>,
    times: Vec<f64>,
}

/// Counts with a word each: `50 total, 50 started`.
fn counts(text: &str) -> Vec<(String, u64)> {
    text.split(',')
        .filter_map(|part| {
            let (count, word) = part.trim().split_once(' ')?;
            Some((word.trim().to_string(), count.parse().ok()?))
        })
        .take(32)
        .collect()
}

/// The bytes of the bodies: `24.41KB (25000) data`, in old versions `25000 bytes data`.
fn body_bytes(text: &str) -> Option<u64> {
    let part = text.rsplit(", ").next()?.trim();
    let count = match part.strip_suffix(" bytes data") {
        Some(count) => count,
        None => part.strip_suffix(") data")?.rsplit('(').next()?,
    };
    count.trim().parse().ok()
}

impl Written {
    fn read(&mut self, line: &str, number: u64) {
        let text = line.trim_end();
        let is_new = text.starts_with(BEGIN) || text.starts_with("finished in ");
        if self.line == 0 {
            if !is_new {
                return;
            }
            self.line = number;
        }
        let after = |prefix: &str| text.strip_prefix(prefix).map(str::trim);
        if let Some(rest) = after("spawning thread #") {
            // `0: 2 total client(s). 50 total requests`
            let clients =
                rest.split_once(": ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
            self.clients = self.clients.saturating_add(clients.unwrap_or(0));
            self.threads += 1;
            let main =
                rest.split_once(" warm-up time and ").and_then(|(_, rest)| rest.split_once(" of main"));
            self.main_s = main.and_then(|(time, _)| milliseconds(time)).map(|ms| ms / 1000.0).or(self.main_s);
        } else if let Some(protocol) = after("Application protocol:") {
            self.protocol = protocol.chars().take(64).collect();
        } else if let Some(rest) = after("finished in ") {
            self.seconds = rest.split(',').next().and_then(milliseconds).map(|ms| ms / 1000.0);
        } else if let Some(rest) = after("requests: ") {
            self.requests = counts(rest);
        } else if let Some(rest) = after("traffic: ") {
            self.body_bytes = body_bytes(rest);
        } else if let Some(rest) = after("time for request:") {
            self.times = rest.split_whitespace().map_while(milliseconds).take(32).collect();
        } else if text.trim_start().starts_with("min ") && text.contains(" max ") {
            self.columns = text.split_whitespace().take(32).map(String::from).collect();
        }
    }

    fn finished(self) -> Result<LoadRun, &'static str> {
        let finished_s = self.seconds.filter(|seconds| *seconds > 0.0).ok_or("duration")?;
        let count = |word: &str| {
            let found = self.requests.iter().find(|(name, _)| name == word);
            found.map(|(_, count)| *count)
        };
        let (Some(succeeded), Some(failed)) = (count("succeeded"), count("failed")) else {
            return Err("number of requests");
        };
        let seconds = self.main_s.filter(|seconds| *seconds > 0.0).unwrap_or(finished_s);
        let mut run = LoadRun {
            tool: "h2load",
            line: self.line,
            workload: "http",
            seconds,
            shape: (self.clients > 0).then(|| Shape::closed(self.clients)),
            ..LoadRun::default()
        };
        if self.clients > 0 {
            run.set("connections", Level::Count(self.clients));
            run.set("threads", Level::Count(self.threads));
            run.notes.push(
                "h2load does not print its URL, its streams per client (-m) and its rates (-r, --rps): \
                 a closed loop with one stream is assumed"
                    .into(),
            );
        }
        match self.protocol.as_str() {
            "h2" | "h2c" => run.set("http_version", Level::Text("2".into())),
            "http/1.1" => run.set("http_version", Level::Text("1.1".into())),
            _ => {}
        }
        if let (Some(total), Some(started)) = (count("total"), count("started"))
            && started < total
        {
            run.notes.push(format!(
                "counted as failed: {} that did not start",
                counted(total - started, "request")
            ));
        }
        for word in ["errored", "timeout"] {
            if let Some(count @ 1..) = count(word) {
                run.facts.insert(format!("h2load.{word}"), Level::Count(count));
            }
        }
        match self.body_bytes {
            Some(_) => run.notes.push("bytes are those of all bodies, also of failed responses".into()),
            None => run.notes.push("the text has no bytes of the bodies".into()),
        }
        let figure = |name: &str| {
            let at = self.columns.iter().position(|column| column == name)?;
            self.times.get(at).copied()
        };
        let percentiles =
            [(50.0, "median"), (50.0, "p50"), (90.0, "p90"), (95.0, "p95"), (99.0, "p99"), (99.9, "p99.9")];
        let mut times =
            of_percentiles(percentiles.iter().filter_map(|(at, name)| Some((*at, figure(name)?))));
        times.min = figure("min").unwrap_or(f64::NAN);
        times.mean = figure("mean").unwrap_or(f64::NAN);
        times.max = figure("max").unwrap_or(f64::NAN);
        let bytes = self.body_bytes.unwrap_or(0);
        let completed = succeeded.saturating_add(failed);
        run.add_whole("request", Whole { completed, failed, bytes, times, concurrency: f64::NAN });
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str) -> Result<Vec<LoadRun>, Fault> {
        crate::testing::runs("h2load", text.as_bytes(), &Options::default())
    }

    const TEXT: &str = "starting benchmark...\nspawning thread #0: 5 total client(s). 25 total requests\n\
        spawning thread #1: 5 total client(s). 25 total requests\nTLS Protocol: TLSv1.3\nApplication protocol: h2\n\
        progress: 10% done\nprogress: 100% done\n\nfinished in 1.17s, 42.66 req/s, 25.54KB/s\n\
        requests: 50 total, 49 started, 49 done, 40 succeeded, 10 failed, 1 errored, 0 timeout\n\
        status codes: 40 2xx, 0 3xx, 9 4xx, 0 5xx\n\
        traffic: 29.93KB (30650) total, 4.00KB (4100) headers (space savings 0.00%), 24.41KB (25000) data\n                     \
        min         max         mean         sd        +/- sd\n\
        time for request:      704us     59.95ms     46.15ms     10.26ms    92.00%\n\
        time for connect:       48us       174us       111us        89us   100.00%\n\
        req/s           :      21.40       21.93       21.67        0.37   100.00%\n";

    #[test]
    fn runs_have_their_figures() {
        let timed = "starting benchmark...\nspawning thread #0: 1 total client(s). Timing-based test with 2s of warm-up time \
            and 10s of main duration for measurements.\nApplication protocol: http/1.1\nfinished in 12.00s, 42.66 req/s, 25.54KB/s\n\
            requests: 427 total, 427 started, 427 done, 427 succeeded, 0 failed, 0 errored, 0 timeout\n\
            status codes: 427 2xx, 0 3xx, 0 4xx, 0 5xx\n\
            traffic: 30650 bytes total, 4100 bytes headers, 25000 bytes data\n                 \
            min       max    median       p95       p99      mean        sd    +/- sd\n\
            time for request:  704us  59.95ms  40.00ms  50.00ms  55.00ms  46.15ms  10.26ms  92.00%\n";
        let found = runs(&format!("{TEXT}{timed}")).unwrap();
        assert_eq!(found.len(), 2);
        let (first, second) = (&found[0], &found[1]);
        assert_eq!((first.tool, first.line, first.seconds), ("h2load", 1, 1.17));
        assert_eq!(first.shape, Some(Shape::closed(10)));
        assert_eq!(first.settings["workload.connections"], Level::Count(10));
        assert_eq!(first.settings["workload.threads"], Level::Count(2));
        assert_eq!(first.settings["workload.http_version"], Level::Text("2".into()));
        let of = &first.intervals[0];
        assert_eq!((of.completed, of.failed, of.bytes), (50, 10, 25_000));
        assert_eq!((of.response.min, of.response.mean, of.response.max), (0.704, 46.15, 59.95));
        assert!(of.response.p50.is_nan());
        assert!(first.notes.iter().any(|note| note.contains("counted as failed: 1 request that")));
        assert_eq!(second.seconds, 10.0);
        let times = second.intervals[0].response;
        assert_eq!((times.p50, times.p95, times.p99, times.mean), (40.0, 50.0, 55.0, 46.15));
        assert_eq!(second.intervals[0].bytes, 25_000);
    }

    #[test]
    fn output_without_its_begin_is_read_and_a_cut_run_is_named() {
        let end = &TEXT[TEXT.find("finished").unwrap()..];
        let found = runs(&format!("{end}{end}")).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].shape, None);
        let cut = TEXT.split("finished").next().unwrap();
        let found = runs(&format!("{TEXT}{cut}")).unwrap();
        assert!(found[0].notes.iter().any(|note| note.contains("line 17")), "{:?}", found[0].notes);
        assert_eq!(runs(cut).unwrap_err().to_string(), "line 1: the run that begins here has no duration");
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(starting benchmark...\n)?((spawning thread #0: |requests: |finished in |traffic: )?[a-z0-9%:,./ ()-]{0,40}\n){0,12}") {
            let _ = open(Box::new(std::io::Cursor::new(text.into_bytes())), &Options::default());
        }
    }
}
