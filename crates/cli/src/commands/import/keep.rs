//! What was imported, written as a run directory: a trial for each run of a load, with the counters of its time; or one trial
//! with counters alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use foreign::{Checked, CounterFamily, CounterLog, LoadRun, Sample};
use model::run::{Origin, SourceState, SourceStatus};
use model::{
    Change, ColumnId, Decision, DesignKind, Ending, Event, EventKind, Experiment, Host, Interval, Level,
    Load, MetricInfo, Phase, PhaseSpan, Plan, Readings, ResultDocument, Run, SettingPath, Shape, Study,
    Treatment, Trial, Variation, WarmUp,
};
use record::{OperationIntervals, PLAN_FORMAT, RunDirectory, TrialWriter};

use super::NamedLog;
use super::columns::{Target, targets};
use super::exporters::Exporters;
use super::hosts::Hosts;
use crate::carry_out::{self, Failure};

/// A trial that is being written.
struct Kept {
    writer: TrialWriter,
    run: Run,
    /// Its time, nanoseconds since 1970; none if the file does not say.
    span: Option<(i64, i64)>,
    readings: Readings,
    /// The columns of each log, and the version that they are of.
    columns: Vec<(usize, Vec<ColumnId>)>,
    samples: u64,
}

impl Kept {
    /// Records a sentence about what was read, and says it.
    fn note(&mut self, text: &str) -> Result<(), Failure> {
        crate::output::say(text);
        self.writer.event(&event(0.0, text)).map_err(Failure::failed)?;
        self.writer.close();
        Ok(())
    }
}

/// Writes the run directory, and returns its result. After an error there is none.
pub(super) fn write(
    path: &Path,
    loads: &[(String, Checked<LoadRun>)],
    logs: &mut [NamedLog],
    hosts: &Hosts,
) -> Result<ResultDocument, Failure> {
    let is_new = !path.exists();
    // An error before this is of a folder that another process may have begun.
    let begun = begin(path, loads, logs)?;
    let done = fill(begun, loads, logs, Some(hosts)).and_then(|(directory, study)| {
        let document = analysis::result(&study);
        carry_out::keep(&directory, &document, &study)?;
        Ok(document)
    });
    if done.is_err() && is_new {
        // What is left of it is only in the way.
        let _ = std::fs::remove_dir_all(path);
    }
    done
}

/// Records runs of a load alone.
pub(in crate::commands) fn study_of_loads(
    path: &Path,
    loads: &[(String, Checked<LoadRun>)],
) -> Result<Study, Failure> {
    fill(begin(path, loads, &[])?, loads, &mut [], None).map(|(_, study)| study)
}

/// A record that has begun: its directory, the trial of each run, and the experiment.
struct Begun {
    directory: RunDirectory,
    treatments: Vec<Trial>,
    experiment: Experiment,
}

/// Creates the run directory, which nothing else may use.
fn begin(path: &Path, loads: &[(String, Checked<LoadRun>)], logs: &[NamedLog]) -> Result<Begun, Failure> {
    let workload = loads.first().map_or(Run::WATCHED, |(_, run)| run.workload);
    if let Some((name, other)) = loads.iter().find(|(_, run)| run.workload != workload) {
        return Err(Failure::usage(format!(
            "error: {name} has a load of another kind ({}) than {} ({workload})\n  import each on its own",
            other.workload,
            loads.first().map_or("", |(name, _)| name)
        )));
    }
    if path.exists() && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
        let at = path.display();
        return Err(Failure::usage(format!(
            "error: {at}: the folder is not empty\n  name another one with --run-dir"
        )));
    }
    let runs: Vec<&LoadRun> = loads.iter().map(|(_, run)| &**run).collect();
    let (treatments, vary) = treatments(&runs);
    let names = sources(loads, logs);
    let design = if vary.len() > 1 { DesignKind::Grid } else { DesignKind::OneFactorAtATime };
    let experiment = Experiment { design, vary, ..Experiment::recorded(&names, workload) };
    let text = format!(
        "# Imported with `plimsoll import`; another tool measured, so this cannot be run.\n# {names}\n",
    );
    let host = Host { plimsoll: env!("CARGO_PKG_VERSION").into(), ..Host::default() };
    let directory = RunDirectory::create(path, &text, &host).map_err(Failure::failed)?;
    Ok(Begun { directory, treatments, experiment })
}

