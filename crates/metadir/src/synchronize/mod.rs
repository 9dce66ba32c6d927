//! Synchronization: what was staged goes through the rules into the metaverse, and from there to the other connector spaces.
//!
//! Objects are taken in batches. A batch is worked on in memory, object by object; what fails is undone for its object alone.
//! What changed is written and committed together. What would take something away - a connector, an object of the
//! metaverse - waits until everything else is done and it is known how much that is, so that a threshold stops the step
//! before the first deletion.
//!
//! What objects refer to is brought to the other connector spaces when that is done, see [`references`].

mod ahead;
mod arena;
mod exchange;
mod failed;
mod outbound;
mod references;
mod work;

use self::exchange::{Here, Loaded};
pub use self::references::Given;
pub(crate) use self::references::given;
use self::work::Work;
use crate::agent::Names;
use crate::config::Threshold;
use crate::object::{AgentId, CsId, CsObject};
use crate::rules::Rules;
use crate::stage::StepError;
use crate::statistics::Statistics;
use crate::store::{Store, StoreError};

/// What a synchronization did.
#[derive(Debug, Default)]
pub struct Synchronized {
    /// Counters.
    pub statistics: Statistics,
    /// The first objects that failed, and why.
    pub failures: Vec<(CsId, String)>,
}

impl Synchronized {
    /// Takes what a batch did.
    fn take(&mut self, of_batch: Synchronized) {
        self.statistics.add(&of_batch.statistics);
        let room = FAILURES_KEPT.saturating_sub(self.failures.len());
        self.failures.extend(of_batch.failures.into_iter().take(room));
    }
}

/// Failures that are kept to be shown.
const FAILURES_KEPT: usize = 100;

/// Settings of a step.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Objects committed together.
    pub batch_objects: usize,
    /// Whether every object is looked at, or those with something staged.
    pub full: bool,
    /// Objects of the metaverse that may be deleted.
    pub deletes: Threshold,
    /// Now, seconds since 1970.
    pub now_unix_s: u64,
}

/// Synchronizes the objects of a connector space.
///
/// # Errors
/// When the store fails, a threshold is reached, or it is interrupted; what was committed stays.
pub(crate) fn synchronize(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    agent: AgentId,
    settings: Settings,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Synchronized, StepError> {
    let mut done = Synchronized::default();
    let mut count = 0;
    let leaving = ahead::run(store, rules, names, agent, &settings, &mut done, &mut |so_far| {
        count = so_far;
        progress(so_far)
    })?;
    // Counted before anything is taken away: what leaves can end at most as many objects.
    let most = settings.deletes.most(store.count_mv()?);
    if leaving.len() as u64 > most {
        return Err(StepError::Threshold(format!(
            "{} objects would leave the metaverse, more than the {most} that safety.synchronization allows; look at them, \
             and run it once with a larger number if that is right",
            leaving.len()
        )));
    }
    for part in leaving.chunks(settings.batch_objects) {
        let objects = store.cs(part)?;
        batch(store, rules, names, &settings, &mut done, objects, true)?;
        if !progress(count) {
            return Err(StepError::Interrupted);
        }
    }
    references::bring(store, rules, settings.batch_objects, &mut done)?;
    Ok(done)
}

/// Synchronizes one object, whatever that takes away.
///
/// # Errors
/// When the store fails.
pub(crate) fn synchronize_one(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    settings: Settings,
    object: CsObject,
) -> Result<Synchronized, StepError> {
    let mut done = Synchronized::default();
    batch(store, rules, names, &settings, &mut done, vec![object], true)?;
    references::bring(store, rules, settings.batch_objects, &mut done)?;
    Ok(done)
}

/// Synchronizes a batch of objects and commits it; those that would take something away and may not yet are answered.
///
/// That the anchors and names of new connectors are free is taken for granted until the batch is done, and then asked in one question; where
/// one is not, the batch is done again with that known.
fn batch(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    settings: &Settings,
    done: &mut Synchronized,
    mut objects: Vec<CsObject>,
    may_leave: bool,
) -> Result<Vec<CsId>, StoreError> {
    let ids: Vec<CsId> = objects.iter().map(|object| object.id).collect();
    let numbers = store.ids();
    let mut taken = foldhash::HashSet::default();
    loop {
        let loaded = Loaded::of(store, rules, objects)?;
        let mut here = Here(&mut *store);
        let work = Work::new(&mut here, rules, names, settings, &numbers, taken.clone());
        let worked = work.run(loaded, may_leave)?;
        let more = worked.outgoing.taken(store)?;
        if more.is_empty() {
            worked.outgoing.write(store)?;
            store.commit()?;
            done.take(worked.done);
            return Ok(worked.leaving);
        }
        taken.extend(more);
        objects = store.cs(&ids)?;
    }
}
