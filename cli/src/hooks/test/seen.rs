//! What happened, read from the log: nothing here believes what a hook says of itself.

use super::drive::answer;
use super::feed::{Event, Feed};
use super::stage::Heard;
use portcullis::{
    Arguments, Ask, Body, Compact, Decision, EndReason, Ended, Gate, Journal, MemoryJournal, OwnRecord,
    Permit, Point, Proposal, Record, Review, Role, Session, SessionId, Source, Subject, View,
    hooks::{Hooks, Late, Reload, Report},
};
use serde::Serialize;
use std::{collections::HashMap, sync::Arc};

/// Where it is read from.
pub(super) struct Sources {
    pub(super) journal: MemoryJournal,
    pub(super) roles: Vec<Role>,
    pub(super) reports: Vec<Report>,
    pub(super) asked: Asked,
    pub(super) told: Heard,
    pub(super) last: Option<SessionId>,
    pub(super) hooks: Option<Arc<Hooks>>,
}

/// The questions that were put, and what became of answers to them.
#[derive(Debug, Default)]
pub(super) struct Asked {
    asks: Vec<Ask>,
    /// Answers that should have been taken and were not, or the other way round.
    wrong: Vec<String>,
}

impl Asked {
    /// Gives the answer that is due; without one, approves.
    pub(super) async fn answer(&mut self, session: &Session, ask: Ask, answers: &[(bool, bool)]) {
        let mut due = answers.iter().filter(|(_, stale)| !stale);
        let approve = due.nth(self.asks.len()).is_none_or(|(approve, _)| *approve);
        if let Err(error) = session.answer(&ask, answer(approve)).await {
            self.wrong.push(format!("an answer was not taken: {error}"));
        }
        self.asks.push(ask);
    }

    /// Gives the answers that come too late.
    pub(super) async fn answer_late(&mut self, session: &Session, answers: &[(bool, bool)]) {
        let Some(ask) = self.asks.last() else { return };
        for (approve, _) in answers.iter().filter(|(_, stale)| *stale) {
            if session.answer(ask, answer(*approve)).await.is_ok() {
                self.wrong.push("an answer that came too late was taken".into());
            }
        }
    }
}

/// A call of the case.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) decision: &'static str,
    /// How it ended; empty while it has no result.
    pub(super) outcome: String,
    pub(super) results: usize,
    /// How many decisions hooks took on it before it ran.
    pub(super) judged: usize,
    /// The arguments that were in force; nothing if there were none.
    pub(super) effective: Option<String>,
    #[serde(skip)]
    pub(super) rewritten: bool,
}

/// What happened.
#[derive(Debug, Default, Serialize)]
pub(super) struct Seen {
    pub(super) decision: &'static str,
    pub(super) decisions: Vec<&'static str>,
    pub(super) handlers_run: usize,
    pub(super) reasons: Vec<String>,
    pub(super) contexts: Vec<String>,
    pub(super) warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) halt: Option<String>,
    pub(super) took_ms: u64,
    pub(super) input_requests: usize,
    pub(super) calls: Vec<Call>,
    pub(super) last_roles: Vec<Role>,
    pub(super) context_after_all_results: bool,
    pub(super) ends: Vec<String>,
    /// The real names of the agents the case is about.
    pub(super) agents: Vec<String>,
    /// The session that was open last.
    #[serde(skip)]
    pub(super) last: Option<SessionId>,
    /// What went wrong in the answering of questions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) wrong_answers: Vec<String>,
}

type CallPlace = (SessionId, u64, u32, portcullis::CallPath);

