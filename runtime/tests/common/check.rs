//! What must hold of every log and every transcript, checked without the law's own code.

use portcullis_runtime::{law::Transcript, *};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Default)]
struct OpenCall {
    sealed: bool,
    bodies: u32,
    returned: u32,
    result: bool,
}

/// C-LOG-1, 3, 4, C-TURN-7: numbers, enclosure, balance, order, caps. `limits` are those in force all along.
pub fn log(records: &[Arc<Record>], limits: Limits) {
    let (mut turn, mut turns) = (None, 0);
    let (mut step, mut steps) = (None, 0);
    let mut open: BTreeMap<CallPath, OpenCall> = BTreeMap::new();
    let (mut forced, mut in_a_row) = (0, 0);
    let mut compaction = None;
    for (i, r) in records.iter().enumerate() {
        assert_eq!(r.seq.0, i as u64, "C-LOG-1: numbers without gaps");
        let owing = step.is_some() && open.iter().any(|(path, c)| path.is_top() && !c.result);
        match &r.body {
            Body::SessionCreated(_) => assert_eq!(i, 0, "C-LOG-1: created once, first"),
            Body::SessionResumed(_)
            | Body::SessionClosed(_)
            | Body::SessionCommand(_)
            | Body::SessionLeft(_)
            | Body::SessionWithdrawn(_)
            | Body::ConfigInForce(_)
            | Body::PromptQueued(_)
            | Body::Own(_) => continue,
            Body::TurnStart(_) => {
                assert_eq!(turn, None, "C-LOG-3: one open turn");
                turns += 1;
                turn = Some(turns);
                (steps, forced, in_a_row) = (0, 0, 0);
            }
            _ => assert!(turn.is_some(), "C-LOG-3: `{}` outside a turn", r.body.kind()),
        }
        assert!(i == 0 || r.at.turn == turn, "C-LOG-3: the envelope names the open turn");
        let visible = matches!(
            r.body,
            Body::UserMessage(_)
                | Body::ContextMessage(_)
                | Body::SteeringMessage(_)
                | Body::AssistantMessage(_)
        );
        assert!(
            !(owing && visible),
            "C-LOG-4: `{}` between a step's calls and its last result",
            r.body.kind()
        );
        if let Some(path) = &r.at.call {
            assert_eq!(r.at.step, step, "C-LOG-3: the envelope names the open step");
            assert!(!path.positions().is_empty());
        }
        let of_compaction = match &r.body {
            Body::CompactionStarted(_) | Body::CompactionEnded(_) | Body::TurnCancelled(_) => true,
            body => body.decisions().is_some_and(|d| d.point == Point::Compaction),
        };
        assert!(compaction.is_none() || of_compaction, "`{}` within a compaction", r.body.kind());
        match &r.body {
            Body::CompactionStarted(started) => {
                assert_eq!(step, None, "between steps, where no call is without its result");
                assert_eq!(compaction.replace((started.from, started.to)), None, "one at a time");
                assert!(started.from <= started.to && started.to.0 < i as u64);
            }
            Body::CompactionEnded(ended) => {
                assert_eq!(compaction.take(), Some((ended.from, ended.to)), "of the one that began");
            }
            Body::StepStart(_) => {
                assert_eq!(step, None, "C-LOG-3: one open step");
                steps += 1;
                step = Some(steps);
                assert_eq!(r.at.step, step, "C-LOG-3: contiguous steps");
                open.clear();
            }
            Body::AssistantMessage(m) => {
                for (n, _) in m.calls().enumerate() {
                    open.insert(CallPath::top(n as u32), OpenCall::default());
                }
                if m.calls().next().is_some() {
                    in_a_row = 0;
                }
            }
            Body::ToolCall(_) => {
                let path = r.at.call.clone().expect("a call's path");
                let call = open.entry(path.clone()).or_default();
                assert!(!call.sealed, "C-LOG-4: one `tool/call` an attempt");
                call.sealed = true;
                let before = open.iter().filter(|(p, _)| p.is_top() && path.is_top() && **p < path);
                assert!(before.into_iter().all(|(_, c)| c.sealed), "C-TURN-5: the model's order");
            }
            Body::InputResolved(resolved) if resolved.resolution == Resolution::Resumed => {
                let call = open.get_mut(r.at.call.as_ref().expect("a path")).expect("an open call");
                assert!(call.sealed && call.bodies == 0 && !call.result, "C-BRIDGE-9: at its gate");
                // It is sealed anew.
                call.sealed = false;
            }
            Body::ToolDispatched(d) => {
                let call = open.get_mut(r.at.call.as_ref().expect("a path")).expect("an open call");
                assert!(call.sealed && !call.result);
                call.bodies += 1;
                assert_eq!(d.attempt, call.bodies, "C-DUR-2: attempts are counted");
            }
            Body::ToolReturned(t) => {
                let call = open.get_mut(r.at.call.as_ref().expect("a path")).expect("an open call");
                assert_eq!(t.attempt, call.bodies, "the last attempt returns");
                call.returned += 1;
                assert_eq!(call.returned, 1, "C-DUR-1: a body has one outcome");
            }
            Body::ToolResult(result) => {
                let path = r.at.call.clone().expect("a path");
                let call = open.get(&path).expect("C-LOG-4: a result of a call of this step");
                assert!(call.sealed && !call.result, "C-LOG-4: exactly one result");
                assert_eq!(
                    result.outcome.was_dispatched(),
                    call.bodies > 0,
                    "C-PIPE-2: `{}` with {} bodies",
                    result.outcome.name(),
                    call.bodies
                );
                assert_eq!(call.bodies > 0, call.returned == 1, "C-PIPE-1: returned before its result");
                let mut before = open.iter().filter(|(p, _)| p.is_top() && path.is_top() && **p < path);
                assert!(before.all(|(_, c)| c.result), "C-TURN-5: results in the model's order");
                open.get_mut(&path).expect("as above").result = true;
            }
            Body::StepEnd(_) => {
                assert!(step.is_some(), "C-LOG-3");
                assert!(open.values().all(|c| c.sealed && c.result), "C-LOG-4: calls and results balance");
                step = None;
            }
            Body::SteeringMessage(m) if m.from.is_none() => {
                forced += 1;
                in_a_row += 1;
                assert!(in_a_row <= limits.continuations_in_a_row, "C-TURN-7: the cap in a row");
                assert!(forced <= limits.continuations_per_turn, "C-TURN-7: the cap of a turn");
            }
            Body::TurnEnd(_) => {
                assert_eq!(step, None, "C-LOG-3: a turn ends between steps");
                turn = None;
            }
            _ => {}
        }
    }
}

