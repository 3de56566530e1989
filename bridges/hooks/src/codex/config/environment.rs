//! How the client runs a hook's process: in the user's login shell, in this process's own environment as it is, until nobody
//! holds its output open any more; past its limit it and all it started are killed.

use crate::{
    definition::Plugin,
    dialect::{Places, Variables, fill},
    run::Manner,
    shell,
};
use portcullis_process::HeldPipe;
use std::time::Duration;

/// The variables that name a plugin's folders, to its hooks alone. No variable names the project's.
pub(in crate::codex) fn places(plugin: Option<&Plugin>) -> Places<'_> {
    let root = plugin.map(|plugin| &*plugin.root);
    let data = plugin.and_then(|plugin| plugin.data.as_deref());
    vec![
        ("PLUGIN_ROOT", root),
        ("CLAUDE_PLUGIN_ROOT", root),
        ("PLUGIN_DATA", data),
        ("CLAUDE_PLUGIN_DATA", data),
    ]
}

/// The environment of one run.
pub(in crate::codex) fn variables(base: &Variables, plugin: Option<&Plugin>) -> Variables {
    let named =
        places(plugin).into_iter().filter_map(|(name, folder)| Some((name.into(), Some(folder?.into()))));
    base.iter().cloned().chain(named).collect()
}

/// A command with the four names in `${…}` filled in, before any shell reads it: a folder's name can become code here, as it
/// can in the client.
pub(in crate::codex) fn command(text: &str, plugin: Option<&Plugin>) -> String {
    fill(text, &places(plugin))
}

/// The list of users is looked into each time: ask once for all hooks of a project.
pub(in crate::codex) fn manner() -> Manner {
    Manner { shell: shell::login().into(), grace: Duration::ZERO, held_pipe: HeldPipe::Eof }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{self, Job, Program};
    use portcullis_process::{Ending, Finished};
    use std::{env, fs, path::PathBuf, time::Instant};

    /// Far longer than anything here takes.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn job(command: &str, cwd: PathBuf, limit: Duration) -> Job {
        Job {
            program: Program::Shell(command.into()),
            manner: manner(),
            cwd,
            env: Vec::new(),
            stdin: b"{}".to_vec(),
            limit,
            permits: None,
            first_line: None,
        }
    }

    fn go(job: Job) -> Finished {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run::run(job)).unwrap()
    }

    // C-BRIDGE-1
    #[test]
    fn the_login_shell_gets_the_command_and_the_whole_environment() {
        let dir = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(dir.path()).unwrap();
        let ran = go(job("tr '\\0' '|' < /proc/$$/cmdline; echo; pwd -P; env", place.clone(), PATIENCE));
        let text = ran.stdout.text();
        let shell = shell::login();
        let mut lines = text.lines();
        assert!(lines.next().unwrap().starts_with(&format!("{}|-c|tr ", shell.display())));
        assert_eq!(lines.next().unwrap(), place.to_str().unwrap());
        let seen: Vec<_> = lines.collect();
        // What the shell itself sets is not looked at.
        let own = |name: &str| ["_", "PWD", "OLDPWD", "SHLVL"].contains(&name);
        let word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let all = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        // Names that no shell has pass through some and not through others.
        for (name, value) in all.filter(|(name, value)| !own(name) && word(name) && !value.contains('\n')) {
            assert!(seen.contains(&&*format!("{name}={value}")), "{name}");
        }
        let added = seen.iter().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
        for name in added.filter(|name| name.starts_with("CLAUDE") || name.contains("PLUGIN")) {
            assert!(env::var_os(name).is_some(), "{name}");
        }
    }

    // C-BRIDGE-7
    #[test]
    fn a_hook_has_ended_when_nobody_holds_its_output_open() {
        let dir = tempfile::tempdir().unwrap();
        let late = "(while [ ! -e go ]; do sleep 0.02; done; echo late) & echo early; (sleep 0.7; touch go) >&- 2>&- & exit 0";
        let ran = go(job(late, dir.path().to_owned(), PATIENCE));
        assert_eq!((ran.ending, &*ran.stdout.text()), (Ending::Exited, "early\nlate\n"));
    }

    // C-BRIDGE-7
    #[test]
    fn a_hook_past_its_limit_is_killed_with_all_it_started_and_says_nothing_more() {
        let dir = tempfile::tempdir().unwrap();
        let stubborn = "trap 'echo heard > heard' TERM; (trap '' TERM; echo $$ > below; exec sleep 600) & while :; do sleep 0.05; done";
        let ran = go(job(stubborn, dir.path().to_owned(), Duration::from_secs(2)));
        assert_eq!((ran.ending, ran.survivors.len()), (Ending::TimedOut, 0));
        assert!(!dir.path().join("heard").exists());
        let below = fs::read_to_string(dir.path().join("below")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{}/stat", below.trim())).unwrap_or_default();
        // Whoever is not reaped yet is dead all the same.
        assert!(stat.is_empty() || stat.contains(") Z"), "{stat}");
    }

    // C-BRIDGE-7
    #[test]
    fn a_child_that_closed_its_output_may_stay() {
        let dir = tempfile::tempdir().unwrap();
        let ran =
            go(job("(sleep 0.2; touch done) >/dev/null 2>&1 & exit 0", dir.path().to_owned(), PATIENCE));
        assert_eq!(ran.ending, Ending::Exited);
        let until = Instant::now() + PATIENCE;
        while !dir.path().join("done").exists() {
            assert!(Instant::now() < until, "it was ended");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    // C-BRIDGE-1
    #[test]
    fn four_names_are_filled_in_and_are_variables_too() {
        let plugin = |root: &str, data: Option<&str>| Plugin {
            name: "p".into(),
            root: root.into(),
            data: data.map(Into::into),
        };
        let both = plugin("/p/${PLUGIN_DATA} $x", Some("/d"));
        assert_eq!(
            command(
                "${PLUGIN_ROOT}/a ${CLAUDE_PLUGIN_ROOT} ${PLUGIN_DATA}/b ${CLAUDE_PLUGIN_DATA}",
                Some(&both)
            ),
            "/p/${PLUGIN_DATA} $x/a /p/${PLUGIN_DATA} $x /d/b /d"
        );
        let untouched = "$PLUGIN_ROOT ${NOPE} ${PLUGIN_ROOT:-x} ${ ${PLUGIN_ROOTS}";
        assert_eq!(command(untouched, Some(&both)), untouched);
        assert_eq!(command("${PLUGIN_ROOT}", None), "${PLUGIN_ROOT}");
        let base: Variables = vec![("A".into(), Some("1".into())), ("B".into(), None)];
        let names = |plugin| variables(&base, plugin).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(None), ["A", "B"]);
        assert_eq!(
            names(Some(&both)),
            ["A", "B", "PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT", "PLUGIN_DATA", "CLAUDE_PLUGIN_DATA"]
        );
        let bare = plugin("/p", None);
        assert_eq!(command("${PLUGIN_DATA}${PLUGIN_ROOT}", Some(&bare)), "${PLUGIN_DATA}/p");
        assert_eq!(names(Some(&bare)), ["A", "B", "PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"]);
    }
}