impl Seen {
    pub(super) async fn of(feed: &Feed, from: Sources) -> Result<Seen, String> {
        let mut reader = Reader {
            feed,
            owner: feed.dialect.name(),
            hooks: from.hooks,
            seen: Seen { context_after_all_results: true, last: from.last, ..Seen::default() },
            calls: HashMap::new(),
            gates: HashMap::new(),
            rounds: vec!["none"; feed.rounds.len()],
            stop: None,
            prompts: 0,
            compactions: 0,
        };
        reader.seen.warnings.extend(from.reports.iter().map(ToString::to_string));
        for head in from.journal.sessions().await.map_err(|error| error.to_string())? {
            let records = from.journal.records(&head.session);
            reader.session(&head.session, &records);
        }
        for late in from.told.late.iter().filter(|_| feed.event.is_notice()) {
            reader.told(late);
        }
        reader.changes(&from.told.changes);
        let Reader { mut seen, rounds, .. } = reader;
        if feed.event == Event::PreToolUse {
            let of =
                |id: &str| seen.calls.iter().find(|call| call.id == id).map_or("none", |call| call.decision);
            seen.decisions = feed.rounds.iter().map(|round| of(&round.id)).collect();
        } else {
            seen.decisions = rounds;
        }
        let rank = |decision: &&str| {
            ["none", "allow", "ask", "defer", "block", "continue", "deny"].iter().position(|d| d == decision)
        };
        seen.decision = seen.decisions.iter().copied().max_by_key(rank).unwrap_or("none");
        seen.last_roles = from.roles;
        seen.wrong_answers = from.asked.wrong;
        Ok(seen)
    }
}

struct Reader<'f> {
    feed: &'f Feed,
    /// In whose name the hooks of the case decide.
    owner: &'static str,
    hooks: Option<Arc<Hooks>>,
    seen: Seen,
    calls: HashMap<CallPlace, usize>,
    /// What hooks said of calls that have no record of their own yet.
    gates: HashMap<CallPlace, (usize, bool)>,
    /// The decision of each round that is no call.
    rounds: Vec<&'static str>,
    /// The round whose stop was judged last.
    stop: Option<usize>,
    prompts: usize,
    compactions: usize,
}

