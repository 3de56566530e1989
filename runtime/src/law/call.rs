//! What a call owes next: one machine for live calls and for calls found half-done in a log.

use super::{Body as CallBody, Call, State, Turn};
use crate::{
    Arguments, At, Body, CallPath, CauseName, Decided, Draft, Ended, Gate, GuardVerdict, HandlerId,
    InputResolved, Outcome, Permission, Permitted, Point, PostExecute, PreExecute, Reason, RequestId,
    Resolution, Reviewed, Rewrite, Seam, Source, Subject, ToolCall, ToolResult, ToolReturned, Verdict,
};
use portcullis_identity::Cause;
use std::sync::Arc;

/// What a call owes next.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallOwes {
    /// Materialise, look up, check, rewrite; then `tool/call`.
    Seal,
    /// The handlers of a point that have not decided: the gate, the guards, the review.
    Judge(Point),
    /// `input/requested`.
    Ask {
        /// Who asks.
        by: Vec<HandlerId>,
        /// Why.
        reasons: Vec<Reason>,
    },
    /// `input/requested` of a call that is deferred.
    Defer {
        /// Who defers it.
        by: Vec<HandlerId>,
        /// Why.
        reasons: Vec<Reason>,
    },
    /// Somebody outside: a person's answer, or the host that takes the deferred call up again.
    Answer(RequestId),
    /// Nothing yet: its result stands behind that of an earlier call, which is deferred.
    Held,
    /// `tool/dispatched`, then the body, then `tool/returned`.
    Dispatch {
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// Nothing: its body runs and will come back.
    Await,
    /// These records, with no outside help.
    Commit(Vec<Draft>),
    /// Nothing: it has its result.
    Done,
}

impl State {
    /// What a call of the open step owes next. `passed` is the furthest point that the driver knows to have no undecided
    /// handler left.
    pub fn call(&self, path: &CallPath, passed: Option<Point>) -> CallOwes {
        let Some((turn, step)) = self.turn.as_deref().and_then(|t| Some((t, t.step.as_ref()?))) else {
            return CallOwes::Done;
        };
        let Some(call) = step.calls.get(path) else { return CallOwes::Done };
        if call.result {
            return CallOwes::Done;
        }
        if call.body == CallBody::Returned
            && let Some((left, open)) =
                step.left_behind(path, turn.cancelled.is_some()).and_then(|p| step.calls.get_key_value(p))
        {
            let drafts = self.cancel_call(turn, step.number, left, open);
            return drafts.map_or(CallOwes::Await, CallOwes::Commit);
        }
        if turn.cancelled.is_some() || step.is_left_behind(path, false) {
            let drafts = self.cancel_call(turn, step.number, path, call);
            return drafts.map_or(CallOwes::Await, CallOwes::Commit);
        }
        let at = At::call(turn.number, step.number, path.clone());
        let subject = Subject::of_call(path.clone(), call.attempt);
        match call.body {
            CallBody::Running { .. } => return CallOwes::Await,
            CallBody::Orphaned { attempt } => {
                return if call.sealed.as_ref().is_some_and(|c| c.idempotent) {
                    CallOwes::Dispatch { attempt: attempt + 1 }
                } else {
                    let outcome = Arc::new(Outcome::ended(Ended::OutcomeUnknown));
                    CallOwes::Commit(vec![Draft::new(at, ToolReturned { attempt, outcome, ms: 0 })])
                };
            }
            CallBody::NotStarted | CallBody::Returned => {}
        }
        let Some(sealed) = &call.sealed else { return CallOwes::Seal };
        if self.outcome_of(path, call, sealed, passed).is_some() {
            return if passed == Some(Point::PostExecute) {
                match step.is_behind_deferred(path) {
                    true => CallOwes::Held,
                    false => CallOwes::Commit(self.result(path, call, sealed, at)),
                }
            } else {
                CallOwes::Judge(Point::PostExecute)
            };
        }
        // Not decided yet: the gate, a person, the guards, in this order.
        let guarded = self.is_entered(Point::Guard, &subject);
        // Whoever is asked in a person's stead was asked behind the whole gate: nobody new stands in it any more.
        let gated = guarded || self.is_entered(Point::Permission, &subject);
        match (&call.asked, &call.answered) {
            (Some(asked), None) => return CallOwes::Answer(asked.request.clone()),
            (Some(_), Some(_)) => {}
            (None, _) if gated || passed >= Some(Point::PreExecute) => match self.gate(path) {
                Verdict::Deferred { by, reasons } => return CallOwes::Defer { by, reasons },
                Verdict::Ask { .. } if !guarded && passed < Some(Point::Permission) => {
                    return CallOwes::Judge(Point::Permission);
                }
                Verdict::Ask { by, reasons } if self.permission(path) == Permitted::Open => {
                    return CallOwes::Ask { by, reasons };
                }
                _ => {}
            },
            (None, _) => return CallOwes::Judge(Point::PreExecute),
        }
        if passed >= Some(Point::Guard) {
            CallOwes::Dispatch { attempt: 1 }
        } else {
            CallOwes::Judge(Point::Guard)
        }
    }

