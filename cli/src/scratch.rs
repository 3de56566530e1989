//! Copies of folders to work in.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

/// Copies a folder with the modes of its files, but for what is called so in it. Anything but files, folders and links cannot
/// be copied.
pub(crate) fn copy(from: &Path, to: &Path, but: &[&str]) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if but.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&from, &to, &[])?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_file() {
            fs::copy(&from, &to)?;
            // A copy of a file that nobody may write must still be removable and replaceable.
            let mut mode = fs::metadata(&to)?.permissions();
            mode.set_mode(mode.mode() | 0o200);
            fs::set_permissions(&to, mode)?;
        } else {
            return Err(io::Error::other(format!("{} is no plain file", from.display())));
        }
    }
    Ok(())
}
