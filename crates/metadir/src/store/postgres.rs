//! A store in a schema of a PostgreSQL database.
//!
//! COPY transfers images: new objects directly into their table, changed ones through a temporary table.
//! Short data is sent as arrays. One statement processes a whole batch and finds each object by an index
//! look-up. Plans are made anew for each batch from the current table sizes, and only nested loops are
//! allowed. A plan for an empty table, or one that scans a whole large table, would make the store slower as
//! the directory grows.

mod copy;
mod inspect;
mod read;
mod round;
mod rows;
mod sql;
#[cfg(test)]
mod tests;
mod trail;
mod write;

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use self::round::{Round, without_nul};
use self::rows::{cs_row, mv_row, pages};
use self::sql::*;
use self::trail::CHANGE_LOG;
use super::row::{
    connectors_from, counters_of, counters_text, found, hash_of, head, image_from, key_of, not_beyond,
    reference, seconds,
};
use super::standing::{PAGES_AT_ONCE, Pages, page_of, pages_for};
use super::{
    Activity, Announcer, Gauges, Head, Key, Link, LookupKey, NameKind, Numbers, Population, ReferenceTarget,
    StepRecord, Store, StoreError, Trail, Write, trail::Origin,
};
use crate::hologram::{Attribute, Hash};
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId, CsObject, MvId, MvObject, Reference};
use crate::postgresql::{Client, Grace, Server};
use crate::store::Durability;

/// The format of the tables.
const FORMAT: i64 = 5;
/// The formats that are upgraded, each with what later formats have in addition.
const UPGRADED: [(i64, &[&str]); 2] = [(3, &[JOIN_KEYS, CHANGE_LOG, SEARCH]), (4, &[CHANGE_LOG, SEARCH])];
/// Number of bytes that are sent at a time.
const PIECE_BYTES: usize = 1 << 16;

/// A store in a PostgreSQL database.
pub struct Postgres {
    client: Client,
    statements: HashMap<&'static str, Statement>,
    standing: Pages,
    /// The advisory lock that excludes other processes.
    lock: i64,
    ids: Arc<Numbers>,
    /// The next number as stored in the database.
    kept_id: i64,
    /// Number of metaverse objects.
    mv_count: i64,
    /// Number of metaverse objects as stored in the database.
    kept_mv_count: i64,
    in_transaction: bool,
    /// Whether the temporary tables have rows of this transaction.
    is_batch_used: bool,
    origin: Origin,
    /// How another connection is made.
    server: Server,
    /// Of a reader: the numbers of names that the store does not have.
    unknown: Option<HashMap<(i16, String), u32>>,
}

impl Postgres {
    /// Opens the store in a schema of a database. The schema and its tables are created if they do not exist.
    ///
    /// # Errors
    /// When the server cannot be reached or reports an error, the store has a newer format, or another
    /// process uses it.
    pub fn open(server: &Server, durability: Durability) -> Result<Postgres, StoreError> {
        let mut store = Postgres::connect(server, durability)?;
        // A killed process may hold the lock for a moment; `lock_timeout` limits the wait.
        store.client.execute("SELECT pg_advisory_lock($1)", &[&store.lock])?;
        store.make(&server.schema)?;
        store.client.batch_execute(BATCH)?;
        Ok(store)
    }

    /// A connection with its settings.
    fn connect(server: &Server, durability: Durability) -> Result<Postgres, StoreError> {
        let client = server.connect(std::env::var("PGPASSWORD").ok(), Grace::Operation)?;
        let lock = Hash::of(server.schema.as_bytes()).0;
        let mut store = Postgres {
            client,
            statements: HashMap::new(),
            standing: Pages::default(),
            lock: i64::from_be_bytes([
                lock[0], lock[1], lock[2], lock[3], lock[4], lock[5], lock[6], lock[7],
            ]),
            ids: Numbers::from(1),
            kept_id: 1,
            mv_count: 0,
            kept_mv_count: 0,
            in_transaction: false,
            is_batch_used: false,
            origin: Origin::default(),
            server: server.clone(),
            unknown: None,
        };
        // Full durability uses the server's own setting, including standbys; everything else is asynchronous.
        let synchronous = match durability {
            Durability::Full => "on",
            Durability::Normal | Durability::Off => "off",
        };
        store.client.query(SETTINGS, &[&synchronous, &server.schema])?;
        let encoding: String = store.client.query_one("SHOW server_encoding", &[])?.get(0);
        if encoding != "UTF8" {
            let what = format!("the database has the encoding {encoding}");
            let help =
                "create one with createdb --encoding=UTF8 --template=template0, and name it in `postgres`";
            return Err(StoreError::Server { what, help });
        }
        Ok(store)
    }

