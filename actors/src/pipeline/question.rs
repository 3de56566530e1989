//! What a call waits for outside: a question to a person (C-ASK), or its host, when it was deferred (C-BRIDGE-9). Put once,
//! settled once, by an answer or by its time.

use super::Trip;
use crate::{
    control::{Answer, AnswerError, Ask, Given, Waiting},
    cx::{SessionCx, Wait},
    judge::{Stop, judge},
    ledger::{now_ms, time_left},
    replay::Cue,
};
use futures::future::{Either, select, select_all};
use portcullis_runtime::{
    Asking, At, CallPath, Cancel, Draft, Execution, HandlerId, InputRequested, InputResolved, Permission,
    Point, PutQuestion, Reason, RequestId, Resolution, Source, Verdict, law::CallFacts,
};
use std::sync::Arc;

/// Waits that are open. Given up (a cancel, a body that dropped the call), they are withdrawn: whoever settles one then is
/// told, and nobody waits for what cannot come. A session that leaves memory gives up nothing: they stay.
struct Open<'q> {
    cx: &'q SessionCx,
    waits: Vec<Wanted>,
}

/// One of them, and where its end is recorded.
type Wanted = (At, Arc<Waiting>);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.cx.leaving.get() {
            for (_, waiting) in &self.waits {
                self.cx.asks.settled(&waiting.ask.id, Err(AnswerError::Settled));
            }
        }
    }
}

/// Its step, or its body, can do nothing before a deferred call is resumed. A session that leaves memory stays so.
struct Held<'q>(&'q SessionCx);

impl Held<'_> {
    fn begin(cx: &SessionCx) -> Held<'_> {
        cx.asks.hold();
        Held(cx)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.0.leaving.get() {
            self.0.asks.go_on();
        }
    }
}

impl Trip {
    /// The gate wants a person: has whoever may answer in that person's stead answer first.
    pub(super) async fn permission(&self) -> Result<(), Stop> {
        if self.cx.profile.table.is_bare::<Permission>() {
            return Ok(());
        }
        let Some(execution) = self.execution() else { return Ok(()) };
        let Verdict::Ask { by, reasons } = self.cx.ledger.read(|s| s.gate(&self.key.call)) else {
            return Ok(());
        };
        let input = Asking::new(execution, by, reasons, self.cx.approvals);
        let (at, subject) = (self.at.clone(), self.subject.clone());
        Box::pin(judge::<Permission>(&self.cx, at, subject, input, &self.cancel)).await
    }

