//! The moves of waiting jobs, and how they are decided.

use std::time::Duration;

use pliant_control::agent::{ReallocationConfig, ReallocationReport};
use pliant_wire::{self as wire, JobMove, MovingChange, proto};
use tonic::Request;
use tonic::transport::Channel;

use super::masters::{joined_cycles, joined_moves};
use super::{AgentClient, Client, ClientError};

/// How long a reallocation cycle may take, with its moves.
const REALLOCATION: Duration = Duration::from_secs(600);

impl Client {
    /// The moves of the caller's jobs, or of all jobs for an operator, newest first.
    pub async fn moves(&self, all: bool, limit: u32) -> Result<Vec<JobMove>, ClientError> {
        let request = proto::MovesRequest { all, limit };
        let ask = |mut agent: AgentClient<Channel>, request| async move { agent.moves(request).await };
        if !all {
            let reply = self.ask_master_of(&self.own_name()?, request, ask).await?;
            return wire::moves(reply).map_err(ClientError::protocol);
        }
        let mut moves = Vec::new();
        for reply in self.ask_all(request, ask).await? {
            moves.extend(wire::moves(reply).map_err(ClientError::protocol)?);
        }
        Ok(if self.masters.are_several() { joined_moves(moves, limit) } else { moves })
    }

    /// The reallocation policy, if waiting jobs are moved.
    pub async fn moving(&self) -> Result<Option<ReallocationConfig>, ClientError> {
        self.ask_about_moving(None).await
    }

    /// Changes the reallocation policy; for operators.
    pub async fn change_moving(
        &self,
        change: &MovingChange,
    ) -> Result<Option<ReallocationConfig>, ClientError> {
        self.ask_about_moving(Some(change)).await
    }

    async fn ask_about_moving(
        &self,
        change: Option<&MovingChange>,
    ) -> Result<Option<ReallocationConfig>, ClientError> {
        let request = wire::moving_request(change);
        let ask = |mut agent: AgentClient<Channel>, request| async move { agent.moving(request).await };
        let reply = match change {
            None => self.ask_agent(request, ask).await?,
            Some(_) => self.ask_all(request, ask).await?.swap_remove(0),
        };
        wire::moving_reply(reply).map_err(ClientError::protocol)
    }

    /// Starts a reallocation cycle; for operators. A dry run moves no job.
    pub async fn reallocate(&self, dry_run: bool) -> Result<ReallocationReport, ClientError> {
        self.reallocation_cycle(proto::ReallocateRequest { dry_run, policy: None }).await
    }

    /// A dry run of a reallocation cycle under that policy; for operators.
    pub async fn would_reallocate(
        &self,
        moving: &ReallocationConfig,
    ) -> Result<ReallocationReport, ClientError> {
        self.reallocation_cycle(proto::ReallocateRequest { dry_run: true, policy: Some(moving.into()) }).await
    }

    async fn reallocation_cycle(
        &self,
        request: proto::ReallocateRequest,
    ) -> Result<ReallocationReport, ClientError> {
        let ask = |mut agent: AgentClient<Channel>, mut request: Request<proto::ReallocateRequest>| async move {
            request.set_timeout(REALLOCATION);
            agent.reallocate(request).await
        };
        let reports = self.ask_all(request, ask).await?.into_iter().map(ReallocationReport::try_from);
        Ok(joined_cycles(reports.collect::<Result<_, _>>().map_err(ClientError::protocol)?))
    }
}
