//! What every journal owes, as a suite that each store runs: C-DUR-5, C-DUR-6 and C-DUR-9 as far as they can be seen
//! through [`Journal`]. Behind the feature `conformance`, for tests of stores; a broken rule is a panic that names it.
//!
//! ```no_run
//! use portcullis_runtime::{MemoryJournal, journal::{Journal, conformance}};
//! use std::sync::Arc;
//!
//! # async fn test() {
//! conformance::all(|| async { Arc::new(MemoryJournal::new()) as Arc<dyn Journal> }).await;
//! # }
//! ```

use super::{
    Batch, Claim, InboxCommand, Journal, JournalError, Ownership, Posted, SessionHead, Subscription, Ticket,
    Verified,
};
use crate::{
    At, CallKey, CallPath, CommandId, Draft, InputRequested, InputResolved, PromptQueued, QueueKind, Record,
    RequestId, Resolution, Seq, SessionCreated, SessionId, Source,
};
use futures::future::join_all;
use std::{future::Future, sync::Arc};

/// Two runtimes, as a journal tells them apart.
const OURS: u128 = 1;
const THEIRS: u128 = u128::MAX;

/// Every rule, each on a fresh journal from `make`.
///
/// # Panics
/// On the first rule that the store breaks.
pub async fn all<F>(make: impl Fn() -> F)
where
    F: Future<Output = Arc<dyn Journal>>,
{
    claims(&*make().await).await;
    order(&*make().await).await;
    many_in_flight(&*make().await).await;
    isolation(&*make().await).await;
    fence(&*make().await).await;
    head(&*make().await).await;
    ownership(&*make().await).await;
    subscription(&*make().await).await;
    paging(&*make().await).await;
    waits(&*make().await).await;
    verified(&*make().await).await;
    inbox(&*make().await).await;
}

/// For a store that is about to break (an injected fault, a full disk): appends `batch` until an append fails, which
/// must be with `expected`, and shows that the failure sticks to its ownership and costs nothing that was acknowledged.
///
/// # Panics
/// When the store does not break within a thousand appends, breaks otherwise, or loses an acknowledged record.
pub async fn breaking(journal: &dyn Journal, expected: JournalError, batch: impl Fn(Seq) -> Batch) {
    let session = named("breaking");
    let mut own = claimed(journal, &session).await;
    let mut acknowledged = Seq(0);
    let error = loop {
        assert!(acknowledged.0 < 1000, "the store was to break and did not");
        match submit(journal, &mut own, &batch).wait().await {
            Ok(durable) => acknowledged = durable,
            Err(error) => break error,
        }
    };
    assert_eq!(error, expected, "the first failure");
    let later = [submit(journal, &mut own, &batch), submit(journal, &mut own, &batch)];
    for ticket in later {
        assert_eq!(ticket.wait().await, Err(expected.clone()), "later tickets fail alike");
    }
    let kept =
        journal.read(&session, Seq(0), usize::MAX).await.expect("a broken append leaves the log readable");
    assert_eq!(Seq(kept.len() as u64), acknowledged, "what was acknowledged stays, what failed is absent");
    let again = claimed(journal, &session).await;
    assert_eq!(again.head, acknowledged, "a new claim starts where the log ends");
}

/// The first claim creates unless told not to; each claim raises the epoch.
async fn claims(journal: &dyn Journal) {
    let session = named("claims");
    let missing = journal.claim(&session, OURS, Claim::OpenOnly).await;
    assert_eq!(missing.map(drop), Err(JournalError::NotFound(session.clone())), "OpenOnly creates nothing");
    let unread = journal.read(&session, Seq(0), 1).await;
    assert_eq!(
        unread,
        Err(JournalError::NotFound(session.clone())),
        "an unknown session does not read as empty"
    );
    assert_eq!(journal.sessions().await, Ok(Vec::new()), "a refused claim leaves no trace");

    let first = claimed(journal, &session).await;
    assert_eq!((first.head, first.incarnation), (Seq(0), OURS));
    assert_eq!(journal.read(&session, Seq(0), 1).await, Ok(Vec::new()), "a new session reads as empty");
    let second = journal.claim(&session, OURS, Claim::OpenOnly).await.expect("the session exists now");
    assert!(second.epoch > first.epoch, "the epoch rises with each claim");
}

