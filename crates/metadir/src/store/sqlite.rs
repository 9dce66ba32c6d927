//! A store in a file, by SQLite.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::row::{CsRow, counters_of, counters_text, import_parts, mv_object, reference};
use super::{By, Found, Gauges, Head, Key, Link, NameKind, Population, StepRecord, Store, StoreError, Write};
use crate::config::Durability;
use crate::hologram::{Hash, Hologram};
use crate::object::{AgentId, CsId, CsObject, MvId, MvObject, NOT_MADE, PendingExport, RENAMED, Reference};

/// The format of the file.
const FORMAT: i64 = 2;
/// Statements that stay prepared.
const STATEMENTS: usize = 64;
/// Numbers that are asked for in one statement.
const IDS_A_STATEMENT: usize = 256;

const SCHEMA: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE name (kind INTEGER, id INTEGER, text TEXT, PRIMARY KEY (kind, id), UNIQUE (kind, text)) WITHOUT ROWID;
CREATE TABLE note (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE cs (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL,
    anchor BLOB,
    dn TEXT NOT NULL,
    name BLOB,
    state INTEGER NOT NULL,
    mv INTEGER,
    synchronized_hash BLOB,
    synchronized BLOB,
    import_change INTEGER NOT NULL,
    import_hash BLOB,
    import BLOB,
    export BLOB,
    failure INTEGER,
    failure_text TEXT
);
CREATE UNIQUE INDEX cs_anchor ON cs (agent, anchor) WHERE anchor IS NOT NULL;
CREATE UNIQUE INDEX cs_name ON cs (agent, name) WHERE name IS NOT NULL;
CREATE INDEX cs_pending ON cs (agent, id) WHERE import_change <> 0 OR failure IN (1, 2);
CREATE INDEX cs_exporting ON cs (agent, id) WHERE export IS NOT NULL;
CREATE INDEX cs_mv ON cs (mv) WHERE mv IS NOT NULL;
CREATE TABLE step (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    agent TEXT NOT NULL,
    step TEXT NOT NULL,
    started_unix_s INTEGER NOT NULL,
    seconds REAL NOT NULL,
    outcome TEXT NOT NULL,
    text TEXT NOT NULL,
    counters TEXT NOT NULL
);
CREATE TABLE mv (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, image BLOB NOT NULL, lineage BLOB NOT NULL);
CREATE TABLE mv_key (rule INTEGER, hash BLOB, mv INTEGER, PRIMARY KEY (rule, hash, mv)) WITHOUT ROWID;
CREATE TABLE ref (
    cs INTEGER,
    attribute INTEGER,
    target BLOB,
    agent INTEGER NOT NULL,
    state INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (cs, attribute, target)
) WITHOUT ROWID;
CREATE INDEX ref_target ON ref (agent, target);
CREATE TABLE due (cs INTEGER PRIMARY KEY);
";

const CS_COLUMNS: &str = "id, agent, anchor, dn, name, state, mv, synchronized, import_change, import, export, failure IS NOT NULL";

/// A store in a file.
#[derive(Debug)]
pub struct Sqlite {
    connection: Connection,
    next_id: i64,
    in_transaction: bool,
}

impl Sqlite {
    /// Opens the store in a file, which is made when it is not there.
    ///
    /// # Errors
    /// When it cannot be opened, is of a newer format, or is worked on by another process.
    pub fn open(path: &Path, durability: Durability, cache_bytes: u64) -> Result<Sqlite, StoreError> {
        Sqlite::with(Connection::open(path)?, durability, cache_bytes)
    }

    /// A store in memory, for a trial.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn in_memory() -> Result<Sqlite, StoreError> {
        Sqlite::with(Connection::open_in_memory()?, Durability::Off, 1 << 24)
    }

    fn with(connection: Connection, durability: Durability, cache_bytes: u64) -> Result<Sqlite, StoreError> {
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
            Durability::Off => "OFF",
        };
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(busy)?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        // Pages that several batches change go to the file once: a log of 64 MiB before that.
        connection.pragma_update(None, "wal_autocheckpoint", 16_384)?;
        connection.pragma_update(None, "cache_size", -((cache_bytes / 1024) as i64))?;
        let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match format {
            0 => {
                connection.execute_batch(&format!(
                    "BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;"
                ))?;
            }
            FORMAT => {}
            older if older < FORMAT => return Err(StoreError::Older(older)),
            newer => return Err(StoreError::Newer(newer)),
        }
        let kept = "SELECT value FROM meta WHERE name = 'next_id'";
        let next_id = connection.query_row(kept, [], |row| row.get(0)).optional()?.unwrap_or(1);
        let mut store = Sqlite { connection, next_id, in_transaction: false };
        // Takes the lock, so that a second process learns of the first at once.
        store.begin()?;
        store.commit()?;
        Ok(store)
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        if !self.in_transaction {
            self.connection.execute_batch("BEGIN IMMEDIATE").map_err(busy)?;
            self.in_transaction = true;
        }
        Ok(())
    }

    fn cs_where(&self, condition: &str, ids: &[i64]) -> Result<Vec<CsObject>, StoreError> {
        let mut found = Vec::with_capacity(ids.len());
        for_ids(&self.connection, &format!("SELECT {CS_COLUMNS} FROM cs WHERE {condition}"), ids, |row| {
            found.push(cs_object(row)?);
            Ok(())
        })?;
        Ok(found)
    }
}

