//! Host: one actor per arbiter. It opens sessions there, so that all their actors share one thread, and drains them.

use crate::{
    control::Control,
    cx::{Room, SessionCx},
    handles::{INGRESS, Session, SessionInner},
    ledger::{Ledger, now_ms},
    registry::RegistryActor,
    runtime::{SessionOptions, Shared},
    session::{Drain, Parked, SessionActor},
};
use actix::prelude::*;
use portcullis_identity::Intake;
use portcullis_runtime::{
    At, Claim, Draft, JournalError, Record, Seq, SessionCreated, SessionId, SessionInfo, SessionResumed,
    law::{Invalid, State},
};
use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc, time::Instant};

/// How many records are read at once when a session is opened.
const PAGE: usize = 1024;

/// Why a session was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Its log breaks the law: another program wrote it, or it is damaged. Nothing was changed.
    #[error("the log of session `{session}` does not fold: {invalid}")]
    Unlawful {
        /// The session.
        session: SessionId,
        /// Where and why.
        invalid: Invalid,
    },
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    Draining,
    /// The working directory is not an absolute path in UTF-8.
    #[error("the working directory `{0}` is not an absolute path in UTF-8")]
    Cwd(String),
}

/// The actor.
pub(crate) struct Host {
    shared: Arc<Shared>,
    room: Rc<Room>,
    registry: Addr<RegistryActor>,
    sessions: Rc<RefCell<HashMap<SessionId, Addr<SessionActor>>>>,
}

impl Host {
    /// Makes the arbiter's room; called on its thread.
    pub(crate) fn new(shared: Arc<Shared>) -> Host {
        let room = Rc::new(Room::default());
        let registry = RegistryActor { room: room.clone() }.start();
        Host { shared, room, registry, sessions: Rc::default() }
    }
}

impl Actor for Host {
    type Context = Context<Self>;
}

/// Opens a session here.
pub(crate) struct Open {
    pub(crate) id: SessionId,
    pub(crate) options: SessionOptions,
}

impl Message for Open {
    type Result = Result<Session, OpenError>;
}

impl actix::Handler<Open> for Host {
    type Result = ResponseFuture<Result<Session, OpenError>>;

    fn handle(&mut self, open: Open, _: &mut Context<Self>) -> Self::Result {
        let (shared, room, registry) = (self.shared.clone(), self.room.clone(), self.registry.clone());
        let sessions = self.sessions.clone();
        Box::pin(async move {
            let (session, actor) = open_session(shared, room, registry, open).await?;
            let mut sessions = sessions.borrow_mut();
            sessions.retain(|_, addr| addr.connected());
            sessions.insert(session.id().clone(), actor);
            Ok(session)
        })
    }
}

async fn open_session(
    shared: Arc<Shared>,
    room: Rc<Room>,
    registry: Addr<RegistryActor>,
    open: Open,
) -> Result<(Session, Addr<SessionActor>), OpenError> {
    let Open { id, options } = open;
    let cwd = options.cwd.to_str().filter(|_| options.cwd.is_absolute());
    let cwd = cwd.ok_or_else(|| OpenError::Cwd(options.cwd.display().to_string()))?;
    let mut own = shared.journal.claim(&id, shared.incarnation, Claim::CreateOrOpen).await?;
    let folded = fold(&shared, &id, own.head).await;
    let mut state = match folded {
        Ok(state) => state,
        Err(error) => {
            shared.journal.release(own).await?;
            return Err(error);
        }
    };
    let mut drafts = Vec::new();
    let info = match state.created() {
        None => {
            let created = SessionCreated {
                id: id.clone(),
                cwd: cwd.into(),
                channel: options.channel.clone(),
                parent: None,
                seed: None,
            };
            drafts.push(Draft::new(At::session(), created));
            SessionInfo::new(id.clone(), options.cwd.clone(), options.channel.clone())
        }
        Some(created) => {
            drafts.push(Draft::new(At::session(), SessionResumed {}));
            SessionInfo::new(id.clone(), created.cwd.as_ref().into(), created.channel.clone())
        }
    };
    if state.config() != Some(&shared.config.digest) {
        drafts.push(Draft::new(At::session(), shared.config.clone()));
    }
    let records = seal(&mut state, drafts, &id)?;
    let batch = portcullis_runtime::Batch { records, ..Default::default() };
    let _enqueued = shared.journal.append(&mut own, batch)?;

    let span = tracing::info_span!("session", session = %id);
    let control = Arc::new(Control::new(own.commits.clone()));
    let (ingress, door) = async_channel::bounded(INGRESS);
    let info = Arc::new(info);
    let handle = Arc::new(SessionInner {
        info: info.clone(),
        ingress,
        intake: Intake::new(),
        control: control.clone(),
        journal: shared.journal.clone(),
    });
    let journal = shared.journal.clone();
    let cx = Rc::new(SessionCx {
        info,
        ledger: Ledger::new(state, own, journal),
        control,
        shared,
        approvals: options.approvals,
        hooks: RefCell::default(),
        hops: Default::default(),
        waiting: RefCell::default(),
        counted: Default::default(),
        turn_over: Default::default(),
        span,
    });
    cx.start_counting();
    room.enter(cx.clone());
    let actor =
        SessionActor { cx, registry, room, handle: handle.clone(), door: Some(Box::pin(door)), turn: None };
    Ok((Session { inner: handle }, actor.start()))
}

async fn fold(shared: &Shared, id: &SessionId, head: Seq) -> Result<State, OpenError> {
    let mut state = State::new();
    while state.head() < head {
        let page = shared.journal.read(id, state.head(), PAGE).await?;
        if page.is_empty() {
            let why = format!("it should have {head} records");
            return Err(JournalError::Corrupt { session: id.clone(), at: state.head(), why }.into());
        }
        for record in page {
            state.apply(&record).map_err(|invalid| OpenError::Unlawful { session: id.clone(), invalid })?;
        }
    }
    Ok(state)
}

fn seal(state: &mut State, drafts: Vec<Draft>, id: &SessionId) -> Result<Vec<Arc<Record>>, OpenError> {
    let time = now_ms();
    let seal_one = |draft: Draft| {
        let record = draft.seal(state.head(), time);
        state.apply(&record).map_err(|invalid| OpenError::Unlawful { session: id.clone(), invalid })?;
        Ok(record)
    };
    drafts.into_iter().map(seal_one).collect()
}

/// Drains every session of this arbiter.
pub(crate) struct DrainAll {
    pub(crate) until: Instant,
}

impl Message for DrainAll {
    type Result = Vec<(SessionId, Parked)>;
}

impl actix::Handler<DrainAll> for Host {
    type Result = ResponseFuture<Vec<(SessionId, Parked)>>;

    fn handle(&mut self, drain: DrainAll, _: &mut Context<Self>) -> Self::Result {
        let sessions: Vec<_> = self.sessions.borrow_mut().drain().collect();
        Box::pin(async move {
            let drained = sessions.into_iter().map(|(id, addr)| async move {
                let parked = addr.send(Drain { until: drain.until }).await;
                // One that is gone already has nothing to park.
                (id, parked.unwrap_or(Parked::Idle))
            });
            futures::future::join_all(drained).await
        })
    }
}
