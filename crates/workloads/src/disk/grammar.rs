//! The small languages of the settings: mixes of block sizes, and distributions over the blocks.

use model::quantity;

use super::sprandom::{REGIONS_MAX, Sprandom};

/// Largest block of one operation.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Most zones of a distribution.
const ZONES_MAX: usize = 256;

/// Most numbers of a sequence, and the largest of them.
const SEQUENCE_MAX: usize = 1024;
const PLACE_MAX: u64 = 1 << 48;

/// How random operations spread.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Distribution {
    Uniform,
    /// Each block once, in random order, before any is visited again.
    Shuffle,
    Zipf {
        exponent: f64,
    },
    /// Ranks as fio draws them for `pareto`: (n - 1) u^(ln h / ln (1 - h)) with a uniform u.
    Pareto {
        h: f64,
    },
    /// Ranks as fio draws them for `normal`: the mean of 12 uniform ones, moved by up to half the deviation, a share of all.
    Normal {
        deviation: f64,
    },
    /// Consecutive parts of the blocks, each with its share of the operations. Both shares sum to 1.
    Zones(Vec<Zone>),
    /// The same with lengths in bytes; what is behind them is not used.
    Stretches(Vec<(f64, u64)>),
    /// Blocks by their numbers, again and again, or each time from behind the ones before.
    Sequence {
        places: Vec<u64>,
        moves: bool,
    },
}

/// A part of the blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Zone {
    /// Share of the operations, 0 to 1.
    pub(super) operations: f64,
    /// Share of the blocks, 0 to 1.
    pub(super) blocks: f64,
}

/// One size of a mix and its share of the operations, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BlockShare {
    pub(super) bytes: u64,
    pub(super) share: f64,
    /// I/O priority of its operations; 0 is that of the process.
    pub(super) priority: u16,
}

/// `8KiB`, or `4KiB 70%, 64KiB 30%`; sizes without a share divide what the others leave. Behind a size and its share may stand
/// the I/O priority of its operations: `4KiB 20% rt:0, 4KiB 80%`.
pub(super) fn read_blocks(text: &str) -> Result<Vec<BlockShare>, String> {
    let mut parts: Vec<(u64, Option<f64>, u16)> = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let (part, priority) = match part.rsplit_once(char::is_whitespace) {
            Some((before, last)) if last.starts_with(|letter: char| letter.is_ascii_alphabetic()) => {
                let priority = read_priority(last).ok_or_else(|| {
                    format!("`{last}` is not an I/O priority: rt:0 to rt:7, be:0 to be:7 or idle")
                })?;
                (before.trim_end(), priority)
            }
            _ => (part, 0),
        };
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
        parts.push((bytes, share, priority));
    }
    if parts.len() > 64 {
        return Err(format!("{} block sizes are too many: at most 64", parts.len()));
    }
    let given: f64 = parts.iter().filter_map(|(_, share, _)| *share).sum();
    let open = parts.iter().filter(|(_, share, _)| share.is_none()).count();
    if given > 100.0 + 1e-6 || (open == 0 && given < 100.0 - 1e-6) || (open > 0 && given > 100.0 - 1e-6) {
        return Err(format!("the shares of `{text}` do not sum to 100%"));
    }
    let rest = (100.0 - given) / open.max(1) as f64;
    Ok(parts
        .into_iter()
        .map(|(bytes, share, priority)| BlockShare { bytes, share: share.unwrap_or(rest) / 100.0, priority })
        .collect())
}

/// `rt:0`, `be:7`, `idle`, and with a hint for the device `be:0:1`, as `ioprio_set(2)` encodes them (linux/ioprio.h).
fn read_priority(text: &str) -> Option<u16> {
    const LEVELS: u16 = 8;
    const HINTS: u16 = 1 << 10;
    let mut parts = text.split(':');
    let class: u16 = match parts.next()? {
        "rt" => 1,
        "be" => 2,
        "idle" => 3,
        _ => return None,
    };
    let mut next = |below: u16| match parts.next() {
        None => Some(0),
        Some(number) => number.parse::<u16>().ok().filter(|number| *number < below),
    };
    let (level, hint) = (next(LEVELS)?, next(HINTS)?);
    parts.next().is_none().then_some(class << 13 | hint << 3 | level)
}

