//! What a record changes, once it may stand.

use super::{Body as CallBody, Call, Decisions, Halt, LastStep, Queued, Request, State, Step, Turn};
use crate::{
    Arguments, AssistantBlock, At, Body, CallPath, Draft, Finish, Message, Point, Record, Resolution, Seq,
    StartSource, Subject,
};
use std::sync::Arc;

impl State {
    pub(super) fn change(&mut self, record: &Arc<Record>) {
        if let Some(command) = &record.key
            && let Some(caused) = self.caused_by(record)
        {
            self.commands.insert(command.clone(), caused);
        }
        if let Some(turn) = self.turn.as_deref_mut() {
            turn.note_progress(record);
        }
        match &record.body {
            Body::SessionCreated(created) => {
                self.created = Some(Arc::new(created.clone()));
                let source =
                    if created.cleared.is_some() { StartSource::Clear } else { StartSource::Startup };
                self.starts.push((record.seq, source));
            }
            Body::SessionResumed(_) => {
                self.closed = false;
                // A subagent starts once, however often its session is taken up again.
                if self.start_point() == Point::SessionStart {
                    self.keep_started();
                    self.starts.push((record.seq, StartSource::Resume));
                }
                let at_work = self.works_itself();
                if let Some(turn) = self.turn.as_deref_mut() {
                    turn.note_resumed(at_work);
                }
                self.orphan();
            }
            Body::SessionClosed(_) => self.closed = true,
            Body::SessionCommand(_) => {}
            Body::SessionLeft(_) => {
                if let Some(turn) = self.turn.as_deref_mut() {
                    turn.recovery.left = true;
                }
            }
            Body::SessionWithdrawn(withdrawn) => _ = self.queue.remove(&withdrawn.prompt),
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
                self.turn = Some(Box::new(Turn::new(self.turns, takes, record.seq, self.tail.len())));
            }
            Body::HeaderChanged(header) => self.header = Some(header.0.clone()),
            Body::TurnEnd(end) => {
                for seq in &end.dropped {
                    self.queue.remove(seq);
                }
                self.prompt = self.last_prompt();
                self.turn = None;
                self.ended = Some(end.reason.clone());
            }
            Body::Own(_) => {}
            Body::CompactionStarted(started) => self.begin_compaction(record.seq, started),
            Body::CompactionEnded(ended) => {
                // C-TURN-11: with the next turn.
                if self.finish_compaction(record.seq, ended) && self.start_point() == Point::SessionStart {
                    self.starts.push((record.seq, StartSource::Compact));
                }
            }
            _ => {
                let owed = self.owed_after(record);
                let closed = self.starts_closed_by(record);
                self.change_turn(record);
                self.starts.drain(..closed);
                if let (Some(turn), Some(owed)) = (self.turn.as_deref_mut(), owed) {
                    turn.owed = owed;
                }
            }
        }
    }

    fn change_turn(&mut self, record: &Arc<Record>) {
        let Some(turn) = self.turn.as_deref_mut() else { return };
        let tail = &mut self.tail;
        match &record.body {
            Body::UserMessage(m) => {
                tail.push(Message::User { content: m.content.clone(), source: m.source.clone() });
                // A start is closed when the first thing of a batch is settled behind it; one that came later (the
                // session was resumed within the turn) stays owed to the next turn.
                if turn.settled == 0 {
                    self.starts.clear();
                }
                turn.settled += 1;
                turn.allowed = true;
                turn.prompt = Some(m.from);
            }
            Body::PromptBlocked(m) => {
                if self.queue.remove(&m.from).is_some() {
                    turn.joined.push(m.from);
                } else {
                    if turn.settled == 0 {
                        self.starts.clear();
                    }
                    turn.settled += 1;
                }
                turn.veto = Some(m.reason.clone());
            }
            Body::ContextMessage(m) => {
                tail.push(Message::Context { content: m.content.clone(), source: m.source.clone() });
                match (m.from, &mut turn.step) {
                    (Some(from), _) => {
                        if self.queue.remove(&from).is_none() {
                            turn.settled += 1;
                        }
                    }
                    (None, Some(step)) => step.contexts += 1,
                    (None, None) => {}
                }
            }
            Body::SteeringMessage(m) => {
                tail.push(Message::Steering { content: m.content.clone(), source: m.source.clone() });
                turn.steered = true;
                match m.from {
                    Some(seq) => {
                        self.queue.remove(&seq);
                        turn.joined.push(seq);
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
                turn.summarised = None;
                turn.steered = false;
                turn.last = None;
                turn.decisions.0.retain(|subject, _| subject.call().is_none());
                turn.begun.retain(|(_, subject, _)| subject.call().is_none());
                turn.step = Some(Step::new(turn.steps));
            }
            Body::StepEnd(_) => {
                if let Some(step) = turn.step.take() {
                    turn.last = Some(LastStep::of(&step));
                }
                self.sealed = self.sealed.with(tail);
                self.sealed_at = record.seq;
                tail.clear();
            }
            Body::TurnCancelled(c) => {
                turn.cancelled = Some(c.clone());
                turn.cancelled_at = record.seq;
            }
            Body::DecisionRecorded(_) | Body::DecisionsRecorded(_) => turn.decide(record),
            Body::DecisionBegun(begun) => {
                turn.begun.push((begun.point, begun.subject.clone(), begun.id.clone()));
            }
            _ => {
                if let Body::AssistantMessage(m) = &record.body
                    && (m.usage.is_some() || m.finish != Finish::Interrupted)
                {
                    self.tokens = m.usage.map_or(0, |usage| usage.input.saturating_add(usage.output));
                    turn.compaction_tried = false;
                }
                turn.change_step(record, tail);
            }
        }
    }

    /// The context messages that must follow this record at once. Kept in the state, so that a log that ends between
    /// the two still owes the second.
    fn owed_after(&self, record: &Record) -> Option<Vec<Draft>> {
        let turn = self.turn.as_deref()?;
        let at = At::turn(turn.number);
        let of_prompt = |seq| self.contexts(Point::PromptSubmit, &Subject::Prompt(seq), &at);
        match &record.body {
            Body::UserMessage(m) => Some(of_prompt(m.from)),
            Body::SteeringMessage(m) => Some(match m.from {
                Some(seq) => of_prompt(seq),
                None => self.contexts(Point::Continuation, &Subject::Step(turn.steps), &at),
            }),
            Body::ContextMessage(m) if m.from.is_none() && turn.step.is_none() => {
                if let [_, rest @ ..] = turn.owed.as_slice() {
                    return Some(rest.to_vec());
                }
                let (_, mut all) = self.start_with_context(turn)?;
                all.drain(..1);
                Some(all)
            }
            _ => None,
        }
    }

    /// How many starts this record closes. Context before the first prompt is settled is that of a start, and closes those
    /// before it, too, which added none; what was injected before that prompt stands behind all of them.
    fn starts_closed_by(&self, record: &Record) -> usize {
        let Body::ContextMessage(m) = &record.body else { return 0 };
        let Some(turn) = self.turn.as_deref().filter(|t| t.settled == 0 && t.owed.is_empty()) else {
            return 0;
        };
        match m.from {
            Some(_) => self.starts.len(),
            None => self.start_with_context(turn).map_or(0, |(place, _)| place + 1),
        }
    }

    /// A start that was being judged when the process went gives way to the new one; what its handlers have added stands.
    /// That a conversation was summarised or forked does not: it is told together with the resume.
    fn keep_started(&mut self) {
        let stays = |source: StartSource| matches!(source, StartSource::Compact | StartSource::Fork);
        let Some(turn) = self.turn.as_deref().filter(|t| t.settled == 0 && t.owed.is_empty()) else {
            return self.starts.retain(|(_, source)| stays(*source));
        };
        let added = self.start_with_context(turn);
        let added = added.filter(|(place, _)| !stays(self.starts[*place].1));
        if let (Some(turn), Some((_, added))) = (self.turn.as_deref_mut(), added) {
            turn.owed = added;
        }
        self.starts.retain(|(_, source)| stays(*source));
    }

    /// With the last record that a fork took over it starts, whatever was owed in the session that it was taken from.
    pub(super) fn fork_begins(&mut self) {
        if self.is_fresh_fork() {
            self.starts.retain(|(_, source)| *source == StartSource::Compact);
            self.starts.push((Seq(0), StartSource::Fork));
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

impl Turn {
    fn new(number: u64, takes: Vec<(Seq, Queued)>, begun_at: Seq, tail_at: usize) -> Turn {
        Turn {
            number,
            takes,
            joined: Vec::new(),
            settled: 0,
            allowed: false,
            veto: None,
            prompt: None,
            decisions: Decisions::default(),
            begun: Vec::new(),
            steps: 0,
            step: None,
            last: None,
            steered: false,
            forced_in_a_row: 0,
            forced: 0,
            cancelled: None,
            cancelled_at: Seq(0),
            halt: None,
            owed: Vec::new(),
            begun_at,
            tail_at,
            compaction: None,
            summarised: None,
            recovery: super::Recovery::default(),
            compaction_tried: false,
        }
    }

    fn decide(&mut self, record: &Arc<Record>) {
        let Some(decided) = record.body.decisions() else { return };
        let halt = decided.made.iter().find_map(|made| Some((&made.id, made.halt.as_ref()?)));
        if let Some((by, reason)) = halt
            && self.halt.is_none()
            && decided.point != Point::SubagentStart
        {
            let subject = decided.subject.clone();
            self.halt = Some(Halt { by: by.clone(), reason: reason.clone(), subject });
        }
        self.decisions.push(decided, record);
    }

    /// A step is owed: the last one made calls, or steering stands behind it.
    pub(super) fn owes_step(&self) -> bool {
        self.steered || self.last.as_ref().is_some_and(|last| last.calls)
    }

    /// False once the turn was cancelled, or its model stopped for good.
    pub(super) fn goes_on(&self) -> bool {
        self.cancelled.is_none() && self.answered_last()
    }

    /// The model has answered the last step and not stopped for good.
    pub(super) fn answered_last(&self) -> bool {
        let finish = self.last.as_ref().map(|last| last.finish.as_ref());
        !matches!(finish, Some(None | Some(Finish::MaxTokens | Finish::Interrupted | Finish::Refused { .. })))
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
                let interrupted = m.finish == Finish::Interrupted;
                let blocks: Arc<[AssistantBlock]> = if cut {
                    // Nor are thoughts that were not thought to their end.
                    let shown = |block: &&AssistantBlock| match block {
                        AssistantBlock::Call { .. } => false,
                        AssistantBlock::Text { text } => !interrupted || !text.trim().is_empty(),
                        _ => !interrupted,
                    };
                    m.blocks.iter().filter(shown).cloned().collect()
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
                if !path.is_top() {
                    step.announce(path, &record.body);
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
            contexts: 0,
        }
    }

    /// A nested call is known from its first record on.
    fn announce(&mut self, path: &CallPath, body: &Body) {
        match body {
            // In one append with its `tool/call`, which names the call.
            Body::ToolRewrite(r) => {
                let raw = r.requested.text().into();
                self.calls.entry(path.clone()).or_insert_with(|| Call::new("".into(), "".into(), raw));
            }
            Body::ToolCall(call) => {
                let raw = match &call.arguments {
                    Arguments::Sealed { text } => text.text().into(),
                    Arguments::Refused { raw, .. } => raw.clone(),
                };
                let known =
                    self.calls.entry(path.clone()).or_insert_with(|| Call::new("".into(), "".into(), raw));
                known.id = call.id.clone();
                known.name = call.name.clone();
            }
            _ => {}
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
            attempt: 1,
            asked: None,
            answered: None,
            body: CallBody::NotStarted,
            outcome: None,
            result: false,
            given: None,
            children: Vec::new(),
        }
    }

    /// Is this what the model wrote? An empty text is `{}` (C-ID-2).
    pub(super) fn wrote(&self, text: &str) -> bool {
        text == &*self.raw || text == "{}" && self.raw.trim().is_empty()
    }

    /// Its identity is sealed, with arguments in force.
    pub(super) fn accepted(&self) -> bool {
        self.sealed.as_ref().is_some_and(|c| matches!(c.arguments, Arguments::Sealed { .. }))
    }

    pub(super) fn decided(&self) -> bool {
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
                show_arguments(tail, message_at, path, r.effective.text());
            }
            Body::ToolCall(c) => self.sealed = Some(Arc::new(c.clone())),
            Body::SubagentStarted(started) => self.children.push((started.child.clone(), false)),
            Body::SubagentEnded(ended) => {
                for (child, over) in &mut self.children {
                    *over |= *child == ended.child;
                }
            }
            Body::InputRequested(r) => self.asked = Some(Arc::new(r.clone())),
            // C-BRIDGE-9: back to where it came in, as if nothing had been decided.
            Body::InputResolved(r) if r.resolution == Resolution::Resumed => {
                self.attempt += 1;
                (self.asked, self.sealed) = (None, None);
                if self.rewrite.take().is_some() {
                    show_arguments(tail, message_at, path, &self.raw);
                }
            }
            Body::InputResolved(r) => self.answered = Some(Arc::new(r.clone())),
            Body::ToolDispatched(d) => self.body = CallBody::Running { attempt: d.attempt },
            Body::ToolReturned(r) => {
                self.body = CallBody::Returned;
                self.outcome = Some((r.outcome.clone(), r.ms));
            }
            Body::ToolResult(r) => {
                self.result = true;
                if !path.is_top() {
                    self.given = Some(Arc::new(r.clone()));
                } else {
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
fn show_arguments(tail: &mut [Message], message_at: Option<usize>, path: &CallPath, effective: &str) {
    if cfg!(feature = "fault-projection") {
        return;
    }
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
