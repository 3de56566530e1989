//! One renderer for what happens and for what happened: records in, lines for a person out.
//!
//! A call's heading comes with the first record about it, which may be a decision from before its identity was sealed; so
//! what the model said is remembered until then. Texts are cleaned and shortened here and nowhere else.

use crate::{
    page::{BESIDE, Page, SAID},
    paint::{Paint, Tint},
    words::{Names, arguments, how_long, names},
};
use portcullis::{
    Arguments, AssistantBlock, AssistantMessage, Body, CallPath, Content, Continue, Decision,
    DecisionRecorded, EndReason, Ended, Finish, Gate, GuardVerdict, HandlerId, InputResolved, OwnRecord,
    Permit, Record, Resolution, Review, Seq, Source, StopTurn, Submit, ToolResult, ToolReturned, ToolRewrite,
    TurnEnd, View,
};
use std::{collections::HashMap, sync::Arc};

/// Renders a session's records, in order.
#[derive(Debug)]
pub(crate) struct Timeline {
    page: Page,
    session: String,
    names: Names,
    queued: HashMap<Seq, Content>,
    /// The calls of the open step: name and arguments.
    calls: Vec<(String, String)>,
    /// Those of them that were told about. Bodies may overlap, so their records may alternate.
    told: HashMap<CallPath, Told>,
    /// Context that came with a decision, and whose: it is told where it reaches the model.
    earned: Vec<(Arc<str>, String)>,
    /// In whose name questions are answered.
    person: &'static str,
    /// The reasons given for going on, which the steering then repeats.
    goes_on: String,
    /// A fork's first record of its own: what stands before was taken over, or closes what was open there.
    own: Seq,
    /// The session was opened, and no turn has begun since.
    opening: bool,
    turn: Count,
}

/// What was told about a call.
#[derive(Debug, Default)]
struct Told {
    name: String,
    text: String,
    /// Its `tool/call` was met.
    sealed: bool,
    /// How long its proposals took.
    proposed: HashMap<HandlerId, u64>,
    /// What stands in its way was told.
    obstacle: bool,
    /// What its body handed back, and whether as an error: shown as it came, before anyone reviewed it.
    body: Option<(Content, bool)>,
}

/// What a turn came to.
#[derive(Debug, Default)]
struct Count {
    began: (u64, u64),
    steps: u64,
    calls: u64,
    denied: u64,
    changed: u64,
    approved: u64,
}

impl Timeline {
    pub(crate) fn new(paint: Paint, session: &str, person: &'static str) -> Timeline {
        Timeline {
            page: Page::new(paint),
            session: session.to_owned(),
            names: Names::default(),
            queued: HashMap::new(),
            calls: Vec::new(),
            told: HashMap::new(),
            earned: Vec::new(),
            person,
            goes_on: String::new(),
            own: Seq(0),
            opening: true,
            turn: Count::default(),
        }
    }

    /// The lines of a record; often none.
    pub(crate) fn show(&mut self, record: &Record) -> String {
        match &record.at.call {
            Some(call) => self.heading(call, &record.body),
            None => self.page.leave(),
        }
        let mut told = record.at.call.as_ref().and_then(|call| self.told.remove(call)).unwrap_or_default();
        told.sealed |= matches!(record.body, Body::ToolCall(_));
        self.body(record, &mut told);
        if let Some(call) = &record.at.call {
            self.told.insert(call.clone(), told);
        }
        self.page.take()
    }

