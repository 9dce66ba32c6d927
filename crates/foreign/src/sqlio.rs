//! The text that SQLIO 1.5 prints, as its users keep it: one or many runs in a file, between lines of batch files.
//!
//! MB are 2^20 bytes. Latencies are whole milliseconds, cut off. The histogram has a column for each millisecond up to 23 and
//! one for all above, with shares in rounded percent.

use std::io::{BufRead as _, BufReader, Read as _};

use model::{LatencySummary, Level, Shape};

use crate::input::Text;
use crate::load::Whole;
use crate::number;
use crate::{Content, Fault, Format, LoadRun, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "sqlio",
    about: "SQLIO text: operations, bytes, latencies and the histogram of each run in the file",
    recognize: |head| head.text.lines().any(is_begin),
    open,
};

/// The longest line, and the most runs of a file.
const LINE_BYTES_MAX: u64 = 1 << 16;
const RUNS_MAX: usize = 10_000;

/// Columns of the histogram: 0 to 23 ms, and all above.
const COLUMNS: usize = 25;

/// A run begins with its version.
fn is_begin(line: &str) -> bool {
    line.trim_start_matches('\u{feff}').trim().starts_with("sqlio v")
}

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let mut lines = BufReader::new(Text::new(from));
    let (mut runs, mut run) = (Vec::new(), Written::default());
    let mut notes = Vec::new();
    let mut bytes = Vec::new();
    let mut number = 0;
    loop {
        bytes.clear();
        let read = lines
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| Fault::of_file(&error))?;
        if read == 0 {
            break;
        }
        number += 1;
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end_matches(['\r', '\n']);
        if is_begin(line) {
            if runs.len() == RUNS_MAX {
                return Err(Fault::at(number, "the file has more than 10,000 runs", "split it"));
            }
            run.end(&mut runs, &mut notes);
            run = Written::begin(line, number);
        } else if run.line > 0 {
            run.read(line, number);
        }
    }
    run.end(&mut runs, &mut notes);
    match (runs.is_empty(), notes.into_iter().next()) {
        (true, Some(fault)) => Err(fault),
        (true, None) => {
            Err(Fault::at(0, "no run of SQLIO has throughput metrics", "was it stopped too early?"))
        }
        (false, _) => Content::load(runs),
    }
}

/// What was read of a run.
#[derive(Default)]
struct Written {
    line: u64,
    version: String,
    threads: Option<u64>,
    is_write: Option<bool>,
    seconds: Option<f64>,
    files: Vec<String>,
    block_bytes: Option<u64>,
    is_random: Option<bool>,
    outstanding: u64,
    cache: &'static str,
    size_bytes: Option<u64>,
    rate_per_s: Option<f64>,
    /// The operations per second as written, where they could not be read.
    unread: Option<String>,
    mib_per_s: Option<f64>,
    min_ms: Option<f64>,
    mean_ms: Option<f64>,
    max_ms: Option<f64>,
    shares: Option<[u32; COLUMNS]>,
    notes: Vec<String>,
}

impl Written {
    fn begin(line: &str, number: u64) -> Written {
        let version = line.trim().trim_start_matches("sqlio").trim().to_string();
        Written { line: number, version, outstanding: 1, ..Written::default() }
    }

