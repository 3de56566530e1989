//! Starting, feeding, reading and bounding one child that behaves.
#![cfg(target_os = "linux")]

mod common;

use common::{block_on, never, sh};
use portcullis_process::{Ending, Finished, Leftover, Permits, Spawn, SpawnError, Status, Stream, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn go(spec: Spawn) -> Finished {
    block_on(run(spec, never())).expect("it starts")
}

fn refused(spec: Spawn) -> SpawnError {
    block_on(run(spec, never())).expect_err("it must not start")
}

#[test]
fn the_future_is_send() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&run(Spawn::new("true"), never()));
}

#[test]
fn exit_code_and_both_outputs_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let finished = go(sh(dir.path(), "echo out; echo err >&2; exit 7"));
    assert_eq!(finished.ending, Ending::Exited);
    assert_eq!(finished.status, Status::Code(7));
    assert_eq!(finished.stdout.text(), "out\n");
    assert_eq!(finished.stderr.text(), "err\n");
    assert!(!finished.stdout.is_cut() && !finished.pipe_held);
    assert!(finished.ended.is_empty() && finished.survivors.is_empty());
}

#[test]
fn death_by_signal_is_told_apart_and_has_a_shell_code() {
    let dir = tempfile::tempdir().unwrap();
    let finished = go(sh(dir.path(), "kill -9 $$"));
    assert_eq!(finished.status, Status::Signal(9));
    assert_eq!(finished.status.shell_code(), Some(137));
}

// C-BRIDGE-1: a hook leads its own process group and stays in the session (the fast spawn path needs that).
#[test]
fn the_child_leads_a_group_in_our_session() {
    // Read from /proc on both sides: a session led from outside our PID namespace has the number 0.
    fn parent_group_session(stat: &str) -> Vec<i32> {
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        fields.skip(1).take(3).map(|n| n.parse().unwrap()).collect()
    }
    let dir = tempfile::tempdir().unwrap();
    let finished = go(sh(dir.path(), "read line < /proc/$$/stat; echo \"$line\""));
    let line = finished.stdout.text().into_owned();
    let pid: i32 = line.split_once(' ').unwrap().0.parse().unwrap();
    let session = parent_group_session(&std::fs::read_to_string("/proc/self/stat").unwrap())[2];
    assert_eq!(parent_group_session(&line), [std::process::id() as i32, pid, session]);
}

#[test]
fn stdin_reaches_the_child_whole_while_output_flows() {
    // Larger than both pipes together: writing first and reading later would hang.
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let finished = go(Spawn::new("cat").stdin(bytes.clone()).stdout_cap(bytes.len()));
    assert!(finished.stdout.bytes == bytes, "{} bytes came back", finished.stdout.total);
    assert!(!finished.stdout.is_cut());
}

#[test]
fn no_stdin_and_empty_stdin_both_read_as_the_end() {
    assert_eq!(go(Spawn::new("cat")).stdout.total, 0);
    assert_eq!(go(Spawn::new("cat").stdin(b"".as_slice())).stdout.total, 0);
}

// C-BRIDGE-7: stdin errors are no failures.
#[test]
fn a_child_that_never_reads_its_stdin_is_fine() {
    let dir = tempfile::tempdir().unwrap();
    let big = vec![b'x'; 10 << 20];
    let finished = go(sh(dir.path(), "echo done").stdin(big.clone()));
    assert_eq!((finished.ending, finished.status), (Ending::Exited, Status::Code(0)));
    assert_eq!(finished.stdout.text(), "done\n");
    let finished = go(sh(dir.path(), "exec 0<&-; sleep 0.2; echo done").stdin(big));
    assert_eq!(finished.status, Status::Code(0));
    assert_eq!(finished.stdout.text(), "done\n");
}

// C-BRIDGE-7: pipes drained and capped.
#[test]
fn a_flood_is_kept_to_the_cap_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let text = "head -c 5000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 4";
    let finished = go(sh(dir.path(), text).stdout_cap(1000).stderr_cap(0));
    assert_eq!(finished.status, Status::Code(4));
    assert_eq!((finished.stdout.bytes.len(), finished.stdout.total), (1000, 5_000_000));
    assert_eq!((finished.stdout.dropped(), finished.stdout.is_cut()), (4_999_000, true));
    assert_eq!((finished.stderr.bytes.len(), finished.stderr.total), (0, 3_000_000));
}

