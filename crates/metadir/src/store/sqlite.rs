//! A store in a SQLite file.

mod inspect;
mod read;
mod schema;
mod trail;
mod write;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use self::read::for_ids;
use self::schema::{CS_COLUMNS, JOIN_KEYS, MV_COLUMNS, SCHEMA, SEARCH};
use self::trail::CHANGE_LOG;
use self::write::Statements;
use super::row::{
    CsRow, connectors_from, counters_of, counters_text, export_from, found, head, image_from, mv_object,
    not_beyond, reference, seconds,
};
use super::standing::{PAGES_AT_ONCE, Pages, page_of, pages_for};
use super::{
    Activity, Announcer, Gauges, Head, Key, Link, LookupKey, NameKind, Numbers, Population, ReferenceTarget,
    StepRecord, Store, StoreError, Trail, Write, activity, trail::Origin,
};
use crate::hologram::{Attribute, Hash, Hologram};
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId, CsObject, MvId, MvObject, Reference};
use crate::store::Durability;

/// The format of the file.
const FORMAT: i64 = 5;
/// The formats that are upgraded, each with what later formats have in addition.
const UPGRADED: [(i64, &[&str]); 2] = [(3, &[JOIN_KEYS, CHANGE_LOG, SEARCH]), (4, &[CHANGE_LOG, SEARCH])];
/// The page size of the file, bytes.
const PAGE_BYTES: i64 = 8192;
/// The size of the write-ahead log at which it is checkpointed, bytes.
const LOG_BYTES: i64 = 256 << 20;
/// Number of objects per call.
const PIECE_OBJECTS: usize = 1000;
/// Size of the cache of prepared statements.
const STATEMENTS: usize = 64;

/// A store in a file.
#[derive(Debug)]
pub struct Sqlite {
    connection: Connection,
    standing: Pages,
    ids: Arc<Numbers>,
    /// Number of metaverse objects.
    mv_count: i64,
    in_transaction: bool,
    /// Whether a transaction was begun for reading only.
    is_reading: bool,
    origin: Origin,
    /// The locked file that excludes other writers; none for a reader, or in memory.
    lock: Option<File>,
    /// The path, if the store is in a file.
    path: Option<PathBuf>,
    /// Of a reader: the numbers of names that the store does not have.
    unknown: Option<HashMap<(i64, String), u32>>,
}

/// How long a statement waits while another process recovers the log or closes the store.
const BUSY_WAIT: Duration = Duration::from_secs(2);

impl Sqlite {
    /// Opens the store in a file. The file is created if it does not exist, and only its owner can access it.
    ///
    /// # Errors
    /// When the file cannot be opened, belongs to another user, has a newer format, or is used by another
    /// process.
    pub fn open(path: &Path, durability: Durability, cache_bytes: u64) -> Result<Sqlite, StoreError> {
        // SQLite would create it with the process's umask; the log files get the mode of the database file.
        let path = files::private::file(path).map_err(StoreError::File)?;
        let lock = activity::lock(&path)?;
        let connection = Connection::open(&path)?;
        connection.busy_timeout(BUSY_WAIT)?;
        let store = Sqlite::with(connection, durability, cache_bytes)?;
        Ok(Sqlite { lock: Some(lock), path: Some(path), ..store })
    }

    /// A store with tables.
    fn of(connection: Connection) -> Result<Sqlite, StoreError> {
        let mut store = Sqlite {
            connection,
            standing: Pages::default(),
            ids: Numbers::from(1),
            mv_count: 0,
            in_transaction: false,
            is_reading: false,
            origin: Origin::default(),
            lock: None,
            path: None,
            unknown: None,
        };
        store.ids = Numbers::from(store.meta("next_id")?.unwrap_or(1));
        store.mv_count = store.meta("mv_count")?.unwrap_or(0);
        Ok(store)
    }

