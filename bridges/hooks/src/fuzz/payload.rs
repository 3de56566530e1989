//! What hooks read: JSON whatever the model wrote, with its values. The first line is the name of a tool, the rest its arguments.

use crate::{
    claude::Claude,
    codex::Codex,
    dialect::{Dialect, Style},
    explain::At,
    json::{Node, Value, parse},
    options::Fidelity,
};
use portcullis_runtime::{
    Asking, BatchCall, CallBatch, CallKey, CallPath, Content, EndReason, Ended, Ending, Execution, Frozen,
    Kind, Mint, Outcome, Proposed, Returned, Scene, Seq, SessionId, SessionInfo, Source, StartSource,
    Starting, Submitted, Summarised, ToolSpec, TurnEnded, View,
};
use std::{path::Path, sync::Arc, time::Duration};

pub(super) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (tool, arguments) = text.split_once('\n').unwrap_or((&*text, ""));
    let dialects: [&dyn Dialect; 2] = [&Claude, &Codex];
    for dialect in dialects {
        said(dialect, tool, arguments);
        if let Ok(frozen) = Frozen::arguments(arguments) {
            called(dialect, tool, &frozen);
        }
    }
}

fn scene() -> Scene {
    let id = SessionId::new("s-1").expect("a name");
    Scene::new(Arc::new(SessionInfo::new(id, "/p".into(), "fuzz")), 1, 1, Some(Seq(7)))
}

fn key() -> CallKey {
    CallKey { turn: 1, step: 1, call: CallPath::top(0) }
}

/// Texts that are no arguments.
fn said(dialect: &dyn Dialect, name: &str, text: &str) {
    let scene = scene();
    let content = || Content::text(text);
    let start = Starting::new(scene.clone(), StartSource::Compact, Some(text.into()));
    let prompt = Submitted::new(scene.clone(), Seq(7), content(), Source::User);
    let stop = Ending::new(scene.clone(), 1, text.into());
    let failed = EndReason::Error { code: "model_busy".into(), message: text.into() };
    let failed = TurnEnded::new(scene.clone(), failed);
    let summary = Summarised::new(scene.clone(), content());
    let call = BatchCall::new(
        key(),
        (text.into(), name.into(), text.into()),
        Frozen::arguments(text).ok(),
        Ended::Completed,
        content(),
        false,
    );
    let batch = CallBatch::new(scene.clone(), vec![call.clone(), call]);
    let outcome = Arc::new(Outcome::completed(text));
    let arguments = Frozen::arguments(text).ok();
    let took = Duration::from_millis(1);
    let returned = Returned::new(scene, key(), text.into(), name.into(), None, arguments, outcome, took);
    let moments = [
        (At::SessionStart(&start), None),
        (At::UserPromptSubmit(&prompt), Some("prompt")),
        (At::Stop(&stop), Some("last_assistant_message")),
        (At::TurnEnd(&failed), None),
        (At::PostCompact(&summary), None),
        (At::PostToolBatch(&batch), None),
        (At::PostToolUse(&returned), Some("tool_use_id")),
    ];
    for (at, key) in moments {
        read(dialect, at, |root| {
            let found = key.map(|key| root.get(key).and_then(Node::str).map(str::to_owned));
            // What there is nothing of may be null.
            assert!(found.is_none_or(|found| found.unwrap_or_default() == text), "{root:?}");
        });
    }
}

/// A call's arguments.
fn called(dialect: &dyn Dialect, tool: &str, arguments: &Frozen) {
    let schema = Frozen::parse(r#"{"type":"object"}"#).expect("JSON");
    let Ok(spec) = ToolSpec::new(tool, "", schema).map(Arc::new) else { return };
    let proposed = Proposed::new(scene(), key(), "c".into(), spec.clone(), arguments.clone());
    let token = Mint::new(0).root().id();
    let (requested, sealed) = (arguments.clone(), arguments.clone());
    let call = Execution::new(token, None, scene(), key(), "c".into(), spec, requested, sealed);
    let asking = Asking::new(call, Vec::new(), Vec::new(), true);
    for at in [At::PreToolUse(&proposed), At::PermissionRequest(&asking)] {
        read(dialect, at, |root| {
            let input = root.get("tool_input").expect("the arguments");
            // Of a tool that the client does not know it changes nothing.
            if tool.starts_with("mcp__") && at_is_exact(at) {
                same(arguments.root(), input);
            }
        });
    }
}

/// A question may say more than the call.
fn at_is_exact(at: At<'_>) -> bool {
    matches!(at, At::PreToolUse(_))
}

/// Reads a payload in each fidelity.
fn read(dialect: &dyn Dialect, at: At<'_>, check: impl Fn(&Node<'_>)) {
    let Some(event) = dialect.sort(at).map(|sorted| sorted.event) else { return };
    for fidelity in [Fidelity::Strict, Fidelity::Exact] {
        let style = Style { fidelity, transcripts: Path::new("/t") };
        let bytes = dialect.payload(event, at, style);
        let text = str::from_utf8(&bytes).expect("UTF-8");
        assert_eq!(text.trim_end_matches('\n').matches('\n').count(), 0, "one line");
        let root = parse(text).unwrap_or_else(|fault| panic!("{fault:?} in {text}"));
        assert!(Frozen::parse(text).is_ok(), "{text}");
        assert_eq!(root.get("hook_event_name").and_then(Node::str), Some(event.name()));
        check(&root);
    }
}

/// The same value; numbers are as JavaScript has them.
fn same(sent: View<'_>, read: &Node<'_>) {
    match (sent.kind(), &read.value) {
        (Kind::Null, Value::Null) => {}
        (Kind::Bool, Value::Bool(value)) => assert_eq!(sent.as_bool(), Some(*value)),
        (Kind::Number, Value::Number(literal)) => {
            assert_eq!(sent.as_f64(), literal.parse().ok(), "{} is {literal}", sent.text());
        }
        (Kind::String, Value::String(text)) => assert_eq!(sent.as_str().as_deref(), Some(&**text)),
        (Kind::Array, Value::Array(items)) => {
            assert_eq!(sent.len(), items.len());
            sent.items().zip(items).for_each(|(sent, read)| same(sent, read));
        }
        (Kind::Object, Value::Object(entries)) => {
            assert_eq!(sent.len(), entries.len());
            sent.entries().for_each(|(key, value)| same(value, read.get(&key).expect("the key")));
        }
        (kind, _) => panic!("{kind} became {}", read.kind()),
    }
}