/// Records all runs.
fn fill(
    Begun { directory, treatments, experiment }: Begun,
    loads: &[(String, Checked<LoadRun>)],
    logs: &mut [NamedLog],
    hosts: Option<&Hosts>,
) -> Result<(RunDirectory, Study), Failure> {
    let mut kept = Vec::new();
    for ((name, run), trial) in loads.iter().zip(treatments) {
        kept.push(of_load(&directory, name, run, trial)?);
    }
    if kept.is_empty() {
        kept.push(watched(&directory)?);
    }
    if let Some(hosts) = hosts {
        for note in &hosts.notes {
            kept[0].note(note)?;
        }
        add_counters(&mut kept, logs, hosts)?;
    }
    let mut decisions = Vec::new();
    // A long log is judged from memory: reading it back would take a third of the time of an import.
    let mut written = BTreeMap::new();
    for mut kept in kept {
        if let (Origin::Watched, Some((begin, end))) = (kept.run.origin, kept.span) {
            let end_s = (end - begin) as f64 / 1e9;
            kept.run.phases = vec![PhaseSpan { phase: Phase::Measure, begin_s: 0.0, end_s }];
        }
        kept.run.sources = logs
            .iter()
            .map(|log| SourceStatus {
                source: format!("{} {}", log.format, log.name),
                state: SourceState::Active,
            })
            .collect();
        kept.run.ending = Ending::Completed;
        decisions.push(Decision { trial: kept.run.trial.clone(), reason: "imported".into() });
        let readings = kept.writer.finish_with_readings(&kept.run).map_err(Failure::failed)?;
        written.extend(readings.map(|readings| (kept.run.trial.id(), readings)));
    }
    let plan = Plan { format: PLAN_FORMAT.into(), experiment, decisions, enough: Some("imported".into()) };
    directory.write_plan(&plan).map_err(Failure::failed)?;
    let study = record::read_with(directory.path(), written).map_err(Failure::failed)?;
    Ok((directory, study))
}

/// The files, in words.
fn sources(loads: &[(String, Checked<LoadRun>)], logs: &[NamedLog]) -> String {
    let file = |name: &str| Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned());
    let named = loads.iter().map(|(name, _)| name).chain(logs.iter().map(|log| &log.name));
    let mut names: Vec<String> = named.filter_map(|name| file(name)).collect();
    names.dedup();
    names.join(", ")
}

/// What distinguishes the runs: a trial for each, and the settings that vary.
fn treatments(runs: &[&LoadRun]) -> (Vec<Trial>, Vec<Variation>) {
    let Some(first) = runs.first() else { return (Vec::new(), Vec::new()) };
    let mut levels: BTreeMap<&str, Vec<&Level>> = BTreeMap::new();
    for (name, level) in runs.iter().flat_map(|run| &run.settings) {
        let levels = levels.entry(name).or_default();
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    let varied: Vec<&str> = levels
        .iter()
        .filter(|(name, levels)| levels.len() > 1 && first.settings.contains_key(**name))
        .map(|(name, _)| *name)
        .collect();
    let mut trials: Vec<Trial> = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let change = |name: &&str| {
            let level = run.settings.get(*name)?;
            let differs = first.settings.get(*name) != Some(level);
            differs.then(|| Change { factor: SettingPath((*name).into()), level: level.clone() })
        };
        let changes: Vec<Change> = varied.iter().filter_map(change).collect();
        let treatment = match changes.as_slice() {
            [] => Treatment::Baseline,
            [only] => Treatment::OneChange(only.clone()),
            _ => Treatment::Combination(changes),
        };
        let replicate = 1 + trials.iter().filter(|trial| trial.treatment == treatment).count() as u32;
        trials.push(Trial { number: at as u32 + 1, treatment, replicate });
    }
    let variation = |name: &&str| Variation {
        factor: SettingPath((*name).into()),
        baseline: first.settings.get(*name).cloned(),
        levels: levels[*name].iter().skip(1).map(|level| (*level).clone()).collect(),
        on: None,
        parameters: BTreeMap::new(),
        line: 0,
    };
    (trials, varied.iter().map(variation).collect())
}

