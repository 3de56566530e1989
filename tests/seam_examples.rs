//! The examples of docs/seams.md: each is a handler that runs here, and the page quotes it as it stands.

mod support;

use portcullis::*;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use support::*;

fn session_start(at: &mut Registrar<'_>) {
    at.session_start("where", async |start| {
        Reply::new(Started {}).context(format!("You work in {}.", start.scene.session.cwd.display()))
    });
}

#[tokio::test]
async fn session_start_adds_context() {
    let house = house(&[], session_start).await;
    house.prompt("hello").await;
    let first = house.model.requests()[0].messages.iter().next().cloned();
    let expect = Message::Context { content: "You work in /.".into(), source: Source::owner("house") };
    assert_eq!(first, Some(expect));
    house.close().await;
}

fn subagent_start(at: &mut Registrar<'_>) {
    at.subagent_start("brief", async |child| {
        let kind = child.scene.session.kind().cloned().unwrap_or_default();
        Reply::new(Started {}).context(format!("You are a {kind}. Report in one line."))
    });
}

const DIG: (&str, &str) = ("Agent", r#"{"description":"dig","prompt":"dig","subagent_type":"digger"}"#);

fn digging() -> Plan {
    let model = Says::by_prompt(|prompt, said| match (prompt, said) {
        ("dig", _) => say("gold"),
        (_, 0) => calls(&[DIG]),
        _ => say("done"),
    });
    Plan::new(model).agents()
}

#[tokio::test]
async fn subagent_start_adds_context() {
    let house = digging().open(subagent_start).await;
    house.prompt("go").await;
    let child = house.model.requests()[1].messages.iter().next().cloned();
    assert!(
        matches!(child, Some(Message::Context { content, .. }) if content.to_text().starts_with("You are a digger"))
    );
    house.close().await;
}

fn prompt_submit(at: &mut Registrar<'_>) {
    at.prompt_submit("no-secrets", async |prompt| {
        if prompt.content.to_text().contains("BEGIN PRIVATE KEY") {
            return Reply::new(Submit::block("A private key does not belong in a prompt."));
        }
        Reply::new(Submit::allow()).context("Nobody sees this prompt but you.")
    });
}

#[tokio::test]
async fn prompt_submit_blocks() {
    let house = house(&[], prompt_submit).await;
    let end = house.prompt("-----BEGIN PRIVATE KEY-----").await;
    assert_eq!(end, EndReason::Rejected { reason: "A private key does not belong in a prompt.".into() });
    assert_eq!(house.prompt("hello").await, EndReason::Completed);
    house.close().await;
}

fn rewrite(at: &mut Registrar<'_>) {
    at.tools("Echo", |at| {
        at.rewrite("quiet", async |call| {
            let text = call.so_far.text().replace("LOUD", "quiet");
            Ok::<_, Refused>(Proposal::arguments(Frozen::arguments(text)?))
        });
    });
}

#[tokio::test]
async fn rewrite_replaces_the_arguments() {
    let house = house(&[("Echo", r#"{"text":"LOUD"}"#)], rewrite).await;
    house.prompt("go").await;
    assert_eq!(house.ran(), ["quiet"]);
    house.close().await;
}

fn pre_execute(at: &mut Registrar<'_>) {
    at.tools("Echo", |at| {
        at.pre_execute("length", async |call| {
            let text = call.arguments.root().get("text").and_then(|text| text.as_str());
            match text.map_or(0, |text| text.len()) {
                10.. => Gate::deny("Nine characters at most."),
                6.. => Gate::ask("longer than usual"),
                _ => Gate::allow(),
            }
        });
    });
}

#[tokio::test]
async fn pre_execute_denies_asks_and_allows() {
    let three = [
        ("Echo", r#"{"text":"ok"}"#),
        ("Echo", r#"{"text":"longer"}"#),
        ("Echo", r#"{"text":"much longer"}"#),
    ];
    let house = house(&three, pre_execute).await;
    house.prompt("go").await;
    assert_eq!(house.ends(), ["completed", "approval_unavailable", "hook_deny"]);
    house.close().await;
}

fn permission(at: &mut Registrar<'_>) {
    at.permission("nights", async |asking| match asking.reachable {
        true => Permit::Abstain,
        false if asking.call.tool.name.starts_with("Echo") => Permit::Allow,
        false => Permit::deny("Nobody is awake, and this can wait until morning."),
    });
}

#[tokio::test]
async fn permission_answers_in_a_persons_stead() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let deploy = tool("Deploy", "Goes live.", async |_: Nothing, _| Ok::<_, ToolError>("live")).unwrap();
    let plan = Plan::new(Says::calls(&[("Echo", r#"{"text":"x"}"#), ("Deploy", "{}")])).tool(deploy);
    let house = plan
        .open(|at| {
            at.pre_execute("careful", async |_| Gate::ask("sure?"));
            permission(at);
        })
        .await;
    house.prompt("go").await;
    assert_eq!(house.ends(), ["completed", "hook_deny"]);
    house.close().await;
}

fn asked(at: &mut Registrar<'_>, pages: Arc<Mutex<Vec<String>>>) {
    at.asked("page", move |asked| {
        let reasons: Vec<&str> = asked.reasons.iter().map(Reason::as_str).collect();
        pages.lock().unwrap().push(format!("{}: {}", asked.call.tool.name, reasons.join(", ")));
    });
}

#[tokio::test]
async fn asked_observes() {
    let pages: Arc<Mutex<Vec<String>>> = Arc::default();
    let plan = Plan::new(Says::calls(&[("Echo", r#"{"text":"x"}"#)])).approvals();
    let house = plan
        .open(|at| {
            at.pre_execute("careful", async |_| Gate::ask("sure?"));
            asked(at, pages.clone());
        })
        .await;
    let turn = house.session.prompt("go").await.unwrap();
    until(|| !pages.lock().unwrap().is_empty()).await;
    let ask = house.session.asks().remove(0);
    house.session.answer(&ask, Answer::Allow).await.unwrap();
    within(turn.into_future()).await;
    assert_eq!(*pages.lock().unwrap(), ["Echo: sure?"]);
    house.close().await;
}

fn batch(at: &mut Registrar<'_>) {
    at.batch("stuck", async |batch| match batch.calls.iter().all(|call| call.error) {
        true => Reply::new(Batched {}).context("Nothing of that worked: try it in another way."),
        false => Reply::new(Batched {}),
    });
}

#[tokio::test]
async fn batch_adds_context() {
    let house = house(&[("Nope", "{}"), ("Neither", "{}")], batch).await;
    house.prompt("go").await;
    let last = house.model.requests()[1].messages.iter().last().cloned();
    let expect = Message::Context {
        content: "Nothing of that worked: try it in another way.".into(),
        source: Source::owner("house"),
    };
    assert_eq!(last, Some(expect));
    house.close().await;
}

fn guard(at: &mut Registrar<'_>) {
    at.guard("never-to-mallory", |call| {
        call.arguments.text().contains("Mallory").then(|| "Not to Mallory.".into())
    });
}

#[tokio::test]
async fn guard_denies() {
    let house = house(&[("Echo", r#"{"text":"Mallory"}"#)], |at| {
        at.pre_execute("lax", async |_| Gate::allow());
        guard(at);
    })
    .await;
    house.prompt("go").await;
    assert_eq!(house.ends(), ["guard_deny"]);
    house.close().await;
}

fn execute(at: &mut Registrar<'_>) {
    at.tools("Flaky", |at| {
        at.wrap("twice", async |next| {
            let first = next.within(Duration::from_secs(30)).await;
            if first.ended.is_success() { first } else { next.run().await }
        });
    });
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[tokio::test]
async fn execute_runs_the_body_again() {
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let seen = attempts.clone();
    let flaky = tool("Flaky", "Fails at first.", async move |_: Nothing, cx| {
        seen.lock().unwrap().push(cx.attempt);
        if cx.attempt == 1 { Err(ToolError::new("not yet")) } else { Ok("there") }
    });
    let plan = Plan::new(Says::calls(&[("Flaky", "{}")])).tool(flaky.unwrap());
    let house = plan.open(execute).await;
    house.prompt("go").await;
    assert_eq!((house.ends(), attempts.lock().unwrap().clone()), (vec!["completed"], vec![1, 2]));
    house.close().await;
}

fn post_execute(at: &mut Registrar<'_>) {
    at.post_execute("no-paths", async |call| {
        let (content, _) = call.outcome.for_model();
        if content.to_text().contains("/home/") {
            return Reply::new(Review::block("The answer was withheld: it names somebody's files."));
        }
        Reply::new(Review::accept())
    });
}

#[tokio::test]
async fn post_execute_withholds() {
    let house = house(&[("Echo", r#"{"text":"/home/ada"}"#)], post_execute).await;
    house.prompt("go").await;
    let result = &house.results()[0];
    assert_eq!((&result.outcome, result.error), (&Ended::Completed, true));
    assert!(result.content.to_text().starts_with("The answer was withheld"));
    house.close().await;
}

fn result(at: &mut Registrar<'_>, failures: Arc<Mutex<Vec<String>>>) {
    at.result("count-failures", move |result| {
        if result.error {
            failures.lock().unwrap().push(format!("{}: {}", result.name, result.ended.name()));
        }
    });
}

#[tokio::test]
async fn result_observes() {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let house = house(&[("Nope", "{}")], |at| result(at, failures.clone())).await;
    house.prompt("go").await;
    assert_eq!(*failures.lock().unwrap(), ["Nope: unknown_tool"]);
    house.close().await;
}

fn turn_continuation(at: &mut Registrar<'_>) {
    at.turn_continuation("tests-first", async |ending| {
        if ending.last_text.contains("tested") || ending.forced > 2 {
            return Continue::Abstain;
        }
        Continue::again("Say that you have tested it, or test it.")
    });
}

#[tokio::test]
async fn turn_continuation_goes_on() {
    let model = Says::by_prompt(|_, said| say(if said == 0 { "done" } else { "done and tested" }));
    let house = Plan::new(model).open(turn_continuation).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.count("step/start"), 2);
    house.close().await;
}

fn turn_stop(at: &mut Registrar<'_>) {
    at.turn_stop("three-steps", async |boundary| match boundary.scene.step {
        ..3 => StopTurn::Abstain,
        _ => StopTurn::Stop,
    });
}

#[tokio::test]
async fn turn_stop_stops() {
    let house =
        Plan::new(Says::by_prompt(|_, _| calls(&[("Echo", r#"{"text":"on"}"#)]))).open(turn_stop).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.count("step/start"), 3);
    house.close().await;
}

fn compaction(at: &mut Registrar<'_>) {
    at.compaction("keep-plan", async |compacting| match compacting.scene.session.depth() {
        0 => Compact::keeping("Keep the plan, word for word."),
        _ => Compact::skip("a subagent reports soon"),
    });
}

#[tokio::test]
async fn compaction_says_what_to_keep() {
    let model = Says::by_prompt(|_, _| costing(100, say("done")));
    let house = Plan::new(model).compact_at(100).open(compaction).await;
    house.prompt("go").await;
    house.prompt("go on").await;
    let asked = house.model.requests().remove(1);
    let Some(Message::User { content, .. }) = asked.messages.last() else { panic!("{asked:?}") };
    assert!(content.to_text().ends_with("Keep the plan, word for word."));
    house.close().await;
}

fn compacted(at: &mut Registrar<'_>, kept: Arc<Mutex<Vec<String>>>) {
    at.compacted("keep-summaries", async move |made| {
        kept.lock().unwrap().push(made.summary.to_text().into_owned());
        Noted {}
    });
}

#[tokio::test]
async fn compacted_sees_the_summary() {
    let kept: Arc<Mutex<Vec<String>>> = Arc::default();
    let model = Says::by_prompt(|prompt, _| match prompt {
        "go" | "go on" => costing(100, say("done")),
        _ => say("in short"),
    });
    let house = Plan::new(model).compact_at(100).open(|at| compacted(at, kept.clone())).await;
    house.prompt("go").await;
    house.prompt("go on").await;
    assert_eq!(*kept.lock().unwrap(), ["in short"]);
    // On record behind the summary, and before the step that reads it.
    let kinds = house.kinds();
    let at = kinds.iter().position(|kind| kind == "compaction/ended").unwrap();
    assert_eq!(kinds[at + 1..at + 3], ["decision/recorded", "step/start"]);
    house.close().await;
}

fn turn_end(at: &mut Registrar<'_>, ended: Arc<Mutex<Vec<String>>>) {
    at.turn_end("count-turns", move |turn| {
        ended.lock().unwrap().push(format!("{} {}", turn.scene.turn, turn.reason.name()));
    });
}

#[tokio::test]
async fn turn_end_observes() {
    let ended: Arc<Mutex<Vec<String>>> = Arc::default();
    let house = Plan::new(Says::calls(&[])).open(|at| turn_end(at, ended.clone())).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(*ended.lock().unwrap(), ["1 completed", "2 completed"]);
    house.close().await;
}

fn subagent_end(at: &mut Registrar<'_>, reports: Arc<Mutex<Vec<String>>>) {
    at.subagent_end("collect", move |child| {
        reports.lock().unwrap().push(format!("{}: {}", child.kind, child.report.to_text()));
    });
}

#[tokio::test]
async fn subagent_end_observes() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let house = digging().open(|at| subagent_end(at, reports.clone())).await;
    house.prompt("go").await;
    assert_eq!(*reports.lock().unwrap(), ["digger: gold"]);
    house.close().await;
}

fn turn_start(at: &mut Registrar<'_>, rules: Arc<Mutex<String>>, file: PathBuf) {
    at.turn_start("rules", async move |_| {
        let file = file.clone();
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(file));
        if let Ok(Ok(now)) = read.await {
            *rules.lock().unwrap() = now;
        }
    });
}

#[tokio::test]
async fn turn_start_is_waited_for() {
    let (dir, rules) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(String::from("none"))));
    let file = dir.path().join("rules");
    let house = Plan::new(Says::calls(&[])).open(|at| turn_start(at, rules.clone(), file.clone())).await;
    house.prompt("go").await;
    assert_eq!(*rules.lock().unwrap(), "none");
    std::fs::write(&file, "be kind").unwrap();
    house.prompt("go on").await;
    assert_eq!(*rules.lock().unwrap(), "be kind");
    house.close().await;
}

fn session_end(at: &mut Registrar<'_>, store: Arc<Mutex<Vec<String>>>) {
    at.session_end("upload", async move |ended| {
        tokio::task::yield_now().await;
        store.lock().unwrap().push(format!("{} after {} turns", ended.scene.session.id, ended.scene.turn));
    });
}

#[tokio::test]
async fn session_end_is_waited_for() {
    let store: Arc<Mutex<Vec<String>>> = Arc::default();
    let house = Plan::new(Says::calls(&[])).open(|at| session_end(at, store.clone())).await;
    house.prompt("go").await;
    house.prompt("go on").await;
    assert!(store.lock().unwrap().is_empty());
    house.close().await;
    assert_eq!(*store.lock().unwrap(), ["s after 2 turns"]);
}

/// Without white space, so that neither indentation nor line breaks matter.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Every example on the page is code of this file: compiled, run and asserted on above.
#[test]
fn the_page_quotes_what_runs() {
    let here = squeezed(include_str!("seam_examples.rs"));
    let page = include_str!("../docs/seams.md");
    let blocks: Vec<&str> =
        page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= Point::ALL.len(), "{} examples for {} points", blocks.len(), Point::ALL.len());
    for block in blocks {
        assert!(here.contains(&squeezed(block)), "this example does not run anywhere:\n{block}");
    }
}
