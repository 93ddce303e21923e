# events.jsonl and report.html: what a run writes, across kills and resumes; levin report; texts of runs are not executed as scripts.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text

data() { # data PAGE: the data in a page, as out; the page has one script besides it, and the data end where they should
    python3 - "$1" >out <<'END'
import json, re, sys
from xml.etree import ElementTree
page = open(sys.argv[1], encoding="utf-8").read()
assert len(page.encode()) <= 3000000
assert not re.search(r'(src|href)="(?!data:)', page.split('<script type="application/json"')[0]), "a link"
parts = re.findall(r'<script type="application/json" id="data">(.*?)</script>\n<script>', page, re.S)
assert len(parts) == 1 and page.count("</script>") == 2 and "<" not in parts[0]
d = json.loads(parts[0])
# The script of uPlot, or a drawing of each run's loss.
for run in d["runs"]:
    assert ("curve" in run) == ("uPlot (v1." not in page)
    drawing = run.get("curve", "")
    assert not drawing or ElementTree.fromstring(drawing).tag == "{http://www.w3.org/2000/svg}svg"
    assert bool(drawing) == ("curve" in run and "loss" in run["series"]), run["name"]
print(json.dumps(d))
END
}
events() { # events RUN EXPRESSION: of e, the rows
    python3 - "$1" "$2" <<'END'
import json, sys
e = [json.loads(line) for line in open(sys.argv[1] + "/events.jsonl")]
assert all(list(row)[:3] == ["step", "event", "time"] for row in e), e
of = lambda kind: [row for row in e if row["event"] == kind]
assert eval(sys.argv[2]), (sys.argv[2], e)
END
}

# --- a run ---
rude='<img src=x onerror=alert(1)>'
code 0 train "$rude" --sample.every_n_steps=4 --sample.max_new_tokens=5 --name='<img src=x onerror=alert(1)>' --sample.prompt='</script><b>'
says "report: $rude/report.html" out
mv "$rude" run
code 0 "$LEVIN" report run --out=run/report.html
events run '[row["event"] for row in e][0] == "start" and e[-1]["event"] == "end" and e[-1]["text"] == "all steps are done"'
events run 'len(of("validation")) == 2 and of("validation")[1]["step"] == 8 and of("validation")[1]["val_loss"] > 0'
events run '[row["step"] for row in of("checkpoint")] == [4, 8] and len(of("sample")) == 2 and of("sample")[0]["text"].startswith("</script><b>")'
events run '["model.n_embd", "16", "", "command line"] in [[k, v, "", o] for k, v, d, o in e[0]["settings"]] and e[0]["ranks"] == 1'
data run/report.html
json '["name", "<img src=x onerror=alert(1)>"] in [s[:2] for s in d["runs"][0]["events"]["starts"][0]["settings"]] and d["runs"][0]["state"] == "done"'
json 'd["runs"][0]["series"]["loss"]["x"] == [1, 2, 3, 4, 5, 6, 7, 8] and d["runs"][0]["series"]["val_loss"]["x"] == [4, 8]'
json '{"lr", "grad_norm", "tokens_per_s", "memory_bytes", "val_perplexity"} <= set(d["runs"][0]["series"])'
json 'd["runs"][0]["events"]["samples"][0]["prompt"] == "</script><b>" and not d["runs"][0]["problems"]'
json 'd["runs"][0]["events"]["samples"][0]["text"] and "</script>" not in d["runs"][0]["events"]["samples"][0]["text"]'

# --- it is resumed: steps and events of one run, and the cost of the restart ---
code 0 train run --sample.every_n_steps=4 --sample.max_new_tokens=5 --trainer.max_steps=12 --resume
events run 'len(of("resume")) == 1 and of("resume")[0]["step"] == 8 and of("resume")[0]["restarts"] == 1 and of("resume")[0]["goodput"] == 1'
events run 'of("resumed")[0]["step"] == 9 and of("resumed")[0]["restart_seconds"] > 0 and len(of("end")) == 2'
data run/report.html
json 'd["runs"][0]["series"]["loss"]["x"] == list(range(1, 13)) and len(d["runs"][0]["events"]["starts"]) == 2'
# settings stay with the last start; a value that did not change keeps the origin of its first start
json '"settings" not in d["runs"][0]["events"]["starts"][0] and [s[3] for s in d["runs"][0]["events"]["starts"][1]["settings"] if s[0] == "model.n_embd"] == ["command line"]'

# --- killed: events of later steps are cut, those before stay ---
start killed --trainer.max_steps=1000000 --checkpoint.every_n_steps=40 --trainer.val_check_interval=10
while kill -0 $pid 2>/dev/null && [ "$(grep -c checkpoint killed/events.jsonl)" -lt 3 ]; do sleep 0.01; done
kill -KILL $pid
ended
at=$(newest killed)
printf '{"step": 999999, "event": "note", "time": 5, "text": "later"}\n{"step": 1, "event": "no' >>killed/events.jsonl
code 0 train killed --resume --trainer.max_steps=$((at + 3)) --checkpoint.every_n_steps=40 --trainer.val_check_interval=10
events killed 'not of("note") and len(of("start")) == 1 and of("resume")[0]["step"] == '"$at"' and of("end")[-1]["step"] == '$((at + 3))
data killed/report.html
json 'd["runs"][0]["last_step"] == '$((at + 3))' and d["runs"][0]["series"]["loss"]["n"] == '$((at + 3))

