//! Statements that write.

use rusqlite::{CachedStatement, Connection, Params, params};

use super::trail::KEEP_FAILURE;
use crate::hologram::Hologram;
use crate::object::{AgentId, CsId, CsObject, MvId, MvObject, PendingExport, PendingImport, Reference};
use crate::store::row::{connectors_bytes, image_of, seconds};
use crate::store::standing::{Effect, ImageChange, Pages};
use crate::store::{Failure, Key, Write, trail::Origin};

const INSERT_CS: &str = "INSERT INTO cs (id, agent, anchor, dn, name, hash, image, export) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const UPDATE_CS: &str = "UPDATE cs SET agent = ?2, anchor = ?3, dn = ?4, name = ?5, hash = ?6, image = ?7, export = ?8 WHERE id = ?1";
const INSERT_MV: &str = "INSERT INTO mv (id, kind, image, lineage, connectors) VALUES (?1, ?2, ?3, ?4, ?5)";
const UPDATE_MV: &str = "UPDATE mv SET image = ?2, lineage = ?3, connectors = ?4 WHERE id = ?1";
const INSERT_KEY: &str = "INSERT OR IGNORE INTO mv_key (rule, hash, mv) VALUES (?1, ?2, ?3)";
const INSERT_JOIN_KEY: &str = "INSERT OR IGNORE INTO cs_key (cs, rule, hash) VALUES (?1, ?2, ?3)";
const DROP_JOIN_KEYS: &str = "DELETE FROM cs_key WHERE cs = ?1";
const KEEP_BEFORE: &str = "INSERT OR REPLACE INTO before (cs, hash, image) VALUES (?1, ?2, ?3)";
const MOVE_BEFORE: &str =
    "INSERT OR REPLACE INTO before (cs, hash, image) SELECT id, hash, image FROM cs WHERE id = ?1";
const RESTORE_BEFORE: &str = "UPDATE cs SET (hash, image) = (SELECT before.hash, before.image FROM before WHERE before.cs = cs.id) WHERE id = ?1";
const DROP_BEFORE: &str = "DELETE FROM before WHERE cs = ?1";
const STAGE_CS: &str = "UPDATE cs SET hash = ?2, image = ?3 WHERE id = ?1";
const DROP_FAILURE: &str = "DELETE FROM failure WHERE cs = ?1";
const KEEP_REFERENCE: &str = "INSERT INTO ref (cs, attribute, target, agent, state, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
     ON CONFLICT (cs, attribute, target) DO UPDATE SET state = excluded.state, value = excluded.value";
// Bits of the state: 1 is synchronized, 2 is imported, the higher ones are the pending export.
const SETTLE_REFERENCES: &str = "UPDATE ref SET state = (state & ~1) | ((state >> 1) & 1) WHERE cs = ?1 AND (state & 1) <> ((state >> 1) & 1)";
const UNWANT_REFERENCES: &str = "UPDATE ref SET state = state & 3 WHERE cs = ?1 AND state > 3";
const DROP_REFERENCES: &str = "DELETE FROM ref WHERE cs = ?1 AND state = 0";
const DELETE_REFERENCES: &str = "DELETE FROM ref WHERE cs = ?1";
const DELETE_REFERENCE: &str = "DELETE FROM ref WHERE cs = ?1 AND attribute = ?2 AND target = ?3";
const DELETE_CS: &str = "DELETE FROM cs WHERE id = ?1";
const RENAME_CS: &str = "UPDATE cs SET dn = ?2, name = ?3 WHERE id = ?1";
const UNNAME_CS: &str = "UPDATE cs SET name = NULL WHERE id = ?1";
const KEEP_DELETION: &str = "INSERT OR REPLACE INTO deletion (cs, at_unix_s) VALUES (?1, ?2)";
const DROP_DELETION: &str = "DELETE FROM deletion WHERE cs = ?1";
const ADD_DUE: &str = "INSERT OR IGNORE INTO due (cs) VALUES (?1)";
const DELETE_DUE: &str = "DELETE FROM due WHERE cs = ?1";
const DELETE_MV: &str = "DELETE FROM mv WHERE id = ?1";
const DELETE_KEY: &str = "DELETE FROM mv_key WHERE rule = ?1 AND hash = ?2 AND mv = ?3";
const ADD_SEARCH: &str = "INSERT OR IGNORE INTO mv_search (attribute, value, mv) VALUES (?1, ?2, ?3)";
const DELETE_SEARCH: &str = "DELETE FROM mv_search WHERE attribute = ?1 AND value = ?2 AND mv = ?3";

