//! fio job files become a disk load, as far as their jobs can be one load.
//!
//! Options that only concern how fio does its work are accepted and named in a note where that helps; options that would
//! make the load another one are a problem with the line and what to write instead.

mod options;
mod value;

use std::collections::BTreeMap;

use model::problem::{Problem, Problems};
use model::{Choice, Level, Load, Process, SECOND, Settings, load};

use super::settings::{self, Access, Cache, SETTINGS};
use options::{Effect, Engine, VERIFY_METHODS, effect, engine, engine_names, known_names};

/// A job file, read.
#[derive(Clone, Debug, PartialEq)]
pub struct FioJobs {
    /// Name of the first job.
    pub name: String,
    /// Settings of the disk workload.
    pub workload: Settings,
    /// Settings of the load.
    pub load: Settings,
    /// What differs from fio, in sentences.
    pub notes: Vec<String>,
}

/// An option as written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    value: String,
    line: u32,
}

type Options = BTreeMap<&'static str, Written>;

#[derive(Clone, Debug)]
struct Job {
    name: String,
    line: u32,
    options: Options,
}

/// Collects problems with their place.
struct Reader<'a> {
    text: &'a str,
    file_name: &'a str,
    problems: Problems,
    notes: Vec<String>,
    without_effect: Vec<String>,
}

impl Reader<'_> {
    fn problem(&mut self, line: u32, what: impl Into<String>, help: impl Into<String>) {
        self.problems.push(Problem::at_line(self.file_name, self.text, line, what, help));
    }

    fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

/// Reads the text of a job file; `file_name` is for messages. All problems at once.
pub fn parse(text: &str, file_name: &str) -> Result<FioJobs, Problems> {
    let mut reader =
        Reader { text, file_name, problems: Problems::new(), notes: Vec::new(), without_effect: Vec::new() };
    let jobs = reader.sections();
    let Some(first) = jobs.first() else {
        if reader.problems.is_empty() {
            reader.problem(0, "the job file has no job", "a job is a [name] and its options below it");
        }
        return Err(reader.problems);
    };
    for other in &jobs[1..] {
        let differing = first_difference(&first.options, &other.options);
        if let Some(option) = differing {
            reader.problem(
                other.line,
                format!(
                    "job [{}] differs from [{}] in `{option}`: they are two loads",
                    other.name, first.name
                ),
                "give each its own file and run one after the other",
            );
        }
        if other.options.contains_key("stonewall") {
            reader.problem(
                other.line,
                format!("job [{}] waits for the one before (stonewall)", other.name),
                "give each its own file and run one after the other",
            );
        }
    }
    let (workload, load) = reader.translate(&jobs);
    let name = first.name.clone();
    let mut notes = reader.notes;
    if !reader.without_effect.is_empty() {
        notes.push(format!("no effect here: {}", reader.without_effect.join(", ")));
    }
    reader.problems.or(FioJobs { name, workload, load, notes })
}

/// The first option two jobs differ in, apart from where and how many they are.
fn first_difference(a: &Options, b: &Options) -> Option<&'static str> {
    const FREE: [&str; 5] = ["filename", "directory", "numjobs", "name", "stonewall"];
    a.keys()
        .chain(b.keys())
        .copied()
        .filter(|name| !FREE.contains(name))
        .find(|name| a.get(name).map(|written| &written.value) != b.get(name).map(|written| &written.value))
}

