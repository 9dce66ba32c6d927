//! The options of one job become settings of the disk workload.

use model::{Choice, Level, Nanos};

use super::super::settings::{self, Access, Cache, Directions, Streams};
use super::engines::{Engine, engine, engine_names};
use super::options::VERIFY_METHODS;
use super::sections::{At, Job, Options, Reader};
use super::value::{self, Size};

/// Most copies of a job.
pub(super) const COPIES_MAX: u64 = 256;

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
    pub(super) start: Nanos,
    pub(super) runtime: Option<(Nanos, At)>,
    pub(super) warm_up: Option<(Nanos, At)>,
    pub(super) is_time_based: bool,
    /// It ends when its operations are done.
    pub(super) has_end: bool,
    pub(super) keeps: bool,
}

impl Draft {
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
    reads: f64,
    trims: bool,
    /// Bytes from the end of a block to the start of the next.
    gap: i64,
}

impl Order {
    fn reads_only(self) -> bool {
        self.reads >= 100.0 && !self.trims
    }

    fn writes_only(self) -> bool {
        self.reads <= 0.0 && !self.trims
    }

    /// Which of three parts holds, for reads, writes and trims; two where both reads and writes are done.
    fn directions(self) -> (usize, Option<usize>) {
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
        let order = self.access(options, &mut draft);
        let block = self.blocks(options, order, &mut draft);
        let copies = self.count(options, "numjobs", COPIES_MAX).unwrap_or(1);
        let engine = self.engine(options);
        let bytes = self.files(job, copies, engine, &mut draft);
        let mut outstanding = self.count(options, "iodepth", 1024).unwrap_or(1);
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
        self.cache(options, &mut draft);
        self.spread(options, order, &mut draft);
        self.content(options, order, &mut draft);
        draft.keeps = !self.flag(options, "unlink");
        self.amount(options, (bytes, block), &mut draft);
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
            "trimwrite" | "randtrimwrite" => {
                let help = "write two jobs, one with rw=trim and one with rw=write";
                self.problem(at, format!("rw={text} is not supported"), help);
                (false, 0.0, false)
            }
            _ => {
                let help = "one of read, write, rw, trim, randread, randwrite, randrw, randtrim";
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
        let mut order = Order { is_random, reads, trims, gap: 0 };
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
        if let Some((name, read, expected)) = given {
            let all = self.value(
                options,
                name,
                |text| {
                    let parts = value::directions(text)?;
                    let second = second.map_or(Some(None), |at| read(parts[at]).map(Some))?;
                    Some((read(parts[first])?, second))
                },
                expected,
            );
            if let Some((reads, writes)) = all {
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
        if step < 0 {
            draft.set(settings::REVERSE.name, Level::Flag(true));
            self.note("rw: access begins with the last block; fio reads the first one and then goes back from the last but one");
        }
        let step = step.unsigned_abs() as u64;
        if step > block {
            draft.set(settings::STRIDE.name, Level::Bytes(step));
            self.note("rw: a pass over the file begins one block further than the one before, where fio begins at the same place");
        }
    }

    /// How the engine issues operations. Another one is used here, which is noted where it could surprise.
    fn engine(&mut self, options: &Options) -> Engine {
        let Some(written) = options.get("ioengine") else { return Engine::Synchronous };
        let name = written.value.as_str();
        let found = engine(name);
        let instead = "io_uring is used, or system calls where the kernel refuses it";
        match found {
            Some(Engine::Other(help)) => {
                self.problem(written.at, format!("ioengine={name} is not supported"), help);
            }
            Some(Engine::Elsewhere { .. }) if self.surroundings.is_target_named => {
                self.note(format!(
                    "ioengine: {name} is not used: operations go to the file or device named beside --fio"
                ));
            }
            Some(Engine::Elsewhere { .. }) if has_own_path(options) => {
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
            Some(Engine::Asynchronous | Engine::Synchronous) => {}
        }
        found.unwrap_or(Engine::Asynchronous)
    }

    fn cache(&mut self, options: &Options, draft: &mut Draft) {
        let direct = self.flag(options, "direct");
        let buffered = self.flag(options, "buffered");
        if let (true, true, Some(written)) = (direct, buffered, options.get("buffered")) {
            self.problem(written.at, "`direct` and `buffered` contradict each other", "keep one of them");
        }
        // fio goes through the page cache unless told otherwise.
        let is_direct = direct || (options.contains_key("buffered") && !buffered);
        draft.set(settings::CACHE.name, if is_direct { Cache::Direct } else { Cache::PageCache }.level());
        if self.value(options, "sync", value::sync, "write none, sync or dsync").unwrap_or(false) {
            draft.set(settings::WRITE_THROUGH.name, Level::Flag(true));
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
            "random, zipf:EXPONENT or zoned:OPERATIONS/BLOCKS:..., the same for reads and writes",
        );
        let is_uniform = distribution.as_ref().is_none_or(|text| text == "uniform");
        if let Some(text) = distribution.filter(|_| !is_uniform) {
            draft.set(settings::DISTRIBUTION.name, Level::Text(text));
        }
        if self.flag(options, "norandommap") || !is_uniform {
            return;
        }
        let is_mix = draft.settings.iter().any(|(name, level)| {
            *name == settings::WRITE_BLOCK_SIZE.name
                || (*name == settings::BLOCK_SIZE.name && level.to_string().contains(','))
        });
        match is_mix {
            true => self
                .note("random offsets of several block sizes are drawn independently, as with norandommap"),
            // fio visits each block once before any again.
            false => draft.set(settings::DISTRIBUTION.name, Level::Text("shuffle".into())),
        }
    }

    fn content(&mut self, options: &Options, order: Order, draft: &mut Draft) {
        let percent =
            |text: &str| text.trim_end_matches('%').parse().ok().filter(|p| (0.0..=100.0).contains(p));
        if let Some(share) = self.value(options, "buffer_compress_percentage", percent, "write a percentage")
        {
            draft.set(settings::COMPRESSIBLE.name, Level::Percent(share));
        }
        if self.flag(options, "zero_buffers") {
            draft.set(settings::COMPRESSIBLE.name, Level::Percent(100.0));
        }
        let Some(written) = options.get("verify") else { return };
        let at = written.at;
        let method = written.value.split_once(':').map_or(written.value.as_str(), |(method, _)| method);
        match method {
            "0" => {}
            "null" => self.problem(at, "verify=null is not supported", "write verify=crc32c, or remove it"),
            method if !VERIFY_METHODS.contains(&method) => self.problem(
                at,
                format!("fio has no verify={method}"),
                model::problem::did_you_mean(method, VERIFY_METHODS),
            ),
            _ if order.trims => self.note("verify: has no effect where blocks are discarded"),
            method => {
                if method != "crc32c" && method != "crc32c-intel" {
                    self.note(format!("verify: crc32c is used in place of {method}"));
                }
                if order.writes_only() {
                    self.note("verify: blocks are checked when they are read; run the same file with rw=read afterwards");
                }
                draft.set(settings::VERIFY.name, Level::Flag(true));
            }
        }
    }

    /// How many operations a copy has; none where it goes on for the measured time.
    fn amount(&mut self, options: &Options, (bytes, block): (Option<u64>, u64), draft: &mut Draft) {
        const MOST: u64 = 1_000_000_000_000;
        draft.is_time_based = self.flag(options, "time_based");
        let number = self.count(options, "number_ios", MOST);
        let loops = self.count(options, "loops", MOST).unwrap_or(1);
        let io_size = options.get("io_size").cloned().and_then(|written| {
            let expected = "write bytes, such as 64k or 1g, or a percentage of size";
            match self.value(options, "io_size", value::size, expected)? {
                Size::Bytes(bytes) => Some(bytes),
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
        let of_bytes = io_size.or(bytes.filter(|_| is_repeated || is_filled));
        if let Some(written) = options.get("loops").filter(|_| is_repeated && of_bytes.is_none()) {
            self.problem(written.at, "`loops` of a size that is not known", "write size");
        }
        if let Some(written) = options.get("fill_device").filter(|_| is_filled && of_bytes.is_none()) {
            self.problem(
                written.at,
                "`fill_device` of a device or file that does not exist",
                "name a block device, or write size",
            );
        }
        let operations = of_bytes.map(|bytes| (bytes / block.max(1)).max(1).saturating_mul(loops));
        if let Some(operations) = operations.into_iter().chain(number).min() {
            draft.set(settings::OPERATIONS.name, Level::Count(operations.min(MOST)));
            draft.has_end = true;
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
                // fio limits each direction; together they keep the mix only when they have its proportion.
                let share = second.map_or(100.0, |_| order.reads);
                let is_of_mix = second.is_none() || (one(first)? / sum - share / 100.0).abs() < 0.01;
                (is_of_mix && sum > 0.0 && sum.is_finite()).then_some(sum / per_operation)
            };
            let expected = match second {
                None => "one number above 0",
                Some(_) => "two numbers, for reads and writes, in the proportion of rwmixread",
            };
            if let Some(value) = self.value(options, name, read, expected) {
                if rate.is_some() {
                    self.problem(at(name), "`rate` and `rate_iops` both set the rate", "keep one of them");
                }
                rate = Some(value * copies as f64);
                self.note(format!("{name}: an open load; response time counts from the intended start"));
            }
        }
        let process = |text: &str| ["linear", "poisson"].into_iter().find(|word| *word == text);
        let process = self.value(options, "rate_process", process, "write linear or poisson");
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

/// Whether libblkio reaches its storage by a path that Linux knows too.
fn has_own_path(options: &Options) -> bool {
    let is =
        |name: &str, wanted: &[&str]| options.get(name).is_some_and(|w| wanted.contains(&w.value.as_str()));
    is("ioengine", &["libblkio"])
        && is("libblkio_driver", &["io_uring", "nvme-io_uring"])
        && options.contains_key("libblkio_path")
}
