/* mulligan-client: hands a hook event or a command to the running watcher and prints its answer (cli/client.py in C).
   Before a request was sent, anything unexpected ends in an exec of the `mulligan` script beside this program's own
   file, with the stdin that was read, and nothing has happened. A request that was sent is never sent again: where its
   answer is lost, the watcher is asked by request id what became of it. Protocol: docs/explanation/watching.md. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PROTOCOL "mulligan 2" /* VERSION comes from the build: hatch_build.py */
#define LARGEST (64u << 20)
#define LOOK 250          /* milliseconds between two looks at a watcher that does not answer */
#define GREETING_LOOKS 20 /* a watcher that works for another client is waited for before a request: 5 s */
#define STOPPED_LOOKS 8   /* a watcher that is stopped over a request: 2 s */
#define EVENT_WAIT 20000  /* milliseconds; agents give a hook 30 s */
enum { READS = 1, PAGED = 2, ASKS = 4, HOOK = 8 };
struct bytes { char *at; size_t size; };
struct link { int fd; pid_t peer; char id[64]; };
static const struct { const char *name; int kind; } COMMANDS[] = {
    {"hook", HOOK}, {"save", 0}, {"undo", ASKS}, {"redo", 0}, {"restore", ASKS}, {"revert", ASKS}, {"status", READS}, {"cat", READS},
    {"log", READS | PAGED}, {"show", READS | PAGED}, {"diff", READS | PAGED}, {NULL, 0},
};
static int argc, kind, folder = -1, event_taken;
static char **argv, *directory = ".";
static struct bytes event; static volatile sig_atomic_t interrupted;
static void interrupt(int number) { interrupted = number; }

/* Writes all of it; returns the error. */
static int put(int fd, const char *data, size_t size) {
    for (ssize_t done; size; data += done, size -= (size_t)done)
        if ((done = write(fd, data, size)) < 0) return errno;
    return 0;
}

/* Becomes the Python program, which does the work, or says what went wrong (MULLIGAN_ASKED). */
static _Noreturn void run_python(const char *asked) {
    char path[PATH_MAX] = "";
    int fd = event_taken ? memfd_create("event", MFD_CLOEXEC) : 0;
    if (fd < 0 || (fd && (put(fd, event.at, event.size) || lseek(fd, 0, SEEK_SET) || dup2(fd, 0) < 0))) _exit(126);
    if (readlink("/proc/self/exe", path, sizeof path - sizeof "mulligan") > 0) {
        strcpy(strrchr(path, '/') + 1, "mulligan");
        if (asked || interrupted) setenv("MULLIGAN_ASKED", interrupted ? "interrupted" : asked, 1);
        argv[0] = path;
        execv(path, argv);
    }
    dprintf(2, "mulligan: The script beside mulligan-client cannot be run (%s). Nothing was done.\n", strerror(errno));
    _exit(127);
}

/* A message is a frame of items; frames and items are bytes behind their length, four bytes in network order. */
static void add(struct bytes *frame, const void *data, size_t size) {
    uint32_t length = htonl((uint32_t)size);
    char *larger = size > LARGEST ? NULL : realloc(frame->at, frame->size + 4 + size);
    if (!larger) run_python("declined");
    memcpy(larger + frame->size, &length, 4);
    if (size) memcpy(larger + frame->size + 4, data, size);
    frame->at = larger, frame->size += 4 + size;
}

static void add_text(struct bytes *frame, const char *text) { add(frame, text, strlen(text)); }
/* Takes the next item from the front of a frame; empty where there is none. */
static struct bytes take(struct bytes *frame) {
    uint32_t length = 0;
    if (frame->size >= 4) memcpy(&length, frame->at, 4);
    if (frame->size < 4 || (length = ntohl(length)) > frame->size - 4) return (struct bytes){"", 0};
    frame->at += 4 + length, frame->size -= 4 + length;
    return (struct bytes){frame->at - length, length};
}

static int is(struct bytes item, const char *text) { return item.size == strlen(text) && !memcmp(item.at, text, item.size); }
static int is_stopped(pid_t process) {
    char text[512] = "";
    snprintf(text, sizeof text, "/proc/%d/stat", (int)process);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, text, sizeof text - 1);
    text[size < 0 ? 0 : size] = 0;
    close(fd);
    return strstr(text, ") T ") || strstr(text, ") t ");
}

