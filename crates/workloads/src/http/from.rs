//! Files with scenarios: our own, recorded sessions and those of WCAT.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::inputs::Inputs;
use model::{Nanos, Placeholder, Problem, Problems, SettingInfo, Settings};

use super::scenario::recording::RecordingOptions;
use super::scenario::wcat::{self, WcatOptions, WcatSettings};
use super::scenario::{self, Import, Note, Scenario, ScenarioFile, har};
use super::settings::{
    FROM, ReadScenario, THINK_MAX, THINK_SCALE, THIRD_PARTY, URL, WCAT_SETTINGS, parse_url,
};
use crate::template;

/// The format of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our scenario file.
    Scenario,
    /// A recorded session, `.har`.
    Har,
    /// A scenario of WCAT, `.ubr`.
    Wcat,
}

impl Format {
    /// The format of a file with this name.
    pub fn of(path: &Path) -> Format {
        let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
        match ending.as_deref() {
            Some("har") => Format::Har,
            Some("ubr") => Format::Wcat,
            _ => Format::Scenario,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Format::Scenario => "a scenario file",
            Format::Har => "a recorded session (.har)",
            Format::Wcat => "a scenario of WCAT (.ubr)",
        }
    }
}

/// What is known about a file of another program besides its content.
#[derive(Clone, Debug, Default, PartialEq)]
struct ImportOptions {
    /// How a recording becomes a scenario.
    recording: RecordingOptions,
    /// The server of a scenario of WCAT, `HOST[:PORT]`; it replaces that of the settings file.
    server: Option<String>,
    /// The settings file of WCAT.
    wcat_settings: Option<PathBuf>,
}

impl ImportOptions {
    /// Those of the settings of the workload.
    fn of(settings: &Settings) -> ImportOptions {
        let url = settings.get(&URL).and_then(|url| parse_url(url.reveal()).ok());
        ImportOptions {
            recording: recording_options(settings),
            server: url.map(|url| url.origin.host_and_port()),
            wcat_settings: settings.get(&WCAT_SETTINGS).map(PathBuf::from),
        }
    }
}

/// How the settings of the workload say that a recording becomes a scenario.
pub fn recording_options(settings: &Settings) -> RecordingOptions {
    RecordingOptions {
        third_party: settings.get(&THIRD_PARTY),
        think_scale: settings.get(&THINK_SCALE),
        think_max: settings.get(&THINK_MAX),
    }
}

/// The load of `wcctl` with a scenario and a settings file. None: the files do not have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WcatLoad {
    /// Users: client computers times the virtual clients of each.
    pub users: Option<u64>,
    /// Time under load before the measurement.
    pub warm_up: Option<Nanos>,
    /// The measured time.
    pub duration: Option<Nanos>,
}

/// A file of another program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// The scenario, and what was not carried over.
    pub import: Import,
    /// Its load; only WCAT has one.
    pub load: WcatLoad,
}

/// Settings that apply to one format only and that are given with another one.
pub(super) fn misplaced(settings: &Settings) -> Problems {
    let mut problems = Problems::new();
    let given = settings.get(&FROM).map(|name| Format::of(Path::new(&name)));
    let of_format: [(&SettingInfo, Format); 4] = [
        (&THIRD_PARTY, Format::Har),
        (&THINK_SCALE, Format::Har),
        (&THINK_MAX, Format::Har),
        (&WCAT_SETTINGS, Format::Wcat),
    ];
    for (setting, format) in of_format {
        if settings.given(setting) && given != Some(format) {
            let beside = given.map_or(String::new(), |given| format!(", and `from` is {}", given.words()));
            let what = format!("`{}` applies to {}{beside}", setting.name, format.words());
            problems.add(&[setting, &FROM], what, format!("leave `{}` out", setting.name));
        }
    }
    problems
}

/// The scenario in a file, or the mistakes in it. They have the lines of that file in their texts.
pub(super) fn scenario(settings: &Settings, inputs: &Inputs) -> (Option<Arc<ReadScenario>>, Problems) {
    let Some(name) = settings.get(&FROM) else { return (None, Problems::new()) };
    match read_scenario(&name, &ImportOptions::of(settings), inputs) {
        Ok(read) => (Some(Arc::new(read)), Problems::new()),
        Err(problems) => {
            let line = settings.line(FROM.name);
            let about = |problem: Problem| Problem { line, ..problem }.about(&[&FROM]);
            (None, Problems(problems.0.into_iter().map(about).collect()))
        }
    }
}

