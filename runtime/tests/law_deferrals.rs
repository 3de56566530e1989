//! C-BRIDGE-9: where a deferred call's records may stand, and what is owed behind them.

mod common;

use common::{calls, config, created, handler, header, prompt, sealed, session};
use portcullis_runtime::{
    law::{CallOwes, Next, State},
    *,
};

fn path(position: u32) -> CallPath {
    CallPath::top(position)
}

fn at(position: u32) -> At {
    At::call(1, 1, path(position))
}

fn put(state: &mut State, at: At, body: impl Into<Body>) -> Result<(), &'static str> {
    let record = Draft::new(at, body).seal(state.head(), 0);
    state.apply(&record).map_err(|invalid| invalid.why)
}

/// A turn whose model has made two calls, the first of which is sealed.
fn two_calls() -> State {
    let step = || At::step(1, 1);
    let mut state = State::new();
    for draft in [
        Draft::new(At::session(), created()),
        Draft::new(At::session(), config(Limits::default())),
        Draft::new(At::session(), prompt("go")),
        Draft::new(At::turn(1), TurnStart { takes: vec![Seq(2)] }),
        Draft::new(At::turn(1), UserMessage { content: "go".into(), source: Source::User, from: Seq(2) }),
        Draft::new(step(), StepStart {}),
        Draft::new(step(), header("be brief")),
        Draft::new(step(), ModelRequested { attempt: 1, digest: None }),
        Draft::new(step(), calls(&[("c", "Bash", "{}"), ("d", "Bash", "{}")])),
        Draft::new(at(0), sealed("c", "Bash", "{}")),
    ] {
        let record = draft.seal(state.head(), 0);
        state.apply(&record).expect("valid");
    }
    state
}

fn decided(subject: Subject, gate: Gate) -> DecisionRecorded {
    let (decision, context) = (Decision::PreExecute(gate), vec!["noted".into()]);
    let made = HandlerDecision {
        id: handler("gate"),
        order: 0,
        decision,
        context,
        halt: None,
        failure: None,
        ms: 0,
    };
    DecisionRecorded { point: Point::PreExecute, subject, made }
}

fn asked(attempt: u32, deferred: bool) -> InputRequested {
    let key = CallKey { turn: 1, step: 1, call: path(0) };
    InputRequested {
        request: RequestId::at(&session(), &key, attempt),
        digest: InputRequested::digest_of(&Frozen::arguments("{}").expect("an object")),
        reasons: vec!["later".into()],
        by: vec![handler("gate")],
        expires: None,
        deferred,
    }
}

fn resolved(attempt: u32, resolution: Resolution) -> InputResolved {
    InputResolved { request: asked(attempt, true).request, resolution, text: None, by: Source::User }
}

/// The first call is deferred and waits.
fn deferred() -> State {
    let mut state = two_calls();
    put(&mut state, at(0), decided(Subject::Call(path(0)), Gate::defer("later"))).expect("its gate");
    put(&mut state, at(0), asked(1, true)).expect("deferred");
    state
}

#[test]
fn a_wait_is_of_the_kind_that_the_gate_says() {
    let gated = |gate: Gate| {
        let mut state = two_calls();
        put(&mut state, at(0), decided(Subject::Call(path(0)), gate)).expect("its gate");
        state
    };
    let passed = Some(Point::PreExecute);
    let later = gated(Gate::defer("later"));
    let owed = CallOwes::Defer { by: vec![handler("gate")], reasons: vec!["later".into()] };
    assert_eq!(later.call(&path(0), passed), owed);
    assert_eq!(put(&mut later.clone(), at(0), asked(1, false)), Err("nobody asks"));
    assert_eq!(put(&mut gated(Gate::ask("sure?")), at(0), asked(1, true)), Err("nobody defers it"));
    assert_eq!(put(&mut gated(Gate::Allow), at(0), asked(1, true)), Err("nobody defers it"));
    // Neither a person nor a guard is asked about it, and it does not run.
    let by_point = |point, decision| DecisionRecorded {
        point,
        made: HandlerDecision { decision, ..decided(Subject::Call(path(0)), Gate::Allow).made },
        subject: Subject::Call(path(0)),
    };
    let permit = by_point(Point::Permission, Decision::Permission(Permit::Allow));
    assert_eq!(put(&mut later.clone(), at(0), permit), Err("nobody asks"));
    let guard = by_point(Point::Guard, Decision::Guard(GuardVerdict::Abstain));
    assert_eq!(put(&mut later.clone(), at(0), guard), Err("the call is deferred"));
    assert_eq!(put(&mut later.clone(), at(0), ToolDispatched { attempt: 1 }), Err("the call is deferred"));
}

