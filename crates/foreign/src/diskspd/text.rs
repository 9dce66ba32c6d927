//! The text of diskspd: one run of it, or several one after another between other lines. Tables are read by their headers.

use std::io::{BufRead as _, BufReader, Read as _};

use super::{Outcome, Part, Plan, RUNS_MAX, TARGETS_MAX, Target, began_of, number_of, start_of};
use crate::input::Text;
use crate::number::printed_count;
use crate::{Content, Fault, LoadRun, Source};

/// The longest line.
const LINE_BYTES_MAX: u64 = 1 << 16;

const RESULTS: &str = "Results for timespan ";

pub(super) fn is_it(head: &str) -> bool {
    let has = |what: &str| head.lines().any(|line| line.trim().starts_with(what));
    has(RESULTS) || (has("Command Line:") && has("Input parameters:"))
}

pub(super) fn open(from: Source) -> Result<Content, Fault> {
    let mut lines = BufReader::new(Text::new(from));
    let (mut reader, mut bytes, mut number) = (Reader::default(), Vec::new(), 0);
    loop {
        bytes.clear();
        let limited = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        if limited.map_err(|error| Fault::of_file(&error))? == 0 {
            break;
        }
        number += 1;
        reader.read(String::from_utf8_lossy(&bytes).trim_end(), number);
        if reader.runs.len() > RUNS_MAX || reader.faults.len() > RUNS_MAX {
            return Err(Fault::at(number, "the file has more than 10,000 runs", "split it"));
        }
    }
    reader.end();
    let Reader { mut runs, mut faults, .. } = reader;
    match (runs.first_mut(), faults.is_empty()) {
        (None, true) => Err(Fault::at(0, "no time span of diskspd has results", "was it stopped too early?")),
        (None, false) => Err(faults.swap_remove(0)),
        (Some(first), _) => {
            first.notes.extend(faults.iter().map(|fault| format!("left out: {fault}")));
            Content::load(runs)
        }
    }
}

/// Which operations a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Total,
    Reads,
    Writes,
}

/// The table that is being read.
#[derive(Debug, Default)]
enum Table {
    #[default]
    None,
    /// With the names of the columns after the first.
    Cpu(Vec<String>),
    Operations(Section, Vec<String>),
    Percentiles(Vec<String>),
}

#[derive(Default)]
struct Reader {
    plans: Vec<Plan>,
    started_unix_ns: Option<i64>,
    outcome: Option<Outcome>,
    section: Option<Section>,
    table: Table,
    /// Of the files of the table of all operations.
    sizes: Vec<Option<u64>>,
    runs: Vec<LoadRun>,
    faults: Vec<Fault>,
}

impl Reader {
    fn read(&mut self, line: &str, number: u64) {
        let text = line.trim();
        if text.starts_with("Command Line:") {
            self.end();
            self.plans.clear();
            self.started_unix_ns = None;
        } else if let Some(rest) = text.strip_prefix(RESULTS) {
            self.end();
            let at = rest.trim_end_matches(':').trim().parse().unwrap_or(1);
            self.outcome = Some(Outcome { line: number, number: at, ..Outcome::default() });
        } else if text == "Totals:" {
            self.end();
        } else if self.outcome.is_some() {
            self.read_result(line, text);
        } else if let Some(time) = text.strip_prefix("start time:") {
            self.started_unix_ns = start_of(time);
        } else if text.starts_with("timespan:") {
            if self.plans.len() < RUNS_MAX {
                self.plans.push(Plan::default());
            }
        } else if let Some(plan) = self.plans.last_mut() {
            read_plan(plan, text);
        }
    }

    fn read_result(&mut self, line: &str, text: &str) {
        let Some(outcome) = &mut self.outcome else { return };
        let section = match text {
            "Total IO" => Some(Section::Total),
            "Read IO" => Some(Section::Reads),
            "Write IO" => Some(Section::Writes),
            _ => None,
        };
        let cells = || text.split('|').map(str::trim);
        if section.is_some() {
            self.section = section;
            self.table = Table::None;
        } else if text.starts_with("The test was interrupted") {
            outcome.has_error = true;
        } else if let Some(time) = text.strip_prefix("actual test time:") {
            outcome.seconds = number_of(time.trim().trim_end_matches('s'));
        } else if let Some(count) = text.strip_prefix("thread count:") {
            outcome.threads = count.trim().parse().ok();
        } else if text.contains('|') && text.contains("Usage") && text.contains("Idle") {
            let names = cells().skip_while(|name| *name != "CPU").skip(1);
            self.table = Table::Cpu(names.map(str::to_string).collect());
        } else if let (Some(section), true) = (self.section, text.starts_with("thread |")) {
            self.table = Table::Operations(section, cells().skip(1).map(str::to_string).collect());
        } else if text.starts_with("%-ile") {
            // One for each target, and the last for all.
            outcome.reads.points.clear();
            outcome.writes.points.clear();
            outcome.total.points.clear();
            self.table = Table::Percentiles(cells().skip(1).map(str::to_string).collect());
        } else if text.contains('|') {
            self.read_row(line, text);
        } else if !text.starts_with('-') {
            self.table = Table::None;
        }
    }

