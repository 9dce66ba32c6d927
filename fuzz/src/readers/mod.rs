//! Readers of foreign data, each with what has to be true of what it read. The fuzz targets call them, and so does the test
//! `mutations` of the program.

pub mod attribute_value;
pub mod capture;
pub mod condition;
pub mod counters;
pub mod delay_control;
pub mod delimited;
pub mod diskspd;
pub mod dn;
pub mod elf;
pub mod experiment;
pub mod filter;
pub mod fio;
pub mod fixed_width;
pub mod foreign;
pub mod goal_and_quantities;
pub mod gzip;
pub mod har;
pub mod histogram_log;
pub mod hologram;
pub mod http_response;
pub mod journal;
pub mod ldap_message;
pub mod ldif;
pub mod ldif_file;
pub mod machine_messages;
pub mod metadirectory;
pub mod mim;
pub mod nats_messages;
pub mod perfmon_path;
pub mod probe_list;
pub mod record_directory;
pub mod record_trial;
pub mod scenario;
pub mod scim_answers;
pub mod scim_path;
pub mod scim_request;
pub mod set_and_vary;
pub mod sqlio;
pub mod wcat;

use std::path::{Path, PathBuf};

use metadir::agent::{Agent, ExportedObject, Imported, Names};
use metadir::config::AgentConfig;
use metadir::hologram::{Attribute, Hologram};
use metadir::index_key::IndexKey;
use metadir::object::Change;
use model::Vocabulary;

/// Every workload, source and factor of this build, as `plimsoll` itself composes them.
pub fn vocabulary() -> Vocabulary {
    let registry = engine::session::Registry {
        workloads: workloads::KINDS,
        sources: ::counters::SOURCES,
        factors: factors::FACTORS,
        target_group: factors::target_group::TARGET_GROUP,
        carry_out: factors::undo::carry_out,
        nothing_left: factors::undo::nothing_left,
        watched: ::counters::perfmon::watched,
        exporter: ::counters::scrape::check,
        machine: machines::address::name_of,
    };
    registry.vocabulary()
}

/// An empty folder of this process: in memory where there is such a place, as it is written to thousands of times a
/// second. The fuzzer never returns, so it stays until it is made again; there is one per target and process id.
pub fn folder(target: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = base.join(format!("plimsoll-fuzz-{target}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a scratch folder can be made");
    folder
}

/// Reads a text file by an agent of some settings whose anchor is `id`, in batches of one and of many: both find the same. Then
/// an object is added twice: it is there once, beside what was there before.
pub fn text_file(folder: &Path, settings: &str, file: &[u8]) {
    let path = folder.join("file");
    std::fs::write(&path, file).expect("the scratch folder can be written");
    let text = format!(
        "[store]\nsqlite = \"unused\"\n[metaverse.person]\nattributes = {{ id = \"text\" }}\n\
         [agents.text]\npath = {path:?}\nanchor = \"id\"\n{settings}"
    );
    let config = connectors::parse(&text).expect("the settings are well").agents.remove(0);
    let Ok(mut agent) = agent(&config) else { return };
    let (Ok(before), Ok(again)) = (read(agent.as_mut(), 1), read(agent.as_mut(), 1000)) else { return };
    assert_eq!(before, again);
    let id = b"zzzz".to_vec();
    let added = ExportedObject {
        change: Change::Add,
        anchor: Some(IndexKey::of_parts(std::iter::once(id.as_slice()))),
        dn: "id=zzzz".into(),
        new_dn: None,
        changed_values: Vec::new(),
        attributes: vec![(Attribute(u32::MAX), vec![id])],
        adopts: false,
        written: Vec::new(),
        image: Hologram::default(),
    };
    if before
        .iter()
        .any(|imported| matches!(imported, Imported::Object(object) if Some(object.anchor) == added.anchor))
    {
        return;
    }
    for _ in 0..2 {
        let Ok(answers) = agent.export(std::slice::from_ref(&added)) else { return };
        assert_eq!(answers, [Ok(())]);
    }
    let objects = |all: Vec<Imported>| -> Vec<_> {
        let object = |imported| match imported {
            Imported::Object(object) | Imported::Newer(object) => Some((object.anchor, object.image)),
            Imported::Gone(_) | Imported::Present(_) | Imported::Error(_) => None,
        };
        all.into_iter().filter_map(object).collect()
    };
    let mut expected = objects(before);
    // In LDIF objects have names of their own, which are shown as an attribute too.
    let all = config.attributes().ok().filter(|_| settings.contains("ldif"));
    let named = all.and_then(|all| all.iter().position(|name| name == "dn"));
    let name = named.map(|at| (Attribute(at as u32), vec![added.dn.into_bytes()]));
    let image = name.into_iter().chain(added.attributes).collect();
    expected.push((added.anchor.expect("it has one"), image));
    assert_eq!(objects(read(agent.as_mut(), 7).expect("what was written can be read")), expected);
}

/// The agent of some settings; its anchor is the attribute with the highest number.
///
/// # Errors
/// When the system cannot be read.
pub fn agent(config: &AgentConfig) -> Result<Box<dyn Agent>, metadir::agent::AgentError> {
    let mut names = Names::default();
    for (at, name) in config.attributes()?.iter().enumerate() {
        names.insert(name, Attribute(at as u32));
    }
    names.insert("id", Attribute(u32::MAX));
    config.open(&names)
}

/// All that an import finds, in batches of so many.
///
/// # Errors
/// When the system cannot be read.
pub fn read(agent: &mut dyn Agent, most: usize) -> Result<Vec<Imported>, metadir::agent::AgentError> {
    let mut import = agent.full_import()?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        import.read(most, &mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.append(&mut batch);
    }
}

/// The top directory of the repository.
///
/// # Panics
/// If the sources are not where they were built.
pub fn top() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let top = own.ancestors().find(|folder| folder.join("fuzz/corpus").is_dir());
    top.expect("the corpus is in the repository").to_path_buf()
}

/// Reads an input; panics on a fault of the reader.
pub type Reader = fn(&[u8]);

/// All readers, by the names of their targets.
pub const ALL: &[(&str, Reader)] = &[
    ("attribute_value", attribute_value::run),
    ("capture", capture::run),
    ("condition", condition::run),
    ("counters", counters::run),
    ("delay_control", delay_control::run),
    ("delimited", delimited::run),
    ("diskspd", diskspd::run),
    ("dn", dn::run),
    ("elf", elf::run),
    ("experiment", experiment::run),
    ("filter", filter::run),
    ("fio", fio::run),
    ("fixed_width", fixed_width::run),
    ("foreign", foreign::run),
    ("goal_and_quantities", goal_and_quantities::run),
    ("gzip", gzip::run),
    ("har", har::run),
    ("histogram_log", histogram_log::run),
    ("hologram", hologram::run),
    ("http_response", http_response::run),
    ("journal", journal::run),
    ("ldap_message", ldap_message::run),
    ("ldif", ldif::run),
    ("ldif_file", ldif_file::run),
    ("machine_messages", machine_messages::run),
    ("metadirectory", metadirectory::run),
    ("mim", mim::run),
    ("nats_messages", nats_messages::run),
    ("perfmon_path", perfmon_path::run),
    ("probe_list", probe_list::run),
    ("record_directory", record_directory::run),
    ("record_trial", record_trial::run),
    ("scenario", scenario::run),
    ("scim_answers", scim_answers::run),
    ("scim_path", scim_path::run),
    ("scim_request", scim_request::run),
    ("set_and_vary", set_and_vary::run),
    ("sqlio", sqlio::run),
    ("wcat", wcat::run),
];
