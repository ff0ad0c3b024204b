//! Custom policies: decisions of the caller of a simulation in place of those of the registries.
//!
//! A custom policy gets the view that registered policies have and returns its decision as data. What applies the decision checks it
//! first. A policy that fails, or decides what is impossible, ends the simulation: [`Failure`] keeps the first error, and no custom
//! policy is called after it.
//!
//! [`CustomPolicies`] is the only way in. Built-in policies do not pass through it.

use std::fmt;
use std::sync::Arc;

use pliant_model::{Platform, Time};

pub use crate::batch::order::{QueueOrder, QueueView};
pub use crate::batch::{BatchPolicy, SizingRule};
pub use crate::failure::{Failure, PolicyError};
pub use crate::mapping::MappingRule;
pub use crate::reallocation::{HeuristicRule, JobOptions};

use crate::UnknownName;
use crate::batch::order::{Aging, CustomOrder};
use crate::batch::{self, LocalPolicy};
use crate::federation::Federation;

/// The custom policies of a simulation. Those that are none are built-in.
#[derive(Clone, Default)]
pub struct CustomPolicies {
    /// The batch policy of every cluster.
    pub batch: Option<Arc<dyn BatchPolicy>>,
    /// The queue order of every cluster, with its aging. The batch policy must be one that serves queue orders.
    pub order: Option<(Arc<dyn QueueOrder>, Aging)>,
    /// The mapping.
    pub mapping: Option<Arc<dyn MappingRule>>,
    /// The sizing rule of every cluster.
    pub sizing: Option<Arc<dyn SizingRule>>,
    /// The heuristic of reallocation.
    pub heuristic: Option<Arc<dyn HeuristicRule>>,
    /// Their first error.
    pub failure: Failure,
}

impl fmt::Debug for CustomPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomPolicies")
            .field("batch", &self.batch.is_some())
            .field("order", &self.order.is_some())
            .field("mapping", &self.mapping.is_some())
            .field("sizing", &self.sizing.is_some())
            .field("heuristic", &self.heuristic.is_some())
            .field("failure", &self.failure)
            .finish()
    }
}

impl CustomPolicies {
    /// Puts the policies of clusters into a federation of this platform that has no jobs yet.
    ///
    /// # Errors
    ///
    /// If a batch policy of the platform cannot serve a custom order, or a cluster distinguishes nodes, which no custom policy does.
    pub fn put_into(
        &self,
        federation: &mut Federation,
        platform: &Platform,
        now: Time,
    ) -> Result<(), UnknownName> {
        for (id, cluster) in federation.ids().zip(platform.clusters()) {
            if cluster.nodes.is_some() && (self.batch.is_some() || self.order.is_some()) {
                return Err(UnknownName {
                    what: "local policy for a cluster with nodes",
                    found: "a custom policy".to_owned(),
                    expected: batch::REGISTRY
                        .iter()
                        .filter(|one| one.on_nodes.is_some())
                        .map(|one| one.name)
                        .collect(),
                });
            }
            if let Some(policy) = &self.batch {
                let policy = batch::custom(cluster.procs, id, Arc::clone(policy), self.failure.clone());
                federation.replace(id, policy);
            } else if let Some((rule, aging)) = &self.order {
                let local: LocalPolicy = cluster.batch.parse()?;
                let order =
                    CustomOrder { rule: Arc::clone(rule), cluster: id, failure: self.failure.clone() };
                federation.replace(id, local.scheduler_by(cluster.procs, now, order, *aging)?);
            }
            if let Some(rule) = &self.sizing {
                let inner = federation.scheduler(id).boxed_clone();
                federation.replace(id, batch::sized(Arc::clone(rule), inner, self.failure.clone()));
            }
        }
        Ok(())
    }
}
