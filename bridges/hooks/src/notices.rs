//! Events that are told of what has happened: a question that waits for a person, a turn that failed. The client waits for
//! none of their hooks, and nothing that they say decides; what they come to is handed to the host, as that of a hook in the
//! background.

use crate::{
    background::{self, Late},
    dialect::{NAMES, Sorted},
    event::Event,
    explain::{At, Moment},
    hook::Hook,
    hooks::Hooks,
};
use portcullis_runtime::{EndReason, Ended, Point, Registrar};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How many of them are at work.
#[derive(Debug, Clone, Default)]
pub(crate) struct AtWork(Arc<AtomicUsize>);

/// One of them, until it is dropped.
struct Working(AtWork);

impl AtWork {
    fn begin(&self) -> Working {
        self.0.fetch_add(1, Ordering::AcqRel);
        Working(self.clone())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What the client would call the failure of a turn, and what it would say of it; nothing unless the model failed.
pub(crate) fn failure(end: &EndReason) -> Option<(&'static str, &str)> {
    let EndReason::Error { code, message } = end else { return None };
    let word = match &**code {
        "model_busy" => "rate_limit",
        "model_cut" => "server_error",
        code if code.starts_with("model_") => "unknown",
        // The runtime's own.
        _ => return None,
    };
    Some((word, message))
}

/// The words of [`failure`].
pub(crate) const FAILURES: [&str; 3] = ["rate_limit", "server_error", "unknown"];

/// Was the call denied by the host's own policy? That is what a client's own judgement of calls is here; hooks and rules of a
/// client, and people, have other words.
pub(crate) fn denied_by_policy(ended: &Ended) -> bool {
    match ended {
        Ended::HookDeny { by, .. } | Ended::GuardDeny { by, .. } => !NAMES.contains(&&*by.owner),
        Ended::HandlerFailure { by, point: Some(point), .. } => {
            *point != Point::Execute && !NAMES.contains(&&*by.owner)
        }
        _ => false,
    }
}

impl Hooks {
    pub(crate) fn notices(self: &Arc<Self>, at: &mut Registrar<'_>) {
        // Those that the dialect has, if they may come; else those that are there.
        let dialect = self.house().dialect;
        let comes = |event: &Event| match &self.watch {
            Some(_) => dialect.events().contains(event),
            None => !self.set().of(*event).is_empty(),
        };
        if comes(&Event::Notification) {
            let of = self.clone();
            at.asked("Notification", move |asked| {
                if !of.set().of(Event::Notification).is_empty() {
                    of.start(Moment::Notification(asked.clone()));
                }
            });
        }
        for event in [Event::StopFailure, Event::Interrupt].into_iter().filter(comes) {
            let of = self.clone();
            at.turn_end(event.name(), move |ended| {
                let sorted = of.house().dialect.sort(At::TurnEnd(ended));
                if sorted.is_some_and(|sorted| sorted.event == event) && !of.set().of(event).is_empty() {
                    of.start(Moment::TurnEnd(ended.clone()));
                }
            });
        }
    }

    /// Starts its hooks. They end with their own limits, or with the thread that holds the session.
    fn start(self: &Arc<Self>, moment: Moment) {
        let (of, working) = (self.clone(), self.house().at_work.begin());
        // Whoever drops the handle lets the task go on: that is what is wanted.
        drop(tokio::spawn(async move {
            let _working = working;
            of.each(&moment, background::hand).await;
        }));
    }

    /// Runs the hooks that are told of this moment, and says what they came to: nothing for a moment that hooks decide about.
    pub async fn tell(&self, moment: &Moment) -> Vec<Late> {
        let mut all = Vec::new();
        self.each(moment, |_, late| all.push(late)).await;
        all
    }

    /// How many moments are being told to hooks right now. A host that stops can wait for none.
    pub fn telling(&self) -> usize {
        self.house().at_work.0.load(Ordering::Acquire)
    }

    /// One after another, like any hooks of one point.
    async fn each(&self, moment: &Moment, mut ended: impl FnMut(&Hook, Late)) {
        let (set, dialect, at) = (self.set(), self.house().dialect, moment.at());
        let Some(Sorted { event, subject, .. }) = dialect.sort(at) else { return };
        if !event.is_notice() || set.closed(event, at).is_some() {
            return;
        }
        tracing::debug!(event = event.name(), subject, "told to hooks");
        for hook in &*set.matching(event, &subject) {
            let stdin = dialect.payload(event, at, hook.house.style());
            ended(hook, background::run(hook, at.scene(), "", stdin).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis_runtime::{Failure, HandlerId};

    #[test]
    fn only_a_failure_of_the_model_is_one() {
        let error = |code: &str| EndReason::Error { code: code.into(), message: "m".into() };
        for (code, word) in [
            ("model_busy", Some("rate_limit")),
            ("model_cut", Some("server_error")),
            ("model_failed", Some("unknown")),
            ("model_refused", Some("unknown")),
            ("call_stuck", None),
        ] {
            assert_eq!(failure(&error(code)), word.map(|word| (word, "m")), "{code}");
            assert!(word.is_none_or(|word| FAILURES.contains(&word)));
        }
        assert_eq!(failure(&EndReason::Completed), None);
        assert_eq!(failure(&EndReason::MaxTokens), None);
    }

    #[test]
    fn a_policy_is_none_of_the_dialects_own() {
        let by = |owner: &str| HandlerId::new(owner, "h");
        let denied = |owner: &str| Ended::HookDeny { by: by(owner), reason: "no".into() };
        let failed = |owner: &str, point| Ended::HandlerFailure {
            by: by(owner),
            point,
            failure: Failure::Error { message: "x".into() },
        };
        assert!(denied_by_policy(&denied("house")) && !denied_by_policy(&denied(NAMES[0])));
        assert!(denied_by_policy(&Ended::GuardDeny { by: by("house"), reason: "no".into() }));
        assert!(!denied_by_policy(&Ended::GuardDeny { by: by(NAMES[1]), reason: "no".into() }));
        assert!(denied_by_policy(&failed("house", Some(Point::PreExecute))));
        assert!(!denied_by_policy(&failed("house", Some(Point::Execute))));
        assert!(!denied_by_policy(&failed("tools", None)) && !denied_by_policy(&Ended::Completed));
        assert!(!denied_by_policy(&Ended::ApprovalRefused { reason: None }));
    }
}
