//! What travels out of band: cancels and answers. Reachable from any thread, never through a mailbox, so a busy actor
//! cannot hold them up.

use crate::{
    handles::{Turn, TurnCell, TurnDone},
    ledger::now_ms,
};
use portcullis_runtime::{
    CallKey, Cancel, Cause, CommandId, Commits, Frozen, HandlerId, JournalError, Reason, RequestId, Seq,
    Settle, Source,
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{broadcast, watch};

/// How many stream pieces a slow subscriber may lag behind before it loses (counted) some.
const DELTAS: usize = 256;

/// How many settled questions are remembered; an answer to an older one is to an unknown question.
const REMEMBERED: usize = 256;

/// A question to a person, as its subscribers see it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ask {
    /// The request; the same after a restart.
    pub id: RequestId,
    /// The call that waits.
    pub key: CallKey,
    /// The tool.
    pub tool: Arc<str>,
    /// The arguments in force: what an approval allows.
    pub arguments: Frozen,
    /// SHA-256 of the arguments; an answer is bound to it.
    pub digest: [u8; 32],
    /// Why a person is asked.
    pub reasons: Vec<Reason>,
    /// Who asks.
    pub by: Vec<HandlerId>,
    /// When the question expires, in milliseconds since 1970: unanswered until then, it counts as refused.
    pub expires: Option<u64>,
}

impl Ask {
    /// Its time is over.
    pub(crate) fn is_overdue(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= now_ms())
    }
}

/// A call that was deferred, as its host sees it: it waits, with its turn open, until it is
/// [resumed](crate::Session::resume). Nobody is asked meanwhile.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Deferred {
    /// The wait; the same after a restart, and another one each time that the call is deferred anew.
    pub id: RequestId,
    /// The call that waits.
    pub key: CallKey,
    /// The model's own id of it.
    pub call_id: Arc<str>,
    /// The tool.
    pub tool: Arc<str>,
    /// The arguments in force when it was deferred. What is run in the end is judged anew.
    pub arguments: Frozen,
    /// Why it was deferred, where that was said.
    pub reasons: Vec<Reason>,
    /// Who deferred it.
    pub by: Vec<HandlerId>,
    /// When the wait expires, in milliseconds since 1970: not resumed until then, the call does not run.
    pub expires: Option<u64>,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// That very call may run, once.
    Allow,
    /// It may not; the model reads why.
    Refuse(Option<Reason>),
}

/// Why an answer was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// It was answered or withdrawn before.
    #[error("this question is settled already")]
    Settled,
    /// Nobody had answered it in time.
    #[error("this question has expired: the call was refused; the model may ask for it again")]
    Expired,
    /// No such question waits in this session.
    #[error("no such question waits in this session")]
    Unknown,
    /// The answer is to other arguments than those that wait.
    #[error("this answer is to other arguments than those that wait; read the question again")]
    Tampered,
    /// The command's name is that of another command.
    #[error("`{0}` is the name of another command in this session: give this one its own")]
    Taken(CommandId),
    /// The session left memory for good; open it again.
    #[error("the session left memory; open it again")]
    Closed,
    /// It could not be made durable.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What settles a question.
#[derive(Clone)]
pub(crate) enum Given {
    /// An answer, and who gave it.
    Answer(Answer, Source, Option<CommandId>),
    /// The deferred call is taken up again, and by whom.
    Resume(Source, Option<CommandId>),
    /// Its time.
    Expired,
}

impl Given {
    fn command(&self) -> Option<&CommandId> {
        match self {
            Given::Answer(_, _, command) | Given::Resume(_, command) => command.as_ref(),
            Given::Expired => None,
        }
    }
}

pub(crate) struct Waiting {
    pub(crate) ask: Ask,
    /// Nobody is asked: the call was deferred. This is the model's id of it.
    pub(crate) deferred: Option<Arc<str>>,
    pub(crate) answer: Settle<Given>,
    pub(crate) committed: Settle<Result<(), AnswerError>>,
}

impl Waiting {
    fn new(ask: Ask, deferred: Option<Arc<str>>) -> Arc<Waiting> {
        Arc::new(Waiting { ask, deferred, answer: Settle::new(), committed: Settle::new() })
    }

