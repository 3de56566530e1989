//! Hooks of Claude Code and of Codex in one session: one fold, each with its own bytes, both named in the log.

mod support;

use portcullis::{
    hooks::{ClaudeHooks, CodexHooks, CodexLayers, Hooks, Options},
    *,
};
use std::{
    fs,
    sync::{Arc, Mutex},
};
use support::*;

const VERDICTS: [&str; 3] = ["allow", "ask", "deny"];

/// A hook that says so before a call, in the words that both clients read, and notes what it read.
fn hook(dialect: &str, verdict: &str) -> String {
    // A client takes an allow without new arguments for a mistake; with the same ones it is none.
    let input = if verdict == "allow" { r#","updatedInput":{"text":"x"}"# } else { "" };
    let said = format!(
        r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"{verdict}","permissionDecisionReason":"{dialect} says {verdict}"{input},"additionalContext":"{dialect} was here"}}}}"#
    );
    let command = format!("cat > {dialect}.json; printf '%s' '{said}'");
    let command = serde_json::to_string(&command).unwrap();
    format!(r#"{{"hooks":{{"PreToolUse":[{{"hooks":[{{"type":"command","command":{command}}}]}}]}}}}"#)
}

struct Ran {
    _dir: tempfile::TempDir,
    claude: String,
    codex: String,
    log: Vec<Arc<Record>>,
    ran: usize,
    asked: usize,
}

impl Ran {
    /// `none` for hooks that are not there.
    async fn of(claude: &str, codex: &str, codex_first: bool) -> Ran {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".claude")).unwrap();
        fs::create_dir_all(dir.path().join(".codex")).unwrap();
        fs::write(dir.path().join(".claude/settings.json"), hook("claude", claude)).unwrap();
        fs::write(dir.path().join(".codex/hooks.json"), hook("codex", codex)).unwrap();
        let (first, reports) = ClaudeHooks::load(dir.path());
        assert_eq!(reports, []);
        let layers = CodexLayers::default().trust_project().bypass_trust();
        let (second, _) = CodexHooks::load_with(dir.path(), Options::new().layers(layers));
        assert_eq!((first.dialect(), second.dialect()), ("claude", "codex"));
        assert_eq!((first.len(), second.len()), (1, 1));
        let mut mounted: Vec<Arc<Hooks>> = vec![first, second];
        if codex_first {
            mounted.reverse();
        }
        let ran: Arc<Mutex<Vec<String>>> = Arc::default();
        let journal = MemoryJournal::new();
        let mut builder = Runtime::builder(Says::calls(&[("Echo", r#"{"text":"x"}"#)]))
            .journal(journal.clone())
            .tools([echo(&ran)])
            .arbiters(1);
        for hooks in mounted {
            builder = builder.mount_deciding(hooks);
        }
        let runtime = builder.start().await.unwrap();
        let session = runtime.open("s", SessionOptions::new(dir.path()).approvals()).await.unwrap();
        let turn = session.prompt(Content::text("go")).await.unwrap();
        let mut events = session.events(Seq(0));
        let asked = within(async {
            let mut asked = 0;
            let mut done = std::pin::pin!(turn.done());
            loop {
                tokio::select! {
                    _ = &mut done => return asked,
                    event = futures::StreamExt::next(&mut events) => match event {
                        Some(Event::Ask(ask)) => {
                            asked += 1;
                            session.answer(&ask, Answer::Allow).await.unwrap();
                        }
                        Some(_) => {}
                        None => return asked,
                    },
                }
            }
        })
        .await;
        runtime.shutdown(PATIENCE).await;
        let read = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap_or_default();
        let (claude, codex) = (read("claude.json"), read("codex.json"));
        let log = journal.records(&SessionId::new("s").unwrap());
        let ran = ran.lock().unwrap().len();
        Ran { _dir: dir, claude, codex, log, ran, asked }
    }

    /// What became of the call.
    fn outcome(&self) -> &'static str {
        let ended = self.log.iter().find_map(|record| match &record.body {
            Body::ToolResult(result) => Some(result.outcome.clone()),
            _ => None,
        });
        match (ended, self.asked, self.ran) {
            (Some(Ended::HookDeny { .. }), 0, 0) => "deny",
            (Some(Ended::Completed), 1, 1) => "ask",
            (Some(Ended::Completed), 0, 1) => "allow",
            other => panic!("{other:?}"),
        }
    }

    fn contexts(&self) -> Vec<String> {
        let of = |record: &Arc<Record>| match &record.body {
            Body::ContextMessage(context) => Some(context.content.to_text().into_owned()),
            _ => None,
        };
        self.log.iter().filter_map(of).collect()
    }

    /// Who decided, by the log.
    fn owners(&self) -> Vec<String> {
        let each = self.log.iter().filter_map(|record| record.body.decisions());
        each.flat_map(|decisions| decisions.each().map(|one| one.id.owner.to_string()).collect::<Vec<_>>())
            .collect()
    }
}

// C-SEAM-1, C-BRIDGE-6: the most restrictive wins, whoever says it and in whatever order they were mounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_dialects_fold_to_one_table_in_both_mount_orders() {
    for claude in VERDICTS {
        for codex in VERDICTS {
            let wanted = match (claude, codex) {
                ("deny", _) | (_, "deny") => "deny",
                ("ask", _) | (_, "ask") => "ask",
                _ => "allow",
            };
            for codex_first in [false, true] {
                let ran = Ran::of(claude, codex, codex_first).await;
                let about = format!("{claude}, {codex}, {codex_first}");
                assert_eq!(ran.outcome(), wanted, "{about}");
                // Each is told in its own bytes, and both are on record, in the order of mounting.
                assert!(ran.claude.ends_with("}\n") && ran.claude.contains("\"permission_mode\""), "{about}");
                assert!(ran.codex.ends_with('}') && ran.codex.contains("\"turn_id\""), "{about}");
                let order = if codex_first { ["codex", "claude"] } else { ["claude", "codex"] };
                assert_eq!(ran.owners(), order, "{about}");
                let contexts = ran.contexts();
                let of = |owner: &str| match owner {
                    "claude" => "PreToolUse:Echo hook additional context: claude was here",
                    _ => "codex was here",
                };
                assert_eq!(contexts, order.map(of), "{about}");
            }
        }
    }
}
