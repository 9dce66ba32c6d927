//! SQLIO 1.5: its command line and parameter files become a disk load, and results are printed in its own layout, so
//! that scripts which call `sqlio` and read its output keep working.

mod report;

use std::io;

use model::{Choice, Level, Load, Problem, Problems, SECOND, Settings, quantity};

pub use report::{SqlioNumbers, report};

use super::jobs;
use super::settings::{self, Access, Cache, SETTINGS, SIZE_DEFAULT};

/// Flags as `--help` of SQLIO tells them, for near words.
const FLAGS: &str = "-k -t -s -d -R -f -p -a -o -b -i -m -L -U -B -S -v -64 -F";

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
    /// Processor mask, which is told in the report and has no effect.
    pub mask: u64,
    /// Size in MB of 2^20 bytes.
    pub size_mb: Option<u64>,
    /// Whether it is made for this run, because it does not exist.
    pub made: bool,
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
    /// `-i`: told in the report, no other effect.
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
    /// What was accepted and has no effect, in sentences.
    pub notes: Vec<String>,
}

/// Reads a command line, without the program's name. `read_file` gives the text of the parameter file. All problems at
/// once, each with what to write instead.
pub fn parse(
    arguments: &[String],
    read_file: &dyn Fn(&str) -> io::Result<String>,
) -> Result<SqlioRun, Problems> {
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
        notes: Vec::new(),
    };
    let mut problems = Problems::new();
    let mut drives: Vec<char> = Vec::new();
    for argument in arguments {
        let argument = &plain(argument);
        let Some(flag) = argument.strip_prefix('-').filter(|flag| !flag.is_empty()) else {
            run.files.push(SqlioFile {
                path: argument.clone(),
                threads: None,
                mask: 0,
                size_mb: None,
                made: false,
            });
            continue;
        };
        if let Err((what, help)) = run.read_flag(flag, &mut drives) {
            problems.push(Problem::new(format!("`{argument}`: {what}"), help));
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
    if !drives.is_empty() {
        let drives: Vec<String> = drives.iter().map(|drive| format!("{drive}:")).collect();
        problems.push(Problem::new(
            format!("`-d`: there are no drive letters here ({})", drives.join(" ")),
            "name the files with their whole paths",
        ));
    }
    if run.files.is_empty() && run.parameter_file.is_none() {
        run.files.push(SqlioFile {
            path: "testfile.dat".into(),
            threads: None,
            mask: 0,
            size_mb: None,
            made: false,
        });
    }
    for file in run.files.iter().filter(|file| is_windows_path(&file.path)) {
        problems.push(Problem::new(
            format!("`{}` is a path of Windows", file.path),
            "name a file of this system, such as /data/testfile.dat",
        ));
    }
    if run.files.len() as u64 > THREADS_MAX {
        problems
            .push(Problem::new(format!("{} files are too many", run.files.len()), "SQLIO takes at most 256"));
    }
    problems.or(run)
}

/// As typed on a keyboard: a word processor makes a hyphen at the start a dash, and quotes typographic ones.
fn plain(text: &str) -> String {
    let is_quote = |letter: char| matches!(letter, '\u{201c}' | '\u{201d}' | '\u{201e}' | '"');
    let text = text.trim_matches(is_quote);
    match text.strip_prefix(['\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}']) {
        Some(flag) => format!("-{}", flag.trim_matches(is_quote)),
        None => text.into(),
    }
}

/// `C:\data`, `D:` or `\\server\share`.
fn is_windows_path(path: &str) -> bool {
    let mut letters = path.chars();
    let is_drive = letters.next().is_some_and(|letter| letter.is_ascii_alphabetic())
        && letters.next() == Some(':')
        && letters.next().is_none_or(|letter| letter == '\\' || letter == '/');
    is_drive || path.starts_with("\\\\")
}

type Wrong = (String, String);

fn number(text: &str, min: u64, max: u64) -> Result<u64, Wrong> {
    match text.parse::<u64>() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err((format!("`{text}` is not a whole number from {min} to {max}"), String::new())),
    }
}

