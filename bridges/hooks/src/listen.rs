//! Does a handler's work once, and takes down what came of it.

use crate::{
    answer::{Answer, Heard},
    ask::{self, Opinion, Unheard},
    background, dialect,
    explain::At,
    hook::{Hook, Work},
    http,
    records::{Answered, Invoked, head},
    run::{self, Job, Program},
    tool::McpCall,
};
use portcullis_process::{Ending, Finished, Permits, SpawnError, Status};
use portcullis_runtime::{OwnRecord, Scene};
use std::{
    future::{Future, ready},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;
use tracing::Instrument;

/// What came of a handler's work.
pub(crate) enum Ran {
    /// A process ended, or could not be started.
    Process(Result<Finished, SpawnError>),
    /// A question was put.
    Asked(Opinion),
    /// A server was asked, or a tool.
    Told(Told),
    /// A process in the background was ended at the limit that it had set itself.
    LetGo {
        /// The limit.
        limit: Duration,
    },
}

/// A text from elsewhere.
pub(crate) struct Told {
    status: Option<u16>,
    cut: bool,
    said: Result<String, Unheard>,
    took: Duration,
}

impl Told {
    /// Waits for it, up to a limit.
    async fn by(
        limit: Duration,
        work: impl Future<Output = Result<(String, Option<u16>, bool), (String, Option<u16>)>>,
    ) -> Told {
        let from = Instant::now();
        let (said, status, cut) = match tokio::time::timeout(limit, work).await {
            Err(_) => (Err(Unheard::TimedOut), None, false),
            Ok(Ok((text, status, cut))) => (Ok(text), status, cut),
            Ok(Err((why, status))) => (Err(Unheard::Failed(why)), status, false),
        };
        Told { status, cut, said, took: from.elapsed() }
    }
}

impl Hook {
    /// Makes the transcript what the log is; why it could not be. What hooks cannot read is no reason not to run them.
    pub(crate) async fn catch_up(&self, scene: &Scene) -> Option<String> {
        let caught_up = self.house.transcripts.catch_up(&scene.session).await;
        caught_up.err().map(|trouble| {
            tracing::warn!(session = %scene.session.id, %trouble, "a hook finds its transcript behind the log");
            trouble.to_string()
        })
    }

    /// Does the work to its end, unless it goes into the background: then nothing.
    pub(crate) async fn listen(&self, scene: &Scene, subject: &str, stdin: Vec<u8>) -> Option<Ran> {
        let permits = self.house.permits.clone();
        let Work::Process(program) = &self.work else { return Some(self.work(scene, stdin, permits).await) };
        if !self.house.dialect.lets_go() {
            return Some(self.process(program, scene, stdin, permits, None).await);
        }
        let (tell, told) = oneshot::channel();
        let mut running = Box::pin(self.process(program, scene, stdin, permits, Some(tell)));
        let ran = tokio::select! {
            biased;
            ran = &mut running => ran,
            Ok(line) = told => match background::goes(&line) {
                None => running.await,
                Some(limit) => {
                    background::let_go(self.clone(), scene.clone(), subject, limit, running);
                    return None;
                }
            },
        };
        match &ran {
            Ran::Process(Ok(finished)) if background::had_gone(finished) => {
                background::let_go(self.clone(), scene.clone(), subject, None, ready(ran));
                None
            }
            _ => Some(ran),
        }
    }

    /// Reads what came of it. `behind`: its transcript was, and why; `at`: what it is about, unless that is over.
    pub(crate) async fn heard(
        &self,
        scene: &Scene,
        subject: String,
        ran: Ran,
        behind: Option<&str>,
        at: Option<At<'_>>,
    ) -> Heard {
        let (dialect, terms) = (self.house.dialect, self.terms());
        let mut answer = match (&ran, &self.work) {
            (Ran::Asked(opinion), Work::Ask(ask)) => terms.judged(ask, opinion),
            (Ran::Asked(_), _) => Answer::default(),
            (Ran::Told(told), _) => match &told.said {
                Ok(text) => dialect.told(terms, text, told.cut),
                Err(unheard) => terms.unheard(unheard),
            },
            (Ran::Process(ran), _) => dialect.read(terms, ran),
            (Ran::LetGo { .. }, _) => terms.unheard(&Unheard::TimedOut),
        };
        if let Some(at) = at {
            dialect.consider(&mut answer, at, self.house.style());
        }
        let records = self.records(&ran, &answer, behind);
        if self.house.shadow {
            answer = answer.in_shadow();
        }
        dialect.bound(&mut answer, &self.definition, scene, self.house.transcripts.folder()).await;
        self.says(subject, answer, records)
    }

    fn process(
        &self,
        program: &Program,
        scene: &Scene,
        stdin: Vec<u8>,
        permits: Option<Permits>,
        first_line: Option<oneshot::Sender<Vec<u8>>>,
    ) -> impl Future<Output = Ran> + Send + 'static {
        let (house, limit) = (&*self.house, self.definition.timeout);
        let cwd = dialect::directory(scene, &house.project);
        let (env, exports) = (self.variables(scene, &cwd), self.exports(scene));
        let exports = exports.map(|file| (house.exports.clone(), file));
        let (program, manner) = (program.clone(), house.manner.clone());
        let job = Job { program, manner, env, cwd, stdin, limit, permits, first_line };
        let span = tracing::debug_span!("hook", handler = %self.id);
        let work = async move {
            if let Some((exports, file)) = exports {
                exports.make_room(&file).await;
            }
            Ran::Process(run::run(job).await)
        };
        work.instrument(span)
    }

    pub(crate) async fn work(&self, scene: &Scene, stdin: Vec<u8>, permits: Option<Permits>) -> Ran {
        let (house, limit) = (&*self.house, self.definition.timeout);
        match &self.work {
            Work::Process(program) => self.process(program, scene, stdin, permits, None).await,
            Work::Post(post) => {
                let cwd = dialect::directory(scene, &house.project);
                let env = self.variables(scene, &cwd);
                let request = post.request(&stdin, &house.bounds, &env);
                let work = async {
                    let answer = http::post(request).await.map_err(|why| (why, None))?;
                    match answer.status {
                        200..=299 => Ok((answer.body, Some(answer.status), answer.cut)),
                        status => Err((format!("HTTP {status} from {}", post.url), Some(status))),
                    }
                };
                Ran::Told(Told::by(limit, work).await)
            }
            Work::Tool(called) => {
                let work = async {
                    let failed = |why: String| (why, None);
                    let arguments = called.arguments(&stdin).map_err(failed)?;
                    let tools =
                        house.tools.as_ref().ok_or_else(|| failed("there are no MCP servers".into()))?;
                    let (server, tool) = (called.server.clone(), called.tool.clone());
                    let answer = tools.call(McpCall { scene: scene.clone(), server, tool, arguments }).await;
                    let answer = answer.map_err(failed)?;
                    // No more than of a server's answer, or of what a command prints.
                    let text = head(&answer.text, http::BODY);
                    let cut = text.len() < answer.text.len();
                    if answer.error { Err(failed(text.into())) } else { Ok((text.into(), None, cut)) }
                };
                Ran::Told(Told::by(limit, work).await)
            }
            Work::Ask(ask) => {
                let from = (house.advisor.as_ref(), &*house.questions);
                Ran::Asked(ask::ask(ask, self.definition.event, (scene, &self.id), &stdin, limit, from).await)
            }
        }
    }

    fn records(&self, ran: &Ran, answer: &Answer, behind: Option<&str>) -> Vec<OwnRecord> {
        let (dialect, event, handler) =
            (self.house.dialect.name(), self.definition.event.name(), &*self.id.handler);
        let written = &self.definition.written;
        let line = written.line();
        let invoked = Invoked {
            dialect,
            event,
            handler,
            kind: Some(written.kind()).filter(|kind| *kind != "command"),
            command: Some(&line),
            matcher: self.definition.matcher_text.as_deref(),
        };
        let mut result = Answered {
            dialect,
            event,
            handler,
            decision: if answer.spoken.is_empty() { "none" } else { answer.spoken },
            error: answer.failure.as_deref(),
            message: answer.message.as_deref(),
            unused: &answer.unused,
            shadow: self.house.shadow.then(|| answer.would()),
            transcript: behind,
            ..Answered::default()
        };
        let stderr;
        match ran {
            Ran::Process(Ok(finished)) => {
                match finished.status {
                    Status::Code(code) => result.exit = Some(code),
                    Status::Signal(signal) => result.signal = Some(signal),
                    Status::Unknown => {}
                }
                result.ms = millis(finished.took);
                result.timed_out = finished.ending == Ending::TimedOut;
                result.cut = finished.stdout.is_cut() || finished.stderr.is_cut();
                stderr = finished.stderr.text();
                result.stderr = &stderr;
            }
            Ran::Process(Err(_)) => {}
            Ran::LetGo { limit } => {
                result.ms = millis(*limit);
                result.timed_out = true;
            }
            Ran::Told(told) => {
                result.ms = millis(told.took);
                result.status = told.status;
                result.cut = told.cut;
                result.timed_out = matches!(told.said, Err(Unheard::TimedOut));
            }
            Ran::Asked(opinion) => {
                result.ms = millis(opinion.took);
                match &opinion.said {
                    Ok(advice) => {
                        result.said = Some(&advice.text);
                        result.model = Some(&advice.model);
                        result.usage = advice.usage.as_ref();
                        result.agent = advice.agent.as_ref();
                    }
                    Err(unheard) => result.timed_out = matches!(unheard, Unheard::TimedOut),
                }
            }
        }
        invoked.record().into_iter().chain(result.record()).collect()
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
