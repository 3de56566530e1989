//! Applying a record: the rules of where it may stand. What it changes is in `change`.

use super::{Body as CallBody, Call, Caused, Invalid, Request, State, Step, Turn, Whereabouts};
use crate::{
    Arguments, At, Body, CallPath, Draft, EndReason, Ended, Finish, InputRequested, Permitted, Point, Record,
    Resolution, Seam, Seq, Subject, TurnContinuation, Verdict,
};
use std::sync::Arc;

pub(super) type Checked = Result<(), &'static str>;

pub(super) fn need(holds: bool, why: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(why) }
}

impl State {
    /// Folds a record in. On an error nothing has changed.
    pub fn apply(&mut self, record: &Arc<Record>) -> Result<(), Invalid> {
        let invalid = |why| Invalid { seq: record.seq, kind: record.body.kind().into(), why };
        self.enclosed(record).and_then(|()| self.place(record)).map_err(invalid)?;
        self.change(record);
        self.head = record.seq.0 + 1;
        self.fork_begins();
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
        if let Some(command) = &record.key {
            need(!self.commands.contains_key(command), "this command has had its outcome")?;
            need(self.caused_by(record).is_some(), "no command has such an outcome")?;
        }
        let anywhere = matches!(
            record.body,
            Body::SessionCreated(_)
                | Body::SessionCommand(_)
                | Body::SessionLeft(_)
                | Body::SessionWithdrawn(_)
                | Body::SessionResumed(_)
                | Body::SessionClosed(_)
                | Body::ConfigInForce(_)
                | Body::PromptQueued(_)
                | Body::Own(_)
        );
        if anywhere {
            let open = self.open_turn();
            return need(
                matches!(record.body, Body::Own(_)) || record.at.turn.is_none_or(|turn| Some(turn) == open),
                "it names another turn than the open one",
            );
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
        let named = record.at.step;
        match &turn.step {
            None => {
                need(!in_step, "no step is open")?;
                let fits = named.is_none_or(|n| n == turn.steps) || matches!(record.body, Body::StepStart(_));
                need(fits, "it names another step than the last one")?;
            }
            Some(step) => {
                let fits = named.map_or(!in_step, |n| n == step.number);
                need(fits, "it names another step than the open one")?;
            }
        }
        let may_name_a_call = matches!(
            record.body,
            Body::ToolCall(_)
                | Body::ToolRewrite(_)
                | Body::DecisionRecorded(_)
                | Body::DecisionsRecorded(_)
                | Body::DecisionBegun(_)
                | Body::InputRequested(_)
                | Body::InputResolved(_)
                | Body::ToolDispatched(_)
                | Body::ToolReturned(_)
                | Body::ToolResult(_)
                | Body::ContextMessage(_)
                | Body::SubagentStarted(_)
                | Body::SubagentEnded(_)
        );
        need(record.at.call.is_none() || may_name_a_call, "it is about no call")?;
        let of_compaction = match &record.body {
            Body::CompactionEnded(_) | Body::TurnCancelled(_) => true,
            body => body.decisions().is_some_and(|d| d.point == Point::Compaction),
        };
        need(turn.compaction.is_none() || of_compaction, "a compaction is under way")?;
        // C-TURN-2: context stands right behind the message that it came with.
        need(
            turn.owed.is_empty() || matches!(record.body, Body::ContextMessage(_) | Body::TurnCancelled(_)),
            "context that a message came with is not there yet",
        )
    }

    /// What the record is for the command that caused it.
    pub(super) fn caused_by(&self, record: &Record) -> Option<Caused> {
        match &record.body {
            Body::PromptQueued(_) => Some(Caused::Queued(record.seq)),
            Body::InputResolved(resolved) => Some(Caused::Answered(resolved.request.clone())),
            Body::TurnCancelled(_) => self.open_turn().map(Caused::Cancelled),
            Body::SessionWithdrawn(withdrawn) => Some(Caused::Withdrew(withdrawn.prompt)),
            Body::SessionCommand(command) => {
                Some(command.cancelled.map_or(Caused::Nothing, Caused::Cancelled))
            }
            _ => None,
        }
    }

    /// The rules of each type.
    fn place(&self, record: &Record) -> Checked {
        let turn = self.turn.as_deref();
        let step = turn.and_then(|t| t.step.as_ref());
        match &record.body {
            Body::SessionCreated(_) | Body::SessionResumed(_) | Body::ConfigInForce(_) => Ok(()),
            Body::SessionLeft(_) => need(turn.is_some(), "no turn is open"),
            Body::SessionCommand(_) => need(record.key.is_some(), "it names no command"),
            Body::SessionWithdrawn(w) => {
                need(self.whereabouts(w.prompt) == Whereabouts::Waits, "it is not waiting for a turn")
            }
            Body::CompactionStarted(started) => {
                let turn = turn.ok_or("no turn is open")?;
                need(turn.compaction.is_none(), "a compaction is under way already")?;
                self.step_may_open(turn)?;
                let joins = turn.steps > 0 && self.steering().is_some() || self.injected(turn).is_some();
                need(!joins, "what joins the next request is not there yet")?;
                let due = self.compaction_due(turn);
                need(due.as_ref() == Some(started), "no such compaction is due")
            }
            Body::CompactionEnded(ended) => {
                let turn = turn.ok_or("no turn is open")?;
                let open = turn.compaction.as_ref().ok_or("no compaction is under way")?;
                need((open.from, open.to) == (ended.from, ended.to), "it is about another range")?;
                let Some(summary) = &ended.summary else {
                    return need(ended.skipped.is_some(), "there is neither a summary nor a reason");
                };
                need(ended.skipped.is_none(), "there is a summary, so nothing was skipped")?;
                need(!summary.is_empty(), "a message says something")?;
                need(turn.cancelled.is_none(), "the turn is cancelled")?;
                let subject = Subject::Compaction(open.at);
                need(self.close(Point::Compaction, &subject).is_empty(), "a handler left it as it is")
            }
            // C-SUB-1, 3: a child belongs to a call whose body runs; it starts once and ends once.
            Body::SubagentStarted(started) => self.call_at(record, |c| {
                need(matches!(c.body, CallBody::Running { .. }), "no body runs that could have a child")?;
                need(c.child(&started.child).is_none(), "this child has started already")
            }),
            Body::SubagentEnded(ended) => self.call_at(record, |c| {
                need(matches!(c.body, CallBody::Running { .. }), "no body runs that could have a child")?;
                need(c.child(&ended.child) == Some(false), "no such child is at work")
            }),
            Body::Own(own) => need(
                Body::may_be_owned(&own.kind),
                "an owner's record has a type `owner/name` that is none of the runtime's",
            ),
            Body::PromptQueued(q) => need(!q.content.is_empty(), "a message says something"),
            Body::HeaderChanged(_) => need(
                step.is_none_or(|s| matches!(s.request, Request::Owed { .. })),
                "the step's request is out already",
            ),
            Body::SessionClosed(_) => need(turn.is_none(), "a turn is open"),
            Body::TurnStart(start) => {
                need(record.at == At::turn(self.turns + 1), "turn numbers follow each other")?;
                need(
                    start.takes.iter().all(|seq| self.queue.contains_key(seq)),
                    "it takes what was never queued",
                )?;
                let opens =
                    start.takes.iter().any(|seq| self.queue.get(seq).is_some_and(|q| q.kind.opens_turn()));
                need(opens, "nothing that it takes opens a turn")?;
                let ordered = start.takes.windows(2).all(|pair| pair[0] < pair[1]);
                need(ordered, "what it takes stands in the order in which it was queued, each once")
            }
            Body::UserMessage(m) => self.settles_prompt(m.from, false),
            Body::PromptBlocked(m) => self.settles_prompt(m.from, true),
            Body::ContextMessage(m) => {
                need(!m.content.is_empty(), "a message says something")?;
                need(
                    step.is_none_or(Step::answered),
                    "context may not stand between a step's calls and its last result",
                )?;
                if let Some(from) = m.from {
                    need(record.at.call.is_none(), "it is about no call")?;
                    let turn = turn.ok_or("no turn is open")?;
                    let next = turn.takes.get(turn.settled);
                    let fits = match next {
                        Some((seq, q)) => *seq == from && !q.kind.opens_turn(),
                        // C-TURN-4: injected while the turn is open, it joins the next request.
                        None => {
                            turn.step.is_none()
                                && (turn.steps == 0 && turn.allowed
                                    || turn.owes_step() && self.steering().is_none())
                                && turn.goes_on()
                                && turn.halt.is_none()
                                && self.stopped_by(turn).is_none()
                                && self.queue.iter().find(|(_, q)| !q.kind.opens_turn()).map(|(s, _)| *s)
                                    == Some(from)
                        }
                    };
                    need(fits && turn.owed.is_empty(), "it is not the next queued thing of the batch")?;
                    self.start_stands(turn)
                } else {
                    let earned = self.earned_context();
                    let fits = earned.is_some_and(|d| *d.at() == record.at && *d.body() == record.body);
                    need(fits, "no decision came with this context, or not here")
                }
            }
            Body::SteeringMessage(m) => {
                need(!m.content.is_empty(), "a message says something")?;
                let turn = turn.ok_or("no turn is open")?;
                need(turn.step.is_none() && turn.steps > 0, "steering stands between two steps")?;
                need(turn.goes_on(), "the turn is over")?;
                match m.from {
                    Some(seq) => need(
                        self.steering().is_some_and(|(first, _)| *first == seq)
                            && turn.halt.as_ref().is_none_or(|h| h.subject == Subject::Prompt(seq)),
                        "it is not the next that was queued as steering",
                    ),
                    None => {
                        need(turn.halt.is_none(), "the turn is over")?;
                        need(!turn.owes_step(), "the next step is owed anyway")?;
                        let asked = self.decided::<TurnContinuation>(&Subject::Step(turn.steps));
                        need(!TurnContinuation::fold(&asked).is_empty(), "nobody asked for another step")?;
                        need(
                            turn.forced_in_a_row < self.limits.continuations_in_a_row
                                && turn.forced < self.limits.continuations_per_turn,
                            "the turn was forced on too often",
                        )
                    }
                }
            }
            Body::StepStart(_) => {
                let turn = turn.ok_or("no turn is open")?;
                self.step_may_open(turn)?;
                need(record.at.step == Some(turn.steps + 1), "step numbers follow each other")?;
                need(self.compaction_due(turn).is_none(), "the conversation is to be summarised first")
            }
            Body::StepEnd(_) => {
                let (turn, step) = turn.zip(step).ok_or("no step is open")?;
                need(step.answered(), "a call of the step has no result")?;
                need(
                    !step.calls.values().any(|c| matches!(c.body, CallBody::Running { .. })),
                    "a body still runs",
                )?;
                need(self.end_step(turn).len() == 1, "context that the step's calls earned is not there yet")
            }
            Body::ModelRequested(m) => {
                let step = step.ok_or("no step is open")?;
                need(turn.is_some_and(|t| t.cancelled.is_none()), "the turn is cancelled")?;
                need(step.request == Request::Owed { attempt: m.attempt }, "this request is not owed")?;
                need(self.header.is_some(), "no request header is in force")
            }
            Body::AssistantMessage(m) => {
                let step = step.ok_or("no step is open")?;
                let cancelled = turn.is_some_and(|t| t.cancelled.is_some());
                need(m.finish != Finish::Interrupted || cancelled, "nobody interrupted the model")?;
                need(matches!(step.request, Request::InFlight { .. }), "no request is under way")
            }
            Body::ToolRewrite(r) => match self.call_at(record, |c| {
                need(c.sealed.is_none(), "the call is sealed already")?;
                need(c.rewrite.is_none(), "the call is rewritten already")?;
                need(c.wrote(r.requested.text()), "the model asked for other arguments")
            }) {
                Err(UNKNOWN_CALL) => self.nested_parent(record.at.call.as_ref()),
                other => other.and_then(|()| self.sealed_before(record.at.call.as_ref())),
            },
            Body::ToolCall(call) => match self.call_at(record, |c| {
                need(c.sealed.is_none(), "the call is sealed already")?;
                let nested = record.at.call.as_ref().is_some_and(|path| !path.is_top());
                need(
                    nested || c.name == call.name && c.id == call.id,
                    "it is not the call that the model made",
                )?;
                match (&c.rewrite, &call.arguments) {
                    (Some(rewrite), Arguments::Sealed { text }) => {
                        need(rewrite.effective == *text, "its arguments are not those of its rewrite")
                    }
                    (None, Arguments::Sealed { text }) => need(
                        c.wrote(text.text()),
                        "its arguments are not the model's, and no rewrite says why",
                    ),
                    _ => Ok(()),
                }
            }) {
                // A nested call is announced by its own record: its parent's body started it.
                Err(UNKNOWN_CALL) => self.nested_parent(record.at.call.as_ref()),
                other => other.and_then(|()| self.sealed_before(record.at.call.as_ref())),
            },
            Body::DecisionRecorded(_) => self.decides(record),
            Body::DecisionBegun(begun) => {
                let (point, subject) = (begun.point, &begun.subject);
                need(!self.has_begun(point, subject, &begun.id), "this handler has begun already")?;
                need(
                    self.decision_of(point, subject, &begun.id).is_none(),
                    "this handler has decided already",
                )?;
                self.decides(record)
            }
            Body::DecisionsRecorded(several) => {
                need(several.decisions.len() > 1, "there are no several decisions in it")?;
                self.decides(record)
            }
            Body::InputRequested(asked) => {
                let path = record.at.call.as_ref().ok_or("it names no call")?;
                need(turn.is_some_and(|t| t.cancelled.is_none()), "the turn is cancelled")?;
                self.call_at(record, |c| {
                    need(c.accepted() && !c.decided(), "the call is not at its gate")?;
                    need(c.asked.is_none(), "a call asks once")?;
                    // C-ASK-1: an answer is bound to what would run.
                    let bound = match c.sealed.as_ref().map(|sealed| &sealed.arguments) {
                        Some(Arguments::Sealed { text }) => asked.digest == InputRequested::digest_of(text),
                        _ => false,
                    };
                    need(bound, "its digest is of other arguments than the call's")
                })?;
                need(!self.has_decided(Point::Guard, &self.subject_of(path)), "the gate is passed")?;
                if asked.deferred {
                    return need(matches!(self.gate(path), Verdict::Deferred { .. }), "nobody defers it");
                }
                need(matches!(self.gate(path), Verdict::Ask { .. }), "nobody asks")?;
                need(self.permission(path) == Permitted::Open, "somebody has answered in a person's stead")
            }
            Body::InputResolved(r) => self.call_at(record, |c| {
                let asked = c.asked.as_ref().ok_or("nothing was asked")?;
                need(asked.request == r.request, "it answers another question")?;
                need(c.answered.is_none() && !c.result, "the question is settled already")?;
                match r.resolution {
                    Resolution::Cancelled | Resolution::Expired => Ok(()),
                    Resolution::Resumed => need(asked.deferred, "nobody has deferred it"),
                    _ => need(!asked.deferred, "the call is deferred, so nobody was asked"),
                }?;
                let cancelled = turn.is_some_and(|t| t.cancelled.is_some());
                need(r.resolution != Resolution::Resumed || !cancelled, "the turn is cancelled")
            }),
            Body::ToolDispatched(d) => {
                let path = record.at.call.as_ref().ok_or("it names no call")?;
                need(turn.is_some_and(|t| t.cancelled.is_none()), "the turn is cancelled")?;
                self.call_at(record, |c| {
                    need(c.accepted(), "the call is not sealed, or its arguments were refused")?;
                    need(!c.result, "the call has its result")?;
                    match c.body {
                        CallBody::NotStarted => need(d.attempt == 1, "the first attempt is number 1"),
                        CallBody::Orphaned { attempt } => {
                            let again = c.sealed.as_ref().is_some_and(|sealed| sealed.idempotent);
                            need(again, "a body that is not idempotent runs once")?;
                            need(d.attempt == attempt + 1, "attempts follow each other")
                        }
                        // C-PIPE-5: a wrapper runs the rest again.
                        CallBody::Running { attempt } => {
                            need(d.attempt == attempt + 1, "its body runs already")
                        }
                        CallBody::Returned => Err("its body has returned"),
                    }?;
                    need(c.asked.is_none() || c.answered.is_some(), "a person has not answered yet")?;
                    let gate = self.gate(path);
                    need(!matches!(gate, Verdict::Deferred { .. }), "the call is deferred")?;
                    let asks = matches!(gate, Verdict::Ask { .. });
                    let agreed = || matches!(self.permission(path), Permitted::Allowed(_));
                    need(!asks || c.answered.is_some() || agreed(), "a person must agree first")
                })?;
                need(self.outcome(path, Some(Point::Guard)).is_none(), "the call is denied")?;
                self.may_overtake(path)
            }
            Body::ToolReturned(r) => self.call_at(record, |c| match c.body {
                CallBody::Running { attempt } | CallBody::Orphaned { attempt } => {
                    need(r.attempt == attempt, "it is another attempt's")
                }
                _ => Err("no body runs"),
            }),
            Body::ToolResult(r) => {
                let path = record.at.call.as_ref().ok_or("it names no call")?;
                self.call_at(record, |c| {
                    need(c.sealed.is_some(), "the call is not sealed")?;
                    need(!c.result, "a call has one result")?;
                    need(
                        !matches!(c.body, CallBody::Running { .. } | CallBody::Orphaned { .. }),
                        "its body has not returned",
                    )?;
                    need(c.asked.is_none() || c.answered.is_some(), "its question is not settled")
                })?;
                match self.outcome(path, Some(Point::PostExecute)) {
                    Some(outcome) => need(outcome.ended == r.outcome, "the call ended otherwise")?,
                    None => need(
                        matches!(r.outcome, Ended::CancelledBeforeDispatch { .. }),
                        "the call has not ended",
                    )?,
                }
                self.in_model_order(path)
            }
            Body::TurnCancelled(_) => {
                need(turn.is_some_and(|t| t.cancelled.is_none()), "the first cause stays")
            }
            Body::TurnEnd(end) => {
                let turn = turn.ok_or("no turn is open")?;
                need(turn.step.is_none(), "a step is open")?;
                need(turn.compaction.is_none(), "a compaction is under way")?;
                need(
                    end.dropped.iter().all(|seq| self.queue.contains_key(seq)),
                    "it drops what was never queued",
                )?;
                let judged = turn.settled == turn.takes.len();
                let finish = turn.last.as_ref().and_then(|last| last.finish.as_ref());
                let stops = turn.goes_on()
                    && turn.halt.is_none()
                    && turn.steps > 0
                    && !turn.owes_step()
                    && self.steering().is_none();
                let fits = match &end.reason {
                    EndReason::Completed => stops || self.stopped_by(turn).is_some(),
                    EndReason::ContinuationCap { .. } => stops,
                    EndReason::Rejected { reason } => {
                        turn.steps == 0 && !turn.allowed && turn.veto.as_ref().is_none_or(|v| v == reason)
                    }
                    EndReason::Aborted { by, reason } => {
                        turn.cancelled.as_ref().is_some_and(|c| c.by == *by && c.cause == *reason)
                            && self.dropped(turn).all(|seq| end.dropped.contains(&seq))
                    }
                    EndReason::Halted { by, reason } => {
                        turn.halt.as_ref().is_some_and(|h| h.by == *by && h.reason == *reason)
                    }
                    EndReason::MaxTokens => finish == Some(&Finish::MaxTokens),
                    EndReason::Error { .. } | EndReason::Interrupted | EndReason::Unknown => true,
                };
                need(fits, "that is not how the turn ended")?;
                let early = matches!(
                    end.reason,
                    EndReason::Aborted { .. } | EndReason::Error { .. } | EndReason::Interrupted
                );
                need(judged || early, "a prompt of the batch is not judged yet")
            }
        }
    }

    fn step_may_open(&self, turn: &Turn) -> Checked {
        need(turn.step.is_none(), "a step is open already")?;
        need(turn.settled == turn.takes.len(), "a prompt of the batch is not judged yet")?;
        need(turn.allowed, "no prompt of the batch passed")?;
        // C-TURN-8: no continuation or steering resurrects the turn.
        let over = !turn.goes_on() || turn.halt.is_some() || self.stopped_by(turn).is_some();
        need(!over, "the turn is over")?;
        need(turn.steps == 0 || turn.owes_step(), "nothing asks for another step")
    }

    fn settles_prompt(&self, from: Seq, blocked: bool) -> Checked {
        let turn = self.turn.as_deref().ok_or("no turn is open")?;
        need(turn.cancelled.is_none(), "the turn is cancelled")?;
        self.start_stands(turn)?;
        match turn.takes.get(turn.settled) {
            Some((seq, q)) => {
                need(*seq == from && q.kind.opens_turn(), "it is not the next prompt of the batch")?;
                need(blocked || turn.ended_at_start().is_none(), "the session's start ended the turn")
            }
            // Steering of a user is judged, too, and may be blocked, between two steps.
            None => need(
                blocked
                    && turn.step.is_none()
                    && turn.steps > 0
                    && self.steering().is_some_and(|(first, _)| *first == from),
                "it is not the next prompt of the batch",
            ),
        }
    }

    /// C-TURN-11: what a start's handlers added stands before the first prompt's message.
    pub(super) fn start_stands(&self, turn: &Turn) -> Checked {
        need(self.start_with_context(turn).is_none(), "the context of the session's start is not there yet")
    }

    /// The first start whose handlers have added context that does not stand yet: its place, and the context.
    pub(super) fn start_with_context(&self, turn: &Turn) -> Option<(usize, Vec<Draft>)> {
        if turn.settled > 0 {
            return None;
        }
        let (at, point) = (At::turn(turn.number), self.start_point());
        let starts = self.starts.iter().map(|(seq, _)| self.contexts(point, &Subject::Session(*seq), &at));
        starts.enumerate().find(|(_, context)| !context.is_empty())
    }

    pub(super) fn call_at(&self, record: &Record, check: impl FnOnce(&Call) -> Checked) -> Checked {
        let step = self.turn.as_deref().and_then(|t| t.step.as_ref()).ok_or("no step is open")?;
        let path = record.at.call.as_ref().ok_or("it names no call")?;
        check(step.calls.get(path).ok_or(UNKNOWN_CALL)?)
    }

    pub(super) fn nested_parent(&self, path: Option<&CallPath>) -> Checked {
        let positions = path.ok_or("it names no call")?.positions();
        let step = self.turn.as_deref().and_then(|t| t.step.as_ref()).ok_or("no step is open")?;
        let (_, parent) = positions.split_last().ok_or(UNKNOWN_CALL)?;
        let parent = step.calls.iter().find(|(p, _)| p.positions() == parent).map(|(_, c)| c);
        need(parent.is_some_and(|c| matches!(c.body, CallBody::Running { .. })), UNKNOWN_CALL)
    }

    /// C-TURN-5: the calls of a step enter the pipeline in the model's order.
    pub(super) fn sealed_before(&self, path: Option<&CallPath>) -> Checked {
        let step = self.turn.as_deref().and_then(|t| t.step.as_ref()).ok_or("no step is open")?;
        let path = path.ok_or("it names no call")?;
        let mut earlier = step.calls.iter().take_while(|(p, _)| *p < path).filter(|(p, _)| p.is_top());
        need(
            !path.is_top() || earlier.all(|(_, c)| c.sealed.is_some()),
            "an earlier call of the step is not sealed yet",
        )
    }

    /// C-TURN-5: an exclusive call starts when every earlier call has its result; one that is safe to overlap may
    /// overtake only others that are.
    fn may_overtake(&self, path: &CallPath) -> Checked {
        let step = self.turn.as_deref().and_then(|t| t.step.as_ref()).ok_or("no step is open")?;
        // A call whose arguments were refused has no body that anything could overlap with.
        let safe =
            |c: &Call| c.sealed.as_ref().is_some_and(|sealed| sealed.concurrency_safe || !c.accepted());
        let this = step.calls.get(path).is_some_and(safe);
        let mut open =
            step.calls.iter().take_while(|(p, _)| *p < path).filter(|(p, c)| p.is_top() && !c.result);
        // C-BRIDGE-9: what is deferred holds nobody up, nor does what is done behind it but for its result.
        let away = |p: &CallPath, c: &Call| {
            c.deferral().is_some()
                || step.is_behind_deferred(p) && self.outcome(p, Some(Point::Guard)).is_some()
        };
        need(
            !path.is_top() || open.all(|(p, c)| this && safe(c) || away(p, c)),
            "an earlier call of the step is not done, and the two may not overlap",
        )
    }

    /// C-TURN-5: results stand in the model's order; nested ones as they come, but before their parent's.
    fn in_model_order(&self, path: &CallPath) -> Checked {
        let step = self.turn.as_deref().and_then(|t| t.step.as_ref()).ok_or("no step is open")?;
        let mut earlier = step.calls.iter().take_while(|(p, _)| *p < path).filter(|(p, _)| p.is_top());
        need(
            !path.is_top() || earlier.all(|(_, c)| c.result),
            "an earlier call of the step has no result yet",
        )?;
        let mut nested = step.calls.iter().filter(|(p, _)| p.is_within(path));
        need(nested.all(|(_, c)| c.result), "a call that its body started has no result yet")
    }

    /// The context message that the log owes at this very place, if any.
    fn earned_context(&self) -> Option<Draft> {
        let turn = self.turn.as_deref()?;
        if let Some(owed) = turn.owed.first() {
            return Some(owed.clone());
        }
        if turn.step.is_some() {
            return self.end_step(turn).into_iter().next();
        }
        self.start_with_context(turn)?.1.into_iter().next()
    }
}

pub(super) const UNKNOWN_CALL: &str = "no such call in this step";
