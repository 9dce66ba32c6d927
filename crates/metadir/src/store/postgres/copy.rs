//! Objects in the binary form of COPY.

use super::PIECE_BYTES;
use crate::hologram::{Hash, Hologram};
use crate::object::{CsObject, MvObject, PendingExport, PendingImport};
use crate::store::row::import_parts;

/// Rows in the binary form of COPY: for each the number of its fields, and for each field its length and its bytes.
pub(super) struct Fields(pub(super) Vec<u8>);

impl Fields {
    pub(super) fn begin() -> Fields {
        let mut bytes = Vec::with_capacity(2 * PIECE_BYTES);
        bytes.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
        // Neither flags nor an extension.
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
        // What does not fit into a field is refused by the server, which takes at most 1 GB.
        let length = bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(bytes.unwrap_or_default());
    }

    fn hash(&mut self, hash: Option<Hash>) {
        self.field(hash.as_ref().map(|hash| hash.0.as_slice()));
    }

    fn import(&mut self, pending: Option<&PendingImport>) {
        let (change, hash, image) = import_parts(pending);
        self.field(Some(&(change as i16).to_be_bytes()));
        self.hash(hash);
        self.field(image);
    }

    pub(super) fn cs(&mut self, object: &CsObject) {
        self.row(13);
        self.field(Some(&object.id.0.to_be_bytes()));
        self.field(Some(&object.agent.0.to_be_bytes()));
        self.hash(object.anchor);
        self.field(Some(object.dn.as_bytes()));
        self.hash(object.name);
        self.field(Some(&(object.state as i16).to_be_bytes()));
        self.field(object.mv.map(|mv| mv.0.to_be_bytes()).as_ref().map(<[u8; 8]>::as_slice));
        self.hash(object.synchronized.as_ref().map(Hologram::hash));
        self.field(object.synchronized.as_ref().map(Hologram::as_bytes));
        self.import(object.pending_import.as_ref());
        self.field(object.pending_export.as_ref().map(PendingExport::to_bytes).as_deref());
    }

    pub(super) fn staged(&mut self, id: i64, pending: Option<&PendingImport>) {
        self.row(4);
        self.field(Some(&id.to_be_bytes()));
        self.import(pending);
    }

    pub(super) fn mv(&mut self, object: &MvObject) {
        self.row(4);
        self.field(Some(&object.id.0.to_be_bytes()));
        self.field(Some(&object.kind.to_be_bytes()));
        self.field(Some(object.image.as_bytes()));
        self.field(Some(&object.lineage_bytes()));
    }
}
