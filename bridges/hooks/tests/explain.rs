//! Explaining agrees with planning: the same hooks, for every kind of moment.

mod support;

use portcullis_hooks::{ClaudeHooks, Moment};
use portcullis_runtime::*;
use std::sync::Arc;
use support::{Project, key, spec};

const SETTINGS: &str = r#"{"hooks":{
    "SessionStart":[{"matcher":"startup","hooks":[{"type":"command","command":"a"}]},{"matcher":"resume","hooks":[{"type":"command","command":"b"}]}],
    "UserPromptSubmit":[{"matcher":"ignored","hooks":[{"type":"command","command":"c"}]}],
    "PreToolUse":[
        {"matcher":"Bash|Edit","hooks":[{"type":"command","command":"d","if":"Bash(git:*)"},{"type":"command","command":"e"},{"type":"command","command":"f","if":"Nonsense("}]},
        {"matcher":"^mcp__.*","hooks":[{"type":"command","command":"g"}]},
        {"matcher":"Bash(","hooks":[{"type":"command","command":"h"}]},
        {"hooks":[{"type":"command","command":"e"},{"type":"command","command":"i","async":true}]}],
    "PostToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"j"}]}],
    "PostToolUseFailure":[{"hooks":[{"type":"command","command":"k"}]}],
    "Stop":[{"hooks":[{"type":"command","command":"l"}]}],
    "SubagentStart":[{"matcher":"Plan","hooks":[{"type":"command","command":"m"}]}],
    "SubagentStop":[{"matcher":"Explore","hooks":[{"type":"command","command":"n"}]}]}}"#;

fn agree<S: Seam>(project: &Project, input: S::Input, moment: Moment, runs: &[&str]) {
    let (hooks, _) = ClaudeHooks::load_with(project.path(), project.options.clone());
    let mut table = Table::new();
    table.register("claude", |at| hooks.clone().register(at));
    let planned: Vec<Arc<str>> =
        table.plan::<S>(&input).iter().map(|planned| planned.id.handler.clone()).collect();
    let explained = hooks.explain(&moment);
    let considered = explained.map(|explained| {
        assert!(explained.stdin.ends_with(b"}\n"));
        assert_eq!(explained.hooks.len(), hooks.len(), "every hook is accounted for");
        explained.hooks
    });
    let ran: Vec<_> = considered.into_iter().flatten().filter(|one| one.why_not.is_none()).collect();
    let commands: Vec<&str> = ran.iter().map(|one| &*one.hook.command).collect();
    assert_eq!(commands, runs);
    let mut names: Vec<Arc<str>> = ran.iter().map(|one| one.hook.handler.clone()).collect();
    // A handler that is defined twice runs where it was first defined.
    let mut planned = planned;
    names.sort();
    planned.sort();
    assert_eq!(names, planned);
}

// C-BRIDGE-1
#[test]
fn what_is_explained_is_what_is_planned() {
    let project = Project::new(SETTINGS);
    let (root, plan) = (|| project.scene(), || project.inside("Plan"));
    for (source, runs) in [(StartSource::Startup, ["a"]), (StartSource::Resume, ["b"])] {
        let input = Starting::new(root(), source, None);
        agree::<SessionStart>(&project, input.clone(), Moment::SessionStart(input), &runs);
    }
    for (scene, runs) in [(root(), &["c"][..]), (plan(), &[])] {
        let input = Submitted::new(scene, Seq(7), "x".into(), Source::User);
        agree::<PromptSubmit>(&project, input.clone(), Moment::UserPromptSubmit(input), runs);
    }
    for (tool, arguments, runs) in [
        ("Bash", r#"{"command":"ls"}"#, &["e", "i"][..]),
        ("Bash", r#"{"command":"git push"}"#, &["d", "e", "i"]),
        ("Edit", "{}", &["e", "i"]),
        ("mcp__a__b", "{}", &["g", "e", "i"]),
        ("Read", "{}", &["e", "i"]),
    ] {
        let arguments = Frozen::arguments(arguments).unwrap();
        for scene in [root(), plan()] {
            let input = Proposed::new(scene, key(), "c".into(), spec(tool), arguments.clone());
            agree::<Rewrite>(&project, input.clone(), Moment::PreToolUse(input), runs);
        }
    }
    let denied = Outcome::ended(Ended::HookDeny { by: HandlerId::new("a", "b"), reason: "no".into() });
    for (outcome, runs) in
        [(Outcome::completed("x"), &["j"][..]), (Outcome::tool_error("x"), &["k"]), (denied, &[])]
    {
        let input = Returned::new(
            root(),
            key(),
            "c".into(),
            "Bash".into(),
            Some(spec("Bash")),
            None,
            Arc::new(outcome),
            std::time::Duration::ZERO,
        );
        agree::<PostExecute>(&project, input.clone(), Moment::PostToolUse(input), runs);
    }
    for (scene, runs) in [(root(), &["l"][..]), (plan(), &[]), (project.inside("Explore"), &["n"])] {
        let input = Ending::new(scene, 0, "x".into());
        agree::<TurnContinuation>(&project, input.clone(), Moment::Stop(input), runs);
    }
    for (kind, runs) in [("Plan", &["m"][..]), ("Explore", &[])] {
        let input = ChildStarting::new(project.inside(kind), None);
        agree::<SubagentStart>(&project, input.clone(), Moment::SubagentStart(input), runs);
    }
    // What the host leaves out is left out in both.
    let project = project.options(|o| o.only(|event, _| event != "Stop"));
    let input = Ending::new(project.scene(), 0, "x".into());
    agree::<TurnContinuation>(&project, input.clone(), Moment::Stop(input), &[]);
}
