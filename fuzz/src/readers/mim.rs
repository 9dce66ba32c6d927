//! A file of a server configuration export of MIM, with a metaverse and an agent in it.

use connectors::mim::import;

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(import) = import(&[("MV.XML".to_string(), bytes.to_vec())]) else { return };
    // Whatever the export holds, the file is TOML: what is wrong with it are rules, not its syntax.
    let table = import.configuration.parse::<toml::Table>();
    assert!(table.is_ok(), "{table:?}\n{}", import.configuration);
    if let Err(mistakes) = connectors::parse(&import.configuration) {
        assert!(import.notes.len() >= mistakes.len());
    }
}
