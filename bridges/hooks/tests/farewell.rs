//! SessionEnd: what its hooks read, for how long they may run, and that nothing they say counts.

mod support;

use portcullis_hooks::{ClaudeHooks, Moment};
use portcullis_runtime::*;
use support::Project;

const KEEP: &str = "cat > \"$CLAUDE_PROJECT_DIR/seen\"";
/// More than enough, on any machine.
const TIME: &str = r#","timeout":60"#;

fn ended(project: &Project) -> SessionEnded {
    SessionEnded::new(project.scene())
}

/// The limits of the rows that introspection shows for its hooks, in milliseconds.
fn limits(settings: &str, change: impl FnOnce(Project) -> Project) -> Vec<u64> {
    let (table, _) = change(Project::new(settings)).load();
    let rows = table.introspect().into_iter().filter(|row| row.point == Point::SessionEnd);
    rows.filter(|row| row.id.handler.starts_with("SessionEnd:")).map(|row| row.limit_ms.unwrap()).collect()
}

fn hooks(fields: &[&str]) -> String {
    let hook =
        |(at, fields): (usize, &&str)| format!(r#"{{"type":"command","command":"true {at}"{fields}}}"#);
    let hooks: Vec<String> = fields.iter().enumerate().map(hook).collect();
    format!(r#"{{"hooks":{{"SessionEnd":[{{"hooks":[{}]}}]}}}}"#, hooks.join(","))
}

// C-BRIDGE-1
#[test]
fn they_read_what_the_client_says() {
    let project = Project::with("SessionEnd", KEEP, TIME);
    let path = project.path();
    let expected = |prompt: &str| {
        format!(
            "{{\"session_id\":\"s-1\",\"transcript_path\":\"{P}/.portcullis/transcripts/s-1.jsonl\",\"cwd\":\"{P}\",{prompt}\"hook_event_name\":\"SessionEnd\",\"reason\":\"other\"}}\n",
            P = path.display()
        )
    };
    let id = r#""prompt_id":"256f4b03-a400-826b-b525-0cf206e53c4e","#;
    assert_eq!(project.farewell(&ended(&project)).len(), 1);
    assert_eq!(project.read("seen"), expected(id));
    let none = SessionEnded::new(Scene::new(project.scene().session, 0, 0, None));
    assert_eq!(project.farewell(&none).len(), 1);
    assert_eq!(project.read("seen"), expected(""), "of a session without a prompt");
    let (hooks, _) = ClaudeHooks::load_with(project.path(), project.options.clone());
    let explained = hooks.explain(&Moment::SessionEnd(ended(&project))).unwrap();
    assert_eq!((explained.event, &*explained.subject), ("SessionEnd", "other"));
    assert_eq!(String::from_utf8(explained.stdin).unwrap(), expected(id));
    assert_eq!(explained.hooks[0].why_not, None);
}

// C-BRIDGE-1, C-BRIDGE-5
#[test]
fn a_matcher_names_the_reason() {
    for (matcher, runs) in [("other", 1), ("clear", 0), ("clear|other", 1), ("*", 1), ("oth", 0), ("^oth", 1)]
    {
        let project = Project::new(&format!(
            r#"{{"hooks":{{"SessionEnd":[{{"matcher":"{matcher}","hooks":[{{"type":"command","command":"true"}}]}}]}}}}"#
        ));
        assert_eq!(project.farewell(&ended(&project)).len(), runs, "{matcher}");
        let codes: Vec<_> = project.reports().into_iter().map(|report| report.code).collect();
        assert_eq!(codes.len(), 1 - runs, "{matcher}: {codes:?}");
    }
}

#[test]
fn nothing_that_they_say_counts_and_all_of_it_is_on_record() {
    let project = Project::with("SessionEnd", "echo out; echo no >&2; exit 2", TIME);
    let results = project.farewell(&ended(&project));
    assert_eq!((results[0].exit, &*results[0].stderr), (Some(2), "no\n"));
    let (hooks, _) = ClaudeHooks::load_with(project.path(), project.options.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let late = runtime.block_on(hooks.tell(&Moment::SessionEnd(ended(&project))));
    assert_eq!((late.len(), late[0].context.len(), late[0].wakes, late[0].records.len()), (1, 0, false, 2));
}

// C-BRIDGE-1: the time is that of the variable, else the longest that one asks for up to a minute, else a second and a half.
#[test]
fn they_have_little_time_unless_they_ask_for_more() {
    let plain = |settings: &str| limits(settings, |project| project);
    assert_eq!(plain(&hooks(&[""])), [1500]);
    assert_eq!(plain(&hooks(&["", r#","timeout":10"#])), [10_000, 10_000]);
    assert_eq!(plain(&hooks(&["", r#","timeout":1"#])), [1500, 1000]);
    assert_eq!(plain(&hooks(&[r#","timeout":600"#])), [60_000]);
    let stated = r#"{"env":{"CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS":"4000"},"#;
    let with = |fields: &[&str]| hooks(fields).replacen('{', stated, 1);
    assert_eq!(plain(&with(&["", r#","timeout":10"#, r#","timeout":1"#])), [4000, 4000, 1000]);
    let host =
        |project: Project| project.options(|o| o.env("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS", "700"));
    assert_eq!(limits(&with(&[""]), host), [700]);
}

// C-BRIDGE-7
#[test]
fn one_that_takes_longer_is_ended_and_the_next_one_runs() {
    let slow = r#"{"env":{"CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS":"3000"},"hooks":{"SessionEnd":[{"hooks":[
        {"type":"command","command":"exec sleep 600"},{"type":"command","command":"echo late"}]}]}}"#;
    let results = Project::new(slow).farewell(&ended(&Project::new("{}")));
    assert_eq!(results.iter().map(|result| result.timed_out).collect::<Vec<_>>(), [true, false]);
}

// One in the background would be cut off: it is waited for, too, whether it was set so or goes there itself.
#[test]
fn one_in_the_background_is_waited_for() {
    let keep = "sleep 0.2; echo x >> \"$CLAUDE_PROJECT_DIR/ran\"";
    let project = Project::with("SessionEnd", keep, r#","timeout":60,"async":true"#);
    assert_eq!(project.farewell(&ended(&project)).len(), 1);
    assert_eq!(project.lines("ran"), 1);
    let project = Project::with("SessionEnd", &format!("echo '{{\"async\":true}}'; {keep}"), TIME);
    assert_eq!(project.farewell(&ended(&project)).len(), 1);
    assert_eq!(project.lines("ran"), 1);
}

#[test]
fn hooks_that_the_host_leaves_out_are_not_told() {
    let project = Project::hook("SessionEnd", KEEP).options(|o| o.only(|event, _| event != "SessionEnd"));
    assert!(project.farewell(&ended(&project)).is_empty());
    assert!(!project.path().join("seen").exists());
}
