//! SQLIO 1.5: its command line and parameter files become a disk load, and results are printed in its own layout, so
//! that scripts which call `sqlio` and read its output keep working.

mod report;

use std::io;

use model::windows::windows_path;
use model::{Choice, Level, Load, Problem, Problems, SECOND, Settings, quantity};

pub use report::{SqlioNumbers, report};

use super::jobs;
use super::missing::{self, Position};
use super::pasted::{self, Pauses};
use super::settings::{self, Access, Cache, SETTINGS, SIZE_DEFAULT};
use super::typed::{Wrong, number, plain, unsupported, with_odd_letter, words};

/// Flags as `--help` of SQLIO lists them, for near words.
const FLAGS: &str = "-k -t -s -d -R -f -p -a -o -b -i -m -L -U -B -S -v -64 -F";

/// Most drives of `-d` that an error shows a path for.
const DRIVES_SHOWN: usize = 3;

/// Most threads and files SQLIO takes.
const THREADS_MAX: u64 = 256;

/// Read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlioKind {
    /// `-kR`
    Read,
    /// `-kW`
    Write,
}

/// `-f`: order of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlioAccess {
    /// `-frandom`
    Random,
    /// `-fsequential`
    Sequential,
    /// `-fN`: each block starts N blocks after the one before.
    Stripe(u64),
}

/// `-B`: which caches are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlioBuffering {
    /// `-BN`: none.
    None,
    /// `-BY`: all.
    All,
    /// `-BH`: the disk's, not that of the file system.
    Hardware,
    /// `-BS`: that of the file system, not the disk's.
    Software,
}

/// A file of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlioFile {
    /// Its path.
    pub path: String,
    /// Threads of its own, from the parameter file.
    pub threads: Option<u64>,
    /// Processor mask, which is reported in the report and has no effect.
    pub mask: u64,
    /// Size in MB of 2^20 bytes.
    pub size_mb: Option<u64>,
    /// Whether it is made for this run, because it does not exist.
    pub made: bool,
    /// How it is extended for this run.
    pub expansion: Option<Expansion>,
}

/// A file that is smaller than the run needs, and is extended before the clock starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Bytes that the run needs.
    pub needed_bytes: u64,
    /// Bytes that the file had, 0 if it did not exist.
    pub present_bytes: u64,
}

impl SqlioFile {
    /// A file without threads or a size of its own.
    fn named(path: &str) -> Self {
        SqlioFile { path: path.into(), threads: None, mask: 0, size_mb: None, made: false, expansion: None }
    }
}

/// A SQLIO command line, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlioRun {
    /// `-k`
    pub kind: SqlioKind,
    /// `-t`, or the parameter file's threads.
    pub threads: u64,
    /// `-s`
    pub seconds: u64,
    /// `-f`
    pub access: SqlioAccess,
    /// `-o`; none when not given, which SQLIO reports differently from `-o1`.
    pub outstanding: Option<u64>,
    /// `-b`
    pub block_kib: u64,
    /// `-i`: reported in the report, no other effect.
    pub ios_per_run: u64,
    /// `-S`: the block of each file at which it begins.
    pub start_block: u64,
    /// `-L`: report latencies.
    pub latency: bool,
    /// `-B`
    pub buffering: SqlioBuffering,
    /// Files in order.
    pub files: Vec<SqlioFile>,
    /// `-F`
    pub parameter_file: Option<String>,
    /// Pauses that were pasted with the line.
    pub pauses: Pauses,
    /// What was accepted and has no effect, in sentences.
    pub notes: Vec<String>,
}

