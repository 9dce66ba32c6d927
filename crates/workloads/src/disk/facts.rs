//! What there is to know about what was driven, beside the numbers.

use std::collections::{BTreeMap, BTreeSet};

use model::Level;

use super::backing;
use super::prepare::Ready;
use super::settings::{BackEndChoice, DiskPlan};
use super::target::{self, Target, Unbacked, queue_attribute};

/// Share of the files' used part that is in the page cache; none with direct I/O, or where the kernel does not report it.
pub(super) fn resident_share(plan: &DiskPlan, ready: &Ready) -> Option<f64> {
    if plan.direct || plan.back_end == BackEndChoice::Nothing {
        return None;
    }
    let (mut resident, mut total) = (0, 0);
    for file in &ready.files {
        resident += engine::page_cache::resident_bytes(&file.file, plan.offset, file.bytes)?;
        total += file.bytes;
    }
    (total > 0).then(|| (resident as f64 / total as f64).min(1.0))
}

/// Which devices and file systems the targets are on; returns the devices.
fn places(targets: &[&Target], set: &mut dyn FnMut(&str, Level)) -> BTreeSet<String> {
    let disks: BTreeSet<String> = targets.iter().flat_map(|target| target.disks()).collect();
    let in_memory: BTreeSet<String> =
        targets.iter().flat_map(|target| backing::memory(&target.path, &target.disks())).collect();
    let texts = |texts: &BTreeSet<String>| Level::List(texts.iter().cloned().map(Level::Text).collect());
    set("devices", texts(&disks));
    if !in_memory.is_empty() {
        set("devices.memory", texts(&in_memory));
    }
    let file_systems: BTreeSet<String> = targets.iter().filter_map(|target| target.file_system()).collect();
    if !file_systems.is_empty() {
        set("file_system", Level::Text(file_systems.into_iter().collect::<Vec<_>>().join(", ")));
    }
    disks
}

/// What is known of a load whose files were never ready: nothing was measured.
pub(super) fn unprepared(plan: &DiskPlan) -> BTreeMap<String, Level> {
    let mut facts = BTreeMap::new();
    let mut set = |name: &str, level: Level| drop(facts.insert(name.to_string(), level));
    set("preparation", Level::Text("not completed".into()));
    set("cache", Level::Text(if plan.direct { "direct" } else { "page-cache" }.into()));
    let targets: Vec<Target> =
        plan.files.iter().filter_map(|path| Target::inspect(&plan.opener, path).ok()).collect();
    places(&targets.iter().collect::<Vec<_>>(), &mut set);
    facts
}

/// The facts of several jobs as those of one load. Lists are joined, texts that differ are listed, and other values that
/// differ stand under the job's name.
pub(super) fn together(jobs: Vec<(&str, BTreeMap<String, Level>)>) -> BTreeMap<String, Level> {
    let several = jobs.len() > 1;
    let mut all: BTreeMap<String, Vec<(&str, Level)>> = BTreeMap::new();
    for (job, facts) in jobs {
        for (name, level) in facts {
            all.entry(name).or_default().push((job, level));
        }
    }
    let mut facts = BTreeMap::new();
    for (name, mut levels) in all {
        let is_same = levels.iter().all(|(_, level)| *level == levels[0].1);
        let are_lists = levels.iter().all(|(_, level)| matches!(level, Level::List(_)));
        let are_texts = levels.iter().all(|(_, level)| matches!(level, Level::Text(_)));
        if is_same || !several {
            facts.extend(levels.pop().map(|(_, level)| (name, level)));
        } else if are_lists || are_texts {
            let mut joined: Vec<Level> = Vec::new();
            let parts = levels.into_iter().flat_map(|(_, level)| match level {
                Level::List(parts) => parts,
                level => vec![level],
            });
            for part in parts {
                if !joined.contains(&part) {
                    joined.push(part);
                }
            }
            let text = |parts: &[Level]| parts.iter().map(Level::to_string).collect::<Vec<_>>().join(", ");
            let level = if are_lists { Level::List(joined) } else { Level::Text(text(&joined)) };
            facts.insert(name, level);
        } else {
            facts.extend(levels.into_iter().map(|(job, level)| (format!("{job}: {name}"), level)));
        }
    }
    facts
}

/// Everything that does not depend on the back end.
pub(super) fn facts(plan: &DiskPlan, ready: &Ready) -> BTreeMap<String, Level> {
    let mut facts = BTreeMap::new();
    let mut set = |name: &str, level: Level| drop(facts.insert(name.to_string(), level));
    if plan.back_end == BackEndChoice::Nothing {
        return facts;
    }
    set("cache", Level::Text(if plan.direct { "direct" } else { "page-cache" }.into()));
    set("compressible", Level::Percent(plan.compressible_percent));
    set("file.bytes", Level::Bytes(ready.files.iter().map(|file| file.bytes).sum()));

    let targets: Vec<&Target> = ready.files.iter().map(|file| &file.target).collect();
    let disks = places(&targets, &mut set);
    let attribute = |name: &str| {
        let values: BTreeSet<String> = disks.iter().filter_map(|disk| queue_attribute(disk, name)).collect();
        values.into_iter().collect::<Vec<_>>()
    };
    let write_cache = attribute("write_cache");
    if !write_cache.is_empty() {
        set("write_cache", Level::Text(write_cache.join(", ")));
    }
    let rotational = attribute("rotational");
    if !rotational.is_empty() {
        set("rotational", Level::Flag(rotational.iter().any(|value| value == "1")));
    }

    let alignments: Option<Vec<u32>> = ready
        .files
        .iter()
        .map(|file| {
            target::direct_alignment(&file.file).map(|alignment| alignment.offset.max(alignment.memory))
        })
        .collect();
    set("direct.supported", Level::Flag(alignments.is_some()));
    if let Some(alignment) = alignments.and_then(|all| all.into_iter().max()) {
        set("direct.alignment", Level::Bytes(u64::from(alignment)));
    }

    // A file without this report leaves the sum unknown, which is not the same as none.
    let unbacked = ready
        .files
        .iter()
        .filter(|file| file.target.kind == target::Kind::File)
        .map(|file| target::unbacked(&file.file, plan.offset, file.bytes))
        .try_fold(Unbacked::default(), |sum, next| {
            next.map(|next| Unbacked {
                hole_bytes: sum.hole_bytes + next.hole_bytes,
                unwritten_bytes: sum.unwritten_bytes + next.unwritten_bytes,
            })
        });
    if let Some(unbacked) = unbacked {
        set("extents.hole_bytes", Level::Bytes(unbacked.hole_bytes));
        set("extents.unwritten_bytes", Level::Bytes(unbacked.unwritten_bytes));
    }
    if let Some(sample) = ready.sample {
        set("content.sampled_blocks", Level::Count(sample.pieces));
        set("content.zero_share", Level::Number(sample.zero_share));
        set("content.repeated_share", Level::Number(sample.repeated_share));
    }
    if let Some(touch) = ready.touch {
        set("first_touch.mean_ms", Level::Number(touch.first_ms));
        set("second_touch.mean_ms", Level::Number(touch.second_ms));
    }
    facts
}
