//! The inbox: what was put into the journal for a session by somebody who does not have it. Whoever has the session takes it
//! out here, in order, and does it through the session's own handle, under the command's name: so one that was done before
//! its process died is told its first outcome and not done again.

use crate::{
    command::{CancelError, Command, PromptRef},
    control::{Answer, AnswerError},
    handles::{Session, SubmitError},
    host::Host,
    runtime::Shared,
};
use portcullis_runtime::{CommandId, InboxCommand, JournalError, Posted, SessionId};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Which commands are being done, and which inboxes are being looked through.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    doing: Mutex<HashSet<(SessionId, CommandId)>>,
    /// By the session's handle; true when somebody wanted it looked through meanwhile.
    looks: Mutex<HashMap<usize, bool>>,
}

/// One of them.
struct Doing {
    shared: Arc<Shared>,
    what: (SessionId, CommandId),
}

impl Inbox {
    fn doing(&self) -> MutexGuard<'_, HashSet<(SessionId, CommandId)>> {
        // Every change is one insertion or removal.
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn looks(&self) -> MutexGuard<'_, HashMap<usize, bool>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one look through a session's inbox: two at a time would do its commands out of order.
struct Look<'l> {
    inbox: &'l Inbox,
    handle: usize,
    over: bool,
}

impl Look<'_> {
    /// `None` while there is one: it looks again.
    fn begin(inbox: &Inbox, handle: usize) -> Option<Look<'_>> {
        let mut looks = inbox.looks();
        let first = looks.insert(handle, true).is_none();
        first.then(|| Look { inbox, handle, over: false })
    }

    /// True when somebody wants it since the last time.
    fn goes_on(&mut self) -> bool {
        let mut looks = self.inbox.looks();
        self.over = looks.insert(self.handle, false) != Some(true);
        if self.over {
            looks.remove(&self.handle);
        }
        !self.over
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        // When it is over, another one may have begun.
        if !self.over {
            self.inbox.looks().remove(&self.handle);
        }
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        self.shared.inbox.doing().remove(&self.what);
    }
}

/// What became of a command.
enum Done {
    /// Its record is durable.
    Taken,
    /// It cannot be done, by anybody.
    Refused(Arc<str>),
    /// Not here, not now: it stays where it is.
    Later,
}

impl Done {
    fn refused(why: &dyn std::fmt::Display) -> Done {
        Done::Refused(why.to_string().into())
    }
}

/// Has the session do what waits for it. Answers come when their question does, everything else is done when this returns.
pub(crate) async fn drain(shared: &Arc<Shared>, session: &Session) {
    let handle = Arc::as_ptr(&session.inner).addr();
    let Some(mut look) = Look::begin(&shared.inbox, handle) else { return };
    while look.goes_on() {
        if let Err(error) = drained(shared, session).await {
            tracing::warn!(session = %session.id(), %error, "what waits in a session's inbox stays there");
        }
    }
}

async fn drained(shared: &Arc<Shared>, session: &Session) -> Result<(), JournalError> {
    for (id, command) in shared.journal.pending(session.id()).await? {
        let what = (session.id().clone(), id.clone());
        if !shared.inbox.doing().insert(what.clone()) {
            continue;
        }
        let doing = Doing { shared: shared.clone(), what };
        let done = match command {
            InboxCommand::Prompt { content } => {
                submitted(session.command(id).prompt(content).await.map(drop))
            }
            InboxCommand::Steer { content } => submitted(session.command(id).steer(content).await.map(drop)),
            InboxCommand::Inject { owner, content } => {
                submitted(session.command(id).inject(&owner, content).await)
            }
            InboxCommand::Cancel { cause, prompt } => {
                let command = session.command(id);
                let told = match prompt {
                    Some(prompt) => command.cancel_prompt(PromptRef::Command(prompt), cause.0).await,
                    None => command.cancel(cause.0).await,
                };
                match told {
                    Ok(_) => Done::Taken,
                    Err(CancelError::Closed | CancelError::Journal(_)) => Done::Later,
                    Err(error) => Done::refused(&error),
                }
            }
            command @ (InboxCommand::Answer { .. } | InboxCommand::Resume { .. }) => {
                let session = session.clone();
                actix_rt::spawn(async move {
                    let done = answered(&doing.shared, &session, id, &command).await;
                    if let Err(error) = settle(&doing, done).await {
                        tracing::warn!(session = %session.id(), %error, "an answer stays in the inbox");
                    }
                });
                continue;
            }
            _ => Done::refused(&"this version does not know this kind of command"),
        };
        if matches!(done, Done::Later) {
            // What comes behind it would overtake it.
            return Ok(());
        }
        settle(&doing, done).await?;
    }
    Ok(())
}

async fn settle(doing: &Doing, done: Done) -> Result<(), JournalError> {
    let (session, id) = &doing.what;
    match done {
        Done::Taken => doing.shared.journal.taken(session, id, None).await,
        Done::Refused(why) => doing.shared.journal.taken(session, id, Some(why)).await,
        Done::Later => Ok(()),
    }
}

