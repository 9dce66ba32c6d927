//! The keys of diskspd's command line, each by itself. What they mean together is found out in `run`.

use model::windows::windows_path;
use model::{Problem, Problems};

use super::super::typed::{Wrong, number, unsupported, with_odd_letter, words};
use super::{DiskspdBuffer, DiskspdDistribution, DiskspdRate};

/// The keys of diskspd 2.2, for an error.
const KEYS: &str = "-a -b -B -c -C -d -D -e -f -F -g -h -i -I -j -l -L -n -N -o -O -p -P -r -rd -rs -R -s -si -S -t -T -v -w -W -x -X -y -z -Z -:";

/// Most seconds of a phase: four months.
const SECONDS_MAX: u64 = 10_000_000;

/// Shortest and longest interval that is recorded, in milliseconds.
const INTERVAL_MS: std::ops::RangeInclusive<u64> = 50..=60_000;

/// The block size where none is given.
const BLOCK_DEFAULT: u64 = 64 << 10;

/// Largest block of one operation.
const BLOCK_MAX: u64 = 64 << 20;

/// `b64KB` or `c1GiB` as `b64K` and `c1G`, and the unit that is meant; none for another key.
fn kilobytes(key: &str) -> Option<(String, &'static str)> {
    let short = key.strip_suffix(['b', 'B'])?;
    let short = short.strip_suffix('i').unwrap_or(short);
    let unit = match short.chars().last()?.to_ascii_lowercase() {
        'k' => "KiB",
        'm' => "MiB",
        'g' => "GiB",
        't' => "TiB",
        _ => return None,
    };
    let is_size =
        short.len() >= 3 && short[..short.len() - 1].ends_with(|letter: char| letter.is_ascii_digit());
    is_size.then(|| (short.to_string(), unit))
}

/// What the keys state; what is not stated is none.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) targets: Vec<String>,
    pub(super) block: Option<u64>,
    /// `-B`
    pub(super) base: Option<u64>,
    /// `-f`, or the end that follows from `-B`.
    pub(super) end: Option<u64>,
    pub(super) create: Option<u64>,
    pub(super) seconds: Option<u64>,
    pub(super) warm_up_s: Option<u64>,
    pub(super) cool_down_s: Option<u64>,
    pub(super) iops_every_ms: Option<u64>,
    pub(super) threads_per_target: Option<u64>,
    pub(super) threads: Option<u64>,
    pub(super) outstanding: Option<u64>,
    /// `-O`
    pub(super) pool_outstanding: Option<u64>,
    /// `-r`, with its alignment.
    pub(super) random: Option<Option<u64>>,
    /// `-rs`
    pub(super) random_percent: Option<u64>,
    pub(super) distribution: Option<DiskspdDistribution>,
    /// `-s`, with its distance.
    pub(super) sequential: Option<Option<u64>>,
    /// `-si`
    pub(super) is_interlocked: bool,
    pub(super) thread_stride: Option<u64>,
    pub(super) write_percent: Option<u64>,
    /// Cached or not, as stated.
    pub(super) unbuffered: Option<bool>,
    pub(super) write_through: bool,
    pub(super) buffer: Option<DiskspdBuffer>,
    pub(super) latency: bool,
    pub(super) rate: Option<DiskspdRate>,
    /// `-i`
    pub(super) burst: Option<u64>,
    /// `-j`
    pub(super) think_ms: Option<u64>,
    pub(super) seed: Option<u64>,
    pub(super) verbose: bool,
    pub(super) profile_only: bool,
    pub(super) xml: bool,
    pub(super) notes: Vec<String>,
    pub(super) problems: Problems,
}

/// `*1`: a target that an XML profile names.
pub(super) fn is_of_profile(word: &str) -> bool {
    word.starts_with('*') && !word.contains('.')
}

