//! The store of a metadirectory's state: connector spaces, metaverse, history.
//!
//! All reads and writes are in batches, so the cost per object does not grow with the directory. The pending
//! work of an object is stored with the object, so interrupted work continues after its last batch.

mod activity;
pub mod inspection;
mod postgres;
mod row;
mod sqlite;
mod standing;
pub mod trail;

pub use activity::{Activity, Announcer};
pub use postgres::Postgres;
pub use sqlite::Sqlite;
pub use trail::{Failure, Trail};

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::agent::DiscoveryError;
use crate::hologram::{Attribute, Damaged, Hash};
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId, CsObject, MvId, MvObject, PendingImport, Phase, Reference, State};
use crate::postgresql;

/// When a commit is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Immediately, also after a power failure.
    Full,
    /// Immediately after a crash of the process; a power failure may undo the last commits.
    Normal,
    /// When the kernel writes the data.
    Off,
}

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database reported an error.
    #[error("the store: {0}")]
    Database(rusqlite::Error),
    /// The disk with its file is full: its path, or what it is.
    #[error("the disk is full: {0} cannot grow; free some space and run it again: complete batches are kept")]
    Full(String),
    /// Its file cannot be created, or others than its owner may access it.
    #[error("the store: {0}")]
    File(std::io::Error),
    /// The server reported an error or cannot be reached.
    #[error("the store: PostgreSQL: {what}{}{help}", if help.is_empty() { "" } else { "; " })]
    Server {
        /// The error, in the words of the server if it has any.
        what: String,
        /// What to do; may be empty.
        help: &'static str,
    },
    /// Stored data is damaged.
    #[error("the store holds object {id} in a form that cannot be read: {damage}; restore it from a backup")]
    Damaged {
        /// The number of the object.
        id: i64,
        /// The damage.
        damage: Damaged,
    },
    /// A newer version created the store.
    #[error("the store has format {0} of a newer version of this program")]
    Newer(i64),
    /// An older version created the store.
    #[error(
        "the store has format {0} of an older version of this program; name another file or schema in \
        [store], and import again"
    )]
    Older(i64),
    /// Another process has the lock.
    #[error("another process uses this metadirectory; wait for it, or stop it")]
    Busy,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => StoreError::Full("the store".into()),
            _ => StoreError::Database(error),
        }
    }
}

impl From<postgresql::Failure> for StoreError {
    fn from(failure: postgresql::Failure) -> StoreError {
        match failure.is_locked {
            true => StoreError::Busy,
            false => StoreError::Server { what: failure.what, help: failure.help },
        }
    }
}

impl From<postgresql::Error> for StoreError {
    fn from(error: postgresql::Error) -> StoreError {
        postgresql::Failure::from(error).into()
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> StoreError {
        postgresql::Failure::from(error).into()
    }
}

impl From<&DiscoveryError> for ObjectError {
    /// Its object is the place.
    fn from(error: &DiscoveryError) -> ObjectError {
        ObjectError {
            object: error.place.clone(),
            kind: error.kind.into(),
            attribute: None,
            text: error.text.clone(),
        }
    }
}

/// The state of an existing object that staging needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its number.
    pub id: CsId,
    /// The hash of the synchronized image.
    pub synchronized: Option<Hash>,
    /// The hash of the pending import; none if there is none or the object was deleted.
    pub pending: Option<Hash>,
    /// Whether there is a pending import.
    pub is_pending: bool,
    /// Whether there is a pending export.
    pub is_exporting: bool,
    /// Whether its name differs from that of the synchronized image.
    pub is_renamed: bool,
    /// Whether metaverse objects find it by its join keys.
    pub has_join_keys: bool,
    /// The key of its name.
    pub name: Option<IndexKey>,
}

/// The key by which an object is found in its connector space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupKey {
    /// Its anchor.
    Anchor,
    /// Its name.
    Name,
}