    /// What its host sees of a deferred call.
    pub(crate) fn as_deferred(&self) -> Option<Deferred> {
        let call_id = self.deferred.clone()?;
        let Ask { id, key, tool, arguments, reasons, by, expires, .. } = self.ask.clone();
        Some(Deferred { id, key, call_id, tool, arguments, reasons, by, expires })
    }
}

/// The out-of-band side of a live session.
pub(crate) struct Control {
    /// Std mutexes throughout: held for a map step, never across an await.
    cancel: Mutex<Option<OpenTurn>>,
    asks: Mutex<Asks>,
    turns: Mutex<Turns>,
    deltas: Mutex<Option<broadcast::Sender<Delta>>>,
    /// A turn of the session has run here.
    played: AtomicBool,
    /// The number of the last question published.
    asked: watch::Sender<u64>,
    /// How many steps and bodies of the session and its subagents can do nothing before their host resumes a call.
    held: watch::Sender<usize>,
    /// Restarts in a row without a turn's end.
    restarts: Mutex<u32>,
    /// The watermark; another one after the session was restarted from its log.
    commits: Mutex<Arc<Commits>>,
    /// Settles when the session leaves memory.
    pub(crate) gone: Settle<()>,
}

/// Who waits for which turn.
#[derive(Default)]
struct Turns {
    /// For the turn that will take the prompt queued there.
    queued: HashMap<Seq, TurnCell>,
    /// For the open turn.
    open: Vec<TurnCell>,
}

struct OpenTurn {
    cancel: Cancel,
    committed: Settle<Result<bool, JournalError>>,
    /// The session is away with this turn open: who cancels it now finds that done when it comes back.
    parked: bool,
}

impl OpenTurn {
    fn new(parked: bool) -> OpenTurn {
        OpenTurn { cancel: Cancel::new(), committed: Settle::new(), parked }
    }
}

#[derive(Default)]
struct Asks {
    waiting: HashMap<RequestId, Arc<Waiting>>,
    /// In the order in which they became durable, numbered from 1: what subscribers are told.
    published: Vec<(u64, RequestId)>,
    last: u64,
    /// The last ones settled, and what a late answer to one of these is told.
    settled: VecDeque<(RequestId, AnswerError)>,
}

/// A piece of a model's stream.
#[derive(Debug, Clone)]
pub(crate) struct Delta {
    /// The records before this one had been made when it came.
    pub(crate) after: Seq,
    pub(crate) call: Option<Arc<str>>,
    pub(crate) text: Arc<str>,
}

impl Control {
    pub(crate) fn new(commits: Arc<Commits>) -> Control {
        Control {
            cancel: Mutex::default(),
            asks: Mutex::default(),
            turns: Mutex::default(),
            deltas: Mutex::default(),
            played: AtomicBool::new(false),
            asked: watch::Sender::new(0),
            held: watch::Sender::new(0),
            restarts: Mutex::default(),
            commits: Mutex::new(commits),
            gone: Settle::new(),
        }
    }

    /// A turn opens, or one that was parked goes on; what was waiting for another one's cancel is told.
    pub(crate) fn open_turn(&self) -> Cancel {
        // Whoever looks does so on the arbiter that sets it.
        self.played.store(true, Ordering::Relaxed);
        let mut open = lock(&self.cancel);
        if let Some(parked) = open.as_mut().filter(|open| open.parked) {
            parked.parked = false;
            // Whoever can do nothing still says so again.
            self.held.send_replace(0);
            return parked.cancel.clone();
        }
        let turn = OpenTurn::new(false);
        let cancel = turn.cancel.clone();
        if let Some(before) = open.replace(turn) {
            let _ = before.committed.settle(Ok(false));
        }
        cancel
    }

    /// Has a turn of the session run here, however often it left memory since?
    pub(crate) fn has_played(&self) -> bool {
        self.played.load(Ordering::Relaxed)
    }

    /// The session leaves memory: what runs of an open turn stops, and the turn itself is neither over nor cancelled. False,
    /// and nothing was done, when somebody has cancelled it.
    pub(crate) fn park_turn(&self) -> bool {
        let mut open = lock(&self.cancel);
        let Some(open) = &mut *open else { return true };
        if open.cancel.is_cancelled() {
            return false;
        }
        let runs = std::mem::replace(open, OpenTurn::new(true));
        runs.cancel.cancel(Cause::Fenced)
    }

