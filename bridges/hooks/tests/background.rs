//! Hooks that nobody waits for.

mod support;

use portcullis_hooks::{CodexHooks, CodexLayers, Late, Options};
use portcullis_runtime::*;
use std::{
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};
use support::{Project, key, spec};

const PATIENCE: Duration = Duration::from_secs(30);

/// Starts the hooks of one call and hands out what they say, as long as their thread lives.
fn start<S: Seam>(
    project: &Project,
    input: S::Input,
    meanwhile: impl FnOnce(&Receiver<Late>, Vec<Reply<S::Decision>>),
) {
    let (tell, told) = channel();
    let tell = std::sync::Mutex::new(tell);
    let options = project.options.clone().late(move |late| tell.lock().unwrap().send(late).unwrap());
    let (hooks, _) = portcullis_hooks::ClaudeHooks::load_with(project.path(), options);
    start_of::<S>(&hooks, &told, input, meanwhile);
}

/// The same with hooks of any client.
fn start_of<S: Seam>(
    hooks: &std::sync::Arc<portcullis_hooks::Hooks>,
    told: &Receiver<Late>,
    input: S::Input,
    meanwhile: impl FnOnce(&Receiver<Late>, Vec<Reply<S::Decision>>),
) {
    let mut table = Table::new();
    table.register(hooks.dialect(), |at| hooks.clone().register(at));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let replies = tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut replies = Vec::new();
        for planned in table.plan::<S>(&input) {
            replies.push(planned.run.decide(input.clone()).await.unwrap());
        }
        replies
    });
    meanwhile(told, replies);
}

fn returned(project: &Project) -> Returned {
    let arguments = Frozen::arguments(r#"{"command":"ls"}"#).unwrap();
    let outcome = std::sync::Arc::new(Outcome::completed("x"));
    Returned::new(
        project.scene(),
        key(),
        "call-1".into(),
        "Bash".into(),
        Some(spec("Bash")),
        Some(arguments),
        outcome,
        PATIENCE,
    )
}

// C-SEAM-2, C-LOG-9
#[test]
fn it_is_started_with_the_same_bytes_and_heard_when_it_ends() {
    let context = r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"later"},"decision":"block","reason":"ignored"}"#;
    let command = format!("cat > seen; while [ ! -e go ]; do sleep 0.02; done; printf '%s' '{context}'");
    let project = Project::with("PostToolUse", &command, r#","async":true"#);
    start::<PostExecute>(&project, returned(&project), |told, replies| {
        // It waits for `go`, and nobody waited for it.
        let [reply] = &replies[..] else { panic!("{}", replies.len()) };
        assert_eq!(reply.decision, Review::accept());
        assert!(reply.context.is_empty() && reply.records.is_empty() && reply.halt.is_none());
        assert!(told.try_recv().is_err());
        std::fs::write(project.path().join("go"), "").unwrap();
        let late = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(late.session.as_str(), "s-1");
        // A block of an answer that comes too late blocks nothing; its context has no prefix.
        assert_eq!(late.context, ["later".into()]);
        let kinds: Vec<&str> = late.records.iter().map(|record| &*record.kind).collect();
        assert_eq!(kinds, ["hook/invoked", "hook/result"]);
        assert!(project.read("seen").ends_with("\"duration_ms\":30000}\n"));
    });
}

