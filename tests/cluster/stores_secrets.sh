# Secrets in an address stay in the recipe: they are not in the run, its checkpoints, the cache or any output. The cache is
# readable by its user alone.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
web_server
make_text
cp text.txt web/text.txt
secret="http://me:hunter2@127.0.0.1:${web##*:}/plain/text.txt?X-Amz-Credential=AKIAME%2F2026&X-Amz-Security-Token=hunter3&part=1&X-Amz-Signature=hunter4"
hidden="http://***@127.0.0.1:${web##*:}/plain/text.txt?X-Amz-Credential=***&X-Amz-Security-Token=***&part=1&X-Amz-Signature=***"
kept() { # kept FILE...: no secret is in them
    ! grep -rlE 'hunter|AKIAME' "$@" || fail "a secret was written down"
    [ -z "$(find . -name '*hunter*' -o -name '*AKIAME*')" ] || fail "a secret is in a name"
}
umask 022
train run "--data.path=$secret" >out 2>err
kept run cache out err
says "$hidden" run/settings.yaml
says "$hidden" run/checkpoints/last/state/settings.yaml
check [ "$(stat -c %a cache)" = 700 ]
for folder in cache/*; do check [ "$(stat -c %a "$folder")" = 700 ]; done
# resuming needs the secret again; another signature of the same file is the same run
code 2 "$LEVIN" train run --resume --trainer.max_steps=12
one_error
says "was removed before the address was saved: give the complete address again" err
code 0 "$LEVIN" train run --resume --trainer.max_steps=12 "--data.path=${secret/hunter4/hunter5}"
silent_about data.path err
kept run cache out err
code 0 "$LEVIN" train --show-settings "--data.path=$secret"
kept out err
# the cache would have one file for both
code 2 "$LEVIN" train --run_dir=two "--data.path=$secret" "--data.val_path=${secret/hunter4/hunter5}"
one_error
says "differ only in a parameter that is treated as a secret" err
kept err
# errors, of the first download and of a later one
code 1 "$LEVIN" cp "${secret/text.txt/none}" got
one_error
says "***@" err
kept err
code 1 "$LEVIN" cp --json "${secret/text.txt/none}" got
kept out err
code 1 "$LEVIN" cp "${secret/plain/always\/500}" got
kept err .
# a cache folder that others may write to, or that belongs to another user, is refused
chmod 777 cache
code 1 "$LEVIN" evaluate run "--data.path=$secret"
one_error
says "other users can write into the cache folder" err
chmod 700 cache
chmod 755 cache/files
code 0 "$LEVIN" evaluate run "--data.path=$secret"
check [ "$(stat -c %a cache/files)" = 700 ]
# without a home: a folder of this user, unless it is in use
if [ -e "/tmp/levin-$(id -u)" ]; then
    echo "left out: the cache without a home; /tmp/levin-$(id -u) exists"
else
    code 0 env -u HOME -u LEVIN_CACHE "$LEVIN" evaluate run "--data.path=$secret"
    check [ "$(stat -c %a "/tmp/levin-$(id -u)")" = 700 ]
    rm -rf "/tmp/levin-$(id -u)"
fi
# texts of servers are truncated, and their control characters never reach a terminal
export AWS_ENDPOINT_URL=$web/s3 AWS_ACCESS_KEY_ID=new AWS_SECRET_ACCESS_KEY=s
code 1 "$LEVIN" cp s3://rude/f got
one_error
says '\x1b]0;owned\x07' err
says "check the secret key" err
! grep -q "$(printf '\033')" err || fail "a control character came through"
check [ "$(wc -c <err)" -lt 1000 ]
