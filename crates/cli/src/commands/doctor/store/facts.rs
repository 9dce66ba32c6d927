//! The facts of a store and of the devices that keep it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ::metadir::store::inspection::{Content, Inspection, PostgresState};
use engine::devices::{Storage, storage_of};
use engine::source::HostRoot;
use rustix::fs::statvfs;

/// All facts.
#[derive(Clone, Debug)]
pub(super) struct StoreFacts {
    /// The state of the store.
    pub(super) inspection: Inspection,
    /// How long the trail is kept, seconds; none for ever.
    pub(super) audit_keep_s: Option<u64>,
    /// The time, seconds since 1970.
    pub(super) now_unix_s: u64,
    /// The memory of the host of the store, bytes; none if it is another host.
    pub(super) memory_bytes: Option<u64>,
    /// Data, log and temporary files; the data first. Or why they are not known.
    pub(super) places: Result<Vec<Place>, String>,
}

/// A folder or file of a store.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// `data`, `log` or `temporary`.
    pub(super) role: &'static str,
    /// The path.
    pub(super) path: PathBuf,
    /// Whether the administrator set this path apart from the data.
    pub(super) is_separate: bool,
    /// What keeps it, or why that is not known.
    pub(super) storage: Result<Storage, String>,
    /// Free bytes for users other than root, and the size of the file system.
    pub(super) space: Option<(u64, u64)>,
}

impl StoreFacts {
    /// What the store holds.
    pub(super) fn content(&self) -> Option<&Content> {
        match &self.inspection {
            Inspection::Sqlite(state) => state.content.as_ref(),
            Inspection::Postgres(state) => state.content.as_ref(),
        }
    }

    /// Bytes of the store that hold data: without unused pages and without the write-ahead log.
    pub(super) fn used_bytes(&self) -> u64 {
        match &self.inspection {
            Inspection::Sqlite(state) => state.settings.as_ref().map_or(0, |settings| {
                settings.pages.saturating_sub(settings.free_pages) * settings.page_bytes
            }),
            Inspection::Postgres(state) => state.schema_bytes,
        }
    }
}

/// Looks at the devices of a store.
pub(super) fn look(inspection: Inspection, audit_keep_s: Option<u64>) -> StoreFacts {
    let places = match &inspection {
        Inspection::Sqlite(state) => Ok(vec![
            place("data", &state.path, false),
            place("log", &state.path, false),
            place("temporary", &state.temporary, true),
        ]),
        Inspection::Postgres(state) => places_of_server(state),
    };
    let is_here = match &inspection {
        Inspection::Sqlite(_) => true,
        Inspection::Postgres(_) => places.is_ok(),
    };
    StoreFacts {
        audit_keep_s,
        now_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        memory_bytes: is_here
            .then(|| counters::host(&HostRoot::live()).memory_bytes)
            .filter(|bytes| *bytes > 0),
        inspection,
        places,
    }
}

fn place(role: &'static str, path: &Path, is_separate: bool) -> Place {
    let storage = storage_of(path).map_err(|error| error.0);
    let space = path.ancestors().find_map(|path| match path.as_os_str().is_empty() {
        true => statvfs(".").ok(),
        false => statvfs(path).ok(),
    });
    let space = space.map(|space| (space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize));
    Place { role, path: path.to_path_buf(), is_separate, storage, space }
}

/// How far the start time of the server and that in its file may differ, seconds.
const START_TOLERANCE_S: u64 = 60;

/// The folders of a server on this host.
fn places_of_server(state: &PostgresState) -> Result<Vec<Place>, String> {
    if !state.is_local {
        return Err("the server is on another host".into());
    }
    let Some((folder, _)) = state.settings.get("data_directory") else {
        return Err("this user may not see data_directory".into());
    };
    let folder = Path::new(folder);
    // A connection to this host may be forwarded, or lead into a container.
    let file = folder.join("postmaster.pid");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let started: Option<u64> = text.lines().nth(2).and_then(|line| line.trim().parse().ok());
    if started.is_none_or(|started| started.abs_diff(state.started_unix_s) > START_TOLERANCE_S) {
        return Err(format!("{} is of another server", file.display()));
    }
    let mut places = Vec::new();
    for (_, path) in &state.tablespaces {
        places.push(match path.is_empty() {
            true => place("data", folder, false),
            false => place("data", Path::new(path), true),
        });
    }
    if places.is_empty() {
        places.push(place("data", folder, false));
    }
    let log = folder.join("pg_wal");
    let is_link = fs::symlink_metadata(&log).is_ok_and(|data| data.file_type().is_symlink());
    places.push(place("log", &fs::canonicalize(&log).unwrap_or(log), is_link));
    match state.temporary.as_slice() {
        [] => {
            let data = places.first().map_or(folder.to_path_buf(), |data| data.path.clone());
            places.push(place("temporary", &data, false));
        }
        spaces => places.extend(spaces.iter().map(|(_, path)| match path.is_empty() {
            true => place("temporary", folder, false),
            false => place("temporary", Path::new(path), true),
        })),
    }
    Ok(places)
}
