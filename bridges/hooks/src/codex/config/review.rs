//! What a person reviews, and how they say that they trust it.

use super::{
    edit::{self, Trouble},
    handler::{Handler, Work},
    layers::{Closed, CodexLayers, Loaded, Placed, load},
    trust::{self, Changed, TrustStatus},
};
use crate::report::Report;
use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The hooks of a project for whose user they are, and what that user has said of each.
///
/// ```
/// use portcullis_hooks::{CodexLayers, CodexTrust, TrustStatus};
///
/// let (home, project) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// std::fs::write(
///     home.path().join("hooks.json"),
///     r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./gate.sh"}]}]}}"#,
/// )?;
/// let layers = CodexLayers::default().user(home.path()).record(home.path().join("approved.json"));
/// let (trust, _) = CodexTrust::review(project.path(), &layers);
/// let [gate] = trust.hooks() else { panic!("one hook") };
/// assert_eq!((&*gate.command, gate.status), ("./gate.sh", TrustStatus::Untrusted));
///
/// trust.approve(&[&gate.key])?;
/// let (trust, _) = CodexTrust::review(project.path(), &layers);
/// assert_eq!(trust.hooks()[0].status, TrustStatus::Trusted);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CodexTrust {
    hooks: Vec<TrustedHook>,
    loaded: Loaded,
    config: Option<PathBuf>,
    record: Option<PathBuf>,
}

/// A hook, and whether it may run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustedHook {
    /// What the client calls it in `[hooks.state]`: `FILE:EVENT:GROUP:HANDLER`.
    pub key: String,
    /// The client's name of its event.
    pub event: &'static str,
    /// Its matcher, as written, where the event has something to match.
    pub matcher: Option<String>,
    /// What it runs, as written; of a tool, `SERVER/TOOL` and its input as JSON, if it has any.
    pub command: String,
    /// Where it stands.
    pub file: PathBuf,
    /// The line there, from 1.
    pub line: usize,
    /// What is trusted when it is trusted: two hooks of one hash are one command under one matcher.
    pub hash: String,
    /// Whether it may run, as far as its user has said.
    pub status: TrustStatus,
    /// What is different from what was trusted.
    pub changed: Changed,
    /// A file that its command runs, and when that last changed. What is in it is no part of what is trusted, except for a
    /// plugin's.
    pub script: Option<(PathBuf, SystemTime)>,
    /// It stands in a project that its user does not trust, so that it would not run if it were trusted.
    pub in_untrusted_project: bool,
}

/// Why something could not be approved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// There is no hook of that name.
    #[error("there is no hook `{0}`")]
    NoSuchHook(String),
    /// No file was given to keep it in.
    #[error("no config.toml of a user was given to keep it in")]
    Nowhere,
    /// No record was given, and there trust in plugins is kept.
    #[error("no file was given to keep trust in plugins in")]
    NoRecord,
    /// What is in a plugin's folder could not be read.
    #[error("the plugin of `{0}` cannot be read")]
    UnreadablePlugin(String),
    /// A file is not as it would have to be, or could not be written.
    #[error("{} was left as it is: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
}

impl CodexTrust {
    /// Reads the files that count for a working directory, those of a project that is not trusted among them. Reads on the
    /// calling thread. What is wrong with the files is reported.
    pub fn review(dir: impl AsRef<Path>, layers: &CodexLayers) -> (CodexTrust, Vec<Report>) {
        let dir = dir.as_ref();
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let mut reports = Vec::new();
        let loaded = load(&dir, layers, &mut reports);
        reports.extend(loaded.aside.iter().cloned());
        let hooks = loaded.handlers.iter().map(|placed| of(placed, &loaded, &dir)).collect();
        (CodexTrust { hooks, loaded, config: layers.trust_file(), record: layers.record.clone() }, reports)
    }

    /// The hooks, in the client's order.
    pub fn hooks(&self) -> &[TrustedHook] {
        &self.hooks
    }

    /// The path of the project, if there are folders of hooks in it and its user does not trust it.
    pub fn untrusted_project(&self) -> Option<&str> {
        self.loaded.untrusted_project.as_deref()
    }

