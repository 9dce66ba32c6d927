//! The SQL statements of the store.

// A name in a system is bytes, because text cannot contain every character here. The index uses a key of it,
// because long names do not fit. Pages of cells are updated in place, for which their table has a fill
// factor.
pub(super) const SCHEMA: &str = "
CREATE TABLE meta (name text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE name (kind smallint, id integer, text text NOT NULL, PRIMARY KEY (kind, id), UNIQUE (kind, text));
CREATE TABLE note (name text PRIMARY KEY, text text NOT NULL);
CREATE TABLE cs (
    id bigint PRIMARY KEY,
    agent integer NOT NULL,
    anchor bytea,
    dn bytea NOT NULL,
    name bytea,
    hash bytea,
    image bytea,
    export bytea
);
CREATE UNIQUE INDEX cs_anchor ON cs (agent, anchor) WHERE anchor IS NOT NULL;
CREATE UNIQUE INDEX cs_name ON cs (agent, name) WHERE name IS NOT NULL;
CREATE TABLE before (cs bigint PRIMARY KEY, hash bytea NOT NULL, image bytea NOT NULL);
CREATE TABLE standing (page bigint PRIMARY KEY, cells bytea NOT NULL) WITH (fillfactor = 50);
ALTER TABLE standing ALTER cells SET STORAGE PLAIN;
CREATE TABLE failure (cs bigint PRIMARY KEY, kind smallint NOT NULL, text text NOT NULL);
CREATE TABLE step (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL,
    agent text NOT NULL,
    step text NOT NULL,
    started_unix_s bigint NOT NULL,
    seconds double precision NOT NULL,
    outcome text NOT NULL,
    text text NOT NULL,
    counters text NOT NULL
);
CREATE TABLE mv (id bigint PRIMARY KEY, kind integer NOT NULL, image bytea NOT NULL, lineage bytea NOT NULL, connectors bytea NOT NULL);
CREATE TABLE mv_key (rule integer, hash bytea, mv bigint, PRIMARY KEY (rule, hash, mv));
CREATE TABLE ref (
    cs bigint,
    attribute integer,
    target bytea,
    agent integer NOT NULL,
    state smallint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (cs, attribute, target)
);
CREATE INDEX ref_target ON ref (agent, target) INCLUDE (cs);
CREATE TABLE due (cs bigint PRIMARY KEY);
";

/// What format 4 has in addition to format 3.
pub(super) const JOIN_KEYS: &str = "
CREATE TABLE cs_key (cs bigint, rule integer, hash bytea, PRIMARY KEY (cs, rule, hash));
CREATE INDEX cs_key_hash ON cs_key (rule, hash) INCLUDE (cs);
CREATE TABLE deletion (cs bigint PRIMARY KEY, at_unix_s bigint NOT NULL);
CREATE INDEX deletion_at ON deletion (at_unix_s, cs);
";

/// What format 5 has in addition to format 4.
pub(super) const SEARCH: &str = "
CREATE TABLE mv_search (attribute integer, value bytea, mv bigint, PRIMARY KEY (attribute, value, mv));
";

pub(super) const BATCH: &str = "
CREATE TEMPORARY TABLE batch_cs (
    id bigint, agent integer, anchor bytea, dn bytea, name bytea, hash bytea, image bytea, export bytea
) ON COMMIT DELETE ROWS;
CREATE TEMPORARY TABLE batch_image (id bigint, hash bytea, image bytea) ON COMMIT DELETE ROWS;
CREATE TEMPORARY TABLE batch_before (id bigint, hash bytea, image bytea) ON COMMIT DELETE ROWS;
CREATE TEMPORARY TABLE batch_mv (id bigint, kind integer, image bytea, lineage bytea, connectors bytea) ON COMMIT DELETE ROWS;
";

pub(super) const SETTINGS: &str = "SELECT set_config(name, value, false) FROM (VALUES \
    ('synchronous_commit', $1), ('search_path', quote_ident($2)), \
    ('plan_cache_mode', 'force_custom_plan'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'), \
    ('random_page_cost', '1.1'), ('jit', 'off'), ('lock_timeout', '2s'), ('statement_timeout', '0'), \
    ('idle_in_transaction_session_timeout', '0'), ('client_min_messages', 'warning')) AS setting (name, value)";

pub(super) const CS_BY_ID: &str =
    "SELECT id, anchor, dn, name, image, export FROM cs WHERE id = ANY($1) ORDER BY id";
pub(super) const CS_BETWEEN: &str =
    "SELECT id, anchor, dn, name, image, export FROM cs WHERE id BETWEEN $1 AND $2 ORDER BY id";
pub(super) const BEFORE: &str = "SELECT found.* FROM unnest($1::bigint[]) AS wanted (wanted) CROSS JOIN LATERAL \
    (SELECT cs, image FROM before WHERE cs = wanted OFFSET 0) AS found";
pub(super) const BEFORE_HASHES: &str = "SELECT found.* FROM unnest($1::bigint[]) AS wanted (wanted) CROSS JOIN LATERAL \
    (SELECT cs, hash FROM before WHERE cs = wanted OFFSET 0) AS found";
pub(super) const PAGES: &str = "SELECT found.* FROM unnest($1::bigint[]) AS wanted (wanted) CROSS JOIN LATERAL \
    (SELECT page, cells FROM standing WHERE page = wanted OFFSET 0) AS found";
pub(super) const PAGES_FROM: &str =
    "SELECT page, cells FROM standing WHERE page >= $1 ORDER BY page LIMIT $2";
pub(super) const KEEP_PAGES: &str = "INSERT INTO standing (page, cells) SELECT * FROM unnest($1::bigint[], $2::bytea[]) \
    ON CONFLICT (page) DO UPDATE SET cells = excluded.cells";
pub(super) const MV_BY_ID: &str =
    "SELECT id, kind, image, lineage, connectors FROM mv WHERE id = ANY($1) ORDER BY id";
pub(super) const MV_AFTER: &str =
    "SELECT id, kind, image, lineage, connectors FROM mv WHERE id > $1 ORDER BY id LIMIT $2";
pub(super) const SEARCH_KEYS: &str = "SELECT value, mv FROM mv_search WHERE attribute = $1 AND (value, mv) > ($2, $3) AND value < $4 \
    ORDER BY attribute, value, mv LIMIT $5";
pub(super) const ADD_SEARCH: &str = "INSERT INTO mv_search (attribute, value, mv) SELECT * FROM unnest($1::integer[], $2::bytea[], $3::bigint[]) \
    ON CONFLICT DO NOTHING";
pub(super) const DELETE_SEARCH: &str = "DELETE FROM mv_search USING unnest($1::integer[], $2::bytea[], $3::bigint[]) AS batch (attribute, value, mv) \
    WHERE mv_search.attribute = batch.attribute AND mv_search.value = batch.value AND mv_search.mv = batch.mv";
pub(super) const CONNECTORS: &str = "SELECT id, connectors FROM mv WHERE id = ANY($1)";
pub(super) const LINKS: &str = "SELECT id, agent, anchor, name FROM cs WHERE id = ANY($1) ORDER BY id";
pub(super) const MV_BY_KEY: &str = "SELECT n, mv_key.mv FROM unnest($1::integer[], $2::bytea[]) WITH ORDINALITY AS wanted (rule, hash, n) \
    JOIN mv_key ON mv_key.rule = wanted.rule AND mv_key.hash = wanted.hash";
pub(super) const DELETE_CS: &str = "DELETE FROM cs WHERE id = ANY($1)";
pub(super) const DELETE_MV: &str = "DELETE FROM mv WHERE id = ANY($1)";
// OFFSET 0 prevents the planner from flattening the subquery. For a table without statistics it assumes that
// an agent has a handful of objects, and would scan all of it.
pub(super) const HEADS: &str = "SELECT n, id, hash, name \
    FROM unnest($2::bytea[]) WITH ORDINALITY AS wanted (wanted, n) CROSS JOIN LATERAL \
    (SELECT id, hash, name FROM cs WHERE agent = $1 AND anchor = wanted OFFSET 0) AS head";
macro_rules! find {
    ($column:literal) => {
        concat!(
            "SELECT n, id, anchor, export FROM unnest($2::bytea[]) WITH ORDINALITY AS wanted (wanted, n) CROSS JOIN LATERAL \
             (SELECT id, anchor, substring(export from 1 for 3) AS export FROM cs WHERE agent = $1 AND ",
            $column,
            " = wanted OFFSET 0) AS found"
        )
    };
}

pub(super) const HIGHEST_ANCHOR: &str =
    "SELECT anchor FROM cs WHERE agent = $1 AND anchor IS NOT NULL ORDER BY agent DESC, anchor DESC LIMIT 1";
pub(super) const HIGHEST_NAME: &str =
    "SELECT name FROM cs WHERE agent = $1 AND name IS NOT NULL ORDER BY agent DESC, name DESC LIMIT 1";
pub(super) const HIGHEST_KEY: &str =
    "SELECT hash FROM mv_key WHERE rule = $1 ORDER BY rule DESC, hash DESC LIMIT 1";
pub(super) const HIGHEST_JOIN_KEY: &str =
    "SELECT hash FROM cs_key WHERE rule = $1 ORDER BY rule DESC, hash DESC LIMIT 1";
pub(super) const CS_BY_KEY: &str = "SELECT n, found.cs FROM unnest($1::integer[], $2::bytea[]) WITH ORDINALITY AS wanted (rule, hash, n) \
    CROSS JOIN LATERAL (SELECT cs FROM cs_key WHERE rule = wanted.rule AND hash = wanted.hash OFFSET 0) AS found";
pub(super) const ADD_JOIN_KEYS: &str = "INSERT INTO cs_key (cs, rule, hash) SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bytea[]) \
    ON CONFLICT DO NOTHING";
pub(super) const DROP_JOIN_KEYS: &str =
    "DELETE FROM cs_key USING unnest($1::bigint[]) AS batch (cs) WHERE cs_key.cs = batch.cs";
pub(super) const DELETIONS: &str =
    "SELECT cs, at_unix_s FROM deletion WHERE at_unix_s <= $1 ORDER BY at_unix_s, cs LIMIT $2";
pub(super) const KEEP_DELETIONS: &str = "INSERT INTO deletion (cs, at_unix_s) SELECT * FROM unnest($1::bigint[], $2::bigint[]) \
    ON CONFLICT (cs) DO UPDATE SET at_unix_s = excluded.at_unix_s";
pub(super) const DROP_DELETIONS: &str =
    "DELETE FROM deletion USING unnest($1::bigint[]) AS batch (cs) WHERE deletion.cs = batch.cs";
pub(super) const FIND_BY_ANCHOR: &str = find!("anchor");
pub(super) const FIND_BY_NAME: &str = find!("name");
pub(super) const REFERENCES: &str = "SELECT cs, attribute, target, agent, state, value FROM unnest($1::bigint[]) AS wanted (wanted) \
    CROSS JOIN LATERAL (SELECT * FROM ref WHERE cs = wanted OFFSET 0) AS found";
pub(super) const COUNT_REFERENCES: &str = "SELECT n, count FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (wanted, n) CROSS JOIN LATERAL \
    (SELECT count(*) FROM ref WHERE cs = wanted) AS counted";
pub(super) const REFERRING: &str = "SELECT DISTINCT cs FROM unnest($2::bytea[]) AS wanted (wanted) CROSS JOIN LATERAL \
    (SELECT cs FROM ref WHERE agent = $1 AND target = wanted OFFSET 0) AS found ORDER BY cs";
pub(super) const DUE: &str = "SELECT cs FROM due ORDER BY cs LIMIT $1";
pub(super) const KEEP_REFERENCES: &str = "INSERT INTO ref (cs, attribute, target, agent, state, value) \
    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bytea[], $4::integer[], $5::smallint[], $6::bytea[]) \
    ON CONFLICT (cs, attribute, target) DO UPDATE SET state = excluded.state, value = excluded.value";
pub(super) const DELETE_REFERENCES: &str = "DELETE FROM ref USING unnest($1::bigint[], $2::integer[], $3::bytea[]) AS batch (cs, attribute, target) \
    WHERE ref.cs = batch.cs AND ref.attribute = batch.attribute AND ref.target = batch.target";
// Bits of the state: 1 is synchronized, 2 is imported, the higher ones are the pending export.
pub(super) const SETTLE_REFERENCES: &str = "UPDATE ref SET state = (state & ~1) | ((state >> 1) & 1) FROM unnest($1::bigint[]) AS batch (cs) \
    WHERE ref.cs = batch.cs AND (state & 1) <> ((state >> 1) & 1)";
pub(super) const UNWANT_REFERENCES: &str = "UPDATE ref SET state = state & 3 FROM unnest($1::bigint[]) AS batch (cs) \
    WHERE ref.cs = batch.cs AND state > 3";
pub(super) const DROP_REFERENCES: &str = "DELETE FROM ref USING (SELECT found.* FROM unnest($1::bigint[]) AS wanted (wanted) \
    CROSS JOIN LATERAL (SELECT cs, attribute, target FROM ref WHERE cs = wanted AND state = 0 OFFSET 0) AS found) AS gone \
    WHERE ref.cs = gone.cs AND ref.attribute = gone.attribute AND ref.target = gone.target";
pub(super) const DROP_ALL_REFERENCES: &str =
    "DELETE FROM ref USING unnest($1::bigint[]) AS batch (cs) WHERE ref.cs = batch.cs";
pub(super) const ADD_DUE: &str = "INSERT INTO due SELECT * FROM unnest($1::bigint[]) ON CONFLICT DO NOTHING";
pub(super) const DELETE_DUE: &str =
    "DELETE FROM due USING unnest($1::bigint[]) AS batch (cs) WHERE due.cs = batch.cs";
pub(super) const RENAME_CS: &str = "UPDATE cs SET dn = batch.dn, name = batch.name \
    FROM unnest($1::bigint[], $2::bytea[], $3::bytea[]) AS batch (id, dn, name) WHERE cs.id = batch.id";
pub(super) const UNNAME_CS: &str =
    "UPDATE cs SET name = NULL FROM unnest($1::bigint[]) AS batch (id) WHERE cs.id = batch.id";
pub(super) const COPY_NEW_CS: &str =
    "COPY cs (id, agent, anchor, dn, name, hash, image, export) FROM STDIN (FORMAT binary)";
pub(super) const COPY_CS: &str = "COPY batch_cs FROM STDIN (FORMAT binary)";
pub(super) const COPY_IMAGES: &str = "COPY batch_image FROM STDIN (FORMAT binary)";
pub(super) const COPY_BEFORE: &str = "COPY batch_before FROM STDIN (FORMAT binary)";
pub(super) const COPY_NEW_MV: &str =
    "COPY mv (id, kind, image, lineage, connectors) FROM STDIN (FORMAT binary)";
pub(super) const COPY_MV: &str = "COPY batch_mv FROM STDIN (FORMAT binary)";
// Unique values are released before other rows take them.
pub(super) const FREE_CS: &str = "UPDATE cs SET anchor = NULL, name = NULL FROM batch_cs AS batch WHERE cs.id = batch.id \
    AND ((cs.anchor IS NOT NULL AND (cs.agent, cs.anchor) IS DISTINCT FROM (batch.agent, batch.anchor)) \
    OR (cs.name IS NOT NULL AND (cs.agent, cs.name) IS DISTINCT FROM (batch.agent, batch.name)))";
pub(super) const UPDATE_CS: &str = "UPDATE cs SET agent = batch.agent, anchor = batch.anchor, dn = batch.dn, name = batch.name, \
    hash = batch.hash, image = batch.image, export = batch.export FROM batch_cs AS batch WHERE cs.id = batch.id";
pub(super) const UPDATE_IMAGES: &str =
    "UPDATE cs SET hash = batch.hash, image = batch.image FROM batch_image AS batch WHERE cs.id = batch.id";
pub(super) const UPDATE_MV: &str = "UPDATE mv SET image = batch.image, lineage = batch.lineage, connectors = batch.connectors \
    FROM batch_mv AS batch WHERE mv.id = batch.id";
pub(super) const KEEP_BEFORE: &str = "INSERT INTO before (cs, hash, image) SELECT id, hash, image FROM batch_before \
    ON CONFLICT (cs) DO UPDATE SET hash = excluded.hash, image = excluded.image";
pub(super) const MOVE_BEFORE: &str = "INSERT INTO before (cs, hash, image) SELECT id, hash, image FROM cs WHERE id = ANY($1) \
    ON CONFLICT (cs) DO UPDATE SET hash = excluded.hash, image = excluded.image";
pub(super) const RESTORE_BEFORE: &str = "UPDATE cs SET hash = before.hash, image = before.image FROM unnest($1::bigint[]) AS batch (id), before \
    WHERE before.cs = batch.id AND cs.id = batch.id";
pub(super) const DROP_BEFORE: &str =
    "DELETE FROM before USING unnest($1::bigint[]) AS batch (cs) WHERE before.cs = batch.cs";
pub(super) const DROP_FAILURES: &str =
    "DELETE FROM failure USING unnest($1::bigint[]) AS batch (cs) WHERE failure.cs = batch.cs";
pub(super) const ADD_KEYS: &str = "INSERT INTO mv_key (rule, hash, mv) SELECT * FROM unnest($1::integer[], $2::bytea[], $3::bigint[]) \
    ON CONFLICT DO NOTHING";
pub(super) const DELETE_KEYS: &str = "DELETE FROM mv_key USING unnest($1::integer[], $2::bytea[], $3::bigint[]) AS batch (rule, hash, mv) \
    WHERE mv_key.rule = batch.rule AND mv_key.hash = batch.hash AND mv_key.mv = batch.mv";
