//! Compaction: a conversation that has grown to the limit is summarised before the next request.

mod support;

use futures::StreamExt;
use portcullis::*;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use support::*;

const LIMIT: u64 = 100;

fn text(message: &Message) -> String {
    match message {
        Message::User { content, .. }
        | Message::Context { content, .. }
        | Message::Steering { content, .. } => content.to_text().into_owned(),
        Message::Assistant { .. } => "(said)".into(),
        Message::Result { content, .. } => format!("result {}", content.to_text()),
        other => panic!("{other:?}"),
    }
}

fn texts(request: &ModelRequest) -> Vec<String> {
    request.messages.iter().map(text).collect()
}

fn is_summary_request(request: &ModelRequest) -> bool {
    request.messages.last().is_some_and(|m| text(m).starts_with("The conversation has grown too long"))
}

/// Says `summary` to a request for one, and otherwise what `answer` says to the last message.
fn model(answer: impl Fn(&str) -> Vec<ModelEvent> + Send + Sync + 'static) -> Says {
    Says::stream(move |request| {
        events(match is_summary_request(request) {
            true => say("bread was given"),
            false => answer(&request.messages.last().map(text).unwrap_or_default()),
        })
    })
}

/// Calls once in its first turn, which makes the conversation large.
fn large_after_the_first_turn() -> Says {
    model(|last| match last {
        "go" => costing(60, calls(&[("Echo", r#"{"text":"bread"}"#)])),
        "result bread" => costing(LIMIT, say("given")),
        _ => costing(20, say("done")),
    })
}

const SUMMARY: &str = "The conversation so far was summarised to save space.\n\nbread was given";

fn ended(house: &House) -> Vec<CompactionEnded> {
    let log = house.log();
    let of = log.iter().filter_map(|r| match &r.body {
        Body::CompactionEnded(ended) => Some(ended.clone()),
        _ => None,
    });
    of.collect()
}

fn skipped(house: &House) -> Vec<String> {
    ended(house).iter().map(|e| e.skipped.as_ref().expect("skipped").to_string()).collect()
}

// C-TURN-8: what lay behind is one message of a user's; the turn's own prompt stands as it was sent.
#[tokio::test]
async fn a_summary_replaces_the_turns_before() {
    let sources = Arc::new(Mutex::new(Vec::new()));
    let seen = sources.clone();
    let house = Plan::new(large_after_the_first_turn())
        .compact_at(LIMIT)
        .open(move |at| {
            at.session_start("source", move |start: Starting| {
                seen.lock().unwrap().push(start.source);
                async { Reply::new(Started {}).context("house rules") }
            });
        })
        .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let (_, end, cost) = house.session.prompt("second").await.unwrap().done().await;
    assert_eq!(end, EndReason::Completed);
    assert_eq!(cost.barriers, 4, "the prompt, the summary's request, the turn's, the end");
    assert_eq!(house.prompt("third").await, EndReason::Completed);
    let requests = house.model.requests();
    let first = ["house rules", "go", "(said)", "result bread", "(said)"];
    assert_eq!(texts(&requests[2])[..5], first, "the summary's request has all that it will stand for");
    assert_eq!(requests[2].messages.len(), 6);
    assert_eq!(requests[2].messages.last_role(), Some(Role::User));
    assert!(is_summary_request(&requests[2]));
    assert_eq!(requests[2].header, requests[1].header, "under the header that it was held under");
    assert_eq!(texts(&requests[3]), [SUMMARY, "second"]);
    assert_eq!(texts(&requests[4]), [SUMMARY, "second", "(said)", "house rules", "third"]);
    // C-TURN-11: a start of its own, with the turn behind it.
    assert_eq!(*sources.lock().unwrap(), [StartSource::Startup, StartSource::Compact]);
    // The log keeps everything; the summary stands beside it, with the range that it stands for.
    assert_eq!(house.count("user/message"), 3);
    let log = house.log();
    let at = |kind: &str| log.iter().position(|r| r.body.kind() == kind).unwrap();
    let turn = log.iter().filter(|r| r.body.kind() == "turn/start").nth(1).unwrap().seq;
    let Body::CompactionStarted(started) = &log[at("compaction/started")].body else { panic!() };
    assert_eq!(*started, CompactionStarted { from: Seq(0), to: Seq(turn.0 - 1), tokens: LIMIT });
    assert_eq!(at("compaction/ended"), at("compaction/started") + 1);
    house.close().await;
}

// C-TURN-8: within a turn the request that follows still ends on a user's side, though nothing else is left.
#[tokio::test]
async fn a_summary_stands_for_the_steps_of_a_turn_that_goes_on() {
    let house = Plan::new(model(|last| match last {
        "go" => costing(LIMIT, calls(&[("Echo", r#"{"text":"bread"}"#)])),
        _ => costing(20, say("done")),
    }))
    .compact_at(LIMIT)
    .open(|_| {})
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.ran(), ["bread"]);
    let requests = house.model.requests();
    assert_eq!(texts(&requests[1])[..3], ["go", "(said)", "result bread"]);
    assert_eq!(texts(&requests[2]), [SUMMARY]);
    assert_eq!(requests[2].messages.last_role(), Some(Role::User));
    house.close().await;
}

#[tokio::test]
async fn what_handlers_want_kept_is_asked_for_in_their_order() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let saw = seen.clone();
    let house = Plan::new(large_after_the_first_turn())
        .compact_at(LIMIT)
        .open(move |at| {
            at.compaction("first", move |compacting: Compacting| {
                saw.lock().unwrap().push((compacting.tokens, compacting.limit, compacting.messages));
                async { Compact::keeping("Keep the recipe.") }
            });
            at.compaction("quiet", async |_| Compact::proceed());
            at.compaction("second", async |_| Compact::keeping("Keep the oven."));
        })
        .await;
    house.prompt("go").await;
    assert_eq!(house.prompt("second").await, EndReason::Completed);
    let asked = texts(&house.model.requests()[2]).pop().unwrap();
    assert!(asked.ends_with("\n\nKeep the recipe.\n\nKeep the oven."), "{asked}");
    assert_eq!(*seen.lock().unwrap(), [(LIMIT, LIMIT, 4)]);
    house.close().await;
}

// C-PIPE-3: one that skips wins over any that proceed, and a failing one skips: nothing is summarised away.
#[tokio::test]
async fn a_skip_or_a_failure_leaves_the_conversation_as_it_is() {
    for broken in [false, true] {
        let house = Plan::new(large_after_the_first_turn())
            .compact_at(LIMIT)
            .open(move |at| {
                at.compaction("keen", async |_| Compact::proceed());
                at.compaction("no", async move |_| {
                    assert!(!broken, "down");
                    Compact::skip("a demo runs")
                });
            })
            .await;
        house.prompt("go").await;
        assert_eq!(house.prompt("second").await, EndReason::Completed);
        let requests = house.model.requests();
        assert!(!requests.iter().any(is_summary_request));
        assert_eq!(texts(&requests[2]), ["go", "(said)", "result bread", "(said)", "second"]);
        let why = if broken {
            "A policy check failed, so the conversation was not summarised."
        } else {
            "a demo runs"
        };
        assert_eq!(skipped(&house), [why]);
        // The model has counted anew, and there is room.
        assert_eq!(house.prompt("third").await, EndReason::Completed);
        assert_eq!(ended(&house).len(), 1);
        house.close().await;
    }
}

// A turn that comes to nothing, too, leaves the conversation as large as it was: the next one asks again.
#[tokio::test]
async fn what_was_skipped_is_asked_about_again_in_the_next_turn() {
    let model = model(|last| match last {
        "go" => costing(LIMIT, say("hello")),
        "fails" => vec![],
        _ => costing(20, say("done")),
    });
    let house = Plan::new(model)
        .compact_at(LIMIT)
        .open(|at| {
            at.compaction("later", async |c: Compacting| match c.scene.turn {
                2 => Compact::skip("not now"),
                _ => Compact::proceed(),
            });
        })
        .await;
    house.prompt("go").await;
    assert!(matches!(house.prompt("fails").await, EndReason::Error { .. }));
    assert_eq!(house.prompt("third").await, EndReason::Completed);
    let summaries: Vec<bool> = ended(&house).iter().map(|e| e.summary.is_some()).collect();
    assert_eq!(summaries, [false, true]);
    assert_eq!(texts(house.model.requests().last().unwrap()), [SUMMARY, "third"]);
    house.close().await;
}

// C-TURN-11: a session that is taken up again after its conversation was summarised starts twice, once for each.
#[tokio::test]
async fn a_resume_after_a_compaction_is_told_beside_it() {
    let sources = Arc::new(Mutex::new(Vec::new()));
    let open = |journal: &MemoryJournal, quiet: bool| {
        let seen = sources.clone();
        Plan::new(large_after_the_first_turn()).compact_at(LIMIT).journal(journal).open(move |at| {
            at.session_start("source", move |start: Starting| {
                seen.lock().unwrap().push(start.source);
                let said = Reply::new(Started {});
                async move { if quiet { said } else { said.context(start.source.name()) } }
            });
        })
    };
    for quiet in [true, false] {
        sources.lock().unwrap().clear();
        let journal = MemoryJournal::new();
        let house = open(&journal, quiet).await;
        house.prompt("go").await;
        house.prompt("second").await;
        assert_eq!(ended(&house).len(), 1);
        house.close().await;
        let again = open(&journal, quiet).await;
        assert_eq!(again.prompt("third").await, EndReason::Completed);
        let all = [StartSource::Startup, StartSource::Compact, StartSource::Resume];
        assert_eq!(*sources.lock().unwrap(), all, "quiet: {quiet}");
        let told = texts(again.model.requests().last().unwrap());
        let rest: &[&str] = if quiet { &["third"] } else { &["compact", "resume", "third"] };
        assert_eq!(told[told.len() - rest.len()..], *rest);
        again.close().await;
    }
}

// C-DUR-1: killed while that start is judged, it is judged, and not taken for the resume.
#[tokio::test]
async fn a_start_after_a_compaction_outlives_a_kill() {
    let sources = Arc::new(Mutex::new(Vec::new()));
    let open = |journal: &MemoryJournal| {
        let seen = sources.clone();
        Plan::new(large_after_the_first_turn()).compact_at(LIMIT).journal(journal).open(move |at| {
            at.session_start("source", move |start: Starting| {
                seen.lock().unwrap().push(start.source);
                async { Started {} }
            });
        })
    };
    let house = open(&MemoryJournal::new()).await;
    for prompt in ["go", "second", "third"] {
        house.prompt(prompt).await;
    }
    let log = house.log();
    house.close().await;
    let third = log.iter().rposition(|r| r.body.kind() == "turn/start").unwrap();
    sources.lock().unwrap().clear();
    let journal = MemoryJournal::new();
    journal.preload(&SessionId::new("s").unwrap(), log[..=third].to_vec());
    let again = open(&journal).await;
    while again.count("turn/end") < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(*sources.lock().unwrap(), [StartSource::Compact, StartSource::Resume]);
    again.close().await;
}

// C-SUB-4: what a subagent reports outlives the summary of its own words.
#[tokio::test]
async fn a_subagent_that_was_summarised_and_then_failed_reports_the_summary() {
    let model = Says::stream(|request| {
        let last = request.messages.last().map(text).unwrap_or_default();
        let agent = ("Agent", r#"{"description":"dig","prompt":"dig","subagent_type":"digger"}"#);
        if is_summary_request(request) {
            return events(say("bread was given"));
        }
        events(match &*last {
            "go" => calls(&[agent]),
            "dig" => costing(LIMIT, calls(&[("Echo", r#"{"text":"bread"}"#)])),
            SUMMARY => vec![],
            _ => say("done"),
        })
    });
    let house = Plan::new(model).agents().compact_at(LIMIT).open(|_| {}).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let report = house.results()[0].content.to_text().into_owned();
    assert!(report.contains("bread was given"), "{report}");
    house.close().await;
}

#[tokio::test]
async fn a_halt_at_compaction_ends_the_turn_and_asks_for_no_summary() {
    let house = Plan::new(large_after_the_first_turn())
        .compact_at(LIMIT)
        .open(|at| {
            at.compaction("enough", async |_| Reply::new(Compact::proceed()).halt("enough for today"));
        })
        .await;
    house.prompt("go").await;
    let by = HandlerId::new("house", "enough");
    assert_eq!(house.prompt("second").await, EndReason::Halted { by, reason: "enough for today".into() });
    assert!(!house.model.requests().iter().any(is_summary_request));
    assert_eq!(skipped(&house), ["enough for today"]);
    house.close().await;
}

// C-TURN-10: a summary that cannot be had costs its room and no turn.
#[tokio::test]
async fn a_model_that_gives_no_summary_costs_nothing_else() {
    type Answer = Vec<Result<ModelEvent, ModelError>>;
    let silent: Answer = say(" ").into_iter().map(Ok).collect();
    let fatal: Answer = vec![Err(ModelError::Fatal { message: "busy".into() })];
    let cut: Answer = Vec::new();
    let ending = |finish| [Ok(ModelEvent::Text("I would".into())), Ok(ModelEvent::Finish(finish))];
    let whole = "The model gave no whole summary.";
    for (answer, why) in [
        (silent, whole),
        (ending(Finish::MaxTokens).to_vec(), whole),
        (ending(Finish::Refused { reason: "no".into() }).to_vec(), whole),
        (ending(Finish::Calls).to_vec(), whole),
        (fatal, "The model could not be asked for a summary: busy"),
        (cut, "The model could not be asked for a summary: "),
    ] {
        let house =
            Plan::new(Says::stream(move |request| match request.messages.last().map(text).as_deref() {
                _ if is_summary_request(request) => futures::stream::iter(answer.clone()).boxed(),
                Some("go") => events(costing(LIMIT, say("hello"))),
                _ => events(costing(20, say("done"))),
            }))
            .compact_at(LIMIT)
            .open(|_| {})
            .await;
        house.prompt("go").await;
        assert_eq!(house.prompt("second").await, EndReason::Completed);
        assert_eq!(texts(house.model.requests().last().unwrap()), ["go", "(said)", "second"]);
        assert!(skipped(&house)[0].starts_with(why), "{:?}", skipped(&house));
        house.close().await;
    }
}

// C-TURN-9: cancelled while the summary is written, the bracket is closed before the turn ends.
#[tokio::test]
async fn a_cancel_while_the_model_summarises_closes_the_bracket_and_the_turn() {
    let (asked, mut waits) = tokio::sync::mpsc::unbounded_channel();
    let house = Plan::new(Says::stream(move |request| match request.messages.last().map(text).as_deref() {
        _ if is_summary_request(request) => {
            let _ = asked.send(());
            futures::stream::pending().boxed()
        }
        Some("go") => events(costing(LIMIT, say("hello"))),
        _ => events(costing(20, say("done"))),
    }))
    .compact_at(LIMIT)
    .open(|_| {})
    .await;
    house.prompt("go").await;
    let turn = house.session.prompt("second").await.unwrap();
    waits.recv().await.unwrap();
    assert_eq!(house.session.cancel(Cause::User).await, Ok(true));
    assert!(matches!(turn.await, EndReason::Aborted { .. }));
    assert_eq!(skipped(&house), ["The turn was cancelled."]);
    let kinds: Vec<_> = house.log().iter().rev().take(3).map(|r| r.body.kind().to_owned()).collect();
    assert_eq!(kinds, ["turn/end", "compaction/ended", "turn/cancelled"]);
    house.close().await;
}

// C-DUR-1: killed at any record of it, the compaction is finished, and what was decided is not asked again.
#[tokio::test]
async fn a_killed_process_finishes_the_compaction() {
    let asked = Arc::new(Mutex::new(0));
    let open = |journal: &MemoryJournal| {
        let asked = asked.clone();
        Plan::new(large_after_the_first_turn()).compact_at(LIMIT).journal(journal).open(move |at| {
            at.compaction("count", move |_: Compacting| {
                *asked.lock().unwrap() += 1;
                async { Compact::proceed() }
            });
        })
    };
    let whole = open(&MemoryJournal::new()).await;
    whole.prompt("go").await;
    whole.prompt("second").await;
    let log = whole.log();
    let begun = log.iter().position(|r| r.body.kind() == "compaction/started").unwrap();
    let over = log.iter().position(|r| r.body.kind() == "compaction/ended").unwrap();
    whole.close().await;
    for cut in begun + 1..=over + 1 {
        *asked.lock().unwrap() = 0;
        let journal = MemoryJournal::new();
        journal.preload(&SessionId::new("s").unwrap(), log[..cut].to_vec());
        let again = open(&journal).await;
        while again.count("turn/end") < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let decided = log[..cut].iter().any(|r| r.body.kind() == "decision/recorded");
        assert_eq!(*asked.lock().unwrap(), i32::from(!decided), "cut at {cut}");
        assert_eq!(texts(again.model.requests().last().unwrap()), [SUMMARY, "second"]);
        assert_eq!(ended(&again).len(), 1);
        again.close().await;
    }
}
