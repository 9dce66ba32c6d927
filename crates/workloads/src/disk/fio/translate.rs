//! The options of one job become settings of the disk workload.

use model::{Choice, Level, Nanos};

use super::super::missing;
use super::super::settings::{self, Access, BackEndChoice, Cache, CachedPages, Directions, Passes, Streams};
use super::engines::{Engine, engine, engine_names};
use super::sections::{At, Job, Options, Reader};
use super::value::{self, Size};

/// Most copies of a job.
pub(super) const COPIES_MAX: u64 = 256;

/// Smallest sector of a device.
const SECTOR: u64 = 512;

/// A job as settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) at: At,
    /// Those that differ from the defaults.
    pub(super) settings: Vec<(String, Level)>,
    /// What the copies do not share: their files, and where in them they begin. At least one.
    pub(super) copies: Vec<Vec<(String, Level)>>,
    /// Operations in flight of a copy.
    pub(super) in_flight: u64,
    /// Operations per second of all copies.
    pub(super) rate: Option<f64>,
    pub(super) is_poisson: bool,
    pub(super) think: Nanos,
    /// Its part of all operations, and among which jobs.
    pub(super) weight: Option<(u64, u64)>,
    pub(super) latency: Option<Latency>,
    pub(super) start: Nanos,
    pub(super) runtime: Option<(Nanos, At)>,
    pub(super) warm_up: Option<(Nanos, At)>,
    pub(super) is_time_based: bool,
    /// What one pass reads or writes of each file of each copy, in bytes; empty where that is not known.
    pub(super) passes: Vec<Vec<u64>>,
    /// It ends when its operations are done.
    pub(super) has_end: bool,
    pub(super) keeps: bool,
}

/// What `latency_target` searches for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) target: Nanos,
    /// How long each queue depth is tried.
    pub(super) window: Nanos,
    /// Which response time is compared with it, as goals name it.
    pub(super) part: &'static str,
    pub(super) at: At,
}

impl Draft {
    pub(super) fn level(&self, name: &str) -> Option<&Level> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, level)| level)
    }

    pub(super) fn set(&mut self, name: &str, level: Level) {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.into(), level));
    }
}

/// How the blocks of a job follow one another, as later options need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) is_random: bool,
    /// Share of reads, percent.
    pub(super) reads: f64,
    pub(super) trims: bool,
    /// Each block is discarded and then written.
    trims_before: bool,
    /// Bytes from the end of a block to the start of the next.
    gap: i64,
}

impl Order {
    pub(super) fn reads_only(self) -> bool {
        self.reads >= 100.0 && !self.trims
    }

    pub(super) fn writes_only(self) -> bool {
        self.reads <= 0.0 && !self.trims
    }

    /// Which of three parts holds, for reads, writes and trims; two where both reads and writes are done.
    pub(super) fn directions(self) -> (usize, Option<usize>) {
        match self {
            order if order.trims => (2, None),
            order if order.reads_only() => (0, None),
            order if order.writes_only() => (1, None),
            _ => (0, Some(1)),
        }
    }
}

