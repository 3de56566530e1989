//! The moments of a log at which hooks are asked, and what was decided there.

use portcullis::{
    At, Body, CallPath, Content, Decided, Decision, DecisionRecorded, Frozen, Judged, Outcome, Point,
    PromptSubmit, Record, Rewrite, Seam, Seq, Source, StartSource, Subject, ToolHeader, TurnContinuation,
    Verdict, law::State,
};
use portcullis::{Gate, GuardVerdict, PreExecute};
use serde::Serialize;
use std::{collections::HashMap, sync::Arc};

/// The owner of the hooks that are replaced.
pub(super) const OWNER: &str = "claude";

/// Where a moment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) turn: u64,
    pub(super) step: u32,
    pub(super) call: Option<CallPath>,
}

/// A moment.
#[derive(Debug, Clone)]
pub(super) enum Moment {
    Start {
        at: At,
        seq: Seq,
        source: StartSource,
    },
    Prompt {
        at: At,
        from: Seq,
        content: Content,
    },
    Call {
        at: At,
        attempt: u32,
        id: Arc<str>,
        name: Arc<str>,
        requested: Frozen,
    },
    Result {
        at: At,
        attempt: u32,
        id: Arc<str>,
        name: Arc<str>,
        arguments: Option<Frozen>,
        outcome: Arc<Outcome>,
        ms: u64,
    },
    Stop {
        at: At,
        step: u32,
    },
}

/// What was decided, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Said {
    /// `allow`, `deny`, `ask`, `block`, `replace`, `accept`, `continue`, `stop` or `start`.
    pub(super) decision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The arguments that would run, when they are not those of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<String>,
    /// What the model reads besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) context: Vec<String>,
    /// The turn is halted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) halt: Option<String>,
    /// Who decided, for people; two names for one decision are no difference.
    #[serde(skip)]
    pub(super) by: By,
}

/// Equal to every other.
#[derive(Debug, Clone, Default)]
pub(super) struct By(pub(super) Option<String>);

impl PartialEq for By {
    fn eq(&self, _: &By) -> bool {
        true
    }
}

impl Eq for By {}

/// A log's decisions, by what they are about.
pub(super) struct Moments {
    decided: HashMap<(At, Point, Subject), Vec<DecisionRecorded>>,
    results: HashMap<At, (Arc<Outcome>, u64)>,
    tools: Vec<ToolHeader>,
}

impl Moments {
    pub(super) fn of(log: &[Arc<Record>]) -> Moments {
        let mut moments = Moments { decided: HashMap::new(), results: HashMap::new(), tools: Vec::new() };
        for record in log {
            if let Some(decisions) = record.body.decisions() {
                let key = (record.at.clone(), decisions.point, decisions.subject.clone());
                moments.decided.entry(key).or_default().extend(decisions.each());
            }
            match &record.body {
                Body::ToolReturned(returned) => {
                    moments.results.insert(record.at.clone(), (returned.outcome.clone(), returned.ms));
                }
                Body::HeaderChanged(header) => {
                    for tool in &header.0.tools {
                        moments.tools.retain(|known| known.name != tool.name);
                        moments.tools.push(tool.clone());
                    }
                }
                _ => {}
            }
        }
        moments
    }

    pub(super) fn tool(&self, name: &str) -> Option<&ToolHeader> {
        self.tools.iter().find(|tool| *tool.name == *name)
    }

    pub(super) fn decided(&self, at: &At, point: Point, subject: &Subject) -> &[DecisionRecorded] {
        self.decided.get(&(at.clone(), point, subject.clone())).map_or(&[], Vec::as_slice)
    }

    /// The moments that have come when this record is about to be made.
    pub(super) fn before(&self, state: &State, record: &Arc<Record>) -> Vec<Moment> {
        let at = &record.at;
        let mut moments = Vec::new();
        let prompt = |from: Seq| {
            let (content, source) = state.queued(from)?;
            (*source == Source::User).then(|| Moment::Prompt {
                at: at.clone(),
                from,
                content: content.clone(),
            })
        };
        match &record.body {
            Body::UserMessage(message) => {
                let starts = state.starts_owed().iter();
                moments.extend(starts.map(|(seq, source)| Moment::Start {
                    at: at.clone(),
                    seq: *seq,
                    source: *source,
                }));
                moments.extend(prompt(message.from));
            }
            Body::PromptBlocked(blocked) => moments.extend(prompt(blocked.from)),
            Body::SteeringMessage(steering) => match steering.from {
                Some(from) => moments.extend(prompt(from)),
                None => moments.extend(stop(state)),
            },
            Body::TurnEnd(end) => {
                let judged = !matches!(
                    end.reason,
                    portcullis::EndReason::Error { .. }
                        | portcullis::EndReason::Aborted { .. }
                        | portcullis::EndReason::Interrupted
                        | portcullis::EndReason::Rejected { .. }
                        | portcullis::EndReason::MaxTokens
                );
                if judged {
                    moments.extend(stop(state));
                }
            }
            Body::ToolCall(call) => moments.extend(self.call(state, at, call)),
            Body::ToolResult(result) if result.outcome.was_dispatched() => {
                let facts = at.call.as_ref().and_then(|path| state.call_facts(path));
                if let (Some(facts), Some((outcome, ms))) = (facts, self.results.get(at)) {
                    let (id, name, arguments) = (facts.id, facts.name, facts.arguments);
                    let (at, outcome, attempt) = (at.clone(), outcome.clone(), attempt(state, at));
                    moments.push(Moment::Result { at, attempt, id, name, arguments, outcome, ms: *ms });
                }
            }
            _ => {}
        }
        moments
    }

