//! What a history says, without what a kill may change: times, attempts, record numbers, resumptions, and the calls whose
//! outcome is unknown.

use crate::{house::call_key, logs::Logs};
use portcullis::{
    At, Body, CallPath, DecisionRecorded, Point,
    Point::{Guard, PreExecute, Rewrite},
    Record, Seq, SessionId, Subject, law,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The calls about which a killed run may say something else than an unkilled one.
#[derive(Debug, Default, Clone)]
pub(crate) struct Blurred {
    /// Not idempotent, and under way when the process died: their outcome is unknown.
    pub(crate) unknown: BTreeSet<String>,
    /// Their nested calls may have other places, or not have happened.
    pub(crate) parents: BTreeSet<String>,
}

impl Blurred {
    /// Those of a process that dies with these logs.
    pub(crate) fn add(&mut self, logs: &Logs) {
        for (session, records) in logs {
            let mut open: BTreeMap<String, bool> = BTreeMap::new();
            let mut idempotent = BTreeSet::new();
            let (mut announced, mut judged) = (BTreeSet::new(), Vec::new());
            for record in records {
                let Some(key) = key(session, &record.at) else { continue };
                let path = record.at.call.clone().expect("a call");
                match &record.body {
                    Body::ToolCall(call) => {
                        announced.insert(key.clone());
                        if call.idempotent {
                            idempotent.insert(key);
                        }
                    }
                    body if !path.is_top() && decides(body, &[Rewrite]) => {
                        judged.push((key, record.at.clone()));
                    }
                    Body::ToolDispatched(_) => {
                        open.insert(key.clone(), idempotent.contains(&key));
                    }
                    Body::ToolReturned(_) => {
                        open.remove(&key);
                    }
                    _ => {}
                }
            }
            let gone: Vec<String> =
                open.iter().filter(|(_, again)| !**again).map(|(key, _)| key.clone()).collect();
            for key in open.into_keys() {
                // What a body called is not called again when that body is not.
                if gone.iter().any(|parent| key == *parent || key.starts_with(&format!("{parent}."))) {
                    self.unknown.insert(key);
                }
            }
            self.parents.extend(gone);
            // Judged, and not announced: a body that runs again makes this call at another place.
            for (_, at) in judged.into_iter().filter(|(key, _)| !announced.contains(key)) {
                let outer = at.call.as_ref().map(|path| CallPath::top(path.positions()[0]));
                self.parents.extend(key(session, &At { call: outer, ..at }));
            }
        }
    }

    fn hides(&self, key: &str, body: &Body) -> bool {
        let within = self.parents.iter().any(|parent| key.starts_with(&format!("{parent}.")));
        let after = matches!(
            body,
            Body::ToolReturned(_)
                | Body::ToolResult(_)
                | Body::ContextMessage(_)
                | Body::DecisionRecorded(_)
                | Body::DecisionsRecorded(_)
        );
        within || after && self.unknown.contains(key) && !before_body(body)
    }
}

fn before_body(body: &Body) -> bool {
    decides(body, &[Rewrite, PreExecute, Guard])
}

fn decides(body: &Body, points: &[Point]) -> bool {
    body.decisions().is_some_and(|d| points.contains(&d.point))
}

fn key(session: &SessionId, at: &At) -> Option<String> {
    Some(call_key(session, at.turn?, at.step?, at.call.as_ref()?))
}

/// What is compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Story {
    /// Each session's conversation and calls, in their order.
    pub(crate) told: BTreeMap<SessionId, Vec<String>>,
    /// Everything that may interleave otherwise (overlapping calls do), by its key.
    pub(crate) keyed: BTreeMap<String, Vec<String>>,
}

impl Story {
    pub(crate) fn of(logs: &Logs, blurred: &Blurred) -> Story {
        let mut story = Story { told: BTreeMap::new(), keyed: BTreeMap::new() };
        for (session, records) in logs {
            let told = story.told.entry(session.clone()).or_default();
            let queued: Vec<Seq> = records
                .iter()
                .filter(|r| matches!(r.body, Body::PromptQueued(_)))
                .map(|record| record.seq)
                .collect();
            let number = |seq: Seq| queued.iter().position(|s| *s == seq).unwrap_or(usize::MAX);
            for record in records {
                let call = key(session, &record.at);
                if call.as_ref().is_some_and(|key| blurred.hides(key, &record.body)) {
                    continue;
                }
                // How many records the decisions of a point are is not what was decided.
                let said = match record.body.decisions() {
                    Some(decisions) => decisions.each().map(|d| decided(&d, &number)).collect(),
                    None => vec![say(record, &number)],
                };
                let at = call.unwrap_or_else(|| format!("{session} {:?}", record.at.turn));
                for said in said {
                    match said {
                        Said::Nothing => {}
                        Said::Told(text) => told.push(text),
                        Said::Keyed(what, text) => {
                            story.keyed.entry(format!("{at} {what}")).or_default().push(text);
                        }
                    }
                }
            }
        }
        story
    }
}