    fn read(&mut self, line: &str, number: u64) {
        let text = line.trim();
        let first = |text: &str| text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        let after = |prefix: &str| {
            let begin = text.get(..prefix.len())?;
            begin.eq_ignore_ascii_case(prefix).then(|| text[prefix.len()..].trim())
        };
        if let Some(shares) = text.strip_prefix("%:") {
            // Fields of three places: "100" leaves no blank.
            let begin = line.find("%:").unwrap_or(0) + 2;
            match shares_of(&line[begin..]).or_else(|| shares_of(shares)) {
                Some(shares) => self.shares = Some(shares),
                None => self.notes.push(format!("the histogram in line {number} cannot be read")),
            }
        } else if let Some(rate) = after("IOs/sec:") {
            self.rate_per_s = with_decimals(rate);
            self.unread = self.rate_per_s.is_none().then(|| rate.to_string());
        } else if let Some(rate) = after("MBs/sec:") {
            self.mib_per_s = with_decimals(rate);
        } else if let Some(value) = after("Min_Latency(ms):") {
            self.min_ms = value.parse().ok();
        } else if let Some(value) = after("Avg_Latency(ms):") {
            self.mean_ms = value.parse().ok();
        } else if let Some(value) = after("Max_Latency(ms):") {
            self.max_ms = value.parse().ok();
        } else if let Some(rest) = after("file ") {
            // `file F with T threads (0-1) using mask 0x0 (0)`
            if let Some((file, _)) = rest.rsplit_once(" with ") {
                self.files.push(file.to_string());
            }
        } else if let Some(rest) = after("using ") {
            if let Some((size, access)) = rest.split_once("KB ").filter(|(_, access)| access.ends_with("IOs"))
            {
                self.block_bytes = size.trim().parse::<u64>().ok().and_then(|kib| kib.checked_mul(1024));
                self.is_random = Some(access.starts_with("random"));
            } else if rest.contains("size:") {
                let mib = rest.split("size:").nth(1).and_then(first);
                self.size_bytes = mib.and_then(|mib| mib.checked_mul(1 << 20));
                if let (true, Some((_, file))) = (self.files.is_empty(), rest.split_once("for file:")) {
                    self.files.push(file.trim().to_string());
                }
            }
        } else if let Some(rest) = after("enabling multiple I/Os per thread with ") {
            self.outstanding = first(rest).unwrap_or(1).max(1);
        } else if let Some(rest) = after("buffering set to ") {
            self.cache = match rest {
                rest if rest.contains("not file and disk") || rest.contains("not use file nor disk") => {
                    "none"
                }
                rest if rest.contains("hardware disk cache (but not file cache)") => "disk",
                rest if rest.contains("both") => "file and disk",
                rest if rest.contains("software") || rest.contains("file cache") => "file",
                _ => "",
            };
        } else if let Some((threads, rest)) = text.split_once(" thread") {
            // `2 threads reading for 120 secs from file F`
            let rest = rest.strip_prefix('s').unwrap_or(rest).trim_start();
            let is_write = match rest.split(' ').next() {
                Some("writing") => Some(true),
                Some("reading") => Some(false),
                _ => None,
            };
            if let (Ok(threads), Some(is_write)) = (threads.trim().parse(), is_write) {
                self.threads = Some(threads);
                self.is_write = Some(is_write);
                self.seconds = rest.split(" for ").nth(1).and_then(first).map(|seconds| seconds as f64);
                if let Some((_, file)) = rest.split_once(" file ").or_else(|| rest.split_once(" file:")) {
                    self.files.push(file.trim().to_string());
                }
            }
        }
    }

    fn end(&mut self, runs: &mut Vec<LoadRun>, notes: &mut Vec<Fault>) {
        if self.line == 0 {
            return;
        }
        let run = std::mem::take(self);
        let (line, unread) = (run.line, run.unread.clone());
        match run.finished() {
            Ok(run) => runs.push(run),
            Err(missing) => {
                let (what, help) = match unread {
                    Some(text) => (
                        format!("the run that begins here has {missing} of `{text}`, which is not clear"),
                        "write a decimal point and two decimals, and no separator of thousands, such as 1500.25",
                    ),
                    None => (
                        format!("the run that begins here has no {missing}"),
                        "it was stopped, or the file was cut",
                    ),
                };
                let fault = Fault::at(line, what.clone(), help);
                if let Some(before) = runs.last_mut() {
                    before.notes.push(format!("line {line}: {what}; it was left out"));
                }
                notes.push(fault);
            }
        }
    }

