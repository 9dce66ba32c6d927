//! Marks at the beginning of a file, and line ends.

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
