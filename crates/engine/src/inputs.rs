//! The files that a load reads. Where other machines drive the load, this host reads each of them once, and sends it to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of files that a run sends to each machine.
pub const INPUT_BYTES_MAX: u64 = 256 << 20;

/// Where a load finds its files.
#[derive(Clone, Debug, Default)]
pub struct Inputs(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    /// On this host, as they are now.
    #[default]
    Host,
    /// On this host, as they were when the run read them first. The names of those that were read are collected.
    Kept(Arc<KeptInputs>, Arc<Mutex<BTreeSet<String>>>),
    /// In memory, from a coordinator.
    Sent(Arc<BTreeMap<String, Arc<File>>>),
}

/// A file that a load reads, or a text that one of its files refers to.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its path as the load names it, `${file:PATH}` or `${env:NAME}`.
    pub name: String,
    /// Its content.
    pub content: Arc<Vec<u8>>,
    /// Whether it is or has a secret; none if that is not known.
    pub is_secret: Option<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inputs {
    /// The files of this host.
    pub fn host() -> Inputs {
        Inputs(Source::Host)
    }

    /// The files of this host, each as it was when the run read it first. Without `kept`, as they are now.
    pub fn of_run(kept: Option<&Arc<KeptInputs>>) -> Inputs {
        Inputs(kept.map_or(Source::Host, |kept| Source::Kept(Arc::clone(kept), Arc::default())))
    }

    /// Files that a coordinator sent, by their names. There are no others.
    pub fn sent(files: BTreeMap<String, Arc<File>>) -> Inputs {
        Inputs(Source::Sent(Arc::new(files)))
    }

    /// Reads a whole regular file of at most `bytes_max`.
    ///
    /// # Errors
    /// As [`files::read`]; when it was not sent; when the files of the run are too large to be sent.
    pub fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Arc<Vec<u8>>> {
        let name = path.to_string_lossy();
        match &self.0 {
            Source::Host => files::read(path, bytes_max).map(Arc::new),
            Source::Kept(kept, used) => {
                lock(used).insert(name.to_string());
                kept.file(&name, path, bytes_max)
            }
            Source::Sent(sent) => content(find(sent, &name)?).map(Arc::new),
        }
    }

    /// Reads a whole regular file of UTF-8 text of at most `bytes_max`.
    ///
    /// # Errors
    /// As [`Inputs::read`]; [`ErrorKind::InvalidData`] for one that is not UTF-8.
    pub fn read_text(&self, path: &Path, bytes_max: u64) -> io::Result<String> {
        text(Arc::unwrap_or_clone(self.read(path, bytes_max)?))
    }

    /// Where a file can be opened that another crate reads by its path. With `is_secret`, all of it is a secret.
    ///
    /// # Errors
    /// As [`Inputs::read`]. A file of this host alone is not read.
    pub fn path(&self, path: &Path, is_secret: bool) -> io::Result<PathBuf> {
        let name = path.to_string_lossy();
        match &self.0 {
            Source::Host => Ok(path.to_path_buf()),
            Source::Kept(kept, used) => {
                lock(used).insert(name.to_string());
                kept.file(&name, path, INPUT_BYTES_MAX)?;
                if is_secret {
                    self.set_secret(path, true);
                }
                Ok(path.to_path_buf())
            }
            Source::Sent(sent) => {
                Ok(PathBuf::from(format!("/proc/self/fd/{}", find(sent, &name)?.as_raw_fd())))
            }
        }
    }

    /// States whether a file that was read has secrets.
    pub fn set_secret(&self, path: &Path, is_secret: bool) {
        if let Source::Kept(kept, _) = &self.0
            && let Some(file) = lock(&kept.0).files.get_mut(&*path.to_string_lossy())
        {
            // A file may be read for several purposes.
            file.is_secret = Some(is_secret || file.is_secret == Some(true));
        }
    }

    /// Reads a secret that is the content of a file without its last line end.
    ///
    /// # Errors
    /// As [`files::secret::read_line`]; when it was not sent.
    pub fn secret(&self, path: &Path) -> io::Result<String> {
        let name = format!("${{file:{}}}", path.display());
        self.secret_text(name, || files::secret::read_line(path))
    }

    /// The value of an environment variable.
    ///
    /// # Errors
    /// When it is not set, or was not sent.
    pub fn variable(&self, name: &str) -> io::Result<String> {
        let read = || std::env::var(name).map_err(|error| io::Error::new(ErrorKind::NotFound, error));
        self.secret_text(format!("${{env:{name}}}"), read)
    }

    fn secret_text(&self, name: String, read: impl FnOnce() -> io::Result<String>) -> io::Result<String> {
        match &self.0 {
            Source::Host => read(),
            Source::Kept(kept, used) => {
                let found = kept.text(&name, read)?;
                lock(used).insert(name);
                text(Arc::unwrap_or_clone(found))
            }
            Source::Sent(sent) => text(content(find(sent, &name)?)?),
        }
    }

    /// What was read so far, as the run keeps it.
    pub fn used(&self) -> Vec<Input> {
        let Source::Kept(kept, used) = &self.0 else { return Vec::new() };
        let state = lock(&kept.0);
        let input = |name: &String| {
            let file = state.files.get(name)?;
            Some(Input { name: name.clone(), content: file.content.clone(), is_secret: file.is_secret })
        };
        lock(used).iter().filter_map(input).collect()
    }
}