# --- switched off ---
code 0 train silent --logger.report=false --logger.events=false
check [ ! -e silent/report.html ]
check [ ! -e silent/events.jsonl ]
silent_about "report:" out
# no metrics, and a report of what exists
code 0 train bare --logger.csv=false --logger.jsonl=false
data bare/report.html
json 'd["runs"][0]["series"] == {} and "no curves can be drawn" in d["runs"][0]["problems"] and d["runs"][0]["events"]["validation"]["step"] == 8'

# --- several runs in one report ---
code 0 "$LEVIN" report run killed --out=both.html
says "report of 2 runs: both.html" out
data both.html
json '[r["path"] for r in d["runs"]] == ["run", "killed"] and all(r["series"]["loss"]["x"] for r in d["runs"])'
mkdir runs
mv run "runs/$rude"
mv killed bare runs
code 0 "$LEVIN" report runs --json --out=all.html
json '[r["name"] for r in d["runs"]] == ["<img src=x onerror=alert(1)>", "bare", "killed"] and d["report"] == "all.html"'
code 0 "$LEVIN" report killed # a name below runs, and the default
check [ -s report.html ]

# a file that levin did not draw stays, unless --overwrite; a page of levin, and an empty file, are replaced
printf 'my notes\n' >notes.txt
code 2 "$LEVIN" report runs --out=notes.txt
says "'notes.txt' exists, and is not a report of levin: give another name with --out, or replace it with --overwrite" err
check [ "$(cat notes.txt)" = 'my notes' ]
code 0 "$LEVIN" report runs --out=all.html
code 0 "$LEVIN" report runs --out=notes.txt --overwrite
has '<meta name="generator" content="levin ' notes.txt
: >notes.txt
code 0 "$LEVIN" report runs --out=notes.txt
# equal settings have equal texts: values given, defaults, and texts that another version wrote
mkdir -p equal/one equal/two
printf '%s\n' '{"step": 0, "event": "start", "settings": [["optimizer.eps", "1e-08", "1e-8", "x"], ["trainer.gradient_clip_val", "1", "1.0", "x"], ["optimizer.lr", "0.0003", "3e-4", "x"], ["trainer.max_steps", "9007199254740993", "0", "x"], ["name", "1.0", "", "x"], ["no.key", "1.0", "1", "x"]]}' >equal/one/events.jsonl
printf '%s\n' '{"step": 0, "event": "start", "settings": [["optimizer.eps", "1e-8", "1e-8", "x"], ["trainer.max_steps", "9007199254740992", "0", "x"]]}' >equal/two/events.jsonl
printf 'optimizer:\n  eps: 1e-8\n' >equal/two/settings.yaml
code 0 "$LEVIN" report equal --out=equal.html
data equal.html
json '[s[:3] for s in d["runs"][0]["events"]["starts"][0]["settings"]] == [["optimizer.eps", "1e-08", "1e-08"], ["trainer.gradient_clip_val", "1", "1"], ["optimizer.lr", "0.0003", "0.0003"], ["trainer.max_steps", "9007199254740993", "0"], ["name", "1.0", ""], ["no.key", "1.0", "1"]]'
json '[s[1:3] for s in d["runs"][1]["events"]["starts"][0]["settings"]] == [["1e-08", "1e-08"], ["9007199254740992", "0"]]'

# --- long samples: the prompt and what the model wrote, with the beginning and the end of each ---
mkdir samples
python3 - >samples/events.jsonl <<'END'
import json
for row in ({"event": "start", "settings": [["sample.prompt", "P" * 9999 + "Q", "", "x"]]},
            {"event": "sample", "text": "P" * 9999 + "Q" + "short"},
            {"event": "sample", "text": "P" * 9999 + "Q" + "B" + "\u00e9" * 6000 + "E"},
            {"event": "sample", "text": "other" + "o" * 9000 + "end"}):
    print(json.dumps({"step": 1, "time": 1, **row}))
END
code 0 "$LEVIN" report samples --out=samples.html
data samples.html
json 'all(s["prompt"].startswith("PPP") and s["prompt"].endswith("PQ") and "9000 bytes are omitted" in s["prompt"] for s in d["runs"][0]["events"]["samples"][:2])'
json 'd["runs"][0]["events"]["samples"][0]["text"] == "short"'
json 'd["runs"][0]["events"]["samples"][1]["text"].startswith("B\u00e9") and d["runs"][0]["events"]["samples"][1]["text"].endswith("\u00e9E") and "\ufffd" not in d["runs"][0]["events"]["samples"][1]["text"]'
json '"prompt" not in d["runs"][0]["events"]["samples"][2] and d["runs"][0]["events"]["samples"][2]["text"].endswith("oend")'

code 2 "$LEVIN" report runs --out=s3://bucket/page.html
says "--out 's3://bucket/page.html' is in a store, and levin report writes to this machine" err

