//! The binary log. Numbers are big-endian. A record begins with its kind: 0 run, 1 request, 2 user, 3 group, 4 error. A string is
//! its length, bytes and their coder (0 Latin 1, 1 UTF-16); an empty one is its length only. A cached string is a new positive
//! index and the string, or the negative index of one before. Times are milliseconds since the begin of the run.

use std::collections::HashMap;
use std::io::{BufReader, ErrorKind, Read};

use super::{INSTEAD, Log};
use crate::{Fault, LoadRun};

/// Versions whose source was compared.
const VERSIONS: [&str; 4] = ["3.12.", "3.13.", "3.14.", "3.15."];

/// Bounds of what a damaged file may say.
const STRING_BYTES_MAX: i32 = 1 << 20;
const CACHE_BYTES_MAX: usize = 64 << 20;
const ITEMS_MAX: i32 = 10_000;

/// A record of a run, whose first string is a version.
pub(super) fn recognize(head: &str) -> bool {
    let Some(rest) = head.strip_prefix("\0\0\0\0") else { return false };
    let Some(length) =
        rest.chars().next().map(|sign| sign as usize).filter(|length| (3..32).contains(length))
    else {
        return false;
    };
    let Some(version) = rest.get(1..=length) else { return false };
    version.starts_with(|sign: char| sign.is_ascii_digit())
        && version.contains('.')
        && version.bytes().all(|byte| byte.is_ascii_graphic())
        && rest[length + 1..].starts_with('\0')
}

/// Why a record ended.
enum Stop {
    /// The file ended.
    End,
    Fault(Fault),
}

struct Reader<R: Read> {
    from: BufReader<R>,
    at: u64,
    cache: HashMap<i32, String>,
    cache_bytes: usize,
}

impl<R: Read> Reader<R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Stop> {
        self.at += bytes.len() as u64;
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Stop::End,
            _ => Stop::Fault(Fault::of_file(&error)),
        })
    }

    fn damaged(&self, what: &str) -> Stop {
        Stop::Fault(Fault::at(0, format!("{what} before byte {}", self.at), "the file is damaged"))
    }

    fn int(&mut self) -> Result<i32, Stop> {
        self.bytes().map(i32::from_be_bytes)
    }

    fn flag(&mut self) -> Result<bool, Stop> {
        match self.bytes()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(self.damaged("a flag is neither 0 nor 1")),
        }
    }

    /// A number of items that follow.
    fn items(&mut self) -> Result<i32, Stop> {
        match self.int()? {
            count @ 0..=ITEMS_MAX => Ok(count),
            _ => Err(self.damaged("a list has too many items")),
        }
    }

    /// Bytes with their length before them.
    fn block(&mut self) -> Result<Vec<u8>, Stop> {
        let length = self.int()?;
        if !(0..=STRING_BYTES_MAX).contains(&length) {
            return Err(self.damaged("a text is longer than 1 MiB"));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn string(&mut self) -> Result<String, Stop> {
        let bytes = self.block()?;
        if bytes.is_empty() {
            return Ok(String::new());
        }
        match self.bytes()? {
            [0] => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
            // The order of the bytes is that of the computer: that of nearly all.
            [1] => {
                let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
                Ok(char::decode_utf16(units)
                    .map(|sign| sign.unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect())
            }
            _ => Err(self.damaged("a text has an unknown coding")),
        }
    }

    fn cached(&mut self) -> Result<String, Stop> {
        let index = self.int()?;
        if index < 0 {
            let known = index.checked_neg().and_then(|index| self.cache.get(&index));
            return known.cloned().ok_or_else(|| self.damaged("a text refers to none"));
        }
        let text = self.string()?;
        self.cache_bytes += text.len() + 64;
        if self.cache_bytes > CACHE_BYTES_MAX {
            return Err(self.damaged("the texts are larger than 64 MiB"));
        }
        self.cache.insert(index, text.clone());
        Ok(text)
    }

    fn groups(&mut self) -> Result<String, Stop> {
        let count = self.items()?;
        let mut groups = Vec::new();
        for _ in 0..count {
            let group = self.cached()?;
            // As in the text of older versions.
            groups.push(group.replace(',', " "));
        }
        Ok(groups.join(","))
    }

    /// The record of the run; its begin, milliseconds since 1970.
    fn run(&mut self, log: &mut Log) -> Result<i64, Stop> {
        let [_kind] = self.bytes()?;
        log.version = self.string()?;
        if !VERSIONS.iter().any(|version| log.version.starts_with(version)) {
            let what = format!("the binary log of Gatling {} is not understood", log.version);
            return Err(Stop::Fault(Fault::at(0, what, INSTEAD)));
        }
        log.simulation = self.string()?;
        let begin_ms = i64::from_be_bytes(self.bytes()?);
        log.description = self.string()?;
        for _ in 0..self.items()? {
            self.string()?;
        }
        for _ in 0..self.items()? {
            self.block()?;
        }
        Ok(begin_ms)
    }

    fn record(&mut self, kind: u8, begin_ms: i64, log: &mut Log) -> Result<(), Stop> {
        let time = |ms: i32| begin_ms.saturating_add(i64::from(ms));
        match kind {
            1 => {
                let (groups, name) = (self.groups()?, self.cached()?);
                let times = (time(self.int()?), time(self.int()?));
                let is_ok = self.flag()?;
                self.cached()?;
                log.add(&groups, &name, times, !is_ok);
            }
            2 => {
                self.int()?;
                let is_start = self.flag()?;
                self.int()?;
                log.user(is_start);
            }
            3 => {
                self.groups()?;
                for _ in 0..3 {
                    self.int()?;
                }
                self.flag()?;
            }
            4 => {
                self.cached()?;
                self.int()?;
                log.errors += 1;
            }
            kind => return Err(self.damaged(&format!("a record has the unknown kind {kind}"))),
        }
        Ok(())
    }
}

pub(super) fn read<R: Read>(from: R) -> Result<LoadRun, Fault> {
    let mut reader = Reader { from: BufReader::new(from), at: 0, cache: HashMap::new(), cache_bytes: 0 };
    let mut log = Log::default();
    let begin_ms = match reader.run(&mut log) {
        Ok(begin_ms) => begin_ms,
        Err(Stop::Fault(fault)) => return Err(fault),
        Err(Stop::End) => {
            return Err(Fault::at(
                0,
                "the log ends in the record of its run",
                "was the simulation stopped too early?",
            ));
        }
    };
    loop {
        let kind = match reader.bytes() {
            Ok([kind]) => kind,
            Err(Stop::End) => break,
            Err(Stop::Fault(fault)) => return Err(fault),
        };
        match reader.record(kind, begin_ms, &mut log) {
            Ok(()) => {}
            Err(Stop::End) => {
                log.notes.push("the log ends in a record; it was left out".into());
                break;
            }
            Err(Stop::Fault(fault)) if log.count > 0 => {
                log.notes.push(format!("{fault}; what follows was left out"));
                break;
            }
            Err(Stop::Fault(fault)) => return Err(fault),
        }
    }
    log.finish()
}