    fn finished(mut self) -> Result<LoadRun, &'static str> {
        let rate_per_s = self.rate_per_s.ok_or("IOs/sec")?;
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0).ok_or("line with its seconds")?;
        let operation = if self.is_write.unwrap_or(false) { "write" } else { "read" };
        let completed =
            number::count(rate_per_s * seconds).ok_or("IOs/sec from which operations can be computed")?;
        let bytes = match (self.block_bytes, self.mib_per_s) {
            (Some(block), _) => completed.saturating_mul(block),
            (None, Some(mib_per_s)) => number::count(mib_per_s * 1048576.0 * seconds)
                .ok_or("MBs/sec from which bytes can be computed")?,
            (None, None) => 0,
        };
        let times = self.times();
        let in_flight = self.threads.map(|threads| threads.saturating_mul(self.outstanding));
        let mut found = LoadRun {
            tool: "sqlio",
            version: self.version.clone(),
            line: self.line,
            workload: "disk",
            seconds,
            shape: in_flight.map(Shape::closed),
            ..LoadRun::default()
        };
        found.state("rate", format!("{rate_per_s:.2}/s"));
        if let Some(rate) = self.mib_per_s {
            found.state("throughput", format!("{rate:.2} MiB/s"));
        }
        found.set_time_step_ms(1.0);
        found.add_whole(operation, Whole { completed, failed: 0, bytes, times, concurrency: f64::NAN });
        let mut set = |name: &str, level: Option<Level>| {
            if let Some(level) = level {
                found.set(name, level);
            }
        };
        let word = |is: bool, yes: &str, no: &str| Level::Text(if is { yes } else { no }.into());
        set("block_size", self.block_bytes.map(Level::Bytes));
        set("access", self.is_random.map(|is| word(is, "random", "sequential")));
        set("read_percent", self.is_write.map(|is| Level::Percent(if is { 0.0 } else { 100.0 })));
        set("threads", self.threads.map(Level::Count));
        set("outstanding", Some(Level::Count(self.outstanding)));
        set("size", self.size_bytes.map(Level::Bytes));
        self.files.dedup();
        set("files", Some(Level::List(self.files.iter().map(|file| Level::Text(file.clone())).collect())));
        if !self.cache.is_empty() {
            let is_direct = matches!(self.cache, "none" | "disk");
            found.set("cache", word(is_direct, "direct", "page-cache"));
            found.facts.insert("sqlio.cache".into(), Level::Text(self.cache.into()));
        }
        if let Some(shares) = self.shares {
            for (at, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0) {
                let name = if at + 1 == COLUMNS { "24 ms and more".to_string() } else { format!("{at} ms") };
                found.facts.insert(format!("histogram.{name}"), Level::Percent(f64::from(*share)));
            }
            self.notes.push(
                "percentiles are upper ends of columns of 1 ms, from a histogram in rounded percent".into(),
            );
        }
        if self.mean_ms.is_some() {
            self.notes.push("latencies are whole milliseconds, cut off".into());
        }
        found.notes = self.notes;
        Ok(found)
    }

    /// The statistics of the response time.
    fn times(&self) -> LatencySummary {
        let known = |value: Option<f64>| value.filter(|value| value.is_finite()).unwrap_or(f64::NAN);
        let max = known(self.max_ms);
        let sum: u32 = self.shares.map_or(0, |shares| shares.iter().sum());
        let at = |share: f64| {
            let Some(shares) = self.shares.filter(|_| sum > 0) else { return f64::NAN };
            let mut below = 0.0;
            for (at, part) in shares.iter().enumerate() {
                below += f64::from(*part);
                if below >= share * f64::from(sum) {
                    let end = if at + 1 == COLUMNS { max } else { (at + 1) as f64 };
                    return end.min(if max.is_nan() { f64::INFINITY } else { max });
                }
            }
            f64::NAN
        };
        LatencySummary {
            at_least: model::Statistics::NONE,
            min: known(self.min_ms),
            mean: known(self.mean_ms),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            // Rounded percent do not show more.
            p99: f64::NAN,
            p999: f64::NAN,
            max,
        }
    }
}

/// A figure that SQLIO prints with two decimals, in any locale. None for one of which the sign may separate thousands: `1.500`.
fn with_decimals(text: &str) -> Option<f64> {
    let is_unclear = text.rsplit_once(['.', ',']).is_some_and(|(whole, decimals)| {
        decimals.len() == 3 && (1..=3).contains(&whole.len()) && !whole.contains(['.', ','])
    });
    number::printed(text).filter(|value| *value >= 0.0 && !is_unclear)
}

