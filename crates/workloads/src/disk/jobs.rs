//! Several loads at once: jobs, each with settings, a stream of operations and arrivals of its own.
//!
//! A job is one text, `NAME: setting=value; setting=value`, and holds what differs from the settings beside `jobs`. A
//! backslash takes the meaning from the `:`, `;` or `,` behind it, and from another backslash.

use std::collections::BTreeMap;

use engine::workload::Lane;
use model::{
    Choice as _, Key, Level, Nanos, Problem, Problems, Process, Profile, SettingInfo, Settings, Shape,
};

use super::settings::{
    DiskPlan, FILES, JOBS, KEEP, OUTSTANDING, OVERWRITE, PATTERN, SETTINGS, STREAMS, Streams, THREADS,
    VERIFY, greatest_common_divisor,
};
use super::stream::{Kinds, label};

/// Most jobs of one load.
pub const JOBS_MAX: usize = 256;

/// Most names of jobs: each has up to four operations, which are counted in a byte.
const NAMES_MAX: usize = 60;

/// Most lanes times operations: each worker has histograms for all operations, at some 100 kB each.
const COUNTED_MAX: usize = 4096;

model::settings! {
    /// What a job may set beside the settings of the workload.
    pub(super) static JOB_SETTINGS;

    pub(super) static RATE: Key<Option<f64>> = Key::rate(
        "rate", "",
        "Open loop: operations of the job per second.",
    );

    pub(super) static ARRIVALS: Key<Process> = Key::choice(
        "arrivals",
        "How the arrivals of an open loop are spaced.",
    );

    pub(super) static THINK: Key<Option<Nanos>> = Key::time(
        "think", "",
        "Closed loop: wait between one operation and the next.",
    );

    pub(super) static WEIGHT: Key<Option<u32>> = Key::count(
        "weight", 1..=1_000_000, "",
        "Closed loop: jobs that have weights issue operations in their proportion.",
    );

    pub(super) static WEIGHT_GROUP: Key<u32> = Key::count(
        "weight_group", 0..=1_000_000, "0",
        "Jobs are in proportion with those of the same group.",
    );

    pub(super) static START: Key<Option<Nanos>> = Key::time(
        "start", "",
        "How long after the start of the load the job begins.",
    );
}

/// A job, or the only load.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Empty where there is but one load.
    pub(super) name: String,
    pub(super) plan: DiskPlan,
    /// The arrivals of all its lanes; none where they are those of the whole load.
    pub(super) shape: Option<Shape>,
    pub(super) delay: Nanos,
    /// Weight of its operations, and its group.
    pub(super) weight: Option<(u64, u32)>,
}

impl Job {
    /// Its arrivals in a load of this shape.
    pub(super) fn shape(&self, whole: &Shape) -> Shape {
        self.shape.clone().unwrap_or_else(|| whole.clone())
    }

    /// Lanes of a job with these arrivals; `workers` counts the threads of one.
    pub(super) fn lanes(&self, shape: &Shape, workers: impl Fn(&Shape) -> u32) -> Vec<Lane> {
        let of = self.plan.lanes;
        (0..of)
            .map(|index| {
                let shape = part(shape, index, of);
                Lane { workers: workers(&shape).max(1), shape, delay: self.delay }
            })
            .collect()
    }
}

/// The part of lane `index` of `of`.
pub(super) fn part(shape: &Shape, index: u32, of: u32) -> Shape {
    if of == 1 {
        return shape.clone();
    }
    let share = 1.0 / f64::from(of);
    match shape {
        Shape::Closed { users: Profile::Constant(users), think } => {
            let users = (*users as u64 + u64::from(of - 1 - index)) / u64::from(of);
            Shape::Closed { users: Profile::Constant(users as f64), think: *think }
        }
        // Other closed loads are refused for lanes, see [`check_load`].
        Shape::Closed { .. } => shape.clone(),
        Shape::Open { rate_per_s, arrivals } => {
            let rate_per_s = match rate_per_s {
                Profile::Constant(rate) => Profile::Constant(rate * share),
                Profile::Ramp(from, to) => Profile::Ramp(from * share, to * share),
                Profile::Steps(rates) => Profile::Steps(rates.iter().map(|rate| rate * share).collect()),
            };
            Shape::Open { rate_per_s, arrivals: *arrivals }
        }
    }
}

