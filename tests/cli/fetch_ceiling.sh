# A download cannot fill the disk: a response without an end stops at LEVIN_FETCH_MAX_SIZE; one whose announced size
# exceeds that limit, or the free space, is refused before the first byte; no part of it remains. A value that is no size is
# refused, because it would remove the limit.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
cat >server.py <<'PY'
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        self.send_response(200)
        if self.path == "/endless":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", self.path[1:])
        self.end_headers()
        try:
            while self.path == "/endless": self.wfile.write(b"10000\r\n" + bytes(65536) + b"\r\n")
            left = int(self.path[1:])
            while left > 0: left -= self.wfile.write(bytes(min(left, 65536)))
        except OSError: pass
        self.close_connection = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PY
timeout 3600 python3 server.py >port 2>server.err &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
soon test -s port
url=http://127.0.0.1:$(cat port)
export LEVIN_CACHE=$PWD/cache LEVIN_STORE_TRIES=2
code 0 "$LEVIN" cp "$url/3000000" here # the announced size is below the limit, the response is longer
check [ "$(stat -c %s here)" = 3000000 ]
for size in many 0 -1 0.5 10X "50 GB" 50GB M inf nan 9e99; do
    LEVIN_FETCH_MAX_SIZE=$size code 2 "$LEVIN" cp "$url/3000000" more
    says "the variable LEVIN_FETCH_MAX_SIZE is '$size', expected a number of bytes above 0" err
    one_error
done
LEVIN_CACHE_SIZE=much code 2 "$LEVIN" generate "$url/3000000"
says "the variable LEVIN_CACHE_SIZE is 'much', expected a number of bytes above 0" err
for size in 3000000 3000K 2930k 0.5G 1e-5P; do
    rm here
    LEVIN_FETCH_MAX_SIZE=$size code 0 "$LEVIN" cp "$url/3000000" here
done
export LEVIN_FETCH_MAX_SIZE=2M
code 1 "$LEVIN" cp "$url/3000000" more
says "more than the limit of 2.0 MiB; increase LEVIN_FETCH_MAX_SIZE to allow it" err
code 1 timeout 60 "$LEVIN" cp "$url/endless" more
says "has no Content-Length and exceeded the limit of 2.0 MiB" err
one_error
code 1 timeout 60 "$LEVIN" generate "$url/endless"
code 1 timeout 60 "$LEVIN" train --data.kind=chars --data.path="$url/endless" --run_dir=no
unset LEVIN_FETCH_MAX_SIZE
code 1 "$LEVIN" cp "$url/1000000000000000" more # beyond the limit of a file's size, whatever the disk
says "is too large" err
code 1 "$LEVIN" cp "$url/100000000000000" more
says "more on the disk of '.', which has only" err
says "available; free some space, or choose another folder" err
[ "$(find . -name 'more*' | wc -l)" = 0 ] || fail "something stays: $(find . -name 'more*')"
[ "$(du -sk cache | cut -f1)" -lt 1000 ] || fail "something stays in the cache: $(find cache -type f -size +100k)"
