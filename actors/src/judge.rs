//! The one driver of every awaiting seam: plan → recorded decisions → run the rest in order, contained, under their
//! limits → commit → fold (by the law, from the records).

use crate::{
    contain::{First, answered, contain, first},
    cx::SessionCx,
    hooks, replay,
    stopwatch::Stopwatch,
    watchdog::{Row, Who},
};
use futures::future::{Either, LocalBoxFuture, select};
use portcullis_runtime::{
    At, Body, BoxError, Cancel, DecisionBegun, DecisionsRecorded, Draft, Failure, HandlerDecision, HandlerId,
    JournalError, Planned, Point, Reply, Seam, Subject, plan::Part,
};
use std::{
    future::poll_fn,
    mem,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

/// Why a driver gave up what it was doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The turn was cancelled; the law winds it down.
    Cancelled,
    /// Nothing can be committed any more.
    Journal(JournalError),
    /// Our own code panicked.
    Failed,
}

impl From<JournalError> for Stop {
    fn from(error: JournalError) -> Stop {
        Stop::Journal(error)
    }
}

/// Has every matching handler decide that has not. On return the decisions are committed (not yet durable) and
/// [`State::close`](portcullis_runtime::law::State::close) yields what they come to.
///
/// A bridge's handlers act on the world and read the log: what was committed before they are asked is durable by then.
pub(crate) async fn judge<S: Seam>(
    cx: &SessionCx,
    at: At,
    subject: Subject,
    input: S::Input,
    cancel: &Cancel,
) -> Result<(), Stop> {
    let table = &cx.profile.table;
    if table.is_bare::<S>() {
        return Ok(());
    }
    if let Some(cue) = &cx.cue {
        return replay::judge(cx, cue, &at, S::POINT, &subject, cancel).await;
    }
    let parts: &[Part] = if S::NATIVE_FIRST { &[Part::Native, Part::Bridges] } else { &[Part::All] };
    let mut outside = false;
    let mut judging = Judging::<S>::new(cx, at, subject, input);
    for part in parts {
        let row = Planning::of(table.plan_part::<S>(&judging.input, *part));
        judging.made.reserve_exact(row.natives());
        loop {
            let answered = match poll_fn(|task| Poll::Ready(judging.at_once(&row, task))).await {
                Turn::Over => break,
                Turn::Waits(planned, work) => {
                    judging.commit()?;
                    let watched = cx.watched(planned.id.clone(), Some(S::POINT));
                    let work = contain(watched, Some(planned.deadline), move || work);
                    answered(Box::pin(unless_cancelled(cx, work, cancel)).await?)
                }
                Turn::Once(planned) => {
                    judging.commit()?;
                    if judging.has_begun(planned) {
                        Err(Failure::CutOff)
                    } else {
                        judging.begin(planned).await?;
                        judging.watch.lap();
                        let (input, run) = (judging.input.clone(), &planned.run);
                        let watched = cx.watched(planned.id.clone(), Some(S::POINT));
                        let work = contain(watched, Some(planned.deadline), move || run.decide(input));
                        answered(Box::pin(unless_cancelled(cx, work, cancel)).await?)
                    }
                }
                Turn::Foreign(planned) if planned.run.once() && judging.has_begun(planned) => {
                    Err(Failure::CutOff)
                }
                Turn::Foreign(planned) => {
                    // What was decided between them is on its way to the log.
                    judging.commit()?;
                    if !mem::replace(&mut outside, true) {
                        cx.barrier().await?;
                    }
                    if planned.run.once() {
                        judging.begin(planned).await?;
                    }
                    judging.watch.lap();
                    let work = Box::pin(run_foreign(cx, planned, judging.input.clone()));
                    Box::pin(unless_cancelled(cx, work, cancel)).await?
                }
            };
            let took = judging.watch.lap();
            judging.take(&row, answered, took);
        }
    }
    judging.commit()
}

/// The handlers of a part of a point, in order, and whose turn it is.
struct Planning<S: Seam> {
    plan: Vec<Arc<Planned<S>>>,
    place: AtomicUsize,
}

