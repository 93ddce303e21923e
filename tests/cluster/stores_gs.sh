# Google Cloud Storage against two servers: files of all sizes there and back, names, folders, refusals, interruptions.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
ran=0
for n in 0 1 8388609 16777216 16777217 50000000; do random_file f.$n $n; done
for server in fake-gcs-server gcp-storage-emulator; do
    gs_server $server || { echo "skipped $server, which is not installed"; continue; }
    ran=1
    rm -rf back copied
    for n in 0 1 8388609 16777216 16777217 50000000; do
        [ $server$n != gcp-storage-emulator0 ] || continue # it breaks on an empty file
        code 0 cp_ f.$n gs://bucket/sizes/f.$n
        code 0 cp_ gs://bucket/sizes/f.$n back/f.$n
        same_file f.$n back/f.$n
    done
    for name in 'a b/ä+&<">.bin' "it's" '100%' 'x=y?z#w' '~tilde'; do
        code 0 cp_ f.1 "gs://bucket/names/$name"
        code 0 cp_ "gs://bucket/names/$name" back/name
        same_file f.1 back/name
        rm back/name
    done
    code 0 "$LEVIN" ls gs://bucket
    says "sizes/" out
    code 0 "$LEVIN" ls gs://bucket/sizes/
    says "50000000  f.50000000" out
    code 0 cp_ --recursive gs://bucket/sizes copied
    same_file f.50000000 copied/f.50000000
    # over an old file; interrupted at any moment
    code 0 cp_ f.1 gs://bucket/sizes/f.50000000
    code 0 cp_ gs://bucket/sizes/f.50000000 back/f
    same_file f.1 back/f
    timed cp_ f.50000000 gs://bucket/whole
    kills=0
    for i in 1 2 3 4; do
        killed_midway "$LEVIN" cp f.50000000 gs://bucket/killed
    done
    check [ $kills -gt 0 ]
    code 0 cp_ f.50000000 gs://bucket/killed
    code 0 cp_ gs://bucket/killed back/killed
    same_file f.50000000 back/killed
    # ranks of one host read the same data, also from a store that names no versions, where each of them downloads it
    make_text
    code 0 cp_ text.txt gs://bucket/text.txt
    rm -rf cache run
    arguments run --trainer.batch_size=8 --data.path=gs://bucket/text.txt
    code 0 timeout -k 3 600 "$LEVIN" launch --launcher=levin -n 8 -- "${all[@]}"
    code 1 cp_ gs://bucket/none x
    one_error
    says "there is nothing at 'gs://bucket/none'" err
    code 1 cp_ f.1 gs://nobucket/x
    one_error
    code 2 "$LEVIN" ls gs://
    says "contains no bucket" err
done
# a server that confirms fewer bytes than it has, loses an upload, or accepts nothing: the same bytes, or one error message
web_server
export STORAGE_EMULATOR_HOST=$web NO_GCE_CHECK=true LEVIN_STORE_TRIES=2
ask control/gs/1 >/dev/null
code 0 cp_ f.50000000 gs://bucket/f
code 0 cp_ gs://bucket/f back/odd
same_file f.50000000 back/odd
ask control/gs/4 >/dev/null
code 0 cp_ f.50000000 gs://bucket/f
code 0 cp_ gs://bucket/f back/odd
same_file f.50000000 back/odd
odd() { # odd HOW TEXT
    ask control/gs/$1 >/dev/null
    code 1 cp_ f.50000000 gs://bucket/f
    one_error
    says "$2" err
}
odd 2 "the server has 0 bytes but had confirmed 16777216; send the file again"
odd 3 "the server accepted no byte after 0 of 50000000"
[ $ran = 1 ] || { echo "skipped: neither fake-gcs-server nor gcp-storage-emulator here (tools/setup.sh --dev fetches them)" && exit 77; }
