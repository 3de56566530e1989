//! What the law refuses: valid logs, broken by one record.

mod common;

use common::driver::{logs, same};
use portcullis_runtime::{
    law::{Next, State},
    *,
};
use std::{collections::BTreeMap, sync::Arc};

fn at(record: &Record, seq: Seq) -> Arc<Record> {
    Arc::new(Record { seq, ..record.clone() })
}

/// May stand anywhere, any number of times.
fn anytime(body: &Body) -> bool {
    matches!(
        body,
        Body::SessionResumed(_)
            | Body::SessionCommand(_)
            | Body::SessionLeft(_)
            | Body::SessionWithdrawn(_)
            | Body::ConfigInForce(_)
            | Body::PromptQueued(_)
            | Body::Own(_)
    )
}

/// Applies a record that must be refused; nothing may have changed.
#[track_caller]
fn refused(state: &State, record: &Record, why: &str) {
    let mut tried = state.clone();
    let answer = tried.apply(&Arc::new(record.clone()));
    assert!(answer.is_err(), "{why}: accepted {}", encode(record));
    same(&tried, state, None);
}

fn count(seen: &mut BTreeMap<String, u32>, body: &Body) {
    *seen.entry(body.kind().to_string()).or_default() += 1;
}

/// Every type of a turn's records must have been tried.
fn covers(seen: &BTreeMap<String, u32>, except: &[&str]) {
    let outside = [
        "session/resumed",
        "session/closed",
        "decision/begun",
        "session/command",
        "session/left",
        "session/withdrawn",
        "config/in-force",
        "prompt/queued",
    ];
    let later = ["subagent/started", "subagent/ended", "compaction/started", "compaction/ended"];
    for (kind, _) in Body::TYPES {
        let skipped = [outside.as_slice(), &later, except].iter().any(|kinds| kinds.contains(kind));
        assert!(skipped || seen.contains_key(*kind), "`{kind}` was never tried: {seen:?}");
    }
}

// C-LOG-1: a record that fails validation does not exist. C-LOG-4: one result. C-DUR-1: one answer, one decision of a
// handler, one first cause.
#[test]
fn no_record_of_a_turn_stands_twice() {
    let mut seen = BTreeMap::new();
    for log in logs(40) {
        let mut state = State::new();
        for record in &log {
            state.apply(record).expect("valid");
            // Two decisions of one owner may come with the same text.
            let twin = matches!(record.body, Body::ContextMessage(_)) && owed(&state, record);
            if !anytime(&record.body) && !matches!(record.body, Body::HeaderChanged(_)) && !twin {
                count(&mut seen, &record.body);
                refused(&state, &at(record, state.head()), "twice");
            }
        }
    }
    covers(&seen, &["request/header"]);
}

// C-LOG-1: numbers without gaps.
#[test]
fn a_wrong_number_is_refused() {
    for log in logs(6) {
        let mut state = State::new();
        for record in &log {
            refused(&state, &at(record, Seq(record.seq.0 + 1)), "a gap");
            if let Some(before) = record.seq.0.checked_sub(1) {
                refused(&state, &at(record, Seq(before)), "again");
            }
            state.apply(record).expect("valid");
        }
    }
}

// C-LOG-3, C-ID-3: records name the open turn, the open step and a call of it.
#[test]
fn another_turn_step_or_call_is_refused() {
    let mut seen = BTreeMap::new();
    for log in logs(40) {
        let mut state = State::new();
        for record in &log {
            if record.at.turn.is_some() && !anytime(&record.body) {
                count(&mut seen, &record.body);
                let turned = |turn| Record { at: At { turn, ..record.at.clone() }, ..Record::clone(record) };
                refused(&state, &turned(None), "no turn");
                refused(&state, &turned(record.at.turn.map(|t| t + 1)), "another turn");
                let stepped = |step| Record { at: At { step, ..record.at.clone() }, ..Record::clone(record) };
                refused(&state, &stepped(Some(record.at.step.unwrap_or(0) + 70)), "another step");
                let called = |call| Record { at: At { call, ..record.at.clone() }, ..Record::clone(record) };
                refused(&state, &called(Some(CallPath::top(17))), "an unknown call");
                refused(&state, &called(Some(CallPath::top(17).nested(0))), "a call of an unknown one");
                if let Some(path) = &record.at.call
                    && !matches!(record.body, Body::ContextMessage(_))
                {
                    refused(&state, &called(None), "no call");
                    refused(&state, &stepped(None), "no step");
                    // A call's own child is another call.
                    refused(&state, &called(Some(path.nested(9).nested(9))), "another call");
                }
            }
            state.apply(record).expect("valid");
        }
    }
    covers(&seen, &["session/created"]);
}

