//! Objects as every database keeps them: numbers, hashes, and images as bytes.

use super::StoreError;
use crate::hologram::{Damaged, Hash, Hologram};
use crate::object::{
    AgentId, CsId, CsObject, MvId, MvObject, PendingExport, PendingImport, Reference, State,
};

/// An object of a connector space as it was kept.
pub(super) struct CsRow {
    pub(super) id: i64,
    pub(super) agent: u32,
    pub(super) anchor: Option<Vec<u8>>,
    pub(super) dn: String,
    pub(super) name: Option<Vec<u8>>,
    pub(super) state: i64,
    pub(super) mv: Option<i64>,
    pub(super) synchronized: Option<Vec<u8>>,
    /// 0 for none.
    pub(super) import_change: i64,
    pub(super) import: Option<Vec<u8>>,
    pub(super) export: Option<Vec<u8>>,
    pub(super) has_failed: bool,
}

impl CsRow {
    /// The object.
    ///
    /// # Errors
    /// When it was damaged.
    pub(super) fn into_object(self) -> Result<CsObject, StoreError> {
        let id = self.id;
        let damaged = |damage| StoreError::Damaged { id, damage };
        let hologram = |bytes: Option<Vec<u8>>| bytes.map(Hologram::from_bytes).transpose().map_err(damaged);
        let pending_import = match (self.import_change, hologram(self.import)?) {
            (0, _) => None,
            (number, image) => Some(PendingImport::of(number, image).ok_or_else(|| damaged(Damaged(0)))?),
        };
        let export = self.export.map(|bytes| PendingExport::from_bytes(&bytes)).transpose();
        let hash = |bytes: Option<Vec<u8>>| hash_of(id, bytes.as_deref());
        Ok(CsObject {
            id: CsId(id),
            agent: AgentId(self.agent),
            anchor: hash(self.anchor)?,
            dn: self.dn,
            name: hash(self.name)?,
            state: State::of(self.state).ok_or_else(|| damaged(Damaged(0)))?,
            mv: self.mv.map(MvId),
            synchronized: hologram(self.synchronized)?,
            pending_import,
            pending_export: export.map_err(damaged)?,
            has_failed: self.has_failed,
        })
    }
}

/// A hash that was kept.
///
/// # Errors
/// When it was damaged.
pub(super) fn hash_of(id: i64, bytes: Option<&[u8]>) -> Result<Option<Hash>, StoreError> {
    let hash = |bytes| Hash::from_bytes(bytes).ok_or(StoreError::Damaged { id, damage: Damaged(0) });
    bytes.map(hash).transpose()
}

/// A reference as it was kept.
///
/// # Errors
/// When it was damaged.
pub(super) fn reference(
    cs: i64,
    attribute: u32,
    target: &[u8],
    agent: u32,
    state: i64,
    value: Vec<u8>,
) -> Result<Reference, StoreError> {
    let target = hash_of(cs, Some(target))?.ok_or(StoreError::Damaged { id: cs, damage: Damaged(0) })?;
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

/// An object of the metaverse as it was kept.
///
/// # Errors
/// When it was damaged.
pub(super) fn mv_object(id: i64, kind: u32, image: Vec<u8>, lineage: &[u8]) -> Result<MvObject, StoreError> {
    let damaged = |damage| StoreError::Damaged { id, damage };
    Ok(MvObject {
        id: MvId(id),
        kind,
        image: Hologram::from_bytes(image).map_err(damaged)?,
        lineage: MvObject::lineage_from(lineage).map_err(damaged)?,
    })
}

/// What is imported: its change (0 for none), the hash of its image, and its image.
pub(super) fn import_parts(pending: Option<&PendingImport>) -> (i64, Option<Hash>, Option<&[u8]>) {
    let image = pending.and_then(PendingImport::image);
    let change = pending.map_or(0, PendingImport::number);
    (change, image.map(Hologram::hash), image.map(Hologram::as_bytes))
}

/// Counters as one text: `stage-add=5 stage-update=2`.
pub(super) fn counters_text(counters: &[(String, u64)]) -> String {
    let counters: Vec<String> = counters.iter().map(|(name, count)| format!("{name}={count}")).collect();
    counters.join(" ")
}

/// The counters of such a text.
pub(super) fn counters_of(text: &str) -> Vec<(String, u64)> {
    let counters = text.split_whitespace().filter_map(|counter| {
        let (name, count) = counter.split_once('=')?;
        Some((name.to_string(), count.parse().ok()?))
    });
    counters.collect()
}
