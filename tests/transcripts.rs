//! C-BRIDGE-1: the files that hooks are told to read are there, and are what the log says, whenever a hook runs.

mod support;

use portcullis::{
    hooks::{ClaudeHooks, Options},
    *,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use support::*;
use tempfile::TempDir;

/// Copies what it finds under `transcript_path` to `seen-EVENT-N`, and what it finds under `agent_transcript_path`.
const LOOK: &str = r#"input=$(cat); event=$(printf %s "$input" | sed 's/.*"hook_event_name":"\([A-Za-z]*\)".*/\1/')
n=1; while [ -e "$CLAUDE_PROJECT_DIR/seen-$event-$n" ]; do n=$((n + 1)); done
cp "$(printf %s "$input" | sed 's/.*"transcript_path":"\([^"]*\)","cwd.*/\1/')" "$CLAUDE_PROJECT_DIR/seen-$event-$n"
case $input in *agent_transcript_path*)
cp "$(printf %s "$input" | sed 's/.*"agent_transcript_path":"\([^"]*\)".*/\1/')" "$CLAUDE_PROJECT_DIR/agent-$event-$n";; esac"#;

struct Site {
    dir: TempDir,
    journal: MemoryJournal,
    options: Options,
}

impl Site {
    fn new(events: &[&str]) -> Site {
        let dir = TempDir::new().unwrap();
        let command = serde_json::to_string(LOOK).unwrap();
        let of =
            |event: &&str| format!(r#""{event}":[{{"hooks":[{{"type":"command","command":{command}}}]}}]"#);
        let settings = format!("{{\"hooks\":{{{}}}}}", events.iter().map(of).collect::<Vec<_>>().join(","));
        fs::create_dir(dir.path().join(".claude")).unwrap();
        fs::write(dir.path().join(".claude/settings.json"), settings).unwrap();
        Site { dir, journal: MemoryJournal::new(), options: Options::new() }
    }

    /// One process: these prompts, one after another. The files are as long as they will be when it is over.
    async fn process(&self, model: Says, prompts: &[&str]) -> Vec<EndReason> {
        let (hooks, _) = ClaudeHooks::load_with(self.dir.path(), self.options.clone());
        let runtime = Runtime::builder(model)
            .journal(self.journal.clone())
            .tools([echo(&Arc::default())])
            .tool(agent_tool(vec![AgentKind::new("digger", "Digs.")]).unwrap())
            .mount_deciding(hooks)
            .arbiters(1)
            .limits(Limits { compact_at: Some(1000), ..Limits::default() })
            .start()
            .await
            .unwrap();
        let session = runtime.open("s", SessionOptions::new(self.dir.path())).await.unwrap();
        let mut ends = Vec::new();
        for prompt in prompts {
            ends.push(within(within(session.prompt(*prompt)).await.unwrap().into_future()).await);
        }
        let said = ends.len();
        let answers = || self.read(".portcullis/transcripts/s.jsonl").matches(r#""end_turn""#).count();
        if self.file().parent().is_some_and(Path::is_dir) {
            until(|| answers() >= said).await;
        }
        within(runtime.shutdown(PATIENCE)).await;
        ends
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join(".portcullis/transcripts/s.jsonl")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    fn seen(&self, event: &str) -> Vec<String> {
        (1..).map(|n| self.read(&format!("seen-{event}-{n}"))).take_while(|text| !text.is_empty()).collect()
    }
}

fn talk() -> Says {
    Says::by_prompt(|prompt, said| match (prompt, said) {
        ("dig", _) => say("gold"),
        ("delegate", 0) => {
            calls(&[("Agent", r#"{"description":"d","prompt":"dig","subagent_type":"digger"}"#)])
        }
        (_, 0) => calls(&[("Echo", r#"{"text":"x"}"#), ("Echo", r#"{"text":"y"}"#)]),
        _ => say("done"),
    })
}

#[tokio::test]
async fn a_hook_finds_all_that_was_said_before_it() {
    let site = Site::new(&["PreToolUse", "PostToolUse", "Stop"]);
    site.process(talk(), &["go", "again"]).await;
    let lines = |text: &str| text.lines().count();
    // The prompt and the calls; before the second call also the first one's result.
    assert_eq!(site.seen("PreToolUse").iter().map(|t| lines(t)).collect::<Vec<_>>(), [2, 3, 7, 8]);
    let stop = site.seen("Stop");
    assert_eq!(stop.iter().map(|t| lines(t)).collect::<Vec<_>>(), [5, 10]);
    assert!(stop[0].ends_with("}\n") && stop[0].contains(r#""text":"done""#));
    // Only ever added to.
    let file = site.read(".portcullis/transcripts/s.jsonl");
    for seen in ["PreToolUse", "PostToolUse", "Stop"].into_iter().flat_map(|event| site.seen(event)) {
        assert!(file.starts_with(&seen));
    }
}

// What is committed before a process is started that reads the log is durable by then: a barrier for each point that has one.
#[tokio::test]
async fn hooks_wait_for_what_they_read() {
    let mut barriers = Vec::new();
    for events in [&[][..], &["Stop"], &["PreToolUse", "Stop"]] {
        let site = Site::new(events);
        let (hooks, _) = ClaudeHooks::load(site.dir.path());
        let builder = Runtime::builder(talk()).tools([echo(&Arc::default())]).mount_deciding(hooks);
        let runtime = builder.start().await.unwrap();
        let session = runtime.open("s", SessionOptions::new(site.dir.path())).await.unwrap();
        let done = within(within(session.prompt("go")).await.unwrap().done()).await;
        barriers.push(done.2.barriers);
        within(runtime.shutdown(PATIENCE)).await;
    }
    let [none, stop, both] = barriers[..] else { panic!("three") };
    assert_eq!((stop, both), (none + 1, none + 3), "two calls, and the turn's end");
}

#[tokio::test]
async fn a_file_is_what_the_log_says_however_it_came_to_be() {
    let site = Site::new(&["Stop"]);
    site.process(talk(), &["one", "two"]).await;
    site.process(talk(), &["three"]).await;
    let whole = site.read(".portcullis/transcripts/s.jsonl");
    assert_eq!(whole.lines().count(), 15);
    // Whatever happened to the file: it is gone, its end was cut off in the middle of a line, somebody wrote into it, it is
    // another log's.
    let cut = &whole[..whole.len() - 40];
    let other = Site::new(&["Stop"]);
    other.process(talk(), &["other"]).await;
    let other = other.read(".portcullis/transcripts/s.jsonl");
    for there in [None, Some(cut), Some("{\"type\":\"user\"}\nno line"), Some(&*other), Some("")] {
        match there {
            None => fs::remove_file(site.file()).unwrap(),
            Some(text) => fs::write(site.file(), text).unwrap(),
        }
        let turns = site.seen("Stop").len();
        site.process(talk(), &["four"]).await;
        let (now, seen) = (site.read(".portcullis/transcripts/s.jsonl"), site.seen("Stop"));
        assert!(now.starts_with(&whole), "{there:?}");
        assert_eq!(now.lines().count(), 5 * (turns + 1), "{there:?}");
        assert_eq!(seen.last(), Some(&now), "{there:?}");
    }
}

#[tokio::test]
async fn a_subagent_has_a_file_of_its_own() {
    let site = Site::new(&["SubagentStop", "Stop"]);
    site.process(talk(), &["delegate"]).await;
    let agent = site.read("agent-SubagentStop-1");
    let lines: Vec<&str> = agent.lines().collect();
    assert_eq!(lines.len(), 2);
    let id = ClaudeHooks::agent_id(&SessionId::new("s.1-1-0-0").unwrap());
    for line in lines {
        assert!(line.contains(&format!(r#""isSidechain":true,"agentId":"{id}""#)), "{line}");
        assert!(line.contains(r#""sessionId":"s""#), "{line}");
    }
    assert_eq!(site.read(&format!(".portcullis/transcripts/s/subagents/agent-{id}.jsonl")), agent);
    // What the session knows of it is the call, and later its result.
    assert!(site.seen("SubagentStop")[0].lines().count() == 2 && site.seen("Stop")[0].contains("gold"));
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_reported_and_breaks_nothing() {
    let mut site = Site::new(&["PreToolUse", "Stop"]);
    let blocker = site.dir.path().join("blocker");
    fs::write(&blocker, "").unwrap();
    site.options = Options::new().transcripts(blocker.join("below"));
    assert_eq!(site.process(talk(), &["go"]).await, [EndReason::Completed]);
    let results: Vec<String> =
        records(&site.journal, "s").iter().map(|r| encode(r)).filter(|r| r.contains("hook/result")).collect();
    assert_eq!(results.len(), 3);
    assert!(results.iter().all(|r| r.contains("the transcript could not be written: ")), "{results:?}");
}

#[tokio::test]
async fn a_summary_is_a_boundary_and_what_stands_for_the_rest() {
    let site = Site::new(&["Stop"]);
    let model = Says::by_prompt(|prompt, said| match (prompt, said) {
        ("go", 0) => costing(1500, say("a long talk")),
        ("on", _) => say("done"),
        _ => say("in short"),
    });
    site.process(model, &["go", "on"]).await;
    let last = site.seen("Stop").pop().unwrap();
    let kinds: Vec<&str> = last
        .lines()
        .map(|line| match line {
            line if line.contains(r#""subtype":"compact_boundary""#) => "boundary",
            line if line.contains(r#""isCompactSummary":true"#) => "summary",
            line if line.contains(r#""type":"assistant""#) => "assistant",
            _ => "user",
        })
        .collect();
    assert_eq!(kinds, ["user", "assistant", "user", "boundary", "summary", "assistant"]);
    assert!(last.contains(r#""compactMetadata":{"trigger":"auto","preTokens":1500}"#));
    // Both lines of one record are found again.
    let whole = site.read(".portcullis/transcripts/s.jsonl");
    let end =
        whole.find(r#"{"parentUuid""#).map(|_| whole.match_indices('\n').nth(3).unwrap().0 + 1).unwrap();
    fs::write(site.file(), &whole[..end]).unwrap();
    site.process(Says::by_prompt(|_, _| say("done")), &["more"]).await;
    assert!(site.read(".portcullis/transcripts/s.jsonl").starts_with(&whole));
}

// A step's own cost does not grow with history: each record is read once, and each line written once.
#[tokio::test]
async fn what_is_written_once_is_not_read_again() {
    let site = Site::new(&["Stop"]);
    site.process(talk(), &["one"]).await;
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(&site.file());
    let prompts: Vec<String> = (0..30).map(|n| format!("prompt {n}")).collect();
    site.process(talk(), &prompts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(inode(&site.file()), before);
    let uuids: std::collections::BTreeSet<String> = site
        .read(".portcullis/transcripts/s.jsonl")
        .lines()
        .map(|line| line.split(r#""uuid":""#).nth(1).unwrap()[..36].to_owned())
        .collect();
    assert_eq!(uuids.len(), 31 * 5);
}
