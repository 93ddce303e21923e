# Downloads over TLS: only with a certificate for that host, in its period of validity, signed by a trusted authority; and no redirect
# from https to http.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
command -v openssl >/dev/null || { echo "skipped: no openssl here" && exit 77; }
unset CURL_CA_BUNDLE SSL_CERT_FILE REQUESTS_CA_BUNDLE
web_server # the target of the redirect
random_file web/f 3000
authority() { openssl req -x509 -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.pem" -subj "/CN=$1" -days 2 2>/dev/null; }
certificate() { # certificate NAME HOST DAYS
    openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$2" 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days "$3" -out "$1.pem" \
        -extfile <(echo "subjectAltName=DNS:$2") 2>/dev/null
    cat "$1.key" >>"$1.pem"
}
authority ca
authority stranger
certificate right localhost 2
certificate wrong other.example 2
certificate expired localhost -1
cat >tls.py <<'END'
import http.server, ssl, sys, threading
data = open("web/f", "rb").read()
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        self.send_response(302 if self.path in ("/down", "/on", "/round") else 200)
        to = {"/down": sys.argv[1] + "/plain/f", "/on": f"https://localhost:{ports[0]}/f", "/round": "/round"}
        if self.path in to: self.send_header("Location", to[self.path])
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
ports = []
for name in sys.argv[2:]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(name + ".pem")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever).start()
    ports.append(server.server_address[1])
print(*ports, flush=True)
END
timeout -k 3 3600 python3 tls.py "$web" right wrong expired >tls.ports 2>tls.err &
servers+=($!)
soon test -s tls.ports
read -r right wrong expired <tls.ports
refused() { # refused URL: not fetched, in one sentence
    rm -f got
    code 1 cp_ "$1" got
    one_error
    check [ ! -e got ]
}
refused "https://localhost:$right/f" # the authority is not trusted
says certificate err
for variable in CURL_CA_BUNDLE SSL_CERT_FILE REQUESTS_CA_BUNDLE; do
    rm -f got
    code 0 env $variable=ca.pem timeout 600 "$LEVIN" cp "https://localhost:$right/f" got
    same_file got web/f
done
mkdir -p authorities
cp ca.pem "authorities/$(openssl x509 -hash -noout -in ca.pem).0"
rm -f got
code 0 env REQUESTS_CA_BUNDLE=authorities timeout 600 "$LEVIN" cp "https://localhost:$right/f" got
same_file got web/f
for variable in SSL_CERT_FILE AWS_CA_BUNDLE; do # that of S3 is used for S3 alone
    code 1 env $variable=ca.pem CURL_CA_BUNDLE=stranger.pem AWS_ENDPOINT_URL="https://localhost:$right" "$LEVIN" ls s3://bucket
    if [ $variable = AWS_CA_BUNDLE ]; then lacks certificate err; else says certificate err; fi
done
AWS_CA_BUNDLE=ca.pem refused "https://localhost:$right/f"
says certificate err
CURL_CA_BUNDLE=stranger.pem refused "https://localhost:$right/f"
says certificate err
export CURL_CA_BUNDLE=ca.pem
refused "https://localhost:$wrong/f"
says "target host name" err
refused "https://localhost:$expired/f"
says expired err
code 0 cp_ "https://localhost:$right/on" got2
same_file got2 web/f
refused "https://localhost:$right/round"
says "more than 10 times" err
ask log >/dev/null
refused "https://localhost:$right/down"
says "levin follows only https" err
ask log >requests
lacks plain requests
# the same holds for the address of a store
AWS_ENDPOINT_URL=https://localhost:$wrong AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b refused s3://bucket/f
says "target host name" err
