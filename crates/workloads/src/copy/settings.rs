//! The settings of a copy, and what they mean together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use engine::allowed::Opener;
use engine::devices::below;
use engine::source::HostRoot;
use engine::workload::Drain;
use model::windows::windows_path;
use model::{Choice, Key, Level, Nanos, PathUse, Problem, Problems, Profile, Settings, Shape, quantity};

use super::plan::Storage;
use super::sizes::Spread;

/// Most blocks in flight.
pub(super) const OUTSTANDING_MAX: u32 = 1024;

/// Most files that are generated.
const FILE_COUNT_MAX: u32 = 1_000_000;

/// Direct transfers are made in multiples of this, which suits every device's sector.
pub(super) const SECTOR: u32 = 4096;

/// Most memory for blocks in flight.
const MEMORY_MAX: u64 = 4 << 30;

model::settings! {
    /// What can be chosen.
    pub(super) static SETTINGS;

    pub(super) static SOURCE: Key<Option<String>> = Key::path(
        "source", PathUse::Host, "",
        "File or folder to copy, or \"generate:8GiB\" to write that much data that does not compress, without reading any.",
    );

    static FILE_COUNT: Key<u32> = Key::count(
        "file_count", 1..=FILE_COUNT_MAX as u64, "1",
        "Number of files into which generated data is divided, 100 in each folder below the destination.",
    );

    static FILE_SIZES: Key<Sizes> = Key::choice(
        "file_sizes",
        "Sizes of these files: log-normal, as those of programs and documents on a computer, or all equal.",
    );

    pub(super) static DESTINATION: Key<Option<String>> = Key::path(
        "destination", PathUse::Host, "",
        "File or folder to make. A file may also be copied into an existing folder, under its own name.",
    );

    static BLOCK_SIZE: Key<u64> = Key::bytes(
        "block_size", "1MiB",
        "Bytes read and written at a time.",
    );

    static OUTSTANDING: Key<u32> = Key::count(
        "outstanding", 1..=OUTSTANDING_MAX as u64, "4",
        "Blocks in flight at a time.",
    );

    static CACHE: Key<Cache> = Key::choice(
        "cache",
        "Whether source and destination bypass the operating system's cache (O_DIRECT) or go through it, the source then not cached at first.",
    );

    static SYNC: Key<Flush> = Key::choice(
        "sync",
        "When files are flushed to stable storage, as operations of their own: each file at the end (fsync), or the whole file system once at the end (syncfs).",
    );

    static DRAIN: Key<Option<Nanos>> = Key::time_or(
        "drain", "none", "60s",
        "How long to watch the device at most, after the copy, until it has written what caches accepted; none does not watch.",
    );

    static SIZE: Key<Option<u64>> = Key::bytes(
        "size", "",
        "Copy no more than this; none copies everything.",
    );

    pub(super) static OVERWRITE: Key<bool> = Key::flag(
        "overwrite", "false",
        "Replace files that exist at the destination. What they hold is lost.",
    );

    static DISCARD: Key<bool> = Key::flag(
        "discard", "false",
        "Remove the copy when it has been measured.",
    );

    pub(super) static BACK_END: Key<BackEnd> = Key::choice(
        "back_end",
        "How blocks are moved: io_uring, or one pread and pwrite at a time on a thread for each outstanding block; auto takes io_uring where the kernel permits it.",
    );
}

/// What is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A file or a folder.
    Path(PathBuf),
    /// So many bytes made up, in so many files.
    Generated { bytes: u64, files: u32, spread: Spread },
}

model::choice! {
    /// How blocks are moved.
    pub(super) enum BackEnd {
        Auto = "auto",
        IoUring = "io_uring",
        SystemCalls = "system-calls",
    }
}

model::choice! {
    /// Whether the operating system's cache is used.
    pub(super) enum Cache {
        Direct = "direct",
        PageCache = "page-cache",
    }
}

model::choice! {
    /// When a file is flushed to stable storage.
    pub(super) enum Flush {
        AtEnd = "at-end",
        FileSystem = "file-system",
        Never = "never",
    }
}

model::choice! {
    /// How the sizes of generated files differ.
    pub(super) enum Sizes {
        LogNormal = "log-normal",
        Equal = "equal",
    }
}

/// A source that is made up.
fn generated(bytes: u64, settings: &Settings) -> Source {
    let spread = match settings.get(&FILE_SIZES) {
        Sizes::LogNormal => Spread::LogNormal,
        Sizes::Equal => Spread::Equal,
    };
    Source::Generated { bytes, files: settings.get(&FILE_COUNT), spread }
}

