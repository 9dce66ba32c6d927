//! The results that Iometer writes (`results.csv`): a run for each access specification and load, from the rows `ALL`.
//!
//! Cells are not quoted, and lines that begin with `'` name what follows. Columns are found by their names: versions differ
//! in `MBps`, `MBps (Binary)` and `MiBps (Binary)`. Response times are milliseconds.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};

use model::{LatencySummary, Level, Shape};

use crate::input::Text;
use crate::load::Whole;
use crate::{Content, DateOrder, Fault, Format, LoadRun, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "iometer",
    about: "Iometer results: operations, bytes, mean and longest response times, errors and CPU of each access specification",
    recognize: |head| {
        let named = |line: &str| line.trim_start_matches('\u{feff}').trim_start_matches('\'').to_string();
        head.lines()
            .map(named)
            .any(|line| line.contains(HEADER) || line.starts_with("Test Type,Test Description"))
    },
    open,
};

/// The begin of the names of the columns.
const HEADER: &str = "Target Type,Target Name,Access Specification Name";

/// The longest line, and the most runs and access specifications of a file.
const LINE_BYTES_MAX: u64 = 1 << 16;
const RUNS_MAX: usize = 10_000;

/// Bytes of a sector, in which Iometer counts.
const SECTOR_BYTES: u64 = 512;

fn open(from: Source, options: &Options) -> Result<Content, Fault> {
    let mut lines = BufReader::new(Text::new(from));
    let mut reader =
        Reader { utc_offset_ns: options.utc_offset_s.saturating_mul(1_000_000_000), ..Reader::default() };
    let (mut bytes, mut number) = (Vec::new(), 0);
    loop {
        bytes.clear();
        let limited = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        if limited.map_err(|error| Fault::of_file(&error))? == 0 {
            break;
        }
        number += 1;
        reader.read(String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']), number)?;
        if reader.runs.len() > RUNS_MAX
            || reader.faults.len() > RUNS_MAX
            || reader.specifications.len() > RUNS_MAX
        {
            return Err(Fault::at(number, "the file has more than 10,000 runs", "split it"));
        }
    }
    let Reader { mut runs, mut faults, .. } = reader;
    match (runs.first_mut(), faults.is_empty()) {
        (None, true) => Err(Fault::at(0, "no row ALL has results", "was the test stopped too early?")),
        (None, false) => Err(faults.swap_remove(0)),
        (Some(first), _) => {
            first.notes.extend(faults.iter().map(|fault| format!("left out: {fault}")));
            Content::load(runs)
        }
    }
}

/// What the lines until the next one with a `'` are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    #[default]
    None,
    Version,
    Stamp,
    SpecificationName,
    SpecificationLines,
    Results,
}

/// A line of an access specification: what a share of the operations does.
#[derive(Clone, Debug, PartialEq)]
struct Access {
    bytes: u64,
    share: f64,
    read_percent: f64,
    random_percent: f64,
    delay_ms: f64,
    burst: f64,
    align_bytes: u64,
}

#[derive(Default)]
struct Reader {
    utc_offset_ns: i64,
    section: Section,
    version: String,
    specifications: BTreeMap<String, Vec<Access>>,
    /// The specification whose lines follow.
    specification: String,
    columns: Vec<String>,
    /// Runs from here on have no time yet.
    without_time: usize,
    runs: Vec<LoadRun>,
    faults: Vec<Fault>,
}

