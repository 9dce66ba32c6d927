//! The settings of the disk workload, and what they mean together.

use std::path::PathBuf;

use engine::allowed::Opener;
use model::{Key, PathUse, Problems, SettingInfo, Settings};

use super::grammar::{
    BlockShare, Distribution, Duplicates, read_blocks, read_distribution, read_duplicates, read_hex,
    read_sprandom,
};
use super::profile::{self, Pattern};
use super::sprandom::Sprandom;
use super::stream::Kinds;

/// Smallest sector any disk has: direct I/O in smaller pieces cannot work.
pub(super) const SECTOR: u64 = 512;

/// Most bytes of `content` and `expect`.
const CONTENT_BYTES_MAX: usize = 4096;

/// Size of a file that does not exist yet and whose size was not given.
pub(super) const SIZE_DEFAULT: u64 = 1 << 30;

/// Most blocks whose last write `verify` remembers, at four bytes each.
pub(super) const VERIFIED_BLOCKS_MAX: u64 = 1 << 28;

model::settings! {
    /// What can be chosen.
    pub static SETTINGS;

    pub(super) static FILES: Key<Vec<String>> = Key::paths(
        "files", PathUse::Host,
        "Files or block devices to read and write. A file that does not exist is created and written in full before the clock starts.",
    );

    pub static SIZE: Key<Option<u64>> = Key::bytes(
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
        "A load in short, as CrystalDiskMark writes it: \"SEQ1M Q8T1 read\", \"RND4K Q32T1 70% read\". It sets access, block_size, outstanding, threads and read_percent.",
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
        "Stop after this many operations (of each thread, where each has its own stream); none runs for the measured time.",
    );

    pub(super) static CACHE: Key<Cache> = Key::choice(
        "cache",
        "Whether to bypass the operating system's cache (O_DIRECT) or to go through it.",
    );

    pub(super) static CACHED_PAGES: Key<CachedPages> = Key::choice(
        "cached_pages",
        "What the page cache holds of the files when the load begins: what it happens to hold, nothing (drop), nothing then and again after each pass over the files (drop-each-pass), or all of them (read).",
    );

    pub(super) static WRITE_THROUGH: Key<bool> = Key::flag(
        "write_through", "false",
        "A write is done when the data is on stable storage (O_DSYNC), not when the device has taken it.",
    );

    pub(super) static WRITE_THROUGH_METADATA: Key<bool> = Key::flag(
        "write_through_metadata", "false",
        "As `write_through`, and the metadata of the file, such as its modification time, is on stable storage too (O_SYNC). A file system may need more flushes for it.",
    );

    pub(super) static FSYNC_EVERY: Key<u64> = Key::count(
        "fsync_every", 0..=1_000_000_000, "0",
        "After this many writes of a thread, flush the file just written (fdatasync) as an operation of its own; 0 never.",
    );

    pub(super) static DISTRIBUTION: Key<String> = Key::text(
        "distribution", "uniform",
        "How random operations spread over the blocks: \"uniform\", \"shuffle\" (each block once before any is visited again), \"zipf 1.2\" (exponent), \"pareto 0.2\" and \"normal 10%\" (as fio draws them), \"sequence 2,0,1\" (blocks by their numbers), \"hot 90% in 10%\" (share of operations in a share of the blocks) or \"zones 50% in 5%, 30% in 15%, 20% in 80%\" (also of bytes: \"60% in 20GiB\").",
    );

    pub(super) static STRIDE: Key<Option<u64>> = Key::bytes(
        "stride", "",
        "Sequential access: distance from one block's start to the next; none is the block size.",
    );

    pub(super) static REVERSE: Key<bool> = Key::flag(
        "reverse", "false",
        "Sequential access from the end of each file to its start.",
    );

    pub(super) static PASSES: Key<Passes> = Key::choice(
        "passes",
        "Sequential access with a stride: whether each further pass over a file begins one block further, or visits the same blocks. With `reverse`, same begins with the first block and then goes back from the second to last, as fio does.",
    );

    pub(super) static ZONE_SIZE: Key<Option<u64>> = Key::bytes(
        "zone_size", "",
        "Zones of this size: sequential access leaves out `zone_skip` behind each; with `write_pointers` writes fill one after another.",
    );

    pub(super) static ZONE_SKIP: Key<Option<u64>> = Key::bytes(
        "zone_skip", "",
        "Sequential access: bytes left out behind each zone of `zone_size`.",
    );

    pub(super) static WRITE_POINTERS: Key<bool> = Key::flag(
        "write_pointers", "false",
        "Write as on a zoned device: an operation goes to the write pointer of its zone (`zone_size`), and a full zone is reset. For files and devices that have no zones.",
    );

    pub(super) static OPEN_ZONES: Key<Option<u32>> = Key::count(
        "open_zones", 1..=1_000_000, "",
        "With `write_pointers`: most zones that are partly written; none is any number.",
    );

    pub(super) static EMPTY_ZONES_ABOVE: Key<f64> = Key::percent(
        "empty_zones_above", "100%",
        "With `write_pointers`: from this share of written bytes on, every `empty_zone_every`th write first resets its zone.",
    );

    pub(super) static EMPTY_ZONE_EVERY: Key<u64> = Key::count(
        "empty_zone_every", 0..=1_000_000_000, "0",
        "With `write_pointers` and above `empty_zones_above`: one in this many writes first resets its zone; 0 never.",
    );

    pub(super) static TRIM_BEFORE: Key<Option<u64>> = Key::bytes(
        "trim_before", "",
        "Discard each piece of this size before it is written: the block size, or sequentially a multiple of it.",
    );

    pub(super) static ALIGN: Key<Option<u64>> = Key::bytes(
        "align", "",
        "Random access: blocks start at multiples of this; none is the block size.",
    );

    pub(super) static COMPRESSIBLE: Key<f64> = Key::percent(
        "compressible", "0%",
        "Share of each written block that compresses away (zeros); the rest neither compresses nor repeats.",
    );

    pub(super) static COMPRESSIBLE_LIKE: Key<Option<String>> = Key::path(
        "compressible_like", PathUse::Host, "",
        "A file whose data is sampled before the clock starts: written blocks compress as much as it does.",
    );

    pub(super) static PRECONDITION: Key<bool> = Key::flag(
        "precondition", "false",
        "Write each file or device twice in full, 128 KiB after 128 KiB, before the first trial of a configuration: the workload-independent preconditioning of SNIA's test specification for solid state storage.",
    );

    pub(super) static VERIFY: Key<bool> = Key::flag(
        "verify", "false",
        "Write a header with place, generation and checksum into each block, and check every block read. Costs CPU time.",
    );

    pub(super) static SPRANDOM: Key<Option<String>> = Key::text(
        "sprandom", "",
        "Random writes that bring a flash device into its steady state and then end, as fio's sprandom: \"15% in 100 regions\", the share of spare space the device has, and how finely.",
    );

    pub(super) static WRITES: Key<Writes> = Key::choice(
        "writes",
        "What a write does: it writes data, only allocates the space of its block in the file (fallocate), or makes the file end at its offset (ftruncate).",
    );

    pub(super) static ATOMIC: Key<bool> = Key::flag(
        "atomic", "false",
        "Each write is stored whole or not at all (RWF_ATOMIC), where device and file system support it.",
    );

    pub(super) static CONTENT: Key<Option<String>> = Key::text(
        "content", "",
        "Bytes that each written block repeats, in hexadecimal: \"0x01\"; none is data that neither compresses nor repeats.",
    );

    pub(super) static EXPECT: Key<Option<String>> = Key::text(
        "expect", "",
        "Bytes that each block read must repeat, in hexadecimal: \"0x01\"; a block that holds others is a failure.",
    );

    pub(super) static DUPLICATES: Key<Option<String>> = Key::text(
        "duplicates", "",
        "Share of the written blocks that repeat another, for storage that removes duplicates: \"50%\" (the block before), or \"50% of 1000 blocks\", \"50% of 1000 shared blocks\" (the same ones for all jobs).",
    );

    pub static OVERWRITE: Key<Vec<String>> = Key::paths(
        "overwrite", PathUse::Host,
        "Files or devices that may be written although Plimsoll did not create them, named exactly as among the files to drive. What they hold is lost.",
    );

    pub static OVERWRITE_SIGNATURE: Key<bool> = Key::flag(
        "overwrite_signature", "false",
        "Overwrite also those of `overwrite` that hold something recognized: a file system, a partition table, encrypted data, swap space, or a member of a volume group, pool or RAID.",
    );

    pub(super) static BACK_END: Key<BackEndChoice> = Key::choice(
        "back_end",
        "How operations are issued: io_uring, or one preadv/pwritev at a time; auto takes the faster one; none issues nothing and shows what the load generator costs. With one operation in flight per thread through the page cache that is system calls; else both are tried briefly before the clock starts.",
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
    /// What a write does.
    pub(super) enum Writes {
        Data = "data",
        Allocate = "allocate",
        Truncate = "truncate",
    }
}

model::choice! {
    /// Where a further pass over a file begins.
    pub(super) enum Passes {
        Shifted = "shifted",
        Same = "same",
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
    /// What the page cache holds of the files.
    pub(super) enum CachedPages {
        Keep = "keep",
        Drop = "drop",
        DropEachPass = "drop-each-pass",
        Read = "read",
    }
}

model::choice! {
    /// How operations are issued.
    pub(super) enum BackEndChoice {
        Auto = "auto",
        IoUring = "io_uring",
        SystemCalls = "system-calls",
        Nothing = "none",
    }
}

/// The settings, read and free of contradictions.
#[derive(Clone, Debug)]
pub(super) struct DiskPlan {
    pub(super) files: Vec<PathBuf>,
    /// Opens them, and `compressible_like`.
    pub(super) opener: Opener,
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
    pub(super) cached_pages: CachedPages,
    pub(super) write_through: bool,
    /// Whether a write through also writes the metadata of the file.
    pub(super) write_through_metadata: bool,
    pub(super) fsync_every: u64,
    pub(super) distribution: Distribution,
    pub(super) stride: Option<u64>,
    pub(super) reverse: bool,
    pub(super) passes: Passes,
    pub(super) zone_size: Option<u64>,
    pub(super) zone_skip: u64,
    pub(super) write_pointers: bool,
    pub(super) open_zones: Option<u32>,
    /// 0 to 1.
    pub(super) empty_zones_above: f64,
    pub(super) empty_zone_every: u64,
    pub(super) trim_before: Option<u64>,
    pub(super) align: Option<u64>,
    pub(super) compressible_percent: f64,
    /// A file whose compressibility replaces `compressible_percent`.
    pub(super) compressible_like: Option<PathBuf>,
    /// Whether files and devices are written in full before the first trial.
    pub(super) precondition: bool,
    pub(super) sprandom: Option<Sprandom>,
    pub(super) writes: Writes,
    pub(super) atomic: bool,
    /// What each written block repeats; empty for other data.
    pub(super) content: Vec<u8>,
    /// What each block read must repeat; empty for anything.
    pub(super) expect: Vec<u8>,
    pub(super) duplicates: Option<Duplicates>,
    pub(super) verify: bool,
    pub(super) overwrite: Vec<PathBuf>,
    /// Whether also those of `overwrite` are written that hold something recognized.
    pub(super) overwrite_signature: bool,
    pub(super) back_end: BackEndChoice,
    pub(super) keep: bool,
    /// Whether it is one of several loads at the same time.
    pub(super) is_job: bool,
    /// Whether an earlier job has the same name or the same settings: what is looked at for the one holds for the other.
    pub(super) is_copy: bool,
    /// A divisor of `unit` that others who verify the same files have, or 0.
    pub(super) shared_unit: u64,
    /// Places of its operations among those of the workload.
    pub(super) kinds: Kinds,
}

/// The bytes of each file that are used, where they are not those of `size`, with the size of a block: blocks are whole. None
/// where they are the same, and for jobs, patterns and mixes of blocks.
pub fn adjusted_size(settings: &Settings) -> Option<(u64, u64)> {
    let others: [&SettingInfo; 4] = [&JOBS, &PATTERN, &WRITE_BLOCK_SIZE, &STRIDE];
    let size = settings.get(&SIZE).filter(|_| !others.iter().any(|other| settings.has(other)))?;
    let blocks = read_blocks(&settings.get(&BLOCK_SIZE)).ok()?;
    let [BlockShare { bytes: block, .. }] = blocks.as_slice() else { return None };
    let step =
        settings.get(&ALIGN).filter(|_| settings.get(&ACCESS) == Access::Random).unwrap_or(*block).max(1);
    let used = size.checked_sub(*block)? / step * step + block;
    (used != size).then_some((used, *block))
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
        let like = settings.get(&COMPRESSIBLE_LIKE);
        let named = files.iter().map(|file| (&FILES.info, file.to_string_lossy()));
        let named = named.chain(like.iter().map(|file| (&COMPRESSIBLE_LIKE.info, file.as_str().into())));
        for (setting, path) in named {
            if let Some((what, help)) = model::windows::windows_path(&path) {
                problems.add(&[setting], what, help);
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
        let duplicates = settings.get(&DUPLICATES).and_then(|text| {
            let read = read_duplicates(&text);
            if read.is_none() {
                let what = format!("`{text}` is no share of duplicates");
                problems.add(&[&DUPLICATES], what, "such as \"50%\" or \"50% of 1000 blocks\"");
            }
            read
        });
        let sprandom = settings.get(&SPRANDOM).and_then(|text| {
            let read = read_sprandom(&text);
            if read.is_none() {
                problems.add(
                    &[&SPRANDOM],
                    format!("`{text}` is not a description of such writes"),
                    "such as \"15% in 100 regions\"",
                );
            }
            read
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
            opener: Opener::default(),
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
            cached_pages: settings.get(&CACHED_PAGES),
            write_through: settings.get(&WRITE_THROUGH) || settings.get(&WRITE_THROUGH_METADATA),
            write_through_metadata: settings.get(&WRITE_THROUGH_METADATA),
            fsync_every: settings.get(&FSYNC_EVERY),
            distribution,
            stride: settings.get(&STRIDE),
            reverse: settings.get(&REVERSE),
            passes: settings.get(&PASSES),
            zone_size: settings.get(&ZONE_SIZE),
            zone_skip: settings.get(&ZONE_SKIP).unwrap_or(0),
            write_pointers: settings.get(&WRITE_POINTERS),
            open_zones: settings.get(&OPEN_ZONES),
            empty_zones_above: settings.get(&EMPTY_ZONES_ABOVE) / 100.0,
            empty_zone_every: settings.get(&EMPTY_ZONE_EVERY),
            trim_before: settings.get(&TRIM_BEFORE),
            align: settings.get(&ALIGN),
            compressible_percent: settings.get(&COMPRESSIBLE),
            compressible_like: like.map(PathBuf::from),
            precondition: settings.get(&PRECONDITION),
            sprandom,
            writes: settings.get(&WRITES),
            atomic: settings.get(&ATOMIC),
            content: bytes_of(settings, &CONTENT, &mut problems),
            expect: bytes_of(settings, &EXPECT, &mut problems),
            duplicates,
            verify: settings.get(&VERIFY),
            overwrite,
            overwrite_signature: settings.get(&OVERWRITE_SIGNATURE),
            back_end: settings.get(&BACK_END),
            keep: settings.get(&KEEP),
            is_job: false,
            is_copy: false,
            shared_unit: 0,
            kinds: Kinds::default(),
        };
        if let Some(Ok(pattern)) = pattern {
            plan.access = pattern.access;
            plan.blocks = vec![BlockShare { bytes: pattern.block_bytes, share: 1.0, priority: 0 }];
            plan.outstanding = pattern.outstanding;
            plan.read_share = pattern.read_share;
            plan.write_through |= pattern.write_through;
        }
        if plan.compressible_like.is_some() && settings.given(&COMPRESSIBLE) {
            problems.add(
                &[&COMPRESSIBLE_LIKE, &COMPRESSIBLE],
                "`compressible` and `compressible_like` both set how much of the data compresses",
                "keep one of them",
            );
        }
        plan.kinds = Kinds::within(&plan, "", &mut Vec::new());
        plan.find_contradictions(&mut problems);
        problems.or(plan)
    }

    /// Whether it ends without being stopped.
    pub(super) fn has_end(&self) -> bool {
        self.operations.is_some() || self.sprandom.is_some()
    }

    /// Whether where an operation goes depends on those before it.
    pub(super) fn has_memory(&self) -> bool {
        self.write_pointers || self.sprandom.is_some()
    }

    /// Bytes of memory that an operation needs.
    pub(super) fn buffer_bytes(&self) -> u64 {
        let moves = self.trim_share < 1.0;
        if moves { self.largest_block() } else { 0 }
    }

    /// Whether blocks are discarded.
    pub(super) fn discards(&self) -> bool {
        self.trim_share > 0.0 || self.trim_before.is_some()
    }

    /// True when anything is written or discarded while measuring.
    pub(super) fn writes(&self) -> bool {
        self.read_share < 1.0 || self.trim_share > 0.0
    }

    /// Operations in flight, all lanes together.
    pub(super) fn in_flight(&self) -> u64 {
        u64::from(self.lanes) * u64::from(self.threads) * u64::from(self.outstanding)
    }

    /// Whether blocks have different sizes.
    pub(super) fn is_mix(&self) -> bool {
        let mut sizes = self.all_blocks();
        let first = sizes.next();
        sizes.any(|size| Some(size) != first)
    }

    pub(super) fn all_blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter().chain(&self.write_blocks).map(|block| block.bytes)
    }

    /// Whether what is written can be recognized as Plimsoll's later: it needs words in their places, and more than a few
    /// that are no zeros.
    pub(super) fn is_recognizable(&self) -> bool {
        !self.discards()
            && self.content.is_empty()
            && self.writes == Writes::Data
            && self.compressible_percent <= 90.0
            && self.unit().is_multiple_of(8)
            && self.smallest_block() >= 64
    }

    /// Bytes of an operation on average.
    pub(super) fn mean_block(&self) -> u64 {
        let mean = |blocks: &[BlockShare]| blocks.iter().map(|of| of.bytes as f64 * of.share).sum::<f64>();
        let reads = mean(&self.blocks);
        let writes = if self.write_blocks.is_empty() { reads } else { mean(&self.write_blocks) };
        ((reads * self.read_share + writes * (1.0 - self.read_share)) as u64).max(1)
    }

    /// The largest block of the mix.
    pub(super) fn largest_block(&self) -> u64 {
        self.all_blocks().max().unwrap_or(0)
    }

    pub(super) fn smallest_block(&self) -> u64 {
        self.all_blocks().min().unwrap_or(0)
    }

    /// The greatest size every operation starts at a multiple of and is made of: what `verify` puts a header on.
    pub(super) fn unit(&self) -> u64 {
        let steps = [Some(self.offset), self.stride, self.align].into_iter().flatten();
        self.all_blocks().chain(steps).fold(self.shared_unit, greatest_common_divisor)
    }
}

/// Bytes of a text as `0x01ff`; none where the setting is not given.
fn bytes_of(settings: &Settings, setting: &Key<Option<String>>, problems: &mut Problems) -> Vec<u8> {
    let Some(text) = settings.get(setting) else { return Vec::new() };
    let read = read_hex(&text).filter(|bytes| !bytes.is_empty() && bytes.len() <= CONTENT_BYTES_MAX);
    read.unwrap_or_else(|| {
        problems.add(
            &[setting],
            format!("`{text}` are no bytes in hexadecimal"),
            "such as \"0x01\" or \"0xdeadbeef\"",
        );
        Vec::new()
    })
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
    fn contradictions_are_all_reported() {
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
        let reported = |pairs: &[(&str, &str)], users| {
            let shape = Shape::Closed { users, think: 0 };
            check_load(&settings(pairs), &shape).0.into_iter().map(|problem| problem.what).collect::<Vec<_>>()
        };
        let depth = [("threads", "4"), ("outstanding", "8")];
        for (stated, expected) in [
            (Profile::Constant(2.0), "`closed` sets 2"),
            (Profile::Ramp(1.0, 32.0), "`ramp` sets others over time"),
        ] {
            let whole = "`threads` of 4 and `outstanding` of 8 are 32 operations in flight, but ";
            assert_eq!(reported(&depth, stated), [format!("{whole}{expected}")]);
        }
        assert_eq!(
            reported(&depth[..1], Profile::Steps(vec![1.0, 2.0])),
            ["`threads` of 4 cannot share the 2 operations in flight that `steps` sets"]
        );
        // Those that agree, and defaults.
        assert!(reported(&depth, Profile::Constant(32.0)).is_empty());
        assert!(reported(&depth[..1], Profile::Ramp(1.0, 4.0)).is_empty());
        assert!(reported(&[], Profile::Constant(64.0)).is_empty());
        let open = Shape::Open { rate_per_s: Profile::Constant(10.0), arrivals: model::Process::Constant };
        assert!(check_load(&settings(&depth), &open).is_empty());
    }
}