#[test]
fn output_of_exactly_the_cap_is_not_cut() {
    let finished = go(Spawn::new("printf").arg("12345").stdout_cap(5));
    assert_eq!(finished.stdout.bytes, b"12345");
    assert!(!finished.stdout.is_cut());
    let finished = go(Spawn::new("printf").arg("123456").stdout_cap(5));
    assert_eq!((finished.stdout.bytes.as_slice(), finished.stdout.dropped()), (b"12345".as_slice(), 1));
}

#[test]
fn chunks_are_seen_as_they_come_and_only_what_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let go_on = dir.path().join("go-on");
    // The child ends only when the sink has seen its first line.
    let text = "echo one; while ! [ -e go-on ]; do sleep 0.02; done; echo two >&2; printf 0123456789";
    let spec = sh(dir.path(), text).stdout_cap(8).on_chunk(move |stream, bytes| {
        sink.lock().unwrap().push((stream, bytes.to_vec()));
        fs::write(&go_on, "").unwrap();
    });
    let finished = go(spec);
    let seen = seen.lock().unwrap();
    let of = |wanted| -> Vec<u8> {
        seen.iter().filter(|(stream, _)| *stream == wanted).flat_map(|(_, bytes)| bytes.clone()).collect()
    };
    assert_eq!(seen[0], (Stream::Stdout, b"one\n".to_vec()));
    assert_eq!(of(Stream::Stdout), b"one\n0123");
    assert_eq!(of(Stream::Stderr), b"two\n");
    assert_eq!(finished.stdout.bytes, b"one\n0123");
}

#[test]
fn environment_is_inherited_changed_or_replaced() {
    let finished = go(Spawn::new("/usr/bin/env").env_clear().env("A", "1").env("B", "2").env_remove("A"));
    assert_eq!(finished.stdout.text(), "B=2\n");
    let finished = go(Spawn::new("env").env("PORTCULLIS_TEST", "yes").env_remove("HOME"));
    let text = finished.stdout.text().into_owned();
    assert!(text.lines().any(|line| line == "PORTCULLIS_TEST=yes"));
    assert!(text.lines().any(|line| line.starts_with("PATH=")));
    assert!(!text.lines().any(|line| line.starts_with("HOME=")));
}

#[test]
fn programs_are_found_on_the_childs_path_and_from_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    let tool = dir.path().join("bin/tool");
    // A link, not a fresh script: a file just written may still be open in a child of another test.
    std::os::unix::fs::symlink("/bin/echo", &tool).unwrap();
    let said = |spec: Spawn| go(spec.cwd(dir.path()).arg("hi")).stdout.text().into_owned();
    assert_eq!(said(Spawn::new("tool").env("PATH", dir.path().join("bin"))), "hi\n");
    assert_eq!(said(Spawn::new("tool").env("PATH", "bin")), "hi\n");
    assert_eq!(said(Spawn::new("bin/tool")), "hi\n");
    assert_eq!(said(Spawn::new(tool)), "hi\n");
    // Without any PATH the system's directories are searched.
    assert_eq!(said(Spawn::new("echo").env_remove("PATH")), "hi\n");
}

#[test]
fn what_cannot_start_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    fs::write(&plain, "no program").unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let missing = dir.path().join("missing");

    assert!(matches!(refused(Spawn::new("no-such-program-anywhere")), SpawnError::NotFound(_)));
    assert!(matches!(refused(Spawn::new("")), SpawnError::NotFound(_)));
    assert!(matches!(refused(Spawn::new(&missing)), SpawnError::NotFound(path) if path == missing));
    assert!(matches!(refused(Spawn::new(&plain)), SpawnError::NotExecutable(path) if path == plain));
    assert!(matches!(refused(Spawn::new(dir.path())), SpawnError::NotExecutable(_)));
    let on_path = Spawn::new("plain").env("PATH", dir.path());
    assert!(matches!(refused(on_path), SpawnError::NotExecutable(path) if path == plain));
    let in_missing = Spawn::new("/bin/true").cwd(&missing);
    assert!(matches!(refused(in_missing), SpawnError::NotADirectory(path) if path == missing));
    let in_file = Spawn::new("/bin/true").cwd(&plain);
    assert!(matches!(refused(in_file), SpawnError::NotADirectory(path) if path == plain));
    assert!(matches!(refused(Spawn::new("/bin/true").arg("a\0b")), SpawnError::NulByte));
    assert!(matches!(refused(Spawn::new("tr\0ue")), SpawnError::NulByte));
    let huge = Spawn::new("/bin/true").arg("x".repeat(64 << 20));
    assert!(matches!(refused(huge), SpawnError::TooLarge));
    let text = refused(Spawn::new("/bin/true").cwd(&missing)).to_string();
    assert!(text.contains("working directory") && text.contains("missing"), "{text}");
}

