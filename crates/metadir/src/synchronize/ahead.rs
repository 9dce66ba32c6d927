//! A pipeline of batches: while one is processed, the store writes the previous one and reads the next one.
//! One commit may contain several batches.
//!
//! A batch that is read ahead lacks the writes of the previous batch. Mostly these do not affect it; if they
//! do, it is read again after they are written.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

use super::exchange::{Known, Loaded, Lookup, Outgoing, Worked, Written};
use super::work::Work;
use super::{Settings, Synchronized, batch};
use crate::agent::Names;
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId, CsObject, MvId, MvObject};
use crate::rules::Rules;
use crate::stage::StepError;
use crate::store::{Key, LookupKey, Numbers, Population, ReferenceTarget, Store, StoreError};

type Question<'scope> = Box<dyn FnOnce(&mut dyn Store) + Send + 'scope>;

/// A store on its own thread, which answers one request after the other.
struct Remote<'scope>(Sender<Question<'scope>>);

/// A pending answer.
struct Answer<T>(Receiver<Result<T, StoreError>>);

impl<'scope> Remote<'scope> {
    fn new<'env>(scope: &'scope Scope<'scope, 'env>, store: &'scope mut dyn Store) -> Self {
        let (sender, questions) = channel::<Question<'scope>>();
        scope.spawn(move || questions.into_iter().for_each(|question| question(store)));
        Remote(sender)
    }

    fn ask<T: Send + 'scope>(
        &self,
        question: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 'scope,
    ) -> Answer<T> {
        let (sender, answer) = channel();
        // The receiver may be gone; a thread that ended sends no answer.
        let asked: Question<'scope> = Box::new(move |store| drop(sender.send(question(store))));
        let _ = self.0.send(asked);
        Answer(answer)
    }
}

impl<T> Answer<T> {
    fn wait(self) -> Result<T, StoreError> {
        let ended = || StoreError::Server { what: "its thread ended".into(), help: "" };
        self.0.recv().map_err(|_| ended())?
    }
}

impl Lookup for &Remote<'_> {
    fn mv_with(&mut self, key: Key) -> Result<Vec<MvId>, StoreError> {
        self.ask(move |store| Ok(store.mv_with(&[key])?.into_iter().flatten().collect())).wait()
    }

    fn mv_with_all(&mut self, keys: &[Key]) -> Result<Vec<Vec<MvId>>, StoreError> {
        let keys = keys.to_vec();
        self.ask(move |store| store.mv_with(&keys)).wait()
    }

    fn find(
        &mut self,
        agent: AgentId,
        by: LookupKey,
        keys: &[IndexKey],
    ) -> Result<Vec<Option<ReferenceTarget>>, StoreError> {
        let keys = keys.to_vec();
        self.ask(move |store| store.find(agent, by, &keys)).wait()
    }

    fn mv(&mut self, ids: &[MvId]) -> Result<Vec<MvObject>, StoreError> {
        let ids = ids.to_vec();
        self.ask(move |store| store.mv(&ids)).wait()
    }

    fn cs(&mut self, ids: &[CsId]) -> Result<Vec<CsObject>, StoreError> {
        let ids = ids.to_vec();
        self.ask(move |store| store.cs(&ids)).wait()
    }
}

/// A batch that is being written.
struct Writing {
    ids: Vec<CsId>,
    written: Written,
    /// Whether it is written: not if one of its assumptions is wrong. Contains the written
    /// data, so that the thread that allocated the memory frees it.
    is_written: Answer<(bool, Outgoing)>,
    /// Whether the commit includes it and the batches before.
    is_committed: bool,
    done: Synchronized,
    leaving: Vec<CsId>,
}

