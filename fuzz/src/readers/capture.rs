//! A capture: a byte that selects what is analysed, then the file.

use wire::{Analysis, Condition, Protocol, Settings};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let mut settings = Settings { slow_ns: (first & 1 != 0).then_some(1_000_000), ..Settings::default() };
    for port in [18600, 389] {
        settings.ports.set(port, if first & 2 == 0 { Protocol::Ldap } else { Protocol::Http });
    }
    if first & 4 != 0 {
        settings.condition = Condition::parse("filter contains a and not code = 0 or path contains /").ok();
    }
    let mut count = 0;
    let analysed = Analysis::of(bytes, "", settings, |operation, begin_ns| {
        count += 1;
        assert!(
            operation.end_ns >= operation.request_ns
                || operation.time_ns() == Some(0)
                || operation.outcome.is_none()
        );
        let shown = operation.document(begin_ns);
        assert!(!report::wire_operation_text(&shown).is_empty());
        assert!(serde_json::from_str::<serde_json::Value>(&report::wire_operation_json(&shown)).is_ok());
    });
    let Ok(document) = analysed else { return };
    assert_eq!(document.kinds.iter().map(|kind| kind.operations).sum::<u64>(), count);
    let terminal = report::Terminal { width: 80, color: false, verbose: false };
    assert!(!report::wire(&document, terminal).is_empty() && !report::wire_html(&document).is_empty());
    let json = report::wire_json(&document);
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
}
