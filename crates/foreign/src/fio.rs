//! What fio 2 and 3 print with `--output-format=json` or `json+`.
//!
//! Jobs of a group (`groupid`) run at the same time and become one run. Sizes are KiB and times microseconds in fio 2;
//! fio 2.21 writes bytes (and `io_kbytes`), fio 3 nanoseconds (`lat_ns`).

mod documents;
mod logs;
mod options;
mod others;
mod times;

use std::collections::{BTreeMap, BTreeSet};

use model::{Level, Shape};
use serde_json::Value;

use self::documents::{Document, Documents};
pub(crate) use self::logs::FORMAT as LOGS;
pub use self::logs::{FioLog, is_fio_log_name, join_fio_logs};
use self::options::JobOptions;
pub(crate) use self::others::FORMAT as OTHERS;
use self::times::{Times, TotalTimes};
use crate::load::Whole;
use crate::{Content, Fault, Format, LoadRun, Options, Source, number};

pub(crate) static FORMAT: Format = Format {
    name: "fio",
    about: "fio JSON and JSON+: operations, bytes, latencies, histograms and options of each group of jobs",
    recognize: |head| {
        head.contains("\"fio version\"") && head.lines().any(|line| line.trim_start().starts_with('{'))
    },
    open,
};

/// The most runs of a file.
const RUNS_MAX: usize = 10_000;

/// Documents of one run of fio begin at the same time; fio reports whole seconds.
const SAME_BEGIN_MS: u64 = 2_000;

/// The names of the operations that transfer data, or would.
const OPERATIONS: [&str; 3] = ["read", "write", "trim"];

/// A number that is not negative.
fn number_of(value: &Value) -> Option<f64> {
    value.as_f64().filter(|value| value.is_finite() && *value >= 0.0)
}

/// A count; the largest for one that is too large, which no run can have.
fn count_of(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| number_of(value).map(|value| number::count(value).unwrap_or(u64::MAX)))
}

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let mut documents = Documents::new(from);
    let (mut runs, mut faults): (Vec<LoadRun>, Vec<Fault>) = (Vec::new(), Vec::new());
    // The last document, and where its runs begin.
    let mut last: Option<(Identity, usize, u64)> = None;
    loop {
        let document = match documents.next() {
            Ok(Some(document)) => document,
            Ok(None) => break,
            Err(fault) => {
                faults.push(fault);
                if faults.len() > RUNS_MAX {
                    break;
                }
                continue;
            }
        };
        let identity = Identity::of(&document.root);
        let mut found = match runs_of(&document) {
            Ok(found) => found,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        last = match last {
            Some((before, begin, count)) if before.is_continued_by(&identity) => {
                runs.truncate(begin);
                for run in &mut found {
                    run.notes
                        .push(format!("the last of {} reports of the same run of fio is used", count + 1));
                }
                Some((identity, begin, count + 1))
            }
            _ => Some((identity, runs.len(), 1)),
        };
        runs.append(&mut found);
        if runs.len() > RUNS_MAX {
            return Err(Fault::at(document.line, "the file has more than 10,000 runs", "split it"));
        }
    }
    match (runs.first_mut(), faults.is_empty()) {
        (None, true) => Err(Fault::at(0, "no document of fio has results", "write the result again")),
        (None, false) => Err(faults.swap_remove(0)),
        (Some(first), _) => {
            first.notes.extend(faults.iter().map(|fault| format!("left out: {fault}")));
            Content::load(runs)
        }
    }
}

/// By what the reports of one run of fio are recognized.
struct Identity {
    jobs: Vec<(String, u64)>,
    /// When fio began, milliseconds since 1970.
    began_ms: Option<u64>,
    completed: u64,
}

impl Identity {
    fn of(root: &Value) -> Identity {
        let (mut jobs, mut completed, mut elapsed_s) = (Vec::new(), 0_u64, None);
        for job in jobs_of(root) {
            jobs.push((text_of(job, "jobname"), job.get("groupid").and_then(count_of).unwrap_or(0)));
            let counts = OPERATIONS.iter().filter_map(|name| count_of(job.get(name)?.get("total_ios")?));
            completed = counts.fold(completed, u64::saturating_add);
            elapsed_s = elapsed_s.max(job.get("elapsed").and_then(count_of));
        }
        let elapsed_ms = elapsed_s.and_then(|seconds| seconds.checked_mul(1000));
        let began_ms = ended_ms(root).zip(elapsed_ms).and_then(|(end, elapsed)| end.checked_sub(elapsed));
        Identity { jobs, began_ms, completed }
    }