    fn body(&mut self, record: &Record, told: &mut Told) {
        match &record.body {
            // Files of hooks were read again.
            Body::ConfigInForce(config) if !self.opening => {
                let handlers = names(config.handlers.len(), "handler");
                let text = format!("other handlers are in force from here on: {handlers}");
                self.page.block("changed", Tint::Quiet, &text, Tint::Quiet, SAID);
            }
            Body::ConfigInForce(config) => {
                let handlers = names(config.handlers.len(), "handler");
                let text = format!("{} · model {} · {handlers}", self.session, config.model);
                self.page.block("session", Tint::Quiet, &text, Tint::Quiet, SAID);
            }
            Body::SessionResumed(_) => {
                self.opening = true;
                let text = format!("{} goes on where its log ended", self.session);
                self.page.block("session", Tint::Quiet, &text, Tint::Quiet, SAID);
            }
            Body::SessionWithdrawn(withdrawn) => {
                let by = source(&withdrawn.by);
                self.page.block(
                    "withdrawn",
                    Tint::Quiet,
                    &format!("a prompt that waited, by {by}"),
                    Tint::Quiet,
                    SAID,
                );
            }
            Body::SessionClosed(closed) => {
                self.page.block("closed", Tint::Quiet, &closed.reason, Tint::Quiet, SAID)
            }
            Body::PromptQueued(queued) => {
                self.queued.insert(record.seq, queued.content.clone());
                if queued.kind.opens_turn() {
                    self.page.space();
                    self.said("you", Tint::Bold, &queued.content);
                }
            }
            Body::SessionCreated(created) => {
                self.own = created.seed.as_ref().map_or(Seq(0), |seed| seed.own);
            }
            Body::TurnStart(_) => {
                self.opening = false;
                self.turn = Count { began: (record.seq.0, record.time), ..Count::default() }
            }
            Body::UserMessage(message) if self.queued.get(&message.from) != Some(&message.content) => {
                self.said(" ~ changed", Tint::Notice, &message.content);
            }
            Body::PromptBlocked(_) => self.page.flush(),
            Body::ContextMessage(context) => {
                let text = context.content.to_text();
                let earned = self.earned.iter().position(|(earned, _)| **earned == *text);
                let from = match earned {
                    Some(at) => self.earned.remove(at).1,
                    None => source(&context.source),
                };
                self.page.block(" + context", Tint::Name, &format!("{from}: {text}"), Tint::Plain, BESIDE);
            }
            Body::SteeringMessage(steering) => {
                let text = steering.content.to_text();
                if !self.goes_on.contains(text.trim()) || text.trim().is_empty() {
                    let text = format!("{}: {text}", source(&steering.source));
                    self.page.block(" + steering", Tint::Name, &text, Tint::Quiet, BESIDE);
                }
                self.goes_on.clear();
            }
            Body::StepStart(_) => {
                self.turn.steps += 1;
                self.told.clear();
                self.page.space();
            }
            Body::ModelRequested(requested) if requested.attempt > 1 => {
                let text = format!("is asked again, attempt {}", requested.attempt);
                self.page.block("model", Tint::Notice, &text, Tint::Plain, SAID);
            }
            Body::AssistantMessage(message) => self.assistant(message),
            Body::ToolRewrite(rewrite) => self.rewritten(rewrite, told),
            body if body.decisions().is_some() => {
                for decision in body.decisions().into_iter().flat_map(|decisions| decisions.each()) {
                    self.decision(&decision, told);
                }
            }
            // Each ask was told with its decision; a tool's own question has none.
            Body::InputRequested(asked) if asked.by.is_empty() => {
                let reasons: Vec<&str> = asked.reasons.iter().map(|reason| reason.as_str()).collect();
                self.page.block(" ? asks", Tint::Notice, &reasons.join("; "), Tint::Plain, BESIDE);
            }
            Body::InputResolved(resolved) => self.resolved(resolved, told),
            Body::ToolDispatched(dispatched) => {
                self.page.flush();
                if dispatched.attempt > 1 {
                    let text = format!("attempt {}", dispatched.attempt);
                    self.page.block(" · again", Tint::Notice, &text, Tint::Plain, BESIDE);
                }
            }
            Body::ToolReturned(returned) => self.returned(returned, told),
            Body::ToolResult(result) => self.result(result, told),
            Body::TurnCancelled(cancelled) => {
                let text = match &cancelled.by {
                    Source::User => "by you".to_owned(),
                    other => format!("by {}: {}", source(other), cancelled.cause.0.as_str()),
                };
                self.page.block("cancelled", Tint::Notice, &text, Tint::Plain, BESIDE);
            }
            Body::TurnEnd(end) => self.end(record, end),
            Body::SubagentStarted(started) => {
                let text = format!("{} starts; its log is a session of its own", started.child);
                self.page.block(" · subagent", Tint::Name, &text, Tint::Plain, BESIDE);
            }
            Body::SubagentEnded(ended) => {
                let text = format!("{}: {}", ended.child, ended.outcome.name());
                self.page.block(" · subagent", Tint::Name, &text, Tint::Plain, BESIDE);
            }
            Body::CompactionEnded(compaction) => {
                let text = match (&compaction.summary, &compaction.skipped) {
                    (Some(summary), _) => {
                        format!("a summary stands for what came before: {}", summary.to_text())
                    }
                    (None, why) => {
                        let why = why.as_ref().map_or("", |reason| reason.as_str());
                        format!("the conversation stays as it is: {why}")
                    }
                };
                self.page.block("compacted", Tint::Quiet, &text, Tint::Quiet, BESIDE);
            }
            Body::Own(own) => self.own(own),
            _ => {}
        }
    }