/// Reads a command line, with or without the program's name. `read_file` gives the text of the parameter file. All problems at
/// once, each with what to write instead.
pub fn parse(
    arguments: &[String],
    read_file: &dyn Fn(&str) -> io::Result<String>,
) -> Result<SqlioRun, Problems> {
    let pasted = pasted::read(arguments, pasted::SQLIO);
    if pasted.is_refused() {
        return Err(pasted.problems);
    }
    let mut run = SqlioRun {
        kind: SqlioKind::Read,
        threads: 1,
        seconds: 30,
        access: SqlioAccess::Stripe(64),
        outstanding: None,
        block_kib: 2,
        ios_per_run: 64,
        start_block: 0,
        latency: false,
        buffering: SqlioBuffering::None,
        files: Vec::new(),
        parameter_file: None,
        pauses: pasted.pauses,
        notes: pasted.notes,
    };
    let mut problems = pasted.problems;
    let mut after_all = AfterAll::default();
    for argument in &words(&pasted.words) {
        let Some(flag) = argument.strip_prefix('-').filter(|flag| !flag.is_empty()) else {
            run.files.push(SqlioFile::named(argument));
            continue;
        };
        if let Err((what, help)) = run.read_flag(flag, &mut after_all) {
            problems.push(Problem::new(format!("`{argument}`: {what}"), with_odd_letter(help, argument)));
        }
    }
    if let Some(name) = run.parameter_file.clone() {
        match read_file(&name) {
            Ok(text) => run.read_parameters(&name, &text, &mut problems),
            Err(error) => problems.push(Problem::new(
                format!("the parameter file `{name}` cannot be read: {error}"),
                "a line of it is: PATH THREADS MASK SIZE_IN_MB",
            )),
        }
    }
    if run.files.is_empty() && run.parameter_file.is_none() {
        run.files.push(SqlioFile::named("testfile.dat"));
    }
    for (what, help) in after_all.problems(&run) {
        problems.push(Problem::new(what, help));
    }
    for (what, help) in run.files.iter().filter_map(|file| windows_path(&file.path)) {
        problems.push(Problem::new(what, help));
    }
    if run.files.len() as u64 > THREADS_MAX {
        problems
            .push(Problem::new(format!("{} files are too many", run.files.len()), "SQLIO takes at most 256"));
    }
    problems.or(run)
}

/// Flags that can be judged only when all others are known.
#[derive(Default)]
struct AfterAll {
    /// `-d`
    drives: String,
    /// `-m`
    blocks_together: Option<String>,
}

impl AfterAll {
    /// Why they are refused, and what to write instead.
    fn problems(&self, run: &SqlioRun) -> Vec<Wrong> {
        let mut problems = Vec::new();
        if !self.drives.is_empty() {
            // `-dEF t.dat` is t.dat on both drives.
            let names = run.files.iter().map(|file| file.path.as_str());
            let names: Vec<&str> = names.filter(|name| windows_path(name).is_none()).collect();
            let name = names.first().map_or("testfile.dat", |name| name.trim_start_matches('/'));
            let drives = self.drives.chars().take(DRIVES_SHOWN);
            let instead: Vec<String> =
                drives.map(|drive| format!("/mnt/{}/{name}", drive.to_ascii_lowercase())).collect();
            problems.push((
                format!("`-d{}`: this system has no drive letters", self.drives),
                format!("name the file in a folder of each disk, such as {}", instead.join(" ")),
            ));
        }
        if let Some(flag) = &self.blocks_together {
            let count = flag.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse::<u64>();
            let block = count.ok().and_then(|count| count.checked_mul(run.block_kib));
            let instead = block.map_or_else(
                || "use a larger block (-b)".into(),
                |block| {
                    format!("use a block of the same size: -b{block} instead of -b{} -m{flag}", run.block_kib)
                },
            );
            problems.push((
                format!("`-m{flag}`: scattering one operation over several blocks is not supported"),
                instead,
            ));
        }
        problems
    }
}

impl SqlioRun {
    fn note(&mut self, text: impl Into<String>) -> Result<(), Wrong> {
        self.notes.push(text.into());
        Ok(())
    }

