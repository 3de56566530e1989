//! C-DUR-1, 2, 3 with real processes, files and shell hooks: a process is killed by SIGKILL right after, or right before, its
//! n-th append is on disk; another one reopens the journal and finishes; the histories are compared.
//!
//! A run of the tests takes a sample of the boundaries. `PORTCULLIS_CRASH_SWEEP=all` takes every one.

#[path = "../../tests/recovery/house.rs"]
#[expect(dead_code, reason = "the sweep within one process uses more of it")]
mod house;
#[path = "../../tests/recovery/logs.rs"]
mod logs;
#[path = "../../tests/recovery/once.rs"]
mod once;
#[path = "../../tests/recovery/story.rs"]
mod story;

use house::{Mind, Ran, Staff, builder, finish};
use logs::{Logs, stored};
use once::{committed, each, ran_nothing_twice};
use portcullis::{
    Batch, Journal, JournalError, Ownership, Ticket, hooks::ClaudeHooks, journal::Around,
    sqlite::SqliteJournal,
};
use rustix::process::{Signal, getpid, kill_process};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::ErrorKind,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use story::{Blurred, Story, lawful, same, unknown};

/// `after N` or `before N`: what the process that is to be killed finds in its environment.
const DIE: &str = "PORTCULLIS_CRASH_SWEEP_DIE";
const DIR: &str = "PORTCULLIS_CRASH_SWEEP_DIR";
const MODE: &str = "PORTCULLIS_CRASH_SWEEP";

/// How many boundaries of each kind a sample has.
const SAMPLE: u64 = 12;

/// Every hook writes down what it was told, and one of them decides.
const HOOKS: &str = r#"{"hooks": {
    "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "cat >> hooks.log; echo >> hooks.log"}]}],
    "PreToolUse": [{"matcher": "Note", "hooks": [{"type": "command",
        "command": "input=$(cat); printf '%s\n' \"$input\" >> hooks.log; case \"$input\" in *shovel*) echo 'not with a shovel' >&2; exit 2;; esac"}]}],
    "PostToolUse": [{"matcher": "Flaky", "hooks": [{"type": "command",
        "command": "cat >> hooks.log; echo >> hooks.log; echo '{\"hookSpecificOutput\": {\"hookEventName\": \"PostToolUse\", \"additionalContext\": \"a hook saw it\"}}'"}]}],
    "Stop": [{"hooks": [{"type": "command", "command": "cat >> hooks.log; echo >> hooks.log"}]}]
}}"#;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Death {
    Never,
    /// This append is on disk, nothing behind it.
    After(u64),
    /// What this append says has happened, and is not on disk; everything before it is.
    Before(u64),
}

/// A journal that takes its process down.
#[derive(Clone)]
struct Deadly {
    inner: SqliteJournal,
    death: Death,
    appends: Arc<Mutex<u64>>,
    last: Arc<Mutex<Option<Ticket>>>,
}

impl Deadly {
    fn new(dir: &Path, death: Death) -> Deadly {
        let inner = SqliteJournal::open(dir.join("journal.db")).unwrap();
        Deadly { inner, death, appends: Arc::default(), last: Arc::default() }
    }
}

/// Dies once this append, and so all before it, is on disk.
fn die_behind(ticket: Option<&Ticket>) -> ! {
    let durable = || ticket.is_none_or(Ticket::is_durable);
    let patient = (0..60_000).any(|_| {
        durable() || {
            thread::sleep(Duration::from_millis(1));
            false
        }
    });
    assert!(patient, "the journal does not write");
    kill_process(getpid(), Signal::KILL).unwrap();
    loop {
        thread::park();
    }
}

impl Around for Deadly {
    type Inner = SqliteJournal;

    fn inner(&self) -> &SqliteJournal {
        &self.inner
    }

    fn on_append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError> {
        let mut appends = self.appends.lock().unwrap();
        *appends += 1;
        let mut last = self.last.lock().unwrap();
        if self.death == Death::Before(*appends) {
            die_behind(last.as_ref());
        }
        let ticket = self.inner.append(own, batch)?;
        *last = Some(ticket.clone());
        if self.death == Death::After(*appends) {
            die_behind(last.as_ref());
        }
        Ok(ticket)
    }
}

/// Plays the script in `dir` from where its journal stands.
async fn play(dir: &Path, death: Death) -> (Ran, u64, Logs) {
    let file = fs::File::options().create(true).append(true).open(dir.join("ran.log")).unwrap();
    let ran = Ran { file: Some(Arc::new(Mutex::new(file))), ..Ran::default() };
    let (hooks, reports) = ClaudeHooks::load(dir);
    assert!(reports.is_empty(), "{reports:?}");
    let journal = Deadly::new(dir, death);
    finish(builder(Mind::Fixed, Staff::Same, &ran).mount_deciding(hooks), journal.clone(), dir).await;
    let appends = *journal.appends.lock().unwrap();
    let logs = stored(&journal).await;
    (ran, appends, logs)
}

fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(".claude")).unwrap();
    fs::write(dir.path().join(".claude/settings.json"), HOOKS).unwrap();
    dir
}

