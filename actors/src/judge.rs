//! The one driver of every awaiting seam: plan → recorded decisions → run the rest in order, contained, under their
//! limits → commit → fold (by the law, from the records).

use crate::{
    contain::{answered, contain},
    cx::SessionCx,
    hooks,
};
use futures::future::{Either, LocalBoxFuture, select};
use portcullis_runtime::{
    At, Body, Cancel, DecisionRecorded, Draft, Failure, JournalError, Planned, Reply, Seam, Subject,
    plan::Part,
};
use std::{
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    task::Poll,
    time::Instant,
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
/// `after_body`: a body has returned; a process must not start before that is durable.
pub(crate) async fn judge<S: Seam>(
    cx: &SessionCx,
    at: At,
    subject: Subject,
    mut input: S::Input,
    cancel: &Cancel,
    mut after_body: bool,
) -> Result<(), Stop> {
    if cx.profile.table.is_bare::<S>() {
        return Ok(());
    }
    let table = &cx.profile.table;
    let parts: &[Part] = if S::NATIVE_FIRST { &[Part::Native, Part::Bridges] } else { &[Part::All] };
    // What was decided before this process, or this life of the session.
    let known = cx.ledger.read(|s| s.has_decided(S::POINT, &subject));
    let mut decided = Decisions { cx, at, drafts: Vec::new() };
    let mut native_ended = false;
    let mut order = 0;
    let mut since = Instant::now();
    for part in parts {
        for planned in table.plan_part::<S>(&input, *part) {
            let place = order;
            order += 1;
            let recorded = known
                .then(|| {
                    cx.ledger
                        .read(|s| Some(S::recall(&s.decision_of(S::POINT, &subject, &planned.id)?.decision)))
                })
                .flatten();
            if let Some(recalled) = recorded {
                if let Some(decision) = recalled {
                    S::advance(&mut input, &planned.id, &decision, planned.native);
                    native_ended |= planned.native && S::ends_chain(&decision);
                }
                continue;
            }
            if planned.native && native_ended {
                continue;
            }
            if !planned.native {
                // A process acts on the world: what was decided before it is on its way to the log, and what a body did
                // is there.
                decided.commit()?;
                if after_body {
                    cx.barrier().await?;
                    after_body = false;
                }
                since = Instant::now();
            }
            let reply = ask(&planned, input.clone(), cancel, &mut decided).await?;
            let (started, now) = (since, Instant::now());
            since = now;
            S::advance(&mut input, &planned.id, &reply.decision, planned.native);
            native_ended |= planned.native && S::ends_chain(&reply.decision);
            for own in reply.records {
                decided.push(Body::Own(own));
            }
            decided.push(DecisionRecorded {
                point: S::POINT,
                subject: subject.clone(),
                id: planned.id,
                order: place,
                decision: S::record(reply.decision),
                context: reply.context.into_iter().filter(|text| !text.trim().is_empty()).collect(),
                halt: reply.halt,
                failure: reply.failure,
                ms: u64::try_from(now.saturating_duration_since(started).as_millis()).unwrap_or(u64::MAX),
            });
        }
    }
    decided.commit()
}

/// Decisions of one point that were made without waiting for anything: they are one append. Whoever has to wait, and every
/// bridge, has them committed first, so that a decision is held back by nothing but code that runs on without a pause.
struct Decisions<'c> {
    cx: &'c SessionCx,
    at: At,
    drafts: Vec<Draft>,
}

impl Decisions<'_> {
    fn push(&mut self, body: impl Into<Body>) {
        self.drafts.push(Draft::new(self.at.clone(), body));
    }

    fn commit(&mut self) -> Result<(), Stop> {
        if !self.drafts.is_empty() {
            let _enqueued = self.cx.commit(mem::take(&mut self.drafts))?;
        }
        Ok(())
    }
}

/// Asks one handler; its failure is what the seam says a failure means.
async fn ask<S: Seam>(
    planned: &Planned<S>,
    input: S::Input,
    cancel: &Cancel,
    decided: &mut Decisions<'_>,
) -> Result<Reply<S::Decision>, Stop> {
    let cx = decided.cx;
    let answered = if planned.native {
        let watched = cx.watched(planned.id.clone(), Some(S::POINT));
        let run = &planned.run;
        let mut work = contain(watched, Some(planned.deadline), move || run.decide(input));
        // Most answer at once.
        match poll_fn(|cx| Poll::Ready(Pin::new(&mut work).poll(cx))).await {
            Poll::Ready(reply) => answered(reply),
            Poll::Pending => {
                decided.commit()?;
                answered(Box::pin(unless_cancelled(cx, work, cancel)).await?)
            }
        }
    } else {
        Box::pin(unless_cancelled(cx, Box::pin(run_foreign(cx, planned, input)), cancel)).await?
    };
    // A record that only the runtime may write would not be believed anyway; whoever tries it has failed.
    let sound =
        answered.and_then(|reply| match reply.records.iter().find(|r| !Body::may_be_owned(&r.kind)) {
            Some(forged) => {
                let message = format!("a handler may not write a record `{}`", forged.kind).into();
                Err(Failure::Nonsense { message })
            }
            None => Ok(reply),
        });
    Ok(sound.unwrap_or_else(|failure| {
        tracing::warn!(point = %S::POINT, handler = %planned.id, %failure, "a handler failed");
        Reply::new(S::failed(&failure)).failed(failure)
    }))
}

async fn unless_cancelled<T>(
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
    let watched = cx.watched(id.clone(), Some(S::POINT));
    hooks::run(cx, S::POINT, id, async move || {
        let decide = || Box::pin(async move { run.decide(input).await }) as LocalBoxFuture<'static, _>;
        answered(contain(watched, None, decide).await)
    })
    .await
}