# --- broken and foreign metrics: readable rows are shown, and the others are named ---
mkdir -p odd/csv odd/json odd/empty odd/none
printf 'epoch,step,loss,val\r\n0,1,2.5,x\r\n0,2,2.25,\r\n0,,2,\r\n0,3,inf,7\r\n0,4,2.0' >odd/csv/metrics.csv
printf '{"step": 1, "loss": 2.5, "who": "x"}\nno\n{"loss": 3}\n{"step": 2, "loss": NaN, "a<b": 1e3}\n[1]\n\xff\n{"step": 3, "loss": 2, "deep": {}}\n{"step": 4, "loss": 1.5}\n{"step": 2, "loss": 9}\n' >odd/json/metrics.jsonl
printf '{"step": "x"}\nno\n' >odd/json/events.jsonl
printf '[]' >odd/json/status.json
printf 'trainer: {' >odd/json/settings.yaml
: >odd/empty/metrics.jsonl
code 0 "$LEVIN" report odd --out=odd.html --json
json '[r["path"] for r in d["runs"]] == ["odd/csv", "odd/empty", "odd/json"]'
json 'any("metrics.csv: 1 rows have no step" in p for p in d["runs"][0]["problems"])'
json 'any("metrics.jsonl: 5 lines are not objects of numbers" in p for p in d["runs"][2]["problems"])'
json 'any("events.jsonl: 2 lines are not events" in p for p in d["runs"][2]["problems"])'
json 'any("1 values belong to an earlier step" in p for p in d["runs"][2]["problems"])'
data odd.html
json 'd["runs"][0]["series"] == {"epoch": {"n": 3, "x": [1, 2, 3], "y": [0, 0, 0]}, "loss": {"n": 2, "x": [1, 2], "y": [2.5, 2.25]}, "val": {"n": 1, "x": [3], "y": [7]}}'
json 'd["runs"][2]["series"]["loss"] == {"n": 2, "x": [1, 4], "y": [2.5, 1.5]} and d["runs"][2]["series"]["a<b"]["y"] == [1000]'
code 2 "$LEVIN" report odd/none
says "'odd/none' is not a run and contains none" err
code 2 "$LEVIN" report nowhere
says "there is no run 'nowhere'" err
code 2 "$LEVIN" report odd --out=odd
says "is not the name of a file" err
code 1 "$LEVIN" report odd --out=nowhere/x.html
one_error

# --- 100,000 steps: reduced to the lowest and highest values, so spikes remain ---
mkdir long
awk 'BEGIN { for (i = 1; i <= 100000; i++) printf "{\"step\": %d, \"loss\": %.6f, \"lr\": 0.001, \"time\": %.3f}\n", i, i == 77777 ? 99 : 5 - i / 50000, 1000 + i / 10 }' >long/metrics.jsonl
code 0 "$LEVIN" report long --out=long.html
check [ "$(stat -c %s long.html)" -lt 500000 ]
data long.html
json 'd["runs"][0]["series"]["loss"]["n"] == 100000 and len(d["runs"][0]["series"]["loss"]["x"]) <= 1024 and max(d["runs"][0]["series"]["loss"]["high"]) == 99'
json 'd["runs"][0]["series"]["loss"]["last"] == 3 and d["runs"][0]["series"]["loss"]["y"][-1] > 3'
json 'd["runs"][0]["series"]["loss"]["x"][-1] == 100000 and d["runs"][0]["series"]["time"]["y"][0] < 60'

# --- live runs: drawn again until they end ---
start runs/live --trainer.max_steps=1000000
"$LEVIN" report runs/live --watch --every=0.1 --out=live.html >watch.out 2>&1 &
reader=$!
soon [ -s live.html ]
was=$(stat -c %i live.html)
newer() { [ "$(stat -c %i live.html)" != "$was" ]; }
soon newer
kill -TERM $pid
ended
check [ "$got" = 75 ]
wait $reader
data live.html
json 'd["runs"][0]["state"] == "stopped"'

# --- a page that cannot be written: the old one remains, the run continues, and one warning is printed ---
code 0 train full
cp full/report.html before
arguments full --trainer.max_steps=40 --resume
code 1 bash -c 'ulimit -f 32; exec "$@"' _ "$LEVIN" "${all[@]}"
check [ "$(grep -c 'the report could not be drawn' err)" -le 1 ]
same_file before full/report.html
check [ "$(ls -A full | grep -c 'report.html.tmp')" = 0 ]
# killed at any moment while it draws: the old page or the new one exists
timed "$LEVIN" report full --out=kept.html
kills=0
for k in 1 2 3 4 5 6; do
    killed_midway "$LEVIN" report full --out=kept.html
    data kept.html
done
check [ $kills -gt 0 ]

# --- notes ---
run=$(dirname "$(find . -name metrics.jsonl | head -1)")
printf 'first </script> line\n' >notes.txt
code 0 "$LEVIN" report "$run" --notes=notes.txt --out=noted.html
says '"notes": "first \u003c/script> line\n"' noted.html
code 1 "$LEVIN" report "$run" --notes=none.txt --out=noted.html
says "none.txt" err