    fn read_flag(&mut self, flag: &str, after_all: &mut AfterAll) -> Result<(), Wrong> {
        if flag == "64" {
            return self.note("-64 has no effect: memory has 64-bit addresses here anyway");
        }
        let mut letters = flag.chars();
        let letter = letters.next().unwrap_or(' ');
        let rest = letters.as_str();
        match (letter, rest) {
            ('k', "R") => self.kind = SqlioKind::Read,
            ('k', "W") => self.kind = SqlioKind::Write,
            ('k', _) => return Err(("the kind is R or W".into(), "write -kR or -kW".into())),
            ('t', count) => self.threads = number(count, 1, THREADS_MAX)?,
            ('s', count) => self.seconds = number(count, 1, 10_000_000)?,
            ('d', "") => {
                return Err(("the letters of the drives are missing".into(), "name the files".into()));
            }
            ('d', letters) => after_all.drives.push_str(letters),
            ('R', _) => {
                return unsupported(
                    "a list of disk numbers",
                    "name the block devices as files, such as /dev/sdb (`lsblk` lists them)",
                );
            }
            ('f', "random") => self.access = SqlioAccess::Random,
            ('f', "sequential") => self.access = SqlioAccess::Sequential,
            ('f', count) => match number(count, 1, 1 << 32) {
                Ok(blocks) => self.access = SqlioAccess::Stripe(blocks),
                Err(_) => {
                    return Err((
                        format!("`{count}` is no order of blocks"),
                        "write -frandom, -fsequential, or -fN for every Nth block".into(),
                    ));
                }
            },
            ('p', cpu) => {
                let cpu = cpu.trim_start_matches('I');
                let cpu = if cpu.parse::<u32>().is_ok() { cpu } else { "0" };
                return unsupported(
                    "binding threads to a processor",
                    format!("leave it out and start `taskset -c {cpu} plimsoll disk --sqlio ...`"),
                );
            }
            ('a', _) => {
                return unsupported(
                    "binding threads to processors",
                    "leave it out and start `taskset MASK plimsoll disk --sqlio ...`, or vary `host.cpus`",
                );
            }
            ('o', count) => self.outstanding = Some(number(count, 1, 1024)?),
            ('b', size) => {
                let count = size.trim_end_matches(['b', 'B', 'i']).trim_end_matches(['k', 'K']);
                self.block_kib = number(count, 1, 65_536)?;
                if count != size {
                    return self.note(format!("-b{size}: SQLIO counts blocks in KiB; {count} KiB are used"));
                }
            }
            ('i', count) => {
                self.ios_per_run = number(count, 1, 1 << 32)?;
                return self
                    .note(format!("-i{count} has no effect: blocks follow one another over the whole file"));
            }
            ('m', blocks) => after_all.blocks_together = Some(blocks.into()),
            ('L', "S" | "P" | "Si" | "Pi") => {
                self.latency = true;
                if rest.ends_with('i') {
                    self.note("the initiation latency of -LSi is not reported: it is part of the latency")?;
                }
                if rest.starts_with('P') {
                    self.note("-LP times with the same clock as -LS")?;
                }
            }
            ('L', _) => return Err(("the timer is S or P".into(), "write -LS".into())),
            ('U', _) => {
                return self.note(format!(
                    "-{flag}: CPU use is in Plimsoll's own record (`plimsoll show`), not in this report"
                ));
            }
            ('B', "N") => self.buffering = SqlioBuffering::None,
            ('B', "Y") => self.buffering = SqlioBuffering::All,
            ('B', "H") => self.buffering = SqlioBuffering::Hardware,
            ('B', "S") => self.buffering = SqlioBuffering::Software,
            ('B', _) => return Err(("the buffering is N, Y, H or S".into(), "write -BN or -BH".into())),
            ('S', count) => self.start_block = number(count, 0, 1 << 40)?,
            ('v', _) => {
                return self.note(format!("-{flag} has no effect: blocks are chosen as in version 1.5"));
            }
            ('D', _) => return self.note(format!("-{flag} has no effect: there is no debugging output")),
            ('F', "") => return Err(("a name is missing".into(), "write -Fparam.txt".into())),
            ('F', name) => self.parameter_file = Some(name.into()),
            _ => return Err((format!("SQLIO has no flag `-{letter}`"), format!("its flags are {FLAGS}"))),
        }
        Ok(())
    }

