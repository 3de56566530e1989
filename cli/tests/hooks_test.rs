//! `portcullis hooks test`: own cases pass, each expectation can fail, and what is not understood fails.

use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

fn test(paths: &[&Path], args: &[&str]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(["hooks", "test"]).args(paths).args(args).env_remove("PORTCULLIS_LOG");
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn own_cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bridges/hooks/cases")
}

/// A case of these fields, in a folder of its own.
fn case(fields: &str, expected: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    let text = format!(r#"{{"id":"c","dialect":"claude",{fields},"expected":{expected}}}"#);
    fs::write(dir.path().join("case.json"), text).unwrap();
    dir
}

fn run(fields: &str, expected: &str) -> Done {
    test(&[case(fields, expected).path()], &[])
}

fn hook(event: &str, command: &str) -> String {
    let command = serde_json::to_string(command).unwrap();
    format!(
        r#""hooks_config":{{"hooks":{{"{event}":[{{"hooks":[{{"type":"command","command":{command}}}]}}]}}}}"#
    )
}

const BASH: &str = r#""event":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}"#;

// C-BRIDGE-1, C-BRIDGE-2
#[test]
fn our_own_cases_pass() {
    let count = fs::read_dir(own_cases()).unwrap().count();
    assert!(count >= 20);
    for fidelity in ["strict", "exact"] {
        let done = test(&[&own_cases()], &["--fidelity", fidelity]);
        let of = |word: &str| done.out.lines().filter(|line| line.starts_with(word)).collect::<Vec<_>>();
        // Some are written in Python, which a machine may lack.
        let (passed, skipped) = (of("ok ").len(), of("skip "));
        assert!(skipped.iter().all(|line| line.ends_with("it requires python3, which is not on PATH")));
        if !skipped.is_empty() {
            eprintln!("NOT RUN, for want of python3: {skipped:#?}");
        }
        assert_eq!((done.code, passed + skipped.len()), (Some(0), count), "{}", done.out);
    }
}

// C-BRIDGE-9: a deferred call waits for its host, and nobody is asked; there the case ends.
#[test]
fn a_case_may_end_with_a_deferred_call() {
    let defer = r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer","permissionDecisionReason":"later"}}'"#;
    let fields = format!("{BASH},{}", hook("PreToolUse", defer));
    let expected = r#"{"decision":"defer","handlers_run":1,"input_requests":0,"reason_contains":"later","results_for":[]}"#;
    let done = run(&fields, expected);
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    let done = run(&fields, r#"{"decision":"ask"}"#);
    assert!(done.out.contains("the decision is defer, expected ask"), "{}", done.out);
}

/// A field with a value that holds and one that does not.
#[test]
fn each_expectation_can_fail() {
    let deny = format!("{BASH},{}", hook("PreToolUse", "cat > seen; echo no way >&2; exit 2"));
    let both = format!(
        "{BASH},{}",
        hook(
            "PreToolUse",
            r#"cat >/dev/null; echo '{"systemMessage":"note","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"pwd"},"additionalContext":"ctx-a ctx-b"}}'"#
        )
    );
    let halt =
        format!(r#""event":"Stop",{}"#, hook("Stop", r#"echo '{"continue":false,"stopReason":"enough"}'"#));
    let stop = format!(
        r#""event":"Stop","sequence":[{{"stop_hook_active":false}},{{"stop_hook_active":true}}],{}"#,
        hook("Stop", r#"grep -q '"stop_hook_active":true' || { echo more >&2; exit 2; }"#)
    );
    let slow = format!("{BASH},{}", hook("PreToolUse", "sleep 0.4; echo $$ > pid"));
    let living = format!("{BASH},{}", hook("PreToolUse", "sleep 40 >/dev/null 2>&1 & echo $! > pid"));
    let ask = format!(
        "{BASH},{}",
        hook(
            "PreToolUse",
            r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"sure?"}}'"#
        )
    );
    let table = [
        (&deny, r#""decision":"deny""#, r#""decision":"none""#),
        (&deny, r#""decision":"none","alt":["deny"]"#, r#""decision":"none","alt":["allow"]"#),
        (&deny, r#""handlers_run":1"#, r#""handlers_run":0"#),
        (&deny, r#""reason_contains":"no way""#, r#""reason_contains":["no way","other"]"#),
        (&deny, r#""reason_excludes":"yes""#, r#""reason_excludes":"way""#),
        (&deny, r#""reason_order":["no","way"]"#, r#""reason_order":["way","way","way"]"#),
        (&deny, r#""context_absent":true"#, r#""context_absent":false"#),
        (&deny, r#""warning_contains":"NO WAY""#, r#""warning_contains":"else""#),
        (&deny, r#""files_lines":{"seen":1}"#, r#""files_lines":{"seen":2}"#),
        (&deny, r#""files_absent":["other"]"#, r#""files_absent":["other","seen"]"#),
        (&deny, r#""files_absent":"other""#, r#""files_lines":{"other":0}"#),
        (&deny, r#""results_for":["toolu_1"]"#, r#""results_for":["toolu_1","toolu_2"]"#),
        (&deny, r#""tool_outcome":"hook_deny""#, r#""tool_outcome":"ok""#),
        (&deny, r#""input_requests":0"#, r#""input_requests":1"#),
        (&deny, r#""halt":false"#, r#""halt":true"#),
        (&deny, r#""last_role":"user""#, r#""last_role":"assistant""#),
        (&deny, r#""strict":{"decision":"deny"}"#, r#""strict":{"decision":"allow"}"#),
        (&both, r#""decision":"allow""#, r#""decision":"none""#),
        (&both, r#""context_contains":["ctx-a","ctx-b"]"#, r#""context_contains":["ctx-a","ctx-c"]"#),
        (&both, r#""context_excludes":"ctx-c""#, r#""context_excludes":"ctx-b""#),
        (&both, r#""context_order":["ctx-a","ctx-b"]"#, r#""context_order":["ctx-b","ctx-a"]"#),
        (&both, r#""context_count":1"#, r#""context_count":2"#),
        (&both, r#""context_after_all_results":true"#, r#""context_after_all_results":false"#),
        (&both, r#""effective_input":{"command":"pwd"}"#, r#""effective_input":{"command":"ls"}"#),
        (&both, r#""effective_input_unchanged":false"#, r#""effective_input_unchanged":true"#),
        (&both, r#""tool_outcome":"ok""#, r#""tool_outcome":"hook_deny""#),
        (&ask, r#""decision":"ask","input_requests":1"#, r#""decision":"ask","input_requests":2"#),
        (
            &halt,
            r#""halt":true,"stop_reason_contains":"enough""#,
            r#""halt":true,"stop_reason_contains":"more""#,
        ),
        (
            &stop,
            r#""sequence_decisions":["continue","none"]"#,
            r#""sequence_decisions":["continue","continue"]"#,
        ),
        (&slow, r#""must_finish_within_s":30"#, r#""must_finish_within_s":0.2"#),
        (&slow, r#""no_survivors_pidfile":"pid""#, r#""no_survivors_pidfile":"nopid""#),
        (&living, r#""files_lines":{"pid":1}"#, r#""no_survivors_pidfile":"pid""#),
    ];
    for (fields, good, bad) in table {
        let decided = |expected: &str| {
            let always = if fields == &deny {
                "deny"
            } else if fields == &both {
                "allow"
            } else if fields == &ask {
                "ask"
            } else if fields == &stop {
                "continue"
            } else {
                "none"
            };
            let decision = if expected.contains("\"decision\":") && !expected.contains("strict") {
                String::new()
            } else {
                format!(r#""decision":"{always}","#)
            };
            format!("{{{decision}{expected}}}")
        };
        let done = run(fields, &decided(good));
        assert_eq!((done.code, &*done.out), (Some(0), "ok c\n1 passed, 0 failed\n"), "{good}: {}", done.err);
        let done = run(fields, &decided(bad));
        assert_eq!(done.code, Some(1), "{bad} passed: {}", done.out);
        assert!(
            done.out.starts_with("FAIL c ") && done.out.ends_with("\n0 passed, 1 failed\n"),
            "{}",
            done.out
        );
    }
}

#[test]
fn what_is_not_understood_fails() {
    let config = hook("PreToolUse", "exit 0");
    let sound = format!("{BASH},{config}");
    for (fields, expected, why) in [
        (format!("{sound},\"wibble\":1"), r#"{"decision":"none"}"#, "`wibble` is not understood"),
        (sound.clone(), r#"{"decision":"none","wibble":1}"#, "`wibble` cannot be judged"),
        (sound.clone(), r#"{"handlers_run":1}"#, "names no `decision`"),
        (sound.clone(), r#"{"decision":1}"#, "`decision` could not be read"),
        (sound.clone(), r#"{"decision":"none","strict":{"wibble":1}}"#, "`wibble` cannot be judged"),
        (
            format!("{BASH},\"layers\":[{{\"scope\":\"moon\",\"config\":{{}}}}]"),
            r#"{"decision":"none"}"#,
            "no layer `moon`",
        ),
        (format!("{sound},\"env\":{{\"moon\":\"x\"}}"), r#"{"decision":"none"}"#, "`moon` in `env`"),
        (
            format!("{sound},\"scenario\":{{\"steps\":[\"wait for rain\"]}}"),
            r#"{"decision":"none"}"#,
            "step `wait for rain`",
        ),
        (format!("{sound},\"needs\":\"luck\""), r#"{"decision":"none"}"#, "needs `luck`"),
        (
            format!("\"event\":\"SessionStart\",\"source\":\"moon\",{config}"),
            r#"{"decision":"none"}"#,
            "starts as `moon`",
        ),
        (format!("\"event\":\"WorktreeCreate\",{config}"), r#"{"decision":"none"}"#, "nothing here makes"),
        (BASH.to_owned(), r#"{"decision":"none"}"#, "one of them"),
    ] {
        let done = run(&fields, expected);
        assert_eq!(done.code, Some(1), "{fields}");
        assert!(done.out.starts_with("FAIL c ") && done.out.contains(why), "{why}: {}", done.out);
    }
    let dir = TempDir::new().unwrap();
    fs::write(
        dir.path().join("case.json"),
        r#"{"dialect":"other","event":"PreToolUse","expected":{"decision":"none"}}"#,
    )
    .unwrap();
    assert!(test(&[dir.path()], &[]).out.contains("there is no dialect `other`"));
}

#[derive(Deserialize)]
struct Line {
    id: Option<String>,
    passed: Box<serde_json::value::RawValue>,
    #[serde(default)]
    failures: Vec<String>,
    seen: Option<Seen>,
    failed: Option<u32>,
}

#[derive(Deserialize)]
struct Seen {
    decision: String,
    handlers_run: u32,
}

// Nothing is passed over in silence.
#[test]
fn what_a_machine_lacks_is_said() {
    let stop = hook("Stop", "no-such-program-anywhere");
    let fields = |name: &str| format!(r#""event":"Stop","requires":["sh","{name}"],{stop}"#);
    let there = run(&fields("cat"), r#"{"decision":"none","handlers_run":1}"#);
    assert_eq!((there.code, &*there.out), (Some(0), "ok c\n1 passed, 0 failed\n"));
    let lacking = case(&fields("no-such-program-anywhere"), r#"{"decision":"none"}"#);
    let junit = lacking.path().join("out.xml");
    let done = test(&[lacking.path()], &["--junit", junit.to_str().unwrap()]);
    assert_eq!(done.code, Some(0));
    assert_eq!(
        done.out,
        "skip c it requires no-such-program-anywhere, which is not on PATH\n0 passed, 0 failed, 1 skipped\n"
    );
    let xml = fs::read_to_string(junit).unwrap();
    assert!(xml.contains(r#"skipped="1""#) && xml.contains(r#"<skipped message="it requires"#), "{xml}");
    let done = test(&[lacking.path()], &["--json"]);
    assert!(done.out.contains(r#""passed":false,"failures":[],"skipped":"it requires"#), "{}", done.out);
    assert!(done.out.ends_with("{\"passed\":0,\"failed\":0,\"skipped\":1}\n"), "{}", done.out);
    let odd = run(&format!(r#""event":"Stop","requires":"sh",{stop}"#), r#"{"decision":"none"}"#);
    assert!(odd.code == Some(1) && odd.out.contains("`requires` could not be read"), "{}", odd.out);
}

#[test]
fn results_for_machines() {
    let dir = TempDir::new().unwrap();
    for (name, decision) in [("good", "deny"), ("bad <&>", "none")] {
        fs::create_dir(dir.path().join(name)).unwrap();
        let fields = format!("{BASH},{}", hook("PreToolUse", "echo \"<no>\" >&2; exit 2"));
        let text = format!(
            "{{\"dialect\":\"claude\",\n{fields},\"expected\":{{\"decision\":\n\"{decision}\",\"reason_contains\":\"<no>\"}}}}"
        );
        fs::write(dir.path().join(name).join("case.json"), text).unwrap();
    }
    let junit = dir.path().join("out.xml");
    let done = test(&[dir.path()], &["--json", "--junit", junit.to_str().unwrap()]);
    assert_eq!(done.code, Some(1));
    let lines: Vec<Line> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [bad, good, total] = &lines[..] else { panic!("{}", done.out) };
    assert_eq!((bad.id.as_deref(), bad.passed.get(), bad.failures.len()), (Some("bad <&>"), "false", 1));
    assert_eq!((good.id.as_deref(), good.passed.get(), good.failures.len()), (Some("good"), "true", 0));
    let seen = good.seen.as_ref().unwrap();
    assert_eq!((&*seen.decision, seen.handlers_run), ("deny", 1));
    assert_eq!((total.passed.get(), total.failed), ("1", Some(1)));
    let xml = fs::read_to_string(junit).unwrap();
    assert!(xml.contains(r#"<testsuites tests="2" failures="1" skipped="0">"#));
    assert!(
        xml.contains(r#"name="bad &lt;&amp;&gt;"><failure message="the decision is deny, expected none"/>"#),
        "{xml}"
    );
    // A filter, by any field.
    let done = test(&[dir.path()], &["--filter", "dialect=claude", "--filter", "event=Stop"]);
    assert_eq!(done.code, Some(2));
    let good = dir.path().join("good");
    assert_eq!(test(&[&good], &["--filter", "tool_name=Bash"]).out, "ok good\n1 passed, 0 failed\n");
}

// One case that cannot be read is a failure of its own, under every filter; the others are run.
#[test]
fn an_unreadable_case_fails_alone() {
    let dir = TempDir::new().unwrap();
    let whole = format!(
        "{{\"dialect\":\"claude\",\n{BASH},{},\"expected\":{{\"decision\":\"deny\"}}}}",
        hook("PreToolUse", "exit 2")
    );
    for (name, text) in [("a", "{"), ("b", whole.as_str())] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("case.json"), text).unwrap();
    }
    for args in [&[][..], &["--filter", "tool_name=Bash"]] {
        let done = test(&[dir.path()], args);
        assert_eq!(done.code, Some(1), "{}{}", done.out, done.err);
        for part in ["case.json could not be read", "ok b", "1 passed, 1 failed"] {
            assert!(done.out.contains(part), "there is no {part:?} in {}", done.out);
        }
    }
}

#[test]
fn nothing_to_run_is_an_error_and_the_case_is_left_alone() {
    let empty = TempDir::new().unwrap();
    let done = test(&[empty.path()], &[]);
    assert_eq!((done.code, &*done.out), (Some(2), ""));
    assert!(done.err.contains("holds no case"));
    assert_eq!(test(&[Path::new("no/such/place")], &[]).code, Some(2));
    fs::write(empty.path().join("case.json"), "{").unwrap();
    assert_eq!(test(&[empty.path()], &[]).code, Some(2));
    // What a hook does beside its scripts happens in a copy.
    let dir = case(
        &format!("{BASH},{}", hook("PreToolUse", "touch \"${CASE_DIR}/made\"")),
        r#"{"decision":"none","files_lines":{"made":0}}"#,
    );
    assert_eq!(test(&[dir.path()], &[]).code, Some(0));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

// What a command would find is looked at, whatever the hooks say; of variables that nobody asks about nothing is printed.
#[test]
fn an_environment_is_judged() {
    let start = |command: &str| {
        format!(r#""event":"SessionStart","source":"startup",{}"#, hook("SessionStart", command))
    };
    let export = start(r#"echo "export A='x y' SECRET=s3cret" >> "$CLAUDE_ENV_FILE""#);
    let expect = |variables: &str| format!(r#"{{"decision":"none","environment":{variables}}}"#);
    let table = [
        (&export, r#"{"A":"x y","NOBODY_SETS_THIS":null}"#, 0, "ok c"),
        (&export, r#"{"A":"x"}"#, 1, r#"`A` is "x y", expected "x""#),
        (&export, r#"{"A":null}"#, 1, r#"`A` is "x y", expected not set"#),
        (&export, r#"{"B":"x"}"#, 1, r#"`B` is not set, expected "x""#),
        (&start(r#"echo 'exit 3' > "$CLAUDE_ENV_FILE""#), r#"{"A":"x"}"#, 1, "ends the shell of a command"),
        (&format!("{BASH},{}", hook("PreToolUse", "true")), r#"{"A":null}"#, 1, "on SessionStart only"),
    ];
    for (fields, variables, code, says) in table {
        let done = run(fields, &expect(variables));
        assert_eq!(done.code, Some(code), "{}{}", done.out, done.err);
        assert!(done.out.contains(says), "{says}: {}", done.out);
        assert!(!done.out.contains("s3cret"));
    }
}
