//! `runs`, `show`, `explain`, `compare`, `report`: analyse and show a record. They read
//! only the run directory.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use model::{ResultDocument, Study};
use record::RunDirectory;

use super::text;
use crate::carry_out::{self, Failure};
use crate::exit::Exit;
use crate::output;

/// The largest `result.json` that `plimsoll runs` reads; for a larger one it reads the record.
const RESULT_BYTES_MAX: u64 = 16 << 20;

/// The run directories in a folder, oldest first, as their names are dates.
pub(crate) fn run_directories(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| {
            entries
                .filter_map(Result::ok)
                // A link could point outside the folder; users can name such runs explicitly.
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path())
                .filter(|path| path.join("trials").is_dir())
                .collect()
        })
        .unwrap_or_default();
    found.sort();
    found
}

/// The run a user names: a directory, its name under `runs`, or `last`.
pub(super) fn find(name: &str) -> Result<PathBuf, Failure> {
    if name == "last" {
        return run_directories(Path::new("runs")).pop().ok_or_else(|| {
            Failure::usage("error: there is no run in the folder `runs`\n  `plimsoll demo` creates one")
        });
    }
    let candidates = [PathBuf::from(name), Path::new("runs").join(name)];
    candidates.iter().find(|path| path.join("trials").is_dir()).cloned().ok_or_else(|| {
        let names: Vec<String> =
            run_directories(Path::new("runs")).iter().map(|path| path.display().to_string()).collect();
        let help = match names.is_empty() {
            true => "there are no runs in the folder `runs`".to_string(),
            false => model::problem::near_word(name, names.iter().map(String::as_str))
                .map_or("`plimsoll runs` lists them".into(), |near| format!("did you mean `{near}`?")),
        };
        Failure::usage(format!("error: `{name}` is not a run directory\n  {help}"))
    })
}

pub(crate) fn load(name: &str) -> Result<(PathBuf, Study, ResultDocument), Failure> {
    let path = find(name)?;
    let study = record::read(&path).map_err(Failure::failed)?;
    let document = analysis::result(&study);
    Ok((path, study, document))
}

/// The data for a line of `plimsoll runs`. Complete results of hundreds of runs would need gigabytes.
struct Summary {
    experiment: String,
    workload: String,
    trials: usize,
    verdict: serde_json::Value,
    /// The first sentence of its result.
    answer: String,
}

impl Summary {
    fn of(document: &ResultDocument) -> Summary {
        let headline = report::sentences::headline(document);
        Summary {
            trials: document.trials.len(),
            experiment: document.experiment.clone(),
            workload: document.workload.clone(),
            verdict: report::verdict_json(document),
            answer: headline.answer.unwrap_or_else(|| headline.limits.join(" ")),
        }
    }
}

/// `plimsoll runs`.
pub(crate) fn runs(matches: &ArgMatches) -> Result<Exit, Failure> {
    let folder = text(matches, "dir");
    let mut rows = Vec::new();
    for path in run_directories(Path::new(folder)) {
        // A large record is not read for a line of a list: result.json has its result.
        let kept: Option<ResultDocument> = files::Directory::open(&path)
            .and_then(|folder| folder.read("result.json", RESULT_BYTES_MAX))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let document = match kept {
            Some(document) => Ok(document),
            None => record::read(&path).map(|study| analysis::result(&study)),
        };
        rows.push((path, document.as_ref().map(Summary::of).map_err(ToString::to_string)));
    }
    if matches.get_flag("json") {
        let list: Vec<serde_json::Value> = rows
            .iter()
            .filter_map(|(path, summary)| Some((path, summary.as_ref().ok()?)))
            .map(|(path, summary)| {
                serde_json::json!({ "run": path, "experiment": summary.experiment, "workload": summary.workload,
                    "trials": summary.trials, "verdict": summary.verdict })
            })
            .collect();
        let document = serde_json::json!({ "format": "plimsoll.runs/1", "runs": list });
        output::json(&serde_json::to_string_pretty(&document).map_err(Failure::failed)?);
        return Ok(Exit::Good);
    }
    if rows.is_empty() {
        output::result(&format!("no runs in the folder {folder}\nnext: plimsoll demo"));
        return Ok(Exit::Good);
    }
    let mut out = String::new();
    for (path, summary) in &rows {
        match summary {
            Ok(summary) => {
                let trials = match summary.trials {
                    1 => "1 trial".to_string(),
                    n => format!("{n} trials"),
                };
                out += &format!(
                    "{}  {}  {trials}\n    {}\n",
                    path.display(),
                    summary.experiment,
                    summary.answer
                );
            }
            Err(error) => out += &format!("{}  cannot be read: {error}\n", path.display()),
        }
    }
    output::result(&out);
    Ok(Exit::Good)
}