    /// `PATH THREADS [MASK [SIZE_IN_MB]]` a line; `#` at the start is a comment.
    fn read_parameters(&mut self, name: &str, text: &str, problems: &mut Problems) {
        let before = self.files.len();
        let text = text.trim_start_matches('\u{feff}');
        for (index, line) in text.lines().enumerate() {
            let line_number = index as u32 + 1;
            let mut problem = |what: String, help: &str, word: &str| {
                let help = with_odd_letter(help.into(), word);
                problems.push(Problem::at_line(name, text, line_number, what, help));
            };
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<String> = line.split_whitespace().map(plain).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (Some(path), Some(threads)) = (words.first(), words.get(1)) else {
                problem("the number of threads is missing".into(), "write: PATH THREADS MASK SIZE_IN_MB", "");
                continue;
            };
            if words.len() > 4 {
                let what = format!("`{}` is one word too many", words[4]);
                problem(what, "a path with blanks is not possible", words[4]);
            }
            let threads = number(threads, 1, THREADS_MAX)
                .map_err(|(what, _)| problem(format!("threads: {what}"), "such as 2", threads))
                .ok();
            let mask = words.get(2).map_or(Some(0), |mask| {
                let value = match mask.strip_prefix("0x").or_else(|| mask.strip_prefix("0X")) {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => mask.parse(),
                };
                let what = format!("`{mask}` is not a processor mask");
                value.map_err(|_| problem(what, "write 0x0 for none", mask)).ok()
            });
            let size_mb = words.get(3).and_then(|size| {
                number(size, 1, 1 << 40)
                    .map_err(|(what, _)| problem(format!("size: {what}"), "in MB, such as 100", size))
                    .ok()
            });
            if mask.is_some_and(|mask| mask != 0) {
                self.notes.push(format!("{name}:{line_number}: the processor mask has no effect"));
            }
            let mask = mask.unwrap_or(0);
            self.files.push(SqlioFile { threads, mask, size_mb, ..SqlioFile::named(path) });
        }
        if self.files.len() == before {
            problems.push(Problem::new(
                format!("the parameter file `{name}` names no file"),
                "a line of it is: PATH THREADS MASK SIZE_IN_MB",
            ));
        }
        // As SQLIO does: the threads of the parameter file count, `-t` does not.
        let threads: Vec<u64> = self.files.iter().filter_map(|file| file.threads).collect();
        let sum: u64 = threads.iter().sum();
        if sum > THREADS_MAX {
            problems.push(Problem::new(
                format!("`{name}` asks for {sum} threads in all"),
                "SQLIO takes at most 256",
            ));
        }
        self.threads = sum.clamp(1, THREADS_MAX);
    }

    /// Operations one thread keeps in flight. SQLIO counts `-o` per thread and file, and a thread of the parameter file
    /// has one file, one of the command line all of them.
    fn outstanding_per_thread(&self) -> u64 {
        let files = if self.parameter_file.is_some() { 1 } else { self.files.len() as u64 };
        self.outstanding.unwrap_or(1).saturating_mul(files).clamp(1, 1024)
    }

