//! Makes one state of many that differ only in the numbers of lives, and in how far revisions are apart.

use crate::state::{Life, Memory, Record, Running, State, Write};

/// Numbers lives in the order in which the state has them, and revisions by their order. What is written next has a
/// revision right after another one, and none in between may be missed.
pub fn normalize(state: &mut State) {
    const APART: u64 = 16;
    let mut known = vec![0];
    lives(state, |life| {
        let position = known.iter().position(|known| known == life).unwrap_or_else(|| {
            known.push(*life);
            known.len() - 1
        });
        *life = u64::try_from(position).expect("few lives");
    });
    state.lives = u64::try_from(known.len() - 1).expect("few lives");
    let mut order = vec![0];
    revisions(state, |revision| order.push(*revision));
    order.sort_unstable();
    order.dedup();
    revisions(state, |revision| {
        let rank = order.binary_search(revision).expect("one of them");
        *revision = u64::try_from(rank).expect("few revisions") * APART;
    });
}

fn records(state: &mut State, each: impl FnMut(&mut Record)) {
    let in_directories = state.directories.iter_mut().filter_map(|directory| directory.record.as_mut());
    let images = state.servers.iter_mut().filter_map(|server| server.image.as_mut());
    in_directories.chain(images.filter_map(|image| image.record.as_mut())).for_each(each);
}

fn lives(state: &mut State, mut each: impl FnMut(&mut u64)) {
    records(state, |record| {
        each(&mut record.life);
        each(&mut record.previous_life);
    });
    for server in &mut state.servers {
        let in_image = server.image.as_mut().and_then(|image| image.life.as_mut());
        server.life.as_mut().into_iter().chain(in_image).for_each(|life| each(&mut life.number));
        match &mut server.memory {
            Memory::Starting(start) => written(&mut start.write, |life| each(&mut life.number)),
            Memory::Running(running) => each(&mut running.life),
            Memory::Down | Memory::Waiting(_) => {}
        }
    }
}

fn revisions(state: &mut State, mut each: impl FnMut(&mut u64)) {
    records(state, |record| each(&mut record.revision));
    for server in &mut state.servers {
        let in_image = server.image.as_mut().and_then(|image| image.life.as_mut());
        server.life.as_mut().into_iter().chain(in_image).for_each(|life| each(&mut life.revision));
        match &mut server.memory {
            Memory::Starting(start) => written(&mut start.write, |life| each(&mut life.revision)),
            Memory::Running(Running { revision, .. }) => each(revision),
            Memory::Down | Memory::Waiting(_) => {}
        }
    }
}

fn written(write: &mut Write, each: impl FnOnce(&mut Life)) {
    if let Write::Life(life) = write {
        each(life);
    }
}
