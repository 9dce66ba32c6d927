//! The stored form of objects in every database: numbers, hashes, and images as bytes.

use super::standing::Cell;
use super::{Head, ReferenceTarget, StoreError};
use crate::hologram::{Damaged, Hash, Hologram, read_number, write_number};
use crate::index_key::IndexKey;
use crate::object::{
    AgentId, CsId, CsObject, Lineages, MvId, MvObject, PendingExport, PendingImport, Reference,
};

/// The row of a connector space object, without its state.
pub(super) struct CsRow {
    pub(super) id: i64,
    pub(super) anchor: Option<IndexKey>,
    pub(super) dn: String,
    pub(super) name: Option<IndexKey>,
    /// The imported image, otherwise the synchronized one.
    pub(super) image: Option<Hologram>,
    pub(super) export: Option<PendingExport>,
}

impl CsRow {
    /// The object, with its state and the synchronized image if its row has the imported one.
    ///
    /// # Errors
    /// When the data is damaged.
    pub(super) fn into_object(self, cell: Cell, before: Option<Hologram>) -> Result<CsObject, StoreError> {
        let id = self.id;
        let nothing = || StoreError::Damaged { id, damage: Damaged(0) };
        let image = self.image.filter(|_| cell.has_image());
        let (import, synchronized) = match (cell.is_imported(), cell.has_before()) {
            (true, true) => (image, Some(before.ok_or_else(nothing)?)),
            (true, false) => (image, None),
            (false, _) => (None, image),
        };
        let pending_import = match cell.change() {
            0 => None,
            number => Some(PendingImport::of(number, import).ok_or_else(nothing)?),
        };
        Ok(CsObject {
            id: CsId(id),
            agent: cell.agent(),
            anchor: self.anchor,
            dn: self.dn,
            name: self.name,
            state: cell.state().ok_or_else(nothing)?,
            mv: cell.mv(),
            synchronized,
            pending_import,
            pending_export: self.export,
            has_failed: cell.has_failed(),
        })
    }
}

/// The head of an object from its row and state, with the hash of the synchronized image if its row has the
/// imported one.
///
/// # Errors
/// When the data is damaged.
pub(super) fn head(
    id: i64,
    cell: Cell,
    hash: Option<Hash>,
    before: Option<Hash>,
    name: Option<IndexKey>,
) -> Head {
    let synchronized = if cell.has_before() { before } else { hash };
    Head {
        id: CsId(id),
        synchronized: synchronized.filter(|_| cell.is_synchronized()),
        pending: hash.filter(|_| cell.is_imported()),
        is_pending: cell.change() != 0,
        is_exporting: cell.is_exporting(),
        is_renamed: cell.change() == 4,
        has_join_keys: cell.has_join_keys(),
        name,
    }
}

/// Decodes a stored image.
///
/// # Errors
/// When the data is damaged.
pub(super) fn image_from(id: i64, bytes: &[u8]) -> Result<Hologram, StoreError> {
    Hologram::from_bytes(bytes).map_err(|damage| StoreError::Damaged { id, damage })
}

/// Decodes a stored pending export.
///
/// # Errors
/// When the data is damaged.
pub(super) fn export_from(id: i64, bytes: &[u8]) -> Result<PendingExport, StoreError> {
    PendingExport::from_bytes(bytes).map_err(|damage| StoreError::Damaged { id, damage })
}

/// Decodes a stored hash.
///
/// # Errors
/// When the data is damaged.
pub(super) fn hash_of(id: i64, bytes: Option<&[u8]>) -> Result<Option<Hash>, StoreError> {
    let hash = |bytes| Hash::from_bytes(bytes).ok_or(StoreError::Damaged { id, damage: Damaged(0) });
    bytes.map(hash).transpose()
}

/// A found object, with the first three bytes of its pending export.
pub(super) fn found(id: i64, anchor: Option<IndexKey>, cell: Cell, export: Option<&[u8]>) -> ReferenceTarget {
    let (is_made, rename) = export.map_or((true, None), PendingExport::beginning);
    ReferenceTarget { id: CsId(id), anchor, mv: cell.connected_to(), is_made, rename }
}

