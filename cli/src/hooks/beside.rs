//! What hooks need of a session while it runs: a transcript to read, and someone who passes on what hooks in the background
//! say.

use super::args::LayerArgs;
use crate::problem::Problem;
use futures::StreamExt;
use portcullis::{
    Event, Seq, Session, SessionAdvisor,
    hooks::{ClaudeHooks, Late, Report, Transcript},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::mpsc::{Receiver, channel},
    task::JoinHandle,
};

/// How many background hooks may have ended without having been passed on.
const WAITING: usize = 64;
/// How long the last lines of a transcript may take.
const GRACE: Duration = Duration::from_secs(5);

/// What was prepared before there was a session.
pub(crate) struct Beside {
    late: Receiver<Late>,
}

/// Loads a project's hooks, with the layers that the options name. Those that ask a model ask the advisor.
pub(crate) fn load(
    project: &Path,
    layers: &LayerArgs,
    advisor: SessionAdvisor,
) -> Result<(Arc<ClaudeHooks>, Vec<Report>, Beside), Problem> {
    let (tell, late) = channel(WAITING);
    let options = super::layers::find(project, layers)?.options.advisor(advisor).late(move |late: Late| {
        if tell.try_send(late).is_err() {
            tracing::warn!("a background hook ended when nobody was left to tell");
        }
    });
    let (hooks, reports) = ClaudeHooks::load_with(project, options);
    Ok((hooks, reports, Beside { late }))
}

impl Beside {
    /// Attends to a session until it leaves memory.
    pub(crate) fn attend(mut self, session: &Session, transcript: PathBuf) -> Attending {
        let (of, to) = (session.clone(), session.clone());
        let lines = tokio::spawn(async move { keep(&of, &transcript).await });
        let late = tokio::spawn(async move {
            while let Some(late) = self.late.recv().await {
                pass_on(&to, late).await;
            }
        });
        Attending { lines, late }
    }
}

/// What attends to a session.
pub(crate) struct Attending {
    lines: JoinHandle<()>,
    late: JoinHandle<()>,
}

impl Attending {
    /// Waits for the transcript's last line, once the session has left memory.
    pub(crate) async fn finish(mut self) {
        self.late.abort();
        if tokio::time::timeout(GRACE, &mut self.lines).await.is_err() {
            tracing::warn!("the transcript's last lines are missing");
            self.lines.abort();
        }
    }
}

/// The model reads it in the next request of the open turn, or in the next turn; it wakes nobody.
async fn pass_on(session: &Session, late: Late) {
    if late.session != *session.id() {
        // A subagent has no door of its own, and is gone by now as likely as not.
        return tracing::debug!(handler = %late.handler, "a subagent's background hook said something too late");
    }
    for text in late.context {
        if let Err(error) = session.inject("claude", text).await {
            tracing::warn!(handler = %late.handler, %error, "a background hook's context was not taken");
        }
    }
}

/// Writes the transcript from the first record on. A hook can do without one, so trouble with it ends no session.
async fn keep(session: &Session, file: &Path) {
    let mut transcript = match Transcript::create(file, session.id().clone()) {
        Ok(transcript) => transcript,
        Err(error) => return tracing::error!(file = %file.display(), %error, "there is no transcript"),
    };
    let mut events = session.events(Seq(0));
    while let Some(event) = events.next().await {
        let Event::Record(record) = event else { continue };
        if let Err(error) = transcript.add(&record) {
            return tracing::error!(file = %file.display(), %error, "the transcript ends here");
        }
    }
}
