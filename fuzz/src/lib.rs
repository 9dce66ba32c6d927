//! What the targets share: the vocabulary of the whole program, and a folder to write a fuzzed file into.

use std::path::{Path, PathBuf};

use model::Vocabulary;

/// Every workload, source and factor of this build, as `plimsoll` itself composes them.
pub fn vocabulary() -> Vocabulary {
    Vocabulary {
        workloads: workloads::KINDS.iter().map(|kind| kind.info()).collect(),
        factors: factors::FACTORS.iter().map(|kind| kind.info).collect(),
        selectors: counters::SOURCES
            .iter()
            .map(|kind| kind.selector)
            .filter(|word| !word.is_empty())
            .collect(),
    }
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
