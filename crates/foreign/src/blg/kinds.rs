//! Types of counters, and how their displayed values are calculated from raw ones.
//!
//! The types are those of `winperf.h`. The formulas are those that Microsoft documents for each type ("Counter Types").

/// How a value is calculated. N and D are the first and second raw value of two samples, F the ticks per second of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// N of one sample.
    Raw,
    /// ΔN.
    Delta,
    /// ΔN / (ΔD / F).
    Rate,
    /// 100 ΔN / ΔD.
    Percent,
    /// 100 (1 - ΔN / ΔD), at least 0.
    Idle,
    /// ΔN / ΔD.
    Queue,
    /// ΔN / F / ΔD, where D counts operations; 0 without operations.
    AverageTime,
    /// ΔN / ΔD, where D counts operations; 0 without operations.
    AverageBulk,
    /// 100 N / D of one sample.
    Fraction,
    /// (D - N) / F of one sample.
    Elapsed,
    /// 100 ΔN / (ΔD / F) / B, where B is the number of items.
    Multi,
    /// 100 (B - ΔN / (ΔD / F)) / B.
    MultiIdle,
    /// 100 ΔN / ΔD / B.
    MultiPercent,
    /// 100 (B - ΔN / ΔD) / B.
    MultiPercentIdle,
}

/// What a type of a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// A value that is displayed.
    Value(Kind),
    /// Not displayed: the second value of the counter before, a text, or nothing.
    Hidden,
    /// Not known.
    Unknown,
}

impl Type {
    pub(super) fn of(number: u32) -> Type {
        Type::Value(match number {
            // PERF_COUNTER_RAWCOUNT(_HEX) and LARGE_RAWCOUNT(_HEX).
            0x0000_0000 | 0x0000_0100 | 0x0001_0000 | 0x0001_0100 => Kind::Raw,
            // PERF_COUNTER_DELTA, LARGE_DELTA.
            0x0040_0400 | 0x0040_0500 => Kind::Delta,
            // PERF_COUNTER_COUNTER, BULK_COUNT, PERF_SAMPLE_COUNTER.
            0x1041_0400 | 0x1041_0500 | 0x0041_0400 => Kind::Rate,
            // PERF_COUNTER_TIMER, PERF_100NSEC_TIMER, PERF_OBJ_TIME_TIMER.
            0x2041_0500 | 0x2051_0500 | 0x2061_0500 => Kind::Percent,
            // PERF_PRECISION_SYSTEM_TIMER, 100NS_TIMER, OBJECT_TIMER, PERF_SAMPLE_FRACTION.
            0x2047_0500 | 0x2057_0500 | 0x2067_0500 | 0x20c2_0400 => Kind::Percent,
            // PERF_COUNTER_TIMER_INV, PERF_100NSEC_TIMER_INV.
            0x2141_0500 | 0x2151_0500 => Kind::Idle,
            // PERF_COUNTER_QUEUELEN_TYPE, LARGE_, 100NS_ and OBJ_TIME_QUEUELEN_TYPE.
            0x0045_0400 | 0x0045_0500 | 0x0055_0500 | 0x0065_0500 => Kind::Queue,
            // PERF_AVERAGE_TIMER, PERF_AVERAGE_BULK.
            0x3002_0400 => Kind::AverageTime,
            0x4002_0500 => Kind::AverageBulk,
            // PERF_RAW_FRACTION, PERF_LARGE_RAW_FRACTION.
            0x2002_0400 | 0x2002_0500 => Kind::Fraction,
            // PERF_ELAPSED_TIME.
            0x3024_0500 => Kind::Elapsed,
            // PERF_COUNTER_MULTI_TIMER(_INV), PERF_100NSEC_MULTI_TIMER(_INV).
            0x2241_0500 => Kind::Multi,
            0x2341_0500 => Kind::MultiIdle,
            0x2251_0500 => Kind::MultiPercent,
            0x2351_0500 => Kind::MultiPercentIdle,
            // PERF_COUNTER_NODATA, PERF_COUNTER_TEXT, PERF_COUNTER_HISTOGRAM_TYPE.
            0x4000_0200 | 0x0000_0b00 | 0x8000_0000 => return Type::Hidden,
            number if is_base(number) => return Type::Hidden,
            _ => return Type::Unknown,
        })
    }
}