// C-SEAM-2
#[test]
fn exit_code_2_is_told_later_or_not_at_all() {
    for (fields, expected) in [
        (r#","async":true"#, &[][..]),
        (
            r#","async":true,"asyncRewake":true"#,
            &["Stop hook blocking error from command \"PostToolUse:Bash\": RW\n"],
        ),
    ] {
        let project = Project::with("PostToolUse", "cat >/dev/null; echo RW >&2; exit 2", fields);
        start::<PostExecute>(&project, returned(&project), |told, replies| {
            assert_eq!(replies[0].decision, Review::accept());
            let late = told.recv_timeout(PATIENCE).unwrap();
            assert_eq!(late.context.iter().map(|text| &**text).collect::<Vec<_>>(), expected);
            assert_eq!(late.wakes, !expected.is_empty());
        });
    }
    // Alone, `asyncRewake` changes nothing: the hook is waited for.
    let project = Project::with("PostToolUse", "echo RW >&2; exit 2", r#","asyncRewake":true"#);
    let seen = project.post("Bash", r#"{"command":"ls"}"#, Outcome::completed("x"));
    assert_eq!(seen.context.len(), 1);
}

// C-BRIDGE-7
#[test]
fn it_is_held_to_its_limit_and_ends_with_its_thread() {
    let project = Project::with("PostToolUse", "exec sleep 300", r#","async":true,"timeout":0.3"#);
    start::<PostExecute>(&project, returned(&project), |told, _| {
        let late = told.recv_timeout(PATIENCE).unwrap();
        assert!(late.records[1].data.text().contains(r#""timed_out":true"#));
    });
    let project = Project::with("PostToolUse", "echo $$ > pid; exec sleep 300", r#","async":true"#);
    start::<PostExecute>(&project, returned(&project), |_, _| {
        let until = Instant::now() + PATIENCE;
        while project.lines("pid") == 0 {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let pid = project.read("pid");
    let until = Instant::now() + PATIENCE;
    let alive = || match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => false,
    };
    while alive() {
        assert!(Instant::now() < until, "it outlived its thread");
        std::thread::sleep(Duration::from_millis(20));
    }
}

// C-BRIDGE-1: the first line of output sends a hook into the background; what it says after that is heard when it ends.
#[test]
fn a_hook_goes_into_the_background_itself() {
    let context = r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"later"},"decision":"block","reason":"ignored"}"#;
    let waits = format!(
        "cat > seen; echo '{{\"async\":true}}'; while [ ! -e go ]; do sleep 0.02; done; printf '%s' '{context}'"
    );
    // One that is over before anybody has looked.
    let ends = format!("cat > seen; touch go; printf '%s\\n%s' '{{\"async\":true}}' '{context}'");
    for command in [waits, ends] {
        let project = Project::with("PostToolUse", &command, "");
        start::<PostExecute>(&project, returned(&project), |told, replies| {
            let [reply] = &replies[..] else { panic!("{}", replies.len()) };
            assert_eq!(reply.decision, Review::accept());
            assert!(reply.context.is_empty() && reply.records.is_empty() && reply.failure.is_none());
            std::fs::write(project.path().join("go"), "").unwrap();
            let late = told.recv_timeout(PATIENCE).unwrap();
            assert_eq!((late.context, late.wakes), (vec!["later".into()], false));
            assert_eq!(late.records.len(), 2);
        });
    }
}

// C-BRIDGE-7: the limit that such a hook sets itself ends it.
#[test]
fn a_hook_that_went_there_is_held_to_its_limit() {
    let command = r#"echo '{"async":true,"asyncTimeout":200}'; exec sleep 300"#;
    let project = Project::with("PostToolUse", command, "");
    start::<PostExecute>(&project, returned(&project), |told, _| {
        let late = told.recv_timeout(PATIENCE).unwrap();
        assert!(late.records[1].data.text().contains(r#""timed_out":true"#));
        assert!(late.context.is_empty());
    });
}

// Any other first line is waited behind.
#[test]
fn another_first_line_changes_nothing() {
    for line in [r#"{"async":false}"#, "async", r#"[{"async":true}]"#] {
        let command = format!("echo '{line}'; echo no >&2; exit 2");
        let seen = Project::hook("PreToolUse", &command).pre("Bash", "{}");
        assert_eq!(support::gate(&seen.decisions[0]).0, "deny", "{line}");
    }
}

// C-BRIDGE-1: Codex has no first line with which a hook goes there, so it is part of what the hook says.
#[test]
fn of_codex_a_first_line_is_no_other_than_the_rest() {
    for (first, told_later) in [("", &["later"][..]), (r#"{"async":true}\n"#, &[])] {
        let project = Project::new("{}");
        std::fs::create_dir_all(project.path().join(".codex")).unwrap();
        let said = format!(
            r#"printf '{first}{{"hookSpecificOutput":{{"hookEventName":"PostToolUse","additionalContext":"later"}}}}'"#
        );
        let hook = format!(
            "[[hooks.PostToolUse]]\n[[hooks.PostToolUse.hooks]]\ntype = 'command'\nasync = true\ncommand = {said:?}\n"
        );
        std::fs::write(project.path().join(".codex/config.toml"), hook).unwrap();
        let (tell, told) = channel();
        let tell = std::sync::Mutex::new(tell);
        let layers = CodexLayers::default().trust_project().bypass_trust();
        let options =
            Options::new().layers(layers).late(move |late| tell.lock().unwrap().send(late).unwrap());
        let (hooks, _) = CodexHooks::load_with(project.path(), options);
        start_of::<PostExecute>(&hooks, &told, returned(&project), |told, _| {
            let late = told.recv_timeout(PATIENCE).unwrap();
            let context: Vec<&str> = late.context.iter().map(|text| &**text).collect();
            assert_eq!(context, told_later, "{first}");
        });
    }
}
