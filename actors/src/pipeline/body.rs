//! The body of a call, inside its wrappers: attempts, limits, cancels, and what counts as an outcome.

use super::{Start, Trip, millis, nested::Nested};
use crate::{
    contain::contain,
    cx::Wait,
    judge::Stop,
    replay::{self, Act, Cue},
};
use futures::{
    StreamExt,
    future::{Either, LocalBoxFuture, select},
    stream::FuturesUnordered,
};
use portcullis_runtime::{
    At, Cancel, Cause, CauseName, Draft, Ended, Execution, Failure, HandlerId, Next, Outcome, Point, Rest,
    Subject, Tool, ToolCx, ToolDispatched, ToolError, ToolReturned, Wrapper,
};
use std::{
    cell::{Cell, RefCell},
    pin::pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// How long a body may take to end by itself once its call is cancelled or out of time; then it is dropped.
const BODY_GRACE: Duration = Duration::from_secs(5);

type Wrappers = Vec<(HandlerId, Arc<dyn Wrapper>)>;

impl Trip {
    /// Intent before effect: `tool/dispatched` is committed, and the body starts only when it is durable. True when the
    /// call has its result with that.
    pub(super) async fn dispatched(
        self: &Rc<Self>,
        start: Start,
        passed: Option<Point>,
    ) -> Result<bool, Stop> {
        self.cx.barrier().await?;
        self.lanes.gate_passed();
        let returned = self.returned(start).await?;
        self.commit(vec![Draft::new(self.at.clone(), returned)], passed).await
    }

    async fn returned(self: &Rc<Self>, start: Start) -> Result<ToolReturned, Stop> {
        let Start { attempt, execution, tool } = start;
        let table = &self.cx.profile.table;
        let wrappers: Wrappers = table
            .wrappers
            .iter()
            .filter(|w| w.matches.fit(&execution.scene, Some(&execution.tool.name)))
            .map(|w| (w.id.clone(), w.run.clone()))
            .collect();
        let started = Instant::now();
        let chain = Chain {
            trip: self,
            execution,
            tool,
            wrappers,
            attempt: Cell::new(attempt),
            started: Cell::new(false),
            nested: RefCell::default(),
            inside: Cell::new(false),
            stopped: RefCell::new(None),
            given_up: Notify::new(),
        };
        let _body = self.cx.waits_for(Wait::Body(self.key.call.clone()));
        // Boxed: this future is large, and what holds it is moved about.
        let outcome = match &self.cx.cue {
            Some(cue) => Ok(self.cx.pass.away(Box::pin(chain.replayed(cue))).await),
            None => Err(self.cx.pass.away(Box::pin(chain.run())).await),
        };
        if let Some(stop @ (Stop::Journal(_) | Stop::Failed)) = chain.stopped.take() {
            return Err(stop);
        }
        let outcome = outcome.unwrap_or_else(|ran| Arc::new(chain.checked(ran)));
        Ok(ToolReturned { attempt: chain.attempt.get(), outcome, ms: millis(started.elapsed()) })
    }
}

/// A call's wrappers around its body.
struct Chain<'t> {
    trip: &'t Rc<Trip>,
    execution: Execution,
    tool: Arc<dyn Tool>,
    wrappers: Wrappers,
    attempt: Cell<u32>,
    /// The first run of the body is the attempt dispatched already; each further one is the next.
    started: Cell<bool>,
    /// What the last attempt was handed to call with. Its count goes on with the next one's.
    nested: RefCell<Option<Rc<Nested>>>,
    /// A body is running.
    inside: Cell<bool>,
    /// No further attempt can be made: whatever a wrapper would make of it, the call stops.
    stopped: RefCell<Option<Stop>>,
    given_up: Notify,
}

/// The chain from some wrapper on.
struct Level<'c> {
    chain: &'c Chain<'c>,
    depth: usize,
    /// The tightest limit of the wrappers outside.
    until: Option<Instant>,
}

impl Rest for Level<'_> {
    fn run(&self, tighter: Option<Duration>) -> LocalBoxFuture<'_, Outcome> {
        let tighter = tighter.map(|limit| Instant::now() + limit);
        let until = match (self.until, tighter) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Box::pin(self.chain.from(self.depth, until))
    }
}

