//! `portcullis hooks trust`: which hooks of Codex may run, and the word of the person who says so.

use super::args::TrustArgs;
use crate::{
    paint::{Paint, Tint, clean, wrap},
    problem::Problem,
    words::{how_long, names},
};
use portcullis::hooks::{Change, Changed, CodexLayers, CodexTrust, PluginLayer, TrustStatus, TrustedHook};
use serde::Serialize;
use std::{
    io::{self, BufRead, IsTerminal, Write as _},
    path::Path,
    process::ExitCode,
};

/// Where the text beside the statuses begins.
const INDENT: usize = 11;

/// Reviews, approves what it is told to, and says what waits.
pub(super) fn trust(args: &TrustArgs) -> Result<ExitCode, Problem> {
    let home = std::env::home_dir().ok_or_else(|| Problem::new("there is no home directory to look in"))?;
    if !args.dir.is_dir() {
        return Err(Problem::new(format!("{} is no folder", args.dir.display())));
    }
    let mut layers = CodexLayers::default();
    layers = layers.user(CodexLayers::user_folder(&home)).record(CodexLayers::record_file(&home));
    layers.flags = args.codex_config.clone();
    layers.managed = args.codex_requirements.clone();
    for (name, root) in &args.codex_plugin {
        layers = layers.plugin(PluginLayer::new(name, std::path::absolute(root)?));
    }
    let (mut trust, reports) = CodexTrust::review(&args.dir, &layers);
    for report in &reports {
        eprintln!("{}", clean(&report.to_string()));
    }
    let says = args.all || args.approve_project || !args.approve.is_empty();
    let asks = !says && !args.list && !args.json && io::stdin().is_terminal() && io::stderr().is_terminal();
    if says {
        trust.approve(&wanted(&trust, args)?)?;
        if args.approve_project {
            trust.trust_project()?;
        }
    } else if asks {
        ask(&trust)?;
    }
    if says || asks {
        trust = CodexTrust::review(&args.dir, &layers).0;
    }
    let paint = Paint::stdout();
    let mut out = String::new();
    for hook in trust.hooks().iter().filter(|_| !asks) {
        match args.json {
            true => out.push_str(&json(hook)?),
            false => out.push_str(&entry(hook, paint)),
        }
        out.push('\n');
    }
    if !args.json {
        out.push_str(&sum(&trust));
    }
    // Whoever closed stdout has the exit code.
    let _ = io::stdout().write_all(out.as_bytes());
    Ok(if trust.hooks().iter().any(waits) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The keys of the hooks that are to be trusted.
fn wanted<'t>(trust: &'t CodexTrust, args: &TrustArgs) -> Result<Vec<&'t str>, Problem> {
    for name in &args.approve {
        if !trust.hooks().iter().any(|hook| hook.key == *name || hook.hash == *name) {
            return Err(Problem::new(format!("there is no hook {}", clean(name)))
                .next("--list shows each hook with its key and its hash"));
        }
    }
    let named = |hook: &&TrustedHook| args.approve.iter().any(|name| hook.key == *name || hook.hash == *name);
    let open = |hook: &&TrustedHook| args.all && is_open(hook);
    let wanted = trust.hooks().iter().filter(|hook| hook.status != TrustStatus::Managed);
    Ok(wanted.filter(|hook| named(hook) || open(hook)).map(|hook| &*hook.key).collect())
}

/// Whether somebody may say that it is trusted.
fn is_open(hook: &TrustedHook) -> bool {
    matches!(hook.status, TrustStatus::Untrusted | TrustStatus::Modified)
}

/// Whether it does not run because somebody has to say something first.
fn waits(hook: &TrustedHook) -> bool {
    is_open(hook) || (hook.in_untrusted_project && hook.status != TrustStatus::Disabled)
}

/// Asks about the project, then about each hook that would run if it were trusted.
fn ask(trust: &CodexTrust) -> Result<(), Problem> {
    let paint = Paint::stderr();
    let mut project = trust.untrusted_project().is_none();
    if let Some(path) = trust.untrusted_project() {
        eprintln!("The project {} is not trusted, so none of its hooks run.", clean(path));
        match answer("Trust it? Codex then takes its other settings, too. y or n: ", paint) {
            Some(true) => {
                trust.trust_project()?;
                project = true;
            }
            Some(false) => {}
            None => return Ok(()),
        }
    }
    for hook in trust.hooks().iter().filter(|hook| is_open(hook) && (project || !hook.in_untrusted_project)) {
        eprint!("\n{}", entry(hook, paint));
        match answer("May it run? y, n, or q to leave the rest: ", paint) {
            Some(true) => trust.approve(&[&hook.key])?,
            Some(false) => {}
            None => break,
        }
    }
    eprintln!();
    Ok(())
}