/// What was appended reads back equal, in order, without gaps (C-DUR-5).
async fn order(journal: &dyn Journal) {
    let session = named("order");
    let mut own = claimed(journal, &session).await;
    let mut written = Vec::new();
    for size in [1, 3, 2] {
        let batch = prompts(own.head, size);
        written.extend(batch.records.iter().cloned());
        let before = own.head;
        let ticket = journal.append(&mut own, batch).expect("room for a small append");
        assert_eq!(own.head.0, before.0 + size, "the head moves when append returns");
        assert_eq!(ticket.wait().await, Ok(own.head));
    }
    assert_eq!(journal.read(&session, Seq(0), usize::MAX).await, Ok(written), "the log reads as written");
    assert_eq!(own.commits.durable(), own.head);
}

/// A session may have several appends on their way; they are durable in order.
async fn many_in_flight(journal: &dyn Journal) {
    let session = named("flight");
    let mut own = claimed(journal, &session).await;
    let tickets: Vec<Ticket> = (0..50).map(|_| submit(journal, &mut own, one)).collect();
    let last = tickets.last().cloned().expect("fifty tickets");
    assert_eq!(last.wait().await, Ok(Seq(50)));
    assert!(tickets.iter().all(Ticket::is_durable), "a later ticket vouches for the earlier ones");
    let numbers: Vec<Result<Seq, JournalError>> = join_all(tickets.into_iter().map(Ticket::wait)).await;
    assert_eq!(numbers, (1..=50).map(|n| Ok(Seq(n))).collect::<Vec<_>>());
    assert_eq!(seqs(journal, &session).await, (0..50).collect::<Vec<_>>());
}

/// One session's bad append is no other session's trouble.
async fn isolation(journal: &dyn Journal) {
    let mut sound = Vec::new();
    for n in 0..8 {
        sound.push(claimed(journal, &named(&format!("sound-{n}"))).await);
    }
    let mut bad = claimed(journal, &named("bad")).await;
    bad.head = Seq(7);
    let mut tickets = Vec::new();
    let mut refused = Vec::new();
    for own in &mut sound {
        tickets.push(submit(journal, own, one));
        refused.push(submit(journal, &mut bad, one));
    }
    for ticket in tickets {
        assert_eq!(ticket.wait().await, Ok(Seq(1)), "a sound append beside a bad one");
    }
    for ticket in refused {
        assert_eq!(ticket.wait().await, Err(JournalError::HeadMismatch { head: Seq(0) }));
    }
    assert_eq!(journal.read(&named("bad"), Seq(0), 9).await, Ok(Vec::new()), "a bad append writes nothing");
}

/// A later claim fences the earlier owner in the append itself (C-DUR-6).
async fn fence(journal: &dyn Journal) {
    let session = named("fence");
    let mut old = claimed(journal, &session).await;
    assert_eq!(submit(journal, &mut old, one).wait().await, Ok(Seq(1)));
    let mut new = claimed(journal, &session).await;
    assert_eq!(new.head, Seq(1), "a claim answers with the head");

    let fenced = Err(JournalError::Fenced { epoch: new.epoch });
    assert_eq!(submit(journal, &mut old, one).wait().await, fenced, "the stale owner is refused");
    assert_eq!(submit(journal, &mut old, one).wait().await, fenced, "and stays refused");
    assert_eq!(submit(journal, &mut new, one).wait().await, Ok(Seq(2)), "the new owner is not disturbed");

    journal.release(old).await.expect("a stale release is no error");
    assert_eq!(submit(journal, &mut new, one).wait().await, Ok(Seq(3)), "a stale release takes nothing away");
    assert_eq!(seqs(journal, &session).await, [0, 1, 2]);
}

/// An owner that miscounts is told the true head, and writes nothing more under that ownership.
async fn head(journal: &dyn Journal) {
    let session = named("head");
    let mut own = claimed(journal, &session).await;
    assert_eq!(submit(journal, &mut own, one).wait().await, Ok(Seq(1)));
    own.head = Seq(5);
    let mismatch = Err(JournalError::HeadMismatch { head: Seq(1) });
    assert_eq!(submit(journal, &mut own, one).wait().await, mismatch, "records after a gap");
    own.head = Seq(1);
    assert_eq!(submit(journal, &mut own, one).wait().await, mismatch, "the first failure sticks");
    assert_eq!(own.commits.failure(), mismatch.clone().err());
    assert_eq!(seqs(journal, &session).await, [0]);

    let mut again = claimed(journal, &session).await;
    assert_eq!(again.head, Seq(1));
    assert_eq!(submit(journal, &mut again, one).wait().await, Ok(Seq(2)), "a new claim mends it");
}