impl Reader {
    fn read(&mut self, line: &str, number: u64) -> Result<(), Fault> {
        let text = line.trim().trim_start_matches('\u{feff}');
        let title = text.strip_prefix('\'');
        if text.starts_with("TimeStamp,") && text.contains(HEADER) {
            return Err(Fault::at(
                number,
                "these are instantaneous results of Iometer",
                "read its results.csv",
            ));
        }
        // Some versions write the first title without its mark.
        if let Some(title) = title.or(Some(text).filter(|text| text.starts_with(HEADER))) {
            self.section = match title.to_ascii_lowercase().as_str() {
                "version" => Section::Version,
                "time stamp" => Section::Stamp,
                title if title.starts_with("access specification name") => Section::SpecificationName,
                title if title.starts_with("size,") => Section::SpecificationLines,
                title if title.starts_with("target type,") => Section::Results,
                _ => Section::None,
            };
            if self.section == Section::Results {
                self.columns = title.split(',').map(|name| name.trim().to_string()).collect();
            }
            return Ok(());
        }
        match self.section {
            Section::None => {}
            Section::Version => self.version = text.to_string(),
            Section::Stamp => self.end(text),
            Section::SpecificationName => {
                // The name may have commas; the number after it is the default assignment.
                let name = text.rsplit_once(',').map_or(text, |(name, _)| name);
                self.specification = name.trim().to_string();
                self.specifications.insert(self.specification.clone(), Vec::new());
            }
            Section::SpecificationLines => {
                let lines = self.specifications.entry(self.specification.clone()).or_default();
                if let (Some(access), true) = (access_of(text), lines.len() < RUNS_MAX) {
                    lines.push(access);
                }
            }
            Section::Results => {
                if text.starts_with("ALL,") {
                    match self.run_of(text, number) {
                        Ok(run) => self.runs.push(run),
                        Err(fault) => self.faults.push(fault),
                    }
                }
            }
        }
        Ok(())
    }

    /// A time stamp, which is written when a test begins and after the rows of a run.
    fn end(&mut self, stamp: &str) {
        let end_ns = crate::date::unix_ns(stamp.as_bytes(), DateOrder::MonthFirst);
        let end_ns = end_ns.map(|ns| ns.saturating_add(self.utc_offset_ns));
        for run in self.runs.iter_mut().skip(self.without_time) {
            let took_ns = crate::number::nanoseconds(run.seconds);
            run.began_unix_ns = end_ns.zip(took_ns).and_then(|(end, took)| end.checked_sub(took));
            if run.began_unix_ns.is_some() {
                run.notes
                    .push("the begin is computed from the time stamp after the run and the run time".into());
            }
        }
        self.without_time = self.runs.len();
    }