    fn is_continued_by(&self, next: &Identity) -> bool {
        let is_same_begin = match (self.began_ms, next.began_ms) {
            (Some(one), Some(other)) => one.abs_diff(other) <= SAME_BEGIN_MS,
            (None, None) => true,
            _ => false,
        };
        is_same_begin && self.jobs == next.jobs && next.completed >= self.completed
    }
}

/// When the document was written, milliseconds since 1970.
fn ended_ms(root: &Value) -> Option<u64> {
    let ms = root.get("timestamp_ms").and_then(count_of);
    ms.or_else(|| root.get("timestamp").and_then(count_of)?.checked_mul(1000)).filter(|ms| *ms > 0)
}

/// The jobs of a document, or those of all clients of a server.
fn jobs_of(root: &Value) -> impl Iterator<Item = &Value> {
    let list = |name: &str| root.get(name).and_then(Value::as_array).into_iter().flatten();
    list("jobs").chain(list("client_stats").filter(|job| text_of(job, "jobname") != "All clients"))
}

fn text_of(of: &Value, name: &str) -> String {
    of.get(name).and_then(Value::as_str).unwrap_or_default().to_string()
}

/// The options of all jobs: one object, or one for each client.
fn global_of<'a>(root: &'a Value, job: &Value) -> Option<&'a Value> {
    let global = root.get("global options")?;
    let Some(clients) = global.as_array() else { return Some(global) };
    let host = |of: &Value| (text_of(of, "hostname"), of.get("port").and_then(count_of));
    clients.iter().find(|client| host(client) == host(job))
}

/// The runs of a document: one for each group of jobs.
fn runs_of(document: &Document) -> Result<Vec<LoadRun>, Fault> {
    let root = &document.root;
    let version = text_of(root, "fio version");
    if version.is_empty() {
        return Err(Fault::at(document.line, "the document that begins here has no version of fio", ""));
    }
    let mut groups: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for job in jobs_of(root) {
        groups.entry(job.get("groupid").and_then(count_of).unwrap_or(0)).or_default().push(job);
    }
    let (mut runs, mut left_out) = (Vec::new(), Vec::new());
    // The logs of all jobs and copies are numbered.
    let mut thread = 1;
    for jobs in groups.values() {
        let mut group = Group { first_thread: thread, ..Group::default() };
        for job in jobs {
            group.add(root, job, jobs);
        }
        thread = group
            .first_thread
            .saturating_add(u32::try_from(group.copies.max(group.jobs)).unwrap_or(u32::MAX));
        match group.finish(root, &version, document.line) {
            Ok(run) => runs.push(run),
            Err(notes) => left_out.extend(notes),
        }
    }
    // Groups run one after another, so that the begin of each follows from the end of the last.
    let mut end_ms = ended_ms(root).and_then(|ms| i64::try_from(ms).ok());
    for run in runs.iter_mut().rev() {
        let took_ms = number::nanoseconds(run.seconds).map(|ns| ns / 1_000_000);
        let begin_ms = end_ms.zip(took_ms).and_then(|(end, took)| end.checked_sub(took));
        let begin_ns = begin_ms.and_then(|begin| begin.checked_mul(1_000_000)).filter(|begin| *begin > 0);
        if let (None, Some(begin_ns)) = (run.began_unix_ns, begin_ns) {
            run.began_unix_ns = Some(begin_ns);
            run.notes.push("the begin is computed from the time of the report and the run times".into());
        }
        end_ms = begin_ms;
    }
    let count = groups.len();
    let Some(first) = runs.first_mut() else {
        let what =
            format!("no job of the document that begins here completed an operation{}", reasons(&left_out));
        return Err(Fault::at(document.line, what, "repair what fio reports, and run it again"));
    };
    first.notes.append(&mut left_out);
    for run in &mut runs {
        if document.is_cut {
            run.notes.push(format!(
                "the document of line {} is cut; jobs after that place are missing",
                document.line
            ));
        }
        if count > 1 && run.facts.keys().any(|name| name.starts_with("fio.disk.")) {
            run.notes.push("facts of disks (fio.disk) are of all groups together".into());
        }
    }
    Ok(runs)
}

fn reasons(notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { format!(": {}", notes.join("; ")) }
}

/// An operation of all jobs of a group.
#[derive(Default)]
struct Operation {
    completed: u64,
    bytes: u64,
    times: TotalTimes,
}