    /// Opens a store in memory, for tests.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn in_memory() -> Result<Sqlite, StoreError> {
        Sqlite::with(Connection::open_in_memory()?, Durability::Off, 1 << 24)
    }

    fn with(connection: Connection, durability: Durability, cache_bytes: u64) -> Result<Sqlite, StoreError> {
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // For a new file: with large pages, a batch touches and writes fewer of them.
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(busy)?;
        Sqlite::set(&connection, durability, cache_bytes)?;
        let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match format {
            0 => {
                connection.execute_batch(&format!(
                    "BEGIN IMMEDIATE; {SCHEMA} {JOIN_KEYS} {CHANGE_LOG} {SEARCH} PRAGMA user_version = {FORMAT}; COMMIT;"
                ))?;
            }
            FORMAT => {}
            other => {
                let Some((_, added)) = UPGRADED.iter().find(|(format, _)| *format == other) else {
                    let error = if other < FORMAT { StoreError::Older } else { StoreError::Newer };
                    return Err(error(other));
                };
                let added = added.concat();
                let upgrade = format!("BEGIN IMMEDIATE; {added} PRAGMA user_version = {FORMAT}; COMMIT;");
                connection.execute_batch(&upgrade).map_err(busy)?;
            }
        }
        Sqlite::of(connection)
    }

    /// The settings of a connection, which the file does not keep.
    fn set(connection: &Connection, durability: Durability, cache_bytes: u64) -> Result<(), StoreError> {
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
            Durability::Off => "OFF",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        // A page that several batches change is written to the file once.
        connection.pragma_update(None, "wal_autocheckpoint", LOG_BYTES / PAGE_BYTES)?;
        connection.pragma_update(None, "cache_size", -((cache_bytes / 1024) as i64))?;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        if !self.in_transaction {
            // One that was begun for reading becomes a writing one at its first write: nobody else writes.
            if !std::mem::take(&mut self.is_reading) {
                self.connection.execute_batch("BEGIN IMMEDIATE").map_err(busy)?;
            }
            self.in_transaction = true;
        }
        Ok(())
    }

    /// Begins a transaction for many reads, each of which would otherwise lock the file.
    fn begin_to_read(&mut self) -> Result<(), StoreError> {
        if !self.in_transaction && !self.is_reading && self.unknown.is_none() {
            self.connection.execute_batch("BEGIN").map_err(busy)?;
            self.is_reading = true;
        }
        Ok(())
    }

    fn meta(&self, name: &str) -> Result<Option<i64>, StoreError> {
        let kept = "SELECT value FROM meta WHERE name = ?1";
        Ok(self.connection.query_row(kept, [name], |row| row.get(0)).optional()?)
    }

    /// Loads the state pages of objects into memory.
    fn load_states(&mut self, ids: impl IntoIterator<Item = CsId>) -> Result<(), StoreError> {
        let missing = self.standing.missing(ids);
        let mut had = Vec::with_capacity(missing.len());
        for_ids(&self.connection, "SELECT page, cells FROM standing WHERE page", &missing, |row| {
            had.push((row.get(0)?, row.get(1)?));
            Ok(())
        })?;
        self.standing.take(&missing, &had)
    }

    /// Writes the changed state pages.
    fn keep_standing(&mut self) -> Result<(), StoreError> {
        let changed = self.standing.changed();
        if changed.is_empty() {
            return Ok(());
        }
        let mut statement = self
            .connection
            .prepare_cached("INSERT OR REPLACE INTO standing (page, cells) VALUES (?1, ?2)")?;
        for (number, cells) in changed {
            statement.execute(params![number, cells])?;
        }
        Ok(())
    }

    /// Visits the state pages from a number on until `visit` ends it. The first read has a given number of
    /// pages.
    fn each_page(
        &mut self,
        from: i64,
        at_once: usize,
        each: impl FnMut(&Pages, i64) -> bool,
    ) -> Result<(), StoreError> {
        self.keep_standing()?;
        let mut statement = self
            .connection
            .prepare_cached("SELECT page, cells FROM standing WHERE page >= ?1 ORDER BY page LIMIT ?2")?;
        let read = |next, most: usize| {
            let rows =
                statement.query_map(params![next, most as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        self.standing.each_page(from, at_once, !self.in_transaction, read, each)
    }

    /// The rows of objects, by the text before `IN`, or between two numbers if they are consecutive.
    fn cs_rows(
        &self,
        ids: &[i64],
        mut each: impl FnMut(CsRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut scattered = Vec::new();
        for run in ids.chunk_by(|one, other| one + 1 == *other) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            if run.len() < RUN {
                scattered.extend_from_slice(run);
                continue;
            }
            let mut statement = self.connection.prepare_cached(&format!(
                "SELECT {CS_COLUMNS} FROM cs WHERE id BETWEEN ?1 AND ?2 ORDER BY id"
            ))?;
            let mut rows = statement.query([first, last])?;
            while let Some(row) = rows.next()? {
                each(cs_row(row)?)?;
            }
        }
        for_ids(&self.connection, &format!("SELECT {CS_COLUMNS} FROM cs WHERE id"), &scattered, |row| {
            each(cs_row(row)?)
        })
    }

    /// The indexes of the keys that may exist, see [`not_beyond`].
    fn not_beyond(
        &self,
        highest: &str,
        of: u32,
        keys: impl Iterator<Item = IndexKey>,
    ) -> Result<Vec<usize>, StoreError> {
        not_beyond(keys, || Ok(self.connection.prepare_cached(highest)?.query_row([of], |row| row.get(0))?))
    }

    /// The numbers that a statement finds for each join key in a table.
    fn with_keys<T>(
        &self,
        select: &str,
        table: &str,
        keys: &[Key],
        id: impl Fn(i64) -> T + Copy,
    ) -> Result<Vec<Vec<T>>, StoreError> {
        let mut found: Vec<Vec<T>> = keys.iter().map(|_| Vec::new()).collect();
        let mut rules: Vec<u32> = keys.iter().map(|(rule, _)| *rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let mut statement = self.connection.prepare_cached(select)?;
        let highest = format!("SELECT max(hash) FROM {table} WHERE rule = ?1");
        for rule in rules {
            let of_rule: Vec<usize> = (0..keys.len()).filter(|at| keys[*at].0 == rule).collect();
            let hashes = of_rule.iter().map(|at| keys[*at].1);
            for place in self.not_beyond(&highest, rule, hashes)? {
                let at = of_rule[place];
                let rows = statement.query_map(params![rule, keys[at].1], |row| Ok(id(row.get(0)?)))?;
                found[at] = rows.collect::<Result<Vec<_>, _>>()?;
            }
        }
        Ok(found)
    }

    /// The synchronized images of these objects that are not in their own rows.
    fn before(&self, ids: &[i64]) -> Result<HashMap<i64, Hologram>, StoreError> {
        let mut before = HashMap::new();
        for_ids(&self.connection, "SELECT cs, image FROM before WHERE cs", ids, |row| {
            let id = row.get(0)?;
            before.insert(id, image_from(id, row.get_ref(1)?.as_blob().unwrap_or_default())?);
            Ok(())
        })?;
        Ok(before)
    }
}

fn busy(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => StoreError::Busy,
        _ => error.into(),
    }
}

fn cs_row(row: &Row<'_>) -> Result<CsRow, StoreError> {
    let id = row.get(0)?;
    let blob = |at: usize| -> Result<Option<&[u8]>, StoreError> {
        Ok(row.get_ref(at)?.as_blob_or_null().map_err(rusqlite::Error::from)?)
    };
    Ok(CsRow {
        id,
        anchor: row.get(1)?,
        dn: row.get(2)?,
        name: row.get(3)?,
        image: blob(4)?.map(|bytes| image_from(id, bytes)).transpose()?,
        export: blob(5)?.map(|bytes| export_from(id, bytes)).transpose()?,
    })
}

fn mv_row(row: &Row<'_>) -> Result<MvObject, StoreError> {
    let lineage = row.get_ref(3)?.as_blob().unwrap_or_default();
    let connectors = row.get_ref(4)?.as_blob().unwrap_or_default();
    let image = row.get_ref(2)?.as_blob().unwrap_or_default();
    mv_object(row.get(0)?, row.get(1)?, image, lineage, connectors)
}

/// The number of a found object, the key of its anchor, and the beginning of its pending export.
type FoundRow = (i64, Option<IndexKey>, Option<Vec<u8>>);

/// Number of consecutive object numbers from which on they are read as a range.
const RUN: usize = 16;
fn hash(bytes: Option<[u8; 16]>) -> Option<Hash> {
    bytes.map(Hash)
}

impl ToSql for IndexKey {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_bytes().into())
    }
}

