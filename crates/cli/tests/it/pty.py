"""Runs a program on a terminal of its own and does what the steps say, one after the other.

argv: steps as JSON, then the program and its arguments. Steps: ["wait", TEXT] until the screen has it, ["gone",
TEXT] until it has not, ["send", KEYS], ["resize", ROWS, COLUMNS], ["signal", NUMBER], ["run", COMMAND], ["close"] for a
terminal that goes away. Prints as JSON how it ended, the
screens after each step, and whether the terminal is as it was before.
"""
import fcntl, json, os, pty, re, select, signal, struct, sys, termios, time, unicodedata

PATIENCE = 120
SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>78]")


class Screen:
    """What a terminal would show, as far as programs that draw cell by cell need it."""

    def __init__(self, rows, columns):
        self.size, self.cells, self.at = (rows, columns), {}, [0, 0]
        self.alternate = self.hidden = False
        self.rest = ""

    def feed(self, text):
        text, self.rest = self.rest + text, ""
        while text:
            found = SEQUENCE.match(text)
            if found:
                self.act(found.group(1) or "", found.group(2) or "")
                text = text[found.end():]
            elif text[0] == "\x1b":
                self.rest = text
                return
            else:
                self.put(text[0])
                text = text[1:]

    def act(self, numbers, letter):
        if letter == "H":
            parts = [int(part or 1) for part in (numbers or "1;1").split(";")]
            self.at = [parts[0] - 1, parts[1] - 1 if len(parts) > 1 else 0]
        elif letter == "J":
            self.cells = {}
        elif numbers == "?1049":
            self.alternate, self.cells = letter == "h", {}
        elif numbers == "?25":
            self.hidden = letter == "l"

    def put(self, c):
        if c == "\r":
            self.at[1] = 0
        elif c == "\n":
            self.at[0] += 1
        elif c >= " ":
            self.cells[tuple(self.at)] = c
            self.at[1] += 2 if unicodedata.east_asian_width(c) in "WF" else 1

    def text(self):
        rows = range(self.size[0])
        line = lambda row: "".join(self.cells.get((row, at), " ") for at in range(self.size[1])).rstrip()
        return "\n".join(line(row) for row in rows)


def resize(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


steps, program = json.loads(sys.argv[1]), sys.argv[2:]
leader, follower = pty.openpty()
resize(leader, 24, 110)
before = termios.tcgetattr(follower)
pid = os.fork()
if pid == 0:
    os.close(leader)
    os.setsid()
    fcntl.ioctl(follower, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(follower, fd)
    os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
    os.execv(program[0], program)

screen, raw, screens, status, failure = Screen(24, 110), b"", [], None, None


def read(seconds):
    global raw
    if leader is None:
        time.sleep(seconds)
    elif select.select([leader], [], [], seconds)[0]:
        piece = os.read(leader, 65536)
        raw += piece
        screen.feed(piece.decode("utf-8", "replace"))


def ended():
    global status
    if status is None:
        done, how = os.waitpid(pid, os.WNOHANG)
        status = os.waitstatus_to_exitcode(how) if done else None
    return status is not None


def until(what, done):
    global failure
    start = time.monotonic()
    while not done():
        read(0.05)
        if ended() and not done() or time.monotonic() - start > PATIENCE:
            failure = what
            return


for step in steps:
    what, words = step[0], step[1:]
    if what == "wait":
        until(f"waited for {words[0]!r}", lambda: words[0] in screen.text())
    elif what == "gone":
        until(f"waited for {words[0]!r} to go", lambda: words[0] not in screen.text())
    elif what == "send":
        os.write(leader, words[0].encode())
    elif what == "resize":
        screen.size = tuple(words)
        resize(leader, *words)
        os.kill(pid, signal.SIGWINCH)
    elif what == "signal":
        os.kill(pid, words[0])
    elif what == "close":
        os.close(leader)
        leader = None
    elif what == "run":
        os.system(words[0])
    screens.append(screen.text())
    if failure:
        os.kill(pid, signal.SIGKILL)
        break

start = time.monotonic()
while not ended():
    read(0.05)
    if time.monotonic() - start > PATIENCE:
        failure = failure or "waited for its end"
        os.kill(pid, signal.SIGKILL)
read(0.2)
is_same = leader is None or termios.tcgetattr(follower) == before
print(json.dumps({
    "status": status,
    "failure": failure,
    "screens": screens,
    "restored": leader is None or is_same and not screen.alternate and not screen.hidden,
    "raw": raw.decode("utf-8", "replace"),
}))
