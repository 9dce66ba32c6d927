//! The settings of the disk workload, and what they mean together.

use std::path::PathBuf;

use model::{Choice, Key, Problem, Problems, SettingInfo, Settings, quantity};

use super::grammar::{BlockShare, Distribution, read_blocks, read_distribution};
use super::profile::{self, Pattern};
use super::stream::Kinds;

/// Smallest sector any disk has: direct I/O in smaller pieces cannot work.
const SECTOR: u64 = 512;

/// Size of a file that does not exist yet and whose size was not given.
pub(super) const SIZE_DEFAULT: u64 = 1 << 30;

/// Most blocks whose last write `verify` remembers, at four bytes each.
pub(super) const VERIFIED_BLOCKS_MAX: u64 = 1 << 28;

model::settings! {
    /// What can be chosen.
    pub static SETTINGS;

    pub(super) static FILES: Key<Vec<String>> = Key::texts(
        "files",
        "Files or block devices to read and write. A file that does not exist is created and written in full before the clock starts.",
    );

    pub(super) static SIZE: Key<Option<u64>> = Key::bytes(
        "size", "",
        "How much of each file to use; none takes an existing file or device whole and creates files of 1GiB.",
    );

    pub(super) static OFFSET: Key<Option<u64>> = Key::bytes(
        "offset", "",
        "Where in each file to begin; none begins at its start.",
    );

    pub(super) static ACCESS: Key<Access> = Key::choice(
        "access",
        "Order of the blocks. Sequential is one stream that all threads share: no block is visited twice before all were.",
    );

    pub(super) static READ_PERCENT: Key<f64> = Key::percent(
        "read_percent", "100%",
        "Share of operations that read; the others write.",
    );

    pub(super) static TRIM_PERCENT: Key<f64> = Key::percent(
        "trim_percent", "0%",
        "Share of operations that discard their block: a discard (TRIM) on a device, a hole in a file. The others read and write.",
    );

    pub(super) static BLOCK_SIZE: Key<String> = Key::sizes(
        "block_size", "4KiB",
        "Bytes of one operation, or a mix of sizes: \"4KiB 70%, 64KiB 30%\".",
    );

    pub(super) static WRITE_BLOCK_SIZE: Key<Option<String>> = Key::sizes(
        "write_block_size", "",
        "Bytes of one write, or a mix of sizes, where they differ from those of a read (random access only); none is `block_size`.",
    );

    pub(super) static THREADS: Key<u32> = Key::count(
        "threads", 1..=256, "1",
        "Threads that issue operations.",
    );

    pub static OUTSTANDING: Key<u32> = Key::count(
        "outstanding", 1..=1024, "1",
        "Operations each thread keeps in flight (queue depth).",
    );

    pub static PATTERN: Key<Option<String>> = Key::text(
        "pattern", "",
        "A load in short, as CrystalDiskMark writes it: \"SEQ1M Q8T1 read\", \"RND4K Q32T1 70% read\". It stands for access, block_size, outstanding, threads and read_percent.",
    );

    pub(super) static STREAMS: Key<Streams> = Key::choice(
        "streams",
        "Whether all threads share one stream of blocks, or each thread has its own over the same blocks, as diskspd and fio do.",
    );

    pub(super) static DIRECTIONS: Key<Directions> = Key::choice(
        "directions",
        "Sequential reads and writes of one load: one stream of both, or a stream of reads and a stream of writes, each from the start.",
    );

    pub(super) static OPERATIONS: Key<Option<u64>> = Key::count(
        "operations", 1..=1_000_000_000_000, "",
        "Stop after this many operations (of each thread, where each has its own stream); none goes on for the measured time.",
    );

    pub(super) static CACHE: Key<Cache> = Key::choice(
        "cache",
        "Whether to bypass the operating system's cache (O_DIRECT) or to go through it.",
    );

    pub(super) static WRITE_THROUGH: Key<bool> = Key::flag(
        "write_through", "false",
        "A write is done when the data is on stable storage (O_DSYNC), not when the device has taken it.",
    );

    pub(super) static FSYNC_EVERY: Key<u64> = Key::count(
        "fsync_every", 0..=1_000_000_000, "0",
        "After this many writes of a thread, flush the file just written (fdatasync) as an operation of its own; 0 never.",
    );

    pub(super) static DISTRIBUTION: Key<String> = Key::text(
        "distribution", "uniform",
        "How random operations spread over the blocks: \"uniform\", \"shuffle\" (each block once before any is visited again), \"zipf 1.2\" (exponent), \"hot 90% in 10%\" (share of operations in a share of the blocks) or \"zones 50% in 5%, 30% in 15%, 20% in 80%\".",
    );

    pub(super) static STRIDE: Key<Option<u64>> = Key::bytes(
        "stride", "",
        "Sequential access: distance from one block's start to the next; none is the block size.",
    );

    pub(super) static REVERSE: Key<bool> = Key::flag(
        "reverse", "false",
        "Sequential access from the end of each file to its start.",
    );

    pub(super) static ALIGN: Key<Option<u64>> = Key::bytes(
        "align", "",
        "Random access: blocks start at multiples of this; none is the block size.",
    );

    pub(super) static COMPRESSIBLE: Key<f64> = Key::percent(
        "compressible", "0%",
        "Share of each written block that compresses away (zeros); the rest neither compresses nor repeats.",
    );

    pub(super) static VERIFY: Key<bool> = Key::flag(
        "verify", "false",
        "Write a header with place, generation and checksum into each block, and check every block read. Costs CPU time.",
    );

    pub static OVERWRITE: Key<Vec<String>> = Key::texts(
        "overwrite",
        "Files or devices that may be written although Plimsoll did not create them, named exactly as among the files to drive. What they hold is lost.",
    );

    pub(super) static BACK_END: Key<BackEndChoice> = Key::choice(
        "back_end",
        "How operations are issued: io_uring, or one preadv/pwritev at a time; auto takes the faster one. With one operation in flight per thread through the page cache that is system calls; else both are tried briefly before the clock starts.",
    );

    pub static JOBS: Key<Vec<String>> = Key::texts(
        "jobs",
        "Several loads at once, each with a name and what differs from the settings beside it: \"log: access=sequential; read_percent=0%; files=/data/log\". A job may also set `rate`, `arrivals`, `think` and `start` (a delay).",
    );

    pub(super) static KEEP: Key<bool> = Key::flag(
        "keep", "false",
        "Keep the files that were created, for the next experiment to use again.",
    );
}