/// `uniform`, `shuffle`, `zipf 1.2`, `pareto 0.2`, `normal 10%`, `hot 90% in 10%`, `zones 50% in 5%, 30% in 15%, 20% in 80%`,
/// `zones 60% in 20GiB, 40% in 100GiB` or `sequence 2,0,1`, also `sequence 2,0,1 moving`.
pub(super) fn read_distribution(text: &str) -> Result<Distribution, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wrong = || format!("`{text}` is not a distribution");
    match words.as_slice() {
        ["uniform"] => Ok(Distribution::Uniform),
        ["shuffle"] => Ok(Distribution::Shuffle),
        ["zipf", exponent] => match exponent.parse::<f64>() {
            Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(Distribution::Zipf { exponent }),
            _ => Err(format!("`{exponent}` is not an exponent of a zipf distribution, above 0 and up to 10")),
        },
        ["pareto", h] => match h.parse::<f64>() {
            Ok(h) if h > 0.0 && h < 1.0 => Ok(Distribution::Pareto { h }),
            _ => Err(format!("`{h}` is not the input of a pareto distribution, above 0 and below 1")),
        },
        ["normal", deviation] => match quantity::parse_percent(deviation) {
            Ok(percent) if percent < 100.0 => Ok(Distribution::Normal { deviation: percent / 100.0 }),
            _ => Err(format!("`{deviation}` is not the deviation of a normal distribution, such as 10%")),
        },
        ["sequence", places, rest @ ..] if matches!(rest, [] | ["moving"]) => {
            let places: Option<Vec<u64>> = places.split(',').map(|place| place.parse().ok()).collect();
            match places {
                Some(places)
                    if places.len() <= SEQUENCE_MAX && places.iter().all(|place| *place <= PLACE_MAX) =>
                {
                    Ok(Distribution::Sequence { places, moves: !rest.is_empty() })
                }
                _ => Err(format!("`{text}` is not a sequence of at most {SEQUENCE_MAX} numbers of blocks")),
            }
        }
        ["hot", hot @ ..] => {
            let zone = read_zone(&hot.join(" "))?.ok_or_else(wrong)?;
            if zone.operations <= 0.0 || zone.blocks <= 0.0 || zone.blocks >= 1.0 {
                return Err(wrong());
            }
            let rest = Zone { operations: 1.0 - zone.operations, blocks: 1.0 - zone.blocks };
            Ok(Distribution::Zones(vec![zone, rest]))
        }
        ["zones", ..] if text.contains('B') => read_stretches(text).ok_or_else(wrong),
        ["zones", ..] => {
            let zones: Result<Vec<Zone>, String> = text
                .trim_start()
                .trim_start_matches("zones")
                .split(',')
                .map(|part| read_zone(part)?.ok_or_else(wrong))
                .collect();
            let zones = zones?;
            let sums = zones.iter().fold((0.0, 0.0), |(operations, blocks), zone| {
                (operations + zone.operations, blocks + zone.blocks)
            });
            if zones.len() > ZONES_MAX {
                return Err(format!("{} zones are too many: at most {ZONES_MAX}", zones.len()));
            }
            if zones.iter().any(|zone| zone.blocks <= 0.0) {
                return Err(format!("a zone of `{text}` has no blocks"));
            }
            if (sums.0 - 1.0).abs() > 1e-6 || (sums.1 - 1.0).abs() > 1e-6 {
                return Err(format!("the shares of `{text}` do not sum to 100% of operations and of blocks"));
            }
            Ok(Distribution::Zones(zones))
        }
        _ => Err(wrong()),
    }
}