/// Jobs that run at the same time.
#[derive(Default)]
struct Group {
    names: Vec<String>,
    operations: BTreeMap<&'static str, Operation>,
    /// The shortest and the longest run time, milliseconds.
    shortest_ms: Option<f64>,
    longest_ms: f64,
    began_ms: Option<i64>,
    failed: u64,
    /// Rate and KiB per second of the first operation, as fio has them.
    stated: Option<(f64, Option<f64>)>,
    settings: BTreeMap<&'static str, Option<Level>>,
    others: BTreeMap<String, Option<String>>,
    has_options: bool,
    jobs: u64,
    copies: u64,
    in_flight: u64,
    outstanding: Vec<u64>,
    /// Sums of shares of CPU, weighted with run times, and the weights.
    cpu: [f64; 3],
    facts: BTreeMap<String, Level>,
    syncs: Operation,
    /// The number of its first copy of a job among all, and the prefixes of their logs.
    first_thread: u32,
    prefixes: BTreeSet<String>,
    period_ms: Option<u64>,
    logs_maximum: bool,
    ramp_ms: u64,
    notes: Vec<String>,
}

impl Group {
    fn add(&mut self, root: &Value, job: &Value, group: &[&Value]) {
        let name = text_of(job, "jobname");
        let longest_ms = self.add_operations(&name, job);
        self.add_options(root, job, group);
        if let Some(error) = job.get("error").and_then(Value::as_i64).filter(|error| *error != 0) {
            self.notes.push(format!("job {name} ended with error {error} (errno)"));
        }
        // Until fio 2.1 the number of the first error was written in its place.
        if job.get("first_error").is_some() {
            self.failed = self.failed.saturating_add(job.get("total_err").and_then(count_of).unwrap_or(0));
        }
        let number = |name: &str| job.get(name).and_then(number_of);
        if let (Some(user), Some(system)) = (number("usr_cpu"), number("sys_cpu")) {
            let weight = number("job_runtime").unwrap_or(longest_ms).max(1.0);
            let [users, systems, weights] = self.cpu;
            self.cpu = [users + user * weight, systems + system * weight, weights + weight];
        }
        if let Some(ss) = job.get("steadystate") {
            let attained = ss.get("attained").and_then(count_of).map(|attained| attained == 1);
            self.facts.extend(attained.map(|is| ("fio.steadystate_attained".to_string(), Level::Flag(is))));
        }
        if !self.names.contains(&name) {
            self.names.push(name);
        }
        self.jobs += 1;
    }

    /// Adds the operations of a job, and returns its longest run time in milliseconds.
    fn add_operations(&mut self, name: &str, job: &Value) -> f64 {
        let is_used = |name: &str| {
            job.get(name).is_some_and(|of| {
                let part = |name: &str| of.get(name).and_then(number_of).is_some_and(|value| value > 0.0);
                part("total_ios") || (of.get("total_ios").is_none() && part("iops"))
            })
        };
        let has_parts = OPERATIONS.into_iter().any(is_used);
        let mut longest_ms: f64 = 0.0;
        // Where `mixed` is beside the others, it is their sum.
        let names = OPERATIONS.into_iter().chain((!has_parts).then_some("mixed"));
        for operation in names.filter(|name| is_used(name)) {
            let Some(of) = job.get(operation) else { continue };
            let number = |name: &str| of.get(name).and_then(number_of);
            let count = |name: &str| of.get(name).and_then(count_of);
            // Some engines, and runs of less than a millisecond, have only the run time of the job.
            let of_job = || job.get("job_runtime").and_then(number_of);
            let runtime_ms = number("runtime").filter(|ms| *ms > 0.0).or_else(of_job).unwrap_or(0.0);
            let completed = count("total_ios").unwrap_or_else(|| {
                self.notes.push(format!("job {name}: {operation}: operations are computed from their rate"));
                number::count(number("iops").unwrap_or(0.0) * runtime_ms / 1e3).unwrap_or(u64::MAX)
            });
            let bytes = count("io_bytes").unwrap_or(0);
            let bytes = if of.get("io_kbytes").is_some() { bytes } else { bytes.saturating_mul(1024) };
            for (name, what) in [("short_ios", "short"), ("drop_ios", "dropped")] {
                if let Some(number) = count(name).filter(|number| *number > 0) {
                    self.notes.push(format!("{operation}: {number} operations were {what}"));
                }
            }
            if let (None, Some(rate)) = (self.stated, number("iops")) {
                self.stated = Some((rate, number("bw")));
            }
            let total = self.operations.entry(operation).or_default();
            total.completed = total.completed.saturating_add(completed);
            total.bytes = total.bytes.saturating_add(bytes);
            total.times.add(Times::of(of), completed);
            longest_ms = longest_ms.max(runtime_ms);
        }
        if longest_ms > 0.0 {
            self.shortest_ms = Some(self.shortest_ms.map_or(longest_ms, |shortest| shortest.min(longest_ms)));
            self.longest_ms = self.longest_ms.max(longest_ms);
        }
        if let Some(sync) = job.get("sync") {
            let completed = sync.get("total_ios").and_then(count_of).unwrap_or(0);
            if completed > 0 {
                self.syncs.completed = self.syncs.completed.saturating_add(completed);
                self.syncs.times.add(Times::of(sync), completed);
            }
        }
        longest_ms
    }