/* Receives exactly `size` bytes; 0 when they do not come. Once it was sent a request, a watcher has all the time it needs. */
static int receive(struct link *link, char *to, size_t size, int sent) {
    for (int looks = 0; size;) {
        struct pollfd ready = {link->fd, POLLIN, 0};
        int found = poll(&ready, 1, LOOK);
        if (interrupted) run_python(NULL);
        if (found == 0) {
            int stopped = is_stopped(link->peer);
            if (!sent && (stopped || ++looks >= GREETING_LOOKS)) return 0;
            if (sent && (looks = stopped ? looks + 1 : 0) >= STOPPED_LOOKS) run_python("stopped");
        }
        if (found <= 0) continue;
        ssize_t part = recv(link->fd, to, size, 0);
        if (part <= 0) return 0;
        to += part, size -= (size_t)part;
    }
    return 1;
}

static int receive_frame(struct link *link, struct bytes *frame, int sent) {
    uint32_t head;
    if (!receive(link, (char *)&head, 4, sent) || (frame->size = ntohl(head)) > (sent ? 8 * LARGEST : 4096)) return 0;
    return (frame->at = calloc(1, frame->size + 1)) && receive(link, frame->at, frame->size, sent);
}

/* Sends a whole frame, or returns 0: a watcher runs nothing of a frame that is not whole. */
static int send_frame(struct link *link, struct bytes items) {
    struct bytes frame = {0};
    add(&frame, items.at, items.size);
    return send(link->fd, frame.at, frame.size, MSG_NOSIGNAL) == (ssize_t)frame.size;
}

/* Connects to a socket of this user, behind which a process of this user speaks our protocol in our version. */
static int greet(const char *name, struct link *link) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {LOOK * GREETING_LOOKS / 1000, 0};
    struct stat found;
    struct ucred peer;
    struct bytes frame = {0};
    if (fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) || found.st_uid != geteuid() || !S_ISSOCK(found.st_mode) ||
        found.st_mode & 077 || (link->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        return 0;
    setsockopt(link->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder, name);
    if (connect(link->fd, (struct sockaddr *)&address, sizeof address) ||
        getsockopt(link->fd, SOL_SOCKET, SO_PEERCRED, &peer, &(socklen_t){sizeof peer}) || peer.uid != geteuid())
        return 0;
    link->peer = peer.pid;
    if (!receive_frame(link, &frame, 0) || !is(take(&frame), PROTOCOL) || !is(take(&frame), VERSION)) return 0;
    struct bytes id = take(&frame);
    return id.size && id.size < sizeof link->id && sprintf(link->id, "%.*s", (int)id.size, id.at) == (int)id.size;
}

static struct bytes make_request(const char *id) {
    char here[PATH_MAX], text[64];
    struct stat found;
    struct winsize window = {0};
    struct bytes request = {0};
    if (!getcwd(here, sizeof here) || stat(".", &found)) run_python("declined");
    ioctl(1, TIOCGWINSZ, &window);
    add_text(&request, "run");
    add_text(&request, id);
    add_text(&request, here);
    add(&request, text, (size_t)sprintf(text, "%lu %lu", (unsigned long)found.st_dev, (unsigned long)found.st_ino));
    add(&request, text, (size_t)sprintf(text, "%d%d %d %d", isatty(1), isatty(2), window.ws_col, argc - 1));
    add(&request, event.at, event.size);
    for (int at = 1; at < argc; at++) add_text(&request, argv[at]);
    for (char **each = environ; *each; each++) add_text(&request, *each);
    return request;
}

/* Prints an answer and ends; returns where it is none. */
static void print_answer(struct bytes answer) {
    struct bytes number = take(&answer), out = take(&answer), err = take(&answer);
    if (!number.size || number.size > 3 || strspn(number.at, "0123456789") < number.size) return;
    int code = atoi(number.at); /* the next byte begins a length, or is the zero behind the frame: no digit */
    signal(SIGPIPE, SIG_IGN), signal(SIGINT, SIG_DFL);
    int error = put(1, out.at, out.size);
    put(2, err.at, err.size);
    if (!error || error == EPIPE) _exit(code);
    dprintf(2, "mulligan: The output could not be written (%s).%s\n", strerror(error),
            kind & READS ? "" : " The command itself is done.");
    _exit(code ? code : kind & READS ? 1 : 3);
}

