//! Applying a record: the rules of where it may stand, and what it changes.

use super::{Body as CallBody, Call, Invalid, LastStep, Queued, Request, State, Step, Turn};
use crate::{
    AssistantBlock, Body, CallPath, EndReason, Message, QueueKind, Record, Seq, StartSource, Subject,
};
use std::{collections::HashMap, sync::Arc};

type Checked = Result<(), &'static str>;

fn need(holds: bool, why: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(why) }
}

impl State {
    /// Folds a record in. On an error nothing has changed.
    pub fn apply(&mut self, record: &Record) -> Result<(), Invalid> {
        let invalid = |why| Invalid { seq: record.seq, kind: record.body.kind().into(), why };
        self.enclosed(record).and_then(|()| self.place(record)).map_err(invalid)?;
        self.change(record);
        self.head = record.seq.0 + 1;
        Ok(())
    }

    /// Folds a whole log.
    pub fn fold<'r>(records: impl IntoIterator<Item = &'r Arc<Record>>) -> Result<State, Invalid> {
        let mut state = State::new();
        for record in records {
            state.apply(record)?;
        }
        Ok(state)
    }

    /// C-LOG-1, 3: numbers without gaps; outside an open turn only what may stand there; the envelope names the open
    /// turn and step.
    fn enclosed(&self, record: &Record) -> Checked {
        need(record.seq.0 == self.head, "its number does not follow the log's last one")?;
        let first = matches!(record.body, Body::SessionCreated(_));
        need(first == self.created.is_none(), "`session/created` is the first record, and only the first")?;
        need(
            !self.closed || matches!(record.body, Body::SessionResumed(_) | Body::Own(_)),
            "the session is closed",
        )?;
        let anywhere = matches!(
            record.body,
            Body::SessionCreated(_)
                | Body::SessionResumed(_)
                | Body::SessionClosed(_)
                | Body::ConfigInForce(_)
                | Body::PromptQueued(_)
                | Body::Own(_)
        );
        if anywhere {
            return Ok(());
        }
        let Some(turn) = &self.turn else {
            return need(matches!(record.body, Body::TurnStart(_)), "no turn is open");
        };
        need(!matches!(record.body, Body::TurnStart(_)), "a turn is open already")?;
        need(record.at.turn == Some(turn.number), "it names another turn than the open one")?;
        let in_step = matches!(
            record.body,
            Body::StepEnd(_)
                | Body::ModelRequested(_)
                | Body::AssistantMessage(_)
                | Body::ToolCall(_)
                | Body::ToolRewrite(_)
                | Body::InputRequested(_)
                | Body::InputResolved(_)
                | Body::ToolDispatched(_)
                | Body::ToolReturned(_)
                | Body::ToolResult(_)
        );
        match &turn.step {
            None => need(!in_step, "no step is open"),
            Some(step) => need(
                record.at.step == Some(step.number) || !in_step,
                "it names another step than the open one",
            ),
        }
    }

    /// The rules of each type.
    fn place(&self, record: &Record) -> Checked {
        let turn = self.turn.as_deref();
        let step = turn.and_then(|t| t.step.as_ref());
        match &record.body {
            Body::SessionCreated(_)
            | Body::SessionResumed(_)
            | Body::ConfigInForce(_)
            | Body::PromptQueued(_)
            | Body::Own(_)
            | Body::HeaderChanged(_)
            | Body::SubagentStarted(_)
            | Body::SubagentEnded(_)
            | Body::CompactionStarted(_)
            | Body::CompactionEnded(_) => Ok(()),
            Body::SessionClosed(_) => need(turn.is_none(), "a turn is open"),
            Body::TurnStart(start) => {
                need(record.at.turn == Some(self.turns + 1), "turn numbers follow each other")?;
                need(
                    start.takes.iter().all(|seq| self.queue.contains_key(seq)),
                    "it takes what was never queued",
                )?;
                let opens =
                    start.takes.iter().any(|seq| self.queue.get(seq).is_some_and(|q| q.kind.opens_turn()));
                need(opens, "nothing that it takes opens a turn")
            }
            Body::UserMessage(m) => self.settles_prompt(m.from, false),
            Body::PromptBlocked(m) => self.settles_prompt(m.from, true),
            Body::ContextMessage(m) => {
                need(!m.content.is_empty(), "a message says something")?;
                if let Some(from) = m.from {
                    let next = turn.and_then(|t| t.takes.get(t.settled));
                    let fits = next.is_some_and(|(seq, q)| *seq == from && !q.kind.opens_turn());
                    need(fits, "it is not the next queued thing of the batch")?;
                }
                need(
                    step.is_none_or(Step::answered),
                    "context may not stand between a step's calls and its last result",
                )
            }
            Body::SteeringMessage(m) => {
                need(!m.content.is_empty(), "a message says something")?;
                need(
                    turn.is_some_and(|t| t.step.is_none() && t.steps > 0),
                    "steering stands between two steps",
                )?;
                need(
                    m.from.is_none_or(|seq| self.queue.contains_key(&seq)),
                    "it comes from nothing that was queued",
                )
            }
            Body::StepStart(_) => {
                let turn = turn.ok_or("no turn is open")?;
                need(turn.step.is_none(), "a step is open already")?;
                need(record.at.step == Some(turn.steps + 1), "step numbers follow each other")?;
                need(turn.settled == turn.takes.len(), "a prompt of the batch is not judged yet")?;
                need(turn.allowed, "no prompt of the batch passed")?;
                need(turn.cancelled.is_none(), "the turn is cancelled")
            }
            Body::StepEnd(_) => {
                let step = step.ok_or("no step is open")?;
                need(step.answered(), "a call of the step has no result")?;
                need(
                    !step.calls.values().any(|c| matches!(c.body, CallBody::Running { .. })),
                    "a body still runs",
                )
            }
            Body::ModelRequested(m) => {
                let step = step.ok_or("no step is open")?;
                need(step.request == Request::Owed { attempt: m.attempt }, "this request is not owed")?;
                need(self.header.is_some(), "no request header is in force")
            }
            Body::AssistantMessage(_) => {
                let step = step.ok_or("no step is open")?;
                need(matches!(step.request, Request::InFlight { .. }), "no request is under way")
            }
            Body::ToolRewrite(_) => self.call_at(record, |c| {
                need(c.sealed.is_none(), "the call is sealed already")?;
                need(c.rewrite.is_none(), "the call is rewritten already")
            }),
            Body::ToolCall(call) => match self.call_at(record, |c| {
                need(c.sealed.is_none(), "the call is sealed already")?;
                need(c.name == call.name && c.id == call.id, "it is not the call that the model made")
            }) {
                // A nested call is announced by its own record: its parent's body started it.
                Err(UNKNOWN_CALL) => self.nested_parent(record.at.call.as_ref()),
                other => other,
            },
            Body::DecisionRecorded(d) => self.decides(d, record),
            Body::InputRequested(_) => self.call_at(record, |c| {
                need(c.sealed.is_some() && !c.decided(), "the call is not at its gate")?;
                need(c.asked.is_none(), "a call asks once")
            }),
            Body::InputResolved(r) => self.call_at(record, |c| {
                let asked = c.asked.as_ref().ok_or("nothing was asked")?;
                need(asked.request == r.request, "it answers another question")?;
                need(c.answered.is_none(), "the question is settled already")
            }),
            Body::ToolDispatched(d) => self.call_at(record, |c| {
                need(c.sealed.is_some(), "the call is not sealed")?;
                need(c.asked.is_none() || c.answered.is_some(), "a person has not answered yet")?;
                need(!c.result, "the call has its result")?;
                match c.body {
                    CallBody::NotStarted => need(d.attempt == 1, "the first attempt is number 1"),
                    CallBody::Orphaned { attempt } => {
                        need(d.attempt == attempt + 1, "attempts follow each other")
                    }
                    CallBody::Running { .. } => Err("its body runs already"),
                    CallBody::Returned => Err("its body has returned"),
                }
            }),
            Body::ToolReturned(r) => self.call_at(record, |c| match c.body {
                CallBody::Running { attempt } | CallBody::Orphaned { attempt } => {
                    need(r.attempt == attempt, "it is another attempt's")
                }
                _ => Err("no body runs"),
            }),
            Body::ToolResult(_) => self
                .call_at(record, |c| {
                    need(c.sealed.is_some(), "the call is not sealed")?;
                    need(!c.result, "a call has one result")?;
                    need(
                        !matches!(c.body, CallBody::Running { .. } | CallBody::Orphaned { .. }),
                        "its body has not returned",
                    )
                })
                .and_then(|()| self.in_model_order(record.at.call.as_ref())),
            Body::TurnCancelled(_) => {
                need(turn.is_some_and(|t| t.cancelled.is_none()), "the first cause stays")
            }
            Body::TurnEnd(end) => {
                let turn = turn.ok_or("no turn is open")?;
                need(turn.step.is_none(), "a step is open")?;
                need(
                    end.dropped.iter().all(|seq| self.queue.contains_key(seq)),
                    "it drops what was never queued",
                )?;
                let judged = turn.settled == turn.takes.len();
                let early = matches!(
                    end.reason,
                    EndReason::Aborted { .. } | EndReason::Error { .. } | EndReason::Interrupted
                );
                need(judged || early, "a prompt of the batch is not judged yet")
            }
        }
    }

    fn settles_prompt(&self, from: Seq, blocked: bool) -> Checked {
        let turn = self.turn.as_deref().ok_or("no turn is open")?;
        match turn.takes.get(turn.settled) {
            Some((seq, q)) => {
                need(*seq == from && q.kind.opens_turn(), "it is not the next prompt of the batch")
            }
            // Steering of a user is judged, too, and may be blocked, between two steps.
            None => need(
                blocked
                    && turn.step.is_none()
                    && self.queue.get(&from).is_some_and(|q| q.kind == QueueKind::Steering),
                "it is not the next prompt of the batch",
            ),
        }
    }

    fn decides(&self, d: &crate::DecisionRecorded, record: &Record) -> Checked {
        need(self.decision_of(d.point, &d.subject, &d.id).is_none(), "this handler has decided already")?;
        match &d.subject {
            Subject::Call(path) => {
                need(record.at.call.as_ref() == Some(path), "the envelope names another call")?;
                self.call_at(record, |c| need(!c.result, "the call has its result"))
            }
            Subject::Prompt(seq) => need(self.queued(*seq).is_some(), "it is about nothing that was queued"),
            Subject::Session(seq) => {
                need(self.start.is_some_and(|(start, _)| start == *seq), "that start is closed already")
            }
            Subject::Step(n) => need(self.step_number() == *n, "it is about another step"),
        }
    }

    fn call_at(&self, record: &Record, check: impl FnOnce(&Call) -> Checked) -> Checked {
        let step = self.turn.as_deref().and_then(|t| t.step.as_ref()).ok_or("no step is open")?;
        let path = record.at.call.as_ref().ok_or("it names no call")?;
        check(step.calls.get(path).ok_or(UNKNOWN_CALL)?)
    }

    fn nested_parent(&self, path: Option<&CallPath>) -> Checked {
        let positions = path.ok_or("it names no call")?.positions();
        let step = self.turn.as_deref().and_then(|t| t.step.as_ref()).ok_or("no step is open")?;
        let (_, parent) = positions.split_last().ok_or(UNKNOWN_CALL)?;
        let parent = step.calls.iter().find(|(p, _)| p.positions() == parent).map(|(_, c)| c);
        need(parent.is_some_and(|c| matches!(c.body, CallBody::Running { .. })), UNKNOWN_CALL)
    }

    /// C-TURN-5: results stand in the model's order; nested ones as they come.
    fn in_model_order(&self, path: Option<&CallPath>) -> Checked {
        let step = self.turn.as_deref().and_then(|t| t.step.as_ref()).ok_or("no step is open")?;
        let path = path.ok_or("it names no call")?;
        let earlier = step.calls.iter().take_while(|(p, _)| *p < path);
        let owed = earlier.filter(|(p, _)| p.is_top() && path.is_top()).any(|(_, c)| !c.result);
        need(!owed, "an earlier call of the step has no result yet")
    }

    fn change(&mut self, record: &Record) {
        match &record.body {
            Body::SessionCreated(created) => {
                self.created = Some(Arc::new(created.clone()));
                self.start = Some((record.seq, StartSource::Startup));
            }
            Body::SessionResumed(_) => {
                self.closed = false;
                self.start = Some((record.seq, StartSource::Resume));
                self.orphan();
            }
            Body::SessionClosed(_) => self.closed = true,
            Body::ConfigInForce(config) => {
                self.config = Some(config.digest.clone());
                self.limits = config.limits;
            }
            Body::PromptQueued(q) => {
                let queued = Queued { kind: q.kind, content: q.content.clone(), source: q.source.clone() };
                self.queue.insert(record.seq, queued);
            }
            Body::TurnStart(start) => {
                let takes =
                    start.takes.iter().filter_map(|seq| Some((*seq, self.queue.remove(seq)?))).collect();
                self.turns += 1;
                self.turn = Some(Box::new(Turn::new(self.turns, takes)));
            }
            Body::HeaderChanged(header) => self.header = Some(header.0.clone()),
            Body::TurnEnd(end) => {
                for seq in &end.dropped {
                    self.queue.remove(seq);
                }
                self.turn = None;
            }
            Body::Own(_) | Body::SubagentStarted(_) | Body::SubagentEnded(_) | Body::CompactionStarted(_) => {
            }
            // The range becomes a summary when compaction lands with the seam that asks for it.
            Body::CompactionEnded(_) => {}
            _ => self.change_turn(record),
        }
    }

    fn change_turn(&mut self, record: &Record) {
        let Some(turn) = self.turn.as_deref_mut() else { return };
        let tail = &mut self.tail;
        match &record.body {
            Body::UserMessage(m) => {
                tail.push(Message::User { content: m.content.clone(), source: m.source.clone() });
                turn.settled += 1;
                turn.allowed = true;
                turn.prompt = Some(m.from);
                self.start = None;
            }
            Body::PromptBlocked(m) => {
                if self.queue.remove(&m.from).is_none() {
                    turn.settled += 1;
                }
                turn.veto = Some(m.reason.clone());
                self.start = None;
            }
            Body::ContextMessage(m) => {
                tail.push(Message::Context { content: m.content.clone(), source: m.source.clone() });
                match m.from {
                    Some(_) => turn.settled += 1,
                    // Context before the first prompt is settled is that of the session's start.
                    None if turn.settled == 0 => self.start = None,
                    None => {}
                }
            }
            Body::SteeringMessage(m) => {
                tail.push(Message::Steering { content: m.content.clone(), source: m.source.clone() });
                turn.steered = true;
                match m.from {
                    Some(seq) => {
                        self.queue.remove(&seq);
                        turn.prompt = Some(seq);
                    }
                    None => {
                        turn.forced += 1;
                        turn.forced_in_a_row += 1;
                    }
                }
            }
            Body::StepStart(_) => {
                turn.steps += 1;
                turn.steered = false;
                turn.last = None;
                turn.decisions.retain(|(_, subject), _| !matches!(subject, Subject::Call(_)));
                turn.step = Some(Step::new(turn.steps));
                self.start = None;
            }
            Body::StepEnd(_) => {
                if let Some(step) = turn.step.take() {
                    turn.last = Some(LastStep::of(&step));
                }
                self.sealed = self.sealed.with(tail);
                tail.clear();
            }
            Body::TurnCancelled(c) => turn.cancelled = Some(c.clone()),
            Body::DecisionRecorded(d) => {
                if let Some(reason) = &d.halt
                    && turn.halt.is_none()
                    && !matches!(d.subject, Subject::Session(_))
                {
                    turn.halt = Some((d.id.clone(), reason.clone()));
                }
                let key = (d.point, d.subject.clone());
                turn.decisions.entry(key).or_default().push(Arc::new(d.clone()));
            }
            _ => turn.change_step(record, tail),
        }
    }

    /// `session/resumed`: whatever was in flight when the process went will not come back.
    fn orphan(&mut self) {
        let Some(step) = self.turn.as_deref_mut().and_then(|t| t.step.as_mut()) else { return };
        if let Request::InFlight { attempt } = step.request {
            step.request = Request::Owed { attempt: attempt + 1 };
        }
        for call in step.calls.values_mut() {
            if let CallBody::Running { attempt } = call.body {
                call.body = CallBody::Orphaned { attempt };
            }
        }
    }
}

