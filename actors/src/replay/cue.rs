//! The prompter of a replay: it knows how far the log has been played, what comes from outside there, and who answered what.
//!
//! Whoever would wait for foreign code waits for its place in the log instead, and then has the recorded answer. Every record
//! is compared when it is made; the first that is another one ends the replay.

use super::script::{Act, Said, Script, index};
use crate::{control::Waiting, cx::SessionCx, judge::Stop};
use futures::future::{Either, select};
use portcullis_runtime::{
    At, Body, CallPath, Cancel, Draft, ModelRequest, Point, Record, RequestId, Seq, Subject,
};
use std::{
    ops::Range,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Where a replay makes something else than the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The record.
    pub seq: Seq,
    /// What the log has there; nothing behind its end.
    pub recorded: Option<Arc<Record>>,
    /// What the replay made; nothing when it came to a stop.
    pub replayed: Option<Arc<Record>>,
}

/// What was taken from the log instead of being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Taken {
    /// Answers of the model.
    pub model: u64,
    /// What bodies of calls came back with.
    pub bodies: u64,
    /// Records of decisions, of handlers and hooks.
    pub decisions: u64,
    /// Answers of people.
    pub answers: u64,
    /// Prompts, steering and context that were sent, cancels, and what subagents' sessions came to.
    pub outside: u64,
    /// Model requests that were made anew and found the same.
    pub requests: u64,
}

/// One life of a session, played again.
pub(crate) struct Cue {
    pub(super) script: Arc<Script>,
    pub(super) life: Range<usize>,
    /// Guards decided, whoever was registered when it began.
    pub(crate) guarded: bool,
    /// How many records stand.
    head: watch::Sender<usize>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    divergence: Option<Divergence>,
    taken: Taken,
    cancel: Option<Cancel>,
    /// How often something was called that a replay must not call.
    called: u64,
}

