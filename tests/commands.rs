//! C-DUR-8: what is sent again under the same name is not done again, here or in another process.

mod support;

use portcullis::*;
use support::*;

const ECHO: [(&str, &str); 1] = [("Echo", r#"{"text":"a"}"#)];

fn name(text: &str) -> CommandId {
    CommandId::new(text).unwrap()
}

async fn careful(journal: &MemoryJournal) -> House {
    let plan = Plan::new(Says::calls(&ECHO)).approvals().journal(journal);
    plan.open(|at| {
        at.pre_execute("careful", async |_| Gate::ask("sure?"));
    })
    .await
}

async fn asked(house: &House) -> Ask {
    until(|| !house.session.asks().is_empty()).await;
    house.session.asks().remove(0)
}

async fn end(turn: Turn) -> EndReason {
    within(turn.into_future()).await
}

/// Another process on the same log.
async fn again(house: House) -> House {
    let journal = house.journal.copy();
    within(house.runtime.shutdown(std::time::Duration::ZERO)).await;
    careful(&journal).await
}

// C-DUR-8: prompts, while they wait, while they run, when they are over, and after a restart.
#[tokio::test]
async fn a_prompt_sent_again_is_one_prompt() {
    let house = careful(&MemoryJournal::new()).await;
    let (first, second) = (house.session.command(name("1")), house.session.command(name("2")));
    let turn = within(first.prompt("go")).await.unwrap();
    let same = within(first.prompt("something else")).await.unwrap();
    assert_eq!(turn.prompt(), same.prompt());
    let ask = asked(&house).await;
    let waits =
        [within(second.prompt("later")).await.unwrap(), within(second.prompt("later")).await.unwrap()];
    assert_eq!(house.count("prompt/queued"), 2);
    house.session.answer(&ask, Answer::Allow).await.unwrap();
    assert_eq!((end(turn).await, end(same).await), (EndReason::Completed, EndReason::Completed));
    let house = again(house).await;
    let ask = asked(&house).await;
    let running = within(house.session.command(name("2")).prompt("later")).await.unwrap();
    let over = within(house.session.command(name("1")).prompt("go")).await.unwrap();
    assert_eq!(within(over.done()).await.0, 1);
    house.session.answer(&ask, Answer::Refuse(None)).await.unwrap();
    assert_eq!(within(running.done()).await.0, 2);
    assert_eq!(end(over).await, EndReason::Completed);
    for turn in waits {
        // The first process is gone, and told so.
        assert!(matches!(end(turn).await, EndReason::Error { .. }));
    }
    assert_eq!((house.count("prompt/queued"), house.count("turn/start")), (2, 2));
    house.close().await;
}

// C-DUR-8: of many at once, one is done, and all are told of the same turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_command_from_many_at_once() {
    let house = house(&ECHO, |_| {}).await;
    for round in 0..20 {
        let sent = (0..8).map(|_| {
            let command = house.session.command(name(&format!("c{round}")));
            tokio::spawn(async move { command.prompt("go").await.unwrap().done().await.0 })
        });
        let turns: Vec<u64> =
            within(futures::future::join_all(sent)).await.into_iter().map(Result::unwrap).collect();
        assert!(turns.iter().all(|turn| *turn == round + 1), "{turns:?}");
    }
    assert_eq!(house.count("prompt/queued"), 20);
    house.close().await;
}

// C-DUR-8: steering, injected context, answers and cancels.
#[tokio::test]
async fn every_command_has_one_outcome() {
    let house = careful(&MemoryJournal::new()).await;
    let command = |text: &str| house.session.command(name(text));
    let turn = house.session.prompt("go").await.unwrap();
    let ask = asked(&house).await;
    let first = ask.clone();
    for _ in 0..2 {
        within(command("note").inject("app", "by the way")).await.unwrap();
        within(command("steer").steer("be brief")).await.unwrap();
    }
    for _ in 0..3 {
        within(command("yes").answer(&ask, Answer::Allow)).await.unwrap();
    }
    let other = within(command("other").answer(&ask, Answer::Allow)).await;
    assert_eq!(other, Err(AnswerError::Settled));
    assert_eq!(end(turn).await, EndReason::Completed);
    let steered = within(command("steer").steer("be brief")).await.unwrap();
    assert_eq!(within(steered.done()).await.0, 1, "it joined the first turn");
    assert_eq!((house.count("prompt/queued"), house.count("steering/message")), (3, 1));
    assert_eq!(house.count("input/resolved"), 1);

    // A cancel that found nothing finds nothing when it is sent again, whatever runs by then.
    assert_eq!(within(command("stop").cancel(Cause::User)).await, Ok(Cancelled::Nothing));
    let turn = house.session.prompt("go").await.unwrap();
    let ask = asked(&house).await;
    assert_eq!(within(command("stop").cancel(Cause::User)).await, Ok(Cancelled::Nothing));
    assert!(house.session.asks().iter().any(|waits| waits.id == ask.id), "it goes on");
    assert_eq!(within(command("stop 2").cancel(Cause::User)).await, Ok(Cancelled::Turn));
    assert!(matches!(end(turn).await, EndReason::Aborted { .. }));
    let turn = house.session.prompt("go").await.unwrap();
    let ask = asked(&house).await;
    assert_eq!(within(command("stop 2").cancel(Cause::User)).await, Ok(Cancelled::Turn), "the first one");
    house.session.answer(&ask, Answer::Allow).await.unwrap();
    assert_eq!(end(turn).await, EndReason::Completed);
    assert_eq!(house.count("turn/cancelled"), 1);

    // A name is one command's.
    let taken = within(command("yes").prompt("go")).await;
    assert!(matches!(&taken, Err(SubmitError::Taken { prompts, .. }) if prompts.len() == 1), "{taken:?}");
    assert_eq!(within(command("note").cancel(Cause::User)).await, Err(CancelError::Taken(name("note"))));
    assert_eq!(
        within(command("stop").answer(&ask, Answer::Allow)).await,
        Err(AnswerError::Taken(name("stop")))
    );

    let house = again(house).await;
    let command = |text: &str| house.session.command(name(text));
    within(command("yes").answer(&first, Answer::Allow)).await.unwrap();
    assert_eq!(within(command("stop").cancel(Cause::User)).await, Ok(Cancelled::Nothing));
    assert_eq!(within(command("stop 2").cancel(Cause::User)).await, Ok(Cancelled::Turn));
    within(command("note").inject("app", "by the way")).await.unwrap();
    assert_eq!(house.count("prompt/queued"), 5);
    house.close().await;
}

// C-DUR-8, C-TURN-9: a cancel may name the prompt that it means: one that waits is taken back, one that runs is cancelled, one
// that is over is left alone, with whatever runs now.
#[tokio::test]
async fn a_cancel_names_its_prompt() {
    let house = careful(&MemoryJournal::new()).await;
    let session = &house.session;
    let running = session.command(name("running")).prompt("go").await.unwrap();
    let ask = asked(&house).await;
    let waits = session.command(name("waits")).prompt("later").await.unwrap();
    let stays = session.prompt("last").await.unwrap();
    let cancel = |prompt: PromptRef| within(session.cancel_prompt(prompt, Cause::User));
    assert_eq!(cancel(name("nobody").into()).await, Err(CancelError::UnknownPrompt));
    assert_eq!(cancel(Seq(9_999).into()).await, Err(CancelError::UnknownPrompt));
    // Not yet running.
    let drop_it = session.command(name("drop it"));
    for _ in 0..2 {
        let told = within(drop_it.cancel_prompt(name("waits"), Cause::User)).await;
        assert_eq!(told, Ok(Cancelled::Withdrawn));
    }
    assert!(matches!(end(waits).await, EndReason::Aborted { .. }));
    let again = within(session.command(name("waits")).prompt("later")).await.unwrap();
    assert!(matches!(end(again).await, EndReason::Aborted { .. }), "taken back is its outcome");
    assert_eq!(cancel(name("waits").into()).await, Ok(Cancelled::Nothing));
    // No longer running.
    session.answer(&ask, Answer::Allow).await.unwrap();
    assert_eq!(end(running).await, EndReason::Completed);
    asked(&house).await;
    assert_eq!(cancel(name("running").into()).await, Ok(Cancelled::Nothing));
    assert_eq!(session.asks().len(), 1, "what runs now was not meant");
    // Running.
    assert_eq!(cancel(stays.prompt().unwrap().into()).await, Ok(Cancelled::Turn));
    let prompt = stays.prompt().unwrap();
    assert!(matches!(end(stays).await, EndReason::Aborted { .. }));
    assert_eq!(cancel(prompt.into()).await, Ok(Cancelled::Nothing));
    assert_eq!((house.count("session/withdrawn"), house.count("turn/start")), (1, 2));
    assert!(
        !house
            .log()
            .iter()
            .any(|r| matches!(&r.body, Body::UserMessage(m) if m.content.to_text() == "later"))
    );
    house.close().await;
}

// C-TURN-9: cancels with and without a name, at any moment, from any thread: one cause is on record, and all are told that
// the turn is cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_against_each_other() {
    for round in 0..60_u64 {
        let house = careful(&MemoryJournal::new()).await;
        let turn = house.session.prompt("go").await.unwrap();
        if round % 2 == 0 {
            asked(&house).await;
        } else {
            tokio::time::sleep(std::time::Duration::from_micros(round * 13)).await;
        }
        let (plain, named) = (house.session.clone(), house.session.command(name("stop")));
        let plain = tokio::spawn(async move { plain.cancel(Cause::Shutdown).await });
        let named = tokio::spawn(async move { named.cancel(Cause::User).await });
        let (plain, named) = within(async { (plain.await.unwrap(), named.await.unwrap()) }).await;
        let ended = end(turn).await;
        assert!(matches!(ended, EndReason::Aborted { .. }), "{ended:?}");
        // One may come when the other has ended the turn.
        assert!(plain == Ok(true) || named == Ok(Cancelled::Turn), "{plain:?} {named:?}");
        assert_eq!(house.count("turn/cancelled"), 1);
        let again = within(house.session.command(name("stop")).cancel(Cause::User)).await;
        assert_eq!(again, named, "the first outcome");
        house.close().await;
    }
}
