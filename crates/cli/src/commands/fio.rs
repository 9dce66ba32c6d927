//! `plimsoll disk --fio FILE`: the jobs of a fio job file, step by step.

use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use engine::source::HostRoot;
use model::{Experiment, Goal, Level, Problem, Problems};
use workloads::disk::fio::{FioStep, Surroundings};
use workloads::disk::missing::{self, Position};
use workloads::disk::pasted::{self, Pauses};
use workloads::disk::{JOBS, OVERWRITE, jobs};

use super::other_tool;
use crate::carry_out::{Failure, Options, Words};
use crate::exit::Exit;
use crate::one_off::{plain_experiment, run_experiment};
use crate::output;
use crate::registry::REGISTRY;

/// Most bytes of an included file.
const INCLUDED_BYTES_MAX: u64 = 1 << 20;

/// What to do with a job file.
pub(crate) enum How<'a> {
    /// Carry it out.
    Run(&'a Options),
    /// Print its steps as experiment files, and then say whether they can run here.
    Show,
}

/// Why the options of a command line of fio are not read.
pub(crate) fn refuse_options(options: &[String]) -> Failure {
    Failure::usage(format!(
        "error: `--fio` reads a job file, not fio's options\n  write them into a file, such as job.fio, and `--fio job.fio`:\n{}",
        workloads::disk::fio::job_file_of(options)
    ))
}

/// The line behind `--fio`: its job file, the files to use instead of those named there, and the pauses beside the run.
fn read(line: &[String]) -> Result<(String, Vec<String>, Pauses), Failure> {
    let is_file = |word: &String| !word.contains('/') && Path::new(word).is_file();
    let mut pasted = match line {
        // Whatever its name.
        [file, rest @ ..] if is_file(file) => {
            let mut pasted =
                pasted::read(&[&["fio".into(), format!("./{file}")], rest].concat(), pasted::FIO);
            if let Some(first) = pasted.words.first_mut() {
                first.clone_from(file);
            }
            pasted
        }
        line => pasted::read(line, pasted::FIO),
    };
    let (options, files): (Vec<String>, Vec<String>) =
        pasted.words.into_iter().partition(|word| word.starts_with('-'));
    let [file, targets @ ..] = files.as_slice() else {
        return Err(match options.is_empty() {
            true => Failure::usage(pasted.problems),
            false => refuse_options(&options),
        });
    };
    for option in &options {
        let help = "write it into the job file, or use the flag of Plimsoll for it";
        pasted.problems.push(Problem::new(format!("`{option}` is an option of fio's command line"), help));
    }
    for target in targets {
        let refused = match target.ends_with(".fio") && Path::new(target).is_file() {
            true => Some((
                format!("`{target}` is a second job file"),
                "start Plimsoll once for each of them".into(),
            )),
            false => missing::refuse(target, Position::Pasted),
        };
        pasted.problems.0.extend(refused.map(|(what, help)| Problem::new(what, help)));
    }
    pasted.problems.or(()).map_err(Failure::usage)?;
    for note in &pasted.notes {
        output::say(&format!("note: {note}"));
    }
    Ok((file.clone(), targets.to_vec(), pasted.pauses))
}

/// Carries out the fio job file of a line. `put` changes it by what the flags beside it say.
pub(crate) fn run(
    line: &[String],
    put: impl Fn(&mut Experiment) -> Result<(), Failure>,
    how: How<'_>,
    words: Words<'_>,
) -> Result<Exit, Failure> {
    let (file, targets, pauses) = read(line)?;
    let (file, targets) = (file.as_str(), targets.as_slice());
    let target = targets.first().map(String::as_str);
    let text = files::read_named_text(file.as_ref(), super::NAMED_TEXT_BYTES_MAX)
        .map_err(|error| Failure::usage(format!("error: {file} cannot be read: {error}")))?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let surroundings = Surroundings {
        read_file: &|path| files::read_text(path, INCLUDED_BYTES_MAX),
        variable: &|name| std::env::var(name).ok(),
        size_of: &|path| {
            let is_target = targets.iter().any(|target| target == path);
            size_of(Path::new(target.filter(|_| !is_target).unwrap_or(path)))
        },
        keywords: [cpus, memory_mib(), rustix::param::page_size() as u64],
        targets,
    };
    let jobs = workloads::disk::fio::parse(&text, file, &surroundings).map_err(Failure::usage)?;
    let experiments: Result<Vec<Experiment>, Failure> =
        jobs.steps.iter().map(|step| experiment(step, &jobs.steps, &put)).collect();
    let experiments = experiments?;
    let is_set = |setting: &str| {
        let mut steps = experiments.iter().zip(&jobs.steps);
        steps.any(|(experiment, step)| experiment.load.level(setting) != step.load.level(setting))
    };
    for note in jobs.notes.iter().filter(|note| !note.unless.is_some_and(is_set)) {
        output::say(&format!("note: {}", note.text));
    }
    match how {
        How::Run(options) => {
            let interrupted = crate::interrupt::flag();
            if !other_tool::wait(pauses.before_s, interrupted) {
                return Ok(Exit::Interrupted);
            }
            let exit = carry_out(&experiments, options, words)?;
            other_tool::wait(pauses.after_s, interrupted);
            Ok(exit)
        }
        How::Show => show(&experiments, words),
    }
}

