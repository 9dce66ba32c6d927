//! Synchronization: the rules bring staged changes into the metaverse, and from there to the other connector
//! spaces.
//!
//! Objects are processed in batches, in memory, object by object. A failure undoes the changes of its object
//! only. All changes of a batch are written and committed together. Deletions of connectors and metaverse
//! objects wait until all other work is done. Then their number is known, and a threshold stops the step
//! before the first deletion.
//!
//! References are synchronized to the other connector spaces afterwards, see [`references`].

mod ahead;
mod arena;
mod correlate;
mod exchange;
mod failed;
mod finish;
mod grace;
mod inbound;
mod index;
mod inflow;
mod lifecycle;
mod manual;
mod outbound;
mod recount;
mod references;
mod trace;
mod unique;
mod work;

use self::exchange::{Known, Loaded, LocalStore};
pub(crate) use self::index::{are_keys_built, is_indexed, renew};
pub(crate) use self::lifecycle::called;
use self::recount::Recounts;
pub use self::references::ReferenceValue;
pub(crate) use self::references::{given, given_by};
pub use self::trace::{ConnectedBy, Effect, FlowInOutcome, FlowOutOutcome, TraceEvent, ValuesOf};
use self::work::Work;
use crate::agent::Names;
use crate::config::Threshold;
use crate::object::{AgentId, CsId, CsObject, MvId};
use crate::observer::Observer;
use crate::rules::Rules;
use crate::stage::StepError;
use crate::statistics::Statistics;
use crate::store::{ObjectError, Store, StoreError};

/// What is done with the objects of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Task<'a> {
    /// They are synchronized.
    #[default]
    Synchronize,
    /// The same a second time in a step, after others gave up their names.
    SynchronizeAgain,
    /// They are joined to a metaverse object, and their filter no longer applies.
    Join(MvId),
    /// They are disconnected, and no synchronization connects them again.
    Disconnect,
    /// They are synchronized by the rules again.
    Release,
    /// The rules are applied to their metaverse objects with new numbers of references.
    Recount(&'a Recounts),
}

/// The result of a synchronization.
#[derive(Debug, Default)]
pub struct Synchronized {
    /// Counters.
    pub statistics: Statistics,
    /// The first objects that failed, with the reasons.
    pub failures: Vec<ObjectError>,
    /// Receives what is done.
    pub(crate) observer: Observer,
    /// Objects whose new connectors need names that others have. They are synchronized again at the end of the step.
    pub(crate) waiting: Vec<CsId>,
}

impl Synchronized {
    /// Adds a failure of an object.
    fn report(&mut self, failure: ObjectError) {
        self.observer.failed(|| failure.clone());
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(failure);
        }
    }

    /// Adds the result of a batch, which has all its failures.
    fn take(&mut self, of_batch: Synchronized) {
        self.statistics.add(&of_batch.statistics);
        of_batch.failures.iter().for_each(|error| self.observer.failed(|| error.clone()));
        self.observer.counted(&self.statistics);
        self.waiting.extend(of_batch.waiting);
        let room = FAILURES_KEPT.saturating_sub(self.failures.len());
        self.failures.extend(of_batch.failures.into_iter().take(room));
    }
}

/// Limit of the failures that are kept for display.
const FAILURES_KEPT: usize = 100;

/// Settings of a step.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of objects per commit.
    pub batch_objects: usize,
    /// Whether every object is processed, or only those with staged changes.
    pub full: bool,
    /// Limit of the deletions of metaverse objects.
    pub deletes: Threshold,
    /// The current time, seconds since 1970.
    pub now_unix_s: u64,
    /// Whether the metaverse loses the values of agents that are not in the configuration any more.
    pub recalls_removed: bool,
}

/// Synchronizes the objects of a connector space. `done` has what was reached, also after an error.
///
/// # Errors
/// When the store fails, a threshold is reached, or the step is interrupted. Committed work is kept.
pub(crate) fn synchronize(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    agent: AgentId,
    settings: Settings,
    done: &mut Synchronized,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), StepError> {
    let mut count = 0;
    let leaving = ahead::run(store, rules, names, agent, &settings, done, &mut |so_far| {
        count = so_far;
        progress(so_far)
    })?;
    // Checked before any deletion: at most as many metaverse objects can be deleted as objects are deferred.
    let most = settings.deletes.most(store.count_mv()?);
    if leaving.len() as u64 > most {
        return Err(too_many(leaving.len() as u64, most));
    }
    for part in leaving.chunks(settings.batch_objects) {
        let objects = store.cs(part)?;
        batch(store, rules, names, &settings, done, objects, true)?;
        if !progress(count) {
            return Err(StepError::Interrupted);
        }
    }
    // Now it is known who gives up a name.
    let waiting = std::mem::take(&mut done.waiting);
    for part in waiting.chunks(settings.batch_objects) {
        let objects = store.cs(part)?;
        let task = Task::SynchronizeAgain;
        carry_out(store, rules, names, &settings, task, done, objects, false, None)?;
        if !progress(count) {
            return Err(StepError::Interrupted);
        }
    }
    references::bring(store, rules, names, &settings, Some((leaving.len() as u64, most)), done, None)?;
    grace::end(store, rules, settings.now_unix_s, settings.batch_objects, done)?;
    Ok(())
}