impl Cue {
    pub(super) fn new(script: Arc<Script>, life: Range<usize>) -> Cue {
        let head = watch::Sender::new(life.start);
        let guarded = script.points(&life).contains(&Point::Guard);
        Cue { script, life, guarded, head, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn head(&self) -> usize {
        *self.head.borrow()
    }

    /// What is still to be played of this life and this turn.
    fn rest(&self) -> Range<usize> {
        let head = self.head();
        head..self.script.turn(head).end.min(self.life.end)
    }

    pub(super) fn divergence(&self) -> Option<Divergence> {
        self.inner().divergence.clone()
    }

    pub(super) fn counts(&self) -> (Taken, u64) {
        let inner = self.inner();
        (inner.taken, inner.called)
    }

    pub(super) fn called(&self) {
        self.inner().called += 1;
    }

    fn diverge(&self, seq: usize, replayed: Option<Arc<Record>>) {
        let recorded = self.script.log.get(seq).filter(|_| seq < self.life.end).cloned();
        self.inner().divergence.get_or_insert(Divergence { seq: Seq(seq as u64), recorded, replayed });
        // Whoever watches looks again.
        self.head.send_modify(|_| {});
    }

    /// The replay does not get on: what it waits for does not come.
    pub(super) fn stuck(&self) {
        self.diverge(self.head(), None);
    }

    /// Played to its end, or to where it is another log.
    pub(super) fn is_over(&self) -> bool {
        self.head() >= self.life.end || self.divergence().is_some()
    }

    pub(super) fn watch(&self) -> watch::Receiver<usize> {
        self.head.subscribe()
    }

    /// May a record be made now? Not behind the end of this life: there the process went.
    pub(crate) fn admits(&self, head: Seq) -> bool {
        index(head.0) < self.life.end && self.divergence().is_none()
    }

    /// A record that was not admitted. Where the log ends at rest, it is one too many.
    pub(crate) fn refused(&self, draft: Draft, head: Seq) {
        if self.script.at_rest && self.life.end == self.script.log.len() && index(head.0) == self.life.end {
            self.diverge(self.life.end, Some(draft.seal(head, 0)));
        }
    }

    /// A record was made.
    pub(crate) fn made(&self, record: &Arc<Record>) {
        let n = index(record.seq.0);
        let same = self.script.log.get(n).is_some_and(|recorded| {
            recorded.at == record.at && recorded.body.timeless() == record.body.timeless()
        });
        if same && n < self.life.end {
            self.head.send_replace(n + 1);
        } else {
            self.diverge(n, Some(record.clone()));
        }
    }

    /// What comes from outside now: a record that nothing here makes, or a cancel. `asked`: someone waits for an answer.
    pub(crate) fn outside(&self, asked: bool) -> Option<Draft> {
        let head = self.head();
        if !self.life.contains(&head) {
            return None;
        }
        if let Some(cause) = self.script.cancel(head) {
            if asked || !self.script.answered_behind(head) {
                self.cancel_now(cause);
            }
            return None;
        }
        if !self.script.is_outside(head) || !asked && self.script.crossed(head) {
            return None;
        }
        self.inner().taken.outside += 1;
        let record = &self.script.log[head];
        Some(Draft::new(record.at.clone(), record.body.clone()).of_command(record.key.clone()))
    }

    fn cancel_now(&self, cause: portcullis_runtime::Cause) {
        let cancel = self.inner().cancel.clone();
        if let Some(cancel) = cancel
            && cancel.cancel(cause)
        {
            self.inner().taken.outside += 1;
        }
    }

    /// A turn is being driven; this cancels it.
    pub(crate) fn turn(&self, cancel: Cancel) {
        self.inner().cancel = Some(cancel);
        // One may be due at once.
        let head = self.head();
        if let Some(cause) = self.script.cancel(head).filter(|_| self.life.contains(&head))
            && !self.script.answered_behind(head)
        {
            self.cancel_now(cause);
        }
    }

    /// Waits until so many records stand. Someone who waits has been asked: a cancel that came then comes now.
    async fn at(&self, place: usize) {
        let mut heads = self.head.subscribe();
        loop {
            let head = *heads.borrow_and_update();
            if head >= place {
                return;
            }
            if let Some(cause) = self.script.cancel(head).filter(|_| self.life.contains(&head)) {
                self.cancel_now(cause);
            }
            // The sender is ours: the channel cannot close.
            let _ = heads.changed().await;
        }
    }

    /// Is what follows said here by whoever follows? Others may have spoken in between.
    pub(crate) fn follows(&self, drafts: &[Draft]) -> bool {
        let Some(draft) = drafts.first() else { return true };
        let next = self.script.log.get(self.head()).filter(|_| self.head() < self.life.end);
        next.is_none_or(|next| next.at.call == draft.at().call)
    }

    fn drafts(&self, records: Range<usize>) -> Vec<Draft> {
        let draft = |record: &Arc<Record>| {
            Draft::new(record.at.clone(), record.body.clone()).of_command(record.key.clone())
        };
        self.script.log[records].iter().map(draft).collect()
    }

    /// Waits until it is the turn of this call, or of the turn's own loop; for ever if it says nothing more in this life.
    async fn turn_of(&self, call: Option<&CallPath>) {
        match self.script.next_of(self.rest(), call) {
            Some(place) => self.at(place).await,
            None => std::future::pending().await,
        }
    }

    /// Is it so that nobody could be asked?
    pub(crate) fn nobody_to_ask(&self, request: &RequestId) -> bool {
        self.script.nobody_to_ask(self.rest(), request)
    }

    /// When the question expired, or would have.
    pub(crate) fn expires(&self, request: &RequestId) -> Option<u64> {
        self.script.expires(self.rest(), request)
    }

    /// Has the person answer who did, or the time that ran out; true when somebody did, whatever else came.
    pub(crate) fn answer(self: &Arc<Self>, waiting: Arc<Waiting>) -> bool {
        let answer = self.script.answer(self.rest(), &waiting.ask.id);
        let Some((place, given)) = answer else { return false };
        let cue = self.clone();
        actix_rt::spawn(async move {
            cue.at(place).await;
            // One that is looked at again, since another one came first, is still the same.
            if waiting.answer.settle(given).is_ok() {
                cue.inner().taken.answers += 1;
            }
        });
        true
    }

    /// What the code of a call does next, once it is its turn; never, when it did nothing more.
    pub(crate) async fn act(&self, of: &At, called: &[u32]) -> Act {
        let Some((place, act)) = self.script.act(self.rest(), of, called) else {
            return std::future::pending().await;
        };
        self.at(place).await;
        if let Act::Returned(_) = act {
            self.inner().taken.bodies += 1;
        }
        act
    }

    /// The calls that a body had made when it made this one, and this one.
    pub(crate) fn calls(&self, of: &At, number: u32, called: &[u32]) -> Vec<u32> {
        let mut calls = self.script.called_before(self.rest(), of, number, called);
        calls.push(number);
        calls
    }

    /// A call that a body made: the tool and the arguments; `None` for one that was never announced.
    pub(crate) fn made_call(&self, of: &At, number: u32) -> Option<(Arc<str>, Arc<str>)> {
        self.script.made(self.script.turn(self.head()), of, number)
    }

    /// The model's answer to this request.
    pub(super) fn said(&self, request: &ModelRequest) -> (Said, Option<usize>) {
        let Some(asked) = self.script.asked(self.head()) else { return (Said::Nothing, None) };
        let record = &self.script.log[asked];
        let Body::ModelRequested(requested) = &record.body else { return (Said::Nothing, Some(asked)) };
        if let Some(digest) = &requested.digest {
            let made = request.messages.digest();
            if made == digest.digest() {
                self.inner().taken.requests += 1;
            } else {
                let mut body = requested.clone();
                body.digest = Some(request.messages.clone().into());
                let made = Draft::new(record.at.clone(), body).seal(record.seq, 0);
                self.diverge(asked, Some(made));
            }
        }
        self.inner().taken.model += 1;
        let within = self.script.turn(asked);
        (self.script.said(asked, within.start..within.end.min(self.life.end)), None)
    }

    pub(super) async fn reached(&self, place: usize) {
        self.at(place).await;
    }

    /// The model has said what it said when the turn was cancelled there.
    pub(super) async fn interrupt(&self, cancel: usize) {
        self.at(cancel).await;
        if let Some(cause) = self.script.cancel(cancel) {
            self.cancel_now(cause);
        }
    }
}

/// Has a point decided as it was.
pub(crate) async fn judge(
    cx: &SessionCx,
    cue: &Cue,
    at: &At,
    point: Point,
    subject: &Subject,
    cancel: &Cancel,
) -> Result<(), Stop> {
    for (place, records) in cue.script.decisions(cue.rest(), at, point, subject) {
        loop {
            cx.ledger.feed()?;
            if cue.head() >= place {
                break;
            }
            let before = cue.head();
            cue.at(before + 1).await;
        }
        cue.inner().taken.decisions += 1;
        let _enqueued = cx.commit(cue.drafts(records))?;
    }
    // What a call does next it waits for itself: others may have to go on before it.
    if at.call.is_some() && point != Point::Rewrite {
        return Ok(());
    }
    // What comes behind may have had to wait, for a handler that never answered.
    match select(pin!(cue.turn_of(at.call.as_ref())), pin!(cancel.cancelled())).await {
        Either::Left(_) => Ok(()),
        Either::Right(_) => Err(Stop::Cancelled),
    }
}

/// Has the guards decide as they did: nothing comes between them.
pub(crate) fn guards(cx: &SessionCx, cue: &Cue, at: &At, subject: &Subject) -> Result<(), Stop> {
    for (_, records) in cue.script.decisions(cue.rest(), at, Point::Guard, subject) {
        cue.inner().taken.decisions += 1;
        let _enqueued = cx.commit(cue.drafts(records))?;
    }
    Ok(())
}

/// Waits until a call says something.
pub(crate) async fn turn_of(cue: &Cue, call: &CallPath, cancel: &Cancel) -> Result<(), Stop> {
    match select(pin!(cue.turn_of(Some(call))), pin!(cancel.cancelled())).await {
        Either::Left(_) => Ok(()),
        Either::Right(_) => Err(Stop::Cancelled),
    }
}
