//! What plays an open turn: the loop over the law. What is owed next, carry it out, commit.

use crate::{
    control::Delta,
    cx::SessionCx,
    judge::{Stop, judge},
    registry::Execute,
    summary,
};
use futures::{
    StreamExt,
    future::{Either, select},
};
use portcullis_runtime::{
    AfterCompaction, AssistantBlock, AssistantMessage, At, Body, Boundary, CallBatch, Cancel, CauseName,
    ChildStarting, Compacted, Compacting, Compaction, Draft, EndReason, Ending, Finish, HeaderChanged,
    Message, ModelError, ModelEvent, ModelRequest, ModelRequested, Point, PromptSubmit, Record, Seam,
    SessionStart, Source, Starting, StepStart, SubagentStart, Subject, Submitted, Summarised, ToolBatch,
    TurnCancelled, TurnContinuation, TurnStop, Usage,
    law::{Next, Passed, State},
};
use std::{pin::pin, rc::Rc, sync::Arc};
use tracing::Instrument;

/// One turn, and who may cancel it.
pub(crate) struct Driver {
    pub(crate) cx: Rc<SessionCx>,
    pub(crate) cancel: Cancel,
}

impl Driver {
    /// Plays the turn to its durable end.
    pub(crate) async fn run(&self) -> Result<EndReason, Stop> {
        let _admitted = self.cx.pass.turn().await;
        let mut passed: Option<Passed> = None;
        let mut span = tracing::Span::none();
        if !self.cx.profile.table.start_observers.is_empty() {
            match Box::pin(self.cx.tell_turn_start(&self.cancel)).await {
                // The law winds down: the cancel is noted at the top of the loop.
                Err(Stop::Cancelled) if self.cancel.is_cancelled() => {}
                told => told?,
            }
        }
        loop {
            self.note_cancel()?;
            if span.is_none()
                && let Some(turn) = self.ledger_read(State::open_turn)
            {
                span = tracing::info_span!(parent: &self.cx.span, "turn", turn);
            }
            // In place, and with boxes for what is large and rare: there is one such future a turn.
            let carried = pin!(self.carry_out(&mut passed)).instrument(span.clone()).await;
            match carried {
                Ok(None) => {}
                Ok(Some(end)) => return Ok(end),
                // The law winds down: the cancel is noted at the top of the loop.
                Err(Stop::Cancelled) if self.cancel.is_cancelled() => passed = None,
                Err(stop) => return Err(stop),
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

    /// What is owed next. What a call owes is the pipeline's to ask.
    fn next(&self, passed: Option<&Passed>) -> Option<Next> {
        self.ledger_read(|s| s.call_under_way().is_none().then(|| s.next(passed)))
    }

    async fn carry_out(&self, passed: &mut Option<Passed>) -> Result<Option<EndReason>, Stop> {
        let Some(next) = self.next(passed.as_ref()) else { return Box::pin(self.calls()).await };
        let before = passed.take();
        let drafts = match next {
            Next::Commit(drafts) => drafts,
            Next::Judge { point, subject } => {
                // Boxed, as all that is large and not always there: this future is moved about.
                if !self.nobody_at(point) {
                    Box::pin(self.judge(point, &subject)).await?;
                }
                // A handler that answered all the same while the turn was cancelled closes nothing.
                if self.cancel.is_cancelled() {
                    return Err(Stop::Cancelled);
                }
                let closing = self.ledger_read(|s| s.close(point, &subject));
                if closing.is_empty() {
                    *passed = Some((point, subject));
                    return Ok(None);
                }
                closing
            }
            Next::OpenStep { step } => self.ledger_read(|s| self.step(s, step)),
            Next::Model { attempt } => {
                let (at, carried) = self.ledger_read(|s| {
                    (At::step(s.open_turn().unwrap_or_default(), s.step_number()), s.transcript())
                });
                vec![Draft::new(at, ModelRequested { attempt, digest: Some(carried.into()) })]
            }
            Next::Summarise => Box::pin(self.summarise()).await?,
            Next::Call { .. } => {
                *passed = before;
                return self.calls().await;
            }
            Next::Idle | Next::Await => {
                let message = "the turn waits for something that is not there";
                return Box::pin(self.fail("nothing_owed", message)).await;
            }
            _ => {
                let message = "the law asks for something that this driver does not know";
                return Box::pin(self.fail("unknown_step", message)).await;
            }
        };
        self.commit(drafts).await
    }

    /// Has the step's calls run to their results, in one ask.
    async fn calls(&self) -> Result<Option<EndReason>, Stop> {
        let (turn, step) = self.ledger_read(|s| (s.open_turn().unwrap_or_default(), s.step_number()));
        let execute = Execute { session: self.cx.info.id.clone(), turn, step, cancel: self.cancel.clone() };
        self.cx.hop();
        let before = self.ledger_read(|s| (s.head(), s.call_under_way().cloned()));
        let ask = pin!(self.cx.registry.send(execute));
        let ran = match select(ask, pin!(self.cancel.cancelled())).await {
            Either::Left((ran, _)) => ran,
            Either::Right((_, ask)) => {
                // On record at once, and not when a body that takes its time has come back.
                self.note_cancel()?;
                ask.await
            }
        };
        match ran {
            Ok(Ok(())) if self.ledger_read(|s| (s.head(), s.call_under_way().cloned())) == before => {
                Box::pin(self.fail("call_stuck", "a call came back without a result, and nothing was done"))
                    .await
            }
            Ok(ran) => ran.map(|()| None),
            Err(_) => Box::pin(self.fail("registry_gone", "the tool registry's actor is gone")).await,
        }
    }

    /// Commits, with all that follows without anyone being asked; then does what the last record is there for: sends the
    /// request and commits its answer, or waits for the turn's end to be durable.
    async fn commit(&self, mut drafts: Vec<Draft>) -> Result<Option<EndReason>, Stop> {
        loop {
            let turn = self.ledger_read(|s| s.open_turn().unwrap_or_default());
            // The last record, if it is one that something waits behind.
            let mut last = None;
            let mut see = |record: &Arc<Record>| {
                last = None;
                match &record.body {
                    Body::SteeringMessage(steering) => self.cx.join_turn(steering.from.into_iter()),
                    // Steering that was blocked was taken all the same: whoever sent it waits for this turn.
                    Body::PromptBlocked(blocked) => self.cx.join_turn([blocked.from].into_iter()),
                    Body::ModelRequested(_) | Body::TurnEnd(_) => last = Some(record.clone()),
                    _ => {}
                }
            };
            let _enqueued = self.cx.ledger.commit_on(drafts, &mut |s| self.follow(s), &mut see)?;
            match last.as_ref().map(|record| (&record.at, &record.body)) {
                Some((at, Body::ModelRequested(requested))) => {
                    self.cx.barrier().await?;
                    drafts = Box::pin(self.model(at.clone(), requested)).await?;
                }
                Some((_, Body::TurnEnd(end))) => {
                    self.cx.join_turn(end.dropped.iter().copied());
                    self.cx.barrier().await?;
                    self.cx.tell_turn_over(turn, &end.reason);
                    self.cx.finish_turn(turn, &end.reason);
                    return Ok(Some(end.reason.clone()));
                }
                _ => return Ok(None),
            }
        }
    }

    /// What is owed next without anyone being asked: records that the law states, points at which nobody is registered,
    /// a step and its request.
    fn follow(&self, s: &State) -> Vec<Draft> {
        let mut passed: Option<Passed> = None;
        loop {
            // The next turn is the session's to open.
            if self.cancel.is_cancelled() || s.open_turn().is_none() || s.call_under_way().is_some() {
                return Vec::new();
            }
            match s.next(passed.as_ref()) {
                Next::Commit(drafts) => return drafts,
                Next::OpenStep { step } => return self.step(s, step),
                Next::Judge { point, subject } if self.nobody_at(point) => match s.close(point, &subject) {
                    closing if closing.is_empty() && passed.is_none() => passed = Some((point, subject)),
                    closing => return closing,
                },
                _ => return Vec::new(),
            }
        }
    }

    fn nobody_at(&self, point: Point) -> bool {
        let table = &self.cx.profile.table;
        match point {
            Point::SessionStart => table.is_bare::<SessionStart>(),
            Point::SubagentStart => table.is_bare::<SubagentStart>(),
            Point::PromptSubmit => table.is_bare::<PromptSubmit>(),
            Point::Batch => table.is_bare::<ToolBatch>(),
            Point::Continuation => table.is_bare::<TurnContinuation>(),
            Point::Stop => table.is_bare::<TurnStop>(),
            Point::Compaction => table.is_bare::<Compaction>(),
            Point::Compacted => table.is_bare::<AfterCompaction>(),
            _ => false,
        }
    }

    /// A step opens, and its request is out.
    fn step(&self, s: &State, step: u32) -> Vec<Draft> {
        let at = At::step(s.open_turn().unwrap_or_default(), step);
        let mut drafts = Vec::with_capacity(2);
        drafts.push(Draft::new(at.clone(), StepStart {}));
        let header = &self.cx.profile.header;
        if s.header() != Some(header) {
            drafts.push(Draft::new(at.clone(), HeaderChanged(header.clone())));
        }
        // Neither of these adds a message.
        let digest = Some(s.transcript().into());
        drafts.push(Draft::new(at, ModelRequested { attempt: 1, digest }));
        drafts
    }

    fn ledger_read<R>(&self, read: impl FnOnce(&State) -> R) -> R {
        self.cx.ledger.read(read)
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
                let source = cx.ledger.read(|s| {
                    let mut owed = s.starts_owed().iter();
                    owed.find(|(seq, _)| subject == Subject::Session(*seq)).map(|(_, source)| *source)
                });
                let Some(source) = source else { return Ok(()) };
                let input = Starting::new(scene, source, Some(cx.shared.model.name()));
                judge::<SessionStart>(cx, at, subject, input, &self.cancel).await
            }
            (Point::SubagentStart, Subject::Session(_)) => {
                let input = ChildStarting::new(scene, Some(cx.shared.model.name()));
                judge::<SubagentStart>(cx, at, subject, input, &self.cancel).await
            }
            (Point::PromptSubmit, Subject::Prompt(seq)) => {
                let seq = *seq;
                let queued = cx.ledger.read(|s| s.queued(seq).map(|(c, s)| (c.clone(), s.clone())));
                let Some((content, source)) = queued else { return Ok(()) };
                let input = Submitted::new(scene, seq, content, source);
                judge::<PromptSubmit>(cx, at, subject, input, &self.cancel).await
            }
            (Point::Batch, Subject::Batch(_)) => {
                let input = CallBatch::new(scene, cx.ledger.read(State::batch));
                judge::<ToolBatch>(cx, at, subject, input, &self.cancel).await
            }
            (Point::Continuation, Subject::Step(_)) => {
                let (forced, in_turn, text) =
                    cx.ledger.read(|s| (s.forced_in_a_row(), s.forced_in_turn(), s.last_text()));
                let input = Ending::new(scene, forced, text).forced_in_turn(in_turn);
                judge::<TurnContinuation>(cx, at, subject, input, &self.cancel).await
            }
            (Point::Stop, Subject::Step(_)) => {
                judge::<TurnStop>(cx, at, subject, Boundary::new(scene), &self.cancel).await
            }
            (Point::Compaction, Subject::Compaction(_)) => {
                let (owed, limit) = cx.ledger.read(|s| (s.compaction(), s.limits().compact_at));
                let Some(owed) = owed else { return Ok(()) };
                let messages = owed.conversation.len();
                let input = Compacting::new(scene, owed.tokens, limit.unwrap_or_default(), messages);
                judge::<Compaction>(cx, at, subject, input, &self.cancel).await
            }
            (Point::Compacted, Subject::Compaction(_)) => {
                let summary =
                    cx.ledger.read(|s| s.summarised().map(|(_, summary)| summary.to_text().into_owned()));
                let Some(summary) = summary else { return Ok(()) };
                let input = Summarised::new(scene, summary::said(&summary).into());
                judge::<AfterCompaction>(cx, at, subject, input, &self.cancel).await
            }
            _ => Ok(()),
        }
    }

    /// Has the model summarise the conversation so far. A summary that cannot be had costs the room that it would have
    /// made, and nothing else: the turn goes on with the conversation as it is.
    async fn summarise(&self) -> Result<Vec<Draft>, Stop> {
        // On record before the model is asked.
        self.cx.barrier().await?;
        if self.cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        let asked = self.ledger_read(|s| {
            let owed = s.compaction()?;
            let instructions = match Compaction::fold(&s.decided::<Compaction>(&owed.subject)) {
                Compacted::Go(instructions) => instructions,
                _ => Vec::new(),
            };
            Some((s.header()?.clone(), owed.conversation, instructions))
        });
        let Some((header, conversation, instructions)) = asked else {
            let reason = Err("There is nothing to ask a model with.".into());
            return Ok(self.ledger_read(|s| s.end_compaction(reason)));
        };
        let content = summary::request(&instructions).into();
        let messages = conversation.with(&[Message::User { content, source: Source::Runtime }]);
        // Under the header that the conversation was held under: providers refuse calls and results without their tools,
        // and what they have read before they read cheaply. Nothing that is called here runs.
        let request = ModelRequest::new(header, messages, 1, self.cancel.clone());
        let span = tracing::info_span!("compaction");
        let summary = match self.cx.pass.away(pin!(self.stream(request, false)).instrument(span)).await {
            Ok(message) if message.finish == Finish::Interrupted => return Err(Stop::Cancelled),
            Ok(message) => summary::of(&message).ok_or_else(|| "The model gave no whole summary.".into()),
            Err(error) => Err(summary::failed(&error)),
        };
        if let Err(reason) = &summary {
            tracing::warn!(session = %self.cx.info.id, %reason, "a conversation was not summarised");
        }
        Ok(self.ledger_read(|s| s.end_compaction(summary)))
    }

    /// Reads the answer to the request that is out: the records that it comes to.
    async fn model(&self, at: At, requested: &ModelRequested) -> Result<Vec<Draft>, Stop> {
        // Cancelled between its record and its start: the model is not asked.
        if self.cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        let attempt = requested.attempt;
        let carried = requested.digest.as_ref().and_then(|carried| carried.transcript().cloned());
        let (header, messages) = self.cx.ledger.read(|s| {
            let header = s.header().cloned().unwrap_or_else(|| self.cx.profile.header.clone());
            (header, carried.unwrap_or_else(|| s.transcript()))
        });
        let request = ModelRequest::new(header, messages, attempt, self.cancel.clone());
        let span = tracing::info_span!("step", step = at.step, attempt);
        match self.cx.pass.away(pin!(self.stream(request, true)).instrument(span)).await {
            Ok(message) if message.finish == Finish::Interrupted => {
                // The cancel first: what was said until then belongs to a turn that is being ended.
                self.note_cancel()?;
                if !message.blocks.is_empty() {
                    let _enqueued = self.cx.commit(vec![Draft::new(at, message)])?;
                }
                Err(Stop::Cancelled)
            }
            Ok(message) => Ok(vec![Draft::new(at, message)]),
            Err(error) => Ok(self.ledger_read(|s| s.fail(error.code(), &error.to_string()))),
        }
    }

    /// Reads the model's stream to its end, or until the turn is cancelled: then it is what had come by then, interrupted.
    /// Its pieces are shown as they come if they are part of the conversation.
    async fn stream(&self, request: ModelRequest, shown: bool) -> Result<AssistantMessage, ModelError> {
        let model = self.cx.shared.model.clone();
        let panicked = |failure: portcullis_runtime::Failure| ModelError::Fatal {
            message: format!("the model {failure}"),
        };
        let watched = self.cx.watched(self.cx.shared.names.model.clone(), None);
        let stream = watched.contain_sync(|| model.respond(request)).map_err(panicked)?;
        let mut stream = std::panic::AssertUnwindSafe(stream).catch_unwind();
        let mut message = Draftsman::default();
        let mut events = 0;
        let mut cancelled = pin!(self.cancel.cancelled());
        loop {
            let event = match select(stream.next(), &mut cancelled).await {
                Either::Left((event, _)) => event,
                Either::Right(_) => return Ok(message.interrupted()),
            };
            // A model that hears the cancel, too, may cut its stream, and that is not the turn's end: the cancel counts.
            if self.cancel.is_cancelled() {
                return Ok(message.interrupted());
            }
            let event = match event {
                None => return Err(ModelError::Cut { events }),
                Some(Err(_)) => return Err(ModelError::Fatal { message: "the model panicked".into() }),
                Some(Ok(event)) => event?,
            };
            events += 1;
            if shown {
                self.publish(&event, &message);
            }
            if let Some(finish) = message.take(event)? {
                return Ok(message.finish(finish));
            }
        }
    }

    fn publish(&self, event: &ModelEvent, message: &Draftsman) {
        let (of_call, text) = match event {
            ModelEvent::Text(text) => (false, text),
            ModelEvent::CallText(text) => (true, text),
            _ => return,
        };
        self.cx.control.delta(|| Delta {
            after: self.ledger_read(State::head),
            call: if of_call { message.open_call() } else { None },
            text: text.as_str().into(),
        });
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
            ModelEvent::Finish(Finish::Interrupted) => {
                let message = "the model said that it was interrupted, which is not its to say".into();
                return Err(ModelError::Fatal { message });
            }
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

    /// What was said so far. No call of it ever runs, so none is kept.
    fn interrupted(mut self) -> AssistantMessage {
        self.begin(Open::Nothing);
        self.blocks.retain(|block| match block {
            AssistantBlock::Text { text } | AssistantBlock::Reasoning { text } => !text.is_empty(),
            _ => false,
        });
        self.finish(Finish::Interrupted)
    }

    fn finish(self, finish: Finish) -> AssistantMessage {
        AssistantMessage { blocks: self.blocks.into(), usage: self.usage, finish }
    }
}