impl Chain<'_> {
    /// The whole chain. Most calls have no wrapper, and pay for none.
    async fn run(&self) -> Outcome {
        if self.wrappers.is_empty() {
            return self.attempt(None).await;
        }
        match select(Box::pin(self.from(0, None)), Box::pin(self.let_go())).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => {
                let cause = CauseName(self.trip.cancel.cause().unwrap_or(Cause::User));
                Outcome::ended(Ended::Cancelled { cause })
            }
        }
    }

    /// What the wrappers and the body did, as the log has it: attempts, calls, and what they came back with.
    async fn replayed(&self, cue: &Arc<Cue>) -> Arc<Outcome> {
        let at = &self.trip.at;
        let mut calls = FuturesUnordered::new();
        let mut nested = Nested::of(self.trip, self.trip.cancel.clone(), None);
        let mut called = Vec::new();
        loop {
            let act = {
                let mut act = pin!(cue.act(at, &called));
                loop {
                    // What its calls are answered is in the log.
                    let answered = async {
                        match calls.next().await {
                            Some(Outcome { .. }) => {}
                            None => std::future::pending().await,
                        }
                    };
                    if let Either::Left((act, _)) = select(&mut act, pin!(answered)).await {
                        break act;
                    }
                }
            };
            match act {
                Act::Called(number) => {
                    for number in cue.calls(at, number, &called) {
                        let call: LocalBoxFuture<'static, Outcome> = match cue.made_call(at, number) {
                            Some((tool, arguments)) => nested.call(number, tool, arguments),
                            None => Box::pin(unannounced(self.trip.clone(), cue.clone(), number)),
                        };
                        calls.push(call);
                        called.push(number);
                    }
                }
                Act::Again => {
                    if let Err(stop) = self.again().await {
                        *self.stopped.borrow_mut() = Some(stop);
                        return std::future::pending().await;
                    }
                    nested = Nested::of(self.trip, self.trip.cancel.clone(), Some(&nested));
                }
                Act::Returned(outcome) => {
                    if nested.over() {
                        let quiet = pin!(nested.quiet(BODY_GRACE));
                        let all = pin!(async { while calls.next().await.is_some() {} });
                        futures::future::join(quiet, all).await;
                    }
                    return outcome;
                }
            }
        }
    }

    /// Resolves when the wrappers are not waited for any longer: one asked for an attempt that cannot be made, or the
    /// call is cancelled, and no body has run for as long as a body is given to end by itself.
    async fn let_go(&self) {
        let patience = async {
            self.trip.cancel.cancelled().await;
            let (step, mut left) = (BODY_GRACE / 5, 5);
            while left > 0 {
                tokio::time::sleep(step).await;
                left = if self.inside.get() { 5 } else { left - 1 };
            }
        };
        select(pin!(self.given_up.notified()), pin!(patience)).await;
    }

    async fn from(&self, depth: usize, until: Option<Instant>) -> Outcome {
        let Some((id, wrapper)) = self.wrappers.get(depth) else { return self.attempt(until).await };
        let rest = Level { chain: self, depth: depth + 1, until };
        let next = Next::new(&self.execution, &rest);
        let watched = self.trip.cx.watched(id.clone(), Some(Point::Execute));
        let wrapped = contain(watched, None, move || wrapper.wrap(next)).await;
        match wrapped {
            Ok(outcome) => outcome,
            Err(failure) => self.failed(id.clone(), Some(Point::Execute), failure),
        }
    }

    /// Runs the body once: the attempt that is dispatched, or the next one.
    async fn attempt(&self, until: Option<Instant>) -> Outcome {
        if self.started.replace(true)
            && let Err(stop) = self.again().await
        {
            // Never answered: a wrapper that tries until it succeeds would try for ever.
            *self.stopped.borrow_mut() = Some(stop);
            self.given_up.notify_one();
            return std::future::pending().await;
        }
        // Cancelled between its record and its start: the body does not start.
        if let Some(cause) = self.trip.cancel.cause() {
            return Outcome::ended(Ended::Cancelled { cause: CauseName(cause) });
        }
        self.inside.set(true);
        let outcome = self.body(until).await;
        self.inside.set(false);
        outcome
    }

    async fn again(&self) -> Result<(), Stop> {
        if self.trip.cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        self.attempt.set(self.attempt.get() + 1);
        self.trip.put(ToolDispatched { attempt: self.attempt.get() })?;
        Ok(self.trip.cx.barrier().await?)
    }

    async fn body(&self, until: Option<Instant>) -> Outcome {
        // A cell of its own only where it may be stopped for a reason of its own.
        let limited = until.is_some() || self.execution.tool.limit.is_some();
        let stop = if limited { self.trip.cancel.child() } else { self.trip.cancel.clone() };
        let before = self.nested.take();
        let nested = Nested::of(self.trip, stop.clone(), before.as_deref());
        self.nested.replace(Some(nested.clone()));
        let outcome = self.bare_body(until, &stop, nested.clone()).await;
        if nested.over() {
            Box::pin(nested.quiet(BODY_GRACE)).await;
        }
        outcome
    }

    async fn bare_body(&self, until: Option<Instant>, stop: &Cancel, nested: Rc<Nested>) -> Outcome {
        let (trip, name) = (self.trip, &self.execution.tool.name);
        let own = self.execution.tool.limit.map(|limit| Instant::now() + limit);
        let until = own.into_iter().chain(until).min();
        let tcx = ToolCx::new(stop.clone(), self.attempt.get()).calling(nested);
        let (tool, execution) = (&self.tool, self.execution.clone());
        let work = contain(trip.cx.watched_body(&self.execution), None, move || tool.call(execution, tcx));
        let mut work = pin!(work);
        let began = until.map(|_| Instant::now());
        // Timers are large, and most bodies have none.
        let out_of_time = async {
            match until {
                Some(until) => Box::pin(tokio::time::sleep_until(until.into())).await,
                None => std::future::pending().await,
            }
        };
        let (cancelled, out_of_time) = (pin!(trip.cancel.cancelled()), pin!(out_of_time));
        let stopped = select(cancelled, out_of_time);
        let (ended, ran) = match select(&mut work, stopped).await {
            // A body that gave up because it heard the cancel first was cancelled; one that finished has finished.
            Either::Left((Ok(Err(ToolError(said))), _)) if trip.cancel.is_cancelled() => {
                let cause = trip.cancel.cause().unwrap_or(Cause::User);
                return Outcome { ended: Ended::Cancelled { cause: CauseName(cause) }, output: Some(said) };
            }
            Either::Left((Ok(result), _)) => return self.valid(result.into()),
            Either::Left((Err(failure), _)) => {
                return self.failed(trip.cx.shared.names.tool(name), None, failure);
            }
            Either::Right((why, _)) => {
                let ended = match why {
                    Either::Left((cause, _)) => Ended::Cancelled { cause: CauseName(cause) },
                    Either::Right(_) => {
                        let limit = until
                            .zip(began)
                            .map_or(Duration::ZERO, |(until, began)| until.saturating_duration_since(began));
                        Ended::Timeout { limit_ms: millis(limit) }
                    }
                };
                stop.cancel(Cause::Deadline);
                (ended, Box::pin(tokio::time::timeout(BODY_GRACE, &mut work)).await)
            }
        };
        let said = match ran {
            Ok(Ok(Ok(output) | Err(ToolError(output)))) => Some(output),
            _ => None,
        };
        Outcome { ended, output: said }
    }

    /// C-PIPE-8: a tool that declares the shape of its output is held to it.
    fn valid(&self, outcome: Outcome) -> Outcome {
        if outcome.ended != Ended::Completed {
            return outcome;
        }
        let value = outcome.output.as_ref().and_then(|output| output.value.as_ref());
        match self.execution.tool.returns(value) {
            Ok(()) => outcome,
            Err(message) => Outcome { ended: Ended::InvalidOutput { message: message.into() }, output: None },
        }
    }

    fn failed(&self, by: HandlerId, point: Option<Point>, failure: Failure) -> Outcome {
        tracing::error!(%by, %failure, "a tool or its wrapper failed");
        Outcome::ended(Ended::HandlerFailure { by, point, failure })
    }

    /// A wrapper may answer in the body's stead, but not claim what only the pipeline can know.
    fn checked(&self, outcome: Outcome) -> Outcome {
        let said_by_a_body = outcome.ended.was_dispatched() && outcome.ended != Ended::OutcomeUnknown;
        if said_by_a_body {
            // What a body said was looked at; what a wrapper made of it was not.
            return if self.wrappers.is_empty() { outcome } else { self.valid(outcome) };
        }
        let by = self.wrappers.first().map_or_else(|| HandlerId::new(Ended::TOOLS, ""), |(id, _)| id.clone());
        let message =
            format!("a wrapper answered `{}`, which is not its to say", outcome.ended.name()).into();
        self.failed(by, Some(Point::Execute), Failure::Nonsense { message })
    }
}

/// In a replay, a call of which nothing is in the log but what was decided about it: the process went before it was announced,
/// so nobody knows what it was.
async fn unannounced(trip: Rc<Trip>, cue: Arc<Cue>, number: u32) -> Outcome {
    let call = trip.key.call.nested(number);
    let (at, subject) = (At { call: Some(call.clone()), ..trip.at.clone() }, Subject::Call(call));
    if let Err(stop) = replay::judge(&trip.cx, &cue, &at, Point::Rewrite, &subject, &trip.cancel).await {
        tracing::debug!(?stop, "a call that was never announced was given up");
    }
    std::future::pending().await
}
