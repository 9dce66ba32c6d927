//! Statements that write.

use rusqlite::{CachedStatement, Connection, params};

use crate::hologram::Hologram;
use crate::object::{CsId, CsObject, MvId, MvObject, PendingExport, Reference};
use crate::store::Key;
use crate::store::row::{connectors_bytes, image_of};
use crate::store::standing::ImageChange;

pub(super) const INSERT_CS: &str = "INSERT INTO cs (id, agent, anchor, dn, name, hash, image, export) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
pub(super) const UPDATE_CS: &str = "UPDATE cs SET agent = ?2, anchor = ?3, dn = ?4, name = ?5, hash = ?6, image = ?7, export = ?8 WHERE id = ?1";
pub(super) const INSERT_MV: &str =
    "INSERT INTO mv (id, kind, image, lineage, connectors) VALUES (?1, ?2, ?3, ?4, ?5)";
pub(super) const UPDATE_MV: &str = "UPDATE mv SET image = ?2, lineage = ?3, connectors = ?4 WHERE id = ?1";
pub(super) const INSERT_KEY: &str = "INSERT OR IGNORE INTO mv_key (rule, hash, mv) VALUES (?1, ?2, ?3)";
pub(super) const INSERT_JOIN_KEY: &str = "INSERT OR IGNORE INTO cs_key (cs, rule, hash) VALUES (?1, ?2, ?3)";
pub(super) const DROP_JOIN_KEYS: &str = "DELETE FROM cs_key WHERE cs = ?1";
pub(super) const KEEP_BEFORE: &str = "INSERT OR REPLACE INTO before (cs, hash, image) VALUES (?1, ?2, ?3)";
pub(super) const MOVE_BEFORE: &str =
    "INSERT OR REPLACE INTO before (cs, hash, image) SELECT id, hash, image FROM cs WHERE id = ?1";
pub(super) const RESTORE_BEFORE: &str = "UPDATE cs SET (hash, image) = (SELECT before.hash, before.image FROM before WHERE before.cs = cs.id) WHERE id = ?1";
pub(super) const DROP_BEFORE: &str = "DELETE FROM before WHERE cs = ?1";
pub(super) const STAGE_CS: &str = "UPDATE cs SET hash = ?2, image = ?3 WHERE id = ?1";
pub(super) const DROP_FAILURE: &str = "DELETE FROM failure WHERE cs = ?1";
pub(super) const KEEP_REFERENCE: &str = "INSERT INTO ref (cs, attribute, target, agent, state, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
     ON CONFLICT (cs, attribute, target) DO UPDATE SET state = excluded.state, value = excluded.value";
// Bits of the state: 1 is synchronized, 2 is imported, the higher ones are the pending export.
pub(super) const SETTLE_REFERENCES: &str = "UPDATE ref SET state = (state & ~1) | ((state >> 1) & 1) WHERE cs = ?1 AND (state & 1) <> ((state >> 1) & 1)";
pub(super) const UNWANT_REFERENCES: &str = "UPDATE ref SET state = state & 3 WHERE cs = ?1 AND state > 3";
pub(super) const DROP_REFERENCES: &str = "DELETE FROM ref WHERE cs = ?1 AND state = 0";

pub(super) fn write_reference(connection: &Connection, reference: &Reference) -> Result<(), rusqlite::Error> {
    let (cs, attribute, target) = (reference.cs.0, reference.attribute.0, reference.target);
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

/// Statements that a batch executes for each of its objects, prepared at the first use.
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

    pub(super) fn new_cs(&mut self, object: &CsObject) -> Result<(), rusqlite::Error> {
        let statement = prepared(&mut self.new_cs, self.connection, INSERT_CS)?;
        run_cs(statement, object)
    }

    pub(super) fn new_mv(&mut self, object: &MvObject) -> Result<(), rusqlite::Error> {
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

    pub(super) fn new_key(&mut self, (rule, hash): &Key, mv: MvId) -> Result<(), rusqlite::Error> {
        let statement = prepared(&mut self.new_key, self.connection, INSERT_KEY)?;
        statement.execute(params![rule, hash, mv.0]).map(|_| ())
    }
}

pub(super) fn prepared<'a, 'b>(
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

pub(super) fn run_cs(statement: &mut CachedStatement<'_>, object: &CsObject) -> Result<(), rusqlite::Error> {
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
pub(super) fn change_before(
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
pub(super) fn change_image(
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