/// Statements that a batch executes for each of its objects. The most frequent ones are prepared at the first use.
pub(super) struct Statements<'a> {
    connection: &'a Connection,
    new_cs: Option<CachedStatement<'a>>,
    new_mv: Option<CachedStatement<'a>>,
    new_key: Option<CachedStatement<'a>>,
}

impl<'a> Statements<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Statements { connection, new_cs: None, new_mv: None, new_key: None }
    }

    /// Writes a change with its effect. Returns by how much the number of metaverse objects changes.
    pub(super) fn write(
        &mut self,
        change: &Write,
        effect: Effect,
        agent: impl Fn(CsId) -> AgentId,
        origin: &Origin,
    ) -> Result<i64, rusqlite::Error> {
        let Effect { image, had_failed, drops_keys, drops_time, is_there } = effect;
        if let Some(id) = Pages::touched(change).filter(|_| drops_time) {
            self.run(DROP_DELETION, [id.0])?;
        }
        if let Some(id) = Pages::touched(change).filter(|_| drops_keys) {
            self.run(DROP_JOIN_KEYS, [id.0])?;
        }
        match change {
            Write::NewCs(object) => {
                change_before(self.connection, object, image)?;
                self.new_cs(object)?;
            }
            Write::Cs(object) if is_there => {
                change_before(self.connection, object, image)?;
                run_cs(&mut self.connection.prepare_cached(UPDATE_CS)?, object)?;
            }
            Write::Cs(_) => {}
            Write::Staged { id, pending } => {
                let staged = pending.as_ref().and_then(PendingImport::image);
                change_image(self.connection, *id, image, staged)?;
            }
            Write::Synchronized { id, .. } => {
                change_image(self.connection, *id, image, None)?;
                self.drop_failure(*id, had_failed)?;
            }
            Write::DeletedCs(id) => {
                change_image(self.connection, *id, image, None)?;
                self.drop_failure(*id, had_failed)?;
                self.run(DELETE_CS, [id.0])?;
                self.run(DELETE_REFERENCES, [id.0])?;
            }
            Write::JoinKeys { id, keys } if is_there => self.join_keys(*id, keys)?,
            Write::DeleteAt { id, at_unix_s: Some(at) } if is_there => {
                self.run(KEEP_DELETION, params![id.0, seconds(*at)])?;
            }
            Write::JoinKeys { .. } | Write::DeleteAt { .. } => {}
            Write::Renamed { id, dn, name } => self.run(RENAME_CS, params![id.0, dn, name])?,
            Write::Unnamed(id) => self.run(UNNAME_CS, [id.0])?,
            Write::Reference(reference) => self.reference(reference)?,
            Write::SettledReferences(id) => {
                self.run(SETTLE_REFERENCES, [id.0])?;
                self.run(DROP_REFERENCES, [id.0])?;
            }
            Write::UnwantedReferences(id) => {
                self.run(UNWANT_REFERENCES, [id.0])?;
                self.run(DROP_REFERENCES, [id.0])?;
            }
            Write::Due(id) => self.run(ADD_DUE, [id.0])?,
            Write::Done(id) => self.run(DELETE_DUE, [id.0])?,
            Write::Failure { id, why: Some(why) } if is_there => {
                self.failure(*id, agent(*id), why, origin)?;
            }
            Write::Failure { id, .. } => self.drop_failure(*id, had_failed)?,
            Write::NewMv(object) => {
                self.new_mv(object)?;
                return Ok(1);
            }
            Write::Mv(object) => self.run(
                UPDATE_MV,
                params![
                    object.id.0,
                    object.image.as_bytes(),
                    object.lineage.as_bytes(),
                    connectors_bytes(&object.connectors)
                ],
            )?,
            Write::DeletedMv(id) => {
                let deleted = self.connection.prepare_cached(DELETE_MV)?.execute([id.0])?;
                return Ok(-(deleted as i64));
            }
            Write::NewKey(key, mv) => self.new_key(key, *mv)?,
            Write::DeletedKey((rule, hash), mv) => self.run(DELETE_KEY, params![rule, hash, mv.0])?,
            Write::NewSearch((attribute, value), mv) => {
                self.run(ADD_SEARCH, params![attribute.0, value, mv.0])?;
            }
            Write::DeletedSearch((attribute, value), mv) => {
                self.run(DELETE_SEARCH, params![attribute.0, value, mv.0])?;
            }
        }
        Ok(0)
    }

    fn run(&self, sql: &str, values: impl Params) -> Result<(), rusqlite::Error> {
        self.connection.prepare_cached(sql)?.execute(values).map(|_| ())
    }

    fn new_cs(&mut self, object: &CsObject) -> Result<(), rusqlite::Error> {
        let statement = prepared(&mut self.new_cs, self.connection, INSERT_CS)?;
        run_cs(statement, object)
    }

    fn new_mv(&mut self, object: &MvObject) -> Result<(), rusqlite::Error> {
        let statement = prepared(&mut self.new_mv, self.connection, INSERT_MV)?;
        statement
            .execute(params![
                object.id.0,
                object.kind,
                object.image.as_bytes(),
                object.lineage.as_bytes(),
                connectors_bytes(&object.connectors)
            ])
            .map(|_| ())
    }

    fn new_key(&mut self, (rule, hash): &Key, mv: MvId) -> Result<(), rusqlite::Error> {
        let statement = prepared(&mut self.new_key, self.connection, INSERT_KEY)?;
        statement.execute(params![rule, hash, mv.0]).map(|_| ())
    }

    fn join_keys(&self, id: CsId, keys: &[Key]) -> Result<(), rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(INSERT_JOIN_KEY)?;
        for (rule, hash) in keys {
            statement.execute(params![id.0, rule, hash])?;
        }
        Ok(())
    }

    fn reference(&self, reference: &Reference) -> Result<(), rusqlite::Error> {
        let (cs, attribute, target) = (reference.cs.0, reference.attribute.0, reference.target);
        match reference.state() {
            0 => self.run(DELETE_REFERENCE, params![cs, attribute, target]),
            state => self.run(
                KEEP_REFERENCE,
                params![cs, attribute, target, reference.agent.0, state, reference.value],
            ),
        }
    }

    fn failure(
        &self,
        id: CsId,
        agent: AgentId,
        why: &Failure,
        origin: &Origin,
    ) -> Result<(), rusqlite::Error> {
        self.run(
            KEEP_FAILURE,
            params![
                id.0,
                agent.0,
                why.kind as i64,
                why.attribute.map(|attribute| attribute.0),
                why.text,
                seconds(origin.at_unix_s),
                seconds(origin.run),
                origin.step
            ],
        )
    }

    fn drop_failure(&self, id: CsId, had_failed: bool) -> Result<(), rusqlite::Error> {
        if had_failed { self.run(DROP_FAILURE, [id.0]) } else { Ok(()) }
    }
}