/// A live session is never open twice (C-DUR-6); a released one can be taken by anyone.
async fn ownership(journal: &dyn Journal) {
    let session = named("ownership");
    let mut own = claimed(journal, &session).await;
    for claim in [Claim::CreateOrOpen, Claim::OpenOnly] {
        let refused = journal.claim(&session, THEIRS, claim).await;
        let Err(JournalError::AlreadyOwned(why)) = refused else {
            panic!("another runtime got in: {refused:?}")
        };
        assert!(why.contains("ownership"), "the refusal names the session: {why}");
    }
    assert_eq!(submit(journal, &mut own, one).wait().await, Ok(Seq(1)), "a refused claim disturbs nobody");

    let enqueued = submit(journal, &mut own, one);
    let epoch = own.epoch;
    journal.release(own).await.expect("a release");
    assert!(enqueued.is_durable(), "a release waits for what was enqueued");
    let mut theirs = journal.claim(&session, THEIRS, Claim::OpenOnly).await.expect("it is free");
    assert_eq!(theirs.head, Seq(2));
    assert!(theirs.epoch > epoch, "the epoch never falls");
    assert_eq!(submit(journal, &mut theirs, one).wait().await, Ok(Seq(3)));
}

/// A subscriber sees each record after its commit, in order.
async fn subscription(journal: &dyn Journal) {
    let session = named("subscription");
    let mut own = claimed(journal, &session).await;
    assert_eq!(submit(journal, &mut own, one).wait().await, Ok(Seq(1)));
    let mut follower = own.commits.subscribe();
    let missed = follower.recent(Seq(0));
    assert!(missed.is_none_or(|recent| recent.len() == 1), "older records come whole or from the store");

    let _last = (0..20).map(|_| submit(journal, &mut own, one)).last();
    let mut seen = Vec::new();
    while seen.len() < 20 {
        let next = Seq(1 + seen.len() as u64);
        follower.beyond(next).await.expect("twenty records are on their way");
        seen.extend(follow(journal, &session, &follower, next).await);
    }
    let numbers: Vec<u64> = seen.iter().map(|record| record.seq.0).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    assert_eq!(journal.read(&session, Seq(1), 20).await, Ok(seen), "a subscriber sees what the log says");
}

async fn follow(
    journal: &dyn Journal,
    session: &SessionId,
    follower: &Subscription,
    next: Seq,
) -> Vec<Arc<Record>> {
    match follower.recent(next) {
        Some(recent) => recent,
        None => journal.read(session, next, usize::MAX).await.expect("durable records read"),
    }
}

/// Reads start where they are told, stop at their limit, and end with the log.
async fn paging(journal: &dyn Journal) {
    let session = named("paging");
    let mut own = claimed(journal, &session).await;
    let batch = prompts(Seq(0), 10);
    let all = batch.records.clone();
    let ticket = journal.append(&mut own, batch).expect("room for ten records");
    assert_eq!(ticket.wait().await, Ok(Seq(10)));
    for (from, limit, expected) in
        [(0, 4, 0..4), (4, 4, 4..8), (8, 4, 8..10), (10, 4, 10..10), (99, 4, 10..10), (3, 0, 10..10)]
    {
        let page = journal.read(&session, Seq(from), limit).await;
        assert_eq!(page, Ok(all[expected].to_vec()), "{limit} records from {from}");
    }
}

