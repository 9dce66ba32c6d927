use model::wire::WireDocument;
use wire::{Analysis, Condition, Protocol, Settings};

use super::*;
use crate::table::Table;

const LDAP: &[u8] = include_bytes!("../../../wire/fixtures/ldap.pcap");
const HTTP: &[u8] = include_bytes!("../../../wire/fixtures/http.pcapng");
/// The record of a load and the capture of it.
const AGAINST: &str = include_str!("../../fixtures/wire-against.json");

fn settings() -> Settings {
    let mut settings = Settings { slow_ns: Some(1_000_000), top: 4, ..Settings::default() };
    settings.ports.set(18600, Protocol::Ldap);
    settings
}

fn document(bytes: &[u8], settings: Settings) -> WireDocument {
    Analysis::of(bytes, "capture", settings, |_, _| {}).unwrap()
}

/// Each kind of page, with a name.
fn documents() -> Vec<(&'static str, WireDocument)> {
    let selected = Settings {
        condition: Some(Condition::parse("kind = bind or kind = search").unwrap()),
        slow_ns: None,
        ..settings()
    };
    let half = &LDAP[..LDAP.len() / 2 + 3];
    vec![
        ("ldap", document(LDAP, settings())),
        ("http", document(HTTP, Settings { slow_ns: None, ..settings() })),
        ("selected", document(half, selected)),
        ("other-port", document(&LDAP[..24], settings())),
        ("against", serde_json::from_str(AGAINST).unwrap()),
    ]
}

#[test]
fn pages_of_captures() {
    for (name, document) in documents() {
        insta::assert_snapshot!(
            format!("terminal-{name}"),
            wire(&document, Terminal { width: 100, color: false, verbose: false })
        );
    }
}

#[test]
fn each_number_of_a_table_is_in_the_json() {
    for (name, document) in documents() {
        let json: Value = serde_json::from_str(&wire_json(&document)).unwrap();
        let mut known = Vec::new();
        numbers(&json, &mut known);
        let tables = tables::of_operations(&document)
            .into_iter()
            .chain(tables::rankings(&document, true))
            .chain(tables::slowest(&document))
            .chain(tables::connections(&document));
        for table in tables {
            // A rate is a count by the length of the capture.
            let rates = table.columns.iter().position(|column| column.head == "per s");
            for cell in
                table.rows.iter().flat_map(|row| row.iter().enumerate().filter(|(at, _)| Some(*at) != rates))
            {
                let alone = Table { rows: vec![vec![cell.1.clone()]], ..Table::default() };
                for (value, text) in alone.numbers() {
                    assert!(known.contains(&value), "{name}: {value} ({text}) in {}", table.title);
                }
            }
        }
        for sentence in sentences::missed_each(&document) {
            assert!(wire_json(&document).contains(&serde_json::to_string(&sentence).unwrap()));
        }
    }
}

fn numbers(value: &Value, found: &mut Vec<f64>) {
    match value {
        Value::Number(number) => found.extend(number.as_f64()),
        Value::Array(all) => all.iter().for_each(|value| numbers(value, found)),
        Value::Object(all) => all.values().for_each(|value| numbers(value, found)),
        _ => {}
    }
}

#[test]
fn a_page_has_its_charts_and_no_credentials() {
    for (name, document) in documents() {
        let page = wire_html(&document);
        // Charts need more than one interval.
        let charts = if matches!(name, "other-port" | "selected") { 0 } else { 3 };
        assert_eq!(page.matches("<figure>").count(), charts, "{name}");
        let forms = [
            page,
            wire_json(&document),
            wire(&document, Terminal { width: 80, color: false, verbose: false }),
        ];
        for secret in ["hidden-value", "wrong-password", "=secret"] {
            assert!(forms.iter().all(|form| !form.contains(secret)), "{name}: {secret}");
        }
    }
}

#[test]
fn an_operation_is_a_line_in_each_format() {
    let mut lines = vec![wire_operation_head(), wire_operation_csv_head().to_string()];
    Analysis::of(LDAP, "", settings(), |operation, begin_ns| {
        let of = operation.document(begin_ns);
        if matches!(of.kind.as_str(), "modrdn" | "compare") || of.filter.contains("mail") {
            lines.extend([wire_operation_text(&of), wire_operation_csv(&of), wire_operation_json(&of)]);
        }
    })
    .unwrap();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_kind_of_miss_is_a_sentence() {
    let missed = model::wire::MissedKind::ALL
        .iter()
        .map(|kind| model::wire::WireMissed { kind: *kind, count: 2, bytes: 4096 })
        .collect();
    let sentences = sentences::missed_each(&WireDocument { missed, ..WireDocument::default() });
    insta::assert_snapshot!(sentences.join("\n"));
}
