//! `introspect()`: the table, row by row, as the dispatcher reads it (C-SEAM-6).

use super::{Entry, Mounted, Scope, Table};
use crate::{HandlerId, Point, seam::Seam};
use serde::Serialize;
use std::{sync::Arc, time::Duration};

/// One row of `introspect()`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Registered {
    /// The point.
    pub point: Point,
    /// Who.
    #[serde(flatten)]
    pub id: HandlerId,
    /// For which tools, prompts or events, in the owner's own words.
    pub matches: Arc<str>,
    /// How far it reaches.
    pub scope: Scope,
    /// What a failure means.
    pub on_failure: Arc<str>,
    /// The time limit in milliseconds; `None` for guards, wrappers and observers, which have none of their own, but for
    /// observers of a turn's start, and of a session's end that say so.
    pub limit_ms: Option<u64>,
    /// The place in its point's order, from 0.
    pub order: u32,
    /// False for a bridge's.
    pub native: bool,
}

impl Registered {
    /// Describes a registration; order and scope are filled in by `introspect()`.
    pub fn new(
        point: Point,
        id: HandlerId,
        matches: impl Into<Arc<str>>,
        on_failure: impl Into<Arc<str>>,
        limit: Option<Duration>,
        native: bool,
    ) -> Registered {
        let limit_ms = limit.map(millis);
        let (matches, on_failure) = (matches.into(), on_failure.into());
        Registered { point, id, matches, scope: Scope::Runtime, on_failure, limit_ms, order: 0, native }
    }
}

impl Table {
    /// Every registration, by point, in the order in which they run.
    pub fn introspect(&self) -> Vec<Registered> {
        let mut rows = Vec::new();
        for observer in &self.start_observers {
            let (described, limit) = (observer.run.describe(), Some(observer.run.limit()));
            of_observer(Point::TurnStart, observer, described, limit, &mut rows);
        }
        entries(&self.session_start, &mut rows);
        entries(&self.subagent_start, &mut rows);
        entries(&self.prompt_submit, &mut rows);
        entries(&self.rewrite, &mut rows);
        entries(&self.pre_execute, &mut rows);
        entries(&self.permission, &mut rows);
        mounted(Point::Asked, &self.ask_observers, &mut rows);
        mounted(Point::Guard, self.guards(), &mut rows);
        mounted(Point::Execute, &self.wrappers, &mut rows);
        entries(&self.post_execute, &mut rows);
        mounted(Point::Result, &self.observers, &mut rows);
        entries(&self.batch, &mut rows);
        entries(&self.continuation, &mut rows);
        entries(&self.turn_stop, &mut rows);
        entries(&self.compaction, &mut rows);
        entries(&self.compacted, &mut rows);
        mounted(Point::TurnEnd, &self.turn_observers, &mut rows);
        mounted(Point::SubagentEnd, &self.child_observers, &mut rows);
        for observer in &self.end_observers {
            let (described, limit) = (observer.run.describe(), observer.run.limit());
            of_observer(Point::SessionEnd, observer, described, limit, &mut rows);
        }
        let mut order = 0;
        let mut last = None;
        for row in &mut rows {
            order = if last == Some(row.point) { order + 1 } else { 0 };
            last = Some(row.point);
            row.order = order;
        }
        rows
    }

    /// The owners that the host opted this agent out of.
    pub fn opted_out(&self) -> &[Arc<str>] {
        &self.opted_out
    }

    /// What no gate of this table can reach, with the reason. A policy stated here does not cover it.
    pub fn uncovered(&self) -> Vec<(&'static str, &'static str)> {
        vec![(
            "tools that the model's provider runs on its own side",
            "their calls never come through here: only their text does",
        )]
    }
}

fn entries<S: Seam>(entries: &[Entry<S>], rows: &mut Vec<Registered>) {
    for entry in entries {
        match entry {
            Entry::One { planned, matches, scope } => {
                let (point, limit) = (S::POINT, Some(planned.deadline));
                let id = planned.id.clone();
                let row = Registered::new(point, id, matches.to_string(), point.on_failure(), limit, true);
                rows.push(Registered { scope: *scope, ..row });
            }
            Entry::Many { source, scope, .. } => {
                rows.extend(source.describe().into_iter().map(|row| Registered { scope: *scope, ..row }));
            }
        }
    }
}

/// An observer that may wait: itself with its limit, or what it is described as.
fn of_observer<T: ?Sized>(
    point: Point,
    observer: &Mounted<T>,
    described: Option<Vec<Registered>>,
    limit: Option<Duration>,
    rows: &mut Vec<Registered>,
) {
    let from = rows.len();
    match described {
        Some(described) => rows.extend(described),
        None => {
            mounted(point, [observer], rows);
            rows[from..].iter_mut().for_each(|row| row.limit_ms = limit.map(millis));
        }
    }
    rows[from..].iter_mut().for_each(|row| row.scope = observer.scope);
}

fn millis(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}

fn mounted<'m, T: ?Sized + 'm>(
    point: Point,
    mounted: impl IntoIterator<Item = &'m Mounted<T>>,
    rows: &mut Vec<Registered>,
) {
    for m in mounted {
        let row = Registered::new(point, m.id.clone(), m.matches.to_string(), point.on_failure(), None, true);
        rows.push(Registered { scope: m.scope, ..row });
    }
}
