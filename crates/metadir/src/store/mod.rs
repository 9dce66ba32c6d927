//! Where the state of a metadirectory is kept: connector spaces, metaverse, history.
//!
//! Everything is asked and written in batches, so that the cost of an object does not grow with the directory. What is still to be
//! done of an object stands in the object, so that work that was cut off goes on after its last batch.

mod postgres;
mod row;
mod sqlite;
mod standing;

pub use postgres::{Postgres, Server};
pub(crate) use postgres::{chain, cut, help_of};
pub use sqlite::Sqlite;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::hologram::{Attribute, Damaged, Hash, Hologram};
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId, CsObject, MvId, MvObject, PendingImport, Phase, Reference, State};

/// Why a store did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused.
    #[error("the store: {0}")]
    Database(#[from] rusqlite::Error),
    /// Its file cannot be made, or is not for this user alone.
    #[error("the store: {0}")]
    File(std::io::Error),
    /// The server refused, or cannot be reached.
    #[error("the store: PostgreSQL: {what}{}{help}", if help.is_empty() { "" } else { "; " })]
    Server {
        /// What happened, in the words of the server where it has some.
        what: String,
        /// What to do; may be empty.
        help: &'static str,
    },
    /// What it holds is damaged.
    #[error("the store holds object {id} in a form that cannot be read: {damage}; restore it from a backup")]
    Damaged {
        /// Which object.
        id: i64,
        /// What is wrong with it.
        damage: Damaged,
    },
    /// It was made by a newer version.
    #[error("the store has format {0}, which a newer version of this program made")]
    Newer(i64),
    /// It was made by an older version.
    #[error(
        "the store has format {0}, which an older version of this program made; name another file or schema in [store], and import \
         into that"
    )]
    Older(i64),
    /// Another process works on it.
    #[error("another process works on this metadirectory; wait for it, or end it")]
    Busy,
}

/// What staging needs to know of an object that may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its number.
    pub id: CsId,
    /// The hash of what is synchronized.
    pub synchronized: Option<Hash>,
    /// The hash of what is imported and not yet synchronized; none when nothing is, or it is gone.
    pub pending: Option<Hash>,
    /// Whether something is imported and not yet synchronized.
    pub is_pending: bool,
    /// Whether a change is on its way to its system.
    pub is_exporting: bool,
    /// Whether it has another name than what is synchronized had.
    pub is_renamed: bool,
    /// What stands for its name.
    pub name: Option<IndexKey>,
}

/// What an object is found by in its connector space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Its anchor.
    Anchor,
    /// Its name.
    Name,
}

/// An object that others may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub id: CsId,
    /// What stands for its anchor, once it has one.
    pub anchor: Option<IndexKey>,
    /// The object of the metaverse it belongs to.
    pub mv: Option<MvId>,
    /// Whether its system has it: false as long as it was provisioned and not sent.
    pub is_made: bool,
    /// Where another name for it is on its way to its system.
    pub rename: Option<Phase>,
}

/// A connector of an object of the metaverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The object of the metaverse.
    pub mv: MvId,
    /// The connector.
    pub cs: CsId,
    /// Whose it is.
    pub agent: AgentId,
    /// What stands for its anchor, once it has one.
    pub anchor: Option<IndexKey>,
    /// What stands for its name.
    pub name: Option<IndexKey>,
}

/// Which objects of a connector space are gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    /// All.
    All,
    /// Those with something imported and not synchronized, and those whose synchronization failed.
    Pending,
    /// Those with something to be sent.
    Exporting,
}

/// A kind of name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// Of an attribute.
    Attribute = 0,
    /// Of an agent.
    Agent = 1,
    /// Of a type of the metaverse.
    Type = 2,
    /// Of a join rule.
    Key = 3,
}

/// A value by which objects of the metaverse are found: the join rule it serves, and the hash of the value.
pub type Key = (u32, IndexKey);