impl Reader<'_> {
    fn session(&mut self, id: &SessionId, records: &[Arc<Record>]) {
        let mut depth = 0;
        for record in records {
            self.record(id, record, &mut depth);
        }
        for step in records.split(|record| matches!(record.body, Body::AssistantMessage(_))) {
            let last = step.iter().rposition(|record| matches!(record.body, Body::ToolResult(_)));
            let context = step.iter().position(|record| matches!(record.body, Body::ContextMessage(_)));
            if let (Some(last), Some(context)) = (last, context) {
                self.seen.context_after_all_results &= context > last;
            }
        }
    }

    fn place(&self, id: &SessionId, record: &Record) -> Option<CallPlace> {
        Some((id.clone(), record.at.turn?, record.at.step?, record.at.call.clone()?))
    }

    fn call(&mut self, id: &SessionId, record: &Record) -> Option<&mut Call> {
        let at = *self.calls.get(&self.place(id, record)?)?;
        self.seen.calls.get_mut(at)
    }

    fn record(&mut self, id: &SessionId, record: &Record, depth: &mut u32) {
        match &record.body {
            Body::SessionCreated(created) => {
                *depth = u32::from(created.parent.is_some());
                if *depth > 0 {
                    self.seen.agents.extend(self.hooks.as_ref().map(|hooks| hooks.agent_id(id)));
                }
            }
            body if body.decisions().is_some() => {
                let each = body.decisions().into_iter().flat_map(|decisions| decisions.each());
                for decided in each.filter(|decided| *decided.id.owner == *self.owner) {
                    self.decided(id, record, &decided);
                }
            }
            Body::ToolCall(call) => {
                let Some(place) = self.place(id, record) else { return };
                let nested = place.3.positions().len() > 1;
                let of_case = |round: &&super::feed::Round| {
                    *round.id == *call.id || (nested && round.parent.is_some() && *round.tool == *call.name)
                };
                let Some(round) = self.feed.rounds.iter().find(of_case) else { return };
                let effective = match &call.arguments {
                    Arguments::Sealed { text } => Some(text.text().to_owned()),
                    Arguments::Refused { .. } => None,
                };
                let (judged, allowed) = self.gates.remove(&place).unwrap_or_default();
                let decision = if allowed { "allow" } else { "none" };
                self.calls.insert(place, self.seen.calls.len());
                let id = round.id.clone();
                self.seen.calls.push(Call { id, decision, judged, effective, ..Call::default() });
            }
            Body::ToolRewrite(_) => {
                if let Some(call) = self.call(id, record) {
                    call.rewritten = true;
                }
            }
            Body::InputRequested(asked) => {
                let Some(call) = self.call(id, record) else { return };
                call.decision = if asked.deferred { "defer" } else { "ask" };
                self.seen.input_requests += usize::from(!asked.deferred);
                if self.feed.event.is_of_question() {
                    // Why a person is asked is the case's own to say.
                    return;
                }
                self.seen.reasons.extend(asked.reasons.iter().map(ToString::to_string));
            }
            Body::ToolResult(result) => {
                let pre = matches!(self.feed.event, Event::PreToolUse | Event::PermissionRequest);
                let Some(call) = self.call(id, record) else { return };
                call.results += 1;
                call.outcome = result.outcome.name().into();
                let denied = match &result.outcome {
                    Ended::HookDeny { .. } | Ended::GuardDeny { .. } => true,
                    Ended::HandlerFailure { point, .. } => {
                        matches!(
                            point,
                            Some(Point::Rewrite | Point::PreExecute | Point::Permission | Point::Guard)
                        )
                    }
                    _ => false,
                };
                if denied {
                    call.decision = "deny";
                }
                let refused = denied || call.decision == "ask" && result.error;
                if pre && refused {
                    self.seen.reasons.push(result.content.to_text().into_owned());
                }
            }
            Body::PromptBlocked(blocked) if *depth == 0 => {
                // A start that ends its turn blocks what waited for it: that is no decision on a prompt.
                if self.feed.event != Event::SessionStart {
                    self.round("block");
                }
                self.prompts += 1;
                self.seen.reasons.push(blocked.reason.to_string());
            }
            Body::UserMessage(_) if *depth == 0 => self.prompts += 1,
            Body::CompactionStarted(_) => self.compactions += 1,
            Body::ContextMessage(context) if context.source == Source::owner(self.owner) => {
                let text = context.content.to_text().into_owned();
                if text.contains(" hook blocking error from command: ") {
                    self.blocked_after(record);
                    self.seen.reasons.push(text);
                } else {
                    self.seen.contexts.push(text);
                }
            }
            Body::SteeringMessage(steering) if steering.source == Source::owner(self.owner) => {
                if let Some(round) = self.stop {
                    self.rounds[round] = "continue";
                }
                let text = steering.content.to_text();
                let marker = format!("{} hook additional context: ", self.feed.event.name());
                match text.find(&marker) {
                    Some(at) => {
                        self.seen.contexts.push(text[at..].to_owned());
                        self.seen.reasons.extend((at > 0).then(|| text[..at].trim_end().to_owned()));
                    }
                    None => self.seen.reasons.push(text.into_owned()),
                }
            }
            Body::TurnEnd(end) => {
                self.stop = None;
                self.seen.ends.push(end.reason.to_string());
                if let EndReason::Halted { by, reason } = &end.reason
                    && *by.owner == *self.owner
                {
                    self.seen.halt = Some(reason.to_string());
                } else if !end.reason.is_success() {
                    self.seen.warnings.push(format!("the turn ended {}", end.reason));
                }
            }
            Body::Own(own) => {
                // No record of a decision stands behind these.
                let ran = self.own(own);
                let alone = matches!(self.feed.event, Event::ConfigChange | Event::SessionEnd);
                self.seen.handlers_run += usize::from(ran && alone);
            }
            _ => {}
        }
    }

    /// What one hook's own record says to a person; whether it is a result of the case's event.
    fn own(&mut self, own: &OwnRecord) -> bool {
        let root = own.data.root();
        let text = |key| root.get(key).and_then(View::as_str);
        let of_case = &*own.kind == "hook/result" && text("event").as_deref() == Some(self.feed.event.name());
        if of_case {
            let said = ["error", "stderr", "message"].into_iter().filter_map(text);
            self.seen.warnings.extend(said.map(|text| text.into_owned()));
        }
        of_case
    }

    /// What came of each change; of one that was taken there is nothing to say.
    fn changes(&mut self, changes: &[Reload]) {
        for (round, change) in self.rounds.iter_mut().zip(changes) {
            if let Reload::Kept { reason, .. } = change {
                *round = "block";
                self.seen.reasons.push(reason.to_string());
            }
        }
    }

    /// A hook that nobody waited for.
    fn told(&mut self, late: &Late) {
        for own in &late.records {
            let ran = self.own(own);
            self.seen.handlers_run += usize::from(ran);
        }
    }

    fn decided(&mut self, id: &SessionId, record: &Record, decided: &portcullis::DecisionRecorded) {
        let event = decided.id.handler.split(':').next().unwrap_or_default();
        if event != self.feed.event.name() {
            return;
        }
        self.seen.handlers_run += 1;
        self.seen.took_ms = self.seen.took_ms.saturating_add(decided.ms);
        self.seen.warnings.extend(decided.failure.as_ref().map(ToString::to_string));
        match (&decided.decision, &decided.subject) {
            (Decision::Rewrite(Proposal { carried, .. }), _) => {
                let Some(place) = self.place(id, record) else { return };
                let gate = self.gates.entry(place).or_default();
                gate.0 += 1;
                gate.1 |= matches!(carried, Some(Gate::Allow));
            }
            (Decision::Permission(permit), _) => {
                let of_call = self.call(id, record).map(|call| call.id.clone());
                let round = self.feed.rounds.iter().position(|round| Some(&round.id) == of_call.as_ref());
                if let (Some(round), Permit::Allow | Permit::Deny { .. }) = (round, permit) {
                    self.rounds[round] = match (permit, self.rounds[round]) {
                        (Permit::Allow, "deny") => "deny",
                        (Permit::Allow, _) => "allow",
                        _ => "deny",
                    };
                }
            }
            (Decision::Continuation(_), Subject::Step(step)) => {
                let turns = self.feed.turns();
                let turn = record.at.turn.and_then(|turn| usize::try_from(turn - 1).ok()).unwrap_or_default();
                let before: usize = turns.iter().take(turn).map(|rounds| rounds.len()).sum();
                let front = u32::from(turns.get(turn).is_some_and(|rounds| rounds[0].active));
                let place = usize::try_from(step.saturating_sub(1 + front)).unwrap_or_default();
                self.stop = Some(before + place).filter(|round| *round < self.rounds.len());
            }
            (Decision::PostExecute(Review::Block { feedback }), _) => {
                self.blocked_after(record);
                self.seen.reasons.push(feedback.to_string());
            }
            (Decision::Compaction(compact), _) => {
                let round = self.rounds.get_mut(self.compactions.saturating_sub(1));
                match compact {
                    Compact::Skip { reason } => {
                        if let Some(round) = round {
                            *round = "block";
                        }
                        self.seen.reasons.push(reason.to_string());
                    }
                    Compact::Proceed { instructions } => {
                        self.seen.contexts.extend(instructions.iter().map(ToString::to_string));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// A prompt's decision, in the order in which prompts were sent.
    fn round(&mut self, decision: &'static str) {
        if let Some(round) = self.rounds.get_mut(self.prompts) {
            *round = decision;
        }
    }

    /// Feedback after a call: which one it was, the log says by the step, and a case's rounds are steps unless it is a batch.
    fn blocked_after(&mut self, record: &Record) {
        let step = record.at.step.map_or(0, |step| usize::try_from(step).unwrap_or_default());
        let at = if self.feed.batch { 0 } else { step.saturating_sub(1) };
        let at = at.min(self.rounds.len() - 1);
        self.rounds[at] = "block";
    }
}
