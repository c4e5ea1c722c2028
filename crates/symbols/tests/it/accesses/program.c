/* Each line with a comment `// type.field` accesses that field and nothing else in memory; `// one > other` loads one
   and stores the other. */
typedef unsigned long word;
#define NOINLINE __attribute__((noinline))

struct node { struct node *next, *previous; long value; char tag; };
struct slot { long sequence; int value; short low, high; };
struct inner { long first, second; };
struct queue {
    struct node *head;
    struct node *tail;
    long count;
    struct inner inner;
    struct slot slots[8];
    unsigned ready : 3;
    unsigned level : 5;
    unsigned rest : 24;
    struct queue *other;
};
union either { long number; void *pointer; char bytes[8]; };
struct tagged { int tag; union either either; struct tagged *link; };
struct grid { int width, height; int cells[16][16]; };
struct pair { long key, datum; };
typedef struct { long hits, misses; double ratio; } stats;
struct matrix { double *rows[8]; long size; };
struct list { struct list *next, *previous; };
struct item { long id; struct list link; long weight; };

struct queue shared_queue;
struct slot table[64];
static stats totals;
struct node *volatile global_head;
long sink;

/* 1: a linked list */
NOINLINE long list_sum(struct node *n) {
    long sum = 0;
    while (n) {
        sum += n->value; // node.value
        n = n->next; // node.next
    }
    return sum;
}

/* 2: a pointer of a pointer of a pointer */
NOINLINE void unlink_node(struct node *n) {
    struct node *next = n->next; // node.next
    struct node *previous = n->previous; // node.previous
    previous->next = next; // node.next
    next->previous = previous; // node.previous
    n->tag = 0; // node.tag
}

/* 3: nested structures */
NOINLINE long nested(struct queue *q, long by) {
    q->inner.first += by; // queue.inner.first
    long second = q->inner.second; // queue.inner.second
    q->count = second * by; // queue.count
    return second;
}

/* 4: an array of structures in a structure */
NOINLINE long slots_sum(struct queue *q, word at) {
    long sequence = q->slots[at].sequence; // queue.slots[].sequence
    q->slots[at].high = 5; // queue.slots[].high
    q->slots[3].low = 7; // queue.slots[].low
    sink = sequence;
    return q->slots[at].value; // queue.slots[].value
}

/* 5: a loop over structures */
NOINLINE long scan(struct slot *slots, word number) {
    long sum = 0;
    for (word at = 0; at < number; at++) {
        sum += slots[at].value; // slot.value
        sum ^= slots[at].sequence; // slot.sequence
    }
    return sum;
}

/* 6: bit-fields */
NOINLINE int bits(struct queue *q, int level) {
    q->level = level; // queue.level
    q->other->count = 0; // queue.other > queue.count
    return level;
}

/* 7: a union is a whole */
NOINLINE long tagged_number(struct tagged *t) {
    if (t->tag == 3) // tagged.tag
        return t->either.number; // tagged.either
    t->link->either.pointer = 0; // tagged.link > tagged.either
    return 0;
}

/* 8: inlined functions */
static inline void push(struct queue *q, struct node *n) {
    n->next = q->head; // queue.head > node.next
    q->head = n; // queue.head
    q->count++; // queue.count
}
NOINLINE void push_both(struct queue *a, struct queue *b, struct node *n, struct node *m) {
    push(a, n);
    push(b, m);
}

/* 9: a pointer to a pointer */
NOINLINE long through(struct node **place) {
    struct node *n = *place;
    n = n->next; // node.next
    *place = n;
    return n->value; // node.value
}

/* 10: static structures */
NOINLINE long statics(long by) {
    shared_queue.count += by; // queue.count
    shared_queue.inner.second = by; // queue.inner.second
    totals.hits++; // stats.hits
    totals.misses -= by; // stats.misses
    return by;
}

/* 11: a static array of structures */
NOINLINE long from_table(word at) {
    long sum = table[at].sequence; // slot.sequence
    table[at].value = 3; // slot.value
    table[5].high = 2; // slot.high
    return sum;
}

/* 12: a structure on the stack */
void fill(stats *s);
NOINLINE long on_stack(long by) {
    stats local;
    fill(&local);
    local.hits += by; // stack stats.hits
    fill(&local);
    return local.misses; // stack stats.misses
}

/* 13: calls forget, variables remember */
long other(long);
NOINLINE long across_calls(struct queue *q, struct node *n) {
    long sum = other(1);
    sum += q->count; // queue.count
    n->value = other(sum); // node.value
    n = q->tail; // queue.tail
    sum = other(sum);
    n->tag = (char)sum; // node.tag
    return q->inner.first; // queue.inner.first
}

/* 14: two dimensions */
NOINLINE int cell(struct grid *g, word x, word y) {
    g->height = g->width; // grid.width > grid.height
    return g->cells[y][x]; // grid.cells[]
}

/* 15: a choice between two */
NOINLINE long choose(struct pair *a, struct pair *b, int which) {
    struct pair *p = which ? a : b;
    long key = p->key; // pair.key
    p->datum = key * 3; // pair.datum
    return key;
}

/* 16: parts of a switch */
NOINLINE long switched(struct queue *q, int what) {
    switch (what) {
    case 0: return q->count; // queue.count
    case 1: return q->inner.first; // queue.inner.first
    case 2: q->count = 5; // queue.count
        other(1); /* on to the next */
    case 3: return q->inner.second; // queue.inner.second
    case 4: q->head = 0; // queue.head
        return other(2);
    case 5: q->tail = 0; // queue.tail
        return other(7);
    case 6: return q->count + other(3); // queue.count
    }
    return 0;
}

