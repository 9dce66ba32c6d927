//! The small languages of the settings: mixes of block sizes, and distributions over the blocks.

use model::quantity;

/// Largest block of one operation.
const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// Most zones of a distribution.
const ZONES_MAX: usize = 256;

/// How random operations spread.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Distribution {
    Uniform,
    /// Each block once, in random order, before any is visited again.
    Shuffle,
    Zipf {
        exponent: f64,
    },
    /// Consecutive parts of the blocks, each with its share of the operations. Both shares sum to 1.
    Zones(Vec<Zone>),
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
}

/// `8KiB`, or `4KiB 70%, 64KiB 30%`; sizes without a share divide what the others leave.
pub(super) fn read_blocks(text: &str) -> Result<Vec<BlockShare>, String> {
    let mut parts: Vec<(u64, Option<f64>)> = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
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
        parts.push((bytes, share));
    }
    if parts.len() > 64 {
        return Err(format!("{} block sizes are too many: at most 64", parts.len()));
    }
    let given: f64 = parts.iter().filter_map(|(_, share)| *share).sum();
    let open = parts.iter().filter(|(_, share)| share.is_none()).count();
    if given > 100.0 + 1e-6 || (open == 0 && given < 100.0 - 1e-6) || (open > 0 && given > 100.0 - 1e-6) {
        return Err(format!("the shares of `{text}` do not sum to 100%"));
    }
    let rest = (100.0 - given) / open.max(1) as f64;
    Ok(parts
        .into_iter()
        .map(|(bytes, share)| BlockShare { bytes, share: share.unwrap_or(rest) / 100.0 })
        .collect())
}

/// `uniform`, `shuffle`, `zipf 1.2`, `hot 90% in 10%` or `zones 50% in 5%, 30% in 15%, 20% in 80%`.
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
        ["hot", hot @ ..] => {
            let zone = read_zone(&hot.join(" "))?.ok_or_else(wrong)?;
            if zone.operations <= 0.0 || zone.blocks <= 0.0 || zone.blocks >= 1.0 {
                return Err(wrong());
            }
            let rest = Zone { operations: 1.0 - zone.operations, blocks: 1.0 - zone.blocks };
            Ok(Distribution::Zones(vec![zone, rest]))
        }
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
