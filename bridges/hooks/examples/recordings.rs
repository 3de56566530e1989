//! Makes vectors of recordings: `cargo run -p portcullis-hooks --example recordings -- FOLDER > bridges/hooks/vectors/payloads.json`.
//!
//! A recording is a JSON file of one run of a client: `case`, `mock_replies` (what its model answered), `invocations` (each hook
//! that ran, with `stdin_text`). A vector is a situation and the bytes that a hook reads in it. Names, ids and places become
//! placeholders, keys that this runtime never sends are taken out, values that it never has become those that it has, words of
//! the client become words of our own, and what a recording says twice is kept once. What cannot be made into a vector is
//! counted on stderr, by reason.

#![expect(
    clippy::disallowed_types,
    reason = "nobody sends these texts: they are our own, and only looked at"
)]

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    io::Write,
    path::PathBuf,
};

/// Longer payloads show nothing that shorter ones do not.
const LONGEST: usize = 3000;
/// Keys of the client that nothing here stands behind (docs/compatibility.md).
const NEVER_SENT: [&str; 7] = [
    "effort",
    "permission_suggestions",
    "mcp_server",
    "seconds_since_last_response",
    "context_tokens",
    "prompt_cache_likely_expired",
    "estimated_cache_write_usd",
];
/// Tools whose results are data, not prose.
const TOOLS: [&str; 6] = ["Bash", "Read", "Write", "Edit", "Glob", "Grep"];
/// How a turn can fail here, in the client's words.
const FAILURES: [&str; 3] = ["rate_limit", "server_error", "unknown"];
/// How long every call takes.
const MILLISECONDS: u32 = 58;
const OWN_WORDS: &str = "It could not be done.";
/// What the client begins with when it says that a person is asked; a tool's name follows.
const ASKS: &str = "Claude needs your permission to use ";
/// What the client answers with when it does not accept a call.
const NOT_ACCEPTED: &str = "<tool_use_error>";

#[derive(Deserialize)]
struct Recording {
    case: String,
    #[serde(default)]
    cli: Cli,
    #[serde(default)]
    mock_replies: Option<Box<RawValue>>,
    #[serde(default)]
    invocations: Option<Vec<Invocation>>,
}

/// How the client was started.
#[derive(Deserialize, Default)]
struct Cli {
    #[serde(default)]
    prompt: Value,
}

#[derive(Deserialize)]
struct Invocation {
    #[serde(default)]
    stdin_text: Option<String>,
}

/// What the model answered.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Reply {
    tool: Option<String>,
    input: Option<Box<RawValue>>,
    tools: Option<Vec<Reply>>,
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
        eprintln!("recordings: give the folder of the recordings");
        std::process::exit(2);
    };
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    let (mut vectors, mut seen, mut left) = (Vec::new(), HashSet::new(), BTreeMap::<_, u32>::new());
    for file in files {
        let text = fs::read_to_string(&file)?;
        let Ok(recording) = serde_json::from_str::<Recording>(&text) else {
            *left.entry("no recording of hooks").or_default() += 1;
            continue;
        };
        let calls = calls(&recording);
        for (n, invocation) in recording.invocations.iter().flatten().enumerate() {
            let Some(stdin) = &invocation.stdin_text else { continue };
            match vector(
                format!("{}/{n}", recording.case),
                stdin,
                &calls,
                recording.cli.prompt.as_str().unwrap_or_default(),
            ) {
                Err(why) => *left.entry(why).or_default() += 1,
                Ok(vector) => {
                    // What differs in a count or in the number of a call shows the same.
                    let all = format!("{}{:?}", vector.reads, vector.situation);
                    if seen.insert(all.replace(|c: char| c.is_ascii_digit(), "")) {
                        vectors.push(serde_json::to_string(&vector)?);
                    }
                }
            }
        }
    }
    for (why, count) in left {
        eprintln!("recordings: {count} left out: {why}");
    }
    eprintln!("recordings: {} vectors", vectors.len());
    // Whoever closed stdout has had enough.
    let _ = writeln!(io::stdout(), "[\n{}\n]", vectors.join(",\n"));
    Ok(())
}

/// Every call that the model made, to the letter.
fn calls(recording: &Recording) -> Vec<(String, Box<RawValue>)> {
    let replies = recording.mock_replies.as_ref().map(|raw| raw.get()).unwrap_or("[]");
    let replies: Vec<Reply> = serde_json::from_str(replies).unwrap_or_default();
    let flat = replies.into_iter().flat_map(|mut reply| match reply.tools.take() {
        Some(tools) => tools,
        None => vec![reply],
    });
    flat.filter_map(|reply| Some((reply.tool?, reply.input?))).collect()
}

