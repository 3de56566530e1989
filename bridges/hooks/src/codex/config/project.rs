//! Where a project begins, and whether its user trusts it.

use std::{
    collections::HashMap,
    fs,
    path::{Component, Path, PathBuf},
};

/// What marks the folder that a project begins in, unless a configuration says otherwise.
const MARKER: &str = ".git";
/// How much of a `.git` file is looked at, in bytes.
const POINTER: usize = 4096;

/// A project, as seen from a working directory.
#[derive(Debug)]
pub(super) struct Project {
    /// From the project's root down to the working directory.
    folders: Vec<PathBuf>,
    /// The root of the checkout, and that of the repository if the checkout is a linked worktree of it.
    worktree: Option<(PathBuf, PathBuf)>,
}

/// What a user said about a folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Trusted,
    /// Said to be untrusted, for this path.
    Refused(String),
    /// Nothing was said. It would be said for this path.
    Unsaid(String),
}

impl Project {
    /// Looks for the nearest folder that has one of the markers; without one the working directory is the project.
    pub(super) fn find(dir: &Path, markers: Option<&[String]>) -> Project {
        // What `..` leads to is for the file system to say: past a link, it is not the folder before it.
        let goes_up = dir.components().any(|part| part == Component::ParentDir);
        let led = goes_up.then(|| fs::canonicalize(dir).unwrap_or_else(|_| plain(dir)));
        let dir = led.as_deref().unwrap_or(dir);
        let marked = |folder: &&Path| match markers {
            Some(markers) => markers.iter().any(|marker| folder.join(marker).exists()),
            None => folder.join(MARKER).exists(),
        };
        let root = dir.ancestors().find(marked).unwrap_or(dir);
        let mut folders: Vec<PathBuf> =
            dir.ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_owned).collect();
        folders.reverse();
        let checkout = dir.ancestors().find(|folder| folder.join(MARKER).exists());
        let worktree = checkout.and_then(|checkout| Some((checkout.to_owned(), repository(checkout)?)));
        Project { folders, worktree }
    }

    pub(super) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The `.codex` folder whose hooks count for a folder of the project: in a linked worktree that of the repository's own
    /// checkout, so that what is trusted there is trusted here.
    pub(super) fn hooks_of(&self, folder: &Path) -> PathBuf {
        let moved = self.worktree.as_ref().and_then(|(checkout, repository)| {
            folder.strip_prefix(checkout).ok().map(|inside| repository.join(inside))
        });
        plain(&moved.unwrap_or_else(|| folder.to_owned()).join(".codex"))
    }

    /// Whether a folder is trusted: what is said of it, else of the project's root, else of its repository.
    pub(super) fn trust(&self, folder: &Path, said: &HashMap<String, String>) -> Trust {
        let root = self.folders.first().map_or(folder, PathBuf::as_path);
        let repository = self.worktree.as_ref().map(|(_, repository)| repository.as_path());
        let keys = [Some(folder), Some(root), repository].into_iter().flatten().flat_map(keys);
        match keys.filter_map(|key| said.get(&key).map(|level| (key, level))).next() {
            Some((_, level)) if level == "trusted" => Trust::Trusted,
            Some((key, _)) => Trust::Refused(key),
            None => Trust::Unsaid(resolved(repository.unwrap_or(root)).to_string_lossy().into_owned()),
        }
    }
}

/// The paths under which something may be said of a folder: with its links resolved, and as it is. Of one that is not UTF-8
/// nothing can be said.
fn keys(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let both = [resolved(folder), folder.to_owned()];
    both.into_iter().filter_map(|path| path.into_os_string().into_string().ok())
}

fn resolved(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// The root of the repository that a checkout is a linked worktree of: its `.git` is a file that points to
/// `REPOSITORY/.git/worktrees/NAME`, and a file there points back. Anyone can write the first into a folder of theirs, only the
/// repository's owner the second: without it, a stranger's folder would be trusted as the repository is.
fn repository(checkout: &Path) -> Option<PathBuf> {
    let pointer = checkout.join(MARKER);
    let target = plain(&checkout.join(pointed(&pointer)?.strip_prefix("gitdir:")?.trim()));
    let back = target.join(pointed(&target.join("gitdir"))?);
    if fs::canonicalize(back).ok()? != fs::canonicalize(pointer).ok()? {
        return None;
    }
    let worktrees = target.parent().filter(|parent| parent.ends_with(".git/worktrees"))?;
    worktrees.parent()?.parent().map(Path::to_owned)
}

/// What a file of git's points to.
fn pointed(file: &Path) -> Option<String> {
    let text = crate::report::read(file).ok()?;
    let text = str::from_utf8(&text[..text.len().min(POINTER)]).ok()?;
    Some(text.trim().to_owned())
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()),
            other => out.push(other),
        }
    }
    out
}
