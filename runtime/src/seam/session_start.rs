//! `agent/session-start`: once per start, before the next turn's first request. It adds context, and decides nothing but that this
//! turn may not be: a halt ends it before its prompts are judged.

use super::{Decided, Decision, Failure, Point, Scene, Seam};
use crate::plan::{Entry, Table};
use serde::{Deserialize, Serialize};

/// What started the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StartSource {
    /// It is new.
    Startup,
    /// It was reopened from its log.
    Resume,
    /// It is new, and begins afresh after one whose conversation was cleared.
    Clear,
    /// Its conversation was summarised. It fires with the turn after that.
    Compact,
    /// It goes on from a copy of another session's log.
    Fork,
}

impl StartSource {
    /// Every way in which a session starts here.
    pub const ALL: [StartSource; 5] = [
        StartSource::Startup,
        StartSource::Resume,
        StartSource::Clear,
        StartSource::Compact,
        StartSource::Fork,
    ];

    /// The name, as hooks match it.
    pub fn name(self) -> &'static str {
        match self {
            StartSource::Startup => "startup",
            StartSource::Resume => "resume",
            StartSource::Clear => "clear",
            StartSource::Compact => "compact",
            StartSource::Fork => "fork",
        }
    }
}

/// What a session-start handler sees.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Starting {
    /// Where.
    pub scene: Scene,
    /// What started the session.
    pub source: StartSource,
    /// The model's name, if the host gave one.
    pub model: Option<std::sync::Arc<str>>,
}

impl Starting {
    /// Describes a start.
    pub fn new(scene: Scene, source: StartSource, model: Option<std::sync::Arc<str>>) -> Starting {
        Starting { scene, source, model }
    }
}

/// Seen. Context rides in the [`Reply`](super::Reply).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Started {}

/// The seam.
#[derive(Debug)]
pub struct SessionStart;

impl Seam for SessionStart {
    const POINT: Point = Point::SessionStart;
    type Input = Starting;
    type Decision = Started;
    type Folded = ();

    fn failed(_: &Failure) -> Started {
        Started {}
    }
    fn fold(_: &[Decided<Started>]) {}
    fn scene(input: &Starting) -> &Scene {
        &input.scene
    }
    fn record(decision: Started) -> Decision {
        Decision::SessionStart(decision)
    }
    fn recall(decision: &Decision) -> Option<&Started> {
        match decision {
            Decision::SessionStart(d) => Some(d),
            _ => None,
        }
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.session_start
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.session_start
    }
}
