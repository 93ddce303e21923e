# MNIST from a web server: missing files are downloaded, and accepted only with the right checksums; no other files
# remain.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
serve_digits 1200 200
mlp() { "$LEVIN" train "$LEVIN_SOURCE/recipes/mnist-mlp.yaml" --data.url="$url" --trainer.max_epochs=1 "$@"; }

# these are not the published files
code 1 mlp --data.path=in --run_dir=no
one_error
says "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609" err
check [ -z "$(ls -A in 2>/dev/null)" ]
# the second file has a wrong checksum: the first one stays, and no part of the second
code 1 mlp --data.path=in --run_dir=no --data.sha256="${sums:0:64},${sums:0:64},${sums:130}"
one_error
says train-labels-idx1-ubyte err
check [ "$(ls -A in)" = train-images-idx3-ubyte.gz ]
code 2 mlp --data.path=in --run_dir=no --data.sha256="${sums:0:129}"
one_error
says "needs the checksums of four files" err
code 2 mlp --data.path=in --run_dir=no --data.sha256="${sums:0:100}"
says "64 hexadecimal digits" err
check [ ! -e no ]
# correct files are accepted; those of the test split are downloaded when they are needed
code 0 mlp --data.path=in --run_dir=run --data.sha256="$sums"
check [ "$(ls -A in | wc -l)" = 2 ]
for name in train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz; do same_file www/$name in/$name; done
code 0 "$LEVIN" evaluate run --json
json 'd["samples"] == 100'
check [ "$(ls -A in | wc -l)" = 2 ]
code 1 "$LEVIN" evaluate run --data.split=test --data.url=
says "neither 'in/t10k-images-idx3-ubyte' nor 'in/t10k-images-idx3-ubyte.gz' exists" err
code 0 "$LEVIN" evaluate run --data.split=test --data.url="$url/" --json
json 'd["samples"] == 200'
check [ "$(ls -A in | wc -l)" = 4 ]
# existing files are not downloaded again; files that the server lacks are named
kill $server
wait $server 2>/dev/null || true
code 0 mlp --data.path=in --run_dir=again --data.sha256="$sums"
rm in/train-labels-idx1-ubyte.gz
code 1 mlp --data.path=in --run_dir=third --data.sha256="$sums"
one_error
says "train-labels-idx1-ubyte.gz" err
check [ ! -e in/train-labels-idx1-ubyte.gz ]