/// Runs a statement that ends in `IN` over numbers, so many at a time.
fn for_ids(
    connection: &Connection,
    select: &str,
    ids: &[i64],
    mut each: impl FnMut(&Row<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut of = |chunk: &[i64], places: usize| -> Result<(), StoreError> {
        let marks = vec!["?"; places].join(",");
        let mut statement = connection.prepare_cached(&format!("{select} IN ({marks})"))?;
        // A shorter list asks for its last number again and again, so that the statement stays the same.
        let padding = chunk.last().into_iter().cycle().take(places - chunk.len());
        let mut rows = statement.query(rusqlite::params_from_iter(chunk.iter().chain(padding)))?;
        while let Some(row) = rows.next()? {
            each(row)?;
        }
        Ok(())
    };
    let mut chunks = ids.chunks_exact(IDS_A_STATEMENT);
    for chunk in chunks.by_ref() {
        of(chunk, IDS_A_STATEMENT)?;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        of(rest, if rest.len() <= 8 { 8 } else { IDS_A_STATEMENT })?;
    }
    Ok(())
}

fn busy(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => StoreError::Busy,
        _ => StoreError::Database(error),
    }
}

fn cs_object(row: &Row<'_>) -> Result<CsObject, StoreError> {
    let row = CsRow {
        id: row.get(0)?,
        agent: row.get(1)?,
        anchor: row.get(2)?,
        dn: row.get(3)?,
        name: row.get(4)?,
        state: row.get(5)?,
        mv: row.get(6)?,
        synchronized: row.get(7)?,
        import_change: row.get(8)?,
        import: row.get(9)?,
        export: row.get(10)?,
        has_failed: row.get(11)?,
    };
    row.into_object()
}

fn run_cs(statement: &mut Statement<'_>, object: &CsObject) -> Result<(), rusqlite::Error> {
    let (change, import_hash, import) = import_parts(object.pending_import.as_ref());
    let synchronized = object.synchronized.as_ref();
    statement
        .execute(params![
            object.id.0,
            object.agent.0,
            object.anchor.map(|anchor| anchor.0),
            object.dn,
            object.name.map(|name| name.0),
            object.state as i64,
            object.mv.map(|mv| mv.0),
            synchronized.map(|image| image.hash().0),
            synchronized.map(Hologram::as_bytes),
            change,
            import_hash.map(|hash| hash.0),
            import,
            object.pending_export.as_ref().map(PendingExport::to_bytes),
        ])
        .map(|_| ())
}

const INSERT_CS: &str = "INSERT INTO cs (id, agent, anchor, dn, name, state, mv, synchronized_hash, synchronized, import_change, \
                         import_hash, import, export) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
const UPDATE_CS: &str = "UPDATE cs SET agent = ?2, anchor = ?3, dn = ?4, name = ?5, state = ?6, mv = ?7, synchronized_hash = ?8, \
                         synchronized = ?9, import_change = ?10, import_hash = ?11, import = ?12, export = ?13 WHERE id = ?1";
const STAGE_CS: &str = "UPDATE cs SET import_change = ?2, import_hash = ?3, import = ?4 WHERE id = ?1";
const SYNCHRONIZE_CS: &str = "UPDATE cs SET state = ?2, mv = ?3, synchronized = import, synchronized_hash = import_hash, import_change = 0, \
     import = NULL, import_hash = NULL, failure = NULL, failure_text = NULL WHERE id = ?1";
const KEEP_REFERENCE: &str = "INSERT INTO ref (cs, attribute, target, agent, state, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
     ON CONFLICT (cs, attribute, target) DO UPDATE SET state = excluded.state, value = excluded.value";
