//! Tests on an export with the usual parts, in `fixtures/mim`.

use super::{Count, Kind, MimError, MimImport, import};

/// The files of the export.
fn files() -> Vec<(String, Vec<u8>)> {
    [
        ("MV.XML", include_str!("../../fixtures/mim/MV.XML")),
        ("MA-1.XML", include_str!("../../fixtures/mim/MA-{11111111-AAAA-4AAA-8AAA-000000000001}.XML")),
        ("MA-2.XML", include_str!("../../fixtures/mim/MA-{22222222-BBBB-4BBB-8BBB-000000000002}.XML")),
        ("MA-3.XML", include_str!("../../fixtures/mim/MA-{33333333-CCCC-4CCC-8CCC-000000000003}.XML")),
    ]
    .map(|(name, text)| (name.to_string(), text.as_bytes().to_vec()))
    .into()
}

fn imported() -> MimImport {
    import(&files()).unwrap()
}

/// Encodes a file.
type Encode<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

/// Converted, of all.
fn of(count: Count) -> (usize, usize) {
    (count.converted, count.all)
}

#[test]
fn an_export_becomes_a_valid_configuration() {
    let import = imported();
    let expected = include_str!("../../fixtures/mim/expected.toml");
    assert_eq!(import.configuration, expected, "{}", import.configuration);
    crate::parse(&import.configuration).unwrap();
    let counts = import.counts;
    assert_eq!(
        [counts.agents, counts.import_flows, counts.export_flows, counts.joins].map(of),
        [(1, 3), (9, 9), (9, 10), (4, 5)]
    );
    assert_eq!(
        [counts.projections, counts.filters, counts.profiles, counts.scripts].map(of),
        [(1, 1), (1, 2), (4, 5), (0, 5)]
    );
}

#[test]
fn what_is_not_converted_is_listed_with_its_place() {
    let import = imported();
    let missing: Vec<String> = import
        .notes
        .iter()
        .filter(|note| note.kind == Kind::NotConverted)
        .map(|note| format!("{}: {}", note.place, note.what))
        .collect();
    assert_eq!(
        missing,
        [
            "MA-1.XML:19: the run profile \"From file\" of hr: a step reads or writes a file of its own",
            "MA-2.XML:7: the join of entry in \"Phone Book\": a rules extension chooses among several matches",
            "MA-2.XML:7: the join of entry in \"Phone Book\": object-id is an identifier of the server itself",
            "MA-3.XML:11: the filter of user in \"Active Directory\": the operator bit-on has no equivalent",
            "MA-3.XML:15: the deprovisioning of \"Active Directory\" is a rules extension",
            "MA-3.XML:20: unicodePwd of user in \"Active Directory\", from a constant of person: passwords are not carried over",
            "MA-3.XML:21: mailNickname of user in \"Active Directory\", from the rules extension function Nickname of person: it is a program",
            "MV.XML:26: accountName of person, from the rules extension function MakeAccountName of employee in \"HR\": it is a program",
            "MV.XML:50: the deletion of computer is a rules extension",
        ]
    );
    // Every part that was counted as missing has a note.
    let counts = import.counts;
    let all = [counts.import_flows, counts.export_flows, counts.joins, counts.projections, counts.filters];
    let all = all.into_iter().chain([counts.profiles, counts.scripts]);
    assert_eq!(missing.len(), all.map(|count| count.all - count.converted).sum::<usize>());
    // Passwords go nowhere.
    let text = format!("{}{:?}", import.configuration, import.notes);
    assert!(!text.contains("Chang3-me!"), "{text}");
}

#[test]
fn the_encoding_of_a_file_does_not_matter() {
    let expected = imported().configuration;
    let wide = |bytes: &[u8], order: fn(u16) -> [u8; 2]| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(order).collect::<Vec<u8>>()
    };
    let encodings: [Encode; 3] =
        [&|bytes| [&[0xef, 0xbb, 0xbf], bytes].concat(), &|bytes| wide(bytes, u16::to_le_bytes), &|bytes| {
            wide(bytes, u16::to_be_bytes)
        }];
    for encode in encodings {
        let files: Vec<(String, Vec<u8>)> =
            files().into_iter().map(|(name, bytes)| (name, encode(&bytes))).collect();
        assert_eq!(import(&files).unwrap().configuration, expected);
    }
}

#[test]
fn damaged_and_incomplete_exports_are_reported() {
    let [metaverse, agent] = [0, 1].map(|at| files()[at].clone());
    let named = |name: &str, text: &str| (name.to_string(), text.as_bytes().to_vec());
    assert_eq!(import(&[]).unwrap_err(), MimError::NoMetaverse);
    assert_eq!(import(std::slice::from_ref(&agent)).unwrap_err(), MimError::NoMetaverse);
    assert_eq!(import(&[metaverse.clone(), named("x.xml", "<other/>")]).unwrap_err(), MimError::NoAgent);
    // Entities could make a small file large.
    let entities = "<!DOCTYPE a [<!ENTITY b \"bbbbbbbb\">]><mv-data>&b;</mv-data>";
    assert!(matches!(import(&[named("MV.XML", entities)]), Err(MimError::Xml { .. })));
    let mut cut = 0;
    for file in [&metaverse, &agent] {
        for end in (0..file.1.len()).step_by(37) {
            let part = (file.0.clone(), file.1[..end].to_vec());
            cut += usize::from(import(&[part, metaverse.clone(), agent.clone()]).is_err());
        }
    }
    assert!(cut > 100, "{cut}");
}

/// An export of any contents becomes a configuration in TOML, whose texts are those of the export.
#[test]
fn foreign_texts_stay_texts() {
    let hostile = "x'\"\\\n[store]\u{1}\u{7f}${env:HOME}";
    let quoted = hostile.replace('"', "&quot;").replace('\n', "&#10;").replace('\u{1}', "&#9;");
    let files: Vec<(String, Vec<u8>)> = files()
        .into_iter()
        .map(|(name, bytes)| {
            let text = String::from_utf8(bytes).unwrap();
            let text =
                text.replace("Example \"GmbH\"", &quoted).replace("<name>HR<", &format!("<name>{quoted}<"));
            (name, text.replace("<value>Test<", &format!("<value>{quoted}<")).into_bytes())
        })
        .collect();
    let import = import(&files).unwrap();
    let config = crate::parse(&import.configuration).unwrap();
    let inbound = &config.inbound[0];
    let constant = inbound.flows.iter().find_map(|flow| match &flow.from {
        metadir::config::Source::Constant(values) => values.first(),
        _ => None,
    });
    assert_eq!(constant.map(|value| value.replace('\t', "\u{1}")).as_deref(), Some(hostile));
}
