//! The configuration file of a long-lived process, which is read again when it changed.

use std::os::unix::fs::MetadataExt as _;

use metadir::config::Config;

use super::super::metadir::{parse, read_configuration};
use crate::carry_out::Failure;

/// What differs after a change.
type Signature = (u64, u64, u64, i64, i64);

fn signature(path: &str) -> Option<Signature> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec()))
}

/// What became of the file.
pub(super) enum Reloaded {
    /// It is the same, or is being written.
    Same,
    /// It changed, and is valid.
    Valid(Box<Config>),
    /// It changed, and is not valid.
    Broken(Failure),
}

/// A configuration file, with its last valid text.
pub(super) struct ConfigurationFile {
    path: String,
    /// The last valid text.
    text: String,
    store: metadir::config::StoreConfig,
    /// The signature of the file that was read.
    known: Option<Signature>,
    /// The signature at the last look.
    seen: Option<Signature>,
}

impl ConfigurationFile {
    pub(super) fn open(path: &str) -> Result<ConfigurationFile, Failure> {
        let known = signature(path);
        let text = read_configuration(path)?;
        let store = parse(path, &text)?.store;
        Ok(ConfigurationFile { path: path.into(), text, store, known, seen: known })
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The last valid configuration.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        parse(&self.path, &self.text)
    }

    /// Reads the file if it changed and was the same at two looks: it may be written at the moment.
    pub(super) fn reload(&mut self) -> Reloaded {
        let now = signature(&self.path);
        let is_settled = std::mem::replace(&mut self.seen, now) == now;
        if now == self.known || !is_settled {
            return Reloaded::Same;
        }
        self.known = now;
        match read_configuration(&self.path).and_then(|text| Ok((parse(&self.path, &text)?, text))) {
            Ok((config, _)) if config.store.database != self.store.database => Reloaded::Broken(
                Failure::usage("error: [store] names another store\n  start serve again to use it"),
            ),
            Ok((config, _)) if config.serve.schedules.is_empty() => Reloaded::Broken(Failure::usage(
                "error: there is no [[schedule]]\n  stop serve if nothing is to run",
            )),
            Ok((config, text)) => {
                self.text = text;
                Reloaded::Valid(Box::new(config))
            }
            Err(failure) => Reloaded::Broken(failure),
        }
    }
}