/// The trial of a run of a load.
fn of_load(directory: &RunDirectory, name: &str, from: &LoadRun, trial: Trial) -> Result<Kept, Failure> {
    let mut writer = directory.trial(&trial.id()).map_err(Failure::failed)?;
    writer.import_readings();
    let begin = from.began_unix_ns.unwrap_or(0);
    writer.start(u64::try_from(begin).unwrap_or(0)).map_err(Failure::failed)?;
    let measure = Some((from.seconds * 1e9) as u64);
    let load = Load { shape: from.shape.clone(), warm_up: WarmUp::For(0), ..Load::of_workload(measure) };
    let mut run = Run::begun(trial, from.workload, load, u64::try_from(begin).unwrap_or(0));
    run.origin = Origin::Imported;
    let kinds = workloads::KINDS.iter().map(|kind| kind.info());
    if let Some(info) = kinds.into_iter().find(|info| info.name == from.workload) {
        run.traits = info.traits.clone();
    }
    run.phases = vec![PhaseSpan { phase: Phase::Measure, begin_s: 0.0, end_s: from.seconds }];
    run.asked = from.settings.clone();
    run.facts = from.facts.clone();
    // A detector reads it as that of our own load.
    if let Some(cache) = from.settings.get("workload.cache") {
        run.facts.insert("cache".into(), cache.clone());
    }
    run.facts.insert("imported.from".into(), Level::Text(name.into()));
    run.facts
        .insert("imported.tool".into(), Level::Text(format!("{} {}", from.tool, from.version).trim().into()));
    for interval in &from.intervals {
        if !run.operations.contains(&interval.operation) {
            run.operations.push(interval.operation.clone());
        }
    }
    let empty = model::study::new_histogram();
    let mut groups: Vec<Vec<Interval>> = Vec::new();
    for interval in &from.intervals {
        match groups.last_mut() {
            Some(group) if group[0].begin_s == interval.begin_s && group[0].end_s == interval.end_s => {
                group.push(interval.clone());
            }
            _ => groups.push(vec![interval.clone()]),
        }
    }
    // A closed loop without think time keeps so many in flight, divided by the time that each operation takes.
    if let Some(Shape::Closed { users, think: 0 }) = &from.shape {
        for group in &mut groups {
            let busy = |of: &Interval| match of.completed {
                0 => 0.0,
                completed => completed as f64 * of.service.mean,
            };
            let all: f64 = group.iter().map(busy).sum();
            let count = group.len() as f64;
            for interval in group.iter_mut().filter(|of| of.concurrency.is_nan()) {
                let part = if all > 0.0 { busy(interval) / all } else { 1.0 / count };
                interval.concurrency = users.largest() * part;
            }
        }
    }
    let mut place = 0;
    for group in &groups {
        let own = (place..)
            .zip(group)
            .filter_map(|(place, interval)| Some((&interval.operation, from.interval_times.get(&place)?)));
        let times: Vec<OperationIntervals<'_>> =
            own.map(|(operation, times)| OperationIntervals::of_times(operation, times, &empty)).collect();
        writer.interval(group, &times).map_err(Failure::failed)?;
        place += group.len();
    }
    if let (Some(first), Some(last)) = (from.intervals.first(), from.intervals.last()) {
        // Most tools have one histogram for the whole run.
        let times: Vec<OperationIntervals<'_>> = from
            .histograms
            .iter()
            .map(|(operation, times)| OperationIntervals::of_times(operation, times, &empty))
            .collect();
        writer.histograms(first.phase, first.begin_s, last.end_s, &times).map_err(Failure::failed)?;
    }
    for note in &from.notes {
        writer.event(&event(0.0, note)).map_err(Failure::failed)?;
    }
    let span = from.began_unix_ns.map(|begin| (begin, begin.saturating_add((from.seconds * 1e9) as i64)));
    // There may be more runs than a process may have open files.
    writer.close();
    Ok(Kept { writer, run, span, readings: Readings::new(), columns: Vec::new(), samples: 0 })
}

fn event(at_s: f64, text: &str) -> Event {
    Event { at_s, kind: EventKind::Source, text: text.into(), data: BTreeMap::new() }
}

/// The trial of counters alone; its clock begins with the first sample.
fn watched(directory: &RunDirectory) -> Result<Kept, Failure> {
    let trial = Trial { number: 1, treatment: Treatment::Baseline, replicate: 1 };
    let mut writer = directory.trial(&trial.id()).map_err(Failure::failed)?;
    writer.import_readings();
    let load = Load { warm_up: WarmUp::For(0), ..Load::of_workload(None) };
    let run = Run::begun(trial, Run::WATCHED, load, 0);
    Ok(Kept { writer, run, span: None, readings: Readings::new(), columns: Vec::new(), samples: 0 })
}