const UNKNOWN_CALL: &str = "no such call in this step";

impl Turn {
    fn new(number: u64, takes: Vec<(Seq, Queued)>) -> Turn {
        Turn {
            number,
            takes,
            settled: 0,
            allowed: false,
            veto: None,
            prompt: None,
            decisions: HashMap::new(),
            steps: 0,
            step: None,
            last: None,
            steered: false,
            forced_in_a_row: 0,
            forced: 0,
            cancelled: None,
            halt: None,
        }
    }

    fn change_step(&mut self, record: &Record, tail: &mut Vec<Message>) {
        let Some(step) = &mut self.step else { return };
        match &record.body {
            Body::ModelRequested(m) => step.request = Request::InFlight { attempt: m.attempt },
            Body::AssistantMessage(m) => {
                let message = Arc::new(m.clone());
                step.request = Request::Answered;
                for (position, (id, name, raw)) in message.calls().enumerate() {
                    let position = u32::try_from(position).unwrap_or(u32::MAX);
                    step.calls
                        .insert(CallPath::top(position), Call::new(id.clone(), name.clone(), raw.clone()));
                }
                // Calls that never run are not shown either: nothing would answer them.
                let cut = step.calls.is_empty();
                let blocks: Arc<[AssistantBlock]> = if cut {
                    m.blocks.iter().filter(|b| !matches!(b, AssistantBlock::Call { .. })).cloned().collect()
                } else {
                    self.forced_in_a_row = 0;
                    m.blocks.clone()
                };
                if !blocks.is_empty() {
                    step.message_at = Some(tail.len());
                    tail.push(Message::Assistant { blocks });
                }
                step.message = Some(message);
            }
            _ => {
                let Some(path) = &record.at.call else { return };
                if let (Body::ToolCall(call), false) = (&record.body, step.calls.contains_key(path)) {
                    let raw = match &call.arguments {
                        crate::Arguments::Sealed { text } => text.text().into(),
                        crate::Arguments::Refused { raw, .. } => raw.clone(),
                    };
                    step.calls.insert(path.clone(), Call::new(call.id.clone(), call.name.clone(), raw));
                }
                let message_at = step.message_at;
                let Some(call) = step.calls.get_mut(path) else { return };
                call.change(record, path, tail, message_at);
            }
        }
    }
}