// C-LOG-3, 4, C-PIPE-1: what a later record rests on cannot be missing. A record of an owner stands in its place, so
// that all others keep their numbers.
#[test]
fn a_missing_record_is_noticed() {
    let filler = Body::Own(common::own("app/filler", "{}"));
    let mut seen = BTreeMap::new();
    for log in logs(40) {
        assert!(State::fold(&log[1..]).is_err(), "nothing stands before `session/created`");
        for (i, missing) in log.iter().enumerate().skip(1) {
            let last_turn_is_open = !log[i..].iter().any(|r| matches!(r.body, Body::TurnEnd(_)));
            let cancelled = log[i..].iter().take_while(|r| !matches!(r.body, Body::TurnStart(_))).any(|r| {
                match &r.body {
                    Body::TurnEnd(end) => {
                        matches!(end.reason, EndReason::Aborted { .. } | EndReason::Error { .. })
                    }
                    _ => false,
                }
            });
            let rests = match &missing.body {
                // The plan is not in the log, so a decision may be missing; so may steering, which stays queued.
                body if anytime(body) => false,
                Body::DecisionRecorded(_)
                | Body::DecisionsRecorded(_)
                | Body::DecisionBegun(_)
                | Body::HeaderChanged(_)
                | Body::SessionClosed(_)
                | Body::SteeringMessage(_) => false,
                Body::PromptBlocked(m) => {
                    let batch = |r: &&Arc<Record>| match &r.body {
                        Body::TurnStart(start) => start.takes.contains(&m.from),
                        _ => false,
                    };
                    log[..i].iter().rfind(batch).is_some_and(|r| r.at.turn == missing.at.turn)
                        && !cancelled
                        && !last_turn_is_open
                }
                // A turn that ends early owes no answer and judges no prompt.
                Body::ModelRequested(_) | Body::AssistantMessage(_) | Body::UserMessage(_) => !cancelled,
                // What was injected stays queued, and a turn that ends early says nothing more.
                Body::ContextMessage(m) => m.from.is_none() && !cancelled,
                // What a body asked for is first known by its call.
                Body::ToolRewrite(_) => missing.at.call.as_ref().is_some_and(CallPath::is_top),
                // A turn may also fail after its cancel.
                Body::TurnCancelled(_) => {
                    let end = log[i..].iter().find_map(|r| match &r.body {
                        Body::TurnEnd(end) => Some(&end.reason),
                        _ => None,
                    });
                    matches!(end, Some(EndReason::Aborted { .. }))
                }
                _ => true,
            };
            if !rests {
                continue;
            }
            count(&mut seen, &missing.body);
            let mut state = State::fold(&log[..i]).expect("valid");
            let hole = Draft::new(At::session(), filler.clone()).seal(missing.seq, 0);
            state.apply(&hole).expect("an owner's record stands anywhere");
            let noticed = log[i + 1..].iter().find(|record| state.apply(record).is_err());
            assert!(
                noticed.is_some(),
                "not noticed that this is missing: {}\n{:#?}",
                encode(missing),
                log[i.saturating_sub(3)..].iter().take(12).map(|r| encode(r)).collect::<Vec<_>>()
            );
        }
    }
    let may_be_missing =
        ["session/created", "request/header", "decision/recorded", "decisions/recorded", "steering/message"];
    covers(&seen, &may_be_missing);
}

