//! Hooks in the background: their records reach the log, and what they say reaches the model.

mod support;

use portcullis::{
    hooks::{ClaudeHooks, Options},
    *,
};
use std::{fs, path::Path, sync::Arc};
use support::*;
use tokio::sync::mpsc;

/// A session in a project with one command hook; what its hooks say late is passed on as a host passes it on.
async fn open(dir: &Path, event: &str, command: &str, fields: &str, model: &Says) -> House {
    let command = serde_json::to_string(command).unwrap();
    fs::create_dir_all(dir.join(".claude")).unwrap();
    let settings = format!(
        r#"{{"hooks":{{"{event}":[{{"hooks":[{{"type":"command","command":{command}{fields}}}]}}]}}}}"#
    );
    fs::write(dir.join(".claude/settings.json"), settings).unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let options = Options::new().late(move |late| drop(tell.send(late)));
    let (hooks, reports) = ClaudeHooks::load_with(dir, options);
    assert_eq!(reports, []);
    let (journal, ran) = (MemoryJournal::new(), Arc::default());
    let runtime = Runtime::builder(model.clone())
        .journal(journal.clone())
        .tools([echo(&ran)])
        .mount_deciding(hooks)
        .arbiters(1)
        .start()
        .await
        .unwrap();
    let session = runtime.open("s", SessionOptions::new(dir)).await.unwrap();
    let to = session.clone();
    tokio::spawn(async move {
        while let Some(late) = told.recv().await {
            let mut all = Late::new(late.records);
            all.context = late.context.into_iter().map(Into::into).collect();
            all.wakes = late.wakes;
            to.late("claude", all).await.unwrap();
        }
    });
    House { runtime, session, journal, model: model.clone(), ran }
}

/// The texts that the model was sent in the name of the hooks.
fn told(model: &Says) -> Vec<String> {
    let Some(last) = model.requests().pop() else { return Vec::new() };
    let texts = last.messages.iter().filter_map(|message| match message {
        Message::Context { content, source }
        | Message::Steering { content, source }
        | Message::User { content, source }
            if *source == Source::owner("claude") =>
        {
            Some(content.to_text().into_owned())
        }
        _ => None,
    });
    texts.collect()
}

fn context(text: &str) -> String {
    format!(r#"{{"hookSpecificOutput":{{"hookEventName":"PostToolUse","additionalContext":"{text}"}}}}"#)
}

// C-LOG-3, C-SEAM-2: the records of a hook that nobody waited for are in the log when it ends, and its context waits for the
// next turn when no turn is open.
#[tokio::test]
async fn a_hook_in_the_background_is_on_record_when_it_ends() {
    for (fields, before) in [(r#","async":true"#, ""), ("", r#"{"async":true,"asyncTimeout":60000}"#)] {
        let dir = tempfile::tempdir().unwrap();
        let (go, line) = (
            dir.path().join("go"),
            if before.is_empty() { "true".into() } else { format!("echo '{before}'") },
        );
        let command = format!(
            "cat >/dev/null; {line}; while [ ! -e '{}' ]; do sleep 0.02; done; printf '%s' '{}'",
            go.display(),
            context("later")
        );
        let model = Says::calls(&[("Echo", r#"{"text":"x"}"#)]);
        let house = open(dir.path(), "PostToolUse", &command, fields, &model).await;
        // The hook waits for a file that is not there yet, and the turn does not wait for the hook.
        assert_eq!(house.prompt("go").await, EndReason::Completed);
        assert_eq!(house.count("hook/invoked"), 0);
        fs::write(&go, "").unwrap();
        until(|| house.count("hook/result") == 1).await;
        assert_eq!(house.count("turn/start"), 1);
        // The other turn's call has the hook run once more, which ends at once.
        assert_eq!(house.prompt("again").await, EndReason::Completed);
        assert_eq!(told(&model)[0], "later");
        until(|| house.count("hook/result") == 2).await;
        house.close().await;
    }
}

// C-TURN-4: exit code 2 of a hook that may wake the model opens a turn when none is open.
#[tokio::test]
async fn a_hook_wakes_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    // Only the first one speaks up: the turn it opens makes the same call.
    let command = format!(
        "cat >/dev/null; mkdir first || exit 0; while [ ! -e '{}' ]; do sleep 0.02; done; echo look at this >&2; exit 2",
        go.display()
    );
    let model = Says::calls(&[("Echo", r#"{"text":"x"}"#)]);
    let fields = r#","async":true,"asyncRewake":true"#;
    let house = open(dir.path(), "PostToolUse", &command, fields, &model).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    fs::write(&go, "").unwrap();
    until(|| house.count("turn/end") == 2 && house.count("hook/result") == 2).await;
    assert_eq!(told(&model), ["Stop hook blocking error from command \"PostToolUse:Echo\": look at this\n"]);
    let log = house.log();
    let place = |kind: &str| log.iter().position(|record| record.body.kind() == kind).unwrap();
    let opened = log.iter().rposition(|record| record.body.kind() == "turn/start").unwrap();
    // On record before its effect.
    assert!(place("hook/result") < opened);
    house.close().await;
}

// C-LOG-1: a record of the runtime's own types is nobody's to add.
#[tokio::test]
async fn only_an_owners_records_come_late() {
    let house = house(&[], |_| {}).await;
    let record = |kind: &str| OwnRecord { kind: kind.into(), data: Frozen::arguments("{}").unwrap() };
    let refused = house.session.late("x", Late::new(vec![record("turn/end")])).await;
    assert_eq!(refused, Err(SubmitError::Reserved { kind: "turn/end".into() }));
    assert_eq!(house.session.late("x", Late::default()).await, Err(SubmitError::Empty));
    house.session.late("x", Late::new(vec![record("x/note")])).await.unwrap();
    assert_eq!((house.count("x/note"), house.count("turn/start")), (1, 0));
    house.close().await;
}