fn vector(
    id: String,
    stdin: &str,
    calls: &[(String, Box<RawValue>)],
    cli: &str,
) -> Result<Vector, &'static str> {
    let read: Map<String, Value> = serde_json::from_str(stdin).map_err(|_| "it is no JSON object")?;
    let text = |key: &str| read.get(key).and_then(Value::as_str).map(str::to_owned);
    let event = text("hook_event_name").ok_or("it names no event")?;
    let place = text("cwd").ok_or("it has no working directory")?;
    if read.contains_key("agent_type") && !read.contains_key("agent_id") {
        return Err("the whole session is an agent");
    }
    let mut situation = Map::new();
    let mut own =
        |key: &str, value: Option<Value>| situation.extend(value.map(|value| (key.to_owned(), value)));
    let mut out = read.clone();
    NEVER_SENT.iter().for_each(|key| drop(out.shift_remove(*key)));
    let put = |out: &mut Map<String, Value>, key: &str, value: &str| {
        if let Some(old) = out.get_mut(key) {
            *old = value.into();
        }
    };
    put(&mut out, "session_id", "{session}");
    put(&mut out, "transcript_path", "{transcript}");
    put(&mut out, "prompt_id", "{prompt}");
    put(&mut out, "permission_mode", "default");
    put(&mut out, "agent_id", "{agent}");
    put(&mut out, "agent_transcript_path", "{agent_transcript}");
    put(&mut out, "tool_use_id", "call-1");
    if let Some(took) = out.get_mut("duration_ms") {
        *took = MILLISECONDS.into();
    }
    own("agent_type", read.get("agent_type").cloned());
    if event != "SessionStart" && !read.contains_key("prompt_id") {
        own("no_prompt", Some(true.into()));
    }
    match &*event {
        "SessionStart" => {
            own("source", read.get("source").cloned());
            put(&mut out, "model", "M");
        }
        "UserPromptSubmit" => {
            // One word is somebody's; a sentence that nobody typed is the client's.
            let typed = |prompt: &String| !prompt.contains(' ') || cli.contains(&**prompt);
            if text("prompt").filter(typed).is_none_or(|prompt| prompt.trim_start().starts_with('<')) {
                return Err("the prompt is the client's own");
            }
            own("prompt", read.get("prompt").cloned());
        }
        "Stop" | "SubagentStop" => {
            let nothing = |key| read.get(key).and_then(Value::as_array).is_some_and(Vec::is_empty);
            if !nothing("background_tasks") || !nothing("session_crons") {
                return Err("something runs in the background");
            }
            own("stop_hook_active", read.get("stop_hook_active").cloned());
            own("last_assistant_message", read.get("last_assistant_message").cloned());
        }
        "SubagentStart" => {}
        "ConfigChange" => {
            own("source", read.get("source").cloned());
            own("file", read.get("file_path").cloned());
        }
        "SessionEnd" if text("reason").as_deref() == Some("other") => {}
        "SessionEnd" => return Err("no session ends for that reason here"),
        "Notification" => {
            let message = text("message").unwrap_or_default();
            let tool = message.strip_prefix(ASKS).ok_or("it tells of what does not happen here")?;
            own("tool", Some(tool.into()));
        }
        "StopFailure" => {
            let failure = text("error").ok_or("it names no failure")?;
            if !FAILURES.contains(&&*failure) {
                return Err("no turn fails in that way here");
            }
            put(&mut out, "last_assistant_message", OWN_WORDS);
            own("failure", Some(failure.into()));
            own("error", Some(OWN_WORDS.into()));
        }
        "PreCompact" => {
            put(&mut out, "trigger", "auto");
            // A person's, and none asks for a compaction here.
            out.insert("custom_instructions".into(), Value::Null);
        }
        "PostCompact" => {
            put(&mut out, "trigger", "auto");
            own("summary", read.get("compact_summary").cloned());
        }
        "PostToolBatch" => {
            let (all, them) = batch(&read, calls, &place)?;
            out.insert("tool_calls".into(), all.into());
            own("calls", Some(them.into()));
        }
        "PreToolUse" | "PermissionRequest" | "PermissionDenied" | "PostToolUse" | "PostToolUseFailure" => {
            let tool = text("tool_name").ok_or("it names no tool")?;
            own("tool", Some(tool.clone().into()));
            let input = read.get("tool_input").ok_or("it has no input")?;
            own("arguments", Some(arguments(&tool, input, calls, &place).into()));
            if event == "PostToolUse" {
                if !TOOLS.contains(&&*tool) && !tool.starts_with("mcp__") {
                    return Err("what the tool answers is the client's own");
                }
                own("response", read.get("tool_response").map(|value| value.to_string().into()));
            }
            if event == "PermissionDenied" {
                put(&mut out, "reason", OWN_WORDS);
                own("reason", Some(OWN_WORDS.into()));
            }
            if event == "PostToolUseFailure" {
                put(&mut out, "error", OWN_WORDS);
                own("error", Some(OWN_WORDS.into()));
                own("is_interrupt", read.get("is_interrupt").cloned());
            }
        }
        _ => return Err("its event is not among those that are made into vectors"),
    }
    let reads = in_place(&Value::from(out).to_string(), &place);
    // Only what the recording says beside numbers; JavaScript wrote those, and serde_json would write some anew.
    let reads = numbers_kept(stdin, reads, &read)? + "\n";
    let situation = placed(situation, &place);
    let all = format!("{reads}{situation:?}");
    if all.len() > LONGEST {
        return Err("it is long");
    }
    let prose = |at: usize| all[at + 1..].starts_with(|c: char| c.is_ascii_uppercase());
    if all.match_indices('{').any(|(at, _)| prose(at) && !all[at..].starts_with("{P}")) {
        return Err("it quotes the client");
    }
    Ok(Vector { id, event, situation, reads })
}

