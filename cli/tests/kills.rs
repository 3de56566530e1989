//! C-DUR-2, 8 with real processes: what a command, a handler that runs once and a turn that ends its process come to when the
//! process is killed by SIGKILL. Each scene is played by this program in another role, again and again until it is over.

use portcullis::{
    Answer, Batch, Body, Cancelled, Cause, CommandId, EndReason, Finish, Frozen, Gate, Journal, JournalError,
    Message, Model, ModelError, ModelEvent, ModelRequest, Output, Ownership, Record, Runtime, Seq, Session,
    SessionId, SessionOptions, Ticket, Tool, ToolSpec, journal::Around, law, raw_tool, sqlite::SqliteJournal,
};
use rustix::process::{Signal, getpid, kill_process};
use std::{
    env, fs, future::IntoFuture, io::Write, os::unix::process::ExitStatusExt, path::Path, process::Command,
    sync::Arc, thread, time::Duration,
};

const SCENE: &str = "PORTCULLIS_KILLS_SCENE";
const DIR: &str = "PORTCULLIS_KILLS_DIR";

/// Nothing here waits for time to pass; this is for what would never come.
const NEVER: Duration = Duration::from_secs(60);

fn die() -> ! {
    kill_process(getpid(), Signal::KILL).unwrap();
    loop {
        thread::park();
    }
}

/// A journal that takes its process down once the first record of this type that a command caused is on disk.
#[derive(Clone)]
struct Deadly {
    inner: SqliteJournal,
    deadly: Option<&'static str>,
}

impl Around for Deadly {
    type Inner = SqliteJournal;

    fn inner(&self) -> &SqliteJournal {
        &self.inner
    }

    fn on_append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError> {
        let caused = |r: &Arc<Record>| r.key.is_some() && Some(r.body.kind()) == self.deadly;
        let dies = batch.records.iter().any(caused);
        let ticket = self.inner.append(own, batch)?;
        if dies {
            let patient = (0..60_000).any(|_| {
                ticket.is_durable() || {
                    thread::sleep(Duration::from_millis(1));
                    false
                }
            });
            assert!(patient, "the journal does not write");
            die();
        }
        Ok(ticket)
    }
}

/// Answers each prompt but `plain` with one call of the tool that it names, and results with `done`.
struct Names;

impl Model for Names {
    fn name(&self) -> Arc<str> {
        "names".into()
    }

    fn respond(
        &self,
        request: ModelRequest,
    ) -> futures::stream::BoxStream<'static, Result<ModelEvent, ModelError>> {
        let tool = match request.messages.last() {
            Some(Message::User { content, .. }) => Some(content.to_text().into_owned()),
            _ => None,
        };
        let events = match tool.filter(|tool| tool != "plain") {
            Some(name) => vec![
                Ok(ModelEvent::CallStart { id: "c".into(), name }),
                Ok(ModelEvent::CallText("{}".into())),
                Ok(ModelEvent::Finish(Finish::Calls)),
            ],
            None => vec![Ok(ModelEvent::Text("done".into())), Ok(ModelEvent::Finish(Finish::Stop))],
        };
        Box::pin(futures::stream::iter(events))
    }
}

/// Writes a line into `ran.log`, on disk before it returns.
fn note(dir: &Path, line: &str) {
    let mut file = fs::File::options().create(true).append(true).open(dir.join("ran.log")).unwrap();
    writeln!(file, "{line}").unwrap();
}

fn noted(dir: &Path, line: &str) -> usize {
    let text = fs::read_to_string(dir.join("ran.log")).unwrap_or_default();
    text.lines().filter(|noted| *noted == line).count()
}

