//! The settings of the disk workload, and what they mean together.

use std::path::PathBuf;

use model::{Level, Problem, Problems, SettingInfo, SettingKind, Settings, quantity};

/// Largest block of one operation.
const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// Smallest sector any disk has: direct I/O in smaller pieces cannot work.
const SECTOR: u64 = 512;

/// Size of a file that does not exist yet and whose size was not given.
pub(super) const SIZE_DEFAULT: u64 = 1 << 30;

/// Most blocks whose last write `verify` remembers, at four bytes each.
pub(super) const VERIFIED_BLOCKS_MAX: u64 = 1 << 28;

const fn info(
    name: &'static str,
    kind: SettingKind,
    default: &'static str,
    about: &'static str,
) -> SettingInfo {
    SettingInfo { name, kind, default, about }
}

/// What can be chosen.
pub static SETTINGS: &[SettingInfo] = &[
    info(
        "files",
        SettingKind::Texts,
        "",
        "Files or block devices to read and write. A file that does not exist is created and written in full before the clock starts.",
    ),
    info(
        "size",
        SettingKind::Bytes,
        "",
        "How much of each file to use; none takes an existing file or device whole and creates files of 1GiB.",
    ),
    info("offset", SettingKind::Bytes, "", "Where in each file to begin; none begins at its start."),
    info(
        "access",
        SettingKind::Choice(&["random", "sequential"]),
        "random",
        "Order of the blocks. Sequential is one stream that all threads share: no block is visited twice before all were.",
    ),
    info("read_percent", SettingKind::Percent, "100%", "Share of operations that read; the others write."),
    info(
        "block_size",
        SettingKind::Text,
        "4KiB",
        "Bytes of one operation, or a mix of sizes: \"4KiB 70%, 64KiB 30%\".",
    ),
    info("threads", SettingKind::Count { min: 1, max: 256 }, "1", "Threads that issue operations."),
    info(
        "outstanding",
        SettingKind::Count { min: 1, max: 1024 },
        "1",
        "Operations each thread keeps in flight (queue depth).",
    ),
    info(
        "cache",
        SettingKind::Choice(&["direct", "page-cache"]),
        "direct",
        "Whether to bypass the operating system's cache (O_DIRECT) or to go through it.",
    ),
    info(
        "write_through",
        SettingKind::Flag,
        "false",
        "A write is done when the data is on stable storage (O_DSYNC), not when the device has taken it.",
    ),
    info(
        "fsync_every",
        SettingKind::Count { min: 0, max: 1_000_000_000 },
        "0",
        "After this many writes of a thread, flush the file just written (fdatasync) as an operation of its own; 0 never.",
    ),
    info(
        "distribution",
        SettingKind::Text,
        "uniform",
        "How random operations spread over the blocks: \"uniform\", \"zipf 1.2\" (exponent) or \"hot 90% in 10%\" (share of operations in a share of the blocks).",
    ),
    info(
        "stride",
        SettingKind::Bytes,
        "",
        "Sequential access: distance from one block's start to the next; none is the block size.",
    ),
    info(
        "align",
        SettingKind::Bytes,
        "",
        "Random access: blocks start at multiples of this; none is the block size.",
    ),
    info(
        "compressible",
        SettingKind::Percent,
        "0%",
        "Share of each written block that compresses away (zeros); the rest neither compresses nor repeats.",
    ),
    info(
        "verify",
        SettingKind::Flag,
        "false",
        "Write a header with place, generation and checksum into each block, and check every block read. Costs CPU time.",
    ),
    info(
        "overwrite",
        SettingKind::Texts,
        "",
        "Files or devices that may be written although Plimsoll did not create them, named exactly as among the files to drive. What they hold is lost.",
    ),
    info(
        "back_end",
        SettingKind::Choice(&["auto", "io_uring", "system-calls"]),
        "auto",
        "How operations are issued: io_uring, or one preadv/pwritev at a time; auto takes the faster one. With one operation in flight per thread through the page cache that is system calls; else both are tried briefly before the clock starts.",
    ),
    info(
        "keep",
        SettingKind::Flag,
        "false",
        "Keep the files that were created, for the next experiment to use again.",
    ),
];

/// Order of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Random,
    Sequential,
}

/// How random operations spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Distribution {
    Uniform,
    Zipf { exponent: f64 },
    Hot { operations: f64, blocks: f64 },
}

/// One size of a mix and its share of the operations, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BlockShare {
    pub(super) bytes: u64,
    pub(super) share: f64,
}