/// `plimsoll show`.
pub(crate) fn show(matches: &ArgMatches) -> Result<Exit, Failure> {
    let (_, study, document) = load(text(matches, "run"))?;
    carry_out::show(&document, &study, matches.get_flag("json"), matches.get_flag("verbose"));
    // A missed goal affects only the exit code of the measuring command.
    Ok(Exit::Good)
}

/// `plimsoll explain`.
pub(crate) fn explain(matches: &ArgMatches) -> Result<Exit, Failure> {
    let (_, _, document) = load(text(matches, "run"))?;
    match matches.get_flag("json") {
        true => output::json(&report::json(&document)),
        false => output::page(&report::explanation(&document, output::terminal(true))),
    }
    Ok(Exit::Good)
}

/// `plimsoll report`.
pub(crate) fn report(matches: &ArgMatches) -> Result<Exit, Failure> {
    let (path, study, document) = load(text(matches, "run"))?;
    match matches.get_one::<String>("output") {
        Some(output) => {
            let page = report::html(&document, &study);
            files::Output::write_file(Path::new(output), page.as_bytes())
                .map_err(|error| Failure::failed(format!("{output} cannot be written: {error}")))?;
        }
        None => carry_out::keep(&RunDirectory::open(&path).map_err(Failure::failed)?, &document, &study)?,
    }
    carry_out::show(&document, &study, false, false);
    Ok(Exit::Good)
}

/// `plimsoll compare A B`, where each is a run or `RUN:CONFIGURATION`.
pub(crate) fn compare(matches: &ArgMatches) -> Result<Exit, Failure> {
    let names = ["a", "b"].map(|id| text(matches, id).to_string());
    let (mut a, mut b) = match (side(&names[0]), side(&names[1])) {
        (Ok(a), Ok(b)) => (a, b),
        // Report both mistakes, unless they are the same.
        (Err(a), Err(b)) if a.text != b.text => {
            return Err(Failure { text: format!("{}\n{}", a.text, b.text), exit: a.exit });
        }
        (Err(failure), _) | (_, Err(failure)) => return Err(failure),
    };
    // One configuration of two runs: the names of the runs distinguish them.
    if a.label == b.label {
        [a.label, b.label] = names;
    }
    let document = analysis::compare(&[a.as_side(), b.as_side()]);
    carry_out::print(&document, matches.get_flag("json"), false);
    Ok(Exit::Good)
}

/// One side of a comparison.
struct Side {
    label: String,
    study: Study,
    configuration: Option<String>,
}

impl Side {
    fn as_side(&self) -> analysis::Side<'_> {
        analysis::Side { label: &self.label, study: &self.study, select: self.configuration.as_deref() }
    }
}

fn side(name: &str) -> Result<Side, Failure> {
    let (run, configuration) = match (find(name), name.rsplit_once(':')) {
        (Ok(path), _) => {
            let study = record::read(&path).map_err(Failure::failed)?;
            return Ok(Side { label: name.into(), study, configuration: None });
        }
        (Err(failure), None) => return Err(failure),
        (Err(_), Some(parts)) => parts,
    };
    let study = record::read(&find(run)?).map_err(Failure::failed)?;
    // One for each configuration, however many trials it has.
    let mut labels: Vec<String> = Vec::new();
    for label in study.runs.iter().map(|of| of.run.trial.treatment.configuration().label()) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    if !labels.iter().any(|label| label == configuration) {
        let help = model::problem::did_you_mean(configuration, labels.iter().map(String::as_str));
        return Err(Failure::usage(format!("error: {run} has no configuration `{configuration}`\n  {help}")));
    }
    Ok(Side { label: configuration.into(), study, configuration: Some(configuration.into()) })
}