    /// What the gate's decisions about a call come to, carried ones included.
    pub fn gate(&self, path: &CallPath) -> Verdict {
        if self.turn.as_deref().is_none_or(|t| t.decisions.0.is_empty()) {
            return Verdict::Open;
        }
        let subject = self.subject_of(path);
        let mut decided: Vec<Decided<Gate>> = Rewrite::fold(&self.decided::<Rewrite>(&subject)).carried;
        decided.extend(self.decided::<PreExecute>(&subject));
        PreExecute::fold(&decided)
    }

    /// What those come to that answered in a person's stead.
    pub fn permission(&self, path: &CallPath) -> Permitted {
        Permission::fold(&self.decided::<Permission>(&self.subject_of(path)))
    }

    /// How a call of the open step ended, as far as that is decided.
    pub fn outcome(&self, path: &CallPath, passed: Option<Point>) -> Option<Arc<Outcome>> {
        let call = self.turn.as_deref()?.step.as_ref()?.calls.get(path)?;
        self.outcome_of(path, call, call.sealed.as_ref()?, passed)
    }

    fn outcome_of(
        &self,
        path: &CallPath,
        call: &Call,
        sealed: &ToolCall,
        passed: Option<Point>,
    ) -> Option<Arc<Outcome>> {
        if let Some((outcome, _)) = &call.outcome {
            return Some(outcome.clone());
        }
        let ended = |ended| Some(Arc::new(Outcome::ended(ended)));
        if let Arguments::Refused { refused, .. } = &sealed.arguments {
            return ended(refused.clone());
        }
        let subject = Subject::of_call(path.clone(), call.attempt);
        let reviewed = self.has_decided(Point::PostExecute, &subject);
        let guarded = self.has_decided(Point::Guard, &subject);
        let permitted = self.has_decided(Point::Permission, &subject);
        let gated =
            passed >= Some(Point::PreExecute) || reviewed || guarded || permitted || call.asked.is_some();
        if gated && let Verdict::Closed { by, reason, failure } = self.gate(path) {
            return ended(denial(Point::PreExecute, by, reason, failure));
        }
        if permitted
            && (passed >= Some(Point::Permission) || reviewed)
            && let Permitted::Denied { by, reason, failure } = self.permission(path)
        {
            return ended(denial(Point::Permission, by, reason, failure));
        }
        if let Some(answered) = &call.answered {
            let asked = call.asked.as_ref().and_then(|a| a.reasons.first().cloned());
            let deferred = call.asked.as_ref().is_some_and(|asked| asked.deferred);
            let refused = match answered.resolution {
                Resolution::Expired if deferred => Some(Ended::DeferralExpired),
                Resolution::Cancelled if deferred => Some(self.never_started()),
                Resolution::Allowed | Resolution::Resumed => None,
                Resolution::Refused => Some(Ended::ApprovalRefused { reason: answered.text.clone() }),
                Resolution::Cancelled => Some(Ended::ApprovalCancelled),
                Resolution::Unavailable => Some(Ended::ApprovalUnavailable { reason: asked }),
                Resolution::Expired => Some(Ended::ApprovalExpired),
            };
            if let Some(refused) = refused {
                return ended(refused);
            }
        }
        self.recorded(Point::Guard, &subject).find_map(|d| match &d.decision {
            crate::Decision::Guard(GuardVerdict::Deny { reason }) => {
                let denied = match &d.failure {
                    Some(failure) => {
                        denial(Point::Guard, d.id.clone(), reason.clone(), Some(failure.clone()))
                    }
                    None => Ended::GuardDeny { by: d.id.clone(), reason: reason.clone() },
                };
                ended(denied)
            }
            _ => None,
        })
    }

