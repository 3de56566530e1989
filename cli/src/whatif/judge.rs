//! Other hooks at a moment of the log: they run.

use super::moments::{Moment, Moments, OWNER, Said, recall};
use crate::problem::Problem;
use portcullis::{
    CallKey, CallPath, Decision, DecisionRecorded, Ending, Execution, Extension, Failure, Frozen, Guard,
    GuardVerdict, HandlerDecision, Mint, Point, PostExecute, PreExecute, PromptSubmit, Proposal, Proposed,
    Record, Reply, Returned, Rewrite, Scene, Seam, SessionId, SessionInfo, SessionStart, Starting, Subject,
    Submitted, Table, ToolSpec, TurnContinuation,
    hooks::{Hooks, Transcript},
    law::State,
};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// The other hooks, and what they are told of the session.
pub(super) struct Judge {
    table: Table,
    info: Arc<SessionInfo>,
    transcript: Transcript,
}

impl Judge {
    pub(super) fn new(
        hooks: &Arc<Hooks>,
        session: &SessionId,
        cwd: PathBuf,
        channel: Arc<str>,
    ) -> Result<Judge, Problem> {
        let mut table = Table::new();
        table.register(hooks.owner(), |at| hooks.clone().register(at));
        let transcript = Transcript::of(hooks, session.clone())?;
        let info = Arc::new(SessionInfo::new(session.clone(), cwd, channel));
        Ok(Judge { table, info, transcript })
    }

    /// The session has come further: hooks may read of it.
    pub(super) fn tell(&mut self, record: &Record) -> Result<(), Problem> {
        if let portcullis::Body::ConfigInForce(config) = &record.body {
            Arc::make_mut(&mut self.info).model = Some(config.model.clone());
        }
        Ok(self.transcript.add(record)?)
    }

    /// What would be decided: what the log has of others, and what these hooks say now.
    pub(super) async fn judge(
        &self,
        moment: &Moment,
        moments: &Moments,
        state: &State,
    ) -> Result<Option<Said>, Problem> {
        let turn = state.open_turn().unwrap_or_default();
        let scene = Scene::new(self.info.clone(), turn, state.step_number(), state.current_prompt());
        let (at, subject) = (moment.at(), moment.subject());
        let others = |point| {
            let all = moments.decided(at, point, &subject).iter();
            all.filter(|d| *d.id.owner != *OWNER).cloned().collect::<Vec<_>>()
        };
        let mut made: Vec<DecisionRecorded> = Vec::new();
        match moment {
            Moment::Start { source, .. } => {
                let input = Starting::new(scene, *source, self.info.model.clone());
                made.extend(self.ask::<SessionStart>(input, &subject).await);
            }
            Moment::Prompt { from, content, .. } => {
                let input = Submitted::new(scene, *from, content.clone(), portcullis::Source::User);
                made.extend(self.ask::<PromptSubmit>(input, &subject).await);
            }
            Moment::Call { id, name, requested, .. } => {
                let spec = spec(moments, name)?;
                let key = key(at);
                let mut input =
                    Proposed::new(scene.clone(), key.clone(), id.clone(), spec.clone(), requested.clone());
                // Native rewriters run first; hooks see what those left.
                let native = Rewrite::fold(&recall::<Rewrite>(&others(Point::Rewrite)));
                if let Some((by, arguments)) = native.effective {
                    Rewrite::advance(&mut input, &by, &Proposal::arguments(arguments), true);
                }
                made.extend(self.ask::<Rewrite>(input, &subject).await);
                let all: Vec<DecisionRecorded> =
                    others(Point::Rewrite).into_iter().chain(made.iter().cloned()).collect();
                let effective = Rewrite::fold(&recall::<Rewrite>(&all)).effective;
                let arguments = effective.map_or_else(|| requested.clone(), |(_, arguments)| arguments);
                let call = execution(scene, key, id, spec, requested, arguments);
                made.extend(self.ask::<PreExecute>(call.clone(), &subject).await);
                made.extend(self.guards(&call, &subject));
            }
            Moment::Result { id, name, arguments, outcome, ms, .. } => {
                let spec = spec(moments, name).ok();
                let took = Duration::from_millis(*ms);
                let (id, name) = (id.clone(), name.clone());
                let input =
                    Returned::new(scene, key(at), id, name, spec, arguments.clone(), outcome.clone(), took);
                made.extend(self.ask::<PostExecute>(input, &subject).await);
            }
            Moment::Stop { .. } => {
                let ending = Ending::new(scene, state.forced_in_a_row(), state.last_text());
                let input = ending.forced_in_turn(state.forced_in_turn());
                made.extend(self.ask::<TurnContinuation>(input, &subject).await);
            }
        }
        let of = |point: Point| {
            let now = made.iter().filter(|d| d.point == point).cloned();
            others(point).into_iter().chain(now).collect::<Vec<_>>()
        };
        Ok(Some(moment.said(&of)))
    }

    async fn ask<S: Seam>(&self, mut input: S::Input, subject: &Subject) -> Vec<DecisionRecorded> {
        let mut made = Vec::new();
        for (order, planned) in (0..).zip(self.table.plan::<S>(&input)) {
            let reply = match planned.run.decide(input.clone()).await {
                Ok(reply) => reply,
                Err(error) => {
                    let failure = Failure::Error { message: error.to_string().into() };
                    Reply::new(S::failed(&failure)).failed(failure)
                }
            };
            S::advance(&mut input, &planned.id, &reply.decision, planned.native);
            let decided = HandlerDecision {
                id: planned.id.clone(),
                order,
                decision: S::record(reply.decision),
                context: reply.context,
                halt: reply.halt,
                failure: reply.failure,
                ms: 0,
            };
            made.push(DecisionRecorded { point: S::POINT, subject: subject.clone(), made: decided });
        }
        made
    }

    fn guards(&self, call: &Execution, subject: &Subject) -> Vec<DecisionRecorded> {
        let denies = self.table.guards().filter_map(|guard| {
            let reason = Guard::check(&*guard.run, call)?;
            let decided = HandlerDecision {
                id: guard.id.clone(),
                order: 0,
                decision: Decision::Guard(GuardVerdict::Deny { reason }),
                context: Vec::new(),
                halt: None,
                failure: None,
                ms: 0,
            };
            Some(DecisionRecorded { point: Point::Guard, subject: subject.clone(), made: decided })
        });
        denies.collect()
    }
}

fn key(at: &portcullis::At) -> CallKey {
    CallKey {
        turn: at.turn.unwrap_or_default(),
        step: at.step.unwrap_or_default(),
        call: at.call.clone().unwrap_or_else(|| CallPath::top(0)),
    }
}

fn spec(moments: &Moments, name: &str) -> Result<Arc<ToolSpec>, Problem> {
    let tool =
        moments.tool(name).ok_or_else(|| Problem::new(format!("the log does not describe `{name}`")))?;
    Ok(Arc::new(ToolSpec::new(&tool.name, tool.description.clone(), tool.schema.clone())?))
}

fn execution(
    scene: Scene,
    key: CallKey,
    id: &Arc<str>,
    spec: Arc<ToolSpec>,
    requested: &Frozen,
    arguments: Frozen,
) -> Execution {
    let token = Mint::new(0).root().id();
    Execution::new(token, None, scene, key, id.clone(), spec, requested.clone(), arguments)
}
