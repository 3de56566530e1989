//! The regular files below a folder, in the order of their names.

use crate::path::{PathError, Target};
use crate::{Workspace, file};
use portcullis_runtime::{Cancel, ToolError};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Entries looked at before a walk gives up. It says so in its result.
const MAX_ENTRIES: usize = 200_000;

/// Folders of version control, which hold copies and packs and no text that a person wrote there.
const SKIPPED: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// A place that a search starts from, and how its files are named.
pub(crate) struct Walk<'a> {
    workspace: &'a Workspace,
    base: Target,
    cancel: Cancel,
}

/// What a walk has not seen.
#[derive(Default)]
pub(crate) struct Walked {
    /// It was stopped, or gave up.
    pub(crate) stopped: bool,
    /// Folders it could not read.
    pub(crate) unreadable: usize,
}

impl Walked {
    pub(crate) fn is_complete(&self) -> bool {
        !self.stopped && self.unreadable == 0
    }

    /// What to tell the model about it, each with a line break before it.
    pub(crate) fn notes(&self) -> String {
        let mut notes = String::new();
        if self.stopped {
            notes.push_str("\n[There is too much; not everything was searched. Narrow it down.]");
        }
        if self.unreadable > 0 {
            notes.push_str(&format!("\n[Folders that could not be read: {}.]", self.unreadable));
        }
        notes
    }
}

impl<'a> Walk<'a> {
    /// From a path, or from the session's directory.
    pub(crate) fn new(
        workspace: &'a Workspace,
        cwd: &Path,
        path: Option<&str>,
        cancel: Cancel,
    ) -> Result<Walk<'a>, PathError> {
        let base = workspace.locate(cwd, path.unwrap_or("."))?;
        Ok(Walk { workspace, base, cancel })
    }

    /// A file as the model should name it: from the session's directory, or absolute if it is not below that.
    pub(crate) fn name(&self, file: &Target) -> String {
        let whole = self.workspace.root().join(&file.path);
        whole.strip_prefix(&self.base.cwd).unwrap_or(&whole).to_string_lossy().into_owned()
    }

    /// Calls `each` with every file and its path from the start of the walk, until it says to stop. A start that is a file
    /// is the one file, under its own name. Links are not followed, folders that cannot be read are counted.
    pub(crate) fn files(
        &self,
        mut each: impl FnMut(&Path, Target) -> Result<bool, ToolError>,
    ) -> Result<Walked, ToolError> {
        let root = self.workspace.fd();
        let start = match file::open_folder(root, &self.base.path) {
            Ok(_) => PathBuf::new(),
            Err(rustix::io::Errno::NOTDIR) => {
                let name = PathBuf::from(self.base.path.file_name().unwrap_or_default());
                each(&name, self.base.clone())?;
                return Ok(Walked::default());
            }
            Err(error) => return Err(self.base.error(error).into()),
        };
        // Paths and not descriptors: a wide tree must not use up the open files of the process.
        let mut folders = vec![start];
        let mut seen = 0;
        let mut walked = Walked::default();
        while let Some(below) = folders.pop() {
            self.check()?;
            let mut names = Vec::new();
            let mut inner = Vec::new();
            let entries = match self.list(&below) {
                Ok(entries) => entries,
                Err(error) if below.as_os_str().is_empty() => return Err(self.base.error(error).into()),
                Err(_) => {
                    walked.unreadable += 1;
                    continue;
                }
            };
            for (name, kind) in entries {
                seen += 1;
                if seen > MAX_ENTRIES {
                    return Ok(Walked { stopped: true, ..walked });
                }
                match kind {
                    FileType::RegularFile => names.push(name),
                    FileType::Directory if !SKIPPED.iter().any(|skipped| name.as_os_str() == *skipped) => {
                        inner.push(below.join(name));
                    }
                    _ => {}
                }
            }
            names.sort();
            for name in names {
                self.check()?;
                let path = below.join(name);
                let target = Target {
                    named: path.to_string_lossy().into_owned(),
                    path: self.base.path.join(&path),
                    cwd: self.base.cwd.clone(),
                };
                if !each(&path, target)? {
                    return Ok(Walked { stopped: true, ..walked });
                }
            }
            inner.sort();
            folders.extend(inner.into_iter().rev());
        }
        Ok(walked)
    }

    fn check(&self) -> Result<(), ToolError> {
        match self.cancel.cause() {
            Some(cause) => Err(ToolError::new(format!("The search was cancelled ({cause})."))),
            None => Ok(()),
        }
    }

    fn list(&self, below: &Path) -> rustix::io::Result<Vec<(PathBuf, FileType)>> {
        let folder = file::open_folder(self.workspace.fd(), &self.base.path.join(below))?;
        // Going through a folder and reading it are two rights, so two descriptors.
        let reading = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = Dir::new(rustix::fs::openat(&folder, ".", reading, Mode::empty())?)?;
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems tell the kind only when asked.
                FileType::Unknown => match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    // It went away meanwhile.
                    Err(_) => continue,
                },
                kind => kind,
            };
            found.push((PathBuf::from(OsStr::from_bytes(name.to_bytes())), kind));
            // One more than is looked at ends the walk; an endless folder must end here.
            if found.len() > MAX_ENTRIES {
                break;
            }
        }
        Ok(found)
    }
}
