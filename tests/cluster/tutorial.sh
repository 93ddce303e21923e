# tutorial.sh - every command of docs/tutorial-cluster.md, in order, on a real Slurm: each ends with 0 and prints what the page shows.
#
# h3 is the login node, h1 and h2 are the worker nodes, and the laptop is the machine of the test, to which all of them are connected.
# Data are small and generated, and come from a web server there. TUTORIAL_OUT=FILE takes the real data instead (parts/real and ../shared/data)
# and writes the page with its new output to FILE.
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
jupyter=$LEVIN_SOURCE/parts/jupyter
[ -x "$jupyter/bin/jupyter-server" ] || { echo "skipped: no parts/jupyter (tools/setup.sh --dev installs it)"; exit 77; }
build=$(dirname "$LEVIN")
[ -f "$build/cmake_install.cmake" ] || { echo "skipped: $LEVIN is not in its build folder"; exit 77; }
. "$LEVIN_SOURCE/tests/cluster/slurm.bash"
hosts_begin
USER=$(id -un)
export USER HOME=$PWD/home PYTHONPATH=$jupyter
unset XDG_RUNTIME_DIR
PATH=$jupyter/bin:$PATH
mkdir -p home/levin/build home/.jupyter www/mnist www/nsmc programs
hosts_up 3
echo "10.77.0.3 login" >>net/hosts
on 3 hostname login
sshd_up 3
slurm_up 2
slurm_passwords 3

# What a student downloads.
if [ -n "${TUTORIAL_OUT:-}" ]; then
    cp "$LEVIN_SOURCE"/parts/real/mnist/*.gz www/mnist
    cp "$LEVIN_SOURCE/../shared/data/nsmc-train.tsv" www/nsmc/ratings_train.txt
    cp "$LEVIN_SOURCE/../shared/data/nsmc-test.tsv" www/nsmc/ratings_test.txt
else
    python3 "$LEVIN_SOURCE/tests/cli/drawn_digits.py" www/mnist 1200 200
    gzip -n www/mnist/*-ubyte
    for part in train test; do
        awk -v n=$([ $part = train ] && echo 500 || echo 100) 'BEGIN { print "id\tdocument\tlabel"
            for (i = 1; i <= n; i++) printf "%d\t정말 재미있는 영화 %d\t1\n%d\t지루한 영화 %d\t0\n", i, i, i, i }' >www/nsmc/ratings_$part.txt
    done
fi
python3 -u -m http.server --bind 10.77.0.254 --directory www 0 >server 2>&1 &
soon has port server
port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' server)

# The student's home: a checkout that is built. Downloads come from the server above, `make install` compiles nothing.
cp -r "$LEVIN_SOURCE/recipes" "$LEVIN_SOURCE/deploy" home/levin
[ "$USER" != root ] || echo '{"ServerApp": {"allow_root": true}}' >home/.jupyter/jupyter_server_config.json
export SLURM_OVERLAP=1 # srun does not wait for the CPUs of the previous job step, which Slurm frees with a delay
levin() {
    if [ "$1" = cp ]; then
        set -- "$1" "$(sed "s|^https://.*/\(mnist/.*\)|$TUTORIAL_SERVER/\1|; s|^https://.*/nsmc/master/|$TUTORIAL_SERVER/nsmc/|" <<<"$2")" "$3"
    fi
    command levin "$@"
}
make() { [ "$1" = install ] && cmake --install "$LEVIN_BUILD" --prefix "${2#PREFIX=}" >/dev/null; }
export -f levin make
export TUTORIAL_SERVER=http://10.77.0.254:$port
printf '#!/bin/bash\ncd\nexec nsenter -t %s -n -u -m -i -p --wdns="$PWD/levin" bash\n' "$(cat net/h3/pid)" >programs/login
printf '#!/bin/bash\nmkdir -p laptop && cd laptop && exec bash\n' >programs/laptop
printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$net/ssh/client" >programs/ssh
# the student's home on the login node is the one of this test
printf '#!/bin/bash\nexec %s -O -q -F %s "${1/:levin/:%s/levin}" "$2"\n' "$(command -v scp)" "$net/ssh/client" "$HOME" >programs/scp
chmod +x programs/*
export PATH=$PWD/programs:$PATH

python3 "$LEVIN_SOURCE/tests/cluster/tutorial.py" "$LEVIN_SOURCE/docs/tutorial-cluster.md" page.md programs/login programs/laptop
check [ -s laptop/report.html ]
check [ ! -e home/levin/jupyter-8.token ] # scancel has removed it
[ -z "${TUTORIAL_OUT:-}" ] || cp page.md "$TUTORIAL_OUT"