/// All jobs of these settings, or the only load; every contradiction at once.
pub(super) fn read(settings: &Settings) -> Result<Vec<Job>, Problems> {
    let texts = settings.get(&JOBS);
    if texts.is_empty() {
        let plan = DiskPlan::read(settings)?;
        return Ok(vec![Job { name: String::new(), plan, shape: None, delay: 0, weight: None }]);
    }
    let mut problems = Problems::new();
    let mut jobs = Vec::new();
    if texts.len() > JOBS_MAX {
        problems.add(&[&JOBS], format!("{} jobs are too many: at most {JOBS_MAX}", texts.len()), "");
        return Err(problems);
    }
    for text in &texts {
        match job(settings, text) {
            Ok(job) => jobs.push(job),
            Err(found) => problems.extend(found),
        }
    }
    let mut names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    names.dedup();
    if names.len() > NAMES_MAX {
        problems.add(
            &[&JOBS],
            format!("{} jobs with names of their own are too many: at most {NAMES_MAX}", names.len()),
            "give like jobs the same name: their operations are then counted together",
        );
    }
    for (index, job) in jobs.iter().enumerate() {
        let alike = |other: &&Job| other.name != job.name && label(&other.name) == label(&job.name);
        if let Some(other) = jobs[..index].iter().find(alike) {
            problems.add(
                &[&JOBS],
                format!("jobs [{}] and [{}] would have the same names of operations", other.name, job.name),
                "let them differ in a letter or digit",
            );
        }
    }
    for target in settings.get(&OVERWRITE) {
        let target = std::path::PathBuf::from(target);
        if problems.is_empty() && !jobs.iter().any(|job| job.plan.overwrite.contains(&target)) {
            problems.add(
                &[&OVERWRITE],
                format!("`overwrite` names `{}`, which is not among the files of a job", target.display()),
                "write it exactly as there",
            );
        }
    }
    verify_alike(&mut jobs, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut names = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (job, text) in jobs.iter_mut().zip(&texts) {
        job.plan.is_job = true;
        let (name, stated) = halves(text, ':').unwrap_or_default();
        let (name, stated) = (name.trim(), stated.trim());
        job.plan.is_copy = seen.iter().any(|other| other.0 == name || other.1 == stated);
        seen.push((name, stated));
        job.plan.kinds = Kinds::within(&job.plan, &job.name, &mut names);
    }
    let lanes: usize = jobs.iter().map(|job| job.plan.lanes as usize).sum();
    if lanes * names.len() > COUNTED_MAX {
        problems.add(
            &[&JOBS],
            format!("{lanes} streams of jobs with {} operations are too many", names.len()),
            format!("at most {COUNTED_MAX} streams times operations: give like jobs the same name"),
        );
        return Err(problems);
    }
    Ok(jobs)
}

/// One job.
fn job(base: &Settings, text: &str) -> Result<Job, Problems> {
    let mut problems = Problems::new();
    let mut problem = |what: String, help: String| {
        problems.push(Problem::new(what, help).about(&[&JOBS]));
    };
    let (name, pairs) = match split(text) {
        Ok(parts) => parts,
        Err(what) => {
            problem(what, "such as \"log: access=sequential; read_percent=0%\"".into());
            return Err(problems);
        }
    };
    let mut settings = base.clone();
    settings.0.remove(JOBS.name);
    let mut load = Settings::defaults(JOB_SETTINGS);
    for (key, value) in &pairs {
        let own = SETTINGS.iter().find(|info| info.name == key);
        let of_job = JOB_SETTINGS.iter().find(|info| info.name == key);
        let is_of_all = [JOBS.name, OVERWRITE.name, KEEP.name].contains(&key.as_str());
        match own.filter(|_| !is_of_all).or(of_job) {
            Some(info) => match level(info, value) {
                Ok(level) if of_job.is_some() => load.set(key, level),
                Ok(level) => settings.set(key, level),
                Err(what) => problem(format!("job [{name}]: {key}: {what}"), String::new()),
            },
            None if is_of_all => {
                problem(format!("job [{name}]: `{key}` holds for all jobs"), "write it beside `jobs`".into());
            }
            None => {
                let known = SETTINGS.iter().chain(JOB_SETTINGS).map(|info| info.name);
                problem(
                    format!("job [{name}]: unknown setting `{key}`"),
                    model::problem::did_you_mean(key, known),
                );
            }
        }
    }
    let files = settings.get(&FILES);
    let overwrite: Vec<Level> =
        settings.get(&OVERWRITE).into_iter().filter(|file| files.contains(file)).map(Level::Text).collect();
    settings.0.remove(OVERWRITE.name);
    if !overwrite.is_empty() {
        settings.set(OVERWRITE.name, Level::List(overwrite));
    }
    let plan = match DiskPlan::read(&settings) {
        Ok(plan) => Some(plan),
        Err(found) => {
            for mut found in found.0 {
                found.what = format!("job [{name}]: {}", found.what);
                problems.push(found);
            }
            None
        }
    };
    let think = load.get(&THINK).unwrap_or(0);
    let rate = load.get(&RATE);
    if rate.is_some() && think > 0 {
        problems.add(
            &[&JOBS],
            format!("job [{name}]: `rate` and `think` contradict each other"),
            "keep one of them",
        );
    }
    if rate.is_some() && load.given(&WEIGHT) {
        problems.add(
            &[&JOBS],
            format!("job [{name}]: `rate` and `weight` contradict each other"),
            "keep one of them",
        );
    }
    if load.given(&ARRIVALS) && rate.is_none() {
        problems.add(
            &[&JOBS],
            format!("job [{name}]: `arrivals` has no meaning without `rate`"),
            "remove it",
        );
    }
    match plan {
        Some(plan) if problems.is_empty() => {
            let shape = match rate {
                Some(rate) => {
                    Shape::Open { rate_per_s: Profile::Constant(rate), arrivals: load.get(&ARRIVALS) }
                }
                None => Shape::Closed { users: Profile::Constant(plan.in_flight() as f64), think },
            };
            let weight = load.get(&WEIGHT).map(|weight| (u64::from(weight), load.get(&WEIGHT_GROUP)));
            Ok(Job { name, plan, shape: Some(shape), delay: load.get(&START).unwrap_or(0), weight })
        }
        _ => Err(problems),
    }
}

/// The level of a value as written in a job.
fn level(info: &SettingInfo, value: &str) -> Result<Level, String> {
    if info.kind.takes_several() {
        return Ok(Level::List(
            pieces(value, ',').iter().map(|text| info.kind.element(&plain(text))).collect(),
        ));
    }
    info.kind.parse(&plain(value))
}

/// Jobs that verify the same file must agree on its blocks, and nobody else may write them.
fn verify_alike(jobs: &mut [Job], problems: &mut Problems) {
    let mut units: BTreeMap<std::path::PathBuf, u64> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.plan.verify) {
        for file in &job.plan.files {
            let unit = units.entry(file.clone()).or_insert(0);
            *unit = greatest_common_divisor(*unit, job.plan.unit());
        }
    }
    for (index, job) in jobs.iter().enumerate().filter(|(_, job)| job.plan.verify) {
        for (at, other) in jobs.iter().enumerate().filter(|(at, _)| *at != index) {
            let shared = job.plan.files.iter().find(|file| other.plan.files.contains(file));
            let is_first = at > index || !other.plan.verify;
            // Those that verify the same files know of each other's writes.
            let is_known = other.plan.verify && other.plan.files == job.plan.files;
            let harms = is_first && !is_known && (other.plan.writes() || job.plan.writes());
            if let Some(file) = shared.filter(|_| harms) {
                problems.add(
                    &[&JOBS, &VERIFY],
                    format!(
                        "job [{}] would verify blocks of `{}` while job [{}] uses them, and one of both writes",
                        job.name,
                        file.display(),
                        other.name
                    ),
                    "give each its own file, or run them one after the other",
                );
            }
        }
    }
    for job in jobs.iter_mut().filter(|job| job.plan.verify) {
        let shared = job.plan.files.iter().filter_map(|file| units.get(file));
        job.plan.shared_unit = shared.fold(0, |unit, other| greatest_common_divisor(unit, *other));
    }
}

