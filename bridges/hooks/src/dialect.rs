//! What one client's hooks have that another's have not. All else is shared.

use crate::{
    answer::{Answer, Heard, Mapped, Terms},
    background::Said,
    definition::{Definition, Origin, Plugin, Scope},
    event::Event,
    explain::At,
    hook::Work,
    options::Fidelity,
    run::Manner,
    transcript::Shape,
    watch::Watched,
};
use futures::future::BoxFuture;
use portcullis_process::{Finished, SpawnError};
use portcullis_runtime::{
    Batched, Compact, Continue, Frozen, Noted, Permit, Proposal, Review, Scene, SessionId, Started, Submit,
};
use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

/// Variables to set, or with nothing to remove, on top of this process's own. A later one of a name counts.
pub(crate) type Variables = Vec<(OsString, Option<OsString>)>;

/// Variables that name folders, with what they are if they are anything.
pub(crate) type Places<'a> = Vec<(&'static str, Option<&'a Path>)>;

/// The dialects there are, by name: each is the owner of its handlers.
pub(crate) const NAMES: [&str; 2] = ["claude", "codex"];

/// The dialects themselves.
pub(crate) const ALL: [&dyn Dialect; 2] = [&crate::claude::Claude, &crate::codex::Codex];

/// What all payloads of a bridge share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style<'a> {
    pub(crate) fidelity: Fidelity,
    /// The folder of transcripts.
    pub(crate) transcripts: &'a Path,
}

/// What something is to a client.
pub(crate) struct Sorted<'m> {
    pub(crate) event: Event,
    /// What matchers are compared with; empty where they do not count.
    pub(crate) subject: String,
    /// The call's arguments.
    pub(crate) input: Option<&'m Frozen>,
}

/// A client's way with hooks: its events, bytes and words.
///
/// The shared part asks it in this order: [`sort`](Dialect::sort) says which event something is, [`payload`](Dialect::payload)
/// what a hook reads of it, [`read`](Dialect::read) what the hook said, and one of the last functions what that means at the
/// seam.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// One of [`NAMES`].
    fn name(&self) -> &'static str;

    /// The events that fire here, in the order in which they are listed.
    fn events(&self) -> &'static [Event];

    /// The client's other events, and why nothing here fires them.
    fn silent(&self) -> &'static [(&'static str, &'static str)];

    /// Tools of the client, whether or not this runtime has them.
    fn tools(&self) -> &'static [&'static str];

    /// Other names by which matchers know a subject.
    fn aliases(&self, subject: &str) -> &'static [&'static str];

    /// Nothing if the client has no event for it.
    fn sort<'m>(&self, at: At<'m>) -> Option<Sorted<'m>>;

    /// Why no hook of an event runs at a place, whatever else is true of it.
    fn closed(&self, event: Event, at: At<'_>) -> Option<&'static str>;

    /// Of equal handlers only the last one runs.
    fn runs_equals_once(&self) -> bool;

    /// A hook may go into the background by its first line of output.
    fn lets_go(&self) -> bool;

    /// How the client calls a change of such a file during a session; nothing if it does not look for one.
    fn watches(&self, _scope: Scope) -> Option<Watched> {
        None
    }

    /// Hooks of the event may say what later commands find in their environment.
    fn exports(&self, event: Event) -> bool;

    /// The name by which hooks know a subagent.
    fn agent_id(&self, session: &SessionId) -> String;

    /// Where transcripts are, in a project, and the shape they have.
    fn transcripts(&self) -> (&'static str, Shape);

    /// What a handler does, with what is known of it filled in.
    fn work(&self, definition: &Definition, origin: &Origin, project: &Path) -> Work;

    /// How hooks' processes are treated. Asked once for all hooks of a project.
    fn manner(&self) -> Manner {
        Manner::default()
    }

    /// The variables that name a hook's folders, the project's first if there is one.
    fn places<'a>(&self, project: &'a Path, plugin: Option<&'a Plugin>) -> Places<'a>;

    /// The environment of one run. `base`: what is the same for every hook; `exports`: the file for what it exports.
    fn variables(
        &self,
        base: &Variables,
        scene: &Scene,
        cwd: &Path,
        plugin: Option<&Plugin>,
        exports: Option<&Path>,
    ) -> Variables;

    /// What a hook reads on stdin.
    fn payload(&self, event: Event, at: At<'_>, style: Style<'_>) -> Vec<u8>;

    /// Reads what a process came to.
    fn read(&self, terms: Terms<'_>, ran: &Result<Finished, SpawnError>) -> Answer;

    /// Reads a text that stands for what a command prints before it ends well; `cut`: its end is missing.
    fn told(&self, terms: Terms<'_>, text: &str, cut: bool) -> Answer;

    /// Looks at an answer in the light of what it is about, before it is recorded.
    fn consider(&self, _answer: &mut Answer, _at: At<'_>, _style: Style<'_>) {}

    /// Bounds the texts of an answer that the model would read, and drops those that no event of this kind shows. `folder`
    /// is where the transcripts are.
    fn bound<'a>(
        &'a self,
        answer: &'a mut Answer,
        definition: &'a Definition,
        scene: &'a Scene,
        folder: &'a Path,
    ) -> BoxFuture<'a, ()>;

    /// What the model should still read of a hook that nobody waited for. `name`: event and subject.
    fn late(&self, definition: &Definition, name: &str, answer: Answer) -> Said;

    /// SessionStart and SubagentStart.
    fn started(&self, heard: Heard) -> Mapped<Started>;
    /// UserPromptSubmit.
    fn submit(&self, heard: Heard) -> Mapped<Submit>;
    /// PreToolUse.
    fn proposal(&self, heard: Heard) -> Mapped<Proposal>;
    /// PermissionRequest.
    fn permit(&self, heard: Heard) -> Mapped<Permit>;
    /// What comes after one call.
    fn review(&self, heard: Heard) -> Mapped<Review>;
    /// PostToolBatch.
    fn batched(&self, heard: Heard) -> Mapped<Batched>;
    /// Stop and SubagentStop.
    fn again(&self, heard: Heard) -> Mapped<Continue>;
    /// PreCompact.
    fn compact(&self, heard: Heard) -> Mapped<Compact>;
    /// PostCompact.
    fn noted(&self, heard: Heard) -> Mapped<Noted>;
}

/// Where a hook starts: the session's directory, or the project's once that is gone.
pub(crate) fn directory(scene: &Scene, project: &Path) -> PathBuf {
    let wanted = [&*scene.session.cwd, project].into_iter().find(|dir| dir.is_dir());
    wanted.unwrap_or(Path::new("/")).to_owned()
}

/// An absolute path without `.` and `..`: by text, following no link.
pub(crate) fn resolve(base: &Path, path: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// A text with `${NAME}` filled in for places that are known, once: what is filled in is not looked at again.
pub(crate) fn fill(text: &str, places: &[(&'static str, Option<&Path>)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = |name: &str| rest[2..].strip_prefix(name).is_some_and(|rest| rest.starts_with('}'));
        let found = places.iter().find_map(|(name, path)| Some((name, (*path)?)).filter(|_| named(name)));
        let taken = match found {
            Some((name, path)) => {
                out.push_str(&path.to_string_lossy());
                name.len() + 3
            }
            None => {
                out.push_str("${");
                2
            }
        };
        rest = &rest[taken..];
    }
    out + rest
}
