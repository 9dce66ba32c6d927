//! The state of a store in a file, for an administrator.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{BUSY_WAIT, FORMAT, Sqlite, busy};
use crate::store::Durability;
use crate::store::StoreError;
use crate::store::inspection::{Content, SqliteSettings, SqliteState, content};

impl Sqlite {
    /// The state of the store in a file, which need not exist.
    pub(crate) fn inspect(
        path: &Path,
        durability: Durability,
        cache_bytes: u64,
    ) -> Result<SqliteState, StoreError> {
        let size = |path: &Path| fs::metadata(path).map_or(0, |data| data.len());
        // SQLite follows a link; the log is beside the file itself.
        let mut wal = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()).into_os_string();
        wal.push("-wal");
        let wal = PathBuf::from(wal);
        let mut state = SqliteState {
            path: path.to_path_buf(),
            durability,
            settings: None,
            file_bytes: size(path),
            wal_bytes: size(&wal),
            mode: fs::metadata(path).map_or(0, |data| data.permissions().mode() & 0o777),
            temporary: temporary(),
            content: None,
        };
        match fs::metadata(path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(state),
            Err(error) => return Err(StoreError::File(error)),
        }
        // An empty file is a store that is not made yet.
        if state.file_bytes == 0 {
            return Ok(state);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // The log that a killed process left is not written to the file.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, state.wal_bytes > 0)?;
        connection.busy_timeout(BUSY_WAIT)?;
        connection.pragma_update(None, "query_only", true)?;
        Sqlite::set(&connection, durability, cache_bytes)?;
        let settings = settings(&connection).map_err(busy)?;
        state.content = (settings.format == FORMAT).then(|| Sqlite::content(connection)).transpose()?;
        state.settings = Some(settings);
        Ok(state)
    }

    fn content(connection: Connection) -> Result<Content, StoreError> {
        connection.execute_batch("BEGIN")?;
        let mut store = Sqlite::of(connection)?;
        content(&mut store, |store, from| {
            // The length of a blob is read without the blob.
            let select = "SELECT coalesce(sum(length(ids) + length(changes)), 0), min(at_unix_s) FROM change_log \
                          WHERE at_unix_s >= ?1";
            let row = store.connection.query_row(select, [from.min(i64::MAX as u64) as i64], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?))
            })?;
            Ok((row.0.max(0) as u64, row.1.map(|at| at.max(0) as u64)))
        })
    }
}

fn settings(connection: &Connection) -> rusqlite::Result<SqliteSettings> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let natural = |name: &str| number(name).map(|number| number.max(0) as u64);
    let page_bytes = natural("page_size")?;
    let cache = number("cache_size")?;
    Ok(SqliteSettings {
        version: rusqlite::version().into(),
        journal_mode: connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?,
        synchronous: number("synchronous")?,
        // Negative: KiB; positive: pages.
        cache_bytes: if cache < 0 { cache.unsigned_abs() * 1024 } else { cache as u64 * page_bytes },
        checkpoint_bytes: natural("wal_autocheckpoint")? * page_bytes,
        page_bytes,
        pages: natural("page_count")?,
        free_pages: natural("freelist_count")?,
        format: number("user_version")?,
    })
}

/// The first folder in the order of SQLite that exists.
fn temporary() -> PathBuf {
    let named = ["SQLITE_TMPDIR", "TMPDIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let usual = ["/var/tmp", "/usr/tmp", "/tmp"].map(PathBuf::from);
    named.chain(usual).find(|folder| folder.is_dir()).unwrap_or_else(|| PathBuf::from("."))
}
