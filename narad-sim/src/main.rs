//! The laboratory's command; everything it does is in [`narad_sim::cli`].

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use narad_sim::cli::{Cli, Terminal, run};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output, mistakes to standard error; a closed pipe is no panic.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut terminal = Terminal::of_process();
    for signal in [SIGINT, SIGTERM] {
        let interrupt = &terminal.interrupt;
        // In this order, the first time sets the flag and the second time is meant. Without it, a
        // signal ends the process at once, as it always did.
        let _ = flag::register_conditional_shutdown(signal, 130, Arc::clone(interrupt));
        let _ = flag::register(signal, Arc::clone(interrupt));
    }
    run(cli, &narad_sim::narad::Narad, &mut terminal).into()
}