/// Decodes a stored key.
///
/// # Errors
/// When the data is damaged.
pub(super) fn key_of(id: i64, bytes: Option<&[u8]>) -> Result<Option<IndexKey>, StoreError> {
    let key = |bytes| IndexKey::from_bytes(bytes).ok_or(StoreError::Damaged { id, damage: Damaged(0) });
    bytes.map(key).transpose()
}

/// Decodes a stored reference.
///
/// # Errors
/// When the data is damaged.
pub(super) fn reference(
    cs: i64,
    attribute: u32,
    target: &[u8],
    agent: u32,
    state: i64,
    value: Vec<u8>,
) -> Result<Reference, StoreError> {
    let target = key_of(cs, Some(target))?.ok_or(StoreError::Damaged { id: cs, damage: Damaged(0) })?;
    let bare = Reference {
        cs: CsId(cs),
        agent: AgentId(agent),
        attribute: crate::hologram::Attribute(attribute),
        target,
        value,
        is_synchronized: false,
        is_imported: false,
        export: None,
    };
    Ok(bare.with_state(state))
}

/// Decodes a stored metaverse object.
///
/// # Errors
/// When the data is damaged.
pub(super) fn mv_object(
    id: i64,
    kind: u32,
    image: &[u8],
    lineage: &[u8],
    connectors: &[u8],
) -> Result<MvObject, StoreError> {
    let damaged = |damage| StoreError::Damaged { id, damage };
    Ok(MvObject {
        id: MvId(id),
        kind,
        image: Hologram::from_bytes(image).map_err(damaged)?,
        lineage: Lineages::from_bytes(lineage).map_err(damaged)?,
        connectors: connectors_from(id, connectors)?,
    })
}

/// Number of keys that justifies an additional query.
const MANY: usize = 64;

/// The indexes of the keys that may exist, in order: keys beyond the highest one in the index cannot. For
/// many new objects with ascending numbers no look-up is needed.
///
/// # Errors
/// When the highest key cannot be read.
pub(super) fn not_beyond(
    keys: impl Iterator<Item = IndexKey>,
    highest: impl FnOnce() -> Result<Option<IndexKey>, StoreError>,
) -> Result<Vec<usize>, StoreError> {
    let mut keys: Vec<(IndexKey, usize)> = keys.enumerate().map(|(at, key)| (key, at)).collect();
    if keys.len() >= MANY {
        let highest = highest()?;
        keys.retain(|(key, _)| highest.is_some_and(|highest| *key <= highest));
        keys.sort_unstable();
    }
    Ok(keys.into_iter().map(|(_, at)| at).collect())
}

/// Encodes connectors.
pub(super) fn connectors_bytes(connectors: &[CsId]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(connectors.len() * 4);
    for id in connectors {
        write_number(&mut bytes, id.0.max(0) as u64);
    }
    bytes
}

/// Decodes the connectors of a metaverse object.
///
/// # Errors
/// When the data is damaged.
pub(super) fn connectors_from(id: i64, bytes: &[u8]) -> Result<Vec<CsId>, StoreError> {
    let (mut at, mut connectors) = (0, Vec::new());
    while at < bytes.len() {
        let number = read_number(bytes, &mut at).ok_or(StoreError::Damaged { id, damage: Damaged(at) })?;
        connectors.push(CsId(number as i64));
    }
    Ok(connectors)
}

/// A time for the database.
pub(super) fn seconds(unix_s: u64) -> i64 {
    i64::try_from(unix_s).unwrap_or(i64::MAX)
}

/// The image for the row of an object.
pub(super) fn image_of(object: &CsObject) -> Option<&Hologram> {
    match &object.pending_import {
        Some(pending) => pending.image().or(object.synchronized.as_ref()),
        None => object.synchronized.as_ref(),
    }
}

/// Encodes counters as one text: `stage-add=5 stage-update=2`.
pub(super) fn counters_text(counters: &[(String, u64)]) -> String {
    let counters: Vec<String> = counters.iter().map(|(name, count)| format!("{name}={count}")).collect();
    counters.join(" ")
}

/// Decodes such a text.
pub(super) fn counters_of(text: &str) -> Vec<(String, u64)> {
    let counters = text.split_whitespace().filter_map(|counter| {
        let (name, count) = counter.split_once('=')?;
        Some((name.to_string(), count.parse().ok()?))
    });
    counters.collect()
}