    /// A call that hooks are asked about: its tool is known, and its arguments are of that tool's schema.
    fn call(&self, state: &State, at: &At, call: &portcullis::ToolCall) -> Option<Moment> {
        let facts = at.call.as_ref().and_then(|path| state.call_facts(path));
        let raw = match (&facts, &call.arguments) {
            (Some(facts), _) => facts.requested.clone().map_or(facts.raw.clone(), |r| r.text().into()),
            (None, portcullis::Arguments::Sealed { text }) => text.text().into(),
            (None, portcullis::Arguments::Refused { raw, .. }) => raw.clone(),
        };
        let requested = Frozen::arguments(&*raw).ok()?;
        let tool = self.tool(&call.name)?;
        let spec = portcullis::ToolSpec::new(&tool.name, "", tool.schema.clone()).ok()?;
        spec.accepts(&requested).ok()?;
        let (id, name) = (call.id.clone(), call.name.clone());
        Some(Moment::Call { at: at.clone(), attempt: attempt(state, at), id, name, requested })
    }
}

/// Which attempt at its gate a call is at.
fn attempt(state: &State, at: &At) -> u32 {
    at.call.as_ref().map_or(1, |path| state.attempt(path))
}

/// The end of the last step, when it was judged.
fn stop(state: &State) -> Option<Moment> {
    let turn = state.open_turn()?;
    let step = state.step_number();
    (step > 0).then(|| Moment::Stop { at: At::turn(turn), step })
}

impl Moment {
    pub(super) fn at(&self) -> &At {
        match self {
            Moment::Start { at, .. }
            | Moment::Prompt { at, .. }
            | Moment::Call { at, .. }
            | Moment::Result { at, .. }
            | Moment::Stop { at, .. } => at,
        }
    }

    pub(super) fn place(&self) -> Place {
        let At { turn, step, call } = self.at().clone();
        let step = match self {
            Moment::Stop { step, .. } => *step,
            _ => step.unwrap_or_default(),
        };
        Place { turn: turn.unwrap_or_default(), step, call }
    }