/// A closed load states the operations in flight, and so do threads and what is outstanding in each.
pub(super) fn check_load(settings: &Settings, shape: &Shape) -> Problems {
    let mut problems = Problems::new();
    if settings.given(&JOBS) {
        let load = shape.stated_by();
        problems.add(
            &[&JOBS, load],
            format!("`{}` has no meaning with `jobs`: each job has a load of its own", load.name),
            "remove it, and set `outstanding`, `rate` or `think` in the jobs",
        );
        return problems;
    }
    let own_streams = settings.get(&STREAMS) == Streams::PerThread;
    if own_streams && !matches!((shape, shape.profile()), (Shape::Open { .. }, _) | (_, Profile::Constant(_)))
    {
        let load = shape.stated_by();
        problems.push(
            Problem::new(
                format!("`{}` cannot be shared by threads with streams of their own", load.name),
                "keep the load constant",
            )
            .about(&[&STREAMS, load])
            .or_set(&STREAMS, Streams::Shared.level()),
        );
    }
    let Shape::Closed { users, .. } = shape else { return problems };
    if settings.get(&PATTERN).is_some() {
        problems.add(
            &[&PATTERN, shape.stated_by()],
            format!("`pattern` states the operations in flight, and so does `{}`", shape.stated_by().name),
            "keep one of them",
        );
        return problems;
    }
    let (threads, outstanding) = (settings.get(&THREADS), settings.get(&OUTSTANDING));
    let in_flight = u64::from(threads) * u64::from(outstanding);
    let load = shape.stated_by();
    if settings.given(&OUTSTANDING) && *users != Profile::Constant(in_flight as f64) {
        let stated = match users {
            Profile::Constant(users) => users.to_string(),
            _ => "others over time".into(),
        };
        problems.add(
            &[&OUTSTANDING, &THREADS, load],
            format!(
                "`threads` of {threads} and `outstanding` of {outstanding} are {in_flight} operations in flight, but `{}` sets {stated}",
                load.name
            ),
            format!("remove `outstanding` or `{}`", load.name),
        );
    } else if settings.given(&THREADS) && f64::from(threads) > users.largest() {
        problems.add(
            &[&THREADS, load],
            format!(
                "`threads` of {threads} cannot share the {} operations in flight that `{}` sets",
                users.largest(),
                load.name
            ),
            format!("lower `threads`, or raise `{}`", load.name),
        );
    }
    problems
}

