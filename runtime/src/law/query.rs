//! What a driver asks about calls of the open step.

use super::{Body, Call, CallOwes, Request, State};
use crate::{
    Arguments, BatchCall, CallKey, CallPath, InputRequested, Message, Point, SessionId, Subject, ToolResult,
};
use std::sync::Arc;

impl State {
    fn find_call(&self, path: &CallPath) -> Option<&Call> {
        self.turn.as_deref()?.step.as_ref()?.calls.get(path)
    }

    /// The call that [`State::next`] would name, without asking what it owes: for who only wants to know which.
    pub fn call_under_way(&self) -> Option<&CallPath> {
        let turn = self
            .turn
            .as_deref()
            .filter(|t| t.cancelled.is_none() && t.owed.is_empty() && !t.recovery.given_up)?;
        turn.step.as_ref()?.open_call(false)
    }

    /// Which attempt at its gate a call is at, from 1.
    pub fn attempt(&self, path: &CallPath) -> u32 {
        self.find_call(path).map_or(1, |call| call.attempt)
    }

    /// What is decided about a call now: the call, at this attempt at its gate.
    pub fn subject_of(&self, path: &CallPath) -> Subject {
        Subject::of_call(path.clone(), self.attempt(path))
    }

    /// True for a call that can do nothing before a deferred one of its step is taken up again: that call itself, or one
    /// behind it that owes nothing but its result. Asked when nobody at its points is left undecided.
    pub fn is_put_off(&self, path: &CallPath) -> bool {
        self.deferral(path).is_some() || self.call(path, Some(Point::PostExecute)) == CallOwes::Held
    }

    /// The wait of a call that was deferred and not taken up again.
    pub fn deferral(&self, path: &CallPath) -> Option<&Arc<InputRequested>> {
        self.find_call(path)?.deferral()
    }

    /// The calls of the model in the open step that have no result yet, in order, with their tools' names.
    pub fn open_calls(&self) -> impl Iterator<Item = (&CallPath, &Arc<str>)> {
        let step = self.turn.as_deref().and_then(|t| t.step.as_ref());
        let open = step.into_iter().flat_map(|step| &step.calls);
        open.filter(|(path, call)| path.is_top() && !call.result).map(|(path, call)| (path, &call.name))
    }

    /// The attempt whose body runs, as far as the log says.
    pub fn running(&self, path: &CallPath) -> Option<u32> {
        match self.find_call(path)?.body {
            Body::Running { attempt } => Some(attempt),
            _ => None,
        }
    }

    /// True when something is under way that would not come back: a model's answer, or a body. A process that takes the
    /// session up then has to say so (`session/resumed`); without it, nothing is lost with the process.
    pub fn is_in_flight(&self) -> bool {
        let Some(step) = self.turn.as_deref().and_then(|t| t.step.as_ref()) else { return false };
        matches!(step.request, Request::InFlight { .. })
            || step.calls.values().any(|call| matches!(call.body, Body::Running { .. }))
    }

    /// True when the body of this call, which runs, may be run again: its tool is idempotent.
    pub fn may_run_again(&self, path: &CallPath) -> bool {
        let call = self.find_call(path).filter(|call| matches!(call.body, Body::Running { .. }));
        call.and_then(|call| call.sealed.as_ref()).is_some_and(|sealed| sealed.idempotent)
    }

    /// A call as it was made: its id, its tool's name and its arguments' text.
    pub fn call_made(&self, path: &CallPath) -> Option<(Arc<str>, Arc<str>, Arc<str>)> {
        let call = self.find_call(path)?;
        Some((call.id.clone(), call.name.clone(), call.raw.clone()))
    }

    /// The name that the model, or a body, called.
    pub fn call_name(&self, path: &CallPath) -> Option<Arc<str>> {
        Some(self.find_call(path)?.name.clone())
    }

    /// The result of a nested call, for the body that made it.
    pub fn call_result(&self, path: &CallPath) -> Option<Arc<ToolResult>> {
        self.find_call(path)?.given.clone()
    }

    /// May a call that a body makes stand at this place? Yes if nothing stands there yet, or this very call from before
    /// the process died: then its records are reused (C-DUR-1). A call that was never announced and is known by decisions
    /// alone keeps its place to itself: what those were about is not in the log.
    pub fn may_stand(&self, path: &CallPath, name: &str, raw: &str) -> bool {
        match self.find_call(path) {
            Some(call) => *call.name == *name && (*call.raw == *raw || call.wrote_nothing(raw)),
            None => !self.has_decided(Point::Rewrite, &Subject::Call(path.clone())),
        }
    }

    /// The calls that the model made in the open step, with their results; empty while one has none.
    pub fn batch(&self) -> Vec<BatchCall> {
        let Some(turn) = self.turn.as_deref() else { return Vec::new() };
        let Some(step) = turn.step.as_ref().filter(|step| step.answered()) else { return Vec::new() };
        let shown = self.tail.iter().skip(step.message_at.unwrap_or(self.tail.len()));
        let results = shown.filter_map(|message| match message {
            Message::Result { content, error, .. } => Some((content.clone(), *error)),
            _ => None,
        });
        // Results stand in the model's order, one a call (C-LOG-4).
        let calls = step.calls.iter().filter(|(path, _)| path.is_top()).zip(results);
        let each = calls.filter_map(|((path, call), (content, error))| {
            let key = CallKey { turn: turn.number, step: step.number, call: path.clone() };
            let arguments = match call.sealed.as_ref().map(|sealed| &sealed.arguments) {
                Some(Arguments::Sealed { text }) => Some(text.clone()),
                _ => None,
            };
            let ended = self.outcome(path, Some(Point::PostExecute))?.ended.clone();
            let made = (call.id.clone(), call.name.clone(), call.raw.clone());
            Some(BatchCall::new(key, made, arguments, ended, content, error))
        });
        each.collect()
    }

    /// Whether a call's body has started this subagent, and if so whether it has ended.
    pub fn child(&self, path: &CallPath, child: &SessionId) -> Option<bool> {
        self.find_call(path)?.child(child)
    }
}

impl Call {
    /// What it waits for outside.
    pub(super) fn waits(&self) -> Option<&Arc<InputRequested>> {
        self.asked.as_ref().filter(|_| self.answered.is_none())
    }

    pub(super) fn deferral(&self) -> Option<&Arc<InputRequested>> {
        self.waits().filter(|asked| asked.deferred && !self.result)
    }

    pub(super) fn child(&self, child: &SessionId) -> Option<bool> {
        self.children.iter().find(|(id, _)| id == child).map(|(_, over)| *over)
    }

    /// An empty text is `{}` (C-ID-2), and is known from the log as that.
    fn wrote_nothing(&self, raw: &str) -> bool {
        raw.trim().is_empty() && &*self.raw == "{}"
    }
}
