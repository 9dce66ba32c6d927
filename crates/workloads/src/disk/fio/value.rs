//! Values as fio writes them.

use model::quantity;

/// A whole number, decimal or hexadecimal.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// 0 or 1.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

/// Bytes: `k` is 1024 and `ki` is 1000, for fio has always meant them the other way round (its `kb_base=1024`).
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    if text.starts_with("0x") {
        return number(&text);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = unit.strip_suffix('b').unwrap_or(unit);
    let (prefix, base) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, 1000_u64),
        None => (unit, 1024),
    };
    let power = match prefix {
        "" if base == 1024 => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(base.checked_pow(power)?)
}

/// A size in bytes, a percentage of the file or device, or a number of zones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Size {
    Bytes(u64),
    Percent(u64),
    Zones(u64),
}

/// `4g`, `10%`, or `2z` for zones.
pub(super) fn size(text: &str) -> Option<Size> {
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok().filter(|percent| *percent <= 100).map(Size::Percent),
        None if text.ends_with(['z', 'Z']) => text[..text.len() - 1].parse().ok().map(Size::Zones),
        None => bytes(text).map(Size::Bytes),
    }
}

/// What holds for reads, writes and trims: parts between commas, of which the last holds for those behind it; an empty one is
/// the default. None when there are more than three.
pub(super) fn directions(text: &str) -> Option<[&str; 3]> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let last = *parts.last()?;
    let part = |at: usize| parts.get(at).copied().unwrap_or(last);
    (parts.len() <= 3).then(|| [part(0), part(1), part(2)])
}

/// One size above 0.
pub(super) fn block(text: &str) -> Option<u64> {
    bytes(text).filter(|size| *size > 0)
}

/// `4k-64k`: all multiples of the smaller size, as a mix of this program, and the smallest. None when they are too many.
pub(super) fn block_range(text: &str) -> Option<(String, u64)> {
    let (min, max) = text.split_once(['-', ':'])?;
    let (min, max) = (block(min)?, block(max)?);
    let steps = max / min;
    (min <= max && steps <= 64)
        .then(|| ((1..=steps).map(|step| quantity::bytes(step * min)).collect::<Vec<_>>().join(", "), min))
}

/// `4k/70:64k/30` as a mix of this program, and its smallest size; entries without a share divide the rest.
pub(super) fn block_mix(text: &str) -> Option<(String, u64)> {
    let mut smallest = u64::MAX;
    let mut parts = Vec::new();
    for part in text.split(':') {
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
        let bytes = block(size)?;
        let size = quantity::bytes(bytes);
        let part = match share {
            "" => size,
            share => {
                let share: u8 = share.parse().ok().filter(|share| *share <= 100)?;
                // A share of nothing is allowed there and means never.
                if share == 0 {
                    continue;
                }
                format!("{size} {share}%")
            }
        };
        smallest = smallest.min(bytes);
        parts.push(part);
    }
    (!parts.is_empty()).then(|| (parts.join(", "), smallest))
}

/// A time without a unit is in `unit_ns`.
pub(super) fn duration(text: &str, unit_ns: f64) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = match unit {
        "" => unit_ns,
        "us" | "usec" => 1e3,
        "ms" | "msec" => 1e6,
        "s" | "sec" => 1e9,
        "m" | "min" => 60e9,
        "h" | "hour" | "hours" => 3600e9,
        "d" | "day" | "days" => 86_400e9,
        _ => return None,
    };
    let nanos = digits.parse::<u32>().ok().map(|value| f64::from(value) * factor)?;
    (nanos < 9e18).then_some(nanos as u64)
}

/// Names separated by `:`; `\:` is a colon within one.
pub(super) fn file_names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&':') => {
                letters.next();
                names.last_mut().into_iter().for_each(|name| name.push(':'));
            }
            ':' => names.push(String::new()),
            other => names.last_mut().into_iter().for_each(|name| name.push(other)),
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Which flag of open(2) `sync` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    None,
    /// `O_DSYNC`
    Data,
    /// `O_SYNC`
    Metadata,
}

