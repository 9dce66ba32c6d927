//! Paths of a store that are different and on the same device. The workload records the devices of its paths.

use model::{Doubt, DoubtKind, Level};

use crate::measured::Measured;

/// The beginning of the facts about two paths on one device; the names of the paths follow.
const SHARED: &str = "path.shared.";

/// A configuration that separates data, log or temporary files by path only.
pub(super) fn shared(measured: &Measured) -> Option<Doubt> {
    let facts = measured.record.run.facts.iter();
    let pairs: Vec<(&str, &str, &Level)> = facts
        .filter_map(|(name, device)| {
            let (one, another) = name.strip_prefix(SHARED)?.split_once('.')?;
            Some((one, another, device))
        })
        .collect();
    let path = |name: &str| measured.fact_text(&format!("path.{name}")).unwrap_or_default();
    let texts: Vec<String> = pairs
        .iter()
        .map(|(one, another, device)| {
            format!("{one} ({}) and {another} ({}) are both on {device}", path(one), path(another))
        })
        .collect();
    let moved = pairs.first().map(|(_, another, _)| *another)?;
    Some(Doubt::new(
        DoubtKind::SharedDevice,
        format!("separate paths share a device: {}", texts.join("; ")),
        format!("set `{moved}_path` to a folder on another disk; otherwise the paths separate nothing"),
    ))
}
