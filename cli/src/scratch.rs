//! Copies of folders to work in.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

/// Copies a folder with the modes of its files, but for what is called so in it. Anything but files, folders and links cannot
/// be copied.
pub(crate) fn copy(from: &Path, to: &Path, but: &[&str]) -> io::Result<()> {
    below(&fs::canonicalize(from)?, from, to, but)
}

fn below(root: &Path, from: &Path, to: &Path, but: &[&str]) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if but.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            below(root, &from, &to, &[])?;
        } else if kind.is_symlink() && !leads_out(root, &from) {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_file() || kind.is_symlink() {
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

/// In the copy, a relative link to a file elsewhere would lead nowhere: what it leads to is copied instead.
fn leads_out(root: &Path, link: &Path) -> bool {
    let relative = fs::read_link(link).is_ok_and(|target| target.is_relative());
    relative && fs::canonicalize(link).is_ok_and(|target| target.is_file() && !target.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_same_in_the_copy() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let (from, to) = (dir.path().join("a"), dir.path().join("deep/b"));
        fs::create_dir_all(from.join("sub"))?;
        fs::create_dir(dir.path().join("deep"))?;
        fs::write(dir.path().join("shared"), "text")?;
        fs::write(from.join("own"), "own")?;
        symlink("../shared", from.join("outside"))?;
        symlink("../own", from.join("sub/inside"))?;
        symlink("nowhere", from.join("broken"))?;
        copy(&from, &to, &[])?;
        assert_eq!(fs::read_to_string(to.join("outside"))?, "text");
        assert_eq!(fs::read_link(to.join("sub/inside"))?, Path::new("../own"));
        assert_eq!(fs::read_link(to.join("broken"))?, Path::new("nowhere"));
        Ok(())
    }
}
