//! C-DUR-8: a turn that ends its process whenever it is taken up is given up; one that comes on, waits for a person or was left on
//! purpose is not.

mod common;

use common::{calls, config, created, decided, handler, header, prompt, sealed, session};
use portcullis_runtime::{
    law::{CallOwes, Next, State},
    *,
};
use std::sync::Arc;

const ARGUMENTS: &str = r#"{"command":"ls"}"#;

#[derive(Default)]
struct Play {
    state: State,
    log: Vec<Arc<Record>>,
}

impl Play {
    #[track_caller]
    fn commit(&mut self, drafts: Vec<Draft>) {
        for draft in drafts {
            let owed = self.state.next(None).is_discharged_by(draft.body());
            assert!(owed, "{:?} does not owe {:?}", self.state.next(None), draft.body());
            let record = draft.seal(self.state.head(), 0);
            self.state.apply(&record).expect("a valid record");
            self.log.push(record);
        }
    }

    #[track_caller]
    fn add(&mut self, at: At, body: impl Into<Body>) {
        self.commit(vec![Draft::new(at, body)]);
    }

    #[track_caller]
    fn law(&mut self) {
        match self.state.next(None) {
            Next::Commit(drafts) => self.commit(drafts),
            other => panic!("the law owes {other:?}"),
        }
    }

    /// To the first call of the first step, sealed.
    fn to_a_call(idempotent: bool) -> Play {
        let mut play = Play::default();
        play.add(At::session(), created());
        play.add(At::session(), config(Limits::default()));
        play.add(At::session(), prompt("go"));
        play.law();
        let drafts = play.state.close(Point::PromptSubmit, &Subject::Prompt(Seq(2)));
        play.commit(drafts);
        let at = At::step(1, 1);
        play.add(at.clone(), StepStart {});
        play.add(at.clone(), header("be brief"));
        play.add(at.clone(), ModelRequested { attempt: 1, digest: None });
        play.add(at, calls(&[("c1", "Bash", ARGUMENTS)]));
        play.add(
            At::call(1, 1, CallPath::top(0)),
            ToolCall { idempotent, ..sealed("c1", "Bash", ARGUMENTS) },
        );
        play
    }
}

/// A call whose body runs, and may run again.
fn running() -> Play {
    let mut play = Play::to_a_call(true);
    let at = At::call(1, 1, CallPath::top(0));
    play.add(at, ToolDispatched { attempt: 1 });
    play
}

fn killed(play: &mut Play) {
    play.add(At::session(), SessionResumed {});
}

// C-DUR-8: a turn that ends its process three times while it is recovered is given up the next time, with its calls answered;
// the session goes on.
#[test]
fn a_turn_that_ends_its_process_three_times_is_given_up() {
    let mut play = running();
    for attempt in 2..=4 {
        killed(&mut play);
        assert!(!play.state.is_given_up(), "attempt {attempt}");
        play.add(At::call(1, 1, CallPath::top(0)), ToolDispatched { attempt });
    }
    killed(&mut play);
    assert!(play.state.is_given_up());
    play.add(At::session(), prompt("next"));
    // Also when only a part of that is on disk.
    while play.state.open_turn().is_some() {
        let Next::Commit(drafts) = play.state.next(None) else { panic!("{:?}", play.state.next(None)) };
        play.commit(drafts.into_iter().take(1).collect());
    }
    assert_eq!(play.state.last_end(), Some(&EndReason::Interrupted));
    let result = play.log.iter().rev().find_map(|r| match &r.body {
        Body::ToolResult(result) => Some(result.outcome.clone()),
        _ => None,
    });
    assert_eq!(result, Some(Ended::OutcomeUnknown));
    assert!(matches!(play.state.next(None), Next::Commit(drafts) if drafts[0].body().kind() == "turn/start"));
}

// C-DUR-8: what comes on is not to blame, nor what was left on purpose.
#[test]
fn a_turn_that_comes_on_is_not_given_up() {
    let mut play = running();
    for attempt in 2..=9 {
        play.add(At::session(), SessionLeft {});
        killed(&mut play);
        play.add(At::call(1, 1, CallPath::top(0)), ToolDispatched { attempt });
    }
    for attempt in 10..=12 {
        killed(&mut play);
        play.add(At::call(1, 1, CallPath::top(0)), ToolDispatched { attempt });
    }
    let outcome = Arc::new(Outcome::ended(Ended::Completed));
    play.add(At::call(1, 1, CallPath::top(0)), ToolReturned { attempt: 12, outcome, ms: 0 });
    for _ in 0..3 {
        killed(&mut play);
    }
    assert!(!play.state.is_given_up(), "it came on in between");
    killed(&mut play);
    assert!(play.state.is_given_up());
}

// C-DUR-8, C-ASK-3: a turn that waits for a person runs nothing: its process may go as often as it likes.
#[test]
fn a_turn_that_waits_for_a_person_is_never_given_up() {
    let mut play = Play::to_a_call(false);
    let (at, call) = (At::call(1, 1, CallPath::top(0)), Subject::Call(CallPath::top(0)));
    play.add(
        at.clone(),
        decided(Point::PreExecute, call, handler("pre"), Decision::PreExecute(Gate::ask("sure?"))),
    );
    let CallOwes::Ask { by, reasons } = play.state.call(&CallPath::top(0), Some(Point::Permission)) else {
        panic!("nobody asks")
    };
    let request = RequestId::of(&session(), &CallKey { turn: 1, step: 1, call: CallPath::top(0) });
    let digest = InputRequested::digest_of(&Frozen::arguments(ARGUMENTS).unwrap());
    assert!(play.state.counts_as_killed());
    play.add(at, InputRequested { request, digest, reasons, by, expires: None, deferred: false });
    assert!(!play.state.counts_as_killed());
    for _ in 0..20 {
        killed(&mut play);
    }
    assert!(!play.state.is_given_up());
    assert_eq!(play.state.asks().len(), 1);
}

// C-DUR-8: a compaction that has begun, or has ended, is progress.
#[test]
fn a_turn_that_summarises_comes_on() {
    let mut play = Play::default();
    play.add(At::session(), created());
    play.add(At::session(), config(Limits { compact_at: Some(10), ..Limits::default() }));
    for (turn, queued) in [(1, Seq(2)), (2, Seq(11))] {
        play.add(At::session(), prompt("go"));
        play.law();
        let drafts = play.state.close(Point::PromptSubmit, &Subject::Prompt(queued));
        play.commit(drafts);
        if turn == 2 {
            break;
        }
        let at = At::step(1, 1);
        play.add(at.clone(), StepStart {});
        play.add(at.clone(), header("be brief"));
        play.add(at.clone(), ModelRequested { attempt: 1, digest: None });
        let usage = Some(Usage { input: 90, output: 10 });
        play.add(at, AssistantMessage { usage, ..common::says("done") });
        play.law();
        let drafts = play.state.close(Point::Continuation, &Subject::Step(1));
        play.commit(drafts);
    }
    let kill = |play: &mut Play| {
        for _ in 0..3 {
            killed(play);
            assert!(!play.state.is_given_up());
        }
    };
    kill(&mut play);
    play.law();
    assert_eq!(play.log.last().map(|r| r.body.kind().to_owned()), Some("compaction/started".into()));
    kill(&mut play);
    let ended = play.state.end_compaction(Err("not now".into()));
    play.commit(ended);
    kill(&mut play);
}