    /// The call's name and arguments, before anything about it.
    fn heading(&mut self, call: &CallPath, body: &Body) {
        let position = call.positions().first().and_then(|first| usize::try_from(*first).ok());
        let of_model = position.filter(|_| call.is_top()).and_then(|position| self.calls.get(position));
        let said = match body {
            // A call that a tool made was not in the model's message.
            Body::ToolCall(made) if !call.is_top() => {
                // Resumed after a defer, it is sealed once more.
                self.turn.calls += u64::from(self.told.get(call).is_none_or(|told| !told.sealed));
                let text = match &made.arguments {
                    Arguments::Sealed { text } => arguments(text.text()),
                    Arguments::Refused { raw, .. } => arguments(raw),
                };
                Some((made.name.to_string(), format!("(within the call above) {text}")))
            }
            _ => of_model.cloned(),
        };
        match (self.told.get_mut(call), said) {
            (Some(told), said) => {
                if let Some((name, text)) = said {
                    (told.name, told.text) = (name, text);
                }
                self.page.back_to(call, &told.name, &told.text);
            }
            (None, said) => {
                let (name, text) =
                    said.unwrap_or_else(|| ("a tool".into(), "makes a call of its own".into()));
                self.page.heading(call, &name, &text);
                self.told.insert(call.clone(), Told { name, text, ..Told::default() });
            }
        }
    }

    fn assistant(&mut self, message: &AssistantMessage) {
        let mut label = "model";
        for block in message.blocks.iter() {
            match block {
                AssistantBlock::Text { text } => self.page.block(label, Tint::Bold, text, Tint::Plain, SAID),
                AssistantBlock::Reasoning { text } => {
                    self.page.block(label, Tint::Bold, text, Tint::Quiet, BESIDE)
                }
                _ => continue,
            }
            label = "";
        }
        let calls = message.calls();
        self.calls = calls.map(|(_, name, raw)| (name.to_string(), arguments(raw))).collect();
        self.turn.calls += self.calls.len() as u64;
        let cut = match message.finish {
            Finish::MaxTokens => "it ran into its output limit; calls of this message do not run",
            Finish::Interrupted => "the turn was cancelled while it spoke",
            _ => return,
        };
        self.page.block(" ! cut", Tint::Notice, cut, Tint::Plain, BESIDE);
    }

    fn rewritten(&mut self, rewrite: &ToolRewrite, told: &Told) {
        self.turn.changed += 1;
        let by = self.names.who(&rewrite.by);
        let ms = told.proposed.get(&rewrite.by).map(|ms| format!(" ({})", how_long(*ms))).unwrap_or_default();
        let text = format!("{by}{ms}: {}", arguments(rewrite.effective.text()));
        self.page.block(" ~ changed", Tint::Notice, &text, Tint::Plain, BESIDE);
    }