/// Questions that appends open and close show in the list of sessions.
async fn waits(journal: &dyn Journal) {
    let mut asking = claimed(journal, &named("asking")).await;
    let mut quiet = claimed(journal, &named("quiet")).await;
    assert_eq!(submit(journal, &mut quiet, one).wait().await, Ok(Seq(1)));
    let request = |position| {
        RequestId::of(&named("asking"), &CallKey { turn: 1, step: 1, call: CallPath::top(position) })
    };
    let asked = |seq: Seq, request: &RequestId| {
        let body = InputRequested {
            request: request.clone(),
            digest: "0".into(),
            reasons: vec!["a person is to see this".into()],
            by: Vec::new(),
            expires: None,
            deferred: false,
        };
        Draft::new(At::step(1, 1), body).seal(seq, 0)
    };
    let opening = Batch {
        records: vec![asked(Seq(0), &request(0)), asked(Seq(1), &request(1))],
        opens: vec![request(0), request(1)],
        closes: Vec::new(),
    };
    let ticket = journal.append(&mut asking, opening).expect("room for two questions");
    assert_eq!(ticket.wait().await, Ok(Seq(2)));
    let quiet_head = SessionHead { session: named("quiet"), records: 1, waits: Vec::new() };
    let asking_head = |records, waits: &[RequestId]| SessionHead {
        session: named("asking"),
        records,
        waits: waits.to_vec(),
    };
    let listed = journal.sessions().await;
    assert_eq!(listed, Ok(vec![asking_head(2, &[request(0), request(1)]), quiet_head.clone()]));

    let body =
        InputResolved { request: request(0), resolution: Resolution::Allowed, text: None, by: Source::User };
    let closing = Batch {
        records: vec![Draft::new(At::step(1, 1), body).seal(Seq(2), 0)],
        opens: Vec::new(),
        closes: vec![request(0)],
    };
    let ticket = journal.append(&mut asking, closing).expect("room for an answer");
    assert_eq!(ticket.wait().await, Ok(Seq(3)));
    journal.release(asking).await.expect("a release");
    let listed = journal.sessions().await;
    assert_eq!(listed, Ok(vec![asking_head(3, &[request(1)]), quiet_head]), "waits outlive the owner");
}

/// A sound log is found sound, and an unlawful record by its place; looking changes nothing (C-DUR-9, C-LOG-1).
async fn verified(journal: &dyn Journal) {
    let session = named("verified");
    let missing = journal.verify(&session).await;
    assert_eq!(missing, Err(JournalError::NotFound(session.clone())), "there is nothing to verify");
    let mut own = claimed(journal, &session).await;
    assert_eq!(journal.verify(&session).await, Ok(Verified::default()), "an empty log is sound");

    let ticket = journal.append(&mut own, created(&session)).expect("room for the first record");
    ticket.wait().await.expect("durable");
    let ticket = journal.append(&mut own, prompts(Seq(1), 1500)).expect("room for 1500 prompts");
    ticket.wait().await.expect("durable");
    let found = journal.verify(&session).await.expect("the log reads");
    assert_eq!((found.records, &found.damage), (1501, &None), "a sound log, with its owner at work");
    assert!([0, 1501].contains(&found.chained), "a store chains all records or none: {}", found.chained);
    assert_eq!(journal.verify(&session).await, Ok(found), "looking changes nothing");
    assert_eq!(submit(journal, &mut own, one).wait().await, Ok(Seq(1502)));

    let again = created_at(&session, own.head);
    let ticket = journal.append(&mut own, again);
    ticket.expect("room for a record").wait().await.expect("a journal does not judge what it stores");
    assert_eq!(submit(journal, &mut own, one).wait().await, Ok(Seq(1504)));
    let found = journal.verify(&session).await.expect("the log reads");
    let place = found.damage.as_ref().map(|damage| damage.at);
    assert_eq!((found.records, place), (1502, Some(Seq(1502))), "a second first record is unlawful");
}

