# An S3 that fails at random, loses uploads, and whose credentials expire: the same bytes in the end, and no part sent twice without
# need. Credentials of containers, instances and web identities.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
web_server
export AWS_ENDPOINT_URL=$web/s3 AWS_ACCESS_KEY_ID=new AWS_SECRET_ACCESS_KEY=s LEVIN_STORE_TRIES=12
random_file f 60000000
random_file small 5000
back() { # back FILE KEY
    code 0 cp_ s3://b/$2 got
    same_file $1 got
}
for seed in 1 2; do
    ask control/chaos/$seed >/dev/null
    code 0 cp_ f s3://b/f$seed
    code 0 cp_ small s3://b/small$seed
    back f f$seed
    back small small$seed
done
ask control/chaos/off >/dev/null
# two processes that read a folder: the second leaves the first one's download alone, and names that no file can have
mkdir texts
python3 -c 'for name in "ab": open("texts/"+name+".txt","w").write("some words and a number\n"*400000)'
code 0 cp_ --recursive texts s3://b/texts
code 0 cp_ texts/a.txt s3://b/texts//odd.txt
ask control/slow/2 >/dev/null
learn() { timeout -k 3 600 "$LEVIN" tokenizer train --input=s3://b/texts --vocab-size=260 --out=$1; }
learn first >out.first 2>err.first &
pid=$!
soon eval '[ -n "$(find cache/files -name "*.part")" ]'
code 0 learn second
says "the file '/odd.txt' of 's3://b/texts' is skipped" err
ask control/slow/off >/dev/null
wait $pid || fail "the first process failed: $(cat err.first)"
check [ "$(find cache/files -name '*.txt*' | wc -l)" = 2 ]
code 1 cp_ --recursive s3://b/texts texts2
one_error
says "'/odd.txt', which has an empty part" err
# a bucket that requires the MD5 of what is written: a small file, and one that is sent in parts
ask control/locked/1 >/dev/null
random_file large 20000000
for file in small large; do
    code 0 cp_ $file s3://b/locked/$file
    code 0 cp_ s3://b/locked/$file got
    same_file got $file
    rm got
done
ask control/locked/off >/dev/null
# a list that the server cuts is not taken for complete
ask control/truncated/1 >/dev/null
code 1 "$LEVIN" ls s3://b
one_error
says "cannot list 's3://b': the server truncated the list" err
ask control/truncated/off >/dev/null
# stalled uploads are repeated; a list without an end is an error
ask control/stall/2 >/dev/null
code 0 cp_ small s3://b/stalled
back small stalled
for pages in 1 2 5; do
    ask control/repeat/$pages >/dev/null
    code 1 "$LEVIN" ls s3://b/texts
    one_error
    says "the server sends the same page again" err
done
ask control/repeat/off >/dev/null
# joining the parts is repeated, also if the response is lost, after which the server has no such upload
for fault in join lost; do
    ask control/$fault/1 >/dev/null
    code 0 cp_ f s3://b/$fault
    back f $fault
done
# a signed request is sent to no other host, even if the server redirects
for way in "small s3://moved/f" "s3://moved/f got"; do
    ask log >/dev/null
    AWS_SESSION_TOKEN=secret code 1 cp_ $way
    one_error
    says "signed requests do not follow redirections" err
    ask log >requests
    lacks lured requests
done
# killed at any moment: in the end the same bytes; stopped: only the rest is sent
timed "$LEVIN" cp f s3://b/whole
kills=0
for i in $(seq 8); do
    killed_midway "$LEVIN" cp f s3://b/killed
done
check [ $kills -gt 0 ]
code 0 cp_ f s3://b/killed
back f killed
ask control/slow/4 >/dev/null
ask log >/dev/null # clear the log, so that only parts of this upload are counted
LEVIN_STORE_THREADS=1 "$LEVIN" cp f s3://b/stopped >out 2>err &
pid=$!
for _ in $(seq 300); do ask log >requests && has partNumber=3 requests && break || sleep 0.01; done
kill -INT $pid 2>/dev/null || true
ended
check [ $got = 75 ]
ask control/slow/off >/dev/null
ask log >/dev/null
code 0 cp_ f s3://b/stopped
ask log >requests
lacks "partNumber=1&" requests
back f stopped
# the parts of another version of the file are removed
ask control/slow/5 >/dev/null
ask log >/dev/null
LEVIN_STORE_THREADS=1 "$LEVIN" cp f s3://b/touched >out 2>err &
pid=$!
for _ in $(seq 300); do ask log >requests && has partNumber=1 requests && break || sleep 0.01; done
kill -INT $pid 2>/dev/null || true
ended
check [ $got = 75 ]
ask control/slow/off >/dev/null
touch f
ask log >/dev/null
code 0 cp_ f s3://b/touched
ask log >requests
says "DELETE /s3/b/touched?uploadId=" requests
says "partNumber=1&" requests
back f touched
# keys that expire during the upload
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
expire() { ask control/given/0 >/dev/null && ask control/expire/$1 >/dev/null; }
export AWS_CONTAINER_CREDENTIALS_FULL_URI=$web/credentials AWS_CONTAINER_AUTHORIZATION_TOKEN=pass
for n in 0 3 7; do
    expire $n
    code 0 cp_ f s3://b/container
    expire $n
    back f container
done
# requests for credentials are repeated; if a renewal fails, the old ones are used as long as they are valid
expire 3
ask control/flaky/2 >/dev/null
code 0 cp_ small s3://b/flaky
renewed() { # renewed KEY
    ask control/unfinished/0 >/dev/null
    ask control/brief/1 >/dev/null
    expire 1000
    code 0 cp_ f s3://b/$1
    ask control/brief/off >/dev/null
    back f $1
}
renewed busy
AWS_CONTAINER_AUTHORIZATION_TOKEN=wrong code 1 cp_ small s3://b/small
one_error
says "no credentials from the container's agent" err
printf 'pass\n' >token
expire 1
AWS_CONTAINER_AUTHORIZATION_TOKEN= AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=token code 0 cp_ small s3://b/small
unset AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_AUTHORIZATION_TOKEN
export AWS_EC2_METADATA_SERVICE_ENDPOINT=$web AWS_EC2_METADATA_DISABLED=false
expire 2
code 0 cp_ f s3://b/instance
back f instance
renewed busy2
AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1 code 1 cp_ small s3://b/small
says "no credentials were found" err
export AWS_EC2_METADATA_DISABLED=true
printf 'token of a pod\n' >pod
export AWS_WEB_IDENTITY_TOKEN_FILE=pod AWS_ROLE_ARN=arn:aws:iam::1:role/r AWS_ENDPOINT_URL_STS=$web/sts
expire 4
code 0 cp_ f s3://b/pod
back f pod
printf 'other\n' >pod
code 1 cp_ small s3://b/small
one_error
says "security token service" err
unset AWS_WEB_IDENTITY_TOKEN_FILE
# keys in a file that another program renews
mkdir .aws
printf '[default]\naws_access_key_id=old\naws_secret_access_key=s\n' >.aws/credentials
expire 2
code 1 cp_ f s3://b/file
says "ExpiredToken" err
expire 5 # with the beginning of the upload and its first parts
ask control/slow/30 >/dev/null
ask log >/dev/null
LEVIN_STORE_THREADS=1 timeout -k 3 600 "$LEVIN" cp f s3://b/renewed >out 2>err &
pid=$!
part_1() { ask log >requests && has partNumber=1 requests; }
soon part_1
printf '[default]\naws_access_key_id=new\naws_secret_access_key=s\n' >.aws/next
mv .aws/next .aws/credentials
ask control/slow/off >/dev/null
ended
[ $got = 0 ] || fail "the renewed keys are not read during the upload: $(cat err)"
back f renewed
