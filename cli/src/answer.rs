//! `portcullis answer`: settles a question from before and goes on with the call that waits for it (C-ASK-1, 2).

use crate::{
    args::{AnswerArgs, Verdict},
    ask::Channel,
    drive::{Back, Given, Signals},
    problem::Problem,
    resume::name_of_root,
    run::{Begun, Plan},
    send::{Place, named},
    store::each_record,
};
use portcullis::{
    Answer, Body, CommandId, InboxCommand, InputRequested, InputResolved, Journal, Reason, RequestId,
    Resolution, SessionId, sqlite::SqliteJournal,
};
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Answers, and goes on.
pub(crate) async fn answer(args: AnswerArgs) -> Result<ExitCode, Problem> {
    let signals = Signals::listen()?;
    let answer = match (args.answer, args.reason) {
        (Verdict::Deny, reason) => Some(Answer::Refuse(reason.map(Reason::from))),
        (Verdict::Allow, None) => Some(Answer::Allow),
        (Verdict::Resume, None) => None,
        (Verdict::Allow | Verdict::Resume, Some(_)) => {
            let what = "an approval has no conditions: --reason goes with deny only";
            return Err(Problem::new(what).next("allow it as it is, or deny it and say what to do instead"));
        }
    };
    let place = Place::find(&args.dir)?;
    if place.beside {
        return beside(place, args.request, args.digest, args.id, answer).await;
    }
    let journal = place.journal;
    let plan = Plan::read(&args.dir, args.model.as_deref(), &args.layers)?;
    let request = RequestId::from_text(args.request);
    let command = args.id.map(CommandId::new).transpose()?;
    let heads = journal.sessions().await?;
    let Some(head) = heads.iter().find(|head| head.waits.contains(&request)) else {
        if let Some(command) = command
            && let Some(session) = answered_by(&journal, &request, &command).await?
        {
            return again(plan, journal, &session, args.json, signals).await;
        }
        return Err(not_waiting(&journal, &request).await?);
    };
    let name = name_of_root(&journal, &head.session).await?;
    let asked = asked(&journal, &head.session, &request).await?;
    meant(&asked, args.digest, answer.is_none())?;
    let begun = Begun::of(plan, journal, name).await?;
    let given = Given { request, digest: asked.digest, answer, command };
    begun.go_on(later(), args.json, Back::With(given), signals).await
}

/// The process that has the session is given the answer by way of its inbox.
async fn beside(
    place: Place,
    request: String,
    of: Option<String>,
    id: Option<String>,
    answer: Option<Answer>,
) -> Result<ExitCode, Problem> {
    let request = RequestId::from_text(request);
    let heads = place.journal.sessions().await?;
    let Some(head) = heads.iter().find(|head| head.waits.contains(&request)) else {
        let command = id.map(CommandId::new).transpose()?;
        if let Some(command) = command
            && let Some(session) = answered_by(&place.journal, &request, &command).await?
        {
            // Whoever closed stdout has the exit code.
            let _ = writeln!(io::stdout(), "{session} took this answer before");
            return Ok(ExitCode::SUCCESS);
        }
        return Err(not_waiting(&place.journal, &request).await?);
    };
    let asked = asked(&place.journal, &head.session, &request).await?;
    meant(&asked, of, answer.is_none())?;
    let root = name_of_root(&place.journal, &head.session).await?;
    let digest = asked.digest;
    let command = match answer {
        Some(Answer::Allow) => InboxCommand::Answer { request, digest, allow: true, reason: None },
        Some(Answer::Refuse(reason)) => InboxCommand::Answer { request, digest, allow: false, reason },
        None => InboxCommand::Resume { request },
    };
    place.post(&root, named(id)?, &command).await
}