enum Said {
    Nothing,
    Told(String),
    Keyed(String, String),
}

fn say(record: &Arc<Record>, number: &dyn Fn(Seq) -> usize) -> Said {
    let keyed = |what: &str, text: String| Said::Keyed(what.into(), text);
    let nested = record.at.call.as_ref().is_some_and(|path| !path.is_top());
    match &record.body {
        Body::SessionResumed(_)
        | Body::ConfigInForce(_)
        | Body::Own(_)
        | Body::ModelRequested(_)
        | Body::ToolDispatched(_) => Said::Nothing,
        // Where it happened is not what happened.
        Body::SessionCreated(created) => Said::Told(format!("{:?} {:?}", created.id, created.parent)),
        // A session that is taken up again starts again, and says so.
        Body::ContextMessage(m) if m.content.to_text() == "started" => Said::Nothing,
        Body::InputRequested(r) => keyed("asked", format!("{r:?}")),
        Body::InputResolved(r) => keyed("answered", format!("{r:?}")),
        Body::ToolReturned(r) => keyed("returned", format!("{:?}", r.outcome)),
        Body::ToolCall(call) => keyed("call", format!("{call:?}")),
        Body::ToolRewrite(rewrite) => keyed("rewrite", format!("{rewrite:?}")),
        Body::ToolResult(result) if nested => keyed("result", format!("{result:?}")),
        Body::TurnStart(start) => {
            let takes: Vec<usize> = start.takes.iter().map(|seq| number(*seq)).collect();
            Said::Told(format!("turn {:?} takes {takes:?}", record.at.turn))
        }
        Body::UserMessage(m) => Said::Told(format!("user {:?} {:?} {}", m.content, m.source, number(m.from))),
        Body::PromptBlocked(m) => {
            Said::Told(format!("blocked {:?} {:?} {}", m.content, m.reason, number(m.from)))
        }
        other => Said::Told(format!("{:?} {other:?}", record.at)),
    }
}

fn decided(d: &DecisionRecorded, number: &dyn Fn(Seq) -> usize) -> Said {
    let subject = match &d.subject {
        Subject::Session(_) => return Said::Nothing,
        Subject::Prompt(seq) => format!("prompt {}", number(*seq)),
        other => format!("{other:?}"),
    };
    let text = format!("{:?} {:?} {:?} {:?}", d.decision, d.context, d.halt, d.failure);
    Said::Keyed(format!("{subject} {} {}", d.point, d.id), text)
}

/// Every log of the tree folds, and nothing is owed.
pub(crate) fn lawful(logs: &Logs) {
    for (session, records) in logs {
        let state = law::State::fold(records).unwrap_or_else(|invalid| panic!("{session}: {invalid}"));
        assert_eq!(state.next(None), law::Next::Idle, "{session}");
    }
}

/// The calls that were told that their outcome is unknown, with what the model reads.
pub(crate) fn unknown(logs: &Logs) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (session, records) in logs {
        for record in records {
            if let Body::ToolResult(result) = &record.body
                && result.outcome == portcullis::Ended::OutcomeUnknown
            {
                let key = key(session, &record.at).expect("a call");
                found.insert(key, result.content.to_text().into_owned());
            }
        }
    }
    found
}

/// Fails with the first thing that differs.
#[track_caller]
pub(crate) fn same(is: &Story, was: &Story, at: &str) {
    for (session, told) in &was.told {
        let now = is.told.get(session).map(Vec::as_slice).unwrap_or_default();
        for (place, line) in told.iter().enumerate() {
            assert_eq!(now.get(place), Some(line), "{at}: {session}, line {place}");
        }
    }
    for (key, said) in &was.keyed {
        assert_eq!(is.keyed.get(key), Some(said), "{at}: {key}");
    }
    // Nothing missing; so what is left differs by being more.
    assert_eq!(is, was, "{at}");
}