/// How operations are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackEndChoice {
    Auto,
    IoUring,
    SystemCalls,
}

/// The settings, read and free of contradictions.
#[derive(Clone, Debug)]
pub(super) struct DiskPlan {
    pub(super) files: Vec<PathBuf>,
    pub(super) size: Option<u64>,
    pub(super) offset: u64,
    pub(super) access: Access,
    /// 0 to 1.
    pub(super) read_share: f64,
    pub(super) blocks: Vec<BlockShare>,
    pub(super) threads: u32,
    pub(super) outstanding: u32,
    pub(super) direct: bool,
    pub(super) write_through: bool,
    pub(super) fsync_every: u64,
    pub(super) distribution: Distribution,
    pub(super) stride: Option<u64>,
    pub(super) align: Option<u64>,
    pub(super) compressible_percent: f64,
    pub(super) verify: bool,
    pub(super) overwrite: Vec<PathBuf>,
    pub(super) back_end: BackEndChoice,
    pub(super) keep: bool,
}

impl DiskPlan {
    /// Reads the settings; every contradiction at once, with its line in the experiment file.
    pub(super) fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let files: Vec<PathBuf> = settings.texts("files").into_iter().map(PathBuf::from).collect();
        if files.is_empty() {
            problems.add(&["files"], "no file to read or write", "name one, such as \"/data/plimsoll.dat\"");
        }
        for (index, file) in files.iter().enumerate() {
            if files[..index].contains(file) {
                problems.add(
                    &["files"],
                    format!("`{}` is named twice", file.display()),
                    "name each file once",
                );
            }
        }
        let overwrite: Vec<PathBuf> = settings.texts("overwrite").into_iter().map(PathBuf::from).collect();
        for target in overwrite.iter().filter(|target| !files.contains(target)) {
            problems.add(
                &["overwrite"],
                format!("`overwrite` names `{}`, which is not among the files to drive", target.display()),
                "write it exactly as there",
            );
        }
        let blocks = read_blocks(settings.text("block_size").unwrap_or("4KiB")).unwrap_or_else(|what| {
            problems.add(&["block_size"], what, "such as \"8KiB\" or \"4KiB 70%, 64KiB 30%\"");
            Vec::new()
        });
        let distribution = read_distribution(settings.text("distribution").unwrap_or("uniform"))
            .unwrap_or_else(|what| {
                problems.add(
                    &["distribution"],
                    what,
                    "write \"uniform\", \"zipf 1.2\" or \"hot 90% in 10%\"",
                );
                Distribution::Uniform
            });
        let plan = DiskPlan {
            files,
            size: settings.bytes("size"),
            offset: settings.bytes("offset").unwrap_or(0),
            access: match settings.text("access") {
                Some("sequential") => Access::Sequential,
                _ => Access::Random,
            },
            read_share: settings.percent("read_percent").unwrap_or(100.0) / 100.0,
            blocks,
            threads: settings.count("threads").unwrap_or(1).clamp(1, 256) as u32,
            outstanding: settings.count("outstanding").unwrap_or(1).clamp(1, 1024) as u32,
            direct: settings.text("cache") != Some("page-cache"),
            write_through: settings.flag("write_through"),
            fsync_every: settings.count("fsync_every").unwrap_or(0),
            distribution,
            stride: settings.bytes("stride"),
            align: settings.bytes("align"),
            compressible_percent: settings.percent("compressible").unwrap_or(0.0),
            verify: settings.flag("verify"),
            overwrite,
            back_end: match settings.text("back_end") {
                Some("io_uring") => BackEndChoice::IoUring,
                Some("system-calls") => BackEndChoice::SystemCalls,
                _ => BackEndChoice::Auto,
            },
            keep: settings.flag("keep"),
        };
        plan.find_contradictions(&mut problems);
        problems.or(plan)
    }

    fn find_contradictions(&self, problems: &mut Problems) {
        let size = |bytes: u64| quantity::bytes(bytes);
        let word = |word: &str| Level::Text(word.into());
        match self.access {
            Access::Random if self.stride.is_some() => {
                problems.push(
                    Problem::new("`stride` has no meaning for random access", "remove it")
                        .about(&["stride"])
                        .or_set("access", word("sequential")),
                );
            }
            Access::Sequential if self.align.is_some() => {
                problems.add(
                    &["align", "stride"],
                    "`align` has no meaning for sequential access",
                    "use `stride`",
                );
            }
            Access::Sequential if self.distribution != Distribution::Uniform => {
                problems.push(
                    Problem::new("`distribution` has no meaning for sequential access", "remove it")
                        .about(&["distribution"])
                        .or_set("access", word("random")),
                );
            }
            _ => {}
        }
        if self.stride.is_some() && self.blocks.len() > 1 {
            problems.add(
                &["stride"],
                "`stride` and a mix of block sizes contradict each other",
                "use one block size",
            );
        }
        if let Some(stride) = self.stride
            && stride < self.smallest_block()
        {
            problems.add(
                &["stride"],
                format!("a stride of {} is shorter than the block", size(stride)),
                "the distance from block start to block start is at least the block size",
            );
        }
        if self.align == Some(0) {
            problems.add(&["align"], "blocks cannot be aligned to 0 bytes", "such as \"4KiB\"");
        }
        if self.fsync_every > 0 && !self.writes() {
            problems.add(
                &["fsync_every", "read_percent"],
                "`fsync_every` without writes",
                "remove it, or lower `read_percent`",
            );
        }
        if let Some(bytes) = self.size
            && bytes < self.largest_block()
        {
            problems.add(
                &["size"],
                format!("a size of {} is smaller than one block", size(bytes)),
                "make it many times the block size",
            );
        }
        if self.direct {
            for (name, value) in
                [("stride", self.stride), ("align", self.align), ("offset", Some(self.offset))]
                    .into_iter()
                    .chain(self.blocks.iter().map(|block| ("block_size", Some(block.bytes))))
            {
                if let Some(value) = value.filter(|value| !value.is_multiple_of(SECTOR)) {
                    problems.push(
                        Problem::new(
                            format!(
                                "direct I/O works in multiples of 512 bytes, and `{name}` of {} is none",
                                size(value)
                            ),
                            "round it",
                        )
                        .about(&[name])
                        .or_set("cache", word("page-cache")),
                    );
                }
            }
        }
        if self.verify && !self.blocks.is_empty() && !self.unit().is_multiple_of(SECTOR) {
            problems.add(
                &["verify"],
                format!(
                    "`verify` works on whole 512-byte sectors; these sizes share only {}",
                    size(self.unit())
                ),
                "make block sizes, offset, stride and align multiples of 512 bytes",
            );
        }
    }

    /// True when anything is written while measuring.
    pub(super) fn writes(&self) -> bool {
        self.read_share < 1.0
    }

    /// Whether what is written can be recognized as Plimsoll's later: it needs words in their places, and more than a few
    /// that are no zeros.
    pub(super) fn is_recognizable(&self) -> bool {
        self.compressible_percent <= 90.0 && self.unit().is_multiple_of(8) && self.smallest_block() >= 64
    }

    /// The largest block of the mix.
    pub(super) fn largest_block(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes).max().unwrap_or(0)
    }

    fn smallest_block(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes).min().unwrap_or(0)
    }

    /// The greatest size every operation starts at a multiple of and is made of: what `verify` puts a header on.
    pub(super) fn unit(&self) -> u64 {
        let steps = [Some(self.offset), self.stride, self.align].into_iter().flatten();
        self.blocks.iter().map(|block| block.bytes).chain(steps).fold(0, greatest_common_divisor)
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// `8KiB`, or `4KiB 70%, 64KiB 30%`; sizes without a share divide what the others leave.
fn read_blocks(text: &str) -> Result<Vec<BlockShare>, String> {
    let mut parts: Vec<(u64, Option<f64>)> = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let (size, share) = match part.rsplit_once(char::is_whitespace) {
            Some((size, share)) if share.ends_with('%') => {
                (size, Some(quantity::parse_percent(share).map_err(|error| error.0)?))
            }
            _ => (part, None),
        };
        let bytes = quantity::parse_bytes(size).map_err(|error| error.0)?;
        if bytes == 0 || bytes > BLOCK_BYTES_MAX {
            return Err(format!(
                "a block of `{size}` is out of range: 1B to {}",
                quantity::bytes(BLOCK_BYTES_MAX)
            ));
        }
        if share == Some(0.0) {
            return Err(format!("`{part}` would never be used"));
        }
        parts.push((bytes, share));
    }
    if parts.len() > 64 {
        return Err(format!("{} block sizes are too many: at most 64", parts.len()));
    }
    let given: f64 = parts.iter().filter_map(|(_, share)| *share).sum();
    let open = parts.iter().filter(|(_, share)| share.is_none()).count();
    if given > 100.0 + 1e-6 || (open == 0 && given < 100.0 - 1e-6) || (open > 0 && given > 100.0 - 1e-6) {
        return Err(format!("the shares of `{text}` do not sum to 100%"));
    }
    let rest = (100.0 - given) / open.max(1) as f64;
    Ok(parts
        .into_iter()
        .map(|(bytes, share)| BlockShare { bytes, share: share.unwrap_or(rest) / 100.0 })
        .collect())
}