/// `none`, `sync` or `dsync`.
pub(super) fn sync(text: &str) -> Option<Sync> {
    match text {
        "0" | "none" => Some(Sync::None),
        "dsync" => Some(Sync::Data),
        "1" | "sync" => Some(Sync::Metadata),
        _ => None,
    }
}

/// `random`, `zipf:1.2`, `zoned:50/5:30/15:20/` and the others, in the words of this program.
pub(super) fn distribution(text: &str) -> Option<String> {
    match text.split_once(':') {
        None if text == "random" => Some("uniform".into()),
        None if text == "zipf" => Some("zipf 1.1".into()),
        Some(("zipf", exponent)) => {
            let exponent: f64 = exponent.split(':').next()?.parse().ok()?;
            (exponent > 0.0 && exponent <= 10.0).then(|| format!("zipf {exponent}"))
        }
        None if text == "pareto" => Some("pareto 0.2".into()),
        // The part behind a second colon moves the middle, which is another block anyway.
        Some(("pareto", input)) => {
            let h: f64 = input.split(':').next()?.parse().ok()?;
            (h > 0.0 && h < 1.0).then(|| format!("pareto {h}"))
        }
        None if text == "normal" => Some("normal 0%".into()),
        Some(("normal", input)) => {
            let deviation: f64 = input.split(':').next()?.parse().ok()?;
            (0.0..100.0).contains(&deviation).then(|| format!("normal {deviation}%"))
        }
        Some(("sequence", places)) => {
            let places: Option<Vec<u64>> = places.split(',').map(|place| place.trim().parse().ok()).collect();
            let places = places.filter(|places| places.len() <= 64)?;
            Some(format!("sequence {}", places.iter().map(u64::to_string).collect::<Vec<_>>().join(",")))
        }
        Some(("zoned_abs", zones)) => zoned_by_bytes(zones),
        Some(("zoned", zones)) => zoned(zones),
        _ => None,
    }
}

/// `50/5:30/15:20/`: shares of the operations and of the blocks; parts without a share divide the rest.
fn zoned(text: &str) -> Option<String> {
    let mut directions = text.split(',');
    let first = directions.next()?;
    if !directions.all(|other| other == first) {
        return None;
    }
    let share = |text: &str| match text {
        "" => Some(None),
        text => text.parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share)).map(Some),
    };
    let zones: Option<Vec<(Option<f64>, Option<f64>)>> = first
        .split(':')
        .map(|zone| {
            let (operations, blocks) = zone.split_once('/').unwrap_or((zone, ""));
            Some((share(operations)?, share(blocks)?))
        })
        .collect();
    let mut zones = zones?;
    let rest = |given: Vec<Option<f64>>| {
        let open = given.iter().filter(|share| share.is_none()).count();
        let left = 100.0 - given.iter().flatten().sum::<f64>();
        if open == 0 { 0.0 } else { left / open as f64 }
    };
    let operations = rest(zones.iter().map(|zone| zone.0).collect());
    let blocks = rest(zones.iter().map(|zone| zone.1).collect());
    for zone in &mut zones {
        zone.0.get_or_insert(operations);
        zone.1.get_or_insert(blocks);
    }
    let sum = |shares: Vec<Option<f64>>| shares.into_iter().flatten().sum::<f64>();
    let is_whole = (sum(zones.iter().map(|zone| zone.0).collect()) - 100.0).abs() < 1e-6;
    // Blocks behind the last zone are not used there; here a zone without operations stands for them.
    let left = 100.0 - sum(zones.iter().map(|zone| zone.1).collect());
    if left > 1e-9 {
        zones.push((Some(0.0), Some(left)));
    }
    let is_used = zones.iter().all(|zone| zone.1.is_some_and(|blocks| blocks > 0.0));
    let words = zones.iter().map(|(operations, blocks)| {
        format!("{}% in {}%", operations.unwrap_or_default(), blocks.unwrap_or_default())
    });
    (is_whole && is_used && left > -1e-6).then(|| format!("zones {}", words.collect::<Vec<_>>().join(", ")))
}

