//! Searches with the crate ldap3 on one thread: `ldap3-peer URL CONNECTIONS DEPTH SECONDS` prints how many were answered.

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ldap3::{LdapConnAsync, Scope, drive};

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, connections, depth, seconds] = arguments.as_slice() else {
        return Err("wants URL CONNECTIONS DEPTH SECONDS".into());
    };
    let (connections, depth): (u32, u32) = (connections.parse()?, depth.parse()?);
    let done = Rc::new(Cell::new(0_u64));
    let mut clients = Vec::new();
    for _ in 0..connections {
        let (connection, client) = LdapConnAsync::new(url).await?;
        drive!(connection);
        clients.push(client);
    }
    let begin = Instant::now();
    let end = begin + Duration::from_secs(seconds.parse()?);
    let mut number = 1_u64;
    let mut tasks = Vec::new();
    for client in clients {
        for _ in 0..depth {
            number += 1;
            let (mut client, done, mut random) = (client.clone(), done.clone(), number);
            tasks.push(tokio::task::spawn_local(async move {
                while Instant::now() < end {
                    // A linear congruential generator (Knuth, MMIX).
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let filter = format!("(uid=user.{})", (random >> 33) % 20_000);
                    let found = client.search("dc=example,dc=com", Scope::Subtree, &filter, vec!["cn", "mail"]);
                    match found.await.and_then(|found| found.success()) {
                        Ok(_) => done.set(done.get() + 1),
                        Err(error) => return eprintln!("ldap3-peer: {error}"),
                    }
                }
            }));
        }
    }
    for task in tasks {
        task.await?;
    }
    println!("{} searches in {:.3} s", done.get(), begin.elapsed().as_secs_f64());
    Ok(())
}
