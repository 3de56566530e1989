//! C-BRIDGE-1, C-BRIDGE-5: hooks are read again between two turns when their files have changed, unless hooks on the change keep
//! it out; a file that is broken leaves what it said before in force.

mod support;

use portcullis::{
    hooks::{ClaudeHooks, Hooks, Layers, Options, Reload, Reloaded},
    *,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use support::*;
use tempfile::TempDir;

/// A project under a running session that calls Echo in each turn.
struct Site {
    dir: TempDir,
    hooks: Arc<Hooks>,
    told: Arc<Mutex<Vec<Reloaded>>>,
    house: House,
}

/// Settings with command hooks: event, matcher, command.
fn settings(hooks: &[(&str, &str, &str)]) -> String {
    let groups = |event: &str| {
        let of_event = hooks.iter().filter(|(of, ..)| *of == event);
        let group = |(_, matcher, command): &(&str, &str, &str)| {
            let command = serde_json::to_string(command).unwrap();
            format!(
                r#"{{"matcher":"{matcher}","hooks":[{{"type":"command","command":{command},"timeout":60}}]}}"#
            )
        };
        of_event.map(group).collect::<Vec<_>>().join(",")
    };
    let mut events: Vec<&str> = hooks.iter().map(|(event, ..)| *event).collect();
    events.dedup();
    let events: Vec<String> =
        events.iter().map(|event| format!(r#""{event}":[{}]"#, groups(event))).collect();
    format!(r#"{{"hooks":{{{}}}}}"#, events.join(","))
}

impl Site {
    async fn open(text: &str) -> Site {
        Site::with(text, |options, _| options).await
    }

    async fn with(text: &str, change: impl FnOnce(Options, &Path) -> Options) -> Site {
        let (dir, told): (TempDir, Arc<Mutex<Vec<Reloaded>>>) = (TempDir::new().unwrap(), Arc::default());
        fs::create_dir(dir.path().join(".claude")).unwrap();
        fs::write(dir.path().join(".claude/settings.json"), text).unwrap();
        let tell = told.clone();
        let options = Options::new().reloaded(move |of| tell.lock().unwrap().push(of.clone()));
        let (hooks, reports) = ClaudeHooks::load_with(dir.path(), change(options, dir.path()));
        assert_eq!(reports, []);
        let (ran, journal) = (Arc::default(), MemoryJournal::new());
        let model = Says::by_prompt(|_, said| match said {
            0 => calls(&[("Echo", r#"{"text":"x"}"#)]),
            _ => say("done"),
        });
        let runtime = Runtime::builder(model.clone())
            .journal(journal.clone())
            .tools([echo(&ran)])
            .mount_deciding(hooks.clone())
            .arbiters(1)
            .start()
            .await
            .unwrap();
        let session = runtime.open("s", SessionOptions::new(dir.path())).await.unwrap();
        Site { dir, hooks, told, house: House { runtime, session, journal, model, ran } }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(".claude").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    /// A turn with one call: how that ended.
    async fn turn(&self) -> &'static str {
        self.house.prompt("go").await;
        self.house.ends().last().unwrap()
    }

    fn said(&self, file: &str) -> String {
        fs::read_to_string(self.dir.path().join(file)).unwrap_or_default()
    }

    /// What came of changes since it was last asked.
    fn told(&self) -> Vec<Reload> {
        let told: Vec<Reloaded> = std::mem::take(&mut self.told.lock().unwrap());
        told.into_iter().flat_map(|of| of.files).map(|(_, change)| change).collect()
    }

    async fn close(self) {
        let journal = self.house.journal.clone();
        self.house.close().await;
        sound(&journal).await;
    }
}

const DENY: &str = "echo no >&2; exit 2";

// Added where there was none, on an event of its own, changed, removed: each from the next turn on. C-DUR-7: the log plays again.
#[tokio::test]
async fn a_hook_comes_changes_and_goes_between_two_turns() {
    let site = Site::open("{}").await;
    assert_eq!(site.turn().await, "completed");
    site.write("settings.json", &settings(&[("PreToolUse", "Echo", DENY)]));
    assert_eq!((site.turn().await, site.told()), ("hook_deny", vec![Reload::Taken]));
    assert_eq!((site.turn().await, site.told()), ("hook_deny", vec![]), "once");
    let cmd = "echo seen >> seen";
    site.write("settings.json", &settings(&[("PreToolUse", "Bash", DENY), ("UserPromptSubmit", "", cmd)]));
    assert_eq!(site.turn().await, "completed");
    assert_eq!(site.said("seen"), "seen\n", "the prompt of that very turn");
    // A second file, and rules: a guard and a voice in the gate.
    site.write("settings.local.json", r#"{"permissions":{"deny":["Echo"]}}"#);
    assert_eq!(site.turn().await, "guard_deny");
    site.write("settings.local.json", r#"{"permissions":{"ask":["Echo"]}}"#);
    assert_eq!(site.turn().await, "approval_unavailable");
    fs::remove_file(site.file("settings.local.json")).unwrap();
    assert_eq!(site.turn().await, "completed");
    let ends = settings(&[("SessionEnd", "", "echo over >> seen")]);
    site.write("settings.json", &ends);
    assert_eq!(site.turn().await, "completed");
    assert_eq!(site.said("seen").lines().count(), 4, "{}", site.said("seen"));
    assert_eq!(site.told(), vec![Reload::Taken; 5]);
    assert_eq!(site.hooks.hooks().len(), 1);
    let (journal, dir) = (site.house.journal.clone(), site.dir.path().join("seen"));
    site.house.close().await;
    assert!(fs::read_to_string(dir).unwrap().ends_with("over\n"));
    sound(&journal).await;
    // Replaying asks no file: the project is gone by then.
    drop(site.dir);
    sound(&journal).await;
}

// C-BRIDGE-5: what is no JSON, a malformed gate, and a file that is none: reported with the place, and what was in force stays.
#[tokio::test]
async fn a_broken_file_leaves_what_was_in_force() {
    let gate = settings(&[("PreToolUse", "Echo", DENY)]);
    let site = Site::open(&gate).await;
    assert_eq!(site.turn().await, "hook_deny");
    for broken in
        ["{\n  \"hooks\": {},\n}", r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"comand"}]}]}}"#, "[]"]
    {
        site.write("settings.json", broken);
        assert_eq!(site.turn().await, "hook_deny", "{broken}");
        let told = site.told.lock().unwrap().clone();
        assert_eq!(told[0].files, [(site.file("settings.json"), Reload::Rejected)], "{broken}");
        let report = &told[0].reports[0];
        assert_eq!(report.file.as_deref(), Some(&*site.file("settings.json")), "{report}");
        assert!(report.line.is_some() && report.hint.is_some(), "{report}");
        site.told();
        assert_eq!((site.turn().await, site.told()), ("hook_deny", vec![]), "said once");
    }
    fs::remove_file(site.file("settings.json")).unwrap();
    fs::create_dir(site.file("settings.json")).unwrap();
    assert_eq!((site.turn().await, site.told()), ("hook_deny", vec![Reload::Rejected]));
    // Whole again, with the same as before: nothing has changed.
    fs::remove_dir(site.file("settings.json")).unwrap();
    site.write("settings.json", &gate);
    assert_eq!((site.turn().await, site.told()), ("hook_deny", vec![]));
    // What is wrong within one that counts is reported, and not what was wrong before.
    site.write("settings.json", r#"{"hooks":{"PreToolUze":[]}}"#);
    assert_eq!(site.turn().await, "completed");
    let told = site.told.lock().unwrap().pop().unwrap();
    assert_eq!((told.reports.len(), told.reports[0].code), (1, "hooks/unknown-event"));
    site.write("settings.json", r#"{"hooks":{"PreToolUze":[]}, "env":{}}"#);
    site.turn().await;
    assert_eq!(site.told.lock().unwrap().pop().unwrap().reports, []);
    site.close().await;
}

// C-BRIDGE-1, C-DUR-1: hooks that are in force judge a change, and keep it out; what they said is in the log before it counts.
#[tokio::test]
async fn a_change_that_a_hook_blocks_is_none() {
    let keep = r#"cat >> seen; echo '{"decision":"block","reason":"not now"}'"#;
    let guarded = [("PreToolUse", "Echo", DENY), ("ConfigChange", "project_settings", keep)];
    let site = Site::open(&settings(&guarded)).await;
    assert_eq!(site.turn().await, "hook_deny");
    site.write("settings.json", "{}");
    assert_eq!(site.turn().await, "hook_deny");
    let told = site.told();
    let [Reload::Kept { by, reason }] = &told[..] else { panic!("{told:?}") };
    assert!(by.handler.starts_with("ConfigChange:project_settings#") && reason.as_str() == "not now", "{by}");
    // C-BRIDGE-1: to the byte, between the prompts of two turns.
    let place = site.dir.path().to_str().unwrap();
    let transcript = site.hooks.transcript(site.house.session.id());
    let seen = site.said("seen");
    let prompt = seen.split_once(r#""prompt_id":""#).map(|(_, rest)| &rest[..36]).unwrap();
    let reads = format!(
        "{{\"session_id\":\"s\",\"transcript_path\":\"{}\",\"cwd\":\"{place}\",\"prompt_id\":\"{prompt}\",\
         \"hook_event_name\":\"ConfigChange\",\"source\":\"project_settings\",\"file_path\":\"{place}/.claude/settings.json\"}}\n",
        transcript.display()
    );
    assert_eq!(seen, reads);
    let kinds = site.house.kinds();
    let second = kinds.iter().enumerate().filter(|(_, kind)| *kind == "turn/start").nth(1).unwrap().0;
    assert_eq!(kinds[second + 1..second + 4], ["hook/invoked", "hook/result", "user/message"]);
    // It is judged once, until the file changes again; what is in force again needs no judgement.
    assert_eq!((site.turn().await, site.told()), ("hook_deny", vec![]));
    site.write("settings.json", &settings(&guarded));
    assert_eq!((site.turn().await, site.told()), ("hook_deny", vec![]));
    assert_eq!(site.said("seen"), reads);
    // Another file is none of this hook's.
    site.write("settings.local.json", "{}");
    assert_eq!((site.turn().await, site.told()), ("hook_deny", vec![Reload::Taken]));
    assert_eq!(site.said("seen"), reads);
    site.close().await;
}

// What a hook on the change may say: exit code 2 and `block` keep it out, nothing else does; the administrator's file always counts.
#[tokio::test]
async fn what_keeps_a_change_out() {
    for (command, shadow, kept) in [
        ("exit 2", false, true),
        (r#"echo '{"decision":"block"}'"#, false, true),
        (r#"echo '{"decision":"block"}'"#, true, false),
        (r#"echo '{"continue":false}'"#, false, false),
        ("echo no; exit 1", false, false),
        ("true", false, false),
    ] {
        let text = settings(&[("ConfigChange", "", command)]);
        let site = Site::with(&text, |options, _| if shadow { options.shadow(true) } else { options }).await;
        site.turn().await;
        site.write("settings.json", &settings(&[("PreToolUse", "Echo", DENY)]));
        assert_eq!(site.turn().await == "hook_deny", !kept && !shadow, "{command}");
        assert_eq!(matches!(site.told()[..], [Reload::Kept { .. }]), kept, "{command}");
        site.close().await;
    }
    let text = settings(&[("ConfigChange", "policy_settings", "echo asked >> seen; exit 2")]);
    let site =
        Site::with(&text, |options, dir| options.layers(Layers::default().managed(dir.join("managed.json"))));
    let site = site.await;
    site.turn().await;
    fs::write(site.dir.path().join("managed.json"), settings(&[("PreToolUse", "Echo", DENY)])).unwrap();
    assert_eq!((site.turn().await, site.told()), ("hook_deny", vec![Reload::Taken]));
    assert_eq!(site.said("seen"), "asked\n");
    site.close().await;
}

// Who asks for it has files that are read once; files for one run and those of plugins are so in any case.
#[tokio::test]
async fn some_files_are_read_once() {
    let site = Site::with("{}", |options, _| options.read_once()).await;
    site.write("settings.json", &settings(&[("PreToolUse", "Echo", DENY)]));
    assert_eq!(site.turn().await, "completed");
    assert!(site.house.runtime.introspect().is_empty());
    site.close().await;
    let site = Site::with("{}", |options, dir| {
        fs::write(dir.join("run.json"), "{}").unwrap();
        options.layers(Layers::default().flag(dir.join("run.json")))
    });
    let site = site.await;
    fs::write(site.dir.path().join("run.json"), settings(&[("PreToolUse", "Echo", DENY)])).unwrap();
    assert_eq!((site.turn().await, site.told()), ("completed", vec![]));
    site.close().await;
}

// C-TURN-9, C-RUN-2: a turn that is cancelled while a hook judges a change ends, nothing is taken over, and other sessions do not
// wait for that hook; the next turn has it judged again.
#[tokio::test]
async fn a_slow_hook_on_a_change_holds_up_its_own_turn_alone() {
    let slow = settings(&[("ConfigChange", "", "echo asked >> seen; test -e go || exec sleep 600")]);
    let site = Site::open(&slow).await;
    let other = site.house.runtime.open("other", SessionOptions::new(site.dir.path())).await.unwrap();
    site.turn().await;
    site.write("settings.json", &settings(&[("PreToolUse", "Echo", DENY)]));
    let turn = within(site.house.session.prompt("go")).await.unwrap();
    until(|| site.said("seen") == "asked\n").await;
    assert_eq!(within(within(other.prompt("go")).await.unwrap().into_future()).await, EndReason::Completed);
    within(site.house.session.cancel(Cause::User)).await.unwrap();
    assert!(matches!(within(turn.into_future()).await, EndReason::Aborted { .. }));
    assert_eq!((site.told(), site.house.ran().len()), (vec![], 2));
    fs::write(site.dir.path().join("go"), "").unwrap();
    assert_eq!((site.turn().await, site.told()), ("hook_deny", vec![Reload::Taken]));
    assert_eq!(site.said("seen"), "asked\nasked\n");
    within(within(other.prompt("go")).await.unwrap().into_future()).await;
    assert_eq!(site.house.ran().len(), 2, "it is the project's: the other session has it, too");
    site.close().await;
}