    fn decision(&mut self, decision: &DecisionRecorded, told: &mut Told) {
        let by = format!("{} ({})", self.names.who(&decision.id), how_long(decision.ms));
        if let Some(failure) = &decision.failure {
            let text = format!("{by}: {failure}; {}", decision.point.on_failure());
            let note = format!("{by}: {failure}");
            // A shell hook's failure is its bridge's to judge, and that proceeds where the decision says so.
            let denies =
                !matches!(decision.decision.word(), "pass" | "allow" | "accept" | "abstain" | "started");
            self.page.block(" ! failed", Tint::Bad, if denies { &text } else { &note }, Tint::Plain, BESIDE);
            told.obstacle |= denies;
        } else {
            self.verdict(decision, &by, told);
        }
        self.earned.extend(decision.context.iter().map(|text| (text.clone(), by.clone())));
        if let Some(halt) = &decision.halt {
            self.page.block(" ■ halts", Tint::Bad, &format!("{by}: {halt}"), Tint::Plain, BESIDE);
        }
    }

    fn verdict(&mut self, decision: &DecisionRecorded, by: &str, told: &mut Told) {
        // Whoever adds context is named with it.
        let adds = !decision.context.is_empty();
        let mut tell =
            |label: &str, tint, text: &str| self.page.block(label, tint, text, Tint::Plain, BESIDE);
        match &decision.decision {
            Decision::SessionStart(_) | Decision::SubagentStart(_) if adds => {}
            Decision::SessionStart(_) | Decision::SubagentStart(_) => self.page.pass("ran", by),
            Decision::PromptSubmit(Submit::Block { reason }) => {
                tell(" ✗ blocked", Tint::Bad, &format!("{by}: {reason}"));
            }
            Decision::PromptSubmit(Submit::Allow { content: Some(_) }) => {
                tell(" ~ changed", Tint::Notice, by)
            }
            Decision::Rewrite(proposal) => {
                if proposal.arguments.is_some() {
                    told.proposed.insert(decision.id.clone(), decision.ms);
                }
                match &proposal.carried {
                    // Told with the arguments it allows.
                    None | Some(Gate::Allow) if proposal.arguments.is_some() => {}
                    None if adds => {}
                    None => self.page.pass("passed", by),
                    Some(gate) => self.gate(gate, by, told),
                }
            }
            Decision::PreExecute(gate) => self.gate(gate, by, told),
            Decision::Permission(Permit::Deny { reason }) => {
                tell(" ✗ denied", Tint::Bad, &format!("{by}: {reason}"));
                told.obstacle = true;
            }
            Decision::Permission(Permit::Allow) => {
                tell(" ✓ allowed", Tint::Good, &format!("by {by}, in a person's stead"));
                self.turn.approved += 1;
            }
            Decision::Guard(GuardVerdict::Deny { reason }) => {
                tell(" ✗ denied", Tint::Bad, &format!("{by}: {reason}"));
                told.obstacle = true;
            }
            Decision::PostExecute(Review::Block { feedback }) => {
                tell(" ✗ objects", Tint::Bad, &format!("{by}: {feedback}"));
                told.body = None;
                told.obstacle = true;
            }
            Decision::PostExecute(Review::Accept { content: Some(_) }) => {
                tell(" ~ changed", Tint::Notice, &format!("{by}: what the model reads"));
            }
            Decision::Continuation(Continue::Again { reason }) => {
                let reason = reason.as_ref().map_or(Continue::GENERIC, |reason| reason.as_str());
                tell(" ↻ goes on", Tint::Notice, &format!("{by}: {reason}"));
                self.goes_on.push_str(reason);
                self.goes_on.push('\n');
            }
            Decision::Stop(StopTurn::Stop) => tell(" ■ stops", Tint::Notice, by),
            _ if adds => {}
            _ => self.page.pass("passed", by),
        }
    }

