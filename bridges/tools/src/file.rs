//! Files beneath the root: opened folder by folder from the root's descriptor, following no link.

use crate::path::{PathError, Target};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

/// Directories are only gone through, so search permission is enough where the system can tell the two apart.
#[cfg(any(target_os = "linux", target_os = "android"))]
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// A folder by descriptor: it stays this folder when its name is given to something else.
pub(crate) fn open_root(path: &Path) -> std::io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, DIRECTORY, Mode::empty())?)
}

/// A folder beneath the root, entered step by step.
pub(crate) fn open_folder(root: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let mut at = rustix::fs::openat(root, ".", DIRECTORY, Mode::empty())?;
    for folder in path {
        at = rustix::fs::openat(&at, folder, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(at)
}

/// The folder a target is in, and its name there. Missing folders are made if asked for.
fn parent(root: &OwnedFd, target: &Target, create: bool) -> Result<(OwnedFd, OsString), PathError> {
    let Some(name) = target.path.file_name() else {
        return Err(PathError::IsDirectory { path: target.named.clone() });
    };
    let mut at = root.try_clone().map_err(|error| target.error(error))?;
    for folder in target.path.parent().into_iter().flat_map(Path::iter) {
        let open = || rustix::fs::openat(&at, folder, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        let next = match open() {
            Err(rustix::io::Errno::NOENT) if create => {
                match rustix::fs::mkdirat(&at, folder, Mode::from_raw_mode(0o777)) {
                    // Somebody else may make the same folder at the same time.
                    Ok(()) | Err(rustix::io::Errno::EXIST) => open(),
                    Err(error) => Err(error),
                }
            }
            other => other,
        };
        at = next.map_err(|error| target.error(error))?;
    }
    Ok((at, name.to_owned()))
}

/// What is there, if anything; only a regular file is accepted.
fn look(folder: &OwnedFd, name: &OsStr, target: &Target) -> Result<Option<Stat>, PathError> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => regular(&stat, target).map(|()| Some(stat)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(target.error(error)),
    }
}

fn regular(stat: &Stat, target: &Target) -> Result<(), PathError> {
    let path = target.named.clone();
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(PathError::IsDirectory { path }),
        FileType::Symlink => return Err(PathError::Link { path }),
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    };
    Err(PathError::Special { path, kind })
}

/// The bytes of a regular file of at most `limit` bytes.
pub(crate) fn read(root: &OwnedFd, target: &Target, limit: u64) -> Result<Vec<u8>, PathError> {
    let (folder, name) = parent(root, target, false)?;
    match look(&folder, &name, target)? {
        Some(_) => read_at(&folder, &name, target, limit),
        None => Err(target.error(rustix::io::Errno::NOENT)),
    }
}

fn read_at(folder: &OwnedFd, name: &OsStr, target: &Target, limit: u64) -> Result<Vec<u8>, PathError> {
    // It was a regular file a moment ago. Should it be a FIFO or a terminal by now, opening it neither waits nor adopts it.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder, name, flags, Mode::empty()).map_err(|error| target.error(error))?;
    let stat = rustix::fs::fstat(&fd).map_err(|error| target.error(error))?;
    regular(&stat, target)?;
    let too_large = |bytes| PathError::TooLarge { path: target.named.clone(), bytes, limit };
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > limit {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    // The size is a promise only: files of /proc have none, and others grow.
    File::from(fd).take(limit + 1).read_to_end(&mut bytes).map_err(|error| target.error(error))?;
    match bytes.len() as u64 {
        read if read > limit => Err(too_large(read)),
        _ => Ok(bytes),
    }
}

/// What a write replaced.
#[derive(Debug)]
pub(crate) enum Replaced {
    /// There was no file.
    Nothing,
    /// The bytes that were there, unless they were more than asked for or could not be read.
    File(Option<Vec<u8>>),
}

/// Replaces a file as a whole or not at all: the bytes go to a new file beside it, which then takes its name and mode.
/// Missing folders are made. At most `keep` bytes of the old file are handed back.
pub(crate) fn write(root: &OwnedFd, target: &Target, bytes: &[u8], keep: u64) -> Result<Replaced, PathError> {
    let (folder, name) = parent(root, target, true)?;
    let old = look(&folder, &name, target)?;
    if old.is_some() {
        // A rename asks only for rights on the folder; a file that is protected against writing stays so.
        rustix::fs::accessat(&folder, &name, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS)
            .map_err(|error| target.error(error))?;
    }
    let before = match &old {
        Some(_) => Replaced::File(read_at(&folder, &name, target, keep).ok()),
        None => Replaced::Nothing,
    };
    let draft = Draft::create(&folder).map_err(|error| target.error(error))?;
    fill(&draft, bytes, old.map(|stat| Mode::from_raw_mode(stat.st_mode)))
        .and_then(|()| draft.rename(&name))
        .map_err(|error| target.error(error))?;
    Ok(before)
}

fn fill(draft: &Draft<'_>, bytes: &[u8], mode: Option<Mode>) -> std::io::Result<()> {
    (&draft.file).write_all(bytes)?;
    if let Some(mode) = mode {
        rustix::fs::fchmod(&draft.file, mode)?;
    }
    // Else a crash soon after could leave the name with an empty file.
    draft.file.sync_all()
}

/// How many names are tried in one folder before giving up.
const DRAFTS: u32 = 1000;

/// A file under a passing name; removed unless it is given its real one.
struct Draft<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
    renamed: bool,
}

impl<'a> Draft<'a> {
    fn create(folder: &'a OwnedFd) -> std::io::Result<Draft<'a>> {
        // 0o666 is narrowed by the process's umask, as for any new file.
        let mode = Mode::from_raw_mode(0o666);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for number in 0..DRAFTS {
            let name = format!(".portcullis-{}-{number}.tmp", std::process::id());
            match rustix::fs::openat(folder.as_fd(), &name, flags, mode) {
                Ok(fd) => return Ok(Draft { folder, name, file: File::from(fd), renamed: false }),
                // Another write to this folder, or left by a process that was killed and had our number.
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(rustix::io::Errno::EXIST.into())
    }

    fn rename(mut self, name: &OsStr) -> std::io::Result<()> {
        rustix::fs::renameat(self.folder, &self.name, self.folder, name)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // Nobody is left to tell; the name says whose it was.
            let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    /// What a path looks like when somebody puts a link there after it was resolved.
    fn changed(path: &str) -> Target {
        Target { named: path.into(), path: path.into(), cwd: "/".into() }
    }

    #[test]
    fn a_link_that_appears_after_the_path_was_resolved_is_not_followed() {
        let outer = tempfile::tempdir().expect("a folder");
        let path = outer.path().join("root");
        fs::create_dir(&path).expect("a root");
        fs::write(outer.path().join("secret"), "secret").expect("a secret");
        symlink("..", path.join("folder")).expect("a link");
        symlink("../secret", path.join("file")).expect("a link");
        let root = open_root(&path).expect("a root");
        for target in [changed("folder/secret"), changed("file")] {
            assert!(read(&root, &target, 100).is_err());
            assert!(write(&root, &target, b"x", 100).is_err());
        }
        assert!(write(&root, &changed("folder/new"), b"x", 100).is_err());
        assert!(write(&root, &changed("folder/a/b"), b"x", 100).is_err());
        assert!(open_folder(&root, Path::new("folder")).is_err());
        assert_eq!(fs::read_to_string(outer.path().join("secret")).expect("there"), "secret");
        assert_eq!(fs::read_dir(outer.path()).expect("a folder").count(), 2);
        // The same calls work where no link is in the way.
        assert!(write(&root, &changed("a/b"), b"x", 100).is_ok());
        assert_eq!(read(&root, &changed("a/b"), 100).expect("there"), b"x");
    }
}