    /// True when there is an answer or a cancel that the session has not seen yet.
    pub(crate) fn is_asked_for(&self) -> bool {
        lock(&self.cancel).as_ref().is_some_and(|open| open.cancel.is_cancelled())
            || lock(&self.asks).waiting.values().any(|waiting| waiting.answer.is_settled())
    }

    /// The session could not be brought back for these answers and this cancel: whoever gave them is told, and may again.
    pub(crate) fn hand_back(&self, error: &JournalError) {
        for waiting in lock(&self.asks).waiting.values_mut().filter(|waiting| waiting.answer.is_settled()) {
            let again = Waiting::new(waiting.ask.clone(), waiting.deferred.clone());
            let before = std::mem::replace(waiting, again);
            let _ = before.committed.settle(Err(error.clone().into()));
        }
        if let Some(open) = &mut *lock(&self.cancel)
            && open.cancel.is_cancelled()
        {
            let before = std::mem::replace(open, OpenTurn::new(true));
            let _ = before.committed.settle(Err(error.clone()));
        }
    }

    /// The session is back under another watermark: its subscribers go on with that one.
    pub(crate) fn returned(&self, commits: Arc<Commits>) {
        let before = std::mem::replace(&mut *lock(&self.commits), commits);
        before.failed(JournalError::Unavailable("the session left memory and came back".into()));
    }

    /// Tells those who wait for what is over: the open turn, if none is, and prompts that are not `queued` any more.
    pub(crate) fn catch_up(&self, open: bool, queued: impl Fn(Seq) -> bool, over: &Arc<TurnDone>) {
        let missing: Vec<TurnCell> = {
            let turns = &mut *lock(&self.turns);
            let gone: Vec<Seq> = turns.queued.keys().copied().filter(|seq| !queued(*seq)).collect();
            gone.iter().filter_map(|seq| turns.queued.remove(seq)).collect()
        };
        for cell in missing {
            // Prompts of a batch share a cell.
            let _ = cell.settle(over.clone());
        }
        if !open {
            let cancelled = matches!(over.end, portcullis_runtime::EndReason::Aborted { .. });
            self.close_turn(over, cancelled);
        }
    }

    /// The turn's end is durable, and with it a cancel that it ended by; one that came too late is told so.
    pub(crate) fn close_turn(&self, done: &Arc<TurnDone>, cancelled: bool) {
        *lock(&self.restarts) = 0;
        let open = std::mem::take(&mut lock(&self.turns).open);
        for cell in open {
            // Each cell is settled here and nowhere else.
            let _ = cell.settle(done.clone());
        }
        if let Some(open) = lock(&self.cancel).take() {
            let _ = open.committed.settle(Ok(cancelled));
        }
        // A question goes with its turn, also one of a subagent that nobody took up again.
        let left: Vec<RequestId> = {
            let asks = lock(&self.asks);
            if asks.waiting.is_empty() {
                return;
            }
            asks.waiting.keys().cloned().collect()
        };
        for request in left {
            self.settled(&request, Err(AnswerError::Settled));
        }
    }

    /// The cancel of the open turn was committed, or could not be.
    pub(crate) fn cancel_committed(&self, result: Result<bool, JournalError>) {
        if let Some(open) = &*lock(&self.cancel) {
            let _ = open.committed.settle(result);
        }
    }

    /// Cancels the open turn; `None` when none is open. The cell settles when the cancel is durable.
    pub(crate) fn cancel(&self, cause: Cause) -> Option<Settle<Result<bool, JournalError>>> {
        let open = lock(&self.cancel);
        let open = open.as_ref()?;
        open.cancel.cancel(cause);
        Some(open.committed.clone())
    }

    pub(crate) fn ask(&self, ask: Ask, deferred: Option<Arc<str>>) -> Arc<Waiting> {
        let id = ask.id.clone();
        let mut asks = lock(&self.asks);
        asks.waiting.entry(id).or_insert_with(|| Waiting::new(ask, deferred)).clone()
    }

    pub(crate) fn waiting(&self, id: &RequestId) -> Option<Arc<Waiting>> {
        lock(&self.asks).waiting.get(id).cloned()
    }

