//! The options of a job, as settings of the disk workload.

use std::collections::BTreeMap;

use model::Level;
use serde_json::Value;

/// The size of a block, if no option states it.
const BLOCK_BYTES_DEFAULT: u64 = 4096;

/// Engines that have at most one operation in flight.
const SYNCHRONOUS: &[&str] =
    &["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice", "falloc", "ftruncate", "e4defrag"];

/// Engines that load no disk.
const NO_DISK: &[&str] = &["cpuio", "net", "netsplice", "null", "rdma", "exec"];

/// Options that are settings, or that are no property of the load.
const USED: &[&str] = &[
    "name",
    "bs",
    "blocksize",
    "rw",
    "readwrite",
    "rwmixread",
    "rwmixwrite",
    "iodepth",
    "numjobs",
    "size",
    "direct",
    "buffered",
    "filename",
    "offset",
    "fdatasync",
    "stonewall",
    "wait_for_previous",
    "output",
    "output-format",
    "status-interval",
];

/// The options of a job, with those of all jobs below.
#[derive(Clone, Debug, Default)]
pub(super) struct JobOptions {
    options: BTreeMap<String, String>,
}

impl JobOptions {
    /// The options of objects such as `global options`; a later one overrides an earlier one.
    pub(super) fn of(objects: &[Option<&Value>]) -> JobOptions {
        let mut options = BTreeMap::new();
        for object in objects.iter().filter_map(|object| object.and_then(Value::as_object)) {
            for (name, value) in object {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
                options.insert(name.clone(), value.trim().to_string());
            }
        }
        JobOptions { options }
    }

    /// Whether the file has options: fio 2.3 and later write them.
    pub(super) fn is_known(&self) -> bool {
        !self.options.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    fn is_on(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            "1" | "true" | "yes" | "" => Some(true),
            "0" | "false" | "no" => Some(false),
            _ => None,
        }
    }

    fn bytes(&self, text: &str) -> Option<u64> {
        bytes_of(text, if self.get("kb_base") == Some("1000") { 1000 } else { 1024 })
    }

    /// Copies of the job that run at the same time.
    pub(super) fn numjobs(&self) -> u64 {
        self.count("numjobs").unwrap_or(1).max(1)
    }

    /// Operations that one copy keeps in flight.
    pub(super) fn outstanding(&self) -> u64 {
        match self.get("ioengine") {
            Some(engine) if SYNCHRONOUS.contains(&engine) => 1,
            _ => self.count("iodepth").unwrap_or(1).max(1),
        }
    }

    /// Milliseconds that are not measured at the begin.
    pub(super) fn ramp_ms(&self) -> Option<i64> {
        milliseconds_of(self.get("ramp_time")?)
    }

    /// What the names of the logs begin with.
    pub(super) fn log_prefixes(&self) -> impl Iterator<Item = String> {
        let options = ["write_bw_log", "write_iops_log", "write_lat_log"];
        options.into_iter().filter_map(|option| {
            let prefix = self.get(option)?;
            // Without a value it is the name of the job.
            let prefix = if prefix.is_empty() { self.get("name")? } else { prefix };
            Some(prefix.rsplit(['/', '\\']).next().unwrap_or(prefix).to_string())
        })
    }

    /// The engine, if it loads no disk.
    pub(super) fn other_engine(&self) -> Option<&str> {
        self.get("ioengine").filter(|engine| NO_DISK.contains(engine))
    }

