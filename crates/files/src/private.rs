//! Folders that no other user can access.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use crate::{Directory, Identity, PRIVATE_FILE, PRIVATE_FOLDER, random_name};

/// Opens a folder with mode 0700 for this user only, and creates it and its parents if they do not exist.
///
/// # Errors
/// When another user could replace it or one of its parents. Each parent must belong to this user or to root,
/// and must not be writable by others, except with the sticky bit, like `/tmp`. The folder itself must belong
/// to this user, with mode 0700. The message names the folder and the command that corrects it.
pub fn open(path: &Path) -> io::Result<Directory> {
    if !path.is_absolute() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not an absolute path", path.display()),
        ));
    }
    let user = rustix::process::geteuid().as_raw();
    let mut so_far = PathBuf::from("/");
    let mut directory = Directory::open(&so_far)?;
    check(&directory, user, false)?;
    let names: Vec<_> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(Ok(name)),
            Component::ParentDir => Some(Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} has `..` in it", path.display()),
            ))),
            _ => None,
        })
        .collect::<io::Result<_>>()?;
    for (index, name) in names.iter().enumerate() {
        so_far.push(name);
        let is_last = index + 1 == names.len();
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("the folder {} cannot be opened: {error}", so_far.display()))
        };
        let mode = if is_last { PRIVATE_FOLDER } else { 0o755 };
        directory = match directory.open_folder(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                directory.make_folder(name, mode).map_err(named)?
            }
            // Systems have links such as /var/run; they are as safe as their owner and their folder.
            Err(error) if !is_last && is_link(&directory, name) => follow(&directory, name, user, error)?,
            opened => opened.map_err(named)?,
        };
        check(&directory, user, is_last)?;
    }
    Ok(directory)
}

fn is_link(directory: &Directory, name: &std::ffi::OsStr) -> bool {
    rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
}

/// Follows a link that belongs to root or this user, if nobody else can replace it in its folder.
fn follow(
    directory: &Directory,
    name: &std::ffi::OsStr,
    user: u32,
    error: io::Error,
) -> io::Result<Directory> {
    let link = rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    if link.st_uid != 0 && link.st_uid != user {
        return Err(error);
    }
    let real = std::fs::canonicalize(directory.path().join(name))?;
    // Each folder in the path of the target is checked like those in the path of the link.
    let mut opened = Directory::open(Path::new("/"))?;
    for part in real.components() {
        if let Component::Normal(name) = part {
            opened = opened.open_folder(name)?;
            check(&opened, user, false)?;
        }
    }
    Ok(opened)
}

fn check(directory: &Directory, user: u32, is_last: bool) -> io::Result<()> {
    let status = rustix::fs::fstat(directory)?;
    let path = directory.path().display();
    let refused = |text: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    let mode = status.st_mode & 0o7777;
    if is_last {
        if status.st_uid != user {
            return refused(format!(
                "the folder {path} belongs to user {}, not to the user {user} that runs this: remove it, \
                or `chown {user} {path}` if you trust its content",
                status.st_uid
            ));
        }
        if mode & 0o077 != 0 {
            return refused(format!(
                "the folder {path} is open to others (mode {mode:04o}): `chmod 700 {path}`"
            ));
        }
        return Ok(());
    }
    if status.st_uid != user && status.st_uid != 0 {
        return refused(format!(
            "the folder {path} belongs to user {}, who could replace its content: use another folder",
            status.st_uid
        ));
    }
    // The user's private group, which has the user's id, has no other member.
    let by_group = mode & 0o020 != 0 && status.st_gid != 0 && status.st_gid != user;
    if (mode & 0o002 != 0 || by_group) && mode & 0o1000 == 0 {
        return refused(format!(
            "the folder {path} is writable by others (mode {mode:04o}), who could replace its content: \
            `chmod go-w {path}`"
        ));
    }
    Ok(())
}