/// The load of all jobs together: arrivals where all have a rate, else operations in flight.
pub(super) fn whole_shape(jobs: &[Job]) -> Shape {
    let rates: Option<Vec<f64>> = jobs
        .iter()
        .map(|job| match &job.shape {
            Some(Shape::Open { rate_per_s, .. }) => Some(rate_per_s.largest()),
            _ => None,
        })
        .collect();
    let poisson =
        jobs.iter().all(|job| matches!(&job.shape, Some(Shape::Open { arrivals: Process::Poisson, .. })));
    match rates {
        Some(rates) if !rates.is_empty() => Shape::Open {
            rate_per_s: Profile::Constant(rates.iter().sum()),
            arrivals: if poisson { Process::Poisson } else { Process::Constant },
        },
        _ => {
            let think = jobs.iter().map(|job| match &job.shape {
                Some(Shape::Closed { think, .. }) => *think,
                _ => 0,
            });
            let users: u64 = jobs.iter().map(|job| job.plan.in_flight()).sum();
            Shape::Closed { users: Profile::Constant(users as f64), think: think.max().unwrap_or(0) }
        }
    }
}

/// The text of a job.
pub(super) fn write(name: &str, settings: &[(String, Level)]) -> String {
    let pairs: Vec<String> = settings
        .iter()
        .map(|(key, level)| {
            let value = match level {
                Level::List(levels) => {
                    let texts: Vec<String> =
                        levels.iter().map(|level| escaped(&level.to_string(), ",")).collect();
                    texts.join(",")
                }
                level => escaped(&level.to_string(), ""),
            };
            format!("{key}={value}")
        })
        .collect();
    format!("{}: {}", escaped(name, ":"), pairs.join("; "))
}

/// The files of a load, those of its jobs among them.
pub fn files(settings: &Settings) -> Vec<String> {
    let mut files = settings.get(&FILES);
    for text in settings.get(&JOBS) {
        let Ok((_, pairs)) = split(&text) else { continue };
        let of_job = pairs.iter().filter(|(key, _)| key == FILES.name);
        files.extend(of_job.flat_map(|(_, value)| pieces(value, ',')).map(plain));
    }
    files
}

/// The text of a job without its own value of a setting, so that the one beside `jobs` holds.
pub fn without(text: &str, setting: &str) -> String {
    let Some((name, rest)) = halves(text, ':') else { return text.into() };
    let kept: Vec<&str> = pieces(rest, ';')
        .into_iter()
        .map(str::trim)
        .filter(|pair| pair.split_once('=').is_none_or(|(key, _)| key.trim() != setting))
        .collect();
    format!("{name}: {}", kept.join("; "))
}

fn escaped(text: &str, also: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '\\' || letter == ';' || also.contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// Without the backslashes that take a meaning away.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.push(if letter == '\\' { letters.next().unwrap_or('\\') } else { letter });
    }
    out
}

/// The parts between separators that have their meaning.
fn pieces(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((part, behind)) = halves(rest, separator) {
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    parts
}

/// Before and behind the first separator that has its meaning.
fn halves(text: &str, separator: char) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            letter if letter == separator => return Some((&text[..at], &text[at + letter.len_utf8()..])),
            _ => {}
        }
    }
    None
}

/// Name and settings of a job, the values with their backslashes.
fn split(text: &str) -> Result<(String, Vec<(String, String)>), String> {
    let (name, rest) = halves(text, ':').ok_or_else(|| format!("`{text}` is not a job: it has no name"))?;
    let name = plain(name.trim());
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(format!("`{text}` is not a job: it has no name"));
    }
    let mut pairs = Vec::new();
    for pair in pieces(rest, ';') {
        let pair = pair.trim();
        if pair.is_empty() {
            continue;
        }
        let (key, value) =
            pair.split_once('=').ok_or_else(|| format!("job [{name}]: `{pair}` has no `=`"))?;
        pairs.push((key.trim().to_string(), value.trim().to_string()));
    }
    Ok((name, pairs))
}

#[cfg(test)]
#[path = "tests/jobs.rs"]
mod tests;