fn find<'a>(sent: &'a BTreeMap<String, Arc<File>>, name: &str) -> io::Result<&'a File> {
    let missing = || io::Error::new(ErrorKind::NotFound, "the coordinator did not send it");
    sent.get(name).map(|file| &**file).ok_or_else(missing)
}

fn content(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    let wrong = |_| io::Error::new(ErrorKind::InvalidData, "the file is not text in UTF-8");
    String::from_utf8(bytes).map_err(wrong)
}

/// The files of a run, each as it was when it was read first.
#[derive(Debug, Default)]
pub struct KeptInputs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, KeptFile>,
    bytes: u64,
}

#[derive(Debug)]
struct KeptFile {
    content: Arc<Vec<u8>>,
    is_secret: Option<bool>,
    /// Where it is, and what tells it from another one; none for a text.
    place: Option<(PathBuf, Option<Stamp>)>,
}

/// Device, inode, length, and when it was changed.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.dev(), metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

impl KeptInputs {
    fn file(&self, name: &str, path: &Path, bytes_max: u64) -> io::Result<Arc<Vec<u8>>> {
        let mut state = lock(&self.0);
        if let Some(known) = state.files.get(name) {
            return Ok(known.content.clone());
        }
        let file = files::open_regular(path)?;
        let metadata = file.metadata()?;
        let left = INPUT_BYTES_MAX.saturating_sub(state.bytes);
        let mut content = Vec::new();
        file.take(bytes_max.min(left) + 1).read_to_end(&mut content)?;
        let bytes = content.len() as u64;
        if bytes > bytes_max && bytes_max <= left {
            let what = format!("it is larger than the limit of {bytes_max} bytes");
            return Err(io::Error::new(ErrorKind::FileTooLarge, what));
        }
        if bytes > left {
            return Err(too_large());
        }
        let place = Some((path.to_path_buf(), Some(stamp(&metadata))));
        Ok(state.keep(name, content, None, place))
    }

    fn text(&self, name: &str, read: impl FnOnce() -> io::Result<String>) -> io::Result<Arc<Vec<u8>>> {
        let mut state = lock(&self.0);
        if let Some(known) = state.files.get(name) {
            return Ok(known.content.clone());
        }
        let text = read()?.into_bytes();
        if state.bytes + text.len() as u64 > INPUT_BYTES_MAX {
            return Err(too_large());
        }
        Ok(state.keep(name, text, Some(true), None))
    }

    /// The paths of files that have changed since they were read, or since the last call.
    pub fn changed(&self) -> Vec<String> {
        let mut changed = Vec::new();
        for (name, file) in &mut lock(&self.0).files {
            let Some((path, known)) = &mut file.place else { continue };
            let now = std::fs::metadata(path).ok().map(|metadata| stamp(&metadata));
            if now != *known {
                *known = now;
                changed.push(name.clone());
            }
        }
        changed
    }
}

impl State {
    fn keep(
        &mut self,
        name: &str,
        content: Vec<u8>,
        is_secret: Option<bool>,
        place: Option<(PathBuf, Option<Stamp>)>,
    ) -> Arc<Vec<u8>> {
        self.bytes += content.len() as u64;
        let content = Arc::new(content);
        self.files.insert(name.into(), KeptFile { content: content.clone(), is_secret, place });
        content
    }
}

