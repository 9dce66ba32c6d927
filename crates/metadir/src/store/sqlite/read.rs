//! Reading a store in a file while another process writes it, and searches.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row, params};

use super::schema::MV_COLUMNS;
use super::{BUSY_WAIT, FORMAT, STATEMENTS, Sqlite, busy, mv_row};
use crate::hologram::Attribute;
use crate::object::{MvId, MvObject};
use crate::store::StoreError;

/// Number of object numbers in one statement.
const IDS_A_STATEMENT: usize = 256;

impl Sqlite {
    /// Opens the store in a file for reading, also while another process writes. All that is read is the state
    /// after one commit. None if there is no store of the current format: [`Self::open`] makes or upgrades it.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn read(path: &Path, cache_bytes: u64) -> Result<Option<Sqlite>, StoreError> {
        if !path.exists() {
            return Ok(None);
        }
        let path = files::private::file(path).map_err(StoreError::File)?;
        // SQLite writes the index of the log also for readers.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)?;
        connection.busy_timeout(BUSY_WAIT)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "cache_size", -((cache_bytes / 1024) as i64))?;
        let format: i64 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(busy)?;
        if format != FORMAT {
            return Ok(None);
        }
        connection.execute_batch("BEGIN")?;
        let mut store = Sqlite::of(connection)?;
        (store.path, store.unknown) = (Some(path), Some(HashMap::new()));
        Ok(Some(store))
    }

    /// The next metaverse objects after a number.
    pub(super) fn mvs_after(&self, after: MvId, most: usize) -> Result<Vec<MvObject>, StoreError> {
        let select = format!("SELECT {MV_COLUMNS} FROM mv WHERE id > ?1 ORDER BY id LIMIT ?2");
        let mut statement = self.connection.prepare_cached(&select)?;
        let mut rows = statement.query(params![after.0, most as i64])?;
        let mut objects = Vec::new();
        while let Some(row) = rows.next()? {
            objects.push(mv_row(row)?);
        }
        Ok(objects)
    }

    /// The search keys of an attribute after one of them and before a value.
    pub(super) fn search_keys(
        &self,
        attribute: Attribute,
        after: (&[u8], MvId),
        before: &[u8],
        most: usize,
    ) -> Result<Vec<(Vec<u8>, MvId)>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT value, mv FROM mv_search WHERE attribute = ?1 AND (value, mv) > (?2, ?3) AND value < ?4 \
             ORDER BY value, mv LIMIT ?5",
        )?;
        let (value, mv) = after;
        let rows = statement.query_map(params![attribute.0, value, mv.0, before, most as i64], |row| {
            Ok((row.get(0)?, MvId(row.get(1)?)))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Executes a statement that ends in `IN` for a list of numbers, in chunks.
pub(super) fn for_ids(
    connection: &Connection,
    select: &str,
    ids: &[i64],
    mut each: impl FnMut(&Row<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut of = |chunk: &[i64], places: usize| -> Result<(), StoreError> {
        let marks = vec!["?"; places].join(",");
        let mut statement = connection.prepare_cached(&format!("{select} IN ({marks})"))?;
        // A shorter list repeats its last number, so that the statement text stays the same.
        let padding = chunk.last().into_iter().cycle().take(places - chunk.len());
        let mut rows = statement.query(rusqlite::params_from_iter(chunk.iter().chain(padding)))?;
        while let Some(row) = rows.next()? {
            each(row)?;
        }
        Ok(())
    };
    let mut chunks = ids.chunks_exact(IDS_A_STATEMENT);
    for chunk in chunks.by_ref() {
        of(chunk, IDS_A_STATEMENT)?;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        of(rest, if rest.len() <= 8 { 8 } else { IDS_A_STATEMENT })?;
    }
    Ok(())
}
