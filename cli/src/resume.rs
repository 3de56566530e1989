//! `portcullis resume`: goes on with a session that was left, from where its log ends.

use crate::{
    args::ResumeArgs,
    ask::Channel,
    drive::{Back, Signals},
    problem::Problem,
    run::{Begun, Plan},
    store::each_record,
};
use portcullis::{Body, Journal, Seq, SessionId, sqlite::SqliteJournal};
use std::process::ExitCode;

/// Goes on.
pub(crate) async fn resume(args: ResumeArgs) -> Result<ExitCode, Problem> {
    let signals = Signals::listen()?;
    let plan = Plan::read(&args.dir, args.model.as_deref(), &args.layers)?;
    // A project without sessions is told so, rather than given an empty journal.
    drop(plan.project.read()?);
    let journal = plan.project.open()?;
    let name = match &args.session {
        Some(name) => known(&journal, &SessionId::new(name)?).await?,
        None => the_open_one(&journal).await?,
    };
    let begun = Begun::of(plan, journal, name).await?;
    if begun.is_over().await? {
        let what = format!("session {} has nothing left to do", begun.name);
        return Err(Problem::new(what).next("its last turn is over, and every prompt of the script was sent"));
    }
    let channel = match Channel::find(args.yes) {
        Channel::None => Channel::Later,
        other => other,
    };
    begun.go_on(channel, args.json, Back::ForAll, signals).await
}

pub(crate) async fn known(journal: &SqliteJournal, name: &SessionId) -> Result<SessionId, Problem> {
    let heads = journal.sessions().await?;
    if heads.iter().any(|head| head.session == *name) {
        return name_of_root(journal, name).await;
    }
    let names: Vec<&str> = heads.iter().map(|head| head.session.as_str()).collect();
    Err(Problem::new(format!("there is no session `{name}` here"))
        .next(format!("there are: {}", names.join(", "))))
}

/// The only session whose last turn is not over, or in whose inbox something waits.
async fn the_open_one(journal: &SqliteJournal) -> Result<SessionId, Problem> {
    let (mut found, posted) = (Vec::new(), journal.posted().await?);
    for head in journal.sessions().await? {
        let (mut root, mut open) = (true, false);
        each_record(journal, &head.session, |record| match &record.body {
            Body::SessionCreated(created) => root = created.parent.is_none(),
            Body::TurnStart(_) => open = true,
            Body::TurnEnd(_) => open = false,
            _ => {}
        })
        .await?;
        if root && (open || posted.contains(&head.session)) {
            found.push(head.session);
        }
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Problem::new("no session was left with its turn open")
            .next("name one to send it what is left of the script")),
        several => {
            let names: Vec<&str> = several.iter().map(SessionId::as_str).collect();
            Err(Problem::new("several sessions were left with their turns open")
                .next(format!("name one of them: {}", names.join(", "))))
        }
    }
}

/// The session at the root of this one's tree: a subagent goes on when its root does.
pub(crate) async fn name_of_root(journal: &SqliteJournal, name: &SessionId) -> Result<SessionId, Problem> {
    let mut root = name.clone();
    loop {
        let first = journal.read(&root, Seq(0), 1).await?;
        let parent = first.first().and_then(|record| match &record.body {
            Body::SessionCreated(created) => Some(created.parent.as_ref()?.session.clone()),
            _ => None,
        });
        match parent {
            Some(parent) => root = parent,
            None => return Ok(root),
        }
    }
}
