//! `plimsoll metadir run --watch`: all steps of a run on a terminal, with rates, counters and errors.

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metadir::observer::{Observer, StepSoFar};
use metadir::stage::StepError;
use metadir::store::StepRecord;
use model::quantity::thousands;
use report::text::{Quantity, shortened, visible_line, wrap};
use rustix::termios::{LocalModes, OptionalActions, Termios};

use super::metadir_run::{RunDisplay, RunLine};
use super::metadir_trail::counted;

/// How often the screen is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(200);
/// The time over which the current rate is computed.
const RATE_OVER: Duration = Duration::from_secs(5);

/// Shows a run on the whole terminal, from a thread of its own.
pub(crate) struct Watch {
    board: Arc<Mutex<Board>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to show a run; none where standard error is not a terminal that can be drawn on.
    pub(crate) fn begin(run: &str, titles: &[String]) -> Option<Watch> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if is_dumb || !std::io::stderr().is_terminal() {
            return None;
        }
        let board = Arc::new(Mutex::new(Board::new(run, titles, Instant::now())));
        let is_over = Arc::new(AtomicBool::new(false));
        let (shown, over) = (Arc::clone(&board), Arc::clone(&is_over));
        // Opened here, so that a terminal that cannot be drawn on is noticed before the run.
        let screen = Screen::open().ok()?;
        let thread = std::thread::Builder::new()
            .name("watch".into())
            .spawn(move || draw_until(screen, &shown, &over))
            .ok()?;
        Some(Watch { board, is_over, thread: Some(thread) })
    }

    /// Where the board gets counters and errors from.
    pub(crate) fn observe(&self, observer: &Observer) {
        self.board().observer = observer.clone();
    }

    /// Gives the terminal back, and returns what the run prints.
    pub(crate) fn finish(mut self) -> Vec<RunLine> {
        self.stop();
        std::mem::take(&mut self.board().printed)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread was reported; the run itself is not affected.
            let _ = thread.join();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

impl RunDisplay for Watch {
    fn begin(&mut self, at: usize, _title: &str) {
        self.board().begin(at, Instant::now());
    }

    fn progress(&mut self, objects: u64) {
        self.board().progress(objects, Instant::now());
    }

    fn end(&mut self, at: usize, title: &str, ended: &Result<StepRecord, StepError>) {
        let mut board = self.board();
        board.end(at, ended);
        board.printed.push(RunLine::of_step(title, ended));
    }

    fn note(&mut self, at: usize, note: RunLine) {
        let mut board = self.board();
        if let Some(step) = board.steps.get_mut(at).filter(|step| step.state == StepState::ToCome) {
            step.state = StepState::Done { result: "skipped".into(), counters: String::new() };
        }
        board.printed.push(note);
    }
}

/// Draws until the run is over or interrupted. After an interruption the terminal is given back at once: a second
/// signal ends the program without notice.
fn draw_until(mut screen: Screen, board: &Mutex<Board>, is_over: &AtomicBool) {
    let interrupted = crate::interrupt::flag();
    while !is_over.load(Ordering::Relaxed) {
        if interrupted.load(Ordering::Relaxed) {
            drop(screen);
            crate::output::say("the run ends after the next commit; Ctrl-C again ends it at once");
            return;
        }
        let (width, height) = size();
        let lines = board.lock().unwrap_or_else(PoisonError::into_inner).lines(Instant::now(), width, height);
        let drawn = screen.draw(&lines);
        // A terminal that is gone is not drawn on; the run goes on.
        if drawn.is_err() {
            return;
        }
        std::thread::park_timeout(DRAWN_EVERY);
    }
}

/// Columns and rows of the terminal, which may change at any time.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// The alternate screen, without a cursor and without line wrap.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The alternate screen of the terminal, without echo. Keys still send signals.
struct Screen {
    /// The settings of the keyboard before; none where standard input is not a terminal.
    before: Option<Termios>,
}

impl Screen {
    fn open() -> std::io::Result<Screen> {
        let before = rustix::termios::tcgetattr(std::io::stdin()).ok();
        if let Some(mut silent) = before.clone() {
            silent.local_modes -= LocalModes::ECHO;
            rustix::termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &silent)?;
        }
        let screen = Screen { before };
        crate::output::draw(ENTER)?;
        Ok(screen)
    }

    /// Draws all lines anew, in one write: nothing is assumed about what the terminal shows.
    fn draw(&mut self, lines: &[String]) -> std::io::Result<()> {
        let text = format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"));
        crate::output::draw(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing else can be done where the terminal is gone.
        let _ = crate::output::draw(LEAVE);
        if let Some(before) = &self.before {
            let _ = rustix::termios::tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// A step of the run.
struct Step {
    title: String,
    state: StepState,
}

#[derive(Debug, PartialEq)]
enum StepState {
    ToCome,
    Running,
    Done {
        result: String,
        /// Or the error that stopped it.
        counters: String,
    },
}

/// Errors of a step.
struct StepErrors {
    title: String,
    so_far: StepSoFar,
}

/// What is shown of a run.
struct Board {
    run: String,
    begin: Instant,
    steps: Vec<Step>,
    observer: Observer,
    /// When the current step began.
    step_begin: Instant,
    /// Objects of the current step, and when it had finished them.
    samples: VecDeque<(Instant, u64)>,
    /// Errors of the steps that ended.
    errors: Vec<StepErrors>,
    printed: Vec<RunLine>,
}

impl Board {
    fn new(run: &str, titles: &[String], now: Instant) -> Board {
        let step = |title: &String| Step { title: title.clone(), state: StepState::ToCome };
        Board {
            run: run.into(),
            begin: now,
            steps: titles.iter().map(step).collect(),
            observer: Observer::default(),
            step_begin: now,
            samples: VecDeque::new(),
            errors: Vec::new(),
            printed: Vec::new(),
        }
    }

    fn begin(&mut self, at: usize, now: Instant) {
        if let Some(step) = self.steps.get_mut(at) {
            step.state = StepState::Running;
        }
        self.step_begin = now;
        self.samples = VecDeque::from([(now, 0)]);
    }

    fn progress(&mut self, objects: u64, now: Instant) {
        self.samples.push_back((now, objects));
        // One sample before the span stays, so that the rate covers all of it.
        while self.samples.get(1).is_some_and(|(at, _)| now.duration_since(*at) > RATE_OVER) {
            self.samples.pop_front();
        }
    }

    fn end(&mut self, at: usize, ended: &Result<StepRecord, StepError>) {
        let so_far = self.observer.so_far();
        let Some(step) = self.steps.get_mut(at) else { return };
        step.state = match ended {
            Ok(record) => {
                let counters = record.counters.iter().map(|(name, count)| (name.as_str(), *count));
                let result = format!("{} in {}", record.outcome, Quantity::Seconds.show(record.seconds));
                StepState::Done { result, counters: shown_counters(counters) }
            }
            Err(error) => StepState::Done { result: "stopped".into(), counters: error.to_string() },
        };
        if !so_far.errors.is_empty() {
            self.errors.push(StepErrors { title: step.title.clone(), so_far });
        }
    }

    /// The lines that fit on a terminal: the current step always, then the others, then errors.
    fn lines(&self, now: Instant, width: usize, height: usize) -> Vec<String> {
        let done = self.steps.iter().filter(|step| matches!(step.state, StepState::Done { .. })).count();
        let time = clock(now.duration_since(self.begin));
        let mut lines =
            vec![format!("{}: {done} of {} steps done, {time}", self.run, self.steps.len()), String::new()];
        let errors = self.error_lines(width);
        // At least a third of the terminal is for errors, if there are so many.
        let room = height.saturating_sub(lines.len() + 1 + errors.len().min(height / 3)).max(2);
        let (mut steps, mut current) = self.step_lines(now, width);
        if steps.len() > room {
            // Without the counters of other steps, and with those around the current one.
            (steps, current) = self.step_lines(now, 0);
        }
        let first = (current + 1).saturating_sub(room / 2).min(steps.len().saturating_sub(room));
        lines.extend(steps.into_iter().skip(first).take(room));
        if !errors.is_empty() {
            lines.push(String::new());
            lines.extend(errors);
        }
        lines.truncate(height);
        lines.iter().map(|line| shortened(visible_line(line).trim_end(), width)).collect()
    }

    /// The lines of all steps, and the place of the current one. The counters of steps that ended are folded to
    /// `width`; they are left out if it is 0.
    fn step_lines(&self, now: Instant, width: usize) -> (Vec<String>, usize) {
        let title_width = self.steps.iter().map(|step| step.title.chars().count()).max().unwrap_or(0);
        let (mut lines, mut current) = (Vec::new(), None);
        for step in &self.steps {
            let title = format!("{:<title_width$}", step.title);
            match &step.state {
                StepState::ToCome => {
                    current = current.or(lines.len().checked_sub(1));
                    lines.push(format!("  to come  {title}"));
                }
                StepState::Done { result, counters } => {
                    lines.push(format!("  done     {title}  {result}"));
                    if width > 0 && !counters.is_empty() {
                        lines.extend(indented(counters, width));
                    }
                }
                StepState::Running => {
                    current = Some(lines.len());
                    let time = clock(now.duration_since(self.step_begin));
                    lines.push(format!("  running  {title}  {time}"));
                    lines.extend(indented(&self.rates(now), width.max(40)));
                    let counters = shown_counters(self.observer.so_far().counters.iter().copied());
                    // Always one line more, so that the steps below do not move.
                    lines.extend(indented(if counters.is_empty() { "-" } else { &counters }, width.max(40)));
                }
            }
        }
        let last = lines.len().saturating_sub(1);
        (lines, current.unwrap_or(last))
    }

    /// "12,000 objects, 5.1 k/s now, 4.9 k/s mean".
    fn rates(&self, now: Instant) -> String {
        let objects = self.samples.back().map_or(0, |(_, objects)| *objects);
        let time = now.duration_since(self.step_begin);
        let rate = |count: u64, time: Duration| match time.as_secs_f64() {
            seconds if seconds > 0.0 => Quantity::Rate("/s").show(count as f64 / seconds),
            _ => "-".into(),
        };
        let (since, before) = self.samples.front().copied().unwrap_or((self.step_begin, 0));
        format!(
            "{} objects, {} now, {} mean",
            thousands(objects as f64),
            rate(objects - before.min(objects), now.duration_since(since)),
            rate(objects, time)
        )
    }

    /// The errors in groups, those of the current step first, the most frequent first.
    fn error_lines(&self, width: usize) -> Vec<String> {
        let current = self.steps.iter().find(|step| step.state == StepState::Running);
        let current =
            current.map(|step| StepErrors { title: step.title.clone(), so_far: self.observer.so_far() });
        let mut lines = Vec::new();
        let mut total = 0;
        for StepErrors { title, so_far } in current.iter().chain(self.errors.iter().rev()) {
            let mut groups: Vec<_> = so_far.errors.iter().collect();
            groups.sort_by_key(|group| std::cmp::Reverse(group.count));
            for group in groups {
                let error = &group.example;
                let of = error.attribute.as_ref().map_or(String::new(), |name| format!(" of {name}"));
                let number = thousands(group.count as f64);
                lines.push(format!("  {number} x {title}: {}{of}", error.kind));
                lines.extend(indented(&format!("{}: {}", error.object, error.text), width));
                total += group.count;
            }
            total += so_far.more_errors;
        }
        if !lines.is_empty() {
            let errors = counted(total, "error");
            lines.insert(0, format!("{errors}; after the run, plimsoll metadir errors lists them"));
        }
        lines
    }
}

/// The columns of "  running  ".
const INDENT: usize = 11;

/// A text below the title of its step.
fn indented(text: &str, width: usize) -> Vec<String> {
    let lines = wrap(&visible_line(text), width.saturating_sub(INDENT).max(20));
    lines.into_iter().map(|line| format!("{:INDENT$}{line}", "")).collect()
}

fn shown_counters<'a>(counters: impl Iterator<Item = (&'a str, u64)>) -> String {
    let all: Vec<String> =
        counters.map(|(name, count)| format!("{} {name}", thousands(count as f64))).collect();
    all.join(", ")
}

/// A duration as `0:07`, `12:34`, `1:02:03`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(outcome: &str, counters: &[(&str, u64)]) -> Result<StepRecord, StepError> {
        Ok(StepRecord {
            outcome: outcome.into(),
            seconds: 0.25,
            counters: counters.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
            ..StepRecord::default()
        })
    }

    fn board() -> (Board, Instant) {
        let titles =
            ["staff full-import", "staff delta-synchronization", "phones export", "phones full-import"];
        let begin = Instant::now();
        let mut board = Board::new("full", &titles.map(String::from), begin);
        board.begin(0, begin);
        board.end(0, &record("success", &[("stage-add", 12_000), ("stage-no-change", 30_000)]));
        board.begin(1, begin + Duration::from_secs(3));
        board.progress(1_000, begin + Duration::from_secs(4));
        board.progress(7_000, begin + Duration::from_secs(13));
        (board, begin + Duration::from_secs(15))
    }

    #[test]
    fn the_board_shows_what_was_done_what_runs_and_what_comes() {
        let (board, now) = board();
        insta::assert_snapshot!(board.lines(now, 72, 24).join("\n"), @r"
        full: 1 of 4 steps done, 0:15

          done     staff full-import            success in 250 ms
                   12,000 stage-add, 30,000 stage-no-change
          running  staff delta-synchronization  0:12
                   7,000 objects, 545/s now, 583/s mean
                   -
          to come  phones export
          to come  phones full-import
        ");
    }

    #[test]
    fn the_current_step_and_the_errors_are_on_every_terminal() {
        let (mut board, now) = board();
        let titles: Vec<String> = (0..40).map(|at| format!("agent{at} full-import")).collect();
        let many = Board { steps: Board::new("x", &titles, now).steps, ..board };
        board = many;
        board.begin(30, now);
        let error = metadir::store::ObjectError {
            object: "E00017\u{1b}[2J".into(),
            kind: "flow-failure".into(),
            attribute: Some("mail".into()),
            text: "the value is not a text".into(),
        };
        let group = metadir::observer::ObservedErrors { count: 109, example: error };
        let so_far = StepSoFar { errors: vec![group; 9], ..StepSoFar::default() };
        board.errors.push(StepErrors { title: "agent3 full-import".into(), so_far });
        for (width, height) in [(60, 10), (80, 24), (200, 60), (20, 6)] {
            let lines = board.lines(now, width, height);
            assert!(lines.len() <= height && lines.iter().all(|line| line.chars().count() <= width));
            let text = lines.join("\n");
            assert!(text.contains("  running  agent30"), "{width} x {height}: {text}");
            assert!(!text.contains('\u{1b}'), "{text}");
            if height > 6 {
                assert!(text.contains("  109 x agent3 full-import: flow-failure of mail"), "{text}");
            }
        }
    }
}
