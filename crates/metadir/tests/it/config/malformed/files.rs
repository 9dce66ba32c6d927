//! Marks at the beginning of a file, line ends, and lines in comments.

use super::{GROUPS, init};

#[test]
fn a_byte_order_mark_tabs_and_line_ends_of_windows_are_no_mistakes() {
    for text in [init(), GROUPS.to_string()] {
        for written in [format!("\u{feff}{text}"), text.replace('\n', "\r\n"), text.replace(" = ", "\t=\t")] {
            let parsed = connectors::parse(&written);
            assert!(parsed.is_ok(), "{parsed:?}");
        }
    }
}

#[test]
fn the_schedule_in_the_comments_of_init_is_valid() {
    let is_setting =
        |line: &&str| line.starts_with('#') && line[1..].starts_with(|first: char| !first.is_whitespace());
    let text = init();
    let commented = text.lines().filter(is_setting).count();
    let used: String = text
        .lines()
        .map(|line| line.strip_prefix('#').filter(|_| is_setting(&line)).unwrap_or(line).to_string() + "\n")
        .collect();
    let config = connectors::parse(&used).unwrap();
    assert_eq!((commented, config.serve.schedules.len()), (6, 1));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}