#[test]
fn secrets_stay_out_of_the_debug_text() {
    let shown = format!("{:?}", Spawn::new("x").env("KEY", "hunter2").stdin(b"hunter3".as_slice()));
    assert!(shown.contains("KEY") && !shown.contains("hunter"), "{shown}");
}

#[test]
fn a_multi_thread_runtime_serves_as_well() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let runs: Vec<_> = (0..20)
        .map(|n| runtime.spawn(run(Spawn::shell("/bin/sh", "-c", format!("echo {n}; exit {n}")), never())))
        .collect();
    for (n, handle) in runs.into_iter().enumerate() {
        let finished = runtime.block_on(handle).unwrap().unwrap();
        assert_eq!(finished.status, Status::Code(n as i32));
        assert_eq!(finished.stdout.text(), format!("{n}\n"));
    }
}

#[test]
fn permits_bound_how_many_live_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let permits = Permits::new(2);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let text = "mkdir m.$$; ls -d m.* | wc -l; sleep 0.2; rmdir m.$$";
    let runs: Vec<_> =
        (0..8).map(|_| runtime.spawn(run(sh(dir.path(), text).permits(permits.clone()), never()))).collect();
    let counts: Vec<u32> = runs
        .into_iter()
        .map(|handle| runtime.block_on(handle).unwrap().unwrap().stdout.text().trim().parse().unwrap())
        .collect();
    assert!(counts.iter().all(|count| (1..=2).contains(count)), "{counts:?}");
    assert_eq!(permits.available(), 2);
}

#[test]
fn a_cancel_ends_the_wait_for_a_permit_and_nothing_starts() {
    let dir = tempfile::tempdir().unwrap();
    let permits = Permits::new(1);
    block_on(async {
        let (stop_first, first_stopped) = tokio::sync::oneshot::channel::<()>();
        let first =
            tokio::spawn(run(sh(dir.path(), "echo $$ > first; sleep 60").permits(permits.clone()), async {
                let _ = first_stopped.await;
            }));
        common::written(dir.path(), &["first"]).await;
        let second = run(sh(dir.path(), "echo > second").permits(permits.clone()), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
        assert!(matches!(second.await, Err(SpawnError::Cancelled)));
        stop_first.send(()).unwrap();
        assert_eq!(first.await.unwrap().unwrap().ending, Ending::Cancelled);
    });
    assert!(!dir.path().join("second").exists());
    assert_eq!(permits.available(), 1);
}

#[test]
fn waiting_for_a_permit_does_not_use_up_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let permits = Permits::new(1);
    let (first, second) = block_on(async {
        let first =
            tokio::spawn(run(sh(dir.path(), "echo $$ > first; sleep 5").permits(permits.clone()), never()));
        common::written(dir.path(), &["first"]).await;
        let limit = Duration::from_secs(4);
        let second = run(sh(dir.path(), "exit 0").permits(permits.clone()).deadline(limit), never()).await;
        (first.await.unwrap().unwrap(), second.unwrap())
    });
    assert!(first.took >= Duration::from_secs(5));
    assert_eq!((second.ending, second.status), (Ending::Exited, Status::Code(0)));
}

#[test]
fn asking_to_end_leftovers_costs_a_tidy_child_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let finished = go(sh(dir.path(), "echo x | cat; exit 3").leftover(Leftover::End));
    assert_eq!((finished.ending, finished.status), (Ending::Exited, Status::Code(3)));
    assert!(finished.ended.is_empty() && !finished.pipe_held);
}