/* 17: from a member to what it is in */
NOINLINE long contained(struct list *at) {
    long sum = 0;
    struct list *l = at->next; // list.next|item.link.next
    while (l != at) {
        struct item *i = (struct item *)((char *)l - __builtin_offsetof(struct item, link));
        sum += i->weight; // item.weight
        i->id = sum; // item.id
        l = l->next; // list.next|item.link.next
    }
    return sum;
}

/* 18: a loop that stores in two structures of an array */
NOINLINE void rotate(struct pair *pairs, int number) {
    for (int at = 1; at < number; at++) {
        pairs[at].datum = pairs[at - 1].key; // pair.key > pair.datum
    }
}

/* 19: pointers in an array */
NOINLINE long rows(struct matrix *m, word at) {
    m->size = m->rows[at] != 0; // matrix.rows[] > matrix.size
    return 0;
}

/* 20: atomic instructions */
NOINLINE long atomics(struct queue *q, long by) {
    __atomic_fetch_add(&q->count, by, __ATOMIC_SEQ_CST); // queue.count
    struct node *old = __atomic_exchange_n(&q->head, (struct node *)0, __ATOMIC_SEQ_CST); // queue.head
    old->value = by; // node.value
    return __atomic_load_n(&q->inner.first, __ATOMIC_ACQUIRE); // queue.inner.first
}

/* 21: more variables than registers */
NOINLINE long crowded(struct queue *a, struct queue *b, struct node *c, struct node *d, struct slot *e, struct pair *f) {
    long s1 = other(1), s2 = other(2), s3 = other(3), s4 = other(4), s5 = other(5);
    a->count = s1; // queue.count
    b->inner.second = s2 + other(s1); // queue.inner.second
    c->value = s3 + other(s2); // node.value
    d->tag = (char)(s4 + other(s3)); // node.tag
    e->value = (int)(s5 + other(s4)); // slot.value
    f->key = s1 + other(s5); // pair.key
    return s1 ^ s2 ^ s3 ^ s4 ^ s5;
}

/* 22: a volatile pointer to a list */
NOINLINE long from_global(void) {
    struct node *n = global_head;
    long value = n->value; // node.value
    n->previous->value = value; // node.previous > node.value
    return value;
}

/* What is below leads those astray who guess. */
struct header { int kind; int length; long bytes[2]; };
struct message { int kind; int length; short port; char text[14]; long stamp; };
struct twins { int left[16]; int right[16]; int total; };
struct text { int length; char bytes[]; };
struct pool { char memory[4096]; long used; };
struct boxed { struct pair *pairs; struct pair own[4]; struct slot *slots; };

/* 23: what begins as another type */
NOINLINE long cast(struct header *h) {
    if (h->kind != 4) // header.kind|message.kind
        return 0;
    struct message *m = (struct message *)h;
    m->port = 80; // message.port
    return m->stamp; // message.stamp
}

/* 24: without a type */
NOINLINE long erased(void *of) {
    struct message *m = of;
    m->stamp = 1; // message.stamp
    return m->length; // message.length
}

/* 25: two arrays, one after the other */
NOINLINE int both_arrays(struct twins *t) {
    for (int at = 0; at < 16; at++) {
        t->left[at] = t->right[at] + 1; // twins.right[] > twins.left[]
    }
    return t->total; // twins.total
}

/* 26: from the end of the first */
NOINLINE int downward(struct twins *t, int from) {
    int sum = 0;
    for (int at = from; at > 0; at--)
        sum = sum * 3 + t->left[at - 1]; // twins.left[]
    return sum;
}

/* 27: behind the structure */
NOINLINE int flexible(struct text *t) {
    int sum = 0;
    for (int at = 0; at < t->length; at++) // text.length
        sum = sum * 3 + t->bytes[at]; // text.bytes[]
    return sum;
}

/* 28: objects in bytes */
NOINLINE long carve(struct pool *p, word at) {
    struct pair *pair = (struct pair *)(p->memory + at);
    pair->datum = 3; // pair.datum|pool.memory
    p->used = 5; // pool.used
    return pair->key; // pair.key|pool.memory
}

/* 29: the same register for two types */
NOINLINE long two_types(struct boxed *b, int which) {
    long *place;
    if (which)
        place = &b->pairs->key; // boxed.pairs
    else
        place = &b->slots->sequence; // boxed.slots
    *place = 4; // pair.key|slot.sequence
    return b->own[2].datum; // boxed.own[].datum
}

/* 30: a difference of pointers */
NOINLINE long copy(struct pair *to, struct slot *from, word number) {
    long sum = 0;
    for (word at = 0; at < number; at++) {
        to[at].key = from[at].sequence; // slot.sequence > pair.key
        to[at].datum = from[at].value; // slot.value > pair.datum
    }
    return sum;
}

/* 31: all of one */
NOINLINE void assign(struct pair *to, struct pair *from) {
    *to = *from; // pair
}

/* 32: from one to the next */
NOINLINE long unrolled(struct pair *p) {
    long a = p[0].key; // pair.key
    p[1].datum = 3; // pair.datum
    p[2].key = 4; // pair.key
    return a;
}

/* 33: the address of a field */
static inline void add_to(long *place, long by) { *place += by; } // queue.count|queue.inner.second
NOINLINE void add_to_fields(struct queue *q, long by) {
    add_to(&q->count, by);
    add_to(&q->inner.second, by);
}