    /// Creates missing tables.
    fn make(&mut self, schema: &str) -> Result<(), StoreError> {
        let known = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
        let mut made = String::new();
        if self.client.query_opt(known, &[&schema])?.is_none() {
            // The server quotes the name by its own rules.
            let text = self.client.query_one("SELECT format('CREATE SCHEMA %I;', $1::text)", &[&schema])?;
            made = text.get(0);
        }
        let is_made = "SELECT to_regclass(quote_ident($1) || '.meta') IS NOT NULL";
        if self.client.query_one(is_made, &[&schema])?.get(0) {
            let value = |name: &str, client: &mut Client| -> Result<Option<i64>, StoreError> {
                let row = client.query_opt("SELECT value FROM meta WHERE name = $1", &[&name])?;
                Ok(row.map(|row| row.try_get(0)).transpose()?)
            };
            match value("format", &mut self.client)? {
                Some(FORMAT) => {}
                other => {
                    let other = other.unwrap_or(i64::MAX);
                    let Some((_, added)) = UPGRADED.iter().find(|(format, _)| *format == other) else {
                        let error = if other < FORMAT { StoreError::Older } else { StoreError::Newer };
                        return Err(error(other));
                    };
                    let added = added.concat();
                    self.client.batch_execute(&format!(
                        "BEGIN; {added} UPDATE meta SET value = {FORMAT} WHERE name = 'format'; COMMIT"
                    ))?;
                }
            }
            self.kept_id = value("next_id", &mut self.client)?.unwrap_or(1);
            self.ids = Numbers::from(self.kept_id);
            self.mv_count = value("mv_count", &mut self.client)?.unwrap_or(0);
            self.kept_mv_count = self.mv_count;
            return Ok(());
        }
        // One transaction: all or nothing.
        self.client.batch_execute(&format!(
            "BEGIN; {made} {SCHEMA} {JOIN_KEYS} {CHANGE_LOG} {SEARCH} INSERT INTO meta (name, value) VALUES ('format', {FORMAT}); COMMIT"
        ))?;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        if !self.in_transaction {
            self.client.batch_execute("BEGIN")?;
            self.in_transaction = true;
            self.is_batch_used = false;
        }
        Ok(())
    }

