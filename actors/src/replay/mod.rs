//! Replay: a log is played again by the very actors that made it, over a journal in memory, and what they make is compared
//! with what it holds, record by record and request by request (C-DUR-7).
//!
//! Everything that was foreign is answered from the log: the model, bodies, handlers and hooks, people. What came from
//! outside (prompts, steering, cancels, what subagents came to) comes at the place where it was recorded. So no process is
//! started, no handler called, no body run; what is tried is the law, the loop, the pipeline and the projection.

mod cue;
mod script;
mod stand_in;

pub(crate) use cue::{Cue, guards, judge, turn_of};
pub use cue::{Divergence, Taken};
pub(crate) use script::Act;

use crate::{
    control::Control,
    host::{ChildOf, OpenError, Opening},
    runtime::{Config, Profile, Runtime, SessionOptions, StartError},
};
use portcullis_runtime::{
    Commits, ConfigInForce, Limits, MemoryJournal, Record, RequestHeader, Seq, SessionCreated, SessionId,
    SessionInfo,
    law::{Invalid, State},
};
use script::Script;
use stand_in::{Later, Prompter};
use std::{ops::Range, sync::Arc, time::Duration};

/// How long nothing may happen before a replay counts as come to a stop. It waits for nothing but itself.
const STILL: Duration = Duration::from_secs(20);
/// How long its threads may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// What came of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// The session.
    pub session: SessionId,
    /// How many records were made anew and found equal, but for times.
    pub records: u64,
    /// How many records at the beginning a fork took over: they are its parent's, and not played.
    pub copied: u64,
    /// In how many lives the session was played: one, and one more for each time it was taken up again.
    pub lives: u64,
    /// What was taken from the log.
    pub taken: Taken,
    /// How many handlers, guards, wrappers and bodies were called: none, unless something is wrong with the replay itself.
    pub called: u64,
    /// The first record that is another one.
    pub divergence: Option<Divergence>,
}

/// Why a log cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It has no records.
    #[error("there is nothing to replay: the log is empty")]
    Empty,
    /// It breaks the law.
    #[error("the log does not fold: {0}")]
    Unlawful(#[from] Invalid),
    /// A tool in it cannot be described here.
    #[error("a tool of the log cannot stand in a replay: {0}")]
    Tool(String),
    /// A runtime for it did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its session could not be opened there.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Plays a session's log again, from its first record, and says where it first comes out otherwise. The log of a subagent is
/// replayed by itself; in its parent's, what it came to is taken from there.
///
/// # Errors
/// [`ReplayError`], when the log cannot be played at all.
pub async fn replay(records: Vec<Arc<Record>>) -> Result<Replayed, ReplayError> {
    let state = State::fold(&records)?;
    let created = state.created().cloned().ok_or(ReplayError::Empty)?;
    let script = Arc::new(Script::new(records, &state));
    let copied = script.lives.first().map_or(0, |life| life.start);
    let mut replayed = Replayed {
        session: created.id.clone(),
        records: 0,
        copied: copied as u64,
        lives: 0,
        taken: Taken::default(),
        called: 0,
        divergence: None,
    };
    let mut journal = MemoryJournal::new();
    if copied > 0 {
        journal.preload(&created.id, script.log[..copied].to_vec());
    }
    for life in script.lives.clone().into_iter().filter(|life| !life.is_empty()) {
        let cue = play(&script, &created, life, &journal).await?;
        // The next process finds what this one left.
        journal = journal.copy();
        let (taken, called) = cue.counts();
        replayed.taken.add(taken);
        replayed.called += called;
        replayed.lives += 1;
        replayed.divergence = cue.divergence();
        if replayed.divergence.is_some() {
            break;
        }
    }
    let made = journal.records(&created.id).len() - copied;
    replayed.records = match &replayed.divergence {
        Some(divergence) => divergence.seq.0.saturating_sub(copied as u64),
        None => made as u64,
    };
    Ok(replayed)
}

impl Taken {
    fn add(&mut self, more: Taken) {
        self.model += more.model;
        self.bodies += more.bodies;
        self.decisions += more.decisions;
        self.answers += more.answers;
        self.outside += more.outside;
        self.requests += more.requests;
    }
}

/// Plays one life: what one process made of the session.
async fn play(
    script: &Arc<Script>,
    created: &SessionCreated,
    life: Range<usize>,
    journal: &MemoryJournal,
) -> Result<Arc<Cue>, ReplayError> {
    let (config, header) = script.profile(&life);
    let (model, limits, rows) = match config {
        Some(ConfigInForce { model, limits, handlers, .. }) => (model.clone(), *limits, &handlers[..]),
        None => ("".into(), Limits::default(), &[][..]),
    };
    let named = model.clone();
    let empty = || RequestHeader { model: model.clone(), system: "".into(), tools: Vec::new() };
    let header = header.map_or_else(empty, |header| RequestHeader::clone(&header.0));
    let later = Later::default();
    let table = stand_in::table(script, &life, rows, &header.tools, &later)?;
    let profile = Arc::new(Profile::new(table.clone(), model.clone(), header.system.clone(), limits));
    let last = life.end == script.log.len();
    let cue = Arc::new(Cue::new(script.clone(), life));
    // Set here and nowhere else.
    let _ = later.set(cue.clone());
    let runtime = Runtime::start(Config {
        table,
        model: Arc::new(Prompter { name: model, cue: later }),
        journal: Arc::new(journal.clone()),
        system: header.system,
        limits,
        arbiters: Some(1),
        required: Vec::new(),
        idle_after: None,
        asks_expire_after: None,
        inbox_every: None,
    })
    .await?;
    let mut options = SessionOptions::new(&*created.cwd).channel(created.channel.clone()).approvals();
    options.cleared = created.cleared.clone();
    let child = created.parent.clone().map(|parent| {
        let root = SessionInfo::new(parent.session.clone(), (&*created.cwd).into(), created.channel.clone());
        let info =
            root.model(named.clone()).child(created.id.clone(), (&*created.cwd).into(), "agent".into());
        ChildOf { info: Arc::new(info), parent, asks: Arc::new(Control::new(Commits::new(Seq(0)))) }
    });
    let opening = Opening { id: created.id.clone(), options, profile, child, cue: Some(cue.clone()) };
    let opened = runtime.open_cued(opening).await;
    if opened.is_ok() {
        let mut heads = cue.watch();
        while !cue.is_over() {
            match tokio::time::timeout(STILL, heads.changed()).await {
                Ok(_) => {}
                Err(_) => cue.stuck(),
            }
        }
    }
    // Where the log ends at rest, the loop has its time to make a record too many.
    let rests = last && script.at_rest && cue.divergence().is_none();
    runtime.shutdown(if rests { GRACE } else { Duration::ZERO }).await;
    opened?;
    Ok(cue)
}
