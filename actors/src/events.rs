//! What subscribers see: a cursor over durable records, and the pieces of the model's stream beside it.

use crate::{
    control::{Ask, Deferred, Delta},
    handles::SessionInner,
};
use futures::{Stream, stream::BoxStream};
use portcullis_runtime::{Record, Seq};
use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::{
    broadcast::{
        self,
        error::{RecvError, TryRecvError},
    },
    watch,
};

/// How many records are read from the store at once when a reader lags.
const PAGE: usize = 256;

/// Something that happened in a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A record, after its commit.
    Record(Arc<Record>),
    /// A question to a person waits: this session's own, after its `input/requested`, or one of its subagents'.
    Ask(Ask),
    /// A call was deferred, in this session or in a subagent of its, and waits for its host to resume it.
    Deferred(Deferred),
    /// A piece of the model's stream: text, or the arguments of a call.
    Delta {
        /// The model's id of the call whose arguments these are; `None` for text.
        call: Option<Arc<str>>,
        /// The piece.
        text: Arc<str>,
    },
    /// The reader was too slow for some pieces. Records are never lost.
    Lagged {
        /// How many pieces.
        deltas: u64,
    },
    /// Nothing more will come: the session left memory, or its journal failed.
    Ended,
}

/// A stream of [`Event`]s; ends after [`Event::Ended`].
pub struct Events {
    stream: BoxStream<'static, Event>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.stream.as_mut().poll_next(cx)
    }
}

impl Events {
    pub(crate) fn new(session: Arc<SessionInner>, from: Seq) -> Events {
        let cursor = Cursor {
            records: session.control.commits().subscribe(),
            deltas: session.control.deltas(),
            from,
            held: None,
            told: 0,
            asked: session.control.asked(),
            ready: VecDeque::new(),
            ended: false,
            session,
        };
        let stream = futures::stream::unfold(cursor, |mut cursor| async move {
            let event = cursor.next().await?;
            Some((event, cursor))
        });
        Events { stream: Box::pin(stream) }
    }
}

struct Cursor {
    session: Arc<SessionInner>,
    records: portcullis_runtime::journal::Subscription,
    deltas: broadcast::Receiver<Delta>,
    from: Seq,
    /// A piece that belongs behind records still to come.
    held: Option<Delta>,
    /// The last question told, and the news of later ones.
    told: u64,
    asked: watch::Receiver<u64>,
    ready: VecDeque<Event>,
    ended: bool,
}

impl Cursor {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            // A piece is told before the records that were made after it, and behind those made before.
            if self.held.is_none() {
                match self.deltas.try_recv() {
                    Ok(delta) => self.held = Some(delta),
                    Err(TryRecvError::Lagged(deltas)) => return Some(Event::Lagged { deltas }),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => {}
                }
            }
            if let Some(Delta { call, text, .. }) = self.held.take_if(|delta| delta.after <= self.from) {
                return Some(Event::Delta { call, text });
            }
            self.fetch(self.held.as_ref().map(|delta| delta.after)).await;
            if !self.ready.is_empty() {
                continue;
            }
            // A piece that waits for its records goes first; so does the record of a question, which may have become
            // durable since we looked.
            let asks = self.session.control.published_after(self.told);
            if !asks.is_empty() && self.held.is_none() {
                self.fetch(None).await;
                if self.ready.is_empty() {
                    self.told = asks.last().map_or(self.told, |(number, _)| *number);
                    self.ready.extend(asks.into_iter().map(|(_, waiting)| match waiting.as_deferred() {
                        Some(deferred) => Event::Deferred(deferred),
                        None => Event::Ask(waiting.ask.clone()),
                    }));
                }
                continue;
            }
            let gone = self.session.control.gone.wait();
            tokio::select! {
                biased;
                more = self.records.beyond(self.from) => {
                    if more.is_err() {
                        self.follow_on();
                    }
                }
                delta = self.deltas.recv(), if self.held.is_none() => match delta {
                    Ok(delta) => self.held = Some(delta),
                    Err(RecvError::Lagged(deltas)) => return Some(Event::Lagged { deltas }),
                    Err(RecvError::Closed) => self.end(),
                },
                // The sender lives in the session's control, which we hold.
                _ = self.asked.changed() => {}
                () = gone => {
                    // What became durable before the end is still told.
                    self.fetch(None).await;
                    self.end();
                }
            }
        }
    }

    /// This watermark moves no more: the session was restarted under another one, or it is over.
    fn follow_on(&mut self) {
        let commits = self.session.control.commits();
        if commits.failure().is_some() {
            self.end();
        } else {
            self.records = commits.subscribe();
        }
    }

    fn end(&mut self) {
        self.ready.push_back(Event::Ended);
        self.ended = true;
    }

    /// Takes what is durable, up to `until`: from the window of recent records, else from the store.
    async fn fetch(&mut self, until: Option<Seq>) {
        let records = match self.records.recent(self.from) {
            Some(records) => records,
            None => match self.session.journal.read(&self.session.info.id, self.from, PAGE).await {
                Ok(records) => records,
                Err(error) => {
                    tracing::warn!(session = %self.session.info.id, %error, "a subscriber's records could not be read");
                    self.end();
                    return;
                }
            },
        };
        for record in records.into_iter().take_while(|record| until.is_none_or(|until| record.seq < until)) {
            self.from = Seq(record.seq.0 + 1);
            self.ready.push_back(Event::Record(record));
        }
    }
}
