//! The levels of a neighbour: `none`, or loads with their rates, such as `cpu 0.5 and disk write 20MB/s`.

use std::fmt;

use model::neighbour::NONE;
use model::problem::near_word;
use model::{Level, quantity};

/// What a load of a neighbour uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cpu,
    DiskRead,
    DiskWrite,
    Memory,
    Network,
}

impl Kind {
    pub(super) fn is_disk(self) -> bool {
        matches!(self, Kind::DiskRead | Kind::DiskWrite)
    }

    /// A rate of this kind, for messages.
    fn example(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu 0.5",
            Kind::DiskRead => "disk read 50MB/s",
            Kind::DiskWrite => "disk write 50MB/s",
            Kind::Memory => "memory 2GB/s",
            Kind::Network => "network 100MB/s",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Cpu => "cpu",
            Kind::DiskRead => "disk read",
            Kind::DiskWrite => "disk write",
            Kind::Memory => "memory",
            Kind::Network => "network",
        })
    }
}

/// One load of a neighbour.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoadSpec {
    pub(super) kind: Kind,
    /// The stated rate: CPUs as [`Level::Number`], [`Level::BytesPerSecond`], or [`Level::Rate`].
    pub(super) rate: Level,
}

const KINDS: [&str; 4] = ["cpu", "disk", "memory", "network"];

/// The loads of a level; empty for `none`.
pub(super) fn parse(text: &str) -> Result<Vec<LoadSpec>, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words == [NONE] {
        return Ok(Vec::new());
    }
    let mut loads: Vec<LoadSpec> = Vec::new();
    for words in words.split(|word| *word == "and") {
        let load = load(text, words)?;
        if loads.iter().any(|known| known.kind == load.kind) {
            return Err(format!("`{text}` states {} twice: state one rate of each load", load.kind));
        }
        loads.push(load);
    }
    Ok(loads)
}

fn load(text: &str, words: &[&str]) -> Result<LoadSpec, String> {
    let (kind, rest) = match words {
        ["cpu", rest @ ..] => (Kind::Cpu, rest),
        ["disk", "write", rest @ ..] => (Kind::DiskWrite, rest),
        ["disk", "read", rest @ ..] | ["disk", rest @ ..] => (Kind::DiskRead, rest),
        ["memory", rest @ ..] => (Kind::Memory, rest),
        ["network", rest @ ..] => (Kind::Network, rest),
        [] => return Err(format!("`{text}` has a load without a name: write one such as \"cpu 0.5\"")),
        [other, ..] => {
            let near = near_word(other, KINDS.into_iter().chain([NONE]));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(format!(
                "`{other}` is not a load of a neighbour: use cpu, disk, memory, network or none{near}"
            ));
        }
    };
    if rest.is_empty() {
        return Err(format!("`{text}` has no rate for {kind}: write one such as \"{}\"", kind.example()));
    }
    let written = rest.join(" ");
    let wrong = || format!("`{written}` is not a rate of {kind}: write one such as \"{}\"", kind.example());
    let rate = match kind {
        Kind::Cpu => match written.parse() {
            Ok(cpus) if (CPUS_MIN..CPUS_MAX).contains(&cpus) => Level::Number(cpus),
            Ok(cpus) if cpus > 0.0 && cpus < CPUS_MIN => {
                return Err(format!("`{written}` CPUs are too few: state at least {CPUS_MIN}"));
            }
            _ => return Err(wrong()),
        },
        Kind::DiskRead | Kind::DiskWrite => match quantity::parse_bytes_per_s(&written) {
            Ok(bytes) => Level::BytesPerSecond(bytes),
            Err(_) => Level::Rate(quantity::parse_rate(&written).map_err(|_| {
                format!("`{written}` is not a rate of {kind}: write bytes or operations per second, such as \"{}\" or \"{kind} 200/s\"", kind.example())
            })?),
        },
        Kind::Memory | Kind::Network => {
            Level::BytesPerSecond(quantity::parse_bytes_per_s(&written).map_err(|_| wrong())?)
        }
    };
    Ok(LoadSpec { kind, rate })
}

/// The least share of a CPU that can be held evenly.
const CPUS_MIN: f64 = 0.01;
/// More than any machine has.
const CPUS_MAX: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_states_each_load_with_its_rate() {
        let load = |kind, rate| LoadSpec { kind, rate };
        for (text, expected) in [
            ("none", vec![]),
            ("cpu 1", vec![load(Kind::Cpu, Level::Number(1.0))]),
            ("disk 50MB/s", vec![load(Kind::DiskRead, Level::BytesPerSecond(5e7))]),
            ("disk read 50 MB/s", vec![load(Kind::DiskRead, Level::BytesPerSecond(5e7))]),
            ("disk write 200/s", vec![load(Kind::DiskWrite, Level::Rate(200.0))]),
            ("memory 2GB/s", vec![load(Kind::Memory, Level::BytesPerSecond(2e9))]),
            (
                " cpu 0.5  and network 1MiB/s ",
                vec![
                    load(Kind::Cpu, Level::Number(0.5)),
                    load(Kind::Network, Level::BytesPerSecond(1048576.0)),
                ],
            ),
            (
                "disk 10/s and disk write 1MB/s",
                vec![
                    load(Kind::DiskRead, Level::Rate(10.0)),
                    load(Kind::DiskWrite, Level::BytesPerSecond(1e6)),
                ],
            ),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_level_is_named_with_what_to_write() {
        for (text, expected) in [
            ("", "`` has a load without a name"),
            ("cpu 1 and", "`cpu 1 and` has a load without a name"),
            ("none and cpu 1", "`none` is not a load"),
            (
                "dsk 50MB/s",
                "`dsk` is not a load of a neighbour: use cpu, disk, memory, network or none; did you mean `disk`?",
            ),
            ("gpu", "`gpu` is not a load of a neighbour"),
            ("cpu", "`cpu` has no rate for cpu: write one such as \"cpu 0.5\""),
            ("disk write", "has no rate for disk write"),
            ("cpu much", "`much` is not a rate of cpu: write one such as \"cpu 0.5\""),
            ("cpu 50%", "`50%` is not a rate of cpu"),
            ("cpu -1", "`-1` is not a rate of cpu"),
            ("cpu NaN", "`NaN` is not a rate of cpu"),
            ("cpu inf", "`inf` is not a rate of cpu"),
            ("cpu 0.001", "`0.001` CPUs are too few: state at least 0.01"),
            ("disk 50", "`50` is not a rate of disk read: write bytes or operations per second"),
            ("memory 200/s", "`200/s` is not a rate of memory: write one such as \"memory 2GB/s\""),
            ("network 0MB/s", "`0MB/s` is not a rate of network"),
            ("cpu 1 and cpu 0.5", "states cpu twice"),
            ("disk 1/s and disk read 2/s", "states disk read twice"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_level_panics(text in "(cpu|disk|memory|network|and|none|[ .0-9MGkB/s%-]){0,8}") {
            let _ = parse(&text);
        }
    }
}