model::choice! {
    /// Order of the blocks.
    pub(super) enum Access {
        Random = "random",
        Sequential = "sequential",
    }
}

model::choice! {
    /// Whether reads and writes share a stream of blocks.
    pub(super) enum Directions {
        Together = "together",
        Apart = "apart",
    }
}

model::choice! {
    /// Whether threads share a stream of blocks.
    pub(super) enum Streams {
        Shared = "shared",
        PerThread = "per-thread",
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
    /// How operations are issued.
    pub(super) enum BackEndChoice {
        Auto = "auto",
        IoUring = "io_uring",
        SystemCalls = "system-calls",
    }
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
    /// 0 to 1.
    pub(super) trim_share: f64,
    pub(super) blocks: Vec<BlockShare>,
    /// Those of writes, where they differ.
    pub(super) write_blocks: Vec<BlockShare>,
    /// Threads of one lane.
    pub(super) threads: u32,
    /// Whether sequential reads and writes are two streams.
    pub(super) is_apart: bool,
    /// Lanes, each with a stream of its own.
    pub(super) lanes: u32,
    pub(super) operations: Option<u64>,
    pub(super) outstanding: u32,
    pub(super) direct: bool,
    pub(super) write_through: bool,
    pub(super) fsync_every: u64,
    pub(super) distribution: Distribution,
    pub(super) stride: Option<u64>,
    pub(super) reverse: bool,
    pub(super) align: Option<u64>,
    pub(super) compressible_percent: f64,
    pub(super) verify: bool,
    pub(super) overwrite: Vec<PathBuf>,
    pub(super) back_end: BackEndChoice,
    pub(super) keep: bool,
    /// Whether it is one of several loads at the same time.
    pub(super) is_job: bool,
    /// Whether an earlier job has the same name: what is looked at for the one holds for the other.
    pub(super) is_copy: bool,
    /// A divisor of `unit` that others who verify the same files have, or 0.
    pub(super) shared_unit: u64,
    /// Places of its operations among those of the workload.
    pub(super) kinds: Kinds,
}

impl DiskPlan {
    /// Reads the settings; every contradiction at once, with its line in the experiment file.
    pub(super) fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let files: Vec<PathBuf> = settings.get(&FILES).into_iter().map(PathBuf::from).collect();
        if files.is_empty() {
            problems.add(&[&FILES], "no file to read or write", "name one, such as \"/data/plimsoll.dat\"");
        }
        for (index, file) in files.iter().enumerate() {
            if files[..index].contains(file) {
                problems.add(
                    &[&FILES],
                    format!("`{}` is named twice", file.display()),
                    "name each file once",
                );
            }
        }
        let overwrite: Vec<PathBuf> = settings.get(&OVERWRITE).into_iter().map(PathBuf::from).collect();
        for target in overwrite.iter().filter(|target| !files.contains(target)) {
            problems.add(
                &[&OVERWRITE],
                format!("`overwrite` names `{}`, which is not among the files to drive", target.display()),
                "write it exactly as there",
            );
        }
        let blocks = read_blocks(&settings.get(&BLOCK_SIZE)).unwrap_or_else(|what| {
            problems.add(&[&BLOCK_SIZE], what, "such as \"8KiB\" or \"4KiB 70%, 64KiB 30%\"");
            Vec::new()
        });
        let distribution = read_distribution(&settings.get(&DISTRIBUTION)).unwrap_or_else(|what| {
            problems.add(&[&DISTRIBUTION], what, "write \"uniform\", \"zipf 1.2\" or \"hot 90% in 10%\"");
            Distribution::Uniform
        });
        let pattern = settings.get(&PATTERN).map(|text| Pattern::parse(&text));
        if let Some(Err(what)) = &pattern {
            problems.add(&[&PATTERN], what.clone(), profile::HELP);
        }
        if pattern.is_some() {
            let stated: [&SettingInfo; 5] = [&ACCESS, &BLOCK_SIZE, &OUTSTANDING, &THREADS, &READ_PERCENT];
            for setting in stated.into_iter().filter(|setting| settings.given(setting)) {
                problems.add(
                    &[setting, &PATTERN],
                    format!("`pattern` and `{}` contradict each other: the pattern states it", setting.name),
                    "keep one of them",
                );
            }
        }
        let write_blocks = settings.get(&WRITE_BLOCK_SIZE).map_or(Ok(Vec::new()), |text| read_blocks(&text));
        let write_blocks = write_blocks.unwrap_or_else(|what| {
            problems.add(&[&WRITE_BLOCK_SIZE], what, "such as \"8KiB\" or \"4KiB 70%, 64KiB 30%\"");
            Vec::new()
        });
        let threads = match &pattern {
            Some(Ok(pattern)) => pattern.threads,
            _ => settings.get(&THREADS),
        };
        let (lanes, threads) = match settings.get(&STREAMS) {
            Streams::Shared => (1, threads),
            Streams::PerThread => (threads, 1),
        };
        let mut plan = DiskPlan {
            files,
            size: settings.get(&SIZE),
            offset: settings.get(&OFFSET).unwrap_or(0),
            access: settings.get(&ACCESS),
            read_share: settings.get(&READ_PERCENT) / 100.0,
            trim_share: settings.get(&TRIM_PERCENT) / 100.0,
            blocks,
            write_blocks,
            threads,
            is_apart: settings.get(&DIRECTIONS) == Directions::Apart,
            lanes,
            operations: settings.get(&OPERATIONS),
            outstanding: settings.get(&OUTSTANDING),
            direct: settings.get(&CACHE) == Cache::Direct,
            write_through: settings.get(&WRITE_THROUGH),
            fsync_every: settings.get(&FSYNC_EVERY),
            distribution,
            stride: settings.get(&STRIDE),
            reverse: settings.get(&REVERSE),
            align: settings.get(&ALIGN),
            compressible_percent: settings.get(&COMPRESSIBLE),
            verify: settings.get(&VERIFY),
            overwrite,
            back_end: settings.get(&BACK_END),
            keep: settings.get(&KEEP),
            is_job: false,
            is_copy: false,
            shared_unit: 0,
            kinds: Kinds::default(),
        };
        if let Some(Ok(pattern)) = pattern {
            plan.access = pattern.access;
            plan.blocks = vec![BlockShare { bytes: pattern.block_bytes, share: 1.0 }];
            plan.outstanding = pattern.outstanding;
            plan.read_share = pattern.read_share;
            plan.write_through |= pattern.write_through;
        }
        plan.kinds = Kinds::within(&plan, "", &mut Vec::new());
        plan.find_contradictions(&mut problems);
        problems.or(plan)
    }

    fn find_contradictions(&self, problems: &mut Problems) {
        let size = |bytes: u64| quantity::bytes(bytes);
        match self.access {
            Access::Random if self.stride.is_some() => {
                problems.push(
                    Problem::new("`stride` has no meaning for random access", "remove it")
                        .about(&[&STRIDE])
                        .or_set(&ACCESS, Access::Sequential.level()),
                );
            }
            Access::Sequential if self.align.is_some() => {
                problems.add(
                    &[&ALIGN, &STRIDE],
                    "`align` has no meaning for sequential access",
                    "use `stride`",
                );
            }
            Access::Sequential if self.distribution != Distribution::Uniform => {
                problems.push(
                    Problem::new("`distribution` has no meaning for sequential access", "remove it")
                        .about(&[&DISTRIBUTION])
                        .or_set(&ACCESS, Access::Random.level()),
                );
            }
            _ => {}
        }
        if self.reverse && self.access == Access::Random {
            problems.push(
                Problem::new("`reverse` has no meaning for random access", "remove it")
                    .about(&[&REVERSE])
                    .or_set(&ACCESS, Access::Sequential.level()),
            );
        }
        if self.reverse && self.blocks.len() > 1 {
            problems.add(
                &[&REVERSE],
                "`reverse` and a mix of block sizes contradict each other",
                "use one block size",
            );
        }
        if !self.write_blocks.is_empty() && self.access == Access::Sequential {
            problems.add(
                &[&WRITE_BLOCK_SIZE, &ACCESS],
                "`write_block_size` has no meaning for sequential access, which is one stream of reads and writes",
                "remove it, or give reads and writes a job each (`jobs`)",
            );
        }
        if self.distribution == Distribution::Shuffle
            && (self.blocks.len() > 1 || !self.write_blocks.is_empty())
        {
            problems.add(
                &[&DISTRIBUTION],
                "`distribution` of \"shuffle\" and a mix of block sizes contradict each other",
                "use one block size, or \"uniform\"",
            );
        }
        if self.trim_share > 0.0 && self.verify {
            problems.add(
                &[&TRIM_PERCENT, &VERIFY],
                "`verify` and `trim_percent` contradict each other: what was discarded has no header",
                "remove one of them",
            );
        }
        if self.stride.is_some() && self.blocks.len() > 1 {
            problems.add(
                &[&STRIDE],
                "`stride` and a mix of block sizes contradict each other",
                "use one block size",
            );
        }
        if let Some(stride) = self.stride
            && stride < self.smallest_block()
        {
            problems.add(
                &[&STRIDE],
                format!("a stride of {} is shorter than the block", size(stride)),
                "the distance from block start to block start is at least the block size",
            );
        }
        if self.align == Some(0) {
            problems.add(&[&ALIGN], "blocks cannot be aligned to 0 bytes", "such as \"4KiB\"");
        }
        if self.fsync_every > 0 && !self.writes() {
            problems.add(
                &[&FSYNC_EVERY, &READ_PERCENT],
                "`fsync_every` without writes",
                "remove it, or lower `read_percent`",
            );
        }
        if let Some(bytes) = self.size
            && bytes < self.largest_block()
        {
            problems.add(
                &[&SIZE],
                format!("a size of {} is smaller than one block", size(bytes)),
                "make it many times the block size",
            );
        }
        if self.direct {
            let steps: [(&SettingInfo, Option<u64>); 3] =
                [(&STRIDE, self.stride), (&ALIGN, self.align), (&OFFSET, Some(self.offset))];
            let blocks = self.blocks.iter().map(|block| (&BLOCK_SIZE.info, Some(block.bytes)));
            let writes = self.write_blocks.iter().map(|block| (&WRITE_BLOCK_SIZE.info, Some(block.bytes)));
            for (setting, value) in steps.into_iter().chain(blocks).chain(writes) {
                if let Some(value) = value.filter(|value| !value.is_multiple_of(SECTOR)) {
                    problems.push(
                        Problem::new(
                            format!(
                                "direct I/O works in multiples of 512 bytes, and `{}` of {} is none",
                                setting.name,
                                size(value)
                            ),
                            "round it",
                        )
                        .about(&[setting])
                        .or_set(&CACHE, Cache::PageCache.level()),
                    );
                }
            }
        }
        if self.verify && !self.blocks.is_empty() && !self.unit().is_multiple_of(SECTOR) {
            problems.add(
                &[&VERIFY],
                format!(
                    "`verify` works on whole 512-byte sectors; these sizes share only {}",
                    size(self.unit())
                ),
                "make block sizes, offset, stride and align multiples of 512 bytes",
            );
        }
    }

    /// True when anything is written or discarded while measuring.
    pub(super) fn writes(&self) -> bool {
        self.read_share < 1.0 || self.trim_share > 0.0
    }

    /// Operations in flight, all lanes together.
    pub(super) fn in_flight(&self) -> u64 {
        u64::from(self.lanes) * u64::from(self.threads) * u64::from(self.outstanding)
    }

    fn all_blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter().chain(&self.write_blocks).map(|block| block.bytes)
    }

    /// Whether what is written can be recognized as Plimsoll's later: it needs words in their places, and more than a few
    /// that are no zeros.
    pub(super) fn is_recognizable(&self) -> bool {
        self.trim_share == 0.0
            && self.compressible_percent <= 90.0
            && self.unit().is_multiple_of(8)
            && self.smallest_block() >= 64
    }

    /// The largest block of the mix.
    pub(super) fn largest_block(&self) -> u64 {
        self.all_blocks().max().unwrap_or(0)
    }

    fn smallest_block(&self) -> u64 {
        self.all_blocks().min().unwrap_or(0)
    }

    /// The greatest size every operation starts at a multiple of and is made of: what `verify` puts a header on.
    pub(super) fn unit(&self) -> u64 {
        let steps = [Some(self.offset), self.stride, self.align].into_iter().flatten();
        self.all_blocks().chain(steps).fold(self.shared_unit, greatest_common_divisor)
    }
}

