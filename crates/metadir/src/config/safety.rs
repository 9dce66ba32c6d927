//! `[safety]`: the limits that stop a run before it does damage.

use std::collections::BTreeMap;

use super::part::{Part, Reader};
use super::{Safety, Threshold};

impl Reader {
    /// The limits, with their defaults.
    pub(super) fn safety(&mut self, root: &Part<'_>) -> Safety {
        let mut safety = Safety {
            import_least_share: 0.5,
            synchronization_deletes: Threshold { count: 500, share: 0.1 },
            synchronization_updates: Threshold { count: u64::MAX, share: 1.0 },
            lost_values: Threshold { count: 500, share: 0.1 },
            attribute_updates: BTreeMap::new(),
            export_deletes: Threshold { count: 500, share: 0.1 },
        };
        let Some(part) = self.part(root, "safety") else { return safety };
        self.keys(&part, &["import", "synchronization", "export"]);
        if let Some(import) = self.part(&part, "import") {
            self.keys(&import, &["least_share"]);
            safety.import_least_share =
                self.share(&import, "least_share").unwrap_or(safety.import_least_share);
        }
        for (key, threshold) in
            [("synchronization", &mut safety.synchronization_deletes), ("export", &mut safety.export_deletes)]
        {
            if let Some(part) = self.part(&part, key) {
                let of_updates = ["updates", "update_share", "lost", "lost_share", "attributes"];
                let others = if key == "synchronization" { &of_updates[..] } else { &[] };
                self.keys(&part, &[&["deletes", "delete_share"], others].concat());
                threshold.count = self.number(&part, "deletes", 0..=1 << 40).unwrap_or(threshold.count);
                threshold.share = self.share(&part, "delete_share").unwrap_or(threshold.share);
            }
        }
        if let Some(part) = self.part(&part, "synchronization") {
            let limits = [
                ("updates", "update_share", &mut safety.synchronization_updates),
                ("lost", "lost_share", &mut safety.lost_values),
            ];
            for (count, share, threshold) in limits {
                threshold.count = self.number(&part, count, 0..=1 << 40).unwrap_or(threshold.count);
                threshold.share = self.share(&part, share).unwrap_or(threshold.share);
            }
            if let Some(listed) = self.part(&part, "attributes") {
                for (name, _) in listed.entries() {
                    let most = self.number(&listed, name.get_ref(), 0..=1 << 40);
                    safety.attribute_updates.extend(most.map(|most| (name.get_ref().to_string(), most)));
                }
            }
        }
        safety
    }
}