/// `zones 60% in 20GiB, 40% in 100GiB`; none when it is written in another way.
fn read_stretches(text: &str) -> Option<Distribution> {
    let zones: Option<Vec<(f64, u64)>> = text
        .trim_start()
        .trim_start_matches("zones")
        .split(',')
        .map(|part| match part.split_whitespace().collect::<Vec<_>>().as_slice() {
            [operations, "in", bytes] => {
                let operations = quantity::parse_percent(operations).ok()? / 100.0;
                Some((operations, quantity::parse_bytes(bytes).ok().filter(|bytes| *bytes > 0)?))
            }
            _ => None,
        })
        .collect();
    let zones = zones.filter(|zones| zones.len() <= ZONES_MAX)?;
    let whole: f64 = zones.iter().map(|(operations, _)| operations).sum();
    ((whole - 1.0).abs() < 1e-6).then_some(Distribution::Stretches(zones))
}

/// Written blocks that repeat others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Duplicates {
    /// Share of the blocks, 0 to 1.
    pub(super) share: f64,
    /// Different blocks that are repeated; none repeats the block before.
    pub(super) set: Option<u64>,
    /// Whether all jobs repeat the same ones.
    pub(super) is_shared: bool,
}

/// `50%`, `50% of 1000 blocks` or `50% of 1000 shared blocks`.
pub(super) fn read_duplicates(text: &str) -> Option<Duplicates> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (share, set, is_shared) = match words.as_slice() {
        [share] => (share, None, false),
        [share, "of", count, "blocks"] => (share, Some(count), false),
        [share, "of", count, "shared", "blocks"] => (share, Some(count), true),
        _ => return None,
    };
    let share = quantity::parse_percent(share).ok()? / 100.0;
    let set = match set {
        Some(count) => Some(count.parse::<u64>().ok().filter(|count| *count > 0)?),
        None => None,
    };
    Some(Duplicates { share, set, is_shared })
}

/// `15% in 100 regions`.
pub(super) fn read_sprandom(text: &str) -> Option<Sprandom> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [spare, "in", regions, "regions"] = words.as_slice() else { return None };
    let spare = quantity::parse_percent(spare).ok()? / 100.0;
    let regions = regions.parse().ok().filter(|regions| (1..=REGIONS_MAX).contains(regions))?;
    (spare > 0.0 && spare < 1.0).then_some(Sprandom { spare, regions })
}

/// `0x01ff` as bytes.
pub(super) fn read_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"))?;
    let digits = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_string() };
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    is_hex.then(|| (0..digits.len()).step_by(2).map(byte).collect())?
}

/// `90% in 10%`; none when it is written in another way.
fn read_zone(text: &str) -> Result<Option<Zone>, String> {
    let share =
        |text: &str| quantity::parse_percent(text).map(|share| share / 100.0).map_err(|error| error.0);
    match text.split_whitespace().collect::<Vec<_>>().as_slice() {
        [operations, "in", blocks] => {
            Ok(Some(Zone { operations: share(operations)?, blocks: share(blocks)? }))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("shuffle", Distribution::Shuffle),
        ] {
            assert_eq!(read_distribution(text), Ok(expected));
        }
        let zones = |text: &str| match read_distribution(text) {
            Ok(Distribution::Zones(zones)) => zones
                .iter()
                .map(|zone| ((zone.operations * 100.0).round(), (zone.blocks * 100.0).round()))
                .collect(),
            _ => Vec::new(),
        };
        assert_eq!(zones("hot 90% in 10%"), [(90.0, 10.0), (10.0, 90.0)]);
        assert_eq!(
            zones("zones 50% in 5%, 30% in 15%,20% in 80%"),
            [(50.0, 5.0), (30.0, 15.0), (20.0, 80.0)]
        );
        for wrong in [
            "zipf",
            "zipf -1",
            "zipf NaN",
            "hot 90% 10%",
            "hot 90% in 0%",
            "pareto 1",
            "",
            "zones",
            "zones 50% in 5%",
            "zones 50% in 0%, 50% in 100%",
            "zones 50% in 50%, 60% in 50%",
        ] {
            assert!(read_distribution(wrong).is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = (read_blocks(&text), read_distribution(&text));
        }
    }
}