    fn add_options(&mut self, root: &Value, job: &Value, group: &[&Value]) {
        let options = JobOptions::of(&[global_of(root, job), job.get("job options")]);
        let began_ms = job.get("job_start").and_then(Value::as_i64).filter(|ms| *ms > 0);
        let began_ms = began_ms.map(|ms| ms.saturating_add(options.ramp_ms().unwrap_or(0)));
        self.began_ms = [self.began_ms, began_ms].into_iter().flatten().min();
        if !options.is_known() {
            return;
        }
        self.prefixes.extend(options.log_prefixes());
        self.period_ms = self.period_ms.max(options.get("log_avg_msec").and_then(|text| text.parse().ok()));
        self.logs_maximum |= options.get("log_max_value").is_some_and(|text| text != "0");
        self.ramp_ms = self.ramp_ms.max(options.ramp_ms().and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0));
        let is_same = |other: &&&Value| {
            ["jobname", "hostname", "port"].into_iter().all(|name| other.get(name) == job.get(name))
        };
        // One entry for a job with copies: fio has summed them.
        let copies = if group.iter().filter(is_same).count() > 1 { 1 } else { options.numjobs() };
        let mut outstanding = options.outstanding();
        let at_depth_1 = job.get("iodepth_level").and_then(|levels| levels.get("1")).and_then(number_of);
        if outstanding > 1 && at_depth_1.is_some_and(|percent| percent >= 100.0) {
            self.notes.push(format!("iodepth {outstanding} had no effect: one operation was in flight"));
            outstanding = 1;
        }
        self.copies = self.copies.saturating_add(copies);
        self.in_flight = self.in_flight.saturating_add(copies.saturating_mul(outstanding));
        self.outstanding.push(outstanding);
        if let Some(engine) = options.other_engine() {
            self.notes.push(format!("the I/O engine {engine} loads no disk"));
        }
        for name in ["rate", "rate_iops"] {
            if let Some(rate) = options.get(name) {
                self.notes.push(format!(
                    "{name} {rate} limits the load; latencies begin when an operation is issued"
                ));
            }
        }
        if copies > 1 || options.get("group_reporting").is_some() {
            self.notes.push("with group_reporting, options are those of the first job of the group".into());
        }
        let settings = options.settings();
        let others: BTreeMap<String, String> =
            options.others().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        if self.has_options {
            unite(&mut self.settings, settings);
            unite(&mut self.others, others);
        } else {
            self.settings = settings.into_iter().map(|(name, level)| (name, Some(level))).collect();
            self.others = others.into_iter().map(|(name, value)| (name, Some(value))).collect();
            self.has_options = true;
        }
    }

    /// The run; else why there is none.
    fn finish(mut self, root: &Value, version: &str, line: u64) -> Result<LoadRun, Vec<String>> {
        self.notes.dedup();
        if self.operations.is_empty() {
            if self.notes.is_empty() {
                self.notes.push(format!("job {} completed no operation", self.names.join(", ")));
            }
            return Err(self.notes);
        }
        let mut run = LoadRun {
            tool: "fio",
            version: version.trim_start_matches("fio-").trim_start_matches("fio ").to_string(),
            line,
            label: label_of(&self.names),
            workload: "disk",
            began_unix_ns: self.began_ms.and_then(|ms| ms.checked_mul(1_000_000)),
            seconds: self.longest_ms / 1e3,
            shape: self.has_options.then(|| Shape::closed(self.in_flight)),
            facts: self.facts,
            notes: self.notes,
            ..LoadRun::default()
        };
        if run.seconds <= 0.0 {
            run.seconds = 1e-3;
            run.notes.push("the run time is less than 1 ms; rates are at least as high".into());
        }
        if self.shortest_ms.is_some_and(|shortest| shortest < 0.95 * self.longest_ms) {
            let (shortest, longest) = (self.shortest_ms.unwrap_or(0.0) / 1e3, self.longest_ms / 1e3);
            run.notes.push(format!("jobs ran for {shortest} s to {longest} s; rates are over the longest"));
        }
        let threads = self.first_thread
            ..self
                .first_thread
                .saturating_add(u32::try_from(self.copies.max(self.jobs)).unwrap_or(u32::MAX).min(100_000));
        run.fio_logs =
            self.prefixes.iter().flat_map(|of| threads.clone().map(|at| (of.clone(), at))).collect();
        (run.fio_period_ms, run.fio_logs_maximum) = (self.period_ms, self.logs_maximum);
        run.fio_ramp_ms = self.ramp_ms;
        let only_one = self.operations.len() == 1;
        if let (true, 1, Some((rate, kib_per_s))) = (only_one, self.jobs, self.stated) {
            run.state("rate", format!("{rate:.2}/s"));
            run.state("elapsed", format!("{} ms", self.longest_ms));
            if let Some(kib) = kib_per_s {
                run.state("throughput", format!("{kib} KiB/s"));
            }
        }
        for (operation, total) in self.operations {
            let (times, bins) = total.times.finish(operation, &mut run.notes);
            let failed = if only_one { self.failed.min(total.completed) } else { 0 };
            let whole = Whole {
                completed: total.completed,
                failed,
                bytes: total.bytes,
                times,
                concurrency: f64::NAN,
            };
            run.add_whole(operation, whole);
            run.histograms.extend(bins.map(|bins| (operation.to_string(), bins)));
        }
        if self.failed > 0 {
            run.facts.insert("fio.total_err".into(), Level::Count(self.failed));
            if !only_one {
                run.notes.push(format!("{} operations failed; fio does not report which kind", self.failed));
            }
        }
        if self.syncs.completed > 0 {
            let (times, _) = self.syncs.times.finish("sync", &mut Vec::new());
            run.facts.insert("fio.sync.completed".into(), Level::Count(self.syncs.completed));
            for (name, ms) in [("mean", times.mean), ("p99", times.p99), ("max", times.max)] {
                if let Some(ns) = number::count(ms * 1e6) {
                    run.facts.insert(format!("fio.sync.{name}"), Level::Time(ns));
                }
            }
        }
        let [user, system, weight] = self.cpu;
        if weight > 0.0 {
            // fio writes six decimal places.
            let mean = |sum: f64| Level::Percent((1e6 * sum / weight).round() / 1e6);
            run.facts.insert("fio.usr_cpu".into(), mean(user));
            run.facts.insert("fio.sys_cpu".into(), mean(system));
        }
        add_disks(&mut run, root);
        let mut different: Vec<&str> = Vec::new();
        for (name, level) in self.settings {
            match level {
                Some(level) => run.set(name, level),
                None => different.push(name),
            }
        }
        if self.has_options {
            run.set("threads", Level::Count(self.copies));
            self.outstanding.dedup();
            match self.outstanding[..] {
                [outstanding] => run.set("outstanding", Level::Count(outstanding)),
                _ => different.push("outstanding"),
            }
        }
        if !different.is_empty() {
            run.notes.push(format!("the {} jobs differ in {}", self.jobs, different.join(", ")));
        }
        for (name, value) in self.others {
            let value = value.unwrap_or_else(|| "(differs)".to_string());
            run.facts.insert(format!("fio.option.{name}"), Level::Text(value));
        }
        Ok(run)
    }
}