/// Whether a counter is the second value of the one before: PERF_COUNTER_BASE of `winperf.h`.
pub(super) fn is_base(number: u32) -> bool {
    number & 0xfdff_0000 == 0x4003_0000
}

/// What the second value of a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Second {
    /// The counter after it.
    Base,
    /// Ticks of the performance counter of the system.
    Ticks,
    /// The time of the system in units of 100 ns.
    System,
    /// The time of the object.
    Object,
}

impl Second {
    /// The field "time base" of a type.
    pub(super) fn of(kind: Kind, number: u32) -> Second {
        // PERF_SAMPLE_FRACTION and the types of a precise time have a base of their own.
        let is_base = matches!(kind, Kind::AverageTime | Kind::AverageBulk | Kind::Fraction)
            || matches!(number, 0x2047_0500 | 0x2057_0500 | 0x2067_0500 | 0x20c2_0400);
        match number & 0x0030_0000 {
            _ if is_base => Second::Base,
            0x0010_0000 => Second::System,
            0x0020_0000 => Second::Object,
            _ => Second::Ticks,
        }
    }
}

/// The raw values of a counter at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Raw {
    pub(super) first: i64,
    pub(super) second: i64,
    /// Ticks per second of the second value.
    pub(super) frequency: i64,
    /// The number of items, of a counter of several.
    pub(super) items: u32,
}

impl Kind {
    /// Whether a value needs the sample before.
    pub(super) fn is_of_two(self) -> bool {
        !matches!(self, Kind::Raw | Kind::Fraction | Kind::Elapsed)
    }