    fn statement(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(sql)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn query(&mut self, sql: &'static str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, StoreError> {
        let statement = self.statement(sql)?;
        Ok(self.client.query(&statement, values)?)
    }

    fn execute(&mut self, sql: &'static str, values: &[&(dyn ToSql + Sync)]) -> Result<(), StoreError> {
        let statement = self.statement(sql)?;
        self.client.execute(&statement, values)?;
        Ok(())
    }

    /// Loads the state pages of objects into memory.
    fn load_states(&mut self, ids: impl IntoIterator<Item = CsId>) -> Result<(), StoreError> {
        let missing = self.standing.missing(ids);
        if missing.is_empty() {
            return Ok(());
        }
        let had = pages(&self.query(PAGES, &[&missing])?)?;
        self.standing.take(&missing, &had)
    }

    /// Writes the changed state pages.
    fn keep_standing(&mut self) -> Result<(), StoreError> {
        let statement = self.statement(KEEP_PAGES)?;
        let (numbers, cells): (Vec<i64>, Vec<&[u8]>) = self.standing.changed().into_iter().unzip();
        if !numbers.is_empty() {
            self.client.execute(&statement, &[&numbers, &cells])?;
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
        let statement = self.statement(PAGES_FROM)?;
        let client = &mut self.client;
        let read = |next: i64, most: usize| pages(&client.query(&statement, &[&next, &(most as i64)])?);
        self.standing.each_page(from, at_once, !self.in_transaction, read, each)
    }

    /// The indexes of the keys that may exist, see [`not_beyond`].
    fn not_beyond(
        &mut self,
        highest: &'static str,
        of: u32,
        keys: impl Iterator<Item = IndexKey>,
    ) -> Result<Vec<usize>, StoreError> {
        not_beyond(keys, || {
            let rows = self.query(highest, &[&(of as i32)])?;
            Ok(rows.first().map(|row| key_of(0, row.try_get(0)?)).transpose()?.flatten())
        })
    }

    /// The numbers that a statement finds for each join key, in ascending order.
    fn with_keys<T: Ord>(
        &mut self,
        select: &'static str,
        highest: &'static str,
        keys: &[Key],
        id: impl Fn(i64) -> T,
    ) -> Result<Vec<Vec<T>>, StoreError> {
        let mut found: Vec<Vec<T>> = keys.iter().map(|_| Vec::new()).collect();
        if keys.is_empty() {
            return Ok(found);
        }
        let mut rules: Vec<u32> = keys.iter().map(|(rule, _)| *rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let mut known = Vec::with_capacity(keys.len());
        for rule in rules {
            let of_rule: Vec<usize> = (0..keys.len()).filter(|at| keys[*at].0 == rule).collect();
            let hashes = of_rule.iter().map(|at| keys[*at].1);
            known.extend(self.not_beyond(highest, rule, hashes)?.into_iter().map(|place| of_rule[place]));
        }
        if known.is_empty() {
            return Ok(found);
        }
        let rules: Vec<i32> = known.iter().map(|at| keys[*at].0 as i32).collect();
        let hashes: Vec<&[u8]> = known.iter().map(|at| keys[*at].1.as_bytes()).collect();
        for row in self.query(select, &[&rules, &hashes])? {
            if let Some(at) = place(&row, known.len())? {
                found[known[at]].push(id(row.try_get(1)?));
            }
        }
        found.iter_mut().for_each(|ids| ids.sort_unstable());
        Ok(found)
    }
}

/// The index in the request that a row belongs to, from 1 in the result.
fn place(row: &Row, count: usize) -> Result<Option<usize>, StoreError> {
    let number: i64 = row.try_get(0)?;
    Ok(usize::try_from(number - 1).ok().filter(|at| *at < count))
}

impl Store for Postgres {
    fn trail(&mut self) -> &mut dyn Trail {
        self
    }

    fn name(&mut self, kind: NameKind, name: &str) -> Result<u32, StoreError> {
        let kind = kind as i16;
        let known =
            self.query("SELECT id FROM name WHERE kind = $1::smallint AND text = $2", &[&kind, &name])?;
        let id: i32 = match (known.first(), &mut self.unknown) {
            (Some(row), _) => row.try_get(0)?,
            (None, Some(unknown)) => {
                // A reader assigns numbers that no object has.
                let number = i32::MAX as u32 - unknown.len() as u32;
                return Ok(*unknown.entry((kind, name.into())).or_insert(number));
            }
            (None, None) => {
                self.begin()?;
                let made = "INSERT INTO name (kind, id, text) \
                    SELECT $1::smallint, coalesce(max(id), 0) + 1, $2 FROM name WHERE kind = $1::smallint RETURNING id";
                let statement = self.statement(made)?;
                self.client.query_one(&statement, &[&kind, &name])?.try_get(0)?
            }
        };
        Ok(id as u32)
    }

    fn names(&mut self, kind: NameKind) -> Result<Vec<(u32, String)>, StoreError> {
        let listed = "SELECT id, text FROM name WHERE kind = $1::smallint ORDER BY id";
        let rows = self.query(listed, &[&(kind as i16)])?;
        rows.iter().map(|row| Ok((row.try_get::<_, i32>(0)? as u32, row.try_get(1)?))).collect()
    }

    fn rename(&mut self, kind: NameKind, from: &str, to: &str) -> Result<(), StoreError> {
        self.begin()?;
        let kind = kind as i16;
        self.execute("DELETE FROM name WHERE kind = $1::smallint AND text = $2", &[&kind, &to])?;
        let renamed = "UPDATE name SET text = $3 WHERE kind = $1::smallint AND text = $2";
        self.execute(renamed, &[&kind, &from, &to])
    }

    fn ids(&self) -> Arc<Numbers> {
        Arc::clone(&self.ids)
    }

    fn heads(&mut self, agent: AgentId, anchors: &[IndexKey]) -> Result<Vec<Option<Head>>, StoreError> {
        let mut heads = vec![None; anchors.len()];
        let known = self.not_beyond(HIGHEST_ANCHOR, agent.0, anchors.iter().copied())?;
        if known.is_empty() {
            return Ok(heads);
        }
        let wanted: Vec<&[u8]> = known.iter().map(|at| anchors[*at].as_bytes()).collect();
        let rows = self.query(HEADS, &[&(agent.0 as i32), &wanted])?;
        let ids = rows.iter().map(|row| Ok(CsId(row.try_get(1)?))).collect::<Result<Vec<_>, StoreError>>()?;
        self.load_states(ids.iter().copied())?;
        let is_moved = |id: &&CsId| self.standing.of(**id).has_before();
        let moved: Vec<i64> = ids.iter().filter(is_moved).map(|id| id.0).collect();
        let mut before = HashMap::new();
        if !moved.is_empty() {
            for row in self.query(BEFORE_HASHES, &[&moved])? {
                let id: i64 = row.try_get(0)?;
                before.insert(CsId(id), hash_of(id, row.try_get(1)?)?);
            }
        }
        for (row, id) in rows.iter().zip(ids) {
            let Some(at) = place(row, known.len())?.map(|at| known[at]) else { continue };
            let (hash, name) = (hash_of(id.0, row.try_get(2)?)?, key_of(id.0, row.try_get(3)?)?);
            let before = before.get(&id).copied().flatten();
            heads[at] = Some(head(id.0, self.standing.of(id), hash, before, name));
        }
        Ok(heads)
    }

    fn cs(&mut self, ids: &[CsId]) -> Result<Vec<CsObject>, StoreError> {
        let mut ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        ids.sort_unstable();
        ids.dedup();
        let (Some(first), Some(last)) = (ids.first().copied(), ids.last().copied()) else {
            return Ok(Vec::new());
        };
        self.load_states(ids.iter().copied().map(CsId))?;
        let is_moved = |id: &&i64| self.standing.of(CsId(**id)).has_before();
        let moved: Vec<i64> = ids.iter().filter(is_moved).copied().collect();
        let mut before = HashMap::new();
        if !moved.is_empty() {
            for row in self.query(BEFORE, &[&moved])? {
                let id: i64 = row.try_get(0)?;
                before.insert(id, image_from(id, row.try_get(1)?)?);
            }
        }
        let rows = if last - first + 1 == ids.len() as i64 {
            self.query(CS_BETWEEN, &[&first, &last])?
        } else {
            self.query(CS_BY_ID, &[&ids])?
        };
        let object = |row: &Row| {
            let row = cs_row(row)?;
            let (cell, before) = (self.standing.of(CsId(row.id)), before.remove(&row.id));
            row.into_object(cell, before)
        };
        rows.iter().map(object).collect()
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
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        self.query(MV_BY_ID, &[&ids])?.iter().map(mv_row).collect()
    }

    fn drop_keys(&mut self, rule: u32) -> Result<(), StoreError> {
        self.begin()?;
        self.execute("DELETE FROM mv_key WHERE rule = $1", &[&(rule as i32)])
    }

    fn mv_with(&mut self, keys: &[Key]) -> Result<Vec<Vec<MvId>>, StoreError> {
        self.with_keys(MV_BY_KEY, HIGHEST_KEY, keys, MvId)
    }

    fn cs_with(&mut self, keys: &[Key]) -> Result<Vec<Vec<CsId>>, StoreError> {
        self.with_keys(CS_BY_KEY, HIGHEST_JOIN_KEY, keys, CsId)
    }

    fn mv_after(&mut self, after: MvId, most: usize) -> Result<Vec<MvObject>, StoreError> {
        let rows = self.query(MV_AFTER, &[&after.0, &(most as i64)])?;
        rows.iter().map(mv_row).collect()
    }

    fn search(
        &mut self,
        attribute: Attribute,
        after: (&[u8], MvId),
        before: &[u8],
        most: usize,
    ) -> Result<Vec<(Vec<u8>, MvId)>, StoreError> {
        let (value, mv) = after;
        let rows =
            self.query(SEARCH_KEYS, &[&(attribute.0 as i32), &value, &mv.0, &before, &(most as i64)])?;
        rows.iter().map(|row| Ok((row.try_get(0)?, MvId(row.try_get(1)?)))).collect()
    }

    fn clear_search(&mut self) -> Result<(), StoreError> {
        self.begin()?;
        self.execute("DELETE FROM mv_search", &[])
    }

    fn failure(&mut self, id: CsId) -> Result<Option<String>, StoreError> {
        let rows = self.query("SELECT text FROM failure WHERE cs = $1", &[&id.0])?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    }

    fn deletions(&mut self, until_unix_s: u64, most: usize) -> Result<Vec<(CsId, u64)>, StoreError> {
        let rows = self.query(DELETIONS, &[&seconds(until_unix_s), &(most as i64)])?;
        rows.iter().map(|row| Ok((CsId(row.try_get(0)?), row.try_get::<_, i64>(1)?.max(0) as u64))).collect()
    }

    fn has_join_keys(&mut self) -> Result<bool, StoreError> {
        let rows = self.query("SELECT EXISTS (SELECT 1 FROM cs_key)", &[])?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
    }

    fn find(
        &mut self,
        agent: AgentId,
        by: LookupKey,
        hashes: &[IndexKey],
    ) -> Result<Vec<Option<ReferenceTarget>>, StoreError> {
        let mut all = vec![None; hashes.len()];
        let (sql, highest) = match by {
            LookupKey::Anchor => (FIND_BY_ANCHOR, HIGHEST_ANCHOR),
            LookupKey::Name => (FIND_BY_NAME, HIGHEST_NAME),
        };
        let known = self.not_beyond(highest, agent.0, hashes.iter().copied())?;
        if known.is_empty() {
            return Ok(all);
        }
        let wanted: Vec<&[u8]> = known.iter().map(|at| hashes[*at].as_bytes()).collect();
        let rows = self.query(sql, &[&(agent.0 as i32), &wanted])?;
        let ids = rows.iter().map(|row| Ok(CsId(row.try_get(1)?))).collect::<Result<Vec<_>, StoreError>>()?;
        self.load_states(ids.iter().copied())?;
        for (row, id) in rows.iter().zip(ids) {
            let Some(at) = place(row, known.len())?.map(|at| known[at]) else { continue };
            let anchor = key_of(id.0, row.try_get(2)?)?;
            all[at] = Some(found(id.0, anchor, self.standing.of(id), row.try_get(3)?));
        }
        Ok(all)
    }

    fn links(&mut self, of: &[MvId]) -> Result<Vec<Link>, StoreError> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = of.iter().map(|id| id.0).collect();
        let mut mv_of = HashMap::with_capacity(ids.len());
        for row in self.query(CONNECTORS, &[&ids])? {
            let mv: i64 = row.try_get(0)?;
            for cs in connectors_from(mv, row.try_get(1)?)? {
                mv_of.insert(cs.0, MvId(mv));
            }
        }
        let mut connectors: Vec<i64> = mv_of.keys().copied().collect();
        connectors.sort_unstable();
        self.load_states(connectors.iter().copied().map(CsId))?;
        connectors.retain(|id| self.standing.of(CsId(*id)).is_connected());
        let mut links = Vec::with_capacity(connectors.len());
        for row in self.query(LINKS, &[&connectors])? {
            let id: i64 = row.try_get(0)?;
            if let Some(mv) = mv_of.get(&id) {
                links.push(Link {
                    mv: *mv,
                    cs: CsId(id),
                    agent: AgentId(row.try_get::<_, i32>(1)? as u32),
                    anchor: key_of(id, row.try_get(2)?)?,
                    name: key_of(id, row.try_get(3)?)?,
                });
            }
        }
        Ok(links)
    }

    fn references(&mut self, of: &[CsId]) -> Result<Vec<Reference>, StoreError> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = of.iter().map(|id| id.0).collect();
        let rows = self.query(REFERENCES, &[&ids])?;
        let found = rows.iter().map(|row| {
            let (attribute, agent): (i32, i32) = (row.try_get(1)?, row.try_get(3)?);
            let state: i16 = row.try_get(4)?;
            let target: &[u8] = row.try_get(2)?;
            reference(row.try_get(0)?, attribute as u32, target, agent as u32, state.into(), row.try_get(5)?)
        });
        let mut found: Vec<Reference> = found.collect::<Result<_, StoreError>>()?;
        found.sort_unstable_by_key(|reference| (reference.cs, reference.attribute, reference.target));
        Ok(found)
    }

    fn count_references(&mut self, of: &[CsId]) -> Result<Vec<u64>, StoreError> {
        let mut counts = vec![0; of.len()];
        if of.is_empty() {
            return Ok(counts);
        }
        let ids: Vec<i64> = of.iter().map(|id| id.0).collect();
        for row in self.query(COUNT_REFERENCES, &[&ids])? {
            if let Some(at) = place(&row, of.len())? {
                counts[at] = row.try_get::<_, i64>(1)?.max(0) as u64;
            }
        }
        Ok(counts)
    }

    fn referring(&mut self, agent: AgentId, targets: &[IndexKey]) -> Result<Vec<CsId>, StoreError> {
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        let targets: Vec<&[u8]> = targets.iter().map(|hash| hash.as_bytes()).collect();
        let rows = self.query(REFERRING, &[&(agent.0 as i32), &targets])?;
        rows.iter().map(|row| Ok(CsId(row.try_get(0)?))).collect()
    }

    fn due(&mut self, most: usize) -> Result<Vec<CsId>, StoreError> {
        let rows = self.query(DUE, &[&(most as i64)])?;
        rows.iter().map(|row| Ok(CsId(row.try_get(0)?))).collect()
    }

    fn write(&mut self, changes: &[Write]) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.begin()?;
        self.load_states(changes.iter().filter_map(Pages::touched))?;
        let mut round = Round::default();
        for change in changes {
            if !round.has_room_for(change) {
                self.carry_out(&round)?;
                round = Round::default();
                round.has_room_for(change);
            }
            round.take(change, self.standing.change(change));
        }
        self.carry_out(&round)
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
        let rows = self.query("SELECT text FROM note WHERE name = $1", &[&name])?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    }