    fn gate(&mut self, gate: &Gate, by: &str, told: &mut Told) {
        match gate {
            Gate::Deny { reason } => {
                self.page.block(" ✗ denied", Tint::Bad, &format!("{by}: {reason}"), Tint::Plain, BESIDE);
                told.obstacle = true;
            }
            Gate::Ask { reason } => {
                let why = reason.as_ref().map_or("wants a person to agree", |reason| reason.as_str());
                self.page.block(" ? asks", Tint::Notice, &format!("{by}: {why}"), Tint::Plain, BESIDE);
            }
            Gate::Defer { reason } => {
                let why = reason.as_ref().map_or("puts it off", |reason| reason.as_str());
                self.page.block(" ‖ deferred", Tint::Notice, &format!("{by}: {why}"), Tint::Plain, BESIDE);
            }
            _ => self.page.pass("allowed", by),
        }
    }

    fn resolved(&mut self, resolved: &InputResolved, told: &mut Told) {
        let said = resolved.text.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        match resolved.resolution {
            Resolution::Allowed => {
                self.turn.approved += 1;
                let text = format!("by {}{said}", self.by(&resolved.by));
                return self.page.block(" ✓ allowed", Tint::Good, &text, Tint::Plain, BESIDE);
            }
            Resolution::Resumed => {
                let text = format!("by {}: decided anew", self.by(&resolved.by));
                return self.page.block(" ↻ resumed", Tint::Notice, &text, Tint::Plain, BESIDE);
            }
            Resolution::Refused => {
                let text = format!("by {}{said}", self.by(&resolved.by));
                self.page.block(" ✗ refused", Tint::Bad, &text, Tint::Plain, BESIDE);
            }
            Resolution::Unavailable => {
                let text = "there is no one to ask; run on a terminal to be asked, or with --yes to allow";
                self.page.block(" ✗ denied", Tint::Bad, text, Tint::Plain, BESIDE);
            }
            Resolution::Cancelled => {
                self.page.block(
                    " ✗ no answer",
                    Tint::Bad,
                    "it is not waited for any more",
                    Tint::Plain,
                    BESIDE,
                );
            }
            Resolution::Expired => {
                self.page.block(" ✗ no answer", Tint::Bad, "nobody came in time", Tint::Plain, BESIDE);
            }
        }
        told.obstacle = true;
    }

    fn by(&self, by: &Source) -> String {
        if *by == Source::User { self.person.to_owned() } else { source(by) }
    }

    fn returned(&mut self, returned: &ToolReturned, told: &mut Told) {
        let (label, tint) = match &returned.outcome.ended {
            Ended::Completed => (" ✓ done", Tint::Good),
            Ended::Timeout { .. } => (" ✗ too slow", Tint::Bad),
            Ended::Cancelled { .. } => (" ✗ stopped", Tint::Bad),
            _ => (" ✗ failed", Tint::Bad),
        };
        let (content, error) = returned.outcome.for_model();
        self.page.output(label, tint, &how_long(returned.ms), &content);
        if let Ended::HandlerFailure { failure, .. } = &returned.outcome.ended {
            self.page.block("", Tint::Plain, &failure.to_string(), Tint::Bad, BESIDE);
        }
        told.body = Some((content, error));
    }

    fn result(&mut self, result: &ToolResult, told: &mut Told) {
        self.page.flush();
        let stands =
            told.body.take().map(|(content, error)| content == result.content && error == result.error);
        match stands {
            Some(true) => {}
            Some(false) => self.page.output(" ~ reads", Tint::Notice, "", &result.content),
            None => {
                if !result.outcome.was_dispatched() {
                    self.turn.denied += 1;
                }
                // The reason stands above: it is the result.
                if !told.obstacle {
                    self.page.output(" ✗ not run", Tint::Bad, "", &result.content);
                }
            }
        }
    }

