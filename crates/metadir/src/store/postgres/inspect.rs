//! The state of a store on a server, for an administrator.

use std::collections::{BTreeMap, HashMap};

use super::{FORMAT, Postgres, Server};
use crate::store::Durability;
use crate::store::inspection::{Content, PostgresState, content};
use crate::store::{Numbers, StoreError};

/// The settings that decide about crashes, memory, the log and space.
const SETTINGS_SHOWN: &str = "SELECT name, setting, coalesce(unit, '') FROM pg_settings WHERE name = ANY(ARRAY[\
    'server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_level', 'wal_sync_method', \
    'max_wal_size', 'checkpoint_timeout', 'checkpoint_completion_target', 'shared_buffers', \
    'effective_cache_size', 'work_mem', 'autovacuum', 'archive_mode', 'synchronous_standby_names', \
    'data_checksums', 'data_directory', 'temp_tablespaces', 'zero_damaged_pages'])";

const SIZES: &str = "SELECT \
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c \
     JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'), \
    pg_database_size(current_database()), pg_is_in_recovery(), \
    extract(epoch FROM pg_postmaster_start_time())::bigint, \
    (SELECT age(datfrozenxid)::bigint FROM pg_database WHERE datname = current_database()), \
    (SELECT blks_hit FROM pg_stat_database WHERE datname = current_database()), \
    (SELECT blks_read FROM pg_stat_database WHERE datname = current_database())";

const WORST_TABLE: &str = "SELECT relname::text, n_dead_tup, n_live_tup FROM pg_stat_user_tables \
    WHERE schemaname = $1 ORDER BY n_dead_tup DESC, relname LIMIT 1";

const TABLESPACES: &str = "SELECT t.spcname::text, pg_tablespace_location(t.oid) FROM pg_tablespace t WHERE t.oid IN \
    (SELECT CASE c.reltablespace WHEN 0 THEN (SELECT dattablespace FROM pg_database WHERE datname = current_database()) \
     ELSE c.reltablespace END FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'i') \
     UNION SELECT dattablespace FROM pg_database WHERE datname = current_database()) ORDER BY 1";

const TEMPORARY: &str = "SELECT spcname::text, pg_tablespace_location(oid) FROM pg_tablespace \
    WHERE spcname::text = ANY(SELECT trim(both '\" ' FROM name) \
    FROM unnest(string_to_array(current_setting('temp_tablespaces'), ',')) AS name) ORDER BY 1";

const TRAIL: &str = "SELECT coalesce(sum(pg_column_size(ids) + pg_column_size(changes)), 0)::bigint, min(at_unix_s) \
    FROM change_log WHERE at_unix_s >= $1";

impl Postgres {
    /// The state of the store on a server, in a session with the settings of a run.
    pub(crate) fn inspect(server: &Server, durability: Durability) -> Result<PostgresState, StoreError> {
        let mut store = Postgres::connect(server, durability)?;
        store.unknown = Some(HashMap::new());
        store.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        let mut settings = BTreeMap::new();
        for row in store.client.query(SETTINGS_SHOWN, &[])? {
            settings.insert(row.try_get::<_, String>(0)?, (row.try_get(1)?, row.try_get(2)?));
        }
        let row = store.client.query_one(SIZES, &[&server.schema])?;
        let natural = |at: usize| -> Result<u64, StoreError> {
            Ok(row.try_get::<_, Option<i64>>(at)?.unwrap_or_default().max(0) as u64)
        };
        let (schema_bytes, database_bytes, started_unix_s) = (natural(0)?, natural(1)?, natural(3)?);
        let (transaction_age, blocks) = (natural(4)?, (natural(5)?, natural(6)?));
        let is_standby = row.try_get(2)?;
        let worst = store.client.query_opt(WORST_TABLE, &[&server.schema])?;
        let worst_table = worst
            .map(|row| -> Result<_, StoreError> {
                let count = |at| row.try_get::<_, i64>(at).map(|count| count.max(0) as u64);
                Ok((row.try_get(0)?, count(1)?, count(2)?))
            })
            .transpose()?;
        Ok(PostgresState {
            connection: server.connection.clone(),
            schema: server.schema.clone(),
            is_local: server.is_on_this_host(),
            started_unix_s,
            durability,
            settings,
            is_standby,
            schema_bytes,
            database_bytes,
            worst_table,
            blocks,
            checkpoints: store.checkpoints()?,
            transaction_age,
            tablespaces: store.places(TABLESPACES, &[&server.schema])?,
            temporary: store.places(TEMPORARY, &[])?,
            content: store.content(&server.schema)?,
        })
    }

    /// Checkpoints by time and by the amount of log. PostgreSQL 17 has them in a view of their own.
    fn checkpoints(&mut self) -> Result<Option<(u64, u64)>, StoreError> {
        let has_own = "SELECT to_regclass('pg_catalog.pg_stat_checkpointer') IS NOT NULL";
        let select = match self.client.query_one(has_own, &[])?.try_get(0)? {
            true => "SELECT num_timed, num_requested FROM pg_stat_checkpointer",
            false => "SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter",
        };
        let Some(row) = self.client.query_opt(select, &[])? else { return Ok(None) };
        let count = |at| row.try_get::<_, i64>(at).map(|count| count.max(0) as u64);
        Ok(Some((count(0)?, count(1)?)))
    }

    fn places(
        &mut self,
        select: &str,
        values: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Vec<(String, String)>, StoreError> {
        let rows = self.client.query(select, values)?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    fn content(&mut self, schema: &str) -> Result<Option<Content>, StoreError> {
        let is_made = "SELECT to_regclass(quote_ident($1) || '.meta') IS NOT NULL";
        if !self.client.query_one(is_made, &[&schema])?.try_get::<_, bool>(0)? {
            return Ok(None);
        }
        let mut format = None;
        for row in self.client.query("SELECT name, value FROM meta", &[])? {
            let (name, value): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            match name.as_str() {
                "format" => format = Some(value),
                "next_id" => self.ids = Numbers::from(value),
                "mv_count" => self.mv_count = value,
                _ => {}
            }
        }
        if format != Some(FORMAT) {
            return Ok(None);
        }
        let found = content(self, |store, from| {
            let row = store.client.query_one(TRAIL, &[&(from.min(i64::MAX as u64) as i64)])?;
            let bytes: i64 = row.try_get(0)?;
            Ok((bytes.max(0) as u64, row.try_get::<_, Option<i64>>(1)?.map(|at| at.max(0) as u64)))
        });
        found.map(Some)
    }
}