impl Reader<'_> {
    /// The value of an option, read by `read`; a problem when it cannot be.
    pub(super) fn value<T>(
        &mut self,
        options: &Options,
        name: &str,
        read: impl Fn(&str) -> Option<T>,
        expected: &str,
    ) -> Option<T> {
        let written = options.get(name)?;
        let value = read(&written.value);
        if value.is_none() {
            self.problem(written.at, format!("`{}` is no value of {name}", written.value), expected);
        }
        value
    }

    pub(super) fn flag(&mut self, options: &Options, name: &str) -> bool {
        self.value(options, name, value::flag, "write 0 or 1").unwrap_or(false)
    }

    pub(super) fn count(&mut self, options: &Options, name: &str, max: u64) -> Option<u64> {
        let read = |text: &str| value::number(text).filter(|count| (1..=max).contains(count));
        self.value(options, name, read, &format!("write a whole number from 1 to {max}"))
    }

    /// Bytes, or a percentage of the file of this name.
    pub(super) fn size(&mut self, options: &Options, name: &str, file: &str) -> Option<u64> {
        let written = options.get(name)?.clone();
        let expected = "write bytes, such as 64k or 1g, or a percentage of the file";
        match self.value(options, name, value::size, expected)? {
            Size::Bytes(bytes) => Some(bytes),
            Size::Zones(zones) => {
                let zone = self.zone_bytes(options);
                let bytes = zones.checked_mul(zone);
                if bytes.is_none() {
                    self.problem(written.at, format!("`{name}={}` is too large", written.value), expected);
                }
                bytes
            }
            Size::Percent(percent) => match (self.surroundings.size_of)(file) {
                Some(whole) => Some((u128::from(whole) * u128::from(percent) / 100) as u64),
                None => {
                    self.problem(
                        written.at,
                        format!("`{name}={}`: `{file}` does not exist, or may not be read", written.value),
                        "write bytes, or name a file or device that exists",
                    );
                    None
                }
            },
        }
    }

    /// Says that an option has no effect because of another.
    pub(super) fn has_no_effect(&mut self, options: &Options, name: &str, why: &str) {
        if options.contains_key(name) {
            self.note(format!("{name}: has no effect {why}"));
        }
    }

    pub(super) fn draft(&mut self, job: &Job) -> Draft {
        let options = &job.options;
        let mut draft = Draft { name: job.name.clone(), at: job.at, ..Draft::default() };
        let engine = self.engine(options);
        if let Engine::Other(_) = engine {
            // Nothing else of the job can be right.
            draft.copies = vec![Vec::new()];
            return draft;
        }
        let order = self.access(options, &mut draft);
        let mut block = self.blocks(options, order, &mut draft);
        let copies = self.count(options, "numjobs", COPIES_MAX).unwrap_or(1);
        let mut bytes = self.files(job, (copies, block), engine, &mut draft);
        if options.contains_key("pi_act")
            && engine.is_past_page_cache()
            && !block.is_multiple_of(SECTOR)
            && block > SECTOR
        {
            // Sizes count data and metadata of each block, and offsets too.
            let (whole, data) = (block, block / SECTOR * SECTOR);
            self.note(format!(
                "bs: {data} of {whole} bytes are data, which are read and written; the others are metadata of the blocks"
            ));
            draft.set(settings::BLOCK_SIZE.name, Level::Text(model::quantity::bytes(data)));
            for name in [settings::SIZE.name, settings::OFFSET.name] {
                if let Some(Level::Bytes(bytes)) = draft.level(name) {
                    let bytes = bytes / whole * data;
                    draft.set(name, Level::Bytes(bytes));
                }
            }
            bytes = bytes.map(|bytes| bytes / whole * data);
            draft.passes.iter_mut().flatten().for_each(|bytes| *bytes = *bytes / whole * data);
            block = data;
        }
        let mut outstanding = self.count(options, "iodepth", 1024).unwrap_or(1);
        let is_libaio = options.get("ioengine").is_some_and(|written| written.value == "libaio");
        if is_libaio && outstanding > 1 && !self.is_direct(options) {
            self.note("iodepth: has no effect with libaio through the page cache, where the kernel carries out one operation at a time; 1 is used");
            outstanding = 1;
        }
        if !engine.is_asynchronous() && outstanding > 1 {
            self.note("iodepth: has no effect with an engine that issues one operation at a time, as in fio; 1 is used");
            outstanding = 1;
        }
        draft.set(settings::OUTSTANDING.name, Level::Count(outstanding));
        draft.in_flight = outstanding;
        // Copies that share all their files are threads, each with a stream of its own.
        if copies > 1 && draft.copies.len() == 1 {
            draft.set(settings::THREADS.name, Level::Count(copies));
            draft.set(settings::STREAMS.name, Streams::PerThread.level());
            draft.in_flight *= copies;
        }
        self.cache(options, engine, &mut draft);
        self.note_files_in_full(options, order, &draft);
        self.spread(options, order, &mut draft);
        self.priorities(options, order, &mut draft);
        self.zones(options, order, &mut draft);
        self.content(options, order, &mut draft);
        self.duplicates(options, (bytes, block), &mut draft);
        self.flags_of_commands(options, engine, &mut draft);
        if let Engine::Space(writes) = engine {
            draft.set(settings::WRITES.name, writes.level());
            if let Some(written) = options.get("ioengine").filter(|_| order.reads > 0.0) {
                let what = format!("ioengine={} with reads is not supported", written.value);
                self.problem(written.at, what, "write rw=write, rw=randwrite, rw=trim or rw=randtrim");
            }
        }
        if engine == Engine::Nothing {
            draft.set(settings::BACK_END.name, BackEndChoice::Nothing.level());
        }
        self.weight(options, &mut draft);
        draft.keeps = !self.flag(options, "unlink");
        self.amount(options, (bytes, block), &mut draft);
        self.sprandom(options, order, &mut draft);
        self.arrivals(options, (order, block, copies, outstanding), &mut draft);
        draft
    }

    /// `rw`, its mix and its gap.
    fn access(&mut self, options: &Options, draft: &mut Draft) -> Order {
        let written = options.get("rw");
        let text = written.map_or("read", |written| written.value.as_str());
        let at = written.map_or(At::default(), |written| written.at);
        let (word, modifier) = text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest)));
        let (is_random, reads, trims) = match word {
            "read" => (false, 100.0, false),
            "write" => (false, 0.0, false),
            "rw" | "readwrite" => (false, 50.0, false),
            "trim" => (false, 0.0, true),
            "randread" => (true, 100.0, false),
            "randwrite" => (true, 0.0, false),
            "randrw" => (true, 50.0, false),
            "randtrim" => (true, 0.0, true),
            "trimwrite" => (false, 0.0, false),
            "randtrimwrite" => (true, 0.0, false),
            _ => {
                let help = "one of read, write, rw, trim, trimwrite, randread, randwrite, randrw, randtrim, randtrimwrite";
                self.problem(at, format!("rw={text} is not supported"), help);
                (false, 100.0, false)
            }
        };
        let percent =
            |text: &str| text.trim_end_matches('%').parse().ok().filter(|p| (0.0..=100.0).contains(p));
        let read = self.value(options, "rwmixread", percent, "write a percentage");
        let write = self.value(options, "rwmixwrite", percent, "write a percentage");
        let is_mixed = reads == 50.0;
        if !is_mixed {
            self.has_no_effect(options, "rwmixread", "where nothing is mixed");
            self.has_no_effect(options, "rwmixwrite", "where nothing is mixed");
        } else if read.is_some_and(|read| write.is_some_and(|write: f64| read + write != 100.0)) {
            self.has_no_effect(options, "rwmixwrite", "beside rwmixread");
        }
        let reads = if is_mixed { read.or(write.map(|write| 100.0 - write)).unwrap_or(reads) } else { reads };
        draft.set(settings::READ_PERCENT.name, Level::Percent(reads));
        draft.set(settings::ACCESS.name, if is_random { Access::Random } else { Access::Sequential }.level());
        if trims {
            draft.set(settings::TRIM_PERCENT.name, Level::Percent(100.0));
        }
        if !is_random && reads > 0.0 && reads < 100.0 {
            draft.set(settings::DIRECTIONS.name, Directions::Apart.level());
            self.note("rw: reads and writes alternate evenly in their proportion, which fio draws at random");
        }
        if self.flag(options, "verify_only") && reads < 100.0 {
            self.problem(at, "`verify_only` is not supported where something is written", "write rw=read");
        }
        let trims_before = word.ends_with("trimwrite");
        let mut order = Order { is_random, reads, trims, trims_before, gap: 0 };
        match modifier {
            None => {}
            Some(text) if !is_random => {
                let (sign, distance) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
                match value::bytes(distance).and_then(|bytes| i64::try_from(bytes).ok()) {
                    Some(distance) => order.gap = sign * distance,
                    None => self.problem(at, format!("`{text}` is no distance"), "such as rw=read:64k"),
                }
            }
            Some(_) => {
                self.problem(
                    at,
                    "several operations per random offset are not supported",
                    "remove the part after `:`",
                );
            }
        }
        order
    }

    /// Sizes, alignment and stride; the mean size.
    fn blocks(&mut self, options: &Options, order: Order, draft: &mut Draft) -> u64 {
        const SIZES: &str = "one size, or one each for reads, writes and trims: 4k or 4k,8k";
        const RANGES: &str = "a range of at most 64 multiples: 4k-64k; for others write bssplit";
        const MIX: &str = "such as 4k/70:64k/30, or one each for reads and writes";
        type Read = fn(&str) -> Option<(String, u64)>;
        let one: Read = |text| match text {
            "" => Some(("4KiB".into(), 4096)),
            text => value::block(text).map(|size| (model::quantity::bytes(size), size)),
        };
        let kinds: [(&str, Read, &str); 3] =
            [("bssplit", value::block_mix, MIX), ("bsrange", value::block_range, RANGES), ("bs", one, SIZES)];
        let given = kinds.into_iter().find(|(name, ..)| options.contains_key(name));
        if options.contains_key("bs") {
            for other in ["bssplit", "bsrange"] {
                if options.contains_key(other) {
                    self.has_no_effect(options, "bs", &format!("beside {other}"));
                }
            }
        }
        let (first, second) = order.directions();
        let mut sizes = ("4KiB".to_string(), 4096);
        let mut of_writes = None;
        let mut of_trims = None;
        if let Some((name, read, expected)) = given {
            let all = self.value(
                options,
                name,
                |text| {
                    let parts = value::directions(text)?;
                    let second = second.map_or(Some(None), |at| read(parts[at]).map(Some))?;
                    Some((read(parts[first])?, second, read(parts[2])?))
                },
                expected,
            );
            if let Some((reads, writes, trims)) = all {
                of_trims = Some(trims);
                of_writes = writes.filter(|writes| *writes != reads);
                sizes = reads;
            }
        }
        draft.set(settings::BLOCK_SIZE.name, Level::Text(sizes.0.clone()));
        let is_mix = sizes.0.contains(',') || of_writes.is_some();
        let smallest = of_writes.as_ref().map_or(sizes.1, |writes| writes.1.min(sizes.1));
        let of_reads = if second.is_some() { order.reads / 100.0 } else { 1.0 };
        let writes = of_writes.as_ref().map_or(sizes.0.as_str(), |writes| writes.0.as_str());
        let mean = of_reads * value::mean_size(&sizes.0) + (1.0 - of_reads) * value::mean_size(writes);
        if let Some((writes, _)) = of_writes {
            match order.is_random {
                true => draft.set(settings::WRITE_BLOCK_SIZE.name, Level::Text(writes)),
                false => {
                    let at = given.and_then(|(name, ..)| options.get(name)).map_or(At::default(), |w| w.at);
                    self.problem(
                        at,
                        "sequential reads and writes of different sizes in one job are not supported",
                        "write two jobs, one with rw=read and one with rw=write",
                    );
                }
            }
        }
        if order.trims_before {
            let at = given.and_then(|(name, ..)| options.get(name)).map_or(At::default(), |w| w.at);
            self.trims_before(order, (&sizes, of_trims), at, draft);
        }
        if !order.is_random {
            self.has_no_effect(options, "blockalign", "where access is sequential");
            self.stride(options, order, (sizes.1, is_mix), draft);
        } else if let Some(align) = self.value(
            options,
            "blockalign",
            |text| value::directions(text).and_then(|parts| value::block(parts[first])),
            SIZES,
        ) {
            draft.set(settings::ALIGN.name, Level::Bytes(align));
        } else if is_mix {
            draft.set(settings::ALIGN.name, Level::Bytes(smallest));
        }
        (mean as u64).max(1)
    }

    /// `trimwrite`: a piece is discarded before its blocks are written.
    fn trims_before(
        &mut self,
        order: Order,
        (writes, trims): (&(String, u64), Option<(String, u64)>),
        at: At,
        draft: &mut Draft,
    ) {
        let trim = trims.as_ref().map_or(writes.1, |trims| trims.1);
        let is_mix = writes.0.contains(',') || trims.is_some_and(|trims| trims.0.contains(','));
        let fits = if order.is_random { trim == writes.1 } else { trim.is_multiple_of(writes.1.max(1)) };
        if is_mix || !fits {
            self.problem(
                at,
                "trimwrite with these sizes is not supported",
                "write one size, or for rw=trimwrite discards that are a multiple of the writes: bs=4k,4k,16k",
            );
        }
        draft.set(settings::TRIM_BEFORE.name, Level::Bytes(trim));
    }

    /// `sprandom`.
    fn sprandom(&mut self, options: &Options, order: Order, draft: &mut Draft) {
        let share = |text: &str| text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
        let spare = self.value(options, "spr_op", share, "write a share between 0 and 1").unwrap_or(0.15);
        let regions = self.count(options, "spr_num_regions", 100_000).unwrap_or(100);
        if !self.flag(options, "sprandom") {
            for name in ["spr_op", "spr_num_regions"] {
                self.has_no_effect(options, name, "without sprandom");
            }
            return;
        }
        let at = options.get("sprandom").map_or(At::default(), |written| written.at);
        if !order.is_random || !order.writes_only() || order.trims_before {
            self.problem(at, "sprandom is for random writes", "write rw=randwrite");
        }
        if draft.copies.len() > 1 || draft.level(settings::THREADS.name).is_some() {
            self.problem(at, "sprandom with several jobs on one device is not supported", "write numjobs=1");
        }
        // The whole device is written, each block at least once.
        draft
            .settings
            .retain(|(name, _)| name != settings::DISTRIBUTION.name && name != settings::ALIGN.name);
        let spare = (spare * 1e6).round() / 1e4;
        draft.set(settings::SPRANDOM.name, Level::Text(format!("{spare}% in {regions} regions")));
        draft.has_end = true;
    }

    /// `flow`: a weight among the jobs at the same time.
    fn weight(&mut self, options: &Options, draft: &mut Draft) {
        let group = self.value(options, "flow_id", value::number, "write a number").unwrap_or(0);
        if let Some(weight) = self.count(options, "flow", 1_000_000) {
            draft.weight = Some((weight, group));
        } else {
            self.has_no_effect(options, "flow_id", "without flow");
        }
    }

    /// A gap between sequential blocks; one that goes back further than a block reads from the end.
    fn stride(&mut self, options: &Options, order: Order, (block, is_mix): (u64, bool), draft: &mut Draft) {
        if order.gap == 0 {
            return;
        }
        let at = options.get("rw").map_or(At::default(), |written| written.at);
        let step = i128::from(block) + i128::from(order.gap);
        if is_mix || step.unsigned_abs() < u128::from(block) {
            let what = if is_mix { "a mix of block sizes" } else { "blocks that overlap" };
            self.problem(
                at,
                format!("`rw` with a distance and {what} is not supported"),
                "remove the part after `:`",
            );
            return;
        }
        let Ok(stride) = u64::try_from(step.unsigned_abs()) else {
            self.problem(at, "`rw` with such a distance is not supported", "write a smaller one");
            return;
        };
        if step < 0 {
            draft.set(settings::REVERSE.name, Level::Flag(true));
        }
        draft.set(settings::PASSES.name, Passes::Same.level());
        if stride > block {
            draft.set(settings::STRIDE.name, Level::Bytes(stride));
        }
    }

    /// How the engine issues operations. Another one is used here, which is noted where it could surprise.
    fn engine(&mut self, options: &Options) -> Engine {
        let Some(written) = options.get("ioengine") else { return Engine::Synchronous };
        let name = written.value.as_str();
        let found = engine(name);
        let instead = "io_uring is used, or system calls where the kernel refuses it";
        match found {
            Some(Engine::Nothing) => {
                self.note(format!("ioengine: {name} issues no I/O: the figures are the cost of the load generator, not of a disk"));
            }
            Some(Engine::Other(help)) => {
                self.problem(written.at, format!("ioengine={name} is not supported"), help);
            }
            Some(Engine::Elsewhere { .. }) if !self.surroundings.targets.is_empty() => {
                self.note(format!(
                    "ioengine: {name} is not used: operations go to the file or device named beside --fio"
                ));
            }
            Some(Engine::Elsewhere { .. }) if has_own_path(options) || names_block_device(options) => {
                self.note(format!("ioengine: in place of {name}, {instead}"));
            }
            Some(Engine::Elsewhere { how, .. }) => {
                self.problem(written.at, format!("ioengine={name} has its own way to the storage"), how);
            }
            None => {
                let help = model::problem::near_word(name, engine_names())
                    .map_or("write io_uring or psync".into(), |near| format!("did you mean `{near}`?"));
                self.problem(written.at, format!("fio has no ioengine `{name}`"), help);
            }
            Some(Engine::Files { differs, .. }) => {
                self.note(format!("ioengine: {name} is not used: {differs}"));
            }
            Some(Engine::Asynchronous) if !matches!(name, "io_uring" | "libaio") => {
                self.note(format!("ioengine: in place of {name}, {instead}"));
            }
            Some(Engine::Asynchronous | Engine::Synchronous | Engine::Space(_)) => {}
        }
        found.unwrap_or(Engine::Asynchronous)
    }

    /// Whether the job asks for direct I/O.
    fn is_direct(&mut self, options: &Options) -> bool {
        self.flag(options, "direct") || (options.contains_key("buffered") && !self.flag(options, "buffered"))
    }

    /// fio only reserves the space of a file that it makes for writes, unless `overwrite` is set.
    fn note_files_in_full(&mut self, options: &Options, order: Order, draft: &Draft) {
        if !order.writes_only() || self.flag(options, "overwrite") {
            return;
        }
        let wanted = match draft.level(settings::SIZE.name) {
            Some(Level::Bytes(bytes)) => *bytes,
            _ => 1,
        };
        let files = draft.copies.iter().flatten().filter(|(name, _)| *name == settings::FILES.name);
        let mut names = files.flat_map(|(_, level)| match level {
            Level::List(names) => names.clone(),
            _ => Vec::new(),
        });
        if let Some(name) = names.find(|name| match (self.surroundings.size_of)(&name.to_string()) {
            Some(bytes) => bytes < wanted,
            None => missing::can_be_made(&name.to_string()),
        }) {
            self.note(format!(
                "fallocate, overwrite: `{name}` is written in full before the clock starts; fio reserves its space, and the first pass fills it"
            ));
        }
    }

    fn cache(&mut self, options: &Options, engine: Engine, draft: &mut Draft) {
        let direct = self.flag(options, "direct");
        let buffered = self.flag(options, "buffered");
        if let (true, true, Some(written)) = (direct, buffered, options.get("buffered")) {
            self.problem(written.at, "`direct` and `buffered` contradict each other", "keep one of them");
        }
        // fio goes through the page cache unless reported otherwise, but for engines that have a way of their own to the storage.
        let is_past = engine.is_past_page_cache() && !has_own_path(options);
        let is_direct = direct || is_past || (options.contains_key("buffered") && !buffered);
        if is_past && !direct {
            self.note_unless(
                format!(
                    "ioengine: {} does not use the page cache, and so direct I/O is used",
                    options["ioengine"].value
                ),
                Some(settings::CACHE.name),
            );
        }
        draft.set(settings::CACHE.name, if is_direct { Cache::Direct } else { Cache::PageCache }.level());
        let invalidates = self.value(options, "invalidate", value::flag, "write 0 or 1").unwrap_or(true);
        let reads_before = self.flag(options, "pre_read");
        if !is_direct && engine != Engine::Nothing {
            // For each pass, fio opens its files again and drops their cached pages, unless `invalidate=0`.
            let pages = match (reads_before, invalidates) {
                (true, _) => CachedPages::Read,
                (false, true) => CachedPages::DropEachPass,
                (false, false) => CachedPages::Keep,
            };
            draft.set(settings::CACHED_PAGES.name, pages.level());
        }
        if is_direct && engine == Engine::Synchronous {
            draft.set(settings::BACK_END.name, BackEndChoice::SystemCalls.level());
        }
        match self.value(options, "sync", value::sync, "write none, sync or dsync") {
            None | Some(value::Sync::None) => {}
            Some(value::Sync::Data) => draft.set(settings::WRITE_THROUGH.name, Level::Flag(true)),
            Some(value::Sync::Metadata) => {
                draft.set(settings::WRITE_THROUGH.name, Level::Flag(true));
                draft.set(settings::WRITE_THROUGH_METADATA.name, Level::Flag(true));
            }
        }
        for name in ["fsync", "fdatasync"] {
            if let Some(writes) = self.value(options, name, value::number, "write a number of writes")
                && writes > 0
            {
                draft.set(settings::FSYNC_EVERY.name, Level::Count(writes.min(1_000_000_000)));
            }
        }
        if options.contains_key("fsync") {
            self.note("fsync: files are flushed with fdatasync");
        }
    }

    fn spread(&mut self, options: &Options, order: Order, draft: &mut Draft) {
        if !order.is_random {
            self.has_no_effect(options, "random_distribution", "where access is sequential");
            self.has_no_effect(options, "norandommap", "where access is sequential");
            return;
        }
        let distribution = self.value(
            options,
            "random_distribution",
            value::distribution,
            "random, zipf:THETA, pareto:H, normal:DEVIATION, zoned:OPERATIONS/BLOCKS:..., zoned_abs:OPERATIONS/BYTES:... or sequence:BLOCK,..., the same for reads and writes",
        );
        let is_moving = self.flag(options, "random_sequence_stride");
        let distribution = match distribution {
            Some(text) if text.starts_with("sequence") && is_moving => Some(format!("{text} moving")),
            distribution => distribution,
        };
        let is_uniform = distribution.as_ref().is_none_or(|text| text == "uniform");
        if let Some(text) = distribution.filter(|_| !is_uniform) {
            draft.set(settings::DISTRIBUTION.name, Level::Text(text));
        }
        if self.flag(options, "norandommap") || !is_uniform {
            return;
        }
        let is_mix = draft.level(settings::WRITE_BLOCK_SIZE.name).is_some()
            || draft.level(settings::BLOCK_SIZE.name).is_some_and(|level| level.to_string().contains(','));
        match is_mix {
            true => self
                .note("random offsets of several block sizes are drawn independently, as with norandommap"),
            // fio visits each block once before any again.
            false => draft.set(settings::DISTRIBUTION.name, Level::Text("shuffle".into())),
        }
    }

    /// How many operations a copy has; none where it runs for the measured time.
    fn amount(&mut self, options: &Options, (bytes, block): (Option<u64>, u64), draft: &mut Draft) {
        const MOST: u64 = 1_000_000_000_000;
        draft.is_time_based = self.flag(options, "time_based");
        let number = self.count(options, "number_ios", MOST);
        let loops = self.count(options, "loops", MOST).unwrap_or(1);
        let io_size = options.get("io_size").cloned().and_then(|written| {
            let expected = "write bytes, such as 64k or 1g, or a percentage of size";
            match self.value(options, "io_size", value::size, expected)? {
                Size::Bytes(bytes) => Some(bytes),
                Size::Zones(zones) => zones.checked_mul(self.zone_bytes(options)),
                Size::Percent(percent) => match bytes {
                    Some(whole) => Some((u128::from(whole) * u128::from(percent) / 100) as u64),
                    None => {
                        self.problem(
                            written.at,
                            "a percentage of what is not known",
                            "write io_size in bytes",
                        );
                        None
                    }
                },
            }
        });
        if draft.is_time_based {
            for name in ["number_ios", "loops", "io_size"] {
                self.has_no_effect(options, name, "beside time_based");
            }
            return;
        }
        let is_filled = self.flag(options, "fill_device");
        let is_repeated = loops > 1;
        let is_known = io_size.is_some() || draft.passes.iter().any(|pass| !pass.is_empty());
        if let Some(written) = options.get("loops").filter(|_| is_repeated && !is_known) {
            self.problem(written.at, "`loops` of a size that is not known", "write size");
        }
        if let Some(written) = options.get("fill_device").filter(|_| is_filled && !is_known) {
            self.problem(
                written.at,
                "`fill_device` of a device or file that does not exist",
                "name a block device, or write size",
            );
        }
        let has_end = number.is_some() || io_size.is_some() || is_repeated || is_filled;
        if !has_end {
            return;
        }
        // A discard before writes is an operation too, and fio takes `number_ios` as the number of both.
        let trim = match draft.level(settings::TRIM_BEFORE.name) {
            Some(Level::Bytes(trim)) => Some((*trim).max(1)),
            _ => None,
        };
        let number = number.map(|number| {
            let doubled = if trim.is_some() { 2 } else { 1 };
            number.saturating_mul(loops).saturating_mul(doubled)
        });
        let operations = |bytes: u64| bytes / block.max(1) + trim.map_or(0, |trim| bytes / trim);
        // More is written than the size, until the device is in its steady state.
        let is_sprandom = self.flag(options, "sprandom");
        let mut is_of_bytes = false;
        let mut differs = false;
        let ends: Vec<Option<u64>> = (0..draft.copies.len())
            .map(|copy| {
                let pass = draft.passes.get(copy).filter(|pass| !pass.is_empty() && !is_sprandom);
                // fio ends at the size, `loops` times; an `io_size` above it continues until so much is done.
                let pass = pass.map(|pass| pass.iter().map(|bytes| operations(*bytes)).sum::<u64>());
                let of_bytes = match (pass, io_size.map(operations)) {
                    (Some(pass), Some(most)) => Some(pass.min(most).saturating_mul(loops).max(most)),
                    (pass, most) => pass.or(most).map(|pass| pass.saturating_mul(loops)),
                };
                let end = of_bytes.into_iter().chain(number).min();
                is_of_bytes |= of_bytes.is_some() && end == of_bytes;
                differs |= trim.is_some_and(|trim| trim != block) && end == of_bytes
                    || trim.is_some() && (is_repeated || io_size.is_some());
                end.map(|end| end.clamp(1, MOST))
            })
            .collect();
        let Some(Some(first)) = ends.first().copied() else { return };
        draft.has_end = true;
        if ends.iter().all(|end| *end == Some(first)) {
            draft.set(settings::OPERATIONS.name, Level::Count(first));
        } else {
            for (copy, end) in draft.copies.iter_mut().zip(&ends) {
                copy.extend(end.map(|end| (settings::OPERATIONS.name.to_string(), Level::Count(end))));
            }
        }
        let is_mix = draft.level(settings::WRITE_BLOCK_SIZE.name).is_some()
            || draft.level(settings::BLOCK_SIZE.name).is_some_and(|level| level.to_string().contains(','));
        if is_mix && is_of_bytes {
            self.note(format!(
                "with several block sizes the load ends after {first} operations, the number for blocks of the mean size; fio ends after the same number of bytes"
            ));
        }
        if differs {
            self.note(format!(
                "rw: the load ends after {first} writes and discards; fio may end after another number of them"
            ));
        }
    }

    /// Rate, think time, start and times.
    fn arrivals(
        &mut self,
        options: &Options,
        (order, block, copies, outstanding): (Order, u64, u64, u64),
        draft: &mut Draft,
    ) {
        let seconds = |text: &str| value::duration(text, 1e9);
        let expected = "write a time, such as 30, 30s or 5m";
        let at = |name: &str| options.get(name).map_or(At::default(), |written| written.at);
        draft.runtime = self
            .value(options, "runtime", seconds, expected)
            .filter(|runtime| *runtime > 0)
            .map(|runtime| (runtime, at("runtime")));
        draft.warm_up =
            self.value(options, "ramp_time", seconds, expected).map(|time| (time, at("ramp_time")));
        draft.start = self.value(options, "startdelay", seconds, "write a time, such as 30s").unwrap_or(0);
        let (first, second) = order.directions();
        let mut rate = None;
        for (name, per_operation) in [("rate_iops", 1.0), ("rate", block as f64)] {
            let read = |text: &str| {
                let parts = value::directions(text)?;
                let one = |at: usize| match name {
                    "rate" => value::bytes(parts[at]).map(|rate| rate as f64),
                    _ => parts[at].parse::<f64>().ok(),
                };
                let sum = one(first)? + second.map_or(Some(0.0), one)?;
                // No limit.
                if sum == 0.0 {
                    return Some(0.0);
                }
                // fio limits each direction; together they keep the mix only when they have its proportion.
                let share = second.map_or(100.0, |_| order.reads);
                let is_of_mix = second.is_none() || (one(first)? / sum - share / 100.0).abs() < 0.01;
                (is_of_mix && sum > 0.0 && sum.is_finite()).then_some(sum / per_operation)
            };
            let expected = match second {
                None => "one number above 0",
                Some(_) => "two numbers, for reads and writes, in the proportion of rwmixread",
            };
            if let Some(value) = self.value(options, name, read, expected).filter(|rate| *rate > 0.0) {
                if rate.is_some() {
                    self.problem(at(name), "`rate` and `rate_iops` both set the rate", "keep one of them");
                }
                rate = Some(value * copies as f64);
                self.note(format!("{name}: an open load; response time counts from the intended start"));
            }
        }
        draft.latency = self.latency(options, rate);
        let process = |text: &str| ["linear", "poisson"].into_iter().find(|word| *word == text);
        let process = self.value(options, "rate_process", process, "write linear or poisson");
        if rate.is_some() && draft.level(settings::BACK_END.name) == Some(&BackEndChoice::SystemCalls.level())
        {
            // Arrivals do not wait for operations in flight.
            draft.settings.retain(|(name, _)| name != settings::BACK_END.name);
        }
        if rate.is_none() {
            self.has_no_effect(options, "rate_process", "without rate_iops");
        }
        draft.is_poisson = rate.is_some() && process == Some("poisson");
        draft.rate = rate;
        let each = self.value(options, "thinktime_blocks", value::number, "write a number of operations");
        if each.is_some_and(|each| each > 1) {
            let help = "remove it: the wait follows every operation";
            self.problem(at("thinktime_blocks"), "`thinktime_blocks` above 1 is not supported", help);
        }
        let think = self.value(
            options,
            "thinktime",
            |text| value::duration(text, 1e3),
            "write microseconds, such as 500us",
        );
        if let Some(think) = think.filter(|think| *think > 0) {
            if rate.is_some() {
                self.problem(
                    at("thinktime"),
                    "`thinktime` and a rate contradict each other",
                    "keep one of them",
                );
            } else if outstanding > 1 {
                self.problem(
                    at("thinktime"),
                    "`thinktime` with `iodepth` above 1 is not supported",
                    "write iodepth=1 and more numjobs",
                );
            } else {
                draft.think = think;
            }
        }
    }
}

