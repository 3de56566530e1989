//! Subagents that a body starts: narrowed, limited, recorded in the parent's log (C-SUB).

use super::{Trip, nested::Count};
use crate::{
    cx::{SessionCx, Wait},
    host::{ChildOf, Opening, PAGE},
    runtime::{Profile, SessionOptions},
    subagent::{Run, SubagentActor, last_words, silent},
};
use actix::prelude::*;
use portcullis_runtime::{
    AgentDone, AgentSpec, Body, CallKey, Cancel, Cause, ChildEnded, Content, Draft, JournalError, Parent,
    Point, SessionId, SessionInfo, SpawnError, SubagentEnded, SubagentStarted, Ticket, law::State,
};
use std::{pin::pin, rc::Rc, sync::Arc};

/// Runs a subagent under this call to its end. One that this call's body started before the process died is taken up
/// where it is: asked nothing twice, started and ended once in the log (C-SUB-3).
pub(super) async fn spawn(
    trip: Rc<Trip>,
    spec: AgentSpec,
    mut number: u32,
    made: &Count,
    cancel: Cancel,
) -> Result<AgentDone, SpawnError> {
    let cx = trip.cx.clone();
    may_nest(&cx)?;
    let _one_more = OneMore::of(&cx)?;
    let failed = |why: String| SpawnError::Failed(why);
    let (opening, before) = loop {
        let opening = narrowed(&trip, &spec, number)?;
        let known = cx.ledger.read(|s| s.child(&trip.key.call, &opening.id));
        let Some(ended) = known else { break (opening, None) };
        let recalled = recall(&cx, &opening.id).await?;
        // A body that asks for something else than before the crash gets another agent.
        if recalled.prompt.as_ref().is_none_or(|asked| *asked == spec.prompt) {
            break (opening, Some((ended, recalled.done)));
        }
        number = made.next_agent();
    };
    let child = opening.id.clone();
    if before.is_none() {
        let started = Draft::new(trip.at.clone(), SubagentStarted { child: child.clone() });
        let _enqueued = put(&trip, started)?;
    }
    let (was_ended, recalled) = before.unwrap_or((false, None));
    let done = match recalled {
        Some(done) => Ok(done),
        None => {
            let mut given_up = GivenUp { cancel: cancel.clone(), waited_for: false };
            let actor = SubagentActor { host: cx.host.clone(), room: cx.room.clone(), cancel }.start();
            cx.hop();
            let run = actor.send(Run { opening, prompt: spec.prompt.clone() });
            let _child = cx.waits_for(Wait::Child(trip.key.call.clone(), child.clone()));
            let ran = cx.pass.away(pin!(run)).await;
            given_up.waited_for = true;
            ran.map_err(|e| failed(e.to_string())).and_then(|done| done)
        }
    };
    if was_ended {
        return done;
    }
    let outcome = match &done {
        Ok(done) => done.end.clone(),
        Err(error) => portcullis_runtime::EndReason::Error {
            code: "agent_failed".into(),
            message: error.to_string().into(),
        },
    };
    let ended = Draft::new(trip.at.clone(), SubagentEnded { child: child.clone(), outcome: outcome.clone() });
    let ticket = put(&trip, ended)?;
    let observers = &cx.profile.table.child_observers;
    if let (false, Ok(done)) = (observers.is_empty(), &done) {
        ticket.wait().await.map_err(|e| failed(e.to_string()))?;
        let seen = ChildEnded::new(cx.scene(), child, spec.kind.clone(), outcome, done.report.clone());
        for observer in observers.iter().filter(|o| o.matches.fit(&seen.scene, None)) {
            let watched = cx.watched(observer.id.clone(), Some(Point::SubagentEnd));
            if let Err(failure) = watched.contain_sync(|| observer.run.observe(&seen)) {
                tracing::error!(observer = %observer.id, %failure, "an observer failed");
            }
        }
    }
    done
}

/// What a child's own log says of it.
#[derive(Default)]
struct Recalled {
    /// What it was asked, if it was.
    prompt: Option<Content>,
    /// What it came to, if it is over.
    done: Option<AgentDone>,
}