fn unsupported(what: &str, help: &str) -> Result<(), Wrong> {
    Err((format!("{what} is not supported"), help.into()))
}

impl SqlioRun {
    fn note(&mut self, text: impl Into<String>) -> Result<(), Wrong> {
        self.notes.push(text.into());
        Ok(())
    }

    fn read_flag(&mut self, flag: &str, drives: &mut Vec<char>) -> Result<(), Wrong> {
        if flag == "64" {
            return self.note("-64 has no effect: large files need no switch here");
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
            ('d', letters) => drives.extend(letters.chars()),
            ('R', _) => return unsupported("a list of raw devices", "name the devices as files: /dev/sdb"),
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
            ('p', _) | ('a', _) => {
                return unsupported(
                    "binding threads to processors",
                    "leave it out and start Plimsoll under `taskset`, or vary `host.cpus`",
                );
            }
            ('o', count) => self.outstanding = Some(number(count, 1, 1024)?),
            ('b', count) => self.block_kib = number(count, 1, 65_536)?,
            ('i', count) => {
                self.ios_per_run = number(count, 1, 1 << 32)?;
                return self
                    .note(format!("-i{count} has no effect: blocks follow one another over the whole file"));
            }
            ('m', _) => {
                return unsupported("several blocks in one scattered operation", "use a larger block (-b)");
            }
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
                return self
                    .note(format!("-{flag}: processor use is in Plimsoll's own record, not in this report"));
            }
            ('B', "N") => self.buffering = SqlioBuffering::None,
            ('B', "Y") => self.buffering = SqlioBuffering::All,
            ('B', "H") => self.buffering = SqlioBuffering::Hardware,
            ('B', "S") => self.buffering = SqlioBuffering::Software,
            ('B', _) => return Err(("the buffering is N, Y, H or S".into(), "write -BN or -BH".into())),
            ('S', count) => self.start_block = number(count, 0, 1 << 40)?,
            ('v', _) => {
                return self.note(format!("-{flag} has no effect: the options are those of version 1.5"));
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
        for (index, line) in text.lines().enumerate() {
            let line_number = index as u32 + 1;
            let mut problem = |what: String, help: &str| {
                problems.push(Problem::at_line(name, text, line_number, what, help));
            };
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let line = plain(line);
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(path), Some(threads)) = (words.first(), words.get(1)) else {
                problem("the number of threads is missing".into(), "write: PATH THREADS MASK SIZE_IN_MB");
                continue;
            };
            if words.len() > 4 {
                problem(format!("`{}` is one word too many", words[4]), "a path with blanks is not possible");
            }
            let threads = number(threads, 1, THREADS_MAX)
                .map_err(|(what, _)| problem(format!("threads: {what}"), "such as 2"))
                .ok();
            let mask = words.get(2).map_or(Some(0), |mask| {
                let value = match mask.strip_prefix("0x").or_else(|| mask.strip_prefix("0X")) {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => mask.parse(),
                };
                value
                    .map_err(|_| problem(format!("`{mask}` is not a processor mask"), "write 0x0 for none"))
                    .ok()
            });
            let size_mb = words.get(3).and_then(|size| {
                number(size, 1, 1 << 40)
                    .map_err(|(what, _)| problem(format!("size: {what}"), "in MB, such as 100"))
                    .ok()
            });
            if mask.is_some_and(|mask| mask != 0) {
                self.notes.push(format!("{name}:{line_number}: the processor mask has no effect"));
            }
            self.files.push(SqlioFile {
                path: (*path).into(),
                threads,
                mask: mask.unwrap_or(0),
                size_mb,
                made: false,
            });
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

    /// Marks the files that do not exist as made by this run, with a note for each: SQLIO's report has no word for it.
    pub fn find_missing(&mut self, exists: impl Fn(&str) -> bool) {
        for file in &mut self.files {
            file.made = !exists(&file.path);
            if file.made {
                let bytes = file.size_mb.map_or(SIZE_DEFAULT, |size| size.saturating_mul(1 << 20));
                let (path, size) = (&file.path, quantity::bytes(bytes));
                self.notes.push(format!("`{path}` does not exist: it is made with {size}, and kept"));
            }
        }
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
