//! What a column or row of a table of results is, by its name and its unit.
//!
//! A name is read from its end: the unit (`avg_latency_ms`), the words for the quantity (`avg_latency`), and what is left is
//! the part that it belongs to (`read_iops`, `read_latency_ms`). What has other words at its end is not read.

use model::figure::Quantity;

/// A column that is read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) quantity: Quantity,
    /// Its unit, as a figure is written; empty if the cells have it, or if there is none.
    pub(super) unit: String,
    /// The part of the result that it is about, such as `read`; empty if it is about all of it.
    pub(super) part: String,
}

const RATE: &[&str] = &[
    "rate",
    "iops",
    "ops",
    "tps",
    "qps",
    "rps",
    "ios",
    "io",
    "operations",
    "requests",
    "req",
    "transactions",
    "avg",
    "mean",
    "total",
];
const THROUGHPUT: &[&str] =
    &["throughput", "bandwidth", "bw", "transfer", "rate", "speed", "avg", "mean", "total"];
const COUNT: &[&str] = &[
    "count",
    "operations",
    "requests",
    "transactions",
    "records",
    "objects",
    "entries",
    "ios",
    "total",
    "n",
];
const FAILED: &[&str] = &["errors", "failed", "failures", "failed_requests"];
const ELAPSED: &[&str] =
    &["elapsed", "duration", "runtime", "run_time", "test_time", "total_time", "elapsed_time"];
const IN_FLIGHT: &[&str] = &[
    "outstanding",
    "outstanding_ios",
    "queue_depth",
    "qd",
    "iodepth",
    "threads",
    "users",
    "connections",
    "clients",
    "concurrency",
    "vus",
    "in_flight",
    "workers",
];
const BLOCK: &[&str] =
    &["block", "block_size", "blocksize", "bs", "transfer_size", "io_size", "request_size"];
const DATA: &[&str] = &["data", "data_size", "bytes", "size", "transferred"];
const TIME: &[&str] = &["latency", "response_time", "response", "time", "lat", "rt", "resp"];
const MEAN: &[&str] = &["avg", "average", "mean"];
const MIN: &[&str] = &["min", "minimum", "low", "lowest", "shortest", "fastest"];
const MAX: &[&str] = &["max", "maximum", "high", "highest", "longest", "slowest"];
const DEVIATION: &[&str] = &["deviation", "stddev", "std", "sd", "stdev", "std_dev", "standard_deviation"];
const CEILING: &[&str] = &["ceiling"];
const FACTOR: &[&str] = &["improvement_factor", "speedup", "times_faster"];

/// Words of a name: `Avg. Latency (ms)` as `avg`, `latency`, `ms`.
fn words(name: &str) -> Vec<String> {
    let lower = name.to_lowercase();
    let is_word = |of: char| of.is_alphanumeric() || of == '%' || of == '/' || of == '.';
    lower
        .split(|of: char| !is_word(of))
        .map(|word| word.trim_matches('.').to_string())
        .filter(|word| !word.is_empty())
        .collect()
}

const TIME_UNITS: [&str; 18] = [
    "ns",
    "us",
    "µs",
    "ms",
    "msec",
    "milliseconds",
    "s",
    "sec",
    "secs",
    "seconds",
    "min",
    "mins",
    "minutes",
    "h",
    "hours",
    "days",
    "second",
    "minute",
];
const BYTE_UNITS: [&str; 14] =
    ["b", "bytes", "kb", "kib", "mb", "mib", "gb", "gib", "tb", "tib", "k", "m", "byte", "kbytes"];

/// The unit at the end of a name, as a figure is written, and the number of words that it takes.
fn unit(words: &[String]) -> Option<(Unit, usize)> {
    let at = |back: usize| words.len().checked_sub(back).map(|at| words[at].as_str());
    let is_byte = |word: &str| BYTE_UNITS.contains(&word);
    if let (Some("per"), Some(per @ ("s" | "sec" | "second" | "min" | "minute" | "h" | "hour"))) =
        (at(2), at(1))
    {
        return Some(match at(3) {
            Some(of) if is_byte(of) || of.ends_with("bit") => (Unit::Throughput(format!("{of}/{per}")), 3),
            _ => (Unit::Rate(format!("/{per}")), 2),
        });
    }
    let last = at(1)?;
    if let Some((of, per)) = last.split_once('/').filter(|(_, per)| TIME_UNITS.contains(per)) {
        return Some(match is_byte(of) || of.ends_with("bit") {
            true => (Unit::Throughput(last.to_string()), 1),
            false => (Unit::Rate(format!("/{per}")), 1),
        });
    }
    Some(match last {
        "iops" | "tps" | "qps" | "rps" => (Unit::Rate("/s".into()), 0),
        "mbps" | "kbps" | "gbps" => (Unit::Throughput(format!("{}it/s", &last[..2])), 1),
        "percent" | "%" => (Unit::Percent, 1),
        "ratio" | "x" | "factor" => (Unit::Factor, usize::from(last != "factor")),
        _ if TIME_UNITS.contains(&last) => (Unit::Time(last.to_string()), 1),
        _ if is_byte(last) => (Unit::Bytes(last.to_string()), 1),
        _ => (Unit::Nothing, 0),
    })
}

