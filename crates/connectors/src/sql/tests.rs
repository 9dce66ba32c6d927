//! Tests of the forms of values. Tests that need a database are in `tests/it/sql.rs`.

use super::database::{moment, quoted};
use super::sqlite::real;

#[test]
fn moments_are_written_as_rfc_3339_has_them() {
    for (from, to) in [
        ("2026-11-22 08:30:00+00", "2026-11-22T08:30:00Z"),
        ("2026-11-22 08:30:00.123456+00", "2026-11-22T08:30:00.123456Z"),
        ("2026-11-22 08:30:00+00:00", "2026-11-22T08:30:00Z"),
        ("2026-11-22 08:30:00", "2026-11-22T08:30:00"),
        ("2026-11-22 08:30:00Z", "2026-11-22T08:30:00Z"),
        ("2026-11-22", "2026-11-22"),
        ("infinity", "infinity"),
        ("yesterday at half past ", "yesterday at half past "),
        ("", ""),
    ] {
        assert_eq!(String::from_utf8_lossy(&moment(from.as_bytes())), to);
    }
}

#[test]
fn decimal_fractions_are_written_as_postgresql_writes_them() {
    for (number, text) in [
        (1.0, "1"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (123_456_789_012_345.0, "123456789012345"),
        (1e15, "1e+15"),
        (1.5e300, "1.5e+300"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (0.0, "0"),
        (f64::INFINITY, "Infinity"),
    ] {
        assert_eq!(real(number), text);
    }
}

#[test]
fn names_may_hold_any_letter() {
    assert_eq!(quoted("a \"b\"; DROP TABLE c"), "\"a \"\"b\"\"; DROP TABLE c\"");
}