/* Has the watcher behind a socket run the command; returns where it did not, and another may. */
static void ask(const char *name) {
    struct link link, again;
    struct bytes answer = {0}, question = {0}, what;
    signal(SIGINT, interrupt);
    if (!greet(name, &link) || !send_frame(&link, make_request(link.id))) return;
    if (!receive_frame(&link, &answer, 1)) {
        add_text(&question, "ask");
        add_text(&question, link.id);
        if (!greet(name, &again) || !send_frame(&again, question) || !receive_frame(&again, &answer, 1)) answer.size = 0;
    }
    if (is(what = take(&answer), "done")) print_answer(answer);
    if (!is(what, "declined")) run_python("lost");
}

/* Takes the event from stdin, all of it; one that is not whole within the time is for Python. */
static void take_event(void) {
    struct pollfd ready = {0, POLLIN, 0};
    event.at = malloc(LARGEST);
    for (event_taken = 1; event.at && event.size < LARGEST && poll(&ready, 1, EVENT_WAIT) > 0;) {
        ssize_t size = read(0, event.at + event.size, LARGEST - event.size);
        if (size <= 0) return;
        event.size += (size_t)size;
    }
    run_python("declined");
}

/* Whether these words may be for a watcher; finds their directory and the kind of the command. */
static int is_for_watcher(void) {
    const char *watch = getenv("MULLIGAN_WATCH");
    int at = 1, number = 0;
    for (; at < argc && argv[at][0] == '-'; at++)
        if (!strcmp(argv[at], "-C") && at + 1 < argc) directory = argv[++at];
        else if (!strcmp(argv[at], "--store") && at + 1 < argc) at++;
        else if (strcmp(argv[at], "--json") && strcmp(argv[at], "--no-pager")) return 0;
    while (at < argc && COMMANDS[number].name && strcmp(argv[at], COMMANDS[number].name)) number++;
    kind = COMMANDS[number].kind;
    int person = (kind & (ASKS | HOOK) && isatty(0)) || (kind & PAGED && isatty(1));
    int closed = fcntl(0, F_GETFD) < 0 || fcntl(1, F_GETFD) < 0 || fcntl(2, F_GETFD) < 0;
    return at < argc && COMMANDS[number].name && !person && !closed && !(watch && !strcmp(watch, "0"));
}

/* Asks the watchers of the nearest workspace, upward from the directory, that has any. */
static void ask_watchers(void) {
    const char *runtime = getenv("XDG_RUNTIME_DIR"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char here[PATH_MAX], place[PATH_MAX] = "", begins[64];
    struct stat found;
    if (runtime && *runtime == '/') snprintf(place, sizeof place, "%s/mulligan", runtime);
    else if (state && *state == '/') snprintf(place, sizeof place, "%s/mulligan/run", state);
    else if (home && *home == '/') snprintf(place, sizeof place, "%s/.local/state/mulligan/run", home);
    folder = open(place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &found) || found.st_uid != geteuid() || found.st_mode & 077) return;
    DIR *list = realpath(directory, here) ? fdopendir(dup(folder)) : NULL;
    for (int asked = 0; list && !asked && !stat(here, &found); *(strrchr(here, '/') + (strrchr(here, '/') == here)) = 0) {
        size_t size = (size_t)sprintf(begins, "%lx-%lx-", (unsigned long)found.st_dev, (unsigned long)found.st_ino);
        rewinddir(list);
        for (struct dirent *each; (each = readdir(list));) {
            if (strncmp(each->d_name, begins, size) || strcmp(strchrnul(each->d_name, '.'), ".sock")) continue;
            if (kind & HOOK && !event_taken) take_event();
            ask(each->d_name), asked = 1;
        }
        if (!here[1]) return;
    }
}

int main(int count, char **words) {
    argc = count, argv = words;
    if (!is_for_watcher()) run_python(NULL);
    ask_watchers();
    run_python("declined");
}
