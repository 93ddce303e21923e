/* test_download.c - covers: src/files/stores/fetch.c
 *
 * Files from URLs: copied, checked, resumed, refused. HTTP against a small server that the test starts on this
 * machine; skipped where there is no python3 or no libcurl. */
#include "faults.h"
#include "io_test.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "formats/sha256.h"
#include "stores/fetch.h"

/* /file: whole, or from where Range says; /norange: always whole; /cut: breaks off after 40000 bytes of what was asked
 * for; /moved: a redirection; /open: whole, without its length; /empty, /page: redirections to it that have a length
 * and an ETag themselves; all else: 404. The content is that of `content`, below. */
static const char server[] =
    "import http.server\n"
    "data = bytes((i * 7 + i // 251) % 256 for i in range(100000))\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "    def log_message(self, *a): pass\n"
    "    def do_GET(self):\n"
    "        if self.path == '/moved':\n"
    "            self.send_response(302); self.send_header('Location', '/file'); self.end_headers(); return\n"
    "        if self.path in ('/empty', '/page'):\n"
    "            self.send_response(302); self.send_header('Location', '/open')\n"
    "            page = b'moved' if self.path == '/page' else b''\n"
    "            self.send_header('Content-Length', str(len(page))); self.send_header('ETag', self.path)\n"
    "            self.send_header('Content-Range', 'bytes 0-0/7'); self.end_headers(); self.wfile.write(page); return\n"
    "        if self.path == '/open':\n"
    "            self.send_response(200); self.end_headers(); self.wfile.write(data); return\n"
    "        if self.path not in ('/file', '/norange', '/cut'):\n"
    "            self.send_error(404); return\n"
    "        start = 0\n"
    "        r = self.headers.get('Range')\n"
    "        if r and self.path != '/norange':\n"
    "            start = int(r.split('=')[1].split('-')[0])\n"
    "            if start >= len(data):\n"
    "                self.send_error(416); return\n"
    "            self.send_response(206)\n"
    "            self.send_header('Content-Range', 'bytes %d-%d/%d' % (start, len(data) - 1, len(data)))\n"
    "        else:\n"
    "            self.send_response(200)\n"
    "        self.send_header('Content-Length', str(len(data) - start))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(data[start:start + 40000] if self.path == '/cut' else data[start:])\n"
    "s = http.server.HTTPServer(('127.0.0.1', 0), H)\n"
    "print(s.server_port, flush=True)\n"
    "s.serve_forever()\n";