impl FromSql for IndexKey {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        IndexKey::from_bytes(value.as_blob()?).ok_or(FromSqlError::InvalidType)
    }
}

impl Store for Sqlite {
    fn trail(&mut self) -> &mut dyn Trail {
        self
    }

    fn name(&mut self, kind: NameKind, name: &str) -> Result<u32, StoreError> {
        let known = "SELECT id FROM name WHERE kind = ?1 AND text = ?2";
        let found =
            self.connection.query_row(known, params![kind as i64, name], |row| row.get(0)).optional()?;
        if let Some(id) = found {
            return Ok(id);
        }
        if let Some(unknown) = &mut self.unknown {
            // A reader assigns numbers that no object has.
            let number = u32::MAX - unknown.len() as u32;
            return Ok(*unknown.entry((kind as i64, name.into())).or_insert(number));
        }
        self.begin()?;
        let made = "INSERT INTO name (kind, id, text) SELECT ?1, coalesce(max(id), 0) + 1, ?2 FROM name WHERE kind = ?1 \
                    RETURNING id";
        Ok(self.connection.query_row(made, params![kind as i64, name], |row| row.get(0))?)
    }

    fn names(&mut self, kind: NameKind) -> Result<Vec<(u32, String)>, StoreError> {
        let mut statement =
            self.connection.prepare("SELECT id, text FROM name WHERE kind = ?1 ORDER BY id")?;
        let rows = statement.query_map([kind as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn rename(&mut self, kind: NameKind, from: &str, to: &str) -> Result<(), StoreError> {
        self.begin()?;
        let kind = kind as i64;
        self.connection.execute("DELETE FROM name WHERE kind = ?1 AND text = ?2", params![kind, to])?;
        self.connection
            .execute("UPDATE name SET text = ?3 WHERE kind = ?1 AND text = ?2", params![kind, from, to])?;
        Ok(())
    }

    fn piece_objects(&self) -> usize {
        PIECE_OBJECTS
    }

    fn ids(&self) -> Arc<Numbers> {
        Arc::clone(&self.ids)
    }

    fn heads(&mut self, agent: AgentId, anchors: &[IndexKey]) -> Result<Vec<Option<Head>>, StoreError> {
        self.begin_to_read()?;
        let mut rows = vec![None; anchors.len()];
        let highest = "SELECT max(anchor) FROM cs WHERE agent = ?1 AND anchor IS NOT NULL";
        let known = self.not_beyond(highest, agent.0, anchors.iter().copied())?;
        {
            let mut statement = self
                .connection
                .prepare_cached("SELECT id, hash, name FROM cs WHERE agent = ?1 AND anchor = ?2")?;
            for at in known {
                let row = statement.query_row(params![agent.0, anchors[at]], |row| {
                    Ok((row.get::<_, i64>(0)?, hash(row.get(1)?), row.get::<_, Option<IndexKey>>(2)?))
                });
                rows[at] = row.optional()?;
            }
        }
        self.load_states(rows.iter().flatten().map(|(id, ..)| CsId(*id)))?;
        let ids = rows.iter().flatten().map(|(id, ..)| *id);
        let moved: Vec<i64> = ids.filter(|id| self.standing.of(CsId(*id)).has_before()).collect();
        let mut before = HashMap::new();
        for_ids(&self.connection, "SELECT cs, hash FROM before WHERE cs", &moved, |row| {
            before.insert(row.get::<_, i64>(0)?, Hash(row.get(1)?));
            Ok(())
        })?;
        let known =
            |(id, hash, name)| head(id, self.standing.of(CsId(id)), hash, before.get(&id).copied(), name);
        Ok(rows.into_iter().map(|row| row.map(known)).collect())
    }

    fn cs(&mut self, ids: &[CsId]) -> Result<Vec<CsObject>, StoreError> {
        let mut ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        ids.sort_unstable();
        ids.dedup();
        self.load_states(ids.iter().copied().map(CsId))?;
        let is_moved = |id: &&i64| self.standing.of(CsId(**id)).has_before();
        let moved: Vec<i64> = ids.iter().filter(is_moved).copied().collect();
        let mut before = self.before(&moved)?;
        let mut found = Vec::with_capacity(ids.len());
        self.cs_rows(&ids, |row| {
            let (cell, before) = (self.standing.of(CsId(row.id)), before.remove(&row.id));
            found.push(row.into_object(cell, before)?);
            Ok(())
        })?;
        found.sort_by_key(|object| object.id);
        Ok(found)
    }

    fn ids_after(
        &mut self,
        agent: AgentId,
        after: CsId,
        most: usize,
        population: Population,
    ) -> Result<Vec<CsId>, StoreError> {
        let mut ids = Vec::new();
        self.each_page(page_of(CsId(after.0 + 1)), pages_for(most), |standing, number| {
            let room = most - ids.len();
            ids.extend(standing.among(number, after, agent, population).take(room));
            ids.len() < most
        })?;
        Ok(ids)
    }

    fn mv(&mut self, ids: &[MvId]) -> Result<Vec<MvObject>, StoreError> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let mut found = Vec::with_capacity(ids.len());
        for_ids(&self.connection, &format!("SELECT {MV_COLUMNS} FROM mv WHERE id"), &ids, |row| {
            found.push(mv_row(row)?);
            Ok(())
        })?;
        found.sort_by_key(|object| object.id);
        Ok(found)
    }

    fn mv_after(&mut self, after: MvId, most: usize) -> Result<Vec<MvObject>, StoreError> {
        self.mvs_after(after, most)
    }

    fn drop_keys(&mut self, rule: u32) -> Result<(), StoreError> {
        self.begin()?;
        self.connection.execute("DELETE FROM mv_key WHERE rule = ?1", [rule])?;
        Ok(())
    }

    fn mv_with(&mut self, keys: &[Key]) -> Result<Vec<Vec<MvId>>, StoreError> {
        self.with_keys(
            "SELECT mv FROM mv_key WHERE rule = ?1 AND hash = ?2 ORDER BY mv",
            "mv_key",
            keys,
            MvId,
        )
    }

    fn cs_with(&mut self, keys: &[Key]) -> Result<Vec<Vec<CsId>>, StoreError> {
        self.with_keys(
            "SELECT cs FROM cs_key WHERE rule = ?1 AND hash = ?2 ORDER BY cs",
            "cs_key",
            keys,
            CsId,
        )
    }

    fn search(
        &mut self,
        attribute: Attribute,
        after: (&[u8], MvId),
        before: &[u8],
        most: usize,
    ) -> Result<Vec<(Vec<u8>, MvId)>, StoreError> {
        self.search_keys(attribute, after, before, most)
    }

    fn clear_search(&mut self) -> Result<(), StoreError> {
        self.begin()?;
        self.connection.execute("DELETE FROM mv_search", [])?;
        Ok(())
    }

    fn failure(&mut self, id: CsId) -> Result<Option<String>, StoreError> {
        let kept = "SELECT text FROM failure WHERE cs = ?1";
        Ok(self.connection.query_row(kept, [id.0], |row| row.get(0)).optional()?)
    }

    fn deletions(&mut self, until_unix_s: u64, most: usize) -> Result<Vec<(CsId, u64)>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT cs, at_unix_s FROM deletion WHERE at_unix_s <= ?1 ORDER BY at_unix_s, cs LIMIT ?2",
        )?;
        let rows = statement.query_map(params![seconds(until_unix_s), most as i64], |row| {
            Ok((CsId(row.get(0)?), row.get::<_, i64>(1)?.max(0) as u64))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn has_join_keys(&mut self) -> Result<bool, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM cs_key)")?;
        Ok(statement.query_row([], |row| row.get(0))?)
    }

    fn find(
        &mut self,
        agent: AgentId,
        by: LookupKey,
        hashes: &[IndexKey],
    ) -> Result<Vec<Option<ReferenceTarget>>, StoreError> {
        self.begin_to_read()?;
        let column = match by {
            LookupKey::Anchor => "anchor",
            LookupKey::Name => "name",
        };
        let mut rows: Vec<Option<FoundRow>> = vec![None; hashes.len()];
        {
            let mut statement = self.connection.prepare_cached(&format!(
                "SELECT id, anchor, substr(export, 1, 3) FROM cs WHERE agent = ?1 AND {column} = ?2"
            ))?;
            let highest = format!("SELECT max({column}) FROM cs WHERE agent = ?1 AND {column} IS NOT NULL");
            for at in self.not_beyond(&highest, agent.0, hashes.iter().copied())? {
                let row = statement.query_row(params![agent.0, hashes[at]], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                });
                rows[at] = row.optional()?;
            }
        }
        self.load_states(rows.iter().flatten().map(|(id, ..)| CsId(*id)))?;
        let reported =
            |(id, anchor, export): FoundRow| found(id, anchor, self.standing.of(CsId(id)), export.as_deref());
        Ok(rows.into_iter().map(|row| row.map(reported)).collect())
    }