    fn end(&mut self, record: &Record, end: &TurnEnd) {
        self.page.space();
        let turn = record.at.turn.unwrap_or_default();
        let count = std::mem::take(&mut self.turn);
        let tint = if end.reason.is_success() { Tint::Good } else { Tint::Bad };
        let cut = end.reason == EndReason::Interrupted && record.seq < self.own;
        let why = if cut {
            "it was open where the fork was made".to_owned()
        } else {
            why(&self.names, &end.reason)
        };
        if !why.is_empty() {
            self.page.block(end.reason.name(), tint, &why, Tint::Plain, SAID);
        }
        let mut parts = vec![format!("turn {turn}"), names(count.steps, "step"), names(count.calls, "call")];
        let of = [(count.denied, "denied"), (count.changed, "changed"), (count.approved, "approved")];
        parts.extend(of.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
        parts.push(names(record.seq.0 + 1 - count.began.0, "record"));
        if !cut {
            parts.push(how_long(record.time.saturating_sub(count.began.1)));
        }
        if !end.dropped.is_empty() {
            parts.push(format!("{} dropped", names(end.dropped.len(), "queued message")));
        }
        let label = if why.is_empty() { end.reason.name() } else { "" };
        self.page.block(label, tint, &parts.join(" · "), Tint::Quiet, SAID);
    }

    /// What a bridge noted: who its handlers are, and what a hook has to say to the user.
    fn own(&mut self, own: &OwnRecord) {
        let root = own.data.root();
        let text = |key| root.get(key).and_then(View::as_str);
        self.names.learn(own);
        let (Some(owner), Some(handler)) = (text("dialect"), text("handler")) else { return };
        if &*own.kind != "hook/result" {
            return;
        }
        let by = self.names.who(&HandlerId::new(&*owner, &*handler));
        if let Some(message) = text("message") {
            self.page.block(" » says", Tint::Name, &format!("{by}: {message}"), Tint::Plain, BESIDE);
        }
        if let Some(would) = root.get("shadow") {
            let word = |key| would.get(key).and_then(View::as_str).map(|text| text.trim().to_owned());
            let verdict = word("verdict").or_else(|| word("halt").map(|_| "stop".into()));
            let what = match verdict.unwrap_or_else(|| "say nothing that decides".into()) {
                verdict if verdict.contains(' ') => verdict,
                verdict => format!("answer {verdict}"),
            };
            let why = word("reason").or_else(|| word("halt")).filter(|why| !why.is_empty());
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            let text = format!("{by} would {what}{why}");
            self.page.block(" · in shadow", Tint::Notice, &text, Tint::Plain, BESIDE);
        }
        if root.get("timed_out").and_then(View::as_bool) == Some(true) {
            let text = format!("{by}: it ran into its time limit and decides nothing");
            self.page.block(" ! too slow", Tint::Notice, &text, Tint::Plain, BESIDE);
        }
        let unused = root.get("unused").map(View::items).into_iter().flatten();
        let unused: Vec<String> = unused.filter_map(View::as_str).map(Into::into).collect();
        if !unused.is_empty() {
            let text = format!("{by}: `{}` has no effect here", unused.join("`, `"));
            self.page.block(" ! unused", Tint::Notice, &text, Tint::Plain, BESIDE);
        }
    }

    fn said(&mut self, label: &str, tint: Tint, content: &Content) {
        self.page.block(label, tint, &content.to_text(), Tint::Plain, SAID);
    }
}

fn source(source: &Source) -> String {
    match source {
        Source::User => "you".to_owned(),
        Source::Owner { owner } => owner.to_string(),
        _ => "the runtime".to_owned(),
    }
}

/// What there is to say about an end beside its name.
fn why(names: &Names, end: &EndReason) -> String {
    match end {
        EndReason::Rejected { reason } => reason.to_string(),
        EndReason::Aborted { by, .. } if *by == Source::User => "cancelled by you".to_owned(),
        EndReason::Aborted { by, reason } => format!("cancelled by {}: {}", source(by), reason.0.as_str()),
        EndReason::Halted { by, reason } => format!("{}: {reason}", names.who(by)),
        EndReason::MaxTokens => "the model ran into its output limit".to_owned(),
        EndReason::ContinuationCap { limit } => {
            format!(
                "it was forced on {limit} times, which is the limit; a Stop hook should let go when `stop_hook_active` is true"
            )
        }
        EndReason::Error { code, message } => format!("{message} ({code})"),
        EndReason::Interrupted => "it was given up after a restart".to_owned(),
        EndReason::Unknown => "a later version ended it in a way that this one does not know".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
