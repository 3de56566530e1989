//! What was decided beside what would be.

use super::moments::Said;
use crate::{
    paint::{Paint, Tint, clean},
    words::names,
};
use portcullis::CallPath;
use serde::Serialize;
use std::io::{self, Write};

/// How a moment would have gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// As it did.
    Same,
    /// Otherwise.
    Differs,
    /// Behind one that would have gone otherwise, nobody knows.
    Unknown,
}

/// One moment.
#[derive(Debug, Serialize)]
pub(super) struct Item {
    pub(super) turn: u64,
    pub(super) step: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<CallPath>,
    pub(super) event: &'static str,
    pub(super) about: String,
    pub(super) status: Status,
    pub(super) was: Said,
    pub(super) now: Option<Said>,
}

/// All of them, in order.
#[derive(Debug, Default)]
pub(super) struct Report {
    items: Vec<Item>,
}

impl Report {
    pub(super) fn add(&mut self, item: Item) {
        self.items.push(item);
    }

    pub(super) fn differs(&self) -> bool {
        self.items.iter().any(|item| item.status == Status::Differs)
    }

    pub(super) fn print(&self, json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            for item in &self.items {
                writeln!(out, "{}", serde_json::to_string(item)?)?;
            }
            return out.flush();
        }
        let paint = Paint::stdout();
        for item in &self.items {
            line(&mut out, paint, item)?;
        }
        let count = |status| self.items.iter().filter(|item| item.status == status).count() as u64;
        let (same, unknown) = (count(Status::Same), count(Status::Unknown));
        let last = if self.differs() {
            let found = paint.tint(Tint::Bad, "1 decision would be another one");
            format!("{found}; {} before it the same, {} after it unknown", names(same, "decision"), unknown)
        } else {
            format!(
                "{}: {}",
                paint.tint(Tint::Good, "nothing would be decided otherwise"),
                names(same, "decision")
            )
        };
        writeln!(out, "{last}")?;
        out.flush()
    }
}

fn line(out: &mut impl Write, paint: Paint, item: &Item) -> io::Result<()> {
    let Item { turn, step, call, event, about, .. } = item;
    let call = call.as_ref().map(|call| format!("/{call}")).unwrap_or_default();
    let about = clean(about.lines().next().unwrap_or_default());
    let head = format!("{turn}/{step}{call}  {event}  {about}");
    match (item.status, &item.now) {
        (Status::Same, _) => {
            writeln!(out, "{}", paint.tint(Tint::Quiet, &format!("same     {head}: {}", words(&item.was))))
        }
        (Status::Differs, Some(now)) => {
            writeln!(out, "{}  {head}", paint.tint(Tint::Bad, "DIFFERS"))?;
            writeln!(out, "           was  {}", words(&item.was))?;
            writeln!(out, "           now  {}", words(now))
        }
        _ => {
            let text = format!("unknown  {head}: was {}", words(&item.was));
            writeln!(out, "{}", paint.tint(Tint::Notice, &text))
        }
    }
}

fn words(said: &Said) -> String {
    let mut text = said.decision.clone();
    if let Some(by) = &said.by.0 {
        text.push_str(&format!(" by {}", clean(by)));
    }
    let mut add =
        |what: &str, more: &str| text.push_str(&format!("{what}{}", clean(&more.replace('\n', " "))));
    if let Some(reason) = &said.reason {
        add(": ", reason);
    }
    if let Some(arguments) = &said.arguments {
        add("; runs with ", arguments);
    }
    for context in &said.context {
        add("; adds ", context);
    }
    if let Some(halt) = &said.halt {
        add("; halts the turn: ", halt);
    }
    text
}