    /// The run of a row `ALL`.
    fn run_of(&self, row: &str, line: u64) -> Result<LoadRun, Fault> {
        let cells = self.cells_of(row);
        let cell = |name: &str| {
            let at = self.columns.iter().position(|column| column.eq_ignore_ascii_case(name))?;
            cells.get(at).map(|cell| cell.trim())
        };
        let number =
            |name: &str| crate::number::decimal(cell(name)?.as_bytes(), false).filter(|value| *value >= 0.0);
        // -1 stands for values that differ, also where there is no sign.
        let count = |name: &str| cell(name)?.parse::<u64>().ok().filter(|count| *count <= u64::MAX >> 1);
        let fault = |what: String| Fault::at(line, what, "the test was stopped, or the file was cut");
        let (Some(rate), Some(reads), Some(writes)) =
            (number("IOps"), count("Read I/Os"), count("Write I/Os"))
        else {
            return Err(fault("the row ALL has no IOps, Read I/Os or Write I/Os".into()));
        };
        if rate <= 0.0 || (reads == 0 && writes == 0) {
            return Err(fault("the row ALL has no completed operation".into()));
        }
        let name = cell("Access Specification Name").unwrap_or_default();
        let mut run = LoadRun {
            tool: "iometer",
            version: self.version.clone(),
            line,
            label: name.to_string(),
            workload: "disk",
            seconds: reads.saturating_add(writes) as f64 / rate,
            ..LoadRun::default()
        };
        run.notes.push("the run time is computed from operations and IOps".into());
        let (workers, disks) = (count("# Workers"), count("# Disks"));
        let depth = count("Queue Depth").filter(|depth| *depth > 0);
        let in_flight =
            disks.zip(depth).and_then(|(disks, depth)| disks.checked_mul(depth)).filter(|count| *count > 0);
        run.shape = in_flight.map(Shape::closed);
        if let Some(workers) = workers.filter(|workers| *workers > 0) {
            run.set("threads", Level::Count(workers));
            match in_flight {
                Some(in_flight) if in_flight % workers == 0 => {
                    run.set("outstanding", Level::Count(in_flight / workers));
                }
                _ => run.notes.push("workers have different numbers of operations in flight".into()),
            }
        }
        let bytes =
            |sectors: u64| sectors.checked_mul(SECTOR_BYTES).filter(|bytes| *bytes > 0).map(Level::Bytes);
        for (setting, column) in [("size", "Maximum Size"), ("offset", "Starting Sector")] {
            if let Some(level) = count(column).and_then(bytes) {
                run.set(setting, level);
            }
        }
        match self.specifications.get(name) {
            Some(lines) if !lines.is_empty() => apply(lines, &mut run),
            _ => run.notes.push("the file does not have the access specification".into()),
        }
        for (operation, part, completed) in [("read", "Read", reads), ("write", "Write", writes)] {
            let failed = count(&format!("{part} Errors")).unwrap_or(0);
            if completed == 0 && failed == 0 {
                continue;
            }
            let bytes =
                count(if part == "Read" { "Bytes Read" } else { "Bytes Written" }).unwrap_or_else(|| {
                    // MB are 2^20 bytes where no unit is named.
                    let binary = ["MiBps (Binary)", "MBps (Binary)", "MBps"];
                    let rate = binary.iter().find_map(|unit| number(&format!("{part} {unit}")));
                    run.notes.push(format!("{operation}: bytes are computed from the rate"));
                    let bytes = rate.unwrap_or(0.0) * 1_048_576.0 * run.seconds;
                    crate::number::count(bytes).unwrap_or(u64::MAX)
                });
            // Without an operation, Iometer writes 0.
            let time = |which: &str| {
                number(&format!("{which} {part} Response Time")).filter(|_| completed > 0).unwrap_or(f64::NAN)
            };
            let times =
                LatencySummary { mean: time("Average"), max: time("Maximum"), ..LatencySummary::ABSENT };
            // Iometer counts failed operations apart.
            let completed = completed.saturating_add(failed);
            run.add_whole(operation, Whole { completed, failed, bytes, times, concurrency: f64::NAN });
        }
        for (column, fact) in [
            ("% CPU Utilization", "utilization"),
            ("% User Time", "user"),
            ("% Privileged Time", "privileged"),
            ("% Interrupt Time", "interrupt"),
        ] {
            if let Some(percent) = number(column) {
                run.facts.insert(format!("iometer.cpu.{fact}"), Level::Percent(percent));
            }
        }
        if let Some(managers) = count("# Managers").filter(|managers| *managers > 1) {
            run.notes.push(format!("facts of the CPU (iometer.cpu) are sums over {managers} managers"));
        }
        let columns = self.columns.iter().zip(&cells);
        for (name, count) in columns.filter(|(name, _)| is_bin(name)) {
            if let Some(count) = count.trim().parse().ok().filter(|count| *count > 0) {
                run.facts.insert(format!("histogram.{name}"), Level::Count(count));
            }
        }
        Ok(run)
    }

    /// The cells of a row. The name of an access specification may have commas.
    fn cells_of<'a>(&self, row: &'a str) -> Vec<&'a str> {
        let name_at = self.columns.iter().position(|name| name == "Access Specification Name").unwrap_or(2);
        let mut parts = row.splitn(name_at + 1, ',');
        let mut cells: Vec<&str> = parts.by_ref().take(name_at).collect();
        let rest = parts.next().unwrap_or_default();
        let has_name =
            |name: &&String| rest.strip_prefix(name.as_str()).is_some_and(|after| after.starts_with(','));
        let known = self.specifications.keys().filter(has_name).max_by_key(|name| name.len());
        let end = known.map(|name| name.len()).or_else(|| rest.find(',')).unwrap_or(rest.len());
        cells.push(&rest[..end]);
        cells.extend(rest[end..].split(',').skip(1));
        cells
    }
}