/// The error of a step that would delete too much.
fn too_many(count: u64, most: u64) -> StepError {
    StepError::Threshold(format!(
        "{count} objects would be disconnected from the metaverse, more than the {most} that safety.synchronization allows; \
         `plimsoll metadir preview` with --allow-deletes {count} lists them, and `run` with it carries it out once"
    ))
}

/// Evaluates the references that are due, for a step that is no synchronization.
///
/// # Errors
/// When the store fails.
pub(crate) fn evaluate_references(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    batch_objects: usize,
    now_unix_s: u64,
) -> Result<(), StepError> {
    let deletes = Threshold { count: 0, share: 0.0 };
    let settings = Settings { batch_objects, full: false, deletes, now_unix_s, recalls_removed: false };
    // What would remove an object stays due for a synchronization, which counts it.
    references::bring(store, rules, names, &settings, None, &mut Synchronized::default(), None)
}

/// Synchronizes one object, including its deletions, or carries out another task with it. `trace` receives each
/// rule that is applied.
///
/// # Errors
/// When the store fails.
pub(crate) fn synchronize_one(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    settings: Settings,
    task: Task<'_>,
    object: CsObject,
    mut trace: Option<&mut Vec<TraceEvent>>,
) -> Result<Synchronized, StepError> {
    let mut done = Synchronized::default();
    let traced = trace.as_deref_mut();
    carry_out(store, rules, names, &settings, task, &mut done, vec![object], true, traced)?;
    if let Some(trace) = trace.as_deref_mut() {
        trace_references(store, rules, trace)?;
    }
    references::bring(store, rules, names, &settings, None, &mut done, trace)?;
    Ok(done)
}

/// Adds the references of the traced metaverse objects.
fn trace_references(
    store: &mut dyn Store,
    rules: &Rules,
    trace: &mut Vec<TraceEvent>,
) -> Result<(), StoreError> {
    let mut mvs: Vec<MvId> = trace.iter().filter_map(TraceEvent::flows_into).collect();
    mvs.sort_unstable();
    mvs.dedup();
    for mv in mvs {
        let given = given(store, rules, mv)?;
        for of_attribute in given.chunk_by(|one, other| one.attribute == other.attribute) {
            let Some(ReferenceValue { attribute, agent, .. }) = of_attribute.first().cloned() else {
                continue;
            };
            let to = of_attribute.iter().map(|value| value.to).collect();
            trace.push(TraceEvent::ReferencesIn { mv, attribute, agent, to });
        }
    }
    Ok(())
}

/// Synchronizes a batch of objects and commits it. Returns the objects whose deletions are deferred.
fn batch(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    settings: &Settings,
    done: &mut Synchronized,
    objects: Vec<CsObject>,
    may_leave: bool,
) -> Result<Vec<CsId>, StoreError> {
    let (leaving, _) =
        carry_out(store, rules, names, settings, Task::Synchronize, done, objects, may_leave, None)?;
    Ok(leaving)
}

/// Carries out a task with a batch of objects and commits it. Returns the objects whose deletions are deferred, and
/// those that failed.
///
/// The batch assumes that the anchors and names of new connectors are unused, and that no candidates have the
/// join keys that it asks for. It checks this at its end with one query. If it is wrong, the batch is
/// processed again with what the query found.
#[allow(clippy::too_many_arguments, reason = "everything that a batch depends on")]
fn carry_out(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    settings: &Settings,
    task: Task<'_>,
    done: &mut Synchronized,
    mut objects: Vec<CsObject>,
    may_leave: bool,
    mut trace: Option<&mut Vec<TraceEvent>>,
) -> Result<(Vec<CsId>, Vec<CsId>), StoreError> {
    let ids: Vec<CsId> = objects.iter().map(|object| object.id).collect();
    let numbers = store.ids();
    let mut known = Known::default();
    loop {
        let mut loaded = Loaded::of(store, rules, objects)?;
        loaded.add(store, &known)?;
        let mut here = LocalStore(&mut *store);
        let mut work = Work::new(&mut here, rules, names, settings, &numbers, &known);
        work.task = task;
        work.trace = trace.as_deref_mut();
        // Only the last attempt counts.
        work.trace.iter_mut().for_each(|trace| trace.clear());
        let worked = work.run(loaded, may_leave)?;
        let more = worked.outgoing.unknown(store, &known)?;
        if more.is_empty() {
            worked.outgoing.write(store)?;
            store.commit()?;
            done.take(worked.done);
            return Ok((worked.leaving, worked.failed));
        }
        known.extend(more);
        objects = store.cs(&ids)?;
    }
}