enum { CONTENT = 100000 };
static unsigned char content[CONTENT];
static char sum[LVN_SHA256_TEXT];
static const char wrong_sum[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static pid_t server_pid = -1;
static int server_port;
static const char *why_not = "";

static void start_server(void)
{
    int pipe_fd[2];
    if (pipe(pipe_fd) != 0) return;
    server_pid = fork();
    if (server_pid == 0) {
        dup2(pipe_fd[1], 1);
        close(pipe_fd[0]);
        execlp("python3", "python3", "-c", server, (char *)NULL);
        _exit(127);
    }
    close(pipe_fd[1]);
    FILE *out = fdopen(pipe_fd[0], "r");
    if (!out || fscanf(out, "%d", &server_port) != 1) why_not = "python3 is not there or cannot serve";
    if (out) fclose(out);
}

static int set_up(void **state)
{
    if (test_dir_make(state) != 0) return -1;
    for (int i = 0; i < CONTENT; i++) content[i] = (unsigned char)(i * 7 + i / 251);
    test_put("content", content, CONTENT);
    for (int i = 0; i < 2; i++) unsetenv(i ? "http_proxy" : "all_proxy");
    if (!dlopen("libcurl.so.4", RTLD_NOW))
        why_not = "libcurl.so.4 is not there";
    else
        start_server();
    lvn_sha256_text(content, CONTENT, sum);
    return 0;
}

static int tear_down(void **state)
{
    if (server_pid > 0) {
        kill(server_pid, SIGKILL);
        waitpid(server_pid, NULL, 0);
    }
    return test_dir_drop(state);
}

static void assert_content(const char *name)
{
    char *text;
    int64_t bytes;
    ASSERT_OK(lvn_file_read(test_path(name), 0, &text, &bytes));
    assert_int_equal(bytes, CONTENT);
    assert_memory_equal(text, content, CONTENT);
    free(text);
    char part[64];
    snprintf(part, sizeof part, "%s.part", name);
    assert_false(lvn_path_exists(test_path(part)));
}

static int count_calls(void *context, int64_t done, int64_t total)
{
    assert_true(done >= 0 && (total == 0 || done <= total));
    ++*(int *)context;
    return 0;
}

static int stop(void *context, int64_t done, int64_t total)
{
    (void)context, (void)total;
    return done > 0;
}

static void file_urls(void **state)
{
    (void)state;
    char url[600];
    int calls = 0;
    test_put("with space", content, CONTENT);
    snprintf(url, sizeof url, "file://%s/with%%20space", test_dir);
    ASSERT_OK(lvn_download(url, sum, test_path("new/dir/a"), count_calls, &calls));
    assert_content("new/dir/a");
    assert_true(calls > 0);
    ASSERT_FAILS(FORMAT, "its SHA-256 is", lvn_download(url, wrong_sum, test_path("b"), NULL, NULL));
    assert_false(lvn_path_exists(test_path("b")));
    assert_false(lvn_path_exists(test_path("b.part")));
    ASSERT_OK(lvn_download(url, NULL, test_path("b"), NULL, NULL));
    assert_content("b");
    /* An existing file is not replaced. */
    test_put("mine", "mine", 4);
    ASSERT_FAILS(FORMAT, "is not the expected file", lvn_download(url, sum, test_path("mine"), NULL, NULL));
    ASSERT_OK(lvn_download(url, NULL, test_path("mine"), NULL, NULL));
    char *text;
    int64_t bytes;
    ASSERT_OK(lvn_file_read(test_path("mine"), 0, &text, &bytes));
    assert_string_equal(text, "mine");
    free(text);
    ASSERT_FAILS(STOPPED, "stopped", lvn_download(url, sum, test_path("c"), stop, NULL));
    snprintf(url, sizeof url, "file://%s/none", test_dir);
    ASSERT_FAILS(IO, "does not exist", lvn_download(url, sum, test_path("c"), NULL, NULL));
    snprintf(url, sizeof url, "file://%s", test_dir);
    ASSERT_FAILS(IO, "is a folder", lvn_download(url, sum, test_path("c"), NULL, NULL));
    assert_false(lvn_path_exists(test_path("c.part")));
    ASSERT_FAILS(ARG, "absolute path", lvn_download("file://x", sum, test_path("c"), NULL, NULL));
    ASSERT_FAILS(ARG, "unknown scheme 'ftp://'", lvn_download("ftp://x/y", sum, test_path("c"), NULL, NULL));
    ASSERT_FAILS(ARG, "64 hexadecimal digits", lvn_download(url, "abc", test_path("c"), NULL, NULL));
}

static void full_disk(void **state)
{
    (void)state;
    char url[600];
    snprintf(url, sizeof url, "file://%s/content", test_dir);
    for (long k = 1;; k++) {
        fault_files_at(k, false);
        enum lvn_status status = lvn_download(url, sum, test_path("full"), NULL, NULL);
        fault_files_at(0, false);
        assert_true(status != LVN_OK || k > 4);
        if (status == LVN_OK) break;
        assert_int_equal(status, LVN_IO);
        assert_non_null(strstr(levin_error_text(), "No space left"));
        ASSERT_OK(lvn_tree_remove(test_path("full")));
        assert_true(k < 20);
    }
    assert_content("full");
}

static const char *http(const char *name)
{
    static char url[100];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", server_port, name);
    if (*why_not) {
        print_message("skipped: %s\n", why_not);
        skip();
    }
    return url;
}

static void http_whole(void **state)
{
    (void)state;
    int calls = 0;
    ASSERT_OK(lvn_download(http("file"), sum, test_path("h1"), count_calls, &calls));
    assert_content("h1");
    assert_true(calls > 0);
    ASSERT_OK(lvn_download(http("moved"), sum, test_path("h2"), NULL, NULL));
    assert_content("h2");
    ASSERT_OK(lvn_download(http("file"), NULL, test_path("h3"), NULL, NULL));
    assert_content("h3");
}

/* The length and the range of a redirection are not those of the file; to a file and to a pipe. */
static void http_redirected(void **state)
{
    static const char *const names[] = {"empty", "page"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char pipe_path[600], url[100];
        int exit_code;
        snprintf(url, sizeof url, "%s", http(names[i]));
        ASSERT_OK(lvn_download(url, NULL, test_path(names[i]), NULL, NULL));
        assert_content(names[i]);
        snprintf(pipe_path, sizeof pipe_path, "%s", test_path("pipe"));
        assert_int_equal(mkfifo(pipe_path, 0600), 0);
        const pid_t reader = fork();
        if (reader == 0) {
            execlp("sh", "sh", "-c", "cat <\"$0\" >\"$1\"", pipe_path, test_path("streamed"), (char *)NULL);
            _exit(127);
        }
        ASSERT_OK(lvn_store_get(url, pipe_path, NULL, NULL, NULL));
        assert_int_equal(waitpid(reader, &exit_code, 0), reader);
        assert_content("streamed");
        unlink(pipe_path);
    }
}

static void http_resumed(void **state)
{
    (void)state;
    test_put("r1.part", content, 12345);
    ASSERT_OK(lvn_download(http("file"), sum, test_path("r1"), NULL, NULL));
    assert_content("r1");
    /* The server does not support ranges: start again. */
    test_put("r2.part", content, 12345);
    ASSERT_OK(lvn_download(http("norange"), sum, test_path("r2"), NULL, NULL));
    assert_content("r2");
    /* The partial file is of another file. */
    test_put("r3.part", "something else", 14);
    ASSERT_OK(lvn_download(http("file"), sum, test_path("r3"), NULL, NULL));
    assert_content("r3");
    test_put("r4.part", "something else", 14);
    ASSERT_OK(lvn_download(http("file"), NULL, test_path("r4"), NULL, NULL));
    assert_content("r4");
    /* The partial file is complete. */
    test_put("r5.part", content, CONTENT);
    ASSERT_OK(lvn_download(http("file"), sum, test_path("r5"), NULL, NULL));
    assert_content("r5");
    /* The connection breaks twice. */
    ASSERT_OK(lvn_download(http("cut"), sum, test_path("r6"), NULL, NULL));
    assert_content("r6");
    /* Stopped, then resumed. */
    ASSERT_FAILS(STOPPED, "was stopped", lvn_download(http("file"), sum, test_path("r7"), stop, NULL));
    assert_true(lvn_path_exists(test_path("r7.part")));
    ASSERT_OK(lvn_download(http("file"), sum, test_path("r7"), NULL, NULL));
    assert_content("r7");
}

static void http_refused(void **state)
{
    (void)state;
    ASSERT_FAILS(IO, "does not exist", lvn_download(http("none"), sum, test_path("x"), NULL, NULL));
    ASSERT_FAILS(FORMAT, "its SHA-256 is", lvn_download(http("file"), wrong_sum, test_path("x"), NULL, NULL));
    ASSERT_FAILS(IO, "127.0.0.1", lvn_download("http://127.0.0.1:1/x", sum, test_path("x"), NULL, NULL));
    assert_non_null(strstr(levin_error_trace(), "copy the file to"));
    assert_false(lvn_path_exists(test_path("x")));
    fault_files_at(1, true);
    enum lvn_status status = lvn_download(http("file"), sum, test_path("x"), NULL, NULL);
    fault_files_at(0, false);
    assert_int_equal(status, LVN_IO);
    assert_non_null(strstr(levin_error_text(), "No space left"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(file_urls),    cmocka_unit_test(full_disk),
                                       cmocka_unit_test(http_whole),   cmocka_unit_test(http_redirected),
                                       cmocka_unit_test(http_resumed), cmocka_unit_test(http_refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