impl Keys {
    /// Reads the words of a command line. What is wrong with one of them is kept for later, so that it can be reported with
    /// all the rest.
    pub(super) fn read(arguments: &[String]) -> Keys {
        let mut keys = Keys::default();
        let words = words(arguments);
        let is_block = |word: &&String| word.starts_with("-b");
        // All other sizes may be stated in blocks.
        let (first, later): (Vec<&String>, Vec<&String>) = words.iter().partition(is_block);
        for word in first.into_iter().chain(later) {
            let Some(key) = word.strip_prefix('-').filter(|key| !key.is_empty()) else {
                match windows_path(word) {
                    Some((what, help)) => keys.problems.push(Problem::new(what, help)),
                    None if is_of_profile(word) => keys.problems.push(Problem::new(
                        format!("`{word}` is a target of an XML profile"),
                        "name a file, or a block device such as /dev/sdb",
                    )),
                    None => {}
                }
                keys.targets.push(word.clone());
                continue;
            };
            if let Some((plain, binary)) = kilobytes(key) {
                let read = keys.key(&plain);
                keys.notes.push(format!("-{key}: diskspd counts in {binary}; -{plain} is used"));
                if read.is_ok() {
                    continue;
                }
            }
            if let Err((what, help)) = keys.key(key) {
                let help = with_odd_letter(help, word);
                keys.problems.push(Problem::new(format!("`{word}`: {what}"), help));
            }
        }
        keys
    }

    /// The block size, that of diskspd where none is stated.
    pub(super) fn block(&self) -> u64 {
        self.block.unwrap_or(BLOCK_DEFAULT)
    }

    fn note(&mut self, text: impl Into<String>) -> Result<(), Wrong> {
        self.notes.push(text.into());
        Ok(())
    }

    /// One key, without its hyphen.
    fn key(&mut self, key: &str) -> Result<(), Wrong> {
        let mut letters = key.chars();
        let letter = letters.next().unwrap_or(' ');
        let rest = letters.as_str();
        match letter {
            'b' => {
                let bytes = self.size(rest)?;
                if !(1..=BLOCK_MAX).contains(&bytes) {
                    return Err(("a block has 1 byte to 64M".into(), "such as -b64K".into()));
                }
                self.block = Some(bytes);
            }
            'B' => self.bounds(rest)?,
            'c' => self.create = Some(self.size(rest)?),
            'd' => self.seconds = Some(number(rest, 1, SECONDS_MAX)?),
            'W' => self.warm_up_s = Some(number(rest, 0, SECONDS_MAX)?),
            'C' => self.cool_down_s = Some(number(rest, 0, SECONDS_MAX)?),
            'D' => {
                let every = if rest.is_empty() { 1000 } else { number(rest, 1, u64::MAX)? };
                if !INTERVAL_MS.contains(&every) {
                    return Err((
                        format!("intervals of {every} ms are not recorded"),
                        "write -D50 to -D60000".into(),
                    ));
                }
                self.iops_every_ms = Some(every);
            }
            'f' => return self.end_or_hint(rest),
            'F' => self.threads = Some(number(rest, 1, 256)?),
            't' => self.threads_per_target = Some(number(rest, 1, 256)?),
            'o' => self.outstanding = Some(number(rest, 1, 1024)?),
            'O' => self.pool_outstanding = Some(number(rest, 1, 1024)?),
            'g' => {
                self.rate = Some(match rest.strip_suffix('i') {
                    Some(rate) => DiskspdRate::Iops(number(rate, 1, u32::MAX.into())?),
                    None => DiskspdRate::BytesPerMs(number(rest, 1, u32::MAX.into())?),
                });
            }
            'i' => self.burst = Some(number(rest, 1, u32::MAX.into())?),
            'j' => self.think_ms = Some(number(rest, 1, u32::MAX.into())?),
            'h' | 'S' => return self.caching(if letter == 'h' { "h" } else { rest }),
            'L' => self.latency = true,
            'r' => return self.random(rest),
            's' => return self.sequential(rest),
            'T' => {
                let bytes = self.size(rest)?;
                if bytes == 0 {
                    return Err(("the distance is 0".into(), "such as -T1G".into()));
                }
                self.thread_stride = Some(bytes);
            }
            'w' => self.write_percent = Some(number(rest, 0, 100)?),
            'z' => self.seed = Some(if rest.is_empty() { time_seed() } else { number(rest, 0, u64::MAX)? }),
            'Z' => return self.write_data(rest),
            'v' if rest == "s" => {
                return self.note("-vs: statistics about waiting are not available; the rest is reported");
            }
            'v' if rest.is_empty() => self.verbose = true,
            'R' => return self.output(rest),
            _ => return self.key_of_windows(letter, rest),
        }
        Ok(())
    }

