# report.html in a browser: it loads, prints nothing on the console, requests nothing, runs no text of a run as a script,
# and nothing exceeds a width of 390 pixels, in light and dark mode. Needs Chromium.
. "$LEVIN_SOURCE/tests/cli/common.bash"
look() { # look PAGE [options of browser.py]: its answer, as out; PICTURES keeps pictures in that folder
    local got=0 page=$1
    shift
    [ -z "${PICTURES:-}" ] || set -- "$@" --shot "$PICTURES/$(basename "$page" .html)"
    python3 "$LEVIN_SOURCE/tests/cli/browser.py" "$page" "$@" >out || got=$?
    [ "$got" != 77 ] || { cat out; exit 77; }
    check [ "$got" = 0 ]
    json 'd["console"] == [] and d["errors"] == [] and d["requests"] == [] and d["scrolls"] == []'
}
python3 "$LEVIN_SOURCE/tests/cli/browser.py" --probe || exit $?
make_text
rude='<img src=x onerror=document.title=1>'
code 0 train "$rude" --sample.every_n_steps=4 --sample.max_new_tokens=5 --sample.prompt='</script><script>document.title=1</script>' \
    --name='"><svg onload=document.title=1>'
printf '{"step": 9, "event": "note", "time": 5, "text": "<script>document.title=1</script> </script> <!-- \\u2028"}\n' >>"$rude/events.jsonl"
printf '{"step": 9, "<b onclick=x>": 1, "constructor": 2, "__proto__": 3}\n' >>"$rude/metrics.jsonl"
code 0 train other --optimizer.lr=0.01
code 0 train other --optimizer.lr=0.01 --trainer.max_steps=12 --resume
code 0 "$LEVIN" report "$rude" --out=rude.html
look rude.html --script 'document.title' --script 'document.querySelectorAll("img:not(.curve), svg[onload], b[onclick], script").length' \
    --script 'window.uPlot ? charts.filter(c => c.plot).length : 8 * document.querySelectorAll("img.curve").length' --script 'document.querySelector("h1").textContent'
json 'd["values"][0] == "<img src=x onerror=document.title=1> – levin report" and d["values"][1] == 2 and d["values"][2] >= 8'
json 'd["values"][3] == "<img src=x onerror=document.title=1>"'
look other/report.html
# each control draws without a message on the console
has 'uPlot (v1.' rude.html || { echo "skipped: levin was built without uPlot, so the rest of the page has no curves"; exit 77; }
look rude.html --script '[...document.querySelectorAll(".choice button")].forEach(b => b.click()), shown.axis' \
    --script 'document.querySelector(".controls input[type=checkbox]").click(), shown.log' \
    --script 'charts[0].legend.querySelector("button").click(), charts[0].lines[0].hidden'
json 'd["values"] == ["time", True, True]'
code 0 "$LEVIN" report "$rude" other --out=both.html
look both.html --script 'document.querySelectorAll("table")[1].textContent' \
    --script 'showValues(charts[0], charts[0].plot.data[0].length - 1), charts[0].legend.textContent.includes("–")'
json '"optimizer.lr" in d["values"][0] and "0.0003" in d["values"][0] and "0.01" in d["values"][0] and d["values"][1]' # a run that has ended before has no value there
# no label of an axis is cut; scalars that are the same in all attempts have no chart; a log axis is filled
look other/report.html --script 'charts.every(c => c.plot.axes[1]._values.every(v => 15 + 7 * v.length <= c.plot.axes[1]._size))' \
    --script 'charts.filter(c => ["goodput", "restarts", "restart_seconds"].includes(c.group.name)).length' \
    --script 'logRange(1.5, 4.2).concat(logRange(3, 3)).join()'
json 'd["values"][0] and d["values"][1] == 0 and d["values"][2] == "1,5,3,4"'

# 100,000 steps of eight scalars, and two validations of each class of digits
mkdir long
awk 'BEGIN { srand(3); for (i = 1; i <= 100000; i++) {
    printf "{\"step\": %d, \"loss\": %.6f, \"grad_norm\": %.5f, \"lr\": %.6g, \"tokens_per_s\": %.1f, \"epoch\": %.4f, \"time\": %.3f, \"memory_bytes\": %d}\n",
        i, 4 * exp(-i / 30000) + 1.5 + 0.3 * rand(), 1 + rand() * rand() * 4, 1e-3 * (1 - i / 110000), 5e4 + 1e4 * rand(), i / 9000, 1.7e9 + i / 7, 2e9 + i
    if (i % 1000 == 0) printf "{\"step\": %d, \"val_loss\": %.6f, \"val_accuracy\": %.4f}\n", i, 4 * exp(-i / 30000) + 1.6, 1 - exp(-i / 20000) } }' >long/metrics.jsonl
python3 - <<'END'
import json
with open("long/events.jsonl", "w") as f:
    def event(step, kind, **more):
        f.write(json.dumps({"step": step, "event": kind, "time": 1.7e9 + step / 7, **more}) + "\n")
    event(0, "start", name="long", unit="tokens", batch_size=16, block_size=256, ranks=4, hosts=2, max_steps=100000, host=["a", "a", "b", "b"])
    for step in range(500, 100001, 500):
        event(step, "checkpoint", text="long/checkpoints/step-%d" % step)
        if step % 5000 == 0:
            event(step, "sample", text="At step %d it says:\n" % step + "the quick brown fox " * 40)
    event(40000, "resume", restarts=1, goodput=0.97, checkpoint="long/checkpoints/step-40000",
          settings=[["data.sha256", "a1" * 32, "", "recipe.yaml"], ["sample.prompt", "It is " * 2000, "", "command line"]])
    event(40001, "resumed", restarts=1, goodput=0.97, restart_seconds=31.5)
    event(52000, "note", text="rank 3 on b is slow: 0.31 s a step, the median is 0.24 s")
    matrix = [[900 if i == j else (i * 7 + j * 3) % 40 for j in range(10)] for i in range(10)]
    event(99000, "validation", val_loss=1.64, val_accuracy=0.83, best=True, confusion=matrix, classes=["LABEL_%d" % i for i in range(10)])
    event(100000, "validation", val_loss=1.7, val_accuracy=0.82, confusion=matrix, classes=["LABEL_%d" % i for i in range(10)])
    event(100000, "end", text="all steps are done")
END
code 0 "$LEVIN" report long --out=long.html
look long.html --script 'document.querySelectorAll(".confusion").length' --script 'performance.getEntriesByType("navigation")[0].loadEventEnd' \
    --script 'lastValue(report.runs[0], "lr")'
json 'd["values"][0] == 2'
# true last values of thinned series; long values leave the table of settings as wide as its card
json 'd["values"][2] == 9.09091e-05'
look long.html --script '[...document.querySelectorAll(".settings .scroll")].every(b => b.scrollWidth <= b.clientWidth) && document.querySelectorAll(".settings .long").length'
json 'd["values"] == [1]'
echo "100,000 steps: loaded in $(python3 -c 'import json; print("%.2f" % json.load(open("out"))["load_s"])') s at most"