impl Reader<'_> {
    /// Sections with the options that hold for them: those of [global] sections above, then their own.
    fn sections(&mut self) -> Vec<Job> {
        let mut global = Options::new();
        let mut jobs: Vec<Job> = Vec::new();
        let mut in_global = true;
        for (index, line) in self.text.lines().enumerate() {
            let number = index as u32 + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(section) = line.strip_prefix('[') {
                let Some(name) = section.strip_suffix(']') else {
                    self.problem(number, "the section's name does not end", "write [name]");
                    continue;
                };
                in_global = name == "global";
                if !in_global {
                    jobs.push(Job { name: name.into(), line: number, options: global.clone() });
                }
                continue;
            }
            if line.contains("${") {
                self.problem(number, "variables are not supported", "write the value itself");
                continue;
            }
            let (name, value) = match line.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => (line, "1"),
            };
            if name.starts_with("include ") || name == "include" {
                self.problem(number, "`include` is not supported", "copy the included file here");
                continue;
            }
            let canonical = match effect(name) {
                Some((canonical, Effect::Used)) => canonical,
                Some((_, Effect::None)) => continue,
                Some((_, Effect::Without)) => {
                    if !self.without_effect.iter().any(|other| other == name) {
                        self.without_effect.push(name.into());
                    }
                    continue;
                }
                Some((_, Effect::Noted(note))) => {
                    self.note(format!("{name}: {note}"));
                    continue;
                }
                Some((_, Effect::Unsupported(help))) => {
                    self.problem(number, format!("`{name}` is not supported"), help);
                    continue;
                }
                None => {
                    let help = match model::problem::near_word(name, known_names()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "remove it".into(),
                    };
                    self.problem(number, format!("unknown fio option `{name}`"), help);
                    continue;
                }
            };
            let written = Written { value: value.to_string(), line: number };
            match jobs.last_mut().filter(|_| !in_global) {
                Some(job) => drop(job.options.insert(canonical, written)),
                None => drop(global.insert(canonical, written)),
            }
        }
        jobs
    }

    /// The value of an option, read by `read`; a problem when it cannot be.
    fn value<T>(
        &mut self,
        options: &Options,
        name: &str,
        read: impl Fn(&str) -> Option<T>,
        expected: &str,
    ) -> Option<T> {
        let written = options.get(name)?;
        let value = read(&written.value);
        if value.is_none() {
            self.problem(written.line, format!("`{}` is no value of {name}", written.value), expected);
        }
        value
    }

    fn flag(&mut self, options: &Options, name: &str) -> bool {
        self.value(options, name, value::flag, "write 0 or 1").unwrap_or(false)
    }

    fn count(&mut self, options: &Options, name: &str, max: u64) -> Option<u64> {
        let read = |text: &str| value::number(text).filter(|count| (1..=max).contains(count));
        self.value(options, name, read, &format!("write a whole number from 1 to {max}"))
    }

    fn bytes(&mut self, options: &Options, name: &str) -> Option<u64> {
        self.value(
            options,
            name,
            value::bytes,
            "write bytes, such as 64k or 1g; a percentage is not supported",
        )
    }

    fn translate(&mut self, jobs: &[Job]) -> (Settings, Settings) {
        let mut disk = Settings::defaults(SETTINGS);
        let Some(options) = jobs.first().map(|job| &job.options) else { return (disk, Settings::default()) };

        let sequential = self.access(options, &mut disk);
        self.blocks(options, sequential, &mut disk);
        self.files(jobs, &mut disk);
        let threads: u64 = jobs.iter().map(|job| self.count(&job.options, "numjobs", 256).unwrap_or(1)).sum();
        if threads > 256 {
            self.problem(jobs[0].line, format!("{threads} jobs in all are too many"), "at most 256");
        }
        disk.set(settings::THREADS.name, Level::Count(threads.clamp(1, 256)));
        let mut outstanding = self.count(options, "iodepth", 1024).unwrap_or(1);
        if self.engine(options) == Engine::Synchronous && outstanding > 1 {
            self.note("iodepth: has no effect with an engine that issues one operation at a time, as in fio; 1 is used");
            outstanding = 1;
        }
        disk.set(settings::OUTSTANDING.name, Level::Count(outstanding));

        // fio goes through the page cache unless told otherwise.
        let direct = self.flag(options, "direct")
            || (options.contains_key("buffered") && !self.flag(options, "buffered"));
        if let (true, Some(buffered)) = (self.flag(options, "direct"), options.get("buffered"))
            && self.flag(options, "buffered")
        {
            self.problem(buffered.line, "`direct` and `buffered` contradict each other", "keep one of them");
        }
        disk.set(settings::CACHE.name, if direct { Cache::Direct } else { Cache::PageCache }.level());
        let sync = self.value(options, "sync", value::sync, "write none, sync or dsync").unwrap_or(false);
        disk.set(settings::WRITE_THROUGH.name, Level::Flag(sync));
        for name in ["fsync", "fdatasync"] {
            if let Some(writes) = self.value(options, name, value::number, "write a number of writes")
                && writes > 0
            {
                disk.set(settings::FSYNC_EVERY.name, Level::Count(writes.min(1_000_000_000)));
            }
        }
        if options.contains_key("fsync") {
            self.note("fsync: files are flushed with fdatasync");
        }
        self.spread(options, sequential, &mut disk);
        self.content(options, &mut disk);
        disk.set(settings::KEEP.name, Level::Flag(!self.flag(options, "unlink")));
        let load = self.load(options, threads, outstanding);
        (disk, load)
    }

    /// How the engine issues operations. Another one is used here, which is told where it could surprise.
    fn engine(&mut self, options: &Options) -> Engine {
        let Some(written) = options.get("ioengine") else { return Engine::Synchronous };
        let name = written.value.as_str();
        let found = engine(name);
        match found {
            Some(Engine::Other) => {
                let help = "write io_uring or psync, or remove it";
                self.problem(written.line, format!("ioengine={name} is not supported"), help);
            }
            None => {
                let help = model::problem::near_word(name, engine_names())
                    .map_or("write io_uring or psync".into(), |near| format!("did you mean `{near}`?"));
                self.problem(written.line, format!("fio has no ioengine `{name}`"), help);
            }
            Some(Engine::Synchronous) if matches!(name, "mmap" | "splice") => {
                self.note(format!(
                    "ioengine: {name} is not used: blocks are read and written with system calls"
                ));
            }
            Some(Engine::Asynchronous) if !matches!(name, "io_uring" | "libaio") => self.note(format!(
                "ioengine: in place of {name}, io_uring is used, or system calls where the kernel refuses it"
            )),
            Some(_) => {}
        }
        found.unwrap_or(Engine::Asynchronous)
    }

    /// Tells of an option that has no effect because of another.
    fn without_effect(&mut self, options: &Options, name: &str, why: &str) {
        if options.contains_key(name) {
            self.note(format!("{name}: has no effect {why}"));
        }
    }

    /// `rw`, its mix and its stride; true when sequential.
    fn access(&mut self, options: &Options, disk: &mut Settings) -> bool {
        let written = options.get("rw");
        let text = written.map_or("read", |written| written.value.as_str());
        let line = written.map_or(0, |written| written.line);
        let (word, modifier) = text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest)));
        let (random, share) = match word {
            "read" => (false, 100.0),
            "write" => (false, 0.0),
            "rw" | "readwrite" => (false, 50.0),
            "randread" => (true, 100.0),
            "randwrite" => (true, 0.0),
            "randrw" => (true, 50.0),
            _ => {
                let help = "one of read, write, rw, randread, randwrite, randrw";
                self.problem(line, format!("rw={text} is not supported"), help);
                (false, 100.0)
            }
        };
        let percent =
            |text: &str| text.trim_end_matches('%').parse().ok().filter(|p| (0.0..=100.0).contains(p));
        let read = self.value(options, "rwmixread", percent, "write a percentage");
        let write = self.value(options, "rwmixwrite", percent, "write a percentage");
        let mixed = share == 50.0;
        if !mixed {
            self.without_effect(options, "rwmixread", "where nothing is mixed");
            self.without_effect(options, "rwmixwrite", "where nothing is mixed");
        } else if read.is_some() {
            self.without_effect(options, "rwmixwrite", "beside rwmixread");
        }
        let share =
            if mixed { read.or(write.map(|write: f64| 100.0 - write)).unwrap_or(share) } else { share };
        disk.set(settings::READ_PERCENT.name, Level::Percent(share));
        disk.set(settings::ACCESS.name, if random { Access::Random } else { Access::Sequential }.level());
        match modifier {
            None => {}
            Some(gap) if !random => match value::bytes(gap) {
                Some(gap) => {
                    let block = options.get("bs").and_then(|bs| value::bytes(&bs.value)).unwrap_or(4096);
                    disk.set(settings::STRIDE.name, Level::Bytes(block.saturating_add(gap)));
                }
                None => self.problem(line, format!("`{gap}` is no distance"), "such as rw=read:64k"),
            },
            Some(_) => {
                self.problem(
                    line,
                    "several operations per random offset are not supported",
                    "remove the part after `:`",
                );
            }
        }
        !random
    }

    fn blocks(&mut self, options: &Options, sequential: bool, disk: &mut Settings) {
        const ONE: &str = "one size for reads and writes, such as 4k; for a mix write bssplit";
        if let Some(size) = self.value(options, "bs", value::one_size, ONE) {
            disk.set(settings::BLOCK_SIZE.name, Level::Bytes(size));
        }
        if let Some(mix) = self.value(
            options,
            "bssplit",
            value::block_mix,
            "such as 4k/70:64k/30, the same for reads and writes",
        ) {
            disk.set(settings::BLOCK_SIZE.name, Level::Text(mix));
            self.without_effect(options, "bs", "beside bssplit");
        }
        if sequential {
            self.without_effect(options, "blockalign", "where access is sequential");
        } else if let Some(align) = self.value(options, "blockalign", value::one_size, ONE) {
            disk.set(settings::ALIGN.name, Level::Bytes(align));
        }
    }

    fn files(&mut self, jobs: &[Job], disk: &mut Settings) {
        let mut files: Vec<String> = Vec::new();
        for job in jobs {
            let folder = job.options.get("directory").map(|written| written.value.trim_end_matches('/'));
            let names = match job.options.get("filename") {
                Some(written) => value::file_names(&written.value),
                None => {
                    let copies = self.count(&job.options, "numjobs", 256).unwrap_or(1);
                    let each = self.count(&job.options, "nrfiles", 1024).unwrap_or(1);
                    (0..copies)
                        .flat_map(|copy| (0..each).map(move |file| (copy, file)))
                        .map(|(copy, file)| format!("{}.{copy}.{file}", job.name))
                        .collect()
                }
            };
            for name in names {
                let path = folder.map_or_else(|| name.clone(), |folder| format!("{folder}/{name}"));
                if !files.contains(&path) {
                    files.push(path);
                }
            }
        }
        if files.len() > 1 && jobs.len() > 1 {
            self.note("all threads work on all files evenly, where fio gives each job its own");
        }
        let options = &jobs[0].options;
        if options.contains_key("filename") {
            self.without_effect(options, "nrfiles", "beside filename: the files named there are used");
        }
        if options.contains_key("filesize") {
            self.without_effect(options, "size", "beside filesize, but on when fio would end");
        }
        if let Some(size) = self.bytes(options, "size") {
            // fio counts the size of a job over all its files.
            let own = match options.get("filename") {
                Some(written) => value::file_names(&written.value).len() as u64,
                None => self.count(options, "nrfiles", 1024).unwrap_or(1),
            };
            disk.set(settings::SIZE.name, Level::Bytes(size / own.max(1)));
        }
        if let Some(size) = self.bytes(options, "filesize") {
            disk.set(settings::SIZE.name, Level::Bytes(size));
        }
        if let Some(offset) = self.bytes(options, "offset") {
            disk.set(settings::OFFSET.name, Level::Bytes(offset));
        }
        disk.set(settings::FILES.name, Level::List(files.into_iter().map(Level::Text).collect()));
    }

    fn spread(&mut self, options: &Options, sequential: bool, disk: &mut Settings) {
        if sequential {
            self.without_effect(options, "random_distribution", "where access is sequential");
            self.without_effect(options, "norandommap", "where access is sequential");
            return;
        }
        if let Some(text) = self.value(
            options,
            "random_distribution",
            value::distribution,
            "random or zipf:EXPONENT; for zones write \"hot 90% in 10%\" in an experiment file",
        ) {
            disk.set(settings::DISTRIBUTION.name, Level::Text(text));
        }
        if !options.contains_key("norandommap") {
            self.note("random offsets are drawn independently, as with norandommap");
        }
    }

    fn content(&mut self, options: &Options, disk: &mut Settings) {
        let percent =
            |text: &str| text.trim_end_matches('%').parse().ok().filter(|p| (0.0..=100.0).contains(p));
        if let Some(share) = self.value(options, "buffer_compress_percentage", percent, "write a percentage")
        {
            disk.set(settings::COMPRESSIBLE.name, Level::Percent(share));
        }
        if self.flag(options, "zero_buffers") {
            disk.set(settings::COMPRESSIBLE.name, Level::Percent(100.0));
        }
        if let Some(written) = options.get("verify") {
            match written.value.as_str() {
                "0" => {}
                "null" | "pattern" => {
                    self.problem(
                        written.line,
                        format!("verify={} is not supported", written.value),
                        "write verify=crc32c",
                    );
                }
                method if !VERIFY_METHODS.contains(&method) => self.problem(
                    written.line,
                    format!("fio has no verify={method}"),
                    model::problem::did_you_mean(method, VERIFY_METHODS),
                ),
                method => {
                    if method != "crc32c" && method != "crc32c-intel" {
                        self.note(format!("verify: crc32c is used in place of {method}"));
                    }
                    if disk.get(&settings::READ_PERCENT) == 0.0 {
                        self.note("verify: blocks are checked when they are read; run the same file with rw=read afterwards");
                    }
                    disk.set(settings::VERIFY.name, Level::Flag(true));
                }
            }
        }
    }

    fn load(&mut self, options: &Options, threads: u64, outstanding: u64) -> Settings {
        let seconds = |text: &str| value::duration(text, 1e9);
        let expected = "write a time, such as 30, 30s or 5m";
        let runtime = self.value(options, "runtime", seconds, expected).filter(|runtime| *runtime > 0);
        let warm_up = self.value(options, "ramp_time", seconds, expected).unwrap_or(0);
        if runtime.is_none() {
            self.note("without `runtime` fio stops when `size` is done; here 30s are measured");
            self.without_effect(options, "time_based", "without runtime");
        } else if !self.flag(options, "time_based") {
            self.note(
                "fio stops when `size` is done, if earlier than `runtime`; here all of `runtime` is measured",
            );
        }
        let measure = runtime.unwrap_or(30 * SECOND);
        let mut load = Load::settings(warm_up, measure);
        let rate = |text: &str| text.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
        let rate = self.value(options, "rate_iops", rate, "one number of operations per second");
        if let Some(rate) = rate {
            load.set(load::OPEN.name, Level::Rate(rate * threads as f64));
            self.note("rate_iops: an open load; response time counts from the intended start");
            let process = |text: &str| ["linear", "poisson"].into_iter().find(|word| *word == text);
            if self.value(options, "rate_process", process, "write linear or poisson") == Some("poisson") {
                load.set(load::ARRIVALS.name, Process::Poisson.level());
            }
        } else {
            self.without_effect(options, "rate_process", "without rate_iops");
        }
        let think = self.value(
            options,
            "thinktime",
            |text| value::duration(text, 1e3),
            "write microseconds, such as 500us",
        );
        if let Some(think) = think.filter(|think| *think > 0) {
            let line = options.get("thinktime").map_or(0, |written| written.line);
            if rate.is_some() {
                self.problem(line, "`thinktime` and `rate_iops` contradict each other", "keep one of them");
            } else if outstanding > 1 {
                self.problem(
                    line,
                    "`thinktime` with `iodepth` above 1 is not supported",
                    "write iodepth=1 and more numjobs",
                );
            } else {
                load.set(load::CLOSED.name, Level::Count(threads));
                load.set(load::THINK.name, Level::Time(think));
            }
        }
        load
    }
}

#[cfg(test)]
mod tests;
