//! Tools that stand in for the real ones: they take any arguments, do nothing, and answer what the case says. A case can
//! then be about `rm -rf` on anyone's machine.

use super::feed::Feed;
use super::script::{AGENT, SPAWN, has_agent, task};
use portcullis::{
    AgentSpec, Execution, Frozen, Outcome, Output, Tool, ToolCx, ToolError, ToolSpec, raw_tool,
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// What the body of one call does.
#[derive(Debug, Clone)]
enum Body {
    Answer(Output),
    Fail(String),
    /// Has an agent of this kind work on this task.
    Agent {
        kind: String,
        task: String,
    },
    /// Calls these tools.
    Calls(Vec<(String, String)>),
}

/// A tool for each name the case uses.
pub(super) fn tools(feed: &Feed) -> Result<Vec<Arc<dyn Tool>>, String> {
    let mut bodies: HashMap<String, Body> = HashMap::new();
    for round in &feed.rounds {
        let under: Vec<_> = feed.rounds.iter().filter(|r| r.parent.as_deref() == Some(&round.id)).collect();
        let body = if has_agent(feed, &round.id) {
            let kind = under.iter().find_map(|round| round.agent.clone()).unwrap_or_default();
            Body::Agent { kind, task: task(&round.id) }
        } else if under.is_empty() {
            answer(round.response.as_deref(), feed.fails)?
        } else {
            Body::Calls(under.iter().map(|round| (round.tool.clone(), round.input.clone())).collect())
        };
        bodies.insert(round.id.clone(), body);
    }
    let mut names: BTreeSet<&str> = feed.rounds.iter().map(|round| &*round.tool).collect();
    names.remove("");
    if let Some(agent) = &feed.agent {
        bodies.insert(SPAWN.into(), Body::Agent { kind: agent.kind.clone(), task: task(SPAWN) });
        names.insert(AGENT);
    }
    let otherwise = answer(None, feed.fails)?;
    let bodies = Arc::new(bodies);
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for name in names {
        let any = Frozen::parse(r#"{"type":"object"}"#).map_err(|refused| refused.to_string())?;
        let spec = ToolSpec::new(name, "Stands in for the real tool.", any).map_err(|e| e.to_string())?;
        let (bodies, otherwise) = (bodies.clone(), otherwise.clone());
        tools.push(Arc::new(raw_tool(spec, async move |call: Execution, cx: ToolCx| {
            run(bodies.get(&*call.call_id).unwrap_or(&otherwise), &cx).await
        })));
    }
    Ok(tools)
}

/// What the case says the tool answers: a text as text, anything else as data, which hooks then see as it is.
fn answer(response: Option<&str>, fails: bool) -> Result<Body, String> {
    let output = match response {
        None => Output::text("ok"),
        Some(json) => match serde_json::from_str::<String>(json) {
            Ok(text) => Output::text(text),
            Err(_) => {
                let value = Frozen::parse(json).map_err(|refused| format!("`tool_response`: {refused}"))?;
                Output::text(value.compact()).with_value(value)
            }
        },
    };
    Ok(match (fails, response) {
        (false, _) => Body::Answer(output),
        (true, None) => Body::Fail("The tool failed, as the case says.".into()),
        (true, Some(_)) => Body::Fail(output.content.to_text().into_owned()),
    })
}

async fn run(body: &Body, cx: &ToolCx) -> Result<Output, ToolError> {
    match body {
        Body::Answer(output) => Ok(output.clone()),
        Body::Fail(why) => Err(ToolError::new(&**why)),
        Body::Agent { kind, task } => {
            let spec = AgentSpec::new(&**kind, &**task);
            let done = cx.spawn(spec).await.map_err(|error| ToolError::new(error.to_string()))?;
            Ok(Output { content: done.report, value: None })
        }
        Body::Calls(calls) => {
            let mut said = Vec::new();
            for (tool, input) in calls {
                let outcome: Outcome = cx.call(tool, input).await;
                said.push(outcome.for_model().0.to_text().into_owned());
            }
            Ok(Output::text(said.join("\n")))
        }
    }
}
