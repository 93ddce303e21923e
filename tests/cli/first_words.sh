# levin train my.txt without options: after training on a megabyte of Shakespeare, four of five words of the sample occur in the text.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
unset OMP_WAIT_POLICY
text="$LEVIN_SOURCE/../shared/data/tinyshakespeare.txt"
[ -e "$text" ] || { echo "skipped: there is no $text"; exit 77; }
cp "$text" my.txt
code 0 "$LEVIN" train my.txt
says "next:" out
python3 - <<'P'
import json, re
words = lambda text: re.findall(r"[A-Za-z']+", text)
known = set(words(open("my.txt").read()))
events = [json.loads(line) for line in open("runs/my/events.jsonl")]
samples = [e["text"] for e in events if e["event"] == "sample"]
assert len(samples) == 1, samples
sample = words(samples[0])[:-1]  # the last word may be cut
share = sum(w in known for w in sample) / len(sample)
print(samples[0], f"{len(sample)} words, {share:.2f} of them occur in the text", sep="\n")
assert len(sample) > 40 and share >= 0.8
P
