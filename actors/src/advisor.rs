//! Who answers the questions that handlers ask beside the conversation: the session's own model, or an agent below the session.
//!
//! An agent of a handler is a session like any subagent's, on the same arbiter, under the same limits and policies. Its name
//! follows from the question and its place, so a handler that was cut off with its process finds the same agent again, where it
//! was, and nothing is asked twice.

use crate::{
    host::Host,
    pipeline::{OneMore, below},
    runtime::Shared,
    subagent::{Run, SubagentActor},
};
use actix::prelude::*;
use futures::{FutureExt, StreamExt, future::BoxFuture};
use portcullis_runtime::{
    Advice, Advisor, AgentSpec, Asked, Cancel, Cause, Finish, Frozen, Message as Said, Model, ModelError,
    ModelEvent, ModelRequest, NoAdvice, Question, RequestHeader, SessionId, Source, law::Transcript,
};
use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock, Weak},
};

/// The advisor of a runtime's own sessions. It is made before the runtime, because what asks it is mounted there, and answers
/// once the runtime runs ([`Runtime::answers`](crate::Runtime::answers)).
#[derive(Clone, Default)]
pub struct SessionAdvisor {
    runtime: Arc<OnceLock<Weak<Shared>>>,
}

impl SessionAdvisor {
    /// One that no runtime answers yet.
    pub fn new() -> SessionAdvisor {
        SessionAdvisor::default()
    }

    pub(crate) fn answer(&self, runtime: &Arc<Shared>) {
        // The first runtime stays: two cannot answer one handler.
        let _ = self.runtime.set(Arc::downgrade(runtime));
    }
}

impl std::fmt::Debug for SessionAdvisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionAdvisor").field("answered", &self.runtime.get().is_some()).finish()
    }
}

impl Advisor for SessionAdvisor {
    fn advise(&self, question: Question) -> BoxFuture<'static, Result<Advice, NoAdvice>> {
        let runtime = self.runtime.get().and_then(Weak::upgrade);
        Box::pin(async move {
            let runtime = runtime.ok_or_else(|| NoAdvice::Nobody("no runtime answers".into()))?;
            match question.of {
                Asked::Model => ask_model(&*runtime.model, &question).await,
                _ => ask_agent(&runtime, question).await,
            }
        })
    }
}

/// An advisor without sessions: it asks this model, and has no agents. For tools that judge what hooks would say.
#[derive(Clone)]
pub struct ModelAdvisor {
    model: Arc<dyn Model>,
}

impl ModelAdvisor {
    /// On this model.
    pub fn new(model: impl Model) -> ModelAdvisor {
        ModelAdvisor { model: Arc::new(model) }
    }
}

impl std::fmt::Debug for ModelAdvisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelAdvisor").field("model", &self.model.name()).finish()
    }
}

impl Advisor for ModelAdvisor {
    fn advise(&self, question: Question) -> BoxFuture<'static, Result<Advice, NoAdvice>> {
        let model = self.model.clone();
        Box::pin(async move {
            match question.of {
                Asked::Model => ask_model(&*model, &question).await,
                _ => Err(NoAdvice::Nobody("there is no session here in which an agent could work".into())),
            }
        })
    }
}

/// One request without tools, beside the conversation.
async fn ask_model(model: &dyn Model, question: &Question) -> Result<Advice, NoAdvice> {
    let name = model.name();
    let header = RequestHeader { model: name.clone(), system: question.system.clone(), tools: Vec::new() };
    let source = Source::owner(question.by.owner.clone());
    let asked = Said::User { content: (&*question.text).into(), source };
    let messages = Transcript::default().with(&[asked]);
    let request = ModelRequest::new(Arc::new(header), messages, 1, Cancel::new());
    let answered = AssertUnwindSafe(async {
        let mut advice = Advice::new("", name);
        let (mut stream, mut events) = (model.respond(request), 0);
        while let Some(event) = stream.next().await {
            events += 1;
            match event? {
                ModelEvent::Text(more) => advice.text.push_str(&more),
                ModelEvent::Usage(used) => advice.usage = Some(used),
                ModelEvent::Finish(Finish::Stop) if !advice.text.trim().is_empty() => return Ok(advice),
                ModelEvent::Finish(finish) => return Err(NoAdvice::Unfinished(finish)),
                _ => {}
            }
        }
        Err(ModelError::Cut { events }.into())
    });
    let panicked = || NoAdvice::Model(ModelError::Fatal { message: "the model panicked".into() });
    answered.catch_unwind().await.unwrap_or_else(|_| Err(panicked()))
}

async fn ask_agent(runtime: &Shared, question: Question) -> Result<Advice, NoAdvice> {
    let root = &question.scene.session.root;
    let host = runtime.host_of_live(root);
    let host = host.ok_or_else(|| NoAdvice::Nobody(format!("session `{root}` is not in memory")))?;
    let cancel = Cancel::new();
    // Whoever drops the question drops this, and the agent is cancelled.
    let _withdrawn = Withdrawn(cancel.clone());
    let asked = host.send(Consult { question, cancel }).await;
    asked.unwrap_or_else(|gone| Err(NoAdvice::Nobody(gone.to_string())))
}

struct Withdrawn(Cancel);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        self.0.cancel(Cause::Parent);
    }
}

/// A question to an agent of one of this arbiter's sessions.
pub(crate) struct Consult {
    question: Question,
    cancel: Cancel,
}

impl Message for Consult {
    type Result = Result<Advice, NoAdvice>;
}

impl actix::Handler<Consult> for Host {
    type Result = ResponseFuture<Result<Advice, NoAdvice>>;

    fn handle(&mut self, consult: Consult, ctx: &mut Context<Self>) -> Self::Result {
        let (room, host) = (self.kit.room.clone(), ctx.address());
        let Consult { question, cancel } = consult;
        Box::pin(async move {
            let Asked::Agent(kind) = &question.of else {
                return Err(NoAdvice::Nobody("this question is not an agent's".into()));
            };
            let session = &question.scene.session.id;
            let cx = room.find(session);
            let cx = cx.ok_or_else(|| NoAdvice::Nobody(format!("session `{session}` is not in memory")))?;
            let failed = |why: &dyn std::fmt::Display| NoAdvice::Agent(why.to_string());
            let id = name(&question).map_err(|why| failed(&why))?;
            let mut spec = AgentSpec::new(kind.clone(), &*question.text);
            spec.system = Some(question.system.clone());
            let opening = below(&cx, &spec, id, None).map_err(|why| failed(&why))?;
            let _one_more = OneMore::of(&cx).map_err(|why| failed(&why))?;
            let actor = SubagentActor { host, room, cancel }.start();
            let ran = actor.send(Run { opening, prompt: spec.prompt }).await;
            let done = ran.map_err(|why| failed(&why))?.map_err(|why| failed(&why))?;
            if !done.end.is_success() {
                return Err(failed(&done.end));
            }
            let mut advice = Advice::new(done.report.to_text(), cx.shared.model.name());
            advice.agent = Some(done.session);
            Ok(advice)
        })
    }
}

/// The agent's session, by what it is asked and where.
fn name(question: &Question) -> Result<SessionId, String> {
    let scene = &question.scene;
    let asked = Frozen::of(&(&question.by, scene.prompt, &question.system, &question.text));
    let digest = asked.map_err(|refused| refused.to_string())?.sha256_hex();
    let name = format!("{}.{}-{}-hook-{}", scene.session.id, scene.turn, scene.step, &digest[..12]);
    SessionId::new(name).map_err(|bad| bad.to_string())
}
