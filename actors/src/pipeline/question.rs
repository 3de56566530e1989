//! A call's question to a person: put once, settled once, by an answer or by its time (C-ASK).

use super::Trip;
use crate::{
    control::{Answer, AnswerError, Ask, Control, Given, Waiting},
    cx::{SessionCx, Wait},
    judge::{Stop, judge},
    ledger::{now_ms, time_left},
};
use futures::future::{Either, select};
use portcullis_runtime::{
    Asking, Cancel, Draft, Execution, HandlerId, InputRequested, InputResolved, Permission, Point,
    PutQuestion, Reason, RequestId, Resolution, Source, Verdict,
};
use std::{pin::pin, sync::Arc};

/// A question that waits. Given up (a cancel, a body that dropped the call), it is withdrawn: whoever answers it then is
/// told, and nobody waits for what cannot come. A session that leaves memory gives up nothing: the question stays.
struct Question<'q> {
    cx: &'q SessionCx,
    asks: &'q Control,
    request: &'q RequestId,
    settled: bool,
}

impl Question<'_> {
    fn settle(&mut self, told: Result<(), AnswerError>) {
        self.settled = true;
        self.asks.settled(self.request, told);
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if !self.settled && !self.cx.leaving.get() {
            self.asks.settled(self.request, Err(AnswerError::Settled));
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

    /// C-ASK-1: one request, published after its commit. Without a channel to a person it is settled at once.
    pub(super) async fn ask(&self, by: Vec<HandlerId>, reasons: Vec<Reason>) -> Result<(), Stop> {
        let Some(execution) = self.execution() else { return Ok(()) };
        let request = RequestId::of(&self.cx.info.id, &self.key);
        let digest = InputRequested::digest_of(&execution.arguments);
        // Nobody is waited for where there is nobody.
        let someone = match &self.cx.cue {
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
        let requested = InputRequested { request: request.clone(), digest, reasons, by, expires };
        let mut drafts = vec![Draft::new(self.at.clone(), requested.clone())];
        if !someone {
            drafts.push(Draft::new(self.at.clone(), by_itself(&request, Resolution::Unavailable)));
            let _enqueued = self.cx.commit(drafts)?;
            return Ok(());
        }
        self.waiting(&requested, &execution);
        let _enqueued = self.cx.commit(drafts)?;
        self.cx.barrier().await?;
        self.cx.asks.publish(&request);
        self.tell_asked(execution, requested);
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

    fn waiting(&self, requested: &InputRequested, execution: &Execution) -> Arc<Waiting> {
        self.cx.asks.ask(Ask {
            id: requested.request.clone(),
            key: self.key.clone(),
            tool: execution.tool.name.clone(),
            arguments: execution.arguments.clone(),
            digest: execution.arguments.sha256(),
            reasons: requested.reasons.clone(),
            by: requested.by.clone(),
            expires: requested.expires,
        })
    }

    /// Waits for a person, or until the question expires. The answer is reported to whoever gave it only once it is durable.
    pub(super) async fn answer(&self, request: RequestId) -> Result<(), Stop> {
        let waiting = match self.cx.asks.waiting(&request) {
            Some(waiting) => waiting,
            // Found in the log: the question is put again under the same name, never asked anew.
            None => {
                let asked = self.cx.ledger.read(|s| s.call_facts(&self.key.call).and_then(|f| f.asked));
                let (Some(asked), Some(execution)) = (asked, self.execution()) else { return Ok(()) };
                let waiting = self.waiting(&asked, &execution);
                if waiting.ask.is_overdue() && self.cx.cue.is_none() {
                    // It ran out while nobody had the session in memory: nobody sees it any more.
                    let _ = waiting.answer.settle(Given::Expired);
                } else {
                    self.cx.asks.publish(&request);
                }
                waiting
            }
        };
        // Nothing comes before an answer that is in the log.
        let answers = self.cx.cue.as_ref().is_some_and(|cue| cue.answer(waiting.clone()));
        let never = Cancel::new();
        let cancel = if answers { &never } else { &self.cancel };
        let mut question = Question { cx: &self.cx, asks: &self.cx.asks, request: &request, settled: false };
        let _person = self.cx.waits_for(Wait::Person(self.key.call.clone()));
        let given = async {
            let answered = waiting.answer.wait();
            // What is played again knows how it went, and waits for no clock.
            let expires = waiting.ask.expires.filter(|_| self.cx.cue.is_none());
            let Some(expires) = expires else { return answered.await };
            match select(answered, Box::pin(tokio::time::sleep(time_left(expires)))).await {
                Either::Left((given, _)) => given,
                // An answer that comes at this very moment may still be first.
                Either::Right((_, answered)) => {
                    let _ = waiting.answer.settle(Given::Expired);
                    answered.await
                }
            }
        };
        let given = pin!(given);
        let settled = select(given, Box::pin(cancel.cancelled()));
        let given = match self.cx.pass.away(settled).await {
            Either::Left((given, _)) => given,
            Either::Right(_) => return Err(Stop::Cancelled),
        };
        if self.cx.leaving.get() {
            // It came while the session leaves: it is taken when the session is back.
            return Err(Stop::Cancelled);
        }
        let expired = matches!(given, Given::Expired);
        let (resolved, command) = match given {
            Given::Answer(answer, by, command) => {
                let (resolution, text) = match answer {
                    Answer::Allow => (Resolution::Allowed, None),
                    Answer::Refuse(text) => (Resolution::Refused, text),
                };
                (InputResolved { request: request.clone(), resolution, text, by }, command)
            }
            Given::Expired => (by_itself(&request, Resolution::Expired), None),
        };
        let resolved = Draft::new(self.at.clone(), resolved).of_command(command);
        let committed = match self.cx.commit(vec![resolved]) {
            Ok(_) => self.cx.barrier().await.map_err(Stop::from),
            Err(stop) => Err(stop),
        };
        let told = match &committed {
            Err(Stop::Journal(error)) => Err(error.clone().into()),
            _ if expired => Err(AnswerError::Expired),
            _ => Ok(()),
        };
        question.settle(told);
        committed
    }
}

/// A question that no person settled.
fn by_itself(request: &RequestId, resolution: Resolution) -> InputResolved {
    InputResolved { request: request.clone(), resolution, text: None, by: Source::Runtime }
}
