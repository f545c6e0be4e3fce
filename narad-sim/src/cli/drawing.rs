//! What a drawn scenario is to be like.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::wall::parse_duration;
use crate::scenario::{Bias, DrawOptions, MetastoreKind};

/// What a drawn scenario is to be like.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Drawn scenarios")]
pub struct Drawing {
    /// Which log keeps the metadata; of a scenario file, too
    #[arg(long, value_name = "LOG", value_parser = word(MetastoreKind::ALL, MetastoreKind::word))]
    pub metastore: Option<MetastoreKind>,
    /// How many nodes there are, those that join later included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub nodes: Option<u32>,
    /// How long anything may go wrong
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub safety: Option<Duration>,
    /// What it is mostly about
    #[arg(long, value_name = "WHAT", value_parser = word(Bias::ALL, Bias::word))]
    pub about: Option<Bias>,
}

impl Drawing {
    pub(super) const fn options(&self) -> DrawOptions {
        let Self { metastore, nodes, safety, about } = *self;
        DrawOptions { metastore, bias: about, safety, nodes }
    }

    /// The flags that stand for it, each after a space.
    pub(super) fn flags(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        if let Some(metastore) = self.metastore {
            let _ = write!(text, " --metastore {}", metastore.word());
        }
        if let Some(nodes) = self.nodes {
            let _ = write!(text, " --nodes {nodes}");
        }
        if let Some(safety) = self.safety {
            let _ = write!(text, " --safety {}ms", safety.as_millis());
        }
        if let Some(about) = self.about {
            let _ = write!(text, " --about {}", about.word());
        }
        text
    }
}

/// Takes one of the words of a scenario file.
fn word<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    word: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let words = all.iter().map(move |value| word(*value));
    PossibleValuesParser::new(words).map(move |text: String| {
        let found = all.iter().copied().find(|value| word(*value) == text);
        found.expect("only possible values are let through")
    })
}