    /// Keys that stand for something of Windows, and unknown ones.
    fn key_of_windows(&mut self, letter: char, rest: &str) -> Result<(), Wrong> {
        match (letter, rest) {
            // That is how it is here.
            ('n', "") => Ok(()),
            ('a', "" | "g") => self.note(format!(
                "-a{rest}: threads are not bound to CPUs; `taskset` in front of `plimsoll` binds them all"
            )),
            ('a', list) => unsupported("binding threads to CPUs", taskset(list)),
            ('e', _) => unsupported(
                "event tracing of Windows (ETW)",
                "leave it out: counters of the disks and CPUs are in the record, see `plimsoll show`",
            ),
            ('I', "3") => Ok(()),
            ('I', "1") => {
                unsupported("the I/O priority", "leave it out and start `ionice -c 3 plimsoll disk --diskspd ...`")
            }
            ('I', "2") => unsupported(
                "the I/O priority",
                "leave it out and start `ionice -c 2 -n 7 plimsoll disk --diskspd ...`",
            ),
            ('I', _) => Err(("the I/O priority is 1, 2 or 3".into(), "leave it out".into())),
            ('l', "") => {
                self.note("-l has no effect: buffers are registered with the kernel, without large pages")
            }
            ('N', _) => unsupported(
                "flushing of memory-mapped files",
                "write -Sw for writes that are done when they are on stable storage",
            ),
            ('p', "") => unsupported(
                "starting the operations of a thread at the same offset",
                "leave it out; -si gives all threads one sequential stream",
            ),
            ('P', _) => self.note(format!("-P{rest} has no effect: progress is shown while it runs")),
            ('x', "") => self.note(
                "-x has no effect: completion routines are an interface of Windows; io_uring or system calls are used",
            ),
            ('X', _) => unsupported(
                "an XML profile",
                "write its settings as keys, or as `jobs` of an experiment file (`plimsoll init disk`)",
            ),
            ('y', "") => Err(("the name of an event is missing".into(), "leave it out".into())),
            ('y', _) => unsupported(
                "an event of Windows",
                "leave it out; start and stop the command from a script, or watch `--live FILE`",
            ),
            (':', _) => self.note(format!("-:{rest} has no effect: experimental behaviors are diskspd's own")),
            ('?', _) => Err(("the keys are described with diskspd".into(), format!("they are {KEYS}"))),
            ('-', _) => Err((
                "a flag of Plimsoll is not read here".into(),
                "write it in front of --diskspd".into(),
            )),
            _ => Err((format!("diskspd has no key `-{letter}{rest}`"), format!("its keys are {KEYS}"))),
        }
    }

    /// `64K`, `2G`, `8b` for blocks, or bytes.
    fn size(&self, text: &str) -> Result<u64, Wrong> {
        let wrong = || {
            (
                format!("`{text}` is not a size"),
                "write bytes, or a number with K, M, G, T or b for blocks, such as 64K".to_string(),
            )
        };
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let factor = match unit {
            "" => 1,
            "k" | "K" => 1 << 10,
            "m" | "M" => 1 << 20,
            "g" | "G" => 1 << 30,
            "t" | "T" => 1 << 40,
            "b" | "B" => self.block(),
            _ => return Err(wrong()),
        };
        let value = digits.parse::<u64>().ok().and_then(|value| value.checked_mul(factor));
        // Offsets are signed in the kernel.
        value.filter(|bytes| *bytes <= i64::MAX as u64).ok_or_else(wrong)
    }

