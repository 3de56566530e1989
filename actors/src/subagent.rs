//! SubagentActor: one per child, the parent's end of the wire. The child itself is a session like any other, on the same
//! arbiter; this actor opens it, sends it its prompt, hands a cancel down and one result up, and lets it leave memory.
//!
//! A child that was at work when its process died is taken up where its own log ends, and is not sent its prompt again.

use crate::{
    cx::Room,
    handles::{Session, SubmitError},
    host::{Close, Host, Open, OpenError, Opening},
    session::GONE,
};
use actix::prelude::*;
use futures::future::{Either, select};
use portcullis_runtime::{
    AgentDone, AssistantBlock, Cancel, Cause, Content, EndReason, Message as Said, Source, SpawnError,
    law::State,
};
use std::{pin::pin, rc::Rc};

/// The actor.
pub(crate) struct SubagentActor {
    pub(crate) host: Addr<Host>,
    pub(crate) room: Rc<Room>,
    pub(crate) cancel: Cancel,
}

impl Actor for SubagentActor {
    type Context = Context<Self>;
}

/// Opens the child and plays it one prompt.
pub(crate) struct Run {
    pub(crate) opening: Opening,
    pub(crate) prompt: Content,
}

impl Message for Run {
    type Result = Result<AgentDone, SpawnError>;
}

impl actix::Handler<Run> for SubagentActor {
    type Result = ResponseActFuture<Self, Result<AgentDone, SpawnError>>;

    fn handle(&mut self, run: Run, _: &mut Context<Self>) -> Self::Result {
        let (host, room, cancel) = (self.host.clone(), self.room.clone(), self.cancel.clone());
        let work = async move {
            let opened = host.send(Open(run.opening, None)).await;
            let failed = |why: String| SpawnError::Failed(why);
            let session = match opened.map_err(|e| failed(e.to_string()))? {
                Err(OpenError::Draining) => return parked(&cancel).await,
                opened => opened.map_err(|e| failed(e.to_string()))?,
            };
            let mut wire = Wire { session, ended: false };
            let done = wire.play(run.prompt, &cancel, &room).await;
            // The child leaves memory at once; its log stays.
            let _ = host.send(Close { session: wire.session.clone() }).await;
            done
        };
        Box::pin(work.into_actor(self).map(|done, _, ctx| {
            ctx.stop();
            done
        }))
    }
}

/// The child's handle; let go before its end, it is cancelled: nobody waits for it any more.
struct Wire {
    session: Session,
    ended: bool,
}

impl Wire {
    async fn play(&mut self, prompt: Content, cancel: &Cancel, room: &Room) -> Result<AgentDone, SpawnError> {
        let failed = |why: String| SpawnError::Failed(why);
        let id = self.session.id().clone();
        let cx = room.find(&id).ok_or_else(|| failed("its session left memory".into()))?;
        // Nothing is awaited between this look and the handle: the turn cannot end unseen.
        let (open, over) = cx.ledger.read(|s| {
            let open = s.open_turn().is_some() || s.has_prompts();
            (open, s.last_end().filter(|_| !open).cloned())
        });
        let turn = match over {
            Some(end) => {
                cx.barrier().await.map_err(|e| failed(e.to_string()))?;
                self.ended = true;
                return Ok(AgentDone::new(id, end.clone(), self.report(room, &end)));
            }
            None if open => self.session.inner.control.follow_turn(),
            None => match self.session.prompt(prompt).await {
                Err(SubmitError::Draining { .. } | SubmitError::Closed { .. }) => {
                    return parked(cancel).await;
                }
                sent => sent.map_err(|e| failed(e.to_string()))?,
            },
        };
        let ended = turn.done();
        let end = match select(pin!(ended), pin!(cancel.cancelled())).await {
            Either::Left(((_, end, _), _)) => end,
            Either::Right((_, ended)) => {
                // A journal that fails now ends the turn all the same.
                let _ = self.session.cancel(Cause::Parent).await;
                ended.await.1
            }
        };
        self.ended = true;
        if matches!(&end, EndReason::Error { code, .. } if **code == *GONE) {
            return parked(cancel).await;
        }
        let report = self.report(room, &end);
        Ok(AgentDone::new(id, end, report))
    }

    fn report(&self, room: &Room, end: &EndReason) -> Content {
        let said = room.find(self.session.id()).and_then(|cx| cx.ledger.read(last_words));
        said.unwrap_or_else(|| silent(end))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if !self.ended {
            self.session.inner.control.cancel(Cause::Parent);
        }
    }
}

/// The runtime shuts down and the child is parked: it has not ended, so nothing of the kind may get into its parent's log.
/// The parent is parked as well; taken up again, it finds the child where it is.
async fn parked(cancel: &Cancel) -> Result<AgentDone, SpawnError> {
    cancel.cancelled().await;
    Err(SpawnError::Failed("its session left memory".into()))
}

/// The last thing a session's model said, if that was a text.
pub(crate) fn last_words(state: &State) -> Option<Content> {
    let transcript = state.transcript();
    let said = transcript.rev().find_map(|message| match message {
        Said::Assistant { blocks } => Some(blocks.clone()),
        _ => None,
    });
    let Some(said) = said else {
        // It may have been summarised away: then the summary says what it came to.
        return transcript.iter().find_map(|message| match message {
            Said::User { content, source: Source::Runtime } => Some(content.clone()),
            _ => None,
        });
    };
    let texts: Vec<&str> = said
        .iter()
        .filter_map(|block| match block {
            AssistantBlock::Text { text } => Some(&**text),
            _ => None,
        })
        .collect();
    Some(texts.join("\n")).filter(|text| !text.trim().is_empty()).map(Content::text)
}

/// What an agent reports that said nothing.
pub(crate) fn silent(end: &EndReason) -> Content {
    Content::text(format!("The agent said nothing; its turn ended: {end}."))
}