/// Whether a column is one of latencies, such as `50 to 100 uS`.
fn is_bin(name: &str) -> bool {
    let is_unit = name
        .rsplit(' ')
        .next()
        .is_some_and(|unit| ["us", "ms", "s"].contains(&unit.to_ascii_lowercase().as_str()));
    is_unit && (name.contains(" to ") || name.starts_with(">="))
}

/// `size,% of size,% reads,% random,delay,burst,align,reply`
fn access_of(line: &str) -> Option<Access> {
    let mut cells =
        line.split(',').map(|cell| crate::number::decimal(cell.as_bytes(), false).filter(|of| *of >= 0.0));
    let mut next = || cells.next().flatten();
    Some(Access {
        bytes: crate::number::count(next()?)?,
        share: next()?,
        read_percent: next().filter(|percent| *percent <= 100.0)?,
        random_percent: next().filter(|percent| *percent <= 100.0)?,
        delay_ms: next().unwrap_or(0.0),
        burst: next().unwrap_or(1.0),
        align_bytes: crate::number::count(next().unwrap_or(0.0))?,
    })
}

/// The settings of an access specification.
fn apply(lines: &[Access], run: &mut LoadRun) {
    let same = |part: fn(&Access) -> f64| {
        let first = lines.first().map(part)?;
        lines.iter().all(|of| part(of) == first).then_some(first)
    };
    let sizes: Vec<u64> = lines.iter().map(|of| of.bytes).collect();
    if sizes.windows(2).all(|pair| pair[0] == pair[1]) {
        run.set("block_size", Level::Bytes(sizes.first().copied().unwrap_or(0)));
    } else {
        let part = |of: &Access| format!("{} {}%", Level::Bytes(of.bytes), of.share);
        run.set("block_size", Level::Text(lines.iter().map(part).collect::<Vec<_>>().join(", ")));
    }
    let total: f64 = lines.iter().map(|of| of.share).sum();
    if let Some(percent) = same(|of| of.read_percent) {
        run.set("read_percent", Level::Percent(percent));
    } else if total > 0.0 {
        let reads: f64 = lines.iter().map(|of| of.share * of.read_percent).sum();
        run.set("read_percent", Level::Percent(reads / total));
        run.notes.push("the share of reads differs by size; read_percent is its mean".into());
    }
    match same(|of| of.random_percent) {
        Some(percent) if percent <= 0.0 => run.set("access", Level::Text("sequential".into())),
        Some(percent) if percent >= 100.0 => run.set("access", Level::Text("random".into())),
        Some(percent) => {
            run.facts.insert("iometer.random".into(), Level::Percent(percent));
            run.notes.push(format!("{percent} % of the operations are random, the others sequential"));
        }
        None => run.notes.push("the share of random operations differs by size".into()),
    }
    let align = same(|of| of.align_bytes as f64).and_then(crate::number::count);
    if let Some(align) = align.filter(|align| *align > 0) {
        run.set("align", Level::Bytes(align));
    }
    if lines.iter().any(|of| of.delay_ms > 0.0) {
        run.notes.push("the access specification has delays between bursts of operations".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str = "Transactions per Second,Connections per Second,Average Response Time,Average Read Response Time,\
        Average Write Response Time,Average Transaction Time,Average Connection Time,Maximum Response Time,\
        Maximum Read Response Time,Maximum Write Response Time,Maximum Transaction Time,Maximum Connection Time,\
        Errors,Read Errors,Write Errors,Bytes Read,Bytes Written,Read I/Os,Write I/Os,Connections,\
        Transactions per Connection,Total Raw Read Response Time,Total Raw Write Response Time,\
        Total Raw Transaction Time,Total Raw Connection Time,Maximum Raw Read Response Time,\
        Maximum Raw Write Response Time,Maximum Raw Transaction Time,Maximum Raw Connection Time,Total Raw Run Time,\
        Starting Sector,Maximum Size,Queue Depth,% CPU Utilization,% User Time,% Privileged Time,% DPC Time,\
        % Interrupt Time,Processor Speed,Interrupts per Second,CPU Effectiveness,Packets/Second,Packet Errors,\
        Segments Retransmitted/Second";

    /// The three variants of the columns of rates, and whether there are bins.
    const RATES: [(&str, bool); 3] = [
        ("MBps,Read MBps,Write MBps", false),
        (
            "MBps (Binary),Read MBps (Binary),Write MBps (Binary),MBps (Decimal),Read MBps (Decimal),Write MBps (Decimal)",
            true,
        ),
        (
            "MiBps (Binary),Read MiBps (Binary),Write MiBps (Binary),MBps (Decimal),Read MBps (Decimal),Write MBps (Decimal)",
            true,
        ),
    ];

    fn begin() -> String {
        "'Test Type,Test Description\r\n0,a test\r\n'Version\r\n1.1.0 \r\n'Time Stamp\r\n2015-01-02 03:04:00:000\r\n\
         'Access specifications\r\n'Access specification name,default assignment\r\n4K, 75% Read,0\r\n\
         'size,% of size,% reads,% random,delay,burst,align,reply\r\n4096,100,75,100,0,1,512,0,\r\n\
         'End access specifications\r\n"
            .into()
    }

    /// The results of 75 reads and 25 writes in a second, of 2 workers with 4 disks of a depth of 8.
    fn results((rates, has_bins): (&str, bool)) -> String {
        let bins = if has_bins { ",0 to 50 uS,50 to 100 uS,0.5 to 1 S, >= 10 s" } else { "" };
        let zeros = "1.0,".repeat(rates.split(',').count());
        format!(
            "'Results\r\n'{HEADER},# Managers,# Workers,# Disks,IOps,Read IOps,Write IOps,{rates},{TAIL}{bins}\r\n\
             ALL,All,4K, 75% Read,1,2,4,100.000000,75.000000,25.000000,{zeros}0,0,1.75,1.5,2.5,0,0,9.0,8.0,9.0,0,0,3,2,1,\
             307200,102400,75,25,0,-1,,,,,,,,,,0,18446744073709551615,8,12.5,2.5,10.0,0,1,,500,8,-1,-1,-1{}\r\n\
             MANAGER,host,4K, 75% Read,,2,4,100.0\r\nPROCESSOR,CPU 0,,,,\r\n'Time Stamp\r\n2015-01-02 03:04:05:678\r\n",
            if has_bins { ",90,10,0,0" } else { "" }
        )
    }

    fn runs(text: &str) -> Result<Vec<LoadRun>, Fault> {
        crate::testing::runs(
            "iometer",
            text.as_bytes(),
            &Options { utc_offset_s: -3600, ..Options::default() },
        )
    }

    #[test]
    fn all_variants_of_the_columns_are_read() {
        for variant in RATES {
            let found = runs(&format!("{}{}{}", begin(), results(variant), results(variant))).unwrap();
            assert_eq!(found.len(), 2);
            let run = &found[0];
            assert_eq!(
                (run.version.as_str(), run.seconds, run.label.as_str()),
                ("1.1.0", 1.0, "4K, 75% Read")
            );
            assert_eq!((run.line, run.shape.clone()), (15, Some(Shape::closed(32))));
            let begin: jiff::Timestamp = "2015-01-02T02:04:04.678Z".parse().unwrap();
            assert_eq!(run.began_unix_ns, Some(begin.as_nanosecond() as i64));
            let [read, write] = &run.intervals[..] else { panic!("{:?}", run.intervals) };
            assert_eq!((read.completed, read.failed, read.bytes), (77, 2, 307_200));
            assert_eq!((write.completed, write.failed, write.bytes), (26, 1, 102_400));
            assert_eq!((read.response.mean, read.response.max), (1.5, 8.0));
            assert_eq!((write.response.mean, write.response.max), (2.5, 9.0));
            assert!(read.response.min.is_nan() && read.response.p50.is_nan());
            let settings: Vec<String> =
                run.settings.iter().map(|(name, level)| format!("{name}={level}")).collect();
            assert_eq!(
                settings.join(" ").replace("workload.", ""),
                "access=random align=512B block_size=4KiB outstanding=16 read_percent=75% threads=2"
            );
            assert_eq!(run.facts["iometer.cpu.utilization"], Level::Percent(12.5));
            let bin = run.facts.get("histogram.0 to 50 uS");
            assert_eq!(bin, variant.1.then_some(&Level::Count(90)));
        }
    }

    #[test]
    fn a_mix_of_sizes_is_one_setting() {
        let mix = begin()
            .replace("4096,100,75,100,0,1,512,0,", "4096,70,100,100,0,1,0,0,\r\n65536,30,0,0,5,1,0,0,");
        let run = &runs(&format!("{mix}{}", results(RATES[0]))).unwrap()[0];
        assert_eq!(run.settings["workload.block_size"], Level::Text("4KiB 70%, 64KiB 30%".into()));
        assert_eq!(run.settings["workload.read_percent"], Level::Percent(70.0));
        assert!(!run.settings.contains_key("workload.access"));
        for part in ["share of reads differs", "share of random operations differs", "delays between bursts"]
        {
            assert!(run.notes.iter().any(|note| note.contains(part)), "{part}: {:?}", run.notes);
        }
    }

    #[test]
    fn files_that_were_cut_are_read_as_far_as_they_are_whole() {
        let whole = format!("{}{}", begin(), results(RATES[2]));
        let cut = |at: &str| whole[..whole.find(at).unwrap()].to_string();
        let run = &runs(&cut("'Time Stamp\r\n2015-01-02 03:04:05")).unwrap()[0];
        assert_eq!((run.began_unix_ns, run.intervals.len()), (None, 2));
        let fault = runs(&cut("102400,75,25")).unwrap_err();
        assert_eq!(fault.to_string(), "line 15: the row ALL has no IOps, Read I/Os or Write I/Os");
        let found = runs(&format!("{whole}{}", cut("102400,75,25"))).unwrap();
        assert_eq!(found.len(), 1);
        assert!(
            found[0].notes.iter().any(|note| note.starts_with("left out: line 34")),
            "{:?}",
            found[0].notes
        );
        assert_eq!(runs(&begin()).unwrap_err().what, "no row ALL has results");
        let without = runs(&results(RATES[2]).replace("4K, 75% Read", "4K")).unwrap();
        assert!(without[0].notes.iter().any(|note| note.contains("does not have the access specification")));
        let idle = whole.replace("100.000000,75.000000", "0.000000,0.000000");
        assert!(runs(&idle).unwrap_err().what.contains("no completed operation"));
        let other = format!("'Results\nTimeStamp,'{HEADER},# Managers\n");
        assert_eq!(runs(&other).unwrap_err().what, "these are instantaneous results of Iometer");
    }

    proptest::proptest! {
        #[test]
        fn no_cut_or_change_is_a_panic(at in 0..3000_usize, change in "[-',0-9a-zA \n]{0,20}", cut in 0..300_usize) {
            let whole = format!("{}{}", begin(), results(RATES[1]));
            let at = at.min(whole.len());
            let end = (at + cut).min(whole.len());
            let changed = format!("{}{change}{}", &whole[..at], &whole[end..]);
            let _ = open(Box::new(std::io::Cursor::new(changed.into_bytes())), &Options::default());
        }
    }
}