fn submitted(told: Result<(), SubmitError>) -> Done {
    match told {
        Ok(()) => Done::Taken,
        Err(error @ (SubmitError::Empty | SubmitError::Taken { .. })) => Done::refused(&error),
        Err(_) => Done::Later,
    }
}

/// How often it is asked again whether a question still waits that is not to be seen yet.
const LOOK: Duration = Duration::from_secs(1);

/// Answers, or resumes, when that wait is there; one that the log has open comes when its call is taken up again.
async fn answered(shared: &Shared, session: &Session, id: CommandId, given: &InboxCommand) -> Done {
    let (InboxCommand::Answer { request, .. } | InboxCommand::Resume { request }) = given else {
        return Done::Later;
    };
    let command = session.command(id);
    let mut asked = session.inner.control.asked();
    loop {
        if let Some(told) = given_now(session, &command, given).await {
            return match told {
                Ok(()) => Done::Taken,
                Err(AnswerError::Closed | AnswerError::Journal(_)) => Done::Later,
                Err(error) => unless_taken(shared, session, command.id(), given, &error).await,
            };
        }
        match command.told(request).await {
            Ok(Some(Ok(()))) => return Done::Taken,
            Ok(Some(Err(error))) => return Done::refused(&error),
            Ok(None) => {}
            Err(_) => return Done::Later,
        }
        let Ok(heads) = shared.journal.sessions().await else { return Done::Later };
        let below = format!("{}.", session.id());
        let mut ours = heads
            .iter()
            .filter(|head| head.session == *session.id() || head.session.as_str().starts_with(&below));
        if !ours.any(|head| head.waits.contains(request)) {
            return unless_taken(shared, session, command.id(), given, &AnswerError::Unknown).await;
        }
        let gone = session.gone();
        tokio::select! {
            () = gone => return Done::Later,
            _ = asked.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// What it comes to, if what it is meant for waits; `None` if that is not to be seen.
async fn given_now(
    session: &Session,
    command: &Command,
    given: &InboxCommand,
) -> Option<Result<(), AnswerError>> {
    match given {
        InboxCommand::Answer { request, digest, allow, reason } => {
            let ask = session.asks().into_iter().find(|ask| ask.id == *request)?;
            if ask.arguments.sha256_hex() != *digest {
                return Some(Err(AnswerError::Tampered));
            }
            let answer = if *allow { Answer::Allow } else { Answer::Refuse(reason.clone()) };
            Some(command.answer(&ask, answer).await)
        }
        InboxCommand::Resume { request } => {
            let call = session.deferred().into_iter().find(|call| call.id == *request)?;
            Some(command.resume(&call).await)
        }
        _ => None,
    }
}

/// A subagent's question may be settled by this very command, in a log that the session does not have: the journal knows.
async fn unless_taken(
    shared: &Shared,
    session: &Session,
    id: &CommandId,
    given: &InboxCommand,
    error: &AnswerError,
) -> Done {
    match shared.journal.submit(session.id(), id, given).await {
        Ok(Posted::Taken(_)) => Done::Taken,
        Ok(_) => Done::refused(error),
        Err(_) => Done::Later,
    }
}

impl Host {
    /// Sees to it that what is put into an inbox from now on is found within this time, by one host of the runtime.
    pub(crate) fn watch_inboxes(&self, every: Duration) {
        let host = self.parts();
        actix_rt::spawn(async move {
            let shared = &host.kit.shared;
            while !host.is_closing() {
                match shared.journal.posted().await {
                    Ok(posted) => {
                        for session in posted.iter().filter_map(|id| shared.handle_of(id)) {
                            // One whose arbiter is held up holds up no other.
                            let shared = shared.clone();
                            actix_rt::spawn(async move { drain(&shared, &session).await });
                        }
                    }
                    Err(error) => tracing::debug!(%error, "the inboxes could not be looked into"),
                }
                tokio::time::sleep(every).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // C-DUR-8: commands are done in order, so one look at a time; whoever comes meanwhile is seen by it.
    #[test]
    fn one_looks_and_looks_again_for_who_comes_meanwhile() {
        let inbox = Inbox::default();
        let mut look = Look::begin(&inbox, 1).expect("nobody looks");
        assert!(look.goes_on());
        assert!(Look::begin(&inbox, 1).is_none(), "one at a time");
        assert!(Look::begin(&inbox, 2).is_some(), "another session's is another");
        assert!(look.goes_on(), "somebody came meanwhile");
        assert!(!look.goes_on(), "nobody did");
        let next = Look::begin(&inbox, 1).expect("that look is over");
        drop(look);
        assert!(Look::begin(&inbox, 1).is_none(), "what is over ends no other");
        drop(next);
        assert!(inbox.looks().is_empty(), "one that was given up leaves nothing");
    }
}