    /// Compares the files with what the run needs of them. `size_of` gives the bytes of a file that exists. Each file that
    /// is made gets a note, as SQLIO's report has no word for it.
    ///
    /// # Errors
    /// Names of no file that do not look like one to make.
    pub fn find_sizes(&mut self, size_of: impl Fn(&str) -> Option<u64>) -> Result<(), Problems> {
        let mut problems = Problems::new();
        for file in &mut self.files {
            let present = size_of(&file.path);
            file.made = present.is_none();
            let position = if file.threads.is_none() { Position::Pasted } else { Position::Path };
            if let Some((what, help)) = missing::refuse(&file.path, position) {
                problems.push(Problem::new(what, help));
                continue;
            }
            let stated = file.size_mb.map(|size| size.saturating_mul(1 << 20));
            let needed = stated.or(file.made.then_some(SIZE_DEFAULT));
            let present = present.unwrap_or(0);
            file.expansion = needed
                .filter(|needed| *needed > present)
                .map(|needed| Expansion { needed_bytes: needed, present_bytes: present });
            // What has the name and is no storage is refused later.
            if let Some(needed) = needed.filter(|_| file.made && missing::can_be_made(&file.path)) {
                let (path, size) = (&file.path, quantity::bytes(needed));
                self.notes.push(format!("`{path}` does not exist: it is made with {size}, and kept"));
            }
        }
        problems.or(())
    }

    /// The settings of the disk workload.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::defaults(SETTINGS);
        let block = self.block_kib * 1024;
        let files = |files: &[SqlioFile]| {
            Level::List(files.iter().map(|file| Level::Text(file.path.clone())).collect())
        };
        let size = |file: &SqlioFile| file.size_mb.map(|size| Level::Bytes(size.saturating_mul(1 << 20)));
        if self.parameter_file.is_some() && self.files.len() > 1 {
            // Each file has threads of its own, which work on no other.
            let jobs = self.files.chunks(1).map(|chunk| {
                let mut own = vec![(settings::FILES.name.to_string(), files(chunk))];
                for file in chunk {
                    own.push((settings::THREADS.name.into(), Level::Count(file.threads.unwrap_or(1))));
                    own.extend(size(file).map(|size| (settings::SIZE.name.to_string(), size)));
                }
                Level::Text(jobs::write("sqlio", &own))
            });
            settings.set(settings::JOBS.name, Level::List(jobs.collect()));
        } else {
            settings.set(settings::FILES.name, files(&self.files));
            settings.set(settings::THREADS.name, Level::Count(self.threads));
            if let Some(size) = self.files.first().and_then(size) {
                settings.set(settings::SIZE.name, size);
            }
        }
        if self.start_block > 0 {
            settings.set(settings::OFFSET.name, Level::Bytes(block.saturating_mul(self.start_block)));
        }
        let read_percent = if self.kind == SqlioKind::Read { 100.0 } else { 0.0 };
        settings.set(settings::READ_PERCENT.name, Level::Percent(read_percent));
        settings.set(settings::BLOCK_SIZE.name, Level::Bytes(block));
        settings.set(settings::OUTSTANDING.name, Level::Count(self.outstanding_per_thread()));
        match self.access {
            SqlioAccess::Random => settings.set(settings::ACCESS.name, Access::Random.level()),
            SqlioAccess::Sequential => settings.set(settings::ACCESS.name, Access::Sequential.level()),
            SqlioAccess::Stripe(blocks) => {
                settings.set(settings::ACCESS.name, Access::Sequential.level());
                settings.set(settings::STRIDE.name, Level::Bytes(block.saturating_mul(blocks)));
            }
        }
        let (direct, write_through) = match self.buffering {
            SqlioBuffering::None => (true, true),
            SqlioBuffering::Hardware => (true, false),
            SqlioBuffering::Software => (false, true),
            SqlioBuffering::All => (false, false),
        };
        settings.set(settings::CACHE.name, if direct { Cache::Direct } else { Cache::PageCache }.level());
        settings
            .set(settings::WRITE_THROUGH.name, Level::Flag(write_through && self.kind == SqlioKind::Write));
        settings.set(settings::KEEP.name, Level::Flag(true));
        settings
    }

    /// The settings of the load: SQLIO measures from its first operation.
    pub fn load(&self) -> Settings {
        Load::settings(0, self.seconds * SECOND)
    }
}

#[cfg(test)]
mod tests;
