//! `tools/permission` and `tools/batch`: answering in a person's stead, and looking at a step's results together.

mod support;

use portcullis::*;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};
use support::*;

const ONE: [(&str, &str); 1] = [("Echo", r#"{"text":"a"}"#)];

fn asks(at: &mut Registrar<'_>) {
    at.pre_execute("careful", async |_| Gate::ask("sure?"));
}

/// Answers by the text of the call.
fn deputy(at: &mut Registrar<'_>) {
    at.permission("deputy", async |asking: Asking| match asking.call.arguments.text() {
        text if text.contains("yes") => Permit::Allow,
        text if text.contains("no") => Permit::deny("not tonight"),
        _ => Permit::Abstain,
    });
}

// C-ASK-1, C-PIPE-1: what is answered in a person's stead is put to nobody; what is not is, once.
#[tokio::test]
async fn a_question_is_put_only_if_nobody_answers_before() {
    let three = ["yes", "no", "what"].map(|text| format!(r#"{{"text":"{text}"}}"#));
    let three: Vec<(&str, &str)> = three.iter().map(|arguments| ("Echo", &**arguments)).collect();
    let plan = Plan::new(Says::calls(&three)).approvals();
    let house = plan
        .open(|at| {
            asks(at);
            deputy(at);
        })
        .await;
    let turn = house.session.prompt("go").await.unwrap();
    until(|| !house.session.asks().is_empty()).await;
    let ask = house.session.asks().remove(0);
    assert_eq!(ask.arguments.text(), r#"{"text":"what"}"#);
    house.session.answer(&ask, Answer::Allow).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(house.ends(), ["completed", "hook_deny", "completed"]);
    let denied = &house.results()[1];
    assert_eq!((&*denied.content.to_text(), denied.error), ("not tonight", true));
    assert_eq!((house.count("input/requested"), house.count("input/resolved")), (1, 1));
    sound(&house.journal).await;
    house.close().await;
}

// C-PIPE-7, C-ASK-1: who observes questions sees those that are put to a person, once, whatever becomes of the observer.
#[tokio::test]
async fn a_question_that_is_put_is_observed_once() {
    let seen: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let three = ["yes", "no", "what"].map(|text| format!(r#"{{"text":"{text}"}}"#));
    let three: Vec<(&str, &str)> = three.iter().map(|arguments| ("Echo", &**arguments)).collect();
    let sees = seen.clone();
    let house = Plan::new(Says::calls(&three))
        .approvals()
        .open(move |at| {
            asks(at);
            deputy(at);
            at.asked("broken", |_| panic!("a secret detail"));
            at.tools("Other", |at| _ = at.asked("other", |_| panic!("of another tool")));
            at.asked("sees", move |asked| {
                let line = format!("{} {}", asked.request, asked.call.arguments.text());
                sees.lock().unwrap().push(line);
            });
        })
        .await;
    let turn = house.session.prompt("go").await.unwrap();
    until(|| !house.session.asks().is_empty()).await;
    let ask = house.session.asks().remove(0);
    let left = house.journal.copy();
    house.session.answer(&ask, Answer::Allow).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(*seen.lock().unwrap(), [format!(r#"{} {{"text":"what"}}"#, ask.id)]);
    house.close().await;
    // The process that takes the question up puts it again under its name, and tells no observer a second time.
    let again = seen.clone();
    let after = Plan::new(Says::calls(&three)).approvals().journal(&left);
    let after =
        after.open(move |at| _ = at.asked("sees", move |_| again.lock().unwrap().push("again".into()))).await;
    until(|| !after.session.asks().is_empty()).await;
    let ask = after.session.asks().remove(0);
    after.session.answer(&ask, Answer::Allow).await.unwrap();
    until(|| after.kinds().last().is_some_and(|kind| kind == "turn/end")).await;
    assert_eq!(seen.lock().unwrap().len(), 1);
    after.close().await;
}

// C-ASK-2: without a person an answer is as good; without either, the call is denied.
#[tokio::test]
async fn with_nobody_to_ask_a_question_may_still_be_answered() {
    let two = [("Echo", r#"{"text":"yes"}"#), ("Echo", r#"{"text":"what"}"#)];
    let house = house(&two, |at| {
        asks(at);
        deputy(at);
    })
    .await;
    house.prompt("go").await;
    assert_eq!(house.ends(), ["completed", "approval_unavailable"]);
    sound(&house.journal).await;
    house.close().await;
}

// C-PIPE-2, C-PIPE-4: an answer overrules no denial, of the gate's or of a guard's.
#[tokio::test]
async fn an_answer_overrules_no_denial() {
    let called = Arc::new(AtomicU32::new(0));
    let two = [("Echo", r#"{"text":"rope"}"#), ("Echo", r#"{"text":"knife"}"#)];
    let count = called.clone();
    let house = house(&two, move |at| {
        asks(at);
        at.pre_execute("ropes", async |call| match call.arguments.text().contains("rope") {
            true => Gate::deny("no rope"),
            false => Gate::allow(),
        });
        at.permission("lax", async move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Permit::Allow
        });
        at.guard("knives", |call| call.arguments.text().contains("knife").then(|| "no knife".into()));
    })
    .await;
    house.prompt("go").await;
    assert_eq!(house.ends(), ["hook_deny", "guard_deny"]);
    assert_eq!(called.load(Ordering::Relaxed), 1, "a call that is denied is not asked about");
    assert!(house.ran().is_empty());
    sound(&house.journal).await;
    house.close().await;
}

// C-DUR-1: an answer on record is not asked for again by the process that comes after.
#[tokio::test]
async fn an_answer_outlives_its_process() {
    let inside = Latch::default();
    let (holds, model) = (inside.clone(), Says::calls(&ONE));
    let house = Plan::new(model.clone())
        .open(|at| {
            asks(at);
            at.permission("deputy", async |_| Permit::Allow);
            at.wrap("holds", async move |next: Next<'_>| {
                holds.pass().await;
                next.run().await
            });
        })
        .await;
    let turn = house.session.prompt("go").await.unwrap();
    inside.entered().await;
    let left = house.journal.copy();
    inside.open();
    within(turn.into_future()).await;
    house.close().await;
    let after = Plan::new(model)
        .journal(&left)
        .open(|at| {
            asks(at);
            at.permission("deputy", async |_| Permit::deny("asked twice"));
        })
        .await;
    until(|| after.kinds().last().is_some_and(|kind| kind == "turn/end")).await;
    let answers = after.decisions().into_iter().filter(|d| d.point == Point::Permission);
    assert_eq!(answers.map(|d| d.made.decision).collect::<Vec<_>>(), [Decision::Permission(Permit::Allow)]);
    assert_eq!((after.ends(), after.count("input/requested")), (vec!["outcome_unknown"], 0));
    sound(&after.journal).await;
    after.close().await;
}

// C-TURN-8: a halt that comes with an answer acts when the step's calls have their results.
#[tokio::test]
async fn a_denial_may_end_the_turn() {
    let two = [("Echo", r#"{"text":"a"}"#), ("Echo", r#"{"text":"b"}"#)];
    let house = house(&two, |at| {
        asks(at);
        at.permission("deputy", async |_| Reply::new(Permit::deny("no")).halt("enough"));
    })
    .await;
    let by = HandlerId::new("house", "deputy");
    assert_eq!(house.prompt("go").await, EndReason::Halted { by, reason: "enough".into() });
    assert_eq!((house.ends(), house.model.requests().len()), (vec!["hook_deny", "hook_deny"], 1));
    sound(&house.journal).await;
    house.close().await;
}

/// What a look at a batch saw.
type Looks = Arc<std::sync::Mutex<Vec<Vec<(String, String, bool)>>>>;

fn looks(at: &mut Registrar<'_>, looks: &Looks) {
    let looks = looks.clone();
    at.batch("look", async move |batch: CallBatch| {
        let each = batch.calls.iter();
        let each = each.map(|c| (c.ended.name().to_owned(), c.content.to_text().into_owned(), c.error));
        looks.lock().unwrap().push(each.collect());
        Batched {}
    });
}

// C-TURN-5, C-PIPE-6: all calls of a step in the model's order, as the model will read them; a step without calls is none.
#[tokio::test]
async fn a_batch_is_what_the_model_reads_next() {
    let seen = Looks::default();
    let three = [("Echo", r#"{"text":"a"}"#), ("Nope", "{}"), ("Echo", r#"{"text":"rope"}"#)];
    let house = house(&three, |at| {
        at.pre_execute("ropes", async |call| match call.arguments.text().contains("rope") {
            true => Gate::deny("no rope"),
            false => Gate::allow(),
        });
        at.post_execute("review", async |call| match call.outcome.ended.is_success() {
            true => Reply::new(Review::replace("reviewed")).context("mind the step"),
            false => Reply::new(Review::accept()),
        });
        looks(at, &seen);
    })
    .await;
    house.prompt("go").await;
    let unknown = "There is no tool of this name. Use one of the tools you were given.";
    let expect =
        [("completed", "reviewed", false), ("unknown_tool", unknown, true), ("hook_deny", "no rope", true)];
    let expect = expect.map(|(ended, text, error)| (ended.to_owned(), text.to_owned(), error));
    assert_eq!(*seen.lock().unwrap(), [expect.to_vec()], "once");
    sound(&house.journal).await;
    house.close().await;
}

// C-TURN-6, C-TURN-8: a batch's context stands behind that of its calls; its halt ends the turn before the next request.
#[tokio::test]
async fn a_batch_adds_context_and_halts() {
    let house = house(&ONE, |at| {
        at.post_execute("review", async |_| Reply::new(Review::accept()).context("of the call"));
        at.batch("look", async |_| Reply::new(Batched {}).context("of the batch").halt("over budget"));
    })
    .await;
    let by = HandlerId::new("house", "look");
    assert_eq!(house.prompt("go").await, EndReason::Halted { by, reason: "over budget".into() });
    let log = house.log();
    let contexts: Vec<String> = log
        .iter()
        .filter_map(|r| match &r.body {
            Body::ContextMessage(m) => Some(m.content.to_text().into_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(
        (contexts, house.model.requests().len()),
        (vec!["of the call".into(), "of the batch".into()], 1)
    );
    sound(&house.journal).await;
    house.close().await;
}

// C-TURN-9: nobody looks at the calls of a turn that was cancelled.
#[tokio::test]
async fn a_cancelled_turn_has_no_batch() {
    let (seen, later) = (Looks::default(), Later::default());
    let session = later.clone();
    let house = house(&ONE, |at| {
        at.post_execute("review", async move |_| {
            cancel_now(&session, Cause::User);
            Review::accept()
        });
        looks(at, &seen);
    })
    .await;
    assert!(later.set(house.session.clone()).is_ok());
    assert!(matches!(house.prompt("go").await, EndReason::Aborted { .. }));
    assert!(seen.lock().unwrap().is_empty());
    sound(&house.journal).await;
    house.close().await;
}