    /// C-ASK-1: one request, published after its commit. Without a channel to a person a question is settled at once; a
    /// deferred call (C-BRIDGE-9) asks nobody, and waits for its host, which there always is.
    pub(super) async fn ask(
        &self,
        by: Vec<HandlerId>,
        reasons: Vec<Reason>,
        deferred: bool,
    ) -> Result<(), Stop> {
        let Some(execution) = self.execution() else { return Ok(()) };
        let request = RequestId::at(&self.cx.info.id, &self.key, self.attempt);
        let digest = InputRequested::digest_of(&execution.arguments);
        // Nobody is waited for where there is nobody.
        let someone = deferred
            || match &self.cx.cue {
                Some(cue) => !cue.nobody_to_ask(&request),
                None => self.cx.approvals,
            };
        let wait = self.cx.shared.asks_expire_after.filter(|_| someone);
        let expires = match &self.cx.cue {
            Some(cue) => cue.expires(&request),
            None => {
                wait.map(|wait| now_ms().saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
            }
        };
        let requested = InputRequested { request: request.clone(), digest, reasons, by, expires, deferred };
        let mut drafts = vec![Draft::new(self.at.clone(), requested.clone())];
        if !someone {
            drafts.push(Draft::new(self.at.clone(), by_itself(&request, Resolution::Unavailable)));
            let _enqueued = self.cx.commit(drafts)?;
            return Ok(());
        }
        let _waits = self.waiting(&requested);
        let _enqueued = self.cx.commit(drafts)?;
        self.cx.barrier().await?;
        self.cx.asks.publish(&request);
        if !deferred {
            self.tell_asked(execution, requested);
        }
        Ok(())
    }

    /// Shows the observers a question that is put, once that is durable.
    fn tell_asked(&self, call: Execution, requested: InputRequested) {
        let observers = &self.cx.profile.table.ask_observers;
        if observers.is_empty() || self.cx.cue.is_some() {
            return;
        }
        let seen = PutQuestion::new(call, requested.request, requested.by, requested.reasons);
        let tool = Some(&*seen.call.tool.name);
        for observer in observers.iter().filter(|o| o.matches.fit(seen.scene(), tool)) {
            let watched = self.cx.watched(observer.id.clone(), Some(Point::Asked));
            if let Err(failure) = watched.contain_sync(|| observer.run.observe(&seen)) {
                tracing::error!(observer = %observer.id, %failure, "an observer failed");
            }
        }
    }

    fn waiting(&self, requested: &InputRequested) -> Option<Arc<Waiting>> {
        // Whoever opened the session again may not have its tool any more.
        let CallFacts { id, name, arguments, .. } = self.facts()?;
        let arguments = arguments?;
        let ask = Ask {
            id: requested.request.clone(),
            key: self.key.clone(),
            tool: name,
            digest: arguments.sha256(),
            arguments,
            reasons: requested.reasons.clone(),
            by: requested.by.clone(),
            expires: requested.expires,
        };
        Some(self.cx.asks.ask(ask, requested.deferred.then_some(id)))
    }

    /// What waits under this name. Found in the log, it is put again under the same name, never asked anew.
    pub(super) fn put_again(&self, request: &RequestId) -> Option<Arc<Waiting>> {
        if let Some(waiting) = self.cx.asks.waiting(request) {
            return Some(waiting);
        }
        let asked = self.facts()?.asked?;
        let waiting = self.waiting(&asked)?;
        if waiting.ask.is_overdue() && self.cx.cue.is_none() {
            // It ran out while nobody had the session in memory: nobody sees it any more.
            let _ = waiting.answer.settle(Given::Expired);
        } else {
            self.cx.asks.publish(request);
        }
        Some(waiting)
    }

    /// Waits for whoever settles it, or until it expires.
    pub(super) async fn answer(&self, request: RequestId) -> Result<(), Stop> {
        let Some(waiting) = self.put_again(&request) else { return Ok(()) };
        first_settled(&self.cx, vec![(self.at.clone(), waiting)], &self.cancel).await
    }
}

/// Waits until one of the step's deferred calls is taken up again, or its time is over (C-BRIDGE-9).
pub(crate) async fn resumed(cx: &SessionCx, turn: u64, step: u32, cancel: &Cancel) -> Result<(), Stop> {
    let deferred: Vec<(CallPath, RequestId)> = cx.ledger.read(|s| {
        let open = s.open_calls();
        open.filter_map(|(path, _)| Some((path.clone(), s.deferral(path)?.request.clone()))).collect()
    });
    let wanted = |(path, request)| Some((At::call(turn, step, path), cx.asks.waiting(&request)?));
    first_settled(cx, deferred.into_iter().filter_map(wanted).collect(), cancel).await
}

/// Waits for the first of these to be settled, by somebody or by its time. It is reported to whoever settled it only once it
/// is durable.
async fn first_settled(cx: &SessionCx, waits: Vec<Wanted>, cancel: &Cancel) -> Result<(), Stop> {
    let Some(call) = waits.first().and_then(|(at, _)| at.call.clone()) else { return Ok(()) };
    // Nothing comes before an answer that is in the log.
    let answers =
        |cue: &Arc<Cue>| waits.iter().filter(|(_, waiting)| cue.answer(waiting.clone())).count() > 0;
    let never = Cancel::new();
    let cancel = if cx.cue.as_ref().is_some_and(answers) { &never } else { cancel };
    let all = waits.clone();
    let mut open = Open { cx, waits };
    let _outside = cx.waits_for(Wait::Person(call));
    // One that is settled already is not waited for.
    let waits = all.iter().all(|(_, waiting)| !waiting.answer.is_settled())
        && all.iter().any(|(_, waiting)| waiting.deferred.is_some());
    let held = waits.then(|| Held::begin(cx));
    let first = select_all(all.iter().map(|(_, waiting)| Box::pin(given(cx, waiting))));
    let (given, place) = match cx.pass.away(select(first, Box::pin(cancel.cancelled()))).await {
        Either::Left(((given, place, _), _)) => (given, place),
        Either::Right(_) => return Err(Stop::Cancelled),
    };
    drop(held);
    if cx.leaving.get() {
        // It came while the session leaves: it is taken when the session is back.
        return Err(Stop::Cancelled);
    }
    // The others stay as they are.
    let (at, settled) = all[place].clone();
    open.waits.retain(|(_, waiting)| Arc::ptr_eq(waiting, &settled));
    let request = settled.ask.id.clone();
    let expired = matches!(given, Given::Expired);
    let (resolved, command) = match given {
        Given::Answer(answer, by, command) => {
            let (resolution, text) = match answer {
                Answer::Allow => (Resolution::Allowed, None),
                Answer::Refuse(text) => (Resolution::Refused, text),
            };
            (InputResolved { request: request.clone(), resolution, text, by }, command)
        }
        Given::Resume(by, command) => {
            let resolution = Resolution::Resumed;
            (InputResolved { request: request.clone(), resolution, text: None, by }, command)
        }
        Given::Expired => (by_itself(&request, Resolution::Expired), None),
    };
    let committed = match cx.commit(vec![Draft::new(at, resolved).of_command(command)]) {
        Ok(_) => cx.barrier().await.map_err(Stop::from),
        Err(stop) => Err(stop),
    };
    let told = match &committed {
        Err(Stop::Journal(error)) => Err(error.clone().into()),
        _ if expired => Err(AnswerError::Expired),
        _ => Ok(()),
    };
    open.waits.clear();
    cx.asks.settled(&request, told);
    committed
}

/// What settles it.
async fn given(cx: &SessionCx, waiting: &Waiting) -> Given {
    let answered = waiting.answer.wait();
    // What is played again knows how it went, and waits for no clock.
    let expires = waiting.ask.expires.filter(|_| cx.cue.is_none());
    let Some(expires) = expires else { return answered.await };
    match select(answered, Box::pin(tokio::time::sleep(time_left(expires)))).await {
        Either::Left((given, _)) => given,
        // An answer that comes at this very moment may still be first.
        Either::Right((_, answered)) => {
            let _ = waiting.answer.settle(Given::Expired);
            answered.await
        }
    }
}

/// A question that no person settled.
fn by_itself(request: &RequestId, resolution: Resolution) -> InputResolved {
    InputResolved { request: request.clone(), resolution, text: None, by: Source::Runtime }
}