/// C-LOG-4 and 8: each call block is answered at once, in order; the request ends on the user's side.
pub fn request(transcript: &Transcript) {
    assert_eq!(transcript.last_role(), Some(Role::User), "C-LOG-8: {transcript:#?}");
    let mut owed: std::collections::VecDeque<(Arc<str>, Arc<str>)> = Default::default();
    for message in transcript.iter() {
        match message {
            Message::Assistant { blocks } => {
                assert!(owed.is_empty(), "C-LOG-4: a call without a result");
                for block in blocks.iter() {
                    if let AssistantBlock::Call { id, name, .. } = block {
                        owed.push_back((id.clone(), name.clone()));
                    }
                }
            }
            Message::Result { id, name, .. } => {
                assert_eq!(owed.pop_front(), Some((id.clone(), name.clone())), "C-LOG-4: results in order");
            }
            Message::User { source, .. } => assert!(owed.is_empty(), "C-LOG-4: {source:?} between"),
            Message::Context { content, source } | Message::Steering { content, source } => {
                assert!(owed.is_empty(), "C-LOG-4: {source:?} between a call and its result");
                assert!(!content.is_empty(), "C-LOG-8: a message says something");
            }
            other => panic!("an unknown message {other:?}"),
        }
    }
    assert!(owed.is_empty(), "C-LOG-4: a call without a result");
}