fn read_distribution(text: &str) -> Result<Distribution, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wrong = || format!("`{text}` is not a distribution");
    match words.as_slice() {
        ["uniform"] => Ok(Distribution::Uniform),
        ["zipf", exponent] => match exponent.parse::<f64>() {
            Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(Distribution::Zipf { exponent }),
            _ => Err(format!("`{exponent}` is not an exponent of a zipf distribution, above 0 and up to 10")),
        },
        ["hot", operations, "in", blocks] => {
            let share = |text: &str| quantity::parse_percent(text).map_err(|error| error.0);
            let (operations, blocks) = (share(operations)?, share(blocks)?);
            if operations <= 0.0 || blocks <= 0.0 || blocks >= 100.0 {
                return Err(wrong());
            }
            Ok(Distribution::Hot { operations: operations / 100.0, blocks: blocks / 100.0 })
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Settings from words, as a command line would give them.
    pub(crate) fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::defaults(SETTINGS);
        for (name, text) in pairs {
            let info = SETTINGS.iter().find(|info| info.name == *name).unwrap();
            settings.set(name, info.kind.parse(text).unwrap());
        }
        settings
    }

    #[test]
    fn every_default_reads() {
        let defaults = Settings::defaults(SETTINGS);
        for info in SETTINGS {
            assert_eq!(defaults.get(info.name).is_some(), !info.default.is_empty(), "{}", info.name);
            assert!(info.about.ends_with('.') || info.about.ends_with("\"."), "{}", info.name);
        }
        let plan = DiskPlan::read(&settings(&[("files", "f")])).unwrap();
        assert_eq!((plan.threads, plan.outstanding, plan.direct, plan.writes()), (1, 1, true, false));
    }

    #[test]
    fn block_mixes() {
        let read = |text| read_blocks(text).map(|b| b.iter().map(|b| (b.bytes, b.share)).collect::<Vec<_>>());
        assert_eq!(read("8KiB"), Ok(vec![(8192, 1.0)]));
        assert_eq!(read("4KiB 70%, 64k 30%"), Ok(vec![(4096, 0.7), (65536, 0.3)]));
        assert_eq!(read("4KiB 50%,8KiB,16KiB"), Ok(vec![(4096, 0.5), (8192, 0.25), (16384, 0.25)]));
        for wrong in
            ["", "4", "4KiB 70%", "4KiB 70%, 8KiB 40%", "4KiB 100%, 8KiB", "0B", "1TiB", "4KiB 0%,8KiB"]
        {
            assert!(read_blocks(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn distributions() {
        for (text, expected) in [
            ("uniform", Distribution::Uniform),
            ("zipf 1.2", Distribution::Zipf { exponent: 1.2 }),
            ("hot 90% in 10%", Distribution::Hot { operations: 0.9, blocks: 0.1 }),
        ] {
            assert_eq!(read_distribution(text), Ok(expected));
        }
        for wrong in ["zipf", "zipf -1", "zipf NaN", "hot 90% 10%", "hot 90% in 0%", "pareto 1", ""] {
            assert!(read_distribution(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn contradictions_are_all_told() {
        for (pairs, count) in [
            (vec![], 1),
            (vec![("files", "f"), ("stride", "8KiB"), ("fsync_every", "3")], 2),
            (vec![("files", "f"), ("block_size", "1000B"), ("size", "100B")], 2),
            (
                vec![("files", "f"), ("access", "sequential"), ("distribution", "zipf 1"), ("align", "1KiB")],
                1,
            ),
            (vec![("files", "f"), ("overwrite", "/dev/sda")], 1),
            (vec![("files", "f"), ("cache", "page-cache"), ("block_size", "700B"), ("verify", "on")], 1),
        ] {
            let problems = DiskPlan::read(&settings(&pairs)).map(|_| ()).unwrap_err();
            assert_eq!(problems.0.len(), count, "{pairs:?}: {problems}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = (read_blocks(&text), read_distribution(&text));
        }
    }
}
