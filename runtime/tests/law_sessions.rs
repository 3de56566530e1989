//! Whole sessions, record by record.

mod common;

use common::{calls, config, created, decided, handler, header, own, prompt, says, sealed, session};
use portcullis_runtime::{
    law::{CallOwes, Next, State},
    *,
};
use std::sync::Arc;

/// A session that is played by hand.
#[derive(Default)]
struct Play {
    state: State,
    log: Vec<Arc<Record>>,
}

impl Play {
    /// Commits, after asking the law whether it owed that.
    #[track_caller]
    fn commit(&mut self, drafts: Vec<Draft>) {
        for draft in drafts {
            let passed = draft.at().call.clone().map(|path| (Point::PostExecute, Subject::Call(path)));
            let owed = self.state.next(None).is_discharged_by(draft.body())
                || self.state.next(passed.as_ref()).is_discharged_by(draft.body());
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

    /// What the law commits without help.
    #[track_caller]
    fn law(&mut self) {
        match self.state.next(None) {
            Next::Commit(drafts) => self.commit(drafts),
            // Nobody looks at the calls together.
            Next::Judge { point: Point::Batch, subject } => self.close(Point::Batch, subject),
            other => panic!("the law owes {other:?}"),
        }
    }

    #[track_caller]
    fn close(&mut self, point: Point, subject: Subject) {
        let drafts = self.state.close(point, &subject);
        assert!(!drafts.is_empty(), "{point} leaves a record");
        self.commit(drafts);
    }

    /// What is owed when nobody stops the turn at this step's end.
    fn unstopped(&self) -> Next {
        self.state.next(Some(&(Point::Stop, Subject::Step(self.state.step_number()))))
    }

    fn step(&self) -> At {
        At::step(self.state.open_turn().expect("a turn"), self.state.step_number())
    }

    fn call(&self) -> (At, Subject) {
        let path = CallPath::top(0);
        (At { call: Some(path.clone()), ..self.step() }, Subject::Call(path))
    }

    #[track_caller]
    fn open(&mut self) {
        let turn = self.state.open_turn().expect("a turn");
        let Next::OpenStep { step } = self.unstopped() else { panic!("{:?}", self.state.next(None)) };
        self.add(At::step(turn, step), StepStart {});
        if self.state.header().is_none() {
            self.add(At::step(turn, step), header("be brief"));
        }
    }

    #[track_caller]
    fn model(&mut self, message: AssistantMessage) {
        self.add(self.step(), ModelRequested { attempt: 1, digest: None });
        assert_eq!(self.state.transcript().last_role(), Some(Role::User), "C-LOG-8");
        self.add(self.step(), message);
    }

    #[track_caller]
    fn hook(&mut self, at: At, decided: DecisionRecorded) {
        self.add(at.clone(), Body::Own(own("hook/invoked", "{}")));
        self.add(at.clone(), Body::Own(own("hook/result", "{}")));
        self.add(at, decided);
    }

    #[track_caller]
    fn run(&mut self) {
        let (at, _) = self.call();
        let CallOwes::Dispatch { attempt } = self.state.call(&CallPath::top(0), Some(Point::Guard)) else {
            panic!("{:?}", self.state.next(None))
        };
        self.add(at.clone(), ToolDispatched { attempt });
        let outcome = Arc::new(Outcome::completed("ok"));
        self.add(at, ToolReturned { attempt, outcome, ms: 1 });
    }

    fn types(&self) -> Vec<String> {
        let name = |r: &Arc<Record>| {
            let mut name = r.body.kind().to_string();
            if let Some(turn) = r.at.turn {
                name += &format!(" {turn}");
            }
            if let Some(step) = r.at.step {
                name += &format!(".{step}");
            }
            if let Some(call) = &r.at.call {
                name += &format!("[{call}]");
            }
            name
        };
        self.log.iter().map(name).collect()
    }
}

fn bash(text: &str) -> AssistantMessage {
    calls(&[("c1", "Bash", text)])
}

// RECORDS.md, "The first session, record by record": 68 records in this order.
#[test]
fn the_first_session() {
    let mut play = Play::default();
    play.add(At::session(), created());
    play.add(At::session(), config(Limits::default()));
    play.add(At::session(), prompt("do it"));
    play.law();
    play.close(Point::PromptSubmit, Subject::Prompt(Seq(2)));

    // A command denied.
    play.open();
    play.model(bash(r#"{"command":"rm -rf /"}"#));
    let (at, call) = play.call();
    let carried = |gate| Decision::Rewrite(Proposal::pass().carrying(gate));
    let rewrite = |decision| decided(Point::Rewrite, call.clone(), handler("pre"), decision);
    play.hook(at.clone(), rewrite(carried(Gate::deny("never"))));
    play.add(at, sealed("c1", "Bash", r#"{"command":"rm -rf /"}"#));
    play.close(Point::PostExecute, call.clone());
    play.law();

    // One rewritten.
    play.open();
    play.model(bash(r#"{"command":"ls"}"#));
    let (at, _) = play.call();
    let effective = Frozen::arguments(r#"{"command":"ls -l"}"#).expect("an object");
    play.hook(at.clone(), rewrite(Decision::Rewrite(Proposal::arguments(effective.clone()))));
    let requested = Frozen::arguments(r#"{"command":"ls"}"#).expect("an object");
    play.add(at.clone(), ToolRewrite { requested, effective, by: handler("pre") });
    play.add(at, sealed("c1", "Bash", r#"{"command":"ls -l"}"#));
    play.run();
    play.close(Point::PostExecute, call.clone());
    play.law();

    // One asked about.
    play.open();
    play.model(bash(r#"{"command":"git push"}"#));
    let (at, _) = play.call();
    play.hook(at.clone(), rewrite(carried(Gate::ask("sure?"))));
    play.add(at.clone(), sealed("c1", "Bash", r#"{"command":"git push"}"#));
    let CallOwes::Ask { by, reasons } = play.state.call(&CallPath::top(0), Some(Point::Permission)) else {
        panic!("nobody asks")
    };
    assert_eq!(
        (by.as_slice(), reasons.as_slice()),
        ([handler("pre")].as_slice(), ["sure?".into()].as_slice())
    );
    let request = RequestId::of(&session(), &CallKey { turn: 1, step: 3, call: CallPath::top(0) });
    let digest = |text| InputRequested::digest_of(&Frozen::arguments(text).unwrap());
    let mut asked = InputRequested {
        request: request.clone(),
        digest: "d".into(),
        reasons,
        by,
        expires: None,
        deferred: false,
    };
    // C-ASK-1: bound to what would run.
    for other in ["d".into(), digest("{}")] {
        asked.digest = other;
        let record = Draft::new(at.clone(), asked.clone()).seal(play.state.head(), 0);
        assert!(play.state.apply(&record).is_err());
    }
    asked.digest = digest(r#"{"command":"git push"}"#);
    play.add(at.clone(), asked);
    assert_eq!(play.state.asks().len(), 1);
    play.add(at, InputResolved { request, resolution: Resolution::Allowed, text: None, by: Source::User });
    assert!(play.state.asks().is_empty());
    play.run();
    play.close(Point::PostExecute, call.clone());
    play.law();

    // A check's output fed back after a write.
    play.open();
    play.model(calls(&[("c1", "Write", "{}")]));
    let (at, _) = play.call();
    play.add(at.clone(), sealed("c1", "Write", "{}"));
    play.run();
    let mut check =
        decided(Point::PostExecute, call.clone(), handler("check"), Decision::PostExecute(Review::accept()));
    check.made.context = vec!["2 warnings".into()];
    play.hook(at, check);
    play.close(Point::PostExecute, call);
    play.law();

    // One refusal to stop.
    play.open();
    play.model(says("finished"));
    play.law();
    let ending = |again| {
        decided(Point::Continuation, again, handler("stop"), Decision::Continuation(Continue::Abstain))
    };
    let mut again = ending(Subject::Step(5));
    again.made.decision = Decision::Continuation(Continue::again("tests fail"));
    play.hook(At::turn(1), again);
    play.close(Point::Continuation, Subject::Step(5));
    play.open();
    play.model(says("now finished"));
    play.law();
    play.hook(At::turn(1), ending(Subject::Step(6)));
    play.close(Point::Continuation, Subject::Step(6));
    assert_eq!(play.state.next(None), Next::Idle);

    let expected = "session/created|config/in-force|prompt/queued|turn/start 1|user/message 1|step/start 1.1|request/header 1.1\
        |model/requested 1.1|assistant/message 1.1|hook/invoked 1.1[0]|hook/result 1.1[0]|decision/recorded 1.1[0]\
        |tool/call 1.1[0]|tool/result 1.1[0]|step/end 1.1\
        |step/start 1.2|model/requested 1.2|assistant/message 1.2|hook/invoked 1.2[0]|hook/result 1.2[0]\
        |decision/recorded 1.2[0]|tool/rewrite 1.2[0]|tool/call 1.2[0]|tool/dispatched 1.2[0]\
        |tool/returned 1.2[0]|tool/result 1.2[0]|step/end 1.2\
        |step/start 1.3|model/requested 1.3|assistant/message 1.3|hook/invoked 1.3[0]|hook/result 1.3[0]\
        |decision/recorded 1.3[0]|tool/call 1.3[0]|input/requested 1.3[0]|input/resolved 1.3[0]\
        |tool/dispatched 1.3[0]|tool/returned 1.3[0]|tool/result 1.3[0]|step/end 1.3\
        |step/start 1.4|model/requested 1.4|assistant/message 1.4|tool/call 1.4[0]|tool/dispatched 1.4[0]\
        |tool/returned 1.4[0]|hook/invoked 1.4[0]|hook/result 1.4[0]|decision/recorded 1.4[0]|tool/result 1.4[0]\
        |context/message 1.4[0]|step/end 1.4\
        |step/start 1.5|model/requested 1.5|assistant/message 1.5|step/end 1.5|hook/invoked 1|hook/result 1\
        |decision/recorded 1|steering/message 1|step/start 1.6|model/requested 1.6|assistant/message 1.6|step/end 1.6\
        |hook/invoked 1|hook/result 1|decision/recorded 1|turn/end 1";
    assert_eq!(play.types(), expected.split('|').collect::<Vec<_>>());
    assert_eq!(play.log.len(), 68);
    let Body::ToolResult(denied) = &play.log[13].body else { panic!("{:?}", play.log[13]) };
    assert_eq!(denied.outcome, Ended::HookDeny { by: handler("pre"), reason: "never".into() });
    let Body::TurnEnd(end) = &play.log[67].body else { panic!("{:?}", play.log[67]) };
    assert_eq!(end.reason, EndReason::Completed);
    common::check::log(&play.log, Limits::default());
    // C-PIPE-9: the model sees the arguments in force; C-LOG-7: the refusal to stop speaks for its owner.
    let transcript = play.state.transcript();
    let shown = transcript.iter().any(|m| match m {
        Message::Assistant { blocks } => blocks.iter().any(
            |b| matches!(b, AssistantBlock::Call { arguments, .. } if &**arguments == r#"{"command":"ls -l"}"#),
        ),
        _ => false,
    });
    assert!(shown);
    let steering = transcript.iter().find_map(|m| match m {
        Message::Steering { content, source } => Some((content.to_text().into_owned(), source.clone())),
        _ => None,
    });
    assert_eq!(steering, Some(("tests fail".into(), Source::owner("policy"))));
}

// RECORDS.md: "A plain one-tool turn (not the first, no handlers): 16 records".
#[test]
fn a_plain_one_tool_turn_is_16_records() {
    let mut play = Play::default();
    play.add(At::session(), created());
    play.add(At::session(), config(Limits::default()));
    for turn in 1..=2 {
        let from = play.log.len();
        let queued = play.state.head();
        play.add(At::session(), prompt("ls"));
        play.law();
        assert_eq!(play.state.open_turn(), Some(turn));
        play.close(Point::PromptSubmit, Subject::Prompt(queued));
        play.open();
        play.model(bash("{}"));
        let (at, call) = play.call();
        play.add(at, sealed("c1", "Bash", "{}"));
        play.run();
        play.close(Point::PostExecute, call);
        play.law();
        play.open();
        play.model(says("done"));
        play.law();
        play.close(Point::Continuation, Subject::Step(2));
        if turn == 2 {
            let types: Vec<&str> = play.log[from..].iter().map(|r| r.body.kind()).collect();
            assert_eq!(
                types,
                [
                    "prompt/queued",
                    "turn/start",
                    "user/message",
                    "step/start",
                    "model/requested",
                    "assistant/message",
                    "tool/call",
                    "tool/dispatched",
                    "tool/returned",
                    "tool/result",
                    "step/end",
                    "step/start",
                    "model/requested",
                    "assistant/message",
                    "step/end",
                    "turn/end",
                ]
            );
        }
    }
}

/// A turn whose batch passed, at its first step's end.
fn one_step(limits: Limits, then: AssistantMessage) -> Play {
    let mut play = Play::default();
    play.add(At::session(), created());
    play.add(At::session(), config(limits));
    play.add(At::session(), prompt("go"));
    play.law();
    play.close(Point::PromptSubmit, Subject::Prompt(Seq(2)));
    play.open();
    play.model(then);
    play
}

// C-TURN-7: eight forced continuations in a row, the ninth ends the turn, visibly.
#[test]
fn forty_forced_continuations_end_at_the_cap() {
    let mut play = one_step(Limits::default(), says("done"));
    play.law();
    for step in 1..=40 {
        let subject = Subject::Step(step);
        let again = Decision::Continuation(Continue::Again { reason: None });
        play.add(At::turn(1), decided(Point::Continuation, subject.clone(), handler("stop"), again));
        play.close(Point::Continuation, subject);
        if play.state.open_turn().is_none() {
            break;
        }
        assert_eq!(play.state.forced_in_a_row(), step);
        play.open();
        play.model(says("done"));
        play.law();
    }
    let Body::TurnEnd(end) = &play.log[play.log.len() - 1].body else { panic!("the turn is open") };
    assert_eq!(end.reason, EndReason::ContinuationCap { limit: 8 });
    // Without a reason the model reads the generic line.
    let transcript = play.state.transcript();
    let said = transcript.iter().filter(|m| match m {
        Message::Steering { content, .. } => content.to_text() == Continue::GENERIC,
        _ => false,
    });
    assert_eq!(said.count(), 8);
}

// C-TURN-4: steering that comes while the turn's end is judged joins the turn.
#[test]
fn steering_at_the_last_moment_joins_the_open_turn() {
    let mut play = one_step(Limits::default(), says("done"));
    play.law();
    let none = Decision::Continuation(Continue::Abstain);
    play.add(At::turn(1), decided(Point::Continuation, Subject::Step(1), handler("stop"), none));
    let seq = play.state.head();
    play.add(At::session(), common::queued(QueueKind::Steering, "wait", Source::User));
    assert!(play.state.close(Point::Continuation, &Subject::Step(1)).is_empty());
    let passed = (Point::Continuation, Subject::Step(1));
    let judge = Next::Judge { point: Point::PromptSubmit, subject: Subject::Prompt(seq) };
    assert_eq!(play.state.next(Some(&passed)), judge);
    play.close(Point::PromptSubmit, Subject::Prompt(seq));
    assert_eq!(play.unstopped(), Next::OpenStep { step: 2 });
}

// C-TURN-9: a cancel drops the turn's steering, recorded; what is sent after it is not lost.
#[test]
fn a_cancel_drops_the_steering_before_it_only() {
    let mut play = one_step(Limits::default(), says("done"));
    let before = play.state.head();
    play.add(At::session(), common::queued(QueueKind::Steering, "left", Source::User));
    play.add(At::turn(1), TurnCancelled { by: Source::User, cause: CauseName(Cause::User) });
    let after = play.state.head();
    play.add(At::session(), common::queued(QueueKind::Steering, "right", Source::User));
    play.law();
    play.law();
    let Body::TurnEnd(end) = &play.log[play.log.len() - 1].body else { panic!("the turn is open") };
    assert_eq!(end.dropped, [before]);
    assert_eq!(play.state.waiting().collect::<Vec<_>>(), [after]);
    let Next::Commit(drafts) = play.state.next(None) else { panic!("a prompt waits") };
    assert_eq!(*drafts[0].body(), TurnStart { takes: vec![after] }.into());
}

// C-TURN-11: a session resumed within a turn has its start judged in the next one.
#[test]
fn a_resume_within_a_turn_is_owed_to_the_next() {
    let mut play = one_step(Limits::default(), says("done"));
    let resumed = play.state.head();
    play.add(At::session(), SessionResumed {});
    play.law();
    play.close(Point::Continuation, Subject::Step(1));
    assert_eq!(play.state.starts_owed(), [(resumed, StartSource::Resume)]);
    play.add(At::session(), prompt("again"));
    play.law();
    let judge = Next::Judge { point: Point::SessionStart, subject: Subject::Session(resumed) };
    assert_eq!(play.state.next(None), judge);
}

// C-TURN-1, C-LOG-7: what code sends is not judged as a user's prompt and keeps its owner.
#[test]
fn steering_of_code_with_no_turn_open_is_not_judged() {
    let mut play = Play::default();
    play.add(At::session(), created());
    play.add(At::session(), common::queued(QueueKind::Steering, "look", Source::owner("app")));
    play.law();
    assert!(matches!(play.state.next(None), Next::Judge { point: Point::SessionStart, .. }));
    let passed = (Point::SessionStart, Subject::Session(Seq(0)));
    let Next::Commit(drafts) = play.state.next(Some(&passed)) else { panic!("it is not judged") };
    let message = UserMessage { content: "look".into(), source: Source::owner("app"), from: Seq(1) };
    assert_eq!(drafts, [Draft::new(At::turn(1), message)]);
}

// C-TURN-6, C-DUR-3: context is earned once, also when the log ends between two of its messages.
#[test]
fn earned_context_is_written_once() {
    let mut play = one_step(Limits::default(), bash("{}"));
    let (at, call) = play.call();
    play.add(at.clone(), sealed("c1", "Bash", "{}"));
    play.run();
    let mut check =
        decided(Point::PostExecute, call.clone(), handler("check"), Decision::PostExecute(Review::accept()));
    check.made.context = vec!["one".into(), "two".into()];
    play.add(at, check);
    play.close(Point::PostExecute, call);
    let judged = (Point::Batch, Subject::Batch(1));
    let Next::Commit(drafts) = play.state.next(Some(&judged)) else { panic!("context is owed") };
    assert_eq!(drafts.len(), 3);
    play.commit(vec![drafts[0].clone()]);
    let folded = State::fold(&play.log).expect("a valid log");
    assert_eq!(folded.next(None), Next::Commit(drafts[1..].to_vec()));
}

// C-PIPE-2, C-DUR-1: a recorded denial is the call's outcome, also when the turn is cancelled before its result.
#[test]
fn a_recorded_denial_outlives_a_cancel() {
    let mut play = one_step(Limits::default(), bash("{}"));
    let (at, call) = play.call();
    play.add(at.clone(), sealed("c1", "Bash", "{}"));
    let deny = Decision::PreExecute(Gate::deny("never"));
    play.add(at, decided(Point::PreExecute, call, handler("gate"), deny));
    play.add(At::turn(1), TurnCancelled { by: Source::User, cause: CauseName(Cause::User) });
    play.law();
    let Body::ToolResult(result) = &play.log[play.log.len() - 1].body else { panic!("no result") };
    assert_eq!(result.outcome, Ended::HookDeny { by: handler("gate"), reason: "never".into() });
}

// C-ID-4, C-LOG-4: a body that is gone leaves no call of its own behind.
#[test]
fn a_call_left_behind_is_answered_before_its_parents_result() {
    let mut play = one_step(Limits::default(), bash("{}"));
    let (at, _) = play.call();
    let nested = CallPath::top(0).nested(0);
    let within = At { call: Some(nested.clone()), ..at.clone() };
    play.add(at.clone(), sealed("c1", "Bash", "{}"));
    play.add(at, ToolDispatched { attempt: 1 });
    play.add(within, sealed("n", "Read", "{}"));
    play.add(At::session(), SessionResumed {});
    // The parent's body will not come back.
    let Next::Call { path, .. } = play.state.next(None) else { panic!("{:?}", play.state.next(None)) };
    assert_eq!(path, nested);
    play.law_of_call();
    let Body::ToolResult(result) = &play.log[play.log.len() - 1].body else { panic!("no result") };
    assert_eq!(result.outcome, Ended::CancelledBeforeDispatch { cause: CauseName(Cause::Parent) });
    play.law_of_call();
    let Body::ToolReturned(returned) = &play.log[play.log.len() - 1].body else { panic!("no outcome") };
    assert_eq!(returned.outcome.ended, Ended::OutcomeUnknown);
    let (_, call) = play.call();
    play.close(Point::PostExecute, call);
    play.law();
    assert_eq!(play.unstopped(), Next::OpenStep { step: 2 });
}

impl Play {
    #[track_caller]
    fn law_of_call(&mut self) {
        match self.state.next(None) {
            Next::Call { owes: CallOwes::Commit(drafts), .. } => self.commit(drafts),
            other => panic!("the law owes {other:?}"),
        }
    }
}

// C-TURN-8: only the compaction that is due may begin, only it may end, and nothing else happens in between.
#[test]
fn a_compaction_of_anything_else_is_refused() {
    let mut play = Play::default();
    play.add(At::session(), created());
    play.add(At::session(), config(Limits { compact_at: Some(100), ..Limits::default() }));
    for (turn, tokens) in [(1, 100), (2, 0)] {
        play.add(At::session(), prompt("hello"));
        play.law();
        play.close(Point::PromptSubmit, Subject::Prompt(Seq(play.log.len() as u64 - 2)));
        if turn == 1 {
            play.open();
            let usage = Some(Usage { input: tokens - 1, output: 1 });
            play.model(AssistantMessage { usage, ..says("hello") });
            play.law();
            play.close(Point::Continuation, Subject::Step(1));
        }
    }
    let refused = |state: &State, body: Body| {
        let record = Draft::new(At::turn(2), body).seal(state.head(), 0);
        state.clone().apply(&record).expect_err("refused").why
    };
    let begun = play.log.iter().rev().find(|r| r.body.kind() == "turn/start").expect("a turn").seq;
    let due = CompactionStarted { from: Seq(0), to: Seq(begun.0 - 1), tokens: 100 };
    for other in [
        CompactionStarted { from: Seq(1), ..due.clone() },
        CompactionStarted { to: begun, ..due.clone() },
        CompactionStarted { from: due.to, to: due.from, ..due.clone() },
        CompactionStarted { tokens: 99, ..due.clone() },
    ] {
        assert_eq!(refused(&play.state, other.into()), "no such compaction is due");
    }
    let step = Draft::new(At::step(2, 1), StepStart {}).seal(play.state.head(), 0);
    let early = play.state.clone().apply(&step).expect_err("refused");
    assert_eq!(early.why, "the conversation is to be summarised first");
    let ended = |from, to, summary: Option<&str>, skipped: Option<&str>| CompactionEnded {
        from,
        to,
        summary: summary.map(Into::into),
        skipped: skipped.map(Into::into),
    };
    let none = ended(due.from, due.to, Some("so"), None);
    assert_eq!(refused(&play.state, none.into()), "no compaction is under way");
    play.law();
    assert_eq!(refused(&play.state, due.clone().into()), "a compaction is under way");
    let fail =
        TurnEnd { reason: EndReason::Error { code: "c".into(), message: "m".into() }, dropped: vec![] };
    assert_eq!(refused(&play.state, fail.into()), "a compaction is under way");
    // A failure that no rule answers closes it, too.
    let mut failed = play.state.clone();
    for draft in failed.fail("c", "m") {
        failed.apply(&draft.seal(failed.head(), 0)).expect("closed before the turn's end");
    }
    assert_eq!(failed.open_turn(), None);
    let (from, to) = (due.from, due.to);
    for (end, why) in [
        (ended(from, begun, Some("so"), None), "it is about another range"),
        (ended(from, to, None, None), "there is neither a summary nor a reason"),
        (ended(from, to, Some("so"), Some("no")), "there is a summary, so nothing was skipped"),
        (ended(from, to, Some(""), None), "a message says something"),
    ] {
        assert_eq!(refused(&play.state, end.into()), why);
    }
    let subject = play.state.compaction().expect("under way").subject;
    let skip = Decision::Compaction(Compact::skip("no"));
    let (mut skipped, mut log) = (play.state.clone(), 0);
    let skips = decided(Point::Compaction, subject, handler("h"), skip);
    for body in [skips.into(), ended(from, to, Some("so"), None).into()] as [Body; 2] {
        let applied = skipped.apply(&Draft::new(At::turn(2), body).seal(skipped.head(), 0));
        assert_eq!(applied.err().map(|e| e.why), (log == 1).then_some("a handler left it as it is"));
        log += 1;
    }
    play.commit(play.state.end_compaction(Ok("so".into())));
    let said: Vec<_> = play.state.transcript().iter().map(Message::role).collect();
    assert_eq!(said, [Role::User, Role::User], "the summary, and the prompt that is not answered yet");
    let Next::Judge { point: Point::Compacted, subject } = play.state.next(None) else {
        panic!("nobody is told")
    };
    assert!(matches!(play.state.next(Some(&(Point::Compacted, subject))), Next::OpenStep { step: 1 }));
}
