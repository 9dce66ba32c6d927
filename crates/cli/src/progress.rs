//! Progress on standard error: one line that is redrawn on a terminal, otherwise a line at intervals.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::stream::{RunEvent, Subscriber};
use model::{Ending, EventKind, Interval, Phase};
use report::text::{Quantity, visible_line};

use crate::hang_up::{CLOSED, Terminal};
use crate::output;

/// How often a line is written where it cannot be redrawn.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Trials of which each has a line where it cannot be redrawn. A gate may have 200.
const LISTED_TRIALS: u32 = 40;

/// Shows the progress of an experiment.
pub(crate) struct Progress {
    quiet: bool,
    redraw: bool,
    terminal: Terminal,
    /// Whether the record says that the terminal was closed.
    has_remarked: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    trial: String,
    /// How many machines take part, if fewer than the experiment has.
    machines: String,
    phase: PhaseState,
    last_line: Option<Instant>,
    drawn: bool,
}

/// The phase of a trial that is running.
#[derive(Default)]
struct PhaseState {
    word: String,
    /// When it began, seconds on the clock of the trial.
    begin_s: f64,
    /// Its length; none where a test ends it.
    length_s: Option<f64>,
}

impl Progress {
    /// `quiet` shows nothing.
    pub(crate) fn new(quiet: bool) -> Self {
        let redraw =
            std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Progress {
            quiet,
            redraw,
            terminal: Terminal::of_process(),
            has_remarked: AtomicBool::new(false),
            state: Mutex::new(State::default()),
        }
    }

    /// Removes the line that was being redrawn.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.drawn {
            output::redraw("");
            state.drawn = false;
        }
    }

    fn draw(&self, state: &mut State, text: &str, important: bool) {
        if self.redraw {
            let width = usize::from(output::width()).saturating_sub(1);
            output::redraw(&visible_line(text).chars().take(width).collect::<String>());
            state.drawn = true;
        } else if important || state.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY) {
            // A reader that has stopped gets the next line.
            let _ = output::draw(&format!("{}\n", visible_line(text)));
            state.last_line = Some(Instant::now());
        }
    }

    /// A line that stays.
    fn keep(&self, state: &mut State, text: &str) {
        if std::mem::take(&mut state.drawn) {
            output::redraw("");
        }
        output::say_at_once(&visible_line(text));
    }
}

impl Subscriber for Progress {
    fn happens(&self, happening: &RunEvent<'_>) {
        if self.quiet {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let state = &mut *state;
        match happening {
            RunEvent::Trial { decision, planned } => {
                let of = planned.map_or(String::new(), |planned| format!("/{planned}"));
                let trial = &decision.trial;
                state.trial =
                    format!("[{}{of}] {} r{}", trial.number, trial.treatment.label(), trial.replicate);
                state.machines.clear();
                let text = state.trial.clone();
                self.draw(state, &text, trial.number <= LISTED_TRIALS);
            }
            RunEvent::Preparing(what) => {
                let text = format!("{} · {what}", state.trial);
                self.draw(state, &text, false);
            }
            RunEvent::Machines(part, all) => {
                state.machines = format!(" · {part} of {all} machines");
                let text = format!("{}{}", state.trial, state.machines);
                self.draw(state, &text, true);
            }
            RunEvent::Note(text) => self.keep(state, text),
            RunEvent::Phase { phase, length_s, at_s } => {
                let word = phase.word().replace('_', "-");
                state.phase = PhaseState { word, begin_s: *at_s, length_s: *length_s };
            }
            RunEvent::Interval { rows, derived, .. } => {
                let own = rows.iter().zip(*derived).filter(|(_, derived)| !**derived);
                let rows: Vec<&Interval> = own.map(|(row, _)| row).collect();
                if rows.first().is_none_or(|first| first.phase == Phase::CoolDown) {
                    return;
                }
                let text =
                    format!("{} · {}{}", state.trial, interval_line(&rows, &state.phase), state.machines);
                self.draw(state, &text, false);
            }
            RunEvent::Draining { since_s, at_most_s, writes } => {
                let mut text = format!("{} · drain {since_s:.0}/{at_most_s:.0} s", state.trial);
                if let Some((unwritten, written_per_s)) = writes {
                    text += &format!(
                        " · {} not written yet · device writes {}",
                        Quantity::Bytes.show(*unwritten),
                        Quantity::BytesPerSecond.show(*written_per_s)
                    );
                }
                self.draw(state, &text, false);
            }
            RunEvent::Event(event) if event.kind == EventKind::Error || event.kind == EventKind::Source => {
                self.keep(state, &format!("  {:>6.1} s  {}", event.at_s, event.text));
            }
            RunEvent::Ended(run) => match &run.ending {
                Ending::Failed(why) => self.keep(state, &format!("{}: {why}", state.trial.clone())),
                Ending::Interrupted => self.keep(state, &format!("{}: interrupted", state.trial.clone())),
                Ending::Completed | Ending::Running => {}
            },
            RunEvent::Started(_) | RunEvent::Readings { .. } | RunEvent::Event(_) => {}
        }
    }

    /// A run goes on without its terminal, and its record says so in the trial in which it was closed.
    fn remarks(&self) -> Vec<String> {
        let is_new = self.terminal.is_closed() && !self.has_remarked.swap(true, Ordering::Relaxed);
        is_new
            .then(|| format!("{CLOSED} before the end of this trial; the run went on"))
            .into_iter()
            .collect()
    }
}

/// "measure 3/10 s · 61.2 k/s · 251 MB/s · p99 0.91 ms".
fn interval_line(rows: &[&Interval], phase: &PhaseState) -> String {
    let length = match phase.length_s {
        Some(length) => format!("/{length:.0} s"),
        None if rows[0].phase == Phase::WarmUp => " s, until throughput is steady".into(),
        None => " s".into(),
    };
    let passed_s = (rows[0].end_s - phase.begin_s).max(0.0);
    let rate: f64 = rows.iter().map(|row| row.rate_per_s()).sum();
    let bytes: f64 = rows.iter().map(|row| row.bytes_per_s()).sum();
    let failed: u64 = rows.iter().map(|row| row.failed).sum();
    let p99 = rows.iter().map(|row| row.response.p99).fold(0.0, f64::max);
    let mut text = format!("{} {passed_s:.0}{length} · {}", phase.word, Quantity::Rate("/s").show(rate));
    if bytes > 0.0 {
        text += &format!(" · {}", Quantity::BytesPerSecond.show(bytes));
    }
    if rows.iter().any(|row| row.completed > 0) {
        text += &format!(" · p99 {}", Quantity::Milliseconds.show(p99));
    }
    if failed > 0 {
        text += &format!(" · {failed} FAILED");
    }
    text
}
