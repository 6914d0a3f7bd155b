//! Links between nodes and the memories of nodes, where they are not infinitely fast: each serves
//! one line at a time.
//!
//!     asked ── request ──> its line is free ──> memory ──> link ── flight ──> comes
//!
//! A line that no CPU has keeps the memory of its node busy, one that comes from another node the
//! link from there, for so long each. Both are part of the flight, which nobody else makes longer
//! where there is no queue. Who asks first is served first, but a time that would stay unused, as
//! the one before waits for its line, goes to whoever can use it.

use super::Time;

/// Where a line comes from, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The node that has it.
    pub from: usize,
    /// The node that gets it.
    pub to: usize,
    /// Whether it is in the memory of that node, and no CPU has it.
    pub is_memory: bool,
}

/// All links and memories of a host.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    /// How long a line keeps a link busy, and a memory; 0: no time at all.
    link: Time,
    memory: Time,
    nodes: usize,
    /// From each node to each other one, by the former and then the latter.
    links: Vec<Server>,
    memories: Vec<Server>,
    /// Nothing is asked for any more before it.
    now: Time,
}

impl Bandwidth {
    /// Of a host of so many nodes; nothing where all is infinitely fast.
    pub fn new(nodes: usize, link: Time, memory: Time) -> Option<Bandwidth> {
        (link > 0 || memory > 0).then(|| Bandwidth {
            link,
            memory,
            nodes,
            links: vec![Server::default(); nodes * nodes],
            memories: vec![Server::default(); nodes],
            now: 0,
        })
    }

    /// Nothing is asked for before this time any more.
    pub fn passed(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// When a line that could leave at `ready` does.
    pub fn leaves(&mut self, route: Route, ready: Time) -> Time {
        let mut leaves = ready;
        if route.is_memory {
            leaves = self.memories[route.from].serve(leaves, self.memory, self.now);
        }
        if route.from != route.to {
            let link = &mut self.links[route.from * self.nodes + route.to];
            leaves = link.serve(leaves, self.link, self.now);
        }
        leaves
    }
}

/// Serves one after the other.
#[derive(Clone, Debug, Default)]
struct Server {
    /// When it is busy: from, to; in order, none meets the next.
    busy: Vec<(Time, Time)>,
}

impl Server {
    /// The first time from `ready` on at which it is free for so long, and then no longer is.
    fn serve(&mut self, ready: Time, time: Time, now: Time) -> Time {
        if time == 0 {
            return ready;
        }
        let over = self.busy.partition_point(|&(_, to)| to <= now);
        self.busy.drain(..over);
        let mut start = ready;
        let mut at = self.busy.partition_point(|&(_, to)| to < ready);
        while let Some(&(from, to)) = self.busy.get(at) {
            if start + time <= from {
                break;
            }
            start = start.max(to);
            at += 1;
        }
        self.occupy(at, start, start + time);
        start
    }

    /// It is busy in between, just before the interval of this place.
    fn occupy(&mut self, at: usize, from: Time, to: Time) {
        let after = self.busy.get(at).is_some_and(|next| next.0 == to);
        let before = at > 0 && self.busy[at - 1].1 == from;
        match (before, after) {
            (true, true) => self.busy[at - 1].1 = self.busy.remove(at).1,
            (true, false) => self.busy[at - 1].1 = to,
            (false, true) => self.busy[at].0 = from,
            (false, false) => self.busy.insert(at, (from, to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_is_served_in_the_first_time_that_is_free_for_long_enough() {
        let mut server = Server::default();
        // When it is ready, when it is served; each takes 10.
        for (ready, expected) in [
            (100, 100),
            (100, 110),
            (150, 150),
            (95, 120),
            (95, 130),
            (95, 140),
            (50, 50),
            (62, 62),
        ] {
            assert_eq!(server.serve(ready, 10, 0), expected, "{ready} {:?}", server.busy);
        }
        assert_eq!(server.busy, [(50, 60), (62, 72), (100, 160)]);
        // What is over is forgotten.
        assert_eq!(server.serve(72, 10, 72), 72);
        assert_eq!(server.busy, [(72, 82), (100, 160)]);
        // The rest is too short.
        assert_eq!(server.serve(82, 20, 82), 160);
    }

    #[test]
    fn a_line_of_another_nodes_memory_waits_for_both() {
        let mut bandwidth = Bandwidth::new(2, 10, 4).unwrap();
        let own = Route { from: 0, to: 0, is_memory: true };
        let other = Route { to: 1, ..own };
        let cached = Route { is_memory: false, ..other };
        let leaves: Vec<Time> =
            [own, other, other, cached, own].map(|route| bandwidth.leaves(route, 0)).to_vec();
        assert_eq!(leaves, [0, 4, 14, 24, 12]);
        assert_eq!(bandwidth.leaves(Route { from: 1, to: 0, is_memory: false }, 0), 0);
        assert!(Bandwidth::new(2, 0, 0).is_none());
    }
}
