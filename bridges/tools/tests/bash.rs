//! Bash: results, caps, limits, and what becomes of its processes.

mod common;
use common::*;
use portcullis_runtime::{Cancel, Cause, ToolCx};

#[test]
fn output_and_value_have_the_clients_shape() {
    let desk = desk();
    let (text, value) = desk.done("Bash", r#"{"command":"echo out; echo err >&2","description":"say both"}"#);
    assert_eq!(text, "out\nerr");
    assert_eq!(
        value,
        r#"{"stdout":"out","stderr":"err","interrupted":false,"isImage":false,"noOutputExpected":false}"#
    );
    assert_eq!(desk.done("Bash", r#"{"command":"true"}"#).0, "The command succeeded and printed nothing.");
}

#[test]
fn an_exit_code_is_an_error_with_the_output() {
    let desk = desk();
    let error = desk.call("Bash", r#"{"command":"echo OUT; echo ERR >&2; exit 7"}"#).expect_err("exit 7");
    let (text, value) = parts(error.0);
    assert_eq!(text, "Exit code 7\nOUT\nERR");
    assert!(value.contains(r#""stdout":"OUT","stderr":"ERR","interrupted":false"#), "{value}");
    assert_eq!(desk.refused("Bash", r#"{"command":"kill -9 $$"}"#), "Exit code 137");
    assert!(desk.refused("Bash", r#"{"command":"no-such-command-here"}"#).starts_with("Exit code 127\n"));
    // Text that no process can be given.
    assert!(desk.refused("Bash", r#"{"command":"echo \u0000"}"#).contains("was not started"));
}

#[test]
fn every_command_starts_in_the_sessions_directory() {
    let mut desk = desk();
    std::fs::create_dir(desk.path("sub")).expect("a folder");
    desk.cwd = desk.path("sub");
    let sub = desk.cwd.display().to_string();
    assert_eq!(
        desk.done("Bash", r#"{"command":"pwd; cd ..; pwd"}"#).0,
        format!("{sub}\n{}", desk.path("").display().to_string().trim_end_matches('/'))
    );
    assert_eq!(desk.done("Bash", r#"{"command":"pwd"}"#).0, sub);
    assert_eq!(desk.done("Bash", r#"{"command":"cat; echo end"}"#).0, "end", "no input, no wait");
}

// C-BRIDGE-7's cap holds for this child, too.
#[test]
fn a_flood_is_cut_and_counted_and_errors_keep_their_share() {
    let desk = desk();
    let (text, value) = desk.done("Bash", r#"{"command":"yes é | head -c 300000; printf tail >&2"}"#);
    let (shown, note) = text.split_once("\ntail\n").expect("stderr after stdout");
    // All but what `tail` took, less the last line break.
    assert_eq!(shown.chars().count(), 30_000 - 4 - 1);
    // Two characters, three bytes a line.
    assert_eq!(note, format!("[{} bytes more were printed and are not shown.]", 300_000 - 29_996 / 2 * 3));
    assert!(value.len() < 200_000);
    let (text, _) = desk.done("Bash", r#"{"command":"yes a | head -c 90000; yes b | head -c 90000 >&2"}"#);
    assert_eq!(text.matches('a').count(), 10_000 + 2, "and those of `and are`");
    assert_eq!(text.matches('b').count(), 5_000 + 1, "and the one of `bytes`");
    let (text, _) = desk.done("Bash", r#"{"command":"printf '\\377x'"}"#);
    assert_eq!(text, "\u{fffd}x");
}

#[test]
fn a_timeout_ends_the_command_and_keeps_its_output() {
    let desk = desk();
    let command = r#"{"command":"echo before; sleep 600 & echo $! >child; wait","timeout":4000}"#;
    let error = desk.call("Bash", command).expect_err("a timeout");
    let (text, value) = parts(error.0);
    assert_eq!(text, "The command did not finish within 4000 ms and was stopped.\nbefore");
    assert!(value.contains(r#""interrupted":true"#), "{value}");
    let child = pid_in(&desk.path("child")).expect("the child's id");
    wait_until("the child is gone", || !alive(child));
}

// C-TURN-9, C-BRIDGE-7: a cancel ends the whole group.
#[test]
fn a_cancel_kills_the_group() {
    let desk = desk();
    let cancel = Cancel::new();
    let command = r#"{"command":"echo started; sh -c 'trap \"\" TERM; echo $$ >stubborn; while :; do sleep 0.1; done' & sleep 600 & echo $! >child; wait"}"#;
    let error = std::thread::scope(|scope| {
        let ids = scope.spawn(|| {
            wait_until("both children run", || {
                pid_in(&desk.path("child")).is_some() && pid_in(&desk.path("stubborn")).is_some()
            });
            cancel.cancel(Cause::User);
        });
        let error = desk.call_until("Bash", command, cancel.clone()).expect_err("cancelled");
        ids.join().expect("no panic");
        error
    });
    let (text, value) = parts(error.0);
    assert_eq!(text, "The command was cancelled while it ran.\nstarted");
    assert!(value.contains(r#""interrupted":true"#), "{value}");
    for name in ["child", "stubborn"] {
        let pid = pid_in(&desk.path(name)).expect("an id");
        wait_until("the process is gone", || !alive(pid));
    }
}

#[test]
fn a_cancelled_call_does_not_start() {
    let desk = desk();
    let cancel = Cancel::new();
    cancel.cancel(Cause::User);
    let error = desk.call_until("Bash", r#"{"command":"touch ran"}"#, cancel).expect_err("cancelled");
    assert!(error.to_string().contains("nothing ran"));
    assert!(!desk.path("ran").exists());
}

#[test]
fn a_dropped_call_kills_the_command() {
    let desk = desk();
    let (tool, execution) = (
        desk.tool("Bash"),
        desk.execution("Bash", r#"{"command":"echo $$ >shell; sleep 600 & echo $! >child; wait"}"#),
    );
    let ids = || (pid_in(&desk.path("shell")), pid_in(&desk.path("child")));
    block_on(async {
        let mut call = tool.call(execution, ToolCx::new(Cancel::new(), 1));
        while !matches!(ids(), (Some(_), Some(_))) {
            let tick = tokio::time::sleep(std::time::Duration::from_millis(10));
            tokio::select! {
                result = &mut call => panic!("ended by itself: {result:?}"),
                () = tick => {}
            }
        }
    });
    let (Some(shell), Some(child)) = ids() else { panic!("no ids") };
    wait_until("both are gone", || !alive(shell) && !alive(child));
}

#[test]
fn a_process_left_behind_does_not_hold_the_call() {
    let desk = desk();
    // It holds stdout open for as long as it lives.
    let (text, _) = desk.done("Bash", r#"{"command":"sleep 600 & echo $! >child; echo done"}"#);
    assert_eq!(text, "done");
    let child = pid_in(&desk.path("child")).expect("the child's id");
    assert!(alive(child), "a service that a command started goes on");
    desk.done("Bash", &format!(r#"{{"command":"kill {child}"}}"#));
    wait_until("the test's own child is gone", || !alive(child));
}

#[test]
fn background_is_refused_and_not_pretended() {
    let desk = desk();
    let text = desk.refused("Bash", r#"{"command":"touch ran","run_in_background":true}"#);
    assert!(text.contains("not supported yet"), "{text}");
    assert!(!desk.path("ran").exists());
    desk.done("Bash", r#"{"command":"touch ran","run_in_background":false}"#);
    assert!(desk.path("ran").exists());
}

// C-BRIDGE-1: what a session's hooks have exported is in the environment of its commands, whatever their files are called.
#[test]
fn a_command_reads_the_sessions_files_first() {
    let mut desk = desk();
    desk.put("it's 1.sh", "export V=one W=kept; late() { echo from $1; }");
    desk.put("2.sh", "export V=\"$V two\"\nfalse");
    let files = vec![desk.path("it's 1.sh"), desk.path("2.sh")];
    desk.workspace = desk.workspace.clone().sourced(move |session| {
        assert_eq!(session.id.as_str(), "s");
        Ok(files.clone())
    });
    assert_eq!(desk.done("Bash", r#"{"command":"printenv V W; late here"}"#).0, "one two\nkept\nfrom here");
    // The command is what it was: its lines, its exit code.
    assert!(desk.refused("Bash", r#"{"command":"no-such-command-here"}"#).contains("line 1"));
    assert_eq!(desk.done("Bash", r##"{"command":"# nothing\nprintenv W"}"##).0, "kept");
    // They are read at each command.
    desk.put("2.sh", "");
    assert_eq!(desk.done("Bash", r#"{"command":"printenv V"}"#).0, "one");
}

#[test]
fn without_its_environment_a_command_does_not_run() {
    let mut desk = desk();
    desk.workspace = desk.workspace.clone().sourced(|_| Err(std::io::Error::other("the disk is gone")));
    let said = desk.refused("Bash", r#"{"command":"touch ran"}"#);
    assert!(said.contains("the disk is gone") && said.contains("nothing ran"), "{said}");
    assert!(!desk.path("ran").exists());
}
