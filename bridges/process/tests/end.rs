//! Children that do not behave: what a deadline, a cancel, a held pipe and a dropped future do about them.
#![cfg(target_os = "linux")]

mod common;

use common::{alive, block_on, kill, never, pid_in, sh, state, wait_until, written};
use portcullis_process::{Ending, HeldPipe, Leftover, Permits, Status, run};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_secs(1);

/// A grandchild in a session of its own that ignores TERM, and its id in `deep`.
const ESCAPEE: &str = "setsid sh -c 'trap \"\" TERM; echo $$ > deep; while :; do sleep 0.1; done' & ";

#[test]
fn a_child_that_follows_term_is_over_at_its_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let spec = sh(dir.path(), "echo $$ > lead; echo partial; exec sleep 100")
        .deadline(LIMIT)
        .grace(common::PATIENCE);
    let finished = block_on(run(spec, never())).unwrap();
    assert_eq!((finished.ending, finished.status), (Ending::TimedOut, Status::Signal(15)));
    assert!(finished.took >= LIMIT, "{:?}", finished.took);
    assert_eq!(finished.stdout.text(), "partial\n");
    assert!(!finished.pipe_held && finished.survivors.is_empty());
    assert_eq!(state(pid_in(dir.path(), "lead").unwrap()), None);
}

// C-BRIDGE-7: TERM, then KILL; every descendant found before the kill; no zombie stays.
#[test]
fn a_child_that_traps_term_costs_limit_and_grace_and_dies_with_its_escaped_grandchild() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("trap 'echo term >> got' TERM; {ESCAPEE} echo $$ > lead; while :; do sleep 0.1; done");
    let spec = sh(dir.path(), &text).deadline(LIMIT).grace(GRACE);
    let finished = block_on(run(spec, never())).unwrap();
    assert_eq!((finished.ending, finished.status), (Ending::TimedOut, Status::Signal(9)));
    assert!(finished.took >= LIMIT + GRACE, "{:?}", finished.took);
    // It was asked first.
    assert_eq!(std::fs::read_to_string(dir.path().join("got")).unwrap(), "term\n");
    let (lead, deep) = (pid_in(dir.path(), "lead").unwrap(), pid_in(dir.path(), "deep").unwrap());
    assert!(finished.ended.contains(&deep) && !finished.ended.contains(&lead), "{:?}", finished.ended);
    assert!(!alive(deep));
    assert_eq!(state(lead), None, "the leader is reaped");
    assert!(!finished.pipe_held && finished.survivors.is_empty());
}

// C-BRIDGE-7
#[test]
fn without_a_grace_nobody_is_asked_first() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("trap 'echo term >> got' TERM; {ESCAPEE} echo $$ > lead; while :; do sleep 0.1; done");
    let spec = sh(dir.path(), &text).grace(Duration::ZERO);
    let finished = block_on(run(spec, common::written(dir.path(), &["lead", "deep"]))).unwrap();
    assert_eq!((finished.ending, finished.status), (Ending::Cancelled, Status::Signal(9)));
    assert!(!dir.path().join("got").exists());
    assert!(!alive(pid_in(dir.path(), "deep").unwrap()) && finished.survivors.is_empty());
}

#[test]
fn a_cancel_ends_the_tree_too_and_a_stubborn_grandchild_does_not_cost_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let spec = sh(dir.path(), &format!("{ESCAPEE} echo $$ > lead; wait")).grace(common::PATIENCE * 2);
    // The grace is longer than the test may take: only the child's own end can shorten it.
    let finished = block_on(run(spec, written(dir.path(), &["lead", "deep"]))).unwrap();
    assert_eq!((finished.ending, finished.status), (Ending::Cancelled, Status::Signal(15)));
    assert!(!alive(pid_in(dir.path(), "deep").unwrap()));
}

#[test]
fn an_answer_to_term_that_starts_more_processes_leaves_none() {
    let dir = tempfile::tempdir().unwrap();
    let text = "trap 'setsid sh -c \"trap \\\"\\\" TERM; echo \\$\\$ > late; sleep 100\" & wait' TERM; \
                echo $$ > lead; while :; do sleep 0.1; done";
    let spec = sh(dir.path(), text).grace(LIMIT);
    let finished = block_on(run(spec, written(dir.path(), &["lead"]))).unwrap();
    assert_eq!(finished.ending, Ending::Cancelled);
    assert!(!alive(pid_in(dir.path(), "late").expect("the trap ran")));
    assert_eq!(state(pid_in(dir.path(), "lead").unwrap()), None);
}

