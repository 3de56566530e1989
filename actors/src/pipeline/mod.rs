//! The tool pipeline: one call, from wherever the log left it to its result.
//!
//! The law says what the call owes ([`CallOwes`]); this carries it out. A live call starts at `Seal`, one found in a log
//! starts where its records end; there is no second path.

mod body;
mod lanes;
mod nested;
mod question;
mod spawn;

pub(crate) use lanes::Lanes;
pub(crate) use question::resumed;
pub(crate) use spawn::{OneMore, below};

use crate::{
    cx::SessionCx,
    judge::{Stop, judge},
    replay,
    runtime::LiveCall,
};
use portcullis_runtime::{
    Arguments, At, Body, CallKey, Cancel, Cause, CauseName, Committed, Decision, DecisionsRecorded, Draft,
    Ended, Execution, Frozen, GuardVerdict, HandlerDecision, Outcome, Output, Permission, Point, PostExecute,
    PreExecute, Proposed, Reason, Record, Returned, Rewrite, Scene, Seam, Subject, Token, Tool, ToolBatch,
    ToolCall, ToolDispatched, ToolReturned, ToolRewrite, ToolSpec,
    law::{CallFacts, CallOwes, Next, State},
};
use std::{
    cell::Cell,
    pin::pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use tracing::Instrument;

/// Carries the call to its result. `Stop::Cancelled` leaves what is still owed to the law's wind-down.
pub(crate) async fn run(cx: Rc<SessionCx>, key: CallKey, cancel: Cancel, lanes: Lanes) -> Result<(), Stop> {
    let span =
        tracing::info_span!(parent: &cx.span, "call", turn = key.turn, step = key.step, call = %key.call);
    let token = cx.shared.mint.root();
    let trip = Trip::begin(cx, key, cancel, token, lanes, None);
    // Pinned here, so that the span wraps a pointer: this future is large, and each move of it is a copy.
    pin!(trip.run()).instrument(span).await
}

/// One trip of a call through the pipeline, under its own token.
struct Trip {
    cx: Rc<SessionCx>,
    key: CallKey,
    at: At,
    subject: Subject,
    /// Which attempt at the call's gate this trip is.
    attempt: u32,
    token: Token,
    cancel: Cancel,
    lanes: Lanes,
    /// The call as its parent's body made it; `None` for a call of the model, which the log holds.
    made: Option<Made>,
    ended: Cell<bool>,
}

/// What a body is started with.
struct Start {
    attempt: u32,
    execution: Execution,
    tool: Arc<dyn Tool>,
}

/// A call that a body makes.
struct Made {
    name: Arc<str>,
    raw: Arc<str>,
}

impl Drop for Trip {
    /// A trip that is dropped half-way (a panic, a body that gave up a nested call) leaves nothing running in the log:
    /// its body, which was dropped with it, is brought back as cancelled. The law answers the rest.
    fn drop(&mut self) {
        let running = self.cx.ledger.read(|s| s.running(&self.key.call));
        if let (Some(attempt), Some(_), false) = (running, &self.made, self.cx.leaving.get()) {
            let cause = CauseName(self.cancel.cause().unwrap_or(Cause::Parent));
            let outcome = Arc::new(Outcome::ended(Ended::Cancelled { cause }));
            if let Err(stop) = self.put(ToolReturned { attempt, outcome, ms: 0 })
                && self.cx.cue.is_none()
            {
                tracing::error!(call = %self.key, ?stop, "a nested call that was given up could not be recorded");
            }
        }
        self.end();
    }
}

impl Trip {
    fn begin(
        cx: Rc<SessionCx>,
        key: CallKey,
        cancel: Cancel,
        token: Token,
        lanes: Lanes,
        made: Option<Made>,
    ) -> Rc<Trip> {
        let live = LiveCall { session: cx.info.id.clone(), key: key.clone(), cancel: cancel.clone() };
        cx.shared.live.insert(token.id(), live);
        let at = At::call(key.turn, key.step, key.call.clone());
        let attempt = cx.ledger.read(|s| s.attempt(&key.call));
        let subject = Subject::of_call(key.call.clone(), attempt);
        Rc::new(Trip { cx, key, at, subject, attempt, token, cancel, lanes, made, ended: Cell::new(false) })
    }

    async fn run(self: &Rc<Self>) -> Result<(), Stop> {
        let ran = self.play().await;
        self.end();
        ran
    }

    /// The token ends with its trip; nested calls that are still open are named. Whoever waits behind goes on.
    fn end(&self) {
        if self.ended.replace(true) {
            return;
        }
        self.lanes.gate_passed();
        self.lanes.result_given();
        self.cx.shared.live.remove(&self.token.id());
        match self.cx.shared.mint.end(&self.token) {
            Ok(end) if end.open_children > 0 && self.cx.cue.is_none() => {
                tracing::error!(call = %self.key, open = end.open_children, "a call ended before its nested calls");
            }
            Ok(_) => {}
            Err(error) => tracing::error!(call = %self.key, %error, "a call's token could not be ended"),
        }
    }

    async fn play(self: &Rc<Self>) -> Result<(), Stop> {
        self.lanes.gate().await;
        self.still_wanted()?;
        let mut passed = self.nobody_asked();
        loop {
            let owes = self.cx.ledger.read(|s| s.call(&self.key.call, passed));
            if let Some(cue) = self.cx.cue.as_ref().filter(|_| self.speaks(&owes)) {
                replay::turn_of(cue, &self.key.call, &self.cancel).await?;
            }
            match owes {
                CallOwes::Done if self.made.is_none() || self.facts().is_some() => return Ok(()),
                CallOwes::Await => return Ok(()),
                CallOwes::Seal | CallOwes::Done => {
                    if let Some(start) = self.seal(passed).await?
                        && Box::pin(self.dispatched(start, passed)).await?
                    {
                        return Ok(());
                    }
                }
                CallOwes::Judge(point) => {
                    match point {
                        Point::PreExecute => self.gate().await?,
                        Point::Permission => self.permission().await?,
                        Point::Guard => self.guards()?,
                        _ => {
                            // Decided: whether or not a body ran, the next call may enter its gate.
                            self.lanes.gate_passed();
                            self.lanes.result().await;
                            self.still_wanted()?;
                            self.review(passed).await?;
                        }
                    }
                    passed = passed.max(Some(point));
                }
                CallOwes::Ask { by, reasons } => Box::pin(self.ask(by, reasons, false)).await?,
                CallOwes::Defer { by, reasons } => Box::pin(self.ask(by, reasons, true)).await?,
                CallOwes::Answer(request) => {
                    let deferred = self.cx.ledger.read(|s| s.deferral(&self.key.call).is_some());
                    if deferred && self.made.is_none() {
                        // The step's other calls go on; when they cannot, all that is deferred is waited for.
                        self.put_again(&request);
                        return Ok(());
                    }
                    Box::pin(self.answer(request)).await?;
                    if self.is_resumed() {
                        return Ok(());
                    }
                }
                // Its result, and nothing else, waits for an earlier call that is deferred.
                CallOwes::Held => return Ok(()),
                CallOwes::Dispatch { attempt } => {
                    // A handler that answered all the same while it was cancelled does not start a body.
                    if self.cancel.is_cancelled() {
                        return Err(Stop::Cancelled);
                    }
                    self.put(ToolDispatched { attempt })?;
                    let Some(start) = self.start(attempt) else {
                        // The session was opened again without this tool.
                        let outcome = Arc::new(Outcome::ended(Ended::UnknownTool));
                        self.put(ToolReturned { attempt, outcome, ms: 0 })?;
                        continue;
                    };
                    if Box::pin(self.dispatched(start, passed)).await? {
                        return Ok(());
                    }
                }
                // Its place is kept by the law, too: a result before an earlier call's is no record.
                CallOwes::Commit(_) if !self.lanes.may_give() => {
                    self.lanes.gate_passed();
                    self.lanes.result().await;
                    self.still_wanted()?;
                }
                CallOwes::Commit(drafts) => {
                    if self.commit(drafts, passed).await? {
                        return Ok(());
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// Would it make a record now, with nothing before that it waits for?
    fn speaks(&self, owes: &CallOwes) -> bool {
        match owes {
            CallOwes::Seal | CallOwes::Ask { .. } | CallOwes::Defer { .. } | CallOwes::Dispatch { .. } => {
                true
            }
            CallOwes::Done => self.made.is_some() && self.facts().is_none(),
            CallOwes::Judge(point) => *point == Point::Guard,
            CallOwes::Commit(_) => self.lanes.may_give(),
            _ => false,
        }
    }

    /// A call that waited for its place may find its turn cancelled, and the call before it given up: what it would
    /// commit now has no place any more. The law answers it.
    fn still_wanted(&self) -> Result<(), Stop> {
        if !self.lanes.is_alone() && self.cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        Ok(())
    }

    /// The furthest point that nobody stands at, nor at any before it: known without asking anyone.
    fn nobody_asked(&self) -> Option<Point> {
        let table = &self.cx.profile.table;
        if !table.is_bare::<PreExecute>() {
            return None;
        }
        let replayed = self.cx.cue.as_ref().is_some_and(|cue| cue.guarded);
        if replayed || table.guards().next().is_some() || !table.is_bare::<Permission>() {
            return Some(Point::PreExecute);
        }
        // Overlapping calls wait for their places before their results.
        let reviewed = !table.is_bare::<PostExecute>() || !self.lanes.is_alone();
        Some(if reviewed { Point::Guard } else { Point::PostExecute })
    }

    /// The call was deferred in this trip and is taken up again: another attempt is another trip, under a token of its own.
    fn is_resumed(&self) -> bool {
        self.cx.ledger.read(|s| s.attempt(&self.key.call)) != self.attempt
    }

    /// What is known of the call: from the log, or from the body that makes it.
    fn facts(&self) -> Option<CallFacts> {
        self.cx.ledger.read(|s| s.call_facts(&self.key.call))
    }

    /// How a finished call ended, for the body that made it.
    fn outcome(&self) -> Outcome {
        let done = self
            .cx
            .ledger
            .read(|s| (s.outcome(&self.key.call, Some(Point::PostExecute)), s.call_result(&self.key.call)));
        match done {
            (outcome, Some(result)) => {
                let value = outcome.and_then(|o| o.output.as_ref().and_then(|output| output.value.clone()));
                let output =
                    Output { content: result.content.clone(), value: value.filter(|_| !result.error) };
                Outcome { ended: result.outcome.clone(), output: Some(output) }
            }
            (Some(outcome), None) => Outcome::clone(&outcome),
            (None, None) => Outcome::ended(Ended::OutcomeUnknown),
        }
    }

    /// Materialise, look up, check, rewrite, check again; then the call's identity is sealed (C-PIPE-1, 9).
    ///
    /// With nobody left to ask, `tool/dispatched` follows in the same append; its attempt is returned.
    async fn seal(&self, passed: Option<Point>) -> Result<Option<Start>, Stop> {
        let made = self.cx.ledger.read(|s| s.call_made(&self.key.call));
        let (id, name, raw) = match (made, &self.made) {
            (Some(made), _) => made,
            // A nested call has no id of the model's: its key names it.
            (None, Some(made)) => (self.key.to_string().into(), made.name.clone(), made.raw.clone()),
            (None, None) => return Ok(None),
        };
        let sealed = |arguments, spec: Option<&ToolSpec>| ToolCall {
            name: name.clone(),
            id: id.clone(),
            arguments,
            idempotent: spec.is_some_and(|s| s.idempotent),
            concurrency_safe: spec.is_some_and(|s| s.concurrency_safe),
        };
        let refuse = |raw: Arc<str>, refused| sealed(Arguments::Refused { raw, refused }, None);
        let Some((spec, tool)) = self.cx.profile.table.find(&name) else {
            self.sealed([refuse(raw.clone(), Ended::UnknownTool).into()], passed)?;
            return Ok(None);
        };
        let requested = match materialise(&raw, spec) {
            Ok(requested) => requested,
            Err(refused) => {
                self.sealed([refuse(raw.clone(), refused).into()], passed)?;
                return Ok(None);
            }
        };
        if !self.cx.profile.table.is_bare::<Rewrite>() {
            let input =
                Proposed::new(self.scene(), self.key.clone(), id.clone(), spec.clone(), requested.clone());
            let (at, subject) = (self.at.clone(), self.subject.clone());
            Box::pin(judge::<Rewrite>(&self.cx, at, subject, input, &self.cancel)).await?;
        }
        let rewritten = Rewrite::fold(&self.cx.ledger.read(|s| s.decided::<Rewrite>(&self.subject)));
        let start = |requested: &Frozen, arguments: &Frozen, attempt| {
            let (spec, tool) = (spec.clone(), tool.clone());
            let execution = self.snapshot(id.clone(), spec, requested.clone(), arguments.clone());
            Start { attempt, execution, tool }
        };
        let Some((by, effective)) = rewritten.effective.filter(|(_, effective)| *effective != requested)
        else {
            let call = sealed(Arguments::Sealed { text: requested.clone() }, Some(spec));
            let attempt = self.sealed([call.into()], passed)?;
            return Ok(attempt.map(|attempt| start(&requested, &requested, attempt)));
        };
        let rewrite = ToolRewrite { requested: requested.clone(), effective: effective.clone(), by };
        match materialise(effective.text(), spec) {
            Ok(text) => {
                let call = sealed(Arguments::Sealed { text: text.clone() }, Some(spec));
                let attempt = self.sealed([rewrite.into(), call.into()], passed)?;
                Ok(attempt.map(|attempt| start(&requested, &text, attempt)))
            }
            Err(refused) => {
                let call = refuse(effective.text().into(), refused);
                self.sealed([rewrite.into(), call.into()], passed)?;
                Ok(None)
            }
        }
    }

    /// What a body is started with; `None` when there is no such call, or no such tool any more.
    fn start(&self, attempt: u32) -> Option<Start> {
        let execution = self.execution()?;
        let (_, tool) = self.cx.profile.table.find(&execution.tool.name)?;
        Some(Start { attempt, tool: tool.clone(), execution })
    }

    fn sealed<const N: usize>(&self, bodies: [Body; N], passed: Option<Point>) -> Result<Option<u32>, Stop> {
        let drafts = bodies.into_iter().map(|body| Draft::new(self.at.clone(), body)).collect();
        let mut dispatched = None;
        let mut follow = |s: &State| match s.call(&self.key.call, passed) {
            CallOwes::Dispatch { attempt } if !self.cancel.is_cancelled() => {
                dispatched = Some(attempt);
                vec![Draft::new(self.at.clone(), ToolDispatched { attempt })]
            }
            _ => Vec::new(),
        };
        let _enqueued = self.cx.commit_on(drafts, &mut follow, &mut |_| {})?;
        Ok(dispatched)
    }

    async fn gate(&self) -> Result<(), Stop> {
        if self.cx.profile.table.is_bare::<PreExecute>() {
            return Ok(());
        }
        let Some(execution) = self.execution() else { return Ok(()) };
        let (at, subject) = (self.at.clone(), self.subject.clone());
        Box::pin(judge::<PreExecute>(&self.cx, at, subject, execution, &self.cancel)).await
    }

    /// C-PIPE-4: after the whole gate, synchronously; a guard that fails denies.
    fn guards(&self) -> Result<(), Stop> {
        let table = &self.cx.profile.table;
        if let Some(cue) = &self.cx.cue {
            return replay::guards(&self.cx, cue, &self.at, &self.subject);
        }
        if table.guards().next().is_none() {
            return Ok(());
        }
        let Some(execution) = self.execution() else { return Ok(()) };
        let mut made = Vec::new();
        for (order, guard) in table.guards().enumerate() {
            if !guard.matches.fit(&execution.scene, Some(&execution.tool.name)) {
                continue;
            }
            if self.cx.ledger.read(|s| s.decision_of(Point::Guard, &self.subject, &guard.id).is_some()) {
                continue;
            }
            let started = Instant::now();
            let (verdict, failure) = match self
                .cx
                .watched(guard.id.clone(), Some(Point::Guard))
                .contain_sync(|| guard.run.check(&execution))
            {
                Ok(None) => (GuardVerdict::Abstain, None),
                Ok(Some(reason)) => (GuardVerdict::Deny { reason }, None),
                Err(failure) => {
                    tracing::warn!(guard = %guard.id, %failure, "a guard failed");
                    let reason = Reason::from("A policy check failed, so this call was not run.");
                    (GuardVerdict::Deny { reason }, Some(failure))
                }
            };
            made.push(HandlerDecision {
                id: guard.id.clone(),
                order: u32::try_from(order).unwrap_or(u32::MAX),
                decision: Decision::Guard(verdict),
                context: Vec::new(),
                halt: None,
                failure,
                ms: millis(started.elapsed()),
            });
        }
        match DecisionsRecorded::of(Point::Guard, &self.subject, made) {
            Some(decided) => self.put(decided),
            None => Ok(()),
        }
    }

    /// C-PIPE-6: the review sees every decided outcome.
    async fn review(&self, passed: Option<Point>) -> Result<(), Stop> {
        if self.cx.profile.table.is_bare::<PostExecute>() {
            return Ok(());
        }
        let (facts, outcome) =
            self.cx.ledger.read(|s| (s.call_facts(&self.key.call), s.outcome(&self.key.call, passed)));
        let (Some(facts), Some(outcome)) = (facts, outcome) else { return Ok(()) };
        let spec = self.cx.profile.table.find(&facts.name).map(|(spec, _)| spec.clone());
        let took = Duration::from_millis(facts.took_ms);
        let input = Returned::new(
            self.scene(),
            self.key.clone(),
            facts.id,
            facts.name,
            spec,
            facts.arguments,
            outcome,
            took,
        );
        let (at, subject) = (self.at.clone(), self.subject.clone());
        Box::pin(judge::<PostExecute>(&self.cx, at, subject, input, &self.cancel)).await
    }

    /// What the law owes without outside help, with what follows it; a result is shown to the observers once it is
    /// durable. True when the call has its result with that.
    async fn commit(&self, drafts: Vec<Draft>, passed: Option<Point>) -> Result<bool, Stop> {
        let observers = &self.cx.profile.table.observers;
        // Asked before the step may be over.
        let named =
            if observers.is_empty() { None } else { self.cx.ledger.read(|s| s.call_name(&self.key.call)) };
        let mut own = None;
        let mut follow = |s: &State| match s.call(&self.key.call, passed) {
            CallOwes::Commit(drafts) if self.lanes.may_give() => drafts,
            CallOwes::Commit(_) => Vec::new(),
            _ => self.step_over(s),
        };
        let mut see = |record: &Arc<Record>| {
            if matches!(&record.body, Body::ToolResult(_)) && record.at.call.as_ref() == Some(&self.key.call)
            {
                own = Some(record.clone());
            }
        };
        let ticket = self.cx.commit_on(drafts, &mut follow, &mut see)?;
        let result = own.as_ref().and_then(|record| match &record.body {
            Body::ToolResult(result) => Some(result),
            _ => None,
        });
        let Some(result) = result else { return Ok(false) };
        if observers.is_empty() {
            return Ok(true);
        }
        self.cx.pass.away(pin!(ticket.wait())).await?;
        let Some(name) = named.or_else(|| Some(self.made.as_ref()?.name.clone())) else { return Ok(true) };
        let scene = Scene::new(
            self.cx.info.clone(),
            self.key.turn,
            self.key.step,
            self.cx.ledger.read(|s| s.current_prompt()),
        );
        let (ended, content) = (result.outcome.clone(), result.content.clone());
        let seen = Committed::new(scene, self.key.clone(), name.clone(), ended, content, result.error);
        for observer in observers.iter().filter(|o| o.matches.fit(&seen.scene, Some(&name))) {
            let watched = self.cx.watched(observer.id.clone(), Some(Point::Result));
            if let Err(failure) = watched.contain_sync(|| observer.run.observe(&seen)) {
                tracing::error!(observer = %observer.id, %failure, "an observer failed");
            }
        }
        Ok(true)
    }

    /// The end of the step, if this was the last result it waited for.
    fn step_over(&self, s: &State) -> Vec<Draft> {
        if self.made.is_some() || self.cancel.is_cancelled() || s.call_under_way().is_some() {
            return Vec::new();
        }
        let next = match s.next(None) {
            Next::Judge { point: Point::Batch, subject } if self.cx.profile.table.is_bare::<ToolBatch>() => {
                s.next(Some(&(Point::Batch, subject)))
            }
            next => next,
        };
        match next {
            Next::Commit(drafts)
                if drafts.iter().all(|d| matches!(d.body(), Body::ContextMessage(_) | Body::StepEnd(_))) =>
            {
                drafts
            }
            _ => Vec::new(),
        }
    }

    fn put(&self, body: impl Into<Body>) -> Result<(), Stop> {
        let _enqueued = self.cx.commit(vec![Draft::new(self.at.clone(), body)])?;
        Ok(())
    }

    fn scene(&self) -> Scene {
        self.cx.scene()
    }

    /// The call's snapshot, once it is sealed.
    fn execution(&self) -> Option<Execution> {
        let facts = self.cx.ledger.read(|s| s.call_facts(&self.key.call))?;
        let (spec, _) = self.cx.profile.table.find(&facts.name)?;
        Some(self.snapshot(facts.id, spec.clone(), facts.requested?, facts.arguments?))
    }

    fn snapshot(&self, id: Arc<str>, spec: Arc<ToolSpec>, requested: Frozen, arguments: Frozen) -> Execution {
        let (token, parent) = (self.token.id(), self.token.parent());
        Execution::new(token, parent, self.scene(), self.key.clone(), id, spec, requested, arguments)
    }
}

fn materialise(text: &str, spec: &ToolSpec) -> Result<Frozen, Ended> {
    let refused = |message: String| Ended::InvalidArguments { message: message.into() };
    let arguments = Frozen::arguments(text).map_err(|e| refused(e.to_string()))?;
    spec.accepts(&arguments).map_err(refused)?;
    Ok(arguments)
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}
