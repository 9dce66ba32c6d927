use crate::sample;
use crate::*;
#[test]
fn look() {
    for s in [
        sample::single(),
        sample::compared(&["mq-deadline"], 5),
        sample::compared(&["mq-deadline", "kyber", "bfq"], 5),
        sample::grid(),
    ] {
        println!("{}\n=======", terminal(&s.document, Terminal::default()));
    }
    for (n, s) in sample::broken() {
        println!("{n}\n{}\n=======", terminal(&s.document, Terminal::default()));
    }
    println!(
        "{}",
        explanation(&sample::single().document, Terminal { width: 80, color: false, verbose: false })
    );
}