    /// The question is durable: subscribers may see it now.
    pub(crate) fn publish(&self, id: &RequestId) {
        let number = {
            let mut asks = lock(&self.asks);
            asks.last += 1;
            let number = asks.last;
            asks.published.push((number, id.clone()));
            number
        };
        self.asked.send_replace(number);
    }

    /// The waits that are still open and were published after the one of this number.
    pub(crate) fn published_after(&self, told: u64) -> Vec<(u64, Arc<Waiting>)> {
        let asks = lock(&self.asks);
        let later = asks.published.iter().filter(|(number, _)| *number > told);
        later.filter_map(|(number, id)| Some((*number, asks.waiting.get(id)?.clone()))).collect()
    }

    /// Wakes when a question is published.
    pub(crate) fn asked(&self) -> watch::Receiver<u64> {
        self.asked.subscribe()
    }

    /// Somebody can do nothing before a deferred call is resumed.
    pub(crate) fn hold(&self) {
        self.held.send_modify(|held| *held += 1);
    }

    /// Somebody who could do nothing goes on.
    pub(crate) fn go_on(&self) {
        self.held.send_modify(|held| *held = held.saturating_sub(1));
    }

    /// Resolves when somebody can do nothing else: with the calls that are deferred.
    pub(crate) async fn parked(&self) -> Vec<Deferred> {
        let mut held = self.held.subscribe();
        loop {
            // The sender is ours: the channel cannot close.
            let _ = held.wait_for(|held| *held > 0).await;
            let deferred = self.all_deferred();
            if !deferred.is_empty() {
                return deferred;
            }
            let _ = held.changed().await;
        }
    }

    pub(crate) fn all_asked(&self) -> Vec<Ask> {
        let waiting = self.published_after(0).into_iter().map(|(_, waiting)| waiting);
        waiting.filter(|waiting| waiting.deferred.is_none()).map(|waiting| waiting.ask.clone()).collect()
    }

    pub(crate) fn all_deferred(&self) -> Vec<Deferred> {
        self.published_after(0).iter().filter_map(|(_, waiting)| waiting.as_deferred()).collect()
    }

    pub(crate) fn settled(&self, id: &RequestId, result: Result<(), AnswerError>) {
        let late = match &result {
            Err(AnswerError::Expired) => AnswerError::Expired,
            _ => AnswerError::Settled,
        };
        let mut asks = lock(&self.asks);
        if let Some(waiting) = asks.waiting.remove(id) {
            let _ = waiting.committed.settle(result);
        }
        asks.published.retain(|(_, published)| published != id);
        if asks.settled.len() == REMEMBERED {
            asks.settled.pop_front();
        }
        asks.settled.push_back((id.clone(), late));
    }

    /// C-ASK-1: exactly one answer settles it; everything else is a typed error. The cell settles when it is durable.
    pub(crate) fn answer(
        &self,
        id: &RequestId,
        digest: &[u8; 32],
        answer: Answer,
        by: Source,
        command: Option<CommandId>,
    ) -> Result<Settle<Result<(), AnswerError>>, AnswerError> {
        self.give(id, Some(digest), Given::Answer(answer, by, command))
    }

    /// C-BRIDGE-9: the deferred call is taken up again, once.
    pub(crate) fn resume(
        &self,
        id: &RequestId,
        by: Source,
        command: Option<CommandId>,
    ) -> Result<Settle<Result<(), AnswerError>>, AnswerError> {
        self.give(id, None, Given::Resume(by, command))
    }

    fn give(
        &self,
        id: &RequestId,
        digest: Option<&[u8; 32]>,
        given: Given,
    ) -> Result<Settle<Result<(), AnswerError>>, AnswerError> {
        let waiting = {
            let asks = lock(&self.asks);
            match asks.waiting.get(id) {
                Some(waiting) => waiting.clone(),
                None => {
                    let settled = asks.settled.iter().find(|(settled, _)| settled == id);
                    return Err(settled.map_or(AnswerError::Unknown, |(_, late)| late.clone()));
                }
            }
        };
        if waiting.deferred.is_some() != matches!(given, Given::Resume(..)) {
            return Err(AnswerError::Unknown);
        }
        if digest.is_some_and(|digest| waiting.ask.digest != *digest) {
            return Err(AnswerError::Tampered);
        }
        let command = given.command().cloned();
        // Whoever settles it is first. A clock that has stood still meanwhile makes no answer early.
        let overdue = waiting.ask.is_overdue();
        let given = if overdue { Given::Expired } else { given };
        if waiting.answer.settle(given).is_err() {
            // The same command again, while its first answer is on its way: it is told the same.
            let first = waiting.answer.get().and_then(|first| first.command().cloned());
            let again = command.is_some() && first == command;
            return if again { Ok(waiting.committed.clone()) } else { Err(AnswerError::Settled) };
        }
        Ok(waiting.committed.clone())
    }