/// Creates a private file that a user named, or makes an existing one private. It is for a database that
/// opens its file by name and gives its other files the same mode. Returns its path after links were
/// followed.
///
/// # Errors
/// When it is not a regular file, belongs to another user, is reached by a link of another user, or cannot be
/// created.
pub fn file(path: &Path) -> io::Result<PathBuf> {
    let mut named = crate::locate(path)?;
    if named.found.is_none() {
        match named.directory.create_new(&named.name, PRIVATE_FILE) {
            Ok(_) => return Ok(named.path()),
            // Another process created it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => named = crate::locate(path)?,
            Err(error) => return Err(error),
        }
    }
    let Some(found) = &named.found else { return Err(io::ErrorKind::AlreadyExists.into()) };
    let status = rustix::fs::fstat(found)?;
    let refused = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return refused(format!("{} is not a regular file", path.display()));
    }
    let user = rustix::process::geteuid().as_raw();
    if status.st_uid != user && status.st_uid != 0 {
        return refused(format!(
            "{} belongs to user {}, not to the user {user} that runs this: name another file",
            path.display(),
            status.st_uid
        ));
    }
    if status.st_uid == user && status.st_mode & 0o077 != 0 {
        let file = crate::reopen(found, OFlags::RDONLY)?;
        rustix::fs::fchmod(file, Mode::from_raw_mode(status.st_mode & 0o700))?;
    }
    Ok(named.path())
}

/// A folder with an unpredictable name that only this process uses. It is removed with its content when it is
/// dropped. A folder that replaced it is never removed.
#[derive(Debug)]
pub struct OwnFolder {
    path: PathBuf,
    parent: Directory,
    name: OsString,
    identity: Identity,
    kept: bool,
}

