//! Makes vectors of recordings of Codex:
//! `cargo run -p portcullis-hooks --example codex_recordings -- FOLDER > bridges/hooks/vectors/codex-payloads.json`.
//!
//! A recording is a JSON file of one run of the client: `case` and, in `observed`, `invocations` (each hook that ran, with
//! `stdin_text`) and `model_input_appended` (what the model was sent, its own calls among it). A vector is a situation and the
//! bytes that a hook reads in it. Names, ids and places become placeholders, values that this runtime never has become those that
//! it has, words of the client become words of our own, and what a recording says twice is kept once. What cannot be made into
//! a vector is counted on stderr, by reason.

#![expect(
    clippy::disallowed_types,
    reason = "nobody sends these texts: they are our own, and only looked at"
)]

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    io::Write,
    path::PathBuf,
};

/// Longer payloads show nothing that shorter ones do not.
const LONGEST: usize = 3000;
/// Where each recorded session works.
const PLACE: &str = "/workspace";
/// Whose results are the client's words, and ours in their place.
const OWN_WORDS: [(&str, &str); 2] =
    [("apply_patch", "It was done.\n"), ("spawn_agent", "{\"agent_id\":\"a-1\"}")];

#[derive(Deserialize)]
struct Recording {
    case: String,
    observed: Observed,
}

#[derive(Deserialize)]
struct Observed {
    #[serde(default)]
    invocations: Vec<Invocation>,
    #[serde(default)]
    model_input_appended: Vec<Request>,
}

#[derive(Deserialize)]
struct Invocation {
    #[serde(default)]
    stdin_text: Option<String>,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    appended_items: Vec<Item>,
}

/// Something the model said or was told.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Item {
    role: Option<String>,
    content: Vec<Part>,
    call_id: Option<String>,
    /// JSON, as the model wrote it.
    arguments: Option<String>,
    /// A text that is no JSON.
    input: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Part {
    text: String,
}

/// A situation, and what a hook reads in it.
#[derive(Serialize)]
struct Vector {
    id: String,
    event: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    situation: Map<String, Value>,
    reads: String,
}

fn main() -> io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("codex_recordings: give the folder of the recordings");
        std::process::exit(2);
    };
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    let (mut vectors, mut seen, mut left) = (Vec::new(), HashSet::new(), BTreeMap::<_, u32>::new());
    for file in files {
        let text = fs::read_to_string(&file)?;
        let Ok(Recording { case, observed }) = serde_json::from_str(&text) else {
            *left.entry("no recording of hooks").or_default() += 1;
            continue;
        };
        let requests = observed.model_input_appended;
        let items: Vec<Item> = requests.into_iter().flat_map(|request| request.appended_items).collect();
        for (n, invocation) in observed.invocations.iter().enumerate() {
            let Some(stdin) = &invocation.stdin_text else { continue };
            match vector(format!("{case}/{n}"), stdin, &items) {
                Err(why) => *left.entry(why).or_default() += 1,
                Ok(vector) => {
                    // What differs in a number shows the same.
                    let all = format!("{}{:?}", vector.reads, vector.situation);
                    if seen.insert(all.replace(|c: char| c.is_ascii_digit(), "")) {
                        vectors.push(serde_json::to_string(&vector)?);
                    }
                }
            }
        }
    }
    for (why, count) in left {
        eprintln!("codex_recordings: {count} left out: {why}");
    }
    eprintln!("codex_recordings: {} vectors", vectors.len());
    // Whoever closed stdout has had enough.
    let _ = writeln!(io::stdout(), "[\n{}\n]", vectors.join(",\n"));
    Ok(())
}