fn read_scenario(name: &str, options: &ImportOptions, inputs: &Inputs) -> Result<ReadScenario, Problems> {
    let path = Path::new(name);
    let folder = path.parent().unwrap_or(Path::new(""));
    let text = read_file(path, inputs)?;
    let (text, notes) = match Format::of(path) {
        Format::Scenario => (text, Vec::new()),
        _ => {
            let import = import_text(path, &text, options, inputs)?.import;
            (import.file.write(), import.notes)
        }
    };
    let mut find_secret = |placeholder: Placeholder<'_>| template::find_secret(&placeholder, folder, inputs);
    let scenario =
        Scenario::parse_with(&text, name, folder, &mut find_secret, inputs).map_err(|problems| {
            let in_file = |problem: Problem| if problem.line > 0 { placed(name, problem) } else { problem };
            Problems(problems.0.into_iter().map(in_file).collect())
        })?;
    let file = ScenarioFile::parse(&text, name)?;
    let without_secrets = file.write_without_secrets();
    // A recorded session has more than what becomes a scenario, such as cookies of responses.
    inputs.set_secret(path, Format::of(path) == Format::Har || file.write() != without_secrets);
    let text = format!(
        "# The scenario of {}, as it was read. *** is in the place of secrets.\n\n{}",
        name.escape_debug(),
        without_secrets
    );
    Ok(ReadScenario { scenario, notes, text })
}

/// Reads the file of another program that `from` names.
///
/// # Errors
/// All mistakes, with the file and the line in their texts.
pub fn import(settings: &Settings) -> Result<Imported, Problems> {
    let name = settings.get(&FROM).unwrap_or_default();
    let mut problems = misplaced(settings);
    if let Some(Err((what, help))) = settings.get(&URL).map(|url| parse_url(url.reveal())) {
        problems.add(&[&*URL], what, help);
    }
    problems.or(())?;
    let path = Path::new(&name);
    let inputs = Inputs::host();
    import_text(path, &read_file(path, &inputs)?, &ImportOptions::of(settings), &inputs)
}

/// The load of a scenario of WCAT; none if `from` names none.
///
/// # Errors
/// As [`import`].
pub fn load_of(settings: &Settings) -> Result<Option<WcatLoad>, Problems> {
    match settings.get(&FROM).map(|name| Format::of(Path::new(&name))) {
        Some(Format::Wcat) => import(settings).map(|imported| Some(imported.load)),
        _ => Ok(None),
    }
}

fn import_text(
    path: &Path,
    text: &str,
    options: &ImportOptions,
    inputs: &Inputs,
) -> Result<Imported, Problems> {
    let name = path.display().to_string();
    let in_file = |problem: Problem| Problems::from(placed(&name, problem));
    match Format::of(path) {
        Format::Har => {
            let import = har::read(text, &options.recording).map_err(in_file)?;
            Ok(Imported { import, load: WcatLoad::default() })
        }
        Format::Wcat => {
            let settings = match &options.wcat_settings {
                Some(file) => wcat::read_settings(&read_file(file, inputs)?)
                    .map_err(|problem| Problems::from(placed(&file.display().to_string(), problem)))?,
                None => WcatSettings::default(),
            };
            import_wcat(text, options, settings).map_err(in_file)
        }
        Format::Scenario => Err(Problem::new(
            format!("{name} is not a recorded session (.har) or a scenario of WCAT (.ubr)"),
            "a scenario file needs no conversion: plimsoll http --from FILE",
        )
        .into()),
    }
}

/// A scenario of WCAT with its settings file.
fn import_wcat(text: &str, options: &ImportOptions, settings: WcatSettings) -> Result<Imported, Problem> {
    let WcatSettings { servers, clients, virtual_clients, counters, notes } = settings;
    let servers = options.server.clone().map_or(servers, |server| vec![server]);
    let read = wcat::read_scenario(text, &WcatOptions { servers, clients, virtual_clients })?;
    let mut import = read.import;
    let file = options.wcat_settings.as_deref().unwrap_or(Path::new("")).display();
    let note = |what: String, help: &str| Note::new(0, format!("{file}: {what}"), help);
    for (host, counter) in counters {
        let of = host.map_or(String::new(), |host| format!(" of {host}"));
        let what = format!("the counter `{counter}`{of} is not read");
        import.notes.push(note(what, "watch it on this host: --watch 'COUNTER'"));
    }
    let of_file = |of: Note| note(format!("line {}: {}", of.number, of.what), &of.help);
    import.notes.extend(notes.into_iter().map(of_file));
    let users = match (clients, virtual_clients) {
        (None, None) => None,
        (clients, of_each) => Some(u64::from(clients.unwrap_or(1)) * u64::from(of_each.unwrap_or(1))),
    };
    let load = WcatLoad {
        users: users.filter(|users| *users > 0),
        warm_up: read.warm_up,
        duration: read.duration.filter(|duration| *duration > 0),
    };
    Ok(Imported { import, load })
}

fn read_file(path: &Path, inputs: &Inputs) -> Result<String, Problems> {
    inputs.read_text(path, scenario::FILE_BYTES_MAX).map_err(|error| {
        Problem::new(format!("the scenario {} cannot be read: {error}", path.display()), "").into()
    })
}

/// A problem with its place in a file as text.
fn placed(name: &str, problem: Problem) -> Problem {
    let place = match problem.line {
        0 => format!("{name}: "),
        line => format!("{name}:{line}: "),
    };
    Problem::new(format!("{place}{}", problem.what), problem.help)
}
