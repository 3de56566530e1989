//! Handlers of type `http` and `mcp_tool`: answers from elsewhere, read as what a command prints.

mod support;

use futures::future::BoxFuture;
use portcullis_hooks::{McpCall, McpText, McpTools, OnFailure};
use portcullis_runtime::*;
use std::{
    future::pending,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};
use support::{Project, gate};

/// First line, headers, body.
type Request = (String, Vec<String>, String);

/// A server on this machine that gives one answer to everything, and what it was sent: first line, headers, body.
struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn answering(status: &str, body: &str) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::default());
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nlocation: /elsewhere\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let log: Arc<Mutex<Vec<_>>> = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let request = read(&stream);
                log.lock().unwrap().push(request);
                // A client that has gone has its answer.
                let _ = (&stream).write_all(answer.as_bytes());
            }
        });
        Server { port, seen }
    }

    /// Answers with these bytes, and then with this one until nobody listens any more.
    fn sending(bytes: &[u8], endless: Option<u8>) -> (Server, mpsc::Receiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (bytes, (left, gone)) = (bytes.to_vec(), mpsc::channel());
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                read(&stream);
                let _ = stream.write_all(&bytes);
                while endless.is_some_and(|byte| stream.write_all(&[byte; 64 * 1024]).is_ok()) {}
                let _ = left.send(());
            }
        });
        (Server { port, seen: Arc::default() }, gone)
    }

    fn settings(&self, event: &str, fields: &str) -> String {
        format!(
            r#"{{"hooks":{{"{event}":[{{"hooks":[{{"type":"http","url":"http://127.0.0.1:{}/hook"{fields}}}]}}]}}}}"#,
            self.port
        )
    }

    fn project(&self, event: &str, fields: &str) -> Project {
        Project::new(&self.settings(event, fields))
    }

    fn one(&self) -> Request {
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.len(), 1);
        seen[0].clone()
    }
}

fn read(stream: &TcpStream) -> Request {
    let mut lines = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let headers: Vec<String> = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty())).collect();
    let length = headers.iter().find_map(|h| h.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    lines.read_exact(&mut body).unwrap();
    (first, headers, String::from_utf8(body).unwrap())
}

const DENY: &str = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}"#;