// C-PIPE-1, C-TURN-5: neighbours in the other order are no log.
#[test]
fn two_records_in_the_wrong_order_are_refused() {
    let mut seen = BTreeMap::new();
    for log in logs(40) {
        let mut state = State::new();
        for pair in log.windows(2) {
            let [first, second] = pair else { continue };
            let free = |r: &Record| {
                anytime(&r.body)
                    || matches!(
                        r.body,
                        Body::TurnCancelled(_) | Body::HeaderChanged(_) | Body::SessionClosed(_)
                    )
            };
            let one_point = match (&first.body, &second.body) {
                // A session may be resumed while its first prompt is judged: then the start's decisions come later.
                (Body::ContextMessage(a), Body::ContextMessage(b)) => a == b && first.at == second.at,
                // Steering and what is injected join side by side.
                (Body::SteeringMessage(_), Body::ContextMessage(b)) => b.from.is_some(),
                (Body::PromptBlocked(_), Body::ContextMessage(b)) => b.from.is_some(),
                (Body::ContextMessage(a), Body::SteeringMessage(_)) => a.from.is_some(),
                // A session may have started twice before its turn: what one start brings and what the other one decides.
                (Body::ContextMessage(_), b)
                    if b.decisions().is_some_and(|b| b.point == Point::SessionStart) =>
                {
                    true
                }
                // Steering may come, and be blocked, while the first handler of the turn's end is deciding.
                (Body::PromptBlocked(_) | Body::SteeringMessage(_) | Body::ContextMessage(_), b) => b
                    .decisions()
                    .is_some_and(|b| matches!(b.point, Point::Continuation | Point::Stop | Point::Compacted)),
                (a, Body::SteeringMessage(SteeringMessage { from: Some(_), .. }))
                | (a, Body::ContextMessage(ContextMessage { from: Some(_), .. })) => a
                    .decisions()
                    .is_some_and(|a| matches!(a.point, Point::Continuation | Point::Stop | Point::Compacted)),
                // A session may be resumed while its first prompt is judged: then the start's decisions come later.
                (a, b) => a.decisions().zip(b.decisions()).is_some_and(|(a, b)| {
                    (a.point, a.subject) == (b.point, b.subject) || a.point == Point::SessionStart
                }),
            };
            // Bodies that may overlap mix; calls that bodies start follow their completion.
            let mixed = match (&first.at.call, &second.at.call) {
                (Some(a), Some(b)) => {
                    a != b && !(a.is_top() && b.is_top() && first.body.kind() == second.body.kind())
                }
                _ => false,
            };
            if !free(first) && !free(second) && !one_point && !mixed {
                count(&mut seen, &first.body);
                let mut swapped = state.clone();
                let early = swapped.apply(&at(second, state.head()));
                let late = early.is_ok().then(|| swapped.apply(&at(first, swapped.head())));
                assert!(
                    !matches!(late, Some(Ok(()))),
                    "accepted in the wrong order: {}\n{}",
                    encode(second),
                    encode(first)
                );
            }
            state.apply(first).expect("valid");
        }
    }
    covers(&seen, &["session/created", "request/header", "turn/cancelled", "turn/end"]);
}

/// Would `next` own this record, for anything that a driver may have passed?
fn owed(state: &State, record: &Record) -> bool {
    let body = &record.body;
    let mut passed = vec![None, Some((Point::Continuation, Subject::Step(state.step_number())))];
    passed.push(Some((Point::Stop, Subject::Step(state.step_number()))));
    passed.extend(
        state.starts_owed().iter().map(|(seq, _)| Some((Point::SessionStart, Subject::Session(*seq)))),
    );
    passed.push(Some((Point::Batch, Subject::Batch(state.step_number()))));
    let path = record.at.call.as_ref();
    for point in [Point::PreExecute, Point::Permission, Point::Guard, Point::PostExecute] {
        passed.extend(path.map(|path| Some((point, Subject::Call(path.clone())))));
    }
    let by_call = |point| {
        path.is_some_and(|path| {
            let owes = state.call(path, point);
            Next::Call { path: path.clone(), owes }.is_discharged_by(body)
        })
    };
    passed.iter().any(|passed| state.next(passed.as_ref()).is_discharged_by(body))
        || passed.iter().any(|passed| by_call(passed.as_ref().map(|(point, _)| *point)))
        || state.fail("c", "m").iter().any(|draft| draft.body() == body)
        // An answer that crossed the cancel on its way: the model's, a handler's, or what rewriters came to.
        || state.cancelled().is_some()
            && matches!(
                body,
                Body::AssistantMessage(_)
                    | Body::DecisionRecorded(_)
                    | Body::DecisionsRecorded(_)
                    | Body::DecisionBegun(_)
                    | Body::ToolRewrite(_)
                    | Body::ToolCall(_)
            )
}

// RECORDS.md: what the law accepts, it owed. Records of elsewhere in the log are put where they do not belong.
#[test]
fn a_record_that_nothing_owed_is_refused() {
    let (mut tried, mut accepted) = (0, 0);
    for log in logs(14) {
        let mut state = State::new();
        for (i, record) in log.iter().enumerate() {
            for stranger in log.iter().skip(i % 3).step_by(3).filter(|r| !anytime(&r.body)) {
                // As if it were about the open turn and step.
                let here = At {
                    turn: state.open_turn(),
                    step: stranger.at.step.map(|_| state.step_number()),
                    call: stranger.at.call.clone(),
                };
                let stranger = Draft::new(here, stranger.body.clone()).seal(state.head(), 0);
                tried += 1;
                let mut with = state.clone();
                if with.apply(&stranger).is_err() {
                    if tried % 16 == 0 {
                        same(&with, &state, None);
                    }
                    continue;
                }
                accepted += 1;
                assert!(
                    owed(&state, &stranger),
                    "not owed: {}\nnext: {:?}\nafter {}",
                    encode(&stranger),
                    state.next(None),
                    i.checked_sub(1).map(|i| encode(&log[i])).unwrap_or_default(),
                );
            }
            state.apply(record).expect("valid");
        }
    }
    println!("{tried} tried, {accepted} accepted, each of them owed");
    assert!(tried > 20_000 && accepted > 0 && accepted < tried / 4);
}