    fn set_note(&mut self, name: &str, text: Option<&str>) -> Result<(), StoreError> {
        self.begin()?;
        match text {
            Some(text) => {
                let kept = "INSERT INTO note (name, text) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET text = $2";
                self.execute(kept, &[&name, &text])
            }
            None => self.execute("DELETE FROM note WHERE name = $1", &[&name]),
        }
    }

    fn keep_step(&mut self, step: &StepRecord) -> Result<(), StoreError> {
        self.begin()?;
        self.execute(
            "INSERT INTO step (run, agent, step, started_unix_s, seconds, outcome, text, counters, run_number, by_user) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            &[
                &step.run,
                &step.agent,
                &step.step,
                &(step.started_unix_s as i64),
                &step.seconds,
                &step.outcome,
                &without_nul(&step.text),
                &counters_text(&step.counters),
                &seconds(step.number),
                &without_nul(&step.user),
            ],
        )
    }

    fn history(&mut self, most: usize) -> Result<Vec<StepRecord>, StoreError> {
        let listed = "SELECT run, agent, step, started_unix_s, seconds, outcome, text, counters, run_number, by_user \
            FROM step ORDER BY number DESC LIMIT $1";
        let rows = self.query(listed, &[&(most as i64)])?;
        rows.iter()
            .map(|row| {
                Ok(StepRecord {
                    run: row.try_get(0)?,
                    agent: row.try_get(1)?,
                    step: row.try_get(2)?,
                    started_unix_s: row.try_get::<_, i64>(3)?.max(0) as u64,
                    seconds: row.try_get(4)?,
                    outcome: row.try_get(5)?,
                    text: row.try_get(6)?,
                    counters: counters_of(row.try_get(7)?),
                    number: row.try_get::<_, i64>(8)?.max(0) as u64,
                    user: row.try_get(9)?,
                    errors: Vec::new(),
                })
            })
            .collect()
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
        // A connection of its own: the other one is in a transaction.
        let mut store = Postgres::connect(&self.server, Durability::Off)?;
        // Dropping it must not release the lock.
        store.unknown = Some(HashMap::new());
        Ok(Announcer::to_server(store))
    }

    fn activity(&mut self) -> Result<Option<Activity>, StoreError> {
        self.told_activity()
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        if self.in_transaction {
            self.keep_standing()?;
            let (next_id, mv_count) = (self.ids.next(), self.mv_count);
            if (next_id, mv_count) != (self.kept_id, self.kept_mv_count) {
                let kept = "INSERT INTO meta (name, value) VALUES ('next_id', $1), ('mv_count', $2) \
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
                self.execute(kept, &[&next_id, &mv_count])?;
            }
            self.client.batch_execute("COMMIT")?;
            (self.kept_id, self.kept_mv_count) = (next_id, mv_count);
            self.in_transaction = false;
            self.standing.committed();
        }
        Ok(())
    }

    fn roll_back(&mut self) -> Result<(), StoreError> {
        self.standing.forget();
        self.mv_count = self.kept_mv_count;
        // A server that lost its client has rolled back already.
        if self.in_transaction && !self.client.is_closed() {
            self.client.batch_execute("ROLLBACK")?;
        }
        self.in_transaction = false;
        Ok(())
    }
}

impl Drop for Postgres {
    /// Releases the lock now: the server notices the end of a connection only later.
    fn drop(&mut self) {
        let _ = self.roll_back();
        if self.unknown.is_some() {
            return;
        }
        let _ = self.client.execute("SELECT pg_advisory_unlock($1)", &[&self.lock]);
    }
}
