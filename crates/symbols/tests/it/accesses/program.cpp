// Each line with a comment `// Type.field` accesses that field and nothing else in memory.
#include <memory>
#include <vector>
#define NOINLINE __attribute__((noinline))

namespace {
struct Hidden { long a, b; };
}

namespace store {
class Counter {
public:
    long add(long by) {
        total += by; // Counter.total
        return calls++; // Counter.calls
    }
    NOINLINE long reset(long to);
private:
    long total;
    long calls;
};

NOINLINE long Counter::reset(long to) {
    long old = total; // Counter.total
    calls = to; // Counter.calls
    return old;
}

struct Base { virtual long run(long); long shared; long depth; };
struct Derived : Base { long run(long) override; long own; Counter counter; };
struct Second { long second; };
struct Both : Base, Second { long both; };

NOINLINE long Derived::run(long by) {
    own += by; // Derived.own
    shared = by; // Derived.shared
    return depth; // Derived.depth
}
NOINLINE long Base::run(long by) {
    depth = by; // Base.depth
    return shared; // Base.shared
}

template <class T> struct Node { Node *next; T value; std::unique_ptr<Node> owned; };
}

using namespace store;
extern long other(long);
extern Counter global_counter;
Counter global_counter;
Both both;
static Hidden hidden[4];

NOINLINE long reference(Counter &counter, long by) { return counter.add(by) + 1; }

NOINLINE long inherited(Both *b) {
    b->second = 3; // Both.second|Second.second
    b->both = 4; // Both.both
    return b->shared; // Both.shared|Base.shared
}

NOINLINE long derived_from_base(Base *b) {
    Derived *d = static_cast<Derived *>(b);
    long own = d->own; // Derived.own
    d->depth = own; // Derived.depth|Base.depth
    return own;
}

NOINLINE long templates(Node<long> *n) {
    long sum = 0;
    for (; n;) {
        sum += n->value; // Node<long int>.value|Node<long>.value
        n = n->next; // Node<long int>.next|Node<long>.next
    }
    return sum;
}

NOINLINE long owned(std::unique_ptr<Node<long>> &p) {
    p->value = 4; // unique_ptr > Node<long int>.value|Node<long>.value
    return 1;
}

NOINLINE long vector_sum(const std::vector<Hidden> &all) {
    long sum = 0;
    for (const Hidden &one : all) {
        sum += one.a; // Hidden.a
        sum ^= one.b * 3; // Hidden.b
    }
    return sum;
}

NOINLINE long statics(long by) {
    hidden[1].a = by; // Hidden.a
    return global_counter.add(by);
}

NOINLINE long indexed(unsigned long at) {
    long b = hidden[at].b; // Hidden.b
    hidden[at].a = b; // Hidden.a
    return b;
}

NOINLINE long lambda(Hidden *h, long by) {
    auto add = [h](long more) {
        h->a += more; // Hidden.a
    };
    add(by);
    long b = other(by);
    add(b);
    h->b = b; // Hidden.b
    return b;
}

NOINLINE long thrown(Hidden *h) {
    try {
        other(1);
        h->a = 1; // Hidden.a
    } catch (int) {
        h->b = 2; // Hidden.b
    }
    return other(3);
}

NOINLINE long by_value(Hidden h, Counter *c) {
    c->add(h.a);
    return h.b;
}

NOINLINE long pairs(std::pair<long, Hidden> *p) {
    p->first = 1; // pair<long int, (anonymous namespace)::Hidden>.first|pair<long, (anonymous namespace)::Hidden>.first
    return p->second.b; // pair<long int, (anonymous namespace)::Hidden>.second.b|pair<long, (anonymous namespace)::Hidden>.second.b
}

struct Visitor {
    virtual ~Visitor();
    virtual void visit(Hidden &hidden);
    long visits;
    Hidden last;
};
Visitor::~Visitor() {}
NOINLINE void Visitor::visit(Hidden &hidden) {
    visits++; // Visitor.visits
    other(4);
    last.a = hidden.a; // Hidden.a > Visitor.last.a
}

NOINLINE long call_virtual(Visitor *v, Hidden *h) {
    v->visits = 4; // Visitor.visits
    other(2);
    h->a = 5; // Hidden.a
    return v->last.b; // Visitor.last.b
}

template <class T, int N> struct Ring {
    T items[N];
    unsigned long head, tail;
    bool push(const T &item) {
        if (tail - head == N) // Ring<(anonymous namespace)::Hidden, 8>.head|Ring<(anonymous namespace)::Hidden, 8>.tail
            return false;
        items[tail % N] = item;
        tail++; // Ring<(anonymous namespace)::Hidden, 8>.tail
        return true;
    }
};
NOINLINE bool ring_push(Ring<Hidden, 8> &ring, const Hidden &hidden) { return ring.push(hidden); }