/// The settings, read.
#[derive(Clone, Debug)]
pub(super) struct CopySettings {
    /// Opens `source` and `destination`.
    pub(super) opener: Opener,
    pub(super) source: Source,
    pub(super) destination: PathBuf,
    pub(super) block_bytes: u32,
    pub(super) outstanding: u32,
    pub(super) direct: bool,
    pub(super) sync: Flush,
    /// How long to watch the drain at most.
    pub(super) drain: Option<Nanos>,
    pub(super) bytes_max: Option<u64>,
    pub(super) overwrite: bool,
    pub(super) discard: bool,
    pub(super) back_end: BackEnd,
}

impl CopySettings {
    /// Reads the settings; every contradiction at once.
    pub(super) fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let source = match settings.text(&SOURCE) {
            None => {
                problems.add(
                    &[&SOURCE],
                    "there is no source to copy",
                    "name a file or a folder, or \"generate:8GiB\"",
                );
                None
            }
            Some(text) => match text.strip_prefix("generate:") {
                None => Some(Source::Path(PathBuf::from(text))),
                Some(size) => match quantity::parse_bytes(size) {
                    Ok(bytes) if bytes > 0 => Some(generated(bytes, settings)),
                    Ok(_) => {
                        problems.add(&[&SOURCE], "nothing is to be generated", "such as \"generate:8GiB\"");
                        None
                    }
                    Err(error) => {
                        problems.add(&[&SOURCE], error.0, "or a file to copy");
                        None
                    }
                },
            },
        };
        match &source {
            Some(Source::Path(_)) if settings.given(&FILE_COUNT) || settings.given(&FILE_SIZES) => problems
                .add(
                    &[&FILE_COUNT, &FILE_SIZES],
                    "a source that is a file or a folder has its own files",
                    "set them with a source such as \"generate:2GB\"",
                ),
            Some(Source::Generated { bytes, files, .. }) if *bytes < u64::from(*files) => problems.add(
                &[&FILE_COUNT],
                format!("{} cannot be divided into {files} files", quantity::bytes(*bytes)),
                "generate more, or lower `file_count`",
            ),
            _ => {}
        }
        let destination = settings.get(&DESTINATION).map(PathBuf::from);
        if destination.is_none() {
            problems.add(
                &[&DESTINATION],
                "there is no destination to copy to",
                "name a file or a folder, such as \"/data/copy.bin\"",
            );
        }
        let named = [
            (
                &SOURCE,
                match &source {
                    Some(Source::Path(path)) => path.to_str(),
                    _ => None,
                },
            ),
            (&DESTINATION, destination.as_deref().and_then(|path| path.to_str())),
        ];
        for (setting, path) in named {
            if let Some((what, help)) = path.and_then(windows_path) {
                problems.add(&[setting], what, help);
            }
        }
        let direct = settings.get(&CACHE) == Cache::Direct;
        let block = settings.get(&BLOCK_SIZE);
        let outstanding = settings.get(&OUTSTANDING);
        let written = quantity::bytes(block);
        if block == 0 || block > 1 << 30 {
            problems.add(
                &[&BLOCK_SIZE],
                format!("a block of {written} cannot be copied"),
                "write 512B to 1GiB",
            );
        } else if direct && !block.is_multiple_of(u64::from(SECTOR)) {
            problems.push(
                Problem::new(
                    format!("a block of {written} is not a whole number of sectors"),
                    "past the page cache blocks are multiples of 4KiB: round it",
                )
                .about(&[&BLOCK_SIZE])
                .or_set(&CACHE, Cache::PageCache.level()),
            );
        } else if block * u64::from(outstanding) > MEMORY_MAX {
            problems.add(
                &[&OUTSTANDING, &BLOCK_SIZE],
                format!("{outstanding} blocks of {written} in flight need more than 4GiB of memory"),
                "lower `outstanding` or `block_size`",
            );
        }
        if settings.get(&SIZE) == Some(0) {
            problems.add(&[&SIZE], "nothing is to be copied", "remove `size` to copy everything");
        }
        let (Some(source), Some(destination)) = (source, destination) else { return Err(problems) };
        problems.or(CopySettings {
            opener: Opener::default(),
            source,
            destination,
            block_bytes: u32::try_from(block).unwrap_or(u32::MAX),
            outstanding,
            direct,
            sync: settings.get(&SYNC),
            drain: settings.get(&DRAIN).filter(|limit| *limit > 0),
            bytes_max: settings.get(&SIZE),
            overwrite: settings.get(&OVERWRITE),
            discard: settings.get(&DISCARD),
            back_end: settings.get(&BACK_END),
        })
    }

    /// A closed load states the blocks in flight, and so does what is outstanding.
    pub(super) fn check_load(settings: &Settings, shape: &Shape) -> Problems {
        let mut problems = Problems::new();
        let outstanding = settings.get(&OUTSTANDING);
        if let Shape::Closed { users, .. } = shape
            && settings.given(&OUTSTANDING)
            && *users != Profile::Constant(f64::from(outstanding))
        {
            let load = shape.stated_by();
            problems.add(
                &[&OUTSTANDING, load],
                format!("`outstanding` sets {outstanding} blocks in flight, and `{}` others", load.name),
                "keep one of them",
            );
        }
        problems
    }

    /// What holds for the whole copy.
    pub(super) fn facts(&self) -> BTreeMap<String, Level> {
        let text = |text: &str| Level::Text(text.into());
        let cache =
            if self.direct { "direct" } else { "page-cache, without what was cached of the source before" };
        let sync = match (self.sync, self.direct) {
            (Flush::AtEnd, _) => "each file is flushed at the end (fsync)",
            (Flush::FileSystem, _) => "the file system is flushed at the end (syncfs)",
            (Flush::Never, true) => "never: a device may still hold data in a cache of its own",
            (Flush::Never, false) => "never: data may still be in memory",
        };
        let mut facts =
            BTreeMap::from([("cache".to_string(), text(cache)), ("sync".to_string(), text(sync))]);
        match &self.source {
            Source::Path(path) => facts.extend(Storage::of(path).facts("source")),
            Source::Generated { .. } => _ = facts.insert("source.device".into(), text("generated")),
        }
        facts.extend(Storage::of(&self.destination).facts("destination"));
        facts
    }

    /// The drain to watch: none of a destination without a device, whose writes no counter shows.
    pub(super) fn drain(&self) -> Option<Drain> {
        match (self.drain, Storage::of(&self.destination)) {
            (Some(at_most), Storage::Devices(disks)) => {
                let lower = |disk: &String| below(&HostRoot::live(), disk);
                let is_stacked = disks.iter().any(|disk| !lower(disk).is_empty());
                let with_lower = |disk: String| match lower(&disk) {
                    lower if lower.is_empty() => vec![disk],
                    lower => lower,
                };
                Some(Drain { at_most, devices: disks.into_iter().flat_map(with_lower).collect(), is_stacked })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings_of;

    fn read(pairs: &[(&str, &str)]) -> Result<CopySettings, Problems> {
        CopySettings::read(&settings_of(SETTINGS, pairs))
    }

    #[test]
    fn everything_wrong_is_reported_at_once() {
        let problems =
            read(&[("source", "generate:much"), ("block_size", "1000B"), ("size", "0B")]).unwrap_err();
        let whats: Vec<&str> = problems.0.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(whats.len(), 4, "{problems}");
        assert!(whats[0].contains("`much` is not a size"));
        assert_eq!(whats[1], "there is no destination to copy to");
        assert_eq!(whats[2], "a block of 1000B is not a whole number of sectors");
        assert_eq!(whats[3], "nothing is to be copied");
    }

    #[test]
    fn blocks_in_flight_are_stated_once() {
        let count = |users, pairs: &[(&str, &str)]| {
            CopySettings::check_load(&settings_of(SETTINGS, pairs), &Shape::closed(users)).0.len()
        };
        let eight = [("outstanding", "8")];
        assert_eq!([count(2, &eight), count(8, &eight), count(2, &[])], [1, 0, 0]);
    }

    #[test]
    fn odd_blocks_are_fine_through_the_page_cache() {
        let settings = read(&[
            ("source", "generate:1MiB"),
            ("destination", "d"),
            ("block_size", "1000B"),
            ("cache", "page-cache"),
        ])
        .unwrap();
        let one = Source::Generated { bytes: 1 << 20, files: 1, spread: Spread::LogNormal };
        assert_eq!((settings.source, settings.block_bytes), (one, 1000));
        for (pairs, error) in [
            ([("source", "s"), ("file_count", "2")], "has its own files"),
            ([("source", "generate:10B"), ("file_count", "11")], "10B cannot be divided into 11 files"),
        ] {
            let problems = read(&[pairs[0], pairs[1], ("destination", "d")]).unwrap_err();
            assert!(problems.0[0].what.contains(error), "{problems}");
        }
        let problems =
            read(&[("source", "s"), ("destination", "d"), ("block_size", "64MiB"), ("outstanding", "1024")]);
        assert!(problems.unwrap_err().0[0].what.contains("more than 4GiB"));
    }
}
