# stores.bash - shared by the tests of stores: servers on this machine, files to move, and none of the user's credentials.
#
# Servers are searched in PATH and in parts/stores of the source folder, where tools/setup.sh --dev puts them. That of Google's
# protocol listens at STORES_HOST (127.0.0.1).
. "$LEVIN_SOURCE/tests/cli/common.bash"
PATH=$LEVIN_SOURCE/parts/stores/bin:$PATH
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY XDG_CACHE_HOME ${!AWS_@} ${!HF_@} ${!GOOGLE_@}
export HOME=$PWD LEVIN_CACHE=$PWD/cache AWS_EC2_METADATA_DISABLED=true LEVIN_STORE_TRIES=4
[ -n "$(ldconfig -p 2>/dev/null | grep libcurl)" ] || command -v curl >/dev/null || { echo "skipped: no libcurl here" && exit 77; }

STORES_HOST=${STORES_HOST:-127.0.0.1}
servers=() # each below a `timeout`, which forwards TERM but not KILL
trap 'for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; done' EXIT
free_port() { python3 -c 'import socket; s=socket.socket(); s.bind(("",0)); print(s.getsockname()[1])'; }
answers() { # answers PORT [ADDRESS]: waits until the last server listens there; status 1: it has ended, for example because the port was in use
    for _ in $(seq 3000); do
        kill -0 "${servers[-1]}" 2>/dev/null || return 1
        (: </dev/tcp/"${2:-127.0.0.1}"/"$1") 2>/dev/null && return
        sleep 0.1
    done
    fail "no server answers at port $1"
}
s3_server() { # a versitygw with the bucket "bucket"; its files are in s3root; the environment leads to it
    command -v versitygw >/dev/null || { echo "skipped: no versitygw here (tools/setup.sh --dev fetches it)" && exit 77; }
    local port try
    mkdir -p s3root/bucket
    for try in 1 2 3 4 5; do
        port=$(free_port)
        ROOT_ACCESS_KEY=someone ROOT_SECRET_KEY=secret timeout -k 3 3600 versitygw --port 127.0.0.1:"$port" posix s3root >s3.log 2>&1 &
        servers+=($!)
        answers "$port" && break || [ $try != 5 ] || fail "versitygw does not start: $(cat s3.log)"
    done
    export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ACCESS_KEY_ID=someone AWS_SECRET_ACCESS_KEY=secret
}
random_file() { # random_file NAME BYTES: the same content each time
    python3 -c 'import random,sys; random.seed(int(sys.argv[2])); open(sys.argv[1],"wb").write(random.randbytes(int(sys.argv[2])))' "$1" "$2"
}
cp_() { timeout -k 3 600 "$LEVIN" cp "$@"; }
web_server() { # store_server.py over the folder `web`; its address in $web
    command -v python3 >/dev/null || { echo "skipped: no python3 here" && exit 77; }
    mkdir -p web
    timeout -k 3 3600 python3 "$LEVIN_SOURCE/tests/cluster/store_server.py" web >web.port 2>web.err &
    servers+=($!)
    soon test -s web.port
    web=http://127.0.0.1:$(cat web.port)
}
ask() { python3 -c 'import sys,urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "$web/$1"; }
gs_server() { # gs_server fake-gcs-server|gcp-storage-emulator: one with the bucket "bucket"; status 1: it is not installed
    local port try
    command -v "$1" >/dev/null || return 1
    for try in 1 2 3 4 5; do
        port=$(free_port)
        case $1 in
        fake-gcs-server) timeout -k 3 "${HOSTS_LIMIT:-3600}" "$1" -scheme http -host "$STORES_HOST" -port "$port" -backend memory -public-host "$STORES_HOST:$port" >gs.log 2>&1 & ;;
        gcp-storage-emulator) timeout -k 3 "${HOSTS_LIMIT:-3600}" "$1" start --host="$STORES_HOST" --port="$port" --in-memory >gs.log 2>&1 & ;;
        esac
        servers+=($!)
        answers "$port" "$STORES_HOST" && break || [ $try != 5 ] || fail "$1 does not start: $(cat gs.log)"
    done
    export STORAGE_EMULATOR_HOST=http://$STORES_HOST:$port NO_GCE_CHECK=true
    python3 -c 'import sys,urllib.request as u
u.urlopen(u.Request(sys.argv[1]+"/storage/v1/b?project=p", b"{\"name\":\"bucket\"}", {"Content-Type":"application/json"}))' "$STORAGE_EMULATOR_HOST"
}
