# kubernetes.sh - the chart agrees with the program: version, parts, keys and values of recipes.
. "$LEVIN_SOURCE/tests/cli/common.bash"
chart=$LEVIN_SOURCE/deploy/helm/levin

says "appVersion: $("$LEVIN" --version | awk 'NR == 1 {print $2}')" "$chart/Chart.yaml"
"$LEVIN" help --options-markdown >options
for part in $(sed -n 's/^The part `\([a-z_]*\)`.*/\1/p' options); do
    says "  $part: {}" "$chart/values.yaml"
done

# The schema has the options of recipes, and exactly the values of values.yaml. Words that it has beside those of the page are
# written to the file `words`.
python3 "$LEVIN_SOURCE/tools/make_schema" --check options
python3 - "$chart" <<'END'
import json, re, sys
chart = sys.argv[1]
schema = json.load(open(f"{chart}/values.schema.json"))["properties"]
recipe = schema.pop("recipe")["properties"]
del schema["global"] # Helm adds it
names = {f"{name}.{key}".rstrip(".") for name, one in schema.items() for key in one.get("properties", [""])}
values, section = set(), ""
for indent, name, rest in re.findall(r"^( *)([A-Za-z_0-9]+): *(.*)", open(f"{chart}/values.yaml").read(), re.M):
    if not indent: section = name
    if indent or rest and not rest.startswith("#"): values.add(f"{section}.{name}" if indent else name)
values = {value for value in values if not value.startswith("recipe.")}
assert len(names) > 50 and names == values, f"values.schema.json and values.yaml differ: {sorted(names ^ values)}"
keys = {f"{part}.{key}": one for part in recipe for key, one in recipe[part].get("properties", {}).items()}
page = dict(re.findall(r"^### (\S+)$(?:(?!^##).)*?^Values: (`[^;\n]*`)", open("options").read(), re.M | re.S))
assert len(page) > 20, page
with open("words", "w") as words:
    for key, values in page.items():
        for word in keys.get(key, {}).get("enum", []):
            if f"`{word}`" not in values: words.write(f"--{key}={word if isinstance(word, str) else json.dumps(word)}\n")
END
check [ "$(wc -l <words)" -gt 10 ]
while read -r word; do # such as 16-mixed, with which this machine may be unable to train
    "$LEVIN" config words.yaml --overwrite "$word" >out 2>err || silent_about " must be " err
done <words

check test -f "$LEVIN_SOURCE/deploy/kubernetes/gpus.yaml"