// Of the bits of a state the first says synchronized, the second imported, those above what is to be changed.
const SETTLE_REFERENCES: &str = "UPDATE ref SET state = (state & ~1) | ((state >> 1) & 1) WHERE cs = ?1 AND (state & 1) <> ((state >> 1) & 1)";
const UNWANT_REFERENCES: &str = "UPDATE ref SET state = state & 3 WHERE cs = ?1 AND state > 3";
const DROP_REFERENCES: &str = "DELETE FROM ref WHERE cs = ?1 AND state = 0";

fn write_reference(connection: &Connection, reference: &Reference) -> Result<(), rusqlite::Error> {
    let (cs, attribute, target) = (reference.cs.0, reference.attribute.0, reference.target.0);
    match reference.state() {
        0 => connection
            .prepare_cached("DELETE FROM ref WHERE cs = ?1 AND attribute = ?2 AND target = ?3")?
            .execute(params![cs, attribute, target]),
        state => connection.prepare_cached(KEEP_REFERENCE)?.execute(params![
            cs,
            attribute,
            target,
            reference.agent.0,
            state,
            reference.value
        ]),
    }
    .map(|_| ())
}

fn hash(bytes: Option<[u8; 16]>) -> Option<Hash> {
    bytes.map(Hash)
}

impl Store for Sqlite {
    fn name(&mut self, kind: NameKind, name: &str) -> Result<u32, StoreError> {
        let known = "SELECT id FROM name WHERE kind = ?1 AND text = ?2";
        let found =
            self.connection.query_row(known, params![kind as i64, name], |row| row.get(0)).optional()?;
        if let Some(id) = found {
            return Ok(id);
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

    fn new_ids(&mut self, count: usize) -> Result<i64, StoreError> {
        let first = self.next_id;
        self.next_id += count as i64;
        Ok(first)
    }

    fn heads(&mut self, agent: AgentId, anchors: &[Hash]) -> Result<Vec<Option<Head>>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, synchronized_hash, import_hash, import_change, export IS NOT NULL, name FROM cs \
             WHERE agent = ?1 AND anchor = ?2",
        )?;
        let mut heads = Vec::with_capacity(anchors.len());
        for anchor in anchors {
            let head = statement.query_row(params![agent.0, anchor.0], |row| {
                let change: i64 = row.get(3)?;
                Ok(Head {
                    id: CsId(row.get(0)?),
                    synchronized: hash(row.get(1)?),
                    pending: hash(row.get(2)?),
                    is_pending: change != 0,
                    is_exporting: row.get(4)?,
                    is_renamed: change == 4,
                    name: hash(row.get(5)?),
                })
            });
            heads.push(head.optional()?);
        }
        Ok(heads)
    }

