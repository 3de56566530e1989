//! The one driver of every awaiting seam: plan → recorded decisions → run the rest in order, contained, under their
//! limits → commit → fold (by the law, from the records).

use crate::{
    contain::{Contained, contain},
    cx::SessionCx,
    hooks,
};
use futures::future::{Either, select};
use portcullis_runtime::{
    At, Body, Cancel, DecisionRecorded, Draft, Failure, JournalError, Planned, Reply, Seam, Subject,
    plan::Part,
};
use std::{sync::Arc, time::Instant};

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
    let mut native_ended = false;
    let mut order = 0;
    for part in parts {
        for planned in table.plan_part::<S>(&input, *part) {
            let place = order;
            order += 1;
            let recorded = cx.ledger.read(|s| s.decision_of(S::POINT, &subject, &planned.id).cloned());
            if let Some(recorded) = recorded {
                if let Some(decision) = S::recall(&recorded.decision) {
                    S::advance(&mut input, &planned.id, &decision, planned.native);
                    native_ended |= planned.native && S::ends_chain(&decision);
                }
                continue;
            }
            if planned.native && native_ended {
                continue;
            }
            if !planned.native && after_body {
                cx.barrier().await?;
                after_body = false;
            }
            let started = Instant::now();
            let reply = ask(cx, &planned, input.clone(), cancel).await?;
            S::advance(&mut input, &planned.id, &reply.decision, planned.native);
            native_ended |= planned.native && S::ends_chain(&reply.decision);
            let mut drafts: Vec<Draft> =
                reply.records.into_iter().map(|own| Draft::new(at.clone(), Body::Own(own))).collect();
            let decision = DecisionRecorded {
                point: S::POINT,
                subject: subject.clone(),
                id: planned.id,
                order: place,
                decision: S::record(reply.decision),
                context: reply.context.into_iter().filter(|text| !text.trim().is_empty()).collect(),
                halt: reply.halt,
                failure: reply.failure,
                ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            };
            drafts.push(Draft::new(at.clone(), decision));
            let _enqueued = cx.commit(drafts)?;
        }
    }
    Ok(())
}

/// Asks one handler; its failure is what the seam says a failure means.
async fn ask<S: Seam>(
    cx: &SessionCx,
    planned: &Planned<S>,
    input: S::Input,
    cancel: &Cancel,
) -> Result<Reply<S::Decision>, Stop> {
    let asked = select(run(cx, planned, input), Box::pin(cancel.cancelled()));
    let answered = match cx.pass.away(asked).await {
        Either::Left((answered, _)) => answered,
        Either::Right(_) => return Err(Stop::Cancelled),
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

type Answered<S> = Result<Reply<<S as Seam>::Decision>, Failure>;

/// A native handler runs here, a bridge's in the session's hook runner.
async fn run_foreign<S: Seam>(cx: &SessionCx, planned: &Planned<S>, input: S::Input) -> Answered<S> {
    let (run, id) = (planned.run.clone(), planned.id.clone());
    let watched = cx.watched(id.clone(), Some(S::POINT));
    hooks::run(cx, S::POINT, id, move || {
        let work: Contained<'static, Reply<S::Decision>> =
            contain(watched, None, Box::pin(async move { run.decide(input).await }));
        work
    })
    .await
}

fn run<'a, S: Seam>(
    cx: &'a SessionCx,
    planned: &'a Planned<S>,
    input: S::Input,
) -> std::pin::Pin<Box<dyn Future<Output = Answered<S>> + 'a>> {
    if planned.native {
        let run = Arc::clone(&planned.run);
        let watched = cx.watched(planned.id.clone(), Some(S::POINT));
        Box::pin(contain(watched, Some(planned.deadline), Box::pin(async move { run.decide(input).await })))
    } else {
        Box::pin(run_foreign(cx, planned, input))
    }
}
