//! `host.page_cache`: whether a trial begins with the files in the page cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::page_cache::{DROP_CACHES, drop_all, resident_bytes};
use engine::source::Unavailable;
use model::experiment::FactorInfo;
use model::{Level, Nanos, SettingKind, quantity};

/// The factor.
pub const PAGE_CACHE: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.page_cache",
        kind: SettingKind::Choice(&["cold", "warm"]),
        about: "State of the page cache when the warm-up begins: `cold` drops it, `warm` keeps it. `on` names the file or folder to drop; default: the workload's files, or else all files on the host, which needs root.",
        resource: None,
        needs_on: false,
        parameters: &[],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open,
};

/// Limit of the files in a folder that are dropped one by one.
const FILES_MAX: usize = 100_000;

struct PageCache {
    /// The files to drop; none is the whole page cache.
    files: Option<Vec<PathBuf>>,
    level: Level,
    remark: String,
}

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    if !target.root.is_live() {
        return Err(Unavailable("only the page cache of this machine can be dropped".into()));
    }
    let files = match (&target.on, target.files.is_empty()) {
        (Some(on), _) => Some(vec![target.folder.join(on)]),
        (None, false) => Some(target.files.clone()),
        (None, true) => None,
    };
    Ok(Box::new(PageCache { files, level: Level::Text("warm".into()), remark: String::new() }))
}

/// The files below a path, without links.
fn files_below(path: &Path, found: &mut Vec<PathBuf>) -> Result<(), Unavailable> {
    let wrong = |error: std::io::Error| Unavailable(format!("{}: {error}", path.display()));
    // The path itself may be a link, because the user named it; links below it are not followed.
    let kind = fs::metadata(path).map_err(wrong)?;
    if kind.is_file() {
        found.push(path.to_path_buf());
    } else if kind.is_dir() {
        for entry in fs::read_dir(path).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            if entry.file_type().is_ok_and(|kind| kind.is_file() || kind.is_dir()) {
                files_below(&entry.path(), found)?;
            }
            if found.len() > FILES_MAX {
                return Err(Unavailable(format!(
                    "{} has more than {FILES_MAX} files: remove `on` to drop the whole page cache",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

/// Writes dirty pages and drops the cached pages of a file. Returns the number of pages that are still
/// cached.
fn drop_file(path: &Path) -> Result<u64, Unavailable> {
    let wrong = |error: std::io::Error| {
        Unavailable(format!("{} cannot be dropped from the page cache: {error}", path.display()))
    };
    let file = File::open(path).map_err(wrong)?;
    file.sync_all().map_err(wrong)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(|error| wrong(error.into()))?;
    let length = file.metadata().map_err(wrong)?.len();
    Ok(resident_bytes(&file, 0, length).unwrap_or(0))
}

impl Factor for PageCache {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        if *level != Level::Text("cold".into()) {
            return Ok(());
        }
        match &self.files {
            // Files that the workload creates may not exist yet.
            Some(files) => files.iter().filter(|path| path.exists()).try_for_each(|path| {
                rustix::fs::access(path, rustix::fs::Access::READ_OK)
                    .map_err(|error| Unavailable(format!("{}: {error}", path.display())))
            }),
            None => fs::OpenOptions::new().write(true).open(DROP_CACHES).map(|_| ()).map_err(|error| {
                Unavailable(format!(
                    "{DROP_CACHES}: {error}; run as root, or name the files to drop with `on`"
                ))
            }),
        }
    }

    fn read(&self) -> Result<Level, Unavailable> {
        Ok(self.level.clone())
    }

    /// No undo is necessary: files are cached again when they are used.
    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        Ok(Vec::new())
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        if *level != Level::Text("cold".into()) {
            self.remark = "left as it was".into();
            return Ok(0);
        }
        self.remark = match &self.files {
            None => {
                drop_all().map_err(|error| Unavailable(format!("{DROP_CACHES}: {error}")))?;
                format!("dropped for all files with {DROP_CACHES}")
            }
            Some(paths) => {
                let mut files = Vec::new();
                for path in paths {
                    files_below(path, &mut files)?;
                }
                let mut left = 0;
                for file in &files {
                    left += drop_file(file)?;
                }
                let left = match left {
                    0 => String::new(),
                    some => format!(
                        "; {} are still cached, because they are in use or were read ahead",
                        quantity::bytes(some)
                    ),
                };
                format!("dropped for {} files with posix_fadvise{left}", files.len())
            }
        };
        self.level = level.clone();
        Ok(0)
    }

    fn remark(&self) -> String {
        self.remark.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::source::HostRoot;
    use testkit::Scratch;

    fn of(on: Option<&Path>) -> Box<dyn Factor> {
        let on = on.map(|path| path.display().to_string());
        open(&FactorTarget { on, ..FactorTarget::of(HostRoot::live(), vec![std::process::id()]) }).unwrap()
    }

    #[test]
    fn what_is_cached_of_a_folder_is_dropped_and_nothing_is_lost() {
        // Not in a folder for temporary files, which may be a tmpfs.
        let folder = Scratch::inside(Path::new(env!("CARGO_MANIFEST_DIR")));
        let path = folder.file("a/b/data", vec![7; 1 << 20]);
        let file = File::open(&path).unwrap();
        let resident = || resident_bytes(&file, 0, 1 << 20);
        let mut cache = of(Some(folder.path()));
        let (cold, warm) = (Level::Text("cold".into()), Level::Text("warm".into()));
        cache.check(&cold).unwrap();
        cache.set(&warm).unwrap();
        assert_eq!((cache.read().unwrap(), cache.remark().as_str()), (warm, "left as it was"));
        assert_ne!(resident(), Some(0));
        cache.set(&cold).unwrap();
        assert_eq!(cache.read().unwrap(), cold);
        assert!(cache.remark().starts_with("dropped for 1 files with posix_fadvise"), "{}", cache.remark());
        let left = resident();
        if left.is_some() || !testkit::partly_lacks(testkit::Need::Linux(6, 5)) {
            assert!(left.unwrap() < 1 << 20, "{left:?} bytes are still cached");
        }
        assert_eq!(fs::read(&path).unwrap(), vec![7; 1 << 20]);
        assert!(cache.undo(&Level::Unlimited).unwrap().is_empty());
    }

    #[test]
    fn without_files_the_right_to_drop_everything_is_required() {
        let answer = of(None).check(&Level::Text("cold".into()));
        let may = fs::OpenOptions::new().write(true).open(DROP_CACHES).is_ok();
        assert_eq!(answer.is_ok(), may, "{answer:?}");
        of(None).check(&Level::Text("warm".into())).unwrap();
    }
}