/// Keeps what is the same; what differs is none.
fn unite<K: Ord, V: PartialEq>(all: &mut BTreeMap<K, Option<V>>, mut new: BTreeMap<K, V>) {
    for (name, value) in all.iter_mut() {
        let is_same = new.remove(name).is_some_and(|new| value.as_ref() == Some(&new));
        if !is_same {
            *value = None;
        }
    }
    all.extend(new.into_keys().map(|name| (name, None)));
}

fn label_of(names: &[String]) -> String {
    match names {
        [first, second, third, _, ..] => format!("{first}, {second}, {third} and {} more", names.len() - 3),
        _ => names.join(", "),
    }
}

/// The counters of disks, which are of the whole run of fio.
fn add_disks(run: &mut LoadRun, root: &Value) {
    for disk in root.get("disk_util").and_then(Value::as_array).into_iter().flatten() {
        let name = text_of(disk, "name");
        if let Some(util) = disk.get("util").and_then(number_of) {
            run.facts.insert(format!("fio.disk.{name}.util"), Level::Percent(util));
        }
        for part in ["read_ios", "write_ios", "read_merges", "write_merges"] {
            if let Some(count) = disk.get(part).and_then(count_of) {
                run.facts.insert(format!("fio.disk.{name}.{part}"), Level::Count(count));
            }
        }
    }
}

#[cfg(test)]
mod tests;