pub(super) fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::jobs::check_load;
    use super::*;
    use model::{Profile, Shape};

    /// Settings from words, as a command line would give them.
    pub(crate) fn settings(pairs: &[(&str, &str)]) -> Settings {
        crate::testing::settings_of(SETTINGS, pairs)
    }

    #[test]
    fn the_defaults_are_random_reads_past_the_cache() {
        let plan = DiskPlan::read(&settings(&[("files", "f")])).unwrap();
        assert_eq!((plan.threads, plan.outstanding, plan.direct, plan.writes()), (1, 1, true, false));
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

    #[test]
    fn a_stated_load_and_the_queue_depth_agree() {
        let told = |pairs: &[(&str, &str)], users| {
            let shape = Shape::Closed { users, think: 0 };
            check_load(&settings(pairs), &shape).0.into_iter().map(|problem| problem.what).collect::<Vec<_>>()
        };
        let depth = [("threads", "4"), ("outstanding", "8")];
        for (stated, expected) in [
            (Profile::Constant(2.0), "`closed` sets 2"),
            (Profile::Ramp(1.0, 32.0), "`ramp` sets others over time"),
        ] {
            let whole = "`threads` of 4 and `outstanding` of 8 are 32 operations in flight, but ";
            assert_eq!(told(&depth, stated), [format!("{whole}{expected}")]);
        }
        assert_eq!(
            told(&depth[..1], Profile::Steps(vec![1.0, 2.0])),
            ["`threads` of 4 cannot share the 2 operations in flight that `steps` sets"]
        );
        // Those that agree, and defaults.
        assert!(told(&depth, Profile::Constant(32.0)).is_empty());
        assert!(told(&depth[..1], Profile::Ramp(1.0, 4.0)).is_empty());
        assert!(told(&[], Profile::Constant(64.0)).is_empty());
        let open = Shape::Open { rate_per_s: Profile::Constant(10.0), arrivals: model::Process::Constant };
        assert!(check_load(&settings(&depth), &open).is_empty());
    }
}