#[test]
fn only_what_is_deferred_is_resumed_and_only_that() {
    let state = deferred();
    let next = Next::Call { path: path(0), owes: CallOwes::Answer(asked(1, true).request) };
    assert_eq!(state.next(None), next);
    for answer in [Resolution::Allowed, Resolution::Refused, Resolution::Unavailable] {
        let why = "the call is deferred, so nobody was asked";
        assert_eq!(put(&mut state.clone(), at(0), resolved(1, answer)), Err(why));
    }
    let mut question = two_calls();
    put(&mut question, at(0), decided(Subject::Call(path(0)), Gate::ask("sure?"))).expect("its gate");
    put(&mut question, at(0), asked(1, false)).expect("asked");
    let resumed = resolved(1, Resolution::Resumed);
    assert_eq!(put(&mut question, at(0), resumed.clone()), Err("nobody has deferred it"));
    let mut cancelled = state.clone();
    let cancel = TurnCancelled { by: Source::User, cause: CauseName(Cause::User) };
    put(&mut cancelled, At::turn(1), cancel).expect("a cancel");
    assert_eq!(put(&mut cancelled, at(0), resumed), Err("the turn is cancelled"));
    // C-TURN-9: it is answered all the same.
    let Next::Commit(drafts) = cancelled.next(None) else { panic!("{:?}", cancelled.next(None)) };
    let kinds: Vec<&str> = drafts.iter().map(|draft| draft.body().kind()).collect();
    assert_eq!(kinds, ["input/resolved", "tool/result"]);
    for draft in drafts {
        let record = draft.seal(cancelled.head(), 0);
        cancelled.apply(&record).expect("what the law says");
    }
    // C-ASK-3: nobody in time.
    let mut late = state;
    put(&mut late, at(0), resolved(1, Resolution::Expired)).expect("its time is over");
    let ended = late.outcome(&path(0), Some(Point::PreExecute)).expect("it has ended");
    assert_eq!(ended.ended, Ended::DeferralExpired);
}

#[test]
fn a_resumed_call_begins_again_under_new_keys() {
    let mut state = deferred();
    let first = Subject::Call(path(0));
    assert_eq!((state.attempt(&path(0)), state.subject_of(&path(0))), (1, first.clone()));
    put(&mut state, at(0), resolved(1, Resolution::Resumed)).expect("resumed");
    let again = Subject::Again { call: path(0), attempt: 2 };
    assert_eq!((state.attempt(&path(0)), state.subject_of(&path(0))), (2, again.clone()));
    assert_eq!(state.call(&path(0), None), CallOwes::Seal);
    assert_eq!(state.gate(&path(0)), Verdict::Open);
    assert!(state.deferral(&path(0)).is_none());
    let another = "it is about another attempt at the call's gate";
    let mut late = decided(first, Gate::Allow);
    late.made.id = handler("another");
    assert_eq!(put(&mut state.clone(), at(0), late), Err(another));
    put(&mut state, at(0), sealed("c", "Bash", "{}")).expect("sealed anew");
    put(&mut state, at(0), decided(again, Gate::Defer { reason: None })).expect("the same handler, anew");
    put(&mut state, at(0), asked(2, true)).expect("deferred once more");
    put(&mut state, at(0), resolved(2, Resolution::Resumed)).expect("and resumed");
    put(&mut state, at(0), sealed("c", "Bash", "{}")).expect("sealed anew");
    put(&mut state, at(0), ToolDispatched { attempt: 1 }).expect("its body has not run before");
    let outcome = Outcome::completed("done").into();
    put(&mut state, at(0), ToolReturned { attempt: 1, outcome, ms: 1 }).expect("it comes back");
    // C-TURN-6: what each attempt earned stands behind the step's last result.
    let CallOwes::Commit(result) = state.call(&path(0), Some(Point::PostExecute)) else {
        panic!("no result")
    };
    for draft in result {
        let record = draft.seal(state.head(), 0);
        state.apply(&record).expect("its result");
    }
    put(&mut state, at(1), sealed("d", "Nothing", "{}")).expect_err("not the call that the model made");
    let refused = Arguments::Refused { raw: "{}".into(), refused: Ended::UnknownTool };
    let ToolCall { id, name, .. } = sealed("d", "Bash", "{}");
    let call = ToolCall { id, name, arguments: refused, idempotent: false, concurrency_safe: false };
    put(&mut state, at(1), call).expect("the other call");
    let CallOwes::Commit(result) = state.call(&path(1), Some(Point::PostExecute)) else {
        panic!("no result")
    };
    let record = result[0].clone().seal(state.head(), 0);
    state.apply(&record).expect("its result");
    let batch = Some((Point::Batch, Subject::Batch(1)));
    let Next::Commit(drafts) = state.next(batch.as_ref()) else { panic!("{:?}", state.next(None)) };
    assert_eq!(drafts.iter().filter(|draft| draft.body().kind() == "context/message").count(), 2);
}

// C-TURN-5: the call behind it runs; its result stands behind the deferred call's.
#[test]
fn a_deferred_call_holds_up_results_alone() {
    let mut state = deferred();
    put(&mut state, at(1), sealed("d", "Bash", "{}")).expect("the next call");
    put(&mut state, at(1), ToolDispatched { attempt: 1 }).expect("it overtakes");
    let outcome = Outcome::completed("done").into();
    put(&mut state, at(1), ToolReturned { attempt: 1, outcome, ms: 1 }).expect("it comes back");
    assert_eq!(state.call(&path(1), None), CallOwes::Judge(Point::PostExecute));
    assert_eq!(state.call(&path(1), Some(Point::PostExecute)), CallOwes::Held);
    assert!(state.is_put_off(&path(0)) && state.is_put_off(&path(1)));
    let result = ToolResult { outcome: Ended::Completed, content: "done".into(), error: false };
    assert_eq!(put(&mut state, at(1), result), Err("an earlier call of the step has no result yet"));
    // C-DUR-8: nothing of the turn's own is under way, however often it is taken up.
    for _ in 0..6 {
        assert!(!state.counts_as_killed());
        put(&mut state, At::session(), SessionResumed {}).expect("taken up");
        assert!(!state.is_given_up());
    }
    put(&mut state, at(0), resolved(1, Resolution::Resumed)).expect("resumed");
    assert!(state.counts_as_killed());
    assert!(matches!(state.call(&path(1), Some(Point::PostExecute)), CallOwes::Commit(_)));
}