impl<S: Seam> Planning<S> {
    fn of(plan: Vec<Arc<Planned<S>>>) -> Arc<Planning<S>> {
        Arc::new(Planning { plan, place: AtomicUsize::new(0) })
    }

    fn natives(&self) -> usize {
        self.plan.iter().take_while(|planned| planned.native).count()
    }

    fn now(&self) -> Option<&Planned<S>> {
        self.plan.get(self.place()).map(|planned| &**planned)
    }
}

impl<S: Seam> Row for Planning<S> {
    // Read by the watchdog alone, which looks again before it says anything.
    fn place(&self) -> usize {
        self.place.load(Ordering::Relaxed)
    }

    fn name(&self) -> (HandlerId, Point) {
        let id = self.now().map(|planned| planned.id.clone());
        (id.unwrap_or_else(|| HandlerId::new("portcullis", "judge")), S::POINT)
    }
}

type Answer<S> = Result<Reply<<S as Seam>::Decision>, BoxError>;

/// Whose turn it is, and what it needs.
enum Turn<'r, S: Seam> {
    /// Nobody's any more.
    Over,
    /// A handler that has to wait.
    Waits(&'r Planned<S>, LocalBoxFuture<'r, Answer<S>>),
    /// A handler that must not run twice, and has not begun.
    Once(&'r Planned<S>),
    /// A bridge's.
    Foreign(&'r Planned<S>),
}

/// A point about a subject, while its handlers decide.
///
/// Decisions that were made without waiting for anything are one append, and one record. Whoever has to wait, and every
/// bridge, has them committed first, so that a decision is held back by nothing but code that runs on without a pause.
struct Judging<'c, S: Seam> {
    cx: &'c SessionCx,
    at: At,
    subject: Subject,
    input: S::Input,
    /// Something was decided before this process, or this life of the session.
    known: bool,
    native_ended: bool,
    order: u32,
    watch: Stopwatch,
    /// What their owners add, before them.
    own: Vec<Draft>,
    made: Vec<HandlerDecision>,
}