impl OwnFolder {
    /// Creates `PREFIX-RANDOM` with mode 0700 in `parent`, which must exist.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn new(parent: &Path, prefix: &str) -> io::Result<OwnFolder> {
        let name = format!("{prefix}-{}", random_name()?);
        OwnFolder::make(Directory::open(parent)?, name.into())
    }

    /// Creates the folder that the user named, with mode 0700. Links in the path are followed as by
    /// [`crate::locate`].
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when the name exists; and when it cannot be created.
    pub fn named(path: &Path) -> io::Result<OwnFolder> {
        let named = crate::locate(path)?;
        OwnFolder::make(named.directory, named.name)
    }

    /// A folder that an earlier process created and could not remove because it was killed. The caller must
    /// know that it is this folder. It is kept unless it is removed explicitly.
    ///
    /// # Errors
    /// When there is no folder with this name.
    pub fn left(parent: Directory, name: OsString) -> io::Result<OwnFolder> {
        let identity = parent.open_folder(&name)?.identity()?;
        let path = parent.path().join(&name);
        Ok(OwnFolder { path, parent, name, identity, kept: true })
    }

    fn make(parent: Directory, name: OsString) -> io::Result<OwnFolder> {
        rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(PRIVATE_FOLDER))?;
        let identity = parent.open_folder(&name)?.identity()?;
        let path = std::path::absolute(parent.path().join(&name))?;
        Ok(OwnFolder { path, parent, name, identity, kept: false })
    }

    /// Opens the folder.
    ///
    /// # Errors
    /// When another folder, or none, has its name.
    pub fn open(&self) -> io::Result<Directory> {
        let folder = self.parent.open_folder(&self.name)?;
        match folder.identity()? == self.identity {
            true => Ok(folder),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder when this value is dropped.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Removes the folder with its content, unless it was replaced by another one. Links in it are removed,
    /// not followed.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    pub fn remove(mut self) -> io::Result<()> {
        self.kept = true;
        self.remove_now()
    }

    fn remove_now(&self) -> io::Result<()> {
        match self.parent.open_folder(&self.name) {
            Ok(folder) if folder.identity()? == self.identity => {
                empty(&folder)?;
                // Since the check, only an empty folder could have replaced it.
                self.parent.remove_folder(&self.name)
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        if !self.kept {
            let _ = self.remove_now();
        }
    }
}

/// Removes the contents of a folder, without following links or entering other file systems.
fn empty(folder: &Directory) -> io::Result<()> {
    let device = folder.identity()?.device;
    for name in folder.names()? {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(folder, &name, flags, Mode::empty()) {
            Ok(_) => {
                let inner = folder.open_folder(&name)?;
                if inner.identity()?.device == device {
                    empty(&inner)?;
                }
                folder.remove_folder(&name)?;
            }
            Err(_) => folder.remove(&name)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use testkit::Scratch;

    #[test]
    fn a_private_folder_is_made_with_mode_0700_and_an_open_one_is_refused() {
        let scratch = Scratch::new();
        let path = std::fs::canonicalize(scratch.path()).unwrap().join("state/plimsoll");
        open(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        open(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(error.ends_with(&format!("`chmod 700 {}`", path.display())), "{error}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        let above = path.parent().unwrap();
        std::fs::set_permissions(above, PermissionsExt::from_mode(0o777)).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains("is writable by others"), "{error}");
        std::fs::set_permissions(above, PermissionsExt::from_mode(0o1777)).unwrap();
        open(&path).unwrap();
    }

    #[test]
    fn a_link_in_place_of_the_private_folder_is_refused() {
        let scratch = Scratch::new();
        let top = std::fs::canonicalize(scratch.path()).unwrap();
        std::fs::create_dir(top.join("other")).unwrap();
        symlink("other", top.join("plimsoll")).unwrap();
        assert!(open(&top.join("plimsoll")).is_err());
    }

    #[test]
    fn a_private_file_is_made_and_one_that_others_may_read_is_made_private() {
        let scratch = Scratch::new();
        let mode = |name: &str| std::fs::metadata(scratch.join(name)).unwrap().permissions().mode() & 0o777;
        file(&scratch.join("new")).unwrap();
        let old = scratch.file("old", "content");
        std::fs::set_permissions(&old, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(std::fs::canonicalize(file(&old).unwrap()).unwrap(), std::fs::canonicalize(&old).unwrap());
        assert_eq!((mode("new"), mode("old"), scratch.text("old")), (0o600, 0o600, "content".into()));
        symlink("nowhere", scratch.join("dangling")).unwrap();
        assert!(file(&scratch.join("dangling")).is_err() && file(scratch.path()).is_err());
        assert!(!scratch.join("nowhere").exists());
        if rustix::process::geteuid().is_root() {
            let theirs = scratch.file("theirs", "x");
            std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
            assert!(file(&theirs).unwrap_err().to_string().contains("belongs to user 65534"));
        }
    }

    #[test]
    fn a_file_that_several_create_at_once_is_one_file() {
        let scratch = Scratch::new();
        for round in 0..200 {
            let path = scratch.join(format!("{round}.db"));
            let made: Vec<io::Result<PathBuf>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| file(&path))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            made.into_iter().for_each(|made| assert_eq!(made.unwrap(), path));
        }
    }

    #[test]
    fn an_own_folder_goes_with_its_content_and_its_links_are_not_followed() {
        let scratch = Scratch::new();
        scratch.file("precious/file", "x");
        let folder = OwnFolder::new(scratch.path(), "work").unwrap();
        let path = folder.path().to_path_buf();
        std::fs::create_dir(path.join("inner")).unwrap();
        std::fs::write(path.join("inner/a"), "a").unwrap();
        symlink(scratch.join("precious"), path.join("inner/link")).unwrap();
        folder.remove().unwrap();
        assert!(!path.exists());
        assert_eq!(scratch.text("precious/file"), "x");
    }

    #[test]
    fn a_named_folder_is_made_and_one_that_is_there_is_not_taken() {
        let scratch = Scratch::new();
        let path = scratch.join("work");
        let folder = OwnFolder::named(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!((folder.path(), mode), (path.as_path(), 0o700));
        folder.open().unwrap().create_new("a", 0o600).unwrap();
        assert!(OwnFolder::named(&path).is_err());
        symlink("nowhere", scratch.join("link")).unwrap();
        assert!(OwnFolder::named(&scratch.join("link")).is_err());
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_took_the_place_of_an_own_one_is_left_alone() {
        let scratch = Scratch::new();
        let folder = OwnFolder::new(scratch.path(), "work").unwrap();
        let path = folder.path().to_path_buf();
        std::fs::rename(&path, scratch.join("moved")).unwrap();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("precious"), "x").unwrap();
        drop(folder);
        assert!(path.join("precious").exists());
    }
}
