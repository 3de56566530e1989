//! A workspace in a folder of its own, and calls by hand.
#![allow(dead_code)] // Each test binary uses its own part.

use portcullis_runtime::{
    CallKey, CallPath, Cancel, Execution, Frozen, Mint, Output, Scene, SessionId, SessionInfo, Tool, ToolCx,
    ToolError,
};
use portcullis_tools::Workspace;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// Longer than anything here takes on a loaded machine; reached only by a defect.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Desk {
    /// Holds the workspace and things beside it.
    pub(crate) outer: tempfile::TempDir,
    pub(crate) workspace: Workspace,
    pub(crate) cwd: PathBuf,
}

/// A workspace `root` inside a folder that also has a `secret` outside of it.
pub(crate) fn desk() -> Desk {
    let outer = tempfile::tempdir().expect("a folder");
    let root = outer.path().join("root");
    std::fs::create_dir(&root).expect("a root");
    std::fs::write(outer.path().join("secret"), "secret\n").expect("a secret");
    let workspace = Workspace::new(&root).expect("a workspace");
    Desk { outer, cwd: workspace.root().to_owned(), workspace }
}

impl Desk {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.workspace.root().join(name)
    }

    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).expect("written");
    }

    pub(crate) fn get(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("readable")
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let tools = self.workspace.tools();
        tools.into_iter().find(|tool| &*tool.spec().name == name).expect("a tool of this name")
    }

    /// A call as the runtime would seal it: only after its schema accepted the arguments.
    pub(crate) fn execution(&self, name: &str, arguments: &str) -> Execution {
        let spec = self.tool(name).spec();
        let arguments = Frozen::arguments(arguments).expect("JSON");
        spec.accepts(&arguments).expect("arguments of the schema");
        let session = SessionInfo::new(SessionId::new("s").expect("a name"), self.cwd.clone(), "library");
        let scene = Scene::new(Arc::new(session), 1, 1, None);
        let key = CallKey { turn: 1, step: 1, call: CallPath::top(0) };
        let id = Mint::new(1).root().id();
        Execution::new(id, None, scene, key, "c1".into(), Arc::new(spec), arguments.clone(), arguments)
    }

    pub(crate) fn call_until(
        &self,
        name: &str,
        arguments: &str,
        cancel: Cancel,
    ) -> Result<Output, ToolError> {
        let (tool, execution) = (self.tool(name), self.execution(name, arguments));
        block_on(tool.call(execution, ToolCx::new(cancel, 1)))
    }

    pub(crate) fn call(&self, name: &str, arguments: &str) -> Result<Output, ToolError> {
        self.call_until(name, arguments, Cancel::new())
    }

    /// Text and value of a call that must succeed.
    pub(crate) fn done(&self, name: &str, arguments: &str) -> (String, String) {
        parts(self.call(name, arguments).unwrap_or_else(|error| panic!("{name} {arguments}: {error}")))
    }

    /// The text of a call that must fail.
    pub(crate) fn refused(&self, name: &str, arguments: &str) -> String {
        match self.call(name, arguments) {
            Err(error) => error.to_string(),
            Ok(output) => panic!("{name} {arguments}: {output:?}"),
        }
    }
}

pub(crate) fn parts(output: Output) -> (String, String) {
    let value = output.value.map(|value| value.text().to_owned()).unwrap_or_default();
    (output.content.to_text().into_owned(), value)
}

/// A JSON string.
pub(crate) fn quoted(text: impl AsRef<str>) -> String {
    Frozen::of(text.as_ref()).expect("text").text().to_owned()
}

/// Runs on a current-thread runtime, as an arbiter would.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("the call hangs") })
}

/// Polls until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The process id a command wrote into a file.
pub(crate) fn pid_in(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.strip_suffix('\n')?.trim().parse().ok()
}

/// Whether a process runs. A zombie does not.
pub(crate) fn alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) else { return false };
    let stat = String::from_utf8_lossy(&stat).into_owned();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