fn vector(id: String, stdin: &str, items: &[Item]) -> Result<Vector, &'static str> {
    let read: Map<String, Value> = serde_json::from_str(stdin).map_err(|_| "it is no JSON object")?;
    let written = Value::from(read.clone()).to_string();
    if written != stdin {
        return Err("this program would write it otherwise");
    }
    let text = |key: &str| read.get(key).and_then(Value::as_str).map(str::to_owned);
    let event = text("hook_event_name").ok_or("it names no event")?;
    let (session, agent) = (text("session_id").ok_or("it names no session")?, text("agent_id"));
    let mut situation = Map::new();
    let mut own =
        |key: &str, value: Option<Value>| situation.extend(value.map(|value| (key.to_owned(), value)));
    let mut out = read.clone();
    // Whose file it is says its name.
    for key in ["transcript_path", "agent_transcript_path"] {
        let Some(path) = read.get(key) else { continue };
        let path = path.as_str().ok_or("the session keeps no transcript")?;
        let of = |id: &str| path.ends_with(&format!("-{id}.jsonl"));
        let whose = match agent.as_deref() {
            Some(agent) if of(agent) => "{transcript}",
            Some(_) if of(&session) => "{parent_transcript}",
            None if of(&session) => "{transcript}",
            _ => return Err("its transcript is nobody's"),
        };
        out[key] = whose.into();
    }
    for (key, value) in [
        ("session_id", "{session}"),
        ("turn_id", "{turn}"),
        ("agent_id", "{agent}"),
        ("model", "M"),
        ("permission_mode", "default"),
        ("tool_use_id", "call-1"),
    ] {
        if let Some(old) = out.get_mut(key) {
            *old = value.into();
        }
    }
    match text("cwd").as_deref() {
        Some(PLACE) => out["cwd"] = "{P}".into(),
        // Of a call that names it.
        Some(_) if read.contains_key("tool_input") => {}
        _ => return Err("it works elsewhere"),
    }
    own("agent_type", read.get("agent_type").cloned());
    match &*event {
        "SessionStart" => own("source", read.get("source").cloned()),
        "UserPromptSubmit" => {
            let prompt = text("prompt").ok_or("it has no prompt")?;
            own("prompt", Some(parts(&prompt, items).into()));
        }
        "Stop" | "SubagentStop" => {
            own("stop_hook_active", read.get("stop_hook_active").cloned());
            own("last_assistant_message", read.get("last_assistant_message").cloned());
        }
        "PreCompact" | "PostCompact" if text("trigger").as_deref() != Some("auto") => {
            return Err("nobody asks for a compaction here");
        }
        "PreCompact" | "PostCompact" | "SubagentStart" | "Interrupt" | "SessionEnd" => {}
        "PreToolUse" | "PermissionRequest" | "PostToolUse" => {
            let tool = text("tool_name").ok_or("it names no tool")?;
            let input = read.get("tool_input").ok_or("it has no input")?;
            let call = text("tool_use_id");
            own("arguments", Some(arguments(&tool, input, call.as_deref(), items).into()));
            // The client's shell has a name of its own for the model.
            let called = if tool == "Bash" { "exec_command" } else { &*tool };
            own("tool", Some(called.into()));
            match read.get("tool_response") {
                None => {}
                Some(Value::String(text)) => {
                    let words =
                        OWN_WORDS.iter().find(|(of, _)| *of == tool).map_or(&**text, |(_, words)| words);
                    out["tool_response"] = words.into();
                    own("response", Some(words.into()));
                }
                Some(value) => own("data", Some(value.to_string().into())),
            }
        }
        _ => return Err("its event does not happen here"),
    }
    let reads = Value::from(out).to_string();
    let all = format!("{reads}{situation:?}");
    if all.len() > LONGEST {
        return Err("it is long");
    }
    let prose = |at: usize| all[at + 1..].starts_with(|c: char| c.is_ascii_uppercase());
    if all.contains("<<client")
        || all.match_indices('{').any(|(at, _)| prose(at) && !all[at..].starts_with("{P}"))
    {
        return Err("it quotes the client");
    }
    Ok(Vector { id, event, situation, reads })
}

/// A prompt in the pieces in which it was sent.
fn parts(prompt: &str, items: &[Item]) -> Vec<Value> {
    let users = items.iter().filter(|item| item.role.as_deref() == Some("user"));
    let mut sent = users.map(|item| item.content.iter().map(|part| &*part.text).collect::<Vec<_>>());
    let found = sent.find(|parts| parts.concat() == prompt);
    found.unwrap_or_else(|| vec![prompt]).into_iter().map(Value::from).collect()
}

/// The arguments of a call as the model wrote them, if the recording has them and no hook has put others in their place; else
/// what makes the same input.
fn arguments(tool: &str, read: &Value, call: Option<&str>, items: &[Item]) -> String {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let command = read.get("command").filter(|_| matches!(tool, "Bash" | "apply_patch"));
    let of_call = |item: &&Item| call.is_none() || item.call_id.as_deref() == call;
    let mut wrote = items.iter().filter(of_call).filter_map(|item| match (&item.arguments, &item.input) {
        (Some(arguments), _) => Some(arguments.clone()),
        (None, Some(input)) => {
            Some(Value::from(Map::from_iter([("input".into(), (&**input).into())])).to_string())
        }
        _ => None,
    });
    // A question has a patch without its last line break.
    let same = |text: &String| {
        let wrote = json(text);
        match command {
            Some(Value::String(command)) if tool == "Bash" => wrote["cmd"] == **command,
            Some(Value::String(command)) => wrote["input"]
                .as_str()
                .is_some_and(|patch| patch == command || call.is_none() && patch.trim() == command),
            _ => {
                // Keys in the same order, too.
                let [ours, theirs] = [&wrote, read].map(Value::to_string);
                ours == theirs
            }
        }
    };
    wrote.find(same).unwrap_or_else(|| match command {
        Some(command) => {
            let key = if tool == "Bash" { "cmd" } else { "input" };
            let mut made = Map::from_iter([(key.to_owned(), command.clone())]);
            made.extend(read.get("description").map(|why| ("justification".to_owned(), why.clone())));
            Value::from(made).to_string()
        }
        None => read.to_string(),
    })
}
