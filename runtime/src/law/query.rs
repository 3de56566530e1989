//! What a driver asks about calls of the open step.

use super::{Body, Call, State};
use crate::{CallPath, ToolResult};
use std::sync::Arc;

impl State {
    fn find_call(&self, path: &CallPath) -> Option<&Call> {
        self.turn.as_deref()?.step.as_ref()?.calls.get(path)
    }

    /// The calls of the model in the open step that have no result yet, in order, with their tools' names.
    pub fn open_calls(&self) -> Vec<(CallPath, Arc<str>)> {
        let Some(step) = self.turn.as_deref().and_then(|t| t.step.as_ref()) else { return Vec::new() };
        let open = step.calls.iter().filter(|(path, call)| path.is_top() && !call.result);
        open.map(|(path, call)| (path.clone(), call.name.clone())).collect()
    }

    /// The attempt whose body runs, as far as the log says.
    pub fn running(&self, path: &CallPath) -> Option<u32> {
        match self.find_call(path)?.body {
            Body::Running { attempt } => Some(attempt),
            _ => None,
        }
    }

    /// The result of a nested call, for the body that made it.
    pub fn call_result(&self, path: &CallPath) -> Option<Arc<ToolResult>> {
        self.find_call(path)?.given.clone()
    }

    /// How many calls a call's body has made so far: the position of the next one.
    pub fn nested_calls(&self, path: &CallPath) -> u32 {
        let Some(step) = self.turn.as_deref().and_then(|t| t.step.as_ref()) else { return 0 };
        let depth = path.positions().len();
        let direct =
            |p: &&CallPath| p.positions().len() == depth + 1 && p.positions().starts_with(path.positions());
        step.calls
            .keys()
            .filter(direct)
            .filter_map(|p| p.positions().last().map(|n| n + 1))
            .max()
            .unwrap_or(0)
    }
}
