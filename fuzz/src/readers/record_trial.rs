//! A trial's folder: its files are the parts of the input between zero bytes, in the order of [`FILES`]. What is read is
//! judged and shown in every form, alone and beside itself under another treatment.

use std::path::PathBuf;
use std::sync::LazyLock;

use model::{Change, Experiment, Level, Plan, SettingPath, Study, Treatment};
use report::Terminal;

/// `run.json` is last and optional: without it the run is a plain one.
const FILES: [&str; 6] =
    ["intervals.csv", "readings.csv", "events.jsonl", "response.hlog", "metrics.json", "run.json"];

const RUN: &str = include_str!("run.json");

const EXPERIMENT: &str = "
name = \"fuzzed\"
goal = [\"response.p95 <= 20ms\", \"failed < 0.1%\"]
replicates = 2
[workload.disk]
files = [\"/data/a\"]
[vary]
\"workload.threads\" = { levels = [2] }
";

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| super::folder("record-trial"));

static PLAN: LazyLock<Plan> = LazyLock::new(|| Plan {
    format: record::PLAN_FORMAT.into(),
    experiment: Experiment::parse(EXPERIMENT, "experiment.toml", &super::vocabulary())
        .unwrap_or_else(|problems| panic!("{problems}")),
    decisions: Vec::new(),
    enough: None,
});

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let mut parts = bytes.splitn(FILES.len(), |byte| *byte == 0);
    for name in FILES {
        let part = match parts.next().unwrap_or_default() {
            [] if name == "run.json" => RUN.as_bytes(),
            part => part,
        };
        std::fs::write(FOLDER.join(name), part).expect("the scratch folder can be written");
    }
    let Ok((record, damage)) = record::read_trial(&FOLDER) else { return };
    let mut study = Study {
        directory: "run".into(),
        plan: Some(PLAN.clone()),
        damage,
        runs: vec![record],
        ..Study::default()
    };
    show(&study);
    let mut other = study.runs[0].clone();
    other.run.trial.number = 2;
    other.run.trial.treatment = Treatment::OneChange(Change {
        factor: SettingPath("workload.threads".into()),
        level: Level::Count(2),
    });
    study.runs.push(other);
    show(&study);
    analysis::design(&PLAN.experiment).next(&study);
}

/// Judges a record and shows it in every form.
pub(super) fn show(study: &Study) {
    let document = analysis::result(study);
    let text = report::json(&document);
    // A number that is not finite becomes null, which is no number on the way back.
    let read: Result<model::ResultDocument, _> = serde_json::from_str(&text);
    assert!(read.is_ok(), "a result does not read what it wrote: {read:?}");
    for verbose in [false, true] {
        let options = Terminal { verbose, ..Terminal::default() };
        assert!(!report::terminal(&document, options).is_empty());
        report::explanation(&document, options);
    }
    assert!(report::html(&document, study).ends_with("</html>\n"));
    report::csv(&document);
    report::markdown(&document);
    report::junit(&document);
}
