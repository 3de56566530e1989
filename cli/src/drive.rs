//! Drives one session: sends the prompts, shows what happens, hands on answers and cancels.
//!
//! What it knows of the session it knows from the records, folded by the same law as the runtime's own.

use crate::{
    ask::{Channel, Desk},
    paint::Paint,
    script::Prompts,
    timeline::Timeline,
};
use futures::StreamExt;
use portcullis::{
    Answer, AnswerError, Ask, Body, Cause, CommandId, EndReason, Event, Events, Record, RequestId,
    Resolution, Session, Turn, encode,
    law::{Next, State},
};
use std::{
    cell::Cell,
    io::{self, Write},
    pin::pin,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often a reopened session is looked at for a question from before.
const LOOK: Duration = Duration::from_millis(50);

/// How the run ended.
#[derive(Debug)]
pub(crate) enum Fate {
    /// Each turn completed.
    Completed,
    /// This one, the first that did not complete, ended otherwise.
    Ended(u64, EndReason),
    /// These questions wait for whoever answers them; until then there is nothing to do.
    Waits(Vec<Ask>),
    /// It was left before it was over; why is not in the log.
    Left(String),
}

/// Where the records go.
pub(crate) enum Sink {
    Timeline(Box<Timeline>),
    Json,
}

impl Sink {
    /// `person` is how the one who answers questions is named.
    pub(crate) fn new(json: bool, session: &str, person: &'static str) -> Sink {
        if json {
            Sink::Json
        } else {
            Sink::Timeline(Box::new(Timeline::new(Paint::stdout(), session, person)))
        }
    }

    /// Something that stands in the log already: not shown again, but what comes after it is about it.
    pub(crate) fn recall(&mut self, record: &Record) {
        if let Sink::Timeline(timeline) = self {
            let _ = timeline.show(record);
        }
    }

    pub(crate) fn record(&mut self, record: &Record) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Sink::Timeline(timeline) => out.write_all(timeline.show(record).as_bytes())?,
            Sink::Json => writeln!(out, "{}", encode(record))?,
        }
        out.flush()
    }
}

/// SIGINT and SIGTERM, which cancel the turn.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Cause {
        tokio::select! {
            _ = self.interrupt.recv() => Cause::User,
            _ = self.terminate.recv() => Cause::Shutdown,
        }
    }
}

/// An answer to a question from before, bound to what that was about when the answer was given.
pub(crate) struct Given {
    pub(crate) request: RequestId,
    /// SHA-256 of the arguments, hexadecimal.
    pub(crate) digest: Arc<str>,
    pub(crate) answer: Answer,
    /// What it is called.
    pub(crate) command: Option<CommandId>,
}

/// Everything about the session that is being driven.
pub(crate) struct Drive {
    pub(crate) session: Session,
    pub(crate) channel: Channel,
    pub(crate) prompts: Prompts,
    /// What the log held before.
    pub(crate) law: State,
    /// A turn has begun since then.
    pub(crate) begun: bool,
    /// The answer to a question from before.
    pub(crate) given: Option<Given>,
    /// Set when it was not taken.
    pub(crate) late: Rc<Cell<bool>>,
    pub(crate) sink: Sink,
    pub(crate) signals: Signals,
}

impl Drive {
    /// To the end of the last turn.
    pub(crate) async fn run(self) -> Fate {
        let events = self.session.events(self.law.head());
        let mut driver = Driver {
            reopened: self.law.asks().len(),
            idle: !self.begun && matches!(self.law.next(None), Next::Idle),
            desk: Desk::new(),
            turn: None,
            bad: None,
            cancelled: None,
            lost: None,
            parked: Vec::new(),
            mute: false,
            of: self,
        };
        driver.run(events).await
    }
}

struct Driver {
    of: Drive,
    desk: Desk,
    /// Nothing is owed: a prompt may be sent.
    idle: bool,
    /// Questions from before that are not at the desk yet.
    reopened: usize,
    /// The turn of the last prompt sent.
    turn: Option<Turn>,
    /// The first end that was not `completed`.
    bad: Option<(u64, EndReason)>,
    cancelled: Option<Cause>,
    /// Why the session takes nothing more.
    lost: Option<String>,
    /// Questions that are left for later.
    parked: Vec<Ask>,
    /// Nobody reads stdout any more.
    mute: bool,
}

/// What there is to react to.
enum Happened {
    Event(Option<Event>),
    Answered(Ask, Answer),
    Signal(Cause),
    Look,
}

impl Driver {
    async fn run(&mut self, events: Events) -> Fate {
        let mut events = pin!(events);
        loop {
            if self.idle && (self.cancelled.is_some() || !self.send().await) {
                return self.fate();
            }
            if self.cancelled.is_none() && !self.parked.is_empty() && self.is_quiet() {
                return Fate::Waits(std::mem::take(&mut self.parked));
            }
            let happened = tokio::select! {
                event = events.next() => Happened::Event(event),
                (ask, answer) = self.desk.answer() => Happened::Answered(ask, answer),
                cause = self.of.signals.next() => Happened::Signal(cause),
                () = tokio::time::sleep(LOOK), if self.reopened > 0 => Happened::Look,
            };
            match happened {
                Happened::Event(Some(Event::Record(record))) => self.record(&record),
                Happened::Event(Some(Event::Ask(ask))) => self.asked(ask).await,
                Happened::Event(Some(Event::Ended) | None) => return self.gone().await,
                Happened::Event(Some(_)) => {}
                Happened::Answered(ask, answer) => self.answer(&ask, answer).await,
                Happened::Signal(cause) => {
                    if let Some(fate) = self.signal(cause) {
                        return fate;
                    }
                }
                Happened::Look => {
                    for ask in self.of.session.asks() {
                        self.reopened = self.reopened.saturating_sub(1);
                        self.asked(ask).await;
                    }
                }
            }
        }
    }

