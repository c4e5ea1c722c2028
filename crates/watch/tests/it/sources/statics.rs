//! Names as Rust has them.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(1);
static mut PLAIN: i32 = 2;
static FLAG: AtomicBool = AtomicBool::new(true);

mod inner {
    pub struct Pair {
        pub small: u8,
        pub pair: (u16, u32),
        pub list: [u64; 3],
    }
    pub static mut PAIR: Pair = Pair { small: 1, pair: (2, 3), list: [4, 5, 6] };
    pub static mut BOXED: Option<Box<Pair>> = None;
    pub static COUNT: super::AtomicU64 = super::AtomicU64::new(7);
}

macro_rules! place {
    ($name:literal, $place:expr) => {
        let place = &raw const $place;
        println!("{} {:x}", $name, place as usize);
        println!("sizeof {} {:x}", $name, std::mem::size_of_val(unsafe { &*place }));
    };
}

fn main() {
    unsafe {
        (&raw mut inner::BOXED).write(None);
        (&raw mut PLAIN).write(COUNT.load(Ordering::Relaxed) as i32);
        place!("statics::COUNT", COUNT);
        place!("PLAIN", PLAIN);
        place!("FLAG", FLAG);
        place!("statics::inner::COUNT", inner::COUNT);
        place!("inner::PAIR.small", inner::PAIR.small);
        place!("PAIR.pair.__1", inner::PAIR.pair.1);
        place!("statics::inner::PAIR.list[2]", inner::PAIR.list[2]);
        place!("BOXED", inner::BOXED);
    }
    println!("ready");
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    println!("{}", FLAG.load(Ordering::Relaxed));
}
