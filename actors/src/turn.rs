//! TurnActor: one per open turn. Its whole body is the loop over the law: what is owed next, carry it out, commit.

use crate::{
    cx::SessionCx,
    judge::{Stop, judge},
    pipeline::Lanes,
    registry::{Execute, RegistryActor},
    session::{SessionActor, TurnOver},
};
use actix::prelude::*;
use futures::{
    StreamExt,
    future::{Either, select},
};
use portcullis_runtime::{
    AssistantBlock, AssistantMessage, At, Body, Boundary, CallKey, CallPath, Cancel, CauseName,
    ChildStarting, Draft, EndReason, Ending, Finish, HandlerId, HeaderChanged, ModelError, ModelEvent,
    ModelRequest, ModelRequested, Point, PromptSubmit, SessionStart, Source, Starting, StepStart,
    SubagentStart, Subject, Submitted, TurnCancelled, TurnContinuation, TurnStop, Usage,
    law::{Next, Passed},
};
use std::{pin::pin, rc::Rc, sync::Arc};
use tracing::Instrument;

/// How many bodies of one step overlap at most.
const OVERLAP: usize = 10;

/// The actor.
pub(crate) struct TurnActor {
    pub(crate) cx: Rc<SessionCx>,
    pub(crate) registry: Addr<RegistryActor>,
    pub(crate) session: Addr<SessionActor>,
    pub(crate) cancel: Cancel,
}

impl Actor for TurnActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let watch = DeathWatch { session: self.session.clone(), told: false };
        let driver =
            Driver { cx: self.cx.clone(), registry: self.registry.clone(), cancel: self.cancel.clone() };
        let (session, cx) = (self.session.clone(), self.cx.clone());
        let turn = async move {
            let mut watch = watch;
            let end = driver.run().await;
            watch.told = true;
            cx.hop();
            // The session outlives its turns; when it is gone, nobody waits.
            let _ = session.send(TurnOver { end: Some(end) }).await;
        };
        ctx.spawn(turn.into_actor(self).map(|(), _, ctx| ctx.stop()));
    }
}

/// Tells the session when the loop dies without an end: a panic of ours, or the arbiter's own end.
struct DeathWatch {
    session: Addr<SessionActor>,
    told: bool,
}

impl Drop for DeathWatch {
    fn drop(&mut self) {
        if !self.told {
            let _ = self.session.try_send(TurnOver { end: None });
        }
    }
}

struct Driver {
    cx: Rc<SessionCx>,
    registry: Addr<RegistryActor>,
    cancel: Cancel,
}

impl Driver {
    /// Plays the turn to its durable end.
    async fn run(self) -> Result<EndReason, Stop> {
        let _admitted = self.cx.pass.turn().await;
        let mut passed: Option<Passed> = None;
        let mut span = tracing::Span::none();
        loop {
            self.note_cancel()?;
            let next = self.cx.ledger.read(|s| s.next(passed.as_ref()));
            let turn = self.cx.ledger.read(|s| s.open_turn());
            if let (Some(turn), true) = (turn, span.is_none()) {
                span = tracing::info_span!(parent: &self.cx.span, "turn", turn);
            }
            // Pinned here, so that the span wraps a pointer: this future is large, and each move of it is a copy.
            let carried = pin!(self.carry_out(next, &mut passed)).instrument(span.clone()).await;
            let step = match carried {
                Ok(None) => continue,
                other => other,
            };
            match step {
                Ok(Some(end)) => return Ok(end),
                // The law winds down: the cancel is noted at the top of the loop.
                Err(Stop::Cancelled) if self.cancel.is_cancelled() => passed = None,
                Err(stop) => return Err(stop),
                Ok(None) => {}
            }
        }
    }

    /// C-TURN-9: a cancel becomes a record before anything else happens.
    fn note_cancel(&self) -> Result<(), Stop> {
        let Some(cause) = self.cancel.cause() else { return Ok(()) };
        let open = self.cx.ledger.read(|s| s.open_turn().filter(|_| s.cancelled().is_none()));
        let Some(turn) = open else { return Ok(()) };
        let by = match cause {
            portcullis_runtime::Cause::User => Source::User,
            _ => Source::Runtime,
        };
        let draft = Draft::new(At::turn(turn), TurnCancelled { by, cause: CauseName(cause) });
        let ticket = self.cx.ledger.commit(vec![draft])?;
        let control = self.cx.control.clone();
        actix_rt::spawn(async move { control.cancel_committed(ticket.wait().await.map(|_| true)) });
        Ok(())
    }

