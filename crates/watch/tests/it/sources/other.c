/* Names that the other file has too. */
struct opaque { int here; long there; };
struct opaque whole;
int other = 5;
static long hidden = 3;
int *list_of(void) { return (int *)&hidden; }
static struct lonely { int a; } lonely;
int use_lonely(void) { return lonely.a + whole.here; }
