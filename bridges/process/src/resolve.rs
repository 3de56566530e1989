//! From a program name to an absolute path, as `execvp` would find it in the child.

use crate::error::SpawnError;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What `execvp` searches when there is no `PATH` at all.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A name without a slash is looked up on `path`; a relative path counts from `cwd`. The result is absolute, which
/// keeps the lookup out of the spawn (a changed `PATH` would cost the fast path) and makes a missing program an error
/// before anything starts. Whether an absolute path can be executed is left to the spawn.
pub(crate) fn resolve(program: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, SpawnError> {
    if program.is_empty() {
        return Err(SpawnError::NotFound(PathBuf::new()));
    }
    if program.as_bytes().contains(&0) {
        return Err(SpawnError::NulByte);
    }
    if program.as_bytes().contains(&b'/') {
        return Ok(cwd.join(program));
    }
    let default = OsString::from(DEFAULT_PATH);
    let mut refused = None;
    for dir in std::env::split_paths(path.unwrap_or(&default)) {
        // An empty element means the working directory, which `join` gives by itself.
        let candidate = cwd.join(dir).join(program);
        if !candidate.is_file() {
            continue;
        }
        if rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK).is_ok() {
            return Ok(candidate);
        }
        refused.get_or_insert(candidate);
    }
    Err(refused.map_or_else(|| SpawnError::NotFound(program.into()), SpawnError::NotExecutable))
}