#[test]
fn a_child_that_stopped_itself_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let spec = sh(dir.path(), "echo $$ > lead; kill -STOP $$").grace(GRACE);
    let cancel = async {
        written(dir.path(), &["lead"]).await;
        let lead = pid_in(dir.path(), "lead").unwrap();
        while state(lead) != Some('T') {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let finished = block_on(run(spec, cancel)).unwrap();
    assert_eq!((finished.ending, finished.status), (Ending::Cancelled, Status::Signal(9)));
}

#[test]
fn an_endless_flood_cannot_hold_up_the_deadline_or_a_cancel() {
    let dir = tempfile::tempdir().unwrap();
    let flood = || sh(dir.path(), "yes & exec yes >&2").stdout_cap(100).stderr_cap(100);
    let finished = block_on(run(flood().deadline(LIMIT), never())).unwrap();
    assert_eq!(finished.ending, Ending::TimedOut);
    assert_eq!((finished.stdout.bytes.len(), finished.stderr.bytes.len()), (100, 100));
    assert!(finished.stdout.dropped() > 0 && finished.stderr.dropped() > 0);
    let finished = block_on(run(flood(), async { tokio::time::sleep(GRACE).await })).unwrap();
    assert_eq!(finished.ending, Ending::Cancelled);
}

#[test]
fn a_deadline_covers_the_writing_of_stdin() {
    let dir = tempfile::tempdir().unwrap();
    let spec = sh(dir.path(), "exec sleep 100").stdin(vec![0; 1 << 20]).deadline(LIMIT);
    assert_eq!(block_on(run(spec, never())).unwrap().ending, Ending::TimedOut);
}

// C-BRIDGE-1 (Claude Code): late bytes within the silence count, then the run goes on; the holder is left alone.
#[test]
fn a_pipe_held_by_a_background_child_is_given_up_after_silence() {
    let dir = tempfile::tempdir().unwrap();
    // The last word comes after more than one silence, and never after a whole one.
    let text = "echo early; (sleep 2; echo late; sleep 2; echo later; exec sleep 100) & echo $! > bg; exit 5";
    let silence = Duration::from_secs(3);
    let spec = sh(dir.path(), text).held_pipe(HeldPipe::Silence(silence)).deadline(common::PATIENCE);
    let finished = block_on(run(spec, never())).unwrap();
    assert_eq!((finished.ending, finished.status), (Ending::Exited, Status::Code(5)));
    assert_eq!(finished.stdout.text(), "early\nlate\nlater\n");
    assert!(finished.pipe_held && finished.ended.is_empty());
    assert!(finished.took >= silence * 2);
    let background = pid_in(dir.path(), "bg").unwrap();
    assert!(alive(background));
    kill(background);
}

#[test]
fn leftovers_are_ended_if_the_caller_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let text = "(trap '' TERM; while :; do sleep 0.1; done) >/dev/null 2>&1 & echo $! > bg; echo ok";
    let finished = block_on(run(sh(dir.path(), text).leftover(Leftover::End), never())).unwrap();
    let background = pid_in(dir.path(), "bg").unwrap();
    assert_eq!((finished.ending, finished.status), (Ending::Exited, Status::Code(0)));
    assert_eq!(finished.stdout.text(), "ok\n");
    assert!(finished.ended.contains(&background) && !finished.pipe_held);
    assert!(!alive(background));
}

// C-BRIDGE-1 (Codex): completion is the end of the pipes, not of the process.
#[test]
fn waiting_for_the_end_of_the_pipes_takes_what_a_background_child_says() {
    let dir = tempfile::tempdir().unwrap();
    let spec = sh(dir.path(), "(sleep 1; echo late) & exit 0").held_pipe(HeldPipe::Eof);
    let finished = block_on(run(spec, never())).unwrap();
    assert_eq!((finished.ending, finished.status), (Ending::Exited, Status::Code(0)));
    assert_eq!(finished.stdout.text(), "late\n");
    assert!(!finished.pipe_held);
}

// C-BRIDGE-1 (Codex), C-BRIDGE-7: past the deadline the holder is ended with the group, though the hook has exited.
#[test]
fn a_holder_does_not_outlive_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let text = "(trap '' TERM; while :; do sleep 0.1; done) & echo $! > bg; exit 0";
    let spec = sh(dir.path(), text).held_pipe(HeldPipe::Eof).deadline(LIMIT).grace(GRACE);
    let finished = block_on(run(spec, never())).unwrap();
    assert_eq!((finished.ending, finished.status), (Ending::TimedOut, Status::Code(0)));
    let background = pid_in(dir.path(), "bg").unwrap();
    assert!(!alive(background) && finished.ended.contains(&background));
    assert!(!finished.pipe_held);
}