enum Unit {
    Time(String),
    Bytes(String),
    Throughput(String),
    Rate(String),
    Percent,
    Factor,
    Nothing,
}

/// Removes words of a list from the end, and says whether it did.
fn strip(words: &mut Vec<String>, known: &[&str]) -> bool {
    let mut has = false;
    loop {
        let two = words.len().checked_sub(2).map(|at| words[at..].join("_"));
        if two.is_some_and(|two| known.contains(&two.as_str())) {
            words.truncate(words.len() - 2);
        } else if words.last().is_some_and(|last| known.contains(&last.as_str())) {
            words.pop();
        } else {
            return has;
        }
        has = true;
    }
}

/// The percentile that the last word is: `p99`, `99th`, `99%`, `median`.
fn percentile(words: &mut Vec<String>) -> Option<Quantity> {
    strip(words, &["percentile", "pct", "ile"]);
    let last = words.last()?;
    let name = match last.as_str() {
        "median" => "p50".to_string(),
        word => {
            let digits = word
                .strip_suffix("th")
                .or_else(|| word.strip_suffix('%'))
                .unwrap_or(word.trim_start_matches('p'));
            let is_marked = digits.len() != word.len();
            if !is_marked {
                return None;
            }
            format!("p{digits}")
        }
    };
    let found = Quantity::of_name(&name)?;
    words.pop();
    Some(found)
}

fn is_percentile(words: &[String]) -> bool {
    percentile(&mut words.to_vec()).is_some()
}

/// The unit of bytes as a figure is written: `mb_per_s` as `MB/s`. `Mb/s` are bits.
fn of_bytes(unit: &str, name: &str) -> String {
    let has_bits = ["Kb/s", "Mb/s", "Gb/s"].iter().any(|bits| name.contains(bits));
    let (amount, per) = unit.split_once('/').map_or((unit, None), |(amount, per)| (amount, Some(per)));
    let amount = match amount {
        "b" | "byte" | "bytes" => "B".to_string(),
        bits if bits.ends_with("bit") => bits.to_string(),
        amount => {
            let (prefix, rest) = amount.split_at(1);
            let is_binary = rest.starts_with('i');
            let prefix = if prefix == "k" && !is_binary { "k".to_string() } else { prefix.to_uppercase() };
            match (is_binary, has_bits) {
                (true, _) => format!("{prefix}iB"),
                (false, true) => format!("{prefix}bit"),
                (false, false) => format!("{prefix}B"),
            }
        }
    };
    per.map_or(amount.clone(), |per| format!("{amount}/{per}"))
}

/// What the name of a column says; none if it is not read. `unit_cell` has the unit where a column of its own has it.
pub(super) fn known(name: &str, unit_cell: Option<&str>) -> Option<Known> {
    let mut words = words(name);
    let unit = match unit_cell {
        None => {
            // `p99 %` is no percentage: the sign is part of the name.
            let (unit, taken) = unit(&words)?;
            words.truncate(words.len() - taken);
            unit
        }
        Some(cell) => self::unit(&self::words(cell)).map_or(Unit::Nothing, |(unit, _)| unit),
    };
    let (quantity, unit) = match unit {
        Unit::Throughput(unit) => {
            strip(&mut words, THROUGHPUT);
            (Quantity::Throughput, of_bytes(&unit, unit_cell.unwrap_or(name)))
        }
        Unit::Rate(unit) if strip(&mut words, CEILING) => (Quantity::Ceiling, unit),
        Unit::Rate(unit) => {
            // `objects_per_s`, `requests/s`.
            while strip(&mut words, RATE) || strip(&mut words, COUNT) {}
            (Quantity::Rate, unit)
        }
        Unit::Bytes(unit) if strip(&mut words, BLOCK) => (Quantity::BlockSize, of_bytes(&unit, "")),
        Unit::Bytes(unit) if strip(&mut words, DATA) => (Quantity::Data, of_bytes(&unit, "")),
        Unit::Factor if strip(&mut words, FACTOR) => (Quantity::TimesFaster, String::new()),
        Unit::Time(unit) if strip(&mut words, ELAPSED) => (Quantity::Elapsed, unit),
        Unit::Time(unit) => (time(&mut words)?, unit),
        // The cells have the unit.
        Unit::Nothing if strip(&mut words, BLOCK) => (Quantity::BlockSize, String::new()),
        Unit::Nothing if strip(&mut words, ELAPSED) => (Quantity::Elapsed, String::new()),
        Unit::Nothing if strip(&mut words, &["throughput", "bandwidth", "bw"]) => {
            (Quantity::Throughput, String::new())
        }
        Unit::Nothing if strip(&mut words, &["data", "data_size"]) => (Quantity::Data, String::new()),
        Unit::Nothing
            if words.last().is_some_and(|last| TIME.contains(&last.as_str())) || is_percentile(&words) =>
        {
            (time(&mut words)?, String::new())
        }
        Unit::Nothing if strip(&mut words, IN_FLIGHT) => (Quantity::InFlight, String::new()),
        Unit::Nothing if strip(&mut words, FAILED) => (Quantity::Failed, String::new()),
        Unit::Nothing if strip(&mut words, COUNT) => (Quantity::Count, String::new()),
        _ => return None,
    };
    Some(Known { quantity, unit, part: words.join(" ") })
}

