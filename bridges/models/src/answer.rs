//! From a step of the script to a stream of events.

use crate::pick::Due;
use crate::script::{Fault, Piece, fragments};
use futures::{
    StreamExt,
    future::{Either, select},
    stream::{self, BoxStream},
};
use portcullis_runtime::{Cancel, ModelError, ModelEvent};
use std::time::Duration;

type Item = Result<ModelEvent, ModelError>;

/// What happens next in an answer.
enum Beat {
    Wait(Duration),
    Send(Item),
}

/// The whole answer to one attempt at a request.
pub(crate) fn stream(due: &Due<'_>, attempt: u32, cancel: Cancel) -> BoxStream<'static, Item> {
    let state = (beats(due, attempt).into_iter(), cancel, 0usize);
    stream::unfold(state, |(mut beats, cancel, sent)| async move {
        loop {
            match beats.next()? {
                Beat::Send(item) => {
                    // After an error nothing comes: a consumer that goes on polling finds the end.
                    let rest = if item.is_err() { Vec::new().into_iter() } else { beats };
                    return Some((item, (rest, cancel, sent + 1)));
                }
                Beat::Wait(time) => {
                    let sleep = Box::pin(tokio::time::sleep(time));
                    if let Either::Right(_) = select(sleep, cancel.cancelled()).await {
                        let cut = Err(ModelError::Cut { events: sent });
                        return Some((cut, (Vec::new().into_iter(), cancel, sent)));
                    }
                }
            }
        }
    })
    .boxed()
}

fn beats(due: &Due<'_>, attempt: u32) -> Vec<Beat> {
    let step = due.step;
    let mut beats = Vec::new();
    if !step.delay.is_zero() {
        beats.push(Beat::Wait(step.delay));
    }
    let mut calls = 0;
    for piece in &step.pieces {
        match piece {
            Piece::Text(text) => beats.push(event(ModelEvent::Text(text.clone()))),
            Piece::Reasoning(text) => beats.push(event(ModelEvent::Reasoning(text.clone()))),
            Piece::Wait(time) => beats.push(Beat::Wait(*time)),
            Piece::Call(call) => {
                calls += 1;
                // From places in the conversation, so that a repeated step or a second run makes no id twice in a session.
                let id = match &call.id {
                    Some(id) => id.clone(),
                    None => format!("call_{}_{}_{calls}", due.batch + 1, due.answer + 1),
                };
                beats.push(event(ModelEvent::CallStart { id, name: call.name.clone() }));
                beats.extend(
                    fragments(&call.arguments).map(|part| event(ModelEvent::CallText(part.to_owned()))),
                );
            }
        }
    }
    if let Some(usage) = step.usage {
        beats.push(event(ModelEvent::Usage(usage)));
    }
    beats.push(event(ModelEvent::Finish(step.finish.clone())));
    match &step.fault {
        Some(Fault::Cut { after }) => keep(&mut beats, *after),
        Some(Fault::Fail { after, attempts, error }) if attempts.is_none_or(|failing| attempt <= failing) => {
            keep(&mut beats, *after);
            beats.push(Beat::Send(Err(error.clone())));
        }
        _ => {}
    }
    beats
}

fn event(event: ModelEvent) -> Beat {
    Beat::Send(Ok(event))
}

/// Drops everything from the event after the first `events` on. Waits before it stay: a slow answer fails slowly.
fn keep(beats: &mut Vec<Beat>, events: usize) {
    let mut seen = 0;
    let end = beats.iter().position(|beat| {
        seen += usize::from(matches!(beat, Beat::Send(_)));
        seen > events
    });
    beats.truncate(end.unwrap_or(beats.len()));
}