    fn links(&mut self, of: &[MvId]) -> Result<Vec<Link>, StoreError> {
        let ids: Vec<i64> = of.iter().map(|id| id.0).collect();
        let mut mv_of = HashMap::with_capacity(ids.len());
        for_ids(&self.connection, "SELECT id, connectors FROM mv WHERE id", &ids, |row| {
            let mv: i64 = row.get(0)?;
            for cs in connectors_from(mv, row.get_ref(1)?.as_blob().unwrap_or_default())? {
                mv_of.insert(cs.0, MvId(mv));
            }
            Ok(())
        })?;
        let mut connectors: Vec<i64> = mv_of.keys().copied().collect();
        connectors.sort_unstable();
        let mut links = Vec::with_capacity(connectors.len());
        self.load_states(connectors.iter().copied().map(CsId))?;
        connectors.retain(|id| self.standing.of(CsId(*id)).is_connected());
        for_ids(&self.connection, "SELECT id, agent, anchor, name FROM cs WHERE id", &connectors, |row| {
            let id: i64 = row.get(0)?;
            if let Some(mv) = mv_of.remove(&id) {
                let (agent, anchor, name) = (AgentId(row.get(1)?), row.get(2)?, row.get(3)?);
                links.push(Link { mv, cs: CsId(id), agent, anchor, name });
            }
            Ok(())
        })?;
        links.sort_unstable_by_key(|link| link.cs);
        Ok(links)
    }