/// Adds the samples of all logs in the order of their times.
fn add_counters(kept: &mut [Kept], logs: &mut [NamedLog], hosts: &Hosts) -> Result<(), Failure> {
    let mut read: Vec<Read> = logs.iter().map(|log| Read::of(&log.log)).collect();
    let mut turns = Turns::default();
    let mut next: Vec<Option<Sample>> = Vec::new();
    for log in logs.iter_mut() {
        let mut sample = Sample::default();
        next.push(advance(log, &mut sample)?.then_some(sample));
    }
    let of_load = kept.iter().any(|kept| kept.run.origin == Origin::Imported);
    let mut outside = 0_u64;
    let mut open = 0;
    loop {
        let earliest =
            next.iter().enumerate().filter_map(|(at, sample)| Some((at, sample.as_ref()?.end_unix_ns)));
        let Some((at, _)) = earliest.min_by_key(|(_, end)| *end) else { break };
        if let Some(sample) = &mut next[at] {
            read[at].read(&logs[at].log, sample);
            let place = match of_load {
                false => Some(0),
                true => kept.iter().position(|kept| {
                    kept.span
                        .is_some_and(|(begin, end)| sample.end_unix_ns > begin && sample.begin_unix_ns < end)
                }),
            };
            match place {
                Some(place) => {
                    turns.take(at, logs, hosts)?;
                    if open != place {
                        kept[std::mem::replace(&mut open, place)].writer.close();
                    }
                    add(&mut kept[place], at, &read[at], sample, hosts)?;
                }
                None => outside += 1,
            }
            if !advance(&mut logs[at], sample)? {
                next[at] = None;
            }
        }
    }
    let first = &kept[0];
    if outside > 0 && kept.iter().all(|kept| kept.samples == 0) {
        return Err(Failure::usage(match first.span {
            None => "error: the load does not say when it began, so the counters cannot be joined\n  add --begin TIME"
                .to_string(),
            Some(_) => "error: no counter was logged while the load ran\n  see that both clocks are right: --utc-offset for times without a zone, --clock-offset FILE=SECONDS for a clock that is wrong".into(),
        }));
    }
    for log in logs.iter() {
        for fault in log.log.notes() {
            kept[0].note(&format!("{}: {fault}", log.name))?;
        }
    }
    for (log, read) in logs.iter().zip(&read) {
        if let Read::Exporters(exporters) = read
            && exporters.left_out() > 0
        {
            let (count, name) = (exporters.left_out(), &log.name);
            kept[0].note(&format!(
                "{name}: {count} series have no column: there are too many, or their names are too long"
            ))?;
        }
    }
    Ok(())
}

fn advance(log: &mut NamedLog, sample: &mut Sample) -> Result<bool, Failure> {
    let is_there =
        log.log.next(sample).map_err(|fault| Failure::failed(format!("error: {}: {fault}", log.name)))?;
    for ns in [&mut sample.begin_unix_ns, &mut sample.end_unix_ns] {
        *ns = ns.saturating_add(log.offset_ns.unwrap_or(0));
    }
    Ok(is_there)
}

/// How the columns of a log become those of the record.
pub(super) enum Read {
    /// Each on its own, for a version of its columns.
    Targets(usize, Vec<Target>),
    Exporters(Exporters),
}

impl Read {
    /// How many columns there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Read::Targets(_, list) => list.len(),
            Read::Exporters(exporters) => exporters.columns().len(),
        }
    }

    /// The columns, each with its host and its instance there.
    pub(super) fn columns(&self) -> Box<dyn Iterator<Item = (&MetricInfo, &str, &str)> + '_> {
        match self {
            Read::Targets(_, list) => {
                Box::new(list.iter().map(|of| (&of.metric, of.host.as_str(), of.instance.as_str())))
            }
            Read::Exporters(exporters) => Box::new(exporters.columns()),
        }
    }

    /// The value of a column in the last sample; NaN if it has none.
    pub(super) fn value(&self, at: usize, sample: &Sample) -> f64 {
        match self {
            Read::Targets(_, list) => list.get(at).map_or(f64::NAN, |of| of.value(&sample.values)),
            Read::Exporters(exporters) => exporters.value(at),
        }
    }

    pub(super) fn of(log: &dyn CounterLog) -> Read {
        match log.family() {
            CounterFamily::OpenMetrics => Read::Exporters(Exporters::default()),
            _ => Read::Targets(usize::MAX, Vec::new()),
        }
    }

    /// Takes a sample, also one that no trial has: rates need the one before.
    pub(super) fn read(&mut self, log: &dyn CounterLog, sample: &Sample) {
        match self {
            Read::Exporters(exporters) => exporters.read(log, sample),
            Read::Targets(of, list) => {
                let (_, version) = log.columns();
                if *of != version {
                    (*of, *list) = (version, targets(log));
                }
            }
        }
    }
}

