//! The `narad` command; everything it does is in [`narad_runtime::cli`].

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::Parser;
use narad_runtime::cli::{Cli, Command, Terminal, begin_logging, run};
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
    // What a node's file says counts unless the command line says otherwise.
    let (usual, format) = match cli.command.usual_log() {
        Ok(usual) => usual,
        Err(failure) => {
            Terminal::of_process().show(&failure);
            return failure.code.into();
        }
    };
    let filter = cli.global.log.as_deref().unwrap_or(&usual);
    if let Err(error) = begin_logging(filter, cli.global.log_format.unwrap_or(format)) {
        return usage(&format!("--log {filter}: {error}"));
    }
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