    async fn carry_out(&self, next: Next, passed: &mut Option<Passed>) -> Result<Option<EndReason>, Stop> {
        match next {
            Next::Commit(drafts) => {
                *passed = None;
                self.commit(drafts).await
            }
            Next::Judge { point, subject } => {
                self.judge(point, &subject).await?;
                // A handler that answered all the same while the turn was cancelled closes nothing.
                if self.cancel.is_cancelled() {
                    return Err(Stop::Cancelled);
                }
                let closing = self.cx.ledger.read(|s| s.close(point, &subject));
                if closing.is_empty() {
                    *passed = Some((point, subject));
                    return Ok(None);
                }
                *passed = None;
                self.commit(closing).await
            }
            Next::OpenStep { step } => {
                *passed = None;
                self.open_step(step)
            }
            Next::Model { attempt } => {
                *passed = None;
                self.model(attempt).await
            }
            Next::Call { path, .. } => self.calls(path).await,
            Next::Idle | Next::Await => {
                self.fail("nothing_owed", "the turn waits for something that is not there").await
            }
            _ => self.fail("unknown_step", "the law asks for something that this driver does not know").await,
        }
    }

    /// Runs the step's calls from this one on: alone, or together with those behind it whose tools, like its own, are
    /// safe to overlap (C-TURN-5).
    async fn calls(&self, first: CallPath) -> Result<Option<EndReason>, Stop> {
        let (turn, step) = self.cx.ledger.read(|s| (s.open_turn().unwrap_or_default(), s.step_number()));
        let ask = |call, lanes| {
            let key = CallKey { turn, step, call };
            let session = self.cx.info.id.clone();
            self.cx.hop();
            self.registry.send(Execute { session, key, cancel: self.cancel.clone(), lanes })
        };
        let group = self.overlapping(&first);
        if group.len() < 2 {
            return match ask(first, Lanes::alone()).await {
                Ok(ran) => ran.map(|()| None),
                Err(_) => self.fail("registry_gone", "the tool registry's actor is gone").await,
            };
        }
        let lanes = Lanes::group(group.len());
        let asks = group.into_iter().zip(lanes).map(|(call, lanes)| ask(call, lanes));
        let mut stopped = Ok(None);
        for ran in futures::future::join_all(asks).await {
            match ran {
                Ok(Ok(())) => {}
                // A journal that failed says more than a cancel.
                Ok(Err(stop)) if !matches!(stopped, Err(Stop::Journal(_))) => stopped = Err(stop),
                Ok(Err(_)) => {}
                Err(_) => return self.fail("registry_gone", "the tool registry's actor is gone").await,
            }
        }
        stopped
    }

    /// The calls from this one on whose tools are all safe to overlap; none when its own is not.
    fn overlapping(&self, first: &CallPath) -> Vec<CallPath> {
        let safe =
            |name: &str| self.cx.profile.table.find(name).is_some_and(|(spec, _)| spec.concurrency_safe);
        let open = self.cx.ledger.read(|s| {
            let safe_itself = s.call_facts(first).is_some_and(|call| safe(&call.name));
            if safe_itself { s.open_calls() } else { Vec::new() }
        });
        open.into_iter()
            .skip_while(|(path, _)| path != first)
            .take_while(|(_, name)| safe(name))
            .map(|(path, _)| path)
            .take(OVERLAP)
            .collect()
    }

    /// Commits; a turn's end is waited for.
    async fn commit(&self, drafts: Vec<Draft>) -> Result<Option<EndReason>, Stop> {
        let end = drafts.iter().find_map(|d| match &d.body {
            Body::TurnEnd(end) => Some(end.clone()),
            _ => None,
        });
        let taken = drafts.iter().find_map(|d| match &d.body {
            Body::SteeringMessage(steering) => steering.from,
            _ => None,
        });
        let turn = self.cx.ledger.read(|s| s.open_turn().unwrap_or_default());
        let _enqueued = self.cx.ledger.commit(drafts)?;
        self.cx.join_turn(taken.into_iter());
        let Some(end) = end else { return Ok(None) };
        self.cx.join_turn(end.dropped.iter().copied());
        self.cx.barrier().await?;
        self.cx.finish_turn(turn, &end.reason);
        Ok(Some(end.reason))
    }

