//! SessionEnd: hooks that are told that a session is over. Nothing that they say decides; the host waits for them, so that none is
//! cut off, and for that they have little time unless they ask for more.

use super::{
    ClaudeHooks, background,
    config::{Definition, Origin},
    event::Event,
    hook::Hook,
};
use futures::future::LocalBoxFuture;
use portcullis_runtime::{EndObserver, OwnRecord, Registrar, Scene, SessionEnded};
use std::{
    env,
    ffi::{OsStr, OsString},
    sync::Arc,
    time::Duration,
};

/// Why a session ends here: its host shuts down. The client's other reasons are of a person at its prompt, whom there is none here.
pub(crate) const OTHER: &str = "other";

/// The time of hooks that ask for none.
pub(super) const BUDGET: Duration = Duration::from_millis(1500);
/// More than this is not given for the asking.
const MOST: Duration = Duration::from_secs(60);
/// Says another time.
const VARIABLE: &str = "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS";

/// What each of the hooks has: what the variable says, else the longest time that one of them asks for; less if it asks for less.
pub(super) fn bound(definitions: &mut [(Arc<Origin>, Definition)], stated: Option<Duration>) {
    let ends = || definitions.iter().map(|(_, d)| d).filter(|d| d.event == Event::SessionEnd);
    let asked = ends().filter(|d| d.sets_timeout).map(|d| d.timeout.min(MOST)).max();
    let budget = stated.unwrap_or_else(|| asked.map_or(BUDGET, |asked| asked.max(BUDGET)));
    for (_, definition) in definitions.iter_mut().filter(|(_, d)| d.event == Event::SessionEnd) {
        let own = definition.sets_timeout.then_some(definition.timeout);
        definition.timeout = own.map_or(budget, |own| own.min(budget));
    }
}

/// What the variable says: to the host, in the settings, or in this process's environment. What is no time counts as nothing.
pub(super) fn stated(host: &[(OsString, OsString)], settings: &[(String, String)]) -> Option<Duration> {
    let host = host.iter().rev().find(|(name, _)| name == VARIABLE).map(|(_, value)| value.clone());
    let settings = || settings.iter().rev().find(|(name, _)| name == VARIABLE).map(|(_, value)| value.into());
    time(&host.or_else(settings).or_else(|| env::var_os(VARIABLE))?)
}

fn time(text: &OsStr) -> Option<Duration> {
    let ms = text.to_str()?.trim().parse().ok().filter(|ms| *ms > 0)?;
    Some(Duration::from_millis(ms))
}

/// One hook, as the runtime tells it.
struct Farewell {
    of: Arc<ClaudeHooks>,
    hook: Arc<Hook>,
}

impl EndObserver for Farewell {
    fn observe(&self, ended: SessionEnded) -> LocalBoxFuture<'_, Vec<OwnRecord>> {
        Box::pin(async move {
            let told = self.of.told_of_end(&ended.scene);
            match told.iter().any(|hook| Arc::ptr_eq(hook, &self.hook)) {
                // One in the background is waited for as well: behind the session there is no time in which it could end.
                true => {
                    let stdin = self.hook.house.style().session_end(&ended);
                    background::run(&self.hook, &ended.scene, "", stdin).await.records
                }
                false => Vec::new(),
            }
        })
    }

    fn limit(&self) -> Option<Duration> {
        Some(self.hook.definition.timeout)
    }
}

impl ClaudeHooks {
    /// Registers each of the hooks, and the last lines of the transcript.
    pub(super) fn farewells(self: &Arc<Self>, at: &mut Registrar<'_>) {
        if self.is_empty() {
            return;
        }
        let transcripts = self.house.transcripts.clone();
        at.session_end("transcript", async move |ended| {
            if let Err(trouble) = transcripts.catch_up(&ended.scene.session).await {
                tracing::warn!(session = %ended.scene.session.id, %trouble, "a session ends with its transcript behind the log");
            }
        });
        for hook in self.of(Event::SessionEnd) {
            let farewell = Farewell { of: self.clone(), hook: hook.clone() };
            at.session_end_by(&hook.id.handler, farewell);
        }
    }

    fn told_of_end(&self, scene: &Scene) -> Arc<[Arc<Hook>]> {
        match self.closed(Event::SessionEnd, scene) {
            None => self.matching(Event::SessionEnd, OTHER),
            Some(_) => Arc::new([]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_says_a_time_above_zero() {
        let said = |text: &str| time(OsStr::new(text));
        assert_eq!(said(" 2500 "), Some(Duration::from_millis(2500)));
        for text in ["", "0", "-5", "1.5", "soon"] {
            assert_eq!(said(text), None, "{text}");
        }
        let host = [(VARIABLE.into(), "1".into()), (VARIABLE.into(), "2".into())];
        let settings = [(VARIABLE.to_owned(), "3".to_owned())];
        assert_eq!(stated(&host, &settings), Some(Duration::from_millis(2)), "the host's last word is first");
        assert_eq!(stated(&[], &settings), Some(Duration::from_millis(3)));
    }
}
