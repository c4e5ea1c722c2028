// Allocation sites that tests know by function.
#include <cstring>
#include <memory>
#include <vector>

namespace app {

struct Block {
    char bytes[40000];
};

struct alignas(128) Aligned {
    char bytes[40064];
};

__attribute__((noinline)) Block *by_new() {
    auto *block = new Block;
    std::memset(block->bytes, 1, sizeof block->bytes);
    return block;
}

__attribute__((noinline)) Aligned *by_aligned_new() {
    auto *block = new Aligned;
    std::memset(block->bytes, 1, sizeof block->bytes);
    return block;
}

__attribute__((noinline)) std::vector<char> by_vector() {
    std::vector<char> all;
    all.resize(50000);
    return all;
}

__attribute__((noinline)) std::shared_ptr<Block> by_make_shared() {
    return std::make_shared<Block>();
}

} // namespace app

static char volatile out;

int main() {
    auto *block = app::by_new();
    auto *aligned = app::by_aligned_new();
    auto all = app::by_vector();
    auto shared = app::by_make_shared();
    out = static_cast<char>(block->bytes[7] + aligned->bytes[7] + all[7] + shared->bytes[7]);
    delete aligned;
    delete block;
    return 0;
}