impl Reader<'_> {
    /// `latency_target` and what belongs to it.
    fn latency(&mut self, options: &Options, rate: Option<f64>) -> Option<Latency> {
        let micros = |text: &str| value::duration(text, 1e3);
        let expected = "write microseconds, such as 500us";
        let target = self.value(options, "latency_target", micros, expected).filter(|target| *target > 0);
        let window = self.value(options, "latency_window", micros, expected);
        let percent = |text: &str| {
            let parts =
                [(50.0, "p50"), (90.0, "p90"), (95.0, "p95"), (99.0, "p99"), (99.9, "p999"), (100.0, "max")];
            let percent: f64 = text.parse().ok()?;
            parts.into_iter().find(|(of, _)| *of == percent).map(|(_, part)| part)
        };
        let expected = "write 50, 90, 95, 99, 99.9 or 100";
        let percentile = self.value(options, "latency_percentile", percent, expected);
        let _ = self.flag(options, "latency_run");
        let Some(target) = target else {
            for name in ["latency_window", "latency_percentile", "latency_run"] {
                self.has_no_effect(options, name, "without latency_target");
            }
            return None;
        };
        let at = options.get("latency_target").map_or(At::default(), |written| written.at);
        if rate.is_some() {
            let help = "remove the rate: the operations in flight are what is searched for";
            self.problem(at, "`latency_target` with a rate is not supported", help);
        }
        // fio's own default where there is a target.
        let window = window.filter(|window| *window > 0).unwrap_or(target);
        Some(Latency { target, window, part: percentile.unwrap_or("max"), at })
    }
}

/// Whether an engine for SCSI commands names a block device, not the character device beside it.
fn names_block_device(options: &Options) -> bool {
    let is_of_block_devices = |name: &str| matches!(name, "sg" | "libzbc");
    options.get("ioengine").is_some_and(|written| is_of_block_devices(&written.value))
        && options.get("filename").is_some_and(|written| {
            let names = value::file_names(&written.value);
            !names.is_empty()
                && names.iter().all(|name| !name.starts_with("/dev/sg") && !name.starts_with("/dev/bsg"))
        })
}

/// Whether libblkio reaches its storage by a path that Linux knows too.
fn has_own_path(options: &Options) -> bool {
    let is =
        |name: &str, wanted: &[&str]| options.get(name).is_some_and(|w| wanted.contains(&w.value.as_str()));
    is("ioengine", &["libblkio"])
        && is("libblkio_driver", &["io_uring", "nvme-io_uring"])
        && options.contains_key("libblkio_path")
}