#[test]
fn a_holder_out_of_reach_is_reported_and_does_not_hang_the_run() {
    let dir = tempfile::tempdir().unwrap();
    // By the first look its parents are gone and it is in a session of its own: nothing ties it to the child.
    let text = "setsid sh -c 'sleep 100 & echo $! > bg'; exit 0";
    let spec = sh(dir.path(), text).held_pipe(HeldPipe::Eof);
    let finished = block_on(run(spec, async {
        written(dir.path(), &["bg"]).await;
        tokio::time::sleep(GRACE).await;
    }))
    .unwrap();
    assert_eq!((finished.ending, finished.status), (Ending::Cancelled, Status::Code(0)));
    assert!(finished.pipe_held);
    kill(pid_in(dir.path(), "bg").unwrap());
}

#[test]
fn who_is_done_in_time_is_not_blamed_for_a_late_look() {
    let dir = tempfile::tempdir().unwrap();
    let finished = block_on(async {
        let spec = sh(dir.path(), "echo done; echo $$ > lead").deadline(LIMIT);
        let mut running = Box::pin(run(spec, never()));
        // Starts the child, then holds up the thread until both the child's end and the deadline have passed.
        std::future::poll_fn(|cx| {
            assert!(running.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        wait_until("the child is done", || {
            pid_in(dir.path(), "lead").is_some_and(|lead| state(lead) == Some('Z'))
        });
        std::thread::sleep(LIMIT + Duration::from_millis(100));
        running.await.unwrap()
    });
    assert_eq!((finished.ending, finished.status), (Ending::Exited, Status::Code(0)));
    assert_eq!(finished.stdout.text(), "done\n");
}

// C-BRIDGE-7, for a turn that is aborted: nothing stays, not even a zombie.
#[test]
fn dropping_the_future_kills_the_tree_and_reaps_the_child() {
    let dir = tempfile::tempdir().unwrap();
    let permits = Permits::new(1);
    block_on(async {
        let text = format!("trap '' TERM; {ESCAPEE} echo $$ > lead; while :; do sleep 0.1; done");
        let task = tokio::spawn(run(sh(dir.path(), &text).permits(permits.clone()), never()));
        written(dir.path(), &["lead", "deep"]).await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    });
    let (lead, deep) = (pid_in(dir.path(), "lead").unwrap(), pid_in(dir.path(), "deep").unwrap());
    wait_until("the child is reaped", || state(lead).is_none());
    wait_until("the grandchild is dead", || !alive(deep));
    assert_eq!(permits.available(), 1);
}

#[test]
fn dropping_the_future_while_a_pipe_is_held_kills_the_holder() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let spec = sh(dir.path(), "sleep 100 & echo $! > bg; echo $$ > lead").held_pipe(HeldPipe::Eof);
        let task = tokio::spawn(run(spec, never()));
        written(dir.path(), &["lead", "bg"]).await;
        wait_until("the child has exited", || state(pid_in(dir.path(), "lead").unwrap()) == Some('Z'));
        task.abort();
        let _ = task.await;
    });
    wait_until("the holder is dead", || !alive(pid_in(dir.path(), "bg").unwrap()));
    wait_until("the child is reaped", || state(pid_in(dir.path(), "lead").unwrap()).is_none());
}

#[test]
fn a_runtime_that_shuts_down_takes_its_children_along() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.spawn(run(sh(dir.path(), &format!("{ESCAPEE} echo $$ > lead; wait")), never()));
    wait_until("the tree is up", || pid_in(dir.path(), "lead").and(pid_in(dir.path(), "deep")).is_some());
    drop(runtime);
    wait_until("the child is reaped", || state(pid_in(dir.path(), "lead").unwrap()).is_none());
    wait_until("the grandchild is dead", || !alive(pid_in(dir.path(), "deep").unwrap()));
}

#[test]
fn a_panic_in_the_callers_sink_kills_the_child() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let spec =
            sh(dir.path(), "echo $$ > lead; echo boo; exec sleep 100").on_chunk(|_, _| panic!("on purpose"));
        assert!(tokio::spawn(run(spec, never())).await.unwrap_err().is_panic());
    });
    wait_until("the child is reaped", || state(pid_in(dir.path(), "lead").unwrap()).is_none());
}