/// It waits for what is given, and is about the arguments that are meant.
fn meant(asked: &InputRequested, meant: Option<String>, resumes: bool) -> Result<(), Problem> {
    let InputRequested { request, digest, deferred, .. } = asked;
    match (deferred, resumes) {
        (true, false) => {
            let what = format!("the call of `{request}` is deferred: nobody answers it");
            return Err(Problem::new(what).next("say `resume`, and its hooks decide anew"));
        }
        (false, true) => {
            let what = format!("`{request}` is a question: it is not resumed, it is answered");
            return Err(Problem::new(what).next("say `allow` or `deny`"));
        }
        _ => {}
    }
    let other = |meant: &String| meant.is_empty() || !digest.starts_with(&meant.to_lowercase());
    match meant.filter(other) {
        None => Ok(()),
        Some(meant) => {
            let what =
                format!("the question `{request}` is about other arguments than those of --digest {meant}");
            Err(Problem::new(what).next(format!("theirs is {digest}; read the question again")))
        }
    }
}

/// The session in which this very command has settled the question, if one has.
async fn answered_by(
    journal: &SqliteJournal,
    request: &RequestId,
    command: &CommandId,
) -> Result<Option<SessionId>, Problem> {
    let heads = journal.sessions().await?;
    let asks = heads.iter().find(|head| request.as_str().starts_with(&format!("{}:", head.session)));
    let Some(head) = asks else { return Ok(None) };
    let mut settled = false;
    each_record(journal, &head.session, |record| match &record.body {
        Body::InputResolved(resolved) if resolved.request == *request => {
            settled = record.key.as_ref() == Some(command);
        }
        _ => {}
    })
    .await?;
    Ok(settled.then(|| head.session.clone()))
}

/// The answer was taken before: what is left to do goes on.
async fn again(
    plan: Plan,
    journal: SqliteJournal,
    session: &SessionId,
    json: bool,
    signals: Signals,
) -> Result<ExitCode, Problem> {
    let name = name_of_root(&journal, session).await?;
    let begun = Begun::of(plan, journal, name).await?;
    if begun.is_over().await? {
        if !json {
            // Whoever closed stdout has the exit code.
            let _ =
                writeln!(io::stdout(), "{} took this answer before, and has nothing left to do", begun.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    begun.go_on(later(), json, Back::Stays, signals).await
}

/// A person at the terminal, or somebody later.
fn later() -> Channel {
    match Channel::find(false) {
        Channel::None => Channel::Later,
        other => other,
    }
}

/// The record that says what waits, and what an answer is bound to.
async fn asked(
    journal: &SqliteJournal,
    session: &SessionId,
    request: &RequestId,
) -> Result<InputRequested, Problem> {
    let mut found = None;
    each_record(journal, session, |record| match &record.body {
        Body::InputRequested(asked) if asked.request == *request => found = Some(asked.clone()),
        _ => {}
    })
    .await?;
    let missing =
        || Problem::new(format!("the log of session `{session}` does not hold its question `{request}`"));
    found.ok_or_else(missing)
}

/// Why this question cannot be answered.
async fn not_waiting(journal: &SqliteJournal, request: &RequestId) -> Result<Problem, Problem> {
    let heads = journal.sessions().await?;
    let mut settled: Option<InputResolved> = None;
    let session = heads.iter().find(|head| request.as_str().starts_with(&format!("{}:", head.session)));
    if let Some(head) = session {
        each_record(journal, &head.session, |record| match &record.body {
            Body::InputResolved(resolved) if resolved.request == *request => settled = Some(resolved.clone()),
            _ => {}
        })
        .await?;
    }
    if let Some(resolved) = settled {
        let how = match resolved.resolution {
            Resolution::Allowed => "it was allowed",
            Resolution::Refused => "it was denied",
            Resolution::Cancelled => "it was withdrawn",
            Resolution::Unavailable => "there was no one to ask",
            Resolution::Expired => "nobody answered in time",
            Resolution::Resumed => "its call was resumed",
        };
        return Ok(Problem::new(format!("the question `{request}` is settled already: {how}")));
    }
    let waiting: Vec<&str> = heads.iter().flat_map(|head| &head.waits).map(RequestId::as_str).collect();
    let next = match waiting.as_slice() {
        [] => "no question waits in this project".to_owned(),
        some => format!("these wait: {}", some.join(", ")),
    };
    Ok(Problem::new(format!("no question `{request}` waits here")).next(next))
}
