//! A file of a server configuration export of MIM, with a metaverse and an agent in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use connectors::mim::import;

fuzz_target!(|bytes: &[u8]| {
    let Ok(import) = import(&[("MV.XML".to_string(), bytes.to_vec())]) else { return };
    // Whatever the export holds, the file is TOML: what is wrong with it are rules, not its syntax.
    let table = import.configuration.parse::<toml::Table>();
    assert!(table.is_ok(), "{table:?}\n{}", import.configuration);
    if let Err(mistakes) = connectors::parse(&import.configuration) {
        assert!(import.notes.len() >= mistakes.len());
    }
});
