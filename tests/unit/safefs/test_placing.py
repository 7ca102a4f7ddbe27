"""The threads of the compiled part that stage files and read them back, under the compiler's sanitizers."""

from __future__ import annotations

import subprocess

import pytest

from sanitizing import sanitized

PROGRAM = rb"""
#include <stdio.h>
enum { N = 300, BATCH = 50 };
static char made[3][N][16];
static struct placing wanted[N];
static unsigned char reached[N];
int main(int count, char **given) {
    const char *temporaries[N], *names[N], *gone[N], *replaced[N];
    const unsigned char *contents[N], *text = (const unsigned char *)"newold", *head = (const unsigned char *)"blob 3";
    uint32_t modes[N], at = 0;
    uint64_t inodes[N];
    static struct origin origins[N];
    unsigned char pack[N * 16], record[16] = "\x33";
    static struct deflater deflater;
    int here[N], directory = open(given[count - 1], O_RDONLY | O_DIRECTORY), file = openat(directory, "pack", O_CREAT | O_RDWR, 0644);
    size_t length = 1 + deflate(&deflater, text, 3, record + 1);
    for (int i = 0; i < N; i++) {
        memcpy(pack + i * 16, record, 16);
        pack[i * 16 + i % length] ^= i % 41 == 6; /* these are damaged */
    }
    if (length > 16 || write(file, pack, sizeof pack) != (ssize_t)sizeof pack)
        return 3;
    for (int i = 0; i < N; i++) {
        const char **where[] = {temporaries, names, gone};
        for (int kind = 0; kind < 3; kind++) {
            snprintf(made[kind][i], 16, "%c%d", "tng"[kind], i);
            where[kind][i] = made[kind][i];
        }
        replaced[i] = i % 2 ? names[i] : NULL, modes[i] = 0644, contents[i] = text, here[i] = directory;
        origins[i] = (struct origin){(uint64_t)i * 16, sizeof pack, 3, {0}, i % 3 ? file : -1};
        sha1_of(head, 7, text, 3, origins[i].oid, 0);
        if (i % 2) {
            int fd = openat(directory, names[i], O_CREAT | O_RDWR, 0644);
            if (write(fd, "old", 3) != 3)
                return 2;
            close(fd);
        }
    }
    uint64_t sizes[N];
    void *batch = NULL;
    for (int i = 0; i < N; i += BATCH)
        batch = mulligan_stage(batch, BATCH, here + i, temporaries + i, replaced + i, modes + i, contents + i,
                               origins + i, inodes + i);
    mulligan_sizes(N, origins, sizes);
    mulligan_stage_wait(batch);
    mulligan_stage_end(batch);
    for (int i = 0; i < N; i++)
        if (!inodes[i]) { /* left to Python */
            struct stat st;
            int fd = openat(directory, temporaries[i], O_CREAT | O_EXCL | O_RDWR, 0644);
            if (fd < 0 || fstat(fd, &st) || write(fd, text, 3) != 3)
                return 4;
            inodes[i] = st.st_ino;
            printf("%d ", i);
            close(fd);
        }
    for (int i = 0; i < N; i++) {
        struct stat st;
        wanted[i].mode = S_IFREG | 0644, wanted[i].kind = i % 2 ? SWAP : PUT;
        sha1_of(head, 7, text, 3, wanted[i].after_oid, 0), sha1_of(head, 7, text + 3, 3, wanted[i].before_oid, 0);
        if (i % 2 && !fstatat(directory, names[i], &st, AT_SYMLINK_NOFOLLOW))
            put_stat(wanted[i].before, &st);
        wanted[i].after_oid[0] ^= i % 37 == 5; /* these are not what they shall be */
    }
    while ((at = mulligan_place(at, N, here, names, here, temporaries, wanted, inodes, directory, gone, reached)) < N)
        printf("%u-%u ", at, reached[at]), at++;
    close(directory);
    return 0;
}
"""


@pytest.mark.parametrize("kind", ["thread", "address,undefined"])
def test_sanitizers_find_nothing(tmp_path, kind):
    program = sanitized(PROGRAM, tmp_path / "program", kind)
    (tmp_path / "work").mkdir()
    done = subprocess.run([program, tmp_path / "work"], capture_output=True, check=False, text=True)
    if "FATAL: ThreadSanitizer: unexpected memory mapping" in done.stderr:
        pytest.skip("the sanitizer does not run on this kernel")
    assert done.returncode == 0 and not done.stderr, done.stderr[-3000:]
    damaged = [str(number) for number in range(6, 300, 41) if number % 3]
    assert done.stdout.split() == [*damaged, *[f"{number}-2" for number in range(5, 300, 37)]]
