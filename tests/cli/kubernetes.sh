# kubernetes.sh - the chart agrees with the program: version, parts, keys and values of recipes.
. "$LEVIN_SOURCE/tests/cli/common.bash"
chart=$LEVIN_SOURCE/deploy/helm/levin

says "appVersion: $("$LEVIN" --version | awk 'NR == 1 {print $2}')" "$chart/Chart.yaml"
"$LEVIN" help --options-markdown >options
for part in $(sed -n 's/^The part `\([a-z_]*\)`.*/\1/p' options); do
    says "  $part: {}" "$chart/values.yaml"
done

# The schema has exactly the keys of recipes, and exactly the values of values.yaml.
python3 - "$chart" <<'END'
import json, re, sys
chart = sys.argv[1]
schema = json.load(open(f"{chart}/values.schema.json"))["properties"]
def names(properties): # "trainer.max_steps", or "name" of a property that has no properties itself
    return {f"{name}.{key}".rstrip(".") for name, one in properties.items() for key in one.get("properties", [""])}
def equal(what, schema, page):
    assert len(schema) > 50 and schema == page, f"values.schema.json and {what} differ: {sorted(schema ^ page)}"
recipe = schema.pop("recipe")["properties"]
del schema["global"] # Helm adds it
keys = open("options").read().split("\n## levin ")[0]
equal("the options of recipes", names(recipe), set(re.findall(r"^### ([a-z_0-9.]+)$", keys, re.M)))
values, section = set(), ""
for indent, name, rest in re.findall(r"^( *)([A-Za-z_0-9]+): *(.*)", open(f"{chart}/values.yaml").read(), re.M):
    if not indent: section = name
    if indent or rest and not rest.startswith("#"): values.add(f"{section}.{name}" if indent else name)
equal("values.yaml", names(schema), {v for v in values if not v.startswith("recipe.")})

# An option with a list of values has all of them in the schema; further words of the schema are written to the file `words`.
with open("words", "w") as words:
    lists = re.findall(r"^### (\S+)$(?:(?!^##).)*?^Values: (`[^;\n]*`)", keys, re.M | re.S)
    assert len(lists) > 20, lists
    for key, values in lists:
        part, _, name = key.partition(".")
        one = recipe[part]["properties"][name] if name else recipe[part]
        enum = [word for each in (one, *one.get("anyOf", [])) for word in each.get("enum", [])]
        missing = set(values.strip("`").split("`, `")) - set(enum)
        assert not missing, f"values.schema.json, {key}: add {sorted(missing)} to the enum"
        words.writelines(f"--{key}={word if isinstance(word, str) else json.dumps(word)}\n" for word in enum if f"`{word}`" not in values)
END
while read -r word; do # such as 16-mixed, with which this machine may be unable to train
    "$LEVIN" config words.yaml --overwrite "$word" >out 2>err || silent_about " must be " err
done <words

check test -f "$LEVIN_SOURCE/deploy/kubernetes/gpus.yaml"
