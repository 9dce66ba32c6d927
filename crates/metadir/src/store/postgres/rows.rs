//! Reads rows of the tables.

use tokio_postgres::Row;

use crate::object::MvObject;
use crate::store::StoreError;
use crate::store::row::{CsRow, export_from, image_from, key_of, mv_object};

pub(super) fn mv_row(row: &Row) -> Result<MvObject, StoreError> {
    let kind: i32 = row.try_get(1)?;
    mv_object(row.try_get(0)?, kind as u32, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?)
}

pub(super) fn cs_row(row: &Row) -> Result<CsRow, StoreError> {
    let id: i64 = row.try_get(0)?;
    let dn = String::from_utf8(row.try_get(2)?)
        .map_err(|_| StoreError::Damaged { id, damage: crate::hologram::Damaged(0) })?;
    Ok(CsRow {
        id,
        anchor: key_of(id, row.try_get(1)?)?,
        dn,
        name: key_of(id, row.try_get(3)?)?,
        image: row.try_get::<_, Option<&[u8]>>(4)?.map(|bytes| image_from(id, bytes)).transpose()?,
        export: row.try_get::<_, Option<&[u8]>>(5)?.map(|bytes| export_from(id, bytes)).transpose()?,
    })
}

pub(super) fn pages(rows: &[Row]) -> Result<Vec<(i64, Vec<u8>)>, StoreError> {
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
