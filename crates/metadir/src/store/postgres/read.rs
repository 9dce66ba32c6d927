//! Reading a store on a server while another process writes it.

use std::collections::HashMap;

use super::{FORMAT, Postgres, Server};
use crate::store::Durability;
use crate::store::{Activity, Numbers, StoreError, activity};

impl Postgres {
    /// Opens the store for reading, also while another process writes. All that is read is the state after one
    /// commit. None if there is no store of the current format: [`Self::open`] makes or upgrades it.
    ///
    /// # Errors
    /// When the server cannot be reached or reports an error.
    pub fn read(server: &Server) -> Result<Option<Postgres>, StoreError> {
        let mut store = Postgres::connect(server, Durability::Off)?;
        store.unknown = Some(HashMap::new());
        let is_made = "SELECT to_regclass(quote_ident($1) || '.meta') IS NOT NULL";
        if !store.client.query_one(is_made, &[&server.schema])?.get::<_, bool>(0) {
            return Ok(None);
        }
        store.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        let mut format = None;
        for row in store.client.query("SELECT name, value FROM meta", &[])? {
            let (name, value): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            match name.as_str() {
                "format" => format = Some(value),
                "next_id" => store.ids = Numbers::from(value),
                "mv_count" => store.mv_count = value,
                _ => {}
            }
        }
        Ok((format == Some(FORMAT)).then_some(store))
    }

    /// Stores what this process is doing, at once. An error has no effect.
    pub(in crate::store) fn keep_activity(&mut self, text: &str) {
        let keep = "INSERT INTO note (name, text) VALUES ('activity', $1) ON CONFLICT (name) DO UPDATE SET text = $1";
        let _ = self.execute(keep, &[&text]);
    }

    /// What the process that has the lock is doing.
    pub(super) fn told_activity(&mut self) -> Result<Option<Activity>, StoreError> {
        let mut of_server = Postgres::connect(&self.server, Durability::Off)?;
        of_server.unknown = Some(HashMap::new());
        let free: bool = of_server
            .client
            .query_one("SELECT pg_try_advisory_lock_shared($1)", &[&self.lock])?
            .try_get(0)?;
        if free {
            of_server.client.execute("SELECT pg_advisory_unlock_shared($1)", &[&self.lock])?;
            return Ok(None);
        }
        let rows = of_server.client.query("SELECT text FROM note WHERE name = 'activity'", &[])?;
        let text: String = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        Ok(Some(activity::of_text(&text)))
    }
}
