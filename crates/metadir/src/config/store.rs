//! `[store]`, and the PostgreSQL servers of stores and agents.

use std::time::Duration;

use super::exposure::Exposure;
use super::part::{Part, Reader, span_of};
use super::{Database, StoreConfig};
use crate::postgresql::Server;
use crate::store::Durability;

/// The default number of objects per commit.
const COMMIT_OBJECTS: u64 = 10_000;
const COMMIT_OBJECTS_MAX: u64 = 10_000;
const CACHE_BYTES: u64 = 64 << 20;

impl Reader {
    pub(super) fn store(&mut self, root: &Part<'_>) -> Option<StoreConfig> {
        let Some(part) = self.part(root, "store") else {
            self.wrong(0..0, "there is no [store]", "write [store] with sqlite = \"metadirectory.db\"");
            return None;
        };
        let known = [
            "sqlite",
            "postgres",
            "schema",
            "passfile",
            "insecure",
            "timeout_s",
            "durability",
            "cache_bytes",
            "commit_objects",
        ];
        self.keys(&part, &known);
        let durabilities =
            [("full", Durability::Full), ("normal", Durability::Normal), ("off", Durability::Off)];
        let durability = self.choice(&part, "durability", &durabilities).unwrap_or(Durability::Full);
        let commit = self.number(&part, "commit_objects", 1..=COMMIT_OBJECTS_MAX).unwrap_or(COMMIT_OBJECTS);
        let has = |key: &str| part.has(key);
        let database = match (has("sqlite"), has("postgres")) {
            (true, false) => self.sqlite(&part, durability),
            (false, true) => self.postgres(&part, durability),
            (true, true) => {
                let what = "`sqlite` and `postgres` in [store]: a store is in one of them";
                self.wrong(span_of(&part, "postgres"), what, "remove one");
                None
            }
            (false, false) => {
                let help =
                    "write sqlite = \"metadirectory.db\", or postgres = \"host=... user=... dbname=...\"";
                self.wrong(part.span.clone(), "[store] has neither `sqlite` nor `postgres`", help);
                None
            }
        };
        let database = database?;
        Some(StoreConfig { database, commit_objects: commit as usize })
    }

    /// The PostgreSQL server of a store or an agent.
    pub fn server(&mut self, part: &Part<'_>, schema: String) -> Option<Server> {
        let passfile = self.text(part, "passfile", false).map(Into::into);
        let timeout = self.number(part, "timeout_s", 1..=86_400).map(Duration::from_secs);
        let connection = self.text(part, "postgres", true);
        let mistake = connection.as_deref().and_then(Server::mistake);
        let exposed = connection.as_deref().filter(|_| mistake.is_none()).and_then(Server::exposed);
        self.exposed(
            part,
            exposed.map(|host| Exposure {
                what: format!("passwords and what they protect would go to the PostgreSQL server {host}"),
                help: "write sslmode=verify-full in `postgres`",
                span: span_of(part, "postgres"),
            }),
        );
        if let Some((what, help)) = mistake {
            self.wrong(span_of(part, "postgres"), what, help);
            return None;
        }
        let default = Server::default();
        let (connection, timeout) = (connection?, timeout.unwrap_or(default.timeout));
        Some(Server { connection, schema, passfile, timeout, ..default })
    }

    fn not_with(&mut self, part: &Part<'_>, keys: &[&str], database: &str) {
        for key in keys.iter().filter(|key| part.has(key)) {
            self.wrong(
                span_of(part, key),
                format!("`{key}` has no effect on a store in {database}"),
                "remove it",
            );
        }
    }

    fn sqlite(&mut self, part: &Part<'_>, durability: Durability) -> Option<Database> {
        self.not_with(part, &["schema", "passfile", "insecure", "timeout_s"], "SQLite");
        let cache_bytes = self.number(part, "cache_bytes", 1 << 20..=1 << 40).unwrap_or(CACHE_BYTES);
        let path = self.text(part, "sqlite", true)?;
        Some(Database::Sqlite { path: path.into(), durability, cache_bytes })
    }

    fn postgres(&mut self, part: &Part<'_>, durability: Durability) -> Option<Database> {
        self.not_with(part, &["cache_bytes"], "PostgreSQL, which has shared_buffers of its own");
        let schema = self.text(part, "schema", false).unwrap_or_else(|| "metadirectory".into());
        let begins_well = schema.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
        let is_in_place = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !begins_well || schema.len() > 63 || schema.starts_with("pg_") || !schema.bytes().all(is_in_place)
        {
            self.wrong(
                span_of(part, "schema"),
                format!("`schema` of [store] is not {schema:?}"),
                "small letters, digits and _, at most 63, not beginning with a digit or pg_",
            );
        }
        Some(Database::Postgres { server: self.server(part, schema)?, durability })
    }
}
