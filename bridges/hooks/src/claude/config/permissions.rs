//! `permissions` of a settings file: `deny` as a guard, `ask` as a voice in the gate (C-BRIDGE-8).
//!
//! `allow` needs no code: it could only waive an ask of a default policy, and here no call needs approval by default.

use crate::{
    claude::matcher::rule::Rule,
    definition::{Condition, Origin},
};
use portcullis_runtime::{Execution, Gate, Registrar};
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

    pub(crate) fn register(self: &Arc<Self>, at: &mut Registrar<'_>) {
        if !self.deny.is_empty() {
            let of = self.clone();
            at.guard("permissions.deny", move |call| {
                let (origin, rule) = of.first(&of.deny, call)?;
                Some(
                    format!("The permission rule {} in {} denies this call.", rule.text(), origin.name())
                        .into(),
                )
            });
        }
        if !self.ask.is_empty() {
            let of = self.clone();
            at.pre_execute("permissions.ask", async move |call: Execution| match of.first(&of.ask, &call) {
                Some((origin, rule)) => Gate::ask(format!(
                    "The permission rule {} in {} asks about this call.",
                    rule.text(),
                    origin.name()
                )),
                None => Gate::allow(),
            });
        }
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
