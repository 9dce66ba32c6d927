//! The tables of the file.

/// What every format has.
pub(super) const SCHEMA: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE name (kind INTEGER, id INTEGER, text TEXT, PRIMARY KEY (kind, id), UNIQUE (kind, text)) WITHOUT ROWID;
CREATE TABLE note (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE cs (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL,
    anchor BLOB,
    dn TEXT NOT NULL,
    name BLOB,
    hash BLOB,
    image BLOB,
    export BLOB
);
CREATE UNIQUE INDEX cs_anchor ON cs (agent, anchor) WHERE anchor IS NOT NULL;
CREATE UNIQUE INDEX cs_name ON cs (agent, name) WHERE name IS NOT NULL;
CREATE TABLE before (cs INTEGER PRIMARY KEY, hash BLOB NOT NULL, image BLOB NOT NULL);
CREATE TABLE standing (page INTEGER PRIMARY KEY, cells BLOB NOT NULL);
CREATE TABLE failure (cs INTEGER PRIMARY KEY, kind INTEGER NOT NULL, text TEXT NOT NULL);
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
CREATE TABLE mv (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, image BLOB NOT NULL, lineage BLOB NOT NULL, connectors BLOB NOT NULL);
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

/// What format 4 has in addition to format 3.
pub(super) const JOIN_KEYS: &str = "
CREATE TABLE cs_key (cs INTEGER, rule INTEGER, hash BLOB, PRIMARY KEY (cs, rule, hash)) WITHOUT ROWID;
CREATE INDEX cs_key_hash ON cs_key (rule, hash);
CREATE TABLE deletion (cs INTEGER PRIMARY KEY, at_unix_s INTEGER NOT NULL);
CREATE INDEX deletion_at ON deletion (at_unix_s, cs);
";

/// What format 5 has in addition to format 4.
pub(super) const SEARCH: &str = "
CREATE TABLE mv_search (attribute INTEGER, value BLOB, mv INTEGER, PRIMARY KEY (attribute, value, mv)) WITHOUT ROWID;
";

/// The columns of a connector space object.
pub(super) const CS_COLUMNS: &str = "id, anchor, dn, name, image, export";
/// The columns of a metaverse object.
pub(super) const MV_COLUMNS: &str = "id, kind, image, lineage, connectors";