    /// How a deferred call ends that nobody takes up again.
    fn never_started(&self) -> Ended {
        let cancelled = self.cancelled().map(|cancelled| cancelled.cause);
        Ended::CancelledBeforeDispatch { cause: cancelled.unwrap_or(CauseName(Cause::Shutdown)) }
    }

    fn result(&self, path: &CallPath, call: &Call, sealed: &ToolCall, at: At) -> Vec<Draft> {
        let outcome = self.outcome_of(path, call, sealed, Some(Point::PostExecute));
        outcome.map_or_else(Vec::new, |outcome| vec![self.result_of(path, &outcome, at)])
    }

    /// A call's result, with what its reviews come to. A recorded review stands, however the call is closed.
    fn result_of(&self, path: &CallPath, outcome: &Outcome, at: At) -> Draft {
        let (content, error) = outcome.for_model();
        let (content, error) = match PostExecute::fold(&self.decided::<PostExecute>(&self.subject_of(path))) {
            Reviewed::Stands => (content, error),
            Reviewed::Replaced(content) => (content, error),
            Reviewed::Blocked(feedback) => (feedback.to_shared().into(), true),
        };
        Draft::new(at, ToolResult { outcome: outcome.ended.clone(), content, error })
    }

    /// The records that answer a call of a cancelled turn, or one that its parent's body left behind; `None` while its body runs: whoever runs it brings it back.
    pub(super) fn cancel_call(
        &self,
        turn: &Turn,
        step: u32,
        path: &CallPath,
        call: &Call,
    ) -> Option<Vec<Draft>> {
        let cause = turn.cancelled.as_ref().map_or(CauseName(Cause::Parent), |c| c.cause);
        match call.body {
            CallBody::Running { .. } => None,
            CallBody::Orphaned { attempt } => {
                let outcome = Arc::new(Outcome::ended(Ended::OutcomeUnknown));
                let at = At::call(turn.number, step, path.clone());
                Some(vec![Draft::new(at, ToolReturned { attempt, outcome, ms: 0 })])
            }
            CallBody::NotStarted | CallBody::Returned => {
                let before = Ended::CancelledBeforeDispatch { cause };
                Some(self.answer(turn, step, path, call, before))
            }
        }
    }

    /// The records that answer a call of a turn that failed.
    pub(super) fn give_up_call(&self, turn: &Turn, step: u32, path: &CallPath, call: &Call) -> Vec<Draft> {
        let at = At::call(turn.number, step, path.clone());
        let mut drafts = Vec::new();
        if let CallBody::Running { attempt } | CallBody::Orphaned { attempt } = call.body {
            let outcome = Arc::new(Outcome::ended(Ended::OutcomeUnknown));
            drafts.push(Draft::new(at.clone(), ToolReturned { attempt, outcome: outcome.clone(), ms: 0 }));
            drafts.push(self.result_of(path, &outcome, at));
            return drafts;
        }
        let before = Ended::CancelledBeforeDispatch { cause: CauseName(Cause::Shutdown) };
        self.answer(turn, step, path, call, before)
    }