fn tools(dir: &Path) -> Vec<Arc<dyn Tool>> {
    let spec =
        |name: &str| ToolSpec::new(name, "A tool.", Frozen::parse(r#"{"type":"object"}"#).unwrap()).unwrap();
    let (bomb, echo) = (dir.to_owned(), dir.to_owned());
    let bomb = raw_tool(spec("Bomb").idempotent(), async move |_, _| {
        note(&bomb, "bomb");
        die()
    });
    let echo = raw_tool(spec("Echo"), async move |_, _| {
        note(&echo, "echo");
        Ok(Output::text("a word"))
    });
    vec![Arc::new(bomb), Arc::new(echo)]
}

async fn open(dir: &Path, deadly: Option<&'static str>) -> (Runtime, Session) {
    let inner = SqliteJournal::open(dir.join("journal.db")).unwrap();
    let once = dir.to_owned();
    let runtime = Runtime::builder(Names)
        .journal(Deadly { inner, deadly })
        .tools(tools(dir))
        .policy("house", move |at| {
            at.tools("Echo", |at| {
                at.pre_execute("asks", async |_| Gate::ask("sure?"));
            });
            at.once(|at| {
                at.prompt_submit("charges", move |submitted: portcullis::Submitted| {
                    let once = once.clone();
                    async move {
                        if submitted.content.to_text().contains("charge") {
                            note(&once, "charged");
                            die();
                        }
                        portcullis::Submit::allow()
                    }
                });
            });
        })
        .arbiters(1)
        .start()
        .await
        .unwrap();
    let session = runtime.open("s", SessionOptions::new(dir).approvals()).await.unwrap();
    (runtime, session)
}

async fn log(dir: &Path) -> Vec<Arc<Record>> {
    let journal = SqliteJournal::read_only(dir.join("journal.db")).unwrap();
    journal.read(&SessionId::new("s").unwrap(), Seq(0), usize::MAX).await.unwrap()
}

fn count(log: &[Arc<Record>], kind: &str) -> usize {
    log.iter().filter(|r| r.body.kind() == kind).count()
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(NEVER, work).await.expect("an answer in time")
}

/// Until nothing is owed.
async fn rest(dir: &Path) {
    within(async {
        while law::State::fold(&log(dir).await).unwrap().next(None) != law::Next::Idle {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn asked(session: &Session) -> portcullis::Ask {
    within(async {
        loop {
            if let Some(ask) = session.asks().into_iter().next() {
                return ask;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

fn name(text: &str) -> CommandId {
    CommandId::new(text).unwrap()
}

/// Starts this program in its other role. True when it was killed, false when it came to its end.
fn was_killed(dir: &Path, scene: &str) -> bool {
    let status = Command::new(env::current_exe().unwrap()).env(SCENE, scene).env(DIR, dir).status().unwrap();
    let killed = status.signal() == Some(Signal::KILL.as_raw());
    assert!(killed || status.success(), "{scene}: {status}");
    killed
}

/// What the other role does.
async fn play(dir: &Path, scene: &str) {
    match scene {
        "bomb" | "charge" => {
            let (runtime, session) = open(dir, None).await;
            let prompt = if scene == "bomb" { "Bomb" } else { "please charge" };
            let ended =
                within(session.command(name("first")).prompt(prompt)).await.unwrap().into_future().await;
            println!("{scene}: {ended}");
            runtime.shutdown(NEVER).await;
        }
        "prompt" => {
            let (_runtime, session) = open(dir, Some("prompt/queued")).await;
            let _sent = session.command(name("p")).prompt("plain").await;
        }
        "answer" => {
            let (_runtime, session) = open(dir, Some("input/resolved")).await;
            let _turn = session.prompt("Echo").await.unwrap();
            let _told = session.command(name("a")).answer(&asked(&session).await, Answer::Allow).await;
        }
        "cancel" => {
            let (_runtime, session) = open(dir, Some("turn/cancelled")).await;
            let _turn = session.prompt("Echo").await.unwrap();
            asked(&session).await;
            let _told = session.command(name("c")).cancel(Cause::User).await;
        }
        other => panic!("no scene {other}"),
    }
}

// C-DUR-8: killed between the record of a command and its acknowledgement, whoever sends it again gets that outcome.
async fn commands() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(was_killed(dir, "prompt"), "before its acknowledgement");
    let (runtime, session) = open(dir, None).await;
    let turn = within(session.command(name("p")).prompt("plain")).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    runtime.shutdown(NEVER).await;
    let records = log(dir).await;
    assert_eq!((count(&records, "prompt/queued"), count(&records, "turn/end")), (1, 1));

    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(was_killed(dir, "answer"), "before its acknowledgement");
    let (runtime, session) = open(dir, None).await;
    let asked_before = log(dir).await.iter().find_map(|r| match &r.body {
        Body::InputRequested(asked) => Some(asked.request.clone()),
        _ => None,
    });
    rest(dir).await;
    // It is not waiting any more; whoever gave the answer still has the question as it was shown.
    let turn = session.prompt("Echo").await.unwrap();
    let mut ask = asked(&session).await;
    let second = ask.clone();
    ask.id = asked_before.expect("it asked");
    within(session.command(name("a")).answer(&ask, Answer::Allow)).await.unwrap();
    within(session.answer(&second, Answer::Refuse(None))).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    runtime.shutdown(NEVER).await;
    assert_eq!(noted(dir, "echo"), 1, "allowed once");
    assert_eq!(count(&log(dir).await, "input/resolved"), 2);

    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(was_killed(dir, "cancel"), "before its acknowledgement");
    let (runtime, session) = open(dir, None).await;
    rest(dir).await;
    let turn = session.prompt("Echo").await.unwrap();
    let ask = asked(&session).await;
    assert_eq!(within(session.command(name("c")).cancel(Cause::User)).await, Ok(Cancelled::Turn));
    within(session.answer(&ask, Answer::Allow)).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed, "a later turn was not meant");
    runtime.shutdown(NEVER).await;
    assert_eq!(count(&log(dir).await, "turn/cancelled"), 1);
}

// C-DUR-2: a handler that runs once was cut off by a kill: it counts as failed, and does not run again.
async fn once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(was_killed(dir, "charge"));
    assert_eq!((noted(dir, "charged"), count(&log(dir).await, "decision/begun")), (1, 1));
    assert!(!was_killed(dir, "charge"), "it does not run again");
    assert_eq!(noted(dir, "charged"), 1);
    let records = log(dir).await;
    let blocked = records.iter().filter_map(|r| r.body.decisions()).flat_map(|d| d.made).next();
    assert_eq!(blocked.and_then(|made| made.failure.clone()), Some(portcullis::Failure::CutOff));
    assert_eq!(count(&records, "prompt/blocked"), 1, "a gate that failed blocks its prompt");
    let (runtime, session) = open(dir, None).await;
    let turn = within(session.prompt("plain")).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed, "the next decision is another one");
    runtime.shutdown(NEVER).await;
}

// C-DUR-8: a body that ends its process whenever it is run again: after three times in recovery the turn is given up.
async fn poison() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let kills = (0..10).take_while(|_| was_killed(dir, "bomb")).count();
    assert_eq!((kills, noted(dir, "bomb")), (4, 4), "once, and three times in recovery");
    let records = log(dir).await;
    let end = records.iter().find_map(|r| match &r.body {
        Body::TurnEnd(end) => Some(end.reason.clone()),
        _ => None,
    });
    assert_eq!(end, Some(EndReason::Interrupted));
    assert_eq!((count(&records, "tool/call"), count(&records, "tool/result")), (1, 1));
    let (runtime, session) = open(dir, None).await;
    let turn = within(session.prompt("plain")).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed, "the session lives");
    runtime.shutdown(NEVER).await;
    law::State::fold(&log(dir).await).unwrap();
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let (Ok(scene), Ok(dir)) = (env::var(SCENE), env::var(DIR)) {
        return runtime.block_on(play(Path::new(&dir), &scene));
    }
    // Whoever lists tests or picks some by name gets none: this is one program.
    if env::args().skip(1).any(|arg| arg == "--list") {
        return;
    }
    runtime.block_on(async {
        commands().await;
        println!("commands: killed before each acknowledgement, done once");
        once().await;
        println!("once: cut off, failed, not run again");
        poison().await;
        println!("poison: killed four times, then given up");
    });
}