/// Numbers that are never given twice.
#[derive(Debug)]
pub struct Numbers(AtomicI64);

impl Numbers {
    /// Numbers from this one on.
    pub(crate) fn from(next: i64) -> Arc<Numbers> {
        Arc::new(Numbers(AtomicI64::new(next)))
    }

    /// So many numbers that follow each other: the first of them.
    pub fn take(&self, count: usize) -> i64 {
        self.0.fetch_add(count as i64, Ordering::Relaxed)
    }

    /// The next one.
    pub(crate) fn next(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A store. What is written is seen by the same store at once and by others after [`Store::commit`].
pub trait Store: Send {
    /// The number of a name, which is made when it is new.
    ///
    /// # Errors
    /// When the store fails.
    fn name(&mut self, kind: NameKind, name: &str) -> Result<u32, StoreError>;

    /// All names of a kind with their numbers.
    ///
    /// # Errors
    /// When the store fails.
    fn names(&mut self, kind: NameKind) -> Result<Vec<(u32, String)>, StoreError>;

    /// Objects that are best worked on together: few, where what they are stays in the processor's cache meanwhile; as many as are committed
    /// together, where a question takes long to come and go.
    fn piece_objects(&self) -> usize {
        usize::MAX
    }

    /// Where numbers for new objects come from. Those that were taken are kept with the next commit, so that none is given twice.
    fn ids(&self) -> Arc<Numbers>;

    /// What is known of the objects with these anchors, in their order.
    ///
    /// # Errors
    /// When the store fails.
    fn heads(&mut self, agent: AgentId, anchors: &[IndexKey]) -> Result<Vec<Option<Head>>, StoreError>;

    /// The objects with these numbers, in rising order of number; those that are not there are left out.
    ///
    /// # Errors
    /// When the store fails.
    fn cs(&mut self, ids: &[CsId]) -> Result<Vec<CsObject>, StoreError>;

    /// The numbers of the next objects of a connector space after one, in rising order, at most so many.
    ///
    /// # Errors
    /// When the store fails.
    fn ids_after(
        &mut self,
        agent: AgentId,
        after: CsId,
        most: usize,
        population: Population,
    ) -> Result<Vec<CsId>, StoreError>;

    /// These objects themselves.
    ///
    /// # Errors
    /// When the store fails.
    fn cs_after(
        &mut self,
        agent: AgentId,
        after: CsId,
        most: usize,
        population: Population,
    ) -> Result<Vec<CsObject>, StoreError> {
        let ids = self.ids_after(agent, after, most, population)?;
        self.cs(&ids)
    }

    /// The objects of the metaverse with these numbers; those that are not there are left out.
    ///
    /// # Errors
    /// When the store fails.
    fn mv(&mut self, ids: &[MvId]) -> Result<Vec<MvObject>, StoreError>;

    /// The objects of the metaverse with each of these values, in their order.
    ///
    /// # Errors
    /// When the store fails.
    fn mv_with(&mut self, keys: &[Key]) -> Result<Vec<Vec<MvId>>, StoreError>;

    /// What is found by each of these in a connector space, in their order.
    ///
    /// # Errors
    /// When the store fails.
    fn find(&mut self, agent: AgentId, by: By, hashes: &[IndexKey])
    -> Result<Vec<Option<Found>>, StoreError>;

    /// The connectors of these objects of the metaverse, each asked for once, without what they are.
    ///
    /// # Errors
    /// When the store fails.
    fn links(&mut self, of: &[MvId]) -> Result<Vec<Link>, StoreError>;

    /// What these objects of connector spaces refer to, in rising order of object, attribute and target.
    ///
    /// # Errors
    /// When the store fails.
    fn references(&mut self, of: &[CsId]) -> Result<Vec<Reference>, StoreError>;

    /// How many others each of these objects refers to, in their order.
    ///
    /// # Errors
    /// When the store fails.
    fn count_references(&mut self, of: &[CsId]) -> Result<Vec<u64>, StoreError>;

    /// The objects of a connector space that refer to one of these, in rising order, each once.
    ///
    /// # Errors
    /// When the store fails.
    fn referring(&mut self, agent: AgentId, targets: &[IndexKey]) -> Result<Vec<CsId>, StoreError>;

    /// The first objects whose references are to be looked at, at most so many, in rising order.
    ///
    /// # Errors
    /// When the store fails.
    fn due(&mut self, most: usize) -> Result<Vec<CsId>, StoreError>;

    /// Writes changes of a batch.
    ///
    /// # Errors
    /// When the store fails.
    fn write(&mut self, changes: &[Write]) -> Result<(), StoreError>;

    /// How many objects a connector space has that an import has shown.
    ///
    /// # Errors
    /// When the store fails.
    fn count_imported(&mut self, agent: AgentId) -> Result<u64, StoreError>;

    /// How many objects the metaverse has.
    ///
    /// # Errors
    /// When the store fails.
    fn count_mv(&mut self) -> Result<u64, StoreError>;

    /// A text that is kept under a name, such as the place up to which a source was read.
    ///
    /// # Errors
    /// When the store fails.
    fn note(&mut self, name: &str) -> Result<Option<String>, StoreError>;

    /// Keeps a text under a name; none removes it.
    ///
    /// # Errors
    /// When the store fails.
    fn set_note(&mut self, name: &str, text: Option<&str>) -> Result<(), StoreError>;

    /// Keeps what a step did, as a part of the history.
    ///
    /// # Errors
    /// When the store fails.
    fn keep_step(&mut self, step: &StepRecord) -> Result<(), StoreError>;

    /// The last steps, the newest first, at most so many.
    ///
    /// # Errors
    /// When the store fails.
    fn history(&mut self, most: usize) -> Result<Vec<StepRecord>, StoreError>;

    /// How a connector space stands.
    ///
    /// # Errors
    /// When the store fails.
    fn gauges(&mut self, agent: AgentId) -> Result<Gauges, StoreError>;

    /// Makes everything that was written since the last time safe, all or nothing of it.
    ///
    /// # Errors
    /// When the store fails.
    fn commit(&mut self) -> Result<(), StoreError>;

    /// Takes everything back that was written since the last commit.
    ///
    /// # Errors
    /// When the store fails.
    fn roll_back(&mut self) -> Result<(), StoreError>;
}

/// What a step did.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    /// The run it was a part of.
    pub run: String,
    /// The agent.
    pub agent: String,
    /// What was done: `full-import`.
    pub step: String,
    /// When it began, seconds since 1970.
    pub started_unix_s: u64,
    /// How long it took.
    pub seconds: f64,
    /// How it ended: `success`, `completed-discovery-errors`, `stopped-threshold`, ...
    pub outcome: String,
    /// What went wrong, the first of it; empty when nothing did.
    pub text: String,
    /// Counters by name.
    pub counters: Vec<(String, u64)>,
}

/// How a connector space stands: numbers of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// All.
    pub objects: u64,
    /// Those that belong to an object of the metaverse.
    pub connectors: u64,
    /// Those that do not, but for the filtered.
    pub disconnectors: u64,
    /// Those that the filter keeps out.
    pub filtered: u64,
    /// Imported and not synchronized: new, changed, gone.
    pub pending_imports: [u64; 3],
    /// With a change that is on its way to their system.
    pub pending_exports: u64,
    /// Whose last synchronization or export failed.
    pub failures: u64,
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// An object of a connector space, new.
    NewCs(CsObject),
    /// An object of a connector space, as it is now in all its parts.
    Cs(CsObject),
    /// What an import brought for an object that is there; none when it brought back what is synchronized.
    Staged {
        /// The object.
        id: CsId,
        /// What it brought.
        pending: Option<PendingImport>,
    },
    /// What was imported is synchronized.
    Synchronized {
        /// The object.
        id: CsId,
        /// How it now stands to the metaverse.
        state: State,
        /// The object of the metaverse it belongs to.
        mv: Option<MvId>,
    },
    /// An object of a connector space is no more, and with it what it refers to.
    DeletedCs(CsId),
    /// An object of a connector space has a name that it did not have.
    Renamed {
        /// The object.
        id: CsId,
        /// The name.
        dn: String,
        /// What stands for it.
        name: Option<IndexKey>,
    },
    /// Another object bears the name of an object.
    Unnamed(CsId),
    /// An object refers to another, as it is known now; it does no longer when nothing is known of it.
    Reference(Reference),
    /// What an import showed that an object refers to is synchronized.
    SettledReferences(CsId),
    /// Nothing is to be changed any more in what an object refers to.
    UnwantedReferences(CsId),
    /// What an object refers to, or what is made of it, is to be looked at.
    Due(CsId),
    /// It was looked at.
    Done(CsId),
    /// Its synchronization or export failed, and why; none when it no longer does.
    Failure {
        /// The object.
        id: CsId,
        /// The kind of failure and what went wrong.
        why: Option<(FailureKind, String)>,
    },
    /// An object of the metaverse, new.
    NewMv(MvObject),
    /// An object of the metaverse, as it is now.
    Mv(MvObject),
    /// An object of the metaverse is no more.
    DeletedMv(MvId),
    /// An object of the metaverse has a value by which it is found.
    NewKey(Key, MvId),
    /// It has it no longer.
    DeletedKey(Key, MvId),
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A rule gave no value where it had all it needed, or one that does not fit.
    Flow = 1,
    /// More than one object of the metaverse could be joined.
    AmbiguousJoin = 2,
    /// The connected system refused the change.
    Export = 3,
    /// An import shows something else than what was exported.
    NotReimported = 4,
}