/// Prints the steps, where the settings fit together, and then says whether each could be carried out here.
fn show(experiments: &[Experiment], words: Words<'_>) -> Result<Exit, Failure> {
    let mut texts = Vec::new();
    let mut problems = Problems::new();
    for experiment in experiments {
        problems.0.extend(engine::check::contradictions(experiment, &REGISTRY, &Problems::new()).0);
        texts.push(model::experiment::write(experiment, &REGISTRY.vocabulary()));
    }
    Problems(problems.0.into_iter().map(words).collect()).or(()).map_err(Failure::usage)?;
    for (number, text) in texts.iter().enumerate() {
        if texts.len() > 1 {
            output::result(&format!("# step {} of {}", number + 1, texts.len()));
        }
        output::result(text);
    }
    for experiment in experiments {
        crate::carry_out::check(experiment, &HostRoot::live(), words)?;
    }
    Ok(Exit::Good)
}

/// Carries out the steps, one after another, until one is interrupted or fails.
fn carry_out(experiments: &[Experiment], options: &Options, words: Words<'_>) -> Result<Exit, Failure> {
    let several = experiments.len() > 1;
    let mut worst = Exit::Good;
    for (number, experiment) in experiments.iter().enumerate() {
        let mut of_step = options.clone();
        if several {
            output::say(&format!("step {} of {}: {}", number + 1, experiments.len(), experiment.name));
            of_step.run_dir =
                options.run_dir.as_ref().map(|folder| folder.join(format!("step-{}", number + 1)));
        }
        let exit = run_experiment(experiment, &of_step, words)?;
        if severity(exit) > severity(worst) {
            worst = exit;
        }
        if matches!(exit, Exit::Interrupted | Exit::Failed) {
            break;
        }
    }
    Ok(worst)
}

/// The experiment of a step. What a flag sets holds for every job, whatever the job file says.
fn experiment(
    step: &FioStep,
    steps: &[FioStep],
    put: &impl Fn(&mut Experiment) -> Result<(), Failure>,
) -> Result<Experiment, Failure> {
    let mut experiment = plain_experiment(&step.name, "disk", step.workload.clone(), step.load.clone());
    for text in &step.goals {
        let goal = Goal::parse(text, &[]).map_err(|what| Failure::usage(format!("error: {text}: {what}")))?;
        experiment.goals.push(goal);
    }
    put(&mut experiment)?;
    let settings = &mut experiment.workload.settings;
    if let Some(Level::List(texts)) = settings.level(JOBS.name).cloned()
        && step.workload.level(JOBS.name) == settings.level(JOBS.name)
    {
        let is_set = |name: &str| {
            let before = step.workload.0.get(name);
            settings.0.get(name).is_some_and(|now| now.given && before.is_none_or(|before| before != now))
        };
        let names: Vec<String> = settings.0.keys().filter(|name| is_set(name)).cloned().collect();
        let texts = texts.iter().map(|text| {
            Level::Text(names.iter().fold(text.to_string(), |text, name| jobs::without(&text, name)))
        });
        let texts = texts.collect();
        settings.set(JOBS.name, Level::List(texts));
    }
    // A file of another step may be named, too.
    if let Some(Level::List(named)) = settings.level(OVERWRITE.name).cloned() {
        let own = jobs::files(settings);
        let of_others: Vec<String> = steps.iter().flat_map(|step| jobs::files(&step.workload)).collect();
        let is_here =
            |level: &Level| own.contains(&level.to_string()) || !of_others.contains(&level.to_string());
        let kept: Vec<Level> = named.into_iter().filter(is_here).collect();
        match kept.is_empty() {
            true => drop(settings.0.remove(OVERWRITE.name)),
            false => settings.set(OVERWRITE.name, Level::List(kept)),
        }
    }
    Ok(experiment)
}

/// How bad an end is: of several runs the worst is reported.
fn severity(exit: Exit) -> u8 {
    match exit {
        Exit::Good => 0,
        Exit::Inconclusive => 1,
        Exit::GeneratorBound => 2,
        Exit::GoalMissed => 3,
        Exit::Usage => 4,
        Exit::Failed => 5,
        Exit::Interrupted => 6,
    }
}

/// Bytes of a regular file or block device.
pub(super) fn size_of(path: &Path) -> Option<u64> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return None;
    }
    std::fs::File::open(path).ok()?.seek(SeekFrom::End(0)).ok()
}

/// Memory of the host.
fn memory_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib / 1024)
}