/// `60/20g:30/100g:10/500g`: shares of the operations and lengths one behind another.
fn zoned_by_bytes(text: &str) -> Option<String> {
    let mut directions = text.split(',');
    let first = directions.next()?;
    if !directions.all(|other| other == first) {
        return None;
    }
    let zone = |zone: &str| {
        let (operations, length) = zone.split_once('/')?;
        Some((operations.parse::<u64>().ok()?, block(length)?))
    };
    let zones: Option<Vec<(u64, u64)>> = first.split(':').map(zone).collect();
    let zones = zones.filter(|zones| zones.iter().map(|zone| zone.0).sum::<u64>() == 100)?;
    let words = zones.iter().map(|(share, length)| format!("{share}% in {length}B"));
    Some(format!("zones {}", words.collect::<Vec<_>>().join(", ")))
}

/// The mean size of a mix, weighted by its shares.
pub(super) fn mean_size(mix: &str) -> f64 {
    let Ok(blocks) = super::super::grammar::read_blocks(mix) else { return 4096.0 };
    blocks.iter().map(|block| block.bytes as f64 * block.share).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_fio_writes_them() {
        for (text, expected) in [
            ("4k", Some(4096)),
            ("4K", Some(4096)),
            ("4kb", Some(4096)),
            ("4kib", Some(4000)),
            ("512", Some(512)),
            ("0x1000", Some(4096)),
            ("1g", Some(1 << 30)),
            ("10%", None),
            ("", None),
            ("99999999999999999999", None),
            ("99999999999p", None),
            ("4i", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        assert_eq!(block_mix("4k/70:64k/30"), Some(("4KiB 70%, 64KiB 30%".into(), 4096)));
        assert_eq!(block_mix("4k/0:8k/100"), Some(("8KiB 100%".into(), 8192)));
        assert_eq!(block_mix("4k/50:8k/300"), None);
        assert_eq!(block_range("4k-16k"), Some(("4KiB, 8KiB, 12KiB, 16KiB".into(), 4096)));
        assert_eq!(block_range("512-1m"), None);
        assert_eq!(block_range("8k-4k"), None);
        assert_eq!(size("10%"), Some(Size::Percent(10)));
        assert_eq!(size("101%"), None);
        assert_eq!(size("1m"), Some(Size::Bytes(1 << 20)));
        assert_eq!(directions("4k"), Some(["4k", "4k", "4k"]));
        assert_eq!(directions("4k,8k"), Some(["4k", "8k", "8k"]));
        assert_eq!(directions("8k,32k,"), Some(["8k", "32k", ""]));
        assert_eq!(directions(",8k"), Some(["", "8k", "8k"]));
        assert_eq!(directions("300,300,200"), Some(["300", "300", "200"]));
        assert_eq!(directions("1,2,3,4"), None);
        assert_eq!(
            distribution("zoned:60/10:30/20:10/70").unwrap(),
            "zones 60% in 10%, 30% in 20%, 10% in 70%"
        );
        assert_eq!(distribution("zoned:70/10:30/").unwrap(), "zones 70% in 10%, 30% in 90%");
        assert_eq!(distribution("zoned:70/10:30/20").unwrap(), "zones 70% in 10%, 30% in 20%, 0% in 70%");
        for wrong in [
            "zoned:70/10:40/90",
            "zoned:70/90:30/20",
            "zoned:a/b",
            "pareto:1",
            "normal:100",
            "sequence:a",
            "zoned_abs:60/1g",
        ] {
            assert_eq!(distribution(wrong), None, "{wrong}");
        }
        assert_eq!(duration("30", 1e9), Some(30_000_000_000));
        assert_eq!(duration("5m", 1e9), Some(300_000_000_000));
        assert_eq!(duration("500", 1e3), Some(500_000));
        assert_eq!(duration("4294967295d", 1e9), None);
        assert_eq!(file_names("/a:/b\\:c"), ["/a", "/b:c"]);
    }
}