    fn read_row(&mut self, line: &str, text: &str) {
        let Some(outcome) = &mut self.outcome else { return };
        match &self.table {
            Table::None => {}
            Table::Cpu(names) => {
                let Some(row) = text.strip_prefix("avg.|") else { return };
                for (name, cell) in names.iter().zip(row.split('|')) {
                    let name = match name.as_str() {
                        "Usage" => "usage",
                        "User" => "user",
                        "Kernel" => "kernel",
                        _ => continue,
                    };
                    outcome.cpu.extend(number_of(cell).map(|percent| (name, percent)));
                }
            }
            Table::Operations(section, names) => {
                let Some(row) = text.strip_prefix("total:") else {
                    if let (Section::Total, Some((_, size))) = (section, line.rsplit_once('(')) {
                        self.sizes.push(size.strip_suffix(')').and_then(bytes_of).filter(|bytes| *bytes > 0));
                    }
                    return;
                };
                let part = match section {
                    Section::Total => &mut outcome.total,
                    Section::Reads => &mut outcome.reads,
                    Section::Writes => &mut outcome.writes,
                };
                read_total(part, names, row);
            }
            Table::Percentiles(names) => {
                let mut cells = text.split('|').map(str::trim);
                let Some(percent) = cells.next().and_then(percent_of) else { return };
                for (name, cell) in names.iter().zip(cells) {
                    let part = match name.split(' ').next() {
                        Some("Read") => &mut outcome.reads,
                        Some("Write") => &mut outcome.writes,
                        _ => &mut outcome.total,
                    };
                    part.points.extend(number_of(cell).map(|ms| (percent, ms)));
                }
            }
        }
    }

    /// Ends the time span that is being read.
    fn end(&mut self) {
        self.section = None;
        self.table = Table::None;
        let sizes = std::mem::take(&mut self.sizes);
        let Some(mut outcome) = self.outcome.take() else { return };
        outcome.file_bytes = super::common(sizes.into_iter());
        let (line, at) = (outcome.line, outcome.number.saturating_sub(1));
        let began = began_of(self.started_unix_ns, self.plans.get(..at).unwrap_or_default());
        match outcome.finish(self.plans.get(at), "", began) {
            Ok(run) => self.runs.push(run),
            Err(missing) => {
                let what = format!("the time span that begins here has no {missing}");
                self.faults.push(Fault::at(line, what, "diskspd was stopped, or the file was cut"));
            }
        }
    }
}

/// Reads the row of totals of a table of operations.
fn read_total(part: &mut Part, names: &[String], row: &str) {
    for (name, cell) in names.iter().zip(row.split('|').map(str::trim)) {
        match name.as_str() {
            "bytes" => part.bytes = printed_count(cell).unwrap_or(0),
            "I/Os" => part.completed = printed_count(cell),
            "AvgLat" => part.mean_ms = number_of(cell).filter(|_| part.completed != Some(0)),
            "LatStdDev" => part.deviation_ms = number_of(cell),
            _ => {}
        }
    }
}

/// The percent of a row such as `25th` or `3-nines`.
fn percent_of(name: &str) -> Option<f64> {
    match name {
        "min" => return Some(0.0),
        "max" => return Some(100.0),
        _ => {}
    }
    if let Some(nines) = name.strip_suffix("-nines") {
        let nines: i32 = nines.parse().ok().filter(|nines| (1..=15).contains(nines))?;
        return Some(100.0 - 100.0 / 10_f64.powi(nines));
    }
    let digits = ["th", "st", "nd", "rd"].iter().find_map(|end| name.strip_suffix(end))?;
    number_of(digits).filter(|percent| *percent <= 100.0)
}

/// Bytes such as `65536`, `64KiB`, `1.50GiB` or `100MB`.
fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|of: char| !of.is_ascii_digit() && !matches!(of, '.' | ',')).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" | "KB" | "K" => 10,
        "MiB" | "MB" | "M" => 20,
        "GiB" | "GB" | "G" => 30,
        "TiB" | "TB" | "T" => 40,
        _ => return None,
    };
    match digits.parse::<u64>() {
        Ok(number) => number.checked_mul(1 << shift),
        // Two decimal places: 4.50KiB is exact, 1.33GiB is not.
        Err(_) => number_of(digits)
            .map(|number| number * (1_u64 << shift) as f64)
            .filter(|bytes| bytes.fract() == 0.0)
            .and_then(crate::number::count),
    }
}