/// The 25 fields of the histogram, each three places wide; or separated by blanks.
fn shares_of(text: &str) -> Option<[u32; COLUMNS]> {
    let bytes = text.as_bytes();
    let fields: Vec<u32> = match bytes.len() {
        length if length == 3 * COLUMNS => {
            let field = |field: &[u8]| std::str::from_utf8(field).ok()?.trim().parse().ok();
            bytes.chunks(3).map(field).collect::<Option<_>>()?
        }
        _ => text.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?,
    };
    let fields: [u32; COLUMNS] = fields.try_into().ok()?;
    fields.iter().all(|share| *share <= 100).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(block: u32, rate: f64) -> String {
        format!(
            "C:\\>sqlio -kW -s120 -frandom -o1 -b{block} -LS -Fparam.txt\r\n\
             sqlio v1.5.SG\r\nusing system counter for latency timings, 2143535 counts per second\r\n\
             parameter file used: param.txt\r\n\tfile d:\\test.dat with 1 thread (0) using mask 0x0 (0)\r\n\
             1 thread writing for 120 secs to file d:\\test.dat\r\n\tusing {block}KB random IOs\r\n\
             \tenabling multiple I/Os per thread with 4 outstanding\r\n\
             \tbuffering set to use hardware disk cache (but not file cache)\r\n\
             using specified size: 20000 MB for file: d:\\test.dat\r\ninitialization done\r\nCUMULATIVE DATA:\r\n\
             throughput metrics:\r\nIOs/sec:   {rate:.2}\r\nMBs/sec:     1.76\r\nlatency metrics:\r\n\
             Min_Latency(ms): 0\r\nAvg_Latency(ms): 3\r\nMax_Latency(ms): 111\r\nhistogram:\r\n\
             ms: 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24+\r\n\
             %:  4  6  6 31 23 15  5  3  2  1  1  1  0  0  0  0  0  0  0  0  0  0  0  0  1\r\n"
        )
    }

    fn runs(text: &str) -> Result<Vec<LoadRun>, Fault> {
        crate::testing::runs("sqlio", text.as_bytes(), &Options::default())
    }

    #[test]
    fn figures_have_the_signs_of_a_locale_or_are_refused() {
        for (written, expected) in [
            ("1500,25", Some(1500.25)),
            ("1.500,25", Some(1500.25)),
            ("1,500.25", Some(1500.25)),
            ("1.500", None),
            ("1,500", None),
        ] {
            let text = text(8, 0.25).replace("0.25", written);
            match (runs(&text), expected) {
                (Ok(found), Some(rate)) => {
                    assert_eq!(found[0].intervals[0].completed, (rate * 120.0_f64) as u64, "{written}")
                }
                (Err(fault), None) => {
                    assert!(fault.to_string().contains(&format!("IOs/sec of `{written}`")), "{fault}");
                    assert!(!fault.to_string().contains("stopped"), "{fault}");
                }
                (found, _) => panic!("{written}: {found:?}"),
            }
        }
    }

    #[test]
    fn several_runs_of_a_file_have_their_settings_and_figures() {
        let found = runs(&format!("{}pause\r\n{}", text(8, 225.8), text(64, 192.85))).unwrap();
        assert_eq!(found.len(), 2);
        let first = &found[0];
        assert_eq!((first.version.as_str(), first.line, first.seconds), ("v1.5.SG", 2, 120.0));
        assert_eq!(first.shape, Some(Shape::closed(4)));
        assert_eq!(first.settings["workload.block_size"], Level::Bytes(8192));
        assert_eq!(first.settings["workload.access"], Level::Text("random".into()));
        assert_eq!(first.settings["workload.size"], Level::Bytes(20_000 << 20));
        let interval = &first.intervals[0];
        assert_eq!((interval.operation.as_str(), interval.completed), ("write", 27_096));
        assert_eq!(interval.bytes, 27_096 * 8192);
        assert_eq!((interval.offered, interval.issued, interval.late), (None, None, None));
        let times = interval.response;
        assert_eq!((times.min, times.mean, times.p50, times.p90, times.max), (0.0, 3.0, 5.0, 7.0, 111.0));
        assert!(times.p99.is_nan());
        assert_eq!(first.facts["sqlio.cache"], Level::Text("disk".into()));
        assert_eq!(found[1].settings["workload.block_size"], Level::Bytes(65536));
    }

    #[test]
    fn a_histogram_without_blanks_is_read_by_its_places() {
        let line = format!("{}100", "  0".repeat(24));
        assert_eq!(shares_of(&line).unwrap()[24], 100);
        assert_eq!(shares_of("1 2"), None);
        assert_eq!(shares_of(&"999".repeat(25)), None);
    }

    #[test]
    fn a_run_that_was_cut_is_left_out_and_named() {
        let whole = text(8, 225.8);
        let cut = whole.split("CUMULATIVE").next().unwrap();
        let found = runs(&format!("{whole}{cut}")).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].notes.iter().any(|note| note.contains("no IOs/sec")), "{:?}", found[0].notes);
        let fault = runs(cut).unwrap_err();
        assert_eq!(fault.to_string(), "line 2: the run that begins here has no IOs/sec");
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(sqlio v1\n)?([a-zA-Z0-9%:./() -]{0,60}\n){0,12}") {
            let _ = open(Box::new(std::io::Cursor::new(text.into_bytes())), &Options::default());
        }
    }
}
