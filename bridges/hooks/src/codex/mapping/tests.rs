use super::*;
use portcullis_runtime::{CallKey, CallPath, Reply, Scene, SessionId, SessionInfo, ToolSpec};
use std::sync::Arc;

fn scene() -> Scene {
    let info = SessionInfo::new(SessionId::new("s-1").unwrap(), "/work".into(), "test");
    Scene::new(Arc::new(info), 1, 1, None)
}

fn frozen(json: &str) -> Frozen {
    Frozen::parse(json).unwrap()
}

fn call(tool: &str, arguments: &str) -> Proposed {
    let spec = ToolSpec::new(tool, "", frozen(r#"{"type":"object"}"#)).unwrap();
    let key = CallKey { turn: 1, step: 1, call: CallPath::top(0) };
    Proposed::new(scene(), key, "call_1".into(), Arc::new(spec), frozen(arguments))
}

fn considered(tool: &str, arguments: &str, mut answer: Answer) -> Answer {
    consider(&mut answer, At::PreToolUse(&call(tool, arguments)));
    answer
}

fn blocked(reason: &str) -> Answer {
    Answer { verdict: Some(Verdict::Block(reason.into())), ..Answer::default() }
}

fn halted(reason: Option<&str>) -> Answer {
    Answer { halt: Some(reason.map(str::to_owned)), ..Answer::default() }
}

fn heard(event: Event, answer: Answer) -> Heard {
    let (subject, command) = ("Bash".into(), "./hook.sh".into());
    let place = ("/home/u/.codex/a & \"b\"/hooks.json".into(), 3);
    Heard { event, subject, command, place, answer, records: Vec::new() }
}

fn with(mut answer: Answer, context: &str) -> Answer {
    answer.context = Some(context.into());
    answer
}

#[track_caller]
fn is<D: std::fmt::Debug + PartialEq>(mapped: Mapped<D>, decision: D, context: &[&str], halt: Option<&str>) {
    let Reply { decision: made, context: added, halt: ends, .. } = mapped.unwrap();
    let added: Vec<&str> = added.iter().map(|text| &**text).collect();
    assert_eq!((made, &*added, ends.as_ref().map(Reason::as_str)), (decision, context, halt));
}

// C-BRIDGE-1, C-PIPE-2
#[test]
fn a_denied_call_reads_as_in_the_client() {
    for (tool, arguments, text) in [
        ("Bash", r#"{"command":"echo hi"}"#, "Command blocked by PreToolUse hook: no. Command: echo hi"),
        ("exec_command", r#"{"cmd":"echo hi"}"#, "Command blocked by PreToolUse hook: no. Command: echo hi"),
        (
            "apply_patch",
            r#"{"input":"*** Begin\n"}"#,
            "Command blocked by PreToolUse hook: no. Command: *** Begin\n",
        ),
        ("Bash", r#"{"other":1}"#, "Tool call blocked by PreToolUse hook: no. Tool: Bash"),
        ("Write", r#"{"file_path":"a"}"#, "Tool call blocked by PreToolUse hook: no. Tool: Write"),
        ("mcp__srv__echo_it", "{}", "Tool call blocked by PreToolUse hook: no. Tool: mcp__srv__echo_it"),
    ] {
        let answer = considered(tool, arguments, with(blocked("no"), "c"));
        is(
            proposal(heard(Event::PreToolUse, answer)),
            Proposal::pass().carrying(Gate::deny(text)),
            &["c"],
            None,
        );
    }
}

// C-BRIDGE-1, C-PIPE-9
#[test]
fn of_a_command_the_text_alone_can_be_changed_and_of_another_call_everything() {
    for (tool, arguments, wanted, comes) in [
        (
            "Bash",
            r#"{"timeout":1.50,"command":"a"}"#,
            r#"{"command":"b \"c\"","timeout":9}"#,
            Ok(r#"{"timeout":1.50,"command":"b \"c\""}"#),
        ),
        (
            "exec_command",
            r#"{"cmd":"a","workdir":"/x"}"#,
            r#"{"command":"b","cmd":"z"}"#,
            Ok(r#"{"cmd":"b","workdir":"/x"}"#),
        ),
        ("apply_patch", r#"{"input":"a"}"#, r#"{"command":"b"}"#, Ok(r#"{"input":"b"}"#)),
        ("Bash", r#"{}"#, r#"{"command":"b"}"#, Ok(r#"{"command":"b"}"#)),
        ("Bash", r#"{"x":[1, 2]}"#, r#"{"command":"b"}"#, Ok(r#"{"x":[1,2],"command":"b"}"#)),
        ("Bash", r#"{"command":"a"}"#, r#"{"foo":"x"}"#, Err(NO_COMMAND)),
        ("Bash", r#"{"command":"a"}"#, r#"{"command":1}"#, Err(NO_COMMAND)),
        ("Bash", r#"{"command":"a"}"#, r#""b""#, Err(NO_COMMAND)),
        ("apply_patch", r#"{"input":"a"}"#, "[1]", Err(NO_COMMAND)),
        ("Write", r#"{"file_path":"a"}"#, r#"{"file_path":"b","n":1.0}"#, Ok(r#"{"file_path":"b","n":1.0}"#)),
        ("mcp__srv__echo_it", r#"{"x":"y"}"#, r#"{"z":1}"#, Ok(r#"{"z":1}"#)),
        ("mcp__srv__echo_it", "{}", "[1]", Err("hook returned updatedInput that cannot be used")),
    ] {
        let answer = Answer { rewrite: Some(frozen(wanted)), ..Answer::default() };
        let proposed =
            proposal(heard(Event::PreToolUse, considered(tool, arguments, answer))).unwrap().decision;
        match (comes, proposed) {
            (Ok(text), Proposal { arguments: Some(new), carried: None }) => assert_eq!(new.text(), text),
            (Err(why), Proposal { arguments: None, carried: Some(Gate::Deny { reason }) }) => {
                assert!(reason.as_str().starts_with(why), "{reason:?}");
            }
            (comes, proposed) => panic!("{tool} {wanted}: {comes:?} {proposed:?}"),
        }
    }
}

// C-PIPE-9, C-BRIDGE-1: what a hook reads, and changes, is what runs, whatever the model wrote beside it.
#[test]
fn the_command_is_the_one_that_the_tool_knows() {
    const CMD: &str = r#"{"type":"object","properties":{"cmd":{}}}"#;
    const DIFF: &str = r#"{"type":"object","properties":{"diff":{}}}"#;
    let open = r#"{"type":"object"}"#;
    let both = r#"{"command":"echo ok","cmd":"rm -rf /"}"#;
    for (tool, schema, arguments, read, new) in [
        ("exec_command", CMD, both, Some("rm -rf /"), Some(r#"{"command":"echo ok","cmd":"b"}"#)),
        ("exec_command", CMD, "{}", None, Some(r#"{"cmd":"b"}"#)),
        ("shell", open, r#"{"command":["rm"],"cmd":"echo ok"}"#, None, None),
        ("shell", open, r#"{"command":["rm"]}"#, None, Some(r#"{"command":"b"}"#)),
        ("exec_command", open, both, None, None),
        ("apply_patch", DIFF, r#"{"diff":"bad","patch":"good"}"#, None, None),
    ] {
        let spec = ToolSpec::new(tool, "", frozen(schema)).unwrap();
        let key = CallKey { turn: 1, step: 1, call: CallPath::top(0) };
        let call = Proposed::new(scene(), key, "call_1".into(), Arc::new(spec), frozen(arguments));
        let seen = alone(canonical(tool), Some(&call.tool), call.so_far.root());
        assert_eq!(seen.as_deref(), read, "{tool} {arguments}");
        let mut answer = Answer { rewrite: Some(frozen(r#"{"command":"b"}"#)), ..Answer::default() };
        consider(&mut answer, At::PreToolUse(&call));
        assert_eq!(answer.rewrite.as_ref().map(Frozen::text), new, "{tool} {arguments}");
        assert_eq!(answer.verdict.is_some(), new.is_none(), "what cannot be changed does not run");
    }
}

// C-BRIDGE-2
#[test]
fn a_person_is_asked_for_the_reason_given() {
    for (reason, text) in
        [(Some("sure?"), "sure?"), (None, "A PreToolUse:Bash hook wants a person to confirm this call")]
    {
        let answer = Answer { verdict: Some(Verdict::Ask(reason.map(str::to_owned))), ..Answer::default() };
        is(proposal(heard(Event::PreToolUse, answer)), Proposal::pass().carrying(Gate::ask(text)), &[], None);
    }
    is(proposal(heard(Event::PreToolUse, Answer::default())), Proposal::pass(), &[], None);
}

// C-BRIDGE-1
#[test]
fn a_question_is_answered_in_the_hooks_own_words() {
    let of = |verdict| permit(heard(Event::PermissionRequest, Answer { verdict, ..Answer::default() }));
    is(of(Some(Verdict::Allow)), Permit::Allow, &[], None);
    is(of(Some(Verdict::Block("no".into()))), Permit::deny("no"), &[], None);
    is(of(None), Permit::Abstain, &[], None);
}

// C-BRIDGE-1, C-PIPE-6
#[test]
fn feedback_stands_in_the_place_of_a_result() {
    let of = |answer| review(heard(Event::PostToolUse, answer));
    is(of(with(blocked("  bad  "), "c")), Review::block("  bad  "), &["c"], None);
    is(of(with(Answer::default(), " c ")), Review::accept(), &[" c "], None);
}

// C-BRIDGE-1, C-TURN-8
#[test]
fn what_stops_ends_the_turn_where_the_client_ends_it() {
    let generic = "Stopped by a UserPromptSubmit hook.";
    let of = |answer| submit(heard(Event::UserPromptSubmit, answer));
    is(of(with(Answer::default(), "c")), Submit::allow(), &["c"], None);
    is(of(with(blocked("no"), "c")), Submit::block("no"), &["c"], None);
    is(of(halted(Some("sr"))), Submit::block("sr"), &[], Some("sr"));
    is(of(halted(None)), Submit::block(generic), &[], Some(generic));

    let of = |answer| started(heard(Event::SessionStart, answer));
    is(of(with(halted(Some("x")), "c")), Started {}, &["c"], Some("x"));

    let of = |answer| compact(heard(Event::PreCompact, answer));
    is(of(Answer::default()), Compact::proceed(), &[], None);
    is(of(halted(Some("no room"))), Compact::skip("no room"), &[], Some("no room"));
    is(of(blocked("it failed")), Compact::skip("it failed"), &[], None);
    is(noted(heard(Event::PostCompact, halted(Some("x")))), Noted {}, &[], Some("x"));
}

// C-BRIDGE-1, C-TURN-7
#[test]
fn a_turn_goes_on_with_a_prompt_that_names_its_run() {
    let run = "3:/home/u/.codex/a &amp; &quot;b&quot;/hooks.json";
    for (event, name) in [(Event::Stop, "stop"), (Event::SubagentStop, "subagent-stop")] {
        let text = format!(
            "<hook_prompt hook_run_id=\"{name}:{run}\">keep going &lt;please&gt; &amp; \"now\"</hook_prompt>"
        );
        is(again(heard(event, blocked("keep going <please> & \"now\""))), Continue::again(text), &[], None);
        is(again(heard(event, halted(Some("sr")))), Continue::Abstain, &[], Some("sr"));
        is(again(heard(event, Answer::default())), Continue::Abstain, &[], None);
    }
}

// C-BRIDGE-1
#[test]
fn late_answers_decide_nothing_and_add_their_context() {
    let said = late(with(blocked("no"), "late"));
    assert_eq!(said, Said { context: vec!["late".into()], wakes: false });
    assert_eq!(late(blocked("no")), Said::default());
    is(started(heard(Event::SubagentStart, with(Answer::default(), "c"))), Started {}, &["c"], None);
}
