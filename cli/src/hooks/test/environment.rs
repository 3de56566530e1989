//! What a command would find in its environment once the hooks of a start have run.

use super::feed::{Event, Feed};
use super::seen::Seen;
use super::stage::Stage;
use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    process::{Command, Stdio},
};

/// Reads the files named by its arguments, as the shell of a command does, and prints the environment.
const LOOK: &str = r#"for file in "$@"; do . "$file"; done >/dev/null; exec env -0"#;

/// Whether variables have these values, or with nothing are not set. Of the others nothing is said: they may be secrets.
pub(super) fn holds(
    wanted: &BTreeMap<String, Option<String>>,
    feed: &Feed,
    stage: &Stage,
    seen: &Seen,
) -> Result<(), String> {
    let Some(last) = seen.last.as_ref().filter(|_| feed.event == Event::SessionStart) else {
        return Err("`environment` can be judged on SessionStart only: its hooks export".into());
    };
    let files = stage.exports(last).map_err(|error| format!("what hooks exported: {error}"))?;
    let found = environment(&files, stage)?;
    for (name, wanted) in wanted {
        let found = found.get(name);
        if found != wanted.as_ref() {
            let said = |value: Option<&String>| value.map_or("not set".into(), |value| format!("{value:?}"));
            return Err(format!("`{name}` is {}, expected {}", said(found), said(wanted.as_ref())));
        }
    }
    Ok(())
}

fn environment(files: &[PathBuf], stage: &Stage) -> Result<HashMap<String, String>, String> {
    let shell = ["/bin/bash", "/bin/sh"].into_iter().find(|shell| std::path::Path::new(shell).exists());
    let mut look = Command::new(shell.unwrap_or("/bin/sh"));
    look.args(["-c", LOOK, "look"]).args(files).current_dir(&stage.cwd).stdin(Stdio::null());
    let output = look.output().map_err(|error| format!("the environment could not be looked at: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("what the hooks exported ends the shell of a command: {}", stderr.trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