/// Which time of a response it is. A name that is only a part is its mean: `first` beside `first low`.
fn time(words: &mut Vec<String>) -> Option<Quantity> {
    strip(words, TIME);
    if let Some(percentile) = percentile(words) {
        strip(words, TIME);
        return Some(percentile);
    }
    let kinds = [
        (MEAN, Quantity::Mean),
        (MIN, Quantity::Min),
        (MAX, Quantity::Max),
        (DEVIATION, Quantity::Deviation),
    ];
    let found = kinds.into_iter().find(|(known, _)| strip(words, known)).map(|(_, quantity)| quantity);
    strip(words, TIME);
    Some(found.unwrap_or(Quantity::Mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_say_what_they_are() {
        for (name, expected) in [
            ("IOPS", "rate [/s] of ``"),
            ("read_iops", "rate [/s] of `read`"),
            ("IOs/sec", "rate [/sec] of ``"),
            ("Requests/s", "rate [/s] of ``"),
            ("ops_per_s", "rate [/s] of ``"),
            ("objects_per_s", "rate [/s] of ``"),
            ("mb_per_s", "throughput [MB/s] of ``"),
            ("MB/s", "throughput [MB/s] of ``"),
            ("Bandwidth (MiB/s)", "throughput [MiB/s] of ``"),
            ("Mbps", "throughput [mbit/s] of ``"),
            ("Throughput (Mb/s)", "throughput [Mbit/s] of ``"),
            ("write_mb_per_s", "throughput [MB/s] of `write`"),
            ("Avg. Latency (ms)", "mean time [ms] of ``"),
            ("avg_latency_ms", "mean time [ms] of ``"),
            ("max_latency_ms", "longest time [ms] of ``"),
            ("p99_ms", "p99 [ms] of ``"),
            ("p99.9 latency (us)", "p99.9 [us] of ``"),
            ("99th percentile (ms)", "p99 [ms] of ``"),
            ("Median (ms)", "p50 [ms] of ``"),
            ("first_low_s", "shortest time [s] of `first`"),
            ("first_s", "mean time [s] of `first`"),
            ("first_deviation_s", "deviation [s] of `first`"),
            ("block_kib", "block size [KiB] of ``"),
            ("Block Size (KB)", "block size [kB] of ``"),
            ("outstanding", "in flight [] of ``"),
            ("Queue Depth", "in flight [] of ``"),
            ("duration_s", "elapsed time [s] of ``"),
            ("Elapsed (min)", "elapsed time [min] of ``"),
            ("requests", "count [] of ``"),
            ("errors", "failed operations [] of ``"),
            ("data_size_gb", "data [GB] of ``"),
            ("Duration", "elapsed time [] of ``"),
            ("Block size", "block size [] of ``"),
            ("Avg latency", "mean time [] of ``"),
            ("p99", "p99 [] of ``"),
            ("Throughput", "throughput [] of ``"),
        ] {
            let found = known(name, None).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(
                format!("{} [{}] of `{}`", found.quantity, found.unit, found.part),
                expected,
                "{name}"
            );
        }
        for name in ["case", "note", "", "%", "cpu_percent", "disk", "a"] {
            assert_eq!(known(name, None), None, "{name}");
        }
    }
}
