//! `permissions` of a settings file: `deny` as a guard, `ask` as a voice in the gate (C-BRIDGE-8).
//!
//! `allow` needs no code: it could only waive an ask of a default policy, and here no call needs approval by default.

use crate::{
    claude::matcher::rule::Rule,
    definition::{Condition, Origin},
    set::Rules,
};
use portcullis_runtime::{Execution, Reason};
use std::{path::PathBuf, sync::Arc};

/// The rules of all layers.
pub(crate) struct Permissions {
    project: PathBuf,
    deny: Vec<(Arc<Origin>, Rule)>,
    ask: Vec<(Arc<Origin>, Rule)>,
}

impl Permissions {
    pub(crate) fn new(
        project: PathBuf,
        deny: Vec<(Arc<Origin>, Rule)>,
        ask: Vec<(Arc<Origin>, Rule)>,
    ) -> Arc<Permissions> {
        Arc::new(Permissions { project, deny, ask })
    }

    fn first<'r>(
        &self,
        rules: &'r [(Arc<Origin>, Rule)],
        call: &Execution,
    ) -> Option<&'r (Arc<Origin>, Rule)> {
        let (input, cwd) = (call.arguments.root(), &call.scene.session.cwd);
        rules.iter().find(|(_, rule)| rule.holds(&call.tool.name, input, &self.project, cwd))
    }
}

impl Rules for Permissions {
    fn denies(&self) -> bool {
        !self.deny.is_empty()
    }

    fn asks(&self) -> bool {
        !self.ask.is_empty()
    }

    fn deny(&self, call: &Execution) -> Option<Reason> {
        let (origin, rule) = self.first(&self.deny, call)?;
        Some(format!("The permission rule {} in {} denies this call.", rule.text(), origin.name()).into())
    }

    fn ask(&self, call: &Execution) -> Option<Reason> {
        let (origin, rule) = self.first(&self.ask, call)?;
        Some(format!("The permission rule {} in {} asks about this call.", rule.text(), origin.name()).into())
    }
}
