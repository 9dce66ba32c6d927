//! What a store holds of an object: its image, where that comes from, and what is on its way to its system.

use metadir::hologram::{Builder, Hologram};
use metadir::object::{Lineages, PendingExport};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    if let Ok(image) = Hologram::from_bytes(bytes) {
        let mut again = Builder::default();
        for (attribute, values) in image.iter() {
            assert_eq!(values.iter().count(), values.count());
            assert_eq!(image.get(attribute).map(|of| of.count()), Some(values.count()));
            again.push_values(attribute, values);
        }
        // Bytes that nobody writes may be read: a number in more bytes than it needs.
        let all = |image: &Hologram| -> Vec<(u32, Vec<Vec<u8>>)> {
            let of = |values: metadir::hologram::Values<'_>| values.iter().map(<[u8]>::to_vec).collect();
            image.iter().map(|(attribute, values)| (attribute.0, of(values))).collect()
        };
        assert_eq!(all(&again.finish()), all(&image));
    }
    if let Ok(lineage) = Lineages::from_bytes(bytes) {
        let again: Lineages = lineage.iter().collect();
        assert!(again.iter().eq(lineage.iter()));
    }
    if let Ok(pending) = PendingExport::from_bytes(bytes) {
        assert_eq!(PendingExport::from_bytes(&pending.to_bytes()).as_ref(), Ok(&pending));
    }
}
