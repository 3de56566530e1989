//! `hook/invoked` and `hook/result`: what a log keeps of one hook run. Both are the bridge's own records, in the same append
//! as the decision (C-SEAM-2, C-LOG-9), and ignorable where the bridge is absent.

use portcullis_runtime::{Frozen, OwnRecord, SessionId, Usage};
use serde::Serialize;

/// How much of a command line is kept, in bytes.
const COMMAND: usize = 8 * 1024;
/// How much of stderr is kept, in bytes.
const STDERR: usize = 2 * 1024;
/// How much of a notice or of an error is kept, in bytes.
const TEXT: usize = 4 * 1024;

/// A hook that was started, or that was tried to be.
#[derive(Debug, Serialize)]
pub(crate) struct Invoked<'a> {
    pub(crate) dialect: &'static str,
    pub(crate) event: &'static str,
    pub(crate) handler: &'a str,
    /// The kind of handler, if it is no command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) matcher: Option<&'a str>,
}

/// How it ended and what it said.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Answered<'a> {
    pub(crate) dialect: &'static str,
    pub(crate) event: &'static str,
    pub(crate) handler: &'a str,
    /// As the hook spoke it: `ask`, `stop`, `block`, …; `none` when it said nothing that decides.
    pub(crate) decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    /// Of an HTTP answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    pub(crate) ms: u64,
    pub(crate) timed_out: bool,
    /// Some of what it printed was dropped.
    pub(crate) cut: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) stderr: &'a str,
    /// What a model answered, which model, and at what cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) said: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<&'a Usage>,
    /// The session of the agent that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<&'a SessionId>,
    /// Why its answer could not be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a str>,
    /// Why the transcript that it could read was not up to date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transcript: Option<&'a str>,
    /// A message for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<&'a str>,
    /// Parts of its answer that this runtime does not act on.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) unused: &'a [&'static str],
    /// Present when nothing of its answer counted: what it would have come to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shadow: Option<Would<'a>>,
}

/// What a hook in shadow would have come to.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Would<'a> {
    /// `allow`, `ask`, `defer` or `block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'a str>,
    /// It would have ended the turn, with this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) halt: Option<&'a str>,
    /// Output that is no JSON; some events make context of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plain: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<&'a str>,
    /// The arguments it would have put in the place of the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<&'a str>,
    /// The same for the result of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<&'a str>,
}

impl Invoked<'_> {
    pub(crate) fn record(mut self) -> Option<OwnRecord> {
        self.command = self.command.map(|text| head(text, COMMAND));
        own("hook/invoked", &self)
    }
}

impl Answered<'_> {
    pub(crate) fn record(mut self) -> Option<OwnRecord> {
        self.stderr = head(self.stderr, STDERR);
        self.said = self.said.map(|text| head(text, TEXT));
        self.error = self.error.map(|text| head(text, TEXT));
        self.transcript = self.transcript.map(|text| head(text, TEXT));
        self.message = self.message.map(|text| head(text, TEXT));
        if let Some(would) = &mut self.shadow {
            let Would { verdict: _, reason, halt, plain, context, input, output } = would;
            for text in [reason, halt, plain, context, input, output] {
                *text = text.map(|text| head(text, TEXT));
            }
        }
        own("hook/result", &self)
    }
}

/// `None` cannot happen: the texts are bounded above and strings always have a JSON form. A missing record must still not
/// take a decision with it.
fn own(kind: &'static str, data: &impl Serialize) -> Option<OwnRecord> {
    match Frozen::of(data) {
        Ok(data) => Some(OwnRecord { kind: kind.into(), data }),
        Err(refused) => {
            tracing::error!(kind, %refused, "a hook record could not be written");
            None
        }
    }
}

/// The first bytes of a text, whole characters only.
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