/// Yes or no; nothing if the person leaves. What was typed before the question was shown is no answer to it.
fn answer(question: &str, paint: Paint) -> Option<bool> {
    loop {
        // Fails only where stdin is no terminal, and then nothing is asked.
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        eprint!("{}", paint.tint(Tint::Notice, question));
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).is_ok_and(|read| read > 0) {
            match line.trim().to_lowercase().as_str() {
                "y" | "yes" => return Some(true),
                "n" | "no" => return Some(false),
                "q" | "quit" => return None,
                _ => continue,
            }
        }
        return None;
    }
}

/// A hook as a person reviews it: all that it runs, and where it comes from.
fn entry(hook: &TrustedHook, paint: Paint) -> String {
    let tint = match hook.status {
        TrustStatus::Managed | TrustStatus::Trusted => Tint::Good,
        TrustStatus::Untrusted => Tint::Notice,
        TrustStatus::Modified => Tint::Bad,
        _ => Tint::Quiet,
    };
    let room = paint.width.saturating_sub(INDENT);
    let matcher = hook.matcher.as_deref().filter(|matcher| !matcher.is_empty());
    let matcher = matcher.map(|matcher| format!(" {matcher}")).unwrap_or_default();
    let mut lines: Vec<(Tint, String)> = Vec::new();
    let mut add =
        |tint, text: &str| lines.extend(wrap(&clean(text), room).into_iter().map(|line| (tint, line)));
    add(Tint::Plain, &format!("{}{matcher}: {}", hook.event, hook.command));
    let script = hook.script.as_ref().map(|(path, when)| {
        let age = when.elapsed().ok().and_then(|age| u64::try_from(age.as_millis()).ok()).map(how_long);
        let age = age.map(|age| format!(", which changed {age} ago")).unwrap_or_default();
        format!("; it runs {}{age}", path.display())
    });
    add(Tint::Quiet, &format!("{}:{}{}", hook.file.display(), hook.line, script.unwrap_or_default()));
    match &hook.changed {
        Changed::Known(changes) => {
            for change in changes {
                for (tint, sign, value) in [(Tint::Bad, '-', &change.was), (Tint::Good, '+', &change.is)] {
                    if let Some(value) = value {
                        add(tint, &format!("{sign} {}: {value}", change.what));
                    }
                }
            }
        }
        Changed::Unknown => add(Tint::Plain, "it changed since it was trusted; what it was is not known"),
        _ => {}
    }
    if hook.in_untrusted_project {
        add(Tint::Notice, "its project is not trusted");
    }
    if is_open(hook) {
        // In one piece each, to be copied.
        lines.extend([&hook.key, &hook.hash].map(|name| (Tint::Quiet, clean(name).replace('\n', "\\n"))));
    }
    let mut out = String::new();
    for (i, (line_tint, line)) in lines.into_iter().enumerate() {
        let label = if i == 0 { hook.status.name() } else { "" };
        // Colours have no width.
        let label = paint.tint(tint, &format!("{label:<width$}", width = INDENT - 1));
        out.push_str(format!("{label} {}", paint.tint(line_tint, &line)).trim_end());
        out.push('\n');
    }
    out.truncate(out.trim_end_matches('\n').len());
    out
}

fn sum(trust: &CodexTrust) -> String {
    let all = trust.hooks();
    let waiting = all.iter().filter(|hook| waits(hook)).count();
    let mut out = match waiting {
        0 => format!("{}, none of which waits to be trusted\n", names(all.len() as u64, "hook")),
        _ => format!(
            "{}, {waiting} of which do not run until they are trusted\n",
            names(all.len() as u64, "hook")
        ),
    };
    if let Some(project) = trust.untrusted_project() {
        out.push_str(&format!(
            "the project {} is not trusted: --approve-project trusts it\n",
            clean(project)
        ));
    }
    out
}

/// A hook as a line of JSON.
#[derive(Serialize)]
struct Line<'h> {
    key: &'h str,
    hash: &'h str,
    event: &'h str,
    matcher: Option<&'h str>,
    command: &'h str,
    file: &'h Path,
    line: usize,
    status: &'h str,
    in_untrusted_project: bool,
    /// Nothing if what it was is not known.
    changes: Option<Vec<Difference<'h>>>,
}

#[derive(Serialize)]
struct Difference<'h> {
    what: &'h str,
    was: Option<&'h str>,
    is: Option<&'h str>,
}

impl<'h> Difference<'h> {
    fn of(change: &'h Change) -> Difference<'h> {
        Difference { what: &change.what, was: change.was.as_deref(), is: change.is.as_deref() }
    }
}

fn json(hook: &TrustedHook) -> Result<String, Problem> {
    let changes = match &hook.changed {
        Changed::Known(changes) => Some(changes.as_slice()),
        Changed::Unknown => None,
        _ => Some([].as_slice()),
    };
    let line = Line {
        key: &hook.key,
        hash: &hook.hash,
        event: hook.event,
        matcher: hook.matcher.as_deref(),
        command: &hook.command,
        file: &hook.file,
        line: hook.line,
        status: hook.status.name(),
        in_untrusted_project: hook.in_untrusted_project,
        changes: changes.map(|changes| changes.iter().map(Difference::of).collect()),
    };
    Ok(serde_json::to_string(&line)?)
}
