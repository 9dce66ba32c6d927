//! Resources in a SQLite database.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, Row, params};
use serde_json::{Map, Value};

use super::service::Refusal;
use super::time;

/// When a change is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before it is answered.
    Full,
    /// When the kernel writes the data.
    Off,
}

/// A resource type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    User,
    Group,
}

impl Kind {
    /// All kinds.
    pub(super) const ALL: [Kind; 2] = [Kind::User, Kind::Group];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::User => "User",
            Kind::Group => "Group",
        }
    }
}

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS resource (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    -- The userName in small letters.
    name TEXT,
    external TEXT,
    modified TEXT NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS resource_kind ON resource (kind);
CREATE UNIQUE INDEX IF NOT EXISTS resource_name ON resource (name) WHERE name IS NOT NULL;
CREATE INDEX IF NOT EXISTS resource_external ON resource (external) WHERE external IS NOT NULL;
CREATE INDEX IF NOT EXISTS resource_modified ON resource (kind, modified);
CREATE TABLE IF NOT EXISTS member (
    user TEXT NOT NULL,
    of_group TEXT NOT NULL,
    PRIMARY KEY (user, of_group)
) WITHOUT ROWID;
";

pub(super) struct Database {
    connection: Connection,
}

/// A stored resource.
pub(super) struct StoredResource {
    pub(super) body: Map<String, Value>,
    pub(super) version: i64,
}

/// Selects resources by an index.
pub(super) enum Selection<'a> {
    All,
    Id(&'a str),
    Name(String),
    External(&'a str),
    /// Changed at this time or later; resources that were changed earlier do not match.
    Since(&'a str),
}

type Result<T> = std::result::Result<T, Refusal>;

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Refusal {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => {
                Refusal::of(409, "uniqueness", "a user with this userName is there already".into())
            }
            _ => Refusal::plain(500, &format!("the database: {error}")),
        }
    }
}

impl Database {
    /// Opens a database with its tables, and creates it if it does not exist. Only this user can access it
    /// and its journals.
    pub(super) fn create(path: &Path, durability: Durability) -> std::result::Result<Database, String> {
        let path = files::private::file(path).map_err(|error| error.to_string())?;
        let opened = Database::open(&path, durability);
        let database = opened.map_err(|error| error.to_string())?;
        database.connection.execute_batch(TABLES).map_err(|error| error.to_string())?;
        Ok(database)
    }

    /// Opens an existing database.
    pub(super) fn open(path: &Path, durability: Durability) -> rusqlite::Result<Database> {
        // An absolute path, because some names have a special meaning for SQLite.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Off => "OFF",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        Ok(Database { connection })
    }

    pub(super) fn begin(&self) -> Result<()> {
        Ok(self.connection.execute_batch("BEGIN IMMEDIATE")?)
    }

    pub(super) fn commit(&self) -> Result<()> {
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    pub(super) fn roll_back(&self) {
        // Without a transaction there is nothing to roll back.
        let _ = self.connection.execute_batch("ROLLBACK");
    }

    pub(super) fn get(&self, kind: Kind, id: &str) -> Result<Option<StoredResource>> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT body, version FROM resource WHERE id = ?1 AND kind = ?2")?;
        let row = statement.query_row(params![id, kind.name()], kept).optional()?;
        Ok(row)
    }

    pub(super) fn count(&self, kind: Kind) -> Result<u64> {
        let mut statement =
            self.connection.prepare_cached("SELECT count(*) FROM resource WHERE kind = ?1")?;
        let count: i64 = statement.query_row([kind.name()], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// Visits resources in the order of their creation.
    pub(super) fn each(
        &self,
        kind: Kind,
        selection: &Selection<'_>,
        from: u64,
        most: u64,
        mut visit: impl FnMut(Map<String, Value>),
    ) -> Result<()> {
        let (condition, value) = match selection {
            Selection::All => ("?2 = ''", ""),
            Selection::Id(id) => ("id = ?2", *id),
            Selection::Name(name) => ("name = ?2", name.as_str()),
            Selection::External(external) => ("external = ?2", *external),
            Selection::Since(time) => ("modified >= ?2", *time),
        };
        let query = format!(
            "SELECT body, version FROM resource WHERE kind = ?1 AND {condition} ORDER BY number LIMIT ?3 OFFSET ?4"
        );
        let mut statement = self.connection.prepare_cached(&query)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows =
            statement.query_map(params![kind.name(), value, most, from.min(i64::MAX as u64) as i64], kept)?;
        for row in rows {
            visit(row?.body);
        }
        Ok(())
    }

    /// Stores a new resource, with its id and metadata.
    pub(super) fn insert(
        &self,
        kind: Kind,
        mut body: Map<String, Value>,
        base: &str,
    ) -> Result<Map<String, Value>> {
        let id = new_id().map_err(|error| Refusal::plain(500, &error.to_string()))?;
        body.insert("id".into(), id.as_str().into());
        let now = stamp(kind, &mut body, 1, None, base);
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO resource (id, kind, name, external, modified, version, body) VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6)",
        )?;
        let text = Value::Object(body.clone()).to_string();
        statement.execute(params![id, kind.name(), name(kind, &body), external(&body), now, text])?;
        self.keep_members(kind, &id, &body)?;
        Ok(body)
    }

    /// Replaces a stored resource.
    pub(super) fn replace(
        &self,
        kind: Kind,
        old: &StoredResource,
        mut body: Map<String, Value>,
        base: &str,
    ) -> Result<Map<String, Value>> {
        let id = old.body.get("id").and_then(Value::as_str).unwrap_or_default().to_string();
        body.insert("id".into(), id.as_str().into());
        let now = stamp(kind, &mut body, old.version + 1, old.body.get("meta"), base);
        let mut statement = self.connection.prepare_cached(
            "UPDATE resource SET name = ?2, external = ?3, modified = ?4, version = version + 1, body = ?5 WHERE id = ?1",
        )?;
        let text = Value::Object(body.clone()).to_string();
        statement.execute(params![id, name(kind, &body), external(&body), now, text])?;
        self.keep_members(kind, &id, &body)?;
        Ok(body)
    }

    /// Deletes a resource; a user is also removed from all groups.
    pub(super) fn delete(&self, kind: Kind, id: &str, base: &str) -> Result<()> {
        self.connection.prepare_cached("DELETE FROM resource WHERE id = ?1")?.execute([id])?;
        self.connection.prepare_cached("DELETE FROM member WHERE of_group = ?1")?.execute([id])?;
        if kind != Kind::User {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached("SELECT of_group FROM member WHERE user = ?1")?;
        let groups: Vec<String> =
            statement.query_map([id], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        for group in groups {
            let Some(old) = self.get(Kind::Group, &group)? else { continue };
            let mut body = old.body.clone();
            if let Some(Value::Array(members)) = body.get_mut("members") {
                members.retain(|member| member.get("value").and_then(Value::as_str) != Some(id));
            }
            self.replace(Kind::Group, &old, body, base)?;
        }
        Ok(())
    }

    fn keep_members(&self, kind: Kind, id: &str, body: &Map<String, Value>) -> Result<()> {
        if kind != Kind::Group {
            return Ok(());
        }
        self.connection.prepare_cached("DELETE FROM member WHERE of_group = ?1")?.execute([id])?;
        let mut insert = self
            .connection
            .prepare_cached("INSERT OR IGNORE INTO member (user, of_group) VALUES (?1, ?2)")?;
        let members = body.get("members").and_then(Value::as_array);
        for user in members.into_iter().flatten().filter_map(|member| member.get("value")?.as_str()) {
            insert.execute([user, id])?;
        }
        Ok(())
    }
}

fn kept(row: &Row<'_>) -> rusqlite::Result<StoredResource> {
    let text: String = row.get(0)?;
    let body = serde_json::from_str(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(StoredResource { body, version: row.get(1)? })
}

fn name(kind: Kind, body: &Map<String, Value>) -> Option<String> {
    let name = body.get("userName").filter(|_| kind == Kind::User)?;
    name.as_str().map(str::to_lowercase)
}

fn external(body: &Map<String, Value>) -> Option<&str> {
    body.get("externalId")?.as_str()
}

/// Writes the metadata of a resource into it; returns the time of the change.
fn stamp(kind: Kind, body: &mut Map<String, Value>, version: i64, old: Option<&Value>, base: &str) -> String {
    let now = time::scim(time::unix_ms(SystemTime::now()));
    let created = old.and_then(|old| old.get("created")?.as_str()).unwrap_or(&now).to_string();
    let id = body.get("id").and_then(Value::as_str).unwrap_or_default();
    let meta = serde_json::json!({
        "resourceType": kind.name(),
        "created": created,
        "lastModified": now,
        "version": format!("W/\"{version}\""),
        "location": format!("{base}/{}s/{id}", kind.name()),
    });
    body.insert("meta".into(), meta);
    now
}

/// A UUID with 122 random bits.
fn new_id() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let number = u128::from_be_bytes(bytes);
    let text = format!("{number:032x}");
    Ok([&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-"))
}