/// An object that others may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceTarget {
    /// Its number.
    pub id: CsId,
    /// The key of its anchor, once it has one.
    pub anchor: Option<IndexKey>,
    /// The metaverse object that it is connected to.
    pub mv: Option<MvId>,
    /// Whether its system has it: false while it is provisioned and not yet sent.
    pub is_made: bool,
    /// The phase of its rename.
    pub rename: Option<Phase>,
}

/// A connector of a metaverse object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The metaverse object.
    pub mv: MvId,
    /// The connector.
    pub cs: CsId,
    /// Its agent.
    pub agent: AgentId,
    /// The key of its anchor, once it has one.
    pub anchor: Option<IndexKey>,
    /// The key of its name.
    pub name: Option<IndexKey>,
}

/// Selects objects of a connector space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    /// All.
    All,
    /// Those with a pending import, and those whose synchronization failed.
    Pending,
    /// Those with a change to be sent.
    Exporting,
    /// Those that metaverse objects find by join keys.
    Keyed,
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

/// A join key: the join rule, and the key of the value.
pub type Key = (u32, IndexKey);

/// A value by which metaverse objects are searched: the attribute, and the folded beginning of the value.
pub type SearchKey = (Attribute, Vec<u8>);

/// A generator of numbers that are never reused.
#[derive(Debug)]
pub struct Numbers(AtomicI64);

impl Numbers {
    /// Begins with this number.
    pub(crate) fn from(next: i64) -> Arc<Numbers> {
        Arc::new(Numbers(AtomicI64::new(next)))
    }

    /// Takes `count` consecutive numbers and returns the first.
    pub fn take(&self, count: usize) -> i64 {
        self.0.fetch_add(count as i64, Ordering::Relaxed)
    }