/// A command waits in order until it is taken, once under its name, whoever has the session (C-DUR-8).
async fn inbox(journal: &dyn Journal) {
    let (session, other) = (named("inbox"), named("other"));
    let id = |name: &str| CommandId::new(name).expect("a plain name");
    let prompt = |text: &str| InboxCommand::Prompt { content: text.into() };
    let put = async |session: &SessionId, name: &str, text: &str| {
        journal.submit(session, &id(name), &prompt(text)).await
    };
    assert_eq!(put(&session, "a", "1").await, Err(JournalError::NotFound(session.clone())), "nobody's inbox");
    assert_eq!(journal.posted().await, Ok(Vec::new()));

    let mut own = claimed(journal, &session).await;
    let _other = claimed(journal, &other).await;
    assert_eq!(put(&session, "a", "1").await, Ok(Posted::Waits), "beside its owner");
    assert_eq!(put(&session, "b", "2").await, Ok(Posted::Waits));
    assert_eq!(put(&session, "a", "3").await, Ok(Posted::Waits), "again");
    assert_eq!(journal.posted().await, Ok(vec![session.clone()]), "only where something waits");
    let waits = vec![(id("a"), prompt("1")), (id("b"), prompt("2"))];
    assert_eq!(journal.pending(&session).await, Ok(waits), "in order, and the first under a name stands");
    assert_eq!(journal.pending(&other).await, Ok(Vec::new()));

    let body = PromptQueued { kind: QueueKind::Prompt, content: "1".into(), source: Source::User };
    let caused = Draft::new(At::session(), body).of_command(Some(id("a"))).seal(Seq(0), 1);
    let ticket = journal.append(&mut own, Batch::of(vec![caused])).expect("room for a record");
    ticket.wait().await.expect("durable");
    journal.taken(&session, &id("a"), None).await.expect("taken");
    journal.taken(&session, &id("b"), Some("no".into())).await.expect("refused");
    journal.taken(&session, &id("c"), None).await.expect("one that is not there is no error");
    assert_eq!(journal.pending(&session).await, Ok(Vec::new()));
    assert_eq!(journal.posted().await, Ok(Vec::new()));
    assert_eq!(put(&session, "a", "4").await, Ok(Posted::Taken(Seq(0))), "its record is what it caused");
    assert_eq!(put(&session, "b", "4").await, Ok(Posted::Refused("no".into())));
    assert_eq!(journal.pending(&session).await, Ok(Vec::new()), "nothing is done twice");
    assert_eq!(put(&other, "a", "5").await, Ok(Posted::Waits), "a name is one session's");

    // What answers a subagent's question is in the log of the one that asked.
    let child = named("inbox.1-1-0-0");
    let mut asker = claimed(journal, &child).await;
    let request = RequestId::of(&child, &CallKey { turn: 1, step: 1, call: CallPath::top(0) });
    let answer = InboxCommand::Answer { request, digest: "".into(), allow: true, reason: None };
    assert_eq!(journal.submit(&session, &id("d"), &answer).await, Ok(Posted::Waits));
    let body = PromptQueued { kind: QueueKind::Prompt, content: "1".into(), source: Source::User };
    let caused = Draft::new(At::session(), body).of_command(Some(id("d"))).seal(Seq(0), 1);
    let ticket = journal.append(&mut asker, Batch::of(vec![caused])).expect("room for a record");
    ticket.wait().await.expect("durable");
    journal.taken(&session, &id("d"), None).await.expect("taken");
    assert_eq!(journal.submit(&session, &id("d"), &answer).await, Ok(Posted::Taken(Seq(0))));
}

/// The first record of a session.
pub fn created(session: &SessionId) -> Batch {
    created_at(session, Seq(0))
}

fn created_at(session: &SessionId, seq: Seq) -> Batch {
    let body = SessionCreated {
        id: session.clone(),
        cwd: "/".into(),
        channel: "library".into(),
        parent: None,
        seed: None,
        cleared: None,
    };
    let records = vec![Draft::new(At::session(), body).seal(seq, 1_700_000_000_000)];
    Batch { records, ..Batch::default() }
}

/// `size` prompts numbered from `from`.
pub fn prompts(from: Seq, size: u64) -> Batch {
    let prompt = |seq: u64| {
        let content = format!("prompt {seq}: \u{1F980} \"quoted\"\n").into();
        let body = PromptQueued { kind: QueueKind::Prompt, content, source: Source::User };
        Draft::new(At::session(), body).seal(Seq(seq), 1_700_000_000_000 + seq)
    };
    Batch { records: (from.0..from.0 + size).map(prompt).collect(), ..Batch::default() }
}

fn one(from: Seq) -> Batch {
    prompts(from, 1)
}

fn named(name: &str) -> SessionId {
    SessionId::new(name).expect("a plain name")
}

async fn claimed(journal: &dyn Journal, session: &SessionId) -> Ownership {
    journal.claim(session, OURS, Claim::CreateOrOpen).await.expect("a session of ours")
}

fn submit(journal: &dyn Journal, own: &mut Ownership, batch: impl Fn(Seq) -> Batch) -> Ticket {
    let batch = batch(own.head);
    journal.append(own, batch).expect("room for a small append")
}

async fn seqs(journal: &dyn Journal, session: &SessionId) -> Vec<u64> {
    let records = journal.read(session, Seq(0), usize::MAX).await.expect("the log reads");
    records.iter().map(|record| record.seq.0).collect()
}