/// Reads a line of the input parameters.
fn read_plan(plan: &mut Plan, text: &str) {
    let first = |text: &str| {
        let end = text.find(|of: char| !of.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse::<u64>().ok()
    };
    let after = |prefix: &str| text.strip_prefix(prefix).map(str::trim);
    if let Some(seconds) = after("duration:").and_then(first) {
        plan.duration_s = seconds;
    } else if let Some(seconds) = after("warm up time:").and_then(first) {
        plan.warm_up_s = seconds;
    } else if let Some(seconds) = after("cool down time:").and_then(first) {
        plan.cool_down_s = seconds;
    } else if let Some(threads) = after("thread pool with").and_then(first) {
        plan.pool_threads = threads;
    } else if let Some(path) = after("path:") {
        if plan.targets.len() < TARGETS_MAX {
            let path = path.trim_start_matches("template target").trim().trim_matches('\'').to_string();
            // Versions that name no access are sequential.
            plan.targets.push(Target { path, random_percent: Some(0.0), ..Target::default() });
        }
    } else if let Some(target) = plan.targets.last_mut() {
        read_target(target, text);
    } else if let Some((_, count)) = text.split_once("number of outstanding I/O operations per thread:") {
        plan.pool_outstanding = first(count.trim()).unwrap_or(0);
    }
}

fn read_target(target: &mut Target, text: &str) {
    let after = |prefix: &str| text.strip_prefix(prefix).map(str::trim);
    let between = |prefix: &str, end: char| after(prefix)?.split(end).next().map(str::trim);
    match text {
        "using software cache" | "local software cache disabled, remote cache enabled" => {
            target.is_cached = Some(true)
        }
        "using software and hardware cache" | "using software and hardware write cache" => {
            (target.is_cached, target.is_write_through) = (Some(true), Some(false));
        }
        "software cache disabled" => target.is_cached = Some(false),
        "software and hardware cache disabled" | "software and hardware write cache disabled" => {
            (target.is_cached, target.is_write_through) = (Some(false), Some(true));
        }
        "performing read test" => target.write_percent = Some(0.0),
        "performing write test" => target.write_percent = Some(100.0),
        _ if text.ends_with(", writethrough on") => target.is_write_through = Some(true),
        _ if text.ends_with(", writethrough off") => target.is_write_through = Some(false),
        _ => {}
    }
    if let Some((_, write)) =
        between("performing mix test (read/write ratio:", ')').and_then(|ratio| ratio.split_once('/'))
    {
        target.write_percent = number_of(write).filter(|percent| *percent <= 100.0);
    } else if let Some(write) = between("performing mix test (write/read ratio:", '/') {
        target.write_percent = number_of(write).filter(|percent| *percent <= 100.0);
    } else if let Some(size) = after("block size:") {
        target.block_bytes = bytes_of(size);
    } else if text.starts_with("using random I/O") {
        target.random_percent = Some(100.0);
    } else if let Some(percent) = between("using mixed random/sequential I/O (", '%') {
        target.random_percent = number_of(percent);
    } else if let Some((kind, stride)) =
        after("using ").and_then(|rest| rest.split_once("sequential I/O (stride:"))
    {
        target.is_interlocked = kind.trim() == "interlocked";
        target.stride_bytes = bytes_of(stride.trim_end_matches(')'));
    } else if let Some(stride) = after("stride size:") {
        target.stride_bytes = bytes_of(stride);
    } else if let Some((_, count)) =
        text.split_once("outstanding I/O operations").and_then(|(_, rest)| rest.split_once(':'))
    {
        target.outstanding = count.trim().parse().ok();
    } else if let Some(count) = after("threads per file:") {
        target.threads = count.parse().ok();
    } else if let Some(size) = after("max file size:") {
        target.size_bytes = bytes_of(size);
    } else if let Some(offset) = after("base file offset:") {
        target.offset_bytes = bytes_of(offset);
    } else if let Some(limit) = after("throughput rate-limited to") {
        target.limit = Some(limit.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_percentiles_and_sizes_are_numbers() {
        for (name, expected) in [
            ("min", Some(0.0)),
            ("25th", Some(25.0)),
            ("99th", Some(99.0)),
            ("3-nines", Some(99.9)),
            ("max", Some(100.0)),
            ("99-nines", None),
            ("200th", None),
            ("x", None),
        ] {
            assert_eq!(percent_of(name), expected, "{name}");
        }
        for (text, expected) in [
            ("65536", Some(65536)),
            ("64KiB", Some(65536)),
            ("4.50KiB", Some(4608)),
            ("1.33GiB", None),
            ("100MB", Some(100 << 20)),
            ("99999999999TiB", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(bytes_of(text), expected, "{text}");
        }
    }
}
