//! What hooks on a question to a person, and on the calls of a step, read and may answer.

mod support;

use portcullis_hooks::{ClaudeHooks, Moment, OnFailure};
use portcullis_runtime::*;
use std::sync::Arc;
use support::{Project, Seen, key, spec};

fn call(project: &Project, tool: &str, arguments: &str) -> Execution {
    call_at(project.scene(), tool, arguments)
}

fn call_at(scene: Scene, tool: &str, arguments: &str) -> Execution {
    let arguments = Frozen::arguments(arguments).unwrap();
    let token = Mint::new(0).root().id();
    Execution::new(token, None, scene, key(), "call-1".into(), spec(tool), arguments.clone(), arguments)
}

fn asking(project: &Project, tool: &str, arguments: &str) -> Asking {
    Asking::new(
        call(project, tool, arguments),
        vec![HandlerId::new("house", "gate")],
        vec!["sure?".into()],
        true,
    )
}

fn ask(project: &Project, tool: &str, arguments: &str) -> Seen<Permit> {
    project.dispatch::<Permission>(asking(project, tool, arguments))
}

fn done(place: u32, name: &str, raw: &str, arguments: Option<&str>, text: &str, error: bool) -> BatchCall {
    let key = CallKey { turn: 1, step: 1, call: CallPath::top(place) };
    let arguments = arguments.map(|text| Frozen::arguments(text).unwrap());
    let ended = if error { Ended::ToolError } else { Ended::Completed };
    let made = (format!("call-{place}").into(), name.into(), raw.into());
    BatchCall::new(key, made, arguments, ended, text.into(), error)
}

/// What a hook read, without the folder of this very project.
fn read(project: &Project) -> String {
    project.read("seen").replace(project.dir.path().to_str().unwrap(), "{P}")
}

const BASE: &str = r#"{"session_id":"s-1","transcript_path":"{P}/.portcullis/transcripts/s-1.jsonl","cwd":"{P}","prompt_id":"256f4b03-a400-826b-b525-0cf206e53c4e","permission_mode":"default","hook_event_name":"#;
const KEEP: &str = "cat > \"$CLAUDE_PROJECT_DIR/seen\"";

