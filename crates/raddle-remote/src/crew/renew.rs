//! What becomes of a crew whose bridge is lost: its workers are gone with it, and what is queued goes over a new one.
//!
//! A bridge is started by a thread of its own: it may take seconds, and whoever spawns a task is not to wait for that.
//!
//! | [`Way`] | what it is | left by |
//! |---|---|---|
//! | `Here` | workers are processes of this one: there is no bridge | |
//! | `Open` | the bridge is there | its end |
//! | `Gone` | there is none, and nobody wants one | a task that is queued |
//! | `Coming` | a thread is about to start one | it is there, or cannot be had |
//! | `Closed` | the crew is at its end: there will be none | |

use std::sync::Arc;

use super::bridge::{Bridge, engine};
use super::conduit::Conduit;
use super::dispatch::{MOST_FAILED, Move};
use super::task::Completion;
use super::{Crew, State};
use crate::context::number;
use crate::error::{RemoteError, Status};
use crate::os::socket;

/// The way to the workers.
#[derive(Default)]
pub(super) enum Way {
    #[default]
    Here,
    Open(Arc<Bridge>),
    Gone,
    /// And what leads to its process, once that is there.
    Coming(Option<Arc<Conduit>>),
    Closed,
}

impl Way {
    /// The bridge, if there is one.
    pub(super) fn bridge(&self) -> Option<&Arc<Bridge>> {
        match self {
            Way::Open(bridge) => Some(bridge),
            _ => None,
        }
    }

    /// Whether workers can be started.
    pub(super) fn leads(&self) -> bool {
        matches!(self, Way::Here | Way::Open(_))
    }
}

impl Crew {
    /// The bridge is gone, and all workers with it.
    pub(super) fn lose(&self, bridge: &Bridge, why: RemoteError, after: &mut Vec<Completion>) {
        let mut state = self.state();
        let is_it = |known: &Arc<Bridge>| known.conduit.number == bridge.conduit.number;
        if !state.way.bridge().is_some_and(is_it) {
            return;
        }
        state.way = Way::Gone;
        // What is to be tried again must not go to a slot whose turn has not come yet.
        state.idle.clear();
        let workers: Vec<u64> = state.workers.keys().copied().collect();
        let mut moves = Vec::new();
        for worker in workers {
            if let Some(one) = state.workers.get_mut(&worker) {
                // That it has not been ready is none of its fault.
                (one.link, one.outgoing) = (None, true);
            }
            moves.extend(self.gone(&mut state, worker, Status::Lost, String::new(), after));
        }
        // One that does not last until a worker is ready, time and again, is of no use.
        state.failed_starts += 1;
        if state.failed_starts >= MOST_FAILED {
            state.failed_starts = 0;
            self.fail_queue(&mut state, &why, after);
        }
        self.tell(&state);
        drop(state);
        bridge.end(self);
        self.carry_out(moves, after);
    }

    /// Has a bridge started, if somebody wants one and nobody is about to.
    pub(super) fn want_bridge(&self, state: &mut State, moves: &mut Vec<Move>) {
        if matches!(state.way, Way::Gone) && state.queued > 0 {
            state.way = Way::Coming(None);
            moves.push(Move::Bridge);
        }
    }

    /// Starts a bridge, on a thread of its own.
    pub(super) fn renew(&self, after: &mut Vec<Completion>) -> Vec<Move> {
        let Some(crew) = self.this.upgrade() else { return Vec::new() };
        let start = move || {
            let begun = |conduit: &Arc<Conduit>| match &mut crew.state().way {
                Way::Coming(coming) => *coming = Some(Arc::clone(conduit)),
                _ => socket::shut(&conduit.socket),
            };
            let started = Bridge::start(&crew.plan, &crew.build, number(), begun);
            let mut after = Vec::new();
            let moves = crew.renewed(started.map(|(bridge, _)| bridge), &mut after);
            crew.carry_out(moves, &mut after);
            crew.complete(after);
        };
        match std::thread::Builder::new().name("raddle-bridge".into()).spawn(start) {
            Ok(_) => Vec::new(),
            Err(error) => {
                self.renewed(Err(engine(format!("no thread for the bridge: {error}"))), after)
            }
        }
    }

    /// A bridge is there, or why there is none.
    fn renewed(
        &self,
        started: Result<Bridge, RemoteError>,
        after: &mut Vec<Completion>,
    ) -> Vec<Move> {
        let mut state = self.state();
        let wanted = matches!(state.way, Way::Coming(_));
        // Under the lock: what it says, and that it has ended, finds it.
        let mut unheard = None;
        let started =
            started.and_then(|bridge| match bridge.conduit.register(&self.reactor.epoll) {
                Ok(()) => Ok(bridge),
                Err(error) => {
                    unheard = Some(bridge);
                    Err(error.into())
                }
            });
        let mut moves = Vec::new();
        match started {
            Ok(bridge) if wanted => {
                state.way = Way::Open(Arc::new(bridge));
                moves = self.dispatch(&mut state);
            }
            Ok(bridge) => {
                drop(state);
                bridge.stop(self);
                return moves;
            }
            Err(why) if wanted => {
                state.way = Way::Gone;
                self.fail_queue(&mut state, &why, after);
            }
            Err(_) => {}
        }
        self.tell(&state);
        drop(state);
        if let Some(bridge) = unheard {
            bridge.end(self);
        }
        moves
    }

    /// The crew is at its end, and its bridge too.
    pub(super) fn close_way(&self) {
        let way = std::mem::replace(&mut self.state().way, Way::Closed);
        match way {
            Way::Open(bridge) => bridge.stop(self),
            // Whoever starts it ends it.
            Way::Coming(Some(conduit)) => socket::shut(&conduit.socket),
            Way::Here | Way::Gone | Way::Coming(None) | Way::Closed => {}
        }
    }
}
