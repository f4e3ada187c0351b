//! Run under the emulator before anything is configured: Rust's standard library for the target.
use std::sync::atomic::{AtomicU64, Ordering};

fn main() {
    static SUM: AtomicU64 = AtomicU64::new(0);
    let threads: Vec<_> = (0..2)
        .map(|_| std::thread::spawn(|| (0..1000).for_each(|_| drop(SUM.fetch_add(1, Ordering::Relaxed)))))
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a thread that cannot fail"));
    println!("byte-order {}", if 1u16.to_ne_bytes() == [1, 0] { "little" } else { "big" });
    println!("pointer-bits {}", usize::BITS);
    println!("threads {}", SUM.load(Ordering::Relaxed));
    println!("now {}", std::time::UNIX_EPOCH.elapsed().is_ok());
}
