//! The real laboratory: scenarios of [`scenario`](crate::scenario), run in the world.

use crate::lab::{Bug, Burden, Finished, Laboratory, Metastore, NoSuchBug, RunOptions};
use crate::scenario::{MetastoreKind, Scenario};

/// The real laboratory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Narad;

impl Laboratory for Narad {
    type Scenario = Scenario;

    fn parse(&self, text: &str, name: &str) -> Result<Scenario, String> {
        Scenario::parse(text, name).map_err(|error| error.to_string())
    }

    fn draw(&self, seed: u64) -> Scenario {
        Scenario::empty(&format!("drawn-{seed}"))
    }

    fn text(&self, scenario: &Scenario) -> String {
        scenario.to_toml()
    }

    fn name<'a>(&self, scenario: &'a Scenario) -> &'a str {
        &scenario.head.name
    }

    fn seed(&self, scenario: &Scenario) -> u64 {
        scenario.head.seed
    }

    fn metastore(&self, scenario: &Scenario) -> Metastore {
        match scenario.cluster.metastore {
            MetastoreKind::Raft => Metastore::Raft,
            MetastoreKind::Abstract => Metastore::Abstract,
        }
    }

    fn adjust(&self, scenario: &mut Scenario, seed: u64, metastore: Option<Metastore>) {
        scenario.head.seed = seed;
        if let Some(metastore) = metastore {
            scenario.cluster.metastore = match metastore {
                Metastore::Raft => MetastoreKind::Raft,
                Metastore::Abstract => MetastoreKind::Abstract,
            };
        }
    }

    fn shrinks(&self, _: &Scenario) -> Vec<Scenario> {
        Vec::new()
    }

    fn burden(&self, scenario: &Scenario) -> Burden {
        Burden { steps: scenario.steps.len(), rates: 0, nodes: 0 }
    }

    fn schema(&self) -> String {
        String::new()
    }

    fn run(&self, scenario: &Scenario, options: RunOptions<'_>) -> Finished {
        panic!("no world yet: {} {}", scenario.head.name, options.seed)
    }

    fn bugs(&self) -> Vec<Bug> {
        Vec::new()
    }

    fn plant(&self, name: Option<&str>) -> Result<(), NoSuchBug> {
        name.map_or(Ok(()), |name| Err(NoSuchBug(name.into())))
    }

    fn hint(&self, _: &str, _: u64) -> Option<Scenario> {
        None
    }
}