    fn references(&mut self, of: &[CsId]) -> Result<Vec<Reference>, StoreError> {
        let ids: Vec<i64> = of.iter().map(|id| id.0).collect();
        let mut found = Vec::with_capacity(ids.len());
        let select = "SELECT cs, attribute, target, agent, state, value FROM ref WHERE cs";
        for_ids(&self.connection, select, &ids, |row| {
            let target = row.get_ref(2)?.as_blob().unwrap_or_default();
            found.push(reference(row.get(0)?, row.get(1)?, target, row.get(3)?, row.get(4)?, row.get(5)?)?);
            Ok(())
        })?;
        found.sort_unstable_by_key(|reference| (reference.cs, reference.attribute, reference.target));
        Ok(found)
    }

    fn count_references(&mut self, of: &[CsId]) -> Result<Vec<u64>, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT count(*) FROM ref WHERE cs = ?1")?;
        let mut counts = Vec::with_capacity(of.len());
        for id in of {
            counts.push(statement.query_row([id.0], |row| row.get::<_, i64>(0))?.max(0) as u64);
        }
        Ok(counts)
    }

    fn referring(&mut self, agent: AgentId, targets: &[IndexKey]) -> Result<Vec<CsId>, StoreError> {
        let mut statement =
            self.connection.prepare_cached("SELECT cs FROM ref WHERE agent = ?1 AND target = ?2")?;
        let mut found = std::collections::BTreeSet::new();
        for target in targets {
            let rows = statement.query_map(params![agent.0, target], |row| Ok(CsId(row.get(0)?)))?;
            for id in rows {
                found.insert(id?);
            }
        }
        Ok(found.into_iter().collect())
    }

    fn due(&mut self, most: usize) -> Result<Vec<CsId>, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT cs FROM due ORDER BY cs LIMIT ?1")?;
        let rows = statement.query_map([most as i64], |row| Ok(CsId(row.get(0)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn write(&mut self, changes: &[Write]) -> Result<(), StoreError> {
        self.begin()?;
        self.load_states(changes.iter().filter_map(Pages::touched))?;
        let mut statements = Statements::new(&self.connection);
        for change in changes {
            let effect = self.standing.change(change);
            let agent = |id: CsId| self.standing.of(id).agent();
            self.mv_count += statements.write(change, effect, agent, &self.origin)?;
        }
        Ok(())
    }

    fn count_imported(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        let mut count = 0;
        self.each_page(i64::MIN, PAGES_AT_ONCE, |standing, number| {
            count += standing.count_imported(number, agent);
            true
        })?;
        Ok(count)
    }

    fn count_mv(&mut self) -> Result<u64, StoreError> {
        Ok(self.mv_count.max(0) as u64)
    }

    fn note(&mut self, name: &str) -> Result<Option<String>, StoreError> {
        let kept = "SELECT text FROM note WHERE name = ?1";
        Ok(self.connection.query_row(kept, [name], |row| row.get(0)).optional()?)
    }

    fn set_note(&mut self, name: &str, text: Option<&str>) -> Result<(), StoreError> {
        self.begin()?;
        match text {
            Some(text) => self
                .connection
                .execute("INSERT OR REPLACE INTO note (name, text) VALUES (?1, ?2)", params![name, text])?,
            None => self.connection.execute("DELETE FROM note WHERE name = ?1", [name])?,
        };
        Ok(())
    }

    fn keep_step(&mut self, step: &StepRecord) -> Result<(), StoreError> {
        self.begin()?;
        self.connection.execute(
            "INSERT INTO step (run, agent, step, started_unix_s, seconds, outcome, text, counters, run_number, by_user) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                step.run,
                step.agent,
                step.step,
                step.started_unix_s as i64,
                step.seconds,
                step.outcome,
                step.text,
                counters_text(&step.counters),
                seconds(step.number),
                step.user
            ],
        )?;
        Ok(())
    }

    fn history(&mut self, most: usize) -> Result<Vec<StepRecord>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT run, agent, step, started_unix_s, seconds, outcome, text, counters, run_number, by_user FROM step \
             ORDER BY number DESC LIMIT ?1",
        )?;
        let rows = statement.query_map([most as i64], |row| {
            let counters: String = row.get(7)?;
            Ok(StepRecord {
                run: row.get(0)?,
                agent: row.get(1)?,
                step: row.get(2)?,
                started_unix_s: row.get::<_, i64>(3)?.max(0) as u64,
                seconds: row.get(4)?,
                outcome: row.get(5)?,
                text: row.get(6)?,
                counters: counters_of(&counters),
                number: row.get::<_, i64>(8)?.max(0) as u64,
                user: row.get(9)?,
                errors: Vec::new(),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn gauges(&mut self, agent: AgentId) -> Result<Gauges, StoreError> {
        let mut gauges = Gauges::default();
        self.each_page(i64::MIN, PAGES_AT_ONCE, |standing, number| {
            standing.gauge(number, agent, &mut gauges);
            true
        })?;
        Ok(gauges)
    }

    fn announcer(&mut self) -> Result<Announcer, StoreError> {
        let lock = self.lock.as_ref().map(File::try_clone).transpose().map_err(StoreError::File)?;
        Ok(Announcer::to_file(lock))
    }

    fn activity(&mut self) -> Result<Option<Activity>, StoreError> {
        Ok(self.path.as_deref().filter(|_| self.lock.is_none()).and_then(activity::of_file))
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        if self.in_transaction {
            self.keep_standing()?;
            let mut keep = self
                .connection
                .prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?;
            keep.execute(params!["next_id", self.ids.next()])?;
            keep.execute(params!["mv_count", self.mv_count])?;
            drop(keep);
            self.connection.execute_batch("COMMIT")?;
            self.in_transaction = false;
            self.standing.committed();
        } else if std::mem::take(&mut self.is_reading) {
            self.connection.execute_batch("COMMIT")?;
            self.standing.committed();
        }
        Ok(())
    }

    fn roll_back(&mut self) -> Result<(), StoreError> {
        self.standing.forget();
        if std::mem::take(&mut self.is_reading) {
            self.connection.execute_batch("ROLLBACK")?;
        }
        if self.in_transaction {
            // After some errors, such as a full disk, SQLite has rolled back already.
            if !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK")?;
            }
            self.in_transaction = false;
            self.mv_count = self.meta("mv_count")?.unwrap_or(0);
        }
        Ok(())
    }
}
