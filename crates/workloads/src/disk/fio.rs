//! fio job files become disk loads: the jobs that run at the same time are one load, and `stonewall` begins the next.
//!
//! Options that only concern how fio does its work are accepted and named in a note where that helps; options that would
//! make the load another one are a problem with the line and what to write instead.

mod arithmetic;
mod content;
mod defaults;
mod engines;
mod files;
mod options;
mod priority;
mod sections;
mod translate;
mod value;
mod zones;

use model::problem::Problems;
use model::{Level, Load, Nanos, Process, SECOND, Settings, load};

use super::jobs::{self, JOBS_MAX};
use super::settings::{self, SETTINGS};
pub use sections::Surroundings;
use sections::{At, Job, Reader};
use translate::{Draft, Latency};

/// A job file, read: loads that follow one another. At least one.
#[derive(Clone, Debug, PartialEq)]
pub struct FioFile {
    /// In order.
    pub steps: Vec<FioStep>,
    /// What differs from fio, in sentences.
    pub notes: Vec<FioNote>,
}

/// Jobs that run at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct FioStep {
    /// Names of the jobs.
    pub name: String,
    /// Settings of the disk workload.
    pub workload: Settings,
    /// Settings of the load.
    pub load: Settings,
    /// What is good enough, as `--goal` takes it.
    pub goals: Vec<String>,
}

/// What differs from fio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioNote {
    /// A sentence.
    pub text: String,
    /// The setting of the load that makes the note wrong where a flag sets it.
    pub unless: Option<&'static str>,
}

/// Measured time where nothing says it.
const MEASURE: Nanos = 30 * SECOND;

/// Reads the text of a job file; `file_name` is for messages and for the files it includes. All problems at once.
pub fn parse(text: &str, file_name: &str, surroundings: &Surroundings<'_>) -> Result<FioFile, Problems> {
    let mut reader = Reader::new(surroundings);
    let jobs = reader.jobs(text, file_name);
    if jobs.is_empty() && reader.problems.is_empty() {
        reader.problem(
            At::default(),
            "the job file has no job",
            "a job is a [name] and its options below it",
        );
    }
    let mut steps = Vec::new();
    for group in reader.steps(&jobs) {
        let drafts: Vec<Draft> = group.iter().map(|job| reader.draft(job)).collect();
        steps.push(reader.step(&drafts));
    }
    let mut notes = reader.notes;
    if !reader.without_effect.is_empty() {
        let text = format!("no effect here: {}", reader.without_effect.join(", "));
        notes.push(FioNote { text, unless: None });
    }
    reader.problems.or(FioFile { steps, notes })
}

/// The lines of a job file with the options of a command line: `--name=a --rw=read` as `[a]` and `rw=read`.
pub fn job_file_of(words: &[String]) -> String {
    let mut lines = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else { continue };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (option, words.next_if(|next| !next.starts_with('-')).cloned()),
        };
        // What fio prints, and how.
        if matches!(name, "output" | "output-format" | "minimal" | "eta" | "status-interval" | "append-terse")
        {
            continue;
        }
        lines.push(match (name, value) {
            ("name", Some(value)) => format!("  [{value}]"),
            (name, Some(value)) => format!("  {name}={value}"),
            (name, None) => format!("  {name}"),
        });
    }
    // What comes before the first name holds for every job.
    if lines.first().is_some_and(|line| !line.starts_with("  [")) {
        lines.insert(0, "  [global]".into());
    }
    lines.join("\n")
}