    async fn fail(&self, code: &str, message: &str) -> Result<Option<EndReason>, Stop> {
        let drafts = self.cx.ledger.read(|s| s.fail(code, message));
        if drafts.is_empty() {
            return Ok(Some(EndReason::Error { code: code.into(), message: message.into() }));
        }
        self.commit(drafts).await
    }

    async fn judge(&self, point: Point, subject: &Subject) -> Result<(), Stop> {
        let (cx, scene) = (&*self.cx, self.cx.scene());
        let at = At::turn(scene.turn);
        let subject = subject.clone();
        match (point, &subject) {
            (Point::SessionStart, Subject::Session(_)) => {
                let Some((_, source)) = cx.ledger.read(|s| s.start_owed()) else { return Ok(()) };
                let input = Starting::new(scene, source, Some(cx.shared.model.name()));
                judge::<SessionStart>(cx, at, subject, input, &self.cancel, false).await
            }
            (Point::SubagentStart, Subject::Session(_)) => {
                let input = ChildStarting::new(scene, Some(cx.shared.model.name()));
                judge::<SubagentStart>(cx, at, subject, input, &self.cancel, false).await
            }
            (Point::PromptSubmit, Subject::Prompt(seq)) => {
                let seq = *seq;
                let queued = cx.ledger.read(|s| s.queued(seq).map(|(c, s)| (c.clone(), s.clone())));
                let Some((content, source)) = queued else { return Ok(()) };
                let input = Submitted::new(scene, seq, content, source);
                judge::<PromptSubmit>(cx, at, subject, input, &self.cancel, false).await
            }
            (Point::Continuation, Subject::Step(_)) => {
                let (forced, in_turn, text) =
                    cx.ledger.read(|s| (s.forced_in_a_row(), s.forced_in_turn(), s.last_text()));
                let input = Ending::new(scene, forced, text).forced_in_turn(in_turn);
                judge::<TurnContinuation>(cx, at, subject, input, &self.cancel, false).await
            }
            (Point::Stop, Subject::Step(_)) => {
                judge::<TurnStop>(cx, at, subject, Boundary::new(scene), &self.cancel, false).await
            }
            _ => Ok(()),
        }
    }

    fn open_step(&self, step: u32) -> Result<Option<EndReason>, Stop> {
        let turn = self.cx.ledger.read(|s| s.open_turn().unwrap_or_default());
        let at = At::step(turn, step);
        let mut drafts = vec![Draft::new(at.clone(), StepStart {})];
        let header = self.cx.profile.header.clone();
        if self.cx.ledger.read(|s| s.header() != Some(&header)) {
            drafts.push(Draft::new(at, HeaderChanged(header)));
        }
        let _enqueued = self.cx.ledger.commit(drafts)?;
        Ok(None)
    }

    async fn model(&self, attempt: u32) -> Result<Option<EndReason>, Stop> {
        let (turn, step) = self.cx.ledger.read(|s| (s.open_turn().unwrap_or_default(), s.step_number()));
        let at = At::step(turn, step);
        let _enqueued = self.cx.ledger.commit(vec![Draft::new(at.clone(), ModelRequested { attempt })])?;
        self.cx.barrier().await?;
        let (header, messages) = self.cx.ledger.read(|s| {
            (s.header().cloned().unwrap_or_else(|| self.cx.profile.header.clone()), s.transcript())
        });
        let request = ModelRequest::new(header, messages, attempt, self.cancel.clone());
        let span = tracing::info_span!("step", step, attempt);
        match self.cx.pass.away(self.stream(request).instrument(span)).await {
            Ok(Some(message)) => {
                let _enqueued = self.cx.ledger.commit(vec![Draft::new(at, message)])?;
                Ok(None)
            }
            Ok(None) => Err(Stop::Cancelled),
            Err(error) => self.fail(error.code(), &error.to_string()).await,
        }
    }

