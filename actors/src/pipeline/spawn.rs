//! Subagents that a body starts: narrowed, limited, recorded in the parent's log (C-SUB).

use super::Trip;
use crate::{
    host::{ChildOf, Opening},
    runtime::{Profile, SessionOptions},
    subagent::{Run, SubagentActor},
};
use actix::prelude::*;
use portcullis_runtime::{
    AgentDone, AgentSpec, Cancel, ChildEnded, Draft, Parent, Point, SessionId, SessionInfo, SpawnError,
    SubagentEnded, SubagentStarted,
};
use std::{rc::Rc, sync::Arc};

/// Runs a subagent under this call to its end.
pub(super) async fn spawn(
    trip: Rc<Trip>,
    spec: AgentSpec,
    number: u32,
    cancel: Cancel,
) -> Result<AgentDone, SpawnError> {
    let cx = trip.cx.clone();
    let limits = cx.profile.config.limits;
    if cx.info.depth() >= limits.agent_depth {
        return Err(SpawnError::Depth { limit: limits.agent_depth });
    }
    let _one_more = OneMore::of(&cx.agents, limits.agents_at_once)?;
    let opening = narrowed(&trip, &spec, number)?;
    let child = opening.id.clone();
    let failed = |why: String| SpawnError::Failed(why);
    let started = Draft::new(trip.at.clone(), SubagentStarted { child: child.clone() });
    let _enqueued = cx.commit(vec![started]).map_err(|_| SpawnError::Over)?;
    let actor = SubagentActor { host: cx.host.clone(), room: cx.room.clone(), cancel }.start();
    cx.hop();
    let run = actor.send(Run { opening, prompt: spec.prompt.clone() });
    let done = cx.pass.away(run).await.map_err(|e| failed(e.to_string())).and_then(|done| done);
    let outcome = match &done {
        Ok(done) => done.end.clone(),
        Err(error) => portcullis_runtime::EndReason::Error {
            code: "agent_failed".into(),
            message: error.to_string().into(),
        },
    };
    let ended = Draft::new(trip.at.clone(), SubagentEnded { child: child.clone(), outcome: outcome.clone() });
    let ticket = cx.commit(vec![ended]).map_err(|_| SpawnError::Over)?;
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

/// What the child runs under: never wider than its parent.
fn narrowed(trip: &Trip, spec: &AgentSpec, number: u32) -> Result<Opening, SpawnError> {
    let cx = &trip.cx;
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
    let key = &trip.key;
    let name = format!("{}.{}-{}-{}-{number}", cx.info.id, key.turn, key.step, key.call);
    let id = SessionId::new(name).map_err(|e| SpawnError::Failed(e.to_string()))?;
    let table = cx.profile.table.for_child(spec.tools.as_deref(), &spec.opt_out);
    let system = spec.system.clone().unwrap_or_else(|| cx.profile.header.system.clone());
    let profile = Profile::new(table, cx.shared.model.name(), system, cx.profile.config.limits);
    let info: SessionInfo = cx.info.child(id.clone(), cwd.clone(), spec.kind.clone());
    let options = SessionOptions::new(cwd).channel(cx.info.channel.clone());
    let options = if cx.approvals { options.approvals() } else { options };
    let parent = Parent { session: cx.info.id.clone(), call: key.clone() };
    let child = ChildOf { info: Arc::new(info), parent, asks: cx.asks.clone() };
    Ok(Opening { id, options, profile: Arc::new(profile), child: Some(child) })
}

/// One more agent at work, as long as it lives.
struct OneMore(Rc<std::cell::Cell<u32>>);

impl OneMore {
    fn of(agents: &Rc<std::cell::Cell<u32>>, limit: u32) -> Result<OneMore, SpawnError> {
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
