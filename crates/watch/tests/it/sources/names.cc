// Names as C++ has them.
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>
#define PLACE(x) std::printf("%s %p\nsizeof %s %zx\n", #x, (void *)&(x), #x, sizeof(x))

namespace outer {
int count = 1;
inline namespace v2 { long version = 2; }
namespace { short secret = 3; }
struct Base { int tag = 4; virtual ~Base() = default; };
struct Other { long side = 5; };
class Derived : public Base, public Other {
  public:
    int own = 6;
    static int made;
    static inline long inlined = 7;
    int bump() { static int calls; PLACE(calls); return ++calls; }
};
int Derived::made = 8;
struct Left : virtual Base { int left; };
template <typename T, int N> struct Pool {
    T items[N];
    static int total;
};
template <typename T, int N> int Pool<T, N>::total = 9;
}  // namespace outer

std::atomic<int> atomic{1};
std::atomic<unsigned long> wide{1};
std::atomic<bool> flag{true};
outer::Derived object;
outer::Base *base = &object;
outer::Derived &reference = object;
outer::Left left;
outer::Pool<outer::Derived, 3> pool;
std::vector<int> numbers{1, 2, 3};
std::string text = "text";
enum class Mode : unsigned char { Off, On };
Mode mode = Mode::On;
int outside = 3;

int main() {
    object.bump();
    PLACE(outer::count);
    PLACE(outer::version);
    PLACE(outer::v2::version);
    PLACE(outer::secret);
    PLACE(outer::Derived::made);
    PLACE(outer::Derived::inlined);
    using Pool = outer::Pool<outer::Derived, 3>;
    std::printf("outer::Pool<outer::Derived, 3>::total %p\n", (void *)&Pool::total);
    std::printf("sizeof outer::Pool<outer::Derived, 3>::total %zx\n", sizeof Pool::total);
    PLACE(object.own);
    PLACE(object.tag);
    PLACE(object.side);
    PLACE(base->tag);
    PLACE(reference.own);
    PLACE(reference);
    PLACE(pool.items[2].side);
    PLACE(atomic);
    PLACE(wide);
    PLACE(flag);
    PLACE(mode);
    PLACE(outside);
    PLACE(numbers);
    std::printf("numbers._M_impl._M_start[1] %p\n", (void *)&numbers[1]);
    std::printf("sizeof numbers._M_impl._M_start[1] %zx\n", sizeof(int));
    std::puts("ready");
    std::fflush(stdout);
    std::getchar();
    return 0;
}