    /// Answers a call whose body does not run: what it returned or why it was refused stands, else `otherwise`.
    fn answer(&self, turn: &Turn, step: u32, path: &CallPath, call: &Call, otherwise: Ended) -> Vec<Draft> {
        let at = At::call(turn.number, step, path.clone());
        let mut drafts = Vec::new();
        let mut outcome = Outcome::ended(otherwise.clone());
        match &call.sealed {
            None => {
                let arguments = Arguments::Refused { raw: call.raw.clone(), refused: otherwise };
                let sealed = ToolCall {
                    name: call.name.clone(),
                    id: call.id.clone(),
                    arguments,
                    idempotent: false,
                    concurrency_safe: false,
                };
                drafts.push(Draft::new(at.clone(), sealed));
            }
            Some(sealed) => {
                if let (Some(asked), None) = (&call.asked, &call.answered) {
                    let (request, deferred) = (asked.request.clone(), asked.deferred);
                    let resolved = InputResolved {
                        request,
                        resolution: Resolution::Cancelled,
                        text: None,
                        by: Source::Runtime,
                    };
                    drafts.push(Draft::new(at.clone(), resolved));
                    outcome = Outcome::ended(match deferred {
                        true => self.never_started(),
                        false => Ended::ApprovalCancelled,
                    });
                } else if let Some(decided) = self.outcome_of(path, call, sealed, Some(Point::Guard)) {
                    outcome = Outcome::clone(&decided);
                }
            }
        }
        drafts.push(self.result_of(path, &outcome, at));
        drafts
    }
}

fn denial(point: Point, by: HandlerId, reason: Reason, failure: Option<crate::Failure>) -> Ended {
    match failure {
        Some(failure) => Ended::HandlerFailure { by, point: Some(point), failure },
        None => Ended::HookDeny { by, reason },
    }
}

impl CallOwes {
    pub(super) fn is_discharged_by(&self, path: &CallPath, body: &Body) -> bool {
        let decides = |points: &[Point], body: &Body| {
            let about = |d: crate::Decisions<'_>| points.contains(&d.point) && d.subject.call() == Some(path);
            body.decisions().is_some_and(about)
        };
        match self {
            CallOwes::Seal => {
                matches!(body, Body::ToolRewrite(_) | Body::ToolCall(_)) || decides(&[Point::Rewrite], body)
            }
            // A point may have no handler at all: what closes it, and the points behind it, may then come at once.
            CallOwes::Judge(Point::PreExecute) => {
                matches!(body, Body::InputRequested(_) | Body::ToolDispatched(_) | Body::ToolResult(_))
                    || decides(
                        &[Point::PreExecute, Point::Permission, Point::Guard, Point::PostExecute],
                        body,
                    )
            }
            CallOwes::Judge(Point::Permission) => {
                matches!(body, Body::InputRequested(_) | Body::ToolDispatched(_) | Body::ToolResult(_))
                    || decides(&[Point::Permission, Point::Guard, Point::PostExecute], body)
            }
            CallOwes::Judge(Point::Guard) => {
                matches!(body, Body::ToolDispatched(_) | Body::ToolResult(_))
                    || decides(&[Point::Guard, Point::PostExecute], body)
            }
            CallOwes::Judge(Point::PostExecute) => {
                // One guard's denial decides; the others may still be heard.
                matches!(body, Body::ToolResult(_)) || decides(&[Point::Guard, Point::PostExecute], body)
            }
            CallOwes::Judge(_) => false,
            CallOwes::Ask { .. } => matches!(body, Body::InputRequested(asked) if !asked.deferred),
            CallOwes::Defer { .. } => matches!(body, Body::InputRequested(asked) if asked.deferred),
            CallOwes::Answer(id) => matches!(body, Body::InputResolved(r) if r.request == *id),
            CallOwes::Dispatch { .. } => matches!(body, Body::ToolDispatched(_)),
            // Its body comes back, or starts a call of its own, whose rewriters come before the call is announced.
            CallOwes::Await => match body {
                Body::ToolReturned(_) | Body::ToolCall(_) | Body::ToolRewrite(_) => true,
                // A wrapper may run it again in full (C-PIPE-5).
                Body::ToolDispatched(d) => d.attempt > 1,
                body => body.decisions().is_some_and(|d| d.point == Point::Rewrite),
            },
            CallOwes::Commit(drafts) => drafts.first().is_some_and(|d| d.body() == body),
            CallOwes::Held | CallOwes::Done => false,
        }
    }
}