    /// `-B<base>[:<length>]`
    fn bounds(&mut self, text: &str) -> Result<(), Wrong> {
        let (base, length) = match text.split_once(':') {
            Some((base, length)) => (base, Some(length)),
            None => (text, None),
        };
        if self.base.is_some() {
            return Err(("the base is stated twice".into(), "keep one -B".into()));
        }
        let base = self.size(base)?;
        self.base = Some(base);
        match length {
            Some(length) => {
                let end = base.saturating_add(self.size(length)?);
                self.set_end(end)
            }
            None => Ok(()),
        }
    }

    fn set_end(&mut self, end: u64) -> Result<(), Wrong> {
        match self.end.replace(end) {
            Some(_) => Err(("the end of the range is stated twice".into(), "keep one of -f and -B".into())),
            None => Ok(()),
        }
    }

    /// `-f<size>`, or hints for opening the file.
    fn end_or_hint(&mut self, text: &str) -> Result<(), Wrong> {
        if text.starts_with(|letter: char| letter.is_ascii_digit()) {
            let end = self.size(text)?;
            return self.set_end(end);
        }
        if text.is_empty() || !text.chars().all(|letter| matches!(letter, 'r' | 's' | 't')) {
            return Err((
                "neither a size nor hints".into(),
                "write a size such as -f10G, or hints of r, s and t".into(),
            ));
        }
        self.note(format!("-f{text} has no effect: the kernel gets no hints about the access"))
    }

    /// `-S` and its letters.
    fn caching(&mut self, letters: &str) -> Result<(), Wrong> {
        for letter in if letters.is_empty() { "u" } else { letters }.chars() {
            let unbuffered = match letter {
                'b' => Some(false),
                'u' | 'h' => Some(true),
                'w' => None,
                'm' => {
                    return unsupported(
                        "memory-mapped I/O",
                        "leave -Sm out: the same file is read and written",
                    );
                }
                'r' => {
                    return unsupported(
                        "disabling only the local cache of a remote file",
                        "write -Su; how a remote file system caches is an option of its mount",
                    );
                }
                _ => {
                    return Err((
                        format!("-S has no letter `{letter}`"),
                        "its letters are b, h, m, r, u and w".into(),
                    ));
                }
            };
            if let Some(unbuffered) = unbuffered
                && self.unbuffered.replace(unbuffered).is_some()
            {
                return Err(("the cache is stated twice".into(), "keep one of -Sb, -Su, -Sh and -h".into()));
            }
            if matches!(letter, 'w' | 'h') && std::mem::replace(&mut self.write_through, true) {
                return Err(("writing through is stated twice".into(), "keep one of -Sw, -Sh and -h".into()));
            }
        }
        Ok(())
    }

    /// `-r[<align>]`, `-rs<percent>` or `-rd<distribution>`
    fn random(&mut self, text: &str) -> Result<(), Wrong> {
        if let Some(percent) = text.strip_prefix('s') {
            let percent = number(percent, 1, 100)?;
            if self.random_percent.replace(percent).is_some() {
                return Err(("-rs is stated twice".into(), "keep one of them".into()));
            }
            return match percent {
                100 => Ok(()),
                _ => unsupported(
                    "a mix of random and sequential operations in one stream",
                    "measure -r and -s apart, or give each a job (`jobs`) in an experiment file",
                ),
            };
        }
        if let Some(distribution) = text.strip_prefix('d') {
            self.distribution = Some(self.distribution(distribution)?);
            return Ok(());
        }
        let align = if text.is_empty() { None } else { Some(self.size(text)?) };
        if align == Some(0) {
            return Err(("blocks cannot be aligned to 0 bytes".into(), "such as -r4K".into()));
        }
        match self.random.replace(align) {
            Some(_) => Err(("-r is stated twice".into(), "keep one of them".into())),
            None => Ok(()),
        }
    }

