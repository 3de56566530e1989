//! Hooks in the background: started, never awaited to their end, unable to decide.
//!
//! One is there from its start on (`async: true`), or goes there itself, with `{"async":true}` as its first line of output. What
//! such a hook says when it ends is handed to the host, which is the one that can still tell the session.

use crate::{hook::Hook, json, listen::Ran};
use portcullis_process::{Ending, Finished};
use portcullis_runtime::{HandlerId, OwnRecord, Scene, SessionId};
use std::{future::Future, sync::Arc, time::Duration};
use tracing::Instrument;

/// What a hook in the background came to, once it has ended or run into its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Late {
    /// The session it was started in.
    pub session: SessionId,
    /// Which hook.
    pub handler: HandlerId,
    /// What the model should still read, as the client words it. Often nothing.
    pub context: Vec<Arc<str>>,
    /// The model should read it now, and not with its next request: exit code 2 of a hook with `asyncRewake`.
    pub wakes: bool,
    /// `hook/invoked` and `hook/result`.
    pub records: Vec<OwnRecord>,
}

/// What the model should still read of one, and whether at once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) context: Vec<String>,
    pub(crate) wakes: bool,
}

/// Starts it. The process ends with its own limit, or with the thread that holds the session.
pub(crate) fn leave(hook: Hook, scene: Scene, subject: &str, stdin: Vec<u8>) {
    let (name, span) = (name(&hook, subject), span(&scene));
    let work = async move {
        let late = run(&hook, &scene, &name, stdin).await;
        hand(&hook, late);
    };
    // Whoever drops the handle lets the task go on: that is what is wanted.
    drop(tokio::spawn(work.instrument(span)));
}

/// Does its work to the end, and says what it came to.
pub(crate) async fn run(hook: &Hook, scene: &Scene, name: &str, stdin: Vec<u8>) -> Late {
    // Places of their own: a slow one must not hold up the hooks that a turn waits for.
    let permits = hook.house.background.clone();
    let behind = hook.catch_up(scene).await;
    let ran = hook.work(scene, stdin, Some(permits)).await;
    finish(hook, scene, name, ran, behind.as_deref()).await
}

/// Lets one go on that has gone there itself. Its limit is what it said, if it said one, and its own in any case.
pub(crate) fn let_go(
    hook: Hook,
    scene: Scene,
    subject: &str,
    limit: Option<Duration>,
    running: impl Future<Output = Ran> + Send + 'static,
) {
    let (name, span) = (name(&hook, subject), span(&scene));
    let work = async move {
        let running = Box::pin(running);
        let ran = match limit {
            None => running.await,
            // Dropped, it is ended.
            Some(limit) => match tokio::time::timeout(limit, running).await {
                Ok(ran) => ran,
                Err(_) => Ran::LetGo { limit },
            },
        };
        let late = finish(&hook, &scene, &name, ran, None).await;
        hand(&hook, late);
    };
    drop(tokio::spawn(work.instrument(span)));
}

/// The first line of output with which a hook goes into the background, and the limit it sets itself.
pub(crate) fn goes(line: &[u8]) -> Option<Option<Duration>> {
    let line = String::from_utf8_lossy(line);
    let node = json::parse(json::trim(&line)).ok()?;
    if node.get("async").and_then(json::Node::bool) != Some(true) {
        return None;
    }
    let limit = node.get("asyncTimeout").and_then(json::Node::number).filter(|ms| *ms > 0.0);
    Some(limit.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok()))
}

/// A run that ended before anybody saw that it had gone into the background.
pub(crate) fn had_gone(finished: &Finished) -> bool {
    let line = finished.stdout.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    finished.ending == Ending::Exited && goes(line).is_some()
}

fn name(hook: &Hook, subject: &str) -> String {
    let event = hook.definition.event.name();
    if subject.is_empty() { event.into() } else { format!("{event}:{subject}") }
}

fn span(scene: &Scene) -> tracing::Span {
    tracing::debug_span!("background", session = %scene.session.id)
}

async fn finish(hook: &Hook, scene: &Scene, name: &str, mut ran: Ran, behind: Option<&str>) -> Late {
    if let Ran::Process(Ok(finished)) = &mut ran
        && hook.house.dialect.lets_go()
        && had_gone(finished)
    {
        // What it said before is no part of what it says.
        let stdout = &mut finished.stdout;
        let line = stdout.bytes.iter().position(|byte| *byte == b'\n');
        let gone = stdout.bytes.drain(..line.map_or(stdout.bytes.len(), |at| at + 1)).len();
        stdout.total -= gone as u64;
    }
    let heard = hook.heard(scene, String::new(), ran, behind, None).await;
    let definition = &hook.definition;
    let said = match definition.event.is_notice() {
        // Whoever is told of something tells the model nothing.
        true => Said::default(),
        false => hook.house.dialect.late(definition, name, heard.answer),
    };
    let context = said.context.into_iter().map(Into::into).collect();
    let (session, handler) = (scene.session.id.clone(), hook.id.clone());
    Late { session, handler, context, wakes: said.wakes, records: heard.records }
}

/// Hands it to the host.
pub(crate) fn hand(hook: &Hook, late: Late) {
    match &hook.house.late {
        Some(tell) => tell(late),
        None => {
            tracing::warn!(handler = %hook.id, "a background hook's end is not recorded: the host takes none")
        }
    }
}
