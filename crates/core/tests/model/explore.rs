//! An explorer of our own, for what stateright cannot say of graphs with cycles: from every
//! reachable state some path leads to a goal.
//!
//! It walks the same [`Model`] breadth first, keeps the edges, and then walks them back
//! from the goals. A state that this does not reach is stranded.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

/// From every state a path of usable acts leads to a goal.
pub(crate) struct Claim<M: Model> {
    /// What it says, for people.
    pub(crate) name: &'static str,
    /// Where paths may end.
    pub(crate) goal: fn(&M::State) -> bool,
    /// What paths may consist of.
    pub(crate) usable: fn(&M::State, &M::Action) -> bool,
}

/// The reachable states by number, and per claim the edges backwards.
struct Graph {
    numbers: HashMap<u64, u32>,
    /// Per state, the one it was first reached from, and by which of its acts.
    parents: Vec<(u32, usize)>,
    claims: Vec<Backwards>,
}

#[derive(Default)]
struct Backwards {
    edges: Vec<(u32, u32)>,
    goals: Vec<u32>,
}

/// Checks all claims on all reachable states; returns how many states there are.
pub(crate) fn every_state_can_end<M>(model: &M, claims: &[Claim<M>]) -> usize
where
    M: Model,
    M::State: Hash + Clone + Debug,
    M::Action: Clone + Debug,
{
    let graph = Graph::explore(model, claims);
    for (claim, backwards) in claims.iter().zip(&graph.claims) {
        assert!(!backwards.goals.is_empty(), "{}: no goal", claim.name);
        let stranded = backwards.stranded(graph.parents.len());
        let trace = stranded.map(|number| graph.trace(model, number));
        assert!(trace.is_none(), "{}: stranded after {trace:#?}", claim.name);
    }
    graph.parents.len()
}

impl Graph {
    fn explore<M>(model: &M, claims: &[Claim<M>]) -> Self
    where
        M: Model,
        M::State: Hash + Clone,
        M::Action: Clone,
    {
        let mut graph = Self {
            numbers: HashMap::new(),
            parents: Vec::new(),
            claims: claims.iter().map(|_| Backwards::default()).collect(),
        };
        let mut queue = VecDeque::new();
        for state in model.init_states() {
            graph.number(&state, (0, usize::MAX));
            queue.push_back(state);
        }
        let mut acts = Vec::new();
        for from in 0_u32.. {
            let Some(state) = queue.pop_front() else {
                break;
            };
            for (claim, backwards) in claims.iter().zip(&mut graph.claims) {
                if (claim.goal)(&state) {
                    backwards.goals.push(from);
                }
            }
            model.actions(&state, &mut acts);
            for (index, act) in acts.drain(..).enumerate() {
                let Some(next) = model.next_state(&state, act.clone()) else {
                    continue;
                };
                let (to, new) = graph.number(&next, (from, index));
                if new {
                    queue.push_back(next);
                }
                for (claim, backwards) in claims.iter().zip(&mut graph.claims) {
                    if (claim.usable)(&state, &act) {
                        backwards.edges.push((to, from));
                    }
                }
            }
        }
        graph
    }

    /// The number of a state, and whether it is a new one.
    fn number<S: Hash>(&mut self, state: &S, parent: (u32, usize)) -> (u32, bool) {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        let next = u32::try_from(self.parents.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(hasher.finish()).or_insert(next);
        if number == next {
            self.parents.push(parent);
        }
        (number, number == next)
    }

    /// How a state was reached: the acts, then the state.
    fn trace<M>(&self, model: &M, number: u32) -> Vec<String>
    where
        M: Model,
        M::State: Clone + Debug,
        M::Action: Clone + Debug,
    {
        let mut indices = Vec::new();
        let (mut at, mut index) = self.parents[number as usize];
        while index != usize::MAX {
            indices.push(index);
            (at, index) = self.parents[at as usize];
        }
        let mut trace = Vec::new();
        let mut state = model.init_states().into_iter().next();
        for index in indices.into_iter().rev() {
            let mut acts = Vec::new();
            if let Some(now) = &state {
                model.actions(now, &mut acts);
                let act = acts.swap_remove(index);
                trace.push(format!("{act:?}"));
                state = model.next_state(now, act);
            }
        }
        trace.push(format!("{state:?}"));
        trace
    }
}

impl Backwards {
    /// The first state from which no goal can be reached.
    fn stranded(&self, states: usize) -> Option<u32> {
        let mut sources = self.edges.clone();
        sources.sort_unstable();
        let mut can_end = vec![false; states];
        let mut queue: VecDeque<u32> = self.goals.iter().copied().collect();
        for goal in &self.goals {
            can_end[*goal as usize] = true;
        }
        while let Some(to) = queue.pop_front() {
            let first = sources.partition_point(|edge| edge.0 < to);
            for (_, from) in sources[first..].iter().take_while(|edge| edge.0 == to) {
                if !std::mem::replace(&mut can_end[*from as usize], true) {
                    queue.push_back(*from);
                }
            }
        }
        let stranded = can_end.iter().position(|can_end| !can_end)?;
        u32::try_from(stranded).ok()
    }
}

/// Counts up to three; from two it can also fall into a trap at nine.
struct Trap;

impl Model for Trap {
    type State = u8;
    type Action = u8;

    fn init_states(&self) -> Vec<u8> {
        vec![0]
    }

    fn actions(&self, state: &u8, acts: &mut Vec<u8>) {
        match state {
            0 | 1 => acts.push(state + 1),
            2 => acts.extend([0, 3, 9]),
            _ => {}
        }
    }

    fn next_state(&self, _: &u8, act: u8) -> Option<u8> {
        Some(act)
    }
}

fn trap_claim(goal: fn(&u8) -> bool, usable: fn(&u8, &u8) -> bool) -> [Claim<Trap>; 1] {
    let name = "the trap";
    [Claim { name, goal, usable }]
}

#[test]
fn explorer_accepts_what_can_end() {
    let claims = trap_claim(|state| *state == 3 || *state == 9, |_, _| true);
    assert_eq!(every_state_can_end(&Trap, &claims), 5);
}

#[test]
#[should_panic(
    expected = "stranded after Some(\n    [\n        \"1\",\n        \"2\",\n        \"9\","
)]
fn explorer_finds_the_trap() {
    every_state_can_end(&Trap, &trap_claim(|state| *state == 3, |_, _| true));
}

#[test]
#[should_panic(expected = "stranded")]
fn explorer_heeds_what_is_usable() {
    let claims = trap_claim(|state| *state == 3 || *state == 9, |_, act| *act < 3);
    every_state_can_end(&Trap, &claims);
}