/// The calls of a step: as a hook reads them, with our names and words, and as a situation has them.
fn batch(
    read: &Map<String, Value>,
    made: &[(String, Box<RawValue>)],
    place: &str,
) -> Result<(Vec<Value>, Vec<Value>), &'static str> {
    let (mut reads, mut situation) = (Vec::new(), Vec::new());
    let all = read.get("tool_calls").and_then(Value::as_array).ok_or("it has no calls")?;
    for (n, call) in all.iter().enumerate() {
        let tool = call["tool_name"].as_str().ok_or("a call names no tool")?;
        let (answer, in_blocks) = match &call["tool_response"] {
            Value::String(text) => (text, false),
            Value::Array(blocks) => match &blocks[..] {
                [block] => (of_text(block).ok_or("a call answers in more than text")?, true),
                _ => return Err("a call answers in more than one block"),
            },
            _ => return Err("a call has no answer"),
        };
        let refused = answer.starts_with(NOT_ACCEPTED);
        // A server's words are nobody's but its own, and one word is somebody's; what else there is, the client may have said.
        let data = !refused && (tool.starts_with("mcp__") && in_blocks || !answer.contains(' '));
        let answer = if data { &**answer } else { OWN_WORDS };
        let mut ours = Map::new();
        ours.insert("tool".into(), tool.into());
        ours.insert("arguments".into(), arguments(tool, &call["tool_input"], made, place).into());
        ours.insert("response".into(), answer.into());
        if refused {
            ours.insert("refused".into(), true.into());
        } else if !in_blocks && (tool.starts_with("mcp__") || tool == "Agent") {
            ours.insert("failed".into(), true.into());
        }
        let mut reading = call.clone();
        reading["tool_use_id"] = format!("call-{}", n + 1).into();
        match in_blocks {
            true => reading["tool_response"][0]["text"] = answer.into(),
            false => reading["tool_response"] = answer.into(),
        }
        reads.push(reading);
        situation.push(ours.into());
    }
    Ok((reads, situation))
}

/// The text of a block that has no more than that.
fn of_text(block: &Value) -> Option<&String> {
    let block = block.as_object()?;
    match (block.len(), block.get("type")?.as_str()?, block.get("text")?) {
        (2, "text", Value::String(text)) => Some(text),
        _ => None,
    }
}

/// The arguments as the model wrote them, if that is in the recording; else as the hook read them.
fn arguments(tool: &str, read: &Value, calls: &[(String, Box<RawValue>)], place: &str) -> String {
    let keys = |value: &Value| value.as_object().map(|all| all.keys().cloned().collect::<HashSet<_>>());
    let fits = |raw: &str| {
        let Ok(wrote) = serde_json::from_str::<Value>(raw) else { return false };
        let (Some(had), Some(has)) = (keys(&wrote), keys(read)) else { return false };
        let same = |key: &String| {
            let (before, after) = (&wrote[key], &read[key]);
            // A path is made absolute on its way.
            let made_absolute =
                after.as_str().is_some_and(|after| after.starts_with(place)) && key == "file_path";
            before.is_number() || before.is_object() || made_absolute || before == after
        };
        had.is_subset(&has) && had.iter().all(same)
    };
    let found = calls.iter().find(|(name, raw)| name == tool && fits(raw.get()));
    found.map_or_else(|| read.to_string(), |(_, raw)| raw.get().to_owned())
}

fn in_place(text: &str, place: &str) -> String {
    text.replace(place, "{P}")
}

/// The same in every text of a situation.
fn placed(situation: Map<String, Value>, place: &str) -> Map<String, Value> {
    let each = |value| match value {
        Value::String(text) => in_place(&text, place).into(),
        Value::Array(all) => all
            .into_iter()
            .map(|one| match one {
                Value::Object(one) => placed(one, place).into(),
                other => other,
            })
            .collect(),
        other => other,
    };
    situation.into_iter().map(|(key, value)| (key, each(value))).collect()
}

/// Refuses what this program would not write as JavaScript did.
fn numbers_kept(stdin: &str, reads: String, read: &Map<String, Value>) -> Result<String, &'static str> {
    let anew = Value::from(read.clone()).to_string();
    match anew == stdin.trim_end_matches('\n') {
        true => Ok(reads),
        false => {
            // One value that is written otherwise: the input's, which stands in the recording to the letter.
            let find = |text: &str| {
                let at = text.find("\"tool_input\":")?;
                let end = at + text[at..].find(",\"tool_use_id\"")?;
                Some(text[at..end].to_owned())
            };
            match (find(stdin), find(&anew), find(&reads)) {
                (Some(theirs), Some(again), Some(ours))
                    if anew.replacen(&again, &theirs, 1) == stdin.trim_end_matches('\n') =>
                {
                    Ok(reads.replacen(&ours, &theirs, 1))
                }
                _ => Err("its numbers would be written otherwise"),
            }
        }
    }
}
