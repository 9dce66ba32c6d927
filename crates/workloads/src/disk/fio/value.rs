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

/// A size that may be given for reads, writes and trims, when all are the same.
pub(super) fn one_size(text: &str) -> Option<u64> {
    let mut sizes = text.split(',').map(bytes);
    let first = sizes.next()??;
    sizes.all(|size| size == Some(first)).then_some(first).filter(|size| *size > 0)
}

/// `4k/70:64k/30` as a mix of this program; entries without a share divide the rest.
pub(super) fn block_mix(text: &str) -> Option<String> {
    let mut directions = text.split(',');
    let first = directions.next()?;
    if !directions.all(|direction| direction == first) {
        return None;
    }
    let parts: Option<Vec<String>> = first
        .split(':')
        .map(|part| {
            let (size, share) = part.split_once('/').unwrap_or((part, ""));
            let size = quantity::bytes(bytes(size).filter(|size| *size > 0)?);
            match share {
                "" => Some(size),
                share => share
                    .parse::<u8>()
                    .ok()
                    .filter(|share| *share <= 100)
                    .map(|share| format!("{size} {share}%")),
            }
        })
        // A share of nothing is allowed there and means never.
        .filter(|part| !part.as_ref().is_some_and(|part| part.ends_with(" 0%")))
        .collect();
    Some(parts?.join(", ")).filter(|mix| !mix.is_empty())
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

/// `none`, `sync` or `dsync`.
pub(super) fn sync(text: &str) -> Option<bool> {
    match text {
        "0" | "none" => Some(false),
        "1" | "sync" | "dsync" => Some(true),
        _ => None,
    }
}

/// `random` or `zipf:1.2`, in the words of this program.
pub(super) fn distribution(text: &str) -> Option<String> {
    match text.split_once(':') {
        None if text == "random" => Some("uniform".into()),
        None if text == "zipf" => Some("zipf 1.1".into()),
        Some(("zipf", exponent)) => {
            let exponent: f64 = exponent.parse().ok()?;
            (exponent > 0.0 && exponent <= 10.0).then(|| format!("zipf {exponent}"))
        }
        _ => None,
    }
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
        assert_eq!(one_size("4k,4k"), Some(4096));
        assert_eq!(one_size("4k,8k"), None);
        assert_eq!(block_mix("4k/70:64k/30").unwrap(), "4KiB 70%, 64KiB 30%");
        assert_eq!(block_mix("4k/0:8k/100").unwrap(), "8KiB 100%");
        assert_eq!(block_mix("4k/50:8k,64k"), None);
        assert_eq!(duration("30", 1e9), Some(30_000_000_000));
        assert_eq!(duration("5m", 1e9), Some(300_000_000_000));
        assert_eq!(duration("500", 1e3), Some(500_000));
        assert_eq!(duration("4294967295d", 1e9), None);
        assert_eq!(file_names("/a:/b\\:c"), ["/a", "/b:c"]);
    }
}
