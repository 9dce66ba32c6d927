//! Simulated hosts for tests: a copy of a tree in `fixtures/` that a test changes between reads.

#![expect(
    clippy::disallowed_methods,
    reason = "tests change a copy of a fixture, as a kernel would its own files"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::{Nanos, Readings, SECOND};

/// A host whose files a test may change. Removed when dropped.
pub(crate) struct Host {
    folder: PathBuf,
}

impl Host {
    /// A copy of `fixtures/NAME`.
    pub(crate) fn copy_of(name: &str) -> Host {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("plimsoll-host-{}-{number}", std::process::id()));
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name), &folder);
        Host { folder }
    }

    pub(crate) fn root(&self) -> HostRoot {
        HostRoot::at(&self.folder)
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.folder.join(path)).unwrap()
    }

    /// Gives a file a new content, or makes it.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Replaces a part of a file that must be there.
    pub(crate) fn replace(&self, path: &str, from: &str, to: &str) {
        let text = self.text(path);
        assert!(text.contains(from), "{path} has no {from:?}");
        self.write(path, text.replacen(from, to, 1));
    }

    /// Removes a file or folder. What is still open reads as nothing, as close to the kernel as a file can get.
    pub(crate) fn remove(&self, path: &str) {
        let path = self.folder.join(path);
        for file in files(&path) {
            fs::write(&file, "").unwrap();
        }
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
    }

    /// Every file, from the root.
    pub(crate) fn files(&self) -> Vec<String> {
        let all = files(&self.folder);
        all.iter().map(|file| file.strip_prefix(&self.folder).unwrap().to_str().unwrap().into()).collect()
    }

    /// Opens a source of this host.
    pub(crate) fn open(&self, kind: &SourceKind, selected: &[&str]) -> Probe {
        self.try_open(kind, selected).unwrap()
    }

    pub(crate) fn try_open(&self, kind: &SourceKind, selected: &[&str]) -> Result<Probe, Unavailable> {
        let selected: Vec<String> = selected.iter().map(|text| text.to_string()).collect();
        Ok(Probe { source: (kind.open)(&self.root(), &selected)?, readings: Readings::new(), now: 0 })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_path_buf()];
    }
    let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries.iter().flat_map(|entry| files(entry)).collect()
}

/// A source and the readings it fills.
pub(crate) struct Probe {
    pub(crate) source: Box<dyn Source>,
    pub(crate) readings: Readings,
    now: Nanos,
}

impl Probe {
    pub(crate) fn live(kind: &SourceKind, selected: &[&str]) -> Probe {
        let selected: Vec<String> = selected.iter().map(|text| text.to_string()).collect();
        let source = (kind.open)(&HostRoot::live(), &selected).unwrap();
        Probe { source, readings: Readings::new(), now: 0 }
    }

    /// Reads once, one second after the last time.
    pub(crate) fn read(&mut self) {
        self.read_after(SECOND);
    }

    pub(crate) fn read_after(&mut self, nanos: Nanos) {
        self.now += nanos;
        self.readings.clear();
        self.source.read(self.now, &mut self.readings).unwrap();
    }

    pub(crate) fn get(&self, metric: &str, instance: &str) -> Option<f64> {
        self.readings.get(metric, instance)
    }

    /// The values of this sample that are there, a line each, for snapshots.
    pub(crate) fn present(&self) -> String {
        let titled = self.readings.columns().iter().zip(self.readings.values());
        titled
            .filter(|(_, value)| !value.is_nan())
            .map(|(column, value)| format!("{} {}\n", column.title(), (value * 1e9).round() / 1e9))
            .collect()
    }

    /// The instances that have a value in this sample, in order.
    pub(crate) fn instances(&self, metric: &str) -> Vec<&str> {
        let titled = self.readings.columns().iter().zip(self.readings.values());
        titled
            .filter(|(column, value)| column.metric.name == metric && !value.is_nan())
            .map(|(column, _)| column.instance.as_str())
            .collect()
    }
}
