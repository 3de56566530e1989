//! Hooks around subagents and inside them.

mod support;

use portcullis_hooks::ClaudeHooks;
use portcullis_runtime::*;
use support::{Project, gate, key, spec};

const KEEP: &str = r#"cat > "$CLAUDE_PROJECT_DIR/seen"; env > "$CLAUDE_PROJECT_DIR/env""#;

/// What every payload inside the subagent begins with, `{M}` standing for the permission mode.
fn base(project: &Project, event: &str, mode: bool) -> String {
    let place = project.path();
    let place = place.display();
    let id = ClaudeHooks::agent_id(&project.inside("Explore").session.id);
    let mode = if mode { r#""permission_mode":"default","# } else { "" };
    let seen = project.read("seen");
    let prompt = seen.split(r#""prompt_id":""#).nth(1).unwrap().split('"').next().unwrap();
    format!(
        r#"{{"session_id":"s-1","transcript_path":"{place}/.portcullis/transcripts/s-1.jsonl","cwd":"{place}","prompt_id":"{prompt}",{mode}"agent_id":"{id}","agent_type":"Explore","hook_event_name":"{event}""#
    )
}

// C-SUB-3, C-BRIDGE-1
#[test]
fn a_start_is_told_the_two_names_and_may_add_context() {
    let print = r#"; printf '{"hookSpecificOutput":{"hookEventName":"SubagentStart","additionalContext":"be brief"}}'"#;
    let project = Project::hook("SubagentStart", &format!("{KEEP}{print}"));
    let seen = project.dispatch::<SubagentStart>(ChildStarting::new(project.inside("Explore"), None));
    assert_eq!(seen.context, ["SubagentStart hook additional context: be brief"]);
    assert_eq!(project.read("seen"), base(&project, "SubagentStart", false) + "}\n");
    assert!(project.read("env").contains("CLAUDE_CODE_SESSION_ID=s-1\n"));
    // Nothing else it says counts.
    for command in ["echo plain", "echo no >&2; exit 2", r#"echo '{"continue":false}'"#] {
        let project = Project::hook("SubagentStart", command);
        let seen = project.dispatch::<SubagentStart>(ChildStarting::new(project.inside("Explore"), None));
        assert!(seen.context.is_empty() && seen.halt.is_none(), "{command}");
    }
}

// C-SUB-3, C-BRIDGE-1
#[test]
fn a_subagents_stop_is_an_event_of_its_own() {
    let settings = |matcher: &str, command: &str| {
        let command = serde_json::to_string(command).unwrap();
        format!(
            r#"{{"hooks":{{"Stop":[{{"hooks":[{{"type":"command","command":"touch \"$CLAUDE_PROJECT_DIR/main\""}}]}}],
                "SubagentStop":[{{"matcher":"{matcher}","hooks":[{{"type":"command","command":{command}}}]}}]}}}}"#
        )
    };
    let command = format!("{KEEP}; echo more >&2; exit 2");
    let project = Project::new(&settings("Explore|Plan", &command));
    let ending =
        |project: &Project, kind| Ending::new(project.inside(kind), 0, "found it".into()).forced_in_turn(2);
    let seen = project.dispatch::<TurnContinuation>(ending(&project, "Explore"));
    let feedback = format!("Stop hook feedback:\n[{command}]: more\n");
    assert_eq!(seen.decisions, [Continue::again(feedback)]);
    assert!(!project.path().join("main").exists());
    let id = ClaudeHooks::agent_id(&project.inside("Explore").session.id);
    assert!(id.len() == 17 && id.starts_with('a'));
    let place = project.path();
    let rest = format!(
        r#","stop_hook_active":true,"agent_transcript_path":"{}/.portcullis/transcripts/s-1/subagents/agent-{id}.jsonl","last_assistant_message":"found it","background_tasks":[],"session_crons":[]}}"#,
        place.display()
    );
    assert_eq!(project.read("seen"), base(&project, "SubagentStop", true) + &rest + "\n");
    // The matcher is about the kind of agent.
    let seen = project.dispatch::<TurnContinuation>(ending(&project, "general-purpose"));
    assert!(seen.decisions.is_empty());
    // The session's own stop runs its own hook only.
    std::fs::remove_file(project.path().join("seen")).unwrap();
    assert_eq!(project.stop(0, "x").decisions, [Continue::Abstain]);
    assert!(project.path().join("main").exists() && !project.path().join("seen").exists());
    // Context keeps it going under its own name; a halt ends it.
    let context =
        r#"echo '{"hookSpecificOutput":{"hookEventName":"SubagentStop","additionalContext":"lint"}}'"#;
    let project = Project::new(&settings("", context));
    let seen = project.dispatch::<TurnContinuation>(ending(&project, "Explore"));
    assert_eq!(seen.decisions, [Continue::again("SubagentStop hook additional context: lint")]);
    let project = Project::new(&settings("", r#"echo '{"continue":false,"decision":"block","reason":"x"}'"#));
    let seen = project.dispatch::<TurnContinuation>(ending(&project, "Explore"));
    assert_eq!(
        (&seen.decisions[..], seen.halt.as_deref()),
        (&[Continue::Abstain][..], Some("Stopped by a SubagentStop hook."))
    );
}

// C-BRIDGE-1
#[test]
fn inside_a_subagent_hooks_are_told_the_conversation_it_belongs_to() {
    let project = Project::hook("PreToolUse", &format!("{KEEP}; exit 2"));
    let arguments = Frozen::arguments(r#"{"command":"ls"}"#).unwrap();
    let proposed = Proposed::new(project.inside("Explore"), key(), "call-1".into(), spec("Bash"), arguments);
    let seen = project.dispatch::<Rewrite>(proposed);
    assert_eq!(gate(&seen.decisions[0]).0, "deny");
    let rest = r#","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"call-1"}"#;
    assert_eq!(project.read("seen"), base(&project, "PreToolUse", true) + rest + "\n");
    assert!(project.read("env").contains("CLAUDE_CODE_SESSION_ID=s-1\n"));
    // What a subagent is asked is no user's prompt.
    let project = Project::hook("UserPromptSubmit", "exit 2");
    let asked = Submitted::new(project.inside("Explore"), Seq(2), "look around".into(), Source::User);
    assert!(project.dispatch::<PromptSubmit>(asked).decisions.is_empty());
}

#[test]
fn a_host_may_say_where_hooks_run() {
    let project = Project::hook("PreToolUse", "exit 2")
        .options(|o| o.only(|event, scene| event != "PreToolUse" || scene.session.depth() > 0));
    assert!(project.pre("Bash", r#"{"command":"ls"}"#).decisions.is_empty());
    let arguments = Frozen::arguments(r#"{"command":"ls"}"#).unwrap();
    let proposed = Proposed::new(project.inside("Explore"), key(), "call-1".into(), spec("Bash"), arguments);
    assert_eq!(project.dispatch::<Rewrite>(proposed).decisions.len(), 1);
}
