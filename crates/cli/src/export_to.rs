//! `--export-to URL`: the figures of each interval and each sample of the counters, sent while a run goes on.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use engine::stream::{RunEvent, Subscriber};
use export::push::{Delivery, Endpoint, Push};
use export::{Identity, Otlp, Times};
use model::{Experiment, Secret, SecretParts};

use crate::carry_out::Failure;
use crate::secrets;

/// How long a run waits for the endpoint in all, at the ends of its trials.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Adds `--export-to` and `--export-header`.
pub(crate) fn flags(command: Command, about: &'static str) -> Command {
    command
        .arg(
            Arg::new("export-to")
                .long("export-to")
                .value_name("URL")
                .help(format!("{about}: OTLP over HTTP, such as http://HOST:4318/v1/metrics"))
                .help_heading("Output"),
        )
        .arg(
            Arg::new("export-header")
                .long("export-header")
                .value_name("NAME: VALUE")
                .requires("export-to")
                .action(ArgAction::Append)
                .help("A header field for --export-to, such as 'Authorization: Bearer ${env:TOKEN}'")
                .help_heading("Output"),
        )
}

/// The endpoint of `--export-to`; none without it.
pub(crate) fn endpoint(matches: &ArgMatches) -> Result<Option<Endpoint>, Failure> {
    let Some(url) = matches.get_one::<String>("export-to") else { return Ok(None) };
    let wrong = |why: String| Failure::usage(format!("error: {why}"));
    let shown = Secret::new(url, SecretParts::Url).to_string();
    let mut headers = Vec::new();
    for field in crate::one_off::texts(matches, "export-header") {
        let hidden = Secret::new(&field, SecretParts::Header).to_string();
        let resolved = secrets::resolve_text(&field)
            .map_err(|why| Failure::usage(format!("error: --export-header {hidden}: {why}")))?;
        headers.push((resolved.reveal().to_string(), hidden));
    }
    Endpoint::new(url, &shown, &headers).map(Some).map_err(wrong)
}

/// Sends the events of a run; does nothing without an endpoint.
pub(crate) struct ExportTo {
    push: Option<Push>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    identity: Identity,
    /// The trial whose clock runs.
    trial: Option<Otlp>,
    /// What is left of [`WAIT_MAX`].
    wait: Duration,
    /// What became of the figures until the end of the trial before.
    before: Delivery,
    /// What the last remark says.
    remark: String,
    has_warned: bool,
}

impl ExportTo {
    /// Starts the thread that sends.
    pub(crate) fn begin(
        endpoint: Option<Endpoint>,
        experiment: &Experiment,
        host: &str,
    ) -> Result<ExportTo, Failure> {
        let identity = Identity {
            host: host.into(),
            experiment: experiment.name.clone(),
            workload: experiment.workload.kind.clone(),
            ..Identity::default()
        };
        let push = endpoint.map(Push::begin).transpose().map_err(Failure::failed)?;
        let state = State { identity, wait: WAIT_MAX, ..State::default() };
        Ok(ExportTo { push, state: Mutex::new(state) })
    }

    /// Ends it, and says what was not delivered. `quiet` means that no progress is shown.
    pub(crate) fn end(self, quiet: bool) {
        let Some(push) = &self.push else { return };
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let delivery = push.flush(state.wait);
        let lost = lost(&delivery, push);
        // The progress has shown it.
        if !lost.is_empty() && (quiet || state.remark != lost) {
            crate::output::say(&format!("warning: --export-to: {lost}"));
        }
    }
}

/// "12 of 340 intervals and samples were not delivered to URL: Connection refused; the record has them". Empty if all were.
fn lost(delivery: &Delivery, push: &Push) -> String {
    let (lost, url) = (delivery.dropped + delivery.waiting, push.shown());
    let why = match (&delivery.trouble, &delivery.first_trouble) {
        (Some(why), _) | (None, Some(why)) => why.as_str(),
        (None, None) if delivery.delivered == 0 => "it has not answered",
        (None, None) => "it is too slow",
    };
    let all = lost + delivery.delivered;
    match (lost, delivery.rejected) {
        (0, 0) => String::new(),
        (0, values) => format!("{values} values were rejected by {url}: {why}; the record has them"),
        (lost, _) => format!(
            "{lost} of {all} intervals and samples were not delivered to {url}: {why}; the record has them"
        ),
    }
}

impl Subscriber for ExportTo {
    fn happens(&self, happening: &RunEvent<'_>) {
        let Some(push) = &self.push else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match happening {
            RunEvent::Trial { decision, .. } => {
                let trial = &decision.trial;
                state.identity.trial = trial.id();
                state.identity.treatment = trial.treatment.label();
                state.identity.replicate = trial.replicate;
                state.trial = None;
            }
            RunEvent::Started(unix_ns) => state.trial = Some(Otlp::new(&state.identity, *unix_ns)),
            RunEvent::Interval { rows, derived, histograms } => {
                let Some(trial) = &mut state.trial else { return };
                let times: Vec<Times<'_>> = histograms
                    .iter()
                    .map(|of| Times {
                        operation: of.operation,
                        response: of.response,
                        service: of.service,
                        lag: of.lag,
                        censored: of.censored,
                    })
                    .collect();
                let is_derived = |at: usize| derived.get(at).copied().unwrap_or(false);
                push.add(trial.interval(rows, is_derived, &times));
            }
            RunEvent::Readings { end_s, readings, .. } => {
                let values = readings.values();
                let sample = state
                    .trial
                    .as_ref()
                    .and_then(|trial| trial.readings(*end_s, readings.columns(), |at| values[at]));
                if let Some(sample) = sample {
                    push.add(sample);
                }
            }
            _ => {}
        }
        // Once, while the user can still do something.
        if !state.has_warned
            && let Some(why) = push.trouble()
        {
            state.has_warned = true;
            crate::output::say_at_once(&format!("warning: --export-to {}: {why}", push.shown()));
        }
    }

    fn remarks(&self) -> Vec<String> {
        let Some(push) = &self.push else { return Vec::new() };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = Instant::now();
        let delivery = push.flush(state.wait);
        state.wait = state.wait.saturating_sub(begin.elapsed());
        let Delivery { dropped, rejected, .. } = state.before;
        let is_lost = delivery.dropped > dropped || delivery.rejected > rejected || delivery.waiting > 0;
        state.remark = if is_lost { lost(&delivery, push) } else { String::new() };
        state.before = delivery;
        is_lost
            .then(|| format!("--export-to: at the end of the trial, {}", state.remark))
            .into_iter()
            .collect()
    }
}