    /// The client's name of it.
    pub(super) fn event(&self) -> &'static str {
        match self {
            Moment::Start { .. } => "SessionStart",
            Moment::Prompt { .. } => "UserPromptSubmit",
            Moment::Call { .. } => "PreToolUse",
            Moment::Result { outcome, .. } if outcome.ended.is_success() => "PostToolUse",
            Moment::Result { .. } => "PostToolUseFailure",
            Moment::Stop { .. } => "Stop",
        }
    }

    pub(super) fn about(&self) -> String {
        match self {
            Moment::Start { source, .. } => source.name().into(),
            Moment::Prompt { content, .. } => content.to_text().into_owned(),
            Moment::Call { name, requested, .. } => {
                format!("{name} {}", crate::words::arguments(requested.text()))
            }
            Moment::Result { name, outcome, .. } => format!("{name} {}", outcome.ended.name()),
            Moment::Stop { .. } => String::new(),
        }
    }

    pub(super) fn subject(&self) -> Subject {
        match self {
            Moment::Start { seq, .. } => Subject::Session(*seq),
            Moment::Prompt { from, .. } => Subject::Prompt(*from),
            Moment::Stop { step, .. } => Subject::Step(*step),
            Moment::Call { at, attempt, .. } | Moment::Result { at, attempt, .. } => {
                Subject::of_call(at.call.clone().unwrap_or_else(|| CallPath::top(0)), *attempt)
            }
        }
    }

    /// What was decided then.
    pub(super) fn was(&self, moments: &Moments) -> Said {
        let of = |point| moments.decided(self.at(), point, &self.subject()).to_vec();
        self.said(&|point| of(point))
    }

    /// What these decisions come to.
    pub(super) fn said(&self, of: &dyn Fn(Point) -> Vec<DecisionRecorded>) -> Said {
        let points: &[Point] = match self {
            Moment::Start { .. } => &[Point::SessionStart],
            Moment::Prompt { .. } => &[Point::PromptSubmit],
            Moment::Call { .. } => &[Point::Rewrite, Point::PreExecute, Point::Guard],
            Moment::Result { .. } => &[Point::PostExecute],
            Moment::Stop { .. } => &[Point::Continuation],
        };
        let all: Vec<DecisionRecorded> = points.iter().flat_map(|point| of(*point)).collect();
        let texts = all.iter().flat_map(|d| &d.context).filter(|text| !text.trim().is_empty());
        let halt = all.iter().find_map(|d| d.halt.as_ref()).map(ToString::to_string);
        let mut said = Said {
            decision: String::new(),
            reason: None,
            arguments: None,
            context: texts.map(ToString::to_string).collect(),
            halt,
            by: By::default(),
        };
        let (decision, reason) = match self {
            Moment::Start { .. } => ("start", None),
            Moment::Prompt { .. } => match PromptSubmit::fold(&recall::<PromptSubmit>(&all)) {
                Judged::Blocked(reason) => ("block", Some(reason.to_string())),
                Judged::Pass(None) => ("allow", None),
                Judged::Pass(Some(content)) => ("replace", Some(content.to_text().into_owned())),
            },
            Moment::Call { requested, .. } => return call(&all, requested, said),
            Moment::Result { .. } => {
                match portcullis::PostExecute::fold(&recall::<portcullis::PostExecute>(&all)) {
                    portcullis::Reviewed::Stands => ("accept", None),
                    portcullis::Reviewed::Replaced(content) => {
                        ("replace", Some(content.to_text().into_owned()))
                    }
                    portcullis::Reviewed::Blocked(reason) => ("block", Some(reason.to_string())),
                }
            }
            Moment::Stop { .. } => match &TurnContinuation::fold(&recall::<TurnContinuation>(&all))[..] {
                [] => ("stop", None),
                again => {
                    let reasons: Vec<&str> =
                        again.iter().filter_map(|(_, reason)| Some(reason.as_ref()?.as_str())).collect();
                    ("continue", Some(reasons.join("\n")).filter(|text| !text.is_empty()))
                }
            },
        };
        (said.decision, said.reason) = (decision.into(), reason);
        said
    }
}

/// What a call comes to: what was carried to the gate, the gate, the guards.
fn call(all: &[DecisionRecorded], requested: &Frozen, mut said: Said) -> Said {
    let rewritten = Rewrite::fold(&recall::<Rewrite>(all));
    let effective = rewritten.effective.map(|(_, arguments)| arguments).filter(|a| a != requested);
    said.arguments = effective.map(|arguments| arguments.text().to_owned());
    let gates: Vec<Decided<Gate>> = rewritten.carried.into_iter().chain(recall::<PreExecute>(all)).collect();
    let guard = all.iter().find_map(|d| match &d.decision {
        Decision::Guard(GuardVerdict::Deny { reason }) => Some((d.id.to_string(), reason.to_string())),
        _ => None,
    });
    match (PreExecute::fold(&gates), guard) {
        (Verdict::Closed { by, reason, .. }, _) => {
            said.decision = "deny".into();
            (said.reason, said.by) = (Some(reason.to_string()), By(Some(by.to_string())));
        }
        (_, Some((by, reason))) => {
            said.decision = "deny".into();
            (said.reason, said.by) = (Some(reason), By(Some(by)));
        }
        (verdict @ (Verdict::Ask { .. } | Verdict::Deferred { .. }), None) => {
            let (word, by, reasons) = match verdict {
                Verdict::Deferred { by, reasons } => ("defer", by, reasons),
                Verdict::Ask { by, reasons } => ("ask", by, reasons),
                _ => Default::default(),
            };
            let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            said.decision = word.into();
            said.reason = Some(reasons.join("\n")).filter(|text| !text.is_empty());
            said.by = By(by.first().map(ToString::to_string));
        }
        (Verdict::Open, None) => said.decision = "allow".into(),
    }
    said
}

/// The decisions of one seam.
pub(super) fn recall<S: Seam>(all: &[DecisionRecorded]) -> Vec<Decided<S::Decision>> {
    all.iter()
        .filter_map(|d| {
            let decision = S::recall(&d.decision)?.clone();
            Some(Decided { by: d.id.clone(), decision, failure: d.failure.clone() })
        })
        .collect()
}