    /// Takes one number.
    pub(crate) fn next(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A store. Writes are visible to the same store immediately, and to others after [`Store::commit`].
pub trait Store: Send {
    /// What the store keeps beside the objects.
    fn trail(&mut self) -> &mut dyn Trail;

    /// The number of a name, which is assigned if the name is new.
    ///
    /// # Errors
    /// When the store fails.
    fn name(&mut self, kind: NameKind, name: &str) -> Result<u32, StoreError>;

    /// All names of a kind with their numbers.
    ///
    /// # Errors
    /// When the store fails.
    fn names(&mut self, kind: NameKind) -> Result<Vec<(u32, String)>, StoreError>;

    /// Gives a name's number to another name of the same kind. A number of the other name is dropped.
    ///
    /// # Errors
    /// When the store fails.
    fn rename(&mut self, kind: NameKind, from: &str, to: &str) -> Result<(), StoreError>;

    /// The preferred number of objects per call. It is small if the processor's cache should hold them, and
    /// as large as a commit if a round trip takes long.
    fn piece_objects(&self) -> usize {
        usize::MAX
    }

    /// The generator of numbers for new objects. Its state is stored with the next commit, so no number is
    /// reused.
    fn ids(&self) -> Arc<Numbers>;

    /// The state of the objects with these anchors, in the same order.
    ///
    /// # Errors
    /// When the store fails.
    fn heads(&mut self, agent: AgentId, anchors: &[IndexKey]) -> Result<Vec<Option<Head>>, StoreError>;

    /// The objects with these numbers, in ascending order of number; missing ones are left out.
    ///
    /// # Errors
    /// When the store fails.
    fn cs(&mut self, ids: &[CsId]) -> Result<Vec<CsObject>, StoreError>;

    /// The numbers of the next objects of a connector space after a number, in ascending order, up to a
    /// limit.
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

    /// The same as [`Self::ids_after`], with complete objects.
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

    /// The metaverse objects with these numbers; missing ones are left out.
    ///
    /// # Errors
    /// When the store fails.
    fn mv(&mut self, ids: &[MvId]) -> Result<Vec<MvObject>, StoreError>;

    /// The next metaverse objects after a number, in ascending order of number, up to a limit.
    ///
    /// # Errors
    /// When the store fails.
    fn mv_after(&mut self, after: MvId, most: usize) -> Result<Vec<MvObject>, StoreError>;

    /// Deletes all join keys of a rule.
    ///
    /// # Errors
    /// When the store fails.
    fn drop_keys(&mut self, rule: u32) -> Result<(), StoreError>;

    /// The metaverse objects with search keys of an attribute after one of its keys and before a value, in
    /// ascending order, up to a limit.
    ///
    /// # Errors
    /// When the store fails.
    fn search(
        &mut self,
        attribute: Attribute,
        after: (&[u8], MvId),
        before: &[u8],
        most: usize,
    ) -> Result<Vec<(Vec<u8>, MvId)>, StoreError>;

    /// Deletes all search keys.
    ///
    /// # Errors
    /// When the store fails.
    fn clear_search(&mut self) -> Result<(), StoreError>;

    /// Why the last synchronization or export of an object failed; none if it did not.
    ///
    /// # Errors
    /// When the store fails.
    fn failure(&mut self, id: CsId) -> Result<Option<String>, StoreError>;

    /// The metaverse objects with each of these join keys, in the same order.
    ///
    /// # Errors
    /// When the store fails.
    fn mv_with(&mut self, keys: &[Key]) -> Result<Vec<Vec<MvId>>, StoreError>;

    /// The connector space objects with each of these join keys, in the same order. Only objects that are not
    /// connected have join keys, see [`Write::JoinKeys`].
    ///
    /// # Errors
    /// When the store fails.
    fn cs_with(&mut self, keys: &[Key]) -> Result<Vec<Vec<CsId>>, StoreError>;

    /// The deprovisioned objects that are to be deleted until a time, with these times, the earliest first, up
    /// to a limit.
    ///
    /// # Errors
    /// When the store fails.
    fn deletions(&mut self, until_unix_s: u64, most: usize) -> Result<Vec<(CsId, u64)>, StoreError>;

    /// Whether any connector space object has join keys.
    ///
    /// # Errors
    /// When the store fails.
    fn has_join_keys(&mut self) -> Result<bool, StoreError>;

    /// The objects with these keys in a connector space, in the same order.
    ///
    /// # Errors
    /// When the store fails.
    fn find(
        &mut self,
        agent: AgentId,
        by: LookupKey,
        hashes: &[IndexKey],
    ) -> Result<Vec<Option<ReferenceTarget>>, StoreError>;

    /// The connectors of these metaverse objects, without their images and without deprovisioned ones. Each
    /// object must occur only once.
    ///
    /// # Errors
    /// When the store fails.
    fn links(&mut self, of: &[MvId]) -> Result<Vec<Link>, StoreError>;

    /// The references of these connector space objects, in ascending order of object, attribute and target.
    ///
    /// # Errors
    /// When the store fails.
    fn references(&mut self, of: &[CsId]) -> Result<Vec<Reference>, StoreError>;

    /// The number of references of each of these objects, in the same order.
    ///
    /// # Errors
    /// When the store fails.
    fn count_references(&mut self, of: &[CsId]) -> Result<Vec<u64>, StoreError>;

    /// The objects of a connector space that refer to one of these targets, in ascending order, each once.
    ///
    /// # Errors
    /// When the store fails.
    fn referring(&mut self, agent: AgentId, targets: &[IndexKey]) -> Result<Vec<CsId>, StoreError>;

    /// The first objects whose references must be evaluated, in ascending order, up to a limit.
    ///
    /// # Errors
    /// When the store fails.
    fn due(&mut self, most: usize) -> Result<Vec<CsId>, StoreError>;

    /// Writes the changes of a batch.
    ///
    /// # Errors
    /// When the store fails.
    fn write(&mut self, changes: &[Write]) -> Result<(), StoreError>;

    /// The number of imported objects in a connector space.
    ///
    /// # Errors
    /// When the store fails.
    fn count_imported(&mut self, agent: AgentId) -> Result<u64, StoreError>;

    /// The number of objects in the metaverse.
    ///
    /// # Errors
    /// When the store fails.
    fn count_mv(&mut self) -> Result<u64, StoreError>;

    /// The text that is stored under a name, such as the watermark of a source.
    ///
    /// # Errors
    /// When the store fails.
    fn note(&mut self, name: &str) -> Result<Option<String>, StoreError>;

    /// Stores a text under a name; none removes it.
    ///
    /// # Errors
    /// When the store fails.
    fn set_note(&mut self, name: &str, text: Option<&str>) -> Result<(), StoreError>;

    /// Stores the result of a step in the history.
    ///
    /// # Errors
    /// When the store fails.
    fn keep_step(&mut self, step: &StepRecord) -> Result<(), StoreError>;

    /// The last steps, newest first, up to a limit.
    ///
    /// # Errors
    /// When the store fails.
    fn history(&mut self, most: usize) -> Result<Vec<StepRecord>, StoreError>;

    /// The counts of a connector space.
    ///
    /// # Errors
    /// When the store fails.
    fn gauges(&mut self, agent: AgentId) -> Result<Gauges, StoreError>;

    /// A way to tell other processes what this one is doing, while the store is in use.
    ///
    /// # Errors
    /// When the store fails.
    fn announcer(&mut self) -> Result<Announcer, StoreError> {
        Ok(Announcer::default())
    }

    /// What the process that runs steps is doing; none if no process does.
    ///
    /// # Errors
    /// When the store fails.
    fn activity(&mut self) -> Result<Option<Activity>, StoreError> {
        Ok(None)
    }

    /// Commits all writes since the last commit atomically.
    ///
    /// # Errors
    /// When the store fails.
    fn commit(&mut self) -> Result<(), StoreError>;

    /// Discards all writes since the last commit.
    ///
    /// # Errors
    /// When the store fails.
    fn roll_back(&mut self) -> Result<(), StoreError>;
}

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepRecord {
    /// The number of the run that it belongs to; 0 if an earlier version stored it.
    pub number: u64,
    /// The name of the run.
    pub run: String,
    /// The user who started it; empty if unknown.
    pub user: String,
    /// The agent.
    pub agent: String,
    /// The kind of step: `full-import`.
    pub step: String,
    /// The start, seconds since 1970.
    pub started_unix_s: u64,
    /// The duration, seconds.
    pub seconds: f64,
    /// The outcome: `success`, `completed-discovery-errors`, `stopped-threshold`, ...
    pub outcome: String,
    /// The first errors; empty if there were none.
    pub text: String,
    /// Counters by name.
    pub counters: Vec<(String, u64)>,
    /// The first errors, in parts; the history does not have them.
    pub errors: Vec<ObjectError>,
}

/// An error of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectError {
    /// The name or anchor of the object, or the place in its source.
    pub object: String,
    /// The kind of error.
    pub kind: std::borrow::Cow<'static, str>,
    /// The attribute, if it is known.
    pub attribute: Option<String>,
    /// What went wrong.
    pub text: String,
}

/// The counts of a connector space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// All objects.
    pub objects: u64,
    /// Connectors: objects that are joined to a metaverse object.
    pub connectors: u64,
    /// Connectors that were joined by an administrator.
    pub explicit_connectors: u64,
    /// Disconnectors that each synchronization evaluates again.
    pub disconnectors: u64,
    /// Disconnectors that were disconnected by an administrator.
    pub explicit_disconnectors: u64,
    /// Deprovisioned objects.
    pub deprovisioned: u64,
    /// Objects that the filter excludes.
    pub filtered: u64,
    /// Pending imports: adds, updates, deletes.
    pub pending_imports: [u64; 3],
    /// Objects with a pending export.
    pub pending_exports: u64,
    /// Objects whose last synchronization or export failed.
    pub failures: u64,
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A new connector space object.
    NewCs(CsObject),
    /// All data of an existing connector space object.
    Cs(CsObject),
    /// The pending import of an existing object; none if the import showed its synchronized image.
    Staged {
        /// The object.
        id: CsId,
        /// The pending import.
        pending: Option<PendingImport>,
    },
    /// The pending import is synchronized.
    Synchronized {
        /// The object.
        id: CsId,
        /// Its new relation to the metaverse.
        state: State,
        /// The metaverse object that it is joined to.
        mv: Option<MvId>,
    },
    /// The join keys by which metaverse objects find an object; they replace the earlier ones. They are
    /// deleted when the object is connected, filtered or deleted.
    JoinKeys {
        /// The object.
        id: CsId,
        /// The keys.
        keys: Vec<Key>,
    },
    /// The time at which a deprovisioned object is to be deleted; none if it is not. The time is dropped when
    /// the object is no longer deprovisioned.
    DeleteAt {
        /// The object.
        id: CsId,
        /// The time, seconds since 1970.
        at_unix_s: Option<u64>,
    },
    /// A connector space object is deleted, together with its references.
    DeletedCs(CsId),
    /// A connector space object has a new name.
    Renamed {
        /// The object.
        id: CsId,
        /// The name.
        dn: String,
        /// The key of the name.
        name: Option<IndexKey>,
    },
    /// Another object took the name of an object.
    Unnamed(CsId),
    /// The new state of a reference; it is deleted if it is neither synchronized, imported nor pending.
    Reference(Reference),
    /// The imported references of an object are synchronized.
    SettledReferences(CsId),
    /// The pending reference changes of an object are dropped.
    UnwantedReferences(CsId),
    /// The references of an object, or references to it, must be evaluated.
    Due(CsId),
    /// The references were evaluated.
    Done(CsId),
    /// Its synchronization or export failed, with the reason; none clears the failure.
    Failure {
        /// The object.
        id: CsId,
        /// What went wrong.
        why: Option<Failure>,
    },
    /// A new metaverse object.
    NewMv(MvObject),
    /// All data of an existing metaverse object.
    Mv(MvObject),
    /// A metaverse object is deleted.
    DeletedMv(MvId),
    /// A metaverse object has a new join key.
    NewKey(Key, MvId),
    /// A metaverse object loses a join key.
    DeletedKey(Key, MvId),
    /// A metaverse object has a new search key.
    NewSearch(SearchKey, MvId),
    /// A metaverse object loses a search key.
    DeletedSearch(SearchKey, MvId),
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A rule failed although its attributes have values, or its result does not fit the type.
    Flow = 1,
    /// The join is ambiguous: more than one metaverse object matches.
    AmbiguousJoin = 2,
    /// The connected system refused the change.
    Export = 3,
    /// An import does not show the exported values.
    NotReimported = 4,
}

