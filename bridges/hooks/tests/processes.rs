//! Hooks that behave badly as processes. Bounds are generous: they tell a hang from a slow machine.

mod support;

use portcullis_hooks::OnFailure;
use portcullis_process::Permits;
use portcullis_runtime::*;
use std::{fs, time::Duration, time::Instant};
use support::{Project, gate};

/// Far longer than any hook here needs, far shorter than what the bad ones would take.
const PATIENCE: Duration = Duration::from_secs(25);

fn big(letters: usize) -> String {
    format!(r#"{{"command":"{}"}}"#, "A".repeat(letters))
}

fn alive(pid: &str) -> bool {
    // A process that nobody has reaped yet is dead all the same.
    match fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => false,
    }
}

fn gone(pid: &str) -> bool {
    let until = Instant::now() + PATIENCE;
    while alive(pid) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

// C-BRIDGE-7
#[test]
fn a_hook_need_not_read_its_stdin() {
    for command in ["echo unread >&2; exit 2", "exec 0<&-; sleep 0.2; echo unread >&2; exit 2"] {
        let seen = Project::hook("PreToolUse", command).pre("Bash", &big(2_000_000));
        assert!(gate(&seen.decisions[0]).1.unwrap().ends_with("unread\n"));
    }
    let seen = Project::hook("PreToolUse", "wc -c >&2; exit 2").pre("Bash", &big(2_000_000));
    let count: usize =
        gate(&seen.decisions[0]).1.unwrap().rsplit(' ').next().unwrap().trim().parse().unwrap();
    assert!(count > 2_000_000);
}

// C-BRIDGE-7
#[test]
fn stderr_may_come_before_stdin_is_read() {
    let command = "head -c 1000000 /dev/zero | tr '\\0' e >&2; cat >/dev/null; exit 2";
    let seen = Project::hook("PreToolUse", command).pre("Bash", &big(1_000_000));
    assert_eq!(gate(&seen.decisions[0]).0, "deny");
    assert_eq!(seen.results[0].stderr.len(), 2048);
}

// C-BRIDGE-7
#[test]
fn a_flood_is_bounded_and_decides_nothing() {
    let flood = "cat >/dev/null; head -c 40000000 /dev/zero | tr '\\0' y";
    let seen = Project::hook("UserPromptSubmit", flood).submit("hi");
    assert!(seen.results[0].cut && seen.decisions == [Submit::allow()]);
    // Shown by its beginning, kept as far as it was read.
    assert!(seen.context[0].len() < 3_000);
    let json = format!("printf '{{\"decision\":\"block\",\"reason\":\"'; {flood}; printf '\"}}'");
    let seen = Project::hook("UserPromptSubmit", &json).submit("hi");
    assert_eq!(seen.decisions, [Submit::allow()]);
    assert!(seen.results[0].cut && seen.results[0].error.is_some() && seen.failures.len() == 1);
}

// C-BRIDGE-7
#[test]
fn a_child_that_holds_the_pipe_is_not_waited_for() {
    let answer =
        |fields: &str| format!(r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse",{fields}}}}}"#);
    let deny = answer(r#""permissionDecision":"deny","permissionDecisionReason":"early""#);
    for (first, word, says) in [
        (format!("echo '{deny}'"), "deny", "early"),
        ("echo E >&2".into(), "deny", "E"),
        // An answer that may be incomplete grants nothing.
        (format!("echo '{}'", answer(r#""permissionDecision":"allow""#)), "deny", "incomplete"),
        (format!("echo '{}'", answer(r#""updatedInput":{"command":"ls"}"#)), "deny", "incomplete"),
        (format!("echo '{}'", answer(r#""additionalContext":"x""#)), "deny", "incomplete"),
        (
            format!("echo '{}'", answer(r#""permissionDecision":"ask","permissionDecisionReason":"sure?""#)),
            "ask",
            "sure?",
        ),
        ("echo plain".into(), "none", ""),
    ] {
        let exit = if first.contains(">&2") { 2 } else { 0 };
        let command = format!("cat >/dev/null; {first}; sleep 60 & echo $! > pid; exit {exit}");
        let project = Project::hook("PreToolUse", &command);
        let begun = Instant::now();
        let seen = project.pre("Bash", &big(3));
        assert!(begun.elapsed() < PATIENCE);
        let (found, reason) = gate(&seen.decisions[0]);
        assert_eq!(found, word, "{first}");
        assert!(reason.unwrap_or_default().contains(says), "{reason:?}");
        assert!(seen.context.is_empty() && seen.decisions[0].arguments.is_none());
        assert_eq!(seen.results[0].error.is_some(), says == "incomplete");
        // It may be a service on purpose: nobody ends it.
        let pid = project.read("pid");
        assert!(alive(&pid));
        let _ = std::process::Command::new("kill").arg(pid.trim()).status();
    }
}

// C-BRIDGE-7
#[test]
fn a_deadline_ends_the_whole_tree_and_what_was_printed_does_not_count() {
    // The shell ignores TERM, and a grandchild in a session of its own does, too.
    let command = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > grandchild; while :; do sleep 0.05; done' &\n\
                   echo '{\"decision\":\"block\",\"reason\":\"early\"}'; while [ ! -s grandchild ]; do sleep 0.02; done\n\
                   echo ready > ready; while :; do sleep 0.05; done";
    let project = Project::with("PreToolUse", command, r#","timeout":1.5"#);
    let begun = Instant::now();
    let seen = project.pre("Bash", &big(3));
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(gate(&seen.decisions[0]).0, "none");
    let result = &seen.results[0];
    assert!(result.timed_out && result.error.is_some() && result.decision == "none" && result.ms >= 1500);
    assert_eq!(seen.failures.len(), 1);
    if project.path().join("ready").exists() {
        assert!(gone(&project.read("grandchild")), "the grandchild lives");
    }
}

// C-BRIDGE-7
#[test]
fn a_hook_that_timed_out_decides_nothing_even_with_exit_code_2() {
    let command = "trap 'exit 2' TERM; echo context; while :; do sleep 0.05; done";
    let seen = Project::with("UserPromptSubmit", command, r#","timeout":0.3"#).submit("hi");
    assert_eq!(seen.decisions, [Submit::allow()]);
    assert!(seen.results[0].timed_out && seen.context.is_empty());
    // Unless its failure was to block.
    let project = Project::with("PreToolUse", command, r#","timeout":0.3,"onFailure":"block""#);
    let seen = project.pre("Bash", &big(3));
    let (word, reason) = gate(&seen.decisions[0]);
    assert_eq!(word, "deny");
    assert!(reason.unwrap().ends_with("timed out; blocking because onFailure is \"block\""));
}

#[test]
fn timeouts_are_seconds() {
    let seen = Project::with("PreToolUse", "sleep 0.4; exit 2", r#","timeout":20"#).pre("Bash", &big(3));
    assert_eq!(gate(&seen.decisions[0]).0, "deny");
}

#[test]
fn death_by_signal_decides_nothing() {
    let seen = Project::hook("PreToolUse", "kill -9 $$").pre("Bash", &big(3));
    let result = &seen.results[0];
    assert_eq!((gate(&seen.decisions[0]).0, result.signal, result.exit), ("none", Some(9), None));
    assert!(result.error.as_deref().unwrap().contains("137"));
    let project = Project::hook("PreToolUse", "kill -9 $$").options(|o| o.on_failure(OnFailure::Block));
    assert_eq!(gate(&project.pre("Bash", &big(3)).decisions[0]).0, "deny");
}

#[test]
fn a_command_that_does_not_exist_decides_nothing() {
    let seen = Project::hook("PreToolUse", "./ghost.sh").pre("Bash", &big(3));
    assert_eq!((gate(&seen.decisions[0]).0, seen.results[0].exit), ("none", Some(127)));
    assert!(seen.results[0].error.as_deref().unwrap().contains("not found"));
    // Exit code 2 of an interpreter is an exit code 2.
    let seen = Project::hook("PreToolUse", "sh -c 'exit 2'").pre("Bash", &big(3));
    assert_eq!(gate(&seen.decisions[0]).0, "deny");
}

#[test]
fn output_need_not_be_utf8() {
    let seen =
        Project::hook("UserPromptSubmit", "cat >/dev/null; printf 'A\\377\\376B\\000C\\n'").submit("hi");
    assert_eq!(seen.context, ["UserPromptSubmit hook success: A\u{fffd}\u{fffd}B\0C"]);
}

#[test]
fn a_command_is_handed_over_verbatim() {
    let seen = Project::hook(
        "Stop",
        "cat >/dev/null\ncat <<'JSON'\n{\"decision\":\"block\",\"reason\":\"it's \\\"it\\\"\"}\nJSON",
    )
    .stop(0, "");
    assert_eq!(seen.decisions, [Continue::again("Stop hook feedback:\nit's \"it\"")]);
}

// C-BRIDGE-7
#[test]
fn a_dropped_hook_leaves_no_process() {
    let project = Project::hook("Stop", "echo $$ > pid; sleep 600");
    let (table, _) = project.load();
    let input = Ending::new(project.scene(), 0, "".into());
    let planned = table.plan::<TurnContinuation>(&input).remove(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pid = runtime.block_on(async {
        let mut run = planned.run.decide(input);
        loop {
            tokio::select! {
                _ = &mut run => panic!("it sleeps for ten minutes"),
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
            match fs::read_to_string(project.path().join("pid")) {
                Ok(pid) if pid.ends_with('\n') => break pid,
                _ => {}
            }
        }
    });
    assert!(gone(&pid));
}

#[test]
fn hooks_share_the_permits_they_are_given() {
    let permits = Permits::new(1);
    let project = Project::hook("Stop", "true").options(|o| o.permits(permits.clone()));
    let (table, _) = project.load();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let input = Ending::new(project.scene(), 0, "".into());
        let blocker = portcullis_process::Spawn::new("sleep").arg("600").permits(permits.clone());
        let blocking = portcullis_process::run(blocker, std::future::pending());
        tokio::pin!(blocking);
        while permits.available() > 0 {
            tokio::select! {
                _ = &mut blocking => panic!("it sleeps for ten minutes"),
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
        let planned = table.plan::<TurnContinuation>(&input).remove(0);
        let mut run = planned.run.decide(input);
        tokio::select! {
            _ = &mut run => panic!("it ran without a permit"),
            _ = &mut blocking => panic!("it sleeps for ten minutes"),
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
    });
}