/// Reads the log of a child that this call has started. Its session is not opened for that.
async fn recall(cx: &SessionCx, child: &SessionId) -> Result<Recalled, SpawnError> {
    let failed = |why: String| SpawnError::Failed(why);
    let (mut state, mut recalled) = (State::new(), Recalled::default());
    loop {
        let page = match cx.shared.journal.read(child, state.head(), PAGE).await {
            Ok(page) => page,
            // Its parent's record is durable and its own first one is not.
            Err(JournalError::NotFound(_)) => return Ok(recalled),
            Err(error) => return Err(failed(error.to_string())),
        };
        for record in &page {
            state.apply(record).map_err(|invalid| failed(invalid.to_string()))?;
            if let (Body::PromptQueued(queued), None) = (&record.body, &recalled.prompt) {
                recalled.prompt = Some(queued.content.clone());
            }
        }
        if page.is_empty() {
            break;
        }
    }
    let over = state.open_turn().is_none() && !state.has_prompts();
    if let Some(end) = state.last_end().filter(|_| over) {
        let report = last_words(&state).unwrap_or_else(|| silent(end));
        recalled.done = Some(AgentDone::new(child.clone(), end.clone(), report));
    }
    Ok(recalled)
}

/// A record of the call, if its body is still at work: what comes later has no place any more.
fn put(trip: &Trip, draft: Draft) -> Result<Ticket, SpawnError> {
    if trip.cx.ledger.read(|s| s.running(&trip.key.call)).is_none() {
        return Err(SpawnError::Over);
    }
    trip.cx.commit(vec![draft]).map_err(|_| SpawnError::Over)
}

/// Nobody waits for the child any more: it is cancelled.
struct GivenUp {
    cancel: Cancel,
    waited_for: bool,
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if !self.waited_for {
            self.cancel.cancel(Cause::Parent);
        }
    }
}

/// The session of a call's agent.
fn narrowed(trip: &Trip, spec: &AgentSpec, number: u32) -> Result<Opening, SpawnError> {
    let (cx, key) = (&trip.cx, &trip.key);
    let name = format!("{}.{}-{}-{}-{number}", cx.info.id, key.turn, key.step, key.call);
    let id = SessionId::new(name).map_err(|e| SpawnError::Failed(e.to_string()))?;
    below(cx, spec, id, Some(key.clone()))
}

fn may_nest(cx: &SessionCx) -> Result<(), SpawnError> {
    let limit = cx.profile.config.limits.agent_depth;
    if cx.info.depth() >= limit { Err(SpawnError::Depth { limit }) } else { Ok(()) }
}

/// What an agent below a session runs under: never wider than its parent. One that no call started has nobody to ask: whoever
/// waits for it has a limit.
pub(crate) fn below(
    cx: &SessionCx,
    spec: &AgentSpec,
    id: SessionId,
    call: Option<CallKey>,
) -> Result<Opening, SpawnError> {
    may_nest(cx)?;
    let widens = |what: String| SpawnError::Widens { what };
    for tool in spec.tools.iter().flatten() {
        if cx.profile.table.find(tool).is_none() {
            return Err(widens(format!("the tool `{tool}`")));
        }
    }
    let cwd = match &spec.cwd {
        None => cx.info.cwd.clone(),
        Some(cwd) => {
            let inside = cx.info.cwd.join(cwd);
            let plain = !inside.components().any(|part| part == std::path::Component::ParentDir);
            if !plain || !inside.starts_with(&cx.info.cwd) {
                return Err(widens(format!("the directory `{}`", cwd.display())));
            }
            inside
        }
    };
    let table = cx.profile.table.for_child(spec.tools.as_deref(), &spec.opt_out);
    let system = spec.system.clone().unwrap_or_else(|| cx.profile.header.system.clone());
    let profile = Profile::new(table, cx.shared.model.name(), system, cx.profile.config.limits);
    let info: SessionInfo = cx.info.child(id.clone(), cwd.clone(), spec.kind.clone());
    let options = SessionOptions::new(cwd).channel(cx.info.channel.clone());
    let options = if cx.approvals && call.is_some() { options.approvals() } else { options };
    let parent = Parent { session: cx.info.id.clone(), call };
    let child = ChildOf { info: Arc::new(info), parent, asks: cx.asks.clone() };
    Ok(Opening { id, options, profile: Arc::new(profile), child: Some(child), cue: None })
}

/// One more agent at work, as long as it lives.
pub(crate) struct OneMore(Rc<std::cell::Cell<u32>>);

impl OneMore {
    pub(crate) fn of(cx: &SessionCx) -> Result<OneMore, SpawnError> {
        let (agents, limit) = (&cx.agents, cx.profile.config.limits.agents_at_once);
        if agents.get() >= limit {
            return Err(SpawnError::Count { limit });
        }
        agents.set(agents.get() + 1);
        Ok(OneMore(agents.clone()))
    }
}

impl Drop for OneMore {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