    /// When the first of the questions that wait expires.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        lock(&self.asks).waiting.values().filter_map(|waiting| waiting.ask.expires).min()
    }

    /// Settles the questions that expire up to then.
    pub(crate) fn expire(&self, upto: u64) {
        for waiting in lock(&self.asks).waiting.values() {
            if waiting.ask.expires.is_some_and(|expires| expires <= upto) {
                // An answer that was first stands.
                let _ = waiting.answer.settle(Given::Expired);
            }
        }
    }

    /// Someone waits for the turn that will take this prompt.
    pub(crate) fn expect_turn(&self, seq: Seq, cell: TurnCell) {
        lock(&self.turns).queued.insert(seq, cell);
    }

    /// Someone else waits for the turn that will take this prompt.
    pub(crate) fn also_expect_turn(&self, seq: Seq) -> TurnCell {
        lock(&self.turns).queued.entry(seq).or_default().clone()
    }

    /// No turn will take this prompt.
    pub(crate) fn withdrawn(&self, seq: Seq, done: Arc<TurnDone>) {
        let (cell, shared) = {
            let queued = &mut lock(&self.turns).queued;
            let cell = queued.remove(&seq);
            let shared = cell.as_ref().is_some_and(|cell| queued.values().any(|other| other.is(cell)));
            (cell, shared)
        };
        // The others of its batch still have a turn.
        if let (Some(cell), false) = (cell, shared) {
            let _ = cell.settle(done);
        }
    }

    /// The first cause of the open turn's cancel, if there is one.
    pub(crate) fn cancel_cause(&self) -> Option<Cause> {
        lock(&self.cancel).as_ref()?.cancel.cause()
    }

    /// Someone waits for the open turn.
    pub(crate) fn open_cell(&self, cell: TurnCell) {
        lock(&self.turns).open.push(cell);
    }

    /// These prompts are in the open turn now.
    pub(crate) fn join_turn(&self, taken: impl Iterator<Item = Seq>) {
        let Turns { queued, open } = &mut *lock(&self.turns);
        open.extend(taken.filter_map(|seq| queued.remove(&seq)));
    }

    /// Waits for the end of the turn that is open, or that opens next, without having sent it anything.
    pub(crate) fn follow_turn(&self) -> Turn {
        let cell = TurnCell::new();
        lock(&self.turns).open.push(cell.clone());
        Turn { cell, session: None, prompt: None }
    }

    /// No turn will come any more: whoever waits for one is told with the open turn's end.
    pub(crate) fn join_all(&self) {
        let Turns { queued, open } = &mut *lock(&self.turns);
        open.extend(queued.drain().map(|(_, cell)| cell));
    }

    pub(crate) fn commits(&self) -> Arc<Commits> {
        lock(&self.commits).clone()
    }

    /// Another restart; how many there were in a row.
    pub(crate) fn count_restart(&self) -> u32 {
        let mut restarts = lock(&self.restarts);
        *restarts += 1;
        *restarts
    }

    /// The session was restarted from its log, under a new epoch.
    pub(crate) fn restarted(&self, commits: Arc<Commits>) {
        *lock(&self.commits) = commits;
        if let Some(open) = lock(&self.cancel).take() {
            // The turn goes on; whoever cancelled it finds that it did not take.
            let _ = open.committed.settle(Ok(false));
        }
    }

    pub(crate) fn deltas(&self) -> broadcast::Receiver<Delta> {
        lock(&self.deltas).get_or_insert_with(|| broadcast::channel(DELTAS).0).subscribe()
    }

    /// Hands a piece of the stream to whoever listens; it is made only then.
    pub(crate) fn delta(&self, piece: impl FnOnce() -> Delta) {
        if let Some(deltas) = &*lock(&self.deltas) {
            // An error means that nobody listens.
            let _ = deltas.send(piece());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is a single map step: never half-done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