impl LastStep {
    fn of(step: &Step) -> LastStep {
        LastStep {
            calls: !step.calls.is_empty(),
            finish: step.message.as_ref().map(|m| m.finish.clone()),
            text: step.message.as_ref().map_or_else(String::new, |m| m.text()).into(),
        }
    }
}

impl Step {
    fn new(number: u32) -> Step {
        Step {
            number,
            request: Request::Owed { attempt: 1 },
            message: None,
            message_at: None,
            calls: Default::default(),
        }
    }

    /// True when every call has its result.
    pub(super) fn answered(&self) -> bool {
        self.calls.values().all(|c| c.result)
    }
}

impl Call {
    fn new(id: Arc<str>, name: Arc<str>, raw: Arc<str>) -> Call {
        Call {
            id,
            name,
            raw,
            rewrite: None,
            sealed: None,
            asked: None,
            answered: None,
            body: CallBody::NotStarted,
            outcome: None,
            result: false,
        }
    }

    fn decided(&self) -> bool {
        self.result || self.body != CallBody::NotStarted
    }

    fn change(
        &mut self,
        record: &Record,
        path: &CallPath,
        tail: &mut Vec<Message>,
        message_at: Option<usize>,
    ) {
        match &record.body {
            Body::ToolRewrite(r) => {
                self.rewrite = Some(Arc::new(r.clone()));
                show_effective(tail, message_at, path, r.effective.text());
            }
            Body::ToolCall(c) => self.sealed = Some(Arc::new(c.clone())),
            Body::InputRequested(r) => self.asked = Some(Arc::new(r.clone())),
            Body::InputResolved(r) => self.answered = Some(Arc::new(r.clone())),
            Body::ToolDispatched(d) => self.body = CallBody::Running { attempt: d.attempt },
            Body::ToolReturned(r) => {
                self.body = CallBody::Returned;
                self.outcome = Some((r.outcome.clone(), r.ms));
            }
            Body::ToolResult(r) => {
                self.result = true;
                if path.is_top() {
                    tail.push(Message::Result {
                        id: self.id.clone(),
                        name: self.name.clone(),
                        content: r.content.clone(),
                        error: r.error,
                    });
                }
            }
            _ => {}
        }
    }
}

/// The model sees the arguments in force (C-PIPE-9, C-BRIDGE-2).
fn show_effective(tail: &mut [Message], message_at: Option<usize>, path: &CallPath, effective: &str) {
    let [position] = path.positions() else { return };
    let Some(Message::Assistant { blocks }) = message_at.and_then(|at| tail.get_mut(at)) else { return };
    let mut calls = 0;
    *blocks = blocks
        .iter()
        .cloned()
        .map(|block| match block {
            AssistantBlock::Call { id, name, arguments } => {
                let here = calls == *position;
                calls += 1;
                let arguments = if here { effective.into() } else { arguments };
                AssistantBlock::Call { id, name, arguments }
            }
            other => other,
        })
        .collect();
}
