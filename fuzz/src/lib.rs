//! What the targets share: the vocabulary of the whole program, a folder to write a fuzzed file into, and an agent of the
//! metadirectory that reads one.

use std::path::{Path, PathBuf};

use metadir::agent::{Agent, ExportedObject, Imported, Names};
use metadir::config::AgentConfig;
use metadir::index_key::IndexKey;
use metadir::hologram::{Attribute, Hologram};
use metadir::object::Change;
use model::Vocabulary;

/// Every workload, source and factor of this build, as `plimsoll` itself composes them.
pub fn vocabulary() -> Vocabulary {
    let registry = engine::session::Registry {
        workloads: workloads::KINDS,
        sources: counters::SOURCES,
        factors: factors::FACTORS,
        target_group: factors::target_group::TARGET_GROUP,
        carry_out: factors::undo::carry_out,
        watched: counters::perfmon::watched,
        exporter: counters::scrape::check,
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
