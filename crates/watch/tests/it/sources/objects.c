/* Objects of all kinds, which say themselves where they are. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PLACE(x) printf("%s %p\nsizeof %s %zx\n", #x, (void *)&(x), #x, sizeof(x))

enum color { RED = -1, GREEN, BLUE = 200 };
typedef struct point { int x, y; } point;
struct node {
    struct node *next;
    const volatile short key;
    union { long number; struct { char low, high; }; };
    struct { int inner; } named;
    point corners[3][2];
    unsigned ready : 1, state : 5;
    double weight;
    enum color color;
    _Bool flag;
    char text[12];
    int (*call)(int);
};
struct __attribute__((packed)) packed { char tag; long value; };
struct opaque;

int counter = 1;
static long hidden = 2;
extern int other;
struct node first, *head;
struct node **volatile handle = &head;
point *points;
int grid[4][5];
const volatile unsigned char byte_of_many = 7;
_Atomic unsigned long atomic_count;
struct packed packed;
struct opaque *opaque;
void *anything = &counter;
__thread int own;
struct { int a, c; } s;
long double wide;
int *null;
extern int *list_of(void);

__attribute__((noinline)) static int bump(int by) {
    static int calls;
    PLACE(calls);
    calls += by;
    return calls;
}

static void *work(void *nothing) {
    own = 2;
    pthread_exit(nothing);
}

int main(void) {
    pthread_t thread;
    head = calloc(1, sizeof *head);
    head->next = &first;
    points = calloc(4, sizeof *points);
    own = pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    bump(hidden);
    PLACE(counter);
    PLACE(hidden);
    PLACE(other);
    PLACE(first);
    PLACE(first.key);
    PLACE(first.number);
    PLACE(first.high);
    PLACE(first.named.inner);
    PLACE(first.corners[2][1].y);
    PLACE(first.corners[1]);
    PLACE(first.weight);
    PLACE(first.color);
    PLACE(first.flag);
    PLACE(first.text[3]);
    PLACE(first.call);
    PLACE(head);
    PLACE(head->next);
    PLACE(head->next->color);
    PLACE((*handle)->next->corners[0][1].x);
    PLACE(**handle);
    PLACE(*head);
    PLACE(points[2].y);
    PLACE(points[-0]);
    PLACE(*grid);
    PLACE(grid[3][4]);
    PLACE(byte_of_many);
    PLACE(atomic_count);
    PLACE(packed.tag);
    PLACE(wide);
    PLACE(s.c);
    PLACE(anything);
    printf("bump %p\n", (void *)bump);
    printf("list %p\n", (void *)list_of());
    puts("ready");
    fflush(stdout);
    getchar();
    return (int)packed.value + (opaque != NULL) + (null != NULL);
}
