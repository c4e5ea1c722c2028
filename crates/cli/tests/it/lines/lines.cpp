// The same in C++: members of classes, atomics, a base class, a namespace, a container's buffer.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

namespace app {
struct Base { std::atomic<long> reads{0}; };
struct alignas(64) Table : Base {
    std::atomic<long> writes{0};
    void read() { reads.fetch_add(1, std::memory_order_relaxed); }
    void write() { writes.fetch_add(1, std::memory_order_relaxed); }
};
Table table;
struct alignas(64) Config { int size = 3; std::atomic<bool> ready{true}; };
Config config;
class alignas(64) Meter {
public:
    static std::atomic<long> total;
    static void add() { total++; }
};
alignas(64) std::atomic<long> Meter::total{0};
struct alignas(64) Slot { std::atomic<int> value[16]; };
std::unique_ptr<Slot> owner;
Slot *slot;
}

template <typename F> void run(F what) {
    std::thread([what] { for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) what(); }).detach();
}

int main() {
    using namespace app;
    owner = std::make_unique<Slot>();
    slot = owner.get();
    run([] { table.read(); });
    run([] { table.write(); });
    run([] { Meter::add(); });
    run([] { Meter::add(); });
    run([] { (void)config.ready.load(std::memory_order_relaxed); });
    run([] { (void)config.ready.load(std::memory_order_relaxed); });
    run([] { slot->value[0].fetch_add(1, std::memory_order_relaxed); });
    run([] { slot->value[3].fetch_add(1, std::memory_order_relaxed); });
    std::puts("ready");
    std::fflush(stdout);
    for (;;) if (std::getchar() == EOF) return 0;
}