fn prepared<'a, 'b>(
    slot: &'b mut Option<CachedStatement<'a>>,
    connection: &'a Connection,
    sql: &str,
) -> Result<&'b mut CachedStatement<'a>, rusqlite::Error> {
    let statement = match slot.take() {
        Some(statement) => statement,
        None => connection.prepare_cached(sql)?,
    };
    Ok(slot.insert(statement))
}

fn run_cs(statement: &mut CachedStatement<'_>, object: &CsObject) -> Result<(), rusqlite::Error> {
    let image = image_of(object);
    statement
        .execute(params![
            object.id.0,
            object.agent.0,
            object.anchor,
            object.dn,
            object.name,
            image.map(|image| image.hash().0),
            image.map(Hologram::as_bytes),
            object.pending_export.as_ref().map(PendingExport::to_bytes),
        ])
        .map(|_| ())
}

/// Writes the separately stored image of an object that is written whole.
fn change_before(
    connection: &Connection,
    object: &CsObject,
    change: ImageChange,
) -> Result<(), rusqlite::Error> {
    match (change, &object.synchronized) {
        (ImageChange::Kept, Some(before)) => {
            let (hash, before) = (before.hash().0, before.as_bytes());
            connection.prepare_cached(KEEP_BEFORE)?.execute(params![object.id.0, hash, before]).map(|_| ())
        }
        (ImageChange::Settled, _) => {
            connection.prepare_cached(DROP_BEFORE)?.execute([object.id.0]).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// Writes the change to an object's image, with the staged image if there is one.
fn change_image(
    connection: &Connection,
    id: CsId,
    change: ImageChange,
    image: Option<&Hologram>,
) -> Result<(), rusqlite::Error> {
    let run = |sql: &str| connection.prepare_cached(sql)?.execute([id.0]).map(|_| ());
    let put = |image: Option<&Hologram>| {
        let hash = image.map(|image| image.hash().0);
        let image = image.map(Hologram::as_bytes);
        connection.prepare_cached(STAGE_CS)?.execute(params![id.0, hash, image]).map(|_| ())
    };
    match change {
        ImageChange::Same => Ok(()),
        ImageChange::Kept => run(MOVE_BEFORE).and_then(|()| put(image)),
        ImageChange::Replaced => put(image),
        ImageChange::Restored => run(RESTORE_BEFORE).and_then(|()| run(DROP_BEFORE)),
        ImageChange::Cleared => put(None),
        ImageChange::Settled => run(DROP_BEFORE),
    }
}
