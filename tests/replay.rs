//! C-DUR-7: a log plays again from its own answers. Every test that ends with `support::sound` shows it for its sessions, too.

mod support;

use portcullis::*;
use std::sync::Arc;
use support::{Says, calls, echo, say, within};

/// A log of the example session: hooks that deny, rewrite, ask, add context and force the turn on.
const LOG: &str = include_str!("fixtures/first-session.jsonl");

fn log() -> Vec<Arc<Record>> {
    archive::read(LOG).unwrap().remove(0).records
}

// The build with the feature `fault-projection` shows the model what it asked for, and not what a rewrite left: the first
// request that carries a rewritten call is another one, and the replay says so. `scripts/check faults` runs this.
#[tokio::test]
async fn an_altered_rule_of_the_projection_is_found_at_the_first_request_that_it_changes() {
    let log = log();
    let replayed = within(replay(log.clone())).await.unwrap();
    assert_eq!(replayed.called, 0);
    if !cfg!(feature = "fault-projection") {
        assert_eq!(replayed.divergence, None);
        assert_eq!(replayed.records, log.len() as u64);
        let requests = log.iter().filter(|r| matches!(r.body, Body::ModelRequested(_))).count();
        assert_eq!(replayed.taken.requests, requests as u64);
        return;
    }
    let rewrite = log.iter().position(|r| matches!(r.body, Body::ToolRewrite(_))).unwrap();
    let request = log[rewrite..].iter().find(|r| matches!(r.body, Body::ModelRequested(_))).unwrap();
    let found = replayed.divergence.expect("a divergence");
    assert_eq!((found.seq, found.recorded.as_ref()), (request.seq, Some(request)));
    let (Some(Body::ModelRequested(was)), Some(Body::ModelRequested(is))) =
        (found.recorded.as_ref().map(|r| &r.body), found.replayed.as_ref().map(|r| &r.body))
    else {
        panic!("{found:?}")
    };
    assert_eq!(was.attempt, is.attempt);
    assert_ne!(was.digest, is.digest);
}

// The first divergence, whatever it is: another answer, a record too few, a record too many.
#[cfg(not(feature = "fault-projection"))]
#[tokio::test]
async fn what_a_log_cannot_have_come_to_is_named() {
    let log = log();
    let altered = |n: usize, body: Body| {
        let mut log = log.clone();
        log[n] = Arc::new(Record { body, ..Record::clone(&log[n]) });
        log
    };
    let end = log.len() - 1;
    let Body::TurnEnd(_) = &log[end].body else { panic!("it ends with its turn") };
    // Ended otherwise than the law ends it.
    let failed = TurnEnd { reason: EndReason::Interrupted, dropped: Vec::new() };
    let found = within(replay(altered(end, failed.into()))).await.unwrap().divergence.unwrap();
    assert_eq!(found.seq, Seq(end as u64));
    assert_eq!(found.replayed.unwrap().body, log[end].body);
    // A log that ends earlier is no divergence: its process went there.
    let cut = within(replay(log[..end].to_vec())).await.unwrap();
    assert_eq!((cut.divergence, cut.records), (None, end as u64));
    let result = log.iter().position(|r| matches!(r.body, Body::ToolResult(_))).unwrap();
    let Body::ToolResult(was) = &log[result].body else { unreachable!() };
    let other = ToolResult { content: "something else".into(), ..was.clone() };
    let found = within(replay(altered(result, other.into()))).await.unwrap().divergence.unwrap();
    assert_eq!((found.seq.0, &found.replayed.unwrap().body), (result as u64, &log[result].body));
    assert!(matches!(replay(Vec::new()).await, Err(ReplayError::Empty)));
    assert!(matches!(replay(log[1..].to_vec()).await, Err(ReplayError::Unlawful(_))));
}

// C-DUR-7, C-SUB-1: a subagent's log is played by itself; a fork's from where it is its own.
#[tokio::test]
async fn subagents_and_forks_play_again() {
    let model = Says::by_prompt(|prompt, said| match (prompt, said) {
        ("go", 0) => {
            calls(&[("Agent", r#"{"description":"d","prompt":"dig"}"#), ("Echo", r#"{"text":"a"}"#)])
        }
        ("dig", 0) => calls(&[("Echo", r#"{"text":"b"}"#)]),
        (prompt, _) => say(prompt),
    });
    let journal = MemoryJournal::new();
    let runtime = Runtime::builder(model)
        .journal(journal.clone())
        .tools([echo(&Arc::default())])
        .tool(agent_tool(vec![AgentKind::new("digger", "Digs.")]).unwrap())
        .start()
        .await
        .unwrap();
    let session = runtime.session("s").await.unwrap();
    assert!(within(session.prompt("go").await.unwrap().into_future()).await.is_success());
    runtime.fork("s", ForkAt::Step(1, 1), "f").await.unwrap();
    let fork = runtime.session("f").await.unwrap();
    assert!(within(fork.prompt("more").await.unwrap().into_future()).await.is_success());
    runtime.shutdown(support::PATIENCE).await;
    let mut copied = Vec::new();
    for head in journal.sessions().await.unwrap() {
        copied.push(support::replays(journal.records(&head.session)).await.copied > 0);
    }
    assert_eq!(copied, [true, false, false], "the fork, its parent, the subagent");
}

// C-DUR-2, 7: what a handler that may not run twice leaves before it runs is in the log, and comes out the same.
#[tokio::test]
async fn handlers_that_run_once_play_again() {
    let journal = MemoryJournal::new();
    let house = support::Plan::new(Says::calls(&[("Echo", r#"{"text":"x"}"#)]))
        .journal(&journal)
        .open(|at| {
            at.pre_execute("before", async |_| Gate::allow());
            at.once(|at| {
                at.pre_execute("counts", async |_| Gate::allow());
                at.post_execute("counts", async |_| Review::accept());
            });
            at.pre_execute("behind", async |_| Gate::allow());
        })
        .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let log = journal.records(&SessionId::new("s").unwrap());
    let begun = log.iter().filter(|r| matches!(r.body, Body::DecisionBegun(_))).count();
    assert_eq!(begun, 2);
    support::replays(log).await;
    house.close().await;
}
