//! How long each state of a machine may last in which the coordinator waits for it. A machine that answers pings is never too
//! silent, so that only these deadlines end such a wait.

use model::{Nanos, SECOND};

use super::{Fleet, Machine, State};

/// How long a machine may take to be reached, and to have the program copied.
pub const JOIN_MAX: Nanos = 120 * SECOND;

/// How long a machine may take to check a load, after the last piece of a file that it requested.
const CHECK_MAX: Nanos = 120 * SECOND;

/// How long a machine may prepare a trial without a new report or a further piece of a file.
const QUIET_MAX: Nanos = 900 * SECOND;

/// How long it may prepare in all.
const PREPARE_MAX: Nanos = 48 * 3600 * SECOND;

/// How long a machine may take to set or undo a level: such a command has a limit of its own.
const ANSWER_MAX: Nanos = 300 * SECOND;

/// How long machines may take to end a trial that was called off, and an experiment.
const END_MAX: Nanos = 35 * SECOND;

/// How long they may take for it after the user stopped the run.
const HURRIED_MAX: Nanos = 10 * SECOND;

/// The most events and descriptions of failures of one trial, and the most columns of its counters.
pub(super) const REPORTS_MAX: usize = 100_000;
pub(super) const COLUMNS_MAX: usize = 200_000;

/// What the coordinator waits for.
struct Due {
    begun: Nanos,
    at: Nanos,
    /// What the machine did not do, after "it".
    missing: &'static str,
    /// Whether the coordinator still waits for it after the user stopped the run: something is ended or undone.
    cleans_up: bool,
}

/// What a machine has done since the coordinator began to wait for it.
#[derive(Debug, Default)]
pub(super) struct Since {
    /// When its state began.
    pub(super) begun: Nanos,
    /// When it last got on.
    pub(super) progress: Nanos,
    /// What it reported last.
    pub(super) reported: String,
    /// How long it may take to be reached.
    pub(super) join_max: Nanos,
    /// Bytes of files that it may still request.
    pub(super) files: u64,
    /// When its trial was called off.
    pub(super) called_off: Option<Nanos>,
    /// The open question about a factor, and when it was asked.
    pub(super) question: Option<(u64, Nanos)>,
    /// Events and failures of the trial that it reported, and columns of counters.
    pub(super) reports: usize,
    pub(super) columns: usize,
}

impl Machine {
    /// Begins a state in which the machine is waited for.
    pub(super) fn enter(&mut self, now: Nanos, state: State) {
        let since = &mut self.since;
        (since.begun, since.progress, since.called_off) = (now, now, None);
        since.reported.clear();
        self.state = state;
    }

    /// What is due in its state. All states are listed, so that a new one gets a deadline or a reason to have none.
    fn state_due(&self) -> Option<Due> {
        let Since { begun, progress, join_max, called_off, .. } = self.since;
        let due =
            |begun, at_most, missing, cleans_up| Some(Due { begun, at: begun + at_most, missing, cleans_up });
        match (&self.state, called_off) {
            (State::Joining, _) => due(progress, join_max, "was not reached", false),
            (State::Present, _) if !self.has_clock() => {
                due(progress, join_max, "did not report its clock", false)
            }
            (State::Checking, _) => due(progress, CHECK_MAX, "did not check the load", false),
            (State::Preparing | State::Ready | State::Running, Some(at)) => {
                due(at, END_MAX, "did not end its part of the trial", true)
            }
            (State::Preparing, None) if begun + PREPARE_MAX < progress + QUIET_MAX => {
                due(begun, PREPARE_MAX, "did not prepare the trial", false)
            }
            (State::Preparing, None) => {
                due(progress, QUIET_MAX, "reported nothing new about its preparation of the trial", false)
            }
            (State::Ending, _) => due(begun, END_MAX, "did not end", true),
            // The others are waited for, until theirs is over.
            (State::Ready, None) => None,
            // Its figures are due: see `Fleet::figures_due`.
            (State::Running, None) => None,
            (State::Present | State::Finished | State::Ended | State::Lost(_) | State::LeftOut, _) => None,
        }
    }

    fn answer_of_factor_due(&self) -> Option<Due> {
        let (_, asked) = self.since.question.filter(|_| !self.is_gone())?;
        let missing = "did not answer about a factor";
        Some(Due { begun: asked, at: asked + ANSWER_MAX, missing, cleans_up: true })
    }
}

impl Fleet {
    /// The user stopped the run: what is still ended and undone must not take long.
    pub fn hurry(&mut self, now: Nanos) {
        self.hurried.get_or_insert(now);
    }

    fn dues(&self, of: &Machine) -> impl Iterator<Item = Due> {
        let hurried = self.hurried;
        let dues = [of.state_due(), of.answer_of_factor_due()].into_iter().flatten();
        dues.map(move |due| match hurried.filter(|_| due.cleans_up) {
            Some(since) => Due { at: due.at.min(due.begun.max(since) + HURRIED_MAX), ..due },
            None => due,
        })
    }

    /// Finds the machines that did not do what the coordinator waits for.
    pub fn expire(&mut self, now: Nanos) {
        for machine in 0..self.machines.len() {
            let late = self.dues(&self.machines[machine]).find(|due| now > due.at);
            if let Some(Due { begun, at, missing, .. }) = late {
                let why =
                    format!("it {missing} within {} s", (at.saturating_sub(begun) + SECOND / 2) / SECOND);
                self.machines[machine].state = State::Lost(why);
            }
        }
    }
}