    /// No body runs: leaving now cuts nothing off.
    fn is_quiet(&self) -> bool {
        self.of.law.open_calls().all(|(path, _)| self.of.law.running(path).is_none())
    }

    /// Sends the next prompt; false when there is none left or none is taken.
    async fn send(&mut self) -> bool {
        let Some(prompt) = self.of.prompts.take() else { return false };
        match self.of.session.prompt(prompt).await {
            Ok(turn) => {
                self.turn = Some(turn);
                self.idle = false;
                true
            }
            Err(error) => {
                self.lost = Some(error.to_string());
                false
            }
        }
    }

    fn record(&mut self, record: &Arc<Record>) {
        if let Body::TurnCancelled(_) = &record.body {
            self.desk.clear();
        }
        if !self.mute {
            // A reader that has gone does not end the work; the log and the exit code still tell how it went.
            self.mute = self.of.sink.record(record).is_err();
        }
        if let Err(invalid) = self.of.law.apply(record) {
            // The runtime folded it before it was written, so this is a defect; what was shown stands.
            eprintln!("portcullis: a record does not follow from those before it: {invalid}");
        }
        match &record.body {
            Body::Own(own) => self.desk.learn(own),
            Body::InputResolved(resolved) => {
                if self.of.given.take_if(|given| given.request == resolved.request).is_some() {
                    let expired = resolved.resolution == Resolution::Expired;
                    self.late(&if expired { AnswerError::Expired } else { AnswerError::Settled });
                }
                self.desk.settled(&resolved.request);
                self.parked.retain(|ask| ask.id != resolved.request);
            }
            Body::TurnEnd(end) => {
                if !end.reason.is_success() && self.bad.is_none() {
                    self.bad = Some((record.at.turn.unwrap_or_default(), end.reason.clone()));
                }
                // After these the script's next prompt would not mean what it was written for.
                let over = matches!(end.reason, EndReason::Aborted { .. } | EndReason::Error { .. });
                if over {
                    while self.of.prompts.take().is_some() {}
                }
                self.idle = matches!(self.of.law.next(None), Next::Idle);
            }
            _ => {}
        }
    }

    async fn asked(&mut self, ask: Ask) {
        if let Some(given) = self.of.given.take_if(|given| given.request == ask.id) {
            let asked = ask.digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            if *given.digest == *asked {
                return self.give(&ask, given).await;
            }
            self.late(&AnswerError::Tampered);
        }
        match self.of.channel {
            Channel::Later => {
                if !self.parked.iter().any(|parked| parked.id == ask.id) {
                    self.parked.push(ask);
                }
            }
            Channel::Yes => self.answer(&ask, Answer::Allow).await,
            Channel::Terminal => self.desk.put(ask),
            Channel::None => {
                // A call that waits since before, when there was someone to ask.
                let nobody = "there is no one to ask; run it on a terminal, or with --yes";
                self.answer(&ask, Answer::Refuse(Some(nobody.into()))).await;
            }
        }
    }

    async fn give(&mut self, ask: &Ask, given: Given) {
        let told = match given.command {
            Some(command) => self.of.session.command(command).answer(ask, given.answer).await,
            None => self.of.session.answer(ask, given.answer).await,
        };
        if let Err(error) = told {
            self.late(&error);
        }
    }

    /// The answer from before counts for nothing.
    fn late(&self, why: &AnswerError) {
        self.of.late.set(true);
        eprintln!("portcullis: the answer was not taken: {why}");
    }

    async fn answer(&mut self, ask: &Ask, answer: Answer) {
        match self.of.session.answer(ask, answer).await {
            // The turn was cancelled while the answer was typed.
            Ok(()) | Err(AnswerError::Settled | AnswerError::Unknown) => {}
            Err(error) => eprintln!("portcullis: the answer was not taken: {error}"),
        }
    }

    /// The first one cancels the turn, the second one leaves.
    fn signal(&mut self, cause: Cause) -> Option<Fate> {
        if self.cancelled.is_some() {
            return Some(Fate::Left("was left at once; the turn is open in the log".into()));
        }
        self.cancelled = Some(cause);
        let session = self.of.session.clone();
        // Its commit is not waited for here: the record of it will come by, and a second signal must be heard.
        tokio::spawn(async move {
            if let Err(error) = session.cancel(cause).await {
                eprintln!("portcullis: the cancel could not be stored: {error}");
            }
        });
        None
    }

    /// The session left memory with its turn open: why is not in the log, but the turn's handle knows.
    async fn gone(&mut self) -> Fate {
        match self.turn.take() {
            Some(turn) => Fate::Left(format!("could not go on: {}", turn.await)),
            None => Fate::Left("could not go on; PORTCULLIS_LOG=warn tells why".into()),
        }
    }

    fn fate(&mut self) -> Fate {
        if let Some(why) = self.lost.take() {
            return Fate::Left(format!("could not go on: {why}"));
        }
        match (self.bad.take(), self.cancelled) {
            (Some((turn, end)), _) => Fate::Ended(turn, end),
            (None, Some(_)) if self.of.prompts.left() > 0 => {
                Fate::Left(format!("was cancelled with {} prompts not sent", self.of.prompts.left()))
            }
            (None, _) => Fate::Completed,
        }
    }
}
