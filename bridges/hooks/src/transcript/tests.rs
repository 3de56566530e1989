use super::*;
use portcullis_runtime::{
    Arguments, AssistantBlock, AssistantMessage, At, Batch, Body, CallPath, Cause, CauseName, Claim,
    CompactionEnded, CompactionStarted, ContextMessage, Draft, EndReason, Ended, Finish, Frozen,
    HeaderChanged, Journal, MemoryJournal, Parent, RequestHeader, Seq, SessionCreated, SessionInfo, Source,
    SteeringMessage, StepStart, ToolCall, ToolResult, TurnEnd, TurnStart, Usage, UserMessage,
};
use std::sync::Arc;

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn created(session: &str, parent: Option<&str>) -> Body {
    let parent = parent.map(|parent| Parent { session: id(parent), call: None });
    let (cwd, channel) = ("/work".into(), "cli".into());
    SessionCreated { id: id(session), cwd, channel, parent, seed: None, cleared: None }.into()
}

/// Everything that has a line, and some of what has none.
fn turn(number: u64, model: &str) -> Vec<(At, Body)> {
    let (turn, step) = (At::turn(number), At::step(number, 1));
    let call = |place| At { call: Some(CallPath::top(place)), ..step.clone() };
    let header = RequestHeader { model: model.into(), system: "".into(), tools: Vec::new() };
    let made = |id: &str| -> Body {
        let text = Frozen::arguments(r#"{"command":"ls"}"#).unwrap();
        let arguments = Arguments::Sealed { text };
        ToolCall { name: "Bash".into(), id: id.into(), arguments, idempotent: false, concurrency_safe: false }
            .into()
    };
    let result = |text: &str| -> Body {
        ToolResult { outcome: Ended::Completed, content: text.into(), error: false }.into()
    };
    let asked = |id: &str| AssistantBlock::Call {
        id: id.into(),
        name: "Bash".into(),
        arguments: r#"{"command":"ls"}"#.into(),
    };
    let said = |blocks: Vec<AssistantBlock>, finish| -> Body {
        AssistantMessage { blocks: blocks.into(), usage: Some(Usage { input: 20, output: 8 }), finish }.into()
    };
    let text = |text: &str| AssistantBlock::Text { text: text.into() };
    vec![
        (turn.clone(), TurnStart { takes: Vec::new() }.into()),
        (
            turn.clone(),
            UserMessage { content: format!("do {number}").into(), source: Source::User, from: Seq(1) }.into(),
        ),
        (
            turn.clone(),
            ContextMessage { content: "green".into(), source: Source::owner("codex"), from: None }.into(),
        ),
        (step.clone(), StepStart {}.into()),
        (step.clone(), HeaderChanged(Arc::new(header)).into()),
        (
            step.clone(),
            said(
                vec![
                    AssistantBlock::Reasoning { text: "hm".into() },
                    text("I will."),
                    asked("c1"),
                    asked("c1"),
                ],
                Finish::Calls,
            ),
        ),
        (call(0), made("c1")),
        (call(1), made("c1")),
        (call(0), result("one")),
        (call(1), result("two")),
        (
            turn.clone(),
            SteeringMessage { content: "faster".into(), source: Source::User, from: Some(Seq(3)) }.into(),
        ),
        (
            turn.clone(),
            SteeringMessage { content: "go on".into(), source: Source::owner("codex"), from: None }.into(),
        ),
        (turn.clone(), CompactionStarted { from: Seq(1), to: Seq(2), tokens: 900 }.into()),
        (
            turn.clone(),
            CompactionEnded { from: Seq(1), to: Seq(2), summary: Some("so far".into()), skipped: None }
                .into(),
        ),
        (At::step(number, 2), StepStart {}.into()),
        (At::step(number, 2), said(vec![text("done")], Finish::Stop)),
        (
            turn,
            TurnEnd {
                reason: match number % 2 {
                    0 => EndReason::Aborted { by: Source::User, reason: CauseName(Cause::User) },
                    _ => EndReason::Completed,
                },
                dropped: Vec::new(),
            }
            .into(),
        ),
    ]
}

/// Three turns, with another model in the last one.
fn log(session: &str, parent: Option<&str>) -> Vec<Arc<Record>> {
    let first = (At::session(), created(session, parent));
    let turns =
        [(1, "m-1"), (2, "m-1"), (3, "m-2")].into_iter().flat_map(|(number, model)| turn(number, model));
    let all = std::iter::once(first).chain(turns).enumerate();
    all.map(|(n, (at, body))| Draft::new(at, body).seal(Seq(n as u64), 1_764_500_000_000 + n as u64))
        .collect()
}

fn written(shape: Shape, whose: Whose, records: &[Arc<Record>]) -> String {
    let (mut lines, mut out) = (Lines::new(shape, whose), String::new());
    records.iter().for_each(|record| lines.add(record, &mut out));
    out
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

/// Puts a log behind a session's name.
async fn store(journal: &MemoryJournal, session: &str, records: &[Arc<Record>]) {
    let mut own = journal.claim(&id(session), 1, Claim::CreateOrOpen).await.unwrap();
    let from = usize::try_from(own.head.0).unwrap();
    let batch = Batch::of(records[from..].to_vec());
    journal.append(&mut own, batch).unwrap().wait().await.unwrap();
    journal.release(own).await.unwrap();
}

// C-BRIDGE-1: a file is what its log says, wherever the log was cut off when it was last written, whatever happened to it since.
#[test]
fn a_file_goes_on_from_its_own_last_lines_in_each_shape() {
    let all = log("s", None);
    for shape in [Shape::Claude, Shape::Codex] {
        let whose = || Whose { session: id("s"), root: id("s") };
        let whole = written(shape, whose(), &all);
        for cut in 1..all.len() {
            run(async {
                let (dir, journal) = (tempfile::tempdir().unwrap(), MemoryJournal::new());
                let info = SessionInfo::new(id("s"), "/work".into(), "cli").stored(Arc::new(journal.clone()));
                store(&journal, "s", &all[..cut]).await;
                let keeper = || Keeper::new(shape, dir.path().to_owned());
                let first = keeper();
                first.catch_up(&info).await.unwrap();
                let file = first.place_of(&id("s"));
                let there = fs::read_to_string(&file).unwrap();
                assert_eq!(there, written(shape, whose(), &all[..cut]), "{shape:?} {cut}");
                // In the middle of the lines of a record, too: another process finds its place by the file alone.
                let some = there.len() * 2 / 3;
                fs::write(&file, &there[..some]).unwrap();
                store(&journal, "s", &all).await;
                for keeper in [first, keeper()] {
                    keeper.catch_up(&info).await.unwrap();
                    assert_eq!(fs::read_to_string(&file).unwrap(), whole, "{shape:?} {cut}");
                }
            });
        }
    }
}

#[test]
fn a_subagents_hooks_find_each_conversation_above_it_that_they_may_be_told_of() {
    let names = ["s", "s.a", "s.a.b"];
    for (shape, files) in [
        (Shape::Codex, ["rollout-s.jsonl", "rollout-s.a.jsonl", "rollout-s.a.b.jsonl"].map(str::to_owned)),
        (
            Shape::Claude,
            ["s.jsonl".to_owned()]
                .into_iter()
                .chain(
                    ["s.a", "s.a.b"].map(|name| {
                        format!("s/subagents/agent-{}.jsonl", crate::claude::agent_id(&id(name)))
                    }),
                )
                .collect::<Vec<_>>()
                .try_into()
                .unwrap(),
        ),
    ] {
        run(async {
            let (dir, journal) = (tempfile::tempdir().unwrap(), MemoryJournal::new());
            for (name, parent) in names.into_iter().zip([None, Some("s"), Some("s.a")]) {
                store(&journal, name, &log(name, parent)).await;
            }
            let root = SessionInfo::new(id("s"), "/work".into(), "cli").stored(Arc::new(journal.clone()));
            let child = root.child(id("s.a"), "/work".into(), "x".into());
            let below = child.child(id("s.a.b"), "/work".into(), "y".into());
            Keeper::new(shape, dir.path().to_owned()).catch_up(&below).await.unwrap();
            for ((name, parent), file) in names.into_iter().zip([None, Some("s"), Some("s.a")]).zip(files) {
                let whose = Whose { session: id(name), root: id("s") };
                let read = fs::read_to_string(dir.path().join(&file)).unwrap();
                assert_eq!(read, written(shape, whose, &log(name, parent)), "{file}");
            }
        });
    }
}

/// What each line of a Codex transcript is about, and what is in it.
fn items(text: &str) -> Vec<(String, Frozen)> {
    let line = |line: &str| {
        let line = Frozen::parse(line).unwrap();
        let (root, text) =
            (line.root(), |key: &str| line.root().get(key).unwrap().as_str().unwrap().into_owned());
        let keys: Vec<_> = root.entries().map(|(key, _)| key.into_owned()).collect();
        assert_eq!(keys, ["timestamp", "type", "payload", "uuid", "seq"]);
        let payload = root.get("payload").unwrap().to_frozen();
        let kind = payload.root().get("type").and_then(|kind| kind.as_str().map(|kind| kind.into_owned()));
        (kind.map_or_else(|| text("type"), |kind| format!("{}/{kind}", text("type"))), payload)
    };
    text.lines().map(line).collect()
}

// C-BRIDGE-1: what hooks of the client look for is there, in the order in which it was said.
#[test]
fn each_item_of_a_conversation_has_its_line() {
    let all = written(Shape::Codex, Whose { session: id("s"), root: id("s") }, &log("s", None)[..18]);
    let items = items(&all);
    let kinds: Vec<&str> = items.iter().map(|(kind, _)| &**kind).collect();
    assert_eq!(
        kinds,
        [
            "session_meta",
            "turn_context",
            "response_item/message",
            "event_msg/user_message",
            "response_item/message",
            "response_item/reasoning",
            "response_item/message",
            "event_msg/agent_message",
            "response_item/function_call",
            "response_item/function_call",
            "response_item/function_call_output",
            "response_item/function_call_output",
            "response_item/message",
            "event_msg/user_message",
            "response_item/message",
            "compacted",
            "response_item/message",
            "event_msg/agent_message",
            "event_msg/task_complete",
        ]
    );
    let turn = crate::codex::turn_id(&id("s"), 1);
    for (at, payload) in [
        (
            0,
            r#"{"id":"s","timestamp":"2025-11-30T10:53:20.000Z","cwd":"/work","originator":"portcullis","source":"cli"}"#,
        ),
        (1, r#"{"turn_id":"{turn}","cwd":"/work"}"#),
        (2, r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"do 1"}]}"#),
        (3, r#"{"type":"user_message","message":"do 1"}"#),
        (4, r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"green"}]}"#),
        (5, r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}"#),
        (6, r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I will."}]}"#),
        (8, r#"{"type":"function_call","name":"Bash","arguments":"{\"command\":\"ls\"}","call_id":"c1"}"#),
        (11, r#"{"type":"function_call_output","call_id":"c1","output":"two"}"#),
        (14, r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}"#),
        (15, r#"{"message":"so far"}"#),
        (18, r#"{"type":"task_complete","turn_id":"{turn}","last_agent_message":"done"}"#),
    ] {
        assert_eq!(items[at].1.text(), payload.replace("{turn}", &turn), "{at}");
    }
}

#[test]
fn a_turns_line_names_its_model_and_how_it_was_cut_off() {
    let records = log("s.a", Some("s"));
    let all = items(&written(Shape::Codex, Whose { session: id("s.a"), root: id("s") }, &records));
    let of = |wanted: &str| -> Vec<String> {
        let all = all.iter().filter(|(kind, _)| kind == wanted).map(|(_, payload)| payload.text().to_owned());
        all.collect()
    };
    let turn = |number| crate::codex::turn_id(&id("s.a"), number);
    assert!(of("session_meta")[0].ends_with(r#""source":"cli","parent_thread_id":"s","session_id":"s"}"#));
    // A model is known from its first request on, or from what the runtime says of itself before.
    let context = |number, model: &str| format!(r#"{{"turn_id":"{}","cwd":"/work"{model}}}"#, turn(number));
    let known = r#","model":"m-1""#;
    assert_eq!(of("turn_context"), [context(1, ""), context(2, known), context(3, known)]);
    assert_eq!(
        of("event_msg/turn_aborted"),
        [format!(r#"{{"type":"turn_aborted","turn_id":"{}","reason":"interrupted"}}"#, turn(2))]
    );
}