/// Which log has its samples now, so that two hosts without names are not taken for one.
#[derive(Default)]
struct Turns {
    last: Option<usize>,
    ended: BTreeSet<usize>,
}

impl Turns {
    /// A log has a sample.
    ///
    /// # Errors
    /// If it takes turns with another one that has the same counters, and neither names its host.
    fn take(&mut self, at: usize, logs: &[NamedLog], hosts: &Hosts) -> Result<(), Failure> {
        if self.last == Some(at) {
            return Ok(());
        }
        if self.ended.contains(&at) {
            let rival = (0..logs.len()).find(|other| *other != at && are_alike(&logs[at], &logs[*other]));
            if let Some(rival) = rival.filter(|_| hosts.is_unnamed(at)) {
                let (one, other) = (&logs[at.min(rival)].name, &logs[at.max(rival)].name);
                return Err(Failure::usage(format!(
                    "error: {one} and {other} have the same counters at the same time, and do not name their host\n  \
                     name it: HOST={other}"
                )));
            }
        }
        self.ended.extend(self.last.replace(at));
        Ok(())
    }
}

/// Whether two logs have the same counters without a host.
fn are_alike(one: &NamedLog, other: &NamedLog) -> bool {
    let unnamed = |log: &NamedLog| -> BTreeSet<String> {
        let columns = log.log.columns().0.iter().filter(|column| column.host.is_empty());
        columns.map(|column| column.path.clone()).collect()
    };
    one.log.family() == other.log.family()
        && one.host == other.host
        && !unnamed(one).is_disjoint(&unnamed(other))
}

/// Adds a sample to a trial.
fn add(kept: &mut Kept, of: usize, read: &Read, sample: &Sample, hosts: &Hosts) -> Result<(), Failure> {
    let (begin, _) = match kept.span {
        Some(span) => span,
        None => {
            let begin = sample.begin_unix_ns;
            let unix_ns = u64::try_from(begin).unwrap_or(0);
            kept.run.started_unix_ns = unix_ns;
            kept.writer.start(unix_ns).map_err(Failure::failed)?;
            kept.span = Some((begin, begin));
            (begin, begin)
        }
    };
    if let (Origin::Watched, Some((_, end))) = (kept.run.origin, &mut kept.span) {
        *end = sample.end_unix_ns;
    }
    if kept.columns.len() <= of {
        kept.columns.resize_with(of + 1, || (usize::MAX, Vec::new()));
    }
    kept.readings.clear();
    let (version, places) = &mut kept.columns[of];
    let readings = &mut kept.readings;
    match read {
        Read::Targets(now, list) => {
            if version != now {
                let place = |target: &Target| {
                    readings.column(&target.metric, &hosts.instance(of, &target.host, &target.instance))
                };
                (*version, *places) = (*now, list.iter().map(place).collect());
            }
            for (place, target) in places.iter().zip(list) {
                let value = target.value(&sample.values);
                if value.is_finite() {
                    readings.set(*place, value);
                }
            }
        }
        Read::Exporters(exporters) => {
            let new = exporters.columns().skip(places.len());
            places.extend(new.map(|(metric, host, instance)| {
                readings.column(metric, &hosts.instance(of, host, instance))
            }));
            for (place, value) in places.iter().zip(exporters.values()).filter(|(_, value)| value.is_finite())
            {
                readings.set(*place, value);
            }
        }
    }
    let seconds = |ns: i64| (ns - begin) as f64 / 1e9;
    let (begin_s, end_s) = (seconds(sample.begin_unix_ns), seconds(sample.end_unix_ns));
    kept.samples += 1;
    kept.writer.readings(begin_s, end_s, &kept.readings).map_err(Failure::failed)
}
