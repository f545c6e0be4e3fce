//! The `narad` command; everything it does is in [`narad_runtime::cli`].

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Parser;
use narad_runtime::cli::{Cli, Command, Terminal, run};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output, mistakes to standard error.
            let printed = error.print().and_then(|()| std::io::stdout().flush());
            if let Err(failed) = printed {
                match failed.kind() {
                    // Whoever closed the pipe has seen enough.
                    ErrorKind::BrokenPipe => {}
                    ErrorKind::StorageFull => return ExitCode::from(8),
                    _ => return ExitCode::from(1),
                }
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let serves = matches!(cli.command, Command::Server(_));
    let usual = match cli.command {
        // Elections are told by who leads in the end; the steps to it are there on request.
        Command::Server(_) => "info,raft=warn",
        // It kills nodes on purpose: what the others say about that is no warning to anybody.
        Command::Demo(_) => "error",
        _ => "warn",
    };
    let filter = cli.global.log.as_deref().unwrap_or(usual);
    let filter = match filter.parse::<tracing_subscriber::EnvFilter>() {
        Ok(filter) => filter,
        Err(error) => return usage(&format!("--log {filter}: {error}")),
    };
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let ansi = std::io::stderr().is_terminal() && !no_color;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(ansi)
        .with_writer(std::io::stderr)
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("no thread can be started: {error}")),
    };
    let mut terminal = Terminal::of_process();
    // A node and the demonstration stop in an order of their own.
    if !serves && !matches!(cli.command, Command::Demo(_)) {
        let interrupt = terminal.interrupt.clone();
        let _entered = runtime.enter();
        match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
            (Ok(mut interrupted), Ok(mut terminated)) => {
                runtime.spawn(async move {
                    for is_meant in [false, true] {
                        tokio::select! {
                            _ = interrupted.recv() => {}
                            _ = terminated.recv() => {}
                        }
                        if is_meant {
                            std::process::exit(130);
                        }
                        interrupt.cancel();
                    }
                });
            }
            (Err(error), _) | (_, Err(error)) => {
                return failed(&format!("no signals can be received: {error}"));
            }
        }
    }
    let code = runtime.block_on(run(cli, &mut terminal));
    // A thread may still wait for a line that never comes.
    runtime.shutdown_background();
    code.into()
}

fn usage(message: &str) -> ExitCode {
    say(message);
    ExitCode::from(2)
}

fn failed(message: &str) -> ExitCode {
    say(message);
    ExitCode::from(1)
}

fn say(message: &str) {
    let _ = writeln!(anstream::stderr(), "error: {message}");
}