impl Reader<'_> {
    /// Jobs that run at the same time: `stonewall`, or waiting for one of them, begins the next group.
    fn steps<'j>(&mut self, jobs: &'j [Job]) -> Vec<&'j [Job]> {
        let mut steps = Vec::new();
        let mut begin = 0;
        for (at, job) in jobs.iter().enumerate() {
            let waits_for_all = self.flag(&job.options, "stonewall");
            let waits_for = job.options.get("wait_for").cloned();
            let waits_for_one = waits_for.as_ref().is_some_and(|written| {
                let known = jobs[..at].iter().position(|other| other.name == written.value);
                if known.is_none() {
                    let what = format!("[{}] waits for [{}], which is not above it", job.name, written.value);
                    self.problem(written.at, what, "name a job above");
                }
                known.is_some_and(|known| known >= begin)
            });
            if waits_for_one && at - begin > 1 {
                self.note(format!("wait_for: [{}] waits for all jobs of the step before", job.name));
            }
            if (waits_for_all || waits_for_one) && at > begin {
                steps.push(&jobs[begin..at]);
                begin = at;
            }
        }
        if begin < jobs.len() {
            steps.push(&jobs[begin..]);
        }
        steps
    }

    /// The load of some jobs at the same time.
    fn step(&mut self, drafts: &[Draft]) -> FioStep {
        let mut workload = Settings::defaults(SETTINGS);
        let mut names: Vec<&str> = drafts.iter().map(|draft| draft.name.as_str()).collect();
        names.dedup();
        let name = match names.as_slice() {
            [first, second, third, _, ..] => format!("{first}, {second}, {third} and others"),
            names => names.join(", "),
        };
        let keeps = drafts.iter().any(|draft| draft.keeps);
        if keeps && drafts.iter().any(|draft| !draft.keeps) {
            self.note("unlink: all files of a step are kept where one job keeps its files");
        }
        workload.set(settings::KEEP.name, Level::Flag(keeps));
        let mut load = self.times(drafts);
        if let [draft] = drafts
            && let [own] = draft.copies.as_slice()
        {
            for (name, level) in draft.settings.iter().chain(own) {
                workload.set(name, level.clone());
            }
            if let Some(rate) = draft.rate {
                load.set(load::OPEN.name, Level::Rate(rate));
                if draft.is_poisson {
                    load.set(load::ARRIVALS.name, model::Choice::level(&Process::Poisson));
                }
            } else if draft.think > 0 {
                load.set(load::CLOSED.name, Level::Count(draft.in_flight));
                load.set(load::THINK.name, Level::Time(draft.think));
            }
            if draft.weight.is_some() {
                self.note("flow: has no effect where one job is alone");
            }
            let goals = self.search(draft, &mut workload, &mut load);
            if draft.start > 0 {
                self.note("startdelay: has no effect where one job is alone: the clock starts with it");
            }
            return FioStep { name, workload, load, goals };
        }
        for draft in drafts {
            if let Some(latency) = draft.latency {
                self.problem(
                    latency.at,
                    "`latency_target` beside other jobs is not supported",
                    "separate them with stonewall",
                );
            }
        }
        let mut texts = Vec::new();
        let total: usize = drafts.iter().map(|draft| draft.copies.len()).sum();
        if total > JOBS_MAX {
            let at = drafts.first().map_or(At::default(), |draft| draft.at);
            let what =
                format!("{total} jobs and copies with files of their own are too many at the same time");
            self.problem(at, what, format!("at most {JOBS_MAX}"));
        }
        let is_lonely = drafts.len() == 1;
        let mut flows = false;
        for draft in drafts {
            for own in draft.copies.iter().take(JOBS_MAX) {
                let mut settings = draft.settings.clone();
                for (name, level) in own {
                    settings.retain(|(known, _)| known != name);
                    settings.push((name.clone(), level.clone()));
                }
                let mut set = |name: &str, level: Level| settings.push((name.into(), level));
                if let Some(rate) = draft.rate {
                    set("rate", Level::Rate(rate / draft.copies.len() as f64));
                    if draft.is_poisson {
                        set("arrivals", model::Choice::level(&Process::Poisson));
                    }
                }
                if draft.think > 0 {
                    set("think", Level::Time(draft.think));
                }
                if let Some((weight, group)) = draft.weight.filter(|_| !is_lonely) {
                    flows = true;
                    set("weight", Level::Count(weight));
                    if group > 0 {
                        set("weight_group", Level::Count(group));
                    }
                }
                if draft.start > 0 && !is_lonely {
                    set("start", Level::Time(draft.start));
                }
                texts.push(Level::Text(jobs::write(&draft.name, &settings)));
            }
        }
        if flows {
            self.note(
                "flow: response time includes the wait for the other jobs; service time is what fio reports",
            );
        }
        workload.set(settings::JOBS.name, Level::List(texts));
        FioStep { name, workload, load, goals: Vec::new() }
    }

    /// `latency_target` as steps of growing queue depth, each as long as fio's window, and a goal.
    fn search(&mut self, draft: &Draft, workload: &mut Settings, load: &mut Settings) -> Vec<String> {
        let Some(Latency { target, window, part, .. }) = draft.latency else { return Vec::new() };
        let most = draft.in_flight.max(1);
        let mut depths: Vec<u64> = std::iter::successors(Some(1_u64), |depth| depth.checked_mul(2))
            .take_while(|depth| *depth < most)
            .collect();
        depths.push(most);
        workload.0.remove(settings::OUTSTANDING.name);
        let time = window.saturating_mul(depths.len() as u64).max(SECOND);
        let texts = depths.iter().map(|depth| Level::Text(depth.to_string()));
        load.set(load::STEPS.name, Level::List(texts.collect()));
        load.set(load::MEASURE.name, Level::Time(time));
        let target = model::quantity::duration(target);
        self.note_unless(
            format!(
                "latency_target: the queue depths {} are held for {} each, and the table by load shows which of them stay below {target}; the goal is about all of them together. fio searches between them",
                depths.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
                model::quantity::duration(time / depths.len() as u64),
            ),
            Some(load::MEASURE.name),
        );
        vec![format!("response.{part} <= {target}")]
    }

    /// Warm-up and measured time of a step.
    fn times(&mut self, drafts: &[Draft]) -> Settings {
        let one = |reader: &mut Self, name: &str, times: Vec<(Nanos, At)>| {
            let (first, _) = *times.first()?;
            if let Some((_, at)) = times.iter().find(|(time, _)| *time != first) {
                let what = format!("jobs that run at the same time differ in `{name}`");
                reader.problem(*at, what, "write the same for all of them, or separate them with stonewall");
            }
            Some(first)
        };
        let runtime = one(self, "runtime", drafts.iter().filter_map(|draft| draft.runtime).collect());
        let warm_up = one(self, "ramp_time", drafts.iter().filter_map(|draft| draft.warm_up).collect());
        let has_end = drafts.iter().all(|draft| draft.has_end);
        let start = drafts.iter().map(|draft| draft.start).max().filter(|_| drafts.len() > 1).unwrap_or(0);
        let measure = runtime.unwrap_or(MEASURE).saturating_add(start);
        let mut settings = Load::settings(warm_up.unwrap_or(0), measure);
        if has_end && runtime.is_none() {
            // It is measured until it is done.
            settings.0.remove(load::MEASURE.name);
            return settings;
        }
        for draft in drafts.iter().filter(|draft| draft.has_end && drafts.len() > 1) {
            self.note(format!(
                "[{}] ends when its operations are done; its rate is over the whole measured time",
                draft.name
            ));
        }
        if drafts.iter().any(|draft| draft.latency.is_some()) {
            // Steps and their time have a note of their own.
            return settings;
        }
        if runtime.is_none() {
            self.note_unless(
                format!(
                    "without `runtime` fio stops when `size` is done; here {} are measured",
                    model::quantity::duration(measure)
                ),
                Some(load::MEASURE.name),
            );
        } else if drafts.iter().any(|draft| !draft.is_time_based && !draft.has_end) {
            self.note(
                "fio stops when `size` is done, if earlier than `runtime`; here the load runs for the whole measured time",
            );
        }
        settings
    }
}

#[cfg(test)]
mod tests;
