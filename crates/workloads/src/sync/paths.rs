//! The devices of the paths of a store, as facts of a trial.

use std::collections::BTreeMap;
use std::path::PathBuf;

use engine::devices::{Storage, storage_of};
use model::Level;

/// For each path: `path.data` and `path.data.on`, the file system and its disk. For two different paths on the same
/// device: `path.shared.data.log`, with the device.
pub(super) fn facts(paths: &[(&'static str, PathBuf)]) -> BTreeMap<String, Level> {
    let mut facts = BTreeMap::new();
    let mut known: Vec<(&str, &PathBuf, Storage)> = Vec::new();
    for (name, path) in paths {
        facts.insert(format!("path.{name}"), Level::Text(path.display().to_string()));
        let on = match storage_of(path) {
            Ok(storage) => {
                for (other, other_path, other_storage) in &known {
                    if *other_path != path
                        && let Some(shared) = storage.shared_with(other_storage)
                    {
                        facts.insert(format!("path.shared.{other}.{name}"), Level::Text(shared));
                    }
                }
                let described = storage.describe();
                known.push((name, path, storage));
                described
            }
            Err(error) => format!("not known: {error}"),
        };
        facts.insert(format!("path.{name}.on"), Level::Text(on));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_paths_on_one_device_are_recorded() {
        let folder = testkit::Scratch::new();
        let (data, log) = (folder.join("data"), folder.join("log"));
        let facts = facts(&[("data", data.clone()), ("log", log), ("temporary", data)]);
        let names: Vec<&str> = facts.keys().map(String::as_str).collect();
        let expected = [
            "path.data",
            "path.data.on",
            "path.log",
            "path.log.on",
            "path.shared.data.log",
            "path.shared.log.temporary",
            "path.temporary",
            "path.temporary.on",
        ];
        // The same path twice is no separation that fails.
        assert_eq!(names, expected);
        let memory = super::facts(&[("data", folder.path().into()), ("log", "/dev/shm".into())]);
        let is_memory = |name: &str| memory[name].to_string().contains("which is memory");
        assert!(is_memory("path.log.on"));
        assert_eq!(memory.contains_key("path.shared.data.log"), is_memory("path.data.on"), "{memory:?}");
    }
}