    /// The displayed value. None where the values went back, or where they are none.
    pub(super) fn value(self, raw: &Raw, before: Option<&Raw>) -> Option<f64> {
        let frequency = (raw.frequency > 0).then_some(raw.frequency as f64);
        let found = match self {
            Kind::Raw => raw.first as f64,
            Kind::Fraction => {
                let base = (raw.second > 0).then_some(raw.second as f64)?;
                100.0 * (raw.first as f64) / base
            }
            Kind::Elapsed => {
                // A counter without a start has no time since it.
                let ticks = raw.second.checked_sub(raw.first).filter(|ticks| raw.first > 0 && *ticks >= 0)?;
                ticks as f64 / frequency?
            }
            _ => {
                let before = before?;
                let first = raw.first.checked_sub(before.first).filter(|first| *first >= 0)? as f64;
                let second = raw.second.checked_sub(before.second).filter(|second| *second >= 0)? as f64;
                let items = f64::from(raw.items);
                let is_average = matches!(self, Kind::AverageTime | Kind::AverageBulk);
                if is_average && second == 0.0 {
                    // As Performance Monitor shows it.
                    return Some(0.0);
                }
                if second == 0.0 && self != Kind::Delta {
                    return None;
                }
                match self {
                    Kind::Delta => first,
                    Kind::Rate => first / (second / frequency?),
                    Kind::Percent => 100.0 * (first / second),
                    Kind::Idle => (100.0 * (1.0 - first / second)).max(0.0),
                    Kind::AverageTime => first / frequency? / second,
                    Kind::Multi => 100.0 * (first / (second / frequency?)) / items,
                    Kind::MultiIdle => 100.0 * (items - first / (second / frequency?)) / items,
                    Kind::MultiPercent => 100.0 * (first / second) / items,
                    Kind::MultiPercentIdle => 100.0 * (items - first / second) / items,
                    _ => first / second,
                }
            }
        };
        found.is_finite().then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(first: i64, second: i64) -> Raw {
        Raw { first, second, frequency: 1000, items: 4 }
    }

    #[test]
    fn each_type_has_its_formula() {
        let two = |number: u32, first: i64, second: i64| match Type::of(number) {
            Type::Value(kind) => kind.value(&raw(1000 + first, 5000 + second), Some(&raw(1000, 5000))),
            _ => None,
        };
        for (number, first, second, expected) in [
            (0x1041_0400, 30, 2000, Some(15.0)),
            (0x1041_0500, 30, 2000, Some(15.0)),
            (0x0041_0400, 30, 2000, Some(15.0)),
            (0x0040_0400, 30, 0, Some(30.0)),
            (0x2041_0500, 500, 2000, Some(25.0)),
            (0x2051_0500, 500, 2000, Some(25.0)),
            (0x2061_0500, 500, 2000, Some(25.0)),
            (0x2057_0500, 500, 2000, Some(25.0)),
            (0x20c2_0400, 1, 4, Some(25.0)),
            (0x2151_0500, 500, 2000, Some(75.0)),
            (0x2141_0500, 2001, 2000, Some(0.0)),
            (0x0055_0500, 500, 2000, Some(0.25)),
            (0x0065_0500, 5000, 2000, Some(2.5)),
            (0x3002_0400, 500, 10, Some(0.05)),
            (0x3002_0400, 0, 0, Some(0.0)),
            (0x4002_0500, 40_960, 10, Some(4096.0)),
            (0x2241_0500, 1, 2000, Some(12.5)),
            (0x2341_0500, 1, 2000, Some(87.5)),
            (0x2251_0500, 1000, 2000, Some(12.5)),
            (0x2351_0500, 1000, 2000, Some(87.5)),
            // What went back, and a window without a length.
            (0x1041_0400, -1, 2000, None),
            (0x1041_0400, 1, -1, None),
            (0x1041_0400, 1, 0, None),
            (0x2051_0500, 1, 0, None),
            // Those that are not displayed, and one that is not known.
            (0x4003_0402, 1, 1, None),
            (0x4000_0200, 1, 1, None),
            (0x1234_5678, 1, 1, None),
        ] {
            assert_eq!(two(number, first, second), expected, "{number:#x}");
        }
        for (kind, first, second, expected) in [
            (Kind::Raw, 7, 0, Some(7.0)),
            (Kind::Fraction, 1, 4, Some(25.0)),
            (Kind::Fraction, 0, 0, None),
            (Kind::Elapsed, 2000, 5000, Some(3.0)),
            (Kind::Elapsed, 0, 5000, None),
            (Kind::Rate, 1, 1, None),
        ] {
            assert_eq!(kind.value(&raw(first, second), None), expected, "{kind:?}");
        }
        assert_eq!(Kind::Rate.value(&Raw { frequency: 0, ..raw(2, 2) }, Some(&raw(1, 1))), None);
        assert_eq!(Kind::Multi.value(&Raw { items: 0, ..raw(2, 2) }, Some(&raw(1, 1))), None);
    }

    #[test]
    fn the_second_value_is_that_of_the_type() {
        for (number, expected) in [
            (0x1041_0400, Second::Ticks),
            (0x2151_0500, Second::System),
            (0x0055_0500, Second::System),
            (0x3024_0500, Second::Object),
            (0x3002_0400, Second::Base),
            (0x2002_0400, Second::Base),
            (0x2057_0500, Second::Base),
            (0x20c2_0400, Second::Base),
        ] {
            let Type::Value(kind) = Type::of(number) else { panic!("{number:#x}") };
            assert_eq!(Second::of(kind, number), expected, "{number:#x}");
        }
        assert_eq!([0x4003_0500, 0x4003_0403, 0x4203_0500].map(Type::of), [Type::Hidden; 3]);
        assert_eq!(Type::of(0x1234_5678), Type::Unknown);
    }
}