// C-BRIDGE-1: no id of the call, no suggestions; arguments as PreToolUse has them.
#[test]
fn a_permission_request_reads_the_call_without_its_id() {
    let project = Project::hook("PermissionRequest", KEEP);
    let seen = ask(&project, "Edit", r#"{"new_string":"b","old_string":"a","file_path":"f.txt"}"#);
    assert_eq!(seen.decisions, [Permit::Abstain]);
    let rest = r#""PermissionRequest","tool_name":"Edit","tool_input":{"file_path":"{P}/f.txt","old_string":"a","new_string":"b","replace_all":false}}"#;
    assert_eq!(read(&project), format!("{BASE}{rest}\n"));
}

// C-BRIDGE-1: what the model reads, keys and paths as they were written; blocks for MCP tools and agents, unless they failed.
#[test]
fn a_batch_reads_what_the_model_reads() {
    let project = Project::hook("PostToolBatch", KEEP);
    let calls = [
        done(0, "Read", "", Some(r#"{"limit":3,"file_path":"f.txt"}"#), "1\tx", false),
        done(1, "Nope", r#"{"a": 1}"#, None, "no such tool", true),
        done(2, "Bash", r#"{"command":"#, None, "not JSON", true),
        done(3, "mcp__s__t", "", Some("{}"), "hello", false),
        done(4, "mcp__s__t", "", Some("{}"), "broken", true),
        done(5, "Task", "", Some(r#"{"prompt":"p"}"#), "report", false),
    ];
    let seen = project.dispatch::<ToolBatch>(CallBatch::new(project.scene(), calls));
    assert_eq!((seen.decisions.len(), seen.context.len(), seen.halt), (1, 0, None));
    let each = [
        r#"{"tool_name":"Read","tool_input":{"limit":3,"file_path":"f.txt"},"tool_use_id":"call-0","tool_response":"1\tx"}"#,
        r#"{"tool_name":"Nope","tool_input":{"a":1},"tool_use_id":"call-1","tool_response":"no such tool"}"#,
        r#"{"tool_name":"Bash","tool_input":{},"tool_use_id":"call-2","tool_response":"not JSON"}"#,
        r#"{"tool_name":"mcp__s__t","tool_input":{},"tool_use_id":"call-3","tool_response":[{"type":"text","text":"hello"}]}"#,
        r#"{"tool_name":"mcp__s__t","tool_input":{},"tool_use_id":"call-4","tool_response":"broken"}"#,
        r#"{"tool_name":"Agent","tool_input":{"prompt":"p"},"tool_use_id":"call-5","tool_response":[{"type":"text","text":"report"}]}"#,
    ];
    assert_eq!(read(&project), format!("{BASE}\"PostToolBatch\",\"tool_calls\":[{}]}}\n", each.join(",")));
}

fn answers(decision: &str) -> Seen<Permit> {
    let said =
        format!(r#"{{"hookSpecificOutput":{{"hookEventName":"PermissionRequest","decision":{decision}}}}}"#);
    let project = Project::hook("PermissionRequest", &format!("cat >/dev/null; printf %s '{said}'"));
    ask(&project, "Bash", r#"{"command":"ls", "description":"d"}"#)
}

// C-BRIDGE-1, C-PIPE-9: the texts, and what is done with other arguments.
#[test]
fn what_a_permission_request_may_answer() {
    let allowed = answers(r#"{"behavior":"allow"}"#);
    assert_eq!((&*allowed.decisions, &*allowed.results[0].decision), (&[Permit::Allow][..], "allow"));
    for (decision, reason, halt) in [
        (r#"{"behavior":"deny","message":"not now"}"#, "not now", None),
        (r#"{"behavior":"deny","message":""}"#, "Permission denied by hook", None),
        (r#"{"behavior":"deny","message":"stop","interrupt":true}"#, "stop", Some("stop")),
        (
            r#"{"behavior":"deny","interrupt":true}"#,
            "Permission denied by hook",
            Some("Stopped by a PermissionRequest hook."),
        ),
    ] {
        let seen = answers(decision);
        assert_eq!((seen.decisions, seen.halt.as_deref()), (vec![Permit::deny(reason)], halt), "{decision}");
        assert_eq!(seen.results[0].decision, "deny");
    }
    // Another spelling of the same arguments is the same call.
    let same = answers(r#"{"behavior":"allow","updatedInput":{"description":"d","command":"ls"}}"#);
    assert_eq!(same.decisions, [Permit::Allow]);
    let other = answers(r#"{"behavior":"allow","updatedInput":{"command":"pwd"}}"#);
    let [Permit::Deny { reason }] = &other.decisions[..] else { panic!("{other:?}") };
    assert!(reason.as_str().ends_with(r#"Call Bash with these: {"command":"pwd"}"#), "{reason}");
    let rules = answers(r#"{"behavior":"allow","updatedPermissions":[]}"#);
    assert_eq!(
        (&*rules.decisions, &*rules.results[0].unused),
        (&[Permit::Allow][..], &["updatedPermissions".to_owned()][..])
    );
    for bad in [
        "null",
        "\"allow\"",
        "{}",
        r#"{"behavior":"ask"}"#,
        r#"{"behavior":"deny","message":1}"#,
        r#"{"behavior":"deny","interrupt":"yes"}"#,
        r#"{"behavior":"allow","updatedInput":[]}"#,
        r#"{"behavior":"allow","updatedPermissions":{}}"#,
    ] {
        let seen = answers(bad);
        assert_eq!(seen.decisions, [Permit::Abstain], "{bad}");
        assert!(seen.results[0].error.is_some() && seen.failures.len() == 1, "{bad}");
    }
}

// C-BRIDGE-1: with nobody to ask, what a hook wanted asked is asked of no hook; what anyone else did is.
#[test]
fn where_nobody_is_asked_hooks_answer_for_policies_alone() {
    let project = Project::hook("PermissionRequest", "true");
    let (hooks, _) = ClaudeHooks::load_with(project.path(), project.options.clone());
    let mut table = Table::new();
    table.register("claude", |at| hooks.clone().register(at));
    let hook = HandlerId::new("claude", "PreToolUse:*#0123456789ab");
    let (rule, policy) =
        (HandlerId::new("claude", "permissions.ask"), HandlerId::new("house", "PreToolUse:x"));
    for (by, reachable, runs) in [
        (vec![hook.clone()], true, 1),
        (vec![hook.clone()], false, 0),
        (vec![rule.clone(), hook], false, 0),
        (vec![rule], false, 1),
        (vec![policy], false, 1),
    ] {
        let call = call(&project, "Bash", "{}");
        let input = Asking::new(call, by.clone(), Vec::new(), reachable);
        assert_eq!(table.plan::<Permission>(&input).len(), runs, "{by:?}, {reachable}");
        let explained = hooks.explain(&Moment::PermissionRequest(input)).unwrap();
        assert_eq!(explained.hooks[0].why_not.is_none(), runs == 1, "{by:?}, {reachable}");
    }
}

// C-BRIDGE-1
#[test]
fn what_is_explained_of_them_is_what_is_planned() {
    let project = Project::new(
        r#"{"hooks":{"PermissionRequest":[{"matcher":"Bash","hooks":[{"type":"command","command":"a"},{"type":"command","command":"b","if":"Bash(git:*)"}]}],
            "PostToolBatch":[{"matcher":"Nope","hooks":[{"type":"command","command":"c"}]}]}}"#,
    );
    let (hooks, reports) = ClaudeHooks::load_with(project.path(), project.options.clone());
    assert!(reports.is_empty(), "{reports:?}");
    let runs = |moment: &Moment| -> Vec<Arc<str>> {
        let explained = hooks.explain(moment).unwrap();
        let ran = explained.hooks.into_iter().filter(|one| one.why_not.is_none());
        ran.map(|one| one.hook.command).collect()
    };
    let asked = |command: &str| Moment::PermissionRequest(asking(&project, "Bash", command));
    assert_eq!(runs(&asked(r#"{"command":"ls"}"#)), ["a".into()]);
    assert_eq!(runs(&asked(r#"{"command":"git push"}"#)), ["a".into(), "b".into()]);
    assert!(runs(&Moment::PermissionRequest(asking(&project, "Edit", "{}"))).is_empty());
    let calls = CallBatch::new(project.scene(), [done(0, "Bash", "", Some("{}"), "x", false)]);
    assert_eq!(runs(&Moment::PostToolBatch(calls)), ["c".into()]);
}

// C-BRIDGE-1: base keys without a mode, and what matchers are compared with; nothing that they say is context.
#[tokio::test]
async fn what_notices_read() {
    let project = Project::hook(
        "Notification",
        &format!(
            "{KEEP}; echo '{{\"hookSpecificOutput\":{{\"hookEventName\":\"Notification\",\"additionalContext\":\"c\"}}}}'"
        ),
    );
    let (hooks, _) = ClaudeHooks::load_with(project.path(), project.options.clone());
    let request = RequestId::of(&SessionId::new("s-1").unwrap(), &key());
    let asked = PutQuestion::new(call(&project, "Task", "{}"), request, Vec::new(), Vec::new());
    let moment = Moment::Notification(asked);
    let told = hooks.tell(&moment).await;
    assert_eq!((told.len(), told[0].context.len(), told[0].records.len()), (1, 0, 2));
    let base = BASE.replace(r#""permission_mode":"default","#, "");
    let rest = r#""Notification","message":"Claude needs your permission to use Agent","notification_type":"permission_prompt"}"#;
    assert_eq!(read(&project), format!("{base}{rest}\n"));
    let explained = hooks.explain(&moment).unwrap();
    assert_eq!((explained.event, &*explained.subject), ("Notification", "permission_prompt"));
    assert_eq!(explained.hooks[0].why_not, None);

    let project = Project::hook("StopFailure", KEEP);
    let (hooks, _) = ClaudeHooks::load_with(project.path(), project.options.clone());
    let ended = |code: &str| {
        let reason = EndReason::Error { code: code.into(), message: "it is busy".into() };
        Moment::TurnEnd(TurnEnded::new(project.scene(), reason))
    };
    assert_eq!(hooks.tell(&ended("model_busy")).await.len(), 1);
    let rest = r#""StopFailure","error":"rate_limit","last_assistant_message":"it is busy"}"#;
    assert_eq!(read(&project), format!("{base}{rest}\n"));
    assert!(
        hooks.tell(&ended("call_stuck")).await.is_empty() && hooks.explain(&ended("call_stuck")).is_none()
    );
}

// A subagent's failure is its parent's tool result, and what answers for a hook has no hooks. What is explained says so, too.
#[tokio::test]
async fn where_nobody_is_told() {
    let command = r#"[{"hooks":[{"type":"command","command":"true"}]}]"#;
    let project = Project::new(&format!(
        r#"{{"hooks":{{"Notification":{command},"StopFailure":{command},"SessionEnd":{command}}}}}"#
    ));
    let (hooks, _) = ClaudeHooks::load_with(project.path(), project.options.clone());
    let request = RequestId::of(&SessionId::new("s-1").unwrap(), &key());
    let failed = EndReason::Error { code: "model_busy".into(), message: "m".into() };
    let (agent, helper) = (project.inside("claude/hook-agent"), project.inside("helper"));
    for (scene, notices, ends) in [(project.scene(), 1, 1), (helper, 1, 0), (agent, 0, 0)] {
        let asked = call_at(scene.clone(), "Bash", "{}");
        let asked = PutQuestion::new(asked, request.clone(), Vec::new(), Vec::new());
        for (moment, runs) in [
            (Moment::Notification(asked), notices),
            (Moment::TurnEnd(TurnEnded::new(scene.clone(), failed.clone())), ends),
            (Moment::SessionEnd(SessionEnded::new(scene.clone())), ends),
        ] {
            let explained = hooks.explain(&moment).unwrap();
            let run = explained.hooks.iter().filter(|one| one.why_not.is_none()).count();
            assert_eq!((hooks.tell(&moment).await.len(), run), (runs, runs), "{moment:?}");
        }
    }
}

// C-BRIDGE-1: told of denials of the host's policy alone; `retry` reaches the model.
#[test]
fn a_denied_permission_may_be_tried_again() {
    let said = r#"{"hookSpecificOutput":{"hookEventName":"PermissionDenied","retry":true}}"#;
    let project = Project::hook("PermissionDenied", &format!("{KEEP}; printf %s '{said}'"));
    let denied = |owner: &str| {
        Outcome::ended(Ended::HookDeny { by: HandlerId::new(owner, "h"), reason: "not here".into() })
    };
    let seen = project.post("Bash", r#"{"command":"ls"}"#, denied("house"));
    assert_eq!(seen.context, ["PermissionDenied:Bash hook says that this call may be tried again."]);
    assert_eq!(seen.decisions, [Review::accept()]);
    let rest = r#""PermissionDenied","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"call-1","reason":"not here"}"#;
    assert_eq!(read(&project), format!("{BASE}{rest}\n"));
    assert!(project.post("Bash", "{}", denied("claude")).decisions.is_empty(), "a hook's own denial is none");
    assert!(project.post("Bash", "{}", Outcome::completed("x")).decisions.is_empty());
}

// C-BRIDGE-7: more may have been on its way, so an answer that may be half of one allows nothing; a denial stands.
#[test]
fn an_allow_that_may_be_half_of_an_answer_is_none() {
    for (decision, permit, held) in [
        (r#"{"behavior":"allow"}"#, Permit::Abstain, true),
        (r#"{"behavior":"deny","message":"no"}"#, Permit::deny("no"), false),
    ] {
        let said = format!(
            r#"{{"hookSpecificOutput":{{"hookEventName":"PermissionRequest","decision":{decision}}}}}"#
        );
        let command = format!("cat >/dev/null; printf %s '{said}'; sleep 60 & echo $! >> pids");
        let project = Project::hook("PermissionRequest", &command);
        let seen = ask(&project, "Bash", "{}");
        assert_eq!(seen.decisions, [permit], "{decision}");
        assert_eq!((seen.failures.len(), seen.results[0].error.is_some()), (usize::from(held), held));
        let project = project.options(|options| options.on_failure(OnFailure::Block));
        let [Permit::Deny { reason }] = &ask(&project, "Bash", "{}").decisions[..] else {
            panic!("{decision}")
        };
        assert_eq!(reason.as_str().contains("held its output open"), held, "{reason}");
        let _ = std::process::Command::new("kill").args(project.read("pids").split_whitespace()).status();
    }
}
