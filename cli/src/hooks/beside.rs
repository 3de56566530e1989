//! What hooks need of a session while it runs: someone who passes on what hooks in the background say.

use super::args::LayerArgs;
use crate::{paint::clean, problem::Problem};
use portcullis::{
    Session, SessionAdvisor,
    hooks::{Hooks, Late, Reload, Reloaded, Report},
};
use std::{path::Path, sync::Arc};
use tokio::{
    sync::mpsc::{Receiver, channel},
    task::JoinHandle,
};

/// How many background hooks may have ended without having been passed on.
const WAITING: usize = 64;

/// Hooks of a project, before there is a session.
pub(crate) struct Prepared {
    pub(crate) hooks: Vec<Arc<Hooks>>,
    pub(crate) reports: Vec<Report>,
    pub(crate) beside: Beside,
}

/// What was prepared before there was a session.
pub(crate) struct Beside {
    late: Receiver<Late>,
}

/// Loads a project's hooks, with the layers that the options name. Those that ask a model ask the advisor.
pub(crate) fn load(project: &Path, layers: &LayerArgs, advisor: SessionAdvisor) -> Result<Prepared, Problem> {
    let (tell, late) = channel(WAITING);
    let mut found = super::layers::find(project, layers)?;
    found.options = found.options.advisor(advisor).late(move |late: Late| {
        if tell.try_send(late).is_err() {
            tracing::warn!("a background hook ended when nobody was left to tell");
        }
    });
    found.options = found.options.reloaded(changed);
    let (hooks, reports) = found.load(project);
    Ok(Prepared { hooks, reports, beside: Beside { late } })
}

/// Says what came of a change of files, as what was odd about them was said before.
fn changed(of: &Reloaded) {
    for (file, change) in &of.files {
        let what = match change {
            Reload::Taken => "has changed, and counts as it is now".to_owned(),
            Reload::Kept { by, reason } => {
                format!("has changed, and counts as it was: {by} keeps it out: {reason}")
            }
            _ => "has changed and is broken: it counts as it was".to_owned(),
        };
        eprintln!("{}", clean(&format!("{} {what}", file.display())));
    }
    for report in &of.reports {
        eprintln!("{}", clean(&report.to_string()));
    }
}

impl Beside {
    /// Attends to a session until it leaves memory.
    pub(crate) fn attend(mut self, session: &Session) -> Attending {
        let to = session.clone();
        let late = tokio::spawn(async move {
            while let Some(late) = self.late.recv().await {
                pass_on(&to, late).await;
            }
        });
        Attending { late }
    }
}

/// What attends to a session.
pub(crate) struct Attending {
    late: JoinHandle<()>,
}

impl Attending {
    /// Ends with it.
    pub(crate) fn finish(self) {
        self.late.abort();
    }
}

/// Its records get into the log, and what the model should read into a request.
async fn pass_on(session: &Session, late: Late) {
    if late.session != *session.id() {
        // A subagent has no door of its own, and is gone by now as likely as not.
        return tracing::debug!(handler = %late.handler, "a subagent's background hook said something too late");
    }
    let mut told = portcullis::Late::new(late.records);
    told.context = late.context.into_iter().map(Into::into).collect();
    told.wakes = late.wakes;
    if let Err(error) = session.late(&late.handler.owner, told).await {
        tracing::warn!(handler = %late.handler, %error, "what a background hook came to was not taken");
    }
}