    /// Reads the model's stream to its end; `None` when the turn was cancelled meanwhile.
    async fn stream(&self, request: ModelRequest) -> Result<Option<AssistantMessage>, ModelError> {
        let model = self.cx.shared.model.clone();
        let panicked = |failure: portcullis_runtime::Failure| ModelError::Fatal {
            message: format!("the model {failure}"),
        };
        let watched = self.cx.watched(HandlerId::new("model", model.name()), None);
        let stream = watched.contain_sync(|| model.respond(request)).map_err(panicked)?;
        let mut stream = std::panic::AssertUnwindSafe(stream).catch_unwind();
        let mut message = Draftsman::default();
        let mut events = 0;
        let mut cancelled = pin!(self.cancel.cancelled());
        loop {
            // The cancel first: a model that hears it, too, may cut its stream, and that is not the turn's end.
            let event = match select(&mut cancelled, stream.next()).await {
                Either::Left(_) => return Ok(None),
                Either::Right((event, _)) => event,
            };
            let event = match event {
                None => return Err(ModelError::Cut { events }),
                Some(Err(_)) => return Err(ModelError::Fatal { message: "the model panicked".into() }),
                Some(Ok(event)) => event?,
            };
            events += 1;
            self.publish(&event, &message);
            if let Some(finish) = message.take(event)? {
                return Ok(Some(message.finish(finish)));
            }
        }
    }

    fn publish(&self, event: &ModelEvent, message: &Draftsman) {
        let (call, text) = match event {
            ModelEvent::Text(text) => (None, text),
            ModelEvent::CallText(text) => (message.open_call(), text),
            _ => return,
        };
        let after = self.cx.ledger.read(|s| s.head());
        self.cx.control.delta(after, call, text);
    }
}

/// Puts a message together from its pieces.
#[derive(Default)]
struct Draftsman {
    blocks: Vec<AssistantBlock>,
    open: Open,
    usage: Option<Usage>,
}

#[derive(Default)]
enum Open {
    #[default]
    Nothing,
    Text(String),
    Reasoning(String),
    Call {
        id: Arc<str>,
        name: String,
        arguments: String,
    },
}

impl Draftsman {
    fn open_call(&self) -> Option<Arc<str>> {
        match &self.open {
            Open::Call { id, .. } => Some(id.clone()),
            _ => None,
        }
    }

    fn take(&mut self, event: ModelEvent) -> Result<Option<Finish>, ModelError> {
        match event {
            ModelEvent::Text(more) => match &mut self.open {
                Open::Text(text) => text.push_str(&more),
                _ => self.begin(Open::Text(more)),
            },
            ModelEvent::Reasoning(more) => match &mut self.open {
                Open::Reasoning(text) => text.push_str(&more),
                _ => self.begin(Open::Reasoning(more)),
            },
            ModelEvent::CallStart { id, name } => {
                self.begin(Open::Call { id: id.into(), name, arguments: String::new() });
            }
            ModelEvent::CallText(more) => match &mut self.open {
                Open::Call { arguments, .. } => arguments.push_str(&more),
                _ => {
                    let message = "the model sent arguments of a call that it never began".into();
                    return Err(ModelError::Fatal { message });
                }
            },
            ModelEvent::Usage(usage) => self.usage = Some(usage),
            ModelEvent::Finish(finish) => {
                self.begin(Open::Nothing);
                return Ok(Some(finish));
            }
            _ => {}
        }
        Ok(None)
    }

    fn begin(&mut self, next: Open) {
        let done = match std::mem::replace(&mut self.open, next) {
            Open::Nothing => return,
            Open::Text(text) => AssistantBlock::Text { text: text.into() },
            Open::Reasoning(text) => AssistantBlock::Reasoning { text: text.into() },
            Open::Call { id, name, arguments } => {
                AssistantBlock::Call { id, name: name.into(), arguments: arguments.into() }
            }
        };
        self.blocks.push(done);
    }

    fn finish(self, finish: Finish) -> AssistantMessage {
        AssistantMessage { blocks: self.blocks.into(), usage: self.usage, finish }
    }
}