    /// Trusts the hooks of these keys, as they were when they were reviewed: one that has changed since is none of them.
    ///
    /// Writes `trusted_hash` into the user's `config.toml`, and their texts into the record, if there is one. Of a plugin's hooks
    /// all is written into the record. A hook that its user switched off stays so.
    ///
    /// # Errors
    /// A key is none of a hook's, or there is no file to write to: nothing was approved then. Or a file cannot be written, or not
    /// without changing anything else in it: then nothing was approved whose trust is kept there.
    pub fn approve(&self, keys: &[&str]) -> Result<(), TrustError> {
        let (mut texts, mut plugins, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        for key in keys {
            let placed = self.loaded.handlers.iter().find(|placed| placed.key == *key);
            let placed = placed.ok_or_else(|| TrustError::NoSuchHook((*key).to_owned()))?;
            texts.push(placed.handler.identity());
            match &placed.bundle {
                None => changes.push((vec!["hooks", "state", *key], "trusted_hash", &*placed.hash)),
                Some(Some(bundle)) => {
                    texts.push(bundle.list.clone());
                    plugins.push(((*key).to_owned(), placed.hash.clone()));
                }
                Some(None) => return Err(TrustError::UnreadablePlugin((*key).to_owned())),
            }
        }
        let config = match (&self.config, changes.is_empty()) {
            (None, false) => return Err(TrustError::Nowhere),
            (config, _) => config.as_deref(),
        };
        if self.record.is_none() && !plugins.is_empty() {
            return Err(TrustError::NoRecord);
        }
        // Texts alone trust nothing.
        if let Some(record) = self.record.as_ref().filter(|_| !texts.is_empty()) {
            trust::Record::add(record, &texts, &[]).map_err(|why| left(record, &why))?;
        }
        if let Some(config) = config {
            edit::set(config, &changes).map_err(|why| left(config, &why))?;
        }
        match &self.record {
            Some(record) if !plugins.is_empty() => {
                trust::Record::add(record, &[], &plugins).map_err(|why| left(record, &why))
            }
            _ => Ok(()),
        }
    }

    /// Trusts the project: from then on its hooks count that are trusted themselves. The client then also takes its other
    /// settings. Nothing happens to one that is trusted.
    ///
    /// # Errors
    /// The user's `config.toml` was not given, or cannot be written without changing anything else.
    pub fn trust_project(&self) -> Result<(), TrustError> {
        let Some(project) = self.untrusted_project() else { return Ok(()) };
        let config = self.config.as_deref().ok_or(TrustError::Nowhere)?;
        let change = (vec!["projects", project], "trust_level", "trusted");
        edit::set(config, &[change]).map_err(|why| left(config, &why))
    }
}

fn left(file: &Path, why: &Trouble) -> TrustError {
    TrustError::File { file: file.to_owned(), why: why.to_string() }
}

fn of(placed: &Placed, loaded: &Loaded, dir: &Path) -> TrustedHook {
    let Placed { source, handler, key, .. } = placed;
    TrustedHook {
        key: key.clone(),
        event: handler.event.name(),
        matcher: handler.matcher_text.as_deref().map(str::to_owned),
        command: handler.in_full(),
        file: source.file.clone(),
        line: handler.line,
        hash: placed.hash.clone(),
        status: placed.status,
        changed: loaded.changed(placed),
        script: script(handler, dir),
        in_untrusted_project: placed.closed == Some(Closed::Project),
    }
}

/// The file that a command runs, if that is plain to see: its first word, or what it gives to an interpreter.
fn script(handler: &Handler, dir: &Path) -> Option<(PathBuf, SystemTime)> {
    const INTERPRETERS: [&str; 10] =
        ["sh", "bash", "zsh", "dash", "python", "python3", "node", "ruby", "perl", "deno"];
    let Work::Command { command, .. } = &handler.work else { return None };
    let mut words = command.split_whitespace();
    let first = words.next()?;
    let name = first.rsplit('/').next().unwrap_or(first);
    let word = if INTERPRETERS.contains(&name) { words.next()? } else { first };
    let path = dir.join(word.trim_matches(['"', '\'']));
    let meta = fs::metadata(&path).ok().filter(|meta| meta.is_file() && word.contains(['/', '.']))?;
    Some((path, meta.modified().ok()?))
}
