//! The user's login shell.

use nix::unistd::{Uid, User};
use std::path::{Path, PathBuf};

/// Shells that commands are written for.
const KNOWN: [&str; 3] = ["sh", "bash", "zsh"];

/// The shell that the system's list of users has for whoever runs this process, whatever `$SHELL` says; where there is no entry,
/// or one with a shell of another kind, bash or zsh if there is one, else `/bin/sh`.
pub(crate) fn login() -> PathBuf {
    // A list that cannot be read has no entry.
    let entry = User::from_uid(Uid::current()).ok().flatten().map(|user| user.shell);
    choose(entry, &|path| path.is_file())
}

fn choose(entry: Option<PathBuf>, is_there: &dyn Fn(&Path) -> bool) -> PathBuf {
    let known = |path: &PathBuf| KNOWN.iter().any(|name| path.file_stem().is_some_and(|stem| stem == *name));
    let find = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect::<Vec<_>>();
        let folders = on_path.into_iter().chain([PathBuf::from("/bin")]);
        folders.map(|folder| folder.join(name)).find(|shell| is_there(shell))
    };
    let other = || find("bash").or_else(|| find("zsh")).unwrap_or_else(|| "/bin/sh".into());
    entry.filter(known).unwrap_or_else(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    // C-BRIDGE-1
    #[test]
    fn the_users_own_shell_or_one_that_reads_the_same_commands() {
        let everything = |_: &Path| true;
        let only = |wanted: &'static str| move |path: &Path| path == Path::new(wanted);
        for shell in ["/bin/sh", "/usr/bin/bash", "/opt/zsh", "/bin/bash.real"] {
            // Even if it is not there: then no hook starts, and each says so.
            assert_eq!(choose(Some(shell.into()), &|_| false), Path::new(shell));
        }
        for entry in [None, Some("/usr/bin/fish".into()), Some("".into()), Some("/usr/sbin/nologin".into())] {
            assert_eq!(choose(entry.clone(), &everything).file_name().unwrap(), "bash");
            assert_eq!(choose(entry.clone(), &only("/bin/zsh")), Path::new("/bin/zsh"));
            assert_eq!(choose(entry, &|_| false), Path::new("/bin/sh"));
        }
    }

    #[test]
    fn it_is_a_shell_here_too() {
        let shell = login();
        let ran = std::process::Command::new(&shell).args(["-c", "exit 7"]).status().unwrap();
        assert_eq!(ran.code(), Some(7), "{}", shell.display());
    }
}