    /// Settings of the disk workload by name, without those of the load.
    pub(super) fn settings(&self) -> BTreeMap<&'static str, Level> {
        let mut settings = BTreeMap::new();
        if !self.is_known() {
            return settings;
        }
        let mut set = |name, level: Option<Level>| {
            if let Some(level) = level {
                settings.insert(name, level);
            }
        };
        let (reads, writes) = self.block_sizes();
        set("block_size", reads.map(Level::Bytes));
        set("write_block_size", writes.filter(|_| writes != reads).map(Level::Bytes));
        let pattern = self.get("rw").or_else(|| self.get("readwrite")).unwrap_or("read");
        let pattern = pattern.split(':').next().unwrap_or_default();
        let (access, kind) = match pattern.strip_prefix("rand") {
            Some(kind) => ("random", kind),
            None => ("sequential", pattern),
        };
        let mixed = || match (self.count("rwmixread"), self.count("rwmixwrite")) {
            (Some(read), _) => read,
            (None, Some(write)) => 100_u64.saturating_sub(write),
            (None, None) => 50,
        };
        let read_percent = match kind {
            "read" => Some(100),
            "write" => Some(0),
            "rw" | "readwrite" => Some(mixed()),
            _ => None,
        };
        if read_percent.is_some() || kind.starts_with("trim") {
            set("access", Some(Level::Text(access.into())));
        }
        set("read_percent", read_percent.map(|percent| Level::Percent(percent as f64)));
        set("trim_percent", (kind == "trim").then_some(Level::Percent(100.0)));
        set("size", self.get("size").and_then(|size| self.bytes(size)).map(Level::Bytes));
        set("offset", self.get("offset").and_then(|offset| self.bytes(offset)).map(Level::Bytes));
        let is_direct = self.is_on("direct").or_else(|| self.is_on("buffered").map(|is| !is));
        let is_direct = is_direct.unwrap_or(false);
        set("cache", Some(Level::Text(if is_direct { "direct" } else { "page-cache" }.into())));
        set("files", self.get("filename").map(|names| Level::List(files_of(names))));
        set("fsync_every", self.count("fdatasync").filter(|every| *every > 0).map(Level::Count));
        let is_through = matches!(self.get("sync"), Some("1" | "sync" | "dsync"));
        set("write_through", is_through.then_some(Level::Flag(true)));
        let is_metadata = matches!(self.get("sync"), Some("1" | "sync"));
        set("write_through_metadata", is_metadata.then_some(Level::Flag(true)));
        settings
    }

    /// The block sizes of reads and writes, if they are constant.
    fn block_sizes(&self) -> (Option<u64>, Option<u64>) {
        if self.get("bsrange").or_else(|| self.get("bssplit")).is_some() {
            return (None, None);
        }
        let Some(text) = self.get("bs").or_else(|| self.get("blocksize")) else {
            return (Some(BLOCK_BYTES_DEFAULT), Some(BLOCK_BYTES_DEFAULT));
        };
        let mut parts = text.split(',');
        let part = |text: &str| match text.trim() {
            "" => Some(BLOCK_BYTES_DEFAULT),
            text => self.bytes(text),
        };
        let reads = parts.next().and_then(part);
        (reads, parts.next().map_or(reads, part))
    }

    /// The other options.
    pub(super) fn others(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(name, _)| !USED.contains(name))
    }
}

/// Bytes such as `4k`. With a base of 1024, fio's default, `k` and `kb` are 1024 and `kib` is 1000.
fn bytes_of(text: &str, base: u64) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let end = text.find(|of: char| !of.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let number: u64 = digits.parse().ok()?;
    let power = match suffix.trim().trim_end_matches('b') {
        "" => return Some(number),
        "k" | "ki" => 1,
        "m" | "mi" => 2,
        "g" | "gi" => 3,
        "t" | "ti" => 4,
        "p" | "pi" => 5,
        _ => return None,
    };
    let is_other = suffix.trim().ends_with("ib");
    let unit = match (is_other, base) {
        (false, base) => base,
        (true, 1000) => 1024_u64,
        (true, _) => 1000,
    };
    number.checked_mul(unit.checked_pow(power)?)
}

/// Milliseconds of a time such as `30`, `30s`, `500ms` or `2m`.
fn milliseconds_of(text: &str) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|of: char| !of.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: i64 = digits.parse().ok()?;
    match unit.trim() {
        "us" | "usec" => Some(number / 1000),
        "ms" | "msec" => Some(number),
        "" | "s" | "sec" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "d" => number.checked_mul(86_400_000),
        _ => None,
    }
}