    fn cs(&mut self, ids: &[CsId]) -> Result<Vec<CsObject>, StoreError> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let mut found = self.cs_where("id", &ids)?;
        found.sort_by_key(|object| object.id);
        Ok(found)
    }

    fn cs_after(
        &mut self,
        agent: AgentId,
        after: CsId,
        most: usize,
        population: Population,
    ) -> Result<Vec<CsObject>, StoreError> {
        let condition = match population {
            Population::All => "",
            Population::Pending => "AND (import_change <> 0 OR failure IN (1, 2))",
            Population::Exporting => "AND export IS NOT NULL",
        };
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {CS_COLUMNS} FROM cs WHERE agent = ?1 AND id > ?2 {condition} ORDER BY id LIMIT ?3"
        ))?;
        let mut rows = statement.query(params![agent.0, after.0, most as i64])?;
        let mut found = Vec::with_capacity(most.min(1024));
        while let Some(row) = rows.next()? {
            found.push(cs_object(row)?);
        }
        Ok(found)
    }

    fn connectors(&mut self, of: &[MvId]) -> Result<Vec<CsObject>, StoreError> {
        let ids: Vec<i64> = of.iter().map(|id| id.0).collect();
        let mut found = self.cs_where("mv", &ids)?;
        found.sort_by_key(|object| object.id);
        Ok(found)
    }

    fn mv(&mut self, ids: &[MvId]) -> Result<Vec<MvObject>, StoreError> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let mut found = Vec::with_capacity(ids.len());
        for_ids(&self.connection, "SELECT id, kind, image, lineage FROM mv WHERE id", &ids, |row| {
            let lineage = row.get_ref(3)?.as_blob().unwrap_or_default();
            found.push(mv_object(row.get(0)?, row.get(1)?, row.get(2)?, lineage)?);
            Ok(())
        })?;
        found.sort_by_key(|object| object.id);
        Ok(found)
    }

    fn mv_with(&mut self, keys: &[Key]) -> Result<Vec<Vec<MvId>>, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT mv FROM mv_key WHERE rule = ?1 AND hash = ?2 ORDER BY mv")?;
        let mut found = Vec::with_capacity(keys.len());
        for (rule, hash) in keys {
            let rows = statement.query_map(params![rule, hash.0], |row| Ok(MvId(row.get(0)?)))?;
            found.push(rows.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(found)
    }

    fn find(&mut self, agent: AgentId, by: By, hashes: &[Hash]) -> Result<Vec<Option<Found>>, StoreError> {
        let column = match by {
            By::Anchor => "anchor",
            By::Name => "name",
        };
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT id, anchor, mv, coalesce(substr(export, 1, 2) <> ?3 AND substr(export, 3, 1) < ?4, 1) FROM cs WHERE agent = ?1 AND {column} = ?2"
        ))?;
        let mut all = Vec::with_capacity(hashes.len());
        for wanted in hashes {
            let found = statement.query_row(params![agent.0, wanted.0, NOT_MADE, RENAMED], |row| {
                Ok(Found {
                    id: CsId(row.get(0)?),
                    anchor: hash(row.get(1)?),
                    mv: row.get::<_, Option<i64>>(2)?.map(MvId),
                    is_made: row.get(3)?,
                })
            });
            all.push(found.optional()?);
        }
        Ok(all)
    }

    fn links(&mut self, of: &[MvId]) -> Result<Vec<Link>, StoreError> {
        let ids: Vec<i64> = of.iter().map(|id| id.0).collect();
        let mut found = Vec::with_capacity(ids.len());
        for_ids(&self.connection, "SELECT mv, id, agent, anchor, name FROM cs WHERE mv", &ids, |row| {
            found.push(Link {
                mv: MvId(row.get(0)?),
                cs: CsId(row.get(1)?),
                agent: AgentId(row.get(2)?),
                anchor: hash(row.get(3)?),
                name: hash(row.get(4)?),
            });
            Ok(())
        })?;
        found.sort_unstable_by_key(|link| link.cs);
        Ok(found)
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

    fn referring(&mut self, agent: AgentId, targets: &[Hash]) -> Result<Vec<CsId>, StoreError> {
        let mut statement =
            self.connection.prepare_cached("SELECT cs FROM ref WHERE agent = ?1 AND target = ?2")?;
        let mut found = std::collections::BTreeSet::new();
        for target in targets {
            let rows = statement.query_map(params![agent.0, target.0], |row| Ok(CsId(row.get(0)?)))?;
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
        let connection = &self.connection;
        for change in changes {
            match change {
                Write::NewCs(object) => run_cs(&mut *connection.prepare_cached(INSERT_CS)?, object)?,
                Write::Cs(object) => run_cs(&mut *connection.prepare_cached(UPDATE_CS)?, object)?,
                Write::Staged { id, pending } => {
                    let (change, hash, image) = import_parts(pending.as_ref());
                    let hash = hash.map(|hash| hash.0);
                    connection.prepare_cached(STAGE_CS)?.execute(params![id.0, change, hash, image])?;
                }
                Write::Synchronized { id, state, mv } => {
                    let mv = mv.map(|mv| mv.0);
                    connection.prepare_cached(SYNCHRONIZE_CS)?.execute(params![id.0, *state as i64, mv])?;
                }
                Write::DeletedCs(id) => {
                    connection.prepare_cached("DELETE FROM cs WHERE id = ?1")?.execute([id.0])?;
                    connection.prepare_cached("DELETE FROM ref WHERE cs = ?1")?.execute([id.0])?;
                }
                Write::Renamed { id, dn, name } => {
                    connection
                        .prepare_cached("UPDATE cs SET dn = ?2, name = ?3 WHERE id = ?1")?
                        .execute(params![id.0, dn, name.map(|name| name.0)])?;
                }
                Write::Unnamed(id) => {
                    connection.prepare_cached("UPDATE cs SET name = NULL WHERE id = ?1")?.execute([id.0])?;
                }
                Write::Reference(reference) => write_reference(connection, reference)?,
                Write::SettledReferences(id) | Write::UnwantedReferences(id) => {
                    let sql = match change {
                        Write::SettledReferences(_) => SETTLE_REFERENCES,
                        _ => UNWANT_REFERENCES,
                    };
                    connection.prepare_cached(sql)?.execute([id.0])?;
                    connection.prepare_cached(DROP_REFERENCES)?.execute([id.0])?;
                }
                Write::Due(id) => {
                    connection
                        .prepare_cached("INSERT OR IGNORE INTO due (cs) VALUES (?1)")?
                        .execute([id.0])?;
                }
                Write::Done(id) => {
                    connection.prepare_cached("DELETE FROM due WHERE cs = ?1")?.execute([id.0])?;
                }
                Write::Failure { id, why } => {
                    let (kind, text) =
                        why.as_ref().map_or((None, None), |(kind, text)| (Some(*kind as i64), Some(text)));
                    connection
                        .prepare_cached("UPDATE cs SET failure = ?2, failure_text = ?3 WHERE id = ?1")?
                        .execute(params![id.0, kind, text])?;
                }
                Write::NewMv(object) => {
                    connection
                        .prepare_cached("INSERT INTO mv (id, kind, image, lineage) VALUES (?1, ?2, ?3, ?4)")?
                        .execute(params![
                            object.id.0,
                            object.kind,
                            object.image.as_bytes(),
                            object.lineage_bytes()
                        ])?;
                }
                Write::Mv(object) => {
                    connection
                        .prepare_cached("UPDATE mv SET image = ?2, lineage = ?3 WHERE id = ?1")?
                        .execute(params![object.id.0, object.image.as_bytes(), object.lineage_bytes()])?;
                }
                Write::DeletedMv(id) => {
                    connection.prepare_cached("DELETE FROM mv WHERE id = ?1")?.execute([id.0])?;
                }
                Write::NewKey((rule, hash), mv) => {
                    connection
                        .prepare_cached("INSERT OR IGNORE INTO mv_key (rule, hash, mv) VALUES (?1, ?2, ?3)")?
                        .execute(params![rule, hash.0, mv.0])?;
                }
                Write::DeletedKey((rule, hash), mv) => {
                    connection
                        .prepare_cached("DELETE FROM mv_key WHERE rule = ?1 AND hash = ?2 AND mv = ?3")?
                        .execute(params![rule, hash.0, mv.0])?;
                }
            }
        }
        Ok(())
    }

    fn count_imported(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        let count = "SELECT count(*) FROM cs WHERE agent = ?1 AND (synchronized IS NOT NULL OR import_change IN (1, 2, 4))";
        Ok(self.connection.query_row(count, [agent.0], |row| row.get::<_, i64>(0))? as u64)
    }

    fn count_mv(&mut self) -> Result<u64, StoreError> {
        Ok(self.connection.query_row("SELECT count(*) FROM mv", [], |row| row.get::<_, i64>(0))? as u64)
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
            "INSERT INTO step (run, agent, step, started_unix_s, seconds, outcome, text, counters) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                step.run,
                step.agent,
                step.step,
                step.started_unix_s as i64,
                step.seconds,
                step.outcome,
                step.text,
                counters_text(&step.counters)
            ],
        )?;
        Ok(())
    }

    fn history(&mut self, most: usize) -> Result<Vec<StepRecord>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT run, agent, step, started_unix_s, seconds, outcome, text, counters FROM step ORDER BY number DESC LIMIT ?1",
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
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn gauges(&mut self, agent: AgentId) -> Result<Gauges, StoreError> {
        let counted = "SELECT count(*), coalesce(sum(state = 1), 0), coalesce(sum(state = 0), 0), coalesce(sum(state = 2), 0), \
                       coalesce(sum(import_change = 1), 0), coalesce(sum(import_change IN (2, 4)), 0), coalesce(sum(import_change = 3), 0), \
                       coalesce(sum(export IS NOT NULL), 0), coalesce(sum(failure IS NOT NULL), 0) FROM cs WHERE agent = ?1";
        Ok(self.connection.query_row(counted, [agent.0], |row| {
            let count = |at: usize| row.get::<_, i64>(at).map(|count| count.max(0) as u64);
            Ok(Gauges {
                objects: count(0)?,
                connectors: count(1)?,
                disconnectors: count(2)?,
                filtered: count(3)?,
                pending_imports: [count(4)?, count(5)?, count(6)?],
                pending_exports: count(7)?,
                failures: count(8)?,
            })
        })?)
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        if self.in_transaction {
            self.connection.execute(
                "INSERT OR REPLACE INTO meta (name, value) VALUES ('next_id', ?1)",
                [self.next_id],
            )?;
            self.connection.execute_batch("COMMIT")?;
            self.in_transaction = false;
        }
        Ok(())
    }

    fn roll_back(&mut self) -> Result<(), StoreError> {
        if self.in_transaction {
            self.connection.execute_batch("ROLLBACK")?;
            self.in_transaction = false;
        }
        Ok(())
    }
}