fn too_large() -> io::Error {
    let what = format!(
        "the files that the load reads are sent to the machines, and are larger than {} MiB together: remove rows and columns that the load does not use",
        INPUT_BYTES_MAX >> 20
    );
    io::Error::new(ErrorKind::FileTooLarge, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Scratch;

    #[test]
    fn a_file_stays_as_it_was_read_first_and_its_change_is_reported_once() {
        let folder = Scratch::new();
        let path = folder.file("users.csv", "name\nann\n");
        let kept = Arc::new(KeptInputs::default());
        let read = || Inputs::of_run(Some(&kept)).read_text(&path, 100).unwrap();
        assert_eq!(read(), "name\nann\n");
        assert_eq!(kept.changed(), Vec::<String>::new());
        folder.file("users.csv", "name\nbob, and others\n");
        assert_eq!(read(), "name\nann\n");
        assert_eq!(kept.changed(), [path.display().to_string()]);
        assert_eq!(kept.changed(), Vec::<String>::new());
        std::fs::remove_file(&path).unwrap();
        assert_eq!((read().as_str(), kept.changed().len()), ("name\nann\n", 1));
    }

    #[test]
    fn what_a_load_read_is_known_with_what_is_secret() {
        let folder = Scratch::new();
        let (data, key) = (folder.file("a.csv", "a\n1\n"), folder.file("key.pem", "key"));
        let other = folder.file("other.csv", "b\n2\n");
        let kept = Arc::new(KeptInputs::default());
        Inputs::of_run(Some(&kept)).read(&other, 100).unwrap();
        let inputs = Inputs::of_run(Some(&kept));
        inputs.read(&data, 100).unwrap();
        assert_eq!(inputs.path(&key, true).unwrap(), key);
        assert!(inputs.read(&folder.join("missing"), 100).is_err());
        assert!(inputs.variable("PLIMSOLL_TEST_NOT_SET").is_err());
        let used: Vec<_> = inputs.used().into_iter().map(|input| (input.name, input.is_secret)).collect();
        assert_eq!(used, [(data.display().to_string(), None), (key.display().to_string(), Some(true))]);
        assert!(Inputs::host().used().is_empty());
    }

    #[test]
    fn files_that_are_too_large_are_refused_with_what_to_do() {
        let folder = Scratch::new();
        let (half, small) = (folder.join("half"), folder.file("small", "12345"));
        for name in ["half", "half2"] {
            File::create(folder.join(name)).unwrap().set_len(INPUT_BYTES_MAX / 2 + 1).unwrap();
        }
        let inputs = Inputs::of_run(Some(&Arc::default()));
        assert!(inputs.read(&small, 4).unwrap_err().to_string().contains("limit of 4 bytes"));
        inputs.read(&half, u64::MAX).unwrap();
        let error = inputs.read(&folder.join("half2"), u64::MAX).unwrap_err().to_string();
        assert!(error.contains("larger than 256 MiB together: remove rows"), "{error}");
        inputs.read(&small, 5).unwrap();
    }

    #[test]
    fn only_what_was_sent_can_be_read() {
        let folder = Scratch::new();
        let here = folder.file("here", "of this host");
        let sent = Arc::new(File::open(folder.file("sent", "ann\n")).unwrap());
        let files = ["shop/users.csv", "${env:TOKEN}", "${file:shop/token}"];
        let inputs = Inputs::sent(files.into_iter().map(|name| (name.into(), sent.clone())).collect());
        assert_eq!(inputs.read_text(Path::new("shop/users.csv"), 9).unwrap(), "ann\n");
        assert_eq!(inputs.variable("TOKEN").unwrap(), "ann\n");
        assert_eq!(inputs.secret(Path::new("shop/token")).unwrap(), "ann\n");
        let path = inputs.path(Path::new("shop/users.csv"), false).unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "ann\n");
        for refused in [inputs.read_text(&here, 99), inputs.variable("HOME"), inputs.secret(&here)] {
            assert!(refused.unwrap_err().to_string().contains("did not send"));
        }
        assert!(inputs.path(&here, false).is_err());
    }
}