/// The key by which a value is found, for rules that compare values.
pub fn value_key(value: &[u8], ignore_case: bool) -> IndexKey {
    match (ignore_case, std::str::from_utf8(value)) {
        (true, Ok(text)) => IndexKey::of(text.to_lowercase().as_bytes()),
        _ => IndexKey::of(value),
    }
}

/// The values of an attribute as keys of a rule.
pub fn keys_of(rule: u32, image: &Hologram, attribute: Attribute, ignore_case: bool) -> Vec<Key> {
    let values = image.get(attribute);
    values
        .into_iter()
        .flat_map(|values| values.iter())
        .map(|value| (rule, value_key(value, ignore_case)))
        .collect()
}

/// References that are held in memory together; more only when one object has them.
const REFERENCES_AT_ONCE: u64 = 100_000;

/// Objects in parts that can be worked on with all they refer to; in one part when they refer to nothing.
///
/// # Errors
/// When the store fails.
pub(crate) fn parts<'a>(
    store: &mut dyn Store,
    ids: &'a [CsId],
    refer: bool,
) -> Result<Vec<&'a [CsId]>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let counts = if refer { store.count_references(ids)? } else { vec![0; ids.len()] };
    let (mut parts, mut begin, mut sum) = (Vec::new(), 0, 0);
    for (at, count) in counts.iter().enumerate() {
        if sum + count > REFERENCES_AT_ONCE && at > begin {
            parts.push(&ids[begin..at]);
            (begin, sum) = (at, 0);
        }
        sum += count;
    }
    parts.push(&ids[begin..]);
    Ok(parts)
}

/// What each of these objects refers to.
///
/// # Errors
/// When the store fails.
pub(crate) fn of_each(
    store: &mut dyn Store,
    ids: &[CsId],
    refer: bool,
) -> Result<std::collections::HashMap<CsId, Vec<Reference>>, StoreError> {
    let mut of_each = std::collections::HashMap::<CsId, Vec<Reference>>::new();
    if refer {
        for reference in store.references(ids)? {
            of_each.entry(reference.cs).or_default().push(reference);
        }
    }
    Ok(of_each)
}