    /// `pct90/10:10/90` or `abs90/1G:10/9G`
    fn distribution(&self, text: &str) -> Result<DiskspdDistribution, Wrong> {
        let wrong = |what: String| {
            (
                what,
                "such as -rdpct90/10 (90 % of the operations in 10 % of the target) or -rdabs90/1G"
                    .to_string(),
            )
        };
        let is_percent = text.starts_with("pct");
        let Some(ranges) = text.strip_prefix("pct").or_else(|| text.strip_prefix("abs")) else {
            return Err(wrong(format!("`{text}` is neither pct nor abs")));
        };
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for range in ranges.split(':') {
            let Some((share, length)) = range.split_once('/') else {
                return Err(wrong(format!("`{range}` has no `/` between operations and target")));
            };
            let share = number(share, 0, 100)?;
            let length = if is_percent { number(length, 1, 100)? } else { self.size(length)? };
            if length == 0 || (!is_percent && length < self.block()) {
                return Err(wrong(format!("the range `{range}` is smaller than one block")));
            }
            parts.push((share, length));
        }
        let sum = |part: fn(&(u64, u64)) -> u64| parts.iter().map(part).fold(0_u64, u64::saturating_add);
        let (operations, target) = (sum(|part| part.0), sum(|part| part.1));
        if operations > 100 || (is_percent && target > 100) {
            return Err(wrong("the shares are more than 100 %".into()));
        }
        if is_percent && target == 100 && operations < 100 {
            return Err(wrong(format!("the whole target has only {operations} % of the operations")));
        }
        // What is left goes to the rest of the target.
        if operations < 100 {
            parts.push((100 - operations, if is_percent { 100 - target } else { 0 }));
        }
        Ok(if is_percent {
            DiskspdDistribution::Percent(parts)
        } else {
            DiskspdDistribution::Absolute(parts)
        })
    }

    /// `-s[i][<distance>]`
    fn sequential(&mut self, text: &str) -> Result<(), Wrong> {
        let (is_interlocked, text) = match text.strip_prefix('i') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let stride = if text.is_empty() { None } else { Some(self.size(text)?) };
        if let Some(stride) = stride.filter(|stride| *stride < self.block()) {
            return Err((
                format!("a distance of {stride} bytes is shorter than the block"),
                "write -s, or a distance of at least one block".into(),
            ));
        }
        self.is_interlocked |= is_interlocked;
        match self.sequential.replace(stride) {
            Some(_) => Err(("-s is stated twice".into(), "keep one of them".into())),
            None => Ok(()),
        }
    }

    /// `-Z`, `-Zr`, `-Z<size>` or `-Z<size>,<file>`
    fn write_data(&mut self, text: &str) -> Result<(), Wrong> {
        self.buffer = Some(match text {
            "" => DiskspdBuffer::Zeros,
            "r" => DiskspdBuffer::Random,
            text if text.contains(',') => {
                return unsupported(
                    "writing the data of a file",
                    "leave the file out: -Z<size> writes random data",
                );
            }
            text => {
                let bytes = self.size(text)?;
                if bytes < self.block() {
                    return Err(("the buffer is smaller than one block".into(), "such as -Z1M".into()));
                }
                self.note(format!(
                    "-Z{text}: each write has new random data, where diskspd repeats its buffer"
                ))?;
                DiskspdBuffer::Source(bytes)
            }
        });
        Ok(())
    }

    /// `-R[p]<text|xml>`
    fn output(&mut self, text: &str) -> Result<(), Wrong> {
        let (is_profile, format) = match text.strip_prefix('p') {
            Some(format) => (true, format),
            None => (false, text),
        };
        self.profile_only |= is_profile;
        match format {
            "text" => self.xml = false,
            "xml" => self.xml = true,
            "" if is_profile => {}
            _ => return Err((format!("`{format}` is not an output format"), "write -Rtext or -Rxml".into())),
        }
        Ok(())
    }
}

/// What to start instead of `-a<list>`.
fn taskset(list: &str) -> String {
    let numbers: Vec<&str> = list.split(',').collect();
    let is_plain = numbers.iter().all(|number| number.parse::<u16>().is_ok());
    let cpus = if is_plain { numbers.join(",") } else { "0,1".into() };
    format!("leave it out and start `taskset -c {cpus} plimsoll disk --diskspd ...`")
}

/// A seed that is another one each time.
fn time_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_millis() as u64)
}
