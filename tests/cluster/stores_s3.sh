# S3 against a strict server that verifies signatures: files of all sizes there and back, names, folders, refusals.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
s3_server
for n in 0 1 8388608 8388609 16777216 16777217 50000000; do
    random_file f.$n $n
    code 0 cp_ f.$n s3://bucket/sizes/f.$n
    same_file f.$n s3root/bucket/sizes/f.$n
    code 0 cp_ --json s3://bucket/sizes/f.$n back/f.$n
    json "d['bytes'] == $n and d['files'] == 1"
    same_file f.$n back/f.$n
    check [ ! -e back/f.$n.part ] && check [ ! -e back/f.$n.part.done ]
done
# names
for name in 'a b/ä+&<">.bin' "it's" 'a%20b' '100%' 'x=y?z#w' '~tilde'; do
    code 0 cp_ f.1 "s3://bucket/names/$name"
    code 0 cp_ "s3://bucket/names/$name" back/name
    same_file f.1 back/name
    rm back/name
done
code 0 "$LEVIN" ls --json --recursive s3://bucket/names
json 'sorted(e["name"] for e in d["entries"]) == sorted(["a b/ä+&<\">.bin", "it'"'"'s", "a%20b", "100%", "x=y?z#w", "~tilde"])'
# folders
code 0 "$LEVIN" ls s3://bucket
says "sizes/" out
code 0 "$LEVIN" ls s3://bucket/sizes/
says "50000000  f.50000000" out
code 2 cp_ s3://bucket/sizes back
says "copy it with --recursive" err
code 0 cp_ --recursive s3://bucket/sizes copied
for n in 0 1 50000000; do same_file f.$n copied/f.$n; done
code 0 cp_ --recursive copied s3://bucket/again
diff -r copied s3root/bucket/again
code 0 cp_ f.1 s3://bucket/again/
same_file f.1 s3root/bucket/again/f.1
# from store to store, and over an old file
code 0 cp_ s3://bucket/sizes/f.16777217 s3://bucket/other
same_file f.16777217 s3root/bucket/other
code 0 cp_ f.1 s3://bucket/other
code 0 cp_ s3://bucket/other back/f.50000000
same_file f.1 back/f.50000000
# more than one page of names
mkdir s3root/bucket/many
for i in $(seq 1100); do : >s3root/bucket/many/$i; done
code 0 "$LEVIN" ls --json s3://bucket/many
json 'len(d["entries"]) == 1100'
# refusals
refused() { # refused CODE TEXT COMMAND...
    local wanted=$1 text=$2
    shift 2
    code "$wanted" "$@"
    one_error
    says "$text" err
}
refused 1 "there is nothing at 's3://bucket/none'" cp_ s3://bucket/none x
refused 1 "NoSuchBucket" cp_ s3://nobucket/none x
refused 1 "NoSuchBucket" cp_ f.1 s3://nobucket/none
refused 1 "NoSuchBucket" cp_ f.50000000 s3://nobucket/none
refused 1 "check the secret key" env AWS_SECRET_ACCESS_KEY=other "$LEVIN" cp s3://bucket/sizes/f.1 x
refused 1 "no credentials were found" env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY "$LEVIN" ls s3://bucket
refused 2 "AWS_SECRET_ACCESS_KEY is not" env -u AWS_SECRET_ACCESS_KEY "$LEVIN" ls s3://bucket
refused 2 "contains no bucket" "$LEVIN" ls s3://
check [ ! -e x ]
# one byte of the server's copy is changed: its stored CRC-64 detects that, also for files sent in parts
for n in 8388609 50000000; do
    printf '%b' "\\x$(printf %02x $(($(od -An -tu1 -j7000000 -N1 f.$n) ^ 16)))" |
        dd of=s3root/bucket/sizes/f.$n bs=1 seek=7000000 conv=notrunc status=none
    refused 1 "is not the file that the store describes: its CRC-64 is" cp_ s3://bucket/sizes/f.$n x
    check [ ! -e x ] && check [ ! -e x.part ]
done
# credentials in the shared file, by profile
mkdir .aws
printf '[default]\naws_access_key_id = someone\naws_secret_access_key = wrong\n\n[site]\naws_access_key_id=someone\naws_secret_access_key=secret\n' >.aws/credentials
printf '[profile site]\nregion = us-east-1\nendpoint_url = %s\n' "$AWS_ENDPOINT_URL" >.aws/config
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_ENDPOINT_URL
AWS_PROFILE=site code 0 "$LEVIN" ls s3://bucket/sizes
says f.50000000 out