/// Names that are separated by colons; a colon within a name has a backslash before it.
fn files_of(names: &str) -> Vec<Level> {
    let mut files = vec![String::new()];
    let mut characters = names.chars().peekable();
    while let Some(character) = characters.next() {
        let last = files.len() - 1;
        match character {
            '\\' if characters.peek() == Some(&':') => {
                files[last].push(':');
                characters.next();
            }
            ':' => files.push(String::new()),
            _ => files[last].push(character),
        }
    }
    files.into_iter().filter(|file| !file.is_empty()).map(Level::Text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_the_units_of_fio() {
        for (text, base, expected) in [
            ("4096", 1024, Some(4096)),
            ("4k", 1024, Some(4096)),
            ("4KB", 1024, Some(4096)),
            ("4kib", 1024, Some(4000)),
            ("4k", 1000, Some(4000)),
            ("4KiB", 1000, Some(4096)),
            ("1m", 1024, Some(1 << 20)),
            ("2G", 1024, Some(2 << 30)),
            ("1t", 1024, Some(1 << 40)),
            ("0x1000", 1024, Some(4096)),
            ("512b", 1024, Some(512)),
            ("50%", 1024, None),
            ("99999999999p", 1024, None),
            ("k", 1024, None),
            ("", 1024, None),
        ] {
            assert_eq!(bytes_of(text, base), expected, "{text} {base}");
        }
        for (text, expected) in [
            ("5", Some(5_000)),
            ("5s", Some(5_000)),
            ("50ms", Some(50)),
            ("2m", Some(120_000)),
            ("7us", Some(0)),
            ("1d", Some(86_400_000)),
            ("x", None),
        ] {
            assert_eq!(milliseconds_of(text), expected, "{text}");
        }
    }

    #[test]
    fn options_are_settings() {
        let text = |word: &str| Level::Text(word.into());
        let percent = Level::Percent;
        for (options, expected) in [
            (vec![("rw", "randread")], vec![("access", text("random")), ("read_percent", percent(100.0))]),
            (
                vec![("readwrite", "write")],
                vec![("access", text("sequential")), ("read_percent", percent(0.0))],
            ),
            (vec![("rw", "randrw:2")], vec![("access", text("random")), ("read_percent", percent(50.0))]),
            (vec![("rw", "rw"), ("rwmixwrite", "30")], vec![("read_percent", percent(70.0))]),
            (vec![("rw", "randtrim")], vec![("access", text("random")), ("trim_percent", percent(100.0))]),
            (
                vec![("bs", "8k,64k")],
                vec![("block_size", Level::Bytes(8192)), ("write_block_size", Level::Bytes(65536))],
            ),
            (
                vec![("size", "1g"), ("direct", "1")],
                vec![("size", Level::Bytes(1 << 30)), ("cache", text("direct"))],
            ),
            (vec![("buffered", "0")], vec![("cache", text("direct")), ("block_size", Level::Bytes(4096))]),
            (
                vec![("sync", "dsync")],
                vec![("cache", text("page-cache")), ("write_through", Level::Flag(true))],
            ),
            (
                vec![("filename", "C\\:\\a:/dev/sdb")],
                vec![("files", Level::List(vec![text("C:\\a"), text("/dev/sdb")]))],
            ),
        ] {
            let object =
                options.iter().map(|(name, value)| (name.to_string(), Value::from(*value))).collect();
            let found = JobOptions::of(&[Some(&Value::Object(object))]).settings();
            for (name, level) in expected {
                assert_eq!(found.get(name), Some(&level), "{options:?} {name}");
            }
        }
        let object = serde_json::json!({ "bssplit": "4k/50:8k/50" });
        assert_eq!(JobOptions::of(&[Some(&object)]).settings().get("block_size"), None);
        assert!(JobOptions::of(&[None]).settings().is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,20}") {
            bytes_of(&text, 1024);
            milliseconds_of(&text);
            files_of(&text);
        }
    }
}
