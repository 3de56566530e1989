//! Hooks in the background (`async: true`): started, never awaited, unable to decide.
//!
//! What such a hook says when it ends is handed to the host, which is the one that can still tell the session.

use super::{hook::Hook, output::Verdict};
use portcullis_runtime::{HandlerId, OwnRecord, Scene, SessionId};
use std::sync::Arc;
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
    /// `hook/invoked` and `hook/result`.
    pub records: Vec<OwnRecord>,
}

/// Starts it. The process ends with its own limit, or with the thread that holds the session.
pub(super) fn leave(hook: Hook, scene: Scene, subject: &str, stdin: Vec<u8>) {
    let event = hook.definition.event;
    let name = if subject.is_empty() { event.name().into() } else { format!("{}:{subject}", event.name()) };
    let span = tracing::debug_span!("background", session = %scene.session.id);
    // Whoever drops the handle lets the task go on: that is what is wanted.
    drop(tokio::spawn(async move { finish(hook, scene, &name, stdin).await }.instrument(span)));
}

async fn finish(hook: Hook, scene: Scene, name: &str, stdin: Vec<u8>) {
    // Places of their own: a slow one must not hold up the hooks that a turn waits for.
    let permits = hook.house.background.clone();
    let heard = hook.listen(&scene, stdin, Some(permits), |_| {}).await;
    let mut context: Vec<Arc<str>> = Vec::new();
    match &heard.answer.verdict {
        Some(Verdict::Block(reason)) if hook.definition.rewakes => {
            let stderr = reason.strip_prefix(&*format!("[{}]: ", hook.definition.written.name()));
            let reason = stderr.unwrap_or(reason);
            context.push(format!("Stop hook blocking error from command \"{name}\": {reason}").into());
        }
        _ => context.extend(heard.answer.context.map(Into::into)),
    }
    let late =
        Late { session: scene.session.id.clone(), handler: hook.id.clone(), context, records: heard.records };
    match &hook.house.late {
        Some(tell) => tell(late),
        None if late.context.is_empty() => {}
        None => {
            tracing::warn!(handler = %hook.id, "a background hook's context is dropped: the host takes none")
        }
    }
}
