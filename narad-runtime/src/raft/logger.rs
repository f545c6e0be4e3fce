//! Carries the consensus library's log lines over to `tracing`.

use super::config::RaftLogging;
use slog::{Drain, KV};
use std::fmt::{self, Write};

/// Returns the logger that the library asks for at its start. It adds the node's id by itself.
pub(super) fn logger(logging: RaftLogging) -> slog::Logger {
    match logging {
        RaftLogging::Tracing => slog::Logger::root(ToTracing, slog::o!()),
        RaftLogging::Silent => slog::Logger::root(slog::Discard, slog::o!()),
    }
}

struct ToTracing;

impl Drain for ToTracing {
    type Ok = ();
    type Err = slog::Never;

    fn log(
        &self,
        record: &slog::Record<'_>,
        values: &slog::OwnedKVList,
    ) -> Result<(), slog::Never> {
        // A level is part of a tracing call site's static data, hence one call site per level.
        macro_rules! emit {
            ($level:ident) => {
                if tracing::enabled!(target: "raft", tracing::Level::$level) {
                    let fields = Fields::of(record, values);
                    tracing::event!(
                        target: "raft", tracing::Level::$level, "{}{}", record.msg(), fields.0
                    );
                }
            };
        }
        match record.level() {
            slog::Level::Critical | slog::Level::Error => emit!(ERROR),
            slog::Level::Warning => emit!(WARN),
            slog::Level::Info => emit!(INFO),
            slog::Level::Debug => emit!(DEBUG),
            slog::Level::Trace => emit!(TRACE),
        }
        Ok(())
    }
}

/// The key-value pairs of one line as text.
struct Fields(String);

impl Fields {
    fn of(record: &slog::Record<'_>, values: &slog::OwnedKVList) -> Self {
        let mut fields = Self(String::new());
        // Writing to a string fails only if a value's own formatting does: the line then lacks it.
        let _ = record.kv().serialize(record, &mut fields);
        let _ = values.serialize(record, &mut fields);
        fields
    }
}

impl slog::Serializer for Fields {
    fn emit_arguments(&mut self, key: slog::Key, value: &fmt::Arguments<'_>) -> slog::Result {
        write!(self.0, " {key}={value}").map_err(|_| slog::Error::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing::field::{Field, Visit};
    use tracing::span;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<String>>>);

    impl Visit for Captured {
        fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
            self.0.lock().expect("not poisoned").push(format!("{value:?}"));
        }
    }

    impl tracing::Subscriber for Captured {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.target() == "raft" && *metadata.level() <= tracing::Level::INFO
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut self.clone());
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn a_line_reaches_tracing_with_its_values_and_only_if_enabled() {
        let captured = Captured::default();
        tracing::subscriber::with_default(captured.clone(), || {
            let logger = logger(RaftLogging::Tracing);
            slog::info!(logger, "became leader"; "term" => 4);
            slog::debug!(logger, "hidden");
            slog::info!(super::logger(RaftLogging::Silent), "silent");
        });
        assert_eq!(*captured.0.lock().expect("not poisoned"), ["became leader term=4"]);
    }
}
