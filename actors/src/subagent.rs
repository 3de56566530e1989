//! SubagentActor: one per child, the parent's end of the wire. The child itself is a session like any other, on the same
//! arbiter; this actor opens it, sends it its prompt, hands a cancel down and one result up, and lets it leave memory.

use crate::{
    cx::Room,
    handles::Session,
    host::{Close, Host, Open, Opening},
};
use actix::prelude::*;
use futures::future::{Either, select};
use portcullis_runtime::{
    AgentDone, AssistantBlock, Cancel, Cause, Content, EndReason, Message as Said, SessionId, SpawnError,
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
            let id = run.opening.id.clone();
            let opened = host.send(Open(run.opening)).await;
            let failed = |why: String| SpawnError::Failed(why);
            let session = opened.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?;
            let wire = Wire { session, ended: false };
            let done = wire.play(run.prompt, &cancel, &room).await;
            // The child leaves memory at once; its log stays.
            let _ = host.send(Close { id }).await;
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
    async fn play(mut self, prompt: Content, cancel: &Cancel, room: &Room) -> Result<AgentDone, SpawnError> {
        let turn = self.session.prompt(prompt).await.map_err(|e| SpawnError::Failed(e.to_string()))?;
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
        let id = self.session.id().clone();
        let report = report(room, &id, &end);
        Ok(AgentDone::new(id, end, report))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if !self.ended {
            self.session.inner.control.cancel(Cause::Parent);
        }
    }
}

/// The last thing the child said, or how it ended if it said nothing.
fn report(room: &Room, id: &SessionId, end: &EndReason) -> Content {
    let last = room.find(id).and_then(|cx| {
        cx.ledger.read(|s| {
            let transcript = s.transcript();
            let said = transcript.rev().find_map(|message| match message {
                Said::Assistant { blocks } => Some(blocks.clone()),
                _ => None,
            })?;
            let texts: Vec<&str> = said
                .iter()
                .filter_map(|block| match block {
                    AssistantBlock::Text { text } => Some(&**text),
                    _ => None,
                })
                .collect();
            Some(texts.join("\n")).filter(|text| !text.trim().is_empty())
        })
    });
    Content::text(last.unwrap_or_else(|| format!("The agent said nothing; its turn ended: {end}.")))
}