impl<'c, S: Seam> Judging<'c, S> {
    fn new(cx: &'c SessionCx, at: At, subject: Subject, input: S::Input) -> Judging<'c, S> {
        let known = cx.ledger.read(|s| s.has_decided(S::POINT, &subject));
        let (own, made) = (Vec::new(), Vec::new());
        let watch = Stopwatch::start();
        Judging { cx, at, subject, input, known, native_ended: false, order: 0, watch, own, made }
    }

    /// Asks one after another, until one has to wait or is a bridge's: most answer at once.
    fn at_once<'r>(&mut self, row: &'r Arc<Planning<S>>, task: &mut Context<'_>) -> Turn<'r, S> {
        let cx = self.cx;
        let mut watched = None;
        while let Some(planned) = row.now() {
            if self.known && self.is_decided(planned) || planned.native && self.native_ended {
                self.next(row);
                continue;
            }
            if !planned.native {
                return Turn::Foreign(planned);
            }
            if planned.run.once() {
                return Turn::Once(planned);
            }
            if watched.is_none() {
                let who = Who::Row { row: row.clone(), session: cx.info.id.clone() };
                watched = Some(cx.pulse.enter(who));
            }
            let input = self.input.clone();
            match first(task, || planned.run.decide(input)) {
                First::Answered(reply) => {
                    let took = self.watch.lap_at_once();
                    self.take(row, answered(reply), took);
                }
                First::Waits(work) => return Turn::Waits(planned, work),
            }
        }
        Turn::Over
    }

    /// Its decision is recorded and never asked for again (C-DUR-1); those behind it see what it came to.
    fn is_decided(&mut self, planned: &Planned<S>) -> bool {
        let recalled = self.cx.ledger.read(|s| {
            let made = s.decision_of(S::POINT, &self.subject, &planned.id)?;
            Some(S::recall(&made.decision).cloned())
        });
        if let Some(Some(decision)) = &recalled {
            S::advance(&mut self.input, &planned.id, decision, planned.native);
            self.native_ended |= planned.native && S::ends_chain(decision);
        }
        recalled.is_some()
    }

    /// It began before, and did not come to an answer: its process ended.
    fn has_begun(&self, planned: &Planned<S>) -> bool {
        self.cx.ledger.read(|s| s.has_begun(S::POINT, &self.subject, &planned.id))
    }

    /// On disk before it runs (C-DUR-2).
    async fn begin(&self, planned: &Planned<S>) -> Result<(), Stop> {
        let (point, subject, id) = (S::POINT, self.subject.clone(), planned.id.clone());
        let begun = Draft::new(self.at.clone(), DecisionBegun { point, subject, id });
        let _enqueued = self.cx.commit(vec![begun])?;
        Ok(self.cx.barrier().await?)
    }

    fn next(&mut self, row: &Planning<S>) {
        row.place.store(row.place() + 1, Ordering::Relaxed);
        self.order += 1;
    }

    /// Takes down what the handler whose turn it is has answered; its failure is what the seam says a failure means.
    fn take(&mut self, row: &Planning<S>, answered: Result<Reply<S::Decision>, Failure>, took: Duration) {
        let Some(planned) = row.now() else { return };
        // A record that only the runtime may write would not be believed anyway; whoever tries it has failed.
        let forged =
            |reply: &Reply<S::Decision>| reply.records.iter().position(|r| !Body::may_be_owned(&r.kind));
        let sound = answered.and_then(|reply| match forged(&reply) {
            Some(at) => {
                let message = format!("a handler may not write a record `{}`", reply.records[at].kind).into();
                Err(Failure::Nonsense { message })
            }
            None => Ok(reply),
        });
        let reply = sound.unwrap_or_else(|failure| {
            tracing::warn!(point = %S::POINT, handler = %planned.id, %failure, "a handler failed");
            Reply::new(S::failed(&failure)).failed(failure)
        });
        S::advance(&mut self.input, &planned.id, &reply.decision, planned.native);
        self.native_ended |= planned.native && S::ends_chain(&reply.decision);
        for own in reply.records {
            self.own.push(Draft::new(self.at.clone(), Body::Own(own)));
        }
        self.made.push(HandlerDecision {
            id: planned.id.clone(),
            order: self.order,
            decision: S::record(reply.decision),
            context: reply.context.into_iter().filter(|text| !text.trim().is_empty()).collect(),
            halt: reply.halt,
            failure: reply.failure,
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        self.next(row);
    }

    fn commit(&mut self) -> Result<(), Stop> {
        let decided = DecisionsRecorded::of(S::POINT, &self.subject, mem::take(&mut self.made));
        let Some(decided) = decided else { return Ok(()) };
        let mut drafts = mem::take(&mut self.own);
        drafts.push(Draft::new(self.at.clone(), decided));
        let _enqueued = self.cx.commit(drafts)?;
        Ok(())
    }
}

pub(crate) async fn unless_cancelled<T>(
    cx: &SessionCx,
    work: impl Future<Output = T> + Unpin,
    cancel: &Cancel,
) -> Result<T, Stop> {
    match cx.pass.away(select(work, pin!(cancel.cancelled()))).await {
        Either::Left((answered, _)) => Ok(answered),
        Either::Right(_) => Err(Stop::Cancelled),
    }
}

/// A bridge's handler runs in the session's hook runner.
async fn run_foreign<S: Seam>(
    cx: &SessionCx,
    planned: &Planned<S>,
    input: S::Input,
) -> Result<Reply<S::Decision>, Failure> {
    let (run, id) = (planned.run.clone(), planned.id.clone());
    let watched = cx.watched_away(id.clone(), Some(S::POINT));
    hooks::run(cx, S::POINT, id, async move || {
        let decide = || Box::pin(async move { run.decide(input).await }) as LocalBoxFuture<'static, _>;
        answered(contain(watched, None, decide).await)
    })
    .await
}