impl FailureKind {
    /// Its name, as counters have it.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Flow => "flow-failure",
            FailureKind::AmbiguousJoin => "ambiguous-join",
            FailureKind::Export => "export-failure",
            FailureKind::NotReimported => "exported-change-not-reimported",
        }
    }

    /// The kind with a stored number.
    pub(crate) fn of(number: i64) -> FailureKind {
        let kinds = [FailureKind::AmbiguousJoin, FailureKind::Export, FailureKind::NotReimported];
        kinds.into_iter().find(|kind| *kind as i64 == number).unwrap_or(FailureKind::Flow)
    }
}

/// What identifies a discovery error.
fn discovery_hash(error: &DiscoveryError) -> Hash {
    Hash::of(format!("{}\0{}\0{}", error.place, error.kind, error.text).as_bytes())
}

/// Limit of the bytes of a value in the search index.
pub(crate) const SEARCH_BYTES: usize = 64;

/// A value as the search index has it: without case, and of limited length.
pub(crate) fn search_value(value: &[u8]) -> Vec<u8> {
    let mut folded = fold(value).into_bytes();
    folded.truncate(SEARCH_BYTES);
    folded
}

/// A value without case. Bytes that are not text are replaced.
pub(crate) fn fold(value: &[u8]) -> String {
    String::from_utf8_lossy(value).to_lowercase()
}

/// Limit of the references in memory, exceeded only if a single object has more.
const REFERENCES_AT_ONCE: u64 = 100_000;

/// Divides objects into parts whose references fit into memory; one part if they have none.
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

/// The references of each of these objects.
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
