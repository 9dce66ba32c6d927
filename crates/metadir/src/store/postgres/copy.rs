//! Encodes objects in the binary format of COPY.

use super::PIECE_BYTES;
use crate::hologram::{Hash, Hologram};
use crate::index_key::IndexKey;
use crate::object::{CsObject, MvObject, PendingExport};
use crate::store::row::{connectors_bytes, image_of};

/// Rows in the binary format of COPY: the number of fields of each row, and the length and bytes of each
/// field.
pub(super) struct Fields(pub(super) Vec<u8>);

impl Fields {
    pub(super) fn begin() -> Fields {
        let mut bytes = Vec::with_capacity(2 * PIECE_BYTES);
        bytes.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
        // No flags and no extension.
        bytes.extend_from_slice(&[0; 8]);
        Fields(bytes)
    }

    pub(super) fn end(&mut self) {
        self.row(-1);
    }

    fn row(&mut self, fields: i16) {
        self.0.extend_from_slice(&fields.to_be_bytes());
    }

    fn field(&mut self, bytes: Option<&[u8]>) {
        // The server refuses fields of more than 1 GB.
        let length = bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(bytes.unwrap_or_default());
    }

    fn hash(&mut self, hash: Option<Hash>) {
        self.field(hash.as_ref().map(|hash| hash.0.as_slice()));
    }

    fn key(&mut self, key: Option<IndexKey>) {
        self.field(key.as_ref().map(IndexKey::as_bytes));
    }

    pub(super) fn cs(&mut self, object: &CsObject) {
        let image = image_of(object);
        self.row(8);
        self.field(Some(&object.id.0.to_be_bytes()));
        self.field(Some(&object.agent.0.to_be_bytes()));
        self.key(object.anchor);
        self.field(Some(object.dn.as_bytes()));
        self.key(object.name);
        self.hash(image.map(Hologram::hash));
        self.field(image.map(Hologram::as_bytes));
        self.field(object.pending_export.as_ref().map(PendingExport::to_bytes).as_deref());
    }

    /// The image of an object, with the object's number.
    pub(super) fn image(&mut self, id: i64, image: Option<&Hologram>) {
        self.row(3);
        self.field(Some(&id.to_be_bytes()));
        self.hash(image.map(Hologram::hash));
        self.field(image.map(Hologram::as_bytes));
    }

    pub(super) fn mv(&mut self, object: &MvObject) {
        self.row(5);
        self.field(Some(&object.id.0.to_be_bytes()));
        self.field(Some(&object.kind.to_be_bytes()));
        self.field(Some(object.image.as_bytes()));
        self.field(Some(object.lineage.as_bytes()));
        self.field(Some(&connectors_bytes(&object.connectors)));
    }
}