// C-BRIDGE-1: the event's JSON without a line's end, as JSON; the body of the answer is what a command prints.
#[test]
fn the_event_is_posted_and_the_answer_decides() {
    let server = Server::answering("200 OK", DENY);
    let project = server.project("PreToolUse", "");
    let seen = project.pre("Bash", r#"{"command":"ls"}"#);
    assert_eq!(gate(&seen.decisions[0]), ("deny", Some("PreToolUse:Bash hook error: no")));
    assert_eq!((seen.results[0].decision.as_str(), seen.results[0].status), ("deny", Some(200)));
    assert_eq!(seen.invoked[0].command.as_deref(), Some(&*format!("http://127.0.0.1:{}/hook", server.port)));
    let (first, headers, body) = server.one();
    assert_eq!(first, "POST /hook HTTP/1.1");
    assert!(headers.iter().any(|header| header.eq_ignore_ascii_case("content-type: application/json")));
    assert!(body.starts_with("{\"session_id\"") && body.ends_with('}'), "{body}");
    assert!(body.contains(r#""tool_input":{"command":"ls"}"#));
    assert!(project.reports().is_empty());
}

#[test]
fn the_answers_of_other_events_mean_what_they_mean_there() {
    let context = r#"{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"HC"}}"#;
    let seen = Server::answering("200 OK", context).project("UserPromptSubmit", "").submit("hello");
    assert_eq!(seen.context, ["UserPromptSubmit hook additional context: HC"]);
    let seen = Server::answering("201 Created", " plain\n").project("UserPromptSubmit", "").submit("hello");
    assert_eq!(seen.context, ["UserPromptSubmit hook success: plain"]);
    let empty = Server::answering("204 No Content", "").project("PreToolUse", "").pre("Bash", "{}");
    assert_eq!((gate(&empty.decisions[0]), empty.failures.len()), (("none", None), 0));
    let block = Server::answering("200 OK", r#"{"decision":"block","reason":"again"}"#);
    let seen = block.project("PostToolUse", "").post("Bash", "{}", Outcome::completed("x"));
    let url = format!("http://127.0.0.1:{}/hook", block.port);
    assert_eq!(
        seen.context,
        [format!("PostToolUse:Bash hook blocking error from command: \"{url}\": again")]
    );
}

// C-BRIDGE-3: anything but 2xx, no server, broken JSON: the hook failed, and decides nothing unless it says so.
#[test]
fn what_is_no_answer_decides_nothing() {
    let refused = {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Server { port, seen: Arc::default() }
    };
    for (server, why, status) in [
        (Server::answering("500 Oh", DENY), "HTTP 500 from http://127.0.0.1", Some(500)),
        (Server::answering("302 Found", DENY), "HTTP 302", Some(302)),
        (Server::answering("200 OK", r#"{"decision":"bloc"}"#), "does not count", Some(200)),
        (refused, "refused", None),
    ] {
        let seen = server.project("PreToolUse", "").pre("Bash", "{}");
        assert_eq!(gate(&seen.decisions[0]), ("none", None), "{why}");
        assert!(seen.failures[0].contains(why), "{:?}", seen.failures);
        assert_eq!(seen.results[0].status, status, "{why}");
        assert!(server.seen.lock().unwrap().len() < 2, "no redirect is followed");
        let seen = server.project("PreToolUse", r#","onFailure":"block""#).pre("Bash", "{}");
        let (word, reason) = gate(&seen.decisions[0]);
        assert_eq!(word, "deny", "{why}");
        assert!(reason.unwrap().contains("blocking because onFailure is \"block\""), "{reason:?}");
    }
}

// Only listed variables get into headers, and none adds a header of its own.
#[test]
fn headers_have_the_variables_they_may_have() {
    let server = Server::answering("200 OK", "");
    let fields = r#","headers":{"X-A":"v-$HOOK_A","X-B":"${HOOK_B}","X-C":"$HOOK_C."},"allowedEnvVars":["HOOK_A","HOOK_C"]"#;
    let project = server
        .project("PreToolUse", fields)
        .options(|options| options.env("HOOK_A", "a").env("HOOK_B", "b").env("HOOK_C", "c\r\nX-D: d"));
    project.pre("Bash", "{}");
    let headers = server.one().1;
    let value = |name: &str| {
        let named = |header: &&String| header.to_lowercase().starts_with(&format!("{name}:"));
        headers.iter().find(named).map(|header| header[name.len() + 1..].trim().to_owned())
    };
    assert_eq!(value("x-a").as_deref(), Some("v-a"));
    assert_eq!(value("x-b").as_deref(), Some(""));
    assert_eq!(value("x-c").as_deref(), Some("cX-D: d."));
    assert_eq!(value("x-d"), None);
    let reports = project.reports();
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].code, "hooks/unlisted-variable");
    assert!(reports[0].message.contains("$HOOK_B"));
}

// The settings' own lists bound every layer's hooks.
#[test]
fn settings_bound_addresses_and_variables() {
    let server = Server::answering("200 OK", DENY);
    let with = |lists: &str| {
        let fields = r#","headers":{"X-A":"$HOOK_A"},"allowedEnvVars":["HOOK_A"]"#;
        let settings = server.settings("PreToolUse", fields);
        let settings = format!("{},{lists}}}", settings.strip_suffix('}').unwrap());
        Project::new(&settings).options(|options| options.env("HOOK_A", "a"))
    };
    for lists in [r#""allowedHttpHookUrls":["https://*"]"#, r#""allowedHttpHookUrls":[]"#] {
        let project = with(lists);
        assert_eq!(project.reports()[0].code, "hooks/handler-not-run", "{lists}");
        assert!(project.pre("Bash", "{}").decisions.is_empty());
    }
    let broken = with(r#""allowedHttpHookUrls":"http://*""#);
    assert_eq!(broken.reports()[0].code, "hooks/bad-list");
    assert!(broken.pre("Bash", "{}").decisions.is_empty());
    let project = with(r#""allowedHttpHookUrls":["http://127.0.0.1:*"],"httpHookAllowedEnvVars":["OTHER"]"#);
    assert_eq!(gate(&project.pre("Bash", "{}").decisions[0]).0, "deny");
    assert!(server.one().1.iter().any(|header| header.to_lowercase().trim_end() == "x-a:"));
}

// C-BRIDGE-7
#[test]
fn a_server_that_says_nothing_is_left_at_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (left, gone) = mpsc::channel();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        read(&stream);
        // The client closes its end.
        let _ = left.send((&stream).read(&mut [0]).map_or(0, |n| n));
    });
    let server = Server { port, seen: Arc::default() };
    let seen = server.project("PreToolUse", r#","timeout":0.2"#).pre("Bash", "{}");
    assert_eq!(gate(&seen.decisions[0]), ("none", None));
    assert!(seen.results[0].timed_out);
    assert_eq!(gone.recv_timeout(Duration::from_secs(30)).unwrap(), 0);
}

// C-BRIDGE-7: of a body without an end so much is read as a command may print, and the server is left.
#[test]
fn a_body_without_an_end_is_left() {
    for first in ["{", "plain"] {
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{first}");
        let (server, gone) = Server::sending(head.as_bytes(), Some(b' '));
        let seen = server.project("PreToolUse", r#","timeout":60"#).pre("Bash", "{}");
        assert_eq!(gate(&seen.decisions[0]), ("none", None), "{first}");
        assert!(seen.results[0].cut && !seen.results[0].timed_out, "{first}");
        let failed = seen.failures.iter().any(|why| why.contains("more than is kept"));
        assert_eq!(failed, first == "{", "{:?}", seen.failures);
        gone.recv_timeout(Duration::from_secs(30)).unwrap();
    }
}

// C-BRIDGE-3: what is no HTTP, what ends before its end, and what is no UTF-8.
#[test]
fn garbage_decides_nothing() {
    let half = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{DENY}", DENY.len() + 1);
    for garbage in [&b"\x00\xff\xfe\r\n\r\n"[..], b"", b"HTTP/1.1 200 OK\r\nno header", half.as_bytes()] {
        let (server, _gone) = Server::sending(garbage, None);
        let seen = server.project("PreToolUse", "").pre("Bash", "{}");
        assert_eq!((gate(&seen.decisions[0]), seen.failures.len()), (("none", None), 1), "{garbage:?}");
    }
    let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    let said = [&head[..], b"{\"decision\":\"block\",\"reason\":\"\xff!\"}"].concat();
    let (server, _gone) = Server::sending(&said, None);
    let seen = server.project("PreToolUse", "").pre("Bash", "{}");
    assert_eq!(gate(&seen.decisions[0]), ("deny", Some("PreToolUse:Bash hook error: \u{fffd}!")));
}

// One address is asked once, whatever the headers are.
#[test]
fn one_address_is_one_handler() {
    let server = Server::answering("200 OK", "");
    let handler =
        |fields: &str| format!(r#"{{"type":"http","url":"http://127.0.0.1:{}/x"{fields}}}"#, server.port);
    let (one, two, three) = (handler(""), handler(r#","headers":{"A":"b"}"#), handler(r#","if":"Bash""#));
    let settings = format!(r#"{{"hooks":{{"PreToolUse":[{{"hooks":[{one},{two},{three}]}}]}}}}"#);
    assert_eq!(Project::new(&settings).pre("Bash", "{}").decisions.len(), 2);
}

/// A server's tools: `echo` answers its argument `reply`.
#[derive(Clone, Default)]
struct Tools(Arc<Mutex<Vec<McpCall>>>);

impl McpTools for Tools {
    fn call(&self, call: McpCall) -> BoxFuture<'static, Result<McpText, String>> {
        self.0.lock().unwrap().push(call.clone());
        Box::pin(async move {
            let reply =
                call.arguments.root().get("reply").and_then(|reply| reply.as_str().map(|r| r.into_owned()));
            match &*call.tool {
                "echo" => Ok(McpText::new(reply.unwrap_or_default())),
                "flood" => Ok(McpText::new(format!("{{{}}}", " ".repeat(16 * 1024 * 1024)))),
                "broken" => Ok(McpText::failed("it broke")),
                "slow" => pending().await,
                other => Err(format!("there is no tool {other}")),
            }
        })
    }
}

fn with_tool(tool: &str, fields: &str) -> (Project, Tools) {
    let tools = Tools::default();
    let handler = format!(r#"{{"type":"mcp_tool","server":"srv","tool":"{tool}"{fields}}}"#);
    let settings = format!(r#"{{"hooks":{{"PreToolUse":[{{"matcher":"Bash","hooks":[{handler}]}}]}}}}"#);
    let project = Project::new(&settings).options(|options| options.mcp(tools.clone()));
    (project, tools)
}

// C-BRIDGE-1: the tool is called with what the event is about, and its text is read as stdout.
#[test]
fn a_tools_text_decides() {
    let reply = serde_json::to_string(DENY).unwrap();
    let input = format!(r#","input":{{"cmd":"${{tool_input.command}}","reply":{reply}}}"#);
    let (project, tools) = with_tool("echo", &input);
    let seen = project.pre("Bash", r#"{"command":"ls -l"}"#);
    assert_eq!(gate(&seen.decisions[0]), ("deny", Some("PreToolUse:Bash hook error: no")));
    assert_eq!(seen.invoked[0].command.as_deref(), Some("srv/echo"));
    let calls = tools.0.lock().unwrap();
    assert_eq!((calls.len(), &*calls[0].server, calls[0].scene.session.id.as_str()), (1, "srv", "s-1"));
    assert!(
        calls[0].arguments.text().starts_with(r#"{"cmd":"ls -l","reply":"#),
        "{}",
        calls[0].arguments.text()
    );
}

// C-BRIDGE-3, C-BRIDGE-7
#[test]
fn a_tool_that_gives_no_text_decides_nothing() {
    for (tool, fields, why) in [
        ("broken", "", "it broke"),
        ("none", "", "there is no tool none"),
        ("flood", "", "more than is kept"),
        ("slow", r#","timeout":0.05"#, "time limit"),
    ] {
        let (project, _) = with_tool(tool, fields);
        let seen = project.pre("Bash", "{}");
        assert_eq!(gate(&seen.decisions[0]), ("none", None), "{tool}");
        assert!(seen.failures[0].contains(why), "{:?}", seen.failures);
        let blocks = project.options(|options| options.on_failure(OnFailure::Block));
        assert_eq!(gate(&blocks.pre("Bash", "{}").decisions[0]).0, "deny", "{tool}");
    }
}

// C-BRIDGE-5
#[test]
fn a_tool_that_nobody_calls_is_reported() {
    let (project, _) = with_tool("echo", "");
    assert!(project.reports().is_empty());
    let alone = project.options(|_| portcullis_hooks::Options::new());
    let reports = alone.reports();
    assert_eq!((reports[0].code, reports[0].line), ("hooks/handler-not-run", Some(1)));
    assert!(reports[0].message.contains("MCP servers"));
    assert!(alone.pre("Bash", "{}").decisions.is_empty());
}

// A context that is too long is kept in a file, wherever it comes from.
#[test]
fn a_long_context_is_kept_in_a_file() {
    let long = "x".repeat(10_001);
    let context =
        format!(r#"{{"hookSpecificOutput":{{"hookEventName":"PostToolUse","additionalContext":"{long}"}}}}"#);
    let shown = |seen: support::Seen<Review>| {
        let [text] = &seen.context[..] else { panic!("{:?}", seen.context.len()) };
        let from = text.find("All of it is in: ").unwrap() + "All of it is in: ".len();
        let file = text[from..].lines().next().unwrap().to_owned();
        assert!(text.len() < 3_000 && text.contains("<persisted-output>"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), long);
    };
    let server = Server::answering("200 OK", &context);
    let post = || Outcome::completed("x");
    shown(server.project("PostToolUse", "").post("Bash", "{}", post()));
    let input = serde_json::to_string(&context).unwrap();
    let handler = format!(r#"{{"type":"mcp_tool","server":"s","tool":"echo","input":{{"reply":{input}}}}}"#);
    let settings = format!(r#"{{"hooks":{{"PostToolUse":[{{"hooks":[{handler}]}}]}}}}"#);
    let project = Project::new(&settings).options(|options| options.mcp(Tools::default()));
    shown(project.post("Bash", "{}", post()));
}

// Fields of another kind of handler are named and not looked at; those of every kind are.
#[test]
fn each_kind_has_its_fields() {
    let fields = [r#""shell":"fish""#, r#""async":1"#, r#""asyncRewake":true"#, r#""args":"x""#];
    let server = Server::answering("200 OK", "");
    for field in fields {
        let project = server.project("PreToolUse", &format!(",{field}"));
        let codes: Vec<_> = project.reports().into_iter().map(|report| report.code).collect();
        assert_eq!(codes, ["hooks/field-ignored"], "{field}");
        assert_eq!(project.pre("Bash", "{}").decisions.len(), 1, "{field}");
    }
    let (tool, _) = with_tool("echo", r#","onFailure":7"#);
    assert_eq!(tool.reports()[0].code, "hooks/field-ignored");
    assert_eq!(tool.pre("Bash", "{}").decisions.len(), 1);
    for field in
        [r#""statusMessage":1"#, r#""once":"yes""#, r#""if":{}"#, r#""timeout":0"#, r#""onFailure":1"#]
    {
        let project = server.project("PreToolUse", &format!(",{field}"));
        assert_eq!(project.reports()[0].code, "hooks/bad-entry", "{field}");
        assert!(project.pre("Bash", "{}").decisions.is_empty(), "{field}");
    }
    let project = server.project("PreToolUse", r#","statusMessage":"…","once":true,"if":"Bash(git *)""#);
    assert_eq!(project.reports()[0].code, "hooks/once");
    let ran = |command: &str| project.pre("Bash", &format!(r#"{{"command":"{command}"}}"#)).decisions.len();
    // `once` counts elsewhere only; `if` counts here.
    assert_eq!((ran("git push"), ran("git push"), ran("ls")), (1, 1, 0));
}
