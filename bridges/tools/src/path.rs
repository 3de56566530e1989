//! From a path the model wrote to a place beneath the root, or a refusal.

use rustix::io::Errno;
use std::{
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// The longest path that is looked at, in bytes; the limit of Linux.
const MAX_PATH: usize = 4096;

/// Why a path was refused, or what went wrong behind it. The sentence is for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path is empty.
    #[error("The path is empty.")]
    Empty,
    /// The path has a NUL byte, or is longer than 4096 bytes.
    #[error("This is no path: it is longer than {MAX_PATH} bytes or contains a NUL byte.")]
    Malformed,
    /// The path leads out of the root by its own letters.
    #[error("{path} is outside of the workspace {}. Use a path inside it.", root.display())]
    Outside {
        /// The path as written.
        path: String,
        /// The root.
        root: PathBuf,
    },
    /// A symbolic link on the path leads out of the root.
    #[error("{path} leads out of the workspace through a symbolic link, which is not allowed.")]
    LinkOutside {
        /// The path as written.
        path: String,
    },
    /// A symbolic link on the path leads nowhere, in circles, or was put there during the access.
    #[error("{path} goes through a symbolic link that cannot be followed.")]
    Link {
        /// The path as written.
        path: String,
    },
    /// Nothing is there.
    #[error("{path} does not exist. The working directory is {}.", cwd.display())]
    NotFound {
        /// The path as written.
        path: String,
        /// What relative paths count from.
        cwd: PathBuf,
    },
    /// A file was expected.
    #[error("{path} is a directory, not a file.")]
    IsDirectory {
        /// The path as written.
        path: String,
    },
    /// A part of the path that should be a directory is none.
    #[error("{path} goes through something that is not a directory.")]
    NotADirectory {
        /// The path as written.
        path: String,
    },
    /// It is a device, a socket or a FIFO.
    #[error("{path} is {kind}, not a regular file; it was not opened.")]
    Special {
        /// The path as written.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// The file has more bytes than the tool handles.
    #[error("{path} has {bytes} bytes; the limit is {limit}.")]
    TooLarge {
        /// The path as written.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The system refuses the access.
    #[error("Permission denied: {path}")]
    Denied {
        /// The path as written.
        path: String,
    },
    /// The session's working directory is not in the workspace, so relative paths mean nothing.
    #[error(
        "The session's working directory {} is not inside the workspace {}.", cwd.display(), root.display()
    )]
    ForeignDirectory {
        /// The session's directory.
        cwd: PathBuf,
        /// The root.
        root: PathBuf,
    },
    /// Anything else the system said.
    #[error("{path}: {source}")]
    Io {
        /// The path as written.
        path: String,
        /// What it said.
        source: io::Error,
    },
}

impl PathError {
    /// A stable code for programs and logs.
    pub fn code(&self) -> &'static str {
        match self {
            PathError::Empty => "path_empty",
            PathError::Malformed => "path_malformed",
            PathError::Outside { .. } => "path_outside",
            PathError::LinkOutside { .. } => "path_link_outside",
            PathError::Link { .. } => "path_link",
            PathError::NotFound { .. } => "path_not_found",
            PathError::IsDirectory { .. } => "path_is_directory",
            PathError::NotADirectory { .. } => "path_not_a_directory",
            PathError::Special { .. } => "path_special",
            PathError::TooLarge { .. } => "path_too_large",
            PathError::Denied { .. } => "path_denied",
            PathError::ForeignDirectory { .. } => "path_foreign_directory",
            PathError::Io { .. } => "path_io",
        }
    }
}

/// A place beneath the root.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// As the model wrote it.
    pub(crate) named: String,
    /// From the root, without links, `.` and `..`. Empty for the root itself. The end need not exist.
    pub(crate) path: PathBuf,
    /// What relative paths count from, absolute.
    pub(crate) cwd: PathBuf,
}

impl Target {
    /// Names what the system said about it.
    pub(crate) fn error(&self, error: impl Into<io::Error>) -> PathError {
        from_system(error.into(), &self.named, &self.cwd)
    }
}

fn from_system(error: io::Error, named: &str, cwd: &Path) -> PathError {
    let path = named.to_owned();
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => PathError::NotFound { path, cwd: cwd.to_owned() },
        Some(Errno::NOTDIR) => PathError::NotADirectory { path },
        Some(Errno::LOOP) => PathError::Link { path },
        Some(Errno::ISDIR) => PathError::IsDirectory { path },
        Some(Errno::ACCESS | Errno::PERM) => PathError::Denied { path },
        Some(Errno::NAMETOOLONG) => PathError::Malformed,
        _ => PathError::Io { path, source: error },
    }
}

/// The session's directory, resolved; it must be in the root.
pub(crate) fn directory(root: &Path, cwd: &Path) -> Result<PathBuf, PathError> {
    match fs::canonicalize(cwd) {
        Ok(real) if real.starts_with(root) => Ok(real),
        Ok(_) => Err(PathError::ForeignDirectory { cwd: cwd.to_owned(), root: root.to_owned() }),
        Err(error) => Err(from_system(error, &cwd.to_string_lossy(), cwd)),
    }
}

/// Finds the place of a path. `root` is resolved, `alias` the same directory as the host named it, `cwd` resolved.
pub(crate) fn locate(root: &Path, alias: &Path, cwd: &Path, named: &str) -> Result<Target, PathError> {
    if named.is_empty() {
        return Err(PathError::Empty);
    }
    if named.len() > MAX_PATH || named.contains('\0') {
        return Err(PathError::Malformed);
    }
    // By the letter first: what a hook or a person reads in the path is where it leads.
    let mut clean = PathBuf::from("/");
    for part in cwd.join(named).components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    let inside = match clean.strip_prefix(root).or_else(|_| clean.strip_prefix(alias)) {
        Ok(inside) => inside,
        Err(_) => return Err(PathError::Outside { path: named.to_owned(), root: root.to_owned() }),
    };
    let path = resolve(root, inside, named, cwd)?;
    Ok(Target { named: named.to_owned(), path, cwd: cwd.to_owned() })
}

/// Resolves the links of the part that exists; what does not exist yet is put behind it as written.
fn resolve(root: &Path, inside: &Path, named: &str, cwd: &Path) -> Result<PathBuf, PathError> {
    let mut at = root.join(inside);
    let mut missing: Vec<OsString> = Vec::new();
    let real = loop {
        let error = match fs::canonicalize(&at) {
            Ok(real) => break real,
            Err(error) => error,
        };
        if error.kind() != io::ErrorKind::NotFound || at == root {
            return Err(from_system(error, named, cwd));
        }
        // The link is there, only what it leads to is not: writing through it could create a file outside.
        if fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_symlink()) {
            return Err(PathError::Link { path: named.to_owned() });
        }
        missing.extend(at.file_name().map(OsString::from));
        at.pop();
    };
    let mut path = match real.strip_prefix(root) {
        Ok(path) => path.to_owned(),
        Err(_) => return Err(PathError::LinkOutside { path: named.to_owned() }),
    };
    path.extend(missing.into_iter().rev());
    Ok(path)
}
