//! `DO 0`: the least that a server can do for a query. What remains is the network and the server's own
//! handling.

use model::message::DataCheck;

use super::{Workload, check_values};
use crate::client::{Expect, Reply, command};
use crate::control::Control;
use crate::failure::Failure;

/// The workload.
pub struct Do0;

impl Workload for Do0 {
    fn expect(&self, _step: u32) -> Expect {
        Expect::Text
    }

    fn encode(&self, _number: u64, _step: u32, _statements: &[u32], out: &mut Vec<u8>) {
        out.push(command::QUERY);
        out.extend_from_slice(b"DO 0");
    }

    fn check(&self, _number: u64, _step: u32, reply: &Reply<'_>) -> bool {
        matches!(reply, Reply::Ok(ok) if ok.affected_rows == 0)
    }

    fn prepare(&self, _control: &mut Control) -> Result<(), Failure> {
        Ok(())
    }

    fn verify(&self, control: &mut Control) -> Result<Vec<DataCheck>, Failure> {
        check_values(control)
    }
}