/// Synchronizes the objects of a connector space, batch by batch. Returns those whose deletions are deferred.
pub(super) fn run(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    agent: AgentId,
    settings: &Settings,
    done: &mut Synchronized,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<CsId>, StepError> {
    let ids = store.ids();
    let most = settings.batch_objects.min(store.piece_objects());
    std::thread::scope(|scope| {
        let remote = Remote::new(scope, store);
        let pipeline = Pipeline {
            remote: &remote,
            rules,
            names,
            agent,
            settings,
            ids: &ids,
            most,
            leaving: Vec::new(),
            count: 0,
            uncommitted: 0,
            done,
            progress,
        };
        pipeline.run()
    })
}

/// Batches on their way: one is read, one is processed, and one is written.
struct Pipeline<'a, 'scope> {
    remote: &'a Remote<'scope>,
    rules: &'scope Rules,
    names: &'scope Names,
    agent: AgentId,
    settings: &'scope Settings,
    ids: &'a Numbers,
    /// Number of objects of a batch.
    most: usize,
    leaving: Vec<CsId>,
    /// Number of finished objects.
    count: u64,
    /// Number of written but uncommitted objects.
    uncommitted: usize,
    done: &'a mut Synchronized,
    progress: &'a mut dyn FnMut(u64) -> bool,
}

impl Pipeline<'_, '_> {
    fn run(mut self) -> Result<Vec<CsId>, StepError> {
        let mut after = CsId(0);
        let mut writing: Option<Writing> = None;
        let mut ahead = self.read(after);
        let mut is_stale = false;
        loop {
            let mut loaded = ahead.wait()?;
            let Some(last) = loaded.last() else {
                // The batch that is being written may add objects.
                let Some(before) = writing.take() else { break };
                self.settle(before)?;
                ahead = self.read(after);
                continue;
            };
            after = last;
            ahead = self.read(after);
            let at_hand = loaded.ids();
            if is_stale || writing.as_ref().is_some_and(|before| loaded.is_touched_by(&before.written)) {
                loaded = self.read_again(at_hand.clone())?;
            }
            is_stale = false;
            let mut worked = self.work(loaded)?;
            if let Some(before) = writing.take()
                && !self.settle(before)?
            {
                is_stale = true;
                worked = self.work(self.read_again(at_hand.clone())?)?;
            }
            writing = Some(self.write(at_hand, worked));
        }
        self.remote.ask(|store| store.commit()).wait()?;
        match self.uncommitted == 0 || (self.progress)(self.count) {
            true => Ok(self.leaving),
            false => Err(StepError::Interrupted),
        }
    }

    fn read(&self, after: CsId) -> Answer<Loaded> {
        let (rules, agent, most) = (self.rules, self.agent, self.most);
        let population = if self.settings.full { Population::All } else { Population::Pending };
        self.remote.ask(move |store| {
            let objects = store.cs_after(agent, after, most, population)?;
            Loaded::of(store, rules, objects)
        })
    }

    fn read_again(&self, ids: Vec<CsId>) -> Result<Loaded, StoreError> {
        let rules = self.rules;
        let again = self.remote.ask(move |store| {
            let objects = store.cs(&ids)?;
            Loaded::of(store, rules, objects)
        });
        again.wait()
    }

    fn work(&self, loaded: Loaded) -> Result<Worked, StoreError> {
        let mut lookup = self.remote;
        Work::new(&mut lookup, self.rules, self.names, self.settings, self.ids, &Known::default())
            .run(loaded, false)
    }

    fn write(&mut self, ids: Vec<CsId>, worked: Worked) -> Writing {
        let Worked { done, leaving, written, outgoing, .. } = worked;
        self.uncommitted += ids.len();
        let is_committed = self.uncommitted >= self.settings.batch_objects;
        if is_committed {
            self.uncommitted = 0;
        }
        let is_written = self.remote.ask(move |store| {
            let is_free = outgoing.unknown(store, &Known::default())?.is_empty();
            if is_free {
                outgoing.write(store)?;
                if is_committed {
                    store.commit()?;
                }
            }
            Ok((is_free, outgoing))
        });
        Writing { ids, written, is_written, is_committed, done, leaving }
    }

    /// Waits for a batch that is being written. True if it was written unchanged; otherwise it was processed again with
    /// the data that was read since.
    fn settle(&mut self, before: Writing) -> Result<bool, StepError> {
        self.count += before.ids.len() as u64;
        let (is_written, _) = before.is_written.wait()?;
        let (of_batch, left) = if is_written {
            (before.done, before.leaving)
        } else {
            let (ids, rules, names, settings) = (before.ids, self.rules, self.names, self.settings);
            let again = self.remote.ask(move |store| {
                let mut done = Synchronized::default();
                let objects = store.cs(&ids)?;
                let leaving = batch(store, rules, names, settings, &mut done, objects, false)?;
                Ok((done, leaving))
            });
            again.wait()?
        };
        self.done.take(of_batch);
        self.leaving.extend(left);
        match !before.is_committed || (self.progress)(self.count) {
            true => Ok(is_written),
            false => Err(StepError::Interrupted),
        }
    }
}
