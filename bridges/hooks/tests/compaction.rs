//! PreCompact and PostCompact: what they read, and what they may say.

mod support;

use portcullis_hooks::OnFailure;
use portcullis_runtime::*;
use support::{Project, Seen};

const KEEP: &str = "cat > \"$CLAUDE_PROJECT_DIR/seen\"";

fn pre(project: &Project) -> Seen<Compact> {
    project.dispatch::<Compaction>(Compacting::new(project.scene(), 1500, 1000, 4))
}

fn post(project: &Project) -> Seen<Noted> {
    project.dispatch::<AfterCompaction>(Summarised::new(project.scene(), "a castle\n\"é\"".into()))
}

fn read(project: &Project, event: &str, rest: &str) {
    let expected = format!(
        "{{\"session_id\":\"s-1\",\"transcript_path\":\"{P}/.portcullis/transcripts/s-1.jsonl\",\"cwd\":\"{P}\",\"prompt_id\":\"256f4b03-a400-826b-b525-0cf206e53c4e\",\"hook_event_name\":\"{event}\",{rest}}}\n",
        P = project.path().display()
    );
    assert_eq!(project.read("seen"), expected);
}

// C-BRIDGE-1
#[test]
fn they_read_what_the_client_says() {
    let project = Project::hook("PreCompact", KEEP);
    assert_eq!(pre(&project).decisions, [Compact::proceed()]);
    read(&project, "PreCompact", r#""trigger":"auto","custom_instructions":null"#);
    let project = Project::hook("PostCompact", KEEP);
    assert_eq!(post(&project).decisions, [Noted {}]);
    read(&project, "PostCompact", r#""trigger":"auto","compact_summary":"a castle\n\"é\"""#);
}

// C-BRIDGE-1
#[test]
fn a_matcher_names_the_trigger() {
    for (matcher, runs) in [("auto", 1), ("manual", 0), ("manual|auto", 1), ("*", 1), ("au", 0)] {
        for event in ["PreCompact", "PostCompact"] {
            let project = Project::new(&format!(
                r#"{{"hooks":{{"{event}":[{{"matcher":"{matcher}","hooks":[{{"type":"command","command":"true"}}]}}]}}}}"#
            ));
            let ran = if event == "PreCompact" {
                pre(&project).results.len()
            } else {
                post(&project).results.len()
            };
            assert_eq!(ran, runs, "{event} {matcher}");
        }
    }
}

#[test]
fn a_block_leaves_the_conversation_as_it_is() {
    for command in [r#"echo '{"decision":"block","reason":"not now"}'"#, "printf 'not now' >&2; exit 2"] {
        let seen = pre(&Project::hook("PreCompact", command));
        let reason = format!("Compaction blocked by PreCompact hook: [{command}]: not now");
        assert_eq!(seen.decisions, [Compact::skip(reason)]);
        assert_eq!(seen.results[0].decision, "block");
    }
}

#[test]
fn plain_output_is_for_the_summary_and_nothing_else_counts() {
    let said = |command: &str| {
        let seen = pre(&Project::hook("PreCompact", command));
        assert!(seen.context.is_empty() && seen.halt.is_none());
        seen.decisions
    };
    assert_eq!(said("echo ' keep the map '"), [Compact::keeping("keep the map")]);
    assert_eq!(said(r#"echo '{"continue":false,"stopReason":"x"}'"#), [Compact::proceed()]);
    assert_eq!(said("echo lost; exit 1"), [Compact::proceed()]);
    assert_eq!(
        said(r#"echo '{"hookSpecificOutput":{"hookEventName":"PreCompact","additionalContext":"x"}}'"#),
        [Compact::proceed()]
    );
}

// C-BRIDGE-3
#[test]
fn a_failure_blocks_where_the_host_says_so() {
    let blocking = Project::hook("PreCompact", "exit 7").options(|o| o.on_failure(OnFailure::Block));
    assert!(matches!(pre(&blocking).decisions[..], [Compact::Skip { .. }]));
    assert_eq!(pre(&Project::hook("PreCompact", "exit 7")).decisions, [Compact::proceed()]);
}

#[test]
fn it_is_too_late_for_anything_after_it() {
    for command in [r#"echo '{"decision":"block","reason":"no"}'"#, "echo plain", "exit 2"] {
        let seen = post(&Project::hook("PostCompact", command));
        assert!(seen.decisions == [Noted {}] && seen.context.is_empty() && seen.halt.is_none(), "{command}");
    }
}
