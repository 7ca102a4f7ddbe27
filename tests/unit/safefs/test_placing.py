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
    uint64_t sizes[N], inodes[N];
    int here[N], directory = open(given[count - 1], O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < N; i++) {
        const char **where[] = {temporaries, names, gone};
        for (int kind = 0; kind < 3; kind++) {
            snprintf(made[kind][i], 16, "%c%d", "tng"[kind], i);
            where[kind][i] = made[kind][i];
        }
        replaced[i] = i % 2 ? names[i] : NULL, modes[i] = 0644, contents[i] = text, sizes[i] = 3, here[i] = directory;
        if (i % 2) {
            int fd = openat(directory, names[i], O_CREAT | O_RDWR, 0644);
            if (write(fd, "old", 3) != 3)
                return 2;
            close(fd);
        }
    }
    void *batch = NULL;
    for (int i = 0; i < N; i += BATCH)
        batch = mulligan_stage(batch, BATCH, here + i, temporaries + i, replaced + i, modes + i, contents + i,
                               sizes + i, inodes + i);
    mulligan_stage_wait(batch);
    mulligan_stage_end(batch);
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
    assert done.stdout.split() == [f"{number}-2" for number in range(5, 300, 37)]
