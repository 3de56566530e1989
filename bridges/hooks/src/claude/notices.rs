//! Events that are told of what has happened: a question that waits for a person, a turn that failed. The client waits for
//! none of their hooks, and nothing that they say decides; what they come to is handed to the host, as that of a hook in the
//! background.

use super::{ClaudeHooks, DIALECT, Moment, background, background::Late, event::Event, explain::Told};
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

/// Was the call denied by the host's own policy? That is what the client's own judgement of calls is here; its hooks and
/// rules, and people, have other words.
pub(crate) fn denied_by_policy(ended: &Ended) -> bool {
    match ended {
        Ended::HookDeny { by, .. } | Ended::GuardDeny { by, .. } => *by.owner != *DIALECT,
        Ended::HandlerFailure { by, point: Some(point), .. } => {
            *point != Point::Execute && *by.owner != *DIALECT
        }
        _ => false,
    }
}

impl ClaudeHooks {
    pub(super) fn notices(self: &Arc<Self>, at: &mut Registrar<'_>) {
        if !self.of(Event::Notification).is_empty() {
            let of = self.clone();
            at.asked("Notification", move |asked| of.start(Moment::Notification(asked.clone())));
        }
        if !self.of(Event::StopFailure).is_empty() {
            let of = self.clone();
            at.turn_end("StopFailure", move |ended| {
                if failure(&ended.reason).is_some() {
                    of.start(Moment::StopFailure(ended.clone()));
                }
            });
        }
    }

    /// Starts its hooks. They end with their own limits, or with the thread that holds the session.
    fn start(self: &Arc<Self>, moment: Moment) {
        let (of, working) = (self.clone(), self.house.at_work.begin());
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
        self.house.at_work.0.load(Ordering::Acquire)
    }

    /// One after another, like any hooks of one point.
    async fn each(&self, moment: &Moment, mut ended: impl FnMut(&super::hook::Hook, Late)) {
        let Some(Told { event, subject, scene, stdin, .. }) = self.told(moment, &self.house.style()) else {
            return;
        };
        if !event.is_notice() || self.closed(event, scene).is_some() {
            return;
        }
        tracing::debug!(event = event.name(), subject, "told to hooks");
        for hook in &*self.matching(event, &subject) {
            ended(hook, background::run(hook, scene, "", stdin.clone()).await);
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
        assert!(denied_by_policy(&denied("house")) && !denied_by_policy(&denied(DIALECT)));
        assert!(denied_by_policy(&Ended::GuardDeny { by: by("house"), reason: "no".into() }));
        assert!(!denied_by_policy(&Ended::GuardDeny { by: by(DIALECT), reason: "no".into() }));
        assert!(denied_by_policy(&failed("house", Some(Point::PreExecute))));
        assert!(!denied_by_policy(&failed("house", Some(Point::Execute))));
        assert!(!denied_by_policy(&failed("tools", None)) && !denied_by_policy(&Ended::Completed));
        assert!(!denied_by_policy(&Ended::ApprovalRefused { reason: None }));
    }
}