fn lines(file: &Path) -> Vec<String> {
    match fs::read_to_string(file) {
        Ok(text) => text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

/// Starts this program anew, in its other role, and waits until it has been killed.
fn be_killed(dir: &Path, death: Death) {
    let (word, n) = match death {
        Death::After(n) => ("after", n),
        Death::Before(n) => ("before", n),
        Death::Never => unreachable!("it is to be killed"),
    };
    let mut command = Command::new(env::current_exe().unwrap());
    let status = command.env(DIE, format!("{word} {n}")).env(DIR, dir).status().unwrap();
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{death:?}: {status}");
}

/// What one kill showed.
#[derive(Default)]
struct Seen {
    unknown: usize,
    /// Handlers that ran a second time because their first answer was not on disk.
    again: usize,
    /// How often handlers and hooks ran, by the number of runs.
    runs: BTreeMap<usize, usize>,
}

/// Kills, reopens, finishes, compares.
async fn kill(death: Death, whole: &Logs) -> Seen {
    let at = format!("{death:?}");
    let project = project();
    let dir = &fs::canonicalize(project.path()).unwrap();
    be_killed(dir, death);
    let left = SqliteJournal::read_only(dir.join("journal.db")).unwrap();
    let before = stored(&left).await;
    drop(left);
    let ran_before = lines(&dir.join("ran.log"));
    let (ran, _, after) = play(dir, Death::Never).await;
    lawful(&after);
    for (session, records) in &before {
        assert!(after[session].starts_with(records), "{at}: {session} was changed");
    }
    ran_nothing_twice(&before, &ran, &at);
    let mut blurred = Blurred::default();
    blurred.add(&before);
    let told = unknown(&after);
    assert_eq!(told.keys().cloned().collect::<BTreeSet<_>>(), blurred.unknown, "{at}");
    same(&Story::of(&after, &blurred), &Story::of(whole, &blurred), &at);

    // C-DUR-7: what was killed and finished plays again, with its hooks, in as many lives as it had.
    for (session, log) in &after {
        let replayed =
            portcullis::replay(log.clone()).await.unwrap_or_else(|e| panic!("{at}: {session}: {e}"));
        assert_eq!(replayed.divergence, None, "{at}: {session}");
        assert_eq!((replayed.records, replayed.called), (log.len() as u64, 0), "{at}: {session}");
    }

    // Every handler whose decision is in the log ran once, over both processes; but for the one whose answer was lost.
    let mut seen = Seen { unknown: told.len(), ..Seen::default() };
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines(&dir.join("ran.log")) {
        if let Some(key) = line.strip_prefix("handler\t") {
            *runs.entry(key.to_owned()).or_default() += 1;
        }
    }
    let decided = committed(&before);
    for key in ran_before.iter().filter_map(|line| line.strip_prefix("handler\t")) {
        let lost = !decided.contains(key);
        assert!(runs[key] == 1 || lost && runs[key] == 2, "{at}: {key} ran {} times", runs[key]);
        seen.again += usize::from(runs[key] == 2);
    }
    for times in runs.values() {
        *seen.runs.entry(*times).or_default() += 1;
    }
    // Hooks, by what they were told.
    let told = lines(&dir.join("hooks.log"));
    let answered = each(&after)
        .flat_map(|(_, r)| r.body.decisions().into_iter().flat_map(|d| d.made))
        .filter(|made| &*made.id.owner != "house")
        .count();
    let lost = told.len().checked_sub(answered).expect("a decision without a run");
    assert!(lost <= usize::from(matches!(death, Death::Before(_))), "{at}: {lost} hooks ran again");
    seen.again += lost;
    seen
}

async fn sweep() {
    let project = project();
    let dir = &fs::canonicalize(project.path()).unwrap();
    let (ran, appends, whole) = play(dir, Death::Never).await;
    lawful(&whole);
    ran_nothing_twice(&Logs::new(), &ran, "unkilled");
    let records = each(&whole).count();
    let decisions: usize = each(&whole).filter_map(|(_, r)| Some(r.body.decisions()?.made.len())).sum();
    let hooks = lines(&dir.join("hooks.log")).len();
    assert!(decisions >= 150 && hooks >= 25, "{decisions} decisions, {hooks} hooks");
    println!(
        "unkilled: {appends} appends, {records} records in {} sessions, {decisions} decisions, {hooks} hook processes",
        whole.len()
    );
    let all = env::var(MODE).is_ok_and(|mode| mode == "all");
    let step = if all { 1 } else { (appends / SAMPLE).max(1) };
    let after = (1..=appends).step_by(usize::try_from(step).unwrap()).map(Death::After);
    let before = (1 + step / 2..=appends).step_by(usize::try_from(step).unwrap()).map(Death::Before);
    let (mut kills, mut total) = (0, Seen::default());
    for death in before.chain(after) {
        let seen = kill(death, &whole).await;
        kills += 1;
        total.unknown += seen.unknown;
        total.again += seen.again;
        for (times, keys) in seen.runs {
            *total.runs.entry(times).or_default() += keys;
        }
    }
    println!("{kills} kills at {} boundaries, {} outcomes unknown", appends, total.unknown);
    println!(
        "handler runs per key: {:?}; answers lost with the process and asked for again: {}",
        total.runs, total.again
    );
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let (Ok(die), Ok(dir)) = (env::var(DIE), env::var(DIR)) {
        let (word, n) = die.split_once(' ').expect("a word and a number");
        let n = n.parse().unwrap();
        let death = if word == "after" { Death::After(n) } else { Death::Before(n) };
        runtime.block_on(play(Path::new(&dir), death));
        panic!("it outlived {death:?}");
    }
    // Whoever lists tests or picks some by name gets none: this is one program.
    if env::args().skip(1).any(|arg| arg == "--list") {
        return;
    }
    runtime.block_on(sweep());
}
